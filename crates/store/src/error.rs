//! What can go wrong in a store, and where: damage always names its file and offset.
//! Not here: protocol error codes (the node maps these kinds to them).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a store call failed. Cheap to clone: one failed flush answers many batches.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The queue of the log is full; try again after a completion.
    #[error("the log has as many batches waiting as it takes: try again in a moment")]
    Busy,
    /// The log met an error earlier and waits for `reopen`.
    #[error("the log is unavailable until it is reopened: {cause}")]
    Unavailable {
        /// The error that stopped the log.
        cause: String,
    },
    /// Free space would fall below the floor, or the disk budget would be exceeded.
    #[error("no space: {need} bytes are needed and {have} are left to use: free some, or raise the storage budget")]
    NoSpace {
        /// Bytes that may still be used.
        have: u64,
        /// Bytes asked for.
        need: u64,
    },
    /// Stored bytes are not what was written.
    #[error("damaged: {0}")]
    Damaged(Box<Damage>),
    /// Another process holds the data directory.
    #[error("{} is in use by {holder}", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// What the lock file says of its holder.
        holder: String,
    },
    /// The data directory was written by a newer version.
    #[error("{} has format version {found}, this program knows up to {known}", path.display())]
    NewerFormat {
        /// The format file.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// Newest version this program reads.
        known: u32,
    },
    /// The data directory cannot be written.
    #[error("{} cannot be written (read-only or no permission)", path.display())]
    ReadOnly {
        /// The path that refused a write.
        path: PathBuf,
    },
    /// A batch, record, or blob is larger than its limit.
    #[error("{what} of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// A newer owner of the network has written already.
    #[error("network {network} is written by epoch {newest} now: epoch {given} may write no more")]
    Fenced {
        /// The network.
        network: u32,
        /// The newest epoch seen.
        newest: u64,
        /// The epoch of the refused batch.
        given: u64,
    },
    /// A name (class, blob hash) is not well formed.
    #[error("{name:?} is not a valid {what}")]
    BadName {
        /// What is named.
        what: &'static str,
        /// The refused name.
        name: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The disk answered with an error.
    #[error("{op} {}: {source}", path.display())]
    Io {
        /// The call that failed.
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: Arc<io::Error>,
    },
    /// The database engine of a side table answered with an error.
    #[error("database {database}: {message}")]
    Database {
        /// Which database: a file, or a server and a name on it.
        database: String,
        /// The engine's answer.
        message: String,
    },
}

/// A damaged place: which file, where in it, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The damaged (or missing) file; a store without files names the place in its own words, such as `record 17`.
    pub file: PathBuf,
    /// Byte offset of the first bad thing.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
    /// A copy kept aside for inspection, when one was made.
    pub kept: Option<PathBuf>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}: {}", self.file.display(), self.offset, self.what)?;
        match &self.kept {
            Some(kept) => write!(f, " (copy kept in {})", kept.display()),
            None => Ok(()),
        }
    }
}

impl StoreError {
    /// Damage at a place in a file.
    pub fn damaged(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged(Box::new(Damage { file: file.to_path_buf(), offset, what: what.into(), kept: None }))
    }

    /// Wraps a disk error; a place that refuses writes is a kind of its own.
    pub(crate) fn io(op: &'static str, path: &Path, error: io::Error) -> Self {
        if matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied) {
            return Self::ReadOnly { path: path.to_path_buf() };
        }
        Self::Io { op, path: path.to_path_buf(), source: Arc::new(error) }
    }
}

/// Adds the call and the path to a disk error.
pub(crate) trait At<T> {
    fn at(self, op: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, op: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| StoreError::io(op, path, error))
    }
}
