//! The writing end of the open segment: gathers batches and writes them with one call, past the page cache where the file system lets it.
//!
//! A direct write covers whole blocks. The block in which the records end is written again with the next batch, the bytes before it as
//! they were; a write that tears leaves each sector as it was or as it is to be, and both hold what was there before
//! (`docs/adr/0008-direct-writes.md`). What is not flushed at once goes through the page cache, where a write waits for nothing.
//! Not here: what the bytes mean (`format`), when a segment ends (`Log`).

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::buffers::Buffers;
use super::fresh::FreshGroup;
use crate::disk::{DIRECT_BLOCK, DiskFile};
use crate::error::{At as _, StoreError};

/// A flushed write of at most so many bytes, into space that was reserved and never written, takes zeros along behind
/// it. A file system notes which reserved blocks became written ones, and flushes that note with them: a journal commit
/// for each small flush, which costs as much as the flush itself. With zeros ahead it is one for many.
const SMALL_WRITE: usize = 64 << 10;
/// So many zeros.
const ZEROS_AHEAD: usize = 256 << 10;

/// Where the open segment's file stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WritePosition {
    /// Length of the file.
    pub(crate) capacity: u64,
    /// Where the next batch goes; everything before is flushed.
    pub(crate) end: u64,
    /// Up to here the file was written before, if only with zeros.
    pub(crate) written: u64,
}

/// The end of the open segment.
#[derive(Debug)]
pub(crate) struct Writer<F> {
    file: Arc<F>,
    /// The same file past the page cache, if the file system has that.
    direct: Option<F>,
    path: PathBuf,
    place: WritePosition,
    /// Where the flushed part ends.
    durable_end: u64,
    gathered: AlignedBatch,
}

impl<F: DiskFile> Writer<F> {
    /// A writer behind what is in a file and flushed.
    pub(crate) fn new(
        file: Arc<F>,
        direct: Option<F>,
        path: PathBuf,
        place: WritePosition,
    ) -> Result<Self, StoreError> {
        let whole = place.capacity.is_multiple_of(DIRECT_BLOCK as u64);
        let direct = direct.filter(|_| whole);
        let mut writer = Self { file, direct, path, place, durable_end: place.end, gathered: AlignedBatch::default() };
        writer.read_tail()?;
        Ok(writer)
    }

    pub(crate) fn file(&self) -> &F {
        &self.file
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    #[cfg(test)]
    pub(crate) fn written(&self) -> &u64 {
        &self.place.written
    }

    #[cfg(test)]
    pub(crate) fn written_mut(&mut self) -> &mut u64 {
        &mut self.place.written
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.place.capacity
    }

    /// Where what is written ends.
    pub(crate) fn end(&self) -> u64 {
        self.place.end
    }

    /// Where the flushed part ends.
    pub(crate) fn durable_end(&self) -> u64 {
        self.durable_end
    }

    /// Whether so many bytes fit behind what is gathered.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.place.end + self.gathered.len as u64 + bytes <= self.place.capacity
    }

    /// Makes room in memory for so many more bytes, at once instead of bit by bit.
    pub(crate) fn expect(&mut self, bytes: usize) {
        self.gathered.reserve(self.gathered.tail + self.gathered.len + bytes);
    }

    /// Adds bytes to what is written next; they may be changed until then.
    pub(crate) fn gather(&mut self, bytes: &[u8]) -> &mut [u8] {
        self.gathered.push(bytes)
    }

    /// Takes what was gathered and written to the segment of this number, in its memory; nothing if nothing was.
    pub(crate) fn take(&mut self, segment: u64) -> Option<FreshGroup> {
        let (len, from) = (self.gathered.len, self.gathered.start + self.gathered.tail);
        if len == 0 {
            return None;
        }
        let tail = if self.direct.is_some() { block_part(self.place.end) } else { 0 };
        let at = self.place.end - len as u64;
        // A few records, and many zeros behind them: what is kept of them is a copy, which is cheap, and not all of the memory.
        if len <= SMALL_WRITE && self.gathered.memory.len() > 2 * (len + DIRECT_BLOCK) {
            let memory = self.gathered.records().to_vec();
            self.gathered.begin_behind(tail);
            return Some(FreshGroup { memory, from: 0, len, segment, at });
        }
        let memory = self.gathered.give_memory(tail);
        Some(FreshGroup { memory, from, len, segment, at })
    }

