//! Goals 9, 10 and 12: memory, and how fast a node is there, empty or with a long log after a power cut.

use super::Goal;
use crate::budget::{Budget, Length};
use crate::cpu::{Usage, resident_bytes};
use crate::drive::drive;
use crate::error::BenchError;
use crate::lab::Lab;
use crate::report::{Bar, Row};
use crate::rialto::stream::{Agent, Publisher};
use crate::rialto::{Network, Rialto, event, ws};
use crate::ring::Ring;
use std::path::Path;
use std::time::Duration;
use tokio::task::JoinSet;

const IDLE: Goal =
    Goal { number: 9, name: "memory of an idle node", unit: "MiB", bar: Bar::at_most(25.0, 15.0), larger: &[] };
const AGENT: Goal = Goal { name: "memory per idle WebSocket agent", unit: "KiB", bar: Bar::at_most(8.0, 5.0), ..IDLE };
const READY_1M: Goal = Goal {
    number: 10,
    name: "ready after kill -9, 1M events",
    unit: "ms",
    bar: Bar::at_most(200.0, 60.0),
    larger: &[],
};
const READY_10M: Goal = Goal { name: "ready after kill -9, 10M events", bar: Bar::at_most(300.0, 100.0), ..READY_1M };
const COLD: Goal = Goal {
    number: 12,
    name: "cold start to first answered request, empty data directory",
    unit: "ms",
    bar: Bar::at_most(100.0, 20.0),
    larger: &[],
};
/// Agents of one network: everybody hears of everybody who comes, which is not what is measured here.
const PER_NETWORK: u64 = 100;
/// Joins at once.
const JOINS: usize = 32;
/// A node gives memory back that nobody has used for this long.
const GIVEN_BACK: Duration = Duration::from_secs(7);
/// Without an end of its own.
const FOR_EVER: Length = Length { cpu: Duration::from_secs(100_000), wall: Duration::from_secs(3600) };

impl Goal {
    fn absolute(&self, values: &[f64]) -> Row {
        Row::absolute(self.number, self.name, self.unit, self.bar, values)
    }
}

/// Goal 12.
pub(crate) async fn cold(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let mut times = Vec::new();
    for pass in 1..=lab.options.passes() {
        lab.step(format!("goal 12: cold start, pass {pass}"));
        let folder = lab.folder("cold");
        let (node, took) = Rialto::start(&lab.options.program, &folder).await?;
        times.push(took.as_secs_f64() * 1e3);
        node.stop().await?;
    }
    Ok(vec![COLD.absolute(&times)])
}

/// Goal 9.
pub(crate) async fn memory(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let wanted = lab.options.scaled(10_000, 2_000, 40);
    let agents = wanted.min(connections());
    lab.step(format!("goal 9: memory of an idle node, and with {agents} idle agents"));
    let folder = lab.folder("idle");
    let (idle, each) = memory_of(&lab.options.program, &folder, agents).await?;
    let mut said = format!("{agents} agents, {PER_NETWORK} to a network");
    if agents < wanted {
        said.push_str(&format!("; the limit of open files allows no {wanted}"));
    }
    Ok(vec![IDLE.absolute(&[idle]), AGENT.absolute(&[each]).noted(said)])
}

/// MiB of a node at rest, and KiB of each idle agent.
pub(crate) async fn memory_of(program: &Path, folder: &Path, agents: u64) -> Result<(f64, f64), BenchError> {
    let (node, _) = Rialto::start(program, folder).await?;
    let idle = bytes_at_rest(&node).await?;
    let mut networks = Vec::new();
    for n in 0..agents.div_ceil(PER_NETWORK) {
        networks.push(node.network(&format!("crowd-{n}")).await?);
    }
    let mut held = JoinSet::new();
    // A first agent in each, so that what a network costs once is not counted for each agent.
    for network in &networks {
        held.spawn(hold(Agent::join(node.address, network, "first", "").await?));
    }
    let before = bytes_at_rest(&node).await?;
    let mut joining: JoinSet<Result<Agent, BenchError>> = JoinSet::new();
    for n in 0..agents {
        let network = networks.get(usize::try_from(n / PER_NETWORK).unwrap_or(0)).cloned();
        let Some(network) = network else { continue };
        let address = node.address;
        if joining.len() >= JOINS
            && let Some(agent) = joining.join_next().await
        {
            held.spawn(hold(agent.map_err(|e| BenchError::answer(e.to_string()))??));
        }
        joining.spawn(async move { Agent::join(address, &network, &format!("idle{n}"), "").await });
    }
    while let Some(agent) = joining.join_next().await {
        held.spawn(hold(agent.map_err(|e| BenchError::answer(e.to_string()))??));
    }
    let each = bytes_at_rest(&node).await?.saturating_sub(before) as f64 / agents as f64;
    if let Some(gone) = held.try_join_next() {
        gone.map_err(|e| BenchError::answer(e.to_string()))??;
    }
    Ok((idle as f64 / f64::from(1 << 20), each / 1024.0))
}

