//! Joining, leaving, presence, discovery, profile (sheet section 12.5).

use crate::app::App;
use crate::auth::{self, Params};
use crate::error::Refusal;
use crate::wire;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use bytes::Bytes;
use rialto_model::{ErrorCode, Fault};
use rialto_node::Wishes;
use rialto_node::command::Look;
use serde_json::{Value, json};

/// The network of `/v1/ws/{network}/…`, if the path has one.
pub(crate) type Scope = Option<Path<std::collections::BTreeMap<String, String>>>;

pub(crate) fn scope(path: &Scope) -> Option<&str> {
    path.as_ref().and_then(|Path(map)| map.get("network")).map(String::as_str)
}

/// A JSON object body; empty counts as `{}`.
pub(crate) fn object(body: &Bytes) -> Result<Value, Refusal> {
    if body.is_empty() {
        return Ok(json!({}));
    }
    let value: Value =
        serde_json::from_slice(body).map_err(|e| Fault::new(ErrorCode::InvalidJson, format!("not valid JSON: {e}")))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Fault::new(ErrorCode::InvalidArgument, "the body is a JSON object").into())
    }
}

/// `POST /v1/join`: the join payload itself, or compat's {agent_name, token, …}.
pub(crate) async fn join(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let mut payload = object(&body)?;
    let call = auth::call(&app, &headers, &params, scope(&path), &payload, false)?;
    let source = call.caller.claimed.clone();
    if let Some(map) = payload.as_object_mut() {
        map.remove("network");
        if let Some(name) = map.remove("agent_name") {
            map.insert("agent_id".into(), json!(auth::compat_address(name.as_str().unwrap_or_default())));
        }
    }
    let event = json!({ "type": "network.agent.join", "source": source, "target": "core", "payload": payload });
    let answered = one(&call, &event).await?;
    let result = answered.result.map_err(Refusal::from)?;
    Ok(wire::ok(&result.result.unwrap_or_default()))
}

async fn one(call: &auth::Call, event: &Value) -> Result<rialto_node::Answered, Refusal> {
    let answers = call.network.emit(&call.caller, event.to_string().into()).await?;
    answers.into_iter().next().ok_or_else(|| ErrorCode::Internal.into())
}

/// `POST /v1/leave`.
pub(crate) async fn leave(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let payload = object(&body)?;
    let call = auth::call(&app, &headers, &params, scope(&path), &payload, false)?;
    let kept = json!({ "forget": payload.get("forget").and_then(Value::as_bool).unwrap_or(false), "reason": payload.get("reason") });
    let event = json!({ "type": "network.agent.leave", "target": "core", "payload": kept });
    let answered = one(&call, &event).await?;
    match answered.result {
        Ok(accepted) => {
            let mut data = accepted.result.unwrap_or_default();
            let name =
                data.get("address").and_then(Value::as_str).and_then(|a| a.split_once(':')).map(|(_, n)| n.to_owned());
            if let Some(map) = data.as_object_mut() {
                map.insert("agent_name".into(), json!(name));
            }
            Ok(wire::ok(&data))
        }
        // Compat clients leave without looking whether they are there.
        Err(fault) if call.compat && matches!(fault.code, ErrorCode::NotAMember) => Ok(wire::ok(
            &json!({ "agent_name": payload.get("agent_name"), "address": call.caller.claimed, "status": "offline" }),
        )),
        Err(fault) => Err(fault.into()),
    }
}

/// `POST /v1/heartbeat`.
pub(crate) async fn heartbeat(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let payload = object(&body)?;
    let call = auth::call(&app, &headers, &params, scope(&path), &payload, false)?;
    Ok(wire::ok(&call.network.heartbeat(&call.caller).await?))
}

/// `POST /v1/remove` {agent_name, network}.
pub(crate) async fn remove(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let payload = object(&body)?;
    // Here `agent_name` names who goes, not who asks.
    let whom = payload.get("address").or(payload.get("agent_name")).cloned().unwrap_or_default();
    let mut asker = payload.clone();
    if let Some(map) = asker.as_object_mut() {
        map.remove("agent_name");
        map.remove("address");
    }
    let call = auth::call(&app, &headers, &params, scope(&path), &asker, false)?;
    let data = if call.caller.operator && call.caller.session.is_none() {
        call.network.admin(rialto_node::AdminOp::Remove(whom.as_str().unwrap_or_default().to_owned())).await?
    } else {
        let event = json!({ "type": "network.agent.remove", "target": "core", "payload": { "agent_name": whom } });
        one(&call, &event).await?.result.map_err(Refusal::from)?.result.unwrap_or_default()
    };
    let mut data = data;
    if let Some(map) = data.as_object_mut() {
        map.insert("agent_name".into(), whom);
    }
    Ok(wire::ok(&data))
}

/// `GET /v1/discover`.
pub(crate) async fn discover(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, scope(&path), &Value::Null, false)?;
    let mut filter = serde_json::Map::new();
    for key in ["role", "status", "capability", "query"] {
        if let Some(value) = params.get(key) {
            filter.insert(key.into(), json!(value));
        }
    }
    let look = Look::Discover { filter: Value::Object(filter), compat: call.compat };
    Ok(wire::ok(&call.network.look(&call.caller, look).await?))
}

/// `GET /v1/me`.
pub(crate) async fn me(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, scope(&path), &Value::Null, false)?;
    Ok(wire::ok(&call.network.me(&call.caller).await?))
}

/// `PATCH /v1/me` {mute?, unmute?, dnd?, name?}.
pub(crate) async fn change_me(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let body = object(&body)?;
    let call = auth::call(&app, &headers, &params, scope(&path), &body, false)?;
    let wishes = Wishes::from_json(&body)?;
    if wishes == Wishes::default() {
        let text = format!("nothing is to change: give one of {}", Wishes::KEYS.join(", "));
        return Err(Fault::new(ErrorCode::InvalidArgument, text).into());
    }
    Ok(wire::ok(&call.network.change_me(&call.caller, wishes).await?))
}

/// `GET /v1/channels`.
pub(crate) async fn channels(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, scope(&path), &Value::Null, false)?;
    Ok(wire::ok(&call.network.look(&call.caller, Look::Channels).await?))
}

/// `GET /v1/analytics`.
pub(crate) async fn analytics(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, scope(&path), &Value::Null, false)?;
    Ok(wire::ok(&call.network.look(&call.caller, Look::Analytics).await?))
}

/// `GET /v1/profile`: public, unless the network is not listed.
pub(crate) async fn profile(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, scope(&path), &Value::Null, false)?;
    let data = profile_json(&app, &call, &headers).await?;
    Ok(wire::ok(&data))
}

/// `GET /v1/ws/{network}`: the profile again.
pub(crate) async fn network_profile(
    state: State<App>,
    path: Scope,
    query: Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    profile(state, path, query, headers).await
}

pub(crate) async fn profile_json(app: &App, call: &auth::Call, headers: &HeaderMap) -> Result<Value, Refusal> {
    let mut data = call.network.look(&call.caller, Look::Profile).await?;
    let listed = data.get("listed").and_then(Value::as_bool).unwrap_or(true);
    if !listed {
        // Unknown and hidden look alike to outsiders.
        let hidden = || Refusal::from(Fault::new(ErrorCode::NetworkNotFound, "no such network here"));
        call.network.look(&call.caller, Look::Channels).await.map_err(|_| hidden())?;
    }
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok());
    let base = app.base_url(host);
    if let Some(map) = data.as_object_mut() {
        map.remove("listed");
        map.insert("transports".into(), crate::docs::transports(&base, call.network.id()));
    }
    Ok(data)
}
