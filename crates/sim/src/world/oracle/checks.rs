//! What mods that run elsewhere are asked and what they say (sheet, section 9): who may be asked what and when, which
//! words count, and what may become of an event then.

use super::mods::{Loaded, Mode, matches};
use super::{Input, Oracle, Wrong, number_of, wrong};
use rialto_model::{ErrorCode, Event, limits};
use serde_json::Value;

/// Long steps pass in pieces of this length: within one a deadline may go by unnoticed.
const SLACK_MS: u64 = 1_000;

/// What a mod says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The event may go on.
    Pass,
    /// It may not.
    Reject,
    /// It goes on with this payload, perhaps to another target.
    Modified(String, Option<String>),
    /// Nothing that can be understood.
    Mumbled,
}

/// What became of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    Unknown,
    Taken,
    Away,
}

#[derive(Debug, Clone)]
pub(super) struct Word {
    said: Said,
    /// By who is asked.
    own: bool,
    heard: Heard,
    /// When it was said.
    at: u64,
    /// Inputs that the mod sends with it.
    pub(super) emits: Vec<usize>,
}

/// One question to one mod.
#[derive(Debug, Clone)]
pub(crate) struct Ticket {
    id: String,
    pub(super) name: String,
    pub(super) step: String,
    pub(super) k: usize,
    target: String,
    /// It was asked between these steady times.
    pub(super) asked: (u64, u64),
    /// The shortest and the longest that may hold for it.
    pub(super) deadline_ms: (u64, u64),
    pub(super) words: Vec<Word>,
    /// The network may have forgotten it: it was started again, or its log failed.
    pub(super) void: bool,
    /// It was asked in an earlier life.
    pub(super) over: bool,
}

impl Ticket {
    /// A word of who is asked that may have been heard.
    fn word(&self, is: impl Fn(&Said) -> bool) -> Option<&Word> {
        self.words.iter().find(|w| w.own && w.heard != Heard::Away && is(&w.said))
    }

    fn lets_go_on(&self) -> bool {
        self.word(|said| matches!(said, Said::Pass | Said::Modified(..))).is_some()
    }

    fn is_refused(&self) -> bool {
        self.word(|said| *said == Said::Reject).is_some()
    }

    pub(super) fn was_taken(&self, is: impl Fn(&Said) -> bool) -> bool {
        self.word(is).is_some_and(|w| w.heard == Heard::Taken)
    }
}

/// Nobody is asked about these.
fn is_exempt(kind: &str) -> bool {
    matches!(kind, "network.ping" | "network.event.ack" | "network.mod.verdict" | "network.agent.leave")
}

impl Oracle {
    /// Whether mods explain that an input was refused.
    pub fn is_mods_doing(&self, k: usize) -> bool {
        let moved = |t: &Ticket| t.k == k && t.word(|s| matches!(s, Said::Modified(_, Some(_)))).is_some();
        self.fates.get(k).is_some_and(|f| f.by_mod) || self.tickets.iter().any(moved)
    }

    /// Whether an input that waited for a mod is to be refused as things are now.
    pub fn is_refused_by_now(&self, k: usize) -> bool {
        let waited = self.tickets.iter().any(|t| t.k == k);
        waited && self.inputs.get(k).is_some_and(|input| !self.refusals(input).is_empty())
    }

    pub(super) fn tickets_of<'a>(&'a self, k: usize, name: &'a str) -> impl DoubleEndedIterator<Item = &'a Ticket> {
        self.tickets.iter().filter(move |t| t.k == k && t.name == name)
    }

