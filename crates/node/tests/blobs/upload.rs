//! Taking content in and giving it out.

use super::*;
use rialto_model::limits::{
    FILE_BYTES_MAX, STAGED_PER_MEMBER_MAX, UPLOADS_MAX, UPLOADS_PER_MEMBER_MAX, UPLOADS_PER_NETWORK_MAX,
};
use rialto_model::network::{Preset, Settings};
use rialto_model::{ErrorCode, Fault};
use rialto_node::blobs::{PIECE_BYTES, QuotaUsage, Upload};
use rialto_store::disk::fault::{Call, FaultDisk};
use rialto_store::{LocalOptions, LocalStore};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

fn fault(error: BlobError) -> Fault {
    error.into()
}

/// Files of uploads that have no name yet.
fn aside(dir: &Path) -> usize {
    std::fs::read_dir(dir.join("blobs/new")).unwrap().count()
}

async fn until(what: &str, wanted: impl Fn() -> bool) {
    for _ in 0..1000 {
        if wanted() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen");
}

#[tokio::test]
async fn content_comes_back_whole_and_in_parts() {
    let world = World::in_memory();
    for len in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 77] {
        let bytes = noise(len, len as u64);
        let mut upload = world.blobs.stage(staging(1, 1)).await.unwrap();
        for piece in bytes.chunks(10_007) {
            upload.write(piece).await.unwrap();
        }
        let stored = upload.finish().await.unwrap();
        assert_eq!(stored, StoredUpload { hash: sha256(&bytes), size: len as u64 });
        assert_eq!(get(&world.blobs, &stored.hash).await.unwrap(), bytes);
    }
    let bytes = noise(200_000, 1);
    let stored = put(&world.blobs, staging(1, 1), &bytes).await.unwrap();
    for range in [0..1, 65_535..65_537, 100_000..200_000, 199_999..200_000, 150_000..900_000] {
        let mut part = world.blobs.open(&stored.hash, range.clone()).await.unwrap().unwrap();
        assert_eq!((part.size(), part.rest()), (200_000, range.start..range.end.min(200_000)));
        let mut read = Vec::new();
        while let Some(piece) = part.next().await.unwrap() {
            assert!(!piece.is_empty() && piece.len() <= PIECE_BYTES);
            read.extend_from_slice(&piece);
        }
        let (from, to) = (range.start as usize, range.end.min(200_000) as usize);
        assert!(read == bytes[from..to], "{range:?}");
    }
    #[allow(clippy::reversed_empty_ranges, reason = "what a careless caller may ask for")]
    for empty in [5..5, 200_000..300_000, 9..3] {
        let mut part = world.blobs.open(&stored.hash, empty).await.unwrap().unwrap();
        assert!(part.next().await.unwrap().is_none());
    }
    assert!(world.blobs.open(&[0; 32], 0..1).await.unwrap().is_none());
}

#[tokio::test]
async fn only_who_uploaded_it_there_may_name_it() {
    let world = World::in_memory();
    let StoredUpload { hash, .. } = put(&world.blobs, staging(1, 5), b"secret plans").await.unwrap();
    assert_eq!(world.blobs.may_name(1, 5, &hash), Some(12));
    assert_eq!(world.blobs.may_name(1, 6, &hash), None, "another member");
    assert_eq!(world.blobs.may_name(2, 5, &hash), None, "another network");
    assert_eq!(world.blobs.may_name(1, 5, &sha256(b"other")), None, "other content");
    // That it is named already is no right either.
    world.blobs.refer(2, &hash, 12);
    assert_eq!(world.blobs.may_name(2, 6, &hash), None);
    // Who uploads the same content gets its own right, and cannot see that it was there.
    assert_eq!(put(&world.blobs, staging(2, 6), b"secret plans").await.unwrap().hash, hash);
    assert_eq!(world.blobs.may_name(2, 6, &hash), Some(12));
    assert_eq!(world.stored(), [hash]);
    world.clock.pass(rialto_node::blobs::STAGED_MS);
    assert_eq!(world.blobs.may_name(2, 6, &hash), None, "too late");
}

