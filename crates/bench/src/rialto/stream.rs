//! The stream conversation over WebSocket, from the side of a fast client: join, publish with a window, receive, ack.

use super::ws::{self, Kind};
use super::{Network, http};
use crate::drive::{Load, PATIENCE, Socket};
use crate::error::{BenchError, Doing};
use bytes::{Buf, BytesMut};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::net::SocketAddr;

/// The type of the events that are measured.
const MEASURED: &[u8] = b"app.bench";

/// One agent's stream.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) socket: Socket,
}

impl Agent {
    /// Opens a stream and joins. `wishes` is what else the join says, as JSON members.
    pub(crate) async fn join(
        address: SocketAddr,
        network: &Network,
        name: &str,
        wishes: &str,
    ) -> Result<Agent, BenchError> {
        let mut socket = Socket::connect(address).await?;
        let head = format!(
            "GET /ws/{} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            network.id, network.token
        );
        socket.write(head.as_bytes()).await?;
        let answer = http::answer(&mut socket).await?;
        if answer.status != 101 {
            return Err(BenchError::answer(format!("no WebSocket: HTTP {}", answer.status)));
        }
        let mut agent = Agent { socket };
        let join = format!(
            r#"{{"id":"join-{name}","type":"network.agent.join","source":"agent:{name}","target":"core","payload":{{{wishes}}}}}"#
        );
        agent.say(&join).await?;
        agent.until(b"network.event.ack").await?;
        Ok(agent)
    }

    /// Sends one event.
    pub(crate) async fn say(&mut self, event: &str) -> Result<(), BenchError> {
        self.socket.write(&ws::text(event.as_bytes())).await
    }

    /// Reads on until an event of this type comes, and gives it.
    pub(crate) async fn until(&mut self, kind: &[u8]) -> Result<Vec<u8>, BenchError> {
        let found = tokio::time::timeout(PATIENCE, self.find(kind)).await;
        found.map_err(|_| BenchError::Timeout(format!("a {}", String::from_utf8_lossy(kind))))?
    }

    async fn find(&mut self, kind: &[u8]) -> Result<Vec<u8>, BenchError> {
        loop {
            while let Some((frame, from, to)) = ws::decode(&self.socket.input)? {
                let body = self.socket.input.get(from..to).unwrap_or_default().to_vec();
                self.socket.input.advance(to);
                match frame {
                    Kind::Text => {
                        refused(&body)?;
                        if kind_of(&body) == kind {
                            return Ok(body);
                        }
                    }
                    Kind::Ping => self.socket.write(&ws::pong(&body)).await?,
                    Kind::Close => return Err(closed(&body)),
                    Kind::Other => {}
                }
            }
            self.socket.read().await?;
        }
    }

    /// Sends an event to the network's core and waits for its ack.
    pub(crate) async fn ask(&mut self, kind: &str, payload: &Value) -> Result<(), BenchError> {
        self.say(&format!(r#"{{"id":"{}","type":"{kind}","target":"core","payload":{payload}}}"#, fresh_id())).await?;
        self.until(b"network.event.ack").await.map(|_| ())
    }

    /// Leaves the network: nothing more is queued for it. Whether it is told so or not, the stream is over.
    pub(crate) async fn leave(mut self) {
        let nothing = serde_json::json!({});
        let left = self.ask("network.agent.leave", &nothing);
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), left).await;
    }

    /// Reads once and forgets, however long it takes; keeps the stream alive with little memory.
    pub(crate) async fn quiet(&mut self) -> Result<(), BenchError> {
        use tokio::io::AsyncReadExt;
        let mut out = Vec::new();
        frames(&mut self.socket.input, &mut out, |_| Ok(()))?;
        if !out.is_empty() {
            self.socket.write(&out).await?;
        }
        if self.socket.input.is_empty() {
            self.socket.input = BytesMut::new();
            self.socket.tcp.readable().await.doing("read from a server")?;
        }
        self.socket.input.reserve(2048);
        match self.socket.tcp.read_buf(&mut self.socket.input).await.doing("read from a server")? {
            0 => Err(BenchError::answer("the node closed an idle stream")),
            _ => Ok(()),
        }
    }

