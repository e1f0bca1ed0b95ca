//! The OpenAgents Network Model face: parse, call the node, render. Never binds a socket.
//!
//! The binding's five questions (sheet section 12): serialisation is JSON in a wrapper over HTTP and plain events on
//! streams; connection is `POST /v1/join` or a join frame; send and receive are `/v1/events` or frames; acks are
//! `after`, `POST /v1/ack` or ack frames; heartbeats are any call within 60 s, or an open stream.

pub mod app;
pub mod docs;
pub mod door;
pub mod grpc;
pub mod ops;
pub mod stream;

mod admin;
mod analytics;
mod ask;
mod auth;
mod conversations;
mod events;
mod files;
mod members;
mod mods;
mod operations;
mod resources;
mod sse;
mod transfer;
mod wire;
mod work;
mod workspaces;
mod ws;

pub use app::{App, FaceConfig};
pub use door::Door;
pub use operations::listen_is_plain;
