//! The queue of one log and whoever empties it, its own thread or (in a simulator) the caller: takes what waits, commits it as one
//! group, calls every completion in order. No timers but the one that gives memory back.
//! Not here: how a group is written (`log`).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::options::QueueLimits;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::log::view::LogView;
use crate::log::{Log, WaitingBatch};
use crate::record::{Batch, Lsn};
use crate::store::{Committed, Done, Flush, Rejected};

/// A log that had nothing to write for so long gives back the memory it gathers in.
const REST_AFTER: Duration = Duration::from_secs(4);

/// A log, its queue and its driver.
#[derive(Debug)]
pub(crate) struct Lane<D: Disk> {
    pub(crate) view: Arc<LogView<D>>,
    queue: Arc<LaneQueue>,
    limits: QueueLimits,
    driver: Mutex<Option<Driver<D>>>,
}

/// Who empties the queue.
#[derive(Debug)]
enum Driver<D: Disk> {
    Thread(JoinHandle<()>),
    Caller(Box<Runner<D>>),
}

#[derive(Debug, Default)]
struct LaneQueue {
    state: Mutex<LaneState>,
    wake: Condvar,
}

#[derive(Default)]
struct LaneState {
    waiting: VecDeque<(WaitingBatch, Done)>,
    bytes: usize,
    reopen: Vec<(u32, Sender<Result<(), StoreError>>)>,
    closing: Option<Sender<Result<(), StoreError>>>,
    closed: bool,
    broken: Option<String>,
}

impl std::fmt::Debug for LaneState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("waiting", &self.waiting.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl LaneQueue {
    fn lock(&self) -> MutexGuard<'_, LaneState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk> Lane<D> {
    /// Starts the thread of a log. `upkeep` is called when files need care.
    pub(crate) fn start(
        log: Log<D>,
        limits: QueueLimits,
        upkeep: impl Fn() + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (view, queue) = (log.view(), Arc::new(LaneQueue::default()));
        let (work, name) = (Arc::clone(&queue), format!("log-{}", view.class));
        let dir = view.dir.clone();
        let thread = thread::Builder::new().name(name).spawn(move || run(Runner::new(log), &work, limits, &upkeep));
        let thread = thread.map_err(|error| StoreError::io("start the thread of", &dir, error))?;
        Ok(Self { view, queue, limits, driver: Mutex::new(Some(Driver::Thread(thread))) })
    }

    /// A log without a thread: `pump` empties its queue.
    pub(crate) fn manual(log: Log<D>, limits: QueueLimits) -> Self {
        let (view, queue) = (log.view(), Arc::new(LaneQueue::default()));
        let driver = Driver::Caller(Box::new(Runner::new(log)));
        Self { view, queue, limits, driver: Mutex::new(Some(driver)) }
    }

    /// Commits one group of what waits, and does the upkeep that is due. Returns how many batches it was. Nothing if a thread does it.
    pub(crate) fn pump(&self) -> Result<usize, StoreError> {
        let mut driver = self.lock_driver();
        let Some(Driver::Caller(runner)) = &mut *driver else { return Ok(0) };
        let LaneTurn::Worked(batches) = runner.turn(&self.queue, self.limits) else { return Ok(0) };
        if runner.log.wants_upkeep() {
            self.view.tidy()?;
        }
        Ok(batches)
    }

    fn lock_driver(&self) -> MutexGuard<'_, Option<Driver<D>>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a batch, or gives it back.
    pub(crate) fn append(&self, waiting: WaitingBatch, done: Done) -> Result<(), Box<Rejected>> {
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

    /// Returns when every record up to `lsn` that can be read is flushed.
    pub(crate) fn flush_through(&self, lsn: Lsn) -> Result<(), StoreError> {
        let durable = self.view.read_inner().open.durable;
        if durable >= lsn {
            return Ok(());
        }
        let (tell, told) = channel();
        let waiting = WaitingBatch::new(Batch::new(0), u64::MAX, Flush::Sync);
        let done = Box::new(move |result: Result<Committed, StoreError>| {
            let _ = tell.send(result.map(|_| ()));
        });
        self.append(waiting, done).map_err(|rejected| rejected.error)?;
        while self.pump()? > 0 {}
        told.recv().unwrap_or(Err(StoreError::Closed))
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.lock().waiting.len()
    }

    pub(crate) fn broken(&self) -> Option<String> {
        self.queue.lock().broken.clone()
    }

    /// Has the thread start its log again and take batches of the network again. Those that wait were handed over
    /// before: they are refused.
    pub(crate) fn reopen(&self, network: u32) -> Result<(), StoreError> {
        let (answer, answered) = channel();
        let stale: Vec<(WaitingBatch, Done)> = {
            let mut state = self.queue.lock();
            if state.closed {
                return Err(StoreError::Closed);
            }
            state.reopen.push((network, answer));
            let (stale, kept): (VecDeque<_>, VecDeque<_>) =
                state.waiting.drain(..).partition(|(w, _)| w.batch.network() == network && !w.batch.is_empty());
            state.bytes -= stale.iter().map(|(w, _)| w.batch.bytes()).sum::<usize>();
            state.waiting = kept;
            stale.into()
        };
        self.queue.wake.notify_one();
        for (_, done) in stale {
            done(Err(StoreError::Unavailable { cause: "an earlier batch of this network failed".to_owned() }));
        }
        if let Some(Driver::Caller(runner)) = &mut *self.lock_driver() {
            runner.turn(&self.queue, self.limits);
        }
        answered.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Commits what waits, stops the driver and closes the log.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        let Some(driver) = self.lock_driver().take() else { return Ok(()) };
        let (answer, answered) = channel();
        {
            let mut state = self.queue.lock();
            state.closed = true;
            state.closing = Some(answer);
        }
        self.queue.wake.notify_one();
        match driver {
            // Closed from a completion: the thread closes the log when that returns.
            Driver::Thread(thread) if thread.thread().id() == thread::current().id() => Ok(()),
            Driver::Thread(thread) => {
                let result = answered.recv().unwrap_or(Err(StoreError::Closed));
                let _ = thread.join();
                result
            }
            Driver::Caller(mut runner) => {
                while !matches!(runner.turn(&self.queue, self.limits), LaneTurn::Closed) {}
                answered.recv().unwrap_or(Err(StoreError::Closed))
            }
        }
    }
}

/// The log and the group in hand.
struct Runner<D: Disk> {
    log: Log<D>,
    group: Vec<WaitingBatch>,
    dones: Vec<Done>,
}

/// What a turn did.
enum LaneTurn {
    /// Committed so many batches.
    Worked(usize),
    /// Closed the log: the last turn.
    Closed,
}

impl<D: Disk> std::fmt::Debug for Runner<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("log", &self.log).finish_non_exhaustive()
    }
}

