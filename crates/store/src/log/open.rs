//! Opening a log: which files belong to it, whether all are there, where its records end.
//! Sealed segments are not read, only their headers; the open one is scanned. Damage is named, a copy is kept aside, and the log goes
//! on in a new segment behind it: who needs what is lost is told when it is read.
//! Not here: the scan itself (`recover`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::control::Control;
use super::format::{SEGMENT_HEAD, Seed, SegmentHead, mend_head};
use super::fresh::Fresh;
use super::gap::Gap;
use super::overwrite;
use super::recover::{self, RecoveryScan};
use super::segment::{Segment, segment_path, sidecar_path};
use super::view::{Inner, LogView, OpenSegment, Spare};
use super::writeoff::{self, keep_aside, keep_tail};
use super::writer::WritePosition;
use super::{Log, LogOptions, generation, write_head};
use crate::budget::Budget;
use crate::class::Class;
use crate::disk::{self, Disk, DiskFile};
use crate::error::{At as _, Damage, StoreError};
use crate::record::Lsn;

const COPY_PIECE: usize = 1 << 20;
const SPARES_KEPT: usize = 2;

/// An open log, and what was found and repaired on the way.
#[derive(Debug)]
pub(crate) struct OpenedLog<D: Disk> {
    pub(crate) log: Log<D>,
    pub(crate) notes: Vec<Damage>,
}

/// The files of a log's directory.
#[derive(Debug, Default)]
struct Files {
    /// Number and length.
    segments: Vec<(u64, u64)>,
    spares: Vec<Spare>,
    sidecars: Vec<u64>,
    leftovers: Vec<PathBuf>,
}

impl<D: Disk> Log<D> {
    /// Opens the log in `dir`, or begins one there.
    pub(crate) fn open(
        disk: D,
        dir: &Path,
        class: Class,
        options: LogOptions,
        budget: Arc<Budget>,
    ) -> Result<OpenedLog<D>, StoreError> {
        disk.create_dir_all(dir).at("create", dir)?;
        overwrite::finish(&disk, dir)?;
        let mut opening = Opening { disk, dir: dir.to_path_buf(), class, options, notes: Vec::new() };
        let mut files = opening.list()?;
        let control = opening.load_control(&files)?;
        opening.drop_freed(&mut files, &control)?;
        let total: u64 = files.segments.iter().map(|(_, len)| len).sum();
        budget.count(total + files.spares.iter().map(|spare| spare.capacity).sum::<u64>());
        if files.segments.is_empty() {
            // All of it at once is no damage but a disk that is not there.
            if options.durable > 0 {
                let what =
                    format!("log has no segment, though a snapshot covers records up to LSN {}", options.durable);
                return Err(StoreError::damaged(dir, 0, what));
            }
            if control.newest > 0 {
                let what = format!("log has no segment, though its control file names segment {}", control.newest);
                return Err(StoreError::damaged(dir, 0, what));
            }
            opening.first_segment(&mut files, &budget)?;
        }
        opening.finish(files, control, budget)
    }
}

type Sealed<D> = Vec<Arc<Segment<D>>>;

/// A segment that should be there.
#[derive(Debug)]
struct ExpectedSegment {
    head: SegmentHead,
    /// Length of the file.
    len: u64,
    /// Why its header is not to be had.
    lost: Option<Damage>,
}

struct Opening<D: Disk> {
    disk: D,
    dir: PathBuf,
    class: Class,
    options: LogOptions,
    notes: Vec<Damage>,
}

impl<D: Disk> Opening<D> {
    fn load_control(&mut self, files: &Files) -> Result<Control, StoreError> {
        let path = self.dir.join("control");
        match Control::load(&self.disk, &path).at("read", &path)? {
            None => {
                if !files.segments.is_empty() {
                    let what = "control file is missing: lost records at the end of the log are not noticed".to_owned();
                    self.note(Damage { file: path, offset: 0, what, kept: None });
                }
                Ok(Control::default())
            }
            Some(Some(control)) => Ok(control),
            Some(None) => {
                // Only a guard: the log opens without it, with less to check against.
                let kept = self.dir.join("control.damaged");
                self.disk.rename(&path, &kept).at("rename", &path)?;
                let what = "control file has a bad checksum, set aside".to_owned();
                self.note(Damage { file: path, offset: 0, what, kept: Some(kept) });
                Ok(Control::default())
            }
        }
    }

