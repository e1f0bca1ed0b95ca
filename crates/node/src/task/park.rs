//! Events that wait for an answer from outside: parked per source, so that nobody else waits with them.
//!
//! Invariant: a parked event is neither answered nor durable, but for what mods emit (`owed`); later events of its source wait behind it, in order. When
//! the answer is there, the event is decided again from the start: whatever changed meanwhile counts.

use super::acks::Sought;
use super::checks::Emitter;
use super::intake::Detour;
use super::{Task, Then};
use crate::blobs::{BlobError, Staging};
use crate::command::{Answered, Out, Reply};
use crate::metrics::{Counters, ModOutcome};
use crate::schema::{Schema, Validators};
use crate::texts::Texts;
use rialto_engine::input::{Answers, Content, Question};
use rialto_engine::mods::Runs;
use rialto_engine::mods::external::{Check, Checked, Outcome};
use rialto_engine::{AckRequest, Caller, Clock, MemberId, SessionRef};
use rialto_model::error::Scope;
use rialto_model::{ErrorCode, Fault, Millis, limits};
use std::collections::VecDeque;
use std::sync::Arc;

/// Why a mod failed that had its time.
pub(super) const NOT_IN_TIME: &str = "it did not answer in time";
/// How long storing or reading content may take.
const CONTENT_MS_MAX: Millis = 60_000;
/// A payload of more bytes is checked against its schema away from the task.
const INLINE_BYTES_MAX: usize = 16 << 10;

/// Whose events wait.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// A member's.
    Member(MemberId),
    /// Of somebody who joins, by the address it says.
    Guest(Box<str>),
    /// A mod's.
    Mod(Box<str>),
}

/// Texts of one request or stream, decided up to `at`.
pub(super) struct Held {
    pub(super) connection: u64,
    pub(super) caller: Arc<Caller>,
    pub(super) texts: Texts,
    pub(super) at: usize,
    pub(super) reply: Reply,
    /// Answers that wait for the rest.
    pub(super) answered: Vec<Answered>,
    /// What is known for the text at `at`.
    pub(super) answers: Answers,
    /// The mod that sends these.
    pub(super) emitter: Option<Box<Emitter>>,
    /// As whom a stream had joined when these came: they are taken although it may have ended since.
    pub(super) session: Option<SessionRef>,
}

/// The texts of one source that wait.
#[derive(Default)]
pub(super) struct Lane {
    ticket: u64,
    /// Steady time after which the question is given up.
    pub(super) deadline: Millis,
    pub(super) asking: Option<Held>,
    /// The mod that is asked, and since when.
    pub(super) check: Option<(Box<Check>, Millis)>,
    /// It has answered.
    answered: bool,
    /// It is not connected, and was not asked: the list of mods had this revision then.
    pub(super) waits: Option<u64>,
    queue: VecDeque<Held>,
    events: usize,
    bytes: usize,
}

/// What came of a question.
#[derive(Debug)]
pub(super) enum Given {
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
    Verdict(Outcome),
    /// Events that an ack of this member names; what the member sent after it may wait.
    LookedUp(MemberId, AckRequest),
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

fn unfinished() -> Fault {
    Fault::new(
        ErrorCode::Timeout,
        "timed out: a look-up that this event needs did not finish, and nothing was stored; send it again with the same id",
    )
}

impl Lane {
    fn all_bytes(&self) -> usize {
        self.bytes + self.asking.as_ref().map_or(0, |held| held.texts.bytes())
    }
}

impl Held {
    fn left(&self) -> usize {
        self.texts.len().saturating_sub(self.at)
    }

    /// The id of the next text, if it says one.
    fn next_id(&self) -> Option<String> {
        let text = self.texts.get(self.at).and_then(|text| std::str::from_utf8(text).ok())?;
        rialto_model::Envelope::parse(text).ok()?.id.map(std::borrow::Cow::into_owned)
    }

    /// Answers the next text.
    fn pass(&mut self, answered: Answered) {
        self.answered.push(answered);
        self.at += 1;
        self.answers = Answers::default();
    }

