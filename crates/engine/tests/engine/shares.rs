//! Shares: nobody fills a network alone, others and the operator have room, and what goes makes room again.

use crate::world::{World, outcome};
use rialto_engine::record::Change;
use rialto_engine::state::Channel;
use rialto_engine::{Accepted, AdminOp, Caller, Engine, State};
use rialto_model::{Fault, limits};
use serde_json::{Value, json};

/// The scope and the limit of a refusal.
fn full<T: std::fmt::Debug>(result: Result<T, Fault>) -> (String, usize) {
    let fault = result.unwrap_err();
    assert_eq!(fault.code.as_str(), "network_full", "{fault}");
    let details = fault.details.unwrap();
    let limit = usize::try_from(details["limit"].as_u64().unwrap()).unwrap();
    assert!(fault.message.contains(&limit.to_string()), "{} names its limit", fault.message);
    (details["scope"].as_str().unwrap().to_owned(), limit)
}

/// One of each kind that a member makes, by number.
fn make(world: &mut World, who: &str, kind: &str, n: usize) -> Result<Accepted, Fault> {
    let core = |kind: &str, payload: Value| json!({ "type": kind, "target": "core", "payload": payload });
    let event = match kind {
        "channels" => core("network.channel.create", json!({ "name": format!("{}-{n}", &who[6..]) })),
        "threads" => {
            let thread = format!("thread_{}{n:06}", &who[6..]);
            json!({ "type": "chat.note", "target": "channel/general", "metadata": { "thread": thread } })
        }
        "resources" => {
            let address = format!("resource/context/{}-{n}", &who[6..]);
            core("network.resource.register", json!({ "address": address, "content": "x" }))
        }
        "invitations" => core("workspace.invitation.created", json!({ "expires_in_s": 60 })),
        "work" => json!({ "type": "workspace.message.posted", "target": "agent:c", "metadata": { "work": {} } }),
        "rooms" => {
            let scope = format!("room-{n}");
            json!({ "type": "chat.note", "target": "agent:c", "metadata": { "room_channel": scope } })
        }
        other => panic!("{other}"),
    };
    world.emit(who, event)
}

fn world() -> World {
    let mut world = World::workspace().joined(&["agent:a", "agent:b", "agent:c"]);
    world.load("workspace", json!({}));
    world.careful = false;
    world.set(json!({ "member_share_percent": 1 }));
    world
}

#[test]
fn member_share_percent_default() {
    assert_eq!(World::plain().state().book.settings.member_share_percent, limits::MEMBER_SHARE_PERCENT_DEFAULT);
    let mut world = world();
    for percent in [0, 101] {
        assert_eq!(
            outcome(&world.admin(AdminOp::Settings(json!({ "member_share_percent": percent })))),
            "invalid_argument"
        );
    }
    for (kind, whole) in [
        ("channels", limits::CHANNELS_MAX),
        ("threads", limits::THREADS_MAX),
        ("resources", limits::RESOURCES_MAX),
        ("invitations", limits::INVITES_MAX),
        ("work", limits::WORK_OPEN_MAX),
    ] {
        let share = whole / 100;
        for n in 0..share {
            make(&mut world, "agent:a", kind, n).unwrap_or_else(|fault| panic!("{kind} {n}: {fault}"));
        }
        assert_eq!(full(make(&mut world, "agent:a", kind, share)), ("member".into(), share), "{kind}");
        assert_eq!(outcome(&make(&mut world, "agent:b", kind, 0)), "ok", "{kind}: others have room");
    }
    // The operator is outside of shares, also when it speaks as a member.
    let operator = Caller { operator: true, claimed: Some("agent:a".into()), ..Caller::default() };
    let event = json!({ "type": "network.channel.create", "target": "core", "payload": { "name": "one-more" } });
    assert_eq!(outcome(&world.emit_as(&operator, event)), "ok");
    world.admin(AdminOp::CreateChannel("by-the-operator".into())).unwrap();
    // What goes makes room, whatever its maker is called by then.
    world.own("agent:a", json!({ "name": "anna" })).unwrap();
    let session = world.secrets.remove("agent:a").unwrap();
    world.secrets.insert("agent:anna".into(), session);
    let delete = |n: usize| json!({ "channel": format!("a-{n}") });
    world.act("agent:anna", "network.channel.delete", delete(0)).unwrap();
    world.act("agent:anna", "network.channel.delete", delete(1)).unwrap();
    assert_eq!(outcome(&make(&mut world, "agent:anna", "channels", 0)), "ok", "one-more counts too");
    assert_eq!(full(make(&mut world, "agent:anna", "channels", 1)).0, "member");
    world.act("agent:anna", "network.resource.unregister", json!({ "address": "resource/context/a-0" })).unwrap();
    assert_eq!(outcome(&make(&mut world, "agent:anna", "resources", 0)), "ok");
    assert_eq!(full(make(&mut world, "agent:anna", "resources", 1)).0, "member");
    world.pass(61_000);
    assert_eq!(outcome(&make(&mut world, "agent:anna", "invitations", 0)), "ok", "those of before have lapsed");
    // Threads that nothing is left of are nobody's.
    let threads: Vec<u32> = (0..5).collect();
    world.commit(Change::ThreadsFreed { threads }.into());
    for n in 0..5 {
        assert_eq!(outcome(&make(&mut world, "agent:anna", "threads", n)), "ok");
    }
    assert_eq!(full(make(&mut world, "agent:anna", "threads", 5)).0, "member");
    // What is there stays when a member is removed; its number is never given again.
    world.admin(AdminOp::Remove("agent:anna".into())).unwrap();
    world.join("agent:a");
    assert_eq!(outcome(&make(&mut world, "agent:a", "channels", 5000)), "ok");
}

