//! Who manages, whose name is whose, and what becomes of invitations (`docs/rights.md`).

use super::{Input, Member, Oracle, Place, Who, Wrong, wrong};
use rialto_model::{ErrorCode, Event};
use serde_json::Value;

/// The type of an event that invites.
pub const CREATED: &str = "workspace.invitation.created";
/// How near its end an invitation may be over or not: a clock is read more than once.
const DOUBT_MS: u64 = 10_000;

/// An invitation of a member, from when it was made; it is never forgotten here.
#[derive(Debug, Clone)]
pub struct Invitation {
    /// Its id.
    pub id: String,
    /// Who made it.
    maker: Who,
    /// The one address it is for.
    invitee: Option<String>,
    /// It gives an observer's session.
    pub observer: bool,
    uses_left: u64,
    expires_at: u64,
    /// It was taken back, refused, or its maker was removed.
    ended: bool,
    /// Nothing is left of sessions made with it: it was taken back, its maker was removed, or the token behind it ended.
    voided: bool,
    /// Label of the token behind it, as [`Input::token`] has it.
    token: Option<String>,
    /// A token ended that may be the one behind it.
    doubtful: bool,
    /// Guests that came and refusals of which its maker was not told yet.
    untold: Vec<(&'static str, Option<String>)>,
}

/// Who does something to the network, as far as rights are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doer<'a> {
    /// The operator.
    Operator,
    /// A holder of the network's token, which is not narrowed.
    Bare,
    /// A holder of a token for observers.
    Narrowed,
    /// A member, by its session or the token for its name.
    Member(&'a str),
}

/// How an invitation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It can be used.
    Good,
    /// It cannot.
    Over,
    /// Its time is nearly over, or was over and is not since the clock was set back.
    Unsure,
}

impl Oracle {
    /// Whether somebody manages the network: the operator, a master, and where the network's token manages whoever holds it, and people.
    pub fn manages(&self, doer: Doer<'_>) -> bool {
        match doer {
            Doer::Operator => true,
            Doer::Bare => self.rules.token_manages,
            Doer::Narrowed => false,
            Doer::Member(address) => self.named(address).is_some_and(|who| self.member_manages(who)),
        }
    }

    /// Whether somebody arranges conversations: who manages, and in a workspace people and whoever holds its token.
    pub fn arranges(&self, doer: Doer<'_>) -> bool {
        let here = match doer {
            Doer::Operator | Doer::Bare => true,
            Doer::Narrowed => false,
            Doer::Member(address) => {
                let who = self.named(address).and_then(|who| self.members.get(who));
                who.is_some_and(|member| member.address.starts_with("human:") && !member.is_observer())
            }
        };
        self.manages(doer) || here && self.rules.workspace
    }

    pub(crate) fn member_manages(&self, who: Who) -> bool {
        let Some(member) = self.members.get(who) else { return false };
        let person = member.address.starts_with("human:");
        member.is_master() || self.rules.token_manages && person && !member.is_observer()
    }

    /// What a committed join means for whose the name is.
    pub(crate) fn takes_name(&mut self, who: Who, input: &Input, credentials: &Value) {
        // Only what agents share proves nothing.
        let token = credentials.get("token").and_then(Value::as_str);
        let proves = credentials.get("invite").is_some() || token.is_some_and(|token| token != crate::world::TOKEN);
        let person = input.source.starts_with("human:") && !self.rules.token_manages;
        if let Some(member) = self.members.get_mut(who) {
            member.owned |= proves || person;
            member.lax = input.compat;
            member.guest = credentials.get("invite").is_some();
        }
    }

    /// Whether a name is its member's: only proof takes it.
    pub fn is_owned(&self, address: &str) -> bool {
        self.named(address).and_then(|who| self.members.get(who)).is_some_and(|member| member.owned)
    }

    /// Whether whoever holds the network's token speaks for a member by naming it.
    pub fn is_lax(&self, address: &str) -> bool {
        self.named(address).is_some_and(|who| self.is_claimed_freely(who))
    }

    fn is_claimed_freely(&self, who: Who) -> bool {
        let lax = |member: &Member| member.lax && !member.owned && !member.removed;
        self.rules.workspace && self.members.get(who).is_some_and(lax)
    }

