//! What is sent at most once waits in a ring for polls: given away once, never lost to another poll's filter or limit.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::{Delivery, Preset};
use rialto_node::identity::sha256;
use rialto_node::{Caller, CreateNetwork, Filter, Network, Node, Query, View};
use rialto_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;

async fn emit(network: &Network, caller: &Arc<Caller>, event: Value) -> Value {
    let answers = network.session(caller).emit(event.to_string().into()).await.unwrap();
    *answers.into_iter().next().unwrap().result.unwrap().result.unwrap_or_default()
}

async fn join(network: &Network, name: &str) -> Arc<Caller> {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let event = json!({ "type": "network.agent.join", "source": name, "target": "core" });
    let joined = emit(network, &operator, event).await;
    let session = sha256(joined["session_id"].as_str().unwrap());
    Arc::new(Caller { bearer: Some(session), ..Caller::default() })
}

async fn poll(network: &Network, caller: &Arc<Caller>, limit: i64, kind: Option<&str>) -> Vec<String> {
    let mut query = Query { limit: Some(limit), view: Some(View::Inbox), ..Query::default() };
    query.filter.kind = kind.map(str::to_owned);
    let page = network.session(caller).query(&query).await.unwrap();
    page.events.iter().map(|e| e.event.id().to_owned()).collect()
}

#[tokio::test]
async fn every_event_of_a_ring_comes_with_exactly_one_poll() {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    let wish = CreateNetwork { delivery: Delivery::AtMostOnce, ..CreateNetwork::named("main", Preset::Plain) };
    let (network, _) = node.create_network(wish).await.unwrap();
    let alice = join(&network, "agent:alice").await;
    let bob = join(&network, "agent:bob").await;
    assert_eq!(poll(&network, &bob, 50, None).await, [""; 0]);
    let mut ids = Vec::new();
    for i in 0..100 {
        let kind = if i % 10 == 0 { "app.rare" } else { "app.note" };
        ids.push(format!("m{i}"));
        emit(&network, &alice, json!({ "id": ids[i], "type": kind, "target": "agent:bob" })).await;
    }
    // A look at who reads takes nothing away.
    network.session(&bob).page(View::Inbox, &Default::default(), None, 0).await.unwrap();
    let rare = poll(&network, &bob, 4, Some("app.rare")).await;
    assert_eq!(rare, ["m0", "m10", "m20", "m30"]);
    let mut seen = rare;
    for _ in 0..20 {
        seen.extend(poll(&network, &bob, 7, None).await);
    }
    assert_eq!(seen.len(), 100);
    seen.sort_unstable();
    ids.sort_unstable();
    assert_eq!(seen, ids);
    node.stop().await;
}

#[tokio::test]
async fn after_acks_only_what_passes_the_same_filter() {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Plain)).await.unwrap();
    let alice = join(&network, "agent:alice").await;
    let bob = join(&network, "agent:bob").await;
    // More than one page of candidates.
    for i in 0..1200 {
        let kind = if i % 100 == 0 { "app.rare" } else { "app.note" };
        emit(&network, &alice, json!({ "id": format!("m{i}"), "type": kind, "target": "agent:bob" })).await;
    }
    let up_to = network.session(&bob).cursor("m1000", false).await.unwrap().unwrap();
    let rare = Filter { kind: Some("app.rare".into()), ..Filter::default() };
    assert_eq!(network.session(&bob).ack_filtered(up_to, rare.clone()).await.unwrap(), 11);
    assert_eq!(network.session(&bob).ack_filtered(up_to, rare).await.unwrap(), 0);
    assert_eq!(poll(&network, &bob, 500, Some("app.rare")).await, ["m1100"]);
    assert_eq!(network.session(&bob).ack_filtered(up_to, Filter::default()).await.unwrap(), 990);
    assert_eq!(poll(&network, &bob, 1, None).await, ["m1001"]);
    node.stop().await;
}

#[tokio::test]
async fn a_waiting_reader_wakes_with_the_commit() {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Plain)).await.unwrap();
    let alice = join(&network, "agent:alice").await;
    let bob = join(&network, "agent:bob").await;
    let mut head = network.head();
    for i in 0..20 {
        head.borrow_and_update();
        emit(&network, &alice, json!({ "id": format!("m{i}"), "type": "app.note", "target": "agent:bob" })).await;
        // Whoever was answered finds the position there: nobody has to wait for a tick.
        tokio::time::timeout(std::time::Duration::from_millis(500), head.changed()).await.unwrap().unwrap();
        assert_eq!(poll(&network, &bob, 500, None).await.len(), i + 1);
    }
    node.stop().await;
}
