//! Who may do what: the one place that decides it. `docs/rights.md` has the table, `vectors/rights.json` its cells.
//!
//! Invariant: a session never may more than what it was made with, and nothing outlives the credential behind it.
//! Not here: who somebody is (`principal`), and rules of resources (`resources::access`).

use crate::admin::AdminOp;
use crate::credential::{NameHold, Session};
use crate::input::{Caller, Clock, Effect, Effects};
use crate::invites::Invite;
use crate::presence::{USED_EVERY_MS, VolatileState};
use crate::principal::Principal;
use crate::record::Change;
use crate::state::{Member, MemberId, State};
use rialto_model::address::{Address, Entity};
use rialto_model::network::{Names, Preset, SessionBinding, Token};
use rialto_model::view::{MemberSessions, MembersList, SessionView};
use rialto_model::{ErrorCode, Fault, Role};
use std::collections::BTreeSet;

/// Names of people that the operator alone has.
const RESERVED_PEOPLE: &[&str] = &["operator"];

/// Whether the name is given by the operator only.
pub(crate) fn is_reserved(address: &Address) -> bool {
    matches!(address.entity(), Entity::Human(name) if RESERVED_PEOPLE.contains(&name))
}

/// The same agent under the other prefix of its name.
pub(crate) fn twin(address: &str) -> Option<String> {
    match address.split_once(':')? {
        ("agent", name) => Some(format!("openagents:{name}")),
        ("openagents", name) => Some(format!("agent:{name}")),
        _ => None,
    }
}

fn taken(address: &str, how: &str) -> Fault {
    Fault::new(ErrorCode::AddressTaken, format!("{address} is in use: {how}"))
}

/// What a join brings besides its current session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Brings {
    /// The strongest credential.
    pub(crate) hold: NameHold,
    /// It proves that this very name is the joiner's.
    pub(crate) proves: bool,
    /// The operator speaks.
    pub(crate) operator: bool,
}

impl State {
    /// Whether a name belongs to its member: then only proof takes it.
    pub(crate) fn is_owned(&self, member: &Member) -> bool {
        let past = [&member.revoked, &member.expired, &member.voided];
        let had_sessions = || !member.sessions.is_empty() || past.iter().any(|hashes| !hashes.is_empty());
        let every = !self.book.settings.token_manages && self.book.settings.names == Names::Owned;
        member.hold == NameHold::Owned || every && member.hold != NameHold::Nothing && had_sessions()
    }

    /// What a name is held by after a join.
    pub(crate) fn held(&self, old: Option<&Member>, address: &Address, brings: Brings) -> NameHold {
        let settings = &self.book.settings;
        let person = matches!(address.entity(), Entity::Human(_));
        let owns = !settings.token_manages && (person || settings.names == Names::Owned);
        let hold = if owns { NameHold::Owned } else { brings.hold };
        old.map_or(hold, |old| old.hold.max(hold))
    }

    /// Whether somebody who shows no current session of the name may have it.
    pub(crate) fn may_take(&self, address: &Address, known: Option<&Member>, brings: Brings) -> Result<(), Fault> {
        let name = address.as_str();
        if is_reserved(address) && !brings.operator && !crate::bugs::on("operator's name given to a member") {
            return Err(taken(name, "it is the operator's, and given by the browser link of `rialto up`"));
        }
        if brings.operator || brings.proves {
            return Ok(());
        }
        let bug = crate::bugs::on("weaker credential takes a name");
        if let Some(member) = known.filter(|_| !bug) {
            if self.is_owned(member) {
                return Err(taken(
                    name,
                    "it belongs to who has it: show its session id or a token for this name, or have the operator release it \
                     (rialto member release)",
                ));
            }
            if brings.hold < member.hold {
                return Err(taken(name, "it was taken with more than what you show"));
            }
            return Ok(());
        }
        let other = twin(name).and_then(|twin| self.member_id(&twin)).and_then(|id| self.member(id));
        if let Some(other) = other.filter(|other| self.is_owned(other) || other.hold > brings.hold) {
            return Err(taken(name, &format!("{} is the same name", other.address)));
        }
        if let Some(now) = self.book.former.get(name).and_then(|id| self.member(*id)).filter(|_| known.is_none()) {
            let how = format!("it leads to {}, who had it before; the operator releases it", now.address);
            return Err(taken(name, &how));
        }
        Ok(())
    }

