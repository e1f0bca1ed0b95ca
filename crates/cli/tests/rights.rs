//! Who may do what: every operation of the node against every kind of caller, on the real binary.
//!
//! The cells are in `vectors/rights.json`; `docs/rights.md` shows them. `RIALTO_RIGHTS=print` prints what the node does in the
//! form of that file, to be read before it is believed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::wildcard_enum_match_arm, unreachable_pub, reason = "tests")]

mod support;

use rialto_carrier::operations::{Op, scoped_path};
use rialto_openagents::ops::OPS;
use rialto_sim::contract::{Carrier, Draft, Member};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use support::Node;
use support::http::Http;

/// Kinds of callers of an HTTP operation, each with the credential it shows.
const CALLERS: [&str; 13] = [
    "stranger",
    "wrong token",
    "expired token",
    "revoked token",
    "ended session",
    "invitation",
    "other network",
    "observer",
    "bare token",
    "named token",
    "member",
    "master",
    "operator",
];

/// Refusals that are about who calls. Everything else means that the caller got through.
const REFUSALS: [&str; 10] = [
    "unauthenticated",
    "token_required",
    "invalid_token",
    "session_revoked",
    "session_expired",
    "forbidden",
    "not_a_member",
    "observer_read_only",
    "network_not_found",
    "permission_denied",
];

/// Operations that change what the rest of the row stands on: they come last, in this order.
const LAST: [&str; 6] = [
    "admin_revoke_token",
    "admin_change_network",
    "change_workspace",
    "archive_workspace",
    "admin_import_network",
    "leave",
];
/// Operations whose requests are of another form: streams that do not end by themselves, and a form whose twin is in the table.
const APART: [&str; 3] = ["stream", "work_stream", "upload_file"];

fn file() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/rights.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// One network with one caller in it.
struct Scene {
    http: Http,
    network: String,
    bearer: String,
}

