//! What an event of a member does to a unit: opens it, moves it, answers, or is a message inside.
//!
//! Order of checks: the unit is known, the sender takes part, the unit is open, the move is legal, the target fits.

use super::open::{closed, due, open, send_to, unknown};
use super::request::{ArtifactBody, WorkAction, WorkRequest, action};
use super::unit::{Artifact, Chunk, Unit, UnitNo, WorkAct, WorkMark, WorkPlace};
use super::{expire, list};
use crate::emit::EmitDraft;
use crate::input::{Accepted, Answers, Clock, Content, Effects, Question, Stop};
use crate::presence::VolatileState;
use crate::record::{EventRecord, More};
use crate::route::StreamKey;
use crate::state::{MemberId, State};
use rialto_model::payload::{ContentName, WorkArtifact, WorkUpdate};
use rialto_model::work::Actor;
use rialto_model::{ErrorCode, Fault, Verdict, WorkState, limits};
use serde_json::{Map, Value, json};

/// What follows from the mark once its event is committed.
#[derive(Debug)]
pub(crate) struct Involved {
    unit: UnitNo,
    id: Box<str>,
    state: WorkState,
    /// Its open parts end with it.
    cancels: bool,
}

impl Involved {
    /// Answers the sender, and ends what depended on the unit.
    pub(crate) fn finish(self, state: &State, accepted: &mut Accepted, now: Clock, fx: &mut Effects) {
        accepted.says(json!({ "work": { "id": self.id, "state": self.state.as_str() } }));
        if self.cancels {
            expire::cancel_parts(state, self.unit, now, fx);
        }
    }
}

/// What a repeated event was answered the first time.
pub(crate) fn result_again(state: &State, record: &EventRecord) -> Option<Value> {
    let mark = record.more.as_ref()?.work.as_ref()?;
    let id = match &mark.act {
        WorkAct::Open(unit) => Some(unit.id.clone()),
        WorkAct::Move | WorkAct::Answer | WorkAct::Artifact(_) | WorkAct::Note => {
            state.unit(mark.unit).map(|unit| unit.id.clone())
        }
    };
    Some(json!({ "work": { "id": id?, "state": mark.state.as_str() } }))
}

/// The answer to a message that asks for a unit (`metadata.work.open`) which its sender has asked for before by the same name: that unit.
/// Nothing is committed for it.
pub(crate) fn opened_before(state: &State, draft: &EmitDraft<'_, '_>) -> Result<Option<Accepted>, Fault> {
    if !draft.metadata.get("work").is_some_and(|raw| raw.contains("\"open\"")) {
        return Ok(None);
    }
    let Some(WorkRequest { id: Some(name), opens: true, .. }) = WorkRequest::read(&draft.metadata)? else {
        return Ok(None);
    };
    if name.starts_with(super::open::ID_PREFIX) {
        let text = format!(
            "names that begin with {} are the network's: a unit that you open has a name of yours, or none",
            super::open::ID_PREFIX
        );
        return Err(Fault::new(ErrorCode::InvalidEvent, text).field("metadata.work.id"));
    }
    let Some((_, unit)) = state.unit_called(&name, draft.member) else { return Ok(None) };
    let named = draft.envelope.id.as_deref().unwrap_or(&unit.request_id);
    let mut accepted =
        Accepted { named: Some(named.into()), seq: Some(unit.request_seq), duplicate: true, ..Accepted::default() };
    accepted.says(json!({ "work": { "id": unit.id, "state": unit.state.as_str() } }));
    Ok(Some(accepted))
}

/// Finds out what the draft does to a unit, and marks it.
pub(crate) fn involve(
    state: &State,
    live: &mut VolatileState,
    draft: &mut EmitDraft<'_, '_>,
    answers: &Answers,
    now: Clock,
    fx: &Effects,
) -> Result<Option<Involved>, Stop> {
    let mark = match action(draft.kind, &draft.envelope.payload)? {
        Some((name, action)) => act(state, live, draft, name.as_str(), action, answers, now)?,
        None => match WorkRequest::read(&draft.metadata)? {
            Some(wish) => Some(message(state, live, draft, wish, now, fx)?),
            None if state.work.replies.is_empty() => None,
            None => reply(state, draft, now)?,
        },
    };
    let Some(mark) = mark else { return Ok(None) };
    if draft.metadata.ephemeral == Some(true) {
        let text = "an event that changes a work unit cannot be ephemeral";
        return Err(Fault::new(ErrorCode::InvalidEvent, text).field("metadata.ephemeral").into());
    }
    let id = match &mark.act {
        WorkAct::Open(unit) => unit.id.clone(),
        WorkAct::Move | WorkAct::Answer | WorkAct::Artifact(_) | WorkAct::Note => {
            state.unit(mark.unit).map(|unit| unit.id.clone()).unwrap_or_default()
        }
    };
    let cancels = matches!(mark.state, WorkState::Canceled | WorkState::Failed | WorkState::Rejected);
    let involved = Involved { unit: mark.unit, id, state: mark.state, cancels };
    draft.more.get_or_insert_with(|| Box::new(More::default())).work = Some(mark);
    Ok(Some(involved))
}

