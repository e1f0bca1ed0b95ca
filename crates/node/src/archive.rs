//! Backups: a cut of every log as one file, independent of the store that wrote it, and the way back.
//!
//! Layout: magic, then framed items (tag, length, CRC-32 of the rest, bytes): the epoch of the node, records in log order,
//! networks' snapshots and blobs in pieces, and a last item with the counts; a file without it is refused.

pub mod network;

use crate::task::load::LoadError;
use rialto_engine::Record;
use rialto_engine::record::{Change, KIND_CHANGE, VERSION};
use rialto_store::{Batch, Class, Committed, EVENT_KIND, Flush, Lsn, Snapshot, Store, StoreError};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::mpsc;

const MAGIC: &[u8; 8] = b"RIALBAK1";
const RECORD: u8 = 1;
/// A whole snapshot in one item, as older releases wrote it.
const WHOLE_SNAPSHOT: u8 = 2;
const BLOB: u8 = 3;
const SNAPSHOT: u8 = 4;
const EPOCH: u8 = 5;
const END: u8 = 9;
/// Bytes of one item at most; what may be larger comes in pieces.
const ITEM_BYTES_MAX: u32 = 256 << 20;
/// Bytes of a blob or a snapshot in one item.
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
    /// A newer version wrote it.
    #[error("the archive was written by a newer version: its {what} have format {found}, this one reads up to {known}")]
    Newer {
        /// What it has of that format.
        what: &'static str,
        /// The format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// It is a file of another kind.
    #[error("the file is {0}")]
    OtherKind(&'static str),
}

/// What was saved or brought back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ArchiveCounts {
    /// Records.
    pub records: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bytes of records and blobs.
    pub bytes: u64,
}