    /// Refuses everything that is not answered yet.
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

impl Task {
    /// Answers a question at once, if that takes no time; otherwise gives it back.
    pub(super) fn answer_inline(
        &self,
        question: Question,
        payload: &str,
        answers: &mut Answers,
        now: Clock,
    ) -> Result<Option<Question>, Fault> {
        match question {
            Question::Check(check) => match self.is_reachable(&check.name, check.runs, now) {
                Ok(()) => Ok(Some(Question::Check(check))),
                Err(reason) => {
                    let outcome = Outcome::Failed(reason);
                    self.noted(&check.name, &outcome, 0);
                    answers.mods = Some(check.mods);
                    answers.checked.push(Checked { name: check.name, step: check.step, outcome });
                    Ok(None)
                }
            },
            Question::Schema { text } => {
                Schema::check(&text)?;
                answers.schema = true;
                Ok(None)
            }
            Question::Input { resource, version, schema, payload: changed }
                if changed.as_deref().unwrap_or(payload).len() <= INLINE_BYTES_MAX =>
            {
                let payload = changed.as_deref().unwrap_or(payload);
                self.validators.validate((resource, version), &schema, payload)?;
                answers.input = Some((resource, version));
                Ok(None)
            }
            Question::Output { resource, version, schema, payload: changed }
                if changed.as_deref().unwrap_or(payload).len() <= INLINE_BYTES_MAX =>
            {
                let payload = changed.as_deref().unwrap_or(payload);
                let fits = self.validators.validate(output_key(resource, version), &schema, payload).is_ok();
                answers.output = Some(((resource, version), fits));
                Ok(None)
            }
            Question::Blob { by, sha256 } => match self.blobs.may_name(self.shared.number, by, &sha256) {
                Some(size) => {
                    answers.blobs.push(Content { blob: sha256, size });
                    Ok(None)
                }
                None => Err(Fault::new(ErrorCode::UnknownTarget, "you have uploaded no such content: upload it first")
                    .field("blob")),
            },
            Question::Find { id } => {
                let record = self.find(&id)?;
                answers.found.push((id, record));
                Ok(None)
            }
            question @ (Question::Input { .. }
            | Question::Output { .. }
            | Question::Content { .. }
            | Question::Bytes { .. }) => Ok(Some(question)),
        }
    }

    /// Bytes of everything that waits.
    fn parked_bytes(&self) -> usize {
        self.lanes.values().map(Lane::all_bytes).sum()
    }

    /// Puts texts behind what waits of their source.
    pub(super) fn park_behind(&mut self, source: &Source, mut held: Held) {
        let (events, bytes) = (held.left(), held.texts.bytes());
        let has_room = |lane: &Lane| {
            lane.events + events <= limits::PARKED_EVENTS_MAX && lane.bytes + bytes <= limits::PARKED_BYTES_MAX
        };
        if !self.lanes.get(source).is_some_and(has_room) {
            let limit = limits::PARKED_BYTES_MAX;
            return self.refuse_held(held, &too_many(Scope::Member, limit));
        }
        if self.parked_bytes() + bytes > limits::PARKED_ALL_BYTES_MAX {
            return self.refuse_held(held, &too_many(Scope::Network, limits::PARKED_ALL_BYTES_MAX));
        }
        self.owe(&mut held);
        if let Some(lane) = self.lanes.get_mut(source) {
            lane.events += events;
            lane.bytes += bytes;
            lane.queue.push_back(held);
        }
    }

    /// The lane of a source, whose first texts are these and wait under a new ticket.
    fn lane(&mut self, source: Source, held: Held) -> (u64, &mut Lane) {
        self.tickets += 1;
        let lane = self.lanes.entry(source).or_default();
        lane.ticket = self.tickets;
        lane.asking = Some(held);
        lane.check = None;
        lane.answered = false;
        lane.waits = None;
        (self.tickets, lane)
    }

