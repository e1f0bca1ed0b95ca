//! What readers see of a log: its sealed segments and the flushed part of the open one. Shared by all threads; the writer publishes
//! here after each flush, so what is not flushed cannot be read.
//! Not here: writing (`Log`), upkeep of files (`upkeep`).

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::control::Control;
use super::format::{BATCH_HEAD, SEGMENT_HEAD, Seed, SegmentHead, u32_at};
use super::fresh::{Fresh, FreshGroup};
use super::gap::Gap;
use super::index::{MemIndex, NetworkSpan};
use super::recover::index_batch;
use super::segment::{Segment, segment_path};
use super::sidecar::Probe;
use super::walk::Walker;
use super::writeoff::WrittenOff;
use crate::budget::Budget;
use crate::class::Class;
use crate::disk::Disk;
use crate::error::{Damage, StoreError};
use crate::record::{EVENT_KIND, Lsn, RecordRef};

/// Records a reader walks over before it asks the index again.
const WALK_LIMIT: u32 = 64;
/// Bytes that are read ahead for each event that is wanted, within bounds.
const AHEAD_PER_EVENT: usize = 512;

/// A log as readers see it.
#[derive(Debug)]
pub(crate) struct LogView<D: Disk> {
    pub(crate) disk: D,
    pub(crate) dir: PathBuf,
    pub(crate) class: Class,
    pub(crate) budget: Arc<Budget>,
    inner: RwLock<Inner<D>>,
    /// Held by whoever writes sidecars, spares or the control file, overwrites records, or frees segments.
    pub(crate) upkeep: Mutex<()>,
    /// Records were overwritten in place since the writer last looked; held while that is done, and while blocks are written.
    pub(crate) overwritten: Mutex<bool>,
    /// Segments are to be written past the page cache where that can be done.
    pub(crate) direct: bool,
    /// Whether the open one is.
    pub(crate) writes_directly: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct Inner<D: Disk> {
    /// Oldest first.
    pub(crate) sealed: Arc<Vec<Arc<Segment<D>>>>,
    pub(crate) open: OpenSegment<D>,
    /// The end of the log in memory.
    pub(crate) fresh: Fresh,
    pub(crate) spares: Vec<Spare>,
    pub(crate) spare_wanted: Option<u64>,
    pub(crate) spares_made: u64,
    /// What the control file says.
    pub(crate) control: Control,
    /// Damage that counts as gone.
    pub(crate) written_off: Vec<WrittenOff>,
}

/// The open segment, as far as it may be read.
#[derive(Debug)]
pub(crate) struct OpenSegment<D: Disk> {
    pub(crate) head: SegmentHead,
    pub(crate) file: Arc<D::File>,
    pub(crate) index: MemIndex,
    /// Damage that was found when it was opened: a segment with any takes no more records.
    pub(crate) gaps: Vec<Gap>,
    pub(crate) end: u64,
    pub(crate) last_lsn: Lsn,
    pub(crate) durable: Lsn,
    pub(crate) capacity: u64,
}

impl<D: Disk> OpenSegment<D> {
    fn take(&mut self, written: &[u8], base: u64, last_lsn: Lsn, durable: Lsn) {
        let mut at = 0;
        while let Some(bytes) = written.get(at..).filter(|bytes| bytes.len() >= BATCH_HEAD) {
            let size = BATCH_HEAD + u32_at(bytes, 12) as usize;
            index_batch(&mut self.index, bytes.get(..size).unwrap_or_default(), base + at as u64);
            at += size;
        }
        self.end = base + written.len() as u64;
        self.last_lsn = last_lsn;
        self.durable = durable;
    }
}

/// A file ready to become a segment.
#[derive(Debug, Clone)]
pub(crate) struct Spare {
    pub(crate) path: PathBuf,
    pub(crate) capacity: u64,
    /// Up to here the file was written before, as far as is known.
    pub(crate) written: u64,
}

impl<D: Disk> LogView<D> {
    pub(crate) fn new(disk: D, dir: PathBuf, class: Class, budget: Arc<Budget>, inner: Inner<D>, direct: bool) -> Self {
        Self {
            disk,
            dir,
            class,
            budget,
            inner: RwLock::new(inner),
            upkeep: Mutex::new(()),
            overwritten: Mutex::new(false),
            direct,
            writes_directly: AtomicBool::new(false),
        }
    }

