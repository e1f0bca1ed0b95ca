//! The stream conversation (sheet section 12.1), the same on WebSocket, stdio and gRPC: what a client's frames become
//! and what the outbox's things look like as events.
//!
//! Not here: the carrier. It gives texts in, takes events out and writes them in its own form.

use crate::auth::{Call, unknown_network};
use crate::wire;
use bytes::Bytes;
use rialto_carrier::standing::Standing;
use rialto_carrier::status::close_code;
use rialto_model::{ErrorCode, Event, Fault, limits};
use rialto_node::budget::{Charge, EndsWhenCrowded};
use rialto_node::delivery::Attempt;
use rialto_node::outbox::{Outlet, Port, outbox};
use rialto_node::{Answered, Caller, Inbox, Network, Out, Outbox, Query, RunPart, Signal, Texts};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes rendered for one write, about.
const RENDER_BYTES: usize = 1 << 20;
/// Events handed over at once, so that other connections have their turn in between.
const TURN_EVENTS: usize = 256;
/// Events asked for at once when mail is looked up.
const LOOKUP_EVENTS: usize = 1024;
/// Bytes rendered for a client that are not counted while it does not read them.
const UNCOUNTED_BYTES: usize = 64 << 10;
/// The join must come within this time.
pub const JOIN_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// Whom a conversation is with.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// A network the caller may know of.
    Network(Network),
    /// A network that is not listed: until the caller has joined, it is told what [`Peer::Nobody`] would tell it.
    Hidden(Network),
    /// There is no such network.
    Nobody,
}

impl Peer {
    pub(crate) fn new(call: &Call) -> Peer {
        if call.hidden {
            Peer::Hidden(call.session.network().clone())
        } else {
            Peer::Network(call.session.network().clone())
        }
    }

    /// Whether the caller may know of it.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self, Peer::Network(_))
    }

    fn network(&self) -> Option<&Network> {
        match self {
            Peer::Network(network) | Peer::Hidden(network) => Some(network),
            Peer::Nobody => None,
        }
    }

    /// The network's id as the caller may see it.
    fn id(&self) -> &str {
        match self {
            Peer::Network(network) => network.id(),
            Peer::Hidden(_) | Peer::Nobody => "local",
        }
    }
}

/// One end of a conversation: what the carrier holds.
#[derive(Debug)]
pub struct Conversation {
    network: Option<Network>,
    caller: Arc<Caller>,
    connection: u64,
    outbox: Outbox,
}

/// One or more events for the client.
#[derive(Debug)]
pub enum Frame {
    /// One event for this client, and which delivery of it where an ack is expected.
    One(Event, Option<u32>),
    /// An event for whoever is there.
    Signal(Arc<Signal>),
    /// Events that other recipients get too.
    Shared(RunPart),
}

impl Frame {
    /// Each event as a text of its own.
    pub fn into_texts(self) -> Vec<Bytes> {
        match self {
            Frame::One(event, attempt) => vec![event.json_as(attempt).into()],
            Frame::Signal(signal) => vec![Bytes::copy_from_slice(signal.text().as_bytes())],
            Frame::Shared(part) => part.texts().collect(),
        }
    }

    /// Bytes of its events, about.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Frame::One(event, _) => event.weight(),
            Frame::Signal(signal) => signal.event().weight(),
            Frame::Shared(part) => part.bytes(),
        }
    }
}

/// What the carrier should do after rendering.
#[derive(Debug, Default)]
pub struct Rendered {
    /// What to send, in order.
    pub frames: Vec<Frame>,
    /// Then close.
    pub close: Option<Close>,
    /// Client events answered by these frames.
    pub answered: usize,
    /// The client has joined.
    pub joined: bool,
    /// What has to be looked up before it goes on; comes after the frames.
    lookup: Option<Lookup>,
    /// What a part of the frames is charged to until it is written.
    pub(crate) charge: Option<Charge>,
}

/// What the store knows and rendering waits for.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// Deliveries, list after list.
    Stored(Vec<Vec<Attempt>>),
    /// A client's query, and the id it has.
    Query(Box<Query>, String),
}

