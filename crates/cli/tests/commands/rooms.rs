//! `who`, `channel …`, `group …`, `thread …` and `direct …`.

use crate::ids;
use crate::support::{Node, RunningNode};
use serde_json::json;

#[test]
fn who_is_there() {
    let node = Node::start();
    assert!(node.line("who").ok().err.contains("nobody yet"));
    node.line("inbox --as bob").ok();
    node.line("send channel/general hi").ok(); // as the person at the shell
    let roster = node.line("who --json").ok().json();
    let names: Vec<&str> =
        roster["agents"].as_array().unwrap().iter().map(|a| a["address"].as_str().unwrap()).collect();
    assert_eq!(names, ["agent:bob", "human:ana"]);
    let text = node.line("who --online").ok().out;
    assert!(text.contains("agent:bob") && text.contains("online"), "{text}");
    let leave = r#"{"type":"network.agent.leave","target":"core"}"#;
    let join = r#"{"type":"network.agent.join","source":"agent:bob","target":"core"}"#;
    node.typed("stdio", &format!("{join}\n{leave}\n")).ok();
    assert!(!node.line("who --online").ok().out.contains("agent:bob"));
}

#[test]
fn channels() {
    let node = Node::start();
    for name in ["bob", "carol"] {
        node.words(&["inbox", "--as", name]).ok();
    }
    let made = node.line("channel create dev --title Development --with bob --as alice --json").ok().json();
    assert_eq!(made["channel"], "channel/dev");
    assert_eq!(node.line("channel members dev").ok().out, "agent:alice\nagent:bob\n");
    assert_eq!(
        node.line("channel members dev --json").ok().json(),
        json!({"participants": ["agent:alice", "agent:bob"]})
    );
    assert_eq!(node.line("channel show channel/dev --json").ok().json()["title"], "Development");
    assert!(node.line("channel show dev").ok().out.contains("Development"));
    node.line("channel create dev --as bob").fails(5, "already_exists");
    assert_eq!(node.line("channel set dev title=Works starred=true").ok().out, "channel/dev is changed\n");
    let shown = node.line("channel show dev --json").ok().json();
    assert_eq!((&shown["title"], &shown["starred"]), (&json!("Works"), &json!(true)));
    node.line("channel set dev color=red").fails(2, "color");
    node.line("channel set nowhere title=x").fails(3, "unknown_target");
    node.line("channel create a/b --as bob").fails(2, "no address");
    let named = node.line("channel create --as alice").ok().out;
    assert!(named.starts_with("channel/channel-"), "{named}");

    node.line("channel join dev --as carol").ok();
    node.line("send channel/dev hello --as carol --id c1").ok();
    assert_eq!(ids(&node.line("inbox --as bob --json").ok()).last().unwrap(), "c1");
    node.line("channel leave dev --as carol").ok();
    node.line("channel join dev --agent carol --as alice").ok();
    node.line("channel leave dev --agent carol --as alice").ok();
    assert!(!node.line("channel members dev").ok().out.contains("carol"));

    node.line("member role bob master").ok();
    node.line("channel create hidden --private --as alice").ok();
    assert!(!node.line("channel list --as carol").ok().out.contains("hidden"));
    assert!(node.line("channel list --as alice").ok().out.contains("channel/hidden"));
    assert!(node.line("channel list --as bob").ok().out.contains("channel/hidden"), "a master sees it");
    node.line("channel join hidden --as carol").fails(3, "unknown_target");
    node.line("send channel/hidden hi --as carol").fails(3, "unknown_target");
    node.line("send channel/hidden quiet --as alice").ok();
    for name in ["bob", "carol"] {
        let read = node.words(&["history", "channel/hidden", "--as", name, "--json"]).ok();
        assert_eq!(ids(&read), Vec::<String>::new(), "{name} does not sit there");
    }

    node.line("channel delete dev --as carol").fails(4, "forbidden");
    node.line("channel delete dev --as alice").ok();
    node.line("channel show dev").fails(3, "there is no channel/dev");
    node.line("send channel/dev hi --as alice").fails(3, "unknown_target");
    let list = node.line("channel list --json").ok().json();
    assert!(list["channels"].as_array().unwrap().iter().all(|c| c["address"] != "channel/dev"), "{list}");
}

