//! Members that are not to be disturbed: mail waits on every stream, what they ask for comes, and a restart forgets
//! nothing of it. Renames under an open stream.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::Preset;
use rialto_model::view::MeView;
use rialto_node::identity::sha256;
use rialto_node::{Caller, CreateNetwork, Filter, Inbox, Network, Node, Out, Outbox, Query, View, Wishes, outbox};
use rialto_store::disk::fault::FaultDisk;
use rialto_store::{LocalOptions, LocalStore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Ten times what a delivery takes, and then some.
const PATIENCE: Duration = Duration::from_secs(20);

struct Stream {
    network: Network,
    connection: u64,
    outbox: Outbox,
    inbox: Inbox,
    caller: Arc<Caller>,
}

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

impl Stream {
    async fn join(network: &Network, name: &str) -> Stream {
        let (outbox, inbox) = outbox(1024);
        let connection = network.connection();
        let mut stream = Stream { network: network.clone(), connection, outbox, inbox, caller: operator() };
        stream.send(json!({ "type": "network.agent.join", "source": name, "target": "core" })).await;
        let joined = stream.answer().await;
        let session = sha256(joined["session_id"].as_str().unwrap());
        stream.caller = Arc::new(Caller { bearer: Some(session), ..Caller::default() });
        stream
    }

    async fn send(&self, event: Value) {
        let texts = event.to_string().into();
        self.network.session(&operator()).emit_stream(self.connection, texts, &self.outbox).await.unwrap();
    }

    /// Everything up to the next answer: what was delivered before it, then the answer's result.
    async fn until_answer(&mut self) -> (Vec<u64>, usize, Value) {
        let (mut delivered, mut signals) = (Vec::new(), 0);
        loop {
            let outs = tokio::time::timeout(PATIENCE, self.inbox.recv()).await.unwrap().unwrap();
            for item in outs {
                match item {
                    Out::Delivery(part) => delivered.extend(part.records().iter().map(|r| r.event.seq)),
                    Out::Stored(attempts) => delivered.extend(attempts.iter().map(|a| a.seq)),
                    Out::Signal(_) => signals += 1,
                    Out::Answers(mut list) => {
                        let answer = list.remove(0).result.unwrap();
                        return (delivered, signals, *answer.result.unwrap_or_default());
                    }
                    Out::Close(code) => panic!("closed: {code}"),
                }
            }
        }
    }

    async fn answer(&mut self) -> Value {
        self.until_answer().await.2
    }

    /// The next events that are pushed, as many as asked for.
    async fn pushed(&mut self, count: usize) -> Vec<u64> {
        let mut delivered = Vec::new();
        while delivered.len() < count {
            let outs = tokio::time::timeout(PATIENCE, self.inbox.recv()).await.unwrap().unwrap();
            for item in outs {
                match item {
                    Out::Delivery(part) => delivered.extend(part.records().iter().map(|r| r.event.seq)),
                    Out::Stored(attempts) => delivered.extend(attempts.iter().map(|a| a.seq)),
                    Out::Signal(_) => {}
                    other @ (Out::Answers(_) | Out::Close(_)) => panic!("{other:?}"),
                }
            }
        }
        delivered
    }

    /// What came without being asked for before the answer to an act of its own: everything sent before is there.
    async fn disturbed(&mut self) -> (Vec<u64>, usize) {
        self.send(json!({ "type": "app.mark", "target": "core" })).await;
        let (delivered, signals, _) = self.until_answer().await;
        (delivered, signals)
    }
}

async fn say(stream: &mut Stream, target: &str) -> u64 {
    let event = json!({ "type": "app.note", "target": target });
    let answers = stream.network.session(&stream.caller).emit(event.to_string().into()).await.unwrap();
    answers.into_iter().next().unwrap().result.unwrap().seq.unwrap()
}

async fn change(stream: &Stream, wishes: Value) -> MeView {
    stream.network.session(&stream.caller).change_me(Wishes::from_json(&wishes).unwrap()).await.unwrap()
}

async fn node(disk: &FaultDisk) -> Node {
    let options = LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() };
    let store = LocalStore::open_on(disk.clone(), "/data", options).unwrap();
    Node::over(Arc::new(store), None, false).await.unwrap()
}

async fn poll(stream: &Stream, pushed: bool) -> Vec<u64> {
    let query = Query { view: Some(View::Inbox), pushed, ..Query::default() };
    let page = stream.network.session(&stream.caller).query(&query).await.unwrap();
    page.events.iter().map(|e| e.event.seq).collect()
}

