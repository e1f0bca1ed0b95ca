//! What an operator may do (sheet sections 1.1, 14 and 18).

use crate::world::{World, outcome, token};
use rialto_engine::record::Change;
use rialto_engine::{AdminOp, Record};
use rialto_model::Role;
use rialto_model::channel::ChannelStatus;
use serde_json::{Value, json};

#[test]
fn settings_one_by_one() {
    let mut world = World::plain();
    for (patch, code) in [
        (json!({ "name": "Team" }), "ok"),
        (json!({ "name": " " }), "invalid_argument"),
        (json!({ "name": "a\nb" }), "invalid_argument"),
        (json!({ "policy": "open" }), "ok"),
        (json!({ "policy": "closed" }), "invalid_argument"),
        (json!({ "min_verification": 3 }), "ok"),
        (json!({ "min_verification": 4 }), "invalid_argument"),
        (json!({ "ttl_ms": 0 }), "invalid_argument"),
        (json!({ "ttl_ms": 30u64 * 24 * 3_600_000 }), "ok"),
        (json!({ "ttl_ms": 31u64 * 24 * 3_600_000 }), "invalid_argument"),
        (json!({ "max_attempts": 3 }), "ok"),
        (json!({ "max_attempts": null }), "ok"),
        (json!({ "max_attempts": 0 }), "invalid_argument"),
        (json!({ "max_pending": 0 }), "invalid_argument"),
        (json!({ "max_pending": 1_000_001 }), "invalid_argument"),
        (json!({ "max_pending_bytes": 0 }), "invalid_argument"),
        (json!({ "max_pending_bytes": (1u64 << 30) + 1 }), "invalid_argument"),
        (json!({ "blob_bytes_max": 0 }), "ok"),
        (json!({ "blob_bytes_max": -1 }), "invalid_argument"),
        (json!({ "durability": "memory" }), "invalid_argument"),
        (json!({ "durability": "memory", "delivery": "at-most-once" }), "ok"),
        (json!({ "metadata": { "description": "d", "ratio": 0.1 } }), "ok"),
        (
            json!({ "takeover": "secret", "session_binding": "lax", "require_audience": true, "channel_post_open": true }),
            "ok",
        ),
        (json!({ "nonsense": 1 }), "invalid_argument"),
        (json!([]), "invalid_argument"),
    ] {
        assert_eq!(outcome(&world.admin(AdminOp::Settings(patch.clone()))), code, "{patch}");
    }
    assert_eq!(world.state().book.settings.name, "Team");
}

#[test]
fn tokens_roles_groups() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    assert_eq!(outcome(&world.admin(AdminOp::AddToken(token("main", "x")))), "already_exists");
    assert_eq!(outcome(&world.admin(AdminOp::RevokeToken("nope".into()))), "unknown_target");
    assert_eq!(outcome(&world.admin(AdminOp::Role("nope".into(), Role::Master))), "unknown_target");
    let role = world.admin(AdminOp::Role("a".into(), Role::Master)).unwrap();
    assert_eq!(role, json!({ "address": "agent:a", "role": "master" }));
    for (name, members, code) in [
        ("team", vec!["a", "agent:a", "human:x@y.z"], "ok"),
        ("bad name", vec![], "invalid_address"),
        ("team", vec!["channel/x"], "invalid_address"),
        ("team", vec!["not an address"], "invalid_address"),
    ] {
        let members = members.into_iter().map(str::to_owned).collect();
        assert_eq!(outcome(&world.admin(AdminOp::SetGroup(name.into(), members))), code, "{name}");
    }
    assert_eq!(world.state().book.groups["team"].members, ["agent:a".into(), "human:x@y.z".into()]);
    let before = world.say("agent:b", "group/team");
    world.admin(AdminOp::SetGroup("team".into(), vec!["b".into()])).unwrap();
    world.say("agent:b", "group/team");
    assert_eq!(world.pending("agent:a"), [before], "only while it was in the group");
    world.admin(AdminOp::DeleteGroup("team".into())).unwrap();
    assert_eq!(outcome(&world.admin(AdminOp::DeleteGroup("team".into()))), "unknown_target");
    assert_eq!(world.try_say("agent:b", "group/team"), "unknown_target");
    world.admin(AdminOp::SetGroup("team".into(), vec!["a".into()])).unwrap();
    let new = world.say("agent:b", "group/team");
    assert_eq!(world.pending("agent:a"), [before, new]);
}

#[test]
fn channels_and_redaction() {
    let mut world = World::plain().joined(&["agent:a"]);
    for (name, code) in
        [("general", "ok"), ("general", "already_exists"), ("a b", "invalid_address"), ("channel/x", "ok")]
    {
        assert_eq!(outcome(&world.admin(AdminOp::CreateChannel(name.into()))), code, "{name}");
    }
    assert!(world.state().channel_id("x").is_some());
    assert_eq!(outcome(&world.admin(AdminOp::Redact(0, None))), "cursor_unknown");
    assert_eq!(outcome(&world.admin(AdminOp::Redact(99, None))), "cursor_unknown");
    assert_eq!(outcome(&world.admin(AdminOp::Redact(1, None))), "ok");
    // An archived channel is read, not written.
    world.act("agent:a", "network.channel.join", json!({ "channel": "general" })).unwrap();
    world.commit(Record::from(Change::ChannelStatus { channel: 0, status: ChannelStatus::Archived }));
    assert_eq!(world.try_say("agent:a", "channel/general"), "forbidden");
    assert_eq!(outcome(&world.act("agent:a", "network.channel.join", json!({ "channel": "general" }))), "forbidden");
    world.commit(Record::from(Change::ChannelStatus { channel: 0, status: ChannelStatus::Active }));
    assert_eq!(world.try_say("agent:a", "channel/general"), "ok");
}

#[test]
fn removing_a_master_makes_another_only_where_the_token_manages() {
    let mut world = World::workspace().joined(&["agent:m", "human:ana", "agent:gone", "agent:n"]);
    world.admin(AdminOp::Role("agent:m".into(), Role::Master)).unwrap();
    let mut strict = World::workspace().joined(&["agent:m", "agent:n"]);
    strict.admin(AdminOp::Role("agent:m".into(), Role::Master)).unwrap();
    assert_eq!(strict.admin(AdminOp::Remove("m".into())).unwrap()["new_master"], Value::Null);
    world.set(json!({ "token_manages": true }));
    world.act("agent:gone", "network.agent.leave", json!({})).unwrap();
    let removed = world.admin(AdminOp::Remove("m".into())).unwrap();
    assert_eq!(removed["new_master"], "agent:n", "the longest-standing agent that is there");
    assert_eq!(outcome(&world.admin(AdminOp::Remove("m".into()))), "unknown_target");
    world.admin(AdminOp::Role("agent:gone".into(), Role::Master)).unwrap();
    assert_eq!(world.admin(AdminOp::Remove("n".into())).unwrap()["new_master"], Value::Null, "one is left");
}
