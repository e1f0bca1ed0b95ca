//! Overwriting records in place. A power cut in the middle leaves every record as it was or as it is to be: the new bytes are
//! flushed to the file `overwrite` of the log's directory first, and a log that finds this file when it is opened writes them again.
//! Not here: which records are overwritten, and with what (the caller says).

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use super::format::{SEGMENT_HEAD, Seed, SegmentHead, mend_head, put, u32_at, u64_at};
use super::index::NetworkSpan;
use super::segment::segment_path;
use super::view::LogView;
use super::walk::Walker;
use crate::disk::{self, Disk, DiskFile as _};
use crate::error::{At as _, StoreError};
use crate::record::Lsn;
use crate::store::Rewrite;

const MAGIC: u64 = u64::from_le_bytes(*b"RIALTOOW");
/// Magic(8), CRC of what follows(4), zeros(4), segment(8), its generation(8).
const HEAD: usize = 32;
/// Position(8) and length(4) before the bytes of each record.
const PATCH_HEAD: usize = 12;
/// The new records of one segment, which is smaller than this.
const FILE_BYTES_MAX: u64 = 1 << 32;

/// A whole record, header and CRC included, and where in its segment it lies.
pub(super) type RecordPatch = (u64, Vec<u8>);

fn file_path(dir: &Path) -> PathBuf {
    dir.join("overwrite")
}

/// Overwrites records of one segment, durably. The caller holds the upkeep lock.
fn apply<D: Disk>(disk: &D, dir: &Path, head: &SegmentHead, patches: &[RecordPatch]) -> Result<(), StoreError> {
    if patches.is_empty() {
        return Ok(());
    }
    // One that failed before is not forgotten: the disk may have half of it.
    finish(disk, dir)?;
    let path = file_path(dir);
    disk::replace(disk, &path, &encode(head, patches)).at("write", &path)?;
    write(disk, dir, head.number, patches)?;
    remove(disk, dir, &path)
}

/// Does again what a crash may have left half done.
pub(super) fn finish<D: Disk>(disk: &D, dir: &Path) -> Result<(), StoreError> {
    let path = file_path(dir);
    let bytes = match disk::read_all(disk, &path, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(StoreError::io("read", &path, error)),
    };
    match decode(&bytes) {
        Some((number, generation, patches)) if generation_of(disk, dir, number)? == Some(generation) => {
            write(disk, dir, number, &patches)?;
        }
        // The segment was freed since.
        Some(_) => {}
        None => tracing::warn!(file = %path.display(), "what was to be overwritten cannot be read; it stays as it is"),
    }
    remove(disk, dir, &path)
}

/// Removes the file for good: written again after a later overwrite, it would bring back what that one took away.
fn remove<D: Disk>(disk: &D, dir: &Path, path: &Path) -> Result<(), StoreError> {
    disk.remove(path).at("remove", path)?;
    disk.sync_dir(dir).at("flush", dir)
}

fn write<D: Disk>(disk: &D, dir: &Path, number: u64, patches: &[RecordPatch]) -> Result<(), StoreError> {
    let path = segment_path(dir, number);
    let file = disk.open(&path, true).at("open", &path)?;
    for (position, record) in patches {
        file.write_at(record, *position).at("write", &path)?;
    }
    file.sync_data().at("flush", &path)
}

/// The generation of a segment, if its file is there.
fn generation_of<D: Disk>(disk: &D, dir: &Path, number: u64) -> Result<Option<u64>, StoreError> {
    let path = segment_path(dir, number);
    if !disk.exists(&path).at("look for", &path)? {
        return Ok(None);
    }
    let mut bytes = [0; SEGMENT_HEAD];
    let got = disk.open(&path, false).and_then(|file| file.read_at(&mut bytes, 0)).at("read", &path)?;
    let bytes = bytes.get(..got).unwrap_or_default();
    Ok(SegmentHead::decode(bytes).ok().or_else(|| mend_head(bytes)).map(|head| head.generation))
}

