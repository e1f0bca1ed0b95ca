//! Agents that are connected and do nothing.

use super::{AT_ONCE, gather};
use crate::harness::{Network, Quiet, Server, resident_bytes};
use futures_util::StreamExt;
use serde_json::json;
use std::time::Duration;
use tokio::task::JoinHandle;

/// What idle agents cost.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// Agents connected.
    pub agents: usize,
    /// Memory of the node before the first of them.
    pub before: u64,
    /// And with all of them, after a while without events.
    pub after: u64,
}

impl Idle {
    /// Bytes of the node per agent.
    pub fn bytes_per_agent(&self) -> u64 {
        self.after.saturating_sub(self.before) / self.agents as u64
    }
}

/// Bytes of the node per member that joined and has no connection.
pub async fn members(server: &Server, count: usize) -> u64 {
    let network = server.main();
    server.join(&network, "agent:warm-up").await;
    let before = resident_bytes(server.pid());
    let mut http = server.http();
    for n in 0..count {
        let body = json!({ "agent_id": format!("agent:member-{n}"), "credentials": { "token": network.token } });
        http.post(&format!("/v1/ws/{}/join", network.id)).json(&body).await.data();
    }
    settled(server).await;
    resident_bytes(server.pid()).saturating_sub(before) / count as u64
}

/// Connects idle agents by WebSocket, so many to a network, and waits until the node is at rest. (Everybody in a network hears of
/// everybody who comes: in one large network that is most of the work of joining.)
pub async fn idle(server: &Server, agents: usize, per_network: usize) -> Idle {
    let mut networks = vec![server.main()];
    for n in 1..agents.div_ceil(per_network) {
        networks.push(server.network(&json!({ "name": format!("crowd {n}") })).await);
    }
    let mut drains = Vec::new();
    // A first agent in each, so that what is needed once is not counted for each.
    for network in &networks {
        let first = gather(server, network, "first", 1, &json!({}), None).await;
        drains.extend(first.into_iter().map(|agent| tokio::spawn(agent.drain())));
    }
    settled(server).await;
    let before = resident_bytes(server.pid());
    for (network, n) in networks.iter().zip(0..) {
        let count = per_network.min(agents - n * per_network);
        drains.extend(gather_drained(server, network, count).await);
    }
    settled(server).await;
    let after = resident_bytes(server.pid());
    let gone = drains.iter().filter(|drain| drain.is_finished()).count();
    assert_eq!(gone, 0, "agents lost their connection");
    drains.iter().for_each(tokio::task::JoinHandle::abort);
    Idle { agents, before, after }
}

/// Joins agents that read what comes from the first moment on.
async fn gather_drained(server: &Server, network: &Network, count: usize) -> Vec<JoinHandle<std::io::Error>> {
    let joins = (0..count).map(|n| async move {
        let agent = format!("agent:idle-{n}");
        let joined = Quiet::join(server.address(), network, &agent, &json!({}), None).await;
        joined.unwrap_or_else(|e| panic!("{agent} cannot join: {e}"))
    });
    let mut joined = futures_util::stream::iter(joins).buffer_unordered(AT_ONCE);
    let mut drains = Vec::with_capacity(count);
    while let Some(agent) = joined.next().await {
        drains.push(tokio::spawn(agent.drain()));
    }
    drains
}

/// Waits until the node has used hardly any processor time for a while.
pub(super) async fn settled(server: &Server) {
    let mut quiet = 0;
    for _ in 0..600 {
        let before = crate::harness::cpu_seconds(server.pid());
        tokio::time::sleep(Duration::from_millis(500)).await;
        quiet = if crate::harness::cpu_seconds(server.pid()) - before < 0.1 { quiet + 1 } else { 0 };
        if quiet == 4 {
            return;
        }
    }
    panic!("the node does not come to rest");
}
