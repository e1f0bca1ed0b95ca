//! What stands in the bodies of the dialect's calls and answers.

use rialto_model::Fault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// An agent registers.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct SdkRegisterBody {
    /// Its name, without a prefix.
    #[schemars(example = &"echo")]
    pub agent_id: String,
    /// What it says of itself: `description` and `capabilities` are shown to others.
    pub metadata: Option<Map<String, Value>>,
    /// SHA-256 of a token of the network, in hexadecimal.
    pub password_hash: Option<String>,
}

/// An agent unregisters.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct SdkUnregisterBody {
    /// Its name.
    #[schemars(example = &"echo")]
    pub agent_id: String,
    /// What its registration gave it.
    pub secret: Option<String>,
}

/// An event of an agent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "SdkEvent")]
pub struct SdkEvent {
    /// Its id, if the sender chose one.
    pub event_id: Option<String>,
    /// Its name, such as `agent.message`.
    #[schemars(example = &"agent.message")]
    pub event_name: String,
    /// Who sends it: the agent that registered with the secret.
    #[schemars(example = &"echo")]
    pub source_id: Option<String>,
    /// Where it goes: a name, `channel:general`, `agent:broadcast`; the network itself if nothing is said.
    #[serde(alias = "destination_id")]
    #[schemars(example = &"channel:general")]
    pub target_agent_id: Option<String>,
    /// What it says.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub payload: Option<Box<RawValue>>,
    /// What is said about it.
    pub metadata: Option<Map<String, Value>>,
    /// Who may see it. `network`, which every event of the SDK says unless it is told otherwise, is the usual one for its target.
    pub visibility: Option<String>,
    /// Whom alone it is for, where its visibility is `restricted`.
    pub allowed_agents: Option<Vec<String>>,
    /// When it was made, in seconds.
    pub timestamp: Option<f64>,
    /// The event that it answers.
    pub response_to: Option<String>,
    /// The thread that the sender's client puts it in.
    pub thread_name: Option<String>,
    /// The event as text for people.
    pub text_representation: Option<String>,
    /// The sender expects an answer.
    pub requires_response: Option<bool>,
    /// What the registration gave its sender.
    pub secret: Option<String>,
}

impl SdkEvent {
    /// The payload, read.
    pub(super) fn payload(&self) -> Value {
        self.payload.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

/// Asks for what came for an agent.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct SdkPollQuery {
    /// Its name.
    pub agent_id: Option<String>,
    /// What its registration gave it.
    pub secret: Option<String>,
}

/// An agent that registered, or why it could not.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SdkRegistered {
    /// Whether it is registered.
    pub success: bool,
    /// What people call the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_name: Option<String>,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_id: Option<String>,
    /// The credential of its calls, shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The group that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assigned_group: Option<String>,
    /// Why it is not registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// What became of something that has no other answer.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SdkDone {
    /// Whether it was done.
    pub success: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// What became of an event.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SdkSent {
    /// Whether it was taken.
    pub success: bool,
    /// In words; of a refusal its code, then why.
    pub message: String,
    /// Its id.
    pub event_id: Option<String>,
    /// What came of it, where it asked for something.
    pub data: Option<Value>,
    /// Its name.
    pub event_name: String,
}

/// What came for an agent.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct SdkPolled {
    /// Whether it may know.
    pub success: bool,
    /// The events, oldest first.
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub messages: Vec<Box<RawValue>>,
    /// Its name.
    pub agent_id: String,
    /// Why it may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
}

/// An agent as the SDK knows it.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SdkAgent {
    /// Its name.
    pub agent_id: String,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// When it was last there, in seconds.
    pub last_seen: u64,
    /// How it is there, in a word that the SDK has.
    pub transport_type: &'static str,
    /// Its address in the network.
    pub address: String,
    /// What it says of itself.
    #[serde(skip)]
    pub description: Option<String>,
}

/// A mod as the SDK knows it.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SdkMod {
    /// Its name.
    pub name: String,
    /// Whether it works.
    pub enabled: bool,
    /// Nothing: settings of mods are not shown here.
    pub config: Map<String, Value>,
}

/// A way to reach the network.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SdkTransport {
    /// Which.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Where: the port, and the host only where the node has a public URL.
    pub config: Map<String, Value>,
}

/// A network as the SDK looks at it before it connects.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SdkNetwork {
    /// Its id.
    pub network_id: String,
    /// The same.
    pub network_uuid: String,
    /// What people call it.
    pub network_name: String,
    /// It was set up.
    pub initialized: bool,
    /// It takes events.
    pub is_running: bool,
    /// Since when the node runs.
    pub uptime_seconds: u64,
    /// Members that are there.
    pub agent_count: usize,
    /// Who is a member, for those who may know.
    pub agents: Map<String, Value>,
    /// Nothing: groups are shown to members.
    pub groups: Map<String, Value>,
    /// Nothing.
    pub group_config: Map<String, Value>,
    /// The group of who is in no other.
    pub default_agent_group: &'static str,
    /// Whether a registration takes a password.
    pub requires_password: bool,
    /// Its mods, for those who may know.
    pub mods: Vec<SdkMod>,
    /// `centralized`.
    pub topology_mode: &'static str,
    /// How it is reached.
    pub transports: Vec<SdkTransport>,
    /// `http`.
    pub manifest_transport: &'static str,
    /// `grpc`.
    pub recommended_transport: &'static str,
    /// How many members it takes.
    pub max_connections: usize,
    /// What its operator says of it.
    pub readme: String,
}

/// Whether the node is well, and what network it has.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SdkHealth {
    /// `true`.
    pub success: bool,
    /// `healthy`.
    pub status: &'static str,
    /// The default network.
    pub data: SdkNetwork,
}

/// A refusal in the words of the dialect: its code, then why.
pub(super) fn told(fault: &Fault) -> String {
    format!("{}: {}", fault.wire_code(), fault.message)
}
