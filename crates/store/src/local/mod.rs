//! The default store: one locked data directory with segment logs, snapshots and blobs.
//!
//! ```text
//! LOCK FORMAT EPOCH log/<class>/{<n>.seg,<n>.idx,spare-<k>.seg,control,damaged/} snapshots/ blobs/
//! ```
//! Not here: the log itself (`log`), the two SQLite files beside it (`search`, `admin`).

mod epoch;
mod format;
mod keeper;
mod lane;
mod options;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::{ControlFlow, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use self::keeper::Keeper;
use self::lane::Lane;
pub use self::options::LocalOptions;
use crate::blob::Blobs;
use crate::budget::Budget;
use crate::class::Class;
use crate::disk::{self, Disk, RealDisk};
use crate::error::{At as _, Damage, StoreError};
use crate::log::upkeep::Need;
use crate::log::{Log, LogOptions, OpenedLog, WaitingBatch};
use crate::record::{Batch, Lsn};
use crate::snapshot::Snapshots;
use crate::store::{
    BlobInfo, BlobReader, BlobWriter, Done, Flush, Freed, Health, Horizon, LogHealth, Loss, NetworkInfo, Rejected,
    Rewrite, Seqs, Snapshot, Store, VerifyReport, Visit,
};

/// What is the store's own in a data directory. Older releases made it readable by others.
const OWN: [&str; 6] = ["LOCK", "FORMAT", "EPOCH", "log", "snapshots", "blobs"];

/// First and last seq of a network in a log, and the log.
type Holder<D> = (u64, u64, Arc<Lane<D>>);

/// A store in a data directory.
#[derive(Debug)]
pub struct LocalStore<D: Disk = RealDisk> {
    disk: D,
    dir: PathBuf,
    options: LocalOptions,
    seed: u64,
    budget: Arc<Budget>,
    lanes: RwLock<BTreeMap<Class, Arc<Lane<D>>>>,
    keeper: Keeper<D>,
    snapshots: Snapshots<D>,
    blobs: Arc<Blobs<D>>,
    notes: Mutex<Vec<Damage>>,
    /// `None` once closed.
    lock: Mutex<Option<D::Lock>>,
}

impl LocalStore {
    /// Opens a data directory, or begins one.
    pub fn open(dir: impl AsRef<Path>, options: LocalOptions) -> Result<Self, StoreError> {
        Self::open_on(RealDisk, dir, options)
    }
}

impl<D: Disk> LocalStore<D> {
    /// Opens a data directory on a disk of choice.
    pub fn open_on(disk: D, dir: impl AsRef<Path>, mut options: LocalOptions) -> Result<Self, StoreError> {
        let dir = dir.as_ref().to_path_buf();
        disk.create_dir_all(&dir).at("create", &dir)?;
        let lock_path = dir.join("LOCK");
        let Some(lock) = disk.lock(&lock_path).at("lock", &lock_path)? else {
            let holder = disk::read_all(&disk, &lock_path, 4096).unwrap_or_default();
            let holder = String::from_utf8_lossy(&holder).trim().to_owned();
            return Err(StoreError::Locked { path: lock_path, holder });
        };
        for name in OWN {
            let path = dir.join(name);
            disk.restrict(&path).at("restrict", &path)?;
        }
        format::check(&disk, &dir)?;
        // Offsets in an index have 32 bits.
        options.max_segment_bytes = options.max_segment_bytes.clamp(4096, 1 << 30);
        options.first_segment_bytes = options.first_segment_bytes.clamp(4096, options.max_segment_bytes);
        let budget = Arc::new(Budget::new(options.budget_bytes));
        let (snapshots, notes) = Snapshots::open(disk.clone(), dir.join("snapshots"), Arc::clone(&budget))?;
        let floor = options.free_floor_bytes;
        let counted = options.budget_bytes.is_some();
        let blobs = Blobs::open(disk.clone(), dir.join("blobs"), Arc::clone(&budget), floor, counted)?;
        let store = Self {
            seed: options.seed.unwrap_or_else(|| RandomState::new().hash_one(&dir)),
            keeper: Keeper::start(&dir, options.manual)?,
            disk,
            dir,
            options,
            budget,
            lanes: RwLock::new(BTreeMap::new()),
            snapshots,
            blobs: Arc::new(blobs),
            notes: Mutex::new(notes),
            lock: Mutex::new(Some(lock)),
        };
        for class in store.classes_on_disk()? {
            store.lane_or_new(class)?;
        }
        store.check_snapshots()?;
        Ok(store)
    }

