//! Streams of gRPC: honest ones that are quick, and others.

use crate::http2::{self, frame, frames};
use futures_util::StreamExt;
use rialto_openagents::grpc::pb;
use rialto_openagents::grpc::pb::network_client::NetworkClient;
use rialto_sim::harness::{Server, soon};
use rialto_sim::load::{Attacker, Watch, times};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Events that come one by one, as fast as they can: each goes out as a frame of its own, because the next is never there yet.
#[tokio::test(flavor = "multi_thread")]
async fn an_honest_sender_of_small_events_is_never_cut() {
    let count = times(30_000);
    let server = Server::start().await;
    let network = server.main();
    let watch = Watch::begin(&server, Attacker::Member).await;
    let channel =
        tonic::transport::Endpoint::new(format!("http://{}", server.address())).unwrap().connect().await.unwrap();
    let join = pb::Event {
        r#type: "network.agent.join".into(),
        source: "agent:busy".into(),
        target: "core".into(),
        network: network.id.clone().into(),
        ..pb::Event::default()
    };
    let note = |n: usize| pb::Event {
        id: format!("e{n}").into(),
        r#type: "app.note".into(),
        target: "core".into(),
        payload: json!({}).to_string().into(),
        ..pb::Event::default()
    };
    let events = futures_util::stream::iter(std::iter::once(join).chain((0..count).map(note))).then(|event| async {
        tokio::task::yield_now().await;
        event
    });
    let mut request = tonic::Request::new(events.chain(futures_util::stream::pending()));
    request.metadata_mut().insert("authorization", format!("Bearer {}", network.token).parse().unwrap());
    let mut answers = NetworkClient::new(channel).connect(request).await.unwrap().into_inner();
    let mut acked = 0;
    let read = async {
        while acked < count + 1 {
            let answer = answers.message().await.unwrap_or_else(|e| panic!("cut after {acked} acks: {e}")).unwrap();
            acked += usize::from(answer.r#type.as_ref() == b"network.event.ack");
        }
    };
    tokio::time::timeout(Duration::from_secs(120) * u32::try_from(times(1)).unwrap(), read).await.unwrap();
    drop(answers);
    watch.held("a quick sender on gRPC").await.await_release(&server).await;
}

const ENHANCE_YOUR_CALM: [u8; 4] = [0, 0, 0, 11];

#[tokio::test]
async fn a_flood_of_empty_frames_is_cut() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let mut bytes = http2::PREFACE.to_vec();
    bytes.extend(frame(http2::SETTINGS, 0, 0, &[]));
    bytes.extend(frame(http2::HEADERS, http2::END_HEADERS, 1, &http2::connect_headers(server.address())));
    for _ in 0..10_000 {
        bytes.extend(frame(http2::DATA, 0, 1, &[]));
    }
    let _ = stream.write_all(&bytes).await;
    let mut said = Vec::new();
    let began = Instant::now();
    let _ = soon("the end", stream.read_to_end(&mut said)).await;
    // Long before any clock runs out; the reason is read unless the end was faster.
    assert!(began.elapsed() < Duration::from_secs(5), "it went on for {:?}", began.elapsed());
    let goodbye = frames(&said).into_iter().find(|(kind, _)| *kind == http2::GOAWAY);
    assert!(goodbye.is_none_or(|(_, payload)| payload[4..8] == ENHANCE_YOUR_CALM), "{said:?}");
    assert!(server.http().get("/health", "").await.status == 200);
}
