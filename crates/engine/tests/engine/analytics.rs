//! mod/analytics (sheet section 9.3): counts without payload text, bounded, only while loaded.

use crate::world::{World, outcome};
use rialto_engine::AdminOp;
use rialto_model::limits::ANALYTICS_TOP_MAX;
use serde_json::{Value, json};

fn counts(world: &mut World) -> Value {
    json!(world.engine.analytics(world.now).unwrap())
}

/// Lists as `name=events` in their order.
fn listed(list: &Value, label: &str) -> String {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| format!("{}={}", row[label].as_str().unwrap(), row["events"])).collect::<Vec<_>>().join(" ")
}

#[test]
fn counts_by_type_source_target_and_refusals_by_mod() {
    let mut world = World::plain();
    assert_eq!(world.engine.analytics(world.now), None);
    world.load("analytics", json!({}));
    let mut world = world.joined(&["agent:a", "agent:b"]);
    let secret = "do-not-count-me";
    let say = |world: &mut World, who: &str, kind: &str, target: &str| {
        outcome(&world.emit(who, json!({ "type": kind, "target": target, "payload": { "text": secret } })))
    };
    for target in ["agent:b", "agent:b", "core", "agent:broadcast"] {
        assert_eq!(say(&mut world, "agent:a", "x.y", target), "ok");
    }
    let twice = json!({ "id": "same", "type": "x.z", "target": "agent:a", "payload": { "text": secret } });
    for _ in 0..2 {
        world.emit("agent:b", twice.clone()).unwrap();
    }
    let fleeting = json!({ "type": "x.z", "target": "agent:a", "metadata": { "ephemeral": true } });
    world.emit("agent:b", fleeting).unwrap();
    world.emit("agent:b", json!({ "type": "network.ping", "target": "core" })).unwrap();
    assert_eq!(say(&mut world, "agent:a", "x.y", "agent:nobody"), "unknown_target");
    world.load("auth", json!({ "deny": ["agent:b"] }));
    assert_eq!(say(&mut world, "agent:b", "x.y", "agent:a"), "forbidden");
    let (member, now) = (world.state().member_id("agent:b").unwrap(), world.now);
    assert!(world.engine.guard("network.events.query", member, now).is_err());
    let report = counts(&mut world);
    assert_eq!(report["window"], report["total"]);
    let total = &report["total"];
    assert_eq!((&total["events"], &total["rejections"]), (&json!(8), &json!(3)));
    assert_eq!(listed(&total["by_type"], "type"), "x.y=4 network.agent.join=2 x.z=2");
    assert_eq!(listed(&total["by_source"], "source"), "agent:a=5 agent:b=3");
    assert_eq!(listed(&total["by_target"], "target"), "agent=4 broadcast=1 core=3");
    assert_eq!(listed(&total["by_mod"], "mod"), "core=1 mod/auth=2");
    let bytes: u64 = total["by_type"].as_array().unwrap().iter().map(|t| t["bytes"].as_u64().unwrap()).sum();
    assert!(json!(bytes) == total["bytes"] && bytes > 8 * 100);
    assert!(!report.to_string().contains(secret));
}

#[test]
fn only_what_it_intercepts_while_it_is_loaded() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let say = |world: &mut World, kind: &str| {
        world.emit("agent:a", json!({ "type": kind, "target": "agent:b" })).unwrap();
    };
    say(&mut world, "x.before");
    let config = rialto_engine::mods::ModConfig::standard("analytics").unwrap();
    let config = rialto_engine::mods::ModConfig { intercepts: vec!["x.*".into()], ..config };
    world.admin(AdminOp::SetMod(config.clone())).unwrap();
    say(&mut world, "x.one");
    say(&mut world, "y.one");
    assert_eq!(listed(&counts(&mut world)["total"]["by_type"], "type"), "x.one=1");
    world.admin(AdminOp::SetMod(rialto_engine::mods::ModConfig { enabled: false, ..config.clone() })).unwrap();
    say(&mut world, "x.two");
    assert_eq!(world.engine.analytics(world.now), None);
    world.admin(AdminOp::SetMod(config)).unwrap();
    assert_eq!(listed(&counts(&mut world)["total"]["by_type"], "type"), "x.one=1");
    world.admin(AdminOp::RemoveMod("analytics".into())).unwrap();
    assert_eq!(world.engine.analytics(world.now), None);
    world.load("analytics", json!({ "per_agent": false }));
    assert_eq!(counts(&mut world)["total"]["events"], 0, "loaded again it begins anew");
    say(&mut world, "x.three");
    assert_eq!(counts(&mut world)["total"].get("by_source"), None);
}

#[test]
fn no_more_names_than_the_limit() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.careful = false;
    world.load("analytics", json!({ "top_n": ANALYTICS_TOP_MAX }));
    for n in 0..=ANALYTICS_TOP_MAX {
        world.emit("agent:a", json!({ "type": format!("x.n{n}"), "target": "agent:b" })).unwrap();
    }
    let report = counts(&mut world);
    let types = report["total"]["by_type"].as_array().unwrap();
    assert_eq!((types.len(), &types[ANALYTICS_TOP_MAX]["type"]), (ANALYTICS_TOP_MAX + 1, &json!("other")));
}
