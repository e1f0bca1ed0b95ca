//! A naive model of delivery, one row per (event, recipient), written from the sheet: after every step of a random
//! history it must agree with the engine on what is pending for whom, on who is told of dead letters, and replay must
//! give the same state.

use crate::world::{Join, NETWORK, World, outcome};
use proptest::prelude::*;
use rialto_engine::{AckRequest, AdminOp};
use rialto_model::Seq;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const NAMES: [&str; 5] = ["agent:a", "agent:b", "agent:c", "agent:d", "human:h"];
const CHANNELS: [&str; 2] = ["x", "y"];
const DAY: u64 = 24 * 3_600_000;
const LIFE: u64 = 7 * DAY;
const MAX_PENDING: usize = 12;
const MAX_PENDING_KIB: usize = 16;

#[derive(Debug, Clone)]
enum Op {
    Join { who: usize, log: bool },
    Leave { who: usize, forget: bool },
    Remove { who: usize },
    Queue { who: usize },
    Create { who: usize, channel: usize, private: bool, with: Vec<usize> },
    Seat { who: usize, channel: usize, other: Option<usize> },
    Unseat { who: usize, channel: usize, other: Option<usize> },
    Delete { who: usize, channel: usize },
    Group { members: Option<Vec<usize>> },
    Emit { who: usize, target: usize, ttl: Option<u64>, to: Option<Vec<usize>>, receipt: bool, kib: usize },
    Ack { who: usize, picks: Vec<usize> },
    AckUpTo { who: usize, pick: usize },
    Pass { seconds: u64 },
    Leap,
    Delivery { tracked: bool },
    Persistence { on: bool },
    Archive,
}

fn op() -> impl Strategy<Value = Op> {
    let who = 0..NAMES.len();
    let some = || proptest::collection::vec(0..NAMES.len(), 0..4);
    let channel = 0..CHANNELS.len();
    prop_oneof![
        6 => (who.clone(), prop::bool::weighted(0.2)).prop_map(|(who, log)| Op::Join { who, log }),
        2 => (who.clone(), prop::bool::weighted(0.3)).prop_map(|(who, forget)| Op::Leave { who, forget }),
        1 => who.clone().prop_map(|who| Op::Remove { who }),
        1 => who.clone().prop_map(|who| Op::Queue { who }),
        2 => (who.clone(), channel.clone(), any::<bool>(), some())
            .prop_map(|(who, channel, private, with)| Op::Create { who, channel, private, with }),
        2 => (who.clone(), channel.clone(), prop::option::of(who.clone()))
            .prop_map(|(who, channel, other)| Op::Seat { who, channel, other }),
        2 => (who.clone(), channel.clone(), prop::option::of(who.clone()))
            .prop_map(|(who, channel, other)| Op::Unseat { who, channel, other }),
        1 => (who.clone(), channel).prop_map(|(who, channel)| Op::Delete { who, channel }),
        1 => prop::option::weighted(0.8, some()).prop_map(|members| Op::Group { members }),
        16 => (who.clone(), 0..NAMES.len() + 5, prop::option::weighted(0.2, 1u64..2000), prop::option::weighted(0.2, some()), any::<bool>(), prop_oneof![3 => Just(1usize), 2 => 1usize..6])
            .prop_map(|(who, target, ttl, to, receipt, kib)| Op::Emit { who, target, ttl: ttl.map(|s| s * 1000), to, receipt, kib }),
        6 => (who.clone(), proptest::collection::vec(0usize..40, 0..5)).prop_map(|(who, picks)| Op::Ack { who, picks }),
        3 => (who, 0usize..40).prop_map(|(who, pick)| Op::AckUpTo { who, pick }),
        4 => prop_oneof![Just(0u64), Just(1), 2u64..1500, Just(3 * 24 * 3600), Just(8 * 24 * 3600)]
            .prop_map(|seconds| Op::Pass { seconds }),
        1 => Just(Op::Leap),
        1 => any::<bool>().prop_map(|tracked| Op::Delivery { tracked }),
        1 => any::<bool>().prop_map(|on| Op::Persistence { on }),
        1 => prop::bool::weighted(0.2).prop_map(|yes| if yes { Op::Archive } else { Op::Pass { seconds: 5 } }),
    ]
}

