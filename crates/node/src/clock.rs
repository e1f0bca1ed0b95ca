//! The node's clock: wall time for stamps, monotonic time for deadlines.

use rialto_engine::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Steady time starts here, so that "a while ago" is representable right after the start.
const STEADY_START_MS: u64 = 1 << 40;

/// A source of [`Clock`] values. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodeClock(Source);

#[derive(Debug, Clone)]
enum Source {
    Machine { started: Instant },
    Driven(Arc<DrivenClock>),
}

/// A clock that somebody moves by hand: its two times go their own ways.
#[derive(Debug)]
pub struct DrivenClock {
    wall: AtomicU64,
    steady: AtomicU64,
}

impl DrivenClock {
    /// Starts at a wall time.
    pub fn at(wall: u64) -> DrivenClock {
        DrivenClock { wall: AtomicU64::new(wall), steady: AtomicU64::new(STEADY_START_MS) }
    }

    /// Time passes, on both.
    pub fn pass(&self, ms: u64) {
        self.wall.fetch_add(ms, Ordering::Relaxed);
        self.steady.fetch_add(ms, Ordering::Relaxed);
    }

    /// Somebody sets the wall clock; nothing passes.
    pub fn leap(&self, ms: i64) {
        let to = self.wall.load(Ordering::Relaxed).saturating_add_signed(ms);
        self.wall.store(to, Ordering::Relaxed);
    }

    /// Now, on both clocks.
    pub fn now(&self) -> Clock {
        Clock { wall: self.wall.load(Ordering::Relaxed), steady: self.steady.load(Ordering::Relaxed) }
    }
}

/// The clock of one network: the node's, with its monotonic time going on from where the network's was.
#[derive(Debug, Clone)]
pub(crate) struct NetworkClock {
    clock: NodeClock,
    /// The network's monotonic time …
    from: u64,
    /// … when the node's was this.
    at: u64,
}

impl NetworkClock {
    /// The clock of a network whose monotonic time is `monotonic` now.
    pub(crate) fn resume(clock: &NodeClock, monotonic: u64) -> NetworkClock {
        NetworkClock { at: clock.now().steady, from: monotonic, clock: clock.clone() }
    }

    /// Now, on both clocks.
    pub(crate) fn now(&self) -> Clock {
        let Clock { wall, steady } = self.clock.now();
        Clock { wall, steady: self.from.saturating_add(steady.saturating_sub(self.at)) }
    }
}

impl Default for NodeClock {
    fn default() -> Self {
        NodeClock(Source::Machine { started: Instant::now() })
    }
}

impl From<Arc<DrivenClock>> for NodeClock {
    fn from(clock: Arc<DrivenClock>) -> Self {
        NodeClock(Source::Driven(clock))
    }
}

impl NodeClock {
    /// Now, on both clocks.
    pub fn now(&self) -> Clock {
        let started = match &self.0 {
            Source::Machine { started } => started,
            Source::Driven(clock) => return clock.now(),
        };
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let steady = started.elapsed();
        Clock {
            wall: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
            steady: STEADY_START_MS + u64::try_from(steady.as_millis()).unwrap_or(0),
        }
    }
}
