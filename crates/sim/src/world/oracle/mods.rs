//! Mods that run elsewhere: which are loaded, who serves them, and what they send (sheet, section 9).
//!
//! A mod holds for sure for what is sent after it is known to be loaded, as long as it is; what is under way while the
//! list changes may finish on either.

use super::{Entry, Input, Oracle, Who, Wrong, wrong};
use rialto_model::{ErrorCode, Event};
use serde_json::Value;

/// What was sent without an answer has been decided after this long: nothing waits longer for mods.
const LOST_MS: u64 = 60_000;

/// What a mod does with events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the sheet's own names")]
pub enum Mode {
    Guard,
    Transform,
    Observe,
}

impl Mode {
    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Guard => "guard",
            Mode::Transform => "transform",
            Mode::Observe => "observe",
        }
    }
}

/// A mod as it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the sheet's own names")]
pub struct ServedMod {
    pub name: String,
    pub mode: Mode,
    /// Who serves it; none if it is a process.
    pub server: Option<String>,
    pub intercepts: Vec<String>,
    pub priority: i64,
    /// `on_error` is `reject`.
    pub rejects: bool,
    pub deadline_ms: u64,
}

/// A mod as it is or was loaded.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(super) what: ServedMod,
    pub(super) server: Option<Who>,
    /// It holds for inputs from this one on.
    since: usize,
    /// It does not hold for inputs from this one on.
    until: Option<usize>,
    /// It was wished for; nobody knows whether it is loaded.
    wished: bool,
}

/// Shell patterns as worlds use them: a whole type, or its beginning.
pub(super) fn matches(patterns: &[String], kind: &str) -> bool {
    patterns.is_empty()
        || patterns.iter().any(|p| p.strip_suffix('*').map_or(p == kind, |begins| kind.starts_with(begins)))
}

impl Loaded {
    pub(super) fn is_loaded(&self) -> bool {
        self.until.is_none() && !self.wished
    }

    pub(super) fn is_sure_for(&self, k: usize) -> bool {
        self.is_loaded() && self.since <= k
    }

    pub(super) fn may_hold_for(&self, k: usize) -> bool {
        self.until.is_none_or(|until| k < until)
    }
}

impl Oracle {
    /// Whether the member serves a mod.
    pub fn serves_any(&self, address: &str) -> bool {
        let who = self.who(address);
        self.mods.iter().any(|m| m.until.is_none() && m.server.is_some() && m.server == who)
    }

    /// Whether something that the address sent is not answered.
    pub fn waits(&self, address: &str) -> bool {
        self.inputs
            .iter()
            .zip(&self.fates)
            .any(|(i, f)| i.source == address && (f.open > 0 || f.unknown && f.taped.is_none()))
    }

    /// Whether any mod that runs elsewhere was ever loaded.
    pub fn had_mods(&self) -> bool {
        !self.mods.is_empty()
    }

    /// The mod of this name, as it is loaded now.
    pub fn served_mod(&self, name: &str) -> Option<&ServedMod> {
        self.loaded(name).map(|m| &m.what)
    }

    /// The same, if nothing is under way that changes it.
    pub fn settled_mod(&self, name: &str) -> Option<ServedMod> {
        self.loaded(name).filter(|m| !self.is_going(m)).map(|m| m.what.clone())
    }

    /// Whether a member asked to serve the mod and nobody knows yet what came of it.
    pub fn is_wished(&self, name: &str) -> bool {
        self.mods.iter().any(|m| m.what.name == name && m.wished && m.until.is_none())
    }

    pub(super) fn loaded(&self, name: &str) -> Option<&Loaded> {
        self.mods.iter().find(|m| m.what.name == name && m.is_loaded())
    }

    /// A mod is loaded, or loaded otherwise.
    pub fn mod_loaded(&mut self, what: ServedMod) {
        self.mod_unloaded(&what.name.clone());
        self.mod_wished(what);
        self.mods.iter_mut().next_back().into_iter().for_each(|m| m.wished = false);
    }

