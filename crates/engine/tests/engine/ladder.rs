//! The receipt ladder and what members decide about it: receipts to who is away, mute, do-not-disturb, rename.

use crate::world::{Join, World, outcome, signals, token};
use rialto_engine::{AdminOp, Caller, Filter, Viewer, Wishes};
use rialto_model::{ErrorCode, Seq, limits};
use serde_json::{Value, json};

/// Three members; the first has made `channel/dev`, the others sit there.
fn dev() -> World {
    let mut world = World::plain().joined(&["agent:a", "agent:b", "agent:c"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "dev" })).unwrap();
    for name in ["agent:b", "agent:c"] {
        world.act(name, "network.channel.join", json!({ "channel": "dev" })).unwrap();
    }
    for name in ["agent:a", "agent:b", "agent:c"] {
        world.ack_up_to(name, world.head());
    }
    world
}

fn me(world: &World, address: &str) -> Value {
    json!(world.state().me_view(&world.engine.live, world.id(address), world.now))
}

fn explained(world: &World, viewer: Viewer, seq: Seq) -> Value {
    json!(world.state().explain(viewer, &world.events[&seq]).unwrap().stored)
}

fn rung(world: &World, seq: Seq) -> String {
    explained(world, Viewer::Operator, seq)["recipients"][0]["rung"].as_str().unwrap().to_owned()
}

fn update(id: &Value, state: &str) -> Value {
    json!({ "type": "work.update", "target": "core", "payload": { "work": id, "state": state } })
}

#[test]
fn the_rungs_of_work_are_above_acked() {
    let mut world = World::plain().joined(&["agent:a", "agent:b", "agent:c"]);
    let ask =
        json!({ "type": "workspace.message.posted", "target": "agent:b", "payload": {}, "metadata": { "work": {} } });
    let accepted = world.emit("agent:a", ask.clone()).unwrap();
    let (request, id) = (accepted.seq.unwrap(), accepted.result.unwrap()["work"]["id"].clone());
    assert_eq!(rung(&world, request), "stored");
    assert_eq!(
        explained(&world, Viewer::Member(0), request)["work"],
        json!({ "id": id, "state": "submitted", "since": world.now.wall })
    );
    world.ack("agent:b", &[request]);
    assert_eq!(rung(&world, request), "acked", "to be submitted is no act of the executor");
    world.advance(1000);
    let moved = world.emit("agent:b", update(&id, "working")).unwrap().seq.unwrap();
    let since = world.now.wall;
    world.advance(1000);
    world.emit("agent:b", update(&id, "working")).unwrap();
    assert_eq!(rung(&world, request), "working");
    assert_eq!(
        explained(&world, Viewer::Member(1), request)["work"],
        json!({ "id": id, "state": "working", "since": since }),
        "progress is no other state"
    );
    assert_eq!(rung(&world, moved), "stored", "the requester's own rung does not climb with the work");
    for state in ["input_required", "completed"] {
        world.emit("agent:b", update(&id, state)).unwrap();
        assert_eq!(rung(&world, request), state);
    }
    // An executor that acts has read the request, acked or not; one whose request is cancelled may not have.
    let second = world.emit("agent:a", ask.clone()).unwrap();
    let (seq, id) = (second.seq.unwrap(), second.result.unwrap()["work"]["id"].clone());
    world.emit("agent:b", update(&id, "working")).unwrap();
    assert_eq!(rung(&world, seq), "working");
    let third = world.emit("agent:a", ask).unwrap();
    let (seq, id) = (third.seq.unwrap(), third.result.unwrap()["work"]["id"].clone());
    world.emit("agent:a", json!({ "type": "work.cancel", "target": "core", "payload": { "work": id } })).unwrap();
    assert_eq!(rung(&world, seq), "stored");
    assert_eq!(explained(&world, Viewer::Operator, seq)["work"]["state"], "canceled");
    world.ack("agent:b", &[seq]);
    assert_eq!(rung(&world, seq), "canceled");
}

