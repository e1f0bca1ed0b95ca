//! Many seeds in a row: every contradiction is collected, none stops the run.

use super::saved::SavedScript;
use super::shrink::shrink;
use super::{Script, run};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many contradictions of one check are made short; shrinking takes as long as hundreds of seeds.
const SHRUNK_PER_CHECK: usize = 3;
/// Seeds between two reports of how far it is.
const SEEDS_PER_REPORT: u64 = 10_000;

/// The contradictions of one check.
#[derive(Debug, Default)]
pub struct Group {
    /// The seeds that contradict, with what was wrong.
    pub seeds: BTreeMap<u64, String>,
    /// Scripts made short, of the seeds that were met first.
    pub shrunk: Vec<SavedScript>,
}

/// Everything that a range of seeds contradicted, by check.
#[derive(Debug, Default)]
pub struct Findings {
    /// The check and its contradictions.
    pub groups: BTreeMap<String, Group>,
}

impl Findings {
    /// How many seeds contradicted the specification.
    pub fn count(&self) -> usize {
        self.groups.values().map(|group| group.seeds.len()).sum()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (check, group) in &self.groups {
            writeln!(f, "{check}: {}", group.seeds.len())?;
            for (seed, what) in &group.seeds {
                writeln!(f, "  {seed}: {what}")?;
            }
        }
        Ok(())
    }
}

/// What a soak reports while it runs.
#[derive(Debug)]
pub enum Report<'a> {
    /// So many seeds have begun.
    Begun(u64),
    /// A contradiction: the script, made short if it is one of the first of its check.
    Found(&'a SavedScript),
}

/// Runs `count` seeds from `first` on as many threads as given. `tell` hears of each contradiction as it is met, and now
/// and then of how far it is.
pub fn soak(first: u64, count: u64, threads: usize, tries: usize, tell: impl Fn(Report<'_>) + Sync) -> Findings {
    let next = AtomicU64::new(first);
    let findings = Mutex::new(Findings::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            if (seed - first).is_multiple_of(SEEDS_PER_REPORT) {
                tell(Report::Begun(seed - first));
            }
            let Some(mut found) = contradiction(seed) else { continue };
            let many = {
                let Ok(mut findings) = findings.lock() else { return };
                let group = findings.groups.entry(found.check.clone()).or_default();
                group.seeds.insert(seed, found.what.clone());
                group.seeds.len() > SHRUNK_PER_CHECK
            };
            if !many {
                found = shrunk(found, tries);
                if let Ok(mut findings) = findings.lock() {
                    findings.groups.entry(found.check.clone()).or_default().shrunk.push(found.clone());
                }
            }
            tell(Report::Found(&found));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    findings.into_inner().unwrap_or_default()
}

/// Runs one seed. Returns what contradicts the specification, a panic included.
fn contradiction(seed: u64) -> Option<SavedScript> {
    let script = Script::of(seed);
    let (check, what) = match std::panic::catch_unwind(|| run(&script)) {
        Ok(run) => run.wrong.map(|(_, wrong)| (wrong.check, wrong.what))?,
        Err(_) => ("no panic", "the world panicked".to_owned()),
    };
    Some(SavedScript { check: check.to_owned(), seed, what, script })
}

/// The same contradiction with a script made short; a panic stays as long as it is.
fn shrunk(found: SavedScript, tries: usize) -> SavedScript {
    let Ok((script, outcome)) = std::panic::catch_unwind(|| shrink(&found.script, tries)) else { return found };
    let what = outcome.wrong.map_or(found.what, |(_, wrong)| wrong.what);
    SavedScript { what, script, ..found }
}
