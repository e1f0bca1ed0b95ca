//! What stays pending until when: acks, floors, leaving, lives, dead letters, receipts, delivery modes (sheet section 8).

use crate::world::{World, signals};
use rialto_engine::{AckRequest, AdminOp};
use rialto_model::Seq;
use serde_json::{Value, json};

const DAY: u64 = 24 * 3_600_000;
const NONE: [Seq; 0] = [];

fn pair() -> World {
    World::plain().joined(&["agent:a", "agent:b"])
}

fn send(world: &mut World, target: &str, metadata: Value) -> Seq {
    let event = json!({ "type": "x.y", "target": target, "metadata": metadata });
    world.emit("agent:a", event).unwrap().seq.unwrap()
}

fn floor(world: &World, name: &str) -> Seq {
    world.state().lists.floor(world.id(name))
}

#[test]
fn acks_by_seqs_and_up_to_in_any_order() {
    let mut world = pair();
    let s: Vec<Seq> = (0..6).map(|_| world.say("agent:a", "agent:b")).collect();
    assert_eq!(world.ack("agent:b", &[s[2]]), 1);
    assert_eq!(world.pending("agent:b"), [s[0], s[1], s[3], s[4], s[5]]);
    assert_eq!(floor(&world, "agent:b"), s[0] - 1, "the floor waits for the oldest");
    assert_eq!(world.ack("agent:b", &[s[1], s[0], s[0]]), 2);
    assert_eq!(floor(&world, "agent:b"), s[2], "and then jumps over what was acked above it");
    assert!(world.state().lists.acked(1).unwrap().above.is_empty());
    assert_eq!(world.ack_up_to("agent:b", s[4]), 2);
    assert_eq!(world.pending("agent:b"), [s[5]]);
    assert_eq!(world.ack_up_to("agent:b", Seq::MAX), 1, "beyond the head is the head");
    assert_eq!(world.pending("agent:b"), NONE);
    let next = world.say("agent:a", "agent:b");
    assert_eq!(world.pending("agent:b"), [next]);
}

#[test]
fn acks_of_nothing_are_not_recorded() {
    let mut world = pair();
    let own = world.say("agent:b", "agent:a");
    let other = world.say("agent:a", "core");
    let sent = world.say("agent:a", "agent:b");
    world.ack("agent:b", &[sent]);
    let records = world.records.len();
    for request in [
        AckRequest { seqs: vec![own, other, sent, 0, Seq::MAX], up_to: None, count: true },
        AckRequest { seqs: vec![], up_to: Some(sent), count: false },
        AckRequest { seqs: vec![], up_to: Some(Seq::MAX), count: true },
        AckRequest { seqs: vec![own], up_to: Some(other), count: false },
    ] {
        assert_eq!(world.ack_request("agent:b", &request), 0, "{request:?}");
    }
    assert_eq!(world.records.len(), records);
    assert_eq!(world.pending("agent:a"), [own]);
}

#[test]
fn leaving_stops_queueing_and_disconnecting_does_not() {
    let mut world = pair();
    let kept = world.say("agent:a", "agent:b");
    let now = world.now;
    world.engine.live.stream(1, false, now);
    let queued = world.say("agent:a", "agent:b");
    assert_eq!(world.pending("agent:b"), [kept, queued]);
    world.act("agent:b", "network.agent.leave", json!({ "reason": "night" })).unwrap();
    assert_eq!(world.try_say("agent:a", "agent:b"), "unknown_target");
    world.say("agent:a", "agent:broadcast");
    assert_eq!(world.pending("agent:b"), [kept, queued], "rows stay for their life");
    assert_eq!(world.join("agent:b")["pending"], 2);
    let after = world.say("agent:a", "agent:broadcast");
    assert_eq!(world.pending("agent:b"), [kept, queued, after]);
}

#[test]
fn forgetting_dead_letters_what_is_pending() {
    let mut world = pair();
    let ids: Vec<String> = ["m1", "m2", "m3"]
        .iter()
        .map(|id| {
            world
                .emit("agent:a", json!({ "type": "x.y", "target": "agent:b", "id": id }))
                .unwrap()
                .event_id()
                .to_owned()
        })
        .collect();
    world.join("agent:c");
    world.emit("agent:c", json!({ "type": "x.y", "target": "agent:broadcast", "id": "m4" })).unwrap();
    world.act("agent:b", "network.agent.leave", json!({ "forget": true })).unwrap();
    assert_eq!(
        world.notices(),
        [
            ("agent:a".into(), "agent:b".into(), "recipient_left".into(), ids),
            ("agent:c".into(), "agent:b".into(), "recipient_left".into(), vec!["m4".into()]),
        ]
    );
    assert_eq!(world.state().member_id("agent:b"), None);
    assert_eq!(world.state().book.dead_letters.len(), 4);
}

