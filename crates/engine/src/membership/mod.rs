//! Membership: who belongs to the network, and how that ends (OpenAgents sheet, section 1.5).
//!
//! Not here: joining (`join`), whether a join is admitted (`admission`), and members whose first event joins them (`guest`).

mod admission;
mod carried;
mod guest;
mod join;
pub(crate) mod newcomer;

pub(crate) use guest::{Guest, guest};
pub(crate) use join::join;

use crate::audit;
use crate::emit::{self, EmitDraft};
use crate::input::{Accepted, Clock, Effect, Effects, Stop};
use crate::mods::external::serve;
use crate::presence::VolatileState;
use crate::record::Change;
use crate::rights;
use crate::server_events;
use crate::state::{Member, MemberId, State};
use join::{JoinWish, member_record};
use rialto_model::address::{Address, Entity};
use rialto_model::error::Scope;
use rialto_model::member::{Profile, Receive};
use rialto_model::payload::{Leaving, Removal};
use rialto_model::view::AdminOutcome;
use rialto_model::{ErrorCode, Fault, Role, Seq, limits};
use serde_json::json;

/// Names nobody may join under.
const RESERVED: &[&str] = &["broadcast", "core", "local", "system"];
/// The channel every member of a workspace network is seated in.
pub(crate) const DEFAULT_CHANNEL: &str = "general";

/// Whether anybody can be a member under this address.
pub(crate) fn may_be_joined(address: &Address) -> bool {
    let fits = match address.entity() {
        Entity::Agent(name) => !RESERVED.contains(&name),
        Entity::Human(_) => true,
        Entity::Registered { prefix, .. } => prefix != "system",
        Entity::Core | Entity::Channel(_) | Entity::Mod(_) | Entity::Group(_) | Entity::Resource { .. } => false,
    };
    fits && !address.is_foreign()
}

/// What a member says of itself is kept with the state, so it is bounded.
/// The refusal of one more member.
pub(crate) fn full(state: &State) -> Fault {
    let limit = state.book.settings.max_members.min(limits::MEMBERS_MAX);
    let text = format!("this network has reached its limit of {limit} members: remove some, or raise max_members");
    Fault::full(Scope::Network, limit, text)
}

pub(crate) fn check_profile(profile: &Profile) -> Result<(), Fault> {
    let bytes = serde_json::to_vec(profile).map_or(0, |json| json.len());
    if bytes <= limits::PROFILE_BYTES_MAX {
        return Ok(());
    }
    let text = format!("what a member says of itself is at most {} bytes", limits::PROFILE_BYTES_MAX);
    Err(Fault::new(ErrorCode::TooLarge, text).field("payload"))
}

/// `network.agent.leave`: offline, nothing new is queued; with `forget` the membership is deleted.
pub(crate) fn leave(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    let id = draft.member;
    let Some(member) = state.member(id) else { return Err(ErrorCode::NotAMember.into()) };
    let forget = draft.said::<Leaving>()?.forget.unwrap_or(false);
    let (address, role) = (member.address.clone(), member.role());
    let numbers: Vec<u64> = member.sessions.iter().map(|s| s.number).collect();
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    serve::left(state, live, id, now, fx);
    fx.change(Change::Queueing { member: id, on: false, left: true, receive: member.receive });
    fx.change(Change::SessionEnded { member: id, numbers: numbers.clone(), expired: false, voided: false });
    if !forget {
        crate::work::owner_left(state, id, now, fx);
    }
    if forget {
        remove(state, id, "recipient_left", now, fx);
    }
    live.presence.remove(id);
    server_events::presence_signal(state, live, &address, role, false, now, fx);
    fx.after.push(Effect::Revoked { member: id, numbers, code: ErrorCode::SessionRevoked });
    accepted.left = true;
    accepted.says(json!({ "address": address, "status": "offline" }));
    Ok(accepted)
}

