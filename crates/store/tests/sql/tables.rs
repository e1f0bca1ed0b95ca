//! A database server in memory: the tables of the SQL sketch (docs/adr/0003), one function per statement, one thread that owns them.
//! Callers are on the other side of a round trip; the connection can be cut before or after a transaction took effect.
//! Not here: what a store promises (`super`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use rialto_store::{Class, Horizon, Lsn, Record, Snapshot};

/// A row of `record`: the record and the checksum of its body.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) record: Record,
    pub(crate) crc: u32,
}

/// What a transaction may fail with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost;

/// The tables. Keys are the primary keys of the sketch; secondary indexes are left to the reader's mind.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// `log (class primary key, last_lsn)`
    log: BTreeMap<Class, Lsn>,
    /// `owner (network primary key, epoch)`
    owner: BTreeMap<u32, u64>,
    /// `record (class, lsn, network, seq, kind, version, key, crc, body, primary key (class, lsn))`
    record: BTreeMap<(Class, Lsn), Row>,
    /// `snapshot (network, lsn, class, body, primary key (network, lsn))`
    snapshot: BTreeMap<(u32, Lsn), Snapshot>,
    /// `node (epoch)`, one row
    epoch: u64,
    /// `blob (hash primary key, upload, size)`
    blob: BTreeMap<String, (u64, u64)>,
    /// `piece (upload, number, body, primary key (upload, number))`
    piece: BTreeMap<(u64, u64), Vec<u8>>,
    uploads: u64,
}

/// Rows in a page of a read: no cursor is held open between two pages.
pub(crate) const PAGE: usize = 64;

impl Tables {
    /// ```sql
    /// WITH fence AS (
    ///     INSERT INTO owner (network, epoch) VALUES ($network, $epoch)
    ///     ON CONFLICT (network) DO UPDATE SET epoch = excluded.epoch WHERE owner.epoch <= excluded.epoch
    ///     RETURNING network),
    /// place AS (
    ///     INSERT INTO log (class, last_lsn) SELECT $class, $count FROM fence
    ///     ON CONFLICT (class) DO UPDATE SET last_lsn = log.last_lsn + excluded.last_lsn
    ///     RETURNING last_lsn - $count AS before)
    /// INSERT INTO record (class, lsn, network, seq, kind, version, key, crc, body)
    /// SELECT $class, before + r.n, $network, r.seq, r.kind, r.version, r.key, r.crc, r.body
    /// FROM place, unnest($seqs, $kinds, $versions, $keys, $crcs, $bodies)
    ///     WITH ORDINALITY AS r (seq, kind, version, key, crc, body, n)
    /// RETURNING lsn
    /// ```
    /// No row comes back: a newer owner has written (`SELECT epoch FROM owner WHERE network = $network` says which).
    /// The row of `log` stays locked until the commit, so LSNs become visible in their order.
    pub(crate) fn insert(&mut self, class: Class, network: u32, epoch: u64, rows: Vec<Row>) -> Result<(Lsn, Lsn), u64> {
        let newest = self.owner.entry(network).or_default();
        if *newest > epoch {
            return Err(*newest);
        }
        *newest = epoch;
        let last = self.log.entry(class).or_default();
        let before = *last;
        *last += rows.len() as u64;
        for (row, lsn) in rows.into_iter().zip(before + 1..) {
            self.record.insert((class, lsn), Row { record: Record { lsn, ..row.record }, ..row });
        }
        Ok((before + 1, *last))
    }

    /// `SELECT last_lsn FROM log WHERE class = $class`
    pub(crate) fn last_lsn(&self, class: Class) -> Lsn {
        self.log.get(&class).copied().unwrap_or(0)
    }

    /// `SELECT class, last_lsn FROM log ORDER BY class`
    pub(crate) fn logs(&self) -> Vec<(Class, Lsn)> {
        self.log.iter().map(|(class, lsn)| (*class, *lsn)).collect()
    }

    /// `SELECT … FROM record WHERE network = $network AND kind = 1 AND seq >= $from AND seq < $to ORDER BY seq LIMIT $page`
    pub(crate) fn range(&self, network: u32, from: u64, to: u64) -> Vec<Row> {
        self.events(network, |seq| seq >= from && seq < to)
    }

