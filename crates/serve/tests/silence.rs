//! WebSocket peers that say nothing or read nothing: pings, the minute of silence, and the half minute of a stalled reader.
//! Time is moved by hand; between the jumps it runs as ever, so that sockets are served.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::client::{Client, Said};
use common::{Server, server};
use rialto_node::Caller;
use rialto_node::command::Look;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

async fn jump(ms: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(ms)).await;
    tokio::time::resume();
}

/// What the roster says of a member.
async fn status(server: &Server, name: &str) -> String {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let look = Look::Discover { filter: json!({}), compat: false };
    let roster = server.node.default_network().unwrap().look(&operator, look).await.unwrap();
    let agents = roster["agents"].as_array().unwrap();
    agents.iter().find(|agent| agent["address"] == name).unwrap()["status"].as_str().unwrap().to_owned()
}

async fn until_offline(server: &Server, name: &str) {
    let soon = tokio::time::Instant::now() + common::client::SOON;
    while status(server, name).await != "offline" {
        assert!(tokio::time::Instant::now() < soon, "{name} is still shown");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_peer_is_pinged_and_one_that_is_silent_for_a_minute_is_closed() {
    let server = server(100).await;
    let mut client = Client::join(&server, "agent:quiet", false).await;
    for _ in 0..5 {
        jump(20_001).await;
        assert_eq!(client.heard().await, Said::Ping, "every 20 seconds");
        client.frame(10, b"").await;
        // Whatever the server answers after it has been heard; the pong itself has no answer.
        client.send(&json!({ "id": "p", "type": "network.ping", "target": "core" })).await;
        while client.event().await["type"] != "network.pong" {}
    }
    assert_eq!(status(&server, "agent:quiet").await, "online", "a hundred seconds with pongs");
    for ms in [20_001, 20_001, 19_000] {
        jump(ms).await;
        assert_eq!(status(&server, "agent:quiet").await, "online");
    }
    jump(1_000).await;
    assert_eq!([client.heard().await, client.heard().await], [Said::Ping, Said::Ping]);
    assert_eq!(client.heard().await, Said::Close(1011, "silent".into()));
    assert_eq!(client.heard().await, Said::Gone);
    until_offline(&server, "agent:quiet").await;
    server.stop.cancel();
    server.node.stop().await;
}

#[tokio::test]
async fn a_pong_alone_keeps_a_stream() {
    let server = server(100).await;
    let mut client = Client::join(&server, "agent:quiet", false).await;
    for _ in 0..6 {
        jump(20_001).await;
        assert_eq!(client.heard().await, Said::Ping);
        client.frame(10, b"").await;
        // The pong has arrived when something behind it on another connection was answered.
        let mut other = Client::connect(&server, false).await;
        other.send(&json!({ "id": "p", "type": "network.ping", "target": "core" })).await;
        while other.event().await["type"] != "network.pong" {}
    }
    assert_eq!(status(&server, "agent:quiet").await, "online", "two minutes with nothing but pongs");
    server.stop.cancel();
    server.node.stop().await;
}

#[tokio::test]
async fn a_reader_that_takes_nothing_for_half_a_minute_is_closed_with_4429() {
    let server = server(100).await;
    let mut stalled = Client::join(&server, "agent:stalled", true).await;
    let mut sender = Client::join(&server, "agent:sender", false).await;
    let note = |n: usize| json!({ "id": format!("n{n}"), "type": "app.note", "target": "agent:stalled", "payload": { "pad": "x".repeat(100_000) } });
    // More than the buffers of two sockets hold.
    for n in 0..100 {
        sender.send(&note(n)).await;
        sender.answer(&format!("n{n}")).await;
    }
    jump(29_000).await;
    assert_eq!(status(&server, "agent:stalled").await, "online");
    jump(1_100).await;
    until_offline(&server, "agent:stalled").await;
    let end = loop {
        match stalled.next().await {
            Said::Event(_) | Said::Ping => {}
            end @ (Said::Close(..) | Said::Gone) => break end,
        }
    };
    assert_eq!(end, Said::Close(4429, "stalled".into()));
    // What it did not ack is still its mail.
    let mut again = Client::join(&server, "agent:stalled", false).await;
    for n in 0..100 {
        let event = loop {
            let event = again.event().await;
            if event["type"] == "app.note" {
                break event;
            }
        };
        assert_eq!(event["id"], format!("n{n}"));
    }
    server.stop.cancel();
    server.node.stop().await;
}
