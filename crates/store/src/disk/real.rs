//! The operating system's disk: std for names, rustix for what std does not offer.
//! Not here: Windows (declared out).

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::FlockOperation;

use super::{Disk, DiskFile, Entry};

/// Modes of what is made here: everything is its owner's alone.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// The real disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    type File = File;
    type Lock = File;

    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(FILE_MODE).open(path)
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<File> {
        OpenOptions::new().read(true).write(write).open(path)
    }

    #[cfg(target_os = "linux")]
    fn open_direct(&self, path: &Path) -> io::Result<Option<File>> {
        use rustix::fs::OFlags;
        let flags = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
        let file = match OpenOptions::new().read(true).write(true).custom_flags(flags).open(path) {
            Err(error) if is_refusal(&error) => return Ok(None),
            opened => opened?,
        };
        // Some file systems take the flag and refuse what follows.
        let mut memory = vec![0; 2 * super::DIRECT_BLOCK];
        let start = memory.as_ptr().align_offset(super::DIRECT_BLOCK).min(super::DIRECT_BLOCK);
        let block = memory.get_mut(start..start + super::DIRECT_BLOCK).unwrap_or_default();
        match std::os::unix::fs::FileExt::read_at(&file, block, 0) {
            Err(error) if is_refusal(&error) => Ok(None),
            read => read.map(|_| Some(file)),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let meta = match entry.metadata() {
                Ok(meta) => meta,
                // Removed between the listing and the look: not there.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let is_dir = meta.is_dir();
            let len = if is_dir { 0 } else { meta.len() };
            entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), len, is_dir });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return Ok(());
        }
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            self.create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(DIR_MODE).create(dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            other => other?,
        }
        self.sync_dir(parent.unwrap_or(Path::new(".")))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        sync(&File::open(dir)?)
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<File>> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // For whoever finds the directory locked; the lock itself is the kernel's.
        file.set_len(0)?;
        writeln!(file, "process {}", std::process::id())?;
        Ok(Some(file))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn restrict(&self, path: &Path) -> io::Result<()> {
        let meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        // What is closed already holds nothing that others can reach.
        if meta.is_symlink() || meta.permissions().mode() & 0o077 == 0 {
            return Ok(());
        }
        if !meta.is_dir() {
            return fs::set_permissions(path, Permissions::from_mode(FILE_MODE));
        }
        for entry in fs::read_dir(path)? {
            self.restrict(&entry?.path())?;
        }
        // Last: a start that was cut short does the rest next time.
        fs::set_permissions(path, Permissions::from_mode(DIR_MODE))
    }
}

impl DiskFile for File {
    fn read_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<usize> {
        let mut total = 0;
        while !buf.is_empty() {
            match std::os::unix::fs::FileExt::read_at(self, buf, offset) {
                Ok(0) => break,
                Ok(n) => {
                    total += n;
                    offset += n as u64;
                    buf = buf.get_mut(n..).unwrap_or_default();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(buf, offset)
    }

    #[cfg(target_os = "linux")]
    fn write_durable_at(&self, mut buf: &[u8], mut offset: u64) -> io::Result<()> {
        use rustix::io::{Errno, ReadWriteFlags};
        while !buf.is_empty() {
            match rustix::io::pwritev2(self, &[io::IoSlice::new(buf)], offset, ReadWriteFlags::DSYNC) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    offset += n as u64;
                    buf = buf.get(n..).unwrap_or_default();
                }
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.write_all_at(buf, offset)?;
                    return sync(self);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        sync(self)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let have = DiskFile::len(self)?;
        if len <= have {
            return Ok(());
        }
        reserve(self, len)?;
        if DiskFile::len(self)? < len { self.set_len(len) } else { Ok(()) }
    }

    #[cfg(target_os = "linux")]
    fn expect_scattered_reads(&self) {
        // Advice only: refused, everything is as before.
        let _ = rustix::fs::fadvise(self, 0, None, rustix::fs::Advice::Random);
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// Whether the file system says that it has no direct reads and writes.
#[cfg(target_os = "linux")]
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

#[cfg(target_os = "macos")]
fn sync(file: &File) -> io::Result<()> {
    // fsync on macOS leaves the bytes in the drive's cache.
    Ok(rustix::fs::fcntl_fullfsync(file)?)
}

#[cfg(not(target_os = "macos"))]
fn sync(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}

#[cfg(target_os = "linux")]
fn reserve(file: &File, len: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len) {
        // Some file systems cannot reserve; the length alone must do there.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => file.set_len(len),
        other => Ok(other?),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)
}
