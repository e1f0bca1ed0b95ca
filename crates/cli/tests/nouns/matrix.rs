//! The visibility matrix, the same on every way to read.

use crate::support::http::Http;
use crate::support::{Node, until};
use crate::{heard, post, readers};
use rialto_openagents::grpc::pb;
use rialto_sim::contract::bearing;
use serde_json::{Value, json};

/// Target, visibility, who sees it in history, and whether ben gets it as mail.
const MATRIX: &[(&str, &str, &[&str], bool)] = &[
    ("agent:ben", "direct", &["ana", "ben", "operator"], true),
    ("agent:ben", "public", &["ana", "ben", "eve", "token", "operator"], true),
    ("agent:ana", "direct", &["ana", "operator"], false),
    ("agent:broadcast", "public", &["ana", "ben", "eve", "token", "operator"], true),
    ("channel/dev", "channel", &["ana", "ben", "token", "operator"], true),
    ("channel/dev", "public", &["ana", "ben", "eve", "token", "operator"], true),
    ("channel/secret", "channel", &["ana", "ben", "operator"], true),
    ("group/team", "channel", &["ana", "ben", "operator"], true),
    ("core", "direct", &["ana", "operator"], false),
    ("core", "mod_only", &["ana", "operator"], false),
    ("mod/persistence", "mod_only", &["ana", "operator"], false),
];

