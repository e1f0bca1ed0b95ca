//! The log of one class: a synchronous value that appends groups of batches with one write and at most one flush each.
//! A thread (or a simulator) drives it; readers use its [`view::LogView`].
//! Not here: queues and threads (`local`), what a record means.

mod buffers;
pub(crate) mod control;
pub(crate) mod format;
mod fresh;
pub(crate) mod gap;
pub(crate) mod index;
mod open;
mod overwrite;
mod recover;
mod segment;
mod sidecar;
pub(crate) mod upkeep;
pub(crate) mod verify;
pub(crate) mod view;
mod walk;
pub(crate) mod writeoff;
mod writer;

#[cfg(test)]
#[path = "."]
#[allow(clippy::duplicate_mod, reason = "every test runs over both ways of writing")]
mod through_the_page_cache {
    const DIRECT: bool = false;
    #[path = "crash_tests.rs"]
    mod crash_tests;
    #[path = "tests.rs"]
    mod tests;
}
#[cfg(test)]
#[path = "."]
#[allow(clippy::duplicate_mod, reason = "every test runs over both ways of writing")]
mod past_the_page_cache {
    const DIRECT: bool = true;
    #[path = "crash_tests.rs"]
    mod crash_tests;
    #[path = "tests.rs"]
    mod tests;
}

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use self::control::Control;
use self::format::{BATCH_HEAD, SEGMENT_HEAD, Seed, SegmentHead, Stamp};
use self::index::MemIndex;
use self::segment::{Segment, segment_path};
use self::view::{LogView, OpenSegment, Spare};
use self::writer::{WritePosition, Writer};
use crate::disk::{Disk, DiskFile as _};
use crate::error::{At as _, StoreError};
use crate::record::{BATCH_BYTES_MAX, Batch, Lsn};
use crate::store::{Committed, Flush};

pub(crate) use self::open::OpenedLog;

/// A log with less room than this takes no batches again after a refusal.
const ROOM_MIN: u64 = 64 << 10;
/// So much of its end a log that rests keeps in memory.
const FRESH_AT_REST: usize = 1 << 20;

/// Sizes and limits of a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogOptions {
    pub(crate) first_segment: u64,
    pub(crate) max_segment: u64,
    pub(crate) free_floor: u64,
    /// Source of generations; any value, another each time a data directory is opened.
    pub(crate) seed: u64,
    /// Records up to this LSN are known to have been flushed, by something outside of the log.
    pub(crate) durable: Lsn,
    /// Segments are written past the page cache where the file system lets that be done.
    pub(crate) direct: bool,
}

/// One batch waiting to be written, and what became of it.
#[derive(Debug)]
pub(crate) struct WaitingBatch {
    pub(crate) batch: Batch,
    pub(crate) epoch: u64,
    pub(crate) flush: Flush,
    pub(crate) outcome: Option<Result<(Lsn, Lsn), StoreError>>,
    /// Number of the segment it was written to.
    pub(crate) segment: u64,
}

impl WaitingBatch {
    pub(crate) fn new(batch: Batch, epoch: u64, flush: Flush) -> Self {
        Self { batch, epoch, flush, outcome: None, segment: 0 }
    }
}

/// The writing end of a log.
#[derive(Debug)]
pub(crate) struct Log<D: Disk> {
    view: Arc<LogView<D>>,
    options: LogOptions,
    head: SegmentHead,
    seed: Seed,
    writer: Writer<D::File>,
    last_lsn: Lsn,
    durable: Lsn,
    epochs: BTreeMap<u32, u64>,
    /// Networks one of whose batches failed: what comes behind it builds on it, so it is refused until their owners
    /// start again.
    failed: BTreeSet<u32>,
    broken: Option<StoreError>,
    segments_made: u64,
}

impl<D: Disk> Log<D> {
    pub(crate) fn view(&self) -> Arc<LogView<D>> {
        Arc::clone(&self.view)
    }

    /// The error that stopped the log, if one did.
    pub(crate) fn broken(&self) -> Option<&StoreError> {
        self.broken.as_ref()
    }

    /// Whether upkeep is due.
    pub(crate) fn wants_upkeep(&self) -> bool {
        let inner = self.view.read_inner();
        inner.spare_wanted.is_some() || inner.control.newest != inner.open.head.number
    }

