//! What clients say of work: `metadata.work` of a message, and the payloads of `work.*`.

use super::{ContentName, ShortText};
use crate::{Millis, WorkState, limits};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// `metadata.work`: an object, or the id of a unit alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct WorkMetadata {
    /// The unit, or what the requester calls a new one.
    pub id: Option<ShortText>,
    /// What it belongs to.
    pub context: Option<ShortText>,
    /// The unit that this is a part of, which the sender is doing.
    pub parent: Option<ShortText>,
    /// What whoever does it can do; for `core`.
    pub skill: Option<ShortText>,
    /// It fails when nothing is heard for this long.
    pub deadline_ms: Option<WorkDeadline>,
    /// It asks for a unit, whatever its id names: it is never a message inside one.
    pub open: Option<bool>,
}

/// How long a requester allows silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "u64")]
pub struct WorkDeadline(
    #[schemars(range(min = limits::WORK_DEADLINE_MS_MIN, max = limits::WORK_DEADLINE_MS_MAX))] Millis,
);

impl WorkDeadline {
    /// In milliseconds.
    pub fn ms(self) -> Millis {
        self.0
    }
}

impl TryFrom<u64> for WorkDeadline {
    type Error = String;

    fn try_from(ms: u64) -> Result<WorkDeadline, String> {
        let allowed = limits::WORK_DEADLINE_MS_MIN..=limits::WORK_DEADLINE_MS_MAX;
        if allowed.contains(&ms) {
            return Ok(WorkDeadline(ms));
        }
        Err(format!("is {} to {} milliseconds", allowed.start(), allowed.end()))
    }
}

/// The unit that an event is about: its id, or an object with the id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitName(ShortText);

impl UnitName {
    /// The unit's id, or what the sender calls it.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl<'de> Deserialize<'de> for UnitName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<UnitName, D::Error> {
        struct Name;
        impl<'de> Visitor<'de> for Name {
            type Value = UnitName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the id of a unit")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<UnitName, E> {
                ShortText::try_from(text.to_owned()).map(UnitName).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<UnitName, A::Error> {
                let mut id = None;
                while let Some(name) = members.next_key::<Cow<'_, str>>()? {
                    if name == "id" {
                        id = Some(members.next_value()?);
                    } else {
                        members.next_value::<IgnoredAny>()?;
                    }
                }
                id.map(UnitName).ok_or_else(|| A::Error::missing_field("id"))
            }
        }
        from.deserialize_any(Name)
    }
}

impl JsonSchema for UnitName {
    fn schema_name() -> Cow<'static, str> {
        "UnitName".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let id = generator.subschema_for::<ShortText>();
        json_schema!({
            "description": "The unit: its id, or an object with the id.",
            "anyOf": [id, { "type": "object", "properties": { "id": id }, "required": ["id"] }],
        })
    }
}

/// `work.update`: news of a unit by who does it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct WorkUpdate {
    /// The unit.
    pub work: UnitName,
    /// The state that it is in from now on.
    pub state: Option<WorkState>,
    /// What is to be said about it.
    pub message: Option<Value>,
    /// How far it is.
    pub progress: Option<Value>,
    /// Why it failed: an object with a `code`. What has none counts as `failed`.
    pub error: Option<Value>,
}

/// `work.artifact`: something that work has made, or a chunk of it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct WorkArtifact {
    /// The unit.
    pub work: UnitName,
    /// The artifact.
    pub artifact: ArtifactChunk,
    /// It goes on where the chunk before ended.
    pub append: Option<bool>,
    /// It is the last chunk.
    pub last: Option<bool>,
}

/// An artifact, or a chunk of one. It has parts or content that was uploaded before.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct ArtifactChunk {
    /// What it is called within its unit.
    pub id: ShortText,
    /// What people call it.
    pub name: Option<ShortText>,
    /// What it says.
    pub parts: Option<Vec<Value>>,
    /// Content that was uploaded before.
    pub blob: Option<ContentName>,
}

/// `work.answer`: what an executor asked for.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct WorkAnswer {
    /// The unit.
    pub work: UnitName,
    /// The answer.
    pub message: Option<Value>,
}

/// `work.cancel`: work that is not wanted any more.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct WorkCancel {
    /// The unit.
    pub work: UnitName,
    /// Why.
    pub reason: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorCode, read};

    #[track_caller]
    fn wrong<T: for<'t> Deserialize<'t> + fmt::Debug>(json: &str) -> String {
        let fault = read::text::<T>(json, read::WORK_PAYLOAD).unwrap_err();
        assert_eq!(fault.code, ErrorCode::InvalidEvent, "{json}");
        fault.message
    }

    #[test]
    fn a_unit_is_named_by_text_or_by_an_object() {
        for json in [r#"{"work":"w-1"}"#, r#"{"work":{"id":"w-1","more":[1]}}"#] {
            assert_eq!(read::text::<WorkCancel>(json, read::WORK_PAYLOAD).unwrap().work.as_str(), "w-1", "{json}");
        }
        assert_eq!(wrong::<WorkCancel>("{}"), "payload.work: is required");
        assert_eq!(wrong::<WorkCancel>(r#"{"work":{}}"#), "payload.work.id: is required");
        assert_eq!(
            wrong::<WorkCancel>(r#"{"work":7}"#),
            "payload.work: invalid type: integer `7`, expected the id of a unit"
        );
        assert_eq!(wrong::<WorkCancel>(r#"{"work":""}"#), "payload.work: is text of 1 to 128 characters");
    }

    #[test]
    fn what_is_wrong_about_an_artifact_is_named() {
        let chunk = |chunk: &str| wrong::<WorkArtifact>(&format!(r#"{{"work":"w","artifact":{chunk}}}"#));
        assert_eq!(chunk("{}"), "payload.artifact.id: is required");
        assert!(chunk(r#"{"id":"a","parts":{}}"#).starts_with("payload.artifact.parts: invalid type: map"));
        assert_eq!(chunk(r#"{"id":"a","blob":{"sha256":"0"}}"#), "payload.artifact.blob.sha256: is 64 hex digits");
        assert!(chunk(r#"{"id":"a","blob":{"sha256":7}}"#).starts_with("payload.artifact.blob.sha256: invalid type"));
    }

    #[test]
    fn deadlines_are_bounded() {
        let read = |text: &str| read::text::<WorkMetadata>(text, read::WORK_METADATA);
        assert_eq!(read(r#"{"deadline_ms":1000}"#).unwrap().deadline_ms.map(WorkDeadline::ms), Some(1000));
        for text in [r#"{"deadline_ms":999}"#, r#"{"deadline_ms":604800001}"#] {
            assert_eq!(read(text).unwrap_err().message, "metadata.work.deadline_ms: is 1000 to 604800000 milliseconds");
        }
    }
}
