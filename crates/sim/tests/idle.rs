//! Ten thousand agents that are connected and do nothing, or as many as the system lets a process connect.
//! The figure for a release build: `cargo run --release -p rialto-sim --example idle_agents`.

use rialto_sim::crowd::idle;
use rialto_sim::harness::{Server, raise_file_limit, rialto};

const AGENTS: usize = 10_000;
const PER_NETWORK: usize = 100;
/// The goal for a release build is 12 KiB; a debug build keeps larger futures.
const RELEASE_BYTES_MAX: u64 = 12 << 10;
const DEBUG_BYTES_MAX: u64 = 40 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn idle_agents_cost_little_memory() -> Result<(), std::num::TryFromIntError> {
    let limit = raise_file_limit();
    // A node leaves an eighth of its files to the store.
    let agents = AGENTS.min(usize::try_from(limit.saturating_sub(200) * 7 / 8)?);
    let server = Server::start().await;
    let found = idle(&server, agents, PER_NETWORK).await;
    let release = rialto().ends_with("release/rialto");
    let most = if release { RELEASE_BYTES_MAX } else { DEBUG_BYTES_MAX };
    eprintln!("{agents} idle agents (release: {release}): {} bytes each", found.bytes_per_agent());
    assert!(found.bytes_per_agent() <= most, "an idle agent costs {} bytes", found.bytes_per_agent());
    assert!(!server.told().contains("panicked"), "{}", server.told());
    Ok(())
}
