//! `docs/api.md`: every operation with an example that is typed here against a node. `UPDATE_EXPECT=1` writes the page anew.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, reason = "tests")]

#[path = "api/examples.rs"]
mod examples;
#[path = "api/page.rs"]
mod page;
mod support;

use bytes::Bytes;
use examples::{Body, EXAMPLES, Example};
use expect_test::expect_file;
use http_body_util::BodyExt as _;
use rialto_carrier::operations::Op;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use support::Node;
use support::http::Http;
use support::schema;

/// Every operation of every face, in the order of the page.
fn operations() -> Vec<&'static Op> {
    let tables = [
        rialto_openagents::ops::OPS,
        rialto_openagents::docs::OPS,
        rialto_openagents::sdk::OPS,
        rialto_operator::ops::OPS,
        rialto_carrier::service::OPS,
    ];
    tables.into_iter().flatten().collect()
}

/// What came of an example.
#[derive(Debug, Clone)]
pub struct Tried {
    status: u16,
    content_type: String,
    /// Nothing of a body that does not end.
    body: Option<Bytes>,
    /// What had a name then.
    names: BTreeMap<String, String>,
}

/// The examples as they are typed, one after the other: what an answer gives has a name in the examples after it.
struct Session {
    node: Node,
    http: Http,
    names: BTreeMap<String, String>,
    /// The last file that was downloaded.
    file: Bytes,
}

impl Session {
    async fn begin() -> Session {
        let node = Node::start();
        let http = Http::new(node.url());
        let mut names = BTreeMap::new();
        names.insert("NETWORK".to_owned(), node.network().to_owned());
        names.insert("TOKEN".to_owned(), node.token.clone());
        names.insert("ADMIN".to_owned(), node.admin().to_owned());
        names.insert("URL".to_owned(), node.url().to_owned());
        let password = rialto_model::hex::text(&rialto_node::identity::sha256(&node.token));
        names.insert("PASSWORD".to_owned(), password);
        let ben = http.post("/v1/join", &node.token, &json!({ "agent_id": "agent:ben" })).await.data();
        names.insert("BEN".to_owned(), ben["session_id"].as_str().unwrap().to_owned());
        Session { node, http, names, file: Bytes::new() }
    }

    /// A text with the names in it replaced by what they stand for.
    fn filled(&self, text: &str) -> String {
        // The longer names first: one may begin as another does.
        self.names.iter().rev().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
    }

    async fn send(&self, example: &Example) -> Tried {
        let bearer = format!("Bearer {}", self.filled(&format!("${}", example.who)));
        let mut headers: Vec<(&str, &str)> = example.headers.to_vec();
        if !example.who.is_empty() {
            headers.push(("authorization", &bearer));
        }
        if let Body::Form(_) = example.body {
            headers.push(("content-type", "multipart/form-data; boundary=limit"));
        }
        let body = match example.body {
            Body::None => Bytes::new(),
            Body::Text(text) => self.filled(text).into(),
            Body::Form(text) => format!(
                "--limit\r\nContent-Disposition: form-data; name=\"file\"; filename=\"notes.txt\"\r\n\
                 Content-Type: text/plain\r\n\r\n{text}\r\n--limit--\r\n"
            )
            .into(),
            Body::File => self.file.clone(),
        };
        let op = example.op();
        let path = self.filled(example.path);
        let answer = self.http.open_bytes(&op.method.to_uppercase(), &path, &headers, body).await.unwrap();
        let status = answer.status().as_u16();
        let content_type = answer.headers().get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default();
        let content_type = content_type.to_owned();
        let endless = status == 101 || example.id == "stream";
        let body = if endless { None } else { Some(answer.into_body().collect().await.unwrap().to_bytes()) };
        Tried { status, content_type, body, names: BTreeMap::new() }
    }

