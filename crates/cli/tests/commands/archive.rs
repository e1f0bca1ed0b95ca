//! `backup` and `restore`: everything comes back, sessions do not, and a damaged archive is refused.

use crate::ids;
use crate::support::{Node, Ran, rialto};
use std::path::Path;
use tempfile::TempDir;

fn restore(file: &Path, data: &Path) -> Ran {
    let mut command = rialto();
    command.arg("restore").arg(file).arg("--json").arg("--data").arg(data);
    Ran::of(command, "")
}

/// A node with mail, a room and an archive of it.
fn archived() -> (Node, std::path::PathBuf) {
    let node = Node::start();
    node.line("inbox --as bob").ok();
    node.line("channel create dev --with bob --as alice").ok();
    for n in 0..5 {
        node.words(&["send", "bob", &format!("letter {n}"), "--as", "alice", "--id", &format!("b{n}")]).ok();
    }
    node.line("ack --up-to b1 --as bob").ok();
    node.line("send bob last --as alice --id b5").ok(); // an ack is stored with the next event at the latest
    node.line("network create lab").ok();
    let file = node.path("archive");
    let made = node.words(&["backup", file.to_str().unwrap(), "--json"]).ok().json();
    assert_eq!(made["bytes"], std::fs::metadata(&file).unwrap().len());
    (node, file)
}

#[test]
fn a_restored_node_has_everything_but_the_sessions() {
    let (node, file) = archived();
    node.words(&["backup", file.to_str().unwrap()]).fails(5, "exists already");
    node.line("send bob after-the-backup --as alice --id b9").ok();
    let history = ids(&node.line("history --limit 500 --json").ok());
    let session = kept_session(&node);

    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    assert!(restore(&file, &data).ok().json()["records"].as_u64().unwrap() > 5);
    restore(&file, &data).fails(5, "is not empty");
    let mut verify = rialto();
    verify.args(["verify", "--json", "--data"]).arg(&data);
    assert_eq!(Ran::of(verify, "").ok().json()["ok"], true);

    let again = Node::start_in(dir, &data, &[]);
    assert!(again.told["token"].is_null(), "the token of before still holds");
    assert_eq!(again.network(), node.network());
    let restored = ids(&again.line("history --limit 500 --json").ok());
    assert_eq!(restored[..], history[..history.len() - 1], "what came after the cut is not there, all else is");
    assert!(again.line("network list").ok().out.contains("lab"));
    assert!(again.line("channel members dev").ok().out.contains("agent:bob"));
    assert!(again.line("search letter --json").ok().out.contains("\"b4\""));
    // A session of before is over; the token is not.
    let mut with_session = again.command(&["inbox", "--json", "--as", "bob", "--url", again.url()]);
    with_session.env("RIALTO_TOKEN", &session).env("RIALTO_DATA", again.path("elsewhere"));
    assert_eq!(Ran::of(with_session, "").code, 4);
    let mut with_token = again.command(&["inbox", "--json", "--as", "bob", "--url", again.url()]);
    with_token.env("RIALTO_TOKEN", &node.token).env("RIALTO_DATA", again.path("elsewhere"));
    assert_eq!(ids(&Ran::of(with_token, "").ok()), ["b2", "b3", "b4", "b5"], "unread mail, and no acked one");
    again.line("send bob new --as alice --id b9").ok();
    assert_eq!(again.line("verify --json").ok().json()["ok"], true);
}

/// The session that the commands of this data directory keep for bob.
fn kept_session(node: &Node) -> String {
    let file = node.data().join("sessions").join(node.network()).join("agent%3Abob.json");
    let kept: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    kept["session_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_damaged_archive_is_refused_by_name_and_leaves_nothing_to_start() {
    let (node, file) = archived();
    let whole = std::fs::read(&file).unwrap();
    let mut damages: Vec<(String, Vec<u8>)> = [0, 7, 8, 9, whole.len() / 2, whole.len() - 1]
        .into_iter()
        .map(|cut| (format!("cut at {cut}"), whole[..cut].to_vec()))
        .collect();
    for at in (0..whole.len()).step_by(whole.len() / 12) {
        let mut bytes = whole.clone();
        bytes[at] ^= 16;
        damages.push((format!("a bit at {at}"), bytes));
    }
    damages.push(("more at the end".into(), [&whole[..], b"surplus"].concat()));
    for (what, bytes) in damages {
        let damaged = node.path("damaged");
        std::fs::write(&damaged, bytes).unwrap();
        let data = node.path("fresh");
        let ran = restore(&damaged, &data);
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        assert!(ran.err.contains("damaged") && ran.err.contains(damaged.to_str().unwrap()), "{what}: {ran:?}");
        let left = if data.exists() { std::fs::read_dir(&data).unwrap().count() } else { 0 };
        assert_eq!(left, 0, "{what}: half a node is left behind");
    }
    restore(&node.path("none"), &node.path("fresh")).fails(3, "no archive");
    restore(&file, &node.data()).fails(5, "is running");
}