struct Row {
    source: Option<String>,
    id: String,
    notice: bool,
    kib: usize,
    /// Steady time.
    dies: u64,
}

#[derive(Default)]
struct Room {
    private: bool,
    seated: BTreeSet<String>,
}

#[derive(Default)]
struct Oracle {
    /// Members: present and queueing.
    members: BTreeMap<String, (bool, bool)>,
    rooms: BTreeMap<String, Room>,
    group: Option<BTreeSet<String>>,
    rows: BTreeMap<(String, Seq), Row>,
    untracked: bool,
    /// (event id, recipient) that must be named to (source).
    dead: BTreeSet<(String, String, String)>,
    named: BTreeSet<(String, String, String)>,
    seen: Seq,
}

impl Oracle {
    fn is_present(&self, who: &str) -> bool {
        self.members.get(who).is_some_and(|m| m.0)
    }

    fn count(&self, who: &str) -> usize {
        self.rows.keys().filter(|(name, _)| name == who).count()
    }

    fn kib(&self, who: &str) -> usize {
        self.rows.iter().filter(|((name, _), _)| name == who).map(|(_, row)| row.kib).sum()
    }

    /// Ends rows; sources that are there must hear of them.
    fn end(&mut self, keys: Vec<(String, Seq)>, told: bool) {
        for key in keys {
            let row = self.rows.remove(&key).unwrap();
            if let (Some(source), true, false) = (row.source, told, row.notice)
                && self.is_present(&source)
            {
                self.dead.insert((row.id, key.0, source));
            }
        }
    }

    fn end_all(&mut self, who: &str, told: bool) {
        let keys = self.rows.keys().filter(|(name, _)| name == who).cloned().collect();
        self.end(keys, told);
    }

    fn remove(&mut self, who: &str) {
        self.end_all(who, true);
        self.members.remove(who);
        // Whoever joins under the name later is another member and hears nothing of these.
        self.rows.values_mut().filter(|r| r.source.as_deref() == Some(who)).for_each(|r| r.source = None);
        self.rooms.values_mut().for_each(|room| {
            room.seated.remove(who);
        });
    }

    fn tick(&mut self, steady: u64) {
        let old: Vec<(String, Seq)> =
            self.rows.iter().filter(|(_, r)| r.dies <= steady).map(|(k, _)| k.clone()).collect();
        self.end(old, true);
        for who in self.members.keys().cloned().collect::<Vec<_>>() {
            while self.count(&who) > MAX_PENDING || self.count(&who) > 1 && self.kib(&who) > MAX_PENDING_KIB {
                let oldest = self.rows.keys().find(|(name, _)| *name == who).cloned();
                self.end(oldest.into_iter().collect(), true);
            }
        }
    }

    /// Who gets an event with this target now.
    fn audience(&self, target: &str) -> BTreeSet<String> {
        if target == "agent:broadcast" {
            return self.members.keys().cloned().collect();
        }
        if target == "group/g" {
            return self.group.clone().unwrap_or_default();
        }
        match target.strip_prefix("channel/") {
            Some(name) => self.rooms.get(name).map(|r| r.seated.clone()).unwrap_or_default(),
            None => BTreeSet::from([target.to_owned()]),
        }
    }

    /// Takes in the events the world committed since the last look.
    fn look(&mut self, world: &World) {
        for (seq, record) in world.events.range(self.seen + 1..) {
            self.seen = *seq;
            let event = &record.event;
            let notice = event.kind() == "rialto.delivery.dead";
            if notice {
                self.check_notice(event);
            }
            let meta: Value = serde_json::from_str(event.metadata()).unwrap();
            let to: Option<Vec<String>> =
                meta.get("to").map(|v| v.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect());
            let fans_out = event.target().starts_with("channel/")
                || event.target() == "agent:broadcast"
                || event.target().starts_with("group/");
            let life = meta.get("ttl_ms").and_then(Value::as_u64).unwrap_or(LIFE).min(LIFE);
            if self.untracked || event.kind() == "network.channel.leave" && record.route.stream.is_none() {
                continue;
            }
            for who in self.audience(event.target()) {
                let queues = self.members.get(&who) == Some(&(true, true));
                let narrowed = fans_out && to.as_ref().is_some_and(|to| !to.contains(&who));
                if queues && who != event.source() && !narrowed {
                    let source = (event.source() != "core").then(|| event.source().to_owned());
                    let dies = world.now.steady + life;
                    let row = Row { source, id: event.id().to_owned(), notice, kib: kib_of(event), dies };
                    self.rows.insert((who, *seq), row);
                }
            }
        }
    }

