//! Sending one event: what is sent, and what became of it.

use crate::session::Session;
use crate::texts::Texts;
use bytes::Bytes;
use rialto_model::network::Durability;
use rialto_model::{ErrorCode, Event, Fault, Seq, Visibility};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;

/// An event that is to be sent. Its source is whoever sends it.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Its type.
    pub kind: String,
    /// Where it goes.
    pub target: String,
    /// Its id, if the sender chooses one: the same id with the same content is the same event.
    pub id: Option<String>,
    /// A name of the sender's for this event, where it has no id: the same key again is the same event.
    pub key: Option<String>,
    /// What it says, as JSON.
    pub payload: Box<RawValue>,
    /// The event that it answers.
    pub in_reply_to: Option<String>,
    /// The thread of a channel that it belongs to.
    pub thread: Option<String>,
    /// Who may see it, if that is not what its target means.
    pub visibility: Option<Visibility>,
    /// Further members of its metadata.
    pub metadata: Vec<(String, Box<RawValue>)>,
}

/// What became of an event that was taken.
#[derive(Debug, Clone)]
pub struct Receipt {
    /// Its id.
    pub id: String,
    /// Its position, if it has one: what is never stored has none.
    pub seq: Option<Seq>,
    /// It was there already.
    pub duplicate: bool,
    /// What the answer promises.
    pub durability: Durability,
    /// The answer of the network, where the event was a question.
    pub response: Option<Arc<Event>>,
}

impl Draft {
    /// An event of this type.
    pub fn new(kind: &str, target: &str, payload: &impl Serialize) -> Result<Draft, Fault> {
        let payload = serde_json::value::to_raw_value(payload)
            .map_err(|error| Fault::new(ErrorCode::InvalidPayload, error.to_string()).field("payload"))?;
        Ok(Draft {
            kind: kind.to_owned(),
            target: target.to_owned(),
            id: None,
            key: None,
            payload,
            in_reply_to: None,
            thread: None,
            visibility: None,
            metadata: Vec::new(),
        })
    }

    /// A message that says this text.
    pub fn message(target: &str, text: &str) -> Result<Draft, Fault> {
        #[derive(Serialize)]
        struct Message<'a> {
            content: &'a str,
        }
        Draft::new("workspace.message.posted", target, &Message { content: text })
    }

    /// The event as the network's task reads it.
    pub(crate) fn frame(&self) -> Result<Bytes, Fault> {
        #[derive(Serialize)]
        struct Frame<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a str>,
            r#type: &'a str,
            target: &'a str,
            payload: &'a RawValue,
            metadata: Map<String, Value>,
            #[serde(skip_serializing_if = "Option::is_none")]
            visibility: Option<&'a str>,
        }
        let mut metadata = Map::new();
        for (name, value) in &self.metadata {
            let value = serde_json::from_str(value.get());
            let unreadable = |_| Fault::new(ErrorCode::InvalidEvent, format!("metadata.{name} is nested too deeply"));
            metadata.insert(name.clone(), value.map_err(unreadable)?);
        }
        for (name, value) in [("in_reply_to", &self.in_reply_to), ("thread", &self.thread)] {
            if let Some(value) = value {
                metadata.insert(name.to_owned(), value.as_str().into());
            }
        }
        let frame = Frame {
            id: self.id.as_deref(),
            r#type: &self.kind,
            target: &self.target,
            payload: &self.payload,
            metadata,
            visibility: self.visibility.map(Visibility::as_str),
        };
        serde_json::to_vec(&frame).map(Bytes::from).map_err(|_| ErrorCode::Internal.into())
    }
}

impl Session {
    /// Sends one event and waits until it is committed, or refused.
    pub async fn send(&self, draft: &Draft) -> Result<Receipt, Fault> {
        let frame = draft.frame()?;
        let answers = match &draft.key {
            Some(key) if draft.id.is_none() => self.emit_keyed(frame, key.clone()).await?,
            Some(_) | None => self.emit(Texts::one(frame)).await?,
        };
        let answered = answers.into_iter().next().ok_or(ErrorCode::Internal)?;
        let accepted = answered.result?;
        Ok(Receipt {
            id: accepted.event_id().to_owned(),
            seq: accepted.seq,
            duplicate: accepted.duplicate,
            durability: answered.durability,
            response: accepted.response,
        })
    }
}
