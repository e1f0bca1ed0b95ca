//! Limits that need a running node: each is filled, and what lies beyond gets the documented answer. The limits of the
//! model and of the engine are filled in their own crates.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

use bytes::Bytes;
use futures_util::future::join_all;
use rialto_model::ErrorCode;
use rialto_model::limits::{
    BAD_FRAMES_MAX, BATCH_BYTES_MAX, BATCH_EVENTS_MAX, BATCH_RESPONSE_BYTES_MAX, CONNECTIONS_MAX, EVENT_BYTES_MAX,
    HEADER_BYTES_MAX, IDEMPOTENCY_KEY_CHARS_MAX, INPUT_QUEUE_MAX, NETWORKS_MAX, OUTBOX_FRAMES_MAX, PAGE_BYTES_MAX,
    PAGE_EVENTS_DEFAULT, PAGE_EVENTS_MAX, RING_EVENTS_MAX, SCAN_EVENTS_MAX, UNANSWERED_EVENTS_MAX, WAIT_SECONDS_MAX,
};
use rialto_model::network::Preset;
use rialto_node::{Caller, CreateNetwork, Node, NodeConfig, Out, Texts};
use rialto_sim::harness::{Frame, Http, Server, Ws, note, soon, until};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn notes(prefix: &str, count: usize, target: &str) -> Vec<Value> {
    (0..count).map(|n| note(&format!("{prefix}{n}"), target, "x")).collect()
}

#[tokio::test]
async fn batch_events_max() {
    let server = Server::start().await;
    let network = server.main();
    let session = server.join(&network, "agent:a").await;
    let path = format!("/v1/ws/{}/events", network.id);
    let mut http = server.http();
    let full = json!(notes("h", BATCH_EVENTS_MAX, "channel/general"));
    let data = http.post(&path).bearer(&session).json(&full).await.data();
    let results = data["results"].as_array().unwrap();
    assert!(results.len() == BATCH_EVENTS_MAX && results.iter().all(|r| r["ok"] == true));
    let more = notes("i", BATCH_EVENTS_MAX + 1, "channel/general");
    let refused = http.post(&path).bearer(&session).json(&json!(more)).await;
    assert_eq!((refused.status, refused.code().as_str()), (413, "too_large"));
    let lines: String = more.iter().map(|e| format!("{e}\n")).collect();
    let refused =
        http.post(&path).bearer(&session).header("content-type", "application/x-ndjson").body(lines.as_bytes()).await;
    assert_eq!((refused.status, refused.code().as_str()), (413, "too_large"));
    // On a stream: refused as one, in its turn, and the stream goes on.
    let (mut ws, _) = Ws::joined(server.address(), &network, "agent:b", &json!({ "acks": "batch", "window": 1 })).await;
    ws.send(&json!([note("before", "core", "x")])).await;
    ws.send(&json!(more)).await;
    ws.send(&json!(notes("j", BATCH_EVENTS_MAX, "core"))).await;
    let mut order = Vec::new();
    while order.len() < BATCH_EVENTS_MAX + 2 {
        let event = ws.event().await;
        if event["type"] == "network.event.error" {
            assert_eq!(event["payload"]["event_id"], Value::Null);
            order.push(event["payload"]["code"].as_str().unwrap().to_owned());
        }
        let accepted = event["payload"]["accepted"].as_array().into_iter().flatten();
        order.extend(accepted.map(|pair| pair[0].as_str().unwrap().to_owned()));
    }
    assert_eq!(order[..3], ["before", "too_large", "j0"]);
}

