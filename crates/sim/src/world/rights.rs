//! What nobody may do, tried in every world: each try is refused, and leaves nothing behind (`docs/rights.md`).

use super::World;
use super::client::stranger;
use super::oracle::{Want, Wrong, wrong};
use rialto_model::network::Token;
use rialto_model::payload::NewInvitation;
use rialto_model::{ErrorCode, Role};
use rialto_node::identity::sha256;
use rialto_node::{AdminOp, Caller, Network, Texts, View};
use serde_json::{Value, json};
use std::sync::Arc;

/// The token that agents join with.
pub(crate) const TOKEN: &str = "the token of every world";
/// A token for observers.
pub(crate) const NARROWED: &str = "the token of who only looks";
pub(crate) const LABEL: &str = "all";
/// The label of the token of one network.
pub(crate) const LOCAL: &str = "here";
/// A token whose time is over.
const PAST: &str = "the token of yesterday";
/// A token that was revoked.
pub(crate) const GONE: &str = "the token that was taken back";
/// The label of a token that ends soon.
pub(crate) const BRIEF: &str = "brief";
/// What the session that came by an invitation is said to be made with: no token has this label.
pub(crate) const INVITED: &str = "an invitation";

/// The token of one network.
pub(crate) fn local_secret(n: usize) -> String {
    format!("the token of network {n}")
}

/// Whoever shows a secret and says no more.
pub(crate) fn bearer(secret: &str) -> Arc<Caller> {
    Arc::new(Caller { bearer: Some(sha256(secret)), ..Caller::default() })
}

/// What a member shows for its own name.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// What the session is made with.
    pub(crate) label: &'static str,
    /// As the join says it.
    pub(crate) credentials: Value,
    /// It gives an observer's session.
    pub(crate) observer: bool,
}

/// The token for one name.
pub(crate) fn own_secret(address: &str) -> String {
    format!("the token of {address} alone")
}

pub(crate) fn token(label: &str, secret: &str) -> Token {
    Token::whole(label, sha256(secret), 0)
}

impl World {
    /// Gives a network its tokens: some that are good for something, and some that are not any more.
    pub(crate) fn tokens(n: usize) -> Vec<AdminOp> {
        vec![
            AdminOp::AddToken(token(LABEL, TOKEN)),
            AdminOp::AddToken(Token { role: Some(Role::Observer), ..token("eyes", NARROWED) }),
            AdminOp::AddToken(token(LOCAL, &local_secret(n))),
            AdminOp::AddToken(Token { expires_at: Some(1), ..token("past", PAST) }),
            AdminOp::AddToken(token("gone", GONE)),
            AdminOp::RevokeToken("gone".to_owned()),
        ]
    }

    /// Strangers try to come in with nothing, and with what is worth nothing here: where that is needed, all are refused.
    async fn try_doors(&mut self, n: usize, network: &Network) -> Result<(), Wrong> {
        if !self.script.nets.get(n).is_some_and(|plan| plan.closed) {
            return Ok(());
        }
        let tries = [
            (Value::Null, ErrorCode::TokenRequired),
            (json!({ "token": "a guess" }), ErrorCode::InvalidToken),
            (json!({ "token": GONE }), ErrorCode::InvalidToken),
            (json!({ "token": PAST }), ErrorCode::InvalidToken),
            (json!({ "token": local_secret(n + 1) }), ErrorCode::InvalidToken),
            (json!({ "invite": "a guess" }), ErrorCode::InviteInvalid),
            (json!({ "token": own_secret("agent:ann") }), ErrorCode::InvalidToken),
        ];
        for (shown, code) in tries {
            let came = self.try_join(network, "agent:zoe", shown.clone()).await?;
            if came != Some(code) {
                return wrong("rights", format!("a stranger comes in with {shown}: {came:?}"));
            }
        }
        let readers = [
            (Arc::new(Caller::default()), ErrorCode::Unauthenticated),
            (bearer(GONE), ErrorCode::InvalidToken),
            (bearer(PAST), ErrorCode::InvalidToken),
            (bearer(&local_secret(n + 1)), ErrorCode::InvalidToken),
        ];
        for (reader, code) in readers {
            let read = self.pages(network, &reader, View::Log, &Want::default(), 5).await?;
            if read.as_ref().err().map(|fault| fault.code) != Some(code) {
                return wrong("rights", format!("a stranger reads: {read:?} instead of {}", code.as_str()));
            }
        }
        Ok(())
    }

