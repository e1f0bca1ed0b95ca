//! Counters of one network, read by `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

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
}

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
