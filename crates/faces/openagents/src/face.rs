//! The face as it is mounted on a listener.

use crate::auth::CallRequest;
use crate::compat::Composing;
use crate::sdk::{self, SdkState};
use crate::{docs, elsewhere, events, grpc, ops};
use axum::Router;
use axum::extract::Query;
use axum::http::{HeaderMap, Method, Request, Uri};
use axum::response::IntoResponse;
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use rialto_carrier::body::{BodyUse, MeteredBody};
use rialto_carrier::grpc::GrpcServices;
use rialto_carrier::openapi::ApiPart;
use rialto_carrier::operations::routes;
use rialto_carrier::{AnswerFuture, Face, FaceState, Params};
use rialto_model::{ErrorCode, Fault};
use rialto_node::{Caller, Network};
use std::sync::Arc;

/// The face of the OpenAgents Network Model.
#[derive(Debug, Clone)]
pub struct OpenAgents {
    state: Arc<FaceState>,
    sdk: SdkState,
    composing: Arc<Composing>,
}

impl OpenAgents {
    /// The face on a listener.
    pub fn new(state: FaceState) -> OpenAgents {
        OpenAgents { sdk: SdkState::new(state.clone()), state: Arc::new(state), composing: Arc::default() }
    }
}

impl Face for OpenAgents {
    fn routes(&self) -> Router {
        let sdk = routes(sdk::OPS, sdk::HANDLERS).with_state(self.sdk.clone());
        let own = routes(ops::OPS, ops::HANDLERS);
        own.with_state(self.state.as_ref().clone()).layer(axum::Extension(self.composing.clone())).merge(sdk)
    }

    fn well_known(&self) -> Router {
        routes(docs::OPS, docs::HANDLERS).with_state(self.state.as_ref().clone())
    }

    fn grpc(&self, services: &mut GrpcServices) {
        grpc::add(&self.state, services);
        sdk::add(&self.sdk, services);
    }

    fn openapi(&self) -> ApiPart {
        let all: Vec<_> = ops::OPS.iter().chain(docs::OPS).chain(sdk::OPS).copied().collect();
        ApiPart::of(&all)
    }

    fn request_headers(&self) -> &'static [&'static str] {
        &["idempotency-key", "x-agent-name", "x-network"]
    }

    /// Content goes to the disk as it comes, with bounds of its own.
    fn body_use(&self, method: &Method, path: &str) -> Option<BodyUse> {
        let rest = path.strip_prefix("/v1/")?;
        let below = rest.strip_prefix("ws/").and_then(|rest| rest.split_once('/')).map_or(rest, |(_, below)| below);
        let takes_content = match *method {
            Method::PUT => below.starts_with("resources/"),
            Method::POST => matches!(below, "blobs" | "files" | "files/base64"),
            _ => false,
        };
        takes_content.then_some(BodyUse::Pieces)
    }

    fn network_in<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.strip_prefix("/v1/ws/").or_else(|| path.strip_prefix("/ws/"))?.split('/').next()
    }

    fn shown_session(&self, uri: &Uri, headers: &HeaderMap) -> Option<(Network, Caller)> {
        let Query(params) = Query::<Params>::try_from_uri(uri).ok()?;
        let request = CallRequest::new(&self.state, headers).params(&params).path(self.network_in(uri.path()));
        let call = request.query_token().call().ok()?;
        let (bearer, session) = (call.session.caller().bearer, call.session.caller().session);
        Some((call.session.network().clone(), Caller { bearer, session, ..Caller::default() }))
    }

    fn unknown_path(&self, path: &str) -> Option<Fault> {
        let what = || Fault::new(ErrorCode::Unsupported, format!("{path} is not offered here"));
        elsewhere::is_below(path).then(what)
    }

    /// Sending events is what nearly all requests do.
    fn takes_directly(&self, request: &Request<Incoming>) -> bool {
        events::is_plain_post(request)
    }

    fn answer_directly(&self, request: Request<MeteredBody>) -> AnswerFuture {
        Box::pin(events::post_plain(self.state.clone(), request).map(|answer| Ok(answer.into_response())))
    }
}
