//! What handlers are given: a request's path, query and headers, read once in one place. Who may ask what is in the type:
//! a [`Desk`] is there only for the operator.

use crate::app::App;
use crate::auth::{Call, CallRequest};
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use rialto_carrier::{Client, Params, Refusal, RequestInfo, Stranger, answer, credentials};
use rialto_model::{ErrorCode, Fault};
use rialto_node::command::{Ledger, Look};
use rialto_node::{AdminOp, Caller, Network};
use serde_json::Value;
use std::sync::Arc;

/// A request without its body.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) app: App,
    /// The parts of the path that have names.
    pub(crate) path: Params,
    pub(crate) params: Params,
    pub(crate) headers: HeaderMap,
    pub(crate) client: Client,
    /// It came without a credential in its headers.
    pub(crate) stranger: Option<Stranger>,
}

impl FromRequestParts<App> for Ask {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Ask, Refusal> {
        let RequestInfo { path, params, headers, client, stranger } =
            RequestInfo::from_request_parts(parts, app).await?;
        Ok(Ask { app: app.clone(), path, params, headers, client, stranger })
    }
}

impl Ask {
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
        self.request(body).call()
    }

    /// Who wants to join, or refuse to: the credential is in the body. Refusals go through [`Call::refusal`].
    pub(crate) fn call_to_join(&self, body: &Value) -> Result<Call, Refusal> {
        self.request(body).call_to_join()
    }

    /// Who calls, which the body may say, and the URL too where a page can show a secret nowhere else.
    pub(crate) fn call_by_url(&self, body: &Value) -> Result<Call, Refusal> {
        self.request(body).query_token().call()
    }

    fn request<'a>(&'a self, body: &'a Value) -> CallRequest<'a> {
        CallRequest::new(&self.app, &self.headers).params(&self.params).path(self.scope()).body(body)
    }

    /// What came in the body was a good credential.
    pub(crate) fn prove(&self) {
        if let Some(stranger) = &self.stranger {
            stranger.prove();
        }
    }

    /// Refuses anyone but the operator.
    pub(crate) fn operator(&self) -> Result<Arc<Caller>, Refusal> {
        credentials::operator(&self.app.node, &self.headers)
    }
}

/// A request of the operator.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) app: App,
    pub(crate) caller: Arc<Caller>,
    pub(crate) params: Params,
    pub(crate) client: Client,
    path: Params,
}

impl FromRequestParts<App> for Desk {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Desk, Refusal> {
        let ask = Ask::from_request_parts(parts, app).await?;
        Ok(Desk { caller: ask.operator()?, app: ask.app, params: ask.params, client: ask.client, path: ask.path })
    }
}

impl Desk {
    /// A part of the path.
    pub(crate) fn named(&self, part: &str) -> &str {
        self.path.get(part).map(String::as_str).unwrap_or_default()
    }

    /// The network of `/v1/admin/networks/{id}/…`.
    pub(crate) fn network(&self) -> Result<Network, Refusal> {
        let id = self.named("id");
        let missing = || Fault::new(ErrorCode::NetworkNotFound, format!("no network {id:?} here"));
        self.app.node.network(id).ok_or_else(|| missing().into())
    }

    /// What a ledger of the network says.
    pub(crate) async fn read(&self, ledger: Ledger) -> Result<Value, Refusal> {
        Ok(self.network()?.look(&self.caller, Look::Operator(ledger)).await?)
    }

    /// The same as an answer.
    pub(crate) async fn show(&self, ledger: Ledger) -> Result<Response, Refusal> {
        Ok(answer::ok(&self.read(ledger).await?))
    }

    /// Does something to the network, and records that the operator did, and from where.
    pub(crate) async fn act(&self, op: AdminOp) -> Result<Response, Refusal> {
        Ok(answer::ok(&self.done(op).await?))
    }

    /// Records that the operator did something to the network that is not recorded otherwise.
    pub(crate) async fn note(&self, act: &'static str, about: Option<String>) -> Result<(), Refusal> {
        self.done(AdminOp::Noted(act, about)).await.map(drop)
    }

    /// The same, for an answer that says more.
    pub(crate) async fn done(&self, op: AdminOp) -> Result<Value, Refusal> {
        Ok(self.network()?.act(&self.caller, self.client.place(), op).await?)
    }
}