#[tokio::test]
async fn batch_bytes_max_on_a_stream() {
    let server = Server::start().await;
    let (mut ws, _) = Ws::joined(server.address(), &server.main(), "agent:a", &json!({})).await;
    // Three events just below their own limit, then blanks to fill the frame to its last byte.
    let part = |n: usize| note(&format!("big{n}"), "core", &"x".repeat(EVENT_BYTES_MAX - 500)).to_string();
    let mut frame = format!("[{},{},{}]", part(0), part(1), part(2));
    frame.push_str(&" ".repeat(BATCH_BYTES_MAX - frame.len()));
    ws.text(&frame).await;
    for n in 0..3 {
        assert_eq!(ws.answer(&format!("big{n}")).await["type"], "network.event.ack");
    }
    frame.push(' ');
    let _ = ws.try_text(&frame).await;
    assert_eq!(ws.end().await, (Some(1009), Some("too_large".to_owned())));
    // Over HTTP the same limit is filled in `hostile.rs`, as are HEADER_BYTES_MAX and BAD_FRAMES_MAX below their edges.
}

#[tokio::test]
async fn header_bytes_max() {
    let server = Server::start().await;
    let fits = "x".repeat(HEADER_BYTES_MAX / 2);
    assert_eq!(server.http().request("GET", "/health").header("x-a", &fits).send().await.status, 200);
    let over = "x".repeat(HEADER_BYTES_MAX);
    assert_eq!(server.http().request("GET", "/health").header("x-a", &over).send().await.status, 431);
}

#[tokio::test]
async fn bad_frames_max() {
    let server = Server::start().await;
    let (mut ws, _) = Ws::joined(server.address(), &server.main(), "agent:a", &json!({})).await;
    for _ in 1..BAD_FRAMES_MAX {
        ws.text("{").await;
        assert_eq!(ws.news().await["payload"]["code"], "invalid_json");
    }
    ws.text("{").await;
    assert_eq!(ws.end().await, (Some(4400), Some("invalid_json".to_owned())));
}

#[tokio::test]
async fn idempotency_key_chars_max() {
    let server = Server::start().await;
    let network = server.main();
    let path = format!("/v1/ws/{}/events", network.id);
    let body = json!({ "type": "test.note.posted", "target": "channel/general", "payload": {} });
    let session = server.join(&network, "agent:a").await;
    let key = "k".repeat(IDEMPOTENCY_KEY_CHARS_MAX);
    let mut http = server.http();
    let first = http.post(&path).bearer(&session).header("idempotency-key", &key).json(&body).await.data();
    assert_eq!(first["duplicate"], false);
    // The key is the sender's, also with another session.
    let session = server.join(&network, "agent:a").await;
    let again = http.post(&path).bearer(&session).header("idempotency-key", &key).json(&body).await.data();
    assert_eq!((&again["duplicate"], &again["seq"]), (&json!(true), &first["seq"]));
    let other = server.join(&network, "agent:b").await;
    let others = http.post(&path).bearer(&other).header("idempotency-key", &key).json(&body).await.data();
    assert_eq!(others["duplicate"], false);
    let long = format!("{key}k");
    let refused = http.post(&path).bearer(&session).header("idempotency-key", &long).json(&body).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_argument"));
}

