//! Content and calls through a real node: what waits, what is answered in order, what is there after a restart.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::limits;
use rialto_model::network::Preset;
use rialto_node::{Answered, Caller, CreateNetwork, Network, Node, NodeConfig, Texts, identity::sha256};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, mpsc};

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

async fn open(dir: &Path) -> Node {
    Node::open(NodeConfig { data: Some(dir.to_path_buf()), no_search: true, ..NodeConfig::default() }).await.unwrap()
}

async fn send(network: &Network, caller: &Arc<Caller>, event: Value) -> Answered {
    network.session(caller).emit(event.to_string().into()).await.unwrap().pop().unwrap()
}

async fn join(network: &Network, name: &str) -> Arc<Caller> {
    let event = json!({ "type": "network.agent.join", "source": name, "target": "core", "payload": {} });
    let answer = send(network, &operator(), event).await;
    let session = answer.session_id.unwrap();
    Arc::new(Caller { bearer: Some(sha256(&session)), ..Caller::default() })
}

fn register(address: &str, content: &str) -> Value {
    json!({ "type": "network.resource.register", "target": "core", "payload": { "address": address, "content": content } })
}

fn code(answer: &Answered) -> &str {
    answer.result.as_ref().err().map_or("ok", |fault| fault.wire_code())
}

async fn read(network: &Network, caller: &Arc<Caller>, address: &str) -> Result<Value, String> {
    let answer = send(network, caller, json!({ "type": "network.resource.read", "target": address })).await;
    let accepted = answer.result.map_err(|fault| fault.wire_code().to_owned())?;
    Ok(serde_json::from_str(accepted.response.unwrap().payload()).unwrap())
}

#[tokio::test]
async fn content_is_there_after_a_restart_and_gone_after_its_last_name() {
    let dir = tempfile::tempdir().unwrap();
    let id;
    {
        let node = open(dir.path()).await;
        let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
        id = network.id().to_owned();
        let ana = join(&network, "agent:ana").await;
        let large = "x".repeat(600 << 10);
        assert_eq!(code(&send(&network, &ana, register("resource/file/a", "hello")).await), "ok");
        assert_eq!(code(&send(&network, &ana, register("resource/file/b", &large)).await), "ok");
        assert_eq!(code(&send(&network, &ana, register("resource/file/gone", "for a while")).await), "ok");
        let gone = json!({ "type": "network.resource.unregister", "target": "core", "payload": { "address": "resource/file/gone" } });
        assert_eq!(code(&send(&network, &ana, gone).await), "ok");
        assert_eq!(read(&network, &ana, "resource/file/b").await.unwrap_err(), "too_large");
        node.stop().await;
    }
    let node = open(dir.path()).await;
    let network = node.network(&id).unwrap();
    let bob = join(&network, "agent:bob").await;
    let content = read(&network, &bob, "resource/file/a").await.unwrap();
    assert_eq!((&content["content"], &content["version"]), (&json!("hello"), &json!(1)));
    let slice = json!({ "type": "network.resource.read", "target": "resource/file/b", "payload": { "offset": 614_398, "length": 9 } });
    let answer = send(&network, &bob, slice).await.result.unwrap();
    assert!(answer.response.unwrap().payload().contains("\"content\":\"xx\""));
    node.blobs().clean_up().await.unwrap();
    let own = network.session(&bob).resource("resource/context/skill-md", None).await.unwrap().content.unwrap().size;
    assert_eq!(node.blobs().usage(network.number()).bytes, own + 5 + (600 << 10), "what nobody names is cleaned up");
    assert_eq!(read(&network, &bob, "resource/file/a").await.unwrap()["content"], "hello");
    node.stop().await;
}

#[tokio::test]
async fn what_waits_keeps_its_order_and_holds_up_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let (ana, bob) = (join(&network, "agent:ana").await, join(&network, "agent:bob").await);
    let say = |n: usize| json!({ "id": format!("say{n}"), "type": "x.y", "target": "channel/general", "payload": { "n": n } });
    let mut batch: Vec<String> = vec![register("resource/file/a", "one").to_string()];
    batch.extend((0..20).map(|n| say(n).to_string()));
    batch.push(register("resource/file/b", "two").to_string());
    batch.push(say(20).to_string());
    batch.push("not json".to_owned());
    let (ana, bob) = (network.session(&ana), network.session(&bob));
    let (mixed, behind, other) = tokio::join!(
        ana.emit(batch.iter().collect::<Texts>()),
        ana.emit(say(21).to_string().into()),
        bob.emit(json!({ "id": "bob", "type": "x.y", "target": "channel/general" }).to_string().into()),
    );
    let mixed = mixed.unwrap();
    let codes: Vec<&str> = mixed.iter().map(code).collect();
    assert_eq!((codes.len(), codes[23]), (24, "invalid_json"));
    assert!(codes[..23].iter().all(|c| *c == "ok"), "{codes:?}");
    let seq = |answer: &Answered| answer.result.as_ref().unwrap().seq.unwrap();
    let seqs: Vec<u64> = mixed[..23].iter().map(seq).collect();
    assert!(seqs.is_sorted(), "{seqs:?}");
    assert!(seq(&behind.unwrap()[0]) > seqs[22], "a later request of the same source comes after");
    assert!(seq(&other.unwrap()[0]) < seqs[22], "somebody else does not wait");
    node.stop().await;
}

