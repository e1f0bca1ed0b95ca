//! Ephemeral events (sheet sections 4.4 and 7): refused as others are, never stored and given no position, and sent at most once
//! to the live streams of those that the routing rules name.
//!
//! They leave no trace on the tape, so when one was decided is known only if it was sent while nothing else happened. Otherwise
//! it may reach whoever was a recipient at any time from its sending to the look after its answer.

use super::{Input, Oracle, Place, Who, Wrong, wrong};
use rialto_model::{ErrorCode, Event};
use serde_json::Value;
use std::collections::BTreeSet;

/// An ephemeral event and whom it reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Passing {
    /// Whom it may reach.
    may: BTreeSet<Who>,
    /// It was decided for sure: nobody else becomes a recipient of it.
    decided: bool,
    /// Whether it was accepted, if that is known.
    accepted: Option<bool>,
    /// Addresses whose streams were handed it.
    got: BTreeSet<String>,
}

/// Whether an event is never stored.
pub(crate) fn is_ephemeral(input: &Input) -> bool {
    input.metadata.get("ephemeral") == Some(&Value::Bool(true)) && !input.kind.starts_with("network.")
}

impl Oracle {
    /// An ephemeral event goes out.
    pub(crate) fn passing(&mut self, k: usize) {
        let ephemeral = self.inputs.get(k).is_some_and(is_ephemeral);
        if ephemeral {
            self.passing.insert(k, Passing::default());
            self.passing_may_reach();
        }
    }

    /// Whoever is a recipient now of what is not decided yet may be reached by it. Called after everything that changes who
    /// that is.
    pub(crate) fn passing_may_reach(&mut self) {
        let open: Vec<usize> = self.passing.iter().filter(|(_, p)| !p.decided).map(|(k, _)| *k).collect();
        for k in open {
            let reached = self.inputs.get(k).map(|input| self.reached_by(input)).unwrap_or_default();
            self.passing.entry(k).and_modify(|passing| passing.may.extend(reached));
        }
    }

    /// Everything was compared: what was answered by now was decided before.
    pub(crate) fn passing_looked(&mut self) {
        self.passing_may_reach();
        let fates = &self.fates;
        for (k, passing) in &mut self.passing {
            passing.decided |= fates.get(*k).is_none_or(|fate| fate.open == 0);
        }
    }

    /// Who receives an ephemeral event if it is decided now: present recipients that want to be disturbed.
    fn reached_by(&self, input: &Input) -> Vec<Who> {
        let Some(source) = self.who(&input.source) else { return Vec::new() };
        let Ok(place) = self.place(&input.target) else { return Vec::new() };
        let reached = self.recipients(place, Some(source), input.to.as_deref());
        reached.into_iter().filter(|who| self.members.get(*who).is_some_and(|m| !m.quiet)).collect()
    }

    /// The answer to an ephemeral event came. Who posts to a channel of a workspace is seated there, whatever it posts.
    pub(crate) fn passing_answered(&mut self, k: usize, accepted: bool, seq: Option<u64>) -> Result<(), Wrong> {
        let Some(passing) = self.passing.get_mut(&k) else { return Ok(()) };
        passing.accepted = Some(accepted);
        if let Some(seq) = seq {
            return wrong("ephemeral", format!("k={k} is ephemeral and was given the position {seq}"));
        }
        // Elsewhere only who sits there posts.
        let Some(input) = self.inputs.get(k).filter(|_| accepted && self.rules.workspace) else { return Ok(()) };
        let (source, place) = (self.who(&input.source), self.place(&input.target));
        if let (Some(source), Ok(Place::Channel(c))) = (source, place)
            && let Some(channel) = self.channels.get_mut(c).filter(|c| !c.seats.contains(&source))
        {
            channel.seats.push(source);
        }
        Ok(())
    }

    /// A stream of `address` was handed an event without a position.
    pub fn passed(&mut self, address: &str, event: &Event) -> Result<(), Wrong> {
        let k = super::number_of(event.payload());
        let known = k.and_then(|k| Some((self.passing.get(&k)?, self.inputs.get(k)?)));
        let (Some(k), Some((passing, input))) = (k, known) else {
            return wrong("ephemeral", format!("{address} was sent {}, which nobody sent", event.json()));
        };
        let same = (input.source == event.source() || self.who(&input.source) == self.named(event.source()))
            && input.kind == event.kind()
            && input.payload == event.payload()
            && event.seq == 0;
        if !same {
            return wrong("ephemeral", format!("k={k} was {input:?} and came as {}", event.json()));
        }
        if passing.accepted == Some(false) {
            return wrong("refusals", format!("k={k} was refused and reached {address}"));
        }
        // Who was reached may have been removed, or have come back as somebody else, by the time it is looked at.
        if !passing.may.iter().any(|who| self.address(*who) == Some(address)) {
            return wrong("borders", format!("{address} was sent {}, which is not for it", event.json()));
        }
        let first = self.passing.get_mut(&k).is_none_or(|passing| passing.got.insert(address.to_owned()));
        if !first {
            return wrong("ephemeral", format!("{address} was sent k={k} twice"));
        }
        Ok(())
    }

    /// An ephemeral event that was sent while nothing else happened: it was accepted if nothing speaks against it, and
    /// `there`, the members that read their streams, have it if they are among its recipients.
    pub fn passed_by_the_rules(&self, k: usize, codes: &[ErrorCode], there: &[&str]) -> Result<(), Wrong> {
        let (Some(passing), Some(input)) = (self.passing.get(&k), self.inputs.get(k)) else { return Ok(()) };
        match (passing.accepted, codes) {
            (Some(true), [code, ..]) => {
                return wrong("rules", format!("{input:?} was accepted though it is {}", code.as_str()));
            }
            (Some(false), []) => {
                return wrong("rules", format!("nothing speaks against {input:?}, but it was refused"));
            }
            (Some(true), []) => {}
            (Some(false), [_, ..]) | (None, _) => return Ok(()),
        }
        let addresses = passing.may.iter().filter_map(|who| self.address(*who));
        match addresses.into_iter().find(|address| there.contains(address) && !passing.got.contains(*address)) {
            Some(address) => wrong("ephemeral", format!("{address} listens and was not sent {input:?}")),
            None => Ok(()),
        }
    }

    /// An ephemeral event is never committed.
    pub(crate) fn is_not_passing(&self, k: usize, event: &Event) -> Result<(), Wrong> {
        if self.passing.contains_key(&k) {
            return wrong("ephemeral", format!("{} is ephemeral and was stored", event.json()));
        }
        Ok(())
    }
}
