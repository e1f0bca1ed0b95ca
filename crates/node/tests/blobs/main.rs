//! Blobs of a node: taken in, named, given out, cleaned up; over memory, a real directory and a disk that fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod clean;
mod crash;
mod model;
mod upload;

use rialto_model::hex;
use rialto_model::limits::BLOB_BYTES_DEFAULT;
use rialto_node::Host;
use rialto_node::blobs::{BlobError, Blobs, Hash, Staging, StoredUpload};
use rialto_node::clock::DrivenClock;
use rialto_store::{MemoryStore, Store};
use std::sync::Arc;

/// The hash of bytes, by a store of its own.
fn sha256(bytes: &[u8]) -> Hash {
    let mut writer = MemoryStore::new().put_blob().unwrap();
    writer.write(bytes).unwrap();
    hex::hash(&writer.finish().unwrap().hash).unwrap()
}

/// A node's blobs on a host whose time is moved by hand.
struct World {
    store: Arc<dyn Store>,
    clock: Arc<DrivenClock>,
    host: Host,
    blobs: Arc<Blobs>,
}

impl World {
    fn over(store: Arc<dyn Store>) -> World {
        let clock = Arc::new(DrivenClock::at(1_700_000_000_000));
        let host = Host::simulated(clock.clone(), 7);
        let blobs = Blobs::over(store.clone(), host.clone()).unwrap();
        World { store, clock, host, blobs }
    }

    fn in_memory() -> World {
        World::over(Arc::new(MemoryStore::new()))
    }

    fn stored(&self) -> Vec<Hash> {
        let list = self.store.list_blobs().unwrap();
        list.iter().map(|blob| hex::hash(&blob.hash).unwrap()).collect()
    }
}

fn staging(network: u32, member: u32) -> Staging {
    Staging::new(network, member, BLOB_BYTES_DEFAULT)
}

async fn put(blobs: &Arc<Blobs>, staging: Staging, bytes: &[u8]) -> Result<StoredUpload, BlobError> {
    let mut upload = blobs.stage(staging).await?;
    upload.write(bytes).await?;
    upload.finish().await
}

async fn get(blobs: &Blobs, hash: &Hash) -> Option<Vec<u8>> {
    let mut download = blobs.open(hash, 0..u64::MAX).await.unwrap()?;
    let mut bytes = Vec::new();
    while let Some(piece) = download.next().await.unwrap() {
        bytes.extend_from_slice(&piece);
    }
    Some(bytes)
}

/// Bytes that differ from place to place and from seed to seed.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut step = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| step()).collect();
    bytes.truncate(len);
    bytes
}