    /// Writes a group, flushes it if any of it asks for that, and tells each batch what became of it.
    pub(crate) fn commit(&mut self, group: &mut [WaitingBatch]) {
        let not_refused = |w: &WaitingBatch| !w.batch.is_empty() && !self.failed.contains(&w.batch.network());
        if self.broken.is_some() && group.iter().any(not_refused) {
            // It was a batch of others that failed, or a flush in the background: the disk may be whole again.
            if let Err(error) = self.reopen() {
                tracing::debug!(class = %self.view.class, %error, "the log does not go on yet");
            }
        }
        for waiting in group.iter_mut() {
            waiting.outcome = self.refuse(waiting);
        }
        let asks_flush =
            |waiting: &WaitingBatch| waiting.flush == Flush::Sync && matches!(waiting.outcome, Some(Ok(_)));
        let written = if group.iter().any(|waiting| waiting.outcome.is_none()) {
            match self.check_room(group) {
                Ok(()) => self.write_group(group),
                Err(refused) => Err((refused, false)),
            }
        } else if self.durable < self.last_lsn && group.iter().any(asks_flush) {
            self.flush_published().map_err(|error| (error, true))
        } else {
            Ok(())
        };
        if let Err((error, fatal)) = written {
            for waiting in group.iter_mut().filter(|waiting| !matches!(waiting.outcome, Some(Err(_)))) {
                waiting.outcome = Some(Err(error.clone()));
            }
            if fatal {
                tracing::error!(class = %self.view.class, %error, "the log stopped");
                self.writer.forget();
                self.broken = Some(error);
            }
        }
        // A batch of an older epoch is nobody's predecessor.
        let failed = |w: &&WaitingBatch| {
            matches!(&w.outcome, Some(Err(e)) if !matches!(e, StoreError::Fenced { .. })) && !w.batch.is_empty()
        };
        self.failed.extend(group.iter().filter(failed).map(|waiting| waiting.batch.network()));
    }

    /// Takes batches of a network again after one of them failed.
    pub(crate) fn resume(&mut self, network: u32) {
        self.failed.remove(&network);
    }

    /// Flushes what readers see already.
    fn flush_published(&mut self) -> Result<(), StoreError> {
        self.write(true)?;
        self.view.write_inner().open.durable = self.durable;
        Ok(())
    }

    /// Why a batch must not be written, if so; an empty one needs no writing.
    fn refuse(&mut self, waiting: &WaitingBatch) -> Option<Result<(Lsn, Lsn), StoreError>> {
        if let Some(broken) = &self.broken {
            return Some(Err(StoreError::Unavailable { cause: broken.to_string() }));
        }
        if waiting.batch.is_empty() {
            return Some(Ok((self.last_lsn, self.last_lsn)));
        }
        let newest = self.epochs.entry(waiting.batch.network()).or_default();
        if waiting.epoch < *newest {
            let (network, given) = (waiting.batch.network(), waiting.epoch);
            return Some(Err(StoreError::Fenced { network, newest: *newest, given }));
        }
        *newest = waiting.epoch;
        if self.failed.contains(&waiting.batch.network()) {
            let cause = "an earlier batch of this network failed".to_owned();
            return Some(Err(StoreError::Unavailable { cause }));
        }
        None
    }

    /// Checks the free-space floor, and the budget if the group needs a new segment; nothing is written yet.
    fn check_room(&self, group: &[WaitingBatch]) -> Result<(), StoreError> {
        self.room_for(group.iter().filter(|w| w.outcome.is_none()).map(|w| w.batch.bytes() as u64).sum())
    }

    /// Whether batches would be taken.
    pub(crate) fn has_room(&self) -> Result<(), StoreError> {
        self.room_for(ROOM_MIN)
    }

    fn room_for(&self, need: u64) -> Result<(), StoreError> {
        let free = self.view.disk.free_space(&self.view.dir).at("ask free space of", &self.view.dir)?;
        if free < self.options.free_floor.saturating_add(need) {
            return Err(StoreError::NoSpace { have: free.saturating_sub(self.options.free_floor), need });
        }
        if self.writer.has_room(need) {
            return Ok(());
        }
        let next = self.next_capacity(need);
        if !self.view.read_inner().spares.iter().any(|spare| spare.capacity >= next) {
            // Only to see whether it fits: the roll takes it.
            self.view.budget.take(next)?;
            self.view.budget.give(next);
        }
        Ok(())
    }

