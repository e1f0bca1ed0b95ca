//! Credentials to a principal (OpenAgents sheet, section 1.2).
//!
//! Invariant: every source is bound here; no face decides who is who.

use crate::credential::{Ended, Session, Strangers};
use crate::input::{Caller, Clock, ProvedName};
use crate::rights::voided;
use crate::state::{Member, MemberId, State};
use rialto_model::network::{Policy, SessionBinding};
use rialto_model::{ErrorCode, FaceName, Fault};

/// Who is calling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// The node's operator.
    Operator,
    /// A member.
    Member(MemberId),
    /// A holder of the network's credential without a member behind it: a reader, or somebody about to join.
    Holder {
        /// The address it claims.
        claimed: Option<Box<str>>,
        /// Label of its token; none where the network is open.
        token: Option<String>,
    },
}

impl Principal {
    /// The member, if it is one.
    pub fn member(&self) -> Option<MemberId> {
        match self {
            Principal::Member(id) => Some(*id),
            Principal::Operator | Principal::Holder { .. } => None,
        }
    }
}

impl State {
    /// The token with this hash, unless it has expired.
    pub(crate) fn token(&self, sha256: &[u8; 32], now: Clock) -> Option<&rialto_model::network::Token> {
        self.book.tokens.iter().find(|t| &t.sha256 == sha256 && t.expires_at.is_none_or(|end| now.wall < end))
    }

    /// Finds out who calls.
    pub fn principal(&self, caller: &Caller, claimed: Option<&str>, now: Clock) -> Result<Principal, Fault> {
        if let Some(stream) = caller.stream {
            let member = self.member(stream.member).filter(|m| !m.removed).ok_or_else(revoked)?;
            let session = member.session(stream.number).ok_or_else(revoked)?;
            return self.expired_credential(member, session, now).map_or(Ok(Principal::Member(stream.member)), Err);
        }
        if let Some(via) = &caller.via {
            return self.carried_member(&via.face, caller.claimed.as_deref());
        }
        let claimed = claimed.or(caller.claimed.as_deref());
        if let Some(session) = &caller.session {
            let Some(found) = self.sessions.get(session) else { return Err(self.stale(session)) };
            return self.own_session(*found, claimed, now);
        }
        if caller.operator {
            // The operator speaks as a member beside its sessions.
            let member = claimed.and_then(|address| self.known_as(address));
            return Ok(member.map_or(Principal::Operator, Principal::Member));
        }
        if let Some(proved) = &caller.proved {
            return self.proved_member(proved, claimed, now);
        }
        let Some(bearer) = &caller.bearer else { return self.unproved(claimed) };
        if let Some(found) = self.sessions.get(bearer) {
            return self.own_session(*found, claimed, now);
        }
        if let Some(token) = self.token(bearer, now) {
            let named = token.address();
            if claimed.is_some_and(|claimed| !token.speaks_for(claimed)) {
                return Err(Fault::new(
                    ErrorCode::InvalidToken,
                    "this token was made for another agent: speak under that name, or show another token",
                ));
            }
            let claimed = claimed.or(named.as_deref());
            // A token for one name speaks as its member beside that member's sessions; not as one who lives elsewhere, who gives way to a join.
            let own = claimed.filter(|_| named.is_some()).and_then(|address| self.named_or_twin(address));
            if let Some(id) = own.filter(|id| self.member(*id).is_some_and(|m| !m.removed && m.via.is_none())) {
                return Ok(Principal::Member(id));
            }
            return self.by_token(claimed, Some(token.label.clone()));
        }
        if self.ended.contains_key(bearer) {
            return Err(self.stale(bearer));
        }
        if self.is_open() {
            return self.unproved(claimed);
        }
        Err(Fault::new(
            ErrorCode::InvalidToken,
            "the token or session is not valid here: it is unknown, revoked or expired; join again, or ask for a new token",
        ))
    }

    /// Whether a bearer's proof still holds: its time is not over, and it was not revoked.
    pub(crate) fn holds(&self, proved: &ProvedName, now: Clock) -> Result<(), Fault> {
        if proved.ends_at.is_some_and(|end| end <= now.wall) {
            let text = "the bearer's token has expired: get another one from its registrar";
            return Err(Fault::new(ErrorCode::SessionExpired, text));
        }
        if self.ended_proofs.get(&proved.address).is_some_and(|last| proved.serial <= *last) {
            let text = "the bearer's token was revoked, or its key replaced: get another one from its registrar";
            return Err(Fault::new(ErrorCode::InvalidToken, text));
        }
        Ok(())
    }

    /// Whoever shows a registrar's token speaks as the member whose name it proves, beside its sessions, if that member has proved it too.
    fn proved_member(&self, proved: &ProvedName, claimed: Option<&str>, now: Clock) -> Result<Principal, Fault> {
        self.holds(proved, now)?;
        if self.book.settings.require_audience && proved.for_anybody {
            let text = "this network takes only tokens that are made for it: ask the registrar for one with its id as audience";
            return Err(Fault::new(ErrorCode::VerificationFailed, text));
        }
        let found = self.member_id(&proved.address).and_then(|id| Some((id, self.member(id)?)));
        match found.filter(|(_, m)| !m.removed && m.via.is_none() && m.proved.is_some()) {
            Some((id, member)) if claimed.is_some_and(|claimed| self.known_as(claimed) != Some(id)) => {
                let text = format!("this token proves {}, not the address given: leave that out", member.address);
                Err(Fault::new(ErrorCode::SourceMismatch, text).field("source"))
            }
            Some((id, _)) => Ok(Principal::Member(id)),
            None => {
                Err(Fault::new(ErrorCode::NotAMember, format!("{} is not a member here: join first", proved.address)))
            }
        }
    }

