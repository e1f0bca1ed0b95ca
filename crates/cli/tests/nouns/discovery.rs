//! What a node and its networks say of themselves, and that it is so: every transport that is listed answers.

use crate::support::Node;
use crate::support::http::Http;
use futures_util::{SinkExt, StreamExt};
use rialto_openagents::grpc::pb;
use rialto_sim::contract::bearing;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

fn listed<'v>(transports: &'v Value, kind: &str, key: &str) -> &'v str {
    let found = transports.as_array().unwrap().iter().find(|transport| transport["type"] == kind);
    found.unwrap_or_else(|| panic!("{kind} is not in {transports}"))[key].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_listed_transport_answers() {
    let node = Node::start();
    let http = Http::new(node.url());
    let profile = http.get("/v1/profile", "").await.data();
    let transports = &profile["transports"];
    assert_eq!(transports.as_array().unwrap().len(), 4, "one for each that is enabled: {transports}");
    let path = |kind: &str| listed(transports, kind, "endpoint").strip_prefix(node.url()).unwrap().to_owned();
    assert_eq!(http.get(&path("http"), "").await.data()["id"], profile["id"]);
    let sse =
        http.open("GET", &path("sse"), &[("authorization", &format!("Bearer {}", node.token))], "").await.unwrap();
    assert_eq!((sse.status().as_u16(), sse.headers()["content-type"].to_str().unwrap()), (200, "text/event-stream"));
    let (mut socket, _) = tokio_tungstenite::connect_async(listed(transports, "websocket", "endpoint")).await.unwrap();
    socket.send(Message::text(r#"{"type":"network.ping","target":"core"}"#)).await.unwrap();
    let pong: Value = serde_json::from_str(socket.next().await.unwrap().unwrap().to_text().unwrap()).unwrap();
    assert_eq!(pong["type"], "network.pong");
    let grpc = listed(transports, "grpc", "endpoint");
    assert_eq!(grpc.replacen("grpc", "http", 1), node.url());
    let mut client = node.place().grpc().await.unwrap();
    let asked = pb::ProfileRequest { network: node.network().to_owned() };
    client.profile(bearing(asked, &node.token)).await.unwrap();

    let file = http.get("/.well-known/openagents.json", "").await.json();
    let kinds = |transports: &Value| -> Vec<String> {
        transports.as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&file["transports"]), kinds(transports));
    let network = &file["networks"][0];
    let found = network["profile"].as_str().unwrap().strip_prefix(node.url()).unwrap();
    assert_eq!(http.get(found, "").await.data(), http.get("/v1/profile", "").await.data());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_url_is_what_everybody_is_told() {
    let node = Node::start_with(&["--public-url", "https://rialto.example/at"]);
    let http = Http::new(&format!("http://{}", node.run["listen"].as_str().unwrap()));
    let profile = http.get("/v1/profile", "").await.data();
    let id = node.network();
    let endpoints: Vec<&str> =
        ["http", "sse", "websocket", "grpc"].map(|kind| listed(&profile["transports"], kind, "endpoint")).to_vec();
    let wanted = [
        format!("https://rialto.example/at/v1/ws/{id}"),
        format!("https://rialto.example/at/v1/ws/{id}/events/stream"),
        format!("wss://rialto.example/at/ws/{id}"),
        "grpc://rialto.example:443".to_owned(),
    ];
    assert_eq!(endpoints, wanted);
    let file = http.get("/.well-known/openagents.json", "").await.json();
    assert_eq!(file["networks"][0]["profile"], json!(format!("https://rialto.example/at/v1/ws/{id}/profile")));
    assert_eq!(listed(&file["transports"], "grpc", "url"), wanted[3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_are_the_namespaces_that_are_loaded() {
    let node = Node::start();
    let http = Http::new(node.url());
    let has = async |network: &str, name: &str| {
        let profile = http.get(&format!("/v1/ws/{network}/profile"), "").await.data();
        profile["capabilities"].as_array().unwrap().contains(&json!(name))
    };
    let plain = node.words(&["network", "create", "bare", "--json"]).ok().json();
    let plain = plain["id"].as_str().unwrap();
    for name in ["network.agent", "network.channel", "network.resource", "network.events", "work"] {
        assert!(has("main", name).await && has(plain, name).await, "{name}");
    }
    for name in ["workspace.message", "workspace.session"] {
        assert!(has("main", name).await && !has(plain, name).await, "{name}");
    }
    node.words(&["mod", "unload", "persistence", "--network", "bare"]).ok();
    assert!(!has(plain, "network.events").await);
}
