//! Walks the records of a segment from an offset, reading ahead, checking every CRC and the order of LSNs.
//! Not here: finding the offset (`view`), telling damage from a torn tail (`recover`).

use std::path::PathBuf;
use std::sync::Arc;

use super::format::{self, ALIGN, BATCH_HEAD, BatchHead, Found, Seed};
use super::fresh::Fresh;
use super::gap::Stretch;
use crate::disk::DiskFile;
use crate::error::{At as _, StoreError};
use crate::record::{Lsn, RecordRef};

const AHEAD_MIN: usize = 8 << 10;
const AHEAD_MAX: usize = 1 << 20;

/// A position in a segment. `settle` moves to a record, `current` shows it, `advance` steps over it.
#[derive(Debug)]
pub(crate) struct Walker<F> {
    file: Arc<F>,
    path: PathBuf,
    seed: Seed,
    pos: u64,
    end: u64,
    buf: Vec<u8>,
    buf_at: u64,
    /// Bytes of the buffer that were read.
    filled: usize,
    ahead: usize,
    /// Size of the settled record.
    size: usize,
    expect: Option<Lsn>,
    /// The last LSN that is known to be in the segment.
    through: Lsn,
    /// Where the batch ends that was entered, as far as that is known.
    batch_end: u64,
    /// Damage that somebody has taken note of: what was there counts as gone.
    written_off: Vec<(u64, u64)>,
    /// The end of the segment, as far as it is in memory.
    fresh: Fresh,
}

impl<F: DiskFile> Walker<F> {
    /// A walk over `[pos, end)`; `pos` is the place of a batch or of a record in one.
    pub(crate) fn new(file: Arc<F>, path: PathBuf, seed: Seed, pos: u64, end: u64) -> Self {
        Self {
            file,
            path,
            seed,
            pos,
            end,
            buf: Vec::new(),
            buf_at: pos,
            filled: 0,
            ahead: AHEAD_MIN,
            size: 0,
            expect: None,
            through: Lsn::MAX,
            batch_end: 0,
            written_off: Vec::new(),
            fresh: Fresh::default(),
        }
    }

    /// Reads what is in memory from there.
    pub(crate) fn fresh(mut self, fresh: Fresh) -> Self {
        self.fresh = fresh;
        self
    }

    /// The segment is known to go on up to this LSN.
    pub(crate) fn through(mut self, lsn: Lsn) -> Self {
        self.through = lsn;
        self
    }

    /// Passes over damage at these places.
    pub(crate) fn past(mut self, written_off: Vec<(u64, u64)>) -> Self {
        self.written_off = written_off;
        self
    }

    /// Reads in large pieces from the start.
    pub(crate) fn whole(self) -> Self {
        self.reading_ahead(AHEAD_MAX)
    }

    /// Reads pieces of so many bytes at first.
    pub(crate) fn reading_ahead(mut self, bytes: usize) -> Self {
        self.ahead = bytes.clamp(AHEAD_MIN, AHEAD_MAX);
        self
    }

    /// Expects this LSN next.
    pub(crate) fn expecting(mut self, lsn: Lsn) -> Self {
        self.expect = Some(lsn);
        self
    }

