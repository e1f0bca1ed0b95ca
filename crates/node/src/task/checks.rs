//! Asking mods that run elsewhere: by a process's door, by a stream, or with a member's next poll.
//!
//! Invariant: a ticket is answered once, by whom it was given to, or fails in time. What mods send enters after the event
//! it follows from.
//! Not here: what a verdict means (the engine), and the events that wait for it (`park`).

use super::Task;
use super::intake::Detour;
use super::park::{Given, Held, NOT_IN_TIME, Source};
use crate::command::{Answered, Reply};
use crate::metrics::ModOutcome;
use crate::modport::Asked;
use crate::texts::Texts;
use bytes::Bytes;
use rialto_engine::input::{Accepted, Answers, Question, Stop};
use rialto_engine::mods::external::emitted::ModEvent;
use rialto_engine::mods::external::verdict::{Said, Verdict};
use rialto_engine::mods::external::{Chain, Check, Checked, Outcome, Step};
use rialto_engine::mods::{Mode, Runs};
use rialto_engine::{Caller, Clock, MemberId, bugs};
use rialto_model::{Envelope, ErrorCode, Event, EventParts, EventType, Fault, Millis, Seq, Visibility, json, limits};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A mod that is suspended is probed this often.
const PROBE_MS: Millis = 5_000;
/// Events shown to observers are forgotten after this long if they are not answered.
const OBSERVING_MS_MAX: Millis = limits::MOD_DEADLINE_MS_MAX;

/// An event shown to an observer.
#[derive(Debug)]
struct Observing {
    name: Box<str>,
    runs: Runs,
    chain: Chain,
    /// The position of what it is shown.
    cause: Option<Seq>,
    since: Millis,
    /// It is only to be heard of.
    probe: bool,
}

/// How long a mod has been silent.
#[derive(Debug)]
struct Silence {
    /// Events in a row that it left unanswered.
    timeouts: u32,
    /// The list of mods had this revision: another one is another mod.
    revision: u64,
    /// When it is probed next.
    probe_at: Millis,
}

/// Who sends an event of a mod.
#[derive(Debug, Clone)]
pub(super) struct Emitter {
    pub(super) name: Box<str>,
    pub(super) chain: Chain,
    /// The event that the mod judged, if that is committed.
    pub(super) cause: Option<Seq>,
    /// The mail it answers.
    pub(super) answers_to: Option<String>,
    /// Its number among the owed emits, once it had to wait.
    pub(super) owed: Option<u64>,
    /// Until then, monotonic time, it waits for mods that are not connected. Only an emit of before the start does.
    pub(super) patient_until: Option<Millis>,
}

/// What a mod answered: what it sends with that follows from it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cause<'a> {
    /// Its position, if it was committed.
    pub(super) seq: Option<Seq>,
    /// Its id, if what answers it is to name it.
    pub(super) id: Option<&'a str>,
}

/// What is known of mods that run elsewhere, while the process lives.
#[derive(Debug, Default)]
pub(super) struct Checks {
    ports: BTreeMap<Box<str>, mpsc::Sender<Asked>>,
    observing: BTreeMap<u64, Observing>,
    /// What members that poll are asked, oldest first.
    waiting: BTreeMap<MemberId, VecDeque<Arc<Event>>>,
    /// What mods sent and nobody decided yet.
    sent: VecDeque<(Emitter, String)>,
    /// Answers that came while something else was decided.
    ready: VecDeque<(u64, Given)>,
    /// Mods that did not answer lately, and not at all since.
    silent: BTreeMap<Box<str>, Silence>,
    /// Some owed emit waits for a mod that is not connected.
    pub(super) waits: bool,
}

impl Checks {
    pub(super) fn connect(&mut self, name: Box<str>, asks: mpsc::Sender<Asked>) {
        self.silent.remove(&name);
        self.ports.insert(name, asks);
    }

    /// Nothing that was asked will be answered: the log failed.
    pub(super) fn forget(&mut self) {
        let (ports, silent) = (std::mem::take(&mut self.ports), std::mem::take(&mut self.silent));
        *self = Checks { ports, silent, ..Checks::default() };
    }

    /// Puts what a mod sends behind what others sent; it is decided with the next [`Task::settle`].
    pub(super) fn send(&mut self, emitter: Emitter, text: String) {
        self.sent.push_back((emitter, text));
    }

