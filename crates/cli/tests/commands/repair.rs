//! `repair`: one damaged network beside a whole one, with the real program.

use super::verify::{files, flip, holds};
use crate::support::http::Http;
use crate::support::{Node, Ran};
use std::path::PathBuf;

fn repair(node: &Node, more: &[&str]) -> Ran {
    let mut command = node.command(&["repair"]);
    command.arg("--data").arg(node.data()).args(more);
    Ran::of(command, "")
}

/// A stopped node with two networks, whose records no snapshot covers; the segment that holds them.
fn two_networks() -> (Node, PathBuf) {
    let mut node = Node::start();
    node.line("network create other").ok();
    for n in 1..=4 {
        node.words(&["send", "agent:broadcast", &format!("here-number-{n}"), "--as", "alice"]).ok();
        let text = format!("there-number-{n}");
        node.words(&["send", "agent:broadcast", &text, "--as", "bob", "--network", "other"]).ok();
    }
    node.kill();
    let segment = files(&node.data().join("log")).into_iter().find(|file| holds(file, "here-number-1")).unwrap();
    (node, segment)
}

async fn ready(node: &Node) -> serde_json::Value {
    Http::new(node.url()).get("/ready", "").await.json()
}

#[tokio::test]
async fn the_other_network_runs_and_a_repair_goes_on() {
    let (mut node, segment) = two_networks();
    flip(&segment, "there-number-2");
    node.restart();
    // Named by the doctor and by /ready, without a path where everybody looks.
    let doctor = node.line("doctor --json").json();
    let checks = doctor["checks"].as_array().unwrap();
    let named = |check: &&serde_json::Value| check["detail"].as_str().is_some_and(|d| d.contains("rialto repair"));
    let check = checks.iter().find(named).unwrap_or_else(|| panic!("{doctor}"));
    assert_eq!(check["ok"], false);
    assert!(check["detail"].as_str().unwrap().contains(".seg at offset"), "{check}");
    let told = ready(&node).await;
    assert_eq!((&told["ready"], &told["damaged"]["networks"][0]["read_only"]), (&true.into(), &true.into()), "{told}");
    assert!(!told.to_string().contains(".seg"), "{told}");
    // This one is whole, that one can be read and not written.
    node.words(&["send", "agent:broadcast", "here-number-5", "--as", "alice"]).ok();
    let refused = node.words(&["send", "agent:broadcast", "no", "--as", "bob", "--network", "other"]);
    assert!(refused.code != 0 && refused.err.contains("rialto repair"), "{refused:?}");
    let history = node.line("history --network other --json").ok().out;
    assert!(history.contains("there-number-1") && !history.contains("there-number-3"), "{history}");
    let conflict = repair(&node, &[]);
    assert_eq!(conflict.code, 5, "{conflict:?}");
    node.stop();
    let told = repair(&node, &[]).ok();
    assert!(told.out.contains("other") && told.err.contains("nothing was changed"), "{told:?}");
    let done = repair(&node, &["--apply", "--json"]).ok().json();
    assert_eq!(done["networks"][0]["name"], "other", "{done}");
    let kept = node.data().join("damaged/lost-events-1.jsonl");
    assert!(holds(&kept, "there-number-3") && holds(&kept, "there-number-4"));
    assert_eq!(repair(&node, &["--json"]).ok().json()["ok"], true);
    node.restart();
    let told = ready(&node).await;
    assert_eq!((&told["ready"], told.get("damaged")), (&true.into(), None), "{told}");
    node.words(&["send", "agent:broadcast", "there-number-6", "--as", "bob", "--network", "other"]).ok();
    let history = node.line("history --network other --json").ok().out;
    assert!(history.contains("there-number-1") && history.contains("there-number-6"), "{history}");
    assert!(!history.contains("there-number-3"), "{history}");
    assert!(node.line("history --json").ok().out.contains("here-number-5"));
    assert_eq!(node.line("verify --json").ok().json()["ok"], true);
}

#[test]
fn nothing_to_repair_is_said() {
    let mut node = Node::start();
    node.stop();
    assert!(repair(&node, &["--apply"]).ok().err.contains("nothing is damaged"));
    assert!(!node.data().join("damaged").exists());
}