    /// What a member may do as this caller: never more than its session, or the token that speaks for it.
    pub fn role_of(&self, caller: &Caller, id: MemberId, now: Clock) -> Role {
        let Some(member) = self.member(id) else { return Role::Observer };
        match self.session_number(caller) {
            Some(number) => member.role_in(number),
            None if caller.operator => member.granted,
            None => {
                let token = caller.bearer.as_ref().and_then(|hash| self.token(hash, now));
                token.and_then(|t| t.role).map_or(member.role(), |cap| member.granted.max(cap))
            }
        }
    }

    /// The session that a caller speaks in, if it is in one.
    fn session_number(&self, caller: &Caller) -> Option<u64> {
        let shown = [caller.session.as_ref(), caller.bearer.as_ref()];
        let session = || shown.into_iter().flatten().find_map(|hash| self.sessions.get(hash));
        caller.stream.map(|stream| stream.number).or_else(|| session().map(|(_, number)| *number))
    }

    /// Label of the token that a member came with as this caller, or that who invited it came with.
    pub(crate) fn token_behind(&self, caller: &Caller, id: MemberId, now: Clock) -> Option<Box<str>> {
        let Some(number) = self.session_number(caller) else {
            let token = caller.bearer.as_ref().and_then(|hash| self.token(hash, now));
            return token.map(|token| token.label.as_str().into());
        };
        let member = self.member(id)?;
        let session = member.sessions.iter().find(|session| session.number == number)?;
        stands_on(member, session).map(Box::from)
    }

    /// Whether the caller manages the network: roles, tokens, settings, invitations, removal of others. That is the
    /// operator, and a master, whom only the operator makes. Where the network's token manages, also people and whoever
    /// holds a token that is not narrowed.
    pub fn may_manage(&self, caller: &Caller, now: Clock) -> bool {
        match self.principal(caller, None, now) {
            Ok(Principal::Operator) => true,
            Ok(Principal::Member(id)) => self.manages(id, self.role_of(caller, id, now)),
            Ok(Principal::Holder { .. }) | Err(_) => {
                let token = caller.bearer.as_ref().and_then(|hash| self.token(hash, now));
                let manages = self.book.settings.token_manages || crate::bugs::on("bare token manages unasked");
                manages && token.is_some_and(|t| t.role.is_none() && t.agent.is_none())
            }
        }
    }

    /// Refuses an act on the network that is not the caller's to do.
    pub(crate) fn may_act(&self, op: &AdminOp, caller: &Caller, now: Clock) -> Result<(), Fault> {
        let principal = self.principal(caller, None, now)?;
        let (fine, takes) = match needed(op, self.book.settings.token_manages) {
            RequiredRight::Operator => (principal == Principal::Operator, "the operator"),
            RequiredRight::Manage => {
                (self.may_manage(caller, now), "the operator or a master, whom the operator makes")
            }
            RequiredRight::Arrange => {
                (self.may_arrange(caller, now), "a master, a person, the workspace's token or the operator")
            }
        };
        if fine {
            Ok(())
        } else {
            Err(Fault::new(ErrorCode::Forbidden, format!("you may not do this: it takes {takes}")))
        }
    }

    /// Whether the caller arranges the conversations of a workspace: makes sessions, titles them, puts them away. That is who
    /// manages, people, and where sessions are not asked for, whoever holds a token that is not narrowed.
    pub fn may_arrange(&self, caller: &Caller, now: Clock) -> bool {
        if self.may_manage(caller, now) {
            return true;
        }
        let settings = &self.book.settings;
        match self.principal(caller, None, now) {
            Ok(Principal::Operator) => true,
            Ok(Principal::Member(id)) => {
                let person = self.member(id).is_some_and(Member::is_human);
                person && settings.profile == Preset::Workspace && self.role_of(caller, id, now) != Role::Observer
            }
            Ok(Principal::Holder { .. }) | Err(_) => {
                let token = caller.bearer.as_ref().and_then(|hash| self.token(hash, now));
                let lax = settings.session_binding == SessionBinding::Lax;
                lax && token.is_some_and(|t| t.role.is_none() && t.agent.is_none())
            }
        }
    }

    /// Whether a member manages the network in this role.
    pub(crate) fn manages(&self, id: MemberId, role: Role) -> bool {
        let person = || self.member(id).is_some_and(Member::is_human);
        role == Role::Master || self.book.settings.token_manages && role == Role::Member && person()
    }

