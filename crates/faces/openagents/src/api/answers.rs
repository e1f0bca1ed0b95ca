//! Answers that no view of the model is: what this face says around nouns, and nouns in the words of workspace clients.

use rialto_model::channel::ChannelStatus;
use rialto_model::error::ErrorView;
use rialto_model::network::{Delivery, Durability, Preset, Status};
use rialto_model::view::{AccessView, Done, Presence};
use rialto_model::{Millis, Role, Seq, Visibility, WorkState};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// An event as it is kept and delivered. Deliveries that expect an ack say so in their metadata, as `seq` and `attempt`.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Event")]
pub struct EventBody {
    /// Its id.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Who sent it.
    pub source: String,
    /// Where it went.
    pub target: String,
    /// What it says.
    pub payload: Map<String, Value>,
    /// What is said about it.
    pub metadata: Map<String, Value>,
    /// When it was accepted.
    pub timestamp: Millis,
    /// The id of its network.
    pub network: String,
    /// Who may see it.
    pub visibility: Visibility,
}

/// What became of an event.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EventReceipt {
    /// Its place in the network's history, if it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// It had been sent before.
    pub duplicate: bool,
    /// When it was promised to be kept.
    pub durability: Durability,
    /// What came of it, for events that change something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Map<String, Value>>,
}

/// An event that was sent: the event after mods, and what became of it. Of an event that is not kept, its id alone.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SentEvent {
    /// Its id.
    pub id: String,
    /// Its type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Who sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where it went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// What it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Map<String, Value>>,
    /// What is said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// When it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Millis>,
    /// The id of its network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Who may see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// What became of it.
    #[serde(flatten)]
    pub receipt: EventReceipt,
    /// The event that answers it, if it was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<EventBody>,
}

/// One of many events that were sent: its receipt, or why it was refused.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum BatchEntry {
    /// It was accepted.
    Accepted {
        /// Its id.
        id: String,
        /// `true`.
        ok: bool,
        /// Its place in the network's history, if it is kept.
        seq: Option<Seq>,
        /// It had been sent before.
        duplicate: bool,
        /// When it was promised to be kept.
        durability: Durability,
        /// What came of it, for events that change something.
        result: Option<Map<String, Value>>,
    },
    /// It was refused.
    Refused {
        /// Its id, if that could be read.
        id: Option<String>,
        /// `false`.
        ok: bool,
        /// Why.
        error: ErrorView,
    },
}

/// What became of many events, in their order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BatchResults {
    /// One for each.
    pub results: Vec<BatchEntry>,
}

/// What became of what was sent.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SentAnswer {
    /// One event was sent.
    One(Box<SentEvent>),
    /// An array or lines were sent.
    Many(BatchResults),
}

/// A page of events.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EventPage {
    /// The events, in the order that was asked for.
    pub events: Vec<EventBody>,
    /// There are more.
    pub has_more: bool,
    /// The oldest event of the page.
    pub oldest_id: Option<String>,
    /// The newest event of the page.
    pub newest_id: Option<String>,
    /// Where to go on.
    pub next_cursor: String,
    /// How far a search has looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub indexed_through: Option<Seq>,
    /// The newest event there is, for a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Seq>,
    /// Somebody writes just now; for clients of workspace servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub composing: Option<bool>,
}

/// The newest event of each channel.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LatestEvents {
    /// By the names of the channels.
    pub channels: BTreeMap<String, EventBody>,
    /// There are more channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
}

/// A session of the same name that a join ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TookOver {
    /// Since when it was there.
    pub since: Millis,
    /// Label of the token it was made with.
    pub token: Option<String>,
}

/// What a join gives.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct JoinedNetwork {
    /// The id of the network.
    pub network_id: String,
    /// The member's address.
    pub address: String,
    /// The same without its prefix.
    pub agent_name: String,
    /// What it may do.
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
    /// The session of the same name that it ended, if one was there.
    pub took_over: Option<TookOver>,
    /// The credential of its calls, if a new session was made; shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// What leaving gives.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LeftNetwork {
    /// The member's address.
    pub address: Option<String>,
    /// The same without its prefix.
    pub agent_name: Option<String>,
    /// It is away.
    pub status: Presence,
}

/// The answer to a sign of life.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HeartbeatSeen {
    /// The member's address.
    pub address: Option<String>,
    /// The same without its prefix.
    pub agent_name: Option<String>,
    /// It is there.
    pub status: Presence,
}

