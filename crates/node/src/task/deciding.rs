//! Deciding: the walk of one event, from the text that came in to its answer.
//!
//! Texts come in batches ([`Task::emit`]) and are decided one by one ([`Task::decide_batch`]). Each is read once, takes its place in the
//! order of its source and is decided as what it is ([`Task::decide_text`]): an ack, a mod's verdict, a query, or an event, of which the
//! engine judges permission, mods and acceptance (`events`). What was decided is applied at once, and answered when it is committed.
//!
//! Beside the walk is the queue of events that are [`deferred`]. An event leaves the walk for it where the engine asks what takes time
//! to find out (`questions`), and is decided again from the start with the resolution: whatever changed meanwhile counts.

pub(super) mod deferred;
mod events;
pub use events::too_much_at_once;
pub(super) mod mod_calls;
mod mod_events;
mod planted;
mod questions;

use super::acks::Sought;
use super::{Opened, Task, Then};
use crate::command::{Answered, Reply};
use crate::metrics::{Counters, ModOutcome};
use crate::texts::Texts;
use deferred::{EventSource, PendingCheck, Resolution};
use mod_events::Emitter;
use rialto_engine::input::{Answers, Question, Stop};
use rialto_engine::mods::external::{CheckOutcome, FinishedCheck};
use rialto_engine::{Caller, Clock, MemberId, Principal, SessionRef};
use rialto_model::{Address, Envelope, ErrorCode, EventType, Fault, limits};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Texts of one request, stream or mod, decided up to `next`.
#[derive(Debug)]
pub(super) struct EventBatch {
    connection: u64,
    caller: Arc<Caller>,
    texts: Texts,
    next: usize,
    reply: Reply,
    /// Answers that wait for the rest.
    answered: Vec<Answered>,
    /// What was found out for the next text.
    answers: Answers,
    /// The mod that sends these.
    emitter: Option<Box<Emitter>>,
    /// As whom a stream had joined when these came: they are taken although the session may have ended since.
    session: Option<SessionRef>,
}

impl EventBatch {
    fn new(connection: u64, caller: Arc<Caller>, texts: Texts, reply: Reply) -> EventBatch {
        let answered = Vec::with_capacity(texts.len());
        let answers = Answers::default();
        EventBatch { connection, caller, texts, next: 0, reply, answered, answers, emitter: None, session: None }
    }

    /// An event of a mod, which nobody waits for.
    fn of_mod(emitter: Emitter, text: String) -> EventBatch {
        let batch = EventBatch::new(0, Arc::default(), Texts::one(text.into()), Reply::Nobody);
        EventBatch { emitter: Some(Box::new(emitter)), ..batch }
    }

    fn left(&self) -> usize {
        self.texts.len().saturating_sub(self.next)
    }

    /// The id of the next text, if it says one.
    fn next_id(&self) -> Option<String> {
        let text = self.texts.get(self.next).and_then(|text| std::str::from_utf8(text).ok())?;
        Envelope::parse(text).ok()?.id.map(std::borrow::Cow::into_owned)
    }

    /// Answers the next text without deciding it.
    fn answer_next(&mut self, answered: Answered) {
        self.answered.push(answered);
        self.next += 1;
        self.answers = Answers::default();
    }

    /// Refuses everything that is not answered yet, and also what was decided unless that is kept.
    fn refuse(mut self, fault: &Fault, keep_decided: bool) -> (Reply, Vec<Answered>) {
        let left = self.left();
        if !keep_decided {
            for answered in self.answered.iter_mut().filter(|a| a.result.is_ok()) {
                *answered = Answered::refusal(answered.event_id().map(str::to_owned), fault.clone());
            }
        }
        self.answered.extend((0..left).map(|_| Answered::refusal(None, fault.clone())));
        (self.reply, self.answered)
    }
}

/// Where a text comes from.
struct Origin<'a> {
    /// As whom its request or connection speaks.
    caller: &'a Caller,
    /// The stream that it came by.
    stream: Option<u64>,
    /// As whom that stream has joined.
    joined: &'a Caller,
    /// The queue that it has waited in.
    resumed: Option<&'a EventSource>,
}

/// An event that was read.
pub(super) struct Incoming<'a> {
    /// As whom it is sent.
    pub(super) caller: &'a Caller,
    pub(super) kind: EventType<'a>,
    pub(super) envelope: &'a Envelope<'a>,
    text: &'a str,
}

impl Incoming<'_> {
    /// The id that its sender chose.
    pub(super) fn id(&self) -> Option<String> {
        self.envelope.id.as_deref().map(str::to_owned)
    }
}