#[test]
fn who_takes_no_part_in_work_does_not_learn_of_it() {
    let mut world = dev();
    let ask = json!({ "type": "workspace.message.posted", "target": "channel/dev", "payload": {}, "metadata": { "work": {} } });
    let accepted = world.emit("agent:a", ask).unwrap();
    let (request, id) = (accepted.seq.unwrap(), accepted.result.unwrap()["work"]["id"].clone());
    assert_eq!(explained(&world, Viewer::Member(2), request)["work"]["id"], id, "whoever may take it");
    world.emit("agent:b", update(&id, "working")).unwrap();
    let seen = |world: &World, viewer| explained(world, viewer, request).get("work").is_some();
    assert!([Viewer::Member(0), Viewer::Member(1), Viewer::Operator].into_iter().all(|v| seen(&world, v)));
    assert!(!seen(&world, Viewer::Member(2)));
    let rungs = &explained(&world, Viewer::Member(0), request)["recipients"];
    assert_eq!((&rungs[0]["rung"], &rungs[1]["rung"]), (&json!("working"), &json!("stored")));
}

#[test]
fn a_receipt_to_who_is_away_is_mail_once_per_recipient() {
    let mut world = World::plain().joined(&["agent:a", "agent:b", "agent:c"]);
    let event = json!({ "id": "r1", "type": "x.y", "target": "agent:broadcast", "metadata": { "receipt": true } });
    let seq = world.emit("agent:a", event).unwrap().seq.unwrap();
    world.ack("agent:b", &[seq]);
    assert_eq!(signals(&world, "network.event.ack").len(), 0);
    let mail = world.pending("agent:a");
    let receipt = world.events[&mail[0]].event.clone();
    assert_eq!((receipt.kind(), receipt.source(), receipt.target()), ("network.event.ack", "agent:b", "agent:a"));
    assert_eq!((mail.len(), receipt.metadata_text("in_reply_to").as_deref()), (1, Some("r1")));
    world.ack("agent:b", &[seq]);
    assert_eq!(world.pending("agent:a").len(), 1, "once");
    world.stream("agent:a", true);
    world.ack_up_to("agent:c", world.head());
    assert_eq!(signals(&world, "network.event.ack").len(), 1, "who is there hears it at once");
    assert_eq!(world.pending("agent:a").len(), 1);
    assert!(world.state().book.receipts.is_empty());
    // A receipt wants no receipt, and nobody gets one who is gone.
    let event = json!({ "type": "x.y", "target": "agent:b", "metadata": { "receipt": true } });
    let seq = world.emit("agent:a", event).unwrap().seq.unwrap();
    world.act("agent:a", "network.agent.leave", json!({})).unwrap();
    let head = world.head();
    world.ack("agent:b", &[seq]);
    assert_eq!(world.head(), head);
}

#[test]
fn a_receipt_waits_for_who_is_not_to_be_disturbed() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.stream("agent:a", true);
    world.own("agent:a", json!({ "dnd": true })).unwrap();
    let event = json!({ "type": "x.y", "target": "agent:b", "metadata": { "receipt": true } });
    let seq = world.emit("agent:a", event).unwrap().seq.unwrap();
    world.ack("agent:b", &[seq]);
    assert_eq!(signals(&world, "network.event.ack").len(), 0);
    assert_eq!(world.pending("agent:a").len(), 1);
}