    /// `SELECT … FROM record WHERE network = $network AND kind = 1 AND seq = ANY ($seqs) ORDER BY seq`
    pub(crate) fn these(&self, network: u32, seqs: &[u64]) -> Vec<Row> {
        self.events(network, |seq| seqs.binary_search(&seq).is_ok())
    }

    fn events(&self, network: u32, wanted: impl Fn(u64) -> bool) -> Vec<Row> {
        let is = |row: &&Row| row.record.network == network && row.record.kind == 1 && wanted(row.record.seq);
        let mut found: Vec<Row> = self.record.values().filter(is).cloned().collect();
        found.sort_by_key(|row| row.record.seq);
        found.truncate(PAGE);
        found
    }

    /// `SELECT … FROM record WHERE class = $class AND lsn > $after AND lsn <= $last AND ($network IS NULL OR network = $network)
    /// ORDER BY lsn LIMIT $page`
    pub(crate) fn replay(&self, class: Class, network: Option<u32>, after: Lsn, last: Lsn) -> Vec<Row> {
        if after >= last {
            return Vec::new();
        }
        let rows = self.record.range((class, after + 1)..=(class, last)).map(|(_, row)| row);
        rows.filter(|row| network.is_none_or(|n| n == row.record.network)).take(PAGE).cloned().collect()
    }

    /// `SELECT seq FROM record WHERE network = $network AND kind = 1 AND key = $key ORDER BY seq DESC`
    /// (index `(network, key) WHERE kind = 1 AND key <> 0`)
    pub(crate) fn find(&self, network: u32, key: u64) -> Vec<u64> {
        let has = |row: &&Row| row.record.network == network && row.record.kind == 1 && row.record.key == key;
        let mut seqs: Vec<u64> = self.record.values().filter(has).map(|row| row.record.seq).collect();
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs
    }

    /// `UPDATE record SET body = $body, crc = $crc WHERE network = $network AND kind = 1 AND seq = $seq AND length(body) = length($body)`
    /// The answer is the length that is there, if the event is.
    pub(crate) fn erase(&mut self, network: u32, seq: u64, body: &[u8]) -> Option<usize> {
        let mut rows = self.record.values_mut();
        let row = rows.find(|row| row.record.network == network && row.record.kind == 1 && row.record.seq == seq)?;
        if row.record.body.len() == body.len() {
            row.record.body = body.to_vec();
            row.crc = crc32c::crc32c(body);
        }
        Some(row.record.body.len())
    }

    /// `UPDATE record SET body = $body, crc = $crc WHERE class = $class AND lsn = $lsn AND length(body) = length($body)`, for each
    /// of them in one transaction. A body of another length undoes all; the answer is its length and the one that is there.
    pub(crate) fn overwrite(&mut self, class: Class, bodies: &[(Lsn, Vec<u8>)]) -> Result<(), (usize, usize)> {
        for (lsn, body) in bodies {
            if let Some(row) = self.record.get(&(class, *lsn)).filter(|row| row.record.body.len() != body.len()) {
                return Err((body.len(), row.record.body.len()));
            }
        }
        for (lsn, body) in bodies {
            if let Some(row) = self.record.get_mut(&(class, *lsn)) {
                row.record.body.clone_from(body);
                row.crc = crc32c::crc32c(body);
            }
        }
        Ok(())
    }

    /// `SELECT DISTINCT ON (network) network, class FROM (SELECT network, seq, class FROM record
    /// UNION ALL SELECT network, 0, class FROM snapshot) AS known ORDER BY network, seq DESC`
    pub(crate) fn networks(&self) -> Vec<(u32, Class)> {
        let mut newest: BTreeMap<u32, (u64, Class)> = BTreeMap::new();
        let records = self.record.iter().map(|((class, _), row)| (row.record.network, row.record.seq, *class));
        let snapshots = self.snapshot.iter().map(|((network, _), snapshot)| (*network, 0, snapshot.class));
        for (network, seq, class) in records.chain(snapshots) {
            let known = newest.entry(network).or_insert((seq, class));
            if seq > known.0 {
                *known = (seq, class);
            }
        }
        newest.into_iter().map(|(network, (_, class))| (network, class)).collect()
    }

