//! Who may take a name, who manages, and what ends with a credential.

use crate::world::{Join, World, outcome, token};
use rialto_engine::AdminOp;
use rialto_engine::credential::Strangers;
use rialto_engine::mods::ModConfig;
use rialto_model::Role;
use rialto_model::network::{Policy, Preset, Settings, Token};
use serde_json::{Value, json};

fn bound(world: &mut World, agent: &str, secret: &'static str) {
    world.admin(AdminOp::AddToken(Token { agent: Some(agent.into()), ..token(agent, secret) })).unwrap();
}

fn narrowed(world: &mut World) {
    world.admin(AdminOp::AddToken(Token { role: Some(Role::Observer), ..token("eyes", "eyes-token") })).unwrap();
}

fn with(secret: &'static str) -> Join {
    Join { tokens: vec![secret], payload: json!({}), ..Join::default() }
}

fn role(world: &mut World, who: &str, join: Join) -> Value {
    world.try_join(who, join).unwrap().result.unwrap()["role"].clone()
}

#[test]
fn a_weaker_credential_takes_no_name_and_lowers_no_role() {
    let mut world = World::workspace().joined(&["agent:alice", "agent:bob"]);
    narrowed(&mut world);
    let mail = world.say("agent:bob", "agent:alice");
    assert_eq!(outcome(&world.try_join("agent:alice", with("eyes-token"))), "address_taken");
    assert_eq!(outcome(&world.try_join("openagents:alice", with("eyes-token"))), "address_taken", "the same name");
    assert_eq!((world.try_say("agent:alice", "agent:bob").as_str(), world.pending("agent:alice")), ("ok", vec![mail]));
    assert_eq!(role(&mut world, "agent:alice", Join::token()), "member");
    // Who only ever showed the narrow token may come back with it, and with the whole one.
    assert_eq!(role(&mut world, "agent:eye", with("eyes-token")), "observer");
    assert_eq!(role(&mut world, "agent:eye", with("eyes-token")), "observer");
    assert_eq!(role(&mut world, "agent:eye", Join::token()), "member");
    assert_eq!(outcome(&world.try_join("agent:eye", with("eyes-token"))), "address_taken");
}

#[test]
fn a_proved_name_is_taken_with_proof_only() {
    let mut world = World::workspace();
    bound(&mut world, "alice", "alices");
    world.try_join("agent:alice", Join::token()).unwrap();
    world.try_join("agent:alice", with("alices")).unwrap();
    let session = world.secrets.get("agent:alice").cloned();
    for who in ["agent:alice", "openagents:alice"] {
        assert_eq!(outcome(&world.try_join(who, Join::token())), "address_taken", "{who}");
    }
    assert_eq!(outcome(&world.try_join("agent:alice", Join { session, ..Join::default() })), "ok");
    world.act("agent:alice", "network.agent.leave", json!({})).unwrap();
    world.pass(400 * 24 * 3_600_000);
    assert_eq!(outcome(&world.try_join("agent:alice", Join::token())), "address_taken", "time frees no name");
    assert_eq!(outcome(&world.try_join("agent:alice", with("alices"))), "ok");
    world.admin(AdminOp::Release("alice".into())).unwrap();
    assert_eq!(outcome(&world.try_join("agent:alice", Join::token())), "ok");
    assert_eq!(outcome(&world.admin(AdminOp::Release("nobody".into()))), "unknown_target");
}

#[test]
fn names_of_people_are_theirs_from_the_first_session_on() {
    let mut world = World::workspace().joined(&["human:ana"]);
    assert_eq!(outcome(&world.try_join("human:ana", Join::token())), "address_taken");
    assert_eq!(outcome(&world.try_join("human:operator", Join::token())), "address_taken");
    assert_eq!(outcome(&world.try_join("human:operator", Join { operator: true, ..Join::token() })), "ok");
    let session = world.secrets.get("human:ana").cloned();
    let another = Join { session, ..Join::with(json!({ "new_session": true })) };
    let opened = world.try_join("human:ana", another).unwrap();
    assert!(opened.joined.unwrap().issued, "another tab has a session of its own");
    assert_eq!(world.state().member(0).unwrap().sessions.len(), 2);
    // Every name is, where the network says so.
    world.set(json!({ "names": "owned" }));
    world.join("agent:late");
    assert_eq!(outcome(&world.try_join("agent:late", Join::token())), "address_taken");
    world.set(json!({ "names": "proved" }));
    assert_eq!(outcome(&world.try_join("agent:late", Join::token())), "address_taken", "it was owned when it came");
    // Where the token manages, the rules are those of workspace servers.
    let mut upstream = World::workspace();
    upstream.set(json!({ "token_manages": true }));
    upstream.join("human:ana");
    assert_eq!(outcome(&upstream.try_join("human:ana", Join::token())), "ok");
}