/// A member that was removed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RemovedMember {
    /// It is removed.
    pub status: Done,
    /// The name that was said.
    pub agent_name: Option<String>,
    /// Who manages the network now, if the last master went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_master: Option<String>,
}

/// How many deliveries were acked.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AckedCount {
    /// That many.
    pub acked: u64,
}

/// A way to reach a network.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TransportView {
    /// `http`, `sse`, `websocket` or `grpc`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where.
    pub endpoint: String,
}

/// A network as strangers may see it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NetworkProfile {
    /// Its id.
    pub id: String,
    /// The same.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// What it is for, as the operator has written it; empty where nothing is.
    pub description: String,
    /// Who comes in.
    pub access: AccessView,
    /// What it offers.
    pub capabilities: Vec<String>,
    /// Agents that are there.
    pub agents_online: u64,
    /// Whether it works.
    pub status: Status,
    /// How often an event is delivered.
    pub delivery: Delivery,
    /// When an event is promised to be kept.
    pub durability: Durability,
    /// The preset it was made from.
    pub profile: Preset,
    /// The version of the OpenAgents Network Model.
    pub onm_version: String,
    /// How it is reached.
    pub transports: Vec<TransportView>,
}

/// An event of a work unit.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WorkEntry {
    /// The state in which it leaves the unit, if it changes the state.
    pub state: Option<WorkState>,
    /// The event.
    pub event: EventBody,
}

/// Events of a work unit, in order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WorkEventPage {
    /// The events.
    pub events: Vec<WorkEntry>,
    /// There are more.
    pub has_more: bool,
    /// The unit has ended, and this is all.
    pub ended: bool,
    /// Where to go on.
    pub next_cursor: String,
}

/// A resource that was made or changed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ChangedResource {
    /// Its address.
    pub address: String,
    /// Its version, if it is kept in versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Bytes that were put into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// SHA-256 of the bytes that were put into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// A resource that is no more.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct UnregisteredResource {
    /// Its address.
    pub address: String,
    /// It is unregistered, where somebody else than its owner did that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Done>,
}

/// Content that an event may name.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StagedBlob {
    /// SHA-256 of the content.
    pub sha256: String,
    /// Its bytes.
    pub size: u64,
    /// For how long it may be named, in milliseconds.
    pub kept_ms: Millis,
}

/// A file with its time as ISO 8601.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FileEntry {
    /// Its id.
    pub id: String,
    /// What it is called.
    pub filename: String,
    /// What it is.
    pub content_type: String,
    /// Its bytes.
    pub size: Option<u64>,
    /// Who brought it.
    pub uploaded_by: String,
    /// When it came.
    pub created_at: String,
    /// The channel it belongs to.
    pub channel_name: Option<String>,
    /// `active`: one that is deleted is not listed.
    pub status: String,
}

/// A page of files.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FileEntries {
    /// The newest first.
    pub files: Vec<FileEntry>,
    /// All there are.
    pub total: u64,
}

/// A file that is no more.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeletedFile {
    /// Its id.
    pub id: String,
    /// It is deleted.
    pub status: Done,
}

/// What a tool gave.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ToolResult {
    /// The event that called it.
    pub event_id: String,
    /// The event with its result.
    pub result_id: String,
    /// The result.
    pub output: Map<String, Value>,
    /// The tool says that it failed.
    pub is_error: bool,
    /// The result does not fit the schema of the tool.
    pub schema_warning: bool,
}

/// A channel in the words of workspace clients.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceChannel {
    /// Its name.
    pub channel_id: String,
    /// The id of the network.
    pub workspace_id: String,
    /// Its name.
    pub name: String,
    /// What it is called.
    pub title: String,
    /// A person chose the title.
    pub title_manually_set: bool,
    /// Who made it.
    pub created_by: Option<String>,
    /// The agent that answers in it.
    pub master_agent: Option<String>,
    /// The session that it goes on with.
    pub resume_from: Option<String>,
    /// Whether it is in use.
    pub status: ChannelStatus,
    /// Whether it is marked.
    pub starred: bool,
    /// Who sits in it.
    pub participants: Vec<String>,
    /// When it was made.
    pub created_at: String,
}

