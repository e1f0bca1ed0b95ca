//! Two builds beside each other: interleaved passes of the new and the old one as servers, a ratio per pass, and a verdict that
//! knows how far passes of the same build differ on this machine.
//!
//! Not here: what is measured in a pass; each trial is a goal's own measurement, without its peer.

use crate::child::Child;
use crate::error::{BenchError, Doing};
use crate::goals::{carriers, disk, end_to_end, fan_out, growth, limits, nouns, publish, search, start};
use crate::lab::Lab;
use crate::plan::{Options, Part};
use crate::report::{Better, Host};
use crate::rialto::{Network, Rialto, grpc};
use crate::stats::{median, noise};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A difference up to this part is none.
const TOLERATED: f64 = 0.05;

/// What a change did to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Worse by more than 5 %, beyond the noise.
    Worse,
    /// As it was, as far as this run can tell.
    Same,
    /// Better by more than 5 %, beyond the noise.
    Better,
    /// One of the builds could not be measured.
    Failed,
}

/// One row of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// In words.
    pub name: String,
    /// Bytes of one event, where it matters.
    pub size: Option<u64>,
    /// The unit of both builds' numbers.
    pub unit: &'static str,
    /// What the new build did, the median of the passes.
    pub new: Option<f64>,
    /// What the old build did.
    pub old: Option<f64>,
    /// The median of the passes' ratios; above 1 the new build is better.
    pub ratio: Option<f64>,
    /// How far the ratio may be off, from the spread of the passes.
    pub noise: Option<f64>,
    /// The judgement.
    pub change: Change,
    /// Every pass's ratio.
    pub spread: Vec<f64>,
    /// What else is to be known.
    pub note: Option<String>,
}

/// A whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Of this form.
    pub version: u32,
    /// Where.
    pub host: Host,
    /// The other build.
    pub against: PathBuf,
    /// Every row.
    pub rows: Vec<Compared>,
    /// No row is worse, and every one was measured.
    pub ok: bool,
}

impl Compared {
    /// Judges pairs of what the new and the old build did, one per pass.
    fn of(line: &Line, pairs: &[(f64, f64)]) -> Compared {
        let ratios: Vec<f64> = pairs
            .iter()
            .map(|(new, old)| match line.better {
                Better::Higher => new / old.max(f64::MIN_POSITIVE),
                Better::Lower => old / new.max(f64::MIN_POSITIVE),
            })
            .collect();
        let (ratio, noise) = (median(&ratios), noise(&ratios));
        let change = match (ratio, noise) {
            (Some(ratio), Some(noise)) if ratio + noise < 1.0 - TOLERATED => Change::Worse,
            (Some(ratio), Some(noise)) if ratio - noise > 1.0 + TOLERATED => Change::Better,
            (Some(_), Some(_)) => Change::Same,
            _ => Change::Failed,
        };
        Compared {
            new: median(&pairs.iter().map(|p| p.0).collect::<Vec<_>>()),
            old: median(&pairs.iter().map(|p| p.1).collect::<Vec<_>>()),
            ratio,
            noise,
            change,
            spread: ratios,
            ..Compared::failed(line, None)
        }
    }

    fn failed(line: &Line, why: Option<String>) -> Compared {
        Compared {
            name: line.name.to_owned(),
            size: line.size.map(|size| size as u64),
            unit: line.unit,
            new: None,
            old: None,
            ratio: None,
            noise: None,
            change: Change::Failed,
            spread: Vec::new(),
            note: why,
        }
    }
}

/// A number that a trial gives.
#[derive(Debug, Clone, Copy)]
struct Line {
    name: &'static str,
    size: Option<usize>,
    unit: &'static str,
    better: Better,
}

impl Line {
    const fn more(name: &'static str, size: Option<usize>, unit: &'static str) -> Line {
        Line { name, size, unit, better: Better::Higher }
    }

    const fn less(name: &'static str, size: Option<usize>, unit: &'static str) -> Line {
        Line { name, size, unit, better: Better::Lower }
    }
}

