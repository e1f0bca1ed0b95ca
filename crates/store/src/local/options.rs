//! Settings of a local store. Not here: where the data directory is, and how settings are read.

/// Sizes and limits of a local store.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Size of the first segment, in bytes; later ones double.
    pub first_segment_bytes: u64,
    /// Size at which segments stop doubling.
    pub max_segment_bytes: u64,
    /// Batches that may wait in a log's queue.
    pub queue_batches: usize,
    /// Bytes that may wait in a log's queue.
    pub queue_bytes: usize,
    /// Bytes committed by one flush, more only if one batch is larger.
    pub group_bytes: usize,
    /// Free space below which appends and blobs are refused.
    pub free_floor_bytes: u64,
    /// Bytes that logs, snapshots and blobs may take together.
    pub budget_bytes: Option<u64>,
    /// Write segments past the page cache where the file system lets that be done.
    pub direct: bool,
    /// Source of segment generations. `None` takes one from the system; a simulator gives its own.
    pub seed: Option<u64>,
    /// No threads: nothing is committed but by [`LocalStore::pump`](crate::LocalStore::pump). For simulators.
    pub manual: bool,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            first_segment_bytes: 1 << 20,
            max_segment_bytes: 64 << 20,
            queue_batches: 4096,
            queue_bytes: 64 << 20,
            group_bytes: 4 << 20,
            free_floor_bytes: 64 << 20,
            budget_bytes: None,
            direct: true,
            seed: None,
            manual: false,
        }
    }
}

/// Limits of a log's queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    pub(crate) batches: usize,
    pub(crate) bytes: usize,
    pub(crate) group_bytes: usize,
}

impl LocalOptions {
    pub(crate) fn limits(&self) -> QueueLimits {
        QueueLimits { batches: self.queue_batches.max(1), bytes: self.queue_bytes, group_bytes: self.group_bytes }
    }
}
