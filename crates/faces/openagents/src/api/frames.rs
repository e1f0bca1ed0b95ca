//! Payloads of the events that a stream carries: what members send to the network, and what it sends to them.

use rialto_model::mods::{Mode, OnError};
use rialto_model::network::{Durability, Status};
use rialto_model::view::Presence;
use rialto_model::{Millis, Role, Seq};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who and what is asked for.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct DiscoverPayload {
    /// Sections of the answer: agents, channels, mods, resources, groups.
    pub include: Option<Vec<String>>,
    /// Members with this role.
    pub role: Option<String>,
    /// Members with this status.
    pub status: Option<String>,
    /// Members that say they can do this.
    pub capability: Option<String>,
    /// Members with these words in what they say of themselves.
    pub query: Option<String>,
    /// Rows of each section at most.
    pub limit: Option<u64>,
    /// A cursor that an answer gave.
    pub after: Option<String>,
}

/// What a member says of itself from now on.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct AnnouncePayload {
    /// What it is for.
    pub description: Option<String>,
    /// What it can do.
    pub capabilities: Option<Vec<String>>,
}

/// Who is removed.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct RemovePayload {
    /// The member's address.
    pub address: Option<String>,
    /// Its bare name, for clients of workspace servers.
    pub agent_name: Option<String>,
}

/// A channel that is made.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct NewChannelPayload {
    /// Its name.
    pub name: String,
    /// What it is called.
    pub title: Option<String>,
    /// Who sits in it.
    pub participants: Option<Vec<String>>,
    /// Only who sits in it knows of it.
    pub private: Option<bool>,
}

/// A channel that ends.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct DeleteChannelPayload {
    /// Its name or address.
    pub channel: String,
}

/// A seat in a channel.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct SeatPayload {
    /// The channel's name or address.
    pub channel: String,
    /// Whose seat it is; the sender's if it is missing.
    pub agent: Option<String>,
}

/// A resource that ends.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct UnregisterPayload {
    /// Its address.
    pub address: String,
}

/// Which resources are asked for.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ResourceFilterPayload {
    /// Resources of this type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Resources of this member.
    pub owner: Option<String>,
    /// Resources whose address begins with this.
    pub prefix: Option<String>,
    /// Resources with these words in their names or descriptions.
    pub query: Option<String>,
    /// Rows at most.
    pub limit: Option<u64>,
    /// `next` of the page before.
    pub after: Option<String>,
}

/// What of a resource is read.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ReadResourcePayload {
    /// `utf8` or `base64`; what the content can be if it is missing.
    pub encoding: Option<String>,
    /// The first byte.
    pub offset: Option<u64>,
    /// How many bytes.
    pub length: Option<u64>,
    /// An older version.
    pub version: Option<u64>,
}

/// A mod that the sender serves from now on, or no longer.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ServeModPayload {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub mode: Option<Mode>,
    /// Patterns on the types that it sees.
    pub intercepts: Option<Vec<String>>,
    /// Its place within its mode.
    pub priority: Option<i32>,
    /// How long it may take, in milliseconds.
    pub deadline_ms: Option<Millis>,
    /// What becomes of an event when it fails.
    pub on_error: Option<OnError>,
    /// It is served no longer.
    pub unload: Option<bool>,
}

/// What a served mod decided about an event.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct VerdictPayload {
    /// The ticket of the check.
    pub ticket: Value,
    /// `pass`, `reject` or `modified`.
    pub verdict: String,
    /// The code of a refusal.
    pub code: Option<String>,
    /// Why it is refused.
    pub message: Option<String>,
    /// What the event is from now on.
    pub event: Option<Map<String, Value>>,
    /// Events that are sent because of it.
    pub emit: Option<Vec<Map<String, Value>>>,
}