/// What both builds are asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// Of a node that runs all the time.
    Node(Asked),
    /// Of processes that each pass starts, or that have no port.
    Process(Started),
}

/// What a running node is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Publish { size: usize, batches: bool },
    EndToEnd { size: usize },
    AckTime,
    FanOut { window: u64 },
    Posts,
    Ingest,
    Direct,
    Seated,
    Calls,
    Content,
    Unread,
    Search,
}

/// What is measured of a process from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Started {
    Core,
    Memory,
    Ready,
    Disk,
    Cold,
}

const EVENTS: &str = "events/cpu-s";

/// Everything that is compared, in the order of the goals.
const TRIALS: [(Part, Trial); 23] = [
    (Part::Goal(1), Trial::Node(Asked::Publish { size: 256, batches: true })),
    (Part::Goal(1), Trial::Node(Asked::Publish { size: 1024, batches: true })),
    (Part::Goal(1), Trial::Node(Asked::Publish { size: 16_384, batches: true })),
    (Part::Goal(1), Trial::Node(Asked::Publish { size: 256, batches: false })),
    (Part::Goal(3), Trial::Node(Asked::EndToEnd { size: 256 })),
    (Part::Goal(3), Trial::Node(Asked::EndToEnd { size: 1024 })),
    (Part::Goal(3), Trial::Node(Asked::EndToEnd { size: 16_384 })),
    (Part::Goal(4), Trial::Node(Asked::AckTime)),
    (Part::Goal(5), Trial::Node(Asked::FanOut { window: fan_out::BATCHES })),
    (Part::Goal(5), Trial::Node(Asked::FanOut { window: 1 })),
    (Part::Goal(6), Trial::Process(Started::Core)),
    (Part::Goal(7), Trial::Node(Asked::Posts)),
    (Part::Goal(8), Trial::Node(Asked::Ingest)),
    (Part::Goal(9), Trial::Process(Started::Memory)),
    (Part::Goal(10), Trial::Process(Started::Ready)),
    (Part::Goal(11), Trial::Process(Started::Disk)),
    (Part::Goal(12), Trial::Process(Started::Cold)),
    (Part::Goal(13), Trial::Node(Asked::Direct)),
    (Part::Goal(13), Trial::Node(Asked::Seated)),
    (Part::Goal(14), Trial::Node(Asked::Calls)),
    (Part::Goal(15), Trial::Node(Asked::Content)),
    (Part::Goal(16), Trial::Node(Asked::Unread)),
    (Part::Search, Trial::Node(Asked::Search)),
];

impl Trial {
    fn lines(self) -> Vec<Line> {
        match self {
            Trial::Node(asked) => asked.lines(),
            Trial::Process(started) => started.lines(),
        }
    }

    fn passes(self, options: &Options) -> usize {
        match self {
            // The same bytes every time: once is enough.
            Trial::Process(Started::Disk) => 1,
            // A node with its agents takes seconds to come to rest.
            Trial::Process(Started::Memory) => options.passes().min(3),
            Trial::Process(Started::Core | Started::Ready | Started::Cold) | Trial::Node(_) => options.passes(),
        }
    }
}

impl Asked {
    fn lines(self) -> Vec<Line> {
        match self {
            Asked::Publish { size, batches: true } => vec![Line::more("durable publish", Some(size), EVENTS)],
            Asked::Publish { size, batches: false } => {
                vec![Line::more("durable publish, an ack per event", Some(size), EVENTS)]
            }
            Asked::EndToEnd { size } => vec![Line::more("durable end to end", Some(size), EVENTS)],
            Asked::AckTime => vec![Line::less("publish-ack p50, one in flight", Some(256), "µs")],
            Asked::FanOut { window: 1 } => {
                vec![Line::more("fan-out 1 to 100, one event in flight", Some(256), "deliveries/cpu-s")]
            }
            Asked::FanOut { .. } => vec![Line::more("fan-out 1 to 100, batches", Some(256), "deliveries/cpu-s")],
            Asked::Posts => vec![Line::more("HTTP single-event POST, 64 connections", Some(256), "requests/cpu-s")],
            Asked::Ingest => vec![Line::more("gRPC stream ingest", Some(256), EVENTS)],
            Asked::Direct => vec![Line::less("cost of a direct event in a large network", Some(256), "cpu µs")],
            Asked::Seated => vec![Line::less("cost of a channel event that seats many members", Some(256), "cpu µs")],
            Asked::Calls => vec![Line::more("round trips of a tool", None, "calls/cpu-s")],
            Asked::Content => {
                vec![Line::more("content: upload", None, "MB/s"), Line::more("content: download", None, "MB/s")]
            }
            Asked::Unread => {
                vec![Line::less("cost of a channel event with 1,000 members who never read", Some(256), "cpu µs")]
            }
            Asked::Search => vec![Line::more("search: events with text, index caught up", Some(256), EVENTS)],
        }
    }

