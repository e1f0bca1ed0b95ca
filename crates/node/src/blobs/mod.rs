//! Blobs of a node: content named by its SHA-256, stored once for all networks, kept as long as somebody names it.
//!
//! - [`Blobs::stage`] takes content in, [`Blobs::open`] gives it out: both in pieces, on threads that may block.
//! - [`Blobs::refer`] and [`Blobs::release`] follow what the books name, [`Blobs::clean_up`] removes the rest.
//!
//! Invariants: a blob is durable before anybody may name it; a named or staged blob is never removed; knowing a hash
//! gives no right to its content ([`Blobs::may_name`]). Nothing is removed while it is not known what every network
//! names.
//! Not here: who may read a blob, and what names one (the engine); files (the store).

mod error;
mod read;
mod registry;
mod upload;

pub use error::BlobError;
pub use read::Download;
pub use registry::QuotaUsage;
pub use upload::{Staging, StoredUpload, Upload};

use crate::Host;
use registry::Registry;
use rialto_engine::MemberId;
use rialto_model::hex;
use rialto_store::{Store, StoreError};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Bytes that go to and from the disk at once. An upload or a download keeps two such pieces in memory: one is with the disk, one with
/// the client.
pub const PIECE_BYTES: usize = 64 << 10;
/// How long staged content waits to be named.
pub const STAGED_MS: u64 = 3_600_000;

/// The SHA-256 of a blob's content, which is its name.
pub type Hash = [u8; 32];

/// The blobs of a node. One value for all its networks.
#[derive(Debug)]
pub struct Blobs {
    store: Arc<dyn Store>,
    host: Host,
    /// Shared by uploads while they name their content, taken whole by the clean-up while it removes a blob: content that
    /// is uploaded again as it is being removed is there afterwards. Never waited for by a network's task.
    naming: RwLock<()>,
    /// Held for look-ups only, never while the disk works. After `naming`, when both are needed.
    registry: Mutex<Registry>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    uploads: AtomicU64,
    uploaded_bytes: AtomicU64,
    removed: AtomicU64,
    removed_bytes: AtomicU64,
}

/// What a clean-up did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// What it removed.
    pub removed: Vec<Hash>,
    /// Bytes of it.
    pub bytes: u64,
    /// Blobs that are named or staged.
    pub kept: u64,
    /// Blobs that could not be removed; the log has the causes.
    pub failed: u64,
    /// It ended early: not every network's book is known, or somebody holds all blobs.
    pub held_back: bool,
}

