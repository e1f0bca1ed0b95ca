//! Every bound of `model::limits` that the engine keeps: filled, and the documented error seen.

use crate::world::{Join, World, outcome, sha, token};
use rialto_engine::{AckRequest, AdminOp, Engine, State};
use rialto_model::network::{Preset, Settings};
use rialto_model::{Seq, limits};
use serde_json::json;

#[test]
fn members_max() {
    assert_eq!(Settings::preset("main", Preset::Plain).max_members, limits::MEMBERS_MAX);
    let mut world = World::plain();
    world.set(json!({ "max_members": 2 }));
    assert_eq!(outcome(&world.try_join("agent:a", Join::token())), "ok");
    assert_eq!(outcome(&world.try_join("agent:b", Join::token())), "ok");
    assert_eq!(outcome(&world.try_join("agent:c", Join::token())), "network_full");
    assert_eq!(outcome(&world.try_join("agent:a", Join::token())), "ok", "who is in may join again");
    world.admin(AdminOp::Remove("agent:b".into())).unwrap();
    assert_eq!(outcome(&world.try_join("agent:c", Join::token())), "ok");
    // A setting cannot lift the bound itself.
    world.set(json!({ "max_members": limits::MEMBERS_MAX * 10 }));
    let mut state = world.state().clone();
    let member = state.book.members[0].clone();
    state.book.members = (0..limits::MEMBERS_MAX)
        .map(|i| rialto_engine::state::Member {
            address: format!("agent:x{i}").into(),
            sessions: vec![],
            ..member.clone()
        })
        .collect();
    let mut full = World::plain();
    full.engine = Engine::new(State::from_parts(state.book, state.lists, state.network, 1));
    assert_eq!(outcome(&full.try_join("agent:one-more", Join::token())), "network_full");
    std::mem::forget(full);
}

#[test]
fn human_sessions_max() {
    let mut world = World::plain();
    world.join("human:ana");
    assert_eq!(outcome(&world.try_join("human:ana", Join::token())), "address_taken", "the name is hers");
    let first = world.secrets.get("human:ana").cloned();
    let another = || Join { session: first.clone(), ..Join::with(json!({ "new_session": true })) };
    for _ in 1..limits::HUMAN_SESSIONS_MAX {
        world.try_join("human:ana", another()).unwrap();
    }
    assert_eq!(outcome(&world.try_join("human:ana", another())), "too_many_sessions");
    assert_eq!(world.state().member(0).unwrap().sessions.len(), limits::HUMAN_SESSIONS_MAX);
    // All of them speak for her, and an ack from any counts.
    assert_eq!(
        outcome(&world.emit_as(
            &rialto_engine::Caller { bearer: Some(sha("session-1")), ..Default::default() },
            json!({ "type": "x.y", "target": "core" })
        )),
        "ok"
    );
}

#[test]
fn channels_max() {
    let mut world = World::plain().joined(&["agent:a"]);
    world.admin(AdminOp::CreateChannel("c".into())).unwrap();
    let mut state = world.state().clone();
    let channel = state.book.channels[0].clone();
    state.book.channels = (0..limits::CHANNELS_MAX)
        .map(|i| rialto_engine::state::Channel { name: format!("c{i}").into(), ..channel.clone() })
        .collect();
    let mut full = World::plain();
    full.careful = false;
    full.secrets = world.secrets.clone();
    full.engine = Engine::new(State::from_parts(state.book, state.lists, state.network, 1));
    assert_eq!(outcome(&full.act("agent:a", "network.channel.create", json!({}))), "network_full");
    assert_eq!(outcome(&full.admin(AdminOp::CreateChannel("more".into()))), "network_full");
    std::mem::forget(full);
}

#[test]
fn groups_max() {
    let mut world = World::plain();
    for i in 0..limits::GROUPS_MAX {
        world.admin(AdminOp::SetGroup(format!("g{i}"), vec![])).unwrap();
    }
    assert_eq!(outcome(&world.admin(AdminOp::SetGroup("one-more".into(), vec![]))), "network_full");
    assert_eq!(outcome(&world.admin(AdminOp::SetGroup("g0".into(), vec!["a".into()]))), "ok");
    std::mem::forget(world);
}