/// Keeps content from being written until it is dropped: it takes the only thread that may.
fn hold_content() -> mpsc::Sender<()> {
    let (release, held) = mpsc::channel();
    tokio::task::spawn_blocking(move || held.recv());
    release
}

#[test]
fn what_may_wait_is_bounded_per_source_and_in_all() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(what_may_wait());
}

async fn what_may_wait() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let ana = join(&network, "agent:ana").await;
    let say = |n: usize| json!({ "id": format!("s{n}"), "type": "x.y", "target": "channel/general" }).to_string();
    let many: Texts = (0..limits::PARKED_EVENTS_MAX + 1).map(say).collect();
    let large = json!({ "type": "x.y", "target": "channel/general", "payload": { "pad": "x".repeat(900 << 10) } });
    let heavy: Texts = (0..5).map(|_| large.to_string()).collect();
    assert!(heavy.bytes() > limits::PARKED_BYTES_MAX);
    let ana = network.session(&ana);
    let held = hold_content();
    let refused = async {
        let (many, heavy) = tokio::join!(ana.emit(many), ana.emit(heavy));
        drop(held);
        (many.unwrap(), heavy.unwrap())
    };
    let (first, (many, heavy), fits) = tokio::join!(
        ana.emit(register("resource/file/a", "x").to_string().into()),
        refused,
        ana.emit(say(9999).into()),
    );
    assert_eq!(code(&first.unwrap()[0]), "ok");
    assert!(many.iter().chain(&heavy).all(|a| code(a) == "rate_limited"));
    assert_eq!(code(&fits.unwrap()[0]), "ok", "what is within the bounds waits and is taken");
    let mut all = Vec::new();
    for n in 0..limits::PARKED_ALL_BYTES_MAX / (900 << 10) + 2 {
        all.push(join(&network, &format!("agent:a{n}")).await);
    }
    let big = |n: usize| register(&format!("resource/file/{n}"), &format!("{n}{}", "x".repeat(900 << 10))).to_string();
    let held = hold_content();
    let mut sent = tokio::task::JoinSet::new();
    for (n, caller) in all.into_iter().enumerate() {
        let (network, text) = (network.clone(), big(n));
        sent.spawn(async move { network.session(&caller).emit(text.into()).await.unwrap().pop().unwrap() });
    }
    // Only who is refused is answered while nothing can be written; by then all have been decided.
    let mut answers = vec![sent.join_next().await.unwrap().unwrap()];
    assert_eq!(code(&answers[0]), "rate_limited");
    assert_eq!(code(&ana.emit(say(10_000).into()).await.unwrap()[0]), "ok", "somebody else does not wait");
    drop(held);
    answers.extend(sent.join_all().await);
    let refused = answers.iter().filter(|a| code(a) == "rate_limited").count();
    assert!(refused > 0 && refused < 5, "{refused} of {}", answers.len());
    assert_eq!(answers.iter().filter(|a| code(a) == "ok").count(), answers.len() - refused);
    node.stop().await;
}

#[tokio::test]
async fn a_tools_input_is_checked_and_its_result_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path()).await;
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let (ana, bob) = (join(&network, "agent:ana").await, join(&network, "agent:bob").await);
    let schema = |input: Value| json!({ "type": "network.resource.register", "target": "core", "payload": { "address": "resource/tool/add", "schema": { "input": input, "output": { "sum": "number" } } } });
    let hostile = json!({ "$ref": "https://example.org/schema.json" });
    assert_eq!(code(&send(&network, &ana, schema(hostile)).await), "invalid_argument");
    assert_eq!(code(&send(&network, &ana, schema(json!({ "a": "number", "b": "number?" }))).await), "ok");
    let call = |id: &str, payload: Value| json!({ "id": id, "type": "network.resource.invoke", "target": "resource/tool/add", "payload": payload });
    let refused = send(&network, &bob, call("c1", json!({ "a": "one" }))).await;
    assert_eq!(code(&refused), "invalid_payload");
    let details = refused.result.unwrap_err().details.unwrap();
    assert!(details["errors"].as_array().is_some_and(|e| e.len() == 1), "{details}");
    // Large enough to be checked away from the network's task.
    let padded = json!({ "a": 1, "pad": "x".repeat(40 << 10) });
    assert_eq!(code(&send(&network, &bob, call("c2", padded)).await), "ok");
    let result = |payload: Value| json!({ "type": "network.resource.invoke.result", "target": "agent:bob", "payload": payload, "metadata": { "in_reply_to": "c2" } });
    let answer = send(&network, &ana, result(json!({ "sum": "three" }))).await.result.unwrap();
    assert!(answer.event.unwrap().event.metadata().contains("schema_warning"));
    assert_eq!(code(&send(&network, &ana, result(json!({ "sum": 3 }))).await), "no_pending_request");
    node.stop().await;
}
