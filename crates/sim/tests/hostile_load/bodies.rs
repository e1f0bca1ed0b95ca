//! Bodies that are begun and not sent to their end.

use rialto_model::limits::{
    BATCH_BYTES_MAX, BODIES_PER_CREDENTIAL_BYTES_MAX, FILE_BYTES_MAX, UNPROVED_BODY_BYTES_MAX, UPLOADS_MAX,
    UPLOADS_PER_MEMBER_MAX, UPLOADS_PER_NETWORK_MAX,
};
use rialto_sim::harness::{Http, Network, Server, raise_file_limit, soon};
use rialto_sim::load::{Attacker, Watch, times};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A refusal that needs no body comes much sooner than any clock runs out.
const AT_ONCE: Duration = Duration::from_secs(5);

/// A request whose body is announced and half sent; keeps the connection.
async fn half_a_body(server: &Server, path: &str, headers: &str, announced: &str, bytes: usize) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(server.address()).await.ok()?;
    let head = format!("POST {path} HTTP/1.1\r\nhost: {}\r\n{headers}{announced}\r\n\r\n", server.address());
    stream.write_all(head.as_bytes()).await.ok()?;
    // A node that wants no more of it closes; that is no failure here.
    let body = vec![b' '; bytes];
    let _ = tokio::time::timeout(AT_ONCE, stream.write_all(&body)).await;
    Some(stream)
}

/// What the node has answered so far, if anything.
async fn status(stream: &mut TcpStream) -> Option<u16> {
    let mut head = [0; 64];
    let read = tokio::time::timeout(Duration::from_millis(100), stream.read(&mut head)).await.ok()?.ok()?;
    std::str::from_utf8(head.get(..read)?).ok()?.split(' ').nth(1)?.parse().ok()
}

