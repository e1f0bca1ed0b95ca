//! Ends that nobody sends: time-outs, members that are gone, requests that died, parts of what was called off. And what
//! is forgotten.

use super::open::IDLE_MS_MAX;
use super::unit::{Unit, UnitKind, UnitNo, WorkAct, WorkMark};
use crate::delivery::ranges;
use crate::input::{Clock, Effects};
use crate::mods::persistence;
use crate::presence::VolatileState;
use crate::record::{Change, More};
use crate::route::StreamKey;
use crate::server_events::{ServerEvent, server_event};
use crate::state::{MemberId, State};
use rialto_model::network::Status;
use rialto_model::{ErrorCode, EventType, Fault, Millis, Seq, WorkState, limits};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What became late while the network was at rest has this long when it goes on.
const GRACE_MS: Millis = 10_000;
/// Units that fail in one tick: the rest waits for the next.
const EXPIRED_PER_TICK_MAX: usize = 1000;
/// Units forgotten in one tick.
const FORGOTTEN_PER_TICK_MAX: usize = 10_000;
/// How long an ended unit is known.
const KEPT_MS: Millis = 7 * 24 * 3_600_000;
/// How long an ended unit is known where no history is kept.
const KEPT_BRIEFLY_MS: Millis = 10 * 60_000;

/// Units whose executor was silent for too long fail.
pub(crate) fn expire(state: &State, live: &mut VolatileState, now: Clock, fx: &mut Effects) {
    if state.book.settings.status != Status::Active {
        live.rested_until = Some(now.steady);
        return;
    }
    live.progress.retain(|no, _| state.unit(*no).is_some_and(Unit::is_open));
    // What became late while the network was at rest waits for a moment; everything else is due when it is due.
    let resting = live.rested_until.filter(|until| now.steady < until.saturating_add(GRACE_MS));
    let through = state.deadline_clock(now);
    let from = resting.map_or(0, |until| until.saturating_add(1));
    let late = state.work.dues.range((from, 0)..).map(|(due, no)| (*due, *no)).take_while(|(due, _)| *due <= through);
    for (_, no) in late.take(EXPIRED_PER_TICK_MAX) {
        let Some(unit) = state.unit(no) else { continue };
        let wait = unit.wait_ms.unwrap_or(IDLE_MS_MAX);
        // Progress that is never stored counts while the process lives.
        if live.progress.get(&no).is_some_and(|at| now.steady < at.saturating_add(wait)) {
            continue;
        }
        end(state, no, unit, WorkState::Failed, "timeout", "timed out: its deadline passed without progress", now, fx);
    }
}

/// The network ends a unit: its requester is told by the event that ends it, its executor by one that says the same.
#[allow(clippy::too_many_arguments, reason = "what is told, to whom and why")]
fn end(state: &State, no: UnitNo, unit: &Unit, to: WorkState, code: &str, why: &str, now: Clock, fx: &mut Effects) {
    // Its request may die in the tick that finds it late; a part may be late in the tick that ends the whole.
    if fx.ends(no) {
        return;
    }
    let mark = WorkMark {
        unit: no,
        act: WorkAct::Move,
        state: to,
        executor: unit.executor,
        due: unit.due,
        error: Some(code.into()),
    };
    let more = Some(Box::new(More { work: Some(mark), ..More::default() }));
    if unit.kind == UnitKind::Work {
        let payload = json!({ "work": unit.id, "state": to.as_str(), "error": { "code": code, "message": why } });
        tell(state, unit.requester, EventType::WorkUpdate, &payload, None, more, now, fx);
        if let Some(executor) = unit.executor.and_then(|e| state.member(e).filter(|m| m.is_present()).map(|_| e)) {
            tell(state, executor, EventType::WorkUpdate, &payload, None, None, now, fx);
        }
    } else {
        // A call's error is what the sheet says it is; a late result is answered with `no_pending_request`.
        let code = ErrorCode::from_wire(code).unwrap_or(ErrorCode::OwnerUnavailable);
        let payload = Fault::new(code, why).payload(Some(&unit.request_id));
        let metadata = json!({ "in_reply_to": unit.request_id });
        tell(state, unit.requester, EventType::EventError, &payload, Some(&metadata), more, now, fx);
    }
    if code != "parent_ended" {
        cancel_parts(state, no, now, fx);
    }
}

#[allow(clippy::too_many_arguments, reason = "what is told, to whom")]
fn tell(
    state: &State,
    to: MemberId,
    kind: EventType<'_>,
    payload: &Value,
    metadata: Option<&Value>,
    more: Option<Box<More>>,
    now: Clock,
    fx: &mut Effects,
) {
    let known = state.member(to).filter(|m| !m.removed);
    let (target, stream) = known.map_or(("core", None), |m| (m.address.as_ref(), Some(StreamKey::Inbox(to))));
    server_event(state, ServerEvent { kind, target, stream, payload, metadata, more }, now, fx);
}

