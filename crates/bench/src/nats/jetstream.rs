//! A connection to NATS that speaks the protocol itself: streams, consumers, and loads with encoded messages.

use super::frame::{Said, decode, publish};
use crate::drive::{Load, Socket};
use crate::error::BenchError;
use bytes::{Buf, BytesMut};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Where answers to this connection's requests come.
const REPLIES: &str = "_INBOX.bench.api";

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: Socket,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Result<Client, BenchError> {
        let mut client = Client { socket: Socket::connect(address).await? };
        client.socket.write(b"CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n").await?;
        client.settled().await?;
        Ok(client)
    }

    /// Waits until the server has seen everything sent on this connection.
    pub(crate) async fn settled(&mut self) -> Result<(), BenchError> {
        self.socket.write(b"PING\r\n").await?;
        self.until(|said| matches!(said, Said::Pong).then_some(())).await
    }

    /// Gets what is published to a subject.
    pub(crate) async fn subscribe(&mut self, subject: &str) -> Result<(), BenchError> {
        self.socket.write(format!("SUB {subject} 1\r\n").as_bytes()).await?;
        self.settled().await
    }

    /// Reads on until something is found.
    async fn until<T>(&mut self, mut find: impl FnMut(&Said<'_>) -> Option<T>) -> Result<T, BenchError> {
        loop {
            while let Some((said, n)) = decode(&self.socket.input)? {
                let (found, ping) = (find(&said), said == Said::Ping);
                self.socket.input.advance(n);
                if ping {
                    self.socket.write(b"PONG\r\n").await?;
                }
                if let Some(found) = found {
                    return Ok(found);
                }
            }
            self.socket.read().await?;
        }
    }

    /// Asks the JetStream API.
    async fn ask(&mut self, subject: &str, request: &Value) -> Result<Value, BenchError> {
        self.socket.write(format!("SUB {REPLIES} 7\r\n").as_bytes()).await?;
        self.socket.write(&publish(subject, REPLIES, request.to_string().as_bytes())).await?;
        let answer = self.until(|said| match said {
            Said::Message { subject, payload, .. } if *subject == REPLIES.as_bytes() => Some(payload.to_vec()),
            Said::Message { .. } | Said::Ping | Said::Pong | Said::Other => None,
        });
        let answer = answer.await?;
        self.socket.write(b"UNSUB 7\r\n").await?;
        let value: Value = serde_json::from_slice(&answer)
            .map_err(|_| BenchError::answer(format!("JetStream: {}", String::from_utf8_lossy(&answer))))?;
        match value.get("error") {
            Some(error) => Err(BenchError::answer(format!("JetStream: {error}"))),
            None => Ok(value),
        }
    }

    /// Makes a stream on files that takes one subject.
    pub(crate) async fn make_stream(&mut self, name: &str, subject: &str) -> Result<(), BenchError> {
        let config = json!({ "name": name, "subjects": [subject], "storage": "file", "retention": "limits",
            "discard": "old", "num_replicas": 1, "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0 });
        self.ask(&format!("$JS.API.STREAM.CREATE.{name}"), &config).await.map(|_| ())
    }

    /// Makes a pull consumer of a stream with explicit acks.
    pub(crate) async fn make_consumer(&mut self, stream: &str, name: &str) -> Result<(), BenchError> {
        let config = json!({ "stream_name": stream, "config": { "durable_name": name, "ack_policy": "explicit",
            "deliver_policy": "all", "replay_policy": "instant", "max_ack_pending": 200_000 } });
        self.ask(&format!("$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{name}"), &config).await.map(|_| ())
    }

    /// Deletes a stream and its messages.
    pub(crate) async fn delete_stream(&mut self, name: &str) -> Result<(), BenchError> {
        self.ask(&format!("$JS.API.STREAM.DELETE.{name}"), &json!({})).await.map(|_| ())
    }
}

/// Counts what comes back for publishes: each message is one ack.
#[derive(Debug, Default)]
pub(crate) struct Acks(u64);

impl Load for Acks {
    fn take(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<(), BenchError> {
        let mut at = 0;
        while let Some((said, n)) = decode(input.get(at..).unwrap_or_default())? {
            match said {
                // An ack names the stream and the position; a refusal says error instead.
                Said::Message { payload, headers, .. } => {
                    if headers || payload.starts_with(b"{\"error\"") {
                        return Err(BenchError::answer(format!("JetStream: {}", String::from_utf8_lossy(payload))));
                    }
                    self.0 += 1;
                }
                Said::Ping => out.extend_from_slice(b"PONG\r\n"),
                Said::Pong | Said::Other => {}
            }
            at += n;
        }
        input.advance(at);
        Ok(())
    }

    fn done(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_are_counted_and_pings_answered() {
        let (mut acks, mut out) = (Acks::default(), Vec::new());
        let mut input = BytesMut::from(&b"MSG r 1 3\r\n{ }\r\nPING\r\nMSG r 1 3\r\n{ }\r\nMSG r"[..]);
        acks.take(&mut input, &mut out).unwrap();
        assert_eq!((acks.done(), &out[..], &input[..]), (2, &b"PONG\r\n"[..], &b"MSG r"[..]));
        let mut refused = BytesMut::from(&b"MSG r 1 12\r\n{\"error\":{}}\r\n"[..]);
        assert!(acks.take(&mut refused, &mut out).is_err());
    }
}
