//! The node's clock: wall time for stamps, monotonic time for deadlines.

use rialto_engine::Clock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Steady time starts here, so that "a while ago" is representable right after the start.
const STEADY_START_MS: u64 = 1 << 40;

/// A source of [`Clock`] values.
#[derive(Debug, Clone, Copy)]
pub struct NodeClock {
    started: Instant,
}

impl Default for NodeClock {
    fn default() -> Self {
        NodeClock { started: Instant::now() }
    }
}

impl NodeClock {
    /// Now, on both clocks.
    pub fn now(&self) -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let steady = self.started.elapsed();
        Clock {
            wall: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX),
            steady: STEADY_START_MS + u64::try_from(steady.as_millis()).unwrap_or(0),
        }
    }
}
