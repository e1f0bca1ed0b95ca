//! Lists that have no page on the wire: bounded, in order, and whole when they are read piece by piece.

use crate::world::{World, outcome};
use rialto_engine::listing::ListBudget;
use rialto_engine::state::{Channel, Member};
use rialto_engine::{Engine, Filter, State, View, Viewer};
use rialto_model::payload::RosterFilter;
use rialto_model::{Seq, limits};
use serde_json::{Value, json};

/// A world with so many channels, every third of them private; nobody sits in any.
fn with_channels(count: usize) -> World {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "own", "private": true })).unwrap();
    let mut state = world.state().clone();
    let channel = Channel { seated: vec![], master: None, created_by: None, ..state.book.channels[0].clone() };
    state.book.channels.extend((1..count).map(|i| Channel {
        name: format!("c{i}").into(),
        private: i.is_multiple_of(3),
        ..channel.clone()
    }));
    world.engine = Engine::new(State::from_parts(state.book, state.lists, state.network, 1));
    world.careful = false;
    world
}

/// Every channel of a viewer, piece by piece; gives the rows of each piece.
fn pieces(world: &World, viewer: Viewer, full_channels: bool) -> Vec<Vec<String>> {
    let (mut out, mut filter) = (Vec::new(), json!({ "include": ["channels"] }));
    loop {
        let wish = RosterFilter { full_channels, ..serde_json::from_value(filter.clone()).unwrap() };
        let answer = json!(world.state().discovered(&world.engine.live, viewer, &wish, world.now).unwrap());
        let name = |row: &Value| row.as_str().or(row["address"].as_str()).unwrap().to_owned();
        out.push(answer["channels"].as_array().unwrap().iter().map(name).collect());
        assert_eq!(answer["has_more"] == true, answer["next"]["channels"].is_string());
        let Some(next) = answer["next"]["channels"].as_str() else { return out };
        filter["after"] = json!(next);
    }
}

#[test]
fn list_rows_max() {
    let world = with_channels(3 * limits::LIST_ROWS_MAX);
    let (a, b) = (world.id("agent:a"), world.id("agent:b"));
    let expected = |sees: &dyn Fn(u32, &Channel) -> bool| -> Vec<String> {
        let all = (0u32..).zip(&world.state().book.channels);
        all.filter(|(id, c)| sees(*id, c)).map(|(_, c)| format!("channel/{}", c.name)).collect()
    };
    for (viewer, sees) in [
        (Viewer::Operator, &(|_, _: &Channel| true) as &dyn Fn(u32, &Channel) -> bool),
        (Viewer::Reader { manages: false }, &|_, c: &Channel| !c.private),
        (Viewer::Member(a), &|id, c: &Channel| !c.private || id == 0),
        (Viewer::Member(b), &|_, c: &Channel| !c.private),
    ] {
        for compat in [false, true] {
            let pieces = pieces(&world, viewer, compat);
            assert!(pieces.len() > 1 && pieces.iter().all(|rows| rows.len() <= limits::LIST_ROWS_MAX), "{viewer:?}");
            assert_eq!(pieces.concat(), expected(sees), "{viewer:?}");
        }
    }
    std::mem::forget(world);
}

#[test]
fn list_bytes_max_ends_a_piece_with_many_names_early() {
    let mut world = World::plain().joined(&["agent:a"]);
    let mut state = world.state().clone();
    let member = Member { sessions: vec![], ..state.book.members[0].clone() };
    let others = |i: usize| Member { address: format!("agent:x{i}").into(), ..member.clone() };
    state.book.members.extend((1..5000).map(others));
    world.engine = Engine::new(State::from_parts(state.book, state.lists, state.network, 1));
    world.careful = false;
    for i in 0..20 {
        world.act("agent:a", "network.channel.create", json!({ "name": format!("c{i}") })).unwrap();
    }
    let mut state = world.state().clone();
    state.book.channels.iter_mut().for_each(|c| c.seated = (0..5000).collect());
    world.engine = Engine::new(State::from_parts(state.book, state.lists, state.network, 1));
    let piece = world.state().channel_list(Viewer::Operator, None, ListBudget::default());
    let bytes: usize = piece.channels.iter().map(|row| json!(row).to_string().len()).sum();
    assert!(piece.has_more && piece.channels.len() > 1, "{} rows", piece.channels.len());
    assert!(bytes < 2 * limits::LIST_BYTES_MAX, "{bytes} bytes");
    let (pieces, all) = (pieces(&world, Viewer::Operator, true), 20);
    assert_eq!(pieces.concat().len(), all);
    std::mem::forget(world);
}

