//! The network's monotonic time, which every deadline, age and time-out is counted in.
//!
//! Stamps follow the wall clock: they stand still while it is behind and jump with it. Monotonic time does neither. It
//! runs while the node runs, and after a restart it goes on from the last time that was recorded, so whatever waited
//! has the time left that it had. Records that set a deadline hold it as a time of this clock.
//!
//! Invariant: the monotonic time of an event follows from the log alone: from its stamp and the last [`Change::Clock`]
//! before it. A new pair is recorded before an event whenever the two clocks have drifted apart, and now and then while
//! something waits and nothing else is recorded.
//! Not here: what happens when a deadline has passed (`tick`, `work::expire`).

use crate::input::{Clock, Effects};
use crate::mods::persistence;
use crate::record::Change;
use crate::state::State;
use rialto_model::{Millis, Seq};
use serde::{Deserialize, Serialize};

/// While a deadline is near, time is recorded at least this often: a crash can give it this much more time.
const RECORDED_EVERY_MS: Millis = 60_000;
/// The same while only mail and history wait, whose times are long.
const RECORDED_SELDOM_MS: Millis = 600_000;
/// Lives of mail from here on are long.
const LONG_MS: Millis = 3_600_000;
/// An event may seem this much younger than it is. It never seems older: nothing dies before its time.
const AHEAD_MAX_MS: Millis = 250;
/// After a pair that is recorded because the clocks drift, events seem this much younger than they are, so that a stamp
/// that stands still is followed by at most twenty pairs a second.
const DRIFT_MS: Millis = 50;
/// Beyond this the clocks did not drift: somebody set the wall clock, or the node was started.
const JUMP_MS: Millis = 1_000;
/// A time index is to the second for this long at least, then to the minute.
const SECONDS_FOR_MS: Millis = 3_600_000;
/// A time index is to the minute for this long at least, then to the hour.
const MINUTES_FOR_MS: Millis = 31 * 24 * 3_600_000;
/// Entries of a time index between thinnings.
const THIN_EVERY: usize = 4096;

/// When events were committed, by the network's monotonic clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Monotonic {
    /// When the newest event was committed, or a little later.
    pub newest: Millis,
    /// When the others were.
    pub index: TimeIndex,
}

/// How late it is by the network's monotonic clock, as far as the log tells. Saved in snapshots; no part of the state's
/// hash, which does not change because time passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// At least this much time has passed: the clock goes on from here after a start.
    pub latest: Millis,
    /// The time of the last recorded pair …
    pub at: Millis,
    /// … and the stamp an event would have had then.
    pub stamp: Millis,
}

impl Reading {
    /// The time of an event committed now with this stamp.
    fn of_stamp(&self, stamp: Millis) -> Millis {
        self.at.saturating_add(stamp.saturating_sub(self.stamp))
    }
}

/// The first seq of each second that has events; of each minute or hour where it was thinned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimeIndex {
    /// Times with the first seq of each, ascending.
    pub entries: Vec<(Millis, Seq)>,
    /// The index is to the second from here on.
    pub seconds_from: Millis,
    /// The index is to the minute from here on, and to the hour before.
    pub minutes_from: Millis,
}

impl TimeIndex {
    /// Notes that the event `seq` was committed at `time`; `last` is the time of the event before.
    pub(crate) fn note(&mut self, time: Millis, last: Millis, seq: Seq) {
        if time / 1000 == last / 1000 && !self.entries.is_empty() {
            return;
        }
        self.entries.push((time, seq));
        if self.entries.len().is_multiple_of(THIN_EVERY) {
            self.seconds_from = self.seconds_from.max(time.saturating_sub(SECONDS_FOR_MS));
            self.minutes_from = self.minutes_from.max(time.saturating_sub(MINUTES_FOR_MS));
            let mut entries = std::mem::take(&mut self.entries);
            let mut last = None;
            entries.retain(|(at, _)| {
                let unit = self.unit(*at);
                last.replace((unit, at / unit)) != Some((unit, at / unit))
            });
            self.entries = entries;
        }
    }