    fn note(&mut self, damage: Damage) {
        tracing::warn!(%damage, "found while opening the log");
        self.notes.push(damage);
    }

    fn list(&self) -> Result<Files, StoreError> {
        let mut files = Files::default();
        for entry in self.disk.list(&self.dir).at("list", &self.dir)?.into_iter().filter(|entry| !entry.is_dir) {
            let path = self.dir.join(&entry.name);
            match entry.name.rsplit_once('.') {
                Some((stem, "seg")) => match stem.parse() {
                    Ok(number) => files.segments.push((number, entry.len)),
                    Err(_) if stem.starts_with("spare-") => {
                        files.spares.push(Spare { path, capacity: entry.len, written: 0 });
                    }
                    Err(_) => {}
                },
                Some((stem, "idx")) => files.sidecars.extend(stem.parse::<u64>()),
                Some((_, "tmp")) => files.leftovers.push(path),
                _ => {}
            }
        }
        files.segments.sort_unstable();
        Ok(files)
    }

    /// Removes what a crash left half removed, half made, or is of no use.
    fn drop_freed(&self, files: &mut Files, control: &Control) -> Result<(), StoreError> {
        let (freed, kept) = files.segments.iter().partition(|(number, _)| *number < control.oldest);
        files.segments = kept;
        let freed: Vec<(u64, u64)> = freed;
        files.leftovers.extend(freed.iter().map(|(number, _)| segment_path(&self.dir, *number)));
        let stale = files.sidecars.iter().filter(|number| **number < control.oldest);
        files.leftovers.extend(stale.map(|number| sidecar_path(&self.dir, *number)));
        let (good, bad): (Vec<Spare>, Vec<Spare>) = std::mem::take(&mut files.spares)
            .into_iter()
            .partition(|spare| spare.capacity >= self.options.max_segment && !spare.path.ends_with("spare-new.seg"));
        files.leftovers.extend(bad.into_iter().map(|spare| spare.path));
        files.leftovers.extend(good.iter().skip(SPARES_KEPT).map(|spare| spare.path.clone()));
        files.spares = good.into_iter().take(SPARES_KEPT).collect();
        for path in &files.leftovers {
            self.disk.remove(path).at("remove", path)?;
        }
        Ok(())
    }

    fn first_segment(&self, files: &mut Files, budget: &Budget) -> Result<(), StoreError> {
        // Before the first record, so that a log without it has lost it.
        self.write_control(Control { oldest: 1, ..Control::default() })?;
        let (_, len) = self.new_segment(budget, 1, 1)?;
        files.segments.push((1, len));
        Ok(())
    }

    /// Makes an empty segment; gives its header and its length.
    fn new_segment(&self, budget: &Budget, number: u64, first_lsn: Lsn) -> Result<(SegmentHead, u64), StoreError> {
        let capacity = self.options.first_segment;
        let head = SegmentHead {
            generation: generation(self.options.seed, number, 0),
            number,
            first_lsn,
            previous: number - 1,
            previous_end: 0,
            class: self.class,
            emptied: false,
        };
        budget.take(capacity)?;
        let spare = self.dir.join("spare-new.seg");
        let file = self.disk.create(&spare).at("create", &spare)?;
        file.preallocate(capacity).at("preallocate", &spare)?;
        write_head(&file, &head, &spare)?;
        let path = segment_path(&self.dir, number);
        self.disk.rename(&spare, &path).at("rename", &spare)?;
        self.disk.sync_dir(&self.dir).at("flush", &self.dir)?;
        Ok((head, capacity))
    }