/// What the sender is to a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Involvement {
    Requester,
    Executor,
    /// It may take the unit, or might have.
    Candidate,
}

pub(super) fn part(state: &State, unit: &Unit, member: MemberId) -> Option<Involvement> {
    if unit.requester == member {
        return Some(Involvement::Requester);
    }
    if unit.executor == Some(member) {
        return Some(Involvement::Executor);
    }
    let WorkPlace::Channel(channel) = unit.place else { return None };
    let sits = state.member(member).is_some_and(|m| m.is_present() && m.sits_in(channel));
    sits.then_some(Involvement::Candidate)
}

/// The unit an event names, if the sender takes part.
fn known<'s>(state: &'s State, text: &str, by: MemberId) -> Result<(UnitNo, &'s Unit, Involvement), Fault> {
    let (no, unit) = state.unit_named(text, Some(by)).ok_or_else(|| unknown(text))?;
    let part = part(state, unit, by).ok_or_else(|| unknown(text))?;
    Ok((no, unit, part))
}

fn mark(no: UnitNo, unit: &Unit, act: WorkAct, state: WorkState, now: Clock) -> WorkMark {
    let due = if crate::bugs::on("progress resets no deadline") { unit.due } else { due(unit.wait_ms, now) };
    WorkMark { unit: no, act, state, executor: unit.executor, due, error: None }
}

/// Decides an event that is about a unit. Nothing for progress that is never stored.
fn act(
    state: &State,
    live: &mut VolatileState,
    draft: &mut EmitDraft<'_, '_>,
    name: &str,
    action: WorkAction,
    answers: &Answers,
    now: Clock,
) -> Result<Option<WorkMark>, Stop> {
    let by = draft.member;
    let (no, unit, part) = known(state, name, by)?;
    if name != unit.id.as_ref() {
        // What its requester calls it nobody else can resolve.
        let mut payload: Map<String, Value> = draft.said()?;
        payload.insert("work".into(), json!(unit.id));
        draft.payload = Some(Value::Object(payload).to_string());
    }
    let mark = match action {
        WorkAction::Update(update) => {
            let executor = executes(unit, part, by)?;
            let to = wanted_state(&update, unit);
            legal(unit, to, Actor::Executor)?;
            if draft.metadata.ephemeral == Some(true) && to == unit.state {
                aim(state, draft, unit, by)?;
                live.progress.insert(no, now.steady);
                return Ok(None);
            }
            let error = (to == WorkState::Failed).then(|| failure(&update).into());
            WorkMark { executor: Some(executor), error, ..mark(no, unit, WorkAct::Move, to, now) }
        }
        WorkAction::Artifact(said) => {
            let executor = executes(unit, part, by)?;
            let to = if unit.state == WorkState::Submitted { WorkState::Working } else { unit.state };
            legal(unit, to, Actor::Executor)?;
            let artifact = artifact(state, said, unit, by, answers)?;
            WorkMark { executor: Some(executor), ..mark(no, unit, WorkAct::Artifact(artifact), to, now) }
        }
        WorkAction::Answer => {
            requested(unit, part, WorkState::Working).map(|to| mark(no, unit, WorkAct::Answer, to, now))?
        }
        WorkAction::Cancel => {
            requested(unit, part, WorkState::Canceled).map(|to| mark(no, unit, WorkAct::Move, to, now))?
        }
    };
    aim(state, draft, unit, by)?;
    Ok(Some(mark))
}

/// The state that the requester of a unit moves it to.
fn requested(unit: &Unit, part: Involvement, to: WorkState) -> Result<WorkState, Fault> {
    if part != Involvement::Requester {
        return Err(not_yours(unit, part, "its requester"));
    }
    legal(unit, to, Actor::Requester)?;
    Ok(to)
}

