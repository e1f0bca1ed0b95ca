//! Redaction: what was said is nowhere in the data directory, whatever it was copied into, also when the node is killed in the
//! middle.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod copies;
mod crash;
mod scenes;
mod world;

use crate::world::{SECRET, agent, check, holding, indexed, open, send};
use rialto_node::Network;
use serde_json::json;

/// Sends a text with metadata; gives its position.
async fn say(network: &Network) -> u64 {
    let alice = agent(network, "agent:alice").await;
    let event = json!({
        "id": "said", "type": "app.note", "target": "channel/general", "payload": { "content": SECRET },
        "metadata": { "note": SECRET, "thread": "thread_kept" },
    });
    send(network, &alice, event).await;
    network.find("said").await.unwrap().unwrap().event.seq
}

#[tokio::test]
async fn metadata_goes_with_the_payload() {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    let seq = say(&network).await;
    indexed(&network, seq).await;
    assert!(!holding(dir.path()).is_empty(), "it is somewhere before");
    network.redact("said").await.unwrap();
    check(&node, &network).await;
    node.stop().await;
    assert_eq!(holding(dir.path()), [""; 0]);
}

/// The tombstone is logged first. A node that is killed before the bytes are overwritten does that when it starts.
#[tokio::test]
async fn a_redaction_that_was_cut_short_is_finished_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    let seq = say(&network).await;
    indexed(&network, seq).await;
    scenes::mark(&network).await;
    node.stop().await;
    drop((network, node));
    assert!(!holding(dir.path()).is_empty(), "nothing was overwritten yet");
    let (node, _) = open(dir.path()).await;
    node.stop().await;
    assert_eq!(holding(dir.path()), [""; 0]);
}
