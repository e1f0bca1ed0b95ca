//! Events as a client builds and receives them (sheet section 4.1).

use rialto_model::EventId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// An event to be sent; the node fills in what is absent.
#[derive(Debug, Clone, Serialize)]
pub struct Draft {
    /// Idempotency key. A draft without one gets a fresh id before it is sent, so that a repeat is recognised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Event type, such as `workspace.message.posted`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The sender; must be the speaker itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where it goes.
    pub target: String,
    /// A JSON object; its bytes are sent as they are.
    pub payload: Box<RawValue>,
    /// Metadata; reserved keys as in sheet section 4.4.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Who may see it; by target when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<String>,
}

impl Draft {
    /// An event of this type to this target.
    pub fn new(kind: impl Into<String>, target: impl Into<String>, payload: Value) -> Draft {
        Draft {
            id: None,
            kind: kind.into(),
            source: None,
            target: target.into(),
            payload: Draft::raw(&payload),
            metadata: Map::new(),
            visibility: None,
        }
    }

    /// A value as the text that is sent.
    pub fn raw(payload: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(payload).unwrap_or_else(|_| empty_object())
    }

    /// A chat message.
    pub fn message(target: impl Into<String>, content: &str) -> Draft {
        let payload = serde_json::json!({ "content": content });
        Draft::new("workspace.message.posted", target, payload)
    }

    /// The same event with one metadata key set.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Draft {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    /// The id this event is sent under, made now if there was none.
    pub fn ensure_id(&mut self) -> &str {
        self.id.get_or_insert_with(fresh_id)
    }
}

/// An event as the node delivers and lists it. Payload bytes are kept as they came.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the nine fields of the envelope, by their names")]
pub struct Event {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub source: String,
    pub target: String,
    #[serde(default = "empty_object")]
    pub payload: Box<RawValue>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
    #[serde(default)]
    pub timestamp: u64,
    #[serde(default)]
    pub network: String,
    #[serde(default)]
    pub visibility: String,
}

impl Event {
    /// The payload as a value.
    pub fn payload_value(&self) -> Value {
        serde_json::from_str(self.payload.get()).unwrap_or(Value::Null)
    }

    /// A text of the metadata, such as `in_reply_to`.
    pub fn metadata_text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).and_then(Value::as_str)
    }

    /// The event this one answers.
    pub fn in_reply_to(&self) -> Option<&str> {
        self.metadata_text("in_reply_to")
    }

    /// Position in the network, where the node tells it.
    pub fn seq(&self) -> Option<u64> {
        self.metadata.get("seq").and_then(Value::as_u64)
    }

    /// How often it was delivered; present exactly when an ack is expected.
    pub fn attempt(&self) -> Option<u64> {
        self.metadata.get("attempt").and_then(Value::as_u64)
    }
}

/// An event received on a stream.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The event itself.
    pub event: Event,
    /// Whether an ack is expected.
    pub tracked: bool,
}

/// The node's promise for one sent event.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Receipt {
    /// The event's id.
    pub event_id: String,
    /// Its position; absent for what is never stored.
    #[serde(default)]
    pub seq: Option<u64>,
    /// Whether the node had it already.
    #[serde(default)]
    pub duplicate: bool,
    /// What the promise is worth: `sync`, `os` or `memory`.
    #[serde(default)]
    pub durability: Option<String>,
    /// The result of a request to `core`.
    #[serde(default)]
    pub result: Option<Value>,
}

/// One page of history or inbox.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct Page {
    /// The events, in the order asked for.
    pub events: Vec<Event>,
    /// Whether there are more.
    #[serde(default)]
    pub has_more: bool,
    /// First id of the page.
    #[serde(default)]
    pub oldest_id: Option<String>,
    /// Last id of the page.
    #[serde(default)]
    pub newest_id: Option<String>,
    /// Where to go on, also when nothing matched.
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// Of a search: every event up to this position was in the index; the rest was read from the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexed_through: Option<u64>,
    /// Of a search: the network's last position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<u64>,
}

/// A new event id: `c`, then the time and 80 random bits in ULID digits. The letter in front keeps it apart from the ids
/// that nodes make, which carry a position and are refused from clients.
pub fn fresh_id() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let mut bytes = [0u8; 10];
    if getrandom::fill(&mut bytes).is_err() {
        // No randomness: the clock's nanoseconds and a counter still tell ids of one process apart.
        let nanos = now.subsec_nanos();
        let [a, b, c, d] = nanos.to_be_bytes();
        let [e, f, g, h] = COUNTER.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_be_bytes();
        bytes = [a, b, c, d, e, f, g, h, 0, 0];
    }
    let [a, b, c, d, e, f, g, h, i, j] = bytes;
    let seq = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let salt = u16::from_be_bytes([i, j]);
    format!("c{}", EventId { at, seq, salt }.to_text())
}

static COUNTER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_bytes_survive_a_round_trip() {
        let text = r#"{"id":"e1","type":"a.b","source":"agent:a","target":"core","payload":{"n": 1.00,"n":2},"metadata":{"seq":7,"attempt":1,"in_reply_to":"e0"},"timestamp":5,"network":"n","visibility":"direct"}"#;
        let event: Event = serde_json::from_str(text).unwrap();
        assert!(serde_json::to_string(&event).unwrap().contains(r#"{"n": 1.00,"n":2}"#));
        assert_eq!((event.seq(), event.attempt()), (Some(7), Some(1)));
        assert_eq!(event.in_reply_to(), Some("e0"));
    }

    #[test]
    fn a_draft_says_only_what_was_said() {
        let draft = Draft::message("channel/general", "hi").with("receipt", true);
        assert_eq!(
            serde_json::to_string(&draft).unwrap(),
            r#"{"type":"workspace.message.posted","target":"channel/general","payload":{"content":"hi"},"metadata":{"receipt":true}}"#
        );
    }

    #[test]
    fn fresh_ids_are_legal_and_differ() {
        let (a, b) = (fresh_id(), fresh_id());
        assert!(EventId::is_legal(&a) && a != b);
        assert_eq!(EventId::from_text(&a), None);
    }
}
