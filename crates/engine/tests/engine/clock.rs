//! Clocks that jump: stamps never go back, no session ends, no mail dies (design, "Clocks").

use crate::world::World;
use rialto_engine::record::Change;
use rialto_model::Seq;
use serde_json::json;

const HOUR: u64 = 3_600_000;
const YEAR: u64 = 365 * 24 * HOUR;

fn letters(world: &mut World) -> Vec<Seq> {
    [600_000u64, 30 * 60_000, 7 * 24 * HOUR]
        .iter()
        .map(|ttl| {
            let event = json!({ "type": "x.y", "target": "agent:b", "metadata": { "ttl_ms": ttl } });
            world.emit("agent:a", event).unwrap().seq.unwrap()
        })
        .collect()
}

#[test]
fn an_hour_ahead() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.set(json!({ "ttl_ms": 40 * 60_000 }));
    let sent = letters(&mut world);
    world.pass(1000);
    world.now.wall += HOUR;
    world.tick();
    assert_eq!(world.pending("agent:b"), sent);
    world.pass(1000);
    let late = world.say("agent:a", "agent:b");
    world.pass(1000);
    assert_eq!(world.pending("agent:b"), [sent[0], sent[1], sent[2], late]);
    assert_eq!(world.try_say("agent:b", "core"), "ok");
    // They still die when their time has really come, each by its own age.
    world.pass(600_000);
    assert_eq!(world.pending("agent:b"), [sent[1], sent[2], late]);
    world.pass(20 * 60_000);
    assert_eq!(world.pending("agent:b"), [sent[2], late]);
    world.pass(10 * 60_000 - 3000);
    assert_eq!(world.pending("agent:b"), [sent[2], late], "to the second, never early");
    world.pass(1000);
    assert_eq!(world.pending("agent:b"), [late]);
    world.pass(2000);
    assert_eq!(world.pending("agent:b"), [0; 0]);
}

#[test]
fn an_hour_ahead_before_the_first_tick() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let sent = letters(&mut world);
    world.now.wall += HOUR;
    world.say("agent:a", "core");
    world.tick();
    world.tick();
    assert_eq!(world.pending("agent:b"), sent);
}

#[test]
fn an_hour_back() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let sent = letters(&mut world);
    let stamp = world.state().book.last_stamp;
    world.pass(1000);
    world.now.wall -= HOUR;
    world.tick();
    let late = letters(&mut world);
    assert_eq!(world.events[&late[0]].event.timestamp, stamp, "stamps never go back");
    world.pass(1000);
    assert_eq!(world.pending("agent:b").len(), 6);
    assert_eq!(sent.len() + late.len(), 6);
    assert_eq!(world.try_say("agent:b", "core"), "ok");
    // While stamps stand still, time goes on.
    world.pass(598_000);
    assert_eq!(world.pending("agent:b"), [sent[1], sent[2], late[0], late[1], late[2]]);
    world.pass(1000);
    assert_eq!(world.pending("agent:b"), [sent[1], sent[2], late[1], late[2]]);
    // And forth again: nothing dies of it.
    world.now.wall += HOUR;
    world.tick();
    world.tick();
    assert_eq!(world.pending("agent:b").len(), 4);
    world.pass(21 * 60_000);
    assert_eq!(world.pending("agent:b").len(), 2);
}

/// The network's own time of life, which is counted from when each event was committed.
#[test]
fn mail_dies_in_time_while_stamps_stand_still() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.set(json!({ "ttl_ms": 60_000 }));
    world.now.wall -= 10 * YEAR;
    let sent: Vec<(Seq, u64)> = (0..100)
        .map(|_| {
            world.advance(700);
            (world.say("agent:a", "agent:b"), world.now.steady)
        })
        .collect();
    for _ in 0..1500 {
        world.pass(100);
        let pending = world.pending("agent:b");
        for (seq, at) in &sent {
            let age = world.now.steady - at;
            assert!(age >= 60_000 || pending.contains(seq), "seq {seq} died at age {age}");
            assert!(age < 61_300 || !pending.contains(seq), "seq {seq} lives at age {age}");
        }
    }
    let pairs = world.records.iter().filter(|r| matches!(r.change(), Some(Change::Clock { .. }))).count();
    assert!(pairs <= 300, "{pairs} pairs for 100 events and their notices");
}

