//! What the operator does, and what the oracle is told of it.

use super::oracle::Wrong;
use super::script::{ADDRESSES, Admin, CHANNELS, GROUPS, NAMES};
use super::{Net, World};
use rialto_model::Role;
use rialto_node::{AdminOp, Dnd, Network, Wishes};
use serde_json::json;

/// What the oracle is told when an operator's act was done.
pub(crate) type Told = Box<dyn FnOnce(&mut Net)>;

impl World {
    pub(crate) async fn admin(&mut self, n: usize, op: Admin) -> Result<(), Wrong> {
        self.observe().await?;
        let Some(network) = self.nets[n].handle.clone().filter(|_| !self.trouble) else { return Ok(()) };
        match op {
            Admin::Redact(nth) => {
                let head = self.nets[n].oracle.head();
                if head == 0 {
                    return Ok(());
                }
                return self.redact(n, network, 1 + nth % head).await;
            }
            Admin::Rename(who, name) => return self.rename(n, who % 6, NAMES[name % 5], network).await,
            Admin::Revoke => return self.revoke(n, network).await,
            Admin::RevokeOwn(who) => return self.revoke_own(n, who, network).await,
            Admin::Visit(who, invited) => return self.visit(n, who % 6, invited, network).await,
            Admin::Role(..)
            | Admin::Remove(_)
            | Admin::Group(..)
            | Admin::DeleteGroup(_)
            | Admin::Status(_)
            | Admin::MaxPending(_)
            | Admin::Mute(..)
            | Admin::Quiet(..)
            | Admin::TokenManages(_) => {}
        }
        let Some((real, told)) = self.plain(n, op) else { return Ok(()) };
        let result = self.drive(async move { network.admin(real).await }).await?;
        self.note(&format!("admin: {:?}", result.as_ref().map_err(|f| f.code.as_str())));
        if result.is_ok() {
            told(&mut self.nets[n]);
        }
        self.observe().await
    }

    /// An act that is one change of the network, and what the oracle is told when it is done; nothing for one that is more.
    pub(crate) fn plain(&self, n: usize, op: Admin) -> Option<(AdminOp, Told)> {
        let plain: (AdminOp, Told) = match op {
            Admin::Redact(_) | Admin::Rename(..) | Admin::Revoke | Admin::RevokeOwn(_) | Admin::Visit(..) => {
                return None;
            }
            Admin::Role(who, role) => {
                let address = self.nets[n].clients[who % 6].address;
                let wire = Role::from_wire(role).unwrap_or(Role::Member);
                (AdminOp::Role(address.to_owned(), wire), Box::new(move |net| net.oracle.role(address, role)))
            }
            Admin::Remove(who) => {
                let c = who % 6;
                let address = self.nets[n].clients[c].address;
                let op = AdminOp::Remove(address.to_owned());
                let told = move |net: &mut Net| {
                    net.oracle.removed(address);
                    net.clients[c].session = None;
                    net.clients[c].seen.clear();
                };
                (op, Box::new(told))
            }
            Admin::Group(g, bits) => {
                let members = (0..6).filter(|i| bits & (1 << i) != 0).map(|i| ADDRESSES[i].to_owned());
                let members: Vec<String> = members.collect();
                let name = GROUPS[g % 2];
                let told = members.clone();
                (AdminOp::SetGroup(name.to_owned(), members), Box::new(move |net| net.oracle.set_group(name, &told)))
            }
            Admin::DeleteGroup(g) => {
                let name = GROUPS[g % 2];
                (AdminOp::DeleteGroup(name.to_owned()), Box::new(move |net| net.oracle.delete_group(name)))
            }
            Admin::Status(status) => {
                (AdminOp::Settings(json!({ "status": status })), Box::new(move |net| net.oracle.status(status)))
            }
            Admin::Mute(who, channel, on) => {
                let (address, name) = (self.nets[n].clients[who % 6].address, CHANNELS[channel % 4]);
                let (list, none) = (vec![name.to_owned()], Vec::new());
                let (mute, unmute) = if on { (list, none) } else { (none, list) };
                let op = AdminOp::Member(address.to_owned(), Wishes { mute, unmute, ..Wishes::default() });
                (op, Box::new(move |net| net.oracle.mute(address, name, on)))
            }
            Admin::Quiet(who, on) => {
                let address = self.nets[n].clients[who % 6].address;
                let wishes = Wishes { dnd: Some(if on { Dnd::On } else { Dnd::Off }), ..Wishes::default() };
                (AdminOp::Member(address.to_owned(), wishes), Box::new(move |net| net.oracle.quiet(address, on)))
            }
            Admin::TokenManages(on) => {
                let op = AdminOp::Settings(json!({ "token_manages": on }));
                (op, Box::new(move |net| net.oracle.rules.token_manages = on))
            }
            Admin::MaxPending(max) => {
                let op = AdminOp::Settings(json!({ "max_pending": max }));
                (op, Box::new(move |net| net.oracle.rules.max_pending = max))
            }
        };
        Some(plain)
    }

    /// Everything of a member follows it to its new name.
    async fn rename(&mut self, n: usize, c: usize, name: &'static str, network: Network) -> Result<(), Wrong> {
        let client = &self.nets[n].clients[c];
        let waits = !client.calls.is_empty() || client.stream.as_ref().is_some_and(|s| !s.waiting.is_empty());
        // A client that is no member now comes back under its own name.
        let claimed = self.nets[n].clients.iter().any(|c| c.address == name) && !self.nets[n].oracle.is_taken(name);
        if waits || claimed || self.nets[n].shaky {
            return Ok(());
        }
        let old = client.address;
        let op = AdminOp::Member(old.to_owned(), Wishes { name: Some(name.to_owned()), ..Wishes::default() });
        let result = self.drive(async move { network.admin(op).await }).await?;
        self.note(&format!("{old} becomes {name}: {:?}", result.as_ref().map_err(|f| f.code.as_str())));
        let net = &mut self.nets[n];
        net.oracle.renamed(old, name, result.is_ok())?;
        if result.is_ok() {
            net.clients[c].address = name;
            if let Some(stream) = net.clients[c].stream.as_mut() {
                stream.view.address = name.to_owned();
            }
            let acks = net.lazy.iter_mut().chain(&mut net.doubts);
            acks.filter(|acked| acked.address == old).for_each(|acked| acked.address = name.to_owned());
        }
        self.observe().await
    }

    async fn redact(&mut self, n: usize, network: Network, seq: u64) -> Result<(), Wrong> {
        let id = format!("seq:{seq}");
        let result = self.drive(async move { network.redact(&id).await }).await?;
        self.note(&format!("redact {seq}: {:?}", result.as_ref().map_err(|f| f.code.as_str())));
        self.nets[n].oracle.redacted(seq, result.is_ok());
        for seq in result.map(|redaction| redaction.copies).unwrap_or_default() {
            self.nets[n].oracle.redacted(seq, false);
        }
        Ok(())
    }
}
