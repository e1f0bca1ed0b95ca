//! Whether a join is admitted: credentials, level, room, and whose the name is (OpenAgents sheet, section 1.3).
//!
//! Not here: who may take a name that somebody has (`rights`).

use super::carried;
use crate::credential::NameHold;
use crate::input::{Clock, Emit};
use crate::invites::{self, Invite};
use crate::presence::SESSION_IDLE_MS;
use crate::rights::{self, Brings};
use crate::state::{Member, MemberId, State};
use rialto_model::address::{Address, Entity};
use rialto_model::network::{Policy, Takeover, Token};
use rialto_model::{ErrorCode, Fault, Role, limits};
use serde_json::json;

/// What the checks of a join give.
pub(super) struct Admission {
    /// Verification level.
    pub(super) level: u8,
    /// The name's last owner was away too long: its membership goes first.
    pub(super) freed: bool,
    /// The invitation that is used.
    pub(super) invite: Option<Box<str>>,
    /// What the name is taken with.
    pub(super) brings: Brings,
}

/// Steps 3 to 9.
pub(super) fn admit(
    state: &State,
    input: &Emit<'_>,
    address: &Address,
    known: Option<MemberId>,
    now: Clock,
) -> Result<Admission, Fault> {
    if let Some(via) = &input.caller.via {
        return carried::admit(state, via, address, known);
    }
    let settings = &state.book.settings;
    let proofs = &input.proofs;
    if let Entity::Registered { prefix, .. } = address.entity()
        && !matches!(prefix, "openagents" | "key" | "web")
    {
        return Err(Fault::new(ErrorCode::UnknownRegistrar, format!("no registrar is configured for {prefix}:")));
    }
    if let Some(fault) = &proofs.failed {
        return Err(fault.clone());
    }
    let unproved_ok = |prefix: &str| prefix == "openagents" && settings.unverified_openagents;
    if let Entity::Registered { prefix, .. } = address.entity()
        && proofs.level == 0
        && !unproved_ok(prefix)
    {
        return Err(level_fault(1, 0));
    }
    let member = known.and_then(|id| state.member(id));
    // Who is carried from elsewhere gives way to who is here.
    let gives_way = member.is_some_and(|m| m.via.is_some());
    let member = member.filter(|_| !gives_way);
    let shown: Vec<&[u8; 32]> = proofs.tokens.iter().chain(&input.caller.bearer).collect();
    let owns_session = kept_session(state, input, known, now).is_some();
    let invite = proofs.invite.as_ref().and_then(|hash| invites::usable(state, hash, address.as_str(), now));
    let member_now = member.is_some_and(|m| !m.left);
    let missing = |invites_only: bool| match (proofs.invite.is_some(), invites_only) {
        (true, _) => Fault::new(
            ErrorCode::InviteInvalid,
            "the invitation is not valid here: it is unknown, used up, withdrawn, expired or for somebody else; ask for a new one",
        ),
        (false, true) => {
            Fault::new(ErrorCode::InviteRequired, "this network admits invited addresses only: show an invitation")
        }
        (false, false) => Fault::new(
            ErrorCode::TokenRequired,
            "this network admits who shows its token: give it as Bearer or in credentials",
        ),
    };
    match settings.policy {
        _ if state.is_open() => {}
        _ if input.caller.operator => {}
        Policy::Token | Policy::Open => {
            let token = shown.iter().find_map(|t| state.token(t, now));
            match token {
                Some(_) if shown_token(state, input, address.as_str(), now).is_some() => {}
                Some(_) => {
                    return Err(Fault::new(
                        ErrorCode::InvalidToken,
                        "this token was made for another agent: join under that name, or show another token",
                    ));
                }
                None if owns_session => {}
                // An invitation stands in for the token.
                None if invite.is_some() => {}
                None if shown.is_empty() => return Err(missing(false)),
                None => {
                    return Err(Fault::new(
                        ErrorCode::InvalidToken,
                        "the token is not valid here: it is unknown, revoked or expired; ask for a new one",
                    ));
                }
            }
        }
        Policy::Invite if member_now && owns_session || invite.is_some() => {}
        Policy::Invite => return Err(missing(true)),
        Policy::DidVerify if proofs.level == 3 => {}
        Policy::DidVerify => {
            return Err(Fault::new(
                ErrorCode::DidRequired,
                "this network admits proven DIDs only: show a DID and its proof",
            ));
        }
    }
    // Its own session speaks for a member at the level it joined with.
    let level = member.filter(|_| owns_session).map_or(0, |m| m.verification).max(proofs.level);
    if level < settings.min_verification {
        return Err(level_fault(settings.min_verification, level));
    }
    // The operator always has room.
    let full_here = state.own_member_count() >= settings.max_members.min(limits::MEMBERS_MAX);
    if (known.is_none() || gives_way) && full_here && !input.caller.operator {
        return Err(super::full(state));
    }
    let brings = brings(state, input, address, invite.as_deref(), now);
    if !owns_session {
        state.may_take(address, member, brings)?;
    }
    let freed = match member {
        Some(member) if !owns_session => frees_name(state, member, input, brings, now)?,
        _ => gives_way,
    };
    // A member that is there and proves it needs no invitation; one into a channel still seats it. Whoever proves nothing else came
    // in by the invitation, which is used, and whose end is the session's.
    let bound = shown_token(state, input, address.as_str(), now).is_some_and(|t| t.agent.is_some());
    let proves = owns_session || bound || proofs.level > 0 || input.caller.operator;
    let seats = |id: &str| state.book.invites.get(id).is_some_and(|i| i.channel.is_some());
    let invite = invite.filter(|id| !(member_now && proves) || seats(id));
    Ok(Admission { level, freed, invite, brings })
}

