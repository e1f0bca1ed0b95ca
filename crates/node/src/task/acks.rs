//! Events by id and by position, and the acks that name them.

use super::{RECENT_EVENTS, Task};
use crate::delivery::id_key;
use crate::metrics::Counters;
use rialto_engine::{AckRequest, Clock, EventRecord, Filter};
use rialto_model::{EventId, Fault, Seq, limits};
use std::sync::Arc;

impl Task {
    pub(super) fn remember(&mut self, record: Arc<EventRecord>) {
        if record.received.is_some() {
            self.recent_ids.insert(id_key(record.event.id()), record.event.seq);
        }
        self.recent.push_back(record);
        // Never forgets what is not committed yet: the store does not know it.
        while self.recent.len() > RECENT_EVENTS && self.recent.front().is_some_and(|r| r.event.seq <= self.committed) {
            if let Some(old) = self.recent.pop_front() {
                let key = id_key(old.event.id());
                if self.recent_ids.get(&key) == Some(&old.event.seq) {
                    self.recent_ids.remove(&key);
                }
            }
        }
    }

    /// An event by position: at hand, or in the store.
    pub(super) fn record_at(&self, seq: Seq) -> Option<Arc<EventRecord>> {
        let first = self.recent.front().map(|r| r.event.seq);
        if let Some(first) = first.filter(|f| *f <= seq) {
            return self.recent.get(usize::try_from(seq - first).ok()?).cloned();
        }
        crate::query::read_records(self.store.as_ref(), self.shared.number, &self.shared.id, &[seq])
            .ok()?
            .into_iter()
            .next()
    }

    /// An event by id.
    pub(super) fn find(&self, id: &str) -> Option<Arc<EventRecord>> {
        let book = &self.engine.state.book;
        if let Some(own) = EventId::from_text(id).filter(|own| own.salt == book.salt && own.seq <= book.head)
            && let Some(record) = self.record_at(own.seq).filter(|r| r.event.id() == id)
        {
            return Some(record);
        }
        let key = id_key(id);
        if let Some(record) =
            self.recent_ids.get(&key).and_then(|seq| self.record_at(*seq)).filter(|r| r.event.id() == id)
        {
            return Some(record);
        }
        let seqs = self.store.find(self.shared.number, key).ok()?;
        seqs.into_iter().find_map(|seq| self.record_at(seq).filter(|r| r.event.id() == id))
    }

    /// Event ids to positions; unknown ones are ignored.
    pub(super) fn ack_request(&self, member: u32, ids: &[String], up_to: Option<&str>, count: bool) -> AckRequest {
        let seq = |id: &str| {
            self.sessions
                .seq_of(member, id)
                .or_else(|| id.strip_prefix("seq:").and_then(|n| n.parse().ok()))
                .or_else(|| self.find(id).map(|r| r.event.seq))
        };
        AckRequest { seqs: ids.iter().filter_map(|id| seq(id)).collect(), up_to: up_to.and_then(seq), count }
    }

    pub(super) fn ack(&mut self, member: u32, request: &AckRequest, now: Clock) -> u64 {
        let request = AckRequest { up_to: request.up_to.map(|s| s.min(self.committed)), ..request.clone() };
        let effects_before = self.fx.after.len();
        let n = self.engine.ack(member, &request, now, &mut self.fx);
        // A receipt or a dropped body can be seen by others: such an ack is committed first.
        if self.fx.after.len() > effects_before || !self.engine.state.book.unstored.is_empty() {
            self.urgent = true;
        }
        let _ = self.decided(Ok(()));
        Counters::add(&self.shared.counters.acked, n.max(request.seqs.len() as u64));
        self.sessions.acked(&self.engine.state, member, self.committed, now.steady);
        n
    }

    pub(super) fn ack_filtered(&mut self, member: u32, up_to: Seq, filter: &Filter, now: Clock) -> Result<u64, Fault> {
        let unfiltered = Filter { after: None, before: None, descending: false, ..filter.clone() } == Filter::default();
        if unfiltered {
            return Ok(self.ack(member, &AckRequest { up_to: Some(up_to), count: true, ..AckRequest::default() }, now));
        }
        let seqs: Vec<Seq> =
            self.engine.state.pending(member, 0, up_to.min(self.committed)).take(limits::SCAN_EVENTS_MAX).collect();
        let seqs = seqs.into_iter().filter(|seq| self.record_at(*seq).is_some_and(|r| filter.passes(&r))).collect();
        Ok(self.ack(member, &AckRequest { seqs, up_to: None, count: true }, now))
    }

    /// Reads an event whose bytes were overwritten again.
    pub(super) fn forget_copy(&mut self, seq: Seq) {
        let stored = crate::query::read_records(self.store.as_ref(), self.shared.number, &self.shared.id, &[seq]);
        let stored = stored.ok().and_then(|mut r| r.pop());
        if let (Some(stored), Some(copy)) = (stored, self.recent.iter_mut().find(|r| r.event.seq == seq)) {
            *copy = stored;
        }
    }
}
