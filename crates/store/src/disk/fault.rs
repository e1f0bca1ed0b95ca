//! A disk in memory that knows flushed bytes from unflushed ones, crashes, fails and rots on demand, all from one seed.
//! For tests and the simulator.
//!
//! A crash keeps every flushed byte, any subset of the unflushed 512-byte sectors, and a prefix of the name changes whose
//! directory was not flushed. A failed flush drops what it did not write and calls it clean, as operating systems do.
//! Not here: time, and faults inside one sector.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{DIRECT_BLOCK, Disk, DiskFile, Entry};

const SECTOR: usize = 512;

/// A kind of call that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `create`.
    Create,
    /// `write_at`.
    Write,
    /// `read_at`.
    Read,
    /// `sync_data`.
    Sync,
    /// `sync_dir`.
    SyncDir,
    /// `rename`.
    Rename,
    /// `preallocate`.
    Preallocate,
}

/// The disk. Clones share it.
#[derive(Debug, Clone)]
pub struct FaultDisk {
    world: Arc<Mutex<World>>,
}

/// An open file of a [`FaultDisk`]; dead after a crash.
#[derive(Debug, Clone)]
pub struct FaultFile {
    world: Arc<Mutex<World>>,
    inode: usize,
    life: u64,
    direct: bool,
}

/// A held lock of a [`FaultDisk`].
#[derive(Debug)]
pub struct FaultLock {
    world: Arc<Mutex<World>>,
    path: PathBuf,
    life: u64,
}

#[derive(Debug)]
struct World {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    flushed_names: BTreeMap<PathBuf, usize>,
    changes: Vec<Change>,
    dirs: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
    faults: Vec<Fault>,
    free: u64,
    read_only: bool,
    /// Changes of the disk that still pass before the power is out, or the process is gone.
    power: Option<u64>,
    /// The call in the middle of which that happened has been made.
    fallen: bool,
    life: u64,
    rng: u64,
    bytes_written: u64,
    /// Files can be written past the page cache.
    direct: bool,
}

#[derive(Debug, Default)]
struct Inode {
    data: Vec<u8>,
    flushed: Vec<u8>,
    dirty: BTreeSet<usize>,
}

/// A change of one name that its directory has not flushed yet.
#[derive(Debug, Clone)]
struct Change {
    dir: PathBuf,
    name: PathBuf,
    /// Removed with it (the old name of a rename).
    from: Option<PathBuf>,
    inode: Option<usize>,
}

#[derive(Debug)]
struct Fault {
    part: String,
    call: Call,
    skip: u32,
    error: io::ErrorKind,
    lasting: bool,
}

