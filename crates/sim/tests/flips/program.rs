//! The same with the real program: it refuses to start and names the file, or starts and every answer is right or a plain error.

use crate::turn;
use rialto_sim::harness::{Chance, Server, note, seed};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const FLIPS: u64 = 50;
const EVENTS: usize = 420;

fn files_under(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_under(&path, out) } else { out.push(path) }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &target) } else { std::fs::copy(&path, &target).map(|_| ()).unwrap() }
    }
}

/// Events of the log by position, each as it is or none where the node says that it cannot be read.
async fn history(server: &Server) -> Vec<Option<Value>> {
    let mut http = server.http();
    let path = format!("/v1/ws/{}/events?view=log", server.main().id);
    let mut out = Vec::new();
    for seq in 0..EVENTS {
        let answer = http.get(&format!("{path}&limit=1&after=seq:{seq}"), &server.admin()).await;
        match answer.status {
            200 => out.push(answer.data()["events"].as_array().unwrap().first().cloned()),
            status => {
                assert_eq!((status, answer.code().as_str()), (503, "storage_unavailable"), "{answer:?}");
                out.push(None);
            }
        }
    }
    out
}

async fn found(server: &Server) -> Option<Value> {
    let path = format!("/v1/ws/{}/events?view=log&search=needle&limit=500", server.main().id);
    let answer = server.http().get(&path, &server.admin()).await;
    (answer.status == 200).then(|| answer.data()["events"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_refuses_or_answers_rightly_after_a_turned_bit() {
    let seed = seed();
    let mut chance = Chance::new(seed);
    let mut server = Server::start().await;
    let session = server.join(&server.main(), "agent:writer").await;
    let path = format!("/v1/ws/{}/events", server.main().id);
    let mut http = server.http();
    for n in 0..EVENTS / 20 {
        let text = |i: usize| format!("{} {n}-{i} {}", if i == 7 { "needle" } else { "hay" }, "x".repeat(4000));
        let events: Vec<Value> = (0..20).map(|i| note(&format!("e-{n}-{i}"), "agent:broadcast", &text(i))).collect();
        let answer = http.post(&path).bearer(&session).json(&json!(events)).await.data();
        assert!(answer["results"].as_array().unwrap().iter().all(|r| r["ok"] == true), "{answer}");
    }
    let (whole, needles) = (history(&server).await, found(&server).await);
    assert!(whole.iter().all(Option::is_some) && needles.as_ref().is_some_and(|n| !n.as_array().unwrap().is_empty()));
    assert!(server.stop().success());
    let keep = tempfile::TempDir::new().unwrap();
    let base = keep.path().join("data");
    copy(&server.data(), &base);
    let mut files = Vec::new();
    files_under(&base, &mut files);
    files.retain(|file| std::fs::metadata(file).unwrap().len() > 0 && !file.ends_with("LOCK"));
    assert!(files.iter().filter(|file| file.to_str().unwrap().ends_with(".seg")).count() > 1, "{files:?}");
    let (mut refused, mut right, mut partly) = (0, 0, 0);
    for n in 0..FLIPS {
        std::fs::remove_dir_all(server.data()).unwrap();
        copy(&base, &server.data());
        let file = &files[chance.below(files.len() as u64) as usize];
        let mut bytes = std::fs::read(file).unwrap();
        // What lies behind the records is not data.
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
        let bit = chance.below(used as u64 * 8);
        turn(&mut bytes, bit);
        let place = file.strip_prefix(&base).unwrap();
        std::fs::write(server.data().join(place), bytes).unwrap();
        let what = format!("seed {seed}, flip {n}: bit {bit} of {}", place.display());
        if let Err(told) = server.try_restart().await {
            let name = place.file_name().unwrap().to_str().unwrap();
            assert!(told.contains(name) || name == "control", "{what}: {told}");
            assert!(!told.contains("panicked"), "{what}: {told}");
            refused += 1;
            continue;
        }
        let (now, hay) = (history(&server).await, found(&server).await);
        for (before, after) in whole.iter().zip(&now) {
            assert!(after.is_none() || after == before, "{what}: {after:?} instead of {before:?}");
        }
        assert!(hay.is_none() || hay == needles, "{what}: search answers otherwise");
        let damaged = now.iter().any(Option::is_none) || hay.is_none();
        server.kill();
        let verified = Server::client().arg("verify").arg("--data").arg(server.data()).output().unwrap();
        assert!(
            !damaged || !verified.status.success(),
            "{what}: verify does not find what reading found: {verified:?}"
        );
        *(if damaged { &mut partly } else { &mut right }) += 1;
        assert!(!server.told().contains("panicked"), "{what}: {}", server.told());
    }
    eprintln!("{refused} did not start, {right} answered everything, {partly} answered all but what was damaged");
    assert!(refused > 0 && right > 0);
}
