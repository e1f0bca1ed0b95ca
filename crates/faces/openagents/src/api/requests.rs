//! Bodies of requests. A body may say who calls as well, as members that every one of them has.

use rialto_model::Role;
use rialto_model::payload::NewResource;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Who calls and which network is meant, where no header says it.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct CallerBody {
    /// The caller's address.
    pub agent_id: Option<String>,
    /// The caller's bare name, for clients of workspace servers.
    pub agent_name: Option<String>,
    /// The caller's session.
    pub session_id: Option<String>,
    /// The network's token, for clients of workspace servers.
    pub token: Option<String>,
    /// The id of a network, or its name.
    pub network: Option<String>,
}

/// What a member expects of its mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReceiveWish {
    /// It is queued until it is acked.
    Queue,
    /// It is read from the log.
    Log,
}

/// How a stream is told that its events were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AckWish {
    /// Each with an ack of its own.
    Each,
    /// Many with one.
    Batch,
}

/// What proves who joins.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct JoinProofs {
    /// A token of the network, or the code of an invitation.
    pub token: Option<String>,
}

/// Who joins, and how.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct JoinPayload {
    /// The address to join under.
    #[schemars(example = &"agent:cleo")]
    pub agent_id: Option<String>,
    /// What proves who joins, if no header does.
    pub credentials: Option<JoinProofs>,
    /// `observer` to do no more than read.
    pub role: Option<String>,
    /// What kind of agent it is.
    pub agent_type: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What it can do.
    #[schemars(example = ["write"])]
    pub capabilities: Option<Vec<String>>,
    /// Channels to sit in.
    pub channels: Option<Vec<String>>,
    /// The last event that was seen, to go on after it.
    pub resume_after: Option<String>,
    /// What becomes of mail.
    pub receive: Option<ReceiveWish>,
    /// Deliveries that may be on their way at a time.
    #[schemars(range(min = 1))]
    pub window: Option<i64>,
    /// How accepted events are acked on a stream.
    pub acks: Option<AckWish>,
    /// Where it runs.
    pub server_host: Option<String>,
    /// The folder it works in.
    pub working_dir: Option<String>,
    /// A person opens another session instead of going on with one.
    pub new_session: Option<bool>,
    /// Whether a live session of the name may be ended; it may unless this is `false`.
    pub takeover: Option<bool>,
}

/// Joins a network.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct JoinBody {
    /// Who joins, and how.
    #[serde(flatten)]
    pub join: JoinPayload,
    /// The bare name to join under, for clients of workspace servers.
    pub agent_name: Option<String>,
    /// A session of the member, to go on with.
    pub session_id: Option<String>,
    /// The network's token, for clients of workspace servers.
    pub token: Option<String>,
    /// The id of a network, or its name.
    pub network: Option<String>,
}

/// How a member leaves.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct LeavePayload {
    /// Give the name up, with everything that waits for it.
    pub forget: Option<bool>,
    /// Why, for the others.
    pub reason: Option<String>,
}

/// Leaves a network.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct LeaveBody {
    /// Who calls and which network is meant.
    #[serde(flatten)]
    pub caller: CallerBody,
    /// How it leaves.
    #[serde(flatten)]
    pub leave: LeavePayload,
}

/// Removes a member.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct RemoveBody {
    /// Who is removed.
    pub address: Option<String>,
    /// The same as a bare name, for clients of workspace servers.
    #[schemars(example = &"ben")]
    pub agent_name: Option<String>,
    /// The id of a network, or its name.
    pub network: Option<String>,
}

/// An event to be sent.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct EventDraft {
    /// The sender's own id for it: sent again, it is stored once. Made by the network if it is missing.
    pub id: Option<String>,
    /// Its type, such as `app.note`.
    #[serde(rename = "type")]
    #[schemars(example = &"app.note")]
    pub kind: String,
    /// The sender's address; the caller's if it is missing.
    pub source: Option<String>,
    /// Where it goes: `channel/general`, `agent:ben`, `core`.
    #[schemars(example = &"channel/general")]
    pub target: String,
    /// What it says.
    #[serde(default)]
    pub payload: Map<String, Value>,
    /// What is said about it.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// The id of a network, or its name, where the path does not say it.
    pub network: Option<String>,
    /// Who may see it, if that is fewer than its target allows.
    pub visibility: Option<VisibilityWish>,
}

/// Who may see an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VisibilityWish {
    /// Any member.
    Public,
    /// Members of the target channel or group.
    Channel,
    /// The target alone.
    Direct,
    /// Mods alone.
    ModOnly,
}

/// Deliveries that arrived: those of `ids`, or all up to one.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct AckPayload {
    /// Ids of events.
    #[schemars(example = ["seq:1"])]
    pub ids: Option<Vec<String>>,
    /// The id of an event, or a cursor.
    pub up_to: Option<String>,
}

/// Acks deliveries.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct AckBody {
    /// Who calls and which network is meant.
    #[serde(flatten)]
    pub caller: CallerBody,
    /// What arrived.
    #[serde(flatten)]
    pub ack: AckPayload,
}

/// One, or many of them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ChannelNames {
    /// One channel.
    One(String),
    /// Some channels.
    Many(Vec<String>),
}

/// Whether mail waits.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum QuietWish {
    /// Until further notice, or no longer.
    Switch(bool),
    /// For so many milliseconds.
    Millis(u64),
}