    /// Why a session is no good any more, if what it was made with has expired. What was revoked ends sessions itself.
    pub(crate) fn expired_credential(&self, member: &Member, session: &Session, now: Clock) -> Option<Fault> {
        let label = stands_on(member, session)?;
        let good = |t: &Token| t.label == label && t.expires_at.is_none_or(|end| now.wall < end);
        if crate::bugs::on("revoked session goes on") || self.book.tokens.iter().any(good) {
            return None;
        }
        Some(voided())
    }

    /// Members as the operator sees them: what each name is held by, and its sessions, without any secret.
    pub fn credentials(&self, live: &VolatileState, now: Clock) -> MembersList {
        let wall = |steady: u64| now.wall.saturating_sub(now.steady.saturating_sub(steady));
        let members = self.roster().map(|(id, m)| {
            let used =
                live.presence.get(id).map_or(m.used_at, |p| if p.streams > 0 { now.steady } else { p.last_call });
            let session = |s: &Session| SessionView {
                session: s.number,
                created_at: s.created_at,
                token: s.token.as_deref().map(str::to_owned),
                role: m.role_in(s.number),
                invitation: s.invited.as_ref().map(|i| i.by.clone()),
            };
            MemberSessions {
                address: m.address.clone(),
                role: m.granted,
                owned: self.is_owned(m),
                left: m.left,
                online: live.is_online(id, now),
                last_seen_at: (used > 0).then(|| wall(used)),
                former: m.former.clone(),
                verification: m.verification,
                sessions: m.sessions.iter().map(session).collect(),
            }
        });
        MembersList { members: members.collect() }
    }
}

/// Label of the token a session was made with. Sessions of an older release do not say: their member does.
fn made_with<'s>(member: &'s Member, session: &'s Session) -> Option<&'s str> {
    let older = member.token.as_deref().filter(|_| session.began.is_none());
    session.token.as_deref().or(older)
}

/// The token whose end ends a session: what it was made with, or what who invited it came with.
fn stands_on<'s>(member: &'s Member, session: &'s Session) -> Option<&'s str> {
    made_with(member, session).or_else(|| session.invited.as_ref().and_then(|invited| invited.token.as_deref()))
}

/// Who an act takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequiredRight {
    Operator,
    /// The operator, or who manages.
    Manage,
    /// Who manages, and who arranges conversations.
    Arrange,
}

fn needed(op: &AdminOp, token_manages: bool) -> RequiredRight {
    match op {
        // Who manages makes no second one, except where everybody with the token does.
        AdminOp::Role(_, Role::Master) if !token_manages => RequiredRight::Operator,
        AdminOp::Settings(_)
        | AdminOp::AddToken(_)
        | AdminOp::RotateToken(_)
        | AdminOp::RevokeToken(_)
        | AdminOp::Role(..)
        | AdminOp::Remove(_)
        | AdminOp::SetGroup(..)
        | AdminOp::DeleteGroup(_)
        | AdminOp::LoadMod(_)
        | AdminOp::SetMod(_)
        | AdminOp::ChangeMod(..)
        | AdminOp::RemoveMod(_)
        | AdminOp::OrderMods(..)
        | AdminOp::Invite(..)
        | AdminOp::EndInvite(..)
        | AdminOp::Unregister(_)
        | AdminOp::Noted(..) => RequiredRight::Manage,
        AdminOp::OpenSession(..) | AdminOp::SetChannel(..) => RequiredRight::Arrange,
        AdminOp::Member(..)
        | AdminOp::Release(_)
        | AdminOp::EndSessions(..)
        | AdminOp::ApproveMod(..)
        | AdminOp::Redact(..)
        | AdminOp::RetryDead(..)
        | AdminOp::DropDead(..)
        | AdminOp::Enroll(..)
        | AdminOp::CreateChannel(_)
        | AdminOp::ReviseProfile { .. } => RequiredRight::Operator,
    }
}

/// What a session hears whose credential ended.
pub(crate) fn voided() -> Fault {
    Fault::new(
        ErrorCode::InvalidToken,
        "what this session was made with was revoked, replaced or has expired, or its member was removed: join again",
    )
}

