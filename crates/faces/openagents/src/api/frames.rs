//! Payloads of the events that a stream carries: what members send to the network, and what it sends to them.

use rialto_model::network::{Durability, Status};
use rialto_model::view::Presence;
use rialto_model::{Millis, Role, Seq};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
