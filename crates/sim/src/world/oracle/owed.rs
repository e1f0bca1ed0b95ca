//! What mods send and other mods have to see first: committed with its cause, decided later, once, perhaps in another life.
//!
//! That it comes only once is seen on the tape. Here it is held that it comes at all: whoever has to see it first is asked about it
//! after the start, and what everybody let go on is there. It may stay away only because a mod refuses it or fails, because the
//! rules do, or because the mod that sent it was unloaded meanwhile, even if another took its name since.

use super::checks::Said;
use super::mods::{Loaded, Mode, matches};
use super::{Oracle, Wrong, wrong};

impl Oracle {
    /// Whether a mod sends the input.
    pub(super) fn is_emit(&self, k: usize) -> bool {
        self.inputs.get(k).is_some_and(|input| input.source.starts_with("mod/"))
    }

    /// The process ends: remembers what a mod sent about which a process is asked that runs and has time left. It is owed if its
    /// cause is on the tape.
    pub fn life_ends(&mut self, running: &[&str], now: u64) {
        let open = self.tickets.iter().filter(|t| !t.over && !t.void && t.words.is_empty());
        let open = open.filter(|t| running.contains(&t.name.as_str()) && now < t.asked.0 + t.deadline_ms.0);
        let owed: Vec<usize> = open.map(|t| t.k).filter(|k| self.is_emit(*k)).collect();
        self.owed.extend(owed);
    }

    /// After a start, with these processes running from its beginning: what is owed is decided, or who has to see it is asked.
    pub fn owed_are_taken_up(&mut self, running: &[&str]) -> Result<(), Wrong> {
        for k in std::mem::take(&mut self.owed) {
            if self.is_taped(k) || !self.is_owed(k) {
                continue;
            }
            let Some(first) = self.first_judge(k) else { continue };
            let asked = self.tickets_of(k, &first).any(|t| !t.over);
            if running.contains(&first.as_str()) && !asked {
                return wrong(
                    "mods",
                    format!("mod/{first} was asked about k={k} when the node ended, and never again"),
                );
            }
        }
        Ok(())
    }

    /// Whether an emit that was asked about is owed for sure: what it follows from is committed, and nothing speaks against it.
    fn is_owed(&self, k: usize) -> bool {
        let follows = self.tickets.iter().any(|t| t.step != "observe" && t.words.iter().any(|w| w.emits.contains(&k)));
        let cause = self.cause_of(k).filter(|cause| follows && !self.is_emit(*cause));
        let taped = cause.and_then(|cause| self.fates.get(cause)).and_then(|fate| fate.taped);
        let Some(input) = self.inputs.get(k) else { return false };
        let emitter = input.source.trim_start_matches("mod/");
        taped.is_some_and(|seq| !self.redacted.contains(&seq))
            && self.rules.status == "active"
            && self.loaded(emitter).is_some_and(|m| m.is_sure_for(k) && !self.is_going(m))
            && self.place(&input.target).is_ok()
    }

    /// The guard that has to see an emit before all others, if that is known for sure.
    fn first_judge(&self, k: usize) -> Option<String> {
        let mut guards: Vec<&Loaded> = self.judges(k).filter(|m| m.what.mode == Mode::Guard).collect();
        guards.sort_by_key(|m| (m.what.priority, m.what.name.clone()));
        let sure = guards.iter().all(|m| m.is_loaded() && !self.is_going(m));
        guards.first().filter(|_| sure).map(|m| m.what.name.clone())
    }

    /// Mods that may have to see an emit: those that are loaded, or may be.
    fn judges(&self, k: usize) -> impl Iterator<Item = &Loaded> {
        let input = self.inputs.get(k);
        let sees = move |m: &&Loaded| {
            input.is_some_and(|input| matches(&m.what.intercepts, &input.kind) && !self.is_behind(m, input))
        };
        self.mods.iter().filter(move |m| m.may_hold_for(k) && m.what.mode != Mode::Observe).filter(sees)
    }

    /// What a mod sent and every mod that had to see it let go on, in this life, is committed.
    pub fn emits_that_passed_are_there(&self) -> Result<(), Wrong> {
        let asked = self.tickets.iter().filter(|t| !t.void && t.step != "observe").map(|t| t.k);
        for k in asked.filter(|k| self.is_emit(*k) && !self.is_taped(*k)) {
            let Some(input) = self.inputs.get(k).filter(|i| i.target == "core" && self.rested_until < i.sent_at) else {
                continue;
            };
            let passes = |said: &Said| matches!(said, Said::Pass | Said::Modified(_, None));
            let passed = |m: &Loaded| {
                let last = self.tickets_of(k, &m.what.name).next_back();
                last.is_some_and(|t| !t.void && t.was_taken(passes))
            };
            if self.is_owed(k) && self.judges(k).all(passed) {
                return wrong("mods", format!("everybody let {input:?} go on (k={k}), and it is not there"));
            }
        }
        Ok(())
    }
}
