//! The rules of the house, checked: which room may know which, what the pure rooms may touch, and a few habits.
//! A new arrow or a new dependency of a pure room is a decision: write it down in `docs/adr/`, then change this test.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "the helpers of a test fail as the test does"
)]

#[path = "architecture/source.rs"]
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use source::{Source, has_word};

const SIM: &str = "rialto-sim";
/// Stands for every crate under `crates/faces/` and `examples/`, as a source and as a target of arrows.
const FACES: &str = "faces";

/// Which room may depend on which. The binary may know every room, and so may `sim`; nobody may know `sim`.
const ARROWS: [(&str, &[&str]); 12] = [
    ("rialto-model", &[]),
    ("rialto-engine", &["rialto-model"]),
    ("rialto-identity", &["rialto-model"]),
    ("rialto-store", &["rialto-model"]),
    ("rialto-node", &["rialto-engine", "rialto-identity", "rialto-store", "rialto-model"]),
    ("rialto-carrier", &["rialto-node", "rialto-model"]),
    (FACES, &["rialto-carrier", "rialto-node", "rialto-model"]),
    ("rialto-serve", &["rialto-carrier", "rialto-node", "rialto-model"]),
    ("rialto-mesh", &["rialto-node", "rialto-model"]),
    ("rialto-outbound", &["rialto-model"]),
    ("rialto-client", &["rialto-outbound", "rialto-model"]),
    ("rialto-bench", &["rialto-node", "rialto-model"]),
];
const KNOWS_ALL: [&str; 2] = ["rialto-cli", SIM];

/// Everything the pure rooms may depend on by name.
const PURE: [(&str, &[&str]); 2] = [
    (
        "rialto-model",
        &["itoa", "schemars", "serde", "serde_json", "serde_path_to_error", "thiserror", "unicode-normalization"],
    ),
    (
        "rialto-engine",
        &[
            "rialto-model",
            "base64",
            "foldhash",
            "indexmap",
            "roaring",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "xxhash-rust",
        ],
    ),
];
/// What the pure rooms may not depend on through anybody else either.
const IMPURE_CRATES: [&str; 10] =
    ["async-std", "chrono", "fastrand", "getrandom", "jiff", "mio", "rand", "smol", "time", "tokio"];
