//! Scripts made from seeds.

use super::{Act, Admin, NetPlan, Script, Step, Target, Trouble, What, Which, weave};
use crate::harness::Chance;

/// How far the wall clock is set: an hour and ten years, either way.
const LEAPS_MS: [i64; 4] = [3_600_000, -3_600_000, 315_360_000_000, -315_360_000_000];

/// What a seed's world is like.
struct Mood {
    nets: u64,
    /// Steps out of a hundred that are trouble below.
    trouble: u64,
    /// Steps out of a hundred that are time.
    time: u64,
    /// Sends out of a hundred that wait for nobody.
    hurry: u64,
    /// Days pass, history forgets, segments are used again.
    days: bool,
    /// Some networks are of durability `os`.
    os: bool,
}

impl Script {
    /// The script of a seed: every second one is plain, the others are each about a noun.
    pub fn of(seed: u64) -> Script {
        if seed.is_multiple_of(2) {
            return Script::plain(seed / 2);
        }
        let mut plain = Script::plain(seed);
        if weave::is_about_rights(seed / 2) {
            // Members invite everywhere, and every second network is its token's.
            for (place, plan) in (seed / 12..).zip(&mut plain.nets) {
                plan.guests = true;
                plan.token_manages |= place.is_multiple_of(2);
            }
        }
        Script { steps: weave::nouns(seed / 2, plain.nets.len() as u64, plain.steps), ..plain }
    }

    fn plain(seed: u64) -> Script {
        let mut c = Chance::new(seed ^ 0x5EED);
        let nets = 1 + c.below(3);
        let days = one_in(&mut c, 4);
        let mood = Mood {
            nets,
            trouble: if days { 12 } else { [0, 4, 10][pick(&mut c, 3)] },
            time: 5 + c.below(12),
            hurry: c.below(90),
            days,
            os: one_in(&mut c, 8),
        };
        // Their own chance: what else happens does not hang on it.
        let mut rights = Chance::new(seed ^ 0x0816_475E);
        let plans = (0..nets).map(|_| NetPlan {
            token_manages: one_in(&mut rights, 4),
            guests: one_in(&mut rights, 2),
            ..net_plan(&mut c, &mood)
        });
        let plans = plans.collect();
        let count = 50 + c.below(90);
        let mut steps = Vec::new();
        // Somebody is there from the start.
        for (net, who) in (0..usize::try_from(nets).unwrap_or(1)).flat_map(|net| (0..3).map(move |who| (net, who))) {
            let stream = one_in(&mut c, 2);
            steps.push(Step::Join {
                net,
                who,
                stream,
                keep: false,
                window: 4,
                observer: false,
                resume: false,
                replay: false,
                named: false,
                compat: false,
            });
        }
        while (steps.len() as u64) < count {
            steps.push(step(&mut c, &mood));
        }
        let segment_bytes = [4096, 4096, 8192, 32768][pick(&mut c, 4)];
        let snapshot_bytes = [1500, 4000, 12_000, 1 << 20][pick(&mut c, 4)];
        Script {
            seed,
            search: one_in(&mut c, 10),
            direct: one_in(&mut c, 2),
            segment_bytes: if mood.days { 4096 } else { segment_bytes },
            snapshot_bytes: if mood.days { 1500 } else { snapshot_bytes },
            nets: plans,
            steps,
        }
    }
}

pub(super) fn pick(c: &mut Chance, n: u64) -> usize {
    usize::try_from(c.below(n)).unwrap_or(0)
}

pub(super) fn one_in(c: &mut Chance, n: u64) -> bool {
    c.below(n) == 0
}

fn net_plan(c: &mut Chance, mood: &Mood) -> NetPlan {
    let plan = NetPlan {
        workspace: one_in(c, 2),
        persistence: !one_in(c, 4),
        at_least_once: !one_in(c, 5),
        ttl_ms: one_in(c, 2).then(|| [20_000, 90_000, 1_800_000][pick(c, 3)]),
        max_pending: one_in(c, 3).then(|| 2 + c.below(6)),
        max_pending_kib: one_in(c, 4).then(|| 2 + c.below(9)),
        max_attempts: one_in(c, 4).then(|| 1 + u32::try_from(c.below(2)).unwrap_or(0)),
        max_events: one_in(c, 2).then(|| 3 + c.below(10)),
        os: mood.os && !one_in(c, 3),
        closed: one_in(c, 2),
        token_manages: false,
        guests: false,
    };
    // What is not delivered is kept: only where mail dies is anything forgotten.
    let forgets = NetPlan { persistence: true, ttl_ms: Some(90_000), max_events: Some(3), ..plan.clone() };
    if mood.days { forgets } else { plan }
}

fn target(c: &mut Chance) -> Target {
    match c.below(24) {
        0..6 => Target::Member(pick(c, 6)),
        6..10 => Target::Broadcast,
        10..17 => Target::Channel(pick(c, 4)),
        17..19 => Target::Group(pick(c, 2)),
        19 => Target::Core,
        20 => [Target::ModLoaded, Target::ModUnknown][pick(c, 2)],
        21 => [Target::Resource, Target::Malformed][pick(c, 2)],
        22 => Target::Foreign,
        _ => Target::Nobody,
    }
}

