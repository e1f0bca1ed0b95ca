//! Resources over HTTP: lists, content streamed in and out, and tools called and waited for.
//!
//! What changes a resource is an event; content travels beside it, in pieces, so that a file of any size needs little
//! memory.

use crate::ask::{Ask, object};
use crate::auth::Call;
use crate::error::Refusal;
use crate::wire;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use rialto_model::{ErrorCode, Fault, hex};
use rialto_node::blobs::{STAGED_MS, Stored, Upload};
use rialto_node::{Answered, Content, EventRecord, FoundResource};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

fn bad(field: &str, what: &str) -> Fault {
    Fault::new(ErrorCode::InvalidArgument, format!("{field}: {what}")).field(field)
}

/// `GET /v1/resources`.
pub(crate) async fn list(ask: Ask) -> Result<Response, Refusal> {
    let call = ask.call()?;
    let mut filter = Map::new();
    for key in ["type", "owner", "prefix", "query", "after"] {
        if let Some(text) = ask.params.get(key) {
            filter.insert(key.to_owned(), json!(text));
        }
    }
    if let Some(limit) = ask.params.get("limit") {
        filter.insert("limit".to_owned(), limit.parse::<u64>().map_err(|_| bad("limit", "a number"))?.into());
    }
    Ok(wire::ok(&call.network.resources(&call.caller, filter.into()).await?))
}

/// The address in a path.
fn address(ask: &Ask) -> String {
    format!("resource/{}/{}", ask.named("kind"), ask.named("path"))
}

/// `GET /v1/resources/{kind}/{path}`: the content of what the network keeps, a description of the rest.
pub(crate) async fn get(ask: Ask) -> Result<Response, Refusal> {
    let call = ask.call()?;
    let version =
        ask.params.get("version").map(|text| text.parse().map_err(|_| bad("version", "a number"))).transpose()?;
    let found = call.network.resource(&call.caller, &address(&ask), version).await?;
    let described = ask.params.get("info").is_some_and(|v| v != "false" && v != "0");
    if described || found.content.is_none() {
        return Ok(wire::ok(&found.entry));
    }
    let FoundResource { entry, content: Some(kept) } = &found else { return Err(ErrorCode::ResourceNotFound.into()) };
    let current = entry.get("version").and_then(Value::as_u64).unwrap_or(0);
    let content_type = entry.get("content_type").and_then(Value::as_str);
    let sent = Sent { contents: vec![*kept], tag: version.unwrap_or(current), content_type, filename: None };
    content(&call, &sent, &ask.headers).await
}

/// Content that is given out.
#[derive(Debug)]
pub(crate) struct Sent<'f> {
    /// One after the other.
    pub(crate) contents: Vec<Content>,
    /// Another one with other content.
    pub(crate) tag: u64,
    pub(crate) content_type: Option<&'f str>,
    /// What it is saved as.
    pub(crate) filename: Option<&'f str>,
}

