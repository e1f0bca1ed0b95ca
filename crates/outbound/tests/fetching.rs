//! What the guarded client does when it may: it asks, by the name, over a proven connection, and stays within its bounds.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rialto_model::limits::*;
use rialto_outbound::{Fetch, FetchBounds, Outbound, OutboundError, OutboundReach, OutboundSettings};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// What a server does with one connection after it has read the head of the request.
#[derive(Clone, Copy)]
enum Does {
    Answer(&'static str),
    /// Says this again and again.
    Forever(&'static str, &'static str),
    /// Says nothing.
    Silence,
}

/// A server that tells what it was asked.
async fn server(does: Does) -> (u16, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heard, hears) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, does, heard.clone()));
        }
    });
    (port, hears)
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, does: Does, heard: mpsc::UnboundedSender<String>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(n) => request.extend_from_slice(&buffer[..n]),
        }
    }
    let _ = heard.send(String::from_utf8(request).unwrap());
    match does {
        Does::Answer(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Does::Forever(head, again) => {
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(again.as_bytes()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Does::Silence => {
            let _ = stream.read(&mut buffer).await;
        }
    }
}

fn at_home() -> Outbound {
    Outbound::new(&OutboundSettings { allow_private_hosts: true, ..OutboundSettings::default() }).unwrap()
}

fn here(_: &str) -> std::io::Result<Vec<IpAddr>> {
    Ok(vec!["127.0.0.1".parse().unwrap()])
}

#[tokio::test]
async fn get_and_post_carry_what_they_are_given() {
    let (port, mut heard) = server(Does::Answer("HTTP/1.1 404 No\r\nx-a: b\r\ncontent-length: 2\r\n\r\nno")).await;
    let call =
        Fetch::get(&format!("http://node.example:{port}/a?b=c")).with_header("authorization", "Bearer T").unwrap();
    let answer = at_home().with_resolver(here).fetch(call).await.unwrap();
    assert_eq!((answer.status, answer.body.as_ref(), answer.is_success()), (404, &b"no"[..], false));
    assert_eq!(answer.headers["x-a"], "b");
    let asked = heard.recv().await.unwrap().to_ascii_lowercase();
    assert!(asked.starts_with("get /a?b=c http/1.1\r\n"), "{asked}");
    for line in
        [format!("host: node.example:{port}"), "authorization: bearer t".into(), "accept-encoding: identity".into()]
    {
        assert!(asked.contains(&format!("\r\n{line}\r\n")), "{asked}");
    }
    let call = Fetch::post(&format!("http://127.0.0.1:{port}/"), "application/json", "{}");
    at_home().fetch(call).await.unwrap();
    let asked = heard.recv().await.unwrap().to_ascii_lowercase();
    assert!(asked.starts_with("post / http/1.1\r\n") && asked.contains("\r\ncontent-length: 2\r\n"), "{asked}");
}

#[tokio::test]
async fn the_environment_names_no_proxy() {
    let (proxy, mut through) = server(Does::Answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")).await;
    let (port, mut heard) = server(Does::Answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")).await;
    // The variables of a process of its own: this very test, told to fetch.
    if let Ok(url) = std::env::var("RIALTO_TEST_FETCH") {
        at_home().fetch(Fetch::get(&url)).await.unwrap();
        return;
    }
    let proxy = format!("http://127.0.0.1:{proxy}");
    let child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_environment_names_no_proxy"])
        .env("RIALTO_TEST_FETCH", format!("http://127.0.0.1:{port}/"))
        .envs(
            ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
                .map(|name| (name, &proxy)),
        )
        .output()
        .await
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    assert!(heard.recv().await.unwrap().starts_with("GET / HTTP/1.1"));
    assert!(through.try_recv().is_err());
}

/// An authority of our own, and a server with a certificate of it for `id.example`.
async fn proven() -> (tempfile::TempDir, std::path::PathBuf, u16, mpsc::UnboundedReceiver<String>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["id.example".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heard, hears) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, heard) = (acceptor.clone(), heard.clone());
            tokio::spawn(async move {
                if let Ok(tls) = acceptor.accept(stream).await {
                    let named = tls.get_ref().1.server_name().unwrap_or("nobody").to_owned();
                    let _ = heard.send(named);
                    serve(tls, Does::Answer("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"), heard).await;
                }
            });
        }
    });
    (folder, file, port, hears)
}

#[tokio::test]
async fn certificates_prove_the_name_though_the_address_is_pinned() {
    let (_folder, file, port, mut heard) = proven().await;
    let settings = OutboundSettings { allow_private_hosts: true, extra_ca_files: vec![file] };
    let client = Outbound::new(&settings).unwrap().with_resolver(here);
    let answer = client.fetch(Fetch::get(&format!("https://id.example:{port}/x"))).await.unwrap();
    assert_eq!(answer.body.as_ref(), b"{}");
    assert_eq!(heard.recv().await.unwrap(), "id.example");
    assert!(heard.recv().await.unwrap().to_ascii_lowercase().contains(&format!("\r\nhost: id.example:{port}\r\n")));
    // Another name at the same address, and nobody who vouches for it.
    let error = client.fetch(Fetch::get(&format!("https://other.example:{port}/"))).await.unwrap_err();
    assert_eq!(error.reach(), OutboundReach::Unreachable, "{error}");
    let stranger =
        at_home().with_resolver(here).fetch(Fetch::get(&format!("https://id.example:{port}/"))).await.unwrap_err();
    assert_eq!(stranger.reach(), OutboundReach::Unreachable, "{stranger}");
    assert!(stranger.to_string().contains("certificate"), "{stranger}");
}

