//! The one table of HTTP operations: the router and the OpenAPI document are both made from it.

use crate::app::App;
use crate::{
    admin, conversations, docs, events, files, members, mods, operations, resources, sse, transfer, work, workspaces,
    ws,
};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use rialto_model::{ErrorCode, Fault, limits};

/// Who may call an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Public,
    /// A member, or a holder of the network's credential.
    Network,
    /// The operator.
    Operator,
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct Op {
    /// HTTP method, lower case.
    pub method: &'static str,
    /// Path with `{parameters}`.
    pub path: &'static str,
    /// Name in the OpenAPI document.
    pub id: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Who may call.
    pub access: Access,
    /// Also served under `/v1/ws/{network}/…`.
    pub scoped: bool,
    /// Query parameters.
    pub query: &'static [&'static str],
    /// Members of the JSON body.
    pub body: &'static [&'static str],
    handler: fn() -> MethodRouter<App>,
}

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

macro_rules! ops {
    ($($method:ident $path:literal $id:literal $access:ident $scoped:ident $query:expr, $body:expr, $handler:expr, $summary:literal;)*) => {
        /// Every operation this face serves.
        pub const OPS: &[Op] = &[$(Op {
            method: stringify!($method), path: $path, id: $id, summary: $summary, access: Access::$access,
            scoped: ops!(@scoped $scoped), query: $query, body: $body, handler: || $method($handler),
        },)*];
    };
    (@scoped scoped) => { true };
    (@scoped plain) => { false };
}

ops! {
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
    get "/v1/admin/networks" "admin_networks" Operator plain &[], &[], admin::list, "All networks";
    post "/v1/admin/networks" "admin_create_network" Operator plain &[], &["name", "policy", "profile", "delivery", "durability", "retention", "min_verification", "mods"], admin::create, "Make a network";
    get "/v1/admin/networks/{id}" "admin_network" Operator plain &[], &[], admin::show, "One network";
    patch "/v1/admin/networks/{id}" "admin_change_network" Operator plain &[], &["name", "status", "policy", "delivery", "metadata"], admin::change, "Change settings or status";
    get "/v1/admin/networks/{id}/tokens" "admin_tokens" Operator plain &[], &[], admin::tokens, "Tokens, without their secrets";
    post "/v1/admin/networks/{id}/tokens" "admin_new_token" Operator plain &[], &["label", "role", "agent", "expires_at"], admin::new_token, "Make a token; shown this once";
    delete "/v1/admin/networks/{id}/tokens/{label}" "admin_revoke_token" Operator plain &[], &[], admin::revoke_token, "Revoke a token";
    get "/v1/admin/networks/{id}/groups" "admin_groups" Operator plain &[], &[], admin::groups, "Groups";
    get "/v1/admin/networks/{id}/groups/{name}" "admin_group" Operator plain &[], &[], admin::group, "One group";
    put "/v1/admin/networks/{id}/groups/{name}" "admin_set_group" Operator plain &[], &["members"], admin::set_group, "Set a group's members";
    delete "/v1/admin/networks/{id}/groups/{name}" "admin_delete_group" Operator plain &[], &[], admin::delete_group, "Delete a group";
    patch "/v1/admin/networks/{id}/members/{address}" "admin_change_member" Operator plain &[], &["role", "mute", "unmute", "dnd", "name"], admin::change_member, "Set a member's role, name, or what it mutes";
    delete "/v1/admin/networks/{id}/members/{address}" "admin_remove_member" Operator plain &[], &[], admin::remove_member, "Remove a member";
    get "/v1/admin/networks/{id}/members" "admin_members" Operator plain &[], &[], admin::members, "Members with what holds their names, and their sessions";
    post "/v1/admin/networks/{id}/members/{address}/release" "admin_release_member" Operator plain &[], &[], admin::release_member, "Free a name: nobody owns it any more";
    delete "/v1/admin/networks/{id}/members/{address}/sessions" "admin_end_sessions" Operator plain &["session"], &[], admin::end_sessions, "End a member's sessions, or one of them";
    get "/v1/admin/networks/{id}/audit" "admin_audit" Operator plain &["since", "actor"], &[], admin::audit, "Who managed the network: when, what, from where, before and after";
    post "/v1/admin/browser" "admin_browser" Operator plain &[], &[], admin::browser_link, "Another link for the operator's browser; it works once, for ten minutes";
    get "/v1/admin/networks/{id}/mods" "admin_mods" Operator plain &[], &[], mods::list, "Loaded mods in pipeline order";
    post "/v1/admin/networks/{id}/mods" "admin_load_mod" Operator plain &[], &["name", "config", "intercepts", "priority", "enabled"], mods::load, "Load a mod that is not loaded";
    post "/v1/admin/networks/{id}/mods/order" "admin_order_mods" Operator plain &[], &["names", "mode"], mods::order, "Put the mods of one mode in order";
    get "/v1/admin/networks/{id}/mods/{name}" "admin_mod" Operator plain &[], &[], mods::show, "One mod with its settings";
    put "/v1/admin/networks/{id}/mods/{name}" "admin_set_mod" Operator plain &[], &["config", "intercepts", "priority", "enabled"], mods::set, "Load a mod or replace it whole";
    patch "/v1/admin/networks/{id}/mods/{name}" "admin_change_mod" Operator plain &[], &["config", "intercepts", "priority", "enabled", "on_error", "deadline_ms"], mods::change, "Change a loaded mod";
    post "/v1/admin/networks/{id}/mods/{name}/approve" "admin_approve_mod" Operator plain &[], &["address", "approved"], mods::approve, "Let a member serve a mod, or no longer";
    delete "/v1/admin/networks/{id}/mods/{name}" "admin_remove_mod" Operator plain &[], &[], mods::unload, "Unload a mod";
    get "/v1/admin/networks/{id}/dead-letters" "admin_dead_letters" Operator plain &["event_id", "recipient", "limit"], &[], admin::dead_letters, "Deliveries that ended undelivered, the newest first";
    post "/v1/admin/networks/{id}/dead-letters/retry" "admin_retry_dead_letters" Operator plain &[], &["event_id", "recipient", "all", "limit"], admin::retry_dead_letters, "Send dead letters again, each to its recipient";
    post "/v1/admin/networks/{id}/dead-letters/drop" "admin_drop_dead_letters" Operator plain &[], &["event_id", "recipient", "all", "limit"], admin::drop_dead_letters, "Put dead letters away";
    post "/v1/admin/networks/{id}/redact" "admin_redact" Operator plain &[], &["event_id"], admin::redact, "Redact an event: tombstone, payload overwritten, search row removed";
    post "/v1/admin/networks/{id}/export" "admin_export_network" Operator plain &[], &[], transfer::export, "One network as a file";
    post "/v1/admin/import" "admin_import_network" Operator plain &["name"], &[], transfer::import, "Make a network of such a file";
    post "/v1/admin/backup" "admin_backup" Operator plain &[], &[], operations::backup, "A backup of the whole node as one file";
    post "/v1/admin/verify" "admin_verify" Operator plain &[], &[], operations::verify, "Check everything: progress as NDJSON, then the report";
    get "/v1/admin/doctor" "admin_doctor" Operator plain &[], &[], operations::doctor, "Health of the node, with live probes";
    get "/health" "health" Public plain &[], &[], operations::health, "The process lives";
    get "/ready" "ready" Public plain &[], &[], operations::ready, "The node takes writes";
    get "/metrics" "metrics" Public plain &[], &[], operations::metrics, "Prometheus metrics";
    get "/openapi.json" "openapi" Public plain &[], &[], docs::openapi, "This document";
    get "/asyncapi.json" "asyncapi" Public plain &[], &[], docs::asyncapi, "Streams of the default network";
    get "/v1/ws/{network}/asyncapi.json" "network_asyncapi" Public plain &[], &[], docs::network_asyncapi, "Streams of a network";
    get "/.well-known/openagents.json" "well_known" Public plain &[], &[], docs::well_known, "What this node offers";
    get "/v1/ws/{network}" "network_profile" Public plain &[], &[], members::network_profile, "The network's public profile";
    get "/ws/{network}" "websocket" Network plain &["token"], &[], ws::upgrade, "The stream conversation over WebSocket";
    post "/v1/browser" "browser" Public plain &[], &["code"], admin::browser, "A session of the operator for the code of the browser link";
}