    /// Refuses a log that lost records a snapshot covers: new records would get their LSNs.
    fn check_snapshots(&self) -> Result<(), StoreError> {
        for (network, kept) in self.snapshots.networks() {
            let last = self.lane(kept.class).map_or(0, |lane| lane.view.read_inner().open.last_lsn);
            if kept.lsn > last {
                let what = format!("snapshot covers LSN {}, but log {} ends with {last}", kept.lsn, kept.class);
                return Err(StoreError::damaged(&self.snapshots.path(network, &kept), 0, what));
            }
        }
        Ok(())
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Commits one group per log and does what upkeep is due, on this thread; only in a store opened as `manual`. Returns the number of
    /// batches whose completions it called. A completion must not pump.
    pub fn pump(&self) -> Result<usize, StoreError> {
        self.all_lanes().into_iter().try_fold(0, |sum, (_, lane)| Ok(sum + lane.pump()?))
    }

    fn classes_on_disk(&self) -> Result<Vec<Class>, StoreError> {
        let dir = self.dir.join("log");
        let std = dir.join(Class::STD.name());
        self.disk.create_dir_all(&std).at("create", &std)?;
        let entries = self.disk.list(&dir).at("list", &dir)?;
        Ok(entries.iter().filter(|entry| entry.is_dir).filter_map(|entry| entry.name.parse().ok()).collect())
    }

    fn lane(&self, class: Class) -> Option<Arc<Lane<D>>> {
        self.lanes.read().unwrap_or_else(PoisonError::into_inner).get(&class).cloned()
    }

    fn all_lanes(&self) -> Vec<(Class, Arc<Lane<D>>)> {
        let lanes = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|(class, lane)| (*class, Arc::clone(lane))).collect()
    }

    fn lane_or_new(&self, class: Class) -> Result<Arc<Lane<D>>, StoreError> {
        if let Some(lane) = self.lane(class) {
            return Ok(lane);
        }
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get(&class) {
            return Ok(Arc::clone(lane));
        }
        if self.lock.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Err(StoreError::Closed);
        }
        let options = LogOptions {
            first_segment: self.options.first_segment_bytes,
            max_segment: self.options.max_segment_bytes,
            free_floor: self.options.free_floor_bytes,
            seed: self.seed,
            durable: self.snapshots.highest(class),
            direct: self.options.direct,
        };
        let dir = self.dir.join("log").join(class.name());
        let OpenedLog { log, notes } = Log::open(self.disk.clone(), &dir, class, options, Arc::clone(&self.budget))?;
        self.note(notes);
        let lane = if self.options.manual {
            Lane::manual(log, self.options.limits())
        } else {
            let bell = self.keeper.bell();
            Lane::start(log, self.options.limits(), move || bell.ring())?
        };
        let lane = Arc::new(lane);
        self.keeper.add(class, Arc::clone(&lane.view));
        lanes.insert(class, Arc::clone(&lane));
        Ok(lane)
    }

    fn note(&self, notes: impl IntoIterator<Item = Damage>) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).extend(notes);
    }

    /// What is absent may be lost.
    fn refuse_lost(&self, network: u32) -> Result<(), StoreError> {
        self.known_loss(network).map_or(Ok(()), |damage| Err(StoreError::Damaged(Box::new(damage))))
    }

    /// Logs with events of a network: first and last seq, oldest first.
    fn lanes_of(&self, network: u32) -> Result<Vec<Holder<D>>, StoreError> {
        let mut found = Vec::new();
        for (_, lane) in self.all_lanes() {
            if let Some((first, last)) = lane.view.bounds(network)? {
                found.push((first, last, lane));
            }
        }
        found.sort_by_key(|(first, _, _)| *first);
        Ok(found)
    }
}

impl<D: Disk> Store for LocalStore<D> {
    fn epoch(&self) -> Result<u64, StoreError> {
        epoch::load(&self.disk, &self.dir)
    }

    fn raise_epoch(&self, to: u64) -> Result<(), StoreError> {
        epoch::raise(&self.disk, &self.dir, to)
    }

    fn append(&self, class: Class, epoch: u64, flush: Flush, batch: Batch, done: Done) -> Result<(), Box<Rejected>> {
        match self.lane_or_new(class) {
            Ok(lane) => lane.append(WaitingBatch::new(batch, epoch, flush), done),
            Err(error) => Err(Box::new(Rejected { error, batch, done })),
        }
    }