/// A start with a clock ten years ahead, which is then put right.
#[test]
fn a_start_ten_years_ahead_delays_nothing_for_ever() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let before = letters(&mut world);
    world.restart(10 * YEAR);
    world.pass(1000);
    let ahead = letters(&mut world);
    assert_eq!(world.pending("agent:b").len(), 6, "nothing died of it");
    world.now.wall -= 10 * YEAR;
    world.restart(1000);
    let after = letters(&mut world);
    world.pass(600_000);
    let left: Vec<Seq> = [&before, &ahead, &after].into_iter().flat_map(|three| [three[1], three[2]]).collect();
    assert_eq!(world.pending("agent:b"), left);
}

#[test]
fn a_restart_leaves_the_time_that_was_left() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.set(json!({ "ttl_ms": 30_000 }));
    let sent = world.say("agent:a", "agent:b");
    world.pass(20_000);
    world.restart(8 * 24 * HOUR);
    world.tick();
    world.pass(8_000);
    assert_eq!(world.pending("agent:b"), [sent]);
    world.pass(3_000);
    assert_eq!(world.pending("agent:b"), [0; 0]);
}

/// Nobody writes; yet a crash takes no more than a minute of the time that has passed.
#[test]
fn time_is_recorded_while_something_waits() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let sent = letters(&mut world);
    (0..300).for_each(|_| world.pass(1000));
    let clock = world.now.steady;
    world.crash(0);
    assert!(clock - world.now.steady <= 60_000, "{} ms were lost", clock - world.now.steady);
    (0..361).for_each(|_| world.pass(1000));
    assert_eq!(world.pending("agent:b"), [sent[1], sent[2]]);
    // With nothing to wait for nothing is recorded.
    world.load("persistence", json!({ "retention_days": 0 }));
    for who in ["agent:a", "agent:b"] {
        let mail = world.pending(who);
        world.ack(who, &mail);
    }
    (0..1800).for_each(|_| world.pass(1000));
    let records = world.records.len();
    (0..3600).for_each(|_| world.pass(1000));
    assert_eq!(world.records.len(), records);
}

#[test]
fn ahead_and_back_again_many_times() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let sent = letters(&mut world);
    for _ in 0..100 {
        world.now.wall += HOUR;
        world.pass(1000);
        world.now.wall -= HOUR;
        world.pass(1000);
    }
    assert_eq!(world.pending("agent:b"), sent);
    assert_eq!(world.try_say("agent:b", "core"), "ok");
}

#[test]
fn purging_by_age_minds_leaps_too() {
    let mut world = World::plain().joined(&["agent:a"]);
    world.load("persistence", json!({ "retention_days": 1, "purge_interval_s": 0 }));
    world.say("agent:a", "core");
    world.tick();
    world.now.wall += 30 * 24 * HOUR;
    world.tick();
    world.pass(1000);
    assert_eq!(world.state().book.purged, 0);
    world.pass(25 * HOUR);
    assert_eq!(world.state().book.purged, world.head());
}

#[test]
fn mail_never_dies_early_whatever_the_second() {
    for (step, ttl) in [(300u64, 5_000u64), (999, 60_000), (1, 1000), (61_000, 4 * HOUR)] {
        let mut world = World::plain().joined(&["agent:a", "agent:b"]);
        world.set(json!({ "ttl_ms": ttl }));
        let sent: Vec<(Seq, u64)> = (0..20)
            .map(|_| {
                world.advance(step);
                (world.say("agent:a", "agent:b"), world.now.wall)
            })
            .collect();
        let mut alive = sent.len();
        while alive > 0 {
            world.pass(step.max(100));
            let pending = world.pending("agent:b");
            alive = pending.len();
            for (seq, at) in &sent {
                let age = world.now.wall - at;
                assert!(age >= ttl || pending.contains(seq), "seq {seq} died at age {age} of {ttl}");
                assert!(age < ttl + 1000 || !pending.contains(seq), "seq {seq} lives at age {age} of {ttl}");
            }
        }
    }
}

#[test]
fn the_time_index_stays_small() {
    let mut world = World::plain().joined(&["agent:a"]);
    world.careful = false;
    for _ in 0..12_000 {
        world.advance(1000);
        world.say("agent:a", "core");
    }
    assert!(world.state().book.times.len() < 8_500, "{}", world.state().book.times.len());
}