impl Scene {
    async fn set(node: &Node, n: usize, caller: &str) -> Scene {
        let http = Http::new(node.url());
        let admin = node.admin();
        let made =
            http.post("/v1/admin/networks", admin, &json!({ "name": format!("r{n}"), "profile": "workspace" })).await;
        let (network, token) = (text(&made.data(), "id"), text(&made.data(), "token"));
        let under = format!("/v1/admin/networks/{network}");
        let join = async |who: &str, bearer: &str| {
            let answer = http.post(&format!("/v1/ws/{network}/join"), bearer, &json!({ "agent_id": who })).await;
            text(&answer.data(), "session_id")
        };
        let more = async |wish: Value| text(&http.post(&format!("{under}/tokens"), admin, &wish).await.data(), "token");
        join("agent:peer", &token).await;
        let bearer = match caller {
            "stranger" => String::new(),
            "wrong token" => "no-token-of-this-network".to_owned(),
            "expired token" => more(json!({ "expires_at": 1 })).await,
            "revoked token" => {
                let token = more(json!({ "label": "gone" })).await;
                http.call("DELETE", &format!("{under}/tokens/gone"), admin, "").await.unwrap().data();
                token
            }
            "ended session" => {
                let token = more(json!({ "label": "gone" })).await;
                let session = join("agent:me", &token).await;
                http.call("DELETE", &format!("{under}/tokens/gone"), admin, "").await.unwrap().data();
                session
            }
            "invitation" => {
                text(&http.post(&format!("/v1/ws/{network}/invitations"), admin, &json!({})).await.data(), "code")
            }
            "other network" => {
                let made = http.post("/v1/admin/networks", admin, &json!({ "name": format!("o{n}") })).await.data();
                let path = format!("/v1/ws/{}/join", text(&made, "id"));
                text(
                    &http.post(&path, &text(&made, "token"), &json!({ "agent_id": "agent:me" })).await.data(),
                    "session_id",
                )
            }
            "observer" => join("agent:me", &more(json!({ "role": "observer" })).await).await,
            "bare token" => token,
            "named token" => {
                let own = more(json!({ "agent": "me" })).await;
                join("agent:me", &own).await;
                own
            }
            "member" => join("agent:me", &token).await,
            "master" => {
                let session = join("agent:me", &token).await;
                let path = format!("{under}/members/agent:me");
                http.call("PATCH", &path, admin, r#"{"role":"master"}"#).await.unwrap().data();
                session
            }
            _ => admin.to_owned(),
        };
        Scene { http, network, bearer }
    }

    /// What comes of an operation: `yes`, or the code it is refused with.
    async fn outcome(&self, op: &Op) -> String {
        let path = scoped_path(op).unwrap_or_else(|| op.path.to_owned()).replace("{network}", &self.network);
        let path = match op.id {
            "stage_blob" => path,
            _ => path.replace("/networks/{id}", &format!("/networks/{}", self.network)),
        };
        let path = path.replace("/workspaces/{id}", &format!("/workspaces/{}", self.network));
        let (path, body) = (filled(&path), body(op.id));
        // A file that is no text is an answer.
        let answer = self.http.call(&op.method.to_uppercase(), &path, &self.bearer, &body).await;
        let Ok(answer) = answer else { return "yes".to_owned() };
        let error = serde_json::from_str::<Value>(&answer.body).unwrap_or_default();
        let code = error["error"]["code"].as_str().unwrap_or_default().to_owned();
        if REFUSALS.contains(&code.as_str()) { code } else { "yes".to_owned() }
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}")).to_owned()
}

/// Parts of a path that are left name nothing that exists.
fn filled(path: &str) -> String {
    let mut out = String::new();
    for part in path.split('/') {
        let part = match part {
            "{address}" | "{name}" if path.contains("/members/") => "agent:nobody",
            "{kind}" => "file",
            "{*path}" => "nothing",
            part if part.starts_with('{') => "nothing",
            part => part,
        };
        out.push('/');
        out.push_str(part);
    }
    format!("/{}", out.trim_start_matches('/'))
}

/// A body that is well-formed and does little.
fn body(id: &str) -> String {
    let body = match id {
        "join" => json!({ "agent_id": "agent:fresh" }),
        "emit" => json!({ "type": "app.note", "target": "channel/general", "payload": {} }),
        "ack" => json!({ "ids": ["seq:1"] }),
        "remove" => json!({ "agent_name": "nobody" }),
        "change_me" => json!({ "dnd": false }),
        "open_work" => json!({ "target": "agent:peer", "content": "please" }),
        "open_room" => json!({ "peer": "agent:peer" }),
        "register_resource" => json!({ "address": "resource/file/mine", "type": "file", "content": "x" }),
        "change_resource" => json!({ "content": "x" }),
        "upload_file_base64" => json!({ "filename": "a.txt", "content_base64": "eA==" }),
        "create_workspace" => json!({ "name": "made" }),
        "change_workspace" => json!({ "settings": {} }),
        "create_session" => json!({ "title": "one" }),
        "change_channel" => json!({ "starred": true }),
        "change_member" => json!({ "role": "observer" }),
        "skill_status" => json!({ "skill_id": "s", "state": "installed" }),
        "composing" => json!({ "channel": "general" }),
        "invite" => json!({}),
        "resolve_token" => json!({ "token": "nothing" }),
        "reject_invitation" => json!({ "code": "nothing" }),
        "browser" => json!({ "code": "nothing" }),
        "admin_create_network" => json!({ "name": "" }),
        "admin_new_token" => json!({ "label": "another" }),
        "admin_set_group" => json!({ "members": [] }),
        "admin_change_member" => json!({ "role": "member" }),
        "admin_load_mod" | "admin_set_mod" => json!({ "name": "nothing" }),
        "admin_order_mods" => json!({ "names": ["nothing"] }),
        "admin_approve_mod" => json!({ "address": "agent:nobody", "approved": true }),
        "admin_retry_dead_letters" | "admin_drop_dead_letters" | "admin_redact" => json!({ "event_id": "nothing" }),
        _ => json!({}),
    };
    body.to_string()
}

fn operations() -> Vec<&'static Op> {
    let place = |op: &Op| LAST.iter().position(|last| *last == op.id).map_or(0, |at| at + 1);
    let mut ops: Vec<&Op> = OPS
        .iter()
        .chain(rialto_operator::ops::OPS)
        .filter(|op| op.path.starts_with("/v1/") && !APART.contains(&op.id))
        .collect();
    ops.sort_by_key(|op| place(op));
    ops
}