    /// A face speaks for the members it carries, and for nobody else.
    fn carried_member(&self, face: &FaceName, claimed: Option<&str>) -> Result<Principal, Fault> {
        let missing =
            |who: &str| Fault::new(ErrorCode::NotAMember, format!("{face} carries no member {who}: bring it in first"));
        let address = claimed.ok_or_else(|| missing("without an address"))?;
        let found = self.known_as(address).and_then(|id| Some((id, self.member(id).filter(|m| !m.removed)?)));
        match found {
            Some((id, member)) if member.via.as_ref() == Some(face) => Ok(Principal::Member(id)),
            Some(_) => Err(Fault::new(ErrorCode::SourceMismatch, format!("{address} is not carried by {face}"))),
            None => Err(missing(address)),
        }
    }

    /// Whoever shows a session speaks as its member, and as nobody else.
    fn own_session(
        &self,
        (id, number): (MemberId, u64),
        claimed: Option<&str>,
        now: Clock,
    ) -> Result<Principal, Fault> {
        let shown = self.member(id).and_then(|member| Some((member, member.session(number)?)));
        if let Some(fault) = shown.and_then(|(member, session)| self.expired_credential(member, session, now)) {
            return Err(fault);
        }
        match (claimed, self.member(id)) {
            (Some(claimed), Some(m)) if self.known_as(claimed) != Some(id) => Err(Fault::new(
                ErrorCode::SourceMismatch,
                format!(
                    "this session belongs to {}, not to the address given: leave that out, or show the other's session",
                    m.address
                ),
            )
            .field("source")),
            _ => Ok(Principal::Member(id)),
        }
    }

    /// Whether who shows nothing is admitted: the network is open, and this run of the node leaves it so.
    pub fn is_open(&self) -> bool {
        match self.strangers {
            Strangers::Refused => false,
            Strangers::ByPolicy => self.book.settings.policy == Policy::Open,
            Strangers::Welcome => true,
        }
    }

    fn named_or_twin(&self, address: &str) -> Option<MemberId> {
        self.member_id(address)
            .or_else(|| self.member_id(&crate::rights::twin(address)?))
            .or_else(|| self.known_as(address))
    }

    fn unproved(&self, claimed: Option<&str>) -> Result<Principal, Fault> {
        if !self.is_open() {
            return Err(Fault::new(ErrorCode::Unauthenticated, "show a session id or a network token as Bearer"));
        }
        self.by_token(claimed, None)
    }

    /// A holder of the network's credential that names an address.
    fn by_token(&self, claimed: Option<&str>, token: Option<String>) -> Result<Principal, Fault> {
        let holder = |claimed: Option<&str>| Principal::Holder { claimed: claimed.map(Into::into), token };
        let Some(address) = claimed else { return Ok(holder(None)) };
        // A client that only ever names itself goes on after a rename as who it is now.
        let renamed = || self.known_as(address).filter(|id| self.member(*id).is_some_and(|m| self.is_lax(m)));
        match self.member_id(address).or_else(renamed).and_then(|id| self.member(id).map(|m| (id, m))) {
            Some((id, member)) if self.is_lax(member) => Ok(Principal::Member(id)),
            Some((_, member)) if !member.removed => Err(Fault::new(
                ErrorCode::Unauthenticated,
                format!("{address} speaks with its session id: join first, then send it as Bearer"),
            )),
            _ => Ok(holder(Some(address))),
        }
    }

    /// Whether a holder of the network's token speaks for the member by naming it.
    pub(crate) fn is_lax(&self, member: &Member) -> bool {
        self.book.settings.session_binding == SessionBinding::Lax
            && member.lax
            && member.verification == 0
            && !self.is_owned(member)
            && !member.removed
    }

    /// Why a session is not one any more.
    fn stale(&self, session: &[u8; 32]) -> Fault {
        match self.ended.get(session) {
            Some((_, Ended::Expired)) => Fault::new(ErrorCode::SessionExpired, "this session has expired: join again"),
            Some((_, Ended::Voided)) => voided(),
            Some((member, Ended::Taken)) => match self.member(*member).and_then(|m| m.sessions.last()) {
                Some(by) => taken_over(by),
                None => revoked(),
            },
            None => revoked(),
        }
    }
}

/// Says what ended a session: the join that took it over.
fn taken_over(by: &Session) -> Fault {
    let with = match (&by.token, &by.invited) {
        (Some(label), _) => format!("the token {label:?}"),
        (None, Some(invited)) => format!("invitation {}", invited.by),
        (None, None) => "the operator's secret or no token".to_owned(),
    };
    let text = format!("this session has ended: another join under its name, with {with}, took it over; join again");
    let details = serde_json::json!({ "taken_over_at": by.created_at, "token": by.token });
    Fault::new(ErrorCode::SessionRevoked, text).details(details)
}

pub(crate) fn revoked() -> Fault {
    Fault::new(ErrorCode::SessionRevoked, "this session has ended: join again")
}
