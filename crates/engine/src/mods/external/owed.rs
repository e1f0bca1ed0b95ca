//! Owed emits: what a mod sent with a verdict and other mods have to see first.
//!
//! An emit that must ask, or that waits behind one that does, is decided in a later batch than its cause. A record of it goes into
//! the batch of the cause, and another one that takes it away into the batch that decides it, so a crash, a stop or a failing log
//! between the two loses nothing and repeats nothing: the next start takes up what is still owed.
//! Not here: how long an emit waits for its mods (`rialto-node`), and what its text is blanked for (`redaction`).

use super::EmitChain;
use crate::Engine;
use crate::input::Effects;
use crate::record::Change;
use crate::state::State;
use rialto_model::Seq;
use serde::{Deserialize, Serialize};

/// An emit of a mod that is not decided yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwedEmit {
    /// The mod that sends it.
    #[serde(rename = "mod")]
    pub name: Box<str>,
    /// What it follows from, as far as that is bounded.
    pub chain: EmitChain,
    /// The event that the mod judged, if that was committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Seq>,
    /// Id of the mail it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers_to: Option<String>,
    /// The last event before this was recorded.
    pub after: Seq,
    /// The event as the mod wrote it.
    pub text: String,
}

/// Which owed emit an event was, so that a redaction of the event finds the record of the emit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwedMark {
    /// Its number.
    pub number: u64,
    /// The record of the emit lies behind this event.
    pub after: Seq,
}

impl State {
    /// The mark of an owed emit; none if it is settled.
    pub fn owed_mark(&self, number: u64) -> Option<OwedMark> {
        self.book.owed.get(&number).map(|emit| OwedMark { number, after: emit.after })
    }
}

impl Engine {
    /// Records that an emit waits; returns its number. Where it stands in the log is filled in.
    pub fn owe_emit(&self, emit: OwedEmit, effects: &mut Effects) -> u64 {
        let number = self.state.book.next_owed;
        let record = OwedEmit { after: self.state.book.head, ..emit };
        effects.change(Change::EmitOwed { number, record: Box::new(record) });
        number
    }

    /// Records that an owed emit was decided. Does nothing if it is settled already.
    pub fn settle_emit(&self, number: u64, effects: &mut Effects) {
        if self.state.book.owed.contains_key(&number) {
            effects.change(Change::EmitSettled { number });
        }
    }
}
