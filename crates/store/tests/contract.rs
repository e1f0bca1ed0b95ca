//! What every store promises, written once and run over each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test code")]

mod common;
mod sql;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::channel;

use common::*;
use rialto_store::disk::fault::FaultDisk;
use rialto_store::{
    Batch, Class, EVENT_KIND, Flush, Horizon, LocalOptions, LocalStore, MemoryStore, NetworkInfo, Seqs, Snapshot,
    Store, StoreError,
};
use sql::SqlStore;
use sql::tables::{Cut, Database};

fn lsns_are_gapless_per_class_and_batches_come_back(store: &dyn Store) {
    let first = commit(store, Class::STD, 1, events(1, 1..=3)).unwrap();
    assert_eq!((first.first_lsn, first.last_lsn), (1, 3));
    let mut batch = first.batch;
    batch.reset(2);
    batch.push(EVENT_KIND, 1, 1, 0, b"again").unwrap();
    let second = commit(store, Class::STD, 1, batch).unwrap();
    assert_eq!((second.first_lsn, second.last_lsn), (4, 4));
    let other = commit(store, Class::EVER, 1, events(3, 1..=2)).unwrap();
    assert_eq!((other.first_lsn, other.last_lsn), (1, 2));
    assert_eq!(replay(store, Class::STD, None, 0).unwrap().len(), 4);
    assert_eq!(replay(store, "other".parse().unwrap(), None, 0).unwrap(), vec![]);
    let empty = commit(store, Class::STD, 1, Batch::new(1)).unwrap();
    assert_eq!((empty.first_lsn, empty.last_lsn), (4, 4));
}

fn events_are_read_by_seq(store: &dyn Store) {
    fill(store, Class::STD, 1, 1..=200);
    fill(store, Class::STD, 2, 1..=30);
    fill(store, Class::STD, 1, 201..=300);
    assert_events(store, 1, 1..=300);
    assert_events(store, 2, 1..=30);
    assert_eq!(read(store, 9, Seqs::Range(0..100)).unwrap(), vec![]);
    let some: Vec<u64> =
        read(store, 1, Seqs::These(&[0, 7, 8, 150, 299, 500])).unwrap().iter().map(|r| r.seq).collect();
    assert_eq!(some, vec![7, 8, 150, 299]);
    let range: Vec<u64> = read(store, 1, Seqs::Range(195..205)).unwrap().iter().map(|r| r.seq).collect();
    assert_eq!(range, (195..205).collect::<Vec<_>>());
    let mut seen = 0;
    let stop = &mut |_: rialto_store::RecordRef<'_>| {
        seen += 1;
        if seen == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.read(1, Seqs::Range(0..u64::MAX), stop).unwrap();
    assert_eq!(seen, 5);
}

fn replay_shows_every_kind_in_order(store: &dyn Store) {
    for seq in 1..=100 {
        let mut batch = Batch::new(1);
        batch.push(EVENT_KIND, 1, seq, 0, b"event").unwrap();
        batch.push(7, 3, seq, 0, b"membership").unwrap();
        commit(store, Class::STD, 1, batch).unwrap();
        commit(store, Class::STD, 1, events(2, seq..=seq)).unwrap();
    }
    let all = replay(store, Class::STD, None, 0).unwrap();
    assert_eq!(all.iter().map(|r| r.lsn).collect::<Vec<_>>(), (1..=300).collect::<Vec<_>>());
    let one = replay(store, Class::STD, Some(1), 150).unwrap();
    assert!(one.iter().all(|r| r.network == 1 && r.lsn > 150));
    assert_eq!(one.len(), 100);
    assert_eq!(one.iter().filter(|r| (r.kind, r.version, &r.body[..]) == (7, 3, b"membership")).count(), 50);
    assert_eq!(store.replay(Class::STD, Some(5), 0, &mut |_| ControlFlow::Break(())).unwrap(), 300);
    // Other kinds are not found by seq.
    assert!(read(store, 1, Seqs::Range(0..1000)).unwrap().iter().all(|r| r.kind == EVENT_KIND));
}

fn keys_give_candidates_newest_first(store: &dyn Store) {
    for seq in 1..=60 {
        let mut batch = Batch::new(1);
        batch.push(EVENT_KIND, 1, seq, 1 + seq % 20, b"some body that takes room in a segment").unwrap();
        commit(store, Class::STD, 1, batch).unwrap();
    }
    assert_eq!(store.find(1, 5).unwrap(), vec![44, 24, 4]);
    assert_eq!(store.find(2, 5).unwrap(), Vec::<u64>::new());
    assert_eq!(store.find(1, 0).unwrap(), Vec::<u64>::new());
    assert_eq!(store.find(1, 999).unwrap(), Vec::<u64>::new());
}