/// A resource is gone: calls that wait for it end.
pub(crate) fn without_resource(state: &State, resource: u32, now: Clock, fx: &mut Effects) {
    for no in state.work.calls_of.get(&resource).into_iter().flatten() {
        if let Some(unit) = state.unit(*no) {
            end(state, *no, unit, WorkState::Failed, "resource_not_found", "the resource is gone", now, fx);
        }
    }
}

/// A member left: calls that wait for it end, other work stays and shows that it is gone.
pub(crate) fn owner_left(state: &State, owner: MemberId, now: Clock, fx: &mut Effects) {
    if !state.work.calls_done.contains_key(&owner) || crate::bugs::on("call outlives its owner") {
        return;
    }
    for no in state.work.done_by.get(&owner).into_iter().flatten() {
        if let Some(unit) = state.unit(*no).filter(|u| u.is_open() && u.kind != UnitKind::Work) {
            end(state, *no, unit, WorkState::Failed, "owner_unavailable", "the owner left", now, fx);
        }
    }
}

/// An owner made a change it was asked for, and said so with an ack.
pub(crate) fn completed_by_ack(state: &State, no: UnitNo, unit: &Unit, payload: &str, now: Clock, fx: &mut Effects) {
    let to = WorkState::Completed;
    let mark =
        WorkMark { unit: no, act: WorkAct::Move, state: to, executor: unit.executor, due: unit.due, error: None };
    let more = Some(Box::new(More { work: Some(mark), ..More::default() }));
    let payload: Value = serde_json::from_str(payload).unwrap_or_default();
    let metadata = json!({ "in_reply_to": unit.request_id });
    tell(state, unit.requester, EventType::EventAck, &payload, Some(&metadata), more, now, fx);
}

/// What was handed on as part of a unit is called off with it, all the way down.
pub(crate) fn cancel_parts(state: &State, no: UnitNo, now: Clock, fx: &mut Effects) {
    let mut todo = vec![no];
    while let Some(no) = todo.pop() {
        for part in state.work.children.get(&no).into_iter().flatten() {
            let Some(unit) = state.unit(*part) else { continue };
            end(state, *part, unit, WorkState::Canceled, "parent_ended", "what it was part of has ended", now, fx);
            todo.push(*part);
        }
    }
}

/// A member is deleted: what it asked for is called off, what it was to do has failed.
pub(crate) fn without_member(state: &State, member: MemberId, now: Clock, fx: &mut Effects) {
    let mut ended = BTreeSet::new();
    for no in state.work.open_of(&state.book.units, member) {
        let Some(unit) = state.unit(no) else { continue };
        if part_of_any(state, unit, &ended) {
            continue;
        }
        ended.insert(no);
        if unit.requester == member {
            end(state, no, unit, WorkState::Canceled, "requester_left", "its requester is gone", now, fx);
        } else {
            end(state, no, unit, WorkState::Failed, "owner_unavailable", "its executor is gone", now, fx);
        }
    }
}

/// Whether the unit ends with one of these anyway.
fn part_of_any(state: &State, unit: &Unit, ended: &BTreeSet<UnitNo>) -> bool {
    let mut parent = unit.parent;
    while let Some(no) = parent {
        if ended.contains(&no) {
            return true;
        }
        parent = state.unit(no).and_then(|unit| unit.parent);
    }
    false
}

/// Deliveries to a member ended: requests among them will not be done.
pub(crate) fn request_died(state: &State, to: MemberId, seqs: &[Seq], reason: &str, now: Clock, fx: &mut Effects) {
    if state.work.requests.is_empty() {
        return;
    }
    for seq in seqs {
        let Some((no, unit)) = state.work.requests.get(seq).and_then(|no| Some((*no, state.unit(*no)?))) else {
            continue;
        };
        if unit.executor == Some(to) && unit.state == WorkState::Submitted {
            end(state, no, unit, WorkState::Failed, reason, "its request was not delivered", now, fx);
        }
    }
}

/// Ended units are forgotten after a while, and the oldest when there are too many.
pub(crate) fn forget(state: &State, now: Clock, fx: &mut Effects) {
    let closed = &state.work.closed;
    if closed.is_empty() {
        return;
    }
    let kept = match (state.has_mod("persistence"), persistence::retention(state).age) {
        (false, _) => KEPT_BRIEFLY_MS,
        (true, age) => age.map_or(KEPT_MS, |age| age.min(KEPT_MS)),
    };
    let through = state.aged_through(now, kept);
    let surplus = closed.len().saturating_sub(limits::WORK_CLOSED_KEPT_MAX);
    let aged = closed.range(..=(through, UnitNo::MAX)).count();
    let mut units: Vec<Seq> =
        closed.iter().take(aged.max(surplus).min(FORGOTTEN_PER_TICK_MAX)).map(|(_, no)| Seq::from(*no)).collect();
    units.sort_unstable();
    let narrow = |n: Seq| UnitNo::try_from(n).unwrap_or(UnitNo::MAX);
    let units: Vec<(UnitNo, UnitNo)> =
        ranges(&units).into_iter().map(|(from, to)| (narrow(from), narrow(to))).collect();
    if !units.is_empty() {
        fx.change(Change::WorkForgotten { units });
    }
}
