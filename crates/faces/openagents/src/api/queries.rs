//! Parameters of queries, and headers that belong to one operation.

use schemars::JsonSchema;
use serde::Deserialize;

/// Which network is meant, where the path does not say it.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct NetworkQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
}

/// Sends an event.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct EmitQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Wait this many seconds for the first event that answers this one.
    #[schemars(range(min = 0.0, max = 60.0))]
    pub wait: Option<f64>,
    /// The same key means the same event: sent again, it is stored once.
    #[serde(rename = "Idempotency-Key")]
    #[schemars(length(min = 1, max = 128), extend("x-in" = "header"))]
    pub idempotency_key: Option<String>,
}

/// Order of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// The oldest first.
    Asc,
    /// The newest first.
    Desc,
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReadView {
    /// Deliveries of the caller.
    Inbox,
    /// What the caller may see of the history.
    Log,
}

/// Which events are read.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct HistoryFilter {
    /// Events after this one: an event id, or a cursor that an answer gave. Read as an inbox, what came before is acked.
    pub after: Option<String>,
    /// Events before this one.
    pub before: Option<String>,
    /// Events of a page at most.
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<i64>,
    /// The order of the page.
    pub sort: Option<Sort>,
    /// A type, or the beginning of types with `*`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Events of a channel.
    pub channel: Option<String>,
    /// Events to an address.
    pub target: Option<String>,
    /// Events from an address.
    pub source: Option<String>,
    /// Events that name an agent among those they are for.
    pub target_agents: Option<String>,
    /// Events from or to a member.
    pub member: Option<String>,
    /// Direct events between two members, `a,b`.
    pub conversation: Option<String>,
    /// Events that answer an event.
    pub in_reply_to: Option<String>,
    /// Events of a thread.
    pub thread: Option<String>,
    /// Events of a direct room.
    pub room: Option<String>,
    /// Events with these words.
    pub search: Option<String>,
    /// Events from this time on, in Unix milliseconds.
    pub since: Option<u64>,
    /// Events until this time, in Unix milliseconds.
    pub until: Option<u64>,
    /// What is read; a member reads its inbox unless it says otherwise.
    pub view: Option<ReadView>,
}

/// Which events of a network are read.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct HistoryQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Which events.
    #[serde(flatten)]
    pub filter: HistoryFilter,
    /// Whether `after` acks what came before it; it does unless this is `false`.
    pub ack: Option<bool>,
}

/// Reads a page of events.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct EventsQuery {
    /// Which events.
    #[serde(flatten)]
    pub history: HistoryQuery,
    /// Wait this many seconds for something to come.
    #[schemars(range(min = 0.0, max = 60.0))]
    pub wait: Option<f64>,
}

/// Names of server-sent events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StreamNames {
    /// Each has the type of its event as its name; else all are called `message`.
    Typed,
}

/// Follows events as a stream.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct StreamQuery {
    /// Which events.
    #[serde(flatten)]
    pub history: HistoryQuery,
    /// What the events of the stream are called.
    pub events: Option<StreamNames>,
    /// The credential, for browsers, which can show it nowhere else.
    pub token: Option<String>,
}

/// The newest event of each channel.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct LatestQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Only events of this type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

/// Who and what is there.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct DiscoverQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Members with this role.
    pub role: Option<String>,
    /// Members with this status.
    pub status: Option<String>,
    /// Members that say they can do this.
    pub capability: Option<String>,
    /// Members with these words in what they say of themselves.
    pub query: Option<String>,
    /// Sections of the answer, separated by commas: agents, channels, mods, resources, groups.
    pub include: Option<String>,
    /// A cursor that an answer gave.
    pub after: Option<String>,
    /// Rows of each section at most.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

/// A page of a listing that goes on after a cursor.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct PageQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// `next` of the page before.
    pub after: Option<String>,
    /// Rows at most.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

