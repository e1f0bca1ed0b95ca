//! Wrong, forged and oversized input on every carrier: the documented code with its HTTP status or close code, while a
//! well-behaved neighbour notices nothing.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

use rialto_model::ErrorCode;
use rialto_model::limits::{
    BAD_FRAMES_MAX, BATCH_BYTES_MAX, EVENT_BYTES_MAX, HEADER_BYTES_MAX, METADATA_BYTES_MAX, PAYLOAD_DEPTH_MAX,
};
use rialto_sim::harness::{Answer, Http, Network, Server, Sse, Ws, join, note, soon};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::Message;

/// Section 13: HTTP status and retryable flag of every code.
const TABLE: &[(u16, bool, &[&str])] = &[
    (
        400,
        false,
        &[
            "invalid_json",
            "invalid_event",
            "invalid_address",
            "invalid_type",
            "invalid_payload",
            "invalid_visibility",
            "invalid_argument",
            "network_mismatch",
            "unknown_registrar",
            "no_did_form",
        ],
    ),
    (
        401,
        false,
        &[
            "unauthenticated",
            "token_required",
            "invalid_token",
            "verification_required",
            "verification_failed",
            "challenge_expired",
            "did_required",
            "session_revoked",
            "session_expired",
        ],
    ),
    (
        403,
        false,
        &[
            "forbidden",
            "source_mismatch",
            "observer_read_only",
            "not_a_member",
            "not_a_channel_member",
            "permission_denied",
            "invite_required",
            "invite_invalid",
            "reserved_type",
            "origin_forbidden",
            "rejected",
        ],
    ),
    (404, false, &["network_not_found", "unknown_target", "resource_not_found", "mod_not_found"]),
    (409, false, &["already_exists", "address_taken", "id_conflict"]),
    (409, true, &["version_conflict"]),
    (409, false, &["join_required", "no_pending_request", "history_unavailable"]),
    (410, false, &["cursor_unknown", "network_archived"]),
    (413, false, &["too_large"]),
    (421, false, &["cross_network"]),
    (429, true, &["rate_limited", "recipient_queue_full", "network_full", "too_many_sessions"]),
    (500, true, &["mod_failed"]),
    (500, false, &["internal"]),
    (501, false, &["unsupported"]),
    (
        503,
        true,
        &["network_paused", "owner_unavailable", "storage_unavailable", "registrar_unavailable", "shutting_down"],
    ),
    (504, true, &["timeout"]),
];

fn documented(code: &str) -> (u16, bool) {
    let row = TABLE.iter().find(|(_, _, codes)| codes.contains(&code));
    row.map_or_else(|| panic!("{code} is not in the registry"), |(status, retryable, _)| (*status, *retryable))
}

/// The answer is this refusal, in the one form of all refusals.
fn check_refusal(answer: &Answer, code: &str, what: &str) {
    let json = answer.json();
    assert_eq!(json["error"]["code"], code, "{what}: {answer:?}");
    let (status, retryable) = documented(code);
    assert_eq!((answer.status, &json["code"]), (status, &json!(status)), "{what}: {answer:?}");
    assert_eq!(json["error"]["retryable"], retryable, "{what}: {answer:?}");
    assert_eq!(json["data"], Value::Null, "{what}");
    assert!(json["message"].as_str().unwrap().starts_with(code), "{what}: {answer:?}");
}

/// A pair that must be able to talk whatever else goes on.
struct Neighbours {
    from: String,
    to: String,
    network: Network,
    sent: u32,
}

impl Neighbours {
    async fn move_in(server: &Server, network: &Network) -> Neighbours {
        let (from, to) = (server.join(network, "agent:nice").await, server.join(network, "agent:kind").await);
        Neighbours { from, to, network: network.clone(), sent: 0 }
    }

    /// One exchange, soon.
    async fn talk(&mut self, server: &Server) {
        self.sent += 1;
        let id = format!("nice-{}", self.sent);
        let path = format!("/v1/ws/{}/events", self.network.id);
        let started = Instant::now();
        server.http().post(&path).bearer(&self.from).json(&note(&id, "agent:kind", "hello")).await.data();
        let page = server.http().get(&format!("{path}?wait=10&source=agent:nice"), &self.to).await.data();
        let ids: Vec<&str> = page["events"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap()).collect();
        assert_eq!(ids, [id.as_str()], "the neighbour's mail");
        let path = format!("/v1/ws/{}/ack", self.network.id);
        let acked = server.http().post(&path).bearer(&self.to).json(&json!({ "ids": [id] })).await;
        assert_eq!(acked.data()["acked"], 1);
        assert!(started.elapsed() < Duration::from_secs(5), "the neighbour waited {:?}", started.elapsed());
    }
}

