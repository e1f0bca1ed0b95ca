//! Verbs without I/O: one [`Engine`] value per network decides what happens and applies what was decided.
//!
//! Invariant: `decide` changes nothing durable; `apply` is the only thing that does, live and on replay. Same state,
//! same input, same clock: same records, byte for byte.
//! Not here: sockets, disks, clocks and randomness (`rialto-node` brings them in as values).

#[doc(hidden)]
pub mod bugs;
pub mod delivery;
pub use rialto_model::glob;
pub mod history;
pub mod input;
pub mod mods;
pub mod monotonic;
pub mod record;
pub mod redaction;
pub mod resources;
mod rights;
pub mod rooms;
pub mod route;
mod server_events;
pub mod snapshot;
pub mod state;
pub mod streams;
pub mod work;

mod admin;
mod apply;
pub mod audit;
mod channels;
pub mod conversations;
mod core_events;
pub mod credential;
mod dead;
mod directory;
mod duplicate;
mod emit;
mod explain;
mod facts;
pub mod invites;
pub mod listing;
mod membership;
mod overview;
mod own;
mod presence;
mod principal;
pub mod profile;
mod receipts;
mod recency;
mod shares;
mod tick;
mod visibility;
mod weights;

pub use admin::AdminOp;
pub use delivery::AckRequest;
pub use explain::ExplainedEvent;
pub use facts::{FactChange, FactNow, FactPage};
pub use history::{CandidatePage, Filter, Latest, View, Viewer};
pub use input::{
    Accepted, Answers, Caller, Capabilities, Clock, Effect, Effects, Emit, KnownId, Question, SessionRef, Stop, Via,
};
pub use own::{Dnd, Wishes};
pub use presence::VolatileState;
pub use principal::Principal;
pub use record::{EventRecord, Record};
pub use route::{Route, StreamKey};
pub use state::{ChannelId, MemberId, State};
pub use work::UnitFilter;

use mods::external::{self, emitted::ModEvent};
use rialto_model::view::{AdminOutcome, AnalyticsView};
use rialto_model::{EventType, Fault, Millis};

/// One network: its durable state, and what is true only while the process lives.
#[derive(Debug)]
pub struct Engine {
    /// Changed by [`Engine::apply`] alone.
    pub state: State,
    /// Presence, rate buckets, refusals: volatile, outside the state hash.
    pub live: VolatileState,
}

impl Engine {
    /// An engine over a state, with nobody there yet.
    pub fn new(state: State) -> Engine {
        Engine { state, live: VolatileState::default() }
    }

    /// Decides one event of a client. Records come out in `effects`; nothing durable has changed yet. What it cannot
    /// know is asked for: the same input with the answer decides it.
    pub fn emit(&mut self, input: &Emit<'_>, now: Clock, effects: &mut Effects) -> Result<Accepted, Stop> {
        let mark = effects.mark();
        let pair = monotonic::drifted(&self.state, now);
        let result = monotonic::record_before(pair, effects, |fx| emit::decide(self, input, now, fx));
        match &result {
            Ok(accepted) => {
                mods::analytics::observe(&self.state, &mut self.live, &input.envelope.kind, Ok(accepted), now)
            }
            Err(Stop::Refused(fault)) => {
                mods::analytics::observe(&self.state, &mut self.live, &input.envelope.kind, Err(fault), now);
            }
            Err(Stop::Ask(_)) => {}
        }
        if self.state.loaded.external
            && let Ok(Accepted { event: Some(record), duplicate: false, .. }) = &result
        {
            external::observe(&self.state, record, None, effects);
        }
        if bugs::on("apply differs from decide")
            && input.envelope.event_type() == EventType::ChannelLeave
            && result.is_ok()
        {
            self.state.book.next_group += 1;
        }
        if result.is_err() {
            effects.undo(mark);
        }
        if let Err(Stop::Refused(fault)) = &result {
            let caller = self.state.principal(input.caller, None, now).ok().and_then(|p| p.member());
            let source = caller.and_then(|id| self.state.member(id)).map(|m| m.address.to_string());
            self.live.refused(input, source, fault, now);
        }
        result
    }

    /// Decides an event that a mod sends.
    pub fn emit_of_mod(&mut self, input: &ModEvent<'_>, now: Clock, effects: &mut Effects) -> Result<Accepted, Stop> {
        let mark = effects.mark();
        let pair = monotonic::drifted(&self.state, now);
        let result = monotonic::record_before(pair, effects, |fx| {
            external::emitted::decide(&self.state, &mut self.live, input, now, fx)
        });
        match &result {
            Ok(Accepted { event: Some(record), .. }) => {
                external::observe(&self.state, record, Some((input.name, input.chain)), effects);
            }
            Ok(_) => {}
            Err(_) => effects.undo(mark),
        }
        result
    }

    /// Asks every guard about a request that the caller answers itself, such as a query.
    pub fn request(&mut self, input: &Emit<'_>, by: MemberId, now: Clock) -> Result<(), Stop> {
        let result = emit::request(self, input, by, now);
        if let Err(Stop::Refused(fault)) = &result {
            mods::analytics::observe(&self.state, &mut self.live, &input.envelope.kind, Err(fault), now);
        }
        result
    }

    /// Runs the guards on a request that the caller answers itself and mods elsewhere are not asked about.
    pub fn guard(&mut self, kind: &str, by: MemberId, now: Clock) -> Result<(), Fault> {
        let result = emit::guard_request(&self.state, &mut self.live, kind, by, now);
        if let Err(fault) = &result {
            mods::analytics::observe(&self.state, &mut self.live, kind, Err(fault), now);
        }
        result
    }

