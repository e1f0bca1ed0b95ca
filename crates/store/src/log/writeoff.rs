//! What becomes of damage: a copy of the file is kept, and it may be written off.
//!
//! Written off is damage that somebody has taken note of (`rialto repair`): places in segments whose records count as gone from then on, instead of
//! making every read of them fail. The bytes stay as they are, and a copy was kept.
//!
//! ```text
//! 0 magic(8) 8 crc of the entries(4) 12 count(4); per entry: segment(8) from(8) to(8) first lsn(8) last lsn(8) network(4, 0 = unknown)
//! ```
//! Not here: what is done about the networks that lost something.

use std::io;
use std::path::{Path, PathBuf};

use super::format::{put, u32_at, u64_at};
use super::gap::Gap;
use super::segment::segment_path;
use crate::disk::{self, Disk, DiskFile as _};
use crate::error::{At as _, Damage, StoreError};
use crate::record::Lsn;

const COPY_PIECE: usize = 1 << 20;
const NAME: &str = "written-off";
const MAGIC: u64 = u64::from_le_bytes(*b"RIALTOWO");
const HEAD: usize = 16;
const ENTRY: usize = 44;
const BYTES_MAX: u64 = 16 << 20;

/// A place in a segment that was given up, or records of a network from one LSN to another (segment 0).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WrittenOff {
    pub(crate) segment: u64,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) first_lsn: Lsn,
    pub(crate) last_lsn: Lsn,
    pub(crate) network: Option<u32>,
}

impl WrittenOff {
    pub(crate) fn new(segment: u64, gap: &Gap) -> Self {
        let Gap { from, to, first_lsn, last_lsn, network, .. } = gap;
        Self { segment, from: *from, to: *to, first_lsn: *first_lsn, last_lsn: *last_lsn, network: *network }
    }

    /// All records of a network from one LSN to another.
    pub(crate) fn cut(network: u32, first_lsn: Lsn, last_lsn: Lsn) -> Self {
        Self { segment: 0, from: 0, to: 0, first_lsn, last_lsn, network: Some(network) }
    }

    /// Whether it is about a network, and not about a place.
    pub(crate) fn is_cut(&self) -> bool {
        self.segment == 0
    }

    /// Whether it says that this record counts as gone.
    pub(crate) fn has_cut(&self, network: u32, lsn: Lsn) -> bool {
        self.is_cut() && self.network == Some(network) && (self.first_lsn..=self.last_lsn).contains(&lsn)
    }

    pub(crate) fn covers(&self, segment: u64, gap: &Gap) -> bool {
        self.segment == segment && self.first_lsn <= gap.first_lsn && gap.last_lsn <= self.last_lsn
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join(NAME)
}

/// Reads the list. One that cannot be read is named and set aside: then the damage counts as new.
pub(crate) fn load<D: Disk>(disk: &D, dir: &Path) -> Result<(Vec<WrittenOff>, Option<Damage>), StoreError> {
    let path = path(dir);
    let bytes = match disk::read_all(disk, &path, BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), None)),
        Err(error) => return Err(StoreError::io("read", &path, error)),
    };
    let list = decode(&bytes);
    match list {
        Some(list) => Ok((list, None)),
        None => {
            let kept = path.with_extension("damaged");
            disk.rename(&path, &kept).at("rename", &path)?;
            let what = "the list of what was written off is bad, set aside".to_owned();
            Ok((Vec::new(), Some(Damage { file: path, offset: 0, what, kept: Some(kept) })))
        }
    }
}

/// Writes the list, durably.
pub(crate) fn save<D: Disk>(disk: &D, dir: &Path, list: &[WrittenOff]) -> Result<(), StoreError> {
    let path = path(dir);
    disk::replace(disk, &path, &encode(list)).at("write", &path)
}

/// Copies a segment into `damaged/`, once per place.
pub(crate) fn keep_aside<D: Disk>(disk: &D, dir: &Path, number: u64, offset: u64) -> Result<PathBuf, StoreError> {
    keep(disk, dir, number, 0, &format!("{number:08}-{offset}.seg"))
}

/// Copies what lies behind an offset of a segment into `damaged/`, and nothing before it: that is not damaged, and may be redacted.
pub(crate) fn keep_tail<D: Disk>(disk: &D, dir: &Path, number: u64, from: u64) -> Result<PathBuf, StoreError> {
    keep(disk, dir, number, from, &format!("{number:08}-{from}.tail"))
}

fn keep<D: Disk>(disk: &D, dir: &Path, number: u64, from: u64, name: &str) -> Result<PathBuf, StoreError> {
    let aside = dir.join("damaged");
    let copy = aside.join(name);
    let made = disk.create_dir_all(&aside).and_then(|()| {
        if disk.exists(&copy)? { Ok(()) } else { copy_file(disk, &segment_path(dir, number), from, &copy) }
    });
    made.at("copy", &copy)?;
    Ok(copy)
}

fn copy_file<D: Disk>(disk: &D, from: &Path, start: u64, to: &Path) -> io::Result<()> {
    let (from, aside) = (disk.open(from, false)?, to.with_extension("tmp"));
    let file = disk.create(&aside)?;
    let (mut at, mut buf) = (start, vec![0; COPY_PIECE]);
    loop {
        let got = from.read_at(&mut buf, at)?;
        let Some(bytes) = buf.get(..got).filter(|bytes| !bytes.is_empty()) else { break };
        file.write_at(bytes, at - start)?;
        at += got as u64;
    }
    file.sync_data()?;
    disk.rename(&aside, to)?;
    to.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
}

fn encode(list: &[WrittenOff]) -> Vec<u8> {
    let mut out = MAGIC.to_le_bytes().to_vec();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&u32::try_from(list.len()).unwrap_or(u32::MAX).to_le_bytes());
    for gone in list {
        for number in [gone.segment, gone.from, gone.to, gone.first_lsn, gone.last_lsn] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&gone.network.unwrap_or(0).to_le_bytes());
    }
    let crc = crc32c::crc32c(out.get(12..).unwrap_or_default());
    put(&mut out, 8, &crc.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Option<Vec<WrittenOff>> {
    let entries = bytes.get(HEAD..)?;
    let right = u64_at(bytes, 0) == MAGIC
        && u32_at(bytes, 8) == crc32c::crc32c(bytes.get(12..)?)
        && entries.len() == (u32_at(bytes, 12) as usize).checked_mul(ENTRY)?;
    right.then(|| {
        let entry = |e: &[u8]| WrittenOff {
            segment: u64_at(e, 0),
            from: u64_at(e, 8),
            to: u64_at(e, 16),
            first_lsn: u64_at(e, 24),
            last_lsn: u64_at(e, 32),
            network: Some(u32_at(e, 40)).filter(|network| *network != 0),
        };
        entries.chunks_exact(ENTRY).map(entry).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_round_trips_and_notices_every_flip() {
        let one = WrittenOff { segment: 3, from: 512, to: 700, first_lsn: 9, last_lsn: 11, network: Some(2) };
        for list in [vec![], vec![one.clone(), WrittenOff { network: None, ..one }]] {
            let bytes = encode(&list);
            assert_eq!(decode(&bytes), Some(list));
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode(&bad), None, "bit {bit}");
            }
        }
    }
}
