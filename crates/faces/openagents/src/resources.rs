//! Resources over HTTP: lists, content streamed in and out, and tools called and waited for.
//!
//! What changes a resource is an event; content travels beside it, in pieces, so that a file of any size needs little
//! memory.

use crate::auth::Call;
use crate::request::ApiRequest;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use rialto_carrier::Refusal;
use rialto_carrier::answer::{self, invalid_field, json_object};
use rialto_carrier::ranges::{self, KeptContent};
use rialto_model::{ErrorCode, Fault, hex};
use rialto_node::blobs::{STAGED_MS, StoredUpload, Upload};
use rialto_node::{Answered, FoundResource, ResourceFilter, ToolCallOptions};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// `GET /v1/resources`.
pub(crate) async fn list(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let text = |key: &str| request.params.get(key).filter(|text| !text.is_empty()).cloned();
    let limit = request.params.get("limit").map(|text| text.parse().map_err(|_| invalid_field("limit", "a number")));
    let filter = ResourceFilter {
        kind: text("type"),
        owner: text("owner"),
        prefix: text("prefix"),
        query: text("query"),
        after: text("after"),
        limit: limit.transpose()?,
    };
    Ok(answer::ok(&call.session.resources(filter).await?))
}

/// The address in a path.
fn address(request: &ApiRequest) -> String {
    format!("resource/{}/{}", request.named("kind"), request.named("path"))
}

/// `GET /v1/resources/{kind}/{path}`: the content of what the network keeps, a description of the rest.
pub(crate) async fn get(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let version = request
        .params
        .get("version")
        .map(|text| text.parse().map_err(|_| invalid_field("version", "a number")))
        .transpose()?;
    let found = call.session.resource(&address(&request), version).await?;
    let described = request.params.get("info").is_some_and(|v| v != "false" && v != "0");
    if described || found.content.is_none() {
        return Ok(answer::ok(&found.entry));
    }
    let FoundResource { entry, content: Some(kept) } = &found else { return Err(ErrorCode::ResourceNotFound.into()) };
    let sent = KeptContent {
        contents: vec![*kept],
        tag: version.unwrap_or(entry.version),
        content_type: entry.content_type.as_deref(),
        filename: None,
    };
    ranges::answer(call.session.network(), &sent, &request.headers).await
}

/// The version a caller expects, from `If-Match`; `If-None-Match: *` means none.
fn expected(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    if text(header::IF_NONE_MATCH) == Some("*") {
        return Ok(Some(0));
    }
    let Some(tag) = text(header::IF_MATCH) else { return Ok(None) };
    let number = tag.trim().trim_matches('"').parse().ok();
    number.map(Some).ok_or_else(|| invalid_field("If-Match", "a version, as the ETag of a read gives it"))
}

/// `PUT /v1/resources/{kind}/{path}`: the body becomes the content, in a new version or a new resource.
pub(crate) async fn put(request: ApiRequest, body: Body) -> Result<Response, Refusal> {
    let call = request.call()?;
    let address = address(&request);
    let expected = expected(&request.headers)?;
    let length = request.headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    let (upload, version) = call.session.upload(&address, length).await?;
    if let Some(expected) = expected.filter(|expected| *expected != version.unwrap_or(0)) {
        let text = format!("{address} is at version {}, not {expected}", version.unwrap_or(0));
        let details = json!({ "version": version });
        return Err(Fault::new(ErrorCode::VersionConflict, text).details(details).into());
    }
    let stored = taken_in(upload, body).await?;
    let mut payload = Map::new();
    payload.insert("blob".into(), json!({ "sha256": hex::text(&stored.hash), "size": stored.size }));
    if let Some(kind) = request.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()) {
        payload.insert("content_type".into(), json!(kind));
    }
    if let Some(text) = request.params.get("description") {
        payload.insert("description".into(), json!(text));
    }
    if let Some(text) = request.params.get("permissions") {
        let rules: Value =
            serde_json::from_str(text).map_err(|_| invalid_field("permissions", "a JSON object of rules"))?;
        payload.insert("permissions".into(), rules);
    }
    let event = match version {
        Some(_) => {
            if let Some(expected) = expected {
                payload.insert("if_version".into(), json!(expected));
            }
            json!({ "type": "network.resource.update", "target": address, "payload": payload })
        }
        None => {
            payload.insert("address".into(), json!(address));
            json!({ "type": "network.resource.register", "target": "core", "payload": payload })
        }
    };
    let mut result = accepted(&call, &event).await?;
    if let Some(map) = result.as_object_mut() {
        map.insert("size".into(), json!(stored.size));
        map.insert("sha256".into(), json!(hex::text(&stored.hash)));
    }
    Ok(answer::ok(&result))
}

