//! `network export` and `network import`: a network goes from one node into another, whole or not at all.

use crate::ids;
use crate::support::http::Http;
use crate::support::{Node, Ran, rialto, until};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A node with a network that has a bit of everything, and its id, token and export.
fn exported() -> (Node, String, String, PathBuf) {
    let node = Node::start();
    let made = node.line("network create lab --json").ok().json();
    let (id, token) = (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned());
    node.line("inbox --as bob --network lab").ok();
    node.line("channel create dev --with bob --as alice --network lab").ok();
    for n in 0..5 {
        let id = format!("b{n}");
        node.words(&["send", "bob", &format!("letter {n}"), "--as", "alice", "--id", &id, "--network", "lab"]).ok();
    }
    node.line("ack --up-to b1 --as bob --network lab").ok();
    std::fs::write(node.path("report.md"), "# one\n").unwrap();
    let report = node.path("report.md");
    node.words(&["resource", "put", "file/report.md", report.to_str().unwrap(), "--as", "alice", "--network", "lab"])
        .ok();
    node.line("send channel/general only-in-main --as alice").ok();
    let file = node.path("lab.net");
    let shown = node.words(&["network", "export", file.to_str().unwrap(), "lab", "--json"]).ok().json();
    assert_eq!(shown["bytes"], std::fs::metadata(&file).unwrap().len());
    (node, id, token, file)
}

fn import(node: &Node, file: &Path, more: &[&str]) -> Ran {
    node.words(&[&["network", "import", file.to_str().unwrap(), "--json"], more].concat())
}

/// As an agent that has only a token would call.
fn with_token(node: &Node, network: &str, token: &str, line: &str) -> Ran {
    let mut command = rialto();
    command.args(line.split(' ')).args(["--url", node.url(), "--network", network]).env("RIALTO_TOKEN", token);
    command.env("RIALTO_DATA", node.path("elsewhere"));
    Ran::of(command, "")
}

#[test]
fn a_network_moves_to_another_node_with_everything_but_its_sessions() {
    let (node, id, token, file) = exported();
    node.words(&["network", "export", file.to_str().unwrap(), "lab"]).fails(5, "exists already");
    node.words(&["network", "export", node.path("x").to_str().unwrap(), "nowhere"]).fails(3, "nowhere");
    let history = ids(&node.line("history --limit 500 --network lab --json").ok());
    let mut other = Node::start();
    let made = import(&other, &file, &[]).ok().json();
    assert_eq!((&made["id"], &made["name"], &made["blobs"]), (&json!(id), &json!("lab"), &json!(1)), "{made}");
    assert!(made.get("token").is_none());
    let look = |other: &Node| {
        assert_eq!(ids(&other.line("history --limit 500 --network lab --json").ok()), history);
        assert!(other.line("channel members dev --network lab").ok().out.contains("agent:bob"));
        until("the index", || {
            other.line("search letter --network lab --json").ok().out.contains("\"b4\"").then_some(())
        });
        assert_eq!(other.line("verify --json").ok().json()["ok"], true);
    };
    look(&other);
    // Its tokens hold, the sessions of the other node do not.
    let kept = node.data().join("sessions").join(&id).join("agent%3Abob.json");
    let kept: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!(with_token(&other, &id, kept["session_id"].as_str().unwrap(), "inbox --as bob --json").code, 4);
    assert_eq!(ids(&with_token(&other, &id, &token, "inbox --as bob --json").ok()), ["b2", "b3", "b4"]);
    assert_eq!(with_token(&other, &id, &token, "resource get file/report.md --as bob").ok().out, "# one\n");
    with_token(&other, &id, &token, "send bob again --as alice --id b3").fails(5, "b3");
    with_token(&other, &id, &token, "send bob new --as alice --id b7").ok();
    import(&other, &file, &[]).fails(5, "--name");
    assert!(!other.line("history --network lab --json").ok().out.contains("only-in-main"));
    // It is in the log, not only in memory: after a kill, after a stop, and in a backup.
    let history = ids(&other.line("history --limit 500 --network lab --json").ok());
    for restart in [Node::kill as fn(&mut Node), Node::stop] {
        restart(&mut other);
        other.restart();
        assert_eq!(ids(&other.line("history --limit 500 --network lab --json").ok()), history);
        assert_eq!(other.line("verify --json").ok().json()["ok"], true);
    }
    std::fs::remove_dir_all(other.data().join("snapshots")).ok();
    other.kill();
    other.restart();
    assert_eq!(ids(&other.line("history --limit 500 --network lab --json").ok()), history, "from the log alone");
}

