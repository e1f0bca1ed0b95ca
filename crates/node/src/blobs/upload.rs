//! Taking content in: gathered to a piece, hashed and written aside by threads that may block, named at the end.
//!
//! Invariant: an upload that is not finished leaves nothing, neither on the disk nor in the books, whether it is dropped,
//! fails, or its future is.

use super::{BlobError, Blobs, Hash, PIECE_BYTES};
use crate::host::BlockingWork;
use rialto_engine::MemberId;
use rialto_model::{hex, limits};
use rialto_store::{BlobWriter, StoreError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

/// An upload somebody wishes to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staging {
    /// The network it is for.
    pub network: u32,
    /// Who uploads.
    pub member: MemberId,
    /// Bytes the network's content may have: its setting `blob_bytes_max`.
    pub quota: u64,
    /// Bytes this content may have, [`limits::FILE_BYTES_MAX`] at most.
    pub size_max: u64,
    /// The size it is said to have, if any: what is too large is refused before it is sent.
    pub expected: Option<u64>,
}

impl Staging {
    /// An upload of any size a file may have.
    pub fn new(network: u32, member: MemberId, quota: u64) -> Staging {
        Staging { network, member, quota, size_max: limits::FILE_BYTES_MAX, expected: None }
    }
}

/// Content that was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredUpload {
    /// Its name.
    pub hash: Hash,
    /// Bytes.
    pub size: u64,
}

/// An upload on its way in. Dropped unfinished, it leaves nothing.
#[derive(Debug)]
pub struct Upload {
    blobs: Arc<Blobs>,
    staging: Staging,
    gathered: Vec<u8>,
    /// Gone after a failure.
    work: Option<Working>,
    /// Shared with the work: what comes after a piece could not be written is given back too.
    charge: Arc<UploadCharge>,
    /// Who may name the content, where that is not who it is counted for on its way in.
    brought_by: Option<MemberId>,
}

/// What is written, or on its way to be: one piece is taken by a thread while the next one comes.
#[derive(Debug)]
enum Working {
    Idle(UploadWork),
    Pouring(BlockingWork<Result<(UploadWork, Vec<u8>), StoreError>>),
}

/// What the blocking threads work with. Dropping it removes the file and gives back what was charged.
#[derive(Debug)]
struct UploadWork {
    /// First, so that the file is gone before its bytes are free for others.
    writer: Box<dyn BlobWriter>,
    charge: Arc<UploadCharge>,
}

/// Counts an upload and its bytes as long as they are not staged.
#[derive(Debug)]
struct UploadCharge {
    blobs: Arc<Blobs>,
    staging: Staging,
    bytes: AtomicU64,
    over: AtomicBool,
}

impl UploadCharge {
    /// The content is there: what was charged on the way is charged to its name.
    fn stage(&self, stored: StoredUpload, brought_by: Option<MemberId>) {
        let now = self.blobs.steady();
        let mut registry = self.blobs.registry();
        registry.end(&self.staging, self.bytes.load(Ordering::Acquire));
        let member = brought_by.unwrap_or(self.staging.member);
        registry.stage(&Staging { member, ..self.staging }, stored, now);
        drop(registry);
        self.over.store(true, Ordering::Release);
    }
}

impl Drop for UploadCharge {
    fn drop(&mut self) {
        if !self.over.load(Ordering::Acquire) {
            self.blobs.registry().end(&self.staging, self.bytes.load(Ordering::Acquire));
        }
    }
}

