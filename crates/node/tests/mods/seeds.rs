//! Seeded runs: senders, a server that passes, refuses, changes, mumbles, keeps silent, goes and comes back, an operator
//! that unloads and loads, and a power cut at the end. A naive model says what may have become of each event.

use super::{Heard, Stream, operator};
use rialto_model::network::Preset;
use rialto_node::{AdminOp, CreateNetwork, Network, Node, Query, View};
use rialto_store::disk::fault::FaultDisk;
use rialto_store::{LocalOptions, LocalStore};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SEEDS: u64 = 48;
const SENDERS: usize = 3;
const ROUNDS: usize = 12;
/// How long a server may be silent.
const DEADLINE_MS: u64 = 60;

/// A fixed stream of numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What the guard says of an event, by its id alone: the model knows it as well as the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Pass,
    /// Passed, after something that is no verdict.
    Mumbled,
    Reject,
    Silent,
}

fn number(id: &str) -> u64 {
    id.bytes().fold(7, |n: u64, b| n.wrapping_mul(31).wrapping_add(u64::from(b)))
}

fn fate(id: &str) -> Fate {
    match number(id) % 16 {
        0..=8 => Fate::Pass,
        9 | 10 => Fate::Mumbled,
        11..=14 => Fate::Reject,
        _ => Fate::Silent,
    }
}

/// Whether the transform changes an event.
fn is_changed(id: &str) -> bool {
    number(id).is_multiple_of(3)
}

fn open(disk: &FaultDisk) -> Arc<LocalStore<FaultDisk>> {
    let options = LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() };
    Arc::new(LocalStore::open_on(disk.clone(), "/data", options).unwrap())
}

/// Both mods, as the server serves them.
async fn serve(server: &mut Stream) {
    for (name, mode) in [("guard", "guard"), ("change", "transform")] {
        server.serve(json!({ "name": name, "mode": mode, "intercepts": ["app.*"], "deadline_ms": DEADLINE_MS })).await;
    }
}

/// Answers every check until told to stop; goes and comes back now and then.
async fn server(network: Network, seed: u64, stop: Arc<AtomicBool>, ready: tokio::sync::oneshot::Sender<()>) {
    let mut chance = Chance(seed ^ 0x5EED);
    let mut stream = Stream::of(&network, "agent:server").await;
    serve(&mut stream).await;
    let _ = ready.send(());
    while !stop.load(Ordering::Acquire) {
        let Ok(heard) = tokio::time::timeout(Duration::from_millis(20), stream.wait()).await else { continue };
        let Heard::Check(check) = heard else { continue };
        let id = check["event"]["id"].as_str().unwrap_or_default().to_owned();
        let (ticket, guards) = (&check["ticket"], check["step"] == "guard");
        match fate(&id) {
            Fate::Silent if guards => {}
            Fate::Reject if guards => stream.verdict(ticket, json!({ "verdict": "reject" })).await,
            fate @ (Fate::Pass | Fate::Mumbled | Fate::Reject | Fate::Silent) => {
                if fate == Fate::Mumbled {
                    stream.verdict(ticket, json!({ "verdict": "hm" })).await;
                }
                let verdict = if !guards && is_changed(&id) {
                    json!({ "verdict": "modified", "event": { "payload": { "changed": true } } })
                } else {
                    json!({ "verdict": "pass" })
                };
                stream.verdict(ticket, verdict).await;
            }
        }
        if chance.below(40) == 0 {
            network.close_stream(stream.connection).await;
            stream = Stream::of(&network, "agent:server").await;
        }
    }
}

/// One sender's events and what became of each, in the order of the answers.
async fn sender(network: Network, seed: u64, n: usize) -> Vec<(String, Option<String>)> {
    let mut chance = Chance(seed.wrapping_mul(31) + n as u64);
    let mut stream = Stream::of(&network, &format!("agent:s{n}")).await;
    let (mut sent, mut answers) = (0, Vec::new());
    for _ in 0..ROUNDS {
        let count = 1 + usize::try_from(chance.below(3)).unwrap();
        let events: Vec<Value> = (0..count)
            .map(|_| {
                sent += 1;
                let kind = if chance.below(4) == 0 { "free.note" } else { "app.note" };
                json!({ "id": format!("x{seed}-{n}-{sent}"), "type": kind, "target": "agent:bob" })
            })
            .collect();
        stream.send(&events).await;
        // Some wait for their answers, some send on.
        if chance.below(2) == 0 {
            drain(&mut stream, sent, &mut answers).await;
        }
    }
    drain(&mut stream, sent, &mut answers).await;
    answers
}

