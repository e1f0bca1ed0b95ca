//! `work …`: asking, doing, answering, refusing, following; and what is left after `kill -9`.

use crate::ids;
use crate::support::http::Http;
use crate::support::{Node, Ran, RunningNode, until};
use crate::talk::free_port;
use serde_json::{Value, json};

fn three() -> Node {
    let node = Node::start();
    for name in ["alice", "bob", "carol"] {
        node.words(&["inbox", "--as", name]).ok();
    }
    node
}

/// Opens a unit; gives its id.
fn ask(node: &Node, target: &str, more: &str) -> String {
    let line = format!("work new {target} please --as alice {more}");
    node.line(line.trim_end()).ok().out.trim().to_owned()
}

fn state(node: &Node, id: &str) -> Value {
    shown(node, id)["state"].clone()
}

/// A unit as one of its two sides sees it.
fn shown(node: &Node, id: &str) -> Value {
    let by = |who: &str| node.words(&["work", "show", id, "--json", "--as", who]);
    let mut seen = ["alice", "bob"].into_iter().map(by).filter(|ran| ran.code == 0);
    seen.next().unwrap_or_else(|| by("alice")).ok().json()
}

/// States of the lines a watch printed.
fn states(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["state"].as_str().unwrap()).collect()
}

#[test]
fn asked_done_and_told() {
    let node = three();
    let id = ask(&node, "bob", "--context c1 --deadline 10m --id report");
    assert!(id.starts_with("work_"), "{id}");
    let show = node.words(&["work", "show", "report", "--as", "alice", "--json"]).ok().json();
    assert_eq!(
        (&show["id"], &show["state"], &show["executor"]),
        (&json!(id), &json!("submitted"), &json!("agent:bob"))
    );
    assert_eq!((&show["context"], &show["deadline_ms"]), (&json!("c1"), &json!(600_000)));
    assert_eq!(show["events"][0]["event"]["payload"]["content"], "please");
    node.line("work new bob again --id report --as alice").fails(5, "another work unit");
    let again = node.line("work new bob please --as alice --context c1 --deadline 10m --id report").ok();
    assert_eq!(again.out.trim(), id, "the same order by the same name is the same unit");
    assert!(again.err.contains("you asked for \"report\" before, it is submitted"), "{again:?}");

    let watch = RunningNode::start(node.command(&["work", "watch", &id, "--as", "alice", "--json"]));
    assert!(watch.line().contains("submitted"));
    assert_eq!(node.words(&["work", "take", &id, "--as", "bob"]).ok().out, format!("{id} is working\n"));
    node.words(&["work", "update", &id, "working", "--progress", "50%", "--message", "half way", "--as", "bob"]).ok();
    node.words(&["work", "update", &id, "input_required", "--message", "which?", "--as", "bob"]).ok();
    let text = node.words(&["work", "answer", &id, "this one", "--as", "alice", "--json"]).ok().json();
    assert_eq!(text, json!({ "id": id, "state": "working" }));
    std::fs::write(node.path("out.txt"), "the report").unwrap();
    let file = node.path("out.txt");
    let made = node.words(&["work", "artifact", &id, file.to_str().unwrap(), "--as", "bob", "--json"]).ok().json();
    assert_eq!(made["artifact"], json!({ "id": "out.txt", "chunks": 1, "bytes": 10 }));
    node.words(&["work", "complete", &id, "here you are", "--as", "bob"]).ok();
    let lines: Vec<Value> = watch.rest().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(states(&lines), ["working", "working", "input_required", "working", "working", "completed"]);
    assert_eq!(lines[4]["event"]["payload"]["artifact"]["parts"], json!([{ "text": "the report" }]));
    let inbox = ids(&node.line("inbox --as alice --json").ok());
    assert_eq!(inbox.len(), 5, "everything the executor said is mail of the requester");

    // For people, and again for whoever comes late: the same events in the same order.
    let late = node.words(&["work", "watch", &id, "--as", "bob"]).ok().out;
    for said in ["alice: please", "50% half way", "which?", "this one", "artifact out.txt", "here you are"] {
        assert!(late.contains(said), "{said}: {late}");
    }
    let show = node.words(&["work", "show", &id, "--as", "alice"]).ok().out;
    assert!(show.contains("completed") && show.contains("out.txt") && show.contains("here you are"), "{show}");
}

