//! Fifty networks on two nodes, random bridges between them, and everything that is killed meanwhile: what is found in a network was
//! posted there or came over bridges, by each way once; nothing came without a bridge; circles end.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_client::{
    Backoff, Bridge, BridgeChoice, BridgeEnd, BridgeNews, Draft, EventQuery, Http, JoinOptions, NewNetwork,
};
use rialto_model::limits::VIA_NETWORKS_MAX;
use rialto_sim::harness::{Chance, Server, seed};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const NETWORKS: usize = 50;
const BRIDGES: usize = 48;
const MESSAGES: usize = 24;
/// More copies than this are a slow test and show nothing more.
const COPIES_MAX: usize = 500;
const PATIENCE: Duration = Duration::from_secs(120);

/// A network of the test: where it is, and what lets in.
#[derive(Clone)]
struct Place {
    node: usize,
    id: String,
    token: String,
}

/// Where the nodes are now, and the operator's secrets of these runs.
type Nodes = Arc<Mutex<Vec<(String, String)>>>;

/// One copy of a message: where, what, and the networks it came through.
type Copy = (usize, String, Vec<usize>);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_networks_and_no_crossing_without_a_bridge() {
    let mut chance = Chance::new(seed());
    let mut servers = vec![Server::start().await, Server::start().await];
    let nodes: Nodes = Arc::new(Mutex::new(servers.iter().map(|s| (s.url().to_owned(), s.admin())).collect()));
    let mut places = Vec::new();
    for number in 0..NETWORKS {
        places.push(place(&nodes, number % servers.len(), number).await);
    }
    let (bridges, expected, posts) = plan(&mut chance);
    assert!(!expected.is_empty(), "nothing goes over");

    let mut running: BTreeMap<(usize, usize), JoinHandle<()>> = BTreeMap::new();
    for (from, to) in &bridges {
        running.insert((*from, *to), open(&nodes, &places[*from], &places[*to]).await);
    }
    let half = posts.len() / 2;
    for (at, text) in &posts[..half] {
        post(&nodes, &places[*at], text).await;
    }
    // A power cut of one node, and of bridges in the middle of what they do.
    servers[0].kill();
    let victims: Vec<(usize, usize)> = bridges.iter().copied().filter(|_| chance.below(4) == 0).collect();
    for victim in &victims {
        running.remove(victim).unwrap().abort();
    }
    servers[0].restart().await;
    nodes.lock().unwrap()[0] = (servers[0].url().to_owned(), servers[0].admin());
    for (at, text) in &posts[half..] {
        post(&nodes, &places[*at], text).await;
    }
    for (from, to) in victims {
        running.insert((from, to), open(&nodes, &places[from], &places[to]).await);
    }

    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut found = copies(&nodes, &places).await;
    while found.len() < expected.len() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(300)).await;
        found = copies(&nodes, &places).await;
    }
    // What would come too much comes now.
    tokio::time::sleep(Duration::from_secs(1)).await;
    found = copies(&nodes, &places).await;
    let (found_once, expected): (BTreeSet<&Copy>, BTreeSet<&Copy>) =
        (found.iter().collect(), expected.iter().collect());
    let missing: Vec<_> = expected.difference(&found_once).collect();
    let unexplained: Vec<_> = found_once.difference(&expected).collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    assert!(unexplained.is_empty(), "no bridge explains: {unexplained:?}");
    assert_eq!(found.len(), found_once.len(), "doubled");
    for (way, bridge) in running {
        assert!(!bridge.is_finished(), "the bridge {way:?} ended");
        bridge.abort();
    }
    drop(servers);
}

/// Bridges, the copies they make, and what is posted where.
type Plan = (BTreeSet<(usize, usize)>, Vec<Copy>, Vec<(usize, String)>);

/// There is always a circle of three and a pair.
fn plan(chance: &mut Chance) -> Plan {
    let any = |chance: &mut Chance| usize::try_from(chance.below(NETWORKS as u64)).unwrap();
    loop {
        let mut bridges = BTreeSet::from([(0, 1), (1, 2), (2, 0), (3, 4), (4, 3)]);
        while bridges.len() < BRIDGES {
            let (from, to) = (any(chance), any(chance));
            if from != to {
                bridges.insert((from, to));
            }
        }
        let mut posts: Vec<(usize, String)> = (0..5).map(|at| (at, format!("fixed {at}"))).collect();
        while posts.len() < MESSAGES {
            posts.push((any(chance), format!("message {}", posts.len())));
        }
        let mut expected = Vec::new();
        for (at, text) in &posts {
            ways(&bridges, *at, &mut Vec::new(), &mut |to, via| expected.push((to, text.clone(), via.to_vec())));
            if expected.len() > COPIES_MAX {
                break;
            }
        }
        if expected.len() <= COPIES_MAX {
            return (bridges, expected, posts);
        }
    }
}

