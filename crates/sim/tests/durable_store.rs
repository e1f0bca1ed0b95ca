//! The data directory over starts and stops: who may open it, what a start does when it cannot, and what it repairs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

use rialto_sim::harness::{PATIENCE, Server, note, rialto, until};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

/// Runs `rialto up` on a directory it cannot use; gives what it said.
fn refused(data: &Path) -> Output {
    outcome(Server::command(data))
}

/// Runs a command that must end by itself.
fn outcome(mut command: Command) -> Output {
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("{command:?} goes on");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Readable: one or two lines for people, no traces of the insides.
fn check_readable(text: &str) {
    assert!(!text.is_empty() && text.lines().count() <= 6, "{text}");
    for word in ["panicked", "RUST_BACKTRACE", "Os {", "unwrap", "src/"] {
        assert!(!text.contains(word), "{text}");
    }
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_refused_with_6() {
    let mode = |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    mode(dir.path(), 0o755);
    // The superuser may write anywhere: it lets nobody do the trying, with a copy of the program nobody may run.
    let program = dir.path().join("rialto");
    std::fs::copy(rialto(), &program).unwrap();
    let mut server = Server::start().await;
    server.stop();
    let used = dir.path().join("used");
    std::fs::rename(server.data(), &used).unwrap();
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for data in [&empty, &used] {
        mode(data, 0o555);
        let mut command = Server::command(data);
        if rustix::process::getuid().is_root() {
            let mut by_nobody = Command::new(&program);
            by_nobody
                .args(command.get_args())
                .env_remove("RIALTO_BIN")
                .env("HOME", dir.path())
                .env_remove("XDG_CONFIG_HOME")
                .uid(65534)
                .gid(65534);
            command = by_nobody;
        } else if data == &used {
            // Its own files are still the owner's to write.
            continue;
        }
        let output = outcome(command);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(6), "{text}");
        check_readable(&text);
        assert!(text.contains(data.to_str().unwrap()), "{text}");
        mode(data, 0o755);
    }
    // A file where the directory should be.
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = refused(&file);
    assert!(output.status.code().is_some_and(|code| code > 1), "{:?}: {}", output.status, said(&output));
    check_readable(&said(&output));
}

#[tokio::test]
async fn a_second_node_is_refused_with_5_and_told_of_the_first() {
    let server = Server::start().await;
    let output = refused(&server.data());
    let text = said(&output);
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(text.contains(&server.pid().to_string()) && text.contains(server.url()), "{text}");
    check_readable(&text);
    // The first is not disturbed, and its run file is still its own.
    assert_eq!(server.http().get("/ready", "").await.status, 200);
    let run: Value = serde_json::from_str(&std::fs::read_to_string(server.data().join("run.json")).unwrap()).unwrap();
    assert_eq!(run["pid"], server.pid());
    let mode = std::fs::metadata(server.data().join("run.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_run_file_left_by_a_power_cut_is_no_hindrance() {
    let mut server = Server::start().await;
    let network = server.main();
    let session = server.join(&network, "agent:a").await;
    let old = std::fs::read_to_string(server.data().join("run.json")).unwrap();
    server.kill();
    assert!(server.data().join("run.json").exists());
    // A command meanwhile finds nobody and says so.
    let output = Command::new(rialto()).args(["who", "--data"]).arg(server.data()).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    check_readable(&said(&output));
    server.restart().await;
    assert_ne!(std::fs::read_to_string(server.data().join("run.json")).unwrap(), old);
    // Sessions survive, the operator's secret does not.
    let path = format!("/v1/ws/{}/events?view=log", network.id);
    assert_eq!(server.http().get(&path, &session).await.status, 200);
    let old: Value = serde_json::from_str(&old).unwrap();
    let stale = server.http().get("/v1/admin/networks", old["admin_secret"].as_str().unwrap()).await;
    assert_eq!(stale.code(), "forbidden");
    assert!(server.stop().success());
    assert!(!server.data().join("run.json").exists(), "a clean stop takes its run file with it");
}

#[tokio::test]
async fn a_newer_format_is_refused_by_name() {
    let mut server = Server::start().await;
    server.stop();
    let path = server.data().join("FORMAT");
    let format = std::fs::read_to_string(&path).unwrap();
    let digits: String = format.chars().filter(char::is_ascii_digit).collect();
    let newer = format.replace(&digits, "987");
    assert_ne!(newer, format, "{format:?} has no number");
    std::fs::write(&path, &newer).unwrap();
    let output = refused(&server.data());
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("987"), "{}", said(&output));
    check_readable(&said(&output));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer, "nothing was touched");
    std::fs::write(&path, format).unwrap();
    server.restart().await;
}

#[tokio::test]
async fn a_deleted_search_index_is_built_again() {
    let mut server = Server::start().await;
    let network = server.main();
    let session = server.join(&network, "agent:a").await;
    let path = format!("/v1/ws/{}/events", network.id);
    let mut http = server.http();
    for (id, text) in
        [("s1", "the heron stands in the reeds"), ("s2", "nothing of that kind"), ("s3", "a second heron")]
    {
        let event = json!({ "id": id, "type": "workspace.message.posted", "target": "channel/general", "payload": { "content": text } });
        http.post(&path).bearer(&session).json(&event).await.data();
    }
    let found = async |server: &Server| {
        let answer = server.http().get(&format!("{path}?view=log&search=heron"), &session).await;
        let data = answer.data();
        data["events"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&server).await, ["s1", "s3"], "right after the ack");
    server.stop();
    let mut gone = 0;
    for entry in std::fs::read_dir(server.data()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("search.db") {
            std::fs::remove_file(entry.path()).unwrap();
            gone += 1;
        }
    }
    assert!(gone > 0, "there was no index");
    server.restart().await;
    assert_eq!(found(&server).await, ["s1", "s3"]);
    let index = server.data().join("search.db");
    until("the index", || std::future::ready(index.exists().then_some(()))).await;
}

#[tokio::test]
async fn a_clean_stop_and_a_power_cut_leave_the_same() {
    let mut server = Server::start().await;
    let network = server.main();
    let (a, b) = (server.join(&network, "agent:a").await, server.join(&network, "agent:b").await);
    let path = format!("/v1/ws/{}/events", network.id);
    for n in 0..20 {
        server.http().post(&path).bearer(&a).json(&note(&format!("m{n}"), "agent:b", "x")).await.data();
    }
    let ack = format!("/v1/ws/{}/ack", network.id);
    server.http().post(&ack).bearer(&b).json(&json!({ "up_to": "m9" })).await.data();
    let look = async |server: &Server| {
        let mut http = server.http();
        let inbox = http.get(&format!("{path}?view=inbox&ack=false&limit=100"), &b).await.data();
        let log = http.get(&format!("{path}?view=log&limit=100"), &a).await.data();
        (inbox["events"].clone(), log["events"].clone())
    };
    let before = look(&server).await;
    assert_eq!(before.0.as_array().unwrap().len(), 10);
    assert!(server.stop().success());
    server.restart().await;
    assert_eq!(look(&server).await, before, "a clean stop loses no ack");
    server.kill();
    server.restart().await;
    assert_eq!(look(&server).await, before);
    // The data of a stopped node verifies.
    server.stop();
    let verify = Command::new(rialto()).args(["verify", "--data"]).arg(server.data()).output().unwrap();
    assert_eq!(verify.status.code(), Some(0), "{}", said(&verify));
}
