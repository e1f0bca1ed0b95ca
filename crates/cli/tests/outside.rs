//! Mods that run outside the node: served by members on every carrier, run as processes, and the samples of `examples/`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::wildcard_enum_match_arm, unreachable_pub, reason = "tests")]

mod support;

use rialto_sim::contract::{Carrier, Draft, Got, Member};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use support::http::Http;
use support::{Node, RunningNode, until};
use tempfile::TempDir;

/// Those who can be asked: readers of a log are not.
const SERVING: [Carrier; 6] = [
    Carrier::HttpInbox,
    Carrier::SseInbox,
    Carrier::WebSocket,
    Carrier::GrpcUnary,
    Carrier::GrpcConnect,
    Carrier::Stdio,
];

async fn send(member: &mut Member, id: &str, kind: &'static str, payload: &Value) -> Result<u64, String> {
    let id = format!("{id}-{}", member.address.replace(':', "-"));
    let sent = member.send(&Draft { kind, ..Draft::note(&id, "core", &payload.to_string()) }).await.unwrap();
    sent.map_err(|refused| refused.code)
}

/// Answers the next check as told.
async fn answer(server: &mut Member, id: &str, mut verdict: Value) -> Got {
    let check = server.next_of("rialto.mod.check").await.unwrap();
    verdict["ticket"] = check.payload()["ticket"].clone();
    send(server, id, "network.mod.verdict", &verdict).await.unwrap();
    check
}