#[tokio::test]
async fn history_reads_are_bounded() {
    let server = Server::start().await;
    let network = server.main();
    let session = server.join(&network, "agent:a").await;
    let path = format!("/v1/ws/{}/events", network.id);
    let mut http = server.http();
    let mut made = 0;
    while made <= SCAN_EVENTS_MAX {
        let part = notes(&format!("p{made}-"), BATCH_EVENTS_MAX, "channel/general");
        http.post(&path).bearer(&session).json(&json!(part)).await.data();
        made += BATCH_EVENTS_MAX;
    }
    let count = |page: &Value| page["events"].as_array().unwrap().len();
    let page = http.get(&format!("{path}?view=log"), &session).await.data();
    assert_eq!((count(&page), &page["has_more"]), (PAGE_EVENTS_DEFAULT, &json!(true)));
    let page = http.get(&format!("{path}?view=log&limit={PAGE_EVENTS_MAX}"), &session).await.data();
    assert_eq!(count(&page), PAGE_EVENTS_MAX);
    for limit in [0, PAGE_EVENTS_MAX + 1] {
        let refused = http.get(&format!("{path}?limit={limit}"), &session).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_argument"));
    }
    // A filter that nothing passes: the read gives up after so many, says so, and goes on from there.
    let page = http.get(&format!("{path}?view=log&in_reply_to=none"), &session).await.data();
    assert_eq!((count(&page), &page["has_more"]), (0, &json!(true)));
    let next: usize = page["next_cursor"].as_str().unwrap().strip_prefix("seq:").unwrap().parse().unwrap();
    assert!((SCAN_EVENTS_MAX..SCAN_EVENTS_MAX + PAGE_EVENTS_MAX).contains(&next), "{next}");
    let page = http.get(&format!("{path}?view=log&in_reply_to=none&after=seq:{next}"), &session).await.data();
    assert_eq!((count(&page), &page["has_more"]), (0, &json!(false)));
    // Many large events: the page ends by its bytes.
    let large: Vec<Value> =
        (0..3).map(|n| note(&format!("large{n}"), "channel/general", &"x".repeat(EVENT_BYTES_MAX - 500))).collect();
    let mut sent = 0;
    while sent * EVENT_BYTES_MAX < PAGE_BYTES_MAX + 3 * EVENT_BYTES_MAX {
        let part: Vec<Value> = large
            .iter()
            .map(|e| {
                let mut e = e.clone();
                e["id"] = json!(format!("large{sent}-{}", e["id"].as_str().unwrap()));
                e
            })
            .collect();
        http.post(&path).bearer(&session).json(&json!(part)).await.data();
        sent += 3;
    }
    let answer = http.get(&format!("{path}?view=log&type=test.note&limit=500&after=seq:{made}"), &session).await;
    assert!(answer.body.len() < PAGE_BYTES_MAX + 2 * EVENT_BYTES_MAX, "{} bytes", answer.body.len());
    assert_eq!(answer.data()["has_more"], true);
}

/// Sixty members who say much of themselves: each list of them is a large response, and a batch asks for many.
#[tokio::test]
async fn batch_response_bytes_max() {
    let server = Server::start().await;
    let network = server.main();
    let (members, text) = (60, "d".repeat(15_000));
    let mut http = server.http();
    let mut session = String::new();
    for n in 0..members {
        session = server.join(&network, &format!("agent:m{n}")).await;
        let said = json!({ "type": "network.agent.announce", "target": "agent:broadcast", "payload": { "description": text } });
        http.post(&format!("/v1/ws/{}/events", network.id)).bearer(&session).json(&said).await.data();
    }
    let asks: Vec<Value> =
        (0..50).map(|n| json!({ "id": format!("d{n}"), "type": "network.agent.discover", "target": "core" })).collect();
    let path = format!("/v1/ws/{}/events", network.id);
    let results = http.post(&path).bearer(&session).json(&json!(asks)).await.data()["results"].clone();
    let answered = results.as_array().unwrap().iter().take_while(|r| r["ok"] == true).count();
    assert!(answered > 0 && answered <= BATCH_RESPONSE_BYTES_MAX / (members * text.len()) + 1, "{answered}");
    let refused: Vec<&Value> = results.as_array().unwrap().iter().skip(answered).collect();
    assert!(refused.iter().all(|r| r["error"]["code"] == "too_large"), "{refused:?}");
    assert_eq!(refused[0]["error"]["details"]["limit"], BATCH_RESPONSE_BYTES_MAX);
    // Asked for in another batch, it is answered.
    let alone = http.post(&path).bearer(&session).json(&asks[49]).await.data();
    assert!(alone["response"].to_string().len() > members * text.len());
}

#[tokio::test]
async fn wait_seconds_max() {
    let server = Server::start().await;
    let network = server.main();
    let session = server.join(&network, "agent:a").await;
    let path = format!("/v1/ws/{}/events", network.id);
    let mut http = server.http();
    let over = WAIT_SECONDS_MAX + 1;
    let refused = http.get(&format!("{path}?wait={over}"), &session).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_argument"));
    let event = note("w", "channel/general", "x");
    let refused = http.post(&format!("{path}?wait={over}")).bearer(&session).json(&event).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_argument"));
    http.post(&path).bearer(&session).json(&event).await.data();
    let page = http.get(&format!("{path}?view=log&wait={WAIT_SECONDS_MAX}"), &session).await.data();
    assert!(!page["events"].as_array().unwrap().is_empty());
}

