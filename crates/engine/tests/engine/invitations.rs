//! Invitations: joining and being seated by a secret (sheet sections 1.3 and 6.1).

use crate::world::{Join, START, World, outcome};
use rialto_engine::AdminOp;
use rialto_engine::mods::ModConfig;
use rialto_model::network::{Policy, Preset, Settings};
use rialto_model::payload::NewInvitation;
use rialto_model::{Role, limits};
use serde_json::{Value, json};

const HUMAN: &str = "human:ann@example.com";

/// A network that admits invited addresses only, with agent:a and agent:b in it.
fn world() -> World {
    let mut settings = Settings::preset("main", Preset::Plain);
    settings.policy = Policy::Invite;
    let mut world = World::with(settings, &["persistence"]);
    for name in ["agent:a", "agent:b"] {
        world.try_join(name, Join { operator: true, payload: json!({}), ..Join::default() }).unwrap();
    }
    world
}

fn invite(world: &mut World, by: &str, target: &str, payload: Value) -> Result<Value, rialto_model::Fault> {
    let event = json!({ "type": "workspace.invitation.created", "target": target, "payload": payload });
    world.emit(by, event).map(|accepted| *accepted.result.unwrap())
}

fn with(invite: Option<&'static str>) -> Join {
    Join { invite, payload: json!({}), ..Join::default() }
}

fn join(world: &mut World, address: &str, secret: Option<&'static str>) -> String {
    outcome(&world.try_join(address, with(secret)))
}

/// What the inviter heard: type and payload.
fn heard(world: &World, who: &str) -> Vec<(String, Value)> {
    let events = world.pending(who).into_iter().map(|seq| world.events[&seq].event.clone());
    let about = events.filter(|e| e.kind().starts_with("workspace.invitation."));
    about.map(|e| (e.kind().to_owned(), serde_json::from_str(e.payload()).unwrap())).collect()
}

#[test]
fn only_the_invited_join() {
    let mut world = world();
    assert_eq!(join(&mut world, "agent:c", None), "invite_required");
    assert_eq!(join(&mut world, "agent:c", Some("guess")), "invite_invalid");
    let made = invite(&mut world, "agent:a", "core", json!({})).unwrap();
    assert_eq!(made["expires_at"], json!(START + 604_800_000));
    assert_eq!(join(&mut world, "agent:c", Some("secret")), "ok");
    assert_eq!(join(&mut world, "agent:d", Some("secret")), "invite_invalid", "used up");
    let want = json!({ "invitation_id": made["invitation_id"], "address": "agent:c" });
    assert_eq!(heard(&world, "agent:a"), [("workspace.invitation.accepted".to_owned(), want)]);
    assert!(world.state().book.invites.is_empty());
    // A member comes back with its session.
    let session = world.secrets["agent:c"].clone();
    let back = Join { session: Some(session), ..with(None) };
    assert_eq!(outcome(&world.try_join("agent:c", back)), "ok");
}

#[test]
fn a_live_name_is_not_taken_with_another_invitation() {
    let mut world = world();
    assert_eq!(
        world.state().book.settings.takeover,
        rialto_model::network::Takeover::Last,
        "whatever the setting says"
    );
    invite(&mut world, "agent:a", "core", json!({ "max_uses": 9 })).unwrap();
    for name in ["agent:c", HUMAN] {
        assert_eq!(join(&mut world, name, Some("secret")), "ok");
        let session = world.secrets[name].clone();
        assert_eq!(join(&mut world, name, Some("secret")), "address_taken", "{name}");
        assert_eq!(join(&mut world, name, None), "invite_required", "{name}");
        let wrong = Join { session: Some("guess".into()), ..with(Some("secret")) };
        assert_eq!(outcome(&world.try_join(name, wrong)), "address_taken", "{name}");
        let own = Join { session: Some(session), ..with(None) };
        assert_eq!(outcome(&world.try_join(name, own)), "ok", "its last session proves it");
    }
    // A refused try uses nothing up.
    let invites: Vec<u32> = world.state().book.invites.values().map(|invite| invite.uses_left).collect();
    assert_eq!(invites, [7]);
}

