//! Blobs on disk: `blobs/<first two hex>/<SHA-256 hex>`, written aside in `blobs/new/`, flushed with their directory before they
//! have a name.
//! Not here: who may read a blob, and which blobs are still named by events.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

use crate::budget::Budget;
use crate::disk::{Disk, DiskFile};
use crate::error::{At as _, Damage, StoreError};
use crate::store::{BlobInfo, BlobReader, BlobWriter};

/// Bytes gathered before a write.
const PIECE: usize = 64 << 10;

/// The blob directory.
#[derive(Debug)]
pub(crate) struct Blobs<D: Disk> {
    disk: D,
    dir: PathBuf,
    budget: Arc<Budget>,
    free_floor: u64,
    made: AtomicU64,
}

impl<D: Disk> Blobs<D> {
    /// Opens the directory and drops what was never finished. Blobs are counted only if there is a budget.
    pub(crate) fn open(
        disk: D,
        dir: PathBuf,
        budget: Arc<Budget>,
        free_floor: u64,
        count: bool,
    ) -> Result<Self, StoreError> {
        let new = dir.join("new");
        disk.create_dir_all(&new).at("create", &new)?;
        for entry in disk.list(&new).at("list", &new)? {
            let path = new.join(&entry.name);
            disk.remove(&path).at("remove", &path)?;
        }
        let blobs = Self { disk, dir, budget, free_floor, made: AtomicU64::new(0) };
        if count {
            blobs.budget.count(blobs.list()?.iter().map(|blob| blob.size).sum());
        }
        Ok(blobs)
    }

    pub(crate) fn put(self: &Arc<Self>) -> Result<Box<dyn BlobWriter>, StoreError> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join("new").join(number.to_string());
        let file = self.disk.create(&path).at("create", &path)?;
        let (hash, gathered) = (Sha256::new(), Vec::new());
        Ok(Box::new(Writer { blobs: Arc::clone(self), file, path, hash, gathered, size: 0, taken: 0, named: false }))
    }

    pub(crate) fn open_blob(&self, hash: &str) -> Result<Option<Box<dyn BlobReader>>, StoreError> {
        let path = self.path(hash)?;
        let file = match self.disk.open(&path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("open", &path, error)),
        };
        let size = file.len().at("ask length of", &path)?;
        Ok(Some(Box::new(Reader { file, path, size })))
    }

    pub(crate) fn has(&self, hash: &str) -> Result<bool, StoreError> {
        let path = self.path(hash)?;
        self.disk.exists(&path).at("look for", &path)
    }

    pub(crate) fn remove(&self, hash: &str) -> Result<bool, StoreError> {
        let path = self.path(hash)?;
        let Some(blob) = self.open_blob(hash)? else { return Ok(false) };
        self.disk.remove(&path).at("remove", &path)?;
        self.budget.give(blob.size());
        if let Some(dir) = path.parent() {
            self.disk.sync_dir(dir).at("flush", dir)?;
        }
        Ok(true)
    }

    pub(crate) fn list(&self) -> Result<Vec<BlobInfo>, StoreError> {
        let mut blobs = Vec::new();
        for group in self.disk.list(&self.dir).at("list", &self.dir)? {
            if !group.is_dir || group.name.len() != 2 {
                continue;
            }
            let dir = self.dir.join(&group.name);
            let files = self.disk.list(&dir).at("list", &dir)?;
            let named = files.into_iter().filter(|file| is_hash(&file.name) && file.name.starts_with(&group.name));
            blobs.extend(named.map(|file| BlobInfo { hash: file.name, size: file.len }));
        }
        blobs.sort_unstable_by(|a, b| a.hash.cmp(&b.hash));
        Ok(blobs)
    }

    /// Reads one blob and compares its bytes with its name.
    pub(crate) fn verify(&self, hash: &str) -> Result<Option<Damage>, StoreError> {
        let Some(blob) = self.open_blob(hash)? else { return Ok(None) };
        let (mut digest, mut at, mut buf) = (Sha256::new(), 0, vec![0; PIECE]);
        loop {
            let got = blob.read_at(&mut buf, at)?;
            let Some(bytes) = buf.get(..got).filter(|bytes| !bytes.is_empty()) else { break };
            digest.update(bytes);
            at += got as u64;
        }
        let what = "blob's bytes do not have the hash of its name".to_owned();
        let right = hex(&digest.finalize()) == hash;
        Ok((!right).then_some(Damage { file: self.path(hash)?, offset: 0, what, kept: None }))
    }

    fn path(&self, hash: &str) -> Result<PathBuf, StoreError> {
        match hash.get(..2) {
            Some(group) if is_hash(hash) => Ok(self.dir.join(group).join(hash)),
            _ => Err(StoreError::BadName { what: "blob hash", name: hash.chars().take(80).collect() }),
        }
    }

    fn room(&self, bytes: u64) -> Result<(), StoreError> {
        let free = self.disk.free_space(&self.dir).at("ask free space of", &self.dir)?;
        if free < self.free_floor.saturating_add(bytes) {
            return Err(StoreError::NoSpace { have: free.saturating_sub(self.free_floor), need: bytes });
        }
        self.budget.take(bytes)
    }
}

fn is_hash(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[derive(Debug)]
struct Writer<D: Disk> {
    blobs: Arc<Blobs<D>>,
    file: D::File,
    path: PathBuf,
    hash: Sha256,
    gathered: Vec<u8>,
    /// Bytes written to the file.
    size: u64,
    /// Bytes taken of the budget.
    taken: u64,
    named: bool,
}

impl<D: Disk> Writer<D> {
    fn pour(&mut self) -> Result<(), StoreError> {
        let len = self.gathered.len() as u64;
        self.blobs.room(len)?;
        self.taken += len;
        self.file.write_at(&self.gathered, self.size).at("write", &self.path)?;
        self.size += len;
        self.gathered.clear();
        Ok(())
    }

    fn give_name(&mut self, hash: &str) -> Result<(), StoreError> {
        self.file.sync_data().at("flush", &self.path)?;
        let to = self.blobs.path(hash)?;
        let dir = to.parent().unwrap_or(Path::new("")).to_path_buf();
        let disk = &self.blobs.disk;
        disk.create_dir_all(&dir).at("create", &dir)?;
        let known = disk.exists(&to).at("look for", &to)?;
        // Over a blob of the same name too: these bytes are surely right.
        disk.rename(&self.path, &to).at("rename", &self.path)?;
        self.named = true;
        if known {
            self.blobs.budget.give(self.taken);
        }
        disk.sync_dir(&dir).at("flush", &dir)
    }
}

impl<D: Disk> BlobWriter for Writer<D> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.hash.update(bytes);
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= PIECE { self.pour() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<BlobInfo, StoreError> {
        self.pour()?;
        let hash = hex(&std::mem::take(&mut self.hash).finalize());
        self.give_name(&hash)?;
        Ok(BlobInfo { hash, size: self.size })
    }
}

impl<D: Disk> Drop for Writer<D> {
    fn drop(&mut self) {
        if !self.named {
            let _ = self.blobs.disk.remove(&self.path);
            self.blobs.budget.give(self.taken);
        }
    }
}

#[derive(Debug)]
struct Reader<F> {
    file: F,
    path: PathBuf,
    size: u64,
}

impl<F: DiskFile> BlobReader for Reader<F> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        self.file.read_at(buf, offset).at("read", &self.path)
    }
}
