//! Facts of faces: durable, in order, changed in one step with the look at what they were, and bounded.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::limits::{FACT_BYTES_MAX, FACT_KEY_BYTES_MAX, FACTS_PER_FACE_BYTES_MAX, FACTS_PER_FACE_MAX};
use rialto_model::network::{Policy, Preset};
use rialto_model::{ErrorCode, FaceName};
use rialto_node::{CreateNetwork, FactNow, Facts, Network, Node, verify};
use rialto_store::disk::fault::FaultDisk;
use rialto_store::{LocalOptions, LocalStore, MemoryStore, Store};
use serde_json::json;
use std::sync::Arc;

fn store(disk: &FaultDisk) -> Arc<dyn Store> {
    let options = LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() };
    Arc::new(LocalStore::open_on(disk.clone(), "/data", options).unwrap())
}

async fn create(node: &Node) -> Network {
    let wish = CreateNetwork { policy: Policy::Open, ..CreateNetwork::named("main", Preset::Plain) };
    node.create_network(wish).await.unwrap().0
}

fn of(network: &Network, face: &str) -> Facts {
    network.facts(FaceName::parse(face).unwrap())
}

async fn keys(facts: &Facts, prefix: &str) -> Vec<String> {
    let page = facts.list(prefix, None, 100).await.unwrap();
    page.facts.iter().map(|(key, _)| key.to_string()).collect()
}

