//! The newest events of a network, kept at hand for duplicates and acks.
//!
//! Invariant: whatever is not committed yet is here, because the store does not know it.

use super::BATCH_EVENTS;
use crate::budget::Charge;
use crate::delivery::id_key;
use rialto_engine::EventRecord;
use rialto_model::{EventId, Millis, Seq, limits};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Events kept at hand; more only while they are not committed.
const RECENT_EVENTS: usize = BATCH_EVENTS / 2;
/// Bytes of its newest events that every network may keep at hand.
const RECENT_BYTES_MIN: usize = 1 << 20;

/// Positions whose own ids are known without their events: what a window of large events holds is acked without asking the disk.
const OWN_IDS: usize = 8192;
/// The same where all networks together keep too much.
const OWN_IDS_MIN: usize = 512;

/// When the newest events were stamped, by position: an id that the network made says that too, and nobody else's id of the same form
/// stands for one of these events.
#[derive(Debug, Default)]
struct OwnIds {
    /// The position after the last.
    end: Seq,
    /// 0 for an event whose sender named it.
    stamps: VecDeque<Millis>,
}

impl OwnIds {
    fn push(&mut self, record: &EventRecord) {
        if self.end != record.event.seq {
            self.stamps.clear();
        }
        self.end = record.event.seq + 1;
        self.stamps.push_back(if record.received.is_some() { 0 } else { record.event.timestamp });
        self.keep(OWN_IDS);
    }

    fn keep(&mut self, most: usize) {
        self.stamps.drain(..self.stamps.len().saturating_sub(most));
        if self.stamps.capacity() > 4 * most {
            self.stamps.shrink_to(most);
        }
    }

    fn bytes(&self) -> usize {
        self.stamps.len() * size_of::<Millis>()
    }

    fn has(&self, id: &EventId) -> bool {
        let back = self.end.checked_sub(id.seq).and_then(|back| usize::try_from(back).ok());
        let at = back.filter(|back| *back > 0).and_then(|back| self.stamps.len().checked_sub(back));
        at.and_then(|at| self.stamps.get(at)).is_some_and(|stamp| *stamp > 0 && *stamp == id.at)
    }
}

/// Events without a gap up to the newest, and look-ups by id.
pub(super) struct RecentEvents {
    events: VecDeque<Arc<EventRecord>>,
    bytes: usize,
    /// Counts them for the node.
    held: Charge,
    /// Positions of events whose senders named them.
    ids: HashMap<u64, Seq>,
    own_ids: OwnIds,
}

impl RecentEvents {
    pub(super) fn new(held: Charge) -> RecentEvents {
        let (events, ids) = (VecDeque::new(), HashMap::new());
        RecentEvents { events, bytes: 0, held, ids, own_ids: OwnIds::default() }
    }

    pub(super) fn remember(&mut self, record: Arc<EventRecord>, committed: Seq) {
        if record.received.is_some() {
            self.ids.insert(id_key(record.event.id()), record.event.seq);
        }
        self.bytes += record.event.weight();
        self.own_ids.push(&record);
        self.events.push_back(record);
        self.forget_oldest(limits::RECENT_BYTES_MAX, committed);
    }

    /// Counts what is at hand for the whole node.
    pub(super) fn count(&mut self) {
        self.held.resize(self.bytes + self.own_ids.bytes());
    }

    /// Keeps little of what is at hand.
    pub(super) fn shrink(&mut self, committed: Seq) {
        self.forget_oldest(RECENT_BYTES_MIN, committed);
        self.own_ids.keep(OWN_IDS_MIN);
        self.count();
    }

    /// Forgets everything: the log failed.
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.bytes = 0;
        self.ids.clear();
        self.own_ids = OwnIds::default();
        self.count();
    }

    fn forget_oldest(&mut self, bytes_max: usize, committed: Seq) {
        while (self.events.len() > RECENT_EVENTS || self.bytes > bytes_max)
            && self.events.front().is_some_and(|r| r.event.seq <= committed)
        {
            if let Some(old) = self.events.pop_front() {
                self.bytes = self.bytes.saturating_sub(old.event.weight());
                let key = old.received.map(|_| id_key(old.event.id()));
                if let Some(key) = key.filter(|key| self.ids.get(key) == Some(&old.event.seq)) {
                    self.ids.remove(&key);
                }
            }
        }
    }

    /// The oldest position at hand.
    pub(super) fn first(&self) -> Option<Seq> {
        self.events.front().map(|r| r.event.seq)
    }

    pub(super) fn at(&self, seq: Seq) -> Option<&Arc<EventRecord>> {
        let at = usize::try_from(seq.checked_sub(self.first()?)?).ok()?;
        self.events.get(at)
    }

    /// Where an event may be whose sender named it so.
    pub(super) fn position(&self, id: &str) -> Option<Seq> {
        self.ids.get(&id_key(id)).copied()
    }

    /// Whether the network made this id for one of the newest events.
    pub(super) fn is_own(&self, id: &EventId) -> bool {
        self.own_ids.has(id)
    }

    /// Puts an event in the place of the copy at hand.
    pub(super) fn replace(&mut self, record: Arc<EventRecord>) {
        if let Some(copy) = self.events.iter_mut().find(|r| r.event.seq == record.event.seq) {
            *copy = record;
        }
    }
}