#[test]
fn list_looks_max_ends_a_piece_that_finds_little() {
    let mut world = World::plain().joined(&["agent:a"]);
    let mut state = world.state().clone();
    let member = Member { sessions: vec![], ..state.book.members[0].clone() };
    let long = "x".repeat(limits::PROFILE_BYTES_MAX / 2);
    state.book.members.extend((1..1000).map(|i| {
        let mut m = Member { address: format!("agent:x{i}").into(), ..member.clone() };
        m.profile.description = Some(if i == 999 { format!("{long} needle") } else { long.clone() });
        m
    }));
    world.engine = Engine::new(State::from_parts(state.book, state.lists, state.network, 1));
    let mut filter = json!({ "include": ["agents"], "query": "needle" });
    let mut asked = 0;
    let found = loop {
        let wish: RosterFilter = serde_json::from_value(filter.clone()).unwrap();
        let answer = json!(world.state().discovered(&world.engine.live, Viewer::Operator, &wish, world.now).unwrap());
        asked += 1;
        if let Some(found) = answer["agents"].as_array().unwrap().first() {
            break found["address"].clone();
        }
        filter["after"] = answer["next"]["agents"].clone();
    };
    assert_eq!(found, "agent:x999");
    // Each of them is as much to look at as many small ones.
    assert!(asked > 1 && asked <= 1 + 1000 * limits::PROFILE_BYTES_MAX / 256 / limits::LIST_LOOKS_MAX, "{asked}");
    std::mem::forget(world);
}

#[test]
fn a_cursor_belongs_to_one_section() {
    let world = World::plain().joined(&["agent:a"]);
    let ask = |filter: Value| {
        let wish: RosterFilter = serde_json::from_value(filter.clone()).unwrap();
        outcome(&world.state().discovered(&world.engine.live, Viewer::Operator, &wish, world.now))
    };
    assert_eq!(ask(json!({ "after": "3" })), "invalid_argument");
    assert_eq!(ask(json!({ "include": ["agents", "channels"], "after": "3" })), "invalid_argument");
    assert_eq!(ask(json!({ "include": ["agents"], "after": "no number" })), "invalid_argument");
    assert_eq!(ask(json!({ "include": ["agents"], "after": "4294967295" })), "ok");
    for limit in [json!(0), json!(limits::LIST_ROWS_MAX + 1)] {
        assert_eq!(ask(json!({ "limit": limit })), "invalid_argument");
    }
}

#[test]
fn an_inbox_is_the_same_from_either_end() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "dev", "participants": ["b"] })).unwrap();
    let mut acked = Vec::new();
    for round in 0..40_usize {
        let seq = world.say("agent:a", ["agent:b", "channel/dev", "agent:broadcast"][round % 3]);
        match round {
            10 => drop(world.act("agent:b", "network.channel.leave", json!({ "channel": "dev" }))),
            20 => drop(world.act("agent:b", "network.channel.join", json!({ "channel": "dev" }))),
            _ if round.is_multiple_of(7) => acked.push(seq),
            _ => {}
        }
    }
    world.ack("agent:b", &acked);
    let me = world.id("agent:b");
    let read = |descending: bool, position: Option<Seq>, max: usize| {
        let filter = Filter { descending, ..Filter::default() };
        world.state().page(Viewer::Member(me), View::Inbox, &filter, position, Seq::MAX, max).unwrap()
    };
    let rising = read(false, None, 1000).seqs;
    let mut falling = Vec::new();
    loop {
        let page = read(true, falling.last().copied(), 3);
        falling.extend(page.seqs);
        if page.exhausted {
            break;
        }
    }
    assert!(rising.len() > 20 && falling.iter().rev().eq(&rising), "{rising:?} {falling:?}");
}
