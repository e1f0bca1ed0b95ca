//! The control file of a log: a lower bound of what must be there, so that lost ends and lost files are noticed.
//! Written aside and renamed at each roll, when segments are freed, and at a clean stop.
//! Not here: the records themselves; without a control file a log still opens, with less to check against.

use std::io;
use std::path::Path;

use super::format::{put, u32_at, u64_at};
use crate::disk::{self, Disk};
use crate::record::Lsn;

const MAGIC: u64 = u64::from_le_bytes(*b"RIALTOCT");
const VERSION: u32 = 1;
const SIZE: usize = 64;

/// What the log knew when it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Control {
    /// Number of the oldest segment kept.
    pub(crate) oldest: u64,
    /// Number of the newest segment.
    pub(crate) newest: u64,
    /// Every LSN up to this one was flushed.
    pub(crate) durable: Lsn,
    /// End of the newest segment's records at a clean stop, else 0.
    pub(crate) clean_end: u64,
}

impl Control {
    pub(crate) fn encode(&self) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        put(&mut out, 0, &MAGIC.to_le_bytes());
        put(&mut out, 8, &VERSION.to_le_bytes());
        put(&mut out, 16, &self.oldest.to_le_bytes());
        put(&mut out, 24, &self.newest.to_le_bytes());
        put(&mut out, 32, &self.durable.to_le_bytes());
        put(&mut out, 40, &self.clean_end.to_le_bytes());
        let crc = crc(&out);
        put(&mut out, 12, &crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let fits = bytes.len() == SIZE && u64_at(bytes, 0) == MAGIC && u32_at(bytes, 8) == VERSION;
        (fits && u32_at(bytes, 12) == crc(bytes)).then(|| Self {
            oldest: u64_at(bytes, 16),
            newest: u64_at(bytes, 24),
            durable: u64_at(bytes, 32),
            clean_end: u64_at(bytes, 40),
        })
    }

    /// Reads it: `None` if there is none, `Some(None)` if it is bad.
    pub(crate) fn load<D: Disk>(disk: &D, path: &Path) -> io::Result<Option<Option<Self>>> {
        match disk::read_all(disk, path, 4096) {
            Ok(bytes) => Ok(Some(Self::decode(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(Some(None)),
            Err(error) => Err(error),
        }
    }
}

fn crc(bytes: &[u8]) -> u32 {
    let first = crc32c::crc32c(bytes.get(..12).unwrap_or_default());
    crc32c::crc32c_append(first, bytes.get(16..SIZE).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_notices_every_flip() {
        let control = Control { oldest: 1, newest: 9, durable: 1000, clean_end: 77 };
        let good = control.encode();
        assert_eq!(Control::decode(&good), Some(control));
        for bit in 0..SIZE * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Control::decode(&bad), None, "bit {bit}");
        }
    }
}
