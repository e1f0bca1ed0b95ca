//! No read shows what a power cut could take back: a log whose commits are held back, and somebody who reads meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::Preset;
use rialto_node::clock::DrivenClock;
use rialto_node::{Caller, CreateNetwork, Host, Network, Node, NodeParts, Query, View};
use rialto_store::disk::fault::FaultDisk;
use rialto_store::{LocalOptions, LocalStore};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Lets every task run as far as it gets without the log.
async fn breathe() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

struct Place {
    store: Arc<LocalStore<FaultDisk>>,
    network: Network,
}

impl Place {
    /// A network whose log commits when it is told to.
    async fn new() -> Place {
        let options = LocalOptions { free_floor_bytes: 0, manual: true, ..LocalOptions::default() };
        let store = Arc::new(LocalStore::open_on(FaultDisk::new(3), "/data", options).unwrap());
        let host = Host::simulated(Arc::new(DrivenClock::at(1_767_225_600_000)), 3);
        let node = Node::open_with(NodeParts { host, ..NodeParts::over(store.clone()) }).await.unwrap();
        let made =
            tokio::spawn(async move { node.create_network(CreateNetwork::named("main", Preset::Workspace)).await });
        let (network, _) = commit(&store, made).await.unwrap();
        Place { store, network }
    }

    /// Sends an event; it is answered when the log has it.
    fn send(&self, caller: &Arc<Caller>, event: Value) -> JoinHandle<Value> {
        let (network, caller) = (self.network.clone(), caller.clone());
        tokio::spawn(async move {
            let answers = network.session(&caller).emit(event.to_string().into()).await.unwrap();
            *answers.into_iter().next().unwrap().result.unwrap().result.unwrap_or_default()
        })
    }

    async fn join(&self, name: &str) -> Arc<Caller> {
        let operator = Arc::new(Caller { operator: true, ..Caller::default() });
        let event = json!({ "type": "network.agent.join", "source": name, "target": "core" });
        let result = commit(&self.store, self.send(&operator, event)).await;
        let bearer = rialto_node::identity::sha256(result["session_id"].as_str().unwrap());
        Arc::new(Caller { bearer: Some(bearer), ..Caller::default() })
    }

    fn channels(&self, caller: &Arc<Caller>) -> JoinHandle<String> {
        let (network, caller) = (self.network.clone(), caller.clone());
        tokio::spawn(async move { json!(network.session(&caller).channels(None, 500).await.unwrap()).to_string() })
    }
}

/// Lets the log commit until something is done.
async fn commit<T>(store: &LocalStore<FaultDisk>, work: JoinHandle<T>) -> T {
    for _ in 0..1000 {
        breathe().await;
        if work.is_finished() {
            return work.await.unwrap();
        }
        store.pump().unwrap();
    }
    panic!("it does not come to an end");
}

#[tokio::test]
async fn what_is_not_committed_is_shown_to_nobody() {
    let place = Place::new().await;
    let (alice, bob) = (place.join("agent:alice").await, place.join("agent:bob").await);
    let event = json!({ "type": "network.channel.create", "target": "core", "payload": { "name": "plans" } });
    let made = place.send(&alice, event);
    breathe().await;
    let listed = place.channels(&bob);
    let (network, reader) = (place.network.clone(), bob.clone());
    let query = Query { view: Some(View::Inbox), ..Query::default() };
    let polled = tokio::spawn(async move { network.session(&reader).query(&query).await.unwrap().events.len() });
    breathe().await;
    assert!(!made.is_finished(), "nothing is acknowledged before it is flushed");
    assert!(!listed.is_finished() && !polled.is_finished(), "a read that has seen it waits for it");
    commit(&place.store, made).await;
    assert!(listed.await.unwrap().contains("channel/plans"), "and is answered with it");
    polled.await.unwrap();
    // With nothing on its way a read is answered at once.
    let listed = place.channels(&bob);
    breathe().await;
    assert!(listed.is_finished());
}