/// The path of an operation below a network.
pub fn scoped_path(op: &Op) -> Option<String> {
    op.scoped.then(|| op.path.replacen("/v1/", "/v1/ws/{network}/", 1))
}

/// The router over the table. Bodies are bounded; the door before it checks Host and Origin.
pub(crate) fn router(app: App) -> Router {
    let mut router = Router::new();
    for op in OPS {
        router = router.route(op.path, (op.handler)());
        if let Some(path) = scoped_path(op) {
            router = router.route(&path, (op.handler)());
        }
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(DefaultBodyLimit::max(limits::BATCH_BYTES_MAX))
        .with_state(app.clone())
        .merge(crate::grpc::router(&app))
}

/// Whether an operation takes content that goes to the disk as it comes, with bounds of its own; any other body is kept until it is whole.
pub(crate) fn takes_content(method: &Method, path: &str) -> bool {
    let Some(rest) = path.strip_prefix("/v1/") else { return false };
    let below = rest.strip_prefix("ws/").and_then(|rest| rest.split_once('/')).map_or(rest, |(_, below)| below);
    match *method {
        Method::PUT => below.starts_with("resources/"),
        Method::POST => matches!(below, "blobs" | "files" | "files/base64" | "admin/import"),
        _ => false,
    }
}

/// What other workspace servers have and this one does not: clients get along without it.
const ELSEWHERE: &[&str] = &["todos", "timers", "routines", "browser", "knowledge", "notifications"];

async fn not_found(uri: axum::http::Uri) -> Response {
    let rest = uri.path().strip_prefix("/v1/").unwrap_or_default();
    if ELSEWHERE.contains(&rest.split('/').next().unwrap_or_default()) {
        let fault = Fault::new(ErrorCode::Unsupported, format!("{} is not offered here", uri.path()));
        return rialto_carrier::Refusal::from(fault).into_response();
    }
    rialto_carrier::Refusal::from(Fault::new(ErrorCode::UnknownTarget, "no such path; /openapi.json lists them"))
        .into_response()
}

async fn not_allowed() -> Response {
    let mut response =
        rialto_carrier::Refusal::from(Fault::new(ErrorCode::Unsupported, "this path does not take that method"))
            .into_response();
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_own_name_and_place() {
        for (i, op) in OPS.iter().enumerate() {
            let twin = OPS.iter().skip(i + 1).find(|o| o.id == op.id || o.method == op.method && o.path == op.path);
            assert!(twin.is_none(), "{} is listed twice", op.id);
        }
    }
}