fn completions_come_in_order(store: &dyn Store) {
    let (tell, told) = channel();
    for seq in 1..=100 {
        let tell = tell.clone();
        let done = Box::new(move |result: Result<rialto_store::Committed, StoreError>| {
            tell.send(result.unwrap().first_lsn).unwrap();
        });
        let flush = if seq % 3 == 0 { Flush::Os } else { Flush::Sync };
        store.append(Class::STD, 1, flush, events(1, seq..=seq), done).unwrap();
    }
    drop(tell);
    assert_eq!(told.iter().collect::<Vec<_>>(), (1..=100).collect::<Vec<_>>());
    assert_events(store, 1, 1..=100);
}

fn an_older_epoch_is_fenced(store: &dyn Store) {
    commit(store, Class::STD, 5, events(1, 1..=1)).unwrap();
    let refused = commit(store, Class::STD, 4, events(1, 2..=2)).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { network: 1, newest: 5, given: 4 }));
    commit(store, Class::STD, 1, events(2, 1..=1)).unwrap();
    commit(store, Class::STD, 6, events(1, 2..=2)).unwrap();
    assert_events(store, 1, 1..=2);
}

fn networks_are_known_by_log_or_snapshot(store: &dyn Store) {
    fill(store, Class::STD, 4, 1..=100);
    fill(store, Class::EVER, 2, 1..=3);
    store.save_snapshot(Class::EVER, 9, 1, b"state").unwrap();
    let expected = [(2, Class::EVER), (4, Class::STD), (9, Class::EVER)];
    let expected: Vec<_> = expected.map(|(network, class)| NetworkInfo { network, class }).to_vec();
    assert_eq!(store.networks().unwrap(), expected);
}

fn a_network_may_move_to_another_class(store: &dyn Store) {
    fill(store, Class::STD, 1, 1..=50);
    fill(store, Class::EVER, 1, 51..=80);
    assert_events(store, 1, 1..=80);
    assert_eq!(store.networks().unwrap(), vec![NetworkInfo { network: 1, class: Class::EVER }]);
}

fn two_snapshots_are_kept_and_the_newest_is_loaded(store: &dyn Store) {
    assert_eq!(store.load_snapshot(1, u64::MAX).unwrap(), None);
    for lsn in [5, 9, 12] {
        store.save_snapshot(Class::STD, 1, lsn, format!("state at {lsn}").as_bytes()).unwrap();
    }
    store.save_snapshot(Class::STD, 2, 3, b"").unwrap();
    let expected = Snapshot { class: Class::STD, lsn: 12, bytes: b"state at 12".to_vec() };
    assert_eq!(store.load_snapshot(1, u64::MAX).unwrap(), Some(expected));
    assert_eq!(store.load_snapshot(1, 11).unwrap().unwrap().lsn, 9);
    assert_eq!(store.load_snapshot(1, 8).unwrap(), None);
    assert_eq!(store.load_snapshot(2, u64::MAX).unwrap().unwrap().bytes, b"");
    assert_eq!(store.verify(&mut |_, _| {}).unwrap().snapshots, 3);
}

fn the_epoch_is_raised_and_never_lowered(store: &dyn Store) {
    assert_eq!(store.epoch().unwrap(), 1);
    for (to, is) in [(3, 3), (2, 3), (4, 4)] {
        store.raise_epoch(to).unwrap();
        assert_eq!(store.epoch().unwrap(), is);
    }
}

fn a_rejected_snapshot_gives_way_to_the_older_one(store: &dyn Store) {
    for lsn in [5, 9] {
        store.save_snapshot(Class::STD, 1, lsn, b"").unwrap();
    }
    store.reject_snapshot(1, 9, "cannot be decoded").unwrap();
    store.reject_snapshot(1, 7, "there is none").unwrap();
    assert_eq!(store.load_snapshot(1, u64::MAX).unwrap().unwrap().lsn, 5);
    while let Some(snapshot) = store.load_snapshot(1, u64::MAX).unwrap() {
        store.reject_snapshot(1, snapshot.lsn, "cannot be decoded").unwrap();
    }
}

