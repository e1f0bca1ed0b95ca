//! A join may ask for what it has already acked, too.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::{Delivery, Preset};
use rialto_node::{Caller, CreateNetwork, Inbox, Network, Node, Out, Outbox, outbox};
use rialto_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

async fn network() -> (Node, Network) {
    network_with(Delivery::AtLeastOnce).await
}

async fn network_with(delivery: Delivery) -> (Node, Network) {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    let wish = CreateNetwork { delivery, ..CreateNetwork::named("main", Preset::Workspace) };
    let (network, _) = node.create_network(wish).await.unwrap();
    (node, network)
}

struct Stream {
    network: Network,
    connection: u64,
    caller: Arc<Caller>,
    outbox: Outbox,
    inbox: Inbox,
}

impl Stream {
    async fn join(network: &Network, name: &str, payload: Value) -> Stream {
        let (outbox, inbox) = outbox(1024);
        let caller = Arc::new(Caller { operator: true, ..Caller::default() });
        let stream = Stream { network: network.clone(), connection: network.connection(), caller, outbox, inbox };
        stream
            .send(json!({ "type": "network.agent.join", "source": name, "target": "core", "payload": payload }))
            .await;
        stream
    }

    async fn send(&self, event: Value) {
        let texts = event.to_string().into();
        self.network.session(&self.caller).emit_stream(self.connection, texts, &self.outbox).await.unwrap();
    }

    /// (seq, expects an ack) of everything delivered until it is quiet.
    async fn deliveries(&mut self) -> Vec<(u64, bool)> {
        let mut out = Vec::new();
        while let Ok(Some(outs)) = tokio::time::timeout(Duration::from_millis(300), self.inbox.recv()).await {
            for item in outs {
                match item {
                    Out::Delivery(part) => out.extend(part.records().iter().map(|r| (r.event.seq, true))),
                    Out::Stored(attempts) => out.extend(attempts.iter().map(|a| (a.seq, a.tracked))),
                    Out::Answers(answers) => {
                        answers.iter().for_each(|a| assert!(a.result.is_ok(), "{:?}", a.result));
                    }
                    Out::Signal(_) => {}
                    Out::Close(code) => panic!("closed: {code}"),
                }
            }
        }
        out
    }
}

/// An event that was committed together with the join was pushed as news, and replayed behind that once more.
#[tokio::test]
async fn a_replay_goes_before_what_is_sent_at_most_once() {
    let (node, network) = network_with(Delivery::AtMostOnce).await;
    let alice = Stream::join(&network, "agent:alice", json!({})).await;
    let mut bob = Stream::join(&network, "agent:bob", json!({})).await;
    assert_eq!(bob.deliveries().await, []);
    for _ in 0..20 {
        network.close_stream(bob.connection).await;
        // Nobody waits in between: the broadcasts before and after the join are committed with it.
        alice.send(json!({ "type": "app.note", "target": "agent:broadcast" })).await;
        bob = Stream::join(&network, "agent:bob", json!({ "replay": true })).await;
        alice.send(json!({ "type": "app.note", "target": "agent:broadcast" })).await;
        let seqs: Vec<u64> = bob.deliveries().await.iter().map(|(seq, _)| *seq).collect();
        assert!(seqs.len() >= 2 && seqs.is_sorted_by(|a, b| a < b), "{seqs:?}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_replay_brings_nothing_from_before_one_came() {
    let (node, network) = network().await;
    let say = |to: &str| json!({ "type": "app.note", "target": to });
    let mut alice = Stream::join(&network, "agent:alice", json!({})).await;
    alice.send(say("agent:broadcast")).await;
    alice.send(say("channel/general")).await;
    assert_eq!(alice.deliveries().await, [], "nobody is sent its own");
    let mut bob = Stream::join(&network, "agent:bob", json!({ "replay": true })).await;
    assert_eq!(bob.deliveries().await, [], "who comes late gets no backlog");
    // Nor does who was away for a while.
    bob.send(json!({ "type": "network.agent.leave", "target": "core" })).await;
    alice.send(say("agent:broadcast")).await;
    alice.deliveries().await;
    let mut bob = Stream::join(&network, "agent:bob", json!({ "replay": true })).await;
    assert_eq!(bob.deliveries().await, []);
    alice.send(say("agent:broadcast")).await;
    let heard = bob.deliveries().await;
    bob.send(
        json!({ "type": "network.event.ack", "target": "core", "payload": { "up_to": format!("seq:{}", heard[0].0) } }),
    )
    .await;
    network.close_stream(bob.connection).await;
    let mut bob = Stream::join(&network, "agent:bob", json!({ "replay": true })).await;
    assert_eq!(bob.deliveries().await, [(heard[0].0, false)], "what it was sent comes again");
    node.stop().await;
}

#[tokio::test]
async fn a_replay_brings_acked_events_again_without_asking_for_acks() {
    let (node, network) = network().await;
    let alice = Stream::join(&network, "agent:alice", json!({})).await;
    let mut bob = Stream::join(&network, "agent:bob", json!({ "window": 4 })).await;
    assert_eq!(bob.deliveries().await, [], "the join is answered before anybody writes");
    for i in 0..6 {
        alice.send(json!({ "id": format!("m{i}"), "type": "app.note", "target": "agent:bob" })).await;
    }
    let first = bob.deliveries().await;
    assert_eq!(first.len(), 4, "the window holds back the rest");
    bob.send(json!({ "type": "network.event.ack", "target": "core", "payload": { "up_to": "m2" } })).await;
    assert_eq!(bob.deliveries().await.len(), 2);
    network.close_stream(bob.connection).await;
    let seqs: Vec<u64> = first.iter().map(|(seq, _)| *seq).collect();
    let mut again = Stream::join(&network, "agent:bob", json!({})).await;
    let pending: Vec<(u64, bool)> = (seqs[3]..seqs[3] + 3).map(|s| (s, true)).collect();
    assert_eq!(again.deliveries().await, pending, "a plain join brings what is not acked");
    network.close_stream(again.connection).await;
    let mut replayed = Stream::join(&network, "agent:bob", json!({ "replay": true, "window": 2 })).await;
    let mut expected: Vec<(u64, bool)> = seqs[..3].iter().map(|s| (*s, false)).collect();
    expected.extend(&pending[..2]);
    assert_eq!(replayed.deliveries().await, expected);
    replayed.send(json!({ "type": "network.event.ack", "target": "core", "payload": { "ids": ["m3", "m4"] } })).await;
    assert_eq!(replayed.deliveries().await, pending[2..]);
    node.stop().await;
}
