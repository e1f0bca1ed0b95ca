//! Status of the network and roles of the senders (sheet sections 1.4 and 1.5).

use crate::world::{Join, World, outcome};
use expect_test::expect;
use rialto_engine::{AdminOp, Effect};
use serde_json::{Value, json};

const KINDS: &[(&str, &str)] = &[
    ("network.agent.leave", "core"),
    ("network.agent.discover", "core"),
    ("network.agent.announce", "agent:broadcast"),
    ("network.agent.remove", "core"),
    ("network.channel.create", "core"),
    ("network.channel.delete", "core"),
    ("network.channel.join", "core"),
    ("network.channel.leave", "core"),
    ("network.resource.register", "core"),
    ("network.resource.unregister", "core"),
    ("network.resource.discover", "core"),
    ("network.resource.invoke", "resource/tool/t"),
    ("network.resource.read", "resource/file/f"),
    ("network.resource.update", "resource/file/f"),
    ("network.ping", "core"),
    ("network.events.query", "core"),
    ("chat.message.posted", "core"),
];

/// What each type is answered with: `refused` codes of the gate alone; `passes` if the gate let it through.
fn gates(gate: &str, make: impl Fn() -> World) -> String {
    let mut out = String::new();
    for (kind, target) in KINDS {
        let mut world = make();
        let payload = json!({ "channel": "general", "address": "agent:b" });
        let result = world.emit("agent:a", json!({ "type": kind, "target": target, "payload": payload }));
        let code = outcome(&result);
        out += &format!("{kind:29} {}\n", if code == gate { gate } else { "passes" });
    }
    out
}

fn seated() -> World {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.admin(AdminOp::CreateChannel("general".into())).unwrap();
    world
}

#[test]
fn paused() {
    let make = || {
        let mut world = seated();
        world.set(json!({ "status": "paused" }));
        world
    };
    expect![[r#"
        network.agent.leave           passes
        network.agent.discover        passes
        network.agent.announce        network_paused
        network.agent.remove          network_paused
        network.channel.create        network_paused
        network.channel.delete        network_paused
        network.channel.join          network_paused
        network.channel.leave         network_paused
        network.resource.register     network_paused
        network.resource.unregister   network_paused
        network.resource.discover     passes
        network.resource.invoke       network_paused
        network.resource.read         passes
        network.resource.update       network_paused
        network.ping                  passes
        network.events.query          passes
        chat.message.posted           network_paused
    "#]]
    .assert_eq(&gates("network_paused", make));
    let mut world = make();
    assert_eq!(outcome(&world.try_join("agent:c", Join::token())), "network_paused");
}

#[test]
fn archived() {
    let make = || {
        let mut world = seated();
        world.set(json!({ "status": "archived" }));
        world
    };
    expect![[r#"
        network.agent.leave           network_archived
        network.agent.discover        passes
        network.agent.announce        network_archived
        network.agent.remove          network_archived
        network.channel.create        network_archived
        network.channel.delete        network_archived
        network.channel.join          network_archived
        network.channel.leave         network_archived
        network.resource.register     network_archived
        network.resource.unregister   network_archived
        network.resource.discover     passes
        network.resource.invoke       network_archived
        network.resource.read         passes
        network.resource.update       network_archived
        network.ping                  network_archived
        network.events.query          passes
        chat.message.posted           network_archived
    "#]]
    .assert_eq(&gates("network_archived", make));
}

#[test]
fn observers_read_and_manage_themselves() {
    let make = || {
        let mut world = seated();
        world.admin(AdminOp::Role("agent:a".into(), rialto_model::Role::Observer)).unwrap();
        world
    };
    expect![[r#"
        network.agent.leave           passes
        network.agent.discover        passes
        network.agent.announce        observer_read_only
        network.agent.remove          observer_read_only
        network.channel.create        observer_read_only
        network.channel.delete        observer_read_only
        network.channel.join          passes
        network.channel.leave         passes
        network.resource.register     observer_read_only
        network.resource.unregister   observer_read_only
        network.resource.discover     passes
        network.resource.invoke       observer_read_only
        network.resource.read         passes
        network.resource.update       observer_read_only
        network.ping                  passes
        network.events.query          passes
        chat.message.posted           observer_read_only
    "#]]
    .assert_eq(&gates("observer_read_only", make));
    let mut world = make();
    for (agent, code) in
        [("agent:a", "ok"), ("a", "ok"), ("agent:b", "observer_read_only"), ("nobody", "observer_read_only")]
    {
        let payload = json!({ "channel": "general", "agent": agent });
        assert_eq!(outcome(&world.act("agent:a", "network.channel.join", payload)), code, "{agent}");
    }
    // It receives what is routed to it, and may join again.
    let seq = world.say("agent:b", "agent:a");
    assert!(world.pending("agent:a").contains(&seq));
    assert_eq!(world.join("agent:a")["role"], "observer");
}

#[test]
fn transitions_and_what_they_tell() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let letter = world.say("agent:a", "agent:b");
    world.set(json!({ "status": "paused" }));
    let told: Value = serde_json::from_str(world.events[&world.head()].event.payload()).unwrap();
    assert_eq!(told, json!({ "from": "active", "to": "paused" }));
    assert_eq!(world.ack("agent:b", &[letter]), 1, "acks pass while paused");
    world.set(json!({ "status": "active" }));
    let letter = world.say("agent:a", "agent:b");
    world.set(json!({ "status": "archived" }));
    assert!(world.after.iter().any(|e| matches!(e, Effect::CloseAll { .. })));
    assert!(!world.pending("agent:b").contains(&letter));
    let dead = &world.state().book.dead_letters;
    assert!(dead.iter().any(|d| d.seq == letter && d.reason.as_ref() == "archived"));
    assert_eq!(world.notices(), [], "the operator's list only");
    // Credentials stay valid for reading.
    assert_eq!(outcome(&world.emit("agent:a", json!({ "type": "network.agent.discover", "target": "core" }))), "ok");
    assert_eq!(outcome(&world.admin(AdminOp::Settings(json!({ "status": "paused" })))), "invalid_argument");
    world.set(json!({ "status": "active" }));
    assert_eq!(world.try_say("agent:a", "agent:b"), "ok");
}

#[test]
fn archiving_ends_every_delivery_however_many() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.careful = false;
    for _ in 0..rialto_model::limits::DEAD_LETTERS_KEPT_MAX + 10 {
        world.say("agent:a", "agent:b");
    }
    world.set(json!({ "status": "archived" }));
    assert_eq!(world.pending("agent:b"), [world.head()], "only the news of the archiving itself");
    assert_eq!(world.state().book.dead_letters.len(), rialto_model::limits::DEAD_LETTERS_KEPT_MAX);
}