/// Ends these sessions of a member because what they stand on is gone.
pub(crate) fn void(member: MemberId, numbers: Vec<u64>, fx: &mut Effects) {
    if numbers.is_empty() || crate::bugs::on("revoked session goes on") {
        return;
    }
    fx.change(Change::SessionEnded { member, numbers: numbers.clone(), expired: false, voided: true });
    fx.after.push(Effect::Revoked { member, numbers, code: ErrorCode::InvalidToken });
}

/// Ends every session for which this holds.
fn void_where(state: &State, ends: impl Fn(&Member, &Session) -> bool, fx: &mut Effects) {
    for (id, member) in state.roster() {
        let numbers = member.sessions.iter().filter(|s| ends(member, s)).map(|s| s.number).collect();
        void(id, numbers, fx);
    }
}

/// A token was revoked: so is every session made with it, every invitation made in those, and every session made with those.
pub(crate) fn token_revoked(state: &State, label: &str, fx: &mut Effects) {
    fx.after.push(Effect::CredentialEnded);
    void_where(state, |member, session| stands_on(member, session) == Some(label), fx);
    let outlives = crate::bugs::on("invitation outlives its token");
    end_invites(state, |invite| invite.token.as_deref() == Some(label) && !outlives, fx);
}

/// Ends the invitations for which this holds; their guests are not touched.
fn end_invites(state: &State, ends: impl Fn(&Invite) -> bool, fx: &mut Effects) {
    let ended = state.book.invites.iter().filter(|(_, invite)| ends(invite));
    ended.for_each(|(invitation, _)| fx.change(Change::InviteUsed { invitation: invitation.clone(), ended: true }));
}

/// An invitation was taken back: so is every session made with it.
pub(crate) fn invite_revoked(state: &State, id: &str, fx: &mut Effects) {
    void_where(state, |_, session| session.invited.as_ref().is_some_and(|invited| invited.by.as_ref() == id), fx);
}

/// A member is removed: its sessions end, its invitations, and the sessions that were made with those.
pub(crate) fn member_removed(state: &State, id: MemberId, fx: &mut Effects) {
    let numbers = state.member(id).map(|m| m.sessions.iter().map(|s| s.number).collect()).unwrap_or_default();
    void(id, numbers, fx);
    let outlives = crate::bugs::on("invitation outlives its maker");
    end_invites(state, |invite| invite.inviter == Some(id) && !outlives, fx);
    if !crate::bugs::on("guest outlives its host") {
        void_where(state, |_, session| session.invited.as_ref().is_some_and(|i| i.inviter == Some(id)), fx);
    }
}

/// Notes that a token was shown.
pub(crate) fn token_shown(state: &State, live: &mut VolatileState, sha256: &[u8; 32], now: Clock) {
    if state.book.tokens.iter().any(|token| token.sha256 == *sha256) {
        live.tokens_shown.insert(*sha256, now.wall);
    }
}

/// Puts the last use of tokens down, at most once an hour for each: an operator who wonders whether one may go looks days back.
pub(crate) fn record_token_use(state: &State, live: &mut VolatileState, fx: &mut Effects) {
    if live.tokens_shown.is_empty() {
        return;
    }
    live.tokens_shown.retain(|sha256, _| state.book.tokens.iter().any(|token| token.sha256 == *sha256));
    for token in &state.book.tokens {
        let Some(at) = live.tokens_shown.get(&token.sha256).copied() else { continue };
        if token.last_used_at.is_none_or(|last| at >= last.saturating_add(USED_EVERY_MS)) {
            fx.change(Change::TokenUsed { label: token.label.clone(), at });
        }
    }
}

/// Sessions end with the time of the token they were made with, and so do invitations.
pub(crate) fn end_expired_credentials(state: &State, live: &mut VolatileState, now: Clock, fx: &mut Effects) {
    let over = state.book.tokens.iter().filter(|t| t.expires_at.is_some_and(|end| end <= now.wall));
    let over: BTreeSet<&str> = over.map(|token| token.label.as_str()).collect();
    if over.is_empty() {
        live.expired_tokens = 0;
        return;
    }
    void_where(state, |member, session| state.expired_credential(member, session, now).is_some(), fx);
    end_invites(state, |invite| invite.token.as_deref().is_some_and(|label| over.contains(label)), fx);
    if std::mem::replace(&mut live.expired_tokens, over.len()) != over.len() {
        fx.after.push(Effect::CredentialEnded);
    }
}
