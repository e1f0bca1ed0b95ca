//! A store over SQL statements: what a PostgreSQL store would look like, with the server in memory. It has no path, no file and no
//! descriptor, only round trips; it passes the same contract as the stores that ship. A spike, for tests only.
//! Not here: the tables and statements (`tables`).

pub(crate) mod tables;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rialto_store::{
    Batch, BlobInfo, BlobReader, BlobWriter, Class, Committed, Damage, Done, Flush, Freed, Health, Horizon, LogHealth,
    Lsn, NetworkInfo, RecordRef, Rejected, Rewrite, Seqs, Snapshot, Store, StoreError, VerifyReport, Visit,
};
use sha2::{Digest as _, Sha256};

use self::tables::{Database, Lost, Row};

/// Bytes of a blob in one row.
const PIECE: usize = 64 << 10;
/// Batches that may wait.
const QUEUE: usize = 4096;

/// The store: a pool of connections (here: one server thread) and one thread that commits.
#[derive(Debug)]
pub(crate) struct SqlStore {
    database: Database,
    shared: Arc<Shared>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Held while a group is on its way, so that whoever reopens knows the fate of what went before.
    on_its_way: Mutex<()>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<WaitingBatch>,
    /// Networks whose last batch failed: refused until their owner reopens.
    failed: BTreeSet<u32>,
    /// The commit whose outcome is unknown.
    broken: Option<String>,
    closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

struct WaitingBatch {
    class: Class,
    epoch: u64,
    batch: Batch,
    done: Done,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost(_: Lost) -> StoreError {
    StoreError::Unavailable { cause: "the connection to the database is gone".to_owned() }
}

impl SqlStore {
    /// Connects.
    pub(crate) fn connect(database: Database) -> SqlStore {
        let shared = Arc::new(Shared::default());
        let (work, server) = (Arc::clone(&shared), database.clone());
        let committer = std::thread::spawn(move || run(&work, &server));
        SqlStore { database, shared, committer: Mutex::new(Some(committer)) }
    }