/// The memory of an upload is one piece, however large it is and however it comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_mebibytes_pass_through_one_piece_of_memory() {
    const SIZE: usize = 64 << 20;
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(
        LocalStore::open(dir.path(), LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() }).unwrap(),
    );
    let blobs = Blobs::over(store.clone(), Host::default()).unwrap();
    let block = noise(1 << 20, 3);
    let mut upload = blobs.stage(Staging { expected: Some(SIZE as u64), ..staging(1, 1) }).await.unwrap();
    let (mut sent, mut most, mut turn) = (0, 0, 0);
    while sent < SIZE {
        let len = [1, 1000, 16 << 10, PIECE_BYTES + 1, 1 << 20][turn % 5].min(SIZE - sent);
        upload.write(&block[..len]).await.unwrap();
        most = most.max(upload.buffered());
        (sent, turn) = (sent + len, turn + 1);
    }
    assert!(most <= PIECE_BYTES, "{most} bytes gathered");
    assert_eq!(blobs.usage(1), QuotaUsage { bytes: 0, arriving: SIZE as u64, blobs: 0 });
    let stored = upload.finish().await.unwrap();
    assert_eq!(blobs.usage(1), QuotaUsage { bytes: SIZE as u64, arriving: 0, blobs: 1 });
    assert_eq!((stored.size, aside(dir.path())), (SIZE as u64, 0));
    let mut download = blobs.open(&stored.hash, 0..u64::MAX).await.unwrap().unwrap();
    let mut got = 0;
    while let Some(piece) = download.next().await.unwrap() {
        assert!(piece.len() <= PIECE_BYTES);
        got += piece.len();
    }
    assert_eq!(got, SIZE);
    assert!(store.verify(&mut |_, _| {}).unwrap().damage.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_content_at_once_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(
        LocalStore::open(dir.path(), LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() }).unwrap(),
    );
    let blobs = Blobs::over(store.clone(), Host::default()).unwrap();
    let bytes = Arc::new(noise(300_000, 9));
    let uploads: Vec<_> = (0..8)
        .map(|member| {
            let (blobs, bytes) = (blobs.clone(), bytes.clone());
            tokio::spawn(async move { put(&blobs, staging(1 + member % 2, member), &bytes).await.unwrap() })
        })
        .collect();
    for upload in uploads {
        assert_eq!(upload.await.unwrap(), StoredUpload { hash: sha256(&bytes), size: 300_000 });
    }
    assert_eq!(store.list_blobs().unwrap().len(), 1);
    assert_eq!(aside(dir.path()), 0);
    for network in [1, 2] {
        assert_eq!(blobs.usage(network), QuotaUsage { bytes: 300_000, arriving: 0, blobs: 1 });
    }
    assert!(get(&blobs, &sha256(&bytes)).await.unwrap() == *bytes);
    let metrics = blobs.metrics();
    assert!(metrics.contains(&("blob_uploads_total", 8)) && metrics.contains(&("blobs_held", 1)), "{metrics:?}");
}

#[tokio::test]
async fn a_file_has_a_largest_size() {
    let world = World::in_memory();
    let said = |size| Staging { expected: Some(size), ..staging(1, 1) };
    assert_eq!(staging(1, 1).size_max, FILE_BYTES_MAX);
    drop(world.blobs.stage(said(FILE_BYTES_MAX)).await.unwrap());
    let refused = fault(world.blobs.stage(said(FILE_BYTES_MAX + 1)).await.unwrap_err());
    assert_eq!(
        (refused.code, refused.details),
        (ErrorCode::TooLarge, Some(Box::new(json!({ "limit": FILE_BYTES_MAX }))))
    );
    let wider = Staging { size_max: u64::MAX, ..said(FILE_BYTES_MAX + 1) };
    assert_eq!(world.blobs.stage(wider).await.unwrap_err().code(), ErrorCode::TooLarge);
    // Who says nothing, or lies, is stopped on the way.
    for expected in [None, Some(10)] {
        let mut upload = world.blobs.stage(Staging { size_max: 100_000, expected, ..staging(1, 1) }).await.unwrap();
        upload.write(&noise(100_000, 1)).await.unwrap();
        assert_eq!(upload.write(b"!").await.unwrap_err().code(), ErrorCode::TooLarge);
        assert_eq!(world.blobs.usage(1).arriving, 100_000, "until the file is gone");
        assert!(matches!(upload.write(b"more").await, Err(BlobError::BrokenOff)));
        assert!(matches!(upload.finish().await, Err(BlobError::BrokenOff)));
        while world.host.run_errand() {}
        assert_eq!(world.blobs.usage(1), QuotaUsage::default());
    }
    let exact = Staging { size_max: 100_000, ..staging(1, 1) };
    assert_eq!(put(&world.blobs, exact, &noise(100_000, 1)).await.unwrap().size, 100_000);
}