#[tokio::test]
async fn a_mod_is_served_on_every_carrier() {
    let node = Node::start();
    let place = node.place();
    let mut alice = Member::join(&place, Carrier::WebSocket, "alice").await.unwrap();
    for (n, carrier) in SERVING.into_iter().enumerate() {
        let mut server = Member::join(&place, carrier, &format!("server-{n}")).await.unwrap();
        let name = format!("g{n}");
        let wish = json!({ "name": name, "mode": "transform", "intercepts": ["test.*"], "deadline_ms": 30_000,
            "on_error": "reject" });
        assert_eq!(send(&mut server, "s0", "network.mod.serve", &wish).await, Err("forbidden".into()), "{carrier:?}");
        let said = node.line(&format!("mod approve {name} server-{n}")).ok().out;
        assert_eq!(said.trim(), format!("agent:server-{n} may serve mod/{name}"));
        send(&mut server, "s1", "network.mod.serve", &wish).await.unwrap();
        // Changed as the mod says, and refused as a verdict that cannot be used makes it.
        let note = Draft::note(&format!("n{n}"), "channel/general", r#"{"n":1}"#);
        let change = json!({ "verdict": "modified", "event": { "payload": { "n": 2 } } });
        let (sent, check) = tokio::join!(alice.send(&note), answer(&mut server, "v1", change));
        let seq = sent.unwrap().unwrap_or_else(|refused| panic!("{carrier:?}: {refused:?}"));
        let asked = check.payload();
        assert_eq!((&asked["event"]["id"], &asked["mod"]), (&json!(note.id), &json!(format!("mod/{name}"))));
        assert_eq!(asked["context"]["address"], json!("agent:alice"));
        let stored = node.line("history channel/general --json --limit 1").ok().out;
        assert!(stored.contains(r#""n":2"#) && stored.contains(&note.id), "{carrier:?} {seq}: {stored}");
        let note = Draft::note(&format!("m{n}"), "channel/general", "{}");
        let (sent, _) = tokio::join!(alice.send(&note), answer(&mut server, "v2", json!({ "verdict": "reject" })));
        assert_eq!(sent.unwrap().unwrap_err().code, "mod_failed", "{carrier:?}");
        let unload = json!({ "name": name, "unload": true });
        send(&mut server, "s2", "network.mod.serve", &unload).await.unwrap();
        let note = Draft::note(&format!("o{n}"), "channel/general", "{}");
        alice.send(&note).await.unwrap().unwrap();
    }
    let metrics = Http::new(node.url()).call("GET", "/metrics", node.admin(), "").await.unwrap().body;
    let counted =
        format!("rialto_mod_checks_total{{network=\"{}\",mod=\"g0\",outcome=\"modified\"}} 1", node.network());
    assert!(metrics.contains(&counted), "{metrics}");
}

/// Mode, what is done when it fails, what the mod says, what the sender hears, and what is stored of `{"n":1}`.
const MODES: [(&str, &str, &str, &str, Option<u64>); 10] = [
    ("guard", "skip", "pass", "ok", Some(1)),
    ("guard", "skip", "modified", "ok", Some(1)),
    ("guard", "skip", "reject", "acme.no", None),
    ("transform", "skip", "pass", "ok", Some(1)),
    ("transform", "skip", "modified", "ok", Some(2)),
    ("transform", "skip", "reject", "ok", Some(1)),
    ("transform", "reject", "reject", "mod_failed", None),
    ("observe", "skip", "pass", "ok", Some(1)),
    ("observe", "skip", "modified", "ok", Some(1)),
    ("observe", "skip", "reject", "ok", Some(1)),
];

#[tokio::test]
async fn what_each_mode_may_do_on_every_carrier() {
    let node = Node::start();
    let place = node.place();
    for (c, carrier) in SERVING.into_iter().enumerate() {
        let mut server = Member::join(&place, carrier, &format!("server-{c}")).await.unwrap();
        let mut sender = Member::join(&place, carrier, &format!("sender-{c}")).await.unwrap();
        let name = format!("m{c}");
        node.line(&format!("mod approve {name} server-{c}")).ok();
        for (n, (mode, on_error, verdict, heard, stored)) in MODES.into_iter().enumerate() {
            let said = format!("{carrier:?}: {mode} ({on_error}) says {verdict}");
            let wish = json!({ "name": name, "mode": mode, "intercepts": ["test.note.*"],
                "deadline_ms": 30_000, "on_error": on_error });
            send(&mut server, &format!("s{n}"), "network.mod.serve", &wish).await.unwrap();
            let verdict = json!({ "verdict": verdict, "code": "acme.no", "event": { "payload": { "n": 2 } } });
            let note = Draft::note(&format!("n{c}-{n}"), "channel/general", r#"{"n":1}"#);
            let id = format!("v{n}");
            let (sent, check) = tokio::join!(sender.send(&note), answer(&mut server, &id, verdict));
            let code = sent.unwrap().map_or_else(|refused| refused.code, |_| "ok".to_owned());
            assert_eq!((code.as_str(), &check.payload()["event"]["id"]), (heard, &json!(note.id)), "{said}");
            let newest = node.line("history channel/general --json --limit 1").ok().json()["events"][0].take();
            match stored {
                Some(n) => assert_eq!((&newest["id"], &newest["payload"]["n"]), (&json!(note.id), &json!(n)), "{said}"),
                None => assert_ne!(newest["id"], json!(note.id), "{said}"),
            }
        }
        let unload = json!({ "name": name, "unload": true });
        send(&mut server, "end", "network.mod.serve", &unload).await.unwrap();
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name).canonicalize().unwrap()
}

/// What the samples look for, put together here so that no scanner takes it for real.
fn secret() -> String {
    format!("AKIA{}", "ABCDEFGHIJKLMNOP")
}

#[test]
fn the_sample_agent_guards() {
    let node = Node::start();
    // The first agent is a master; the guard is not.
    node.line("send channel/general hello --as alice").ok();
    let mut guard = std::process::Command::new("python3");
    guard.arg(example("guard_agent.py")).env("RIALTO_URL", node.url()).env("RIALTO_TOKEN", &node.token);
    let guard = RunningNode::start(guard);
    until("the guard to join", || node.line("who --json").out.contains("agent:guard").then_some(()));
    node.line("mod approve secrets guard").ok();
    assert_eq!(guard.line(), "mod/secrets is served");
    node.line("send channel/general hello --as alice").ok();
    node.line(&format!("send channel/general {} --as alice", secret())).fails(4, "secrets.found");
    let history = node.line("history channel/general --json").ok().out;
    assert!(!history.contains(&secret()), "{history}");
    assert!(node.line("mod list").ok().out.contains("secrets"));
    // Killed, it guards no more: nothing passes, until the operator unloads it.
    drop(guard);
    let denied = until("the guard's absence", || {
        let ran = node.line("send channel/general hello --as alice");
        (ran.code != 0).then_some(ran)
    });
    denied.fails(1, "mod_failed");
    node.line("mod unload secrets").ok();
    node.line("send channel/general hello --as alice").ok();
}

/// A node with this configuration.
fn configured(config: &str) -> Node {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let file = dir.path().join("rialto.toml");
    std::fs::write(&file, config).unwrap();
    let argument = file.to_str().unwrap().to_owned();
    Node::start_in(dir, &data, &["--config", &argument])
}

#[test]
fn the_sample_process_guards_also_after_it_was_killed() {
    let script = example("guard_process.py");
    let config = format!(
        "[mod.secrets]\ncommand = [\"python3\", {:?}]\nintercepts = [\"workspace.message.*\"]\ndeadline_ms = 20000\n",
        script.to_str().unwrap()
    );
    let mut node = configured(&config);
    let guarded = |node: &Node| {
        node.line("send channel/general hello --as alice").ok();
        node.line(&format!("send channel/general {} --as alice", secret())).fails(4, "secrets.found");
    };
    guarded(&node);
    let shown = node.line("mod show secrets --json").ok().json();
    assert_eq!(
        (&shown["kind"], &shown["mode"], &shown["deadline_ms"]),
        (&json!("process"), &json!("guard"), &json!(20000))
    );
    node.kill();
    node.restart();
    guarded(&node);
    // The operator moves it and lets it rest; what it runs is the file's to say.
    node.line("mod set secrets --priority 3 --deadline 1000").ok();
    node.line("mod disable secrets").ok();
    node.line(&format!("send channel/general {} --as alice", secret())).ok();
}

#[test]
fn a_process_that_fails_refuses_what_it_guards_and_nothing_else() {
    // Ends after each answer, says what is no verdict, or nothing in time.
    let node = configured(concat!(
        "[mod.once]\ncommand = [\"sh\", \"-c\", \"read line; echo '{\\\"verdict\\\":\\\"pass\\\"}'\"]\nintercepts = [\"a.*\"]\n",
        "[mod.mumbles]\ncommand = [\"sh\", \"-c\", \"while read line; do echo hm; done\"]\nintercepts = [\"b.*\"]\n",
        "[mod.sleeps]\ncommand = [\"sleep\", \"1000\"]\nintercepts = [\"c.*\"]\ndeadline_ms = 100\n",
        "[mod.absent]\ncommand = [\"/nonexistent/mod\"]\nintercepts = [\"d.*\"]\n",
        "[mod.skips]\ncommand = [\"/nonexistent/mod\"]\nmode = \"transform\"\nintercepts = [\"e.*\"]\n",
    ));
    let send = |kind: &str| node.words(&["send", "core", "{}", "--type", kind, "--json", "--as", "alice"]);
    send("a.note").ok();
    until("the process to end and to be missed", || (send("a.note").code != 0).then_some(()));
    until("it to be started again", || (send("a.note").code == 0).then_some(()));
    for kind in ["b.note", "c.note", "d.note"] {
        send(kind).fails(1, "mod_failed");
    }
    let sent = send("e.note").ok().json();
    let id = sent["id"].as_str().unwrap_or_else(|| panic!("{sent}"));
    let explained = node.line(&format!("explain {id} --json")).ok().out;
    assert!(explained.contains("mod/skips: its process does not run, skipped"), "{explained}");
    send("z.note").ok();
}
