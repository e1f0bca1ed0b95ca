//! Damage is the network's, not the node's: who lost something is read-only, everybody else runs, and a repair goes on without it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::ErrorCode;
use rialto_model::network::{Policy, Preset};
use rialto_node::identity::sha256;
use rialto_node::{AdminOp, Caller, CreateNetwork, Network, Node, NodeConfig, Query, archive, repair, verify};
use rialto_store::{LocalOptions, LocalStore, Store};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

async fn open(dir: &Path) -> Node {
    Node::open(NodeConfig { data: Some(dir.to_path_buf()), ..NodeConfig::default() }).await.unwrap()
}

fn open_store(dir: &Path) -> LocalStore {
    LocalStore::open(dir, LocalOptions::default()).unwrap()
}

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

async fn create(node: &Node, name: &str) -> Network {
    let wish = CreateNetwork { policy: Policy::Open, ..CreateNetwork::named(name, Preset::Plain) };
    node.create_network(wish).await.unwrap().0
}

async fn join(network: &Network) -> Arc<Caller> {
    let join = json!({ "type": "network.agent.join", "source": "agent:a", "target": "core" });
    let answers = network.session(&operator()).emit(join.to_string().into()).await.unwrap();
    let joined = answers.into_iter().next().unwrap().result.unwrap().result.unwrap();
    let bearer = Some(sha256(joined["session_id"].as_str().unwrap()));
    Arc::new(Caller { bearer, ..Caller::default() })
}

async fn say(network: &Network, caller: &Arc<Caller>, id: &str) -> Result<(), ErrorCode> {
    let event = json!({
        "id": id, "type": "app.note", "target": "agent:broadcast", "payload": { "content": format!("the text of {id}.") },
    });
    let answers = network.session(caller).emit(event.to_string().into()).await.unwrap();
    answers.into_iter().next().unwrap().result.map(|_| ()).map_err(|fault| fault.code)
}

async fn said(network: &Network) -> Vec<String> {
    let query = Query { limit: Some(500), ..Query::default() };
    let page = network.session(&operator()).query(&query).await.unwrap();
    let mut ids: Vec<String> = page.events.iter().map(|record| record.event.id().to_string()).collect();
    ids.retain(|id| id.starts_with("of-"));
    ids.sort_unstable();
    ids
}

fn ids(name: &str, numbers: std::ops::RangeInclusive<u32>) -> Vec<String> {
    numbers.map(|n| format!("of-{name}-{n}")).collect()
}

/// Two networks with five events each, one behind the other, and no snapshot that covers them.
async fn two_networks(dir: &Path) -> [Arc<Caller>; 2] {
    let node = open(dir).await;
    let networks = [create(&node, "a").await, create(&node, "b").await];
    let callers = [join(&networks[0]).await, join(&networks[1]).await];
    for n in 1..=5 {
        for (network, caller) in networks.iter().zip(&callers) {
            say(network, caller, &format!("of-{}-{n}", network.settings().name)).await.unwrap();
        }
    }
    node.stop().await;
    drop((node, networks));
    std::fs::remove_dir_all(dir.join("snapshots")).unwrap();
    callers
}

fn segment(dir: &Path) -> PathBuf {
    dir.join("log/std/00000001.seg")
}

