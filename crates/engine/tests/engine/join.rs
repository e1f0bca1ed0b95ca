//! Joining: the order of checks, policies, takeover, kept sessions, roles (sheet sections 1.2, 1.3, 1.5).

use crate::world::{Join, START, TOKEN, World, outcome, token};
use expect_test::expect;
use rialto_engine::input::Resume;
use rialto_engine::{AdminOp, Capabilities, Effect};
use rialto_model::network::{Policy, Preset, Settings};
use rialto_model::{ErrorCode, Fault, Role};
use serde_json::json;

fn network(policy: &str) -> World {
    let policy = Policy::from_wire(policy).unwrap();
    World::with(Settings { policy, ..Settings::preset("main", Preset::Plain) }, &["persistence"])
}

#[test]
fn policies_by_credentials() {
    let mut out = String::new();
    let proofs: [(&str, Join); 6] = [
        ("nothing", Join::default()),
        ("token", Join::token()),
        ("wrong token", Join { tokens: vec!["other"], ..Join::default() }),
        ("old token", Join { tokens: vec!["old-token"], ..Join::default() }),
        ("level 2", Join { level: 2, ..Join::default() }),
        ("level 3", Join { level: 3, ..Join::default() }),
    ];
    for policy in ["open", "token", "invite", "did-verify"] {
        for (name, join) in &proofs {
            let mut world = network(policy);
            let mut old = token("old", "old-token");
            old.expires_at = Some(START);
            world.admin(AdminOp::AddToken(old)).unwrap();
            let agent = outcome(&world.try_join("agent:a", Join { payload: json!({}), ..join.clone() }));
            let key = outcome(&world.try_join("key:z6Mk1", Join { payload: json!({}), ..join.clone() }));
            out += &format!("{policy:10} {name:11} agent: {agent:22} key: {key}\n");
        }
    }
    expect![[r#"
        open       nothing     agent: ok                     key: verification_required
        open       token       agent: ok                     key: verification_required
        open       wrong token agent: ok                     key: verification_required
        open       old token   agent: ok                     key: verification_required
        open       level 2     agent: ok                     key: ok
        open       level 3     agent: ok                     key: ok
        token      nothing     agent: token_required         key: verification_required
        token      token       agent: ok                     key: verification_required
        token      wrong token agent: invalid_token          key: verification_required
        token      old token   agent: invalid_token          key: verification_required
        token      level 2     agent: token_required         key: token_required
        token      level 3     agent: token_required         key: token_required
        invite     nothing     agent: invite_required        key: verification_required
        invite     token       agent: invite_required        key: verification_required
        invite     wrong token agent: invite_required        key: verification_required
        invite     old token   agent: invite_required        key: verification_required
        invite     level 2     agent: invite_required        key: invite_required
        invite     level 3     agent: invite_required        key: invite_required
        did-verify nothing     agent: did_required           key: verification_required
        did-verify token       agent: did_required           key: verification_required
        did-verify wrong token agent: did_required           key: verification_required
        did-verify old token   agent: did_required           key: verification_required
        did-verify level 2     agent: did_required           key: did_required
        did-verify level 3     agent: ok                     key: ok
    "#]]
    .assert_eq(&out);
}

/// Everything is wrong at once; each line repairs the first fault.
#[test]
fn the_first_failing_check_decides() {
    let mut world = World::workspace().joined(&["openagents:taken"]);
    world.set(json!({ "status": "paused", "min_verification": 1, "max_members": 1, "takeover": "secret" }));
    world.load("auth", json!({ "deny": ["*"] }));
    let bad = Fault::from(ErrorCode::VerificationFailed);
    let mut join = Join { tokens: vec![], failed: Some(bad), payload: json!({}), ..Join::default() };
    let mut lines = Vec::new();
    let mut address = "agent:core";
    for repair in 0..9 {
        match repair {
            1 => world.set(json!({ "status": "active" })),
            2 => address = "acme:x",
            3 => address = "key:z6Mk1",
            4 => join.failed = None,
            5 => address = "agent:b",
            6 => join.tokens = vec![TOKEN],
            7 => join.level = 1,
            8 => world.set(json!({ "max_members": 10 })),
            _ => {}
        }
        lines.push(outcome(&world.try_join(address, join.clone())));
    }
    world.set(json!({ "min_verification": 0 }));
    let taken = Join { level: 0, ..join.clone() };
    lines.push(outcome(&world.try_join("openagents:taken", taken)));
    expect![[r#"
        network_paused
        invalid_address
        unknown_registrar
        verification_failed
        verification_required
        token_required
        verification_required
        network_full
        forbidden
        address_taken"#]]
    .assert_eq(&lines.join("\n"));
    world.set(json!({ "status": "archived" }));
    assert_eq!(outcome(&world.try_join("agent:core", join)), "network_archived");
}

#[test]
fn names_nobody_may_join_under() {
    let mut world = network("open");
    for name in [
        "agent:broadcast",
        "broadcast",
        "core",
        "agent:core",
        "local",
        "agent:system",
        "system:timer",
        "channel/x",
        "mod/x",
        "group/g",
        "resource/tool/t",
        "other::agent:x",
        "agent: x",
        "",
    ] {
        assert_eq!(outcome(&world.try_join(name, Join::token())), "invalid_address", "{name:?}");
    }
    for (said, is) in
        [("bob", "agent:bob"), ("a1b2c3d4::agent:eve", "agent:eve"), ("human:Ana@X.org", "human:ana@x.org")]
    {
        assert_eq!(world.join(said)["address"], is);
    }
}

#[test]
fn minimum_level_by_level() {
    let mut out = String::new();
    for required in 0..4u8 {
        let row: Vec<String> = (0..4u8)
            .map(|level| {
                let mut world = network("open");
                world.set(json!({ "min_verification": required }));
                let result = world.try_join("openagents:x", Join { level, payload: json!({}), ..Join::default() });
                if let Err(fault) = &result
                    && level > 0
                {
                    let details = fault.details.as_ref().unwrap();
                    assert_eq!(
                        (details["required"].as_u64(), details["presented"].as_u64()),
                        (Some(u64::from(required)), Some(u64::from(level)))
                    );
                    assert!(details["methods"].is_array());
                }
                outcome(&result)
            })
            .collect();
        out += &format!("{required}: {}\n", row.join(" "));
    }
    expect![[r#"
        0: verification_required ok ok ok
        1: verification_required ok ok ok
        2: verification_required verification_required ok ok
        3: verification_required verification_required verification_required ok
    "#]]
    .assert_eq(&out);
}

#[test]
fn join_answers_the_full_result() {
    let mut world = World::plain();
    let result = world.join_with("agent:a", json!({ "window": 10, "agent_type": "coder" }));
    expect![[r#"
        {
          "address": "agent:a",
          "agent_name": "a",
          "head_id": null,
          "heartbeat_ms": 30000,
          "network_id": "a1b2c3d4",
          "offline_after_ms": 60000,
          "pending": 0,
          "role": "member",
          "status": "online",
          "took_over": null,
          "verification": 0,
          "window": 10
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&result).unwrap());
    let stored = &world.events[&1].event;
    assert_eq!(stored.visibility.as_str(), "public");
    assert!(!stored.json().contains("session"));
}

#[test]
fn secrets_never_reach_the_stored_join() {
    let mut world = World::plain();
    let payload =
        json!({ "credentials": { "token": "s3cret" }, "token": "s3cret", "session_id": "s3cret", "description": "d" });
    world.join_with("agent:a", payload);
    assert!(!world.events[&1].event.json().contains("s3cret"));
    assert!(world.events[&1].event.payload().contains("\"d\""));
}

#[test]
fn a_second_join_takes_over_and_the_old_session_is_revoked() {
    let mut world = World::plain().joined(&["agent:a"]);
    let (old, first) = (world.caller("agent:a"), world.session("agent:a"));
    world.join("agent:a");
    let revoked: Vec<(u32, Vec<u64>)> = world
        .after
        .iter()
        .filter_map(|e| match e {
            Effect::Revoked { member, numbers, code: ErrorCode::SessionRevoked } => Some((*member, numbers.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(revoked, [(0, vec![first.number])]);
    let event = json!({ "type": "x.y", "target": "core" });
    assert_eq!(outcome(&world.emit_as(&old, event.clone())), "session_revoked");
    let stream = rialto_engine::Caller { stream: Some(first), ..Default::default() };
    assert_eq!(outcome(&world.emit_as(&stream, event.clone())), "session_revoked");
    assert_eq!(outcome(&world.emit("agent:a", event)), "ok");
}

#[test]
fn a_join_with_the_current_session_keeps_it() {
    let mut world = World::plain().joined(&["agent:a"]);
    let before = world.session("agent:a");
    let session = world.secrets.get("agent:a").cloned();
    // The session alone is enough, also for a token network.
    let kept = world.try_join("agent:a", Join { session, payload: json!({}), ..Join::default() }).unwrap();
    assert!(!kept.joined.unwrap().issued);
    assert_eq!(world.session("agent:a"), before);
    assert_eq!(world.try_say("agent:a", "core"), "ok");
}

#[test]
fn takeover_secret_protects_a_name() {
    let mut world = World::plain();
    world.set(json!({ "takeover": "secret" }));
    for name in ["agent:a", "human:ana"] {
        world.join(name);
        assert_eq!(outcome(&world.try_join(name, Join::token())), "address_taken", "{name}");
        let session = world.secrets.get(name).cloned();
        assert_eq!(outcome(&world.try_join(name, Join { session, ..Join::token() })), "ok");
    }
    // After leaving, the last session still proves it; others wait for 24 hours.
    world.join("agent:b");
    let letter = world.say("agent:b", "agent:a");
    let last = world.secrets.get("agent:a").cloned();
    world.act("agent:a", "network.agent.leave", json!({})).unwrap();
    assert_eq!(outcome(&world.try_join("agent:a", Join::token())), "address_taken");
    world.advance(23 * 3_600_000);
    assert_eq!(outcome(&world.try_join("agent:a", Join::token())), "address_taken");
    assert_eq!(outcome(&world.try_join("agent:a", Join { session: last, ..Join::token() })), "ok");
    assert_eq!(world.pending("agent:a"), [letter]);
    world.act("agent:a", "network.agent.leave", json!({})).unwrap();
    world.advance(24 * 3_600_000);
    assert_eq!(outcome(&world.try_join("agent:a", Join::token())), "ok");
    assert_eq!(world.pending("agent:a"), [0; 0]);
    let id = world.events[&letter].event.id().to_owned();
    assert_eq!(world.notices(), [("agent:b".into(), "agent:a".into(), "expired".into(), vec![id])]);
}

#[test]
fn a_proven_member_is_not_taken_over_without_proof() {
    let mut world = World::workspace();
    world.try_join("openagents:x", Join { level: 2, ..Join::token() }).unwrap();
    assert_eq!(outcome(&world.try_join("openagents:x", Join::token())), "address_taken");
    // Its own session keeps its level.
    let session = world.secrets.get("openagents:x").cloned();
    let again = world.try_join("openagents:x", Join { session, ..Join::token() }).unwrap();
    assert_eq!(again.result.unwrap()["verification"], 2);
    assert_eq!(outcome(&world.try_join("openagents:x", Join { level: 1, ..Join::token() })), "ok");
}

#[test]
fn roles_granted() {
    let mut world = World::workspace();
    let role =
        |world: &mut World, name: &str, payload| world.join_with(name, payload)["role"].as_str().unwrap().to_owned();
    assert_eq!(role(&mut world, "human:ana", json!({})), "member");
    assert_eq!(role(&mut world, "agent:first", json!({})), "member", "nobody becomes master by coming first");
    assert_eq!(role(&mut world, "agent:second", json!({ "role": "master" })), "member");
    assert_eq!(role(&mut world, "agent:eye", json!({ "role": "observer" })), "observer");
    assert_eq!(role(&mut world, "agent:eye", json!({})), "member", "what a join asks for holds for its session");
    world.admin(AdminOp::Role("agent:first".into(), Role::Master)).unwrap();
    assert_eq!(role(&mut world, "agent:first", json!({})), "master", "kept on re-join");
    assert_eq!(role(&mut world, "agent:first", json!({ "role": "observer" })), "observer");
    assert_eq!(world.try_say("agent:first", "core"), "observer_read_only");
    assert_eq!(role(&mut world, "agent:first", json!({})), "master");
    let mut plain = World::plain();
    assert_eq!(role(&mut plain, "agent:first", json!({})), "member");
    let mut capped = token("watch", "watch-token");
    capped.role = Some(Role::Observer);
    plain.admin(AdminOp::AddToken(capped)).unwrap();
    let joined = plain.try_join("agent:w", Join { tokens: vec!["watch-token"], payload: json!({}), ..Join::default() });
    assert_eq!(joined.unwrap().result.unwrap()["role"], "observer");
}

#[test]
fn a_token_of_one_agent_admits_only_that_agent() {
    let mut world = World::workspace();
    let mut own = token("own", "own-token");
    own.agent = Some("solo".into());
    world.admin(AdminOp::AddToken(own)).unwrap();
    let with = Join { tokens: vec!["own-token"], payload: json!({}), ..Join::default() };
    assert_eq!(outcome(&world.try_join("agent:other", with.clone())), "invalid_token");
    assert_eq!(outcome(&world.try_join("agent:solo", with)), "ok");
    // Nor does it speak for a compat member.
    world.try_join("agent:lax", Join::compat()).unwrap();
    let mut caller = World::holder("agent:lax");
    caller.bearer = Some(crate::world::sha("own-token"));
    assert_eq!(outcome(&world.emit_as(&caller, json!({ "type": "x.y", "target": "core" }))), "invalid_token");
}

#[test]
fn rotation_kills_the_old_token() {
    let mut world = World::plain();
    world.admin(AdminOp::AddToken(token("new", "new-token"))).unwrap();
    world.admin(AdminOp::RevokeToken("main".into())).unwrap();
    assert_eq!(outcome(&world.try_join("agent:a", Join::token())), "invalid_token");
    let new = Join { tokens: vec!["new-token"], payload: json!({}), ..Join::default() };
    assert_eq!(outcome(&world.try_join("agent:a", new)), "ok");
}

#[test]
fn an_unknown_resume_point() {
    let mut world = World::plain().joined(&["agent:a"]);
    let unknown = Join { resume: Resume::Unknown, ..Join::token() };
    assert_eq!(outcome(&world.try_join("agent:a", unknown.clone())), "cursor_unknown");
    let compat = Join { capabilities: Capabilities::ALL, ..unknown };
    assert_eq!(world.try_join("agent:a", compat).unwrap().joined.unwrap().resume_after, Some(0));
    for (payload, code) in [
        (json!({ "acks": "some" }), "invalid_argument"),
        (json!({ "window": 0 }), "invalid_argument"),
        (json!({ "window": "x" }), "invalid_payload"),
        (json!({ "channels": ["nope"] }), "unknown_target"),
        (json!({ "agent_id": "agent:other" }), "source_mismatch"),
    ] {
        assert_eq!(outcome(&world.try_join("agent:a", Join::with(payload.clone()))), code, "{payload}");
    }
}

#[test]
fn a_workspace_seats_its_members_in_the_default_channel_if_there_is_one() {
    let mut world = World::workspace().joined(&["agent:a"]);
    let general = world.state().channel_id("general").unwrap();
    assert!(world.state().member(0).unwrap().sits_in(general));
    world.admin(AdminOp::Role("agent:a".into(), Role::Master)).unwrap();
    world.act("agent:a", "network.channel.delete", json!({ "channel": "general" })).unwrap();
    assert_eq!(outcome(&world.try_join("agent:b", Join::token())), "ok");
}