async fn hold(
    server: &Server,
    count: usize,
    path: &str,
    headers: &str,
    announced: &str,
    bytes: usize,
) -> Vec<TcpStream> {
    let all = (0..count).map(|_| half_a_body(server, path, headers, announced, bytes));
    let held = futures_util::future::join_all(all).await;
    held.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_bodies_of_strangers_cost_next_to_nothing() {
    raise_file_limit();
    let server = Server::start().await;
    let network = server.main();
    let watch = Watch::begin(&server, Attacker::Stranger).await;
    let mut held = Vec::new();
    for path in ["/v1/events", "/v1/join", "/v1/blobs", &format!("/v1/ws/{}/events", network.id)] {
        for headers in ["", "authorization: Bearer nobody-knows-this-token\r\n"] {
            let length = format!("content-length: {BATCH_BYTES_MAX}");
            held.extend(hold(&server, times(25), path, headers, &length, BATCH_BYTES_MAX / 2).await);
            // One that does not say how long it is, and one that is small and does not end.
            let chunk = format!("transfer-encoding: chunked\r\n\r\n{:x}", UNPROVED_BODY_BYTES_MAX);
            held.extend(hold(&server, times(25), path, headers, &chunk, UNPROVED_BODY_BYTES_MAX - 1).await);
            held.extend(hold(&server, times(25), path, headers, "content-length: 1000", 1).await);
        }
    }
    let released = watch.held("half-sent bodies without a credential").await;
    drop(held);
    released.await_release(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_bodies_of_one_member_have_their_share() {
    raise_file_limit();
    let server = Server::start().await;
    let network = server.main();
    let session = server.join(&network, "agent:hoarder").await;
    let watch = Watch::begin(&server, Attacker::Member).await;
    let path = format!("/v1/ws/{}/events", network.id);
    let headers = format!("authorization: Bearer {session}\r\n");
    let length = format!("content-length: {BATCH_BYTES_MAX}");
    let count = times(30).max(2 * BODIES_PER_CREDENTIAL_BYTES_MAX / BATCH_BYTES_MAX + 4);
    let mut held = hold(&server, count, &path, &headers, &length, BATCH_BYTES_MAX - 1).await;
    let mut refused = 0;
    for stream in &mut held {
        refused += usize::from(status(stream).await == Some(429));
    }
    let most = BODIES_PER_CREDENTIAL_BYTES_MAX / (BATCH_BYTES_MAX - 1) + 1;
    assert!(refused >= count - most, "{refused} of {count} were refused, and {most} at most should not be");
    let released = watch.held("half-sent bodies of a member").await;
    drop(held);
    released.await_release(&server).await;
}

/// Whole batches, each as large as one may be, from many members at the same moment.
#[tokio::test(flavor = "multi_thread")]
async fn large_batches_from_everybody_at_once_wait_their_turn() {
    raise_file_limit();
    let server = Server::start().await;
    let network = server.main();
    let mut sessions = Vec::new();
    for n in 0..times(40) {
        sessions.push(server.join(&network, &format!("agent:bulk-{n}")).await);
    }
    let watch = Watch::begin(&server, Attacker::Member).await;
    let event = json!({ "type": "app.note", "target": "core", "payload": { "content": "x".repeat(250_000) } });
    let body = serde_json::Value::Array(vec![event; 16]).to_string();
    let path = format!("/v1/ws/{}/events", network.id);
    let sends = sessions.iter().map(|session| async {
        let mut taken = 0;
        for _ in 0..3 {
            // A refusal may close the connection before all of the body was read.
            let answer = server.http().post(&path).bearer(session).try_body(body.as_bytes()).await;
            taken += usize::from(answer.is_ok_and(|answer| answer.status == 200));
        }
        taken
    });
    let taken: usize = futures_util::future::join_all(sends).await.into_iter().sum();
    assert!(taken > 0, "nobody was served");
    watch.held("large batches from everybody").await.await_release(&server).await;
}

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_refused_before_it_comes() {
    let server = Server::start().await;
    let network = server.main();
    let session = server.join(&network, "agent:large").await;
    let path = |rest: &str| format!("/v1/ws/{}/{rest}", network.id);
    let credential = format!("authorization: Bearer {session}\r\n");
    for (path, headers, length, expected) in [
        (path("events"), credential.as_str(), 100_000_000, 413),
        (path("ack"), credential.as_str(), BATCH_BYTES_MAX as u64 + 1, 413),
        (path("events?wait=1"), "", 100_000_000, 413),
        (path("blobs"), credential.as_str(), FILE_BYTES_MAX + 1, 413),
        // Without a credential a much smaller one is too large, wherever one is needed and where it is in the body.
        (path("events"), "", UNPROVED_BODY_BYTES_MAX as u64 + 1, 401),
        (path("join"), "", UNPROVED_BODY_BYTES_MAX as u64 + 1, 401),
        (path("blobs"), "", UNPROVED_BODY_BYTES_MAX as u64 + 1, 401),
        ("/v1/admin/import".to_owned(), "", UNPROVED_BODY_BYTES_MAX as u64 + 1, 401),
    ] {
        let mut http = server.http();
        let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n");
        let began = Instant::now();
        http.raw(head.as_bytes()).await.unwrap();
        let answer = soon("an answer", http.answer()).await.unwrap();
        assert_eq!(answer.status, expected, "{path} {length}: {answer:?}");
        assert!(answer.json()["error"]["code"].is_string() && began.elapsed() < AT_ONCE, "{path}: {answer:?}");
    }
    // Who sends it all the same hears why it is refused, also when it reads nothing before it has sent everything.
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head = format!("POST {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3000000\r\n\r\n", path("events"));
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..30 {
        stream.write_all(&[b' '; 100_000]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut answer = String::new();
    soon("the answer", stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    // Within its bound it is taken, and a session that the node has not seen since its start is as good as any other.
    let large =
        json!({ "type": "test.note.posted", "target": "agent:large", "payload": { "content": "x".repeat(200_000) } });
    server.http().post(&path("events")).bearer(&session).json(&large).await.data();
    let mut server = server;
    server.stop();
    server.restart().await;
    server.http().post(&path("events")).bearer(&session).json(&large).await.data();
}

/// An upload that is begun and goes no further.
async fn begin_upload(server: &Server, network: &Network, session: &str) -> Option<TcpStream> {
    let headers = format!("authorization: Bearer {session}\r\n");
    half_a_body(server, &format!("/v1/ws/{}/blobs", network.id), &headers, "content-length: 1000", 1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_of_one_network_leave_room_to_others() {
    raise_file_limit();
    let server = Server::start().await;
    let (network, other) = (server.main(), server.network(&json!({ "name": "other" })).await);
    let honest = server.join(&other, "agent:uploads").await;
    let watch = Watch::begin(&server, Attacker::Member).await;
    let names = UPLOADS_MAX / UPLOADS_PER_MEMBER_MAX + 1;
    let mut held = Vec::new();
    for n in 0..names {
        let session = server.join(&network, &format!("agent:hoarder-{n}")).await;
        for _ in 0..UPLOADS_PER_MEMBER_MAX {
            held.extend(begin_upload(&server, &network, &session).await);
        }
    }
    let mut refused = 0;
    for stream in &mut held {
        refused += usize::from(status(stream).await == Some(429));
    }
    assert!(refused >= held.len() - UPLOADS_PER_NETWORK_MAX, "{refused} of {} were refused", held.len());
    let path = format!("/v1/ws/{}/blobs", other.id);
    let kept = Http::new(server.address()).post(&path).bearer(&honest).body(b"some content").await.data();
    assert_eq!(kept["size"], 12);
    let released = watch.held("uploads that do not go on").await;
    drop(held);
    released.await_release(&server).await;
}