/// `POST /v1/blobs`: takes content in that an event will name, as `blob` {sha256, size}.
pub(crate) async fn stage(request: ApiRequest, body: Body) -> Result<Response, Refusal> {
    let call = request.call()?;
    let length = request.headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    let stored = taken_in(call.session.stage(length).await?, body).await?;
    Ok(answer::ok(&json!({ "sha256": hex::text(&stored.hash), "size": stored.size, "kept_ms": STAGED_MS })))
}

/// A body as content.
async fn taken_in(mut upload: Upload, body: Body) -> Result<StoredUpload, Refusal> {
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Fault::new(ErrorCode::InvalidArgument, "the body broke off"))?;
        upload.write(&piece).await.map_err(Fault::from)?;
    }
    Ok(upload.finish().await.map_err(Fault::from)?)
}

/// `PATCH /v1/resources/{kind}/{path}`: the payload of an update.
pub(crate) async fn change(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let payload = json_object(&body)?;
    let call = request.call()?;
    let event = json!({ "type": "network.resource.update", "target": address(&request), "payload": payload });
    Ok(answer::ok(&accepted(&call, &event).await?))
}

/// `POST /v1/resources`: the payload of a registration.
pub(crate) async fn register(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let payload = json_object(&body)?;
    let call = request.call_with(&payload)?;
    let event = json!({ "type": "network.resource.register", "target": "core", "payload": payload });
    Ok(answer::ok(&accepted(&call, &event).await?))
}

/// `DELETE /v1/resources/{kind}/{path}`.
pub(crate) async fn remove(request: ApiRequest) -> Result<Response, Refusal> {
    let call = request.call()?;
    let payload = json!({ "address": address(&request) });
    let event = json!({ "type": "network.resource.unregister", "target": "core", "payload": payload });
    Ok(answer::ok(&accepted(&call, &event).await?))
}

/// The result of an event that was accepted.
async fn accepted(call: &Call, event: &Value) -> Result<Value, Refusal> {
    let answers = call.session.emit(event.to_string().into()).await?;
    let answered: Option<Answered> = answers.into_iter().next();
    let accepted = answered.ok_or(ErrorCode::Internal)?.result?;
    Ok(*accepted.result.unwrap_or_default())
}

/// `POST /v1/invoke/{tool}`: calls a tool with the body as its input, and waits for what ends the call.
pub(crate) async fn invoke(request: ApiRequest, body: Bytes) -> Result<Response, Refusal> {
    let input = to_raw_value(&json_object(&body)?).map_err(|_| ErrorCode::Internal)?;
    let call = request.call()?;
    let millis = |text: &String| text.parse().map_err(|_| invalid_field("timeout_ms", "a number"));
    let options = ToolCallOptions {
        deadline: request.params.get("timeout_ms").map(millis).transpose()?.map(Duration::from_millis),
        wait_for_owner: request.params.get("wait_for_owner").is_some_and(|text| text != "false" && text != "0"),
    };
    let tool = format!("resource/tool/{}", request.named("tool"));
    let came = call.session.call_tool(&tool, &input, options).await?;
    let output: Value = serde_json::from_str(came.result.event.payload()).unwrap_or_default();
    Ok(answer::ok(&json!({
        "event_id": came.request, "result_id": came.result.event.id(), "output": output, "is_error": came.is_error,
        "schema_warning": came.schema_warning,
    })))
}