#[test]
fn sessions_end_with_the_token_they_were_made_with() {
    let mut world = World::workspace();
    world.admin(AdminOp::AddToken(token("second", "second-token"))).unwrap();
    let end = world.now.wall + 60_000;
    world.admin(AdminOp::AddToken(Token { expires_at: Some(end), ..token("short", "short-token") })).unwrap();
    world.try_join("agent:a", with("second-token")).unwrap();
    world.try_join("agent:b", with("short-token")).unwrap();
    world.join("agent:c");
    let session = world.secrets.get("agent:a").cloned();
    world.admin(AdminOp::RevokeToken("second".into())).unwrap();
    assert_eq!(world.state().member(world.id("agent:a")).unwrap().sessions.len(), 0);
    for kind in ["network.agent.discover", "network.events.query", "network.ping"] {
        assert_eq!(outcome(&world.act("agent:a", kind, json!({}))), "invalid_token", "{kind}");
    }
    assert_eq!(outcome(&world.try_join("agent:a", Join { session, ..Join::default() })), "token_required");
    // A token of the old label is another token.
    world.admin(AdminOp::AddToken(token("second", "third-token"))).unwrap();
    assert_eq!(world.try_say("agent:a", "core"), "invalid_token");
    assert_eq!((world.try_say("agent:b", "core").as_str(), world.try_say("agent:c", "core").as_str()), ("ok", "ok"));
    world.now.wall = end;
    assert_eq!(world.try_say("agent:b", "core"), "invalid_token", "at once, before any tick");
    world.pass(1000);
    assert_eq!(world.state().member(world.id("agent:b")).unwrap().sessions.len(), 0);
    assert_eq!(world.try_say("agent:c", "core"), "ok");
}

#[test]
fn a_tokens_last_use_is_stored() {
    let mut world = World::workspace();
    world.admin(AdminOp::AddToken(token("second", "second-token"))).unwrap();
    let used = |world: &World| {
        let token = world.state().book.tokens.iter().find(|t| t.label == "second").unwrap();
        (token.last_used_at, world.engine.live.last_use(token))
    };
    assert_eq!(used(&world), (None, None));
    world.try_join("agent:a", with("second-token")).unwrap();
    let joined = world.now.wall;
    assert_eq!(used(&world), (Some(joined), Some(joined)), "a session was made with it");
    world.pass(60_000);
    world.engine.token_shown(&crate::world::sha("second-token"), world.now);
    world.tick();
    let shown = world.now.wall;
    assert_eq!(used(&world), (Some(joined), Some(shown)), "what is shown often is not written every time");
    world.pass(3_600_000);
    world.engine.token_shown(&crate::world::sha("second-token"), world.now);
    world.engine.token_shown(&crate::world::sha("unknown"), world.now);
    let again = world.now.wall;
    world.tick();
    assert_eq!(used(&world), (Some(again), Some(again)));
    world.crash(1000);
    assert_eq!(used(&world), (Some(again), Some(again)), "it outlives the process");
    world.check();
}

#[test]
fn invitations_and_what_was_made_with_them_end_with_their_maker() {
    let mut settings = Settings::preset("main", Preset::Plain);
    settings.policy = Policy::Invite;
    let mut world = World::with(settings, &["persistence"]);
    for name in ["agent:host", "agent:other"] {
        world.try_join(name, Join { operator: true, payload: json!({}), ..Join::default() }).unwrap();
    }
    let event = json!({ "type": "workspace.invitation.created", "target": "core", "payload": { "max_uses": 9 } });
    world.emit("agent:host", event).unwrap();
    let invited = || Join { invite: Some("secret"), payload: json!({}), ..Join::default() };
    world.try_join("agent:guest", invited()).unwrap();
    assert_eq!(world.try_say("agent:guest", "core"), "ok");
    assert_eq!(world.state().member(world.id("agent:guest")).unwrap().hold, rialto_engine::credential::NameHold::Owned);
    world.admin(AdminOp::Remove("host".into())).unwrap();
    assert!(world.state().book.invites.is_empty());
    assert_eq!(world.try_say("agent:guest", "core"), "invalid_token");
    assert_eq!(outcome(&world.try_join("agent:host", invited())), "invite_invalid", "nobody invites itself back");
    assert_eq!(world.try_say("agent:other", "core"), "ok");
}

