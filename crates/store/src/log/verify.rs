//! Reads every record of a log again and compares every sidecar with its segment.
//! Not here: snapshots and blobs.

use std::sync::Arc;

use super::format::SegmentHead;
use super::recover;
use super::segment::{Segment, segment_path, sidecar_path};
use super::view::LogView;
use crate::disk::{Disk, DiskFile as _};
use crate::error::{At as _, Damage, StoreError};
use crate::record::Lsn;
use crate::store::VerifyReport;

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
            let (found, records) =
                verify_segment(self, &segment.file()?, &segment.head, segment.end, segment.last_lsn)?;
            if segment.is_retired() {
                continue;
            }
            report.segments += 1;
            report.records += records;
            match found {
                Some(damage) => report.damage.push(damage),
                None => report.damage.extend(self.verify_sidecar(segment)?),
            }
            step(segment.end);
        }
        let (file, head, end, last_lsn) = open;
        let (found, records) = verify_segment(self, &file, &head, end, last_lsn)?;
        report.segments += 1;
        report.records += records;
        report.damage.extend(found);
        step(end);
        Ok(())
    }

    fn verify_sidecar(&self, segment: &Segment<D>) -> Result<Option<Damage>, StoreError> {
        let path = sidecar_path(&self.dir, segment.head.number);
        // Not written yet, or to be rebuilt: nothing to compare.
        if segment.head.emptied
            || !self.disk.exists(&path).at("look for", &path)?
            || segment.compare_sidecar(&segment.rescan()?)?
        {
            return Ok(None);
        }
        Ok(Some(Damage { file: path, offset: 0, what: "sidecar differs from its segment".to_owned(), kept: None }))
    }
}

/// Checks the header and every record of a segment; also says how many records are right.
fn verify_segment<D: Disk>(
    view: &LogView<D>,
    file: &Arc<D::File>,
    head: &SegmentHead,
    end: u64,
    last_lsn: Lsn,
) -> Result<(Option<Damage>, u64), StoreError> {
    let path = segment_path(&view.dir, head.number);
    let damage = |offset, what: &str| Damage { file: path.clone(), offset, what: what.to_owned(), kept: None };
    let mut bytes = [0; super::format::SEGMENT_HEAD];
    let got = file.read_at(&mut bytes, 0).at("read", &path)?;
    match SegmentHead::decode(bytes.get(..got).unwrap_or_default()) {
        Ok(found) if found == *head => {}
        Ok(_) => return Ok((Some(damage(0, "segment header changed")), 0)),
        Err(what) => return Ok((Some(damage(0, what)), 0)),
    }
    let scan = recover::scan(file, &path, head, end)?;
    let found = match scan.stopped {
        Some((offset, what)) => Some(damage(offset, what)),
        None if scan.last_lsn != last_lsn && !head.emptied => Some(damage(scan.end, "segment ends with the wrong LSN")),
        None => None,
    };
    Ok((found, scan.records))
}
