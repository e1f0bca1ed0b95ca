//! Power cuts under load: what was acknowledged is there afterwards, at the same position; what is pending is what was
//! acknowledged minus what was acked; a re-send by id commits once.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

use rialto_sim::harness::{Chance, Frame, Http, Network, Server, Ws, join, note, seed};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

const ROUNDS: u64 = 50;
const TARGETS: [&str; 4] = ["agent:keeper", "agent:acker", "agent:broadcast", "channel/general"];

/// What is known of one network from outside.
#[derive(Debug, Default)]
struct Book {
    /// Sent and acknowledged: id to (position, target).
    told: BTreeMap<String, (u64, &'static str)>,
    /// Sent, never answered: id to target. The node may have committed them or not.
    unsure: BTreeMap<String, &'static str>,
    /// Ids the acker acked, in the order the node answered that it had taken the ack.
    acked: Vec<String>,
    /// So many of these are on disk: an event sent after the answer was acknowledged.
    flushed: usize,
    /// Acks sent without an answer.
    half_acked: BTreeSet<String>,
}

impl Book {
    fn for_whom(&self, whom: &str) -> BTreeMap<&str, u64> {
        let reaches = |target: &str| target == whom || target == "agent:broadcast" || target == "channel/general";
        self.told.iter().filter(|(_, (_, t))| reaches(t)).map(|(id, (seq, _))| (id.as_str(), *seq)).collect()
    }
}

/// One network under test.
struct Place {
    network: Network,
    /// It keeps history.
    persistent: bool,
    sessions: BTreeMap<&'static str, String>,
    book: Arc<Mutex<Book>>,
    /// Its history as read so far: the event at index n has position n + 1.
    history: Vec<String>,
    looked_at: u64,
}

impl Place {
    fn path(&self, rest: &str) -> String {
        format!("/v1/ws/{}/{rest}", self.network.id)
    }
}

fn body_of(id: &str, target: &str) -> Value {
    note(id, target, &format!("body of {id}"))
}

/// Sends one by one until the connection breaks.
async fn send_over_http(mut http: Http, path: String, session: String, book: Arc<Mutex<Book>>, round: u64, seed: u64) {
    let mut chance = Chance::new(seed);
    for n in 0.. {
        let id = format!("h-{round}-{n}");
        let target = TARGETS[chance.below(4) as usize];
        let taken = {
            let mut book = book.lock().unwrap();
            book.unsure.insert(id.clone(), target);
            book.acked.len()
        };
        let sent = http.post(&path).bearer(&session).try_body(body_of(&id, target).to_string().as_bytes()).await;
        let Ok(answer) = sent else { return };
        let data = answer.data();
        assert_eq!(data["duplicate"], false, "{id} was committed before it was sent");
        let mut book = book.lock().unwrap();
        book.unsure.remove(&id);
        book.told.insert(id, (data["seq"].as_u64().unwrap(), target));
        book.flushed = book.flushed.max(taken);
    }
}

/// Keeps a few arrays on their way until the connection breaks.
async fn send_over_websocket(
    server: std::net::SocketAddr,
    network: Network,
    book: Arc<Mutex<Book>>,
    round: u64,
    seed: u64,
) {
    let mut chance = Chance::new(seed);
    let Ok(mut ws) = Ws::open(server, &format!("/ws/{}", network.id), &[]).await else { return };
    if ws.try_text(&join("agent:streamer", &network.token, &json!({})).to_string()).await.is_err() {
        return;
    }
    let mut n = 0;
    let mut open = 0;
    loop {
        while open < 32 {
            let events: Vec<Value> = (0..1 + chance.below(8))
                .map(|_| {
                    n += 1;
                    open += 1;
                    let (id, target) = (format!("w-{round}-{n}"), TARGETS[chance.below(4) as usize]);
                    book.lock().unwrap().unsure.insert(id.clone(), target);
                    body_of(&id, target)
                })
                .collect();
            if ws.try_text(&json!(events).to_string()).await.is_err() {
                return;
            }
        }
        let event = match ws.try_next().await {
            Frame::Event(event) => event,
            Frame::Closed(..) | Frame::Gone => return,
        };
        match event["type"].as_str().unwrap() {
            "network.event.ack" if event["payload"]["result"].is_null() => {
                let id = event["payload"]["event_id"].as_str().unwrap();
                assert_eq!(event["payload"]["duplicate"], false, "{event}");
                let mut book = book.lock().unwrap();
                let target = book.unsure.remove(id).unwrap_or_else(|| panic!("an ack too many: {event}"));
                book.told.insert(id.to_owned(), (event["payload"]["seq"].as_u64().unwrap(), target));
                open -= 1;
            }
            "network.event.error" => panic!("{event}"),
            _ => {}
        }
    }
}

/// Acks what it is sent, some of it late and some never, until the connection breaks.
async fn ack_over_websocket(
    server: std::net::SocketAddr,
    network: Network,
    session: String,
    book: Arc<Mutex<Book>>,
    seed: u64,
) {
    let mut chance = Chance::new(seed);
    let Ok(mut ws) = Ws::open(server, &format!("/ws/{}", network.id), &[]).await else { return };
    let options = json!({ "session_id": session, "window": 4096 });
    if ws.try_text(&join("agent:acker", &network.token, &options).to_string()).await.is_err() {
        return;
    }
    let mut waiting: Vec<String> = Vec::new();
    let mut asked: Vec<String> = Vec::new();
    loop {
        let event = match ws.try_next().await {
            Frame::Event(event) => event,
            Frame::Closed(..) | Frame::Gone => return,
        };
        if event["type"] == "network.pong" {
            // Answers come in order, so the ack before the ping was taken.
            let mut book = book.lock().unwrap();
            book.half_acked.retain(|id| !asked.contains(id));
            book.acked.append(&mut asked);
        } else if event["metadata"]["attempt"].is_u64() && chance.below(4) > 0 {
            waiting.push(event["id"].as_str().unwrap().to_owned());
        }
        if asked.is_empty() && waiting.len() > 8 {
            asked.append(&mut waiting);
            book.lock().unwrap().half_acked.extend(asked.iter().cloned());
            let ack = json!({ "type": "network.event.ack", "target": "core", "payload": { "ids": asked } });
            let ping = json!({ "type": "network.ping", "target": "core", "payload": {} });
            if ws.try_text(&json!([ack, ping]).to_string()).await.is_err() {
                return;
            }
        }
    }
}

/// The same over HTTP.
async fn ack_over_http(mut http: Http, base: String, session: String, book: Arc<Mutex<Book>>, seed: u64) {
    let mut chance = Chance::new(seed);
    loop {
        let path = format!("{base}?view=inbox&ack=false&limit=20&wait=5");
        let Ok(page) = http.request("GET", &path).bearer(&session).try_send().await else { return };
        let page = page.data();
        let ids: Vec<String> = page["events"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|_| chance.below(4) > 0)
            .map(|e| e["id"].as_str().unwrap().to_owned())
            .collect();
        if ids.is_empty() {
            continue;
        }
        book.lock().unwrap().half_acked.extend(ids.iter().cloned());
        let path = base.replace("/events", "/ack");
        let sent = http.post(&path).bearer(&session).try_body(json!({ "ids": ids }).to_string().as_bytes()).await;
        let Ok(answer) = sent else { return };
        assert_eq!(answer.data()["acked"], ids.len());
        let mut book = book.lock().unwrap();
        book.half_acked.retain(|id| !ids.contains(id));
        book.acked.extend(ids);
    }
}

/// All pages of a read.
async fn read_all(http: &mut Http, path: &str, bearer: &str, after: u64) -> Vec<Value> {
    let mut out = Vec::new();
    let mut after = format!("seq:{after}");
    loop {
        let page = http.get(&format!("{path}&limit=500&after={after}"), bearer).await.data();
        out.extend(page["events"].as_array().unwrap().iter().cloned());
        page["next_cursor"].as_str().unwrap().clone_into(&mut after);
        if page["has_more"] == false {
            return out;
        }
    }
}

impl Place {
    async fn check(&mut self, server: &Server, chance: &mut Chance, whole: bool) {
        let mut http = server.http();
        self.check_history(&mut http, &server.admin(), whole).await;
        self.send_again(&mut http, chance).await;
        self.check_history(&mut http, &server.admin(), false).await;
        self.check_pending(&mut http, whole).await;
    }

