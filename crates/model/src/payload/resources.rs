//! What clients say of resources: `network.resource.register`, `.unregister`, `.discover`, `.read` and `.update`.

use super::{BoundedText, ContentName};
use crate::address::ResourceKind;
use crate::limits;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// In a sentence or more.
pub type DescriptionText = BoundedText<0, { limits::RESOURCE_DESCRIPTION_CHARS_MAX }>;
/// A media type.
pub type ContentTypeText = BoundedText<0, { limits::CONTENT_TYPE_CHARS_MAX }>;

/// How content is written in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// As it is.
    #[serde(alias = "utf-8")]
    Utf8,
    /// In base64 with the standard alphabet.
    Base64,
}

impl Encoding {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf8",
            Encoding::Base64 => "base64",
        }
    }
}

/// `network.resource.register`: a tool, a file or a context.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
pub struct NewResource {
    /// Its address, such as `resource/tool/search`.
    #[schemars(example = &"resource/file/notes")]
    pub address: String,
    /// Its type; the address says it as well.
    #[serde(rename = "type")]
    pub kind: Option<ResourceKind>,
    /// What it is for.
    pub description: Option<DescriptionText>,
    /// What a tool takes and gives: JSON Schemas, or the short form.
    pub schema: Option<Value>,
    /// What its content is.
    pub content_type: Option<ContentTypeText>,
    /// Its content. Without content the owner answers reads of it.
    pub content: Option<String>,
    /// How the content is written.
    pub encoding: Option<Encoding>,
    /// Content that was uploaded before, in place of `content`.
    pub blob: Option<ContentName>,
    /// Who may do what with it: a rule for each operation.
    pub permissions: Option<Value>,
    /// What else is to be known of it.
    pub metadata: Option<Map<String, Value>>,
}

/// `network.resource.update`: what is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
pub struct ResourceChanges {
    /// Its new content.
    pub content: Option<String>,
    /// How the content is written.
    pub encoding: Option<Encoding>,
    /// Content that was uploaded before, in place of `content`.
    pub blob: Option<ContentName>,
    /// Add the content at the end of what is there.
    pub append: Option<bool>,
    /// What its content is.
    pub content_type: Option<ContentTypeText>,
    /// What it is for.
    #[schemars(example = &"notes")]
    pub description: Option<DescriptionText>,
    /// What a tool takes and gives.
    pub schema: Option<Value>,
    /// Who may do what with it.
    pub permissions: Option<Value>,
    /// What else is to be known of it.
    pub metadata: Option<Map<String, Value>>,
    /// Change only this version.
    pub if_version: Option<u64>,
}

/// `network.resource.unregister`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ResourceName {
    /// Its address.
    pub address: String,
}

/// `network.resource.discover`: which resources are listed. Texts that are empty count as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ResourceFilter {
    /// Of this type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Of this owner.
    pub owner: Option<String>,
    /// Whose address begins so, behind `resource/`.
    pub prefix: Option<String>,
    /// Whose address or description has this in it.
    pub query: Option<String>,
    /// Behind this address: `next` of the page before.
    pub after: Option<String>,
    /// At most so many.
    pub limit: Option<u64>,
}

/// `network.resource.read`: what of a resource is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ResourceRange {
    /// How the content is to be written; as it is where that is possible, else in base64.
    pub encoding: Option<Encoding>,
    /// The first byte.
    pub offset: Option<u64>,
    /// How many bytes.
    pub length: Option<u64>,
    /// An older version.
    pub version: Option<u64>,
}