    /// How many members are there.
    pub fn online(&self, now: Clock) -> usize {
        let there = self.live.presence.iter().filter(|(_, p)| p.is_there(now));
        there.filter(|(id, _)| self.state.member(*id).is_some_and(state::Member::is_present)).count()
    }

    /// What mod/analytics counted; none while it is not loaded.
    pub fn analytics(&mut self, now: Clock) -> Option<AnalyticsView> {
        mods::analytics::report(&self.state, &mut self.live, now)
    }

    /// Decides acks of a member's deliveries.
    pub fn ack(&mut self, by: MemberId, request: &AckRequest, now: Clock, effects: &mut Effects) -> u64 {
        let pair = monotonic::drifted(&self.state, now);
        monotonic::record_before(pair, effects, |fx| {
            delivery::decide_acks(&self.state, &self.live, by, request, now, fx)
        })
    }

    /// Decides that a member has a room with another; gives its number. A new one is there once its record is applied.
    pub fn open_room(
        &mut self,
        by: MemberId,
        peer: &str,
        channel: Option<&str>,
        now: Clock,
        effects: &mut Effects,
    ) -> Result<u32, Fault> {
        conversations::resolve_room(&self.state, by, peer, channel, now, effects)
    }

    /// Decides that an owner's ack of a change it was asked for ends that call; gives whether there was one.
    pub fn answered_by_ack(
        &mut self,
        by: MemberId,
        request: &str,
        payload: &str,
        now: Clock,
        effects: &mut Effects,
    ) -> bool {
        let pair = monotonic::drifted(&self.state, now);
        monotonic::record_before(pair, effects, |fx| resources::answered(&self.state, by, request, payload, now, fx))
    }

    /// Decides what a member changes about itself.
    pub fn change_own(
        &mut self,
        by: MemberId,
        wishes: &Wishes,
        now: Clock,
        effects: &mut Effects,
    ) -> Result<(), Fault> {
        let mark = effects.mark();
        let pair = monotonic::drifted(&self.state, now);
        let result =
            monotonic::record_before(pair, effects, |fx| own::decide(&self.state, &mut self.live, by, wishes, now, fx));
        if result.is_err() {
            effects.undo(mark);
        }
        result
    }

    /// Decides an operator's act.
    pub fn admin(&mut self, op: &AdminOp, now: Clock, effects: &mut Effects) -> Result<AdminOutcome, Fault> {
        let mark = effects.mark();
        let pair = monotonic::drifted(&self.state, now);
        let result =
            monotonic::record_before(pair, effects, |fx| admin::decide(&self.state, &mut self.live, op, now, fx));
        if result.is_err() {
            effects.undo(mark);
        }
        result
    }

    /// Decides an act of who is not sure to be the operator, and records who did it.
    pub fn admin_by(
        &mut self,
        op: &AdminOp,
        by: audit::AuditActor<'_>,
        now: Clock,
        effects: &mut Effects,
    ) -> Result<AdminOutcome, Fault> {
        self.state.may_act(op, by.caller, now)?;
        self.state.has_room_for(op, &by, now)?;
        let entry = audit::entry(&self.state, op, audit::actor(&self.state, by.caller, now), by.from, now);
        let result = self.admin(op, now, effects)?;
        if !bugs::on("managing leaves no record") {
            effects.change(entry);
        }
        Ok(result)
    }

    /// Decides a change of a face's fact; false if the fact is not what it must be for that.
    pub fn change_fact(&mut self, change: &FactChange, effects: &mut Effects) -> Result<bool, Fault> {
        facts::decide(&self.state, change, effects)
    }

    /// Notes that a token was shown.
    pub fn token_shown(&mut self, sha256: &[u8; 32], now: Clock) {
        rights::token_shown(&self.state, &mut self.live, sha256, now);
    }

    /// Decides what time alone brings: expiry, dead letters, presence.
    pub fn tick(&mut self, now: Clock, effects: &mut Effects) {
        let pair = monotonic::drifted(&self.state, now);
        monotonic::record_before(pair, effects, |fx| tick::decide(&self.state, &mut self.live, now, fx));
    }

    /// The earliest deadline after the given monotonic time that somebody waits for to the moment: a tick is due then.
    pub fn next_deadline(&self, after: Millis) -> Option<Millis> {
        self.state.next_deadline(after)
    }

    /// Records the time before the node stops, so that whatever waits has the time left that it had.
    pub fn stop(&mut self, now: Clock, effects: &mut Effects) {
        monotonic::record_stop(&self.state, now, effects);
    }

    /// Decides that a member's deliveries end here, for the reason given.
    pub fn give_up(
        &mut self,
        member: MemberId,
        seqs: &[rialto_model::Seq],
        reason: &str,
        now: Clock,
        fx: &mut Effects,
    ) {
        let pair = monotonic::drifted(&self.state, now);
        monotonic::record_before(pair, fx, |fx| tick::dead_letters(&self.state, member, seqs, reason, now, fx));
    }

    /// Decides that mail is queued for the member from here on (it opened a stream or an inbox).
    pub fn receive_queue(&mut self, member: MemberId, fx: &mut Effects) {
        let receive = rialto_model::member::Receive::Queue;
        if self.state.member(member).is_some_and(|m| m.is_present() && m.receive != receive) {
            fx.change(record::Change::Queueing { member, on: true, left: false, receive });
        }
    }

    /// Applies one decided record: the only way durable state changes, live and on replay.
    pub fn apply(&mut self, record: &Record) {
        apply::apply(&mut self.state, record);
    }
}