/// What a join shows for the name it wants. An invitation makes a new name its guest's own; over a name that somebody has it
/// counts only if the operator made it for that name: any member invites.
fn brings(state: &State, input: &Emit<'_>, address: &Address, invite: Option<&str>, now: Clock) -> Brings {
    let token = shown_token(state, input, address.as_str(), now);
    let invite = invite.and_then(|id| state.book.invites.get(id));
    let bound = token.is_some_and(|t| t.agent.is_some());
    let by_operator = |i: &Invite| i.inviter.is_none() && i.invitee.as_deref() == Some(address.as_str());
    let proves = input.proofs.level > 0 || bound || invite.is_some_and(by_operator);
    let twin = rights::twin(address.as_str()).and_then(|twin| state.member_id(&twin));
    let fresh = state.known_as(address.as_str()).is_none() && twin.is_none();
    let hold = match token {
        _ if proves || invite.is_some() && fresh => NameHold::Owned,
        Some(token) if token.role.is_some_and(|role| role > Role::Member) => NameHold::Narrowed,
        Some(_) => NameHold::Token,
        None if input.caller.operator || invite.is_some() => NameHold::Token,
        None => NameHold::Nothing,
    };
    Brings { hold, proves, operator: input.caller.operator }
}

/// Step 9: whether somebody who does not show the current session may have the name; true if its owner was away too long.
fn frees_name(state: &State, member: &Member, input: &Emit<'_>, brings: Brings, now: Clock) -> Result<bool, Fault> {
    let taken = |how: &str| Fault::new(ErrorCode::AddressTaken, format!("{} is in use: {how}", member.address));
    if brings.operator || brings.proves {
        return Ok(false);
    }
    if member.verification > 0 {
        return Err(taken("prove that it is yours"));
    }
    let secret = state.book.settings.takeover == Takeover::Secret || state.book.settings.policy == Policy::Invite;
    if !secret || member.lax && member.sessions.is_empty() && member.revoked.is_empty() && member.expired.is_empty() {
        return Ok(false);
    }
    let last = [member.revoked.last(), member.expired.last()];
    let shows_last = [input.caller.session.as_ref(), input.caller.bearer.as_ref()]
        .into_iter()
        .flatten()
        .any(|hash| last.contains(&Some(hash)));
    if !member.sessions.is_empty() {
        return Err(taken("show its session id"));
    }
    if shows_last {
        return Ok(false);
    }
    // A session that ended by time was idle for as long as a name is kept.
    if member.left && now.steady < member.left_at.saturating_add(SESSION_IDLE_MS) {
        return Err(taken("show its last session id"));
    }
    Ok(true)
}

pub(super) fn level_fault(required: u8, presented: u8) -> Fault {
    let methods = match required {
        0 => json!([]),
        1 => json!(["key", "jwt", "did"]),
        2 => json!(["jwt", "did"]),
        _ => json!(["did"]),
    };
    let details = json!({ "required": required, "presented": presented, "methods": methods });
    Fault::new(
        ErrorCode::VerificationRequired,
        format!("this takes a name proven to verification level {required}; yours is proven to level {presented}"),
    )
    .details(details)
}

/// The current session, if the join presents it and what it was made with still holds: then nothing rotates.
pub(super) fn kept_session(state: &State, input: &Emit<'_>, known: Option<MemberId>, now: Clock) -> Option<u64> {
    let number = shows_session(state, input, known)?;
    let member = state.member(known?)?;
    state.expired_credential(member, member.session(number)?, now).is_none().then_some(number)
}

/// The session of this member that the join presents.
pub(super) fn shows_session(state: &State, input: &Emit<'_>, known: Option<MemberId>) -> Option<u64> {
    let shown = [input.caller.session.as_ref(), input.caller.bearer.as_ref()];
    shown.into_iter().flatten().find_map(|hash| {
        state.sessions.get(hash).filter(|(member, _)| Some(*member) == known).map(|(_, number)| *number)
    })
}

/// The token that a join shows and that speaks for its address: the one for that name, if there is one.
pub(super) fn shown_token<'s>(state: &'s State, input: &Emit<'_>, address: &str, now: Clock) -> Option<&'s Token> {
    let shown = || input.proofs.tokens.iter().chain(&input.caller.bearer).filter_map(|t| state.token(t, now));
    let speaks = || shown().filter(|t| t.speaks_for(address));
    speaks().find(|t| t.agent.is_some()).or_else(|| speaks().next())
}