fn step(c: &mut Chance, mood: &Mood) -> Step {
    let (net, who) = (pick(c, mood.nets), pick(c, 6));
    let roll = c.below(100);
    if roll < mood.trouble {
        return trouble(c);
    }
    if roll < mood.trouble + mood.time {
        if mood.days && one_in(c, 3) {
            return Step::Pass { ms: 90_000_000 };
        }
        return match c.below(10) {
            0..3 => Step::Pass { ms: [50, 1000, 2500][pick(c, 3)] },
            3..6 => Step::Pass { ms: [10_000, 31_000, 95_000][pick(c, 3)] },
            6 => Step::Pass { ms: [1_900_000, 3_700_000, 90_000_000][pick(c, 3)] },
            7 => Step::Leap { ms: LEAPS_MS[pick(c, 4)] },
            8 => Step::Recycle,
            _ => Step::Errand,
        };
    }
    match c.below(76) {
        64..76 => busy(c, net, who),
        0..6 => Step::Join {
            net,
            who,
            stream: !one_in(c, 3),
            keep: one_in(c, 2),
            window: [1, 2, 4, 64][pick(c, 4)],
            observer: one_in(c, 12),
            resume: one_in(c, 4),
            replay: one_in(c, 4),
            named: one_in(c, 6),
            compat: false,
        },
        6 => Step::Leave { net, who, forget: one_in(c, 2) },
        7 => Step::Hangup { net, who },
        8 => Step::Vanish { net, who },
        9..12 => Step::Listen { net, who, on: !one_in(c, 3) },
        12..34 => {
            let which = match c.below(12) {
                0..7 => Which::Fresh,
                7 | 8 => Which::Unnamed,
                9 | 10 => Which::Again(pick(c, 3)),
                _ => Which::Clash(pick(c, 2)),
            };
            let count = if one_in(c, 4) { 1 + pick(c, 6) } else { 1 };
            let calm = c.below(100) >= mood.hurry;
            Step::Send { net, who, to: target(c), which, count, calm, form: u8::try_from(c.below(19)).unwrap_or(0) }
        }
        34..40 => {
            let guest = one_in(c, 3).then(|| pick(c, 6));
            let act = match c.below(8) {
                0 | 1 => Act::Create { private: one_in(c, 2), guest },
                2..5 => Act::Join { guest },
                5 | 6 => Act::Leave { guest },
                _ => Act::Delete,
            };
            Step::Channel { net, who, act, channel: pick(c, 4), calm: !one_in(c, 3) }
        }
        40..47 => {
            let what = match c.below(8) {
                0..3 => What::UpTo(pick(c, 3)),
                3..5 => What::One(pick(c, 4)),
                5 | 6 => What::Scattered,
                _ => What::Foreign(c.below(40)),
            };
            Step::Ack { net, who, what, stream: one_in(c, 2) }
        }
        47..51 => {
            let op = match c.below(24) {
                0 => Admin::Role(who, ["member", "observer", "master"][pick(c, 3)]),
                1 => Admin::Remove(who),
                2..6 => Admin::Group(pick(c, 2), u8::try_from(c.below(64)).unwrap_or(0)),
                6 => Admin::DeleteGroup(pick(c, 2)),
                7 => Admin::Status(["paused", "archived"][pick(c, 2)]),
                8..11 => Admin::Status("active"),
                11 => Admin::Redact(c.below(30)),
                12..16 => Admin::Mute(who, pick(c, 4), c.below(3) > 0),
                16..19 => Admin::Quiet(who, c.below(2) > 0),
                19 => Admin::Revoke,
                20 => Admin::RevokeOwn(who),
                21 | 22 => Admin::Visit(who, one_in(c, 2)),
                _ => Admin::MaxPending(1 + c.below(8)),
            };
            Step::Admin { net, op }
        }
        51 => {
            let value = (!one_in(c, 4)).then(|| u8::try_from(c.below(4)).unwrap_or(0));
            Step::Fact { net, face: pick(c, 2), key: pick(c, 3), value, sure: one_in(c, 2) }
        }
        52..55 => Step::Read { net, who, form: u8::try_from(c.below(64)).unwrap_or(0), page: 1 + pick(c, 7) },
        55..58 => Step::Pump,
        58..61 => Step::Settle,
        _ => Step::Look,
    }
}

/// A send that is likely to reach somebody.
fn busy(c: &mut Chance, net: usize, who: usize) -> Step {
    let to = match c.below(6) {
        0 | 1 => Target::Broadcast,
        2 | 3 => Target::Channel(pick(c, 2)),
        _ => Target::Member(pick(c, 3)),
    };
    let count = 1 + pick(c, 8);
    Step::Send {
        net,
        who: who % 3,
        to,
        which: Which::Fresh,
        count,
        calm: false,
        // Some of them are ephemeral.
        form: [0, 1, 2, 3, 4, 5, 6, 16][pick(c, 8)],
    }
}

fn trouble(c: &mut Chance) -> Step {
    match c.below(16) {
        0..3 => Step::PowerCut,
        3 => Step::Kill,
        4 => {
            let (power, starting) = (one_in(c, 2), one_in(c, 3));
            Step::Fall { calls: c.below(if starting { 40 } else { 12 }), power, starting }
        }
        5..7 => Step::Restart,
        7 => Step::Rot { file: c.draw() >> 8, byte: c.draw() >> 8, bit: u8::try_from(c.below(8)).unwrap_or(0) },
        8..11 => Step::Heal,
        _ => {
            let what = [
                Trouble::DiskFull,
                Trouble::WriteFails,
                Trouble::FlushFails,
                Trouble::FlushFails,
                Trouble::DirFlushFails,
                Trouble::RenameFails,
            ];
            Step::Trouble {
                what: what[pick(c, 6)],
                skip: u32::try_from(c.below(4)).unwrap_or(0),
                lasting: one_in(c, 2),
            }
        }
    }
}