/// Why an event is not decided now.
pub(super) enum Deferral {
    /// It goes behind what waits of the same source.
    Behind(EventSource),
    /// Something must be known first.
    Ask(EventSource, Box<Question>, Answers),
    /// An ack names old events, which have to be found first.
    LookUp(MemberId, Sought),
}

impl Task {
    /// Decides the texts of a request or a stream; answers wait for the commit.
    pub(super) fn emit(&mut self, connection: u64, caller: &Arc<Caller>, texts: Texts, reply: Reply, now: Clock) {
        self.token_shown(caller.bearer.as_ref(), now);
        let batch = EventBatch::new(connection, caller.clone(), planted::reordered(texts), reply);
        self.decide_batch(batch, None, now);
        planted::reorder_answers(&mut self.then);
        self.resume_deferred(now);
    }

    /// Decides the texts of a batch one by one, until one of them has to wait.
    fn decide_batch(&mut self, mut batch: EventBatch, resumed: Option<&EventSource>, now: Clock) {
        if self.is_settled(&batch) {
            return;
        }
        let bound = |session| Caller { stream: session, ..Caller::default() };
        let stream = matches!(batch.reply, Reply::Stream(..)).then_some(batch.connection);
        let mut joined = bound(stream.and_then(|stream| self.joined.get(&stream).copied().or(batch.session)));
        let mut opened = Vec::new();
        let texts = std::mem::take(&mut batch.texts);
        let mut said: usize = batch.answered.iter().map(Answered::response_bytes).sum();
        while let Some(text) = texts.get(batch.next) {
            self.walk.response_room = limits::BATCH_RESPONSE_BYTES_MAX.saturating_sub(said);
            let answers = std::mem::take(&mut batch.answers);
            let decided = match &batch.emitter {
                Some(emitter) => self.decide_mod_event(emitter, text, answers, resumed, now),
                None => {
                    let from = Origin { caller: &batch.caller, stream, joined: &joined, resumed };
                    self.decide_text(&from, text, answers, now)
                }
            };
            let answered = match decided {
                Ok(answered) => answered,
                Err(deferral) if planted::acks(&deferral) => self.planted_ack(),
                Err(deferral) => {
                    batch.session = joined.stream;
                    // What is deferred has bounds of its own: nobody else waits for it.
                    batch.texts = texts.released();
                    self.answer_decided(&mut batch, opened);
                    return self.defer(batch, *deferral, now);
                }
            };
            if answered.result.is_err() {
                Counters::add(&self.shared.counters.refused, 1);
            }
            if let (Ok(accepted), Reply::Stream(_, outbox)) = (&answered.result, &batch.reply) {
                if let Some(session) = &accepted.joined {
                    self.joined.insert(batch.connection, session.session);
                    joined = bound(Some(session.session));
                    opened.push((batch.connection, session.as_ref().clone(), outbox.clone()));
                }
                if accepted.left {
                    self.joined.remove(&batch.connection);
                    joined = bound(None);
                }
            }
            said += answered.response_bytes();
            batch.answered.push(answered);
            batch.next += 1;
        }
        self.settle_owed(&batch);
        if !matches!(batch.reply, Reply::Nobody) {
            self.then.push(Then::Answers(batch.reply, batch.answered, opened));
        }
    }

