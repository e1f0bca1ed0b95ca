//! The store in memory, for tests: the same promises as the local one as long as the process lives.
//! Completions run on the caller's thread, before `append` returns.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::blob::hex;
use crate::class::Class;
use crate::error::StoreError;
use crate::record::{Batch, EVENT_KIND, Lsn, Record, RecordRef};
use crate::store::{
    BlobInfo, BlobReader, BlobWriter, Committed, Done, Flush, Freed, Health, Horizon, LogHealth, NetworkInfo, Rejected,
    Rewrite, Seqs, Snapshot, Store, VerifyReport, Visit,
};

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    logs: BTreeMap<Class, Log>,
    epochs: BTreeMap<u32, u64>,
    /// Oldest first, two at most.
    snapshots: BTreeMap<u32, Vec<Snapshot>>,
    blobs: BTreeMap<String, Arc<Vec<u8>>>,
    closed: bool,
    epoch: u64,
}

#[derive(Debug, Default)]
struct Log {
    records: Vec<Arc<Record>>,
    last_lsn: Lsn,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Copies of the records wanted, so that `visit` runs without the lock.
    fn pick(&self, wanted: impl Fn(Class, &Record) -> bool) -> Vec<Arc<Record>> {
        let inner = self.lock();
        let of = |(class, log): (&Class, &Log)| {
            let class = *class;
            log.records.iter().filter(|record| wanted(class, record)).cloned().collect::<Vec<_>>()
        };
        inner.logs.iter().flat_map(of).collect()
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn take(&mut self, class: Class, epoch: u64, batch: &Batch) -> Result<(Lsn, Lsn), StoreError> {
        let newest = self.epochs.entry(batch.network()).or_default();
        if epoch < *newest {
            return Err(StoreError::Fenced { network: batch.network(), newest: *newest, given: epoch });
        }
        *newest = epoch;
        let log = self.logs.entry(class).or_default();
        if batch.is_empty() {
            return Ok((log.last_lsn, log.last_lsn));
        }
        let first = log.last_lsn + 1;
        for record in batch.iter() {
            log.last_lsn += 1;
            log.records.push(Arc::new(Record { lsn: log.last_lsn, ..record.to_record() }));
        }
        Ok((first, log.last_lsn))
    }
}

impl Store for MemoryStore {
    fn epoch(&self) -> Result<u64, StoreError> {
        Ok(self.lock().epoch.max(1))
    }

    fn raise_epoch(&self, to: u64) -> Result<(), StoreError> {
        let mut inner = self.lock();
        inner.epoch = inner.epoch.max(to);
        Ok(())
    }

    fn append(&self, class: Class, epoch: u64, _flush: Flush, batch: Batch, done: Done) -> Result<(), Box<Rejected>> {
        let taken = {
            let mut inner = self.lock();
            if inner.closed {
                return Err(Box::new(Rejected { error: StoreError::Closed, batch, done }));
            }
            inner.take(class, epoch, &batch)
        };
        done(taken.map(|(first_lsn, last_lsn)| Committed { first_lsn, last_lsn, segment: 0, batch }));
        Ok(())
    }

    fn read(&self, network: u32, seqs: Seqs<'_>, visit: Visit<'_>) -> Result<(), StoreError> {
        let asked = |seq: u64| match &seqs {
            Seqs::Range(range) => range.contains(&seq),
            Seqs::These(seqs) => seqs.binary_search(&seq).is_ok(),
        };
        let mut found =
            self.pick(|_, record| record.network == network && record.kind == EVENT_KIND && asked(record.seq));
        found.sort_by_key(|record| record.seq);
        show(&found, visit);
        Ok(())
    }

    fn erase(&self, network: u32, seq: u64, body: &[u8]) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        let mut records = inner.logs.values_mut().flat_map(|log| &mut log.records);
        let found = records.find(|r| r.network == network && r.kind == EVENT_KIND && r.seq == seq);
        let Some(record) = found else { return Ok(false) };
        replace_body(record, body)?;
        Ok(true)
    }

