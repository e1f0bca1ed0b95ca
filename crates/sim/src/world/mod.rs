//! A seeded world: the real node with its real engine and its real store, on a disk, a clock and a machine that obey a
//! script, watched by an oracle that knows the specification only.
//!
//! Everything runs on one thread with time standing still unless the script moves it, so a seed is a run: the same
//! answers, the same pushes, the same bytes on disk, every time.
//! Not here: sockets and processes (the tests of the real binary), wire forms (the faces' own tests).

mod admin;
pub mod bugs;
mod checks;
mod client;
mod facts;
mod guests;
mod joins;
mod life;
mod manage;
mod mods;
mod observe;
pub mod oracle;
mod reading;
mod recycling;
mod resource;
mod rights;
pub mod saved;
pub mod script;
mod search;
pub mod shrink;
pub mod soak;
mod steps;
mod talk;
mod work;

pub use oracle::Wrong;
pub use script::{Script, Step};

pub(crate) use rights::TOKEN;

use client::Client;
use life::End;
use oracle::{Oracle, Rules};
use rialto_node::Network;
use rialto_node::clock::DrivenClock;
use rialto_node::{Host, Node};
use rialto_store::LocalStore;
use rialto_store::disk::fault::FaultDisk;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the data directory is, on the simulated disk.
const DIR: &str = "/data";
/// The world begins at this wall time.
const BEGIN_MS: u64 = 1_767_225_600_000;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// A hash over everything that was seen.
    pub trace: u64,
    /// The first contradiction, and the step (from 1) after which it was seen.
    pub wrong: Option<(usize, Wrong)>,
    /// What happened how often, for the curious.
    pub counts: Counts,
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "names say it")]
pub struct Counts {
    pub events: u64,
    pub pushes: u64,
    pub reads: u64,
    pub polls: u64,
    pub comparisons: u64,
    pub restarts: u64,
    pub recoveries: u64,
    pub dead_letters: u64,
    pub snapshots: u64,
    pub recycled: u64,
    pub refusals: u64,
}

/// One network and everybody in it.
pub(crate) struct Net {
    id: String,
    handle: Option<Network>,
    oracle: Oracle,
    clients: Vec<Client>,
    /// Acks that no flush is known to cover.
    lazy: Vec<client::Acked>,
    /// Acks of which nobody knows what became.
    doubts: Vec<client::Acked>,
    /// It refused writes since the last look.
    shaky: bool,
    /// Its mods that run elsewhere.
    desk: checks::Desk,
    /// What the facts of its faces may say.
    facts: facts::FactBook,
    /// Receipts that came by a stream and were not compared yet, with whose stream it was.
    receipts: Vec<(&'static str, Arc<rialto_model::Event>)>,
    /// Ephemeral events that came by a stream and were not compared yet, with whose stream it was.
    signals: Vec<(&'static str, Arc<rialto_model::Event>)>,
}

/// A byte that rotted.
#[derive(Clone)]
struct Rot {
    path: PathBuf,
    offset: u64,
    /// The bits that changed.
    mask: u8,
    /// The byte and what stands around it, as it was then: whoever writes there anew changes more than one byte.
    around: Vec<u8>,
}

/// The world.
pub(crate) struct World {
    disk: FaultDisk,
    clock: Arc<DrivenClock>,
    host: Host,
    store: Option<Arc<LocalStore<FaultDisk>>>,
    node: Option<Node>,
    nets: Vec<Net>,
    script: Script,
    at: usize,
    trace: u64,
    counts: Counts,
    /// When everything was last gathered, steady time.
    collected: u64,
    /// The disk has been told to fail and was not healed.
    trouble: bool,
    /// It will go on failing until it is healed.
    lasting: bool,
    /// What rotted and is not made whole yet.
    rot: Option<Rot>,
    /// What rotted before and may come back.
    rotted: Vec<Rot>,
    /// The next start ends after so many changes of the disk, by a power cut or a kill.
    falls: Option<(u64, bool)>,
    /// Where the search index is: on a real disk, which nothing troubles.
    index: Option<tempfile::TempDir>,
    /// Everything seen is printed.
    loud: bool,
}

impl World {
    fn new(script: Script) -> World {
        let clock = Arc::new(DrivenClock::at(BEGIN_MS));
        World {
            disk: FaultDisk::new(script.seed).allow_direct(script.direct),
            host: Host::simulated(clock.clone(), script.seed),
            clock,
            store: None,
            node: None,
            nets: Vec::new(),
            index: script.search.then(|| tempfile::tempdir().ok()).flatten(),
            script,
            at: 0,
            trace: 0,
            counts: Counts::default(),
            collected: 0,
            trouble: false,
            lasting: false,
            rot: None,
            falls: None,
            rotted: Vec::new(),
            loud: std::env::var_os("RIALTO_SIM_TRACE").is_some(),
        }
    }

    /// Steady time.
    fn now(&self) -> u64 {
        self.clock.now().steady
    }

    /// Whether something is acknowledged before it is flushed. A power cut may then take back an end of what the oracle has seen
    /// and judged, so in such a world the process is killed instead: that loses nothing.
    fn is_os(&self) -> bool {
        self.script.nets.iter().any(|plan| plan.os)
    }

    /// Takes something seen into the trace.
    fn note(&mut self, what: &str) {
        let mut bytes = self.trace.to_le_bytes().to_vec();
        bytes.extend_from_slice(what.as_bytes());
        self.trace = xxhash_rust::xxh3::xxh3_64(&bytes);
        if self.loud {
            eprintln!("{:>3} {what}", self.at + 1);
        }
    }
}

/// Runs a script to its end or to the first contradiction.
pub fn run(script: &Script) -> Run {
    let mut world = World::new(script.clone());
    let wrong = loop {
        // Time stands still unless somebody moves it.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let Ok(runtime) = runtime else {
            break Some(Wrong { check: "world", what: "no runtime".to_owned() });
        };
        let end = runtime.block_on(world.live());
        // The process ends here: whatever was running is gone at its last await.
        let crashed = matches!(end, Ok(End::PowerCut | End::Kill));
        let now = world.now();
        for net in world.nets.iter_mut().filter(|net| crashed || net.shaky) {
            net.oracle.crashed(now);
        }
        match &end {
            Ok(End::PowerCut) if !world.is_os() => world.disk.crash(),
            Ok(End::PowerCut | End::Kill) => world.disk.kill(),
            Ok(End::Stopped | End::Rot { .. } | End::Done) | Err(_) => {}
        }
        world.end_life();
        drop(runtime);
        world.store = None;
        match end {
            Ok(End::Done) => break None,
            Ok(end) => world.between(end),
            Err(wrong) => break Some(wrong),
        }
    };
    let step = (world.at + 1).min(script.steps.len());
    Run { trace: world.trace, wrong: wrong.map(|wrong| (step, wrong)), counts: world.counts }
}

fn rules(plan: &script::NetPlan, network: &str) -> Rules {
    Rules {
        network: network.to_owned(),
        persistence: plan.persistence,
        at_least_once: plan.at_least_once,
        workspace: plan.workspace,
        ttl_ms: plan.ttl_ms.unwrap_or(7 * 24 * 3_600_000),
        max_pending: plan.max_pending.unwrap_or(1_000_000),
        max_pending_kib: plan.max_pending_kib.unwrap_or(1 << 20),
        max_attempts: plan.max_attempts,
        max_events: plan.max_events.filter(|_| plan.persistence),
        status: "active",
        token_manages: plan.token_manages,
        guests: plan.guests,
    }
}