#[test]
fn an_invitation_ends_by_time_use_refusal_and_revocation() {
    let mut world = world();
    world.fresh = "short";
    invite(&mut world, "agent:a", "core", json!({ "expires_in_s": 10 })).unwrap();
    world.fresh = "twice";
    invite(&mut world, "agent:a", "core", json!({ "max_uses": 2 })).unwrap();
    world.fresh = "bound";
    let bound = invite(&mut world, "agent:a", "agent:x", json!({ "message": "come" })).unwrap();
    world.advance(10_000);
    assert_eq!(join(&mut world, "agent:c", Some("short")), "invite_invalid");
    world.tick();
    assert_eq!(world.state().book.invites.len(), 2, "what is over is forgotten");
    for (address, code) in [("agent:c", "ok"), ("agent:d", "ok"), ("agent:e", "invite_invalid")] {
        assert_eq!(join(&mut world, address, Some("twice")), code, "{address}");
    }
    assert_eq!(join(&mut world, "agent:y", Some("bound")), "invite_invalid", "it is for another");
    let id = bound["invitation_id"].as_str().unwrap().to_owned();
    let wrong = Some(crate::world::sha("guess"));
    assert_eq!(outcome(&world.admin(AdminOp::EndInvite(id.clone(), wrong))), "invite_invalid");
    world.admin(AdminOp::EndInvite(id.clone(), Some(crate::world::sha("bound")))).unwrap();
    assert_eq!(join(&mut world, "agent:x", Some("bound")), "invite_invalid", "refused");
    let last = heard(&world, "agent:a").pop().unwrap();
    assert_eq!(last, ("workspace.invitation.rejected".to_owned(), json!({ "invitation_id": id })));
    world.fresh = "operators";
    let wish = NewInvitation { role: Some("observer".into()), ..NewInvitation::default() };
    let made = world.admin(AdminOp::Invite(wish.clone(), crate::world::sha("operators"))).unwrap();
    let id = made["invitation_id"].as_str().unwrap().to_owned();
    world.admin(AdminOp::EndInvite(id, None)).unwrap();
    assert_eq!(join(&mut world, "agent:z", Some("operators")), "invite_invalid", "revoked");
    world.admin(AdminOp::Invite(wish, crate::world::sha("operators"))).unwrap();
    assert_eq!(join(&mut world, "agent:z", Some("operators")), "ok");
    let z = world.id("agent:z");
    assert_eq!(world.state().member(z).unwrap().role(), Role::Observer);
    assert_eq!(outcome(&invite(&mut world, "agent:z", "core", json!({}))), "observer_read_only");
}

#[test]
fn who_takes_a_present_members_name_with_the_operators_invitation_spends_it_and_ends_with_it() {
    let mut world = world();
    let wish = NewInvitation { invitee: Some("agent:b".into()), max_uses: Some(2), ..NewInvitation::default() };
    let made = world.admin(AdminOp::Invite(wish, crate::world::sha("operators"))).unwrap();
    let before = world.secrets["agent:b"].clone();
    assert_eq!(join(&mut world, "agent:b", Some("operators")), "ok", "the operator made it for this name");
    let session = world.secrets["agent:b"].clone();
    assert_ne!(session, before);
    let left: Vec<u32> = world.state().book.invites.values().map(|invite| invite.uses_left).collect();
    assert_eq!(left, [1], "it was needed, so it is used");
    // Whoever shows its own session needs none.
    let own = Join { session: Some(session), ..with(Some("operators")) };
    assert_eq!(outcome(&world.try_join("agent:b", own)), "ok");
    let left: Vec<u32> = world.state().book.invites.values().map(|invite| invite.uses_left).collect();
    assert_eq!(left, [1]);
    let id = made["invitation_id"].as_str().unwrap().to_owned();
    world.admin(AdminOp::EndInvite(id, None)).unwrap();
    let b = world.state().known_as("agent:b").and_then(|id| world.state().member(id)).unwrap();
    assert!(b.sessions.is_empty(), "it is over with the invitation");
}