/// Whoever came with a token that somebody should not have must not come back by an invitation of its own.
#[test]
fn invitations_and_what_was_made_with_them_end_with_the_token_behind_them() {
    for ends in ["revoked", "replaced", "expired"] {
        let mut world = World::workspace();
        world.admin(AdminOp::SetMod(ModConfig::standard("workspace").unwrap())).unwrap();
        let end = world.now.wall + 60_000;
        let expires_at = (ends == "expired").then_some(end);
        world.admin(AdminOp::AddToken(Token { expires_at, ..token("leaked", "leaked-token") })).unwrap();
        world.admin(AdminOp::AddToken(Token { role: Some(Role::Member), ..token("safe", "safe-token") })).unwrap();
        let invited = || Join { invite: Some("secret"), payload: json!({}), ..Join::default() };
        world.try_join("agent:thief", with("leaked-token")).unwrap();
        world.try_join("agent:other", with("safe-token")).unwrap();
        let event = |uses: u32| {
            let payload = json!({ "max_uses": uses });
            json!({ "type": "workspace.invitation.created", "target": "core", "payload": payload })
        };
        // One is used up, and its guest invites in its turn.
        world.emit("agent:thief", event(1)).unwrap();
        world.try_join("agent:guest", invited()).unwrap();
        assert!(world.state().book.invites.is_empty(), "used up");
        world.emit("agent:guest", event(9)).unwrap();
        world.try_join("agent:second", invited()).unwrap();
        world.emit("agent:thief", event(9)).unwrap();
        match ends {
            "revoked" => drop(world.admin(AdminOp::RevokeToken("leaked".into())).unwrap()),
            "replaced" => drop(world.admin(AdminOp::RotateToken(token("fresh", "fresh-token"))).unwrap()),
            _ => {
                world.now.wall = end;
                world.pass(1000);
            }
        }
        assert!(world.state().book.invites.is_empty(), "{ends}");
        for who in ["agent:thief", "agent:guest", "agent:second"] {
            assert_eq!(world.try_say(who, "core"), "invalid_token", "{who}, {ends}");
        }
        assert_eq!(outcome(&world.try_join("agent:thief", invited())), "invite_invalid", "{ends}");
        assert_eq!(world.try_say("agent:other", "core"), "ok", "{ends}");
        world.crash(1000);
        world.check();
    }
}

#[test]
fn an_invitation_of_a_member_takes_no_name_that_somebody_has() {
    let mut settings = Settings::preset("main", Preset::Plain);
    settings.policy = Policy::Invite;
    let mut world = World::with(settings, &["persistence"]);
    for name in ["agent:eve", "agent:alice"] {
        world.try_join(name, Join { operator: true, payload: json!({}), ..Join::default() }).unwrap();
    }
    let own = |world: &World| world.state().member(world.id("agent:alice")).unwrap().hold;
    let before = own(&world);
    let payload = json!({ "invitee": "agent:alice", "max_uses": 9 });
    let event = json!({ "type": "workspace.invitation.created", "target": "core", "payload": payload });
    world.emit("agent:eve", event).unwrap();
    let invited = || Join { invite: Some("secret"), payload: json!({}), ..Join::default() };
    assert_eq!(outcome(&world.try_join("agent:alice", invited())), "address_taken");
    assert_eq!(own(&world), before, "nobody's name became somebody else's own");
    assert_eq!(world.try_say("agent:alice", "core"), "ok");
}

#[test]
fn a_name_that_is_owned_speaks_with_its_session() {
    let mut world = World::workspace();
    world.try_join("human:ana", Join::compat()).unwrap();
    let event = json!({ "type": "x.y", "source": "human:ana", "target": "channel/general" });
    assert_eq!(outcome(&world.emit_as(&World::holder("human:ana"), event.clone())), "unauthenticated");
    world.set(json!({ "token_manages": true }));
    world.try_join("human:bea", Join::compat()).unwrap();
    let event = json!({ "type": "x.y", "source": "human:bea", "target": "channel/general" });
    assert_eq!(outcome(&world.emit_as(&World::holder("human:bea"), event)), "ok", "as clients of workspace servers do");
}