#[test]
fn tokens_max() {
    let mut world = World::plain();
    for i in 1..limits::TOKENS_MAX {
        world.admin(AdminOp::AddToken(token(&format!("t{i}"), &format!("secret{i}")))).unwrap();
    }
    assert_eq!(outcome(&world.admin(AdminOp::AddToken(token("more", "more")))), "network_full");
}

#[test]
fn window_default_and_window_max() {
    let mut world = World::plain();
    assert_eq!(world.join("agent:a")["window"], limits::WINDOW_DEFAULT);
    assert_eq!(world.join_with("agent:a", json!({ "window": limits::WINDOW_MAX }))["window"], limits::WINDOW_MAX);
    for bad in [json!(0), json!(-1), json!(limits::WINDOW_MAX + 1)] {
        let result = world.try_join("agent:a", Join::with(json!({ "window": bad })));
        assert_eq!(outcome(&result), "invalid_argument", "{bad}");
    }
}

#[test]
fn to_addresses_max() {
    let mut world = World::workspace().joined(&["agent:a"]);
    let send = |world: &mut World, n: usize| {
        let to: Vec<String> = (0..n).map(|i| format!("agent:x{i}")).collect();
        outcome(&world.emit("agent:a", json!({ "type": "x.y", "target": "channel/general", "metadata": { "to": to } })))
    };
    assert_eq!(send(&mut world, limits::TO_ADDRESSES_MAX), "ok");
    assert_eq!(send(&mut world, limits::TO_ADDRESSES_MAX + 1), "invalid_event");
}

#[test]
fn refusals_kept_max() {
    let mut world = World::plain().joined(&["agent:a"]);
    world.careful = false;
    for i in 0..limits::REFUSALS_KEPT_MAX + 5 {
        world.emit("agent:a", json!({ "id": format!("r{i}"), "type": "x.y", "target": "agent:nobody" })).unwrap_err();
    }
    let known =
        |id: &str| world.state().explain_refusal(&world.engine.live, rialto_engine::Viewer::Operator, id).is_some();
    assert_eq!(world.engine.live.refusals.len(), limits::REFUSALS_KEPT_MAX);
    assert!(!known("r4") && known("r5"));
}

#[test]
fn dead_letters_kept_max() {
    let mut world = World::bare().joined(&["agent:a", "agent:b"]);
    world.careful = false;
    let s: Vec<Seq> = (0..limits::DEAD_LETTERS_KEPT_MAX + 5).map(|_| world.say("agent:a", "agent:b")).collect();
    world.admin(AdminOp::Remove("agent:b".into())).unwrap();
    let dead = &world.state().book.dead_letters;
    assert_eq!((dead.len(), dead[0].seq), (limits::DEAD_LETTERS_KEPT_MAX, s[5]));
    let named: usize = world.notices().iter().map(|n| n.3.len()).sum();
    assert_eq!(named, s.len(), "each is told to its source all the same");
}

#[test]
fn network_metadata_bytes_max_and_network_name_chars_max() {
    let mut world = World::plain();
    let text = |n: usize| json!({ "metadata": { "d": "x".repeat(n) } });
    let fits = limits::NETWORK_METADATA_BYTES_MAX - r#"{"d":""}"#.len();
    assert_eq!(outcome(&world.admin(AdminOp::Settings(text(fits)))), "ok");
    assert_eq!(outcome(&world.admin(AdminOp::Settings(text(fits + 1)))), "too_large");
    let name = |n: usize| json!({ "name": "é".repeat(n) });
    assert_eq!(outcome(&world.admin(AdminOp::Settings(name(limits::NETWORK_NAME_CHARS_MAX)))), "ok");
    assert_eq!(outcome(&world.admin(AdminOp::Settings(name(limits::NETWORK_NAME_CHARS_MAX + 1)))), "invalid_argument");
}

#[test]
fn profile_bytes_max_and_channel_title_chars_max() {
    let mut world = World::plain();
    let long = "x".repeat(limits::PROFILE_BYTES_MAX);
    assert_eq!(outcome(&world.try_join("agent:a", Join::with(json!({ "description": long })))), "too_large");
    world.join("agent:a");
    let announce =
        json!({ "type": "network.agent.announce", "target": "broadcast", "payload": { "description": long } });
    assert_eq!(outcome(&world.emit("agent:a", announce)), "too_large");
    let title = |n: usize| json!({ "title": "é".repeat(n) });
    assert_eq!(outcome(&world.act("agent:a", "network.channel.create", title(limits::CHANNEL_TITLE_CHARS_MAX))), "ok");
    assert_eq!(
        outcome(&world.act("agent:a", "network.channel.create", title(limits::CHANNEL_TITLE_CHARS_MAX + 1))),
        "invalid_payload"
    );
}

