//! Programs written for the public OpenAgents servers, as they come from PyPI, against a node: what each reaches, and that they and native
//! agents hear one another. `.ci/clients/tools` installs them; `docs/compat.md` says what is not reached and why.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, reason = "tests")]

mod support;

use rialto_model::limits;
use rialto_sim::contract::{Carrier, Draft, Driver, Member};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::http::Http;
use support::{Node, PATIENCE, Ran, RunningNode};
use tempfile::TempDir;

/// Where `.ci/clients/tools` has put the clients.
fn tools() -> PathBuf {
    let said = std::env::var_os("RIALTO_CLIENTS").map(PathBuf::from);
    let said = said.unwrap_or_else(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/clients/tools");
        let known = Command::new(script).arg("--installed").output().unwrap();
        PathBuf::from(String::from_utf8(known.stdout).unwrap().trim())
    });
    let installed = said.join("python/bin/python").exists();
    assert!(installed, "the public clients are not installed (no network, or no Python?): run `.ci/clients/tools`");
    said
}

/// A script of `tests/clients`, in a home of its own.
fn script(home: &TempDir, name: &str, arguments: &[&str]) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
    let mut command = Command::new(tools().join("python/bin/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONWARNINGS", "ignore").env("HOME", home.path());
    for (proxy, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().to_lowercase().ends_with("_proxy"))
    {
        command.env_remove(proxy);
    }
    command.arg(scripts.join(format!("{name}.py"))).args(arguments);
    command
}

/// Runs a row to its end: it reaches at least so much, and misses nothing but what is named.
fn row(name: &str, arguments: &[&str], floor: u64, missed: &[&str]) {
    let home = TempDir::new().unwrap();
    counted(name, script(&home, name, arguments), floor, missed);
}

/// The same for any program that says in its last line what it reached.
fn counted(name: &str, command: Command, floor: u64, missed: &[&str]) {
    let ran = Ran::of(command, "");
    let last = ran.out.lines().last().unwrap_or_default();
    let told: Value = serde_json::from_str(last).unwrap_or_else(|e| panic!("{name}: {e}: {}{}", ran.out, ran.err));
    eprintln!("{name}: {}/{}", told["reached"], told["total"]);
    let misses: Vec<&String> = told["missed"].as_object().unwrap().keys().collect();
    assert_eq!(misses, missed, "{name}: {:#}", told["missed"]);
    assert!(told["reached"].as_u64().unwrap() >= floor, "{name}: {told}");
}

/// Host and port of a node.
fn address(node: &Node) -> (&str, &str) {
    node.url().trim_start_matches("http://").split_once(':').unwrap()
}

#[test]
fn the_workspace_client() {
    let node = Node::start();
    row("workspace_client", &[node.url()], 68, &[]);
}

#[test]
fn the_adapter_loop() {
    let node = Node::start();
    row("adapter", &[node.url()], 17, &[]);
}

#[test]
fn the_mcp_server_of_the_package() {
    let node = Node::start();
    row("mcp_server", &[node.url()], 11, &[]);
}

/// Neither of them can be installed from a registry here: their calls are made by hand.
#[test]
fn calls_of_the_node_connector_and_of_the_web_page() {
    let node = Node::start();
    let mut command = Command::new("node");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/connector.mjs")).arg(node.url());
    counted("connector", command, 53, &[]);
}

#[test]
fn agents_of_the_sdk() {
    let node = Node::start();
    let (host, port) = address(&node);
    row("sdk", &[host, port, &node.token], 41, &[]);
}

#[test]
fn the_stubs_of_the_agent_service() {
    let node = Node::start();
    let (host, port) = address(&node);
    row("grpc_stubs", &[host, port, &node.token], 8, &[]);
}

/// What `docs/compat.md` shows is typed as it stands there.
#[test]
fn the_page_on_compatibility_as_written() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compat.md")).unwrap();
    let blocks: Vec<&str> = page.split("```python\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 3, "{page}");
    let node = Node::start();
    for block in blocks {
        let home = TempDir::new().unwrap();
        let mut python = Command::new(tools().join("python/bin/python"));
        python.args(["-c", block]).env("HOME", home.path()).env("URL", node.url()).env("TOKEN", &node.token);
        Ran::of(python, "").ok();
    }
}

/// Says something in a channel as a native agent.
async fn say(me: &mut Member, id: &str, channel: &str, text: &str) {
    let payload = json!({ "content": text }).to_string();
    let note = Draft::note(id, &format!("channel/{channel}"), &payload);
    me.send(&Draft { kind: "workspace.message.posted", ..note }).await.unwrap().unwrap();
}