    fn read(&self, network: u32, seqs: Seqs<'_>, visit: Visit<'_>) -> Result<(), StoreError> {
        let (mut shown, asked) = (0, seqs.len());
        let visit: Visit<'_> = &mut |record| {
            shown += 1;
            visit(record)
        };
        for (first, last, lane) in self.lanes_of(network)? {
            let flow = match &seqs {
                Seqs::Range(range) => {
                    let mut seqs = range.start.max(first)..range.end.min(last.saturating_add(1));
                    lane.view.read(network, &mut seqs, visit)?
                }
                Seqs::These(seqs) => {
                    let mut seqs = seqs.iter().copied().filter(|seq| (first..=last).contains(seq));
                    lane.view.read(network, &mut seqs, visit)?
                }
            };
            if flow == ControlFlow::Break(()) {
                return Ok(());
            }
        }
        if shown < asked { self.refuse_lost(network) } else { Ok(()) }
    }

    fn erase(&self, network: u32, seq: u64, body: &[u8]) -> Result<bool, StoreError> {
        for (first, last, lane) in self.lanes_of(network)? {
            if (first..=last).contains(&seq) && lane.view.erase(network, seq, body)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn rewrite(
        &self,
        class: Class,
        network: u32,
        lsns: RangeInclusive<Lsn>,
        change: Rewrite<'_>,
    ) -> Result<u64, StoreError> {
        self.lane(class).map_or(Ok(0), |lane| lane.view.rewrite(network, &lsns, change))
    }

    fn replay(&self, class: Class, network: Option<u32>, after: Lsn, visit: Visit<'_>) -> Result<Lsn, StoreError> {
        match self.lane(class) {
            Some(lane) => lane.view.replay(network, after, visit),
            None => Ok(0),
        }
    }

    fn find(&self, network: u32, key: u64) -> Result<Vec<u64>, StoreError> {
        let mut found = Vec::new();
        for (_, lane) in self.all_lanes() {
            found.extend(lane.view.find(network, key)?);
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.dedup();
        if found.is_empty() {
            self.refuse_lost(network)?;
        }
        Ok(found)
    }

    fn networks(&self) -> Result<Vec<NetworkInfo>, StoreError> {
        let mut classes: BTreeMap<u32, (u64, Class)> = BTreeMap::new();
        for (class, lane) in self.all_lanes() {
            for network in lane.view.networks()?.into_iter().filter(|network| !lane.view.is_given_up(*network)) {
                let last = lane.view.bounds(network)?.map_or(0, |(_, last)| last);
                let newest = classes.entry(network).or_insert((last, class));
                if last > newest.0 {
                    *newest = (last, class);
                }
            }
        }
        let given_up = |network, class| self.lane(class).is_some_and(|lane| lane.view.is_given_up(network));
        for (network, kept) in self.snapshots.networks() {
            if given_up(network, kept.class) {
                continue;
            }
            classes.entry(network).or_insert((0, kept.class));
        }
        Ok(classes.into_iter().map(|(network, (_, class))| NetworkInfo { network, class }).collect())
    }

    fn save_snapshot(&self, class: Class, network: u32, lsn: Lsn, bytes: &[u8]) -> Result<(), StoreError> {
        // A snapshot must never outlive records it covers: their LSNs would be given again and skipped on replay.
        if let Some(lane) = self.lane(class) {
            lane.flush_through(lsn)?;
        }
        self.snapshots.save(class, network, lsn, bytes)
    }

    fn load_snapshot(&self, network: u32, through: Lsn) -> Result<Option<Snapshot>, StoreError> {
        let (snapshot, notes) = self.snapshots.load(network, through)?;
        self.note(notes);
        Ok(snapshot)
    }

    fn reject_snapshot(&self, network: u32, lsn: Lsn, what: &str) -> Result<(), StoreError> {
        self.note(self.snapshots.reject(network, lsn, what)?);
        Ok(())
    }

    fn drop_rejected_snapshots(&self, network: u32) -> Result<(), StoreError> {
        self.snapshots.drop_rejected(network)
    }

    fn recycle(&self, class: Class, horizons: &[Horizon]) -> Result<Freed, StoreError> {
        let Some(lane) = self.lane(class) else { return Ok(Freed::default()) };
        let horizons: BTreeMap<u32, u64> = horizons.iter().map(|horizon| (horizon.network, horizon.seq)).collect();
        lane.view.recycle(&|network, span| {
            let old = |seq: &u64| span.max_seq <= *seq || crate::bugs::on("segment recycled too early");
            if !horizons.get(&network).is_some_and(old) {
                Need::Records
            } else if self.snapshots.covered(class, network).is_some_and(|lsn| span.last_lsn <= lsn) {
                Need::Nothing
            } else {
                Need::Snapshots
            }
        })
    }

    fn put_blob(&self) -> Result<Box<dyn BlobWriter>, StoreError> {
        self.blobs.put()
    }

    fn open_blob(&self, hash: &str) -> Result<Option<Box<dyn BlobReader>>, StoreError> {
        self.blobs.open_blob(hash)
    }

    fn has_blob(&self, hash: &str) -> Result<bool, StoreError> {
        self.blobs.has(hash)
    }

    fn remove_blob(&self, hash: &str) -> Result<bool, StoreError> {
        self.blobs.remove(hash)
    }

    fn list_blobs(&self) -> Result<Vec<BlobInfo>, StoreError> {
        self.blobs.list()
    }

    fn health(&self) -> Health {
        let log = |(class, lane): (Class, Arc<Lane<D>>)| {
            let inner = lane.view.read_inner();
            LogHealth {
                class,
                last_lsn: inner.open.last_lsn,
                durable_lsn: inner.open.durable,
                segments: inner.sealed.len() as u64 + 1,
                waiting: lane.waiting() as u64,
                broken: lane.broken(),
                direct: Some(lane.view.writes_directly.load(Ordering::Relaxed)),
            }
        };
        let logs: Vec<LogHealth> = self.all_lanes().into_iter().map(log).collect();
        let broken = logs.iter().find_map(|log| log.broken.clone());
        Health {
            free_bytes: self.disk.free_space(&self.dir).ok(),
            used_bytes: self.budget.used(),
            last_error: broken.or_else(|| self.keeper.last_error()),
            logs,
            notes: self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn reopen(&self, network: u32) -> Result<(), StoreError> {
        self.all_lanes().into_iter().try_for_each(|(_, lane)| lane.reopen(network))
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport, StoreError> {
        let mut report = VerifyReport::default();
        let (lanes, blobs) = (self.all_lanes(), self.blobs.list()?);
        let total = lanes.iter().map(|(_, lane)| lane.view.bytes()).sum::<u64>()
            + self.snapshots.bytes()
            + blobs.iter().map(|blob| blob.size).sum::<u64>();
        let mut seen = 0;
        let mut step = |bytes: u64| {
            seen += bytes;
            progress(seen.min(total), total);
        };
        for (_, lane) in lanes {
            lane.view.verify(&mut report, &mut step)?;
        }
        let (snapshots, damage) = self.snapshots.verify(&mut step)?;
        report.snapshots = snapshots;
        report.damage.extend(damage);
        for blob in blobs {
            report.blobs += 1;
            report.damage.extend(self.blobs.verify(&blob.hash)?);
            step(blob.size);
        }
        Ok(report)
    }

    fn known_loss(&self, network: u32) -> Option<Damage> {
        self.all_lanes().into_iter().find_map(|(_, lane)| lane.view.known_loss(network))
    }

    fn losses(&self) -> Result<Vec<Loss>, StoreError> {
        let mut losses = Vec::new();
        for (_, lane) in self.all_lanes() {
            losses.extend(lane.view.losses()?);
        }
        Ok(losses)
    }

    fn write_off(&self) -> Result<Vec<Loss>, StoreError> {
        let mut losses = Vec::new();
        for (_, lane) in self.all_lanes() {
            losses.extend(lane.view.write_off()?);
        }
        Ok(losses)
    }

    fn cut_back(&self, class: Class, network: u32, after: Lsn) -> Result<(), StoreError> {
        self.lane(class).map_or(Ok(()), |lane| lane.view.cut_back(network, after))
    }

    fn given_up(&self) -> Vec<u32> {
        self.all_lanes().into_iter().flat_map(|(_, lane)| lane.view.given_up()).collect()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.keeper.stop();
        let mut result = Ok(());
        for (_, lane) in self.all_lanes() {
            result = result.and(lane.close());
        }
        self.blobs.close();
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = None;
        result
    }
}

impl<D: Disk> Drop for LocalStore<D> {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the store did not close cleanly");
        }
    }
}
