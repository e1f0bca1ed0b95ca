//! From decided to committed: batches to the log, and what follows when one has landed.
//!
//! Invariant: batches land in order; answers, deliveries and effects of a batch come after its flush.

use super::gather::BATCH_BYTES;
use super::named::BlobChanges;
use super::{Flight, Task, Then};
use crate::command::{Answered, Out, Reply, StateAt};
use crate::delivery::id_key;
use crate::metrics::Counters;
use crate::outgoing::runs;
use rialto_engine::record::VERSION;
use rialto_engine::{Clock, Effect, Record, bugs};
use rialto_model::network::Durability;
use rialto_store::{Batch, Committed, Flush, StoreError};
use std::time::{Duration, Instant};

/// At least so many times its own size is logged between two snapshots: a large network must not pay for them with
/// every event.
const LOG_PER_SNAPSHOT: usize = 12;
/// As much when the log has rolled: replay then begins in the segment before at the earliest.
const LOG_PER_ROLL_SNAPSHOT: usize = 4;
/// A buffer larger than this is not kept for the next batch: what a full batch takes, and one event more.
const BATCH_BYTES_KEPT: usize = BATCH_BYTES + (2 << 20);
/// So much of an empty buffer is kept by a network that rests.
const BATCH_BYTES_AT_REST: usize = 64 << 10;

impl Task {
    /// Hands the gathered records to the log, unless all of them may wait for the next commit.
    pub(super) async fn submit(&mut self) {
        if !self.open.hashes.is_empty() || !self.open.saves.is_empty() {
            // What waits lazily goes to the log first, so that log and state say the same.
            self.urgent |= !self.open.records.is_empty();
        }
        if !self.open.hashes.is_empty() {
            let hash = self.engine.state.hash();
            self.then.extend(self.open.hashes.drain(..).map(|reply| Then::Hash(reply, hash)));
        }
        for reply in std::mem::take(&mut self.open.saves) {
            self.then.push(Then::Save(reply, self.engine.state.to_snapshot()));
        }
        let lazy = !self.urgent;
        let number = self.log.next_flight;
        self.log.next_flight += 1;
        let mut flight = Flight {
            number,
            done: None,
            then: std::mem::take(&mut self.then),
            events: std::mem::take(&mut self.open.events),
            blobs: BlobChanges::default(),
            after: std::mem::take(&mut self.fx.after),
            head: self.engine.state.book.head,
            handed: Instant::now(),
            snapshot: None,
            wrote: false,
        };
        let os = self.engine.state.book.settings.durability == Durability::Os;
        if bugs::on("ack before commit") || os && bugs::on("os acknowledged before it is written") {
            let now = self.clock.now();
            std::mem::take(&mut flight.then).into_iter().for_each(|then| self.then(then, now));
        }
        self.walk.decided_after = 0;
        if lazy || self.open.records.is_empty() && self.open.spoiled.is_none() {
            flight.done = Some(Ok(self.log.last_lsn));
            self.log.flights.push_back(flight);
            self.land();
            return;
        }
        self.urgent = false;
        flight.wrote = true;
        flight.blobs = std::mem::take(&mut self.open.blobs);
        if let Some(error) = self.open.spoiled.take() {
            flight.done = Some(Err(error));
            self.log.flights.push_back(flight);
            self.land();
            return;
        }
        self.log.rests = false;
        let mut next = self.log.buffers.pop().unwrap_or_else(|| Batch::new(self.shared.number));
        next.clear();
        let batch = std::mem::replace(&mut self.open.records, next);
        self.log.bytes_since_snapshot += batch.bytes();
        let much =
            self.log.bytes_since_snapshot > self.log.snapshot_bytes.max(self.log.snapshot_size * LOG_PER_SNAPSHOT);
        if much || self.log.snapshot_due {
            self.log.bytes_since_snapshot = 0;
            self.log.snapshot_due = false;
            let snapshot = self.engine.state.to_snapshot();
            self.log.snapshot_size = snapshot.len();
            flight.snapshot = Some(snapshot);
        }
        self.log.flights.push_back(flight);
        self.append(number, batch).await;
    }

    /// Puts a record that was just applied into the open batch, while it is still near.
    pub(super) fn encode(&mut self, record: &Record) {
        let (seq, key) = match record {
            Record::Event(event) if event.received.is_some() => (event.event.seq, id_key(event.event.id())),
            Record::Event(event) => (event.event.seq, 0),
            Record::Acks(_) | Record::Change(_) => (self.engine.state.book.head, 0),
        };
        let put = self.open.records.push_with(record.kind(), VERSION, seq, key, |body| record.encode(body));
        if let Err(error) = put {
            self.open.spoiled.get_or_insert(error);
        }
    }

