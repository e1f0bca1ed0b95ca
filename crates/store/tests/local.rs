//! The local store on a real disk: lock, format version, fixture, restarts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test code")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::*;
use rialto_store::{Class, Flush, LocalOptions, LocalStore, Seqs, Store, StoreError};

#[test]
fn a_second_opener_is_told_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), small()).unwrap();
    let error = LocalStore::open(dir.path(), small()).unwrap_err();
    let StoreError::Locked { holder, .. } = &error else { panic!("{error}") };
    assert_eq!(holder, &format!("process {}", std::process::id()));
    drop(store);
    LocalStore::open(dir.path(), small()).unwrap();
}

#[test]
fn a_newer_format_is_refused_by_version_and_nonsense_by_name() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("FORMAT"), "rialto-store 99\n").unwrap();
    let error = LocalStore::open(dir.path(), small()).unwrap_err();
    assert!(matches!(error, StoreError::NewerFormat { found: 99, known: 1, .. }));
    assert!(error.to_string().contains("99"));
    assert!(!dir.path().join("log").exists(), "nothing is touched");
    fs::write(dir.path().join("FORMAT"), "something else").unwrap();
    let error = LocalStore::open(dir.path(), small()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)) && error.to_string().contains("FORMAT"));
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = LocalStore::open(file.join("data"), small()).unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
}

#[test]
fn restarts_with_default_sizes_keep_everything() {
    let dir = tempfile::tempdir().unwrap();
    let options = || LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() };
    for round in 0..5 {
        let store = LocalStore::open(dir.path(), options()).unwrap();
        if round > 0 {
            assert_events(&store, 1, 1..=round * 2000);
        }
        let mut batch = events(1, round * 2000 + 1..=round * 2000 + 1000);
        for seq in round * 2000 + 1001..=round * 2000 + 2000 {
            batch.push(1, 1, seq, key(1, seq), body(1, seq).as_bytes()).unwrap();
        }
        commit(&store, Class::STD, 1, batch).unwrap();
    }
}

#[test]
fn a_store_that_was_never_closed_opens_with_all_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), small()).unwrap();
    fill(&store, Class::STD, 1, 1..=333);
    fill(&store, Class::EVER, 2, 1..=33);
    // What a killed process leaves: the files as they are, without a clean stop.
    copy_dir(dir.path(), copy.path());
    let found = LocalStore::open(copy.path(), small()).unwrap();
    assert_events(&found, 1, 1..=333);
    assert_events(&found, 2, 1..=33);
}

#[test]
fn a_batch_larger_than_a_segment_gets_one_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), small()).unwrap();
    let mut batch = rialto_store::Batch::new(1);
    batch.push(1, 1, 1, 0, &vec![7; 100_000]).unwrap();
    commit(&store, Class::STD, 1, batch).unwrap();
    commit(&store, Class::STD, 1, events(1, 2..=2)).unwrap();
    let found = read(&store, 1, Seqs::Range(0..9)).unwrap();
    assert_eq!(found.iter().map(|r| r.body.len()).collect::<Vec<_>>(), vec![100_000, body(1, 2).len()]);
}

#[test]
fn a_completion_may_append_and_drop_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(LocalStore::open(dir.path(), small()).unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    let again = Arc::clone(&store);
    let done = Box::new(move |result: Result<rialto_store::Committed, StoreError>| {
        result.unwrap();
        let answer = Box::new(move |result: Result<_, _>| tell.send(result.is_ok()).unwrap());
        again.append(Class::STD, 1, Flush::Sync, events(1, 2..=2), answer).unwrap();
        drop(again);
    });
    store.append(Class::STD, 1, Flush::Sync, events(1, 1..=1), done).unwrap();
    drop(store);
    assert!(told.recv().unwrap());
}

#[test]
fn a_store_driven_by_hand_does_nothing_by_itself() {
    let disk = rialto_store::disk::fault::FaultDisk::new(1);
    let options = || LocalOptions { manual: true, ..small() };
    let store = LocalStore::open_on(disk.clone(), "/data", options()).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    for seq in 1..=100 {
        let tell = tell.clone();
        let done = Box::new(move |result: Result<rialto_store::Committed, _>| tell.send(result.is_ok()).unwrap());
        store.append(Class::STD, 1, Flush::Sync, events(1, seq..=seq), done).unwrap();
    }
    assert!(told.try_recv().is_err());
    assert_eq!(store.pump().unwrap(), 100);
    assert_eq!(store.pump().unwrap(), 0);
    assert_eq!(told.try_iter().filter(|ok| *ok).count(), 100);
    assert_events(&store, 1, 1..=100);
    store.append(Class::STD, 1, Flush::Sync, events(1, 101..=101), Box::new(|_| {})).unwrap();
    store.reopen(2).unwrap();
    store.close().unwrap();
    let store = LocalStore::open_on(disk, "/data", options()).unwrap();
    assert_events(&store, 1, 1..=101);
}

/// A directory written by format version 1 opens for ever.
#[test]
fn the_checked_in_directory_of_version_1_opens() {
    let copy = tempfile::tempdir().unwrap();
    copy_dir(&fixture(), copy.path());
    let store = LocalStore::open(copy.path(), small()).unwrap();
    assert_events(&store, 1, 1..=120);
    assert_events(&store, 2, 1..=10);
    assert_eq!(store.load_snapshot(1, u64::MAX).unwrap().unwrap().bytes, b"newer state");
    let report = store.verify(&mut |_, _| {}).unwrap();
    assert_eq!((report.records, report.snapshots, report.blobs, report.damage.len()), (130, 2, 1, 0));
}

