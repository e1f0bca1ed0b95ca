//! An agent the node starts itself talks over its stdin and stdout.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::Address;
use rialto_model::network::Preset;
use rialto_model::view::Presence;
use rialto_node::{Caller, CreateNetwork, Node, Query, RosterFilter, View};
use rialto_openagents::stdio::Spawned;
use rialto_store::MemoryStore;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Tries a foreign name first, then joins as itself, waits for one request and answers it, then writes a line over the limit.
const AGENT: &str = r#"
import json, sys
def say(e): print(json.dumps(e), flush=True)
say({"id": "no", "type": "network.agent.join", "source": "agent:mallory", "target": "core"})
assert json.loads(sys.stdin.readline())["payload"]["code"] == "source_mismatch"
print('[{"type": "network.agent.j\\u006fin", "source": "agent:mallory", "target": "core"}]', flush=True)
assert json.loads(sys.stdin.readline())["payload"]["code"] == "source_mismatch"
say({"type": "network.agent.join", "source": "agent:bot", "target": "core"})
for line in sys.stdin:
    e = json.loads(line)
    if e["type"] == "app.ask":
        say({"type": "network.event.ack", "target": "core", "payload": {"ids": [e["id"]]}})
        say({"type": "app.answer", "target": e["source"], "metadata": {"in_reply_to": e["id"]}, "payload": {"sum": sum(e["payload"]["n"])}})
        print("x" * (5 << 20), flush=True)
    if e["type"] == "network.event.error":
        say({"type": "app.seen", "target": "channel/general", "payload": {"code": e["payload"]["code"]}})
"#;

#[tokio::test]
async fn a_spawned_agent_joins_as_itself_and_answers() {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let stop = CancellationToken::new();
    let spawned = Spawned {
        name: "bot".into(),
        command: vec!["python3".into(), "-c".into(), AGENT.into()],
        address: Address::agent("bot").unwrap(),
        network: network.clone(),
        restart: true,
    };
    let running = tokio::spawn(spawned.run(stop.clone()));
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let emit = async |caller: &Arc<Caller>, event: serde_json::Value| {
        network.session(caller).emit(event.to_string().into()).await.unwrap().remove(0)
    };
    let joined =
        emit(&operator, json!({ "type": "network.agent.join", "source": "agent:alice", "target": "core" })).await;
    let alice = Arc::new(Caller {
        bearer: Some(rialto_node::identity::sha256(&joined.session_id.unwrap())),
        ..Caller::default()
    });
    let mut head = network.head();
    let wait_for = async |kind: &str, head: &mut tokio::sync::watch::Receiver<u64>| loop {
        let filter = rialto_node::Filter { kind: Some(kind.to_owned()), ..Default::default() };
        let query = Query { view: Some(View::Log), filter, ..Query::default() };
        let page = network.session(&operator).query(&query).await.unwrap();
        if let Some(record) = page.events.last() {
            return record.event.json();
        }
        tokio::time::timeout(Duration::from_secs(20), head.changed()).await.unwrap().unwrap();
    };
    // The agent may not be there yet: an unknown target is told, so try until it is.
    let asked = loop {
        let answer = emit(
            &alice,
            json!({ "id": "q1", "type": "app.ask", "target": "agent:bot", "payload": { "n": [1, 2, 39] } }),
        )
        .await;
        match answer.result {
            Ok(accepted) => break accepted,
            Err(fault) => assert_eq!(fault.code, rialto_model::ErrorCode::UnknownTarget),
        }
        tokio::time::timeout(Duration::from_secs(20), head.changed()).await.unwrap().unwrap();
    };
    assert!(asked.seq.is_some());
    let answer = wait_for("app.answer", &mut head).await;
    assert!(answer.contains("\"sum\": 42") || answer.contains("\"sum\":42"), "{answer}");
    assert!(wait_for("app.seen", &mut head).await.contains("too_large"));
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(10), running).await.unwrap().unwrap();
    let filter = RosterFilter { query: Some("bot".to_owned()), ..RosterFilter::default() };
    let roster = network.session(&operator).discover(filter).await.unwrap();
    assert_eq!(roster.agents.unwrap()[0].status, Presence::Offline);
    node.stop().await;
}