    /// Writes what is not refused. The flag of an error says whether the log is broken by it.
    fn write_group(&mut self, group: &mut [WaitingBatch]) -> Result<(), (StoreError, bool)> {
        let fatal = |error| (error, true);
        // An empty batch that asks for a flush wants what came before it flushed.
        let mut sync = group.iter().any(|w| w.flush == Flush::Sync && matches!(w.outcome, Some(Ok(_))));
        let all = group.iter().filter(|waiting| waiting.outcome.is_none()).map(|waiting| waiting.batch.bytes()).sum();
        self.writer.expect(all);
        for waiting in group.iter_mut().filter(|waiting| waiting.outcome.is_none()) {
            let size = waiting.batch.bytes() as u64;
            if !self.writer.has_room(size) {
                self.roll(size).map_err(fatal)?;
            }
            let first_lsn = self.last_lsn + 1;
            let stamp = Stamp { first_lsn, durable: self.durable, epoch: waiting.epoch, seed: self.seed };
            let place = self.writer.gather(&waiting.batch.buf);
            format::seal(place, waiting.batch.network(), waiting.batch.count(), stamp);
            self.last_lsn += waiting.batch.len() as u64;
            sync |= waiting.flush == Flush::Sync;
            waiting.outcome = Some(Ok((first_lsn, self.last_lsn)));
            waiting.segment = self.head.number;
        }
        self.write(sync).map_err(fatal)?;
        self.publish();
        if self.writer.end() > self.writer.capacity() / 2 {
            self.want_spare();
        }
        Ok(())
    }

    fn path(&self) -> std::path::PathBuf {
        segment_path(&self.view.dir, self.head.number)
    }

    /// Writes what is gathered, and flushes all there is if `flush`.
    fn write(&mut self, flush: bool) -> Result<(), StoreError> {
        self.writer.write(flush, &self.view.overwritten)?;
        // A file system may refuse direct writes at the first one.
        self.view.writes_directly.store(self.writer.is_direct(), Ordering::Relaxed);
        if flush {
            self.durable = self.last_lsn;
        }
        Ok(())
    }

    /// Shows readers what was written.
    fn publish(&mut self) {
        if let Some(piece) = self.writer.take(self.head.number) {
            let spare = self.view.publish_fresh(piece, self.last_lsn, self.durable);
            spare.into_iter().for_each(|memory| self.writer.buffers().give(memory));
        }
    }

    /// Gives memory back that waits for groups and readers, when there was nothing to write for a while.
    pub(crate) fn rest(&mut self) {
        self.writer.rest();
        let fresh = &mut self.view.write_inner().fresh;
        drop(fresh.shorten(FRESH_AT_REST));
        if fresh.bytes() > FRESH_AT_REST {
            fresh.clear();
        }
    }

    /// Seals the open segment, all of it flushed, and begins the next with room for a batch of `size`.
    fn roll(&mut self, size: u64) -> Result<(), StoreError> {
        self.write(true)?;
        self.publish();
        self.begin_segment(size, &[])
    }

    /// Begins the next segment where the flushed part of the open one ends. The `first` batches are in its file, flushed, before
    /// the file has its name: a crash finds them in the old segment or in the new one.
    fn begin_segment(&mut self, size: u64, first: &[Batch]) -> Result<(), StoreError> {
        let size = size.max(first.iter().map(|batch| batch.bytes() as u64).sum());
        let capacity = self.next_capacity(size);
        self.segments_made += 1;
        let number = self.head.number + 1;
        let head = SegmentHead {
            generation: generation(self.options.seed, number, self.segments_made),
            number,
            first_lsn: self.durable + 1,
            previous: self.head.number,
            previous_end: self.writer.durable_end(),
            class: self.head.class,
            emptied: false,
        };
        let seed = Seed::of(head.generation);
        let (contents, last_lsn) = self.seal_again(first, seed);
        let (file, spare) = make_segment(&self.view, &head, &contents, capacity)?;
        let (file, capacity) = (Arc::new(file), spare.capacity);
        let start = SEGMENT_HEAD as u64;
        let end = start + contents.len() as u64;
        let mut writer = self.view.writer(
            &head,
            Arc::clone(&file),
            WritePosition { capacity, end, written: spare.written.max(end) },
        )?;
        std::mem::swap(writer.buffers(), self.writer.buffers());
        let open = OpenSegment {
            head,
            file: Arc::clone(&file),
            index: MemIndex::default(),
            gaps: Vec::new(),
            end: start,
            last_lsn: self.durable,
            durable: self.durable,
            capacity,
        };
        if !first.is_empty() {
            // What lay behind the flushed end lies elsewhere now.
            self.view.write_inner().fresh.clear();
        }
        self.view.seal_and_open(open, self.writer.durable_end(), self.durable);
        if !contents.is_empty() {
            self.view.publish(&contents, start, last_lsn, last_lsn);
        }
        self.head = head;
        self.seed = seed;
        self.writer = writer;
        (self.last_lsn, self.durable) = (last_lsn, last_lsn);
        Ok(())
    }

