//! The writing end of a connection: renders what its outbox brings and writes it, in the hands of whoever has news for
//! it as long as that needs no waiting, and otherwise in the hands of the connection's own task.

use crate::stream::{Frame, Looked, Lookup, Renderer};
use rialto_carrier::standing::Standing;
use rialto_carrier::websocket::codec;
use rialto_carrier::websocket::socket::Output;
use rialto_carrier::websocket::spool::Spool;
use rialto_model::{ErrorCode, limits};
use rialto_node::Out;
use rialto_node::budget::Charge;
use rialto_node::outbox::{Bell, Port, Queue};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::time::Instant;

/// Rounds of rendering and writing before others have their turn.
const TURN_ROUNDS: usize = 4;

/// A close code and what is said with it.
pub(super) type CloseReason = (u16, &'static str);

/// See above.
#[derive(Debug)]
pub(super) struct Line {
    writer: Mutex<Writer>,
    /// Others may write without waiting.
    bare: bool,
    /// Wakes the connection's own task.
    pub(super) bell: Bell,
    /// May dip below zero: an answer can be written before its event is counted.
    unanswered: AtomicIsize,
}

/// What is being written.
#[derive(Debug)]
struct Writer {
    output: Output,
    renderer: Renderer,
    /// Taken out of the queue, not rendered yet.
    outs: VecDeque<Out>,
    /// Rendered, not written yet.
    spool: Spool,
    /// What a large part of the spool is charged to.
    charge: Option<Charge>,
    /// Client events whose answers are in the spool.
    answered: usize,
    /// What comes after the spool.
    then: NextStep,
    /// Since when the spool waits for the peer.
    since: Option<Instant>,
    /// The rest is up to the connection's own task.
    left: bool,
    joined: bool,
    /// Something was written.
    stirred: bool,
    /// The last word is said.
    ended: bool,
}

#[derive(Debug)]
enum NextStep {
    /// What is still there to be rendered.
    More,
    LookUp(Lookup),
    /// Somebody looks it up.
    Looking,
    Close(CloseReason),
}

/// How far writing came.
#[derive(Debug)]
pub(super) enum Progress {
    /// Everything is written.
    Done,
    /// There is more; others should have their turn first.
    More,
    /// The peer has to read first.
    Blocked(Instant),
    /// Something has to be looked up first ([`Line::look_up`]), or is being looked up.
    Looking,
    /// Everything is written, and it was the last word.
    Close(CloseReason),
    /// The peer is gone.
    Gone,
}

impl Line {
    pub(super) fn new(output: Output, renderer: Renderer, standing: Standing) -> Line {
        let bare = output.is_bare();
        let writer = Writer {
            output,
            renderer: renderer.on(standing),
            outs: VecDeque::new(),
            spool: Spool::default(),
            charge: None,
            answered: 0,
            then: NextStep::More,
            since: None,
            left: false,
            joined: false,
            stirred: false,
            ended: false,
        };
        Line { writer: Mutex::new(writer), bare, bell: Bell::default(), unanswered: AtomicIsize::new(0) }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes on what was left to the connection's own task.
    pub(super) fn resume(&self, queue: &Queue, cx: &mut Context<'_>) -> Progress {
        let mut writer = self.writer();
        if !writer.left {
            let waiting = if self.bare { None } else { queue.begin() };
            let Some(outs) = waiting else { return Progress::Done };
            writer.take(outs);
            writer.left = true;
        }
        self.advance(&mut writer, queue, Some(cx))
    }

    /// Writes everything that waits, also what others would write.
    pub(super) fn finish(&self, queue: &Queue, cx: &mut Context<'_>) -> Progress {
        let mut writer = self.writer();
        if !writer.left && !queue.claim() {
            return Progress::Done;
        }
        writer.left = true;
        self.advance(&mut writer, queue, Some(cx))
    }

    /// Goes on with what was looked up.
    pub(super) fn looked(&self, mut looked: Looked) {
        let mut writer = self.writer();
        looked.put_back(&mut writer.outs);
        writer.charge = looked.charge.take();
        looked.frames.into_iter().for_each(|frame| put(&mut writer.spool, frame));
        writer.then = looked.close.map_or(NextStep::More, |close| NextStep::Close((close.code, close.reason)));
    }

    /// Looks up what writing waits for, unless somebody does.
    pub(super) fn look_up(&self) -> Option<impl Future<Output = Looked> + Send + use<>> {
        let mut writer = self.writer();
        match std::mem::replace(&mut writer.then, NextStep::Looking) {
            NextStep::LookUp(lookup) => Some(writer.renderer.look_up(lookup)),
            other @ (NextStep::More | NextStep::Looking | NextStep::Close(_)) => {
                writer.then = other;
                None
            }
        }
    }

    /// Puts something of the carrier's own between frames, unless the peer is behind anyway: under a flood of pings
    /// only some are answered. It is written with the next [`Line::resume`], or by whoever serves the queue.
    pub(super) fn control(&self, queue: &Queue, put: impl FnOnce(&mut Vec<u8>)) {
        let mut writer = self.writer();
        if writer.since.is_none() {
            writer.spool.control(put);
            writer.left = writer.left || queue.claim();
        }
    }

    /// Says the last words; after them nothing is taken any more.
    pub(super) fn say_goodbye(&self, queue: &Queue, why: Option<ErrorCode>, (code, reason): CloseReason) {
        queue.close();
        let mut writer = self.writer();
        if let Some(why) = why {
            let refusal = writer.renderer.refusal(why);
            put(&mut writer.spool, refusal);
        }
        writer.spool.control(|out| codec::close(code, reason, out));
        (writer.outs, writer.then) = (VecDeque::new(), NextStep::More);
        (writer.left, writer.ended) = (true, true);
    }

    /// Says that nothing more comes.
    pub(super) fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.writer().output.poll_shutdown(cx)
    }

    /// Since when it waits for the peer, if it does.
    pub(super) fn blocked(&self) -> Option<Instant> {
        self.writer().since
    }

    /// Whether something was written since the last call.
    pub(super) fn take_stirred(&self) -> bool {
        std::mem::take(&mut self.writer().stirred)
    }

    /// The client has joined.
    pub(super) fn is_joined(&self) -> bool {
        self.writer().joined
    }

    /// Events were handed over that will be answered.
    pub(super) fn expect(&self, answers: usize) {
        self.unanswered.fetch_add(signed(answers), Ordering::AcqRel);
    }

    /// So much is unanswered that no more is read.
    pub(super) fn is_behind(&self) -> bool {
        self.unanswered.load(Ordering::Acquire) >= signed(limits::UNANSWERED_EVENTS_MAX)
    }

    fn answered(&self, answers: usize) {
        let (most, answers) = (signed(limits::UNANSWERED_EVENTS_MAX), signed(answers));
        let before = self.unanswered.fetch_sub(answers, Ordering::AcqRel);
        if before >= most && before - answers < most {
            self.bell.ring();
        }
    }

    /// Renders and writes, for whoever serves the queue.
    fn advance(&self, writer: &mut Writer, queue: &Queue, mut cx: Option<&mut Context<'_>>) -> Progress {
        for _ in 0..TURN_ROUNDS {
            if !writer.spool.is_empty() || !writer.output.is_flushed() {
                match writer.output.write(&mut writer.spool, cx.as_deref_mut()) {
                    Ok(true) => (writer.since, writer.stirred, writer.charge) = (None, true, None),
                    Ok(false) => {
                        if writer.charge.is_none() {
                            writer.charge = writer.renderer.hold(writer.spool.bytes());
                        }
                        return Progress::Blocked(*writer.since.get_or_insert_with(Instant::now));
                    }
                    Err(_) => return Progress::Gone,
                }
            }
            if writer.answered > 0 {
                self.answered(std::mem::take(&mut writer.answered));
            }
            match writer.then {
                NextStep::More => {}
                NextStep::LookUp(_) | NextStep::Looking => return Progress::Looking,
                NextStep::Close(goodbye) => return Progress::Close(goodbye),
            }
            if writer.outs.is_empty() {
                writer.outs = VecDeque::new();
                let Some(outs) = queue.more() else {
                    writer.left = false;
                    return Progress::Done;
                };
                writer.take(outs);
            }
            writer.render();
        }
        Progress::More
    }
}

impl Writer {
    fn take(&mut self, outs: Vec<Out>) {
        match self.outs.is_empty() {
            true => self.outs = outs.into(),
            false => self.outs.extend(outs),
        }
    }

    fn render(&mut self) {
        // Mostly there is one delivery: it is framed already.
        if self.outs.len() == 1 {
            match self.outs.pop_front() {
                Some(Out::Delivery(part)) => return self.spool.shared(part.framed::<codec::TextFrames>()),
                other => self.outs.extend(other),
            }
        }
        let mut rendered = self.renderer.render_now(&mut self.outs);
        if rendered.joined {
            self.joined = true;
        }
        self.answered += rendered.answered;
        self.then = match (rendered.take_lookup(), rendered.close) {
            (Some(lookup), _) => NextStep::LookUp(lookup),
            (None, Some(close)) => NextStep::Close((close.code, close.reason)),
            (None, None) => NextStep::More,
        };
        rendered.frames.into_iter().for_each(|frame| put(&mut self.spool, frame));
    }
}

impl Port for Line {
    fn news(&self, queue: &Queue) {
        let waiting = if self.bare { queue.begin() } else { None };
        let Some(outs) = waiting else { return self.bell.ring() };
        let mut writer = self.writer();
        if writer.ended {
            return;
        }
        writer.take(outs);
        if !matches!(self.advance(&mut writer, queue, None), Progress::Done) {
            writer.left = true;
            drop(writer);
            self.bell.ring();
        }
    }

    fn writes(&self) -> bool {
        self.bare
    }
}

/// Puts events in front of the socket, each as a frame of its own.
fn put(spool: &mut Spool, frame: Frame) {
    match frame {
        Frame::One(event, attempt) => spool.text(event.json_len_as(attempt), |out| event.push_json(attempt, out)),
        Frame::Signal(signal) => {
            spool.text(signal.text().len(), |out| out.extend_from_slice(signal.text().as_bytes()));
        }
        Frame::Shared(part) => spool.shared(part.framed::<codec::TextFrames>()),
    }
}

fn signed(count: usize) -> isize {
    isize::try_from(count).unwrap_or(isize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::server_event;

    #[test]
    fn a_delivery_again_says_which_it_is() {
        let event = server_event("a.b", "agent:a", "n1", "{\"p\":\"xxx\"}", None);
        for attempt in [None, Some(4)] {
            let text = event.json_as(attempt);
            let mut spool = Spool::default();
            put(&mut spool, Frame::One(event.clone(), attempt));
            let mut expected = Vec::new();
            codec::text_head(text.len(), &mut expected);
            expected.extend_from_slice(text.as_bytes());
            let (slices, count) = spool.slices();
            assert_eq!((&*slices[0], count), (&*expected, 1));
        }
    }
}