/// What was looked up, rendered.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) frames: Vec<Frame>,
    pub(crate) close: Option<Close>,
    /// What was too much for one write: it comes before everything else.
    rest: Vec<Vec<Attempt>>,
    /// What the frames are charged to until they are written.
    pub(crate) charge: Option<Charge>,
}

impl Looked {
    /// Puts what is left back in front of what waits.
    pub(crate) fn put_back(&mut self, outs: &mut VecDeque<Out>) {
        self.rest.drain(..).rev().for_each(|list| outs.push_front(Out::Stored(list)));
    }
}

impl Rendered {
    /// What has to be looked up, if nobody has begun to.
    pub(crate) fn take_lookup(&mut self) -> Option<Lookup> {
        self.lookup.take()
    }
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Close {
    /// WebSocket close code.
    pub code: u16,
    /// Said with it.
    pub reason: &'static str,
    /// What went wrong; nothing if the client left.
    pub error: Option<ErrorCode>,
}

impl From<ErrorCode> for Close {
    fn from(error: ErrorCode) -> Close {
        Close { code: close_code(error), reason: error.as_str(), error: Some(error) }
    }
}

/// Renders the outbox; remembers what the join said.
#[derive(Debug)]
pub struct Renderer {
    peer: Peer,
    caller: Arc<Caller>,
    address: String,
    batch_acks: bool,
    /// Unreadable texts in a row.
    bad_frames: u32,
    /// The connection, if it can be ended.
    standing: Option<Standing>,
    /// It is, when it holds most of what nobody reads.
    #[allow(dead_code, reason = "held, not read")]
    ends: Option<EndsWhenCrowded>,
}

/// Starts a conversation with a network, for a carrier that takes out of the outbox what it renders.
pub fn converse(network: &Network, caller: Caller) -> (Conversation, Renderer, Inbox) {
    let (outbox, inbox) = outbox(limits::OUTBOX_FRAMES_MAX);
    let renderer = Renderer::new(Peer::Network(network.clone()), caller);
    (Conversation::new(&renderer, outbox), renderer, inbox)
}

/// Starts a conversation, for a carrier that is written to.
pub(crate) fn converse_through<P: Port + 'static>(
    peer: Peer,
    caller: Caller,
    port: impl FnOnce(Renderer) -> P,
) -> (Conversation, Arc<Outlet<P>>) {
    let renderer = Renderer::new(peer, caller);
    let (network, caller) = (renderer.peer.network().cloned(), renderer.caller.clone());
    let connection = network.as_ref().map_or(0, Network::connection);
    let outlet = Arc::new(Outlet::new(limits::OUTBOX_FRAMES_MAX, port(renderer)));
    (Conversation { network, caller, connection, outbox: Outbox::to(&outlet) }, outlet)
}

impl Conversation {
    fn new(renderer: &Renderer, outbox: Outbox) -> Conversation {
        let (network, caller) = (renderer.peer.network().cloned(), renderer.caller.clone());
        let connection = network.as_ref().map_or(0, Network::connection);
        Conversation { network, caller, connection, outbox }
    }

    /// Takes texts that arrived together, each an event or an array of events. Gives how many answers to expect, or
    /// why to close.
    pub async fn receive(&mut self, texts: Texts) -> Result<usize, ErrorCode> {
        let texts = split(texts);
        let count = texts.len();
        let Some(network) = &self.network else {
            if count > 0 {
                // The first refusal ends it.
                self.outbox.refuse(unknown_network());
            }
            return Ok(count);
        };
        let texts = network.room_for(texts).await;
        for piece in texts.pieces(TURN_EVENTS) {
            network
                .session(&self.caller)
                .emit_stream(self.connection, piece, &self.outbox)
                .await
                .map_err(|f| f.code)?;
        }
        Ok(count)
    }

    /// Tells the node that the carrier is gone.
    pub async fn end(self) {
        if let Some(network) = self.network {
            network.close_stream(self.connection).await;
        }
    }
}

