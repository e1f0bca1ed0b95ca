//! A face: one protocol as it is mounted on a listener.

use crate::answer::Refusal;
use crate::body::{BodyUse, MeteredBody};
use crate::grpc::GrpcServices;
use crate::openapi::ApiPart;
use axum::Router;
use axum::http::{HeaderMap, Method, Request, Uri};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use rialto_model::{ErrorCode, Fault};
use rialto_node::{Caller, Network};
use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::pin::Pin;

/// An answer on its way.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

/// One protocol. What is asked of it for every request is asked once per request, and answers from the request's head
/// alone; the faces of a listener are asked in the order in which they were mounted, and the first that knows answers.
///
/// Upgraded connections are the face's own: its handler takes the socket from [`crate::websocket::handshake::accept`],
/// runs it, and holds a token of [`crate::FaceState::streams`] for as long as it runs.
pub trait Face: fmt::Debug + Send + Sync + 'static {
    /// The path that all its routes are below, such as `/a2a`; empty if they name whole paths.
    fn prefix(&self) -> &'static str {
        ""
    }

    /// Its HTTP routes, without fallbacks.
    fn routes(&self) -> Router;

    /// Its documents at fixed places below `/.well-known/`, which no prefix moves.
    fn well_known(&self) -> Router {
        Router::new()
    }

    /// Adds its gRPC services.
    fn grpc(&self, services: &mut GrpcServices) {
        let _ = services;
    }

    /// Its part of the OpenAPI document.
    fn openapi(&self) -> ApiPart;

    /// Request headers of its own that pages of allowed origins may send.
    fn request_headers(&self) -> &'static [&'static str] {
        &[]
    }

    /// How the body of a request is used, if the request is one of its own and the body is not kept until it is whole.
    fn body_use(&self, method: &Method, path: &str) -> Option<BodyUse> {
        let _ = (method, path);
        None
    }

    /// The network that a path names.
    fn network_in<'p>(&self, path: &'p str) -> Option<&'p str> {
        let _ = path;
        None
    }

    /// The session that a request shows and the network that is to know it, with nothing else that the request claims. Only
    /// asked for what the node has not given out itself.
    fn shown_session(&self, uri: &Uri, headers: &HeaderMap) -> Option<(Network, Caller)> {
        let _ = (uri, headers);
        None
    }

    /// What is said of a path below its own that leads nowhere; nothing if there is nothing particular to say.
    fn unknown_path(&self, path: &str) -> Option<Fault> {
        let _ = path;
        None
    }

    /// Whether it takes this request past the router: for an operation that is so busy and so quick that the router would
    /// cost more. Must be cheap, and only makes sense without a prefix.
    fn takes_directly(&self, request: &Request<Incoming>) -> bool {
        let _ = request;
        false
    }

    /// Answers a request that it [takes directly](Face::takes_directly).
    fn answer_directly(&self, request: Request<MeteredBody>) -> AnswerFuture {
        drop(request);
        Box::pin(ready(Ok(Refusal::from(ErrorCode::Unsupported).into_response())))
    }
}
