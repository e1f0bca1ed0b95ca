//! Messages between connections and a network's task.

use crate::budget::Charge;
use crate::carried::Item;
use crate::delivery::Attempt;
use crate::modport::ProcessCheck;
use crate::outbox::Outbox;
use crate::outgoing::{RunPart, Signal};
use crate::query::Query;
use crate::task::read::TaskRead;
use crate::texts::Texts;
use bytes::Bytes;
use rialto_engine::input::{Accepted, Content};
use rialto_engine::mods::external::CheckOutcome;
use rialto_engine::{
    AckRequest, AdminOp, Caller, CandidatePage, FactChange, FactPage, Filter, Latest, View, Viewer, Wishes,
};
use rialto_model::network::Durability;
use rialto_model::view::{AdminOutcome, MeView, RoomView};
use rialto_model::{ErrorCode, Event, FaceName, Fault, Seq};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The answer to one received frame, after its commit.
#[derive(Debug, Clone)]
pub struct Answered {
    /// Id of what was refused, if it had one.
    pub refused: Option<String>,
    /// What became of it.
    pub result: Result<Accepted, Fault>,
    /// What the ack promises.
    pub durability: Durability,
    /// A history query: whoever answers the client runs it and sends the response.
    pub query: Option<Box<Query>>,
    /// The client expects no answer (a plain ack that was fine).
    pub silent: bool,
    /// Secret of a fresh session, for the join's answer only.
    pub session_id: Option<Arc<str>>,
    /// What a large response is charged to until it is written.
    pub charge: Option<Arc<Charge>>,
}

impl Answered {
    /// The answer to what was not accepted.
    pub(crate) fn refusal(id: Option<String>, fault: Fault) -> Answered {
        let durability = Durability::Sync;
        Answered {
            refused: id,
            result: Err(fault),
            durability,
            query: None,
            silent: false,
            session_id: None,
            charge: None,
        }
    }

    /// Bytes of its response, if it has one.
    pub(crate) fn response_bytes(&self) -> usize {
        let response = self.result.as_ref().ok().and_then(|accepted| accepted.response.as_ref());
        response.map_or(0, |event| event.weight())
    }

    fn held_bytes(&self) -> usize {
        size_of::<Answered>() + self.response_bytes()
    }

    /// Id the client gave or the server made; none if unreadable.
    pub fn event_id(&self) -> Option<&str> {
        match &self.result {
            Ok(accepted) => Some(accepted.event_id()),
            Err(_) => self.refused.as_deref(),
        }
    }
}

/// One thing for a stream's client.
#[derive(Debug, Clone)]
pub enum Out {
    /// Answers, in arrival order.
    Answers(Vec<Answered>),
    /// Committed events, first attempt; what recipients have in common is shared.
    Delivery(RunPart),
    /// Events to be read from the store, with their attempt numbers.
    Stored(Vec<Attempt>),
    /// An event that is never stored.
    Signal(Arc<Signal>),
    /// The stream ends; why.
    Close(ErrorCode),
}

impl Out {
    /// Bytes it keeps in memory, about.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Out::Answers(answers) => answers.iter().map(Answered::held_bytes).sum(),
            Out::Delivery(part) => part.held_bytes(),
            Out::Stored(attempts) => size_of_val(attempts.as_slice()),
            Out::Signal(signal) => signal.event().weight(),
            Out::Close(_) => 0,
        }
    }

    /// Whether it answers what the reader sent itself.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Out::Answers(_))
    }
}

/// Where answers go.
#[derive(Debug)]
pub enum Reply {
    /// To one waiting caller.
    Once(oneshot::Sender<Vec<Answered>>),
    /// To a stream.
    Stream(u64, Outbox),
    /// To nobody: a mod sent it.
    Nobody,
}

/// Identity and page of a read.
#[derive(Debug)]
pub struct PageAnswer {
    /// Candidates and lens.
    pub page: CandidatePage,
    /// Who reads.
    pub viewer: Viewer,
    /// The last committed position.
    pub head: Seq,
    /// History at or below is purged.
    pub oldest: Seq,
    /// Deliveries of this network expect acks.
    pub tracked: bool,
    /// The reader's mail waits: it gets what it asks for, and is not sent anything.
    pub quiet: bool,
    /// What a reader that serves mods is asked; each is handed out once.
    pub checks: Vec<Arc<Event>>,
}

/// Where events are, by what is at hand.
#[derive(Debug)]
pub(crate) struct Located {
    /// One for each id.
    pub(crate) places: Vec<Whereabouts>,
    /// Events up to here are committed.
    pub(crate) committed: Seq,
    /// History at or below is purged.
    pub(crate) purged: Seq,
}

/// Where an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// At this position.
    At(Seq),
    /// In the store, if anywhere: at this position, if its id is one of the network's own.
    Stored(Option<Seq>),
}