#[test]
fn certificates_that_were_named_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for file in [empty, folder.path().join("missing.pem")] {
        let settings = OutboundSettings { extra_ca_files: vec![file.clone()], ..OutboundSettings::default() };
        let error = Outbound::new(&settings).unwrap_err().to_string();
        assert!(error.contains(&file.display().to_string()), "{error}");
    }
}

#[tokio::test]
async fn answers_are_bounded_whatever_they_say_of_their_length() {
    let many: &str = "x".repeat(OUTBOUND_ANSWER_BYTES_DEFAULT + 1).leak();
    let long: &str = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{many}", many.len()).leak();
    let endless = Does::Forever("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "400\r\n".to_owned().leak());
    let chunk: &str = format!("{:x}\r\n{many}\r\n", many.len()).leak();
    let chunked = Does::Forever("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunk);
    for does in [Does::Answer(long), chunked, Does::Forever("HTTP/1.1 200 OK\r\n\r\n", many)] {
        let (port, _heard) = server(does).await;
        let error = at_home().fetch(Fetch::get(&format!("http://127.0.0.1:{port}/"))).await.unwrap_err();
        assert!(matches!(error, OutboundError::TooLarge { limit: OUTBOUND_ANSWER_BYTES_DEFAULT, .. }), "{error}");
    }
    let (port, _heard) = server(endless).await;
    let error = at_home().fetch(Fetch::get(&format!("http://127.0.0.1:{port}/"))).await.unwrap_err();
    assert_eq!(error.reach(), OutboundReach::Answered, "{error}");
    // Whoever asks for more gets more, and reads it as it comes.
    let (port, _heard) = server(Does::Answer(long)).await;
    let bounds = FetchBounds { answer_bytes: 1 << 20, ..FetchBounds::default() };
    let mut coming = at_home().open(Fetch::get(&format!("http://127.0.0.1:{port}/")).within(bounds)).await.unwrap();
    let mut read = 0;
    while let Some(chunk) = coming.chunk().await.unwrap() {
        read += chunk.len();
    }
    assert_eq!(read, many.len());
}

#[tokio::test]
async fn heads_are_bounded() {
    let wide: &str = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(OUTBOUND_HEAD_BYTES_MAX)).leak();
    let lines: String = (0..=OUTBOUND_ANSWER_HEADERS_MAX).map(|n| format!("x{n}: a\r\n")).collect();
    let tall: &str = format!("HTTP/1.1 200 OK\r\n{lines}\r\n").leak();
    for text in
        [wide, tall, "SSH-2.0-OpenSSH_9\r\n", "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n"]
    {
        let (port, _heard) = server(Does::Answer(text)).await;
        let error = at_home().fetch(Fetch::get(&format!("http://127.0.0.1:{port}/"))).await.unwrap_err();
        assert_eq!(error.reach(), OutboundReach::Answered, "{error}");
    }
}

#[tokio::test]
async fn time_is_bounded_at_each_step() {
    assert_eq!(FetchBounds::default().connect, Duration::from_secs(OUTBOUND_CONNECT_SECONDS_MAX));
    assert_eq!(FetchBounds::default().head, Duration::from_secs(OUTBOUND_HEAD_SECONDS_MAX));
    assert_eq!(FetchBounds::default().whole, Duration::from_secs(OUTBOUND_WHOLE_SECONDS_MAX));
    let short = Duration::from_millis(150);
    let (silent, _heard) = server(Does::Silence).await;
    let url = format!("http://127.0.0.1:{silent}/");
    let bounds = FetchBounds { head: short, ..FetchBounds::default() };
    let error = at_home().fetch(Fetch::get(&url).within(bounds)).await.unwrap_err();
    assert_eq!(
        (error.reach(), error.to_string()),
        (
            OutboundReach::Unreachable,
            format!("{} took more than 150 ms to begin its answer", url.trim_end_matches('/'))
        )
    );
    // Encryption that never comes about is part of connecting.
    let quiet = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://127.0.0.1:{}/", quiet.local_addr().unwrap().port());
    let bounds = FetchBounds { connect: short, ..FetchBounds::default() };
    let error = at_home().fetch(Fetch::get(&url).within(bounds)).await.unwrap_err();
    assert!(error.to_string().ends_with("to be reached"), "{error}");
    // One byte now and then keeps nobody longer than the whole.
    let (drip, _heard) = server(Does::Forever("HTTP/1.1 200 OK\r\n\r\n", "x")).await;
    let bounds = FetchBounds { whole: Duration::from_millis(400), ..FetchBounds::default() };
    let error = at_home().fetch(Fetch::get(&format!("http://127.0.0.1:{drip}/")).within(bounds)).await.unwrap_err();
    assert!(matches!(error, OutboundError::TooSlow { millis: 400, .. }), "{error}");
}

#[tokio::test]
async fn nobody_there_is_another_thing_than_a_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    drop(listener);
    let error = at_home().fetch(Fetch::get(&url)).await.unwrap_err();
    assert_eq!(error.reach(), OutboundReach::Unreachable, "{error}");
    let unknown = |_: &str| Err(std::io::Error::other("no such name"));
    let error = at_home().with_resolver(unknown).fetch(Fetch::get("https://id.example/")).await.unwrap_err();
    assert_eq!(
        (error.reach(), error.to_string().as_str()),
        (OutboundReach::Unreachable, "https://id.example is not found: no such name")
    );
}