/// What is written today holds the same. With `RIALTO_WRITE_FIXTURES` set it becomes the fixture: only when a new format
/// version gets one of its own.
#[test]
fn a_directory_written_today_holds_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let dir = if std::env::var_os("RIALTO_WRITE_FIXTURES").is_some() { fixture() } else { temp.path().to_path_buf() };
    let store = LocalStore::open(&dir, small()).unwrap();
    fill(&store, Class::STD, 1, 1..=120);
    fill(&store, Class::EVER, 2, 1..=10);
    store.save_snapshot(Class::STD, 1, 60, b"older state").unwrap();
    store.save_snapshot(Class::STD, 1, 120, b"newer state").unwrap();
    let mut blob = store.put_blob().unwrap();
    blob.write(b"a blob").unwrap();
    blob.finish().unwrap();
    store.close().unwrap();
    let report = LocalStore::open(&dir, small()).unwrap().verify(&mut |_, _| {}).unwrap();
    assert_eq!((report.records, report.snapshots, report.blobs, report.damage.len()), (130, 2, 1, 0));
}

/// A blob that is still on its way in when the store closes touches nothing of whoever opens the directory next.
#[test]
fn a_blob_does_not_outlive_its_store() {
    let temp = tempfile::tempdir().unwrap();
    let old = LocalStore::open(temp.path(), small()).unwrap();
    let (mut late, mut dropped) = (old.put_blob().unwrap(), old.put_blob().unwrap());
    late.write(b"too late").unwrap();
    dropped.write(b"dropped").unwrap();
    old.close().unwrap();
    assert!(matches!(old.put_blob(), Err(StoreError::Closed)));
    let new = LocalStore::open(temp.path(), small()).unwrap();
    let (mut first, mut second) = (new.put_blob().unwrap(), new.put_blob().unwrap());
    first.write(b"first").unwrap();
    second.write(b"second").unwrap();
    assert!(matches!(late.finish(), Err(StoreError::Closed)));
    drop(dropped);
    let sizes = [first.finish().unwrap().size, second.finish().unwrap().size];
    let report = new.verify(&mut |_, _| {}).unwrap();
    assert_eq!((sizes, report.blobs, report.damage.len()), ([5, 6], 2, 0));
}

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            // A file that was written aside may have its own name by now.
            match fs::copy(entry.path(), to) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied.unwrap()),
            }
        }
    }
}

/// Everything below a directory with its mode.
fn modes(dir: &Path) -> Vec<(PathBuf, u32)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::metadata(&path).unwrap();
        found.push((path.clone(), meta.permissions().mode() & 0o777));
        if meta.is_dir() {
            found.extend(modes(&path));
        }
    }
    found
}

fn assert_private(dir: &Path) {
    let found = modes(dir);
    assert!(found.len() > 8, "{found:?}");
    for (path, mode) in found {
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
}

/// Others may look into the data directory itself, if its owner made it so; what is in it is nobody else's.
#[test]
fn what_is_made_is_its_owners_alone_and_what_was_open_is_closed() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let use_it = || {
        let store = LocalStore::open(dir.path(), small()).unwrap();
        let index = rialto_store::search::SearchIndex::open(dir.path().join("search.db")).unwrap();
        index.index(1, &[], 1).unwrap();
        fill(&store, Class::STD, 1, 1..=300);
        store.save_snapshot(Class::STD, 1, 10, b"state").unwrap();
        let mut writer = store.put_blob().unwrap();
        writer.write(b"some file").unwrap();
        writer.finish().unwrap();
        assert_private(dir.path());
        index.close().unwrap();
        store.close().unwrap();
        assert_private(dir.path());
    };
    use_it();
    // As an older release made it.
    for (path, _) in modes(dir.path()) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let store = LocalStore::open(dir.path(), small()).unwrap();
    let index = rialto_store::search::SearchIndex::open(dir.path().join("search.db")).unwrap();
    assert_private(dir.path());
    drop((store, index));
}

/// What one way of writing left is read and gone on with by the other, on whatever file system the tests run; and on one without a disk.
#[test]
fn a_log_goes_on_whichever_way_it_was_written() {
    let shared = Path::new("/dev/shm");
    let mut places = vec![tempfile::tempdir().unwrap()];
    places.extend(shared.is_dir().then(|| tempfile::tempdir_in(shared).unwrap()));
    for dir in places {
        for round in 0..6 {
            let store = LocalStore::open(dir.path(), LocalOptions { direct: round % 2 == 0, ..small() }).unwrap();
            if round > 0 {
                assert_events(&store, 1, 1..=round * 100);
            }
            fill(&store, Class::STD, 1, round * 100 + 1..=round * 100 + 100);
            let direct = store.health().logs[0].direct;
            assert!(direct.is_some() && (round % 2 == 0 || direct == Some(false)), "{direct:?}");
            assert_events(&store, 1, 1..=round * 100 + 100);
            assert!(store.erase(1, round * 100 + 100, &body(1, round * 100 + 100).into_bytes()).unwrap());
            store.verify(&mut |_, _| {}).unwrap();
        }
    }
}
