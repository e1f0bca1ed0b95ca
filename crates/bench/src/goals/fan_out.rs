//! Goal 5: one event to a hundred receivers, logged and flushed, per CPU second, against NATS core, which keeps nothing.
//!
//! Both publishers keep pace with the slowest receiver, so that no queue decides. Our receivers ack every so often, as
//! at-least-once delivery asks of them; the peer's have nothing to ack.

use super::{Goal, per_cpu, wall};
use crate::budget::{Budget, Length, Sample};
use crate::drive::{Load, drive};
use crate::error::BenchError;
use crate::lab::{Lab, NO_NATS};
use crate::nats::frame::{self, Said};
use crate::nats::jetstream::Client;
use crate::report::{Bar, Row};
use crate::rialto::stream::{Agent, Publisher, Received, ack_up_to};
use crate::rialto::{Network, Rialto, event, ws};
use crate::ring::Ring;
use bytes::{Buf, BytesMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;
use tokio::task::JoinSet;

const RECEIVERS: usize = 100;
/// Events on their way at most, with batches.
pub(crate) const BATCHES: u64 = 1024;
/// Our receivers ack after this many events.
const ACK_EVERY: u64 = 256;

const GOAL: Goal = Goal {
    number: 5,
    name: "fan-out 1 to 100, batches, vs NATS core",
    unit: "deliveries/cpu-s",
    bar: Bar::at_least(3.0, 6.0),
    larger: &[],
};
/// Nearly all of it is the kernel's, a write for each receiver.
const ONE: Goal =
    Goal { name: "fan-out 1 to 100, one event in flight, vs NATS core", bar: Bar::at_least(1.5, 2.5), ..GOAL };
/// Sizes beyond this only measure the kernel's copies, a hundred of each event.
const LARGEST: usize = 1024;

pub(crate) async fn run(lab: &mut Lab<'_>) -> Result<Vec<Row>, BenchError> {
    let (sizes, passes, length) = (lab.options.sizes(), lab.options.passes(), lab.options.length());
    let mut rows = Vec::new();
    for (window, goal) in [(BATCHES, GOAL), (1, ONE)] {
        for size in sizes.iter().copied().filter(|size| *size <= LARGEST) {
            let mut pairs = Vec::new();
            for pass in 1..=passes {
                lab.step(format!("goal 5: NATS fan-out, window {window}, {size} B, pass {pass}"));
                let peer = if lab.peers.is_empty() { None } else { Some(nats(lab, size, window, length).await?) };
                lab.step(format!("goal 5: fan-out, window {window}, {size} B, pass {pass}"));
                let network = lab.network().await?;
                let ours = rialto(lab.rialto().await?, &network, size, window, length).await?;
                pairs.extend(peer.map(|peer| (ours, peer)));
            }
            rows.push(match pairs.is_empty() {
                true => goal.skipped(NO_NATS).sized(size),
                false => goal.compared_at(size, &per_cpu(&pairs)).noted(wall(&pairs)),
            });
        }
    }
    Ok(rows)
}

/// How far every receiver is.
#[derive(Debug, Default)]
struct Crowd {
    counts: Vec<AtomicU64>,
    news: Notify,
}

impl Crowd {
    fn new() -> Arc<Crowd> {
        let counts = std::iter::repeat_with(AtomicU64::default).take(RECEIVERS).collect();
        Arc::new(Crowd { counts, news: Notify::new() })
    }

    fn note(&self, receiver: usize, count: u64) {
        if let Some(known) = self.counts.get(receiver) {
            known.store(count, Ordering::Release);
            self.news.notify_one();
        }
    }

    fn slowest(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Acquire)).min().unwrap_or(0)
    }

    fn all(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Acquire)).sum()
    }
}

/// A publisher that keeps pace with the slowest receiver.
struct Paced<L> {
    inner: L,
    crowd: Arc<Crowd>,
}

