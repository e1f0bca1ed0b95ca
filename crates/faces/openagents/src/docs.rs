//! Documents about the face: AsyncAPI, the well-known file, and the schemas of its part of the OpenAPI document.

use crate::auth::CallRequest;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use rialto_carrier::state::is_listed;
use rialto_carrier::{FaceState, Refusal};
use rialto_model::ErrorCode;
use rialto_node::Network;
use serde_json::{Map, Value, json};

rialto_carrier::operations! {
    for FaceState;
    get "/.well-known/openagents.json" "well_known" Public plain &[], &[], well_known, "What this node offers";
}

/// Transports of a network as its profile lists them.
pub(crate) fn transports(base: &str, network: &str) -> Value {
    let ws = base.replacen("http", "ws", 1);
    let host = base.split_once("://").map_or(base, |(_, h)| h);
    json!([
        { "type": "http", "endpoint": format!("{base}/v1/ws/{network}") },
        { "type": "sse", "endpoint": format!("{base}/v1/ws/{network}/events/stream") },
        { "type": "websocket", "endpoint": format!("{ws}/ws/{network}") },
        { "type": "grpc", "endpoint": format!("grpc://{host}") },
    ])
}

pub(crate) fn event_schema() -> Value {
    json!({ "type": "object", "required": ["id", "type", "source", "target", "payload", "metadata", "timestamp", "network", "visibility"], "properties": {
        "id": { "type": "string" }, "type": { "type": "string" }, "source": { "type": "string" }, "target": { "type": "string" },
        "payload": { "type": "object" }, "metadata": { "type": "object" }, "timestamp": { "type": "integer" }, "network": { "type": "string" },
        "visibility": { "enum": ["public", "channel", "direct", "mod_only"] },
    } })
}

/// Message types of the stream conversation, with what their payloads hold.
const MESSAGES: &[(&str, &[&str])] = &[
    ("network.agent.join", &["agent_id", "credentials", "role", "resume_after", "window", "acks", "receive"]),
    ("network.agent.leave", &["reason", "forget"]),
    ("network.agent.discover", &["include", "role", "status", "capability", "query"]),
    ("network.agent.discover.response", &["agents", "channels", "mods", "resources", "groups"]),
    ("network.agent.announce", &["description", "capabilities"]),
    ("network.agent.remove", &["address", "agent_name"]),
    ("network.channel.create", &["name", "title", "participants", "private"]),
    ("network.channel.delete", &["channel"]),
    ("network.channel.join", &["channel", "agent"]),
    ("network.channel.leave", &["channel", "agent"]),
    (
        "network.resource.register",
        &["address", "type", "description", "schema", "content_type", "content", "encoding", "permissions", "metadata"],
    ),
    ("network.resource.unregister", &["address"]),
    ("network.resource.discover", &["type", "owner", "prefix", "query", "limit", "after"]),
    ("network.resource.discover.response", &["resources", "next"]),
    ("network.resource.read", &["encoding", "offset", "length", "version"]),
    ("network.resource.read.response", &["address", "content", "encoding", "content_type", "version", "size"]),
    (
        "network.resource.update",
        &["content", "encoding", "content_type", "description", "schema", "permissions", "if_version", "append"],
    ),
    ("network.resource.invoke", &[]),
    ("network.resource.invoke.result", &[]),
    ("network.mod.serve", &["name", "mode", "intercepts", "priority", "deadline_ms", "on_error", "unload"]),
    ("network.mod.verdict", &["ticket", "verdict", "code", "message", "event", "emit"]),
    ("work.update", &["work", "state", "message", "progress"]),
    ("work.artifact", &["work", "artifact", "append", "last"]),
    ("work.answer", &["work", "message"]),
    ("work.cancel", &["work", "reason"]),
    ("network.ping", &["t"]),
    ("network.pong", &["t", "server_time"]),
    ("network.event.ack", &["ids", "up_to", "status", "event_id", "seq", "duplicate", "durability", "accepted"]),
    ("network.event.error", &["code", "message", "event_id", "retryable", "mod", "details"]),
    ("network.events.query", &["after", "before", "limit", "type", "channel", "source"]),
    ("network.events.response", &["events", "has_more", "oldest_id", "newest_id", "next_cursor"]),
    ("rialto.member.status", &["address", "status", "role", "others", "unnamed"]),
    ("rialto.network.status", &["from", "to"]),
    ("rialto.mod.check", &["ticket", "mod", "step", "event", "context"]),
    ("rialto.resource.changed", &["address", "change", "version"]),
    ("rialto.mod.changed", &["mod", "mods", "change"]),
    ("rialto.delivery.dead", &["event_id", "recipient", "reason", "attempts", "more"]),
];

