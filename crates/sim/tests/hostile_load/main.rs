//! Attacks on a node from outside: a real process, real sockets. During each one the node's memory stays within its bound and an honest
//! member is served in time, and ten seconds after the attackers have left all is given back.
//!
//! The numbers are small here; `RIALTO_LOAD=10` multiplies them. An attack is a file beside this one; what is measured is in
//! `rialto_sim::load`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

mod answers;
mod bodies;
mod connections;
mod grpc;
mod http2;
mod lists;

use rialto_sim::harness::Server;
use std::path::Path;

/// A node with so many places for connections.
async fn node_with_places(dir: &Path, places: usize) -> Server {
    let config = dir.join("rialto.toml");
    std::fs::write(&config, format!("[limits]\nconnections_max = {places}\n")).unwrap();
    Server::start_with(&["--config", config.to_str().unwrap()]).await
}
