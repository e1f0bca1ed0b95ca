//! A disk that is full, or turns read-only, under a running node: writes are refused at once with the sheet's error, `/ready` is
//! false, nothing is acknowledged that is not kept, and all is well again when the cause is gone, without a restart.
//! Where a test may not mount, it says so; the same over the fault layer is in the node's own tests (`disk.rs`).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

use rialto_sim::harness::{Frame, Http, Mount, Server, Ws, note, until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A refusal is promised within a second; here it may take ten times as long.
const REFUSED_WITHIN: Duration = Duration::from_secs(10);

/// What a sender was told.
#[derive(Debug, Default)]
struct Told {
    accepted: BTreeMap<String, u64>,
    refused: BTreeSet<String>,
}

struct Sender {
    http: Http,
    path: String,
    session: String,
    bytes: usize,
    told: Told,
}

impl Sender {
    async fn new(server: &Server, bytes: usize) -> Sender {
        let session = server.join(&server.main(), "agent:writer").await;
        let path = format!("/v1/ws/{}/events", server.main().id);
        Sender { http: server.http(), path, session, bytes, told: Told::default() }
    }

    /// Sends one event; false if it was refused, with the right error and in time.
    async fn send(&mut self, id: &str) -> bool {
        let event = note(id, "agent:broadcast", &format!("body of {id} {}", "x".repeat(self.bytes)));
        let began = Instant::now();
        let answer = self.http.post(&self.path).bearer(&self.session).json(&event).await;
        if answer.status == 200 {
            self.told.accepted.insert(id.to_owned(), answer.data()["seq"].as_u64().unwrap());
            return true;
        }
        let took = began.elapsed();
        assert_eq!((answer.status, answer.code().as_str()), (503, "storage_unavailable"), "{answer:?}");
        let error = &answer.json()["error"];
        assert_eq!(error["retryable"], true, "{error}");
        assert!(error["message"].as_str().unwrap().contains("disk"), "{error}");
        assert!(took < REFUSED_WITHIN, "the refusal took {took:?}");
        self.told.refused.insert(id.to_owned());
        false
    }

    async fn send_until_refused(&mut self, name: &str) {
        for n in 0..2000 {
            if !self.send(&format!("{name}-{n}")).await {
                return;
            }
        }
        panic!("the disk never got full");
    }
}

async fn ready(server: &Server) -> bool {
    server.http().request("GET", "/ready").send().await.status == 200
}

async fn until_ready(server: &Server, wanted: bool) {
    until("readiness to change", || async { (ready(server).await == wanted).then_some(()) }).await;
}

async fn history(server: &Server) -> BTreeMap<String, u64> {
    let mut http = server.http();
    let (mut out, mut after, mut seq) = (BTreeMap::new(), "seq:0".to_owned(), 0);
    loop {
        let path = format!("/v1/ws/{}/events?view=log&limit=500&after={after}", server.main().id);
        let page = http.get(&path, &server.admin()).await.data();
        for event in page["events"].as_array().unwrap() {
            // Every event has its place in history, without a gap.
            seq += 1;
            if event["type"] != "test.note.posted" {
                continue;
            }
            let id = event["id"].as_str().unwrap().to_owned();
            assert!(event["payload"]["content"].as_str().unwrap().starts_with(&format!("body of {id} ")), "{event}");
            assert_eq!(out.insert(id, seq), None, "twice: {event}");
        }
        page["next_cursor"].as_str().unwrap().clone_into(&mut after);
        if page["has_more"] == false {
            return out;
        }
    }
}

/// Everything acknowledged is there, at its place; what is there besides was sent and refused.
async fn check(server: &Server, told: &Told, refused_may_be_there: bool) {
    let there = history(server).await;
    for (id, seq) in &told.accepted {
        assert_eq!(there.get(id), Some(seq), "{id} was acknowledged at {seq}");
    }
    for id in there.keys().filter(|id| !told.accepted.contains_key(*id)) {
        assert!(refused_may_be_there && told.refused.contains(id), "{id} is there, and nobody was told");
    }
}

/// A stream whose event is refused is told so and closed.
async fn stream_is_refused(server: &Server) {
    let Ok(mut ws) = Ws::open(server.address(), &format!("/ws/{}", server.main().id), &[]).await else { return };
    let join = rialto_sim::harness::join("agent:streamer", &server.main().token, &json!({}));
    ws.send(&join).await;
    match ws.next().await {
        Frame::Event(event) => {
            assert_eq!(event["type"], "network.event.error", "{event}");
            assert_eq!(event["payload"]["code"], "storage_unavailable", "{event}");
        }
        end @ (Frame::Closed(..) | Frame::Gone) => panic!("no error before {end:?}"),
    }
    let (code, _) = ws.end().await;
    assert_eq!(code, Some(1011), "a fault of the node, not of the client");
}

fn no_panic(server: &Server) {
    let told = server.told();
    assert!(!told.contains("panicked"), "{told}");
}

fn mounted(mount: Result<Mount, String>) -> Option<Mount> {
    mount
        .inspect_err(|why| {
            eprintln!(
                "NOT RUN: this test may not mount here ({why}); the fault layer is tested by rialto-node --test disk"
            );
        })
        .ok()
}

#[tokio::test]
async fn the_floor_of_free_space_refuses_writes_and_serves_reads() {
    let Some(mount) = mounted(Mount::tmpfs(48 << 20)) else { return };
    let config = mount.path().join("rialto.toml");
    std::fs::write(&config, "[store]\nfree_space_floor_bytes = \"8MiB\"\n").unwrap();
    let mut server = Server::start_on(&mount.path().join("data"), &["--config", config.to_str().unwrap()]).await;
    let mut sender = Sender::new(&server, 500).await;
    for n in 0..20 {
        assert!(sender.send(&format!("before-{n}")).await);
    }
    for round in 0..3 {
        let ballast = mount.fill(4 << 20);
        assert!(!sender.send(&format!("full-{round}")).await, "written below the floor");
        until_ready(&server, false).await;
        // Nothing was lost or half done, so what is there can be read.
        check(&server, &sender.told, false).await;
        stream_is_refused(&server).await;
        for n in 0..10 {
            assert!(!sender.send(&format!("still-full-{round}-{n}")).await);
            assert!(!ready(&server).await, "ready with a full disk");
        }
        std::fs::remove_file(ballast).unwrap();
        until_ready(&server, true).await;
        for n in 0..10 {
            assert!(sender.send(&format!("after-{round}-{n}")).await);
        }
        check(&server, &sender.told, false).await;
    }
    no_panic(&server);
    server.kill();
    server.restart().await;
    check(&server, &sender.told, false).await;
}

#[tokio::test]
async fn a_disk_full_to_the_last_byte_loses_nothing_acknowledged() {
    let Some(mount) = mounted(Mount::tmpfs(24 << 20)) else { return };
    let config = mount.path().join("rialto.toml");
    std::fs::write(&config, "[store]\nfree_space_floor_bytes = 0\n").unwrap();
    let mut server = Server::start_on(&mount.path().join("data"), &["--config", config.to_str().unwrap()]).await;
    let mut sender = Sender::new(&server, 30_000).await;
    for round in 0..2 {
        let ballast = mount.fill(0);
        sender.send_until_refused(&format!("fill-{round}")).await;
        until_ready(&server, false).await;
        for n in 0..5 {
            assert!(!sender.send(&format!("full-{round}-{n}")).await);
        }
        std::fs::remove_file(ballast).unwrap();
        until_ready(&server, true).await;
        for n in 0..5 {
            assert!(sender.send(&format!("after-{round}-{n}")).await);
        }
        check(&server, &sender.told, true).await;
    }
    no_panic(&server);
    let ballast = mount.fill(0);
    sender.send_until_refused("last").await;
    // Stopped while full, it ends; started again with space, all is there.
    server.terminate();
    server.ended();
    std::fs::remove_file(ballast).unwrap();
    server.restart().await;
    check(&server, &sender.told, true).await;
    no_panic(&server);
}

#[tokio::test]
async fn a_disk_that_turns_read_only_and_back() {
    let Some(mount) = mounted(Mount::ext4(64 << 20)) else { return };
    let config = mount.path().join("rialto.toml");
    std::fs::write(&config, "[store]\nfree_space_floor_bytes = 0\n").unwrap();
    let data = mount.path().join("data");
    let mut server = Server::start_on(&data, &["--config", config.to_str().unwrap()]).await;
    let mut sender = Sender::new(&server, 500).await;
    for round in 0..2 {
        for n in 0..10 {
            assert!(sender.send(&format!("before-{round}-{n}")).await);
        }
        // A mount with files open for writing cannot be remounted read-only; immutable files refuse writes in the same way.
        if let Err(why) = Mount::set_immutable(&data, true) {
            eprintln!("NOT RUN: {why}");
            return;
        }
        sender.send_until_refused(&format!("read-only-{round}")).await;
        until_ready(&server, false).await;
        for n in 0..5 {
            assert!(!sender.send(&format!("still-{round}-{n}")).await);
        }
        Mount::set_immutable(&data, false).unwrap();
        until_ready(&server, true).await;
        for n in 0..5 {
            assert!(sender.send(&format!("after-{round}-{n}")).await);
        }
        check(&server, &sender.told, true).await;
    }
    no_panic(&server);
    server.kill();
    server.restart().await;
    check(&server, &sender.told, true).await;
    fails_for_good(&mount, server, sender).await;
}

/// The kernel itself gives the file system up: refused until it is repaired and mounted again; a restart finds everything.
async fn fails_for_good(mount: &Mount, mut server: Server, mut sender: Sender) {
    sender.http = server.http();
    if let Err(why) = mount.break_down() {
        eprintln!("NOT RUN: the file system cannot be made to fail here ({why})");
        return;
    }
    sender.send_until_refused("broken").await;
    until_ready(&server, false).await;
    assert!(!sender.send("still-broken").await);
    let reads: Value = server.http().request("GET", "/health").send().await.json();
    assert_eq!(reads["status"], "ok");
    no_panic(&server);
    server.terminate();
    server.ended();
    mount.repair().unwrap();
    mount.attach().unwrap();
    server.restart().await;
    check(&server, &sender.told, true).await;
    assert!(ready(&server).await);
}