/// A refusal that the carrier itself gives, as a text.
pub fn error_line(fault: &Fault) -> Bytes {
    Bytes::from(wire::error_event(fault, None, "core", "local").json())
}

/// An array is its elements; anything else, and an array that is too long, is left for the node to refuse in its turn.
fn split(texts: Texts) -> Texts {
    let is_array = |text: &[u8]| text.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    if !texts.iter().any(is_array) {
        return texts;
    }
    let mut out = Texts::of(texts.block().clone());
    for text in texts.iter() {
        match serde_json::from_slice::<Vec<&RawValue>>(text) {
            Ok(items) if is_array(text) && items.len() <= limits::BATCH_EVENTS_MAX => {
                items.iter().for_each(|raw| out.mark_slice(raw.get().as_bytes()));
            }
            _ => out.mark_slice(text),
        }
    }
    out
}

/// The payload of one ack for many events, as it grows.
#[derive(Debug, Default)]
struct Batch(String);

impl Batch {
    fn add(&mut self, id: &str, seq: u64) {
        // An id needs no escapes.
        self.0.push_str(if self.0.is_empty() { "{\"accepted\":[[\"" } else { ",[\"" });
        self.0.push_str(id);
        self.0.push_str("\",");
        rialto_model::json::push_number(&mut self.0, seq);
        self.0.push(']');
    }

    fn take(&mut self, durability: &str) -> Option<String> {
        let mut payload = std::mem::take(&mut self.0);
        if payload.is_empty() {
            return None;
        }
        payload.push_str("],\"durability\":\"");
        payload.push_str(durability);
        payload.push_str("\"}");
        Some(payload)
    }
}

impl Renderer {
    fn new(peer: Peer, caller: Caller) -> Renderer {
        Renderer {
            peer,
            caller: Arc::new(caller),
            address: "core".to_owned(),
            batch_acks: false,
            bad_frames: 0,
            standing: None,
            ends: None,
        }
    }

    /// The same for a connection that is told when its client has joined, and that can be ended.
    pub(crate) fn on(self, standing: Standing) -> Renderer {
        Renderer { standing: Some(standing), ..self }
    }

    /// Counts bytes that were rendered and wait for the client to read; little is not counted.
    pub(crate) fn hold(&self, bytes: usize) -> Option<Charge> {
        let network = self.peer.network().filter(|_| bytes > UNCOUNTED_BYTES)?;
        Some(network.hold_mail(bytes))
    }

    /// Renders what the outbox brought, from the front, until it is enough for one write or ends the stream. Reads
    /// stored events as needed, so that a long backlog is never in memory as a whole.
    pub async fn render(&mut self, outs: &mut VecDeque<Out>) -> Rendered {
        let mut rendered = self.render_now(outs);
        if let Some(lookup) = rendered.lookup.take() {
            let mut looked = Box::pin(self.look_up(lookup)).await;
            looked.put_back(outs);
            rendered.frames.extend(looked.frames);
            rendered.close = rendered.close.or(looked.close);
            rendered.charge = looked.charge;
        }
        rendered
    }

    /// Like [`Renderer::render`], but stops at what has to be looked up.
    pub(crate) fn render_now(&mut self, outs: &mut VecDeque<Out>) -> Rendered {
        let mut rendered = Rendered::default();
        let mut accepted = Batch::default();
        let mut durability = "sync";
        let mut bytes = 0;
        let mut seen = 0;
        while bytes < RENDER_BYTES && rendered.close.is_none() && rendered.lookup.is_none() {
            bytes += rendered.frames.get(seen..).unwrap_or_default().iter().map(Frame::bytes).sum::<usize>();
            seen = rendered.frames.len();
            let Some(out) = outs.pop_front() else { break };
            match out {
                Out::Answers(mut answers) => {
                    let mut done = 0;
                    for answered in &mut answers {
                        if rendered.lookup.is_some() {
                            break;
                        }
                        done += 1;
                        durability = answered.durability.as_str();
                        self.answer(answered, &mut rendered, &mut accepted, durability);
                    }
                    rendered.answered += done;
                    if done < answers.len() {
                        outs.push_front(Out::Answers(answers.split_off(done)));
                    }
                }
                Out::Delivery(part) => rendered.frames.push(Frame::Shared(part)),
                Out::Stored(attempts) => {
                    let mut lists = vec![attempts];
                    while let Some(Out::Stored(more)) = outs.front_mut() {
                        lists.push(std::mem::take(more));
                        outs.pop_front();
                    }
                    rendered.lookup = Some(Lookup::Stored(lists));
                }
                Out::Signal(signal) => rendered.frames.push(Frame::Signal(signal)),
                Out::Close(code) => {
                    self.flush_acks(&mut accepted, durability, &mut rendered);
                    let error = wire::error_event(&Fault::from(code), None, &self.address, self.peer.id());
                    rendered.frames.push(Frame::One(error, None));
                    rendered.close = Some(code.into());
                }
            }
        }
        self.flush_acks(&mut accepted, durability, &mut rendered);
        rendered
    }