#[test]
fn log_receivers_have_no_queue_until_they_ask_for_one() {
    let mut world = pair();
    world.join_with("agent:log", json!({ "receive": "log" }));
    world.say("agent:a", "agent:log");
    assert_eq!(world.pending("agent:log"), NONE);
    world.receive_queue("agent:log");
    let seq = world.say("agent:a", "agent:log");
    assert_eq!(world.pending("agent:log"), [seq]);
    let records = world.records.len();
    world.receive_queue("agent:log");
    assert_eq!(world.records.len(), records);
    world.join_with("agent:log", json!({ "receive": "log" }));
    world.say("agent:a", "agent:log");
    assert_eq!(world.pending("agent:log"), [seq]);
    // Who left does not come back by looking into its inbox.
    world.act("agent:log", "network.agent.leave", json!({})).unwrap();
    world.receive_queue("agent:log");
    assert!(world.state().member(world.id("agent:log")).unwrap().left);
}

#[test]
fn to_narrows_the_recipients_of_a_fan_out() {
    let mut world = pair().joined(&["agent:c", "agent:d"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "dev", "participants": ["b", "c"] })).unwrap();
    let got = |world: &World, seq: Seq| -> Vec<String> {
        let state = world.state();
        state.roster().filter(|(id, _)| state.is_pending(*id, seq)).map(|(_, m)| m.name().to_owned()).collect()
    };
    for (target, to, expected) in [
        ("channel/dev", json!("agent:b"), vec!["b"]),
        ("channel/dev", json!(["b", "agent:c", "agent:c"]), vec!["b", "c"]),
        ("channel/dev", json!(["agent:d", "agent:nobody"]), vec![]),
        ("channel/dev", json!([]), vec![]),
        ("agent:broadcast", json!(["d"]), vec!["d"]),
        ("agent:b", json!(["agent:c"]), vec!["b"]),
    ] {
        let seq = send(&mut world, target, json!({ "to": to }));
        assert_eq!(got(&world, seq), expected, "{target} {to}");
    }
    for bad in [json!(5), json!(["not an address"]), json!([5])] {
        let event = json!({ "type": "x.y", "target": "channel/dev", "metadata": { "to": bad } });
        assert_eq!(crate::world::outcome(&world.emit("agent:a", event)), "invalid_event", "{bad}");
    }
    // Narrowing is not hiding.
    let seq = send(&mut world, "channel/dev", json!({ "to": "b" }));
    let c = rialto_engine::Viewer::Member(world.id("agent:c"));
    assert!(world.state().lens(c).shows(&world.events[&seq]));
}

#[test]
fn mail_dies_by_its_life_and_is_named_once() {
    let mut world = pair().joined(&["agent:c"]);
    let old = world.say("agent:a", "agent:broadcast");
    world.advance(3 * DAY);
    let direct = world.say("agent:a", "agent:b");
    world.ack("agent:c", &[old]);
    world.pass(4 * DAY - 1);
    assert_eq!(world.notices(), []);
    world.pass(1000);
    let id = |world: &World, seq: Seq| world.events[&seq].event.id().to_owned();
    let first = ("agent:a".to_owned(), "agent:b".to_owned(), "ttl".to_owned(), vec![id(&world, old)]);
    assert_eq!(world.notices(), std::slice::from_ref(&first));
    assert_eq!(world.pending("agent:b"), [direct]);
    world.pass(1000);
    assert_eq!(world.notices().len(), 1);
    world.pass(3 * DAY);
    let second = ("agent:a".into(), "agent:b".into(), "ttl".into(), vec![id(&world, direct)]);
    assert_eq!(world.notices(), [first, second]);
    // The notices die of age themselves, and nobody is told nor is it listed.
    let listed = world.state().book.dead_letters.len();
    world.pass(8 * DAY);
    assert_eq!(world.pending("agent:a"), NONE);
    assert_eq!((world.notices().len(), world.state().book.dead_letters.len()), (2, listed));
}

#[test]
fn a_shorter_life() {
    let mut world = pair();
    let short = send(&mut world, "agent:b", json!({ "ttl_ms": 1500 }));
    let other = send(&mut world, "agent:b", json!({ "ttl_ms": 5000 }));
    let long = send(&mut world, "agent:b", json!({ "ttl_ms": 90 * DAY }));
    world.pass(1499);
    assert_eq!(world.pending("agent:b"), [short, other, long]);
    world.pass(1);
    assert_eq!(world.pending("agent:b"), [other, long]);
    assert_eq!(world.notices()[0].3, [world.events[&short].event.id()]);
    world.ack("agent:b", &[other]);
    world.pass(10_000);
    assert_eq!(world.notices().len(), 1, "acked mail does not die");
    assert!(world.state().book.short_lived.is_empty(), "and is not remembered as short-lived");
    world.pass(7 * DAY);
    assert_eq!(world.pending("agent:b"), NONE, "a longer life than the network's is no longer");
}

