//! The way of a stream's things from the network's task to its connection: a bounded queue, and beside it the port they
//! leave by.
//!
//! Invariant: what is queued leaves in order, because at most one side serves a queue at a time. Whoever began goes on
//! until nothing is left, or leaves the rest to somebody who does.
//! Not here: what things look like on a wire (the faces).

use crate::command::{Answered, Out};
use rialto_model::{Fault, limits};
use std::fmt::Debug;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Connections that one task writes to, so that others have their turn in between.
const TURN: usize = 32;

/// Where a stream's things leave the node.
pub trait Port: Debug + Send + Sync {
    /// Something waits in the queue that nobody serves, or its last sender is gone.
    fn news(&self, queue: &Queue);

    /// Whether [`Port::news`] writes to a socket: work that the network's task leaves to others.
    fn writes(&self) -> bool;
}

/// A queue and its port, in one place.
#[derive(Debug)]
pub struct Outlet<P: ?Sized> {
    /// What waits.
    pub queue: Queue,
    /// Where it goes.
    pub port: P,
}

impl<P> Outlet<P> {
    /// A queue for so many batches; the last place is kept for the last word.
    pub fn new(batches: usize, port: P) -> Outlet<P> {
        Outlet { queue: Queue { max: batches, ..Queue::default() }, port }
    }
}

/// Things on their way to one stream, in order.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<OutboxState>,
    senders: AtomicUsize,
    max: usize,
}

#[derive(Debug, Default)]
struct OutboxState {
    outs: Vec<Out>,
    /// Batches in it.
    batches: usize,
    /// Batches that were taken to be served and are not gone yet.
    taken: usize,
    /// Bytes of what waits, about.
    bytes: usize,
    /// Bytes of what was taken and is not gone yet.
    taken_bytes: usize,
    serving: bool,
    closed: bool,
}

/// Why a batch was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueRefusal {
    /// The reader is too far behind.
    Full,
    /// Nobody reads any more.
    Closed,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to serve, unless somebody does. Whoever begins asks [`Queue::more`] until there is none.
    pub fn claim(&self) -> bool {
        !std::mem::replace(&mut self.state().serving, true)
    }

    /// Begins to serve if something waits.
    pub fn begin(&self) -> Option<Vec<Out>> {
        let mut state = self.state();
        if state.serving || state.outs.is_empty() {
            return None;
        }
        state.serving = true;
        Some(state.take())
    }

    /// What came while all before was served; nothing ends the serving.
    pub fn more(&self) -> Option<Vec<Out>> {
        let mut state = self.state();
        if state.outs.is_empty() {
            (state.serving, state.taken, state.taken_bytes) = (false, 0, 0);
            return None;
        }
        Some(state.take())
    }

    /// Takes nothing any more.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.outs = Vec::new();
        state.bytes = 0;
    }

    /// Forgets everything that waits except answers.
    fn keep_answers(&self) {
        let mut state = self.state();
        state.outs.retain(Out::is_answer);
        state.bytes = state.outs.iter().map(Out::held_bytes).sum();
    }

    /// Nothing waits or is being served, and nobody can send any more.
    pub fn is_over(&self) -> bool {
        let gone = self.senders.load(Ordering::Acquire) == 0;
        let state = self.state();
        gone && state.outs.is_empty() && !state.serving
    }

    /// Batches that wait.
    pub fn len(&self) -> usize {
        self.state().batches
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queues a batch; gives whether somebody has to be told.
    fn push(&self, batch: &mut Vec<Out>, last: bool) -> Result<bool, QueueRefusal> {
        let mut state = self.state();
        if state.closed {
            return Err(QueueRefusal::Closed);
        }
        if !last && state.batches + state.taken + 1 >= self.max {
            return Err(QueueRefusal::Full);
        }
        state.batches += 1;
        state.bytes += batch.iter().map(Out::held_bytes).sum::<usize>();
        if state.outs.is_empty() {
            std::mem::swap(&mut state.outs, batch);
        } else {
            state.outs.append(batch);
        }
        Ok(!state.serving)
    }
}

impl OutboxState {
    fn take(&mut self) -> Vec<Out> {
        self.taken = std::mem::take(&mut self.batches);
        self.taken_bytes = std::mem::take(&mut self.bytes);
        std::mem::take(&mut self.outs)
    }
}

/// The sending end of a stream's queue.
#[derive(Debug)]
pub struct Outbox(Arc<Outlet<dyn Port>>);