    pub(crate) fn read_inner(&self) -> RwLockReadGuard<'_, Inner<D>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write_inner(&self) -> RwLockWriteGuard<'_, Inner<D>> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets readers see written batches that lie at `base` of the open segment.
    pub(crate) fn publish(&self, written: &[u8], base: u64, last_lsn: Lsn, durable: Lsn) {
        self.write_inner().open.take(written, base, last_lsn, durable);
    }

    /// The same, and keeps the memory they are in at hand. Gives memory that is no longer needed.
    pub(crate) fn publish_fresh(&self, piece: FreshGroup, last_lsn: Lsn, durable: Lsn) -> Vec<Vec<u8>> {
        let mut inner = self.write_inner();
        inner.open.take(piece.records(), piece.at, last_lsn, durable);
        inner.fresh.push(piece)
    }

    /// Every network with records here.
    pub(crate) fn networks(&self) -> Result<Vec<u32>, StoreError> {
        let (sealed, mut networks) = {
            let inner = self.read_inner();
            (Arc::clone(&inner.sealed), inner.open.index.spans().map(|(network, _)| network).collect::<Vec<_>>())
        };
        for segment in sealed.iter() {
            networks.extend(segment.spans()?.iter().map(|(network, _)| *network));
        }
        networks.sort_unstable();
        networks.dedup();
        Ok(networks)
    }

    /// First and last event seq of a network that may be read.
    pub(crate) fn bounds(&self, network: u32) -> Result<Option<(u64, u64)>, StoreError> {
        let (sealed, open) = {
            let inner = self.read_inner();
            (Arc::clone(&inner.sealed), inner.open.index.span(network))
        };
        let with_events = |span: Option<NetworkSpan>| span.filter(|span| span.events > 0);
        let mut first = None;
        for segment in sealed.iter() {
            first = with_events(segment.span(network)?);
            if first.is_some() {
                break;
            }
        }
        let open = with_events(open);
        let Some(first) = first.or(open) else { return Ok(None) };
        let mut last = open;
        for segment in sealed.iter().rev() {
            if last.is_some() {
                break;
            }
            last = with_events(segment.span(network)?);
        }
        Ok(Some((first.first_seq, last.map_or(first.last_seq, |last| last.last_seq))))
    }

