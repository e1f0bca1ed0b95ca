//! The stream conversation on WebSocket: join first, batches, acks, window, resume, takeover, leave, redelivery.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

use rialto_model::limits::{WINDOW_DEFAULT, WINDOW_MAX};
use rialto_sim::harness::{Frame, Network, Server, Ws, join, note, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;

fn ack(payload: &Value) -> Value {
    json!({ "type": "network.event.ack", "target": "core", "payload": payload })
}

fn ping(mark: &str) -> Value {
    json!({ "type": "network.ping", "target": "core", "payload": { "t": mark } })
}

fn ids(events: &[Value]) -> Vec<&str> {
    events.iter().map(|e| e["id"].as_str().unwrap()).collect()
}

/// Deliveries that came before the pong: all that the server was willing to send.
async fn deliveries(ws: &mut Ws) -> Vec<Value> {
    ws.send(&ping("fence")).await;
    let mut out = Vec::new();
    loop {
        let event = ws.event().await;
        if event["type"] == "network.pong" && event["payload"]["t"] == "fence" {
            return out;
        }
        if event["metadata"]["attempt"].is_u64() {
            out.push(event);
        }
    }
}

/// Ids of a member's pending mail.
async fn pending(server: &Server, network: &Network, session: &str) -> Vec<String> {
    let path = format!("/v1/ws/{}/events?view=inbox&ack=false&limit=500", network.id);
    let page = server.http().get(&path, session).await.data();
    page["events"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap().to_owned()).collect()
}

/// Sends `count` notes in one batch and waits for the acks.
async fn send_notes(ws: &mut Ws, target: &str, prefix: &str, count: usize) {
    let events: Vec<Value> = (0..count).map(|n| note(&format!("{prefix}{n}"), target, "x")).collect();
    ws.send(&json!(events)).await;
    for n in 0..count {
        let answer = ws.answer(&format!("{prefix}{n}")).await;
        assert_eq!(answer["type"], "network.event.ack", "{answer}");
    }
}

#[tokio::test]
async fn the_join_comes_first() {
    let server = Server::start().await;
    let network = server.main();
    let mut ws = Ws::open(server.address(), &format!("/ws/{}", network.id), &[]).await.unwrap();
    ws.send(&note("early", "agent:x", "hi")).await;
    let refused = ws.event().await;
    assert_eq!(refused["type"], "network.event.error");
    assert_eq!(refused["payload"]["code"], "join_required");
    assert_eq!(
        (&refused["payload"]["event_id"], &refused["metadata"]["in_reply_to"]),
        (&json!("early"), &json!("early"))
    );
    ws.send(&ping("before")).await;
    let pong = ws.event().await;
    assert_eq!((&pong["type"], &pong["payload"]["t"]), (&json!("network.pong"), &json!("before")));
    let mut wish = join("agent:alice", &network.token, &json!({}));
    wish["id"] = json!("j1");
    ws.send(&wish).await;
    let joined = ws.event().await;
    let result = &joined["payload"]["result"];
    assert_eq!(
        (&joined["type"], &joined["payload"]["event_id"]),
        (&json!("network.event.ack"), &json!("j1")),
        "{joined}"
    );
    assert_eq!((&joined["source"], &joined["target"]), (&json!("core"), &json!("agent:alice")));
    assert_eq!((&result["network_id"], &result["window"]), (&json!(network.id), &json!(WINDOW_DEFAULT)));
    assert!(result["session_id"].as_str().is_some_and(|s| s.len() >= 43), "{result}");
    for key in [
        "address",
        "agent_name",
        "role",
        "status",
        "verification",
        "heartbeat_ms",
        "offline_after_ms",
        "head_id",
        "pending",
    ] {
        assert!(!result[key].is_null(), "{key} is missing: {result}");
    }
    // Whoever was refused before may be refused no more; and a second wrong token is told so.
    let mut other = Ws::open(server.address(), &format!("/ws/{}", network.id), &[]).await.unwrap();
    other.send(&join("agent:bob", "not-the-token-of-this-network", &json!({}))).await;
    assert_eq!(other.event().await["payload"]["code"], "invalid_token");
}

#[tokio::test]
async fn a_batch_is_answered_one_by_one_in_order() {
    let server = Server::start().await;
    let network = server.main();
    let (mut ws, _) = Ws::joined(server.address(), &network, "agent:alice", &json!({})).await;
    let nameless = json!({ "type": "test.note.posted", "target": "channel/general", "payload": {} });
    let batch = json!([
        note("b1", "channel/general", "1"),
        note("b2", "agent:nobody", "2"),
        nameless,
        note("b1", "channel/general", "1"),
        note("b1", "channel/general", "other")
    ]);
    ws.send(&batch).await;
    let mut answers = Vec::new();
    while answers.len() < 5 {
        answers.push(ws.news().await);
    }
    let payloads: Vec<&Value> = answers.iter().map(|a| &a["payload"]).collect();
    assert_eq!(
        (&payloads[0]["event_id"], &payloads[0]["duplicate"], &payloads[0]["durability"]),
        (&json!("b1"), &json!(false), &json!("sync"))
    );
    assert_eq!(
        (&payloads[1]["code"], &payloads[1]["event_id"], &payloads[1]["retryable"]),
        (&json!("unknown_target"), &json!("b2"), &json!(false))
    );
    let own = payloads[2]["event_id"].as_str().unwrap();
    assert_eq!((own.len(), &answers[2]["metadata"]["in_reply_to"]), (26, &json!(own)));
    assert_eq!(payloads[2]["seq"], payloads[0]["seq"].as_u64().unwrap() + 1);
    assert_eq!((&payloads[3]["duplicate"], &payloads[3]["seq"]), (&json!(true), &payloads[0]["seq"]));
    assert_eq!(payloads[4]["code"], "id_conflict");
}

#[tokio::test]
async fn acks_by_ids_up_to_and_in_reply_to() {
    let server = Server::start().await;
    let network = server.main();
    let (mut alice, _) = Ws::joined(server.address(), &network, "agent:alice", &json!({})).await;
    let (mut bob, joined) = Ws::joined(server.address(), &network, "agent:bob", &json!({})).await;
    let session = joined["session_id"].as_str().unwrap().to_owned();
    send_notes(&mut alice, "agent:bob", "m", 7).await;
    let sent = deliveries(&mut bob).await;
    assert_eq!(ids(&sent), ["m0", "m1", "m2", "m3", "m4", "m5", "m6"]);
    assert!(sent.iter().all(|e| e["metadata"]["attempt"] == 1 && e["metadata"]["seq"].is_u64()));
    bob.send(&ack(&json!({ "ids": ["m1", "no-such-event"] }))).await;
    let mut by_reply = ack(&json!({}));
    by_reply["metadata"] = json!({ "in_reply_to": "m4" });
    bob.send(&by_reply).await;
    assert!(deliveries(&mut bob).await.is_empty(), "an ack is answered by nothing");
    assert_eq!(pending(&server, &network, &session).await, ["m0", "m2", "m3", "m5", "m6"]);
    bob.send(&ack(&json!({ "up_to": "m3" }))).await;
    // Nobody acks for another.
    alice.send(&ack(&json!({ "ids": ["m5"] }))).await;
    deliveries(&mut alice).await;
    deliveries(&mut bob).await;
    assert_eq!(pending(&server, &network, &session).await, ["m5", "m6"]);
    for wrong in [json!({}), json!({ "ids": "m5" }), json!({ "ids": [5] })] {
        bob.send(&ack(&wrong)).await;
        assert_eq!(bob.news().await["payload"]["code"], "invalid_payload", "{wrong}");
    }
    let mut foreign = ack(&json!({ "ids": ["m5"] }));
    foreign["source"] = json!("agent:alice");
    bob.send(&foreign).await;
    assert_eq!(bob.news().await["payload"]["code"], "source_mismatch");
    // To the sender: it acks, and the sender hears of it.
    let receipt = json!({ "type": "network.event.ack", "target": "agent:alice", "payload": {}, "metadata": { "in_reply_to": "m5" } });
    bob.send(&receipt).await;
    let heard = alice.news().await;
    assert_eq!(
        (&heard["type"], &heard["source"], &heard["metadata"]["in_reply_to"]),
        (&json!("network.event.ack"), &json!("agent:bob"), &json!("m5")),
        "{heard}"
    );
    deliveries(&mut bob).await;
    assert_eq!(pending(&server, &network, &session).await, ["m6"]);
}

#[tokio::test]
async fn a_receipt_comes_once_when_it_was_asked_for() {
    let server = Server::start().await;
    let network = server.main();
    let (mut alice, _) = Ws::joined(server.address(), &network, "agent:alice", &json!({})).await;
    let (mut bob, _) = Ws::joined(server.address(), &network, "agent:bob", &json!({})).await;
    let mut event = note("r1", "agent:bob", "x");
    event["metadata"] = json!({ "receipt": true });
    alice.send(&event).await;
    alice.answer("r1").await;
    assert_eq!(ids(&deliveries(&mut bob).await), ["r1"]);
    bob.ack(&["r1"]).await;
    bob.ack(&["r1"]).await;
    let receipt = alice.news().await;
    assert_eq!(
        (&receipt["type"], &receipt["source"], &receipt["metadata"]["in_reply_to"]),
        (&json!("network.event.ack"), &json!("agent:bob"), &json!("r1")),
        "{receipt}"
    );
    deliveries(&mut bob).await;
    alice.send(&ping("end")).await;
    assert_eq!(alice.news().await["type"], "network.pong", "a second receipt");
}

#[tokio::test]
async fn the_window_parks_what_is_not_acked() {
    let server = Server::start().await;
    let network = server.main();
    let (mut alice, _) = Ws::joined(server.address(), &network, "agent:alice", &json!({})).await;
    let (mut bob, _) = Ws::joined(server.address(), &network, "agent:bob", &json!({})).await;
    let (mut narrow, _) = Ws::joined(server.address(), &network, "agent:narrow", &json!({ "window": 1 })).await;
    send_notes(&mut alice, "agent:broadcast", "m", WINDOW_DEFAULT + 44).await;
    let first = deliveries(&mut bob).await;
    assert_eq!(first.len(), WINDOW_DEFAULT);
    assert!(deliveries(&mut bob).await.is_empty(), "the window is full");
    // What expects no ack passes beside it.
    let signal =
        json!({ "type": "test.typing.now", "target": "agent:bob", "payload": {}, "metadata": { "ephemeral": true } });
    alice.send(&signal).await;
    assert_eq!(bob.news().await["type"], "test.typing.now");
    bob.ack(&["m3"]).await;
    assert_eq!(ids(&deliveries(&mut bob).await), [format!("m{WINDOW_DEFAULT}")]);
    bob.send(&ack(&json!({ "up_to": "m20" }))).await;
    let next = deliveries(&mut bob).await;
    let expected: Vec<String> = (1..21).map(|n| format!("m{}", WINDOW_DEFAULT + n)).collect();
    assert_eq!(ids(&next), expected);
    bob.send(&ack(&json!({ "up_to": format!("m{WINDOW_DEFAULT}") }))).await;
    assert_eq!(deliveries(&mut bob).await.len(), 23);
    for n in 0..WINDOW_DEFAULT + 44 {
        let id = format!("m{n}");
        assert_eq!(ids(&deliveries(&mut narrow).await), [id.as_str()]);
        narrow.ack(&[&id]).await;
    }
    assert!(deliveries(&mut narrow).await.is_empty());
    for wrong in [0, WINDOW_MAX + 1] {
        let mut ws = Ws::open(server.address(), &format!("/ws/{}", network.id), &[]).await.unwrap();
        ws.send(&join("agent:x", &network.token, &json!({ "window": wrong }))).await;
        assert_eq!(ws.event().await["payload"]["code"], "invalid_argument");
    }
}

#[tokio::test]
async fn batch_acks_name_all_events_of_a_commit_and_keep_the_order() {
    let server = Server::start().await;
    let network = server.main();
    let (mut ws, _) = Ws::joined(server.address(), &network, "agent:alice", &json!({ "acks": "batch" })).await;
    let mut batch: Vec<Value> = (0..10).map(|n| note(&format!("k{n}"), "channel/general", "x")).collect();
    batch.insert(4, note("bad", "agent:nobody", "x"));
    ws.send(&json!(batch)).await;
    let mut order = Vec::new();
    let mut last = 0;
    while order.len() < 11 {
        let event = ws.news().await;
        if event["type"] == "network.event.error" {
            order.push(event["payload"]["event_id"].as_str().unwrap().to_owned());
            continue;
        }
        assert_eq!(
            (&event["type"], &event["payload"]["durability"]),
            (&json!("network.event.ack"), &json!("sync")),
            "{event}"
        );
        let pairs = event["payload"]["accepted"].as_array().unwrap();
        assert!(pairs.len() > 1, "one ack per event: {event}");
        for pair in pairs {
            assert!(pair[1].as_u64().unwrap() > last);
            last = pair[1].as_u64().unwrap();
            order.push(pair[0].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(order, ["k0", "k1", "k2", "k3", "bad", "k4", "k5", "k6", "k7", "k8", "k9"]);
    let wrong = join("agent:x", &network.token, &json!({ "acks": "never" }));
    let mut ws = Ws::open(server.address(), &format!("/ws/{}", network.id), &[]).await.unwrap();
    ws.send(&wrong).await;
    assert_eq!(ws.event().await["payload"]["code"], "invalid_argument");
}

#[tokio::test]
async fn a_query_is_acked_and_then_answered() {
    let server = Server::start().await;
    let network = server.main();
    let (mut ws, _) = Ws::joined(server.address(), &network, "agent:alice", &json!({})).await;
    send_notes(&mut ws, "channel/general", "q", 3).await;
    let query = json!({ "id": "query", "type": "network.events.query", "target": "core", "payload": { "type": "test.note", "limit": 2 } });
    ws.send(&query).await;
    assert_eq!(ws.news().await["payload"]["event_id"], "query");
    let response = ws.news().await;
    assert_eq!(
        (&response["type"], &response["metadata"]["in_reply_to"], &response["target"]),
        (&json!("network.events.response"), &json!("query"), &json!("agent:alice"))
    );
    assert_eq!(ids(response["payload"]["events"].as_array().unwrap()), ["q0", "q1"]);
    assert_eq!(response["payload"]["has_more"], true);
}

#[tokio::test]
async fn unacked_mail_comes_again_on_a_new_connection_in_order() {
    let mut server = Server::start().await;
    let network = server.main();
    let (mut alice, _) = Ws::joined(server.address(), &network, "agent:alice", &json!({})).await;
    let (mut bob, joined) = Ws::joined(server.address(), &network, "agent:bob", &json!({ "window": 5 })).await;
    let session = joined["session_id"].as_str().unwrap().to_owned();
    send_notes(&mut alice, "agent:bob", "m", 8).await;
    assert_eq!(ids(&deliveries(&mut bob).await), ["m0", "m1", "m2", "m3", "m4"]);
    bob.ack(&["m1", "m3"]).await;
    assert_eq!(ids(&deliveries(&mut bob).await), ["m5", "m6"]);
    drop(bob);
    // The same session goes on; polls and reconnects are no attempts.
    let keep = json!({ "session_id": session });
    let (mut bob, joined) = Ws::joined(server.address(), &network, "agent:bob", &keep).await;
    assert_eq!((&joined["session_id"], &joined["pending"]), (&json!(session), &json!(6)));
    let again = deliveries(&mut bob).await;
    assert_eq!(ids(&again), ["m0", "m2", "m4", "m5", "m6", "m7"]);
    assert!(again.iter().all(|e| e["metadata"]["attempt"] == 1), "{again:?}");
    bob.ack(&["m2"]).await;
    deliveries(&mut bob).await;
    server.stop();
    server.restart().await;
    let (mut bob, _) = Ws::joined(server.address(), &network, "agent:bob", &keep).await;
    assert_eq!(ids(&deliveries(&mut bob).await), ["m0", "m4", "m5", "m6", "m7"], "after a clean stop every ack counts");
    drop(bob);
    // `resume_after` acks up to it and goes on behind it.
    let options = json!({ "session_id": session, "resume_after": "m5" });
    let (mut bob, joined) = Ws::joined(server.address(), &network, "agent:bob", &options).await;
    assert_eq!(joined["pending"], 2);
    assert_eq!(ids(&deliveries(&mut bob).await), ["m6", "m7"]);
    assert_eq!(pending(&server, &network, &session).await, ["m6", "m7"]);
    let mut ws = Ws::open(server.address(), &format!("/ws/{}", network.id), &[]).await.unwrap();
    ws.send(&join("agent:bob", &network.token, &json!({ "resume_after": "never-was" }))).await;
    assert_eq!(ws.event().await["payload"]["code"], "cursor_unknown");
}

#[tokio::test]
async fn a_newer_join_takes_over() {
    let server = Server::start().await;
    let network = server.main();
    let (mut old, joined) = Ws::joined(server.address(), &network, "agent:bob", &json!({})).await;
    let session = joined["session_id"].as_str().unwrap().to_owned();
    let (mut new, joined) = Ws::joined(server.address(), &network, "agent:bob", &json!({})).await;
    assert_ne!(joined["session_id"], json!(session));
    assert_eq!(old.end().await, (Some(4409), Some("session_revoked".to_owned())));
    let refused = server.http().get(&format!("/v1/ws/{}/events", network.id), &session).await;
    assert_eq!((refused.status, refused.code().as_str()), (401, "session_revoked"));
    // The new one is not disturbed.
    let (mut alice, _) = Ws::joined(server.address(), &network, "agent:alice", &json!({})).await;
    send_notes(&mut alice, "agent:bob", "m", 1).await;
    assert_eq!(ids(&deliveries(&mut new).await), ["m0"]);
}

#[tokio::test]
async fn leave_is_acked_and_closes() {
    let server = Server::start().await;
    let network = server.main();
    let (mut alice, _) = Ws::joined(server.address(), &network, "agent:alice", &json!({})).await;
    let (mut bob, _) = Ws::joined(server.address(), &network, "agent:bob", &json!({})).await;
    bob.send(&json!({ "id": "bye", "type": "network.agent.leave", "target": "core", "payload": {} })).await;
    let left = bob.answer("bye").await;
    assert_eq!(left["payload"]["result"], json!({ "address": "agent:bob", "status": "offline" }), "{left}");
    assert_eq!(bob.next().await, Frame::Closed(1000, "left".to_owned()));
    alice.send(&note("after", "agent:bob", "x")).await;
    assert_eq!(alice.answer("after").await["payload"]["code"], "unknown_target");
    alice.send(&note("all", "agent:broadcast", "x")).await;
    alice.answer("all").await;
    let (mut bob, joined) = Ws::joined(server.address(), &network, "agent:bob", &json!({})).await;
    assert_eq!(joined["pending"], 0, "nothing is queued for who has left");
    assert!(deliveries(&mut bob).await.is_empty());
}

#[tokio::test]
async fn a_stop_says_goodbye() {
    let mut server = Server::start().await;
    let network = server.main();
    let (mut joined, _) = Ws::joined(server.address(), &network, "agent:alice", &json!({})).await;
    let mut silent = Ws::open(server.address(), &format!("/ws/{}", network.id), &[]).await.unwrap();
    silent.send(&ping("here")).await;
    silent.event().await;
    server.terminate();
    let mut goodbye = None;
    let close = loop {
        match joined.next().await {
            Frame::Event(event) if event["type"] == "network.event.error" => goodbye = Some(event["payload"].clone()),
            Frame::Event(_) => {}
            end @ (Frame::Closed(..) | Frame::Gone) => break end,
        }
    };
    let goodbye = goodbye.unwrap();
    assert_eq!(
        (&goodbye["code"], &goodbye["event_id"], &goodbye["retryable"]),
        (&json!("shutting_down"), &Value::Null, &json!(true))
    );
    assert!(matches!(close, Frame::Closed(1001, _)), "{close:?}");
    assert_eq!(silent.end().await.0, Some(1001));
    assert!(server.ended().success());
    assert!(!server.data().join("run.json").exists());
}

/// One side of a talk that goes on over power cuts: sends its line, waits for the other's, and so on.
async fn talk(
    data: std::path::PathBuf,
    network: Network,
    me: &'static str,
    other: &'static str,
    lines: u64,
) -> Vec<String> {
    let mut heard: Vec<String> = Vec::new();
    let mut known = BTreeSet::new();
    let mut session: Option<String> = None;
    let mut answered = 0;
    while (heard.len() as u64) < lines || answered < lines {
        let address: SocketAddr = until("a run file", || {
            let text = std::fs::read_to_string(data.join("run.json")).unwrap_or_default();
            let run: Value = serde_json::from_str(&text).unwrap_or_default();
            std::future::ready(run["listen"].as_str().and_then(|l| l.parse().ok()))
        })
        .await;
        let Ok(mut ws) = Ws::open(address, &format!("/ws/{}", network.id), &[]).await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let options = session.as_ref().map_or(json!({}), |s| json!({ "session_id": s }));
        if ws.try_text(&join(me, &network.token, &options).to_string()).await.is_err() {
            continue;
        }
        let mut said = None;
        loop {
            // A line is said again on every connection until it is answered, with the same id.
            let turn = answered < lines && heard.len() as u64 >= answered;
            if session.is_some() && turn && said != Some(answered) {
                said = Some(answered);
                let line = note(&format!("{}-{answered}", me.trim_start_matches("agent:")), other, "line");
                if ws.try_text(&line.to_string()).await.is_err() {
                    break;
                }
            }
            let Frame::Event(event) = ws.try_next().await else { break };
            let id = event["id"].as_str().unwrap().to_owned();
            if event["payload"]["result"]["session_id"].is_string() {
                session = event["payload"]["result"]["session_id"].as_str().map(str::to_owned);
            } else if event["type"] == "network.event.ack" {
                answered += 1;
            } else if event["payload"]["code"] == "unknown_target" {
                // The other is not there yet.
                said = None;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            } else if event["metadata"]["attempt"].is_u64() {
                if known.insert(id.clone()) {
                    heard.push(id.clone());
                }
                ws.ack(&[&id]).await;
            } else if event["type"] == "network.event.error" {
                panic!("{me}: {event}");
            }
            if heard.len() as u64 >= lines && answered >= lines {
                break;
            }
        }
    }
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn two_agents_talk_while_the_node_dies_and_comes_back() {
    const LINES: u64 = 3000;
    let mut server = Server::start().await;
    let (data, network) = (server.data(), server.main());
    let ana = tokio::spawn(talk(data.clone(), network.clone(), "agent:ana", "agent:ben", LINES));
    let ben = tokio::spawn(talk(data, network.clone(), "agent:ben", "agent:ana", LINES));
    let mut cuts = 0;
    while !ana.is_finished() || !ben.is_finished() {
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        if cuts < 5 {
            server.kill();
            server.restart().await;
            cuts += 1;
        }
    }
    let expected = |who: &str| (0..LINES).map(|n| format!("{who}-{n}")).collect::<Vec<_>>();
    assert_eq!(ana.await.unwrap(), expected("ben"));
    assert_eq!(ben.await.unwrap(), expected("ana"));
    assert!(cuts >= 3, "the talk was over after {cuts} power cuts");
}
