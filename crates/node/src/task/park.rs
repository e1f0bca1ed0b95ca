//! Events that wait for an answer from outside: parked per source, so that nobody else waits with them.
//!
//! Invariant: a parked event is neither answered nor durable; later events of its source wait behind it, in order. When
//! the answer is there, the event is decided again from the start: whatever changed meanwhile counts.

use super::intake::Detour;
use super::{Task, Then};
use crate::blobs::{BlobError, Staging};
use crate::command::{Answered, Out, Reply};
use crate::metrics::Counters;
use crate::schema::{Schema, Validators};
use crate::texts::Texts;
use rialto_engine::input::{Answers, Content, Question};
use rialto_engine::{Caller, Clock, MemberId};
use rialto_model::{ErrorCode, Fault, Millis, limits};
use std::collections::VecDeque;
use std::sync::Arc;

/// How long storing or reading content may take.
const CONTENT_MS_MAX: Millis = 60_000;
/// A payload of more bytes is checked against its schema away from the task.
const INLINE_BYTES_MAX: usize = 16 << 10;

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
}

/// The texts of one source that wait.
pub(super) struct Lane {
    ticket: u64,
    /// Steady time after which the question is given up.
    deadline: Millis,
    asking: Option<Held>,
    queue: VecDeque<Held>,
    events: usize,
    bytes: usize,
}

/// What came of a question.
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
}

fn too_many() -> Fault {
    Fault::new(ErrorCode::RateLimited, "too much of yours waits for an answer")
        .details(serde_json::json!({ "retry_after_ms": 100 }))
}

