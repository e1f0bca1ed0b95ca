//! Every URL of `vectors/hostile-urls.json` is refused without a connection, and no name server gets us anywhere either.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_outbound::{Fetch, FetchBounds, Outbound, OutboundError, OutboundReach, OutboundSettings};
use serde::Deserialize;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    url: String,
    why: String,
    /// Where it is refused: reading the `url`, judging the `address`, looking up the `name`.
    at: String,
    /// What the name server says the first time, the second time, and so on.
    #[serde(default)]
    answers: Vec<Vec<IpAddr>>,
}

/// Something on this machine that counts who comes, and answers everybody the same.
struct Trap {
    port: u16,
    came: Arc<AtomicUsize>,
}

impl Trap {
    async fn answering(answer: &'static str) -> Trap {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let came = Arc::new(AtomicUsize::new(0));
        let counter = came.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    let _ = stream.read(&mut request).await;
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Trap { port, came }
    }

    fn came(&self) -> usize {
        self.came.load(Ordering::SeqCst)
    }
}

/// A name server with a list of answers, the last of which stays.
fn resolving(answers: Vec<Vec<IpAddr>>) -> (impl Fn(&str) -> std::io::Result<Vec<IpAddr>>, Arc<AtomicUsize>) {
    let left = Mutex::new(VecDeque::from(answers));
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let resolver = move |_: &str| {
        counter.fetch_add(1, Ordering::SeqCst);
        let mut left = left.lock().unwrap();
        let answer = if left.len() > 1 { left.pop_front() } else { left.front().cloned() };
        Ok(answer.unwrap_or_default())
    };
    (resolver, asked)
}

fn client(private: bool) -> Outbound {
    let settings = OutboundSettings { allow_private_hosts: private, ..OutboundSettings::default() };
    Outbound::new(&settings).unwrap()
}

#[tokio::test]
async fn every_hostile_url_is_refused_and_nobody_is_called() {
    let rows: Vec<Row> = serde_json::from_str(include_str!("../../../vectors/hostile-urls.json")).unwrap();
    assert!(rows.len() >= 60, "{} rows", rows.len());
    let trap = Trap::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let mut wrong = Vec::new();
    for row in rows {
        let url = row.url.replace("{port}", &trap.port.to_string());
        // A name that is not in the table leads into the trap: whoever asks for it has read the URL differently.
        let answers = if row.answers.is_empty() { vec![vec!["127.0.0.1".parse().unwrap()]] } else { row.answers };
        let client = client(false).with_resolver(resolving(answers).0);
        let met = match client.fetch(Fetch::get(&url)).await {
            Err(OutboundError::Url(_)) => "url",
            Err(OutboundError::Address { .. }) => "address",
            Err(OutboundError::Unknown { .. }) => "name",
            other => {
                wrong.push(format!("{} ({}): {other:?}", row.url, row.why));
                continue;
            }
        };
        if met != row.at || client.connections() != 0 {
            let begun = client.connections();
            wrong.push(format!("{} ({}): refused at {met}, not at {}, {begun} connections", row.url, row.why, row.at));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(trap.came(), 0, "somebody was called");
}

/// The name server answers the truth first and something else the second time. It is never asked a second time for the
/// same call, and the next call is judged anew.
#[tokio::test]
async fn a_name_server_that_changes_its_mind_gets_nowhere() {
    let trap = Trap::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let public: IpAddr = "2606:2800:220:1::1".parse().unwrap();
    let (resolver, asked) = resolving(vec![vec![public], vec!["127.0.0.1".parse().unwrap()]]);
    let client = client(false).with_resolver(resolver);
    let url = format!("https://rebind.example:{}/", trap.port);
    let short = FetchBounds { connect: Duration::from_millis(300), ..FetchBounds::default() };
    let first = client.fetch(Fetch::get(&url).within(short)).await.unwrap_err();
    assert_eq!((first.reach(), asked.load(Ordering::SeqCst)), (OutboundReach::Unreachable, 1), "{first}");
    let second = client.fetch(Fetch::get(&url).within(short)).await.unwrap_err();
    assert!(matches!(second, OutboundError::Address { .. }), "{second}");
    assert_eq!((asked.load(Ordering::SeqCst), trap.came()), (2, 0));
}

/// With private hosts allowed the checks that remain are seen from outside: one connection, and none to where it points.
#[tokio::test]
async fn redirects_lead_nowhere() {
    let elsewhere = Trap::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for status in [300, 301, 302, 303, 305, 307, 308, 399] {
        let answer = format!(
            "HTTP/1.1 {status} Moved\r\nlocation: http://127.0.0.1:{}/\r\ncontent-length: 0\r\n\r\n",
            elsewhere.port
        );
        let trap = Trap::answering(answer.leak()).await;
        let error = client(true).fetch(Fetch::get(&format!("http://127.0.0.1:{}/", trap.port))).await.unwrap_err();
        assert!(matches!(error, OutboundError::Redirect { status: met, .. } if met == status), "{error}");
        assert_eq!((error.reach(), trap.came()), (OutboundReach::Answered, 1));
    }
    assert_eq!(elsewhere.came(), 0);
}

#[tokio::test]
async fn the_switch_opens_neither_metadata_nor_plain_http_to_the_internet() {
    let client = client(true).with_resolver(resolving(vec![vec!["93.184.216.34".parse().unwrap()]]).0);
    for url in
        ["http://169.254.169.254/latest", "http://[fd00:ec2::254]/", "http://100.100.100.200/", "http://0.0.0.0:9999/"]
    {
        let error = client.fetch(Fetch::get(url)).await.unwrap_err();
        assert!(matches!(error, OutboundError::Address { .. }), "{url}: {error}");
    }
    let error = client.fetch(Fetch::get("http://id.example/")).await.unwrap_err();
    assert!(matches!(error, OutboundError::Plain { .. }), "{error}");
    assert_eq!(client.connections(), 0);
}

/// Refusals and failures never repeat what may be a secret.
#[tokio::test]
async fn errors_show_the_host_and_nothing_of_the_rest() {
    let trap = Trap::answering("nonsense\r\n\r\n").await;
    for url in [
        format!("http://127.0.0.1:{}/canary-path?token=canary-query", trap.port),
        "http://user:canary-password@127.0.0.1/".to_owned(),
        "https://169.254.169.254/canary-path".to_owned(),
    ] {
        let call = Fetch::get(&url).with_header("authorization", "Bearer canary-header").unwrap();
        let shown = format!("{call:?}");
        let error = client(true).fetch(call).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }
}