#[tokio::test]
async fn every_http_operation_for_every_caller() {
    let node = Node::start_with(&["--public-url", "https://rialto.example"]);
    let mut seen: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for (n, caller) in CALLERS.into_iter().enumerate() {
        let scene = Scene::set(&node, n, caller).await;
        for op in operations() {
            // Whoever replaces the token ends its own session: that is tried where nothing else is.
            let outcome = match op.id {
                "rotate_token" => Scene::set(&node, n + CALLERS.len(), caller).await.outcome(op).await,
                _ => scene.outcome(op).await,
            };
            seen.entry(op.id).or_default().insert(caller.to_owned(), outcome.into());
        }
    }
    let mut rows = Map::new();
    for (id, cells) in seen {
        rows.insert(id.to_owned(), Value::Object(cells));
    }
    compare("http", Value::Object(rows));
}

/// Prints what was seen, or holds it against the file.
#[track_caller]
fn compare(part: &str, seen: Value) {
    if std::env::var("RIALTO_RIGHTS").is_ok_and(|wish| wish == "print") {
        eprintln!("{part}: {seen}");
        return;
    }
    let want = &file()[part];
    let mut wrong = Vec::new();
    for (row, cells) in seen.as_object().unwrap() {
        for (caller, outcome) in cells.as_object().unwrap() {
            let expected = expected(want, row, caller);
            if expected.as_deref() != outcome.as_str() {
                wrong.push(format!("{row} by {caller}: {outcome}, the table says {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A cell: its row's own, else the one of the row's kind.
fn expected(table: &Value, row: &str, caller: &str) -> Option<String> {
    let own = table["rows"].get(row)?;
    let cell = own["cells"].get(caller).or_else(|| table["kinds"][own["kind"].as_str()?].get(caller));
    cell.and_then(Value::as_str).map(str::to_owned)
}

/// Events that ask for a right.
const EVENTS: [(&str, &str, &str, &str); 6] = [
    ("send to a channel", "app.note", "channel/general", "{}"),
    ("send to a member", "app.note", "agent:peer", "{}"),
    ("make a channel", "network.channel.create", "core", r#"{"name":"mine"}"#),
    ("remove a member", "network.agent.remove", "core", r#"{"address":"agent:nobody"}"#),
    ("serve a mod", "network.mod.serve", "core", r#"{"name":"spy","mode":"observe"}"#),
    ("register a resource", "network.resource.register", "core", r#"{"address":"resource/file/m","content":"x"}"#),
];
const CARRIERS: [(&str, Carrier); 3] =
    [("WebSocket", Carrier::WebSocket), ("gRPC Connect", Carrier::GrpcConnect), ("gRPC Send", Carrier::GrpcUnary)];

#[tokio::test]
async fn every_event_for_every_role_on_every_stream() {
    let node = Node::start();
    let http = Http::new(node.url());
    let place = node.place();
    http.post("/v1/join", &node.token, &json!({ "agent_id": "agent:peer" })).await.data();
    let mut rows = Map::new();
    for (c, (_, carrier)) in CARRIERS.into_iter().enumerate() {
        for role in ["observer", "member", "master"] {
            let name = format!("{role}-{c}");
            let wish = if role == "observer" { "observer" } else { "member" };
            let mut me = Member::join_as(&place, carrier, &name, wish).await.unwrap();
            if role == "master" {
                node.line(&format!("member role {name} master")).ok();
            }
            for (n, (row, kind, target, payload)) in EVENTS.into_iter().enumerate() {
                let payload =
                    payload.replace("mine", &format!("mine-{name}")).replace("file/m", &format!("file/{name}"));
                let draft = Draft { kind, ..Draft::note(&format!("{name}-{n}"), target, &payload) };
                let outcome = match me.send(&draft).await.unwrap() {
                    Ok(_) => "yes".to_owned(),
                    Err(refused) if REFUSALS.contains(&refused.code.as_str()) => refused.code,
                    Err(_) => "yes".to_owned(),
                };
                let cells = rows.entry(row).or_insert_with(|| json!({}));
                let known = cells.as_object_mut().unwrap().insert(role.to_owned(), outcome.clone().into());
                assert!(known.is_none_or(|k| k == outcome.as_str()), "{row} by {role} differs between carriers");
            }
        }
    }
    compare("events", Value::Object(rows));
}

/// Calls of agents of the SDK, each with what it is sent with.
const SDK_CALLS: [(&str, &str, &str, &str); 14] = [
    ("send to a member", "app.note.made", "peer", "{}"),
    ("send to a channel", "app.note.made", "channel:general", "{}"),
    ("post a message", "thread.channel_message.post", "channel:general", r#"{"content":{"text":"x"}}"#),
    ("read a channel", "thread.channel_messages.retrieve", "", r#"{"channel":"general"}"#),
    ("react", "thread.reaction.add", "", r#"{"target_message_id":"nothing","reaction_type":"+1"}"#),
    ("bring a file", "thread.file.upload", "", r#"{"filename":"a","file_content":"eA=="}"#),
    ("list members", "system.list_agents", "", "{}"),
    ("list channels", "system.list_channels", "", "{}"),
    ("poll", "system.poll_messages", "", "{}"),
    ("subscribe", "system.subscribe_events", "", r#"{"event_patterns":["*"]}"#),
    ("ask about a password", "system.verify_password", "", r#"{"password_hash":"00"}"#),
    ("remove a member", "system.kick_agent", "", r#"{"target_agent_id":"nobody"}"#),
    ("load a mod", "system.mod.enable", "", r#"{"mod_path":"analytics"}"#),
    ("set a group", "system.update_agent_groups", "", r#"{"action":"create","group_name":"g"}"#),
];

#[tokio::test]
async fn every_call_of_the_sdk_for_every_caller() {
    let node = Node::start();
    let http = Http::new(node.url());
    let join = async |who: &str, bearer: &str| {
        text(&http.post("/v1/join", bearer, &json!({ "agent_id": who })).await.data(), "session_id")
    };
    join("agent:peer", &node.token).await;
    let other = http.post("/v1/admin/networks", node.admin(), &json!({ "name": "other" })).await.data();
    let path = format!("/v1/ws/{}/join", text(&other, "id"));
    let elsewhere = http.post(&path, &text(&other, "token"), &json!({ "agent_id": "agent:me-elsewhere" })).await.data();
    let watch = node.line("network token new --role observer").ok().out.trim().to_owned();
    let master = join("agent:me-master", &node.token).await;
    node.line("member role me-master master").ok();
    let ended = join("agent:me-ended", &node.token).await;
    join("agent:me-ended", &node.token).await;
    let member = join("agent:me-member", &node.token).await;
    let mut rows = Map::new();
    for (caller, name, secret) in [
        ("stranger", "me-nobody", String::new()),
        ("wrong secret", "me-nobody", "no-secret-of-anybody".to_owned()),
        ("somebody else's secret", "peer", member.clone()),
        ("ended session", "me-ended", ended),
        ("other network", "me-elsewhere", text(&elsewhere, "session_id")),
        ("operator's secret", "me-nobody", node.admin().to_owned()),
        ("bare token", "me-nobody", node.token.clone()),
        ("observer", "me-observer", join("agent:me-observer", &watch).await),
        ("member", "me-member", member),
        ("master", "me-master", master),
    ] {
        for (row, kind, target, payload) in SDK_CALLS {
            let payload: Value = serde_json::from_str(payload).unwrap();
            let event = json!({
                "event_name": kind, "source_id": name, "target_agent_id": target, "payload": payload, "secret": secret,
            });
            let answer = http.post("/api/send_event", "", &event).await.json();
            let code = answer["message"].as_str().unwrap().split(':').next().unwrap().to_owned();
            let refused =
                answer["success"] == false && [&REFUSALS[..], &["source_mismatch"]].concat().contains(&&*code);
            let cells = rows.entry(row).or_insert_with(|| json!({}));
            let outcome = if refused { code } else { "yes".to_owned() };
            cells.as_object_mut().unwrap().insert(caller.to_owned(), outcome.into());
        }
        let answer =
            http.call("GET", &format!("/api/poll?agent_id={name}&secret={secret}"), "", "").await.unwrap().json();
        let polled = &rows["poll"][caller];
        assert_eq!(answer["success"], polled == "yes", "{caller}: {answer}");
    }
    compare("sdk", Value::Object(rows));
}

/// Commands, and whom each takes, by exit code: 0 means that it was done, 3 that it found nothing to do it to.
const COMMANDS: [&str; 14] = [
    "send channel/general hello",
    "inbox",
    "history",
    "who",
    "member list",
    "member role agent:nobody master",
    "member release agent:nobody",
    "session list",
    "session end agent:nobody",
    "token list",
    "network set names owned",
    "network invite list",
    "audit",
    "browser",
];

#[tokio::test]
async fn every_command_for_every_credential() {
    let node = Node::start();
    let watch = node.line("network token new --role observer").ok().out.trim().to_owned();
    let own = node.line("network token new --agent me --label own").ok().out.trim().to_owned();
    let gone = node.line("network token new --label gone").ok().out.trim().to_owned();
    let code = node.line("network invite --uses 50").ok().out.trim().to_owned();
    node.line("token revoke gone").ok();
    let mut rows = Map::new();
    for command in COMMANDS {
        let mut cells = Map::new();
        for (caller, token) in [
            ("stranger", ""),
            ("revoked token", &gone),
            ("observer", &watch),
            ("bare token", &node.token),
            ("named token", &own),
        ] {
            let name =
                if caller == "named token" { "me".to_owned() } else { format!("cli-{}", caller.replace(' ', "-")) };
            let mut words = support::rialto();
            words.env("RIALTO_DATA", node.path(&name)).env("RIALTO_URL", node.url());
            if !token.is_empty() {
                words.env("RIALTO_TOKEN", token);
            }
            words.args(command.split(' ')).args(["--as", &name]);
            let ran = support::Ran::of(words, "");
            cells.insert(caller.to_owned(), json!(ran.code.to_string()));
        }
        let mut words = support::rialto();
        let data = tempfile::tempdir().unwrap();
        words.env("RIALTO_DATA", data.path()).env("RIALTO_URL", node.url()).args(command.split(' '));
        words.args(["--as", &format!("guest-{}", rows.len()), "--invite", &code]);
        cells.insert("invitation".to_owned(), json!(support::Ran::of(words, "").code.to_string()));
        cells.insert("operator".to_owned(), json!(node.line(command).code.to_string()));
        rows.insert(command.to_owned(), Value::Object(cells));
    }
    compare("commands", Value::Object(rows));
}

#[test]
fn the_table_has_every_operation_and_no_other() {
    let table = file();
    let listed: Vec<&str> = table["http"]["rows"].as_object().unwrap().keys().map(String::as_str).collect();
    let mut served: Vec<&str> = operations().iter().map(|op| op.id).collect();
    served.sort_unstable();
    assert_eq!(listed, served);
}
