//! The store's one door: append under an epoch, read, replay, look up, snapshots, blobs, health. It knows no protocol and assumes no
//! local files; `memory` and `local` implement it and pass one contract (`tests/contract.rs`).
//! Not here: async. Reads block and may be called from many threads; appends never wait for the disk and answer by a callback.

use std::fmt;
use std::ops::{ControlFlow, Range, RangeInclusive};

use crate::class::Class;
use crate::error::{Damage, StoreError};
use crate::record::{Batch, Lsn, RecordRef};

pub use crate::log::upkeep::Freed;

/// How safe a batch must be before its completion is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Flushed to the medium: survives a power cut.
    Sync,
    /// Handed to the operating system: survives a crash of the process.
    Os,
    /// As `Os` here; the sender need not wait for the completion, and a store may drop it.
    None,
}

/// A batch that was taken into the log.
#[derive(Debug)]
pub struct Committed {
    /// LSN of its first record.
    pub first_lsn: Lsn,
    /// LSN of its last record.
    pub last_lsn: Lsn,
    /// Number of the segment that holds it: another one than before means that the log rolled.
    pub segment: u64,
    /// The batch, to be used again.
    pub batch: Batch,
}

/// Called once when a batch's fate is known, on the log's thread (or the caller's, in memory): be quick, never block.
pub type Done = Box<dyn FnOnce(Result<Committed, StoreError>) + Send>;

/// A batch that was not even queued, given back.
pub struct Rejected {
    /// Why.
    pub error: StoreError,
    /// The batch as it was.
    pub batch: Batch,
    /// The completion, not called.
    pub done: Done,
}

impl fmt::Debug for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("error", &self.error).field("batch", &self.batch.len()).finish_non_exhaustive()
    }
}

/// Which events to read.
#[derive(Debug, Clone)]
pub enum Seqs<'a> {
    /// All in a range.
    Range(Range<u64>),
    /// These, in rising order.
    These(&'a [u64]),
}

impl Seqs<'_> {
    /// How many are asked for.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Seqs::Range(range) => range.end.saturating_sub(range.start),
            Seqs::These(seqs) => seqs.len() as u64,
        }
    }
}

/// Shows records to the caller until it breaks off.
pub type Visit<'a> = &'a mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>;

/// Sees records one by one and gives another body for those that are to be overwritten.
pub type Rewrite<'a> = &'a mut dyn FnMut(RecordRef<'_>) -> Option<Vec<u8>>;

/// A network in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NetworkInfo {
    /// Its number.
    pub network: u32,
    /// The log that holds its newest records.
    pub class: Class,
}

/// A snapshot of a network's state, as the engine made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The log its LSN belongs to.
    pub class: Class,
    /// Every record up to this LSN is in it.
    pub lsn: Lsn,
    /// The state; opaque.
    pub bytes: Vec<u8>,
}

/// What a network no longer needs: records with a seq up to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// The network.
    pub network: u32,
    /// Its last seq that may go.
    pub seq: u64,
}

/// A blob: named by the SHA-256 of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// SHA-256 in lower-case hex.
    pub hash: String,
    /// Bytes.
    pub size: u64,
}

/// A blob being written. Dropped unfinished, it leaves nothing.
pub trait BlobWriter: Send + fmt::Debug {
    /// Adds bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError>;
    /// Makes the blob durable and names it.
    fn finish(self: Box<Self>) -> Result<BlobInfo, StoreError>;
}

/// A blob being read, at any place, from any thread.
pub trait BlobReader: Send + Sync + fmt::Debug {
    /// Its size in bytes.
    fn size(&self) -> u64;
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, StoreError>;
}

/// How the store is.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Bytes free where the store writes, if it can know.
    pub free_bytes: Option<u64>,
    /// Bytes the store takes, as counted against the disk budget.
    pub used_bytes: u64,
    /// Per log.
    pub logs: Vec<LogHealth>,
    /// The last error of upkeep or of a log.
    pub last_error: Option<String>,
    /// What was found and set aside when the store was opened.
    pub notes: Vec<Damage>,
}

/// How one log is.
#[derive(Debug, Clone)]
pub struct LogHealth {
    /// The log.
    pub class: Class,
    /// Last LSN that may be read.
    pub last_lsn: Lsn,
    /// Last LSN known to be flushed.
    pub durable_lsn: Lsn,
    /// Segments (or whatever the store keeps) in use.
    pub segments: u64,
    /// Batches waiting.
    pub waiting: u64,
    /// The error that stopped it; `reopen` starts it again.
    pub broken: Option<String>,
    /// Whether flushed batches are written past the page cache; none where there are no files.
    pub direct: Option<bool>,
}

/// What `verify` saw.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// Records whose checksum was right.
    pub records: u64,
    /// Segments (or whatever the store keeps records in) read.
    pub segments: u64,
    /// Snapshots read.
    pub snapshots: u64,
    /// Blobs read.
    pub blobs: u64,
    /// What is wrong, and where.
    pub damage: Vec<Damage>,
    /// What was wrong and counts as gone since a repair.
    pub written_off: Vec<Damage>,
}

/// Records that cannot be read any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The log they were in.
    pub class: Class,
    /// Whose they were; `None` if nobody can tell.
    pub network: Option<u32>,
    /// LSN of the first one.
    pub first_lsn: Lsn,
    /// LSN of the last one.
    pub last_lsn: Lsn,
    /// Where they were, and what is wrong there.
    pub damage: Damage,
}

