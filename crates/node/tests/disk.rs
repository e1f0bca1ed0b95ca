//! A node over a disk that is full or read-only: what is promised of the real disk, over the fault layer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::ErrorCode;
use rialto_model::network::Preset;
use rialto_node::{Caller, CreateNetwork, Network, Node, Query, View};
use rialto_store::disk::fault::FaultDisk;
use rialto_store::{LocalOptions, LocalStore};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const FLOOR: u64 = 1 << 20;

async fn over(disk: &FaultDisk) -> Node {
    let options = LocalOptions { free_floor_bytes: FLOOR, ..LocalOptions::default() };
    let store = LocalStore::open_on(disk.clone(), "/data", options).unwrap();
    Node::over(Arc::new(store), None, false).await.unwrap()
}

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

/// A network and a member of it.
async fn made(node: &Node) -> (Network, Arc<Caller>) {
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let join = json!({ "type": "network.agent.join", "source": "agent:alice", "target": "core" });
    let answers = network.session(&operator()).emit(join.to_string().into()).await.unwrap();
    let result = answers.into_iter().next().unwrap().result.unwrap().result.unwrap();
    let bearer = rialto_node::identity::sha256(result["session_id"].as_str().unwrap());
    (network, Arc::new(Caller { bearer: Some(bearer), ..Caller::default() }))
}

async fn send(network: &Network, alice: &Arc<Caller>, id: &str) -> Result<(), ErrorCode> {
    let event = json!({ "id": id, "type": "app.note", "target": "agent:broadcast" });
    let session = network.session(alice);
    let sent = session.emit(event.to_string().into());
    let answers = tokio::time::timeout(Duration::from_secs(10), sent).await.expect("an answer in time");
    match answers.map_err(|fault| fault.code)?.into_iter().next().unwrap().result {
        Ok(_) => Ok(()),
        Err(fault) => Err(fault.code),
    }
}

async fn history(network: &Network) -> Result<Vec<String>, ErrorCode> {
    let query = Query { limit: Some(500), view: Some(View::Log), ..Query::default() };
    let result = network.session(&operator()).query(&query).await.map_err(|fault| fault.code)?;
    let notes = result.events.iter().filter(|e| e.event.kind() == "app.note");
    Ok(notes.map(|e| e.event.id().to_owned()).collect())
}

async fn until(what: &str, wanted: impl Fn() -> bool) {
    for _ in 0..1000 {
        if wanted() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen");
}

#[tokio::test]
async fn a_full_disk_refuses_writes_serves_reads_and_recovers() {
    let disk = FaultDisk::new(5);
    let node = over(&disk).await;
    let (network, alice) = made(&node).await;
    let mut kept = Vec::new();
    for round in 0..3 {
        for n in 0..5 {
            kept.push(format!("r{round}-{n}"));
            send(&network, &alice, kept.last().unwrap()).await.unwrap();
        }
        disk.set_free(FLOOR / 2);
        for n in 0..5 {
            assert_eq!(send(&network, &alice, &format!("full-{round}-{n}")).await, Err(ErrorCode::StorageUnavailable));
            until("unreadiness", || !node.is_ready() || !network.is_ready()).await;
            // Looked at over and over while reads are served, it never says that it is ready.
            for _ in 0..50 {
                assert!(history(&network).await.is_ok() && !network.is_ready(), "ready with a full disk");
            }
            assert_eq!(history(&network).await.unwrap(), kept, "reads go on");
        }
        disk.set_free(1 << 30);
        until("readiness", || network.is_ready()).await;
    }
    assert_eq!(history(&network).await.unwrap(), kept);
    // Full again, it stops; what was acknowledged is there afterwards and nothing else.
    disk.set_free(0);
    assert_eq!(send(&network, &alice, "never").await, Err(ErrorCode::StorageUnavailable));
    tokio::time::timeout(Duration::from_secs(10), node.stop()).await.unwrap();
    drop((node, network));
    disk.set_free(1 << 30);
    let node = over(&disk).await;
    assert_eq!(history(&node.networks()[0]).await.unwrap(), kept);
    node.stop().await;
}

#[tokio::test]
async fn a_read_only_disk_refuses_and_recovers() {
    let disk = FaultDisk::new(6);
    let node = over(&disk).await;
    let (network, alice) = made(&node).await;
    let mut kept = Vec::new();
    for round in 0..3 {
        for n in 0..5 {
            kept.push(format!("r{round}-{n}"));
            send(&network, &alice, kept.last().unwrap()).await.unwrap();
        }
        disk.set_read_only(true);
        for n in 0..3 {
            assert_eq!(send(&network, &alice, &format!("ro-{round}-{n}")).await, Err(ErrorCode::StorageUnavailable));
            until("unreadiness", || !network.is_ready()).await;
        }
        disk.set_read_only(false);
        until("readiness", || network.is_ready()).await;
        assert_eq!(history(&network).await.unwrap(), kept);
    }
    node.stop().await;
}