    /// Parks texts behind an ack that is their next one, and has the events that it names found.
    fn park_ack(&mut self, member: MemberId, held: Held, sought: Sought, now: Clock) {
        if self.parked_bytes() + held.texts.bytes() > limits::PARKED_ALL_BYTES_MAX {
            return self.refuse_held(held, &too_many(Scope::Network, limits::PARKED_ALL_BYTES_MAX));
        }
        let (ticket, lane) = self.lane(Source::Member(member), held);
        lane.deadline = now.steady.saturating_add(CONTENT_MS_MAX);
        self.look_up(ticket, member, sought);
    }

    /// Parks texts whose next one asks something, and has it found out.
    pub(super) fn park(&mut self, source: Source, mut held: Held, question: Question, now: Clock) {
        if self.parked_bytes() + held.texts.bytes() > limits::PARKED_ALL_BYTES_MAX {
            return self.refuse_held(held, &too_many(Scope::Network, limits::PARKED_ALL_BYTES_MAX));
        }
        self.owe(&mut held);
        let waits_until = self.waits_until(&held, &question, now);
        let revision = self.engine.state.book.mods_revision;
        if let (Source::Guest(_), Reply::Stream(connection, _)) = (&source, &held.reply) {
            self.joining.insert(*connection, source.clone());
        }
        let frame = held.texts.iter().nth(held.at).map(<[u8]>::to_vec).unwrap_or_default();
        let (ticket, lane) = self.lane(source, held);
        lane.waits = waits_until.map(|_| revision);
        match question {
            Question::Check(check) if waits_until.is_some() => {
                lane.deadline = waits_until.unwrap_or_default();
                lane.check = Some((check, now.steady));
                self.checks.waits = true;
            }
            Question::Check(check) => {
                let slow = if rialto_engine::bugs::on("late verdict applied") { 10 } else { 1 };
                lane.deadline = now.steady.saturating_add(check.deadline_ms * slow);
                lane.check = Some((check.clone(), now.steady));
                if let Err(reason) = self.put(ticket, &check, now) {
                    self.checks.come(ticket, Given::Verdict(Outcome::Failed(reason)));
                }
            }
            question @ (Question::Schema { .. }
            | Question::Input { .. }
            | Question::Output { .. }
            | Question::Content { .. }
            | Question::Find { .. }
            | Question::Bytes { .. }
            | Question::Blob { .. }) => {
                lane.deadline = now.steady.saturating_add(CONTENT_MS_MAX);
                lane.check = None;
                self.find_out(ticket, question, frame);
            }
        }
    }

    /// Whether a mod that runs there is asked under this ticket, and has not answered.
    pub(super) fn is_asked(&self, ticket: u64, runs: Runs) -> bool {
        let asked = |lane: &&Lane| lane.ticket == ticket && !lane.answered && lane.waits.is_none();
        let lane = self.lanes.values().find(asked);
        lane.and_then(|lane| lane.check.as_ref())
            .is_some_and(|(check, _)| check.runs == runs || rialto_engine::bugs::on("verdict of a stranger"))
    }

    /// The newest question that a mod has not answered: only a bug asks for it.
    pub(super) fn newest_asked(&self, runs: Runs) -> Option<u64> {
        self.lanes.values().map(|lane| lane.ticket).filter(|ticket| self.is_asked(*ticket, runs)).max()
    }

    /// The mod that is asked under this ticket.
    pub(super) fn asked_name(&self, ticket: u64) -> Option<Box<str>> {
        let lane = self.lanes.values().find(|lane| lane.ticket == ticket)?;
        lane.check.as_ref().map(|(check, _)| check.name.clone())
    }

    /// The answer to this ticket came.
    pub(super) fn heard(&mut self, ticket: u64) {
        if let Some(lane) = self.lanes.values_mut().find(|lane| lane.ticket == ticket) {
            lane.answered = true;
        }
    }

