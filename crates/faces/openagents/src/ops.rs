//! The table of HTTP operations of this face.

use crate::api::answers::*;
use crate::api::empty::*;
use crate::api::queries::*;
use crate::api::requests::*;
use crate::{conversations, docs, elsewhere, events, files, members, resources, sse, work, workspaces, ws};
use rialto_carrier::FaceState;
use rialto_carrier::describe::{
    AnyBytes, Data, EndingStream, EventStream, Form, Json, KeptBytes, KeptBytesOr, NoBody, NoQuery, OneOrMany, Plain,
    WebSocketUpgrade,
};
use rialto_model::ErrorCode;
use rialto_model::payload::ResourceChanges;
use rialto_model::view::{
    AnalyticsView, ChannelList, ConversationList, Explanation, InvitationList, MeView, ResourceList, ResourceView,
    RoomList, RoomView, Roster, ThreadList, ThreadView, WorkList, WorkView,
};
use rialto_model::work::{OpenedWork, WorkOrder};

/// Refusals of what names something.
const NAMED: &[ErrorCode] = &[
    ErrorCode::UnknownTarget,
    ErrorCode::ResourceNotFound,
    ErrorCode::PermissionDenied,
    ErrorCode::NotAChannelMember,
    ErrorCode::CursorUnknown,
    ErrorCode::HistoryUnavailable,
];
/// Refusals of what reads a history.
const HISTORY: &[ErrorCode] = NAMED;
/// Refusals of acks.
const ACK: &[ErrorCode] = &[ErrorCode::CursorUnknown, ErrorCode::UnknownTarget, ErrorCode::HistoryUnavailable];
/// Refusals of what strangers may ask about a network.
const PROFILE: &[ErrorCode] = &[
    ErrorCode::Unauthenticated,
    ErrorCode::InvalidToken,
    ErrorCode::InvalidAddress,
    ErrorCode::Unsupported,
    ErrorCode::NetworkNotFound,
];
/// Refusals of a WebSocket handshake.
const HANDSHAKE: &[ErrorCode] = &[];
/// Refusals of a guest that turns an invitation down.
const REJECT: &[ErrorCode] = &[
    ErrorCode::Unauthenticated,
    ErrorCode::InvalidToken,
    ErrorCode::InvalidAddress,
    ErrorCode::Unsupported,
    ErrorCode::NetworkNotFound,
    ErrorCode::InviteInvalid,
    ErrorCode::Forbidden,
    ErrorCode::NetworkArchived,
    ErrorCode::NetworkPaused,
    ErrorCode::StorageUnavailable,
    ErrorCode::UnknownTarget,
];
/// Refusals of who makes a workspace.
const CREATE: &[ErrorCode] = &[
    ErrorCode::Unauthenticated,
    ErrorCode::Forbidden,
    ErrorCode::Unsupported,
    ErrorCode::InvalidAddress,
    ErrorCode::AlreadyExists,
    ErrorCode::NetworkFull,
    ErrorCode::StorageUnavailable,
    ErrorCode::Timeout,
];
/// Refusals of who manages a workspace.
const ACT: &[ErrorCode] =
    &[ErrorCode::UnknownTarget, ErrorCode::AlreadyExists, ErrorCode::NetworkFull, ErrorCode::NetworkArchived];
/// Refusals of who joins.
const JOIN: &[ErrorCode] = &[
    ErrorCode::InvalidPayload,
    ErrorCode::SourceMismatch,
    ErrorCode::VerificationRequired,
    ErrorCode::InviteRequired,
    ErrorCode::InviteInvalid,
    ErrorCode::UnknownTarget,
    ErrorCode::AddressTaken,
    ErrorCode::CursorUnknown,
    ErrorCode::NetworkFull,
    ErrorCode::TooManySessions,
    ErrorCode::Rejected,
    ErrorCode::ModFailed,
    ErrorCode::CrossNetwork,
];
/// Refusals of an event, whatever it asks for: by the network, by mods, by its target.
const SEND: &[ErrorCode] = &[
    ErrorCode::InvalidEvent,
    ErrorCode::InvalidType,
    ErrorCode::InvalidPayload,
    ErrorCode::InvalidVisibility,
    ErrorCode::NetworkMismatch,
    ErrorCode::SourceMismatch,
    ErrorCode::ObserverReadOnly,
    ErrorCode::NotAChannelMember,
    ErrorCode::PermissionDenied,
    ErrorCode::ReservedType,
    ErrorCode::Rejected,
    ErrorCode::UnknownTarget,
    ErrorCode::ResourceNotFound,
    ErrorCode::ModNotFound,
    ErrorCode::AlreadyExists,
    ErrorCode::AddressTaken,
    ErrorCode::IdConflict,
    ErrorCode::VersionConflict,
    ErrorCode::JoinRequired,
    ErrorCode::NoPendingRequest,
    ErrorCode::HistoryUnavailable,
    ErrorCode::CursorUnknown,
    ErrorCode::TooLarge,
    ErrorCode::CrossNetwork,
    ErrorCode::RecipientQueueFull,
    ErrorCode::NetworkFull,
    ErrorCode::ModFailed,
    ErrorCode::OwnerUnavailable,
];