#[test]
fn lists_by_role_and_state() {
    let node = three();
    node.line("channel join general --as bob").ok();
    let direct = ask(&node, "bob", "");
    let open = ask(&node, "channel/general", "");
    node.words(&["work", "take", &direct, "--as", "bob"]).ok();
    let list = |line: &str| {
        let page = node.line(format!("work list --json {line}").trim_end()).ok().json();
        page["works"].as_array().unwrap().iter().map(|w| w["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (open, direct) = (open.as_str(), direct.as_str());
    let table: [(&str, &[&str]); 11] = [
        ("--as alice --mine", &[open, direct]),
        ("--as bob --for-me", &[direct]),
        ("--as bob --open-to-me", &[open]),
        ("--as bob", &[open, direct]),
        ("--as alice --for-me", &[]),
        ("--as alice --state submitted", &[open]),
        ("--as alice --state working,completed", &[direct]),
        ("--as alice --channel general", &[open]),
        ("--as alice --limit 1", &[open]),
        ("", &[open]),
        ("--all", &[open, direct]),
    ];
    for (line, expected) in table {
        assert_eq!(list(line), expected, "{line:?}: newest first; all is what the operator sees");
    }
    assert!(node.line("work list --as bob").ok().out.contains("channel/general"));
    assert!(node.line("work list --for-me --as dave").ok().err.contains("no work"));
    node.line("work list --state sleeping").fails(2, "state");
}

#[test]
fn refusals_have_their_exits() {
    let node = three();
    let id = ask(&node, "bob", "");
    let run = |words: &[&str]| node.words(words);
    // Who is no part of it cannot tell it from one that never was.
    for words in [
        &["work", "show", &id][..],
        &["work", "watch", &id],
        &["work", "take", &id],
        &["work", "cancel", &id],
        &["work", "answer", &id, "x"],
        &["work", "complete", &id],
    ] {
        let strange = run(&[words, &["--as", "carol"]].concat()).fails(3, "rialto work list");
        let nothing: Vec<&str> =
            words.iter().map(|w| if *w == id { "work_00000000000000000000000000" } else { w }).collect();
        let nothing = run(&[&nothing[..], &["--as", "carol"]].concat()).fails(3, "unknown_target");
        assert_eq!(strange.err.replace(&id, "work_00000000000000000000000000"), nothing.err);
    }
    run(&["work", "complete", &id, "--as", "alice"]).fails(4, "forbidden");
    run(&["work", "cancel", &id, "--as", "bob"]).fails(4, "forbidden");
    run(&["work", "update", &id, "submitted", "--as", "bob"]).fails(2, "cannot become");
    run(&["work", "update", &id, "sleeping", "--as", "bob"]).fails(2, "payload.state");
    run(&["work", "answer", &id, "unasked", "--as", "alice"]).fails(2, "cannot become");
    run(&["work", "artifact", &id, "/nowhere/at/all", "--as", "bob"]).fails(3, "cannot read");
    run(&["work", "cancel", &id, "changed my mind", "--as", "alice"]).ok();
    run(&["work", "complete", &id, "--as", "bob"]).fails(5, "no_pending_request");
    run(&["work", "watch", &id, "--as", "bob"]).fails(5, "was canceled");

    node.line("work new nobody please --as alice").fails(3, "unknown_target");
    node.line("work new alice please --as alice").fails(2, "another member");
    node.line("work new core please --skill knitting --as alice").fails(3, "knitting");
    node.line("work new bob please --deadline soon --as alice").fails(2, "span");
    node.line("work new bob please --deadline 10ms --as alice").fails(2, "deadline_ms");
    node.line("work new bob please --parent work_none --as alice").fails(3, "unknown_target");

    // The first of many has it.
    node.line("channel join general --as bob").ok();
    node.line("channel join general --as carol").ok();
    let open = ask(&node, "channel/general", "");
    run(&["work", "take", &open, "--as", "carol"]).ok();
    run(&["work", "take", &open, "--as", "bob"]).fails(5, "somebody else was faster");
    run(&["work", "reject", &open, "not today", "--as", "carol"]).ok();
    run(&["work", "watch", &open, "--as", "alice"]).fails(4, "was rejected");
    let failed = ask(&node, "bob", "");
    run(&["work", "fail", &failed, "no paper", "--as", "bob"]).ok();
    run(&["work", "watch", &failed, "--as", "alice"]).fails(1, "failed");
    let still = ask(&node, "bob", "");
    run(&["work", "watch", &still, "--timeout", "1", "--as", "alice"]).fails(7, "has not ended");
}

#[test]
fn waiting_for_the_end() {
    let node = three();
    let late = node.line("work new bob please --as alice --wait=1").fails(7, "has not ended");
    assert!(late.err.contains("work_"), "the id is told all the same: {late:?}");
    let words = ["work", "new", "bob", "sum", "--as", "alice", "--id", "w2", "--wait=60", "--json"];
    let asking = node.command(&words);
    let asking = std::thread::spawn(move || Ran::of(asking, ""));
    let request = until("the request", || {
        let list = node.line("work list --for-me --as bob --json").ok().json();
        list["works"].as_array()?.iter().find(|w| w["aliases"] == json!(["w2"])).map(|w| w["request_id"].clone())
    });
    // Somebody who knows nothing of work answers, and that is the end.
    node.words(&["send", "alice", "42", "--as", "bob", "--reply-to", request.as_str().unwrap()]).ok();
    let done = asking.join().unwrap().ok().json();
    assert_eq!((&done["state"], &done["last"]["event"]["payload"]["content"]), (&json!("completed"), &json!("42")));
    // Who waits is asked at once.
    let asking = node.command(&["work", "new", "bob", "which", "--as", "alice", "--id", "w3", "--wait=60"]);
    let asking = std::thread::spawn(move || Ran::of(asking, ""));
    let id = until("the request", || {
        let list = node.line("work list --for-me --as bob --json").ok().json();
        list["works"].as_array()?.iter().find(|w| w["aliases"] == json!(["w3"])).map(|w| w["id"].clone())
    });
    node.words(&["work", "update", id.as_str().unwrap(), "input_required", "--message", "red?", "--as", "bob"]).ok();
    let asked = asking.join().unwrap().fails(7, "rialto work answer");
    assert!(asked.out.contains("red?"), "{asked:?}");
}

/// Ends that are told apart: what of a file is asked for, and what comes back.
async fn bytes(http: &Http, path: &str, bearer: &str, range: &str) -> (u16, String, Vec<u8>) {
    let bearer = format!("Bearer {bearer}");
    let mut headers = vec![("authorization", bearer.as_str())];
    headers.extend((!range.is_empty()).then_some(("range", range)));
    let response = http.open("GET", path, &headers, "").await.unwrap();
    let place = response.headers().get("content-range").map_or("", |v| v.to_str().unwrap()).to_owned();
    let status = response.status().as_u16();
    (status, place, http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes().to_vec())
}

fn session(http: &Http, name: &str, token: &str) -> impl Future<Output = String> {
    let (http, join) = (http.clone(), json!({ "agent_id": name, "credentials": { "token": token } }));
    async move { http.post("/v1/join", "", &join).await.data()["session_id"].as_str().unwrap().to_owned() }
}

#[tokio::test]
async fn a_large_file_is_content_that_outlives_a_kill() {
    let mut node = three();
    let id = ask(&node, "bob", "");
    let text = "gr\u{fc}\u{df}e ".repeat(400_000); // 3.2 MB
    std::fs::write(node.path("big.txt"), &text).unwrap();
    std::fs::write(node.path("noise.bin"), [0xff, 0x00, 0x80]).unwrap();
    for name in ["big.txt", "noise.bin"] {
        let file = node.path(name);
        node.words(&["work", "artifact", &id, file.to_str().unwrap(), "--as", "bob"]).ok();
    }
    let show = node.words(&["work", "show", &id, "--as", "alice", "--json"]).ok().json();
    let expected = json!({
        "id": "big.txt", "name": "big.txt", "chunks": 1, "bytes": text.len(), "last": true, "content": true,
        "content_type": "text/plain",
    });
    assert_eq!(show["artifacts"][0], expected);
    assert_eq!((&show["artifacts"][1]["id"], &show["artifacts"][1]["content"]), (&json!("noise.bin"), &Value::Null));
    // More of it, by hand: uploaded, then named.
    let http = Http::new(node.url());
    let (bob, carol) =
        (session(&http, "agent:bob", &node.token).await, session(&http, "agent:carol", &node.token).await);
    let staged = http.call("POST", "/v1/blobs", &bob, "and more").await.unwrap().data();
    assert_eq!(staged["size"], 8);
    let named = |work: &str, sha256: &Value, append: bool| {
        let blob = json!({ "sha256": sha256, "size": 8 });
        let payload =
            json!({ "work": work, "artifact": { "id": "log", "blob": blob }, "append": append, "last": false });
        json!({ "type": "work.artifact", "target": "core", "payload": payload })
    };
    // A hash that another uploaded means no more than one that nobody did.
    let theirs = http.call("POST", "/v1/blobs", &carol, "carol's!").await.unwrap().data();
    let foreign = http.post("/v1/events", &bob, &named(&id, &theirs["sha256"], false)).await;
    let nobodys = http.post("/v1/events", &bob, &named(&id, &json!("0".repeat(64)), false)).await;
    assert_eq!((foreign.status, foreign.json()["error"].clone()), (nobodys.status, nobodys.json()["error"].clone()));
    assert_eq!(foreign.code(), "unknown_target");
    http.post("/v1/events", &bob, &named(&id, &staged["sha256"], false)).await.data();
    http.post("/v1/events", &bob, &named(&id, &staged["sha256"], true)).await.data();

    let all = |node: &Node| {
        let out = node.path("fetched");
        let path = out.to_str().unwrap();
        node.words(&["work", "fetch", &id, "big.txt", "--output", path, "--as", "alice"]).ok();
        assert!(std::fs::read(&out).unwrap() == text.as_bytes());
        node.words(&["work", "fetch", &id, "noise.bin", "--output", path, "--as", "alice"]).ok();
        assert_eq!(std::fs::read(&out).unwrap(), [0xff, 0x00, 0x80]);
        let log = node.words(&["work", "fetch", &id, "log", "--as", "bob"]).ok();
        assert_eq!(log.out, "and moreand more");
        node.words(&["work", "fetch", &id, "log", "--as", "carol"]).fails(3, "work list");
        node.words(&["work", "fetch", &id, "--as", "alice"]).fails(3, "big.txt, noise.bin, log");
        node.words(&["work", "fetch", &id, "else", "--as", "alice"]).fails(3, "big.txt, noise.bin, log");
    };
    all(&node);
    node.kill();
    node.restart();
    all(&node);
    // Ranges go over chunks; who takes no part learns nothing.
    let http = Http::new(node.url());
    let (alice, carol) =
        (session(&http, "agent:alice", &node.token).await, session(&http, "agent:carol", &node.token).await);
    let path = format!("/v1/work/{id}/artifacts/log");
    let part = bytes(&http, &path, &alice, "bytes=4-10").await;
    assert_eq!(part, (206, "bytes 4-10/16".to_owned(), b"moreand".to_vec()));
    assert_eq!(bytes(&http, &path, &alice, "bytes=16-").await.0, 416);
    let strange = http.get(&path, &carol).await;
    let missing = http.get("/v1/work/work_00000000000000000000000000/artifacts/log", &carol).await;
    assert_eq!((strange.status, strange.code()), (missing.status, missing.code()));
    assert_eq!(http.get(&format!("/v1/work/{id}/artifacts/noise.bin"), &alice).await.code(), "resource_not_found");
    assert_eq!(http.get(&format!("/v1/work/{id}/artifacts/none"), &alice).await.code(), "unknown_target");
    assert_eq!(http.call("POST", "/v1/blobs", &node.token, "x").await.unwrap().code(), "not_a_member");
    node.line("verify").ok();
    // The same name again replaces it.
    node.typed(&format!("work artifact {id} - --name big.txt --as bob"), "short").ok();
    assert_eq!(node.words(&["work", "fetch", &id, "big.txt", "--as", "alice"]).ok().out, "short");
    node.line("verify").ok();
}

#[test]
fn parts_skills_and_silence() {
    let node = three();
    let join = json!({ "type": "network.agent.join", "source": "agent:carol", "target": "core", "payload": { "capabilities": ["sum"] } });
    node.typed("stdio", &format!("{join}\n")).ok();
    let by_skill = ask(&node, "core", "--skill sum");
    assert_eq!(shown(&node, &by_skill)["executor"], "agent:carol");
    let root = ask(&node, "bob", "");
    let part = node.words(&["work", "new", "carol", "a part", "--parent", &root, "--as", "bob"]).ok().out;
    let part = part.trim();
    let list = node.words(&["work", "list", "--parent", &root, "--json", "--as", "bob"]).ok().json();
    assert_eq!((list["works"].as_array().unwrap().len(), &list["works"][0]["id"]), (1, &json!(part)));
    node.words(&["work", "cancel", &root, "--as", "alice"]).ok();
    assert_eq!(state(&node, part), "canceled", "what it was part of has ended");
    node.words(&["work", "watch", part, "--as", "carol"]).fails(5, "parent_ended");
}

#[test]
fn pending_work_survives_kill_9() {
    let mut node = Node::start_with(&["--listen", &free_port()]);
    node.line("inbox --as bob").ok();
    node.line("inbox --as alice").ok();
    let id = ask(&node, "bob", "--deadline 1h --id job");
    node.words(&["work", "update", &id, "working", "--message", "begun", "--as", "bob"]).ok();
    let before = shown(&node, &id);
    let watch = RunningNode::start(node.command(&["work", "watch", &id, "--as", "alice", "--json"]));
    assert!(watch.line().contains("submitted") && watch.line().contains("begun"));
    node.kill();
    node.restart();
    let mut after = shown(&node, &id);
    assert_eq!(after["executor_status"], "offline", "it is visible as such");
    after["executor_status"] = before["executor_status"].clone();
    // The time left is kept, so the hour ends later by as long as the node was away.
    let due = |unit: &serde_json::Value| unit["due_at"].as_u64().unwrap();
    assert!((due(&before)..due(&before) + 600_000).contains(&due(&after)), "{before} {after}");
    after["due_at"] = before["due_at"].clone();
    assert_eq!(after, before);
    assert_eq!(ids(&node.line("inbox --as alice --json").ok()).len(), 1, "unread mail");
    node.words(&["work", "complete", "job", "--as", "bob"]).fails(3, "unknown_target"); // a name is its giver's
    node.words(&["work", "complete", &id, "done after all", "--as", "bob"]).ok();
    assert!(watch.rest().contains("done after all"), "a watch goes on over the restart");
    node.kill();
    node.restart();
    assert_eq!(state(&node, &id), "completed");
    node.words(&["work", "complete", &id, "--as", "bob"]).fails(5, "has ended");
}

/// `POST /v1/work`: what it answers, what it refuses and by which name, and the same after a kill.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_over_http() {
    let mut node = three();
    let http = Http::new(node.url());
    let alice = session(&http, "agent:alice", &node.token).await;
    let order = json!({ "target": "agent:bob", "content": "please", "name": "report", "deadline_ms": 600_000, "context": "c1" });
    let opened = http.post("/v1/work", &alice, &order).await.data();
    assert_eq!((&opened["state"], &opened["duplicate"]), (&json!("submitted"), &json!(false)), "{opened}");
    node.kill();
    node.restart();
    let http = Http::new(node.url());
    let scoped = format!("/v1/ws/{}/work", node.network());
    for path in ["/v1/work", &scoped] {
        let again = http.post(path, &alice, &order).await.data();
        assert_eq!((&again["id"], &again["seq"], &again["duplicate"]), (&opened["id"], &opened["seq"], &json!(true)));
    }
    let unit = http.get("/v1/work/report", &alice).await.data();
    assert_eq!((&unit["id"], &unit["executor"], &unit["context"]), (&opened["id"], &json!("agent:bob"), &json!("c1")));
    for (wrong, code, field) in [
        (json!({}), "invalid_argument", "target"),
        (json!({ "target": "agent:bob" }), "invalid_argument", "content"),
        (json!({ "target": "agent:bob", "content": 5 }), "invalid_argument", "content"),
        (json!({ "target": "agent:bob", "content": "x", "dedline_ms": 5 }), "invalid_argument", "dedline_ms"),
        (json!({ "target": "agent:bob", "content": "x", "deadline_ms": 5 }), "invalid_event", "deadline_ms"),
        (json!({ "target": "agent:bob", "content": "x", "name": "" }), "invalid_event", "name"),
        (json!({ "target": "agent:bob", "content": "something else", "name": "report" }), "already_exists", "name"),
        (json!({ "target": "agent:nobody", "content": "x" }), "unknown_target", ""),
        (json!({ "target": "core", "content": "x", "skill": "none has it" }), "unknown_target", ""),
    ] {
        let refused = http.post("/v1/work", &alice, &wrong).await;
        assert_eq!(refused.code(), code, "{wrong}");
        assert!(
            field.is_empty() || refused.body.contains(&format!("\"field\":\"{field}\"")),
            "{wrong}: {}",
            refused.body
        );
        assert!(!refused.body.contains("metadata"), "{}", refused.body);
    }
    assert_eq!(http.call("POST", "/v1/work", &alice, "[]").await.unwrap().code(), "invalid_argument");
    assert_eq!(http.post("/v1/work", &node.token, &order).await.code(), "unauthenticated");
    assert_eq!(http.post("/v1/work", "wrong", &order).await.code(), "invalid_token");
    let list = node.line("work list --json --as alice").ok().json();
    assert_eq!(list["works"].as_array().unwrap().len(), 1, "{list}");
}
