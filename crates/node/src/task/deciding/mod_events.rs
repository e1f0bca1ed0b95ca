//! Events that mods send: they enter after the event that they follow from, and those that have to wait for other mods are owed.
//!
//! Invariant: an emit is recorded as owed in the batch of its cause and settled in the batch that decides it, so a crash between the
//! two neither loses nor repeats it. Whatever is owed waits in the queue of its mod and counts against the limits there.
//! After a start the mods are not connected yet: what is taken up waits for them up to [`CONNECT_MS_MAX`] before one that cannot be
//! asked counts as failed.

use super::deferred::{DeferralReason, EventSource};
use super::{Deferral, EventBatch, Task, planted};
use crate::command::Answered;
use crate::metrics::ModOutcome;
use rialto_engine::Clock;
use rialto_engine::input::{Accepted, Answers, Question, Stop};
use rialto_engine::mods::Runs;
use rialto_engine::mods::external::emitted::ModEvent;
use rialto_engine::mods::external::owed::OwedEmit;
use rialto_engine::mods::external::verdict::ModVerdict;
use rialto_engine::mods::external::{CheckOutcome, CheckStage, EmitChain, FinishedCheck, ModCheck};
use rialto_model::{Envelope, Fault, Millis, Seq};

/// How long an emit of before the start waits for mods that are not connected.
const CONNECT_MS_MAX: Millis = 5_000;

/// Who sends an event of a mod.
#[derive(Debug, Clone)]
pub(super) struct Emitter {
    pub(super) name: Box<str>,
    pub(super) chain: EmitChain,
    /// The event that the mod judged, if that is committed.
    pub(super) cause: Option<Seq>,
    /// The mail it answers.
    pub(super) answers_to: Option<String>,
    /// Its number among the owed emits, once it had to wait.
    pub(super) owed: Option<u64>,
    /// Until then, monotonic time, it waits for mods that are not connected. Only an emit of before the start does.
    pub(super) patient_until: Option<Millis>,
}

impl Emitter {
    /// Whether the emit still waits for mods that are not connected.
    pub(super) fn is_patient(&self, now: Clock) -> bool {
        self.patient_until.is_some_and(|until| now.steady < until)
    }
}

impl Task {
    /// Takes up what mods send with what they said of an event that was decided now, or refused.
    pub(super) fn follow_verdicts(&mut self, answers: &mut Answers, chain: EmitChain, accepted: Option<&Accepted>) {
        if answers.checked.is_empty() {
            return;
        }
        let cause = accepted.and_then(|accepted| accepted.seq);
        for FinishedCheck { name, step, outcome } in std::mem::take(&mut answers.checked) {
            if let CheckOutcome::Said(verdict) = outcome {
                let mail = accepted.filter(|_| step == CheckStage::Mail).map(Accepted::event_id);
                self.send_with_verdict(&name, &verdict, chain, cause, mail);
            }
        }
    }

    /// Takes up what a mod sends with what it said: behind what others sent, decided when the event is answered.
    pub(super) fn send_with_verdict(
        &mut self,
        name: &str,
        verdict: &ModVerdict,
        chain: EmitChain,
        cause: Option<Seq>,
        answers_to: Option<&str>,
    ) {
        let (count, next) = chain.next(verdict.emit.len());
        for event in verdict.emit.iter().take(count) {
            let emitter = Emitter {
                name: name.into(),
                chain: next,
                cause,
                answers_to: answers_to.map(str::to_owned),
                owed: None,
                patient_until: None,
            };
            if planted::sends_twice() {
                self.deferred.send(emitter.clone(), event.get().to_owned());
            }
            self.deferred.send(emitter, event.get().to_owned());
        }
        for _ in count..verdict.emit.len() {
            self.shared.mods.count(name, ModOutcome::Dropped, 0);
        }
    }