    fn answer(&mut self, answered: &mut Answered, rendered: &mut Rendered, accepted: &mut Batch, durability: &str) {
        let id = answered.event_id();
        let result = match &answered.result {
            // One refusal for all, however many there would be: a network that is not there gives one.
            Err(_) if !self.peer.is_known() && rendered.close.is_some() => return,
            Err(_) if !self.peer.is_known() => {
                let fault = unknown_network();
                let error = wire::error_event(&fault, None, &self.address, self.peer.id());
                rendered.frames.push(Frame::One(error, None));
                rendered.close = rendered.close.or(Some(fault.code.into()));
                return;
            }
            Err(fault) => {
                self.flush_acks(accepted, durability, rendered);
                let error = wire::error_event(fault, id, &self.address, self.peer.id());
                rendered.frames.push(Frame::One(error, None));
                self.bad_frames = if fault.code == ErrorCode::InvalidJson { self.bad_frames + 1 } else { 0 };
                if self.bad_frames >= limits::BAD_FRAMES_MAX {
                    rendered.close = rendered.close.or(Some(fault.code.into()));
                }
                return;
            }
            Ok(result) => result,
        };
        self.bad_frames = 0;
        if let Some(joined) = &result.joined {
            self.batch_acks = joined.batch_acks;
            if let Peer::Hidden(network) = &self.peer {
                self.peer = Peer::Network(network.clone());
            }
            // Queries of this stream run as the member that joined.
            self.caller = Arc::new(Caller { stream: Some(joined.session), ..Caller::default() });
            rendered.joined = true;
            if let (Some(standing), Some(network)) = (&self.standing, self.peer.network()) {
                standing.prove();
                let standing = standing.clone();
                self.ends = network.ends_when_crowded(&self.caller, move || standing.dismiss());
            }
            let address = result.result.as_ref().and_then(|r| r.get("address")).and_then(serde_json::Value::as_str);
            self.address = address.unwrap_or("core").to_owned();
        }
        let plain = self.batch_acks
            && result.joined.is_none()
            && result.result.is_none()
            && result.response.is_none()
            && answered.query.is_none();
        match (plain, result.seq) {
            (true, Some(seq)) if !answered.silent => accepted.add(result.event_id(), seq),
            _ => {
                if !answered.silent {
                    self.flush_acks(accepted, durability, rendered);
                    let ack = wire::server_event(
                        "network.event.ack",
                        &self.address,
                        self.peer.id(),
                        &wire::ack_payload(answered),
                        id,
                    );
                    rendered.frames.push(Frame::One(ack, None));
                }
            }
        }
        if let Some(response) = &result.response {
            rendered.frames.push(Frame::One(response.as_ref().clone(), None));
        }
        if result.left {
            rendered.close = Some(Close { code: 1000, reason: "left", error: None });
        }
        // A stream that ends asks nothing any more.
        if rendered.close.is_none()
            && let Some(query) = answered.query.take()
        {
            let id = answered.event_id().unwrap_or_default().to_owned();
            rendered.lookup = Some(Lookup::Query(query, id));
        }
    }