    /// `INSERT INTO snapshot … ON CONFLICT (network, lsn) DO UPDATE SET class = excluded.class, body = excluded.body`, then
    /// `DELETE FROM snapshot WHERE network = $network AND lsn < (SELECT lsn FROM snapshot WHERE network = $network
    /// ORDER BY lsn DESC OFFSET 1 LIMIT 1)`
    pub(crate) fn save_snapshot(&mut self, network: u32, snapshot: Snapshot) {
        self.snapshot.insert((network, snapshot.lsn), snapshot);
        let kept: Vec<Lsn> = self.snapshots_of(network).map(|snapshot| snapshot.lsn).collect();
        for lsn in kept.iter().rev().skip(2) {
            self.snapshot.remove(&(network, *lsn));
        }
    }

    fn snapshots_of(&self, network: u32) -> impl Iterator<Item = &Snapshot> {
        self.snapshot.range((network, 0)..=(network, Lsn::MAX)).map(|(_, snapshot)| snapshot)
    }

    /// `SELECT epoch FROM node`
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.max(1)
    }

    /// `UPDATE node SET epoch = greatest(epoch, $to)`
    pub(crate) fn raise_epoch(&mut self, to: u64) {
        self.epoch = self.epoch.max(to);
    }

    /// `DELETE FROM snapshot WHERE network = $network AND lsn = $lsn`
    pub(crate) fn remove_snapshot(&mut self, network: u32, lsn: Lsn) {
        self.snapshot.remove(&(network, lsn));
    }

    /// `SELECT class, lsn, body FROM snapshot WHERE network = $network AND lsn <= $through ORDER BY lsn DESC LIMIT 1`
    pub(crate) fn newest_snapshot(&self, network: u32, through: Lsn) -> Option<Snapshot> {
        self.snapshots_of(network).filter(|snapshot| snapshot.lsn <= through).last().cloned()
    }

    /// `DELETE FROM record WHERE class = $class AND lsn < (SELECT min(lsn) FROM record AS r WHERE r.class = $class AND NOT EXISTS
    /// (SELECT FROM unnest($networks, $seqs) AS h (network, seq) JOIN (SELECT network, min(lsn) AS lsn FROM snapshot
    /// WHERE class = $class GROUP BY network HAVING count(*) = 2) AS s USING (network)
    /// WHERE h.network = r.network AND r.seq <= h.seq AND r.lsn <= s.lsn))`; with partitions by LSN, whole partitions go.
    pub(crate) fn recycle(&mut self, class: Class, horizons: &[Horizon]) -> (u64, u64) {
        let may_go = |record: &Record| {
            let old = horizons.iter().any(|h| h.network == record.network && record.seq <= h.seq);
            let kept: Vec<&Snapshot> = self.snapshots_of(record.network).collect();
            old && kept.len() == 2 && kept.iter().all(|s| s.class == class && record.lsn <= s.lsn)
        };
        let of_class = self.record.range((class, 0)..=(class, Lsn::MAX));
        let going: Vec<(Class, Lsn)> =
            of_class.take_while(|(_, row)| may_go(&row.record)).map(|(key, _)| *key).collect();
        let bytes = going.iter().filter_map(|key| self.record.remove(key)).map(|row| row.record.body.len() as u64);
        let bytes = bytes.sum();
        (going.len() as u64, bytes)
    }

    /// `SELECT nextval('upload')`
    pub(crate) fn next_upload(&mut self) -> u64 {
        self.uploads += 1;
        self.uploads
    }

    /// `INSERT INTO piece (upload, number, body) VALUES ($upload, $number, $body)`
    pub(crate) fn put_piece(&mut self, upload: u64, number: u64, body: Vec<u8>) {
        self.piece.insert((upload, number), body);
    }

    /// `INSERT INTO blob (hash, upload, size) VALUES ($hash, $upload, $size) ON CONFLICT (hash) DO NOTHING`; the pieces of an upload
    /// that lost go: `DELETE FROM piece WHERE upload = $upload AND NOT EXISTS (SELECT FROM blob WHERE blob.upload = piece.upload)`
    pub(crate) fn name_blob(&mut self, hash: String, upload: u64, size: u64) {
        let kept = self.blob.entry(hash).or_insert((upload, size)).0;
        if kept != upload {
            self.drop_pieces(upload);
        }
    }

    /// `DELETE FROM piece WHERE upload = $upload`
    pub(crate) fn drop_pieces(&mut self, upload: u64) {
        self.piece.retain(|(of, _), _| *of != upload);
    }

    /// `SELECT upload, size FROM blob WHERE hash = $hash`
    pub(crate) fn blob(&self, hash: &str) -> Option<(u64, u64)> {
        self.blob.get(hash).copied()
    }

    /// `SELECT body FROM piece WHERE upload = $upload AND number = $number`
    pub(crate) fn piece(&self, upload: u64, number: u64) -> Option<Vec<u8>> {
        self.piece.get(&(upload, number)).cloned()
    }

    /// `DELETE FROM blob WHERE hash = $hash RETURNING upload`, then its pieces
    pub(crate) fn remove_blob(&mut self, hash: &str) -> bool {
        let Some((upload, _)) = self.blob.remove(hash) else { return false };
        self.drop_pieces(upload);
        true
    }

    /// `SELECT hash, size FROM blob ORDER BY hash`
    pub(crate) fn blobs(&self) -> Vec<(String, u64)> {
        self.blob.iter().map(|(hash, (_, size))| (hash.clone(), *size)).collect()
    }

    /// `SELECT count(*) FROM snapshot`
    pub(crate) fn snapshots(&self) -> u64 {
        self.snapshot.len() as u64
    }

    /// `SELECT class, lsn, crc, body FROM record ORDER BY class, lsn`, in pages
    pub(crate) fn records(&self, after: Option<(Class, Lsn)>) -> Vec<((Class, Lsn), Row)> {
        let rows = self.record.iter().filter(|(key, _)| after.is_none_or(|after| **key > after));
        rows.take(PAGE).map(|(key, row)| (*key, row.clone())).collect()
    }

    /// Damages a stored body behind the database's back.
    pub(crate) fn rot(&mut self, class: Class, lsn: Lsn) {
        if let Some(byte) = self.record.get_mut(&(class, lsn)).and_then(|row| row.record.body.first_mut()) {
            *byte ^= 1;
        }
    }
}