fn long(n: usize) -> String {
    "x".repeat(n)
}

/// Bodies that no carrier accepts, and the code each gets.
fn bad_events() -> Vec<(String, &'static str)> {
    let event = |fields: Value| {
        let mut event = json!({ "type": "test.note.posted", "target": "channel/general", "payload": {} });
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        event.to_string()
    };
    let nested = format!(
        r#"{{"type":"test.a.b","target":"core","payload":{}1{}}}"#,
        r#"{"a":"#.repeat(PAYLOAD_DEPTH_MAX + 1),
        "}".repeat(PAYLOAD_DEPTH_MAX + 1)
    );
    let abyss = format!(r#"{{"type":"test.a.b","target":"core","payload":{}"#, r#"{"a":"#.repeat(100_000));
    let keys: serde_json::Map<String, Value> = (0..65).map(|n| (format!("k{n}"), json!(1))).collect();
    vec![
        ("{".to_owned(), "invalid_json"),
        ("{\"type\":}".to_owned(), "invalid_json"),
        ("nonsense".to_owned(), "invalid_json"),
        (r#"{"type":"test.a.b","target":"core","payload":{"a":"\ud800"}}"#.to_owned(), "invalid_json"),
        ("5".to_owned(), "invalid_event"),
        (r#"{"type":"test.a.b"}"#.to_owned(), "invalid_event"),
        (r#"{"type":"test.a.b","target":null}"#.to_owned(), "invalid_event"),
        (r#"{"type":"test.a.b","target":"core","type":"test.a.c"}"#.to_owned(), "invalid_event"),
        (event(json!({ "id": "-x" })), "invalid_event"),
        (event(json!({ "id": long(129) })), "invalid_event"),
        (event(json!({ "id": "a\u{0}b" })), "invalid_event"),
        (event(json!({ "type": "Test" })), "invalid_type"),
        (event(json!({ "type": format!("a.{}", long(127)) })), "invalid_type"),
        (event(json!({ "target": "x:y" })), "invalid_address"),
        (event(json!({ "target": " agent:x" })), "invalid_address"),
        (event(json!({ "source": "agent:" })), "invalid_address"),
        (event(json!({ "payload": [1] })), "invalid_payload"),
        (nested, "invalid_payload"),
        (abyss, "invalid_json"),
        (event(json!({ "visibility": "mod_only" })), "invalid_visibility"),
        (event(json!({ "visibility": "secret" })), "invalid_visibility"),
        (event(json!({ "network": "ffffffff" })), "network_mismatch"),
        (event(json!({ "metadata": { "a": long(METADATA_BYTES_MAX) } })), "too_large"),
        (event(json!({ "metadata": keys })), "too_large"),
        (event(json!({ "payload": { "a": long(EVENT_BYTES_MAX) } })), "too_large"),
        (event(json!({ "type": "network.agent.fly" })), "reserved_type"),
        (event(json!({ "type": "network.pong" })), "reserved_type"),
        (event(json!({ "type": "network.event.error" })), "reserved_type"),
        (event(json!({ "type": "network.agent.discover.response" })), "reserved_type"),
        (event(json!({ "type": "rialto.member.status" })), "reserved_type"),
        (event(json!({ "type": "rialto.delivery.dead" })), "reserved_type"),
        (event(json!({ "source": "agent:nice" })), "source_mismatch"),
        (event(json!({ "source": "core" })), "source_mismatch"),
        (event(json!({ "source": "system:timer" })), "source_mismatch"),
        (event(json!({ "target": "agent:nobody" })), "unknown_target"),
        (event(json!({ "target": "channel/nowhere" })), "unknown_target"),
        (event(json!({ "target": "group/none" })), "unknown_target"),
        (event(json!({ "target": "mod/none" })), "mod_not_found"),
        (event(json!({ "target": "ffffffff::agent:x" })), "cross_network"),
        (
            event(json!({ "type": "network.channel.create", "target": "core", "payload": { "name": "general" } })),
            "already_exists",
        ),
        (
            event(json!({ "type": "network.channel.delete", "target": "core", "payload": { "channel": "none" } })),
            "unknown_target",
        ),
        (event(json!({ "type": "network.channel.delete", "target": "channel/general" })), "invalid_event"),
        (
            event(json!({ "type": "network.events.query", "target": "core", "payload": { "limit": 501 } })),
            "invalid_argument",
        ),
        (
            event(json!({ "type": "network.events.query", "target": "core", "payload": { "sort": "up" } })),
            "invalid_argument",
        ),
    ]
}

#[tokio::test]
async fn bad_events_get_their_code_over_http_in_batches_and_over_websocket() {
    let server = Server::start().await;
    let network = server.main();
    let mut neighbours = Neighbours::move_in(&server, &network).await;
    let session = server.join(&network, "agent:rude").await;
    let path = format!("/v1/ws/{}/events", network.id);
    let mut http = server.http();
    let options = json!({ "session_id": session });
    let (mut ws, _) = Ws::joined(server.address(), &network, "agent:rude", &options).await;
    for (text, code) in bad_events() {
        let what: String = text.chars().take(120).collect();
        let answer = http.post(&path).bearer(&session).body(text.as_bytes()).await;
        check_refusal(&answer, code, &what);
        // In an array its neighbours are not touched; what is no JSON cannot be in one.
        if serde_json::from_str::<Value>(&text).is_ok() || code == "invalid_payload" {
            let array =
                format!("[{text},{}]", note("", "channel/general", "fine").to_string().replace("\"id\":\"\",", ""));
            let data = http.post(&path).bearer(&session).body(array.as_bytes()).await.data();
            let results = data["results"].as_array().unwrap();
            assert_eq!((&results[0]["ok"], &results[0]["error"]["code"]), (&json!(false), &json!(code)), "{what}");
            assert_eq!(results[1]["ok"], true, "{what}");
        }
        ws.text(&text).await;
        let error = loop {
            let event = ws.news().await;
            if event["type"] == "network.event.error" {
                break event;
            }
        };
        assert_eq!(error["payload"]["code"], code, "{what}: {error}");
        assert_eq!(error["payload"]["retryable"], documented(code).1, "{what}");
        // A readable event between them: they are not ten unreadable ones in a row.
        ws.send(&json!({ "type": "network.ping", "target": "core", "payload": {} })).await;
        assert_eq!(ws.news().await["type"], "network.pong");
    }
    neighbours.talk(&server).await;
}

#[tokio::test]
async fn credentials_that_do_not_count() {
    let server = Server::start().await;
    let network = server.main();
    let mut neighbours = Neighbours::move_in(&server, &network).await;
    let old = server.join(&network, "agent:rude").await;
    let session = server.join(&network, "agent:rude").await;
    let base = format!("/v1/ws/{}", network.id);
    let mut http = server.http();
    let read = format!("{base}/events?view=log");
    for (bearer, code) in
        [("", "unauthenticated"), ("wrong-token-0123456789", "invalid_token"), (old.as_str(), "session_revoked")]
    {
        check_refusal(&http.get(&read, bearer).await, code, "read");
        let sent = http.post(&format!("{base}/events")).bearer(bearer).json(&note("x1", "channel/general", "x")).await;
        check_refusal(&sent, code, "send");
        for path in
            ["discover", "channels", "events/conversations", "events/latest-per-channel", "events/nice-1/explain"]
        {
            check_refusal(&http.get(&format!("{base}/{path}"), bearer).await, code, path);
        }
        for path in ["heartbeat", "leave", "ack"] {
            let answer = http.post(&format!("{base}/{path}")).bearer(bearer).json(&json!({ "ids": ["x"] })).await;
            check_refusal(&answer, code, path);
        }
        let refused = Sse::open(server.address(), &format!("{base}/events/stream"), bearer, None).await.unwrap_err();
        check_refusal(&refused, code, "sse");
    }
    check_refusal(
        &http.request("GET", &read).header("authorization", "Basic eHg6eHg=").send().await,
        "unauthenticated",
        "basic",
    );
    // A network token reads, but it speaks for nobody who joined with a session.
    let claimed = http
        .request("GET", &format!("{base}/events?view=inbox"))
        .bearer(&network.token)
        .header("x-agent-name", "agent:rude");
    check_refusal(&claimed.send().await, "unauthenticated", "claim");
    check_refusal(&http.get(&format!("{base}/events/conversations"), &network.token).await, "not_a_member", "reader");
    for (body, code) in [
        (json!({ "agent_id": "agent:new" }), "token_required"),
        (json!({ "agent_id": "agent:new", "credentials": { "token": "wrong-token-0123456789" } }), "invalid_token"),
        (json!({ "agent_id": "broadcast", "credentials": { "token": network.token } }), "invalid_address"),
        (json!({ "agent_id": "channel/general", "credentials": { "token": network.token } }), "invalid_address"),
        (json!({ "agent_id": "acme:new", "credentials": { "token": network.token } }), "unknown_registrar"),
        (
            json!({ "agent_id": "key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw", "credentials": { "token": network.token } }),
            "verification_required",
        ),
        (
            json!({ "agent_id": "agent:new", "window": 0, "credentials": { "token": network.token } }),
            "invalid_argument",
        ),
        (
            json!({ "agent_id": "agent:new", "resume_after": "never-was", "credentials": { "token": network.token } }),
            "cursor_unknown",
        ),
    ] {
        check_refusal(&http.post(&format!("{base}/join")).json(&body).await, code, &body.to_string());
        let mut ws = Ws::open(server.address(), &format!("/ws/{}", network.id), &[]).await.unwrap();
        ws.send(&json!({ "type": "network.agent.join", "target": "core", "payload": body })).await;
        assert_eq!(ws.event().await["payload"]["code"], code, "{body}");
    }
    check_refusal(&http.get("/v1/ws/ffffffff/events", &session).await, "network_not_found", "network");
    // A WebSocket opens to any name, so that nobody learns by it which networks there are; the join says that there is none.
    let mut ws = Ws::open(server.address(), "/ws/ffffffff", &[]).await.unwrap();
    ws.send(&json!({ "type": "network.agent.join", "target": "core", "payload": { "agent_id": "agent:new" } })).await;
    assert_eq!(ws.event().await["payload"]["code"], "network_not_found");
    // The operator's paths.
    for (bearer, code) in
        [("", "unauthenticated"), (session.as_str(), "forbidden"), (network.token.as_str(), "forbidden")]
    {
        check_refusal(&http.get("/v1/admin/networks", bearer).await, code, "admin");
        let made = http.post("/v1/admin/networks").bearer(bearer).json(&json!({ "name": "x" })).await;
        check_refusal(&made, code, "admin");
    }
    // An id of another's event with other content.
    http.post(&format!("{base}/events")).bearer(&session).json(&note("mine", "channel/general", "a")).await.data();
    let taken =
        http.post(&format!("{base}/events")).bearer(&neighbours.from).json(&note("mine", "channel/general", "a")).await;
    check_refusal(&taken, "id_conflict", "another's id");
    for (query, code) in [
        ("limit=0", "invalid_argument"),
        ("limit=501", "invalid_argument"),
        ("limit=x", "invalid_argument"),
        ("wait=61", "invalid_argument"),
        ("wait=-1", "invalid_argument"),
        ("sort=up", "invalid_argument"),
        ("view=all", "invalid_argument"),
        ("since=x", "invalid_argument"),
        ("conversation=a", "invalid_argument"),
        ("after=seq:x", "invalid_argument"),
        ("after=never-was", "cursor_unknown"),
    ] {
        check_refusal(&http.get(&format!("{base}/events?{query}"), &session).await, code, query);
    }
    let gone =
        Sse::open(server.address(), &format!("{base}/events/stream"), &session, Some("never-was")).await.unwrap_err();
    check_refusal(&gone, "cursor_unknown", "sse");
    neighbours.talk(&server).await;
}

#[tokio::test]
async fn codes_that_depend_on_the_network() {
    let server = Server::start().await;
    let admin = server.admin();
    let mut http = server.http();
    let place = server.network(&json!({ "name": "plain" })).await;
    let base = format!("/v1/ws/{}", place.id);
    let session = server.join(&place, "agent:a").await;
    let event = |id: &str| note(id, "channel/general", "x");
    check_refusal(
        &http.post(&format!("{base}/events")).bearer(&session).json(&event("s1")).await,
        "not_a_channel_member",
        "seat",
    );
    let admin_path = format!("/v1/admin/networks/{}", place.id);
    // Observers read.
    let body = json!({ "agent_id": "agent:watcher", "role": "observer", "credentials": { "token": place.token } });
    let watcher =
        http.post(&format!("{base}/join")).json(&body).await.data()["session_id"].as_str().unwrap().to_owned();
    let sent = http.post(&format!("{base}/events")).bearer(&watcher).json(&note("s2", "agent:a", "x")).await;
    check_refusal(&sent, "observer_read_only", "observer");
    // A private channel of others is not there.
    let create =
        json!({ "type": "network.channel.create", "target": "core", "payload": { "name": "den", "private": true } });
    http.post(&format!("{base}/events")).bearer(&session).json(&create).await.data();
    let other = server.join(&place, "agent:b").await;
    let delete = json!({ "type": "network.channel.delete", "target": "core", "payload": { "channel": "den" } });
    let answer = http.post(&format!("{base}/events")).bearer(&other).json(&delete).await;
    assert!(matches!(answer.code().as_str(), "forbidden" | "unknown_target"), "{answer:?}");
    let remove = json!({ "type": "network.agent.remove", "target": "core", "payload": { "agent_name": "agent:a" } });
    check_refusal(&http.post(&format!("{base}/events")).bearer(&other).json(&remove).await, "forbidden", "remove");
    // A full queue.
    let patched = http.request("PATCH", &admin_path).bearer(&admin).json(&json!({ "max_pending": 2 })).await;
    assert_eq!(patched.status, 200, "{patched:?}");
    for n in 0..2 {
        http.post(&format!("{base}/events"))
            .bearer(&session)
            .json(&note(&format!("q{n}"), "agent:b", "x"))
            .await
            .data();
    }
    let full = http.post(&format!("{base}/events")).bearer(&session).json(&note("q2", "agent:b", "x")).await;
    check_refusal(&full, "recipient_queue_full", "queue");
    let patched = http.request("PATCH", &admin_path).bearer(&admin).json(&json!({ "max_pending": 1000 })).await;
    assert_eq!(patched.status, 200, "{patched:?}");
    // No history.
    let forgetful = server.network(&json!({ "name": "forgetful", "mods": ["auth"] })).await;
    let amnesiac = server.join(&forgetful, "agent:a").await;
    let answer = http.get(&format!("/v1/ws/{}/events?view=log", forgetful.id), &amnesiac).await;
    check_refusal(&answer, "history_unavailable", "log");
    // A rate limiter.
    let limiter = http.request("PUT", &format!("{admin_path}/mods/rate-limiter")).bearer(&admin).json(&json!({})).await;
    assert_eq!(limiter.status, 200, "{limiter:?}");
    let burst: Vec<Value> = (0..100).map(|n| note(&format!("r{n}"), "agent:watcher", "x")).collect();
    let data = http.post(&format!("{base}/events")).bearer(&other).json(&json!(burst)).await.data();
    let refused = data["results"].as_array().unwrap().iter().find(|r| r["ok"] == false).cloned().unwrap_or_default();
    assert_eq!(refused["error"]["code"], "rate_limited", "{refused}");
    assert!(refused["error"]["details"]["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{refused}");
    // Policies.
    for (policy, code) in [("invite", "invite_required"), ("did-verify", "did_required")] {
        let network = server.network(&json!({ "name": policy, "policy": policy })).await;
        let body = json!({ "agent_id": "agent:a", "credentials": { "token": network.token } });
        check_refusal(&http.post(&format!("/v1/ws/{}/join", network.id)).json(&body).await, code, policy);
    }
    let high = server.network(&json!({ "name": "high", "min_verification": 2 })).await;
    let body = json!({ "agent_id": "agent:a", "credentials": { "token": high.token } });
    check_refusal(&http.post(&format!("/v1/ws/{}/join", high.id)).json(&body).await, "verification_required", "level");
    check_refusal(
        &http.post("/v1/admin/networks").bearer(&admin).json(&json!({ "name": "high" })).await,
        "already_exists",
        "name",
    );
    // Status.
    let (mut ws, _) = Ws::joined(server.address(), &place, "agent:c", &json!({})).await;
    let status = |status: &str| json!({ "status": status });
    assert_eq!(http.request("PATCH", &admin_path).bearer(&admin).json(&status("paused")).await.status, 200);
    check_refusal(
        &http.post(&format!("{base}/events")).bearer(&session).json(&note("p1", "agent:b", "x")).await,
        "network_paused",
        "paused",
    );
    let body = json!({ "agent_id": "agent:d", "credentials": { "token": place.token } });
    check_refusal(&http.post(&format!("{base}/join")).json(&body).await, "network_paused", "paused");
    assert_eq!(http.request("PATCH", &admin_path).bearer(&admin).json(&status("archived")).await.status, 200);
    check_refusal(&http.post(&format!("{base}/join")).json(&body).await, "network_archived", "archived");
    assert_eq!(ws.end().await, (Some(4410), Some("network_archived".to_owned())));
    let humans = server.main();
    let first = server.join(&humans, "human:ana").await;
    for n in 1..17 {
        let body = json!({ "agent_id": "human:ana", "session_id": first, "new_session": true });
        let answer = http.post(&format!("/v1/ws/{}/join", humans.id)).json(&body).await;
        if n < 16 { drop(answer.data()) } else { check_refusal(&answer, "too_many_sessions", "human") }
    }
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_before_anything_else() {
    let server = Server::start().await;
    let network = server.main();
    let mut neighbours = Neighbours::move_in(&server, &network).await;
    let mut http = server.http();
    for path in
        ["/health", "/v1/profile", "/openapi.json", "/v1/events", "/v1/events/stream", "/nowhere", "/v1/admin/networks"]
    {
        let answer = http.request("GET", path).host("evil.example").bearer(&neighbours.from).send().await;
        check_refusal(&answer, "origin_forbidden", path);
        let answer =
            http.request("GET", path).header("origin", "http://evil.example").bearer(&neighbours.from).send().await;
        check_refusal(&answer, "origin_forbidden", path);
    }
    for origin in ["null", "http://127.0.0.1.evil.example", "file://"] {
        let answer = http.request("GET", "/health").header("origin", origin).send().await;
        check_refusal(&answer, "origin_forbidden", origin);
    }
    // What begins or ends like a host of ours is none.
    for host in
        ["[::1].evil.example", "localhost:evil.example", "localhost:80:80", "evil.example@localhost", "[localhost]", ""]
    {
        check_refusal(&http.request("GET", "/health").host(host).send().await, "origin_forbidden", host);
    }
    for host in ["l\u{f6}calhost", "localhost\u{ff0e}", "\u{ff11}27.0.0.1"] {
        check_refusal(&http.request("GET", "/health").host(host).send().await, "origin_forbidden", host);
    }
    // RFC 9112: exactly one.
    for hosts in ["", "host: localhost\r\nhost: localhost\r\n", "host: localhost\r\nhost: evil.example\r\n"] {
        let mut http = server.http();
        http.raw(format!("GET /health HTTP/1.1\r\n{hosts}\r\n").as_bytes()).await.unwrap();
        let answer = soon("an answer", http.answer()).await.unwrap();
        assert_eq!(answer.status, 400, "{hosts:?}: {answer:?}");
        check_refusal(&answer, "invalid_argument", hosts);
    }
    let path = format!("/ws/{}", network.id);
    let refused = Ws::open(server.address(), &path, &[("origin", "https://evil.example")]).await.unwrap_err();
    assert_eq!(refused.0, 403);
    let refused = Ws::open(server.address(), &path, &[("host", "evil.example")]).await.unwrap_err();
    assert_eq!(refused.0, 403);
    // One's own pages, and other loopback ports, are no strangers.
    for own in [server.url().to_owned(), "http://localhost:3000".to_owned()] {
        assert_eq!(http.request("GET", "/health").header("origin", &own).send().await.status, 200, "{own}");
        assert!(Ws::open(server.address(), &path, &[("origin", &own)]).await.is_ok(), "{own}");
    }
    neighbours.talk(&server).await;
}

#[tokio::test]
async fn bodies_that_are_too_large_or_no_text() {
    let server = Server::start().await;
    let network = server.main();
    let mut neighbours = Neighbours::move_in(&server, &network).await;
    let path = format!("/v1/ws/{}/events", network.id);
    let huge = long(BATCH_BYTES_MAX + 1);
    for target in ["events", "join", "ack", "heartbeat"] {
        let mut http = server.http();
        let path = format!("/v1/ws/{}/{target}", network.id);
        let answer = http.post(&path).bearer(&neighbours.from).body(huge.as_bytes()).await;
        check_refusal(&answer, "too_large", target);
    }
    let mut http = server.http();
    for target in ["join", "ack", "heartbeat", "leave"] {
        let path = format!("/v1/ws/{}/{target}", network.id);
        for (body, code) in [(&b"{"[..], "invalid_json"), (b"[1]", "invalid_argument"), (b"\xff\xfe{}", "invalid_json")]
        {
            let answer = http.post(&path).bearer(&neighbours.from).body(body).await;
            check_refusal(&answer, code, target);
        }
    }
    let answer = http.post(&path).bearer(&neighbours.from).body(b"{\"type\":\"a.b\",\"target\":\"\xff\"}").await;
    check_refusal(&answer, "invalid_json", "invalid UTF-8");
    let answer = http.request("GET", &format!("{path}?after=%ff%fe")).bearer(&neighbours.from).send().await;
    assert!((400..500).contains(&answer.status) && answer.json()["error"]["code"].is_string(), "{answer:?}");
    // A body that says it is long and never comes does not hold anybody up.
    let mut slow = server.http();
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{{");
    slow.raw(head.as_bytes()).await.unwrap();
    neighbours.talk(&server).await;
    for (method, path, status) in
        [("DELETE", "/health", 405), ("GET", "/nowhere", 404), ("POST", "/ws/x", 405), ("GET", "/ws/x", 400)]
    {
        let answer = http.request(method, path).send().await;
        assert!(answer.json()["error"]["code"].is_string(), "{path}: {answer:?}");
        assert!(answer.status == status || answer.status == 404 || answer.status == 426, "{method} {path}: {answer:?}");
    }
    neighbours.talk(&server).await;
}

#[tokio::test]
async fn headers_that_are_huge_or_slow() {
    let server = Server::start().await;
    let network = server.main();
    let mut neighbours = Neighbours::move_in(&server, &network).await;
    let answer = server.http().request("GET", "/health").header("x-long", &long(HEADER_BYTES_MAX)).send().await;
    assert_eq!(answer.status, 431, "{answer:?}");
    let mut slow = server.http();
    slow.raw(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: ").await.unwrap();
    // A body that does not come has as long.
    let mut slow_body = server.http();
    let head = format!(
        "POST /v1/ws/{}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: 1000\r\n\r\n{{",
        network.id, neighbours.from
    );
    slow_body.raw(head.as_bytes()).await.unwrap();
    // An idle connection is kept much longer than a half-sent header.
    let mut idle = server.http();
    assert_eq!(idle.get("/health", "").await.status, 200);
    let started = Instant::now();
    neighbours.talk(&server).await;
    assert!(slow.closed().await);
    let took = started.elapsed();
    assert!((Duration::from_secs(8)..Duration::from_secs(20)).contains(&took), "closed after {took:?}");
    let answer = soon("the end of patience with a body", slow_body.answer()).await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (408, "timeout"), "{answer:?}");
    let reused = idle.request("GET", "/health").try_send().await;
    assert_eq!(reused.unwrap().status, 200, "an idle connection was closed after {took:?}");
    neighbours.talk(&server).await;
}

#[tokio::test]
async fn frames_that_close_the_stream() {
    let server = Server::start().await;
    let network = server.main();
    let mut neighbours = Neighbours::move_in(&server, &network).await;
    let joined = async |name: &str| Ws::joined(server.address(), &network, name, &json!({})).await.0;
    let mut ws = joined("agent:r1").await;
    ws.message(Message::binary(b"{}".to_vec())).await.unwrap();
    assert_eq!(ws.end().await.0, Some(1003));
    let mut ws = joined("agent:r2").await;
    let _ = ws.try_text(&format!("\"{}\"", long(BATCH_BYTES_MAX))).await;
    assert_eq!(ws.end().await.0, Some(1009));
    // An event within the frame's limit and over its own is refused alone.
    let mut ws = joined("agent:r3").await;
    ws.text(&note("big", "core", &long(EVENT_BYTES_MAX)).to_string()).await;
    assert_eq!(ws.news().await["payload"]["code"], "too_large");
    for bad in ["{\"a\":", "{\"a\" 1}", "nonsense", "[{}", ""] {
        let mut ws = joined("agent:r4").await;
        // Nine, a good one, nine: still there. Ten: gone.
        for round in 0..2 {
            for n in 1..BAD_FRAMES_MAX {
                ws.text(bad).await;
                let error = ws.news().await;
                assert_eq!(
                    (&error["payload"]["code"], &error["payload"]["event_id"]),
                    (&json!("invalid_json"), &Value::Null),
                    "{bad:?} {round} {n}"
                );
            }
            ws.send(&note(&format!("ok-{round}"), "core", "x")).await;
            assert!(matches!(ws.news().await["type"].as_str(), Some("network.event.ack" | "network.event.error")));
        }
        for _ in 0..BAD_FRAMES_MAX {
            ws.text(bad).await;
        }
        assert_eq!(ws.end().await, (Some(4400), Some("invalid_json".to_owned())), "{bad:?}");
    }
    let mut ws = joined("agent:r5").await;
    // Invalid UTF-8 in a text frame.
    let frame = tokio_tungstenite::tungstenite::protocol::frame::Frame::message(
        vec![0xff, 0xfe],
        tokio_tungstenite::tungstenite::protocol::frame::coding::OpCode::Data(
            tokio_tungstenite::tungstenite::protocol::frame::coding::Data::Text,
        ),
        true,
    );
    ws.message(Message::Frame(frame)).await.unwrap();
    assert_eq!(ws.end().await.0, Some(1007));
    neighbours.talk(&server).await;
}

#[tokio::test]
async fn who_does_not_join_in_time_is_shown_out() {
    let server = Server::start().await;
    let network = server.main();
    let mut neighbours = Neighbours::move_in(&server, &network).await;
    let started = Instant::now();
    let mut silent = Ws::open(server.address(), &format!("/ws/{}", network.id), &[]).await.unwrap();
    let mut chatty = Ws::open(server.address(), &format!("/ws/{}", network.id), &[]).await.unwrap();
    chatty.send(&join("agent:x", "wrong-token-0123456789", &json!({}))).await;
    assert_eq!(silent.end().await, (Some(4408), Some("join_required".to_owned())));
    let took = started.elapsed();
    assert!((Duration::from_secs(9)..Duration::from_secs(20)).contains(&took), "closed after {took:?}");
    assert!(chatty.end().await.0.is_some_and(|code| code == 4408 || code == 4401));
    neighbours.talk(&server).await;
}

#[tokio::test]
async fn a_session_that_is_revoked_ends_its_readers() {
    let server = Server::start().await;
    let network = server.main();
    let session = server.join(&network, "agent:old").await;
    let base = format!("/v1/ws/{}", network.id);
    let mut sse = Sse::open(server.address(), &format!("{base}/events/stream"), &session, None).await.unwrap();
    let waiting = tokio::spawn({
        let (address, session, path) = (server.address(), session.clone(), format!("{base}/events?wait=20"));
        async move { Http::new(address).get(&path, &session).await }
    });
    server.join(&network, "agent:old").await;
    let control = sse.next().await.unwrap();
    assert_eq!((control.event.as_str(), &control.data["code"]), ("control", &json!("session_revoked")));
    assert_eq!(sse.next().await, None);
    let answer = soon("the long poll's end", waiting).await.unwrap();
    check_refusal(&answer, "session_revoked", "long poll");
}

#[test]
fn the_registry_is_the_documented_one() {
    let mut documented: Vec<&str> = TABLE.iter().flat_map(|(_, _, codes)| *codes).copied().collect();
    let mut ours: Vec<&str> = ErrorCode::ALL.iter().map(|c| c.as_str()).collect();
    documented.sort_unstable();
    ours.sort_unstable();
    assert_eq!(ours, documented);
    for code in ErrorCode::ALL {
        let (http, retryable) = self::documented(code.as_str());
        assert_eq!((rialto_carrier::status::http_status(*code), code.retryable()), (http, retryable), "{code}");
    }
}
