//! Every door keeps the face contract, and a door that does not is found out.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::wildcard_enum_match_arm, reason = "each driver has one fault and is right in all else")]

#[path = "contract/lines.rs"]
mod lines;
#[path = "contract/plain.rs"]
mod plain;
#[path = "contract/wrong.rs"]
mod wrong;

use futures_util::future::join_all;
use lines::LineMember;
use plain::Plain;
use rialto_sim::contract::{
    Carrier, Door, Failure, Matrix, Member, SCENARIOS, Scenario, Stage, doors, keep_section, table,
};
use rialto_sim::harness::Server;
use std::path::Path;
use wrong::{FAULTS, Wrong};

/// A door and what came of each scenario.
type Results = (&'static str, Vec<Result<(), Failure>>);

async fn all_scenarios(door: Door) -> Results {
    let name = door.name;
    all_on(name, Stage::start(door).await).await
}

async fn all_on(name: &'static str, mut stage: Stage) -> Results {
    let mut results = Vec::new();
    for scenario in &SCENARIOS {
        results.push(scenario.play(&mut stage).await);
    }
    (name, results)
}

/// Door, scenario, step and what was seen, of everything that did not hold.
fn faults(results: &[Results]) -> Vec<String> {
    let of_door = |(door, results): &Results| -> Vec<String> {
        let played = SCENARIOS.iter().zip(results);
        played.filter_map(|(s, result)| Some(format!("{door}, {}, {}", s.name, result.as_ref().err()?))).collect()
    };
    results.iter().flat_map(of_door).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_keeps_the_contract() {
    let results = join_all(doors().into_iter().map(all_scenarios)).await;
    assert_eq!(faults(&results), Vec::<String>::new());
    let (names, results): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/faces.md");
    keep_section(&page, "doors and scenarios", &table(&names, &results));
}

/// A protocol that has room for a text only needs nothing but its driver, here and in the matrix.
#[tokio::test(flavor = "multi_thread")]
async fn a_door_that_carries_text_only_keeps_the_contract_too() {
    let plain = || Door::new("plain", Plain::new).sending("plain");
    assert_eq!(faults(&[all_scenarios(plain()).await]), Vec::<String>::new());
    let stage = Stage::start(plain()).await;
    let http = Door::new("HTTP", |name, role| Member::new(Carrier::HttpInbox, name, role)).sending("HTTP");
    let matrix = Matrix::run(&stage.place(), &[http, plain()]).await.unwrap();
    assert_eq!(matrix.faults(), Vec::<String>::new());
    let page = matrix.page();
    assert!(page.contains("| HTTP | yes | yes |\n| plain | yes | yes |\n"), "{page}");
    assert!(page.contains("| somebody else's `source` | `source_mismatch` | has no such thing |\n"), "{page}");
}

/// The face that `docs/faces.md` shows, with its whole code.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_keeps_the_contract_too() {
    let lines = || Door::new("lines", LineMember::new).sending("lines");
    let start = async || Server::start_program(Path::new(env!("CARGO_BIN_EXE_rialto-with-lines"))).await;
    assert_eq!(faults(&[all_on("lines", Stage::on(start().await, lines()).await).await]), Vec::<String>::new());
    let stage = Stage::on(start().await, lines()).await;
    let websocket =
        Door::new("WebSocket", |name, role| Member::new(Carrier::WebSocket, name, role)).sending("WebSocket");
    let matrix = Matrix::run(&stage.place(), &[websocket, lines()]).await.unwrap();
    assert_eq!(matrix.faults(), Vec::<String>::new());
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let code = std::fs::read_to_string(crates.join("examples/line-face/src/lib.rs")).unwrap();
    keep_section(&crates.join("docs/faces.md"), "the example", &format!("```rust\n{code}```\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_wrong_driver_does_is_found_in_its_step() {
    let mut stage = Stage::start(doors().remove(0)).await;
    let mut missed = Vec::new();
    for (fault, scenario, step) in FAULTS {
        stage.turn_to(Wrong::door(fault));
        let found = Scenario::named(scenario).unwrap().play(&mut stage).await.map_err(|failure| failure.step);
        if found != Err(step) {
            missed.push(format!("{fault:?} in {scenario}: {found:?} instead of {step}"));
        }
    }
    assert_eq!(missed, Vec::<String>::new());
    let untried: Vec<&str> = SCENARIOS
        .iter()
        .map(|s| s.name)
        .filter(|name| !FAULTS.iter().any(|(_, scenario, _)| scenario == name))
        .collect();
    assert_eq!(untried, Vec::<&str>::new(), "scenarios that nobody has seen fail");
}
