//! Addresses: who and what can be named on a network (OpenAgents Network Model, addressing and URI forms).
//!
//! Invariant: an [`Address`] holds canonical text only. Parsing is the one way in and normalises (a bare name
//! becomes `agent:`, `local::` and `did:` go away, e-mail-like humans are lower-cased, file paths become NFC), so
//! two addresses are the same place exactly when their texts are equal.
//! Not here: whether anybody answers to an address (membership, routing) and whether a registrar prefix is
//! configured; `acme:x` parses everywhere.

mod did;
mod grammar;
#[cfg(test)]
mod tests;
mod uri;

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use self::grammar::{
    ADDRESS_BYTES_MAX, CHANNEL_UNITS_MAX, FILE_PATH_BYTES_MAX, FILE_SEGMENT_BYTES_MAX, HUMAN_ID_BYTES_MAX,
    NAME_BYTES_MAX, NETWORK_ID_BYTES_MAX, REGISTRAR_ORG_BYTES_MAX, REGISTRAR_PREFIX_BYTES_MAX, WEB_NAME_BYTES_MAX,
};
pub use self::uri::URI_BYTES_MAX;
use crate::error::ErrorCode;

/// What is wrong with a text that should have been an address. It never repeats the text itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing there, or nothing after the prefix.
    #[error("the address is empty")]
    Empty,
    /// The whole text is over [`ADDRESS_BYTES_MAX`] (or [`URI_BYTES_MAX`] for the URI form).
    #[error("the address is longer than {limit} bytes")]
    TooLong {
        /// The limit that was passed.
        limit: usize,
    },
    /// The part before `::` is no network id.
    #[error("a network id is 1 to 64 of a-z 0-9 . _ - and starts and ends with a letter or a digit")]
    BadNetworkId,
    /// `local` means "this network" everywhere and so names none.
    #[error("`local` is reserved and cannot be a network id")]
    ReservedNetworkId,
    /// `::` may separate a network from an entity once, and occurs nowhere else.
    #[error("`::` separates network and entity and may occur only once")]
    NestedNetwork,
    /// `x:` where `x` is neither a known prefix nor a possible registrar.
    #[error("the prefix before `:` is neither a known kind nor a registrar")]
    BadPrefix,
    /// `x/` where `x` is not one of the slash kinds.
    #[error("expected channel/, mod/, group/, resource/tool/, resource/context/ or resource/file/ before the name")]
    BadSlashForm,
    /// A name outside the grammar of its kind.
    #[error("the {0} has characters or a length that its grammar does not allow")]
    BadName(&'static str),
    /// A file path with an empty, dotted, padded, oversized or otherwise illegal segment.
    #[error("a file path is 1 to 1024 bytes of plain segments of at most 255 bytes each")]
    BadPath,
    /// `did:` followed by a method that does not map to an address.
    #[error("only did:openagents, did:key and did:web name an address")]
    BadDid,
    /// The address has no DID: only `openagents:`, `key:` and `web:` do.
    #[error("this kind of address has no DID form")]
    NoDidForm,
    /// Not a valid `openagents://` URI; the text says which part.
    #[error("not an openagents:// URI: {0}")]
    BadUri(&'static str),
}

impl AddressError {
    /// The code a caller sees.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::NoDidForm => ErrorCode::NoDidForm,
            Self::Empty
            | Self::TooLong { .. }
            | Self::BadNetworkId
            | Self::ReservedNetworkId
            | Self::NestedNetwork
            | Self::BadPrefix
            | Self::BadSlashForm
            | Self::BadName(_)
            | Self::BadPath
            | Self::BadDid
            | Self::BadUri(_) => ErrorCode::InvalidAddress,
        }
    }
}

/// The id of a network: short, lower-case, unique on its node, never `local`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NetworkId(Arc<str>);

