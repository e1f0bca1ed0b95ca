//! Opening a unit: who asks whom for what, and within which bounds.

use super::request::WorkRequest;
use super::unit::{Alias, Unit, UnitKind, UnitNo, WorkAct, WorkMark, WorkPlace};
use crate::emit::EmitDraft;
use crate::input::{Clock, Effects};
use crate::presence::VolatileState;
use crate::route::StreamKey;
use crate::shares::{Maker, ShareKind};
use crate::state::{Member, MemberId, State};
use rialto_model::{ErrorCode, EventId, Fault, Millis, Role, Verdict, Visibility, WorkState, limits};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cmp::Reverse;

/// A unit that nobody touches for this long fails, whatever its deadline: it holds its events in the log.
pub(super) const IDLE_MS_MAX: Millis = 30 * 24 * 3_600_000;
/// How ids of ours begin.
pub(super) const ID_PREFIX: &str = "work_";

/// The refusal an outsider gets: the same as for a unit that never was.
pub(super) fn unknown(text: &str) -> Fault {
    Fault::new(ErrorCode::UnknownTarget, format!("no work unit {text:?} is known here"))
        .finding(Verdict::NotParticipant)
}

/// When a unit is due if something happens to it now, monotonic time.
pub(super) fn due(wait_ms: Option<Millis>, now: Clock) -> Millis {
    now.steady.saturating_add(wait_ms.unwrap_or(IDLE_MS_MAX))
}

/// Where the draft's target puts a unit, and who does it.
struct UnitTarget {
    place: WorkPlace,
    executor: Option<MemberId>,
}

/// Opens a unit by this message.
pub(super) fn open(
    state: &State,
    live: &VolatileState,
    draft: &mut EmitDraft<'_, '_>,
    wish: WorkRequest,
    now: Clock,
    fx: &Effects,
) -> Result<WorkMark, Fault> {
    let by = draft.member;
    let UnitTarget { place, executor } = aim(state, live, draft, &wish, now)?;
    let parent = wish.parent.as_deref().map(|text| parent(state, text, by)).transpose()?;
    check_room(state, draft.maker, executor, parent)?;
    Ok(begin(state, draft, wish, UnitKind::Work, place, executor, parent, now, fx))
}

/// Opens the unit of a call: a resource's owner is asked.
pub(crate) fn open_call(
    state: &State,
    draft: &mut EmitDraft<'_, '_>,
    kind: UnitKind,
    (resource, owner): (u32, MemberId),
    timeout_ms: Millis,
    now: Clock,
    fx: &Effects,
) -> Result<WorkMark, Fault> {
    let wish = WorkRequest { deadline_ms: Some(timeout_ms), ..WorkRequest::read(&draft.metadata)?.unwrap_or_default() };
    let parent = wish.parent.as_deref().map(|text| parent(state, text, draft.member)).transpose()?;
    check_room(state, draft.maker, Some(owner), parent)?;
    Ok(begin(state, draft, wish, kind, WorkPlace::Resource(resource), Some(owner), parent, now, fx))
}

/// The mark of a new unit.
#[allow(clippy::too_many_arguments, reason = "what a unit is made of")]
fn begin(
    state: &State,
    draft: &mut EmitDraft<'_, '_>,
    wish: WorkRequest,
    kind: UnitKind,
    place: WorkPlace,
    executor: Option<MemberId>,
    parent: Option<(UnitNo, &Unit)>,
    now: Clock,
    fx: &Effects,
) -> WorkMark {
    let by = draft.member;
    let no = state.book.next_unit;
    let stamp = state.stamp(now.wall);
    let seq = state.next_seq() + fx.events();
    let own = EventId { at: stamp, seq, salt: state.book.salt }.to_text();
    let (root, depth) = parent.map_or((no, 0), |(_, unit)| (unit.root, unit.depth + 1));
    let aliases = wish.id.iter().map(|id| Alias::own(by, id)).collect();
    let id: Box<str> = format!("{ID_PREFIX}{}", own.to_ascii_lowercase()).into();
    let unit = Unit {
        kind,
        state: WorkState::Submitted,
        requester: by,
        executor,
        place,
        thread: draft.route.thread.clone(),
        request_seq: seq,
        request_id: draft.envelope.id.as_deref().unwrap_or(&own).into(),
        asked: None,
        answered: None,
        skill: wish.skill.as_deref().map(Into::into),
        context: wish.context.as_deref().map(Into::into),
        parent: parent.map(|(no, _)| no),
        root,
        depth,
        below: 0,
        wait_ms: wish.deadline_ms,
        due: due(wish.deadline_ms, now),
        opened_at: stamp,
        updated_at: stamp,
        since: stamp,
        terminal_at: None,
        last_seq: seq,
        artifacts: Vec::new(),
        error: None,
        aliases,
        id,
    };
    tell_executor(draft, wish, &unit);
    let (state, due) = (unit.state, unit.due);
    WorkMark { unit: no, act: WorkAct::Open(Box::new(unit)), state, executor, due, error: None }
}

