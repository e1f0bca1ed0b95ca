//! Threads and direct rooms: who may know of them, what is in them, what is unread (design section 8, AGH section 5).

use crate::world::{NETWORK, World, outcome};
use rialto_engine::record::{Change, EventRecord, More};
use rialto_engine::rooms::direct_id;
use rialto_engine::{Effects, Filter, Record, StreamKey, Viewer};
use rialto_model::view::ThreadView;
use rialto_model::{Seq, limits};
use serde_json::{Value, json};
use std::sync::Arc;

fn world() -> World {
    let mut world = World::workspace().joined(&["agent:a", "agent:b", "agent:c"]);
    world
        .act("agent:a", "network.channel.create", json!({ "name": "dev", "participants": ["b"], "private": true }))
        .unwrap();
    world
}

fn post(world: &mut World, source: &str, target: &str, metadata: Value) -> Seq {
    let event =
        json!({ "type": "chat.message.posted", "target": target, "payload": { "content": "x" }, "metadata": metadata });
    world.emit(source, event).unwrap().seq.unwrap()
}

fn member(world: &World, name: &str) -> Viewer {
    Viewer::Member(world.id(name))
}

fn threads(world: &World, viewer: Viewer, channel: Option<&str>) -> Vec<ThreadView> {
    world.state().threads(viewer, channel, None, 100).unwrap()
}

fn open_room(world: &mut World, by: &str, peer: &str, channel: Option<&str>) -> Result<u32, String> {
    let (by, now) = (world.id(by), world.now);
    let mut fx = Effects::default();
    let result = world.engine.open_room(by, peer, channel, now, &mut fx);
    fx.take_records().into_iter().for_each(|record| world.commit(record));
    result.map_err(|fault| fault.wire_code().to_owned())
}

#[test]
fn threads_are_summed_up_newest_first() {
    let mut world = world();
    let first = post(&mut world, "agent:a", "channel/dev", json!({ "thread": "thread_one" }));
    post(&mut world, "agent:a", "channel/dev", json!({ "thread": "thread_two" }));
    let last = post(&mut world, "agent:b", "channel/dev", json!({ "thread": "thread_one" }));
    let public = post(&mut world, "agent:a", "channel/general", json!({ "thread": "thread_one" }));
    let work = json!({ "thread": "thread_two", "work": {} });
    post(&mut world, "agent:a", "channel/dev", work);
    let a = member(&world, "agent:a");
    let dev = threads(&world, a, Some("dev"));
    assert_eq!(dev.iter().map(|t| t.thread.as_ref()).collect::<Vec<_>>(), ["thread_two", "thread_one"]);
    let (one, two) = (&dev[1].counts, &dev[0].counts);
    assert_eq!((one.first_seq, one.last_seq), (Some(first), Some(last)));
    assert_eq!((one.message_count, one.participant_count), (2, Some(2)));
    assert_eq!((one.open_work_count, two.open_work_count), (0, 1));
    assert_eq!((one.unread, two.unread), (1, 0), "one's own are not unread");
    assert_eq!(threads(&world, a, None).len(), 3, "the same name in another channel is another thread");
    let page = world.state().threads(a, None, Some((public, 0)), 1).unwrap();
    assert_eq!(page.iter().map(|t| t.counts.last_seq).collect::<Vec<_>>(), [Some(last)]);
    assert_eq!(world.state().thread(a, "channel/dev", "thread_one").unwrap(), dev[1]);
    assert_eq!(outcome(&world.state().thread(a, "dev", "thread_none")), "unknown_target");
}

#[test]
fn who_may_not_see_a_channel_knows_nothing_of_its_threads() {
    let mut world = world();
    let seq = post(&mut world, "agent:a", "channel/dev", json!({ "thread": "thread_one" }));
    let c = member(&world, "agent:c");
    let hidden = world.state().threads(c, Some("dev"), None, 10).unwrap_err();
    let nothing = world.state().threads(c, Some("nothing"), None, 10).unwrap_err();
    assert_eq!(hidden.to_string().replace("dev", "nothing"), nothing.to_string());
    assert_eq!(outcome(&world.state().thread(c, "dev", "thread_one")), "unknown_target");
    assert!(threads(&world, c, None).is_empty());
    let by_thread = Filter { thread: Some("thread_one".into()), ..Filter::default() };
    assert!(world.read(c, &by_thread).is_empty());
    assert_eq!(world.read(member(&world, "agent:b"), &by_thread), [seq], "without its channel a thread is found, too");
    assert_eq!(threads(&world, Viewer::Operator, Some("dev")).len(), 1);
}

