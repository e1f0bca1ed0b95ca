//! Backups: a cut of every log as one file, independent of the store that wrote it, and the way back.
//!
//! Layout: magic, then framed items (tag, length, CRC-32 of the rest, bytes): networks' snapshots, records in log order,
//! blobs in pieces, and a last item with the counts; a file without it is refused.

use rialto_engine::Record;
use rialto_engine::record::{Change, KIND_CHANGE, VERSION};
use rialto_store::{Batch, Class, Committed, Flush, Lsn, Store, StoreError};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::mpsc;

const MAGIC: &[u8; 8] = b"RIALBAK1";
const RECORD: u8 = 1;
const SNAPSHOT: u8 = 2;
const BLOB: u8 = 3;
const END: u8 = 9;
/// Bytes of one item at most; blobs come in pieces.
const ITEM_BYTES_MAX: u32 = 256 << 20;
/// Bytes of a blob in one item.
const PIECE: usize = 1 << 20;
/// Bytes appended at once on the way back.
const BATCH_BYTES: usize = 4 << 20;

/// Why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file failed.
    #[error("the archive: {0}")]
    Io(#[from] std::io::Error),
    /// The file is not a whole backup.
    #[error("the archive is damaged: {0}")]
    Damaged(String),
}

/// What was saved or brought back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records.
    pub records: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bytes of records and blobs.
    pub bytes: u64,
}

fn damaged(what: impl Into<String>) -> ArchiveError {
    ArchiveError::Damaged(what.into())
}

fn put(out: &mut dyn Write, tag: u8, parts: &[&[u8]]) -> std::io::Result<()> {
    let len: usize = parts.iter().map(|p| p.len()).sum();
    let crc = parts.iter().fold(crc32c::crc32c(&[tag]), |crc, part| crc32c::crc32c_append(crc, part));
    out.write_all(&[tag])?;
    out.write_all(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes())?;
    out.write_all(&crc.to_le_bytes())?;
    parts.iter().try_for_each(|part| out.write_all(part))
}

/// Writes everything that is durable now. Commits go on meanwhile; what comes later is not in it.
pub fn save(store: &dyn Store, out: &mut dyn Write) -> Result<Counts, ArchiveError> {
    let mut counts = Counts::default();
    out.write_all(MAGIC)?;
    let health = store.health();
    let mut failed = None;
    for log in &health.logs {
        let cut = log.durable_lsn;
        store.replay(log.class, None, 0, &mut |r| {
            if r.lsn > cut {
                return ControlFlow::Break(());
            }
            let mut head = Vec::with_capacity(48);
            head.push(u8::try_from(log.class.name().len()).unwrap_or(0));
            head.extend_from_slice(log.class.name().as_bytes());
            for n in [r.lsn, r.seq, r.key] {
                head.extend_from_slice(&n.to_le_bytes());
            }
            head.extend_from_slice(&r.network.to_le_bytes());
            head.extend_from_slice(&[r.kind, r.version]);
            counts.records += 1;
            counts.bytes += r.body.len() as u64;
            match put(out, RECORD, &[&head, r.body]) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    // A log whose beginning was freed needs the state that covered it; one from the start does not, but it is faster.
    for info in store.networks()? {
        let cut = health.logs.iter().find(|l| l.class == info.class).map_or(0, |l| l.durable_lsn);
        if let Some(snapshot) = store.load_snapshot(info.network)?.filter(|s| s.lsn <= cut) {
            put(out, SNAPSHOT, &[&info.network.to_le_bytes(), &snapshot.lsn.to_le_bytes(), &snapshot.bytes])?;
            counts.snapshots += 1;
        }
    }
    for blob in store.list_blobs()? {
        let Some(reader) = store.open_blob(&blob.hash)? else { continue };
        let mut at = 0;
        let mut buf = vec![0; PIECE];
        loop {
            let n = reader.read_at(&mut buf, at)?;
            let last = at + n as u64 >= reader.size();
            put(out, BLOB, &[&[u8::from(last)], blob.hash.as_bytes(), buf.get(..n).unwrap_or_default()])?;
            at += n as u64;
            if last || n == 0 {
                break;
            }
        }
        counts.blobs += 1;
        counts.bytes += blob.size;
    }
    let end = [counts.records, counts.snapshots, counts.blobs, counts.bytes].map(u64::to_le_bytes).concat();
    put(out, END, &[&end])?;
    out.flush()?;
    Ok(counts)
}

struct Item {
    tag: u8,
    body: Vec<u8>,
}

fn get(input: &mut dyn Read) -> Result<Item, ArchiveError> {
    let mut head = [0; 9];
    input.read_exact(&mut head).map_err(|_| damaged("it ends too early"))?;
    let [tag, a, b, c, d, crc @ ..] = head;
    let len = u32::from_le_bytes([a, b, c, d]);
    if len > ITEM_BYTES_MAX {
        return Err(damaged(format!("an item claims {len} bytes")));
    }
    let mut body = Vec::new();
    input.take(u64::from(len)).read_to_end(&mut body)?;
    if body.len() != len as usize {
        return Err(damaged("it ends too early"));
    }
    if crc32c::crc32c_append(crc32c::crc32c(&[tag]), &body) != u32::from_le_bytes(crc) {
        return Err(damaged("a checksum does not match"));
    }
    Ok(Item { tag, body })
}

struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], ArchiveError> {
        let (head, tail) = self.0.split_at_checked(n).ok_or_else(|| damaged("an item is too short"))?;
        self.0 = tail;
        Ok(head)
    }
    fn u64(&mut self) -> Result<u64, ArchiveError> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().unwrap_or_default()))
    }
    fn u32(&mut self) -> Result<u32, ArchiveError> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().unwrap_or_default()))
    }
}

