//! Clocks that jump: stamps never go back, no session ends, no mail dies (design, "Clocks").

use crate::world::World;
use rialto_model::Seq;
use serde_json::json;

const HOUR: u64 = 3_600_000;

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
    // And forth again: nothing dies of it.
    world.now.wall += HOUR;
    world.tick();
    world.tick();
    assert_eq!(world.pending("agent:b").len(), 6);
    world.pass(31 * 60_000);
    assert_eq!(world.pending("agent:b").len(), 2);
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
    assert!(world.state().book.leaps.len() <= 64);
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