    fn check_notice(&mut self, event: &rialto_model::Event) {
        let payload: Value = serde_json::from_str(event.payload()).unwrap();
        let more = payload.get("more").and_then(Value::as_array).cloned().unwrap_or_default();
        let recipient = payload["recipient"].as_str().unwrap().to_owned();
        for id in std::iter::once(&payload["event_id"]).chain(&more) {
            let row = (id.as_str().unwrap().to_owned(), recipient.clone(), event.target().to_owned());
            assert!(self.dead.contains(&row), "told of what did not die: {row:?}");
            assert!(self.named.insert(row.clone()), "named twice: {row:?}");
        }
    }

    fn agrees(&self, world: &World) {
        for who in self.members.keys() {
            let rows: Vec<Seq> = self.rows.keys().filter(|(name, _)| name == who).map(|(_, seq)| *seq).collect();
            assert_eq!(world.pending(who), rows, "pending of {who}");
            for seq in self.seen.saturating_sub(30)..=self.seen {
                assert_eq!(world.state().is_pending(world.id(who), seq), rows.contains(&seq), "{who} {seq}");
            }
        }
        assert_eq!(self.dead, self.named, "everybody who must be told is told");
        let waiting: BTreeSet<Seq> = world.state().book.unstored.keys().copied().collect();
        let rows: BTreeSet<Seq> = self.rows.keys().map(|(_, seq)| *seq).collect();
        assert!(waiting.is_subset(&rows), "bodies are forgotten with their last row: {waiting:?} {rows:?}");
    }
}

/// All texts of an event, in whole KiB.
fn kib_of(event: &rialto_model::Event) -> usize {
    let texts = [event.id(), event.kind(), event.source(), event.target(), event.payload(), event.metadata()];
    texts.map(str::len).iter().sum::<usize>().div_ceil(1024)
}

fn target_name(target: usize) -> String {
    match target.checked_sub(NAMES.len()) {
        None => NAMES[target].to_owned(),
        Some(0) => "agent:broadcast".to_owned(),
        Some(1) => "channel/x".to_owned(),
        Some(2) => "channel/y".to_owned(),
        Some(3) => "group/g".to_owned(),
        Some(_) => "core".to_owned(),
    }
}

