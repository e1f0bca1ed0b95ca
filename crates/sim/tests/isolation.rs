//! Two networks on one node with the same names in both: whoever holds the credentials of one sees nothing of the other,
//! on any path, and the other's ids, cursors, sessions and tokens mean nothing there.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

use rialto_sim::harness::{Answer, Http, Network, Server, Sse, Ws, join, note};
use serde_json::{Value, json};
use std::time::Duration;

/// In everything the hidden network says of itself; lower case, because it is looked for without regard to case.
const MARKER: &str = "m4rk3r";

/// One of the two, with who is in it.
struct Place {
    network: Network,
    ana: String,
    ben: String,
    /// An id that only this network knows, one its server made, and the name of its last position.
    only: String,
    made: String,
    /// The id of a work unit and of a direct room; both networks also have a unit that its requester calls `job`.
    work: String,
    room: String,
    /// The id of a file.
    file: String,
}

impl Place {
    fn path(&self, rest: &str) -> String {
        format!("/v1/ws/{}/{rest}", self.network.id)
    }
}

/// Fills a network: the names are the same everywhere, what is said in it carries the mark.
async fn furnish(server: &Server, network: Network, mark: &str) -> Place {
    let admin = server.admin();
    let mut http = server.http();
    let base = format!("/v1/ws/{}", network.id);
    let mut sessions = Vec::new();
    for name in ["agent:ana", "agent:ben", "human:eve"] {
        let body = json!({
            "agent_id": name, "credentials": { "token": network.token }, "channels": ["general"], "agent_type": mark,
            "description": format!("{mark} {name}"), "capabilities": [mark], "server_host": mark, "working_dir": mark,
        });
        let data = http.post(&format!("{base}/join")).json(&body).await.data();
        sessions.push(data["session_id"].as_str().unwrap().to_owned());
    }
    let ana = sessions[0].clone();
    let send =
        async |event: Value| server.http().post(&format!("{base}/events")).bearer(&ana).json(&event).await.data();
    for (name, private) in [("plans", false), ("den", true)] {
        let payload = json!({ "name": name, "title": format!("{mark} {name}"), "private": private, "participants": ["agent:ben"] });
        send(json!({ "id": format!("create-{name}"), "type": "network.channel.create", "target": "core", "payload": payload })).await;
    }
    for (n, target) in
        ["channel/general", "channel/den", "agent:ben", "agent:broadcast", "human:eve"].into_iter().enumerate()
    {
        let mut event = note(&format!("e{n}"), target, &format!("{mark} says {n}"));
        event["metadata"] = json!({ "note": mark });
        if target == "channel/general" {
            event["metadata"]["thread"] = json!("thread_0001");
        }
        send(event).await;
    }
    let only = format!("only-{mark}");
    send(note(&only, "agent:ben", mark)).await;
    let made = send(json!({ "type": "test.note.posted", "target": "agent:ben", "payload": { "content": mark } })).await;
    let mut job = note("job-1", "agent:ben", mark);
    job["metadata"] = json!({ "note": mark, "work": { "id": "job", "context": mark } });
    let work = send(job).await["result"]["work"]["id"].clone();
    let file =
        json!({ "address": "resource/file/paper", "content": mark, "description": mark, "metadata": { "note": mark } });
    http.post(&format!("{base}/resources")).bearer(&sessions[0]).json(&file).await.data();
    let content = if mark == MARKER { "bTRyazNy" } else { "cGxhaW4=" };
    let upload =
        json!({ "filename": format!("{mark}.txt"), "content_base64": content, "content_type": format!("text/{mark}") });
    let upload = http.post(&format!("{base}/files/base64")).bearer(&sessions[0]).json(&upload).await.data();
    let blob = http.post(&format!("{base}/blobs")).bearer(&sessions[1]).json(&json!(mark)).await.data();
    let artifact = json!({ "id": "paper", "name": mark, "blob": { "sha256": blob["sha256"], "content_type": mark } });
    let payload = json!({ "work": work, "artifact": artifact });
    let handed = json!({ "type": "work.artifact", "target": "core", "payload": payload });
    http.post(&format!("{base}/events")).bearer(&sessions[1]).json(&handed).await.data();
    let room =
        http.post(&format!("{base}/rooms")).bearer(&sessions[0]).json(&json!({ "peer": "agent:ben" })).await.data();
    let admin_path = format!("/v1/admin/networks/{}", network.id);
    let group = json!({ "members": ["agent:ana", "agent:ben"] });
    let answer = http.request("PUT", &format!("{admin_path}/groups/team")).bearer(&admin).json(&group).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    send(note("to-team", "group/team", mark)).await;
    let label = json!({ "label": format!("{mark}-token") });
    http.post(&format!("{admin_path}/tokens")).bearer(&admin).json(&label).await.data();
    let metadata = json!({ "metadata": { "description": mark, "listed": false } });
    let answer = http.request("PATCH", &admin_path).bearer(&admin).json(&metadata).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    Place {
        network,
        ana: sessions[0].clone(),
        ben: sessions[1].clone(),
        only,
        made: made["id"].as_str().unwrap().to_owned(),
        work: work.as_str().unwrap().to_owned(),
        room: room["room"].as_str().unwrap().to_owned(),
        file: upload["id"].as_str().unwrap().to_owned(),
    }
}