fn encode(head: &SegmentHead, patches: &[RecordPatch]) -> Vec<u8> {
    let mut out = vec![0; HEAD];
    put(&mut out, 0, &MAGIC.to_le_bytes());
    put(&mut out, 16, &head.number.to_le_bytes());
    put(&mut out, 24, &head.generation.to_le_bytes());
    for (position, record) in patches {
        out.extend_from_slice(&position.to_le_bytes());
        out.extend_from_slice(&u32::try_from(record.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(record);
    }
    let crc = crc32c::crc32c(out.get(16..).unwrap_or_default());
    put(&mut out, 8, &crc.to_le_bytes());
    out
}

/// Segment, generation and records of such a file.
fn decode(bytes: &[u8]) -> Option<(u64, u64, Vec<RecordPatch>)> {
    let (head, mut rest) = bytes.split_at_checked(HEAD)?;
    if u64_at(head, 0) != MAGIC || u32_at(head, 8) != crc32c::crc32c(bytes.get(16..)?) {
        return None;
    }
    let mut patches = Vec::new();
    while !rest.is_empty() {
        let (before, behind) = rest.split_at_checked(PATCH_HEAD)?;
        let (record, next) = behind.split_at_checked(u32_at(before, 8) as usize)?;
        patches.push((u64_at(before, 0), record.to_vec()));
        rest = next;
    }
    Some((u64_at(head, 16), u64_at(head, 24), patches))
}

/// A segment whose records are walked over.
struct SegmentWalk<D: Disk> {
    head: SegmentHead,
    file: Arc<D::File>,
    end: u64,
}

impl<D: Disk> LogView<D> {
    /// Shows the records of a network with these LSNs, in order, as far as they are here; a body that `change` gives for one takes
    /// the place of its own. Returns how many were replaced.
    pub(crate) fn rewrite(
        &self,
        network: u32,
        lsns: &RangeInclusive<Lsn>,
        change: Rewrite<'_>,
    ) -> Result<u64, StoreError> {
        let concerns = |span: NetworkSpan| span.last_lsn >= *lsns.start() && span.first_lsn <= *lsns.end();
        let (sealed, open) = {
            let inner = self.read_inner();
            let part = SegmentWalk { head: inner.open.head, file: Arc::clone(&inner.open.file), end: inner.open.end };
            (Arc::clone(&inner.sealed), inner.open.index.span(network).is_some_and(concerns).then_some(part))
        };
        let mut replaced = 0;
        for segment in sealed.iter().filter(|segment| !segment.head.emptied) {
            if !segment.span(network)?.is_some_and(concerns) {
                continue;
            }
            // A file that is freed may become another segment.
            let _upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
            if !segment.is_retired() {
                let part = SegmentWalk { head: segment.head, file: segment.file()?, end: segment.end };
                replaced += self.rewrite_part(part, network, lsns, change)?;
            }
        }
        if let Some(part) = open {
            let _upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
            replaced += self.rewrite_part(part, network, lsns, change)?;
        }
        Ok(replaced)
    }

    fn rewrite_part(
        &self,
        part: SegmentWalk<D>,
        network: u32,
        lsns: &RangeInclusive<Lsn>,
        change: Rewrite<'_>,
    ) -> Result<u64, StoreError> {
        let SegmentWalk { head, file, end } = part;
        let path = segment_path(&self.dir, head.number);
        let walker = Walker::new(file, path, Seed::of(head.generation), SEGMENT_HEAD as u64, end);
        let mut walker = walker.whole().expecting(head.first_lsn);
        let mut patches = Vec::new();
        while walker.settle(Some(network), lsns.start().saturating_sub(1))? {
            let Some(record) = walker.current().filter(|record| record.lsn <= *lsns.end()) else { break };
            if let Some(body) = change(record) {
                patches.push(walker.with_body(&body)?);
            }
            walker.advance();
        }
        self.overwrite(&head, &patches)?;
        Ok(patches.len() as u64)
    }

    /// Overwrites records of one segment, durably. The caller holds the upkeep lock.
    pub(super) fn overwrite(&self, head: &SegmentHead, patches: &[RecordPatch]) -> Result<(), StoreError> {
        // The writer has the last block of the open segment in memory and writes it again: not now, and not as it was.
        let mut overwritten = self.overwritten.lock().unwrap_or_else(PoisonError::into_inner);
        *overwritten = true;
        let done = apply(&self.disk, &self.dir, head, patches);
        self.write_inner().fresh.clear();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::disk::fault::FaultDisk;

    const DIR: &str = "/log";

    fn head(number: u64, generation: u64) -> SegmentHead {
        SegmentHead {
            generation,
            number,
            first_lsn: 1,
            previous: 0,
            previous_end: 0,
            class: Class::STD,
            emptied: false,
        }
    }

    /// A segment of which only the header and some bytes matter.
    fn segment(disk: &FaultDisk, head: &SegmentHead) {
        let file = disk.create(&segment_path(Path::new(DIR), head.number)).unwrap();
        file.write_at(&head.encode(), 0).unwrap();
        file.write_at(b"abcdefgh", SEGMENT_HEAD as u64).unwrap();
        file.sync_data().unwrap();
    }

    fn bytes(disk: &FaultDisk, number: u64) -> Vec<u8> {
        let file = disk.open(&segment_path(Path::new(DIR), number), false).unwrap();
        let mut bytes = [0; 8];
        file.read_at(&mut bytes, SEGMENT_HEAD as u64).unwrap();
        bytes.to_vec()
    }

    fn patches() -> Vec<RecordPatch> {
        vec![(SEGMENT_HEAD as u64, b"##".to_vec()), (SEGMENT_HEAD as u64 + 6, b"!!".to_vec())]
    }

    #[test]
    fn records_are_overwritten_and_the_file_goes() {
        let (disk, dir) = (FaultDisk::new(1), Path::new(DIR));
        disk.create_dir_all(dir).unwrap();
        segment(&disk, &head(3, 9));
        apply(&disk, dir, &head(3, 9), &patches()).unwrap();
        assert_eq!(bytes(&disk, 3), b"##cdef!!");
        assert!(!disk.exists(&file_path(dir)).unwrap());
    }

    #[test]
    fn what_was_cut_short_is_done_at_the_next_opening() {
        let (disk, dir) = (FaultDisk::new(1), Path::new(DIR));
        disk.create_dir_all(dir).unwrap();
        segment(&disk, &head(3, 9));
        disk::replace(&disk, &file_path(dir), &encode(&head(3, 9), &patches())).unwrap();
        finish(&disk, dir).unwrap();
        finish(&disk, dir).unwrap();
        assert_eq!(bytes(&disk, 3), b"##cdef!!");
        assert!(!disk.exists(&file_path(dir)).unwrap());
    }

    #[test]
    fn another_segment_of_the_same_number_is_left_alone() {
        let (disk, dir) = (FaultDisk::new(1), Path::new(DIR));
        disk.create_dir_all(dir).unwrap();
        segment(&disk, &head(3, 10));
        for number in [3, 4] {
            disk::replace(&disk, &file_path(dir), &encode(&head(number, 9), &patches())).unwrap();
            finish(&disk, dir).unwrap();
            assert_eq!(bytes(&disk, 3), b"abcdefgh");
            assert!(!disk.exists(&file_path(dir)).unwrap());
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_changes_nothing() {
        let (disk, dir) = (FaultDisk::new(1), Path::new(DIR));
        disk.create_dir_all(dir).unwrap();
        segment(&disk, &head(3, 9));
        let good = encode(&head(3, 9), &patches());
        assert_eq!(decode(&good), Some((3, 9, patches())));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            // Four bytes say nothing.
            assert!(decode(&bad).is_none() || (12..16).contains(&at), "byte {at}");
            assert!(decode(&good[..at]).is_none());
        }
        disk::replace(&disk, &file_path(dir), &good[..40]).unwrap();
        finish(&disk, dir).unwrap();
        assert_eq!(bytes(&disk, 3), b"abcdefgh");
    }
}
