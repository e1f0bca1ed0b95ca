//! Targets to recipients, row by row of sheet section 7, and which types go where (section 5).

use crate::world::{Join, World, outcome};
use expect_test::expect;
use rialto_engine::AdminOp;
use serde_json::json;

/// Sends to a target and tells who has it pending.
fn route(world: &mut World, source: &str, target: &str) -> String {
    let result = world.emit(source, json!({ "type": "chat.message.posted", "target": target }));
    let got = match &result {
        Err(fault) => fault.wire_code().to_owned(),
        Ok(accepted) => {
            let seq = accepted.seq.unwrap();
            let got: Vec<String> = world
                .state()
                .roster()
                .filter(|(id, _)| world.state().is_pending(*id, seq))
                .map(|(_, m)| m.address.to_string())
                .collect();
            format!("-> {}", if got.is_empty() { "nobody".to_owned() } else { got.join(" ") })
        }
    };
    format!("{target:24} {got}\n")
}

#[test]
fn every_kind_of_target() {
    let mut world = World::plain().joined(&["agent:a", "agent:b", "agent:gone", "human:ana"]);
    world.try_join("openagents:oa", Join { level: 1, ..Join::token() }).unwrap();
    world.join_with("agent:eye", json!({ "role": "observer" }));
    world.join_with("agent:log", json!({ "receive": "log" }));
    world.act("agent:gone", "network.agent.leave", json!({})).unwrap();
    world
        .act("agent:b", "network.channel.create", json!({ "name": "dev", "participants": ["a", "human:ana", "gone"] }))
        .unwrap();
    world.act("agent:b", "network.channel.create", json!({ "name": "secret", "private": true })).unwrap();
    world.act("agent:b", "network.channel.create", json!({ "name": "other" })).unwrap();
    world.act("agent:b", "network.channel.create", json!({ "name": "old" })).unwrap();
    world.act("agent:b", "network.channel.delete", json!({ "channel": "old" })).unwrap();
    world.admin(AdminOp::SetGroup("team".into(), vec!["a".into(), "human:ana".into(), "agent:later".into()])).unwrap();
    world.admin(AdminOp::SetGroup("empty".into(), vec![])).unwrap();
    let mut out = String::new();
    for target in [
        "agent:b",
        "b",
        "local::agent:b",
        "a1b2c3d4::b",
        "agent:a",
        "agent:gone",
        "agent:nobody",
        "agent:oa",
        "openagents:oa",
        "openagents:b",
        "acme:x",
        "human:ana",
        "human:bob",
        "agent:log",
        "agent:broadcast",
        "broadcast",
        "channel/dev",
        "channel/secret",
        "channel/other",
        "channel/old",
        "channel/nope",
        "group/team",
        "group/empty",
        "group/nope",
        "mod/persistence",
        "mod/nope",
        "resource/tool/search",
        "resource/file/a/b.md",
        "core",
        "other::agent:b",
        "other::core",
        "bad address",
    ] {
        out += &route(&mut world, "agent:a", target);
    }
    expect![[r#"
        agent:b                  -> agent:b
        b                        -> agent:b
        local::agent:b           -> agent:b
        a1b2c3d4::b              -> agent:b
        agent:a                  -> nobody
        agent:gone               unknown_target
        agent:nobody             unknown_target
        agent:oa                 unknown_target
        openagents:oa            -> openagents:oa
        openagents:b             unknown_target
        acme:x                   unknown_target
        human:ana                -> human:ana
        human:bob                unknown_target
        agent:log                -> nobody
        agent:broadcast          -> agent:b human:ana openagents:oa agent:eye
        broadcast                -> agent:b human:ana openagents:oa agent:eye
        channel/dev              -> agent:b human:ana
        channel/secret           unknown_target
        channel/other            not_a_channel_member
        channel/old              unknown_target
        channel/nope             unknown_target
        group/team               -> human:ana
        group/empty              -> nobody
        group/nope               unknown_target
        mod/persistence          -> nobody
        mod/nope                 mod_not_found
        resource/tool/search     resource_not_found
        resource/file/a/b.md     resource_not_found
        core                     -> nobody
        other::agent:b           cross_network
        other::core              cross_network
        bad address              invalid_address
    "#]]
    .assert_eq(&out);
    let fault = world.emit("agent:a", json!({ "type": "x.y", "target": "net2::channel/x" })).unwrap_err();
    assert_eq!(*fault.details.unwrap(), json!({ "network": "net2", "entity": "channel/x" }));
    // An address that was in a group before it joined, and a channel that was archived.
    world.join("agent:later");
    assert_eq!(
        route(&mut world, "agent:a", "group/team").trim_end(),
        "group/team               -> human:ana agent:later"
    );
}

#[test]
fn agent_falls_back_to_openagents_where_those_are_admitted_unproved() {
    let mut world = World::workspace().joined(&["agent:a", "openagents:x"]);
    assert_eq!(route(&mut world, "agent:a", "agent:x").trim_end(), "agent:x                  -> openagents:x");
    world.join("agent:x");
    assert_eq!(route(&mut world, "agent:a", "x").trim_end(), "x                        -> agent:x");
    world.act("agent:x", "network.agent.leave", json!({})).unwrap();
    assert_eq!(route(&mut world, "agent:a", "x").trim_end(), "x                        -> openagents:x");
    world.set(json!({ "unverified_openagents": false }));
    assert_eq!(route(&mut world, "agent:a", "x").trim_end(), "x                        unknown_target");
}

#[test]
fn late_joiners_get_no_backlog() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let early = world.say("agent:a", "agent:broadcast");
    world.join("agent:late");
    let seq = world.say("agent:a", "agent:broadcast");
    assert_eq!(world.pending("agent:late"), [seq]);
    assert_eq!(world.pending("agent:b"), [early, seq]);
    assert_eq!(world.pending("agent:a"), [0; 0]);
    let mut alone = World::plain().joined(&["agent:a"]);
    assert_eq!(alone.try_say("agent:a", "agent:broadcast"), "ok");
}

#[test]
fn posting_seats_where_channels_are_open() {
    let mut world = World::workspace().joined(&["agent:a", "agent:b"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "dev" })).unwrap();
    world.act("agent:a", "network.channel.create", json!({ "name": "secret", "private": true })).unwrap();
    assert_eq!(world.try_say("agent:b", "channel/secret"), "unknown_target");
    assert_eq!(world.try_say("agent:b", "channel/dev"), "ok");
    let dev = world.state().channel_id("dev").unwrap();
    assert!(world.state().member(1).unwrap().sits_in(dev));
    let seq = world.say("agent:a", "channel/dev");
    assert_eq!(world.pending("agent:b").last(), Some(&seq));
}