    /// Gives its memory back to the system, but for what comes before the next records. Nothing may be gathered.
    pub(crate) fn rest(&mut self) {
        if self.gathered.len == 0 && self.gathered.memory.len() > SMALL_WRITE {
            let tail = self.gathered.tail;
            drop(self.gathered.give_memory(tail));
        }
        self.gathered.buffers.clear();
    }

    /// The memory it gathers in next.
    pub(crate) fn buffers(&mut self) -> &mut Buffers {
        &mut self.gathered.buffers
    }

    /// Writes what is gathered, and flushes it and all before it if `flush`. `overwritten` is set by whoever changes bytes of the open
    /// segment in place, and held while that is done.
    pub(crate) fn write(&mut self, flush: bool, overwritten: &Mutex<bool>) -> Result<(), StoreError> {
        let (at, len) = (self.place.end, self.gathered.len);
        if len == 0 {
            return if flush { self.flush() } else { Ok(()) };
        }
        let end = at + len as u64;
        let room = usize::try_from(self.place.capacity.saturating_sub(end)).unwrap_or(usize::MAX);
        let fresh = flush && len <= SMALL_WRITE && end > self.place.written;
        let zeros = if fresh { room.min(ZEROS_AHEAD) } else { 0 };
        let direct = flush && self.direct.is_some() && !crate::bugs::on("flush skipped");
        if direct {
            self.write_blocks(zeros, overwritten)?;
        } else {
            let bytes = self.gathered.with_zeros(zeros);
            self.file.write_at(bytes, at).at("write", &self.path)?;
        }
        self.place.written = self.place.written.max(end + zeros as u64);
        self.place.end = end;
        if direct {
            self.durable_end = end;
            Ok(())
        } else if flush {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes the gathered bytes, and the block they begin in, past the page cache; they are on the medium then.
    fn write_blocks(&mut self, zeros: usize, overwritten: &Mutex<bool>) -> Result<(), StoreError> {
        let at = self.place.end;
        let mut overwritten = overwritten.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *overwritten) {
            self.read_tail()?;
        }
        let from = at - self.gathered.tail as u64;
        // Only this write is flushed by a write that flushes itself.
        let alone = self.durable_end == at;
        let blocks = self.gathered.blocks(zeros);
        let Some(direct) = &self.direct else { return Ok(()) };
        let write = || {
            if alone {
                return direct.write_durable_at(blocks, from);
            }
            direct.write_at(blocks, from)?;
            self.file.sync_data()
        };
        let mut written = write();
        if crate::bugs::on("failed flush tried again") && written.is_err() {
            written = self.file.sync_data();
        }
        match written {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                tracing::warn!(file = %self.path.display(), %error, "the file system takes no direct writes after all");
                self.direct = None;
                self.file.write_at(blocks, from).at("write", &self.path)?;
                self.file.sync_data().at("flush", &self.path)
            }
            other => other.at("write", &self.path),
        }
    }

    /// Flushes everything written.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        if !crate::bugs::on("flush skipped") {
            let mut flushed = self.file.sync_data();
            if crate::bugs::on("failed flush tried again") && flushed.is_err() {
                flushed = self.file.sync_data();
            }
            flushed.at("flush", &self.path)?;
        }
        self.durable_end = self.place.end;
        Ok(())
    }

    /// Forgets what was gathered and never will be written.
    pub(crate) fn forget(&mut self) {
        self.gathered.len = 0;
    }

    /// Reads the part of the last block that holds records already.
    fn read_tail(&mut self) -> Result<(), StoreError> {
        if self.direct.is_none() {
            return Ok(());
        }
        let tail = block_part(self.place.end);
        let place = self.gathered.make_tail(tail);
        let got = self.file.read_at(place, self.place.end - tail as u64).at("read", &self.path)?;
        if got < tail {
            return Err(StoreError::damaged(&self.path, self.place.end, "segment is cut short"));
        }
        Ok(())
    }
}

