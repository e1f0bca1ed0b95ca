//! Asking a resource's owner: invoking a tool, reading or changing what the owner keeps. Each is a work unit.

use super::change::input_schema;
use super::{Resource, ResourceNo, access};
use crate::emit::{self, EmitDraft};
use crate::input::{Accepted, Answers, Clock, Effects, Question, Stop};
use crate::presence::VolatileState;
use crate::record::More;
use crate::route::StreamKey;
use crate::state::{Member, MemberId, State};
use crate::work::{self, UnitKind, WorkAct, WorkMark};
use rialto_model::access::Operation;
use rialto_model::address::ResourceKind;
use rialto_model::metadata::Metadata;
use rialto_model::{ErrorCode, EventType, Fault, Millis, Visibility, WorkState, limits};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How long a call waits if its caller does not say.
const TIMEOUT_MS: Millis = 30_000;
/// How long it may wait.
const TIMEOUT_MS_MAX: Millis = 600_000;

/// `metadata.timeout_ms`.
fn timeout_ms(metadata: &Metadata<'_>) -> Result<Millis, Fault> {
    let Some(raw) = metadata.get("timeout_ms").filter(|raw| *raw != "null") else { return Ok(TIMEOUT_MS) };
    let text = format!("metadata.timeout_ms is 1 to {TIMEOUT_MS_MAX}");
    let bad = || Fault::new(ErrorCode::InvalidEvent, text).field("metadata.timeout_ms");
    raw.parse().ok().filter(|ms| (1..=TIMEOUT_MS_MAX).contains(ms)).ok_or_else(bad)
}

fn flag(metadata: &Metadata<'_>, key: &str) -> Result<bool, Fault> {
    match metadata.get(key) {
        None | Some("null" | "false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => {
            let field = format!("metadata.{key}");
            Err(Fault::new(ErrorCode::InvalidEvent, format!("{field} is true or false")).field(&field))
        }
    }
}

/// `network.resource.invoke`.
pub(crate) fn invoke(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    answers: &Answers,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let (no, resource) = access::admit(state, &draft.target, Some(draft.member), Operation::Invoke)?;
    if resource.kind != ResourceKind::Tool {
        let text = format!("{} is a {}: only tools are invoked", resource.address, resource.kind.as_str());
        return Err(Fault::new(ErrorCode::InvalidArgument, text).field("target").into());
    }
    if let Some(schema) = input_schema(resource).filter(|_| answers.input != Some((no, resource.version))) {
        return Err(Stop::Ask(Box::new(Question::Input {
            resource: no,
            version: resource.version,
            schema,
            payload: draft.rewritten(),
        })));
    }
    forward(state, live, draft, no, resource, UnitKind::Tool, now, fx)
}

/// Sends a request on to the resource's owner.
#[allow(clippy::too_many_arguments, reason = "who asks whom for what")]
pub(super) fn forward(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    no: ResourceNo,
    resource: &Resource,
    kind: UnitKind,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    emit::is_active(state)?;
    let timeout = timeout_ms(&draft.metadata)?;
    let waits = flag(&draft.metadata, "wait_for_owner")?;
    let away = || {
        Fault::new(
            ErrorCode::OwnerUnavailable,
            format!(
                "the owner of {} is not online: try again later, or send with metadata.wait_for_owner",
                resource.address
            ),
        )
    };
    let present = |id: &MemberId| state.member(*id).is_some_and(Member::is_present);
    let owner = resource.owner.filter(present).ok_or_else(away)?;
    if owner == draft.member {
        let text = format!(
            "{} is yours, and only its owner could answer: call one that belongs to another member",
            resource.address
        );
        return Err(Fault::new(ErrorCode::InvalidArgument, text).field("target").into());
    }
    if !waits && !live.is_online(owner, now) {
        return Err(away().into());
    }
    check_calls(state, draft.member, owner)?;
    draft.route.stream = Some(StreamKey::Inbox(owner));
    draft.visibility = Visibility::Direct;
    let mark = work::open_call(state, &mut draft, kind, (no, owner), timeout, now, fx)?;
    let WorkAct::Open(unit) = &mark.act else { return Err(ErrorCode::Internal.into()) };
    let result = json!({ "work": { "id": unit.id, "state": unit.state.as_str() } });
    draft.more.get_or_insert_with(|| Box::new(More::default())).work = Some(mark);
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    accepted.says(result);
    Ok(accepted)
}