type Work = Box<dyn FnOnce(&mut Tables) + Send>;

/// The server: one thread, transactions one after another.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    work: Arc<Mutex<Sender<Work>>>,
    /// The next transaction: cut before it takes effect, or after.
    cut: Arc<Mutex<Option<Cut>>>,
    up: Arc<AtomicBool>,
}

/// Where a connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before the commit reached the server.
    Before,
    /// After the commit, before its answer.
    After,
}

impl Database {
    pub(crate) fn start() -> Database {
        let (work, works): (Sender<Work>, Receiver<Work>) = channel();
        std::thread::spawn(move || {
            let mut tables = Tables::default();
            while let Ok(work) = works.recv() {
                work(&mut tables);
            }
        });
        Database { work: Arc::new(Mutex::new(work)), cut: Arc::default(), up: Arc::new(AtomicBool::new(true)) }
    }

    /// Breaks the connection at the next transaction.
    pub(crate) fn cut(&self, cut: Cut) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = Some(cut);
    }

    /// Whether the server can be reached.
    pub(crate) fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::SeqCst);
    }

    /// One transaction and its round trip.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        statements: impl FnOnce(&mut Tables) -> T + Send + 'static,
    ) -> Result<T, Lost> {
        if !self.up.load(Ordering::SeqCst) {
            return Err(Lost);
        }
        let cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner).take();
        if cut == Some(Cut::Before) {
            return Err(Lost);
        }
        let (answer, answered) = channel();
        let work: Work = Box::new(move |tables| drop(answer.send(statements(tables))));
        self.work.lock().unwrap_or_else(PoisonError::into_inner).send(work).map_err(|_| Lost)?;
        let answer = answered.recv().map_err(|_| Lost)?;
        if cut == Some(Cut::After) { Err(Lost) } else { Ok(answer) }
    }
}
