//! Live sessions of one network: windows, parking, redelivery. All volatile; what was not acked is still pending
//! in the engine and is sent again on the next connection.

use crate::carried::CarriedQueues;
use crate::command::Out;
use crate::outbox::{Outbox, QueueRefusal};
use crate::outgoing::{EventRun, Signal};
use crate::window::{SentDeliveries, Window};
use rialto_engine::input::Joined;
use rialto_engine::{Route, SessionRef, State, StreamKey};
use rialto_model::{ErrorCode, Millis, Seq, limits};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// First redelivery after this long without an ack.
pub(crate) const RETRY_MS: Millis = 30_000;
/// Back-off never exceeds this.
const RETRY_MS_MAX: Millis = 900_000;

/// One delivery to be read from the store and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Which event.
    pub seq: Seq,
    /// 1, 2, 3 …
    pub attempt: u32,
    /// It expects an ack.
    pub tracked: bool,
}

/// What a poll does with one event of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// It is part of the answer.
    Take,
    /// It was seen before.
    Drop,
    /// It waits for another poll.
    Leave,
}

/// Hash under which an id is looked up.
pub fn id_key(id: &str) -> u64 {
    // 0 means "no key" in the log.
    xxhash_rust::xxh3::xxh3_64(id.as_bytes()).max(1)
}

/// One live stream.
#[derive(Debug)]
pub(crate) struct LiveStream {
    pub(crate) session: SessionRef,
    outbox: Outbox,
    /// What it was sent and has not acked.
    window: Window,
    /// Everything pending up to here was sent; more waits beyond it.
    parked: Option<Seq>,
    /// Acked events are sent too, until the stream has caught up.
    replay: bool,
    /// Filled during a commit, sent at its end.
    batch: Vec<Out>,
    /// Bytes of the batch, about.
    batch_bytes: usize,
    /// The position of its join.
    since: Seq,
    /// The stream was told why it ends; nothing else goes out.
    ending: Option<ErrorCode>,
    /// Its reader was told, or is gone.
    dead: bool,
}

/// All live streams of a network, by connection.
#[derive(Debug, Default)]
pub(crate) struct LiveStreams {
    by_connection: BTreeMap<u64, LiveStream>,
    by_member: BTreeMap<u32, Vec<u64>>,
    /// Readers that only want signals; no member behind means broadcasts alone.
    watchers: BTreeMap<u64, (Option<u32>, Outbox)>,
    /// Streams with something to hand over; idle ones are not looked at.
    dirty: Vec<u64>,
    /// Outboxes with something in them that their connections were not told of.
    news: Vec<Outbox>,
    /// Streams that were told why they end, or whose reader is gone.
    ended: Vec<u64>,
    /// At-most-once mail of members that poll.
    rings: BTreeMap<u32, VecDeque<Seq>>,
    /// Mail of members that faces carry.
    pub(crate) carried: CarriedQueues,
    /// What went out to a member and is in no live stream's flight: by polls, or by a stream that is gone.
    shown: BTreeMap<u32, BTreeSet<Seq>>,
}

/// Deliveries remembered per member so that they can be explained; the newest stay.
const SHOWN_MAX: usize = 4096;

impl LiveStream {
    fn send(&mut self, out: Out) {
        if self.ending.is_none() {
            self.batch_bytes += out.held_bytes();
            self.batch.push(out);
        }
    }

    /// Bytes that its reader was given and has not read, about.
    fn unread_bytes(&self) -> usize {
        self.outbox.unread_bytes() + self.batch_bytes
    }

    /// Hands over what gathered; gives whether its connection has to be told. A reader that is so far behind that its
    /// outbox is full loses its stream and is told so in the place kept for that; what it did not ack stays pending.
    fn flush(&mut self) -> bool {
        if self.dead || self.batch.is_empty() {
            return false;
        }
        self.batch_bytes = 0;
        match self.outbox.push(std::mem::take(&mut self.batch)) {
            Ok(tell) => {
                self.dead = self.ending.is_some();
                tell
            }
            Err(QueueRefusal::Closed) => {
                self.dead = true;
                false
            }
            Err(QueueRefusal::Full) => {
                tracing::debug!(member = self.session.member, "outbox is full");
                self.dead = true;
                self.outbox.push_last(Out::Close(self.ending.unwrap_or(ErrorCode::RateLimited)))
            }
        }
    }

    /// Tells the stream why it ends; gives its outbox if its connection has to be told.
    fn end(&mut self, code: ErrorCode) -> Option<Outbox> {
        self.send(Out::Close(code));
        self.ending.get_or_insert(code);
        self.flush().then(|| self.outbox.clone())
    }