    async fn append(&mut self, number: u64, batch: Batch) {
        let flush = match self.engine.state.book.settings.durability {
            Durability::Sync => Flush::Sync,
            Durability::Os => Flush::Os,
            Durability::Memory => Flush::None,
        };
        let complete = self.log.complete.clone();
        let mut done: rialto_store::Done = Box::new(move |result| {
            // The channel holds every batch that can be in flight.
            let _ = complete.try_send((number, result));
        });
        let mut batch = batch;
        loop {
            match self.log.store.append(self.log.class, self.log.epoch, flush, batch, done) {
                Ok(()) => return,
                Err(rejected) if matches!(rejected.error, StoreError::Busy) => {
                    batch = rejected.batch;
                    done = rejected.done;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(rejected) => {
                    self.completed(number, Err(rejected.error));
                    return;
                }
            }
        }
    }

    pub(super) fn completed(&mut self, number: u64, result: Result<Committed, StoreError>) {
        let result = result.map(|committed| {
            self.note_segment(committed.segment);
            if committed.batch.bytes() <= BATCH_BYTES_KEPT {
                self.log.buffers.push(committed.batch);
            }
            committed.last_lsn
        });
        if let Some(flight) = self.log.flights.iter_mut().find(|f| f.number == number) {
            flight.done = Some(result);
        }
        self.land();
    }

    /// Gives the memory of batches back, a second after the last one.
    pub(super) fn rest_batches(&mut self) {
        if !std::mem::replace(&mut self.log.rests, true) || !self.log.flights.is_empty() {
            return;
        }
        self.log.buffers.clear();
        if self.open.records.is_empty() && self.open.records.capacity() > BATCH_BYTES_AT_REST {
            self.open.records = Batch::new(self.shared.number);
        }
    }

    /// A snapshot is due when the log has rolled and there is enough new since the last one.
    fn note_segment(&mut self, segment: u64) {
        let rolled = self.log.segment != 0 && segment != self.log.segment;
        self.log.segment = segment;
        self.log.snapshot_due |=
            rolled && self.log.bytes_since_snapshot > self.log.snapshot_size * LOG_PER_ROLL_SNAPSHOT;
    }

    /// The state with the LSN it is at, if all of it is in the log. A quiet network is at the end of the log, wherever its
    /// own last record is: nothing of it lies between.
    pub(super) fn state_to_save(&mut self) -> Option<StateAt> {
        if self.log.broken
            || self.open.spoiled.is_some()
            || !self.open.records.is_empty()
            || !self.log.flights.is_empty()
        {
            self.log.snapshot_due = true;
            return None;
        }
        let logs = self.log.store.health().logs;
        let durable = logs.iter().find(|log| log.class == self.log.class).map_or(0, |log| log.durable_lsn);
        let bytes = self.engine.state.to_snapshot();
        self.log.bytes_since_snapshot = 0;
        self.log.snapshot_size = bytes.len();
        self.log.last_lsn = self.log.last_lsn.max(durable);
        Some(StateAt { class: self.log.class, lsn: self.log.last_lsn, bytes })
    }

    /// Finishes batches in order: deliver, do, answer.
    fn land(&mut self) {
        while let Some(flight) = self.log.flights.front_mut() {
            let Some(result) = flight.done.take() else { break };
            let Some(flight) = self.log.flights.pop_front() else { break };
            match result {
                Ok(lsn) => self.landed(flight, lsn),
                Err(error) => {
                    tracing::error!(network = %self.shared.id, %error, "the log refused a batch");
                    self.log.flights.push_front(flight);
                    self.log.broken = true;
                    return;
                }
            }
        }
    }

    fn landed(&mut self, flight: Flight, lsn: u64) {
        let now = self.clock.now();
        let counters = &self.shared.counters;
        self.log.last_lsn = self.log.last_lsn.max(lsn);
        if flight.wrote {
            Counters::add(&counters.commits, 1);
            Counters::add(&counters.commit_micros, u64::try_from(flight.handed.elapsed().as_micros()).unwrap_or(0));
        }
        self.committed = self.committed.max(flight.head);
        // Before the answers: whoever was told of a position may ask for what is behind it.
        if !flight.events.is_empty() {
            let _ = self.head.send(self.committed);
        }
        Counters::add(&counters.accepted, flight.events.len() as u64);
        self.share_recent();
        flight.blobs.commit(&self.blobs, self.shared.number);
        // Before the answers too: whoever was given a token or a session may use it at once.
        if std::mem::take(&mut self.book_changes.unpublished) {
            self.publish();
        }
        // Answers first, so that a sender hears of its event before its own deliveries that follow.
        for then in flight.then {
            self.then(then, now);
        }
        let mut events = flight.events;
        for event in &events {
            self.sessions.carried.notice(&self.engine.state, &event.record, event.tracked);
        }
        events.retain(|e| {
            !e.tracked
                || self.sessions.may_reach(&self.engine.state, &e.record.route, e.book == self.book_changes.count)
        });
        let accounts = &self.shared.directory.accounts;
        let unread_max = accounts.mail_per_stream();
        for run in runs(events, accounts.mail()) {
            let settled = run.book() == self.book_changes.count;
            let sent = self.sessions.deliver(&self.engine.state, &run, (settled, unread_max), now.steady);
            if !run.is_tracked() {
                let dropped = self.sessions.keep_for_polls(&self.engine.state, &run);
                Counters::add(&self.shared.counters.dropped, dropped);
            }
            Counters::add(&self.shared.counters.delivered, sent);
        }
        for effect in flight.after {
            self.effect(effect);
        }
        self.sessions.flush(&self.engine.state, self.committed, now.steady);
        self.tell();
        for connection in self.sessions.take_ended() {
            self.close_stream(connection, now);
        }
        if let Some(bytes) = flight.snapshot {
            let (store, class, number) = (self.log.store.clone(), self.log.class, self.shared.number);
            let lsn = if bugs::on("snapshot ahead of the log") { self.log.last_lsn + 1 } else { lsn };
            self.host.errand(move || {
                if let Err(error) = store.save_snapshot(class, number, lsn, &bytes) {
                    tracing::warn!(%error, "snapshot was not saved; replay will be longer");
                }
            });
        }
    }

    pub(super) fn then(&mut self, then: Then, now: Clock) {
        match then {
            Then::Count(reply, n) => {
                let _ = reply.send(Ok(n));
            }
            Then::Pending(answer) => answer.give(Ok(())),
            Then::Page(reply, page) => {
                let _ = reply.send(page);
            }
            Then::Latest(reply, latest) => {
                let _ = reply.send(latest);
            }
            Then::Changed(reply, changed) => {
                let _ = reply.send(Ok(changed));
            }
            Then::Fact(reply, fact) => {
                let _ = reply.send(Ok(fact));
            }
            Then::Facts(reply, page) => {
                let _ = reply.send(Ok(page));
            }
            Then::Hash(reply, hash) => {
                let _ = reply.send((self.log.last_lsn, hash));
            }
            Then::Save(reply, bytes) => {
                let _ = reply.send(StateAt { class: self.log.class, lsn: self.log.last_lsn, bytes });
            }
            Then::Answers(reply, answers, opened) => {
                self.answer(reply, answers);
                for (connection, joined, outbox) in opened {
                    let member = joined.session.member;
                    self.engine.live.stream(member, true, now);
                    // It may have ended, left or joined anew since.
                    if self.joined.get(&connection) != Some(&joined.session) {
                        self.engine.live.stream(member, false, now);
                        continue;
                    }
                    if let Some(old) = self.sessions.close(connection) {
                        self.engine.live.stream(old.member, false, now);
                    }
                    self.sessions.open(connection, &joined, outbox);
                }
            }
        }
    }

    /// Hands answers to whoever sent what they answer.
    pub(super) fn answer(&mut self, reply: Reply, answers: Vec<Answered>) {
        match reply {
            Reply::Once(reply) => drop(reply.send(answers)),
            Reply::Stream(connection, outbox) => self.sessions.answer(connection, &outbox, Out::Answers(answers)),
            Reply::Nobody => {}
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Signal { event, route, after } => {
                Counters::add(&self.shared.counters.signals, 1);
                self.sessions.signal(&self.engine.state, &event, &route, after);
            }
            Effect::Revoked { member, numbers, code } => {
                self.sessions.revoke(member, &numbers, code);
                // Whoever waits by another way looks again, and is refused.
                let _ = self.head.send(self.committed);
            }
            Effect::CredentialEnded => {
                let _ = self.head.send(self.committed);
            }
            Effect::Published { address, on } => {
                self.shared.directory.identities.publish(&self.shared.id, &address, on);
            }
            Effect::CarriedGone { face, address } => self.sessions.carried.gone(&face, &address),
            Effect::CloseAll { code } => self.sessions.close_all(code),
            Effect::Observe(check) => self.observe(&check),
        }
    }
}
