//! What clients say of work: `metadata.work`, and the payloads of `work.*`.

use rialto_model::metadata::Metadata;
use rialto_model::{ErrorCode, Fault, Millis, hex, limits};
use serde_json::{Map, Value};

/// Shortest and longest silence a requester may allow.
const DEADLINE_MS: std::ops::RangeInclusive<Millis> = 1_000..=7 * 24 * 3_600_000;

/// `metadata.work`.
#[derive(Debug, Default)]
pub(super) struct WorkMetadata {
    pub(super) id: Option<String>,
    pub(super) context: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) skill: Option<String>,
    pub(super) deadline_ms: Option<Millis>,
    /// It asks for a unit, whatever its id names: it is never a message inside one.
    pub(super) opens: bool,
    /// All that was said, as it goes on to the executor.
    pub(super) said: Map<String, Value>,
}

fn bad(field: &str, what: &str) -> Fault {
    Fault::new(ErrorCode::InvalidEvent, format!("{field} {what}")).field(field)
}

/// A short text a client chose.
fn short(field: &str, value: Option<&Value>) -> Result<Option<String>, Fault> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if (1..=limits::WORK_TEXT_CHARS_MAX).contains(&text.chars().count()) => {
            Ok(Some(text.clone()))
        }
        Some(_) => Err(bad(field, &format!("is text of 1 to {} characters", limits::WORK_TEXT_CHARS_MAX))),
    }
}

impl WorkMetadata {
    /// Reads `metadata.work`: an object, or the id alone.
    pub(super) fn read(metadata: &Metadata<'_>) -> Result<Option<WorkMetadata>, Fault> {
        let Some(raw) = metadata.get("work").filter(|raw| *raw != "null") else { return Ok(None) };
        let said = match serde_json::from_str(raw) {
            Ok(Value::Object(said)) => said,
            Ok(id @ Value::String(_)) => Map::from_iter([("id".to_owned(), id)]),
            _ => return Err(bad("metadata.work", "is an object or the id of a unit")),
        };
        let text = |key: &str| short(&format!("metadata.work.{key}"), said.get(key));
        let deadline_ms = match said.get("deadline_ms") {
            None | Some(Value::Null) => None,
            Some(value) => {
                let ms = value.as_u64().filter(|ms| DEADLINE_MS.contains(ms));
                let what = format!("is {} to {} milliseconds", DEADLINE_MS.start(), DEADLINE_MS.end());
                Some(ms.ok_or_else(|| bad("metadata.work.deadline_ms", &what))?)
            }
        };
        let opens = match said.get("open") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(opens)) => *opens,
            Some(_) => return Err(bad("metadata.work.open", "is true or false")),
        };
        Ok(Some(WorkMetadata {
            id: text("id")?,
            context: text("context")?,
            parent: text("parent")?,
            skill: text("skill")?,
            deadline_ms,
            opens,
            said,
        }))
    }
}

/// An artifact, or a chunk of one.
#[derive(Debug)]
pub(super) struct ArtifactChunk {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) body: ArtifactBody,
}

/// What an event brings of an artifact.
#[derive(Debug)]
pub(super) enum ArtifactBody {
    /// Parts in the event itself, of so many bytes.
    Parts(u64),
    /// Content that was uploaded before.
    Blob { sha256: [u8; 32], size: Option<u64>, content_type: Option<String> },
}

/// The payload of a `work.*` event.
#[derive(Debug)]
pub(super) struct WorkPayload {
    /// The unit's id.
    pub(super) work: String,
    pub(super) payload: Map<String, Value>,
}

impl WorkPayload {
    pub(super) fn read(payload: &str) -> Result<WorkPayload, Fault> {
        let payload: Map<String, Value> = serde_json::from_str(payload)
            .map_err(|e| Fault::new(ErrorCode::InvalidPayload, e.to_string()).field("payload"))?;
        let work = match payload.get("work") {
            Some(Value::Object(unit)) => short("payload.work.id", unit.get("id"))?,
            other => short("payload.work", other)?,
        };
        let work = work.ok_or_else(|| bad("payload.work", "names the unit"))?;
        Ok(WorkPayload { work, payload })
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Fault> {
        short(&format!("payload.{key}"), self.payload.get(key))
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Fault> {
        match self.payload.get(key) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => Err(bad(&format!("payload.{key}"), "is true or false")),
        }
    }

    /// `artifact`: what it is called, and what it brings.
    pub(super) fn artifact(&self) -> Result<ArtifactChunk, Fault> {
        let field = "payload.artifact";
        let Some(Value::Object(artifact)) = self.payload.get("artifact") else {
            return Err(bad(field, "is an object with an id and parts"));
        };
        let id = short("payload.artifact.id", artifact.get("id"))?.ok_or_else(|| bad(field, "has an id"))?;
        let name = short("payload.artifact.name", artifact.get("name"))?;
        let body = match (artifact.get("parts"), artifact.get("blob")) {
            (Some(parts @ Value::Array(_)), None) => ArtifactBody::Parts(parts.to_string().len() as u64),
            (None, Some(blob)) => {
                let field = "payload.artifact.blob";
                let sha256 = blob.get("sha256").and_then(Value::as_str).and_then(hex::hash);
                let sha256 = sha256.ok_or_else(|| bad(field, "has sha256, 64 hex digits"))?;
                let size = match blob.get("size") {
                    None | Some(Value::Null) => None,
                    Some(size) => Some(size.as_u64().ok_or_else(|| bad(field, "has a size in bytes"))?),
                };
                let kind = short("payload.artifact.blob.content_type", blob.get("content_type"))?;
                ArtifactBody::Blob { sha256, size, content_type: kind }
            }
            _ => return Err(bad(field, "has parts (a list) or a blob")),
        };
        Ok(ArtifactChunk { id, name, body })
    }
}