/// Brings a backup back into an empty store: a new epoch, every session revoked.
pub fn restore(store: &dyn Store, input: &mut dyn Read, progress: &mut dyn FnMut(u64)) -> Result<Counts, ArchiveError> {
    let mut magic = [0; 8];
    input.read_exact(&mut magic).map_err(|_| damaged("it is empty or too short"))?;
    if &magic != MAGIC {
        return Err(damaged("it is not a backup of this version"));
    }
    let mut back = Back {
        store,
        counts: Counts::default(),
        batch: None,
        moved: BTreeMap::new(),
        blob: None,
        networks: BTreeMap::new(),
    };
    loop {
        let item = get(input)?;
        match item.tag {
            RECORD => back.record(&item.body)?,
            SNAPSHOT => back.snapshot(&item.body)?,
            BLOB => back.blob(&item.body)?,
            END => {
                back.flush()?;
                let mut parts = Parts(&item.body);
                let told =
                    Counts { records: parts.u64()?, snapshots: parts.u64()?, blobs: parts.u64()?, bytes: parts.u64()? };
                if told != back.counts {
                    return Err(damaged("it does not hold what its end says"));
                }
                if input.read(&mut [0])? > 0 {
                    return Err(damaged("something follows its end"));
                }
                back.revoke_sessions()?;
                return Ok(told);
            }
            tag => return Err(damaged(format!("item {tag} is unknown"))),
        }
        progress(back.counts.bytes);
    }
}

struct Back<'a> {
    store: &'a dyn Store,
    counts: Counts,
    batch: Option<(Class, Batch)>,
    /// Old LSN to new, per class: the last one of each batch.
    moved: BTreeMap<Class, Vec<(Lsn, Lsn)>>,
    blob: Option<(String, Box<dyn rialto_store::BlobWriter>)>,
    networks: BTreeMap<u32, (Class, u64)>,
}

/// Epoch of a restored node: above that of any node that wrote the backup.
const RESTORED_EPOCH: u64 = 1;

