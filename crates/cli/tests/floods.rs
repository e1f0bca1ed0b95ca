//! More than anybody needs, through a running node: bounded, refused by name, and nobody else is kept from anything.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, reason = "tests")]

mod support;

use rialto_model::limits;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom, Write};
use std::process::{Command, Stdio};
use support::http::Http;
use support::{Node, RunningNode, until};

/// Events sent in one request.
const BATCH: usize = 2000;

/// A member that sends in batches.
struct Sender {
    http: Http,
    session: String,
    path: String,
}

impl Sender {
    async fn join(node: &Node, name: &str) -> Sender {
        let http = Http::new(node.url());
        let body = json!({ "agent_id": format!("agent:{name}") });
        let joined = http.post(&format!("/v1/ws/{}/join", node.network()), &node.token, &body).await.data();
        let session = joined["session_id"].as_str().unwrap().to_owned();
        Sender { http, session, path: format!("/v1/ws/{}/events", node.network()) }
    }

    /// Sends so many events; gives how often each code came, `ok` among them.
    async fn flood(&self, count: usize, event: impl Fn(usize) -> Value) -> BTreeMap<String, usize> {
        let mut codes = BTreeMap::new();
        for start in (0..count).step_by(BATCH) {
            let events: Vec<Value> = (start..count.min(start + BATCH)).map(&event).collect();
            let answer = self.http.post(&self.path, &self.session, &json!(events)).await.data();
            for result in answer["results"].as_array().unwrap() {
                let code = result["error"]["code"].as_str().unwrap_or("ok");
                *codes.entry(code.to_owned()).or_default() += 1;
            }
        }
        codes
    }

    /// Somebody else's message goes through.
    async fn is_heard(&self) {
        let sent = self.flood(1, |_| json!({ "type": "chat.note", "target": "core" })).await;
        assert_eq!(sent, BTreeMap::from([("ok".to_owned(), 1)]));
    }
}

fn counted<const N: usize>(codes: [(&str, usize); N]) -> BTreeMap<String, usize> {
    codes.into_iter().map(|(code, n)| (code.to_owned(), n)).collect()
}

/// Bytes of memory the node holds.
fn resident(node: &Node) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.run["pid"])).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn a_share_of_open_units_and_one_more() {
    let mut node = Node::start();
    let (alice, bob) = (Sender::join(&node, "alice").await, Sender::join(&node, "bob").await);
    let ask = |n: usize| {
        json!({ "type": "workspace.message.posted", "target": "agent:bob", "payload": { "content": "please" },
            "metadata": { "work": { "context": format!("c{n}") } } })
    };
    let most = limits::WORK_OPEN_MAX * usize::from(limits::MEMBER_SHARE_PERCENT_DEFAULT) / 100;
    let codes = alice.flood(most + 5, ask).await;
    assert_eq!(codes, counted([("ok", most), ("network_full", 5)]));
    // Whoever has so much to do is asked for no more, by anybody; for the rest both go on.
    let carol = Sender::join(&node, "carol").await;
    let rest = limits::WORK_PER_EXECUTOR_MAX - most;
    assert_eq!(carol.flood(rest, |n| ask(most + n)).await, counted([("ok", rest)]), "others have their own");
    let dora = Sender::join(&node, "dora").await;
    assert_eq!(dora.flood(3, ask).await, counted([("recipient_queue_full", 3)]));
    carol.is_heard().await;
    bob.is_heard().await;
    alice.is_heard().await;
    let last = node.words(&["work", "list", "--as", "bob", "--json"]).ok();
    assert!(last.out.contains("c9999"), "the newest come first");
    node.kill();
    node.restart();
    let http = Http::new(node.url());
    let found = http.get(&format!("/v1/ws/{}/work?context=c0", node.network()), node.admin()).await.data();
    assert_eq!(found["works"][0]["state"], json!("submitted"), "{found}");
}

#[tokio::test]
async fn a_share_of_threads_and_one_more() {
    let node = Node::start();
    let (alice, bob) = (Sender::join(&node, "alice").await, Sender::join(&node, "bob").await);
    let post = |n: usize| json!({ "type": "chat.note", "target": "channel/general", "metadata": { "thread": format!("thread_{n:06}") } });
    let most = limits::THREADS_MAX * usize::from(limits::MEMBER_SHARE_PERCENT_DEFAULT) / 100;
    assert_eq!(alice.flood(most + 3, post).await, counted([("ok", most), ("network_full", 3)]));
    assert_eq!(bob.flood(1, |_| post(most)).await, counted([("ok", 1)]), "others have their own share");
    // Those that are there go on, and so does the channel.
    assert_eq!(bob.flood(1, |_| post(7)).await, counted([("ok", 1)]));
    bob.is_heard().await;
    let listed = node.words(&["thread", "list", "general", "--as", "bob", "--json"]).ok().out;
    assert!(listed.contains("thread_000007"), "the last to be written to comes first");
    let held = resident(&node);
    assert!(held < 1 << 30, "{held} bytes");
}

