//! The table of HTTP operations of this face.

use crate::{conversations, docs, events, files, members, resources, sse, work, workspaces, ws};
use rialto_carrier::FaceState;

/// Filters of every history read.
const FILTERS: &[&str] = &[
    "network",
    "after",
    "before",
    "limit",
    "sort",
    "type",
    "channel",
    "target",
    "source",
    "target_agents",
    "member",
    "conversation",
    "in_reply_to",
    "thread",
    "room",
    "search",
    "since",
    "until",
    "view",
    "ack",
    "wait",
    "token",
];

rialto_carrier::operations! {
    for FaceState;
    post "/v1/join" "join" Network scoped &["network"], &["agent_id", "credentials", "role", "agent_type", "description", "capabilities", "channels", "resume_after", "receive", "session_id", "agent_name", "token", "network"], members::join, "Join a network and get a session";
    post "/v1/leave" "leave" Network scoped &["network"], &["agent_id", "forget", "reason", "agent_name", "network"], members::leave, "Leave: offline, nothing new is queued";
    post "/v1/heartbeat" "heartbeat" Network scoped &["network"], &["agent_id", "agent_name", "session_id", "network"], members::heartbeat, "Stay online";
    post "/v1/remove" "remove" Network scoped &["network"], &["agent_name", "address", "network"], members::remove, "Remove a member";
    post "/v1/events" "emit" Network scoped &["network", "wait"], &["id", "type", "source", "target", "payload", "metadata", "visibility"], events::post, "Send one event, an array, or NDJSON";
    get "/v1/events" "events" Network scoped FILTERS, &[], events::get, "Read an inbox or history";
    get "/v1/events/stream" "stream" Network scoped FILTERS, &[], sse::stream, "Follow an inbox or history as server-sent events";
    get "/v1/events/conversations" "conversations" Network scoped &["network"], &[], conversations::direct, "Direct conversations of the caller";
    get "/v1/events/latest-per-channel" "latest_per_channel" Network scoped &["network", "type"], &[], events::latest_per_channel, "The newest event of each channel";
    get "/v1/events/{id}/explain" "explain" Network scoped &["network"], &[], events::explain, "Why an event is where it is";
    post "/v1/ack" "ack" Network scoped &["network"], &["ids", "up_to"], events::ack, "Ack deliveries";
    get "/v1/discover" "discover" Network scoped &["network", "role", "status", "capability", "query", "include", "after", "limit"], &[], members::discover, "Members, channels, mods and groups";
    get "/v1/profile" "profile" Public scoped &["network"], &[], members::profile, "The network's public profile";
    get "/v1/me" "me" Network scoped &["network"], &[], members::me, "The caller as it sees itself";
    patch "/v1/me" "change_me" Network scoped &["network"], &["mute", "unmute", "dnd", "name", "network"], members::change_me, "Mute channels, hold mail back, take another name";
    get "/v1/channels" "channels" Network scoped &["network", "after", "limit"], &[], members::channels, "Channels the caller may know of";
    get "/v1/analytics" "analytics" Network scoped &["network"], &[], members::analytics, "What mod/analytics counted";
    get "/v1/threads" "threads" Network scoped &["network", "channel", "before", "limit"], &[], conversations::threads, "Threads the caller may see, newest activity first";
    get "/v1/threads/{channel}/{thread}" "thread" Network scoped &["network"], &[], conversations::thread, "One thread of a channel";
    get "/v1/rooms" "rooms" Network scoped &["network", "before", "limit"], &[], conversations::rooms, "Direct rooms of the caller, newest activity first";
    post "/v1/rooms" "open_room" Network scoped &["network"], &["peer", "channel"], conversations::open_room, "The caller's room with another member; made if there is none";
    get "/v1/rooms/{id}" "room" Network scoped &["network"], &[], conversations::room, "One direct room";
    get "/v1/work" "works" Network scoped &["network", "role", "state", "channel", "thread", "context", "parent", "before", "limit"], &[], work::list, "Work units the caller asked for, does or might take, newest first";
    post "/v1/work" "open_work" Network scoped &["network"], &["target", "name", "content", "thread", "skill", "parent", "context", "deadline_ms", "network"], work::open, "Ask for work, once by your own name for it";
    get "/v1/work/{id}" "work" Network scoped &["network"], &[], work::show, "One work unit";
    get "/v1/work/{id}/artifacts/{artifact}" "work_artifact" Network scoped &["network"], &[], work::artifact, "The bytes of an artifact, whole or a range";
    get "/v1/work/{id}/events" "work_events" Network scoped &["network", "after", "limit", "wait"], &[], work::events, "What happened to a work unit, in order";
    get "/v1/work/{id}/stream" "work_stream" Network scoped &["network", "after", "token"], &[], work::stream, "Follow a work unit to its end as server-sent events";
    get "/v1/resources" "resources" Network scoped &["network", "type", "owner", "prefix", "query", "after", "limit"], &[], resources::list, "Tools, files and contexts the caller may read";
    post "/v1/resources" "register_resource" Network scoped &["network"], &["address", "type", "description", "schema", "content_type", "content", "encoding", "permissions", "metadata"], resources::register, "Register a resource";
    get "/v1/resources/{kind}/{*path}" "resource" Network scoped &["network", "version", "info"], &[], resources::get, "Content of a resource, whole or a range; a description with info";
    put "/v1/resources/{kind}/{*path}" "put_resource" Network scoped &["network", "description", "permissions"], &[], resources::put, "The body becomes the content; If-Match guards the version";
    patch "/v1/resources/{kind}/{*path}" "change_resource" Network scoped &["network"], &["content", "encoding", "content_type", "description", "schema", "permissions", "if_version", "append"], resources::change, "Change a resource";
    delete "/v1/resources/{kind}/{*path}" "remove_resource" Network scoped &["network"], &[], resources::remove, "Unregister a resource";
    post "/v1/blobs" "stage_blob" Network scoped &["network"], &[], resources::stage, "Take content in that an event will name";
    post "/v1/files" "upload_file" Network scoped &["network", "source"], &[], files::upload, "Upload a file as a form: file, network, channel_name, source";
    post "/v1/files/base64" "upload_file_base64" Network scoped &["network", "source"], &["filename", "content_base64", "content_type", "network", "source", "channel_name"], files::upload_base64, "Upload a file in base64";
    get "/v1/files" "files" Network scoped &["network", "limit", "offset", "channel_name", "uploaded_by"], &[], files::list, "Files of a workspace, newest first";
    get "/v1/files/{id}" "file" Network scoped &["network", "token"], &[], files::get, "The bytes of a file, whole or a range";
    get "/v1/files/{id}/info" "file_info" Network scoped &["network"], &[], files::info, "One file";
    delete "/v1/files/{id}" "delete_file" Network scoped &["network", "source"], &[], files::remove, "Delete a file";
    post "/v1/invoke/{tool}" "invoke" Network scoped &["network", "timeout_ms", "wait_for_owner"], &[], resources::invoke, "Call a tool and wait for its result";
    post "/v1/workspaces" "create_workspace" Public plain &[], &["name", "agent_name", "agent_type", "creator_email"], workspaces::create, "Make a workspace with its first session";
    get "/v1/workspaces" "workspaces" Network plain &[], &[], workspaces::list, "Workspaces the caller may look at";
    get "/v1/workspaces/{id}" "workspace" Network plain &[], &[], workspaces::show, "One workspace with its agents";
    patch "/v1/workspaces/{id}" "change_workspace" Network plain &[], &["name", "settings", "status"], workspaces::change, "Change a workspace";
    delete "/v1/workspaces/{id}" "archive_workspace" Network plain &[], &[], workspaces::archive, "Archive a workspace";
    post "/v1/workspaces/{id}/rotate-token" "rotate_token" Network plain &[], &[], workspaces::rotate, "A new token for the workspace; the old ones end";
    get "/v1/workspaces/{id}/channels" "workspace_channels" Network plain &["after"], &[], workspaces::channels, "Channels of a workspace";
    post "/v1/workspaces/{id}/channels" "create_session" Network plain &[], &["name", "title", "master", "participants", "resume_from"], workspaces::open, "Make a session";
    get "/v1/workspaces/{id}/channels/{name}" "workspace_channel" Network plain &[], &[], workspaces::channel, "One channel";
    patch "/v1/workspaces/{id}/channels/{name}" "change_channel" Network plain &[], &["title", "status", "starred", "master_agent", "auto_title"], workspaces::change_channel, "Change what a channel says of itself";
    delete "/v1/workspaces/{id}/channels/{name}" "archive_channel" Network plain &[], &[], workspaces::archive_channel, "Archive a channel";
    patch "/v1/workspaces/{id}/members/{name}" "change_member" Network plain &[], &["role"], workspaces::change_member, "Set a member's role";
    post "/v1/token/resolve" "resolve_token" Public plain &[], &["token"], workspaces::resolve, "The workspace a token is for";
    post "/v1/composing" "composing" Network scoped &["network"], &["network", "channel"], workspaces::composing, "Tell a channel that the caller writes";
    get "/v1/invitations" "invitations" Network scoped &["network", "agent"], &[], workspaces::invitations, "Invitations for the caller; all for the operator";
    post "/v1/invitations" "invite" Network scoped &["network"], &["invitee", "role", "channel", "message", "expires_in_s", "max_uses"], workspaces::invite, "Invite somebody; the code is shown this once";
    post "/v1/invitations/{invitation}/reject" "reject_invitation" Public scoped &["network"], &["code"], workspaces::reject, "Refuse an invitation";
    delete "/v1/invitations/{invitation}" "revoke_invitation" Network scoped &["network"], &[], workspaces::revoke, "Take an invitation back";
    get "/asyncapi.json" "asyncapi" Public plain &[], &[], docs::asyncapi, "Streams of the default network";
    get "/v1/ws/{network}/asyncapi.json" "network_asyncapi" Public plain &[], &[], docs::network_asyncapi, "Streams of a network";
    get "/v1/ws/{network}" "network_profile" Public plain &[], &[], members::network_profile, "The network's public profile";
    get "/ws/{network}" "websocket" Network plain &["token"], &[], ws::upgrade, "The stream conversation over WebSocket";
}
