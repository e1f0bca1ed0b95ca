//! Sixteen senders at once, and readers of every kind beside them: each reader sees every event exactly once, in commit
//! order, and never a position below one it has already seen.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

use rialto_sim::harness::{Chance, Http, Network, Server, Sse, Ws, note, seed};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::task::JoinSet;

const SENDERS: u64 = 16;
const EVENTS_EACH: u64 = 500;
const ALL: usize = (SENDERS * EVENTS_EACH) as usize;
const KIND: &str = "test.note.posted";

/// What a sender was told: id to position.
type Acks = BTreeMap<String, u64>;
/// What a reader saw: (id, position if the view shows it), in the order seen.
type Seen = Vec<(String, Option<u64>)>;

fn event_id(sender: u64, n: u64) -> String {
    format!("s{sender}-{n}")
}

/// Singles and arrays of random length.
async fn send_over_http(address: SocketAddr, network: Network, session: String, sender: u64, seed: u64) -> Acks {
    let mut chance = Chance::new(seed ^ sender);
    let mut http = Http::new(address);
    let path = format!("/v1/ws/{}/events", network.id);
    let mut acks = Acks::new();
    let mut n = 0;
    while n < EVENTS_EACH {
        let size = (1 + chance.below(8)).min(EVENTS_EACH - n);
        let events: Vec<Value> = (n..n + size).map(|n| note(&event_id(sender, n), "channel/general", "x")).collect();
        let request = http.post(&path).bearer(&session);
        if let [event] = events.as_slice() {
            let data = request.json(event).await.data();
            acks.insert(data["id"].as_str().unwrap().to_owned(), data["seq"].as_u64().unwrap());
        } else {
            for result in request.json(&json!(events)).await.data()["results"].as_array().unwrap() {
                assert_eq!(result["ok"], true, "{result}");
                acks.insert(result["id"].as_str().unwrap().to_owned(), result["seq"].as_u64().unwrap());
            }
        }
        n += size;
    }
    acks
}

/// Arrays of random length, the next before the last is answered; every other sender wants its acks in batches.
async fn send_over_websocket(address: SocketAddr, network: Network, sender: u64, seed: u64) -> Acks {
    let mut chance = Chance::new(seed ^ sender);
    let options = if sender.is_multiple_of(4) { json!({ "acks": "batch" }) } else { json!({}) };
    let (mut ws, _) = Ws::joined(address, &network, &format!("agent:s{sender}"), &options).await;
    let mut acks = Acks::new();
    let mut n = 0;
    while acks.len() < EVENTS_EACH as usize {
        while n < EVENTS_EACH && n < acks.len() as u64 + 64 {
            let size = (1 + chance.below(16)).min(EVENTS_EACH - n);
            let events: Vec<Value> =
                (n..n + size).map(|n| note(&event_id(sender, n), "channel/general", "x")).collect();
            ws.send(&json!(events)).await;
            n += size;
        }
        let event = ws.event().await;
        let payload = &event["payload"];
        match event["type"].as_str().unwrap() {
            "network.event.ack" if payload["accepted"].is_array() => {
                for pair in payload["accepted"].as_array().unwrap() {
                    acks.insert(pair[0].as_str().unwrap().to_owned(), pair[1].as_u64().unwrap());
                }
            }
            "network.event.ack" => {
                acks.insert(payload["event_id"].as_str().unwrap().to_owned(), payload["seq"].as_u64().unwrap());
            }
            "network.event.error" => panic!("{event}"),
            // Deliveries of the others: this one only sends, so it acks all it gets.
            KIND => ws.ack(&[event["id"].as_str().unwrap()]).await,
            _ => {}
        }
    }
    acks
}

/// Follows `after`, by the page's cursor or by the last event's id.
async fn poll(address: SocketAddr, network: Network, session: String, view: &'static str, by_id: bool) -> Seen {
    let mut http = Http::new(address);
    let mut after = if view == "log" { "seq:0".to_owned() } else { String::new() };
    let mut seen = Seen::new();
    loop {
        let path = format!(
            "/v1/ws/{}/events?view={view}&type={KIND}&limit=173&wait={}&after={after}",
            network.id,
            if seen.len() < ALL { 20 } else { 0 }
        );
        let page = http.get(&path, &session).await.data();
        let events = page["events"].as_array().unwrap();
        if events.is_empty() && seen.len() >= ALL {
            return seen;
        }
        seen.extend(events.iter().map(seen_event));
        match events.last() {
            Some(last) if by_id => last["id"].as_str().unwrap().clone_into(&mut after),
            _ => page["next_cursor"].as_str().unwrap().clone_into(&mut after),
        }
    }
}

fn seen_event(event: &Value) -> (String, Option<u64>) {
    (event["id"].as_str().unwrap().to_owned(), event["metadata"]["seq"].as_u64())
}