    /// The header of every segment that should be there, checked against its neighbours.
    fn heads(&mut self, files: &Files, control: &Control) -> Result<Vec<ExpectedSegment>, StoreError> {
        let lens: BTreeMap<u64, u64> = files.segments.iter().copied().collect();
        let there = |end: Option<(&u64, &u64)>| end.map(|(number, _)| *number);
        let (first, last) = (there(lens.first_key_value()), there(lens.last_key_value()));
        // Without a control file only the files themselves say which there are.
        let known = control.newest > 0;
        let oldest = first.unwrap_or(u64::MAX).min(if known { control.oldest.max(1) } else { u64::MAX });
        let newest = last.unwrap_or(0).max(control.newest).max(1);
        let mut heads: Vec<ExpectedSegment> = Vec::new();
        for number in oldest.min(newest)..=newest {
            let path = segment_path(&self.dir, number);
            let read = match lens.get(&number) {
                Some(len) => self.head(&path, number)?.map(|head| (head, *len)),
                None => Err((0, "segment is missing")),
            };
            let follows = |head: &SegmentHead| {
                let before = heads.iter().rev().find(|before| before.lost.is_none());
                before.is_none_or(|before| head.first_lsn >= before.head.first_lsn) && head.previous + 1 == number
            };
            let read = match read {
                Ok((head, _)) if !follows(&head) => Err((40, "segment header does not follow the segment before")),
                read => read,
            };
            heads.push(match read {
                Ok((head, len)) => ExpectedSegment { head, len, lost: None },
                Err((offset, what)) => {
                    let len = lens.get(&number).copied().unwrap_or(0);
                    let kept = if len > 0 { keep_aside(&self.disk, &self.dir, number, offset).ok() } else { None };
                    let damage = Damage { file: path, offset, what: what.to_owned(), kept };
                    self.note(damage.clone());
                    ExpectedSegment { head: self.lost_head(number), len, lost: Some(damage) }
                }
            });
        }
        Ok(heads)
    }

    /// What stands for the header of a segment that is lost, until its neighbours say which records were in it.
    fn lost_head(&self, number: u64) -> SegmentHead {
        let (class, emptied) = (self.class, false);
        SegmentHead { generation: 0, number, first_lsn: 0, previous: number - 1, previous_end: 0, class, emptied }
    }

    /// Reads the header of a segment, or says where it is bad.
    fn head(&mut self, path: &Path, number: u64) -> Result<Result<SegmentHead, (u64, &'static str)>, StoreError> {
        let file = self.disk.open(path, false).at("open", path)?;
        let mut bytes = [0; SEGMENT_HEAD];
        let got = file.read_at(&mut bytes, 0).at("read", path)?;
        let bytes = bytes.get(..got).unwrap_or_default();
        let head = match SegmentHead::decode(bytes) {
            Ok(head) => head,
            Err(what) => {
                let Some(head) = mend_head(bytes) else { return Ok(Err((0, what))) };
                let what = format!("{what}: one bit of it has turned, it was read as it had been");
                self.note(Damage { file: path.to_path_buf(), offset: 0, what, kept: None });
                head
            }
        };
        let own = head.number == number && head.class == self.class;
        Ok(if own { Ok(head) } else { Err((24, "segment header is another segment's")) })
    }

    fn segment(&self, head: SegmentHead, end: u64, last_lsn: Lsn, len: u64) -> Segment<D> {
        Segment::new(self.disk.clone(), self.dir.clone(), head, end, last_lsn, len)
    }

    /// The segments before the open one, with what is known to have been in each. Gives also the first LSN behind them.
    fn sealed(&mut self, heads: &[ExpectedSegment], control: &Control) -> Result<(Sealed<D>, Lsn), StoreError> {
        let mut sealed = Vec::with_capacity(heads.len());
        let mut next_lsn = 1;
        for (at, ExpectedSegment { head, len, lost }) in heads.iter().enumerate() {
            let next = heads.get(at + 1);
            let known = next.filter(|next| next.lost.is_none()).map(|next| next.head);
            if next.is_none() && lost.is_none() {
                break;
            }
            let segment = if let Some(damage) = lost {
                let head = SegmentHead { first_lsn: next_lsn, ..*head };
                let after = match known {
                    Some(known) => known.first_lsn,
                    // The last one there was, or others follow that are lost with it.
                    None if next.is_none() => control.durable.max(self.options.durable) + 1,
                    None => next_lsn,
                };
                self.segment(head, SEGMENT_HEAD as u64, after.max(next_lsn) - 1, *len).lost(damage)
            } else if let Some(known) = known {
                let end = if head.emptied { SEGMENT_HEAD as u64 } else { known.previous_end };
                if *len < end {
                    let (file, what) = (segment_path(&self.dir, head.number), "segment is cut short".to_owned());
                    self.note(Damage { file, offset: *len, what, kept: None });
                }
                self.segment(*head, end, known.first_lsn - 1, *len)
            } else {
                // The header that said where this one ends is lost.
                let path = segment_path(&self.dir, head.number);
                let file = Arc::new(self.disk.open(&path, false).at("open", &path)?);
                let scan = recover::scan(&file, &path, head, if head.emptied { 0 } else { *len })?;
                self.segment(*head, scan.end, scan.last_lsn, *len)
            };
            next_lsn = segment.last_lsn + 1;
            sealed.push(Arc::new(segment));
        }
        Ok((sealed, next_lsn))
    }

