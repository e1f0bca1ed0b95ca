//! `up`, `config`, `completions`, `doctor`, and what is said when there is no node.

use crate::support::{Node, Ran, rialto};

#[test]
fn the_token_is_shown_once_and_the_second_start_says_how_to_make_another() {
    let mut node = Node::start();
    let token = node.token.clone();
    assert_eq!(token.len(), 43, "32 bytes in base64url");
    assert_eq!(node.told["network"]["name"], "main");
    assert!(node.told["browser"].as_str().unwrap().contains("/#code="));
    let network = node.network().to_owned();
    node.stop();
    assert!(!node.data().join("run.json").exists(), "a clean stop leaves no run file");
    node.restart();
    assert!(node.told["token"].is_null(), "{}", node.told);
    assert_eq!(node.network(), network);
    // The kept token still opens the door.
    let mut who = rialto();
    who.args(["who", "--as", "bob", "--json", "--url", node.url()]).env("RIALTO_TOKEN", &token);
    who.env("RIALTO_DATA", node.path("elsewhere"));
    assert_eq!(Ran::of(who, "").ok().json()["agents"][0]["address"], "agent:bob");
}

#[test]
fn the_screen_for_people() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for (start, expected) in ["shown this once", "shown at the first start"].into_iter().enumerate() {
        let mut command = rialto();
        command.args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
        let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
        crate::support::until("the run file", || data.join("run.json").exists().then_some(()));
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let screen = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{screen}");
        for part in
            ["is up", "  url      http://127.0.0.1:", "  network  main (", expected, "`rialto network token new`"]
        {
            assert!(screen.contains(part), "start {start}: {part:?} is not in\n{screen}");
        }
    }
}

#[test]
fn one_directory_has_one_node() {
    let node = Node::start();
    let mut second = rialto();
    second.args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(node.data());
    let ran = Ran::of(second, "").fails(5, "in use");
    assert!(ran.err.contains(&node.run["pid"].to_string()), "who holds it is not named: {ran:?}");
    node.line("who").ok();
}

#[test]
fn no_node_is_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let run = |line: &str| {
        let mut command = rialto();
        command.env("RIALTO_DATA", dir.path().join("none")).args(line.split(' '));
        Ran::of(command, "")
    };
    for line in ["who", "send bob hi", "inbox", "tail", "network list", "backup /nonexistent/b"] {
        run(line).fails(6, "no node is running on").fails(6, "rialto up");
    }
    run("who --url http://127.0.0.1:1").fails(6, "127.0.0.1:1");
    run("verify").fails(3, "no data directory");
    let doctor = run("doctor --json");
    assert_eq!(doctor.code, 6, "{doctor:?}");
    assert_eq!(doctor.json()["checks"][2]["ok"], false);
}

#[test]
fn a_dead_node_is_told_as_such() {
    let mut node = Node::start();
    node.kill();
    node.line("who").fails(6, "is gone");
    let doctor = node.line("doctor --json");
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert!(doctor.out.contains("without a clean stop"), "{doctor:?}");
    node.restart();
    node.line("who").ok();
}

#[test]
fn an_unknown_setting_is_refused_with_a_suggestion() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rialto.toml");
    let up = |text: &str, env: Option<(&str, &str)>| {
        std::fs::write(&file, text).unwrap();
        let mut command = rialto();
        command.args(["up", "--listen", "127.0.0.1:0", "--config"]).arg(&file).arg("--data").arg(dir.path().join("d"));
        command.envs(env);
        Ran::of(command, "")
    };
    up("[server]\nlisen = \"127.0.0.1:0\"\n", None).fails(2, "server.listen");
    up("[serve]\nlisten = \"127.0.0.1:0\"\n", None).fails(2, "server");
    up("", Some(("RIALTO_SERVER_LISEN", "x"))).fails(2, "RIALTO_SERVER_LISTEN");
    up("[server]\nlisten = 5\n", None).fails(2, "server.listen");
    up("[server\n", None).fails(2, "rialto.toml");
    assert!(!dir.path().join("d").exists(), "a refused start makes nothing");
}

