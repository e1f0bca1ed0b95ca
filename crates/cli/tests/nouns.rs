//! Conversations and work as tables, the same on every carrier: who may see what, and who may move what.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::wildcard_enum_match_arm, unreachable_pub, reason = "tests")]

#[path = "nouns/discovery.rs"]
mod discovery;
#[path = "nouns/hidden.rs"]
mod hidden;
#[path = "nouns/matrix.rs"]
mod matrix;
#[path = "nouns/search.rs"]
mod search;
mod support;
#[path = "nouns/trace.rs"]
mod trace;

use rialto_sim::contract::{Carrier, Draft, Member, Place, bearing};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use support::Node;
use support::http::Http;
use support::sse::Sse;

const CARRIERS: [Carrier; 4] = [Carrier::HttpInbox, Carrier::WebSocket, Carrier::GrpcUnary, Carrier::GrpcConnect];

/// A node with a private channel `den`, and members of one carrier by what they are.
struct Scene {
    place: Place,
    http: Http,
    admin: String,
    members: BTreeMap<&'static str, Member>,
    sent: u32,
}

impl Scene {
    /// Requester, executor and a candidate sit in `den`; the outsider and the observer do not.
    async fn set(node: &Node, n: usize, carrier: Carrier) -> Scene {
        let place = node.place();
        let mut members = BTreeMap::new();
        for who in ["requester", "executor", "candidate", "outsider"] {
            members.insert(who, Member::join(&place, carrier, &format!("{who}-{n}")).await.unwrap());
        }
        let observer = Member::join_as(&place, carrier, &format!("observer-{n}"), "observer").await.unwrap();
        members.insert("observer", observer);
        let (http, admin) = (Http::new(node.url()), node.admin().to_owned());
        let mut scene = Scene { place, http, admin, members, sent: 0 };
        let participants = [format!("agent:executor-{n}"), format!("agent:candidate-{n}")];
        let create = json!({ "name": format!("den-{n}"), "private": true, "participants": participants });
        let created = scene.send("requester", "network.channel.create", "core", &create, &json!({})).await;
        assert_eq!(created, "ok");
        scene
    }

    fn address(&self, who: &str) -> String {
        self.members[who].address.clone()
    }

    async fn send(&mut self, who: &str, kind: &'static str, target: &str, payload: &Value, metadata: &Value) -> String {
        self.sent += 1;
        let id = format!("{}-{}", self.members[who].address.trim_start_matches("agent:"), self.sent);
        let draft = Draft { kind, ..Draft::note(&id, target, &payload.to_string()) }.metadata(&metadata.to_string());
        match self.members.get_mut(who).unwrap().send(&draft).await.unwrap() {
            Ok(_) => "ok".to_owned(),
            Err(refused) => refused.code,
        }
    }

    async fn get(&self, path: &str) -> Value {
        self.http.get(&format!("/v1/ws/{}/{path}", self.place.network), &self.admin).await.data()
    }

    /// Opens a unit over the carrier; gives its id.
    async fn open(&mut self, target: &str) -> String {
        let context = format!("context-{}-{}", self.address("requester"), self.sent);
        let (payload, metadata) = (json!({ "content": "please" }), json!({ "work": { "context": context } }));
        let opened = self.send("requester", "workspace.message.posted", target, &payload, &metadata).await;
        assert_eq!(opened, "ok");
        let list = self.get(&format!("work?context={context}")).await;
        list["works"][0]["id"].as_str().unwrap_or_else(|| panic!("{list}")).to_owned()
    }