    /// Tries to join as somebody; gives the code it is refused with.
    pub(crate) async fn try_join(
        &mut self,
        network: &Network,
        who: &str,
        credentials: Value,
    ) -> Result<Option<ErrorCode>, Wrong> {
        let payload = json!({ "agent_id": who, "credentials": credentials });
        let text = json!({ "type": "network.agent.join", "source": who, "target": "core", "payload": payload });
        let (network, text) = (network.clone(), text.to_string());
        let answers = self.drive(async move { network.session(&stranger()).emit(Texts::from(text)).await }).await?;
        let answered = answers.ok().and_then(|answers| answers.into_iter().next());
        Ok(answered.and_then(|answered| answered.result.err()).map(|fault| fault.code))
    }

    /// Whether a refusal can have no other reason than rights.
    pub(crate) fn is_calm(&self, n: usize, network: &Network) -> bool {
        let active = self.nets[n].oracle.rules.status == "active" && !self.nets[n].oracle.had_mods();
        active && !self.trouble && !self.nets[n].shaky && network.is_ready()
    }

    /// Somebody tries to be who it is not: the operator, a person, an agent that showed more.
    pub(crate) async fn try_names(&mut self, n: usize) -> Result<(), Wrong> {
        let Some(network) = self.nets[n].handle.clone() else { return Ok(()) };
        if !self.is_calm(n, &network) {
            return Ok(());
        }
        let whole = json!({ "token": TOKEN });
        let mut tries = vec![("human:operator".to_owned(), whole.clone())];
        for client in &self.nets[n].clients {
            // Whoever has a session of its own has shown the token, or is a person.
            if client.session.is_none() || !self.nets[n].oracle.is_taken(client.address) {
                continue;
            }
            // A name that was proved is not had for the network's token.
            let owned = self.nets[n].oracle.is_owned(client.address);
            let weaker = if owned { whole.clone() } else { json!({ "token": NARROWED }) };
            tries.push((client.address.to_owned(), weaker));
        }
        for (who, credentials) in tries {
            match self.try_join(&network, &who, credentials).await? {
                Some(ErrorCode::AddressTaken) => {}
                came => return wrong("rights", format!("somebody else joins as {who}: {came:?}")),
            }
        }
        self.try_claims(n, &network).await?;
        self.try_doors(n, &network).await
    }

    /// Whoever holds the network's token and names a member speaks for it only if the member speaks so itself.
    async fn try_claims(&mut self, n: usize, network: &Network) -> Result<(), Wrong> {
        let strict = |address: &&str| self.nets[n].oracle.is_taken(address) && !self.nets[n].oracle.is_lax(address);
        let addresses: Vec<&str> = self.nets[n].clients.iter().map(|client| client.address).filter(strict).collect();
        for address in addresses {
            let caller = Caller { claimed: Some(address.into()), ..Caller::clone(&bearer(&local_secret(n))) };
            let (network, caller) = (network.clone(), Arc::new(caller));
            let me = self.drive(async move { network.session(&caller).me().await }).await?;
            if me.as_ref().err().map(|fault| fault.code) != Some(ErrorCode::Unauthenticated) {
                return wrong("rights", format!("the network's token speaks for {address}: {me:?}"));
            }
        }
        if !self.script.nets[n].closed {
            return Ok(());
        }
        // Whoever says no name is nobody: no member, and no sender.
        let (bare, asked) = (bearer(&local_secret(n)), network.clone());
        let me = self.drive(async move { asked.session(&bare).me().await }).await?;
        let (bare, asked) = (bearer(&local_secret(n)), network.clone());
        let text = json!({ "type": "app.note", "target": "agent:broadcast", "payload": {} }).to_string();
        let sent = self.drive(async move { asked.session(&bare).emit(Texts::from(text)).await }).await?;
        let sent = sent.map_or_else(Err, |answers| answers.into_iter().next().map_or(Ok(()), |a| a.result.map(drop)));
        let heard = (me.err().map(|fault| fault.code), sent.err().map(|fault| fault.code));
        if heard != (Some(ErrorCode::NotAMember), Some(ErrorCode::Unauthenticated)) {
            return wrong("rights", format!("whoever holds the network's token is somebody: {heard:?}"));
        }
        Ok(())
    }

