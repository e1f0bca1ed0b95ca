//! The dialect of agents written with the OpenAgents SDK: HTTP below `/api`, and gRPC `openagents.AgentService`
//! (OpenAgents sheet, section 12.7 and its corrections).
//!
//! The five questions of a binding: serialisation is the SDK's own envelope (`event_name`, `source_id`, seconds) in JSON, or the same in
//! protobuf with the payload as a `Struct`; connection is a registration, whose secret is the session of the member; send is one call per
//! event, receive a poll; a poll acks what the poll before it was given, once that was handed over whole; heartbeats are any call.
//!
//! Both carriers share everything but their framing: names are translated in `map` and `words`, operations are in `ops`, `commands` and
//! `threads`. Nothing here decides who may do what: the network does, as for every dialect.

mod commands;
mod grpc;
mod http;
mod map;
mod ops;
mod polls;
mod threads;
pub mod wire;
mod words;

pub use http::OPS;

pub(crate) use grpc::add;
pub(crate) use http::HANDLERS;

use polls::Polls;
use rialto_carrier::FaceState;
use std::sync::Arc;

/// What the calls of the dialect are given.
#[derive(Debug, Clone)]
pub(crate) struct SdkState {
    face: FaceState,
    polls: Arc<Polls>,
}

impl SdkState {
    pub(crate) fn new(face: FaceState) -> SdkState {
        SdkState { face, polls: Arc::default() }
    }
}
