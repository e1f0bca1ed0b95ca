//! Reads every record of a log again and compares every sidecar with its segment.
//! Not here: snapshots and blobs.

use std::sync::{Arc, PoisonError};

use super::format::SegmentHead;
use super::gap::Gap;
use super::recover::{self, RecoveryScan};
use super::segment::{Segment, segment_path, sidecar_path};
use super::view::LogView;
use super::writeoff::{self, WrittenOff, keep_aside};
use crate::disk::{Disk, DiskFile as _};
use crate::error::{At as _, Damage, StoreError};
use crate::record::Lsn;
use crate::store::{Loss, VerifyReport};

impl<D: Disk> LogView<D> {
    /// Bytes that `verify` will read.
    pub(crate) fn bytes(&self) -> u64 {
        let inner = self.read_inner();
        inner.sealed.iter().map(|segment| segment.end).sum::<u64>() + inner.open.end
    }

    /// Checks every segment; `step` gets the bytes of each.
    pub(crate) fn verify(&self, report: &mut VerifyReport, step: &mut dyn FnMut(u64)) -> Result<(), StoreError> {
        let (sealed, open) = {
            let inner = self.read_inner();
            let open = &inner.open;
            (Arc::clone(&inner.sealed), (Arc::clone(&open.file), open.head, open.end, open.last_lsn))
        };
        for segment in sealed.iter() {
            step(segment.end);
            if segment.is_lost().is_some() {
                report.segments += 1;
                self.judge(segment.head.number, segment.gaps(), report);
                continue;
            }
            let about = (segment.head, segment.end, segment.last_lsn);
            let (head, scan) = read_segment(self, &segment.file()?, about)?;
            if segment.is_retired() {
                continue;
            }
            report.segments += 1;
            report.records += scan.records;
            let whole = head.is_none() && scan.gaps.is_empty();
            report.damage.extend(head);
            self.judge(segment.head.number, &scan.gaps, report);
            if whole {
                report.damage.extend(self.verify_sidecar(segment)?);
            }
        }
        let (file, head, end, last_lsn) = open;
        let (bad_head, scan) = read_segment(self, &file, (head, end, last_lsn))?;
        report.segments += 1;
        report.records += scan.records;
        report.damage.extend(bad_head);
        self.judge(head.number, &scan.gaps, report);
        step(end);
        Ok(())
    }

    /// Everything in this log that cannot be read, by segment.
    fn scan_for_gaps(&self) -> Result<Vec<(u64, Gap)>, StoreError> {
        let (sealed, open) = {
            let inner = self.read_inner();
            let open = &inner.open;
            (Arc::clone(&inner.sealed), (Arc::clone(&open.file), open.head, open.end, open.last_lsn))
        };
        let mut found = Vec::new();
        for segment in sealed.iter().filter(|segment| !segment.is_retired()) {
            let (_, gaps) = segment.rescan()?;
            found.extend(gaps.into_iter().map(|gap| (segment.head.number, gap)));
        }
        let (file, head, end, last_lsn) = open;
        let scan = recover::scan_over(&file, &segment_path(&self.dir, head.number), &head, end, last_lsn)?;
        found.extend(scan.gaps.into_iter().map(|gap| (head.number, gap)));
        Ok(found)
    }

    /// What cannot be read and was not written off.
    pub(crate) fn losses(&self) -> Result<Vec<Loss>, StoreError> {
        let found = self.scan_for_gaps()?;
        let inner = self.read_inner();
        let fresh = |(number, gap): &&(u64, Gap)| !inner.written_off.iter().any(|gone| gone.covers(*number, gap));
        Ok(found.iter().filter(fresh).map(|(number, gap)| self.loss(*number, gap)).collect())
    }

    fn loss(&self, number: u64, gap: &Gap) -> Loss {
        let (class, network, damage) = (self.class, gap.network, gap.damage(&segment_path(&self.dir, number)));
        Loss { class, network, first_lsn: gap.first_lsn, last_lsn: gap.last_lsn, damage }
    }