/// A place that keeps records, snapshots and blobs.
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// The epoch that the owner of this store writes under; 1 unless it was raised.
    fn epoch(&self) -> Result<u64, StoreError>;

    /// Raises the epoch durably, never lowers it.
    fn raise_epoch(&self, to: u64) -> Result<(), StoreError>;

    /// Hands a batch to the log of a class; `done` is called once its fate is known. Never waits for the disk, except when a class is
    /// used for the first time.
    ///
    /// An empty batch that asks for `Flush::Sync` flushes what came before it.
    /// Batches are committed in the order they are handed over. A batch under a lower epoch than its network has seen is refused.
    /// After a batch that failed, all of its network are refused until [`Store::reopen`]: they were made on top of it.
    fn append(&self, class: Class, epoch: u64, flush: Flush, batch: Batch, done: Done) -> Result<(), Box<Rejected>>;

    /// Shows events of a network in rising order, committed ones only. Absent seqs are passed over; damaged ones are an error.
    fn read(&self, network: u32, seqs: Seqs<'_>, visit: Visit<'_>) -> Result<(), StoreError>;

    /// Overwrites the body of an event in place with another of the same length, durably. Returns whether it was there.
    fn erase(&self, network: u32, seq: u64, body: &[u8]) -> Result<bool, StoreError>;
    /// Shows the records of a network with these LSNs, of every kind, in order, passing over what was freed. A body that `change`
    /// gives for one, of the same length, takes its place durably. Returns how many were replaced.
    fn rewrite(
        &self,
        class: Class,
        network: u32,
        lsns: RangeInclusive<Lsn>,
        change: Rewrite<'_>,
    ) -> Result<u64, StoreError>;
    /// Shows every record of a log above `after`, of one network or of all, in order. Returns the last LSN there was to see.
    fn replay(&self, class: Class, network: Option<u32>, after: Lsn, visit: Visit<'_>) -> Result<Lsn, StoreError>;

    /// Seqs of a network's events with this key, newest first. Keys are hashes: compare the events. An error if there are none and some
    /// may be lost.
    fn find(&self, network: u32, key: u64) -> Result<Vec<u64>, StoreError>;

    /// Every network with records or snapshots, by number.
    fn networks(&self) -> Result<Vec<NetworkInfo>, StoreError>;

    /// Keeps a snapshot durably; of each network the newest two are kept, and one saved twice for the same LSN counts twice. What it covers is flushed first, so it may wait for the log:
    /// not to be called from a completion.
    fn save_snapshot(&self, class: Class, network: u32, lsn: Lsn, bytes: &[u8]) -> Result<(), StoreError>;

    /// The newest valid snapshot at or below an LSN. A bad one is set aside and named in `health`.
    fn load_snapshot(&self, network: u32, through: Lsn) -> Result<Option<Snapshot>, StoreError>;

    /// Sets aside a snapshot that was loaded and cannot be decoded, and names it in `health`: the next load gives an older one.
    fn reject_snapshot(&self, network: u32, lsn: Lsn, what: &str) -> Result<(), StoreError>;

    /// Removes the snapshots of a network that were set aside as bad. From here on no power cut brings back one of them, or one
    /// that newer ones have replaced.
    fn drop_rejected_snapshots(&self, network: u32) -> Result<(), StoreError>;

    /// Frees the parts of a log in which every network's records are at or below its horizon and covered by both of its kept
    /// snapshots. Networks without a horizon keep everything. Where only a snapshot is missing, its network is named.
    fn recycle(&self, class: Class, horizons: &[Horizon]) -> Result<Freed, StoreError>;

    /// Begins a blob.
    fn put_blob(&self) -> Result<Box<dyn BlobWriter>, StoreError>;
    /// Opens a blob, if it is there.
    fn open_blob(&self, hash: &str) -> Result<Option<Box<dyn BlobReader>>, StoreError>;
    /// Whether a blob is there.
    fn has_blob(&self, hash: &str) -> Result<bool, StoreError>;
    /// Removes a blob. Returns whether it was there.
    fn remove_blob(&self, hash: &str) -> Result<bool, StoreError>;
    /// All blobs, by hash.
    fn list_blobs(&self) -> Result<Vec<BlobInfo>, StoreError>;

    /// How the store is.
    fn health(&self) -> Health;

    /// Starts every log that an error stopped, never on what may be half written. What was acknowledged is still there; what was not
    /// may be. Batches of this network are taken again; those it handed over before are refused, unless their fate is known.
    /// `NoSpace`: the logs are whole and can be read, but there is no room for a batch, so none is taken.
    fn reopen(&self, network: u32) -> Result<(), StoreError>;

    /// Reads everything and checks it. `progress` gets bytes done and bytes in all.
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport, StoreError>;

    /// Damage that is known without looking for it, that may have taken records of this network, and that was not written off. What
    /// is not found then may be lost.
    fn known_loss(&self, _network: u32) -> Option<Damage> {
        None
    }

    /// Reads every record and gives what cannot be read, other than what was written off.
    fn losses(&self) -> Result<Vec<Loss>, StoreError> {
        Ok(Vec::new())
    }

    /// Lets all that cannot be read count as gone from now on: reads pass over it, and `verify` lists it apart. A copy of the bad
    /// bytes is kept. Replaying a network from before its loss still fails.
    fn write_off(&self) -> Result<Vec<Loss>, StoreError> {
        Ok(Vec::new())
    }

    /// Lets all records of a network that are there now and come after an LSN count as gone, so that their seqs may be used again. A
    /// network that is cut back to 0 is given up: it is not among the networks any more.
    fn cut_back(&self, _class: Class, _network: u32, _after: Lsn) -> Result<(), StoreError> {
        Ok(())
    }

    /// Networks that were given up: their numbers are not to be used again.
    fn given_up(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Flushes all and stops. Later appends are refused; dropping the store does this too.
    fn close(&self) -> Result<(), StoreError>;
}
