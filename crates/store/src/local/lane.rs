//! The queue and the thread of one log: drains what waits, commits it as one group, calls every completion in order. No timers.
//! Not here: how a group is written (`log`).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::options::Limits;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::log::view::LogView;
use crate::log::{Log, Waiting};
use crate::store::{Done, Rejected};

/// A log, its queue and its thread.
#[derive(Debug)]
pub(crate) struct Lane<D: Disk> {
    pub(crate) view: Arc<LogView<D>>,
    queue: Arc<Queue>,
    limits: Limits,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Waiting, Done)>,
    bytes: usize,
    reopen: Vec<Sender<Result<(), StoreError>>>,
    closing: Option<Sender<Result<(), StoreError>>>,
    closed: bool,
    broken: Option<String>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("waiting", &self.waiting.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk> Lane<D> {
    /// Starts the thread of a log. `upkeep` is called when files need care.
    pub(crate) fn start(log: Log<D>, limits: Limits, upkeep: impl Fn() + Send + 'static) -> Result<Self, StoreError> {
        let (view, queue) = (log.view(), Arc::new(Queue::default()));
        let (work, name) = (Arc::clone(&queue), format!("log-{}", view.class));
        let dir = view.dir.clone();
        let thread = thread::Builder::new().name(name).spawn(move || run(log, &work, limits, &upkeep));
        let thread = thread.map_err(|error| StoreError::io("start the thread of", &dir, error))?;
        Ok(Self { view, queue, limits, thread: Mutex::new(Some(thread)) })
    }

    /// Queues a batch, or gives it back.
    pub(crate) fn append(&self, waiting: Waiting, done: Done) -> Result<(), Box<Rejected>> {
        let size = waiting.batch.bytes();
        let mut state = self.queue.lock();
        let full = state.waiting.len() >= self.limits.batches
            || (state.bytes + size > self.limits.bytes && !state.waiting.is_empty());
        if state.closed || full {
            let error = if state.closed { StoreError::Closed } else { StoreError::Busy };
            return Err(Box::new(Rejected { error, batch: waiting.batch, done }));
        }
        state.bytes += size;
        state.waiting.push_back((waiting, done));
        let first = state.waiting.len() == 1;
        drop(state);
        // The thread drains all there is: only the first batch finds it asleep.
        if first {
            self.queue.wake.notify_one();
        }
        Ok(())
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    pub(crate) fn broken(&self) -> Option<String> {
        self.queue.lock().broken.clone()
    }

    /// Has the thread start its log again.
    pub(crate) fn reopen(&self) -> Result<(), StoreError> {
        let (answer, answered) = channel();
        {
            let mut state = self.queue.lock();
            if state.closed {
                return Err(StoreError::Closed);
            }
            state.reopen.push(answer);
        }
        self.queue.wake.notify_one();
        answered.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Commits what waits, stops the thread and closes the log.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        let (answer, answered) = channel();
        {
            let mut state = self.queue.lock();
            state.closed = true;
            state.closing = Some(answer);
        }
        self.queue.wake.notify_one();
        if thread.thread().id() == thread::current().id() {
            // Closed from a completion: the thread closes the log when that returns.
            return Ok(());
        }
        let result = answered.recv().unwrap_or(Err(StoreError::Closed));
        let _ = thread.join();
        result
    }
}

fn run<D: Disk>(mut log: Log<D>, queue: &Queue, limits: Limits, upkeep: &dyn Fn()) {
    let (mut group, mut dones) = (Vec::new(), Vec::new());
    loop {
        let mut state = queue.lock();
        while state.waiting.is_empty() && state.reopen.is_empty() && state.closing.is_none() {
            state = queue.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let reopen = std::mem::take(&mut state.reopen);
        drain(&mut state, limits.group_bytes, &mut group, &mut dones);
        let closing = if group.is_empty() { state.closing.take() } else { None };
        drop(state);
        if !reopen.is_empty() {
            let result = log.reopen();
            queue.lock().broken = log.broken().map(ToString::to_string);
            for answer in reopen {
                let _ = answer.send(result.clone());
            }
        }
        if let Some(answer) = closing {
            let _ = answer.send(log.close());
            return;
        }
        log.commit(&mut group);
        if log.broken().is_some() {
            queue.lock().broken = log.broken().map(ToString::to_string);
        }
        for (waiting, done) in group.drain(..).zip(dones.drain(..)) {
            let result = waiting.finish();
            if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
                tracing::error!("a completion panicked; the log goes on");
            }
        }
        if log.wants_upkeep() {
            upkeep();
        }
    }
}

/// Takes what waits, in order, up to a number of bytes but at least one batch.
fn drain(state: &mut State, group_bytes: usize, group: &mut Vec<Waiting>, dones: &mut Vec<Done>) {
    let mut bytes = 0;
    while let Some((next, _)) = state.waiting.front() {
        let size = next.batch.bytes();
        if !group.is_empty() && bytes + size > group_bytes {
            break;
        }
        let Some((waiting, done)) = state.waiting.pop_front() else { break };
        bytes += size;
        state.bytes -= size;
        group.push(waiting);
        dones.push(done);
    }
}
