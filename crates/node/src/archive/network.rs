//! One network as a file: what `rialto network export` writes and `rialto network import` reads.
//!
//! Layout: magic with the number of the format, then framed items as in a backup: the records of events that are still known,
//! the state and the content it names in pieces, and a last item with the counts; a file without it is refused.
//!
//! In the log of the other node the import begins with a mark, the events follow, and the state comes last. Only its last piece
//! makes it a network: an import that was cut short is set aside at the next start, as if it had never been.

use super::{
    ArchiveCounts, ArchiveError, BATCH_BYTES, BLOB, Back, END, PIECE, Parts, append, damaged, get, put, put_blob,
};
use crate::task::load::{self, LoadError};
use rialto_engine::record::{KIND_EVENT, KIND_STATE, StatePiece, VERSION};
use rialto_engine::{Record, State};
use rialto_model::hex;
use rialto_store::{Batch, Class, Lsn, Seqs, Store};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::ops::ControlFlow;

const MAGIC: &[u8; 7] = b"RIALNET";
/// The format written today, the digit behind the magic.
const FORMAT: u8 = b'1';
const EVENT: u8 = 6;
const STATE: u8 = 7;
/// Seed of look-ups that live as long as an export or an import.
const SEED: u64 = 1;

/// Writes one network as it is durable now. Commits go on meanwhile; what comes later is not in it.
pub fn export(store: &dyn Store, network: u32, out: &mut dyn Write) -> Result<ArchiveCounts, ArchiveError> {
    let found = store.networks()?.into_iter().find(|info| info.network == network);
    let class = found.ok_or_else(|| damaged(format!("there is no network {network} in the store")))?.class;
    let cut = store.health().logs.iter().find(|log| log.class == class).map_or(0, |log| log.durable_lsn);
    let (engine, _) = load::load_through(store, class, network, cut, SEED).map_err(unreadable)?;
    let state = &engine.state;
    let mut counts = ArchiveCounts::default();
    out.write_all(MAGIC)?;
    out.write_all(&[FORMAT])?;
    let mut failed = None;
    store.read(network, Seqs::Range(1..state.book.head.saturating_add(1)), &mut |r| {
        let is_known =
            r.seq > state.book.purged || state.lists.kept().contains(r.seq) || state.book.unstored.contains_key(&r.seq);
        if !is_known {
            return ControlFlow::Continue(());
        }
        let head = [&r.seq.to_le_bytes()[..], &r.key.to_le_bytes(), &[r.version]].concat();
        counts.records += 1;
        counts.bytes += r.body.len() as u64;
        match put(out, EVENT, &[&head, r.body]) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let bytes = state.to_snapshot();
    let mut pieces = bytes.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        put(out, STATE, &[&[u8::from(pieces.peek().is_none())], piece])?;
    }
    counts.snapshots = 1;
    for hash in named(state) {
        put_blob(store, &hash, out, &mut counts)?;
    }
    let end = [counts.records, counts.snapshots, counts.blobs, counts.bytes].map(u64::to_le_bytes).concat();
    put(out, END, &[&end])?;
    out.flush()?;
    Ok(counts)
}

fn unreadable(error: LoadError) -> ArchiveError {
    match error {
        LoadError::Store(error) => error.into(),
        error @ (LoadError::Unreadable { .. } | LoadError::Unfinished { .. }) => damaged(error.to_string()),
    }
}

/// Names of the content a state names, each once.
fn named(state: &State) -> BTreeSet<String> {
    state.blobs().map(|(hash, _)| hex::text(&hash)).collect()
}

/// An export that was read to its end: every checksum, every record and the state.
#[derive(Debug)]
pub(crate) struct CheckedExport {
    pub(crate) state: State,
    pub(crate) counts: ArchiveCounts,
}

/// Reads an export to its end and changes nothing.
pub(crate) fn check(input: &mut dyn Read) -> Result<CheckedExport, ArchiveError> {
    let (mut counts, mut bytes, mut whole) = (ArchiveCounts::default(), Vec::new(), false);
    let (mut blobs, mut open, mut last) = (BTreeSet::new(), None, 0);
    let told = each_item(input, &mut |tag, body| {
        let mut parts = Parts(body);
        match tag {
            EVENT => {
                let (seq, _, version) = (parts.u64()?, parts.u64()?, parts.u8()?);
                if version > VERSION {
                    return Err(ArchiveError::Newer { what: "records", found: version.into(), known: VERSION.into() });
                }
                Record::decode(KIND_EVENT, version, seq, "", parts.0).map_err(|e| damaged(e.to_string()))?;
                if std::mem::replace(&mut last, seq) >= seq {
                    return Err(damaged("its events are not in order"));
                }
                counts.records += 1;
                counts.bytes += parts.0.len() as u64;
            }
            STATE if whole => return Err(damaged("it holds more than one state")),
            STATE => {
                whole = parts.u8()? == 1;
                counts.snapshots += u64::from(whole);
                bytes.extend_from_slice(parts.0);
            }
            BLOB => {
                let is_last = parts.u8()? == 1;
                let hash = parts.blob_name()?;
                if open.take().is_some_and(|open| open != hash) {
                    return Err(damaged("blobs are mixed up"));
                }
                counts.bytes += parts.0.len() as u64;
                if is_last {
                    counts.blobs += 1;
                    blobs.insert(hash);
                } else {
                    open = Some(hash);
                }
            }
            tag => return Err(damaged(format!("item {tag} is unknown"))),
        }
        Ok(())
    })?;
    if told != counts || !whole || open.is_some() {
        return Err(damaged("it does not hold what its end says"));
    }
    let state = State::from_snapshot(&bytes, SEED).map_err(|e| damaged(e.to_string()))?;
    if last > state.book.head || named(&state) != blobs {
        return Err(damaged("its events or its content are not those of its state"));
    }
    Ok(CheckedExport { state, counts })
}

/// Where a network goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImportTarget {
    pub(crate) class: Class,
    pub(crate) number: u32,
    pub(crate) epoch: u64,
}

