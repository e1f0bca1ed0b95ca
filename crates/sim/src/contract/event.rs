//! Events as a test writes them and as a receiver gets them, whatever the carrier.

use rialto_openagents::grpc::pb;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// An event to send. Payload and metadata are JSON text and travel byte for byte.
#[derive(Debug, Clone)]
pub struct Draft {
    pub id: String,
    pub kind: &'static str,
    pub source: Option<String>,
    pub target: String,
    pub payload: String,
    pub metadata: String,
}

impl Draft {
    /// A note: an extension type that the node does not interpret.
    pub fn note(id: &str, target: &str, payload: &str) -> Draft {
        let (id, target) = (id.to_owned(), target.to_owned());
        Draft { id, kind: "test.note.posted", source: None, target, payload: payload.to_owned(), metadata: "{}".into() }
    }

    /// A message that says this text: what every face can carry.
    pub fn saying(id: &str, target: &str, text: &str) -> Draft {
        Draft::note(id, target, &json!({ "content": text }).to_string())
    }

    /// The text of a message; empty when it has none.
    pub fn text(&self) -> String {
        content(&self.payload)
    }

    /// With metadata, an object as text.
    pub fn metadata(self, metadata: &str) -> Draft {
        Draft { metadata: metadata.to_owned(), ..self }
    }

    /// As one line of JSON.
    pub fn json(&self) -> String {
        let source = self.source.as_ref().map(|s| format!(r#""source":{},"#, json!(s))).unwrap_or_default();
        let Draft { id, kind, target, payload, metadata, .. } = self;
        format!(
            r#"{{"id":"{id}","type":"{kind}",{source}"target":"{target}","payload":{payload},"metadata":{metadata}}}"#
        )
    }

    /// As gRPC carries it.
    pub fn protobuf(&self) -> pb::Event {
        pb::Event {
            id: self.id.clone().into(),
            r#type: self.kind.to_owned().into(),
            source: self.source.clone().unwrap_or_default().into(),
            target: self.target.clone().into(),
            payload: self.payload.clone().into(),
            metadata: self.metadata.clone().into(),
            ..pb::Event::default()
        }
    }
}

/// An event as it came: nine fields, the delivery marks apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Got {
    pub id: String,
    pub kind: String,
    pub source: String,
    pub target: String,
    pub payload: String,
    pub metadata: Value,
    pub timestamp: i64,
    pub network: String,
    pub visibility: String,
}

const FIELDS: [&str; 9] =
    ["id", "metadata", "network", "payload", "source", "target", "timestamp", "type", "visibility"];

impl Got {
    /// Reads JSON; exactly the nine fields must be there.
    pub fn of_json(text: &str) -> Result<Got, String> {
        let fields: BTreeMap<&str, &RawValue> = serde_json::from_str(text).map_err(|e| format!("{e}: {text}"))?;
        let names: Vec<&str> = fields.keys().copied().collect();
        if names != FIELDS {
            return Err(format!("not the nine fields: {names:?}"));
        }
        let text = |name: &str| serde_json::from_str::<String>(fields[name].get()).map_err(|e| format!("{name}: {e}"));
        Ok(Got {
            id: text("id")?,
            kind: text("type")?,
            source: text("source")?,
            target: text("target")?,
            payload: fields["payload"].get().to_owned(),
            metadata: unmarked(fields["metadata"].get())?,
            timestamp: fields["timestamp"].get().parse().map_err(|e| format!("timestamp: {e}"))?,
            network: text("network")?,
            visibility: text("visibility")?,
        })
    }

    /// Reads what gRPC carries.
    pub fn of_protobuf(event: pb::Event) -> Result<Got, String> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|e| e.to_string());
        Ok(Got {
            id: text(&event.id)?,
            kind: text(&event.r#type)?,
            source: text(&event.source)?,
            target: text(&event.target)?,
            payload: text(&event.payload)?,
            metadata: unmarked(&text(&event.metadata)?)?,
            timestamp: event.timestamp,
            network: text(&event.network)?,
            visibility: text(&event.visibility)?,
        })
    }

    /// The payload as a value.
    pub fn payload(&self) -> Value {
        serde_json::from_str(&self.payload).unwrap_or_default()
    }

    /// The text of a message; empty when it has none.
    pub fn text(&self) -> String {
        content(&self.payload)
    }

    /// The event this one answers.
    pub fn in_reply_to(&self) -> Option<&str> {
        self.metadata.get("in_reply_to").and_then(Value::as_str)
    }
}

fn content(payload: &str) -> String {
    let payload: Value = serde_json::from_str(payload).unwrap_or_default();
    payload["content"].as_str().unwrap_or_default().to_owned()
}

/// Metadata without what tells one delivery from another.
fn unmarked(text: &str) -> Result<Value, String> {
    let mut metadata: Value = serde_json::from_str(text).map_err(|e| format!("metadata: {e}"))?;
    let map = metadata.as_object_mut().ok_or("metadata is no object")?;
    map.remove("seq");
    map.remove("attempt");
    Ok(metadata)
}

/// Why an event was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub code: String,
    pub event_id: String,
    pub retryable: bool,
}

impl Refused {
    /// From the payload of an error, in JSON.
    pub fn of(error: &Value) -> Refused {
        Refused {
            code: error["code"].as_str().unwrap_or_default().to_owned(),
            event_id: error["event_id"].as_str().unwrap_or_default().to_owned(),
            retryable: error["retryable"].as_bool().unwrap_or_default(),
        }
    }
}
