//! What an event says of work: the payload types of the model, as units use them.

use rialto_model::metadata::Metadata;
use rialto_model::payload::{
    ArtifactChunk, ContentName, ShortText, UnitName, WorkAnswer, WorkArtifact, WorkCancel, WorkDeadline, WorkMetadata,
    WorkUpdate,
};
use rialto_model::{ErrorCode, EventType, Fault, Millis, read};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// `metadata.work` of a message: what it asks for, or the unit that it is a part of.
#[derive(Debug, Default)]
pub(super) struct WorkRequest {
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

impl WorkRequest {
    /// Reads `metadata.work`: an object, or the id alone.
    pub(super) fn read(metadata: &Metadata<'_>) -> Result<Option<WorkRequest>, Fault> {
        let Some(raw) = metadata.get("work").filter(|raw| *raw != "null") else { return Ok(None) };
        let object = if raw.starts_with('"') { Cow::Owned(format!("{{\"id\":{raw}}}")) } else { Cow::Borrowed(raw) };
        let WorkMetadata { id, context, parent, skill, deadline_ms, open } = read::text(&object, read::WORK_METADATA)?;
        let text = |text: Option<ShortText>| text.map(ShortText::into_string);
        Ok(Some(WorkRequest {
            id: text(id),
            context: text(context),
            parent: text(parent),
            skill: text(skill),
            deadline_ms: deadline_ms.map(WorkDeadline::ms),
            opens: open.unwrap_or(false),
            said: read::text(&object, read::WORK_METADATA)?,
        }))
    }
}

/// A `work.*` event of one of a unit's two sides.
#[derive(Debug)]
pub(super) enum WorkAction {
    Update(WorkUpdate),
    Artifact(WorkArtifact),
    Answer,
    Cancel,
}

/// The unit that a `work.*` event names, and what it does to the unit. `None` for any other type.
pub(super) fn action(kind: EventType<'_>, payload: &str) -> Result<Option<(UnitName, WorkAction)>, Fault> {
    let place = read::WORK_PAYLOAD;
    #[allow(clippy::wildcard_enum_match_arm, reason = "every other type is not about a unit")]
    Ok(Some(match kind {
        EventType::WorkUpdate => {
            let update: WorkUpdate = read::text(payload, place)?;
            (update.work.clone(), WorkAction::Update(update))
        }
        EventType::WorkArtifact => {
            let artifact: WorkArtifact = read::text(payload, place)?;
            (artifact.work.clone(), WorkAction::Artifact(artifact))
        }
        EventType::WorkAnswer => (read::text::<WorkAnswer>(payload, place)?.work, WorkAction::Answer),
        EventType::WorkCancel => (read::text::<WorkCancel>(payload, place)?.work, WorkAction::Cancel),
        _ => return Ok(None),
    }))
}

/// What an event brings of an artifact.
#[derive(Debug)]
pub(super) enum ArtifactBody {
    /// Parts in the event itself, of so many bytes.
    Parts(u64),
    /// Content that was uploaded before.
    Blob(ContentName),
}

impl ArtifactBody {
    pub(super) fn of(chunk: ArtifactChunk) -> Result<ArtifactBody, Fault> {
        match (chunk.parts, chunk.blob) {
            (Some(parts), None) => Ok(ArtifactBody::Parts(Value::Array(parts).to_string().len() as u64)),
            (None, Some(blob)) => Ok(ArtifactBody::Blob(blob)),
            (None, None) | (Some(_), Some(_)) => {
                let field = "payload.artifact";
                Err(Fault::new(ErrorCode::InvalidEvent, format!("{field} has parts (a list) or a blob")).field(field))
            }
        }
    }
}