#[test]
fn a_muted_channel_sends_no_mail_and_keeps_the_seat() {
    let mut world = dev();
    let before = world.say("agent:a", "channel/dev");
    world.own("agent:b", json!({ "mute": ["dev"] })).unwrap();
    let during = world.say("agent:a", "channel/dev");
    assert_eq!(world.pending("agent:b"), [before], "what was mail before stays mail");
    assert_eq!(world.pending("agent:c"), [before, during]);
    // Not only mail: signals pass by too.
    let signal = json!({ "type": "x.y", "target": "channel/dev", "metadata": { "ephemeral": true } });
    world.emit("agent:a", signal).unwrap();
    let rialto_engine::Effect::Signal { route, .. } = &world.after[0] else { panic!("no signal") };
    assert_eq!([1, 2].map(|id| world.state().receives(id, route)), [false, true]);
    // The seat is as it was: it may speak, read, and is listed.
    let id = world.id("agent:b");
    assert_eq!(world.try_say("agent:b", "channel/dev"), "ok");
    assert!(world.read(Viewer::Member(id), &Filter::default()).contains(&during));
    let channel = json!(world.state().channel_view(0));
    assert!(channel["participants"].as_array().unwrap().contains(&json!("agent:b")), "{channel}");
    assert_eq!(me(&world, "agent:b")["muted"], json!(["channel/dev"]));
    assert_eq!(me(&world, "agent:b")["channels"], json!(["channel/dev"]));
    // Joining again, the network or the channel, changes nothing of it.
    world.act("agent:b", "network.channel.join", json!({ "channel": "dev" })).unwrap();
    let session = world.secrets["agent:b"].clone();
    world.try_join("agent:b", Join { session: Some(session), ..Join::token() }).unwrap();
    world.say("agent:a", "channel/dev");
    assert_eq!(world.pending("agent:b"), [before]);
    // Heard again, from here on.
    world.own("agent:b", json!({ "unmute": "channel/dev" })).unwrap();
    world.own("agent:b", json!({ "unmute": "channel/dev" })).unwrap();
    let after = world.say("agent:a", "channel/dev");
    assert_eq!(world.pending("agent:b"), [before, after]);
    assert_eq!(me(&world, "agent:b")["muted"], json!([]));
}

#[test]
fn who_leaves_a_channel_has_it_muted_no_longer() {
    let mut world = dev();
    world.own("agent:b", json!({ "mute": "dev" })).unwrap();
    world.act("agent:b", "network.channel.leave", json!({ "channel": "dev" })).unwrap();
    assert!(world.state().member(1).unwrap().muted.is_empty());
    assert_eq!(world.try_say("agent:b", "channel/dev"), "not_a_channel_member");
    world.act("agent:b", "network.channel.join", json!({ "channel": "dev" })).unwrap();
    world.ack_up_to("agent:b", world.head());
    let seq = world.say("agent:a", "channel/dev");
    assert_eq!(world.pending("agent:b"), [seq]);
}

#[test]
fn muted_recipients_wait_for_nothing() {
    // History keeps nothing here: an event goes with its last recipient, and a receipt counts those that get it.
    let mut world = World::bare().joined(&["agent:a", "agent:b", "agent:c"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "dev", "participants": ["b", "c"] })).unwrap();
    for name in ["agent:b", "agent:c"] {
        world.ack_up_to(name, world.head());
    }
    world.own("agent:b", json!({ "mute": "dev" })).unwrap();
    let event = json!({ "type": "x.y", "target": "channel/dev", "metadata": { "receipt": true } });
    let seq = world.emit("agent:a", event).unwrap().seq.unwrap();
    assert_eq!((world.state().book.unstored[&seq].waiting, world.state().book.receipts[&seq].waiting), (1, 1));
    world.ack("agent:c", &[seq]);
    assert!(!world.state().book.unstored.contains_key(&seq));
    assert!(world.state().book.receipts.is_empty());
}

#[test]
fn what_cannot_be_muted() {
    let mut world = dev().joined(&["agent:d"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "secret", "private": true })).unwrap();
    for (channel, code) in [
        ("dev", "not_a_channel_member"),
        ("secret", "unknown_target"),
        ("nowhere", "unknown_target"),
        ("a b", "invalid_address"),
    ] {
        assert_eq!(outcome(&world.own("agent:d", json!({ "mute": channel }))), code, "{channel}");
    }
    // All or nothing.
    assert_eq!(outcome(&world.own("agent:b", json!({ "mute": ["dev", "nowhere"] }))), "unknown_target");
    assert!(world.state().member(1).unwrap().muted.is_empty());
    for (wishes, field) in [
        (json!({ "mute": 1 }), "mute"),
        (json!({ "unmute": [1] }), "unmute"),
        (json!({ "dnd": "yes" }), "dnd"),
        (json!({ "dnd": 0 }), "dnd"),
        (json!({ "dnd": limits::QUIET_MS_MAX + 1 }), "dnd"),
        (json!({ "name": 7 }), "name"),
    ] {
        let fault = Wishes::from_json(&wishes).unwrap_err();
        assert_eq!((fault.code, &fault.details.unwrap()["field"]), (ErrorCode::InvalidArgument, &json!(field)));
    }
    assert!(Wishes::from_json(&json!({ "dnd": limits::QUIET_MS_MAX })).is_ok());
    assert_eq!(Wishes::from_json(&json!({ "mute": null, "other": 1 })).unwrap(), Wishes::default());
    world.set(json!({ "status": "paused" }));
    assert_eq!(outcome(&world.own("agent:b", json!({ "mute": "dev" }))), "network_paused");
}

