//! What handlers are given: a request's path, query and headers, read once in one place.

use crate::auth::{Call, CallRequest};
use crate::compat::Composing;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use rialto_carrier::{Client, FaceState, Params, Refusal, RequestInfo, Stranger};
use serde_json::Value;
use std::sync::Arc;

/// A request without its body.
#[derive(Debug)]
pub(crate) struct ApiRequest {
    pub(crate) state: FaceState,
    /// The parts of the path that have names.
    pub(crate) path: Params,
    pub(crate) params: Params,
    pub(crate) headers: HeaderMap,
    pub(crate) client: Client,
    /// It came without a credential in its headers.
    pub(crate) stranger: Option<Stranger>,
    /// Where somebody writes just now.
    pub(crate) composing: Arc<Composing>,
}

impl FromRequestParts<FaceState> for ApiRequest {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &FaceState) -> Result<ApiRequest, Refusal> {
        let RequestInfo { path, params, headers, client, stranger } =
            RequestInfo::from_request_parts(parts, state).await?;
        let composing = parts.extensions.get::<Arc<Composing>>().cloned().unwrap_or_default();
        Ok(ApiRequest { state: state.clone(), path, params, headers, client, stranger, composing })
    }
}

impl ApiRequest {
    /// A part of the path.
    pub(crate) fn named(&self, part: &str) -> &str {
        self.path.get(part).map(String::as_str).unwrap_or_default()
    }

    /// The network of `/v1/ws/{network}/…`, if the path has one.
    pub(crate) fn scope(&self) -> Option<&str> {
        self.path.get("network").map(String::as_str)
    }

    /// Who calls.
    pub(crate) fn call(&self) -> Result<Call, Refusal> {
        self.call_with(&Value::Null)
    }

    /// Who calls, which the body may say.
    pub(crate) fn call_with(&self, body: &Value) -> Result<Call, Refusal> {
        self.call_request(body).call()
    }

    /// Who wants to join, or refuse to: the credential is in the body. Refusals go through [`Call::refusal`].
    pub(crate) fn call_to_join(&self, body: &Value) -> Result<Call, Refusal> {
        self.call_request(body).call_to_join()
    }

    /// Who calls, which the body may say, and the URL too where a page can show a secret nowhere else.
    pub(crate) fn call_by_url(&self, body: &Value) -> Result<Call, Refusal> {
        self.call_request(body).query_token().call()
    }

    fn call_request<'a>(&'a self, body: &'a Value) -> CallRequest<'a> {
        CallRequest::new(&self.state, &self.headers).params(&self.params).path(self.scope()).body(body)
    }

    /// What came in the body was a good credential.
    pub(crate) fn prove(&self) {
        if let Some(stranger) = &self.stranger {
            stranger.prove();
        }
    }
}

/// What a body may say of who calls and where; a call has read it.
const CALLER: [&str; 5] = ["network", "agent_name", "agent_id", "session_id", "token"];

/// Takes out of a body what it says of who calls and where: the rest is what is asked for.
pub(crate) fn take_caller(body: &mut Value) {
    if let Some(body) = body.as_object_mut() {
        body.retain(|name, _| !CALLER.contains(&name.as_str()));
    }
}