    /// Sends pending events from the store as far as the window allows.
    fn pump(&mut self, state: &State, committed: Seq, now: Millis) {
        let Some(cursor) = self.parked.filter(|_| self.ending.is_none()) else { return };
        if is_quiet(state, self.session.member) {
            return;
        }
        let room = self.window.room();
        if room == 0 {
            return;
        }
        if self.replay {
            return self.pump_replay(state, cursor, committed, now);
        }
        let seqs: Vec<Seq> = state.pending(self.session.member, cursor, committed).take(room).collect();
        self.parked = if seqs.len() < room { None } else { seqs.last().copied() };
        let fresh: Vec<Attempt> = seqs
            .into_iter()
            .filter(|seq| !self.window.holds(*seq))
            .map(|seq| Attempt { seq, attempt: 1, tracked: true })
            .collect();
        for a in &fresh {
            self.window.send(SentDeliveries { first: a.seq, last: a.seq, attempt: 1, due: now + RETRY_MS });
        }
        if !fresh.is_empty() {
            self.send(Out::Stored(fresh));
        }
    }
}

impl LiveStream {
    /// Sends everything that routes here, as far as the window allows for what expects an ack.
    fn pump_replay(&mut self, state: &State, mut cursor: Seq, committed: Seq, now: Millis) {
        let member = self.session.member;
        loop {
            let room = self.window.room();
            if room == 0 {
                self.parked = Some(cursor);
                return;
            }
            let seqs = state.replayable(member, cursor, committed, room);
            let (caught_up, last) = (seqs.len() < room, seqs.last().copied());
            let batch: Vec<Attempt> = seqs
                .into_iter()
                .map(|seq| Attempt { seq, attempt: 1, tracked: state.is_pending(member, seq) })
                .collect();
            for a in batch.iter().filter(|a| a.tracked) {
                self.window.send(SentDeliveries { first: a.seq, last: a.seq, attempt: 1, due: now + RETRY_MS });
            }
            if !batch.is_empty() {
                self.send(Out::Stored(batch));
            }
            cursor = last.unwrap_or(cursor);
            if caught_up {
                self.replay = false;
                self.parked = None;
                return;
            }
        }
    }
}

impl LiveStreams {
    /// Opens a stream; everything pending after its resume point is due at once.
    pub(crate) fn open(&mut self, connection: u64, joined: &Joined, outbox: Outbox) {
        let (session, window) = (joined.session, joined.window);
        let live = LiveStream {
            session,
            outbox,
            window: Window::new(window),
            parked: Some(joined.resume_after.unwrap_or(0)),
            replay: joined.replay,
            batch: Vec::new(),
            batch_bytes: 0,
            since: joined.since,
            ending: None,
            dead: false,
        };
        self.by_connection.insert(connection, live);
        self.by_member.entry(session.member).or_default().push(connection);
        self.dirty.push(connection);
    }

    /// Closes a stream; gives its member. What gathered for it is still handed over.
    pub(crate) fn close(&mut self, connection: u64) -> Option<SessionRef> {
        self.watchers.remove(&connection);
        self.carried.detach(connection);
        let mut live = self.by_connection.remove(&connection)?;
        if live.flush() {
            self.news.push(live.outbox.clone());
        }
        if let Some(list) = self.by_member.get_mut(&live.session.member) {
            list.retain(|c| *c != connection);
            if list.is_empty() {
                self.by_member.remove(&live.session.member);
            }
        }
        self.show(live.session.member, live.window.seqs());
        Some(live.session)
    }