    /// The walk of one event: it is read, takes its place in the order of its source, and is decided as what it is.
    fn decide_text(
        &mut self,
        from: &Origin<'_>,
        text: &[u8],
        mut answers: Answers,
        now: Clock,
    ) -> Result<Answered, Box<Deferral>> {
        let Ok(text) = simdutf8::basic::from_utf8(text) else {
            return Ok(self.answered(None, Err(Fault::new(ErrorCode::InvalidJson, "the frame is not UTF-8 text"))));
        };
        let envelope = match Envelope::parse_after(text, &mut self.walk.beginning) {
            Ok(envelope) => envelope,
            Err(_) if is_long_batch(text) => {
                let what = format!("a batch is at most {} events", limits::BATCH_EVENTS_MAX);
                return Ok(self.answered(None, Err(Fault::new(ErrorCode::TooLarge, what))));
            }
            Err(unreadable) => return Ok(self.answered(unreadable.id, Err(unreadable.fault))),
        };
        let mut event = Incoming { caller: from.caller, kind: envelope.event_type(), envelope: &envelope, text };

        // A stream begins with its join, and what it sends meanwhile waits for that.
        let join = from.stream.and_then(|stream| self.deferred.join_of(stream));
        if let Some(source) = join.filter(|source| from.resumed != Some(*source)) {
            return Err(Box::new(Deferral::Behind(source.clone())));
        }
        if event.kind != EventType::AgentJoin {
            if from.joined.stream.is_some() {
                event.caller = from.joined;
            } else if from.stream.is_some() {
                return Ok(self.answer_before_join(&event, now));
            }
        }

        if event.kind == EventType::EventAck {
            return self.decide_ack(&event, from.resumed, now);
        }
        // A mod's word is not kept waiting by what the mod's server sends.
        if event.kind == EventType::ModVerdict {
            return Ok(self.decide_verdict(&event, now));
        }
        if let Some(source) = self.source_ahead(&event, from.resumed, now) {
            return Err(Box::new(Deferral::Behind(source)));
        }
        let decided = if event.kind == EventType::EventsQuery {
            self.decide_query(&event, &mut answers, now)
        } else {
            self.decide_event(&event, &mut answers, now)
        };
        let refused = match decided {
            Ok(answered) => return Ok(answered),
            Err(Stop::Refused(fault)) => fault,
            Err(Stop::Ask(question)) => match self.source(&event, now) {
                Ok(source) => return Err(Box::new(Deferral::Ask(source, question, answers))),
                Err(fault) => fault,
            },
        };
        Ok(self.answered(event.id(), Err(refused)))
    }

    /// The source of an event, if others of it wait already.
    fn source_ahead(&self, event: &Incoming<'_>, resumed: Option<&EventSource>, now: Clock) -> Option<EventSource> {
        if self.deferred.is_empty() || planted::overtakes() {
            return None;
        }
        let source = self.source(event, now).ok()?;
        (resumed != Some(&source) && self.deferred.has(&source)).then_some(source)
    }

    /// Whose event this is, as far as its order goes.
    fn source(&self, event: &Incoming<'_>, now: Clock) -> Result<EventSource, Fault> {
        let said = event.envelope.source.as_deref();
        if event.kind != EventType::AgentJoin
            && let Principal::Member(id) = self.engine.state.principal(event.caller, said, now)?
        {
            return Ok(EventSource::Member(id));
        }
        let payload: Value = serde_json::from_str(&event.envelope.payload).unwrap_or_default();
        let agent = payload.get("agent_id").and_then(Value::as_str);
        let said = said.or(agent).or(event.caller.claimed.as_deref());
        let address = said.and_then(|said| Address::parse_in(said, &self.engine.state.network).ok());
        let address = address.ok_or_else(|| Fault::new(ErrorCode::NotAMember, "join first"))?;
        Ok(EventSource::Guest(address.as_str().into()))
    }

    /// A stream hears now what was decided of a batch that has to wait; a request waits for the rest.
    fn answer_decided(&mut self, batch: &mut EventBatch, opened: Vec<Opened>) {
        if let Reply::Stream(connection, outbox) = &batch.reply {
            let reply = Reply::Stream(*connection, outbox.clone());
            let answered = std::mem::take(&mut batch.answered);
            if !answered.is_empty() {
                self.then.push(Then::Answers(reply, answered, opened));
            }
        }
    }

    /// Puts a batch whose next event is not decided now where it waits, or refuses it if there is no room.
    fn defer(&mut self, mut batch: EventBatch, deferral: Deferral, now: Clock) {
        let room = match &deferral {
            Deferral::Behind(source) => self.deferred.has_room_behind(source, &batch),
            Deferral::Ask(..) | Deferral::LookUp(..) => self.deferred.has_room(&batch),
        };
        if let Err(fault) = room {
            return self.refuse_batch(batch, &fault);
        }
        match deferral {
            Deferral::Behind(source) => {
                self.owe(&mut batch);
                self.deferred.push_behind(&source, batch);
            }
            Deferral::Ask(source, question, answers) => {
                batch.answers = answers;
                self.owe(&mut batch);
                self.ask(source, batch, *question, now);
            }
            Deferral::LookUp(member, sought) => {
                let ticket = self.deferred.wait(EventSource::Member(member), batch, questions::looked_up_until(now));
                self.look_up(ticket, member, sought);
            }
        }
    }

    /// Goes on with what came in the meantime: resolutions, and what mods sent. What mods send goes with what it follows from, so it is
    /// decided first; resolutions let go of what waited, and wait themselves while the batch has all it should.
    pub(super) fn resume_deferred(&mut self, now: Clock) {
        loop {
            if let Some((emitter, text)) = self.deferred.next_sent() {
                self.decide_batch(EventBatch::of_mod(emitter, text), None, now);
            } else if self.is_heavy() {
                return;
            } else if let Some((ticket, resolution)) = self.deferred.next_resolution() {
                self.resume(ticket, resolution, now);
            } else {
                return;
            }
        }
    }