/// Changes something about the caller.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ChangeMeBody {
    /// Channels that the caller does not want to hear.
    pub mute: Option<ChannelNames>,
    /// Channels that it wants to hear again.
    pub unmute: Option<ChannelNames>,
    /// Whether its mail waits.
    pub dnd: Option<QuietWish>,
    /// Its new name.
    pub name: Option<String>,
    /// The id of a network, or its name.
    pub network: Option<String>,
}

/// Opens the caller's room with another member.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct OpenRoomBody {
    /// The other member.
    #[schemars(example = &"agent:ben")]
    pub peer: String,
    /// The channel that the room is in.
    pub channel: Option<String>,
}

/// Registers a resource.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct RegisterResourceBody {
    /// Who calls and which network is meant.
    #[serde(flatten)]
    pub caller: CallerBody,
    /// The resource.
    #[serde(flatten)]
    pub resource: NewResource,
}

/// Input of a tool: what its own schema asks for.
pub type ToolInput = Map<String, Value>;

/// A file in a form.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct UploadForm {
    /// The file with its name.
    #[schemars(extend("format" = "binary"))]
    pub file: String,
    /// The id of a network, or its name; before the file.
    pub network: Option<String>,
    /// The channel it belongs to.
    pub channel_name: Option<String>,
    /// Who brings it.
    pub source: Option<String>,
}

/// A file in base64.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct UploadBody {
    /// What it is called.
    #[schemars(example = &"notes.txt")]
    pub filename: String,
    /// Its bytes in base64.
    #[schemars(extend("contentEncoding" = "base64"))]
    #[schemars(example = &"aGVsbG8=")]
    pub content_base64: String,
    /// What it is.
    pub content_type: Option<String>,
    /// The id of a network, or its name; before the content.
    pub network: Option<String>,
    /// Who brings it.
    pub source: Option<String>,
    /// The channel it belongs to.
    pub channel_name: Option<String>,
}

/// Makes a workspace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct CreateWorkspaceBody {
    /// What it is called.
    #[schemars(example = &"team")]
    pub name: String,
    /// Its first agent.
    pub agent_name: Option<String>,
    /// What kind of agent that is.
    pub agent_type: Option<String>,
    /// Who makes it.
    pub creator_email: Option<String>,
}

/// Changes a workspace: what is missing stays, and nothing else is taken.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ChangeWorkspaceBody {
    /// What it is called.
    pub name: Option<String>,
    /// `active`, `paused` or `archived`.
    pub status: Option<String>,
    /// What clients keep with it.
    pub settings: Option<Map<String, Value>>,
}

/// Makes a session: a channel of a workspace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct OpenSessionBody {
    /// The channel's name; made from the title if it is missing.
    pub name: Option<String>,
    /// What it is called.
    pub title: Option<String>,
    /// The agent that answers in it.
    pub master: Option<String>,
    /// Who sits in it.
    pub participants: Option<Vec<String>>,
    /// The session that it goes on with.
    pub resume_from: Option<String>,
}

/// Changes what a channel says of itself.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ChangeChannelBody {
    /// What it is called.
    pub title: Option<String>,
    /// `active`, `archived` or `deleted`.
    pub status: Option<String>,
    /// Whether it is marked.
    pub starred: Option<bool>,
    /// The agent that answers in it.
    pub master_agent: Option<String>,
    /// Whether a program chose the title: one that a person chose stays.
    pub auto_title: Option<bool>,
}

/// Changes what a workspace says of a member: what is missing stays.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ChangeWorkspaceMemberBody {
    /// What it may do from now on.
    pub role: Option<Role>,
    /// What it is for.
    pub description: Option<String>,
    /// What clients keep of its skills.
    pub enabled_skills: Option<Map<String, Value>>,
}

/// Tells how the installation of a skill gets on.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct SkillStatusBody {
    /// The skill.
    #[schemars(example = &"review")]
    pub skill_id: String,
    /// How it gets on; `installed` counts it among the installed ones.
    #[schemars(example = &"installed")]
    pub state: String,
    /// Where it is.
    pub path: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
    /// Only a part of it is there.
    pub partial: Option<bool>,
}

/// Looks a token up.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ResolveTokenBody {
    /// The token.
    pub token: String,
}

/// Tells a channel that the caller writes.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ComposingBody {
    /// Who calls and which network is meant.
    #[serde(flatten)]
    pub caller: CallerBody,
    /// The channel.
    #[schemars(example = &"general")]
    pub channel: String,
}

/// Roles that an invitation gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InvitedRole {
    /// Sends and reads.
    Member,
    /// Reads.
    Observer,
}

/// Invites somebody.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct InviteBody {
    /// Who calls and which network is meant.
    #[serde(flatten)]
    pub caller: CallerBody,
    /// The one it is for; anybody who has its code if it is missing.
    pub invitee: Option<String>,
    /// The highest role it gives.
    pub role: Option<InvitedRole>,
    /// Where it seats.
    pub channel: Option<String>,
    /// A word to the invitee.
    pub message: Option<String>,
    /// How long it is valid, in seconds.
    #[schemars(range(min = 1))]
    pub expires_in_s: Option<u64>,
    /// How often it can be used.
    #[schemars(range(min = 1))]
    pub max_uses: Option<u64>,
}

/// Refuses an invitation.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct RejectInvitationBody {
    /// The code of the invitation: it is the credential.
    pub code: String,
}
