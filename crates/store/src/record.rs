//! Records and batches: the unit of reading and the unit of appending. Bodies are opaque bytes.
//! A batch is kept in the form the log writes, so that an append copies and allocates nothing per record.
//! Not here: segments and files (`log`), what a body means (the engine).

use crate::error::StoreError;
use crate::log::format::{self, BATCH_HEAD};

/// Position in the log of one class: 1, 2, 3, ... without gaps.
pub type Lsn = u64;

/// Records of this kind are found by `read(network, seq)`; all others only by `replay`.
pub const EVENT_KIND: u8 = 1;

/// Largest body of one record, in bytes.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// Largest batch, in bytes, headers included.
pub const BATCH_BYTES_MAX: usize = 32 << 20;

/// A record as it lies in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Position in the log of its class.
    pub lsn: Lsn,
    /// The network it belongs to.
    pub network: u32,
    /// The event's seq; for other kinds the network's seq when it was written.
    pub seq: u64,
    /// What it is; opaque except for [`EVENT_KIND`].
    pub kind: u8,
    /// Version of the body's encoding.
    pub version: u8,
    /// 64-bit hash of a client-supplied event id, 0 = none.
    pub key: u64,
    /// The body.
    pub body: &'a [u8],
}

impl RecordRef<'_> {
    /// An owned copy.
    pub fn to_record(&self) -> Record {
        let Self { lsn, network, seq, kind, version, key, body } = *self;
        Record { lsn, network, seq, kind, version, key, body: body.to_vec() }
    }
}

/// A record that owns its body. Fields as in [`RecordRef`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of RecordRef")]
pub struct Record {
    pub lsn: Lsn,
    pub network: u32,
    pub seq: u64,
    pub kind: u8,
    pub version: u8,
    pub key: u64,
    pub body: Vec<u8>,
}

/// Encoded records of one network. Reuse it: `clear` keeps the buffer.
#[derive(Debug, Clone)]
pub struct Batch {
    network: u32,
    count: u32,
    pub(crate) buf: Vec<u8>,
}

impl Batch {
    /// An empty batch for a network.
    pub fn new(network: u32) -> Self {
        Self { network, count: 0, buf: vec![0; BATCH_HEAD] }
    }

    /// Adds a record. Its LSN is given when the log takes the batch. Seqs of events must rise.
    pub fn push(&mut self, kind: u8, version: u8, seq: u64, key: u64, body: &[u8]) -> Result<(), StoreError> {
        self.push_with(kind, version, seq, key, |out| out.extend_from_slice(body))
    }

    /// Adds a record whose body is written where it will lie: `body` appends to the buffer and touches nothing else of it.
    pub fn push_with(
        &mut self,
        kind: u8,
        version: u8,
        seq: u64,
        key: u64,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), StoreError> {
        let before = self.buf.len();
        let size = format::put_record(&mut self.buf, self.network, kind, version, seq, key, body);
        let error = if size > BODY_BYTES_MAX {
            too_large("record", size, BODY_BYTES_MAX)
        } else if self.buf.len() > BATCH_BYTES_MAX {
            too_large("batch", self.buf.len(), BATCH_BYTES_MAX)
        } else {
            self.count += 1;
            return Ok(());
        };
        self.buf.truncate(before);
        Err(error)
    }

    /// The network of every record in it.
    pub fn network(&self) -> u32 {
        self.network
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it has no record.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Encoded size in bytes.
    pub fn bytes(&self) -> usize {
        self.buf.len()
    }

    /// Bytes its buffer holds or could hold.
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    /// Empties it for the same network, keeping the buffer.
    pub fn clear(&mut self) {
        self.reset(self.network);
    }

    /// Empties it for a network, keeping the buffer.
    pub fn reset(&mut self, network: u32) {
        self.network = network;
        self.count = 0;
        self.buf.truncate(BATCH_HEAD);
    }

    /// Its records, in order. LSNs are 0 until the log has taken the batch.
    pub fn iter(&self) -> impl Iterator<Item = RecordRef<'_>> {
        let mut at = BATCH_HEAD;
        std::iter::from_fn(move || {
            let (record, size) = format::peek_record(self.buf.get(at..)?)?;
            at += size;
            Some(record)
        })
    }

    /// A batch from the bytes of one that was written.
    pub(crate) fn from_encoded(network: u32, count: u32, buf: Vec<u8>) -> Self {
        Self { network, count, buf }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

fn too_large(what: &'static str, size: usize, limit: usize) -> StoreError {
    StoreError::TooLarge { what, size: size as u64, limit: limit as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_back_what_was_pushed() {
        let mut batch = Batch::new(7);
        batch.push(1, 2, 3, 4, b"hello").unwrap();
        batch.push(9, 0, 3, 0, b"").unwrap();
        let got: Vec<_> = batch.iter().map(|r| (r.network, r.kind, r.version, r.seq, r.key, r.body.to_vec())).collect();
        assert_eq!(got, vec![(7, 1, 2, 3, 4, b"hello".to_vec()), (7, 9, 0, 3, 0, vec![])]);
        batch.clear();
        assert!(batch.is_empty());
        assert_eq!(batch.iter().count(), 0);
    }

    #[test]
    fn a_record_over_the_limit_is_refused() {
        let mut batch = Batch::new(1);
        let body = vec![0; BODY_BYTES_MAX + 1];
        assert!(matches!(batch.push(1, 0, 1, 0, &body), Err(StoreError::TooLarge { .. })));
        assert!(batch.is_empty());
    }

    #[test]
    fn a_batch_over_the_limit_is_refused() {
        let mut batch = Batch::new(1);
        let body = vec![0; BODY_BYTES_MAX - 100];
        batch.push(1, 0, 1, 0, &body).unwrap();
        assert!(matches!(batch.push(1, 0, 2, 0, &vec![0; BODY_BYTES_MAX]), Err(StoreError::TooLarge { .. })));
        assert_eq!(batch.len(), 1);
    }
}
