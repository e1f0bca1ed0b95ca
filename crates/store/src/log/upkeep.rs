//! Upkeep of a log's files, done aside of the writer: sidecars of sealed segments, a spare segment, the control file, and the freeing
//! of old segments.
//! Not here: what may be freed (the caller says, by seq horizons and snapshots).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use super::control::Control;
use super::format::{self, SEGMENT_HEAD, SegmentHead};
use super::index::NetworkSpan;
use super::segment::{Segment, sidecar_path};
use super::view::{LogView, Spare};
use crate::disk::{self, Disk, DiskFile as _};
use crate::error::{At as _, StoreError};
use crate::record::Lsn;

const SPARES_MAX: usize = 2;

/// What freeing segments gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Freed {
    /// Segments that are gone from the log.
    pub segments: u64,
    /// Bytes of records in them.
    pub bytes: u64,
    /// Networks that need nothing of some segment any more but have no two snapshots that cover it: newer ones free it.
    pub held_by: BTreeSet<u32>,
}

/// Whether a network still needs what a segment holds of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Its records are read.
    Records,
    /// Its state is not in its snapshots yet.
    Snapshots,
    Nothing,
}

impl<D: Disk> LogView<D> {
    /// Does whatever upkeep is due. May be called at any time from any thread.
    pub(crate) fn tidy(&self) -> Result<(), StoreError> {
        let _upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        self.make_spare()?;
        self.update_control()?;
        let sealed = Arc::clone(&self.read_inner().sealed);
        for segment in sealed.iter().filter(|segment| !segment.head.emptied) {
            if !segment.is_loaded() && !self.disk.exists(&sidecar_path(&self.dir, segment.head.number)).unwrap_or(true)
            {
                segment.index()?;
            }
            segment.write_sidecar()?;
        }
        Ok(())
    }

    fn control_path(&self) -> PathBuf {
        self.dir.join("control")
    }

    /// Writes down what is flushed by now. Until then only a later batch says so: damage of the last batches before a
    /// crash would look like an unfinished write.
    pub(crate) fn note_durable(&self) -> Result<(), StoreError> {
        let _upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        self.update_control()
    }

    fn update_control(&self) -> Result<(), StoreError> {
        let control = {
            let inner = self.read_inner();
            let oldest = inner.sealed.first().map_or(inner.open.head.number, |segment| segment.head.number);
            let durable = inner.open.durable.max(inner.control.durable);
            let control = Control { oldest, newest: inner.open.head.number, durable, clean_end: 0 };
            if control == inner.control {
                return Ok(());
            }
            control
        };
        self.write_control(control)
    }

    /// Writes the control file; the caller holds the upkeep lock.
    pub(crate) fn write_control(&self, control: Control) -> Result<(), StoreError> {
        let path = self.control_path();
        disk::replace(&self.disk, &path, &control.encode()).at("write", &path)?;
        self.write_inner().control = control;
        Ok(())
    }

    fn make_spare(&self) -> Result<(), StoreError> {
        let (capacity, path) = {
            let mut inner = self.write_inner();
            let Some(capacity) = inner.spare_wanted.take() else { return Ok(()) };
            if inner.spares.iter().any(|spare| spare.capacity >= capacity) {
                return Ok(());
            }
            inner.spares_made += 1;
            (capacity, self.dir.join(format!("spare-{}.seg", inner.spares_made)))
        };
        if self.budget.take(capacity).is_err() {
            // The roll will say so to whoever writes then.
            return Ok(());
        }
        let made = self.disk.create(&path).and_then(|file| {
            file.preallocate(capacity)?;
            file.sync_data()
        });
        if let Err(error) = made {
            self.budget.give(capacity);
            let _ = self.disk.remove(&path);
            return Err(StoreError::io("preallocate", &path, error));
        }
        self.write_inner().spares.push(Spare { path, capacity, written: 0 });
        Ok(())
    }