async fn drain(stream: &mut Stream, until: usize, answers: &mut Vec<(String, Option<String>)>) {
    while answers.len() < until {
        if let Heard::Answer(id, code) = stream.next().await {
            answers.push((id, code));
        }
    }
}

/// Everything history holds of what senders sent, in order.
async fn history(network: &Network) -> Vec<(String, Value)> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let query = Query { view: Some(View::Log), limit: Some(500), after, ..Query::default() };
        let page = network.session(&operator()).query(&query).await.unwrap();
        all.extend(
            page.events
                .iter()
                .filter(|r| r.event.id().starts_with('x'))
                .map(|r| (r.event.id().to_owned(), serde_json::from_str(r.event.payload()).unwrap())),
        );
        if !page.has_more {
            return all;
        }
        after = Some(format!("seq:{}", page.next));
    }
}

async fn run(seed: u64) {
    let disk = FaultDisk::new(seed);
    let node = Node::over(open(&disk), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, ready) = tokio::sync::oneshot::channel();
    let serving = tokio::spawn(server(network.clone(), seed, stop.clone(), tell));
    ready.await.unwrap();
    let mut bob = Stream::of(&network, "agent:bob").await;
    let senders: Vec<_> = (0..SENDERS).map(|n| tokio::spawn(sender(network.clone(), seed, n))).collect();
    // Every third run the operator takes the guard off while events wait for it.
    let unloads = seed.is_multiple_of(3);
    if unloads {
        tokio::time::sleep(Duration::from_millis(5)).await;
        network.admin(AdminOp::RemoveMod("guard".into())).await.unwrap();
    }
    let mut answers = Vec::new();
    for sending in senders {
        answers.push(sending.await.unwrap());
    }
    stop.store(true, Ordering::Release);
    serving.await.unwrap();
    for own in &answers {
        // Answered in the order they were sent, every one of them.
        let places: Vec<usize> = own.iter().map(|(id, _)| id.rsplit('-').next().unwrap().parse().unwrap()).collect();
        assert_eq!(places, (1..=places.len()).collect::<Vec<_>>(), "seed {seed}");
    }
    let stored = history(&network).await;
    let by_id: BTreeMap<&str, &Value> = stored.iter().map(|(id, payload)| (id.as_str(), payload)).collect();
    assert_eq!(by_id.len(), stored.len(), "seed {seed}: nothing twice");
    for (id, code) in answers.iter().flatten() {
        assert_eq!(by_id.contains_key(id.as_str()), code.is_none(), "seed {seed}: {id} was answered {code:?}");
        match code.as_deref() {
            Some("rejected") => assert_eq!(fate(id), Fate::Reject, "seed {seed}: {id}"),
            // Silence, or a server that was away.
            Some("mod_failed") | None => {}
            Some(other) => panic!("seed {seed}: {id} got {other}"),
        }
    }
    // What the guard looked at and accepted it had passed, unless it was taken off; free notes it never saw.
    let loaded = network.session(&operator()).mods().await.unwrap();
    assert_eq!(loaded.mods.iter().any(|m| m.address == "mod/guard"), !unloads);
    let kinds = kinds(&network).await;
    for (id, payload) in &stored {
        let app = kinds.get(id).is_some_and(|kind| kind == "app.note");
        let passed = matches!(fate(id), Fate::Pass | Fate::Mumbled);
        assert!(!app || passed || unloads, "seed {seed}: {id} got past the guard");
        assert!(payload.get("changed").is_none() || app && is_changed(id), "seed {seed}: {id} was changed");
    }
    // Each sender's events are delivered in its order, as stored.
    let mut delivered = Vec::new();
    while delivered.len() < stored.len() {
        if let Heard::Delivered(event) = bob.next().await {
            delivered.push(event["id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(delivered, stored.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>(), "seed {seed}");
    // The power goes: what was accepted is there, the rest is not.
    disk.crash();
    drop((bob, network, node));
    let node = Node::over(open(&disk), None, false).await.unwrap();
    assert_eq!(history(&node.default_network().unwrap()).await, stored, "seed {seed}");
    node.stop().await;
}

async fn kinds(network: &Network) -> BTreeMap<String, String> {
    let query = Query { view: Some(View::Log), limit: Some(500), ..Query::default() };
    let page = network.session(&operator()).query(&query).await.unwrap();
    page.events.iter().map(|r| (r.event.id().to_owned(), r.event.kind().to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seeds() {
    let mut waiting = tokio::task::JoinSet::new();
    for seed in 0..SEEDS {
        waiting.spawn(run(seed));
        if waiting.len() >= 8 {
            waiting.join_next().await.unwrap().unwrap();
        }
    }
    while let Some(ended) = waiting.join_next().await {
        ended.unwrap();
    }
}
