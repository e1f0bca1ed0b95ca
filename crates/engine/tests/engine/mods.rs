//! The pipeline and the standard mods (sheet section 9).

use crate::world::{Join, START, TOKEN, World, outcome, sha, token};
use expect_test::expect;
use rialto_engine::mods::{self, ModConfig, Mode};
use rialto_engine::{AdminOp, Viewer};
use serde_json::{Value, json};

fn say(world: &mut World, kind: &str, target: &str) -> Result<rialto_engine::Accepted, rialto_model::Fault> {
    world.emit("agent:a", json!({ "type": kind, "target": target }))
}

fn retry_after(result: &Result<rialto_engine::Accepted, rialto_model::Fault>) -> u64 {
    result.as_ref().unwrap_err().details.as_ref().unwrap()["retry_after_ms"].as_u64().unwrap()
}

#[test]
fn pipeline_order_is_mode_priority_name() {
    let config = |name: &str, mode, priority| ModConfig {
        name: name.into(),
        mode,
        priority,
        ..ModConfig::standard("auth").unwrap()
    };
    let mut list = vec![
        config("z", Mode::Observe, 0),
        config("b", Mode::Guard, 5),
        config("t", Mode::Transform, -9),
        config("a", Mode::Guard, 5),
        config("c", Mode::Guard, 1),
        config("y", Mode::Observe, -1),
    ];
    mods::sort(&mut list);
    let names: Vec<&str> = list.iter().map(|m| m.name.as_ref()).collect();
    assert_eq!(names, ["c", "a", "b", "t", "y", "z"]);
    let mut world = World::bare();
    for name in ["persistence", "enrichment", "rate-limiter", "auth"] {
        world.load(name, json!({}));
        assert_eq!(crate::world::signals(&world, "rialto.mod.changed").len(), 1);
    }
    let loaded: Vec<&str> = world.state().book.mods.iter().map(|m| m.name.as_ref()).collect();
    assert_eq!(loaded, ["auth", "rate-limiter", "enrichment", "persistence"]);
}

#[test]
fn intercepts_select_by_glob_and_disabled_mods_rest() {
    let mut world = World::plain().joined(&["agent:a"]);
    let mut auth = ModConfig::standard("auth").unwrap();
    auth.config = json!({ "deny": ["agent:a"] }).as_object().cloned().unwrap();
    auth.intercepts = vec!["workspace.message.*".into()];
    world.admin(AdminOp::SetMod(auth.clone())).unwrap();
    for (kind, code) in [
        ("workspace.message.posted", "forbidden"),
        ("workspace.message.posted.x", "forbidden"),
        ("workspace.messages.x", "ok"),
        ("other.thing", "ok"),
    ] {
        assert_eq!(outcome(&say(&mut world, kind, "core")), code, "{kind}");
    }
    auth.enabled = false;
    world.admin(AdminOp::SetMod(auth)).unwrap();
    assert_eq!(outcome(&say(&mut world, "workspace.message.posted", "core")), "ok");
    assert_eq!(outcome(&say(&mut world, "x.y", "mod/auth")), "mod_not_found");
    world.admin(AdminOp::RemoveMod("auth".into())).unwrap();
    assert_eq!(outcome(&world.admin(AdminOp::RemoveMod("auth".into()))), "mod_not_found");
    let unknown = ModConfig { name: "mystery".into(), ..ModConfig::standard("auth").unwrap() };
    assert_eq!(outcome(&world.admin(AdminOp::SetMod(unknown))), "mod_not_found");
}

#[test]
fn a_refusal_names_its_mod_and_leaves_nothing() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.load("auth", json!({ "deny": ["agent:a"] }));
    let records = world.records.len();
    let fault = say(&mut world, "x.y", "agent:b").unwrap_err();
    assert_eq!((fault.by_mod.as_deref(), fault.code.as_str()), (Some("mod/auth"), "forbidden"));
    for (kind, payload) in [("network.channel.create", json!({ "name": "x" })), ("network.agent.leave", json!({}))] {
        assert_eq!(outcome(&world.act("agent:a", kind, payload)), "forbidden");
    }
    assert_eq!((world.records.len(), world.pending("agent:b").len()), (records, 0));
}

