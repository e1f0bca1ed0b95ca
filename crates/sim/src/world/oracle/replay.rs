//! Joins with `replay: true` (sheet section 8): every stored event after the resume point that was sent to the member comes
//! again, whether it was acked or not.
//!
//! Recipients are fixed at commit, so a replay brings nothing from before somebody joined or was seated. What was said in a
//! channel or a group that the member is no longer in comes only if it is still pending.

use super::{Delivered, Entry, Input, Oracle, Place, Row, Who, Wrong, wrong};
use serde_json::Value;

impl Oracle {
    /// A member joined at this point of the tape: a stream that asked for it is owed all that is its own by now. What is
    /// committed later is mail like any other.
    pub(crate) fn owe_replay(&mut self, who: Who, input: &Input) {
        let payload: Value = serde_json::from_str(&input.payload).unwrap_or_default();
        self.replays.remove(&who);
        if payload.get("replay") != Some(&Value::Bool(true)) {
            return;
        }
        let resume = payload.get("resume_after").and_then(Value::as_str).and_then(|at| at.strip_prefix("seq:"));
        let after: u64 = resume.and_then(|at| at.parse().ok()).unwrap_or(0);
        let mail = self.members.get(who).into_iter().flat_map(|m| m.mail.keys().copied());
        self.replays.insert(who, mail.filter(|seq| *seq > after).collect());
        self.forget_replays();
    }

    /// Takes from the replays that are owed what no longer comes: history forgot it, or its member does not hear any more
    /// what goes to that place. Called after everything that can change this.
    pub(crate) fn forget_replays(&mut self) {
        if self.replays.is_empty() {
            return;
        }
        let mut replays = std::mem::take(&mut self.replays);
        for (who, owed) in &mut replays {
            owed.retain(|seq| {
                let entry = self.entry(*seq).filter(|_| self.rules.persistence && *seq > self.purged);
                entry.is_some_and(|entry| self.hears(*who, entry))
            });
        }
        self.replays = replays;
    }

    /// Whether what goes to the place of an entry would reach the member now.
    fn hears(&self, who: Who, entry: &Entry) -> bool {
        match entry.place {
            Place::Nowhere => false,
            Place::Inbox(to) => to == who,
            Place::Channel(c) => {
                self.channels.get(c).is_some_and(|c| c.seats.contains(&who) && !c.muted.contains(&who))
            }
            Place::Group(g) => {
                let address = self.address(who);
                self.groups.get(g).is_some_and(|g| !g.deleted && address.is_some_and(|a| g.members.contains(a)))
            }
            Place::Everybody => true,
        }
    }

    /// A first push to a stream comes after its resume point. Without a replay it is not of something that was over before
    /// the stream was opened, and with one it is the member's own, not that of somebody who had its name before.
    pub(crate) fn may_be_first_push(&self, stream: &Delivered, seq: u64, over: bool) -> Result<(), Wrong> {
        let address = &stream.address;
        if seq <= stream.from {
            return wrong("replay", format!("{address} resumed after {} and was pushed {seq}", stream.from));
        }
        if !stream.replay && over && self.rules.at_least_once {
            return wrong("replay", format!("{address} asked for no replay and was pushed {seq}, which is over"));
        }
        let now = self.who(address).and_then(|who| self.members.get(who));
        if stream.replay && now.is_some_and(|member| !member.mail.contains_key(&seq)) {
            return wrong("replay", format!("{address} was replayed {seq}, which was never its mail"));
        }
        Ok(())
    }

    /// A stream that asked for a replay, reads and has room in its window was sent all of it.
    pub(crate) fn replay_is_whole(&self, stream: &Delivered) -> Result<(), Wrong> {
        let owed = self.who(&stream.address).and_then(|who| self.replays.get(&who)).filter(|_| stream.replay);
        match owed.into_iter().flatten().find(|seq| !stream.sent.contains(seq)) {
            Some(seq) => wrong("replay", format!("{} was not replayed {seq}", stream.address)),
            None => Ok(()),
        }
    }
}

/// Whether a delivery was over before a stream was opened.
pub(crate) fn was_over(mail: &super::Mail, stream: &Delivered) -> bool {
    matches!(mail.row, Row::Acked | Row::Dead) && mail.ended < stream.opened
}
