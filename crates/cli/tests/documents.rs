//! The documents that a node serves about itself: real validators take them, and requests that are made from them find no
//! answer that they do not describe.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, reason = "tests")]

mod support;

use futures_util::{SinkExt as _, Stream, StreamExt as _};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use support::http::Http;
use support::{Node, PATIENCE, Ran, schema};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Where `.ci/documents/tools` has put the validators.
fn tools() -> PathBuf {
    let said = std::env::var_os("RIALTO_DOCUMENT_TOOLS").map(PathBuf::from);
    let said = said.unwrap_or_else(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/documents/tools");
        let known = Command::new(script).arg("--installed").output().unwrap();
        PathBuf::from(String::from_utf8(known.stdout).unwrap().trim())
    });
    let installed = said.join("python/bin/python").exists() && said.join("node_modules").exists();
    assert!(installed, "what checks the documents is not installed: run `.ci/tools tests`");
    said
}

fn python() -> Command {
    let mut command = Command::new(tools().join("python/bin/python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("NO_COLOR", "1");
    command
}

#[tokio::test]
async fn a_validator_accepts_the_openapi_document() {
    let node = Node::start();
    let document = Http::new(node.url()).get("/openapi.json", "").await.body;
    let mut command = python();
    command.args(["-m", "openapi_spec_validator", "--validation-errors", "all", "--schema", "3.1", "-"]);
    let ran = Ran::of(command, &document);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

#[tokio::test]
async fn its_parser_accepts_the_asyncapi_document() {
    let node = Node::start();
    let document = Http::new(node.url()).get("/asyncapi.json", &node.token).await.body;
    let mut command = Command::new("node");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documents/asyncapi.mjs")).arg(tools());
    let ran = Ran::of(command, &document);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
}

/// Reads a frame, and holds it against the message that the document has for its type.
async fn next_frame<S>(document: &Value, socket: &mut S) -> Value
where
    S: Stream<Item = Result<Message, Error>> + Unpin,
{
    loop {
        let message = timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap();
        let Message::Text(text) = message else { continue };
        let frame: Value = serde_json::from_str(&text).unwrap();
        let messages = &document["components"]["messages"];
        let own = &messages[format!("from-node.{}", frame["type"].as_str().unwrap())];
        let message = if own.is_object() { own } else { &messages["from-node.delivery"] };
        let faults = schema::faults(document, &message["payload"], &frame);
        assert!(faults.is_empty(), "{faults:?} in {frame}");
        return frame;
    }
}

#[tokio::test]
async fn frames_of_a_stream_are_as_the_asyncapi_document_says() {
    let node = Node::start();
    let http = Http::new(node.url());
    let document = http.get("/asyncapi.json", &node.token).await.json();
    let url = format!("{}/ws/{}", node.url().replacen("http", "ws", 1), node.network());
    let mut socket = tokio_tungstenite::connect_async(url).await.unwrap().0;
    let said = [
        (
            "network.agent.join",
            "core",
            json!({ "agent_id": "agent:ana", "credentials": { "token": node.token }, "window": 16 }),
        ),
        ("network.ping", "core", json!({ "t": 1 })),
        ("network.agent.discover", "core", json!({ "include": ["agents", "channels", "mods", "resources", "groups"] })),
        ("network.agent.announce", "core", json!({ "description": "writes", "capabilities": ["write"] })),
        ("network.channel.create", "core", json!({ "name": "plans", "title": "Plans" })),
        ("network.channel.leave", "core", json!({ "channel": "plans" })),
        ("app.note", "channel/general", json!({ "text": "hello" })),
        ("app.note", "channel/nowhere", json!({ "text": "hello" })),
        ("network.resource.register", "core", json!({ "address": "resource/file/notes", "content": "one" })),
        ("network.resource.discover", "core", json!({ "type": "file" })),
        ("network.resource.read", "resource/file/notes", json!({ "encoding": "base64" })),
        ("network.resource.update", "resource/file/notes", json!({ "content": "two", "if_version": 1 })),
        ("network.resource.unregister", "core", json!({ "address": "resource/file/notes" })),
        ("network.events.query", "core", json!({ "limit": 5, "channel": "general" })),
        ("network.event.ack", "core", json!({ "ids": ["from-ben"] })),
        ("network.mod.serve", "core", json!({ "name": "lint", "mode": "observe" })),
    ];
    for (n, (kind, target, payload)) in said.into_iter().enumerate() {
        let id = format!("said-{n}");
        let frame = json!({ "id": id, "type": kind, "source": "agent:ana", "target": target, "payload": payload });
        let own = &document["components"]["messages"][format!("from-member.{kind}")];
        if own.is_object() {
            let faults = schema::faults(&document, &own["payload"], &frame);
            assert!(faults.is_empty(), "{faults:?} in {frame}");
        }
        socket.send(Message::text(frame.to_string())).await.unwrap();
        // Acks are not answered.
        if kind == "network.event.ack" {
            continue;
        }
        let answered = async { while next_frame(&document, &mut socket).await["metadata"]["in_reply_to"] != *id {} };
        timeout(PATIENCE, answered).await.unwrap_or_else(|_| panic!("{frame} is not answered"));
    }
    // A signal that another came, and what the other sends.
    let ben = joined(&http, &node, "agent:ben").await;
    let note = json!({ "id": "from-ben", "type": "app.note", "target": "agent:ana", "payload": {} });
    http.post("/v1/events", &ben, &note).await.data();
    let mut heard = Vec::new();
    while heard.last().map(String::as_str) != Some("app.note") {
        heard.push(next_frame(&document, &mut socket).await["type"].as_str().unwrap().to_owned());
    }
    assert!(heard.contains(&"rialto.member.status".to_owned()), "{heard:?}");
}

/// Every name of a schema is used, and every reference leads somewhere.
#[tokio::test]
async fn every_reference_leads_somewhere_and_no_schema_is_left_over() {
    let node = Node::start();
    let document = Http::new(node.url()).get("/openapi.json", "").await.json();
    let mut references = Vec::new();
    collect(&document, &mut references);
    for reference in &references {
        let pointer = reference.trim_start_matches('#');
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in schemas.keys() {
        assert!(references.contains(&format!("#/components/schemas/{name}")), "nothing refers to {name}");
        assert!(!name.ends_with(|c: char| c.is_ascii_digit()), "two types are called {name}");
    }
    assert!(schemas.len() > 100, "{} schemas", schemas.len());
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.as_str() < "400"), "{method} {path} has no good answer");
            assert!(!answers.contains_key("default"), "{method} {path}");
        }
    }
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                references.push(reference.clone());
            }
            map.values().for_each(|inner| collect(inner, references));
        }
        Value::Array(list) => list.iter().for_each(|inner| collect(inner, references)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Operations that no request is made for, with the reason.
const LEFT_OUT: [(&str, &str); 5] = [
    ("stream", "a stream that does not end"),
    ("stream_in_network", "a stream that does not end"),
    ("work_stream", "a stream that does not end"),
    ("work_stream_in_network", "a stream that does not end"),
    ("websocket", "the connection becomes another one"),
];
/// Operations that may end the session that all others show: they come last.
const LAST: [&str; 2] = ["leave_in_network", "remove_in_network"];

/// One run over some operations, with one credential.
struct Run<'r> {
    node: &'r Node,
    bearer: &'r str,
    /// Values that lead to something that exists, by operation.
    settings: String,
    arguments: Vec<String>,
    examples: u32,
}

