//! What a node takes from the machine it runs on: time, chance, and threads for work that blocks.
//!
//! Invariant: there is no other source of time or chance in this crate, so a node on a simulated host is a function of
//! its inputs and the host's seed.
//! Not here: the disk, which is the store's.

use crate::clock::{DrivenClock, NodeClock};
use rialto_identity::{NoEntropy, Secret};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Work that nobody waits for.
type Errand = Box<dyn FnOnce() + Send>;

/// The machine, or a simulation of it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Host {
    clock: NodeClock,
    simulated: Option<Arc<Simulated>>,
}

#[derive(Default)]
struct Simulated {
    chance: AtomicU64,
    errands: Mutex<VecDeque<Errand>>,
}

impl std::fmt::Debug for Simulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulated").finish_non_exhaustive()
    }
}

/// Blocking work that did not come to its end: the runtime is going away, or it panicked.
#[derive(Debug, thiserror::Error)]
#[error("the work did not finish: {0}")]
pub struct Unfinished(#[from] tokio::task::JoinError);

/// Blocking work that was begun.
#[derive(Debug)]
pub(crate) enum BlockingWork<T> {
    /// On a host without threads: what it gave.
    Done(T),
    /// By a thread, which goes on if nobody waits.
    Running(tokio::task::JoinHandle<T>),
}

impl<T> BlockingWork<T> {
    /// Waits for its end.
    pub(crate) async fn end(self) -> Result<T, Unfinished> {
        match self {
            BlockingWork::Done(given) => Ok(given),
            BlockingWork::Running(thread) => Ok(thread.await?),
        }
    }
}

impl Host {
    /// A host without threads: time is moved by hand, chance comes from a seed, blocking work is done where it is asked
    /// for, and errands wait for [`Host::run_errand`].
    pub fn simulated(clock: Arc<DrivenClock>, seed: u64) -> Host {
        let simulated = Simulated { chance: AtomicU64::new(seed), errands: Mutex::default() };
        Host { clock: clock.into(), simulated: Some(Arc::new(simulated)) }
    }

    /// Whether it has no threads.
    pub(crate) fn is_simulated(&self) -> bool {
        self.simulated.is_some()
    }

    /// Its clock.
    pub fn clock(&self) -> &NodeClock {
        &self.clock
    }

    /// Runs what blocks away from the runtime's threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unfinished> {
        self.begin(work).end().await
    }

    /// The same, begun at once; its end is waited for later, or by nobody.
    pub(crate) fn begin<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> BlockingWork<T> {
        match self.simulated {
            Some(_) => BlockingWork::Done(work()),
            None => BlockingWork::Running(tokio::task::spawn_blocking(work)),
        }
    }

    /// Has something blocking done that nobody waits for.
    pub(crate) fn errand(&self, work: impl FnOnce() + Send + 'static) {
        match &self.simulated {
            Some(host) => host.errands.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::new(work)),
            None => match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(work)),
                // Something was dropped after its runtime: nobody is kept waiting here.
                Err(_) => work(),
            },
        }
    }

    fn next_errand(&self) -> Option<Errand> {
        let host = self.simulated.as_ref()?;
        host.errands.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Does the oldest errand of a simulated host; gives whether there was one.
    pub fn run_errand(&self) -> bool {
        self.next_errand().map(|work| work()).is_some()
    }

    /// Drops the oldest errand of a simulated host, as the end of a process does; gives whether there was one.
    pub fn forget_errand(&self) -> bool {
        self.next_errand().is_some()
    }

    /// A fresh secret.
    pub(crate) fn secret(&self) -> Result<Secret, NoEntropy> {
        match &self.simulated {
            None => Secret::generate(),
            Some(host) => {
                let n = host.chance.fetch_add(1, Ordering::Relaxed);
                let text: String = (0..4u64).map(|part| format!("{:016x}", mix(n ^ part << 60))).collect();
                Ok(Secret::presented(text))
            }
        }
    }

    /// A seed for the engine's hashers; maps keep insertion order, so it changes nothing that can be seen.
    pub(crate) fn seed(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        match &self.simulated {
            None => std::collections::hash_map::RandomState::new().build_hasher().finish(),
            Some(host) => mix(host.chance.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// The finaliser of splitmix64.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
