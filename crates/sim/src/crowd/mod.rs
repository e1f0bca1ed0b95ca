//! Many agents on one node: idle ones and stalled ones. The tests call these with bounds for any machine, the examples in `examples/`
//! measure a release build with them.
//!
//! Not here: what is enough (the tests and `docs/reliability.md`).

mod idle;
mod stalled;

pub use idle::{Idle, idle, members};
pub use stalled::{Latency, Readers, in_turn, stall, streams};

use crate::harness::{Network, Quiet, Server};
use futures_util::StreamExt;
use serde_json::Value;

/// Joins at a time.
const AT_ONCE: usize = 32;

/// Joins `count` agents named after `name`, several at a time.
async fn gather(
    server: &Server,
    network: &Network,
    name: &str,
    count: usize,
    options: &Value,
    receive_bytes: Option<u32>,
) -> Vec<Quiet> {
    let joins = (0..count).map(|n| async move {
        let agent = format!("agent:{name}-{n}");
        let joined = Quiet::join(server.address(), network, &agent, options, receive_bytes).await;
        joined.unwrap_or_else(|e| panic!("{agent} cannot join: {e}"))
    });
    futures_util::stream::iter(joins).buffer_unordered(AT_ONCE).collect().await
}