impl Run<'_> {
    #[track_caller]
    fn finds_nothing(&self, name: &str) {
        let config = self.node.path(&format!("{name}.toml"));
        std::fs::write(&config, &self.settings).unwrap();
        let mut command = python();
        command.args(["-m", "schemathesis.cli", "--config-file"]).arg(&config).arg("run");
        command.arg(format!("{}/openapi.json", self.node.url()));
        command.args(["--header", &format!("Authorization: Bearer {}", self.bearer)]);
        command.args([
            "--phases",
            "examples,coverage,fuzzing",
            "--mode",
            "all",
            "--seed",
            "7",
            "--generation-deterministic",
        ]);
        command.args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"]);
        command.args(["--checks", "response_schema_conformance,response_headers_conformance"]);
        command.args(["--max-examples", &self.examples.to_string(), "--no-shrink"]);
        command.args(["--workers", "1", "--request-timeout", "20", "--warnings", "off", "--continue-on-failure"]);
        command.args(["--suppress-health-check", "all", "--generation-with-security-parameters", "false"]);
        command.args(&self.arguments).current_dir(self.node.path("."));
        let ran = Ran::of(command, "");
        assert_eq!(ran.code, 0, "{name}:\n{}{}", ran.out, ran.err);
    }
}

fn left_out() -> Vec<String> {
    LEFT_OUT.iter().flat_map(|(id, _)| ["--exclude-operation-id".to_owned(), (*id).to_owned()]).collect()
}

/// Values for names in paths, for every operation whose path has this in it.
fn with(part: &str, values: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = values.iter().map(|(name, value)| format!("\"path.{name}\" = \"{value}\"")).collect();
    format!("[[operations]]\ninclude-path-regex = '{part}'\nparameters = {{ {} }}\n", pairs.join(", "))
}

