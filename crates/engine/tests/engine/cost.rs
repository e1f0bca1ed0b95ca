//! What an operation costs does not grow with what there is: every noun at its limit, held against a sixteenth of it.
//!
//! Times are compared with each other, the best of several, with room for a slow machine: what is looked for is work that grows with
//! what one member made, which here would show as sixteen times as much, or two hundred and fifty.

use crate::world::{Join, World};
use rialto_engine::invites::Invite;
use rialto_engine::listing::ListBudget;
use rialto_engine::record::{More, Record};
use rialto_engine::resources::Resource;
use rialto_engine::state::{Channel, Member};
use rialto_engine::work::Unit;
use rialto_engine::{AckRequest, Effects, Engine, Filter, State, StreamKey, UnitFilter, View, Viewer};
use rialto_model::payload::ResourceFilter;
use rialto_model::payload::RosterFilter;
use rialto_model::{Seq, limits};
use serde_json::json;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Mail that waits for bob.
const PENDING: usize = 100_000;
/// How much of each limit is there in the smaller world.
const PART: usize = 16;

/// A world with every noun at its limit, or at a part of it: nearly all of it made by alice.
fn filled(part: usize) -> World {
    let mut world = World::workspace().joined(&["agent:alice", "agent:bob", "agent:carol"]);
    world.careful = false;
    world.set(json!({ "member_share_percent": 100 }));
    let (alice, bob) = (world.id("agent:alice"), world.id("agent:bob"));
    world.act("agent:alice", "network.channel.create", json!({ "name": "own", "private": true })).unwrap();
    world
        .act("agent:alice", "network.resource.register", json!({ "address": "resource/context/a", "content": "x" }))
        .unwrap();
    let ask = json!({ "type": "workspace.message.posted", "target": "agent:bob", "metadata": { "work": {} } });
    world.emit("agent:alice", ask).unwrap();
    let mut state = world.state().clone();
    let book = &mut state.book;
    let channel = Channel { seated: vec![alice], private: false, ..book.channels[1].clone() };
    let first = book.channels.len();
    book.channels.extend((first..limits::CHANNELS_MAX * 9 / 10 / part).map(|i| Channel {
        name: format!("c{i}").into(),
        private: i.is_multiple_of(3),
        ..channel.clone()
    }));
    let count = book.channels.len();
    let seats = book.members[0].seats.values().next().unwrap().clone();
    book.members[0].seats.extend((first..count).map(|i| (u32::try_from(i).unwrap(), seats.clone())));
    let member = Member { sessions: vec![], ..book.members[2].clone() };
    let first = book.members.len();
    book.members.extend((first..limits::MEMBERS_MAX * 9 / 10 / part).map(|i| Member {
        address: format!("agent:x{i}").into(),
        seats: Default::default(),
        ..member.clone()
    }));
    let resource = book.resources.values().next().unwrap().clone();
    for i in 1..u32::try_from(limits::RESOURCES_MAX * 9 / 10 / part).unwrap() {
        let address = format!("resource/context/r{i:06}").into();
        book.resources.insert(book.next_resource + i, Resource { address, ..resource.clone() });
    }
    book.next_resource += u32::try_from(limits::RESOURCES_MAX).unwrap();
    let unit = book.units.values().next().unwrap().clone();
    for i in 1..u32::try_from(limits::WORK_OPEN_MAX * 9 / 10 / part).unwrap() {
        let id = format!("work_{i:026}").into();
        // What bob has to do has a limit of its own.
        let executor = if i.is_multiple_of(2) { Some(bob) } else { Some(2) };
        book.units.insert(i, Unit { id, request_id: format!("r{i}").into(), root: i, executor, ..unit.clone() });
    }
    book.next_unit = u32::try_from(limits::WORK_OPEN_MAX).unwrap();
    for i in 0..limits::INVITES_MAX * 9 / 10 / part {
        let mut sha256 = [0; 32];
        sha256[..8].copy_from_slice(&i.to_le_bytes());
        let invite = Invite {
            sha256,
            inviter: Some(alice),
            token: None,
            invitee: None,
            role: rialto_model::Role::Member,
            channel: None,
            message: None,
            created_at: world.now.wall,
            expires_at: world.now.wall + 1_000_000_000,
            uses_left: 1,
        };
        book.invites.insert(format!("inv_{i:06}").into(), invite);
    }
    world.engine = Engine::new(State::from_parts(state.book, state.lists, state.network, 1));
    // Mail for bob, and threads of alice with one message each.
    let sent = world.say("agent:alice", "agent:bob");
    let told = world.events[&sent].clone();
    let post = |world: &mut World, change: &dyn Fn(&mut rialto_engine::EventRecord)| {
        let mut record = (*told).clone();
        record.event.seq = world.head() + 1;
        change(&mut record);
        world.engine.apply(&Record::Event(Arc::new(record)));
    };
    for i in 0..limits::THREADS_MAX * 9 / 10 / part {
        post(&mut world, &|record| {
            record.route.stream = Some(StreamKey::Channel(0));
            record.route.thread = Some(format!("thread_{i:06}").into());
            record.route.room = None;
            record.more = Some(Box::new(More { begins: true, ..More::default() }));
        });
    }
    for _ in 0..PENDING / part {
        post(&mut world, &|_| {});
    }
    world
}

/// The best of some runs.
#[allow(clippy::disallowed_methods, reason = "the time it takes is what is looked at")]
fn best(world: &mut World, op: &mut dyn FnMut(&mut World, usize)) -> Duration {
    let run = |n: usize| {
        let began = Instant::now();
        op(world, n);
        began.elapsed()
    };
    (0..7).map(run).min().unwrap()
}

