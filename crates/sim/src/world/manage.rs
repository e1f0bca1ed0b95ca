//! Managing, tried by everybody: who may does, and everybody else is refused and changes nothing (`docs/rights.md`, the table).

use super::World;
use super::client::operator;
use super::oracle::{Doer, Wrong, wrong};
use super::rights::{GONE, LABEL, LOCAL, NARROWED, TOKEN, bearer, local_secret, own_secret, token};
use super::script::{Admin, Deed, Hand};
use rialto_model::ErrorCode;
use rialto_model::payload::SessionUpdate;
use rialto_model::view::AuditEntry;
use rialto_node::{AdminOp, Caller, Network};
use serde_json::json;
use std::sync::Arc;

/// A token that who manages makes.
const SPARE: &str = "the token that somebody made";
/// The label of it, and of the one that takes the place of the network's.
const SPARE_LABEL: &str = "spare";

/// What a caller hears that is refused for who it is.
const REFUSALS: [ErrorCode; 3] = [ErrorCode::Forbidden, ErrorCode::InvalidToken, ErrorCode::Unauthenticated];

/// Who an act takes.
#[derive(Clone, Copy)]
enum Takes {
    TheOperator,
    Managing,
    Arranging,
}

impl World {
    /// Somebody does something to a network.
    pub(crate) async fn manage(&mut self, n: usize, by: Hand, deed: Deed) -> Result<(), Wrong> {
        self.observe().await?;
        let handle = self.nets[n].handle.clone().filter(|network| network.is_ready());
        let Some(network) = handle.filter(|_| !self.trouble && !self.nets[n].shaky) else { return Ok(()) };
        let Some(caller) = self.hand_of(n, by, &network).await? else { return Ok(()) };
        // What a guest's own token lets it do beside its session is not written down.
        if matches!(by, Hand::Own(who) if self.nets[n].clients[who % 6].invited.is_some()) {
            return Ok(());
        }
        let takes = match deed {
            // Who makes a master where the token manages is not written down.
            Deed::Does(Admin::Role(_, "master")) if self.nets[n].oracle.rules.token_manages => return Ok(()),
            // What it would do is not known here.
            Deed::Release(_) | Deed::EndSessions(_) if by == Hand::Operator => return Ok(()),
            Deed::Does(Admin::Role(_, "master") | Admin::Mute(..) | Admin::Quiet(..)) => Takes::TheOperator,
            Deed::Release(_) | Deed::EndSessions(_) => Takes::TheOperator,
            Deed::Arrange => Takes::Arranging,
            Deed::Does(_) | Deed::Token | Deed::Rotate | Deed::TakeBack(_) => Takes::Managing,
        };
        let refusal = self.refusal_of(n, by, takes);
        match deed {
            Deed::Does(op) => {
                let Some((real, told)) = self.plain(n, op) else { return Ok(()) };
                if self.acts(&network, &caller, real, refusal).await? == Ok(()) {
                    told(&mut self.nets[n]);
                }
            }
            Deed::Token => self.makes_token(n, &network, &caller, refusal).await?,
            Deed::Rotate => self.rotates(n, &network, &caller, refusal).await?,
            Deed::TakeBack(nth) => {
                let Some((invitation, _)) = self.nets[n].oracle.invitation(nth) else { return Ok(()) };
                let id = invitation.id.clone();
                let standing = self.nets[n].oracle.standing(&id, self.clock.now().wall);
                let done = self.acts(&network, &caller, AdminOp::EndInvite(id.clone(), None), refusal).await?;
                if refusal.is_none() {
                    self.nets[n].invitation_ends(&id, standing, done.err(), true)?;
                }
            }
            Deed::Arrange => {
                let op = AdminOp::SetChannel("nowhere".to_owned(), SessionUpdate::default());
                let _ = self.acts(&network, &caller, op, refusal).await?;
            }
            Deed::Release(who) => {
                let op = AdminOp::Release(self.nets[n].clients[who % 6].address.to_owned());
                let _ = self.acts(&network, &caller, op, refusal).await?;
            }
            Deed::EndSessions(who) => {
                let op = AdminOp::EndSessions(self.nets[n].clients[who % 6].address.to_owned(), None);
                let _ = self.acts(&network, &caller, op, refusal).await?;
            }
        }
        self.observe().await
    }

    /// What a hand shows; nothing if it is not there.
    async fn hand_of(&mut self, n: usize, by: Hand, network: &Network) -> Result<Option<Arc<Caller>>, Wrong> {
        Ok(match by {
            Hand::Operator => Some(operator()),
            Hand::Bare => Some(bearer(&local_secret(n))),
            Hand::Narrowed => Some(bearer(NARROWED)),
            Hand::Gone => Some(bearer(GONE)),
            Hand::Stranger => Some(Arc::new(Caller::default())),
            Hand::Member(who) => self.nets[n].caller_of_present(who % 6),
            Hand::Own(who) => {
                let c = who % 6;
                let address = self.nets[n].clients[c].address;
                let there = self.nets[n].oracle.is_present(address) && !address.starts_with("human:");
                let made = there && self.has_own_token(n, c, network).await?;
                made.then(|| bearer(&own_secret(address)))
            }
        })
    }

