//! A data directory of every release is opened for ever: the records in it give the same state as on the day they were written.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_engine::record::VERSION;
use rialto_model::network::Preset;
use rialto_node::{AdminOp, Caller, CreateNetwork, Network, Node, NodeConfig, verify};
use rialto_store::{LocalOptions, LocalStore};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixture(version: u8) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("v{version}"))
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

async fn send(network: &Network, caller: &Arc<Caller>, event: Value) -> Value {
    let answers = network.session(caller).emit(event.to_string().into()).await.unwrap();
    let answer = answers.into_iter().next().unwrap();
    let accepted = answer.result.unwrap_or_else(|fault| panic!("{event}: {fault}"));
    *accepted.result.unwrap_or_default()
}

async fn join(network: &Network, name: &str, payload: Value) -> Arc<Caller> {
    let event = json!({ "type": "network.agent.join", "source": name, "target": "core", "payload": payload });
    let result = send(network, &operator(), event).await;
    let session = rialto_node::identity::sha256(result["session_id"].as_str().unwrap());
    Arc::new(Caller { bearer: Some(session), ..Caller::default() })
}

async fn open(dir: &Path) -> Node {
    Node::open(NodeConfig { data: Some(dir.to_path_buf()), no_search: true, ..NodeConfig::default() }).await.unwrap()
}

/// A life with every kind of record in it.
async fn live(node: &Node) {
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let alice = join(&network, "agent:alice", json!({ "description": "first" })).await;
    let bob = join(&network, "agent:bob", json!({})).await;
    let ana = join(&network, "human:ana@example.org", json!({})).await;
    send(&network, &alice, json!({ "type": "network.channel.create", "target": "core", "payload": { "name": "plans", "private": true, "participants": ["bob"] } })).await;
    for i in 0..20 {
        let event = json!({ "id": format!("m{i}"), "type": "workspace.message.posted", "target": "channel/general", "payload": { "content": format!("message {i} 你好") }, "metadata": { "thread": "thread_abc", "receipt": i == 3 } });
        send(&network, &alice, event).await;
    }
    send(&network, &alice, json!({ "id": "d1", "type": "app.task.assigned", "target": "agent:bob", "payload": { "n": 1.50 }, "metadata": { "ttl_ms": 1000 } })).await;
    send(&network, &bob, json!({ "id": "d2", "type": "app.note", "target": "channel/plans", "payload": {}, "metadata": { "to": ["agent:alice"] } })).await;
    send(
        &network,
        &ana,
        json!({ "type": "network.agent.announce", "target": "agent:broadcast", "payload": { "capabilities": ["x"] } }),
    )
    .await;
    network.session(&bob).ack(vec!["m1".into(), "m3".into()], None).await.unwrap();
    network.session(&bob).ack(Vec::new(), Some("m0".into())).await.unwrap();
    network.admin(AdminOp::SetGroup("team".into(), vec!["agent:bob".into(), "agent:later".into()])).await.unwrap();
    send(&network, &ana, json!({ "type": "app.note", "target": "group/team", "payload": {} })).await;
    network.admin(AdminOp::Role("agent:bob".into(), rialto_model::Role::Observer)).await.unwrap();
    network.redact("m5").await.unwrap();
    send(&network, &ana, json!({ "type": "network.agent.leave", "target": "core", "payload": { "forget": true } }))
        .await;
    network.admin(AdminOp::Settings(json!({ "status": "paused" }))).await.unwrap();
}

/// What a reader of the directory must find. Nothing runs on it: time would go on and age its mail.
fn summary(dir: &Path) -> Value {
    let store = LocalStore::open(dir, LocalOptions::default()).unwrap();
    let report = json!(verify::verify(&store, &verify::LiveStates::new(), &mut |_, _| {}).unwrap());
    assert_eq!(report["problems"], json!([]));
    let network = &report["networks"][0];
    let seqs: Vec<u64> = (1..=network["events"].as_u64().unwrap()).collect();
    let records = rialto_node::query::read_records(&store, 1, network["id"].as_str().unwrap(), &seqs).unwrap();
    let events: Vec<String> = records.iter().map(|r| r.event.json()).collect();
    json!({ "state": network["state"], "from_start": network["from_start"], "events": events })
}

/// Writes the fixture anew when `RIALTO_WRITE_FIXTURES` is set: only when a new format version gets one of its own.
#[tokio::test]
async fn a_node_written_today_comes_back_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let write = std::env::var_os("RIALTO_WRITE_FIXTURES").is_some();
    let dir = if write { fixture(VERSION).join("data") } else { temp.path().join("data") };
    let node = open(&dir).await;
    live(&node).await;
    let (_, live) = node.network("main").unwrap().state_hash().await.unwrap();
    node.stop().await;
    drop(node);
    let found = summary(&dir);
    let live: String = live.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(found["state"], live);
    if write {
        std::fs::remove_file(dir.join("LOCK")).unwrap();
        std::fs::write(fixture(VERSION).join("summary.json"), serde_json::to_string_pretty(&found).unwrap()).unwrap();
    }
}

#[test]
fn the_checked_in_nodes_of_all_versions_open() {
    for fixture in (1..=VERSION).map(fixture) {
        let temp = tempfile::tempdir().unwrap();
        copy_dir(&fixture.join("data"), temp.path());
        let expected: Value = serde_json::from_slice(&std::fs::read(fixture.join("summary.json")).unwrap()).unwrap();
        assert_eq!(summary(temp.path()), expected);
        // Without its snapshots the log alone gives the same state.
        std::fs::remove_dir_all(temp.path().join("snapshots")).unwrap();
        assert_eq!(summary(temp.path()), expected);
    }
}

/// A payload is erased where it lies, in the form of its record's own version.
#[tokio::test]
async fn an_event_of_every_version_is_redacted() {
    for version in 1..=VERSION {
        let temp = tempfile::tempdir().unwrap();
        copy_dir(&fixture(version).join("data"), temp.path());
        let node = open(temp.path()).await;
        node.network("main").unwrap().redact("m7").await.unwrap();
        node.stop().await;
        drop(node);
        let found = summary(temp.path());
        let events: Vec<&str> = found["events"].as_array().unwrap().iter().map(|e| e.as_str().unwrap()).collect();
        assert!(!events.iter().any(|e| e.contains("message 7 ")), "{version}");
        assert!(events.iter().any(|e| e.contains("message 8 ") && e.contains("\"id\":\"m8\"")), "{version}");
    }
}