impl Sent<'_> {
    /// Saved, never shown; a name that is not plain is given in the form of RFC 8187.
    fn disposition(&self) -> String {
        let Some(name) = self.filename else { return "attachment".to_owned() };
        let plain: String = name
            .chars()
            .map(|c| if c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ' { c } else { '_' })
            .collect();
        let keeps = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
        let coded: String =
            name.bytes().map(|b| if keeps(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect();
        format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{coded}")
    }
}

/// Content, whole or a part of it. It is somebody's upload: never shown as a page of ours.
pub(crate) async fn content(call: &Call, sent: &Sent<'_>, headers: &HeaderMap) -> Result<Response, Refusal> {
    let size: u64 = sent.contents.iter().map(|content| content.size).sum();
    let tag = format!("\"{}\"", sent.tag);
    let text = |name: header::HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    if text(header::IF_NONE_MATCH).is_some_and(|tags| tags.split(',').any(|t| t.trim() == tag)) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let part = match text(header::RANGE).filter(|_| text(header::IF_RANGE).is_none_or(|t| t == tag)) {
        Some(asked) => range(asked, size),
        None => Asked::All,
    };
    let (status, range) = match part {
        Asked::All => (StatusCode::OK, 0..size),
        Asked::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Asked::Outside => {
            let all = format!("bytes */{size}");
            let fault = bad("Range", &format!("there are {size} bytes"));
            let body = json!({ "code": 416, "message": fault.to_string(), "data": null, "error": fault.payload(None) });
            let range = [(header::CONTENT_RANGE, all)];
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, range, axum::Json(body)).into_response());
        }
    };
    let body = streamed(call, parts(&sent.contents, &range)).await?;
    let mut response = (status, body).into_response();
    let put = |response: &mut Response, name: header::HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    };
    put(&mut response, header::CONTENT_TYPE, sent.content_type.unwrap_or("application/octet-stream"));
    put(&mut response, header::ETAG, &tag);
    put(&mut response, header::CONTENT_LENGTH, &(range.end - range.start).to_string());
    put(&mut response, header::ACCEPT_RANGES, "bytes");
    put(&mut response, header::CONTENT_DISPOSITION, &sent.disposition());
    put(&mut response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    put(&mut response, header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'");
    if status == StatusCode::PARTIAL_CONTENT {
        let part = format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1));
        put(&mut response, header::CONTENT_RANGE, &part);
    }
    Ok(response)
}

/// What of each content lies in a range of all of them.
fn parts(contents: &[Content], range: &Range<u64>) -> VecDeque<(Content, Range<u64>)> {
    let mut from = 0;
    let mut out = VecDeque::new();
    for content in contents {
        let here = from..from + content.size;
        let (start, end) = (here.start.max(range.start), here.end.min(range.end));
        if start < end {
            out.push_back((*content, start - from..end - from));
        }
        from = here.end;
    }
    out
}

/// The bytes of parts, one after the other. The first is opened before anything is answered.
async fn streamed(call: &Call, mut parts: VecDeque<(Content, Range<u64>)>) -> Result<Body, Refusal> {
    let network = call.network.clone();
    let Some((content, range)) = parts.pop_front() else { return Ok(Body::empty()) };
    let first = network.download(&content, range).await?;
    let steps = futures_util::stream::unfold(Some((first, parts)), move |state| {
        let network = network.clone();
        async move {
            let (mut download, mut parts) = state?;
            loop {
                match download.next().await {
                    Ok(Some(piece)) => return Some((Ok(piece), Some((download, parts)))),
                    Ok(None) => {}
                    // The length was promised: an error breaks the answer off instead of ending it short.
                    Err(error) => return Some((Err(Fault::from(error).to_string()), None)),
                }
                let (content, range) = parts.pop_front()?;
                match network.download(&content, range).await {
                    Ok(next) => download = next,
                    Err(fault) => return Some((Err(fault.to_string()), None)),
                }
            }
        }
    });
    Ok(Body::from_stream(steps))
}

/// What a `Range` header asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    All,
    Part(Range<u64>),
    Outside,
}

/// One range of bytes; several, or anything else, count as none, which RFC 9110 allows.
fn range(text: &str, size: u64) -> Asked {
    let Some((from, to)) = text.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Asked::All;
    };
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match (number(from), number(to)) {
        (Some(from), _) if from >= size => Asked::Outside,
        (Some(from), None) if to.trim().is_empty() => Asked::Part(from..size),
        (Some(from), Some(to)) if from <= to => Asked::Part(from..to.saturating_add(1).min(size)),
        (None, Some(0)) if from.trim().is_empty() => Asked::Outside,
        (None, Some(last)) if from.trim().is_empty() && size > 0 => Asked::Part(size.saturating_sub(last)..size),
        (None, Some(_)) if from.trim().is_empty() => Asked::Outside,
        _ => Asked::All,
    }
}