#[test]
fn a_stranger_is_seated_where_it_was_invited() {
    let mut world = world();
    world.act("agent:a", "network.channel.create", json!({ "name": "den", "private": true })).unwrap();
    assert_eq!(outcome(&invite(&mut world, "agent:b", "agent:x", json!({ "channel": "den" }))), "unknown_target");
    invite(&mut world, "agent:a", "openagents:x", json!({ "channel": "den" })).unwrap();
    let stored = world.events[&world.head()].clone();
    assert_eq!((stored.event.target(), stored.route.stream), ("openagents:x", None), "kept, for nobody yet");
    assert!(!stored.event.payload().contains("secret"));
    world.set(json!({ "unverified_openagents": true }));
    assert_eq!(join(&mut world, "agent:x", Some("secret")), "invite_invalid");
    assert_eq!(join(&mut world, "openagents:x", Some("secret")), "ok");
    let den = world.state().channel_id("den").unwrap();
    let x = world.id("openagents:x");
    assert!(world.state().channel(den).unwrap().seated.contains(&x));
}

#[test]
fn members_answer_invitations_to_channels() {
    let mut world = world();
    world.act("agent:a", "network.channel.create", json!({ "name": "den", "private": true })).unwrap();
    let made = invite(&mut world, "agent:a", "agent:b", json!({ "channel": "den" })).unwrap();
    let id = made["invitation_id"].clone();
    assert_eq!(heard(&world, "agent:b")[0].1["invitation_id"], id, "the invited member hears of it");
    let answer = |kind: &str, target: &str, id: &Value| json!({ "type": format!("workspace.invitation.{kind}"), "target": target, "payload": { "invitation_id": id } });
    assert_eq!(outcome(&world.emit("agent:b", answer("accepted", "agent:a", &id))), "reserved_type");
    assert_eq!(outcome(&world.emit("agent:a", answer("accepted", "core", &id))), "invite_invalid", "not for a");
    assert_eq!(outcome(&world.emit("agent:b", answer("accepted", "core", &json!("inv_x")))), "invite_invalid");
    assert_eq!(outcome(&world.emit("agent:b", answer("accepted", "core", &id))), "ok");
    let den = world.state().channel_id("den").unwrap();
    assert!(world.state().member(world.id("agent:b")).unwrap().sits_in(den));
    let want = json!({ "invitation_id": id, "address": "agent:b" });
    assert_eq!(heard(&world, "agent:a"), [("workspace.invitation.accepted".to_owned(), want)]);
    // Refused: the inviter hears of it, and the invitation is dead.
    let id = invite(&mut world, "agent:a", "agent:b", json!({})).unwrap()["invitation_id"].clone();
    let refusal = json!({ "type": "workspace.invitation.rejected", "target": "agent:a",
        "payload": { "invitation_id": id, "reason": "busy" } });
    assert_eq!(outcome(&world.emit("agent:b", refusal.clone())), "ok");
    assert_eq!(heard(&world, "agent:a").pop().unwrap().1["reason"], "busy");
    assert_eq!(outcome(&world.emit("agent:b", refusal)), "invite_invalid");
    assert_eq!(outcome(&world.emit("agent:b", answer("accepted", "core", &id))), "invite_invalid");
    // One without an invitee is for who knows its secret.
    let id = invite(&mut world, "agent:a", "core", json!({})).unwrap()["invitation_id"].clone();
    assert_eq!(outcome(&world.emit("agent:b", answer("accepted", "core", &id))), "invite_invalid");
}