    /// Frees every sealed segment of which no network needs anything. Files at the beginning of the log go; of one between
    /// others the header stays, so that a file that is missing is still noticed.
    pub(crate) fn recycle(&self, need: &dyn Fn(u32, &NetworkSpan) -> Need) -> Result<Freed, StoreError> {
        let _upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let sealed = Arc::clone(&self.read_inner().sealed);
        let mut freed = Freed::default();
        let mut free = Vec::with_capacity(sealed.len());
        for segment in sealed.iter() {
            if self.has_fresh_damage(segment) {
                // What it held of whom is not known for sure, and somebody may want to look at it.
                free.push(false);
                continue;
            }
            let needs: Vec<(u32, Need)> =
                segment.spans()?.iter().map(|(network, span)| (*network, need(*network, span))).collect();
            if needs.iter().all(|(_, need)| *need != Need::Records) {
                let lacks = needs.iter().filter(|(_, need)| *need == Need::Snapshots).map(|(network, _)| *network);
                freed.held_by.extend(lacks);
            }
            free.push(needs.iter().all(|(_, need)| *need == Need::Nothing));
        }
        let first_kept = free.iter().position(|free| !free).unwrap_or(free.len());
        self.remove_first(sealed.get(..first_kept).unwrap_or_default(), &mut freed)?;
        for (segment, free) in sealed.iter().zip(free).skip(first_kept) {
            if free && !segment.head.emptied {
                self.empty(segment)?;
                freed.segments += 1;
                freed.bytes += segment.end;
            }
        }
        Ok(freed)
    }

    /// Whether something in a segment is lost and nobody has taken note of it.
    fn has_fresh_damage(&self, segment: &Segment<D>) -> bool {
        let inner = self.read_inner();
        let number = segment.head.number;
        segment.gaps().iter().any(|gap| !inner.written_off.iter().any(|gone| gone.covers(number, gap)))
    }

    /// Frees the files of the oldest segments.
    fn remove_first(&self, going: &[Arc<Segment<D>>], freed: &mut Freed) -> Result<(), StoreError> {
        let Some(last) = going.last() else { return Ok(()) };
        // The control file first: a crash before the files are gone leaves nothing that looks lost.
        let mut control = self.read_inner().control;
        control.oldest = last.head.number + 1;
        control.clean_end = 0;
        self.write_control(control)?;
        Arc::make_mut(&mut self.write_inner().sealed).drain(..going.len());
        for segment in going {
            segment.retire();
            if !segment.head.emptied {
                freed.segments += 1;
                freed.bytes += segment.end;
            }
            self.release(segment)?;
        }
        self.disk.sync_dir(&self.dir).at("flush", &self.dir)
    }

    /// Puts a header without records in the place of a segment, and what it held of whom.
    fn empty(&self, segment: &Arc<Segment<D>>) -> Result<(), StoreError> {
        let head = SegmentHead { emptied: true, ..segment.head };
        let path = segment.path();
        let freed: Vec<(u32, Lsn)> = segment.spans()?.iter().map(|(network, span)| (*network, span.last_lsn)).collect();
        let mut bytes = head.encode().to_vec();
        bytes.extend_from_slice(&format::encode_freed(&freed));
        disk::replace(&self.disk, &path, &bytes).at("write", &path)?;
        segment.retire();
        let (end, capacity) = (SEGMENT_HEAD as u64, bytes.len() as u64);
        let emptied = Segment::new(self.disk.clone(), self.dir.clone(), head, end, segment.last_lsn, capacity);
        let mut inner = self.write_inner();
        for place in Arc::make_mut(&mut inner.sealed) {
            if place.head.number == head.number {
                *place = Arc::new(emptied);
                break;
            }
        }
        drop(inner);
        self.budget.give(segment.capacity.saturating_sub(capacity));
        self.remove_sidecar(segment)?;
        self.disk.sync_dir(&self.dir).at("flush", &self.dir)
    }

    fn remove_sidecar(&self, segment: &Segment<D>) -> Result<(), StoreError> {
        let sidecar = sidecar_path(&self.dir, segment.head.number);
        if self.disk.exists(&sidecar).at("look for", &sidecar)? {
            self.disk.remove(&sidecar).at("remove", &sidecar)?;
        }
        Ok(())
    }

    /// Makes a spare of a freed segment's file, or removes it.
    fn release(&self, segment: &Arc<Segment<D>>) -> Result<(), StoreError> {
        self.remove_sidecar(segment)?;
        let path = segment.path();
        if segment.is_lost().is_some() {
            // There is no file of this name, or none that is known to be a segment: it stays as it is.
            return Ok(());
        }
        let spare = {
            let mut inner = self.write_inner();
            let useful =
                !segment.head.emptied && inner.spares.len() < SPARES_MAX && segment.capacity >= inner.open.capacity;
            inner.spares_made += u64::from(useful);
            useful.then(|| self.dir.join(format!("spare-{}.seg", inner.spares_made)))
        };
        match spare {
            Some(spare) => {
                self.disk.rename(&path, &spare).at("rename", &path)?;
                let spare = Spare { path: spare, capacity: segment.capacity, written: segment.end };
                self.write_inner().spares.push(spare);
            }
            None => {
                self.disk.remove(&path).at("remove", &path)?;
                self.budget.give(segment.capacity);
            }
        }
        Ok(())
    }
}
