//! What the clean-up removes and what it leaves.

use super::*;
use rialto_model::hex;
use rialto_node::blobs::{Cleaned, STAGED_MS};
use rialto_node::verify::named_blobs;
use rialto_store::{Batch, Class, EVENT_KIND, Flush, LocalOptions, LocalStore};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn staged_and_named_blobs_stay() {
    let world = World::in_memory();
    let staged = put(&world.blobs, staging(1, 1), b"staged").await.unwrap();
    let named = put(&world.blobs, staging(1, 1), b"named").await.unwrap();
    world.blobs.refer(1, &named.hash, named.size);
    world.blobs.refer(2, &named.hash, named.size);
    let nothing = Cleaned { kept: 2, ..Cleaned::default() };
    assert_eq!(world.blobs.clean_up().await.unwrap(), nothing);
    world.clock.pass(STAGED_MS - 1);
    assert_eq!(world.blobs.clean_up().await.unwrap(), nothing);
    world.clock.pass(1);
    let cleaned = world.blobs.clean_up().await.unwrap();
    assert_eq!(cleaned, Cleaned { removed: vec![staged.hash], bytes: 6, kept: 1, ..Cleaned::default() });
    world.blobs.release(1, &named.hash);
    // Released once too often, by a mistake of ours: that harms nobody else.
    world.blobs.release(1, &named.hash);
    assert_eq!(world.blobs.clean_up().await.unwrap().kept, 1);
    world.blobs.release(2, &named.hash);
    assert_eq!(world.blobs.clean_up().await.unwrap().removed, [named.hash]);
    assert!(world.stored().is_empty());
    assert!(world.blobs.metrics().contains(&("blobs_removed_total", 2)));
    assert!(world.blobs.metrics().contains(&("blob_removed_bytes_total", 11)));
}

/// Between the question whether it may be named and the commit of the name, time does not run out.
#[tokio::test]
async fn what_may_be_named_stays_until_it_is() {
    let world = World::in_memory();
    let StoredUpload { hash, size } = put(&world.blobs, staging(1, 1), b"late").await.unwrap();
    world.clock.pass(STAGED_MS - 1);
    assert_eq!(world.blobs.may_name(1, 1, &hash), Some(size));
    world.clock.pass(STAGED_MS - 1);
    assert_eq!(world.blobs.may_name(1, 1, &hash), None, "the right itself does not grow");
    assert_eq!(world.blobs.clean_up().await.unwrap().kept, 1);
    world.blobs.refer(1, &hash, size);
    world.clock.pass(STAGED_MS);
    assert_eq!(world.blobs.clean_up().await.unwrap().kept, 1);
}

/// As long as it is not known what every network names, nothing is removed.
#[tokio::test]
async fn nothing_goes_before_every_network_is_loaded() {
    let store = Arc::new(MemoryStore::new());
    for network in [1, 2] {
        let mut batch = Batch::new(network);
        batch.push(EVENT_KIND, 1, 1, 0, b"record").unwrap();
        store.append(Class::STD, 1, Flush::Sync, batch, Box::new(|done| drop(done.unwrap()))).unwrap();
    }
    let world = World::over(store);
    let orphan = put(&world.blobs, staging(1, 1), b"orphan").await.unwrap();
    let named = put(&world.blobs, staging(1, 1), b"named").await.unwrap();
    world.clock.pass(STAGED_MS);
    let held_back = Cleaned { held_back: true, ..Cleaned::default() };
    assert_eq!(world.blobs.clean_up().await.unwrap(), held_back);
    world.blobs.load(1, []);
    assert_eq!(world.blobs.clean_up().await.unwrap(), held_back);
    world.blobs.load(2, [(named.hash, named.size), (named.hash, named.size)]);
    {
        let _hold = (world.blobs.hold(), world.blobs.hold());
        assert_eq!(world.blobs.clean_up().await.unwrap(), held_back);
    }
    // A network whose log failed may have named anything.
    world.blobs.doubt(1);
    assert_eq!(world.blobs.clean_up().await.unwrap(), held_back);
    world.blobs.load(1, [(orphan.hash, orphan.size)]);
    assert_eq!(world.blobs.clean_up().await.unwrap().kept, 2);
    world.blobs.load(1, []);
    assert_eq!(world.blobs.clean_up().await.unwrap().removed, [orphan.hash]);
    world.blobs.release(2, &named.hash);
    assert_eq!(world.blobs.clean_up().await.unwrap().kept, 1, "it was loaded from two places");
    world.blobs.release(2, &named.hash);
    assert_eq!(world.blobs.clean_up().await.unwrap().removed, [named.hash]);
}