/// Ids of the matrix in a text, in order.
fn found(text: &str) -> Vec<usize> {
    (0..MATRIX.len()).filter(|n| text.contains(&format!("\"matrix-{n}\""))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_matrix_for_query_poll_stream_search_and_mail() {
    let node = Node::start();
    let http = Http::new(node.url());
    let readers = readers(&node, &http, &["ana", "ben", "eve"]).await;
    let ana = readers[0].bearer.as_str();
    let base = format!("/v1/ws/{}", node.network());
    for (name, private) in [("dev", false), ("secret", true)] {
        let create = json!({ "name": name, "private": private, "participants": ["ben"] });
        post(&node, &http, ana, &json!({ "type": "network.channel.create", "target": "core", "payload": create }))
            .await;
    }
    node.line("group set team ana ben").ok();
    for (n, (target, visibility, ..)) in MATRIX.iter().enumerate() {
        let event = json!({
            "id": format!("matrix-{n}"), "type": "test.note.posted", "target": target, "visibility": visibility,
            "payload": { "content": "m4tr1x" },
        });
        post(&node, &http, ana, &event).await;
    }
    let bell = json!({ "id": "bell", "type": "test.note.posted", "target": "agent:broadcast", "payload": { "content": "b3ll" } });
    post(&node, &http, ana, &bell).await;
    until("the index", || node.line("search b3ll --json").ok().out.contains("\"bell\"").then_some(()));
    let mut grpc = node.place().grpc().await.unwrap();
    for reader in readers.iter().filter(|reader| reader.who != "nobody") {
        let who = reader.who;
        let expected: Vec<usize> = (0..MATRIX.len()).filter(|n| MATRIX[*n].2.contains(&who)).collect();
        let read = async |path: &str| http.get(&format!("{base}/{path}"), &reader.bearer).await.data().to_string();
        assert_eq!(found(&read("events?view=log&limit=500").await), expected, "a poll of {who}");
        assert_eq!(found(&read("events?view=log&limit=500&sort=desc").await), expected, "backwards, {who}");
        assert_eq!(found(&read("events?view=log&search=m4tr1x&limit=500").await), expected, "a search of {who}");
        let by_type = read("events?view=log&type=test.note&source=agent:ana&limit=500").await;
        assert_eq!(found(&by_type), expected, "a filtered poll of {who}");
        let path = format!("{base}/events/stream?view=log&after=seq:0");
        assert_eq!(found(&heard(&http, &path, &reader.bearer, "\"bell\"").await), expected, "the stream of {who}");
        let request = pb::PollRequest {
            network: node.network().to_owned(),
            view: "log".to_owned(),
            limit: 500,
            ..Default::default()
        };
        let page = grpc.poll(bearing(request, &reader.bearer)).await.unwrap().into_inner();
        let ids: Vec<String> = page.events.iter().map(|e| format!("\"{}\"", String::from_utf8_lossy(&e.id))).collect();
        assert_eq!(found(&ids.join(" ")), expected, "a poll of {who} over gRPC");
        if ["ana", "ben", "eve"].contains(&who) {
            let query = json!({ "type": "network.events.query", "target": "core", "payload": { "limit": 500 } });
            let response: Value = post(&node, &http, &reader.bearer, &query).await["response"].clone();
            assert_eq!(found(&response.to_string()), expected, "a query of {who}");
        }
    }
    let mail = http.get(&format!("{base}/events?view=inbox&ack=false&limit=500"), &readers[1].bearer).await.data();
    let expected: Vec<usize> = (0..MATRIX.len()).filter(|n| MATRIX[*n].3).collect();
    assert_eq!(found(&mail.to_string()), expected, "the mail of ben");
    let path = format!("{base}/events/stream?view=inbox&ack=false");
    assert_eq!(
        found(&heard(&http, &path, &readers[1].bearer, "\"bell\"").await),
        expected,
        "the mail of ben as a stream"
    );
}

/// Members of a workspace that a client made: two who only ever named themselves, and one whose session is asked for.
async fn workspace(node: &Node, http: &Http) -> (String, String, Vec<(&'static str, String)>) {
    let made = http.post("/v1/workspaces", node.admin(), &json!({ "name": "team" })).await.data();
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    let (base, token) = (format!("/v1/ws/{}", text("workspaceId")), text("token"));
    let mut members = Vec::new();
    for (name, join) in [
        ("openagents:one", json!({ "agent_name": "one" })),
        ("openagents:two", json!({ "agent_name": "two" })),
        ("agent:strict", json!({ "agent_id": "agent:strict" })),
    ] {
        let data = http.post(&format!("{base}/join"), &token, &join).await.data();
        members.push((name, data["session_id"].as_str().unwrap().to_owned()));
    }
    (base, token, members)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_manages_reads_what_members_it_may_name_say_to_one_another() {
    let node = Node::start();
    let http = Http::new(node.url());
    let (base, token, members) = workspace(&node, &http).await;
    let network = base.trim_start_matches("/v1/ws/").to_owned();
    for (n, (from, to)) in [(0, 1), (1, 0), (0, 2), (2, 1)].into_iter().enumerate() {
        let (target, bearer) = (members[to].0, &members[from].1);
        let event = json!({
            "id": format!("matrix-{n}"), "type": "test.note.posted", "target": target, "payload": { "content": "m4tr1x" },
        });
        http.post(&format!("{base}/events"), bearer, &event).await.data();
    }
    let bell = json!({ "id": "bell", "type": "test.note.posted", "target": "agent:broadcast", "payload": { "content": "b3ll" } });
    http.post(&format!("{base}/events"), &members[2].1, &bell).await.data();
    let watch = node.line(&format!("network token new --network {network} --role observer")).ok().out.trim().to_owned();
    let expect = async |bearer: &str, expected: &[usize]| {
        let read = async |path: &str| http.get(&format!("{base}/{path}"), bearer).await.data().to_string();
        assert_eq!(found(&read("events?view=log&limit=500").await), expected, "a poll");
        assert_eq!(found(&read("events?view=log&search=m4tr1x&limit=500").await), expected, "a search");
        assert!(!found(&read("events?view=log&target=openagents:two&limit=500").await).contains(&3));
        let path = format!("{base}/events/stream?view=log&after=seq:0");
        assert_eq!(found(&heard(&http, &path, bearer, "\"bell\"").await), expected, "the stream");
    };
    expect(&token, &[0, 1]).await;
    // Who may not speak for them does not read them either.
    expect(&watch, &[]).await;
    // From now on only its session speaks for it.
    http.post(&format!("{base}/join"), &token, &json!({ "agent_id": "openagents:one" })).await.data();
    expect(&token, &[]).await;
}
