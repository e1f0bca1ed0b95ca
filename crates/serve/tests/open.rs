//! The face over a real socket: what needs no credentials, what pages and URLs may carry, and the two forms of a path.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_carrier::{Face, FaceState, HttpService, ListenerSettings};
use rialto_model::network::{Policy, Preset};
use rialto_node::{AdminOp, CreateNetwork, Network, Node};
use rialto_openagents::OpenAgents;
use rialto_operator::Operator;
use rialto_serve::Listener;
use rialto_store::MemoryStore;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

struct Server {
    node: Node,
    network: Network,
    token: String,
    addr: SocketAddr,
    stop: CancellationToken,
}

async fn server(policy: Policy) -> Server {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    let wish = CreateNetwork { policy, ..CreateNetwork::named("main", Preset::Workspace) };
    let (network, token) = node.create_network(wish).await.unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None, 100).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let allowed_origins = vec!["https://ui.example".to_owned()];
    let settings = ListenerSettings { listen: addr.to_string(), allowed_origins, ..ListenerSettings::default() };
    let state = FaceState::new(node.clone(), settings, stop.clone());
    let faces: Vec<Box<dyn Face>> =
        vec![Box::new(OpenAgents::new(state.clone())), Box::new(Operator::new(state.clone()))];
    tokio::spawn(listener.serve(HttpService::new(state, faces), stop.clone()));
    let token = token.map(|t| t.expose().to_owned()).unwrap_or_default();
    Server { node, network, token, addr, stop }
}

/// Status, headers and body of one answer.
struct AnswerInFlight {
    status: u16,
    head: String,
    body: String,
}

impl AnswerInFlight {
    fn data(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        serde_json::from_str::<Value>(&self.body).unwrap()["data"].clone()
    }
}

impl Server {
    /// One request; reads to its end, or for a moment if it has none.
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> AnswerInFlight {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.addr);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut answer)).await;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        AnswerInFlight { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    async fn get(&self, path: &str, bearer: &str) -> AnswerInFlight {
        let bearer = format!("Bearer {bearer}");
        let headers = [("Authorization", bearer.as_str())];
        self.ask("GET", path, if bearer.len() > 7 { &headers } else { &[] }, "").await
    }

    async fn post(&self, path: &str, bearer: &str, body: &Value) -> AnswerInFlight {
        let bearer = format!("Bearer {bearer}");
        let headers = [("Authorization", bearer.as_str())];
        self.ask("POST", path, if bearer.len() > 7 { &headers } else { &[] }, &body.to_string()).await
    }

    async fn join(&self, name: &str) -> String {
        let body = json!({ "agent_id": name, "credentials": { "token": self.token } });
        let joined = self.post("/v1/join", "", &body).await.data();
        joined["session_id"].as_str().unwrap().to_owned()
    }

    async fn end(self) {
        self.stop.cancel();
        self.node.stop().await;
    }
}

