//! The one table of HTTP operations: the router and the OpenAPI document are both made from it.

use crate::app::{App, FaceConfig};
use crate::{admin, docs, events, members, operations, sse, ws};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
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
    get "/v1/events/conversations" "conversations" Network scoped &["network"], &[], members::conversations, "Direct conversations of the caller";
    get "/v1/events/latest-per-channel" "latest_per_channel" Network scoped &["network", "type"], &[], events::latest_per_channel, "The newest event of each channel";
    get "/v1/events/{id}/explain" "explain" Network scoped &["network"], &[], events::explain, "Why an event is where it is";
    post "/v1/ack" "ack" Network scoped &["network"], &["ids", "up_to"], events::ack, "Ack deliveries";
    get "/v1/discover" "discover" Network scoped &["network", "role", "status", "capability", "query"], &[], members::discover, "Members, channels, mods and groups";
    get "/v1/profile" "profile" Public scoped &["network"], &[], members::profile, "The network's public profile";
    get "/v1/channels" "channels" Network scoped &["network"], &[], members::channels, "Channels the caller may know of";
    get "/v1/threads" "threads" Network scoped &["network", "channel"], &[], members::threads, "Threads of a channel";
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
    patch "/v1/admin/networks/{id}/members/{address}" "admin_role" Operator plain &[], &["role"], admin::role, "Set a member's role";
    delete "/v1/admin/networks/{id}/members/{address}" "admin_remove_member" Operator plain &[], &[], admin::remove_member, "Remove a member";
    put "/v1/admin/networks/{id}/mods/{name}" "admin_set_mod" Operator plain &[], &["config", "intercepts", "priority", "enabled"], admin::set_mod, "Load or configure a mod";
    delete "/v1/admin/networks/{id}/mods/{name}" "admin_remove_mod" Operator plain &[], &[], admin::remove_mod, "Unload a mod";
    get "/v1/admin/networks/{id}/dead-letters" "admin_dead_letters" Operator plain &[], &[], admin::dead_letters, "Deliveries that ended undelivered";
    post "/v1/admin/networks/{id}/redact" "admin_redact" Operator plain &[], &["event_id"], admin::redact, "Redact an event: tombstone, payload overwritten, search row removed";
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
    get "/browser" "browser" Public plain &["code"], &[], admin::browser, "Exchange a one-time code for a human session";
}

/// The path of an operation below a network.
pub fn scoped_path(op: &Op) -> Option<String> {
    op.scoped.then(|| op.path.replacen("/v1/", "/v1/ws/{network}/", 1))
}

/// The router over the table. Bodies are bounded, Host and Origin are checked on every path.
pub fn router(app: App) -> Router {
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
        .layer(from_fn_with_state(app, check_origin))
}

async fn not_found() -> Response {
    crate::error::Refusal::from(Fault::new(ErrorCode::UnknownTarget, "no such path; /openapi.json lists them"))
        .into_response()
}

