//! Scans a segment batch by batch and judges where its records end.
//!
//! A batch that is not whole is *damage* when the log is known to have been durable beyond it: by the control file, by a later
//! segment, or by a later batch of the same generation whose header says so. Otherwise it was never flushed: a torn tail, cut as a
//! whole. (A later valid batch alone proves nothing: sectors of one unflushed write reach the disk in any order.)
//! Not here: repair of what is found (`Log::open`), sealed segments in normal reading (`walk`).

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use super::format::{self, ALIGN, BATCH_HEAD, BATCH_MAGIC, BatchHead, Found, SEGMENT_HEAD, Seed, SegmentHead, u32_at};
use super::gap::{Gap, Stretch};
use super::index::MemIndex;
use super::walk::Walker;
use crate::disk::DiskFile;
use crate::error::{At as _, StoreError};
use crate::record::Lsn;

const SEARCH_PIECE: usize = 1 << 20;
/// A record with an LSN further away than this from the last whole one is none of a tail that was cut.
const NEAR: u64 = 1 << 24;

/// What a scan found.
#[derive(Debug)]
pub(crate) struct RecoveryScan {
    /// Where the last whole batch ends.
    pub(crate) end: u64,
    pub(crate) last_lsn: Lsn,
    pub(crate) index: MemIndex,
    /// Highest epoch per network.
    pub(crate) epochs: BTreeMap<u32, u64>,
    pub(crate) records: u64,
    /// Where the first batch begins that no later one calls durable; `end` if there is none.
    pub(crate) unproved: u64,
    /// Where and why the scan stopped before `limit`, if it did.
    pub(crate) stopped: Option<(u64, &'static str)>,
    /// What it went over.
    pub(crate) gaps: Vec<Gap>,
}

/// Scans whole batches from the start of a segment up to `limit`, and stops at the first bad one.
pub(crate) fn scan<F: DiskFile>(
    file: &Arc<F>,
    path: &Path,
    head: &SegmentHead,
    limit: u64,
) -> Result<RecoveryScan, StoreError> {
    scan_over(file, path, head, limit, 0)
}

/// Scans a segment that is known to hold every record up to `through`: what is bad there is a gap, and the scan goes on behind it.
pub(crate) fn scan_over<F: DiskFile>(
    file: &Arc<F>,
    path: &Path,
    head: &SegmentHead,
    limit: u64,
    through: Lsn,
) -> Result<RecoveryScan, StoreError> {
    let seed = Seed::of(head.generation);
    let start = SEGMENT_HEAD as u64;
    let mut walker = Walker::new(Arc::clone(file), path.to_path_buf(), seed, start, limit).whole();
    let mut out = RecoveryScan {
        end: start,
        last_lsn: head.first_lsn.saturating_sub(1),
        index: MemIndex::default(),
        epochs: BTreeMap::new(),
        records: 0,
        unproved: start,
        stopped: None,
        gaps: Vec::new(),
    };
    let stretch = Stretch { file: file.as_ref(), path, seed, end: limit, through };
    let mut unproved: VecDeque<(Lsn, u64)> = VecDeque::new();
    while out.end < limit {
        let (batch, bytes) = match batch_at(&mut walker, out.last_lsn + 1, seed)? {
            Ok(found) => found,
            Err((offset, what)) if out.last_lsn >= through => {
                out.stopped = Some((out.end + offset as u64, what));
                break;
            }
            Err(_) => {
                let gap = stretch.gap(out.end, out.last_lsn + 1)?;
                if let Some(network) = gap.network {
                    out.index.lose(network, gap.first_lsn, gap.last_lsn);
                }
                walker.skip(gap.to - out.end);
                (out.end, out.last_lsn) = (gap.to, gap.last_lsn);
                out.gaps.push(gap);
                continue;
            }
        };
        index_batch(&mut out.index, bytes, out.end);
        let epoch = out.epochs.entry(batch.network).or_default();
        *epoch = batch.epoch.max(*epoch);
        out.records += u64::from(batch.count);
        while unproved.front().is_some_and(|(lsn, _)| *lsn <= batch.durable) {
            unproved.pop_front();
        }
        unproved.push_back((batch.last_lsn(), out.end));
        out.last_lsn = batch.last_lsn();
        out.end += batch.size();
        walker.skip(batch.size());
    }
    if out.last_lsn < through && out.stopped.is_none() {
        // The file ends before its records do.
        out.gaps.push(stretch.gap(out.end, out.last_lsn + 1)?);
        out.last_lsn = through;
    }
    out.unproved = unproved.front().map_or(out.end, |(_, at)| *at);
    Ok(out)
}

/// The whole batch here, which begins with this LSN; else the offset and the reason.
#[expect(clippy::type_complexity, reason = "a batch and its bytes, or a place and a reason")]
fn batch_at<F: DiskFile>(
    walker: &mut Walker<F>,
    expect: Lsn,
    seed: Seed,
) -> Result<Result<(BatchHead, &[u8]), (usize, &'static str)>, StoreError> {
    let Some(batch) = walker.batch_here()? else { return Ok(Err((0, "no valid batch header"))) };
    if batch.first_lsn != expect && !crate::bugs::on("stale record of a recycled segment") {
        return Ok(Err((0, "batch is out of order")));
    }
    let bytes = walker.bytes(usize::try_from(batch.size()).unwrap_or(usize::MAX))?;
    Ok(check_batch(bytes, &batch, seed).map(|()| (batch, bytes)))
}

/// Whether every record of a batch is there and valid; else the offset in the batch and the reason.
pub(crate) fn check_batch(bytes: &[u8], batch: &BatchHead, seed: Seed) -> Result<(), (usize, &'static str)> {
    if (bytes.len() as u64) < batch.size() {
        return Err((bytes.len(), "batch is cut short"));
    }
    let mut at = BATCH_HEAD;
    let mut lsn = batch.first_lsn;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match format::record(rest, seed) {
            Found::Record(record, size) if record.lsn == lsn && record.network == batch.network => {
                at += size;
                lsn += 1;
            }
            Found::Record(..) => return Err((at, "record is out of order")),
            Found::Short(_) | Found::Bad => return Err((at, "record has a bad checksum or is cut short")),
        }
    }
    if lsn == batch.last_lsn() + 1 { Ok(()) } else { Err((0, "batch has the wrong number of records")) }
}

