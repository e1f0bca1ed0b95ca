//! Goal 1: durable publish with a window of 4096, per CPU second, against JetStream on files with its defaults.
//!
//! Ours is flushed before the ack, the peer's is not: that is the point.

use super::{Goal, WINDOW, per_cpu, wall};
use crate::budget::{Budget, Length, Sample};
use crate::drive::drive;
use crate::error::BenchError;
use crate::lab::{Lab, NO_NATS};
use crate::nats::jetstream::{Acks, Client};
use crate::nats::{Nats, frame};
use crate::report::{Bar, Row};
use crate::rialto::stream::{Agent, Publisher};
use crate::rialto::{Network, Rialto, event, ws};
use crate::ring::Ring;

const GOAL: Goal = Goal {
    number: 1,
    name: "durable publish vs JetStream",
    unit: "events/cpu-s",
    bar: Bar::at_least(5.0, 9.0),
    larger: &[(1024, Bar::at_least(3.5, 6.0)), (16_384, Bar::at_least(2.5, 5.0))],
};

/// Goal 2 is about time that passes: what a flush for every ack costs a server that does not gather them.
const ALWAYS: Goal = Goal {
    number: 2,
    name: "durable publish vs JetStream that flushes before each ack, wall",
    unit: "events/s",
    bar: Bar::at_least(50.0, 150.0),
    larger: &[],
};

/// Goal 2, where the peer can flush before each ack.
pub(crate) async fn always(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let Some(program) = lab.peers.iter().find(|p| p.can_sync_always()).cloned() else {
        let why = match lab.peers.is_empty() {
            true => NO_NATS,
            false => "no nats-server 2.10 or newer on PATH, which `sync_interval: always` needs",
        };
        return Ok(vec![ALWAYS.skipped(why).sized(256)]);
    };
    let (passes, length) = (lab.options.passes(), lab.options.length());
    let folder = lab.folder("nats-sync");
    let nats = Nats::start(&program, &folder, true).await?;
    let network = lab.network().await?;
    let mut pairs = Vec::new();
    for pass in 1..=passes {
        lab.step(format!("goal 2: JetStream publish with flushes, pass {pass}"));
        let name = lab.name("S");
        let peer = jetstream(&nats, &name, 256, length).await?;
        lab.step(format!("goal 2: durable publish, pass {pass}"));
        let name = lab.name("pub");
        let ours = rialto(lab.rialto().await?, &network, &name, "channel/general", 256, true, length).await?;
        pairs.push((ours.per_second(), peer.per_second()));
    }
    Ok(vec![ALWAYS.compared(&pairs).sized(256)])
}

pub(crate) async fn run(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let (sizes, passes, length) = (lab.options.sizes(), lab.options.passes(), lab.options.length());
    let network = lab.network().await?;
    let mut rows = Vec::new();
    for size in sizes.iter().copied() {
        let (mut pairs, mut single) = (Vec::new(), Vec::new());
        for pass in 1..=passes {
            lab.step(format!("goal 1: JetStream publish, {size} B, pass {pass}"));
            let name = lab.name("S");
            let peer = match lab.peers.is_empty() {
                true => None,
                false => Some(jetstream(lab.nats().await?, &name, size, length).await?),
            };
            lab.step(format!("goal 1: durable publish, {size} B, pass {pass}"));
            let name = lab.name("pub");
            let ours = rialto(lab.rialto().await?, &network, &name, "channel/general", size, true, length).await?;
            pairs.extend(peer.map(|peer| (ours, peer)));
            lab.step(format!("goal 1: durable publish, an ack per event, {size} B, pass {pass}"));
            let name = lab.name("pub");
            let each = rialto(lab.rialto().await?, &network, &name, "channel/general", size, false, length).await?;
            single.push((each.per_cpu_second(), ours.per_cpu_second()));
        }
        rows.push(match pairs.is_empty() {
            true => GOAL.skipped(NO_NATS).sized(size),
            false => GOAL.compared_at(size, &per_cpu(&pairs)).noted(wall(&pairs)),
        });
        let row = Row::beside("durable publish, an ack per event", GOAL.unit, &single);
        rows.push(row.sized(size).noted("against the batch-ack option"));
    }
    Ok(rows)
}

/// Publishes to a node.
pub(crate) async fn rialto(
    node: &Rialto,
    network: &Network,
    name: &str,
    target: &str,
    size: usize,
    batches: bool,
    length: Length,
) -> Result<Sample, BenchError> {
    let text = event(size, &format!("agent:{name}"), target)?;
    let ring = Ring::of(&ws::text(text.as_bytes())).ok_or_else(|| BenchError::answer("nothing to send"))?;
    publish(node, network, name, &ring, batches, length).await
}

/// Publishes what is encoded already.
pub(crate) async fn publish(
    node: &Rialto,
    network: &Network,
    name: &str,
    ring: &Ring,
    batches: bool,
    length: Length,
) -> Result<Sample, BenchError> {
    let acks = if batches { r#""acks":"batch""# } else { "" };
    let mut agent = Agent::join(node.address, network, name, acks).await?;
    let mut load = Publisher::new(batches);
    let mut budget = Budget::begin(node.pid(), length)?;
    let sent = drive(&mut agent.socket, ring, WINDOW, None, &mut load, &mut budget).await?;
    let sample = budget.end(sent)?;
    // Who stays a member gets the mail of the passes to come, more than its queue may hold.
    agent.leave().await;
    Ok(sample)
}

/// Publishes to a JetStream stream of its own.
async fn jetstream(nats: &Nats, name: &str, size: usize, length: Length) -> Result<Sample, BenchError> {
    let mut client = Client::connect(nats.address).await?;
    let subject = format!("bench.{name}");
    client.make_stream(name, &subject).await?;
    client.subscribe("_INBOX.bench.p").await?;
    let text = event(size, "agent:pub", "channel/general")?;
    let message = frame::publish(&subject, "_INBOX.bench.p", text.as_bytes());
    let ring = Ring::of(&message).ok_or_else(|| BenchError::answer("nothing to send"))?;
    let mut load = Acks::default();
    let mut budget = Budget::begin(nats.pid(), length)?;
    let sent = drive(&mut client.socket, &ring, WINDOW, None, &mut load, &mut budget).await?;
    let sample = budget.end(sent)?;
    client.delete_stream(name).await?;
    Ok(sample)
}