    /// Makes the network what it has to be before the first pass.
    async fn prepare(self, node: &Rialto, network: &Network, options: &Options) -> Result<(), BenchError> {
        match self {
            Asked::Direct | Asked::Seated => growth::crowded(node, network, options.scaled(10_000, 3_000, 20)).await,
            Asked::Unread => {
                growth::crowded(node, network, options.scaled(1_000, 1_000, 10)).await?;
                start::publish_many(node, network, options.scaled(1_000_000, 200_000, 1_000)).await
            }
            Asked::Publish { .. }
            | Asked::EndToEnd { .. }
            | Asked::AckTime
            | Asked::FanOut { .. }
            | Asked::Posts
            | Asked::Ingest
            | Asked::Calls
            | Asked::Content
            | Asked::Search => Ok(()),
        }
    }

    /// One pass; `name` is nobody's yet.
    async fn pass(
        self,
        (node, network): (&Rialto, &Network),
        (name, pass): (&str, usize),
        options: &Options,
    ) -> Result<Vec<f64>, BenchError> {
        let length = options.length();
        Ok(match self {
            Asked::Publish { size, batches } => {
                let sample = publish::rialto(node, network, name, "channel/general", size, batches, length).await?;
                vec![sample.per_cpu_second()]
            }
            Asked::EndToEnd { size } => {
                vec![end_to_end::rialto(node, network, name, size, length).await?.per_cpu_second()]
            }
            Asked::AckTime => {
                let time = Duration::from_millis(options.scaled(1000, 400, 20));
                vec![limits::publish_ack(node, network, name, 256, time).await?]
            }
            Asked::FanOut { window } => {
                let fresh = node.network(name).await?;
                vec![fan_out::rialto(node, &fresh, 256, window, length).await?.per_cpu_second()]
            }
            Asked::Posts => vec![carriers::events_posted(node, network, length).await?.per_cpu_second()],
            Asked::Ingest => vec![grpc::ingest(node, network, name, 256, length).await?.per_cpu_second()],
            // A fresh recipient each time: mail waits for it, and there is a limit to that.
            Asked::Direct => {
                vec![growth::cost(node, network, &format!("agent:m{pass:05}"), growth::short(length)).await?]
            }
            Asked::Seated | Asked::Unread => {
                vec![growth::cost(node, network, "channel/general", growth::short(length)).await?]
            }
            Asked::Calls => {
                let fresh = node.network(name).await?;
                vec![nouns::calls(node, &fresh, length).await?.0.per_cpu_second()]
            }
            Asked::Content => {
                let size = usize::try_from(options.scaled(256 << 20, 64 << 20, 1 << 20)).unwrap_or(1 << 20);
                let fresh = node.network(name).await?;
                let (up, down) = nouns::carried(node, &fresh, &nouns::fresh_bytes(size, pass)).await?;
                vec![up, down]
            }
            Asked::Search => {
                let fresh = node.network(name).await?;
                vec![search::indexed(node, &fresh, options.scaled(200_000, 40_000, 500)).await?]
            }
        })
    }
}

