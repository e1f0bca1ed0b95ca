//! The README's example and pages of `docs/`, typed as written: every command of their blocks runs, and what they show
//! is what comes.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, reason = "tests")]

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::{Node, Ran, RunningNode, rialto, until};

const SECTION: &str = "## Two agents, three carriers";

/// One command of a block and the lines shown below it.
#[derive(Debug, Clone)]
struct Typed {
    command: String,
    shown: Vec<String>,
}

/// The console blocks of the section, in order.
fn blocks() -> Vec<Vec<Typed>> {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let section = readme.split(SECTION).nth(1).unwrap_or_else(|| panic!("the README has no {SECTION:?}"));
    let section = section.split("\n## ").next().unwrap();
    section.split("```console\n").skip(1).map(|block| typed(block.split("```").next().unwrap())).collect()
}

/// A command goes on below itself after `\` or `|` and inside quotes; every other line is shown by it.
fn typed(block: &str) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    let mut open = false;
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => all.push(Typed { command: command.to_owned(), shown: Vec::new() }),
            None if open => {
                let last = all.last_mut().unwrap();
                last.command.push('\n');
                last.command.push_str(line);
            }
            None => all.last_mut().unwrap().shown.push(line.to_owned()),
        }
        let command = &all.last().unwrap().command;
        open = command.ends_with('\\') || command.ends_with('|') || command.matches('\'').count() % 2 == 1;
    }
    all
}

/// A shell on this node, where `rialto` is the binary under test.
fn shell(node: &Node, script: &str) -> Command {
    let binary = rialto().get_program().to_owned();
    let command = node.command::<&str>(&[]);
    let mut bash = Command::new("bash");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bash.env(name, value),
            None => bash.env_remove(name),
        };
    }
    let directory = Path::new(&binary).parent().unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    // Files a page makes are the test's own, and so are keys.
    bash.current_dir(node.path(".")).env("RIALTO_IDENTITIES", node.path("identities"));
    bash.env("PATH", path).arg("-euo").arg("pipefail").arg("-c").arg(script);
    bash
}

/// Whether a line is what the README shows: `…` stands for anything, and so does the time and id of an event.
fn alike(shown: &str, line: &str) -> bool {
    if shown.starts_with("20") {
        let said = |line: &str| line.splitn(5, ' ').nth(4).map(|rest| rest.split_once("  ").map(|(_, s)| s.to_owned()));
        return said(shown) == said(line);
    }
    let mut rest = line;
    for part in shown.split('…') {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

#[track_caller]
fn check(typed: &Typed, ran: &Ran) {
    assert_eq!(ran.code, 0, "{}: {ran:?}", typed.command);
    for shown in &typed.shown {
        assert!(ran.out.lines().any(|line| alike(shown, line)), "written is\n{shown}\nbut it is\n{}", ran.out);
    }
}

#[test]
fn two_agents_and_three_carriers_as_written() {
    let blocks = blocks();
    let [waits, joins, pipes, looks] = &blocks[..] else { panic!("{} blocks instead of 4", blocks.len()) };
    let mut node = Node::start();

    // One shell waits.
    assert_eq!(waits[0].command, "rialto inbox --as alice --wait 60");
    let alice = RunningNode::start(shell(&node, &format!("exec {}", waits[0].command)));
    until("alice to join", || node.line("who --json").out.contains("agent:alice").then_some(()));

    // The other one knows the token and the URL of this node.
    let [export, join, send] = &joins[..] else { panic!("{joins:?}") };
    assert_eq!(export.command, "export RIALTO_TOKEN=…  URL=http://127.0.0.1:8700");
    let export = export.command.replace("RIALTO_TOKEN=…", &format!("RIALTO_TOKEN={}", node.token));
    let begin = format!("{}\n{}\n", export.replace("http://127.0.0.1:8700", node.url()), join.command);
    let ran = Ran::of(shell(&node, &format!("{begin}{}\necho\n{}", send.command, send.command)), "");
    check(send, &ran);
    let answers: Vec<&str> = ran.out.lines().collect();
    assert!(answers[0].contains("\"duplicate\":false") && answers[1].contains("\"duplicate\":true"), "{ran:?}");
    let heard = alice.rest();
    assert!(heard.contains("agent:bob → agent:alice: hello"), "{heard}");

    let [pipe, history] = &pipes[..] else { panic!("{pipes:?}") };
    assert!(pipe.command.ends_with("| rialto stdio"), "{pipe:?}");
    let export = begin.lines().next().unwrap().to_owned();
    check(pipe, &Ran::of(shell(&node, &format!("{export}\n{}", pipe.command)), ""));
    check(history, &Ran::of(shell(&node, &format!("{export}\n{}", history.command)), ""));

    // `kill -9`, and everything is there.
    node.kill();
    node.restart();
    check(history, &Ran::of(shell(&node, &history.command), ""));
    assert!(node.line("inbox --as alice --json").ok().out.contains("hello-1"), "unread mail");
    node.line("send channel/general 会议纪要 --as alice").ok();
    for look in looks {
        if look.command.starts_with("rialto tail") {
            continue;
        }
        let ran = Ran::of(shell(&node, &look.command), "");
        check(look, &ran);
        let expected = if look.command.contains("explain") {
            "delivered"
        } else if look.command.contains("search") {
            "会议纪要"
        } else {
            "ok     node: answers"
        };
        assert!(ran.out.contains(expected), "{}: {ran:?}", look.command);
    }
    let follow = looks.iter().find(|look| look.command.starts_with("rialto tail")).unwrap();
    let tail = RunningNode::start(shell(&node, &format!("exec {}", follow.command)));
    let line = until("the tail", || {
        node.line("send channel/general followed --as alice").ok();
        tail.line_within(Duration::from_millis(500))
    });
    assert!(line.contains("followed"), "{line}");
}

/// Every command of a page in `docs/`, one after the other on one node.
fn page_as_written(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let blocks = text.split("```console\n").skip(1);
    let commands: Vec<Typed> = blocks.flat_map(|block| typed(block.split("```").next().unwrap())).collect();
    assert!(!commands.is_empty(), "{page} has no commands");
    let node = Node::start();
    // What a command gives a name to is there for those below it.
    let mut named = String::new();
    for typed in &commands {
        let name =
            typed.command.split_once('=').map(|(name, _)| name).filter(|n| n.bytes().all(|b| b.is_ascii_lowercase()));
        let tell = name.map(|name| format!("\ndeclare -p {name}")).unwrap_or_default();
        let ran = Ran::of(shell(&node, &format!("{named}{}{tell}", typed.command)), "");
        check(typed, &ran);
        if name.is_some() {
            named.push_str(&ran.out);
        }
    }
}

#[test]
fn the_page_on_mods_as_written() {
    page_as_written("mods.md");
}

#[test]
fn the_page_on_conversations_as_written() {
    page_as_written("conversations.md");
}

#[test]
fn the_page_on_resources_as_written() {
    page_as_written("resources.md");
}

#[test]
fn the_page_on_work_as_written() {
    page_as_written("work.md");
}

#[test]
fn the_page_on_workspaces_as_written() {
    page_as_written("workspace.md");
}

#[test]
fn the_page_on_identity_as_written() {
    page_as_written("identity.md");
}

#[test]
fn the_page_on_the_ladder_as_written() {
    page_as_written("ladder.md");
}

#[test]
fn the_page_on_bridges_as_written() {
    page_as_written("bridges.md");
}
