//! Subscribers that stop reading, and those beside them that go on.

use super::gather;
use crate::harness::{Quiet, Server, resident_bytes};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What the system holds for a stalled reader, about: little, so that it is soon full.
const RECEIVE_BYTES: u32 = 4 << 10;
/// Payload of the events that fill the stalled readers' windows.
const FILL_BYTES: usize = 4 << 10;
/// More than a window.
const FILL_EVENTS: usize = 400;

/// Readers that keep up, and a sender.
#[derive(Debug)]
pub struct Readers {
    sender: Quiet,
    readers: Vec<Quiet>,
    sent: u64,
}

/// How long events took from the sender's hand to the readers'.
#[derive(Debug, Clone)]
pub struct Latency {
    sorted: Vec<Duration>,
}

impl Latency {
    /// The time below which this share of all deliveries stayed.
    pub fn quantile(&self, share: f64) -> Duration {
        let at = (share * (self.sorted.len() - 1) as f64) as usize;
        self.sorted[at]
    }

    /// Deliveries measured.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }
}

fn id_of(text: &str) -> Option<u64> {
    let event: Value = serde_json::from_str(text).unwrap();
    (event["type"] == "test.note.posted")
        .then(|| event["id"].as_str().unwrap().rsplit('-').next().unwrap().parse().unwrap())
}

impl Readers {
    /// Joins a sender and so many readers.
    pub async fn join(server: &Server, count: usize) -> Readers {
        let network = server.main();
        let readers = gather(server, &network, "reader", count, &json!({ "window": 4096 }), None).await;
        let sender = gather(server, &network, "sender", 1, &json!({}), None).await.remove(0);
        Readers { sender, readers, sent: 0 }
    }

    async fn send(&mut self, bytes: usize) -> Instant {
        self.sent += 1;
        let event = json!({ "id": format!("note-{}", self.sent), "type": "test.note.posted", "target": "agent:broadcast",
            "payload": { "content": "x".repeat(bytes) } });
        let now = Instant::now();
        self.sender.text(&event.to_string()).await.unwrap();
        // The answer, so that one event is on its way at a time.
        while !self.sender.next_text().await.unwrap().contains("network.event.ack") {}
        now
    }

    /// Waits until every reader has the last event, acks it, and says when it came.
    async fn receive(&mut self) -> Vec<Instant> {
        let wanted = self.sent;
        futures_util::future::join_all(self.readers.iter_mut().map(|reader| next(reader, wanted))).await
    }

    /// Sends so many events of some bytes, one after another, to everybody.
    pub async fn run(&mut self, events: usize, bytes: usize) -> Latency {
        let mut sorted = Vec::new();
        for _ in 0..events {
            let sent = self.send(bytes).await;
            sorted.extend(self.receive().await.into_iter().map(|came| came.saturating_duration_since(sent)));
        }
        sorted.sort_unstable();
        Latency { sorted }
    }
}

/// Waits for the event of this number, which must be the next one, and acks it; gives when it came.
async fn next(reader: &mut Quiet, wanted: u64) -> Instant {
    let number = loop {
        if let Some(number) = id_of(&reader.next_text().await.unwrap()) {
            break number;
        }
    };
    let came = Instant::now();
    assert_eq!(number, wanted, "an event is missing or out of order");
    let ack =
        json!({ "type": "network.event.ack", "target": "core", "payload": { "up_to": format!("note-{wanted}") } });
    reader.text(&ack.to_string()).await.unwrap();
    came
}

/// Both in turn, event by event, so that whatever else the machine does is in both.
pub async fn in_turn(one: &mut Readers, other: &mut Readers, events: usize, bytes: usize) -> (Latency, Latency) {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for _ in 0..events {
        first.extend(one.run(1, bytes).await.sorted);
        second.extend(other.run(1, bytes).await.sorted);
    }
    first.sort_unstable();
    second.sort_unstable();
    (Latency { sorted: first }, Latency { sorted: second })
}

/// Streams that a node has open.
pub async fn streams(server: &Server) -> usize {
    let text = server.http().get("/metrics", &server.admin()).await.body;
    let line = text.lines().find(|line| line.starts_with("rialto_sessions{")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Joins subscribers that never read again, fills their windows while the readers keep up, and gives them with the bytes each costs
/// the node over an idle one.
pub async fn stall(server: &Server, readers: &mut Readers, count: usize) -> (Vec<Quiet>, u64) {
    let stalled = gather(server, &server.main(), "stalled", count, &json!({}), Some(RECEIVE_BYTES)).await;
    // One event goes to everybody and warms what is shared.
    readers.run(1, FILL_BYTES).await;
    let before = resident_bytes(server.pid());
    let filled = readers.run(FILL_EVENTS, FILL_BYTES).await;
    assert!(filled.count() >= FILL_EVENTS);
    let after = resident_bytes(server.pid());
    (stalled, after.saturating_sub(before) / count as u64)
}
