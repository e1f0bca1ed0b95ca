//! Members of a network: their roles and what the roster says of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a member may do (sheet section 1.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Coordinates: may also manage channels and members.
    Master,
    /// Sends and receives.
    Member,
    /// Receives only.
    Observer,
}

impl Role {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Member => "member",
            Self::Observer => "observer",
        }
    }

    /// The role of this wire name.
    pub fn from_wire(text: &str) -> Option<Role> {
        [Self::Master, Self::Member, Self::Observer].into_iter().find(|r| r.as_str() == text)
    }
}

/// How a session receives: tracked deliveries, or history by cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Receive {
    /// Deliveries that expect an ack.
    Queue,
    /// Reads history by cursor; nothing is queued.
    Log,
}

/// What a member says of itself, shown in the roster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the sheet's own names")]
pub struct Profile {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
}