    /// Looks up what rendering stopped at. Dropped it loses nothing but the time.
    pub(crate) fn look_up(&self, lookup: Lookup) -> impl Future<Output = Looked> + Send + use<> {
        let (network, caller, address) = (self.peer.network().cloned(), self.caller.clone(), self.address.clone());
        async move {
            // Only who has joined has anything to be looked up.
            let Some(network) = network else { return Looked::default() };
            match lookup {
                Lookup::Stored(lists) => {
                    let (most, mut charge) = network.room_for_mail(&caller).await;
                    let looked = stored(&network, &address, lists, most).await;
                    let bytes = looked.frames.iter().map(Frame::bytes).sum();
                    charge.iter_mut().for_each(|charge| charge.resize(bytes));
                    Looked { charge, ..looked }
                }
                Lookup::Query(query, id) => {
                    let mut charge = None;
                    let page = match network.reserve(&caller).await {
                        Ok(reserved) => {
                            charge = reserved;
                            network.session(&caller).query(&query).await
                        }
                        Err(fault) => Err(fault),
                    };
                    let event = match page {
                        Ok(page) => {
                            let payload = wire::page_json(&page, false);
                            wire::server_event("network.events.response", &address, network.id(), &payload, Some(&id))
                        }
                        Err(fault) => wire::error_event(&fault, Some(&id), &address, network.id()),
                    };
                    charge.iter_mut().for_each(|charge| charge.resize(event.weight()));
                    Looked { frames: vec![Frame::One(event, None)], charge, ..Looked::default() }
                }
            }
        }
    }

    /// A refusal of the whole stream, before it is closed.
    pub(crate) fn refusal(&self, code: ErrorCode) -> Frame {
        Frame::One(wire::error_event(&Fault::from(code), None, &self.address, self.peer.id()), None)
    }

    /// One ack for all events accepted by a commit.
    fn flush_acks(&self, accepted: &mut Batch, durability: &str, rendered: &mut Rendered) {
        let Some(payload) = accepted.take(durability) else { return };
        let ack = wire::server_event("network.event.ack", &self.address, self.peer.id(), &payload, None);
        rendered.frames.push(Frame::One(ack, None));
    }
}

/// The lists, each rising, and those that go on where another ends as one: they are read in one go.
fn joined(lists: Vec<Vec<Attempt>>) -> Vec<Vec<Attempt>> {
    let mut out: Vec<Vec<Attempt>> = Vec::new();
    for mut list in lists {
        list.sort_unstable_by_key(|a| a.seq);
        match out.last_mut() {
            Some(before) if before.last().map(|a| a.seq) < list.first().map(|a| a.seq) => before.append(&mut list),
            _ => out.push(list),
        }
    }
    out
}

/// Reads deliveries until they are about so many bytes.
async fn stored(network: &Network, address: &str, lists: Vec<Vec<Attempt>>, most: usize) -> Looked {
    let mut looked = Looked::default();
    let mut bytes = 0;
    for mut attempts in joined(lists) {
        while !attempts.is_empty() && bytes < most && looked.close.is_none() {
            let seqs = attempts.iter().take(LOOKUP_EVENTS).map(|a| a.seq).collect();
            match network.read_some(seqs, most - bytes).await {
                Ok((records, looked_at)) => {
                    let rest = attempts.split_off(looked_at.clamp(1, attempts.len()));
                    for record in records {
                        let attempt = attempts.binary_search_by_key(&record.event.seq, |a| a.seq);
                        let attempt = attempt.ok().and_then(|at| attempts.get(at)).filter(|a| a.tracked);
                        bytes += record.event.json_len();
                        looked.frames.push(Frame::One(record.event.clone(), attempt.map(|a| a.attempt)));
                    }
                    attempts = rest;
                }
                Err(fault) => {
                    let error = wire::error_event(&fault, None, address, network.id());
                    looked.frames.push(Frame::One(error, None));
                    looked.close = Some(Close { code: 1011, ..fault.code.into() });
                }
            }
        }
        if !attempts.is_empty() {
            looked.rest.push(attempts);
        }
    }
    looked
}
