//! Segments, sidecars and control files: a directory with arbitrary bytes in them opens or is refused by name, and whatever is read is
//! in order, within its bounds, and the same after another start.
//!
//! The input is a list of patches (file, offset, length, bytes) on a directory that was closed in order.

use rialto_store::disk::fault::FaultDisk;
use rialto_store::disk::{Disk, DiskFile};
use rialto_store::{
    BODY_BYTES_MAX, Batch, Class, EVENT_KIND, Flush, LocalOptions, LocalStore, Record, Store, StoreError,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const DATA: &str = "/data";

fn options() -> LocalOptions {
    LocalOptions {
        first_segment_bytes: 4096,
        max_segment_bytes: 4096,
        free_floor_bytes: 0,
        seed: Some(7),
        manual: true,
        ..LocalOptions::default()
    }
}

fn append(store: &LocalStore<FaultDisk>, network: u32, seq: u64) {
    let mut batch = Batch::new(network);
    let body = format!("body {seq} {}", "x".repeat(seq as usize * 13 % 200));
    batch.push(EVENT_KIND, 1, seq, seq * 31, body.as_bytes()).unwrap();
    batch.push(7, 1, seq, 0, b"a change").unwrap();
    let done = Box::new(|result: Result<_, StoreError>| drop(result.unwrap()));
    store.append(Class::STD, 1, Flush::Sync, batch, done).unwrap_or_else(|r| panic!("{:?}", r.error));
    store.pump().unwrap();
}

/// The directory to patch, as files.
fn base() -> &'static [(PathBuf, Vec<u8>)] {
    static BASE: OnceLock<Vec<(PathBuf, Vec<u8>)>> = OnceLock::new();
    BASE.get_or_init(|| {
        let disk = FaultDisk::new(1);
        let store = LocalStore::open_on(disk.clone(), DATA, options()).unwrap();
        for seq in 1..=30 {
            append(&store, 1, seq);
            append(&store, 2, seq);
        }
        store.save_snapshot(Class::STD, 1, 40, b"a state").unwrap();
        store.close().unwrap();
        let dir = Path::new(DATA).join("log/std");
        let names =
            disk.list(&dir).unwrap().into_iter().filter(|entry| entry.len > 0).map(|entry| dir.join(entry.name));
        names.chain([Path::new(DATA).join("FORMAT")]).map(|path| (path.clone(), read(&disk, &path))).collect()
    })
}

fn read(disk: &FaultDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, false).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Four bytes of place, one of length, the bytes themselves.
fn patched(mut data: &[u8]) -> FaultDisk {
    let mut files = base().to_vec();
    while let [file, low, high, len, rest @ ..] = data {
        let (_, bytes) = &mut files[usize::from(*file) % base().len()];
        let at = usize::from(u16::from_le_bytes([*low, *high])) % bytes.len();
        let (patch, behind) = rest.split_at(usize::from(*len).min(rest.len()));
        for (to, from) in bytes[at..].iter_mut().zip(patch) {
            *to = *from;
        }
        data = behind;
    }
    let disk = FaultDisk::new(1);
    disk.create_dir_all(&Path::new(DATA).join("log/std")).unwrap();
    for (path, bytes) in files {
        let file = disk.create(&path).unwrap();
        file.write_at(&bytes, 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(path.parent().unwrap()).unwrap();
    }
    disk
}

/// Everything a replay shows, if the log can be read to its end.
fn replay(store: &LocalStore<FaultDisk>) -> Option<Vec<Record>> {
    let mut out = Vec::new();
    let done = store.replay(Class::STD, None, 0, &mut |record| {
        out.push(record.to_record());
        ControlFlow::Continue(())
    });
    match done {
        Ok(last) => {
            assert_eq!(out.last().map_or(0, |record: &Record| record.lsn).max(last), last);
            Some(out)
        }
        Err(StoreError::Damaged(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

pub fn check(data: &[u8]) {
    let disk = patched(data);
    let store = match LocalStore::open_on(disk.clone(), DATA, options()) {
        Ok(store) => store,
        Err(StoreError::Damaged(_) | StoreError::NewerFormat { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    let Some(first) = replay(&store) else { return };
    for (before, after) in first.iter().zip(first.iter().skip(1)) {
        assert_eq!(before.lsn + 1, after.lsn, "a gap");
    }
    assert!(first.iter().all(|record| record.body.len() <= BODY_BYTES_MAX));
    // It goes on, and another start finds the same and what came after.
    append(&store, 9, 1);
    store.close().unwrap();
    drop(store);
    let store = LocalStore::open_on(disk, DATA, options()).unwrap_or_else(|e| panic!("a second start: {e}"));
    let second = replay(&store).expect("read once, read again");
    assert_eq!(second.get(..first.len()), Some(first.as_slice()));
    assert_eq!(second.len(), first.len() + 2);
}
