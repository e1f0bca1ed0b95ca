//! Many seeds of the simulator, all contradictions collected: `.ci/soak simulator` runs it.
//!
//! `RIALTO_SIM_SEEDS` seeds from `RIALTO_SIM_FIRST` on, on `RIALTO_SIM_THREADS` threads (all cores unless it says
//! otherwise). Shrunk scripts are written to the folder of the first argument, `target/simulator` without one. Ends with
//! status 1 if anything contradicts the specification.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people")]

use rialto_sim::world::soak::{Report, soak};
use std::path::PathBuf;
use std::process::ExitCode;

/// The node's own allocator: worlds are made and dropped a hundred times a second.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Runs a shrinking may take.
const TRIES: usize = 600;

fn number(name: &str, otherwise: u64) -> Result<u64, String> {
    let Ok(text) = std::env::var(name) else { return Ok(otherwise) };
    text.trim().parse().map_err(|_| format!("{name} is `{text}`; it must be a number"))
}

fn main() -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let settings = (|| {
        let first = number("RIALTO_SIM_FIRST", 0)?;
        let threads = number("RIALTO_SIM_THREADS", cores)?;
        Ok::<_, String>((first, number("RIALTO_SIM_SEEDS", 20_000)?, usize::try_from(threads).unwrap_or(1)))
    })();
    let (first, count, threads) = match settings {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let folder = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("target/simulator"), PathBuf::from);
    println!("seeds {first} to {} on {threads} threads", first + count - 1);
    let findings = soak(first, count, threads, TRIES, |report| match report {
        Report::Begun(seeds) => println!("{seeds} of {count} seeds"),
        Report::Found(found) => {
            println!("{}: {}: {}", found.seed, found.check, found.what);
            match found.save(&folder) {
                Ok(path) => println!("  {}", path.display()),
                Err(error) => println!("  not written to {}: {error}", folder.display()),
            }
        }
    });
    println!("{} of {count} seeds contradict the specification\n{findings}", findings.count());
    if findings.count() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
