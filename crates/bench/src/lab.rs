//! The servers of a run, started when they are first needed and gone with it.

use crate::error::BenchError;
use crate::nats::{Nats, Program};
use crate::place::Place;
use crate::plan::Options;
use crate::rialto::{Network, Rialto};
use std::path::PathBuf;

/// Is told what is being done.
pub type Watcher<'a> = &'a dyn Fn(Progress);

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Measurements done.
    pub done: u64,
    /// All of them, about.
    pub total: u64,
    /// The one at hand.
    pub what: String,
}

/// Everything a measurement needs.
pub(crate) struct Lab<'a> {
    // In this order they are dropped: processes before the folder they write to.
    nats: Option<(Nats, PathBuf)>,
    rialto: Option<(Rialto, PathBuf)>,
    pub(crate) options: &'a Options,
    pub(crate) peers: Vec<Program>,
    place: Place,
    watcher: Watcher<'a>,
    done: u64,
    pub(crate) total: u64,
    names: u64,
}

impl<'a> Lab<'a> {
    pub(crate) fn new(options: &'a Options, watcher: Watcher<'a>) -> Result<Lab<'a>, BenchError> {
        let place = Place::new(&options.folder)?;
        let peers = crate::nats::programs(options.path.as_deref());
        Ok(Lab { nats: None, rialto: None, options, peers, place, watcher, done: 0, total: 0, names: 0 })
    }

    /// Tells what comes next.
    pub(crate) fn step(&mut self, what: String) {
        (self.watcher)(Progress { done: self.done, total: self.total.max(self.done + 1), what });
        self.done += 1;
    }

    /// A name nobody had before in this run.
    pub(crate) fn name(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    /// A folder nobody had before in this run.
    pub(crate) fn folder(&mut self, of: &str) -> PathBuf {
        let name = self.name(of);
        self.place.path().join(name)
    }

    /// The folder of the whole run.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The peer with its defaults.
    pub(crate) async fn nats(&mut self) -> Result<&Nats, BenchError> {
        if self.nats.is_none() {
            let folder = self.folder("nats");
            let program = self.peers.first().ok_or_else(|| BenchError::Missing(NO_NATS.to_owned()))?;
            self.nats = Some((Nats::start(program, &folder, false).await?, folder));
        }
        self.nats.as_ref().map(|(nats, _)| nats).ok_or_else(|| BenchError::Missing(NO_NATS.to_owned()))
    }

    /// A node with its defaults.
    pub(crate) async fn rialto(&mut self) -> Result<&Rialto, BenchError> {
        if self.rialto.is_none() {
            let folder = self.folder("rialto");
            self.rialto = Some((Rialto::start(&self.options.program, &folder).await?.0, folder));
        }
        self.rialto.as_ref().map(|(node, _)| node).ok_or_else(|| BenchError::Missing("the node is gone".to_owned()))
    }

    /// Ends the shared servers and removes what they stored: what follows has the machine for itself, and a long run
    /// takes no more of the disk than its largest part.
    pub(crate) fn clear(&mut self) {
        let (nats, rialto) = (self.nats.take(), self.rialto.take());
        let folders = [nats.map(|(_, folder)| folder), rialto.map(|(_, folder)| folder)];
        for folder in folders.into_iter().flatten() {
            std::fs::remove_dir_all(folder).ok(); // else it goes with the whole place
        }
    }

    /// A fresh network on the shared node.
    pub(crate) async fn network(&mut self) -> Result<Network, BenchError> {
        let name = self.name("bench-");
        self.rialto().await?.network(&name).await
    }
}

/// What to do when the peer is missing.
pub const NO_NATS: &str =
    "nats-server is not on PATH: install it (Debian: `apt install nats-server`) to measure against it";
