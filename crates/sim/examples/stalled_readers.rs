//! What 1,000 stalled subscribers cost: bytes each, and the latency of others beside a node without them, in interleaved runs:
//! `cargo run --release -p rialto-sim --example stalled_readers [STALLED]`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "a program for people")]

use rialto_sim::crowd::{Readers, in_turn, stall, streams};
use rialto_sim::harness::{Server, raise_file_limit};

const RUNS: usize = 5;
const READERS: usize = 8;
const EVENTS: usize = 400;

#[tokio::main]
async fn main() {
    raise_file_limit();
    let count: usize = std::env::args().nth(1).map_or(1000, |n| n.parse().unwrap());
    let (alone, crowded) = (Server::start().await, Server::start().await);
    let mut without = Readers::join(&alone, READERS).await;
    let mut with = Readers::join(&crowded, READERS).await;
    without.run(EVENTS, 256).await;
    let (stalled, bytes) = stall(&crowded, &mut with, count).await;
    println!("{count} stalled readers: {:.1} KiB each", bytes as f64 / 1024.0);
    let mut ratios = Vec::new();
    for run in 0..RUNS {
        let (a, b) = in_turn(&mut without, &mut with, EVENTS, 256).await;
        let ratio = b.quantile(0.99).as_secs_f64() / a.quantile(0.99).as_secs_f64();
        println!(
            "run {run}: p50 {:?} / {:?}, p99 {:?} / {:?}, ratio {ratio:.2}",
            a.quantile(0.5),
            b.quantile(0.5),
            a.quantile(0.99),
            b.quantile(0.99)
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!("p99 with stalled readers over p99 without: {:.2} (median of {RUNS} interleaved runs)", ratios[RUNS / 2]);
    println!("{} streams were open at the end, {} of them stalled", streams(&crowded).await, stalled.len());
}