    /// Does something to a unit; gives the code of the refusal, or `ok`.
    async fn act(&mut self, who: &str, act: &str, unit: &str) -> String {
        let (requester, executor) = (self.address("requester"), self.address("executor"));
        let other = if who == "requester" { executor } else { requester };
        let (kind, target, payload, metadata) = match act {
            "artifact" => {
                ("work.artifact", "core", json!({ "work": unit, "artifact": { "id": "x", "parts": [] } }), json!({}))
            }
            "answer" => ("work.answer", "core", json!({ "work": unit, "message": "x" }), json!({})),
            "cancel" => ("work.cancel", "core", json!({ "work": unit }), json!({})),
            "note" => ("workspace.message.posted", other.as_str(), json!({ "content": "x" }), json!({ "work": unit })),
            state => ("work.update", "core", json!({ "work": unit, "state": state }), json!({})),
        };
        self.send(who, kind, target, &payload, &metadata).await
    }
}

/// Where a unit is asked for, what happened to it, an act, and what each of them hears who tries it.
type Row =
    (&'static str, &'static [(&'static str, &'static str)], &'static str, &'static [(&'static str, &'static str)]);

const NOTHING: (&str, &str) = ("outsider", "unknown_target");
const ONLY_READS: (&str, &str) = ("observer", "observer_read_only");

const ACTS: &[Row] = &[
    ("direct", &[], "working", &[("requester", "forbidden"), ("executor", "ok"), NOTHING, ONLY_READS]),
    ("direct", &[], "submitted", &[("executor", "invalid_event")]),
    ("direct", &[], "completed", &[("requester", "forbidden"), ("executor", "ok"), NOTHING, ONLY_READS]),
    ("direct", &[], "rejected", &[("requester", "forbidden"), ("executor", "ok"), NOTHING]),
    ("direct", &[], "artifact", &[("requester", "forbidden"), ("executor", "ok"), NOTHING, ONLY_READS]),
    ("direct", &[], "answer", &[("requester", "invalid_event"), ("executor", "forbidden"), NOTHING, ONLY_READS]),
    ("direct", &[], "cancel", &[("requester", "ok"), ("executor", "forbidden"), NOTHING, ONLY_READS]),
    ("direct", &[], "note", &[("requester", "ok"), ("executor", "ok"), NOTHING, ONLY_READS]),
    ("direct", &[("executor", "input_required")], "answer", &[("requester", "ok"), ("executor", "forbidden"), NOTHING]),
    ("direct", &[("executor", "auth_required")], "note", &[("requester", "ok"), ("executor", "ok"), NOTHING]),
    (
        "direct",
        &[("executor", "failed")],
        "working",
        &[("requester", "no_pending_request"), ("executor", "no_pending_request"), NOTHING],
    ),
    (
        "direct",
        &[("executor", "completed")],
        "cancel",
        &[("requester", "no_pending_request"), ("executor", "no_pending_request"), NOTHING],
    ),
    ("direct", &[("requester", "cancel")], "artifact", &[("executor", "no_pending_request"), NOTHING]),
    (
        "channel",
        &[],
        "working",
        &[("requester", "forbidden"), ("candidate", "ok"), ("executor", "ok"), NOTHING, ONLY_READS],
    ),
    ("channel", &[], "cancel", &[("requester", "ok"), ("candidate", "forbidden"), NOTHING]),
    ("channel", &[("executor", "working")], "working", &[("executor", "ok"), ("candidate", "already_exists"), NOTHING]),
    (
        "channel",
        &[("executor", "working")],
        "artifact",
        &[("executor", "ok"), ("candidate", "already_exists"), NOTHING],
    ),
    ("channel", &[("executor", "completed")], "working", &[("candidate", "no_pending_request"), NOTHING]),
];

