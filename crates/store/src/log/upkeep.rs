//! Upkeep of a log's files, done aside of the writer: sidecars of sealed segments, a spare segment, the control file, and the freeing
//! of old segments.
//! Not here: what may be freed (the caller says, by seq horizons and snapshots).

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use super::control::Control;
use super::index::Span;
use super::segment::{Segment, sidecar_path};
use super::view::{LogView, Spare};
use crate::disk::{self, Disk, DiskFile as _};
use crate::error::{At as _, StoreError};

const SPARES_MAX: usize = 2;

/// What freeing segments gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Freed {
    /// Segments that are gone from the log.
    pub segments: u64,
    /// Bytes of records in them.
    pub bytes: u64,
}

impl<D: Disk> LogView<D> {
    /// Does whatever upkeep is due. May be called at any time from any thread.
    pub(crate) fn tidy(&self) -> Result<(), StoreError> {
        let _upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        self.make_spare()?;
        self.update_control()?;
        let sealed = Arc::clone(&self.read_inner().sealed);
        for segment in sealed.iter() {
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

    /// Frees the oldest sealed segments as long as `may_go` holds for every network in them.
    pub(crate) fn recycle(&self, may_go: &dyn Fn(u32, &Span) -> bool) -> Result<Freed, StoreError> {
        let _upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let sealed = Arc::clone(&self.read_inner().sealed);
        let mut going = Vec::new();
        for segment in sealed.iter() {
            if !segment.spans()?.iter().all(|(network, span)| may_go(*network, span)) {
                break;
            }
            going.push(Arc::clone(segment));
        }
        let Some(last) = going.last() else { return Ok(Freed::default()) };
        // The control file first: a crash before the files are gone leaves nothing that looks lost.
        let mut control = self.read_inner().control;
        control.oldest = last.head.number + 1;
        control.clean_end = 0;
        self.write_control(control)?;
        Arc::make_mut(&mut self.write_inner().sealed).drain(..going.len());
        let mut freed = Freed::default();
        for segment in &going {
            segment.retire();
            freed.segments += 1;
            freed.bytes += segment.end;
            self.release(segment)?;
        }
        self.disk.sync_dir(&self.dir).at("flush", &self.dir)?;
        Ok(freed)
    }

    /// Makes a spare of a freed segment's file, or removes it.
    fn release(&self, segment: &Arc<Segment<D>>) -> Result<(), StoreError> {
        let sidecar = sidecar_path(&self.dir, segment.head.number);
        if self.disk.exists(&sidecar).at("look for", &sidecar)? {
            self.disk.remove(&sidecar).at("remove", &sidecar)?;
        }
        let path = segment.path();
        let spare = {
            let mut inner = self.write_inner();
            let useful = inner.spares.len() < SPARES_MAX && segment.capacity >= inner.open.capacity;
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
