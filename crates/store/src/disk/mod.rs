//! Every call that touches a disk goes through these two traits.
//! Two implementations: `RealDisk` (the operating system) and `fault::FaultDisk` (in memory, crashes and fails on demand).
//! Not here: what the bytes mean.

pub mod fault;
mod real;

use std::fmt;
use std::io;
use std::path::Path;

pub use real::RealDisk;

/// Direct writes cover whole blocks of this size, from memory that begins at a multiple of it: the largest that disks ask for.
pub const DIRECT_BLOCK: usize = 4096;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// File name without its directory.
    pub name: String,
    /// Length in bytes (0 for directories).
    pub len: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// A disk: names, directories and files with positional reads and writes.
pub trait Disk: Clone + Send + Sync + fmt::Debug + 'static {
    /// An open file.
    type File: DiskFile;
    /// Held as long as the lock is.
    type Lock: Send + Sync + fmt::Debug + 'static;

    /// Creates an empty file, or empties an existing one; opened for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Self::File>;
    /// Opens an existing file, for writing too if `write`.
    fn open(&self, path: &Path, write: bool) -> io::Result<Self::File>;
    /// Opens an existing file for writes past the page cache; `None` where the file system has no such thing.
    fn open_direct(&self, _path: &Path) -> io::Result<Option<Self::File>> {
        Ok(None)
    }
    /// Moves a file over another name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Entries of a directory, sorted by name. A missing directory is an error of kind `NotFound`.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;
    /// Makes a directory and its parents durably.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Flushes the names in a directory.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes free for this user on the disk that holds `dir`.
    fn free_space(&self, dir: &Path) -> io::Result<u64>;
    /// Takes an exclusive lock on a file, creating it; `None` if another holds it.
    fn lock(&self, path: &Path) -> io::Result<Option<Self::Lock>>;
    /// Takes a file, or a directory with all that is in it, away from everybody but its owner. Nothing if it is not there.
    fn restrict(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
    /// Whether a file exists.
    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.open(path, false) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// An open file. All calls may be made from many threads at once.
pub trait DiskFile: Send + Sync + fmt::Debug + 'static {
    /// Reads up to `buf.len()` bytes at `offset`; fewer only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `buf` at `offset`.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` at `offset`, and these bytes to the medium; of what was written before it says nothing.
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(buf, offset)?;
        self.sync_data()
    }
    /// Flushes the file's bytes and length to the medium.
    fn sync_data(&self) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes the file at least `len` long with its space reserved; new bytes read as zero.
    fn preallocate(&self, len: u64) -> io::Result<()>;
    /// Reads will not go on where the last one ended: nothing is to be read ahead of them.
    fn expect_scattered_reads(&self) {}
    /// Cuts or extends the file to `len`.
    fn truncate(&self, len: u64) -> io::Result<()>;
}

/// Reads a whole file, refusing one larger than `limit`.
pub(crate) fn read_all<D: Disk>(disk: &D, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, false)?;
    let len = file.len()?;
    if len > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("{len} bytes, limit {limit}")));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let got = file.read_at(&mut bytes, 0)?;
    bytes.truncate(got);
    Ok(bytes)
}

/// Writes a file aside, flushes it, moves it over `path` and flushes the directory.
pub(crate) fn replace<D: Disk>(disk: &D, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let aside = path.with_extension("tmp");
    let file = disk.create(&aside)?;
    file.write_at(bytes, 0)?;
    file.sync_data()?;
    drop(file);
    disk.rename(&aside, path)?;
    match path.parent() {
        Some(dir) => disk.sync_dir(dir),
        None => Ok(()),
    }
}