    /// The bytes of batches as they stand behind the flushed records in a segment with this seed, and the last LSN in them.
    fn seal_again(&self, batches: &[Batch], seed: Seed) -> (Vec<u8>, Lsn) {
        let (mut bytes, mut last_lsn) = (Vec::new(), self.durable);
        for batch in batches {
            let epoch = self.epochs.get(&batch.network()).copied().unwrap_or(0);
            let at = bytes.len();
            bytes.extend_from_slice(&batch.buf);
            let stamp = Stamp { first_lsn: last_lsn + 1, durable: self.durable, epoch, seed };
            format::seal(bytes.get_mut(at..).unwrap_or_default(), batch.network(), batch.count(), stamp);
            last_lsn += batch.len() as u64;
        }
        (bytes, last_lsn)
    }

    fn next_capacity(&self, size: u64) -> u64 {
        let doubled = (self.writer.capacity() * 2).min(self.options.max_segment).max(self.options.first_segment);
        doubled.max((size + SEGMENT_HEAD as u64).next_multiple_of(4096))
    }

    fn want_spare(&self) {
        let capacity = self.next_capacity(0);
        let wanted = {
            let inner = self.view.read_inner();
            inner.spare_wanted.is_none() && !inner.spares.iter().any(|spare| spare.capacity >= capacity)
        };
        if wanted {
            self.view.write_inner().spare_wanted = Some(capacity);
        }
    }

    /// Goes on after an error: in a new segment, never on the same pages. Acknowledged records that were not flushed go along.
    pub(crate) fn reopen(&mut self) -> Result<(), StoreError> {
        if self.broken.is_none() {
            return Ok(());
        }
        let readable_end = self.view.read_inner().open.end;
        let unflushed = self.read_unflushed(readable_end)?;
        self.begin_segment(0, &unflushed)?;
        self.broken = None;
        Ok(())
    }

    /// Batches that readers saw but no flush covered.
    fn read_unflushed(&self, readable_end: u64) -> Result<Vec<Batch>, StoreError> {
        let mut batches = Vec::new();
        let (mut at, path) = (self.writer.durable_end(), self.path());
        while at < readable_end {
            let mut head = vec![0; BATCH_HEAD];
            self.writer.file().read_at(&mut head, at).at("read", &path)?;
            let Some(found) = format::batch_head(&head, self.seed) else {
                return Err(StoreError::damaged(&path, at, "batch header is bad"));
            };
            let mut bytes = vec![0; usize::try_from(found.size()).unwrap_or(BATCH_BYTES_MAX)];
            self.writer.file().read_at(&mut bytes, at).at("read", &path)?;
            if let Err((offset, what)) = recover::check_batch(&bytes, &found, self.seed) {
                return Err(StoreError::damaged(&path, at + offset as u64, what));
            }
            batches.push(Batch::from_encoded(found.network, found.count, bytes));
            at += found.size();
        }
        Ok(batches)
    }