impl Started {
    fn lines(self) -> Vec<Line> {
        match self {
            Started::Core => vec![Line::more("end to end in the core, without a carrier", Some(256), EVENTS)],
            Started::Memory => vec![
                Line::less("memory of an idle node", None, "MiB"),
                Line::less("memory per idle WebSocket agent", None, "KiB"),
            ],
            Started::Ready => vec![Line::less("ready after kill -9 with a long log", None, "ms")],
            Started::Disk => vec![Line::less("disk bytes of a channel event", Some(256), "bytes/event")],
            Started::Cold => vec![Line::less("cold start to first answered request", None, "ms")],
        }
    }
}

/// What runs of a build.
enum Running {
    Node(Rialto, Network),
    Core(Child),
    /// Passes start it.
    Nothing,
}

/// One of the two builds, with what runs of it.
struct Side {
    program: PathBuf,
    running: Running,
    folder: PathBuf,
}

impl Side {
    /// Starts what a trial needs.
    async fn prepare(program: &Path, trial: Trial, lab: &mut Lab<'_>) -> Result<Side, BenchError> {
        let folder = lab.folder("side");
        let running = match trial {
            Trial::Node(asked) => {
                let (node, _) = Rialto::start(program, &folder).await?;
                let network = node.network("compared").await?;
                asked.prepare(&node, &network, lab.options).await?;
                Running::Node(node, network)
            }
            Trial::Process(Started::Core) => Running::Core(Child::core(program, &folder)?),
            Trial::Process(Started::Ready) => {
                let (node, _) = Rialto::start(program, &folder).await?;
                let network = node.network("long").await?;
                start::publish_many(&node, &network, lab.options.scaled(1_000_000, 300_000, 2_000)).await?;
                node.kill();
                Running::Nothing
            }
            Trial::Process(Started::Memory | Started::Disk | Started::Cold) => Running::Nothing,
        };
        Ok(Side { program: program.to_owned(), running, folder })
    }

