//! The format version of a data directory: `FORMAT` holds `rialto-store <version>`.
//! The same version opens, an older one is migrated, a newer one is refused by name.
//! Not here: the versions inside record bodies (the engine's).

use std::io;
use std::path::Path;

use crate::disk::{self, Disk};
use crate::error::{At as _, StoreError};

/// The version this program writes.
pub(crate) const FORMAT: u32 = 1;
const WORD: &str = "rialto-store";

/// Checks the version of a data directory, migrates an older one, marks a new one.
pub(crate) fn check<D: Disk>(disk: &D, dir: &Path) -> Result<(), StoreError> {
    let path = dir.join("FORMAT");
    match disk::read_all(disk, &path, 4096) {
        Ok(bytes) => {
            let found = parse(&bytes).ok_or_else(|| StoreError::damaged(&path, 0, "not a format version"))?;
            if found > FORMAT {
                return Err(StoreError::NewerFormat { path, found, known: FORMAT });
            }
            migrate(disk, dir, found)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => mark(disk, &path),
        Err(error) => Err(StoreError::io("read", &path, error)),
    }
}

/// Brings a directory of version `from` to this version, one step at a time. There is no older version yet.
fn migrate<D: Disk>(disk: &D, dir: &Path, from: u32) -> Result<(), StoreError> {
    match from {
        FORMAT => Ok(()),
        0 => Err(StoreError::damaged(&dir.join("FORMAT"), 0, "format version 0 never existed")),
        _ => mark(disk, &dir.join("FORMAT")),
    }
}

fn mark<D: Disk>(disk: &D, path: &Path) -> Result<(), StoreError> {
    disk::replace(disk, path, format!("{WORD} {FORMAT}\n").as_bytes()).at("write", path)
}

fn parse(bytes: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.trim_end().strip_prefix(WORD)?.strip_prefix(' ')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_version_is_a_version() {
        assert_eq!(parse(b"rialto-store 1\n"), Some(1));
        assert_eq!(parse(b"rialto-store 12"), Some(12));
        for bad in ["", "1", "rialto-store", "rialto-store x", "other 1"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
