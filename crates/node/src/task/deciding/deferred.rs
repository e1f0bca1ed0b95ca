//! The queue of deferred events: batches whose next event waits for something that takes time, one queue per source.
//!
//! Invariant: a deferred event is neither answered nor durable, but for what mods send (`owed`). Later events of its source wait behind
//! it, in order, so that nobody else waits with them.
//! Not here: what is decided about an event, and how its questions are answered.

use super::mod_events::Emitter;
use super::{EventBatch, planted};
use crate::command::Reply;
use rialto_engine::input::Content;
use rialto_engine::mods::Runs;
use rialto_engine::mods::external::{CheckOutcome, ModCheck};
use rialto_engine::{AckRequest, MemberId};
use rialto_model::error::Scope;
use rialto_model::{ErrorCode, Fault, Millis, limits};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Resolutions found out away from the task that wait for it; whoever finds out more waits.
const RESOLUTIONS_WAITING: usize = 64;

/// Whose events wait in one queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::task) enum EventSource {
    /// A member's.
    Member(MemberId),
    /// Of somebody who joins, by the address it says.
    Guest(Box<str>),
    /// A mod's.
    Mod(Box<str>),
}

/// What came of a question.
#[derive(Debug)]
pub(in crate::task) enum Resolution {
    /// The event is refused.
    Refused(Fault),
    /// The payload fits.
    Input(u32, u64),
    /// Whether the output fits.
    Output(u32, u64, bool),
    /// The content is kept.
    Content(Option<Content>, Content),
    /// Bytes of a blob.
    Bytes(Content, u64, Arc<[u8]>),
    /// What came of asking a mod.
    Verdict(CheckOutcome),
    /// Events that an ack of this member names; what the member sent after it may wait.
    LookedUp(MemberId, AckRequest),
}

/// A mod that is asked.
#[derive(Debug)]
pub(super) struct PendingCheck {
    pub(super) check: Box<ModCheck>,
    /// Since when, monotonic time.
    pub(super) since: Millis,
}

/// What the first event of a queue waits for.
#[derive(Debug, Default)]
pub(super) struct DeferralReason {
    /// Steady time after which it waits no longer.
    pub(super) deadline: Millis,
    pub(super) check: Option<PendingCheck>,
    /// The mod is not connected and was not asked: the list of mods had this revision then.
    pub(super) unasked: Option<u64>,
}

/// The batches of one source that wait.
#[derive(Debug, Default)]
struct SourceQueue {
    ticket: u64,
    /// None while it is decided again.
    first: Option<EventBatch>,
    waiting: DeferralReason,
    /// Its question was answered, and the resolution waits to be taken up.
    answered: bool,
    behind: VecDeque<EventBatch>,
    /// Events and bytes of those behind.
    events: usize,
    bytes: usize,
}

impl SourceQueue {
    fn all_bytes(&self) -> usize {
        self.bytes + self.first.as_ref().map_or(0, |batch| batch.texts.bytes())
    }

    fn is_asked(&self, runs: Runs) -> bool {
        let by = |check: &ModCheck| check.runs == runs || planted::takes_strangers();
        let check = self.waiting.check.as_ref();
        !self.answered && self.waiting.unasked.is_none() && check.is_some_and(|pending| by(&pending.check))
    }
}

/// Everything that waits to be decided, or to be decided again.
#[derive(Debug)]
pub(in crate::task) struct Deferred {
    queues: BTreeMap<EventSource, SourceQueue>,
    /// Streams whose join waits: what they send next goes behind it.
    joining: BTreeMap<u64, EventSource>,
    tickets: u64,
    /// Resolutions that came while something else was decided.
    resolved: VecDeque<(u64, Resolution)>,
    /// What mods sent and nobody decided yet.
    sent: VecDeque<(Emitter, String)>,
    arrivals: mpsc::Receiver<(u64, Resolution)>,
    resolver: mpsc::Sender<(u64, Resolution)>,
    /// Some event of a mod waits for a mod that is not connected.
    awaits_mods: bool,
}

impl Default for Deferred {
    fn default() -> Deferred {
        let (resolver, arrivals) = mpsc::channel(RESOLUTIONS_WAITING);
        Deferred {
            queues: BTreeMap::new(),
            joining: BTreeMap::new(),
            tickets: 0,
            resolved: VecDeque::new(),
            sent: VecDeque::new(),
            arrivals,
            resolver,
            awaits_mods: false,
        }
    }
}