fn step(world: &mut World, oracle: &mut Oracle, op: &Op) {
    match op {
        Op::Join { who, log } => {
            let receive = if *log { "log" } else { "queue" };
            // A person's name is the person's: the operator's word brings her back.
            let join = Join { operator: true, ..Join::with(json!({ "receive": receive })) };
            world.try_join(NAMES[*who], join).unwrap();
            oracle.members.insert(NAMES[*who].to_owned(), (true, !log));
        }
        Op::Leave { who, forget } if oracle.is_present(NAMES[*who]) => {
            world.act(NAMES[*who], "network.agent.leave", json!({ "forget": forget })).unwrap();
            oracle.members.insert(NAMES[*who].to_owned(), (false, false));
            if *forget {
                oracle.remove(NAMES[*who]);
            }
        }
        Op::Remove { who } if oracle.members.contains_key(NAMES[*who]) => {
            world.admin(AdminOp::Remove(NAMES[*who].into())).unwrap();
            oracle.remove(NAMES[*who]);
        }
        Op::Queue { who } if oracle.is_present(NAMES[*who]) => {
            world.receive_queue(NAMES[*who]);
            oracle.members.insert(NAMES[*who].to_owned(), (true, true));
        }
        Op::Create { who, channel, private, with } if oracle.is_present(NAMES[*who]) => {
            let with: Vec<&str> = with.iter().map(|w| NAMES[*w]).filter(|w| oracle.members.contains_key(*w)).collect();
            let payload = json!({ "name": CHANNELS[*channel], "private": private, "participants": with });
            let made = world.act(NAMES[*who], "network.channel.create", payload);
            assert_eq!(made.is_ok(), !oracle.rooms.contains_key(CHANNELS[*channel]));
            if made.is_ok() {
                let seated = with.into_iter().chain([NAMES[*who]]).map(str::to_owned).collect();
                oracle.rooms.insert(CHANNELS[*channel].to_owned(), Room { private: *private, seated });
            }
        }
        Op::Seat { who, channel, other } if oracle.is_present(NAMES[*who]) => {
            let seat = NAMES[other.unwrap_or(*who)];
            let payload = json!({ "channel": CHANNELS[*channel], "agent": seat });
            if world.act(NAMES[*who], "network.channel.join", payload).is_ok() {
                oracle.rooms.get_mut(CHANNELS[*channel]).unwrap().seated.insert(seat.to_owned());
            }
        }
        Op::Unseat { who, channel, other } if oracle.is_present(NAMES[*who]) => {
            let seat = NAMES[other.unwrap_or(*who)];
            let payload = json!({ "channel": CHANNELS[*channel], "agent": seat });
            if world.act(NAMES[*who], "network.channel.leave", payload).is_ok() {
                let was = oracle.rooms[CHANNELS[*channel]].seated.contains(seat);
                assert_eq!(world.events[&world.head()].route.stream.is_some(), was);
                oracle.look(world);
                oracle.rooms.get_mut(CHANNELS[*channel]).unwrap().seated.remove(seat);
            }
        }
        Op::Delete { who, channel } if oracle.is_present(NAMES[*who]) => {
            let deleted = world.act(NAMES[*who], "network.channel.delete", json!({ "channel": CHANNELS[*channel] }));
            if deleted.is_ok() {
                oracle.look(world);
                oracle.rooms.remove(CHANNELS[*channel]);
            }
        }
        Op::Group { members: Some(members) } => {
            let members: BTreeSet<String> = members.iter().map(|m| NAMES[*m].to_owned()).collect();
            world.admin(AdminOp::SetGroup("g".into(), members.iter().cloned().collect())).unwrap();
            oracle.group = Some(members);
        }
        Op::Group { members: None } => {
            assert_eq!(world.admin(AdminOp::DeleteGroup("g".into())).is_ok(), oracle.group.take().is_some());
        }
        Op::Emit { who, target, ttl, to, receipt, kib } if oracle.is_present(NAMES[*who]) => {
            let target = target_name(*target);
            let mut metadata = json!({ "receipt": receipt });
            if let Some(ttl) = ttl {
                metadata["ttl_ms"] = json!(ttl);
            }
            if let Some(to) = to {
                metadata["to"] = to.iter().map(|t| NAMES[*t]).collect();
            }
            let expected = expected_code(oracle, NAMES[*who], &target, *kib);
            // What else is said of an event fits into what is left of its last KiB.
            let payload = json!({ "text": "x".repeat(kib * 1024 - 800) });
            let event = json!({ "type": "t.x", "target": target, "metadata": metadata, "payload": payload });
            assert_eq!(outcome(&world.emit(NAMES[*who], event)), expected, "to {target}");
        }
        Op::Ack { who, picks } if oracle.members.contains_key(NAMES[*who]) => {
            let head = world.head();
            let seqs: Vec<Seq> = picks.iter().map(|p| head.saturating_sub(*p as u64)).collect();
            let hit: BTreeSet<Seq> =
                seqs.iter().copied().filter(|s| oracle.rows.remove(&(NAMES[*who].to_owned(), *s)).is_some()).collect();
            assert_eq!(world.ack(NAMES[*who], &seqs), hit.len() as u64);
        }
        Op::AckUpTo { who, pick } if oracle.members.contains_key(NAMES[*who]) => {
            let up_to = world.head().saturating_sub(*pick as u64);
            let before = oracle.rows.len();
            oracle.rows.retain(|(name, seq), _| name != NAMES[*who] || *seq > up_to);
            let request = AckRequest { seqs: vec![], up_to: Some(up_to), count: true };
            assert_eq!(world.ack_request(NAMES[*who], &request), (before - oracle.rows.len()) as u64);
        }
        Op::Pass { seconds } => pass(world, oracle, seconds * 1000),
        Op::Leap => {
            pass(world, oracle, 0);
            world.now.wall += 3_600_000;
            pass(world, oracle, 0);
            pass(world, oracle, 0);
        }
        Op::Delivery { tracked } => {
            let delivery = if *tracked { "at-least-once" } else { "at-most-once" };
            world.set(json!({ "delivery": delivery }));
            oracle.untracked = !tracked;
        }
        Op::Persistence { on: true } => {
            world.load("persistence", json!({ "retention_days": 2, "purge_interval_s": 0 }))
        }
        Op::Persistence { on: false } => {
            let _ = world.admin(AdminOp::RemoveMod("persistence".into()));
        }
        Op::Archive => {
            world.set(json!({ "status": "archived" }));
            NAMES.iter().for_each(|who| oracle.end_all(who, false));
            oracle.look(world);
            world.set(json!({ "status": "active" }));
        }
        _ => {}
    }
    oracle.look(world);
}