    /// Lets all that cannot be read count as gone, after a copy of each segment in question was kept.
    pub(crate) fn write_off(&self) -> Result<Vec<Loss>, StoreError> {
        let found = self.scan_for_gaps()?;
        let _upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut list, oldest) = {
            let inner = self.read_inner();
            let oldest = inner.sealed.first().map_or(inner.open.head.number, |segment| segment.head.number);
            (inner.written_off.clone(), oldest)
        };
        let mut losses = Vec::new();
        for (number, gap) in &found {
            if list.iter().any(|gone| gone.covers(*number, gap)) {
                continue;
            }
            let path = segment_path(&self.dir, *number);
            let mut loss = self.loss(*number, gap);
            if self.disk.exists(&path).at("look for", &path)? {
                loss.damage.kept = Some(keep_aside(&self.disk, &self.dir, *number, gap.offset)?);
            }
            losses.push(loss);
            list.push(WrittenOff::new(*number, gap));
        }
        if !losses.is_empty() {
            list.retain(|gone| gone.segment >= oldest || gone.is_cut());
            writeoff::save(&self.disk, &self.dir, &list)?;
            self.write_inner().written_off = list;
        }
        Ok(losses)
    }

    /// Lets every record of a network that is here now and comes after an LSN count as gone.
    pub(crate) fn cut_back(&self, network: u32, after: Lsn) -> Result<(), StoreError> {
        let _upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut list, last_lsn) = {
            let inner = self.read_inner();
            (inner.written_off.clone(), inner.open.last_lsn)
        };
        let cut = WrittenOff::cut(network, after + 1, last_lsn);
        if list.contains(&cut) {
            return Ok(());
        }
        list.push(cut);
        writeoff::save(&self.disk, &self.dir, &list)?;
        self.write_inner().written_off = list;
        Ok(())
    }

    /// Whether a network was given up.
    pub(crate) fn is_given_up(&self, network: u32) -> bool {
        self.given_up().contains(&network)
    }

    /// Networks that were given up.
    pub(crate) fn given_up(&self) -> Vec<u32> {
        let inner = self.read_inner();
        let whole = inner.written_off.iter().filter(|gone| gone.is_cut() && gone.first_lsn == 1);
        whole.filter_map(|gone| gone.network).collect()
    }

    /// Sorts what cannot be read into what is new and what counts as gone.
    fn judge(&self, number: u64, gaps: &[Gap], report: &mut VerifyReport) {
        let inner = self.read_inner();
        for gap in gaps {
            let known = inner.written_off.iter().any(|gone| gone.covers(number, gap));
            let list = if known { &mut report.written_off } else { &mut report.damage };
            list.push(gap.damage(&segment_path(&self.dir, number)));
        }
    }

    fn verify_sidecar(&self, segment: &Segment<D>) -> Result<Option<Damage>, StoreError> {
        let path = sidecar_path(&self.dir, segment.head.number);
        // Not written yet, or to be rebuilt: nothing to compare.
        if segment.head.emptied
            || !self.disk.exists(&path).at("look for", &path)?
            || segment.compare_sidecar(&segment.rescan()?.0)?
        {
            return Ok(None);
        }
        Ok(Some(Damage { file: path, offset: 0, what: "sidecar differs from its segment".to_owned(), kept: None }))
    }
}

/// Reads the header and every record of a segment; gives what is wrong with the header, and the scan.
fn read_segment<D: Disk>(
    view: &LogView<D>,
    file: &Arc<D::File>,
    (head, end, last_lsn): (SegmentHead, u64, Lsn),
) -> Result<(Option<Damage>, RecoveryScan), StoreError> {
    let path = segment_path(&view.dir, head.number);
    let damage = |offset, what: &str| Damage { file: path.clone(), offset, what: what.to_owned(), kept: None };
    let mut bytes = [0; super::format::SEGMENT_HEAD];
    let got = file.read_at(&mut bytes, 0).at("read", &path)?;
    let bad = match SegmentHead::decode(bytes.get(..got).unwrap_or_default()) {
        Ok(found) if found == head => None,
        Ok(_) => Some(damage(0, "segment header changed")),
        Err(what) => Some(damage(0, what)),
    };
    let through = if head.emptied { 0 } else { last_lsn };
    let scan = recover::scan_over(file, &path, &head, end, through)?;
    let ends = if scan.last_lsn != last_lsn && !head.emptied {
        Some(damage(scan.end, "segment ends with the wrong LSN"))
    } else {
        None
    };
    Ok((bad.or(ends), scan))
}