    /// A mod is to be loaded: whether it is, is seen later.
    fn mod_wished(&mut self, what: ServedMod) {
        let server = what.server.as_deref().and_then(|address| self.who(address));
        self.mods.push(Loaded { what, server, since: self.inputs.len(), until: None, wished: true });
    }

    /// A mod is no longer loaded.
    pub fn mod_unloaded(&mut self, name: &str) {
        let now = self.inputs.len();
        self.mods.iter_mut().filter(|m| m.what.name == name && m.until.is_none()).for_each(|m| m.until = Some(now));
    }

    /// Whoever leaves takes its mods along.
    pub(crate) fn mods_of_gone(&mut self, who: Who) {
        let now = self.inputs.len();
        let gone = self.mods.iter_mut().filter(|m| m.server == Some(who) && m.until.is_none());
        gone.for_each(|m| m.until = Some(now));
        self.approved.retain(|(_, whom)| *whom != who || !self.members.get(who).is_some_and(|m| m.removed));
    }

    /// Whether the operator lets a member serve a mod.
    pub fn is_approved(&self, name: &str, address: &str) -> bool {
        self.who(address).is_some_and(|who| self.approved.contains(&(name.to_owned(), who)))
    }

    /// The operator lets a member serve a mod.
    pub fn approved(&mut self, name: &str, address: &str) {
        self.approved.extend(self.who(address).map(|who| (name.to_owned(), who)));
    }

    /// What speaks against serving a mod.
    pub(crate) fn serve_refusals(&self, payload: &Value, source: Who) -> Vec<ErrorCode> {
        let name = payload.get("name").and_then(Value::as_str).unwrap_or_default();
        let known = self.loaded(name);
        let own = known.is_some_and(|m| m.server == Some(source));
        let unload = payload.get("unload").and_then(Value::as_bool).unwrap_or(false);
        let mut codes = Vec::new();
        if known.is_some() && !own {
            codes.push(ErrorCode::AlreadyExists);
        }
        if unload && !own {
            codes.push(ErrorCode::ModNotFound);
        }
        if !unload && !self.approved.contains(&(name.to_owned(), source)) {
            codes.push(ErrorCode::Forbidden);
        }
        codes
    }

    /// `network.mod.serve` was committed.
    pub(crate) fn serves(&mut self, payload: &Value, source: Who) {
        match self.wish(payload, source) {
            Some(what) => self.mod_loaded(what),
            None => self.mod_unloaded(payload.get("name").and_then(Value::as_str).unwrap_or_default()),
        }
    }

    /// `network.mod.serve` was sent.
    pub fn wants_to_serve(&mut self, payload: &Value, address: &str) {
        let what = self.who(address).and_then(|source| self.wish(payload, source));
        what.into_iter().for_each(|what| self.mod_wished(what));
    }

    fn wish(&self, payload: &Value, source: Who) -> Option<ServedMod> {
        let name = payload.get("name").and_then(Value::as_str).unwrap_or_default();
        if payload.get("unload").and_then(Value::as_bool).unwrap_or(false) {
            return None;
        }
        let text = |key: &str| payload.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| payload.get(key).and_then(Value::as_u64);
        let mode = [Mode::Guard, Mode::Transform, Mode::Observe].into_iter().find(|m| m.as_str() == text("mode"));
        let patterns = payload.get("intercepts").and_then(Value::as_array).into_iter().flatten();
        Some(ServedMod {
            name: name.to_owned(),
            mode: mode.unwrap_or(Mode::Guard),
            server: self.address(source).map(str::to_owned),
            intercepts: patterns.filter_map(Value::as_str).map(str::to_owned).collect(),
            priority: payload.get("priority").and_then(Value::as_i64).unwrap_or(0),
            rejects: text("on_error") == "reject",
            deadline_ms: number("deadline_ms").unwrap_or(1000),
        })
    }

