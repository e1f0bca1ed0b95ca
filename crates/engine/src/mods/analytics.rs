//! mod/analytics: counts events by type, source and kind of target, and refusals by mod. Never the text of an event.
//!
//! Volatile: a restart begins anew. What is kept is bounded whatever is sent: per slot of the window and in all at most
//! `SPARE` times `top_n` names, the rest is counted under `other`.

use super::{ModConfig, Mode};
use crate::input::{Accepted, Clock};
use crate::presence::VolatileState;
use crate::state::State;
use rialto_model::limits::ANALYTICS_TOP_MAX;
use rialto_model::view::{AnalyticsView, CountsView, RefusalCount, SourceCount, TargetCount, TypeCount};
use rialto_model::{Event, Fault, Millis};
use std::collections::{BTreeMap, VecDeque};

/// The window moves on by this part of itself.
const SLOTS: u64 = 6;
/// Names kept for each one shown: who is sixth now may be first later.
const SPARE: usize = 4;
/// Its name.
pub(crate) const NAME: &str = "analytics";
/// Who refused what no mod refused.
const CORE: &str = "core";
const OTHER: &str = "other";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    events: u64,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, more: Tally) {
        self.events += more.events;
        self.bytes += more.bytes;
    }
}

/// Tallies by name, and one for all names that found no room.
#[derive(Debug, Clone, Default)]
struct Named {
    names: BTreeMap<Box<str>, Tally>,
    other: Tally,
}

impl Named {
    fn add(&mut self, name: &str, more: Tally, room: usize) {
        if let Some(tally) = self.names.get_mut(name) {
            tally.add(more);
        } else if self.names.len() < room {
            self.names.insert(name.into(), more);
        } else {
            self.other.add(more);
        }
    }

    /// The busiest names first.
    fn ranked(&self) -> Vec<(&str, Tally)> {
        let mut all: Vec<(&str, Tally)> = self.names.iter().map(|(name, tally)| (name.as_ref(), *tally)).collect();
        all.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.events));
        all
    }

    fn merge(&mut self, from: &Named, room: usize) {
        for (name, tally) in &from.names {
            self.add(name, *tally, usize::MAX);
        }
        self.other.add(from.other);
        if self.names.len() > room {
            let least: Vec<Box<str>> = self.ranked().into_iter().skip(room).map(|(name, _)| name.into()).collect();
            for name in least {
                let tally = self.names.remove(&name).unwrap_or_default();
                self.other.add(tally);
            }
        }
    }

    /// The busiest names, and all others together as one.
    fn shown(&self, top: usize) -> Vec<(Box<str>, Tally)> {
        let mut rest = self.other;
        let mut list = Vec::new();
        for (at, (name, tally)) in self.ranked().into_iter().enumerate() {
            if at < top {
                list.push((name.into(), tally));
            } else {
                rest.add(tally);
            }
        }
        if rest != Tally::default() {
            list.push((OTHER.into(), rest));
        }
        list
    }
}

/// Everything counted in one stretch of time.
#[derive(Debug, Clone, Default)]
struct WindowCounts {
    all: Tally,
    types: Named,
    sources: Named,
    targets: BTreeMap<&'static str, Tally>,
    refusals: BTreeMap<Box<str>, u64>,
}

impl WindowCounts {
    fn merge(&mut self, from: &WindowCounts, room: usize) {
        self.all.add(from.all);
        self.types.merge(&from.types, room);
        self.sources.merge(&from.sources, room);
        for (kind, tally) in &from.targets {
            self.targets.entry(kind).or_default().add(*tally);
        }
        for (name, count) in &from.refusals {
            *self.refusals.entry(name.clone()).or_default() += count;
        }
    }

    fn shown(&self, options: &Options) -> CountsView {
        let by_type = |(kind, Tally { events, bytes })| TypeCount { kind, events, bytes };
        let by_source = |(source, Tally { events, bytes })| SourceCount { source, events, bytes };
        let targets = self.targets.iter().map(|(kind, Tally { events, bytes })| TargetCount {
            target: (*kind).to_owned(),
            events: *events,
            bytes: *bytes,
        });
        let refusals = self.refusals.iter().map(|(by, events)| RefusalCount { by: by.clone(), events: *events });
        let sources = || self.sources.shown(options.top).into_iter().map(by_source).collect();
        CountsView {
            events: self.all.events,
            bytes: self.all.bytes,
            rejections: self.refusals.values().sum(),
            by_type: self.types.shown(options.top).into_iter().map(by_type).collect(),
            by_source: options.per_agent.then(sources),
            by_target: targets.collect(),
            by_mod: refusals.collect(),
        }
    }
}

struct Options {
    window: Millis,
    top: usize,
    per_agent: bool,
}

