//! Asking mods that run elsewhere: by a process's door, by a stream, or with a member's next poll.
//!
//! Invariant: a ticket is answered once, by whom it was given to, or fails in time.
//! Not here: what a verdict means (the engine), and the events that wait for it (`deferred`).

use super::deferred::Resolution;
use super::{Incoming, Task, planted};
use crate::command::Answered;
use crate::metrics::ModOutcome;
use crate::modport::ProcessCheck;
use rialto_engine::input::Accepted;
use rialto_engine::mods::external::verdict::{Judgement, ModVerdict};
use rialto_engine::mods::external::{CheckOutcome, CheckStage, EmitChain, ModCheck};
use rialto_engine::mods::{Mode, Runs};
use rialto_engine::{Clock, MemberId};
use rialto_model::{ErrorCode, Event, EventType, Fault, Millis, Seq, Visibility, json, limits};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Why a mod failed that had its time.
pub(super) const NOT_IN_TIME: &str = "it did not answer in time";
/// A mod that is suspended is probed this often.
const PROBE_MS: Millis = 5_000;
/// Events shown to observers are forgotten after this long if they are not answered.
const OBSERVING_MS_MAX: Millis = limits::MOD_DEADLINE_MS_MAX;

/// An event shown to an observer.
#[derive(Debug)]
struct Observing {
    name: Box<str>,
    runs: Runs,
    chain: EmitChain,
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

/// What is known of mods that run elsewhere, while the process lives.
#[derive(Debug)]
pub(in crate::task) struct ModCalls {
    ports: BTreeMap<Box<str>, mpsc::Sender<ProcessCheck>>,
    observing: BTreeMap<u64, Observing>,
    /// What members that poll are asked, oldest first.
    waiting: BTreeMap<MemberId, VecDeque<Arc<Event>>>,
    /// Mods that did not answer lately, and not at all since.
    silent: BTreeMap<Box<str>, Silence>,
    /// Drawn when the task began: tickets of an earlier one mean nothing, whatever the clock says.
    life: u64,
}

impl ModCalls {
    pub(in crate::task) fn new(life: u64) -> ModCalls {
        let (ports, silent) = (BTreeMap::new(), BTreeMap::new());
        ModCalls { ports, observing: BTreeMap::new(), waiting: BTreeMap::new(), silent, life }
    }

    /// A process runs a mod from here on.
    pub(in crate::task) fn connect(&mut self, name: Box<str>, asks: mpsc::Sender<ProcessCheck>) {
        self.silent.remove(&name);
        self.ports.insert(name, asks);
    }

    /// Nothing that was asked will be answered: the log failed.
    pub(in crate::task) fn forget(&mut self) {
        self.observing.clear();
        self.waiting.clear();
    }

    /// Takes what a member that polls is asked now.
    pub(in crate::task) fn take(&mut self, member: MemberId) -> Vec<Arc<Event>> {
        self.waiting.remove(&member).unwrap_or_default().into()
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
        let silence = self.mod_calls.silent.get(name).filter(|silence| silence.revision == revision);
        silence.is_some_and(|silence| silence.timeouts >= limits::MOD_TIMEOUTS_MAX)
    }

    /// A mod left an event unanswered.
    pub(super) fn fell_silent(&mut self, name: &str, now: Clock) {
        let revision = self.engine.state.book.mods_revision;
        let silence =
            self.mod_calls.silent.entry(name.into()).or_insert(Silence { timeouts: 0, revision, probe_at: 0 });
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
        if let Some(silence) = self.mod_calls.silent.remove(name)
            && silence.timeouts >= limits::MOD_TIMEOUTS_MAX
        {
            tracing::info!(network = %self.shared.id, name, "a mod that was suspended answers again");
            self.shared.mods.suspend(name, false);
        }
    }

