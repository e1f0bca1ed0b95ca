//! Channels: making, deleting, seating oneself and others (sheet sections 1.5 and 5).

use crate::world::{World, outcome};
use expect_test::expect;
use rialto_engine::AdminOp;
use rialto_model::Role;
use serde_json::{Value, json};

fn world() -> World {
    let mut world = World::plain().joined(&["agent:maker", "agent:seat", "agent:other", "human:ana", "agent:boss"]);
    world.admin(AdminOp::Role("agent:boss".into(), Role::Master)).unwrap();
    world
}

fn create(world: &mut World, payload: Value) -> Result<Value, rialto_model::Fault> {
    world.act("agent:maker", "network.channel.create", payload)
}

#[test]
fn create_seats_its_creator_and_participants() {
    let mut world = world();
    let result = create(
        &mut world,
        json!({ "name": "dev", "title": "Dev", "participants": ["seat"], "human_participants": ["human:ana"] }),
    );
    assert_eq!(result.unwrap(), json!({ "channel": "channel/dev", "name": "dev" }));
    let entry = json!(world.state().channel_view(0));
    assert_eq!(entry["participants"], json!(["agent:maker", "agent:seat", "human:ana"]));
    assert_eq!((&entry["master"], &entry["title"]), (&json!("agent:maker"), &json!("Dev")));
    // Its members learn of it, under the channel's own address.
    let event = &world.events[&world.head()].event;
    assert_eq!((event.target(), event.visibility.as_str()), ("channel/dev", "channel"));
    assert_eq!(world.pending("agent:seat"), [world.head()]);
    assert_eq!(world.pending("agent:other"), [0; 0]);
    for (payload, code) in [
        (json!({ "name": "dev" }), "already_exists"),
        (json!({ "name": "channel/dev" }), "already_exists"),
        (json!({ "name": "a/b" }), "invalid_address"),
        (json!({ "name": "x", "participants": ["nobody"] }), "unknown_target"),
        (json!({ "name": "x", "master": "nobody" }), "unknown_target"),
        (json!({ "name": "x", "title": "t".repeat(513) }), "invalid_payload"),
    ] {
        assert_eq!(outcome(&create(&mut world, payload.clone())), code, "{payload}");
    }
    assert_eq!(world.state().book.channels.len(), 1);
}

