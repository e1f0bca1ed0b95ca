//! Why content is not taken or given, and what the caller is told.

use crate::host::Unfinished;
use rialto_model::{ErrorCode, Fault};
use rialto_store::StoreError;
use serde_json::json;

/// Why content is not taken or given.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// One file is larger than it may be.
    #[error("the content is larger than {limit} bytes (limit)")]
    TooLarge {
        /// Bytes it may have.
        limit: u64,
    },
    /// The network's quota would be exceeded.
    #[error(
        "the files of this network would take more than its quota of {quota} bytes: delete some, or ask the operator to raise it"
    )]
    Quota {
        /// Bytes the network may have.
        quota: u64,
        /// Bytes it has, with what is on its way in.
        used: u64,
    },
    /// Too many at a time.
    #[error("{what}: {limit} at most")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// An upload was used after it failed or was broken off.
    #[error("the upload ended before it was complete: send it again")]
    BrokenOff,
    /// A blob is shorter than it was when it was opened.
    #[error("the blob ends at byte {at} of {size}")]
    CutShort {
        /// Where it ends.
        at: u64,
        /// Its size.
        size: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node is going away.
    #[error(transparent)]
    Stopping(#[from] Unfinished),
}

impl BlobError {
    /// The registry's code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge { .. } | Self::Quota { .. } => ErrorCode::TooLarge,
            Self::TooMany { .. } => ErrorCode::RateLimited,
            Self::BrokenOff => ErrorCode::Internal,
            Self::CutShort { .. } | Self::Store(_) => ErrorCode::StorageUnavailable,
            Self::Stopping(_) => ErrorCode::ShuttingDown,
        }
    }
}

impl From<BlobError> for Fault {
    /// What the caller is told; the disk's own words go to the log.
    fn from(error: BlobError) -> Fault {
        let fault = Fault::new(error.code(), error.to_string());
        match error {
            BlobError::TooLarge { limit } => fault.details(json!({ "limit": limit })),
            BlobError::Quota { quota, used } => fault.details(json!({ "quota": quota, "used": used })),
            BlobError::TooMany { limit, .. } => fault.details(json!({ "limit": limit })),
            BlobError::BrokenOff => fault,
            BlobError::Store(StoreError::NoSpace { .. }) => {
                Fault::new(fault.code, "the disk has no room for this content: free some space, or try again later")
            }
            BlobError::CutShort { .. } | BlobError::Store(_) => {
                tracing::error!(%error, "a blob could not be written or read");
                Fault::new(fault.code, "the content cannot be stored or read; the log has the cause")
            }
            BlobError::Stopping(_) => ErrorCode::ShuttingDown.into(),
        }
    }
}