impl<L: Load> Load for Paced<L> {
    fn take(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<(), BenchError> {
        self.inner.take(input, out)
    }

    fn done(&self) -> u64 {
        self.crowd.slowest()
    }

    fn news(&self) -> Option<&Notify> {
        Some(&self.crowd.news)
    }
}

/// Runs a load beside its receivers, who only end by failing.
async fn beside(
    mut receivers: JoinSet<Result<(), BenchError>>,
    load: impl Future<Output = Result<u64, BenchError>>,
) -> Result<u64, BenchError> {
    let ended = async {
        match receivers.join_next().await {
            Some(Ok(Err(error))) => error,
            _ => BenchError::answer("a receiver ended badly"),
        }
    };
    tokio::select! {
        sent = load => sent,
        error = ended => Err(error),
    }
}

/// One member of a channel sends to a hundred others.
pub(crate) async fn rialto(
    node: &Rialto,
    network: &Network,
    size: usize,
    window: u64,
    length: Length,
) -> Result<Sample, BenchError> {
    let (crowd, mut receivers) = (Crowd::new(), JoinSet::new());
    for n in 0..RECEIVERS {
        let agent = Agent::join(node.address, network, &format!("to{n}"), r#""window":4096"#).await?;
        receivers.spawn(receive(agent, n, crowd.clone()));
    }
    let mut sender = Agent::join(node.address, network, "by", r#""acks":"batch""#).await?;
    let text = event(size, "agent:by", "channel/general")?;
    let ring = Ring::of(&ws::text(text.as_bytes())).ok_or_else(|| BenchError::answer("nothing to send"))?;
    let mut load = Paced { inner: Publisher::new(true), crowd: crowd.clone() };
    let mut budget = Budget::begin(node.pid(), length)?;
    let sending = drive(&mut sender.socket, &ring, window, None, &mut load, &mut budget);
    beside(receivers, sending).await?;
    budget.end(crowd.all())
}

/// Receives for ever.
async fn receive(mut agent: Agent, number: usize, crowd: Arc<Crowd>) -> Result<(), BenchError> {
    let (mut received, mut acked, mut out) = (Received::default(), 0, Vec::new());
    loop {
        received.take(&mut agent.socket.input, &mut out)?;
        crowd.note(number, received.count);
        if received.count - acked >= ACK_EVERY {
            out.extend_from_slice(&ack_up_to(&received.last));
            acked = received.count;
        }
        if !out.is_empty() {
            agent.socket.write(&out).await?;
            out.clear();
        }
        agent.socket.read().await?;
    }
}

/// Answers pings; NATS core has no acks.
struct Pings;

impl Load for Pings {
    fn take(&mut self, input: &mut BytesMut, out: &mut Vec<u8>) -> Result<(), BenchError> {
        while let Some((said, n)) = frame::decode(input)? {
            if said == Said::Ping {
                out.extend_from_slice(b"PONG\r\n");
            }
            input.advance(n);
        }
        Ok(())
    }

    fn done(&self) -> u64 {
        0
    }
}

async fn nats(lab: &mut Lab<'_>, size: usize, window: u64, length: Length) -> Result<Sample, BenchError> {
    let subject = lab.name("fan.");
    let nats = lab.nats().await?;
    let (crowd, mut receivers) = (Crowd::new(), JoinSet::new());
    for n in 0..RECEIVERS {
        let mut client = Client::connect(nats.address).await?;
        client.subscribe(&subject).await?;
        receivers.spawn(listen(client, n, crowd.clone()));
    }
    let mut sender = Client::connect(nats.address).await?;
    let text = event(size, "agent:by", "channel/general")?;
    let ring = Ring::of(&frame::publish(&subject, "", text.as_bytes()));
    let ring = ring.ok_or_else(|| BenchError::answer("nothing to send"))?;
    let mut load = Paced { inner: Pings, crowd: crowd.clone() };
    let mut budget = Budget::begin(nats.pid(), length)?;
    let sending = drive(&mut sender.socket, &ring, window, None, &mut load, &mut budget);
    beside(receivers, sending).await?;
    budget.end(crowd.all())
}

/// Listens for ever.
async fn listen(mut client: Client, number: usize, crowd: Arc<Crowd>) -> Result<(), BenchError> {
    let (mut count, mut out) = (0, Vec::new());
    loop {
        let mut at = 0;
        while let Some((said, n)) = frame::decode(client.socket.input.get(at..).unwrap_or_default())? {
            match said {
                Said::Message { .. } => count += 1,
                Said::Ping => out.extend_from_slice(b"PONG\r\n"),
                Said::Pong | Said::Other => {}
            }
            at += n;
        }
        client.socket.input.advance(at);
        crowd.note(number, count);
        if !out.is_empty() {
            client.socket.write(&out).await?;
            out.clear();
        }
        client.socket.read().await?;
    }
}