    /// Somebody comes back under its own name with what does not last: a token that ends soon, or an invitation that is taken back.
    /// Nothing is left of the session then.
    pub(crate) async fn visit(&mut self, n: usize, c: usize, invited: bool, network: Network) -> Result<(), Wrong> {
        let address = self.nets[n].clients[c].address;
        if address.starts_with("human:") || !self.is_calm(n, &network) {
            return Ok(());
        }
        let (op, credentials) = if invited {
            let wish =
                NewInvitation { invitee: Some(address.to_owned()), max_uses: Some(2), ..NewInvitation::default() };
            let asked = network.clone();
            let Ok(made) = self.drive(async move { asked.invite(wish).await }).await? else { return Ok(()) };
            (AdminOp::EndInvite(made.invitation_id.into(), None), json!({ "invite": made.code }))
        } else {
            let ends = Some(self.clock.now().wall + 1_000);
            let token = Token { agent: Some(address.to_owned()), expires_at: ends, ..token(BRIEF, BRIEF) };
            let asked = network.clone();
            let made = self.drive(async move { asked.admin(AdminOp::AddToken(token)).await }).await?;
            if made.is_err() {
                return Ok(());
            }
            (AdminOp::RevokeToken(BRIEF.to_owned()), json!({ "token": BRIEF }))
        };
        let label = if invited { INVITED } else { BRIEF };
        self.join_showing(n, c, Shown { label, credentials, observer: false }).await?;
        self.observe().await?;
        if !invited {
            self.pass(1_100).await;
            self.pass(1_100).await;
            self.observe().await?;
        }
        let came = self.nets[n].clients[c].session.is_some() && self.nets[n].clients[c].named_session == Some(label);
        let ended = if invited { self.ends(&network, [op]).await? } else { true };
        if came && ended {
            self.is_over(n, c, &network).await?;
        } else if came {
            // Whether it is over is not known: it is not gone on with.
            self.hang_up(n, c);
            self.nets[n].clients[c].session = None;
        }
        if !invited {
            let asked = network.clone();
            let _ = self.drive(async move { asked.admin(AdminOp::RevokeToken(BRIEF.to_owned())).await }).await?;
        }
        self.observe().await
    }

    /// Makes sure that there is a token for the client's own name; false if that is not known now.
    pub(crate) async fn has_own_token(&mut self, n: usize, c: usize, network: &Network) -> Result<bool, Wrong> {
        let address = self.nets[n].clients[c].address;
        let own = Token { agent: Some(address.to_owned()), ..token(address, &own_secret(address)) };
        let (network, op) = (network.clone(), AdminOp::AddToken(own));
        let done = self.drive(async move { network.admin(op).await }).await?;
        Ok(done.map_or_else(|fault| fault.code == ErrorCode::AlreadyExists, |_| true))
    }

    /// Does what ends a credential; false if that is not known to be done.
    async fn ends(&mut self, network: &Network, ops: impl IntoIterator<Item = AdminOp>) -> Result<bool, Wrong> {
        for op in ops {
            let network = network.clone();
            let done = self.drive(async move { network.admin(op).await }).await?;
            self.note(&format!("token: {:?}", done.as_ref().map_err(|f| f.code.as_str())));
            if done.is_err() {
                return Ok(false);
            }
        }
        self.settle().await?;
        Ok(true)
    }