fn ids(page: &Value) -> Vec<&str> {
    page["events"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn two_strangers_exchange_an_event_with_two_calls_each() {
    let server = server(Policy::Open).await;
    let bob = server.post("/v1/join", "", &json!({ "agent_id": "bob" })).await.data();
    let alice = server.post("/v1/join", "", &json!({ "agent_id": "alice" })).await.data();
    let session = |joined: &Value| joined["session_id"].as_str().unwrap().to_owned();
    let event = json!({ "id": "hello", "type": "app.note", "target": "agent:bob", "payload": { "text": "hi" } });
    server.post("/v1/events", &session(&alice), &event).await.data();
    let page = server.get("/v1/events?wait=5", &session(&bob)).await.data();
    assert_eq!(ids(&page), ["hello"]);
    server.end().await;
}

#[tokio::test]
async fn pages_of_allowed_origins_may_ask_and_others_may_not() {
    let server = server(Policy::Token).await;
    let preflight = |origin: &'static str| [("Origin", origin), ("Access-Control-Request-Method", "POST")];
    let answer = server.ask("OPTIONS", "/v1/events", &preflight("https://ui.example"), "").await;
    assert_eq!(answer.status, 204, "{}", answer.body);
    assert!(answer.head.contains("access-control-allow-origin: https://ui.example"), "{}", answer.head);
    assert!(answer.head.contains("authorization") && answer.head.contains("vary: origin"), "{}", answer.head);
    let plain = server.ask("GET", "/health", &[("Origin", "https://ui.example")], "").await;
    assert_eq!(plain.status, 200);
    assert!(plain.head.contains("access-control-allow-origin: https://ui.example"));
    let foreign = server.ask("OPTIONS", "/v1/events", &preflight("https://evil.example"), "").await;
    assert_eq!(foreign.status, 403);
    assert!(!foreign.head.contains("access-control-allow"), "{}", foreign.head);
    // A page of this machine may read what a listener of this machine says.
    let near = server.ask("OPTIONS", "/v1/events", &preflight("http://localhost:3000"), "").await;
    assert!(near.head.contains("access-control-allow-origin: http://localhost:3000"), "{}", near.head);
    server.end().await;
}

#[tokio::test]
async fn secrets_are_read_from_urls_only_where_nothing_else_is_possible() {
    let server = server(Policy::Token).await;
    let session = server.join("agent:alice").await;
    let token = server.token.clone();
    for path in [
        format!("/v1/events?view=log&token={token}"),
        format!("/v1/events?view=log&agent_name=alice&token={token}"),
        format!("/v1/events?view=inbox&session_id={session}"),
        format!("/v1/discover?token={token}"),
    ] {
        assert_eq!(server.get(&path, "").await.status, 401, "{path}");
    }
    for secret in [&token, &session] {
        let stream = server.get(&format!("/v1/events/stream?view=log&token={secret}"), "").await;
        assert_eq!(stream.status, 200, "{}", stream.body);
    }
    server.end().await;
}

/// Every call is a sign of life, so the second of two equal calls tells a later one.
fn forget_when_seen(body: &mut Value) {
    match body {
        Value::Object(members) => {
            members.remove("last_seen_at");
            members.values_mut().for_each(forget_when_seen);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_when_seen),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[tokio::test]
async fn the_two_forms_of_a_path_are_one() {
    let server = server(Policy::Token).await;
    let session = server.join("agent:alice").await;
    let event =
        json!({ "id": "e1", "type": "app.note", "target": "channel/general", "metadata": { "thread": "thread_abc" } });
    server.post("/v1/events", &session, &event).await.data();
    let id = server.network.id().to_owned();
    let scoped: Vec<&str> = rialto_openagents::ops::OPS
        .iter()
        .filter(|op| op.scoped && op.method == "get" && op.id != "stream")
        .map(|op| op.path)
        .collect();
    assert!(scoped.len() > 7, "{scoped:?}");
    for path in scoped {
        let path = path.replace("{id}", "e1");
        let rest = path.strip_prefix("/v1/").unwrap();
        for bearer in ["", session.as_str(), server.token.as_str()] {
            let plain = server.get(&format!("{path}?network={id}&channel=general"), bearer).await;
            let below = server.get(&format!("/v1/ws/{id}/{rest}?channel=general"), bearer).await;
            let seen_at = |a: &AnswerInFlight| serde_json::from_str::<Value>(&a.body).unwrap();
            let (mut one, mut other) = (seen_at(&plain), seen_at(&below));
            forget_when_seen(&mut one);
            forget_when_seen(&mut other);
            assert_eq!((plain.status, one), (below.status, other), "{path}");
        }
    }
    for body in [json!({ "ids": ["none"] }), json!({ "agent_id": "agent:alice" })] {
        let path = if body.get("ids").is_some() { "ack" } else { "heartbeat" };
        let plain = server.post(&format!("/v1/{path}?network={id}"), &session, &body).await;
        let below = server.post(&format!("/v1/ws/{id}/{path}"), &session, &body).await;
        assert_eq!((plain.status, plain.body), (below.status, below.body), "{path}");
    }
    server.end().await;
}

#[tokio::test]
async fn strangers_hear_of_listed_networks_alone() {
    let server = server(Policy::Token).await;
    let (hidden, token) = server.node.create_network(CreateNetwork::named("den", Preset::Plain)).await.unwrap();
    hidden.admin(AdminOp::Settings(json!({ "metadata": { "listed": false } }))).await.unwrap();
    let (id, token) = (hidden.id().to_owned(), token.unwrap().expose().to_owned());
    for path in ["/metrics", "/.well-known/openagents.json"] {
        let answer = server.get(path, "").await;
        assert!(answer.status == 200 && answer.body.contains(server.network.id()), "{path}");
        assert!(!answer.body.contains(&id), "{path}: {}", answer.body);
    }
    for path in [format!("/v1/ws/{id}"), format!("/v1/ws/{id}/profile"), format!("/v1/ws/{id}/asyncapi.json")] {
        let unknown = server.get(&path.replace(&id, "ffffffff"), "").await;
        let answer = server.get(&path, "").await;
        assert_eq!((answer.status, &answer.body), (404, &unknown.body), "{path}: the same as one that is not there");
        assert_eq!(server.get(&path, &token).await.status, 200, "{path}");
    }
    let admin = server.node.admin_secret().expose().to_owned();
    assert!(server.get("/metrics", &admin).await.body.contains(&id));
    // A name that is taken is told to nobody but the operator.
    let change = json!({ "name": "den" }).to_string();
    let path = format!("/v1/admin/networks/{}", server.network.id());
    assert_eq!(server.ask("PATCH", &path, &[], &change).await.status, 401);
    let bearer = format!("Bearer {admin}");
    assert_eq!(server.ask("PATCH", &path, &[("Authorization", bearer.as_str())], &change).await.status, 409);
    server.end().await;
}

#[tokio::test]
async fn ack_false_acks_nothing_and_after_acks_what_passes() {
    let server = server(Policy::Token).await;
    let (alice, bob) = (server.join("agent:alice").await, server.join("agent:bob").await);
    for (id, kind) in [("a1", "app.a"), ("b1", "app.b"), ("a2", "app.a"), ("b2", "app.b")] {
        let event = json!({ "id": id, "type": kind, "target": "agent:bob" });
        server.post("/v1/events", &alice, &event).await.data();
    }
    let inbox = async |query: &str| server.get(&format!("/v1/events?{query}"), &bob).await.data();
    assert_eq!(ids(&inbox("after=a2&ack=false").await), ["b2"]);
    assert_eq!(ids(&inbox("").await), ["a1", "b1", "a2", "b2"], "nothing was acked");
    assert_eq!(ids(&inbox("after=b2&type=app.a").await), [""; 0]);
    assert_eq!(ids(&inbox("").await), ["b1", "b2"], "what passes was acked");
    assert_eq!(ids(&inbox("after=b1").await), ["b2"]);
    assert_eq!(ids(&inbox("").await), ["b2"]);
    server.end().await;
}
