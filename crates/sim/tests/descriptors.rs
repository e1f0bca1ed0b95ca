//! A flood of connections on a node that may have few files open: whoever is connected goes on, the flood waits or is turned away, the
//! store keeps the files it needs, nothing spins, and all is well when the flood is over.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

use rialto_sim::harness::{Server, Ws, cpu_seconds, note, open_files, soon, until};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Share of one processor a node may use while connections wait at its door and hardly anything happens. A loop that
/// spins takes all of one.
const IDLE_CPU: f64 = 0.5;

/// Opens many connections and keeps those that the system lets through.
async fn flood(server: &Server, count: usize) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for _ in 0..count {
        if let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(server.address())).await
        {
            open.push(stream);
        }
    }
    open
}

/// The conversation goes on: an event is acknowledged, delivered and acked.
async fn goes_on(ws: &mut Ws, id: &str, text: &str) {
    ws.send(&note(id, "agent:talker", text)).await;
    let answer = ws.answer(id).await;
    assert_eq!(answer["type"], "network.event.ack", "{answer}");
}

/// Processor share over a while in which the conversation goes on.
async fn share_of_cpu(server: &Server, ws: &mut Ws, name: &str) -> f64 {
    let (before, began) = (cpu_seconds(server.pid()), Instant::now());
    for n in 0..15 {
        goes_on(ws, &format!("{name}-{n}"), "x").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (cpu_seconds(server.pid()) - before) / began.elapsed().as_secs_f64()
}

async fn answers_anew(server: &Server) {
    let (address, id) = (server.address(), server.main().id);
    until("a new connection", || async { Ws::open(address, &format!("/ws/{id}"), &[]).await.ok().map(drop) }).await;
}

#[tokio::test]
async fn a_flood_leaves_files_to_the_store() {
    const FILES: u64 = 128;
    let mut server = Server::start_with_files(FILES, &[]).await;
    let (mut ws, _) = Ws::joined(server.address(), &server.main(), "agent:talker", &json!({})).await;
    goes_on(&mut ws, "first", "x").await;
    for round in 0..2 {
        let held = flood(&server, 400).await;
        assert!(held.len() > 100, "the flood is too small to mean anything");
        assert!((open_files(server.pid()) as u64) < FILES, "connections took every file");
        let share = share_of_cpu(&server, &mut ws, &format!("r{round}")).await;
        assert!(share < IDLE_CPU, "the node spins: {share:.2} of a processor");
        // The log needs new files on its way: segments, their sidecars.
        for n in 0..24 {
            goes_on(&mut ws, &format!("big-{round}-{n}"), &"x".repeat(60_000)).await;
        }
        let sealed = std::fs::read_dir(server.data().join("log/std")).unwrap().count();
        assert!(sealed > 2, "no segment was made during the flood");
        drop(held);
        answers_anew(&server).await;
        assert_eq!(server.http().request("GET", "/ready").send().await.status, 200);
    }
    let told = server.told();
    assert!(!told.contains("panicked"), "{told}");
    assert!(server.stop().success());
}

/// The limit falls below what is in use: not even the door can open a file. The conversation goes on all the same.
#[tokio::test]
async fn without_a_single_file_left_the_connected_go_on() {
    let mut server = Server::start().await;
    let (mut ws, _) = Ws::joined(server.address(), &server.main(), "agent:talker", &json!({})).await;
    goes_on(&mut ws, "first", "x").await;
    let pid = Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    let now = open_files(server.pid()) as u64;
    // Only the soft limit, so that it can be raised again.
    let before = getrlimit(Resource::Nofile);
    prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(now), maximum: before.maximum }).unwrap();
    let held = flood(&server, 100).await;
    let share = share_of_cpu(&server, &mut ws, "none-left").await;
    assert!(share < IDLE_CPU, "the node spins: {share:.2} of a processor");
    assert!(server.told().contains("could not be accepted"), "{}", server.told());
    assert!(
        server.told().lines().filter(|l| l.contains("could not be accepted")).count() < 200,
        "the log is flooded too"
    );
    drop(held);
    prlimit(Some(pid), Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum }).unwrap();
    answers_anew(&server).await;
    goes_on(&mut ws, "last", "x").await;
    let ready = soon("readiness", async { server.http().request("GET", "/ready").send().await }).await;
    assert_eq!(ready.status, 200);
    let told = server.told();
    assert!(!told.contains("panicked"), "{told}");
    let history =
        server.http().get(&format!("/v1/ws/{}/events?view=log&limit=500", server.main().id), &server.admin()).await;
    let ids: Vec<String> =
        history.data()["events"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap().to_owned()).collect();
    assert!(
        ["first", "none-left-0", "none-left-14", "last"].iter().all(|id| ids.iter().any(|found| found == id)),
        "{ids:?}"
    );
    server.kill();
    server.restart().await;
}
