//! The stream conversation over gRPC: protobuf events encoded before, many to a write, and acks counted.

use super::{Network, Rialto};
use crate::budget::{Budget, Length, Sample};
use crate::drive::PATIENCE;
use crate::error::{BenchError, Doing};
use crate::goals::WINDOW;
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Method, Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Events in one write.
const CHUNK: u64 = 256;
/// What a stream may have on its way to us.
const RECEIVE_BYTES: u32 = 4 << 20;

/// Publishes on one stream, and waits for the last ack.
pub(crate) async fn ingest(
    node: &Rialto,
    network: &Network,
    name: &str,
    size: usize,
    length: Length,
) -> Result<Sample, BenchError> {
    let (chunks, body) = mpsc::channel::<Bytes>(4);
    let source = format!("agent:{name}");
    let join = [
        ("id", format!("join-{name}")),
        ("type", "network.agent.join".to_owned()),
        ("source", source.clone()),
        ("target", "core".to_owned()),
        ("payload", r#"{"acks":"batch"}"#.to_owned()),
        ("network", network.id.clone()),
    ];
    send(&chunks, message(&join).into()).await?;
    let mut answers = Answers { body: connect(node.address, network, body).await?, input: BytesMut::new() };
    answers.more().await?; // the join's ack: nothing is measured before it
    let first = answers.acked()?;
    if first != 1 {
        return Err(BenchError::answer("gRPC: the join was not answered"));
    }
    let chunk = Bytes::from(event(size, &source).repeat(usize::try_from(CHUNK).unwrap_or(1)));
    let mut budget = Budget::begin(node.pid(), length)?;
    let (mut sent, mut acked) = (0, 0);
    loop {
        let stop = sent > 0 && budget.spent()?;
        if stop && acked >= sent {
            return budget.end(sent);
        }
        tokio::select! {
            permit = chunks.reserve(), if !stop && sent + CHUNK <= acked + WINDOW => {
                permit.map_err(|_| BenchError::answer("gRPC: the stream ended"))?.send(chunk.clone());
                sent += CHUNK;
            }
            more = answers.more() => {
                more?;
                acked += answers.acked()?;
            }
        }
    }
}

async fn send(chunks: &mpsc::Sender<Bytes>, bytes: Bytes) -> Result<(), BenchError> {
    chunks.send(bytes).await.map_err(|_| BenchError::answer("gRPC: the stream ended"))
}

async fn connect(
    address: SocketAddr,
    network: &Network,
    mut chunks: mpsc::Receiver<Bytes>,
) -> Result<Incoming, BenchError> {
    let failed = |e: hyper::Error| BenchError::answer(format!("gRPC: {e}"));
    let tcp = TcpStream::connect(address).await.doing(format!("connect to {address}"))?;
    tcp.set_nodelay(true).doing("set up a connection")?;
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(RECEIVE_BYTES).initial_connection_window_size(RECEIVE_BYTES);
    let (mut client, connection) = builder.handshake(TokioIo::new(tcp)).await.map_err(failed)?;
    tokio::spawn(connection); // ends with the stream
    let stream = futures_util::stream::poll_fn(move |cx| {
        chunks.poll_recv(cx).map(|chunk| chunk.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes))))
    });
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("http://{address}/rialto.v1.Network/Connect"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("authorization", format!("Bearer {}", network.token))
        .body(StreamBody::new(stream))
        .map_err(|e| BenchError::answer(format!("gRPC: {e}")))?;
    let answer = tokio::time::timeout(PATIENCE, client.send_request(request)).await;
    let answer = answer.map_err(|_| BenchError::Timeout("gRPC".to_owned()))?.map_err(failed)?;
    Ok(answer.into_body())
}

/// What comes back.
struct Answers {
    body: Incoming,
    input: BytesMut,
}

impl Answers {
    /// Waits for more bytes.
    async fn more(&mut self) -> Result<(), BenchError> {
        let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await;
        let frame = frame.map_err(|_| BenchError::Timeout("gRPC".to_owned()))?;
        let frame = frame.ok_or_else(|| BenchError::answer("gRPC: the stream ended"))?;
        let frame = frame.map_err(|e| BenchError::answer(format!("gRPC: {e}")))?;
        match frame.into_data() {
            Ok(data) => self.input.extend_from_slice(&data),
            Err(frame) => return Err(BenchError::answer(format!("gRPC: {:?}", frame.trailers_ref()))),
        }
        Ok(())
    }