    pub(super) fn come(&mut self, ticket: u64, given: Given) {
        self.ready.push_back((ticket, given));
    }

    /// What a member that polls is asked now.
    pub(super) fn take(&mut self, member: MemberId) -> Vec<Arc<Event>> {
        self.waiting.remove(&member).unwrap_or_default().into()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.sent.is_empty() && self.ready.is_empty()
    }
}

fn no_ticket() -> Fault {
    Fault::new(
        ErrorCode::NoPendingRequest,
        "no check with this ticket waits for you: it was answered or timed out, or never asked of you",
    )
    .field("payload.ticket")
}

impl Task {
    /// Whether a mod can be asked, and is worth it.
    pub(super) fn is_reachable(&self, name: &str, runs: Runs, now: Clock) -> Result<(), &'static str> {
        if self.is_suspended(name) {
            return Err("it is suspended: it left too many events unanswered");
        }
        self.is_connected(name, runs, now)
    }

    fn is_suspended(&self, name: &str) -> bool {
        let revision = self.engine.state.book.mods_revision;
        let silence = self.checks.silent.get(name).filter(|silence| silence.revision == revision);
        silence.is_some_and(|silence| silence.timeouts >= limits::MOD_TIMEOUTS_MAX)
    }

    /// A mod left an event unanswered.
    pub(super) fn fell_silent(&mut self, name: &str, now: Clock) {
        let revision = self.engine.state.book.mods_revision;
        let silence = self.checks.silent.entry(name.into()).or_insert(Silence { timeouts: 0, revision, probe_at: 0 });
        if silence.revision != revision {
            *silence = Silence { timeouts: 0, revision, probe_at: 0 };
        }
        silence.timeouts = silence.timeouts.saturating_add(1);
        silence.probe_at = now.steady.saturating_add(PROBE_MS);
        if silence.timeouts == limits::MOD_TIMEOUTS_MAX {
            tracing::warn!(network = %self.shared.id, name, "a mod does not answer: it is suspended until it answers a probe");
            self.shared.mods.suspend(name, true);
        }
    }

    /// A mod was heard of.
    fn spoke(&mut self, name: &str) {
        if let Some(silence) = self.checks.silent.remove(name)
            && silence.timeouts >= limits::MOD_TIMEOUTS_MAX
        {
            tracing::info!(network = %self.shared.id, name, "a mod that was suspended answers again");
            self.shared.mods.suspend(name, false);
        }
    }

    /// Asks mods that are suspended for a sign of life; those that are no longer meant are forgotten.
    pub(super) fn probe_silent(&mut self, now: Clock) {
        let mods = &self.engine.state.book.mods;
        let revision = self.engine.state.book.mods_revision;
        let mut due: Vec<(Box<str>, Runs)> = Vec::new();
        let mut gone: Vec<Box<str>> = Vec::new();
        for (name, silence) in &mut self.checks.silent {
            let meant = mods.iter().find(|m| m.name == *name).filter(|_| silence.revision == revision);
            match meant {
                None => gone.push(name.clone()),
                Some(m) if silence.timeouts >= limits::MOD_TIMEOUTS_MAX && silence.probe_at <= now.steady => {
                    silence.probe_at = now.steady.saturating_add(PROBE_MS);
                    due.push((name.clone(), m.runs));
                }
                Some(_) => {}
            }
        }
        for name in gone {
            self.checks.silent.remove(&name);
            self.shared.mods.suspend(&name, false);
        }
        for (name, runs) in due {
            self.probe(&name, runs, now);
        }
    }

    /// Shows a mod an event that is none, to hear whether it answers.
    fn probe(&mut self, name: &str, runs: Runs, now: Clock) {
        let event = serde_json::json!({
            "id": self.own_id(now), "type": EventType::ModProbe.as_str(), "source": "core", "target": format!("mod/{name}"),
            "payload": {}, "metadata": { "ephemeral": true }, "timestamp": self.engine.state.stamp(now.wall),
            "network": &*self.shared.id, "visibility": Visibility::ModOnly.as_str(),
        });
        let check = Check {
            name: name.into(),
            runs,
            deadline_ms: PROBE_MS,
            step: Step::Observe,
            event: event.to_string(),
            context: serde_json::json!({ "address": "core", "probe": true }).to_string(),
            seq: None,
            mods: Arc::from(Vec::new()),
            chain: Chain::default(),
        };
        self.tickets += 1;
        let ticket = self.tickets;
        if self.put(ticket, &check, now).is_ok() {
            let shown = Observing {
                name: name.into(),
                runs,
                chain: Chain::default(),
                cause: None,
                since: now.steady,
                probe: true,
            };
            self.checks.observing.insert(ticket, shown);
        }
    }

    /// Whether a mod can be asked at all.
    fn is_connected(&self, name: &str, runs: Runs, now: Clock) -> Result<(), &'static str> {
        match runs {
            Runs::Builtin => Err("not a mod that is asked"),
            Runs::Process => match self.checks.ports.get(name) {
                Some(port) if !port.is_closed() => Ok(()),
                Some(_) | None => Err("its process does not run"),
            },
            Runs::Served(member) if self.engine.live.is_online(member, now) => Ok(()),
            Runs::Served(_) => Err("its server is offline"),
        }
    }

    /// Puts a question to a mod.
    pub(super) fn put(&mut self, ticket: u64, check: &Check, now: Clock) -> Result<(), &'static str> {
        self.is_connected(&check.name, check.runs, now)?;
        match check.runs {
            Runs::Builtin => Err("not a mod that is asked"),
            Runs::Process => {
                let line = format!(r#"{{"event":{},"context":{}}}"#, check.event, check.context);
                let asked = Asked { ticket, line, deadline_ms: check.deadline_ms };
                let port = self.checks.ports.get(check.name.as_ref()).ok_or("its process does not run")?;
                port.try_send(asked).map_err(|_| "it has too much to do")
            }
            Runs::Served(member) => {
                let event = Arc::new(self.check_event(ticket, check, member, now));
                if self.sessions.ask(member, &event) {
                    self.tell();
                } else {
                    let waiting = self.checks.waiting.entry(member).or_default();
                    if waiting.len() >= limits::MOD_CHECKS_WAITING_MAX {
                        waiting.pop_front();
                    }
                    waiting.push_back(event);
                    // Whoever waits for its mail looks again.
                    let _ = self.head.send(self.committed);
                }
                Ok(())
            }
        }
    }

    fn ticket_text(&self, ticket: u64) -> String {
        format!("chk_{:x}_{ticket:x}", self.life)
    }

    fn check_event(&mut self, ticket: u64, check: &Check, member: MemberId, now: Clock) -> Event {
        let mut payload = String::with_capacity(check.event.len() + check.context.len() + 128);
        payload.push_str("{\"ticket\":");
        json::push_string(&mut payload, &self.ticket_text(ticket));
        payload.push_str(",\"mod\":");
        json::push_string(&mut payload, &format!("mod/{}", check.name));
        payload.push_str(",\"step\":");
        json::push_string(&mut payload, step_name(check.step));
        payload.push_str(",\"event\":");
        payload.push_str(&check.event);
        payload.push_str(",\"context\":");
        payload.push_str(&check.context);
        payload.push('}');
        let target = self.engine.state.member(member).map(|m| m.address.clone()).unwrap_or_default();
        let id = self.own_id(now);
        Event::new(
            0,
            &EventParts {
                id: &id,
                kind: EventType::ModCheck.as_str(),
                source: "core",
                target: &target,
                payload: &payload,
                metadata: "{\"ephemeral\":true}",
                timestamp: self.engine.state.stamp(now.wall),
                network: &self.shared.id,
                visibility: Visibility::Direct,
            },
        )
    }

    /// Shows an event to an observer. One that has too much to look at misses it.
    pub(super) fn observe(&mut self, check: &Check) {
        let now = self.clock.now();
        let suspended = self.is_suspended(&check.name);
        if suspended || self.checks.observing.len() >= limits::MOD_OBSERVING_MAX {
            return self.shared.mods.count(&check.name, ModOutcome::Missed, 0);
        }
        self.tickets += 1;
        let ticket = self.tickets;
        match self.put(ticket, check, now) {
            Ok(()) => {
                let (name, runs, chain, cause) = (check.name.clone(), check.runs, check.chain, check.seq);
                self.checks
                    .observing
                    .insert(ticket, Observing { name, runs, chain, cause, since: now.steady, probe: false });
            }
            Err(_) => self.shared.mods.count(&check.name, ModOutcome::Missed, 0),
        }
    }

    /// Observers that never answered are not waited for.
    pub(super) fn forget_shown(&mut self, now: Clock) {
        let late = |since: Millis| since.saturating_add(OBSERVING_MS_MAX) <= now.steady;
        self.checks.observing.retain(|_, shown| !late(shown.since));
        let state = &self.engine.state;
        self.checks.waiting.retain(|member, _| state.book.mods.iter().any(|m| m.runs == Runs::Served(*member)));
    }

    /// `network.mod.verdict`: the answer to a check.
    pub(super) fn verdict_frame(&mut self, caller: &Caller, envelope: &Envelope<'_>, now: Clock) -> Answered {
        let id = envelope.id.as_deref().map(str::to_owned);
        let result = self.verdict(caller, envelope, now).map(|()| {
            let named = Some(id.clone().unwrap_or_else(|| self.own_id(now)).into());
            Accepted { named, ..Accepted::default() }
        });
        self.answered(id, result)
    }

    fn verdict(&mut self, caller: &Caller, envelope: &Envelope<'_>, now: Clock) -> Result<(), Fault> {
        let member = self.member_of(caller, now)?;
        #[derive(serde::Deserialize)]
        struct Ticket {
            ticket: String,
        }
        let said: Ticket = serde_json::from_str(&envelope.payload).map_err(|e| {
            Fault::new(ErrorCode::InvalidPayload, format!("a verdict must name its ticket: {e}"))
                .field("payload.ticket")
        })?;
        let number = said.ticket.rsplit('_').next().and_then(|n| u64::from_str_radix(n, 16).ok()).unwrap_or(0);
        if self.ticket_text(number) != said.ticket {
            return Err(no_ticket());
        }
        let runs = Runs::Served(member);
        let newest = self.newest_asked(runs).filter(|_| bugs::on("verdict applied to the wrong event"));
        let number = newest.unwrap_or(number);
        if self.checks.observing.get(&number).is_some_and(|shown| shown.runs == runs) {
            let verdict = Verdict::parse(&envelope.payload)?;
            self.observed(number, Outcome::Said(verdict), now);
            return Ok(());
        }
        if !self.is_asked(number, runs) {
            return if bugs::on("second verdict acknowledged") { Ok(()) } else { Err(no_ticket()) };
        }
        let verdict = Verdict::parse(&envelope.payload)?;
        self.answers_of(number);
        self.heard(number);
        self.checks.come(number, Given::Verdict(Outcome::Said(verdict)));
        Ok(())
    }

    /// The mod that is asked under this ticket has answered.
    fn answers_of(&mut self, ticket: u64) {
        if let Some(name) = self.asked_name(ticket) {
            self.spoke(&name);
        }
    }

    /// What a process said.
    pub(super) fn process_said(&mut self, ticket: u64, outcome: Outcome, now: Clock) {
        if self.checks.observing.contains_key(&ticket) {
            self.observed(ticket, outcome, now);
        } else if self.is_asked(ticket, Runs::Process) {
            match &outcome {
                Outcome::Said(_) => self.answers_of(ticket),
                // Whoever runs the process has waited as long as it may take.
                Outcome::Failed(reason) if *reason == NOT_IN_TIME => {
                    if let Some(name) = self.asked_name(ticket) {
                        self.fell_silent(&name, now);
                    }
                }
                Outcome::Failed(_) => {}
            }
            self.heard(ticket);
            self.checks.come(ticket, Given::Verdict(outcome));
        }
    }

    fn observed(&mut self, ticket: u64, outcome: Outcome, now: Clock) {
        let Some(shown) = self.checks.observing.remove(&ticket) else { return };
        let Observing { name, chain, cause, since, probe, .. } = shown;
        if matches!(outcome, Outcome::Said(_)) {
            self.spoke(&name);
        }
        if probe {
            return;
        }
        self.noted(&name, &outcome, now.steady.saturating_sub(since));
        if let Outcome::Said(verdict) = outcome {
            self.will_send(&name, &verdict, chain, Cause { seq: cause, id: None });
        }
    }

    /// Counts what a mod said.
    pub(super) fn noted(&self, name: &str, outcome: &Outcome, took_ms: Millis) {
        let what = match outcome {
            Outcome::Said(Verdict { said: Said::Pass, .. }) => ModOutcome::Pass,
            Outcome::Said(Verdict { said: Said::Reject { .. }, .. }) => ModOutcome::Reject,
            Outcome::Said(Verdict { said: Said::Modified(_), .. }) => ModOutcome::Modified,
            Outcome::Failed(reason) => {
                tracing::debug!(name, reason, "a mod did not do its part");
                ModOutcome::Failed
            }
        };
        self.shared.mods.count(name, what, took_ms);
    }

    /// Takes up what mods send with what they said of an event that is decided now.
    pub(super) fn follow(&mut self, answers: &mut Answers, chain: Chain, cause: Cause<'_>) {
        if answers.checked.is_empty() {
            return;
        }
        for Checked { name, step, outcome } in std::mem::take(&mut answers.checked) {
            if let Outcome::Said(verdict) = outcome {
                let cause = Cause { id: cause.id.filter(|_| step == Step::Mail), ..cause };
                self.will_send(&name, &verdict, chain, cause);
            }
        }
    }

    fn will_send(&mut self, name: &str, verdict: &Verdict, chain: Chain, cause: Cause<'_>) {
        let (count, next) = chain.next(verdict.emit.len());
        for event in verdict.emit.iter().take(count) {
            let emitter = Emitter {
                name: name.into(),
                chain: next,
                cause: cause.seq,
                answers_to: cause.id.map(str::to_owned),
                owed: None,
                patient_until: None,
            };
            if bugs::on("what a mod sends comes twice") {
                self.checks.sent.push_back((emitter.clone(), event.get().to_owned()));
            }
            self.checks.sent.push_back((emitter, event.get().to_owned()));
        }
        for _ in count..verdict.emit.len() {
            self.shared.mods.count(name, ModOutcome::Dropped, 0);
        }
    }

    /// Goes on with what came in the meantime: answers, and what mods sent. What mods send goes with what it follows from, so it is
    /// decided first; answers let go of what waited, and wait themselves while the batch has all it should.
    pub(super) fn settle(&mut self, now: Clock) {
        while !self.checks.is_quiet() {
            if self.checks.sent.is_empty() {
                if self.is_heavy() {
                    return;
                }
                if let Some((ticket, given)) = self.checks.ready.pop_front() {
                    self.given(ticket, given, now);
                }
            }
            if let Some((emitter, text)) = self.checks.sent.pop_front() {
                let held = Held {
                    connection: 0,
                    caller: Arc::default(),
                    texts: Texts::one(Bytes::from(text)),
                    at: 0,
                    reply: Reply::Nobody,
                    answered: Vec::new(),
                    answers: Answers::default(),
                    emitter: Some(Box::new(emitter)),
                    session: None,
                };
                self.go_on(held, None, now);
            }
        }
    }

    /// Decides an event that a mod sends.
    pub(super) fn mod_frame(
        &mut self,
        emitter: &Emitter,
        frame: &[u8],
        mut answers: Answers,
        resumed: Option<&Source>,
        now: Clock,
    ) -> Result<Answered, Box<Detour>> {
        let source = Source::Mod(emitter.name.clone());
        if resumed != Some(&source) && self.lanes.contains_key(&source) {
            return Err(Box::new(Detour::Behind(source)));
        }
        let text = std::str::from_utf8(frame).unwrap_or_default();
        let envelope = match Envelope::parse(text) {
            Ok(envelope) => envelope,
            Err(unreadable) => return Ok(self.mod_refused(emitter, unreadable.fault)),
        };
        let result = loop {
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
                Err(Stop::Ask(question)) => *question,
            };
            let asked = if matches!(question, Question::Check(_)) && emitter.is_patient(now) {
                Ok(Some(question))
            } else {
                self.answer_inline(question, &envelope.payload, &mut answers, now)
            };
            match asked {
                Ok(None) => {}
                Ok(Some(question)) => {
                    let _ = self.decided::<()>(Err(ErrorCode::Internal.into()));
                    return Err(Box::new(Detour::Ask(source, question, answers)));
                }
                Err(fault) => break Err(fault),
            }
        };
        let result = self.decided(result);
        let accepted = result.as_ref().ok();
        let id = accepted.map(|accepted| accepted.event_id().to_owned());
        let cause = Cause { seq: accepted.and_then(|accepted| accepted.seq), id: id.as_deref() };
        self.follow(&mut answers, emitter.chain, cause);
        match result {
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
}

fn step_name(step: Step) -> &'static str {
    match step {
        Step::Guard | Step::GuardAgain => Mode::Guard.as_str(),
        Step::Transform => Mode::Transform.as_str(),
        Step::Observe => Mode::Observe.as_str(),
        Step::Mail => "mail",
    }
}
