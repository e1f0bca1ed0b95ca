//! What a node does per second of its CPU time, measured beside NATS and the machine's own limits, in one interleaved run.
//!
//! Every server is a process of its own that this crate starts, on a free port and a folder of its own, and ends: ours is
//! the same executable with its default configuration. The clients send what was encoded before and parse no more than
//! they must, so that the server is what is measured.
//! Not here: the command line and how a report looks on a screen.

mod against;
mod awake;
mod budget;
mod child;
mod cpu;
mod drive;
mod error;
mod goals;
mod host;
mod lab;
mod nats;
mod place;
mod plan;
mod process;
mod report;
mod rialto;
mod ring;
mod stats;
mod svg;

pub use against::{Change, Compared, Comparison};
pub use child::{Role, serve};
pub use error::BenchError;
pub use lab::{NO_NATS, Progress, Watcher};
pub use plan::{Effort, Options, Part};
pub use report::{Better, Host, Report, Row, RowId, Verdict};

/// Measures what the options ask for. Dropping this before it is done ends every server and removes every file.
pub async fn run(options: &Options, watcher: Watcher<'_>) -> Result<Report, BenchError> {
    let (mut lab, host) = ready(options, watcher)?;
    let _awake = awake::Awake::keep();
    let rows = goals::run(&mut lab).await?;
    Ok(Report::new(host, rows, options.enforce))
}

/// Compares this build with another one. Dropping this before it is done ends every server and removes every file.
pub async fn compare(
    options: &Options,
    other: &std::path::Path,
    watcher: Watcher<'_>,
) -> Result<Comparison, BenchError> {
    if !other.is_file() {
        return Err(BenchError::Missing(format!("{} is no program to compare with", other.display())));
    }
    let (mut lab, host) = ready(options, watcher)?;
    let _awake = awake::Awake::keep();
    against::run(&mut lab, other, host).await
}

/// A place to measure in, and where that is.
fn ready<'a>(options: &'a Options, watcher: Watcher<'a>) -> Result<(lab::Lab<'a>, Host), BenchError> {
    if !std::path::Path::new("/proc/self/stat").exists() {
        return Err(BenchError::Missing("CPU time is read from /proc, which this system does not have".to_owned()));
    }
    let lab = lab::Lab::new(options, watcher)?;
    place::has_room(lab.place().path(), options.scaled(8 << 30, 2 << 30, 256 << 20))?;
    let host = Host::look(lab.place().path(), &options.version, lab.peers.first());
    Ok((lab, host))
}
