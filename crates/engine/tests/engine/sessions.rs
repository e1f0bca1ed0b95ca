//! Sessions of mod/workspace: made, changed, titled, archived (sheet section 6.1).

use crate::world::{World, outcome};
use rialto_engine::AdminOp;
use rialto_model::channel::ChannelStatus;
use rialto_model::limits;
use rialto_model::payload::{ChannelChanges, NewChannel, SessionUpdate};
use serde_json::{Value, json};

const HUMAN: &str = "human:ann@example.com";
const DAY_MS: u64 = 86_400_000;

fn world() -> World {
    let mut world = World::workspace();
    world.load("workspace", json!({}));
    world.joined(&["agent:m", "agent:b", "agent:c", HUMAN])
}

fn created(world: &mut World, name: &str) {
    let payload = json!({ "name": name, "participants": ["b", HUMAN] });
    world.act("agent:m", "network.channel.create", payload).unwrap();
}

/// Source, target and payload of the events of a type.
fn told(world: &World, kind: &str) -> Vec<(String, String, Value)> {
    let all = world.events.values().filter(|e| e.event.kind() == kind);
    all.map(|e| {
        let payload = serde_json::from_str(e.event.payload()).unwrap();
        (e.event.source().to_owned(), e.event.target().to_owned(), payload)
    })
    .collect()
}

fn update(world: &mut World, by: &str, name: &str, payload: Value) -> String {
    let event = json!({ "type": "workspace.session.updated", "target": format!("channel/{name}"), "payload": payload });
    outcome(&world.emit(by, event))
}

fn channel<'w>(world: &'w World, name: &str) -> &'w rialto_engine::state::Channel {
    world.state().channel(world.state().channel_id(name).unwrap()).unwrap()
}

fn post(world: &mut World, by: &str, name: &str, content: &str) {
    let event = json!({ "type": "workspace.message.posted", "target": format!("channel/{name}"),
        "payload": { "content": content } });
    world.emit(by, event).unwrap();
}

#[test]
fn a_session_is_told_of_when_its_channel_is_made() {
    let mut world = world();
    created(&mut world, "plain");
    assert!(told(&world, "workspace.session.created").is_empty(), "not every channel is a session");
    created(&mut world, "session-1");
    let want = json!({ "session_id": "1", "channel": "channel/session-1", "title": "session-1", "master": "agent:m",
        "participants": ["agent:m", "agent:b", HUMAN], "created_by": "agent:m" });
    let told = told(&world, "workspace.session.created");
    assert_eq!(told, [("mod/workspace".into(), "channel/session-1".into(), want)]);
    assert!(world.pending("agent:m").contains(&world.head()), "also its creator hears of it");
    let wish = NewChannel { title: Some("Session 1".into()), master: Some("b".into()), ..NewChannel::default() };
    let made = world.admin(AdminOp::OpenSession(wish, None)).unwrap();
    let name = made["name"].as_str().unwrap().to_owned();
    let here = channel(&world, &name);
    assert!(name.strip_prefix("session-").is_some_and(|id| id.len() == 8), "{name}");
    assert_eq!((here.title.as_str(), here.title_manual, here.master), ("Session 1", false, Some(world.id("agent:b"))));
    world.admin(AdminOp::RemoveMod("workspace".into())).unwrap();
    let head = world.head();
    created(&mut world, "session-2");
    assert_eq!(world.head(), head + 1, "without the mod nobody tells");
}

