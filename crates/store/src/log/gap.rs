//! A stretch of a segment that cannot be read: how far it goes, which LSNs are lost with it, and whose they were.
//!
//! A batch belongs to one network. Where its header is whole, the damage is that network's and nobody else's; where the header is
//! what is damaged, the records behind it tell, if they are whole up to the next batch. Otherwise nobody can tell.
//! Not here: whether a bad place is damage or an unfinished write (`recover`), who is told (`walk`, `view`).

use std::path::Path;

use super::format::{self, ALIGN, BATCH_HEAD, BATCH_MAGIC, BatchHead, Found, Seed, u32_at};
use super::recover::check_batch;
use crate::disk::DiskFile;
use crate::error::{At as _, Damage, StoreError};
use crate::record::{BATCH_BYTES_MAX, Lsn};

const SEARCH_PIECE: usize = 1 << 20;

/// A stretch that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: u64,
    /// Where reading goes on.
    pub(crate) to: u64,
    pub(crate) first_lsn: Lsn,
    pub(crate) last_lsn: Lsn,
    /// Whose records are lost; `None` if nobody can tell.
    pub(crate) network: Option<u32>,
    /// The first bad place in it.
    pub(crate) offset: u64,
    pub(crate) what: &'static str,
}

impl Gap {
    /// Whether records of this network (of any, if `None`) may be in it.
    pub(crate) fn concerns(&self, network: Option<u32>) -> bool {
        match (self.network, network) {
            (Some(lost), Some(asked)) => lost == asked,
            _ => true,
        }
    }

    pub(crate) fn damage(&self, path: &Path) -> Damage {
        Damage { file: path.to_path_buf(), offset: self.offset, what: self.what.to_owned(), kept: None }
    }
}

/// Where to look for a gap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch<'a, F> {
    pub(crate) file: &'a F,
    pub(crate) path: &'a Path,
    pub(crate) seed: Seed,
    /// Where the records of the segment end.
    pub(crate) end: u64,
    /// The last LSN that is known to have been in the segment.
    pub(crate) through: Lsn,
}

impl<F: DiskFile> Stretch<'_, F> {
    /// Measures the gap that begins with the bad batch at `from`, whose first record should have the LSN `expect`.
    pub(crate) fn gap(&self, from: u64, expect: Lsn) -> Result<Gap, StoreError> {
        let through = self.through.max(expect);
        let mut gap = Gap {
            from,
            to: self.end,
            first_lsn: expect,
            last_lsn: through,
            network: None,
            offset: from,
            what: "no valid batch header",
        };
        if let Some(head) = self.head(from)?.filter(|head| head.first_lsn == expect) {
            let bytes = self.bytes(from, usize::try_from(head.size()).unwrap_or(BATCH_BYTES_MAX))?;
            if let Err((offset, what)) = check_batch(&bytes, &head, self.seed) {
                (gap.offset, gap.what) = (from + offset as u64, what);
            }
            if from + head.size() <= self.end {
                let (to, last_lsn, network) = (from + head.size(), head.last_lsn(), Some(head.network));
                return Ok(Gap { to, last_lsn, network, ..gap });
            }
            // The file was cut: what else was behind is not known, unless nothing was.
            gap.network = (head.last_lsn() >= through).then_some(head.network);
            gap.last_lsn = through.max(head.last_lsn());
            return Ok(gap);
        }
        let chain = self.chain(from + BATCH_HEAD as u64, expect)?;
        let search_from = chain.as_ref().map_or(from + ALIGN as u64, |chain| chain.end);
        match self.next_head(search_from, expect)? {
            Some((to, head)) => {
                let whole = chain.filter(|chain| chain.end == to && chain.next == head.first_lsn);
                Ok(Gap { to, last_lsn: head.first_lsn - 1, network: whole.map(|chain| chain.network), ..gap })
            }
            None => match chain.filter(|chain| chain.next > through) {
                Some(chain) => Ok(Gap { to: chain.end, last_lsn: chain.next - 1, network: Some(chain.network), ..gap }),
                None => Ok(gap),
            },
        }
    }

    fn head(&self, at: u64) -> Result<Option<BatchHead>, StoreError> {
        Ok(format::batch_head(&self.bytes(at, BATCH_HEAD)?, self.seed))
    }

    fn bytes(&self, at: u64, len: usize) -> Result<Vec<u8>, StoreError> {
        let left = usize::try_from(self.end.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(left)];
        let got = self.file.read_at(&mut bytes, at).at("read", self.path)?;
        bytes.truncate(got);
        Ok(bytes)
    }

    /// Whole records of one network, one behind the other from `at` on.
    fn chain(&self, at: u64, expect: Lsn) -> Result<Option<Chain>, StoreError> {
        let bytes = self.bytes(at, BATCH_BYTES_MAX)?;
        let mut found: Option<Chain> = None;
        let mut offset = 0;
        while let Some(rest) = bytes.get(offset..) {
            let Found::Record(record, size) = format::record(rest, self.seed) else { break };
            let next = found.as_ref().map_or(expect, |chain| chain.next);
            if record.lsn != next || found.as_ref().is_some_and(|chain| chain.network != record.network) {
                break;
            }
            offset += size;
            found = Some(Chain { network: record.network, next: next + 1, end: at + offset as u64 });
        }
        Ok(found)
    }

    /// The next valid batch header from `at` on whose records come behind `expect`, and where it is.
    fn next_head(&self, at: u64, expect: Lsn) -> Result<Option<(u64, BatchHead)>, StoreError> {
        let mut at = at;
        while at < self.end {
            // Pieces overlap by a header, so that none is missed on a border.
            let piece = self.bytes(at, SEARCH_PIECE + BATCH_HEAD)?;
            if piece.is_empty() {
                break;
            }
            for (n, word) in piece.chunks_exact(ALIGN).enumerate() {
                if u32_at(word, 0) != BATCH_MAGIC {
                    continue;
                }
                let found = format::batch_head(piece.get(n * ALIGN..).unwrap_or_default(), self.seed);
                if let Some(head) = found.filter(|head| head.first_lsn > expect) {
                    return Ok(Some((at + (n * ALIGN) as u64, head)));
                }
            }
            at += SEARCH_PIECE as u64;
        }
        Ok(None)
    }
}

struct Chain {
    network: u32,
    /// LSN of the record that would follow.
    next: Lsn,
    end: u64,
}
