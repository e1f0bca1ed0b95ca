//! A client of a network: its session, its stream, what it sent and what it saw. The only place that knows how the node
//! hands things to a stream.

use super::oracle::Delivered;
use rialto_model::{ErrorCode, Event};
use rialto_node::command::Answered;
use rialto_node::delivery::Attempt;
use rialto_node::outbox::Nothing;
use rialto_node::{Caller, Inbox, Network, Out, Outbox, Texts, outbox};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Batches a stream's outbox holds: few, so that slow readers meet its end.
const OUTBOX: usize = 12;

/// One ack of a client.
#[derive(Debug, Clone)]
pub(crate) struct Acked {
    pub(crate) address: String,
    pub(crate) seqs: Vec<u64>,
    pub(crate) up_to: u64,
    /// The oracle knows of it.
    pub(crate) told: bool,
}

impl Acked {
    /// What a join acks that resumes after a position.
    pub(crate) fn resuming(address: String, up_to: u64) -> Acked {
        Acked { address, seqs: Vec::new(), up_to, told: false }
    }
}

/// What a frame was, while its answer is awaited.
#[derive(Debug, Clone)]
pub(crate) enum Frame {
    Event(usize),
    Join {
        k: usize,
        resume: u64,
        /// It showed the token for its own name, which has this label.
        named: Option<&'static str>,
    },
    Leave(usize),
    Ack(Acked),
    /// A word to a ticket, by its place among those.
    Verdict(String, usize),
}

/// Something a stream was handed.
pub(crate) enum Heard {
    Answer(Frame, Box<Answered>),
    Push(Arc<rialto_node::EventRecord>, u32),
    Stored(Vec<Attempt>),
    Signal(Arc<Event>),
    Closed(ErrorCode),
    Gone,
}

/// An open stream.
pub(crate) struct Stream {
    pub(crate) connection: u64,
    pub(crate) outbox: Outbox,
    inbox: Inbox,
    pub(crate) listening: bool,
    pub(crate) view: Delivered,
    pub(crate) waiting: VecDeque<Frame>,
    /// Pushes not yet compared.
    pub(crate) pushes: Vec<(Arc<rialto_node::EventRecord>, u32)>,
    /// The join was accepted.
    pub(crate) joined: bool,
    /// It is there for inputs from this one on.
    pub(crate) since: usize,
}

impl Stream {
    /// Opens a stream for what it is to be sent: nothing yet.
    pub(crate) fn new(network: &Network, view: Delivered) -> Stream {
        let (outbox, inbox) = outbox(OUTBOX);
        let connection = network.connection();
        let (waiting, pushes) = (VecDeque::new(), Vec::new());
        Stream { connection, outbox, inbox, listening: true, view, waiting, pushes, joined: false, since: 0 }
    }

    /// Hands frames over; the queue is far larger than what a script has in flight.
    pub(crate) async fn send(&self, network: &Network, frames: Texts) {
        self.send_as(&stranger(), network, frames).await;
    }

    /// The same, showing what this caller shows.
    pub(crate) async fn send_as(&self, by: &Arc<Caller>, network: &Network, frames: Texts) {
        let _ = network.session(by).emit_stream(self.connection, frames, &self.outbox).await;
    }

    /// Everything that waits in the outbox.
    pub(crate) fn heard(&mut self) -> Vec<Heard> {
        let mut heard = Vec::new();
        loop {
            match self.inbox.try_recv() {
                Ok(outs) => outs.into_iter().for_each(|out| self.take(out, &mut heard)),
                Err(Nothing::Yet) => return heard,
                Err(Nothing::Ever) => {
                    heard.push(Heard::Gone);
                    return heard;
                }
            }
        }
    }

    /// What an answer is to: answers come in order, but acks and the words of mods wait for nothing.
    fn answered(&mut self, id: Option<&str>) -> Option<Frame> {
        let hurries = |frame: &Frame| match frame {
            Frame::Verdict(ticket, index) => Some(verdict_id(ticket, *index)),
            Frame::Ack(_) => Some(ACK_ID.to_owned()),
            Frame::Event(_) | Frame::Join { .. } | Frame::Leave(_) => None,
        };
        let own = self.waiting.iter().position(|frame| id.is_some() && hurries(frame).as_deref() == id);
        let next = || self.waiting.iter().position(|frame| id.is_none() || hurries(frame).is_none());
        self.waiting.remove(own.or_else(next)?)
    }

