//! Channels: rooms inside a network.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Life of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "lowercase")]
pub enum ChannelStatus {
    /// In use.
    #[default]
    Active,
    /// Closed for sending, open for reading.
    Archived,
    /// Gone; its history is kept.
    Deleted,
}

impl ChannelStatus {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Archived => "archived",
            Self::Deleted => "deleted",
        }
    }
}