/// The version a caller expects, from `If-Match`; `If-None-Match: *` means none.
fn expected(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    if text(header::IF_NONE_MATCH) == Some("*") {
        return Ok(Some(0));
    }
    let Some(tag) = text(header::IF_MATCH) else { return Ok(None) };
    let number = tag.trim().trim_matches('"').parse().ok();
    number.map(Some).ok_or_else(|| bad("If-Match", "a version, as the ETag of a read gives it"))
}

/// `PUT /v1/resources/{kind}/{path}`: the body becomes the content, in a new version or a new resource.
pub(crate) async fn put(ask: Ask, body: Body) -> Result<Response, Refusal> {
    let call = ask.call()?;
    let address = address(&ask);
    let expected = expected(&ask.headers)?;
    let length = ask.headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    let (upload, version) = call.network.upload(&call.caller, &address, length).await?;
    if let Some(expected) = expected.filter(|expected| *expected != version.unwrap_or(0)) {
        let text = format!("{address} is at version {}, not {expected}", version.unwrap_or(0));
        let details = json!({ "version": version });
        return Err(Fault::new(ErrorCode::VersionConflict, text).details(details).into());
    }
    let stored = taken_in(upload, body).await?;
    let mut payload = Map::new();
    payload.insert("blob".into(), json!({ "sha256": hex::text(&stored.hash), "size": stored.size }));
    if let Some(kind) = ask.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()) {
        payload.insert("content_type".into(), json!(kind));
    }
    if let Some(text) = ask.params.get("description") {
        payload.insert("description".into(), json!(text));
    }
    if let Some(text) = ask.params.get("permissions") {
        let rules: Value = serde_json::from_str(text).map_err(|_| bad("permissions", "a JSON object of rules"))?;
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
    Ok(wire::ok(&result))
}

/// `POST /v1/blobs`: takes content in that an event will name, as `blob` {sha256, size}.
pub(crate) async fn stage(ask: Ask, body: Body) -> Result<Response, Refusal> {
    let call = ask.call()?;
    let length = ask.headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    let stored = taken_in(call.network.stage(&call.caller, length).await?, body).await?;
    Ok(wire::ok(&json!({ "sha256": hex::text(&stored.hash), "size": stored.size, "kept_ms": STAGED_MS })))
}

/// A body as content.
async fn taken_in(mut upload: Upload, body: Body) -> Result<Stored, Refusal> {
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Fault::new(ErrorCode::InvalidArgument, "the body broke off"))?;
        upload.write(&piece).await.map_err(Fault::from)?;
    }
    Ok(upload.finish().await.map_err(Fault::from)?)
}

/// `PATCH /v1/resources/{kind}/{path}`: the payload of an update.
pub(crate) async fn change(ask: Ask, body: Bytes) -> Result<Response, Refusal> {
    let payload = object(&body)?;
    let call = ask.call()?;
    let event = json!({ "type": "network.resource.update", "target": address(&ask), "payload": payload });
    Ok(wire::ok(&accepted(&call, &event).await?))
}

/// `POST /v1/resources`: the payload of a registration.
pub(crate) async fn register(ask: Ask, body: Bytes) -> Result<Response, Refusal> {
    let payload = object(&body)?;
    let call = ask.call_with(&payload)?;
    let event = json!({ "type": "network.resource.register", "target": "core", "payload": payload });
    Ok(wire::ok(&accepted(&call, &event).await?))
}

/// `DELETE /v1/resources/{kind}/{path}`.
pub(crate) async fn remove(ask: Ask) -> Result<Response, Refusal> {
    let call = ask.call()?;
    let payload = json!({ "address": address(&ask) });
    let event = json!({ "type": "network.resource.unregister", "target": "core", "payload": payload });
    Ok(wire::ok(&accepted(&call, &event).await?))
}

/// The result of an event that was accepted.
async fn accepted(call: &Call, event: &Value) -> Result<Value, Refusal> {
    let answers = call.network.emit(&call.caller, event.to_string().into()).await?;
    let answered: Option<Answered> = answers.into_iter().next();
    let accepted = answered.ok_or(ErrorCode::Internal)?.result?;
    Ok(*accepted.result.unwrap_or_default())
}

