//! `rialto bench` as a script would use it: what it prints, how it ends, and that it leaves nothing behind.
//! The numbers of a debug build say nothing; that they are there does.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A trial of some goals in a folder of its own.
fn bench(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rialto"));
    command.args(["bench", "--trial", "--folder"]).arg(folder).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[track_caller]
fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {said}"))
}

/// Processes that were started in a folder: named on their command line, or in their environment.
fn processes(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let names = ["cmdline", "environ"].map(|name| std::fs::read(entry.path().join(name)).unwrap_or_default());
        let is_bench = names[0].windows(8).any(|w| w == b"--trial\0");
        if !is_bench && names.iter().any(|text| String::from_utf8_lossy(text).contains(folder)) {
            found.push(String::from_utf8_lossy(&names[0]).replace('\0', " "));
        }
    }
    found
}

#[track_caller]
fn nothing_left(folder: &Path) {
    assert_eq!(processes(folder), [""; 0]);
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0, "files were left behind");
}

fn has_nats() -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into()]).any(|folder| folder.join("nats-server").is_file())
}

#[test]
fn a_report_has_every_row_asked_for_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), &["--only", "1,3,4,5,6,7,8,search", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = report(&output);
    assert_eq!((&report["version"], &report["enforced"]), (&json!(1), &json!(false)));
    for key in ["system", "cpu", "cores", "memory_bytes", "file_system", "load", "rialto", "nats"] {
        assert!(report["host"].get(key).is_some(), "{key}");
    }
    let goals = report["goals"].as_array().unwrap();
    let ids: Vec<u64> = goals.iter().map(|goal| goal["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 3, 4, 5, 5, 6, 7, 8]);
    for goal in goals {
        let against_nats = [1, 3, 5].contains(&goal["id"].as_u64().unwrap());
        assert!(goal["gate"].is_number() && goal["stretch"].is_number() && goal["unit"].is_string(), "{goal}");
        if against_nats && !has_nats() {
            assert_eq!(goal["verdict"], "skip", "{goal}");
            continue;
        }
        let (measured, peer) = (goal["measured"].as_f64().unwrap(), goal["peer"].as_f64().unwrap());
        assert!(measured > 0.0 && peer > 0.0 && goal["ratio"].as_f64().unwrap() > 0.0, "{goal}");
        assert!(["pass", "stretch", "fail"].contains(&goal["verdict"].as_str().unwrap()), "{goal}");
        assert_eq!(goal["passes"], 1);
    }
    let rows = report["rows"].as_array().unwrap();
    for name in
        ["durable publish, an ack per event", "loopback ping-pong p50", "search: events with text, index caught up"]
    {
        let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(row["measured"].as_f64().unwrap() > 0.0, "{row}");
    }
    nothing_left(folder.path());
}

#[test]
fn growth_starts_and_memory_are_measured_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let picture = tempfile::tempdir().unwrap();
    let svg = picture.path().join("growth.svg");
    let arguments = ["--only", "9,10,11,12,13,14,15,16", "--passes", "2", "--json", "--curves", svg.to_str().unwrap()];
    let output = bench(folder.path(), &arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = report(&output);
    let goals = report["goals"].as_array().unwrap();
    let ids: Vec<u64> = goals.iter().map(|goal| goal["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [9, 9, 10, 11, 12, 13, 13, 13, 13, 14, 15, 15, 16]);
    assert!(goals.iter().all(|goal| goal["measured"].as_f64().unwrap() > 0.0), "{report}");
    assert_eq!(goals.iter().find(|goal| goal["id"] == 12).unwrap()["passes"], 2);
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(drawn.starts_with("<svg") && drawn.contains("<polyline"), "{drawn}");
    nothing_left(folder.path());
}

#[test]
fn without_nats_a_goal_is_skipped_and_enforcing_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    let run = |more: &[&str]| {
        let arguments = [&["--only", "1"][..], more].concat();
        bench(folder.path(), &arguments).env("PATH", "").output().unwrap()
    };
    let output = run(&["--json"]);
    assert!(output.status.success());
    let report = report(&output);
    assert_eq!((&report["goals"][0]["verdict"], &report["ok"]), (&json!("skip"), &json!(false)));
    assert!(report["goals"][0]["note"].as_str().unwrap().contains("apt install nats-server"));
    assert_eq!(report["host"]["nats"], Value::Null);
    let output = run(&["--enforce"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("not measured") && said.contains("apt install nats-server"), "{said}");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("durable publish vs JetStream") && table.contains("skip"), "{table}");
    nothing_left(folder.path());
}

#[test]
fn what_is_no_goal_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), &["--only", "1,17"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("17"));
    nothing_left(folder.path());
}

#[test]
fn another_build_is_compared_row_by_row() {
    let folder = tempfile::tempdir().unwrap();
    let itself = env!("CARGO_BIN_EXE_rialto");
    let output = bench(folder.path(), &["--against", itself, "--json"]).output().unwrap();
    let report = report(&output);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 25);
    for row in rows {
        // One pass of a debug build may come out either way; that it was measured is what is asked here.
        assert!(["worse", "same", "better"].contains(&row["change"].as_str().unwrap()), "{row}");
        assert!(row["new"].as_f64().unwrap() > 0.0 && row["old"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["spread"].as_array().unwrap().len(), 1, "{row}");
    }
    assert_eq!(output.status.success(), report["ok"].as_bool().unwrap());
    let sizes: Vec<u64> =
        rows.iter().filter(|row| row["name"] == "durable publish").filter_map(|r| r["size"].as_u64()).collect();
    assert_eq!(sizes, [256, 1024, 16_384]);
    nothing_left(folder.path());
}

#[test]
fn a_build_that_cannot_be_measured_fails_the_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), &["--against", other.path().join("none").to_str().unwrap()]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("is no program to compare with"));
    let output = bench(folder.path(), &["--against", "/bin/false", "--only", "12"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("cold start to first answered request") && said.contains("ended"), "{said}");
    assert_eq!(bench(folder.path(), &["--against", "x", "--enforce"]).output().unwrap().status.code(), Some(2));
    nothing_left(folder.path());
}

/// Waits until `look` gives something.
fn until<T>(child: &mut Child, what: &str, look: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before {what}");
        assert!(began.elapsed() < Duration::from_secs(100), "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupted_run_takes_everything_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = bench(folder.path(), &["--only", "10", "--passes", "1000"]).spawn().unwrap();
    until(&mut child, "a node", || (!processes(folder.path()).is_empty()).then_some(()));
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", String::from_utf8_lossy(&output.stderr));
    nothing_left(folder.path());
}
