//! TLS on the one port: HTTPS, wss and gRPC with a certificate of our own, and what is refused without one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, clippy::wildcard_enum_match_arm, reason = "tests")]

mod support;

use futures_util::{SinkExt, StreamExt};
use rialto_openagents::grpc::pb;
use rialto_openagents::grpc::pb::network_client::NetworkClient;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use support::http::{Http, trusting};
use support::sse::Sse;
use support::{Node, Ran, rialto};
use tempfile::TempDir;
use tokio_tungstenite::Connector;
use tokio_tungstenite::tungstenite::Message;

/// A certificate for this machine, and the files `up` is given.
struct Pair {
    dir: TempDir,
    der: CertificateDer<'static>,
    pem: String,
}

impl Pair {
    fn make() -> Pair {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let dir = TempDir::new().unwrap();
        let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        std::fs::write(dir.path().join("cert.pem"), &pem).unwrap();
        std::fs::write(dir.path().join("key.pem"), key).unwrap();
        Pair { dir, der: made.cert.der().clone(), pem }
    }

    fn cert(&self) -> PathBuf {
        self.dir.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    fn node(&self, more: &[&str]) -> Node {
        let (cert, key) = (self.cert(), self.key());
        let files = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
        Node::start_with(&[&files[..], more].concat())
    }
}

/// `rialto up` that is expected to be refused.
fn up(arguments: &[&str]) -> Ran {
    let dir = TempDir::new().unwrap();
    let mut command = rialto();
    command.args(["up", "--data"]).arg(dir.path().join("data")).args(arguments);
    Ran::of(command, "")
}

async fn join(http: &Http, node: &Node, name: &str) -> String {
    let joined = http.post("/v1/join", &node.token, &json!({ "agent_id": name })).await.data();
    joined["session_id"].as_str().unwrap().to_owned()
}

fn note(id: &str, target: &str) -> Value {
    json!({ "id": id, "type": "test.note.posted", "target": target, "payload": {} })
}

/// Connections that stop in their handshake have the same share of places as all that prove nothing.
#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_stall_leave_room_for_others() {
    use tokio::io::AsyncWriteExt;
    const PLACES: usize = 10;
    let pair = Pair::make();
    let settings = pair.dir.path().join("rialto.toml");
    std::fs::write(&settings, format!("[limits]\nconnections_max = {PLACES}\n")).unwrap();
    let node = pair.node(&["--config", settings.to_str().unwrap()]);
    let address = node.url().trim_start_matches("https://").to_owned();
    let mut held = Vec::new();
    for n in 0..4 * PLACES {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        // Nothing, or the beginning of a ClientHello.
        let said: &[u8] = if n % 2 == 0 { b"" } else { &[22, 3, 1, 1, 0, 1] };
        let _ = stream.write_all(said).await;
        held.push(stream);
    }
    let http = Http::with_tls(node.url(), &trusting(Some(&pair.der)));
    join(&http, &node, "agent:alice").await;
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_carrier_works_over_tls() {
    let pair = Pair::make();
    let node = pair.node(&[]);
    assert!(node.url().starts_with("https://127.0.0.1:"), "{}", node.url());
    let config = trusting(Some(&pair.der));

    // HTTPS and SSE.
    let http = Http::with_tls(node.url(), &config);
    let alice = join(&http, &node, "agent:alice").await;
    let bob = join(&http, &node, "agent:bob").await;
    let mut sse = Sse::open(&http, "/v1/events/stream", &bob, None).await.unwrap();
    http.post("/v1/events", &alice, &note("t1", "agent:bob")).await.data();
    assert_eq!(sse.next().await.unwrap().id.as_deref(), Some("t1"));
    let profile = http.get("/v1/profile", "").await.data();
    let ends: Vec<&str> =
        profile["transports"].as_array().unwrap().iter().map(|t| t["endpoint"].as_str().unwrap()).collect();
    assert!(
        ends.iter().all(|e| e.starts_with("https://") || e.starts_with("wss://") || e.starts_with("grpc")),
        "{ends:?}"
    );

    // wss.
    let url = format!("{}/ws/{}?token={}", node.url().replacen("https", "wss", 1), node.network(), node.token);
    let connector = Some(Connector::Rustls(config.clone()));
    let opened = tokio_tungstenite::connect_async_tls_with_config(url, None, false, connector).await;
    let mut socket = opened.unwrap().0;
    let frame = json!({"id":"j","type":"network.agent.join","source":"agent:carol","target":"core"});
    socket.send(Message::text(frame.to_string())).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
    assert!(answer.contains("\"accepted\""), "{answer}");
    http.post("/v1/events", &alice, &note("t2", "agent:carol")).await.data();
    loop {
        let text = socket.next().await.unwrap().unwrap().into_text().unwrap();
        if text.contains("\"t2\"") {
            break;
        }
    }

    // gRPC.
    let tls = tonic::transport::ClientTlsConfig::new()
        .ca_certificate(tonic::transport::Certificate::from_pem(&pair.pem))
        .domain_name("localhost");
    let endpoint = tonic::transport::Endpoint::new(node.url().to_owned()).unwrap().tls_config(tls).unwrap();
    let mut client = NetworkClient::new(endpoint.connect().await.unwrap());
    let mut request = tonic::Request::new(pb::JoinRequest { agent_id: "agent:dave".into(), ..Default::default() });
    request.metadata_mut().insert("authorization", format!("Bearer {}", node.token).parse().unwrap());
    assert_eq!(client.join(request).await.unwrap().into_inner().address, "agent:dave");

    // The command line and its stdio, which trust what they are told to trust.
    let run = |line: &str, stdin: &str| {
        let mut command = node.command(&line.split(' ').collect::<Vec<_>>());
        command.env("SSL_CERT_FILE", pair.cert());
        Ran::of(command, stdin)
    };
    run("send bob hi --as erin", "").ok();
    let frames = "{\"type\":\"network.agent.join\",\"source\":\"agent:fred\",\"target\":\"core\"}\n";
    assert!(run("stdio", frames).ok().out.contains("\"accepted\""));
    assert!(run("doctor", "").ok().out.contains("node: answers"));
    // Whoever does not trust the certificate does not speak to the node.
    node.line("who").fails(6, "certificate");
    assert!(Http::with_tls(node.url(), &trusting(None)).call("GET", "/health", "", "").await.is_err());
    let plain = Http::new(&node.url().replacen("https", "http", 1));
    assert!(plain.call("GET", "/health", "", "").await.is_err());
    assert_eq!(http.get("/health", "").await.status, 200);
}

#[test]
fn beyond_loopback_needs_tls_or_a_word() {
    up(&["--listen", "0.0.0.0:0"]).fails(2, "--tls-cert").fails(2, "--insecure");
    up(&["--listen", "[::]:0"]).fails(2, "--tls-cert");
    for more in [&["--insecure"][..], &[]] {
        let arguments = [&["--open", "--listen", "0.0.0.0:0"][..], more].concat();
        up(&arguments).fails(2, "loopback");
    }
    let pair = Pair::make();
    let (cert, key) = (pair.cert(), pair.key());
    let files = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    up(&[&["--open", "--listen", "0.0.0.0:0"][..], &files].concat()).fails(2, "loopback");

    let node = Node::start_with(&["--listen", "0.0.0.0:0", "--insecure"]);
    node.line("who").ok();
    let node = pair.node(&["--listen", "0.0.0.0:0", "--public-url", "https://localhost"]);
    assert_eq!(node.told["url"], "https://localhost");
}

#[test]
fn unusable_files_are_named() {
    let pair = Pair::make();
    let (cert, key) = (pair.cert(), pair.key());
    let other = Pair::make();
    let empty = pair.dir.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let none = pair.dir.path().join("none.pem");
    let with = |cert: &Path, key: &Path| {
        up(&["--listen", "127.0.0.1:0", "--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()])
    };
    with(&none, &key).fails(2, "none.pem");
    with(&cert, &none).fails(2, "none.pem");
    with(&empty, &key).fails(2, "empty.pem");
    with(&cert, &empty).fails(2, "empty.pem");
    with(&cert, &other.key()).fails(2, "");
    up(&["--listen", "127.0.0.1:0", "--tls-cert", cert.to_str().unwrap()]).fails(2, "tls");
    up(&["--listen", "127.0.0.1:0", "--tls-key", key.to_str().unwrap()]).fails(2, "tls");
}
