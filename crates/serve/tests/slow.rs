//! WebSocket readers that take their time: whatever the socket takes at once, events come whole, in order and before
//! any goodbye.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]

mod common;

use common::client::{Client, SOON, TrackedBody};
use common::{Server, server};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends notes of about 2 KiB, fifty to a frame.
async fn publish(sender: &mut Client, from: usize, to: usize) {
    let pad = "x".repeat(2000);
    let note = |n| json!({ "id": format!("n{n}"), "type": "app.note", "target": "channel/general", "payload": { "pad": pad } });
    for first in (from..to).step_by(50) {
        let notes: Vec<Value> = (first..to.min(first + 50)).map(note).collect();
        sender.send(&json!(notes)).await;
        for n in first..to.min(first + 50) {
            sender.answer(&format!("n{n}")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stalls_in_a_shared_block_gets_the_rest_of_it_and_others_do_not_wait() {
    let server = server(100).await;
    let mut tiny = Client::join(&server, "agent:tiny", true).await;
    let mut quick = Client::join(&server, "agent:quick", false).await;
    let mut sender = Client::join(&server, "agent:sender", false).await;
    const NOTES: usize = 4000;
    // It has the beginning of something, and reads no more until everybody else has everything.
    tiny.notes(0, 0).await;
    let reading = tokio::spawn(async move {
        quick.notes(0, NOTES).await;
        quick
    });
    publish(&mut sender, 0, NOTES).await;
    let _quick = reading.await.unwrap();
    // Two notes later it stalls again, in the middle of one.
    tiny.notes(0, 2).await;
    tiny.read().await;
    // It reads nothing while others are served.
    sender.send(&json!({ "id": "meanwhile", "type": "app.note", "target": "core" })).await;
    sender.answer("meanwhile").await;
    tiny.notes(2, NOTES).await;
    server.stop.cancel();
    server.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_before_the_goodbye() {
    let server = server(100).await;
    for tiny in [true, false] {
        // The client says goodbye right behind its events …
        let mut hasty = Client::join(&server, "agent:hasty", tiny).await;
        let notes: Vec<Value> = (0..500)
            .map(|n| json!({ "id": format!("{tiny}{n}"), "type": "app.note", "target": "core", "payload": {} }))
            .collect();
        hasty.send(&json!(notes)).await;
        hasty.frame(8, &1000u16.to_be_bytes()).await;
        for n in 0..500 {
            hasty.answer(&format!("{tiny}{n}")).await;
        }
        assert_eq!(hasty.next().await, TrackedBody::Close(1000, String::new()));
        assert_eq!(hasty.next().await, TrackedBody::Gone);
        // … or leaves the network.
        let mut leaver = Client::join(&server, "agent:leaver", tiny).await;
        let leave = json!({ "id": format!("leave{tiny}"), "type": "network.agent.leave", "target": "core" });
        leaver.send(&leave).await;
        leaver.answer(&format!("leave{tiny}")).await;
        assert_eq!(leaver.next().await, TrackedBody::Close(1000, "left".into()));
        // … or breaks the rules in the middle of it.
        let mut rude = Client::join(&server, "agent:rude", tiny).await;
        rude.send(&json!({ "id": format!("good{tiny}"), "type": "app.note", "target": "core", "payload": {} })).await;
        rude.frame(2, b"binary").await;
        rude.answer(&format!("good{tiny}")).await;
        assert_eq!(rude.next().await, TrackedBody::Close(1003, "text frames only".into()));
    }
    server.stop.cancel();
    server.node.stop().await;
}

/// Whether one more connection gets an answer.
async fn is_served(server: &Server) -> bool {
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let ask = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", server.addr);
    // A connection that is closed at once may not take the question.
    let _ = stream.write_all(ask.as_bytes()).await;
    matches!(tokio::time::timeout(SOON, stream.read(&mut [0; 1])).await.unwrap(), Ok(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_takes_the_place_of_its_connection_until_it_ends() {
    let server = server(2).await;
    let mut first = Client::join(&server, "agent:first", false).await;
    let _second = Client::join(&server, "agent:second", false).await;
    assert!(!is_served(&server).await, "two places are taken by two streams");
    first.frame(8, &1000u16.to_be_bytes()).await;
    while first.next().await != TrackedBody::Gone {}
    // Its place is free once its task has ended, a moment after its last word.
    for attempt in 0.. {
        if is_served(&server).await {
            break;
        }
        assert!(attempt < 500, "a freed place is given again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.stop.cancel();
    server.node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_said_to_members_and_strangers() {
    let server = server(100).await;
    let mut stranger = Client::connect(&server, false).await;
    let mut member = Client::join(&server, "agent:member", true).await;
    server.stop.cancel();
    server.node.stop().await;
    for client in [&mut stranger, &mut member] {
        while client.event().await["payload"]["code"] != "shutting_down" {}
        assert_eq!(client.next().await, TrackedBody::Close(1001, "shutting_down".into()));
    }
}
