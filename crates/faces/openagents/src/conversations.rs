//! Threads inside channels and direct rooms between two members.

use crate::app::App;
use crate::auth::{self, Call, Params};
use crate::error::Refusal;
use crate::members::{Scope, object, scope};
use crate::wire;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use rialto_model::{ErrorCode, Fault};
use rialto_node::command::Look;
use serde_json::Value;

/// Cursor and size of a listing.
pub(crate) fn listing(params: &Params) -> Result<(Option<&str>, Option<i64>), Fault> {
    let limit = params
        .get("limit")
        .map(|text| text.parse().map_err(|_| Fault::new(ErrorCode::InvalidArgument, "limit: a number").field("limit")));
    Ok((params.get("before").map(String::as_str).filter(|text| !text.is_empty()), limit.transpose()?))
}

/// Who calls, of a path that names more than a network.
pub(crate) fn call(app: &App, headers: &HeaderMap, path: &Params, params: &Params) -> Result<Call, Refusal> {
    auth::call(app, headers, params, path.get("network").map(String::as_str), &Value::Null, false)
}

/// A part of the path.
pub(crate) fn named(path: &Params, part: &str) -> String {
    path.get(part).cloned().unwrap_or_default()
}

/// `GET /v1/threads?channel&before&limit`.
pub(crate) async fn threads(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, scope(&path), &Value::Null, false)?;
    let channel = params.get("channel").filter(|name| !name.is_empty()).cloned();
    let (before, limit) = listing(&params)?;
    Ok(wire::ok(&call.network.threads(&call.caller, channel, before, limit).await?))
}

/// `GET /v1/threads/{channel}/{thread}`.
pub(crate) async fn thread(
    State(app): State<App>,
    Path(path): Path<Params>,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = call(&app, &headers, &path, &params)?;
    Ok(wire::ok(&call.network.thread(&call.caller, named(&path, "channel"), named(&path, "thread")).await?))
}

/// `GET /v1/rooms?before&limit`.
pub(crate) async fn rooms(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, scope(&path), &Value::Null, false)?;
    let (before, limit) = listing(&params)?;
    Ok(wire::ok(&call.network.rooms(&call.caller, before, limit).await?))
}

/// `POST /v1/rooms` {peer, channel?}.
pub(crate) async fn open_room(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let payload = object(&body)?;
    let call = auth::call(&app, &headers, &params, scope(&path), &payload, false)?;
    let text = |key: &str| match payload.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Fault::new(ErrorCode::InvalidArgument, format!("{key} is text")).field(key)),
    };
    let missing = || Fault::new(ErrorCode::InvalidArgument, "peer names the other member").field("peer");
    let peer = text("peer")?.ok_or_else(missing)?;
    Ok(wire::ok(&call.network.open_room(&call.caller, peer, text("channel")?).await?))
}

/// `GET /v1/rooms/{id}`.
pub(crate) async fn room(
    State(app): State<App>,
    Path(path): Path<Params>,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = call(&app, &headers, &path, &params)?;
    Ok(wire::ok(&call.network.room(&call.caller, named(&path, "id")).await?))
}

/// `GET /v1/events/conversations`.
pub(crate) async fn direct(
    State(app): State<App>,
    path: Scope,
    Query(params): Query<Params>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let call = auth::call(&app, &headers, &params, scope(&path), &Value::Null, false)?;
    Ok(wire::ok(&call.network.look(&call.caller, Look::Conversations).await?))
}