    /// Clean stop: flushes all and writes down where the log ends, so that a lost end is noticed. A log that an error
    /// stopped still writes down what was flushed before: otherwise damage there would look like an unfinished write.
    pub(crate) fn close(&mut self) -> Result<(), StoreError> {
        let flushed = match &self.broken {
            Some(broken) => Err(broken.clone()),
            None => self.write(true),
        };
        let tidied = if flushed.is_ok() { self.view.tidy() } else { Ok(()) };
        let _upkeep = self.view.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = {
            let inner = self.view.read_inner();
            inner.sealed.first().map_or(self.head.number, |segment| segment.head.number)
        };
        let clean_end = if flushed.is_ok() { self.writer.end() } else { 0 };
        let control = Control { oldest, newest: self.head.number, durable: self.durable, clean_end };
        let written = self.view.write_control(control);
        flushed.and(tidied).and(written)
    }
}

impl<D: Disk> LogView<D> {
    /// What writes to the end of a segment.
    fn writer(
        &self,
        head: &SegmentHead,
        file: Arc<D::File>,
        place: WritePosition,
    ) -> Result<Writer<D::File>, StoreError> {
        let path = segment_path(&self.dir, head.number);
        let direct = if self.direct { self.disk.open_direct(&path).at("open", &path)? } else { None };
        if direct.is_some() {
            // What is read ahead of the records would have to be thrown away by the next direct write there.
            file.expect_scattered_reads();
        }
        let writer = Writer::new(file, direct, path, place)?;
        self.writes_directly.store(writer.is_direct(), Ordering::Relaxed);
        Ok(writer)
    }

    /// Makes the open segment a sealed one that ends at `end`, and `next` the open one.
    fn seal_and_open(&self, next: OpenSegment<D>, end: u64, last_lsn: Lsn) {
        let mut inner = self.write_inner();
        let full = inner.open.end == end;
        let old = std::mem::replace(&mut inner.open, next);
        let segment = Segment::new(self.disk.clone(), self.dir.clone(), old.head, end, last_lsn, old.capacity);
        // An index that knows records beyond the end must not outlive them.
        let segment = if full { segment.with(old.file, old.index, old.gaps) } else { segment };
        Arc::make_mut(&mut inner.sealed).push(Arc::new(segment));
    }
}

/// Takes a spare file or makes one, gives it its header and contents and flushes them, and only then its name: a file named as a
/// segment always has a whole header.
fn make_segment<D: Disk>(
    view: &LogView<D>,
    head: &SegmentHead,
    contents: &[u8],
    capacity: u64,
) -> Result<(D::File, Spare), StoreError> {
    let spare = {
        let mut inner = view.write_inner();
        let fits = inner.spares.iter().position(|spare| spare.capacity >= capacity);
        fits.map(|at| inner.spares.swap_remove(at))
    };
    let (file, spare) = match spare {
        Some(spare) => (view.disk.open(&spare.path, true).at("open", &spare.path)?, spare),
        None => {
            view.budget.take(capacity)?;
            let path = view.dir.join("spare-new.seg");
            let file = view.disk.create(&path).at("create", &path)?;
            file.preallocate(capacity).at("preallocate", &path)?;
            (file, Spare { path, capacity, written: 0 })
        }
    };
    if !contents.is_empty() {
        file.write_at(contents, SEGMENT_HEAD as u64).at("write", &spare.path)?;
    }
    let late = crate::bugs::on("segment named before it has a header");
    if !late {
        write_head(&file, head, &spare.path)?;
    }
    let path = segment_path(&view.dir, head.number);
    view.disk.rename(&spare.path, &path).at("rename", &spare.path)?;
    if late {
        write_head(&file, head, &path)?;
    }
    view.disk.sync_dir(&view.dir).at("flush", &view.dir)?;
    Ok((file, spare))
}

fn write_head(file: &impl crate::disk::DiskFile, head: &SegmentHead, path: &Path) -> Result<(), StoreError> {
    file.write_at(&head.encode(), 0).at("write", path)?;
    file.sync_data().at("flush", path)
}

/// A generation that no other segment of this directory has had, as far as chance allows.
fn generation(seed: u64, number: u64, made: u64) -> u64 {
    index::mix(index::mix(seed ^ number).wrapping_add(made))
}

impl WaitingBatch {
    /// What to tell the sender; gives the buffer back.
    pub(crate) fn finish(self) -> Result<Committed, StoreError> {
        let (first_lsn, last_lsn) = self.outcome.unwrap_or(Err(StoreError::Closed))?;
        Ok(Committed { first_lsn, last_lsn, segment: self.segment, batch: self.batch })
    }
}