#[test]
fn groups() {
    let node = Node::start();
    for name in ["bob", "carol", "dave"] {
        node.words(&["inbox", "--as", name]).ok();
    }
    node.line("group set team bob carol").ok();
    assert_eq!(node.line("group show team --json").ok().json()["members"], json!(["agent:bob", "agent:carol"]));
    assert!(node.line("group show group/team").ok().out.contains("agent:bob, agent:carol"));
    node.line("send group/team hello --as dave --id g1").ok();
    for (name, expected) in [("bob", vec!["g1"]), ("carol", vec!["g1"]), ("dave", vec![])] {
        assert_eq!(ids(&node.words(&["inbox", "--as", name, "--json"]).ok()), expected, "{name}");
    }
    node.line("group set team dave --json").ok().json();
    let list = node.line("group list --json").ok().json();
    assert_eq!(list["groups"][0]["members"], json!(["agent:dave"]));
    assert!(node.line("group list").ok().out.contains("team"));
    node.line("group delete team --json").ok().json();
    node.line("group delete team").fails(3, "rialto group list");
    node.line("group show team").fails(3, "team");
    node.line("send group/team hello --as dave").fails(3, "unknown_target");
    node.line("group set bad/name bob").fails(2, "no address");
}

#[test]
fn threads() {
    let node = Node::start();
    node.line("inbox --as bob").ok();
    for (n, thread) in ["thread_one", "thread_one", "thread_two"].iter().enumerate() {
        node.words(&["send", "channel/general", "hi", "--as", "alice", "--thread", thread, "--id", &format!("t{n}")])
            .ok();
    }
    node.line("send channel/general beside --as alice").ok();
    node.line("send channel/general hi --as alice --thread not-a-thread").fails(2, "thread");
    let list = node.line("thread list general --json").ok().json();
    let names: Vec<&str> = list["threads"].as_array().unwrap().iter().map(|t| t["thread"].as_str().unwrap()).collect();
    assert!(names.len() == 2 && names.contains(&"thread_one") && names.contains(&"thread_two"), "{list}");
    assert!(node.line("thread list general").ok().out.contains("thread_two"));
    assert_eq!(ids(&node.line("thread show general thread_one --json").ok()), ["t0", "t1"]);
    assert_eq!(ids(&node.line("history channel/general --thread thread_two --json").ok()), ["t2"]);
    node.line("thread list nowhere").fails(3, "nowhere");
    node.line("thread show general thread_none").fails(3, "rialto thread list");
    node.line("thread post general thread_none hi --as alice").fails(3, "rialto thread new");

    let words = ["thread", "new", "general", "how?\nmore", "--title", "A question", "--as", "bob"];
    let thread = node.words(&words).ok().out.trim().to_owned();
    assert!(thread.starts_with("thread_"), "{thread}");
    node.words(&["thread", "post", "general", &thread, "like this", "--as", "alice"]).ok();
    let list = node.line("thread list --json --as bob").ok().json();
    let first = &list["threads"][0];
    assert_eq!((&first["thread"], &first["title"]), (&json!(thread), &json!("A question")), "the liveliest is first");
    assert_eq!((&first["message_count"], &first["unread"]), (&json!(2), &json!(1)), "one's own are not unread");
    assert_eq!((&first["opened_by"], &first["last_message_preview"]), (&json!("agent:bob"), &json!("like this")));
    assert_eq!(ids(&node.words(&["history", "--thread", &thread, "--json"]).ok()).len(), 2, "no channel is needed");
    let untitled = node.line("thread new general untitled --as bob --json").ok().json();
    let show = node.words(&["thread", "show", "general", untitled["thread"].as_str().unwrap()]).ok();
    assert!(show.out.contains("untitled") && show.err.contains("untitled: 1 messages"), "{show:?}");
    let page = node.line("thread list general --limit 1 --json").ok().json();
    assert_eq!((page["threads"].as_array().unwrap().len(), &page["has_more"]), (1, &json!(true)));
    node.line("thread new nowhere hi --as bob").fails(3, "unknown_target");

    node.line("channel create den --private --as alice").ok();
    let hidden = node.line("thread new den secret --as alice").ok().out.trim().to_owned();
    assert!(!node.line("thread list --as bob").ok().out.contains(&hidden));
    node.line("thread list den --as bob").fails(3, "unknown_target");
    node.words(&["thread", "show", "den", &hidden, "--as", "bob"]).fails(3, "unknown_target");
    assert_eq!(ids(&node.words(&["history", "--thread", &hidden, "--json", "--as", "bob"]).ok()), Vec::<String>::new());
}