/// Connections that the limit of open files allows, here and in the node, which keeps some of its own.
pub(crate) fn connections() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Refused, the limit is simply what it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    files - files / 6
}

/// Reads what comes, so that nothing waits in the node.
async fn hold(mut agent: Agent) -> Result<(), BenchError> {
    loop {
        // A pong is sent now and then; the text before it is of no interest.
        agent.quiet().await?;
    }
}

/// Bytes of memory of a node that does nothing.
async fn bytes_at_rest(node: &Rialto) -> Result<u64, BenchError> {
    at_rest(node).await?;
    tokio::time::sleep(GIVEN_BACK).await;
    resident_bytes(node.pid())
}

/// Waits until a node has used hardly any CPU time for a while.
async fn at_rest(node: &Rialto) -> Result<(), BenchError> {
    let mut quiet = 0;
    for _ in 0..600 {
        let before = Usage::of(node.pid())?;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let used = Usage::of(node.pid())?.everything_since(&before);
        quiet = if used < Duration::from_millis(5) { quiet + 1 } else { 0 };
        if quiet == 5 {
            return Ok(());
        }
    }
    Err(BenchError::Timeout("coming to rest".to_owned()))
}

/// Goal 10; leaves the node with its long log running for what else is asked of one.
pub(crate) async fn after_a_kill(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let many = lab.options.scaled(1_000_000, 1_000_000, 2_000);
    let folder = lab.folder("long");
    let network = fill(lab, &folder, many).await?;
    let row = READY_1M.absolute(&restarts(lab, &folder).await?);
    let mut rows = vec![if many < 1_000_000 { row.noted(format!("{many} events only")) } else { row }];
    if lab.options.scaled(1, 0, 0) == 1 {
        more(lab, &folder, &network, 9_000_000).await?;
        rows.push(READY_10M.absolute(&restarts(lab, &folder).await?));
    }
    std::fs::remove_dir_all(&folder).ok();
    Ok(rows)
}

/// Makes a node with so many events in a network of its own, and ends it at once.
async fn fill(lab: &mut Lab<'_>, folder: &Path, many: u64) -> Result<Network, BenchError> {
    lab.step(format!("{many} events for a long log"));
    let (node, _) = Rialto::start(&lab.options.program, folder).await?;
    let network = node.network("long").await?;
    publish_many(&node, &network, many).await?;
    node.kill();
    Ok(network)
}

async fn more(lab: &mut Lab<'_>, folder: &Path, network: &Network, many: u64) -> Result<(), BenchError> {
    lab.step(format!("{many} more events for a long log"));
    let (node, _) = Rialto::start(&lab.options.program, folder).await?;
    publish_many(&node, network, many).await?;
    node.kill();
    Ok(())
}

/// Publishes so many events of 256 bytes.
pub(crate) async fn publish_many(node: &Rialto, network: &Network, many: u64) -> Result<(), BenchError> {
    let text = event(256, "agent:filler", "channel/general")?;
    publish_these(node, network, "filler", &text, many).await
}

/// Publishes one event so many times.
pub(crate) async fn publish_these(
    node: &Rialto,
    network: &Network,
    name: &str,
    text: &str,
    many: u64,
) -> Result<(), BenchError> {
    let ring = Ring::of(&ws::text(text.as_bytes())).ok_or_else(|| BenchError::answer("nothing to send"))?;
    let mut agent = Agent::join(node.address, network, name, r#""acks":"batch""#).await?;
    let mut budget = Budget::begin(node.pid(), FOR_EVER)?;
    drive(&mut agent.socket, &ring, super::WINDOW, Some(many), &mut Publisher::new(true), &mut budget).await?;
    Ok(())
}

/// Times to ready on a data directory that was left by a kill, each start killed again.
async fn restarts(lab: &mut Lab<'_>, folder: &Path) -> Result<Vec<f64>, BenchError> {
    let mut times = Vec::new();
    for pass in 1..=lab.options.passes() {
        lab.step(format!("goal 10: start after a kill, pass {pass}"));
        let (node, took) = Rialto::start(&lab.options.program, folder).await?;
        times.push(took.as_secs_f64() * 1e3);
        node.kill();
    }
    Ok(times)
}