#[test]
fn auth_by_event() {
    let mut world = World::workspace();
    world.admin(AdminOp::AddToken(token("second", "second-token"))).unwrap();
    world.join("agent:a");
    world.try_join("agent:b", Join { tokens: vec!["second-token"], payload: json!({}), ..Join::default() }).unwrap();
    world.try_join("openagents:c", Join { level: 2, ..Join::token() }).unwrap();
    let codes = |world: &mut World, kind: &str| -> String {
        let row = ["agent:a", "agent:b", "openagents:c"]
            .map(|who| outcome(&world.emit(who, json!({ "type": kind, "target": "core" }))));
        format!("{}\n", row.join(" "))
    };
    let mut out = codes(&mut world, "x.y");
    world.admin(AdminOp::RevokeToken("second".into())).unwrap();
    out += &codes(&mut world, "x.y");
    // Another token under the old label does not bring it back; joining again does.
    world.admin(AdminOp::AddToken(token("second", "third-token"))).unwrap();
    out += &codes(&mut world, "x.y");
    world.try_join("agent:b", Join { tokens: vec!["third-token"], payload: json!({}), ..Join::default() }).unwrap();
    out += &codes(&mut world, "x.y");
    world.set(json!({ "min_verification": 1 }));
    out += &codes(&mut world, "x.y");
    world.set(json!({ "min_verification": 0 }));
    world.load("auth", json!({ "require_level": { "secret.*": 3, "deep.*": 2 } }));
    out += &codes(&mut world, "secret.x");
    out += &codes(&mut world, "deep.x");
    out += &codes(&mut world, "x.y");
    world.load("auth", json!({ "allow": ["openagents:*", "agent:a"], "deny": ["*:c"] }));
    out += &codes(&mut world, "x.y");
    world.load("auth", json!({ "recheck": false }));
    world.admin(AdminOp::RevokeToken("main".into())).unwrap();
    out += &codes(&mut world, "x.y");
    expect![[r#"
        ok ok ok
        ok invalid_token ok
        ok invalid_token ok
        ok ok ok
        verification_required verification_required ok
        verification_required verification_required verification_required
        verification_required verification_required ok
        ok ok ok
        ok forbidden forbidden
        invalid_token ok invalid_token
    "#]]
    .assert_eq(&out);
}

#[test]
fn guards_see_joins_and_requests_under_canonical_names() {
    let mut world = World::workspace().joined(&["agent:a"]);
    world.load("auth", json!({ "deny": ["agent:evil", "agent:a"], "require_level": { "network.agent.join": 1 } }));
    assert_eq!(outcome(&world.try_join("evil", Join { level: 1, ..Join::token() })), "forbidden");
    assert_eq!(outcome(&world.try_join("agent:low", Join::token())), "verification_required");
    assert_eq!(outcome(&world.try_join("openagents:high", Join { level: 1, ..Join::token() })), "ok");
    for kind in ["network.agent.discover", "network.ping"] {
        assert_eq!(outcome(&world.emit("agent:a", json!({ "type": kind, "target": "core" }))), "forbidden", "{kind}");
    }
    let now = world.now;
    assert_eq!(outcome(&world.engine.guard("network.events.query", 0, now)), "forbidden");
    assert_eq!(outcome(&world.engine.guard("network.events.query", 1, now)), "ok");
}

#[test]
fn an_expired_token_no_longer_speaks() {
    let mut world = World::workspace();
    let mut short = token("short", "short-token");
    short.expires_at = Some(START + 1000);
    world.admin(AdminOp::AddToken(short)).unwrap();
    world.try_join("agent:a", Join { tokens: vec!["short-token"], payload: json!({}), ..Join::default() }).unwrap();
    assert_eq!(outcome(&say(&mut world, "x.y", "core")), "ok");
    world.advance(1000);
    assert_eq!(outcome(&say(&mut world, "x.y", "core")), "invalid_token");
    let caller = rialto_engine::Caller { bearer: Some(sha("short-token")), ..Default::default() };
    assert_eq!(outcome(&world.state().principal(&caller, None, world.now)), "invalid_token");
}

#[test]
fn rate_limiter_bursts_sixty_then_twenty_a_second() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.load("rate-limiter", json!({}));
    for i in 0..60 {
        assert_eq!(outcome(&say(&mut world, "x.y", "core")), "ok", "{i}");
    }
    assert_eq!(retry_after(&say(&mut world, "x.y", "core")), 50);
    for waited in 1..50 {
        world.advance(1);
        assert_eq!(retry_after(&say(&mut world, "x.y", "core")), 50 - waited);
    }
    world.advance(1);
    assert_eq!(outcome(&say(&mut world, "x.y", "core")), "ok", "exactly when it was told to");
    assert_eq!(retry_after(&say(&mut world, "x.y", "core")), 50);
    assert_eq!(world.try_say("agent:b", "core"), "ok", "each source has its own");
    // Exempt types cost nothing; a second refills twenty.
    assert_eq!(outcome(&world.emit("agent:a", json!({ "type": "network.ping", "target": "core" }))), "ok");
    world.advance(1000);
    let passed = (0..40).filter(|_| say(&mut world, "x.y", "core").is_ok()).count();
    assert_eq!(passed, 20);
    assert_eq!(
        outcome(&world.emit("agent:a", json!({ "type": "network.agent.discover", "target": "core" }))),
        "rate_limited"
    );
    assert_eq!(outcome(&world.act("agent:a", "network.agent.leave", json!({}))), "ok");
}

#[test]
fn rate_limiter_by_type_and_broadcast_and_none_charged_on_refusal() {
    let mut world = World::plain().joined(&["agent:a"]);
    world
        .load("rate-limiter", json!({ "rate": 1, "burst": 14, "per_type": { "slow.*": { "rate": 0.5, "burst": 2 } } }));
    assert_eq!(outcome(&say(&mut world, "slow.x", "core")), "ok");
    assert_eq!(outcome(&say(&mut world, "slow.y", "core")), "ok");
    for _ in 0..20 {
        assert_eq!(retry_after(&say(&mut world, "slow.x", "core")), 2000);
    }
    // The refused ones took nothing from the bucket for all: twelve are left, ten of them for everybody.
    let broadcast = (0..20).filter(|_| say(&mut world, "x.y", "agent:broadcast").is_ok()).count();
    assert_eq!(broadcast, 10);
    let rest = (0..20).filter(|_| say(&mut world, "x.y", "core").is_ok()).count();
    assert_eq!(rest, 2);
    assert_eq!(retry_after(&say(&mut world, "x.y", "core")), 1000);
    // Events refused for another reason are not charged either.
    world.advance(1000);
    for _ in 0..5 {
        assert_eq!(outcome(&say(&mut world, "x.y", "agent:nobody")), "unknown_target");
    }
    assert_eq!(outcome(&say(&mut world, "x.y", "core")), "ok");
    // After ten minutes without a draw, buckets are forgotten, which is as good as full.
    world.pass(600_000);
    assert_eq!((0..20).filter(|_| say(&mut world, "x.y", "core").is_ok()).count(), 14);
}

#[test]
fn enrichment_adds_and_never_overwrites() {
    let mut world = World::plain();
    world.join_with("agent:a", json!({ "agent_type": "coder" }));
    world.load("enrichment", json!({ "static": { "team": "red", "mine": 0 } }));
    let trace = format!("00-{}-{}-01", "a".repeat(32), "b".repeat(16));
    let event = json!({ "type": "x.y", "target": "core", "metadata": { "mine": 1, "traceparent": trace, "source_info": "fake" } });
    let metadata: Value =
        serde_json::from_str(world.emit("agent:a", event).unwrap().event.unwrap().event.metadata()).unwrap();
    let expected = json!({ "mine": 1, "traceparent": trace, "team": "red", "received_at": START,
        "source_info": { "role": "member", "verification": 0, "agent_type": "coder" } });
    assert_eq!(metadata, expected);
    let plain = say(&mut world, "x.y", "core").unwrap().event.unwrap();
    assert!(rialto_model::trace::is_traceparent(&plain.event.metadata_text("traceparent").unwrap()));
    world.load("enrichment", json!({ "agent_info": false, "timestamps": false, "trace": false }));
    assert_eq!(say(&mut world, "x.y", "core").unwrap().event.unwrap().event.metadata(), "{}");
}

#[test]
fn persistence_skips_what_it_is_told_to() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.load("persistence", json!({ "skip": ["noise.*"] }));
    let noise = say(&mut world, "noise.x", "agent:b").unwrap().seq.unwrap();
    let unheard = say(&mut world, "noise.y", "core").unwrap().seq.unwrap();
    let kept = say(&mut world, "x.y", "agent:b").unwrap().seq.unwrap();
    assert_eq!(world.pending("agent:b"), [noise, kept], "skipped mail is still delivered");
    let all = world.read(Viewer::Operator, &Default::default());
    assert!(all.contains(&kept) && !all.contains(&noise) && !all.contains(&unheard));
    let by_source = rialto_engine::Filter { source: Some("agent:a".into()), ..Default::default() };
    assert!(!world.read(Viewer::Operator, &by_source).contains(&noise));
    world.ack_up_to("agent:b", kept);
    assert!(world.state().book.unstored.is_empty());
}

#[test]
fn a_network_without_mods_works() {
    let mut world = World::bare().joined(&["agent:a", "agent:b"]);
    let seq = world.say("agent:a", "agent:b");
    assert_eq!(world.pending("agent:b"), [seq]);
    assert_eq!(outcome(&world.emit("agent:a", json!({ "type": "network.agent.discover", "target": "core" }))), "ok");
    let page = world.page(Viewer::Operator, &Default::default(), None, 5);
    assert_eq!(outcome(&page), "history_unavailable");
    // Loading it later keeps what comes later.
    world.load("persistence", json!({}));
    let kept = world.say("agent:a", "agent:b");
    assert_eq!(world.read(Viewer::Operator, &Default::default()), [kept]);
    assert_eq!(TOKEN.len(), 17);
}
