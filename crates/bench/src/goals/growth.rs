//! Goal 13 and the growth curves: what one event costs in a large network, and with a long log, against an empty one.
//!
//! Deliveries are not counted: the recipients are members that are not connected.

use super::start::publish_many;
use super::{Goal, carriers, publish};
use crate::budget::Length;
use crate::error::BenchError;
use crate::lab::Lab;
use crate::report::{Bar, Row};
use crate::rialto::stream::Agent;
use crate::rialto::{Network, Rialto, event, ws};
use crate::ring::Ring;
use serde_json::json;
use tokio::task::JoinSet;

const DIRECT: Goal = Goal {
    number: 13,
    name: "cost of a direct event, 10k members vs none",
    unit: "cpu µs",
    bar: Bar::at_most(1.3, 1.1),
    larger: &[],
};
const SEATED: Goal = Goal { name: "cost of a channel event that seats 10k members vs none", ..DIRECT };
const CHANNELS: Goal = Goal { name: "cost of a channel event, 1k channels vs one", ..DIRECT };
const LOG: Goal = Goal { name: "cost of a channel event, 10M events in the log vs none", ..DIRECT };
const SIZE: usize = 256;
/// Joins at once.
const JOINS: u64 = 32;

pub(crate) async fn run(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let (passes, length) = (lab.options.passes(), short(lab.options.length()));
    let members = lab.options.scaled(10_000, 10_000, 20);
    let channels = lab.options.scaled(1_000, 1_000, 10);
    let events = lab.options.scaled(10_000_000, 1_000_000, 2_000);
    lab.step(format!("goal 13: {members} members, {channels} channels"));
    let (empty, alone) = (lab.network().await?, lab.network().await?);
    let crowd = lab.network().await?;
    crowded(lab.rialto().await?, &crowd, members).await?;
    let roomy = lab.network().await?;
    rooms(lab.rialto().await?, &roomy, channels).await?;
    let (mut direct, mut seated, mut wide) = (Vec::new(), Vec::new(), Vec::new());
    for pass in 1..=passes {
        lab.step(format!("goal 13: direct events, pass {pass}"));
        let node = lab.rialto().await?;
        // A fresh recipient each time: mail waits for it, and there is a limit to that.
        carriers::join(node, &empty, &format!("agent:m{pass:05}")).await?;
        let base = cost(node, &empty, &format!("agent:m{pass:05}"), length).await?;
        direct.push((cost(node, &crowd, &format!("agent:m{pass:05}"), length).await?, base));
    }
    for pass in 1..=passes {
        lab.step(format!("goal 13: channel events, pass {pass}"));
        let node = lab.rialto().await?;
        let base = cost(node, &alone, "channel/general", length).await?;
        seated.push((cost(node, &crowd, "channel/general", length).await?, base));
        lab.step(format!("goal 13: many channels, pass {pass}"));
        let node = lab.rialto().await?;
        let base = cost(node, &alone, "channel/general", length).await?;
        wide.push((cost_around(node, &roomy, channels, length).await?, base));
    }
    let said = |goal: Goal, pairs: &[(f64, f64)], meant: u64, did: u64| {
        let row = goal.compared(pairs).sized(SIZE);
        if did < meant { row.noted(format!("{did} only")) } else { row }
    };
    let mut rows = vec![
        said(DIRECT, &direct, 10_000, members),
        said(SEATED, &seated, 10_000, members),
        said(CHANNELS, &wide, 1_000, channels),
    ];
    lab.clear();
    rows.push(said(LOG, &long_log(lab, events, passes, length).await?, 10_000_000, events));
    Ok(rows)
}

/// All passes together must not fill the queues of members who never read.
pub(crate) fn short(length: Length) -> Length {
    Length { cpu: length.cpu.min(std::time::Duration::from_millis(300)), ..length }
}

/// A node with a long log beside an empty one.
async fn long_log(
    lab: &mut Lab<'_>,
    events: u64,
    passes: usize,
    length: Length,
) -> Result<Vec<(f64, f64)>, BenchError> {
    lab.step(format!("goal 13: {events} events for a long log"));
    let folder = lab.folder("log");
    let (node, _) = Rialto::start(&lab.options.program, &folder).await?;
    let network = node.network("long").await?;
    publish_many(&node, &network, events).await?;
    let mut pairs = Vec::new();
    for pass in 1..=passes {
        lab.step(format!("goal 13: a long log, pass {pass}"));
        let empty = lab.network().await?;
        let base = cost(lab.rialto().await?, &empty, "channel/general", length).await?;
        pairs.push((cost(&node, &network, "channel/general", length).await?, base));
    }
    node.kill();
    std::fs::remove_dir_all(&folder).ok();
    lab.clear();
    Ok(pairs)
}

/// CPU microseconds of one event.
pub(crate) async fn cost(node: &Rialto, network: &Network, target: &str, length: Length) -> Result<f64, BenchError> {
    let sample = publish::rialto(node, network, "by", target, SIZE, true, length).await?;
    Ok(sample.cpu_micros())
}

