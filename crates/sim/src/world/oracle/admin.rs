//! What the operator does, and what leaving and removing means (sheet sections 1.4 and 1.5).

use super::{Group, Oracle, Who};

impl Oracle {
    /// The session ends, nothing new is queued; mail stays.
    pub(crate) fn leave(&mut self, who: Who) {
        if let Some(member) = self.members.get_mut(who) {
            member.left = true;
        }
    }

    /// The membership is deleted: its mail becomes dead letters, a removed master has a successor.
    pub(crate) fn remove(&mut self, who: Who) {
        let Some(member) = self.members.get_mut(who) else { return };
        member.removed = true;
        let master = std::mem::take(&mut member.master);
        self.resources_of_gone(who);
        self.excused.insert(who, "recipient_left");
        for channel in 0..self.channels.len() {
            self.unseat(channel, who);
        }
        let agent = |m: &super::Member| !m.removed && !m.address.starts_with("human:");
        if !master || self.members.iter().any(|m| agent(m) && m.master) {
            return;
        }
        let heir = |m: &super::Member| agent(m) && !m.observer;
        let next = self.members.iter().position(|m| heir(m) && m.present());
        let next = next.or_else(|| self.members.iter().position(heir));
        if let Some(member) = next.and_then(|w| self.members.get_mut(w)) {
            member.master = true;
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

    /// The operator set a role.
    pub fn role(&mut self, address: &str, role: &str) {
        if let Some(member) = self.who(address).and_then(|w| self.members.get_mut(w)) {
            member.observer = role == "observer";
            member.master = role == "master";
        }
    }

    /// The operator set a group.
    pub fn set_group(&mut self, name: &str, members: &[String]) {
        let members = members.iter().cloned().collect();
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

    /// The payload of an event was overwritten.
    pub fn redacted(&mut self, seq: u64) {
        self.redacted.insert(seq);
    }
}