#[test]
fn a_token_network_admits_the_invited_too() {
    let mut world = World::workspace();
    world.admin(AdminOp::SetMod(ModConfig::standard("workspace").unwrap())).unwrap();
    let mut world = world.joined(&["agent:a", HUMAN]);
    assert_eq!(join(&mut world, "agent:c", None), "token_required");
    assert_eq!(join(&mut world, "agent:c", Some("guess")), "invite_invalid");
    let text = json!({ "id": "i-1", "type": "workspace.invitation.created", "target": "core", "payload": {} });
    let first = world.emit(HUMAN, text.clone()).unwrap().result.unwrap();
    let again = world.emit_text(&world.caller(HUMAN), &format!(" {text}")).unwrap();
    assert_eq!((again.duplicate, again.result.unwrap()), (true, first));
    assert_eq!(world.state().book.invites.len(), 1);
    assert_eq!(join(&mut world, "agent:c", Some("secret")), "ok");
    // Where there is neither the mod nor the policy, these are plain events.
    let mut plain = World::plain().joined(&["agent:a"]);
    let event = json!({ "type": "workspace.invitation.created", "target": "core", "payload": {} });
    assert_eq!(plain.emit("agent:a", event).unwrap().result, None);
    assert_eq!(outcome(&invite_plain(&mut plain)), "unknown_target");
}

fn invite_plain(world: &mut World) -> Result<rialto_engine::Accepted, rialto_model::Fault> {
    world.emit("agent:a", json!({ "type": "workspace.invitation.created", "target": "agent:x", "payload": {} }))
}

#[test]
fn bad_wishes_and_limits() {
    let mut world = world();
    let long = "x".repeat(limits::INVITE_MESSAGE_CHARS_MAX + 1);
    for (payload, code) in [
        (json!({ "role": "master" }), "invalid_payload"),
        (json!({ "max_uses": 0 }), "invalid_payload"),
        (json!({ "max_uses": u64::from(limits::INVITE_USES_MAX) + 1 }), "invalid_payload"),
        (json!({ "max_uses": limits::INVITE_USES_MAX, "expires_in_s": limits::INVITE_SECONDS_MAX }), "ok"),
        (json!({ "expires_in_s": limits::INVITE_SECONDS_MAX + 1 }), "invalid_payload"),
        (json!({ "message": long }), "invalid_payload"),
        (json!({ "invitee": "channel/x" }), "invalid_address"),
        (json!({ "invitee": "agent:y" }), "invalid_payload"),
        (json!({ "channel": "nowhere" }), "unknown_target"),
    ] {
        assert_eq!(outcome(&invite(&mut world, "agent:a", "agent:x", payload.clone())), code, "{payload}");
    }
    assert_eq!(outcome(&invite(&mut world, "agent:a", "agent:broadcast", json!({}))), "invalid_event");
    world.careful = false;
    world.set(json!({ "member_share_percent": 100 }));
    while world.state().book.invites.len() < limits::INVITES_MAX * (100 - limits::OPERATOR_PERCENT) / 100 {
        invite(&mut world, "agent:a", "core", json!({})).unwrap();
    }
    assert_eq!(outcome(&invite(&mut world, "agent:a", "core", json!({}))), "network_full");
}

#[test]
fn invitations_are_shown_without_their_secrets() {
    let mut world = world();
    invite(&mut world, "agent:a", "agent:x", json!({ "message": "come" })).unwrap();
    invite(&mut world, "agent:a", "core", json!({})).unwrap();
    assert_eq!(world.state().invitations(None).invitations.len(), 2);
    let own = world.state().invitations(Some("agent:x")).invitations;
    assert_eq!((own.len(), own[0].message.as_deref(), own[0].inviter.as_deref()), (1, Some("come"), Some("agent:a")));
    assert!(json!(own)[0].get("sha256").is_none());
}