fn recycling_frees_only_what_nobody_needs(store: &dyn Store) {
    fill(store, Class::STD, 1, 1..=400);
    let last = replay(store, Class::STD, None, 0).unwrap().len() as u64;
    let horizon = [Horizon { network: 1, seq: 300 }];
    assert_eq!(store.recycle(Class::STD, &horizon).unwrap().segments, 0, "no snapshot covers anything");
    store.save_snapshot(Class::STD, 1, 100, b"").unwrap();
    assert_eq!(store.recycle(Class::STD, &horizon).unwrap().segments, 0, "one snapshot is not two");
    store.save_snapshot(Class::STD, 1, last, b"").unwrap();
    assert!(store.recycle(Class::STD, &horizon).unwrap().segments > 0);
    let left: Vec<u64> = read(store, 1, Seqs::Range(0..1000)).unwrap().iter().map(|r| r.seq).collect();
    assert!(left[0] > 1 && left[0] <= 101, "{}", left[0]);
    assert_eq!(left, (left[0]..=400).collect::<Vec<_>>());
    assert_eq!(store.find(1, key(1, 1)).unwrap(), Vec::<u64>::new());
    fill(store, Class::STD, 2, 1..=10);
    fill(store, Class::STD, 1, 401..=700);
    let end = replay(store, Class::STD, None, 0).unwrap().last().unwrap().lsn;
    for lsn in [end - 1, end] {
        store.save_snapshot(Class::STD, 1, lsn, b"").unwrap();
    }
    store.recycle(Class::STD, &[Horizon { network: 1, seq: 700 }]).unwrap();
    assert_events(store, 2, 1..=10);
    fill(store, Class::STD, 1, 701..=800);
    let left: Vec<u64> = read(store, 1, Seqs::Range(0..1000)).unwrap().iter().map(|r| r.seq).collect();
    // What shares a segment with the other network may stay.
    assert!(left.is_sorted() && left.ends_with(&(701..=800).collect::<Vec<_>>()), "{left:?}");
    assert!(store.verify(&mut |_, _| {}).unwrap().damage.is_empty());
}

fn blobs_are_named_by_their_hash(store: &dyn Store) {
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    let mut writer = store.put_blob().unwrap();
    for piece in bytes.chunks(7_001) {
        writer.write(piece).unwrap();
    }
    let blob = writer.finish().unwrap();
    assert_eq!((blob.size, blob.hash.len()), (200_000, 64));
    assert_eq!(store.put_blob().unwrap().finish().unwrap().hash, EMPTY);
    let mut again = store.put_blob().unwrap();
    again.write(&bytes).unwrap();
    assert_eq!(again.finish().unwrap(), blob);
    let mut dropped = store.put_blob().unwrap();
    dropped.write(b"never finished").unwrap();
    drop(dropped);
    let reader = store.open_blob(&blob.hash).unwrap().unwrap();
    let mut buf = vec![0; 1000];
    assert_eq!(reader.read_at(&mut buf, 123_456).unwrap(), 1000);
    assert_eq!(buf, bytes[123_456..124_456]);
    assert_eq!(reader.read_at(&mut buf, 199_999).unwrap(), 1);
    assert_eq!(reader.read_at(&mut buf, 300_000).unwrap(), 0);
    assert_eq!(reader.size(), 200_000);
    assert_eq!(store.list_blobs().unwrap().len(), 2);
    assert!(store.has_blob(EMPTY).unwrap());
    assert!(store.remove_blob(EMPTY).unwrap());
    assert!(!store.remove_blob(EMPTY).unwrap());
    assert!(!store.has_blob(EMPTY).unwrap());
    assert!(store.open_blob(EMPTY).unwrap().is_none());
    let report = store.verify(&mut |_, _| {}).unwrap();
    assert_eq!((report.blobs, report.damage.len()), (1, 0));
}

/// Writers of one content do not disturb each other, nor a reader that began before them.
fn a_blob_may_be_written_by_many_at_once(store: &dyn Store) {
    let bytes: Vec<u8> = (0..150_000_u32).map(|n| (n % 241) as u8).collect();
    let write = || {
        let mut writer = store.put_blob().unwrap();
        bytes.chunks(9_001).for_each(|piece| writer.write(piece).unwrap());
        writer.finish().unwrap()
    };
    let first = write();
    let reader = store.open_blob(&first.hash).unwrap().unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
        assert!(writers.into_iter().all(|writer| writer.join().unwrap() == first));
    });
    assert_eq!(store.list_blobs().unwrap(), std::slice::from_ref(&first));
    let mut buf = vec![0; bytes.len()];
    for reader in [reader, store.open_blob(&first.hash).unwrap().unwrap()] {
        assert_eq!(reader.read_at(&mut buf, 0).unwrap(), bytes.len());
        assert!(buf == bytes);
    }
    assert!(store.verify(&mut |_, _| {}).unwrap().damage.is_empty());
}