/// The code of a failure, if the executor gave one.
fn failure(update: &WorkUpdate) -> String {
    let code = update.error.as_ref().and_then(|e| e.get("code")).and_then(Value::as_str);
    code.filter(|c| c.len() <= limits::WORK_TEXT_CHARS_MAX).unwrap_or("failed").to_owned()
}

/// Who does the unit from here on, if the sender may act as executor. The first of many takes it.
fn executes(unit: &Unit, part: Involvement, by: MemberId) -> Result<MemberId, Fault> {
    match part {
        Involvement::Executor => Ok(by),
        Involvement::Candidate if unit.executor.is_none() && unit.is_open() => Ok(by),
        Involvement::Candidate if unit.is_open() && crate::bugs::on("two takers win") => Ok(by),
        Involvement::Candidate | Involvement::Requester => Err(not_yours(unit, part, "its executor")),
    }
}

/// The sender takes part, but not in this role.
fn not_yours(unit: &Unit, part: Involvement, whose: &str) -> Fault {
    if !unit.is_open() {
        return closed(unit);
    }
    if part == Involvement::Candidate && unit.executor.is_some() {
        let details = json!({ "work": unit.id });
        return Fault::new(ErrorCode::AlreadyExists, format!("{} was taken by another member", unit.id))
            .details(details)
            .finding(Verdict::Taken);
    }
    Fault::new(ErrorCode::Forbidden, format!("only {whose} may do this to {}", unit.id))
}

fn wanted_state(update: &WorkUpdate, unit: &Unit) -> WorkState {
    let unsaid = if unit.state == WorkState::Submitted { WorkState::Working } else { unit.state };
    update.state.unwrap_or(unsaid)
}

fn legal(unit: &Unit, to: WorkState, by: Actor) -> Result<(), Fault> {
    if !unit.is_open() {
        return if crate::bugs::on("second end of work") { Ok(()) } else { Err(closed(unit)) };
    }
    if unit.state.may_become(to, by) {
        return Ok(());
    }
    let details = json!({ "work": unit.id, "state": unit.state.as_str(), "field": "payload.state" });
    Err(Fault::new(ErrorCode::InvalidEvent, format!("{} is {} and cannot become {to} by this", unit.id, unit.state))
        .details(details))
}

/// What was uploaded before by the one who names it: whoever did not learns nothing of it, not even whether it exists.
fn content(
    state: &State,
    body: &ArtifactBody,
    unit: &Unit,
    by: MemberId,
    replaced: usize,
    answers: &Answers,
) -> Result<Option<Content>, Stop> {
    let ArtifactBody::Blob(name) = body else { return Ok(None) };
    let sha256 = name.sha256.bytes();
    let field = "payload.artifact.blob";
    if unit.blobs().count().saturating_sub(replaced) >= limits::WORK_BLOBS_PER_UNIT_MAX {
        let text = format!("a unit keeps at most {} chunks as content", limits::WORK_BLOBS_PER_UNIT_MAX);
        return Err(Fault::new(ErrorCode::TooLarge, text).field(field).into());
    }
    if state.work.blobs.saturating_sub(replaced) >= limits::WORK_BLOBS_MAX {
        return Err(Fault::new(
            ErrorCode::NetworkFull,
            format!(
                "the work of this network has reached its limit of {} chunks kept as content: let some units end first",
                limits::WORK_BLOBS_MAX
            ),
        )
        .into());
    }
    let Some(content) = answers.blobs.iter().find(|content| content.blob == sha256) else {
        return Err(Stop::Ask(Box::new(Question::Blob { by, sha256 })));
    };
    if name.size.is_some_and(|size| size != content.size) {
        let text = format!("{field}: the content has {} bytes", content.size);
        return Err(Fault::new(ErrorCode::InvalidArgument, text).field(field).into());
    }
    Ok(Some(*content))
}

/// The artifact as it is after this event; of its chunks only the new one.
fn artifact(state: &State, said: WorkArtifact, unit: &Unit, by: MemberId, answers: &Answers) -> Result<Artifact, Stop> {
    let known = unit.artifacts.iter().find(|a| a.id.as_ref() == said.artifact.id.as_str());
    let mut artifact = counted(&said, unit, known)?;
    let body = ArtifactBody::of(said.artifact)?;
    let replaced = known.filter(|_| artifact.begins_anew()).map_or(0, |known| known.blobs.len());
    let content = content(state, &body, unit, by, replaced, answers)?;
    artifact.bytes = match (&body, content) {
        (ArtifactBody::Parts(bytes), _) => artifact.bytes.saturating_add(*bytes),
        (ArtifactBody::Blob(_), content) => artifact.bytes.saturating_add(content.map_or(0, |c| c.size)),
    };
    if let ArtifactBody::Blob(ContentName { content_type: Some(kind), .. }) = body {
        artifact.content_type = Some(kind.into_string().into());
    }
    artifact.blobs = content.into_iter().map(|content| Chunk { seq: 0, content }).collect();
    Ok(artifact)
}

