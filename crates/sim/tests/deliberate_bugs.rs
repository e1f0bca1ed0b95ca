//! Every deliberate bug is found by some seed, soon, and its script shrinks to a short one.
//! `cargo test -p rialto-sim --features deliberate-bugs --test deliberate_bugs -- --nocapture` prints the table of
//! `docs/reliability.md`; `RIALTO_SIM_BUG=takers` looks for those with this in their name only.

#![allow(clippy::panic, reason = "tests")]

use rialto_sim::world::bugs::{BUGS, switch};
use rialto_sim::world::shrink::shrink;
use rialto_sim::world::{Script, run};

/// Seeds a bug may take to be found.
const SEEDS: u64 = 6000;
/// Runs a shrinking may take.
const TRIES: usize = 300;

#[test]
fn every_deliberate_bug_is_found() {
    let mut missed = Vec::new();
    println!("| bug | where | seeds | check | steps |\n|---|---|---|---|---|");
    let only = std::env::var("RIALTO_SIM_BUG").unwrap_or_default();
    for (name, place) in BUGS.iter().filter(|(name, _)| name.contains(&only)) {
        switch(name);
        match (0..SEEDS).map(|seed| (seed, Script::of(seed))).find(|(_, script)| run(script).wrong.is_some()) {
            None => missed.push(*name),
            Some((seed, script)) => {
                let (short, outcome) = shrink(&script, TRIES);
                let check = outcome.wrong.map(|(_, wrong)| wrong.check).unwrap_or_default();
                println!("| {name} | {place} | {} | {check} | {} |", seed + 1, short.steps.len());
            }
        }
    }
    switch("");
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}
