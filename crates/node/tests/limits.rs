//! Bounds of the node: each is filled here and its documented error seen.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::{Delivery, Preset};
use rialto_model::{ErrorCode, limits};
use rialto_node::{Answered, Caller, CreateNetwork, Filter, Network, Node, Query, View};
use rialto_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;

async fn node() -> Node {
    Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap()
}

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

async fn emit(network: &Network, caller: &Arc<Caller>, events: &[Value]) -> Vec<Answered> {
    network.session(caller).emit(events.iter().map(Value::to_string).collect()).await.unwrap()
}

async fn join(network: &Network, name: &str) -> Arc<Caller> {
    let join = json!({ "type": "network.agent.join", "source": name, "target": "core" });
    let session = emit(network, &operator(), &[join]).await.remove(0).session_id.unwrap();
    Arc::new(Caller { bearer: Some(rialto_node::identity::sha256(&session)), ..Caller::default() })
}

fn page(limit: i64) -> Query {
    Query { limit: Some(limit), view: Some(View::Log), ..Query::default() }
}

#[tokio::test]
async fn pages_are_bounded_by_page_events_max_and_default_to_page_events_default() {
    let node = node().await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let alice = join(&network, "agent:alice").await;
    let events = vec![json!({ "type": "app.note", "target": "channel/general" }); limits::PAGE_EVENTS_MAX + 10];
    assert!(emit(&network, &alice, &events).await.iter().all(|a| a.result.is_ok()));
    let most = network.session(&alice).query(&page(limits::PAGE_EVENTS_MAX as i64)).await.unwrap();
    assert_eq!((most.events.len(), most.has_more), (limits::PAGE_EVENTS_MAX, true));
    for bad in [0, -1, limits::PAGE_EVENTS_MAX as i64 + 1] {
        assert_eq!(network.session(&alice).query(&page(bad)).await.unwrap_err().code, ErrorCode::InvalidArgument);
    }
    let plain = network.session(&alice).query(&Query { view: Some(View::Log), ..Query::default() }).await.unwrap();
    assert_eq!(plain.events.len(), limits::PAGE_EVENTS_DEFAULT);
    node.stop().await;
}

#[tokio::test]
async fn a_filtered_read_stops_at_scan_events_max_and_can_go_on() {
    let node = node().await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let alice = join(&network, "agent:alice").await;
    let chaff = vec![json!({ "type": "app.chaff", "target": "channel/general" }); 4000];
    for _ in 0..=limits::SCAN_EVENTS_MAX / chaff.len() {
        emit(&network, &alice, &chaff).await;
    }
    emit(&network, &alice, &[json!({ "id": "wheat", "type": "app.wheat", "target": "channel/general", "metadata": { "in_reply_to": "x" } })]).await;
    let wanted = Filter { in_reply_to: Some("x".to_owned()), ..Filter::default() };
    let mut query = Query { filter: wanted, ..page(10) };
    let first = network.session(&alice).query(&query).await.unwrap();
    assert!(first.events.is_empty() && first.has_more, "the scan stops with more to look at");
    query.after = Some(format!("seq:{}", first.next));
    let second = network.session(&alice).query(&query).await.unwrap();
    assert_eq!(second.events[0].event.id(), "wheat", "and goes on from where it stopped");
    node.stop().await;
}

#[tokio::test]
async fn inputs_beyond_input_queue_max_are_refused() {
    let node = node().await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    // Nothing is awaited in between, so the network's task cannot take any of them.
    let (caller, asked) = (operator(), limits::INPUT_QUEUE_MAX + 1);
    let session = network.session(&caller);
    let mut asks: Vec<_> = (0..asked).map(|_| Box::pin(session.profile())).collect();
    let mut refused = 0;
    for ask in &mut asks {
        if let std::task::Poll::Ready(Err(fault)) = futures_poll(ask.as_mut()) {
            assert_eq!(fault.code, ErrorCode::RateLimited);
            assert!(fault.details.unwrap()["retry_after_ms"].as_u64().unwrap() > 0);
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
    for ask in asks.into_iter().take(limits::INPUT_QUEUE_MAX) {
        assert!(ask.await.is_ok(), "what was taken is answered");
    }
    node.stop().await;
}

fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
    future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()))
}

