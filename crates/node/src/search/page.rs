//! One page of a search, in either order: hits from the index as far as it has come, hits from the log beyond it.
//!
//! Invariant: everything between the cursor asked for and [`FoundEvents::next`] was looked at. A page that ends before its range does says
//! `has_more`, whatever made it end: a full page, many bytes, or the bound on events looked at.

use super::{may_hold_text, text_of, viewer_of};
use crate::query::read_records;
use rialto_engine::history::Lens;
use rialto_engine::{EventRecord, Filter, Record};
use rialto_model::{ErrorCode, Fault, Seq, limits};
use rialto_store::search::{ANSWERS_MAX, SearchIndex, SearchQuery as IndexQuery, Words};
use rialto_store::{Seqs, Store, StoreError};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Events of the log read at a time, and hits of the index: no more than these are in memory besides the page.
const LOG_PIECE: u64 = 256;
const INDEX_PIECE: usize = 32;

/// Where a search looks: one network of a store and its index, if there is one.
#[derive(Clone, Copy)]
pub(super) struct SearchScope<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) index: Option<&'a SearchIndex>,
    pub(super) number: u32,
    pub(super) id: &'a str,
}

/// What a search found.
pub(super) struct FoundEvents {
    /// In the order asked for.
    pub(super) events: Vec<Arc<EventRecord>>,
    /// The range was not read to its end.
    pub(super) has_more: bool,
    /// The last position looked at.
    pub(super) next: Seq,
    /// How far the index had come.
    pub(super) indexed_through: Seq,
}

/// A search while it runs.
pub(super) struct SearchPage<'a> {
    place: SearchScope<'a>,
    text: &'a str,
    words: Words,
    filter: &'a Filter,
    lens: &'a Lens,
    /// Strictly above this, and up to this.
    low: Seq,
    high: Seq,
    limit: usize,
    /// Up to here the index answers.
    indexed_through: Seq,
    /// Oldest first: everything up to here was looked at. Newest first: everything from here on.
    position: Seq,
    looked_at: usize,
    events: Vec<Arc<EventRecord>>,
    bytes: usize,
    /// Another hit was seen that does not fit into the page.
    full: bool,
}