#[test]
fn a_copy_beside_the_original_has_an_id_and_a_token_of_its_own() {
    let (node, id, token, file) = exported();
    import(&node, &file, &[]).fails(5, "lab");
    import(&node, &file, &["--name", "main"]).fails(5, "main");
    import(&node, &file, &["--name", " "]).fails(2, "name");
    let made = import(&node, &file, &["--name", "copy"]).ok().json();
    let copy = made["id"].as_str().unwrap();
    assert!(copy != id && made["name"] == "copy", "{made}");
    assert_eq!(with_token(&node, copy, &token, "who --as bob").code, 4, "the original's token does not open the copy");
    let own = made["token"].as_str().unwrap();
    assert_eq!(ids(&with_token(&node, copy, own, "inbox --as bob --json").ok()), ["b2", "b3", "b4"]);
    with_token(&node, copy, own, "send bob in-the-copy --as alice").ok();
    assert!(!node.line("history --network lab --json").ok().out.contains("in-the-copy"));
    import(&node, &file, &["--name", "copy"]).fails(5, "copy");
    assert_eq!(node.line("verify --json").ok().json()["ok"], true);
}

#[test]
fn what_is_no_whole_export_is_refused_by_name_and_leaves_nothing() {
    let (node, _, _, file) = exported();
    let other = Node::start();
    let whole = std::fs::read(&file).unwrap();
    let blobs = other.line("verify --json").ok().json()["blobs"].clone();
    let backup = node.path("node.bak");
    node.words(&["backup", backup.to_str().unwrap()]).ok();
    import(&other, &backup, &[]).fails(2, "rialto restore");
    import(&other, &node.path("none"), &[]).fails(3, "no file");
    let mut restore = rialto();
    restore.arg("restore").arg(&file).arg("--data").arg(node.path("fresh"));
    Ran::of(restore, "").fails(1, "rialto network import");
    let mut newer = whole.clone();
    newer[7] = b'2';
    let mut bad = vec![("newer", "newer version", newer), ("text", "not an export", b"hello, this is a text".to_vec())];
    bad.extend([0, 7, 9, whole.len() / 2, whole.len() - 1].map(|cut| ("cut", "damaged", whole[..cut].to_vec())));
    for at in (8..whole.len()).step_by(whole.len() / 8) {
        let mut bytes = whole.clone();
        bytes[at] ^= 16;
        bad.push(("a bit", "damaged", bytes));
    }
    bad.push(("more", "damaged", [&whole[..], b"surplus"].concat()));
    for (what, says, bytes) in bad {
        let path = node.path("bad");
        std::fs::write(&path, bytes).unwrap();
        let ran = import(&other, &path, &[]).fails(2, says);
        assert!(!other.line("network list").ok().out.contains("lab"), "{what}: {ran:?}");
    }
    assert_eq!(other.line("verify --json").ok().json()["blobs"], blobs, "not even the file itself is kept");
    import(&other, &file, &[]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_killed_leaves_nothing_and_can_be_done_again() {
    let node = Node::start();
    let http = Http::new(node.url());
    let made = node.line("network create big --json").ok().json();
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let join = json!({ "agent_id": "agent:ana", "credentials": { "token": token } });
    let joined = http.post(&format!("/v1/ws/{id}/join"), "", &join).await.data();
    let session = joined["session_id"].as_str().unwrap();
    for n in 0..40 {
        let text = format!("{n} {}", "words and words ".repeat(30_000));
        let event = json!({ "id": format!("e{n}"), "type": "a.b", "target": "channel/general", "payload": { "content": text } });
        let joins = json!({ "type": "network.channel.join", "target": "core", "payload": { "channel": "general" } });
        if n == 0 {
            http.post(&format!("/v1/ws/{id}/events"), session, &joins).await.data();
        }
        http.post(&format!("/v1/ws/{id}/events"), session, &event).await.data();
    }
    let file = node.path("big.net");
    node.words(&["network", "export", file.to_str().unwrap(), "big"]).ok();
    let history = ids(&node.line("history --limit 500 --network big --json").ok());
    let (mut other, mut cut_short) = (Node::start(), 0);
    for wait in [40u64, 80, 120, 160, 200, 260, 320, 400, 500, 700] {
        let mut command = other.command(&["network", "import", file.to_str().unwrap(), "--json"]);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut importing = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait));
        other.kill();
        importing.wait().unwrap();
        other.restart();
        assert_eq!(other.line("verify --json").ok().json()["ok"], true);
        if other.line("network list").ok().out.contains("big") {
            break;
        }
        cut_short += usize::from(other.log().contains("an import was cut short"));
    }
    eprintln!("{cut_short} starts found half an import");
    if !other.line("network list").ok().out.contains("big") {
        import(&other, &file, &[]).ok();
    }
    import(&other, &file, &[]).fails(5, "big");
    assert_eq!(ids(&other.line("history --limit 500 --network big --json").ok()), history);
    other.stop();
    other.restart();
    assert_eq!(other.line("verify --json").ok().json()["ok"], true);
    assert_eq!(other.line("network list --json").ok().json()["networks"].as_array().unwrap().len(), 2);
}
