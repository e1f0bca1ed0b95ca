//! Who is calling: strict and lax binding, sources, first events that join, readers (sheet section 1.2).

use crate::world::{Join, TOKEN, World, outcome, sha};
use expect_test::expect;
use rialto_engine::{Caller, Capabilities, Principal};
use rialto_model::limits;
use serde_json::{Value, json};

fn hello() -> serde_json::Value {
    json!({ "type": "x.y", "target": "core" })
}

#[test]
fn strict_and_lax_binding() {
    let mut world = World::workspace();
    world.try_join("agent:compat", Join::compat()).unwrap();
    world.try_join("agent:seed", Join::token()).unwrap();
    world.try_join("agent:stream", Join::token()).unwrap();
    world.try_join("openagents:proved", Join { level: 1, ..Join::compat() }).unwrap();
    let mut out = String::new();
    for binding in ["lax", "strict"] {
        world.set(json!({ "session_binding": binding }));
        for name in ["agent:compat", "agent:seed", "agent:stream", "openagents:proved"] {
            let by_token = outcome(&world.emit_as(&World::holder(name), hello()));
            let stale = Caller { session: Some(sha("stale")), ..World::holder(name) };
            let stale = outcome(&world.emit_as(&stale, hello()));
            let own = outcome(&world.emit(name, hello()));
            out += &format!("{binding:6} {name:17} token: {by_token:15} stale: {stale:15} session: {own}\n");
        }
    }
    expect![[r#"
        lax    agent:compat      token: ok              stale: session_revoked session: ok
        lax    agent:seed        token: unauthenticated stale: session_revoked session: ok
        lax    agent:stream      token: unauthenticated stale: session_revoked session: ok
        lax    openagents:proved token: unauthenticated stale: session_revoked session: ok
        strict agent:compat      token: unauthenticated stale: session_revoked session: ok
        strict agent:seed        token: unauthenticated stale: session_revoked session: ok
        strict agent:stream      token: unauthenticated stale: session_revoked session: ok
        strict openagents:proved token: unauthenticated stale: session_revoked session: ok
    "#]]
    .assert_eq(&out);
}

#[test]
fn the_source_is_bound_to_the_caller() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    for (source, code) in [
        ("agent:a", "ok"),
        ("a", "ok"),
        ("local::agent:a", "ok"),
        ("a1b2c3d4::agent:a", "ok"),
        ("agent:b", "source_mismatch"),
        ("openagents:a", "source_mismatch"),
        ("core", "source_mismatch"),
        ("other::agent:a", "source_mismatch"),
        ("agent: a", "invalid_address"),
    ] {
        let event = json!({ "type": "x.y", "target": "core", "source": source });
        assert_eq!(outcome(&world.emit("agent:a", event)), code, "{source}");
    }
    let filled = world.emit("agent:a", hello()).unwrap();
    assert_eq!(filled.event.unwrap().event.source(), "agent:a");
    // A session shown beside another name.
    let other =
        Caller { session: world.caller("agent:a").bearer, claimed: Some("agent:b".into()), ..Caller::default() };
    assert_eq!(outcome(&world.emit_as(&other, hello())), "source_mismatch");
    // A session inside the metadata is read and never kept.
    let secret = world.secrets["agent:a"].clone();
    let caller = Caller { bearer: Some(sha(TOKEN)), ..Caller::default() };
    let event = json!({ "type": "x.y", "target": "core", "source": "agent:a", "metadata": { "session_id": secret } });
    let accepted = world.emit_as(&caller, event).unwrap();
    assert_eq!(accepted.event.unwrap().event.metadata(), "{}");
}

#[test]
fn callers_without_a_member() {
    let mut world = World::plain().joined(&["agent:a"]);
    let nobody = Caller::default();
    let bare = Caller { bearer: Some(sha(TOKEN)), ..Caller::default() };
    let junk = Caller { bearer: Some(sha("junk")), ..Caller::default() };
    let operator = Caller { operator: true, ..Caller::default() };
    let stranger = Caller { claimed: Some("agent:z".into()), ..bare.clone() };
    for (caller, code) in [
        (&nobody, "unauthenticated"),
        (&bare, "unauthenticated"),
        (&junk, "invalid_token"),
        (&operator, "not_a_member"),
        (&stranger, "not_a_member"),
    ] {
        assert_eq!(outcome(&world.emit_as(caller, hello())), code, "{caller:?}");
    }
    let holder = world.state().principal(&bare, None, world.now).unwrap();
    assert_eq!(holder, Principal::Holder { claimed: None, token: Some("main".into()) });
    assert_eq!(world.state().principal(&operator, None, world.now), Ok(Principal::Operator));
    world.set(json!({ "policy": "open" }));
    assert!(matches!(world.state().principal(&nobody, None, world.now), Ok(Principal::Holder { .. })));
}

#[test]
fn a_first_event_is_decided_as_if_its_sender_had_joined() {
    let mut world = World::workspace().joined(&["agent:a"]);
    let guest = World::holder("openagents:new");
    let before = world.state().hash();
    let refused = json!({ "type": "x.y", "target": "agent:nobody" });
    assert_eq!(outcome(&world.emit_as(&guest, refused)), "unknown_target");
    assert_eq!(world.state().hash(), before, "a refusal leaves nothing");
    // It finds itself among the members.
    let roster = json!({ "type": "network.agent.discover", "target": "core" });
    let seen = world.emit_as(&guest, roster).unwrap().response.unwrap();
    assert!(seen.payload().contains("openagents:new") && seen.payload().contains("agent:a"), "{}", seen.payload());
    // It is one of them from then on.
    let id = world.id("openagents:new");
    assert!(world.state().member(id).unwrap().sits_in(0) && world.state().known_as("openagents:new") == Some(id));
}

#[test]
fn a_compat_clients_first_event_joins_it() {
    let mut world = World::workspace();
    let guest = World::holder("openagents:new");
    let event = json!({ "type": "chat.message.posted", "target": "channel/general", "payload": { "n": 1 } });
    // Refused events join nobody.
    for (event, code) in [
        (json!({ "type": "x.y", "target": "agent:nobody" }), "unknown_target"),
        (json!({ "type": "network.nonsense.x", "target": "core" }), "reserved_type"),
    ] {
        assert_eq!(outcome(&world.emit_as(&guest, event)), code);
        assert_eq!(world.state().member_id("openagents:new"), None);
    }
    let accepted = world.emit_as(&guest, event.clone()).unwrap();
    assert_eq!(accepted.event.unwrap().event.source(), "openagents:new");
    let id = world.id("openagents:new");
    let member = world.state().member(id).unwrap().clone();
    assert!(member.lax && member.sits_in(0) && member.role() == rialto_model::Role::Member);
    assert_eq!(crate::world::signals(&world, "rialto.member.status").len(), 1);
    // It is a member now, and its second event joins nobody else.
    world.emit_as(&guest, event.clone()).unwrap();
    assert_eq!(world.id("openagents:new"), id);
    // After it left, its next event brings it back.
    world.emit_as(&guest, json!({ "type": "network.agent.leave", "target": "core" })).unwrap();
    assert!(world.state().member(id).unwrap().left);
    world.emit_as(&guest, event.clone()).unwrap();
    assert!(!world.state().member(id).unwrap().left);
    // Without the capability, other networks, paused networks: no.
    let seed = Caller { capabilities: Capabilities::default(), ..World::holder("agent:other") };
    assert_eq!(outcome(&world.emit_as(&seed, event.clone())), "not_a_member");
    world.set(json!({ "status": "paused" }));
    assert_eq!(outcome(&world.emit_as(&World::holder("agent:late"), event.clone())), "network_paused");
    world.set(json!({ "status": "active", "implicit_join": false }));
    assert_eq!(outcome(&world.emit_as(&World::holder("agent:late"), event.clone())), "not_a_member");
    world.set(json!({ "implicit_join": true, "max_members": 1 }));
    assert_eq!(outcome(&world.emit_as(&World::holder("agent:late"), event)), "network_full");
}

#[test]
fn a_capped_guest_is_checked_like_any_member() {
    let mut world = World::workspace();
    let mut watch = crate::world::token("watch", "watch-token");
    watch.role = Some(rialto_model::Role::Observer);
    world.admin(rialto_engine::AdminOp::AddToken(watch)).unwrap();
    let guest = Caller { bearer: Some(sha("watch-token")), ..World::holder("agent:eye") };
    assert_eq!(outcome(&world.emit_as(&guest, hello())), "observer_read_only");
    assert_eq!(world.state().member_id("agent:eye"), None);
    world.load("auth", json!({ "require_level": { "x.*": 1 } }));
    assert_eq!(outcome(&world.emit_as(&World::holder("agent:low"), hello())), "verification_required");
}

#[test]
fn sessions_end_after_a_day_without_calls() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.tick();
    world.pass(12 * 3_600_000);
    assert_eq!(world.try_say("agent:b", "core"), "ok");
    world.pass(12 * 3_600_000);
    assert_eq!(world.try_say("agent:a", "core"), "session_expired");
    assert_eq!(world.try_say("agent:b", "core"), "ok");
    // A mere end of the session keeps queueing.
    let seq = world.say("agent:b", "agent:a");
    assert_eq!(world.pending("agent:a"), [seq]);
}