    /// Decides the event that waits under a ticket again, then what waited behind it.
    pub(super) fn resume(&mut self, ticket: u64, resolution: Resolution, now: Clock) {
        if let Resolution::LookedUp(member, request) = &resolution {
            self.looked_up(*member, request, now);
        }
        let Some((source, mut batch, asked)) = self.deferred.take(ticket) else { return };
        match resolution {
            Resolution::Refused(fault) => {
                Counters::add(&self.shared.counters.refused, 1);
                batch.answer_next(Answered::refusal(batch.next_id(), fault));
            }
            Resolution::LookedUp(..) => batch.answer_next(self.ack_taken(batch.next_id())),
            Resolution::Input(resource, version) => batch.answers.input = Some((resource, version)),
            Resolution::Output(resource, version, fits) => batch.answers.output = Some(((resource, version), fits)),
            Resolution::Content(base, content) => batch.answers.content = Some((base, content)),
            Resolution::Bytes(content, offset, bytes) => batch.answers.bytes = Some((content, offset, bytes)),
            Resolution::Verdict(outcome) => {
                if let Some(PendingCheck { check, since }) = asked {
                    self.count_outcome(&check.name, &outcome, now.steady.saturating_sub(since));
                    batch.answers.mods = Some(check.mods);
                    batch.answers.checked.push(FinishedCheck { name: check.name, step: check.step, outcome });
                }
            }
        }
        self.resume_batch(&source, batch, now);
    }

    /// Decides a batch that waited again, then those behind it, until one of them waits.
    fn resume_batch(&mut self, source: &EventSource, batch: EventBatch, now: Clock) {
        let mut next = Some(batch);
        while let Some(batch) = next {
            self.decide_batch(batch, Some(source), now);
            next = self.deferred.next_behind(source);
        }
    }

    /// Gives up questions whose time is over, and those to mods that can no longer be asked.
    pub(super) fn give_up_overdue(&mut self, now: Clock) {
        self.ask_connected_mods(now);
        let given_up: Vec<(u64, Resolution)> = self
            .deferred
            .unanswered()
            .filter(|(_, waiting)| planted::may_give_up(&self.engine.state, waiting))
            .filter_map(|(ticket, waiting)| {
                let late = waiting.deadline <= now.steady;
                let resolution = match &waiting.check {
                    None if late => Resolution::Refused(questions::unfinished()),
                    None => return None,
                    Some(_) if late => Resolution::Verdict(CheckOutcome::Failed(mod_calls::NOT_IN_TIME)),
                    Some(PendingCheck { check, .. }) => Resolution::Verdict(CheckOutcome::Failed(
                        self.is_reachable(&check.name, check.runs, now).err()?,
                    )),
                };
                Some((ticket, resolution))
            })
            .collect();
        // All of them at once may be more than one batch holds.
        for (ticket, resolution) in given_up {
            let late = matches!(&resolution, Resolution::Verdict(CheckOutcome::Failed(mod_calls::NOT_IN_TIME)));
            if let Some(name) = self.deferred.asked_name(ticket).filter(|_| late) {
                self.fell_silent(&name, now);
            }
            self.deferred.resolve(ticket, resolution);
        }
        self.resume_deferred(now);
    }

    /// Refuses a batch for which there is no room, in the order of the other answers.
    fn refuse_batch(&mut self, batch: EventBatch, fault: &Fault) {
        if let Some(emitter) = &batch.emitter {
            self.shared.mods.count(&emitter.name, ModOutcome::Dropped, 0);
        }
        self.settle_owed(&batch);
        let (reply, answers) = batch.refuse(fault, true);
        self.then.push(Then::Answers(reply, answers, Vec::new()));
    }

    /// Refuses all that waits, because the log failed or the node stops; in the latter case what was decided before is committed. Events
    /// of mods stay owed.
    pub(super) fn refuse_deferred(&mut self, fault: &Fault, committed: bool) {
        for batch in self.deferred.drain() {
            let (reply, answers) = batch.refuse(fault, committed);
            self.answer(reply, answers);
        }
    }
}

/// Whether the text is an array that no carrier took apart because it is too long.
fn is_long_batch(text: &str) -> bool {
    text.trim_start().starts_with('[')
        && serde_json::from_str::<Vec<&RawValue>>(text).is_ok_and(|items| items.len() > limits::BATCH_EVENTS_MAX)
}
