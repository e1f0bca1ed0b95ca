//! What the members of a face were sent and have not acked, inside the network's task.
//!
//! All of it is volatile: who is due is asked of the engine, and what was not acked is still pending there. A member without mail costs
//! nothing here. Invariant: a member's mail goes out in order, at most [`CARRIED_WINDOW`] events ahead of its acks, and all members of a
//! face together at most [`CARRIED_UNACKED_MAX`].
//! Not here: who is carried (`rialto-engine`, `membership`).

use crate::delivery::{Attempt, RETRY_MS, backoff};
use crate::window::{SentDeliveries, Window};
use rialto_engine::{EventRecord, Route, State, StreamKey};
use rialto_model::limits::{CARRIED_UNACKED_MAX, CARRIED_WINDOW, OUTBOX_BYTES_MAX};
use rialto_model::{ErrorCode, Event, FaceName, Millis, Seq};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Members whose mail is looked at in one turn of the network's task.
const MEMBERS_PER_TURN: usize = 256;

/// Something for the face.
#[derive(Debug)]
pub(crate) enum Item {
    /// Mail of a member, to be read from the store.
    Mail { recipient: Box<str>, attempts: Vec<Attempt> },
    /// What expects no ack, for one member.
    Signal { recipient: Box<str>, event: Arc<Event>, _held: HeldBytes },
    /// No member any more.
    Gone { recipient: Box<str> },
    /// Nothing follows.
    Ended(ErrorCode),
}

/// Bytes of a signal that waits for the face; they are counted until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// How many items may wait for a face: mail, its repetitions, and signals.
pub(crate) const ITEMS_MAX: usize = 2 * CARRIED_UNACKED_MAX;

/// Members to be looked at, each once, in the order in which their mail came.
#[derive(Debug, Default)]
struct Due {
    order: VecDeque<u32>,
    known: BTreeSet<u32>,
}

impl Due {
    fn add(&mut self, member: u32) {
        if self.known.insert(member) {
            self.order.push_back(member);
        }
    }

    fn take(&mut self) -> Option<u32> {
        let member = self.order.pop_front()?;
        self.known.remove(&member);
        Some(member)
    }
}

/// One face that carries members.
#[derive(Debug)]
struct FaceQueue {
    connection: u64,
    out: mpsc::Sender<Item>,
    due: Due,
    windows: BTreeMap<u32, Window>,
    /// Events in all windows.
    unacked: usize,
    /// Bytes of the signals that wait for it.
    held: Arc<AtomicUsize>,
    /// It did not take what it was sent; it is tried again with the next tick.
    stalled: bool,
}

impl FaceQueue {
    fn has_work(&self) -> bool {
        !self.stalled && !self.due.order.is_empty() && self.unacked < CARRIED_UNACKED_MAX
    }

    /// Sends what a member has pending, as far as its window and the face's allow.
    fn pump(&mut self, state: &State, member: u32, committed: Seq, now: Millis) {
        let Some(record) = state.member(member).filter(|m| m.via.is_some() && !m.removed && !m.is_quiet()) else {
            return;
        };
        let room = match self.windows.get(&member) {
            Some(window) => window.room(),
            None => CARRIED_WINDOW,
        };
        let room = room.min(CARRIED_UNACKED_MAX - self.unacked);
        let in_flight = |seq: &Seq| self.windows.get(&member).is_some_and(|window| window.holds(*seq));
        let seqs: Vec<Seq> = state.pending(member, 0, committed).filter(|seq| !in_flight(seq)).take(room).collect();
        if seqs.is_empty() {
            return;
        }
        let attempts = seqs.iter().map(|seq| Attempt { seq: *seq, attempt: 1, tracked: true }).collect();
        if !self.send(Item::Mail { recipient: record.address.clone(), attempts }) {
            self.due.add(member);
            return;
        }
        self.unacked += seqs.len();
        let window = self.windows.entry(member).or_insert_with(|| Window::new(CARRIED_WINDOW));
        for seq in seqs {
            window.send(SentDeliveries { first: seq, last: seq, attempt: 1, due: now + RETRY_MS });
        }
    }