    /// How fine the index is at `at`.
    fn unit(&self, at: Millis) -> Millis {
        if at >= self.seconds_from {
            1000
        } else if at >= self.minutes_from {
            60_000
        } else {
            3_600_000
        }
    }

    /// The last event committed at or before `time`: exact for the first event of a second, never too late a one. `last`
    /// and `head` are the time and position of the newest event.
    fn seq_at(&self, time: Millis, last: Millis, head: Seq) -> Seq {
        if last <= time {
            return head;
        }
        // The last entry at or before `time`: its first event counts, the others only if their second (minute, hour)
        // is over.
        let Some(at) = self.entries.partition_point(|(at, _)| *at <= time).checked_sub(1) else { return 0 };
        let Some((first_at, first)) = self.entries.get(at).copied() else { return 0 };
        let unit = self.unit(first_at);
        let over = (first_at / unit + 1).saturating_mul(unit) <= time.saturating_add(1);
        match self.entries.get(at + 1) {
            Some((_, next)) if over => next - 1,
            None if over => head,
            _ => first,
        }
    }

    /// Forgets entries that are needed for no event from `first` on.
    pub(crate) fn forget_before(&mut self, first: Seq) {
        forget_before(&mut self.entries, first);
    }
}

/// Forgets entries of a time index that are needed for no event from `first` on.
pub(crate) fn forget_before(entries: &mut Vec<(Millis, Seq)>, first: Seq) {
    let kept = entries.partition_point(|(_, seq)| *seq <= first);
    entries.drain(..kept.saturating_sub(1));
}

impl State {
    /// The network's monotonic time as far as it is recorded: where the clock goes on after a start.
    pub fn monotonic(&self) -> Millis {
        match self.book.monotonic {
            Some(_) => self.reading.latest,
            // Nothing was recorded yet, or only by an older release, whose deadlines were stamps.
            None => self.book.last_stamp.max(self.book.created_at),
        }
    }

    /// What deadlines are compared with: monotonic time, but for the mistakes that the simulator has to find.
    pub(crate) fn deadline_clock(&self, now: Clock) -> Millis {
        if crate::bugs::on("clock set ahead ends what waits") {
            now.steady.max(now.wall)
        } else if crate::bugs::on("clock set back delays deadlines") {
            now.steady.min(now.wall)
        } else {
            now.steady
        }
    }

    /// The last event that is at least this old.
    pub(crate) fn aged_through(&self, now: Clock, age: Millis) -> Seq {
        let Some(clock) = &self.book.monotonic else { return 0 };
        let Some(time) = self.deadline_clock(now).checked_sub(age) else { return 0 };
        clock.index.seq_at(time, clock.newest, self.book.head)
    }

    /// The wall time at which a deadline passes, for people: right unless somebody sets the clock before then.
    pub(crate) fn shown(&self, deadline: Millis, now: Clock) -> Millis {
        now.wall.saturating_add(deadline.saturating_sub(now.steady)).saturating_sub(now.steady.saturating_sub(deadline))
    }

    /// The earliest deadline of work or of short-lived mail after the given time.
    pub(crate) fn next_deadline(&self, after: Millis) -> Option<Millis> {
        let after = after.saturating_add(1);
        let due = self.work.dues.range((after, 0)..).next().map(|(at, _)| *at);
        let death = self.deaths.range((after, 0)..).next().map(|(at, _)| *at);
        due.into_iter().chain(death).min()
    }

    /// Whether something ends soon by time alone.
    fn has_near_deadline(&self) -> bool {
        let mail = self.book.settings.ttl_ms < LONG_MS;
        !self.deaths.is_empty()
            || !self.work.dues.is_empty()
            || self.roster().any(|(id, m)| m.is_quiet() || mail && self.first_pending(id).is_some())
    }

    /// Whether something ends by time alone, soon or not.
    fn has_deadline(&self) -> bool {
        !self.work.closed.is_empty()
            || persistence::retention(self).age.is_some() && !self.lists.kept().is_empty()
            || self.roster().any(|(id, _)| self.first_pending(id).is_some())
    }
}