impl Outbox {
    /// A sender to this outlet.
    pub fn to<P: Port + 'static>(outlet: &Arc<Outlet<P>>) -> Outbox {
        outlet.queue.senders.fetch_add(1, Ordering::AcqRel);
        Outbox(outlet.clone())
    }

    /// Queues a batch; gives whether somebody has to be told.
    pub(crate) fn push(&self, mut batch: Vec<Out>) -> Result<bool, QueueRefusal> {
        self.0.queue.push(&mut batch, false)
    }

    /// Queues the last word, however much waits.
    pub(crate) fn push_last(&self, out: Out) -> bool {
        self.0.queue.push(&mut vec![out], true).unwrap_or(false)
    }

    /// The reader is no longer who it was: of what waits it gets the answers to what it sent, and nothing else.
    pub(crate) fn keep_answers(&self) {
        self.0.queue.keep_answers();
    }

    /// Refuses an event that no network was asked about.
    pub fn refuse(&self, fault: Fault) {
        // A carrier that is gone has nobody to tell.
        let _ = self.send(vec![Out::Answers(vec![Answered::refusal(None, fault)])]);
    }

    /// Queues a batch and tells at once.
    pub(crate) fn send(&self, batch: Vec<Out>) -> Result<(), QueueRefusal> {
        if self.push(batch)? {
            self.tell();
        }
        Ok(())
    }

    /// Queues something that may be lost, and tells at once; not where much waits already.
    pub(crate) fn offer(&self, out: Out) -> Result<(), QueueRefusal> {
        if self.unread_bytes() > limits::OUTBOX_BYTES_MAX / 2 {
            return Err(QueueRefusal::Full);
        }
        self.send(vec![out])
    }

    /// Bytes that wait to be read or are being written, about.
    pub(crate) fn unread_bytes(&self) -> usize {
        let state = self.0.queue.state();
        state.bytes + state.taken_bytes
    }

    /// How many more batches it takes.
    pub(crate) fn room(&self) -> usize {
        let state = self.0.queue.state();
        self.0.queue.max.saturating_sub(state.batches + state.taken + 1)
    }

    /// Whether more than half of it waits to be read.
    pub(crate) fn is_half_full(&self) -> bool {
        self.room() < self.0.queue.max / 2
    }

    fn tell(&self) {
        self.0.port.news(&self.0.queue);
    }

    /// Tells many. What that writes is written by tasks of their own: the network's task has other things to do, and
    /// one of them for many connections is cheaper than waking each connection's.
    pub(crate) fn tell_all(news: Vec<Outbox>) {
        let (mut writing, waking): (Vec<Outbox>, Vec<Outbox>) = news.into_iter().partition(|o| o.0.port.writes());
        waking.iter().for_each(Outbox::tell);
        while !writing.is_empty() {
            let rest = writing.split_off(writing.len().min(TURN));
            let turn = std::mem::replace(&mut writing, rest);
            tokio::spawn(async move { turn.iter().for_each(Outbox::tell) });
        }
    }
}

impl Clone for Outbox {
    fn clone(&self) -> Outbox {
        self.0.queue.senders.fetch_add(1, Ordering::AcqRel);
        Outbox(self.0.clone())
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        if self.0.queue.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.tell();
        }
    }
}

/// A port that wakes whoever waits at the queue.
#[derive(Debug, Default)]
pub struct Bell(Mutex<Option<Waker>>);