/// Content that is uploaded again just as its orphan goes is there when the upload is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_upload_wins_over_a_clean_up() {
    let dir = tempfile::tempdir().unwrap();
    let options = LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() };
    let store: Arc<dyn Store> = Arc::new(LocalStore::open(dir.path(), options).unwrap());
    let clock = Arc::new(DrivenClock::at(1_700_000_000_000));
    // A simulated host does its blocking work where it is asked for: here, on threads of our own.
    let blobs = Blobs::over(store.clone(), Host::simulated(clock.clone(), 1)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let cleaner = {
        let (blobs, stop) = (blobs.clone(), stop.clone());
        tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut removed = 0;
            loop {
                let last = stop.load(Ordering::Relaxed);
                removed += runtime.block_on(blobs.clean_up()).unwrap().removed.len();
                if last {
                    return removed;
                }
            }
        })
    };
    for round in 0..300 {
        let stored = put(&blobs, staging(1, 1), b"again and again").await.unwrap();
        assert!(blobs.open(&stored.hash, 0..1).await.unwrap().is_some(), "round {round}");
        assert_eq!(blobs.may_name(1, 1, &stored.hash), Some(15));
        clock.pass(2 * STAGED_MS);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(cleaner.await.unwrap() > 0, "the last one at least");
}

#[tokio::test]
async fn verify_names_blobs_that_are_not_what_the_book_says() {
    let dir = tempfile::tempdir().unwrap();
    let options = LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() };
    let world = World::over(Arc::new(LocalStore::open(dir.path(), options).unwrap()));
    let whole = put(&world.blobs, staging(1, 1), b"whole").await.unwrap();
    let short = put(&world.blobs, staging(1, 1), b"short").await.unwrap();
    let rotten = put(&world.blobs, staging(1, 1), b"rotten").await.unwrap();
    let path = |hash: &Hash| dir.path().join("blobs").join(format!("{:02x}", hash[0])).join(hex::text(hash));
    let look = |named: &[(Hash, u64)]| {
        let mut problems = Vec::new();
        let seen = named_blobs(world.store.as_ref(), 7, named.iter().copied(), &mut problems).unwrap();
        (seen, problems.into_iter().map(|problem| json!(problem)).collect::<Vec<Value>>())
    };
    let all = [whole, whole, short, rotten].map(|stored| (stored.hash, stored.size));
    assert_eq!(look(&all), (3, vec![]));
    std::fs::write(path(&short.hash), b"sho").unwrap();
    std::fs::write(path(&rotten.hash), b"r0tten").unwrap();
    let (_, problems) = look(&[all[0], all[2], all[3], ([9; 32], 4)]);
    let what = |blob: &Hash, what: &str| json!({ "network": 7, "blob": hex::text(blob), "what": what });
    let missing = what(&[9; 32], "a blob that the state names is missing");
    let cut = what(&short.hash, "a blob has 3 bytes where the state says 5");
    assert!(problems.len() == 2 && problems.contains(&missing) && problems.contains(&cut), "{problems:?}");
    // Content of the right size is compared by the store, which reads every blob.
    let report = json!(rialto_node::verify::verify(world.store.as_ref(), &Default::default(), &mut |_, _| {}).unwrap());
    let files: Vec<&str> = report["problems"].as_array().unwrap().iter().map(|p| p["file"].as_str().unwrap()).collect();
    assert!(files.iter().any(|file| file.ends_with(&hex::text(&rotten.hash))), "{report}");
    assert_eq!((report["ok"].clone(), files.len()), (json!(false), 2));
}