#[test]
fn quiet_time_ends_by_itself_or_by_word() {
    let mut world = dev();
    world.own("agent:b", json!({ "dnd": 60_000 })).unwrap();
    let until = world.now.wall + 60_000;
    let entry = |world: &World| json!(world.state().member_view(&world.engine.live, 1, world.now));
    assert_eq!((&entry(&world)["dnd"], &entry(&world)["dnd_until"]), (&json!(true), &json!(until)));
    let seq = world.say("agent:a", "agent:b");
    assert_eq!(world.pending("agent:b"), [seq], "mail is queued all the same");
    world.pass(59_000);
    assert!(world.state().member(1).unwrap().is_quiet());
    world.pass(1_000);
    assert!(!world.state().member(1).unwrap().is_quiet());
    assert_eq!((entry(&world).get("dnd"), &me(&world, "agent:b")["dnd"]), (None, &json!(false)));
    world.own("agent:b", json!({ "dnd": true })).unwrap();
    world.pass(400 * 24 * 3_600_000);
    assert_eq!((&entry(&world)["dnd"], entry(&world).get("dnd_until")), (&json!(true), None));
    world.own("agent:b", json!({ "dnd": false })).unwrap();
    assert!(!world.state().member(1).unwrap().is_quiet());
}

#[test]
fn a_leap_of_the_clock_ends_no_quiet_time() {
    let mut world = dev();
    world.tick();
    world.own("agent:b", json!({ "dnd": 60_000 })).unwrap();
    world.now.wall += 3_600_000;
    world.tick();
    world.pass(30_000);
    assert!(world.state().member(1).unwrap().is_quiet());
    world.pass(31_000);
    assert!(!world.state().member(1).unwrap().is_quiet());
}