impl ArchiveCounts {
    fn read(body: &[u8]) -> Result<ArchiveCounts, ArchiveError> {
        let mut parts = Parts(body);
        Ok(ArchiveCounts { records: parts.u64()?, snapshots: parts.u64()?, blobs: parts.u64()?, bytes: parts.u64()? })
    }
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
pub fn save(store: &dyn Store, out: &mut dyn Write) -> Result<ArchiveCounts, ArchiveError> {
    let mut counts = ArchiveCounts::default();
    out.write_all(MAGIC)?;
    let health = store.health();
    let mut failed = None;
    put(out, EPOCH, &[&store.epoch()?.to_le_bytes()])?;
    let partial = partial_logs(store)?;
    for log in &health.logs {
        let cut = log.durable_lsn;
        store.replay(log.class, None, 0, &mut |r| {
            if r.lsn > cut {
                return ControlFlow::Break(());
            }
            if r.kind != EVENT_KIND && partial.get(&r.network).is_some_and(|covered| r.lsn <= *covered) {
                return ControlFlow::Continue(());
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
        if let Some(snapshot) = store.load_snapshot(info.network, cut)? {
            put_snapshot(out, info.network, &snapshot)?;
            counts.snapshots += 1;
        }
    }
    for blob in store.list_blobs()? {
        put_blob(store, &blob.hash, out, &mut counts)?;
    }
    let end = [counts.records, counts.snapshots, counts.blobs, counts.bytes].map(u64::to_le_bytes).concat();
    put(out, END, &[&end])?;
    out.flush()?;
    Ok(counts)
}

/// Networks some of whose records were freed between others, and the LSN their snapshots cover: what is left of their
/// changes before it says nothing by itself and is not saved.
fn partial_logs(store: &dyn Store) -> Result<BTreeMap<u32, Lsn>, StoreError> {
    let mut partial = BTreeMap::new();
    for info in store.networks()? {
        match store.replay(info.class, Some(info.network), 0, &mut |_| ControlFlow::Break(())) {
            Ok(_) => {}
            Err(StoreError::Damaged(_)) => {
                let covered = store.load_snapshot(info.network, Lsn::MAX)?.map_or(0, |snapshot| snapshot.lsn);
                partial.insert(info.network, covered);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(partial)
}

/// Writes a snapshot in pieces, each with whether it is the last, whose it is and where it belongs.
fn put_snapshot(out: &mut dyn Write, network: u32, snapshot: &Snapshot) -> std::io::Result<()> {
    let name = snapshot.class.name().as_bytes();
    let mut head = vec![0];
    head.extend_from_slice(&network.to_le_bytes());
    head.extend_from_slice(&snapshot.lsn.to_le_bytes());
    head.push(u8::try_from(name.len()).unwrap_or(0));
    head.extend_from_slice(name);
    let mut pieces = snapshot.bytes.chunks(PIECE).peekable();
    loop {
        let piece = pieces.next().unwrap_or_default();
        let last = pieces.peek().is_none();
        if let Some(flag) = head.first_mut() {
            *flag = u8::from(last);
        }
        put(out, SNAPSHOT, &[&head, piece])?;
        if last {
            return Ok(());
        }
    }
}

/// Writes a blob in pieces, each with whether it is the last. One that is gone is passed over.
fn put_blob(
    store: &dyn Store,
    hash: &str,
    out: &mut dyn Write,
    counts: &mut ArchiveCounts,
) -> Result<(), ArchiveError> {
    let Some(reader) = store.open_blob(hash)? else { return Ok(()) };
    let mut at = 0;
    let mut buf = vec![0; PIECE];
    loop {
        let n = reader.read_at(&mut buf, at)?;
        let last = at + n as u64 >= reader.size();
        put(out, BLOB, &[&[u8::from(last)], hash.as_bytes(), buf.get(..n).unwrap_or_default()])?;
        at += n as u64;
        if last || n == 0 {
            break;
        }
    }
    counts.blobs += 1;
    counts.bytes += reader.size();
    Ok(())
}

struct ArchiveItem {
    tag: u8,
    body: Vec<u8>,
}

fn get(input: &mut dyn Read) -> Result<ArchiveItem, ArchiveError> {
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
    Ok(ArchiveItem { tag, body })
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
    fn u8(&mut self) -> Result<u8, ArchiveError> {
        Ok(self.take(1)?.first().copied().unwrap_or(0))
    }
    fn blob_name(&mut self) -> Result<String, ArchiveError> {
        Ok(std::str::from_utf8(self.take(64)?).map_err(|_| damaged("a blob has no name"))?.to_owned())
    }
    fn class(&mut self) -> Result<Class, ArchiveError> {
        let len = usize::from(self.u8()?);
        let name = std::str::from_utf8(self.take(len)?).ok();
        name.and_then(|name| name.parse().ok()).ok_or_else(|| damaged("a log has no name"))
    }
}

/// Brings a backup back into an empty store: a new epoch, every session revoked.
pub fn restore(
    store: &dyn Store,
    input: &mut dyn Read,
    progress: &mut dyn FnMut(u64),
) -> Result<ArchiveCounts, ArchiveError> {
    let mut magic = [0; 8];
    input.read_exact(&mut magic).map_err(|_| damaged("it is empty or too short"))?;
    if network::is_export(&magic) {
        return Err(ArchiveError::OtherKind("an export of one network; `rialto network import` brings it into a node"));
    }
    if &magic != MAGIC {
        return Err(damaged("it is not a backup of this version"));
    }
    let mut back = Back::new(store);
    loop {
        let item = get(input)?;
        match item.tag {
            RECORD => back.record(&item.body)?,
            EPOCH => back.epoch(&item.body)?,
            SNAPSHOT => back.snapshot_piece(&item.body)?,
            WHOLE_SNAPSHOT => back.whole_snapshot(&item.body)?,
            BLOB => back.blob(&item.body)?,
            END => {
                back.flush()?;
                let told = ArchiveCounts::read(&item.body)?;
                if told != back.counts {
                    return Err(damaged("it does not hold what its end says"));
                }
                if input.read(&mut [0])? > 0 {
                    return Err(damaged("something follows its end"));
                }
                if back.snapshot.is_some() || back.blob.is_some() {
                    return Err(damaged("something in it has no end"));
                }
                // Above that of the node that wrote the backup: whoever still writes for that one is refused.
                store.raise_epoch(back.epoch)?;
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
    counts: ArchiveCounts,
    batch: Option<(Class, Batch)>,
    /// Old LSN to new, per class: the last one of each batch.
    moved: BTreeMap<Class, Vec<(Lsn, Lsn)>>,
    blob: Option<(String, Box<dyn rialto_store::BlobWriter>)>,
    /// A snapshot of which more is to come.
    snapshot: Option<(u32, Snapshot)>,
    networks: BTreeMap<u32, Class>,
    /// Epoch of the restored node.
    epoch: u64,
}

impl<'a> Back<'a> {
    fn new(store: &'a dyn Store) -> Back<'a> {
        Back {
            store,
            counts: ArchiveCounts::default(),
            batch: None,
            moved: BTreeMap::new(),
            blob: None,
            snapshot: None,
            networks: BTreeMap::new(),
            epoch: 1,
        }
    }

    fn record(&mut self, body: &[u8]) -> Result<(), ArchiveError> {
        let mut parts = Parts(body);
        let class = parts.class()?;
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
        self.networks.insert(network, class);
        self.moved.entry(class).or_default().push((lsn, 0));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ArchiveError> {
        let Some((class, batch)) = self.batch.take() else { return Ok(()) };
        let done = append(self.store, class, self.epoch, batch)?;
        let moved = self.moved.entry(class).or_default();
        let fresh = moved.len() - usize::try_from(done.last_lsn - done.first_lsn + 1).unwrap_or(0).min(moved.len());
        for (entry, lsn) in moved.iter_mut().skip(fresh).zip(done.first_lsn..) {
            entry.1 = lsn;
        }
        Ok(())
    }

    fn epoch(&mut self, body: &[u8]) -> Result<(), ArchiveError> {
        self.epoch = Parts(body).u64()?.checked_add(1).ok_or_else(|| damaged("it claims an epoch that cannot be"))?;
        Ok(())
    }

    fn whole_snapshot(&mut self, body: &[u8]) -> Result<(), ArchiveError> {
        let mut parts = Parts(body);
        let (network, lsn) = (parts.u32()?, parts.u64()?);
        let class = self.networks.get(&network).copied().ok_or_else(|| damaged("a snapshot has no log"))?;
        self.snapshot(network, &Snapshot { class, lsn, bytes: parts.0.to_vec() })
    }

    fn snapshot_piece(&mut self, body: &[u8]) -> Result<(), ArchiveError> {
        let mut parts = Parts(body);
        let (last, network, lsn, class) = (parts.u8()? == 1, parts.u32()?, parts.u64()?, parts.class()?);
        let begun = self.snapshot.take().unwrap_or((network, Snapshot { class, lsn, bytes: Vec::new() }));
        let (of, mut snapshot) = begun;
        if (of, snapshot.lsn, snapshot.class) != (network, lsn, class) {
            return Err(damaged("snapshots are mixed up"));
        }
        snapshot.bytes.extend_from_slice(parts.0);
        if !last {
            self.snapshot = Some((network, snapshot));
            return Ok(());
        }
        self.snapshot(network, &snapshot)
    }

    fn snapshot(&mut self, network: u32, snapshot: &Snapshot) -> Result<(), ArchiveError> {
        self.flush()?;
        let Snapshot { class, lsn, bytes } = snapshot;
        let (class, lsn) = (*class, *lsn);
        self.networks.entry(network).or_insert(class);
        let moved = self.moved.get(&class).map(Vec::as_slice).unwrap_or_default();
        let at = moved.partition_point(|(old, _)| *old <= lsn);
        let now = at.checked_sub(1).and_then(|i| moved.get(i)).map_or(0, |(_, new)| *new);
        self.store.save_snapshot(class, network, now, bytes)?;
        self.counts.snapshots += 1;
        Ok(())
    }

    fn blob(&mut self, body: &[u8]) -> Result<(), ArchiveError> {
        let mut parts = Parts(body);
        let last = parts.take(1)?.first() == Some(&1);
        let hash = parts.blob_name()?;
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
        for (network, class) in &self.networks {
            let engine = match crate::task::load::load(self.store, *class, *network, 1) {
                Ok((engine, _)) => engine,
                // It was no network when the backup was made, and is none now.
                Err(LoadError::Unfinished { .. }) => continue,
                Err(error) => return Err(damaged(error.to_string())),
            };
            let mut batch = Batch::new(*network);
            let mut body = Vec::new();
            for (id, member) in engine.state.roster().filter(|(_, m)| !m.sessions.is_empty()) {
                let numbers = member.sessions.iter().map(|s| s.number).collect();
                body.clear();
                Record::from(Change::SessionEnded { member: id, numbers, expired: false, voided: false })
                    .encode(&mut body);
                batch.push(KIND_CHANGE, VERSION, engine.state.book.head, 0, &body)?;
            }
            if !batch.is_empty() {
                append(self.store, *class, self.epoch, batch)?;
            }
        }
        Ok(())
    }
}

/// Appends and waits for the flush.
fn append(store: &dyn Store, class: Class, epoch: u64, batch: Batch) -> Result<Committed, ArchiveError> {
    let (tx, rx) = mpsc::sync_channel(1);
    let done = Box::new(move |result| {
        let _ = tx.send(result);
    });
    store.append(class, epoch, Flush::Sync, batch, done).map_err(|r| r.error)?;
    Ok(rx.recv().map_err(|_| StoreError::Closed)??)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rialto_store::MemoryStore;

    /// A snapshot of any size is written in pieces that can be read back.
    #[test]
    fn a_snapshot_comes_in_pieces() {
        for len in [0, 1, PIECE, 3 * PIECE + 5] {
            let bytes: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let snapshot = Snapshot { class: Class::EVER, lsn: 0, bytes };
            let mut out = Vec::new();
            put_snapshot(&mut out, 7, &snapshot).unwrap();
            let (store, mut input, mut items) = (MemoryStore::new(), out.as_slice(), 0);
            let mut back = Back::new(&store);
            while !input.is_empty() {
                let item = get(&mut input).unwrap();
                assert!(item.tag == SNAPSHOT && item.body.len() <= PIECE + 64);
                back.snapshot_piece(&item.body).unwrap();
                items += 1;
            }
            assert_eq!(items, len.div_ceil(PIECE).max(1));
            assert_eq!(store.load_snapshot(7, Lsn::MAX).unwrap(), Some(snapshot));
        }
    }
}