    /// Hands an item over; false if the face takes nothing now.
    fn send(&mut self, item: Item) -> bool {
        match self.out.try_send(item) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {
                self.stalled = true;
                false
            }
        }
    }

    /// Hands over what expects no ack, unless too much of that waits already.
    fn signal(&self, recipient: Box<str>, event: Arc<Event>) {
        let bytes = event.weight();
        let held = HeldBytes { all: self.held.clone(), bytes };
        if self.held.fetch_add(bytes, Ordering::AcqRel) + bytes <= OUTBOX_BYTES_MAX / 2 {
            let _ = self.out.try_send(Item::Signal { recipient, event, _held: held });
        }
    }

    /// Changes a member's window and counts what is left in it.
    fn with_window(&mut self, member: u32, change: impl FnOnce(&mut Window)) {
        let Some(window) = self.windows.get_mut(&member) else { return };
        let before = window.room();
        change(window);
        self.unacked -= window.room() - before;
        if window.room() == CARRIED_WINDOW {
            self.windows.remove(&member);
        }
    }
}

/// All faces that carry members of one network.
#[derive(Debug, Default)]
pub(crate) struct CarriedQueues {
    faces: BTreeMap<FaceName, FaceQueue>,
}

impl CarriedQueues {
    /// A face takes the mail of the members it carries from here on; one that did so before hears that it ended.
    pub(crate) fn attach(&mut self, face: FaceName, connection: u64, out: mpsc::Sender<Item>, state: &State) {
        let mut queue = FaceQueue {
            connection,
            out,
            due: Due::default(),
            windows: BTreeMap::new(),
            unacked: 0,
            held: Arc::default(),
            stalled: false,
        };
        state.carried_by(&face).into_iter().flatten().for_each(|member| queue.due.add(*member));
        if let Some(mut before) = self.faces.insert(face, queue) {
            before.send(Item::Ended(ErrorCode::SessionRevoked));
        }
    }

    /// The face of this connection is gone; what it did not ack stays pending.
    pub(crate) fn detach(&mut self, connection: u64) {
        self.faces.retain(|_, queue| queue.connection != connection);
    }

    /// Tells every face that nothing follows.
    pub(crate) fn end(&mut self, code: ErrorCode) {
        for queue in self.faces.values_mut() {
            queue.send(Item::Ended(code));
        }
        self.faces.clear();
    }

    /// Whether something could be sent at once.
    pub(crate) fn has_work(&self) -> bool {
        self.faces.values().any(FaceQueue::has_work)
    }

    /// Notes for whom a committed event is. What is sent at most once goes out now or never.
    pub(crate) fn notice(&mut self, state: &State, record: &EventRecord, tracked: bool) {
        for (face, queue) in &mut self.faces {
            let Some(members) = state.carried_by(face) else { continue };
            let seq = record.event.seq;
            recipients(state, members, &record.route, |member| {
                if tracked {
                    queue.due.add(member);
                } else if let Some(m) = state.member(member).filter(|_| state.was_sent(member, &record.route, seq)) {
                    queue.signal(m.address.clone(), Arc::new(record.event.clone()));
                }
            });
        }
    }

    /// Hands a signal to a member it is for alone; what goes to many is not carried.
    pub(crate) fn signal(&mut self, state: &State, event: &Arc<Event>, route: &Route) {
        let Some(StreamKey::Inbox(member)) = route.stream else { return };
        let Some((queue, recipient)) = self.queue_of(state, member) else { return };
        queue.signal(recipient, event.clone());
    }

    /// A member is no member any more.
    pub(crate) fn gone(&mut self, face: &FaceName, address: &str) {
        if let Some(queue) = self.faces.get_mut(face) {
            let _ = queue.out.try_send(Item::Gone { recipient: address.into() });
        }
    }

    /// Forgets deliveries that were acked; what waited behind them is due.
    pub(crate) fn acked(&mut self, state: &State, member: u32) {
        let Some((queue, _)) = self.queue_of(state, member) else { return };
        if let Some(acked) = state.lists.acked(member) {
            queue.with_window(member, |window| window.settle(acked));
        }
        queue.due.add(member);
    }

