//! What a node does about its own files: snapshots that cannot be used, segments that nobody needs, damage.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::{Policy, Preset};
use rialto_node::clock::DrivenClock;
use rialto_node::identity::sha256;
use rialto_node::{AdminOp, Caller, CreateNetwork, Host, Network, Node, NodeParts, Query, View, verify};
use rialto_store::{LocalOptions, LocalStore, Store};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn open_store(dir: &Path) -> Arc<LocalStore> {
    let options = LocalOptions {
        first_segment_bytes: 16 << 10,
        max_segment_bytes: 16 << 10,
        free_floor_bytes: 0,
        ..LocalOptions::default()
    };
    Arc::new(LocalStore::open(dir, options).unwrap())
}

async fn open(dir: &Path) -> Node {
    Node::over(open_store(dir), None, false).await.unwrap()
}

/// A node whose clock is driven.
async fn open_at(dir: &Path, clock: &Arc<DrivenClock>) -> Node {
    let host = Host::simulated(clock.clone(), 1);
    Node::open_with(NodeParts { host, ..NodeParts::over(open_store(dir)) }).await.unwrap()
}

async fn create(node: &Node, name: &str) -> Network {
    let wish = CreateNetwork { policy: Policy::Open, ..CreateNetwork::named(name, Preset::Plain) };
    node.create_network(wish).await.unwrap().0
}

async fn emit(network: &Network, caller: &Arc<Caller>, event: Value) -> Value {
    let answers = network.session(caller).emit(event.to_string().into()).await.unwrap();
    *answers.into_iter().next().unwrap().result.unwrap().result.unwrap_or_default()
}

/// Joins `agent:a` and sends so many messages to everybody.
async fn talk(network: &Network, count: usize) {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let join = json!({ "type": "network.agent.join", "source": "agent:a", "target": "core" });
    let joined = emit(network, &operator, join).await;
    let session = sha256(joined["session_id"].as_str().unwrap());
    let caller = Arc::new(Caller { bearer: Some(session), ..Caller::default() });
    for n in 0..count {
        let payload = json!({ "content": format!("message {n} of some length, so that segments fill up in time") });
        let message = json!({ "type": "workspace.message.posted", "target": "agent:broadcast", "payload": payload });
        emit(network, &caller, message).await;
    }
}

/// A snapshot whose checksum is right but that means nothing gives way to the older one, and both to the log.
#[tokio::test]
async fn snapshots_that_cannot_be_decoded_fall_back() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    talk(&create(&node, "main").await, 5).await;
    node.stop().await;
    let node = open(dir.path()).await;
    let network = node.network("main").unwrap();
    talk(&network, 5).await;
    let (_, hash) = network.state_hash().await.unwrap();
    node.stop().await;
    for bad in 1..=2 {
        let store = open_store(dir.path());
        let info = store.networks().unwrap()[0];
        let newest = store.load_snapshot(info.network, u64::MAX).unwrap().unwrap();
        for _ in 0..bad {
            store.save_snapshot(info.class, info.network, newest.lsn, b"no state at all").unwrap();
        }
        store.close().unwrap();
        drop(store);
        let node = open(dir.path()).await;
        assert_eq!(node.network("main").unwrap().state_hash().await.unwrap().1, hash, "{bad} are bad");
        let notes = node.store().health().notes;
        assert!(notes.iter().any(|note| note.what.contains("cannot be decoded")), "{notes:?}");
        node.stop().await;
    }
}

/// Sets what history keeps, and how soon it forgets.
async fn keep(network: &Network, option: &str, value: u64) {
    let mut config = rialto_node::standard_mod("persistence").unwrap();
    config.config.insert(option.to_owned(), json!(value));
    config.config.insert("purge_interval_s".to_owned(), json!(0));
    network.admin(AdminOp::SetMod(config)).await.unwrap();
}

fn segments(node: &Node) -> u64 {
    node.store().health().logs.iter().map(|log| log.segments).sum()
}

/// Bytes of segment files, spare ones left out.
fn log_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir.join("log/std")).unwrap().map(Result::unwrap);
    let is_segment = |name: &str| name.ends_with(".seg") && !name.starts_with("spare");
    files.filter(|f| is_segment(&f.file_name().to_string_lossy())).map(|f| f.metadata().unwrap().len()).sum()
}

const DAY_MS: u64 = 24 * 3_600_000;

