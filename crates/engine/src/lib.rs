//! Verbs without I/O: one [`Engine`] value per network decides what happens and applies what was decided.
//!
//! Invariant: `decide` changes nothing durable; `apply` is the only thing that does, live and on replay. Same state,
//! same input, same clock: same records, byte for byte.
//! Not here: sockets, disks, clocks and randomness (`rialto-node` brings them in as values).

pub mod delivery;
pub mod glob;
pub mod history;
pub mod input;
pub mod mods;
pub mod record;
pub mod route;
pub mod snapshot;
pub mod state;
pub mod streams;

mod admin;
mod apply;
mod channels;
mod core_events;
mod emit;
mod explain;
mod membership;
mod presence;
mod principal;
mod tick;

pub use admin::AdminOp;
pub use delivery::AckRequest;
pub use explain::Explanation;
pub use history::{Filter, Page, View, Viewer};
pub use input::{Accepted, Answer, Caller, Clock, Dialect, Effect, Effects, Emit, Seen, SessionRef};
pub use presence::Live;
pub use principal::Principal;
pub use record::{EventRecord, Record};
pub use route::{Route, StreamKey};
pub use state::{ChannelId, MemberId, State};

use rialto_model::Fault;

/// One network: its durable state, and what is true only while the process lives.
#[derive(Debug)]
pub struct Engine {
    /// Changed by [`Engine::apply`] alone.
    pub state: State,
    /// Presence, rate buckets, refusals: volatile, outside the state hash.
    pub live: Live,
}

impl Engine {
    /// An engine over a state, with nobody there yet.
    pub fn new(state: State) -> Engine {
        Engine { state, live: Live::default() }
    }

    /// Decides one event of a client. Records come out in `effects`; nothing durable has changed yet.
    pub fn emit(&mut self, input: &Emit<'_>, now: Clock, effects: &mut Effects) -> Result<Accepted, Fault> {
        let result = emit::decide(&self.state, &mut self.live, input, now, effects);
        if let Err(fault) = &result {
            self.live.refused(input, fault, now);
        }
        result
    }

    /// Decides acks of a member's deliveries.
    pub fn ack(&mut self, by: MemberId, request: &AckRequest, now: Clock, effects: &mut Effects) -> u64 {
        delivery::decide_acks(&self.state, by, request, now, effects)
    }

    /// Decides an operator's act.
    pub fn admin(&mut self, op: &AdminOp, now: Clock, effects: &mut Effects) -> Result<serde_json::Value, Fault> {
        admin::decide(&self.state, op, now, effects)
    }

    /// Decides what time alone brings: expiry, dead letters, presence.
    pub fn tick(&mut self, now: Clock, effects: &mut Effects) {
        tick::decide(&self.state, &mut self.live, now, effects);
    }

    /// Applies one decided record: the only way durable state changes, live and on replay.
    pub fn apply(&mut self, record: &Record) {
        apply::apply(&mut self.state, record);
    }
}