impl Upload {
    pub(super) async fn begin(blobs: &Arc<Blobs>, mut staging: Staging) -> Result<Upload, BlobError> {
        staging.size_max = staging.size_max.min(limits::FILE_BYTES_MAX);
        blobs.registry().begin(&staging, blobs.steady())?;
        let blobs = Arc::clone(blobs);
        let (bytes, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let charge = Arc::new(UploadCharge { blobs: Arc::clone(&blobs), staging, bytes, over });
        let shared = Arc::clone(&charge);
        let store = Arc::clone(&blobs.store);
        let work = blobs
            .host
            .blocking(move || Ok::<_, StoreError>(UploadWork { writer: store.put_blob()?, charge: shared }))
            .await??;
        Ok(Upload { blobs, staging, gathered: Vec::new(), work: Some(Working::Idle(work)), charge, brought_by: None })
    }

    /// Says who brings it, if that was not known at the beginning: from its finish on, that member may name it.
    pub fn is_brought_by(&mut self, member: MemberId) {
        self.brought_by = Some(member);
    }

    /// Adds bytes. After an error, or if it is dropped before it is done, the upload is broken off.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        if let Err(error) = self.charge(bytes.len() as u64) {
            self.break_off();
            return Err(error);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = PIECE_BYTES.saturating_sub(self.gathered.len()).min(rest.len());
            let (now, later) = rest.split_at(room);
            self.gathered.extend_from_slice(now);
            rest = later;
            if self.gathered.len() >= PIECE_BYTES {
                self.pour().await?;
            }
        }
        Ok(())
    }

    fn charge(&mut self, more: u64) -> Result<(), BlobError> {
        let Staging { size_max: limit, .. } = self.staging;
        if self.work.is_none() {
            return Err(BlobError::BrokenOff);
        }
        if self.charge.bytes.load(Ordering::Acquire).saturating_add(more) > limit {
            return Err(BlobError::TooLarge { limit });
        }
        self.blobs.registry().arrive(&self.staging, more, self.blobs.steady())?;
        self.charge.bytes.fetch_add(more, Ordering::AcqRel);
        Ok(())
    }

    /// What it works with, when the piece before is written; and that piece's memory, empty.
    async fn idle(&mut self) -> Result<(UploadWork, Vec<u8>), BlobError> {
        match self.work.take().ok_or(BlobError::BrokenOff)? {
            Working::Idle(work) => Ok((work, Vec::new())),
            Working::Pouring(begun) => Ok(begun.end().await??),
        }
    }

    async fn pour(&mut self) -> Result<(), BlobError> {
        let (mut work, spare) = self.idle().await?;
        let mut piece = std::mem::replace(&mut self.gathered, spare);
        let write = move || {
            work.writer.write(&piece)?;
            piece.clear();
            Ok((work, piece))
        };
        self.work = Some(Working::Pouring(self.blobs.host.begin(write)));
        Ok(())
    }

    /// Makes the content durable and stages it: from here on the member may name it in this network. Whether it was there
    /// before cannot be seen. Dropped before it is done, it may be staged nevertheless.
    pub async fn finish(mut self) -> Result<StoredUpload, BlobError> {
        let (work, _) = self.idle().await?;
        let (piece, brought_by) = (std::mem::take(&mut self.gathered), self.brought_by);
        Ok(self.blobs.host.blocking(move || work.finish(&piece, brought_by)).await??)
    }

    /// Bytes that are kept in memory now.
    pub fn buffered(&self) -> usize {
        self.gathered.capacity()
    }

    /// Has the file removed by a thread that may block: the end of a large one takes a while.
    fn break_off(&mut self) {
        self.gathered = Vec::new();
        if let Some(work) = self.work.take() {
            self.blobs.host.errand(move || drop(work));
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.break_off();
    }
}

impl UploadWork {
    fn finish(self, piece: &[u8], brought_by: Option<MemberId>) -> Result<StoredUpload, StoreError> {
        let UploadWork { mut writer, charge } = self;
        let blobs = Arc::clone(&charge.blobs);
        writer.write(piece)?;
        // From its name until it is staged nobody may take it for an orphan.
        let _naming = blobs.naming.read().unwrap_or_else(PoisonError::into_inner);
        let info = writer.finish()?;
        let hash = hex::hash(&info.hash).ok_or(StoreError::BadName { what: "blob hash", name: info.hash })?;
        let stored = StoredUpload { hash, size: info.size };
        charge.stage(stored, brought_by);
        blobs.counters.uploads.fetch_add(1, Ordering::Relaxed);
        blobs.counters.uploaded_bytes.fetch_add(stored.size, Ordering::Relaxed);
        Ok(stored)
    }
}