/// Every way from a network that comes to none twice and through eight at most: the specification, walked.
fn ways(bridges: &BTreeSet<(usize, usize)>, at: usize, via: &mut Vec<usize>, found: &mut impl FnMut(usize, &[usize])) {
    if via.len() >= VIA_NETWORKS_MAX {
        return;
    }
    via.push(at);
    for (_, to) in bridges.range((at, 0)..(at + 1, 0)) {
        if !via.contains(to) {
            found(*to, via);
            ways(bridges, *to, via, found);
        }
    }
    via.pop();
}

fn operator(nodes: &Nodes, node: usize) -> Http {
    let (url, secret) = nodes.lock().unwrap()[node].clone();
    Http::new(&url).unwrap().with_bearer(secret)
}

async fn place(nodes: &Nodes, node: usize, number: usize) -> Place {
    let new = NewNetwork { name: format!("net {number}"), ..NewNetwork::default() };
    let made = operator(nodes, node).create_network(&new).await.unwrap();
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    let place = Place { node, id: text("id"), token: text("token") };
    let create = Draft::new("network.channel.create", "core", json!({ "name": "plan" }));
    poster(nodes, &place).await.emit(&create, None).await.unwrap();
    place
}

/// Whoever posts in a network: a member of that network alone.
async fn poster(nodes: &Nodes, place: &Place) -> Http {
    let url = nodes.lock().unwrap()[place.node].0.clone();
    let door = Http::new(&url).unwrap().with_network(Some(place.id.clone())).with_bearer(place.token.as_str());
    let joined = door.join(&JoinOptions::new("agent:poster")).await.unwrap();
    door.with_bearer(joined.session_id.expose())
}

async fn post(nodes: &Nodes, place: &Place, text: &str) {
    poster(nodes, place).await.emit(&Draft::message("channel/plan", text), None).await.unwrap();
}

/// Opens a bridge and lets it run; each finds its node again wherever that is.
async fn open(nodes: &Nodes, from: &Place, to: &Place) -> JoinHandle<()> {
    let end = |at: &Place, other: &Place| {
        let (nodes, place) = (nodes.clone(), at.clone());
        let door = move || {
            let url = nodes.lock().unwrap()[place.node].0.clone();
            Ok(Http::new(&url)?.with_network(Some(place.id.clone())).with_bearer(place.token.as_str()))
        };
        let backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(400));
        // A name for each direction: two bridges between a pair of networks are two members in each.
        let direction = if at.id == from.id { "to" } else { "from" };
        let name = format!("agent:bridge-{direction}-{}", other.id);
        BridgeEnd::new(at.id.clone(), Arc::new(door), JoinOptions { backoff, ..JoinOptions::new(name) })
    };
    let choice = BridgeChoice::parse(&["channel/plan", "workspace.message.*"]).unwrap();
    let bridge = Bridge::new(end(from, to), end(to, from), choice, None);
    bridge.open(&mut |_| {}).await.unwrap();
    tokio::spawn(async move {
        let ended = bridge
            .walk(
                |news| {
                    if let BridgeNews::Refused { .. } = news {
                        eprintln!("{news:?}");
                    }
                },
                || false,
            )
            .await;
        eprintln!("a bridge ended: {ended:?}");
    })
}

/// What came over borders: everything in every channel that has a `via`.
async fn copies(nodes: &Nodes, places: &[Place]) -> Vec<Copy> {
    let mut all = Vec::new();
    let number_of = |id: &str| places.iter().position(|place| place.id == id).unwrap();
    for (number, place) in places.iter().enumerate() {
        let http = operator(nodes, place.node).with_network(Some(place.id.clone()));
        let query = EventQuery { channel: Some("plan".to_owned()), limit: Some(500), ..EventQuery::log() };
        let page = http.events(&query).await.unwrap();
        assert!(!page.has_more, "more than a page in one network");
        for event in page.events {
            assert_eq!(event.network, place.id);
            let Some(via) = event.metadata.get("via").and_then(Value::as_array) else { continue };
            let via: Vec<usize> = via.iter().map(|id| number_of(id.as_str().unwrap())).collect();
            let last = &places[*via.last().unwrap()].id;
            assert_eq!(event.metadata["bridged"]["network"].as_str(), Some(last.as_str()));
            assert_eq!(event.source, format!("agent:bridge-from-{last}"), "said by the bridge from there");
            all.push((number, event.payload_value()["content"].as_str().unwrap().to_owned(), via));
        }
    }
    all
}