    /// Something gathered that was not handed over yet.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.carried.has_work()
    }

    /// Remembers that these went out to a member.
    pub(crate) fn show(&mut self, member: u32, seqs: impl IntoIterator<Item = Seq>) {
        let shown = self.shown.entry(member).or_default();
        shown.extend(seqs);
        while shown.len() > SHOWN_MAX {
            shown.pop_first();
        }
        if shown.is_empty() {
            self.shown.remove(&member);
        }
    }

    /// Whether an event that is still pending went out to a member before.
    pub(crate) fn was_shown(&self, member: u32, seq: Seq) -> bool {
        self.shown.get(&member).is_some_and(|shown| shown.contains(&seq))
    }

    /// Whether the stream has joined, and that is committed.
    pub(crate) fn is_open(&self, connection: u64) -> bool {
        self.by_connection.contains_key(&connection)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_connection.len()
    }

    /// Outboxes whose connections have to be told that there is something in them.
    pub(crate) fn take_news(&mut self) -> Vec<Outbox> {
        std::mem::take(&mut self.news)
    }

    /// Connections whose stream ended since the last call.
    pub(crate) fn take_ended(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ended)
    }

    /// Whether a live connection may be a recipient; cheaper to ask than to put events together for nobody.
    pub(crate) fn may_reach(&self, state: &State, route: &Route, settled: bool) -> bool {
        let others = |member: &u32| Some(*member) != route.source;
        match route.stream {
            None => false,
            Some(StreamKey::Inbox(member)) => self.by_member.contains_key(&member),
            Some(StreamKey::Channel(channel)) if settled => {
                let seated = state.channel(channel).map_or(&[][..], |c| c.seated.as_slice());
                if seated.len() <= self.by_member.len() {
                    seated.iter().any(|member| others(member) && self.by_member.contains_key(member))
                } else {
                    self.by_member.keys().any(others)
                }
            }
            Some(_) => self.by_member.keys().any(others),
        }
    }

    /// Queues committed events for every live recipient; `settled` says that nobody came or went since they were
    /// decided, `unread_max` how many bytes of mail a stream may hold unread. Gives how many deliveries there were.
    pub(crate) fn deliver(
        &mut self,
        state: &State,
        run: &Arc<EventRun>,
        (settled, unread_max): (bool, usize),
        now: Millis,
    ) -> u64 {
        let (route, first, count) = (run.route(), run.first(), run.len());
        let seated = |channel: u32| state.channel(channel).map_or(&[][..], |c| c.seated.as_slice());
        let connections: Vec<u64> = match route.stream {
            None => return 0,
            Some(StreamKey::Inbox(member)) => self.by_member.get(&member).cloned().unwrap_or_default(),
            // Whichever are fewer: members of the channel, or connections of the network.
            Some(StreamKey::Channel(channel)) if settled && seated(channel).len() <= self.by_connection.len() => {
                seated(channel).iter().filter_map(|member| self.by_member.get(member)).flatten().copied().collect()
            }
            Some(_) => self.by_connection.keys().copied().collect(),
        };
        let mut sent = 0;
        for connection in connections {
            let Some(live) = self.by_connection.get_mut(&connection) else { continue };
            let member = live.session.member;
            if live.ending.is_some() || !state.was_sent(member, &route, first) {
                continue;
            }
            if is_quiet(state, member) {
                // Nothing after this was sent. What is sent at most once is not kept for anybody.
                if run.is_tracked() {
                    live.parked.get_or_insert(first - 1);
                }
                continue;
            }
            if live.replay && !run.is_tracked() {
                // What is replayed is older and goes first; as long as it lasts, it brings this event too.
                live.pump(state, first - 1, now);
                if live.replay {
                    continue;
                }
            }
            // What is sent at most once is not found again later, so it waits for older mail only.
            let waits = |after: Seq| run.is_tracked() || state.pending(member, after, first).next().is_some();
            if live.parked.is_some_and(waits) {
                continue;
            }
            let fits = if run.is_tracked() { live.window.room().min(count) } else { count };
            let last = first + fits as u64 - 1;
            if fits < count {
                live.parked = Some(last);
            }
            if fits == 0 {
                continue;
            }
            if run.is_tracked() {
                live.window.send(SentDeliveries { first, last, attempt: 1, due: now + RETRY_MS });
            }
            // Whoever is behind finds its mail in the log when it has read on, and keeps none of it in memory.
            let behind = live.unread_bytes() > unread_max;
            if behind && (run.is_tracked() || run.is_stored()) {
                let tracked = run.is_tracked();
                live.send(Out::Stored((first..=last).map(|seq| Attempt { seq, attempt: 1, tracked }).collect()));
            } else {
                live.send(Out::Delivery(run.part(fits)));
            }
            self.dirty.push(connection);
            sent += fits as u64;
        }
        sent
    }

    /// Sends a signal to every live recipient: of what was sent when `after` was the last position, to those who had come by then.
    pub(crate) fn signal(
        &mut self,
        state: &State,
        event: &Arc<rialto_model::Event>,
        route: &rialto_engine::Route,
        after: Option<Seq>,
    ) {
        self.carried.signal(state, event, route);
        let signal = Signal::new(event);
        let reaches = |member: u32| {
            reaches(state, member, route) && after.is_none_or(|after| state.was_let_in(member, route, after))
        };
        for (connection, live) in &mut self.by_connection {
            // Half of the outbox is for what may not be lost.
            let room = !live.outbox.is_half_full() && live.unread_bytes() <= limits::OUTBOX_BYTES_MAX / 2;
            let was_there = after.is_none_or(|after| live.since <= after);
            if room && was_there && reaches(live.session.member) {
                live.send(Out::Signal(signal.clone()));
                self.dirty.push(*connection);
            }
        }
        self.watchers.retain(|_, (member, outbox)| {
            let wanted = match member {
                Some(member) => reaches(*member),
                None => route.to.is_none() && route.stream == Some(rialto_engine::StreamKey::Broadcast),
            };
            // A full outbox drops the signal, a closed one the watcher.
            !wanted || outbox.offer(Out::Signal(signal.clone())) != Err(QueueRefusal::Closed)
        });
    }

    /// Hands a member what it is asked as the server of a mod: by its newest stream, or else to one that it reads. Asked
    /// is also who does not want to be disturbed.
    pub(crate) fn ask(&mut self, member: u32, event: &Arc<rialto_model::Event>) -> bool {
        let signal = Signal::new(event);
        for connection in self.by_member.get(&member).into_iter().flatten().rev() {
            let Some(live) = self.by_connection.get_mut(connection) else { continue };
            if live.ending.is_none() && live.outbox.room() > live.batch.len() + 1 {
                live.send(Out::Signal(signal.clone()));
                // Its time runs already: it does not wait for the commit of something else.
                if live.flush() {
                    self.news.push(live.outbox.clone());
                }
                if live.dead {
                    self.dirty.push(*connection);
                }
                return true;
            }
        }
        let readers = self.watchers.values().rev().filter(|(of, _)| *of == Some(member));
        readers.into_iter().any(|(_, outbox)| outbox.send(vec![Out::Signal(signal.clone())]).is_ok())
    }

    /// The member is to be disturbed again: what waited for it is due.
    pub(crate) fn wake(&mut self, state: &State, member: u32) {
        self.carried.wake(state, member);
        self.dirty.extend(self.by_member.get(&member).into_iter().flatten());
    }

    /// Adds a reader that wants signals.
    pub(crate) fn watch(&mut self, connection: u64, member: Option<u32>, outbox: Outbox) {
        self.watchers.insert(connection, (member, outbox));
    }

    /// Puts at-most-once events into the rings of members that poll and were sent them.
    pub(crate) fn keep_for_polls(&mut self, state: &State, run: &EventRun) -> u64 {
        let mut dropped = 0;
        for (member, ring) in &mut self.rings {
            for record in run.records().iter().filter(|r| state.was_sent(*member, &r.route, r.event.seq)) {
                if ring.len() >= limits::RING_EVENTS_MAX {
                    ring.pop_front();
                    dropped += 1;
                }
                ring.push_back(record.event.seq);
            }
        }
        dropped
    }

    /// Takes out of a member's ring what a poll wants, oldest first; from its first poll on a member has one.
    pub(crate) fn take_from_ring(&mut self, member: u32, mut wants: impl FnMut(Seq) -> Wants) -> Vec<Seq> {
        let mut taken = Vec::new();
        self.rings.entry(member).or_default().retain(|seq| match wants(*seq) {
            Wants::Take => {
                taken.push(*seq);
                false
            }
            Wants::Drop => false,
            Wants::Leave => true,
        });
        taken
    }

    /// Forgets the rings of members that are no longer there.
    pub(crate) fn forget_rings(&mut self, state: &State) {
        self.rings.retain(|member, _| state.member(*member).is_some_and(|m| !m.removed));
    }

    /// Forgets deliveries that were acked and sends what waited behind them.
    pub(crate) fn acked(&mut self, state: &State, member: u32, committed: Seq, now: Millis) {
        if let Some(shown) = self.shown.get_mut(&member) {
            let floor = state.lists.acked(member).map_or(0, |a| a.floor);
            *shown = shown.split_off(&(floor + 1));
            if shown.is_empty() {
                self.shown.remove(&member);
            }
        }
        self.carried.acked(state, member);
        let Some(connections) = self.by_member.get(&member) else { return };
        for connection in connections {
            let Some(live) = self.by_connection.get_mut(connection) else { continue };
            if let Some(acked) = state.lists.acked(member) {
                live.window.settle(acked);
            }
            live.pump(state, committed, now);
            self.dirty.push(*connection);
        }
    }

    /// Sends answers to a stream that is not registered (yet), or through its session in order.
    pub(crate) fn answer(&mut self, connection: u64, outbox: &Outbox, answers: Out) {
        match self.by_connection.get_mut(&connection) {
            Some(live) => {
                live.send(answers);
                self.dirty.push(connection);
            }
            None => {
                if outbox.push(vec![answers]) == Ok(true) {
                    self.news.push(outbox.clone());
                }
            }
        }
    }

    /// Ends the streams of these sessions. What waits for them and is no answer is not shown any more: it stays pending
    /// if the member stays.
    pub(crate) fn revoke(&mut self, member: u32, numbers: &[u64], code: ErrorCode) {
        let connections = self.by_member.get(&member).cloned().unwrap_or_default();
        for connection in connections {
            if let Some(live) = self.by_connection.get_mut(&connection).filter(|l| numbers.contains(&l.session.number))
            {
                live.batch.retain(Out::is_answer);
                live.outbox.keep_answers();
                self.news.extend(live.end(code));
                self.dirty.push(connection);
            }
        }
    }

    /// Ends all streams.
    pub(crate) fn close_all(&mut self, code: ErrorCode) {
        self.carried.end(code);
        for (connection, live) in &mut self.by_connection {
            self.news.extend(live.end(code));
            self.dirty.push(*connection);
        }
    }

    /// Starts streams that just opened and hands over everything that gathered.
    pub(crate) fn flush(&mut self, state: &State, committed: Seq, now: Millis) {
        self.carried.pump(state, committed, now);
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        dirty.dedup();
        for connection in dirty {
            let Some(live) = self.by_connection.get_mut(&connection) else { continue };
            live.pump(state, committed, now);
            if live.flush() {
                self.news.push(live.outbox.clone());
            }
            if live.dead {
                self.ended.push(connection);
            }
        }
    }

    /// Deliveries whose ack is overdue are sent again; gives how many, and those that had all their attempts.
    pub(crate) fn retry(&mut self, state: &State, now: Millis) -> (u64, Vec<(u32, Seq, u32)>) {
        let max = state.book.settings.max_attempts.unwrap_or(u32::MAX);
        let (mut repeated, mut given_up) = self.carried.retry(state, now);
        for (connection, live) in &mut self.by_connection {
            let member = live.session.member;
            if !live.window.is_overdue(now) || is_quiet(state, member) {
                continue;
            }
            let mut again = Vec::new();
            // What ended otherwise (its time was over, say) is not sent again and frees its place in the window.
            let blind = rialto_engine::bugs::on("redelivery of what is over");
            live.window.keep(|sent| sent.due <= now, |seq| blind || state.is_pending(member, seq));
            self.dirty.push(*connection);
            for sent in live.window.overdue(now) {
                if sent.attempt >= max {
                    given_up.extend((sent.first..=sent.last).map(|seq| (member, seq, sent.attempt)));
                    continue;
                }
                sent.attempt += 1;
                sent.due = now + backoff(sent.attempt, sent.first ^ u64::from(member));
                let attempt = sent.attempt;
                again.extend((sent.first..=sent.last).map(|seq| Attempt { seq, attempt, tracked: true }));
            }
            repeated += again.len() as u64;
            if !again.is_empty() {
                live.send(Out::Stored(again));
            }
        }
        (repeated, given_up)
    }

    /// How often an event was sent to a member's live streams; 0 if it is not in flight.
    pub(crate) fn attempts(&self, member: u32, seq: Seq) -> u32 {
        let connections = self.by_member.get(&member).into_iter().flatten();
        connections
            .filter_map(|c| self.by_connection.get(c))
            .filter_map(|l| l.window.find(seq).map(|sent| sent.attempt))
            .max()
            .unwrap_or(0)
            .max(self.carried.attempts(member, seq))
    }
}

/// Whether a member's mail waits; its own reads and the answers to it do not.
fn is_quiet(state: &State, member: u32) -> bool {
    state.member(member).is_some_and(rialto_engine::state::Member::is_quiet)
}

/// Whether a signal is for a member that may be disturbed.
fn reaches(state: &State, member: u32, route: &Route) -> bool {
    let outsider = rialto_engine::bugs::on("ephemeral event to outsiders")
        && matches!(route.stream, Some(StreamKey::Channel(_)))
        && Some(member) != route.source;
    (state.receives(member, route) || outsider) && !is_quiet(state, member)
}

/// 30, 60, 120 … at most 900 seconds, ±20 % by a hash so that many do not come at once.
pub(crate) fn backoff(attempt: u32, salt: u64) -> Millis {
    let base = RETRY_MS.saturating_mul(1 << attempt.saturating_sub(1).min(6)).min(RETRY_MS_MAX);
    let spread = xxhash_rust::xxh3::xxh3_64(&(salt ^ u64::from(attempt)).to_le_bytes()) % 41;
    base * (80 + spread) / 100
}

#[cfg(test)]
mod tests;