impl<'a> SearchPage<'a> {
    pub(super) fn new(
        place: SearchScope<'a>,
        text: &'a str,
        filter: &'a Filter,
        lens: &'a Lens,
        (low, high): (Seq, Seq),
        limit: usize,
    ) -> Result<SearchPage<'a>, Fault> {
        let through = place.index.map(|index| index.indexed_through(place.number)).transpose();
        let indexed_through = through.map_err(|e| index_unavailable(&e))?.unwrap_or(0);
        let position = if filter.descending { high.saturating_add(1) } else { low };
        Ok(SearchPage {
            place,
            text,
            words: Words::of(text),
            filter,
            lens,
            low,
            high,
            limit,
            indexed_through,
            position,
            looked_at: 0,
            events: Vec::new(),
            bytes: 0,
            full: false,
        })
    }

    /// Looks until the page is full, the range is read, or the bound on events looked at is reached. Blocks on the disk.
    pub(super) fn read(mut self) -> Result<FoundEvents, Fault> {
        while !self.at_end() && !self.full && self.looked_at < limits::SCAN_EVENTS_MAX {
            let indexed = match self.filter.descending {
                true => self.position <= self.indexed_through.saturating_add(1),
                false => self.position < self.indexed_through,
            };
            match self.place.index.filter(|_| indexed) {
                Some(index) => self.read_index(index)?,
                None => self.read_log()?,
            }
        }
        let has_more = self.full || !self.at_end();
        let SearchPage { events, position, indexed_through, .. } = self;
        Ok(FoundEvents { events, has_more, next: position, indexed_through })
    }

    fn at_end(&self) -> bool {
        if self.filter.descending { self.position <= self.low.saturating_add(1) } else { self.position >= self.high }
    }

    /// Takes the next hits of the index, at most [`ANSWERS_MAX`].
    fn read_index(&mut self, index: &SearchIndex) -> Result<(), Fault> {
        let end = self.indexed_through.min(self.high);
        let (after, before) = match self.filter.descending {
            true => (self.low, self.position),
            false => (self.position, end.saturating_add(1)),
        };
        let oldest_first = !self.filter.descending;
        let (network, text) = (self.place.number, self.text);
        let ask =
            IndexQuery { network, text, after: Some(after), before: Some(before), limit: ANSWERS_MAX, oldest_first };
        let answer = index.query(&ask, &viewer_of(self.lens)).map_err(|e| index_unavailable(&e))?;
        if answer.indexed_through < self.indexed_through {
            // The index was damaged and begun anew meanwhile: the log has what it no longer has.
            self.indexed_through = answer.indexed_through;
            return Ok(());
        }
        let all = answer.seqs.len() < ANSWERS_MAX;
        for piece in answer.seqs.chunks(INDEX_PIECE) {
            let mut seqs = piece.to_vec();
            seqs.sort_unstable();
            let records = read_records(self.place.store, self.place.number, self.place.id, &seqs)?;
            if !self.take_all(records) {
                return Ok(());
            }
            self.looked_at += piece.len();
            self.position = piece.last().copied().unwrap_or(self.position);
        }
        if all {
            self.position = if self.filter.descending { self.low.saturating_add(1) } else { end };
        }
        Ok(())
    }

    /// Looks at the next events of the log.
    fn read_log(&mut self) -> Result<(), Fault> {
        let (from, to) = match self.filter.descending {
            true => {
                // Not below what the index answers for.
                let least = self.low.max(self.indexed_through).saturating_add(1);
                (self.position.saturating_sub(LOG_PIECE).max(least), self.position.saturating_sub(1))
            }
            false => (self.position.saturating_add(1), self.position.saturating_add(LOG_PIECE).min(self.high)),
        };
        let records = self.texts_of_log(from, to)?;
        if self.take_all(records) {
            self.looked_at += usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX).saturating_add(1);
            self.position = if self.filter.descending { from } else { to };
        }
        Ok(())
    }

    /// Events of the log in which every word occurs, oldest first.
    fn texts_of_log(&self, from: Seq, to: Seq) -> Result<Vec<Arc<EventRecord>>, Fault> {
        let (mut out, mut broken) = (Vec::new(), None);
        let place = &self.place;
        let read = place.store.read(place.number, Seqs::Range(from..to.saturating_add(1)), &mut |r| {
            if !may_hold_text(r.body) {
                return ControlFlow::Continue(());
            }
            match Record::decode(r.kind, r.version, r.seq, place.id, r.body) {
                Ok(Record::Event(record)) if text_of(&record).is_some_and(|text| self.words.occur_in(&text)) => {
                    out.push(record);
                }
                Ok(Record::Event(_) | Record::Acks(_) | Record::Change(_)) => {}
                Err(error) => {
                    broken = Some(error.to_string());
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        let unreadable = |what: String| {
            tracing::error!(network = place.id, %what, "the log beyond the search index cannot be read");
            Fault::new(ErrorCode::StorageUnavailable, "a stored event cannot be read; the log has the cause")
        };
        match (read, broken) {
            (Err(error), _) => Err(unreadable(error.to_string())),
            (Ok(()), Some(what)) => Err(unreadable(what)),
            (Ok(()), None) => Ok(out),
        }
    }

    /// Takes records, given oldest first, in the order asked for. Returns false when the page is full; the position is then that of
    /// the last one taken.
    fn take_all(&mut self, mut records: Vec<Arc<EventRecord>>) -> bool {
        if self.filter.descending {
            records.reverse();
        }
        for record in records {
            let seq = record.event.seq;
            let wanted = seq > self.low && seq <= self.high && record.stored;
            if wanted && self.lens.shows(&record) && self.filter.passes(&record) {
                if self.events.len() == self.limit || self.bytes >= limits::PAGE_BYTES_MAX {
                    self.full = true;
                    return false;
                }
                self.bytes += record.event.json_len();
                self.events.push(record);
            }
            self.position = seq;
        }
        true
    }
}

fn index_unavailable(error: &StoreError) -> Fault {
    tracing::warn!(%error, "search failed");
    Fault::new(
        ErrorCode::StorageUnavailable,
        "the search index cannot be read; try again, or delete search.db and start the node anew",
    )
}
