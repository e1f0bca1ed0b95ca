//! `rialto bridge` between real networks: chosen events go over once, whoever dies; and `rialto send NETWORK::entity`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(unreachable_pub, reason = "tests")]

mod support;

use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Node, PATIENCE, RunningNode, until};

/// A second network of the node: its id and its token.
fn network(node: &Node, name: &str) -> (String, String) {
    let made = node.words(&["network", "create", name, "--json"]).ok().json();
    (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
}

fn bridge(node: &Node, words: &[&str]) -> Command {
    node.command(&[&["bridge", "--json"], words].concat())
}

/// Whether the bridge's member is in the network: from then on nothing is missed.
fn wait_for(node: &Node, network: &str, member: &str) {
    until(&format!("{member} in {network}"), || {
        let who = node.words(&["who", "--network", network, "--json"]).ok().out;
        who.contains(&format!("\"{member}\"")).then_some(())
    });
    // Its seat, too.
    until("its seat", || {
        let seats = node.words(&["channel", "members", "plan", "--network", network, "--json"]);
        seats.out.contains(member).then_some(())
    });
}

fn say(node: &Node, network: &str, text: &str) {
    node.words(&["send", "channel/plan", text, "--as", "bob", "--network", network]).ok();
}

/// What was said in the channel, oldest first.
fn said(node: &Node, network: &str) -> Vec<Value> {
    let history =
        node.words(&["history", "channel/plan", "--type", "workspace.message.posted", "--network", network, "--json"]);
    let events: Vec<Value> = history.ok().lines();
    events
        .into_iter()
        .flat_map(|one| one.get("events").and_then(Value::as_array).cloned().unwrap_or_else(|| vec![one]))
        .collect()
}

fn texts(node: &Node, network: &str) -> Vec<String> {
    said(node, network).iter().map(|event| event["payload"]["content"].as_str().unwrap().to_owned()).collect()
}

fn expect(node: &Node, network: &str, wanted: &[&str]) {
    until(&format!("{wanted:?} in {network}"), || (texts(node, network).len() >= wanted.len()).then_some(()));
    assert_eq!(texts(node, network), wanted, "in {network}");
}

fn plan(node: &Node, networks: &[&str]) {
    for network in networks {
        node.words(&["channel", "create", "plan", "--as", "bob", "--network", network]).ok();
    }
}

/// Ends with this exit code, and says this.
fn ends(mut child: Child, code: i32, saying: &str) {
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it goes on");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut err = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut err).unwrap();
    assert_eq!(status.code(), Some(code), "{err}");
    assert!(err.contains(saying), "{err}");
}

#[test]
fn what_was_chosen_goes_over_once_whoever_dies() {
    let mut node = Node::start();
    let (beta, _) = network(&node, "beta");
    let main = node.network().to_owned();
    plan(&node, &["main"]);
    node.words(&["channel", "create", "other", "--as", "bob"]).ok();
    let words = ["--from", "main", "--to", "beta", "--match", "channel/plan", "--match", "workspace.*"];
    let running = RunningNode::start(bridge(&node, &words));
    let member = format!("agent:bridge-{beta}");
    wait_for(&node, "main", &member);
    say(&node, "main", "one");
    node.words(&["send", "channel/other", "not this", "--as", "bob"]).ok();
    node.words(&["send", "channel/plan", "--type", "myapp.task.done", "--payload", "{}", "--as", "bob"]).ok();
    say(&node, "main", "two");
    expect(&node, "beta", &["one", "two"]);
    let over = &said(&node, "beta")[0];
    let source = &said(&node, "main")[0];
    assert_eq!(over["metadata"]["via"], json!([main]));
    assert_eq!(over["metadata"]["bridged"], json!({ "network": main, "id": source["id"], "source": "agent:bob" }));
    assert_eq!(over["source"], json!(format!("agent:bridge-{main}")));
    assert_ne!(over["id"], source["id"]);
    let told: Value = serde_json::from_str(&running.line()).unwrap();
    assert_eq!((&told["passed"], &told["duplicate"]), (&source["id"], &json!(false)));

    drop(running); // as `kill -9` does
    say(&node, "main", "three");
    say(&node, "main", "four");
    let running = RunningNode::start(bridge(&node, &words));
    expect(&node, "beta", &["one", "two", "three", "four"]);

    node.kill();
    node.restart();
    say(&node, "main", "five");
    expect(&node, "beta", &["one", "two", "three", "four", "five"]);
    drop(running);
}

/// Killed between the other network's answer and the ack: what comes again is recognised.
#[test]
fn what_was_sent_and_not_acked_is_not_doubled() {
    let node = Node::start();
    let (beta, _) = network(&node, "beta");
    plan(&node, &["main"]);
    let words = ["--from", "main", "--to", "beta", "--match", "channel/plan"];
    drop({
        let running = RunningNode::start(bridge(&node, &words));
        wait_for(&node, "main", &format!("agent:bridge-{beta}"));
        running
    });
    let all: Vec<String> = (0..40).map(|n| format!("m{n}")).collect();
    for text in &all {
        say(&node, "main", text);
    }
    // Killed again and again while it works.
    let deadline = Instant::now() + PATIENCE;
    let mut wait = 30;
    while texts(&node, "beta").len() < all.len() {
        assert!(Instant::now() < deadline, "{:?}", texts(&node, "beta"));
        let running = RunningNode::start(bridge(&node, &words));
        std::thread::sleep(Duration::from_millis(wait));
        wait += 40;
        drop(running);
    }
    let whole: Vec<&str> = all.iter().map(String::as_str).collect();
    expect(&node, "beta", &whole);
    let running = RunningNode::start(bridge(&node, &words));
    say(&node, "main", "last");
    expect(&node, "beta", &[&whole[..], &["last"]].concat());
    drop(running);
}

#[test]
fn circles_end() {
    let node = Node::start();
    let (beta, _) = network(&node, "beta");
    let (gamma, _) = network(&node, "gamma");
    plan(&node, &["main", "beta", "gamma"]);
    let ways = [("main", "beta", &beta), ("beta", "gamma", &gamma)];
    let mut running: Vec<RunningNode> = ways
        .iter()
        .map(|(from, to, _)| {
            RunningNode::start(bridge(&node, &["--from", from, "--to", to, "--match", "channel/plan", "--both"]))
        })
        .collect();
    let main = node.network().to_owned();
    running.push(RunningNode::start(bridge(&node, &["--from", "gamma", "--to", "main", "--match", "channel/plan"])));
    for (from, _, to) in ways {
        wait_for(&node, from, &format!("agent:bridge-{to}"));
    }
    wait_for(&node, "gamma", &format!("agent:bridge-{main}"));
    wait_for(&node, "beta", &format!("agent:bridge-{main}"));
    wait_for(&node, "gamma", &format!("agent:bridge-{beta}"));
    say(&node, "main", "hello");
    expect(&node, "gamma", &["hello"]);
    expect(&node, "beta", &["hello"]);
    say(&node, "gamma", "back");
    // From gamma there are two ways to each of the others: straight, and by the third. Each copy is a bridge's.
    expect(&node, "beta", &["hello", "back", "back"]);
    expect(&node, "main", &["hello", "back", "back"]);
    std::thread::sleep(Duration::from_millis(500));
    let ways: Vec<Value> = said(&node, "main")[1..].iter().map(|event| event["metadata"]["via"].clone()).collect();
    assert!(ways.contains(&json!([gamma])) && ways.contains(&json!([gamma, beta])), "{ways:?}");
    let sizes = ["main", "beta", "gamma"].map(|network| texts(&node, network).len());
    assert_eq!(sizes, [3, 3, 2], "nothing comes back to where it has been");
}

#[test]
fn a_bridge_ends_with_its_credential_and_loses_nothing() {
    let node = Node::start();
    let (beta, token) = network(&node, "beta");
    plan(&node, &["main"]);
    let made = node.words(&["token", "new", "--network", "beta", "--label", "bridge", "--json"]).ok().json();
    let lent = made["token"].as_str().unwrap();
    let words = ["--from", "main", "--to", "beta", "--match", "channel/plan", "--to-token", lent];
    let mut command = bridge(&node, &words);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(&node, "main", &format!("agent:bridge-{beta}"));
    say(&node, "main", "one");
    expect(&node, "beta", &["one"]);
    node.words(&["token", "revoke", "--network", "beta", "bridge"]).ok();
    say(&node, "main", "two");
    ends(child, 4, "invalid_token");
    say(&node, "main", "three");
    let running = RunningNode::start(bridge(
        &node,
        &["--from", "main", "--to", "beta", "--match", "channel/plan", "--to-token", &token],
    ));
    expect(&node, "beta", &["one", "two", "three"]);
    drop(running);
}

#[test]
fn what_cannot_be_bridged_is_said() {
    let node = Node::start();
    let (beta, token) = network(&node, "beta");
    node.words(&["bridge", "--from", "main", "--to", "main"]).fails(2, "the same network");
    node.words(&["bridge", "--from", "main", "--to", node.network()]).fails(2, "the same network");
    node.words(&["bridge", "--from", "main", "--to", "nowhere"]).fails(3, "nowhere");
    node.words(&["bridge", "--from", "main", "--to", "beta", "--match", "general"]).fails(2, "is no pattern");
    node.words(&["bridge", "--from", "main", "--to", "beta", "--match", "channel/none"]).fails(3, "none");
    let wrong = ["bridge", "--from", "main", "--to", "beta", "--to-token", "no-such-token-no-such-token"];
    node.words(&wrong).fails(4, "invalid_token");
    node.words(&["bridge", "--from", "main", "--to", "beta", "--from-token", &token]).fails(4, "invalid_token");
    plan(&node, &["main"]);
    let running = RunningNode::start(bridge(&node, &["--from", "main", "--to", "beta", "--match", "channel/plan"]));
    wait_for(&node, "main", &format!("agent:bridge-{beta}"));
    node.words(&["bridge", "--from", "main", "--to", "beta"]).fails(5, "another bridge");
    drop(running);
}

/// Nobody there takes it: it stays in the bridge's own inbox, and what comes after it goes on.
#[test]
fn what_the_other_network_refuses_stays_behind_unacked() {
    let node = Node::start();
    let (beta, _) = network(&node, "beta");
    plan(&node, &["main", "beta"]);
    node.words(&["channel", "create", "plan-b", "--as", "bob"]).ok();
    let member = format!("agent:bridge-{beta}");
    let running = RunningNode::start(bridge(
        &node,
        &["--from", "main", "--to", "beta", "--match", "channel/plan", "--match", "channel/plan-?"],
    ));
    wait_for(&node, "main", &member);
    let seat = json!({ "channel": "plan-b", "agent": member }).to_string();
    node.words(&["send", "core", "--type", "network.channel.join", "--payload", &seat, "--as", "bob"]).ok();
    node.words(&["channel", "join", "plan", "--as", &format!("agent:bridge-{}", node.network()), "--network", "beta"]);
    node.words(&["send", "channel/plan-b", "nobody there has this channel", "--as", "bob"]).ok();
    say(&node, "main", "but this one");
    expect(&node, "beta", &["but this one"]);
    let refused: Value = std::iter::repeat_with(|| serde_json::from_str::<Value>(&running.line()).unwrap())
        .find(|told| told.get("refused").is_some())
        .unwrap();
    assert!(refused["error"].as_str().is_some_and(|error| error.starts_with("unknown_target")), "{refused}");
    let waiting = node.words(&["inbox", "--as", &member, "--json"]).ok().out;
    assert!(waiting.contains("nobody there has this channel"), "{waiting}");
    drop(running);
}

#[test]
fn a_network_of_the_same_node_is_found_by_itself() {
    let node = Node::start();
    let (beta, _) = network(&node, "beta");
    node.words(&["who", "--as", "bob", "--network", "beta"]).ok();
    let sent =
        node.words(&["send", &format!("{beta}::agent:bob"), "over the border", "--as", "ana", "--json"]).ok().json();
    assert_eq!((&sent["network"], &sent["target"]), (&json!(beta), &json!("agent:bob")));
    node.words(&["send", "beta::agent:bob", "by its name", "--as", "ana"]).ok();
    let inbox = node.words(&["inbox", "--as", "bob", "--network", "beta", "--json"]).ok().out;
    assert!(inbox.contains("over the border") && inbox.contains("by its name"), "{inbox}");
    // One's own network by its id is no other network.
    node.words(&["who", "--as", "eve"]).ok();
    node.words(&["send", &format!("{}::agent:eve", node.network()), "at home", "--as", "ana"]).ok();
    node.words(&["send", "ffffffff::agent:bob", "hi", "--as", "ana"]).fails(3, "--to-url");
}

#[test]
fn a_network_of_another_node_is_configured_or_named() {
    let (here, there) = (Node::start(), Node::start());
    there.words(&["who", "--as", "bob"]).ok();
    let url = format!("{}/v1/ws/{}", there.url(), there.network());
    let target = format!("{}::agent:bob", there.network());
    let words = ["send", &target, "one", "--as", "ana", "--to-url", &url, "--to-token", &there.token];
    here.words(&words).ok();
    // The token of the own network is not shown to another.
    let mut without = here.command(&["send", &target, "one", "--as", "eva", "--to-url", &url]);
    without.env("RIALTO_TOKEN", &here.token);
    support::Ran::of(without, "").fails(4, "token_required");
    let token_file = here.path("beta.token");
    std::fs::write(&token_file, &there.token).unwrap();
    let file = here.path("rialto.toml");
    let text = format!("[networks.beta]\nurl = {url:?}\ntoken_file = {:?}\n", token_file.display().to_string());
    std::fs::write(&file, text).unwrap();
    let config = file.display().to_string();
    here.words(&["send", "beta::agent:bob", "two", "--as", "ana", "--config", &config]).ok();
    let inbox = there.words(&["inbox", "--as", "bob", "--json"]).ok().out;
    assert!(inbox.contains("\"one\"") && inbox.contains("\"two\""), "{inbox}");
    // And a bridge to it.
    plan(&here, &["main"]);
    let running = RunningNode::start(here.command(&[
        "bridge",
        "--json",
        "--from",
        "main",
        "--to",
        "beta",
        "--match",
        "channel/plan",
        "--config",
        &config,
    ]));
    wait_for(&here, "main", &format!("agent:bridge-{}", there.network()));
    say(&here, "main", "three");
    expect(&there, "main", &["three"]);
    drop(running);
}