    /// Shows pages of rows until the visitor or the rows end; between two pages nothing is held.
    fn show(
        &self,
        visit: Visit<'_>,
        mut page: impl FnMut(&Database, Option<&Row>) -> Result<Vec<Row>, Lost>,
    ) -> Result<(), StoreError> {
        let mut last: Option<Row> = None;
        loop {
            let rows = page(&self.database, last.as_ref()).map_err(lost)?;
            for row in &rows {
                let r = &row.record;
                if row.crc != crc32c::crc32c(&r.body) {
                    return Err(StoreError::Damaged(Box::new(damage(&place(r.lsn)))));
                }
                let (lsn, network, seq) = (r.lsn, r.network, r.seq);
                let shown =
                    RecordRef { lsn, network, seq, kind: r.kind, version: r.version, key: r.key, body: &r.body };
                if visit(shown) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
            match rows.into_iter().last() {
                Some(row) => last = Some(row),
                None => return Ok(()),
            }
        }
    }
}

/// Where damage is, in the words of this store.
fn place(lsn: Lsn) -> String {
    format!("record {lsn}")
}

fn damage(place: &str) -> Damage {
    Damage { file: place.into(), offset: 0, what: "row has a bad checksum".to_owned(), kept: None }
}

/// Takes all that waits, commits it in one transaction, tells each batch.
fn run(shared: &Shared, database: &Database) {
    loop {
        let mut state = shared.lock();
        while state.waiting.is_empty() && !state.closed {
            state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        let on_its_way = shared.on_its_way.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = shared.lock();
        let group: Vec<WaitingBatch> = state.waiting.drain(..).collect();
        let (broken, failed) = (state.broken.clone(), state.failed.clone());
        if state.closed && group.is_empty() {
            return;
        }
        drop(state);
        let outcomes = match broken {
            Some(cause) => vec![Err(StoreError::Unavailable { cause }); group.len()],
            None => commit(database, &group, &failed).unwrap_or_else(|Lost| {
                let cause = "the outcome of a commit is not known".to_owned();
                shared.lock().broken = Some(cause.clone());
                vec![Err(StoreError::Unavailable { cause }); group.len()]
            }),
        };
        let mut state = shared.lock();
        for (waiting, outcome) in group.iter().zip(&outcomes) {
            // A batch of an older epoch is nobody's predecessor.
            if matches!(outcome, Err(error) if !matches!(error, StoreError::Fenced { .. })) && !waiting.batch.is_empty()
            {
                state.failed.insert(waiting.batch.network());
            }
        }
        drop((state, on_its_way));
        for (WaitingBatch { batch, done, .. }, outcome) in group.into_iter().zip(outcomes) {
            done(outcome.map(|(first_lsn, last_lsn)| Committed { first_lsn, last_lsn, segment: 0, batch }));
        }
    }
}

type Outcome = Result<(Lsn, Lsn), StoreError>;

/// One transaction: `BEGIN`, the statement of each batch, `COMMIT`, sent as a pipeline. `Flush` becomes `SET LOCAL
/// synchronous_commit = on` if any batch asks for it, else `off`.
fn commit(database: &Database, group: &[WaitingBatch], failed: &BTreeSet<u32>) -> Result<Vec<Outcome>, Lost> {
    let statement = |w: &WaitingBatch| {
        let row = |r: RecordRef<'_>| Row { crc: crc32c::crc32c(r.body), record: r.to_record() };
        let rows = (!failed.contains(&w.batch.network())).then(|| w.batch.iter().map(row).collect::<Vec<_>>());
        (w.class, w.batch.network(), w.epoch, rows)
    };
    let statements: Vec<_> = group.iter().map(statement).collect();
    database.call(move |tables| {
        let execute = |(class, network, given, rows): (Class, u32, u64, Option<Vec<Row>>)| match rows {
            None => Err(StoreError::Unavailable { cause: "an earlier batch of this network failed".to_owned() }),
            Some(rows) if rows.is_empty() => Ok((tables.last_lsn(class), tables.last_lsn(class))),
            Some(rows) => tables.insert(class, network, given, rows).map_err(|newest| StoreError::Fenced {
                network,
                newest,
                given,
            }),
        };
        statements.into_iter().map(execute).collect()
    })
}

impl Store for SqlStore {
    fn epoch(&self) -> Result<u64, StoreError> {
        self.database.call(|tables| tables.epoch()).map_err(lost)
    }

    fn raise_epoch(&self, to: u64) -> Result<(), StoreError> {
        self.database.call(move |tables| tables.raise_epoch(to)).map_err(lost)
    }

    fn append(&self, class: Class, epoch: u64, _flush: Flush, batch: Batch, done: Done) -> Result<(), Box<Rejected>> {
        let mut state = self.shared.lock();
        if state.closed || state.waiting.len() >= QUEUE {
            let error = if state.closed { StoreError::Closed } else { StoreError::Busy };
            return Err(Box::new(Rejected { error, batch, done }));
        }
        state.waiting.push_back(WaitingBatch { class, epoch, batch, done });
        drop(state);
        self.shared.wake.notify_one();
        Ok(())
    }

    fn read(&self, network: u32, seqs: Seqs<'_>, visit: Visit<'_>) -> Result<(), StoreError> {
        match seqs {
            Seqs::Range(range) => self.show(visit, |database, last| {
                let from = last.map_or(range.start, |row| row.record.seq + 1);
                let to = range.end;
                database.call(move |tables| tables.range(network, from, to))
            }),
            Seqs::These(seqs) => self.show(visit, |database, last| {
                let after = last.map(|row| row.record.seq);
                let left: Vec<u64> = seqs.iter().copied().filter(|seq| after.is_none_or(|a| *seq > a)).collect();
                database.call(move |tables| tables.these(network, &left))
            }),
        }
    }

    fn erase(&self, network: u32, seq: u64, body: &[u8]) -> Result<bool, StoreError> {
        let (size, owned) = (body.len(), body.to_vec());
        match self.database.call(move |tables| tables.erase(network, seq, &owned)).map_err(lost)? {
            None => Ok(false),
            Some(length) if length == size => Ok(true),
            Some(length) => Err(StoreError::TooLarge { what: "erased body", size: size as u64, limit: length as u64 }),
        }
    }

    fn rewrite(
        &self,
        class: Class,
        network: u32,
        lsns: RangeInclusive<Lsn>,
        change: Rewrite<'_>,
    ) -> Result<u64, StoreError> {
        let mut bodies = Vec::new();
        self.replay(class, Some(network), lsns.start().saturating_sub(1), &mut |record| {
            if record.lsn > *lsns.end() {
                return ControlFlow::Break(());
            }
            bodies.extend(change(record).map(|body| (record.lsn, body)));
            ControlFlow::Continue(())
        })?;
        let replaced = bodies.len() as u64;
        match self.database.call(move |tables| tables.overwrite(class, &bodies)).map_err(lost)? {
            Ok(()) => Ok(replaced),
            Err((size, limit)) => {
                Err(StoreError::TooLarge { what: "erased body", size: size as u64, limit: limit as u64 })
            }
        }
    }

    fn replay(&self, class: Class, network: Option<u32>, after: Lsn, visit: Visit<'_>) -> Result<Lsn, StoreError> {
        let end = self.database.call(move |tables| tables.last_lsn(class)).map_err(lost)?;
        self.show(visit, |database, last| {
            let after = last.map_or(after, |row| row.record.lsn);
            database.call(move |tables| tables.replay(class, network, after, end))
        })?;
        Ok(end)
    }

    fn find(&self, network: u32, key: u64) -> Result<Vec<u64>, StoreError> {
        if key == 0 {
            return Ok(Vec::new());
        }
        self.database.call(move |tables| tables.find(network, key)).map_err(lost)
    }

    fn networks(&self) -> Result<Vec<NetworkInfo>, StoreError> {
        let found = self.database.call(|tables| tables.networks()).map_err(lost)?;
        Ok(found.into_iter().map(|(network, class)| NetworkInfo { network, class }).collect())
    }

    fn save_snapshot(&self, class: Class, network: u32, lsn: Lsn, bytes: &[u8]) -> Result<(), StoreError> {
        // Nothing to flush first: what can be read is committed. (With `synchronous_commit = off` an empty synchronous transaction.)
        let snapshot = Snapshot { class, lsn, bytes: bytes.to_vec() };
        self.database.call(move |tables| tables.save_snapshot(network, snapshot)).map_err(lost)
    }

    fn load_snapshot(&self, network: u32, through: Lsn) -> Result<Option<Snapshot>, StoreError> {
        self.database.call(move |tables| tables.newest_snapshot(network, through)).map_err(lost)
    }

    fn reject_snapshot(&self, network: u32, lsn: Lsn, _what: &str) -> Result<(), StoreError> {
        self.database.call(move |tables| tables.remove_snapshot(network, lsn)).map_err(lost)
    }

    fn drop_rejected_snapshots(&self, _network: u32) -> Result<(), StoreError> {
        // None are kept.
        Ok(())
    }

    fn recycle(&self, class: Class, horizons: &[Horizon]) -> Result<Freed, StoreError> {
        let horizons = horizons.to_vec();
        let (segments, bytes) = self.database.call(move |tables| tables.recycle(class, &horizons)).map_err(lost)?;
        Ok(Freed { segments, bytes, ..Freed::default() })
    }

    fn put_blob(&self) -> Result<Box<dyn BlobWriter>, StoreError> {
        let upload = self.database.call(tables::Tables::next_upload).map_err(lost)?;
        let (hash, gathered) = (Sha256::new(), Vec::new());
        Ok(Box::new(Upload {
            database: self.database.clone(),
            upload,
            hash,
            gathered,
            pieces: 0,
            size: 0,
            named: false,
        }))
    }

    fn open_blob(&self, hash: &str) -> Result<Option<Box<dyn BlobReader>>, StoreError> {
        let name = hash.to_owned();
        let found = self.database.call(move |tables| tables.blob(&name)).map_err(lost)?;
        let database = self.database.clone();
        Ok(found.map(|(upload, size)| Box::new(Download { database, upload, size }) as Box<dyn BlobReader>))
    }

    fn has_blob(&self, hash: &str) -> Result<bool, StoreError> {
        Ok(self.open_blob(hash)?.is_some())
    }

    fn remove_blob(&self, hash: &str) -> Result<bool, StoreError> {
        let name = hash.to_owned();
        self.database.call(move |tables| tables.remove_blob(&name)).map_err(lost)
    }

    fn list_blobs(&self) -> Result<Vec<BlobInfo>, StoreError> {
        let found = self.database.call(|tables| tables.blobs()).map_err(lost)?;
        Ok(found.into_iter().map(|(hash, size)| BlobInfo { hash, size }).collect())
    }

    fn health(&self) -> Health {
        let (waiting, broken) = {
            let state = self.shared.lock();
            (state.waiting.len() as u64, state.broken.clone())
        };
        let logs = self.database.call(|tables| tables.logs());
        let last_error = broken.clone().or_else(|| logs.as_ref().err().map(|_| lost(Lost).to_string()));
        let log = |(class, last_lsn)| {
            let broken = broken.clone();
            LogHealth { class, last_lsn, durable_lsn: last_lsn, segments: 1, waiting, broken, direct: None }
        };
        Health { last_error, logs: logs.unwrap_or_default().into_iter().map(log).collect(), ..Health::default() }
    }

    fn reopen(&self, network: u32) -> Result<(), StoreError> {
        let _settled = self.shared.on_its_way.lock().unwrap_or_else(PoisonError::into_inner);
        // The first round trip of a new connection. (A real one first ends the old backend: `pg_terminate_backend`.)
        self.database.call(|tables| tables.logs()).map_err(lost)?;
        let stale: Vec<WaitingBatch> = {
            let mut state = self.shared.lock();
            state.broken = None;
            state.failed.remove(&network);
            let (stale, kept) = state.waiting.drain(..).partition(|w: &WaitingBatch| w.batch.network() == network);
            state.waiting = kept;
            let stale: VecDeque<WaitingBatch> = stale;
            stale.into()
        };
        for waiting in stale {
            let cause = "an earlier batch of this network failed".to_owned();
            (waiting.done)(Err(StoreError::Unavailable { cause }));
        }
        Ok(())
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport, StoreError> {
        let mut report = VerifyReport::default();
        let mut after = None;
        let mut classes: BTreeMap<Class, u64> = BTreeMap::new();
        loop {
            let rows = self.database.call(move |tables| tables.records(after)).map_err(lost)?;
            let Some((last, _)) = rows.last() else { break };
            after = Some(*last);
            for ((class, lsn), row) in &rows {
                if row.crc == crc32c::crc32c(&row.record.body) {
                    report.records += 1;
                } else {
                    report.damage.push(damage(&place(*lsn)));
                }
                *classes.entry(*class).or_default() += 1;
            }
        }
        report.segments = classes.len() as u64;
        report.snapshots = self.database.call(|tables| tables.snapshots()).map_err(lost)?;
        for blob in self.list_blobs()? {
            report.blobs += 1;
            let Some(reader) = self.open_blob(&blob.hash)? else { continue };
            let mut bytes = vec![0; usize::try_from(reader.size()).unwrap_or(0)];
            reader.read_at(&mut bytes, 0)?;
            if hex(&Sha256::digest(&bytes)) != blob.hash {
                report.damage.push(damage(&format!("blob {}", blob.hash)));
            }
        }
        progress(1, 1);
        Ok(report)
    }

    fn close(&self) -> Result<(), StoreError> {
        self.shared.lock().closed = true;
        self.shared.wake.notify_one();
        if let Some(committer) = self.committer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = committer.join();
        }
        Ok(())
    }
}

impl Drop for SqlStore {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A blob on its way in: pieces under an upload number, named at the end.
#[derive(Debug)]
struct Upload {
    database: Database,
    upload: u64,
    hash: Sha256,
    gathered: Vec<u8>,
    pieces: u64,
    size: u64,
    named: bool,
}

impl Upload {
    fn pour(&mut self, at_least: usize) -> Result<(), StoreError> {
        while self.gathered.len() >= at_least.max(1) {
            let rest = self.gathered.split_off(self.gathered.len().min(PIECE));
            let body = std::mem::replace(&mut self.gathered, rest);
            let (upload, number) = (self.upload, self.pieces);
            self.pieces += 1;
            self.size += body.len() as u64;
            self.database.call(move |tables| tables.put_piece(upload, number, body)).map_err(lost)?;
        }
        Ok(())
    }
}

impl BlobWriter for Upload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.hash.update(bytes);
        self.gathered.extend_from_slice(bytes);
        self.pour(PIECE)
    }

    fn finish(mut self: Box<Self>) -> Result<BlobInfo, StoreError> {
        self.pour(1)?;
        let hash = hex(&std::mem::take(&mut self.hash).finalize());
        let (name, upload, size) = (hash.clone(), self.upload, self.size);
        self.database.call(move |tables| tables.name_blob(name, upload, size)).map_err(lost)?;
        self.named = true;
        Ok(BlobInfo { hash, size })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.named {
            let upload = self.upload;
            let _ = self.database.call(move |tables| tables.drop_pieces(upload));
        }
    }
}

/// A blob on its way out, piece by piece.
#[derive(Debug)]
struct Download {
    database: Database,
    upload: u64,
    size: u64,
}

impl BlobReader for Download {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        let (mut at, mut done) = (offset, 0);
        while done < buf.len() && at < self.size {
            let (upload, number) = (self.upload, at / PIECE as u64);
            let piece = self.database.call(move |tables| tables.piece(upload, number)).map_err(lost)?;
            let skip = usize::try_from(at % PIECE as u64).unwrap_or(0);
            let bytes = piece.as_deref().and_then(|piece| piece.get(skip..)).unwrap_or_default();
            if bytes.is_empty() {
                break;
            }
            for (to, from) in buf.iter_mut().skip(done).zip(bytes) {
                *to = *from;
                done += 1;
                at += 1;
            }
        }
        Ok(done)
    }
}