#[test]
fn a_restart_ends_no_session_and_tells_nobody_of_absent_members() {
    let mut world = World::plain().joined(&["agent:a"]);
    let state = rialto_engine::State::from_snapshot(&world.state().to_snapshot(), 3).unwrap();
    world.engine = rialto_engine::Engine::new(state);
    world.now.steady = 0;
    world.advance(1000);
    world.tick();
    assert!(world.after.is_empty(), "{:?}", world.after);
    world.pass(23 * 3_600_000);
    assert_eq!(world.try_say("agent:a", "core"), "ok");
}

#[test]
fn presence_follows_calls_and_streams() {
    let mut world = World::plain().joined(&["agent:a"]);
    let online = |w: &World| w.engine.live.is_online(0, w.now);
    assert!(online(&world));
    world.pass(59_999);
    assert!(online(&world) && world.after.is_empty());
    world.pass(1);
    assert!(!online(&world));
    assert_eq!(crate::world::signals(&world, "rialto.member.status").len(), 1);
    world.tick();
    assert!(world.after.is_empty(), "each change is told once");
    world.say("agent:a", "core");
    assert_eq!(
        crate::world::signals(&world, "rialto.member.status")[0].payload(),
        r#"{"address":"agent:a","role":"member","status":"online"}"#
    );
    // Also a refused call counts; the next tick tells.
    world.pass(60_000);
    assert_eq!(world.try_say("agent:a", "agent:nobody"), "unknown_target");
    world.tick();
    assert_eq!(crate::world::signals(&world, "rialto.member.status").len(), 1);
    // As does one that the node notes without telling anybody.
    world.pass(60_000);
    let now = world.now;
    assert!(world.engine.live.touch(0, now));
    world.tick();
    assert_eq!(crate::world::signals(&world, "rialto.member.status").len(), 1);
    world.join("agent:a");
    assert_eq!(crate::world::signals(&world, "rialto.member.status").len(), 0, "it was there already");
    let now = world.now;
    world.engine.live.stream(0, true, now);
    world.pass(600_000);
    assert!(online(&world));
    let now = world.now;
    world.engine.live.stream(0, false, now);
    assert!(!online(&world), "a closed stream is an absence at once");
}