#[test]
fn reserved_types() {
    let mut world = World::plain().joined(&["agent:a"]);
    for (kind, code) in [
        ("network.nonsense.x", "reserved_type"),
        ("network.pong", "reserved_type"),
        ("network.event.error", "reserved_type"),
        ("network.events.response", "reserved_type"),
        ("network.agent.discover.response", "reserved_type"),
        ("network.resource.invoke.result", "reserved_type"),
        ("rialto.delivery.dead", "reserved_type"),
        ("rialto.anything", "reserved_type"),
        ("networks.x", "ok"),
        ("rialtos.x", "ok"),
        ("myapp.task.assigned", "ok"),
    ] {
        assert_eq!(outcome(&world.emit("agent:a", json!({ "type": kind, "target": "core" }))), code, "{kind}");
    }
}

#[test]
fn listed_types_with_another_target() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    for (kind, target, code) in [
        ("network.agent.leave", "agent:b", "invalid_event"),
        ("network.channel.create", "channel/x", "invalid_event"),
        ("network.ping", "agent:broadcast", "invalid_event"),
        ("network.agent.announce", "core", "invalid_event"),
        ("network.agent.announce", "broadcast", "ok"),
        ("network.agent.announce", "local::agent:broadcast", "ok"),
        ("network.resource.read", "agent:b", "invalid_event"),
        ("network.resource.read", "resource/file/x", "resource_not_found"),
        ("network.ping", "local::core", "ok"),
        ("network.ping", "a1b2c3d4::core", "ok"),
        ("network.ping", "other::core", "cross_network"),
        ("network.ping", "not an address", "invalid_address"),
    ] {
        assert_eq!(outcome(&world.emit("agent:a", json!({ "type": kind, "target": target }))), code, "{kind} {target}");
    }
    let text = json!({ "type": "network.agent.join", "target": "agent:b", "source": "agent:c" }).to_string();
    assert_eq!(outcome(&world.emit_text(&World::holder("agent:c"), &text)), "invalid_event");
}