#[test]
fn many_dead_letters_are_put_together() {
    let mut world = pair();
    world.careful = false;
    let seqs: Vec<Seq> = (0..250).map(|_| world.say("agent:a", "agent:b")).collect();
    world.pass(8 * DAY);
    let notices = world.notices();
    assert_eq!(notices.iter().map(|n| n.3.len()).collect::<Vec<_>>(), [100, 100, 50]);
    let named: Vec<Seq> = notices.iter().flat_map(|n| &n.3).map(|id| world.ids[id]).collect();
    assert_eq!(named, seqs);
}

#[test]
fn sources_that_left_are_not_told() {
    let mut world = pair();
    world.say("agent:a", "agent:b");
    world.act("agent:a", "network.agent.leave", json!({ "forget": true })).unwrap();
    world.pass(8 * DAY);
    assert_eq!(world.notices(), []);
    assert_eq!(world.state().book.dead_letters.len(), 1);
}

#[test]
fn giving_up_names_each_delivery_once() {
    let mut world = pair();
    world.set(json!({ "max_attempts": 3 }));
    let seq = world.say("agent:a", "agent:b");
    world.give_up("agent:b", &[seq, seq], "max_attempts");
    world.give_up("agent:b", &[seq], "max_attempts");
    assert_eq!(world.notices().len(), 1);
    let payload: Value = serde_json::from_str(world.events[&world.head()].event.payload()).unwrap();
    assert_eq!((&payload["reason"], &payload["attempts"]), (&json!("max_attempts"), &json!(3)));
}

#[test]
fn receipts_come_once_per_recipient() {
    let mut world = pair().joined(&["agent:c"]);
    world.stream("agent:a", true);
    let event =
        |id: &str| json!({ "type": "x.y", "target": "agent:broadcast", "id": id, "metadata": { "receipt": true } });
    let first = world.emit("agent:a", event("r1")).unwrap().seq.unwrap();
    let second = world.emit("agent:a", event("r2")).unwrap().seq.unwrap();
    world.ack_up_to("agent:b", second);
    let told: Vec<(String, String, String)> = signals(&world, "network.event.ack")
        .iter()
        .map(|e| (e.source().to_owned(), e.target().to_owned(), e.metadata_text("in_reply_to").unwrap()))
        .collect();
    let row = |by: &str, id: &str| (by.to_owned(), "agent:a".to_owned(), id.to_owned());
    assert_eq!(told, [row("agent:b", "r1"), row("agent:b", "r2")]);
    let ids: std::collections::BTreeSet<&str> = signals(&world, "network.event.ack").iter().map(|e| e.id()).collect();
    assert_eq!(ids.len(), 2, "each receipt has an id of its own");
    world.ack("agent:b", &[first, second]);
    assert_eq!(signals(&world, "network.event.ack").len(), 0);
    world.ack("agent:c", &[second]);
    assert_eq!(signals(&world, "network.event.ack").len(), 1);
    assert_eq!(world.state().book.receipts.len(), 1);
    world.ack("agent:c", &[first]);
    assert!(world.state().book.receipts.is_empty());
}

#[test]
fn at_most_once_queues_nothing_and_switching_works_both_ways() {
    let mut world = pair();
    let tracked = world.say("agent:a", "agent:b");
    world.set(json!({ "delivery": "at-most-once" }));
    let untracked = world.say("agent:a", "agent:b");
    assert_eq!(world.pending("agent:b"), [tracked], "what was queued stays queued");
    world.join("agent:c");
    world.say("agent:a", "agent:broadcast");
    assert_eq!(world.ack("agent:b", &[untracked]), 0);
    world.set(json!({ "delivery": "at-least-once" }));
    assert_eq!(world.pending("agent:b"), [tracked], "what was sent at most once is nobody's mail");
    assert_eq!(world.pending("agent:c"), NONE);
    let again = world.say("agent:a", "agent:broadcast");
    assert_eq!(world.pending("agent:b"), [tracked, again]);
    assert_eq!(world.pending("agent:c"), [again]);
    world.set(json!({ "delivery": "at-most-once" }));
    world.say("agent:a", "agent:b");
    assert_eq!(world.ack_up_to("agent:b", world.head()), 2);
    world.pass(8 * DAY);
    assert_eq!(world.pending("agent:b"), NONE);
}