#[tokio::test]
async fn the_ring_of_a_poller_holds_ring_events_max() {
    let node = node().await;
    let wish = CreateNetwork { delivery: Delivery::AtMostOnce, ..CreateNetwork::named("main", Preset::Workspace) };
    let (network, _) = node.create_network(wish).await.unwrap();
    let alice = join(&network, "agent:alice").await;
    let bob = join(&network, "agent:bob").await;
    let inbox = Query { limit: Some(500), view: Some(View::Inbox), ..Query::default() };
    assert!(network.session(&bob).query(&inbox).await.unwrap().events.is_empty(), "the first poll begins the ring");
    let events: Vec<Value> = (0..limits::RING_EVENTS_MAX + 5)
        .map(|i| json!({ "id": format!("m{i}"), "type": "app.note", "target": "agent:bob" }))
        .collect();
    emit(&network, &alice, &events).await;
    let mut seen = Vec::new();
    loop {
        let page = network.session(&bob).query(&inbox).await.unwrap();
        assert!(!page.tracked);
        if page.events.is_empty() {
            break;
        }
        seen.extend(page.events.iter().map(|r| r.event.id().to_owned()));
    }
    assert_eq!(seen.len(), limits::RING_EVENTS_MAX);
    assert_eq!(seen[0], "m5", "the oldest are dropped");
    let dropped = network.counters().read().into_iter().find(|(name, _)| *name == "dropped").unwrap().1;
    assert_eq!(dropped, 5, "and counted");
    node.stop().await;
}

#[tokio::test]
async fn a_node_has_at_most_networks_max() {
    let node = node().await;
    for i in 0..limits::NETWORKS_MAX {
        node.create_network(CreateNetwork::named(&format!("n{i}"), Preset::Plain)).await.unwrap();
    }
    let fault = node.create_network(CreateNetwork::named("one too many", Preset::Plain)).await.unwrap_err();
    assert_eq!(fault.code, ErrorCode::NetworkFull);
    node.stop().await;
}

/// Large inputs wait in bytes, not only in number: here the log holds a network back.
#[tokio::test(start_paused = true)]
async fn input_bytes_max_and_input_all_bytes_max() {
    let accounts = rialto_node::budget::Accounts::default();
    let piece = 4 << 20;
    assert!(piece > limits::INPUT_SMALL_BYTES);
    let networks: Vec<_> = (0..4).map(|_| accounts.inputs_of_network()).collect();
    let wait = std::time::Duration::from_secs(1);
    let mut held = Vec::new();
    for _ in 0..limits::INPUT_BYTES_MAX / piece {
        held.push(networks[0].charge(piece, wait).await.unwrap());
    }
    let fault = networks[0].charge(piece, wait).await.unwrap_err();
    assert_eq!((fault.code, &fault.details.as_ref().unwrap()["scope"]), (ErrorCode::RateLimited, &json!("network")));
    assert!(fault.message.contains("events wait to be taken in"), "{}", fault.message);
    // Another network fills what may be filled, and a third one still finds room, until there is none.
    while let Ok(charge) = networks[1].charge(piece, wait).await {
        held.push(charge);
    }
    assert_eq!(held.len() * piece, limits::INPUT_ALL_BYTES_MAX / 4 * 3);
    held.push(networks[2].charge(limits::INPUT_ALL_BYTES_MAX / 4, wait).await.unwrap());
    let fault = networks[3].charge(piece, wait).await.unwrap_err();
    assert_eq!(fault.details.unwrap()["scope"], json!("node"));
    // Through the door: what was decided is counted no longer.
    let node = node().await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let alice = join(&network, "agent:alice").await;
    let large = json!({ "type": "app.note", "target": "core", "payload": { "content": "x".repeat(512 << 10) } });
    for _ in 0..2 * limits::INPUT_BYTES_MAX / (512 << 10) {
        assert!(emit(&network, &alice, std::slice::from_ref(&large)).await[0].result.is_ok());
    }
    assert_eq!(node.accounts().input_bytes(), 0);
    node.stop().await;
}

/// Each network keeps its newest events at hand, and all of them together no more than the node may.
#[tokio::test]
async fn recent_bytes_max_and_recent_all_bytes_max() {
    let node = node().await;
    let large = json!({ "type": "app.note", "target": "core", "payload": { "content": "x".repeat(512 << 10) } });
    let count = limits::RECENT_BYTES_MAX / (512 << 10) + 4;
    let networks = 2 * limits::RECENT_ALL_BYTES_MAX / limits::RECENT_BYTES_MAX;
    let mut most = 0;
    for n in 0..networks {
        let (network, _) =
            node.create_network(CreateNetwork::named(&format!("net-{n}"), Preset::Workspace)).await.unwrap();
        let alice = join(&network, "agent:alice").await;
        for _ in 0..count {
            assert!(emit(&network, &alice, std::slice::from_ref(&large)).await[0].result.is_ok());
        }
        let now = node.accounts().recent_bytes();
        assert!(n > 0 || (limits::RECENT_BYTES_MAX / 2..=limits::RECENT_BYTES_MAX).contains(&now), "one keeps {now}");
        most = most.max(now);
        // What is no longer at hand is read from the log.
        let all = network.session(&alice).query(&page(1)).await.unwrap();
        assert!(all.has_more && all.events.len() == 1);
    }
    let bound = limits::RECENT_ALL_BYTES_MAX + (networks << 20) + (1 << 20);
    assert!((limits::RECENT_ALL_BYTES_MAX / 2..=bound).contains(&most), "all keep {most}, and {bound} at most");
    node.stop().await;
}