#[test]
fn direct_rooms() {
    let node = Node::start();
    node.line("inbox --as bob").ok();
    node.line("send bob one --as alice --id d1").ok();
    node.line("send alice two --as bob --id d2").ok();
    assert_eq!(ids(&node.line("direct show bob --as alice --json").ok()), ["d1", "d2"]);
    assert_eq!(ids(&node.line("direct show alice --as bob --json").ok()), ["d1", "d2"]);
    let room = node.line("direct open bob --as alice").ok().out.trim().to_owned();
    let again = node.line("direct open alice --as bob --json").ok().json();
    assert_eq!(again["room"], json!(room), "both ends derive the same id");
    assert_eq!((&again["message_count"], &again["unread"]), (&json!(2), &json!(1)));
    let rooms = node.line("direct list --as bob --json").ok().json();
    assert_eq!(rooms["rooms"][0]["members"], json!(["agent:bob", "agent:alice"]));
    assert_eq!(rooms["rooms"][0]["last_message_preview"], "two");
    assert!(node.line("direct list --as alice").ok().out.contains("agent:bob"));

    // The same two in another channel are in another room.
    node.line("channel create dev --with bob --as alice").ok();
    let other = node.line("direct open bob --channel dev --as alice").ok().out.trim().to_owned();
    assert_ne!(room, other);
    let sent = node.words(&["direct", "send", &other, "three", "--as", "bob", "--json"]).ok().json();
    assert_eq!((&sent["target"], &sent["metadata"]["room_channel"]), (&json!("agent:alice"), &json!("channel/dev")));
    let third = sent["id"].as_str().unwrap();
    let fourth = node.line("direct send bob four --as alice").ok().out.trim().to_owned();
    for reader in ["alice", "bob"] {
        let read = |line: &[&str]| ids(&node.words(&[line, &["--as", reader, "--json"]].concat()).ok());
        assert_eq!(read(&["direct", "show", &room]), ["d1", "d2", &fourth]);
        assert_eq!(read(&["history", "--room", &other]), [third]);
        assert_eq!(read(&["search", "three", "--room", &other]), [third]);
        assert_eq!(read(&["search", "three", "--room", &room]), Vec::<String>::new());
    }
    assert_eq!(ids(&node.words(&["direct", "show", &room, "--json"]).ok()).len(), 3, "the operator sees it");

    assert_eq!(node.line("direct list --as carol --json").ok().json()["rooms"], json!([]));
    assert_eq!(ids(&node.line("direct show alice --as carol --json").ok()), Vec::<String>::new());
    for line in [&["direct", "show", &room][..], &["history", "--room", &room], &["direct", "send", &room, "hi"]] {
        node.words(&[line, &["--as", "carol"]].concat()).fails(3, "unknown_target");
    }
    node.line("direct open nobody --as alice").fails(3, "unknown_target");
    node.line("direct open alice --as alice").fails(2, "between two");
    node.line("direct open channel/general --as alice").fails(2, "speak as");

    let tail = RunningNode::start(node.command(&["tail", "--room", &room, "--since", "1h", "--json", "--as", "bob"]));
    assert!(tail.line().contains("\"d1\"") && tail.line().contains("\"d2\""));
    assert!(tail.line().contains(&fourth));
    node.line("direct send bob five --channel dev --as alice").ok();
    let sixth = node.line("direct send bob six --as alice").ok().out.trim().to_owned();
    assert!(tail.line().contains(&sixth), "what is said in another room is not shown");
}
