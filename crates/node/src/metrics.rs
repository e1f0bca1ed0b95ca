//! Counters of one network, read by `/metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What happened since the start.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: AtomicU64,)* }
        impl Counters {
            /// Names and values.
            pub fn read(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Events committed.
    accepted,
    /// Events refused.
    refused,
    /// Duplicates answered.
    duplicates,
    /// Deliveries pushed.
    delivered,
    /// Deliveries repeated.
    redelivered,
    /// Deliveries acked.
    acked,
    /// Deliveries that ended undelivered.
    dead,
    /// At-most-once mail that a ring had no room for.
    dropped,
    /// Signals sent.
    signals,
    /// Batches committed.
    commits,
    /// Microseconds between hand-over and commit, summed.
    commit_micros,
    /// Open streams now.
    streams,
    /// Members.
    members,
    /// Members that are there.
    online,
    /// The last event the search index has seen.
    indexed,
    /// Milliseconds that the wall clock is behind the last stamp now.
    clock_behind_ms,
}

/// What came of asking a mod that runs elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModOutcome {
    /// The event went on.
    Pass,
    /// It was refused.
    Reject,
    /// It was changed.
    Modified,
    /// The mod did not answer, or nothing that can be understood.
    Failed,
    /// An observer was not shown it.
    Missed,
    /// What the mod sent was not taken.
    Dropped,
}

impl ModOutcome {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            ModOutcome::Pass => "pass",
            ModOutcome::Reject => "reject",
            ModOutcome::Modified => "modified",
            ModOutcome::Failed => "failed",
            ModOutcome::Missed => "missed",
            ModOutcome::Dropped => "dropped",
        }
    }
}

/// What came of asking one mod.
#[derive(Debug, Clone, Default)]
pub struct ModCounts {
    /// How often each happened.
    pub outcomes: BTreeMap<ModOutcome, u64>,
    /// Milliseconds it took to answer, summed.
    pub millis: u64,
    /// It did not answer so often that it is not asked for now.
    pub suspended: bool,
}

/// What came of asking mods that run elsewhere. Names are bounded by how many can be loaded.
#[derive(Debug, Default)]
pub struct ModCounters(Mutex<BTreeMap<Box<str>, ModCounts>>);

impl ModCounters {
    pub(crate) fn count(&self, name: &str, what: ModOutcome, took_ms: u64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOD_NAMES_KEPT && !all.contains_key(name) {
            return;
        }
        let counts = all.entry(name.into()).or_default();
        *counts.outcomes.entry(what).or_default() += 1;
        counts.millis += took_ms;
    }

    /// Notes that a mod is suspended, or no longer.
    pub(crate) fn suspend(&self, name: &str, on: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if on && all.len() < MOD_NAMES_KEPT || all.contains_key(name) {
            all.entry(name.into()).or_default().suspended = on;
        }
    }

    /// By mod.
    pub fn read(&self) -> Vec<(Box<str>, ModCounts)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, counts)| (name.clone(), counts.clone())).collect()
    }
}

/// Mods come and go: so many names are counted until the next start.
const MOD_NAMES_KEPT: usize = 256;

impl Counters {
    /// Adds to a counter.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Sets a gauge.
    pub fn set(gauge: &AtomicU64, n: u64) {
        gauge.store(n, Ordering::Relaxed);
    }
}