/// Deletes a membership: its pending mail becomes dead letters first. Gives who follows a removed master.
pub(crate) fn remove(state: &State, id: MemberId, reason: &str, now: Clock, fx: &mut Effects) -> Option<MemberId> {
    let member = state.member(id)?;
    // Work ends because its executor is gone, not because a request in its mail dies with it.
    crate::work::without_member(state, id, now, fx);
    let seqs: Vec<Seq> = state.pending(id, 0, Seq::MAX).collect();
    crate::tick::dead_letters(state, id, &seqs, reason, now, fx);
    crate::resources::orphaned(state, id, fx);
    if let Some(face) = &member.via {
        fx.after.push(Effect::CarriedGone { face: face.clone(), address: member.address.clone() });
    }
    rights::member_removed(state, id, fx);
    fx.change(Change::Removed { member: id });
    // Where the network's token manages, some agent always does; elsewhere the operator makes masters.
    let others = || state.roster().filter(|(other, m)| *other != id && !m.is_human() && m.via.is_none());
    let succeeded = state.book.settings.token_manages && member.granted == Role::Master;
    if !succeeded || others().any(|(_, m)| m.granted == Role::Master) {
        return None;
    }
    let members = || others().filter(|(_, m)| m.role() == Role::Member);
    let (successor, _) = members().find(|(_, m)| m.is_present()).or_else(|| members().next())?;
    fx.change(Change::Role { member: successor, role: Role::Master });
    Some(successor)
}

/// `network.agent.remove` by a master, a human or the operator.
pub(crate) fn remove_agent(
    state: &State,
    live: &mut VolatileState,
    draft: EmitDraft<'_, '_>,
    now: Clock,
    fx: &mut Effects,
) -> Result<Accepted, Stop> {
    if !state.manages(draft.member, draft.role) {
        return Err(Fault::new(
            ErrorCode::Forbidden,
            "only the operator and masters, whom the operator makes, remove members",
        )
        .into());
    }
    let Removal { address, agent_name } = draft.said()?;
    let name = address.or(agent_name).unwrap_or_default();
    let id = find_named(state, &name)
        .ok_or_else(|| Fault::new(ErrorCode::UnknownTarget, format!("{name:?} is not a member")))?;
    let entry = audit::entry(state, &crate::AdminOp::Remove(name), draft.address.as_ref().into(), None, now);
    let mut accepted = emit::commit(state, live, draft, now, fx)?;
    fx.change(entry);
    serve::left(state, live, id, now, fx);
    let new_master =
        remove(state, id, "recipient_left", now, fx).and_then(|m| state.member(m)).map(|m| m.address.clone());
    live.presence.remove(id);
    let mut result = json!({ "status": "removed" });
    if let (Some(address), Some(map)) = (new_master, result.as_object_mut()) {
        map.insert("new_master".into(), json!(address));
    }
    accepted.says(result);
    Ok(accepted)
}

/// A member by address or bare name, under either prefix.
pub(crate) fn find_named(state: &State, name: &str) -> Option<MemberId> {
    let address = Address::parse_in(name, &state.network).ok()?;
    let twin = || {
        let Entity::Agent(name) = address.entity() else { return None };
        state.member_id(&format!("openagents:{name}"))
    };
    state.member_id(address.as_str()).or_else(twin).or_else(|| state.known_as(address.as_str()))
}

/// The operator makes somebody a member: who it is has to be shown when it joins.
pub(crate) fn enroll(
    state: &State,
    address: &str,
    agent_type: Option<&str>,
    now: Clock,
    fx: &mut Effects,
) -> Result<AdminOutcome, Fault> {
    let parsed = Address::parse_in(address, &state.network)
        .map_err(|e| Fault::new(ErrorCode::InvalidAddress, format!("{address:?}: {e}")))?;
    if !may_be_joined(&parsed) {
        return Err(Fault::new(ErrorCode::InvalidAddress, format!("nobody can join as {parsed}")));
    }
    if state.member_id(parsed.as_str()).is_some() {
        return Err(Fault::new(ErrorCode::AlreadyExists, format!("{parsed} is a member")));
    }
    if state.own_member_count() >= state.book.settings.max_members.min(limits::MEMBERS_MAX) {
        return Err(full(state));
    }
    let id = u32::try_from(state.book.members.len()).unwrap_or(u32::MAX);
    let wish = JoinWish::of_kind(agent_type);
    let first = !state.roster().any(|(_, m)| !m.is_human()) && !matches!(parsed.entity(), Entity::Human(_));
    let granted = if state.book.settings.token_manages && first { Role::Master } else { Role::Member };
    let receive = if state.has_mod("persistence") { Receive::Log } else { Receive::Queue };
    let record = member_record(None, &parsed, &wish, 0, receive, state.book.head, state.stamp(now.wall));
    check_profile(&record.profile)?;
    fx.change(Change::Joined { member: id, record: Box::new(Member { granted, lax: true, ..record }) });
    if let Some(channel) = state.channel_id(DEFAULT_CHANNEL) {
        fx.change(Change::Seated { channel, member: id });
    }
    Ok(AdminOutcome::Role { address: Some(parsed.as_str().into()), role: granted })
}
