//! Bounds of the listener and of the face: each is filled over a real socket and its documented error seen.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]

mod common;

use common::{Server, server};
use rialto_model::limits;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

impl Server {
    fn head(&self, method: &str, path: &str, extra: &str, length: usize) -> String {
        let admin = self.node.admin_secret().expose();
        let host = self.addr;
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {admin}\r\nConnection: close\r\n{extra}Content-Length: {length}\r\n\r\n"
        )
    }

    /// Status and body of one request.
    async fn ask(&self, method: &str, path: &str, extra: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        let head = self.head(method, path, extra, body.len());
        // A refusal may come before all was written.
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(body.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.unwrap();
        let text = String::from_utf8_lossy(&answer).into_owned();
        (text.get(9..12).and_then(|s| s.parse().ok()).unwrap_or(0), text)
    }
}

#[tokio::test]
async fn batches_waits_and_keys_are_bounded() {
    let server = server(100).await;
    let events = vec!["{}"; limits::BATCH_EVENTS_MAX + 1].join(",");
    let (status, text) = server.ask("POST", "/v1/events", "", &format!("[{events}]")).await;
    assert!(status == 413 && text.contains("too_large"), "BATCH_EVENTS_MAX: {status}");
    let (status, _) = server.ask("POST", "/v1/events", "", &" ".repeat(limits::BATCH_BYTES_MAX + 1)).await;
    assert_eq!(status, 413, "BATCH_BYTES_MAX");
    let wait = format!("/v1/events?view=log&wait={}", limits::WAIT_SECONDS_MAX + 1);
    let (status, text) = server.ask("GET", &wait, "", "").await;
    assert!(status == 400 && text.contains("invalid_argument"), "WAIT_SECONDS_MAX: {status}");
    let key = format!("Idempotency-Key: {}\r\n", "k".repeat(limits::IDEMPOTENCY_KEY_CHARS_MAX + 1));
    let (status, text) = server.ask("POST", "/v1/events", &key, r#"{"type":"a.b","target":"core"}"#).await;
    assert!(status == 400 && text.contains("Idempotency-Key"), "IDEMPOTENCY_KEY_CHARS_MAX: {status} {text}");
    let long = format!("X-Long: {}\r\n", "x".repeat(limits::HEADER_BYTES_MAX));
    let (status, _) = server.ask("GET", "/health", &long, "").await;
    assert_eq!(status, 431, "HEADER_BYTES_MAX");
    assert_eq!(server.ask("GET", "/health", "", "").await.0, 200, "others are served");
    server.stop.cancel();
    server.node.stop().await;
}

/// The listener takes as many as it was told, [`limits::CONNECTIONS_MAX`] at most; one more is closed at once.
#[tokio::test]
async fn connections_beyond_connections_max_are_closed() {
    let server = server(2).await;
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        // Whoever shows a credential keeps its place.
        let admin = server.node.admin_secret().expose().to_owned();
        let ask = format!("GET /health HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {admin}\r\n\r\n", server.addr);
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut byte = [0; 1];
        stream.read_exact(&mut byte).await.unwrap();
        kept.push(stream);
    }
    let mut surplus = TcpStream::connect(server.addr).await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), surplus.read_to_end(&mut rest)).await.unwrap();
    assert!(read.is_err() || rest.is_empty(), "closed without a word");
    drop(kept);
    for attempt in 0.. {
        if server.ask("GET", "/health", "", "").await.0 == 200 {
            break;
        }
        assert!(attempt < 200, "a freed place is given again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.stop.cancel();
    server.node.stop().await;
}

/// A stream that sends and never reads: the server stops reading at [`limits::UNANSWERED_EVENTS_MAX`], its outbox of
/// [`limits::OUTBOX_FRAMES_MAX`] never fills, and others are served.
#[tokio::test]
async fn a_client_that_never_reads_is_held_back() {
    let server = server(10).await;
    let network = server.node.default_network().unwrap();
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let admin = server.node.admin_secret().expose();
    let upgrade = format!(
        "GET /ws/main?token={admin} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        server.addr
    );
    stream.write_all(upgrade.as_bytes()).await.unwrap();
    let frame = |text: &str| {
        let mut out = vec![0x81, 0x80 | 126];
        out.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(text.as_bytes());
        out
    };
    let pad = "x".repeat(200);
    stream.write_all(&frame(&format!(r#"{{"type":"network.agent.join","source":"agent:deaf","target":"core","payload":{{"description":"{pad}"}}}}"#))).await.unwrap();
    let one = frame(&format!(r#"{{"type":"app.note","target":"core","payload":{{"pad":"{pad}"}}}}"#));
    let many = one.repeat(256);
    let mut written = 0usize;
    // The kernel's buffers hold some; then the write does not go on.
    while tokio::time::timeout(Duration::from_millis(1500), stream.write_all(&many)).await.is_ok() {
        written += 256;
        assert!(written < 400_000, "a client that never reads could send for ever");
    }
    let accepted = network.counters().read().into_iter().find(|(name, _)| *name == "accepted").unwrap().1;
    assert!(accepted > 0 && usize::try_from(accepted).unwrap() <= written + 512);
    assert_eq!(server.ask("GET", "/health", "", "").await.0, 200);
    assert_eq!(server.ask("GET", "/v1/discover", "", "").await.0, 200, "the network answers others");
    server.stop.cancel();
    server.node.stop().await;
}
