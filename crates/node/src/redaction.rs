//! Redaction on the disk: what an event said goes from the log, the snapshots, the search index and the blobs, wherever it was
//! copied to.
//!
//! Order: the tombstone with the changes that clear copies in the book, both snapshots, copies in the log, content, the network's
//! own events that repeat it, and the event itself last. As long as that one can be read, the next start does all of it again.
//! Not here: what counts as a copy (`rialto_engine::redaction`).

use crate::blobs::{Blobs, Hash, Staging};
use crate::command::{Command, StateAt};
use crate::network::Network;
use rialto_engine::input::Content;
use rialto_engine::record::{Change, KIND_CHANGE, KIND_STATE};
use rialto_engine::redaction::Copies;
use rialto_engine::work::WorkAct;
use rialto_engine::{AdminOp, EventRecord, Record};
use rialto_model::view::{AdminOutcome, RedactionView};
use rialto_model::{ErrorCode, Fault, Seq, hex};
use rialto_store::search::SearchIndex;
use rialto_store::{Class, EVENT_KIND, Lsn, RecordRef, Seqs, Store, StoreError};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Whom the empty content is staged for: no member has this number.
const NOBODY: u32 = u32::MAX;
/// How often content may be appended to while what it holds is being cleared.
const CONTENT_ROUNDS: usize = 8;
/// Bytes of content compared at once.
const PIECE: usize = 64 << 10;

fn unfinished(what: &dyn std::fmt::Display) -> Fault {
    tracing::error!(%what, "redaction did not finish");
    let text = "the tombstone is logged, but not all bytes could be overwritten: try again, or start the node again";
    Fault::new(ErrorCode::StorageUnavailable, text)
}

impl Network {
    /// Redacts an event: a logged tombstone, its bytes and all copies of what it said overwritten, its search row removed.
    pub async fn redact(&self, id: &str) -> Result<RedactionView, Fault> {
        let record = self.find(id).await?;
        let record =
            record.ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("no event {id:?} is known here")))?;
        self.redact_event(&record).await
    }

    /// Redacts an event, or finishes that.
    pub(crate) async fn redact_event(&self, record: &EventRecord) -> Result<RedactionView, Fault> {
        let seq = record.event.seq;
        let mut copies = Copies::of(record);
        let mut contents = chunks_of(record);
        let mut answer = self.clear_copies(seq, &copies, &mut contents).await?;
        // Whatever the network knew when it logged the tombstone is published by now.
        if self.handle.shared.has_owed.load(Ordering::Acquire) {
            copies = copies.with_emits();
        }
        let mut others: BTreeSet<Seq> = answer.copies.iter().copied().collect();
        if !copies.is_empty() {
            let class = self.renew_snapshots().await?;
            let told = self.overwrite_copies(class, seq, copies.clone()).await?;
            for seq in &told {
                self.admin(AdminOp::Redact(*seq, None)).await?;
            }
            others.extend(told);
        }
        self.discard_contents(&contents).await?;
        // The event itself goes last: what is not finished can be done again as long as it is there.
        for (seq, copies) in others.iter().map(|seq| (*seq, None)).chain([(seq, Some(copies))]) {
            self.erase_event(seq, copies).await?;
        }
        answer.copies = others.into_iter().collect();
        Ok(answer)
    }

    /// Logs the tombstone, with changes that clear what the book copied. Adds the content that goes to `contents`.
    async fn clear_copies(
        &self,
        seq: Seq,
        copies: &Copies,
        contents: &mut Vec<Content>,
    ) -> Result<RedactionView, Fault> {
        let Some((address, content)) = copies.content() else { return self.log_tombstone(seq, copies.clone()).await };
        contents.push(content);
        let mut held = self.contents_holding(address, content).await?;
        if held.is_empty() {
            return self.log_tombstone(seq, copies.clone()).await;
        }
        let (blobs, number) = (&self.handle.blobs, self.number());
        let empty = Blobs::stage(blobs, Staging::new(number, NOBODY, u64::MAX)).await?.finish().await?;
        let empty = Content { blob: empty.hash, size: empty.size };
        for _ in 0..CONTENT_ROUNDS {
            contents.extend(&held);
            let copies = copies.clone().with_contents(held, empty);
            let answer = self.log_tombstone(seq, copies).await?;
            // Somebody may have appended to it meanwhile.
            held = self.contents_holding(address, content).await?;
            if held.is_empty() {
                // Named by now, or by nobody.
                blobs.discard(number, vec![empty.blob]).await?;
                return Ok(answer);
            }
        }
        Err(unfinished(&"the content was appended to all the time"))
    }

    async fn log_tombstone(&self, seq: Seq, copies: Copies) -> Result<RedactionView, Fault> {
        let outcome = self.admin(AdminOp::Redact(seq, Some(Box::new(copies)))).await?;
        let AdminOutcome::Redacted(redaction) = outcome else { return Err(ErrorCode::Internal.into()) };
        Ok(redaction)
    }

    /// The contents of a resource that are this one or were made by appending to it.
    async fn contents_holding(&self, address: &str, content: Content) -> Result<Vec<Content>, Fault> {
        let address = address.to_owned();
        let named = self.ask(|reply| Command::Contents { address, reply }).await?;
        let store = self.handle.store.clone();
        let holding = self.handle.host.blocking(move || holding(store.as_ref(), content, named)).await;
        holding.map_err(|e| unfinished(&e))?.map_err(|e| unfinished(&e))
    }

    /// Saves the state twice, so that no snapshot of before is left. Gives the log that the network is in.
    async fn renew_snapshots(&self) -> Result<Class, Fault> {
        let StateAt { class, lsn, bytes } = self.ask(|reply| Command::Save { reply }).await?;
        let (store, number) = (self.handle.store.clone(), self.number());
        let save = move || {
            (0..2).try_for_each(|_| store.save_snapshot(class, number, lsn, &bytes))?;
            store.drop_rejected_snapshots(number)
        };
        self.handle.host.blocking(save).await.map_err(|e| unfinished(&e))?.map_err(|e| unfinished(&e))?;
        Ok(class)
    }

    /// Overwrites copies in the log. Gives the network's own events that say the same.
    async fn overwrite_copies(&self, class: Class, seq: Seq, copies: Copies) -> Result<Vec<Seq>, Fault> {
        let (store, number, id) = (self.handle.store.clone(), self.number(), self.id().to_owned());
        let work = move || overwrite(store.as_ref(), (class, number, &id), seq, &copies);
        self.handle.host.blocking(work).await.map_err(|e| unfinished(&e))?.map_err(|e| unfinished(&e))
    }

    /// Removes content that the event brought and nobody else names.
    async fn discard_contents(&self, contents: &[Content]) -> Result<(), Fault> {
        let hashes: Vec<Hash> = contents.iter().map(|content| content.blob).collect();
        match self.handle.blobs.discard(self.number(), hashes).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                let text = "the tombstone is logged, but a backup or a verification is reading the content: try again";
                Err(Fault::new(ErrorCode::StorageUnavailable, text))
            }
            Err(error) => Err(unfinished(&error)),
        }
    }

    async fn erase_event(&self, seq: Seq, copies: Option<Copies>) -> Result<(), Fault> {
        let (store, index, number) = (self.handle.store.clone(), self.handle.index.clone(), self.number());
        let work = move || erase(store.as_ref(), index.as_deref(), number, seq, copies.as_ref());
        self.handle.host.blocking(work).await.map_err(|e| unfinished(&e))?.map_err(|e| unfinished(&e))?;
        let _ = self.handle.commands.send(Command::Forget { seq }).await;
        Ok(())
    }
}