#[test]
fn without_persistence_events_are_forgotten_after_their_last_ack() {
    let mut world = World::bare().joined(&["agent:a", "agent:b", "agent:c"]);
    let empty = |world: &World| world.state().lists == rialto_engine::streams::Lists::default();
    let seq = world.say("agent:a", "agent:broadcast");
    world.ack("agent:b", &[seq]);
    assert_eq!(world.pending("agent:c"), [seq]);
    assert!(!world.state().book.unstored.is_empty());
    world.ack_up_to("agent:c", seq);
    assert!(world.state().book.unstored.is_empty());
    assert_eq!(world.state().lists.stream(rialto_engine::StreamKey::Broadcast), None);
    // Nobody waits for these at all.
    world.say("agent:a", "core");
    world.say("agent:a", "agent:a");
    assert!(world.state().book.unstored.is_empty() && !empty(&world));
    // Removal and expiry end deliveries too.
    world.say("agent:a", "agent:broadcast");
    world.admin(AdminOp::Remove("agent:b".into())).unwrap();
    assert_eq!(world.state().book.unstored.len(), 2, "the event, and the notice about it");
    world.pass(8 * DAY);
    world.pass(8 * DAY);
    assert!(world.state().book.unstored.is_empty());
    assert_eq!(
        crate::world::outcome(&world.page(rialto_engine::Viewer::Operator, &Default::default(), None, 5)),
        "history_unavailable"
    );
}

#[test]
fn purging_never_takes_undelivered_mail() {
    let mut world = pair();
    world.load("persistence", json!({ "max_events": 3, "purge_interval_s": 0 }));
    let s: Vec<Seq> = (0..8).map(|_| world.say("agent:a", "agent:b")).collect();
    world.ack("agent:b", &[s[1], s[2]]);
    world.pass(1000);
    assert_eq!(world.state().book.purged, s[4]);
    let all = rialto_engine::Filter::default();
    assert_eq!(world.read(rialto_engine::Viewer::Operator, &all), s[5..]);
    assert_eq!(world.pending("agent:b"), [s[0], s[3], s[4], s[5], s[6], s[7]]);
    world.ack_up_to("agent:b", s[7]);
    assert!(world.state().book.unstored.is_empty());
    // By age; what is pending outlives it.
    world.load("persistence", json!({ "retention_days": 1 }));
    let young = world.say("agent:a", "agent:b");
    world.pass(2 * DAY);
    assert_eq!(world.read(rialto_engine::Viewer::Operator, &all), NONE);
    assert_eq!(world.pending("agent:b"), [young]);
    assert_eq!(world.ack("agent:b", &[young]), 1);
}

#[test]
fn purges_come_once_per_interval_and_not_with_every_event() {
    let mut world = pair();
    world.load("persistence", json!({ "max_events": 1 }));
    for _ in 0..50 {
        world.say("agent:a", "core");
        world.pass(1000);
    }
    let purges = |w: &World| {
        w.records.iter().filter(|r| matches!(r.change(), Some(rialto_engine::record::Change::Purged { .. }))).count()
    };
    assert_eq!(purges(&world), 1);
    world.pass(3_600_000);
    assert_eq!(purges(&world), 2);
}

#[test]
fn floors_of_members_that_never_ack_are_raised() {
    let mut world = pair();
    world.careful = false;
    for _ in 0..70_000 {
        world.engine.live.buckets = Default::default();
        world.say("agent:a", "core");
    }
    world.tick();
    assert_eq!(floor(&world, "agent:b"), world.head());
    let seq = world.say("agent:a", "agent:b");
    assert_eq!(world.pending("agent:b"), [seq]);
}

#[test]
fn many_comings_and_goings_leave_few_stretches() {
    let mut world = pair();
    for _ in 0..100 {
        world.act("agent:b", "network.agent.leave", json!({})).unwrap();
        world.join("agent:b");
        let seq = world.say("agent:a", "agent:b");
        world.ack("agent:b", &[seq]);
    }
    assert!(world.state().member(1).unwrap().queueing.len() <= 33);
}

#[test]
fn the_horizon_waits_for_history_recipients_and_ids() {
    let mut world = pair();
    world.load("persistence", json!({ "max_events": 1, "purge_interval_s": 0 }));
    let waiting = world.say("agent:a", "agent:b");
    world.pass(1000);
    let last = world.say("agent:a", "core");
    world.pass(1000);
    assert_eq!(world.state().book.purged, waiting, "history keeps only the last");
    assert_eq!(world.state().horizon(world.now), 0, "ids are kept for a day");
    world.pass(2 * DAY);
    assert_eq!(world.state().horizon(world.now), waiting - 1);
    world.ack("agent:b", &[waiting]);
    assert_eq!(world.state().horizon(world.now), last - 1);
    world.admin(AdminOp::RemoveMod("persistence".into())).unwrap();
    world.join("agent:a");
    assert_eq!(world.state().horizon(world.now), last - 1, "what history kept stays");
}