#[test]
fn presence_each_members_max_and_presence_named_max_are_the_limits() {
    let mut world = World::plain();
    let count = |world: &World| crate::world::signals(world, "rialto.member.status").len();
    let mut told = 0;
    for n in 0..=limits::PRESENCE_EACH_MEMBERS_MAX {
        world.join(&format!("agent:m{n:05}"));
        told += count(&world);
    }
    assert_eq!(told, limits::PRESENCE_EACH_MEMBERS_MAX + 1, "in a small network each is told of at once");
    // Ten thousand joins would be fifty million signals if each were told to each.
    for n in 0..500 {
        world.join(&format!("agent:n{n:05}"));
        assert_eq!(count(&world), 0, "in a large one they are gathered");
    }
    world.act("agent:n00000", "network.agent.leave", json!({})).unwrap();
    world.pass(1000);
    let signals = crate::world::signals(&world, "rialto.member.status");
    assert_eq!(signals.len(), 1, "and told once");
    let payload: Value = serde_json::from_str(signals[0].payload()).unwrap();
    assert_eq!(
        (&payload["address"], &payload["status"]),
        (&json!("agent:n00000"), &json!("offline")),
        "as they are now"
    );
    let others = payload["others"].as_array().unwrap();
    assert_eq!(others.len(), limits::PRESENCE_NAMED_MAX - 1);
    assert_eq!(others[0], json!({ "address": "agent:n00001", "status": "online", "role": "member" }));
    assert_eq!(payload["unnamed"], json!(500 - limits::PRESENCE_NAMED_MAX));
    world.pass(1000);
    assert_eq!(count(&world), 0, "once");
    world.act("agent:n00001", "network.agent.leave", json!({})).unwrap();
    world.pass(1000);
    let signals = crate::world::signals(&world, "rialto.member.status");
    let payload: Value = serde_json::from_str(signals[0].payload()).unwrap();
    assert_eq!(
        payload,
        json!({ "address": "agent:n00001", "status": "offline", "role": "member" }),
        "one alone reads as ever"
    );
}
