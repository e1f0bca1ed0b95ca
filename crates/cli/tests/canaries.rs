//! Secrets go in by every door and come out by none: not in the log (of all levels), error bodies, metrics, audit, stored events, the
//! search index, content or backups.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, clippy::wildcard_enum_match_arm, reason = "tests")]

mod support;

use futures_util::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use rialto_openagents::grpc::pb;
use rialto_sim::contract::bearing;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::http::Http;
use support::{Node, Ran};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// All secrets begin so, those that are made up here; the node's own are added by name.
const CANARY: &str = "canary-7f3a91c4-";

/// What went in, and what came out for it.
struct Watch {
    node: Node,
    http: Http,
    sent: usize,
    /// Secrets and what they are.
    secrets: Vec<(String, String)>,
    /// Everything that was answered: to whom, and what.
    heard: Vec<(String, String)>,
}

impl Watch {
    /// A new secret for this door.
    fn secret(&mut self, door: &str) -> String {
        self.sent += 1;
        let secret = format!("{CANARY}{:02}-{}", self.sent, "x".repeat(20));
        self.secrets.push((secret.clone(), door.to_owned()));
        secret
    }

    fn hear(&mut self, door: &str, said: impl Into<String>) {
        self.heard.push((door.to_owned(), said.into()));
    }

