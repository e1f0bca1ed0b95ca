//! A power cut at every step the disk takes during an upload and a clean-up.

use super::*;
use rialto_model::hex;
use rialto_store::disk::Disk as _;
use rialto_store::disk::fault::FaultDisk;
use rialto_store::{LocalOptions, LocalStore};
use std::path::Path;

fn start(disk: &FaultDisk) -> World {
    let options = LocalOptions { manual: true, seed: Some(1), ..LocalOptions::default() };
    World::over(Arc::new(LocalStore::open_on(disk.clone(), "/data", options).unwrap()))
}

/// The power goes, and comes back. Nobody is left to hear of the end.
fn cut(disk: &FaultDisk, world: World) -> World {
    drop(world.blobs);
    while world.host.forget_errand() {}
    drop(world.store);
    disk.crash();
    start(disk)
}

fn aside(disk: &FaultDisk) -> usize {
    disk.list(Path::new("/data/blobs/new")).unwrap().len()
}

/// After a cut at any step of an upload the content is whole under its name or absent, what was promised is there, what is
/// named stays, and the clean-up leaves nothing else.
#[tokio::test]
async fn an_upload_is_whole_or_absent() {
    let (before, bytes) = (noise(90_000, 1), noise(150_000, 2));
    let (mut whole, mut absent, mut steps) = (0, 0, 0);
    for step in 1.. {
        let mut finished = false;
        for seed in 0..12 {
            let disk = FaultDisk::new(seed);
            let world = start(&disk);
            let named = put(&world.blobs, staging(1, 1), &before).await.unwrap();
            disk.cut_after(step);
            let done = put(&world.blobs, staging(1, 2), &bytes).await;
            finished = done.is_ok();
            let world = cut(&disk, world);
            assert_eq!(aside(&disk), 0, "step {step}, seed {seed}: a torn upload is left");
            assert!(world.store.verify(&mut |_, _| {}).unwrap().damage.is_empty(), "step {step}, seed {seed}");
            match get(&world.blobs, &sha256(&bytes)).await {
                Some(read) => assert!(read == bytes, "step {step}, seed {seed}: it is torn"),
                None => assert!(!finished, "step {step}, seed {seed}: it was promised"),
            }
            if world.stored().len() == 2 {
                whole += 1
            } else {
                absent += 1
            }
            // It was staged at most, and the book was never told.
            world.blobs.load(1, [(named.hash, named.size)]);
            world.blobs.clean_up().await.unwrap();
            assert_eq!(world.stored(), [named.hash], "step {step}, seed {seed}");
            assert!(get(&world.blobs, &named.hash).await.unwrap() == before);
        }
        steps = step;
        if finished {
            break;
        }
    }
    assert!(steps >= 7 && whole > 0 && absent > 0, "{steps} steps, {whole} whole, {absent} absent");
}

/// The same for content that is there already and named: no step of uploading it again endangers it.
#[tokio::test]
async fn uploading_again_endangers_nothing() {
    let bytes = noise(150_000, 3);
    for step in 1.. {
        let mut finished = false;
        for seed in 0..12 {
            let disk = FaultDisk::new(seed);
            let world = start(&disk);
            put(&world.blobs, staging(1, 1), &bytes).await.unwrap();
            disk.cut_after(step);
            finished = put(&world.blobs, staging(2, 2), &bytes).await.is_ok();
            let world = cut(&disk, world);
            assert!(get(&world.blobs, &sha256(&bytes)).await.unwrap() == bytes, "step {step}, seed {seed}");
            assert_eq!((world.stored().len(), aside(&disk)), (1, 0));
        }
        if finished {
            break;
        }
    }
}

/// A clean-up that is cut off removed orphans only, and the next one removes the rest.
#[tokio::test]
async fn a_clean_up_may_be_cut_anywhere() {
    for step in 1.. {
        let disk = FaultDisk::new(step);
        let world = start(&disk);
        let mut all = Vec::new();
        for n in 0..6 {
            all.push(put(&world.blobs, staging(1, 1), &noise(1000, n)).await.unwrap());
        }
        let world = cut(&disk, world);
        let named = [all[1], all[4]].map(|stored| (stored.hash, stored.size));
        world.blobs.load(1, named);
        disk.cut_after(step);
        let finished = world.blobs.clean_up().await.unwrap().failed == 0;
        let world = cut(&disk, world);
        assert!(world.stored().iter().all(|hash| all.iter().any(|stored| stored.hash == *hash)));
        world.blobs.load(1, named);
        world.blobs.clean_up().await.unwrap();
        let mut left = named.map(|(hash, _)| hash);
        left.sort_unstable();
        assert_eq!(world.stored(), left, "step {step}");
        assert!(world.store.verify(&mut |_, _| {}).unwrap().damage.is_empty());
        assert!(world.store.list_blobs().unwrap().iter().all(|blob| hex::hash(&blob.hash).is_some()));
        if finished && step > 8 {
            break;
        }
    }
}