impl FaultDisk {
    /// An empty disk with 1 TiB free.
    pub fn new(seed: u64) -> Self {
        let world = World {
            inodes: Vec::new(),
            names: BTreeMap::new(),
            flushed_names: BTreeMap::new(),
            changes: Vec::new(),
            dirs: BTreeSet::new(),
            locks: BTreeSet::new(),
            faults: Vec::new(),
            free: 1 << 40,
            read_only: false,
            power: None,
            fallen: false,
            life: 0,
            rng: seed ^ 0x9E37_79B9_7F4A_7C15,
            bytes_written: 0,
            direct: false,
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Lets files be written past the page cache, or no longer.
    pub fn allow_direct(self, direct: bool) -> Self {
        self.lock_world().direct = direct;
        self
    }

    /// Cuts the power: open files die, unflushed sectors survive or not.
    pub fn crash(&self) {
        self.lock_world().crash();
    }

    /// Lets `steps` more changes of the disk pass (files made, written, flushed, renamed, removed; directories made or flushed);
    /// from the next one on every call fails until [`FaultDisk::crash`] or [`FaultDisk::kill`], as if nobody were there to see the answer.
    /// If the next one is a write, a part of it is done.
    pub fn cut_after(&self, steps: u64) {
        let mut world = self.lock_world();
        (world.power, world.fallen) = (Some(steps), false);
    }

    /// Whether an end that was planned has come.
    pub fn is_cut(&self) -> bool {
        self.lock_world().power == Some(0)
    }

    /// Kills the process, not the machine: open files and locks die, every written byte stays.
    pub fn kill(&self) {
        let mut world = self.lock_world();
        world.life += 1;
        world.locks.clear();
        world.faults.clear();
        world.power = None;
    }

    /// Makes a later call fail once (`skip` calls of its kind pass first), or from then on if `lasting`.
    pub fn fail(&self, call: Call, skip: u32, error: io::ErrorKind, lasting: bool) {
        self.fail_in("", call, skip, error, lasting);
    }

    /// As `fail`, for files and directories with `part` in their path only.
    pub fn fail_in(&self, part: &str, call: Call, skip: u32, error: io::ErrorKind, lasting: bool) {
        self.lock_world().faults.push(Fault { part: part.to_owned(), call, skip, error, lasting });
    }

    /// Ends all planned failures.
    pub fn heal(&self) {
        self.lock_world().faults.clear();
    }

    /// What all writes so far come to.
    pub fn bytes_written(&self) -> u64 {
        self.lock_world().bytes_written
    }

    /// Sets the free space reported.
    pub fn set_free(&self, bytes: u64) {
        self.lock_world().free = bytes;
    }

    /// Refuses every change from now on.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock_world().read_only = read_only;
    }

    /// Flips bits of one byte, on the medium too.
    pub fn flip(&self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let mut world = self.lock_world();
        let inode = world.find(path)?;
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(inode) = world.inodes.get_mut(inode) {
            for bytes in [&mut inode.data, &mut inode.flushed] {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= mask;
                }
            }
        }
        Ok(())
    }