    /// Has a question answered away from the task.
    fn find_out(&self, ticket: u64, question: Question, frame: Vec<u8>) {
        let (blobs, validators, host) = (self.blobs.clone(), self.validators.clone(), self.host.clone());
        let quota = self.engine.state.book.settings.blob_bytes_max;
        let (network, given) = (self.shared.number, self.give.clone());
        tokio::spawn(async move {
            let answer = match question {
                Question::Input { resource, version, schema, payload } => {
                    let key = (resource, version);
                    let checked = host.blocking(move || check(&validators, key, &schema, payload.as_deref(), &frame));
                    match checked.await {
                        Ok(Ok(())) => Given::Input(resource, version),
                        Ok(Err(fault)) => Given::Refused(fault),
                        Err(_) => Given::Refused(ErrorCode::Internal.into()),
                    }
                }
                Question::Output { resource, version, schema, payload } => {
                    let key = output_key(resource, version);
                    let fits = host.blocking(move || check(&validators, key, &schema, payload.as_deref(), &frame));
                    Given::Output(resource, version, matches!(fits.await, Ok(Ok(()))))
                }
                Question::Content { by, base, bytes } => {
                    let staging = Staging::new(network, by, quota);
                    match keep(&blobs, staging, base, &bytes).await {
                        Ok(content) => Given::Content(base, content),
                        Err(error) => Given::Refused(error.into()),
                    }
                }
                Question::Bytes { content, offset, length } => match fetch(&blobs, content, offset, length).await {
                    Ok(bytes) => Given::Bytes(content, offset, bytes.into()),
                    Err(error) => Given::Refused(error.into()),
                },
                Question::Check(_) | Question::Schema { .. } | Question::Blob { .. } | Question::Find { .. } => {
                    Given::Refused(ErrorCode::Internal.into())
                }
            };
            let _ = given.send((ticket, answer)).await;
        });
    }

    /// An answer came: the event is decided again, then what waited behind it.
    pub(super) fn given(&mut self, ticket: u64, given: Given, now: Clock) {
        if let Given::LookedUp(member, request) = &given {
            self.looked_up(*member, request, now);
        }
        let Some((source, lane)) = self.lanes.iter_mut().find(|(_, lane)| lane.ticket == ticket) else { return };
        let source = source.clone();
        let Some(mut held) = lane.asking.take() else { return };
        let asked = lane.check.take();
        match given {
            Given::Refused(fault) => {
                Counters::add(&self.shared.counters.refused, 1);
                held.pass(Answered::refusal(held.next_id(), fault));
            }
            Given::Input(resource, version) => held.answers.input = Some((resource, version)),
            Given::Output(resource, version, fits) => held.answers.output = Some(((resource, version), fits)),
            Given::Content(base, content) => held.answers.content = Some((base, content)),
            Given::Bytes(content, offset, bytes) => held.answers.bytes = Some((content, offset, bytes)),
            Given::LookedUp(..) => {
                let id = held.next_id();
                held.pass(self.ack_taken(id));
            }
            Given::Verdict(outcome) => {
                if let Some((check, since)) = asked {
                    self.noted(&check.name, &outcome, now.steady.saturating_sub(since));
                    held.answers.mods = Some(check.mods);
                    held.answers.checked.push(Checked { name: check.name, step: check.step, outcome });
                }
            }
        }
        self.resume_lane(&source, held, now);
    }

    /// Decides an event that waited again, then what waited behind it, until one of them asks.
    pub(super) fn resume_lane(&mut self, source: &Source, held: Held, now: Clock) {
        let mut next = Some(held);
        while let Some(held) = next.take() {
            self.go_on(held, Some(source), now);
            let Some(lane) = self.lanes.get_mut(source).filter(|lane| lane.asking.is_none()) else { return };
            next = lane.queue.pop_front();
            if let Some(held) = &next {
                lane.events -= held.left();
                lane.bytes -= held.texts.bytes();
            }
        }
        self.lanes.remove(source);
        self.joining.retain(|_, waits| waits != source);
    }

    /// When the next question is given up, monotonic time.
    pub(super) fn next_question_due(&self) -> Option<Millis> {
        self.lanes.values().map(|lane| lane.deadline).min()
    }