    fn rewrite(
        &self,
        class: Class,
        network: u32,
        lsns: RangeInclusive<Lsn>,
        change: Rewrite<'_>,
    ) -> Result<u64, StoreError> {
        let mut inner = self.lock();
        let records = inner.logs.get_mut(&class).into_iter().flat_map(|log| &mut log.records);
        let mut replaced = 0;
        for record in records.filter(|record| record.network == network && lsns.contains(&record.lsn)) {
            if let Some(body) = change(shown(record)) {
                replace_body(record, &body)?;
                replaced += 1;
            }
        }
        Ok(replaced)
    }

    fn replay(&self, class: Class, network: Option<u32>, after: Lsn, visit: Visit<'_>) -> Result<Lsn, StoreError> {
        let last = self.lock().logs.get(&class).map_or(0, |log| log.last_lsn);
        let wanted = |of: Class, record: &Record| {
            of == class && record.lsn > after && record.lsn <= last && network.is_none_or(|n| n == record.network)
        };
        show(&self.pick(wanted), visit);
        Ok(last)
    }

    fn find(&self, network: u32, key: u64) -> Result<Vec<u64>, StoreError> {
        if key == 0 {
            return Ok(Vec::new());
        }
        let has = |_, record: &Record| record.network == network && record.kind == EVENT_KIND && record.key == key;
        let mut seqs: Vec<u64> = self.pick(has).iter().map(|record| record.seq).collect();
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        Ok(seqs)
    }

    fn networks(&self) -> Result<Vec<NetworkInfo>, StoreError> {
        let inner = self.lock();
        let mut found: BTreeMap<u32, (u64, Class)> = BTreeMap::new();
        for (class, log) in &inner.logs {
            for record in &log.records {
                let newest = found.entry(record.network).or_insert((record.seq, *class));
                if record.seq > newest.0 {
                    *newest = (record.seq, *class);
                }
            }
        }
        for (network, snapshots) in &inner.snapshots {
            if let Some(newest) = snapshots.last() {
                found.entry(*network).or_insert((0, newest.class));
            }
        }
        Ok(found.into_iter().map(|(network, (_, class))| NetworkInfo { network, class }).collect())
    }