impl NetworkId {
    /// Reads an id; there is nothing to normalise.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        grammar::network_id(text)?;
        Ok(Self(Arc::from(text)))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A place on a network, or on another one when [`Address::network`] says so. Cloning copies a pointer.
#[derive(Clone)]
pub struct Address {
    /// Canonical text. The other fields are a function of it, so comparing and hashing look at nothing else.
    text: Arc<str>,
    kind: Kind,
    /// Where the entity starts: 0, or just after `::`.
    entity_at: u16,
    /// Where the last part (name, path) starts.
    name_at: u16,
}

/// What an address names, borrowed from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entity<'a> {
    /// The network itself.
    Core,
    /// `agent:`, including `agent:broadcast`, which is everybody.
    Agent(&'a str),
    /// `human:`.
    Human(&'a str),
    /// An agent known to a registrar: `openagents:`, `key:`, `web:`, `system:` (the server only) and others.
    Registered {
        /// The registrar's prefix, without the colon.
        prefix: &'a str,
        /// The name at that registrar.
        name: &'a str,
    },
    /// `channel/`.
    Channel(&'a str),
    /// `mod/`.
    Mod(&'a str),
    /// `group/`.
    Group(&'a str),
    /// `resource/<kind>/`.
    Resource {
        /// Which of the three kinds.
        kind: ResourceKind,
        /// The name; for a file its path, with `/` between segments.
        path: &'a str,
    },
}

/// The three kinds of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceKind {
    /// Something that can be invoked.
    Tool,
    /// A text that can be read.
    Context,
    /// A file under a path.
    File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Core,
    Agent,
    Human,
    Registered,
    Channel,
    Mod,
    Group,
    Resource(ResourceKind),
}

const BROADCAST: &str = "agent:broadcast";
const LOCAL: &str = "local";

impl Address {
    /// Reads an address in any accepted form; `local::x` and `x` are the same place.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong { limit: ADDRESS_BYTES_MAX });
        }
        match text.split_once("::") {
            None => Self::build(None, text),
            Some((LOCAL, entity)) => Self::build(None, entity),
            Some((network, entity)) => {
                grammar::network_id(network)?;
                Self::build(Some(network), entity)
            }
        }
    }

    /// Like [`Address::parse`], for a reader on network `own`: its own id in front means "here".
    pub fn parse_in(text: &str, own: &NetworkId) -> Result<Self, AddressError> {
        Ok(Self::parse(text)?.seen_from(own))
    }

    /// The same place as a member of `own` writes it: a prefix naming `own` goes away, any other stays.
    #[must_use]
    pub fn seen_from(self, own: &NetworkId) -> Self {
        if self.network() != Some(own.as_str()) {
            return self;
        }
        Self {
            text: Arc::from(self.entity_text()),
            kind: self.kind,
            entity_at: 0,
            name_at: self.name_at.saturating_sub(self.entity_at),
        }
    }

    /// `agent:{name}`.
    pub fn agent(name: &str) -> Result<Self, AddressError> {
        Self::build(None, &format!("agent:{name}"))
    }

    /// `human:{id}`.
    pub fn human(id: &str) -> Result<Self, AddressError> {
        Self::build(None, &format!("human:{id}"))
    }

    /// `channel/{name}`.
    pub fn channel(name: &str) -> Result<Self, AddressError> {
        Self::build(None, &format!("channel/{name}"))
    }

    /// `group/{name}`.
    pub fn group(name: &str) -> Result<Self, AddressError> {
        Self::build(None, &format!("group/{name}"))
    }

    /// `core`: the network itself.
    pub fn core() -> Self {
        Self { text: Arc::from("core"), kind: Kind::Core, entity_at: 0, name_at: 0 }
    }

    /// `agent:broadcast`: every member.
    pub fn broadcast() -> Self {
        Self { text: Arc::from(BROADCAST), kind: Kind::Agent, entity_at: 0, name_at: 6 }
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The foreign network this address is on; `None` for an address on the reader's own network.
    pub fn network(&self) -> Option<&str> {
        let end = usize::from(self.entity_at).checked_sub(2)?;
        self.text.get(..end)
    }

    /// What is named, for matching on.
    pub fn entity(&self) -> Entity<'_> {
        let name = self.bare_name();
        match self.kind {
            Kind::Core => Entity::Core,
            Kind::Agent => Entity::Agent(name),
            Kind::Human => Entity::Human(name),
            Kind::Registered => Entity::Registered { prefix: self.registrar_prefix(), name },
            Kind::Channel => Entity::Channel(name),
            Kind::Mod => Entity::Mod(name),
            Kind::Group => Entity::Group(name),
            Kind::Resource(kind) => Entity::Resource { kind, path: name },
        }
    }

    /// The text without a network prefix.
    pub fn entity_text(&self) -> &str {
        self.text.get(usize::from(self.entity_at)..).unwrap_or_default()
    }

    /// The last part alone: `x` of `agent:x`, `channel/x` or `openagents:x`, the path of a file, `core` of `core`.
    pub fn bare_name(&self) -> &str {
        self.text.get(usize::from(self.name_at)..).unwrap_or_default()
    }

    /// Whether this is `core` of the reader's own network.
    pub fn is_core(&self) -> bool {
        &*self.text == "core"
    }

    /// Whether this is everybody on the reader's own network.
    pub fn is_broadcast(&self) -> bool {
        &*self.text == BROADCAST
    }

    /// Whether this is on another network.
    pub fn is_foreign(&self) -> bool {
        self.entity_at > 0
    }

    /// Whether this kind of address can be a member: an agent (but not everybody), a registered agent or a human.
    /// Names that nobody may join under are the join's business.
    pub fn is_principal(&self) -> bool {
        match self.kind {
            Kind::Agent => !self.is_broadcast(),
            Kind::Human | Kind::Registered => true,
            Kind::Core | Kind::Channel | Kind::Mod | Kind::Group | Kind::Resource(_) => false,
        }
    }

    fn registrar_prefix(&self) -> &str {
        let end = usize::from(self.name_at).saturating_sub(1);
        self.text.get(usize::from(self.entity_at)..end).unwrap_or_default()
    }

    /// Checks `entity`, puts the canonical text together and bounds it: normalising can make it longer.
    fn build(network: Option<&str>, entity: &str) -> Result<Self, AddressError> {
        let parts = Parts::of(entity)?;
        let mut text = String::with_capacity(entity.len().saturating_add(80));
        if let Some(network) = network {
            text.push_str(network);
            text.push_str("::");
        }
        let entity_at = text.len();
        text.push_str(parts.lead);
        if let Some(mark) = parts.mark {
            text.push(mark);
        }
        let name_at = text.len();
        text.push_str(&parts.name);
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong { limit: ADDRESS_BYTES_MAX });
        }
        let offset = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        Ok(Self { kind: parts.kind, entity_at: offset(entity_at), name_at: offset(name_at), text: Arc::from(text) })
    }
}