    /// A member is to be disturbed again.
    pub(crate) fn wake(&mut self, state: &State, member: u32) {
        if let Some((queue, _)) = self.queue_of(state, member) {
            queue.due.add(member);
        }
    }

    /// Sends what is due, of some members in each turn.
    pub(crate) fn pump(&mut self, state: &State, committed: Seq, now: Millis) {
        for queue in self.faces.values_mut() {
            for _ in 0..MEMBERS_PER_TURN {
                if !queue.has_work() {
                    break;
                }
                if let Some(member) = queue.due.take() {
                    queue.pump(state, member, committed, now);
                }
            }
        }
    }

    /// Deliveries whose ack is overdue are sent again; gives how many, and those that had all their attempts.
    pub(crate) fn retry(&mut self, state: &State, now: Millis) -> (u64, Vec<(u32, Seq, u32)>) {
        let max = state.book.settings.max_attempts.unwrap_or(u32::MAX);
        let (mut repeated, mut given_up) = (0, Vec::new());
        self.faces.retain(|_, queue| !queue.out.is_closed());
        for queue in self.faces.values_mut() {
            queue.stalled = false;
            let overdue: Vec<u32> =
                queue.windows.iter().filter(|(_, window)| window.is_overdue(now)).map(|(member, _)| *member).collect();
            for member in overdue {
                // What ended otherwise frees its place in the window, for what waits behind it.
                queue.with_window(member, |window| {
                    window.keep(|sent| sent.due <= now, |seq| state.is_pending(member, seq))
                });
                queue.due.add(member);
                let Some(m) = state.member(member).filter(|m| !m.is_quiet()) else { continue };
                let mut attempts = Vec::new();
                for sent in queue.windows.get_mut(&member).into_iter().flat_map(|window| window.overdue(now)) {
                    if sent.attempt >= max {
                        given_up.extend((sent.first..=sent.last).map(|seq| (member, seq, sent.attempt)));
                        continue;
                    }
                    sent.attempt += 1;
                    sent.due = now + backoff(sent.attempt, sent.first ^ u64::from(member));
                    let attempt = sent.attempt;
                    attempts.extend((sent.first..=sent.last).map(|seq| Attempt { seq, attempt, tracked: true }));
                }
                let count = attempts.len() as u64;
                if count > 0 && queue.send(Item::Mail { recipient: m.address.clone(), attempts }) {
                    repeated += count;
                }
            }
        }
        (repeated, given_up)
    }

    /// How often an event was sent to a member; 0 if it is not in flight.
    pub(crate) fn attempts(&self, member: u32, seq: Seq) -> u32 {
        let windows = self.faces.values().filter_map(|queue| queue.windows.get(&member));
        windows.filter_map(|window| window.find(seq)).map(|sent| sent.attempt).max().unwrap_or(0)
    }

    /// The queue of the face that carries a member, and the member's address.
    fn queue_of(&mut self, state: &State, member: u32) -> Option<(&mut FaceQueue, Box<str>)> {
        if self.faces.is_empty() {
            return None;
        }
        let record = state.member(member)?;
        Some((self.faces.get_mut(record.via.as_ref()?)?, record.address.clone()))
    }
}

/// Calls with each carried member that an event may be for; whether it is, pending mail says.
fn recipients(state: &State, members: &BTreeSet<u32>, route: &Route, mut found: impl FnMut(u32)) {
    match route.stream {
        None => {}
        Some(StreamKey::Inbox(member)) if members.contains(&member) => found(member),
        Some(StreamKey::Inbox(_)) => {}
        Some(StreamKey::Channel(channel)) => {
            let seated = state.channel(channel).map_or(&[][..], |c| c.seated.as_slice());
            if seated.len() <= members.len() {
                seated.iter().filter(|member| members.contains(member)).for_each(|member| found(*member));
            } else {
                let sits = |member: &&u32| state.member(**member).is_some_and(|m| m.seats.contains_key(&channel));
                members.iter().filter(sits).for_each(|member| found(*member));
            }
        }
        Some(_) => members.iter().for_each(|member| found(*member)),
    }
}
