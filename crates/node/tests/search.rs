//! The search index follows the log on a thread of its own: it catches up after a restart, says how far it is behind,
//! and goes when the node goes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use rialto_model::network::Preset;
use rialto_node::identity::sha256;
use rialto_node::{Caller, CreateNetwork, Network, Node, NodeConfig};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn open(data: &Path, no_search: bool) -> Node {
    Node::open(NodeConfig { data: Some(data.to_owned()), no_search, ..NodeConfig::default() }).await.unwrap()
}

async fn caught_up(network: &Network) {
    let began = Instant::now();
    while network.search_lag() != Some(0) {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?} behind", network.search_lag());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn say(network: &Network, n: usize) {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let join = json!({ "type": "network.agent.join", "source": "agent:alice", "target": "core" });
    let joined = network.session(&operator).emit(join.to_string().into()).await.unwrap();
    let joined = joined.into_iter().next().unwrap().result.unwrap().result.unwrap();
    let bearer = Some(sha256(joined.get("session_id").unwrap().as_str().unwrap()));
    let alice = Arc::new(Caller { bearer, ..Caller::default() });
    let event = json!({ "type": "app.note", "target": "channel/general", "payload": { "text": "heron" } });
    let answers = network.session(&alice).emit(std::iter::repeat_n(event.to_string(), n).collect()).await.unwrap();
    assert!(answers.iter().all(|a| a.result.is_ok()), "{:?}", answers.first());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_catches_up_after_a_restart_and_says_how_far_it_is_behind() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path(), true).await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    say(&network, 50).await;
    assert_eq!(network.search_lag(), None, "there is no index to lag");
    node.stop().await;
    let node = open(dir.path(), false).await;
    let network = node.default_network().unwrap();
    let head = *network.head().borrow();
    caught_up(&network).await;
    assert_eq!(network.indexed_through().await, Some(head));
    say(&network, 1).await;
    caught_up(&network).await;
    assert_eq!(network.indexed_through().await, Some(*network.head().borrow()));
    assert!(network.indexed_through().await > Some(head));
    node.stop().await;
    let threads: Vec<String> = std::fs::read_dir("/proc/self/task")
        .map(|tasks| tasks.flatten().filter_map(|t| std::fs::read_to_string(t.path().join("comm")).ok()).collect())
        .unwrap_or_default();
    assert!(threads.iter().all(|name| name.trim() != "rialto-search"), "{threads:?}");
}
