//! Invitations of members, and the guests who come by them (`docs/rights.md`, the end of a credential).

use super::World;
use super::client::Frame;
use super::oracle::{CREATED, Input, Standing, Wrong, wrong};
use super::rights::{INVITED, LABEL, Shown};
use super::script::{ADDRESSES, Guest};
use rialto_model::ErrorCode;
use rialto_node::command::Answered;
use rialto_node::identity::sha256;
use rialto_node::{AdminOp, Network};
use serde_json::json;

impl World {
    /// Does what a step about invitations means.
    pub(crate) async fn guest(&mut self, n: usize, c: usize, act: Guest, calm: bool) -> Result<(), Wrong> {
        if let Guest::Invite { invitee, role, uses, seconds } = act {
            return self.invite(n, c, (invitee, role, uses, seconds), calm).await;
        }
        self.observe().await?;
        let Some(network) = self.nets[n].handle.clone().filter(|network| self.is_calm(n, network)) else {
            return Ok(());
        };
        match act {
            Guest::Invite { .. } => Ok(()),
            Guest::Come { nth } => self.come(n, c, nth, network).await,
            Guest::Refuse { nth } => self.refuse(n, nth, network).await,
            Guest::Expel { whom } => self.expel(n, c, whom % 6).await,
        }
    }

    /// A member invites.
    async fn invite(
        &mut self,
        n: usize,
        c: usize,
        (invitee, role, uses, seconds): (Option<usize>, &str, u32, u64),
        calm: bool,
    ) -> Result<(), Wrong> {
        let net = &mut self.nets[n];
        if !net.oracle.rules.guests || net.oracle.had_mods() || net.clients[c].session.is_none() {
            return Ok(());
        }
        let sent_at = self.clock.now().steady;
        let k = net.oracle.next_input();
        let lane = net.clients[c].lane();
        let client = &net.clients[c];
        let token = match (&client.invited, client.named_session) {
            (Some(id), _) => net.oracle.token_of(id),
            (None, Some(INVITED)) => Some(String::new()),
            (None, Some(label)) => Some(label.to_owned()),
            (None, None) if client.address.starts_with("human:") || net.oracle.is_lax(client.address) => None,
            (None, None) => Some(LABEL.to_owned()),
        };
        let mut payload = json!({ "k": k, "role": role, "max_uses": uses, "expires_in_s": seconds });
        if let (Some(invitee), Some(map)) = (invitee, payload.as_object_mut()) {
            map.insert("invitee".into(), json!(ADDRESSES[invitee % 6]));
        }
        let input = Input {
            id: Some(format!("invite-{k}")),
            token,
            ..Input::new(net.clients[c].address, CREATED, "core", &payload, sent_at, lane)
        };
        self.deliver(n, c, vec![(Frame::Event(k), input)], calm).await
    }

    /// Somebody joins by an invitation. One that is good lets in whoever has no member's name; one that is over lets in nobody, and none
    /// takes a name that is somebody's own.
    async fn come(&mut self, n: usize, c: usize, nth: usize, network: Network) -> Result<(), Wrong> {
        let (net, wall) = (&self.nets[n], self.clock.now().wall);
        let address = net.clients[c].address;
        let Some((invitation, code)) = net.oracle.invitation(nth) else { return Ok(()) };
        if address.starts_with("human:") || net.oracle.leads_elsewhere(address) {
            return Ok(());
        }
        let (id, observer) = (invitation.id.clone(), invitation.observer);
        let credentials = json!({ "invite": code });
        let standing = if net.oracle.is_for(&id, address) { net.oracle.standing(&id, wall) } else { Standing::Over };
        let refused = match standing {
            Standing::Unsure => return Ok(()),
            // Where nothing is asked for, it is as if nothing had been shown.
            Standing::Over if self.script.nets[n].closed => ErrorCode::InviteInvalid,
            Standing::Over => return Ok(()),
            Standing::Good if net.oracle.is_owned(address) => ErrorCode::AddressTaken,
            // A name that nobody owns is taken over as with the network's token.
            Standing::Good if net.oracle.is_taken(address) => return Ok(()),
            Standing::Good => {
                self.join_showing(n, c, Shown { label: INVITED, credentials, observer }).await?;
                self.observe().await?;
                let client = &self.nets[n].clients[c];
                let came = client.session.is_some() && client.invited.as_deref() == Some(id.as_str());
                let known = self.is_calm(n, &network) && !self.script.nets[n].os;
                return if came || !known {
                    Ok(())
                } else {
                    wrong("invitations", format!("{address} may come by {id} and does not"))
                };
            }
        };
        match self.try_join(&network, address, credentials).await? {
            Some(code) if code == refused => Ok(()),
            came => wrong("invitations", format!("{address} tries {id}: {came:?} instead of {}", refused.as_str())),
        }
    }