    /// Whether whoever holds the network's token is shown a direct event: where it manages, if it could speak for both ends anyway.
    pub(crate) fn is_open_to_holders(&self, from: Option<Who>, to: Who) -> bool {
        self.rules.token_manages && from.is_some_and(|from| self.is_claimed_freely(from)) && self.is_claimed_freely(to)
    }

    /// Who follows a removed master where the token manages: of the agents that may send, the longest-standing one that is there, or
    /// that is not.
    pub(crate) fn succeed(&mut self, who: Who, was: &'static str) {
        let agent = |member: &Member| !member.address.starts_with("human:") && !member.removed;
        let has_master = self.members.iter().any(|m| agent(m) && m.granted == "master");
        if !self.rules.token_manages || was != "master" || has_master {
            return;
        }
        let heir = |there: bool| {
            let fits = |m: &Member| agent(m) && !m.is_observer() && (m.present() || !there);
            (0..self.members.len()).find(|next| *next != who && self.members.get(*next).is_some_and(fits))
        };
        if let Some(heir) = heir(true).or_else(|| heir(false)).and_then(|heir| self.members.get_mut(heir)) {
            heir.granted = "master";
        }
    }

    /// The reason to refuse an invitation.
    pub(crate) fn invitation_refusal(&self, input: &Input) -> Option<ErrorCode> {
        let payload: Value = serde_json::from_str(&input.payload).unwrap_or_default();
        let given = matches!(payload.get("role").and_then(Value::as_str), None | Some("member" | "observer"));
        (self.rules.guests && input.kind == CREATED && !given).then_some(ErrorCode::InvalidPayload)
    }