/// An entity taken apart: `lead`, then `mark`, then `name` is its canonical text.
struct Parts<'a> {
    kind: Kind,
    lead: &'a str,
    mark: Option<char>,
    name: Cow<'a, str>,
}

impl<'a> Parts<'a> {
    fn of(entity: &'a str) -> Result<Self, AddressError> {
        if entity.is_empty() {
            return Err(AddressError::Empty);
        }
        // No grammar but that of files allows `::`. There `local::resource/file/a::b` would have a canonical form
        // that reads as network `resource/file/a`, so it is refused for all.
        if entity.contains("::") {
            return Err(AddressError::NestedNetwork);
        }
        if entity == "core" {
            return Ok(Self { kind: Kind::Core, lead: "", mark: None, name: Cow::Borrowed("core") });
        }
        // Whichever comes first decides: `channel/routines:bot` is a channel.
        match entity.find([':', '/']).and_then(|at| entity.split_at_checked(at)) {
            None => Self::colon("agent", entity),
            Some((prefix, rest)) => match rest.strip_prefix(':') {
                Some(name) if prefix == "did" => Self::did(name),
                Some(name) => Self::colon(prefix, name),
                None => Self::slash(entity),
            },
        }
    }

    /// `did:{method}:{name}` is input only; the canonical form drops `did:`.
    fn did(tail: &'a str) -> Result<Self, AddressError> {
        match tail.split_once(':') {
            Some((method, name)) if did::is_method(method) => Self::colon(method, name),
            _ => Err(AddressError::BadDid),
        }
    }