#[test]
fn a_name_is_made_where_none_is_given() {
    let mut world = world();
    let names: Vec<String> =
        (0..3).map(|_| create(&mut world, json!({})).unwrap()["name"].as_str().unwrap().to_owned()).collect();
    for name in &names {
        let hex = name.strip_prefix("channel-").unwrap();
        assert!(hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
    }
    assert!(names[0] != names[1] && names[1] != names[2]);
}

#[test]
fn who_may_do_what() {
    let mut out = String::new();
    let act = |private: bool, who: &str, kind: &str, agent: Option<&str>| {
        let mut world = world();
        create(&mut world, json!({ "name": "dev", "private": private, "participants": ["seat"] })).unwrap();
        let mut payload = json!({ "channel": "channel/dev" });
        if let Some(agent) = agent {
            payload["agent"] = json!(agent);
        }
        outcome(&world.act(who, &format!("network.channel.{kind}"), payload))
    };
    for private in [false, true] {
        for who in ["agent:maker", "agent:seat", "agent:other", "human:ana", "agent:boss"] {
            let join = act(private, who, "join", None);
            let seat = act(private, who, "join", Some("agent:boss"));
            let unseat = act(private, who, "leave", Some("agent:seat"));
            let delete = act(private, who, "delete", None);
            let kind = if private { "private" } else { "open" };
            out += &format!("{kind:7} {who:11} join: {join:14} seat: {seat:14} unseat: {unseat:14} delete: {delete}\n");
        }
    }
    expect![[r#"
        open    agent:maker join: ok             seat: ok             unseat: ok             delete: ok
        open    agent:seat  join: ok             seat: forbidden      unseat: ok             delete: forbidden
        open    agent:other join: ok             seat: forbidden      unseat: forbidden      delete: forbidden
        open    human:ana   join: ok             seat: ok             unseat: forbidden      delete: forbidden
        open    agent:boss  join: ok             seat: ok             unseat: ok             delete: ok
        private agent:maker join: ok             seat: ok             unseat: ok             delete: ok
        private agent:seat  join: ok             seat: ok             unseat: ok             delete: forbidden
        private agent:other join: unknown_target seat: unknown_target unseat: unknown_target delete: unknown_target
        private human:ana   join: unknown_target seat: unknown_target unseat: unknown_target delete: unknown_target
        private agent:boss  join: ok             seat: ok             unseat: ok             delete: ok
    "#]]
    .assert_eq(&out);
}

#[test]
fn joining_and_leaving() {
    let mut world = world();
    create(&mut world, json!({ "name": "dev" })).unwrap();
    let joined = world.act("agent:seat", "network.channel.join", json!({ "channel": "dev" })).unwrap();
    assert_eq!(joined, json!({ "channel": "channel/dev", "participants": ["agent:maker", "agent:seat"] }));
    assert_eq!(world.pending("agent:maker"), [world.head()], "members learn of the newcomer");
    let again = world.act("agent:seat", "network.channel.join", json!({ "channel": "dev" })).unwrap();
    assert_eq!(again["participants"].as_array().unwrap().len(), 2);
    let before = world.say("agent:maker", "channel/dev");
    world.act("agent:seat", "network.channel.leave", json!({ "channel": "dev" })).unwrap();
    let after = world.say("agent:maker", "channel/dev");
    assert!(world.pending("agent:seat").contains(&before) && !world.pending("agent:seat").contains(&after));
    // Leaving once more changes nothing and tells nobody: it is no way to post without a seat.
    let pending = world.pending("agent:maker").len();
    assert_eq!(
        outcome(&world.act("agent:seat", "network.channel.leave", json!({ "channel": "dev", "text": "hi" }))),
        "ok"
    );
    assert_eq!(world.pending("agent:maker").len(), pending);
    world.act("agent:seat", "network.channel.join", json!({ "channel": "dev" })).unwrap();
    let back = world.say("agent:maker", "channel/dev");
    assert!(world.pending("agent:seat").contains(&back) && !world.pending("agent:seat").contains(&after));
    assert_eq!(outcome(&world.act("agent:seat", "network.channel.join", json!({}))), "invalid_event");
}

#[test]
fn deleting_keeps_history_and_pending_mail() {
    let mut world = world();
    create(&mut world, json!({ "name": "dev", "participants": ["seat"] })).unwrap();
    let seq = world.say("agent:maker", "channel/dev");
    world.act("agent:maker", "network.channel.delete", json!({ "channel": "dev" })).unwrap();
    assert_eq!(world.pending("agent:seat"), [seq - 1, seq, world.head()]);
    assert_eq!(world.try_say("agent:maker", "channel/dev"), "unknown_target");
    // The name may be used again, apart from the old one.
    create(&mut world, json!({ "name": "dev" })).unwrap();
    let new = world.say("agent:maker", "channel/dev");
    assert!(!world.pending("agent:seat").contains(&new));
}

#[test]
fn masters_of_channels() {
    let mut world = World::plain().joined(&["human:ana", "agent:a", "agent:b"]);
    world.act("human:ana", "network.channel.create", json!({ "name": "dev" })).unwrap();
    assert_eq!(world.state().channel_view(0).unwrap().master, None);
    world.act("agent:a", "network.channel.join", json!({ "channel": "dev" })).unwrap();
    world.act("agent:b", "network.channel.join", json!({ "channel": "dev" })).unwrap();
    assert_eq!(world.state().channel_view(0).unwrap().master.as_deref(), Some("agent:a"), "the first agent seated");
    world.act("agent:a", "network.channel.leave", json!({ "channel": "dev" })).unwrap();
    assert_eq!(world.state().channel_view(0).unwrap().master.as_deref(), Some("agent:b"), "never a human");
}

#[test]
fn removing_members() {
    let mut world = World::workspace().joined(&["agent:m", "agent:old", "agent:new", "human:ana"]);
    world.admin(AdminOp::Role("agent:m".into(), Role::Master)).unwrap();
    let letter = world.say("agent:new", "agent:m");
    let gone = json!({ "agent_name": "m" });
    assert_eq!(outcome(&world.act("human:ana", "network.agent.remove", gone)), "forbidden", "a person manages nothing");
    world.set(json!({ "token_manages": true }));
    assert_eq!(outcome(&world.act("agent:new", "network.agent.remove", json!({ "agent_name": "m" }))), "forbidden");
    assert_eq!(
        outcome(&world.act("human:ana", "network.agent.remove", json!({ "agent_name": "nobody" }))),
        "unknown_target"
    );
    let result = world.act("human:ana", "network.agent.remove", json!({ "agent_name": "m" })).unwrap();
    assert_eq!(result, json!({ "status": "removed", "new_master": "agent:old" }));
    assert_eq!(world.state().member_id("agent:m"), None);
    assert_eq!(world.try_say("agent:m", "core"), "invalid_token");
    let id = world.events[&letter].event.id().to_owned();
    assert_eq!(world.notices(), [("agent:new".into(), "agent:m".into(), "recipient_left".into(), vec![id])]);
    assert!(!world.state().channel(0).unwrap().seated.contains(&0));
    // In a plain network humans do not remove.
    let mut plain = World::plain().joined(&["agent:a", "human:ana"]);
    assert_eq!(outcome(&plain.act("human:ana", "network.agent.remove", json!({ "agent_name": "a" }))), "forbidden");
    // A name that comes back is a new member with nothing of the old.
    world.join("agent:m");
    assert_eq!((world.id("agent:m"), world.pending("agent:m")), (4, vec![]));
}
