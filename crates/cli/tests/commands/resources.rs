//! `resource …`, `invoke` and `tool serve`: files in and out, rules, versions, tools made of commands.

use crate::support::http::Http;
use crate::support::{Node, RunningNode, until};
use serde_json::{Value, json};

fn file(node: &Node, name: &str, content: &[u8]) -> String {
    let path = node.path(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_file_from_its_upload_to_its_end() {
    let mut node = Node::start();
    let report = file(&node, "report.md", b"# one\n");
    let said = node
        .words(&["resource", "put", "file/docs/report.md", &report, "--description", "the report", "--as", "alice"])
        .ok();
    assert_eq!(said.out.trim(), "resource/file/docs/report.md version 1");
    let list = node.line("resource list --type file --as bob --json").ok().json();
    let entry = &list["resources"][0];
    assert_eq!(
        (&entry["owner"], &entry["content_type"], &entry["size"]),
        (&json!("agent:alice"), &json!("text/markdown"), &json!(6))
    );
    assert_eq!(entry["your_permissions"], json!(["read"]));
    assert!(node.line("resource list --as bob").ok().out.contains("file/docs/report.md"));
    assert_eq!(node.line("resource get file/docs/report.md --as bob").ok().out, "# one\n");

    // Only its owner writes, until it says otherwise; a version that is not there any more is told.
    let next = file(&node, "next.md", b"# two\n");
    node.words(&["resource", "put", "file/docs/report.md", &next, "--as", "bob"]).fails(4, "may not write");
    node.line("resource permit file/docs/report.md write=network --as bob").fails(4, "may not admin");
    node.line("resource permit file/docs/report.md write=role:boss --as alice").fails(2, "permissions.write");
    node.line("resource permit file/docs/report.md write=network --as alice").ok();
    node.words(&["resource", "put", "file/docs/report.md", &next, "--if-version", "2", "--as", "bob"]).ok();
    node.words(&["resource", "put", "file/docs/report.md", &next, "--if-version", "2", "--as", "bob"])
        .fails(5, "version 3");
    node.words(&["resource", "put", "file/docs/report.md", &next, "--if-version", "0", "--as", "bob"])
        .fails(5, "version 3");
    assert_eq!(node.line("resource get file/docs/report.md --version 1 --as bob").ok().out, "# one\n");
    assert_eq!(node.line("resource get file/docs/report.md --range 2-4 --as bob").ok().out, "two");
    assert_eq!(node.line("resource get file/docs/report.md --range=-4 --as bob").ok().out, "two\n");

    // Everything is there after a kill.
    node.kill();
    node.restart();
    assert_eq!(node.line("resource get file/docs/report.md --as bob").ok().out, "# two\n");
    node.line("verify").ok();

    node.line("resource permit file/docs/report.md read=owner --as alice").ok();
    node.line("resource get file/docs/report.md --as bob").fails(3, "does not exist");
    node.line("resource show file/nothing --as bob").fails(3, "resource list");
    node.line("resource remove file/docs/report.md --as alice").ok();
    node.line("resource get file/docs/report.md --as alice").fails(3, "does not exist");
    node.line("resource put channel/x y --as alice").fails(2, "no resource");
}

/// 48 MiB go in and come out again; the node's memory does not grow by that much.
#[test]
fn a_large_file_passes_through() {
    let node = Node::start();
    let piece: Vec<u8> = (0..1 << 20).map(|n: u32| (n * 31 % 251) as u8).collect();
    let large: Vec<u8> = (0..48u8).flat_map(|n| piece.iter().map(move |b| b ^ n)).collect();
    let path = file(&node, "large.bin", &large);
    let before = memory(&node);
    node.words(&["resource", "put", "file/large", &path, "--as", "alice"]).ok();
    let out = node.path("back.bin");
    node.words(&["resource", "get", "file/large", "--output", out.to_str().unwrap(), "--as", "bob"]).ok();
    assert!(std::fs::read(&out).unwrap() == large, "not the same bytes");
    let grown = memory(&node).saturating_sub(before);
    assert!(grown < 32 << 20, "the node grew by {grown} bytes");
    let tail = node.words(&[
        "resource",
        "get",
        "file/large",
        "--range",
        "-3",
        "--as",
        "bob",
        "--output",
        out.to_str().unwrap(),
    ]);
    tail.ok();
    assert_eq!(std::fs::read(&out).unwrap(), large[large.len() - 3..]);
}

/// Resident bytes of the node.
fn memory(node: &Node) -> u64 {
    let pid = std::fs::read_to_string(node.data().join("run.json"))
        .ok()
        .and_then(|text| serde_json::from_str::<Value>(&text).ok()?.get("pid")?.as_u64());
    let pid = pid.unwrap_or_else(|| panic!("the run file names no process"));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_command_becomes_a_tool() {
    let node = Node::start();
    let script = r#"read input; case "$input" in *fail*) echo "no such thing" >&2; exit 3;; *slow*) sleep 30;; esac; echo "{\"got\": $input}""#;
    let serve = |name: &str| {
        let words =
            ["tool", "serve", name, "--input", r#"{"what": "string"}"#, "--as", "worker", "--", "sh", "-c", script];
        RunningNode::start(node.command(&words))
    };
    let served = serve("echo");
    until("the tool is there", || {
        let list = node.line("resource list --type tool --as alice --json").ok().json();
        (!list["resources"].as_array()?.is_empty()).then_some(())
    });
    let called = node.words(&["invoke", "echo", r#"{"what": "it; rm -rf $HOME"}"#, "--as", "alice"]).ok();
    assert_eq!(called.json(), json!({ "got": { "what": "it; rm -rf $HOME" } }), "input is data");
    node.words(&["invoke", "echo", r#"{"what": 5}"#, "--as", "alice"]).fails(2, "invalid_payload");
    node.words(&["invoke", "echo", r#"{"what": "fail"}"#, "--as", "alice"]).fails(1, "no such thing");
    node.words(&["invoke", "echo", r#"{"what": "slow"}"#, "--timeout", "1", "--as", "alice"]).fails(7, "timeout");
    node.words(&["invoke", "nothing", "--as", "alice"]).fails(3, "resource list --type tool");
    node.words(&["invoke", "echo", "5", "--as", "alice"]).fails(2, "JSON object");
    drop(served);
    until("the tool's owner is gone", || {
        let ran = node.words(&["invoke", "echo", r#"{"what": "x"}"#, "--as", "alice"]);
        (ran.code == 6 && ran.err.contains("owner_unavailable")).then_some(())
    });
    // Who waits for it gets its answer when it is back.
    let waits = RunningNode::start(node.command(&[
        "invoke",
        "echo",
        r#"{"what": "later"}"#,
        "--wait-for-owner",
        "--as",
        "alice",
        "--json",
    ]));
    let _again = serve("echo");
    let output: Value = serde_json::from_str(&waits.rest()).unwrap();
    assert_eq!(output["output"], json!({ "got": { "what": "later" } }));
}

/// Four slow calls that nobody waits for any more leave their jobs to the next one, and no process behind.
#[test]
fn a_command_ends_with_its_call() {
    let node = Node::start();
    let pids = node.path("pids");
    // The one that sleeps is a child of the command: the command alone is not enough.
    let script = format!(
        r#"read input; case "$input" in *slow*) sleep 300 & echo $! >> {0}; wait;; esac; echo "{{\"got\": $input}}""#,
        pids.display()
    );
    let words = ["tool", "serve", "nap", "--as", "worker", "--", "sh", "-c", &script];
    let _served = RunningNode::start(node.command(&words));
    until("the tool is there", || {
        let list = node.line("resource list --type tool --as alice --json").ok().json();
        (!list["resources"].as_array()?.is_empty()).then_some(())
    });
    let slow = ["invoke", "nap", r#"{"what": "slow"}"#, "--timeout", "1", "--as", "alice"];
    let calls: Vec<RunningNode> = (0..4).map(|_| RunningNode::start(node.command(&slow))).collect();
    let started = || std::fs::read_to_string(&pids).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    until("four calls run", || (started().len() == 4).then_some(()));
    // All four jobs are busy; this call waits for one, and gets it when the others have timed out.
    let called = node.words(&["invoke", "nap", r#"{"what": "quick"}"#, "--timeout", "20", "--as", "alice"]).ok();
    assert_eq!(called.json(), json!({ "got": { "what": "quick" } }));
    until("the processes of the calls are gone", || {
        let lives = |pid: &String| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // One that nobody has waited for yet is dead all the same.
            !stat.is_empty() && !stat.contains(") Z ")
        };
        (!started().iter().any(lives)).then_some(())
    });
    drop(calls);
}

#[tokio::test]
async fn files_of_a_workspace_outlive_a_kill() {
    let mut node = Node::start();
    let http = Http::new(node.url());
    let wish = json!({ "filename": "notes.txt", "content_base64": "aGVsbG8=", "source": "human:ann@example.com" });
    let headers = [("x-workspace-token", node.token.as_str())];
    let response = http.open("POST", "/v1/files/base64", &headers, &wish.to_string()).await.unwrap();
    assert_eq!(response.status(), 200);
    let list = http.get("/v1/files", &node.token).await.data();
    let file = &list["files"][0];
    assert_eq!((&list["total"], &file["uploaded_by"]), (&json!(1), &json!("human:ann@example.com")));
    let id = file["id"].as_str().unwrap();
    node.kill();
    node.restart();
    let http = Http::new(node.url());
    assert_eq!(http.get("/v1/files", &node.token).await.data(), list);
    assert_eq!(http.get(&format!("/v1/files/{id}"), &node.token).await.body, "hello");
    let got = node.line(&format!("resource get file/uploads/{id}/notes.txt --as bob")).ok();
    assert_eq!(got.out, "hello");
    let removed = http.call("DELETE", &format!("/v1/files/{id}"), &node.token, "").await.unwrap();
    assert_eq!(removed.data(), json!({ "id": id, "status": "deleted" }));
    node.kill();
    node.restart();
    assert_eq!(Http::new(node.url()).get("/v1/files", &node.token).await.data()["total"], 0);
    assert_eq!(node.line("verify").ok().code, 0);
}