#[test]
fn operations_cost_the_same_with_every_noun_at_its_limit() {
    type Op = (&'static str, Box<dyn FnMut(&mut World, usize)>);
    let look = |name: &'static str, op: fn(&State, &World)| -> Op {
        (name, Box::new(move |world: &mut World, _| op(world.state(), world)))
    };
    fn log(state: &State, filter: &Filter) {
        let page = state.page(Viewer::Member(1), View::Log, filter, None, Seq::MAX, 500);
        black_box(page.unwrap());
    }
    fn inbox(state: &State, descending: bool) {
        let filter = Filter { descending, ..Filter::default() };
        let page = state.page(Viewer::Member(1), View::Inbox, &filter, None, Seq::MAX, 500).unwrap();
        assert_eq!(page.seqs.len(), 500);
    }
    fn roster(state: &State, world: &World, full_channels: bool, viewer: Viewer) {
        let filter = RosterFilter { full_channels, ..RosterFilter::default() };
        let found = state.discovered(&world.engine.live, viewer, &filter, world.now);
        black_box(found.unwrap());
    }
    let emit = |name: &'static str, event: fn(usize) -> serde_json::Value| -> Op {
        (name, Box::new(move |world: &mut World, n| drop(world.emit("agent:alice", event(n)).unwrap())))
    };
    let mut ops: Vec<Op> = vec![
        look("discover", |s, w| roster(s, w, false, Viewer::Member(1))),
        look("compat discover of a maker", |s, w| roster(s, w, true, Viewer::Member(0))),
        look("discover of the operator", |s, w| roster(s, w, false, Viewer::Operator)),
        look("channels", |s, _| drop(black_box(s.channel_list(Viewer::Member(0), None, ListBudget::default())))),
        look("latest per channel", |s, _| {
            drop(black_box(s.latest_per_channel(Viewer::Member(0), &Filter::default(), None, Seq::MAX).unwrap()));
        }),
        look("inbox", |s, _| inbox(s, false)),
        look("inbox, newest first", |s, _| inbox(s, true)),
        look("history", |s, _| log(s, &Filter { descending: true, ..Filter::default() })),
        look("history of a channel", |s, _| {
            log(s, &Filter { channel: Some("general".into()), descending: true, ..Filter::default() });
        }),
        look("history of a source", |s, _| log(s, &Filter { source: Some("agent:alice".into()), ..Filter::default() })),
        look("history of a thread", |s, _| {
            log(s, &Filter { thread: Some("thread_000007".into()), ..Filter::default() });
        }),
        look("threads", |s, _| drop(black_box(s.threads(Viewer::Member(0), None, None, 50).unwrap()))),
        look("threads of a channel", |s, _| {
            drop(black_box(s.threads(Viewer::Member(1), Some("general"), None, 50).unwrap()));
        }),
        look("rooms", |s, _| drop(black_box(s.rooms(Viewer::Member(1), None, 50)))),
        look("resources", |s, w| {
            let fifty = ResourceFilter { limit: Some(50), ..ResourceFilter::default() };
            drop(black_box(s.resources(&w.engine.live, Some(1), &fifty, w.now).unwrap()));
        }),
        look("work", |s, _| drop(black_box(s.units(Viewer::Member(0), &UnitFilter::default(), 50)))),
        look("explain", |s, w| {
            let (_, record) = w.events.last_key_value().unwrap();
            drop(black_box(s.explain(Viewer::Operator, record)));
        }),
        emit("send to a member", |_| json!({ "type": "x.y", "target": "agent:bob" })),
        emit("send to a channel", |_| json!({ "type": "x.y", "target": "channel/general" })),
        emit(
            "send in a new thread",
            |n| json!({ "type": "x.y", "target": "channel/general", "metadata": { "thread": format!("thread_new{n}") } }),
        ),
        emit(
            "make a channel",
            |n| json!({ "type": "network.channel.create", "target": "core", "payload": { "name": format!("new{n}") } }),
        ),
        emit(
            "delete a channel",
            |n| json!({ "type": "network.channel.delete", "target": "core", "payload": { "channel": format!("new{n}") } }),
        ),
        emit("register a resource", |n| {
            let payload = json!({ "address": format!("resource/context/new{n}"), "content": "x" });
            json!({ "type": "network.resource.register", "target": "core", "payload": payload })
        }),
        emit(
            "ask for work",
            |_| json!({ "type": "workspace.message.posted", "target": "agent:carol", "metadata": { "work": {} } }),
        ),
        (
            "ack",
            Box::new(|world: &mut World, n| {
                let mut fx = Effects::default();
                let first = world.state().lists.floor(1) + 100;
                let seqs = (0..100).map(|i| first + (n * 100 + i) as Seq).collect();
                let request = AckRequest { seqs, up_to: None, count: true };
                assert!(world.engine.ack(1, &request, world.now, &mut fx) > 0);
                fx.take_records().iter().for_each(|record| world.engine.apply(record));
            }),
        ),
        (
            "join",
            Box::new(|world: &mut World, n| drop(world.try_join(&format!("agent:new{n}"), Join::token()).unwrap())),
        ),
    ];
    let (mut small, mut large) = (filled(PART), filled(1));
    let mut slow = Vec::new();
    for (name, op) in &mut ops {
        let (few, many) = (best(&mut small, op), best(&mut large, op));
        // A page may be full in one and not in the other.
        let allowed = few * 4 + Duration::from_micros(500);
        if many > allowed {
            slow.push(format!("{name}: {many:?} with everything, {few:?} with a {PART}th"));
        }
        println!("{name}: {few:?} {many:?}");
    }
    std::mem::forget((small, large));
    assert!(slow.is_empty(), "{slow:#?}");
}
