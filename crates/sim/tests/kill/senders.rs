//! Senders: each keeps events on their way over one carrier until the connection breaks.

use crate::book::{Side, TARGETS, body_of};
use rialto_sim::harness::{Chance, Http, Line, join, rialto};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// A way to send. The first letter of an event's id tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    Http,
    HttpArray,
    HttpLines,
    WebSocket,
    Connect,
    Stdio,
}

impl Sending {
    pub(crate) const ALL: [Sending; 6] =
        [Sending::Http, Sending::HttpArray, Sending::HttpLines, Sending::WebSocket, Sending::Connect, Sending::Stdio];

    fn letter(self) -> char {
        match self {
            Sending::Http => 'h',
            Sending::HttpArray => 'a',
            Sending::HttpLines => 'n',
            Sending::WebSocket => 'w',
            Sending::Connect => 'g',
            Sending::Stdio => 's',
        }
    }

    /// Who sends over it.
    pub(crate) fn agent(self) -> &'static str {
        match self {
            Sending::Http => "agent:poster",
            Sending::HttpArray => "agent:batcher",
            Sending::HttpLines => "agent:liner",
            Sending::WebSocket => "agent:streamer",
            Sending::Connect => "agent:caller",
            Sending::Stdio => "agent:piper",
        }
    }

    /// Whether its agent joins anew with each connection.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Sending::WebSocket | Sending::Connect | Sending::Stdio)
    }

    /// How the event with this id was sent.
    pub(crate) fn of(id: &str) -> Sending {
        Sending::ALL.into_iter().find(|sending| id.starts_with(sending.letter())).unwrap()
    }
}

/// Makes events and notes them.
struct Source {
    side: Side,
    chance: Chance,
    prefix: String,
    made: u64,
}

impl Source {
    /// A short rest: the carriers share two processors with the node, and history is read again later.
    async fn rest(&mut self) {
        tokio::time::sleep(Duration::from_millis(1 + self.chance.below(8))).await;
    }

    /// The next few events, and how many acks were taken before them.
    fn next(&mut self, count: u64) -> (Vec<Value>, usize) {
        let mut book = self.side.book();
        let mut before = 0;
        let events = (0..count)
            .map(|_| {
                self.made += 1;
                let (id, target) = (format!("{}{}", self.prefix, self.made), TARGETS[self.chance.below(4) as usize]);
                before = book.sending(&id, target);
                body_of(&id, target)
            })
            .collect();
        (events, before)
    }
}

pub(crate) async fn send(sending: Sending, address: SocketAddr, side: Side, seed: u64) {
    let prefix = format!("{}-{}-", sending.letter(), side.round());
    let mut source = Source { side: side.clone(), chance: Chance::new(seed), prefix, made: 0 };
    if !sending.is_stream() {
        return post(sending, Http::new(address), &mut source).await;
    }
    let frame = join(sending.agent(), &side.network.token, &json!({}));
    let line = match sending {
        Sending::WebSocket => Line::websocket(address, &side.network, &frame).await,
        Sending::Connect => Line::connect(address, &side.network, &frame).await,
        Sending::Http | Sending::HttpArray | Sending::HttpLines | Sending::Stdio => {
            Line::stdio(rialto(), address, &side.network, &frame, &side.dir.join(format!("s{}", side.round()))).await
        }
    };
    if let Ok(line) = line {
        talk(sending, line, &mut source).await;
    }
}

/// Posts one by one, or a few at once, until the connection breaks.
async fn post(sending: Sending, mut http: Http, source: &mut Source) {
    let (path, session) = (source.side.path("events"), source.side.sessions[sending.agent()].clone());
    let mut going = false;
    loop {
        let count = if sending == Sending::Http { 1 } else { 1 + source.chance.below(6) };
        let (events, before) = source.next(count);
        let mut request = http.post(&path).bearer(&session);
        let body = match sending {
            Sending::Http => events[0].to_string(),
            Sending::HttpArray => json!(events).to_string(),
            Sending::HttpLines | Sending::WebSocket | Sending::Connect | Sending::Stdio => {
                request = request.header("content-type", "application/x-ndjson");
                events.iter().map(|event| format!("{event}\n")).collect()
            }
        };
        let Ok(answer) = request.try_body(body.as_bytes()).await else { return };
        let data = answer.data();
        let single = [data.clone()];
        let results = if sending == Sending::Http { &single[..] } else { data["results"].as_array().unwrap() };
        assert_eq!(results.len(), events.len(), "{data}");
        note_answers(&source.side, &events, results, before);
        source.side.answered(&mut going);
        source.rest().await;
    }
}

fn note_answers(side: &Side, events: &[Value], results: &[Value], before: usize) {
    let mut book = side.book();
    for (event, result) in events.iter().zip(results) {
        assert_eq!((&result["id"], &result["duplicate"]), (&event["id"], &json!(false)), "{result}");
        book.answered(event["id"].as_str().unwrap(), result["seq"].as_u64().unwrap());
    }
    book.flushed = book.flushed.max(before);
}

/// Keeps a few arrays on their way until the connection breaks or the node is gone.
async fn talk(sending: Sending, mut line: Line, source: &mut Source) {
    let (mut open, mut going) = (0, false);
    loop {
        while open < 16 {
            let count = 1 + source.chance.below(6);
            let (events, _) = source.next(count);
            open += count;
            if line.send(&json!(events)).await.is_err() {
                return;
            }
            source.rest().await;
        }
        let Some(event) = source.side.next(&mut line).await else { return };
        match event["type"].as_str().unwrap() {
            "network.event.ack" if event["payload"]["result"].is_null() => {
                let payload = &event["payload"];
                // A relay sends again by itself what it has no answer to: then it is a duplicate.
                assert!(sending == Sending::Stdio || payload["duplicate"] == false, "{event}");
                source.side.book().answered(payload["event_id"].as_str().unwrap(), payload["seq"].as_u64().unwrap());
                open -= 1;
                source.side.answered(&mut going);
            }
            "network.event.error" => panic!("{sending:?}: {event}"),
            _ => {}
        }
    }
}