#[test]
fn what_config_prints_is_a_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rialto.toml");
    let mut command = rialto();
    command.arg("config");
    let printed = Ran::of(command, "").ok().out;
    assert!(printed.lines().any(|line| line.starts_with("# listen = ") || line.starts_with("#listen = ")), "{printed}");
    std::fs::write(&file, &printed).unwrap();
    let node = Node::start_with(&["--config", file.to_str().unwrap()]);
    node.line("who").ok();
    assert!(node.line("config --json").ok().json()["keys"].as_array().unwrap().len() > 5);
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = |words: &[&str]| {
            let mut command = rialto();
            command.args(words);
            Ran::of(command, "").ok()
        };
        assert!(run(&["completions", shell]).out.contains("rialto"));
        assert!(run(&["completions", shell, "--json"]).json()["script"].as_str().unwrap().contains("explain"));
    }
}

#[test]
fn doctor_is_content_with_a_fresh_node() {
    let node = Node::start();
    let text = node.line("doctor").ok().out;
    assert!(text.contains("ok     node: answers") && !text.contains("WRONG"), "{text}");
    assert!(text.contains(", direct writes") || text.contains("takes no direct writes"), "{text}");
    let report = node.line("doctor --json").ok().json();
    assert!(report["checks"].as_array().unwrap().iter().all(|check| check["ok"] == true), "{report}");
}

#[test]
fn every_command_speaks_json() {
    let node = Node::start();
    let archive = node.path("archive");
    let backup = format!("backup {}", archive.display());
    let restore = format!("restore {} --data {}", archive.display(), node.path("restored").display());
    let lines = [
        "send channel/general hi --as alice --id m1",
        "inbox --as bob",
        "ack m1 --as bob",
        "history",
        "search hi",
        "explain m1",
        "who",
        "channel create dev --as alice",
        "channel list",
        "channel show dev",
        "channel members dev",
        "channel join dev --as bob",
        "channel leave dev --as bob",
        "channel delete dev --as alice",
        "group set team alice",
        "group list",
        "group show team",
        "group delete team",
        "send channel/general hi --as alice --thread thread_one",
        "thread new general hi --as alice",
        "thread list general",
        "thread show general thread_one",
        "thread post general thread_one hi --as bob",
        "direct open bob --as alice",
        "direct list --as alice",
        "direct show bob --as alice",
        "direct send bob hi --as alice",
        "work new bob please --id job --as alice",
        "work list --as alice",
        "work show job --as alice",
        "work cancel job --as alice",
        "network create lab",
        "network list",
        "network show lab",
        "network pause lab",
        "network resume lab",
        "network archive lab",
        "network token new --label one",
        "network token list",
        "network token revoke one",
        "redact m1",
        "doctor",
        "verify",
        backup.as_str(),
        restore.as_str(),
        "completions bash",
        "config",
    ];
    for line in lines {
        let ran = node.words(&[&line.split(' ').collect::<Vec<_>>()[..], &["--json"]].concat()).ok();
        assert!(ran.json().is_object() && ran.out.lines().count() == 1, "{line}: {ran:?}");
        assert_eq!(ran.err, "", "{line}");
    }
    // A refusal is JSON too, and on the other stream.
    for (line, code) in [("explain none", 3), ("send a/b hi", 2), ("network show none", 3), ("restore none", 3)] {
        let ran = node.words(&[&line.split(' ').collect::<Vec<_>>()[..], &["--json"]].concat());
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{line}: {ran:?}");
        let told: serde_json::Value = serde_json::from_str(&ran.err).unwrap_or_else(|e| panic!("{line}: {e}: {ran:?}"));
        assert!(told["error"]["message"].is_string(), "{line}: {told}");
    }
}
