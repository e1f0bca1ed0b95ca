//! Artifacts kept as content: on the disk before the event that names them, and as long as their unit is known.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::Preset;
use rialto_model::{ErrorCode, Fault, hex};
use rialto_node::identity::sha256;
use rialto_node::{Caller, CreateNetwork, Network, Node, NodeConfig, verify};
use rialto_store::{LocalOptions, LocalStore};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

async fn open(dir: &Path) -> (Node, Network) {
    let config = NodeConfig { data: Some(dir.to_path_buf()), no_search: true, ..NodeConfig::default() };
    let node = Node::open(config).await.unwrap();
    let network = match node.network("main") {
        Some(network) => network,
        None => node.create_network(CreateNetwork::named("main", Preset::Plain)).await.unwrap().0,
    };
    (node, network)
}

async fn emit(network: &Network, caller: &Arc<Caller>, event: Value) -> Result<Value, Fault> {
    let answers = network.session(caller).emit(event.to_string().into()).await.unwrap();
    answers.into_iter().next().unwrap().result.map(|accepted| *accepted.result.unwrap_or_default())
}

async fn join(network: &Network, name: &str) -> Arc<Caller> {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let event = json!({ "type": "network.agent.join", "source": name, "target": "core" });
    let joined = emit(network, &operator, event).await.unwrap();
    let session = sha256(joined["session_id"].as_str().unwrap());
    Arc::new(Caller { bearer: Some(session), ..Caller::default() })
}

/// Uploads content; gives its hash.
async fn stage(network: &Network, caller: &Arc<Caller>, text: &str) -> String {
    let mut upload = network.session(caller).stage(None).await.unwrap();
    upload.write(text.as_bytes()).await.unwrap();
    hex::text(&upload.finish().await.unwrap().hash)
}

async fn hand_over(network: &Network, by: &Arc<Caller>, unit: &str, id: &str, hash: &str) -> Result<Value, Fault> {
    let payload = json!({ "work": unit, "artifact": { "id": id, "blob": { "sha256": hash } } });
    emit(network, by, json!({ "type": "work.artifact", "target": "core", "payload": payload })).await
}

async fn fetch(network: &Network, by: &Arc<Caller>, unit: &str, id: &str) -> Result<String, ErrorCode> {
    let found = network.session(by).artifact(unit, id).await.map_err(|fault| fault.code)?;
    let mut out = Vec::new();
    for content in &found.contents {
        let mut download = network.download(content, 0..content.size).await.map_err(|fault| fault.code)?;
        while let Some(piece) = download.next().await.unwrap() {
            out.extend_from_slice(&piece);
        }
    }
    Ok(String::from_utf8(out).unwrap())
}

#[tokio::test]
async fn content_of_work_is_held_counted_and_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    let (ana, ben, eve) =
        (join(&network, "agent:ana").await, join(&network, "agent:ben").await, join(&network, "agent:eve").await);
    let ask = json!({ "type": "test.ask", "target": "agent:ben", "payload": {}, "metadata": { "work": {} } });
    let unit = emit(&network, &ana, ask).await.unwrap()["work"]["id"].as_str().unwrap().to_owned();
    let (old, kept, never) = (
        stage(&network, &ben, "the first").await,
        stage(&network, &ben, "the second one").await,
        stage(&network, &ben, "named by nobody").await,
    );
    // What another uploaded cannot be told from what is not there.
    let theirs = stage(&network, &eve, "eve's own").await;
    for hash in [theirs.clone(), "ab".repeat(32)] {
        let fault = hand_over(&network, &ben, &unit, "x", &hash).await.unwrap_err();
        let told = (fault.code, fault.message.to_string());
        assert_eq!(told, (ErrorCode::UnknownTarget, "you have uploaded no such content: upload it first".to_owned()));
    }
    hand_over(&network, &ben, &unit, "x", &old).await.unwrap();
    assert_eq!(fetch(&network, &ana, &unit, "x").await.unwrap(), "the first");
    hand_over(&network, &ben, &unit, "x", &kept).await.unwrap();
    assert_eq!(fetch(&network, &ana, &unit, "x").await.unwrap(), "the second one");
    assert_eq!(fetch(&network, &eve, &unit, "x").await.unwrap_err(), ErrorCode::UnknownTarget);
    node.stop().await;
    drop((node, network));

    // Nothing waits to be named any more: only what the unit names is left, and counted.
    let (node, network) = open(dir.path()).await;
    node.blobs().clean_up().await.unwrap();
    assert_eq!(node.blobs().usage(network.number()).bytes, 14);
    let there = |hash: &str| node.store().has_blob(hash).unwrap();
    assert_eq!([&old, &kept, &never, &theirs].map(|hash| there(hash)), [false, true, false, false]);
    let ana = join(&network, "agent:ana").await;
    assert_eq!(fetch(&network, &ana, &unit, "x").await.unwrap(), "the second one");
    // An erased event takes its content along.
    let page = network.session(&ana).work_page(&unit, 0, 10).await.unwrap();
    let last = page.events.iter().rfind(|record| record.event.kind() == "work.artifact").unwrap();
    network.redact(last.event.id()).await.unwrap();
    assert_eq!(fetch(&network, &ana, &unit, "x").await.unwrap_err(), ErrorCode::ResourceNotFound);
    node.blobs().clean_up().await.unwrap();
    assert_eq!((node.blobs().usage(network.number()).bytes, there(&kept)), (0, false));
    node.stop().await;
    drop((node, network));
    let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    let report = json!(verify::verify(&store, &verify::LiveStates::new(), &mut |_, _| {}).unwrap());
    assert_eq!(report["problems"], json!([]));
}

#[tokio::test]
async fn verify_names_content_of_work_that_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (node, network) = open(dir.path()).await;
    let (ana, ben) = (join(&network, "agent:ana").await, join(&network, "agent:ben").await);
    let ask = json!({ "type": "test.ask", "target": "agent:ben", "payload": {}, "metadata": { "work": {} } });
    let unit = emit(&network, &ana, ask).await.unwrap()["work"]["id"].as_str().unwrap().to_owned();
    let hash = stage(&network, &ben, "soon gone").await;
    hand_over(&network, &ben, &unit, "x", &hash).await.unwrap();
    node.stop().await;
    drop((node, network));
    let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    rialto_store::Store::remove_blob(&store, &hash).unwrap();
    let report = json!(verify::verify(&store, &verify::LiveStates::new(), &mut |_, _| {}).unwrap());
    assert_eq!(report["problems"][0]["blob"], hash);
}