#[tokio::test]
async fn mail_waits_while_a_member_is_not_to_be_disturbed() {
    let disk = FaultDisk::new(1);
    let first = node(&disk).await;
    let (network, _) = first.create_network(CreateNetwork::named("main", Preset::Plain)).await.unwrap();
    let mut alice = Stream::join(&network, "agent:alice").await;
    let mut bob = Stream::join(&network, "agent:bob").await;
    let before = say(&mut alice, "agent:bob").await;
    assert_eq!(bob.pushed(1).await, [before]);
    let me = change(&bob, json!({ "dnd": true })).await;
    assert_eq!((me.member.dnd, me.member.address.as_ref()), (Some(true), "agent:bob"));
    let waiting = [say(&mut alice, "agent:bob").await, say(&mut alice, "agent:broadcast").await];
    let signal = json!({ "type": "app.typing", "target": "agent:bob", "metadata": { "ephemeral": true } });
    network.session(&alice.caller).emit(signal.to_string().into()).await.unwrap();
    assert_eq!(bob.disturbed().await, (vec![], 0), "neither mail nor signals, but its own answers");
    // It gets what it asks for; a reader that is sent what comes waits, too.
    assert_eq!(poll(&bob, false).await, [before, waiting[0], waiting[1]]);
    assert_eq!(poll(&bob, true).await, [0; 0]);
    // Another stream of the same member is quiet from its start.
    let mut again = Stream::join(&network, "agent:bob").await;
    assert_eq!(again.disturbed().await.0, [0; 0]);
    change(&again, json!({ "dnd": false })).await;
    assert_eq!(again.pushed(3).await, [before, waiting[0], waiting[1]], "oldest first");
    let explained = network.session(&alice.caller).explain(&format!("seq:{}", waiting[0])).await.unwrap();
    assert_eq!(json!(explained)["recipients"][0]["rung"], "delivered");
    let after = say(&mut alice, "agent:bob").await;
    assert_eq!(again.pushed(1).await, [after]);
    first.stop().await;
}

#[tokio::test]
async fn quiet_time_outlives_a_restart_and_ends_by_itself() {
    let disk = FaultDisk::new(1);
    let first = node(&disk).await;
    let (network, _) = first.create_network(CreateNetwork::named("main", Preset::Plain)).await.unwrap();
    let mut alice = Stream::join(&network, "agent:alice").await;
    let bob = Stream::join(&network, "agent:bob").await;
    change(&bob, json!({ "dnd": true })).await;
    let seq = say(&mut alice, "agent:bob").await;
    first.stop().await;
    let second = node(&disk).await;
    let network = second.network("main").unwrap();
    let mut bob = Stream::join(&network, "agent:bob").await;
    assert_eq!(network.session(&bob.caller).me().await.unwrap().member.dnd, Some(true));
    assert_eq!(bob.disturbed().await.0, [0; 0]);
    // Now nobody says so: time alone lets the mail through.
    change(&bob, json!({ "dnd": 500 })).await;
    assert_eq!(bob.pushed(1).await, [seq]);
    assert_eq!(network.session(&bob.caller).me().await.unwrap().member.dnd, Some(false));
    second.stop().await;
}

#[tokio::test]
async fn a_reader_that_follows_hears_of_the_end_of_quiet_time() {
    let disk = FaultDisk::new(1);
    let node = node(&disk).await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Plain)).await.unwrap();
    let mut alice = Stream::join(&network, "agent:alice").await;
    let bob = Stream::join(&network, "agent:bob").await;
    change(&bob, json!({ "dnd": true })).await;
    let seq = say(&mut alice, "agent:bob").await;
    let mut head = network.head();
    head.borrow_and_update();
    change(&bob, json!({ "dnd": false })).await;
    tokio::time::timeout(PATIENCE, head.changed()).await.unwrap().unwrap();
    assert_eq!(poll(&bob, true).await, [seq]);
    node.stop().await;
}

#[tokio::test]
async fn a_stream_goes_on_under_a_new_name() {
    let disk = FaultDisk::new(1);
    let first = node(&disk).await;
    let (network, _) = first.create_network(CreateNetwork::named("main", Preset::Plain)).await.unwrap();
    let mut alice = Stream::join(&network, "agent:alice").await;
    let mut bob = Stream::join(&network, "agent:bob").await;
    let keyed = json!({ "type": "app.note", "target": "agent:alice" }).to_string();
    let emit = async |key: &str| {
        let answers = network.session(&bob.caller).emit_keyed(keyed.clone().into(), key.to_owned()).await.unwrap();
        answers.into_iter().next().unwrap().result.unwrap()
    };
    let once = emit("k1").await.seq;
    assert_eq!(change(&bob, json!({ "name": "bert" })).await.member.address.as_ref(), "agent:bert");
    let again = emit("k1").await;
    assert_eq!((again.seq, again.duplicate), (once, true), "a key is good after a rename, too");
    assert_eq!(alice.pushed(1).await, [once.unwrap()]);
    for name in ["agent:bob", "agent:bert"] {
        let seq = say(&mut alice, name).await;
        assert_eq!(bob.pushed(1).await, [seq], "{name}");
        bob.send(json!({ "type": "app.note", "source": name, "target": "agent:alice" })).await;
        bob.send(json!({ "type": "network.event.ack", "source": name, "target": "core", "payload": { "ids": [format!("seq:{seq}")] } })).await;
        bob.answer().await;
    }
    assert_eq!(poll(&bob, false).await, [0; 0]);
    let read = async |network: &Network, source: &str| {
        let filter = Filter { source: Some(source.into()), kind: Some("app.".into()), ..Filter::default() };
        let query = Query { view: Some(View::Log), filter, ..Query::default() };
        network.session(&operator()).query(&query).await.unwrap().events.len()
    };
    assert_eq!((read(&network, "agent:bert").await, read(&network, "agent:bob").await), (3, 3));
    let hash = network.state_hash().await.unwrap();
    first.stop().await;
    let second = node(&disk).await;
    let network = second.network("main").unwrap();
    assert_eq!(network.state_hash().await.unwrap().1, hash.1);
    assert_eq!((read(&network, "bert").await, read(&network, "bob").await), (3, 3));
    second.stop().await;
}