impl Bell {
    /// Wakes this task at the next ring.
    pub fn wait(&self, cx: &Context<'_>) {
        let mut waker = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Wakes who waits.
    pub fn ring(&self) {
        let waker = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Port for Bell {
    fn news(&self, _: &Queue) {
        self.ring();
    }

    fn writes(&self) -> bool {
        false
    }
}

/// The receiving end for a carrier that takes things out itself. Dropped, it takes nothing any more.
#[derive(Debug)]
pub struct Inbox(Arc<Outlet<Bell>>);

/// Nothing can be received now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {
    /// Nothing waits.
    Yet,
    /// Nothing waits and nobody can send any more.
    Ever,
}

/// Both ends of a queue for so many batches; the last place is kept for the last word.
pub fn outbox(batches: usize) -> (Outbox, Inbox) {
    let outlet = Arc::new(Outlet::new(batches, Bell::default()));
    (Outbox::to(&outlet), Inbox(outlet))
}

impl Inbox {
    /// Waits for something; nothing when nobody can send any more. Dropped it loses nothing.
    pub async fn recv(&mut self) -> Option<Vec<Out>> {
        poll_fn(|cx| {
            self.0.port.wait(cx);
            match self.try_recv() {
                Ok(outs) => Poll::Ready(Some(outs)),
                Err(Nothing::Ever) => Poll::Ready(None),
                Err(Nothing::Yet) => Poll::Pending,
            }
        })
        .await
    }

    /// Everything that waits.
    pub fn try_recv(&mut self) -> Result<Vec<Out>, Nothing> {
        // In this order: what the last sender sent is there when it is gone.
        let over = self.0.queue.senders.load(Ordering::Acquire) == 0;
        let mut state = self.0.queue.state();
        if state.outs.is_empty() {
            return Err(if over { Nothing::Ever } else { Nothing::Yet });
        }
        (state.batches, state.bytes) = (0, 0);
        Ok(std::mem::take(&mut state.outs))
    }

    /// Batches that wait.
    pub fn len(&self) -> usize {
        self.0.queue.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.0.queue.is_empty()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.0.queue.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rialto_model::ErrorCode;

    fn close(code: ErrorCode) -> Vec<Out> {
        vec![Out::Close(code)]
    }

    fn codes(outs: Vec<Out>) -> Vec<ErrorCode> {
        let code = |out| if let Out::Close(code) = out { Some(code) } else { None };
        outs.into_iter().filter_map(code).collect()
    }

    #[test]
    fn the_last_place_is_for_the_last_word() {
        let (outbox, mut inbox) = outbox(3);
        assert_eq!(outbox.room(), 2);
        assert_eq!(outbox.push(close(ErrorCode::Internal)), Ok(true));
        assert_eq!(outbox.push(close(ErrorCode::NotAMember)), Ok(true));
        assert_eq!(outbox.push(close(ErrorCode::Internal)), Err(QueueRefusal::Full));
        assert!(outbox.push_last(Out::Close(ErrorCode::RateLimited)));
        assert_eq!(inbox.len(), 3);
        let all = [ErrorCode::Internal, ErrorCode::NotAMember, ErrorCode::RateLimited];
        assert_eq!(codes(inbox.try_recv().unwrap()), all);
        assert_eq!(inbox.try_recv().unwrap_err(), Nothing::Yet);
        assert_eq!(outbox.room(), 2);
        drop(outbox);
        assert_eq!(inbox.try_recv().unwrap_err(), Nothing::Ever);
    }

    #[test]
    fn whoever_is_no_longer_itself_gets_its_answers_alone() {
        let (outbox, mut inbox) = outbox(4);
        let answers = || Out::Answers(vec![Answered::refusal(None, Fault::new(ErrorCode::Forbidden, "no"))]);
        outbox.push(vec![answers(), Out::Stored(Vec::new())]).unwrap();
        outbox.push(vec![Out::Stored(Vec::new()), answers()]).unwrap();
        outbox.keep_answers();
        outbox.push_last(Out::Close(ErrorCode::NotAMember));
        let outs = inbox.try_recv().unwrap();
        assert!(matches!(outs.as_slice(), [Out::Answers(_), Out::Answers(_), Out::Close(ErrorCode::NotAMember)]));
    }

    #[test]
    fn a_closed_queue_takes_nothing() {
        let (outbox, inbox) = outbox(3);
        drop(inbox);
        assert_eq!(outbox.push(close(ErrorCode::Internal)), Err(QueueRefusal::Closed));
    }

    #[test]
    fn one_side_serves_until_nothing_is_left_and_what_it_serves_counts() {
        let outlet = Arc::new(Outlet::new(4, Bell::default()));
        let (outbox, queue) = (Outbox::to(&outlet), &outlet.queue);
        assert!(queue.begin().is_none(), "nothing waits");
        outbox.push(close(ErrorCode::Internal)).unwrap();
        outbox.push(close(ErrorCode::NotAMember)).unwrap();
        assert_eq!(codes(queue.begin().unwrap()).len(), 2);
        assert_eq!(outbox.push(close(ErrorCode::Forbidden)), Ok(false), "who serves will see it");
        assert_eq!(outbox.push(close(ErrorCode::Forbidden)), Err(QueueRefusal::Full), "what is served is not gone yet");
        assert!(queue.begin().is_none(), "somebody serves");
        assert_eq!(codes(queue.more().unwrap()), [ErrorCode::Forbidden]);
        assert_eq!(outbox.push(close(ErrorCode::Forbidden)), Ok(false));
        assert!(queue.more().is_some());
        assert!(queue.more().is_none());
        assert_eq!(outbox.push(close(ErrorCode::Forbidden)), Ok(true), "nobody serves any more");
        assert_eq!(outbox.room(), 2);
    }

    #[tokio::test]
    async fn whoever_waits_hears_of_things_and_of_the_end() {
        let (outbox, mut inbox) = outbox(8);
        let reader = tokio::spawn(async move {
            let mut heard = Vec::new();
            while let Some(outs) = inbox.recv().await {
                heard.extend(codes(outs));
            }
            heard
        });
        tokio::task::yield_now().await;
        outbox.send(close(ErrorCode::Internal)).unwrap();
        tokio::task::yield_now().await;
        Outbox::tell_all(vec![outbox.clone()]);
        outbox.send(close(ErrorCode::NotAMember)).unwrap();
        drop(outbox);
        assert_eq!(reader.await.unwrap(), [ErrorCode::Internal, ErrorCode::NotAMember]);
    }
}