#[test]
fn sessions_end_by_time_whatever_restarts_there_were() {
    const HOUR: u64 = 3_600_000;
    let mut world = World::plain().joined(&["agent:a", "human:ana"]);
    for _ in 0..5 {
        world.pass(6 * HOUR);
        world.restart(0);
        world.pass(1000);
    }
    assert_eq!(world.try_say("agent:a", "core"), "session_expired", "a start is no use of a session");
    assert_eq!(world.try_say("human:ana", "core"), "ok", "people are away for longer");
    let mut world = World::plain().joined(&["agent:a", "human:ana"]);
    for half in 0..61 {
        let want = if half < 60 { "ok" } else { "session_expired" };
        assert_eq!(world.try_say("agent:a", "core"), want, "after {half} times twelve hours");
        assert_eq!(world.try_say("human:ana", "core"), "ok");
        world.pass(12 * HOUR);
    }
}

#[test]
fn the_operator_ends_sessions() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    assert_eq!(outcome(&world.admin(AdminOp::EndSessions("a".into(), Some(77)))), "unknown_target");
    assert_eq!(world.admin(AdminOp::EndSessions("a".into(), None)).unwrap()["ended"].as_array().unwrap().len(), 1);
    assert_eq!(
        (world.try_say("agent:a", "core").as_str(), world.try_say("agent:b", "core").as_str()),
        ("invalid_token", "ok")
    );
}

#[test]
fn a_token_for_a_name_and_the_operator_speak_beside_its_session() {
    use rialto_engine::Caller;
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    bound(&mut world, "a", "as-token");
    let event = || json!({ "type": "x.y", "target": "agent:b" });
    let token = Caller { bearer: Some(crate::world::sha("as-token")), ..Caller::default() };
    let operator = Caller { operator: true, claimed: Some("agent:a".into()), ..Caller::default() };
    for caller in [&token, &operator] {
        let sent = world.emit_as(caller, event()).unwrap();
        assert_eq!(sent.event.unwrap().event.source(), "agent:a");
    }
    assert_eq!(world.try_say("agent:a", "core"), "ok", "its own session goes on");
    let other = Caller { claimed: Some("agent:b".into()), ..token.clone() };
    assert_eq!(outcome(&world.emit_as(&other, event())), "invalid_token");
}

#[test]
fn an_open_network_admits_strangers_only_in_a_run_that_says_so() {
    let mut world = World::plain();
    world.set(json!({ "policy": "open" }));
    let nothing = || Join { payload: json!({}), ..Join::default() };
    assert_eq!(outcome(&world.try_join("agent:a", nothing())), "ok");
    world.engine.state.strangers = Strangers::Refused;
    assert_eq!(outcome(&world.try_join("agent:b", nothing())), "token_required");
    assert_eq!(outcome(&world.try_join("agent:b", Join::token())), "ok");
    let stranger = rialto_engine::Caller::default();
    assert_eq!(
        outcome(&world.emit_as(&stranger, json!({ "type": "x.y", "source": "agent:c", "target": "core" }))),
        "unauthenticated"
    );
    // A name that was taken with the token is not a stranger's.
    world.engine.state.strangers = Strangers::ByPolicy;
    assert_eq!(outcome(&world.try_join("agent:b", nothing())), "address_taken");
}

#[test]
fn who_manages() {
    use rialto_engine::Caller;
    let mut world = World::workspace().joined(&["agent:m", "agent:a", "human:ana"]);
    world.admin(AdminOp::Role("agent:m".into(), Role::Master)).unwrap();
    narrowed(&mut world);
    let by = |world: &World, who: &str| world.caller(who);
    let bare = Caller { bearer: Some(crate::world::sha(crate::world::TOKEN)), ..Caller::default() };
    let eyes = Caller { bearer: Some(crate::world::sha("eyes-token")), ..Caller::default() };
    let operator = Caller { operator: true, ..Caller::default() };
    let row = |world: &World| {
        let now = world.now;
        let callers = [
            operator.clone(),
            by(world, "agent:m"),
            by(world, "agent:a"),
            by(world, "human:ana"),
            bare.clone(),
            eyes.clone(),
        ];
        callers.map(|caller| world.state().may_manage(&caller, now))
    };
    assert_eq!(row(&world), [true, true, false, false, false, false]);
    world.set(json!({ "token_manages": true }));
    assert_eq!(row(&world), [true, true, false, true, true, false]);
    world.join_with("agent:m", json!({ "role": "observer" }));
    assert_eq!(row(&world), [true, false, false, true, true, false], "a session that asked for less manages nothing");
}
