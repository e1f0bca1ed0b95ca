//! A WebSocket agent that costs its test next to nothing: no buffers of its own but one small one, so that thousands fit.

use super::{Network, join, soon};
use serde_json::Value;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A joined agent.
#[derive(Debug)]
pub struct Quiet {
    stream: TcpStream,
}

impl Quiet {
    /// Connects and joins. With `receive_bytes` the system holds about so much for it and no more.
    pub async fn join(
        address: SocketAddr,
        network: &Network,
        agent: &str,
        options: &Value,
        receive_bytes: Option<u32>,
    ) -> Result<Quiet> {
        let socket = TcpSocket::new_v4()?;
        if let Some(bytes) = receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        let mut quiet = Quiet { stream };
        let head = format!(
            "GET /ws/{} HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            network.id
        );
        quiet.stream.write_all(head.as_bytes()).await?;
        quiet.upgraded().await?;
        quiet.text(&join(agent, &network.token, options).to_string()).await?;
        let answer = soon("the answer to a join", quiet.next_text()).await?;
        if answer.contains("network.event.ack") { Ok(quiet) } else { Err(Error::other(answer)) }
    }

    /// Reads the answer to the upgrade, not a byte more.
    async fn upgraded(&mut self) -> Result<()> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await?);
        }
        if head.starts_with(b"HTTP/1.1 101") { Ok(()) } else { Err(Error::other(String::from_utf8_lossy(&head))) }
    }

    /// Sends a text.
    pub async fn text(&mut self, text: &str) -> Result<()> {
        self.send(TEXT, text.as_bytes()).await
    }

    /// Sends a frame; masked with zeros, as a client must mask.
    async fn send(&mut self, kind: u8, payload: &[u8]) -> Result<()> {
        let mut frame = vec![0x80 | kind];
        match u16::try_from(payload.len()) {
            Ok(small @ ..=125) => frame.push(0x80 | small as u8),
            Ok(length) => {
                frame.push(0x80 | 126);
                frame.extend_from_slice(&length.to_be_bytes());
            }
            Err(_) => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).await
    }

    /// The next frame: what it is, and its bytes.
    async fn frame(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).await?;
        let length = match head[1] & 0x7f {
            126 => u64::from(self.stream.read_u16().await?),
            127 => self.stream.read_u64().await?,
            small => u64::from(small),
        };
        let mut payload = vec![0; usize::try_from(length).map_err(|_| ErrorKind::InvalidData)?];
        self.stream.read_exact(&mut payload).await?;
        Ok((head[0] & 0x0f, payload))
    }

    /// The next text; pings are answered on the way. Not to be dropped half way.
    pub async fn next_text(&mut self) -> Result<String> {
        loop {
            match self.frame().await? {
                (TEXT, payload) => return String::from_utf8(payload).map_err(Error::other),
                (PING, payload) => self.send(PONG, &payload).await?,
                (CLOSE, payload) => {
                    return Err(Error::new(ErrorKind::ConnectionAborted, format!("closed: {payload:?}")));
                }
                _ => {}
            }
        }
    }

    /// Reads and forgets until the connection ends; gives how it ended.
    pub async fn drain(mut self) -> Error {
        loop {
            if let Err(error) = self.next_text().await {
                return error;
            }
        }
    }
}