#[test]
fn unread_follows_acks_narrowing_and_seats() {
    let mut world = world();
    let s: Vec<Seq> =
        (0..3).map(|_| post(&mut world, "agent:a", "channel/dev", json!({ "thread": "thread_one" }))).collect();
    post(&mut world, "agent:a", "channel/dev", json!({ "thread": "thread_one", "to": ["agent:a"] }));
    let unread = |world: &World| threads(world, member(world, "agent:b"), None)[0].counts.unread;
    assert_eq!(unread(&world), 3, "what was narrowed to others is not b's to read");
    world.ack("agent:b", &[s[1]]);
    assert_eq!(unread(&world), 2);
    world.act("agent:b", "network.channel.leave", json!({ "channel": "dev" })).unwrap();
    assert!(threads(&world, member(&world, "agent:b"), None).is_empty());
    world.act("agent:a", "network.channel.join", json!({ "channel": "dev", "agent": "b" })).unwrap();
    post(&mut world, "agent:a", "channel/dev", json!({ "thread": "thread_one" }));
    assert_eq!(unread(&world), 3);
    world.ack_up_to("agent:b", Seq::MAX);
    assert_eq!(unread(&world), 0);
}

#[test]
fn mentions_are_counted_per_conversation() {
    let mut world = world();
    post(&mut world, "agent:a", "channel/dev", json!({ "thread": "thread_one" }));
    let like = world.events[&world.head()].clone();
    let b = world.id("agent:b");
    let seq = world.head() + 1;
    let parts = rialto_model::EventParts { id: "m1", ..like.event.parts() };
    let more = Some(Box::new(More { mentions: vec![b], ..More::default() }));
    let event = rialto_model::Event::new(seq, &parts);
    world.commit(Record::Event(Arc::new(EventRecord { event, more, received: None, ..like.as_ref().clone() })));
    let one = threads(&world, member(&world, "agent:b"), None)[0].counts.clone();
    assert_eq!((one.unread, one.mentions), (2, 1));
    assert_eq!(threads(&world, member(&world, "agent:a"), None)[0].counts.mentions, 0);
    world.ack("agent:b", &[seq]);
    assert_eq!(threads(&world, member(&world, "agent:b"), None)[0].counts.mentions, 0);
}

#[test]
fn a_direct_event_is_in_the_room_of_its_pair() {
    let mut world = world();
    let to_b = post(&mut world, "agent:a", "agent:b", json!({}));
    let back = post(&mut world, "agent:b", "agent:a", json!({}));
    let scoped = post(&mut world, "agent:b", "agent:a", json!({ "room_channel": "dev" }));
    let rooms = &world.state().book.rooms;
    assert_eq!(rooms[0].id.as_ref(), direct_id(NETWORK, "general", "a", "b"));
    assert_eq!(rooms[1].id.as_ref(), direct_id(NETWORK, "dev", "a", "b"));
    assert_eq!(rooms.len(), 2);
    let seqs = |n| world.state().lists.stream(StreamKey::Room(n)).unwrap().iter().collect::<Vec<Seq>>();
    assert_eq!((seqs(0), seqs(1)), (vec![to_b, back], vec![scoped]));
    let (a, b, c) = (member(&world, "agent:a"), member(&world, "agent:b"), member(&world, "agent:c"));
    let id = rooms[0].id.to_string();
    assert_eq!([a, b, Viewer::Operator].map(|v| world.state().room_seen(v, &id)), [Some(0); 3]);
    assert_eq!([c, Viewer::Reader { manages: false }].map(|v| world.state().room_seen(v, &id)), [None; 2]);
    let listed = world.state().rooms(a, None, 10);
    assert_eq!(
        listed.iter().map(|room| (room.counts.message_count, room.counts.unread)).collect::<Vec<_>>(),
        [(1, 1), (2, 1)]
    );
    assert!(world.state().rooms(c, None, 10).is_empty());
    let in_room = Filter { room: Some(0), ..Filter::default() };
    assert_eq!(world.read(b, &in_room), [to_b, back]);
    assert!(world.read(c, &in_room).is_empty(), "a number is no key");
    assert_eq!(
        outcome(
            &world
                .emit("agent:c", json!({ "type": "x.y", "target": "agent:a", "metadata": { "room_channel": "dev" } }))
        ),
        "unknown_target"
    );
}