/// What the sources of the pure rooms may not mention outside their tests.
const IMPURE_WORDS: [&str; 14] = [
    "Instant",
    "SystemTime",
    "async",
    "chrono",
    "getrandom",
    "rand",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::{env",
    "thread_local",
    "tokio",
];

const LINES_MAX: usize = 900;
const CODE: [&str; 10] = ["css", "html", "js", "md", "proto", "py", "rs", "sh", "sql", "ts"];

#[test]
fn arrows_point_inward_only() {
    let rooms = rooms();
    let mut wrong = Vec::new();
    for (name, room) in &rooms {
        let allowed = ARROWS.iter().find(|(from, _)| *from == room.kind).map(|(_, to)| *to);
        if allowed.is_none() && !KNOWS_ALL.contains(&room.kind.as_str()) {
            wrong.push(format!("{name} is a room without arrows"));
        }
        for target in &room.dependencies {
            let Some(known) = rooms.get(target) else { continue };
            let fine = match allowed {
                Some(allowed) => allowed.contains(&known.kind.as_str()),
                None => true,
            };
            if !fine || (target == SIM && name != SIM) {
                wrong.push(format!("{name} -> {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that nobody decided on:\n{}", wrong.join("\n"));
}

#[test]
fn pure_rooms_depend_on_little() {
    let rooms = rooms();
    for (name, allowed) in PURE {
        let surplus: Vec<_> =
            rooms[name].dependencies.iter().filter(|dependency| !allowed.contains(&dependency.as_str())).collect();
        assert!(surplus.is_empty(), "{name} depends on {surplus:?}");
        let below = everything_below(name);
        let impure: Vec<_> = IMPURE_CRATES.iter().filter(|bad| below.contains(**bad)).collect();
        assert!(impure.is_empty(), "{name} depends, through others, on {impure:?}");
    }
}

#[test]
fn pure_rooms_touch_no_clock_chance_or_world() {
    let mut wrong = Vec::new();
    for room in ["crates/model", "crates/engine"] {
        for source in Source::all_in(&root().join(room).join("src")) {
            for (number, line) in source.production() {
                for word in IMPURE_WORDS.iter().filter(|word| has_word(line, word)) {
                    wrong.push(format!("{}:{number}: {word}", source.path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "pure rooms mention what they must not:\n{}", wrong.join("\n"));
}

/// The simulator's oracle is a second opinion: it must not ask the first.
#[test]
fn the_oracle_knows_the_specification_only() {
    let mut wrong = Vec::new();
    let sources = Source::all_in(&root().join("crates/sim/src/world/oracle"));
    assert!(!sources.is_empty(), "where is the oracle?");
    for source in sources {
        for (number, line) in source.production() {
            for room in ["rialto_engine", "rialto_node", "rialto_store"].iter().filter(|room| has_word(line, room)) {
                wrong.push(format!("{}:{number}: {room}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "the oracle looks into what it judges:\n{}", wrong.join("\n"));
}

/// The names of all limits.
fn limits() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("crates/model/src/limits.rs")).unwrap();
    let names = text.lines().filter_map(|line| line.trim_start().strip_prefix("pub const "));
    let names: BTreeSet<String> = names.filter_map(|rest| rest.split(':').next()).map(str::to_owned).collect();
    assert!(!names.is_empty(), "no limit found: has their notation changed?");
    names
}

#[test]
fn the_page_of_limits_lists_every_limit_and_no_other() {
    let page = std::fs::read_to_string(root().join("docs/limits.md")).unwrap();
    let is_name = |text: &str| text.len() > 5 && text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let listed: BTreeSet<String> = page.split('`').filter(|text| is_name(text)).map(str::to_owned).collect();
    assert_eq!(listed, limits());
}

#[test]
fn every_limit_is_named_in_a_test() {
    let mut untested = limits();
    for source in Source::all_in(&root().join("crates")) {
        for (_, line) in source.tests() {
            untested.retain(|limit| !has_word(line, limit));
        }
    }
    let list: Vec<_> = untested.into_iter().collect();
    assert!(list.is_empty(), "limits that no test names (fill each one and see its error):\n{}", list.join("\n"));
}

#[test]
fn files_stay_readable() {
    let mut long = Vec::new();
    for path in files_in(&root().join("crates")) {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if CODE.contains(&extension) {
            let lines = std::fs::read_to_string(&path).unwrap().lines().count();
            if lines > LINES_MAX {
                long.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "more than {LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn nothing_is_left_for_later() {
    // Put together here, so that this file does not find itself.
    let anywhere = [concat!("#[", "ignore"), concat!("ignore", " = ")];
    let in_source = [concat!("todo", "!("), concat!("unimplemented", "!(")];
    let mut wrong = Vec::new();
    for source in Source::all_in(&root().join("crates")) {
        for (number, line) in source.tests().chain(source.production()) {
            let later = !source.is_test() && in_source.iter().any(|word| line.contains(word));
            let skipped = line.contains(anywhere[0]) || (line.contains("cfg_attr") && line.contains(anywhere[1]));
            if later || skipped {
                wrong.push(format!("{}:{number}: {}", source.path.display(), line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "tests that do not run, or code that is not there:\n{}", wrong.join("\n"));
}

/// A crate of the workspace.
struct Room {
    /// Its row in [`ARROWS`]: its name, or [`FACES`].
    kind: String,
    /// What it is built with, by name. What only its tests use does not count.
    dependencies: BTreeSet<String>,
}

fn rooms() -> BTreeMap<String, Room> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let rooms = packages.iter().map(|package| {
        let name = package["name"].as_str().unwrap().to_owned();
        let manifest = package["manifest_path"].as_str().unwrap();
        let is_face = ["/crates/faces/", "/examples/"].iter().any(|folder| manifest.contains(folder));
        let kind = if is_face { FACES } else { &name };
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let dependencies = dependencies.filter(|one| one["kind"] != "dev");
        let dependencies = dependencies.map(|one| one["name"].as_str().unwrap().to_owned()).collect();
        (name.clone(), Room { kind: kind.to_owned(), dependencies })
    });
    rooms.collect()
}

/// The names of all crates that `name` is built with, near and far.
fn everything_below(name: &str) -> BTreeSet<String> {
    let tree = cargo(&["tree", "-p", name, "--edges", "normal,no-proc-macro", "--prefix", "none"]);
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Runs cargo, without the network if that is enough.
fn cargo(arguments: &[&str]) -> String {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut said = String::new();
    for extra in [&["--offline"][..], &[]] {
        let output = Command::new(&program).current_dir(root()).args(arguments).args(extra).output().unwrap();
        if output.status.success() {
            return String::from_utf8(output.stdout).unwrap();
        }
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    panic!("cargo {}: {said}", arguments.join(" "));
}

/// Asked for when the test runs: a shared build folder may hold this test as another clone built it.
fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&here).join("../..").canonicalize().unwrap()
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.file_name().and_then(|name| name.to_str()) {
                Some("target" | "node_modules") => {}
                _ if path.is_dir() => folders.push(path),
                _ => files.push(path),
            }
        }
    }
    files.sort();
    files
}