    /// Reads once, and gives every text that is all there. Dropped while it waits, it loses nothing.
    pub(crate) async fn heard(&mut self) -> Result<Vec<Vec<u8>>, BenchError> {
        let (mut heard, mut out) = (Vec::new(), Vec::new());
        frames(&mut self.socket.input, &mut out, |body| {
            refused(body)?;
            heard.push(body.to_vec());
            Ok(())
        })?;
        if heard.is_empty() {
            self.socket.read().await?;
        }
        if !out.is_empty() {
            self.socket.write(&out).await?;
        }
        Ok(heard)
    }

    /// Waits until the network has seen everything sent on this stream.
    pub(crate) async fn settled(&mut self) -> Result<(), BenchError> {
        self.say(r#"{"type":"network.ping","target":"core","payload":{}}"#).await?;
        self.until(b"network.pong").await.map(|_| ())
    }
}

fn fresh_id() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("bench-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn closed(body: &[u8]) -> BenchError {
    let reason = body.get(2..).unwrap_or_default();
    BenchError::answer(format!("the node closed a stream: {}", String::from_utf8_lossy(reason)))
}

fn refused(body: &[u8]) -> Result<(), BenchError> {
    if kind_of(body) == b"network.event.error" {
        return Err(BenchError::answer(format!("the node refused: {}", String::from_utf8_lossy(body))));
    }
    Ok(())
}

/// The value of a string member near the front of an event, as it is written.
fn member<'a>(event: &'a [u8], key: &[u8]) -> &'a [u8] {
    let Some(at) = event.windows(key.len()).position(|w| w == key) else { return &[] };
    let rest = event.get(at + key.len()..).unwrap_or_default();
    rest.split(|b| *b == b'"').next().unwrap_or_default()
}

/// The type of an event.
pub(crate) fn kind_of(event: &[u8]) -> &[u8] {
    member(event, b"\"type\":\"")
}

/// The id of an event.
pub(crate) fn id_of(event: &[u8]) -> &[u8] {
    member(event, b"\"id\":\"")
}

