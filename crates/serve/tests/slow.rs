//! WebSocket readers that take their time: whatever the socket takes at once, events come whole, in order and before
//! any goodbye.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]

mod common;

use common::{Server, server};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Far more than anything here takes.
const SOON: Duration = Duration::from_secs(60);

/// What the server said.
#[derive(Debug, PartialEq)]
enum Said {
    Event(Box<Value>),
    Close(u16, String),
    Gone,
}

/// A client that decides how much it reads.
struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    /// Bytes read at once.
    gulp: usize,
}

impl Client {
    async fn connect(server: &Server, tiny: bool) -> Client {
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

    async fn join(server: &Server, name: &str, tiny: bool) -> Client {
        let mut client = Client::connect(server, tiny).await;
        let payload = json!({ "window": 4096 });
        let join =
            json!({ "id": "join", "type": "network.agent.join", "source": name, "target": "core", "payload": payload });
        client.send(&join).await;
        client.answer("join").await;
        client
    }

    async fn frame(&mut self, opcode: u8, data: &[u8]) {
        let mut out = vec![0x80 | opcode, 0x80 | 127];
        out.extend_from_slice(&(data.len() as u64).to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(data);
        if data.len() < 126 {
            out.splice(1..10, [0x80 | u8::try_from(data.len()).unwrap()]);
        }
        self.stream.write_all(&out).await.unwrap();
    }

    async fn send(&mut self, event: &Value) {
        self.frame(1, event.to_string().as_bytes()).await;
    }

    async fn read(&mut self) -> bool {
        let mut piece = vec![0; self.gulp];
        let read = tokio::time::timeout(SOON, self.stream.read(&mut piece)).await.unwrap().unwrap_or(0);
        self.input.extend_from_slice(&piece[..read]);
        read > 0
    }

    async fn next(&mut self) -> Said {
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
                    return Said::Gone;
                }
                continue;
            }
            let frame: Vec<u8> = self.input.drain(..from + len).collect();
            let data = &frame[from..];
            match frame[0] {
                0x81 => return Said::Event(serde_json::from_slice(data).unwrap()),
                0x88 => {
                    let reason = String::from_utf8(data[2..].to_vec()).unwrap();
                    return Said::Close(u16::from_be_bytes([data[0], data[1]]), reason);
                }
                0x89 | 0x8A => {}
                other => panic!("a frame that begins with {other:#x}: the bytes are out of step"),
            }
        }
    }

    async fn event(&mut self) -> Value {
        match self.next().await {
            Said::Event(event) => *event,
            end @ (Said::Close(..) | Said::Gone) => panic!("an event was expected, not {end:?}"),
        }
    }

    /// Waits for the ack of an event, past others.
    async fn answer(&mut self, id: &str) {
        loop {
            let event = self.event().await;
            if event["metadata"]["in_reply_to"] == id {
                return assert_eq!(event["type"], "network.event.ack", "{event}");
            }
        }
    }

    /// Receives notes `from..to`, in order.
    async fn notes(&mut self, from: usize, to: usize) {
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

/// Sends notes of about 2 KiB, fifty to a frame.
async fn publish(sender: &mut Client, from: usize, to: usize) {
    let pad = "x".repeat(2000);
    let note = |n| json!({ "id": format!("n{n}"), "type": "app.note", "target": "channel/general", "payload": { "pad": pad } });
    for first in (from..to).step_by(50) {
        let notes: Vec<Value> = (first..to.min(first + 50)).map(note).collect();
        sender.send(&json!(notes)).await;
        for n in first..to.min(first + 50) {
            sender.answer(&format!("n{n}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stalls_in_a_shared_block_gets_the_rest_of_it_and_others_do_not_wait() {
    let server = server(100).await;
    let mut tiny = Client::join(&server, "agent:tiny", true).await;
    let mut quick = Client::join(&server, "agent:quick", false).await;
    let mut sender = Client::join(&server, "agent:sender", false).await;
    const NOTES: usize = 4000;
    // It has the beginning of something, and reads no more until everybody else has everything.
    tiny.notes(0, 0).await;
    let reading = tokio::spawn(async move {
        quick.notes(0, NOTES).await;
        quick
    });
    publish(&mut sender, 0, NOTES).await;
    let _quick = reading.await.unwrap();
    // Two notes later it stalls again, in the middle of one.
    tiny.notes(0, 2).await;
    tiny.read().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    tiny.notes(2, NOTES).await;
    server.stop.cancel();
    server.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_before_the_goodbye() {
    let server = server(100).await;
    for tiny in [true, false] {
        // The client says goodbye right behind its events …
        let mut hasty = Client::join(&server, "agent:hasty", tiny).await;
        let notes: Vec<Value> = (0..500)
            .map(|n| json!({ "id": format!("{tiny}{n}"), "type": "app.note", "target": "core", "payload": {} }))
            .collect();
        hasty.send(&json!(notes)).await;
        hasty.frame(8, &1000u16.to_be_bytes()).await;
        for n in 0..500 {
            hasty.answer(&format!("{tiny}{n}")).await;
        }
        assert_eq!(hasty.next().await, Said::Close(1000, String::new()));
        assert_eq!(hasty.next().await, Said::Gone);
        // … or leaves the network.
        let mut leaver = Client::join(&server, "agent:leaver", tiny).await;
        let leave = json!({ "id": format!("leave{tiny}"), "type": "network.agent.leave", "target": "core" });
        leaver.send(&leave).await;
        leaver.answer(&format!("leave{tiny}")).await;
        assert_eq!(leaver.next().await, Said::Close(1000, "left".into()));
        // … or breaks the rules in the middle of it.
        let mut rude = Client::join(&server, "agent:rude", tiny).await;
        rude.send(&json!({ "id": format!("good{tiny}"), "type": "app.note", "target": "core", "payload": {} })).await;
        rude.frame(2, b"binary").await;
        rude.answer(&format!("good{tiny}")).await;
        assert_eq!(rude.next().await, Said::Close(1003, "text frames only".into()));
    }
    server.stop.cancel();
    server.node.stop().await;
}

/// Whether one more connection gets an answer.
async fn is_served(server: &Server) -> bool {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let ask = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", server.addr);
    // A connection that is closed at once may not take the question.
    let _ = stream.write_all(ask.as_bytes()).await;
    matches!(tokio::time::timeout(SOON, stream.read(&mut [0; 1])).await.unwrap(), Ok(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_takes_the_place_of_its_connection_until_it_ends() {
    let server = server(2).await;
    let mut first = Client::join(&server, "agent:first", false).await;
    let _second = Client::join(&server, "agent:second", false).await;
    assert!(!is_served(&server).await, "two places are taken by two streams");
    first.frame(8, &1000u16.to_be_bytes()).await;
    while first.next().await != Said::Gone {}
    // Its place is free once its task has ended, a moment after its last word.
    for attempt in 0.. {
        if is_served(&server).await {
            break;
        }
        assert!(attempt < 500, "a freed place is given again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.stop.cancel();
    server.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_said_to_members_and_strangers() {
    let server = server(100).await;
    let mut stranger = Client::connect(&server, false).await;
    let mut member = Client::join(&server, "agent:member", true).await;
    server.stop.cancel();
    server.node.stop().await;
    for client in [&mut stranger, &mut member] {
        while client.event().await["payload"]["code"] != "shutting_down" {}
        assert_eq!(client.next().await, Said::Close(1001, "shutting_down".into()));
    }
}