#[test]
fn pending_events_max() {
    assert_eq!(Settings::preset("main", Preset::Plain).max_pending, limits::PENDING_EVENTS_MAX);
    let mut world = World::plain().joined(&["agent:a", "agent:b", "agent:c"]);
    world.set(json!({ "max_pending": 5 }));
    world.act("agent:a", "network.channel.create", json!({ "name": "dev", "participants": ["b"] })).unwrap();
    let s: Vec<Seq> = (0..4).map(|_| world.say("agent:a", "agent:b")).collect();
    assert_eq!(world.try_say("agent:a", "agent:b"), "recipient_queue_full", "the channel's creation counts too");
    // Out-of-order acks make room although the floor does not move.
    world.ack("agent:b", &[s[1], s[2]]);
    assert_eq!(world.try_say("agent:a", "agent:b"), "ok");
    assert_eq!(world.try_say("agent:a", "agent:b"), "ok");
    assert_eq!(world.try_say("agent:a", "agent:b"), "recipient_queue_full");
    let live = json!({ "type": "x.y", "target": "agent:b", "metadata": { "ephemeral": true } });
    assert_eq!(outcome(&world.emit("agent:a", live)), "ok", "what is not queued does not fill a queue");
    // A fan-out commits; the next tick ends the oldest.
    let before = world.pending("agent:b");
    let last = world.say("agent:a", "agent:broadcast");
    assert_eq!(world.try_say("agent:a", "channel/dev"), "ok");
    assert_eq!(world.pending("agent:b").len(), 7);
    world.tick();
    assert_eq!(world.pending("agent:b").len(), 5);
    assert_eq!(world.pending("agent:b")[..3], before[2..5]);
    assert!(world.pending("agent:b").contains(&last));
    assert_eq!(world.notices().len(), 1);
    assert_eq!((world.notices()[0].2.as_str(), world.notices()[0].3.len()), ("queue_full", 2));
    world.tick();
    assert_eq!(world.notices().len(), 1);
}

#[test]
fn pending_bytes_max() {
    assert_eq!(Settings::preset("main", Preset::Plain).max_pending_bytes, limits::PENDING_BYTES_MAX);
    let mut world = World::plain().joined(&["agent:a", "agent:b", "agent:c"]);
    world.set(json!({ "max_pending_bytes": 10 << 10 }));
    let to = |target: &str, kib: usize| {
        let text = "x".repeat(kib * 1024 - 512);
        json!({ "type": "x.y", "target": target, "payload": { "text": text } })
    };
    let s = |accepted: Result<rialto_engine::Accepted, rialto_model::Fault>| accepted.unwrap().seq.unwrap();
    let first = s(world.emit("agent:a", to("agent:b", 1)));
    let second = s(world.emit("agent:a", to("agent:b", 4)));
    let third = s(world.emit("agent:a", to("agent:b", 3)));
    // Eight are there: two more fit, three do not.
    let refused = world.emit("agent:a", to("agent:b", 3)).unwrap_err();
    assert_eq!(refused.code.as_str(), "recipient_queue_full");
    assert!(refused.message.contains("agent:b") && refused.message.contains("10240 bytes"), "{}", refused.message);
    assert_eq!(outcome(&world.emit("agent:a", to("agent:c", 3))), "ok", "it is b's queue that is full");
    let fourth = s(world.emit("agent:a", to("agent:b", 2)));
    assert_eq!(outcome(&world.emit("agent:a", to("agent:b", 1))), "recipient_queue_full");
    world.tick();
    assert_eq!(world.pending("agent:b"), [first, second, third, fourth], "a full queue is not too full");
    // Out-of-order acks make room although the floor does not move; what one sends oneself takes none.
    world.ack("agent:b", &[second]);
    s(world.emit("agent:b", to("agent:broadcast", 40)));
    let fifth = s(world.emit("agent:a", to("agent:b", 4)));
    assert_eq!(outcome(&world.emit("agent:a", to("agent:b", 1))), "recipient_queue_full");
    let live = json!({ "type": "x.y", "target": "agent:b", "metadata": { "ephemeral": true } });
    assert_eq!(outcome(&world.emit("agent:a", live)), "ok", "what is not queued does not fill a queue");
    // A fan-out commits; the next tick ends the oldest, as many as it takes.
    let everything = AckRequest { seqs: vec![], up_to: Some(world.head()), count: false };
    for who in ["agent:a", "agent:c"] {
        world.ack_request(who, &everything);
    }
    let all = s(world.emit("agent:a", to("agent:broadcast", 3)));
    world.tick();
    assert_eq!(world.pending("agent:b"), [fourth, fifth, all], "1 + 3 had to go for 3 beyond 10");
    let named: Vec<_> = world.notices().into_iter().filter(|n| n.2 == "queue_full").collect();
    assert_eq!((named.len(), named[0].3.len()), (1, 2));
    world.tick();
    assert_eq!(world.pending("agent:b"), [fourth, fifth, all]);
}

