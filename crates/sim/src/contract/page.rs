//! Tables made of results: the page `docs/interop.md`, and which door keeps which part of the contract.

use super::matrix::Matrix;
use super::scenarios::SCENARIOS;
use super::stage::Failure;
use std::path::Path;

/// What each pair is put through, in order.
pub(super) const PAIR: [(&str, &str); 5] = [
    ("direct", "a direct message arrives exactly once, and its nine fields are the sender's, payload bytes included"),
    ("channel", "a message to a channel arrives exactly once, and every receiver's copy is the same"),
    ("again", "what was not acked comes again on a new connection"),
    ("acked", "what was acked does not come again on a new connection"),
    ("reply", "a request is answered over the receiver's own carrier, and `in_reply_to` links the two"),
];

/// What each sending carrier is refused, and the code.
pub(super) const REFUSALS: [(&str, &str); 3] = [
    ("an observer's message", "observer_read_only"),
    ("somebody else's `source`", "source_mismatch"),
    ("a target that is not there", "unknown_target"),
];

/// The page of the matrix.
pub(super) fn interop(matrix: &Matrix) -> String {
    let (senders, receivers) = (&matrix.senders, &matrix.receivers);
    let mut out = String::from(
        "# Interop\n\nWhoever sends over the carrier of a row is heard over the carrier of a column. \
         The test [`carriers.rs`](../crates/cli/tests/carriers.rs)\nruns every pair against the real binary and \
         keeps this page: `UPDATE_EXPECT=1 cargo test -p rialto-cli --test carriers`.\n\n",
    );
    out.push_str(&head("from \\ to", receivers));
    for (s, name) in senders.iter().enumerate() {
        out.push_str(&row(name, (0..receivers.len()).map(|r| cell(matrix, s, r))));
    }
    out.push_str("\n\"Yes\" means that all of these hold for the pair:\n\n");
    PAIR.iter().for_each(|(name, what)| out.push_str(&format!("- {name}: {what}\n")));
    out.push_str("\nRefused alike on every carrier that sends, with nothing stored:\n\n");
    out.push_str(&head("", senders));
    for (what, code) in REFUSALS {
        let cell = |s: usize| match matrix.refusals.iter().find(|(i, w, _)| (*i, *w) == (s, what)) {
            Some((.., Ok(()))) => format!("`{code}`"),
            Some((.., Err(_))) => format!("not `{code}`"),
            None => "has no such thing".to_owned(),
        };
        out.push_str(&row(what, (0..senders.len()).map(cell)));
    }
    out.push_str(
        "\nA reader of the log acks by moving its cursor; SSE acks by `Last-Event-ID`; HTTP by `POST /v1/ack`; \
         gRPC Poll by `ack_ids`; the\nstreams by `network.event.ack`.\n",
    );
    out
}

fn cell(matrix: &Matrix, sender: usize, receiver: usize) -> String {
    let mine: Vec<_> = matrix.pairs.iter().filter(|(s, r, ..)| (*s, *r) == (sender, receiver)).collect();
    let failed: Vec<&str> = mine.iter().filter(|(.., result)| result.is_err()).map(|(_, _, what, _)| *what).collect();
    match (mine.len() == PAIR.len(), failed.is_empty()) {
        (true, true) => "yes".to_owned(),
        (_, false) => format!("no: {}", failed.join(", ")),
        (false, true) => "not tried".to_owned(),
    }
}

fn head(corner: &str, names: &[&str]) -> String {
    let corner = if corner.is_empty() { String::new() } else { format!("{corner} ") };
    let names: String = names.iter().map(|name| format!(" {name} |")).collect();
    format!("| {corner}|{names}\n|---|{}\n", "---|".repeat(names.matches('|').count()))
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    format!("| {name} |{}\n", cells.map(|cell| format!(" {cell} |")).collect::<String>())
}

/// Scenarios and doors: what each door keeps. `results` are by door, then by scenario.
pub fn table(doors: &[&str], results: &[Vec<Result<(), Failure>>]) -> String {
    let mut out = head("", doors);
    for (n, scenario) in SCENARIOS.iter().enumerate() {
        let cell = |results: &Vec<Result<(), Failure>>| match results.get(n) {
            Some(Ok(())) => "yes".to_owned(),
            Some(Err(failure)) => format!("no: {}", failure.step),
            None => "not tried".to_owned(),
        };
        out.push_str(&row(scenario.name, results.iter().map(cell)));
    }
    out.push('\n');
    for scenario in &SCENARIOS {
        out.push_str(&format!("- {}: {}\n", scenario.name, scenario.holds));
    }
    out
}

/// Checks that a page has this text between `<!-- name -->` and `<!-- end -->`; with `UPDATE_EXPECT` it is put there.
pub fn keep_section(page: &Path, name: &str, text: &str) {
    let old = std::fs::read_to_string(page).unwrap();
    let begin = format!("<!-- {name} -->\n");
    let (before, rest) = old.split_once(&begin).unwrap_or_else(|| panic!("{} has no {begin}", page.display()));
    let (found, after) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{name} does not end"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(page, format!("{before}{begin}{text}<!-- end -->{after}")).unwrap();
    } else {
        assert_eq!(found, text, "{} is not up to date: run this test with UPDATE_EXPECT=1", page.display());
    }
}