    /// One pass; as many numbers as the trial has lines.
    async fn pass(&mut self, trial: Trial, pass: usize, lab: &mut Lab<'_>) -> Result<Vec<f64>, BenchError> {
        let millis = |took: Duration| vec![took.as_secs_f64() * 1e3];
        match (trial, &mut self.running) {
            (Trial::Node(asked), Running::Node(node, network)) => {
                let name = lab.name("by");
                asked.pass((node, network), (&name, pass), lab.options).await
            }
            (Trial::Process(Started::Core), Running::Core(child)) => {
                Ok(vec![carriers::rounds(child, lab.options.length()).await?.per_cpu_second()])
            }
            (Trial::Process(Started::Memory), _) => {
                let agents = lab.options.scaled(2_000, 500, 20).min(start::connections());
                let (idle, each) = start::memory_of(&self.program, &lab.folder("idle"), agents).await?;
                Ok(vec![idle, each])
            }
            (Trial::Process(Started::Ready), _) => {
                let (node, took) = Rialto::start(&self.program, &self.folder).await?;
                node.kill();
                Ok(millis(took))
            }
            (Trial::Process(Started::Cold), _) => {
                let (node, took) = Rialto::start(&self.program, &lab.folder("cold")).await?;
                node.stop().await?;
                Ok(millis(took))
            }
            (Trial::Process(Started::Disk), _) => {
                let many = lab.options.scaled(100_000, 30_000, 300);
                Ok(vec![disk::per_event(&self.program, &lab.folder("disk"), many).await?])
            }
            (Trial::Node(_) | Trial::Process(Started::Core), _) => {
                Err(BenchError::answer("nothing runs that could be measured"))
            }
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // Processes before the folder they write to.
        self.running = Running::Nothing;
        std::fs::remove_dir_all(&self.folder).ok(); // else it goes with the whole place
    }
}

/// Compares this build with another one.
pub(crate) async fn run(lab: &mut Lab<'_>, other: &Path, host: Host) -> Result<Comparison, BenchError> {
    let options = lab.options;
    // Fresh copies of both: how much of a program is resident depends on how its file came into the page cache.
    let programs = [copied(lab, &options.program)?, copied(lab, other)?];
    let trials: Vec<Trial> =
        TRIALS.into_iter().filter(|(part, _)| options.wants(*part)).map(|(_, trial)| trial).collect();
    lab.total = trials.iter().map(|trial| trial.passes(options) as u64 + 1).sum();
    let mut rows = Vec::new();
    for trial in trials {
        let lines = trial.lines();
        match compare(lab, trial, &programs).await {
            Ok(passes) => rows.extend(lines.iter().zip(passes).map(|(line, pairs)| Compared::of(line, &pairs))),
            // The rest of a long run is not lost.
            Err(error) => rows.extend(lines.iter().map(|line| Compared::failed(line, Some(error.to_string())))),
        }
    }
    let ok = rows.iter().all(|row| matches!(row.change, Change::Same | Change::Better));
    Ok(Comparison { version: 1, host, against: other.to_owned(), rows, ok })
}

fn copied(lab: &mut Lab<'_>, program: &Path) -> Result<PathBuf, BenchError> {
    let copy = lab.folder("program");
    std::fs::copy(program, &copy).doing(format!("copy {}", program.display()))?;
    Ok(copy)
}

/// Passes of one trial, for each of its lines what the new and the old build did.
async fn compare(
    lab: &mut Lab<'_>,
    trial: Trial,
    [new, old]: &[PathBuf; 2],
) -> Result<Vec<Vec<(f64, f64)>>, BenchError> {
    let lines = trial.lines();
    let name = lines.first().map_or("", |line| line.name);
    let size = lines.first().and_then(|line| line.size).map(|size| format!(", {size} B")).unwrap_or_default();
    lab.step(format!("{name}{size}: both builds start"));
    let mut new = Side::prepare(new, trial, lab).await?;
    let mut old = Side::prepare(old, trial, lab).await?;
    let mut pairs = vec![Vec::new(); lines.len()];
    for pass in 1..=trial.passes(lab.options) {
        lab.step(format!("{name}{size}, pass {pass}"));
        // Whoever comes second finds the machine warmer: they take turns.
        let (news, olds) = if pass % 2 == 1 {
            let news = new.pass(trial, pass, lab).await?;
            (news, old.pass(trial, pass, lab).await?)
        } else {
            let olds = old.pass(trial, pass, lab).await?;
            (new.pass(trial, pass, lab).await?, olds)
        };
        for (line, pair) in pairs.iter_mut().zip(news.into_iter().zip(olds)) {
            line.push(pair);
        }
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(line: &Line, ratios: &[f64]) -> Change {
        Compared::of(line, &ratios.iter().map(|ratio| (ratio * 10.0, 10.0)).collect::<Vec<_>>()).change
    }

    #[test]
    fn a_row_is_judged_beyond_its_noise() {
        let rate = Line::more("x", None, EVENTS);
        assert_eq!(judged(&rate, &[0.80, 0.81, 0.79, 0.80, 0.80]), Change::Worse);
        assert_eq!(judged(&rate, &[0.96, 0.97, 0.96, 0.97, 0.96]), Change::Same, "within what is tolerated");
        assert_eq!(judged(&rate, &[0.5, 1.4, 0.9, 0.7, 1.1]), Change::Same, "the passes say nothing");
        assert_eq!(judged(&rate, &[1.8, 1.9, 1.8, 1.85, 1.8]), Change::Better);
        assert_eq!(judged(&rate, &[]), Change::Failed);
        let cost = Line::less("x", None, "µs");
        assert_eq!(judged(&cost, &[1.3, 1.31, 1.29]), Change::Worse, "more of a cost");
        assert_eq!(Compared::of(&cost, &[(20.0, 10.0)]).ratio, Some(0.5));
    }

    #[test]
    fn every_trial_has_a_line_and_a_name_of_its_own() {
        let lines: Vec<Line> = TRIALS.into_iter().flat_map(|(_, trial)| trial.lines()).collect();
        let mut names: Vec<_> = lines.iter().map(|line| (line.name, line.size)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), lines.len());
    }
}