    /// A committed event invites somebody.
    pub(crate) fn invites(&mut self, input: &Input, event: &Event, maker: Who) -> Result<(), Wrong> {
        if !self.rules.guests || input.kind != CREATED {
            return Ok(());
        }
        let payload: Value = serde_json::from_str(event.payload()).unwrap_or_default();
        let text = |key: &str| payload.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(id), Some(expires_at)) = (text("invitation_id"), payload.get("expires_at").and_then(Value::as_u64))
        else {
            return wrong("invitations", format!("{} invites nobody", event.json()));
        };
        self.invitations.push(Invitation {
            id,
            maker,
            invitee: text("invitee"),
            observer: text("role").as_deref() == Some("observer"),
            uses_left: payload.get("max_uses").and_then(Value::as_u64).unwrap_or(1),
            expires_at,
            ended: false,
            voided: false,
            token: input.token.clone(),
            doubtful: false,
            untold: Vec::new(),
        });
        Ok(())
    }

    /// An answer gave the code of an invitation.
    pub fn invitation_code(&mut self, id: &str, code: &str) {
        self.codes.insert(code.to_owned(), id.to_owned());
    }

    /// The n-th newest invitation of which the code is known, and the code.
    pub fn invitation(&self, nth: usize) -> Option<(&Invitation, &str)> {
        let code = |i: &Invitation| self.codes.iter().find(|(_, id)| **id == i.id).map(|(code, _)| code.as_str());
        self.invitations.iter().rev().filter_map(|i| Some((i, code(i)?))).nth(nth)
    }

    /// The invitation with this code.
    pub fn invitation_of(&self, code: &str) -> Option<&Invitation> {
        let id = self.codes.get(code)?;
        self.invitations.iter().find(|i| i.id == *id)
    }

    fn invitation_mut(&mut self, id: &str) -> Option<&mut Invitation> {
        self.invitations.iter_mut().find(|i| i.id == id)
    }

    /// The wall clock shows this time.
    pub fn wall_is(&mut self, wall: u64) {
        self.latest_wall = self.latest_wall.max(wall);
    }

    /// How an invitation stands for whom it is for.
    pub fn standing(&self, id: &str, wall: u64) -> Standing {
        let Some(invitation) = self.invitations.iter().find(|i| i.id == id) else { return Standing::Over };
        if invitation.ended || invitation.uses_left == 0 || invitation.expires_at <= wall {
            return Standing::Over;
        }
        let latest = self.latest_wall.max(wall);
        if invitation.doubtful {
            return Standing::Unsure;
        }
        if latest.saturating_add(DOUBT_MS) >= invitation.expires_at { Standing::Unsure } else { Standing::Good }
    }

    /// Whether somebody of this name may use the invitation.
    pub fn is_for(&self, id: &str, address: &str) -> bool {
        let invitation = self.invitations.iter().find(|i| i.id == id);
        invitation.is_some_and(|i| i.invitee.as_deref().is_none_or(|only| only == address))
    }

    /// The token behind an invitation.
    pub fn token_of(&self, id: &str) -> Option<String> {
        self.invitations.iter().find(|i| i.id == id).and_then(|i| i.token.clone())
    }

    /// A token ended, or may have: so do the invitations of who came with it, and the sessions made with those.
    pub fn token_ends(&mut self, label: &str, surely: bool) {
        for invitation in &mut self.invitations {
            match invitation.token.as_deref() {
                Some(token) if token != label => {}
                Some(_) if surely => (invitation.ended, invitation.voided) = (true, true),
                Some(_) | None => invitation.doubtful = true,
            }
        }
    }

    /// Whether it is not known if anything is left of a session that was made with this invitation.
    pub fn is_doubtful(&self, id: &str) -> bool {
        self.invitations.iter().any(|i| i.id == id && i.doubtful && !i.voided)
    }

    /// Whether nothing may be left of a session that was made with this invitation.
    pub fn is_voided(&self, id: &str) -> bool {
        self.invitations.iter().any(|i| i.id == id && i.voided)
    }

    /// Somebody joined by an invitation: one use less, and its maker is told. Gives whether the session is an observer's.
    pub(crate) fn came_by(&mut self, credentials: &Value, address: &str) -> Result<bool, Wrong> {
        let code = credentials.get("invite").and_then(Value::as_str);
        let Some(id) = code.and_then(|code| self.invitation_of(code)).map(|i| i.id.clone()) else { return Ok(false) };
        let fits = self.is_for(&id, address);
        let makers: Vec<bool> = self.members.iter().map(Member::present).collect();
        let Some(invitation) = self.invitation_mut(&id) else { return Ok(false) };
        if invitation.ended || invitation.uses_left == 0 || !fits {
            return wrong("invitations", format!("{address} came by an invitation that is over: {invitation:?}"));
        }
        invitation.uses_left -= 1;
        if makers.get(invitation.maker) == Some(&true) {
            invitation.untold.push(("workspace.invitation.accepted", Some(address.to_owned())));
        }
        Ok(invitation.observer)
    }

    /// An invitation was taken back: so is every session made with it.
    pub fn taken_back(&mut self, id: &str) {
        if let Some(invitation) = self.invitation_mut(id) {
            invitation.ended = true;
            invitation.voided = true;
        }
    }

    /// Whoever has the code refused the invitation, and its maker is told.
    pub fn invitation_refused(&mut self, id: &str) {
        let makers: Vec<bool> = self.members.iter().map(Member::present).collect();
        if let Some(invitation) = self.invitation_mut(id) {
            invitation.ended = true;
            if makers.get(invitation.maker) == Some(&true) {
                invitation.untold.push(("workspace.invitation.rejected", None));
            }
        }
    }

    /// Invitations end with their maker, and with them the sessions made with them.
    pub(crate) fn invitations_end(&mut self, maker: Who) {
        for invitation in self.invitations.iter_mut().filter(|i| i.maker == maker) {
            invitation.ended = true;
            invitation.voided = true;
        }
    }

    /// The network tells the maker of an invitation what came of it, once.
    pub(crate) fn maker_is_told(&mut self, event: &Event) -> Result<Place, Wrong> {
        let payload: Value = serde_json::from_str(event.payload()).unwrap_or_default();
        let text = |key: &str| payload.get(key).and_then(Value::as_str).map(str::to_owned);
        let maker = self.who(event.target());
        let told = (event.kind(), text("address"));
        let invitation = self.invitation_mut(&text("invitation_id").unwrap_or_default());
        let known = invitation.and_then(|i| {
            let at = i.untold.iter().position(|(kind, address)| (*kind, address) == (told.0, &told.1))?;
            i.untold.remove(at);
            Some(i.maker)
        });
        match known {
            Some(who) if maker == Some(who) => Ok(Place::Inbox(who)),
            _ => wrong("invitations", format!("{} tells of what did not happen", event.json())),
        }
    }

    /// Whoever made an invitation that came to something was told with it.
    pub fn makers_were_told(&self) -> Result<(), Wrong> {
        match self.invitations.iter().find(|i| !i.untold.is_empty()) {
            Some(untold) => wrong("invitations", format!("its maker was not told of {untold:?}")),
            None => Ok(()),
        }
    }
}