/// Takes the records of a valid batch at `offset` of its segment into an index.
pub(crate) fn index_batch(index: &mut MemIndex, bytes: &[u8], offset: u64) {
    let mut at = BATCH_HEAD;
    while let Some((record, size)) = bytes.get(at..).and_then(format::peek_record) {
        index.add(&record, u32::try_from(offset + at as u64).unwrap_or(u32::MAX));
        at += size;
    }
}

/// What lies behind the end of the whole batches.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// Highest LSN that a valid batch header there calls durable.
    pub(crate) durable: Lsn,
    /// Whether a valid batch header or record of this generation is there.
    pub(crate) written: bool,
    /// Whether any byte there is not zero.
    pub(crate) dirty: bool,
}

/// Searches `[from, limit)` for batch headers and records of this generation that come after `last_lsn`.
pub(crate) fn look_behind<F: DiskFile>(
    file: &F,
    path: &Path,
    head: &SegmentHead,
    from: u64,
    limit: u64,
    last_lsn: Lsn,
) -> Result<Behind, StoreError> {
    let seed = Seed::of(head.generation);
    let mut found = Behind::default();
    let mut at = from;
    let mut buf = vec![0; SEARCH_PIECE + BATCH_HEAD];
    while at < limit {
        let want = usize::try_from(limit - at).unwrap_or(usize::MAX).min(buf.len());
        let Some(piece) = buf.get_mut(..want) else { break };
        let got = file.read_at(piece, at).at("read", path)?;
        let piece = piece.get(..got).unwrap_or_default();
        if got == 0 {
            break;
        }
        for (n, word) in piece.chunks_exact(ALIGN).enumerate() {
            if word != [0; ALIGN] {
                found.dirty = true;
            }
            let rest = piece.get(n * ALIGN..).unwrap_or_default();
            if u32_at(word, 0) == BATCH_MAGIC
                && let Some(batch) = format::batch_head(rest, seed).filter(|batch| batch.first_lsn > last_lsn)
            {
                found.written = true;
                found.durable = found.durable.max(batch.durable);
            }
            // Its header may be what is damaged.
            found.written = found.written || is_record(file, path, rest, at + (n * ALIGN) as u64, seed, last_lsn)?;
        }
        // Pieces overlap by a header, so that none is missed on a border.
        at += SEARCH_PIECE as u64;
    }
    Ok(found)
}

/// Whether a valid record that comes shortly after `last_lsn` begins with `bytes`, which lie at `offset` of the file.
fn is_record<F: DiskFile>(
    file: &F,
    path: &Path,
    bytes: &[u8],
    offset: u64,
    seed: Seed,
    last_lsn: Lsn,
) -> Result<bool, StoreError> {
    let near = format::peek_head(bytes).is_some_and(|lsn| lsn > last_lsn && lsn - last_lsn <= NEAR);
    if !near {
        return Ok(false);
    }
    Ok(match format::record(bytes, seed) {
        Found::Record(..) => true,
        Found::Bad => false,
        Found::Short(size) => {
            let mut whole = vec![0; size];
            let got = file.read_at(&mut whole, offset).at("read", path)?;
            matches!(format::record(whole.get(..got).unwrap_or_default(), seed), Found::Record(..))
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::class::Class;
    use crate::disk::Disk as _;
    use crate::disk::fault::FaultDisk;

    proptest! {
        #[test]
        fn scanning_arbitrary_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..4096), fix: bool) {
            let head = SegmentHead { generation: 3, number: 1, first_lsn: 1, previous: 0, previous_end: 0, class: Class::STD, emptied: false };
            let path = Path::new("/1.seg");
            let file = FaultDisk::new(1).create(path).unwrap();
            file.write_at(&head.encode(), 0).unwrap();
            file.write_at(&bytes, SEGMENT_HEAD as u64).unwrap();
            if fix {
                // A valid header in front of garbage.
                let mut batch = crate::record::Batch::new(1);
                batch.push(1, 0, 1, 0, &bytes[..bytes.len().min(100)]).unwrap();
                let stamp = format::Stamp { first_lsn: 1, durable: 0, epoch: 0, seed: Seed::of(3) };
                format::seal(&mut batch.buf, 1, 1, stamp);
                file.write_at(&batch.buf[..BATCH_HEAD], SEGMENT_HEAD as u64).unwrap();
            }
            let limit = file.len().unwrap();
            let found = scan(&Arc::new(file.clone()), path, &head, limit).unwrap();
            prop_assert_eq!(found.records, 0);
            look_behind(&file, path, &head, found.end, limit, 0).unwrap();
        }
    }
}
