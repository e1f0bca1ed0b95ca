//! Emits of mods that have to wait for other mods: recorded when they are parked, taken up again after a start or a failed log.
//!
//! Invariant: an emit is recorded as owed in the batch of its cause and settled in the batch that decides it, so a crash between the
//! two neither loses nor repeats it. Whatever is owed waits in a lane of its mod and counts against the limits there.
//! After a start the mods are not connected yet: what is taken up waits for them up to [`CONNECT_MS_MAX`] before one that cannot be
//! asked counts as failed.

use super::Task;
use super::checks::Emitter;
use super::park::{Held, Lane, Source};
use rialto_engine::input::Question;
use rialto_engine::mods::Runs;
use rialto_engine::mods::external::Check;
use rialto_engine::mods::external::owed::OwedEmit;
use rialto_engine::{Clock, bugs};
use rialto_model::Millis;

/// How long an emit of before the start waits for mods that are not connected.
const CONNECT_MS_MAX: Millis = 5_000;

impl Emitter {
    /// Whether the emit still waits for mods that are not connected.
    pub(super) fn is_patient(&self, now: Clock) -> bool {
        self.patient_until.is_some_and(|until| now.steady < until)
    }
}

impl Task {
    /// Records an emit that is about to wait, unless it is recorded already. Does nothing with events of others.
    pub(super) fn owe(&mut self, held: &mut Held) {
        let Some(emitter) = held.emitter.as_deref_mut().filter(|emitter| emitter.owed.is_none()) else { return };
        let text = held.texts.get(held.at).map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        let emit = OwedEmit {
            name: emitter.name.clone(),
            chain: emitter.chain,
            cause: emitter.cause,
            answers_to: emitter.answers_to.clone(),
            after: 0,
            text,
        };
        emitter.owed = Some(self.engine.owe_emit(emit, &mut self.fx));
        let _ = self.decided(Ok(()));
        self.urgent = true;
    }

    /// Records that an owed emit was decided or dropped.
    pub(super) fn settle_owed(&mut self, held: &Held) {
        let Some(number) = held.emitter.as_ref().and_then(|emitter| emitter.owed) else { return };
        self.engine.settle_emit(number, &mut self.fx);
        let _ = self.decided(Ok(()));
        self.urgent = true;
    }

    /// Whether an owed emit is owed no longer: what it follows from was redacted.
    pub(super) fn is_settled(&self, held: &Held) -> bool {
        let owed = held.emitter.as_ref().and_then(|emitter| emitter.owed);
        owed.is_some_and(|number| self.engine.state.owed_mark(number).is_none())
    }

    /// Queues what is owed when the network starts, or after its log failed. Dropped at any await it loses nothing: what is not
    /// decided stays owed.
    pub(super) async fn take_up_owed(&mut self) {
        let now = self.clock.now();
        if bugs::on("owed emit forgotten at the start") {
            return;
        }
        let patient_until = Some(now.steady.saturating_add(CONNECT_MS_MAX));
        for (number, emit) in &self.engine.state.book.owed {
            let emitter = Emitter {
                name: emit.name.clone(),
                chain: emit.chain,
                cause: emit.cause,
                answers_to: emit.answers_to.clone(),
                owed: Some(*number),
                patient_until,
            };
            self.checks.send(emitter, emit.text.clone());
        }
        self.settle(now);
        if self.is_due() {
            self.submit().await;
        }
    }

    /// Until when an emit waits for the mod that it asks, if it does: the mod is not connected, and the emit is of before the start.
    pub(super) fn waits_until(&self, held: &Held, question: &Question, now: Clock) -> Option<Millis> {
        let emitter = held.emitter.as_ref().filter(|emitter| emitter.is_patient(now))?;
        let Question::Check(check) = question else { return None };
        emitter.patient_until.filter(|_| !self.has_come(check, now))
    }

    /// Whether a mod can be asked, and hears it. A server that has joined and whose stream is not open yet would not.
    fn has_come(&self, check: &Check, now: Clock) -> bool {
        let opens = |member: u32| {
            self.joined
                .iter()
                .any(|(connection, session)| session.member == member && !self.sessions.is_open(*connection))
        };
        self.is_reachable(&check.name, check.runs, now).is_ok()
            && !matches!(check.runs, Runs::Served(member) if opens(member))
    }

    /// Decides again what waits for mods, where the mod is connected by now, or no longer meant, or not waited for any longer.
    pub(super) fn ask_who_came(&mut self, now: Clock) {
        if !self.checks.waits {
            return;
        }
        let revision = self.engine.state.book.mods_revision;
        let is_due = |lane: &Lane| {
            let come = || lane.check.as_ref().is_some_and(|(check, _)| self.has_come(check, now));
            lane.waits.is_some_and(|since| since != revision || lane.deadline <= now.steady || come())
        };
        let due: Vec<Source> =
            self.lanes.iter().filter(|(_, lane)| is_due(lane)).map(|(source, _)| source.clone()).collect();
        for source in due {
            if let Some(held) = self.lanes.get_mut(&source).and_then(|lane| lane.asking.take()) {
                self.resume_lane(&source, held, now);
            }
        }
        self.checks.waits = self.lanes.values().any(|lane| lane.waits.is_some());
    }
}