/// Frees segments until there are at most so many; the purge comes with a tick.
async fn recycle_to(node: &Node, most: u64) {
    for _ in 0..20 {
        node.recycle().await;
        if segments(node) <= most {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("{} segments are left, not {most}", segments(node));
}

async fn assert_whole(node: &Node) {
    let mut live = verify::LiveStates::new();
    for network in node.networks() {
        live.insert(network.number(), network.state_hash().await.unwrap());
    }
    let report = json!(verify::verify(node.store().as_ref(), &live, &mut |_, _| {}).unwrap());
    assert_eq!(report["problems"], json!([]), "{report}");
}

/// What a network says once and never again is in its snapshots: it keeps no segment of a busy neighbour.
#[tokio::test]
async fn a_quiet_network_pins_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(DrivenClock::at(1_767_225_600_000));
    let node = open_at(dir.path(), &clock).await;
    create(&node, "main").await;
    let busy = create(&node, "busy").await;
    keep(&busy, "max_events", 10).await;
    talk(&busy, 300).await;
    let before = segments(&node);
    assert!(before >= 6, "{before} segments");
    clock.pass(2 * DAY_MS);
    recycle_to(&node, 2).await;
    assert_whole(&node).await;
    node.stop().await;
    drop((node, busy));
    let node = open_at(dir.path(), &clock).await;
    assert_eq!(node.networks().len(), 2);
    talk(&node.network("main").unwrap(), 1).await;
    assert_whole(&node).await;
}

/// Old events that history still keeps stay readable, and the segments behind them give their space back all the same.
#[tokio::test]
async fn kept_history_pins_only_its_own_segments() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(DrivenClock::at(1_767_225_600_000));
    let node = open_at(dir.path(), &clock).await;
    let main = create(&node, "main").await;
    talk(&main, 3).await;
    let busy = create(&node, "busy").await;
    keep(&busy, "max_events", 10).await;
    talk(&busy, 300).await;
    let before = log_bytes(dir.path());
    clock.pass(2 * DAY_MS);
    for _ in 0..20 {
        node.recycle().await;
        if log_bytes(dir.path()) < before / 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(log_bytes(dir.path()) < before / 2, "{} of {before} bytes are left", log_bytes(dir.path()));
    assert_eq!(main.read((1..=4).collect()).await.unwrap().len(), 4);
    assert_whole(&node).await;
    node.stop().await;
    drop((node, main, busy));
    let node = open_at(dir.path(), &clock).await;
    let main = node.network("main").unwrap();
    assert_eq!(main.read((1..=4).collect()).await.unwrap().len(), 4);
    assert_whole(&node).await;
    // A backup of what is left is a whole node.
    let (copy, mut bytes) = (tempfile::tempdir().unwrap(), Vec::new());
    rialto_node::archive::save(node.store().as_ref(), &mut bytes).unwrap();
    rialto_node::archive::restore(open_store(copy.path()).as_ref(), &mut bytes.as_slice(), &mut |_| {}).unwrap();
    let restored = open_at(copy.path(), &clock).await;
    assert_eq!((node.store().epoch().unwrap(), restored.store().epoch().unwrap()), (1, 2));
    assert_whole(&restored).await;
    assert_eq!(restored.network("main").unwrap().read((1..=4).collect()).await.unwrap().len(), 4);
    restored.stop().await;
    // Once nobody needs the first segment either, the headers of those behind it go with it.
    keep(&main, "max_events", 1).await;
    talk(&main, 3).await;
    clock.pass(2 * DAY_MS);
    recycle_to(&node, 2).await;
    assert_whole(&node).await;
}

/// History that may take so many bytes forgets its oldest events when it takes more.
#[tokio::test]
async fn history_is_bounded_by_size() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(DrivenClock::at(1_767_225_600_000));
    let node = open_at(dir.path(), &clock).await;
    let main = create(&node, "main").await;
    keep(&main, "max_bytes", 20_000).await;
    talk(&main, 300).await;
    let (mut left, all) = (Vec::new(), 301);
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        left = history(&main).await;
        if left.len() < 150 {
            break;
        }
    }
    // Each takes about 250 bytes; the count is by steps of 4 KiB.
    assert!((50..100).contains(&left.len()), "{} events are left", left.len());
    assert_eq!((left.first().copied(), left.last().copied()), (Some(all - left.len() as u64 + 1), Some(all)));
    talk(&main, 20).await;
    assert_whole(&node).await;
}

/// Positions of all events that history keeps.
async fn history(network: &Network) -> Vec<u64> {
    let caller = Arc::new(Caller { operator: true, ..Caller::default() });
    let page = network
        .session(&caller)
        .query(&Query { limit: Some(500), view: Some(View::Log), ..Query::default() })
        .await
        .unwrap();
    page.events.iter().map(|record| record.event.seq).collect()
}
