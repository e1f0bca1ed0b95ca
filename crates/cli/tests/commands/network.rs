//! `network …`: create, list, show, pause, resume, archive, tokens.

use crate::support::{Node, Ran, rialto};

fn from_afar(node: &Node, token: &str, line: &str) -> Ran {
    let mut command = rialto();
    command.args(line.split(' ')).args(["--url", node.url()]).env("RIALTO_TOKEN", token);
    command.env("RIALTO_DATA", node.path("elsewhere"));
    Ran::of(command, "")
}

#[test]
fn a_network_from_its_making_to_its_end() {
    let node = Node::start();
    let made = node.line("network create lab --json").ok().json();
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    assert_eq!((&made["name"], &made["policy"]), (&"lab".into(), &"token".into()));
    let list = node.line("network list").ok().out;
    assert!(list.contains(id) && list.contains("lab") && list.contains("main"), "{list}");
    assert_eq!(node.line("network list --json").ok().json()["networks"].as_array().unwrap().len(), 2);
    for which in [id, "lab"] {
        assert_eq!(node.words(&["network", "show", which, "--json"]).ok().json()["id"], id);
    }
    assert!(node.line("network show lab").ok().out.contains("at-least-once"));
    node.line("network show nowhere").fails(3, "network");
    node.line("network create lab").fails(5, "lab");

    from_afar(&node, token, "send channel/general hello --as bob").fails(4, "not_a_channel_member");
    from_afar(&node, token, "channel join general --as bob").ok();
    from_afar(&node, token, "send channel/general hello --as bob").ok();
    assert!(node.line("network pause lab").ok().out.contains("paused"));
    from_afar(&node, token, "send channel/general more --as bob").fails(6, "network_paused");
    assert!(from_afar(&node, token, "history channel/general --as bob").ok().out.contains("hello"));
    node.line("network resume lab").ok();
    from_afar(&node, token, "send channel/general more --as bob").ok();
    node.line("network archive lab").ok();
    from_afar(&node, token, "send channel/general last --as bob").fails(6, "network_archived");
    let shown = node.line("history channel/general --network lab").ok().out;
    assert!(shown.contains("hello") && shown.contains("more") && !shown.contains("last"), "{shown}");
    assert_eq!(node.line("network resume lab --json").ok().json()["status"], "active");
}

#[test]
fn tokens_are_shown_once_and_end_when_revoked() {
    let node = Node::start();
    let token = node.line("network token new --label ci").ok();
    assert!(token.err.contains("shown this once"));
    let token = token.out.trim().to_owned();
    let list = node.line("network token list").ok().out;
    assert!(list.contains("ci") && !list.contains(&token), "{list}");
    from_afar(&node, &token, "send channel/general hi --as bob").ok();
    let observer = node.line("network token new --label eye --role observer --json").ok().json();
    let observer = observer["token"].as_str().unwrap();
    from_afar(&node, observer, "send channel/general hi --as watcher").fails(4, "observer_read_only");
    let named = node.line("network token new --label one --agent carol --json").ok().json();
    let named = named["token"].as_str().unwrap();
    from_afar(&node, named, "who --as carol").ok();
    assert_eq!(from_afar(&node, named, "who --as dave").code, 4);
    assert_eq!(node.line("network token list --json").ok().json()["tokens"].as_array().unwrap().len(), 4);

    node.line("network token revoke ci").ok();
    node.line("network token revoke ci").fails(3, "ci");
    assert_eq!(from_afar(&node, &token, "send channel/general hi --as newcomer").code, 4);
    assert_eq!(from_afar(&node, "no-such-token-0123456789", "who --as dave").code, 4);
    // Nobody rules the node with a network token.
    assert_eq!(from_afar(&node, &node.token, "network list").code, 4);
}

#[test]
fn nothing_crosses_from_one_network_to_another() {
    let node = Node::start();
    node.line("network create lab").ok();
    node.line("inbox --as bob").ok();
    node.line("send bob only-in-main --as alice").ok();
    node.line("send bob x --as alice --network lab").fails(3, "unknown_target");
    assert!(!node.line("history --network lab --json").ok().out.contains("only-in-main"));
    assert_eq!(node.line("search only-in-main --network lab --json").ok().json()["events"], serde_json::json!([]));
}

#[test]
fn invitations_are_codes_shown_once() {
    let node = Node::start();
    let made = node.line("network invite eve --role observer --expires 1d --uses 2 --json").ok().json();
    assert!(made["invitation_id"].as_str().unwrap().starts_with("inv_"), "{made}");
    let code = made["code"].as_str().unwrap();
    assert!(made["url"].as_str().unwrap().contains(code), "{made}");
    let plain = node.line("network invite").ok();
    assert!(plain.out.trim().len() == code.len() && plain.out.trim() != code, "{}", plain.out);
    assert!(plain.err.contains("shown this once"), "{}", plain.err);
    node.line("network invite --expires never").fails(2, "7d");
    node.line("network invite --channel nowhere").fails(3, "unknown_target");
}