fn check_calls(state: &State, caller: MemberId, owner: MemberId) -> Result<(), Fault> {
    let count = |map: &std::collections::BTreeMap<MemberId, usize>, id| map.get(&id).copied().unwrap_or(0);
    if count(&state.work.calls_asked, caller) >= limits::CALLS_PER_CALLER_MAX {
        return Err(Fault::new(
            ErrorCode::RateLimited,
            format!(
                "you already have {} calls waiting for an answer (limit): wait for some to finish",
                limits::CALLS_PER_CALLER_MAX
            ),
        )
        .details(json!({ "retry_after_ms": 100 })));
    }
    if count(&state.work.calls_done, owner) >= limits::CALLS_PER_OWNER_MAX {
        return Err(Fault::new(
            ErrorCode::RecipientQueueFull,
            format!("the owner already has {} calls to answer (limit): try again later", limits::CALLS_PER_OWNER_MAX),
        ));
    }
    Ok(())
}

/// `network.resource.invoke.result` and `network.resource.read.response` of an owner: once, while the call waits.
pub(crate) fn result(
    state: &State,
    live: &mut VolatileState,
    mut draft: EmitDraft<'_, '_>,
    answers: &Answers,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let kind = if draft.kind == EventType::ResourceInvokeResult { UnitKind::Tool } else { UnitKind::Read };
    if state.resource_index.owned.get(&draft.member).is_none_or(BTreeSet::is_empty) {
        let text = format!("only owners of resources may send {}", draft.envelope.kind);
        return Err(Fault::new(ErrorCode::ReservedType, text).field("type").into());
    }
    let nothing = || {
        Fault::new(
            ErrorCode::NoPendingRequest,
            "no call of yours to answer waits for this result: it was answered, timed out or canceled before, or never asked of you",
        )
    };
    let request = draft.metadata.text("in_reply_to").map(std::borrow::Cow::into_owned).ok_or_else(|| {
        Fault::new(ErrorCode::InvalidEvent, "a result must name the call it answers in metadata.in_reply_to")
            .field("metadata.in_reply_to")
    })?;
    let no = state.work.replies.get(request.as_str()).copied().ok_or_else(nothing)?;
    let own = |u: &&work::Unit| u.executor == Some(draft.member) || crate::bugs::on("result of a stranger");
    let unit = state.unit(no).filter(|u| u.kind == kind && own(u)).ok_or_else(nothing)?;
    if draft.route.stream != Some(StreamKey::Inbox(unit.requester)) {
        return Err(Fault::new(ErrorCode::InvalidEvent, "a result must be sent to the member who called")
            .field("target")
            .into());
    }
    let failed = flag(&draft.metadata, "is_error")?;
    if let Some((resource, version, schema)) = output_schema(state, unit).filter(|_| !failed) {
        match answers.output {
            Some((known, fits)) if known == (resource, version) => {
                if !fits {
                    draft.metadata.set("rialto.schema_warning", "true".to_owned());
                }
            }
            _ => {
                return Err(Stop::Ask(Box::new(Question::Output {
                    resource,
                    version,
                    schema,
                    payload: draft.rewritten(),
                })));
            }
        }
    }
    let to = if failed { WorkState::Failed } else { WorkState::Completed };
    let error = failed.then(|| failure(&draft.envelope.payload).into());
    let mark = WorkMark { unit: no, act: WorkAct::Move, state: to, executor: unit.executor, due: unit.due, error };
    let result = json!({ "work": { "id": unit.id, "state": to.as_str() } });
    draft.more.get_or_insert_with(|| Box::new(More::default())).work = Some(mark);
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    accepted.says(result);
    Ok(accepted)
}

/// The code of a failed call, if its owner gave one.
fn failure(payload: &str) -> String {
    let payload: Value = serde_json::from_str(payload).unwrap_or_default();
    let code = payload.get("error").and_then(|e| e.get("code")).and_then(Value::as_str);
    code.filter(|c| c.len() <= limits::WORK_TEXT_CHARS_MAX).unwrap_or("failed").to_owned()
}

/// The schema a tool's output is held against.
fn output_schema(state: &State, unit: &work::Unit) -> Option<(ResourceNo, u64, std::sync::Arc<str>)> {
    let work::WorkPlace::Resource(no) = unit.place else { return None };
    let resource = state.resource(no)?;
    Some((no, resource.version, super::change::output_schema(resource)?))
}

/// An owner that acks a change to its requester has made it: the ack ends the unit, as an event that is not lost.
/// Gives whether it did.
pub(crate) fn answered(
    state: &State,
    by: MemberId,
    request: &str,
    payload: &str,
    now: Clock,
    fx: &mut Effects,
) -> bool {
    let found = state.work.replies.get(request).and_then(|no| Some((*no, state.unit(*no)?)));
    let Some((no, unit)) = found.filter(|(_, u)| u.kind == UnitKind::Update && u.executor == Some(by)) else {
        return false;
    };
    work::completed_by_ack(state, no, unit, payload, now, fx);
    true
}
