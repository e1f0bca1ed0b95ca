//! Goal 3: published, delivered and explicitly acked, per CPU second, against JetStream with a pull consumer.

use super::{Goal, WINDOW, per_cpu, wall};
use crate::budget::{Budget, Length, Sample};
use crate::drive::{PATIENCE, drive};
use crate::error::BenchError;
use crate::lab::{Lab, NO_NATS};
use crate::nats::frame::{self, Said};
use crate::nats::jetstream::{Acks, Client};
use crate::report::{Bar, Row};
use crate::rialto::stream::{Agent, Publisher, Received, ack_up_to};
use crate::rialto::{Network, Rialto, event, ws};
use crate::ring::Ring;
use bytes::Buf;
use std::net::SocketAddr;
use tokio::sync::watch;
use tokio::time::Instant;

const GOAL: Goal = Goal {
    number: 3,
    name: "durable end to end vs JetStream",
    unit: "events/cpu-s",
    bar: Bar::at_least(7.0, 12.0),
    larger: &[(1024, Bar::at_least(5.0, 9.0))],
};
/// Nanoseconds a pull waits for messages.
const PULL_NANOS: u64 = 30_000_000_000;

pub(crate) async fn run(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let (sizes, passes, length) = (lab.options.sizes(), lab.options.passes(), lab.options.length());
    let network = lab.network().await?;
    let mut rows = Vec::new();
    for size in sizes.iter().copied() {
        let mut pairs = Vec::new();
        for pass in 1..=passes {
            lab.step(format!("goal 3: JetStream end to end, {size} B, pass {pass}"));
            let peer = if lab.peers.is_empty() { None } else { Some(jetstream(lab, size, length).await?) };
            lab.step(format!("goal 3: end to end, {size} B, pass {pass}"));
            let name = lab.name("e");
            let ours = rialto(lab.rialto().await?, &network, &name, size, length).await?;
            pairs.extend(peer.map(|peer| (ours, peer)));
        }
        rows.push(match pairs.is_empty() {
            true => GOAL.skipped(NO_NATS).sized(size),
            false => GOAL.compared_at(size, &per_cpu(&pairs)).noted(wall(&pairs)),
        });
    }
    Ok(rows)
}

/// One agent sends to another, which acks what it has read with every read.
pub(crate) async fn rialto(
    node: &Rialto,
    network: &Network,
    name: &str,
    size: usize,
    length: Length,
) -> Result<Sample, BenchError> {
    let receiver = Agent::join(node.address, network, &format!("{name}-to"), r#""window":4096"#).await?;
    let mut sender = Agent::join(node.address, network, &format!("{name}-by"), r#""acks":"batch""#).await?;
    let text = event(size, &format!("agent:{name}-by"), &format!("agent:{name}-to"))?;
    let ring = Ring::of(&ws::text(text.as_bytes())).ok_or_else(|| BenchError::answer("nothing to send"))?;
    let (all, expected) = watch::channel(None);
    let mut budget = Budget::begin(node.pid(), length)?;
    let receiving = tokio::spawn(receive(receiver, expected));
    let mut load = Publisher::new(true);
    let sent = drive(&mut sender.socket, &ring, WINDOW, None, &mut load, &mut budget).await?;
    all.send_replace(Some(sent));
    receiving.await.map_err(|e| BenchError::answer(format!("a receiver ended badly: {e}")))??;
    budget.end(sent)
}

/// Receives and acks until everything that was sent is here, and the node has seen the last ack.
async fn receive(mut agent: Agent, mut expected: watch::Receiver<Option<u64>>) -> Result<(), BenchError> {
    let (mut received, mut out) = (Received::default(), Vec::new());
    let mut last = Instant::now();
    loop {
        let before = received.count;
        received.take(&mut agent.socket.input, &mut out)?;
        if received.count > before {
            out.extend_from_slice(&ack_up_to(&received.last));
            last = Instant::now();
        }
        if !out.is_empty() {
            agent.socket.write(&out).await?;
            out.clear();
        }
        if expected.borrow_and_update().is_some_and(|all| received.count >= all) {
            return agent.settled().await;
        }
        tokio::select! {
            read = agent.socket.read() => read?,
            changed = expected.changed() => {
                changed.map_err(|_| BenchError::answer("the sender gave up"))?;
            }
            () = tokio::time::sleep_until(last + PATIENCE) => {
                let all = expected.borrow().map_or_else(|| "more".to_owned(), |all| all.to_string());
                return Err(BenchError::Timeout(format!("delivery ({} of {all} received)", received.count)));
            }
        }
    }
}

async fn jetstream(lab: &mut Lab<'_>, size: usize, length: Length) -> Result<Sample, BenchError> {
    let name = lab.name("S");
    let nats = lab.nats().await?;
    let (address, subject) = (nats.address, format!("bench.{name}"));
    let mut client = Client::connect(address).await?;
    client.make_stream(&name, &subject).await?;
    client.make_consumer(&name, "c").await?;
    client.subscribe("_INBOX.bench.p").await?;
    let text = event(size, "agent:pub", "channel/general")?;
    let message = frame::publish(&subject, "_INBOX.bench.p", text.as_bytes());
    let ring = Ring::of(&message).ok_or_else(|| BenchError::answer("nothing to send"))?;
    let (all, expected) = watch::channel(None);
    let mut budget = Budget::begin(nats.pid(), length)?;
    let consuming = tokio::spawn(consume(address, name.clone(), expected));
    let sent = drive(&mut client.socket, &ring, WINDOW, None, &mut Acks::default(), &mut budget).await?;
    all.send_replace(Some(sent));
    consuming.await.map_err(|e| BenchError::answer(format!("a consumer ended badly: {e}")))??;
    let sample = budget.end(sent)?;
    client.delete_stream(&name).await?;
    Ok(sample)
}

/// Pulls and acks until everything that was published is here, and the server has seen the last ack.
async fn consume(
    address: SocketAddr,
    stream: String,
    mut expected: watch::Receiver<Option<u64>>,
) -> Result<(), BenchError> {
    let mut client = Client::connect(address).await?;
    client.subscribe("_INBOX.bench.c").await?;
    let wish = format!("{{\"batch\":{WINDOW},\"expires\":{PULL_NANOS}}}");
    let pull = frame::publish(&format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.c"), "_INBOX.bench.c", wish.as_bytes());
    let mut out = pull.clone();
    let (mut count, mut asked) = (0, WINDOW);
    loop {
        let mut at = 0;
        while let Some((said, n)) = frame::decode(client.socket.input.get(at..).unwrap_or_default())? {
            match said {
                Said::Message { reply, .. } if !reply.is_empty() => {
                    count += 1;
                    out.extend_from_slice(b"PUB ");
                    out.extend_from_slice(reply);
                    out.extend_from_slice(b" 0\r\n\r\n");
                }
                // A pull that ended without its messages.
                Said::Message { .. } => asked = count,
                Said::Ping => out.extend_from_slice(b"PONG\r\n"),
                Said::Pong | Said::Other => {}
            }
            at += n;
        }
        client.socket.input.advance(at);
        if asked < count + WINDOW / 2 {
            out.extend_from_slice(&pull);
            asked = asked.max(count) + WINDOW;
        }
        if !out.is_empty() {
            client.socket.write(&out).await?;
            out.clear();
        }
        if expected.borrow_and_update().is_some_and(|all| count >= all) {
            return client.settled().await;
        }
        tokio::select! {
            read = client.socket.read() => read?,
            changed = expected.changed() => {
                changed.map_err(|_| BenchError::answer("the publisher gave up"))?;
            }
        }
    }
}