    fn finish(mut self, files: Files, control: Control, budget: Arc<Budget>) -> Result<OpenedLog<D>, StoreError> {
        let mut heads = self.heads(&files, &control)?;
        let (written_off, damage) = writeoff::load(&self.disk, &self.dir)?;
        damage.into_iter().for_each(|damage| self.note(damage));
        for ExpectedSegment { head, .. } in
            heads.iter().filter(|h| h.head.emptied && files.sidecars.contains(&h.head.number))
        {
            // A crash came before it was gone.
            let path = sidecar_path(&self.dir, head.number);
            self.disk.remove(&path).at("remove", &path)?;
        }
        let (sealed, next_lsn) = self.sealed(&heads, &control)?;
        let newest = heads.last().map_or(0, |head| head.head.number);
        if sealed.len() == heads.len() {
            // The segment that took records last is lost: another one goes on.
            let (head, len) = self.new_segment(&budget, newest + 1, next_lsn)?;
            heads.push(ExpectedSegment { head, len, lost: None });
        }
        let Some((head, len)) = heads.last().map(|head| (head.head, head.len)) else {
            return Err(StoreError::damaged(&self.dir, 0, "log has no segment"));
        };
        let path = segment_path(&self.dir, head.number);
        let file = Arc::new(self.disk.open(&path, true).at("open", &path)?);
        let scan = self.recover(&file, &path, &head, len, &control)?;
        let control = self.renew_control(control, &heads, scan.last_lsn)?;
        let capacity = file.len().at("ask length of", &path)?;
        let damaged = scan.gaps.first().map(|gap| StoreError::Damaged(Box::new(gap.damage(&path))));
        let spares_made = files.spares.iter().filter_map(|spare| spare_number(&spare.path)).max().unwrap_or(0);
        let inner = Inner {
            sealed: Arc::new(sealed),
            open: OpenSegment {
                head,
                file: Arc::clone(&file),
                index: scan.index,
                gaps: scan.gaps,
                end: scan.end,
                last_lsn: scan.last_lsn,
                durable: scan.last_lsn,
                capacity,
            },
            fresh: Fresh::default(),
            spares: files.spares,
            spare_wanted: None,
            spares_made,
            control,
            written_off,
        };
        let view = LogView::new(self.disk, self.dir, self.class, budget, inner, self.options.direct);
        let view = Arc::new(view);
        let place = WritePosition { capacity, end: scan.end, written: scan.end };
        let writer = view.writer(&head, file, place)?;
        if view.direct && !writer.is_direct() {
            tracing::info!(dir = %view.dir.display(), "this file system takes no direct writes: the log goes through the page cache");
        }
        let mut log = Log {
            view,
            options: self.options,
            head,
            seed: Seed::of(head.generation),
            writer,
            last_lsn: scan.last_lsn,
            durable: scan.last_lsn,
            epochs: scan.epochs,
            failed: BTreeSet::new(),
            broken: None,
            segments_made: 0,
        };
        if let Some(damaged) = damaged
            && let Err(error) = log.begin_segment(0, &[])
        {
            // Nothing is written behind damage: the log is there to be read until it can go on in a new segment.
            tracing::warn!(%damaged, %error, "no new segment behind the damaged one yet");
            log.broken = Some(error);
        }
        Ok(OpenedLog { log, notes: self.notes })
    }