fn unfinished() -> Fault {
    Fault::new(ErrorCode::Timeout, "what had to be known first was not known in time")
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
    ) -> Result<Option<Question>, Fault> {
        match question {
            Question::Schema { text } => {
                Schema::check(&text)?;
                answers.schema = true;
                Ok(None)
            }
            Question::Input { resource, version, schema } if payload.len() <= INLINE_BYTES_MAX => {
                self.validators.validate((resource, version), &schema, payload)?;
                answers.input = Some((resource, version));
                Ok(None)
            }
            Question::Output { resource, version, schema } if payload.len() <= INLINE_BYTES_MAX => {
                let fits = self.validators.validate(output_key(resource, version), &schema, payload).is_ok();
                answers.output = Some(((resource, version), fits));
                Ok(None)
            }
            Question::Blob { by, sha256 } => match self.blobs.may_name(self.shared.number, by, &sha256) {
                Some(size) => {
                    answers.blobs.push(Content { blob: sha256, size });
                    Ok(None)
                }
                None => Err(Fault::new(ErrorCode::UnknownTarget, "no such content was uploaded by you").field("blob")),
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

    /// Whether something of this source waits: what follows goes behind it.
    pub(super) fn is_parked(&self, member: Option<MemberId>) -> bool {
        member.is_some_and(|member| self.lanes.contains_key(&member))
    }

    /// Puts texts behind what waits of their source.
    pub(super) fn park_behind(&mut self, member: MemberId, held: Held) {
        let (events, bytes) = (held.left(), held.texts.bytes());
        let Some(lane) = self.lanes.get_mut(&member) else { return };
        if lane.events + events > limits::PARKED_EVENTS_MAX || lane.bytes + bytes > limits::PARKED_BYTES_MAX {
            return self.refuse_held(held, &too_many());
        }
        lane.events += events;
        lane.bytes += bytes;
        lane.queue.push_back(held);
    }

    /// Parks texts whose next one asks something, and has it found out.
    pub(super) fn park(&mut self, member: MemberId, held: Held, question: Question, now: Clock) {
        let all: usize = self.lanes.values().map(Lane::all_bytes).sum();
        if all + held.texts.bytes() > limits::PARKED_ALL_BYTES_MAX {
            return self.refuse_held(held, &too_many());
        }
        self.tickets += 1;
        let ticket = self.tickets;
        let payload = held.texts.iter().nth(held.at).map(<[u8]>::to_vec).unwrap_or_default();
        let lane = self.lanes.entry(member).or_insert_with(|| Lane {
            ticket,
            deadline: 0,
            asking: None,
            queue: VecDeque::new(),
            events: 0,
            bytes: 0,
        });
        lane.ticket = ticket;
        lane.deadline = now.steady.saturating_add(CONTENT_MS_MAX);
        lane.asking = Some(held);
        self.find_out(ticket, question, payload);
    }

    /// Has a question answered away from the task.
    fn find_out(&self, ticket: u64, question: Question, frame: Vec<u8>) {
        let (blobs, validators, host) = (self.blobs.clone(), self.validators.clone(), self.host.clone());
        let quota = self.engine.state.book.settings.blob_bytes_max;
        let (network, given) = (self.shared.number, self.give.clone());
        tokio::spawn(async move {
            let answer = match question {
                Question::Input { resource, version, schema } => {
                    match host.blocking(move || check(&validators, (resource, version), &schema, &frame)).await {
                        Ok(Ok(())) => Given::Input(resource, version),
                        Ok(Err(fault)) => Given::Refused(fault),
                        Err(_) => Given::Refused(ErrorCode::Internal.into()),
                    }
                }
                Question::Output { resource, version, schema } => {
                    let fits =
                        host.blocking(move || check(&validators, output_key(resource, version), &schema, &frame));
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
                Question::Schema { .. } | Question::Blob { .. } | Question::Find { .. } => {
                    Given::Refused(ErrorCode::Internal.into())
                }
            };
            let _ = given.send((ticket, answer)).await;
        });
    }

    /// An answer came: the event is decided again, then what waited behind it.
    pub(super) fn given(&mut self, ticket: u64, given: Given, now: Clock) {
        let Some((member, lane)) = self.lanes.iter_mut().find(|(_, lane)| lane.ticket == ticket) else { return };
        let member = *member;
        let Some(mut held) = lane.asking.take() else { return };
        match given {
            Given::Refused(fault) => {
                let text = held.texts.iter().nth(held.at).and_then(|t| std::str::from_utf8(t).ok()).unwrap_or_default();
                let id = rialto_model::Envelope::parse(text).ok().and_then(|e| e.id.map(std::borrow::Cow::into_owned));
                Counters::add(&self.shared.counters.refused, 1);
                held.answered.push(Answered::refusal(id, fault));
                held.at += 1;
                held.answers = Answers::default();
            }
            Given::Input(resource, version) => held.answers.input = Some((resource, version)),
            Given::Output(resource, version, fits) => held.answers.output = Some(((resource, version), fits)),
            Given::Content(base, content) => held.answers.content = Some((base, content)),
            Given::Bytes(content, offset, bytes) => held.answers.bytes = Some((content, offset, bytes)),
        }
        let mut next = Some(held);
        while let Some(held) = next.take() {
            self.go_on(held, Some(member), now);
            let Some(lane) = self.lanes.get_mut(&member).filter(|lane| lane.asking.is_none()) else { return };
            next = lane.queue.pop_front();
            if let Some(held) = &next {
                lane.events -= held.left();
                lane.bytes -= held.texts.bytes();
            }
        }
        self.lanes.remove(&member);
    }

    /// Questions whose time is over are given up.
    pub(super) fn give_up_questions(&mut self, now: Clock) {
        let late: Vec<u64> = self.lanes.values().filter(|l| l.deadline <= now.steady).map(|l| l.ticket).collect();
        for ticket in late {
            self.given(ticket, Given::Refused(unfinished()), now);
        }
    }

    /// Decides texts one by one, until one of them asks something.
    pub(super) fn go_on(&mut self, mut held: Held, resumed: Option<MemberId>, now: Clock) {
        let stream = matches!(held.reply, Reply::Stream(..));
        let bound = |session| Caller { stream: session, ..Caller::default() };
        let mut joined = bound(self.joined.get(&held.connection).copied().filter(|_| stream));
        let mut opened = Vec::new();
        let texts = std::mem::take(&mut held.texts);
        while let Some(text) = texts.get(held.at) {
            let answers = std::mem::take(&mut held.answers);
            let answered = match self.frame(&held.caller, stream, &joined, text, answers, resumed, now) {
                Ok(answered) => answered,
                Err(detour) => {
                    let held = self.split(held, texts, &mut opened);
                    return match *detour {
                        Detour::Behind(member) => self.park_behind(member, held),
                        Detour::Ask(member, question, answers) => {
                            self.park(member, Held { answers, ..held }, question, now)
                        }
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
            held.answered.push(answered);
            held.at += 1;
        }
        self.then.push(Then::Answers(held.reply, held.answered, opened));
    }

    /// What is answered so far goes to a stream now; a request waits for the rest.
    fn split(&mut self, held: Held, texts: Texts, opened: &mut Vec<super::Opened>) -> Held {
        let mut held = Held { texts, ..held };
        if let Reply::Stream(connection, outbox) = &held.reply {
            let reply = Reply::Stream(*connection, outbox.clone());
            let answered = std::mem::take(&mut held.answered);
            if !answered.is_empty() {
                self.then.push(Then::Answers(reply, answered, std::mem::take(opened)));
            }
        }
        held
    }

    fn refuse_held(&mut self, held: Held, fault: &Fault) {
        let (reply, answers) = held.refuse(fault, true);
        self.then.push(Then::Answers(reply, answers, Vec::new()));
    }

    /// Nothing that waits will be decided: the log failed, or the node stops.
    pub(super) fn unpark(&mut self, fault: &Fault) {
        for (_, lane) in std::mem::take(&mut self.lanes) {
            for held in lane.asking.into_iter().chain(lane.queue) {
                let (reply, answers) = held.refuse(fault, false);
                match reply {
                    Reply::Once(reply) => drop(reply.send(answers)),
                    Reply::Stream(connection, outbox) => {
                        self.sessions.answer(connection, &outbox, Out::Answers(answers));
                    }
                }
            }
        }
    }
}

/// The place of a tool's output schema among its validators: versions stay far below.
fn output_key(resource: u32, version: u64) -> (u32, u64) {
    (resource, version | 1 << 63)
}

/// Holds the payload of a frame against a schema.
fn check(validators: &Validators, key: (u32, u64), schema: &str, frame: &[u8]) -> Result<(), Fault> {
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