/// Content that the event brought into a work unit.
fn chunks_of(record: &EventRecord) -> Vec<Content> {
    let mark = record.more.as_ref().and_then(|more| more.work.as_ref());
    match mark.map(|mark| &mark.act) {
        Some(WorkAct::Artifact(artifact)) => artifact.blobs.iter().map(|chunk| chunk.content).collect(),
        Some(WorkAct::Open(_) | WorkAct::Move | WorkAct::Answer | WorkAct::Note) | None => Vec::new(),
    }
}

/// Those of some contents that are the given one, or begin with it.
fn holding(store: &dyn Store, content: Content, named: Vec<Content>) -> Result<Vec<Content>, StoreError> {
    // An event that names what was uploaded need not say how large it is.
    let size = match named.iter().find(|other| other.blob == content.blob) {
        Some(same) => same.size,
        None => store.open_blob(&hex::text(&content.blob))?.map_or(content.size, |blob| blob.size()),
    };
    let mut found = Vec::new();
    for other in named.into_iter().filter(|_| size > 0) {
        let holds = other.blob == content.blob || other.size > size && begins_with(store, other, size)? == content.blob;
        if holds && !found.contains(&other) {
            found.push(other);
        }
    }
    Ok(found)
}

/// The hash of the first bytes of a blob; of nothing if it is not there.
fn begins_with(store: &dyn Store, content: Content, size: u64) -> Result<Hash, StoreError> {
    let mut hasher = Sha256::new();
    let Some(blob) = store.open_blob(&hex::text(&content.blob))? else { return Ok(hasher.finalize().into()) };
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    while at < size {
        let want = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
        let got = blob.read_at(piece.get_mut(..want).unwrap_or_default(), at)?;
        if got == 0 {
            break;
        }
        hasher.update(piece.get(..got).unwrap_or_default());
        at += got as u64;
    }
    Ok(hasher.finalize().into())
}

/// The LSN of an event, if the log has it.
fn lsn_of(store: &dyn Store, number: u32, seq: Seq) -> Result<Option<Lsn>, StoreError> {
    let mut lsn = None;
    store.read(number, Seqs::These(&[seq]), &mut |r| {
        lsn = Some(r.lsn);
        ControlFlow::Break(())
    })?;
    Ok(lsn)
}