/// Lets time pass: events lie on whole seconds and ticks just before the next, so that a second is as exact as a
/// millisecond.
fn pass(world: &mut World, oracle: &mut Oracle, ms: u64) {
    world.advance(ms + 999);
    let now = world.now;
    for id in oracle.members.keys().map(|who| world.id(who)).collect::<Vec<_>>() {
        world.engine.live.touch(id, now);
    }
    world.tick();
    oracle.tick(now.steady);
    // Rows of notices count from their stamps, which lie on the tick.
    oracle.look(world);
    world.advance(1);
    // A session ends a month after it began, however much it is used: whoever lost it joins again.
    let present = oracle.members.iter().filter(|(_, (present, _))| *present);
    for (who, (_, queue)) in present.map(|(who, how)| (who.clone(), *how)).collect::<Vec<_>>() {
        let member = world.state().member(world.id(&who)).unwrap();
        let active = world.state().book.settings.status == rialto_model::network::Status::Active;
        if member.sessions.is_empty() && active {
            let receive = if queue { "queue" } else { "log" };
            let join = Join { operator: true, ..Join::with(json!({ "receive": receive })) };
            world.try_join(&who, join).unwrap();
        }
    }
}

fn expected_code(oracle: &Oracle, who: &str, target: &str, kib: usize) -> &'static str {
    match target {
        "core" | "agent:broadcast" => "ok",
        "group/g" if oracle.group.is_some() => "ok",
        "group/g" => "unknown_target",
        _ => match target.strip_prefix("channel/").map(|name| oracle.rooms.get(name)) {
            Some(None) => "unknown_target",
            Some(Some(room)) if room.seated.contains(who) => "ok",
            Some(Some(room)) if room.private => "unknown_target",
            Some(Some(_)) => "not_a_channel_member",
            None if !oracle.is_present(target) => "unknown_target",
            None if target == who || oracle.untracked || oracle.count(target) == 0 => "ok",
            None if oracle.count(target) >= MAX_PENDING => "recipient_queue_full",
            None if oracle.kib(target) + kib > MAX_PENDING_KIB => "recipient_queue_full",
            None => "ok",
        },
    }
}

fn run(ops: &[Op]) -> Vec<Vec<u8>> {
    let mut world = World::plain();
    world.careful = false;
    world.set(json!({ "max_pending": MAX_PENDING, "max_pending_bytes": MAX_PENDING_KIB << 10 }));
    let mut oracle = Oracle::default();
    for op in ops {
        step(&mut world, &mut oracle, op);
        oracle.agrees(&world);
    }
    assert_eq!(world.state().book.id.as_ref(), NETWORK);
    world.bytes()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_agrees_with_the_naive_model(ops in proptest::collection::vec(op(), 1..80)) {
        run(&ops);
    }

    #[test]
    fn the_same_history_gives_the_same_log(ops in proptest::collection::vec(op(), 1..30)) {
        prop_assert_eq!(run(&ops), run(&ops));
    }
}