    fn lock_world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    fn file(&self, inode: usize, life: u64) -> FaultFile {
        FaultFile { world: Arc::clone(&self.world), inode, life, direct: false }
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk for FaultDisk {
    type File = FaultFile;
    type Lock = FaultLock;

    fn create(&self, path: &Path) -> io::Result<FaultFile> {
        let mut world = self.lock_world();
        world.step()?;
        world.may(Call::Create, path)?;
        world.may_change()?;
        let inode = world.inodes.len();
        world.inodes.push(Inode::default());
        world.rename_to(None, path, Some(inode));
        Ok(self.file(inode, world.life))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<FaultFile> {
        let world = self.lock_world();
        world.powered()?;
        let inode = world.find(path)?;
        if write {
            world.may_change()?;
        }
        Ok(self.file(inode, world.life))
    }

    fn open_direct(&self, path: &Path) -> io::Result<Option<FaultFile>> {
        let opened = self.open(path, true)?;
        Ok(self.lock_world().direct.then_some(FaultFile { direct: true, ..opened }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.lock_world();
        world.step()?;
        world.may(Call::Rename, from)?;
        world.may_change()?;
        let inode = world.find(from)?;
        world.rename_to(Some(from), to, Some(inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.lock_world();
        world.step()?;
        world.may_change()?;
        world.find(path)?;
        world.rename_to(None, path, None);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let world = self.lock_world();
        world.powered()?;
        if !world.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let files = world.names.iter().filter(|(path, _)| path.parent() == Some(dir)).map(|(path, inode)| Entry {
            name: name(path),
            len: world.inodes.get(*inode).map_or(0, |inode| inode.data.len() as u64),
            is_dir: false,
        });
        let dirs = world.dirs.iter().filter(|path| path.parent() == Some(dir));
        let dirs = dirs.map(|path| Entry { name: name(path), len: 0, is_dir: true });
        let mut entries: Vec<Entry> = files.chain(dirs).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.lock_world();
        world.powered()?;
        if world.dirs.contains(dir) {
            return Ok(());
        }
        world.step()?;
        world.may_change()?;
        for dir in dir.ancestors() {
            world.dirs.insert(dir.to_path_buf());
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.lock_world();
        world.step()?;
        world.may(Call::SyncDir, dir)?;
        let (now, later) = std::mem::take(&mut world.changes).into_iter().partition(|change| change.dir == dir);
        world.changes = later;
        world.flush_names(now);
        Ok(())
    }

    fn free_space(&self, _dir: &Path) -> io::Result<u64> {
        Ok(self.lock_world().free)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<FaultLock>> {
        let mut world = self.lock_world();
        world.powered()?;
        world.may_change()?;
        let taken = !world.locks.insert(path.to_path_buf());
        let life = world.life;
        Ok((!taken).then(|| FaultLock { world: Arc::clone(&self.world), path: path.to_path_buf(), life }))
    }
}

impl DiskFile for FaultFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut world = self.alive()?;
        world.powered()?;
        world.may_on(Call::Read, self.inode)?;
        let inode = world.inodes.get(self.inode).ok_or(io::ErrorKind::NotFound)?;
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = inode.data.get(at..).unwrap_or_default();
        let len = bytes.len().min(buf.len());
        for (to, from) in buf.iter_mut().zip(bytes) {
            *to = *from;
        }
        Ok(len)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write(buf, offset, false)
    }

    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write(buf, offset, true)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.alive()?;
        world.step()?;
        let failed = world.may_on(Call::Sync, self.inode).err();
        if failed.is_some() {
            world.flush_some(self.inode, 0..usize::MAX);
        } else if let Some(inode) = world.inodes.get_mut(self.inode) {
            inode.flush(0..usize::MAX);
        }
        failed.map_or(Ok(()), Err)
    }

    fn len(&self) -> io::Result<u64> {
        let world = self.alive()?;
        Ok(world.inodes.get(self.inode).map_or(0, |inode| inode.data.len() as u64))
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        let mut world = self.alive()?;
        world.step()?;
        world.may_on(Call::Preallocate, self.inode)?;
        world.may_change()?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if let Some(inode) = world.inodes.get_mut(self.inode)
            && inode.data.len() < len
        {
            inode.data.resize(len, 0);
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut world = self.alive()?;
        world.step()?;
        world.may_change()?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if let Some(inode) = world.inodes.get_mut(self.inode) {
            let old = inode.data.len();
            inode.data.resize(len, 0);
            inode.dirty.extend(len / SECTOR..old.div_ceil(SECTOR));
        }
        Ok(())
    }
}

impl FaultFile {
    /// Writes, and flushes what was written and nothing else if `durable`.
    fn write(&self, buf: &[u8], offset: u64, durable: bool) -> io::Result<()> {
        let mut world = self.alive()?;
        let whole = |n: usize| n.is_multiple_of(DIRECT_BLOCK);
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        if self.direct && !(whole(at) && whole(buf.len()) && buf.as_ptr().align_offset(DIRECT_BLOCK) == 0) {
            return Err(io::Error::other("a direct write of something else than whole blocks"));
        }
        let falls = world.power == Some(0) && !std::mem::replace(&mut world.fallen, true);
        let gone = world.step().err();
        if let Some(gone) = gone.filter(|_| !falls) {
            return Err(gone);
        }
        world.may_change()?;
        let failed = match falls {
            true => Some(io::Error::other("the process is gone")),
            false => world.may_on(Call::Write, self.inode).err(),
        };
        // A failing write may have written some of it.
        let len = if failed.is_some() { world.below(buf.len() + 1) } else { buf.len() };
        world.bytes_written += len as u64;
        let inode = world.inodes.get_mut(self.inode).ok_or(io::ErrorKind::NotFound)?;
        inode.write(buf.get(..len).unwrap_or_default(), at);
        if let Some(failed) = failed {
            return Err(failed);
        }
        if !durable {
            return Ok(());
        }
        let sectors = at / SECTOR..(at + len).div_ceil(SECTOR);
        match world.may_on(Call::Sync, self.inode) {
            Ok(()) => {
                world.inodes.get_mut(self.inode).into_iter().for_each(|inode| inode.flush(sectors.clone()));
                Ok(())
            }
            Err(failed) => {
                world.flush_some(self.inode, sectors);
                Err(failed)
            }
        }
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = lock(&self.world);
        if world.life == self.life { Ok(world) } else { Err(io::Error::other("the disk crashed")) }
    }
}

impl Drop for FaultLock {
    fn drop(&mut self) {
        let mut world = lock(&self.world);
        if world.life == self.life {
            world.locks.remove(&self.path);
        }
    }
}

impl World {
    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The disk is about to change: one step nearer to a planned power cut.
    fn step(&mut self) -> io::Result<()> {
        self.powered()?;
        self.power = self.power.map(|steps| steps - 1);
        Ok(())
    }

    fn powered(&self) -> io::Result<()> {
        if self.power == Some(0) { Err(io::Error::other("the power is out")) } else { Ok(()) }
    }

    fn may_change(&self) -> io::Result<()> {
        if self.read_only { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    fn may_on(&mut self, call: Call, inode: usize) -> io::Result<()> {
        if self.faults.is_empty() {
            return Ok(());
        }
        let path = self.names.iter().find(|(_, named)| **named == inode).map(|(path, _)| path.clone());
        self.may(call, &path.unwrap_or_default())
    }

    fn may(&mut self, call: Call, path: &Path) -> io::Result<()> {
        let hit = |fault: &Fault| fault.call == call && path.to_string_lossy().contains(&fault.part);
        let Some(at) = self.faults.iter().position(hit) else { return Ok(()) };
        let Some(fault) = self.faults.get_mut(at) else { return Ok(()) };
        if fault.skip > 0 {
            fault.skip -= 1;
            return Ok(());
        }
        let error = fault.error;
        if !fault.lasting {
            self.faults.remove(at);
        }
        Err(error.into())
    }

    fn rename_to(&mut self, from: Option<&Path>, to: &Path, inode: Option<usize>) {
        if let Some(from) = from {
            self.names.remove(from);
        }
        match inode {
            Some(inode) => self.names.insert(to.to_path_buf(), inode),
            None => self.names.remove(to),
        };
        let dir = to.parent().unwrap_or(Path::new("")).to_path_buf();
        self.changes.push(Change { dir, name: to.to_path_buf(), from: from.map(Path::to_path_buf), inode });
    }

    fn flush_names(&mut self, changes: Vec<Change>) {
        for change in changes {
            if let Some(from) = change.from {
                self.flushed_names.remove(&from);
            }
            match change.inode {
                Some(inode) => self.flushed_names.insert(change.name, inode),
                None => self.flushed_names.remove(&change.name),
            };
        }
    }

    fn crash(&mut self) {
        for inode in 0..self.inodes.len() {
            self.flush_some(inode, 0..usize::MAX);
        }
        let mut changes = std::mem::take(&mut self.changes);
        let kept = self.below(changes.len() + 1);
        changes.truncate(kept);
        self.flush_names(changes);
        self.names = self.flushed_names.clone();
        for inode in &mut self.inodes {
            inode.data = inode.flushed.clone();
        }
        self.locks.clear();
        self.faults.clear();
        self.power = None;
        self.life += 1;
    }

    /// Flushes some of the dirty sectors among these and forgets that the others were dirty.
    fn flush_some(&mut self, inode: usize, among: Range<usize>) {
        let Some(dirty) = self.inodes.get_mut(inode).map(|inode| inode.take_dirty(&among)) else { return };
        // Whole runs are the usual fate; single sectors the unusual one.
        let keep = match self.below(4) {
            0 => 0,
            1 => 100,
            _ => 50,
        };
        let kept: Vec<usize> = dirty.into_iter().filter(|_| self.below(100) < keep).collect();
        let long = self.below(2) == 0;
        let Some(inode) = self.inodes.get_mut(inode) else { return };
        for sector in kept {
            inode.flush_sector(sector);
        }
        if long {
            inode.flushed.resize(inode.data.len(), 0);
        }
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        usize::try_from((self.rng >> 16) % bound.max(1) as u64).unwrap_or(0)
    }
}

impl Inode {
    fn write(&mut self, bytes: &[u8], at: usize) {
        if bytes.is_empty() {
            return;
        }
        let end = at + bytes.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        if let Some(place) = self.data.get_mut(at..end) {
            place.copy_from_slice(bytes);
        }
        self.dirty.extend(at / SECTOR..end.div_ceil(SECTOR));
    }

    fn take_dirty(&mut self, among: &Range<usize>) -> BTreeSet<usize> {
        let mut dirty = self.dirty.split_off(&among.start);
        let behind = dirty.split_off(&among.end);
        self.dirty.extend(behind);
        dirty
    }

    fn flush(&mut self, among: Range<usize>) {
        for sector in self.take_dirty(&among) {
            self.flush_sector(sector);
        }
        // The length goes along.
        if self.flushed.len() < self.data.len() || among.end == usize::MAX {
            self.flushed.resize(self.data.len(), 0);
        }
    }

    fn flush_sector(&mut self, sector: usize) {
        let from = sector * SECTOR;
        let to = (from + SECTOR).min(self.data.len());
        let Some(bytes) = self.data.get(from..to) else { return };
        if self.flushed.len() < to {
            self.flushed.resize(to, 0);
        }
        if let Some(place) = self.flushed.get_mut(from..to) {
            place.copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushed_bytes_survive_a_crash_and_others_may_not() {
        let mut lost = 0;
        for seed in 0..50 {
            let disk = FaultDisk::new(seed);
            let file = disk.create(Path::new("/d/f")).unwrap();
            file.write_at(&[1; 2000], 0).unwrap();
            file.sync_data().unwrap();
            disk.sync_dir(Path::new("/d")).unwrap();
            file.write_at(&[2; 2000], 2000).unwrap();
            disk.crash();
            assert!(file.len().is_err());
            let file = disk.open(Path::new("/d/f"), false).unwrap();
            let mut buf = [0; 4000];
            let got = file.read_at(&mut buf, 0).unwrap();
            assert!(got >= 2000 && buf[..2000] == [1; 2000]);
            lost += usize::from(buf[2000..] != [2; 2000]);
        }
        assert!((10..50).contains(&lost), "{lost}");
    }

    #[test]
    fn names_need_their_directory_flushed() {
        let lost = (0..50).filter(|seed| {
            let disk = FaultDisk::new(*seed);
            disk.create(Path::new("/d/f")).unwrap().sync_data().unwrap();
            disk.crash();
            !disk.exists(Path::new("/d/f")).unwrap()
        });
        assert!((5..45).contains(&lost.count()));
    }

    #[test]
    fn a_planned_failure_comes_once() {
        let disk = FaultDisk::new(1);
        let file = disk.create(Path::new("/f")).unwrap();
        disk.fail(Call::Write, 1, io::ErrorKind::StorageFull, false);
        file.write_at(b"a", 0).unwrap();
        assert_eq!(file.write_at(b"b", 1).unwrap_err().kind(), io::ErrorKind::StorageFull);
        file.write_at(b"b", 1).unwrap();
    }

    #[test]
    fn a_planned_power_cut_comes_after_its_steps() {
        let disk = FaultDisk::new(1);
        let file = disk.create(Path::new("/d/f")).unwrap();
        disk.cut_after(2);
        file.write_at(b"whole", 0).unwrap();
        assert!(!disk.is_cut());
        file.sync_data().unwrap();
        assert!(disk.is_cut());
        assert!(disk.sync_dir(Path::new("/d")).is_err());
        assert!(disk.open(Path::new("/d/f"), false).is_err() && file.read_at(&mut [0; 5], 0).is_err());
        disk.crash();
        assert!(!disk.is_cut());
        disk.create(Path::new("/d/g")).unwrap();
    }
}
