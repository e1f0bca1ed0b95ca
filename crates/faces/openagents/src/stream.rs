//! The stream conversation (sheet section 12.1), the same on WebSocket, stdio and gRPC: what a client's frames become
//! and what the outbox's things look like as events.
//!
//! Not here: the carrier. It gives frames in and takes rendered texts out.

use crate::error::close_code;
use crate::wire;
use bytes::Bytes;
use rialto_model::{ErrorCode, Event, Fault, limits};
use rialto_node::{Answered, Caller, Network, Out, Outbox, Part, Texts};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Bytes rendered for one write, about.
const RENDER_BYTES: usize = 4 << 20;
/// Events handed over at once, so that other connections have their turn in between.
const TURN_EVENTS: usize = 256;
/// Events read from the store at once.
const STORED_AT_ONCE: usize = 32;
/// The join must come within this time.
pub const JOIN_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

/// One end of a conversation: what the carrier holds.
#[derive(Debug)]
pub struct Conversation {
    network: Network,
    caller: Arc<Caller>,
    connection: u64,
    outbox: Outbox,
}

/// One or more events for the client.
#[derive(Debug)]
pub enum Frame {
    /// One event as text.
    Text(Bytes),
    /// Events that other recipients get too.
    Shared(Part),
}

impl Frame {
    fn of(event: &Event) -> Frame {
        Frame::Text(Bytes::copy_from_slice(event.json().as_bytes()))
    }