    async fn check_history(&mut self, http: &mut Http, admin: &str, whole: bool) {
        if !self.persistent {
            return;
        }
        let path = self.path("events?view=log");
        if whole {
            let again = read_all(http, &path, admin, 0).await;
            let again: Vec<String> = again.iter().map(|e| e["id"].as_str().unwrap().to_owned()).collect();
            assert!(again.starts_with(&self.history), "history changed under {}", self.network.id);
            self.history = again;
        } else {
            let more = read_all(http, &path, admin, self.history.len() as u64).await;
            self.history.extend(more.iter().map(|e| e["id"].as_str().unwrap().to_owned()));
        }
        let places: BTreeMap<&String, usize> = self.history.iter().zip(1..).collect();
        assert_eq!(places.len(), self.history.len(), "an id is in history twice");
        for (id, (seq, _)) in &self.book.lock().unwrap().told {
            assert_eq!(places.get(id).map(|at| *at as u64), Some(*seq), "{id} was acknowledged at {seq}");
        }
    }

    /// Whatever was not answered is sent again, and some that were answered.
    async fn send_again(&mut self, http: &mut Http, chance: &mut Chance) {
        let (unsure, told) = {
            let mut book = self.book.lock().unwrap();
            (std::mem::take(&mut book.unsure), book.told.clone())
        };
        let again = told.iter().filter(|_| chance.below(told.len() as u64 / 8 + 1) == 0);
        let again: Vec<(String, u64, &str)> = again.map(|(id, (seq, target))| (id.clone(), *seq, *target)).collect();
        let path = self.path("events");
        for (id, seq, target) in again {
            let data = http.post(&path).bearer(&self.sessions[sender(&id)]).json(&body_of(&id, target)).await.data();
            assert_eq!((&data["duplicate"], &data["seq"]), (&json!(true), &json!(seq)), "{id}");
        }
        let (posted, streamed): (Vec<_>, Vec<_>) = unsure.into_iter().partition(|(id, _)| id.starts_with('h'));
        for (name, unsure) in [("agent:poster", posted), ("agent:streamer", streamed)] {
            let events: Vec<Value> = unsure.iter().map(|(id, target)| body_of(id, target)).collect();
            let answer = http.post(&path).bearer(&self.sessions[name]).json(&json!(events)).await.data();
            self.settle(&unsure, answer["results"].as_array().unwrap());
        }
    }

