//! Answers that are much larger than what asks for them, and answers that nobody reads.

use crate::http2;
use futures_util::future::join_all;
use rialto_model::limits::BATCH_EVENTS_MAX;
use rialto_openagents::grpc::pb;
use rialto_openagents::grpc::pb::network_client::NetworkClient;
use rialto_sim::harness::{Network, Quiet, Server, note, raise_file_limit};
use rialto_sim::load::{Attacker, Watch, times};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

/// What the system holds for a client that does not read, about.
const RECEIVE_BYTES: u32 = 16 << 10;
/// How long those who do not read are left alone: the node makes as much for them as it ever will.
const UNREAD_FOR: Duration = Duration::from_secs(2);

/// Members whose roster is near a megabyte.
async fn crowd(server: &Server, network: &Network) {
    let mut http = server.http();
    for n in 0..60 {
        let body = json!({
            "agent_id": format!("agent:wordy-{n}"), "credentials": { "token": network.token },
            "description": "x".repeat(15_000),
        });
        http.post(&format!("/v1/ws/{}/join", network.id)).json(&body).await.data();
    }
}

/// Large events for everybody who reads the log.
async fn history(server: &Server, network: &Network, target: &str, mebibytes: usize) {
    let session = server.join(network, "agent:author").await;
    let mut http = server.http();
    for n in 0..4 * mebibytes {
        let event = note(&format!("large-{n}"), target, &"x".repeat(256 << 10));
        http.post(&format!("/v1/ws/{}/events", network.id)).bearer(&session).json(&event).await.data();
    }
}

fn batch(kind: &str, payload: &Value, count: usize) -> String {
    let event = json!({ "type": kind, "target": "core", "payload": payload });
    Value::Array(vec![event; count]).to_string()
}