/// Channels of a workspace.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WorkspaceChannels {
    /// In the order in which they were made.
    pub channels: Vec<WorkspaceChannel>,
    /// There are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
    /// Where to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// An agent in the words of workspace clients.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceAgent {
    /// Its bare name.
    pub agent_name: String,
    /// What it may do.
    pub role: Role,
    /// What kind of agent it is.
    pub agent_type: Option<String>,
    /// Whether it is there.
    pub status: Presence,
    /// What it is for.
    pub description: Option<String>,
    /// The folder it works in.
    pub working_dir: Option<String>,
    /// When it was last there.
    pub last_heartbeat_at: Option<String>,
    /// When it joined.
    pub joined_at: String,
    /// What clients keep of its skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_skills: Option<Map<String, Value>>,
}

/// A workspace in the words of its clients.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceBody {
    /// The id of the network.
    pub workspace_id: String,
    /// The same.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// Who made it.
    pub creator_email: Option<String>,
    /// What clients keep with it.
    pub settings: Map<String, Value>,
    /// Whether it works.
    pub status: Status,
    /// When it was made.
    pub created_at: String,
    /// When something last happened in it.
    pub last_activity_at: String,
    /// There is no browser in it.
    pub browser_enabled: bool,
    /// Its agents.
    pub agents: Vec<WorkspaceAgent>,
    /// There are more agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more: Option<bool>,
}

/// Workspaces.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WorkspaceBodies {
    /// Those that the caller may look at.
    pub workspaces: Vec<WorkspaceBody>,
}

/// A workspace that was made.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedWorkspace {
    /// The id of the network.
    pub workspace_id: String,
    /// The same.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// Its token; shown this once.
    pub token: Option<String>,
    /// Its first session.
    pub channel: WorkspaceChannel,
}

/// A workspace that was archived.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedWorkspace {
    /// The id of the network.
    pub workspace_id: String,
    /// In the words of its clients.
    pub status: Done,
}

/// A new token of a workspace.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RotatedToken {
    /// The id of the network.
    pub workspace_id: String,
    /// The token; shown this once.
    pub token: String,
}

/// A member whose role was set: as an agent of the workspace, or by its address.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ChangedMember {
    /// An agent.
    Agent(Box<WorkspaceAgent>),
    /// Anybody else.
    Other {
        /// The address.
        address: Option<String>,
        /// What it may do.
        role: Role,
    },
}

/// How the installation of a skill gets on.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillStatus {
    /// The agent.
    pub agent_name: String,
    /// The skill.
    pub skill_id: String,
    /// How it gets on.
    pub state: String,
    /// Skills that are installed.
    pub installed_skills: Vec<String>,
    /// How each skill got on, by its id.
    pub skill_status: Map<String, Value>,
}

/// The workspace of a token.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ResolvedToken {
    /// The id of the network.
    pub workspace_id: String,
    /// The same.
    pub slug: String,
    /// What people call it.
    pub name: String,
    /// Where the node is reached.
    pub endpoint: String,
}

/// It was done.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StatusOk {
    /// `ok`.
    pub status: String,
}

/// An invitation that was made. Of one that a member makes for somebody, the code goes to the invitee alone.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MadeInvitation {
    /// Its id.
    pub invitation_id: String,
    /// When it ends.
    pub expires_at: Millis,
    /// Its secret; shown this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// A link with the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// An invitation that is over.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EndedInvitation {
    /// Its id.
    pub invitation_id: String,
    /// What became of it.
    pub status: Done,
}

/// A network as the well-known document lists it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ListedNetwork {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Where its profile is.
    pub profile: String,
}

/// A way to reach a node.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NodeTransport {
    /// `http`, `sse`, `websocket` or `grpc`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where.
    pub url: String,
}

/// Ways to prove who calls.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AuthMethods {
    /// Their names.
    pub methods: Vec<String>,
}

/// What a node offers.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WellKnown {
    /// The version of the OpenAgents Network Model.
    pub onm_version: String,
    /// `rialto`.
    pub name: String,
    /// How it is reached.
    pub transports: Vec<NodeTransport>,
    /// How a caller proves who it is.
    pub auth: AuthMethods,
    /// What it offers.
    pub capabilities: Vec<String>,
    /// Mods that it knows.
    pub mods: Vec<String>,
    /// Networks that are listed.
    pub networks: Vec<ListedNetwork>,
}

/// An AsyncAPI 3 document.
pub type AsyncApiDocument = Map<String, Value>;