impl Options {
    fn of(config: &ModConfig) -> Options {
        let whole = |key: &str, default: u64, max: u64| -> u64 {
            config.number(key).map_or(default, |n| n as u64).clamp(1, max)
        };
        Options {
            window: whole("window_s", 60, 86_400) * 1000,
            top: usize::try_from(whole("top_n", 20, ANALYTICS_TOP_MAX as u64)).unwrap_or(ANALYTICS_TOP_MAX),
            per_agent: config.flag("per_agent", true),
        }
    }

    fn room(&self) -> usize {
        self.top * SPARE
    }
}

/// The counters of one network.
#[derive(Debug)]
pub struct Analytics {
    since: Clock,
    window: Millis,
    /// What has left the window.
    past: WindowCounts,
    /// The window, oldest first: the number of a slot and what was counted in it.
    slots: VecDeque<(u64, WindowCounts)>,
}

impl Analytics {
    fn new(options: &Options, now: Clock) -> Analytics {
        Analytics { since: now, window: options.window, past: WindowCounts::default(), slots: VecDeque::new() }
    }

    /// The slot of this moment; those that the window has left behind are folded together.
    fn slot(&mut self, options: &Options, now: Clock) -> &mut WindowCounts {
        let number = slot_number(options.window, now);
        // Slots of another length cannot be told by number any more.
        let all = self.window != options.window;
        self.window = options.window;
        while self.slots.front().is_some_and(|(n, _)| all || n + SLOTS <= number) {
            if let Some((_, counts)) = self.slots.pop_front() {
                self.past.merge(&counts, options.room());
            }
        }
        if self.slots.back().is_none_or(|(n, _)| *n < number) {
            self.slots.push_back((number, WindowCounts::default()));
        }
        match self.slots.back_mut() {
            Some((_, counts)) => counts,
            None => &mut self.past,
        }
    }

    fn report(&mut self, options: &Options, now: Clock) -> AnalyticsView {
        self.slot(options, now);
        let mut window = WindowCounts::default();
        for (_, counts) in &self.slots {
            window.merge(counts, options.room());
        }
        let mut total = self.past.clone();
        total.merge(&window, options.room());
        let first = (slot_number(options.window, now) + 1).saturating_sub(SLOTS) * options.window / SLOTS;
        let covers = now.steady.saturating_sub(first.max(self.since.steady));
        AnalyticsView {
            since: self.since.wall,
            window_s: options.window / 1000,
            window_ms: covers,
            window: window.shown(options),
            total: total.shown(options),
        }
    }
}

fn slot_number(window: Millis, now: Clock) -> u64 {
    now.steady * SLOTS / window
}

/// The kind of a target, from the way its canonical address is written.
fn target_kind(target: &str) -> &'static str {
    if target.contains("::") {
        return "network";
    }
    match target.split_once([':', '/']) {
        None => CORE,
        Some(("agent", "broadcast")) => "broadcast",
        Some(("human", _)) => "human",
        Some(("channel", _)) => "channel",
        Some(("group", _)) => "group",
        Some(("mod", _)) => "mod",
        Some(("resource", _)) => "resource",
        // Whoever registers them, the others are agents.
        Some(_) => "agent",
    }
}

/// The mod as it is loaded, if it looks at this type.
fn loaded<'s>(state: &'s State, kind: &str) -> Option<&'s ModConfig> {
    let observers = state.book.mods.iter().rev().take_while(|m| m.mode == Mode::Observe);
    observers.into_iter().find(|m| m.name.as_ref() == NAME).filter(|m| m.intercepts(kind))
}

/// Counts what became of one event.
pub(crate) fn observe(
    state: &State,
    live: &mut VolatileState,
    kind: &str,
    result: Result<&Accepted, &Fault>,
    now: Clock,
) {
    let Some(config) = loaded(state, kind) else { return };
    let options = Options::of(config);
    let analytics = live.analytics.get_or_insert_with(|| Box::new(Analytics::new(&options, now)));
    match result {
        Ok(accepted) => {
            // What is answered without being an event (a ping, a query, an ack) or was there already is no event.
            if let Some(record) = accepted.event.as_ref().filter(|_| !accepted.duplicate) {
                count(analytics.slot(&options, now), &record.event, &options);
            }
        }
        Err(fault) => {
            let by = fault.by_mod.as_deref().unwrap_or(CORE);
            let refusals = &mut analytics.slot(&options, now).refusals;
            match refusals.get_mut(by) {
                Some(count) => *count += 1,
                None => drop(refusals.insert(by.into(), 1)),
            }
        }
    }
}

fn count(counts: &mut WindowCounts, event: &Event, options: &Options) {
    let one = Tally { events: 1, bytes: event.json_len() as u64 };
    counts.all.add(one);
    counts.types.add(event.kind(), one, options.room());
    if options.per_agent {
        counts.sources.add(event.source(), one, options.room());
    }
    counts.targets.entry(target_kind(event.target())).or_default().add(one);
}