fn asyncapi_json(base: &str, network: &Network) -> Value {
    let host = base.split_once("://").map_or(base, |(_, h)| h);
    let messages: Map<String, Value> = MESSAGES
        .iter()
        .map(|(name, members)| {
            let payload: Map<String, Value> = members.iter().map(|m| ((*m).to_owned(), json!({}))).collect();
            let schema = json!({ "allOf": [{ "$ref": "#/components/schemas/Event" }, { "properties": { "type": { "const": name }, "payload": { "type": "object", "properties": payload } } }] });
            ((*name).to_owned(), json!({ "name": name, "payload": schema }))
        })
        .collect();
    let refs: Map<String, Value> = MESSAGES
        .iter()
        .map(|(n, _)| ((*n).to_owned(), json!({ "$ref": format!("#/components/messages/{n}") })))
        .collect();
    let channel = |address: &str| json!({ "address": address, "messages": refs.clone() });
    json!({
        "asyncapi": "3.0.0",
        "info": { "title": format!("Rialto network {}", network.id()), "version": env!("CARGO_PKG_VERSION") },
        "servers": {
            "websocket": { "host": host, "protocol": "ws", "pathname": format!("/ws/{}", network.id()) },
            "sse": { "host": host, "protocol": "http", "pathname": format!("/v1/ws/{}/events/stream", network.id()) },
            "grpc": { "host": host, "protocol": "grpc" },
        },
        "channels": { "core": channel("core"), "broadcast": channel("agent:broadcast"), "inbox": channel("agent:{name}"), "channel": channel("channel/{name}") },
        "operations": {
            "send": { "action": "send", "channel": { "$ref": "#/channels/core" } },
            "receive": { "action": "receive", "channel": { "$ref": "#/channels/inbox" } },
        },
        "components": { "messages": messages, "schemas": { "Event": event_schema() } },
    })
}

pub(crate) async fn asyncapi(State(state): State<FaceState>, headers: HeaderMap) -> Result<Response, Refusal> {
    let network = state.node.default_network().ok_or(ErrorCode::NetworkNotFound)?;
    let name = network.id().to_owned();
    network_asyncapi(State(state), Path(name), headers).await
}

pub(crate) async fn network_asyncapi(
    State(state): State<FaceState>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = CallRequest::new(&state, &headers).path(Some(&name)).call()?;
    // A network that is not listed has no profile for strangers, and so no document.
    crate::members::reachable_profile(&state, &call, &headers).await?;
    Ok(axum::Json(asyncapi_json(&state.base_url(&headers), call.session.network())).into_response())
}

/// `/.well-known/openagents.json`: listed networks only.
pub(crate) async fn well_known(State(state): State<FaceState>, headers: HeaderMap) -> Response {
    let base = state.base_url(&headers);
    let networks: Vec<Value> = state
        .node
        .networks()
        .iter()
        .filter(|n| is_listed(n))
        .map(|n| json!({ "id": n.id(), "name": n.settings().name, "profile": format!("{base}/v1/ws/{}/profile", n.id()) }))
        .collect();
    let host = base.split_once("://").map_or(base.as_str(), |(_, h)| h);
    let ws = base.replacen("http", "ws", 1);
    axum::Json(json!({
        "onm_version": "1.0", "name": "rialto",
        "transports": [
            { "type": "http", "url": format!("{base}/v1") }, { "type": "sse", "url": format!("{base}/v1/events/stream") },
            { "type": "websocket", "url": format!("{ws}/ws") }, { "type": "grpc", "url": format!("grpc://{host}") },
        ],
        "auth": { "methods": ["token", "session"] },
        "capabilities": ["network.agent", "network.channel", "network.events"],
        "mods": rialto_node::mods::STANDARD,
        "networks": networks,
    }))
    .into_response()
}