fn a_closed_store_refuses_and_health_tells(store: &dyn Store) {
    fill(store, Class::STD, 1, 1..=5);
    let health = store.health();
    assert_eq!(health.logs[0].last_lsn, 5);
    assert_eq!(health.logs[0].durable_lsn, 5);
    assert!(health.last_error.is_none() && health.free_bytes.is_none_or(|free| free > 0));
    store.reopen(1).unwrap();
    store.close().unwrap();
    store.close().unwrap();
    assert!(matches!(commit(store, Class::STD, 1, events(1, 6..=6)), Err(StoreError::Closed)));
}

fn readers_and_writers_do_not_disturb_each_other(store: &dyn Store) {
    std::thread::scope(|scope| {
        for network in 1..=3 {
            scope.spawn(move || fill(store, Class::STD, network, 1..=400));
        }
        for network in 1..=3 {
            scope.spawn(move || {
                let mut last = 0;
                while last < 400 {
                    let found = read(store, network, Seqs::Range(0..1000)).unwrap();
                    let seqs: Vec<u64> = found.iter().map(|r| r.seq).collect();
                    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
                    assert!(seqs.len() as u64 >= last);
                    last = seqs.len() as u64;
                }
            });
        }
    });
    for network in 1..=3 {
        assert_events(store, network, 1..=400);
    }
    assert_eq!(store.verify(&mut |_, _| {}).unwrap().records, 1200);
}

/// An erased body is gone for readers and for replay, and everything still verifies.
fn a_body_can_be_erased_in_place(store: &dyn Store) {
    let mut batch = Batch::new(1);
    for seq in 1..=40 {
        batch.push(EVENT_KIND, 1, seq, 0, format!("secret-{seq:04}").as_bytes()).unwrap();
    }
    commit(store, Class::STD, 1, batch).unwrap();
    assert!(store.erase(1, 7, b"###########").unwrap());
    assert!(!store.erase(1, 99, b"###########").unwrap());
    assert!(store.erase(1, 8, b"short").is_err());
    let found = read(store, 1, Seqs::Range(6..9)).unwrap();
    let bodies: Vec<&[u8]> = found.iter().map(|r| r.body.as_slice()).collect();
    assert_eq!(bodies, [&b"secret-0006"[..], b"###########", b"secret-0008"]);
    let report = store.verify(&mut |_, _| {}).unwrap();
    assert_eq!((report.records, report.damage.len()), (40, 0));
}