/// Writes the mark, the events and the content of a checked export. It is no network yet.
pub(crate) fn write_events(store: &dyn Store, at: ImportTarget, input: &mut dyn Read) -> Result<(), ArchiveError> {
    let mut mark = Vec::new();
    StatePiece::Begin.encode(&[], &mut mark);
    let mut batch = Batch::new(at.number);
    batch.push(KIND_STATE, VERSION, 0, 0, &mark)?;
    append(store, at.class, at.epoch, std::mem::replace(&mut batch, Batch::new(at.number)))?;
    let mut back = Back::new(store);
    each_item(input, &mut |tag, body| {
        let mut parts = Parts(body);
        match tag {
            EVENT => {
                let (seq, key, version) = (parts.u64()?, parts.u64()?, parts.u8()?);
                if !batch.is_empty() && batch.bytes() + parts.0.len() > BATCH_BYTES {
                    append(store, at.class, at.epoch, std::mem::replace(&mut batch, Batch::new(at.number)))?;
                }
                batch.push(KIND_EVENT, version, seq, key, parts.0)?;
            }
            BLOB => back.blob(body)?,
            _ => {}
        }
        Ok(())
    })?;
    if !batch.is_empty() {
        append(store, at.class, at.epoch, batch)?;
    }
    Ok(())
}

/// Writes the state: from its last piece on it is a network. Returns the LSN it is at.
pub(crate) fn write_state(store: &dyn Store, at: ImportTarget, state: &State) -> Result<Lsn, ArchiveError> {
    let (bytes, mut lsn) = (state.to_snapshot(), 0);
    let mut pieces = bytes.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let kind = if pieces.peek().is_none() { StatePiece::Last } else { StatePiece::Middle };
        let (mut body, mut batch) = (Vec::with_capacity(piece.len() + 1), Batch::new(at.number));
        kind.encode(piece, &mut body);
        batch.push(KIND_STATE, VERSION, state.book.head, 0, &body)?;
        lsn = append(store, at.class, at.epoch, batch)?.last_lsn;
    }
    // The log has it all: without the snapshot the next start only reads more.
    if let Err(error) = store.save_snapshot(at.class, at.number, lsn, &bytes) {
        tracing::warn!(network = at.number, %error, "no snapshot of an imported network was saved");
    }
    Ok(lsn)
}

/// Looks at an item: its tag and its bytes.
type Visit<'a> = &'a mut dyn FnMut(u8, &[u8]) -> Result<(), ArchiveError>;

/// Shows every item between the magic and the end; returns what the end says.
fn each_item(input: &mut dyn Read, visit: Visit<'_>) -> Result<ArchiveCounts, ArchiveError> {
    read_magic(input)?;
    loop {
        let item = get(input)?;
        if item.tag != END {
            visit(item.tag, &item.body)?;
            continue;
        }
        let told = ArchiveCounts::read(&item.body)?;
        if input.read(&mut [0])? > 0 {
            return Err(damaged("something follows its end"));
        }
        return Ok(told);
    }
}

fn read_magic(input: &mut dyn Read) -> Result<(), ArchiveError> {
    let mut magic = [0; 8];
    input.read_exact(&mut magic).map_err(|_| damaged("it is empty or too short"))?;
    let [name @ .., format] = magic;
    match format {
        FORMAT if name == *MAGIC => Ok(()),
        b'0'..=b'9' if name == *MAGIC => {
            Err(ArchiveError::Newer { what: "exports", found: (format - b'0').into(), known: (FORMAT - b'0').into() })
        }
        _ if magic == *super::MAGIC => {
            Err(ArchiveError::OtherKind("a backup of a whole node; `rialto restore` brings it back"))
        }
        _ => Err(ArchiveError::OtherKind("not an export of a network")),
    }
}

/// Whether a file with this beginning is an export of one network.
pub(super) fn is_export(magic: &[u8; 8]) -> bool {
    magic.starts_with(MAGIC)
}