    /// Questions whose time is over are given up, and those to who can no longer be asked.
    pub(super) fn give_up_questions(&mut self, now: Clock) {
        self.ask_who_came(now);
        let over: Vec<(u64, Given)> = self
            .lanes
            .values()
            .filter(|lane| !lane.answered && lane.waits.is_none())
            .filter(|lane| !rialto_engine::bugs::on("unloaded mod leaves events waiting") || self.is_of_loaded(lane))
            .filter_map(|lane| {
                let late = lane.deadline <= now.steady;
                let given = match &lane.check {
                    None if late => Given::Refused(unfinished()),
                    None => return None,
                    Some(_) if late => Given::Verdict(Outcome::Failed(NOT_IN_TIME)),
                    Some((check, _)) => {
                        Given::Verdict(Outcome::Failed(self.is_reachable(&check.name, check.runs, now).err()?))
                    }
                };
                Some((lane.ticket, given))
            })
            .collect();
        // All of them at once may be more than one batch holds.
        for (ticket, given) in over {
            let late = matches!(&given, Given::Verdict(Outcome::Failed(reason)) if *reason == NOT_IN_TIME);
            if let Some(name) = self.asked_name(ticket).filter(|_| late) {
                self.fell_silent(&name, now);
            }
            self.heard(ticket);
            self.checks.come(ticket, given);
        }
        self.settle(now);
    }

    fn is_of_loaded(&self, lane: &Lane) -> bool {
        let loaded = |name: &str| self.engine.state.book.mods.iter().any(|m| m.name.as_ref() == name);
        lane.check.as_ref().is_none_or(|(check, _)| loaded(&check.name))
    }

    /// Decides texts one by one, until one of them asks something.
    pub(super) fn go_on(&mut self, mut held: Held, resumed: Option<&Source>, now: Clock) {
        if self.is_settled(&held) {
            return;
        }
        let stream = matches!(held.reply, Reply::Stream(..));
        let bound = |session| Caller { stream: session, ..Caller::default() };
        let mut joined = bound(self.joined.get(&held.connection).copied().or(held.session).filter(|_| stream));
        let mut opened = Vec::new();
        let texts = std::mem::take(&mut held.texts);
        let mut said: usize = held.answered.iter().map(Answered::response_bytes).sum();
        while let Some(text) = texts.get(held.at) {
            self.response_room = limits::BATCH_RESPONSE_BYTES_MAX.saturating_sub(said);
            let answers = std::mem::take(&mut held.answers);
            let decided = match &held.emitter {
                Some(emitter) => self.mod_frame(emitter, text, answers, resumed, now),
                None => {
                    let connection = stream.then_some(held.connection);
                    self.frame(&held.caller, connection, &joined, text, answers, resumed, now)
                }
            };
            let answered = match decided {
                Ok(answered) => answered,
                Err(detour) if rialto_engine::bugs::on("parked event acked") && matches!(*detour, Detour::Ask(..)) => {
                    let seq = Some(self.engine.state.book.head + 1);
                    self.answered(None, Ok(rialto_engine::input::Accepted { seq, ..Default::default() }))
                }
                Err(detour) => {
                    let held = Held { session: joined.stream, ..self.split(held, texts, &mut opened) };
                    return match *detour {
                        Detour::Behind(source) => self.park_behind(&source, held),
                        Detour::Ask(source, question, answers) => {
                            self.park(source, Held { answers, ..held }, question, now)
                        }
                        Detour::LookUp(member, sought) => self.park_ack(member, held, sought, now),
                    };
                }
            };
            if answered.result.is_err() {
                Counters::add(&self.shared.counters.refused, 1);
            }
            if let (Ok(accepted), Reply::Stream(_, outbox)) = (&answered.result, &held.reply) {
                if let Some(session) = &accepted.joined {
                    self.joined.insert(held.connection, session.session);
                    joined = bound(Some(session.session));
                    opened.push((held.connection, session.as_ref().clone(), outbox.clone()));
                }
                if accepted.left {
                    self.joined.remove(&held.connection);
                    joined = bound(None);
                }
            }
            said += answered.response_bytes();
            held.answered.push(answered);
            held.at += 1;
        }
        self.settle_owed(&held);
        if !matches!(held.reply, Reply::Nobody) {
            self.then.push(Then::Answers(held.reply, held.answered, opened));
        }
    }

