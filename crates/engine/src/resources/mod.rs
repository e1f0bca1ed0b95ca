//! Resources: tools, files and contexts that members share (OpenAgents sheet, section 10).
//!
//! Invariant: who may not read a resource cannot tell it from one that does not exist, where the network hides; content
//! lives in blobs and is named here by its hash.
//! Not here: calls of tools once they are under way, which are work units (`work`).

mod access;
mod call;
mod change;
mod files;
mod read;
mod shorthand;

pub(crate) use access::visible;
pub(crate) use call::{answered, invoke, result};
pub(crate) use change::{orphaned, register, unregister, update, withdraw};
pub use files::{FileFilter, address as file_address};
pub(crate) use read::{discover, read};

use crate::input::Content;
use crate::state::{MemberId, State};
use rialto_model::Millis;
use rialto_model::access::Permissions;
use rialto_model::address::ResourceKind;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// A resource by its number in this network; numbers are never used again.
pub type ResourceNo = u32;

/// Contents of earlier versions that can still be read.
const OLDER_KEPT: usize = 8;

/// One resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the sheet's own names")]
pub struct Resource {
    pub address: Box<str>,
    #[serde(with = "kind_name")]
    pub kind: ResourceKind,
    /// None: the network itself.
    pub owner: Option<MemberId>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Of a tool: {input, output}, as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// None: what the network's configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    pub version: u64,
    /// The network keeps it; otherwise its owner does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// The version that brought it.
    #[serde(default)]
    pub content_since: u64,
    /// Contents of earlier versions, each with the version that brought it, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older: Vec<(u64, Content)>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    pub updated_at: Millis,
    /// When it was first registered; zero for those of older releases.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub created_at: Millis,
}

/// What an older release did not have is left out: its states keep their hashes.
fn is_zero(n: &Millis) -> bool {
    *n == 0
}

mod kind_name {
    use rialto_model::address::ResourceKind;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(kind: &ResourceKind, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(kind.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<ResourceKind, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(d)?;
        let known = [ResourceKind::Tool, ResourceKind::File, ResourceKind::Context];
        let found = known.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| serde::de::Error::custom("a resource is a tool, a file or a context"))
    }
}

impl Resource {
    /// Every blob it names, the same one twice if it does so twice.
    pub fn blobs(&self) -> impl Iterator<Item = Content> {
        self.content.into_iter().chain(self.older.iter().map(|(_, content)| *content))
    }

    /// Bytes of what it says of itself, about.
    pub(crate) fn said_bytes(&self) -> usize {
        let metadata: usize = self.metadata.iter().map(|(key, value)| key.len() + weight(value)).sum();
        self.description.len() + self.schema.as_ref().map_or(0, weight) + metadata
    }

    /// The content of a version.
    pub(crate) fn content_at(&self, version: u64) -> Option<Content> {
        if version > self.version {
            return None;
        }
        if version >= self.content_since {
            return self.content;
        }
        self.older.iter().rfind(|(since, _)| *since <= version).map(|(_, content)| *content)
    }

    /// The same resource with this content from its next version on; what was there stays readable for a while.
    fn with_content(mut self, content: Option<Content>) -> Resource {
        if self.content == content {
            return self;
        }
        if let Some(old) = self.content {
            self.older.push((self.content_since, old));
            let surplus = self.older.len().saturating_sub(OLDER_KEPT);
            self.older.drain(..surplus);
        }
        self.content = content;
        self.content_since = self.version + 1;
        self
    }
}

/// Bytes a value takes as text, about.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(weight).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(key, inner)| key.len() + 4 + weight(inner)).sum::<usize>() + 2,
    }
}

/// Look-ups derived from the resources.
#[derive(Debug, Clone)]
pub(crate) struct ResourceIndex {
    /// By address, in order.
    pub(crate) names: BTreeMap<Box<str>, ResourceNo>,
    pub(crate) owned: BTreeMap<MemberId, BTreeSet<ResourceNo>>,
}

impl ResourceIndex {
    pub(crate) fn new(all: &BTreeMap<ResourceNo, Resource>) -> ResourceIndex {
        let mut index = ResourceIndex { names: BTreeMap::new(), owned: BTreeMap::new() };
        all.iter().for_each(|(no, resource)| index.enter(*no, resource));
        index
    }

    pub(crate) fn enter(&mut self, no: ResourceNo, resource: &Resource) {
        self.names.insert(resource.address.clone(), no);
        if let Some(owner) = resource.owner {
            self.owned.entry(owner).or_default().insert(no);
        }
    }

    pub(crate) fn leave(&mut self, no: ResourceNo, resource: &Resource) {
        self.names.remove(&resource.address);
        if let Some(list) = resource.owner.and_then(|owner| self.owned.get_mut(&owner)) {
            list.remove(&no);
        }
    }
}

impl State {
    /// A resource by number.
    pub fn resource(&self, no: ResourceNo) -> Option<&Resource> {
        self.book.resources.get(&no)
    }

    /// Resources by address, after one of them.
    pub(crate) fn resources_after(&self, after: Option<&str>) -> impl Iterator<Item = &Resource> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let named = self.resource_index.names.range::<str, _>((from, Bound::Unbounded));
        named.filter_map(|(_, no)| self.resource(*no))
    }

    /// A resource by address.
    pub fn resource_named(&self, address: &str) -> Option<(ResourceNo, &Resource)> {
        let no = *self.resource_index.names.get(address)?;
        Some((no, self.resource(no)?))
    }

    /// Every blob the network names, once per place that does.
    pub fn blobs(&self) -> impl Iterator<Item = ([u8; 32], u64)> {
        let made = self.book.units.values().flat_map(crate::work::Unit::blobs);
        self.book.resources.values().flat_map(Resource::blobs).chain(made).map(|content| (content.blob, content.size))
    }
}

/// Applies that a resource is as given.
pub(crate) fn set(state: &mut State, no: ResourceNo, resource: &Resource) {
    gone(state, no);
    state.resource_index.enter(no, resource);
    state.book.resources.insert(no, resource.clone());
    state.book.next_resource = state.book.next_resource.max(no + 1);
}

/// Applies that a resource is no more.
pub(crate) fn gone(state: &mut State, no: ResourceNo) {
    if let Some(old) = state.book.resources.remove(&no) {
        state.resource_index.leave(no, &old);
    }
}
