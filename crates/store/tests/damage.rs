//! Damaged, missing and refused files, seen through the store: never a wrong record, always a name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test code")]

mod common;

use std::io;
use std::path::{Path, PathBuf};

use common::*;
use proptest::prelude::*;
use rialto_store::disk::fault::{Call, FaultDisk};
use rialto_store::disk::{Disk as _, DiskFile as _};
use rialto_store::{Class, LocalOptions, LocalStore, Seqs, Store, StoreError};

const LOG: &str = "/data/log/std";

fn open(disk: &FaultDisk) -> Result<LocalStore<FaultDisk>, StoreError> {
    LocalStore::open_on(disk.clone(), "/data", small())
}

/// A store with several segments, snapshots and a blob, cleanly stopped.
fn stopped() -> FaultDisk {
    let disk = FaultDisk::new(3);
    let store = open(&disk).unwrap();
    fill(&store, Class::STD, 1, 1..=120);
    fill(&store, Class::STD, 2, 1..=60);
    fill(&store, Class::STD, 1, 121..=150);
    store.save_snapshot(Class::STD, 1, 50, b"state at fifty").unwrap();
    store.save_snapshot(Class::STD, 1, 90, b"state at ninety").unwrap();
    let mut blob = store.put_blob().unwrap();
    blob.write(b"some file").unwrap();
    blob.finish().unwrap();
    store.close().unwrap();
    disk
}

fn paths(disk: &FaultDisk, ending: &str) -> Vec<PathBuf> {
    let entries = disk.list(Path::new(LOG)).unwrap();
    entries.into_iter().filter(|e| e.name.ends_with(ending)).map(|e| Path::new(LOG).join(e.name)).collect()
}

fn assert_complete(store: &dyn Store) {
    assert_events(store, 1, 1..=150);
    assert_events(store, 2, 1..=60);
    assert_eq!(replay(store, Class::STD, None, 0).unwrap().len(), 210);
}

