//! The seal of a database file that was closed in order: `<file>.seal` holds its length and CRC-32C, so that a bit that turned while
//! nobody had the file open is found. Broken before the first use; a file without a seal was not closed in order and is taken as it is.
//! Not here: what to do with a file whose seal does not fit.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::disk::{self, Disk as _, RealDisk};

const WORD: &str = "rialto-seal 1";
const PIECE: usize = 1 << 20;

/// What the seal of a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seal {
    /// There is none.
    None,
    /// The file is as it was closed.
    Whole,
    /// The file, or the seal, is not what was written.
    Broken,
}

fn path_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".seal");
    name.into()
}

/// Seals a file that nobody has open.
pub(crate) fn put(file: &Path) -> io::Result<()> {
    let text = text_of(file)?;
    disk::replace(&RealDisk, &path_of(file), text.as_bytes())
}

/// Compares a file with its seal; reads all of it.
pub(crate) fn check(file: &Path) -> io::Result<Seal> {
    let seal = match fs::read(path_of(file)) {
        Ok(seal) => seal,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Seal::None),
        Err(error) => return Err(error),
    };
    let whole = text_of(file)?.as_bytes() == seal;
    Ok(if whole { Seal::Whole } else { Seal::Broken })
}

/// Removes the seal durably: from now on the file may change.
pub(crate) fn take_off(file: &Path) -> io::Result<()> {
    match fs::remove_file(path_of(file)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => file.parent().map_or(Ok(()), |dir| RealDisk.sync_dir(dir)),
    }
}

fn text_of(file: &Path) -> io::Result<String> {
    let mut open = File::open(file)?;
    let (mut length, mut crc, mut piece) = (0, 0, vec![0; PIECE]);
    loop {
        let got = open.read(&mut piece)?;
        let Some(bytes) = piece.get(..got).filter(|bytes| !bytes.is_empty()) else { break };
        length += got;
        crc = crc32c::crc32c_append(crc, bytes);
    }
    Ok(format!("{WORD} {length} {crc:08x}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_does_not_fit_its_seal() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("some.db");
        fs::write(&file, b"some bytes").unwrap();
        assert_eq!(check(&file).unwrap(), Seal::None);
        put(&file).unwrap();
        assert_eq!(check(&file).unwrap(), Seal::Whole);
        fs::write(&file, b"some bytez").unwrap();
        assert_eq!(check(&file).unwrap(), Seal::Broken);
        take_off(&file).unwrap();
        take_off(&file).unwrap();
        assert_eq!(check(&file).unwrap(), Seal::None);
    }
}