#[tokio::test(flavor = "multi_thread")]
async fn who_may_move_work() {
    let node = Node::start();
    for (n, carrier) in CARRIERS.into_iter().enumerate() {
        let mut scene = Scene::set(&node, n, carrier).await;
        for (place, before, act, expected) in ACTS {
            for (who, code) in *expected {
                let executor = scene.address("executor");
                let target = if *place == "direct" { executor } else { format!("channel/den-{n}") };
                let unit = scene.open(&target).await;
                for (mover, step) in *before {
                    assert_eq!(scene.act(mover, step, &unit).await, "ok", "{step} before {act}");
                }
                let state = scene.get(&format!("work/{unit}")).await["state"].clone();
                let what = format!("{carrier:?}: {act} by the {who} of work in {place} after {before:?}");
                assert_eq!(scene.act(who, act, &unit).await, *code, "{what}");
                if *code != "ok" {
                    let now = scene.get(&format!("work/{unit}")).await["state"].clone();
                    assert_eq!(now, state, "a refusal changes nothing: {what}");
                }
            }
        }
    }
}

/// What is said in the private channel's thread, and in the direct room.
const SECRET: &str = "s3cr3t";

/// Every read by a query of a member, over every carrier.
#[tokio::test(flavor = "multi_thread")]
async fn who_sees_conversations_on_every_carrier() {
    let node = Node::start();
    for (n, carrier) in CARRIERS.into_iter().enumerate() {
        let mut scene = Scene::set(&node, n, carrier).await;
        let said = json!({ "content": SECRET });
        let thread = format!("thread_den-{n}");
        let in_thread = json!({ "thread": thread });
        let kind = "workspace.message.posted";
        assert_eq!(scene.send("requester", kind, &format!("channel/den-{n}"), &said, &in_thread).await, "ok");
        let in_thread = format!("requester-{n}-{}", scene.sent);
        let executor = scene.address("executor");
        assert_eq!(scene.send("requester", kind, &executor, &said, &json!({})).await, "ok");
        let in_room = format!("requester-{n}-{}", scene.sent);
        let list = scene.get("rooms").await;
        let of_two = |r: &&Value| r["members"].to_string().contains(&format!("executor-{n}"));
        let room = list["rooms"].as_array().unwrap().iter().find(of_two).unwrap()["room"].as_str().unwrap().to_owned();
        let (thread_id, room_id) = (in_thread.as_str(), in_room.as_str());
        // What is asked for, and what each gets: ids, or a refusal.
        let seated = ["requester", "executor", "candidate"];
        let pair = ["requester", "executor"];
        let rows: [(Value, &str, &[&str], Option<&str>); 7] = [
            (json!({ "thread": thread }), thread_id, &seated, None),
            (json!({ "thread": thread, "channel": format!("den-{n}") }), thread_id, &seated, None),
            (json!({ "search": SECRET }), thread_id, &seated, None),
            (json!({ "search": SECRET, "thread": thread }), thread_id, &seated, None),
            (json!({ "room": room }), room_id, &pair, Some("unknown_target")),
            (json!({ "search": SECRET, "room": room }), room_id, &pair, Some("unknown_target")),
            (json!({ "search": SECRET }), room_id, &pair, None),
        ];
        let mut asked = 0;
        for (filters, id, seers, refusal) in &rows {
            for who in ["requester", "executor", "candidate", "outsider", "observer"] {
                asked += 1;
                let what = format!("{carrier:?}: {filters} by the {who}");
                let sees = seers.contains(&who);
                let name = format!("query-{n}-{asked}");
                let found = scene.members.get_mut(who).unwrap().query(&name, filters).await.unwrap();
                match (found, sees, refusal) {
                    (Ok(ids), sees, _) if sees || refusal.is_none() => {
                        assert_eq!(ids.iter().any(|i| i == id), sees, "{what}: {ids:?}");
                    }
                    (Err(code), false, Some(refusal)) => assert_eq!(code, *refusal, "{what}"),
                    (other, ..) => panic!("{what}: {other:?}"),
                }
            }
        }
    }
}

/// Somebody with a bearer over plain HTTP.
struct Reader {
    who: &'static str,
    bearer: String,
}