#[test]
fn a_renamed_agent_keeps_all_it_has() {
    let mut world = dev();
    world.admin(AdminOp::SetGroup("ops".into(), vec!["agent:b".into(), "agent:c".into()])).unwrap();
    let ask =
        json!({ "type": "workspace.message.posted", "target": "agent:b", "payload": {}, "metadata": { "work": {} } });
    let work = world.emit("agent:a", ask).unwrap().result.unwrap()["work"]["id"].clone();
    let mail = world.pending("agent:b");
    let room = world.state().rooms(Viewer::Member(1), None, 9).len();
    world.own("agent:b", json!({ "name": "bea" })).unwrap();
    let told = signals(&world, "rialto.member.renamed");
    assert_eq!(told[0].payload(), r#"{"from":"agent:b","to":"agent:bea"}"#);
    world.secrets.insert("agent:bea".into(), world.secrets["agent:b"].clone());
    assert_eq!((world.pending("agent:bea"), world.id("agent:bea")), (mail, 1));
    assert_eq!(world.state().rooms(Viewer::Member(1), None, 9).len(), room);
    assert_eq!(world.state().book.groups["ops"].members, ["agent:bea".into(), "agent:c".into()]);
    world.emit("agent:bea", update(&work, "completed")).unwrap();
    assert_eq!(world.events[&world.head()].event.source(), "agent:bea");
    // Both names lead to it, and a stream that still uses the old one goes on.
    for target in ["agent:b", "b", "agent:bea", "group/ops", "channel/dev"] {
        let seq = world.say("agent:a", target);
        assert!(world.pending("agent:bea").contains(&seq), "{target}");
    }
    let stream = Caller { stream: Some(world.session("agent:bea")), ..Caller::default() };
    for said in [json!("agent:b"), json!("agent:bea"), Value::Null] {
        let event = json!({ "type": "x.y", "source": said, "target": "agent:a" });
        let accepted = world.emit_as(&stream, event.clone()).unwrap();
        assert_eq!(accepted.event.unwrap().event.source(), "agent:bea");
        assert_eq!(outcome(&world.emit("agent:bea", event)), "ok");
    }
    assert_eq!(me(&world, "agent:bea")["former"], json!(["agent:b"]));
    // Coming back under the old name with its session, it is who it is.
    let session = world.secrets["agent:b"].clone();
    let joined = world.try_join("agent:b", Join { session: Some(session), ..Join::token() }).unwrap();
    assert_eq!(joined.result.unwrap()["address"], "agent:bea");
    assert_eq!(world.state().roster().count(), 3);
}

#[test]
fn rules_that_name_a_member_follow_it() {
    let mut world = World::with(
        rialto_model::network::Settings::preset("main", rialto_model::network::Preset::Plain),
        &["access-control", "persistence"],
    )
    .joined(&["agent:a", "agent:b"]);
    let rules = json!({ "read": "agents:[agent:b]", "write": ["role:master", "agent:b"] });
    let notes = json!({ "address": "resource/context/notes", "type": "context", "permissions": rules });
    world.act("agent:a", "network.resource.register", notes).unwrap();
    world.own("agent:b", json!({ "name": "bea" })).unwrap();
    let found = |world: &mut World, who: &str| {
        let event = json!({ "type": "network.resource.discover", "target": "core", "payload": {} });
        let payload = world.emit(who, event).unwrap().response.unwrap().payload().to_owned();
        payload.contains("resource/context/notes")
    };
    world.secrets.insert("agent:bea".into(), world.secrets["agent:b"].clone());
    world.admin(AdminOp::Release("agent:b".into())).unwrap();
    world.join("agent:b");
    assert_eq!(["agent:bea", "agent:b"].map(|who| found(&mut world, who)), [true, false]);
}

#[test]
fn an_old_name_leads_to_who_had_it_until_it_is_released() {
    let mut world = dev();
    let first = world.say("agent:b", "agent:a");
    world.own("agent:b", json!({ "name": "bea" })).unwrap();
    let secret = world.secrets.remove("agent:b").unwrap();
    world.secrets.insert("agent:bea".into(), secret);
    let second = world.say("agent:bea", "agent:a");
    let to_old = world.say("agent:a", "agent:b");
    assert_eq!(outcome(&world.try_join("agent:b", Join::token())), "address_taken");
    world.admin(AdminOp::Release("agent:b".into())).unwrap();
    world.join("agent:b");
    assert_eq!(world.id("agent:b"), 3);
    let to_new = world.say("agent:a", "agent:b");
    assert_eq!((world.pending("agent:bea"), world.pending("agent:b")), (vec![to_old], vec![to_new]));
    let third = world.say("agent:b", "agent:a");
    let said = json!({ "type": "x.y", "source": "agent:b", "target": "agent:a" });
    assert_eq!(outcome(&world.emit("agent:bea", said)), "source_mismatch");
    // A name in a filter is everybody who has or had it, and what they did under any name.
    let read = |world: &World, filter: Filter| {
        let all = world.read(Viewer::Operator, &filter);
        all.into_iter().filter(|seq| *seq >= first && world.events[seq].event.kind() == "chat.message.posted").collect()
    };
    let by = |name: &str| Filter { source: Some(name.into()), ..Filter::default() };
    let to = |name: &str| Filter { target: Some(name.into()), ..Filter::default() };
    let rows: [(Filter, &[Seq]); 7] = [
        (by("agent:bea"), &[first, second]),
        (by("agent:b"), &[first, second, third]),
        (by("b"), &[first, second, third]),
        (to("agent:bea"), &[to_old]),
        (to("agent:b"), &[to_old, to_new]),
        (Filter { member: Some("bea".into()), ..Filter::default() }, &[first, second, to_old]),
        (
            Filter { conversation: Some(("agent:a".into(), "agent:bea".into())), ..Filter::default() },
            &[first, second, to_old],
        ),
    ];
    for (filter, expected) in rows {
        let found: Vec<Seq> = read(&world, filter.clone());
        assert_eq!(found, expected, "{filter:?}");
    }
    // The newcomer goes; its name leads nowhere, not back.
    world.act("agent:b", "network.agent.leave", json!({ "forget": true })).unwrap();
    assert_eq!(world.try_say("agent:a", "agent:b"), "unknown_target");
    world.own("agent:bea", json!({ "name": "agent:b" })).unwrap();
    assert_eq!((world.id("agent:b"), world.try_say("agent:a", "agent:bea")), (1, "ok".to_owned()));
    assert_eq!(me(&world, "agent:b")["former"], json!(["agent:bea"]));
}

#[test]
fn a_retry_after_a_rename_is_the_same_event() {
    let mut world = dev();
    let event = json!({ "id": "m1", "type": "x.y", "target": "agent:c", "payload": { "n": 1 } });
    let work = json!({ "id": "m2", "type": "x.y", "target": "agent:c", "metadata": { "work": {} } });
    let first = world.emit("agent:b", event.clone()).unwrap().seq;
    let second = world.emit("agent:b", work.clone()).unwrap().seq;
    world.own("agent:b", json!({ "name": "bea" })).unwrap();
    world.own("agent:c", json!({ "name": "cy" })).unwrap();
    world.secrets.insert("agent:bea".into(), world.secrets["agent:b"].clone());
    let spaced = format!(" {event}");
    for text in [event.to_string(), spaced] {
        let caller = world.caller("agent:bea");
        let again = world.emit_text(&caller, &text).unwrap();
        assert_eq!((again.seq, again.duplicate), (first, true));
    }
    let caller = world.caller("agent:bea");
    let again = world.emit_text(&caller, &format!(" {work}")).unwrap();
    assert_eq!((again.seq, again.duplicate), (second, true));
    // Another member under the old name is another sender.
    world.admin(AdminOp::Release("agent:b".into())).unwrap();
    world.join("agent:b");
    assert_eq!(outcome(&world.emit("agent:b", event)), "id_conflict");
}

#[test]
fn who_may_not_be_renamed_and_to_what() {
    let mut world = dev().joined(&["human:ana@x.org"]);
    world.try_join("key:z6Mk1", Join { level: 1, ..Join::token() }).unwrap();
    for (who, name, code) in [
        ("agent:b", "agent:c", "address_taken"),
        ("agent:b", "human:b", "invalid_address"),
        ("agent:b", "openagents:b", "invalid_address"),
        ("agent:b", "core", "invalid_address"),
        ("agent:b", "broadcast", "invalid_address"),
        ("agent:b", "other::bea", "invalid_address"),
        ("agent:b", "no spaces", "invalid_address"),
        ("agent:b", "", "invalid_address"),
        ("human:ana@x.org", "human:bea@x.org", "forbidden"),
        ("key:z6Mk1", "bea", "forbidden"),
        ("agent:b", "b", "ok"),
    ] {
        assert_eq!(outcome(&world.own(who, json!({ "name": name }))), code, "{who} {name}");
    }
    world.try_join("agent:b", Join { level: 2, ..Join::token() }).unwrap();
    assert_eq!(outcome(&world.own("agent:b", json!({ "name": "bea" }))), "forbidden", "a proven name");
    let rename =
        |name: &str, to: &str| AdminOp::Member(name.into(), Wishes { name: Some(to.into()), ..Wishes::default() });
    assert_eq!(outcome(&world.admin(rename("agent:b", "bea"))), "forbidden");
    assert_eq!(outcome(&world.admin(rename("agent:nobody", "bea"))), "unknown_target");
    // A name given with a token is the operator's, and the token follows.
    let bound = rialto_model::network::Token { agent: Some("dan".into()), ..token("dan", "dans-token") };
    world.admin(AdminOp::AddToken(bound)).unwrap();
    world.try_join("agent:dan", Join { tokens: vec!["dans-token"], ..Join::token() }).unwrap();
    assert_eq!(outcome(&world.own("agent:dan", json!({ "name": "dora" }))), "forbidden");
    world.admin(rename("dan", "dora")).unwrap();
    let secret = world.secrets["agent:dan"].clone();
    let join = |token: &'static str| Join { tokens: vec![token], session: Some(secret.clone()), ..Join::token() };
    assert_eq!(outcome(&world.try_join("agent:dora", join("dans-token"))), "ok");
    assert_eq!(
        outcome(&world.try_join("agent:dan", Join { tokens: vec!["dans-token"], ..Join::token() })),
        "invalid_token"
    );
}

#[test]
fn clients_that_only_name_themselves_go_on_after_a_rename() {
    let mut world = World::workspace();
    world.try_join("agent:a", Join::compat()).unwrap();
    world.admin(AdminOp::Member("a".into(), Wishes { name: Some("ann".into()), ..Wishes::default() })).unwrap();
    let accepted = world
        .emit_as(&World::holder("agent:a"), json!({ "type": "x.y", "source": "agent:a", "target": "channel/general" }))
        .unwrap();
    assert_eq!(accepted.event.unwrap().event.source(), "agent:ann");
    assert_eq!(world.state().roster().count(), 1);
    // One that speaks with its session alone: the next one under its old name is a newcomer, once that is released.
    world.join("agent:s");
    world.own("agent:s", json!({ "name": "sue" })).unwrap();
    let said = json!({ "type": "x.y", "source": "agent:s", "target": "channel/general" });
    assert_eq!(outcome(&world.emit_as(&World::holder("agent:s"), said)), "address_taken");
    world.admin(AdminOp::Release("agent:s".into())).unwrap();
    let seq = world
        .emit_as(&World::holder("agent:s"), json!({ "type": "x.y", "source": "agent:s", "target": "channel/general" }))
        .unwrap();
    assert_eq!(seq.event.unwrap().event.source(), "agent:s");
    assert_eq!((world.state().roster().count(), world.id("agent:sue")), (3, 1));
    assert!(!world.state().book.former.contains_key("agent:s"));
}

#[test]
fn former_names_max() {
    let mut world = World::plain().joined(&["agent:a", "agent:n0"]);
    let (count, mut name) = (limits::FORMER_NAMES_MAX + 1, "agent:n0".to_owned());
    for n in 1..=count {
        let next = format!("agent:n{n}");
        world.own(&name, json!({ "name": next })).unwrap();
        name = next;
    }
    let book = &world.state().book;
    assert_eq!((book.members[1].former.len(), book.former.len()), (limits::FORMER_NAMES_MAX, limits::FORMER_NAMES_MAX));
    assert_eq!(world.try_say("agent:a", "agent:n0"), "unknown_target", "the oldest is forgotten");
    assert_eq!(world.try_say("agent:a", "agent:n1"), "ok");
    // Dead letters and refusals are found under the new name.
    let seq = world.say("agent:a", &name);
    world.give_up(&name, &[seq], "max_attempts");
    world.own(&name, json!({ "name": "last" })).unwrap();
    assert_eq!(explained(&world, Viewer::Operator, seq)["recipients"][0]["recipient"], "agent:last");
    world.admin(AdminOp::Remove("agent:last".into())).unwrap();
    assert!(world.state().book.former.is_empty());
    assert_eq!(world.try_say("agent:a", "agent:n1"), "unknown_target");
}

#[test]
fn a_state_without_any_of_it_is_written_as_before() {
    let world = dev();
    let book = serde_json::to_string(&world.state().book).unwrap();
    for key in ["\"muted\"", "\"quiet_until\"", "\"former\""] {
        assert!(!book.contains(key), "{key}");
    }
}