    /// A mod is asked: only it may be, about what it has to do with, and once those before it have passed the event.
    pub fn asked(&mut self, id: &str, by: Option<&str>, check: &Value, asked: (u64, u64)) -> Result<(), Wrong> {
        let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let (name, step, event) = (text(check, "mod"), text(check, "step"), &check["event"]);
        let name = name.strip_prefix("mod/").unwrap_or(&name).to_owned();
        let (kind, target, source) = (text(event, "type"), text(event, "target"), text(event, "source"));
        let off = |what: String| wrong("mods", format!("mod/{name} is asked about {event}: {what}"));
        let Some(k) = number_of(&event["payload"].to_string()).filter(|k| *k < self.inputs.len()) else {
            return off("nobody sent it".to_owned());
        };
        let Some(input) = self.inputs.get(k) else { return Ok(()) };
        let server = by.and_then(|address| self.who(address));
        let own: Vec<&Loaded> =
            self.mods.iter().filter(|m| m.what.name == name && m.server == server && m.may_hold_for(k)).collect();
        if own.is_empty() {
            return off(format!("{by:?} does not serve it"));
        }
        let mail = step == "mail";
        let own_words = !mail && own.iter().all(|m| self.is_behind(m, input));
        if own_words || is_exempt(&kind) || source != input.source {
            return off(format!("it is from {source}"));
        }
        let meant = |m: &&&Loaded| {
            mail && target == format!("mod/{name}")
                || !mail && m.what.mode.as_str() == step && matches(&m.what.intercepts, &kind)
        };
        let Some(version) = own.iter().rev().find(meant) else { return off(format!("step {step} is not its own")) };
        if target.starts_with("mod/") && !mail && step != "guard" {
            return off("mail to a mod is for that mod alone".to_owned());
        }
        let changed = |t: &Ticket| match t.word(|said| matches!(said, Said::Modified(..))).map(|w| &w.said) {
            Some(Said::Modified(payload, _)) => {
                serde_json::from_str::<Value>(payload).unwrap_or_default() == event["payload"]
            }
            Some(Said::Pass | Said::Reject | Said::Mumbled) | None => false,
        };
        let sent = || serde_json::from_str::<Value>(&input.payload).unwrap_or_default() == event["payload"];
        if !kind.starts_with("network.") && !sent() && !self.tickets.iter().any(|t| t.k == k && changed(t)) {
            return off("it was not sent like that".to_owned());
        }
        if !self.is_resent(k) {
            let refused = |t: &&Ticket| t.k == k && t.step == "guard" && t.was_taken(|said| *said == Said::Reject);
            if let Some(ticket) = self.tickets.iter().find(refused) {
                return off(format!("mod/{} had refused it", ticket.name));
            }
            let place = |m: &Loaded| (m.what.mode, m.what.priority, m.what.name.clone());
            let before = self.mods.iter().filter(|m| m.is_sure_for(k) && m.what.mode == Mode::Guard);
            let before = before.filter(|m| place(m) < place(version) && matches(&m.what.intercepts, &kind));
            let before = before.filter(|m| !self.is_behind(m, input) && !self.is_going(m));
            for m in before.filter(|_| version.is_sure_for(k) && !self.is_going(version)) {
                if !self.tickets_of(k, &m.what.name).any(Ticket::lets_go_on) {
                    return off(format!("mod/{} comes before it and has not passed it", m.what.name));
                }
            }
        }
        let deadlines = || own.iter().map(|m| m.what.deadline_ms);
        let deadline_ms = (deadlines().min().unwrap_or(0), deadlines().max().unwrap_or(0));
        let asked = (asked.0.max(input.sent_at), asked.1);
        let words = Vec::new();
        self.tickets.push(Ticket {
            id: id.to_owned(),
            name,
            step,
            k,
            target,
            asked,
            deadline_ms,
            words,
            void: false,
            over: false,
        });
        Ok(())
    }

    /// Somebody answers, and sends these inputs with it.
    pub fn saying(&mut self, id: &str, own: bool, said: Said, emits: Vec<usize>, at: u64) {
        // Who sends with a mod's word is never answered.
        emits.iter().for_each(|k| self.unanswered(*k));
        if let Some(ticket) = self.tickets.iter_mut().find(|t| t.id == id) {
            ticket.words.push(Word { said, own, heard: Heard::Unknown, at, emits });
        }
    }

