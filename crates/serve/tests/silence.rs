//! WebSocket peers that say nothing or read nothing: pings, the minute of silence, and the half minute of a stalled reader.
//! Time is moved by hand; between the jumps it runs as ever, so that sockets are served.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::client::{Client, TrackedBody};
use common::{Server, server};
use rialto_node::{Caller, RosterFilter};
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
    let network = server.node.default_network().unwrap();
    let agents = network.session(&operator).discover(RosterFilter::default()).await.unwrap().agents.unwrap();
    agents.iter().find(|agent| agent.address.as_ref() == name).unwrap().status.as_str().to_owned()
}

/// The next frame that is no signal is a ping.
async fn ping(client: &mut Client) {
    loop {
        match client.heard().await {
            TrackedBody::Ping => return,
            TrackedBody::Event(_) => {}
            end @ (TrackedBody::Close(..) | TrackedBody::Gone) => panic!("a ping was expected, not {end:?}"),
        }
    }
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
        ping(&mut client).await;
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
    ping(&mut client).await;
    ping(&mut client).await;
    assert_eq!(client.heard().await, TrackedBody::Close(1011, "silent".into()));
    assert_eq!(client.heard().await, TrackedBody::Gone);
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
        ping(&mut client).await;
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
    let end = loop {
        match stalled.next().await {
            TrackedBody::Event(_) | TrackedBody::Ping => {}
            end @ (TrackedBody::Close(..) | TrackedBody::Gone) => break end,
        }
    };
    assert_eq!(end, TrackedBody::Close(4429, "stalled".into()));
    until_offline(&server, "agent:stalled").await;
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

/// An open stream of server-sent events says every 15 seconds that it lives, and so does its reader to the network.
#[tokio::test]
async fn an_open_event_stream_keeps_its_reader_online() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let clock = Arc::new(rialto_node::clock::DrivenClock::at(1_767_225_600_000));
    let server = common::server_on(rialto_node::Host::simulated(clock.clone(), 7)).await;
    let network = server.node.default_network().unwrap();
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let join = json!({ "type": "network.agent.join", "source": "agent:reader", "target": "core" });
    let joined = network.session(&operator).emit(join.to_string().into()).await.unwrap().remove(0);
    let session = joined.result.unwrap().result.unwrap()["session_id"].as_str().unwrap().to_owned();
    let mut stream = tokio::net::TcpStream::connect(server.addr).await.unwrap();
    let ask = format!(
        "GET /v1/events/stream?view=inbox HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {session}\r\n\r\n",
        server.addr
    );
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut text = String::new();
    let mut piece = [0; 4096];
    let mut read_until = async |what: &str, times: usize| {
        while text.matches(what).count() < times {
            let n = tokio::time::timeout(common::client::SOON, stream.read(&mut piece)).await.unwrap().unwrap();
            assert!(n > 0, "the stream ended: {text}");
            text.push_str(std::str::from_utf8(&piece[..n]).unwrap());
        }
    };
    read_until("retry: 2000", 1).await;
    for beat in 1..=10 {
        clock.pass(15_000);
        jump(15_001).await;
        read_until(": keepalive", beat).await;
        assert_eq!(status(&server, "agent:reader").await, "online", "{} seconds", beat * 15);
    }
    drop(stream);
    clock.pass(65_000);
    assert_eq!(status(&server, "agent:reader").await, "offline", "65 s after its last word");
    server.stop.cancel();
    server.node.stop().await;
}