    fn take(&mut self, out: Out, heard: &mut Vec<Heard>) {
        match out {
            Out::Answers(answers) => {
                for answer in answers {
                    if let Some(frame) = self.answered(answer.event_id()) {
                        heard.push(Heard::Answer(frame, Box::new(answer)));
                    }
                }
            }
            Out::Delivery(part) => heard.extend(part.records().iter().map(|record| Heard::Push(record.clone(), 1))),
            Out::Stored(attempts) => heard.push(Heard::Stored(attempts)),
            Out::Signal(signal) => heard.push(Heard::Signal(signal.event().clone())),
            Out::Close(code) => heard.push(Heard::Closed(code)),
        }
    }
}

/// The id of acks, which nobody keeps.
pub(crate) const ACK_ID: &str = "an-ack";

/// The id of a word to a ticket.
pub(crate) fn verdict_id(ticket: &str, index: usize) -> String {
    format!("{ticket}-{index}")
}

/// A call without a stream.
pub(crate) enum Call {
    Emit(JoinHandle<Result<Vec<Answered>, rialto_model::Fault>>, Vec<Frame>),
    Ack(JoinHandle<Result<u64, rialto_model::Fault>>, Acked),
}

impl Call {
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Call::Emit(handle, _) => handle.is_finished(),
            Call::Ack(handle, _) => handle.is_finished(),
        }
    }
}

/// One member, or somebody who may become one.
pub(crate) struct Client {
    /// Its place among all clients.
    number: u64,
    pub(crate) address: &'static str,
    pub(crate) session: Option<String>,
    pub(crate) stream: Option<Stream>,
    /// It has had a stream since the process started.
    pub(crate) had_stream: bool,
    /// Its last join asked for an observer's session.
    pub(crate) capped: bool,
    /// It joins with a token for its own name from here on.
    pub(crate) named: bool,
    /// Its session was made with the token of this label, which was for the name it had then.
    pub(crate) named_session: Option<&'static str>,
    /// Its session was made with the invitation of this id.
    pub(crate) invited: Option<String>,
    pub(crate) calls: Vec<Call>,
    /// Plain events it sent, by number.
    pub(crate) sent: Vec<usize>,
    /// Frames it sent, by number.
    pub(crate) bytes: BTreeMap<usize, String>,
    /// Calls it made.
    pub(crate) made: u64,
    /// Mail it has seen: positions and ids.
    pub(crate) seen: BTreeMap<u64, String>,
}

impl Client {
    pub(crate) fn new(number: u64, address: &'static str) -> Client {
        Client {
            number,
            address,
            session: None,
            stream: None,
            had_stream: false,
            capped: false,
            named: false,
            named_session: None,
            invited: None,
            calls: Vec::new(),
            sent: Vec::new(),
            bytes: BTreeMap::new(),
            made: 0,
            seen: BTreeMap::new(),
        }
    }

    /// Its credentials for a call.
    pub(crate) fn caller(&self) -> Option<Arc<Caller>> {
        let session = rialto_node::identity::sha256(self.session.as_deref()?);
        Some(Arc::new(Caller { bearer: Some(session), ..Caller::default() }))
    }

    /// The lane of what it sends next: its stream, or one call.
    pub(crate) fn lane(&mut self) -> u64 {
        self.made += 1;
        let who = self.number;
        match self.stream.as_ref().filter(|s| s.joined) {
            Some(stream) => stream.connection << 20 | who,
            None => 1 << 63 | self.made << 20 | who,
        }
    }

    /// Whether it has read its stream since before an input was sent.
    pub(crate) fn is_there_since(&self, k: u64) -> bool {
        self.stream.as_ref().is_some_and(|s| s.joined && s.view.attentive && s.since as u64 <= k)
    }

    /// It said goodbye and was not answered yet.
    pub(crate) fn is_leaving(&self) -> bool {
        let leaves = |frame: &Frame| matches!(frame, Frame::Leave(_));
        let called = |call: &Call| matches!(call, Call::Emit(_, frames) if frames.iter().any(leaves));
        self.stream.as_ref().is_some_and(|stream| stream.waiting.iter().any(leaves)) || self.calls.iter().any(called)
    }

    /// Its process is gone: what was in flight is never answered.
    pub(crate) fn forget_all(&mut self) -> Vec<Frame> {
        self.had_stream = false;
        let mut lost: Vec<Frame> = self.stream.take().into_iter().flat_map(|s| s.waiting).collect();
        for call in self.calls.drain(..) {
            match call {
                Call::Emit(_, frames) => lost.extend(frames),
                Call::Ack(_, acked) => lost.push(Frame::Ack(acked)),
            }
        }
        lost
    }
}

/// The operator.
pub(crate) fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

/// Somebody whom the operator lets in.
pub(crate) fn host() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

/// Somebody who joins.
pub(crate) fn stranger() -> Arc<Caller> {
    Arc::new(Caller::default())
}
