//! Snapshots on disk: `snapshots/<network>-<lsn>.snap`, written aside, flushed, renamed; two kept per network; a bad one is set
//! aside, the older one used and copied (`<network>-<lsn>-copy.snap`), so that there are two again. One saved again for the same
//! LSN becomes such a copy too.
//! Not here: what is in a snapshot (the engine), when one is made (the node).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::budget::Budget;
use crate::class::{CLASS_BYTES, Class};
use crate::disk::{self, Disk};
use crate::error::{At as _, Damage, StoreError};
use crate::log::format::{put, u32_at, u64_at};
use crate::record::Lsn;
use crate::store::Snapshot;

const MAGIC: u64 = u64::from_le_bytes(*b"RIALTOSN");
const VERSION: u32 = 1;
const HEAD: usize = 64;
const KEPT: usize = 2;
/// What the name of a bad snapshot ends with.
const SET_ASIDE: &str = "damaged";
/// Largest snapshot, in bytes.
pub(crate) const SNAPSHOT_BYTES_MAX: u64 = 4 << 30;

/// A kept snapshot file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptSnapshot {
    pub(crate) class: Class,
    pub(crate) lsn: Lsn,
    /// Another one of the same LSN.
    copy: bool,
    size: u64,
}

/// The snapshot directory.
#[derive(Debug)]
pub(crate) struct Snapshots<D: Disk> {
    disk: D,
    dir: PathBuf,
    budget: Arc<Budget>,
    state: Mutex<SnapshotState>,
}

#[derive(Debug, Default)]
struct SnapshotState {
    /// Per network, oldest first.
    kept: BTreeMap<u32, Vec<KeptSnapshot>>,
    /// Networks that had one set aside and have only one left.
    short: BTreeSet<u32>,
}

impl<D: Disk> Snapshots<D> {
    /// Opens the directory; only headers are read.
    pub(crate) fn open(disk: D, dir: PathBuf, budget: Arc<Budget>) -> Result<(Self, Vec<Damage>), StoreError> {
        disk.create_dir_all(&dir).at("create", &dir)?;
        let mut state = SnapshotState::default();
        let mut notes = Vec::new();
        for entry in disk.list(&dir).at("list", &dir)? {
            let path = dir.join(&entry.name);
            if entry.name.ends_with(".tmp") {
                disk.remove(&path).at("remove", &path)?;
                continue;
            }
            let Some((network, lsn, copy)) = parse_name(&entry.name) else { continue };
            budget.count(entry.len);
            match read_head(&disk, &path).at("read", &path)? {
                Some(head) if (head.network, head.lsn) == (network, lsn) => {
                    let kept = KeptSnapshot { class: head.class, lsn, copy, size: entry.len };
                    state.kept.entry(network).or_default().push(kept);
                }
                _ => {
                    notes.push(set_aside(&disk, &path, 0, "snapshot header is bad")?);
                    state.short.insert(network);
                }
            }
        }
        for of_network in state.kept.values_mut() {
            of_network.sort_unstable_by_key(|kept| (kept.lsn, kept.copy));
        }
        Ok((Self { disk, dir, budget, state: Mutex::new(state) }, notes))
    }