/// The artifact with one chunk more, or the first of a new one.
fn counted(said: &WorkArtifact, unit: &Unit, known: Option<&Artifact>) -> Result<Artifact, Fault> {
    let id = said.artifact.id.as_str();
    let name = said.artifact.name.as_ref().map(|name| name.as_str().into());
    let append = said.append.unwrap_or(false);
    let refuse = |code, text: String| Err(Fault::new(code, text).field("payload.artifact"));
    match known {
        None if append => refuse(ErrorCode::InvalidArgument, format!("there is no artifact {id:?} to append to")),
        None if unit.artifacts.len() >= limits::ARTIFACTS_MAX => {
            refuse(ErrorCode::TooLarge, format!("a unit has at most {} artifacts", limits::ARTIFACTS_MAX))
        }
        Some(known) if append && known.last => refuse(
            ErrorCode::InvalidArgument,
            format!("artifact {id:?} is complete, because its last chunk came: add another artifact"),
        ),
        Some(known) if append && known.chunks >= limits::ARTIFACT_CHUNKS_MAX => {
            refuse(ErrorCode::TooLarge, format!("an artifact has at most {} chunks", limits::ARTIFACT_CHUNKS_MAX))
        }
        Some(known) if append => Ok(Artifact {
            id: known.id.clone(),
            name: name.or_else(|| known.name.clone()),
            chunks: known.chunks + 1,
            bytes: known.bytes,
            last: said.last.unwrap_or(false),
            content_type: known.content_type.clone(),
            blobs: Vec::new(),
        }),
        // Whole, or the first of its chunks; a known one is replaced.
        None | Some(_) => {
            let last = said.last.unwrap_or(true);
            Ok(Artifact { id: id.into(), name, chunks: 1, last, ..Artifact::default() })
        }
    }
}

/// The other side of a unit, as the sender sees it.
fn counterpart(unit: &Unit, by: MemberId) -> Option<MemberId> {
    if unit.requester == by { unit.executor } else { Some(unit.requester) }
}

/// What moves a unit goes to the other side; sent to core, it is passed on.
fn aim(state: &State, draft: &mut EmitDraft<'_, '_>, unit: &Unit, by: MemberId) -> Result<(), Fault> {
    let other = counterpart(unit, by);
    match (draft.route.stream, other) {
        (None, Some(other)) if draft.target == "core" => send_to(state, draft, other),
        (None, None) if draft.target == "core" => {}
        (Some(StreamKey::Inbox(to)), Some(other)) if to == other => {}
        _ => {
            let name = other.and_then(|m| state.member(m)).map_or("core", |m| m.address.as_ref());
            let text = format!("{} of {} must be sent to {name} or to core", draft.envelope.kind, unit.id);
            return Err(Fault::new(ErrorCode::InvalidEvent, text).field("target"));
        }
    }
    draft.route.thread = None;
    Ok(())
}

/// A message with `metadata.work`: inside a unit it names, or the opening of a new one.
fn message(
    state: &State,
    live: &VolatileState,
    draft: &mut EmitDraft<'_, '_>,
    wish: WorkRequest,
    now: Clock,
    fx: &Effects,
) -> Result<WorkMark, Fault> {
    let by = draft.member;
    let named = wish.id.as_deref().and_then(|text| state.unit_named(text, Some(by)));
    let Some((no, unit)) = named else {
        return match wish.id.as_deref().filter(|id| id.starts_with(super::open::ID_PREFIX)) {
            Some(id) => Err(unknown(id).field("metadata.work.id")),
            None => open(state, live, draft, wish, now, fx),
        };
    };
    let text = wish.id.clone().unwrap_or_default();
    let text = text.as_str();
    let part = part(state, unit, by).ok_or_else(|| unknown(text).field("metadata.work.id"))?;
    if !unit.is_open() {
        return Err(closed(unit));
    }
    if part == Involvement::Candidate && unit.executor.is_some() {
        return Err(not_yours(unit, part, "its two sides"));
    }
    contained(draft, unit, by)?;
    if text != unit.id.as_ref() {
        let mut said = wish.said;
        said.insert("id".into(), json!(unit.id));
        draft.metadata.set("work", Value::Object(said).to_string());
    }
    Ok(match part {
        Involvement::Requester if unit.state.waits() => mark(no, unit, WorkAct::Answer, WorkState::Working, now),
        Involvement::Requester | Involvement::Candidate => {
            WorkMark { due: unit.due, ..mark(no, unit, WorkAct::Note, unit.state, now) }
        }
        Involvement::Executor => {
            said_state(draft, no, unit, now)?.unwrap_or_else(|| mark(no, unit, WorkAct::Note, unit.state, now))
        }
    })
}