    /// What a hand must be refused with; none if the act is its to do.
    fn refusal_of(&self, n: usize, by: Hand, takes: Takes) -> Option<ErrorCode> {
        let (net, closed) = (&self.nets[n], self.script.nets[n].closed);
        let doer = match by {
            Hand::Operator => Doer::Operator,
            Hand::Bare => Doer::Bare,
            Hand::Narrowed => Doer::Narrowed,
            Hand::Member(who) | Hand::Own(who) => Doer::Member(net.clients[who % 6].address),
            Hand::Gone if closed => return Some(ErrorCode::InvalidToken),
            Hand::Stranger if closed => return Some(ErrorCode::Unauthenticated),
            // Where nothing is asked for, it is read like everybody else, and manages nothing.
            Hand::Gone | Hand::Stranger => return Some(ErrorCode::Forbidden),
        };
        let may = match takes {
            Takes::TheOperator => doer == Doer::Operator,
            Takes::Managing => net.oracle.manages(doer),
            Takes::Arranging => net.oracle.arranges(doer),
        };
        (!may).then_some(ErrorCode::Forbidden)
    }

    /// One act, and whether it was refused as it must be. Gives what else was wrong with it.
    async fn acts(
        &mut self,
        network: &Network,
        caller: &Arc<Caller>,
        op: AdminOp,
        refusal: Option<ErrorCode>,
    ) -> Result<Result<(), ErrorCode>, Wrong> {
        let what = format!("{op:?}");
        let before = self.record(network).await?.len();
        let (by, asked) = (caller.clone(), network.clone());
        let done = self.drive(async move { asked.session(&by).act(None, op).await }).await?;
        let heard = done.err().map(|fault| fault.code);
        self.note(&format!("managing: {:?}", heard.map(ErrorCode::as_str)));
        let record = self.record(network).await?;
        let more = record.len() - before.min(record.len());
        if heard != Some(ErrorCode::StorageUnavailable) && more != usize::from(heard.is_none()) {
            return wrong("managing", format!("{what}: {heard:?}, and {more} more in the record of acts"));
        }
        let actor = record.last().map(|entry| entry.actor.as_ref());
        if heard.is_none() && caller.operator != (actor == Some("operator")) {
            return wrong("managing", format!("{what} is recorded as done by {actor:?}"));
        }
        match (refusal, heard) {
            (Some(refusal), _) if heard != Some(refusal) => {
                wrong("managing", format!("{what} is not the caller's to do: {heard:?} instead of {refusal:?}"))
            }
            (None, Some(code)) if REFUSALS.contains(&code) => {
                wrong("managing", format!("{what} is the caller's to do, and refused: {code:?}"))
            }
            (_, None) => Ok(Ok(())),
            (_, Some(code)) => Ok(Err(code)),
        }
    }

    /// Everything that is recorded of who managed the network.
    async fn record(&mut self, network: &Network) -> Result<Vec<AuditEntry>, Wrong> {
        let listed = self.look_at(network, |session| async move { session.audit(0, None).await }).await?;
        Ok(listed.entries)
    }

    /// A token is made, is good, is revoked, and is good no more.
    async fn makes_token(
        &mut self,
        n: usize,
        network: &Network,
        caller: &Arc<Caller>,
        refusal: Option<ErrorCode>,
    ) -> Result<(), Wrong> {
        let spare = AdminOp::AddToken(token(SPARE_LABEL, SPARE));
        if self.acts(network, caller, spare, refusal).await? == Ok(()) {
            self.shows_role(n, network, SPARE, None).await?;
        }
        let revoked = self.acts(network, caller, AdminOp::RevokeToken(SPARE_LABEL.to_owned()), refusal).await?;
        if revoked == Ok(()) {
            self.shows_role(n, network, SPARE, Some(ErrorCode::InvalidToken)).await?;
        }
        Ok(())
    }

    /// Whether whoever shows a secret of a closed network is known there. Nothing is done: setting no setting is managing all the same.
    async fn shows_role(
        &mut self,
        n: usize,
        network: &Network,
        secret: &str,
        refusal: Option<ErrorCode>,
    ) -> Result<(), Wrong> {
        if !self.script.nets[n].closed {
            return Ok(());
        }
        let manages = self.nets[n].oracle.manages(Doer::Bare);
        let refusal = refusal.or((!manages).then_some(ErrorCode::Forbidden));
        let nothing = AdminOp::Settings(json!({}));
        self.acts(network, &bearer(secret), nothing, refusal).await.map(drop)
    }

    /// The network's token is replaced: nothing is left of what was made with any of the old ones. Then the operator puts them back.
    async fn rotates(
        &mut self,
        n: usize,
        network: &Network,
        caller: &Arc<Caller>,
        refusal: Option<ErrorCode>,
    ) -> Result<(), Wrong> {
        let turned = AdminOp::RotateToken(token(SPARE_LABEL, SPARE));
        if self.acts(network, caller, turned, refusal).await? != Ok(()) {
            if refusal.is_none() {
                [LABEL, LOCAL].iter().for_each(|label| self.nets[n].oracle.token_ends(label, false));
            }
            return Ok(());
        }
        [LABEL, LOCAL].iter().for_each(|label| self.nets[n].oracle.token_ends(label, true));
        self.shows_role(n, network, TOKEN, Some(ErrorCode::InvalidToken)).await?;
        self.shows_role(n, network, &local_secret(n), Some(ErrorCode::InvalidToken)).await?;
        self.shows_role(n, network, SPARE, None).await?;
        let back = [
            AdminOp::RevokeToken(SPARE_LABEL.to_owned()),
            AdminOp::AddToken(token(LABEL, TOKEN)),
            AdminOp::AddToken(token(LOCAL, &local_secret(n))),
        ];
        for op in back {
            let _ = self.acts(network, &operator(), op, None).await?;
        }
        self.settle().await?;
        self.sessions_end(n, network).await
    }
}