    /// Asks mods that are suspended for a sign of life; those that are no longer meant are forgotten.
    pub(in crate::task) fn probe_silent(&mut self, now: Clock) {
        let mods = &self.engine.state.book.mods;
        let revision = self.engine.state.book.mods_revision;
        let mut due: Vec<(Box<str>, Runs)> = Vec::new();
        let mut gone: Vec<Box<str>> = Vec::new();
        for (name, silence) in &mut self.mod_calls.silent {
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
            self.mod_calls.silent.remove(&name);
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
        let check = ModCheck {
            name: name.into(),
            runs,
            deadline_ms: PROBE_MS,
            step: CheckStage::Observe,
            event: event.to_string(),
            context: serde_json::json!({ "address": "core", "probe": true }).to_string(),
            seq: None,
            mods: Arc::from(Vec::new()),
            chain: EmitChain::default(),
        };
        // Whoever cannot be asked is probed again.
        let _ = self.show(&check, true, now);
    }

    /// Shows an event to a mod whose answer nobody waits for.
    fn show(&mut self, check: &ModCheck, probe: bool, now: Clock) -> Result<(), &'static str> {
        let ticket = self.deferred.next_ticket();
        self.put(ticket, check, now)?;
        let (name, runs, chain, cause) = (check.name.clone(), check.runs, check.chain, check.seq);
        let shown = Observing { name, runs, chain, cause, since: now.steady, probe };
        self.mod_calls.observing.insert(ticket, shown);
        Ok(())
    }

    /// Whether a mod can be asked at all.
    fn is_connected(&self, name: &str, runs: Runs, now: Clock) -> Result<(), &'static str> {
        match runs {
            Runs::Builtin => Err("not a mod that is asked"),
            Runs::Process => match self.mod_calls.ports.get(name) {
                Some(port) if !port.is_closed() => Ok(()),
                Some(_) | None => Err("its process does not run"),
            },
            Runs::Served(member) if self.engine.live.is_online(member, now) => Ok(()),
            Runs::Served(_) => Err("its server is offline"),
        }
    }