    /// Each event as a text of its own.
    pub fn into_texts(self) -> Vec<Bytes> {
        match self {
            Frame::Text(text) => vec![text],
            Frame::Shared(part) => part.texts().collect(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Frame::Text(text) => text.len(),
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
    network: Network,
    caller: Arc<Caller>,
    address: String,
    batch_acks: bool,
    /// Unreadable texts in a row.
    bad_frames: u32,
}

/// Starts a conversation with a network.
pub fn converse(network: &Network, caller: Caller) -> (Conversation, Renderer, mpsc::Receiver<Vec<Out>>) {
    let (outbox, inbox) = mpsc::channel(limits::OUTBOX_FRAMES_MAX);
    let caller = Arc::new(caller);
    let connection = network.connection();
    let conversation = Conversation { network: network.clone(), caller: caller.clone(), connection, outbox };
    let renderer =
        Renderer { network: network.clone(), caller, address: "core".to_owned(), batch_acks: false, bad_frames: 0 };
    (conversation, renderer, inbox)
}

impl Conversation {
    /// Takes texts that arrived together, each an event or an array of events. Gives how many answers to expect, or
    /// why to close.
    pub async fn receive(&mut self, texts: Texts) -> Result<usize, ErrorCode> {
        let texts = split(texts);
        let count = texts.len();
        for piece in texts.pieces(TURN_EVENTS) {
            self.network.emit_stream(self.connection, &self.caller, piece, &self.outbox).await.map_err(|f| f.code)?;
        }
        Ok(count)
    }

    /// Tells the node that the carrier is gone.
    pub async fn end(self) {
        self.network.close_stream(self.connection).await;
    }
}

/// A refusal that the carrier itself gives, as a text.
pub fn error_line(fault: &Fault) -> Bytes {
    Bytes::copy_from_slice(wire::error_event(fault, None, "core", "local").json().as_bytes())
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
    /// Renders what the outbox brought, from the front, until it is enough for one write or ends the stream. Reads
    /// stored events as needed, so that a long backlog is never in memory as a whole.
    pub async fn render(&mut self, outs: &mut VecDeque<Out>) -> Rendered {
        let mut rendered = Rendered::default();
        let mut accepted = Batch::default();
        let mut durability = "sync";
        let mut bytes = 0;
        let mut seen = 0;
        while bytes < RENDER_BYTES && rendered.close.is_none() {
            bytes += rendered.frames.get(seen..).unwrap_or_default().iter().map(Frame::bytes).sum::<usize>();
            seen = rendered.frames.len();
            let Some(out) = outs.pop_front() else { break };
            match out {
                Out::Answers(answers) => {
                    for answered in answers {
                        rendered.answered += 1;
                        durability = answered.durability.as_str();
                        self.answer(answered, &mut rendered, &mut accepted, durability).await;
                    }
                }
                Out::Delivery(part) => rendered.frames.push(Frame::Shared(part)),
                Out::Stored(mut attempts) => {
                    let rest = attempts.split_off(attempts.len().min(STORED_AT_ONCE));
                    if !rest.is_empty() {
                        outs.push_front(Out::Stored(rest));
                    }
                    self.stored(&attempts, &mut rendered).await;
                }
                Out::Signal(event) => rendered.frames.push(Frame::of(&event)),
                Out::Close(code) => {
                    self.flush_acks(&mut accepted, durability, &mut rendered);
                    let error = wire::error_event(&Fault::from(code), None, &self.address, self.network.id());
                    rendered.frames.push(Frame::of(&error));
                    rendered.close = Some(code.into());
                }
            }
        }
        self.flush_acks(&mut accepted, durability, &mut rendered);
        rendered
    }

    async fn answer(&mut self, answered: Answered, rendered: &mut Rendered, accepted: &mut Batch, durability: &str) {
        let id = answered.event_id();
        let result = match &answered.result {
            Err(fault) => {
                self.flush_acks(accepted, durability, rendered);
                let error = wire::error_event(fault, id, &self.address, self.network.id());
                rendered.frames.push(Frame::of(&error));
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
            // Queries of this stream run as the member that joined.
            self.caller = Arc::new(Caller { stream: Some(joined.session), ..Caller::default() });
            rendered.joined = true;
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
                        self.network.id(),
                        &wire::ack_payload(&answered),
                        id,
                    );
                    rendered.frames.push(Frame::of(&ack));
                }
            }
        }
        if let Some(response) = &result.response {
            rendered.frames.push(Frame::of(response));
        }
        if let Some(query) = &answered.query {
            let event = match self.network.query(&self.caller, query).await {
                Ok(page) => {
                    let payload = wire::page_json(&page.events, page.has_more, page.next, false);
                    wire::server_event("network.events.response", &self.address, self.network.id(), &payload, id)
                }
                Err(fault) => wire::error_event(&fault, id, &self.address, self.network.id()),
            };
            rendered.frames.push(Frame::of(&event));
        }
        if result.left {
            rendered.close = Some(Close { code: 1000, reason: "left", error: None });
        }
    }

    /// A refusal of the whole stream, before it is closed.
    pub fn refusal(&self, code: ErrorCode) -> Bytes {
        let error = wire::error_event(&Fault::from(code), None, &self.address, self.network.id());
        Bytes::copy_from_slice(error.json().as_bytes())
    }

    /// One ack for all events accepted by a commit.
    fn flush_acks(&self, accepted: &mut Batch, durability: &str, rendered: &mut Rendered) {
        let Some(payload) = accepted.take(durability) else { return };
        let ack = wire::server_event("network.event.ack", &self.address, self.network.id(), &payload, None);
        rendered.frames.push(Frame::of(&ack));
    }

    async fn stored(&self, attempts: &[rialto_node::delivery::Attempt], rendered: &mut Rendered) {
        let mut seqs: Vec<u64> = attempts.iter().map(|a| a.seq).collect();
        seqs.sort_unstable();
        match self.network.read(seqs).await {
            Ok(records) => {
                for record in records {
                    let attempt = attempts.iter().find(|a| a.seq == record.event.seq);
                    let text = match attempt {
                        Some(a) if a.tracked => record.event.tracked_json(a.attempt),
                        _ => record.event.json().to_owned(),
                    };
                    rendered.frames.push(Frame::Text(Bytes::from(text)));
                }
            }
            Err(fault) => {
                let error = wire::error_event(&fault, None, &self.address, self.network.id());
                rendered.frames.push(Frame::of(&error));
                rendered.close = Some(Close { code: 1011, ..fault.code.into() });
            }
        }
    }
}