impl Deferred {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub(in crate::task) fn has(&self, source: &EventSource) -> bool {
        self.queues.contains_key(source)
    }

    /// The queue that the join of a stream waits in.
    pub(super) fn join_of(&self, connection: u64) -> Option<&EventSource> {
        self.joining.get(&connection)
    }

    /// A number that no question had before.
    pub(super) fn next_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Refuses a batch for which there is no room among all that waits.
    pub(super) fn has_room(&self, batch: &EventBatch) -> Result<(), Fault> {
        let waiting: usize = self.queues.values().map(SourceQueue::all_bytes).sum();
        if waiting + batch.texts.bytes() <= limits::PARKED_ALL_BYTES_MAX {
            return Ok(());
        }
        Err(too_many(Scope::Network, limits::PARKED_ALL_BYTES_MAX))
    }

    /// Refuses a batch for which there is no room behind those of its source.
    pub(super) fn has_room_behind(&self, source: &EventSource, batch: &EventBatch) -> Result<(), Fault> {
        let fits = |queue: &SourceQueue| {
            queue.events + batch.left() <= limits::PARKED_EVENTS_MAX
                && queue.bytes + batch.texts.bytes() <= limits::PARKED_BYTES_MAX
        };
        match self.queues.get(source) {
            Some(queue) if fits(queue) => self.has_room(batch),
            Some(_) | None => Err(too_many(Scope::Member, limits::PARKED_BYTES_MAX)),
        }
    }

    /// Puts a batch behind what waits of its source.
    pub(super) fn push_behind(&mut self, source: &EventSource, batch: EventBatch) {
        if let Some(queue) = self.queues.get_mut(source) {
            queue.events += batch.left();
            queue.bytes += batch.texts.bytes();
            queue.behind.push_back(batch);
        }
    }

    /// Puts a batch whose next event waits at the head of its source's queue; returns the ticket that its resolution comes under.
    pub(super) fn wait(&mut self, source: EventSource, batch: EventBatch, waiting: DeferralReason) -> u64 {
        if let (EventSource::Guest(_), Reply::Stream(connection, _)) = (&source, &batch.reply) {
            self.joining.insert(*connection, source.clone());
        }
        self.awaits_mods |= waiting.unasked.is_some();
        let ticket = self.next_ticket();
        let queue = self.queues.entry(source).or_default();
        queue.ticket = ticket;
        queue.first = Some(batch);
        queue.waiting = waiting;
        queue.answered = false;
        ticket
    }

    /// Takes the batch that waits under a ticket, to be decided again, with the mod that was asked for it.
    pub(super) fn take(&mut self, ticket: u64) -> Option<(EventSource, EventBatch, Option<PendingCheck>)> {
        let (source, queue) = self.queues.iter_mut().find(|(_, queue)| queue.ticket == ticket)?;
        Some((source.clone(), queue.first.take()?, queue.waiting.check.take()))
    }

    /// Sources whose first event waits for a mod that is not connected.
    pub(super) fn unasked(&self) -> impl Iterator<Item = (&EventSource, &DeferralReason)> {
        let queues = self.queues.iter().filter(|(_, queue)| queue.waiting.unasked.is_some());
        queues.map(|(source, queue)| (source, &queue.waiting))
    }

    /// Takes the batch that waits at the head of a source's queue, to be decided again.
    pub(super) fn take_first(&mut self, source: &EventSource) -> Option<EventBatch> {
        self.queues.get_mut(source)?.first.take()
    }

    /// Looks again whether anything waits for mods that are not connected.
    pub(super) fn note_awaits_mods(&mut self) {
        self.awaits_mods = self.queues.values().any(|queue| queue.waiting.unasked.is_some());
    }

    pub(in crate::task) fn awaits_mods(&self) -> bool {
        self.awaits_mods
    }

    /// The batch that comes next in a source's queue, unless the first waits again. The queue ends with its last batch.
    pub(super) fn next_behind(&mut self, source: &EventSource) -> Option<EventBatch> {
        let queue = self.queues.get_mut(source).filter(|queue| queue.first.is_none())?;
        let Some(batch) = queue.behind.pop_front() else {
            self.queues.remove(source);
            self.joining.retain(|_, waits| waits != source);
            return None;
        };
        queue.events -= batch.left();
        queue.bytes -= batch.texts.bytes();
        Some(batch)
    }