/// The default network and another, in this order, the second (or the first) of them hidden.
async fn two_places(server: &Server, hide_default: bool) -> (Place, Place) {
    let (own_mark, other_mark) = if hide_default { ("plain", MARKER) } else { (MARKER, "plain") };
    let wish = json!({ "name": format!("{own_mark}-net"), "profile": "workspace" });
    let other = server.network(&wish).await;
    let name = json!({ "name": format!("{other_mark}-main") });
    let path = format!("/v1/admin/networks/{}", server.main().id);
    assert_eq!(server.http().request("PATCH", &path).bearer(&server.admin()).json(&name).await.status, 200);
    let other = furnish(server, other, own_mark).await;
    let default = furnish(server, server.main(), other_mark).await;
    if hide_default { (other, default) } else { (default, other) }
}

/// Every GET path of the document with its parameters filled in; those that name a network come for both.
async fn paths(http: &mut Http, own: &Place, hidden: &Place) -> Vec<String> {
    let document = http.get("/openapi.json", "").await.json();
    let mut out = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        if operations.get("get").is_none() {
            continue;
        }
        let networks: &[&Place] =
            if path.contains("{network}") || path.contains("/networks/{id}") { &[own, hidden] } else { &[own] };
        for place in networks {
            let ids: &[&str] = if path.contains("/events/{id}") {
                &["e1", "e2", &hidden.only, &hidden.made]
            } else if path.contains("/work/{id}") {
                &["job", &hidden.work]
            } else if path.contains("/files/{id}") {
                &[&own.file, &hidden.file]
            } else if path.contains("/rooms/{id}") {
                &[&own.room, &hidden.room]
            } else {
                &["-"]
            };
            for id in ids {
                let filled = path
                    .replace("{network}", &place.network.id)
                    .replace("/networks/{id}", &format!("/networks/{}", place.network.id))
                    .replace("{id}", id)
                    .replace("{channel}/{thread}", "general/thread_0001")
                    .replace("{kind}/{path}", "file/paper")
                    .replace("{artifact}", "paper")
                    .replace("{name}", "team")
                    .replace("{label}", "first")
                    .replace("{did}", "did:openagents:ana")
                    .replace("{address}", "agent:ana");
                assert!(!filled.contains('{'), "this test does not know how to fill {path}");
                out.push(filled);
            }
        }
    }
    assert!(out.len() > 40, "the document lists little: {out:?}");
    out
}

fn check_clean(body: &str, what: &str) {
    assert!(!body.to_lowercase().contains(MARKER), "{what} tells of the other network:\n{body}");
}

/// What a stream says at once.
async fn first_words(server: &Server, path: &str, bearer: &str) -> String {
    match Sse::open(server.address(), path, bearer, None).await {
        Err(answer) => answer.body,
        Ok(mut sse) => {
            let mut heard = String::new();
            while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(30), sse.try_next()).await {
                heard.push_str(&event.data.to_string());
            }
            heard
        }
    }
}