#[test]
fn one_event_is_never_too_large_for_a_queue() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.set(json!({ "max_pending_bytes": 1 }));
    let large = json!({ "type": "x.y", "target": "agent:b", "payload": { "text": "x".repeat(900 << 10) } });
    let seq = world.emit("agent:a", large.clone()).unwrap().seq.unwrap();
    assert_eq!(outcome(&world.emit("agent:a", large)), "recipient_queue_full");
    world.tick();
    assert_eq!(world.pending("agent:b"), [seq]);
    let next = world.say("agent:a", "agent:broadcast");
    world.tick();
    assert_eq!(world.pending("agent:b"), [next], "of two, the older one");
}

#[test]
fn a_network_of_before_the_byte_bound_gets_it_with_its_first_tick() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let unbounded = Settings { max_pending_bytes: 0, ..world.state().book.settings.clone() };
    world.commit(rialto_engine::record::Change::Settings { settings: unbounded }.into());
    let large = || json!({ "type": "x.y", "target": "agent:b", "payload": { "text": "x".repeat(5000) } });
    world.emit("agent:a", large()).unwrap();
    world.tick();
    assert_eq!(world.state().book.settings.max_pending_bytes, limits::PENDING_BYTES_MAX);
    world.set(json!({ "max_pending_bytes": 7 << 10 }));
    assert_eq!(outcome(&world.emit("agent:a", large())), "ok", "what came before counts as one KiB");
    assert_eq!(outcome(&world.emit("agent:a", large())), "recipient_queue_full");
}

#[test]
fn a_full_queue_whose_mail_also_dies_of_age_is_named_once() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.set(json!({ "max_pending": 3 }));
    for _ in 0..6 {
        world.say("agent:a", "agent:broadcast");
    }
    world.pass(8 * 24 * 3_600_000);
    let named: Vec<String> = world.notices().into_iter().flat_map(|n| n.3).collect();
    assert_eq!(named.len(), 6);
    assert_eq!(named.iter().collect::<std::collections::BTreeSet<_>>().len(), 6);
}

#[test]
fn what_dies_of_age_makes_room_for_the_rest() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.set(json!({ "max_pending": 5 }));
    (0..4).for_each(|_| {
        world.say("agent:a", "agent:broadcast");
    });
    world.advance(5 * 24 * 3_600_000);
    let young: Vec<Seq> = (0..4).map(|_| world.say("agent:a", "agent:broadcast")).collect();
    world.pass(3 * 24 * 3_600_000);
    assert_eq!(world.pending("agent:b"), young);
    assert!(world.notices().iter().all(|n| n.2 == "ttl"));
}

#[test]
fn acks_of_removed_members_change_nothing() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let seq = world.say("agent:a", "agent:b");
    world.admin(AdminOp::Remove("agent:b".into())).unwrap();
    let (now, mut fx) = (world.now, rialto_engine::Effects::default());
    let request = AckRequest { seqs: vec![seq], up_to: Some(seq), count: true };
    assert_eq!(world.engine.ack(1, &request, now, &mut fx), 0);
    assert_eq!(world.engine.ack(77, &request, now, &mut fx), 0);
    assert!(fx.records.is_empty());
}