    /// What an answer was answered; `there` says that its sender never was away.
    pub fn word_answered(
        &mut self,
        id: &str,
        word: usize,
        refused: Option<ErrorCode>,
        now: u64,
        there: bool,
    ) -> Result<(), Wrong> {
        let resent = self.tickets.iter().find(|t| t.id == id).map(|t| self.is_resent(t.k));
        let suspended = self.tickets.iter().any(|t| t.id == id && self.may_be_suspended(&t.name));
        let Some(ticket) = self.tickets.iter_mut().find(|t| t.id == id) else { return Ok(()) };
        let earlier = |heard: Heard| ticket.words.iter().take(word).any(|w| w.own && w.heard == heard);
        let (twice, first) = (earlier(Heard::Taken), !earlier(Heard::Taken) && !earlier(Heard::Unknown));
        let over = ticket.asked.1 + ticket.deadline_ms.1;
        let early = now < ticket.asked.0 + ticket.deadline_ms.0;
        let (void, over_with, observes) = (ticket.void, ticket.over, ticket.step == "observe");
        let joins = ticket.k;
        let Some(said) = ticket.words.get_mut(word) else { return Ok(()) };
        let own = said.own;
        said.heard = if refused.is_none() { Heard::Taken } else { Heard::Away };
        let said = said.clone();
        for k in said.emits.iter().filter(|_| refused.is_some()) {
            self.fates.get_mut(*k).into_iter().for_each(|f| f.unknown = false);
        }
        let joins = self.inputs.get(joins).is_some_and(|i| i.kind == "network.agent.join");
        match refused {
            None if !own => wrong("mods", format!("{id} was answered by who was not asked")),
            None if twice => wrong("mods", format!("{id} was answered twice")),
            None if over_with => wrong("mods", format!("{id} is of a life that is over, and its answer was taken")),
            None if said.said == Said::Mumbled => {
                wrong("mods", format!("{id} was answered with nothing to understand"))
            }
            None if !observes && !void && said.at > over + SLACK_MS => {
                wrong("deadlines", format!("{id} was answered too late, and heard"))
            }
            Some(ErrorCode::NoPendingRequest)
                if own && first && there && early && !void && !joins && !suspended && resent == Some(false) =>
            {
                wrong("deadlines", format!("{id} was answered in time, and not heard"))
            }
            _ => Ok(()),
        }
    }

    /// What was asked may be forgotten: the log failed, or for sure: the network was started again.
    pub fn tickets_void(&mut self, over: bool) {
        for ticket in &mut self.tickets {
            ticket.void = true;
            ticket.over |= over;
        }
    }

    /// A mod refused an event, or did not do its part; `there` says that its server never was away.
    pub fn refused_by_mod(
        &mut self,
        k: usize,
        code: ErrorCode,
        name: &str,
        now: u64,
        there: bool,
    ) -> Result<(), Wrong> {
        let name = name.strip_prefix("mod/").unwrap_or(name);
        self.fates.get_mut(k).into_iter().for_each(|f| f.by_mod = true);
        let Some(input) = self.inputs.get(k) else { return Ok(()) };
        let mail = input.target == format!("mod/{name}");
        let moved =
            self.tickets.iter().any(|t| t.k == k && t.word(|s| matches!(s, Said::Modified(_, Some(_)))).is_some());
        let once = !self.is_resent(k) && !moved;
        let last = self.tickets_of(k, name).next_back();
        let versions = || self.mods.iter().filter(|m| m.what.name == name && m.may_hold_for(k));
        if code == ErrorCode::Rejected {
            let may = mail || versions().any(|m| m.what.mode == Mode::Guard);
            let did = self.tickets_of(k, name).any(Ticket::is_refused);
            return if may && did {
                Ok(())
            } else {
                wrong("mods", format!("k={k} was refused by mod/{name}, which did not"))
            };
        }
        if !mail && !versions().any(|m| m.what.mode == Mode::Guard || m.what.mode == Mode::Transform && m.what.rejects)
        {
            return wrong("deadlines", format!("k={k} was refused because mod/{name} failed, which may"));
        }
        let Some(deadline_ms) = versions().map(|m| m.what.deadline_ms).min() else {
            return wrong("mods", format!("k={k} was refused because mod/{name} failed, which is not loaded"));
        };
        let Some(last) = last else {
            let early = there && once && !self.may_be_suspended(name) && now < input.sent_at + deadline_ms;
            return if early {
                wrong("deadlines", format!("mod/{name} was not asked about k={k}, and failed"))
            } else {
                Ok(())
            };
        };
        // A mod that guards its own mail is asked twice; who polls may not have heard the second question yet.
        let unheard = mail && last.step != "mail" && !there;
        let passes = |said: &Said| matches!(said, Said::Pass | Said::Modified(_, None));
        if once && !last.void && !unheard && last.was_taken(passes) {
            return wrong("mods", format!("mod/{name} passed k={k}, which was refused because it failed"));
        }
        let spoke = last.words.iter().any(|w| w.own);
        let in_time = !self.may_be_suspended(name) && now < last.asked.0 + last.deadline_ms.0;
        if once && there && !last.void && !spoke && in_time {
            return wrong("deadlines", format!("mod/{name} failed before its time was over (k={k})"));
        }
        Ok(())
    }