    /// An event sent again was committed by now, and only once.
    fn settle(&mut self, unsure: &[(String, &'static str)], results: &[Value]) {
        assert_eq!(unsure.len(), results.len());
        for ((id, target), data) in unsure.iter().zip(results) {
            assert_eq!((&data["ok"], &data["id"]), (&json!(true), &json!(id)), "{data}");
            let seq = data["seq"].as_u64().unwrap();
            if self.persistent {
                let at = self.history.iter().position(|known| known == id).map(|at| at as u64 + 1);
                assert_eq!(data["duplicate"], at.is_some(), "{id} is in history at {at:?}: {data}");
                assert!(at.is_none_or(|at| at == seq), "{id} is in history at {at:?}: {data}");
            }
            self.book.lock().unwrap().told.insert(id.clone(), (seq, *target));
        }
    }

    async fn check_pending(&mut self, http: &mut Http, whole: bool) {
        let path = self.path("events?view=inbox&ack=false");
        for whom in ["agent:keeper", "agent:acker"] {
            // The keeper never acks: what was looked at once is looked at again now and then only.
            let from = if whole || whom == "agent:acker" { 0 } else { self.looked_at };
            let events = read_all(http, &path, &self.sessions[whom], from).await;
            let pending: Vec<(String, u64)> = events
                .iter()
                .filter(|e| e["type"] == "test.note.posted")
                .map(|e| (e["id"].as_str().unwrap().to_owned(), e["metadata"]["seq"].as_u64().unwrap()))
                .collect();
            assert!(pending.windows(2).all(|w| w[0].1 < w[1].1), "{whom}: pending mail is not in order");
            for event in events.iter().filter(|e| e["type"] == "test.note.posted") {
                let id = event["id"].as_str().unwrap();
                assert_eq!(event["payload"]["content"], format!("body of {id}"));
            }
            let pending: BTreeMap<&str, u64> = pending.iter().map(|(id, seq)| (id.as_str(), *seq)).collect();
            let mut book = self.book.lock().unwrap();
            let mut all = book.for_whom(whom);
            all.retain(|_, seq| *seq > from);
            self.looked_at = self.looked_at.max(pending.values().copied().max().unwrap_or(0));
            for (id, seq) in &pending {
                assert_eq!(all.get(id), Some(seq), "{whom} has {id} at {seq}, which nobody was told");
            }
            let mut missing: BTreeSet<&str> = all.keys().copied().filter(|id| !pending.contains_key(id)).collect();
            if whom == "agent:acker" {
                missing.retain(|id| !book.acked.iter().any(|a| a == id) && !book.half_acked.contains(*id));
                let back = book.acked[..book.flushed].iter().find(|id| pending.contains_key(id.as_str()));
                assert_eq!(back, None, "{}: an ack was on disk, yet its event is pending again", self.network.id);
            }
            assert!(missing.is_empty(), "{whom} ({}): pending mail was lost: {missing:?}", self.network.id);
            if whom == "agent:acker" {
                // An ack that was not flushed is no ack: its event is pending and may be acked again.
                let half: Vec<String> = std::mem::take(&mut book.half_acked).into_iter().collect();
                book.acked.extend(half);
                book.acked.retain(|id| !pending.contains_key(id.as_str()));
                book.flushed = book.acked.len();
            }
        }
    }
}

fn sender(id: &str) -> &'static str {
    if id.starts_with('h') { "agent:poster" } else { "agent:streamer" }
}

async fn place(server: &Server, network: Network, persistent: bool) -> Place {
    let mut sessions = BTreeMap::new();
    for name in ["agent:keeper", "agent:acker", "agent:poster", "agent:streamer"] {
        let body = json!({ "agent_id": name, "credentials": { "token": network.token }, "channels": ["general"] });
        let answer = server.http().post(&format!("/v1/ws/{}/join", network.id)).json(&body).await;
        sessions.insert(name, answer.data()["session_id"].as_str().unwrap().to_owned());
    }
    Place { network, persistent, sessions, book: Arc::default(), history: Vec::new(), looked_at: 0 }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_power_cuts_lose_nothing_that_was_acknowledged() {
    let seed = seed();
    let mut chance = Chance::new(seed);
    let mut server = Server::start().await;
    let second = server.network(&json!({ "name": "second" })).await;
    let forgetful = server.network(&json!({ "name": "forgetful", "mods": ["auth"] })).await;
    let mut places = vec![
        place(&server, server.main(), true).await,
        place(&server, second, true).await,
        place(&server, forgetful, false).await,
    ];
    let (mut told, mut unsure, mut acked) = (0, 0, 0);
    for round in 0..ROUNDS {
        let mut load = JoinSet::new();
        for place in &places {
            let (network, book) = (place.network.clone(), place.book.clone());
            let events = place.path("events");
            let session = |name: &str| place.sessions[name].clone();
            load.spawn(send_over_http(
                server.http(),
                events.clone(),
                session("agent:poster"),
                book.clone(),
                round,
                chance.draw(),
            ));
            load.spawn(send_over_websocket(server.address(), network.clone(), book.clone(), round, chance.draw()));
            if round % 2 == 0 {
                load.spawn(ack_over_http(server.http(), events, session("agent:acker"), book, chance.draw()));
            } else {
                load.spawn(ack_over_websocket(server.address(), network, session("agent:acker"), book, chance.draw()));
            }
        }
        tokio::time::sleep(Duration::from_millis(15 + chance.below(90))).await;
        server.kill();
        while let Some(done) = load.join_next().await {
            done.unwrap();
        }
        if chance.below(5) == 0 {
            // The next start is cut short as well.
            server.spawn();
            tokio::time::sleep(Duration::from_millis(chance.below(60))).await;
            server.kill();
        }
        server.restart().await;
        for place in &mut places {
            unsure += place.book.lock().unwrap().unsure.len();
            // The streamer's session was rotated by its joins.
            let session = server.join(&place.network, "agent:streamer").await;
            place.sessions.insert("agent:streamer", session);
            place.check(&server, &mut chance, round % 10 == 9).await;
        }
    }
    for place in &places {
        let book = place.book.lock().unwrap();
        told += book.told.len();
        acked += book.acked.len();
    }
    eprintln!("{ROUNDS} power cuts, {told} events acknowledged, {unsure} unanswered and sent again, {acked} acks");
    assert!(told > 500 && unsure > 50 && acked > 100, "too little happened to mean anything");
}