#[test]
fn ping_answers_and_is_never_stored() {
    let mut world = World::plain().joined(&["agent:a"]);
    let head = world.head();
    let pong = world
        .emit("agent:a", json!({ "type": "network.ping", "target": "core", "id": "p1", "payload": { "t": 5 } }))
        .unwrap();
    assert!(pong.silent && pong.seq.is_none() && world.head() == head);
    let event = pong.response.unwrap();
    assert_eq!((event.kind(), event.target()), ("network.pong", "agent:a"));
    assert_eq!(event.payload(), format!(r#"{{"server_time":{},"t":5}}"#, crate::world::START));
    assert_eq!(event.metadata(), r#"{"in_reply_to":"p1"}"#);
}

#[test]
fn announce_updates_the_roster_and_reaches_all_others() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let payload = json!({ "description": "reviews code", "capabilities": ["review"] });
    world
        .emit("agent:a", json!({ "type": "network.agent.announce", "target": "agent:broadcast", "payload": payload }))
        .unwrap();
    assert_eq!(world.pending("agent:b"), [world.head()]);
    let found = world.emit(
        "agent:b",
        json!({ "type": "network.agent.discover", "target": "core", "payload": { "capability": "review" } }),
    );
    let roster: serde_json::Value = serde_json::from_str(found.unwrap().response.unwrap().payload()).unwrap();
    assert_eq!(roster["agents"].as_array().unwrap().len(), 1);
    assert_eq!(roster["agents"][0]["address"], "agent:a");
    assert_eq!(roster["agents"][0]["description"], "reviews code");
}

#[test]
fn discover_filters_and_hides() {
    let mut world = World::workspace().joined(&["agent:m", "agent:a", "agent:b", "human:ana"]);
    world.admin(AdminOp::Role("agent:m".into(), rialto_model::Role::Master)).unwrap();
    world.act("agent:a", "network.channel.create", json!({ "name": "secret", "private": true })).unwrap();
    world.admin(AdminOp::SetGroup("g".into(), vec!["a".into()])).unwrap();
    let ask = |world: &mut World, who: &str, payload| {
        let event = json!({ "type": "network.agent.discover", "target": "core", "payload": payload });
        let response = world.emit(who, event).unwrap().response.unwrap();
        serde_json::from_str::<serde_json::Value>(response.payload()).unwrap()
    };
    let all = ask(&mut world, "agent:b", json!({}));
    assert_eq!(all["channels"], json!(["channel/general"]));
    assert_eq!(all["mods"], json!(["mod/auth", "mod/persistence"]));
    assert_eq!(all["groups"], json!(["group/g"]));
    assert_eq!(
        ask(&mut world, "agent:a", json!({ "include": ["channels"] })),
        json!({ "channels": ["channel/general", "channel/secret"] })
    );
    assert_eq!(ask(&mut world, "agent:m", json!({ "include": ["channels"] }))["channels"].as_array().unwrap().len(), 2);
    assert_eq!(ask(&mut world, "agent:a", json!({ "role": "master" }))["agents"][0]["address"], "agent:m");
    world.act("agent:b", "network.agent.leave", json!({})).unwrap();
    assert_eq!(ask(&mut world, "agent:a", json!({ "status": "offline" }))["agents"][0]["address"], "agent:b");
    assert_eq!(ask(&mut world, "agent:a", json!({ "query": "ana" }))["agents"].as_array().unwrap().len(), 1);
}

#[test]
fn network_mismatch() {
    let mut world = World::plain().joined(&["agent:a"]);
    for (network, code) in [("a1b2c3d4", "ok"), ("main", "ok"), ("other", "network_mismatch")] {
        assert_eq!(
            outcome(&world.emit("agent:a", json!({ "type": "x.y", "target": "core", "network": network }))),
            code
        );
    }
}

#[test]
fn threads_and_rooms() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "dev", "participants": ["b"] })).unwrap();
    let send = |world: &mut World, target: &str, metadata: serde_json::Value| {
        outcome(&world.emit("agent:a", json!({ "type": "x.y", "target": target, "metadata": metadata })))
    };
    for (thread, code) in [
        (json!("thread_abc"), "ok"),
        (json!("thread_ab"), "invalid_event"),
        (json!("thread__abc"), "invalid_event"),
        (json!("thread_Abc"), "invalid_event"),
        (json!("abc"), "invalid_event"),
        (json!(null), "ok"),
        (json!(5), "invalid_event"),
    ] {
        assert_eq!(send(&mut world, "channel/dev", json!({ "thread": thread })), code, "{thread}");
    }
    assert_eq!(send(&mut world, "agent:b", json!({ "thread": "thread_abc" })), "invalid_event");
    assert_eq!(send(&mut world, "agent:b", json!({ "room_channel": "dev" })), "ok");
    assert_eq!(send(&mut world, "agent:b", json!({ "room_channel": "nope" })), "unknown_target");
    assert_eq!(send(&mut world, "channel/dev", json!({ "room_channel": "dev" })), "invalid_event");
    assert_eq!(world.state().threads(rialto_engine::Viewer::Operator, Some("dev"), None, 9).unwrap().len(), 1);
}
