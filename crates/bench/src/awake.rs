//! Keeps the cores from sleeping while something is measured.
//!
//! A core of a virtual machine that has nothing to do is given away, and comes back late and with cold caches. Servers that
//! wait often pay for it in CPU time, those that are always busy do not: the same build was a third slower on an idle
//! machine than on a busy one. Threads of the lowest priority have something to do, and give way to everything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The lowest priority there is.
const NICE: i32 = 19;

/// As long as this lives, no core sleeps.
#[derive(Debug)]
pub(crate) struct Awake(Arc<AtomicBool>);

impl Awake {
    /// One thread per core. Where a thread cannot be had, or not at this priority, its core may sleep.
    pub(crate) fn keep() -> Awake {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            let over = Arc::clone(&over);
            let thread = std::thread::Builder::new().name("bench-awake".to_owned());
            let _ = thread.spawn(move || {
                if rustix::process::nice(NICE).is_err() {
                    return;
                }
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Awake(over)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_end_with_what_keeps_them() {
        let awake = Awake::keep();
        let over = Arc::clone(&awake.0);
        drop(awake);
        // Each holds a count of its own until it ends.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while Arc::strong_count(&over) > 1 {
            assert!(std::time::Instant::now() < deadline, "a thread goes on");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