    fn lock(&self) -> MutexGuard<'_, SnapshotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn save(&self, class: Class, network: u32, lsn: Lsn, bytes: &[u8]) -> Result<(), StoreError> {
        let size = (HEAD + bytes.len()) as u64;
        if size > SNAPSHOT_BYTES_MAX {
            return Err(StoreError::TooLarge { what: "snapshot", size, limit: SNAPSHOT_BYTES_MAX });
        }
        let mut state = self.lock();
        let of_network = state.kept.get(&network).map(Vec::as_slice).unwrap_or_default();
        // A network that has nothing new keeps two of the same LSN: each covers all there is, and one may turn bad.
        let has = |copy| of_network.iter().any(|kept| (kept.lsn, kept.copy) == (lsn, copy));
        let copy = has(false) && !has(true);
        self.write(&mut state, network, KeptSnapshot { class, lsn, copy, size }, bytes)?;
        let SnapshotState { kept, short } = &mut *state;
        let of_network = kept.entry(network).or_default();
        let surplus = of_network.len().saturating_sub(KEPT);
        for old in of_network.drain(..surplus) {
            let path = self.path(network, &old);
            self.disk.remove(&path).at("remove", &path)?;
            self.budget.give(old.size);
        }
        if of_network.len() >= KEPT {
            short.remove(&network);
        }
        Ok(())
    }

    /// Writes one file and takes it into the list.
    fn write(
        &self,
        state: &mut SnapshotState,
        network: u32,
        new: KeptSnapshot,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        self.budget.take(new.size)?;
        let path = self.path(network, &new);
        let mut whole = SnapshotHead { class: new.class, network, lsn: new.lsn }.encode(bytes).to_vec();
        whole.extend_from_slice(bytes);
        if let Err(error) = disk::replace(&self.disk, &path, &whole) {
            self.budget.give(new.size);
            return Err(StoreError::io("write", &path, error));
        }
        let of_network = state.kept.entry(network).or_default();
        let replaced = of_network.extract_if(.., |kept| (kept.lsn, kept.copy) == (new.lsn, new.copy));
        replaced.for_each(|old| self.budget.give(old.size));
        of_network.push(new);
        of_network.sort_unstable_by_key(|kept| (kept.lsn, kept.copy));
        Ok(())
    }

    /// The newest valid snapshot at or below an LSN, and what was set aside on the way.
    pub(crate) fn load(&self, network: u32, through: Lsn) -> Result<(Option<Snapshot>, Vec<Damage>), StoreError> {
        let mut state = self.lock();
        let mut notes = Vec::new();
        loop {
            let of_network = state.kept.get(&network).map(Vec::as_slice).unwrap_or_default();
            let Some(newest) = of_network.iter().rfind(|kept| kept.lsn <= through).copied() else {
                return Ok((None, notes));
            };
            match read_whole(&self.disk, &self.path(network, &newest), network, newest.lsn)? {
                Ok(bytes) => {
                    self.make_two(&mut state, network, newest, &bytes);
                    return Ok((Some(Snapshot { class: newest.class, lsn: newest.lsn, bytes }), notes));
                }
                Err((offset, what)) => notes.push(self.drop_bad(&mut state, network, newest, offset, what)?),
            }
        }
    }

    /// Sets aside all snapshots of this LSN: their bytes are right but mean nothing to who reads them.
    pub(crate) fn reject(&self, network: u32, lsn: Lsn, what: &str) -> Result<Vec<Damage>, StoreError> {
        let mut state = self.lock();
        let of_network = state.kept.entry(network).or_default();
        let bad: Vec<KeptSnapshot> = of_network.extract_if(.., |kept| kept.lsn == lsn).collect();
        bad.iter().map(|bad| set_aside(&self.disk, &self.path(network, bad), HEAD as u64, what)).collect()
    }

    /// Removes the files of a network that were set aside, and sees that those of older snapshots do not come back either.
    pub(crate) fn drop_rejected(&self, network: u32) -> Result<(), StoreError> {
        let mine = format!("{network:08}-");
        let entries = self.disk.list(&self.dir).at("list", &self.dir)?;
        let set_aside = |name: &str| name.starts_with(&mine) && name.ends_with(SET_ASIDE);
        for entry in entries.iter().filter(|entry| set_aside(&entry.name)) {
            let path = self.dir.join(&entry.name);
            self.disk.remove(&path).at("remove", &path)?;
        }
        self.disk.sync_dir(&self.dir).at("flush", &self.dir)
    }

    fn drop_bad(
        &self,
        state: &mut SnapshotState,
        network: u32,
        bad: KeptSnapshot,
        offset: u64,
        what: &str,
    ) -> Result<Damage, StoreError> {
        let note = set_aside(&self.disk, &self.path(network, &bad), offset, what)?;
        state.kept.entry(network).or_default().retain(|kept| *kept != bad);
        state.short.insert(network);
        Ok(note)
    }

    /// Where a bad snapshot was set aside and only this one is left, copies it: the log behind it may be freed already.
    fn make_two(&self, state: &mut SnapshotState, network: u32, good: KeptSnapshot, bytes: &[u8]) {
        if !state.short.contains(&network) || state.kept.get(&network).is_some_and(|kept| kept.len() >= KEPT) {
            return;
        }
        match self.write(state, network, KeptSnapshot { copy: !good.copy, ..good }, bytes) {
            Ok(()) => drop(state.short.remove(&network)),
            Err(error) => tracing::warn!(%error, "the only good snapshot of a network was not copied"),
        }
    }

    /// Networks with snapshots, and the class of the newest.
    pub(crate) fn networks(&self) -> Vec<(u32, KeptSnapshot)> {
        self.lock().kept.iter().filter_map(|(network, kept)| Some((*network, *kept.last()?))).collect()
    }

    /// The highest LSN that a snapshot covers in a class: all up to it was flushed before the snapshot was written.
    pub(crate) fn highest(&self, class: Class) -> Lsn {
        self.lock().kept.values().flatten().filter(|kept| kept.class == class).map(|kept| kept.lsn).max().unwrap_or(0)
    }

    /// The LSN that both kept snapshots of a network cover in a class; `None` while there are not two.
    pub(crate) fn covered(&self, class: Class, network: u32) -> Option<Lsn> {
        let state = self.lock();
        let kept = state.kept.get(&network)?;
        if kept.len() < KEPT || kept.iter().any(|kept| kept.class != class) {
            return None;
        }
        kept.iter().map(|kept| kept.lsn).min()
    }

    /// Checks every snapshot without setting any aside. Returns how many there are, and the bad ones.
    pub(crate) fn verify(&self, step: &mut dyn FnMut(u64)) -> Result<(u64, Vec<Damage>), StoreError> {
        let all = self.lock().kept.clone();
        let (mut count, mut damage) = (0, Vec::new());
        for (network, kept) in all {
            for kept in kept {
                let path = self.path(network, &kept);
                if !self.disk.exists(&path).at("look for", &path)? {
                    continue;
                }
                count += 1;
                if let Err((offset, what)) = read_whole(&self.disk, &path, network, kept.lsn)? {
                    damage.push(Damage { file: path, offset, what: what.to_owned(), kept: None });
                }
                step(kept.size);
            }
        }
        Ok((count, damage))
    }

    /// Bytes in all snapshots.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().kept.values().flatten().map(|kept| kept.size).sum()
    }

    pub(crate) fn path(&self, network: u32, kept: &KeptSnapshot) -> PathBuf {
        let copy = if kept.copy { "-copy" } else { "" };
        self.dir.join(format!("{network:08}-{:020}{copy}.snap", kept.lsn))
    }
}

