//! Blobs on disk: `blobs/<first two hex>/<SHA-256 hex>`, written aside in `blobs/new/`, flushed with their directory before they
//! have a name.
//! Not here: who may read a blob, and which blobs are still named by events.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Held while a name comes or goes, so that each blob is counted once against the budget. True once the directory is
    /// closed: then it may be somebody else's, with files of the same names, and nothing in it is touched any more.
    closed: Mutex<bool>,
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
        let blobs = Self { disk, dir, budget, free_floor, made: AtomicU64::new(0), closed: Mutex::new(false) };
        if count {
            blobs.budget.count(blobs.list()?.iter().map(|blob| blob.size).sum());
        }
        Ok(blobs)
    }

    /// Takes no more blobs; those on their way in end unnamed.
    pub(crate) fn close(&self) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// The right to change names in the directory.
    fn naming(&self) -> Result<MutexGuard<'_, bool>, StoreError> {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed { Err(StoreError::Closed) } else { Ok(closed) }
    }

    pub(crate) fn put(self: &Arc<Self>) -> Result<Box<dyn BlobWriter>, StoreError> {
        let _naming = self.naming()?;
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.join("new").join(number.to_string());
        let file = self.disk.create(&path).at("create", &path)?;
        let (hash, gathered) = (Sha256::new(), Vec::new());
        Ok(Box::new(BlobFileWriter {
            blobs: Arc::clone(self),
            file,
            path,
            hash,
            gathered,
            size: 0,
            taken: 0,
            named: false,
        }))
    }

    pub(crate) fn open_blob(&self, hash: &str) -> Result<Option<Box<dyn BlobReader>>, StoreError> {
        let path = self.path(hash)?;
        let file = match self.disk.open(&path, false) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("open", &path, error)),
        };
        let size = file.len().at("ask length of", &path)?;
        Ok(Some(Box::new(BlobFileReader { file, path, size })))
    }

    pub(crate) fn has(&self, hash: &str) -> Result<bool, StoreError> {
        let path = self.path(hash)?;
        self.disk.exists(&path).at("look for", &path)
    }

    pub(crate) fn remove(&self, hash: &str) -> Result<bool, StoreError> {
        let path = self.path(hash)?;
        {
            let _naming = self.naming()?;
            let Some(blob) = self.open_blob(hash)? else { return Ok(false) };
            self.disk.remove(&path).at("remove", &path)?;
            self.budget.give(blob.size());
        }
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
struct BlobFileWriter<D: Disk> {
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

impl<D: Disk> BlobFileWriter<D> {
    fn pour(&mut self) -> Result<(), StoreError> {
        let mut gathered = std::mem::take(&mut self.gathered);
        self.put(&gathered)?;
        gathered.clear();
        self.gathered = gathered;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let len = bytes.len() as u64;
        self.blobs.room(len)?;
        self.taken += len;
        self.file.write_at(bytes, self.size).at("write", &self.path)?;
        self.size += len;
        Ok(())
    }

    fn give_name(&mut self, hash: &str) -> Result<(), StoreError> {
        if !crate::bugs::on("blob not flushed") {
            self.file.sync_data().at("flush", &self.path)?;
        }
        let to = self.blobs.path(hash)?;
        let dir = to.parent().unwrap_or(Path::new("")).to_path_buf();
        let disk = &self.blobs.disk;
        disk.create_dir_all(&dir).at("create", &dir)?;
        {
            let _naming = self.blobs.naming()?;
            let known = disk.exists(&to).at("look for", &to)?;
            // Over a blob of the same name too: these bytes are surely right.
            disk.rename(&self.path, &to).at("rename", &self.path)?;
            self.named = true;
            if known {
                self.blobs.budget.give(self.taken);
            }
        }
        disk.sync_dir(&dir).at("flush", &dir)
    }
}

impl<D: Disk> BlobWriter for BlobFileWriter<D> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.hash.update(bytes);
        let mut rest = bytes;
        while !rest.is_empty() {
            if let Some((piece, later)) = rest.split_at_checked(PIECE).filter(|_| self.gathered.is_empty()) {
                self.put(piece)?;
                rest = later;
                continue;
            }
            let room = PIECE.saturating_sub(self.gathered.len()).min(rest.len());
            let (now, later) = rest.split_at(room);
            self.gathered.extend_from_slice(now);
            rest = later;
            if self.gathered.len() >= PIECE {
                self.pour()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<BlobInfo, StoreError> {
        self.pour()?;
        let hash = hex(&std::mem::take(&mut self.hash).finalize());
        self.give_name(&hash)?;
        Ok(BlobInfo { hash, size: self.size })
    }
}

impl<D: Disk> Drop for BlobFileWriter<D> {
    fn drop(&mut self) {
        if !self.named {
            if let Ok(_naming) = self.blobs.naming() {
                let _ = self.blobs.disk.remove(&self.path);
            }
            self.blobs.budget.give(self.taken);
        }
    }
}

#[derive(Debug)]
struct BlobFileReader<F> {
    file: F,
    path: PathBuf,
    size: u64,
}

impl<F: DiskFile> BlobReader for BlobFileReader<F> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        self.file.read_at(buf, offset).at("read", &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fault::FaultDisk;

    fn open(disk: &FaultDisk, budget: &Arc<Budget>) -> Arc<Blobs<FaultDisk>> {
        Arc::new(Blobs::open(disk.clone(), PathBuf::from("/blobs"), Arc::clone(budget), 0, true).unwrap())
    }

    fn at_once<T: Send>(work: &(dyn Fn() -> T + Sync)) -> Vec<T> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    /// However much comes at once, one piece is gathered.
    #[test]
    fn a_writer_gathers_one_piece_at_most() {
        let blobs = open(&FaultDisk::new(1), &Arc::new(Budget::new(None)));
        let path = PathBuf::from("/blobs/new/x");
        let file = blobs.disk.create(&path).unwrap();
        let (hash, gathered) = (Sha256::new(), Vec::new());
        let mut writer = BlobFileWriter { blobs, file, path, hash, gathered, size: 0, taken: 0, named: false };
        for len in [1, PIECE - 1, PIECE, PIECE + 1, 10 * PIECE + 7] {
            writer.write(&vec![7; len]).unwrap();
            assert!(writer.gathered.capacity() <= PIECE, "{}", writer.gathered.capacity());
        }
    }

    /// The same content from many writers at once, with removals between, is counted once or not at all.
    #[test]
    fn a_blob_is_counted_once_whoever_writes_it() {
        let budget = Arc::new(Budget::new(None));
        let blobs = open(&FaultDisk::new(1), &budget);
        for _ in 0..200 {
            let start = std::sync::Barrier::new(4);
            let write = || {
                let mut writer = blobs.put().unwrap();
                writer.write(&[9; 1000]).unwrap();
                start.wait();
                writer.finish().unwrap().hash
            };
            let hashes = at_once(&write);
            assert_eq!(budget.used(), 1000);
            let remove = || {
                start.wait();
                blobs.remove(&hashes[0]).unwrap()
            };
            let removed = at_once(&remove).into_iter().filter(|removed| *removed).count();
            assert_eq!((removed, budget.used()), (1, 0));
        }
    }

    /// A power cut at every step of writing a blob: it is whole under its name or not there, and nothing is left aside.
    #[test]
    fn a_power_cut_leaves_a_blob_whole_or_absent() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        let (mut steps, mut whole, mut absent) = (0, 0, 0);
        for cut in 1.. {
            let mut passed = false;
            for seed in 0..20 {
                let disk = FaultDisk::new(seed);
                let budget = Arc::new(Budget::new(None));
                let blobs = open(&disk, &budget);
                disk.cut_after(cut);
                let written = blobs.put().and_then(|mut writer| {
                    writer.write(&bytes)?;
                    writer.finish()
                });
                passed = written.is_ok();
                drop(blobs);
                disk.crash();
                let blobs = open(&disk, &budget);
                let there = blobs.list().unwrap();
                assert!(disk.list(Path::new("/blobs/new")).unwrap().is_empty());
                assert!(!passed || there.len() == 1, "step {cut}: it was promised");
                for blob in &there {
                    assert_eq!(blob.size, bytes.len() as u64, "step {cut}, seed {seed}");
                    assert_eq!(blobs.verify(&blob.hash).unwrap(), None, "step {cut}, seed {seed}");
                }
                if there.is_empty() { absent += 1 } else { whole += 1 }
            }
            steps = cut;
            if passed {
                break;
            }
        }
        assert!(steps >= 8 && whole > 0 && absent > 0, "{steps} steps, {whole} whole, {absent} absent");
    }
}