/// Threads, the newest activity first.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ThreadsQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Threads of this channel.
    pub channel: Option<String>,
    /// `next` of the page before.
    pub before: Option<String>,
    /// Rows at most.
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<i64>,
}

/// Direct rooms, the newest activity first.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct RoomsQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// `next` of the page before.
    pub before: Option<String>,
    /// Rows at most.
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<i64>,
}

/// Work units, the newest first.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct WorksQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Parts of the caller in them, separated by commas: requester, executor, untaken.
    pub role: Option<String>,
    /// States, separated by commas.
    pub state: Option<String>,
    /// Units of a channel.
    pub channel: Option<String>,
    /// Units of a thread.
    pub thread: Option<String>,
    /// Units of a context.
    pub context: Option<String>,
    /// Units that another unit opened.
    pub parent: Option<String>,
    /// `next` of the page before.
    pub before: Option<u32>,
    /// Rows at most.
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<i64>,
}

/// Events of a work unit.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct WorkEventsQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Events after this one; without it, from the first on.
    pub after: Option<String>,
    /// Events of a page at most.
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<i64>,
    /// Wait this many seconds for something to come.
    #[schemars(range(min = 0.0, max = 60.0))]
    pub wait: Option<f64>,
}

/// Follows a work unit as a stream.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct WorkStreamQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Events after this one; without it, the unit as it is comes first.
    pub after: Option<String>,
    /// The credential, for browsers, which can show it nowhere else.
    pub token: Option<String>,
}

/// Resources that the caller may read.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ResourcesQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Resources of this type.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Resources of this member.
    pub owner: Option<String>,
    /// Resources whose address begins with this.
    pub prefix: Option<String>,
    /// Resources with these words in their names or descriptions.
    pub query: Option<String>,
    /// `next` of the page before.
    pub after: Option<String>,
    /// Rows at most.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

/// Reads a resource.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ReadResourceQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// An older version; without it, the current one.
    pub version: Option<u64>,
    /// Describe it instead of giving its content.
    pub info: Option<bool>,
}

/// Puts content into a resource.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct PutResourceQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Who may do what with it: a JSON object of rules.
    pub permissions: Option<String>,
    /// Replace only this version, as the `ETag` of a read gives it.
    #[serde(rename = "If-Match")]
    #[schemars(extend("x-in" = "header"))]
    pub if_match: Option<String>,
    /// `*`: only if there is no such resource.
    #[serde(rename = "If-None-Match")]
    #[schemars(extend("x-in" = "header"))]
    pub if_none_match: Option<String>,
}

/// Whom a file is from.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct FileQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Who calls, for clients that show the network's token.
    pub source: Option<String>,
}

/// Reads the bytes of a file.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct ReadFileQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Who calls, for clients that show the network's token.
    pub source: Option<String>,
    /// The credential, for pages that show the file and can say it nowhere else.
    pub token: Option<String>,
}

/// Files, the newest first.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct FilesQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Rows at most.
    pub limit: Option<u32>,
    /// Rows to pass over.
    pub offset: Option<u32>,
    /// Files of this channel.
    pub channel_name: Option<String>,
    /// Files that this member brought.
    pub uploaded_by: Option<String>,
}

/// Calls a tool.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct InvokeQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// How long to wait for the result, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Wait for the tool's owner to come if it is away.
    pub wait_for_owner: Option<bool>,
}

/// Channels of a workspace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct WorkspaceChannelsQuery {
    /// `next` of the page before.
    pub after: Option<u32>,
}

/// Invitations.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct InvitationsQuery {
    /// The id of a network, or its name; without it, the one that the credential is for, or the default one.
    pub network: Option<String>,
    /// Invitations for this member; for the operator, who sees all.
    pub agent: Option<String>,
}

/// Opens a WebSocket.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct WebSocketQuery {
    /// The credential, for browsers, which can show it nowhere else.
    pub token: Option<String>,
}
