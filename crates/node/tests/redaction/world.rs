//! A node whose files are looked through, on a real disk or on one whose power can be cut.

use rialto_model::network::Preset;
use rialto_node::identity::sha256;
use rialto_node::{Caller, CreateNetwork, Network, Node, NodeConfig, NodeParts, verify};
use rialto_store::disk::Disk;
use rialto_store::disk::DiskFile as _;
use rialto_store::disk::fault::FaultDisk;
use rialto_store::{LocalOptions, LocalStore};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

/// What must not be found afterwards.
pub(crate) const SECRET: &str = "swordfish-9f3b";

fn holds(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|w| w == SECRET.as_bytes())
}

/// Files below that hold the secret.
pub(crate) fn holding(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path));
        } else if holds(&std::fs::read(&path).unwrap()) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// The same on the other disk.
pub(crate) fn holding_on(disk: &FaultDisk, dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in disk.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            found.extend(holding_on(disk, &path));
            continue;
        }
        let mut bytes = vec![0; usize::try_from(entry.len).unwrap()];
        disk.open(&path, false).unwrap().read_at(&mut bytes, 0).unwrap();
        if holds(&bytes) {
            found.push(path.display().to_string());
        }
    }
    found
}

pub(crate) async fn open(dir: &Path) -> (Node, Network) {
    with_network(Node::open(NodeConfig { data: Some(dir.to_path_buf()), ..NodeConfig::default() }).await.unwrap()).await
}

pub(crate) async fn open_on(disk: &FaultDisk) -> (Node, Network) {
    let options = LocalOptions {
        first_segment_bytes: 16 << 10,
        max_segment_bytes: 16 << 10,
        free_floor_bytes: 0,
        ..LocalOptions::default()
    };
    let store = Arc::new(LocalStore::open_on(disk.clone(), "/data", options).unwrap());
    with_network(Node::open_with(NodeParts::over(store)).await.unwrap()).await
}

async fn with_network(node: Node) -> (Node, Network) {
    let network = match node.network("main") {
        Some(network) => network,
        None => node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap().0,
    };
    (node, network)
}

/// The state is the one in the log, from its start and from the snapshots, and no byte is wrong.
pub(crate) async fn check(node: &Node, network: &Network) {
    let live = verify::LiveStates::from([(network.number(), network.state_hash().await.unwrap())]);
    let report = json!(verify::verify(node.store().as_ref(), &live, &mut |_, _| {}).unwrap());
    assert_eq!(report["problems"], json!([]), "{report}");
    assert_eq!(report["networks"][0]["from_start"], json!(true));
}

pub(crate) async fn indexed(network: &Network, seq: u64) {
    while network.indexed_through().await.unwrap_or(0) < seq {
        tokio::task::yield_now().await;
    }
}

/// Sends an event that must be taken; gives its result.
pub(crate) async fn send(network: &Network, caller: &Arc<Caller>, event: Value) -> Value {
    let answers = network.session(caller).emit(event.to_string().into()).await.unwrap();
    let accepted = answers.into_iter().next().unwrap().result.unwrap_or_else(|fault| panic!("{event}: {fault}"));
    *accepted.result.unwrap_or_default()
}

pub(crate) async fn join(network: &Network, name: &str, id: &str, payload: Value) -> Arc<Caller> {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let mut event = json!({ "type": "network.agent.join", "source": name, "target": "core", "payload": payload });
    if !id.is_empty() {
        event["id"] = json!(id);
    }
    let result = send(network, &operator, event).await;
    let bearer = sha256(result["session_id"].as_str().unwrap());
    Arc::new(Caller { bearer: Some(bearer), ..Caller::default() })
}

pub(crate) async fn agent(network: &Network, name: &str) -> Arc<Caller> {
    join(network, name, "", json!({})).await
}

/// Closes what is left of a node whose disk is gone.
pub(crate) async fn abandon(node: Node, network: Network, disk: &FaultDisk) {
    let _ = tokio::time::timeout(std::time::Duration::from_secs(20), node.stop()).await;
    drop((node, network));
    disk.crash();
}