/// Makes a little of everything, and says what it is called.
async fn furnish(node: &Node, http: &Http, session: &str) -> String {
    let send = async |event: Value| http.post("/v1/events", session, &event).await.data();
    let thread = json!({ "thread": "thread_0001" });
    send(json!({ "id": "hello", "type": "app.note", "target": "channel/general", "payload": { "text": "hello" }, "metadata": thread })).await;
    send(json!({ "id": "job", "type": "app.task", "target": "agent:ben", "payload": {}, "metadata": { "work": { "id": "job" } } })).await;
    let room = http.post("/v1/rooms", session, &json!({ "peer": "agent:ben" })).await.data();
    let file = json!({ "filename": "a.txt", "content_base64": "eA==" });
    let file = http.post("/v1/files/base64", session, &file).await.data();
    let notes = json!({ "address": "resource/file/notes", "content": "notes" });
    http.post("/v1/resources", session, &notes).await.data();
    let text = |value: &Value, key: &str| value[key].as_str().unwrap().to_owned();
    // Nothing is waited for, so that a request comes to its end.
    let mut settings = format!("[parameters]\n\"path.network\" = \"{}\"\n\"query.wait\" = 0\n", node.network());
    settings += &with("/events/.id", &[("id", "hello")]);
    settings += &with("/threads/", &[("channel", "general"), ("thread", "thread_0001")]);
    settings += &with("/work/", &[("id", "job"), ("artifact", "paper")]);
    settings += &with("/rooms/", &[("id", &text(&room, "room"))]);
    settings += &with("/files/.id", &[("id", &text(&file, "id"))]);
    settings += &with("/resources/.kind", &[("kind", "file"), ("path", "notes")]);
    settings
}

async fn joined(http: &Http, node: &Node, name: &str) -> String {
    let joined = http.post("/v1/join", &node.token, &json!({ "agent_id": name })).await.data();
    joined["session_id"].as_str().unwrap().to_owned()
}

fn arguments(paths: &str, without: &[&str]) -> Vec<String> {
    let mut list = vec!["--include-path-regex".to_owned(), paths.to_owned()];
    list.extend(left_out());
    list.extend(without.iter().flat_map(|id| ["--exclude-operation-id".to_owned(), (*id).to_owned()]));
    list
}

/// As a member that knows the names of what is there.
#[tokio::test]
async fn a_member_gets_no_answer_that_is_not_described() {
    let node = Node::start();
    let http = Http::new(node.url());
    joined(&http, &node, "agent:ben").await;
    let session = joined(&http, &node, "agent:ana").await;
    let settings = furnish(&node, &http, &session).await;
    let run = Run { node: &node, bearer: &session, settings, arguments: arguments("^/(v1/)?ws/", &LAST), examples: 8 };
    run.finds_nothing("member");
    assert_eq!(http.get("/v1/me", &session).await.status, 200, "its session ended on the way");
    let last = ["leave_in_network", "remove_in_network"];
    let mut arguments = vec![];
    last.iter().for_each(|id| arguments.extend(["--include-operation-id".to_owned(), (*id).to_owned()]));
    let settings = run.settings.clone();
    Run { arguments, settings, ..run }.finds_nothing("leaving");
    assert_eq!(http.get("/health", "").await.status, 200, "{}", node.log());
}

/// As a holder of the network's token that knows no name.
#[tokio::test]
async fn a_holder_of_a_token_gets_no_answer_that_is_not_described() {
    let node = Node::start();
    let arguments = arguments("^/(v1/(?!ws/|admin/)|health|ready|metrics|openapi|asyncapi|.well-known)", &[]);
    let settings = "[parameters]\n\"query.wait\" = 0\n".to_owned();
    Run { node: &node, bearer: &node.token, settings, arguments, examples: 4 }.finds_nothing("holder");
    assert_eq!(Http::new(node.url()).get("/health", "").await.status, 200, "{}", node.log());
}

/// As the operator, who changes one network in every way there is.
#[tokio::test]
async fn the_operator_gets_no_answer_that_is_not_described() {
    let node = Node::start();
    let http = Http::new(node.url());
    let wish = json!({ "name": "tried", "profile": "workspace" });
    let made = http.post("/v1/admin/networks", node.admin(), &wish).await.data();
    let (tried, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    http.post(&format!("/v1/ws/{tried}/join"), token, &json!({ "agent_id": "agent:ana" })).await.data();
    let members = with("/members/", &[("id", tried), ("address", "agent:ana")]);
    let mods = with("/mods/.name", &[("id", tried), ("name", "analytics")]);
    let settings = format!("{}{members}{mods}", with("/admin/networks/", &[("id", tried)]));
    let run =
        Run { node: &node, bearer: node.admin(), settings, arguments: arguments("^/v1/admin/", &[]), examples: 8 };
    run.finds_nothing("operator");
    let settings = with("/workspaces/", &[("id", tried), ("name", "general")]);
    let arguments = arguments("^/v1/workspaces", &[]);
    Run { settings, arguments, ..run }.finds_nothing("workspaces");
    assert_eq!(http.get("/health", "").await.status, 200, "{}", node.log());
}
