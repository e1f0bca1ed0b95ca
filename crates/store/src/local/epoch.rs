//! The epoch of a data directory: `EPOCH` holds it as a number; without the file it is 1.
//! Not here: who checks it (each log, per network).

use std::io;
use std::path::Path;

use crate::disk::{self, Disk};
use crate::error::{At as _, StoreError};

pub(crate) fn load<D: Disk>(disk: &D, dir: &Path) -> Result<u64, StoreError> {
    let path = dir.join("EPOCH");
    let bytes = match disk::read_all(disk, &path, 64) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(1),
        Err(error) => return Err(StoreError::io("read", &path, error)),
    };
    let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim_end().parse().ok());
    number.filter(|epoch| *epoch >= 1).ok_or_else(|| StoreError::damaged(&path, 0, "not an epoch"))
}

pub(crate) fn raise<D: Disk>(disk: &D, dir: &Path, to: u64) -> Result<(), StoreError> {
    if to <= load(disk, dir)? {
        return Ok(());
    }
    let path = dir.join("EPOCH");
    disk::replace(disk, &path, format!("{to}\n").as_bytes()).at("write", &path)
}