#[tokio::test]
async fn ring_events_max() {
    let server = Server::start().await;
    let network = server.network(&json!({ "name": "fleeting", "delivery": "at-most-once" })).await;
    let (a, b) = (server.join(&network, "agent:a").await, server.join(&network, "agent:b").await);
    let path = format!("/v1/ws/{}/events", network.id);
    let mut http = server.http();
    // From its first poll on a member has a ring.
    http.get(&format!("{path}?view=inbox"), &b).await.data();
    http.post(&path).bearer(&a).json(&json!(notes("r", RING_EVENTS_MAX + 10, "agent:b"))).await.data();
    let mut got: Vec<String> = Vec::new();
    loop {
        let page = http.get(&format!("{path}?view=inbox&limit={PAGE_EVENTS_MAX}"), &b).await.data();
        let events = page["events"].as_array().unwrap();
        if events.is_empty() {
            break;
        }
        got.extend(events.iter().map(|e| e["id"].as_str().unwrap().to_owned()));
    }
    let kept: Vec<String> = (10..RING_EVENTS_MAX + 10).map(|n| format!("r{n}")).collect();
    assert_eq!(got, kept);
}

#[tokio::test]
async fn unanswered_events_max_stops_the_reading_and_loses_nothing() {
    let server = Server::start().await;
    let network = server.main();
    let (mut ws, _) = Ws::joined(server.address(), &network, "agent:a", &json!({})).await;
    // A client that writes and does not read. Answers pile up in the sockets' buffers, then the node stops reading,
    // then its buffers fill, and at last this end cannot write any more.
    let mut sent = 0usize;
    let enough = 40 * UNANSWERED_EVENTS_MAX;
    let padding = "x".repeat(2000);
    loop {
        let event = json!({ "id": format!("u{sent}"), "type": "test.typing.now", "target": "core", "payload": { "p": padding }, "metadata": { "ephemeral": true } });
        let text = event.to_string();
        sent += 1;
        match tokio::time::timeout(Duration::from_secs(3), ws.try_text(&text)).await {
            Ok(done) => done.unwrap_or_else(|e| panic!("the connection broke after {sent} events: {e}")),
            Err(_) => break,
        }
        assert!(sent < enough, "the node reads on after {sent} unanswered events");
    }
    assert!(sent > UNANSWERED_EVENTS_MAX, "it stopped after {sent} already");
    // Somebody else is served meanwhile.
    server.join(&network, "agent:b").await;
    // The frame that did not fit is still being written while the answers are read.
    let mut answered = 0;
    while answered < sent {
        match ws.next().await {
            Frame::Event(event) if event["type"] == "network.event.ack" => {
                assert_eq!(event["payload"]["event_id"], format!("u{answered}"));
                answered += 1;
            }
            Frame::Event(event) => assert_ne!(event["type"], "network.event.error", "{event}"),
            end @ (Frame::Closed(..) | Frame::Gone) => panic!("{end:?} after {answered} of {sent} answers"),
        }
    }
}

/// A node of its own in this process, without a disk.
async fn node() -> Node {
    Node::open(NodeConfig::default()).await.unwrap()
}

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