#[test]
fn rooms_are_in_the_share_of_who_opens_them() {
    let mut world = world();
    let share = limits::ROOMS_MAX / 100;
    world.set(json!({ "member_share_percent": 25 }));
    for n in 0..=share {
        world.act("agent:b", "network.channel.create", json!({ "name": format!("room-{n}") })).unwrap();
    }
    world.set(json!({ "member_share_percent": 1 }));
    for n in 0..=share {
        make(&mut world, "agent:a", "rooms", n).unwrap();
    }
    let rooms = |world: &World| world.state().book.rooms.len();
    assert_eq!(rooms(&world), share, "what is beyond is in no room");
    let (me, now) = (world.id("agent:a"), world.now);
    let mut fx = rialto_engine::Effects::default();
    assert_eq!(full(world.engine.open_room(me, "agent:b", None, now, &mut fx)), ("member".into(), share));
    make(&mut world, "agent:b", "rooms", 0).unwrap();
    assert_eq!(rooms(&world), share + 1, "others open theirs");
}

#[test]
fn operator_percent() {
    let mut world = World::plain().joined(&["agent:a"]);
    world.admin(AdminOp::CreateChannel("c".into())).unwrap();
    let most = limits::CHANNELS_MAX * (100 - limits::OPERATOR_PERCENT) / 100;
    let mut state = world.state().clone();
    let channel = Channel { created_by: Some(7), ..state.book.channels[0].clone() };
    let named = |i: usize| Channel { name: format!("c{i}").into(), ..channel.clone() };
    state.book.channels = (0..most - 1).map(named).collect();
    world.engine = Engine::new(State::from_parts(state.book, state.lists, state.network, 1));
    world.careful = false;
    assert_eq!(outcome(&make(&mut world, "agent:a", "channels", 0)), "ok");
    assert_eq!(full(make(&mut world, "agent:a", "channels", 1)), ("network".into(), most));
    world.admin(AdminOp::CreateChannel("by-the-operator".into())).unwrap();
    std::mem::forget(world);
}

#[test]
fn the_operator_joins_a_full_network() {
    let mut world = World::plain();
    world.set(json!({ "max_members": 1 }));
    world.join("agent:a");
    assert_eq!(full(world.try_join("agent:b", crate::world::Join::token())), ("network".into(), 1));
    let by = crate::world::Join { operator: true, ..crate::world::Join::with(json!({})) };
    assert_eq!(outcome(&world.try_join("human:operator", by)), "ok");
}
