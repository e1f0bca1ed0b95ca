//! `verify`: on a running node, on a stopped directory, and with one bit turned.

use crate::support::{Node, Ran};
use std::path::PathBuf;

/// A stopped node with something in its log; the newest segment that holds it.
pub fn stopped(texts: &[&str]) -> (Node, PathBuf) {
    let mut node = Node::start();
    for text in texts {
        node.words(&["send", "channel/general", text, "--as", "alice"]).ok();
    }
    node.stop();
    let segment = files(&node.data().join("log")).into_iter().find(|file| holds(file, texts[0])).unwrap();
    (node, segment)
}

/// Every file below a directory.
pub fn files(dir: &std::path::Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { out.extend(files(&path)) } else { out.push(path) }
    }
    out.sort();
    out
}

/// Whether a file holds these bytes.
pub fn holds(file: &std::path::Path, text: &str) -> bool {
    std::fs::read(file).unwrap().windows(text.len()).any(|w| w == text.as_bytes())
}

/// Turns one bit inside a text of a file.
pub fn flip(file: &std::path::Path, text: &str) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(text.len()).position(|w| w == text.as_bytes()).unwrap();
    bytes[at + 3] ^= 4;
    std::fs::write(file, bytes).unwrap();
}

fn of_directory(node: &Node, more: &[&str]) -> Ran {
    let mut command = node.command(&["verify"]);
    command.arg("--data").arg(node.data()).args(more);
    Ran::of(command, "")
}

#[test]
fn a_running_node_and_its_directory_are_fine() {
    let mut node = Node::start();
    node.line("inbox --as bob").ok();
    for n in 0..10 {
        node.words(&["send", "bob", &format!("text {n}"), "--as", "alice"]).ok();
    }
    let live = node.line("verify --json").ok().json();
    assert_eq!((&live["ok"], &live["networks"][0]["compared_with_live"]), (&true.into(), &true.into()), "{live}");
    assert!(node.line("verify").ok().out.contains("ok         yes"));
    node.stop();
    let still = of_directory(&node, &["--json"]).ok().json();
    assert_eq!(
        (&still["ok"], &still["networks"][0]["state"]),
        (&true.into(), &live["networks"][0]["state"]),
        "{still}"
    );
    node.restart();
    assert_eq!(node.line("verify --json").ok().json()["networks"][0]["state"], live["networks"][0]["state"]);
}

#[test]
fn a_turned_bit_is_named() {
    let (node, segment) = stopped(&["unmistakable-one", "unmistakable-two", "unmistakable-three"]);
    flip(&segment, "unmistakable-two");
    let ran = of_directory(&node, &[]).fails(1, "problem");
    assert!(ran.out.contains(segment.file_name().unwrap().to_str().unwrap()), "the file is not named: {ran:?}");
    let report = of_directory(&node, &["--json"]);
    assert_eq!((report.code, &report.json()["ok"]), (1, &false.into()), "{report:?}");
    assert!(report.json()["problems"][0]["offset"].is_u64(), "{report:?}");
    // Looking changes nothing.
    of_directory(&node, &[]).fails(1, "problem");
}

#[test]
fn a_turned_bit_under_a_running_node_is_named() {
    let mut node = Node::start();
    for text in ["unmistakable-one", "unmistakable-two"] {
        node.words(&["send", "channel/general", text, "--as", "alice"]).ok();
    }
    let segment = files(&node.data().join("log")).into_iter().find(|f| holds(f, "unmistakable-one")).unwrap();
    // In place: a whole new file would not be the one the node has open.
    let bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(12).position(|w| w == b"unmistakable").unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&segment).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[bytes[at] ^ 1], u64::try_from(at).unwrap()).unwrap();
    let ran = node.line("verify").fails(1, "problem");
    assert!(ran.out.contains(segment.file_name().unwrap().to_str().unwrap()), "{ran:?}");
    node.kill();
}