    /// One request with these headers; `{c}` stands for the secret, everywhere.
    async fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let door = format!("{method} {path} {headers:?} {body}");
        let secret = self.secret(&door);
        let put = |text: &str| {
            text.replace("{c}", &secret).replace("{n}", self.node.network()).replace("{t}", &self.node.token)
        };
        let headers: Vec<(&str, String)> = headers.iter().map(|(name, value)| (*name, put(value))).collect();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answered = self.http.open(method, &put(path), &headers, &put(body)).await.unwrap();
        let head = format!("{:?}", answered.headers());
        let body = tokio::time::timeout(Duration::from_secs(2), answered.into_body().collect()).await;
        let body = body.ok().and_then(Result::ok).map(|all| all.to_bytes().to_vec()).unwrap_or_default();
        self.hear(&door, format!("{head}\n{}", String::from_utf8_lossy(&body)));
    }

    /// A WebSocket that says this first; `{c}` stands for the secret.
    async fn socket(&mut self, query: &str, bearer: Option<&str>, words: &str) {
        let door = format!("WebSocket {query} {bearer:?} {words}");
        let secret = self.secret(&door);
        let put = |text: &str| text.replace("{c}", &secret).replace("{t}", &self.node.token);
        let url = format!("{}/ws/{}{}", self.node.url().replacen("http", "ws", 1), self.node.network(), put(query));
        let mut request = url.into_client_request().unwrap();
        if let Some(bearer) = bearer {
            request.headers_mut().insert("authorization", put(bearer).parse().unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((mut socket, _)) => {
                let _ = socket.send(Message::text(put(words))).await;
                while let Ok(Some(Ok(frame))) = tokio::time::timeout(Duration::from_millis(300), socket.next()).await {
                    self.hear(&door, format!("{frame:?}"));
                }
            }
            Err(error) => self.hear(&door, format!("{error:?}")),
        }
    }

    fn command(&mut self, words: &[&str]) {
        let door = format!("rialto {words:?}");
        let secret = self.secret(&door);
        let words: Vec<String> = words.iter().map(|word| word.replace("{c}", &secret)).collect();
        let ran = Ran::of(self.node.command(&words), "");
        self.hear(&door, format!("{}\n{}", ran.out, ran.err));
    }

    fn find(&self, place: &str, bytes: &[u8], found: &mut Vec<String>) {
        for (secret, door) in &self.secrets {
            if bytes.windows(secret.len()).any(|window| window == secret.as_bytes()) {
                found.push(format!("{place} has what went in by {door}"));
            }
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all
}

/// Method, path, headers and body of a request.
type Attempt = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);

/// Doors over HTTP. What is accepted is here as well as what is refused.
const REQUESTS: &[Attempt] = &[
    ("GET", "/v1/ws/{n}/events", &[("authorization", "Bearer {c}")], ""),
    ("GET", "/v1/ws/{n}/events", &[("authorization", "Bearer {c}.e30.sig")], ""),
    ("GET", "/v1/ws/{n}/events", &[("authorization", "Basic {c}")], ""),
    ("GET", "/v1/ws/{n}/events", &[("authorization", "{c}")], ""),
    ("GET", "/v1/ws/{n}/events", &[("x-workspace-token", "{c}")], ""),
    (
        "GET",
        "/v1/ws/{n}/events",
        &[("authorization", "Bearer {t}"), ("x-session-id", "{c}"), ("x-agent-name", "ana")],
        "",
    ),
    ("GET", "/v1/ws/{n}/events", &[("cookie", "session={c}"), ("proxy-authorization", "Bearer {c}")], ""),
    ("GET", "/v1/ws/{n}/events/stream?token={c}", &[], ""),
    ("GET", "/v1/events/stream?network={n}&token={c}", &[], ""),
    ("GET", "/v1/ws/{n}/events?token={c}", &[], ""),
    ("GET", "/v1/files/some-file?token={c}", &[], ""),
    ("GET", "/nowhere?token={c}", &[], ""),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:eve","credentials":{"token":"{c}"}}"#),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:eve","credentials":"{c}"}"#),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:eve","credentials":"{c}.e30.c2ln"}"#),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:eve","credentials":{"invite":"{c}"}}"#),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:eve","credentials":{"jwt":"{c}"}}"#),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:eve","credentials":{"token":["{c}"]}}"#),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:eve","credentials":["{c}"]}"#),
    (
        "POST",
        "/v1/ws/{n}/join",
        &[],
        r#"{"agent_id":"agent:eve","credentials":{"key":{"nonce":"{c}","signature":"{c}"}}}"#,
    ),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:eve","credentials":{"key":"{c}"}}"#),
    (
        "POST",
        "/v1/ws/{n}/join",
        &[],
        r#"{"agent_id":"agent:pat","credentials":{"token":"{t}","password":"{c}"},"password":"{c}"}"#,
    ),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:pat","credentials":{"token":"{t}"},"session_id":"{c}"}"#),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:pat","credentials":{"token":"{t}"},"session_id":["{c}"]}"#),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_name":"eve","token":"{c}"}"#),
    ("POST", "/v1/join", &[], r#"{"agent_name":"eve","token":"{c}","network":"{n}"}"#),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:eve","credentials":{"token":"{c}",}}"#),
    ("POST", "/v1/ws/{n}/join", &[], r#"{"agent_id":"agent:eve","credentials":{"token":"{c}"#),
    (
        "POST",
        "/v1/ws/{n}/join",
        &[],
        r#"{"credentials":{"token":"{c}"},"credentials":{"token":"{c}"},"agent_id":"agent:eve"}"#,
    ),
    ("POST", "/v1/ws/{n}/join", &[], r#""{c}""#),
    (
        "POST",
        "/v1/ws/{n}/events",
        &[("authorization", "Bearer {t}")],
        r#"{"type":"a.b","source":"agent:pat","target":"core","metadata":{"session_id":"{c}"}}"#,
    ),
    (
        "POST",
        "/v1/ws/{n}/events",
        &[("authorization", "Bearer {t}")],
        r#"{"type":"a.b","source":"agent:pat","target":"core","metadata":{"session_id":["{c}"]}}"#,
    ),
    (
        "POST",
        "/v1/ws/{n}/events",
        &[("authorization", "Bearer {t}")],
        r#"{"type":"a.b","source":"agent:pat","target":"core","metadata":{"session_id":"{c}","#,
    ),
    ("POST", "/v1/ws/{n}/events", &[("authorization", "Bearer {t}")], "{\"type\":\"a.b\",\n{c}"),
    (
        "POST",
        "/v1/ws/{n}/events",
        &[("content-type", "application/x-ndjson"), ("authorization", "Bearer {c}")],
        "{\"session_id\":\"{c}\"\n",
    ),
    (
        "POST",
        "/v1/ws/{n}/events",
        &[],
        r#"{"type":"network.agent.join","source":"agent:eve","target":"core","payload":{"credentials":{"token":"{c}"}}}"#,
    ),
    (
        "POST",
        "/v1/ws/{n}/events",
        &[("authorization", "Bearer {t}")],
        r#"{"type":"network.agent.join","source":"agent:pat","target":"core","payload":{"credentials":{"token":"{t}","password":"{c}"},"session_id":"{c}"}}"#,
    ),
    (
        "POST",
        "/v1/ws/{n}/events",
        &[("authorization", "Bearer {t}")],
        r#"{"type":"network.ping","source":"agent:pat","target":"core","payload":{"session_id":"{c}"}}"#,
    ),
    (
        "POST",
        "/v1/ws/{n}/heartbeat",
        &[("authorization", "Bearer {t}")],
        r#"{"agent_id":"agent:pat","session_id":"{c}"}"#,
    ),
    ("POST", "/v1/ws/{n}/leave", &[("authorization", "Bearer {t}")], r#"{"agent_id":"agent:pat","session_id":"{c}"}"#),
    ("POST", "/v1/ws/{n}/ack", &[("authorization", "Bearer {c}")], r#"{"ids":["a"]}"#),
    ("POST", "/v1/ws/{n}/invitations/inv-1/reject", &[], r#"{"code":"{c}"}"#),
    ("POST", "/v1/token/resolve", &[], r#"{"token":"{c}"}"#),
    ("POST", "/v1/token/resolve", &[], r#"{"token":["{c}"]}"#),
    ("POST", "/v1/browser", &[], r#"{"code":"{c}"}"#),
    ("GET", "/v1/admin/networks", &[("authorization", "Bearer {c}")], ""),
    ("POST", "/v1/admin/networks", &[("authorization", "Bearer {c}")], r#"{"name":"x","password":"{c}"}"#),
    ("POST", "/v1/workspaces", &[("authorization", "Bearer {c}")], r#"{"name":"x"}"#),
    ("GET", "/metrics", &[("authorization", "Bearer {c}")], ""),
    ("GET", "/v1/admin/doctor", &[("authorization", "Bearer {c}")], ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_comes_out_anywhere() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let config = dir.path().join("rialto.toml");
    std::fs::write(&config, "[log]\nlevel = \"trace\"\n").unwrap();
    let chosen = format!("{CANARY}network-token");
    let arguments = ["--token", &chosen, "--config", config.to_str().unwrap()];
    let mut node = Node::start_in(dir, &data, &arguments);
    node.token.clone_from(&chosen);
    let http = Http::new(node.url());
    let mut watch =
        Watch { node, http, sent: 0, secrets: vec![(chosen.clone(), "--token".to_owned())], heard: Vec::new() };
    let admin = watch.node.admin().to_owned();
    watch.secrets.push((admin.clone(), "the admin secret".to_owned()));
    // Secrets that the node makes are shown to who asked for them, once, and nowhere else.
    let join = json!({ "agent_id": "agent:ana", "credentials": { "token": chosen } });
    let network = watch.node.network().to_owned();
    let session = watch.http.post(&format!("/v1/ws/{network}/join"), "", &join).await.data()["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/admin/networks/{network}/tokens");
    let token =
        watch.http.post(&path, &admin, &json!({ "label": "lent" })).await.data()["token"].as_str().unwrap().to_owned();
    let invite = json!({ "type": "workspace.invitation.created", "target": "core", "payload": { "role": "member" } });
    let invited = watch.http.post(&format!("/v1/ws/{network}/events"), &session, &invite).await;
    let code = invited.data()["result"]["code"].as_str().map(str::to_owned);
    let link = watch.http.post("/v1/admin/browser", &admin, &json!({})).await.data();
    let link = link["url"].as_str().unwrap().split("#code=").nth(1).unwrap().to_owned();
    for (secret, what) in
        [(session, "a session"), (token, "a made token"), (code.unwrap(), "an invitation"), (link, "a browser link")]
    {
        watch.secrets.push((secret, what.to_owned()));
    }

    for (method, path, headers, body) in REQUESTS {
        watch.ask(method, path, headers, body).await;
    }
    let join = r#"{"type":"network.agent.join","source":"agent:eve","target":"core","payload":{"credentials":{"token":"{c}"}}}"#;
    watch.socket("", None, join).await;
    watch.socket("?token={c}", None, "[]").await;
    watch.socket("", Some("Bearer {c}"), "[]").await;
    watch.socket("", None, r#"{"type":"network.agent.join","payload":{"credentials":{"token":"{c}"#).await;
    watch.socket("", None, r#"{"type":"network.agent.join","source":"agent:eve","target":"core","payload":{"session_id":"{c}"},"metadata":{"session_id":"{c}"}}"#).await;
    let good = r#"{"type":"network.agent.join","source":"agent:pam","target":"core","payload":{"credentials":{"token":"{t}","password":"{c}"}}}"#;
    watch.socket("", None, good).await;
    grpc(&mut watch).await;
    watch.command(&["who", "--as", "eve", "--token", "{c}"]);
    watch.command(&["send", "agent:ana", "hi", "--as", "eve", "--token", "{c}"]);
    watch.command(&["who", "--as", "eve", "--invite", "{c}", "--json"]);
    watch.command(&["send", "elsewhere::agent:bob", "hi", "--as", "ana", "--to-token", "{c}"]);
    watch.command(&["send", "elsewhere::agent:bob", "hi", "--as", "ana", "--to-url", "https://ana:{c}@node.example/"]);
    watch.command(&["bridge", "--from", "main", "--to", "https://127.0.0.1:1/", "--from-token", "{c}"]);
    assert!(watch.sent >= 20, "{} secrets", watch.sent);

    // What happened meanwhile is seen from every side.
    for line in [
        "history --json",
        "who --json",
        "audit --json",
        "dead list --json",
        "doctor --json",
        "search canary --json",
        "member list --json",
    ] {
        let ran = watch.node.line(line);
        watch.hear(line, format!("{}\n{}", ran.out, ran.err));
    }
    for path in ["/metrics", "/v1/admin/doctor", "/v1/admin/networks", "/openapi.json", "/.well-known/openagents.json"]
    {
        let answer = watch.http.get(path, &admin).await;
        watch.hear(path, answer.body);
    }
    let backup = watch.node.path("backup");
    watch.node.words(&["backup", backup.to_str().unwrap()]).ok();
    watch.node.stop();

    let mut found = Vec::new();
    for (door, said) in &watch.heard {
        watch.find(&format!("the answer to {door}"), said.as_bytes(), &mut found);
    }
    let log = watch.node.log();
    assert!(log.contains("DEBUG") || log.contains("TRACE"), "the log is not of all levels:\n{log}");
    watch.find("the log", log.as_bytes(), &mut found);
    watch.find("the backup", &std::fs::read(&backup).unwrap(), &mut found);
    let data = watch.node.data();
    let mut stored = 0;
    for file in files(&data) {
        // Sessions of the commands of this user: files of mode 0600, shown to nobody.
        if file.strip_prefix(&data).unwrap().starts_with("sessions") {
            continue;
        }
        stored += 1;
        watch.find(&file.display().to_string(), &std::fs::read(&file).unwrap(), &mut found);
    }
    assert!(stored > 3, "where is the data?");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

async fn grpc(watch: &mut Watch) {
    let mut client = watch.node.place().grpc().await.unwrap();
    let network = watch.node.network().to_owned();
    let secret = watch.secret("gRPC metadata");
    let told = client.poll(bearing(pb::PollRequest { network: network.clone(), ..Default::default() }, &secret)).await;
    watch.hear("gRPC metadata", format!("{told:?}"));
    for credentials in [r#"{"token":"{c}"}"#, r#"{"token":"{c}""#, r#""{c}""#, r#"["{c}"]"#] {
        let door = format!("gRPC join {credentials}");
        let secret = watch.secret(&door);
        let credentials = credentials.replace("{c}", &secret).into_bytes();
        let join = pb::JoinRequest {
            network: network.clone(),
            agent_id: "agent:eve".into(),
            credentials,
            ..Default::default()
        };
        let told = client.join(join).await;
        watch.hear(&door, format!("{told:?}"));
    }
}

/// The test would see one: a secret where it may be is found there.
#[test]
fn the_test_finds_what_is_there() {
    let node = Node::start();
    node.words(&["who", "--as", "ana"]).ok();
    let secret = format!("{CANARY}in-the-open");
    node.words(&["send", "agent:ana", &secret, "--as", "bob"]).ok();
    let history: Vec<Value> = node.line("history --json").ok().lines();
    assert!(format!("{history:?}").contains(&secret));
    let here = files(&node.data())
        .iter()
        .any(|file| std::fs::read(file).unwrap().windows(secret.len()).any(|window| window == secret.as_bytes()));
    assert!(here, "a stored event is not found in the files");
}