#[test]
fn a_clean_restart_finds_all() {
    let disk = stopped();
    disk.crash();
    let store = open(&disk).unwrap();
    assert_complete(&store);
    let report = store.verify(&mut |done, all| assert!(done <= all)).unwrap();
    assert_eq!((report.records, report.snapshots, report.blobs), (210, 2, 1));
    assert!(report.segments > 2 && report.damage.is_empty());
    assert_eq!(paths(&disk, ".idx").len() as u64, report.segments - 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    /// One flipped bit anywhere in the log's files: all is there, or the damage is named.
    #[test]
    fn one_flipped_bit_never_yields_a_wrong_or_missing_record(file in any::<prop::sample::Index>(), at: u32, bit in 0..8_u8) {
        let disk = stopped();
        let files: Vec<PathBuf> = ["seg", "idx", "control"].iter().flat_map(|end| paths(&disk, end)).collect();
        let path = &files[file.index(files.len())];
        let len = disk.open(path, false).unwrap().len().unwrap();
        disk.flip(path, u64::from(at) % len, 1 << bit).unwrap();
        let named = |error: &StoreError| matches!(error, StoreError::Damaged(damage) if &damage.file == path);
        match open(&disk) {
            Err(error) => prop_assert!(named(&error)),
            Ok(store) => {
                for (network, count) in [(1, 150), (2, 60)] {
                    match read(&store, network, Seqs::Range(0..u64::MAX)) {
                        Err(error) => prop_assert!(named(&error)),
                        Ok(records) => {
                            prop_assert_eq!(records.len(), count);
                            for record in records {
                                prop_assert_eq!(String::from_utf8(record.body).unwrap(), body(network, record.seq));
                                prop_assert_eq!(store.find(network, key(network, record.seq)).unwrap(), vec![record.seq]);
                            }
                        }
                    }
                    match replay(&store, Class::STD, Some(network), 0) {
                        Err(error) => prop_assert!(named(&error)),
                        Ok(records) => prop_assert_eq!(records.len(), count),
                    }
                }
            }
        }
    }

    /// Whatever bytes a file has, opening and reading ends in an answer or an error, never a panic or a wrong record.
    #[test]
    fn arbitrary_bytes_in_a_file_do_no_harm(
        file in any::<prop::sample::Index>(), at: u32, bytes in proptest::collection::vec(any::<u8>(), 1..300),
    ) {
        let disk = stopped();
        let files: Vec<PathBuf> = ["seg", "idx", "control"].iter().flat_map(|end| paths(&disk, end)).collect();
        let path = &files[file.index(files.len())];
        let target = disk.open(path, true).unwrap();
        target.write_at(&bytes, u64::from(at) % target.len().unwrap()).unwrap();
        target.sync_data().unwrap();
        if let Ok(store) = open(&disk)
            && let Ok(records) = read(&store, 1, Seqs::Range(0..u64::MAX))
        {
            for record in records {
                prop_assert_eq!(String::from_utf8(record.body).unwrap(), body(1, record.seq));
            }
        }
    }
}

#[test]
fn damage_in_a_sealed_segment_is_named_when_it_is_read_and_by_verify() {
    let disk = stopped();
    let path = Path::new(LOG).join("00000001.seg");
    disk.flip(&path, 700, 1).unwrap();
    let store = open(&disk).unwrap();
    let error = read(&store, 1, Seqs::Range(0..u64::MAX)).unwrap_err();
    let StoreError::Damaged(damage) = &error else { panic!("{error}") };
    assert_eq!(damage.file, path);
    assert!((512..=700).contains(&damage.offset), "{damage}");
    // The rest is still readable.
    assert_eq!(read(&store, 1, Seqs::Range(100..151)).unwrap().len(), 51);
    let report = store.verify(&mut |_, _| {}).unwrap();
    assert_eq!(report.damage.len(), 1);
    assert_eq!(report.damage[0].file, path);
}

#[test]
fn sidecars_that_are_gone_or_bad_are_rebuilt() {
    let disk = stopped();
    let sidecars = paths(&disk, ".idx");
    assert!(sidecars.len() >= 2);
    disk.remove(&sidecars[0]).unwrap();
    disk.flip(&sidecars[1], 20, 1).unwrap();
    let store = open(&disk).unwrap();
    assert_complete(&store);
    store.close().unwrap();
    assert_eq!(paths(&disk, ".idx"), sidecars);
    let report = open(&disk).unwrap().verify(&mut |_, _| {}).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}

#[test]
fn verify_names_a_sidecar_that_disagrees() {
    let disk = stopped();
    let sidecar = &paths(&disk, ".idx")[0];
    let len = disk.open(sidecar, false).unwrap().len().unwrap();
    disk.flip(sidecar, len - 10, 1).unwrap();
    let report = open(&disk).unwrap().verify(&mut |_, _| {}).unwrap();
    assert_eq!(report.damage.iter().map(|d| &d.file).collect::<Vec<_>>(), vec![sidecar]);
}

#[test]
fn a_bad_snapshot_falls_back_to_the_older_one_at_every_byte() {
    let path = Path::new("/data/snapshots/00000001-00000000000000000090.snap");
    for byte in 0..64 + "state at ninety".len() as u64 {
        let disk = stopped();
        disk.flip(path, byte, 1 << (byte % 8)).unwrap();
        let store = open(&disk).unwrap();
        let snapshot = store.load_snapshot(1, u64::MAX).unwrap().unwrap();
        assert_eq!((snapshot.lsn, &snapshot.bytes[..]), (50, &b"state at fifty"[..]), "byte {byte}");
        let notes = store.health().notes;
        assert_eq!(notes[0].file, path);
        assert!(disk.exists(&path.with_extension("damaged")).unwrap());
    }
}

/// The log behind the good one may be freed: alone it would be the only thing between the network and its end.
#[test]
fn after_a_bad_snapshot_there_are_two_again() {
    let newer = Path::new("/data/snapshots/00000001-00000000000000000090.snap");
    let older = Path::new("/data/snapshots/00000001-00000000000000000050.snap");
    for (first, second, byte) in [(newer, older, 70), (newer, older, 20)] {
        let disk = stopped();
        disk.flip(first, byte, 1).unwrap();
        let store = open(&disk).unwrap();
        assert_eq!(store.load_snapshot(1, u64::MAX).unwrap().unwrap().lsn, 50);
        store.close().unwrap();
        disk.flip(second, byte, 1).unwrap();
        let store = open(&disk).unwrap();
        let snapshot = store.load_snapshot(1, u64::MAX).unwrap().unwrap();
        assert_eq!((snapshot.lsn, &snapshot.bytes[..]), (50, &b"state at fifty"[..]));
        // The next ones push the copies out.
        for lsn in [60, 70] {
            store.save_snapshot(Class::STD, 1, lsn, b"").unwrap();
        }
        assert_eq!(store.verify(&mut |_, _| {}).unwrap().snapshots, 2);
    }
}

#[test]
fn verify_names_bad_snapshots_and_blobs() {
    let disk = stopped();
    let snapshot = Path::new("/data/snapshots/00000001-00000000000000000050.snap");
    disk.flip(snapshot, 70, 1).unwrap();
    let store = open(&disk).unwrap();
    let hash = store.list_blobs().unwrap()[0].hash.clone();
    let blob = Path::new("/data/blobs").join(hash.get(..2).unwrap()).join(&hash);
    disk.flip(&blob, 3, 1).unwrap();
    let report = store.verify(&mut |_, _| {}).unwrap();
    assert_eq!(report.damage.iter().map(|d| d.file.as_path()).collect::<Vec<_>>(), vec![snapshot, blob.as_path()]);
    // Putting the same bytes again mends the blob.
    let mut writer = store.put_blob().unwrap();
    writer.write(b"some file").unwrap();
    writer.finish().unwrap();
    assert_eq!(store.verify(&mut |_, _| {}).unwrap().damage.len(), 1);
}

#[test]
fn a_snapshot_never_outlives_what_it_covers() {
    let disk = FaultDisk::new(9);
    let store = open(&disk).unwrap();
    for seq in 1..=20 {
        let (tell, told) = std::sync::mpsc::channel();
        let done = Box::new(move |result: Result<rialto_store::Committed, _>| tell.send(result.is_ok()).unwrap());
        store.append(Class::STD, 1, rialto_store::Flush::Os, events(1, seq..=seq), done).unwrap();
        assert!(told.recv().unwrap());
    }
    assert_eq!(store.health().logs[0].durable_lsn, 0);
    store.save_snapshot(Class::STD, 1, 20, b"state").unwrap();
    assert_eq!(store.health().logs[0].durable_lsn, 20);
    disk.crash();
    drop(store);
    assert_events(&open(&disk).unwrap(), 1, 1..=20);
    // A log that lost them all the same is refused.
    for entry in disk.list(Path::new(LOG)).unwrap() {
        disk.remove(&Path::new(LOG).join(entry.name)).unwrap();
    }
    let error = open(&disk).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)) && error.to_string().contains("a snapshot covers"), "{error}");
}