#[tokio::test]
async fn a_network_has_a_quota() {
    assert_eq!(Settings::preset("main", Preset::Plain).blob_bytes_max, BLOB_BYTES_DEFAULT);
    let world = World::in_memory();
    let within = |member| Staging { quota: 1000, ..staging(1, member) };
    let kept = put(&world.blobs, within(1), &noise(600, 1)).await.unwrap();
    let refused = fault(put(&world.blobs, within(2), &noise(401, 2)).await.unwrap_err());
    assert_eq!(refused.code, ErrorCode::TooLarge);
    assert_eq!(refused.details, Some(Box::new(json!({ "quota": 1000, "used": 600 }))));
    let early = Staging { expected: Some(401), ..within(2) };
    assert_eq!(world.blobs.stage(early).await.unwrap_err().code(), ErrorCode::TooLarge);
    // Two on their way in share what is left.
    while world.host.run_errand() {}
    let mut first = world.blobs.stage(within(1)).await.unwrap();
    let mut second = world.blobs.stage(within(2)).await.unwrap();
    first.write(&noise(300, 3)).await.unwrap();
    assert_eq!(second.write(&noise(101, 4)).await.unwrap_err().code(), ErrorCode::TooLarge);
    first.finish().await.unwrap();
    drop(second);
    while world.host.run_errand() {}
    assert_eq!(world.blobs.usage(1), QuotaUsage { bytes: 900, arriving: 0, blobs: 2 });
    // Another network has its own; what is named stays counted, what was only staged does not.
    put(&world.blobs, Staging { quota: 1000, ..staging(2, 1) }, &noise(1000, 5)).await.unwrap();
    world.blobs.refer(1, &kept.hash, kept.size);
    world.blobs.refer(1, &kept.hash, kept.size);
    world.clock.pass(rialto_node::blobs::STAGED_MS);
    assert_eq!(world.blobs.usage(1), QuotaUsage { bytes: 600, arriving: 0, blobs: 1 });
    put(&world.blobs, within(2), &noise(400, 6)).await.unwrap();
}

#[tokio::test]
async fn uploads_are_counted() {
    let world = World::in_memory();
    let mut open: Vec<Upload> = Vec::new();
    let full = |refused: BlobError, what: &str| {
        assert!(refused.to_string().contains(what), "{refused}");
        assert_eq!(fault(refused).code, ErrorCode::RateLimited);
    };
    for member in 0..(UPLOADS_PER_NETWORK_MAX / UPLOADS_PER_MEMBER_MAX) as u32 {
        for _ in 0..UPLOADS_PER_MEMBER_MAX {
            open.push(world.blobs.stage(staging(1, member)).await.unwrap());
        }
        full(world.blobs.stage(staging(1, member)).await.unwrap_err(), "at a time");
        if member == 0 {
            full(world.blobs.stage(staging(1, 0)).await.unwrap_err(), "one member");
        }
    }
    assert_eq!(open.len(), UPLOADS_PER_NETWORK_MAX);
    full(world.blobs.stage(staging(1, 9999)).await.unwrap_err(), "one network");
    // However many networks take what they can, each finds room when it comes, until there is none at all.
    let mut networks = 1;
    while let Ok(first) = world.blobs.stage(staging(networks + 1, 0)).await {
        networks += 1;
        open.push(first);
        for member in 1.. {
            match world.blobs.stage(staging(networks, member)).await {
                Ok(upload) => open.push(upload),
                Err(refused) => {
                    full(refused, "at a time");
                    break;
                }
            }
        }
    }
    assert_eq!(open.len(), UPLOADS_MAX);
    assert!(networks > 8, "{networks} networks have everything");
    open.pop().unwrap().finish().await.unwrap();
    drop(world.blobs.stage(staging(99, 9999)).await.unwrap());
    drop(open);
    while world.host.run_errand() {}
    for n in 0..STAGED_PER_MEMBER_MAX as u64 {
        put(&world.blobs, staging(3, 1), &n.to_le_bytes()).await.unwrap();
    }
    assert_eq!(put(&world.blobs, staging(3, 1), b"more").await.unwrap_err().code(), ErrorCode::RateLimited);
    put(&world.blobs, staging(3, 2), b"more").await.unwrap();
    world.clock.pass(rialto_node::blobs::STAGED_MS);
    put(&world.blobs, staging(3, 1), b"more").await.unwrap();
}