#[test]
fn a_client_makes_a_session_by_telling_of_it() {
    let mut world = world();
    let event = |name: &str| {
        json!({ "id": "s-1", "type": "workspace.session.created", "target": format!("channel/{name}"),
            "payload": { "title": "Plans", "participants": ["c"], "note": 1 } })
    };
    let accepted = world.emit("agent:b", event("session-x")).unwrap();
    assert_eq!(*accepted.result.unwrap(), json!({ "channel": "channel/session-x", "name": "session-x" }));
    let here = channel(&world, "session-x");
    assert_eq!((here.title.as_str(), here.title_manual, here.seated.len()), ("Plans", true, 2));
    let told = told(&world, "workspace.session.created");
    assert_eq!((told.len(), told[0].0.as_str()), (1, "agent:b"), "it is its own notice");
    assert_eq!((&told[0].2["session_id"], &told[0].2["note"]), (&json!("x"), &json!(1)));
    let again = world.emit_text(&world.caller("agent:b"), &format!(" {}", event("session-x"))).unwrap();
    assert!(again.duplicate);
    // A session that is there makes none, and other channels are not made this way.
    let more = json!({ "type": "workspace.session.created", "target": "channel/session-x", "payload": {} });
    assert_eq!(outcome(&world.emit("agent:c", more)), "ok");
    let other = json!({ "type": "workspace.session.created", "target": "channel/other", "payload": {} });
    assert_eq!(outcome(&world.emit("agent:c", other)), "unknown_target");
    let bad =
        json!({ "type": "workspace.session.created", "target": "channel/session-y", "payload": { "master": "z" } });
    assert_eq!(outcome(&world.emit("agent:c", bad)), "unknown_target");
}

#[test]
fn changes_apply_to_the_channel() {
    let mut world = world();
    created(&mut world, "session-1");
    let changes = |changes: Value| json!({ "session_id": "1", "changes": changes });
    assert_eq!(update(&mut world, "agent:b", "session-1", changes(json!({ "title": "A", "starred": true }))), "ok");
    let here = channel(&world, "session-1");
    assert_eq!((here.title.as_str(), here.title_manual, here.starred), ("A", true, true));
    assert_eq!(update(&mut world, HUMAN, "session-1", changes(json!({ "master_agent": "c" }))), "ok");
    let c = world.id("agent:c");
    let here = channel(&world, "session-1");
    assert_eq!((here.master, here.seated.contains(&c)), (Some(c), true));
    // Somebody without a seat who is neither master nor human.
    world.act("agent:c", "network.channel.leave", json!({ "channel": "session-1" })).unwrap();
    assert_eq!(
        update(&mut world, "agent:c", "session-1", changes(json!({ "starred": false }))),
        "not_a_channel_member"
    );
    assert_eq!(update(&mut world, "agent:b", "session-1", changes(json!({ "status": "deleted" }))), "forbidden");
    for bad in [
        json!({ "title": "" }),
        json!({ "title": "x".repeat(limits::CHANNEL_TITLE_CHARS_MAX + 1) }),
        json!({ "starred": 1 }),
        json!({ "status": "gone" }),
        json!({ "color": "red" }),
        json!({ "master_agent": 1 }),
    ] {
        assert_eq!(update(&mut world, "agent:b", "session-1", changes(bad.clone())), "invalid_payload", "{bad}");
    }
    assert_eq!(update(&mut world, "agent:b", "session-1", json!({})), "invalid_payload");
    assert_eq!(update(&mut world, "agent:b", "session-1", changes(json!({ "master_agent": HUMAN }))), "unknown_target");
    assert_eq!(update(&mut world, "agent:b", "session-1", changes(json!({ "status": "archived" }))), "ok");
    let now = world.state().book.last_stamp;
    assert_eq!(channel(&world, "session-1").archived_at, Some(now));
    let event = json!({ "type": "workspace.message.posted", "target": "channel/session-1", "payload": {} });
    assert_eq!(outcome(&world.emit("agent:b", event)), "forbidden");
    assert_eq!(update(&mut world, "agent:b", "session-1", changes(json!({ "status": "active" }))), "ok");
    assert_eq!(channel(&world, "session-1").archived_at, None);
    assert_eq!(update(&mut world, HUMAN, "session-1", changes(json!({ "status": "deleted" }))), "ok");
    assert_eq!(world.state().channel_id("session-1"), None);
    let told = told(&world, "workspace.session.updated");
    assert_eq!(told.iter().filter(|t| t.0 == "agent:b").count(), 3, "each change is an event of who made it");
}

