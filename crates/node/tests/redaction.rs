//! Redaction: what was said is nowhere in the data directory, also when the node is killed in the middle.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::Preset;
use rialto_node::{AdminOp, Caller, CreateNetwork, Dialect, Network, Node, NodeConfig};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

const SECRET: &str = "swordfish-9f3b";

async fn open(dir: &Path) -> Node {
    Node::open(NodeConfig { data: Some(dir.to_path_buf()), ..NodeConfig::default() }).await.unwrap()
}

/// Sends a text with metadata; gives its position.
async fn send(network: &Network, id: &str) -> u64 {
    let operator = Arc::new(Caller { operator: true, dialect: Some(Dialect::Seed), ..Caller::default() });
    let join = json!({ "type": "network.agent.join", "source": "agent:alice", "target": "core" });
    let answers = network.emit(&operator, join.to_string().into()).await.unwrap();
    let result = answers.into_iter().next().unwrap().result.unwrap().result.unwrap();
    let bearer = rialto_node::identity::sha256(result["session_id"].as_str().unwrap());
    let alice = Arc::new(Caller { bearer: Some(bearer), dialect: Some(Dialect::Seed), ..Caller::default() });
    let event = json!({
        "id": id, "type": "app.note", "target": "channel/general", "payload": { "content": SECRET },
        "metadata": { "note": SECRET, "thread": "thread_kept" },
    });
    let answers = network.emit(&alice, event.to_string().into()).await.unwrap();
    answers.into_iter().next().unwrap().result.unwrap().seq.unwrap()
}

/// Files below that hold the text.
fn holding(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path));
        } else if std::fs::read(&path).unwrap().windows(SECRET.len()).any(|w| w == SECRET.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

async fn indexed(network: &Network, seq: u64) {
    while network.indexed_through().await.unwrap_or(0) < seq {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn metadata_goes_with_the_payload() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let seq = send(&network, "said").await;
    indexed(&network, seq).await;
    assert!(!holding(dir.path()).is_empty(), "it is somewhere before");
    network.redact("said").await.unwrap();
    node.stop().await;
    assert_eq!(holding(dir.path()), [""; 0]);
}

/// The tombstone is logged first. A node that is killed before the bytes are overwritten does that when it starts.
#[tokio::test]
async fn a_redaction_that_was_cut_short_is_finished_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let seq = send(&network, "said").await;
    indexed(&network, seq).await;
    network.admin(AdminOp::Redact(seq)).await.unwrap();
    node.stop().await;
    drop((network, node));
    assert!(!holding(dir.path()).is_empty(), "nothing was overwritten yet");
    let node = open(dir.path()).await;
    node.stop().await;
    assert_eq!(holding(dir.path()), [""; 0]);
}