impl Blobs {
    /// The blobs of a store. What its networks name is not known yet: nothing is removed until each one was
    /// [loaded](Blobs::load).
    pub fn over(store: Arc<dyn Store>, host: Host) -> Result<Arc<Blobs>, StoreError> {
        let mut registry = Registry::default();
        for info in store.networks()? {
            registry.doubt(info.network);
        }
        let (naming, counters) = (RwLock::new(()), Counters::default());
        Ok(Arc::new(Blobs { store, host, naming, registry: Mutex::new(registry), counters }))
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn steady(&self) -> u64 {
        self.host.clock().now().steady
    }

    /// What a network's book names, once for every place that names it: replaces what was known of that network. When it
    /// was opened, and when its state was rebuilt after a failure.
    pub fn load(&self, network: u32, named: impl IntoIterator<Item = (Hash, u64)>) {
        self.registry().load(network, named);
    }

    /// A network's fate is open: its log failed, and records that name blobs may have reached the disk unseen. Nothing is
    /// removed until it is [loaded](Blobs::load) again.
    pub fn doubt(&self, network: u32) {
        self.registry().doubt(network);
    }

    /// A committed record names a blob in one more place. Where one record replaces a name by another, before the
    /// [release](Blobs::release).
    pub fn refer(&self, network: u32, hash: &Hash, size: u64) {
        self.registry().refer(network, *hash, size);
    }

    /// A committed record un-names a blob in one place.
    pub fn release(&self, network: u32, hash: &Hash) {
        if !self.registry().release(network, hash) {
            tracing::error!(network, hash = hex::text(hash), "a blob was released that nothing named");
        }
    }

    /// Whether a member may name a blob because it uploaded that content in this network within [`STAGED_MS`]; gives the
    /// size. Nobody learns by a hash whether others have the content. A blob that may be named stays for [`STAGED_MS`]
    /// from here, so that the naming can be committed.
    ///
    /// What the member may read already is the engine's to know.
    pub fn may_name(&self, network: u32, member: MemberId, hash: &Hash) -> Option<u64> {
        let now = self.steady();
        self.registry().may_name((network, member, *hash), now)
    }

    /// What a network has of its quota.
    pub fn usage(&self, network: u32) -> QuotaUsage {
        self.registry().usage(network, self.steady())
    }

    /// Begins an upload. Refused when the member or the node has too many, or when it says beforehand that it is too large.
    pub async fn stage(self: &Arc<Self>, staging: Staging) -> Result<Upload, BlobError> {
        Upload::begin(self, staging).await
    }

    /// Opens a part of a blob, as much of it as there is; `None` if there is no such blob. It can be read to its end
    /// whatever happens to its name meanwhile.
    pub async fn open(&self, hash: &Hash, range: Range<u64>) -> Result<Option<Download>, BlobError> {
        Download::open(&self.store, &self.host, hash, range).await
    }

    /// Removes every blob that is neither named nor staged: once all networks are loaded, and hourly.
    pub async fn clean_up(self: &Arc<Self>) -> Result<Cleaned, BlobError> {
        let blobs = Arc::clone(self);
        Ok(self.host.blocking(move || blobs.sweep()).await??)
    }

    /// Removes content of a network that nobody names, at once. Whoever has staged it there and not named it yet has to upload it
    /// again. Returns false if nothing may be removed now, because not every network's book is known or somebody holds all
    /// blobs.
    pub async fn discard(self: &Arc<Self>, network: u32, hashes: Vec<Hash>) -> Result<bool, BlobError> {
        let blobs = Arc::clone(self);
        let work = move || {
            for hash in hashes {
                blobs.registry().unstage(network, hash);
                let name = hex::text(&hash);
                let gone = blobs.store.has_blob(&name)?;
                if gone && !blobs.remove_unheld(&hash, &name)? {
                    return Ok(false);
                }
            }
            Ok::<bool, StoreError>(true)
        };
        Ok(self.host.blocking(work).await??)
    }

    /// Removes a blob unless somebody names it or has staged it. Returns false if nothing may be removed now.
    fn remove_unheld(&self, hash: &Hash, name: &str) -> Result<bool, StoreError> {
        let _nobody_names = self.naming.write().unwrap_or_else(PoisonError::into_inner);
        {
            let mut registry = self.registry();
            if registry.protects(hash, self.steady()) {
                return Ok(true);
            }
            if registry.is_held() {
                return Ok(false);
            }
        }
        if self.store.remove_blob(name)? {
            self.counters.removed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(true)
    }

    fn sweep(&self) -> Result<Cleaned, StoreError> {
        let mut cleaned = Cleaned { held_back: self.registry().is_held(), ..Cleaned::default() };
        if cleaned.held_back {
            return Ok(cleaned);
        }
        for blob in self.store.list_blobs()?.into_iter().filter(|_| !rialto_engine::bugs::on("orphans stay")) {
            let Some(hash) = hex::hash(&blob.hash) else { continue };
            if self.registry().protects(&hash, self.steady()) {
                cleaned.kept += 1;
                continue;
            }
            let _nobody_names = self.naming.write().unwrap_or_else(PoisonError::into_inner);
            // Looked at again: an upload may have been faster.
            let kept = {
                let mut registry = self.registry();
                if registry.is_held() {
                    cleaned.held_back = true;
                    break;
                }
                registry.protects(&hash, self.steady())
            };
            if kept {
                cleaned.kept += 1;
                continue;
            }
            match self.store.remove_blob(&blob.hash) {
                Ok(true) => {
                    cleaned.removed.push(hash);
                    cleaned.bytes += blob.size;
                }
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(hash = blob.hash, %error, "a blob that nobody names could not be removed");
                    cleaned.failed += 1;
                }
            }
        }
        self.counters.removed.fetch_add(cleaned.removed.len() as u64, Ordering::Relaxed);
        self.counters.removed_bytes.fetch_add(cleaned.bytes, Ordering::Relaxed);
        Ok(cleaned)
    }

    /// Keeps every blob that is there until the hold is dropped: for a backup or a verification, which read the books first
    /// and the blobs later. Waits for the disk if a blob is being removed right now.
    pub fn hold(self: &Arc<Self>) -> Hold {
        let _none_is_going = self.naming.read().unwrap_or_else(PoisonError::into_inner);
        self.registry().hold();
        Hold(Arc::clone(self))
    }

    /// Names and values for `/metrics`: counters since the start (`…_total`), and gauges.
    pub fn metrics(&self) -> Vec<(&'static str, u64)> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let registry = self.registry();
        vec![
            ("blob_uploads_total", count(&self.counters.uploads)),
            ("blob_uploaded_bytes_total", count(&self.counters.uploaded_bytes)),
            ("blobs_removed_total", count(&self.counters.removed)),
            ("blob_removed_bytes_total", count(&self.counters.removed_bytes)),
            ("blobs_held", registry.held()),
            ("blobs_staged", registry.staged()),
            ("blob_uploads_open", registry.uploading()),
        ]
    }
}

/// All blobs of a node stay as long as this lives.
#[derive(Debug)]
pub struct Hold(Arc<Blobs>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.registry().unhold();
    }
}