#[test]
fn an_automatic_title_never_replaces_a_chosen_one() {
    let mut world = world();
    created(&mut world, "session-1");
    let auto = |title: &str| json!({ "changes": { "title": title }, "auto_title": true });
    assert_eq!(update(&mut world, "agent:b", "session-1", auto("First")), "ok");
    let here = channel(&world, "session-1");
    assert_eq!((here.title.as_str(), here.title_manual), ("First", false));
    assert_eq!(update(&mut world, "agent:b", "session-1", json!({ "changes": { "title": "Chosen" } })), "ok");
    assert_eq!(update(&mut world, "agent:b", "session-1", auto("Third")), "ok");
    assert_eq!(channel(&world, "session-1").title, "Chosen");
    let titled = |title: &str, auto: bool| {
        let changes = ChannelChanges { title: Some(title.into()), ..ChannelChanges::default() };
        SessionUpdate { changes, auto_title: Some(auto) }
    };
    world.admin(AdminOp::SetChannel("session-1".into(), titled("Fourth", true))).unwrap();
    assert_eq!(channel(&world, "session-1").title, "Chosen");
    world.admin(AdminOp::SetChannel("general".into(), titled("Hall", false))).unwrap();
    assert_eq!(channel(&world, "general").title, "Hall", "the operator titles any channel");
    assert_eq!(
        outcome(&world.admin(AdminOp::SetChannel("nowhere".into(), SessionUpdate::default()))),
        "unknown_target"
    );
}

#[test]
fn the_first_message_of_a_human_titles_a_session() {
    let mut world = world();
    created(&mut world, "session-1");
    post(&mut world, "agent:b", "session-1", "I am ready");
    assert_eq!(channel(&world, "session-1").title, "session-1", "agents title nothing");
    let long = format!("\n  {}  \nsecond line", "é".repeat(70));
    post(&mut world, HUMAN, "session-1", &long);
    assert_eq!(channel(&world, "session-1").title, "é".repeat(60));
    let told = told(&world, "workspace.session.updated");
    let want = json!({ "session_id": "1", "changes": { "title": "é".repeat(60) }, "auto_title": true });
    assert_eq!(told, [("mod/workspace".to_owned(), "channel/session-1".to_owned(), want)]);
    post(&mut world, HUMAN, "session-1", "another thing");
    assert_eq!(channel(&world, "session-1").title, "é".repeat(60), "only the first");
    world.load("workspace", json!({ "auto_title": false }));
    created(&mut world, "session-2");
    post(&mut world, HUMAN, "session-2", "hello");
    assert_eq!(channel(&world, "session-2").title, "session-2");
    world.load("workspace", json!({}));
    post(&mut world, HUMAN, "general", "hello");
    assert_eq!(channel(&world, "general").title, "general", "it is no session");
}

#[test]
fn sessions_that_rest_are_archived() {
    let mut world = world();
    for name in ["session-old", "session-used", "session-star", "plain"] {
        created(&mut world, name);
    }
    assert_eq!(update(&mut world, "agent:b", "session-star", json!({ "changes": { "starred": true } })), "ok");
    world.load("persistence", json!({ "retention_days": 0 }));
    world.pass(20 * DAY_MS);
    world.join("agent:b");
    post(&mut world, "agent:b", "session-used", "still here");
    world.pass(11 * DAY_MS);
    let status = |world: &World, name: &str| channel(world, name).status;
    assert_eq!(status(&world, "session-old"), ChannelStatus::Archived);
    for name in ["session-used", "session-star", "plain", "general"] {
        assert_eq!(status(&world, name), ChannelStatus::Active, "{name}");
    }
    let told = told(&world, "workspace.session.updated");
    assert_eq!(told.last().unwrap().2, json!({ "session_id": "old", "changes": { "status": "archived" } }));
    world.load("workspace", json!({ "auto_archive_days": 0 }));
    world.pass(40 * DAY_MS);
    assert_eq!(status(&world, "session-used"), ChannelStatus::Active, "0 days is never");
}