fn parse_name(name: &str) -> Option<(u32, Lsn, bool)> {
    let (network, rest) = name.strip_suffix(".snap")?.split_once('-')?;
    let lsn = rest.strip_suffix("-copy").unwrap_or(rest);
    Some((network.parse().ok()?, lsn.parse().ok()?, lsn.len() < rest.len()))
}

#[derive(Debug, Clone, Copy)]
struct SnapshotHead {
    class: Class,
    network: u32,
    lsn: Lsn,
}

impl SnapshotHead {
    /// Layout: magic(8) version(4) crc(4) network(4) body crc(4) lsn(8) body length(8) class(16), zeros.
    fn encode(&self, body: &[u8]) -> [u8; HEAD] {
        let mut out = [0; HEAD];
        put(&mut out, 0, &MAGIC.to_le_bytes());
        put(&mut out, 8, &VERSION.to_le_bytes());
        put(&mut out, 16, &self.network.to_le_bytes());
        put(&mut out, 20, &crc32c::crc32c(body).to_le_bytes());
        put(&mut out, 24, &self.lsn.to_le_bytes());
        put(&mut out, 32, &(body.len() as u64).to_le_bytes());
        put(&mut out, 40, &self.class.to_bytes());
        let crc = head_crc(&out);
        put(&mut out, 12, &crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEAD)?;
        if u64_at(bytes, 0) != MAGIC || u32_at(bytes, 8) != VERSION || u32_at(bytes, 12) != head_crc(bytes) {
            return None;
        }
        let class = Class::from_bytes(bytes.get(40..40 + CLASS_BYTES)?)?;
        Some(Self { class, network: u32_at(bytes, 16), lsn: u64_at(bytes, 24) })
    }
}

fn head_crc(bytes: &[u8]) -> u32 {
    let first = crc32c::crc32c(bytes.get(..12).unwrap_or_default());
    crc32c::crc32c_append(first, bytes.get(16..HEAD).unwrap_or_default())
}

fn read_head<D: Disk>(disk: &D, path: &Path) -> std::io::Result<Option<SnapshotHead>> {
    use crate::disk::DiskFile as _;
    let mut head = [0; HEAD];
    let got = disk.open(path, false)?.read_at(&mut head, 0)?;
    Ok(SnapshotHead::decode(head.get(..got).unwrap_or_default()))
}

/// The body of a snapshot, or where and why it is bad.
type Body = Result<Vec<u8>, (u64, &'static str)>;

fn read_whole<D: Disk>(disk: &D, path: &Path, network: u32, lsn: Lsn) -> Result<Body, StoreError> {
    let mut bytes = match disk::read_all(disk, path, SNAPSHOT_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Err((0, "snapshot is missing"))),
        Err(error) => return Err(StoreError::io("read", path, error)),
    };
    let head = SnapshotHead::decode(&bytes).filter(|head| (head.network, head.lsn) == (network, lsn));
    if head.is_none() {
        return Ok(Err((0, "snapshot header is bad")));
    }
    let (crc, len) = (u32_at(&bytes, 20), u64_at(&bytes, 32));
    bytes.drain(..HEAD);
    if bytes.len() as u64 != len {
        return Ok(Err((HEAD as u64 + bytes.len() as u64, "snapshot is cut short")));
    }
    if crc32c::crc32c(&bytes) != crc {
        return Ok(Err((HEAD as u64, "snapshot has a bad checksum")));
    }
    Ok(Ok(bytes))
}

fn set_aside<D: Disk>(disk: &D, path: &Path, offset: u64, what: &str) -> Result<Damage, StoreError> {
    let kept = path.with_extension(SET_ASIDE);
    let kept = match disk.rename(path, &kept) {
        Ok(()) => Some(kept),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(StoreError::io("rename", path, error)),
    };
    let damage = Damage { file: path.to_path_buf(), offset, what: what.to_owned(), kept };
    tracing::warn!(%damage, "snapshot set aside");
    Ok(damage)
}