/// `metadata.work_state` of an executor's message: where the message leaves the unit.
fn said_state(draft: &EmitDraft<'_, '_>, no: UnitNo, unit: &Unit, now: Clock) -> Result<Option<WorkMark>, Fault> {
    let failed = draft.metadata.get("is_error") == Some("true");
    let to = match draft.metadata.text("work_state") {
        Some(text) => Some(WorkState::from_wire(&text).ok_or_else(|| {
            Fault::new(ErrorCode::InvalidEvent, "metadata.work_state is a state of work").field("metadata.work_state")
        })?),
        None => failed.then_some(WorkState::Failed),
    };
    let Some(to) = to else { return Ok(None) };
    legal(unit, to, Actor::Executor)?;
    let error = (to == WorkState::Failed).then(|| "failed".into());
    Ok(Some(WorkMark { error, ..mark(no, unit, WorkAct::Move, to, now) }))
}

/// A unit lives where it was opened: its messages go to the other side, or into its channel and thread.
fn contained(draft: &EmitDraft<'_, '_>, unit: &Unit, by: MemberId) -> Result<(), Fault> {
    let fits = match (draft.route.stream, unit.place) {
        (Some(StreamKey::Inbox(to)), _) => counterpart(unit, by) == Some(to),
        (Some(StreamKey::Channel(here)), WorkPlace::Channel(there)) => {
            here == there && draft.route.thread == unit.thread
        }
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(Fault::new(
        ErrorCode::InvalidEvent,
        format!(
            "{} belongs to another conversation than the one this is sent to: send it where the unit was opened",
            unit.id
        ),
    )
    .field("target")
    .finding(Verdict::ContainerMismatch))
}

/// An ordinary message that replies to a request, to a question or to an answer: agents that know nothing of work do it
/// and have it done this way. What does not fit is an ordinary message and no more.
fn reply(state: &State, draft: &EmitDraft<'_, '_>, now: Clock) -> Result<Option<WorkMark>, Fault> {
    if draft.metadata.ephemeral == Some(true) {
        return Ok(None);
    }
    let by = draft.member;
    let Some(no) = draft.metadata.text("in_reply_to").and_then(|id| state.work.replies.get(id.as_ref()).copied())
    else {
        return Ok(None);
    };
    let Some((unit, part)) = state.unit(no).and_then(|unit| Some((unit, part(state, unit, by)?))) else {
        return Ok(None);
    };
    if contained(draft, unit, by).is_err() || !unit.is_open() {
        return Ok(None);
    }
    let to_question = draft.metadata.text("in_reply_to").as_deref() == unit.asked.as_deref();
    match part {
        Involvement::Requester if unit.state.waits() && to_question => {
            Ok(Some(mark(no, unit, WorkAct::Answer, WorkState::Working, now)))
        }
        Involvement::Requester => Ok(None),
        Involvement::Candidate if unit.executor.is_some() => Ok(None),
        Involvement::Executor if to_question => Ok(None),
        Involvement::Executor | Involvement::Candidate => {
            let done = || mark(no, unit, WorkAct::Move, WorkState::Completed, now);
            let mark = said_state(draft, no, unit, now)?.unwrap_or_else(done);
            Ok(Some(WorkMark { executor: Some(by), ..mark }))
        }
    }
}

impl State {
    /// Whether the member may see the unit: its two sides, and who might take it while it can be taken.
    pub fn sees_unit(&self, unit: &Unit, member: MemberId) -> bool {
        match part(self, unit, member) {
            Some(Involvement::Requester | Involvement::Executor) => true,
            Some(Involvement::Candidate) => list::is_untaken(unit),
            None => crate::bugs::on("outsider sees work"),
        }
    }
}
