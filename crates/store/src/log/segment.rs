//! A sealed segment and its index, loaded from the sidecar when first needed and rebuilt from the records when that is unfit.
//! Not here: the open segment (`view`), the sidecar's bytes (`sidecar`).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::format::{self, SEGMENT_HEAD, SegmentHead};
use super::gap::Gap;
use super::index::{MemIndex, NetworkSpan, Spans};
use super::recover;
use super::sidecar::{self, BloomFilter, Probe, Sidecar, SidecarScope, Unfit};
use crate::disk::{self, Disk};
use crate::error::{At as _, Damage, StoreError};
use crate::record::Lsn;

/// Largest file of an emptied segment.
const FREED_BYTES_MAX: u64 = 64 << 20;

/// Name of a segment file.
pub(crate) fn segment_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.seg"))
}

/// Name of a sidecar file.
pub(crate) fn sidecar_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.idx"))
}

/// A segment that takes no more records.
#[derive(Debug)]
pub(crate) struct Segment<D: Disk> {
    pub(crate) disk: D,
    pub(crate) dir: PathBuf,
    pub(crate) head: SegmentHead,
    /// Where its records end.
    pub(crate) end: u64,
    pub(crate) last_lsn: Lsn,
    /// Length of the file.
    pub(crate) capacity: u64,
    file: OnceLock<Arc<D::File>>,
    index: Mutex<Option<Arc<SegmentIndex<D>>>>,
    /// What it holds of each network, by number.
    spans: OnceLock<Spans>,
    /// From its sidecar.
    filter: OnceLock<BloomFilter>,
    /// Set before the file is reused: what fails to validate then is simply gone.
    retired: AtomicBool,
    /// What cannot be read in it, once its records were scanned.
    gaps: OnceLock<Vec<Gap>>,
    /// Why there is nothing to read at all.
    lost: Option<Damage>,
}

/// Index of a sealed segment.
#[derive(Debug)]
pub(crate) enum SegmentIndex<D: Disk> {
    /// Still in memory: its sidecar is not written yet.
    Memory(MemIndex),
    /// In its sidecar.
    Sidecar(Sidecar<D::File>),
}

impl<D: Disk> Segment<D> {
    pub(crate) fn new(disk: D, dir: PathBuf, head: SegmentHead, end: u64, last_lsn: Lsn, capacity: u64) -> Self {
        Self {
            disk,
            dir,
            head,
            end,
            last_lsn,
            capacity,
            file: OnceLock::new(),
            index: Mutex::new(None),
            spans: OnceLock::new(),
            filter: OnceLock::new(),
            retired: AtomicBool::new(false),
            gaps: OnceLock::new(),
            lost: None,
        }
    }

    /// With what is in memory from its time as the open segment.
    pub(crate) fn with(self, file: Arc<D::File>, index: MemIndex, gaps: Vec<Gap>) -> Self {
        let spans = OnceLock::from(index.spans().collect::<Vec<_>>());
        let index = Mutex::new(Some(Arc::new(SegmentIndex::Memory(index))));
        Self { file: OnceLock::from(file), index, spans, gaps: OnceLock::from(gaps), ..self }
    }

    /// A segment whose file is missing or has no header: all that was in it is lost.
    pub(crate) fn lost(self, damage: &Damage) -> Self {
        let gap = Gap {
            from: damage.offset,
            to: self.end,
            first_lsn: self.head.first_lsn,
            last_lsn: self.last_lsn,
            network: None,
            offset: damage.offset,
            what: "the segment is lost",
        };
        let index = Mutex::new(Some(Arc::new(SegmentIndex::Memory(MemIndex::default()))));
        let (spans, gaps) = (OnceLock::from(Spans::new()), OnceLock::from(vec![gap]));
        Self { index, spans, gaps, lost: Some(damage.clone()), ..self }
    }

    /// Why there is nothing to read in it, if so.
    pub(crate) fn is_lost(&self) -> Option<&Damage> {
        self.lost.as_ref()
    }