#[test]
fn an_error_of_the_disk_stops_the_log_until_it_is_reopened() {
    for (call, kind) in [
        (Call::Write, io::ErrorKind::StorageFull),
        (Call::Write, io::ErrorKind::Other),
        (Call::Sync, io::ErrorKind::Other),
        (Call::Sync, io::ErrorKind::StorageFull),
    ] {
        let disk = FaultDisk::new(5);
        let store = open(&disk).unwrap();
        fill(&store, Class::STD, 1, 1..=20);
        // Of the segments only: upkeep may write at the same time.
        disk.fail_in("/0000", call, 0, kind, false);
        let error = commit(&store, Class::STD, 1, events(1, 21..=30)).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
        let error = commit(&store, Class::STD, 1, events(1, 21..=30)).unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        assert!(store.health().last_error.is_some() && store.health().logs[0].broken.is_some());
        // What was acknowledged is still readable meanwhile.
        assert_events(&store, 1, 1..=20);
        store.reopen(1).unwrap();
        assert!(store.health().logs[0].broken.is_none());
        let again = commit(&store, Class::STD, 1, events(1, 21..=30)).unwrap();
        assert_eq!((again.first_lsn, again.last_lsn), (21, 30));
        assert_events(&store, 1, 1..=30);
        disk.crash();
        drop(store);
        assert_events(&open(&disk).unwrap(), 1, 1..=30);
    }
}

/// Two networks share a log; one starts again before the other has noticed that its first batch is lost.
#[test]
fn a_batch_behind_a_lost_one_is_refused_until_its_own_network_starts_again() {
    let disk = FaultDisk::new(5);
    let store = open(&disk).unwrap();
    fill(&store, Class::STD, 1, 1..=20);
    fill(&store, Class::STD, 2, 1..=20);
    disk.fail(Call::Sync, 0, io::ErrorKind::Other, true);
    commit(&store, Class::STD, 1, events(1, 21..=21)).unwrap_err();
    commit(&store, Class::STD, 1, events(2, 21..=21)).unwrap_err();
    disk.heal();
    store.reopen(1).unwrap();
    fill(&store, Class::STD, 1, 21..=30);
    let error = commit(&store, Class::STD, 1, events(2, 22..=22)).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert_events(&store, 2, 1..=20);
    store.reopen(2).unwrap();
    fill(&store, Class::STD, 2, 21..=30);
    assert_events(&store, 1, 1..=30);
    assert_events(&store, 2, 1..=30);
}

