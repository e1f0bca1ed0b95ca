//! The disk budget: how many bytes the data directory may take.
//! Not here: the free-space floor, which asks the disk.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::StoreError;

/// Bytes taken of a limit.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// A budget; `None` = no limit.
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self { limit: limit.unwrap_or(u64::MAX), used: AtomicU64::new(0) }
    }

    /// Takes bytes, or says how many are left.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), StoreError> {
        let limit = self.limit;
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits) {
            Ok(_) => Ok(()),
            Err(used) => Err(StoreError::NoSpace { have: limit.saturating_sub(used), need: bytes }),
        }
    }

    /// Counts bytes that are there already, whatever the limit.
    pub(crate) fn count(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Gives bytes back.
    pub(crate) fn give(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
    }

    /// Bytes taken.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::SeqCst)
    }
}
