//! Whether a join is admitted: credentials, level, room, and whose the name is (OpenAgents sheet, section 1.3).
//!
//! Not here: who may take a name that somebody has (`rights`).

use super::carried;
use crate::credential::NameHold;
use crate::input::{Clock, Emit, ProvedName, Question, Stop};
use crate::invites::{self, Invite};
use crate::presence::SESSION_IDLE_MS;
use crate::rights::{self, Brings};
use crate::state::{Member, MemberId, State};
use rialto_model::address::{Address, Entity};
use rialto_model::network::{Policy, Takeover, Token};
use rialto_model::{ErrorCode, Fault, Role, limits};
use serde_json::json;
use std::sync::Arc;

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
    /// What its proofs gave.
    pub(super) proved: Option<Arc<ProvedName>>,
}

/// Steps 3 to 9.
pub(super) fn admit(
    state: &State,
    input: &Emit<'_>,
    address: &Address,
    known: Option<MemberId>,
    now: Clock,
) -> Result<Admission, Stop> {
    if let Some(via) = &input.caller.via {
        return Ok(carried::admit(state, via, address, known)?);
    }
    let settings = &state.book.settings;
    let proofs = &input.proofs;
    let prefix = registrar_of(address);
    if let Some(prefix) =
        prefix.filter(|prefix| !matches!(*prefix, "key" | "web") && !state.registrars.contains(*prefix))
    {
        let text = format!("no registrar is configured for {prefix}: the operator names one (registrars.{prefix})");
        return Err(Fault::new(ErrorCode::UnknownRegistrar, text).into());
    }
    let proved = what_is_proved(state, input, address, now)?;
    let proved_level = proved.as_ref().map_or(0, |proved| proved.level);
    // Its own session speaks for a member at the level it joined with.
    let shows_session = kept_session(state, input, known, now).and(known).and_then(|id| state.member(id));
    let level = shows_session.map_or(0, |m| m.verification).max(proved_level);
    let is_pinned = state.book.pins.contains_key(address.as_str());
    if level == 0 {
        let claimed = prefix == Some("openagents") && settings.unverified_openagents;
        if is_pinned || prefix.is_some() && (!claimed || is_registered(input, address)?) {
            return Err(level_fault(address, 1, 0, is_pinned).into());
        }
    }
    let member = known.and_then(|id| state.member(id));
    // Who is carried from elsewhere gives way to who is here.
    let gives_way = member.is_some_and(|m| m.via.is_some());
    let member = member.filter(|_| !gives_way);
    let shown: Vec<&[u8; 32]> = proofs.tokens.iter().chain(&input.caller.bearer).collect();
    let owns_session = shows_session.is_some();
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
                    )
                    .into());
                }
                None if owns_session => {}
                // An invitation stands in for the token.
                None if invite.is_some() => {}
                None if shown.is_empty() => return Err(missing(false).into()),
                None => {
                    return Err(Fault::new(
                        ErrorCode::InvalidToken,
                        "the token is not valid here: it is unknown, revoked or expired; ask for a new one",
                    )
                    .into());
                }
            }
        }
        Policy::Invite if member_now && owns_session || invite.is_some() => {}
        Policy::Invite => return Err(missing(true).into()),
        Policy::DidVerify if proved_level == 3 => {}
        Policy::DidVerify => {
            return Err(Fault::new(
                ErrorCode::DidRequired,
                "this network admits proven DIDs only: show a DID and its proof",
            )
            .into());
        }
    }
    if level < settings.min_verification {
        return Err(level_fault(address, settings.min_verification, level, is_pinned).into());
    }
    // The operator always has room.
    let full_here = state.own_member_count() >= settings.max_members.min(limits::MEMBERS_MAX);
    if (known.is_none() || gives_way) && full_here && !input.caller.operator {
        return Err(super::full(state).into());
    }
    let brings = brings(state, input, address, (invite.as_deref(), proved_level > 0), now);
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
    let proves = owns_session || bound || proved_level > 0 || input.caller.operator;
    let seats = |id: &str| state.book.invites.get(id).is_some_and(|i| i.channel.is_some());
    let invite = invite.filter(|id| !(member_now && proves) || seats(id));
    Ok(Admission { level, freed, invite, brings, proved })
}

