//! Answers that no view of the model is.

use rialto_model::Role;
use rialto_model::network::{Policy, Settings};
use rialto_model::view::{Done, NetworkView, Presence};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// All networks.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NetworkList {
    /// In the order in which they were made.
    pub networks: Vec<NetworkView>,
}

/// A network that was made.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CreatedNetwork {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Who comes in.
    pub policy: Policy,
    /// Its first token, if its policy wants one; shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// Settings of a network after a change.
pub type ChangedSettings = Settings;

/// A token that was made.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NewToken {
    /// The token; shown this once.
    pub token: String,
    /// What people call it.
    pub label: String,
}

/// A token that works no more.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RevokedToken {
    /// What people called it.
    pub label: String,
    /// It is revoked.
    pub status: Done,
}

/// A group that was set.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SetGroup {
    /// Its address.
    pub group: String,
    /// Its members.
    pub members: Vec<String>,
}

/// A group that is no more.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeletedGroup {
    /// Its address.
    pub group: String,
    /// It is deleted.
    pub status: Done,
}

/// A member that was changed: its role, or something else.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ManagedMember {
    /// Its role alone was set.
    Role {
        /// Its address.
        address: Option<String>,
        /// What it may do from now on.
        role: Role,
    },
    /// Something else was changed.
    Changed {
        /// Its address.
        address: String,
        /// It is changed, or released.
        status: Done,
    },
}

/// A member that was removed from a network.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MemberRemoved {
    /// It is removed.
    pub status: Done,
    /// Who manages the network now, if the last master went.
    pub new_master: Option<String>,
}

/// Sessions that were ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EndedSessions {
    /// The member's address.
    pub address: Option<String>,
    /// The numbers of the sessions.
    pub ended: Vec<u64>,
}

/// A link for the operator's browser.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BrowserLink {
    /// The link; it works once.
    pub url: String,
    /// For how long it works.
    pub expires_in_s: u64,
}

/// A session of the operator's browser.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BrowserSession {
    /// The id of the network.
    pub network_id: String,
    /// `human:operator`.
    pub address: String,
    /// The same without its prefix.
    pub agent_name: String,
    /// It manages the network.
    pub role: Role,
    /// It is there.
    pub status: Presence,
    /// How well it proved who it is, 0 to 3.
    pub verification: u8,
    /// How often it should give a sign of life, in milliseconds.
    pub heartbeat_ms: u64,
    /// After how long a silence it counts as gone, in milliseconds.
    pub offline_after_ms: u64,
    /// Deliveries that may be on their way to it at a time.
    pub window: u64,
    /// The newest event.
    pub head_id: Option<String>,
    /// Deliveries that wait for it.
    pub pending: u64,
    /// The session that it ended; a person's sessions end no other.
    pub took_over: Option<Map<String, Value>>,
    /// The credential of its calls; shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Mods in their new order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OrderedMods {
    /// Their mode.
    pub mode: rialto_model::mods::Mode,
    /// Their addresses, the first one first.
    pub mods: Vec<String>,
}

/// A mod that is not loaded any more.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct UnloadedMod {
    /// Its address.
    #[serde(rename = "mod")]
    pub address: String,
    /// It is unloaded.
    pub status: Done,
}

/// Who may serve a mod.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ApprovedServer {
    /// The mod's address.
    #[serde(rename = "mod")]
    pub served: String,
    /// The member.
    pub address: Option<String>,
    /// Whether it may.
    pub approved: bool,
}

/// A network that was imported.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ImportedNetwork {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Events that came with it.
    pub events: u64,
    /// Pieces of content that came with it.
    pub blobs: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// A token of it; shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// One line of a check of everything.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerifyLine {
    /// How far it is.
    Progress {
        /// Bytes that were checked.
        done: u64,
        /// Bytes there are.
        total: u64,
    },
    /// What it found; the last line.
    Report(Map<String, Value>),
}

/// One thing the doctor looked at.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DoctorCheck {
    /// What it is.
    pub name: String,
    /// Whether it is well.
    pub ok: bool,
    /// It works, but should be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<bool>,
    /// What was found.
    pub detail: String,
}

/// How a node grows.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DoctorGrowth {
    /// Bytes it takes on the disk.
    pub bytes_used: u64,
    /// Events a day, once there is an hour to go by.
    pub events_per_day: Option<u64>,
    /// Bytes a day, once there is an hour to go by.
    pub bytes_per_day: Option<u64>,
}

/// What the doctor says.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DoctorReport {
    /// Whether everything is well.
    pub ok: bool,
    /// What was looked at.
    pub checks: Vec<DoctorCheck>,
    /// Seconds since the node started.
    pub uptime_s: u64,
    /// How it grows.
    pub growth: DoctorGrowth,
}

/// The process lives.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}

/// What readiness depends on.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReadyChecks {
    /// The logs can be written.
    pub store: bool,
    /// Somebody can ask.
    pub listeners: bool,
    /// Records that wait for the disk.
    pub queue: u64,
}

/// A damaged network.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DamagedNetwork {
    /// Its id.
    pub network: String,
    /// It is read and not written.
    pub read_only: bool,
}

/// Damaged networks.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Damaged {
    /// How many there are.
    pub count: u64,
    /// Those that are listed.
    pub networks: Vec<DamagedNetwork>,
}

/// Whether the node takes writes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Readiness {
    /// It does.
    pub ready: bool,
    /// What that depends on.
    pub checks: ReadyChecks,
    /// Networks that are damaged, if some are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<Damaged>,
}
