//! Streams that end, join anew or fall behind, and a disk that refuses.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::Preset;
use rialto_model::{ErrorCode, limits};
use rialto_node::{Caller, CreateNetwork, Inbox, Network, Node, Out, Outbox, Query, View, outbox};
use rialto_store::disk::fault::{Call, FaultDisk};
use rialto_store::{LocalOptions, LocalStore, MemoryStore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

async fn network() -> (Node, Network) {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    (node, network)
}

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

struct Stream {
    network: Network,
    connection: u64,
    outbox: Outbox,
    inbox: Inbox,
}

/// What came out of a stream.
#[derive(Debug, Default)]
struct Heard {
    answers: Vec<Result<(), ErrorCode>>,
    delivered: Vec<u64>,
    closed: Option<ErrorCode>,
}

impl Stream {
    fn new(network: &Network, room: usize) -> Stream {
        let (outbox, inbox) = outbox(room);
        Stream { network: network.clone(), connection: network.connection(), outbox, inbox }
    }

    /// A stream of a member, with its join answered.
    async fn of(network: &Network, name: &str) -> Stream {
        let mut stream = Stream::new(network, 64);
        stream.send(&[join(name)]).await;
        assert_eq!(stream.heard().await.answers, [Ok(())]);
        stream
    }

    async fn send(&self, events: &[Value]) {
        let texts = events.iter().map(Value::to_string).collect();
        self.network.session(&operator()).emit_stream(self.connection, texts, &self.outbox).await.unwrap();
    }

    /// Everything until it is quiet.
    async fn heard(&mut self) -> Heard {
        self.heard_of(0).await
    }

    /// Everything until so many answers came and it is quiet.
    async fn heard_of(&mut self, answers: usize) -> Heard {
        let mut heard = Heard::default();
        let patience = |heard: &Heard| Duration::from_millis(if heard.answers.len() < answers { 10_000 } else { 200 });
        while let Ok(Some(outs)) = tokio::time::timeout(patience(&heard), self.inbox.recv()).await {
            for item in outs {
                match item {
                    Out::Delivery(part) => heard.delivered.extend(part.records().iter().map(|r| r.event.seq)),
                    Out::Stored(attempts) => heard.delivered.extend(attempts.iter().map(|a| a.seq)),
                    Out::Answers(list) => {
                        heard.answers.extend(list.into_iter().map(|a| a.result.map(|_| ()).map_err(|f| f.code)));
                    }
                    Out::Signal(_) => {}
                    Out::Close(code) => heard.closed = Some(code),
                }
            }
        }
        heard
    }
}

fn join(name: &str) -> Value {
    json!({ "type": "network.agent.join", "source": name, "target": "core" })
}

fn note(id: &str, target: &str) -> Value {
    json!({ "id": id, "type": "app.note", "target": target })
}

async fn online(network: &Network) -> usize {
    network.session(&operator()).profile().await.unwrap().agents_online
}

#[tokio::test]
async fn what_a_stream_sent_before_it_ended_is_taken() {
    let (node, network) = network().await;
    let mut bob = Stream::of(&network, "agent:bob").await;
    let alice = Stream::of(&network, "agent:alice").await;
    // One batch: the event, then the end.
    alice.send(&[note("last-words", "agent:bob")]).await;
    network.close_stream(alice.connection).await;
    assert_eq!(bob.heard().await.delivered.len(), 1);
    assert_eq!(online(&network).await, 1);
    // Even the join is in that batch: heard, and nobody stays behind.
    let carol = Stream::new(&network, 64);
    carol.send(&[join("agent:carol"), note("hello", "agent:bob")]).await;
    network.close_stream(carol.connection).await;
    assert_eq!(bob.heard().await.delivered.len(), 1);
    assert_eq!(online(&network).await, 1, "carol's stream ended");
    node.stop().await;
}

#[tokio::test]
async fn a_stream_that_joins_anew_is_answered() {
    let (node, network) = network().await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    alice.send(&[note("n1", "agent:broadcast"), join("agent:alice"), note("n2", "agent:broadcast")]).await;
    assert_eq!(alice.heard().await.answers, [Ok(()), Ok(()), Ok(())]);
    assert_eq!(online(&network).await, 1);
    node.stop().await;
}

#[tokio::test]
async fn a_member_that_leaves_does_not_double_the_mail_of_one_that_joins() {
    let (node, network) = network().await;
    let alice = Stream::of(&network, "agent:alice").await;
    let carol = Stream::of(&network, "agent:carol").await;
    let mut bob = Stream::new(&network, 64);
    // One batch.
    bob.send(&[join("agent:bob")]).await;
    alice.send(&[note("for-bob", "agent:bob")]).await;
    carol.send(&[json!({ "type": "network.agent.leave", "target": "core" })]).await;
    assert_eq!(bob.heard().await.delivered.len(), 1);
    node.stop().await;
}

#[tokio::test]
async fn two_takeovers_in_one_batch_leave_the_last_stream() {
    let (node, network) = network().await;
    let (mut first, mut second, mut third) =
        (Stream::new(&network, 64), Stream::new(&network, 64), Stream::new(&network, 64));
    for stream in [&first, &second, &third] {
        stream.send(&[join("agent:alice")]).await;
    }
    assert_eq!(first.heard().await.closed, Some(ErrorCode::SessionRevoked));
    assert_eq!(second.heard().await.closed, Some(ErrorCode::SessionRevoked));
    let last = third.heard().await;
    assert_eq!((last.answers.as_slice(), last.closed), (&[Ok(())][..], None));
    assert_eq!(online(&network).await, 1);
    node.stop().await;
}

#[tokio::test]
async fn a_reader_too_far_behind_is_told_that_its_stream_ended() {
    let (node, network) = network().await;
    let alice = Stream::of(&network, "agent:alice").await;
    let mut bob = Stream::new(&network, 2);
    bob.send(&[join("agent:bob")]).await;
    let mut head = network.head();
    for i in 0..8 {
        head.borrow_and_update();
        alice.send(&[note(&format!("n{i}"), "agent:bob")]).await;
        // Each in a commit of its own.
        head.changed().await.unwrap();
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let closed = loop {
        match bob.heard().await.closed {
            Some(code) => break code,
            None => assert!(tokio::time::Instant::now() < deadline, "nobody told it"),
        }
    };
    assert_eq!(closed, ErrorCode::RateLimited);
    // Nothing is lost: it comes with the next stream.
    let mut again = Stream::new(&network, 64);
    again.send(&[join("agent:bob")]).await;
    assert_eq!(again.heard().await.delivered.len(), 8);
    node.stop().await;
}

#[tokio::test]
async fn a_position_that_was_never_reached_is_unknown_and_acks_nothing() {
    let (node, network) = network().await;
    let alice = Stream::of(&network, "agent:alice").await;
    let bob = Stream::of(&network, "agent:bob").await;
    network.close_stream(bob.connection).await;
    let mut committed = network.head();
    committed.borrow_and_update();
    alice.send(&[note("n1", "agent:bob")]).await;
    committed.changed().await.unwrap();
    let head = *network.head().borrow();
    for cursor in [head + 1, u64::MAX] {
        let refused = network.session(&anybody()).cursor(&format!("seq:{cursor}"), false).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::CursorUnknown);
        assert_eq!(network.session(&anybody()).cursor(&format!("seq:{cursor}"), true).await.unwrap(), None);
    }
    assert_eq!(
        network.session(&anybody()).cursor("seq:99999999999999999999", false).await.unwrap_err().code,
        ErrorCode::InvalidArgument
    );
    assert_eq!(network.session(&anybody()).cursor(&format!("seq:{head}"), false).await.unwrap(), Some(head));
    let mut resumed = Stream::new(&network, 64);
    let payload = json!({ "resume_after": format!("seq:{}", head + 1) });
    let joining = json!({ "type": "network.agent.join", "source": "agent:bob", "target": "core", "payload": payload });
    resumed.send(&[joining]).await;
    assert_eq!(resumed.heard().await.answers, [Err(ErrorCode::CursorUnknown)]);
    let mut bob = Stream::new(&network, 64);
    bob.send(&[join("agent:bob")]).await;
    assert_eq!(bob.heard().await.delivered.len(), 1, "still pending");
    node.stop().await;
}

#[tokio::test]
async fn a_page_of_large_events_ends_early() {
    let (node, network) = network().await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    let text = "x".repeat(1_000_000);
    for i in 0..40 {
        alice.send(&[json!({ "id": format!("m{i}"), "type": "app.note", "target": "agent:broadcast", "payload": { "text": text } })]).await;
    }
    assert_eq!(alice.heard().await.answers.len(), 40);
    for descending in [false, true] {
        let mut query = Query { limit: Some(500), view: Some(View::Log), ..Query::default() };
        query.filter.descending = descending;
        query.filter.kind = Some("app.note".into());
        let mut ids = Vec::new();
        loop {
            let page = network.session(&operator()).query(&query).await.unwrap();
            let bytes: usize = page.events.iter().map(|e| e.event.json_len()).sum();
            assert!(bytes < limits::PAGE_BYTES_MAX + limits::EVENT_BYTES_MAX, "{bytes}");
            ids.extend(page.events.iter().map(|e| e.event.seq));
            if !page.has_more {
                break;
            }
            let cursor = Some(format!("seq:{}", page.next));
            if descending { query.before = cursor } else { query.after = cursor }
        }
        if descending {
            ids.reverse();
        }
        assert_eq!(ids.len(), 40);
        assert!(ids.windows(2).all(|w| w[0] + 1 == w[1]), "{ids:?}");
    }
    node.stop().await;
}

async fn over(disk: &FaultDisk) -> (Node, Network) {
    let store =
        LocalStore::open_on(disk.clone(), "/data", LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() });
    let node = Node::over(Arc::new(store.unwrap()), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    (node, network)
}

#[tokio::test]
async fn a_node_stops_while_the_disk_refuses() {
    let disk = FaultDisk::new(3);
    let (node, network) = over(&disk).await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    disk.fail(Call::Sync, 0, std::io::ErrorKind::Other, true);
    alice.send(&[note("n1", "agent:broadcast")]).await;
    let heard = alice.heard().await;
    assert_eq!(heard.answers, [Err(ErrorCode::StorageUnavailable)]);
    assert_eq!(heard.closed, Some(ErrorCode::StorageUnavailable));
    assert!(!node.is_ready());
    // Nobody is told that an event is unknown when it cannot be looked up.
    assert_eq!(network.session(&anybody()).cursor("n0", false).await.unwrap_err().code, ErrorCode::StorageUnavailable);
    tokio::time::timeout(Duration::from_secs(10), node.stop()).await.unwrap();
}

#[tokio::test]
async fn after_the_disk_heals_positions_have_no_gap() {
    let disk = FaultDisk::new(3);
    let (node, network) = over(&disk).await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    let mut accepted = Vec::new();
    for round in 0..5 {
        disk.fail(Call::Sync, 0, std::io::ErrorKind::Other, false);
        for i in 0..20 {
            alice.send(&[note(&format!("r{round}-{i}"), "agent:broadcast")]).await;
            tokio::task::yield_now().await;
        }
        let heard = alice.heard_of(20).await;
        assert_eq!(heard.answers.len(), 20, "{heard:?}");
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while !network.is_ready() {
            assert!(tokio::time::Instant::now() < deadline, "the log was not reopened");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        alice = Stream::of(&network, "agent:alice").await;
        accepted.push(heard.answers.iter().filter(|a| a.is_ok()).count());
    }
    let query = Query { limit: Some(500), view: Some(View::Log), ..Query::default() };
    let seqs: Vec<u64> =
        network.session(&operator()).query(&query).await.unwrap().events.iter().map(|e| e.event.seq).collect();
    assert!(seqs.windows(2).all(|w| w[0] + 1 == w[1]), "{seqs:?} {accepted:?}");
    node.stop().await;
}

fn anybody() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}