    /// What is done around an example so that it finds something; none of it is shown.
    async fn prepare(&self, step: &str) {
        let (http, ben) = (self.http.clone(), self.names["BEN"].clone());
        let send = async |event: Value| http.post("/v1/events", &ben, &event).await.data();
        match step {
            "" => {}
            "ben writes" => {
                let note = |id: &str| json!({ "id": id, "type": "app.note", "target": "agent:ana", "payload": { "text": "hello" } });
                send(note("direct-1")).await;
                send(note("direct-2")).await;
            }
            "ben works" => {
                let blob = http.post("/v1/blobs", &ben, &json!("a summary")).await.data();
                let blob = json!({ "sha256": blob["sha256"], "content_type": "text/plain" });
                let artifact = json!({ "id": "summary", "name": "summary.txt", "blob": blob });
                let payload = json!({ "work": self.names["WORK"], "artifact": artifact });
                send(json!({ "type": "work.artifact", "target": "core", "payload": payload })).await;
                let done = json!({ "work": self.names["WORK"], "state": "completed" });
                send(json!({ "type": "work.update", "target": "core", "payload": done })).await;
            }
            "ben serves" => {
                let schema = json!({ "input": { "a": "integer", "b": "integer" } });
                let tool = json!({ "address": "resource/tool/add", "description": "adds numbers", "schema": schema });
                http.post("/v1/resources", &ben, &tool).await.data();
                tokio::spawn(async move {
                    loop {
                        let page = http.get("/v1/events?type=network.resource.invoke&wait=20", &ben).await.data();
                        let Some(call) = page["events"].as_array().unwrap().first().cloned() else { continue };
                        let answer = json!({
                            "type": "network.resource.invoke.result", "target": call["source"], "payload": { "sum": 3 },
                            "metadata": { "in_reply_to": call["id"] },
                        });
                        http.post("/v1/events", &ben, &answer).await.data();
                        break;
                    }
                });
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            "a member goes" => {
                http.post("/v1/join", &self.node.token, &json!({ "agent_id": "agent:carl" })).await.data();
            }
            other => panic!("no step {other:?}"),
        }
    }

    /// Types an example, and remembers what its answer gives.
    async fn type_in(&mut self, example: &Example) -> (Tried, Vec<String>) {
        self.prepare(example.before).await;
        let mut tried = self.send(example).await;
        let text = tried.body.as_ref().map(|body| String::from_utf8_lossy(body).into_owned()).unwrap_or_default();
        let mut faults = Vec::new();
        if tried.status != example.status {
            faults.push(format!("{}: {} and not {}: {text}", example.id, tried.status, example.status));
        }
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        for (name, pointer) in example.keeps {
            let value = json.pointer(pointer).and_then(Value::as_str);
            if let Some(value) = value {
                let value = value.rsplit_once("#code=").map_or(value, |(_, code)| code);
                self.names.insert((*name).to_owned(), value.to_owned());
            } else {
                faults.push(format!("{}: no {pointer} in {text}", example.id));
            }
        }
        if tried.content_type == "application/octet-stream" {
            self.file = tried.body.clone().unwrap_or_default();
        }
        tried.names = self.names.clone();
        (tried, faults)
    }
}

/// What in an answer is not as the document says it, or is not known there.
fn check_schema(document: &Value, op: &Op, tried: &Tried) -> Vec<String> {
    let answer = &document["paths"][op.path.replace("{*", "{")][op.method]["responses"][tried.status.to_string()];
    if !answer.is_object() {
        return vec![format!("{}: {} is not documented", op.id, tried.status)];
    }
    let schema = &answer["content"][tried.content_type.as_str()]["schema"];
    let Some(body) = tried.body.as_ref().filter(|_| tried.content_type == "application/json") else { return vec![] };
    if !schema.is_object() {
        return vec![format!("{}: {} is not documented", op.id, tried.content_type)];
    }
    let body: Value = serde_json::from_slice(body).unwrap();
    // What is in the two documents other tests look at.
    let is_document = op.id == "openapi" || op.id.ends_with("asyncapi");
    let faults = if is_document { Vec::new() } else { schema::faults(document, schema, &body) };
    faults.into_iter().map(|fault| format!("{}: {fault} in {body}", op.id)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_has_an_example_that_works() {
    let mut session = Session::begin().await;
    let document = session.http.get("/openapi.json", "").await.json();
    let (mut tried, mut faults) = (BTreeMap::new(), Vec::new());
    for example in EXAMPLES {
        let (came, wrong) = session.type_in(example).await;
        faults.extend(wrong);
        faults.extend(check_schema(&document, example.op(), &came));
        // An operation that is tried twice is shown as it was the first time.
        tried.entry(example.id).or_insert(came);
    }
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), session.node.log());
    let without: Vec<&str> = operations().iter().map(|op| op.id).filter(|id| !tried.contains_key(id)).collect();
    assert!(without.is_empty(), "no example for {without:?}");
    let page = page::page(&document, &operations(), &tried);
    expect_file![concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md")].assert_eq(&page);
}