/// What was counted, in the window and in all; none while the mod is not loaded.
pub(crate) fn report(state: &State, live: &mut VolatileState, now: Clock) -> Option<AnalyticsView> {
    let config = state.book.mods.iter().find(|m| m.enabled && m.name.as_ref() == NAME)?;
    let options = Options::of(config);
    let analytics = live.analytics.get_or_insert_with(|| Box::new(Analytics::new(&options, now)));
    Some(analytics.report(&options, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(steady: Millis) -> Clock {
        Clock { wall: 1_000_000 + steady, steady }
    }

    fn options(top: usize) -> Options {
        Options { window: 60_000, top, per_agent: true }
    }

    fn said(analytics: &mut Analytics, options: &Options, kind: &str, times: u64, now: Clock) {
        let slot = analytics.slot(options, now);
        let one = Tally { events: 1, bytes: 10 };
        for _ in 0..times {
            slot.all.add(one);
            slot.types.add(kind, one, options.room());
        }
    }

    #[test]
    fn kinds_of_targets() {
        for (target, kind) in [
            ("core", "core"),
            ("agent:broadcast", "broadcast"),
            ("agent:a", "agent"),
            ("openagents:a", "agent"),
            ("web:example.org", "agent"),
            ("human:a@b.c", "human"),
            ("channel/general", "channel"),
            ("channel/routines:bot", "channel"),
            ("group/g", "group"),
            ("mod/auth", "mod"),
            ("resource/file/a:b", "resource"),
            ("net1::agent:x", "network"),
        ] {
            assert_eq!(target_kind(target), kind, "{target}");
        }
    }

    #[test]
    fn the_window_moves_and_the_total_stays() {
        let options = options(5);
        let mut analytics = Analytics::new(&options, at(5_000));
        said(&mut analytics, &options, "a.a", 3, at(5_000));
        said(&mut analytics, &options, "b.b", 1, at(30_000));
        let report = json!(analytics.report(&options, at(30_000)));
        assert_eq!((&report["window"]["events"], &report["total"]["events"]), (&json!(4), &json!(4)));
        assert_eq!((&report["since"], &report["window_ms"]), (&json!(1_005_000), &json!(25_000)));
        let report = json!(analytics.report(&options, at(61_000)));
        assert_eq!((&report["window"]["events"], &report["total"]["events"]), (&json!(1), &json!(4)));
        assert_eq!(report["window_ms"], 51_000);
        assert_eq!(report["total"]["by_type"][0], json!({ "type": "a.a", "events": 3, "bytes": 30 }));
        let report = json!(analytics.report(&options, at(10_000_000)));
        assert_eq!((&report["window"]["events"], &report["total"]["events"]), (&json!(0), &json!(4)));
        assert!(analytics.slots.len() as u64 <= SLOTS);
    }

    #[test]
    fn another_window_loses_nothing() {
        let (minute, hour) = (options(5), Options { window: 3_600_000, ..options(5) });
        let mut analytics = Analytics::new(&minute, at(0));
        said(&mut analytics, &minute, "a.a", 3, at(5_000));
        said(&mut analytics, &hour, "a.a", 2, at(6_000));
        let report = json!(analytics.report(&hour, at(6_000)));
        assert_eq!((&report["window"]["events"], &report["total"]["events"]), (&json!(2), &json!(5)));
        said(&mut analytics, &minute, "a.a", 1, at(7_000));
        assert_eq!(analytics.report(&minute, at(7_000)).total.events, 6);
    }

    #[test]
    fn names_are_bounded_and_the_rest_is_other() {
        let options = options(2);
        let mut analytics = Analytics::new(&options, at(0));
        for slot in 0..40 {
            for n in 0..20 {
                said(&mut analytics, &options, &format!("x.n{slot}_{n}"), 1, at(slot * 10_000));
            }
            said(&mut analytics, &options, "x.often", 1 + slot, at(slot * 10_000));
        }
        assert!(analytics.past.types.names.len() <= options.room());
        assert!(analytics.slots.iter().all(|(_, counts)| counts.types.names.len() <= options.room()));
        let report = json!(analytics.report(&options, at(390_000)));
        for part in ["window", "total"] {
            let types = report[part]["by_type"].as_array().unwrap();
            assert_eq!(types.len(), 3, "{part}");
            assert_eq!(types[2]["type"], "other");
            let sum: u64 = types.iter().map(|t| t["events"].as_u64().unwrap()).sum();
            assert_eq!(json!(sum), report[part]["events"], "nothing is lost");
        }
    }

    #[test]
    fn options_out_of_bounds_are_bounded() {
        let mut config = ModConfig::standard(NAME).unwrap();
        config.config = json!({ "window_s": 0, "top_n": 1e12 }).as_object().cloned().unwrap();
        let options = Options::of(&config);
        assert_eq!((options.window, options.top), (1000, ANALYTICS_TOP_MAX));
    }
}
