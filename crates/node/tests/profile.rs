//! What a workspace has by its profile: from its making, or from the first start of a node that knows of it, once.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::Preset;
use rialto_node::{AdminOp, Answered, Caller, CreateNetwork, Network, Node, NodeConfig, identity::sha256};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const SKILL: &str = "resource/context/skill-md";

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

async fn open(dir: &Path) -> Node {
    Node::open(NodeConfig { data: Some(dir.to_path_buf()), no_search: true, ..NodeConfig::default() }).await.unwrap()
}

async fn send(network: &Network, caller: &Arc<Caller>, event: Value) -> Answered {
    network.session(caller).emit(event.to_string().into()).await.unwrap().pop().unwrap()
}

async fn join(network: &Network, name: &str) -> Arc<Caller> {
    let event = json!({ "type": "network.agent.join", "source": name, "target": "core", "payload": {} });
    let session = send(network, &operator(), event).await.session_id.unwrap();
    Arc::new(Caller { bearer: Some(sha256(&session)), ..Caller::default() })
}

async fn mods(network: &Network) -> String {
    let listed = network.session(&operator()).mods().await.unwrap();
    listed.mods.iter().map(|m| m.name.as_ref()).collect::<Vec<_>>().join(" ")
}

async fn text(network: &Network, caller: &Arc<Caller>) -> Option<String> {
    let found = network.session(caller).resource(SKILL, None).await.ok()?;
    let content = found.content.unwrap();
    let mut download = network.download(&content, 0..content.size).await.unwrap();
    let mut out = Vec::new();
    while let Some(piece) = download.next().await.unwrap() {
        out.extend_from_slice(&piece);
    }
    Some(String::from_utf8(out).unwrap())
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

#[tokio::test]
async fn a_workspace_begins_with_its_mods_and_a_context_that_masters_write() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    assert_eq!(mods(&network).await, "auth access-control workspace persistence");
    let (plain, _) = node.create_network(CreateNetwork::named("plain", Preset::Plain)).await.unwrap();
    assert_eq!(mods(&plain).await, "auth persistence");
    assert!(text(&plain, &operator()).await.is_none(), "a plain network has no context of its own");
    let chosen = CreateNetwork {
        mods: Some(vec!["persistence".to_owned()]),
        ..CreateNetwork::named("chosen", Preset::Workspace)
    };
    let (chosen, _) = node.create_network(chosen).await.unwrap();
    assert_eq!(mods(&chosen).await, "persistence");
    assert!(text(&chosen, &operator()).await.is_some());

    let master = join(&network, "agent:first").await;
    let member = join(&network, "agent:second").await;
    let found = json!(network.session(&member).resource(SKILL, None).await.unwrap().entry);
    let expected = json!({
        "address": SKILL, "type": "context", "owner": "core", "version": 1, "backing": "network",
        "content_type": "text/markdown", "your_permissions": ["read"],
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&found[key], value, "{key}");
    }
    assert!(text(&network, &member).await.unwrap().contains("metadata.target_agents"));
    let write = json!({ "type": "network.resource.update", "target": SKILL, "payload": { "content": "Ours." } });
    network.admin(AdminOp::Role("agent:first".into(), rialto_model::Role::Master)).await.unwrap();
    let refused = send(&network, &member, write.clone()).await.result.unwrap_err();
    assert_eq!((refused.wire_code(), refused.by_mod.as_deref()), ("permission_denied", Some("mod/access-control")));
    send(&network, &master, write).await.result.unwrap();
    let gone = json!({ "type": "network.resource.unregister", "target": "core", "payload": { "address": SKILL } });
    assert_eq!(send(&network, &master, gone).await.result.unwrap_err().wire_code(), "permission_denied");
    node.stop().await;

    // What a master wrote is there after a restart, and so is what the operator chose.
    let node = open(dir.path()).await;
    let network = node.network("main").unwrap();
    assert_eq!(text(&network, &operator()).await.as_deref(), Some("Ours."));
    assert_eq!(mods(&node.network("chosen").unwrap()).await, "persistence");
    node.stop().await;
}

#[tokio::test]
async fn a_node_of_an_older_release_is_brought_up_once() {
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1/data"), dir.path());
    let node = open(dir.path()).await;
    let network = node.default_network().unwrap();
    assert_eq!(mods(&network).await, "auth access-control workspace persistence");
    assert!(text(&network, &operator()).await.unwrap().starts_with("---\nname:"));
    let (head, hash) = network.state_hash().await.unwrap();
    node.stop().await;

    let node = open(dir.path()).await;
    let network = node.default_network().unwrap();
    let (again, same) = network.state_hash().await.unwrap();
    assert_eq!(same, hash, "a second start adds nothing");
    assert!(again - head <= 1, "the stop has recorded the time, if any had passed: {again} after {head}");
    network.admin(AdminOp::RemoveMod("workspace".into())).await.unwrap();
    network.admin(AdminOp::RemoveMod("access-control".into())).await.unwrap();
    node.stop().await;

    let node = open(dir.path()).await;
    assert_eq!(mods(&node.default_network().unwrap()).await, "auth persistence", "what was unloaded stays unloaded");
    node.stop().await;
}
