//! `rialto dead`: what was not delivered is listed, sent again and put away, over restarts.

use crate::ids;
use crate::support::http::Http;
use crate::support::{Node, until};
use serde_json::{Value, json};

/// Sends something that nobody fetches in time.
async fn dies(node: &Node, http: &Http, session: &str, id: &str, to: &str) {
    let event = json!({
        "id": id, "type": "test.note.posted", "target": to, "payload": { "content": format!("text of {id}") },
        "metadata": { "ttl_ms": 1000 },
    });
    http.post(&format!("/v1/ws/{}/events", node.network()), session, &event).await.data();
}

fn letters(node: &Node) -> Vec<(String, String)> {
    let page = node.line("dead list --json").ok().json();
    let text = |letter: &Value, name: &str| letter[name].as_str().unwrap_or_default().to_owned();
    page["dead_letters"].as_array().unwrap().iter().map(|l| (text(l, "event_id"), text(l, "recipient"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_retried_and_dropped_over_restarts() {
    let mut node = Node::start();
    let http = Http::new(node.url());
    for name in ["bob", "carol"] {
        node.words(&["inbox", "--as", name]).ok();
    }
    let join = json!({ "agent_id": "agent:alice" });
    let joined = http.post(&format!("/v1/ws/{}/join", node.network()), &node.token, &join).await.data();
    let session = joined["session_id"].as_str().unwrap().to_owned();
    assert_eq!(letters(&node), []);
    for (id, to) in [("m1", "agent:bob"), ("m2", "agent:bob"), ("m3", "agent:carol")] {
        dies(&node, &http, &session, id, to).await;
    }
    until("three letters", || (letters(&node).len() == 3).then_some(()));
    let listed = node.line("dead list --to bob").ok().out;
    assert!(
        listed.contains("m1") && listed.contains("m2") && !listed.contains("m3") && listed.contains("ttl"),
        "{listed}"
    );
    let shown = node.line("dead show m1 --json").ok().json();
    assert_eq!(shown["dead_letters"][0]["source"], "agent:alice");
    assert_eq!(shown["event"]["recipients"][0]["rung"], "dead");
    assert_eq!(ids(&node.line("inbox --as bob --json").ok()), Vec::<String>::new());

    node.line("dead retry m1 --to carol").fails(3, "no such dead letter");
    node.line("dead retry never-sent").fails(3, "no event");
    node.line("dead retry").fails(2, "required");
    node.line("dead retry m1 --all").fails(2, "cannot be used with");
    node.words(&["dead", "list", "--url", node.url(), "--token", &node.token]).fails(4, "");

    // What was told to the operator holds after a power cut.
    let told = node.line("dead retry m1 --json").ok().json();
    let copy = told["retried"][0]["retried_as"].as_str().unwrap().to_owned();
    node.line("dead drop m2").ok();
    node.kill();
    node.restart();
    assert_eq!(letters(&node), [("m3".to_owned(), "agent:carol".to_owned())]);
    let inbox = node.line("inbox --as bob --json").ok();
    assert!(inbox.out.contains("text of m1") && inbox.out.contains("\"rialto.retry_of\":\"m1\""), "{inbox:?}");
    assert_eq!(ids(&inbox), std::slice::from_ref(&copy));
    node.words(&["ack", &copy, "--as", "bob"]).ok();
    node.line("dead retry m1").fails(3, "no such dead letter");
    let explained = node.line("explain m1 --json").ok().json();
    assert!(explained["recipients"][0]["retried_as"].as_str().unwrap().starts_with("seq:"), "{explained}");

    // Whoever is gone cannot be sent anything.
    node.words(&["send", "core", "bye", "--as", "carol", "--type", "network.agent.leave", "--payload", "{}"]);
    let base = format!("/v1/admin/networks/{}", node.network());
    let http = Http::new(node.url());
    http.call("DELETE", &format!("{base}/members/agent:carol"), node.admin(), "").await.unwrap().data();
    until("carol's letters", || letters(&node).iter().any(|(id, _)| id == "m3").then_some(()));
    node.line("dead retry m3").fails(3, "has left").fails(3, "rialto dead drop");
    let told = node.line("dead retry m3 --json");
    assert_eq!(told.code, 3);
    let answer: Value = serde_json::from_str(told.out.lines().next().unwrap()).unwrap();
    assert_eq!(answer["refused"][0]["error"]["code"], "unknown_target");
    assert!(node.line("dead drop --all").ok().out.contains("put away"));
    assert_eq!(letters(&node), []);
    let acts = node.line("audit").ok().out;
    assert!(acts.contains("dead.retry") && acts.contains("dead.drop"), "{acts}");
    let nothing = http.call("POST", &format!("{base}/dead-letters/drop"), node.admin(), "{}").await.unwrap();
    assert_eq!((nothing.status, nothing.code().as_str()), (400, "invalid_argument"), "all is said, not assumed");
    let many = rialto_model::limits::DEAD_LETTERS_PER_CALL_MAX + 1;
    let many = http.get(&format!("{base}/dead-letters?limit={many}"), node.admin()).await;
    assert_eq!((many.status, many.code().as_str()), (400, "invalid_argument"));
}