    fn colon(prefix: &'a str, name: &'a str) -> Result<Self, AddressError> {
        let (kind, name) = match prefix {
            "agent" => (Kind::Agent, grammar::name("agent name", name)?.into()),
            "human" => (Kind::Human, grammar::human_id(name)?),
            "web" => (Kind::Registered, grammar::web_name(name)?.into()),
            _ => {
                grammar::registrar_prefix(prefix)?;
                (Kind::Registered, grammar::registered_name(name)?.into())
            }
        };
        Ok(Self { kind, lead: prefix, mark: Some(':'), name })
    }

    fn slash(entity: &'a str) -> Result<Self, AddressError> {
        let (lead, kind, name) = if let Some(name) = entity.strip_prefix("channel/") {
            ("channel", Kind::Channel, grammar::channel(name)?.into())
        } else if let Some(name) = entity.strip_prefix("mod/") {
            ("mod", Kind::Mod, grammar::mod_name(name)?.into())
        } else if let Some(name) = entity.strip_prefix("group/") {
            ("group", Kind::Group, grammar::name("group name", name)?.into())
        } else if let Some(name) = entity.strip_prefix("resource/tool/") {
            let name = grammar::name("tool name", name)?.into();
            ("resource/tool", Kind::Resource(ResourceKind::Tool), name)
        } else if let Some(name) = entity.strip_prefix("resource/context/") {
            let name = grammar::name("context name", name)?.into();
            ("resource/context", Kind::Resource(ResourceKind::Context), name)
        } else if let Some(path) = entity.strip_prefix("resource/file/") {
            let path = grammar::file_path(path)?;
            ("resource/file", Kind::Resource(ResourceKind::File), path)
        } else {
            return Err(AddressError::BadSlashForm);
        };
        Ok(Self { kind, lead, mark: Some('/'), name })
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

impl TryFrom<&str> for Address {
    type Error = AddressError;

    fn try_from(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text) || self.text == other.text
    }
}

impl Eq for Address {}

impl Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialOrd for Address {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Address {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

/// Equality, order and hash are those of the text, so a map keyed by address can be asked with a `&str`.
impl Borrow<str> for Address {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for Address {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl PartialEq<str> for Address {
    fn eq(&self, other: &str) -> bool {
        &*self.text == other
    }
}

impl PartialEq<&str> for Address {
    fn eq(&self, other: &&str) -> bool {
        &*self.text == *other
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Parsed("an address", Self::parse))
    }
}

impl FromStr for NetworkId {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

impl TryFrom<&str> for NetworkId {
    type Error = AddressError;

    fn try_from(text: &str) -> Result<Self, AddressError> {
        Self::parse(text)
    }
}

impl fmt::Display for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for NetworkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Borrow<str> for NetworkId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for NetworkId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for NetworkId {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for NetworkId {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl Serialize for NetworkId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for NetworkId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Parsed("a network id", Self::parse))
    }
}

impl ResourceKind {
    /// The word in the address: `tool`, `context` or `file`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Context => "context",
            Self::File => "file",
        }
    }
}

/// Reads a string through a parser, whatever the format hands over: what, and how.
struct Parsed<T>(&'static str, fn(&str) -> Result<T, AddressError>);

impl<T> de::Visitor<'_> for Parsed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(E::custom)
    }
}