impl<D: Disk> Runner<D> {
    fn new(log: Log<D>) -> Self {
        Self { log, group: Vec::new(), dones: Vec::new() }
    }

    /// Takes what waits and does it.
    fn turn(&mut self, queue: &LaneQueue, limits: QueueLimits) -> LaneTurn {
        let mut state = queue.lock();
        let reopen = std::mem::take(&mut state.reopen);
        drain(&mut state, limits.group_bytes, &mut self.group, &mut self.dones);
        let closing = if self.group.is_empty() { state.closing.take() } else { None };
        drop(state);
        if !reopen.is_empty() {
            let result = match self.log.reopen() {
                Ok(()) => self.log.has_room(),
                // A log that could not be started again is not merely full.
                Err(error @ StoreError::NoSpace { .. }) => Err(StoreError::Unavailable { cause: error.to_string() }),
                Err(error) => Err(error),
            };
            queue.lock().broken = self.log.broken().map(ToString::to_string);
            for (network, answer) in reopen {
                if result.is_ok() {
                    self.log.resume(network);
                }
                let _ = answer.send(result.clone());
            }
        }
        if let Some(answer) = closing {
            let _ = answer.send(self.log.close());
            return LaneTurn::Closed;
        }
        let was_broken = self.log.broken().is_some();
        self.log.commit(&mut self.group);
        let broken = self.log.broken().map(ToString::to_string);
        if was_broken || broken.is_some() {
            queue.lock().broken = broken;
        }
        let batches = self.group.len();
        for (waiting, done) in self.group.drain(..).zip(self.dones.drain(..)) {
            let result = waiting.finish();
            if catch_unwind(AssertUnwindSafe(|| done(result))).is_err() {
                tracing::error!("a completion panicked; the log goes on");
            }
        }
        LaneTurn::Worked(batches)
    }
}

fn run<D: Disk>(mut runner: Runner<D>, queue: &LaneQueue, limits: QueueLimits, upkeep: &dyn Fn()) {
    let mut rested = true;
    loop {
        if !wait(queue, (!rested).then_some(REST_AFTER)) {
            runner.log.rest();
            rested = true;
            continue;
        }
        if matches!(runner.turn(queue, limits), LaneTurn::Closed) {
            return;
        }
        rested = false;
        if runner.log.wants_upkeep() {
            upkeep();
        }
    }
}

/// Waits until there is something to do; `false` if there was nothing for so long.
fn wait(queue: &LaneQueue, at_most: Option<Duration>) -> bool {
    let mut state = queue.lock();
    while state.waiting.is_empty() && state.reopen.is_empty() && state.closing.is_none() {
        let Some(at_most) = at_most else {
            state = queue.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let (waited, time) = queue.wake.wait_timeout(state, at_most).unwrap_or_else(PoisonError::into_inner);
        state = waited;
        if time.timed_out() {
            return !state.waiting.is_empty() || !state.reopen.is_empty() || state.closing.is_some();
        }
    }
    true
}

/// Takes what waits, in order, up to a number of bytes but at least one batch.
fn drain(state: &mut LaneState, group_bytes: usize, group: &mut Vec<WaitingBatch>, dones: &mut Vec<Done>) {
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