#[tokio::test]
async fn a_further_address_is_tried_and_there_is_an_end_to_it() {
    let (port, _heard) = server(Does::Answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")).await;
    let several = |last: &'static str| {
        move |_: &str| Ok(["127.0.0.9", "127.0.0.8", last].map(|address| address.parse::<IpAddr>().unwrap()).to_vec())
    };
    let url = format!("http://id.example:{port}/");
    let client = at_home().with_resolver(several("127.0.0.1"));
    client.fetch(Fetch::get(&url)).await.unwrap();
    assert_eq!(client.connections(), 3);
    let many = |_: &str| Ok((2..40).map(|n| IpAddr::from([127, 0, 0, n])).collect());
    let client = at_home().with_resolver(many);
    assert_eq!(client.fetch(Fetch::get(&url)).await.unwrap_err().reach(), OutboundReach::Unreachable);
    assert_eq!(client.connections(), OUTBOUND_ADDRESSES_MAX as u64);
}

#[tokio::test]
async fn calls_at_a_time_are_bounded() {
    let (silent, _heard) = server(Does::Silence).await;
    let client = at_home();
    let url = format!("http://127.0.0.1:{silent}/");
    let holding: Vec<_> = (0..OUTBOUND_CALLS_MAX)
        .map(|_| {
            let (client, call) = (client.clone(), Fetch::get(&url));
            tokio::spawn(async move { client.fetch(call).await })
        })
        .collect();
    while client.connections() < OUTBOUND_CALLS_MAX as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let bounds = FetchBounds { whole: Duration::from_millis(200), ..FetchBounds::default() };
    let error = client.fetch(Fetch::get(&url).within(bounds)).await.unwrap_err();
    assert!(error.to_string().contains("to find a place"), "{error}");
    assert_eq!(client.connections(), OUTBOUND_CALLS_MAX as u64);
    // Who gives up makes room at once.
    for one in holding {
        one.abort();
        let _ = one.await;
    }
    let error = client.fetch(Fetch::get(&url).within(bounds)).await.unwrap_err();
    assert!(error.to_string().contains("to begin its answer"), "{error}");
}

/// The system's look-ups cannot be called off; they have places of their own, so that they do not take all threads.
#[tokio::test]
async fn the_system_knows_this_machine() {
    assert_eq!(OUTBOUND_LOOKUPS_MAX, 16);
    let (port, _heard) = server(Does::Answer("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")).await;
    let all = (0..2 * OUTBOUND_LOOKUPS_MAX).map(|_| {
        let call = Fetch::get(&format!("http://localhost:{port}/"));
        tokio::spawn(async move { at_home().fetch(call).await.map(|answer| answer.status) })
    });
    for one in all.collect::<Vec<_>>() {
        assert_eq!(one.await.unwrap(), Ok(200));
    }
}

#[test]
fn what_a_caller_may_send_is_bounded() {
    let call = || Fetch::get("https://id.example/");
    for name in
        ["host", "Content-Length", "transfer-encoding", "connection", "proxy-authorization", "upgrade", "a b", ""]
    {
        assert!(call().with_header(name, "x").is_err(), "{name}");
    }
    for value in ["a\r\nb: c", "a\nb", "a\0"] {
        assert!(call().with_header("x", value).is_err(), "{value:?}");
    }
    let full = (0..OUTBOUND_HEADERS_MAX).try_fold(call(), |call, n| call.with_header(&format!("x{n}"), "y")).unwrap();
    assert_eq!(full.with_header("one", "more").unwrap_err().to_string(), "it has more than 64 headers");
}

#[tokio::test]
async fn a_body_that_is_too_long_is_not_sent() {
    let call = Fetch::post("https://id.example/", "application/json", vec![b' '; OUTBOUND_BODY_BYTES_MAX + 1]);
    let error = at_home().fetch(call).await.unwrap_err();
    assert_eq!(
        (error.reach(), error.to_string()),
        (OutboundReach::NotTried, "the request is not sent: its body has more than 4 MiB".to_owned())
    );
}