    fn save_snapshot(&self, class: Class, network: u32, lsn: Lsn, bytes: &[u8]) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let kept = inner.snapshots.entry(network).or_default();
        kept.push(Snapshot { class, lsn, bytes: bytes.to_vec() });
        kept.sort_by_key(|snapshot| snapshot.lsn);
        let surplus = kept.len().saturating_sub(2);
        kept.drain(..surplus);
        Ok(())
    }

    fn load_snapshot(&self, network: u32, through: Lsn) -> Result<Option<Snapshot>, StoreError> {
        let inner = self.lock();
        let kept = inner.snapshots.get(&network).map(Vec::as_slice).unwrap_or_default();
        Ok(kept.iter().rfind(|snapshot| snapshot.lsn <= through).cloned())
    }

    fn reject_snapshot(&self, network: u32, lsn: Lsn, _what: &str) -> Result<(), StoreError> {
        self.lock().snapshots.entry(network).or_default().retain(|snapshot| snapshot.lsn != lsn);
        Ok(())
    }

    fn drop_rejected_snapshots(&self, _network: u32) -> Result<(), StoreError> {
        // None are kept.
        Ok(())
    }

    fn recycle(&self, class: Class, horizons: &[Horizon]) -> Result<Freed, StoreError> {
        let mut inner = self.lock();
        let Inner { logs, snapshots, .. } = &mut *inner;
        let Some(log) = logs.get_mut(&class) else { return Ok(Freed::default()) };
        let is_old = |record: &Record| horizons.iter().any(|h| h.network == record.network && record.seq <= h.seq);
        let is_covered = |record: &Record| {
            let kept = snapshots.get(&record.network).filter(|kept| kept.len() == 2);
            kept.is_some_and(|kept| kept.iter().all(|s| s.class == class && record.lsn <= s.lsn))
        };
        let mut freed = Freed::default();
        log.records.retain(|record| {
            let goes = is_old(record) && is_covered(record);
            if is_old(record) && !goes {
                freed.held_by.insert(record.network);
            }
            freed.segments = freed.segments.max(u64::from(goes));
            freed.bytes += if goes { record.body.len() as u64 } else { 0 };
            !goes
        });
        Ok(freed)
    }

    fn put_blob(&self) -> Result<Box<dyn BlobWriter>, StoreError> {
        Ok(Box::new(Writer { inner: Arc::clone(&self.inner), bytes: Vec::new() }))
    }

    fn open_blob(&self, hash: &str) -> Result<Option<Box<dyn BlobReader>>, StoreError> {
        let blob = self.lock().blobs.get(hash).cloned();
        Ok(blob.map(|bytes| Box::new(Reader(bytes)) as Box<dyn BlobReader>))
    }

    fn has_blob(&self, hash: &str) -> Result<bool, StoreError> {
        Ok(self.lock().blobs.contains_key(hash))
    }

    fn remove_blob(&self, hash: &str) -> Result<bool, StoreError> {
        Ok(self.lock().blobs.remove(hash).is_some())
    }

    fn list_blobs(&self) -> Result<Vec<BlobInfo>, StoreError> {
        let inner = self.lock();
        Ok(inner.blobs.iter().map(|(hash, bytes)| BlobInfo { hash: hash.clone(), size: bytes.len() as u64 }).collect())
    }

    fn health(&self) -> Health {
        let inner = self.lock();
        let log = |(class, log): (&Class, &Log)| LogHealth {
            class: *class,
            last_lsn: log.last_lsn,
            durable_lsn: log.last_lsn,
            segments: 1,
            waiting: 0,
            broken: None,
            direct: None,
        };
        Health { logs: inner.logs.iter().map(log).collect(), ..Health::default() }
    }

    fn reopen(&self, _network: u32) -> Result<(), StoreError> {
        Ok(())
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport, StoreError> {
        let inner = self.lock();
        progress(1, 1);
        Ok(VerifyReport {
            written_off: Vec::new(),
            records: inner.logs.values().map(|log| log.records.len() as u64).sum(),
            segments: inner.logs.len() as u64,
            snapshots: inner.snapshots.values().map(|kept| kept.len() as u64).sum(),
            blobs: inner.blobs.len() as u64,
            damage: Vec::new(),
        })
    }

    fn close(&self) -> Result<(), StoreError> {
        self.lock().closed = true;
        Ok(())
    }
}

fn show(records: &[Arc<Record>], visit: Visit<'_>) {
    let _ = records.iter().try_for_each(|record| visit(shown(record)));
}

fn shown(record: &Record) -> RecordRef<'_> {
    let Record { lsn, network, seq, kind, version, key, body } = record;
    RecordRef { lsn: *lsn, network: *network, seq: *seq, kind: *kind, version: *version, key: *key, body }
}

fn replace_body(record: &mut Arc<Record>, body: &[u8]) -> Result<(), StoreError> {
    if record.body.len() != body.len() {
        let (size, limit) = (body.len() as u64, record.body.len() as u64);
        return Err(StoreError::TooLarge { what: "erased body", size, limit });
    }
    *record = Arc::new(Record { body: body.to_vec(), ..record.as_ref().clone() });
    Ok(())
}

#[derive(Debug)]
struct Writer {
    inner: Arc<Mutex<Inner>>,
    bytes: Vec<u8>,
}

impl BlobWriter for Writer {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<BlobInfo, StoreError> {
        let (hash, size) = (hex(&Sha256::digest(&self.bytes)), self.bytes.len() as u64);
        lock(&self.inner).blobs.insert(hash.clone(), Arc::new(self.bytes));
        Ok(BlobInfo { hash, size })
    }
}

#[derive(Debug)]
struct Reader(Arc<Vec<u8>>);

impl BlobReader for Reader {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        let bytes = usize::try_from(offset).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let len = bytes.len().min(buf.len());
        for (to, from) in buf.iter_mut().zip(bytes) {
            *to = *from;
        }
        Ok(len)
    }
}