/// Overwrites copies in the log, up to the last tombstone of the event: what was said behind it is no copy. Gives the events in
/// which the network itself said the same.
fn overwrite(
    store: &dyn Store,
    (class, number, id): (Class, u32, &str),
    seq: Seq,
    copies: &Copies,
) -> Result<Vec<Seq>, StoreError> {
    let first = lsn_of(store, number, seq.saturating_sub(1))?.map_or(1, |before| before + 1);
    let near = if copies.are_near() { lsn_of(store, number, seq.saturating_add(2))? } else { None };
    let mut last = near.unwrap_or(Lsn::MAX);
    store.rewrite(class, number, first..=near.unwrap_or(Lsn::MAX), &mut |r| {
        if is_tombstone(&r, seq) {
            last = r.lsn;
        }
        None
    })?;
    overwrite_imported_state(store, class, number)?;
    let mut told = Vec::new();
    store.rewrite(class, number, first..=last, &mut |r| {
        if r.kind == EVENT_KIND {
            if r.seq == seq {
                return None;
            }
            if let Ok(Record::Event(record)) = Record::decode(r.kind, r.version, r.seq, id, r.body)
                && copies.are_in(&record)
            {
                told.push(r.seq);
            }
        }
        copies.blank(r.kind, r.body)
    })?;
    if let Some(after) = copies.emits_after() {
        let first = lsn_of(store, number, after)?.map_or(1, |before| before + 1);
        store.rewrite(class, number, first..=Lsn::MAX, &mut |r| copies.blank_emit(r.kind, r.body))?;
    }
    Ok(told)
}

/// Overwrites the state that an imported network began with: it has copies of whatever it was told before. Both snapshots are newer
/// by now, so nobody reads it again.
fn overwrite_imported_state(store: &dyn Store, class: Class, number: u32) -> Result<(), StoreError> {
    let mut first = None;
    let seen = store.replay(class, Some(number), 0, &mut |r| {
        first = Some(r.kind);
        ControlFlow::Break(())
    });
    match seen {
        // It was made here, and has no such records.
        Ok(_) if first != Some(KIND_STATE) => return Ok(()),
        // Where parts of the log were freed, what it began with may be among them or not.
        Ok(_) | Err(StoreError::Damaged(_)) => {}
        Err(error) => return Err(error),
    }
    store.rewrite(class, number, 1..=Lsn::MAX, &mut |r| {
        let (kind, piece) =
            r.body.split_first().filter(|(_, piece)| r.kind == KIND_STATE && piece.iter().any(|b| *b != 0))?;
        Some([&[*kind][..], &vec![0; piece.len()]].concat())
    })?;
    Ok(())
}

fn is_tombstone(record: &RecordRef<'_>, seq: Seq) -> bool {
    let change = (record.kind == KIND_CHANGE).then(|| serde_json::from_slice::<Change>(record.body).ok()).flatten();
    matches!(change, Some(Change::Redacted { seq: of }) if of == seq)
}

/// Overwrites what an event said and removes its search row. Doing it again does no harm.
pub(crate) fn erase(
    store: &dyn Store,
    index: Option<&SearchIndex>,
    number: u32,
    seq: Seq,
    copies: Option<&Copies>,
) -> Result<(), StoreError> {
    // Who feeds the index may have read the text already: it is removed after it was put in.
    let _nobody_feeds = index.map(SearchIndex::feed);
    if let Some(index) = index.filter(|_| !rialto_engine::bugs::on("erased text stays in the index")) {
        index.remove(number, seq)?;
    }
    let mut blank = None;
    store.read(number, Seqs::These(&[seq]), &mut |r| {
        let marked = copies.and_then(|copies| copies.blank(r.kind, r.body));
        let body = marked.as_deref().unwrap_or(r.body);
        blank = rialto_engine::record::redacted(r.version, body).filter(|blank| blank != r.body);
        ControlFlow::Break(())
    })?;
    if let Some(blank) = blank {
        store.erase(number, seq, &blank)?;
    }
    Ok(())
}

/// Those of the redacted events whose redaction was cut short: their words are still there.
pub(crate) fn cut_short(
    store: &dyn Store,
    index: Option<&SearchIndex>,
    (number, id): (u32, &str),
    redacted: &[Seq],
) -> Result<Vec<Arc<EventRecord>>, StoreError> {
    let mut found = Vec::new();
    for seq in redacted {
        store.read(number, Seqs::These(&[*seq]), &mut |r| {
            if rialto_engine::record::redacted(r.version, r.body).is_some_and(|blank| blank != r.body)
                && let Ok(Record::Event(record)) = Record::decode(r.kind, r.version, r.seq, id, r.body)
            {
                found.push(record);
            }
            ControlFlow::Break(())
        })?;
        if let Some(index) = index {
            index.remove(number, *seq)?;
        }
    }
    Ok(found)
}

/// Finishes redactions that were cut short. Where the disk refuses, the next start tries again.
pub(crate) async fn finish(network: &Network, events: &[Arc<EventRecord>]) {
    for event in events {
        match network.redact_event(event).await {
            Ok(_) => tracing::info!(network = network.id(), seq = event.event.seq, "a redaction was finished"),
            Err(fault) => {
                tracing::error!(network = network.id(), %fault, "a redaction that was cut short is not finished");
            }
        }
    }
}