/// Breaks the connection off now and then and resumes by the last id it saw.
async fn listen_sse(address: SocketAddr, network: Network, session: String, view: &'static str, seed: u64) -> Seen {
    let mut chance = Chance::new(seed);
    let path = format!("/v1/ws/{}/events/stream?view={view}&type={KIND}", network.id);
    let mut seen = Seen::new();
    let mut first = (view == "log").then(|| "seq:0".to_owned());
    while seen.len() < ALL {
        let last = seen.last().map(|(id, _)| id.clone()).or(first.take());
        let mut sse = Sse::open(address, &path, &session, last.as_deref()).await.unwrap();
        let part = 200 + chance.below(2000);
        for _ in 0..part {
            if seen.len() == ALL {
                break;
            }
            let event = sse.next().await.unwrap();
            assert_eq!((event.event.as_str(), event.id.as_deref()), ("message", event.data["id"].as_str()));
            seen.push(seen_event(&event.data));
        }
    }
    seen
}

async fn listen_websocket(address: SocketAddr, network: Network, name: &'static str, window: u64) -> Seen {
    let (mut ws, _) = Ws::joined(address, &network, name, &json!({ "window": window })).await;
    let mut seen = Seen::new();
    let mut unacked = 0;
    while seen.len() < ALL {
        let event = ws.delivery().await;
        if event["type"] == KIND {
            assert_eq!(event["metadata"]["attempt"], 1, "{event}");
            seen.push(seen_event(&event));
        }
        unacked += 1;
        if unacked >= window / 2 || seen.len() == ALL {
            unacked = 0;
            let up_to = json!({ "type": "network.event.ack", "target": "core", "payload": { "up_to": event["id"] } });
            ws.send(&up_to).await;
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reader_sees_every_event_once_and_in_commit_order() {
    let seed = seed();
    let server = Server::start().await;
    let (address, network) = (server.address(), server.main());
    let mut readers: JoinSet<(&'static str, Seen)> = JoinSet::new();
    for (name, view, by_id) in [
        ("agent:log-cursor", "log", false),
        ("agent:log-id", "log", true),
        ("agent:inbox-cursor", "inbox", false),
        ("agent:inbox-id", "inbox", true),
    ] {
        let (network, session) = (network.clone(), server.join(&network, name).await);
        readers.spawn(async move { (name, poll(address, network, session, view, by_id).await) });
    }
    for (name, view) in [("agent:sse-log", "log"), ("agent:sse-inbox", "inbox")] {
        let (network, session) = (network.clone(), server.join(&network, name).await);
        readers.spawn(async move { (name, listen_sse(address, network, session, view, seed).await) });
    }
    for (name, window) in [("agent:ws-wide", 4096), ("agent:ws-narrow", 8)] {
        // Members before the first event, whenever their streams open.
        server.join(&network, name).await;
        let network = network.clone();
        readers.spawn(async move { (name, listen_websocket(address, network, name, window).await) });
    }
    let mut senders = JoinSet::new();
    for sender in 0..SENDERS {
        let network = network.clone();
        if sender % 2 == 0 {
            senders.spawn(send_over_websocket(address, network, sender, seed));
        } else {
            let session = server.join(&network, &format!("agent:s{sender}")).await;
            senders.spawn(send_over_http(address, network, session, sender, seed));
        }
    }
    let acks: Acks = senders.join_all().await.into_iter().flatten().collect();
    assert_eq!(acks.len(), ALL);
    let mut order: Vec<(&String, u64)> = acks.iter().map(|(id, seq)| (id, *seq)).collect();
    order.sort_unstable_by_key(|(_, seq)| *seq);
    assert!(order.windows(2).all(|w| w[0].1 < w[1].1), "two events were told the same position");
    for sender in 0..SENDERS {
        let mine: Vec<u64> = (0..EVENTS_EACH).map(|n| acks[&event_id(sender, n)]).collect();
        assert!(mine.is_sorted(), "events of s{sender} were committed in another order than sent");
    }
    for (name, seen) in readers.join_all().await {
        let mut high = 0;
        for (at, (id, shown)) in seen.iter().enumerate() {
            let seq = *acks.get(id).unwrap_or_else(|| panic!("{name} saw {id:?}, which nobody sent"));
            assert!(shown.is_none_or(|shown| shown == seq), "{name} saw {id} at {shown:?}, its sender was told {seq}");
            assert!(seq > high, "{name} saw {id} at {seq} after {high} (reading {at})");
            high = seq;
        }
        let missing: Vec<_> = order.iter().filter(|(id, _)| !seen.iter().any(|(s, _)| s == *id)).take(5).collect();
        assert!(missing.is_empty() && seen.len() == ALL, "{name} saw {} of {ALL}; not {missing:?}", seen.len());
    }
}