#[tokio::test]
async fn facts_survive_a_power_cut_and_a_snapshot() {
    let disk = FaultDisk::new(1);
    let node = Node::over(store(&disk), None, false).await.unwrap();
    let network = create(&node).await;
    let facts = of(&network, "a2a");
    facts.set("hook/1", r#"{"url":"https://example.org"}"#).await.unwrap();
    facts.set("hook/2", "2").await.unwrap();
    facts.set("card/x", "[]").await.unwrap();
    facts.set("hook/2", "3").await.unwrap();
    facts.remove("card/x").await.unwrap();
    facts.remove("nothing").await.unwrap();
    of(&network, "agh").set("hook/1", "\"another face\"").await.unwrap();
    let hash = network.state_hash().await.unwrap().1;
    drop((node, network, facts));
    disk.crash();
    for stop_in_order in [true, false] {
        let node = Node::over(store(&disk), None, false).await.unwrap();
        let network = node.network("main").unwrap();
        let facts = of(&network, "a2a");
        assert_eq!(keys(&facts, "").await, ["hook/1", "hook/2"]);
        assert_eq!(facts.get("hook/2").await.unwrap().as_deref(), Some("3"));
        assert_eq!(facts.get("card/x").await.unwrap(), None);
        assert_eq!(of(&network, "agh").get("hook/1").await.unwrap().as_deref(), Some("\"another face\""));
        assert_eq!(network.state_hash().await.unwrap().1, hash);
        if stop_in_order {
            // The next start is from a snapshot.
            node.stop().await;
        }
        drop((node, network, facts));
        disk.crash();
    }
    let report = json!(verify::verify(store(&disk).as_ref(), &verify::LiveStates::new(), &mut |_, _| {}).unwrap());
    assert_eq!(report["ok"], true, "{report}");
}

#[tokio::test]
async fn look_and_change_are_one_step() {
    let node = Node::over(Arc::new(MemoryStore::default()), None, false).await.unwrap();
    let network = create(&node).await;
    let facts = of(&network, "a2a");
    assert!(!facts.set_if("cursor", "1", FactNow::Is("0".into())).await.unwrap());
    assert!(facts.set_if("cursor", "1", FactNow::Absent).await.unwrap());
    assert!(!facts.set_if("cursor", "2", FactNow::Absent).await.unwrap());
    assert_eq!(facts.get("cursor").await.unwrap().as_deref(), Some("1"));
    // Of many that count on from the same value one does.
    let mut tries = tokio::task::JoinSet::new();
    for n in 0..20 {
        let facts = facts.clone();
        tries.spawn(async move { facts.set_if("cursor", &format!("1{n}"), FactNow::Is("1".into())).await.unwrap() });
    }
    assert_eq!(tries.join_all().await.into_iter().filter(|won| *won).count(), 1);
}

#[tokio::test]
async fn lists_are_pages_in_order() {
    let node = Node::over(Arc::new(MemoryStore::default()), None, false).await.unwrap();
    let network = create(&node).await;
    let facts = of(&network, "a2a");
    for key in ["a/1", "b/1", "b/2", "b/3", "c/1"] {
        facts.set(key, "0").await.unwrap();
    }
    let page = facts.list("b/", None, 2).await.unwrap();
    assert_eq!((page.facts.len(), page.has_more), (2, true));
    let page = facts.list("b/", Some(&page.facts[1].0), 2).await.unwrap();
    assert_eq!((page.facts.len(), page.has_more, &*page.facts[0].0), (1, false, "b/3"));
    // A key before the prefix begins at it, one behind it ends.
    assert_eq!(facts.list("b/", Some("a/9"), 9).await.unwrap().facts.len(), 3);
    assert!(facts.list("b/", Some("c"), 9).await.unwrap().facts.is_empty());
}

#[tokio::test]
async fn facts_are_bounded() {
    let node = Node::over(Arc::new(MemoryStore::default()), None, false).await.unwrap();
    let network = create(&node).await;
    let facts = of(&network, "a2a");
    let longest = "k".repeat(FACT_KEY_BYTES_MAX);
    facts.set(&longest, "1").await.unwrap();
    let code = |fault: rialto_model::Fault| {
        let field = fault.details.and_then(|details| details["field"].as_str().map(str::to_owned));
        (fault.code, field)
    };
    let refused = facts.set(&format!("{longest}k"), "1").await.unwrap_err();
    assert_eq!(code(refused), (ErrorCode::InvalidArgument, Some("key".into())));
    assert_eq!(code(facts.set("", "1").await.unwrap_err()), (ErrorCode::InvalidArgument, Some("key".into())));
    for no_json in ["", "{", "1 2", "x"] {
        let refused = facts.set("k", no_json).await.unwrap_err();
        assert_eq!(code(refused), (ErrorCode::InvalidArgument, Some("value".into())), "{no_json}");
    }
    let largest = format!("\"{}\"", "v".repeat(FACT_BYTES_MAX - 2));
    facts.set("large", &largest).await.unwrap();
    let refused = facts.set("large", &format!("{largest} ")).await.unwrap_err();
    assert_eq!(code(refused), (ErrorCode::TooLarge, Some("value".into())));
    // Bytes: as many of the largest as fit, one face at a time.
    let fit = FACTS_PER_FACE_BYTES_MAX / (FACT_BYTES_MAX + 4);
    let full = of(&network, "full");
    for n in 0..fit {
        full.set(&format!("{n:04}"), &largest).await.unwrap();
    }
    let refused = full.set("more", &largest).await.unwrap_err();
    assert_eq!(
        (refused.code, &refused.details.unwrap()["limit"]),
        (ErrorCode::NetworkFull, &json!(FACTS_PER_FACE_BYTES_MAX))
    );
    full.remove("0000").await.unwrap();
    full.set("more", &largest).await.unwrap();
    // Entries.
    let many = of(&network, "many");
    let set = |n: usize| {
        let many = many.clone();
        async move { many.set(&format!("{n}"), "0").await }
    };
    for first in (0..FACTS_PER_FACE_MAX).step_by(500) {
        let all: tokio::task::JoinSet<_> = (first..first + 500).map(set).collect();
        assert!(all.join_all().await.iter().all(Result::is_ok));
    }
    let refused = set(FACTS_PER_FACE_MAX).await.unwrap_err();
    assert_eq!(
        (refused.code, &refused.details.unwrap()["limit"]),
        (ErrorCode::NetworkFull, &json!(FACTS_PER_FACE_MAX))
    );
    set(0).await.unwrap();
    facts.set("others", "have room").await.unwrap_err();
    facts.set("others", "true").await.unwrap();
}
