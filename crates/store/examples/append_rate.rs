//! Measures the log: appends of 256-byte events in batches of 1024 with a window of four, then opening, reading and look-ups.
//! `cargo run --release -p rialto-store --example append_rate -- [DIR] [EVENTS]`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring tool that talks on stdout")]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Instant;

use rialto_store::{Batch, Class, EVENT_KIND, Flush, LocalOptions, LocalStore, Seqs, Store};

const BATCH: u64 = 1024;
const WINDOW: usize = 4;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().map_or_else(|| std::env::temp_dir().join("rialto-append-rate"), PathBuf::from);
    let events: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(1 << 20);
    let _ = std::fs::remove_dir_all(&dir);
    let store = LocalStore::open(&dir, LocalOptions::default()).unwrap();
    let start = (Instant::now(), cpu_seconds());
    append(&store, events);
    report("append, flushed", events, start);
    let start = (Instant::now(), cpu_seconds());
    drop(store);
    report("close", 1, start);
    let start = (Instant::now(), cpu_seconds());
    let store = LocalStore::open(&dir, LocalOptions::default()).unwrap();
    report("open", 1, start);
    let start = (Instant::now(), cpu_seconds());
    store.networks().unwrap();
    report("networks", 1, start);
    let start = (Instant::now(), cpu_seconds());
    let mut seen = 0;
    store
        .read(1, Seqs::Range(0..u64::MAX), &mut |_| {
            seen += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen, events);
    report("read in order", seen, start);
    let start = (Instant::now(), cpu_seconds());
    for n in 0..10_000 {
        let seq = 1 + mix(n) % events;
        store.read(1, Seqs::These(&[seq]), &mut |_| ControlFlow::Continue(())).unwrap();
    }
    report("read one, random", 10_000, start);
    let start = (Instant::now(), cpu_seconds());
    for n in 0..100_000 {
        store.find(1, mix(n + (1 << 40))).unwrap();
    }
    report("find, absent", 100_000, start);
    let start = (Instant::now(), cpu_seconds());
    for n in 0..10_000 {
        assert!(!store.find(1, mix(1 + n)).unwrap().is_empty());
    }
    report("find, present", 10_000, start);
    drop(store);
    let _ = std::fs::remove_dir_all(&dir);
}

fn append(store: &LocalStore, events: u64) {
    let (give, get) = channel();
    for _ in 0..WINDOW {
        give.send(Batch::new(1)).unwrap();
    }
    let body = [b'x'; 256];
    let mut seq = 0;
    while seq < events {
        let mut batch = get.recv().unwrap();
        batch.clear();
        for _ in 0..BATCH {
            seq += 1;
            batch.push(EVENT_KIND, 1, seq, mix(seq), &body).unwrap();
        }
        let give = give.clone();
        let done =
            Box::new(move |result: Result<rialto_store::Committed, _>| give.send(result.unwrap().batch).unwrap());
        assert!(store.append(Class::STD, 1, Flush::Sync, batch, done).is_ok());
    }
    for _ in 0..WINDOW {
        get.recv().unwrap();
    }
}

fn report(what: &str, count: u64, (wall, cpu): (Instant, f64)) {
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let count = count as f64;
    println!(
        "{what:20} {:>12.0}/s  {:>12.0}/cpu-s  {:.3} s wall, {cpu:.2} s cpu",
        count / wall,
        count / cpu.max(0.001),
        wall
    );
}

fn mix(n: u64) -> u64 {
    let x = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^ (x >> 31)
}

/// User and system time of this process (Linux; elsewhere 0).
fn cpu_seconds() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |path: PathBuf| -> u64 {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    let nanos: u64 = threads.map(|task| of(task.path())).sum();
    nanos as f64 / 1e9
}