    /// What is answered so far goes to a stream now; a request waits for the rest.
    fn split(&mut self, held: Held, texts: Texts, opened: &mut Vec<super::Opened>) -> Held {
        // What is parked has bounds of its own: nobody else waits for it.
        let mut held = Held { texts: texts.released(), ..held };
        if let Reply::Stream(connection, outbox) = &held.reply {
            let reply = Reply::Stream(*connection, outbox.clone());
            let answered = std::mem::take(&mut held.answered);
            if !answered.is_empty() {
                self.then.push(Then::Answers(reply, answered, std::mem::take(opened)));
            }
        }
        held
    }

    /// A stream ended whose join still waits: it does not come, nor what it would have sent.
    pub(super) fn forget_joining(&mut self, connection: u64) {
        let Some(lane) = self.joining.remove(&connection).and_then(|source| self.lanes.get_mut(&source)) else {
            return;
        };
        for held in lane.queue.iter_mut().chain(&mut lane.asking).filter(|held| held.connection == connection) {
            // Its place stays: the lane goes on behind it.
            held.at = held.texts.len();
        }
    }

    fn refuse_held(&mut self, held: Held, fault: &Fault) {
        if let Some(emitter) = &held.emitter {
            self.shared.mods.count(&emitter.name, ModOutcome::Dropped, 0);
        }
        self.settle_owed(&held);
        let (reply, answers) = held.refuse(fault, true);
        self.then.push(Then::Answers(reply, answers, Vec::new()));
    }

    /// Nothing that waits will be decided now: the log failed, or the node stops, in which case what was decided before it is
    /// committed. Emits of mods stay owed.
    pub(super) fn unpark(&mut self, fault: &Fault, committed: bool) {
        self.joining.clear();
        for (_, lane) in std::mem::take(&mut self.lanes) {
            for held in lane.asking.into_iter().chain(lane.queue) {
                let (reply, answers) = held.refuse(fault, committed);
                match reply {
                    Reply::Once(reply) => drop(reply.send(answers)),
                    Reply::Stream(connection, outbox) => {
                        self.sessions.answer(connection, &outbox, Out::Answers(answers));
                    }
                    Reply::Nobody => {}
                }
            }
        }
    }
}

/// The place of a tool's output schema among its validators: versions stay far below.
fn output_key(resource: u32, version: u64) -> (u32, u64) {
    (resource, version | 1 << 63)
}

/// Holds a payload against a schema: what a mod made of it, or the frame's own.
fn check(
    validators: &Validators,
    key: (u32, u64),
    schema: &str,
    changed: Option<&str>,
    frame: &[u8],
) -> Result<(), Fault> {
    if let Some(payload) = changed {
        return validators.validate(key, schema, payload);
    }
    let text = std::str::from_utf8(frame).unwrap_or_default();
    let envelope = rialto_model::Envelope::parse(text).map_err(|u| u.fault)?;
    validators.validate(key, schema, &envelope.payload)
}

/// Keeps content, after what it is appended to.
async fn keep(
    blobs: &Arc<crate::blobs::Blobs>,
    staging: Staging,
    base: Option<Content>,
    bytes: &[u8],
) -> Result<Content, BlobError> {
    let mut upload = blobs.stage(staging).await?;
    if let Some(base) = base
        && let Some(mut download) = blobs.open(&base.blob, 0..base.size).await?
    {
        while let Some(piece) = download.next().await? {
            upload.write(&piece).await?;
        }
    }
    upload.write(bytes).await?;
    let stored = upload.finish().await?;
    Ok(Content { blob: stored.hash, size: stored.size })
}

async fn fetch(
    blobs: &Arc<crate::blobs::Blobs>,
    content: Content,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, BlobError> {
    let end = offset.saturating_add(length).min(content.size);
    let mut out = Vec::new();
    if let Some(mut download) = blobs.open(&content.blob, offset.min(end)..end).await? {
        while let Some(piece) = download.next().await? {
            out.extend_from_slice(&piece);
        }
    }
    Ok(out)
}