    /// Scans the open segment, refuses damage, cuts a torn tail, and flushes what is left.
    fn recover(
        &mut self,
        file: &Arc<D::File>,
        path: &Path,
        head: &SegmentHead,
        len: u64,
        control: &Control,
    ) -> Result<RecoveryScan, StoreError> {
        let scan = recover::scan(file, path, head, len)?;
        let clean = control.newest == head.number && control.clean_end == scan.end && control.durable == scan.last_lsn;
        if clean {
            return Ok(scan);
        }
        let behind = recover::look_behind(file.as_ref(), path, head, scan.end, len, scan.last_lsn)?;
        let flushed = control.durable.max(self.options.durable).max(behind.durable);
        if flushed > scan.last_lsn {
            return self.go_over_damage(file, path, head, len, flushed);
        }
        let (offset, what) = scan.stopped.unwrap_or((scan.end, "records end early"));
        if behind.dirty {
            if behind.written {
                let kept = keep_tail(&self.disk, &self.dir, head.number, scan.end)?;
                let what = format!("{what}; never flushed, cut after LSN {}", scan.last_lsn);
                self.note(Damage { file: path.to_path_buf(), offset, what, kept: Some(kept) });
            }
            file.truncate(scan.end).at("cut", path)?;
        }
        file.preallocate(len.max(self.options.first_segment)).at("preallocate", path)?;
        write_again(file.as_ref(), scan.unproved, scan.end).at("write", path)?;
        file.sync_data().at("flush", path)?;
        Ok(scan)
    }

    /// Scans a segment in which records are bad that were flushed. They are named, a copy is kept, and nothing in the file is
    /// changed: whoever needs them is told, everybody else goes on.
    fn go_over_damage(
        &mut self,
        file: &Arc<D::File>,
        path: &Path,
        head: &SegmentHead,
        len: u64,
        flushed: Lsn,
    ) -> Result<RecoveryScan, StoreError> {
        let scan = recover::scan_over(file, path, head, len, flushed)?;
        for gap in &scan.gaps {
            let kept = keep_aside(&self.disk, &self.dir, head.number, gap.offset)?;
            let Gap { what, first_lsn, last_lsn, .. } = gap;
            let what =
                format!("{what}, though records up to LSN {flushed} were flushed: {first_lsn} to {last_lsn} are lost");
            self.note(Damage { what, kept: Some(kept), ..gap.damage(path) });
        }
        write_again(file.as_ref(), scan.unproved, scan.end).at("write", path)?;
        file.sync_data().at("flush", path)?;
        Ok(scan)
    }

    /// Writes down that all that was found is flushed now. A clean end holds until the next append: after that only a
    /// scan knows what lies behind the records.
    fn renew_control(&self, control: Control, heads: &[ExpectedSegment], durable: Lsn) -> Result<Control, StoreError> {
        let number = |head: Option<&ExpectedSegment>| head.map_or(0, |head| head.head.number);
        let renewed = Control { oldest: number(heads.first()), newest: number(heads.last()), durable, clean_end: 0 };
        if renewed != control {
            self.write_control(renewed)?;
        }
        Ok(renewed)
    }

    fn write_control(&self, control: Control) -> Result<(), StoreError> {
        let path = self.dir.join("control");
        disk::replace(&self.disk, &path, &control.encode()).at("write", &path)
    }
}

/// Writes a stretch of a file over itself. After a flush that failed, the operating system may show bytes that are not on
/// the medium and call them clean: only writing them again makes the next flush mean something.
fn write_again<F: DiskFile>(file: &F, from: u64, to: u64) -> io::Result<()> {
    let (mut at, mut buf) = (from, vec![0; COPY_PIECE]);
    while at < to {
        let want = usize::try_from(to - at).unwrap_or(usize::MAX).min(buf.len());
        let got = file.read_at(buf.get_mut(..want).unwrap_or_default(), at)?;
        let Some(bytes) = buf.get(..got).filter(|bytes| !bytes.is_empty()) else { break };
        file.write_at(bytes, at)?;
        at += got as u64;
    }
    Ok(())
}

fn spare_number(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.strip_prefix("spare-")?.parse().ok()
}