#[test]
fn rooms_are_opened_once_and_without_a_word() {
    let mut world = world();
    assert_eq!(open_room(&mut world, "agent:a", "agent:b", None), Ok(0));
    assert_eq!(open_room(&mut world, "agent:b", "a", None), Ok(0), "the same from the other side");
    assert_eq!(open_room(&mut world, "agent:a", "agent:b", Some("dev")), Ok(1));
    assert_eq!(open_room(&mut world, "agent:c", "agent:b", Some("dev")), Err("unknown_target".into()));
    assert_eq!(open_room(&mut world, "agent:a", "agent:a", None), Err("invalid_argument".into()));
    assert_eq!(open_room(&mut world, "agent:a", "agent:nobody", None), Err("unknown_target".into()));
    let room = world.state().room_view(member(&world, "agent:a"), 0).unwrap();
    assert_eq!((room.counts.message_count, room.counts.last_seq), (0, None));
    let listed = world.state().rooms(member(&world, "agent:a"), None, 1);
    assert_eq!(listed[0].number, 1);
    let rest = world.state().rooms(member(&world, "agent:a"), Some((0, 1)), 9);
    assert_eq!(rest.iter().map(|s| s.number).collect::<Vec<_>>(), [0], "rooms without a word are paged, too");
    let seq = post(&mut world, "agent:a", "agent:b", json!({}));
    assert_eq!(world.state().room_view(member(&world, "agent:b"), 0).unwrap().counts.last_seq, Some(seq));
}

#[test]
fn people_and_registered_names_have_rooms_under_their_whole_address() {
    let mut world = world();
    world.join("human:ana@example.org");
    world.join("openagents:a");
    world.join("openagents:z");
    for (peer, text) in
        [("human:ana@example.org", "human:ana@example.org"), ("openagents:a", "openagents:a"), ("openagents:z", "z")]
    {
        let number = open_room(&mut world, "agent:b", peer, None).unwrap();
        let id = world.state().room(number).unwrap().id.to_string();
        assert_eq!(id, direct_id(NETWORK, "general", "b", text), "{peer}");
    }
}

#[test]
fn rooms_max_is_the_limit_and_mail_goes_on() {
    let mut world = world();
    let filler = world.state().clone();
    let room = |n: usize| rialto_engine::state::Room {
        id: format!("direct_{n:032x}").into(),
        channel: "x".into(),
        a: 0,
        b: 1,
        opened_at: 0,
        by: None,
    };
    let mut engine = rialto_engine::Engine::new(filler);
    for n in 0..limits::ROOMS_MAX {
        engine.apply(&Record::from(Change::RoomOpened { room: u32::try_from(n).unwrap(), record: room(n) }));
    }
    world.careful = false;
    world.engine = engine;
    assert_eq!(open_room(&mut world, "agent:a", "agent:c", None), Err("network_full".into()));
    let seq = post(&mut world, "agent:a", "agent:c", json!({}));
    assert_eq!(world.events[&seq].route.room, None);
    assert_eq!(world.pending("agent:c").last(), Some(&seq));
    world.engine = rialto_engine::Engine::new(rialto_engine::State::created(&world.created, 1).unwrap());
    world.records.clear();
}

#[test]
fn threads_max_is_the_limit_until_history_forgets() {
    let mut world = world();
    world.careful = false;
    world.load("persistence", json!({ "max_events": 10, "purge_interval_s": 0 }));
    world.set(json!({ "member_share_percent": 100 }));
    for n in 0..limits::THREADS_MAX * (100 - limits::OPERATOR_PERCENT) / 100 {
        post(&mut world, "agent:a", "channel/dev", json!({ "thread": format!("thread_{n:06}"), "to": ["agent:a"] }));
    }
    let one_more = json!({ "type": "x.y", "target": "channel/dev", "metadata": { "thread": "thread_more" } });
    assert_eq!(outcome(&world.emit("agent:a", one_more.clone())), "network_full");
    post(&mut world, "agent:a", "channel/dev", json!({ "thread": "thread_000000" }));
    assert_eq!(world.try_say("agent:a", "channel/dev"), "ok", "others go on");
    world.ack_up_to("agent:b", Seq::MAX);
    world.pass(1000);
    world.pass(1000);
    assert_eq!(outcome(&world.emit("agent:a", one_more)), "ok", "what history forgot makes room");
    assert!(world.state().book.threads.len() <= limits::THREADS_MAX, "numbers are used again");
    let mut replayed = rialto_engine::Engine::new(rialto_engine::State::created(&world.created, 1).unwrap());
    world.records.iter().for_each(|record| replayed.apply(record));
    assert_eq!(replayed.state.hash(), world.state().hash());
    let again = rialto_engine::State::from_snapshot(&replayed.state.to_snapshot(), 3).unwrap();
    assert_eq!(again.hash(), replayed.state.hash());
    world.engine = rialto_engine::Engine::new(rialto_engine::State::created(&world.created, 1).unwrap());
    world.records.clear();
}