/// The pair to be recorded before an event that is committed now, if the clocks have drifted apart.
pub(crate) fn drifted(state: &State, now: Clock) -> Option<Change> {
    let stamp = state.stamp(now.wall);
    if state.book.monotonic.is_none() {
        return Some(Change::Clock { monotonic: now.steady, stamp });
    }
    let expected = state.reading.of_stamp(stamp);
    if (now.steady..=now.steady.saturating_add(AHEAD_MAX_MS)).contains(&expected) {
        return None;
    }
    let drift = if expected.abs_diff(now.steady) < JUMP_MS { DRIFT_MS } else { 0 };
    Some(Change::Clock { monotonic: now.steady, stamp: stamp.saturating_sub(drift) })
}

/// Decides something, after recording the pair, if there is one. When nothing is decided the pair is not recorded.
pub(crate) fn record_before<T>(pair: Option<Change>, fx: &mut Effects, decide: impl FnOnce(&mut Effects) -> T) -> T {
    let Some(pair) = pair else { return decide(fx) };
    fx.change(pair);
    let with_pair = fx.records.len();
    let result = decide(fx);
    if fx.records.len() == with_pair {
        fx.records.pop();
    }
    result
}

/// Records the time if something waits for it and nothing else has recorded it for long.
pub(crate) fn record(state: &State, now: Clock, fx: &mut Effects) {
    let unrecorded = now.steady.saturating_sub(state.monotonic());
    if unrecorded >= RECORDED_EVERY_MS && state.has_near_deadline()
        || unrecorded >= RECORDED_SELDOM_MS && state.has_deadline()
    {
        fx.change(Change::Clock { monotonic: now.steady, stamp: state.stamp(now.wall) });
    }
}

/// Records the time before a stop, so that whatever waits has the time left that it had.
pub(crate) fn record_stop(state: &State, now: Clock, fx: &mut Effects) {
    if now.steady > state.monotonic() && (state.has_near_deadline() || state.has_deadline()) {
        fx.change(Change::Clock { monotonic: now.steady, stamp: state.stamp(now.wall) });
    }
}

/// Applies a recorded pair. The first one takes over from stamps, which were the deadlines of older releases.
pub(crate) fn apply(state: &mut State, at: Millis, stamp: Millis) {
    let book = &mut state.book;
    book.monotonic.get_or_insert_with(|| {
        let leaps = std::mem::take(&mut book.leaps);
        // Events up to the seq of a leap were younger than their stamps said.
        let leapt = |seq: Seq| leaps.iter().filter(|(through, _)| *through >= seq).map(|(_, by)| by).sum::<Millis>();
        let entries = book.times.iter().map(|(time, seq)| (time.saturating_add(leapt(*seq)), *seq)).collect();
        let index = TimeIndex { entries, seconds_from: book.seconds_from, minutes_from: book.minutes_from };
        Box::new(Monotonic { newest: book.last_stamp, index })
    });
    state.reading = Reading { latest: state.reading.latest.max(at), at, stamp };
}

/// Notes when an event was committed.
pub(crate) fn committed(state: &mut State, stamp: Millis, seq: Seq) {
    let book = &mut state.book;
    if let Some(clock) = &mut book.monotonic {
        let time = state.reading.of_stamp(stamp).max(clock.newest);
        clock.index.note(time, clock.newest, seq);
        clock.newest = time;
        state.reading.latest = state.reading.latest.max(time.saturating_sub(AHEAD_MAX_MS));
    }
    if stamp / 1000 != book.last_stamp / 1000 || book.times.is_empty() {
        let entries = std::mem::take(&mut book.times);
        let mut index = TimeIndex { entries, seconds_from: book.seconds_from, minutes_from: book.minutes_from };
        index.note(stamp, book.last_stamp, seq);
        (book.times, book.seconds_from, book.minutes_from) = (index.entries, index.seconds_from, index.minutes_from);
    }
    book.last_stamp = book.last_stamp.max(stamp);
}