async fn nothing_shines_through(hide_default: bool) {
    let server = Server::start().await;
    let (own, hidden) = two_places(&server, hide_default).await;
    let mut http = server.http();
    let queries = [
        String::new(),
        "view=log&limit=500".to_owned(),
        "view=inbox&ack=false&limit=500".to_owned(),
        "view=log&sort=desc".to_owned(),
        format!("view=log&search={MARKER}"),
        "view=log&channel=den".to_owned(),
        "channel=general".to_owned(),
        "view=log&conversation=agent:ana,agent:ben".to_owned(),
        format!("network={}", hidden.network.id),
        format!("network={MARKER}-net"),
        format!("network={MARKER}-main&view=log"),
        format!("after={}", hidden.only),
        format!("after={}", hidden.made),
        format!("view=log&in_reply_to={}", hidden.only),
        format!("code={}", hidden.network.token),
    ];
    let own_news = "plain says";
    let mut seen_own = false;
    for path in paths(&mut http, &own, &hidden).await {
        for bearer in ["", &own.ana, &own.network.token] {
            for query in &queries {
                let what = format!("GET {path}?{query}");
                let body = if path.ends_with("/stream") {
                    if query.starts_with("view=log") {
                        continue; // a live tail has no first words
                    }
                    first_words(&server, &format!("{path}?{query}"), bearer).await
                } else {
                    let Answer { status, body, .. } = http.get(&format!("{path}?{query}"), bearer).await;
                    let of_hidden = path.contains(&hidden.network.id);
                    assert!(!of_hidden || status >= 400, "{what} is answered to a stranger");
                    body
                };
                seen_own |= body.contains(own_news);
                // The question may come back; the answer may not.
                let body = body
                    .replace(&hidden.only, "")
                    .replace(&format!("{MARKER}-net"), "")
                    .replace(&format!("{MARKER}-main"), "");
                check_clean(&body, &what);
            }
        }
    }
    assert!(seen_own, "the paths did not even show the own network");
}

#[tokio::test]
async fn nothing_of_another_network_on_any_path() {
    nothing_shines_through(false).await;
}

#[tokio::test]
async fn nothing_of_the_default_network_on_any_path() {
    nothing_shines_through(true).await;
}

/// A stranger's credential and nonsense get the same answer.
fn check_alike(strange: &Answer, nonsense: &Answer, what: &str) {
    assert_eq!((strange.status, &strange.body), (nonsense.status, &nonsense.body), "{what}");
    assert!(strange.status >= 400, "{what}: {strange:?}");
}

#[tokio::test]
async fn credentials_of_another_network_are_nonsense() {
    let server = Server::start().await;
    let (own, hidden) = two_places(&server, false).await;
    let mut http = server.http();
    const NONSENSE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    for place in [(&own, &hidden), (&hidden, &own)] {
        let (here, there) = place;
        for path in [
            "events",
            "events?view=log",
            "events/stream",
            "discover",
            "channels",
            "events/conversations",
            "events/e1/explain",
            "threads?channel=general",
            "threads/general/thread_0001",
            "rooms",
            "work",
            "work/job",
            "work/job/events",
            "work/job/artifacts/paper",
            "work/job/stream",
            "files",
        ] {
            for credential in [&there.ana, &there.network.token] {
                let strange = http.get(&here.path(path), credential).await;
                check_alike(&strange, &http.get(&here.path(path), NONSENSE).await, path);
            }
        }
        for (path, body) in [
            ("events", note("x", "channel/general", "x")),
            ("ack", json!({ "ids": ["e2"] })),
            ("heartbeat", json!({})),
            ("rooms", json!({ "peer": "agent:ben" })),
            ("leave", json!({})),
        ] {
            let strange = http.post(&here.path(path)).bearer(&there.ana).json(&body).await;
            check_alike(&strange, &http.post(&here.path(path)).bearer(NONSENSE).json(&body).await, path);
        }
        let wish = |token: &str| json!({ "agent_id": "agent:new", "credentials": { "token": token } });
        let strange = http.post(&here.path("join")).json(&wish(&there.network.token)).await;
        check_alike(&strange, &http.post(&here.path("join")).json(&wish(NONSENSE)).await, "join");
        // Neither is listed, so neither is known to whoever shows no credential of it.
        let code = "network_not_found";
        let mut ws = Ws::open(server.address(), &format!("/ws/{}", here.network.id), &[]).await.unwrap();
        ws.send(&join("agent:new", &there.network.token, &json!({}))).await;
        assert_eq!(ws.event().await["payload"]["code"], code);
        // A session of the other network is no proof of being the same one here: it would be kept otherwise.
        let mut ws = Ws::open(server.address(), &format!("/ws/{}", here.network.id), &[]).await.unwrap();
        ws.send(&join("agent:ana", NONSENSE, &json!({ "session_id": there.ana }))).await;
        assert_eq!(ws.event().await["payload"]["code"], code);
    }
    // Nothing of this disturbed anybody.
    for place in [&own, &hidden] {
        http.post(&place.path("heartbeat")).bearer(&place.ana).json(&json!({})).await.data();
    }
}