    /// Moves to the next record of `network` (of any, if `None`) above `after`; `false` at the end.
    pub(crate) fn settle(&mut self, network: Option<u32>, after: Lsn) -> Result<bool, StoreError> {
        loop {
            if self.pos >= self.end {
                return self.ended(after).map(|()| false);
            }
            if let Some(head) = self.batch_here()? {
                self.check_lsn(head.first_lsn)?;
                if head.last_lsn() <= after || network.is_some_and(|n| n != head.network) {
                    self.expect = Some(head.last_lsn() + 1);
                    self.pos += head.size();
                } else {
                    self.expect = Some(head.first_lsn);
                    self.batch_end = self.pos + head.size();
                    self.pos += BATCH_HEAD as u64;
                }
                continue;
            }
            let (lsn, found) = match self.record_here() {
                Ok(found) => found,
                Err(damage @ StoreError::Damaged(_)) => {
                    self.pass(network, after, damage)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.check_lsn(lsn)?;
            self.expect = Some(lsn);
            if lsn > after && network.is_none_or(|n| n == found) {
                return Ok(true);
            }
            self.advance();
        }
    }

    /// At the end of the segment every record of it was passed, or somebody is told.
    fn ended(&self, after: Lsn) -> Result<(), StoreError> {
        let early = self.through != Lsn::MAX && self.expect.is_some_and(|lsn| lsn <= self.through);
        if !early || self.through <= after || self.written_off.iter().any(|(from, _)| *from == self.end) {
            return Ok(());
        }
        let what = format!("records end early: up to LSN {} were flushed", self.through);
        Err(StoreError::damaged(&self.path, self.end, what))
    }

    /// Steps over damage that does not concern who reads: records of another network, or such as it has already.
    fn pass(&mut self, network: Option<u32>, after: Lsn, damage: StoreError) -> Result<(), StoreError> {
        if self.expect.is_some_and(|lsn| lsn > self.through) {
            self.pos = self.end;
            return Ok(());
        }
        if let Some((_, to)) = self.written_off.iter().find(|(from, to)| (*from..*to).contains(&self.pos)) {
            (self.pos, self.expect) = ((*to).max(self.pos + ALIGN as u64), None);
            return Ok(());
        }
        let Some(expect) = self.expect.filter(|_| self.pos >= self.batch_end) else { return Err(damage) };
        let Self { file, path, seed, end, through, .. } = self;
        let stretch = Stretch { file: file.as_ref(), path, seed: *seed, end: *end, through: *through };
        let gap = stretch.gap(self.pos, expect)?;
        if gap.concerns(network) && gap.last_lsn > after {
            return Err(damage);
        }
        (self.pos, self.expect) = (gap.to, gap.last_lsn.checked_add(1));
        Ok(())
    }

    /// The settled record.
    pub(crate) fn current(&self) -> Option<RecordRef<'_>> {
        format::peek_record(self.here()).map(|(record, _)| record)
    }

    /// The settled record with another body of the same length, and where it lies.
    pub(crate) fn with_body(&self, body: &[u8]) -> Result<(u64, Vec<u8>), StoreError> {
        let mut record = self.here().get(..self.size).unwrap_or_default().to_vec();
        if !format::replace_body(&mut record, body, self.seed) {
            let size = body.len() as u64;
            return Err(StoreError::TooLarge { what: "erased body", size, limit: record.len() as u64 });
        }
        Ok((self.pos, record))
    }

    /// Steps over the settled record.
    pub(crate) fn advance(&mut self) {
        self.pos += self.size as u64;
        self.size = 0;
        self.expect = self.expect.map(|lsn| lsn + 1);
    }

    /// The batch header here, if one is; for scans that judge whole batches.
    pub(crate) fn batch_here(&mut self) -> Result<Option<BatchHead>, StoreError> {
        self.fill(BATCH_HEAD)?;
        Ok(format::batch_head(self.here(), self.seed))
    }

    /// Makes `[pos, pos + need)` readable as far as the segment goes, and gives it.
    pub(crate) fn bytes(&mut self, need: usize) -> Result<&[u8], StoreError> {
        self.fill(need)?;
        let here = self.here();
        Ok(here.get(..need).unwrap_or(here))
    }

    /// Moves on without looking.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.pos += bytes;
    }

    fn record_here(&mut self) -> Result<(Lsn, u32), StoreError> {
        let mut need = format::RECORD_HEAD;
        loop {
            self.fill(need)?;
            let at = self.pos;
            let (short, found) = match format::record(self.here(), self.seed) {
                Found::Record(record, size) => (None, Some((record.lsn, record.network, size))),
                Found::Short(size) => (Some(size), None),
                Found::Bad => (None, None),
            };
            match (found, short) {
                (Some((lsn, network, size)), _) => {
                    self.size = size;
                    return Ok((lsn, network));
                }
                (None, Some(size)) if size > need && at + size as u64 <= self.end => need = size,
                _ => return Err(StoreError::damaged(&self.path, at, "record has a bad checksum or is cut short")),
            }
        }
    }

    fn check_lsn(&self, found: Lsn) -> Result<(), StoreError> {
        match self.expect {
            Some(expect) if expect != found => {
                Err(StoreError::damaged(&self.path, self.pos, format!("found LSN {found} where {expect} was expected")))
            }
            _ => Ok(()),
        }
    }

    fn here(&self) -> &[u8] {
        let skip = usize::try_from(self.pos.saturating_sub(self.buf_at)).unwrap_or(usize::MAX);
        self.buf.get(skip..self.filled).unwrap_or_default()
    }

    fn fill(&mut self, need: usize) -> Result<(), StoreError> {
        if self.here().len() >= need && self.pos >= self.buf_at {
            return Ok(());
        }
        let left = usize::try_from(self.end.saturating_sub(self.pos)).unwrap_or(usize::MAX);
        let want = need.max(self.ahead).min(left).next_multiple_of(ALIGN);
        self.ahead = (self.ahead * 2).min(AHEAD_MAX);
        if self.buf.len() < want {
            self.buf.resize(want, 0);
        }
        (self.buf_at, self.filled) = (self.pos, 0);
        let place = self.buf.get_mut(..want).unwrap_or_default();
        let got = match self.fresh.read_at(place, self.pos) {
            0 => self.file.read_at(place, self.pos).at("read", &self.path)?,
            got => got,
        };
        self.filled = got.min(left);
        Ok(())
    }
}