#[test]
fn a_reopen_on_a_disk_still_bad_fails_and_can_be_tried_again() {
    let disk = FaultDisk::new(5);
    let store = open(&disk).unwrap();
    fill(&store, Class::STD, 1, 1..=20);
    disk.fail(Call::Sync, 0, io::ErrorKind::Other, true);
    commit(&store, Class::STD, 1, events(1, 21..=21)).unwrap_err();
    store.reopen(1).unwrap_err();
    disk.heal();
    store.reopen(1).unwrap();
    fill(&store, Class::STD, 1, 21..=200);
    assert_events(&store, 1, 1..=200);
}

#[test]
fn appends_and_blobs_stop_at_the_free_space_floor() {
    let disk = FaultDisk::new(5);
    let options = LocalOptions { free_floor_bytes: 1 << 20, ..small() };
    let store = LocalStore::open_on(disk.clone(), "/data", options).unwrap();
    fill(&store, Class::STD, 1, 1..=5);
    disk.set_free((1 << 20) + 10);
    let error = commit(&store, Class::STD, 1, events(1, 6..=6)).unwrap_err();
    assert!(matches!(error, StoreError::NoSpace { have: 10, .. }), "{error}");
    let mut blob = store.put_blob().unwrap();
    blob.write(&[0; 11]).unwrap();
    assert!(matches!(blob.finish(), Err(StoreError::NoSpace { .. })));
    // Not broken, but what comes behind a refused batch was made on top of it.
    disk.set_free(1 << 30);
    let error = commit(&store, Class::STD, 1, events(1, 7..=7)).unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    fill(&store, Class::STD, 2, 1..=3);
    store.reopen(1).unwrap();
    fill(&store, Class::STD, 1, 6..=10);
    assert_events(&store, 1, 1..=10);
    assert!(store.list_blobs().unwrap().is_empty());
}

#[test]
fn appends_and_blobs_stop_at_the_disk_budget() {
    let disk = FaultDisk::new(5);
    let options = LocalOptions { budget_bytes: Some(30_000), ..small() };
    let store = LocalStore::open_on(disk.clone(), "/data", options.clone()).unwrap();
    let mut seq = 0;
    let refused = loop {
        seq += 1;
        if let Err(error) = commit(&store, Class::STD, 1, events(1, seq..=seq)) {
            break error;
        }
        assert!(seq < 1000);
    };
    assert!(matches!(refused, StoreError::NoSpace { .. }), "{refused}");
    assert!(store.health().used_bytes <= 30_000);
    let mut blob = store.put_blob().unwrap();
    blob.write(&[0; 20_000]).unwrap();
    assert!(matches!(blob.finish(), Err(StoreError::NoSpace { .. })));
    assert_events(&store, 1, 1..=seq - 1);
    drop(store);
    let store = LocalStore::open_on(disk, "/data", options).unwrap();
    assert_events(&store, 1, 1..=seq - 1);
    assert!(store.health().used_bytes <= 30_000);
}

#[test]
fn a_read_only_disk_is_refused_by_name() {
    let disk = stopped();
    disk.set_read_only(true);
    let error = open(&disk).unwrap_err();
    let StoreError::ReadOnly { path } = &error else { panic!("{error}") };
    assert!(path.starts_with("/data"));
}

#[test]
fn a_full_queue_gives_the_batch_back() {
    let disk = FaultDisk::new(1);
    let options = LocalOptions { queue_batches: 2, ..small() };
    let store = LocalStore::open_on(disk, "/data", options).unwrap();
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (tell, told) = std::sync::mpsc::channel();
    // The first completion keeps the log's thread busy; then two wait, and the next is refused.
    let blocker = Box::new(move |_| {
        tell.send(()).unwrap();
        let _ = held.recv();
    });
    let flush = rialto_store::Flush::Sync;
    store.append(Class::STD, 1, flush, events(1, 1..=1), blocker).unwrap();
    told.recv().unwrap();
    for seq in 2..=3 {
        store.append(Class::STD, 1, flush, events(1, seq..=seq), Box::new(|_| {})).unwrap();
    }
    let rejected = store.append(Class::STD, 1, flush, events(1, 4..=4), Box::new(|_| {})).unwrap_err();
    assert!(matches!(rejected.error, StoreError::Busy));
    assert_eq!(rejected.batch.len(), 1);
    hold.send(()).unwrap();
    store.close().unwrap();
    drop(store);
}
