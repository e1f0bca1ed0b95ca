//! Texts of bounded length and names of content, checked while they are read.

use crate::{hex, limits};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;

/// A text of `MIN` to `MAX` characters.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct BoundedText<const MIN: usize, const MAX: usize>(String);

/// An id, a context, a skill or a name that a client gives to work.
pub type ShortText = BoundedText<1, { limits::WORK_TEXT_CHARS_MAX }>;

impl<const MIN: usize, const MAX: usize> BoundedText<MIN, MAX> {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl<const MIN: usize, const MAX: usize> TryFrom<String> for BoundedText<MIN, MAX> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if (MIN..=MAX).contains(&text.chars().count()) {
            return Ok(BoundedText(text));
        }
        Err(if MIN == 0 {
            format!("is text of at most {MAX} characters")
        } else {
            format!("is text of {MIN} to {MAX} characters")
        })
    }
}

impl<const MIN: usize, const MAX: usize> JsonSchema for BoundedText<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Text{MIN}to{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": MIN, "maxLength": MAX })
    }
}

/// SHA-256 of content, written as 64 hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }
}

impl TryFrom<String> for ContentHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<ContentHash, &'static str> {
        hex::hash(&text).map(ContentHash).ok_or("is 64 hex digits")
    }
}

impl JsonSchema for ContentHash {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ContentHash".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-fA-F]{64}$" })
    }
}

/// Content that was uploaded before.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ContentName {
    /// SHA-256 of the content.
    pub sha256: ContentHash,
    /// Its bytes.
    pub size: Option<u64>,
    /// What it is.
    pub content_type: Option<ShortText>,
}
