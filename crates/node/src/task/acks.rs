//! Events by id and by position, and the acks that name them.

use super::{RECENT_BYTES, RECENT_EVENTS, Task};
use crate::delivery::id_key;
use crate::metrics::Counters;
use rialto_engine::{AckRequest, Clock, EventRecord};
use rialto_model::{ErrorCode, EventId, Fault, Seq};
use std::sync::Arc;

impl Task {
    pub(super) fn remember(&mut self, record: Arc<EventRecord>) {
        if record.received.is_some() {
            self.recent_ids.insert(id_key(record.event.id()), record.event.seq);
        }
        self.recent_bytes += record.event.weight();
        self.recent.push_back(record);
        // Never forgets what is not committed yet: the store does not know it.
        while (self.recent.len() > RECENT_EVENTS || self.recent_bytes > RECENT_BYTES)
            && self.recent.front().is_some_and(|r| r.event.seq <= self.committed)
        {
            if let Some(old) = self.recent.pop_front() {
                self.recent_bytes = self.recent_bytes.saturating_sub(old.event.weight());
                let key = old.received.map(|_| id_key(old.event.id()));
                if let Some(key) = key.filter(|key| self.recent_ids.get(key) == Some(&old.event.seq)) {
                    self.recent_ids.remove(&key);
                }
            }
        }
    }

    /// An event by position: at hand, or in the store. An error is no absence: whoever took it for one would accept an
    /// event twice, or lose a reader's place.
    pub(super) fn record_at(&self, seq: Seq) -> Result<Option<Arc<EventRecord>>, Fault> {
        let first = self.recent.front().map(|r| r.event.seq);
        if let Some(first) = first.filter(|f| *f <= seq) {
            return Ok(usize::try_from(seq - first).ok().and_then(|at| self.recent.get(at)).cloned());
        }
        let found = crate::query::read_records(self.store.as_ref(), self.shared.number, &self.shared.id, &[seq])?;
        Ok(found.into_iter().next())
    }

    /// An event by id.
    pub(super) fn find(&self, id: &str) -> Result<Option<Arc<EventRecord>>, Fault> {
        let book = &self.engine.state.book;
        let named = |seq: Seq| self.record_at(seq).map(|r| r.filter(|r| r.event.id() == id));
        if let Some(own) = EventId::from_text(id).filter(|own| own.salt == book.salt && own.seq <= book.head)
            && let Some(record) = named(own.seq)?
        {
            return Ok(Some(record));
        }
        let key = id_key(id);
        if let Some(seq) = self.recent_ids.get(&key)
            && let Some(record) = named(*seq)?
        {
            return Ok(Some(record));
        }
        if rialto_engine::bugs::on("dedup forgotten on restart") {
            return Ok(None);
        }
        let seqs = self.store.find(self.shared.number, key).map_err(|error| {
            tracing::error!(network = %self.shared.id, %error, "an event cannot be looked up");
            Fault::new(ErrorCode::StorageUnavailable, "stored events cannot be looked up; the log has the cause")
        })?;
        for seq in seqs {
            if let Some(record) = named(seq)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Event ids to positions; unknown ones are ignored.
    pub(super) fn ack_request(&self, ids: &[String], up_to: Option<&str>, count: bool) -> Result<AckRequest, Fault> {
        let seq = |id: &str| -> Result<Option<Seq>, Fault> {
            match id.strip_prefix("seq:").and_then(|n| n.parse().ok()) {
                Some(seq) => Ok(Some(seq)),
                None => Ok(self.find(id)?.map(|r| r.event.seq)),
            }
        };
        let mut seqs = Vec::with_capacity(ids.len());
        for id in ids {
            seqs.extend(seq(id)?);
        }
        let up_to = match up_to {
            Some(id) => seq(id)?,
            None => None,
        };
        Ok(AckRequest { seqs, up_to, count })
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

    /// Reads an event whose bytes were overwritten again.
    pub(super) fn forget_copy(&mut self, seq: Seq) {
        let stored = crate::query::read_records(self.store.as_ref(), self.shared.number, &self.shared.id, &[seq]);
        let stored = stored.ok().and_then(|mut r| r.pop());
        if let (Some(stored), Some(copy)) = (stored, self.recent.iter_mut().find(|r| r.event.seq == seq)) {
            *copy = stored;
        }
    }
}