/// What a network's task is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    Emit {
        connection: u64,
        caller: Arc<Caller>,
        texts: Texts,
        reply: Reply,
    },
    /// One event whose id follows from who sends it and a key of the sender's.
    EmitKeyed {
        caller: Arc<Caller>,
        key: String,
        frame: Bytes,
        reply: oneshot::Sender<Vec<Answered>>,
    },
    AckThese {
        caller: Arc<Caller>,
        request: AckRequest,
        reply: oneshot::Sender<Result<u64, Fault>>,
    },
    Page {
        caller: Arc<Caller>,
        view: View,
        filter: Box<Filter>,
        position: Option<Seq>,
        /// Candidates.
        max: usize,
        /// Events that will be used for sure: what is given away once must not be more.
        wanted: usize,
        /// Hand out what the reader is asked as the server of a mod.
        asks: bool,
        reply: oneshot::Sender<Result<PageAnswer, Fault>>,
    },
    /// Newest events of channels, after one of them.
    Latest {
        caller: Arc<Caller>,
        filter: Box<Filter>,
        after: Option<u32>,
        reply: oneshot::Sender<Result<Latest, Fault>>,
    },
    /// A process runs a mod from here on.
    ModPort {
        name: Box<str>,
        asks: mpsc::Sender<ProcessCheck>,
    },
    /// What a process said.
    ModSaid {
        ticket: u64,
        outcome: CheckOutcome,
    },
    /// These went out to a member that polls.
    Shown {
        member: u32,
        seqs: Vec<Seq>,
    },
    /// Whether the caller may read here.
    Admitted {
        caller: Arc<Caller>,
        reply: oneshot::Sender<Result<(), Fault>>,
    },
    /// Where events are, as far as that is known without reading.
    Locate {
        /// Only a member may ask, if one is named.
        member: Option<Arc<Caller>>,
        ids: Vec<String>,
        reply: oneshot::Sender<Result<Located, Fault>>,
    },
    /// A reader that follows history by cursor also wants what is never stored.
    Watch {
        connection: u64,
        caller: Arc<Caller>,
        outbox: Outbox,
    },
    CloseStream {
        connection: u64,
    },
    /// A face takes the mail of the members it carries.
    Carry {
        face: FaceName,
        connection: u64,
        out: mpsc::Sender<Item>,
        reply: oneshot::Sender<Result<(), Fault>>,
    },
    /// A fact of a face.
    Fact {
        face: FaceName,
        key: Box<str>,
        reply: oneshot::Sender<Result<Option<Box<str>>, Fault>>,
    },
    /// Facts of a face.
    Facts {
        face: FaceName,
        prefix: Box<str>,
        after: Option<Box<str>>,
        limit: usize,
        reply: oneshot::Sender<Result<FactPage, Fault>>,
    },
    /// A change of a fact.
    ChangeFact {
        change: Box<FactChange>,
        reply: oneshot::Sender<Result<bool, Fault>>,
    },
    Admin {
        /// Who acts and from where; the node itself if nobody.
        by: Option<(Arc<Caller>, Option<String>)>,
        op: AdminOp,
        reply: oneshot::Sender<Result<AdminOutcome, Fault>>,
    },
    /// Something is read in the task.
    Read(TaskRead),
    /// A direct room of the caller: an existing one, or a new one.
    OpenRoom {
        caller: Arc<Caller>,
        peer: String,
        channel: Option<String>,
        reply: oneshot::Sender<Result<RoomView, Fault>>,
    },
    /// The caller changes something about itself.
    Own {
        caller: Arc<Caller>,
        wishes: Box<Wishes>,
        reply: oneshot::Sender<Result<MeView, Fault>>,
    },
    /// Flush acks, save a snapshot, stop.
    Stop {
        reply: oneshot::Sender<()>,
    },
    /// The LSN and hash of the state, with everything in the log.
    Hash {
        reply: oneshot::Sender<(u64, [u8; 32])>,
    },
    /// The state and the LSN it is at, with everything in the log, to be saved at once.
    Save {
        reply: oneshot::Sender<StateAt>,
    },
    /// The contents of a resource, older ones too.
    Contents {
        address: String,
        reply: oneshot::Sender<Vec<Content>>,
    },
    /// Below which position nothing is needed any more.
    Horizon {
        reply: oneshot::Sender<(rialto_store::Class, Seq)>,
    },
    /// The state and the LSN it is at, to be saved: its snapshots keep segments from being freed. None while something is
    /// on its way to the log; then a snapshot is taken with the next batch.
    Snapshot {
        reply: oneshot::Sender<Option<StateAt>>,
    },
    /// An event's bytes were overwritten: forget the copy at hand.
    Forget {
        seq: Seq,
    },
}

/// A network's state as a snapshot holds it.
#[derive(Debug)]
pub struct StateAt {
    /// The log its LSN belongs to.
    pub(crate) class: rialto_store::Class,
    /// Every record of the network up to this LSN is in it.
    pub(crate) lsn: u64,
    /// The state.
    pub(crate) bytes: Vec<u8>,
}