/// Waits until a native agent is told this by somebody.
async fn hears(me: &mut Member, text: &str) -> String {
    loop {
        let got = tokio::time::timeout(PATIENCE, Driver::next(me)).await.unwrap().unwrap();
        if got.text() == text {
            return got.source;
        }
    }
}

#[tokio::test]
async fn a_workspace_client_and_a_native_agent_hear_one_another() {
    let node = Node::start();
    let http = Http::new(node.url());
    let made = http.post("/v1/workspaces", "", &json!({ "name": "both" })).await.data();
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    let channel = made["channel"]["name"].as_str().unwrap();
    let place = rialto_sim::contract::Place { network: text("workspaceId"), token: text("token"), ..node.place() };
    let mut native = Member::join(&place, Carrier::WebSocket, "native").await.unwrap();
    // Whoever posts sits there.
    say(&mut native, "hello", channel, "hello").await;
    let home = TempDir::new().unwrap();
    let arguments = [node.url(), &place.network, channel, &place.token];
    let client = RunningNode::start(script(&home, "cross", &arguments));
    assert_eq!(client.line(), "ready");
    assert_eq!(hears(&mut native, "from the client").await, "openagents:py");
    say(&mut native, "wake", channel, "@py can you hear me").await;
    assert_eq!(client.line(), "woken by native: @py can you hear me");
}

#[tokio::test]
async fn a_worker_of_the_sdk_answers_a_native_agent_over_both_carriers() {
    for carrier in ["http", "grpc"] {
        let node = Node::start();
        let mut native = Member::join(&node.place(), Carrier::WebSocket, "native").await.unwrap();
        let home = TempDir::new().unwrap();
        let (host, port) = address(&node);
        let worker = RunningNode::start(script(&home, "worker", &[carrier, host, port, &node.token]));
        assert_eq!(worker.line(), "ready");
        say(&mut native, "ask", "general", "@pyworker are you there").await;
        assert_eq!(hears(&mut native, "here: @pyworker are you there").await, "agent:pyworker");
    }
}

/// Agents of the SDK as plain HTTP has them.
struct Sdk {
    http: Http,
}

impl Sdk {
    async fn register(&self, node: &Node, name: &str) -> String {
        let hash = rialto_model::hex::text(&rialto_node::identity::sha256(&node.token));
        let body = json!({ "agent_id": name, "password_hash": hash });
        self.http.post("/api/register", "", &body).await.json()["secret"].as_str().unwrap().to_owned()
    }

    async fn send(&self, name: &str, secret: &str, kind: &str, target: &str, payload: Value) -> Value {
        let event = json!({
            "event_name": kind, "source_id": name, "target_agent_id": target, "payload": payload, "secret": secret,
        });
        self.http.post("/api/send_event", "", &event).await.json()
    }