/// `POST /v1/invoke/{tool}`: calls a tool with the body as its input, and waits for what ends the call.
pub(crate) async fn invoke(ask: Ask, body: Bytes) -> Result<Response, Refusal> {
    let input = object(&body)?;
    let call = ask.call()?;
    let mut metadata = Map::new();
    if let Some(text) = ask.params.get("timeout_ms") {
        metadata.insert("timeout_ms".into(), text.parse::<u64>().map_err(|_| bad("timeout_ms", "a number"))?.into());
    }
    if let Some(text) = ask.params.get("wait_for_owner") {
        metadata.insert("wait_for_owner".into(), json!(text != "false" && text != "0"));
    }
    let target = format!("resource/tool/{}", ask.named("tool"));
    let event = json!({ "type": "network.resource.invoke", "target": target, "payload": input, "metadata": metadata });
    let called = call.network.call(&call.caller, &event).await?;
    let accepted = called.answered.result?;
    let end = called.end.ok_or_else(|| Fault::new(ErrorCode::Internal, "the call ended without an event"))?;
    ended(&end, accepted.event_id())
}

/// The answer to a call, from the event that ended it.
fn ended(end: &Arc<EventRecord>, request: &str) -> Result<Response, Refusal> {
    let payload: Value = serde_json::from_str(end.event.payload()).unwrap_or_default();
    if end.event.kind() == "network.event.error" {
        let code = payload.get("code").and_then(Value::as_str).and_then(ErrorCode::from_wire);
        let text = payload.get("message").and_then(Value::as_str).unwrap_or_default();
        return Err(Fault::new(code.unwrap_or(ErrorCode::Internal), text).into());
    }
    let metadata: Value = serde_json::from_str(end.event.metadata()).unwrap_or_default();
    let failed = metadata.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    let warned = metadata.get("rialto.schema_warning").and_then(Value::as_bool).unwrap_or(false);
    Ok(wire::ok(&json!({
        "event_id": request, "result_id": end.event.id(), "output": payload, "is_error": failed, "schema_warning": warned,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_several_contents() {
        let of = |sizes: &[u64], range: Range<u64>| -> Vec<(u64, Range<u64>)> {
            let contents: Vec<Content> = sizes.iter().map(|size| Content { blob: [0; 32], size: *size }).collect();
            parts(&contents, &range).into_iter().map(|(content, range)| (content.size, range)).collect()
        };
        assert_eq!(of(&[3, 0, 5], 0..8), [(3, 0..3), (5, 0..5)]);
        assert_eq!(of(&[3, 4, 5], 2..8), [(3, 2..3), (4, 0..4), (5, 0..1)]);
        assert_eq!(of(&[3, 4, 5], 3..7), [(4, 0..4)]);
        assert_eq!(of(&[3, 4, 5], 5..6), [(4, 2..3)]);
        assert_eq!(of(&[], 0..0), []);
        assert_eq!(of(&[0], 0..0), []);
    }

    #[test]
    fn ranges_as_rfc_9110_has_them() {
        for (text, size, want) in [
            ("bytes=0-4", 10, Asked::Part(0..5)),
            ("bytes=4-", 10, Asked::Part(4..10)),
            ("bytes=4-99", 10, Asked::Part(4..10)),
            ("bytes=-3", 10, Asked::Part(7..10)),
            ("bytes=-30", 10, Asked::Part(0..10)),
            ("bytes=10-", 10, Asked::Outside),
            ("bytes=-0", 10, Asked::Outside),
            ("bytes=0-", 0, Asked::Outside),
            ("bytes=5-4", 10, Asked::All),
            ("bytes=0-1,3-4", 10, Asked::All),
            ("lines=0-1", 10, Asked::All),
            ("bytes=a-b", 10, Asked::All),
        ] {
            assert_eq!(range(text, size), want, "{text} of {size}");
        }
    }
}
