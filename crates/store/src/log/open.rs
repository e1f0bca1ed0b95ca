//! Opening a log: which files belong to it, whether all are there, where its records end.
//! Sealed segments are not read, only their headers; the open one is scanned. Damage is refused by name, a copy kept aside.
//! Not here: the scan itself (`recover`).

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::control::Control;
use super::format::{SEGMENT_HEAD, Seed, SegmentHead};
use super::overwrite;
use super::recover::{self, Scan};
use super::segment::{Segment, segment_path, sidecar_path};
use super::view::{Inner, LogView, Open, Spare};
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
pub(crate) struct Opened<D: Disk> {
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
    ) -> Result<Opened<D>, StoreError> {
        disk.create_dir_all(dir).at("create", dir)?;
        overwrite::finish(&disk, dir)?;
        let mut opening = Opening { disk, dir: dir.to_path_buf(), class, options, notes: Vec::new() };
        let mut files = opening.list()?;
        let control = opening.load_control(&files)?;
        opening.drop_freed(&mut files, &control)?;
        opening.check_all_there(&files, &control)?;
        let total: u64 = files.segments.iter().map(|(_, len)| len).sum();
        budget.count(total + files.spares.iter().map(|spare| spare.capacity).sum::<u64>());
        if files.segments.is_empty() {
            if options.durable > 0 {
                let what =
                    format!("log has no segment, though a snapshot covers records up to LSN {}", options.durable);
                return Err(StoreError::damaged(dir, 0, what));
            }
            opening.first_segment(&mut files, &budget)?;
        }
        opening.finish(files, control, budget)
    }
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

    fn check_all_there(&self, files: &Files, control: &Control) -> Result<(), StoreError> {
        let missing = |number: u64, what: &str| StoreError::damaged(&segment_path(&self.dir, number), 0, what);
        let mut numbers = files.segments.iter().map(|(number, _)| *number);
        for (here, next) in numbers.clone().zip(numbers.clone().skip(1)) {
            if next != here + 1 {
                return Err(missing(here + 1, "segment is missing"));
            }
        }
        if control.newest == 0 {
            return Ok(());
        }
        let oldest = numbers.clone().next().unwrap_or(control.newest + 1);
        if oldest > control.oldest.max(1) {
            return Err(missing(control.oldest, "segment is missing"));
        }
        if numbers.next_back().is_none_or(|last| last < control.newest) {
            return Err(missing(control.newest, "segment is missing"));
        }
        Ok(())
    }

    fn first_segment(&self, files: &mut Files, budget: &Budget) -> Result<(), StoreError> {
        // Before the first record, so that a log without it has lost it.
        self.write_control(Control { oldest: 1, ..Control::default() })?;
        let capacity = self.options.first_segment;
        let generation = generation(self.options.seed, 1, 0);
        let head = SegmentHead {
            generation,
            number: 1,
            first_lsn: 1,
            previous: 0,
            previous_end: 0,
            class: self.class,
            emptied: false,
        };
        budget.take(capacity)?;
        let spare = self.dir.join("spare-new.seg");
        let file = self.disk.create(&spare).at("create", &spare)?;
        file.preallocate(capacity).at("preallocate", &spare)?;
        write_head(&file, &head, &spare)?;
        let path = segment_path(&self.dir, 1);
        self.disk.rename(&spare, &path).at("rename", &spare)?;
        self.disk.sync_dir(&self.dir).at("flush", &self.dir)?;
        files.segments.push((1, capacity));
        Ok(())
    }

    /// Reads and checks the header of every segment against its neighbours.
    fn heads(&self, files: &Files) -> Result<Vec<(SegmentHead, u64)>, StoreError> {
        let mut heads: Vec<(SegmentHead, u64)> = Vec::with_capacity(files.segments.len());
        for (number, len) in &files.segments {
            let path = segment_path(&self.dir, *number);
            let file = self.disk.open(&path, false).at("open", &path)?;
            let mut bytes = [0; SEGMENT_HEAD];
            let got = file.read_at(&mut bytes, 0).at("read", &path)?;
            let head = SegmentHead::decode(bytes.get(..got).unwrap_or_default());
            let head = head.map_err(|what| self.refuse(&path, 0, what))?;
            if head.number != *number || head.class != self.class {
                return Err(self.refuse(&path, 24, "segment header is another segment's"));
            }
            if let Some((before, before_len)) = heads.last() {
                if head.previous != before.number || head.first_lsn < before.first_lsn {
                    return Err(self.refuse(&path, 40, "segment header does not follow the segment before"));
                }
                if *before_len < head.previous_end && !before.emptied {
                    let before = segment_path(&self.dir, before.number);
                    return Err(self.refuse(&before, *before_len, "segment is cut short"));
                }
            }
            heads.push((head, *len));
        }
        Ok(heads)
    }

    fn finish(mut self, files: Files, control: Control, budget: Arc<Budget>) -> Result<Opened<D>, StoreError> {
        let heads = self.heads(&files)?;
        for (head, _) in heads.iter().filter(|(head, _)| head.emptied && files.sidecars.contains(&head.number)) {
            // A crash came before it was gone.
            let path = sidecar_path(&self.dir, head.number);
            self.disk.remove(&path).at("remove", &path)?;
        }
        let mut sealed = Vec::with_capacity(heads.len());
        for ((head, len), (next, _)) in heads.iter().zip(heads.iter().skip(1)) {
            let end = if head.emptied { SEGMENT_HEAD as u64 } else { next.previous_end };
            let last = next.first_lsn - 1;
            let segment = Segment::new(self.disk.clone(), self.dir.clone(), *head, end, last, *len);
            sealed.push(Arc::new(segment));
        }
        let Some((head, len)) = heads.last().copied() else {
            return Err(StoreError::damaged(&self.dir, 0, "log has no segment"));
        };
        let path = segment_path(&self.dir, head.number);
        let file = Arc::new(self.disk.open(&path, true).at("open", &path)?);
        let scan = self.recover(&file, &path, &head, len, &control)?;
        let control = self.renew_control(control, &heads, scan.last_lsn)?;
        let capacity = file.len().at("ask length of", &path)?;
        let spares_made = files.spares.iter().filter_map(|spare| spare_number(&spare.path)).max().unwrap_or(0);
        let inner = Inner {
            sealed: Arc::new(sealed),
            open: Open {
                head,
                file: Arc::clone(&file),
                index: scan.index,
                end: scan.end,
                last_lsn: scan.last_lsn,
                durable: scan.last_lsn,
                capacity,
            },
            spares: files.spares,
            spare_wanted: None,
            spares_made,
            control,
        };
        let view = Arc::new(LogView::new(self.disk, self.dir, self.class, budget, inner));
        let log = Log {
            view,
            options: self.options,
            head,
            seed: Seed::of(head.generation),
            file,
            capacity,
            end: scan.end,
            last_lsn: scan.last_lsn,
            durable: scan.last_lsn,
            durable_end: scan.end,
            written: scan.end,
            epochs: scan.epochs,
            failed: BTreeSet::new(),
            broken: None,
            segments_made: 0,
            buf: Vec::new(),
        };
        Ok(Opened { log, notes: self.notes })
    }

    /// Scans the open segment, refuses damage, cuts a torn tail, and flushes what is left.
    fn recover(
        &mut self,
        file: &Arc<D::File>,
        path: &Path,
        head: &SegmentHead,
        len: u64,
        control: &Control,
    ) -> Result<Scan, StoreError> {
        let scan = recover::scan(file, path, head, len)?;
        let clean = control.newest == head.number && control.clean_end == scan.end && control.durable == scan.last_lsn;
        if clean {
            return Ok(scan);
        }
        let (offset, what) = scan.stopped.unwrap_or((scan.end, "records end early"));
        let durable = control.durable.max(self.options.durable);
        if durable > scan.last_lsn {
            let what = format!("{what}, though records up to LSN {durable} were flushed");
            return Err(self.refuse(path, offset, &what));
        }
        let behind = recover::look_behind(file.as_ref(), path, head, scan.end, len, scan.last_lsn)?;
        if behind.durable > scan.last_lsn {
            let what = format!("{what}, though records up to LSN {} were flushed", behind.durable);
            return Err(self.refuse(path, offset, &what));
        }
        if behind.dirty {
            if behind.written {
                let kept = self.keep_aside(path, head.number, scan.end)?;
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

    /// Writes down that all that was found is flushed now. A clean end holds until the next append: after that only a
    /// scan knows what lies behind the records.
    fn renew_control(
        &self,
        control: Control,
        heads: &[(SegmentHead, u64)],
        durable: Lsn,
    ) -> Result<Control, StoreError> {
        let number = |head: Option<&(SegmentHead, u64)>| head.map_or(0, |(head, _)| head.number);
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

    /// Names damage, and keeps a copy of the file.
    fn refuse(&self, path: &Path, offset: u64, what: &str) -> StoreError {
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok()).unwrap_or(0);
        let kept = self.keep_aside(path, number, offset).ok();
        StoreError::Damaged(Box::new(Damage { file: path.to_path_buf(), offset, what: what.to_owned(), kept }))
    }

    /// Copies a segment into `damaged/`, once per place.
    fn keep_aside(&self, path: &Path, number: u64, offset: u64) -> Result<PathBuf, StoreError> {
        let dir = self.dir.join("damaged");
        let copy = dir.join(format!("{number:08}-{offset}.seg"));
        let made = self
            .disk
            .create_dir_all(&dir)
            .and_then(|()| if self.disk.exists(&copy)? { Ok(()) } else { copy_file(&self.disk, path, &copy) });
        made.at("copy", &copy)?;
        Ok(copy)
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

fn copy_file<D: Disk>(disk: &D, from: &Path, to: &Path) -> io::Result<()> {
    let (from, aside) = (disk.open(from, false)?, to.with_extension("tmp"));
    let file = disk.create(&aside)?;
    let (mut at, mut buf) = (0, vec![0; COPY_PIECE]);
    loop {
        let got = from.read_at(&mut buf, at)?;
        let Some(bytes) = buf.get(..got).filter(|bytes| !bytes.is_empty()) else { break };
        file.write_at(bytes, at)?;
        at += got as u64;
    }
    file.sync_data()?;
    disk.rename(&aside, to)?;
    to.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
}

fn spare_number(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.strip_prefix("spare-")?.parse().ok()
}