async fn readers(node: &Node, http: &Http, names: &[&'static str]) -> Vec<Reader> {
    let mut readers = Vec::new();
    for who in names {
        let body = json!({ "agent_id": format!("agent:{who}") });
        let data = http.post(&format!("/v1/ws/{}/join", node.network()), &node.token, &body).await.data();
        readers.push(Reader { who, bearer: data["session_id"].as_str().unwrap().to_owned() });
    }
    readers.push(Reader { who: "token", bearer: node.token.clone() });
    readers.push(Reader { who: "operator", bearer: node.admin().to_owned() });
    readers.push(Reader { who: "nobody", bearer: "nonsense".to_owned() });
    readers
}

async fn post(node: &Node, http: &Http, bearer: &str, event: &Value) -> Value {
    http.post(&format!("/v1/ws/{}/events", node.network()), bearer, event).await.data()
}

/// Everything a stream says up to an event, or its refusal.
async fn heard(http: &Http, path: &str, bearer: &str, last: &str) -> String {
    let mut sse = match Sse::open(http, path, bearer, None).await {
        Ok(sse) => sse,
        Err(refusal) => return refusal,
    };
    let mut all = String::new();
    let until = async {
        while !all.contains(last) {
            all.push_str(&sse.next().await.unwrap().data);
        }
    };
    tokio::time::timeout(support::PATIENCE, until).await.unwrap_or_else(|_| panic!("{path}: {last} did not come"));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sees_conversations_on_every_path() {
    let node = Node::start();
    let http = Http::new(node.url());
    let readers = readers(&node, &http, &["ana", "ben", "eve"]).await;
    let ana = readers[0].bearer.as_str();
    let base = format!("/v1/ws/{}", node.network());
    let create = json!({ "name": "den", "private": true, "participants": ["ben"] });
    post(&node, &http, ana, &json!({ "type": "network.channel.create", "target": "core", "payload": create })).await;
    let say = |id: &str, target: &str, text: &str| {
        let metadata = if target.starts_with("channel/") { json!({ "thread": "thread_den" }) } else { json!({}) };
        json!({ "id": id, "type": "workspace.message.posted", "target": target, "payload": { "content": text }, "metadata": metadata })
    };
    post(&node, &http, ana, &say("t1", "channel/den", SECRET)).await;
    post(&node, &http, ana, &say("r1", "agent:ben", SECRET)).await;
    let room = http.post(&format!("{base}/rooms"), ana, &json!({ "peer": "ben" })).await.data()["room"].clone();
    let room = room.as_str().unwrap();
    // The same thread in a public channel: what streams show everybody, after what they show to few.
    post(&node, &http, ana, &say("public-bell", "channel/general", "bell")).await;
    post(&node, &http, ana, &say("room-bell", "agent:ben", "room-bell")).await;
    support::until("the index", || {
        let found = node.line("search room-bell --json").ok().json();
        (found["events"].as_array().unwrap().len() == 1).then_some(())
    });
    let paths = [
        "threads".to_owned(),
        "threads?channel=den".to_owned(),
        "threads/den/thread_den".to_owned(),
        "events?view=log&thread=thread_den".to_owned(),
        "events?view=log&thread=thread_den&channel=den".to_owned(),
        format!("events?view=log&search={SECRET}"),
        "rooms".to_owned(),
        format!("rooms/{room}"),
        format!("events?view=log&room={room}"),
        format!("events?view=log&room={room}&search={SECRET}"),
        "events/conversations".to_owned(),
    ];
    for reader in &readers {
        let sees = ["ana", "ben", "operator"].contains(&reader.who);
        for path in &paths {
            let what = format!("{path} as {}", reader.who);
            let answer = http.get(&format!("{base}/{path}"), &reader.bearer).await;
            let expected: &[u16] = match reader.who {
                "nobody" => &[401],
                "operator" | "token" if path == "events/conversations" => &[403],
                _ if sees => &[200],
                _ => &[200, 404],
            };
            assert!(expected.contains(&answer.status), "{what}: {answer:?}");
            let shows = answer.body.contains(SECRET) || answer.body.contains("room-bell");
            assert_eq!(shows, sees && answer.status == 200, "{what}: {}", answer.body);
        }
        if reader.who == "nobody" {
            continue;
        }
        let path = format!("{base}/events/stream?view=log&after=seq:0&thread=thread_den");
        let all = heard(&http, &path, &reader.bearer, "public-bell").await;
        assert_eq!(all.contains(SECRET), sees, "the stream of the thread as {}: {all}", reader.who);
        let path = format!("{base}/events/stream?view=log&after=seq:0&room={room}");
        let all = heard(&http, &path, &reader.bearer, "room-bell").await;
        assert_eq!(all.contains(SECRET), sees, "the stream of the room as {}: {all}", reader.who);
        assert!(sees || all.contains("404") && all.contains("unknown_target"), "{all}");
    }
    // A thread one may see has the same name in a channel one may not: only the one is shown.
    let eve = http.get(&format!("{base}/threads"), &readers[2].bearer).await.data();
    assert_eq!(eve["threads"].as_array().unwrap().len(), 1, "{eve}");
    assert_eq!(eve["threads"][0]["channel"], "channel/general");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sees_work_on_every_path() {
    let node = Node::start();
    let http = Http::new(node.url());
    let readers = readers(&node, &http, &["ana", "ben", "cid", "eve"]).await;
    let (ana, ben) = (readers[0].bearer.as_str(), readers[1].bearer.as_str());
    let base = format!("/v1/ws/{}", node.network());
    let create = json!({ "name": "den", "private": true, "participants": ["ben", "cid"] });
    post(&node, &http, ana, &json!({ "type": "network.channel.create", "target": "core", "payload": create })).await;
    let ask = async |target: &str| {
        let event = json!({ "type": "workspace.message.posted", "target": target, "payload": { "content": SECRET }, "metadata": { "work": {} } });
        post(&node, &http, ana, &event).await["result"]["work"]["id"].as_str().unwrap().to_owned()
    };
    let (direct, open, taken) = (ask("agent:ben").await, ask("channel/den").await, ask("channel/den").await);
    let take = json!({ "type": "work.update", "target": "core", "payload": { "work": taken, "state": "working" } });
    post(&node, &http, ben, &take).await;
    let table: [(&str, &[&str]); 3] = [
        (&direct, &["ana", "ben", "operator"]),
        (&open, &["ana", "ben", "cid", "operator"]),
        (&taken, &["ana", "ben", "operator"]),
    ];
    for (unit, seers) in table {
        for reader in &readers {
            let sees = seers.contains(&reader.who);
            let list = http.get(&format!("{base}/work"), &reader.bearer).await;
            let denied = if reader.who == "nobody" { 401 } else { 404 };
            assert_eq!(list.status, if reader.who == "nobody" { 401 } else { 200 }, "{list:?}");
            assert_eq!(list.body.contains(unit), sees, "the list of {}", reader.who);
            for path in [format!("work/{unit}"), format!("work/{unit}/events")] {
                let answer = http.get(&format!("{base}/{path}"), &reader.bearer).await;
                assert_eq!(answer.status, if sees { 200 } else { denied }, "{path} as {}: {answer:?}", reader.who);
                assert!(sees || !answer.body.contains(SECRET));
            }
            let stream = Sse::open(&http, &format!("{base}/work/{unit}/stream"), &reader.bearer, None).await;
            match (stream, sees) {
                (Ok(mut sse), true) => {
                    let first = sse.next().await.unwrap();
                    assert_eq!(first.event.as_deref(), Some("snapshot"));
                    assert!(first.data.contains(unit));
                }
                (Err(refusal), false) => assert!(refusal.contains(&denied.to_string()), "{refusal}"),
                (other, _) => panic!("{unit} as {}: {other:?}", reader.who),
            }
        }
    }
}

/// Blocks of a stream up to its end.
async fn all_of(sse: &mut Sse) -> Vec<support::sse::Block> {
    let mut blocks = Vec::new();
    loop {
        match tokio::time::timeout(support::PATIENCE, sse.next()).await.unwrap() {
            Ok(block) => blocks.push(block),
            Err(end) => {
                assert_eq!(end, "the stream ended");
                return blocks;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_work_begins_with_the_unit_and_ends_with_its_end() {
    let node = Node::start();
    let http = Http::new(node.url());
    let readers = readers(&node, &http, &["ana", "ben"]).await;
    let (ana, ben) = (readers[0].bearer.as_str(), readers[1].bearer.as_str());
    let base = format!("/v1/ws/{}", node.network());
    let event = json!({ "type": "workspace.message.posted", "target": "agent:ben", "payload": { "content": "x" }, "metadata": { "work": { "id": "mine" } } });
    let id = post(&node, &http, ana, &event).await["result"]["work"]["id"].as_str().unwrap().to_owned();
    let path = format!("{base}/work/mine/stream");
    let mut sse = Sse::open(&http, &path, ana, None).await.unwrap();
    let snapshot = sse.next().await.unwrap();
    assert_eq!(snapshot.event.as_deref(), Some("snapshot"));
    let unit: Value = serde_json::from_str(&snapshot.data).unwrap();
    assert_eq!((&unit["id"], &unit["state"]), (&json!(id), &json!("submitted")));
    for state in ["working", "input_required", "working", "completed"] {
        let update = json!({ "type": "work.update", "target": "core", "payload": { "work": id, "state": state } });
        post(&node, &http, ben, &update).await;
    }
    let blocks = all_of(&mut sse).await;
    let states = |blocks: &[support::sse::Block]| {
        let data = blocks.iter().map(|b| serde_json::from_str::<Value>(&b.data).unwrap());
        data.map(|d| d["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(states(&blocks), ["working", "input_required", "working", "completed"]);
    assert!(blocks.iter().all(|b| b.event.as_deref() == Some("work")));
    let entry: Value = serde_json::from_str(&blocks[0].data).unwrap();
    assert_eq!((&entry["event"]["type"], &entry["event"]["source"]), (&json!("work.update"), &json!("agent:ben")));

    // Whoever comes back with what it saw last gets the rest, without a snapshot.
    let ids: Vec<&str> = std::iter::once(&snapshot).chain(&blocks).map(|b| b.id.as_deref().unwrap()).collect();
    for (n, last) in ids.iter().enumerate().take(4) {
        let mut sse = Sse::open(&http, &path, ana, Some(last)).await.unwrap();
        assert_eq!(all_of(&mut sse).await, blocks[n..], "after {last}");
    }
    let refusal = Sse::open(&http, &path, ana, Some(ids[4])).await.unwrap_err();
    assert!(refusal.contains("204"), "browsers stop asking: {refusal}");
    let refusal = Sse::open(&http, &path, ana, Some("seq:999999")).await.unwrap_err();
    assert!(refusal.contains("cursor_unknown"), "{refusal}");
    // Who comes late sees how it ended, and no more.
    let mut late = Sse::open(&http, &format!("{base}/work/{id}/stream"), ben, None).await.unwrap();
    let blocks = all_of(&mut late).await;
    assert_eq!((blocks.len(), states(&blocks)), (1, vec!["completed".to_owned()]));

    // The same by pages, and refusals of what makes no sense.
    let events = async |query: &str| http.get(&format!("{base}/work/{id}/events{query}"), ana).await;
    let page = events("?limit=2").await.data();
    assert_eq!(
        (page["events"].as_array().unwrap().len(), &page["has_more"], &page["ended"]),
        (2, &json!(true), &json!(false))
    );
    let next = page["next_cursor"].as_str().unwrap();
    let rest = events(&format!("?after={next}")).await.data();
    assert_eq!(
        (rest["events"].as_array().unwrap().len(), &rest["has_more"], &rest["ended"]),
        (3, &json!(false), &json!(true))
    );
    let started = std::time::Instant::now();
    let none = events(&format!("?after={}&wait=60", rest["next_cursor"].as_str().unwrap())).await.data();
    assert_eq!((none["events"].as_array().unwrap().len(), &none["ended"]), (0, &json!(true)));
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "nobody waits for what has ended");
    for query in ["?limit=0", "?limit=x", "?wait=61", "?after=seq:x"] {
        let answer = events(query).await;
        assert!([400, 410].contains(&answer.status), "{query}: {answer:?}");
    }
    for query in ["role=boss", "state=asleep", "before=x", "limit=501"] {
        assert_eq!(http.get(&format!("{base}/work?{query}"), ana).await.code(), "invalid_argument", "{query}");
    }
    for body in [json!({}), json!({ "peer": 1 }), json!({ "peer": "ben", "channel": [] })] {
        assert_eq!(http.post(&format!("{base}/rooms"), ana, &body).await.code(), "invalid_argument", "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_the_next_event_of_work_is_woken() {
    let node = Node::start();
    let http = Http::new(node.url());
    let readers = readers(&node, &http, &["ana", "ben"]).await;
    let (ana, ben) = (readers[0].bearer.clone(), readers[1].bearer.as_str());
    let base = format!("/v1/ws/{}", node.network());
    let event = json!({ "type": "workspace.message.posted", "target": "agent:ben", "payload": { "content": "x" }, "metadata": { "work": {} } });
    let id = post(&node, &http, &ana, &event).await["result"]["work"]["id"].as_str().unwrap().to_owned();
    let page = http.get(&format!("{base}/work/{id}/events"), &ana).await.data();
    let path = format!("{base}/work/{id}/events?wait=60&after={}", page["next_cursor"].as_str().unwrap());
    let waiting = {
        let http = http.clone();
        tokio::spawn(async move { http.get(&path, &ana).await.data() })
    };
    assert!(http.get(&format!("{base}/me"), ben).await.status == 200 && !waiting.is_finished(), "it waits");
    let started = std::time::Instant::now();
    let update = json!({ "type": "work.update", "target": "core", "payload": { "work": id, "state": "working" } });
    post(&node, &http, ben, &update).await;
    let woken = waiting.await.unwrap();
    assert_eq!(woken["events"][0]["state"], "working");
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "it was not woken");
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_senders_learn_what_their_events_led_to() {
    let node = Node::start();
    let place = node.place();
    let http = Http::new(node.url());
    let readers = readers(&node, &http, &["ana", "ben"]).await;
    let mut client = place.grpc().await.unwrap();
    let work = Draft::note("ask", "agent:ben", "{}").metadata(r#"{"work":{}}"#);
    let query = |id: &str, filters: &str| Draft { kind: "network.events.query", ..Draft::note(id, "core", filters) };
    let events = [work, query("bad", r#"{"room":"direct_none"}"#), query("good", r#"{"limit":1}"#)];
    let events = events.iter().map(Draft::protobuf).collect();
    let request = rialto_openagents::grpc::pb::SendRequest { network: place.network.clone(), events };
    let reply = client.send(bearing(request, &readers[0].bearer)).await.unwrap().into_inner();
    let [asked, bad, good] = &reply.results[..] else { panic!("{reply:?}") };
    let metadata: Value = serde_json::from_slice(&asked.event.as_ref().unwrap().metadata).unwrap();
    let id = metadata["work"]["id"].as_str().unwrap();
    let unit = http.get(&format!("/v1/ws/{}/work/{id}", node.network()), &readers[1].bearer).await.data();
    assert_eq!(unit["state"], "submitted");
    // A query that is refused does not hide that the event before it was taken.
    assert_eq!(bad.error.as_ref().unwrap().code, "unknown_target");
    assert!(asked.seq > 0 && good.error.is_none() && good.response.is_some());
}
