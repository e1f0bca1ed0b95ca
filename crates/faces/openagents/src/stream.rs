//! The stream conversation (sheet section 12.1), the same on WebSocket, stdio and gRPC: what a client's frames become
//! and what the outbox's things look like as events.
//!
//! Not here: the carrier. It gives frames in and takes rendered texts out.

use crate::error::close_code;
use crate::wire;
use bytes::Bytes;
use rialto_model::{ErrorCode, Fault, limits};
use rialto_node::{Answered, Caller, Network, Out, Outbox};
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Bytes rendered for one write, about.
const RENDER_BYTES: usize = 4 << 20;
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

/// What the carrier should do after rendering.
#[derive(Debug, Default)]
pub struct Rendered {
    /// Texts to send, one event each.
    pub frames: Vec<Bytes>,
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
    /// Takes one text: an event or an array of events. Gives how many answers to expect, or why to close.
    pub async fn receive(&mut self, text: Bytes) -> Result<usize, ErrorCode> {
        self.receive_all(vec![text]).await
    }

    /// Takes several texts that arrived together.
    pub async fn receive_all(&mut self, texts: Vec<Bytes>) -> Result<usize, ErrorCode> {
        let mut frames = Vec::with_capacity(texts.len());
        for text in texts {
            split(text, &mut frames);
        }
        let count = frames.len();
        for part in chunks(frames) {
            self.network.emit_stream(self.connection, &self.caller, part, &self.outbox).await.map_err(|f| f.code)?;
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
fn split(text: Bytes, frames: &mut Vec<Bytes>) {
    if text.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[')
        && let Ok(items) = serde_json::from_slice::<Vec<&RawValue>>(&text)
        && items.len() <= limits::BATCH_EVENTS_MAX
    {
        frames.extend(items.iter().map(|raw| text.slice_ref(raw.get().as_bytes())));
    } else {
        frames.push(text);
    }
}

/// Pieces small enough that other connections have their turn in between.
fn chunks(mut frames: Vec<Bytes>) -> Vec<Vec<Bytes>> {
    let mut out = Vec::new();
    while frames.len() > 256 {
        let rest = frames.split_off(256);
        out.push(std::mem::replace(&mut frames, rest));
    }
    out.push(frames);
    out
}

impl Renderer {
    /// Renders what the outbox brought, from the front, until it is enough for one write or ends the stream. Reads
    /// stored events as needed, so that a long backlog is never in memory as a whole.
    pub async fn render(&mut self, outs: &mut VecDeque<Out>) -> Rendered {
        let mut rendered = Rendered::default();
        let mut accepted: Vec<(String, u64)> = Vec::new();
        let mut durability = "sync";
        let mut bytes = 0;
        let mut seen = 0;
        while bytes < RENDER_BYTES && rendered.close.is_none() {
            bytes += rendered.frames.get(seen..).unwrap_or_default().iter().map(Bytes::len).sum::<usize>();
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
                Out::Delivery { frame, .. } => rendered.frames.push(frame),
                Out::Stored(mut attempts) => {
                    let rest = attempts.split_off(attempts.len().min(STORED_AT_ONCE));
                    if !rest.is_empty() {
                        outs.push_front(Out::Stored(rest));
                    }
                    self.stored(&attempts, &mut rendered).await;
                }
                Out::Signal(event) => rendered.frames.push(Bytes::copy_from_slice(event.json().as_bytes())),
                Out::Close(code) => {
                    self.flush_acks(&mut accepted, durability, &mut rendered);
                    let error = wire::error_event(&Fault::from(code), None, &self.address, self.network.id());
                    rendered.frames.push(Bytes::copy_from_slice(error.json().as_bytes()));
                    rendered.close = Some(code.into());
                }
            }
        }
        self.flush_acks(&mut accepted, durability, &mut rendered);
        rendered
    }

    async fn answer(
        &mut self,
        answered: Answered,
        rendered: &mut Rendered,
        accepted: &mut Vec<(String, u64)>,
        durability: &str,
    ) {
        let id = answered.event_id.as_deref();
        let result = match &answered.result {
            Err(fault) => {
                self.flush_acks(accepted, durability, rendered);
                let error = wire::error_event(fault, id, &self.address, self.network.id());
                rendered.frames.push(Bytes::copy_from_slice(error.json().as_bytes()));
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
            (true, Some(seq)) if !answered.silent => accepted.push((result.event_id.clone(), seq)),
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
                    rendered.frames.push(Bytes::copy_from_slice(ack.json().as_bytes()));
                }
            }
        }
        if let Some(response) = &result.response {
            rendered.frames.push(Bytes::copy_from_slice(response.json().as_bytes()));
        }
        if let Some(query) = &answered.query {
            let event = match self.network.query(&self.caller, query).await {
                Ok(page) => {
                    let payload = wire::page_json(&page.events, page.has_more, page.next, false);
                    wire::server_event("network.events.response", &self.address, self.network.id(), &payload, id)
                }
                Err(fault) => wire::error_event(&fault, id, &self.address, self.network.id()),
            };
            rendered.frames.push(Bytes::copy_from_slice(event.json().as_bytes()));
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
    fn flush_acks(&self, accepted: &mut Vec<(String, u64)>, durability: &str, rendered: &mut Rendered) {
        if accepted.is_empty() {
            return;
        }
        let mut payload = String::from("{\"accepted\":[");
        for (i, (id, seq)) in accepted.drain(..).enumerate() {
            payload.push_str(if i > 0 { ",[" } else { "[" });
            rialto_model::json::push_string(&mut payload, &id);
            payload.push(',');
            payload.push_str(&seq.to_string());
            payload.push(']');
        }
        payload.push_str(&format!("],\"durability\":\"{durability}\"}}"));
        let ack = wire::server_event("network.event.ack", &self.address, self.network.id(), &payload, None);
        rendered.frames.push(Bytes::copy_from_slice(ack.json().as_bytes()));
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
                    rendered.frames.push(Bytes::from(text));
                }
            }
            Err(fault) => {
                let error = wire::error_event(&fault, None, &self.address, self.network.id());
                rendered.frames.push(Bytes::copy_from_slice(error.json().as_bytes()));
                rendered.close = Some(Close { code: 1011, ..fault.code.into() });
            }
        }
    }
}