    /// What is known not to be readable in it.
    pub(crate) fn gaps(&self) -> &[Gap] {
        self.gaps.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Damage behind `after` of which nobody can tell whose it is. A segment with a good sidecar knows what it held of whom: there a
    /// reader who needs nothing of it does not meet its damage.
    pub(crate) fn lost_to_anybody(&self, after: Lsn) -> Result<Option<Damage>, StoreError> {
        self.spans()?;
        let gap = self.gaps().iter().find(|gap| gap.network.is_none() && gap.last_lsn > after);
        Ok(gap.map(|gap| self.lost.clone().unwrap_or_else(|| gap.damage(&self.path()))))
    }

    pub(crate) fn path(&self) -> PathBuf {
        segment_path(&self.dir, self.head.number)
    }

    pub(crate) fn file(&self) -> Result<Arc<D::File>, StoreError> {
        if let Some(file) = self.file.get() {
            return Ok(Arc::clone(file));
        }
        let path = self.path();
        let file = Arc::new(self.disk.open(&path, false).at("open", &path)?);
        Ok(Arc::clone(self.file.get_or_init(|| file)))
    }

    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    fn about(&self) -> SidecarScope {
        SidecarScope {
            generation: self.head.generation,
            number: self.head.number,
            end: self.end,
            last_lsn: self.last_lsn,
        }
    }

    /// The index, loaded or rebuilt if need be.
    pub(crate) fn index(&self) -> Result<Arc<SegmentIndex<D>>, StoreError> {
        let mut place = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &*place {
            return Ok(Arc::clone(index));
        }
        let index = match self.load_sidecar() {
            _ if self.head.emptied => {
                let spans = self.read_freed()?;
                self.spans.get_or_init(|| spans);
                SegmentIndex::Memory(MemIndex::default())
            }
            Ok((sidecar, spans)) => {
                self.spans.get_or_init(|| spans);
                SegmentIndex::Sidecar(sidecar)
            }
            Err(unfit) => {
                self.warn(&unfit);
                SegmentIndex::Memory(self.rescan_for_good()?)
            }
        };
        let index = Arc::new(index);
        *place = Some(Arc::clone(&index));
        Ok(index)
    }

    /// What it holds of each network, by number.
    pub(crate) fn spans(&self) -> Result<&[(u32, NetworkSpan)], StoreError> {
        if let Some(spans) = self.spans.get() {
            return Ok(spans);
        }
        self.index()?;
        Ok(self.spans.get().map(Vec::as_slice).unwrap_or_default())
    }

    /// What it holds of one network.
    pub(crate) fn span(&self, network: u32) -> Result<Option<NetworkSpan>, StoreError> {
        let spans = self.spans()?;
        let at = spans.binary_search_by_key(&network, |(n, _)| *n).ok();
        Ok(at.and_then(|at| spans.get(at)).map(|(_, span)| *span))
    }

    /// Offset of the nearest indexed event at or before `seq`.
    pub(crate) fn place(&self, network: u32, seq: u64) -> Result<Option<u32>, StoreError> {
        self.ask(|index| match index {
            SegmentIndex::Memory(index) => Ok(index.place(network, seq)),
            SegmentIndex::Sidecar(sidecar) => sidecar.place(network, seq),
        })
    }

    /// Seqs of events with this key; `probe` is made of it.
    pub(crate) fn find(&self, network: u32, key: u64, probe: Probe, out: &mut Vec<u64>) -> Result<(), StoreError> {
        if self.filter.get().is_some_and(|filter| !filter.may_hold(probe)) {
            return Ok(());
        }
        let found = self.ask(|index| {
            let mut found = Vec::new();
            match index {
                SegmentIndex::Memory(index) => index.find(network, key, &mut found),
                SegmentIndex::Sidecar(sidecar) => {
                    if self.filter.get().is_none() {
                        let filter = sidecar.filter()?;
                        self.filter.get_or_init(|| filter);
                    }
                    if self.filter.get().is_some_and(|filter| filter.may_hold(probe)) {
                        sidecar.find(network, key, &mut found)?;
                    }
                }
            }
            Ok(found)
        })?;
        out.extend(found);
        Ok(())
    }

    /// Asks the index; an unfit sidecar is replaced by a rescan and asked again.
    fn ask<T>(&self, question: impl Fn(&SegmentIndex<D>) -> Result<T, Unfit>) -> Result<T, StoreError> {
        let unfit = match question(&*self.index()?) {
            Ok(answer) => return Ok(answer),
            Err(unfit) => unfit,
        };
        self.warn(&unfit);
        let index = Arc::new(SegmentIndex::Memory(self.rescan_for_good()?));
        *self.index.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&index));
        question(&index).map_err(|unfit| self.unfit(unfit))
    }

    /// What an emptied segment held of each network: no events, only how far it went.
    fn read_freed(&self) -> Result<Spans, StoreError> {
        let path = self.path();
        let bytes = disk::read_all(&self.disk, &path, FREED_BYTES_MAX).at("read", &path)?;
        let freed = format::decode_freed(bytes.get(SEGMENT_HEAD..).unwrap_or_default());
        let freed =
            freed.ok_or_else(|| StoreError::damaged(&path, SEGMENT_HEAD as u64, "list of what was freed is bad"))?;
        let first_lsn = self.head.first_lsn;
        let span = |last_lsn| NetworkSpan { first_seq: 0, last_seq: 0, events: 0, max_seq: 0, first_lsn, last_lsn };
        Ok(freed.into_iter().map(|(network, last_lsn)| (network, span(last_lsn))).collect())
    }

    fn load_sidecar(&self) -> Result<(Sidecar<D::File>, Spans), Unfit> {
        let file = self.disk.open(&sidecar_path(&self.dir, self.head.number), false)?;
        Sidecar::load(file, &self.about())
    }

    /// The index as the records themselves give it, to be asked from now on.
    fn rescan_for_good(&self) -> Result<MemIndex, StoreError> {
        let (index, gaps) = self.rescan()?;
        self.spans.get_or_init(|| index.spans().collect());
        for gap in &gaps {
            tracing::error!(damage = %gap.damage(&self.path()), network = ?gap.network, "records are lost");
        }
        self.gaps.get_or_init(|| gaps);
        Ok(index)
    }

    /// The index as the records themselves give it, and what cannot be read of them.
    pub(crate) fn rescan(&self) -> Result<(MemIndex, Vec<Gap>), StoreError> {
        if self.head.emptied || self.lost.is_some() {
            return Ok((MemIndex::default(), self.gaps().to_vec()));
        }
        let path = self.path();
        let scan = recover::scan_over(&self.file()?, &path, &self.head, self.end, self.last_lsn)?;
        if self.is_retired() {
            return Ok((MemIndex::default(), Vec::new()));
        }
        if scan.last_lsn != self.last_lsn {
            let what = format!("ends with LSN {}, not {}", scan.last_lsn, self.last_lsn);
            return Err(StoreError::damaged(&path, scan.end, what));
        }
        Ok((scan.index, scan.gaps))
    }

    /// Writes the sidecar if the index is only in memory. Returns whether it did.
    pub(crate) fn write_sidecar(&self) -> Result<bool, StoreError> {
        // A sidecar without what is lost would hide that it is.
        if self.head.emptied || !self.gaps().is_empty() {
            return Ok(false);
        }
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(index) = index else { return Ok(false) };
        let SegmentIndex::Memory(memory) = &*index else { return Ok(false) };
        let path = sidecar_path(&self.dir, self.head.number);
        disk::replace(&self.disk, &path, &sidecar::encode(&self.about(), memory)).at("write", &path)?;
        let (sidecar, _) = self.load_sidecar().map_err(|unfit| self.unfit(unfit))?;
        let index = Arc::new(SegmentIndex::Sidecar(sidecar));
        *self.index.lock().unwrap_or_else(PoisonError::into_inner) = Some(index);
        Ok(true)
    }

    /// Whether the index was asked for since the log was opened.
    pub(crate) fn is_loaded(&self) -> bool {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Whether the sidecar on disk is what the records give.
    pub(crate) fn compare_sidecar(&self, index: &MemIndex) -> Result<bool, StoreError> {
        let path = sidecar_path(&self.dir, self.head.number);
        let right = sidecar::encode(&self.about(), index);
        let found = disk::read_all(&self.disk, &path, right.len() as u64 + 1);
        Ok(found.is_ok_and(|found| found == right))
    }

    fn unfit(&self, unfit: Unfit) -> StoreError {
        let path = sidecar_path(&self.dir, self.head.number);
        match unfit {
            Unfit::Io(error) => StoreError::io("read", &path, error),
            Unfit::Bad { offset, what } => StoreError::damaged(&path, offset, what),
        }
    }

    fn warn(&self, unfit: &Unfit) {
        let path = sidecar_path(&self.dir, self.head.number);
        match unfit {
            Unfit::Io(error) => tracing::warn!(file = %path.display(), %error, "sidecar not readable, rebuilding it"),
            Unfit::Bad { offset, what } => {
                tracing::warn!(file = %path.display(), offset, what, "sidecar damaged, rebuilding it");
            }
        }
    }
}