#[tokio::test]
async fn input_queue_max() {
    let node = node().await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let caller = operator();
    let frame = Bytes::from(
        json!({ "type": "network.agent.join", "source": "agent:a", "target": "core", "payload": {} }).to_string(),
    );
    // One thread: nobody takes anything out while all of them put theirs in.
    let session = network.session(&caller);
    let calls = (0..INPUT_QUEUE_MAX + 20).map(|_| session.emit(Texts::one(frame.clone())));
    let answers = join_all(calls).await;
    let refused: Vec<_> = answers.iter().filter_map(|a| a.as_ref().err()).collect();
    assert_eq!(refused.len(), 20);
    for fault in refused {
        assert_eq!(fault.code, ErrorCode::RateLimited);
        assert!(fault.details.as_ref().is_some_and(|d| d["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0)));
    }
    assert!(network.session(&caller).emit(Texts::one(frame)).await.is_ok(), "and later there is room again");
    node.stop().await;
}

#[tokio::test]
async fn outbox_frames_max() {
    let node = node().await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let caller = operator().as_ref().clone();
    let (mut conversation, _renderer, mut inbox) = rialto_openagents::stream::converse(&network, caller);
    let text = |event: Value| Texts::from(event.to_string());
    let join = json!({ "type": "network.agent.join", "source": "agent:slow", "target": "core", "payload": {} });
    conversation.receive(text(join)).await.unwrap();
    let fence = async || network.state_hash().await.unwrap().0;
    fence().await;
    // Signals are dropped long before they could end the session …
    let signal =
        json!({ "type": "test.typing.now", "target": "agent:slow", "payload": {}, "metadata": { "ephemeral": true } });
    let other = json!({ "type": "network.agent.join", "source": "agent:fast", "target": "core", "payload": {} });
    let (mut fast, _renderer, mut answers) = rialto_openagents::stream::converse(&network, operator().as_ref().clone());
    fast.receive(text(other)).await.unwrap();
    for _ in 0..OUTBOX_FRAMES_MAX + 500 {
        fast.receive(text(signal.clone())).await.unwrap();
        fence().await;
        while answers.try_recv().is_ok() {}
    }
    assert!(inbox.len() < OUTBOX_FRAMES_MAX, "signals fill the outbox: {}", inbox.len());
    // … answers are not: a client that takes none is shown out.
    for _ in 0..OUTBOX_FRAMES_MAX {
        let ping = json!({ "type": "network.ping", "target": "core", "payload": {} });
        conversation.receive(text(ping)).await.unwrap();
        fence().await;
    }
    let batches = inbox.len();
    let last = inbox.try_recv().unwrap().pop();
    assert!(batches <= OUTBOX_FRAMES_MAX, "{batches} batches");
    assert!(matches!(last, Some(Out::Close(ErrorCode::RateLimited))), "{last:?} after {batches} batches");
    node.stop().await;
}

#[tokio::test]
async fn networks_max() {
    let node = node().await;
    for n in 0..NETWORKS_MAX {
        node.create_network(CreateNetwork::named(&format!("n{n}"), Preset::Plain)).await.unwrap();
    }
    let refused = node.create_network(CreateNetwork::named("one-more", Preset::Plain)).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::NetworkFull);
    node.stop().await;
}

/// `CONNECTIONS_MAX` itself would need as many file descriptors on both ends; a node told a smaller number behaves the same.
#[tokio::test]
async fn connections_max() {
    const FEW: usize = 5;
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("rialto.toml");
    std::fs::write(&config, format!("[limits]\nconnections_max = {FEW}\n")).unwrap();
    let server = Server::start_with(&["--config", config.to_str().unwrap()]).await;
    let mut held: Vec<Http> = Vec::new();
    soon("all places are taken", async {
        loop {
            let mut http = server.http();
            // Whoever shows a credential keeps its place; others have only a part of them (see tests/hostile_load).
            match http.request("GET", "/health").bearer(&server.admin()).try_send().await {
                Ok(_) => held.push(http),
                Err(_) if held.len() == FEW => return,
                // The connection that asked for readiness at the start may still be on its way out.
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
            assert!(held.len() <= FEW, "{} connections are served", held.len());
        }
    })
    .await;
    for http in &mut held {
        assert_eq!(http.request("GET", "/health").send().await.status, 200, "those who are in stay in");
    }
    held.pop();
    let address = server.address();
    until(
        "a place is free again",
        || async move { Http::new(address).request("GET", "/health").try_send().await.ok() },
    )
    .await;
    // More than the limit cannot be configured.
    std::fs::write(&config, format!("[limits]\nconnections_max = {}\n", CONNECTIONS_MAX + 1)).unwrap();
    let mut command = Server::command(&dir.path().join("data"));
    let ended = soon("the refusal", async { command.arg("--config").arg(&config).output().unwrap() }).await;
    assert_eq!(ended.status.code(), Some(2), "{}", String::from_utf8_lossy(&ended.stderr));
}
