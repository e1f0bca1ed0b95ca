//! Credentials as HTTP requests show them. They are hashed here and go no further.

use crate::answer::Refusal;
use crate::request::Params;
use axum::extract::Query;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use rialto_model::trace::{TRACEPARENT, TRACESTATE};
use rialto_model::{ErrorCode, Fault, TraceContext};
use rialto_node::identity::{Bearer, Secret, sha256};
use rialto_node::{Caller, Node};
use std::sync::Arc;

/// Names a session.
pub const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");
/// Shows a network's token, for clients that know no `Authorization`.
pub const WORKSPACE_TOKEN: HeaderName = HeaderName::from_static("x-workspace-token");

/// The text of a header, if it has any.
pub fn header_text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim).filter(|v| !v.is_empty())
}

/// The hash of the bearer of a request: `Authorization` or `X-Workspace-Token`.
pub fn bearer(headers: &HeaderMap) -> Result<Option<[u8; 32]>, Fault> {
    if let Some(value) = header_text(headers, AUTHORIZATION) {
        return match Bearer::from_authorization(value) {
            Some(Ok(bearer)) => Ok(Some(bearer.secret().sha256())),
            Some(Err(_)) | None => {
                Err(Fault::new(ErrorCode::Unauthenticated, "Authorization must be: Bearer <token or session id>"))
            }
        };
    }
    Ok(header_text(headers, WORKSPACE_TOKEN).map(sha256))
}

/// The registrar's token that a request shows as its bearer, if it is one by its shape.
pub fn jwt(headers: &HeaderMap) -> Option<Secret> {
    let value = header_text(headers, AUTHORIZATION).filter(|value| value.contains('.'))?;
    match Bearer::from_authorization(value) {
        Some(Ok(Bearer::Jwt(token))) => Some(token),
        Some(Ok(Bearer::Issued(_) | Bearer::Opaque(_)) | Err(_)) | None => None,
    }
}

/// The hash of what a request shows as its bearer, session or token in the URL, if it is one that `good` knows; and the header that showed
/// it, if it was the bearer's.
pub fn shown<'r>(
    headers: &'r HeaderMap,
    uri: &Uri,
    good: impl Fn(&[u8; 32]) -> bool,
) -> Option<([u8; 32], Option<&'r HeaderValue>)> {
    if let Some(hash) = bearer(headers).ok().flatten().filter(|hash| good(hash)) {
        return Some((hash, bearer_header(headers)));
    }
    let session = header_text(headers, SESSION_ID).map(sha256).filter(|hash| good(hash));
    let in_url = || {
        let Query(params) = uri.query().and_then(|_| Query::<Params>::try_from_uri(uri).ok())?;
        params.get("token").map(|token| sha256(token)).filter(|hash| good(hash))
    };
    session.or_else(in_url).map(|hash| (hash, None))
}

/// The header that shows the bearer.
pub fn bearer_header(headers: &HeaderMap) -> Option<&HeaderValue> {
    headers.get(AUTHORIZATION).or_else(|| headers.get(WORKSPACE_TOKEN))
}

/// The trace context of a request (W3C): one valid `traceparent`, and its `tracestate` over all lines.
pub fn trace(headers: &HeaderMap) -> Option<Box<TraceContext>> {
    let mut parents = headers.get_all(TRACEPARENT).into_iter();
    let parent = parents.next()?.to_str().ok()?;
    if parents.next().is_some() {
        return None;
    }
    let states: Vec<&str> = headers.get_all(TRACESTATE).into_iter().filter_map(|value| value.to_str().ok()).collect();
    TraceContext::parse(parent.trim(), Some(states.join(",").as_str()).filter(|s| !s.is_empty())).map(Box::new)
}

/// The operator as a caller; refuses anyone else.
pub fn operator(node: &Node, headers: &HeaderMap) -> Result<Arc<Caller>, Refusal> {
    match bearer(headers)? {
        Some(hash) if node.is_operator(&hash) => Ok(Arc::new(Caller { operator: true, ..Caller::default() })),
        Some(_) => {
            Err(Fault::new(ErrorCode::Forbidden, "this is the operator's: show the admin secret of the run file")
                .into())
        }
        None => Err(Fault::new(ErrorCode::Unauthenticated, "show the admin secret of the run file as Bearer").into()),
    }
}