#[tokio::test]
async fn ids_and_cursors_of_another_network_are_unknown() {
    let server = Server::start().await;
    let (own, hidden) = two_places(&server, false).await;
    let mut http = server.http();
    for foreign in [&hidden.only, &hidden.made] {
        for view in ["log", "inbox"] {
            for key in ["after", "before"] {
                let answer = http.get(&own.path(&format!("events?view={view}&{key}={foreign}")), &own.ben).await;
                assert_eq!((answer.status, answer.code().as_str()), (410, "cursor_unknown"), "{view} {key}");
            }
        }
        let gone = Sse::open(server.address(), &own.path("events/stream"), &own.ben, Some(foreign)).await.unwrap_err();
        assert_eq!((gone.status, gone.code().as_str()), (410, "cursor_unknown"));
        let resume =
            json!({ "agent_id": "agent:ben", "resume_after": foreign, "credentials": { "token": own.network.token } });
        assert_eq!(http.post(&own.path("join")).json(&resume).await.code(), "cursor_unknown");
        let acked = http.post(&own.path("ack")).bearer(&own.ben).json(&json!({ "ids": [foreign] })).await.data();
        assert_eq!(acked["acked"], 0);
        let up_to = http.post(&own.path("ack")).bearer(&own.ben).json(&json!({ "up_to": foreign })).await.data();
        assert_eq!(up_to["acked"], 0);
        let explained = http.get(&own.path(&format!("events/{foreign}/explain")), &own.ana).await;
        let unknown = http.get(&own.path("events/never-was/explain"), &own.ana).await;
        assert_eq!(
            (explained.status, explained.body.replace(foreign, "x")),
            (unknown.status, unknown.body.replace("never-was", "x"))
        );
        let replies = http.get(&own.path(&format!("events?view=log&in_reply_to={foreign}")), &own.ana).await.data();
        assert_eq!(replies["events"], json!([]));
    }
    // The same id is another event here: an ack of it leaves the other's mail alone.
    let pending = async |place: &Place| {
        let page = server.http().get(&place.path("events?view=inbox&ack=false&limit=500"), &place.ben).await.data();
        page["events"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = pending(&hidden).await;
    assert!(before.contains(&"e2".to_owned()));
    let acked =
        http.post(&own.path("ack")).bearer(&own.ben).json(&json!({ "ids": ["e0", "e1", "e2", "e3"] })).await.data();
    assert_eq!(acked["acked"], 4);
    assert_eq!(pending(&hidden).await, before);
    // Events stay where they are.
    let mut astray = note("astray", &format!("{}::agent:ben", hidden.network.id), "x");
    let answer = http.post(&own.path("events")).bearer(&own.ana).json(&astray).await;
    assert_eq!((answer.status, answer.code().as_str()), (421, "cross_network"));
    astray["target"] = json!("agent:ben");
    astray["network"] = json!(hidden.network.id);
    let answer = http.post(&own.path("events")).bearer(&own.ana).json(&astray).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "network_mismatch"));
    // The same idempotency key of the same name is two events.
    let body = json!({ "type": "test.note.posted", "target": "agent:ben", "payload": { "content": "keyed" } });
    for place in [&own, &hidden] {
        for duplicate in [false, true] {
            let answer =
                http.post(&place.path("events")).bearer(&place.ana).header("idempotency-key", "k").json(&body).await;
            assert_eq!(answer.data()["duplicate"], duplicate);
        }
    }
}

#[tokio::test]
async fn a_stream_hears_its_own_network_alone() {
    let server = Server::start().await;
    let (own, hidden) = two_places(&server, false).await;
    let (mut ws, _) =
        Ws::joined(server.address(), &own.network, "agent:cat", &json!({ "channels": ["general"] })).await;
    let mut http = server.http();
    // Members, channels, broadcasts, signals and departures of the other.
    let (mut other, _) =
        Ws::joined(server.address(), &hidden.network, "agent:cat", &json!({ "description": MARKER })).await;
    for (n, target) in ["agent:broadcast", "channel/general", "agent:cat"].into_iter().enumerate() {
        let sent = http.post(&hidden.path("events")).bearer(&hidden.ana);
        sent.json(&note(&format!("loud-{n}"), target, MARKER)).await.data();
    }
    let signal = json!({ "type": "test.typing.now", "target": "agent:broadcast", "payload": { "content": MARKER }, "metadata": { "ephemeral": true } });
    http.post(&hidden.path("events")).bearer(&hidden.ana).json(&signal).await.data();
    loop {
        let event = other.event().await;
        if event["type"] == "test.typing.now" {
            break;
        }
    }
    drop(other);
    http.post(&own.path("events")).bearer(&own.ana).json(&note("fence", "agent:cat", "x")).await.data();
    loop {
        let event = ws.event().await;
        check_clean(&event.to_string(), "a stream");
        assert_eq!(event["network"], own.network.id);
        if event["id"] == "fence" {
            break;
        }
    }
}