    /// Whether a mod that runs there is asked under this ticket, and has not answered.
    pub(super) fn is_asked(&self, ticket: u64, runs: Runs) -> bool {
        self.queues.values().any(|queue| queue.ticket == ticket && queue.is_asked(runs))
    }

    /// The newest question that a mod has not answered: only a deliberate bug asks for it.
    pub(super) fn newest_asked(&self, runs: Runs) -> Option<u64> {
        self.queues.values().filter(|queue| queue.is_asked(runs)).map(|queue| queue.ticket).max()
    }

    /// The mod that is asked under this ticket.
    pub(super) fn asked_name(&self, ticket: u64) -> Option<Box<str>> {
        let queue = self.queues.values().find(|queue| queue.ticket == ticket)?;
        queue.waiting.check.as_ref().map(|pending| pending.check.name.clone())
    }

    /// Questions that were asked and not answered, with what they wait for.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = (u64, &DeferralReason)> {
        let open = self.queues.values().filter(|queue| !queue.answered && queue.waiting.unasked.is_none());
        open.map(|queue| (queue.ticket, &queue.waiting))
    }

    /// When the next question is given up, monotonic time.
    pub(in crate::task) fn next_deadline(&self) -> Option<Millis> {
        self.queues.values().map(|queue| queue.waiting.deadline).min()
    }

    /// Notes what came of a question; it is taken up with the next [`Task::resume_deferred`](crate::task::Task::resume_deferred).
    pub(super) fn resolve(&mut self, ticket: u64, resolution: Resolution) {
        if let Some(queue) = self.queues.values_mut().find(|queue| queue.ticket == ticket) {
            queue.answered = true;
        }
        self.resolved.push_back((ticket, resolution));
    }

    pub(super) fn next_resolution(&mut self) -> Option<(u64, Resolution)> {
        self.resolved.pop_front()
    }

    /// Puts what a mod sends behind what others sent.
    pub(super) fn send(&mut self, emitter: Emitter, text: String) {
        self.sent.push_back((emitter, text));
    }

    pub(super) fn next_sent(&mut self) -> Option<(Emitter, String)> {
        self.sent.pop_front()
    }

    /// Whether neither a resolution nor anything that a mod sent waits to be taken up.
    pub(in crate::task) fn is_quiet(&self) -> bool {
        self.sent.is_empty() && self.resolved.is_empty()
    }

    /// Where resolutions go that are found out away from the task.
    pub(in crate::task) fn resolver(&self) -> mpsc::Sender<(u64, Resolution)> {
        self.resolver.clone()
    }

    /// The next of those resolutions. Dropped at any time it loses nothing.
    pub(in crate::task) async fn arrival(&mut self) -> Option<(u64, Resolution)> {
        self.arrivals.recv().await
    }

    /// A stream ended whose join still waits: it does not come, nor what it would have sent.
    pub(in crate::task) fn forget_connection(&mut self, connection: u64) {
        let Some(queue) = self.joining.remove(&connection).and_then(|source| self.queues.get_mut(&source)) else {
            return;
        };
        for batch in queue.behind.iter_mut().chain(&mut queue.first).filter(|batch| batch.connection == connection) {
            // Its place stays: the queue goes on behind it.
            batch.next = batch.texts.len();
        }
    }

    /// Takes everything that waits, in the order of the queues. Tickets that are out mean nothing any more.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = EventBatch> + use<> {
        self.joining.clear();
        self.resolved.clear();
        self.sent.clear();
        self.awaits_mods = false;
        let queues = std::mem::take(&mut self.queues).into_values();
        queues.flat_map(|queue| queue.first.into_iter().chain(queue.behind))
    }
}

fn too_many(scope: Scope, limit: usize) -> Fault {
    let text = match scope {
        Scope::Member => format!(
            "too many of your events wait for a check to finish (limit {} events or {limit} bytes): send it again in a moment",
            limits::PARKED_EVENTS_MAX
        ),
        Scope::Network | Scope::Node => {
            format!(
                "too many events of this network wait for a check to finish (limit {limit} bytes): send it again in a moment"
            )
        }
    };
    let details = serde_json::json!({ "retry_after_ms": 100, "scope": scope.as_str(), "limit": limit });
    Fault::new(ErrorCode::RateLimited, text).details(details)
}