    /// Decides an event that a mod sends.
    pub(super) fn decide_mod_event(
        &mut self,
        emitter: &Emitter,
        frame: &[u8],
        mut answers: Answers,
        resumed: Option<&EventSource>,
        now: Clock,
    ) -> Result<Answered, Box<Deferral>> {
        let source = EventSource::Mod(emitter.name.clone());
        if resumed != Some(&source) && self.deferred.has(&source) {
            return Err(Box::new(Deferral::Behind(source)));
        }
        let text = std::str::from_utf8(frame).unwrap_or_default();
        let envelope = match Envelope::parse(text) {
            Ok(envelope) => envelope,
            Err(unreadable) => return Ok(self.mod_refused(emitter, unreadable.fault)),
        };
        let decided = loop {
            let input = ModEvent {
                name: &emitter.name,
                envelope: &envelope,
                answers_to: emitter.answers_to.as_deref(),
                chain: emitter.chain,
                owed: emitter.owed.and_then(|number| self.engine.state.owed_mark(number)),
                answers: &answers,
            };
            let question = match self.engine.emit_of_mod(&input, now, &mut self.fx) {
                Ok(accepted) => break Ok(accepted),
                Err(Stop::Refused(fault)) => break Err(fault),
                Err(Stop::Ask(question)) => question,
            };
            let waits = matches!(*question, Question::Check(_)) && emitter.is_patient(now);
            let answer = if waits {
                Err(Stop::Ask(question))
            } else {
                self.answer_now(*question, &envelope.payload, &mut answers, now)
            };
            match answer {
                Ok(()) => {}
                Err(Stop::Refused(fault)) => break Err(fault),
                Err(Stop::Ask(question)) => return Err(Box::new(Deferral::Ask(source, question, answers))),
            }
        };
        let decided = self.decided(decided);
        self.follow_verdicts(&mut answers, emitter.chain, decided.as_ref().ok());
        match decided {
            Ok(accepted) => Ok(self.answered(None, Ok(accepted))),
            Err(fault) => Ok(self.mod_refused(emitter, fault)),
        }
    }

    /// Nobody hears of it but the operator.
    fn mod_refused(&self, emitter: &Emitter, fault: Fault) -> Answered {
        tracing::debug!(name = %emitter.name, %fault, "what a mod sent was refused");
        self.shared.mods.count(&emitter.name, ModOutcome::Dropped, 0);
        self.answered(None, Err(fault))
    }

    /// Records an emit that is about to wait, unless it is recorded already. Does nothing with events of others.
    pub(super) fn owe(&mut self, batch: &mut EventBatch) {
        let Some(emitter) = batch.emitter.as_deref_mut().filter(|emitter| emitter.owed.is_none()) else { return };
        let text = batch.texts.get(batch.next).map(String::from_utf8_lossy).unwrap_or_default().into_owned();
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
    pub(super) fn settle_owed(&mut self, batch: &EventBatch) {
        let Some(number) = batch.emitter.as_ref().and_then(|emitter| emitter.owed) else { return };
        self.engine.settle_emit(number, &mut self.fx);
        let _ = self.decided(Ok(()));
        self.urgent = true;
    }

    /// Whether an owed emit is owed no longer: what it follows from was redacted.
    pub(super) fn is_settled(&self, batch: &EventBatch) -> bool {
        let owed = batch.emitter.as_ref().and_then(|emitter| emitter.owed);
        owed.is_some_and(|number| self.engine.state.owed_mark(number).is_none())
    }

    /// Queues what is owed when the network starts, or after its log failed. Dropped at any await it loses nothing: what is not
    /// decided stays owed.
    pub(in crate::task) async fn take_up_owed(&mut self) {
        let now = self.clock.now();
        if planted::forgets_owed() {
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
            self.deferred.send(emitter, emit.text.clone());
        }
        self.resume_deferred(now);
        if self.is_due() {
            self.submit().await;
        }
    }

    /// Until when an emit waits for the mod that it asks, if it does: the mod is not connected, and the emit is of before the start.
    pub(super) fn awaits_connection_until(&self, batch: &EventBatch, check: &ModCheck, now: Clock) -> Option<Millis> {
        let emitter = batch.emitter.as_ref().filter(|emitter| emitter.is_patient(now))?;
        emitter.patient_until.filter(|_| !self.hears(check, now))
    }

    /// Whether a mod can be asked, and hears it. A server that has joined and whose stream is not open yet would not.
    fn hears(&self, check: &ModCheck, now: Clock) -> bool {
        let opens = |member: u32| {
            self.joined
                .iter()
                .any(|(connection, session)| session.member == member && !self.sessions.is_open(*connection))
        };
        self.is_reachable(&check.name, check.runs, now).is_ok()
            && !matches!(check.runs, Runs::Served(member) if opens(member))
    }

    /// Decides again what waits for mods, where the mod is connected by now, or no longer meant, or not waited for any longer.
    pub(in crate::task) fn ask_connected_mods(&mut self, now: Clock) {
        if !self.deferred.awaits_mods() {
            return;
        }
        let revision = self.engine.state.book.mods_revision;
        let is_due = |waiting: &DeferralReason| {
            let hears = || waiting.check.as_ref().is_some_and(|pending| self.hears(&pending.check, now));
            waiting.unasked != Some(revision) || waiting.deadline <= now.steady || hears()
        };
        let due: Vec<EventSource> =
            self.deferred.unasked().filter(|(_, waiting)| is_due(waiting)).map(|(source, _)| source.clone()).collect();
        for source in due {
            if let Some(batch) = self.deferred.take_first(&source) {
                self.resume_batch(&source, batch, now);
            }
        }
        self.deferred.note_awaits_mods();
    }
}