/// A connection that asks and does not read.
async fn ask(server: &Server, bytes: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(RECEIVE_BYTES).unwrap();
    let mut stream = socket.connect(server.address()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_asks_for_the_roster_again_and_again_is_bounded() {
    let server = Server::start().await;
    let network = server.main();
    crowd(&server, &network).await;
    let session = server.join(&network, "agent:curious").await;
    let watch = Watch::begin(&server, Attacker::Member).await;
    let body = batch("network.agent.discover", &json!({}), BATCH_EVENTS_MAX);
    let path = format!("/v1/ws/{}/events", network.id);
    let asked = join_all((0..times(4)).map(|_| async {
        let answer = server.http().post(&path).bearer(&session).body(body.as_bytes()).await;
        // Each event has its own answer; those that do not fit are refused by name.
        assert!(answer.status == 200 || answer.status == 429, "{}", answer.status);
        assert!(answer.body.len() < 8 << 20, "{} bytes in one answer", answer.body.len());
        answer.status == 200
    }));
    assert!(asked.await.contains(&true), "nobody was answered");
    watch.held("batches of discover").await.await_release(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_ask_and_do_not_read_are_bounded() {
    raise_file_limit();
    let server = Server::start().await;
    let network = server.main();
    crowd(&server, &network).await;
    history(&server, &network, "agent:broadcast", 8).await;
    let watch = Watch::begin(&server, Attacker::Member).await;
    let mut held = Vec::new();
    for n in 0..times(10) {
        let agent = format!("agent:deaf-{n}");
        let mut quiet = Quiet::join(server.address(), &network, &agent, &json!({}), Some(RECEIVE_BYTES)).await.unwrap();
        let asks = async {
            quiet.text(&batch("network.agent.discover", &json!({}), 500)).await?;
            quiet.text(&batch("network.events.query", &json!({ "limit": 500 }), 500)).await
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), asks).await;
        held.push(quiet);
    }
    tokio::time::sleep(UNREAD_FOR).await;
    let released = watch.held("streams that do not read their answers").await;
    drop(held);
    released.await_release(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_that_is_not_read_waits_in_the_log() {
    raise_file_limit();
    let server = Server::start().await;
    let network = server.main();
    let watch = Watch::begin(&server, Attacker::Member).await;
    let mut held = Vec::new();
    for n in 0..times(100) {
        let (agent, options) = (format!("agent:deaf-{n}"), json!({ "window": 4096 }));
        held.push(Quiet::join(server.address(), &network, &agent, &options, Some(RECEIVE_BYTES)).await.unwrap());
    }
    let session = server.join(&network, "agent:writer").await;
    let (mut http, path) = (server.http(), format!("/v1/ws/{}/events", network.id));
    for n in 0..times(100) {
        let mail: Vec<Value> =
            (0..5).map(|m| note(&format!("m-{n}-{m}"), &format!("agent:deaf-{n}"), &"x".repeat(300 << 10))).collect();
        http.post(&path).bearer(&session).json(&Value::Array(mail)).await.data();
    }
    tokio::time::sleep(UNREAD_FOR).await;
    let released = watch.held("mail that is not read").await;
    drop(held);
    released.await_release(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_server_sent_events_that_stop_are_bounded() {
    raise_file_limit();
    let server = Server::start().await;
    let network = server.main();
    history(&server, &network, "agent:broadcast", 12).await;
    let watch = Watch::begin(&server, Attacker::Member).await;
    let mut held = Vec::new();
    for n in 0..times(30) {
        // Names of their own: what one credential may hold is not the point.
        let session = server.join(&network, &format!("agent:deaf-{n}")).await;
        for _ in 0..2 {
            let request = format!(
                "GET /v1/ws/{}/events/stream?view=log&after=seq:0 HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {session}\r\n\r\n",
                network.id,
                server.address()
            );
            held.push(ask(&server, request.as_bytes()).await);
        }
    }
    tokio::time::sleep(UNREAD_FOR).await;
    let released = watch.held("server-sent events that are not read").await;
    drop(held);
    released.await_release(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_http2_without_a_window_are_bounded() {
    raise_file_limit();
    let server = Server::start().await;
    let network = server.main();
    history(&server, &network, "agent:broadcast", 8).await;
    let watch = Watch::begin(&server, Attacker::Member).await;
    let path = format!("/v1/ws/{}/events?view=log&after=seq:0&limit=500", network.id);
    let mut held = Vec::new();
    for n in 0..times(8) {
        let session = server.join(&network, &format!("agent:deaf-{n}")).await;
        let mut bytes = http2::PREFACE.to_vec();
        bytes.extend(http2::settings_with_window(0));
        let flags = http2::END_HEADERS | http2::END_STREAM;
        for stream in 0..150 {
            let headers = http2::get_headers(server.address(), &path, &session);
            bytes.extend(http2::frame(http2::HEADERS, flags, 2 * stream + 1, &headers));
        }
        held.push(ask(&server, &bytes).await);
    }
    tokio::time::sleep(UNREAD_FOR).await;
    let released = watch.held("HTTP/2 streams without a window").await;
    drop(held);
    released.await_release(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_batch_of_queries_is_bounded() {
    let server = Server::start().await;
    let network = server.main();
    history(&server, &network, "agent:broadcast", 8).await;
    let session = server.join(&network, "agent:curious").await;
    let watch = Watch::begin(&server, Attacker::Member).await;
    let query = pb::Event {
        r#type: "network.events.query".into(),
        target: "core".into(),
        payload: json!({ "limit": 500 }).to_string().into(),
        ..pb::Event::default()
    };
    let sends = join_all((0..times(4)).map(|_| async {
        let endpoint = tonic::transport::Endpoint::new(format!("http://{}", server.address())).unwrap();
        let mut client = NetworkClient::new(endpoint.connect().await.unwrap()).max_decoding_message_size(64 << 20);
        let mut request =
            tonic::Request::new(pb::SendRequest { network: network.id.clone(), events: vec![query.clone(); 150] });
        request.metadata_mut().insert("authorization", format!("Bearer {session}").parse().unwrap());
        let reply = client.send(request).await.unwrap().into_inner();
        let bytes: usize = reply.results.iter().filter_map(|r| r.response.as_ref()).map(|e| e.payload.len()).sum();
        assert!(bytes < 8 << 20, "{bytes} bytes in one answer");
        assert_eq!(reply.results.len(), 150, "each has its own result");
    }));
    sends.await;
    watch.held("gRPC batches of queries").await.await_release(&server).await;
}