    /// Whether mail to the mod has somewhere to go.
    pub(crate) fn is_mod(&self, name: &str) -> bool {
        self.loaded(name).is_some()
    }

    /// Whether anybody may be asked about such an event.
    pub fn is_asked_about(&self, kind: &str) -> bool {
        self.mods.iter().any(|m| m.until.is_none() && matches(&m.what.intercepts, kind))
    }

    pub(super) fn is_resent(&self, k: usize) -> bool {
        self.inputs.get(k).is_some_and(|i| i.lane == u64::MAX - k as u64)
    }

    /// A mod hears nothing of what it sends itself, nor of what its server sends.
    pub(super) fn is_behind(&self, m: &Loaded, input: &Input) -> bool {
        input.source.strip_prefix("mod/") == Some(&m.what.name)
            || m.server.is_some() && self.who(&input.source) == m.server
    }

    /// Whether a mod was still loaded when mail to it was sent: the end of a mod leaves no position, so the mail may have been decided
    /// before it.
    pub(super) fn had_mod_for(&self, k: usize, target: &str) -> bool {
        let name = target.strip_prefix("mod/");
        self.mods.iter().any(|m| Some(m.what.name.as_str()) == name && m.may_hold_for(k))
    }

    /// Its server is about to leave, or somebody to serve it otherwise: whether that has happened, the tape will say.
    pub(super) fn is_going(&self, m: &Loaded) -> bool {
        let acts = |i: &Input| match i.kind.as_str() {
            "network.agent.leave" => m.server.is_some() && self.who(&i.source) == m.server,
            "network.mod.serve" => i.payload.contains(&format!("\"{}\"", m.what.name)),
            _ => false,
        };
        // What was lost on the way may still come, for a while.
        let lost = |i: &Input| self.looked < i.sent_at + LOST_MS;
        let mut inputs = self.inputs.iter().zip(&self.fates).filter(|(_, f)| f.taped.is_none());
        inputs.any(|(i, f)| acts(i) && (f.open > 0 || f.accepted.is_some() || f.unknown && lost(i)))
    }

    /// What a mod sends comes after what it answers, goes where it says, and is from that mod.
    pub(crate) fn mod_event(&mut self, k: usize, input: &Input, event: &Event, now: u64) -> Result<(), Wrong> {
        if self.rules.status != "active" {
            return wrong("rules", format!("{} came while the network is {}", event.json(), self.rules.status));
        }
        let place = match self.place(&input.target) {
            Ok(place) => place,
            Err(code) => {
                return wrong("rules", format!("{} was accepted though it is {}", event.json(), code.as_str()));
            }
        };
        if self.visibility(input, place) != Some(event.visibility) {
            return wrong("rules", format!("the visibility of {} is not the sheet's", event.json()));
        }
        let cause = self.cause_of(k);
        if let Some(cause) =
            cause.filter(|c| self.fates.get(*c).is_some_and(|f| f.taped.is_none() && f.accepted.is_some()))
        {
            return wrong("order", format!("{} comes before what it follows from (k={cause})", event.json()));
        }
        let born = input.sent_at.max(self.looked).min(now);
        self.post(Entry { event: event.clone(), source: None, place }, None, born, now, None);
        Ok(())
    }

    /// The operator is listed the mods there are, in their order.
    pub fn mods_listed(&self, listed: &[(String, Option<String>)]) -> Result<(), Wrong> {
        let mut loaded: Vec<&Loaded> = self.mods.iter().filter(|m| m.is_loaded()).collect();
        loaded.sort_by_key(|m| (m.what.mode, m.what.priority, m.what.name.clone()));
        let server = |m: &Loaded| m.server.and_then(|who| self.address(who)).map(str::to_owned);
        let expected: Vec<(String, Option<String>)> =
            loaded.into_iter().map(|m| (m.what.name.clone(), server(m))).collect();
        if listed == expected {
            return Ok(());
        }
        wrong("mods", format!("listed are {listed:?}, loaded are {expected:?}"))
    }
}