impl Back<'_> {
    fn record(&mut self, body: &[u8]) -> Result<(), ArchiveError> {
        let mut parts = Parts(body);
        let name = usize::from(parts.take(1)?.first().copied().unwrap_or(0));
        let class: Class = std::str::from_utf8(parts.take(name)?)
            .ok()
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| damaged("a log has no name"))?;
        let (lsn, seq, key, network) = (parts.u64()?, parts.u64()?, parts.u64()?, parts.u32()?);
        let (kind, version) = match parts.take(2)? {
            [kind, version] => (*kind, *version),
            _ => return Err(damaged("a record has no kind")),
        };
        let full = self
            .batch
            .as_ref()
            .is_some_and(|(c, b)| *c != class || b.network() != network || b.bytes() + parts.0.len() > BATCH_BYTES);
        if full {
            self.flush()?;
        }
        let (_, batch) = self.batch.get_or_insert_with(|| (class, Batch::new(network)));
        batch.push(kind, version, seq, key, parts.0)?;
        self.counts.records += 1;
        self.counts.bytes += parts.0.len() as u64;
        self.networks.insert(network, (class, seq));
        self.moved.entry(class).or_default().push((lsn, 0));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ArchiveError> {
        let Some((class, batch)) = self.batch.take() else { return Ok(()) };
        let done = append(self.store, class, batch)?;
        let moved = self.moved.entry(class).or_default();
        let fresh = moved.len() - usize::try_from(done.last_lsn - done.first_lsn + 1).unwrap_or(0).min(moved.len());
        for (entry, lsn) in moved.iter_mut().skip(fresh).zip(done.first_lsn..) {
            entry.1 = lsn;
        }
        Ok(())
    }

    fn snapshot(&mut self, body: &[u8]) -> Result<(), ArchiveError> {
        self.flush()?;
        let mut parts = Parts(body);
        let (network, lsn) = (parts.u32()?, parts.u64()?);
        let (class, _) = self.networks.get(&network).copied().ok_or_else(|| damaged("a snapshot has no log"))?;
        let moved = self.moved.get(&class).map(Vec::as_slice).unwrap_or_default();
        let at = moved.partition_point(|(old, _)| *old <= lsn);
        let now = at.checked_sub(1).and_then(|i| moved.get(i)).map_or(0, |(_, new)| *new);
        self.store.save_snapshot(class, network, now, parts.0)?;
        self.counts.snapshots += 1;
        Ok(())
    }

    fn blob(&mut self, body: &[u8]) -> Result<(), ArchiveError> {
        let mut parts = Parts(body);
        let last = parts.take(1)?.first() == Some(&1);
        let hash = std::str::from_utf8(parts.take(64)?).map_err(|_| damaged("a blob has no name"))?.to_owned();
        let (open, mut writer) = match self.blob.take() {
            Some(blob) => blob,
            None => (hash.clone(), self.store.put_blob()?),
        };
        if open != hash {
            return Err(damaged("blobs are mixed up"));
        }
        writer.write(parts.0)?;
        self.counts.bytes += parts.0.len() as u64;
        if !last {
            self.blob = Some((open, writer));
            return Ok(());
        }
        if writer.finish()?.hash != hash {
            return Err(damaged(format!("blob {hash} has other content")));
        }
        self.counts.blobs += 1;
        Ok(())
    }

    /// Sessions of the old node do not open the new one: a copied disk is not a copied trust.
    fn revoke_sessions(&self) -> Result<(), ArchiveError> {
        for (network, (class, seq)) in &self.networks {
            let (engine, _) =
                crate::task::load::load(self.store, *class, *network, 1).map_err(|e| damaged(e.to_string()))?;
            let mut batch = Batch::new(*network);
            let mut body = Vec::new();
            for (id, member) in engine.state.roster().filter(|(_, m)| !m.sessions.is_empty()) {
                let numbers = member.sessions.iter().map(|s| s.number).collect();
                body.clear();
                Record::from(Change::SessionEnded { member: id, numbers, expired: false }).encode(&mut body);
                batch.push(KIND_CHANGE, VERSION, *seq, 0, &body)?;
            }
            if !batch.is_empty() {
                append(self.store, *class, batch)?;
            }
        }
        Ok(())
    }
}

/// Appends and waits for the flush.
fn append(store: &dyn Store, class: Class, batch: Batch) -> Result<Committed, ArchiveError> {
    let (tx, rx) = mpsc::sync_channel(1);
    let done = Box::new(move |result| {
        let _ = tx.send(result);
    });
    store.append(class, RESTORED_EPOCH, Flush::Sync, batch, done).map_err(|r| r.error)?;
    Ok(rx.recv().map_err(|_| StoreError::Closed)??)
}