    async fn poll(&self, name: &str, secret: &str) -> Vec<Value> {
        let answer = self.http.get(&format!("/api/poll?agent_id={name}&secret={secret}"), "").await.json();
        answer["messages"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn mail_and_subscriptions_of_the_sdk_outlive_a_kill() {
    let mut node = Node::start();
    let sdk = Sdk { http: Http::new(node.url()) };
    let (ann, ben) = (sdk.register(&node, "ann").await, sdk.register(&node, "ben").await);
    let wish = json!({ "event_patterns": ["app.*"] });
    assert_eq!(sdk.send("ben", &ben, "system.subscribe_events", "", wish).await["success"], true);
    for n in 0..3 {
        let sent = sdk.send("ann", &ann, "app.note.made", "ben", json!({ "n": n })).await;
        assert_eq!(sent["success"], true, "{sent}");
    }
    assert_eq!(sdk.send("ann", &ann, "other.note.made", "ben", json!({})).await["success"], true);
    assert_eq!(sdk.poll("ben", &ben).await.len(), 3);
    node.kill();
    node.restart();
    let sdk = Sdk { http: Http::new(node.url()) };
    // Nobody had said that it arrived.
    let again = sdk.poll("ben", &ben).await;
    let numbers: Vec<&Value> = again.iter().map(|message| &message["payload"]["n"]).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!(sdk.poll("ben", &ben).await, Vec::<Value>::new());
    // A new registration replaces the secret, and a stranger learns nothing.
    let newer = sdk.register(&node, "ben").await;
    let told = sdk.http.get(&format!("/api/poll?agent_id=ben&secret={ben}"), "").await.json();
    assert_eq!((&told["success"], &told["messages"]), (&json!(false), &json!([])));
    assert!(told["error_message"].as_str().unwrap().starts_with("session_revoked: "), "{told}");
    let health = sdk.http.get("/api/health", "").await.json();
    assert_eq!((&health["data"]["agents"], &health["data"]["mods"]), (&json!({}), &json!([])));
    let known = sdk.http.get("/api/health", &newer).await.json();
    assert_eq!(known["data"]["agents"]["ann"]["address"], "agent:ann", "{known}");
    let log = node.log();
    assert!(![&ann, &ben, &newer, &node.token].iter().any(|secret| log.contains(secret.as_str())), "{log}");
}

#[tokio::test]
async fn limits_of_the_sdk() {
    let node = Node::start();
    let sdk = Sdk { http: Http::new(node.url()) };
    let (ann, ben) = (sdk.register(&node, "ann").await, sdk.register(&node, "ben").await);
    for n in 0..=limits::SDK_POLL_EVENTS_MAX {
        sdk.send("ann", &ann, "app.note.made", "ben", json!({ "n": n })).await;
    }
    assert_eq!(sdk.poll("ben", &ben).await.len(), limits::SDK_POLL_EVENTS_MAX);
    assert_eq!(sdk.poll("ben", &ben).await.len(), 1);
    for n in 0..=limits::SDK_SUBSCRIPTIONS_MAX {
        let told = sdk.send("ben", &ben, "system.subscribe_events", "", json!({ "event_patterns": ["a.*"] })).await;
        assert_eq!(told["success"], n < limits::SDK_SUBSCRIPTIONS_MAX, "{told}");
        assert!(n < limits::SDK_SUBSCRIPTIONS_MAX || told["message"].as_str().unwrap().starts_with("rate_limited: "));
    }
    let said = sdk.send("ann", &ann, "thread.channel_message.post", "channel:general", json!({ "content": "x" })).await;
    let most = "x".repeat(limits::SDK_REACTION_CHARS_MAX);
    for (kind, success) in [(most.clone(), true), (most + "x", false)] {
        let about = json!({ "target_message_id": said["event_id"], "reaction_type": kind });
        let told = sdk.send("ben", &ben, "thread.reaction.add", "", about).await;
        assert_eq!(told["success"], success, "{told}");
    }
    let told = sdk
        .send("ann", &ann, "thread.channel_messages.retrieve", "", json!({ "channel": "general", "limit": 501 }))
        .await;
    assert!(told["message"].as_str().unwrap().starts_with("invalid_argument: "), "{told}");
}

#[tokio::test]
async fn what_clients_of_workspace_servers_find_empty_or_refused() {
    let node = Node::start();
    let http = Http::new(node.url());
    let made = http.post("/v1/workspaces", "", &json!({ "name": "w", "agent_name": "ada" })).await.data();
    let (id, token) = (made["workspaceId"].as_str().unwrap(), made["token"].as_str().unwrap());
    for (path, list) in [
        ("/v1/browser/tabs", json!({ "tabs": [], "total": 0 })),
        ("/v1/browser/contexts", json!({ "contexts": [], "total": 0 })),
        ("/v1/todos", json!({ "todos": [] })),
        ("/v1/timers", json!({ "timers": [] })),
        ("/v1/routines", json!({ "routines": [] })),
        ("/v1/notifications", json!({ "notifications": [], "unread_count": 0 })),
        ("/v1/knowledge", json!({ "entries": [], "total": 0 })),
    ] {
        assert_eq!(http.get(&format!("{path}?network={id}"), token).await.data(), list, "{path}");
        assert_eq!(http.get(&format!("{path}?network={id}"), "").await.code(), "unauthenticated", "{path}");
    }
    for path in ["/v1/todos/t/done", "/v1/devices", "/v1/cloud-agents", "/v1/shares/s", "/v1/account/me"] {
        assert_eq!(http.post(path, token, &json!({})).await.code(), "unsupported", "{path}");
    }
    let member = format!("/v1/workspaces/{id}/members/ada");
    let change = json!({ "description": "writes", "enabled_skills": { "review": true } });
    let changed = http.call("PATCH", &member, token, &change.to_string()).await.unwrap().data();
    assert_eq!((&changed["description"], &changed["enabledSkills"]), (&json!("writes"), &change["enabled_skills"]));
    let status = json!({ "skill_id": "review", "state": "installed", "path": "/s" });
    let told = http.post(&format!("{member}/skills/status"), token, &status).await.data();
    assert_eq!((&told["installedSkills"], &told["skillStatus"]["review"]["path"]), (&json!(["review"]), &json!("/s")));
}
