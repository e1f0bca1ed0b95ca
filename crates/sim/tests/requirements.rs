//! The page of requirements is whole, and every test it names is there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Lines of the sheet's checklist.
const LINES: usize = 136;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The cells of every line of the table, trimmed.
fn rows(page: &str) -> Vec<Vec<String>> {
    let line = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    page.lines().filter(|l| l.starts_with("| OA-")).map(line).collect()
}

/// `path.rs::name` for everything in code marks.
fn tests(cell: &str) -> impl Iterator<Item = (&str, &str)> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(|test| test.split_once("::").unwrap_or_else(|| panic!("{test} names no test")))
}

/// Whether a function of this name is defined and is a test or a property.
fn has_test(text: &str, name: &str) -> bool {
    text.match_indices(&format!("fn {name}(")).any(|(at, _)| {
        let before: Vec<&str> = text.get(..at).unwrap_or_default().lines().rev().take(6).collect();
        before.iter().any(|line| line.contains("test]") || line.contains("test("))
    })
}

#[test]
fn every_requirement_has_its_line_and_every_named_test_exists() {
    let page = std::fs::read_to_string(root().join("docs/requirements.md")).unwrap();
    let rows = rows(&page);
    let ids: Vec<&str> = rows.iter().map(|r| r[0].as_str()).collect();
    let wanted: Vec<String> = (1..=LINES).map(|n| format!("OA-{n:03}")).collect();
    assert_eq!(ids, wanted, "one line per requirement, in order");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in &rows {
        let (id, status, named) = (&row[0], row[2].trim_matches('`'), &row[3]);
        *counts.entry(status).or_default() += 1;
        if !matches!(status, "held" | "partly" | "later") {
            wrong.push(format!("{id}: {status} is no status"));
        }
        if status != "later" && tests(named).next().is_none() {
            wrong.push(format!("{id}: {status}, but no test is named"));
        }
        for (file, name) in tests(named) {
            let path = root().join("crates").join(file);
            let text = files.entry(path.clone()).or_insert_with(|| std::fs::read_to_string(path).unwrap_or_default());
            if !has_test(text, name) {
                wrong.push(format!("{id}: {file} has no test {name}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    let count = |status: &str| counts.get(status).copied().unwrap_or(0);
    let told = format!("{} held, {} partly, {} later.", count("held"), count("partly"), count("later"));
    assert!(page.contains(&told), "the page should say: {told}");
}
