//! Ackers: the acker takes its mail over one carrier and acks most of it, some late and some never, until the connection breaks.

use crate::book::Side;
use rialto_sim::harness::{Chance, Http, Line, Sse, join, rialto};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// A way to receive and ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Acking {
    LongPoll,
    WebSocket,
    Sse,
    Connect,
    Stdio,
}

impl Acking {
    pub(crate) const ALL: [Acking; 5] =
        [Acking::LongPoll, Acking::WebSocket, Acking::Sse, Acking::Connect, Acking::Stdio];
}

pub(crate) async fn ack(acking: Acking, address: SocketAddr, side: Side, seed: u64) {
    let chance = Chance::new(seed);
    let options = json!({ "session_id": side.sessions["agent:acker"], "window": 4096 });
    let frame = join("agent:acker", &side.network.token, &options);
    let line = match acking {
        Acking::LongPoll => return poll(Http::new(address), side, chance).await,
        Acking::Sse => return listen(address, side, chance).await,
        Acking::WebSocket => Line::websocket(address, &side.network, &frame).await,
        Acking::Connect => Line::connect(address, &side.network, &frame).await,
        Acking::Stdio => {
            Line::stdio(rialto(), address, &side.network, &frame, &side.dir.join(format!("a{}", side.round()))).await
        }
    };
    if let Ok(line) = line {
        talk(acking, line, side, chance).await;
    }
}

/// Acks over HTTP; false when the connection broke.
async fn post(http: &mut Http, side: &Side, ids: Vec<String>, by: Acking) -> bool {
    side.book().half_acked.extend(ids.iter().cloned());
    let (path, session) = (side.path("ack"), &side.sessions["agent:acker"]);
    let sent = http.post(&path).bearer(session).try_body(json!({ "ids": ids }).to_string().as_bytes()).await;
    let Ok(answer) = sent else { return false };
    let acked = answer.data()["acked"].as_u64().unwrap();
    assert!(acked <= ids.len() as u64, "{acked} of {ids:?}");
    side.book().taken(ids, by);
    true
}

async fn poll(mut http: Http, side: Side, mut chance: Chance) {
    let mut going = false;
    loop {
        let path = side.path("events?view=inbox&ack=false&limit=50&wait=5");
        let session = &side.sessions["agent:acker"];
        let Ok(page) = http.request("GET", &path).bearer(session).try_send().await else { return };
        let page = page.data();
        let events = page["events"].as_array().unwrap().iter();
        let ids: Vec<String> =
            events.filter(|_| chance.below(16) > 0).map(|e| e["id"].as_str().unwrap().to_owned()).collect();
        if !ids.is_empty() && !post(&mut http, &side, ids, Acking::LongPoll).await {
            return;
        }
        side.answered(&mut going);
    }
}

async fn listen(address: SocketAddr, side: Side, mut chance: Chance) {
    let path = side.path("events/stream?view=inbox");
    let opened = Sse::try_open(address, &path, &side.sessions["agent:acker"], None).await;
    let Ok(opened) = opened else { return };
    let mut sse = opened.unwrap_or_else(|answer| panic!("{path}: {answer:?}"));
    let mut http = Http::new(address);
    let (mut waiting, mut going) = (Vec::new(), false);
    while let Some(event) = sse.try_next().await {
        let Some(id) = event.data["id"].as_str().filter(|_| event.data["metadata"]["attempt"].is_u64()) else {
            continue;
        };
        if chance.below(16) > 0 {
            waiting.push(id.to_owned());
        }
        if !waiting.is_empty() {
            if !post(&mut http, &side, std::mem::take(&mut waiting), Acking::Sse).await {
                return;
            }
            side.answered(&mut going);
        }
    }
}

async fn talk(acking: Acking, mut line: Line, side: Side, mut chance: Chance) {
    let mut waiting: Vec<String> = Vec::new();
    let mut asked: Vec<String> = Vec::new();
    let mut going = false;
    while let Some(event) = side.next(&mut line).await {
        if event["type"] == "network.pong" {
            // Answers come in order, so the ack before the ping was taken.
            side.book().taken(std::mem::take(&mut asked), acking);
            side.answered(&mut going);
        } else if event["metadata"]["attempt"].is_u64() && chance.below(16) > 0 {
            waiting.push(event["id"].as_str().unwrap().to_owned());
        }
        if asked.is_empty() && !waiting.is_empty() {
            asked.append(&mut waiting);
            side.book().half_acked.extend(asked.iter().cloned());
            let ack = json!({ "type": "network.event.ack", "target": "core", "payload": { "ids": asked } });
            let ping = json!({ "type": "network.ping", "target": "core", "payload": {} });
            let events: Value = json!([ack, ping]);
            if line.send(&events).await.is_err() {
                return;
            }
        }
    }
}