/// The prefix of an address that a registrar gives out, or that proves itself.
fn registrar_of(address: &Address) -> Option<&str> {
    match address.entity() {
        Entity::Registered { prefix, .. } => Some(prefix),
        Entity::Core
        | Entity::Agent(_)
        | Entity::Human(_)
        | Entity::Channel(_)
        | Entity::Mod(_)
        | Entity::Group(_)
        | Entity::Resource { .. } => None,
    }
}

/// Step 4: the best of what the join proves. It is asked for where credentials say something; what does not hold is refused there.
fn what_is_proved(
    state: &State,
    input: &Emit<'_>,
    address: &Address,
    now: Clock,
) -> Result<Option<Arc<ProvedName>>, Stop> {
    let shown = match (&input.answers.proved, input.proofs.presented) {
        (Some(proved), _) => Some(proved.clone()),
        (None, false) => None,
        (None, true) => {
            let pinned = state.book.pins.get(address.as_str()).cloned();
            return Err(Stop::Ask(Box::new(Question::Proofs { address: address.as_str().into(), pinned })));
        }
    };
    if let Some(shown) = &shown {
        // What was revoked while it was looked at counts.
        state.holds(shown, now)?;
    }
    if let Some(bearer) = &input.caller.proved {
        state.holds(bearer, now)?;
        if *bearer.address != *address.as_str() {
            let text = format!("the bearer's token proves {}, not {address}", bearer.address);
            return Err(Fault::new(ErrorCode::VerificationFailed, text).into());
        }
    }
    let proved: Vec<Arc<ProvedName>> = shown.into_iter().chain(input.caller.proved.clone()).collect();
    if state.book.settings.require_audience && proved.iter().any(|proved| proved.for_anybody) {
        let text =
            "this network takes only tokens that are made for it: ask the registrar for one with its id as audience";
        return Err(Fault::new(ErrorCode::VerificationFailed, text).into());
    }
    Ok(proved.into_iter().max_by_key(|proved| proved.level))
}

/// Whether an address that may be claimed has a key at its registrar: then it may not.
fn is_registered(input: &Emit<'_>, address: &Address) -> Result<bool, Stop> {
    match &input.answers.registered {
        Some((asked, known)) if **asked == *address.as_str() => Ok(*known),
        Some(_) | None => Err(Stop::Ask(Box::new(Question::Registered { address: address.as_str().into() }))),
    }
}

/// What a join shows for the name it wants. An invitation makes a new name its guest's own; over a name that somebody has it
/// counts only if the operator made it for that name: any member invites.
fn brings(
    state: &State,
    input: &Emit<'_>,
    address: &Address,
    (invite, proved): (Option<&str>, bool),
    now: Clock,
) -> Brings {
    let token = shown_token(state, input, address.as_str(), now);
    let invite = invite.and_then(|id| state.book.invites.get(id));
    let bound = token.is_some_and(|t| t.agent.is_some());
    let by_operator = |i: &Invite| i.inviter.is_none() && i.invitee.as_deref() == Some(address.as_str());
    let proves = bound || invite.is_some_and(by_operator);
    let twin = rights::twin(address.as_str()).and_then(|twin| state.member_id(&twin));
    let fresh = state.known_as(address.as_str()).is_none() && twin.is_none();
    let hold = match token {
        _ if proves || proved || invite.is_some() && fresh => NameHold::Owned,
        Some(token) if token.role.is_some_and(|role| role > Role::Member) => NameHold::Narrowed,
        Some(_) => NameHold::Token,
        None if input.caller.operator || invite.is_some() => NameHold::Token,
        None => NameHold::Nothing,
    };
    Brings { hold, proves, proved, operator: input.caller.operator }
}

/// Step 9: whether somebody who does not show the current session may have the name; true if its owner was away too long.
fn frees_name(state: &State, member: &Member, input: &Emit<'_>, brings: Brings, now: Clock) -> Result<bool, Fault> {
    let taken = |how: &str| Fault::new(ErrorCode::AddressTaken, format!("{} is in use: {how}", member.address));
    if brings.operator || brings.proves || brings.proved {
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

/// The level is too low; says by what this address could be proved well enough.
pub(super) fn level_fault(address: &Address, required: u8, presented: u8, pinned: bool) -> Fault {
    let methods: &[&str] = match (registrar_of(address), required) {
        (None, 0 | 1) if pinned => &["key"],
        (None, _) | (_, 0) => &[],
        (Some("key" | "web"), _) => &["did"],
        (Some(_), 1) => &["key", "jwt", "did"],
        (Some(_), 2) => &["jwt", "did"],
        (Some(_), _) => &["did"],
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