/// The frame that acks everything up to an event.
pub(crate) fn ack_up_to(id: &[u8]) -> Vec<u8> {
    let id = String::from_utf8_lossy(id);
    ws::text(format!(r#"{{"type":"network.event.ack","target":"core","payload":{{"up_to":"{id}"}}}}"#).as_bytes())
}

/// How many events an ack is for.
fn acked_by(event: &[u8]) -> Result<u64, BenchError> {
    #[derive(Deserialize)]
    struct Ack<'a> {
        #[serde(borrow)]
        payload: &'a RawValue,
    }
    let ack: Ack<'_> = serde_json::from_slice(event)
        .map_err(|_| BenchError::answer(format!("no ack: {}", String::from_utf8_lossy(event))))?;
    accepted(ack.payload.get().as_bytes())
}

/// How many events the payload of an ack is for: one, or a batch.
pub(crate) fn accepted(payload: &[u8]) -> Result<u64, BenchError> {
    #[derive(Deserialize)]
    struct Payload {
        accepted: Option<Vec<IgnoredAny>>,
    }
    let payload: Payload = serde_json::from_slice(payload)
        .map_err(|_| BenchError::answer(format!("no ack: {}", String::from_utf8_lossy(payload))))?;
    Ok(payload.accepted.map_or(1, |list| list.len() as u64))
}

/// A publisher's side: counts acks of what it sent.
#[derive(Debug)]
pub(crate) struct Publisher {
    acked: u64,
    batches: bool,
}

impl Publisher {
    /// `batches`: acks come for whole commits.
    pub(crate) fn new(batches: bool) -> Publisher {
        Publisher { acked: 0, batches }
    }
}

impl Load for Publisher {
    fn take(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<(), BenchError> {
        let batches = self.batches;
        let mut acked = 0;
        frames(input, out, |body| {
            refused(body)?;
            if kind_of(body) == b"network.event.ack" {
                acked += if batches { acked_by(body)? } else { 1 };
            }
            Ok(())
        })?;
        self.acked += acked;
        Ok(())
    }

    fn done(&self) -> u64 {
        self.acked
    }
}

/// A receiver's side: counts measured events and remembers the last.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Measured events so far.
    pub(crate) count: u64,
    /// The id of the last one.
    pub(crate) last: Vec<u8>,
}

impl Received {
    /// Takes what was read; `out` gets what must be answered.
    pub(crate) fn take(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<(), BenchError> {
        frames(input, out, |body| match measured(body) {
            Some(id) => {
                self.count += 1;
                self.last.clear();
                self.last.extend_from_slice(id);
                Ok(())
            }
            None => refused(body),
        })
    }
}

/// The id of an event that is measured. Looks at the front first, where the node writes what it needs.
fn measured(event: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = event.strip_prefix(b"{\"id\":\"")
        && let Some(end) = rest.iter().position(|b| *b == b'"')
        && let Some((id, rest)) = rest.split_at_checked(end)
        && rest.strip_prefix(b"\",\"type\":\"").is_some_and(|rest| rest.starts_with(MEASURED))
    {
        return Some(id);
    }
    (kind_of(event) == MEASURED).then(|| id_of(event))
}

/// Gives every whole text to `each` and takes it off the input.
fn frames(
    input: &mut BytesMut,
    out: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let mut at = 0;
    loop {
        let rest = input.get(at..).unwrap_or_default();
        let Some((kind, from, to)) = ws::decode(rest)? else { break };
        let body = rest.get(from..to).unwrap_or_default();
        match kind {
            Kind::Text => each(body)?,
            Kind::Ping => out.extend_from_slice(&ws::pong(body)),
            Kind::Close => return Err(closed(body)),
            Kind::Other => {}
        }
        at += to;
    }
    input.advance(at);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> Vec<u8> {
        let n = u16::try_from(text.len()).unwrap();
        let mut out = vec![0x81, 126];
        out.extend_from_slice(&n.to_be_bytes());
        out.extend_from_slice(text.as_bytes());
        out
    }

    #[test]
    fn members_near_the_front() {
        let event = br#"{"id":"01ABC","type":"app.bench","source":"agent:a"}"#;
        assert_eq!((id_of(event), kind_of(event)), (&b"01ABC"[..], MEASURED));
        assert_eq!(kind_of(b"{}"), b"");
    }

    #[test]
    fn acks_are_counted_singly_and_in_batches() {
        let batch = server(r#"{"id":"x","type":"network.event.ack","payload":{"accepted":[["a",1],["b",2]]}}"#);
        let single = server(r#"{"id":"y","type":"network.event.ack","payload":{"status":"accepted","seq":3}}"#);
        let mut load = Publisher::new(true);
        let mut input = BytesMut::from(&[batch.clone(), single.clone(), vec![0x81]].concat()[..]);
        load.take(&mut input, &mut Vec::new()).unwrap();
        assert_eq!((load.done(), input.len()), (3, 1));
        let mut refusal = BytesMut::from(&server(r#"{"type":"network.event.error","payload":{}}"#)[..]);
        assert!(load.take(&mut refusal, &mut Vec::new()).is_err());
    }

    #[test]
    fn only_measured_events_are_counted() {
        let mut received = Received::default();
        let texts = [r#"{"id":"1","type":"app.bench"}"#, r#"{"id":"2","type":"network.agent.joined"}"#];
        let mut input = BytesMut::from(&texts.map(server).concat()[..]);
        received.take(&mut input, &mut Vec::new()).unwrap();
        assert_eq!((received.count, &received.last[..]), (1, &b"1"[..]));
    }
}
