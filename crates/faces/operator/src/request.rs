//! What handlers are given: a request of the operator, read and proved once in one place.

use crate::Operator;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::Response;
use rialto_carrier::{Client, FaceState, Params, Refusal, RequestInfo, answer, credentials};
use rialto_model::view::AdminOutcome;
use rialto_model::{ErrorCode, Fault};
use rialto_node::{AdminOp, Caller, Network, Session};
use std::sync::Arc;

/// A request of the operator.
#[derive(Debug)]
pub(crate) struct OperatorRequest {
    pub(crate) state: FaceState,
    pub(crate) caller: Arc<Caller>,
    pub(crate) params: Params,
    pub(crate) client: Client,
    path: Params,
}

impl FromRequestParts<Operator> for OperatorRequest {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, operator: &Operator) -> Result<OperatorRequest, Refusal> {
        let RequestInfo { path, params, headers, client, .. } =
            RequestInfo::from_request_parts(parts, operator).await?;
        let state = operator.state.clone();
        Ok(OperatorRequest { caller: credentials::operator(&state.node, &headers)?, state, params, client, path })
    }
}

impl OperatorRequest {
    /// A part of the path.
    pub(crate) fn named(&self, part: &str) -> &str {
        self.path.get(part).map(String::as_str).unwrap_or_default()
    }

    /// The network of `/v1/admin/networks/{id}/…`.
    pub(crate) fn network(&self) -> Result<Network, Refusal> {
        let id = self.named("id");
        let missing = || Fault::new(ErrorCode::NetworkNotFound, format!("no network {id:?} here"));
        self.state.node.network(id).ok_or_else(|| missing().into())
    }

    /// The operator in that network.
    pub(crate) fn session(&self) -> Result<Session, Refusal> {
        Ok(self.network()?.session(&self.caller))
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
    pub(crate) async fn done(&self, op: AdminOp) -> Result<AdminOutcome, Refusal> {
        Ok(self.session()?.act(self.client.place(), op).await?)
    }
}
