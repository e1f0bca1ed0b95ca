//! What the test files share: waiting for a completion, collecting records.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code; not every file uses all of it"
)]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use rialto_store::{Batch, Class, Committed, EVENT_KIND, Flush, LocalOptions, Record, Seqs, Store, StoreError};

/// Small segments, so that a few records roll.
pub(crate) fn small() -> LocalOptions {
    LocalOptions {
        first_segment_bytes: 4096,
        max_segment_bytes: 8192,
        free_floor_bytes: 0,
        seed: Some(7),
        ..LocalOptions::default()
    }
}

/// Appends and waits.
pub(crate) fn commit(store: &dyn Store, class: Class, epoch: u64, batch: Batch) -> Result<Committed, StoreError> {
    let (tell, told) = channel();
    let done = Box::new(move |result| tell.send(result).unwrap());
    store.append(class, epoch, Flush::Sync, batch, done).map_err(|rejected| rejected.error)?;
    told.recv().unwrap()
}

/// A batch of events with bodies that say who they are.
pub(crate) fn events(network: u32, seqs: std::ops::RangeInclusive<u64>) -> Batch {
    let mut batch = Batch::new(network);
    for seq in seqs {
        batch.push(EVENT_KIND, 1, seq, key(network, seq), body(network, seq).as_bytes()).unwrap();
    }
    batch
}

pub(crate) fn key(network: u32, seq: u64) -> u64 {
    (u64::from(network) << 40 | seq).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

pub(crate) fn body(network: u32, seq: u64) -> String {
    format!("event {seq} of network {network} {}", "x".repeat((seq % 50) as usize))
}

/// Appends events one batch of ten at a time.
pub(crate) fn fill(store: &dyn Store, class: Class, network: u32, seqs: std::ops::RangeInclusive<u64>) {
    let (mut at, last) = seqs.into_inner();
    while at <= last {
        let to = (at + 9).min(last);
        commit(store, class, 1, events(network, at..=to)).unwrap();
        at = to + 1;
    }
}

pub(crate) fn read(store: &dyn Store, network: u32, seqs: Seqs<'_>) -> Result<Vec<Record>, StoreError> {
    let mut out = Vec::new();
    store.read(network, seqs, &mut |record| {
        out.push(record.to_record());
        ControlFlow::Continue(())
    })?;
    Ok(out)
}

pub(crate) fn replay(
    store: &dyn Store,
    class: Class,
    network: Option<u32>,
    after: u64,
) -> Result<Vec<Record>, StoreError> {
    let mut out = Vec::new();
    store.replay(class, network, after, &mut |record| {
        out.push(record.to_record());
        ControlFlow::Continue(())
    })?;
    Ok(out)
}

/// Asserts that exactly these events are there and right.
pub(crate) fn assert_events(store: &dyn Store, network: u32, seqs: std::ops::RangeInclusive<u64>) {
    let found = read(store, network, Seqs::Range(0..u64::MAX)).unwrap();
    assert_eq!(found.iter().map(|r| r.seq).collect::<Vec<_>>(), seqs.collect::<Vec<_>>());
    for record in found {
        assert_eq!(String::from_utf8(record.body).unwrap(), body(network, record.seq));
        assert_eq!(store.find(network, key(network, record.seq)).unwrap(), vec![record.seq]);
    }
}

/// Files of a directory with this ending.
pub(crate) fn files(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(ending))
        .collect();
    found.sort();
    found
}
