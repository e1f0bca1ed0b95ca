//! `me …`, `channel mute|unmute`, receipts as mail, and the rungs of work.

use crate::support::Node;
use crate::{ids, rung};
use serde_json::json;

#[test]
fn a_muted_channel_sends_no_mail() {
    let node = Node::start();
    node.line("inbox --as bob").ok();
    assert_eq!(node.line("channel mute general --as bob").ok().out, "channel/general is muted\n");
    node.line("send channel/general hush --as alice --id h1").ok();
    assert!(!ids(&node.line("inbox --as bob --json").ok()).contains(&"h1".to_owned()));
    assert!(ids(&node.line("history channel/general --as bob --json").ok()).contains(&"h1".to_owned()));
    node.line("send channel/general me --as bob").ok();
    let me = node.line("me show --as bob --json").ok().json();
    assert_eq!((&me["muted"], &me["channels"]), (&json!(["channel/general"]), &json!(["channel/general"])));
    assert!(node.line("channel unmute general --as bob").ok().out.contains("heard again"));
    node.line("send channel/general loud --as alice --id h2").ok();
    assert_eq!(ids(&node.line("inbox --as bob --json").ok()).last().unwrap(), "h2");
    node.line("channel create dev --as alice").ok();
    node.line("channel mute dev --as bob").fails(4, "not_a_channel_member");
    node.line("channel mute nowhere --as bob").fails(3, "unknown_target");
}

#[test]
fn do_not_disturb() {
    let node = Node::start();
    node.line("inbox --as bob").ok();
    assert!(node.line("me dnd 2h --as bob").ok().out.starts_with("mail waits until 20"));
    let entry = node.line("who --json").ok().json()["agents"][0].clone();
    assert_eq!((&entry["address"], &entry["dnd"]), (&json!("agent:bob"), &json!(true)));
    node.line("send bob psst --as alice --id p1").ok();
    assert_eq!(ids(&node.line("inbox --as bob --json").ok()), ["p1"], "what is asked for comes");
    assert_eq!(node.line("me dnd off --as bob --json").ok().json()["dnd"], false);
    assert!(node.line("me dnd on --as bob").ok().out.contains("rialto me dnd off"));
    node.line("me dnd sometimes --as bob").fails(2, "neither on, off");
    node.line("me dnd 60d --as bob").fails(2, "invalid_argument");
}

#[test]
fn a_rename_takes_mail_and_session_along() {
    let node = Node::start();
    node.line("send channel/general first --as bob --id b1").ok();
    node.line("inbox --as bob").ok();
    node.line("send bob before --as alice --id m1").ok();
    assert_eq!(node.line("me rename bert --as bob").ok().out, "you are agent:bert\n");
    node.line("send bob after --as alice --id m2").ok();
    assert_eq!(ids(&node.line("inbox --as bert --json").ok()), ["m1", "m2"]);
    assert_eq!(node.line("who --json").ok().json()["agents"].as_array().unwrap().len(), 2, "nobody joined anew");
    let sent = node.line("history --from bert --as alice --json").ok();
    assert!(ids(&sent).contains(&"b1".to_owned()), "{sent:?}");
    node.line("me rename alice --as bert").fails(5, "address_taken");
    node.line("me rename human:x --as bert").fails(2, "invalid_address");
    node.line("me rename ana2").fails(4, "forbidden"); // a person
    // The old name leads to who had it, until the operator frees it: then whoever uses it is somebody else.
    assert_eq!(ids(&node.line("inbox --as bob --json").ok()), ["m1", "m2"]);
    node.line("member release bob").ok();
    node.line("inbox --as bob").ok();
    node.line("send bob anew --as alice --id m3").ok();
    assert_eq!(ids(&node.line("inbox --as bob --json").ok()), ["m3"]);
    assert_eq!(ids(&node.line("inbox --as bert --json").ok()), ["m1", "m2"]);
}

#[test]
fn a_receipt_waits_in_the_inbox_and_work_climbs_the_ladder() {
    let node = Node::start();
    node.line("inbox --as bob").ok();
    node.line("inbox --as alice").ok();
    node.line("send bob confirm --as alice --receipt --id m1").ok();
    node.line("ack m1 --as bob").ok();
    let page = node.line("inbox --as alice --json").ok().json();
    let receipt = page["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&receipt["type"], &receipt["source"]), (&json!("network.event.ack"), &json!("agent:bob")));
    assert_eq!(receipt["metadata"]["in_reply_to"], "m1");
    let ask = r#"{"id":"w1","type":"workspace.message.posted","target":"agent:bob","payload":{"content":"do"},"metadata":{"work":{}}}"#;
    let join = |name: &str| format!(r#"{{"type":"network.agent.join","source":"agent:{name}","target":"core"}}"#);
    node.typed("stdio", &format!("{}\n{ask}\n", join("carol"))).ok();
    let explained = node.line("explain w1 --json").ok().json();
    let id = explained["work"]["id"].as_str().unwrap().to_owned();
    assert_eq!((&explained["work"]["state"], rung(&explained, "agent:bob")), (&json!("submitted"), &json!("stored")));
    let update = format!(r#"{{"type":"work.update","target":"core","payload":{{"work":"{id}","state":"working"}}}}"#);
    node.words(&["send", "core", "--type", "work.update", "--payload", &payload(&update), "--as", "bob"]).ok();
    let explained = node.line("explain w1 --json").ok().json();
    assert_eq!(rung(&explained, "agent:bob"), "working");
    assert!(node.line("explain w1").ok().out.contains("working"));
}

fn payload(event: &str) -> String {
    serde_json::from_str::<serde_json::Value>(event).unwrap()["payload"].to_string()
}
