//! A WebSocket client that decides how much it reads, and sees every frame.

use super::Server;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Far more than anything here takes.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// What the server said.
#[derive(Debug, PartialEq)]
pub(crate) enum TrackedBody {
    Event(Box<Value>),
    Ping,
    Close(u16, String),
    Gone,
}

/// A client that decides how much it reads.
pub(crate) struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    /// Bytes read at once.
    gulp: usize,
}

impl Client {
    pub(crate) async fn connect(server: &Server, tiny: bool) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        if tiny {
            socket.set_recv_buffer_size(1).unwrap();
        }
        let mut stream = socket.connect(server.addr).await.unwrap();
        let admin = server.node.admin_secret().expose();
        let upgrade = format!(
            "GET /ws/main?token={admin} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            server.addr
        );
        stream.write_all(upgrade.as_bytes()).await.unwrap();
        let mut client = Client { stream, input: Vec::new(), gulp: if tiny { 700 } else { 64 << 10 } };
        while !client.input.ends_with(b"\r\n\r\n") {
            assert!(client.read().await, "no upgrade: {}", String::from_utf8_lossy(&client.input));
        }
        client.input.clear();
        client
    }

    pub(crate) async fn join(server: &Server, name: &str, tiny: bool) -> Client {
        let mut client = Client::connect(server, tiny).await;
        let payload = json!({ "window": 4096 });
        let join =
            json!({ "id": "join", "type": "network.agent.join", "source": name, "target": "core", "payload": payload });
        client.send(&join).await;
        client.answer("join").await;
        client
    }

    pub(crate) async fn frame(&mut self, opcode: u8, data: &[u8]) {
        let mut out = vec![0x80 | opcode, 0x80 | 127];
        out.extend_from_slice(&(data.len() as u64).to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(data);
        if data.len() < 126 {
            out.splice(1..10, [0x80 | u8::try_from(data.len()).unwrap()]);
        }
        self.stream.write_all(&out).await.unwrap();
    }

    pub(crate) async fn send(&mut self, event: &Value) {
        self.frame(1, event.to_string().as_bytes()).await;
    }

    pub(crate) async fn read(&mut self) -> bool {
        let mut piece = vec![0; self.gulp];
        let read = tokio::time::timeout(SOON, self.stream.read(&mut piece)).await.unwrap().unwrap_or(0);
        self.input.extend_from_slice(&piece[..read]);
        read > 0
    }

    /// What the server says next, its pings apart.
    pub(crate) async fn next(&mut self) -> TrackedBody {
        loop {
            let said = self.heard().await;
            if said != TrackedBody::Ping {
                return said;
            }
        }
    }

    /// What the server says next.
    pub(crate) async fn heard(&mut self) -> TrackedBody {
        loop {
            let (len, from) = match self.input.get(1) {
                Some(126) if self.input.len() >= 4 => (u16::from_be_bytes([self.input[2], self.input[3]]).into(), 4),
                Some(127) if self.input.len() >= 10 => {
                    (usize::try_from(u64::from_be_bytes(self.input[2..10].try_into().unwrap())).unwrap(), 10)
                }
                Some(short) if *short < 126 => (usize::from(*short), 2),
                _ => (usize::MAX - 16, 16),
            };
            if self.input.len() < from + len {
                if !self.read().await {
                    return TrackedBody::Gone;
                }
                continue;
            }
            let frame: Vec<u8> = self.input.drain(..from + len).collect();
            let data = &frame[from..];
            match frame[0] {
                0x81 => return TrackedBody::Event(serde_json::from_slice(data).unwrap()),
                0x88 => {
                    let reason = String::from_utf8(data[2..].to_vec()).unwrap();
                    return TrackedBody::Close(u16::from_be_bytes([data[0], data[1]]), reason);
                }
                0x89 => return TrackedBody::Ping,
                0x8A => {}
                other => panic!("a frame that begins with {other:#x}: the bytes are out of step"),
            }
        }
    }

    pub(crate) async fn event(&mut self) -> Value {
        match self.next().await {
            TrackedBody::Event(event) => *event,
            end @ (TrackedBody::Ping | TrackedBody::Close(..) | TrackedBody::Gone) => {
                panic!("an event was expected, not {end:?}")
            }
        }
    }

    /// Waits for the ack of an event, past others.
    pub(crate) async fn answer(&mut self, id: &str) {
        loop {
            let event = self.event().await;
            if event["metadata"]["in_reply_to"] == id {
                return assert_eq!(event["type"], "network.event.ack", "{event}");
            }
        }
    }

    /// Receives notes `from..to`, in order.
    pub(crate) async fn notes(&mut self, from: usize, to: usize) {
        let mut next = from;
        while next < to {
            let event = self.event().await;
            if event["type"] == "app.note" {
                assert_eq!(event["id"], format!("n{next}"), "out of order");
                next += 1;
            }
        }
    }
}