/// Bytes of the block that a position lies in, before it.
fn block_part(at: u64) -> usize {
    usize::try_from(at % DIRECT_BLOCK as u64).unwrap_or(0)
}

/// Bytes to be written, in memory that begins where a direct write may begin.
#[derive(Debug, Default)]
struct AlignedBatch {
    memory: Vec<u8>,
    /// The first aligned byte of the memory.
    start: usize,
    /// Bytes of the block in which the records begin that are in the file already.
    tail: usize,
    /// Bytes gathered behind them.
    len: usize,
    buffers: Buffers,
}

impl AlignedBatch {
    fn range(&self, from: usize, to: usize) -> Range<usize> {
        self.start + from..self.start + to
    }

    /// Makes room for so many bytes from the start, keeping what is there.
    fn reserve(&mut self, bytes: usize) {
        if self.memory.len() >= self.start + bytes {
            return;
        }
        let memory = self.buffers.take(bytes.max(2 * (self.tail + self.len)));
        let start = memory.as_ptr().align_offset(DIRECT_BLOCK).min(DIRECT_BLOCK);
        let old = std::mem::replace(&mut self.memory, memory);
        let used = old.get(self.range(0, self.tail + self.len)).unwrap_or_default();
        if let Some(place) = self.memory.get_mut(start..start + used.len()) {
            place.copy_from_slice(used);
        }
        self.buffers.give(old);
        self.start = start;
    }

    fn push(&mut self, bytes: &[u8]) -> &mut [u8] {
        let from = self.tail + self.len;
        self.reserve(from + bytes.len());
        self.len += bytes.len();
        let range = self.range(from, from + bytes.len());
        let place = self.memory.get_mut(range).unwrap_or_default();
        place.copy_from_slice(bytes);
        place
    }

    fn records(&self) -> &[u8] {
        self.memory.get(self.range(self.tail, self.tail + self.len)).unwrap_or_default()
    }

    /// The records, and zeros behind them.
    fn with_zeros(&mut self, zeros: usize) -> &[u8] {
        self.fill(self.tail + self.len + zeros);
        self.memory.get(self.range(self.tail, self.tail + self.len + zeros)).unwrap_or_default()
    }

    /// Whole blocks: what was before the records, the records, and at least so many zeros.
    fn blocks(&mut self, zeros: usize) -> &[u8] {
        let end = (self.tail + self.len + zeros).next_multiple_of(DIRECT_BLOCK);
        self.fill(end);
        self.memory.get(self.range(0, end)).unwrap_or_default()
    }

    /// Fills with zeros up to there.
    fn fill(&mut self, to: usize) {
        self.reserve(to);
        let range = self.range(self.tail + self.len, to);
        self.memory.get_mut(range).unwrap_or_default().fill(0);
    }

    /// Room for the part of a block before the records, in front of what is gathered.
    fn make_tail(&mut self, tail: usize) -> &mut [u8] {
        if tail != self.tail {
            let records = self.records().to_vec();
            (self.tail, self.len) = (tail, 0);
            self.push(&records);
        }
        self.reserve(tail);
        let range = self.range(0, tail);
        self.memory.get_mut(range).unwrap_or_default()
    }

    /// Gives the memory away and goes on in other memory, with the last bytes, which come before what is gathered next.
    fn give_memory(&mut self, tail: usize) -> Vec<u8> {
        let last = self.last(tail);
        let memory = std::mem::take(&mut self.memory);
        self.start = 0;
        self.begin_with(&last);
        memory
    }

    /// Goes on in the same memory, with the last bytes before what is gathered next.
    fn begin_behind(&mut self, tail: usize) {
        let last = self.last(tail);
        self.begin_with(&last);
    }

    fn begin_with(&mut self, last: &[u8]) {
        (self.tail, self.len) = (0, 0);
        self.push(last);
        (self.tail, self.len) = (last.len(), 0);
    }

    /// The last bytes in the file; they begin a block.
    fn last(&self, tail: usize) -> Vec<u8> {
        let used = self.range(0, self.tail + self.len);
        self.memory.get(used.end.saturating_sub(tail).max(used.start)..used.end).unwrap_or_default().to_vec()
    }
}