    /// Puts a question to a mod.
    pub(super) fn put(&mut self, ticket: u64, check: &ModCheck, now: Clock) -> Result<(), &'static str> {
        self.is_connected(&check.name, check.runs, now)?;
        match check.runs {
            Runs::Builtin => Err("not a mod that is asked"),
            Runs::Process => {
                let line = format!(r#"{{"event":{},"context":{}}}"#, check.event, check.context);
                let asked = ProcessCheck { ticket, line, deadline_ms: check.deadline_ms };
                let port = self.mod_calls.ports.get(check.name.as_ref()).ok_or("its process does not run")?;
                port.try_send(asked).map_err(|_| "it has too much to do")
            }
            Runs::Served(member) => {
                let event = Arc::new(self.check_event(ticket, check, member, now));
                if self.sessions.ask(member, &event) {
                    self.tell();
                } else {
                    let waiting = self.mod_calls.waiting.entry(member).or_default();
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
        format!("chk_{:x}_{ticket:x}", self.mod_calls.life)
    }

    fn check_event(&mut self, ticket: u64, check: &ModCheck, member: MemberId, now: Clock) -> Event {
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
        self.own_event(EventType::ModCheck, ("core", &target), &payload, "{\"ephemeral\":true}", now)
    }

    /// Shows an event to an observer. One that has too much to look at misses it.
    pub(in crate::task) fn observe(&mut self, check: &ModCheck) {
        let now = self.clock.now();
        let full = self.mod_calls.observing.len() >= limits::MOD_OBSERVING_MAX;
        if full || self.is_suspended(&check.name) || self.show(check, false, now).is_err() {
            self.shared.mods.count(&check.name, ModOutcome::Missed, 0);
        }
    }

    /// Observers that never answered are not waited for.
    pub(in crate::task) fn forget_shown(&mut self, now: Clock) {
        let late = |since: Millis| since.saturating_add(OBSERVING_MS_MAX) <= now.steady;
        self.mod_calls.observing.retain(|_, shown| !late(shown.since));
        let state = &self.engine.state;
        self.mod_calls.waiting.retain(|member, _| state.book.mods.iter().any(|m| m.runs == Runs::Served(*member)));
    }

    /// `network.mod.verdict`: the answer to a check.
    pub(super) fn decide_verdict(&mut self, event: &Incoming<'_>, now: Clock) -> Answered {
        let id = event.id();
        let result = self.verdict(event, now).map(|()| {
            let named = Some(id.clone().unwrap_or_else(|| self.own_id(now)).into());
            Accepted { named, ..Accepted::default() }
        });
        self.answered(id, result)
    }

    fn verdict(&mut self, event: &Incoming<'_>, now: Clock) -> Result<(), Fault> {
        let payload = event.envelope.payload.as_ref();
        let runs = Runs::Served(self.member_of(event.caller, now)?);
        #[derive(serde::Deserialize)]
        struct Ticket {
            ticket: String,
        }
        let said: Ticket = serde_json::from_str(payload).map_err(|e| {
            Fault::new(ErrorCode::InvalidPayload, format!("a verdict must name its ticket: {e}"))
                .field("payload.ticket")
        })?;
        let number = said.ticket.rsplit('_').next().and_then(|n| u64::from_str_radix(n, 16).ok()).unwrap_or(0);
        if self.ticket_text(number) != said.ticket {
            return Err(no_ticket());
        }
        let number = planted::other_ticket(&self.deferred, runs).unwrap_or(number);
        if self.mod_calls.observing.get(&number).is_some_and(|shown| shown.runs == runs) {
            let verdict = ModVerdict::parse(payload)?;
            self.observed(number, CheckOutcome::Said(verdict), now);
            return Ok(());
        }
        if !self.deferred.is_asked(number, runs) {
            return planted::second_verdict().ok_or_else(no_ticket);
        }
        let verdict = ModVerdict::parse(payload)?;
        self.take_outcome(number, CheckOutcome::Said(verdict), now);
        Ok(())
    }

    /// Takes what a process said.
    pub(in crate::task) fn process_said(&mut self, ticket: u64, outcome: CheckOutcome, now: Clock) {
        if self.mod_calls.observing.contains_key(&ticket) {
            self.observed(ticket, outcome, now);
        } else if self.deferred.is_asked(ticket, Runs::Process) {
            self.take_outcome(ticket, outcome, now);
        }
    }

    /// Takes what came of a question to a mod; the event that waits for it is decided with the next resolutions.
    fn take_outcome(&mut self, ticket: u64, outcome: CheckOutcome, now: Clock) {
        match (self.deferred.asked_name(ticket), &outcome) {
            (Some(name), CheckOutcome::Said(_)) => self.spoke(&name),
            // Whoever runs a process has waited as long as it may take.
            (Some(name), CheckOutcome::Failed(NOT_IN_TIME)) => self.fell_silent(&name, now),
            (_, CheckOutcome::Failed(_)) | (None, CheckOutcome::Said(_)) => {}
        }
        self.deferred.resolve(ticket, Resolution::Verdict(outcome));
    }

    fn observed(&mut self, ticket: u64, outcome: CheckOutcome, now: Clock) {
        let Some(shown) = self.mod_calls.observing.remove(&ticket) else { return };
        let Observing { name, chain, cause, since, probe, .. } = shown;
        if matches!(outcome, CheckOutcome::Said(_)) {
            self.spoke(&name);
        }
        if probe {
            return;
        }
        self.count_outcome(&name, &outcome, now.steady.saturating_sub(since));
        if let CheckOutcome::Said(verdict) = outcome {
            self.send_with_verdict(&name, &verdict, chain, cause, None);
        }
    }

    /// Counts what a mod said.
    pub(super) fn count_outcome(&self, name: &str, outcome: &CheckOutcome, took_ms: Millis) {
        let what = match outcome {
            CheckOutcome::Said(ModVerdict { said: Judgement::Pass, .. }) => ModOutcome::Pass,
            CheckOutcome::Said(ModVerdict { said: Judgement::Reject { .. }, .. }) => ModOutcome::Reject,
            CheckOutcome::Said(ModVerdict { said: Judgement::Modified(_), .. }) => ModOutcome::Modified,
            CheckOutcome::Failed(reason) => {
                tracing::debug!(name, reason, "a mod did not do its part");
                ModOutcome::Failed
            }
        };
        self.shared.mods.count(name, what, took_ms);
    }
}

fn step_name(step: CheckStage) -> &'static str {
    match step {
        CheckStage::Guard | CheckStage::GuardAgain => Mode::Guard.as_str(),
        CheckStage::Transform => Mode::Transform.as_str(),
        CheckStage::Observe => Mode::Observe.as_str(),
        CheckStage::Mail => "mail",
    }
}