    /// The token that agents joined with is revoked, and another takes its place: every session made with it is over, and no other is.
    pub(crate) async fn revoke(&mut self, n: usize, network: Network) -> Result<(), Wrong> {
        if self.nets[n].shaky {
            return Ok(());
        }
        if !self
            .ends(&network, [AdminOp::RevokeToken(LABEL.to_owned()), AdminOp::AddToken(token(LABEL, TOKEN))])
            .await?
        {
            self.nets[n].oracle.token_ends(LABEL, false);
            return Ok(());
        }
        self.nets[n].oracle.token_ends(LABEL, true);
        self.sessions_end(n, &network).await?;
        self.observe().await
    }

    /// Of every session made with the token that agents joined with nothing is left; no other is touched.
    pub(crate) async fn sessions_end(&mut self, n: usize, network: &Network) -> Result<(), Wrong> {
        for c in 0..self.nets[n].clients.len() {
            let client = &self.nets[n].clients[c];
            if client.address.starts_with("human:") || client.session.is_none() {
                continue;
            }
            if client.invited.is_some() {
                // What becomes of guests is looked at with their invitations.
                continue;
            }
            if client.named_session.is_some() {
                self.goes_on(n, c, network).await?;
            } else {
                self.is_over(n, c, network).await?;
            }
        }
        Ok(())
    }

    /// The token for one member's name is revoked: the session made with it is over.
    pub(crate) async fn revoke_own(&mut self, n: usize, who: usize, network: Network) -> Result<(), Wrong> {
        let c = who % self.nets[n].clients.len();
        let client = &self.nets[n].clients[c];
        let Some(label) = client.named_session.filter(|_| !self.nets[n].shaky && client.session.is_some()) else {
            return Ok(());
        };
        let op = AdminOp::RevokeToken(label.to_owned());
        let ended = self.ends(&network, [op]).await?;
        self.nets[n].oracle.token_ends(label, ended);
        if !ended {
            return Ok(());
        }
        // After renames somebody else may have shown the same one.
        for c in 0..self.nets[n].clients.len() {
            let client = &self.nets[n].clients[c];
            if client.named_session == Some(label) && client.session.is_some() {
                self.is_over(n, c, &network).await?;
            }
        }
        self.observe().await
    }

    /// The session of a client whose credential is untouched is what it was, unless the client left unheard.
    pub(crate) async fn goes_on(&mut self, n: usize, c: usize, network: &Network) -> Result<(), Wrong> {
        let Some(caller) = self.nets[n].clients[c].caller() else { return Ok(()) };
        let network = network.clone();
        let me = self.drive(async move { network.session(&caller).me().await }).await?;
        match me.err().map(|fault| fault.code) {
            Some(ErrorCode::InvalidToken) => {
                let address = self.nets[n].clients[c].address;
                wrong("rights", format!("{address} lost its session, and nobody ended what it was made with"))
            }
            _ => Ok(()),
        }
    }

    /// Nothing is left of a session whose credential has ended.
    pub(crate) async fn is_over(&mut self, n: usize, c: usize, network: &Network) -> Result<(), Wrong> {
        let client = &self.nets[n].clients[c];
        if client.stream.as_ref().is_some_and(|stream| stream.listening && stream.joined) {
            let what = format!("{} still has the stream it joined with what has ended", client.address);
            return wrong("rights", what);
        }
        if let Some(caller) = client.caller() {
            let network = network.clone();
            let me = self.drive(async move { network.session(&caller).me().await }).await?;
            // Whoever left without hearing of it has no session either.
            let over = [ErrorCode::InvalidToken, ErrorCode::SessionRevoked, ErrorCode::SessionExpired];
            if !me.as_ref().err().is_some_and(|fault| over.contains(&fault.code)) {
                let address = self.nets[n].clients[c].address;
                return wrong("rights", format!("{address} goes on with a session of what has ended: {me:?}"));
            }
        }
        self.hang_up(n, c);
        self.nets[n].clients[c].session = None;
        Ok(())
    }
}
