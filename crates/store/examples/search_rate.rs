//! Measures the search index: texts taken in per cpu-second, and answers.
//! `cargo run --release -p rialto-store --example search_rate -- [FILE] [TEXTS]`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring tool that talks on stdout")]

use std::path::PathBuf;
use std::time::Instant;

use rialto_store::search::{Doc, SearchIndex, SearchQuery, SearchViewer, StreamView};

const WORDS: &[&str] = &[
    "deploy",
    "payments",
    "failed",
    "review",
    "please",
    "branch",
    "merge",
    "agent",
    "task",
    "done",
    "build",
    "数据库",
    "迁移",
    "完成",
    "error",
    "timeout",
    "retry",
    "network",
    "channel",
    "message",
    "the",
    "of",
    "in",
    "again",
    "tomorrow",
];

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().map_or_else(|| std::env::temp_dir().join("rialto-search-rate.db"), PathBuf::from);
    let count: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let _ = std::fs::remove_file(&path);
    let index = SearchIndex::open(&path).unwrap();
    let mut random = 1_u64;
    let mut text = || {
        let mut text = String::new();
        for _ in 0..14 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(WORDS.get((random >> 33) as usize % WORDS.len()).unwrap());
            text.push(' ');
        }
        text + &format!("{random:x}")
    };
    let texts: Vec<String> = (0..count).map(|_| text()).collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    let start = (Instant::now(), cpu_seconds());
    let mut seq = 0;
    for part in texts.chunks(8192) {
        let docs: Vec<Doc<'_>> = part
            .iter()
            .zip(seq + 1..)
            .map(|(text, seq)| Doc { seq, streams: &[7], source: Some(seq % 50), text })
            .collect();
        seq += docs.len() as u64;
        index.index(1, &docs, seq).unwrap();
    }
    let (wall, cpu) = (start.0.elapsed().as_secs_f64(), cpu_seconds() - start.1);
    let size = std::fs::metadata(&path).unwrap().len();
    println!(
        "index   {:.0}/s  {:.0}/cpu-s  {} bytes of text, {size} in the file",
        seq as f64 / wall,
        seq as f64 / cpu,
        bytes
    );
    let viewer = SearchViewer {
        streams: (1..=1000).map(|stream| StreamView { stream, seqs: 0..=u64::MAX }).collect(),
        ..SearchViewer::default()
    };
    for text in ["payments", "deploy payments failed", "迁移", "nowhere to be found", "zz"] {
        let start = Instant::now();
        let query = SearchQuery { network: 1, text, after: None, before: None, limit: 50, oldest_first: false };
        let found = index.query(&query, &viewer).unwrap().seqs.len();
        println!("query   {:>8.2} ms  {found} found  {text}", start.elapsed().as_secs_f64() * 1e3);
    }
}

/// Time on the cpu of this thread (Linux; elsewhere 0).
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) as f64 / 1e9
}