/// News about a work unit.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct WorkUpdatePayload {
    /// The unit.
    pub work: String,
    /// The state that it is in from now on.
    pub state: Option<String>,
    /// What is to be said about it.
    pub message: Option<Value>,
    /// How far it is.
    pub progress: Option<Value>,
}

/// Something that work has made, or a piece of it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ArtifactPayload {
    /// The unit.
    pub work: String,
    /// The artifact: its id, its name, and its parts or the blob with its content.
    pub artifact: Map<String, Value>,
    /// It goes on where the piece before ended.
    pub append: Option<bool>,
    /// It is the last piece.
    pub last: Option<bool>,
}

/// What work has asked for.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct WorkAnswerPayload {
    /// The unit.
    pub work: String,
    /// The answer.
    pub message: Option<Value>,
}

/// Work that is not wanted any more.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct CancelWorkPayload {
    /// The unit.
    pub work: String,
    /// Why.
    pub reason: Option<String>,
}

/// A sign of life.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct PingPayload {
    /// Anything; it comes back.
    pub t: Option<Value>,
}

/// The answer to a sign of life.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PongPayload {
    /// What the ping had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t: Option<Value>,
    /// The time at the node.
    pub server_time: Millis,
}

/// Events that were accepted: one with all about it, or many with their places.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AckedFrame {
    /// One.
    One {
        /// `accepted`.
        status: String,
        /// The event.
        event_id: String,
        /// Its place in the network's history, if it is kept.
        #[serde(skip_serializing_if = "Option::is_none")]
        seq: Option<Seq>,
        /// It had been sent before.
        duplicate: bool,
        /// When it was promised to be kept.
        durability: Durability,
        /// What came of it, for events that change something.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Map<String, Value>>,
    },
    /// Many, for who joined with `acks: batch`.
    Many {
        /// The id and the place of each.
        accepted: Vec<(String, Seq)>,
        /// When they were promised to be kept.
        durability: Durability,
    },
}

/// Content of a resource, or the description of a tool.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReadResponse {
    /// Its address.
    pub address: String,
    /// The content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// How the content is written: `utf8` or `base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// What the content is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// The version.
    pub version: u64,
    /// Bytes of the whole content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The first byte of what is here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// What a tool is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What a tool takes and gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// A member came, went or changed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MemberStatusSignal {
    /// Its address.
    pub address: String,
    /// Whether it is there.
    pub status: Presence,
    /// What it may do.
    pub role: Role,
    /// Others of whom the same was to be said at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<Vec<Value>>,
    /// How many more there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unnamed: Option<u64>,
}

/// A network was paused, archived or taken up again.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NetworkStatusNews {
    /// What it was.
    pub from: Status,
    /// What it is.
    pub to: Status,
}

/// A served mod is asked about an event.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CheckPayload {
    /// Goes back with the verdict.
    pub ticket: Value,
    /// The mod's address.
    #[serde(rename = "mod")]
    pub asked: String,
    /// Where in the pipeline it is asked.
    pub step: Value,
    /// The event.
    pub event: Map<String, Value>,
    /// What is known of its sender.
    pub context: Map<String, Value>,
}

/// A resource was made, changed or ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ResourceChangedNews {
    /// Its address.
    pub address: String,
    /// What became of it.
    pub change: String,
    /// Its version.
    pub version: u64,
}

/// The mods of a network changed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ModChangedNews {
    /// The mod.
    #[serde(rename = "mod", skip_serializing_if = "Option::is_none")]
    pub changed: Option<String>,
    /// The mods in their new order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mods: Option<Vec<String>>,
    /// What became of it.
    pub change: String,
}

/// A delivery was given up.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeadDeliveryNews {
    /// The event.
    pub event_id: String,
    /// To whom it did not come.
    pub recipient: String,
    /// Why.
    pub reason: String,
    /// How often it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u64>,
    /// How many more died with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<u64>,
}

/// Why a stream of server-sent events is given up.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StreamControl {
    /// The code.
    pub code: String,
    /// What it means, for people.
    pub message: String,
}