/// Turns one bit of the first place in the log where this text is.
fn turn_a_bit_of(dir: &Path, text: &str) {
    let mut bytes = std::fs::read(segment(dir)).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    bytes[at] ^= 1;
    std::fs::write(segment(dir), bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_network_is_read_only_and_the_other_one_runs() {
    let dir = tempfile::tempdir().unwrap();
    let callers = two_networks(dir.path()).await;
    turn_a_bit_of(dir.path(), "the text of of-a-3.");
    for life in 1..=2 {
        let node = open(dir.path()).await;
        assert!(node.is_ready() && node.lost_networks().is_empty(), "the other one runs");
        let (a, b) = (node.network("a").unwrap(), node.network("b").unwrap());
        let damage = a.damage().unwrap();
        assert!(damage.contains("00000001.seg at offset"), "{damage}");
        assert!(!a.is_ready() && b.is_ready() && b.damage().is_none());
        assert_eq!(said(&a).await, ids("a", 1..=2));
        assert_eq!(say(&a, &callers[0], "of-a-9").await, Err(ErrorCode::StorageUnavailable));
        let fault = a.admin(AdminOp::CreateChannel("other".into())).await.unwrap_err();
        assert!(fault.to_string().contains("rialto repair") && !fault.to_string().contains(".seg"), "{fault}");
        say(&b, &callers[1], &format!("of-b-{}", 5 + life)).await.unwrap();
        assert_eq!(said(&b).await, ids("b", 1..=5 + life));
        assert_eq!(node.default_network().unwrap().id(), a.id(), "no other is meant in its place");
        node.stop().await;
    }
}

#[tokio::test]
async fn a_repair_says_what_goes_and_goes_on_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let callers = two_networks(dir.path()).await;
    turn_a_bit_of(dir.path(), "the text of of-a-3.");
    let store = open_store(dir.path());
    let plan = json!(repair::plan(&store).unwrap());
    assert_eq!((plan["ok"].as_bool(), plan["damage"].as_array().unwrap().len()), (Some(false), 1));
    let [network] = plan["networks"].as_array().unwrap().as_slice() else { panic!("{plan}") };
    assert_eq!((network["name"].as_str(), network["events_lost"].as_u64()), (Some("a"), Some(2)), "{plan}");
    let mut kept = Vec::new();
    assert_eq!(json!(repair::apply(&store, &mut kept).unwrap()), plan);
    let kept: Vec<Value> =
        String::from_utf8(kept).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lost: Vec<&str> = kept.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(lost, ["of-a-4", "of-a-5"]);
    // Nothing is left to do, and everything that is there is right.
    assert!(repair::plan(&store).unwrap().ok);
    let report = json!(verify::verify(&store, &verify::LiveStates::new(), &mut |_, _| {}).unwrap());
    assert_eq!(
        (report["ok"].as_bool(), report["written_off"].as_array().map(Vec::len)),
        (Some(true), Some(1)),
        "{report}"
    );
    store.close().unwrap();
    drop(store);
    assert_eq!(std::fs::read_dir(dir.path().join("log/std/damaged")).unwrap().count(), 1, "the bad bytes are kept");
    std::fs::remove_file(dir.path().join("search.db")).ok();
    for life in 0..3 {
        let node = open(dir.path()).await;
        assert!(node.is_ready());
        let (a, b) = (node.network("a").unwrap(), node.network("b").unwrap());
        assert_eq!(said(&b).await, ids("b", 1..=5));
        if life == 0 {
            // What went can be sent again under its id, and once only.
            for id in ids("a", 3..=5).iter().chain(&ids("a", 3..=5)) {
                say(&a, &callers[0], id).await.unwrap();
            }
        }
        assert_eq!(said(&a).await, ids("a", 1..=5), "life {life}");
        node.stop().await;
        drop((node, a, b));
        if life == 0 {
            // As if it had been killed: the records behind the repair are read from the log.
            let saved = std::fs::read_dir(dir.path().join("snapshots")).unwrap().map(|entry| entry.unwrap().path());
            let newest = saved.filter(|path| path.display().to_string().contains("/00000001-")).max().unwrap();
            std::fs::remove_file(newest).unwrap();
        }
    }
    let store = open_store(dir.path());
    let report = json!(verify::verify(&store, &verify::LiveStates::new(), &mut |_, _| {}).unwrap());
    assert_eq!(report["ok"], true, "{report}");
    // A backup has what there is, and nothing that counts as gone.
    let (mut saved, to) = (Vec::new(), tempfile::tempdir().unwrap());
    archive::save(&store, &mut saved).unwrap();
    let restored = open_store(to.path());
    archive::restore(&restored, &mut saved.as_slice(), &mut |_| {}).unwrap();
    restored.close().unwrap();
    drop(restored);
    let node = open(to.path()).await;
    for name in ["a", "b"] {
        assert_eq!(said(&node.network(name).unwrap()).await, ids(name, 1..=5));
    }
    node.stop().await;
    let restored = open_store(to.path());
    let report = json!(verify::verify(&restored, &verify::LiveStates::new(), &mut |_, _| {}).unwrap());
    assert_eq!(report["ok"], true, "{report}");
}

#[tokio::test]
async fn a_network_of_which_nothing_can_be_read_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    two_networks(dir.path()).await;
    // The creation of the first network is the first record of the log.
    let mut bytes = std::fs::read(segment(dir.path())).unwrap();
    bytes[512 + 48 + 60] ^= 1;
    std::fs::write(segment(dir.path()), bytes).unwrap();
    let node = open(dir.path()).await;
    let lost = node.lost_networks();
    assert_eq!((lost.len(), lost[0].number), (1, 1));
    assert!(node.network("a").is_none() && node.default_network().is_none() && node.is_ready());
    assert_eq!(said(&node.network("b").unwrap()).await, ids("b", 1..=5));
    node.stop().await;
    drop(node);
    let store = open_store(dir.path());
    let mut kept = Vec::new();
    let report = json!(repair::apply(&store, &mut kept).unwrap());
    assert_eq!(report["networks"][0]["number"], 1, "{report}");
    assert!(String::from_utf8(kept).unwrap().contains("of-a-5"), "what can be read of it is kept");
    store.close().unwrap();
    drop(store);
    std::fs::remove_file(dir.path().join("search.db")).ok();
    let node = open(dir.path()).await;
    assert!(node.is_ready() && node.lost_networks().is_empty());
    assert_eq!(node.default_network().unwrap().settings().name, "b");
    let again = create(&node, "a").await;
    assert_eq!(said(&again).await, [""; 0], "its number is another one");
    node.stop().await;
}

/// Damage that a snapshot covers costs no state: only the history that cannot be read is missing.
#[tokio::test]
async fn damage_below_the_snapshots_costs_history_only() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let a = create(&node, "a").await;
    let caller = join(&a).await;
    for n in 1..=5 {
        say(&a, &caller, &format!("of-a-{n}")).await.unwrap();
    }
    node.stop().await;
    drop((node, a));
    turn_a_bit_of(dir.path(), "the text of of-a-3.");
    let node = open(dir.path()).await;
    let a = node.network("a").unwrap();
    assert!(a.damage().is_some(), "whether an event came before cannot be told");
    let query = Query { limit: Some(500), ..Query::default() };
    assert!(a.session(&operator()).query(&query).await.is_err(), "what cannot be read is not left out silently");
    assert_eq!(say(&a, &caller, "of-a-6").await, Err(ErrorCode::StorageUnavailable));
    node.stop().await;
    drop((node, a));
    let store = open_store(dir.path());
    let report = json!(repair::apply(&store, &mut Vec::new()).unwrap());
    assert!(report["networks"][0]["events_lost"].is_null(), "{report}");
    store.close().unwrap();
    drop(store);
    let node = open(dir.path()).await;
    let a = node.network("a").unwrap();
    say(&a, &caller, "of-a-6").await.unwrap();
    let mut left = ids("a", 1..=6);
    left.remove(2);
    assert_eq!(said(&a).await, left);
    node.stop().await;
}