#[tokio::test]
async fn a_full_or_failing_disk_refuses_and_leaves_nothing() {
    const FLOOR: u64 = 1 << 20;
    let disk = FaultDisk::new(1);
    let options = LocalOptions { free_floor_bytes: FLOOR, manual: true, seed: Some(1), ..LocalOptions::default() };
    let world = World::over(Arc::new(LocalStore::open_on(disk.clone(), "/data", options).unwrap()));
    let bytes = noise(200_000, 1);
    disk.set_free(FLOOR + 50_000);
    let full = fault(put(&world.blobs, staging(1, 1), &bytes).await.unwrap_err());
    assert_eq!(full.code, ErrorCode::StorageUnavailable);
    assert!(!full.message.contains("/data"), "{}", full.message);
    disk.set_free(1 << 40);
    for call in [Call::Create, Call::Write, Call::Sync, Call::Rename, Call::SyncDir] {
        disk.fail_in("blobs", call, 0, std::io::ErrorKind::Other, false);
        let failed = fault(put(&world.blobs, staging(1, 1), &bytes).await.unwrap_err());
        assert_eq!(failed.code, ErrorCode::StorageUnavailable, "{call:?}");
        assert!(!failed.message.contains("/data"), "{}", failed.message);
        assert_eq!(world.blobs.usage(1), QuotaUsage::default(), "{call:?}");
        assert_eq!(world.blobs.may_name(1, 1, &sha256(&bytes)), None);
    }
    world.blobs.clean_up().await.unwrap();
    assert!(world.stored().is_empty(), "a name whose directory was not flushed is an orphan");
    put(&world.blobs, staging(1, 1), &bytes).await.unwrap();
    disk.fail_in("blobs", Call::Read, 0, std::io::ErrorKind::Other, false);
    let mut download = world.blobs.open(&sha256(&bytes), 0..9).await.unwrap().unwrap();
    assert_eq!(download.next().await.unwrap_err().code(), ErrorCode::StorageUnavailable);
    assert_eq!(download.next().await.unwrap().unwrap(), bytes[..9], "it was not lost");
}

/// More may come while a piece is on its way to a disk that refuses it: that is given back too.
#[tokio::test]
async fn what_comes_behind_a_piece_that_could_not_be_written_is_given_back() {
    let disk = FaultDisk::new(1);
    let options = LocalOptions { manual: true, seed: Some(1), ..LocalOptions::default() };
    let world = World::over(Arc::new(LocalStore::open_on(disk.clone(), "/data", options).unwrap()));
    let mut upload = world.blobs.stage(staging(1, 1)).await.unwrap();
    disk.fail_in("blobs", Call::Write, 0, std::io::ErrorKind::Other, true);
    upload.write(&noise(PIECE_BYTES, 1)).await.unwrap();
    // The piece is refused by now, and nobody has asked what became of it.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    upload.write(&noise(1000, 2)).await.unwrap();
    let failed = fault(upload.finish().await.unwrap_err());
    assert_eq!((failed.code, world.blobs.usage(1)), (ErrorCode::StorageUnavailable, QuotaUsage::default()));
}

/// An upload that is given up, or whose future is dropped in the middle, leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_broken_off_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(
        LocalStore::open(dir.path(), LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() }).unwrap(),
    );
    let blobs = Blobs::over(store.clone(), Host::default()).unwrap();
    let clean = || aside(dir.path()) == 0 && blobs.usage(1) == QuotaUsage::default();
    let mut upload = blobs.stage(staging(1, 1)).await.unwrap();
    upload.write(&noise(500_000, 1)).await.unwrap();
    assert_eq!(aside(dir.path()), 1);
    drop(upload);
    until("the file's end", clean).await;
    for _ in 0..20 {
        let mut upload = blobs.stage(staging(1, 1)).await.unwrap();
        let bytes = noise(2_000_000, 2);
        tokio::select! {
            biased;
            written = upload.write(&bytes) => written.unwrap(),
            () = tokio::task::yield_now() => {
                assert!(matches!(upload.write(b"more").await, Err(BlobError::BrokenOff)));
            }
        }
        drop(upload);
    }
    until("the files' end", clean).await;
    assert!(blobs.metrics().contains(&("blob_uploads_open", 0)));
    // Dropped where there is no runtime.
    let upload = blobs.stage(staging(1, 1)).await.unwrap();
    std::thread::spawn(move || drop(upload)).join().unwrap();
    assert!(clean() && store.list_blobs().unwrap().is_empty());
}
