//! The OpenAgents Network Model face: parse, call the node, render. Never binds a socket.
//!
//! The binding's five questions (sheet section 12): serialisation is JSON in a wrapper over HTTP and plain events on
//! streams; connection is `POST /v1/join` or a join frame; send and receive are `/v1/events` or frames; acks are
//! `after`, `POST /v1/ack` or ack frames; heartbeats are any call within 60 s, or an open stream.

pub mod api;
pub mod docs;
pub mod grpc;
pub mod ops;
pub mod sdk;
pub mod stdio;
pub mod stream;

mod asyncapi;
mod auth;
mod compat;
mod conversations;
mod elsewhere;
mod events;
mod face;
mod files;
mod members;
mod request;
mod resources;
mod sse;
mod wire;
mod work;
mod workspaces;
mod ws;

pub use face::OpenAgents;
