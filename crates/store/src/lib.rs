//! Event log, snapshots, id look-up, blobs and search behind one small trait.
//!
//! - [`Store`]: the door. [`MemoryStore`] and [`LocalStore`] implement it and pass one contract (`tests/contract.rs`).
//! - [`search`]: full text, a projection of the log that may be deleted.
//! - [`disk`]: every disk call, with a fault-injecting disk for tests and the simulator.
//!
//! Record bodies are opaque bytes: no protocol, no engine type and no async is known here.

mod admin;
mod blob;
mod budget;
#[doc(hidden)]
pub mod bugs;
mod class;
mod database;
pub mod disk;
mod error;
mod local;
mod log;
mod memory;
mod record;
mod seal;
pub mod search;
mod snapshot;
mod store;

pub use admin::{AdminChange, AdminDb, AdminEntry};
pub use class::Class;
pub use error::{Damage, StoreError};
pub use local::{LocalOptions, LocalStore};
pub use memory::MemoryStore;
pub use record::{BATCH_BYTES_MAX, BODY_BYTES_MAX, Batch, EVENT_KIND, Lsn, Record, RecordRef};
pub use store::{
    BlobInfo, BlobReader, BlobWriter, Committed, Done, Flush, Freed, Health, Horizon, LogHealth, Loss, NetworkInfo,
    Rejected, Rewrite, Seqs, Snapshot, Store, VerifyReport, Visit,
};