    /// Whoever has the code refuses the invitation.
    async fn refuse(&mut self, n: usize, nth: usize, network: Network) -> Result<(), Wrong> {
        let Some((invitation, code)) = self.nets[n].oracle.invitation(nth) else { return Ok(()) };
        let (id, secret) = (invitation.id.clone(), sha256(code));
        let ending = AdminOp::EndInvite(id.clone(), Some(secret));
        let standing = self.nets[n].oracle.standing(&id, self.clock.now().wall);
        let done = self.drive(async move { network.admin(ending).await }).await?;
        self.note(&format!("refusal of {id}: {:?}", done.as_ref().map_err(|f| f.code.as_str())));
        self.nets[n].invitation_ends(&id, standing, done.as_ref().err().map(|fault| fault.code), false)?;
        self.observe().await
    }

    /// A member removes another one.
    async fn expel(&mut self, n: usize, c: usize, whom: usize) -> Result<(), Wrong> {
        let address = self.nets[n].clients[whom].address;
        if c == whom || self.nets[n].clients[c].session.is_none() || !self.nets[n].oracle.is_taken(address) {
            return Ok(());
        }
        let k = self.nets[n].oracle.next_input();
        self.act(n, c, "network.agent.remove", json!({ "address": address, "k": k }), true).await?;
        if !self.nets[n].oracle.is_taken(address) {
            self.hang_up(n, whom);
            self.nets[n].clients[whom].session = None;
            self.nets[n].clients[whom].seen.clear();
        }
        Ok(())
    }

    /// Nothing is left of sessions whose invitation was taken back, whose host was removed, or whose host's token ended.
    pub(crate) async fn guests_end(&mut self, n: usize) -> Result<(), Wrong> {
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        let sure = !self.trouble && !self.nets[n].shaky;
        for c in 0..self.nets[n].clients.len() {
            let net = &self.nets[n];
            let client = &net.clients[c];
            let over = client.invited.as_deref().is_some_and(|id| net.oracle.is_voided(id));
            let doubtful = client.invited.as_deref().is_some_and(|id| net.oracle.is_doubtful(id));
            if !over && !doubtful || client.session.is_none() {
                continue;
            }
            if sure && !doubtful {
                self.is_over(n, c, &network).await?;
            } else {
                self.hang_up(n, c);
                self.nets[n].clients[c].session = None;
            }
        }
        Ok(())
    }

    /// Guests whose host is a member go on, also when their invitation is used up or its time is over.
    pub(crate) async fn guests_go_on(&mut self, n: usize) -> Result<(), Wrong> {
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        for c in 0..self.nets[n].clients.len() {
            let client = &self.nets[n].clients[c];
            if client.invited.is_some() && client.session.is_some() {
                self.goes_on(n, c, &network).await?;
            }
        }
        Ok(())
    }
}

impl super::Net {
    /// An answer may give the code of an invitation.
    pub(crate) fn hears_code(&mut self, answer: &Answered) {
        let result = answer.result.as_ref().ok().and_then(|accepted| accepted.result.as_deref());
        let text = |key: &str| result.and_then(|result| result.get(key)).and_then(serde_json::Value::as_str);
        if let (Some(id), Some(code)) = (text("invitation_id"), text("code")) {
            self.oracle.invitation_code(id, code);
        }
    }

    /// The invitation that a join showed.
    pub(crate) fn invitation_of_join(&self, k: usize) -> Option<String> {
        let payload: serde_json::Value = serde_json::from_str(&self.oracle.input(k)?.payload).ok()?;
        let code = payload.get("credentials")?.get("invite")?.as_str()?;
        self.oracle.invitation_of(code).map(|invitation| invitation.id.clone())
    }

    /// An invitation was to end: one that is good ends, one that is over is none.
    pub(crate) fn invitation_ends(
        &mut self,
        id: &str,
        standing: Standing,
        refused: Option<ErrorCode>,
        taken_back: bool,
    ) -> Result<(), Wrong> {
        match (standing, refused) {
            (Standing::Good, Some(ErrorCode::InviteInvalid)) => {
                return wrong("invitations", format!("{id} is good, and is not to be ended"));
            }
            (Standing::Over, None) => return wrong("invitations", format!("{id} was over, and is ended again")),
            (Standing::Good | Standing::Over | Standing::Unsure, _) => {}
        }
        match (refused, taken_back) {
            (Some(_), _) => {}
            (None, true) => self.oracle.taken_back(id),
            (None, false) => self.oracle.invitation_refused(id),
        }
        Ok(())
    }
}