/// The same with every channel in turn.
async fn cost_around(node: &Rialto, network: &Network, channels: u64, length: Length) -> Result<f64, BenchError> {
    let frames: Result<Vec<Vec<u8>>, BenchError> = (0..channels)
        .map(|n| Ok(ws::text(event(SIZE, "agent:by", &format!("channel/room{n:05}"))?.as_bytes())))
        .collect();
    let ring = Ring::new(frames?).ok_or_else(|| BenchError::answer("nothing to send"))?;
    Ok(publish::publish(node, network, "by", &ring, true, length).await?.cpu_micros())
}

/// Members `agent:m00000` and so on, who are not connected.
pub(crate) async fn crowded(node: &Rialto, network: &Network, members: u64) -> Result<(), BenchError> {
    let mut joining: JoinSet<Result<(), BenchError>> = JoinSet::new();
    for lane in 0..JOINS {
        let (address, network) = (node.address, network.clone());
        joining.spawn(async move {
            let mut socket = crate::drive::Socket::connect(address).await?;
            let path = format!("/v1/ws/{}/join", network.id);
            // One is the publisher itself.
            for n in (lane..members.saturating_sub(1)).step_by(usize::try_from(JOINS).unwrap_or(1)) {
                let agent = format!("agent:m{n:05}");
                let body = json!({ "agent_id": agent, "credentials": { "token": network.token } }).to_string();
                let request = crate::rialto::http::request(address, "POST", &path, None, Some(body.as_bytes()));
                socket.write(&request).await?;
                crate::rialto::http::answer(&mut socket).await?.json()?;
            }
            Ok(())
        });
    }
    while let Some(joined) = joining.join_next().await {
        joined.map_err(|e| BenchError::answer(e.to_string()))??;
    }
    Ok(())
}

/// Channels `room00000` and so on, made by the publisher, who is seated in each.
async fn rooms(node: &Rialto, network: &Network, channels: u64) -> Result<(), BenchError> {
    let mut agent = Agent::join(node.address, network, "by", "").await?;
    for n in 0..channels {
        agent.ask("network.channel.create", &json!({ "name": format!("room{n:05}") })).await?;
    }
    Ok(())
}

/// A point of a curve: how many, and CPU microseconds per event.
pub(crate) type Point = (u64, f64);

/// The cost per event against members, channels and events in the log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curves {
    pub(crate) direct: Vec<Point>,
    pub(crate) seated: Vec<Point>,
    pub(crate) channels: Vec<Point>,
    pub(crate) log: Vec<Point>,
}

/// Measures the curves.
pub(crate) async fn curves(lab: &mut Lab<'_>) -> Result<Curves, BenchError> {
    let length = lab.options.length();
    let most = lab.options.scaled(10_000, 10_000, 100);
    let mut curves = Curves { direct: Vec::new(), seated: Vec::new(), channels: Vec::new(), log: Vec::new() };
    for members in [10, 100, 1_000, 10_000].into_iter().filter(|n| *n <= most) {
        lab.step(format!("curves: {members} members"));
        let network = lab.network().await?;
        let node = lab.rialto().await?;
        crowded(node, &network, members).await?;
        curves.direct.push((members, cost(node, &network, "agent:m00000", length).await?));
        curves.seated.push((members, cost(node, &network, "channel/general", length).await?));
    }
    for channels in [1, 10, 100, 1_000].into_iter().filter(|n| *n <= most / 10) {
        lab.step(format!("curves: {channels} channels"));
        let network = lab.network().await?;
        let node = lab.rialto().await?;
        rooms(node, &network, channels).await?;
        curves.channels.push((channels, cost_around(node, &network, channels, length).await?));
    }
    lab.clear();
    let (step, last) =
        (lab.options.scaled(1_000_000, 500_000, 1_000), lab.options.scaled(10_000_000, 1_000_000, 2_000));
    let folder = lab.folder("curve");
    let (node, _) = Rialto::start(&lab.options.program, &folder).await?;
    let network = node.network("long").await?;
    let mut events = 0;
    loop {
        lab.step(format!("curves: {events} events in the log"));
        curves.log.push((events, cost(&node, &network, "channel/general", length).await?));
        if events >= last {
            break;
        }
        // What was measured is in the log as well.
        publish_many(&node, &network, step).await?;
        events += step;
    }
    node.kill();
    std::fs::remove_dir_all(&folder).ok();
    Ok(curves)
}

impl Curves {
    /// A row for every point.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let lines = [
            ("direct event, members", &self.direct),
            ("channel event, members seated", &self.seated),
            ("channel event, channels", &self.channels),
            ("channel event, events in the log", &self.log),
        ];
        let row = |name: &str, (n, cost): &Point| Row::plain(&format!("cost of a {name}: {n}"), "cpu µs", &[*cost]);
        lines.iter().flat_map(|(name, points)| points.iter().map(|point| row(name, point))).collect()
    }
}
