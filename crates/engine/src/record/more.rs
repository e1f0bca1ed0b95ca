//! What few events have besides: kept apart, so that the many do not pay for it.

use super::EventRecord;
use crate::mods::external::owed::OwedMark;
use crate::state::MemberId;
use crate::work::{UnitNo, WorkMark};
use serde::{Deserialize, Serialize};

/// Rare parts of an event record. JSON in the log: it can grow members.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct More {
    /// Members it mentions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<MemberId>,
    /// What it does to a work unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkMark>,
    /// It is the first of its thread: that is its sender's making.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub begins: bool,
    /// It leaves history at the end of its life.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fleeting: bool,
    /// Start of the SHA-256 of the canonical body as it was sent, where the stored one differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_body: Option<[u8; 16]>,
    /// The owed emit that became this event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owed: Option<OwedMark>,
}

impl EventRecord {
    /// The unit that ends by this event.
    pub(crate) fn ends_unit(&self) -> Option<UnitNo> {
        let mark = self.more.as_ref()?.work.as_ref()?;
        mark.state.is_terminal().then_some(mark.unit)
    }
}