    /// Whether a mod left so many events unanswered that it need not be waited for. Questions that went down with a stream were never seen
    /// here, so the events that it had to be asked about are counted; a word that came too late is no answer.
    fn may_be_suspended(&self, name: &str) -> bool {
        let concerns = |k: usize, input: &Input| {
            let mail = input.target.strip_prefix("mod/") == Some(name);
            self.mods
                .iter()
                .any(|m| m.what.name == name && m.may_hold_for(k) && (mail || matches(&m.what.intercepts, &input.kind)))
        };
        let answered = |k: usize| self.tickets_of(k, name).any(|t| t.was_taken(|_| true));
        let silent = self.inputs.iter().enumerate().filter(|(k, input)| concerns(*k, input) && !answered(*k));
        silent.take(limits::MOD_TIMEOUTS_MAX as usize).count() == limits::MOD_TIMEOUTS_MAX as usize
    }

    /// A committed event as mods made it: all that had to let it go on did.
    pub(crate) fn past_mods(&self, k: usize, event: &Event) -> Result<Input, Wrong> {
        let Some(sent) = self.inputs.get(k).cloned() else { return wrong("tape", format!("nobody sent k={k}")) };
        if self.mods.is_empty() || is_exempt(&sent.kind) {
            return Ok(sent);
        }
        let mut input = sent.clone();
        let payload: Value = serde_json::from_str(event.payload()).unwrap_or_default();
        for ticket in self.tickets.iter().filter(|t| t.k == k && t.step == "transform") {
            if self.tickets_of(k, &ticket.name).next_back().is_some_and(|last| last.id != ticket.id) {
                continue;
            }
            // Of what a mod sends all mods are asked again after a start, and one that is not there is passed over.
            let forgotten = ticket.void && self.is_emit(k);
            let Some(word) = ticket.word(|said| matches!(said, Said::Modified(..))) else { continue };
            let Said::Modified(made, target) = &word.said else { continue };
            let shows = payload.get(&ticket.name).and_then(Value::as_str) == Some(&ticket.id);
            if shows {
                input.payload.clone_from(made);
            }
            match target.as_ref().filter(|target| shows && **target != input.target) {
                Some(target) => {
                    input.target.clone_from(target);
                    input.visibility = None;
                }
                // What was sent again is asked about again, of which who polls may know nothing yet.
                None if !shows
                    && word.heard == Heard::Taken
                    && target.is_none()
                    && !forgotten
                    && !self.is_resent(k) =>
                {
                    return wrong("mods", format!("mod/{} changed k={k}, and nobody sees it", ticket.name));
                }
                None => {}
            }
        }
        for m in self.mods.iter().filter(|m| m.is_sure_for(k) && !self.is_behind(m, &sent)) {
            let name = m.what.name.as_str();
            // A process is not told whether it guards mail to itself or takes it.
            let step = |t: &Ticket, step: &str| t.step == step || t.step == "mail" && m.server.is_none();
            let passed = |asked: &str, target: &str| {
                self.tickets_of(k, name).any(|t| step(t, asked) && t.target == target && t.lets_go_on())
            };
            let got_past =
                |what: &str| wrong("mods", format!("mod/{name} did not let k={k} go on{what}, which is committed"));
            let meant = matches(&m.what.intercepts, &sent.kind);
            let acts = sent.kind.starts_with("network.");
            // Channel acts are stored under their channel, and shown under what they were sent to.
            let target = |target: &str| {
                if acts { "core".to_owned() } else { target.strip_prefix("local::").unwrap_or(target).to_owned() }
            };
            match m.what.mode {
                Mode::Guard if meant && !passed("guard", &target(&sent.target)) => return got_past(""),
                Mode::Guard if meant && input.target != sent.target && !passed("guard", &input.target) => {
                    return got_past(" to where it goes now");
                }
                Mode::Transform
                    if meant
                        && m.what.rejects
                        && !sent.target.starts_with("mod/")
                        && !acts
                        && !passed("transform", self.tickets_of(k, name).next_back().map_or("", |t| &t.target)) =>
                {
                    return got_past("");
                }
                Mode::Guard | Mode::Transform | Mode::Observe => {}
            }
            if sent.target == format!("mod/{name}") && !passed("mail", &sent.target) {
                return wrong("mods", format!("mod/{name} did not take k={k}, which is committed"));
            }
        }
        // Whoever was asked had to pass it, also if it was unloaded meanwhile.
        let forgotten = |t: &Ticket| t.void && self.is_emit(k) && !t.was_taken(|said| *said == Said::Reject);
        let stopped =
            |t: &&Ticket| t.k == k && matches!(t.step.as_str(), "guard" | "mail") && !t.lets_go_on() && !forgotten(t);
        if let Some(ticket) = self.tickets.iter().find(stopped).filter(|_| !self.is_resent(k)) {
            return wrong(
                "mods",
                format!("mod/{} was asked about k={k}, which is committed without its word", ticket.name),
            );
        }
        Ok(input)
    }

