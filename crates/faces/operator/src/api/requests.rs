//! Queries and bodies of the operator's requests.

use rialto_model::mods::{Mode, OnError};
use rialto_model::network::{Delivery, Durability, Policy, Preset};
use rialto_model::{Millis, Role};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Makes a network.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct CreateNetworkBody {
    /// What people call it.
    #[schemars(example = &"lab")]
    pub name: String,
    /// Who comes in.
    pub policy: Option<Policy>,
    /// The preset it is made from.
    pub profile: Option<Preset>,
    /// How often an event is delivered.
    pub delivery: Option<Delivery>,
    /// When an event is promised to be kept.
    pub durability: Option<Durability>,
    /// How long it keeps its events: `ever`, or a span such as `30d` or `12h`.
    #[schemars(regex(pattern = "^(ever|[0-9]{1,6}[smhdw])$"))]
    pub retention: Option<String>,
    /// How well a member must have proved who it is, 0 to 3.
    #[schemars(range(min = 0, max = 3))]
    pub min_verification: Option<u8>,
    /// Mods to load; the profile's if it is missing.
    pub mods: Option<Vec<String>>,
}

/// Changes settings of a network, by their names.
pub type ChangeSettingsBody = Map<String, Value>;

/// Makes a token.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct NewTokenBody {
    /// What people call it.
    #[schemars(example = &"ci")]
    pub label: Option<String>,
    /// The highest role it gives.
    pub role: Option<Role>,
    /// The one member it speaks for.
    pub agent: Option<String>,
    /// When it ends, in Unix milliseconds.
    pub expires_at: Option<Millis>,
}

/// Sets a group's members.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct SetGroupBody {
    /// Their addresses.
    #[schemars(example = ["agent:ana"])]
    pub members: Vec<String>,
}

/// One channel, or some of them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ChannelChoice {
    /// One channel.
    One(String),
    /// Some channels.
    Many(Vec<String>),
}

/// Whether a member's mail waits.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum QuietChoice {
    /// Until further notice, or no longer.
    Switch(bool),
    /// For so many milliseconds.
    Millis(u64),
}

/// Changes a member.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ChangeMemberBody {
    /// What it may do from now on.
    pub role: Option<Role>,
    /// Channels that it does not want to hear.
    pub mute: Option<ChannelChoice>,
    /// Channels that it wants to hear again.
    pub unmute: Option<ChannelChoice>,
    /// Whether its mail waits.
    pub dnd: Option<QuietChoice>,
    /// Its new name.
    pub name: Option<String>,
}

/// Which sessions of a member.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct SessionsQuery {
    /// The number of one session; without it, all of them.
    pub session: Option<u64>,
}

/// Which entries of the audit.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct AuditQuery {
    /// From this time on, in Unix milliseconds.
    pub since: Option<Millis>,
    /// What this one did.
    pub actor: Option<String>,
}

/// What is said of a mod.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ModBody {
    /// Settings by name; null takes one back to its default.
    pub config: Option<Map<String, Value>>,
    /// Patterns on the types that it sees.
    pub intercepts: Option<Vec<String>>,
    /// Its place within its mode.
    pub priority: Option<i32>,
    /// Whether it works.
    pub enabled: Option<bool>,
    /// What becomes of an event when it fails.
    pub on_error: Option<OnError>,
    /// How long it may take, in milliseconds.
    pub deadline_ms: Option<Millis>,
}

/// Which mod.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct LoadModName {
    /// Its name.
    #[schemars(example = &"analytics")]
    pub name: String,
}

/// Loads a mod.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct LoadModBody {
    /// Which one.
    #[serde(flatten)]
    pub name: LoadModName,
    /// How it is to work.
    #[serde(flatten)]
    pub settings: ModBody,
}

/// Puts mods in order.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct OrderModsBody {
    /// Their names, the first one first.
    #[schemars(example = ["analytics"])]
    pub names: Vec<String>,
    /// The mode they have; the one of the first if it is missing.
    pub mode: Option<Mode>,
}

/// Lets a member serve a mod.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ApproveModBody {
    /// The member.
    #[schemars(example = &"agent:ana")]
    pub address: String,
    /// `false` takes it back.
    #[serde(default = "yes")]
    pub approved: bool,
}

fn yes() -> bool {
    true
}

/// Which dead letters are listed.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct DeadLettersQuery {
    /// Those of this event.
    pub event_id: Option<String>,
    /// Those to this recipient.
    pub recipient: Option<String>,
    /// Rows at most.
    pub limit: Option<u64>,
}

/// Which dead letters are acted on: those of an event, those to a recipient, or all.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct DeadLettersBody {
    /// Those of this event.
    pub event_id: Option<String>,
    /// Those to this recipient.
    pub recipient: Option<String>,
    /// `true` means every dead letter.
    pub all: Option<bool>,
    /// That many at most.
    pub limit: Option<u64>,
}

/// Redacts an event.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct RedactBody {
    /// The event.
    pub event_id: String,
}

/// What an imported network is called.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ImportQuery {
    /// Its name; the one it had if it is missing.
    pub name: Option<String>,
}

/// Opens the operator's browser.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct BrowserBody {
    /// The code of a link; it works once.
    pub code: Option<String>,
}
