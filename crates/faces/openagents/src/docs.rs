//! Documents about the face: AsyncAPI and the well-known file.

use crate::api::answers::WellKnown;
use crate::asyncapi;
use crate::auth::CallRequest;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use rialto_carrier::describe::{NoBody, NoQuery, Plain};
use rialto_carrier::state::is_listed;
use rialto_carrier::{FaceState, Refusal};
use rialto_model::ErrorCode;
use serde_json::{Value, json};

rialto_carrier::operations! {
    for FaceState;
    get "/.well-known/openagents.json" "well_known" Public plain (NoQuery, NoBody) -> Plain<WellKnown>, &[], well_known, "What this node offers";
}

/// Transports of a network as its profile lists them.
pub(crate) fn transports(base: &str, network: &str) -> Value {
    let ws = base.replacen("http", "ws", 1);
    let grpc = grpc(base);
    json!([
        { "type": "http", "endpoint": format!("{base}/v1/ws/{network}") },
        { "type": "sse", "endpoint": format!("{base}/v1/ws/{network}/events/stream") },
        { "type": "websocket", "endpoint": format!("{ws}/ws/{network}") },
        { "type": "grpc", "endpoint": grpc },
    ])
}

/// gRPC has a host and a port, and no path before its own.
fn grpc(base: &str) -> String {
    let (scheme, rest) = base.split_once("://").unwrap_or(("http", base));
    let authority = rest.split('/').next().unwrap_or(rest);
    let named = authority.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    match (named, scheme) {
        (true, _) => format!("grpc://{authority}"),
        (false, "https") => format!("grpc://{authority}:443"),
        (false, _) => format!("grpc://{authority}:80"),
    }
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
    Ok(axum::Json(asyncapi::document(&state.base_url(&headers), call.session.network().id())).into_response())
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
    let (ws, grpc) = (base.replacen("http", "ws", 1), grpc(&base));
    axum::Json(json!({
        "onm_version": "1.0", "name": "rialto",
        "transports": [
            { "type": "http", "url": format!("{base}/v1") }, { "type": "sse", "url": format!("{base}/v1/events/stream") },
            { "type": "websocket", "url": format!("{ws}/ws") }, { "type": "grpc", "url": grpc },
        ],
        "auth": { "methods": ["token", "session", "key", "jwt", "did", "invite"] },
        "capabilities": [
            "network.agent", "network.channel", "network.events", "network.resource", "work",
            "workspace.invitation", "workspace.message", "workspace.session",
        ],
        "mods": rialto_node::mods::STANDARD,
        "networks": networks,
    }))
    .into_response()
}