/// The executor learns the unit's id; what its requester calls it goes along.
fn tell_executor(draft: &mut EmitDraft<'_, '_>, wish: WorkRequest, unit: &Unit) {
    let mut said = wish.said;
    said.remove("open");
    said.insert("id".into(), json!(unit.id));
    if let Some(alias) = wish.id {
        said.insert("alias".into(), json!(alias));
    }
    draft.metadata.set("work", Value::Object(said).to_string());
}

fn aim(
    state: &State,
    live: &VolatileState,
    draft: &mut EmitDraft<'_, '_>,
    wish: &WorkRequest,
    now: Clock,
) -> Result<UnitTarget, Fault> {
    match (draft.route.stream, &wish.skill) {
        (Some(StreamKey::Inbox(to)), _) if to == draft.member => Err(Fault::new(
            ErrorCode::InvalidEvent,
            "work must be given to another member: you cannot be its requester and its executor",
        )
        .field("target")),
        (Some(StreamKey::Inbox(to)), _) => Ok(UnitTarget { place: WorkPlace::Agent, executor: Some(to) }),
        (Some(StreamKey::Channel(channel)), _) => Ok(UnitTarget { place: WorkPlace::Channel(channel), executor: None }),
        (None, Some(skill)) if draft.target == "core" => {
            let to = capable(state, live, skill, draft.member, now).ok_or_else(|| {
                Fault::new(ErrorCode::UnknownTarget, format!("no member offers the skill {skill:?}"))
                    .field("metadata.work.skill")
            })?;
            send_to(state, draft, to);
            Ok(UnitTarget { place: WorkPlace::Agent, executor: Some(to) })
        }
        _ => {
            let text = "work must be sent to one member, to a channel, or to core with metadata.work.skill";
            Err(Fault::new(ErrorCode::InvalidEvent, text).field("target"))
        }
    }
}

/// Sends the draft to one member, whatever it was sent to.
pub(super) fn send_to(state: &State, draft: &mut EmitDraft<'_, '_>, to: MemberId) {
    let Some(member) = state.member(to).filter(|m| !m.removed) else { return };
    draft.target = Cow::Owned(member.address.to_string());
    draft.visibility = Visibility::Direct;
    draft.route.stream = Some(StreamKey::Inbox(to));
}

/// Who has the skill and may act: somebody who is there before somebody who is not, then who has least to do, then who came first.
fn capable(state: &State, live: &VolatileState, skill: &str, by: MemberId, now: Clock) -> Option<MemberId> {
    let has = |m: &Member| m.profile.capabilities.iter().any(|have| have == skill);
    let may = |m: &Member| m.is_present() && m.role() != Role::Observer;
    let able = state.roster().filter(|(id, m)| *id != by && may(m) && has(m));
    let load = |id: MemberId| state.work.open_done.get(&id).copied().unwrap_or(0);
    able.map(|(id, _)| id).min_by_key(|id| (Reverse(live.is_online(*id, now)), load(*id), *id))
}

/// The unit a new one is part of: one that the sender is doing.
fn parent<'s>(state: &'s State, text: &str, by: MemberId) -> Result<(UnitNo, &'s Unit), Fault> {
    let field = "metadata.work.parent";
    let known = state.unit_named(text, Some(by)).filter(|(_, unit)| unit.executor == Some(by));
    let (no, unit) = known.ok_or_else(|| unknown(text).field(field))?;
    if !unit.is_open() {
        return Err(closed(unit).field(field));
    }
    if unit.depth >= limits::WORK_DEPTH_MAX {
        let text = format!("work may be handed on at most {} times, and this has been", limits::WORK_DEPTH_MAX);
        return Err(Fault::new(ErrorCode::InvalidArgument, text).field(field));
    }
    let below = state.unit(unit.root).map_or(0, |root| root.below);
    if below >= limits::WORK_PER_ROOT_MAX {
        let text = format!("one piece of work has at most {} parts", limits::WORK_PER_ROOT_MAX);
        return Err(Fault::new(ErrorCode::NetworkFull, text).field(field));
    }
    Ok((no, unit))
}

/// The refusal of what comes after the end.
pub(super) fn closed(unit: &Unit) -> Fault {
    let details = json!({ "work": unit.id, "state": unit.state.as_str() });
    Fault::new(ErrorCode::NoPendingRequest, format!("{} has ended: {}", unit.id, unit.state))
        .details(details)
        .finding(Verdict::WorkClosed)
}

fn check_room(
    state: &State,
    by: Maker,
    executor: Option<MemberId>,
    parent: Option<(UnitNo, &Unit)>,
) -> Result<(), Fault> {
    let work = &state.work;
    debug_assert!(parent.is_none_or(|(_, unit)| unit.is_open()));
    state.has_room(ShareKind::OpenWork, by)?;
    if executor.and_then(|e| work.open_done.get(&e)).is_some_and(|n| *n >= limits::WORK_PER_EXECUTOR_MAX) {
        return Err(Fault::new(
            ErrorCode::RecipientQueueFull,
            format!(
                "the executor already has {} open work units (limit): let some end first, or ask another",
                limits::WORK_PER_EXECUTOR_MAX
            ),
        ));
    }
    Ok(())
}
