//! The search index is SQLite's: `search.db` is rebuilt when its seal does not fit. Judged on a disk in memory where there is one.

use crate::{flips, turn};
use rialto_sim::harness::{Chance, seed};
use rialto_store::StoreError;
use rialto_store::search::{Doc, SearchIndex, SearchQuery, SearchViewer};
use std::path::Path;
use tempfile::TempDir;

const FLIPS: u64 = 1_000;
const WORDS: [&str; 8] = ["deploy", "payments", "vault", "migration", "迁移已经", "coffee", "release", "broken"];

/// In memory if the system has such a place: thousands of small databases are flushed.
fn place() -> TempDir {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { TempDir::new_in(shared).or_else(|_| TempDir::new()).unwrap() } else { TempDir::new().unwrap() }
}

fn texts() -> Vec<(u64, String)> {
    (1..=120)
        .map(|seq| (seq, format!("{} then {} number {seq}", WORDS[seq as usize % 8], WORDS[seq as usize / 8 % 8])))
        .collect()
}

fn feed(index: &SearchIndex) {
    let texts = texts();
    let docs: Vec<Doc<'_>> =
        texts.iter().map(|(seq, text)| Doc { seq: *seq, streams: &[1], source: Some(1), text }).collect();
    index.index(1, &docs, 120).unwrap();
}

fn answers(index: &SearchIndex) -> Vec<Vec<u64>> {
    let viewer = SearchViewer { operator: true, ..SearchViewer::default() };
    let ask = |text: &str| {
        let query = SearchQuery { network: 1, text, after: None, before: None, limit: 200, oldest_first: false };
        index.query(&query, &viewer).unwrap().seqs
    };
    WORDS.into_iter().map(ask).collect()
}

#[test]
fn every_turned_bit_in_the_search_index_is_found_and_the_index_rebuilt() {
    let seed = seed();
    let mut chance = Chance::new(seed);
    let dir = place();
    let (base, file) = (dir.path().join("search.db"), dir.path().join("copy.db"));
    let seal = |of: &Path| of.with_extension("db.seal");
    let index = SearchIndex::open(&base).unwrap();
    feed(&index);
    let whole = answers(&index);
    assert!(whole.iter().all(|found| found.len() > 10), "{whole:?}");
    index.close().unwrap();
    assert!(matches!(index.indexed_through(1), Err(StoreError::Closed)));
    let (bytes, sealed) = (std::fs::read(&base).unwrap(), std::fs::read(seal(&base)).unwrap());
    let (mut rebuilt, mut kept) = (0, 0);
    for n in 0..flips(FLIPS) {
        let (mut damaged, mut damaged_seal) = (bytes.clone(), sealed.clone());
        if n == 0 {
            // As it is.
        } else if chance.below(16) == 0 {
            turn(&mut damaged_seal, chance.below(sealed.len() as u64 * 8));
        } else {
            turn(&mut damaged, chance.below(bytes.len() as u64 * 8));
        }
        std::fs::write(&file, damaged).unwrap();
        std::fs::write(seal(&file), damaged_seal).unwrap();
        let index = SearchIndex::open(&file).unwrap_or_else(|e| panic!("seed {seed}, flip {n}: {e}"));
        match index.indexed_through(1).unwrap() {
            0 => {
                rebuilt += 1;
                feed(&index);
            }
            through => {
                kept += 1;
                assert_eq!(through, 120);
            }
        }
        assert_eq!(answers(&index), whole, "seed {seed}, flip {n}");
        drop(index);
        for ending in ["db", "db-wal", "db-shm", "db.seal"] {
            let _ = std::fs::remove_file(file.with_extension(ending));
        }
    }
    eprintln!("search index: {rebuilt} rebuilt, {kept} kept");
    assert_eq!(kept, 1, "only the file as it was closed is used");
}
