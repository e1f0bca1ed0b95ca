//! The one thread that looks after files in the background: sidecars, spare segments, control files. Every few seconds it
//! writes down what was flushed since, if anything was.
//! Not here: what there is to do (`log::upkeep`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::class::Class;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::log::view::LogView;

/// How often control files learn what is flushed.
const NOTE_EVERY: Duration = Duration::from_secs(5);

/// The keeper's thread and its bell.
#[derive(Debug)]
pub(crate) struct Keeper<D: Disk> {
    bell: Arc<KeeperBell<D>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Wakes the keeper; clones go to the logs' threads.
#[derive(Debug)]
pub(crate) struct KeeperBell<D: Disk> {
    state: Mutex<KeeperState<D>>,
    wake: Condvar,
}

#[derive(Debug)]
struct KeeperState<D: Disk> {
    logs: BTreeMap<Class, Arc<LogView<D>>>,
    due: bool,
    stop: bool,
    last_error: Option<String>,
}

impl<D: Disk> KeeperBell<D> {
    fn lock(&self) -> MutexGuard<'_, KeeperState<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is to be done.
    pub(crate) fn ring(&self) {
        self.lock().due = true;
        self.wake.notify_one();
    }
}

impl<D: Disk> Keeper<D> {
    /// Starts the thread, unless the store is driven by hand.
    pub(crate) fn start(dir: &Path, manual: bool) -> Result<Self, StoreError> {
        let state = KeeperState { logs: BTreeMap::new(), due: false, stop: false, last_error: None };
        let bell = Arc::new(KeeperBell { state: Mutex::new(state), wake: Condvar::new() });
        if manual {
            return Ok(Self { bell, thread: Mutex::new(None) });
        }
        let heard = Arc::clone(&bell);
        let thread = thread::Builder::new().name("log-keeper".to_owned()).spawn(move || run(&heard));
        let thread = thread.map_err(|error| StoreError::io("start the keeper of", dir, error))?;
        Ok(Self { bell, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn bell(&self) -> Arc<KeeperBell<D>> {
        Arc::clone(&self.bell)
    }

    /// Looks after one more log, at once.
    pub(crate) fn add(&self, class: Class, view: Arc<LogView<D>>) {
        self.bell.lock().logs.insert(class, view);
        self.bell.ring();
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.bell.lock().last_error.clone()
    }

    /// Stops the thread after what it is doing.
    pub(crate) fn stop(&self) {
        self.bell.lock().stop = true;
        self.bell.wake.notify_one();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

fn run<D: Disk>(bell: &KeeperBell<D>) {
    loop {
        let state = bell.lock();
        let waits = |state: &mut KeeperState<D>| !state.due && !state.stop;
        let (mut state, _) =
            bell.wake.wait_timeout_while(state, NOTE_EVERY, waits).unwrap_or_else(PoisonError::into_inner);
        if state.stop {
            return;
        }
        let due = std::mem::take(&mut state.due);
        let logs: Vec<_> = state.logs.values().cloned().collect();
        drop(state);
        for view in logs {
            if let Err(error) = if due { view.tidy() } else { view.note_durable() } {
                tracing::warn!(class = %view.class, %error, "upkeep of the log failed");
                bell.lock().last_error = Some(error.to_string());
            }
        }
    }
}
