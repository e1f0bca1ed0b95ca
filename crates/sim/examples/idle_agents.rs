//! Memory of a node per idle WebSocket agent: `cargo run --release -p rialto-sim --example idle_agents [AGENTS [PER_NETWORK]]`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for people")]

use rialto_sim::crowd::{idle, members};
use rialto_sim::harness::{Server, raise_file_limit};

#[tokio::main]
async fn main() {
    let limit = raise_file_limit();
    let wanted: usize = std::env::args().nth(1).map_or(10_000, |n| n.parse().unwrap());
    let agents = wanted.min(usize::try_from(limit.saturating_sub(200)).unwrap() * 7 / 8);
    let server = Server::start().await;
    let rest = rialto_sim::harness::resident_bytes(server.pid());
    let absent = members(&Server::start().await, agents.min(2000)).await;
    let per_network: usize = std::env::args().nth(2).map_or(100, |n| n.parse().unwrap());
    let found = idle(&server, agents, per_network).await;
    println!("a member without a connection: {:.1} KiB", absent as f64 / 1024.0);
    println!("idle node: {:.1} MiB", rest as f64 / f64::from(1 << 20));
    println!(
        "{agents} idle agents: {:.1} MiB, {:.1} KiB each",
        found.after as f64 / f64::from(1 << 20),
        found.bytes_per_agent() as f64 / 1024.0
    );
}