async fn not_allowed() -> Response {
    let mut response =
        crate::error::Refusal::from(Fault::new(ErrorCode::Unsupported, "this path does not take that method"))
            .into_response();
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

/// DNS rebinding: a Host or Origin that is not ours is refused before anything is looked at.
async fn check_origin(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = request
        .uri()
        .authority()
        .map(|a| a.as_str().to_owned())
        .or_else(|| headers.get(header::HOST).and_then(|h| h.to_str().ok()).map(str::to_owned));
    let refuse =
        |what: String| crate::error::Refusal::from(Fault::new(ErrorCode::OriginForbidden, what)).into_response();
    if let Some(host) = &host
        && !host_allowed(&app.config, host)
    {
        return refuse(format!("host {host:?} is not this node's; set server.allowed_hosts"));
    }
    if let Some(origin) = origin(headers)
        && !origin_allowed(&app.config, &origin, host.as_deref())
    {
        return refuse(format!("origin {origin:?} is not allowed; set server.allowed_origins"));
    }
    let cors = origin(headers).filter(|o| app.config.allowed_origins.iter().any(|a| a == o));
    let preflight = request.method() == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if preflight && cors.is_some() {
        preflight_answer()
    } else {
        // HTTP/2 says the host elsewhere; handlers look in one place.
        if let (false, Some(host)) = (headers.contains_key(header::HOST), host.and_then(|h| h.parse().ok())) {
            request.headers_mut().insert(header::HOST, host);
        }
        in_our_words(next.run(request).await)
    };
    if let Some(origin) = cors.and_then(|o| o.parse().ok()) {
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// What a page of an allowed origin may send.
fn preflight_answer() -> Response {
    const METHODS: &str = "GET, POST, PUT, PATCH, DELETE";
    const HEADERS: &str = "authorization, content-type, idempotency-key, last-event-id, x-agent-name, x-network, x-session-id, x-workspace-token";
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Refusals of the web framework (a body too large, a malformed query, no upgrade) in the one form of all errors.
fn in_our_words(response: Response) -> Response {
    let is = |name: &str| {
        response.headers().get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(name.as_bytes()))
    };
    let plain = is("text/plain") || !response.headers().contains_key(header::CONTENT_TYPE);
    let code = match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ErrorCode::TooLarge,
        StatusCode::UPGRADE_REQUIRED | StatusCode::METHOD_NOT_ALLOWED => ErrorCode::Unsupported,
        status if status.is_client_error() => ErrorCode::InvalidArgument,
        _ => return response,
    };
    if !plain {
        return response;
    }
    let what = match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE => format!("a body is at most {} bytes", limits::BATCH_BYTES_MAX),
        _ => "the request is malformed".to_owned(),
    };
    let status = response.status();
    let mut ours = crate::error::Refusal::from(Fault::new(code, what)).into_response();
    if code == ErrorCode::Unsupported {
        *ours.status_mut() = status;
    }
    ours
}

fn origin(headers: &HeaderMap) -> Option<String> {
    headers.get(header::ORIGIN).map(|o| o.to_str().unwrap_or("invalid").to_owned())
}

/// The name without its port.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or(host, |(name, _)| name);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn host_allowed(config: &FaceConfig, host: &str) -> bool {
    let name = host_name(host);
    let listen = host_name(&config.listen);
    let public = config
        .public_url
        .as_deref()
        .and_then(|u| u.split_once("://"))
        .map(|(_, rest)| rest.split('/').next().unwrap_or(rest));
    is_loopback(name)
        || name == listen
        || public.is_some_and(|p| host_name(p).eq_ignore_ascii_case(name))
        || config.allowed_hosts.iter().any(|h| h.eq_ignore_ascii_case(name) || h.eq_ignore_ascii_case(host))
}

fn origin_allowed(config: &FaceConfig, origin: &str, host: Option<&str>) -> bool {
    if config.allowed_origins.iter().any(|a| a == origin) {
        return true;
    }
    let Some((_, rest)) = origin.split_once("://") else { return false };
    // One's own pages: same host, or both on loopback.
    host.is_some_and(|h| h.eq_ignore_ascii_case(rest))
        || config.public_url.as_deref() == Some(origin)
        || is_loopback(host_name(rest)) && host.is_some_and(|h| is_loopback(host_name(h)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_lose_their_ports() {
        assert_eq!(host_name("localhost:8700"), "localhost");
        assert_eq!(host_name("[::1]:8700"), "::1");
        assert_eq!(host_name("example.org"), "example.org");
        assert!(is_loopback("127.0.0.1") && is_loopback("::1") && !is_loopback("127.0.0.1.evil.example"));
    }

    fn app(origins: &[&str], hosts: &[&str]) -> FaceConfig {
        FaceConfig {
            public_url: Some("https://Hub.example/base".to_owned()),
            allowed_origins: origins.iter().map(|o| (*o).to_owned()).collect(),
            allowed_hosts: hosts.iter().map(|h| (*h).to_owned()).collect(),
            tls: false,
            listen: "10.0.0.7:8700".to_owned(),
        }
    }

    #[test]
    fn hosts_and_origins() {
        let config = app(&["https://ui.example"], &["node.lan", "other.lan:99"]);
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8700",
            "127.9.9.9",
            "[::1]:8700",
            "10.0.0.7:1",
            "hub.EXAMPLE:443",
            "node.lan:7",
            "other.lan:99",
        ] {
            assert!(host_allowed(&config, host), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example:8700",
            "[2001:db8::1]",
            "other.lan:98",
            "::1",
            "",
        ] {
            assert!(!host_allowed(&config, host), "{host}");
        }
        let own = Some("hub.example");
        for origin in ["https://ui.example", "https://hub.example", "http://HUB.example"] {
            assert!(origin_allowed(&config, origin, own), "{origin}");
        }
        for origin in ["null", "https://ui.example:8443", "https://evil.example", "http://localhost:3000", ""] {
            assert!(!origin_allowed(&config, origin, own), "{origin}");
        }
        assert!(origin_allowed(&config, "http://[::1]:3000", Some("127.0.0.1:8700")));
        assert!(!origin_allowed(&config, "https://hub.example", None));
    }

    #[test]
    fn every_operation_has_its_own_name_and_place() {
        for (i, op) in OPS.iter().enumerate() {
            let twin = OPS.iter().skip(i + 1).find(|o| o.id == op.id || o.method == op.method && o.path == op.path);
            assert!(twin.is_none(), "{} is listed twice", op.id);
        }
    }
}