/// Records of every kind between two LSNs are overwritten in place; those of other networks and beyond stay as they are.
fn bodies_can_be_rewritten_by_lsn(store: &dyn Store) {
    for network in [1, 2, 1] {
        let mut batch = Batch::new(network);
        for kind in [EVENT_KIND, 3, 3] {
            batch.push(kind, 1, 0, 0, b"secret").unwrap();
        }
        commit(store, Class::STD, 1, batch).unwrap();
    }
    let mut seen = Vec::new();
    let replaced = store.rewrite(Class::STD, 1, 2..=8, &mut |record| {
        seen.push((record.lsn, record.network, record.kind));
        (record.kind == 3).then(|| b"######".to_vec())
    });
    assert_eq!(replaced.unwrap(), 3);
    assert_eq!(seen, [(2, 1, 3), (3, 1, 3), (7, 1, EVENT_KIND), (8, 1, 3)]);
    assert_eq!(store.rewrite(Class::STD, 1, 1..=u64::MAX, &mut |_| None).unwrap(), 0);
    assert!(store.rewrite(Class::STD, 1, 9..=9, &mut |_| Some(b"short".to_vec())).is_err());
    assert_eq!(store.rewrite(Class::EVER, 1, 1..=9, &mut |_| Some(Vec::new())).unwrap(), 0);
    let mut bodies = Vec::new();
    store
        .replay(Class::STD, None, 0, &mut |record| {
            bodies.push(record.body == b"######");
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(bodies, [false, true, true, false, false, false, false, true, false]);
    let report = store.verify(&mut |_, _| {}).unwrap();
    assert_eq!((report.records, report.damage.len()), (9, 0));
}

type Clause = fn(&dyn Store);

const CONTRACT: &[Clause] = &[
    lsns_are_gapless_per_class_and_batches_come_back,
    events_are_read_by_seq,
    replay_shows_every_kind_in_order,
    keys_give_candidates_newest_first,
    completions_come_in_order,
    an_older_epoch_is_fenced,
    the_epoch_is_raised_and_never_lowered,
    networks_are_known_by_log_or_snapshot,
    a_network_may_move_to_another_class,
    two_snapshots_are_kept_and_the_newest_is_loaded,
    a_rejected_snapshot_gives_way_to_the_older_one,
    recycling_frees_only_what_nobody_needs,
    blobs_are_named_by_their_hash,
    a_blob_may_be_written_by_many_at_once,
    a_closed_store_refuses_and_health_tells,
    readers_and_writers_do_not_disturb_each_other,
    a_body_can_be_erased_in_place,
    bodies_can_be_rewritten_by_lsn,
];

fn check(make: impl Fn() -> Arc<dyn Store>) {
    for clause in CONTRACT {
        clause(&*make());
    }
}

#[test]
fn memory() {
    check(|| Arc::new(MemoryStore::new()));
}

#[test]
fn local_with_small_segments() {
    let dir = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    check(|| {
        count.set(count.get() + 1);
        Arc::new(LocalStore::open(dir.path().join(count.get().to_string()), small()).unwrap())
    });
}

#[test]
fn local_on_a_disk_in_memory() {
    for direct in [false, true] {
        check(|| Arc::new(LocalStore::open_on(FaultDisk::new(1).allow_direct(direct), "/data", small()).unwrap()));
    }
}

#[test]
fn local_through_the_page_cache() {
    let dir = tempfile::tempdir().unwrap();
    let count = std::cell::Cell::new(0);
    check(|| {
        count.set(count.get() + 1);
        let options = LocalOptions { direct: false, ..small() };
        Arc::new(LocalStore::open(dir.path().join(count.get().to_string()), options).unwrap())
    });
}

#[test]
fn sql_tables_without_a_file() {
    check(|| Arc::new(SqlStore::connect(Database::start())));
}

/// A connection cut at the commit: whether the batch is there is not known, so nothing of its network is taken until its owner has
/// looked; what was acknowledged stays.
#[test]
fn sql_with_a_commit_whose_outcome_is_unknown() {
    for (cut, there) in [(Cut::Before, 1..=3), (Cut::After, 1..=4)] {
        let database = Database::start();
        let store = SqlStore::connect(database.clone());
        commit(&store, Class::STD, 1, events(1, 1..=3)).unwrap();
        database.cut(cut);
        let unknown = commit(&store, Class::STD, 1, events(1, 4..=4)).unwrap_err();
        assert!(matches!(unknown, StoreError::Unavailable { .. }), "{unknown}");
        let behind = commit(&store, Class::STD, 1, events(1, 5..=5)).unwrap_err();
        assert!(matches!(behind, StoreError::Unavailable { .. }), "{behind}");
        assert!(store.health().last_error.is_some());
        database.set_up(false);
        assert!(store.reopen(1).is_err());
        database.set_up(true);
        store.reopen(1).unwrap();
        assert_events(&store, 1, there.clone());
        commit(&store, Class::STD, 1, events(1, there.end() + 1..=9)).unwrap();
        assert_events(&store, 1, 1..=9);
        assert!(store.health().last_error.is_none());
    }
}

/// Two nodes on one database: the one whose lease ended cannot write any more, and says who owns the network.
#[test]
fn sql_with_two_owners_of_a_network() {
    let database = Database::start();
    let (old, new) = (SqlStore::connect(database.clone()), SqlStore::connect(database.clone()));
    commit(&old, Class::STD, 1, events(1, 1..=2)).unwrap();
    commit(&new, Class::STD, 2, events(1, 3..=3)).unwrap();
    let fenced = commit(&old, Class::STD, 1, events(1, 3..=4)).unwrap_err();
    assert!(matches!(fenced, StoreError::Fenced { network: 1, newest: 2, given: 1 }), "{fenced}");
    commit(&new, Class::STD, 2, events(1, 4..=5)).unwrap();
    assert_events(&new, 1, 1..=5);
    assert_events(&old, 1, 1..=5);
}

/// Damage is named in the store's own words.
#[test]
fn sql_with_a_damaged_row() {
    let database = Database::start();
    let store = SqlStore::connect(database.clone());
    commit(&store, Class::STD, 1, events(1, 1..=3)).unwrap();
    database.call(|tables| tables.rot(Class::STD, 2)).unwrap();
    assert!(matches!(read(&store, 1, Seqs::Range(1..4)), Err(StoreError::Damaged(_))));
    let report = store.verify(&mut |_, _| {}).unwrap();
    assert_eq!((report.records, report.damage.len()), (2, 1));
    assert!(report.damage[0].to_string().starts_with("record 2"), "{}", report.damage[0]);
}
