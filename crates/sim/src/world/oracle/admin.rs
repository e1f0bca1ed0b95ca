//! What the operator does, and what leaving and removing means (sheet sections 1.4 and 1.5).

use super::{Group, Oracle, Who, Wrong, wrong};
use serde_json::Value;

impl Oracle {
    /// The session ends, nothing new is queued; mail stays.
    pub(crate) fn leave(&mut self, who: Who) {
        if let Some(member) = self.members.get_mut(who) {
            member.left = true;
        }
        self.mods_of_gone(who);
    }

    /// The membership is deleted: its mail becomes dead letters, its invitations end. Where the network's token manages, somebody
    /// follows a master; elsewhere the operator makes them.
    pub(crate) fn remove(&mut self, who: Who) {
        let Some(member) = self.members.get_mut(who) else { return };
        member.removed = true;
        let was = std::mem::replace(&mut member.granted, "member");
        self.succeed(who, was);
        self.invitations_end(who);
        self.resources_of_gone(who);
        self.mods_of_gone(who);
        self.former.retain(|_, had| *had != who);
        self.excused.insert(who, "recipient_left");
        for channel in 0..self.channels.len() {
            self.unseat(channel, who);
        }
    }

    /// The operator removed a member.
    pub fn removed(&mut self, address: &str) {
        if let Some(who) = self.who(address) {
            self.remove(who);
        }
    }

    /// A member that sits in a channel muted it, or hears it again.
    pub fn mute(&mut self, address: &str, channel: &str, on: bool) {
        let (who, channel) = (self.who(address), self.channel(channel));
        let Some(channel) = channel.and_then(|c| self.channels.get_mut(c)) else { return };
        if let Some(who) = who.filter(|who| channel.seats.contains(who)) {
            channel.muted.retain(|muted| *muted != who);
            channel.muted.extend(on.then_some(who));
        }
    }

    /// A member's mail waits, or no longer.
    pub fn quiet(&mut self, address: &str, on: bool) {
        if let Some(member) = self.who(address).and_then(|w| self.members.get_mut(w)) {
            member.quiet = on;
        }
    }

    /// A member was to be called otherwise: an agent, by a name nobody has. Mail, seats, groups, rules and work are the
    /// member's, not the name's; the old name leads to it until somebody else takes it.
    pub fn renamed(&mut self, old: &str, name: &str, done: bool) -> Result<(), Wrong> {
        let Some(who) = self.named(old) else { return Ok(()) };
        let fine = old.starts_with("agent:") && (self.named(name).is_none() || old == name);
        if fine != done {
            return wrong("rules", format!("{old} becomes {name}: {done}, which is not the rule"));
        }
        if !done || old == name {
            return Ok(());
        }
        self.members.iter_mut().filter(|m| m.address == old).for_each(|m| m.address = name.to_owned());
        self.renamed = true;
        self.former.remove(name);
        self.former.insert(old.to_owned(), who);
        for group in &mut self.groups {
            if group.members.remove(old) {
                group.members.insert(name.to_owned());
            }
        }
        self.resources_renamed(old, name);
        let told = std::mem::take(&mut self.noticed);
        let follow = |recipient: String| if recipient == old { name.to_owned() } else { recipient };
        self.noticed = told.into_iter().map(|(seq, recipient)| (seq, follow(recipient))).collect();
        Ok(())
    }

    /// Whether a member is called so now.
    pub fn is_taken(&self, name: &str) -> bool {
        self.named(name).is_some()
    }

    /// Whether anybody was called otherwise.
    pub fn has_former(&self) -> bool {
        self.renamed
    }

    /// The operator set a role.
    pub fn role(&mut self, address: &str, role: &'static str) {
        if let Some(member) = self.who(address).and_then(|w| self.members.get_mut(w)) {
            member.granted = role;
        }
    }

    /// Whether the name is no member's and leads to somebody who had it before: nobody joins under it.
    pub fn leads_elsewhere(&self, address: &str) -> bool {
        self.named(address).is_none() && self.former.contains_key(address)
    }

    /// The operator set a group.
    pub fn set_group(&mut self, name: &str, members: &[String]) {
        let now = |name: &String| self.who(name).and_then(|w| self.address(w)).unwrap_or(name).to_owned();
        let members = members.iter().map(now).collect();
        match self.group(name).and_then(|g| self.groups.get_mut(g)) {
            Some(group) => group.members = members,
            None => self.groups.push(Group { name: name.to_owned(), members, deleted: false }),
        }
    }

    /// The operator deleted a group.
    pub fn delete_group(&mut self, name: &str) {
        if let Some(group) = self.group(name).and_then(|g| self.groups.get_mut(g)) {
            group.deleted = true;
        }
    }

    /// The status changed; archiving ends all deliveries.
    pub fn status(&mut self, status: &'static str) {
        self.rules.status = status;
        self.rested = true;
        if status == "archived" {
            for who in 0..self.members.len() {
                self.excused.insert(who, "archived");
            }
        }
    }

    /// The payload of an event was overwritten; what it brought went with it if the node says that it is done.
    pub fn redacted(&mut self, seq: u64, done: bool) {
        if done {
            self.erased.insert(seq);
        }
        if self.redacted.insert(seq) && done {
            self.content_redacted(seq);
            self.skills_redacted(seq);
        }
    }

    /// What a redacted join said its sender can do nobody can do any more, unless it was said otherwise since.
    fn skills_redacted(&mut self, seq: u64) {
        let joined =
            self.tape.iter().find(|entry| entry.event.seq == seq && entry.event.kind() == "network.agent.join");
        let Some((who, payload)) = joined.and_then(|entry| Some((entry.source?, entry.event.payload()))) else {
            return;
        };
        let said: Value = serde_json::from_str(payload).unwrap_or_default();
        let said = said.get("capabilities").and_then(Value::as_array).into_iter().flatten();
        let said: Vec<String> = said.filter_map(Value::as_str).map(str::to_owned).collect();
        if let Some(member) = self.members.get_mut(who).filter(|member| member.skills == said) {
            member.skills.clear();
        }
    }
}