    /// Events acked by the whole messages that are here.
    fn acked(&mut self) -> Result<u64, BenchError> {
        let mut acked = 0;
        while let Some(length) = whole(&self.input) {
            let message = self.input.get(5..length).unwrap_or_default();
            match field(message, 2) {
                Some(b"network.event.ack") => {
                    acked += super::stream::accepted(field(message, 5).unwrap_or_default())?;
                }
                Some(b"network.event.error") => {
                    let payload = field(message, 5).unwrap_or_default();
                    return Err(BenchError::answer(format!("gRPC: {}", String::from_utf8_lossy(payload))));
                }
                _ => {}
            }
            self.input.advance(length);
        }
        Ok(acked)
    }
}

/// Bytes of the first message with its head, if it is all there.
fn whole(bytes: &[u8]) -> Option<usize> {
    let [_, a, b, c, d, ..] = bytes else { return None };
    let length = usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).ok()? + 5;
    (bytes.len() >= length).then_some(length)
}

/// Numbers of `rialto.v1.Event`.
const FIELDS: [(&str, u8); 6] = [("id", 1), ("type", 2), ("source", 3), ("target", 4), ("payload", 5), ("network", 8)];

/// An event of so many bytes as JSON would have.
fn event(size: usize, source: &str) -> Vec<u8> {
    let parts = |payload: &str| {
        let fixed = [("type", "app.bench"), ("source", source), ("target", "channel/general"), ("payload", payload)];
        fixed.map(|(name, value)| (name, value.to_owned()))
    };
    // What the names and quotes of JSON take is left to the payload.
    let names = r#"{"type":"","source":"","target":"","payload":}"#.len();
    let fixed = names + "app.bench".len() + source.len() + "channel/general".len() + r#"{"n":1,"pad":""}"#.len();
    let pad = "x".repeat(size.saturating_sub(fixed));
    message(&parts(&format!(r#"{{"n":1,"pad":"{pad}"}}"#)))
}

/// A gRPC message: no compression, length, fields of text or bytes.
fn message(parts: &[(&str, String)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in parts {
        if let Some((_, number)) = FIELDS.iter().find(|(known, _)| known == name) {
            body.push(number << 3 | 2);
            push_varint(&mut body, value.len());
            body.extend_from_slice(value.as_bytes());
        }
    }
    let mut out = vec![0];
    out.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&body);
    out
}

fn push_varint(out: &mut Vec<u8>, mut n: usize) {
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

/// The bytes of a field of a message.
fn field(mut message: &[u8], number: u64) -> Option<&[u8]> {
    while !message.is_empty() {
        let (tag, rest) = varint(message)?;
        message = match tag & 7 {
            0 => varint(rest)?.1,
            1 => rest.get(8..)?,
            5 => rest.get(4..)?,
            2 => {
                let (length, rest) = varint(rest)?;
                let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                if tag >> 3 == number {
                    return Some(value);
                }
                rest
            }
            _ => return None,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_there_and_back() {
        let long = "y".repeat(300);
        let sent = message(&[("type", "app.x".to_owned()), ("payload", long.clone())]);
        assert_eq!(whole(&sent), Some(sent.len()));
        assert_eq!(whole(&sent[..sent.len() - 1]), None);
        assert_eq!(field(&sent[5..], 2), Some(&b"app.x"[..]));
        assert_eq!(field(&sent[5..], 5), Some(long.as_bytes()));
        assert_eq!(field(&sent[5..], 7), None);
        assert_eq!(field(&[0x38, 0x96, 0x01, 0x12, 1, b'z'], 2), Some(&b"z"[..]), "a number is passed over");
        assert_eq!(field(&[0x12, 9, b'z'], 2), None, "cut short");
    }

    #[test]
    fn events_carry_what_json_events_of_the_size_do() {
        let (grpc, json) = (event(256, "agent:g1"), super::super::event(256, "agent:g1", "channel/general").unwrap());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(field(&grpc[5..], 5).unwrap().len(), json["payload"].to_string().len());
    }
}