    /// Shows the events with these seqs (rising) to `visit`, as far as they are here.
    pub(crate) fn read(
        &self,
        network: u32,
        seqs: &mut dyn Iterator<Item = u64>,
        visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let cuts = self.cuts();
        let mut spot: Option<Spot<D>> = None;
        while let Some(seq) = seqs.next() {
            let mut reached = match &mut spot {
                Some(spot) => spot.seek(network, seq, WALK_LIMIT, &cuts)?,
                None => Seek::Far,
            };
            if matches!(reached, Seek::Far) {
                // Whoever wants many events gets them in large pieces.
                let ahead = (seqs.size_hint().0 + 1) * AHEAD_PER_EVENT;
                spot = self.locate(network, seq)?.map(|spot| spot.reading_ahead(ahead));
                reached = match &mut spot {
                    Some(spot) => spot.seek(network, seq, u32::MAX, &cuts)?,
                    None => Seek::Absent,
                };
            }
            if matches!(reached, Seek::Found)
                && let Some(record) = spot.as_ref().and_then(|spot| spot.walker.current())
                && visit(record).is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Damage that is known to be in this log and may have taken records of this network, other than what counts as gone. What is
    /// absent then may be lost.
    pub(crate) fn known_loss(&self, network: u32) -> Option<Damage> {
        let inner = self.read_inner();
        let loss = |number: u64, gaps: &[Gap]| {
            let fresh = |gap: &&Gap| !inner.written_off.iter().any(|known| known.covers(number, gap));
            let gap = gaps.iter().filter(fresh).find(|gap| gap.concerns(Some(network)));
            gap.map(|gap| gap.damage(&segment_path(&self.dir, number)))
        };
        let sealed = || inner.sealed.iter().find_map(|segment| loss(segment.head.number, segment.gaps()));
        loss(inner.open.head.number, &inner.open.gaps).or_else(sealed)
    }

    /// What counts as gone of networks.
    fn cuts(&self) -> Vec<WrittenOff> {
        self.read_inner().written_off.iter().filter(|gone| gone.is_cut()).cloned().collect()
    }

    /// Places in a segment that count as gone.
    fn written_off(inner: &Inner<D>, number: u64) -> Vec<(u64, u64)> {
        inner.written_off.iter().filter(|gone| gone.segment == number).map(|gone| (gone.from, gone.to)).collect()
    }

    /// Overwrites the body of an event; `false` if it is not here.
    pub(crate) fn erase(&self, network: u32, seq: u64, body: &[u8]) -> Result<bool, StoreError> {
        // A file that is freed may become another segment.
        let _upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut spot) = self.locate(network, seq)? else { return Ok(false) };
        if !matches!(spot.seek(network, seq, u32::MAX, &self.cuts())?, Seek::Found) {
            return Ok(false);
        }
        self.overwrite(&spot.head, &[spot.walker.with_body(body)?])?;
        Ok(true)
    }

    /// A walk that begins at or shortly before an event.
    fn locate(&self, network: u32, seq: u64) -> Result<Option<Spot<D>>, StoreError> {
        let sealed = {
            let inner = self.read_inner();
            let open = &inner.open;
            if open.index.span(network).is_some_and(|span| span.has(seq)) {
                let Some(offset) = open.index.place(network, seq) else { return Ok(None) };
                let path = segment_path(&self.dir, open.head.number);
                let seed = Seed::of(open.head.generation);
                let walker = Walker::new(Arc::clone(&open.file), path, seed, u64::from(offset), open.end);
                let gone = Self::written_off(&inner, open.head.number);
                let walker = walker
                    .through(open.last_lsn)
                    .past(gone)
                    .fresh(inner.fresh.from(open.head.number, u64::from(offset)));
                return Ok(Some(Spot { walker, head: open.head, segment: None }));
            }
            Arc::clone(&inner.sealed)
        };
        for segment in sealed.iter().rev() {
            if !segment.span(network)?.is_some_and(|span| span.has(seq)) {
                continue;
            }
            let Some(offset) = segment.place(network, seq)? else { return Ok(None) };
            let seed = Seed::of(segment.head.generation);
            let walker = Walker::new(segment.file()?, segment.path(), seed, u64::from(offset), segment.end);
            let (gone, fresh) = {
                let (inner, number) = (self.read_inner(), segment.head.number);
                (Self::written_off(&inner, number), inner.fresh.from(number, u64::from(offset)))
            };
            let walker = walker.through(segment.last_lsn).past(gone).fresh(fresh);
            return Ok(Some(Spot { walker, head: segment.head, segment: Some(Arc::clone(segment)) }));
        }
        Ok(None)
    }

    /// Shows every record above `after` to `visit`, of one network or of all. Returns the last LSN that was there to see. Who wants all
    /// of them is not shown what counts as gone; who rebuilds one network is told of it.
    pub(crate) fn replay(
        &self,
        network: Option<u32>,
        after: Lsn,
        visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>,
    ) -> Result<Lsn, StoreError> {
        let cuts = if network.is_none() { self.cuts() } else { Vec::new() };
        let visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()> = &mut |record: RecordRef<'_>| {
            if cuts.iter().any(|cut| cut.has_cut(record.network, record.lsn)) {
                return ControlFlow::Continue(());
            }
            visit(record)
        };
        let gone = |inner: &Inner<D>, number| match network {
            None => Self::written_off(inner, number),
            Some(_) => Vec::new(),
        };
        let (sealed, open, last) = {
            let inner = self.read_inner();
            let open = &inner.open;
            let path = segment_path(&self.dir, open.head.number);
            let seed = Seed::of(open.head.generation);
            let lost = open.gaps.iter().any(|gap| gap.concerns(network) && gap.last_lsn > after);
            let has = network.is_none_or(|n| lost || open.index.span(n).is_some_and(|span| span.last_lsn > after));
            let walker = Walker::new(Arc::clone(&open.file), path, seed, SEGMENT_HEAD as u64, open.end);
            let walker = walker.whole().expecting(open.head.first_lsn).through(open.last_lsn);
            let walker = walker.past(gone(&inner, open.head.number)).fresh(inner.fresh.of(open.head.number));
            (Arc::clone(&inner.sealed), has.then_some(walker), open.last_lsn)
        };
        if let Some(network) = network {
            refuse_freed(&sealed, network, after)?;
        }
        for segment in sealed.iter().filter(|segment| segment.last_lsn > after && !segment.head.emptied) {
            if let Some(damage) = segment.is_lost() {
                if !gone(&self.read_inner(), segment.head.number).is_empty() {
                    continue;
                }
                return Err(StoreError::Damaged(Box::new(damage.clone())));
            }
            let (unknown, mut needed) = (segment.lost_to_anybody(after)?, true);
            if let Some(network) = network {
                needed = segment.span(network)?.is_some_and(|span| span.last_lsn > after);
            }
            if !needed {
                match unknown {
                    Some(damage) => return Err(StoreError::Damaged(Box::new(damage))),
                    None => continue,
                }
            }
            let seed = Seed::of(segment.head.generation);
            let walker = Walker::new(segment.file()?, segment.path(), seed, SEGMENT_HEAD as u64, segment.end);
            let walker = walker.whole().expecting(segment.head.first_lsn).through(segment.last_lsn);
            let mut walker = walker.past(gone(&self.read_inner(), segment.head.number));
            match show(&mut walker, network, after, visit) {
                Ok(ControlFlow::Break(())) => return Ok(last),
                Ok(ControlFlow::Continue(())) => {}
                Err(_) if segment.is_retired() => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(mut walker) = open {
            let _ = show(&mut walker, network, after, visit)?;
        }
        Ok(last)
    }

    /// Seqs of events with this key, newest first.
    pub(crate) fn find(&self, network: u32, key: u64) -> Result<Vec<u64>, StoreError> {
        let mut found = Vec::new();
        let sealed = {
            let inner = self.read_inner();
            inner.open.index.find(network, key, &mut found);
            Arc::clone(&inner.sealed)
        };
        let probe = Probe::of(key);
        for segment in sealed.iter() {
            segment.find(network, key, probe, &mut found)?;
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.dedup();
        Ok(found)
    }
}

/// Refuses to replay a network from before records of it that were freed: what is left is not all there was.
fn refuse_freed<D: Disk>(sealed: &[Arc<Segment<D>>], network: u32, after: Lsn) -> Result<(), StoreError> {
    for segment in sealed.iter().filter(|segment| segment.head.emptied && segment.last_lsn > after) {
        if let Some(span) = segment.span(network)?.filter(|span| span.last_lsn > after) {
            let what = format!("records of network {network} up to LSN {} were freed", span.last_lsn);
            return Err(StoreError::damaged(&segment.path(), 0, what));
        }
    }
    Ok(())
}

fn show<F: crate::disk::DiskFile>(
    walker: &mut Walker<F>,
    network: Option<u32>,
    after: Lsn,
    visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, StoreError> {
    while walker.settle(network, after)? {
        if let Some(record) = walker.current()
            && visit(record).is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        walker.advance();
    }
    Ok(ControlFlow::Continue(()))
}

/// A walk and the segment it is in.
struct Spot<D: Disk> {
    walker: Walker<D::File>,
    head: SegmentHead,
    segment: Option<Arc<Segment<D>>>,
}

enum Seek {
    Found,
    Absent,
    /// Not within the limit or not in this segment: ask the index.
    Far,
}

impl<D: Disk> Spot<D> {
    /// The same, reading pieces of so many bytes at first.
    fn reading_ahead(self, bytes: usize) -> Self {
        Spot { walker: self.walker.reading_ahead(bytes), ..self }
    }

    /// Walks forward to an event.
    fn seek(&mut self, network: u32, seq: u64, limit: u32, cuts: &[WrittenOff]) -> Result<Seek, StoreError> {
        let mut left = limit;
        loop {
            match self.walker.settle(Some(network), 0) {
                Ok(true) => {}
                Ok(false) => return Ok(Seek::Far),
                Err(_) if self.segment.as_ref().is_some_and(|segment| segment.is_retired()) => return Ok(Seek::Absent),
                Err(error) => return Err(error),
            }
            let Some(record) = self.walker.current() else { return Ok(Seek::Absent) };
            let cut = cuts.iter().any(|cut| cut.has_cut(network, record.lsn));
            if record.kind == EVENT_KIND && record.seq >= seq && !cut {
                return Ok(if record.seq == seq { Seek::Found } else { Seek::Absent });
            }
            let Some(fewer) = left.checked_sub(1) else { return Ok(Seek::Far) };
            left = fewer;
            self.walker.advance();
        }
    }
}