rialto_carrier::operations! {
    for FaceState;
    post "/v1/join" "join" Network scoped (NetworkQuery, Json<JoinBody>) -> Data<JoinedNetwork>, JOIN, members::join, "Join a network and get a session";
    post "/v1/leave" "leave" Network scoped (NetworkQuery, Json<LeaveBody>) -> Data<LeftNetwork>, SEND, members::leave, "Leave: offline, nothing new is queued";
    post "/v1/heartbeat" "heartbeat" Network scoped (NetworkQuery, Json<CallerBody>) -> Data<HeartbeatSeen>, &[], members::heartbeat, "Stay online";
    post "/v1/remove" "remove" Network scoped (NetworkQuery, Json<RemoveBody>) -> Data<RemovedMember>, SEND, members::remove, "Remove a member";
    post "/v1/events" "emit" Network scoped (EmitQuery, OneOrMany<EventDraft>) -> Data<SentAnswer>, SEND, events::post, "Send one event, an array, or NDJSON";
    get "/v1/events" "events" Network scoped (EventsQuery, NoBody) -> Data<EventPage>, HISTORY, events::get, "Read an inbox or history";
    get "/v1/events/stream" "stream" Network scoped (StreamQuery, NoBody) -> EventStream, HISTORY, sse::stream, "Follow an inbox or history as server-sent events";
    get "/v1/events/conversations" "conversations" Network scoped (NetworkQuery, NoBody) -> Data<ConversationList>, HISTORY, conversations::direct, "Direct conversations of the caller";
    get "/v1/events/latest-per-channel" "latest_per_channel" Network scoped (LatestQuery, NoBody) -> Data<LatestEvents>, HISTORY, events::latest_per_channel, "The newest event of each channel";
    get "/v1/events/{id}/explain" "explain" Network scoped (NetworkQuery, NoBody) -> Data<Explanation>, NAMED, events::explain, "Why an event is where it is";
    post "/v1/ack" "ack" Network scoped (NetworkQuery, Json<AckBody>) -> Data<AckedCount>, ACK, events::ack, "Ack deliveries";
    get "/v1/discover" "discover" Network scoped (DiscoverQuery, NoBody) -> Data<Roster>, &[], members::discover, "Members, channels, mods and groups";
    get "/v1/profile" "profile" Public scoped (NetworkQuery, NoBody) -> Data<NetworkProfile>, PROFILE, members::profile, "The network's public profile";
    get "/v1/me" "me" Network scoped (NetworkQuery, NoBody) -> Data<MeView>, &[], members::me, "The caller as it sees itself";
    patch "/v1/me" "change_me" Network scoped (NetworkQuery, Json<ChangeMeBody>) -> Data<MeView>, SEND, members::change_me, "Mute channels, hold mail back, take another name";
    get "/v1/channels" "channels" Network scoped (PageQuery, NoBody) -> Data<ChannelList>, &[], members::channels, "Channels the caller may know of";
    get "/v1/analytics" "analytics" Network scoped (NetworkQuery, NoBody) -> Data<AnalyticsView>, &[ErrorCode::ModNotFound], members::analytics, "What mod/analytics counted";
    get "/v1/threads" "threads" Network scoped (ThreadsQuery, NoBody) -> Data<ThreadList>, NAMED, conversations::threads, "Threads the caller may see, newest activity first";
    get "/v1/threads/{channel}/{thread}" "thread" Network scoped (NetworkQuery, NoBody) -> Data<ThreadView>, NAMED, conversations::thread, "One thread of a channel";
    get "/v1/rooms" "rooms" Network scoped (RoomsQuery, NoBody) -> Data<RoomList>, NAMED, conversations::rooms, "Direct rooms of the caller, newest activity first";
    post "/v1/rooms" "open_room" Network scoped (NetworkQuery, Json<OpenRoomBody>) -> Data<RoomView>, SEND, conversations::open_room, "The caller's room with another member; made if there is none";
    get "/v1/rooms/{id}" "room" Network scoped (NetworkQuery, NoBody) -> Data<RoomView>, NAMED, conversations::room, "One direct room";
    get "/v1/work" "works" Network scoped (WorksQuery, NoBody) -> Data<WorkList>, NAMED, work::list, "Work units the caller asked for, does or might take, newest first";
    post "/v1/work" "open_work" Network scoped (NetworkQuery, Json<WorkOrder>) -> Data<OpenedWork>, SEND, work::open, "Ask for work, once by your own name for it";
    get "/v1/work/{id}" "work" Network scoped (NetworkQuery, NoBody) -> Data<WorkView>, NAMED, work::show, "One work unit";
    get "/v1/work/{id}/artifacts/{artifact}" "work_artifact" Network scoped (NetworkQuery, NoBody) -> KeptBytes, NAMED, work::artifact, "The bytes of an artifact, whole or a range";
    get "/v1/work/{id}/events" "work_events" Network scoped (WorkEventsQuery, NoBody) -> Data<WorkEventPage>, HISTORY, work::events, "What happened to a work unit, in order";
    get "/v1/work/{id}/stream" "work_stream" Network scoped (WorkStreamQuery, NoBody) -> EndingStream, HISTORY, work::stream, "Follow a work unit to its end as server-sent events";
    get "/v1/resources" "resources" Network scoped (ResourcesQuery, NoBody) -> Data<ResourceList>, &[], resources::list, "Tools, files and contexts the caller may read";
    post "/v1/resources" "register_resource" Network scoped (NetworkQuery, Json<RegisterResourceBody>) -> Data<ChangedResource>, SEND, resources::register, "Register a resource";
    get "/v1/resources/{kind}/{*path}" "resource" Network scoped (ReadResourceQuery, NoBody) -> KeptBytesOr<ResourceView>, NAMED, resources::get, "Content of a resource, whole or a range; a description with info";
    put "/v1/resources/{kind}/{*path}" "put_resource" Network scoped (PutResourceQuery, AnyBytes) -> Data<ChangedResource>, SEND, resources::put, "The body becomes the content; If-Match guards the version";
    patch "/v1/resources/{kind}/{*path}" "change_resource" Network scoped (NetworkQuery, Json<ResourceChanges>) -> Data<ChangedResource>, SEND, resources::change, "Change a resource";
    delete "/v1/resources/{kind}/{*path}" "remove_resource" Network scoped (NetworkQuery, NoBody) -> Data<UnregisteredResource>, SEND, resources::remove, "Unregister a resource";
    post "/v1/blobs" "stage_blob" Network scoped (NetworkQuery, AnyBytes) -> Data<StagedBlob>, SEND, resources::stage, "Take content in that an event will name";
    post "/v1/files" "upload_file" Network scoped (FileQuery, Form<UploadForm>) -> Data<FileEntry>, SEND, files::upload, "Upload a file as a form: file, network, channel_name, source";
    post "/v1/files/base64" "upload_file_base64" Network scoped (FileQuery, Json<UploadBody>) -> Data<FileEntry>, SEND, files::upload_base64, "Upload a file in base64";
    get "/v1/files" "files" Network scoped (FilesQuery, NoBody) -> Data<FileEntries>, NAMED, files::list, "Files of a workspace, newest first";
    get "/v1/files/{id}" "file" Network scoped (ReadFileQuery, NoBody) -> KeptBytes, NAMED, files::get, "The bytes of a file, whole or a range";
    get "/v1/files/{id}/info" "file_info" Network scoped (FileQuery, NoBody) -> Data<FileEntry>, NAMED, files::info, "One file";
    delete "/v1/files/{id}" "delete_file" Network scoped (FileQuery, NoBody) -> Data<DeletedFile>, SEND, files::remove, "Delete a file";
    post "/v1/invoke/{tool}" "invoke" Network scoped (InvokeQuery, Json<ToolInput>) -> Data<ToolResult>, SEND, resources::invoke, "Call a tool and wait for its result";
    post "/v1/workspaces" "create_workspace" Public plain (NoQuery, Json<CreateWorkspaceBody>) -> Data<CreatedWorkspace>, CREATE, workspaces::create, "Make a workspace with its first session";
    get "/v1/workspaces" "workspaces" Network plain (NoQuery, NoBody) -> Data<WorkspaceBodies>, &[], workspaces::list, "Workspaces the caller may look at";
    get "/v1/workspaces/{id}" "workspace" Network plain (NoQuery, NoBody) -> Data<WorkspaceBody>, &[], workspaces::show, "One workspace with its agents";
    patch "/v1/workspaces/{id}" "change_workspace" Network plain (NoQuery, Json<ChangeWorkspaceBody>) -> Data<WorkspaceBody>, ACT, workspaces::change, "Change a workspace";
    delete "/v1/workspaces/{id}" "archive_workspace" Network plain (NoQuery, NoBody) -> Data<ArchivedWorkspace>, ACT, workspaces::archive, "Archive a workspace";
    post "/v1/workspaces/{id}/rotate-token" "rotate_token" Network plain (NoQuery, NoBody) -> Data<RotatedToken>, ACT, workspaces::rotate, "A new token for the workspace; the old ones end";
    get "/v1/workspaces/{id}/channels" "workspace_channels" Network plain (WorkspaceChannelsQuery, NoBody) -> Data<WorkspaceChannels>, &[], workspaces::channels, "Channels of a workspace";
    post "/v1/workspaces/{id}/channels" "create_session" Network plain (NoQuery, Json<OpenSessionBody>) -> Data<WorkspaceChannel>, ACT, workspaces::open, "Make a session";
    get "/v1/workspaces/{id}/channels/{name}" "workspace_channel" Network plain (NoQuery, NoBody) -> Data<WorkspaceChannel>, NAMED, workspaces::channel, "One channel";
    patch "/v1/workspaces/{id}/channels/{name}" "change_channel" Network plain (NoQuery, Json<ChangeChannelBody>) -> Data<WorkspaceChannel>, ACT, workspaces::change_channel, "Change what a channel says of itself";
    delete "/v1/workspaces/{id}/channels/{name}" "archive_channel" Network plain (NoQuery, NoBody) -> Data<WorkspaceChannel>, ACT, workspaces::archive_channel, "Archive a channel";
    patch "/v1/workspaces/{id}/members/{name}" "change_member" Network plain (NoQuery, Json<ChangeWorkspaceMemberBody>) -> Data<ChangedMember>, ACT, workspaces::change_member, "Change what a workspace says of a member, or its role";
    post "/v1/workspaces/{id}/members/{name}/skills/status" "skill_status" Network plain (NoQuery, Json<SkillStatusBody>) -> Data<SkillStatus>, ACT, workspaces::skill_status, "Tell how the installation of a skill gets on";
    post "/v1/token/resolve" "resolve_token" Public plain (NoQuery, Json<ResolveTokenBody>) -> Data<ResolvedToken>, PROFILE, workspaces::resolve, "The workspace a token is for";
    post "/v1/composing" "composing" Network scoped (NetworkQuery, Json<ComposingBody>) -> Data<StatusOk>, SEND, workspaces::composing, "Tell a channel that the caller writes";
    get "/v1/invitations" "invitations" Network scoped (InvitationsQuery, NoBody) -> Data<InvitationList>, &[], workspaces::invitations, "Invitations for the caller; all for the operator";
    post "/v1/invitations" "invite" Network scoped (NetworkQuery, Json<InviteBody>) -> Data<MadeInvitation>, SEND, workspaces::invite, "Invite somebody; the code is shown this once";
    post "/v1/invitations/{invitation}/reject" "reject_invitation" Public scoped (NetworkQuery, Json<RejectInvitationBody>) -> Data<EndedInvitation>, REJECT, workspaces::reject, "Refuse an invitation";
    delete "/v1/invitations/{invitation}" "revoke_invitation" Network scoped (NetworkQuery, NoBody) -> Data<EndedInvitation>, SEND, workspaces::revoke, "Take an invitation back";
    get "/v1/browser/tabs" "browser_tabs" Network scoped (NetworkQuery, NoBody) -> Data<Tabs>, &[], elsewhere::tabs, "No tabs: there is no browser here";
    get "/v1/browser/contexts" "browser_contexts" Network scoped (NetworkQuery, NoBody) -> Data<Contexts>, &[], elsewhere::contexts, "No contexts: there is no browser here";
    get "/v1/todos" "todos" Network scoped (NetworkQuery, NoBody) -> Data<Todos>, &[], elsewhere::todos, "None: there are no todos here";
    get "/v1/timers" "timers" Network scoped (NetworkQuery, NoBody) -> Data<Timers>, &[], elsewhere::timers, "None: there are no timers here";
    get "/v1/routines" "routines" Network scoped (NetworkQuery, NoBody) -> Data<Routines>, &[], elsewhere::routines, "None: there are no routines here";
    get "/v1/notifications" "notifications" Network scoped (NetworkQuery, NoBody) -> Data<Notifications>, &[], elsewhere::notifications, "None: there are no notifications here";
    get "/v1/knowledge" "knowledge" Network scoped (NetworkQuery, NoBody) -> Data<Entries>, &[], elsewhere::knowledge, "None: there is no knowledge base here";
    get "/asyncapi.json" "asyncapi" Public plain (NoQuery, NoBody) -> Plain<AsyncApiDocument>, PROFILE, docs::asyncapi, "Streams of the default network";
    get "/v1/ws/{network}/asyncapi.json" "network_asyncapi" Public plain (NoQuery, NoBody) -> Plain<AsyncApiDocument>, PROFILE, docs::network_asyncapi, "Streams of a network";
    get "/v1/ws/{network}" "network_profile" Public plain (NoQuery, NoBody) -> Data<NetworkProfile>, PROFILE, members::network_profile, "The network's public profile";
    get "/ws/{network}" "websocket" Network plain (WebSocketQuery, NoBody) -> WebSocketUpgrade, HANDSHAKE, ws::upgrade, "The stream conversation over WebSocket";
}