#[tokio::test]
async fn calls_that_nobody_answers() {
    let node = Node::start();
    let (alice, bob) = (Sender::join(&node, "alice").await, Sender::join(&node, "bob").await);
    let tool = json!({ "type": "network.resource.register", "target": "core",
        "payload": { "address": "resource/tool/slow", "schema": { "input": { "n": "integer" } } } });
    assert_eq!(bob.flood(1, |_| tool.clone()).await, counted([("ok", 1)]));
    let call = |n: usize| {
        json!({ "type": "network.resource.invoke", "target": "resource/tool/slow", "payload": { "n": n },
            "metadata": { "timeout_ms": 600_000 } })
    };
    let most = limits::CALLS_PER_CALLER_MAX;
    assert_eq!(alice.flood(most + 100, call).await, counted([("ok", most), ("rate_limited", 100)]));
    // Others call it still, until the owner has its share.
    let carol = Sender::join(&node, "carol").await;
    assert_eq!(carol.flood(1, call).await, counted([("ok", 1)]));
    alice.is_heard().await;
    bob.is_heard().await;
}

#[tokio::test]
async fn tools_with_hostile_schemas() {
    let node = Node::start();
    let (mallory, bob) = (Sender::join(&node, "mallory").await, Sender::join(&node, "bob").await);
    // Each level names the one below twice: two to the fortieth ways through.
    let mut levels = serde_json::Map::new();
    for n in 0..40 {
        let below = json!({ "$ref": format!("#/$defs/l{}", n + 1) });
        levels.insert(format!("l{n}"), json!({ "allOf": [below, below] }));
    }
    levels.insert("l40".into(), json!({ "type": "object" }));
    let doubling = json!({ "$ref": "#/$defs/l0", "$defs": levels });
    let hostile = [
        doubling,
        json!({ "$ref": "#" }),
        json!({ "$ref": "http://127.0.0.1:1/schema.json" }),
        json!({ "type": "object", "properties": { "x": { "pattern": "(a{1000}){1000}" } } }),
        (0..200).fold(json!({}), |inner, _| json!({ "properties": { "x": inner } })),
        json!({ "description": "x".repeat(limits::SCHEMA_BYTES_MAX) }),
    ];
    let codes = mallory
        .flood(hostile.len(), |n| {
            let payload = json!({ "address": format!("resource/tool/h{n}"), "schema": { "input": hostile[n] } });
            json!({ "type": "network.resource.register", "target": "core", "payload": payload })
        })
        .await;
    // Too deep for any payload is refused as one.
    assert_eq!(codes, counted([("invalid_argument", 5), ("invalid_payload", 1)]));
    bob.is_heard().await;
}

#[test]
fn two_gibibytes_up_and_down() {
    let node = Node::start();
    let path = node.path("large");
    let mut file = std::fs::File::create(&path).unwrap();
    // A file with holes: large to read, small to have. Its ends and its middle are told apart.
    file.set_len(limits::FILE_BYTES_MAX).unwrap();
    for at in [0, limits::FILE_BYTES_MAX / 2, limits::FILE_BYTES_MAX - 8] {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&(at + 1).to_le_bytes()).unwrap();
    }
    let path = path.to_str().unwrap().to_owned();
    let put = RunningNode::start(node.command(&["resource", "put", "file/large", &path, "--as", "alice"]));
    // Nobody waits for it.
    until("the upload", || {
        node.line("send channel/general meanwhile --as bob").ok();
        put.line_within(std::time::Duration::from_millis(50))
    });
    assert!(resident(&node) < 256 << 20, "{} bytes", resident(&node));
    drop(put);
    let mut get = node.command(&["resource", "get", "file/large", "--as", "bob"]);
    let mut get = get.stdout(Stdio::piped()).spawn().unwrap();
    let same = Command::new("cmp").args(["-", &path]).stdin(get.stdout.take().unwrap()).status().unwrap();
    assert!(same.success() && get.wait().unwrap().success());
    let part =
        node.words(&["resource", "get", "file/large", "--range", "-8", "-o", &format!("{path}.end"), "--as", "bob"]);
    part.ok();
    assert_eq!(std::fs::read(format!("{path}.end")).unwrap(), (limits::FILE_BYTES_MAX - 7).to_le_bytes());
    assert!(resident(&node) < 256 << 20, "{} bytes", resident(&node));
    // One byte more is refused, by name.
    file.set_len(limits::FILE_BYTES_MAX + 1).unwrap();
    node.words(&["resource", "put", "file/larger", &path, "--as", "alice"]).fails(2, "too_large");
}