    /// What a mod sent with a word that was taken is there; no crash came between, and nothing speaks against it.
    pub fn emits_are_there(&self, id: &str) -> Result<(), Wrong> {
        let Some(ticket) = self.tickets.iter().find(|t| t.id == id && !t.void) else { return Ok(()) };
        let free = self.rules.status == "active"
            && self.loaded(&ticket.name).is_some()
            && self.fates.get(ticket.k).is_none_or(|f| f.open == 0 && !f.unknown);
        for k in ticket.words.iter().filter(|w| w.heard == Heard::Taken && free).flat_map(|w| &w.emits) {
            let Some(input) = self.inputs.get(*k).filter(|i| i.target == "core") else { continue };
            if !self.is_asked_about(&input.kind) && !self.is_taped(*k) {
                return wrong("mods", format!("what mod/{} sent with {id} (k={k}) is not there", ticket.name));
            }
        }
        Ok(())
    }

    /// Observers are shown what is committed, nothing else.
    pub fn observers_saw_what_is(&self) -> Result<(), Wrong> {
        let mut seen = self.tickets.iter().filter(|t| t.step == "observe");
        match seen.find(|t| !self.is_taped(t.k)) {
            Some(t) => wrong("mods", format!("mod/{} was shown k={}, which is not committed", t.name, t.k)),
            None => Ok(()),
        }
    }

    /// The input that a mod answered when it sent this one; none if that was sent more than once.
    pub(crate) fn cause_of(&self, k: usize) -> Option<usize> {
        let cause = self.tickets.iter().find(|t| t.words.iter().any(|w| w.emits.contains(&k)));
        cause.map(|t| t.k).filter(|cause| !self.is_resent(*cause))
    }
}
