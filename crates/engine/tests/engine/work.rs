//! Work units: opening, moving, answering, taking, ending, forgetting (design, section 8).

use crate::world::{World, outcome};
use rialto_engine::work::{Unit, UnitFilter};
use rialto_engine::{AdminOp, Viewer};
use rialto_model::{Seq, Verdict, WorkState, limits};
use serde_json::{Value, json};

const DAY: u64 = 24 * 3_600_000;

fn three() -> World {
    World::plain().joined(&["agent:a", "agent:b", "agent:c"])
}

fn ask(target: &str, work: Value) -> Value {
    json!({ "type": "workspace.message.posted", "target": target, "payload": { "content": "please" }, "metadata": { "work": work } })
}

/// Opens a unit; gives its id.
fn open(world: &mut World, source: &str, target: &str, work: Value) -> String {
    let accepted = world.emit(source, ask(target, work)).unwrap();
    let result = accepted.result.unwrap();
    assert_eq!(result["work"]["state"], "submitted");
    result["work"]["id"].as_str().unwrap().to_owned()
}

fn update(id: &str, state: &str) -> Value {
    json!({ "type": "work.update", "target": "core", "payload": { "work": id, "state": state } })
}

fn unit<'w>(world: &'w World, id: &str) -> &'w Unit {
    world.state().unit_named(id, None).unwrap_or_else(|| panic!("no unit {id}")).1
}

fn state(world: &World, id: &str) -> WorkState {
    unit(world, id).state
}

/// Seqs and states of the unit's log.
fn log(world: &World, id: &str) -> Vec<(Seq, WorkState)> {
    let (no, _) = world.state().unit_named(id, None).unwrap();
    let list = world.state().lists.stream(rialto_engine::StreamKey::Work(no)).unwrap();
    let mark = |seq: Seq| world.events[&seq].more.as_ref().unwrap().work.as_ref().unwrap().state;
    list.iter().map(|seq| (seq, mark(seq))).collect()
}

fn last_event(world: &World) -> Value {
    let event = &world.events[&world.head()].event;
    let payload: Value = serde_json::from_str(event.payload()).unwrap();
    json!({ "type": event.kind(), "source": event.source(), "target": event.target(), "payload": payload })
}

#[test]
fn a_request_is_opened_done_and_told() {
    let mut world = three();
    let id = open(&mut world, "agent:a", "agent:b", json!({ "context": "c1", "deadline_ms": 5000 }));
    assert!(id.starts_with("work_"), "{id}");
    let request = world.head();
    let metadata: Value = serde_json::from_str(world.events[&request].event.metadata()).unwrap();
    assert_eq!(
        metadata["work"],
        json!({ "id": id, "context": "c1", "deadline_ms": 5000 }),
        "the executor learns the id"
    );
    let accepted = world.emit("agent:b", update(&id, "working")).unwrap();
    assert_eq!(*accepted.result.unwrap(), json!({ "work": { "id": id, "state": "working" } }));
    assert_eq!(last_event(&world)["target"], "agent:a", "sent to core, it goes to the other side");
    let direct = json!({ "type": "work.update", "target": "agent:a", "payload": { "work": id, "progress": 0.5 } });
    world.emit("agent:b", direct).unwrap();
    world.emit("agent:b", update(&id, "completed")).unwrap();
    assert_eq!(
        log(&world, &id).iter().map(|(_, s)| s.as_str()).collect::<Vec<_>>(),
        ["submitted", "working", "working", "completed"]
    );
    assert_eq!(world.pending("agent:a").len(), 3, "progress and end are mail of the requester");
    let ended = unit(&world, &id);
    assert_eq!((ended.terminal_at, ended.executor), (Some(world.now.wall), Some(world.id("agent:b"))));
    let entry = json!(world.state().unit_view(&world.engine.live, ended, world.now));
    assert_eq!((&entry["requester"], &entry["executor_status"]), (&json!("agent:a"), &json!("online")));
}

#[test]
fn a_unit_that_is_opened_by_name_is_opened_once() {
    let mut world = three();
    let id = open(&mut world, "agent:a", "agent:b", json!({ "id": "report", "open": true }));
    let (request, head) = (unit(&world, &id).request_seq, world.head());
    let metadata: Value = serde_json::from_str(world.events[&head].event.metadata()).unwrap();
    assert_eq!(metadata["work"], json!({ "id": id, "alias": "report" }), "the executor is not told how it was opened");
    // Again, to anybody: it is the same unit, and nothing is committed.
    for target in ["agent:b", "agent:c"] {
        let again = world.emit("agent:a", ask(target, json!({ "id": "report", "open": true }))).unwrap();
        assert_eq!((again.duplicate, again.seq), (true, Some(request)));
        assert_eq!(again.result.unwrap()["work"], json!({ "id": id, "state": "submitted" }));
        assert_eq!(world.head(), head);
    }
    // Without saying so it is a message inside the unit, as ever.
    assert!(!world.emit("agent:a", ask("agent:b", json!({ "id": "report" }))).unwrap().duplicate);
    assert_ne!(world.head(), head);
    // Names are each requester's own; without one every request is a unit.
    let other = open(&mut world, "agent:c", "agent:b", json!({ "id": "report", "open": true }));
    let (one, two) = (json!({ "open": true }), json!({ "open": true }));
    let unnamed = [open(&mut world, "agent:a", "agent:b", one), open(&mut world, "agent:a", "agent:b", two)];
    assert!(other != id && unnamed[0] != unnamed[1]);
    // An ended unit keeps its name as long as it is known.
    world.emit("agent:b", update(&id, "completed")).unwrap();
    let again = world.emit("agent:a", ask("agent:b", json!({ "id": "report", "open": true }))).unwrap();
    assert_eq!((again.duplicate, &again.result.unwrap()["work"]["state"]), (true, &json!("completed")));
    for (work, field) in
        [(json!({ "open": 1 }), "metadata.work.open"), (json!({ "open": true, "id": id }), "metadata.work.id")]
    {
        let fault = world.emit("agent:a", ask("agent:b", work)).unwrap_err();
        assert_eq!((fault.wire_code(), &fault.details.as_ref().unwrap()["field"]), ("invalid_event", &json!(field)));
    }
}

#[test]
fn every_move_of_the_table_on_the_wire() {
    let paths: [(&str, &[&str]); 8] = [
        ("submitted", &[]),
        ("working", &["working"]),
        ("input_required", &["input_required"]),
        ("auth_required", &["auth_required"]),
        ("completed", &["completed"]),
        ("failed", &["failed"]),
        ("canceled", &["canceled"]),
        ("rejected", &["rejected"]),
    ];
    for (from, path) in paths {
        let terminal = WorkState::from_wire(from).unwrap().is_terminal();
        for to in WorkState::ALL {
            for who in ["agent:b", "agent:a", "agent:c"] {
                let mut world = three();
                let id = open(&mut world, "agent:a", "agent:b", json!({}));
                path.iter().for_each(|step| {
                    world.emit("agent:b", update(&id, step)).unwrap();
                });
                assert_eq!(state(&world, &id).as_str(), from);
                let want = match who {
                    "agent:c" => "unknown_target",
                    _ if terminal => "no_pending_request",
                    "agent:a" => "forbidden",
                    _ if *to == WorkState::Submitted => "invalid_event",
                    _ => "ok",
                };
                assert_eq!(outcome(&world.emit(who, update(&id, to.as_str()))), want, "{from} to {to} by {who}");
            }
        }
    }
}

#[test]
fn outsiders_hear_what_they_would_hear_of_nothing() {
    let mut world = three();
    let id = open(&mut world, "agent:a", "agent:b", json!({ "id": "mine" }));
    let never = "work_00000000000000000000000000";
    for kind in ["work.update", "work.artifact", "work.answer", "work.cancel"] {
        let event = |id: &str| json!({ "id": "e1", "type": kind, "target": "core", "payload": { "work": id, "state": "working", "artifact": { "id": "x", "parts": [] } } });
        let to_outsider = world.emit("agent:c", event(&id)).unwrap_err();
        let of_nothing = world.emit("agent:c", event(never)).unwrap_err();
        assert_eq!(to_outsider.payload(None).to_string().replace(&id, never), of_nothing.payload(None).to_string());
        assert_eq!(to_outsider.verdict, Some(Verdict::NotParticipant));
    }
    assert_eq!(outcome(&world.emit("agent:c", ask("agent:b", json!({ "id": id })))), "unknown_target");
    assert_eq!(outcome(&world.emit("agent:c", ask("agent:b", json!({ "parent": id })))), "unknown_target");
    // Names are their givers' own: another may use the same.
    let other = open(&mut world, "agent:c", "agent:b", json!({ "id": "mine" }));
    assert_ne!(other, id);
    assert_eq!(
        outcome(
            &world.emit("agent:a", json!({ "type": "work.cancel", "target": "core", "payload": { "work": "mine" } }))
        ),
        "ok"
    );
    assert_eq!((state(&world, &id), state(&world, &other)), (WorkState::Canceled, WorkState::Submitted));
    assert!(!world.state().sees_unit(unit(&world, &id), world.id("agent:c")));
}

#[test]
fn agents_that_only_chat_do_work() {
    let mut world = three();
    let say = |to: &str, reply: &str, more: Value| {
        let mut metadata = json!({ "in_reply_to": reply });
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "type": "chat.message.posted", "target": to, "payload": { "content": "words" }, "metadata": metadata })
    };
    let id = open(&mut world, "agent:a", "agent:b", json!({}));
    let request = unit(&world, &id).request_id.to_string();
    assert_eq!(world.emit("agent:c", say("agent:a", &request, json!({}))).unwrap().result, None, "not c's to do");
    assert_eq!(world.emit("agent:a", say("agent:b", &request, json!({}))).unwrap().result, None, "its own words");
    let ask = say("agent:a", &request, json!({ "work_state": "input_required" }));
    assert_eq!(world.emit("agent:b", ask).unwrap().result.unwrap()["work"]["state"], "input_required");
    let question = world.events[&world.head()].event.id().to_owned();
    let answer = world.emit("agent:a", say("agent:b", &question, json!({}))).unwrap();
    assert_eq!(answer.result.as_ref().unwrap()["work"]["state"], "working");
    let answer = answer.event_id().to_owned();
    assert_eq!(
        world.emit("agent:b", say("agent:a", &answer, json!({}))).unwrap().result.unwrap()["work"]["state"],
        "completed"
    );
    assert_eq!(
        world.emit("agent:b", say("agent:a", &request, json!({}))).unwrap().result,
        None,
        "later words are words"
    );
    let failing = open(&mut world, "agent:a", "agent:b", json!({}));
    let request = unit(&world, &failing).request_id.to_string();
    world.emit("agent:b", say("agent:a", &request, json!({ "is_error": true }))).unwrap();
    assert_eq!((state(&world, &failing), unit(&world, &failing).error.as_deref()), (WorkState::Failed, Some("failed")));
}

#[test]
fn answers_and_messages_inside() {
    let mut world = three();
    let id = open(&mut world, "agent:a", "agent:b", json!({}));
    let answer = json!({ "type": "work.answer", "target": "core", "payload": { "work": id, "message": "yes" } });
    assert_eq!(outcome(&world.emit("agent:a", answer.clone())), "invalid_event", "nothing was asked");
    world.emit("agent:b", update(&id, "auth_required")).unwrap();
    assert_eq!(outcome(&world.emit("agent:b", answer.clone())), "forbidden", "the executor does not answer itself");
    assert_eq!(outcome(&world.emit("agent:a", answer)), "ok");
    assert_eq!(state(&world, &id), WorkState::Working);
    world.emit("agent:b", update(&id, "input_required")).unwrap();
    let inside = ask("agent:b", json!({ "id": id }));
    assert_eq!(world.emit("agent:a", inside).unwrap().result.unwrap()["work"]["state"], "working");
    assert_eq!(
        world.emit("agent:b", ask("agent:a", json!({ "id": id }))).unwrap().result.unwrap()["work"]["state"],
        "working"
    );
    let elsewhere = world.emit("agent:a", ask("agent:c", json!({ "id": id }))).unwrap_err();
    assert_eq!((elsewhere.wire_code(), elsewhere.verdict), ("invalid_event", Some(Verdict::ContainerMismatch)));
    assert_eq!(log(&world, &id).len(), 6);
}

#[test]
fn the_first_of_many_takes_it() {
    let mut world = three().joined(&["agent:d"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "dev", "participants": ["b", "c"] })).unwrap();
    let id = open(&mut world, "agent:a", "channel/dev", json!({}));
    let seen = |world: &World, who: &str| world.state().sees_unit(unit(world, &id), world.id(who));
    assert!(seen(&world, "agent:b") && seen(&world, "agent:c") && !seen(&world, "agent:d"));
    assert_eq!(outcome(&world.emit("agent:d", update(&id, "working"))), "unknown_target");
    assert_eq!(outcome(&world.emit("agent:a", update(&id, "working"))), "forbidden", "one does not take one's own");
    assert_eq!(outcome(&world.emit("agent:c", update(&id, "working"))), "ok");
    let lost = world.emit("agent:b", update(&id, "working")).unwrap_err();
    assert_eq!((lost.wire_code(), lost.verdict), ("already_exists", Some(Verdict::Taken)));
    assert_eq!(unit(&world, &id).executor, Some(world.id("agent:c")));
    assert!(!seen(&world, "agent:b"), "once taken it is theirs alone");
    let inside = json!({ "type": "workspace.message.posted", "target": "channel/dev", "payload": { "content": "me too" }, "metadata": { "work": id } });
    assert_eq!(outcome(&world.emit("agent:b", inside)), "already_exists", "and nobody else talks inside");
    world.emit("agent:c", update(&id, "completed")).unwrap();
    assert_eq!(outcome(&world.emit("agent:b", update(&id, "completed"))), "no_pending_request");
    // A reply in the channel takes and completes at once.
    let by_reply = open(&mut world, "agent:a", "channel/dev", json!({}));
    let request = unit(&world, &by_reply).request_id.to_string();
    let reply =
        json!({ "type": "chat.message.posted", "target": "channel/dev", "metadata": { "in_reply_to": request } });
    world.emit("agent:b", reply).unwrap();
    let done = unit(&world, &by_reply);
    assert_eq!((done.state, done.executor), (WorkState::Completed, Some(world.id("agent:b"))));
}

#[test]
fn a_skill_finds_its_agent() {
    let mut world = World::plain().joined(&["agent:a"]);
    world.join_with("agent:busy", json!({ "capabilities": ["rust"] }));
    world.join_with("agent:free", json!({ "capabilities": ["rust", "sql"] }));
    let mut by_skill = |skill: &str| {
        let id = open(&mut world, "agent:a", "core", json!({ "skill": skill }));
        let executor = unit(&world, &id).executor.unwrap();
        world.state().member(executor).unwrap().name().to_owned()
    };
    assert_eq!(
        [by_skill("rust"), by_skill("rust"), by_skill("sql"), by_skill("rust")],
        ["busy", "free", "free", "busy"]
    );
    world.join_with("agent:idle", json!({ "capabilities": ["haskell"], "role": "observer" }));
    let haskell = world.emit("agent:a", ask("core", json!({ "skill": "haskell" })));
    assert_eq!(outcome(&haskell), "unknown_target", "observers do nothing");
    assert_eq!(outcome(&world.emit("agent:a", ask("core", json!({})))), "invalid_event");
}

#[test]
fn deadlines_start_anew_with_every_sign_of_life() {
    let mut world = three();
    world.tick();
    world.pass(20_000);
    let id = open(&mut world, "agent:a", "agent:b", json!({ "deadline_ms": 10_000 }));
    world.pass(9_000);
    world.emit("agent:b", update(&id, "working")).unwrap();
    world.pass(9_000);
    assert_eq!(state(&world, &id), WorkState::Working);
    let chatter = json!({ "type": "work.update", "target": "core", "payload": { "work": id, "progress": 0.1 }, "metadata": { "ephemeral": true } });
    let head = world.head();
    assert_eq!(outcome(&world.emit("agent:b", chatter)), "ok");
    assert_eq!(world.head(), head, "progress chatter is never stored");
    world.pass(9_000);
    assert_eq!(state(&world, &id), WorkState::Working, "but it counts");
    world.pass(2_000);
    assert_eq!((state(&world, &id), unit(&world, &id).error.as_deref()), (WorkState::Failed, Some("timeout")));
    let ends = log(&world, &id).iter().filter(|(_, s)| s.is_terminal()).count();
    assert_eq!(ends, 1);
    assert_eq!(last_event(&world)["target"], "agent:b", "the executor is told as well");
    let ephemeral_end = json!({ "type": "work.update", "target": "core", "payload": { "work": id, "state": "completed" }, "metadata": { "ephemeral": true } });
    let other = open(&mut world, "agent:a", "agent:b", json!({}));
    let text = ephemeral_end.to_string().replace(&id, &other);
    assert_eq!(outcome(&world.emit("agent:b", serde_json::from_str(&text).unwrap())), "invalid_event");
}

#[test]
fn a_leap_of_the_clock_ends_no_work() {
    let mut world = three();
    world.tick();
    world.pass(20_000);
    let id = open(&mut world, "agent:a", "agent:b", json!({ "deadline_ms": 10_000 }));
    world.pass(1000);
    world.now.wall += 3_600_000;
    world.pass(1000);
    world.pass(1000);
    assert_eq!(state(&world, &id), WorkState::Submitted);
    world.pass(9_000);
    assert_eq!(state(&world, &id), WorkState::Failed, "its time is the steady one");
}

#[test]
fn deadlines_hold_from_the_first_moment_after_a_start() {
    let mut world = three();
    let early = open(&mut world, "agent:a", "agent:b", json!({ "deadline_ms": 5000 }));
    world.pass(2000);
    world.restart(3_600_000);
    let fresh = open(&mut world, "agent:a", "agent:b", json!({ "deadline_ms": 2000 }));
    world.pass(1999);
    assert_eq!((state(&world, &early), state(&world, &fresh)), (WorkState::Submitted, WorkState::Submitted));
    world.pass(1);
    assert_eq!((state(&world, &early), state(&world, &fresh)), (WorkState::Submitted, WorkState::Failed));
    world.pass(1000);
    assert_eq!(state(&world, &early), WorkState::Failed, "it had three seconds left");
}

#[test]
fn what_became_late_while_the_network_rested_has_a_moment() {
    let mut world = three();
    let late = open(&mut world, "agent:a", "agent:b", json!({ "deadline_ms": 1000 }));
    world.set(json!({ "status": "paused" }));
    world.pass(60_000);
    world.set(json!({ "status": "active" }));
    let fresh = open(&mut world, "agent:a", "agent:b", json!({ "deadline_ms": 2000 }));
    world.pass(2000);
    assert_eq!((state(&world, &late), state(&world, &fresh)), (WorkState::Submitted, WorkState::Failed));
    world.pass(8000);
    assert_eq!(state(&world, &late), WorkState::Failed);
}

#[test]
fn a_paused_network_ends_no_work() {
    let mut world = three();
    world.tick();
    world.pass(20_000);
    let id = open(&mut world, "agent:a", "agent:b", json!({ "deadline_ms": 5_000 }));
    world.set(json!({ "status": "paused" }));
    for _ in 0..20 {
        world.pass(1_000);
    }
    assert_eq!(state(&world, &id), WorkState::Submitted);
    assert_eq!(outcome(&world.emit("agent:b", update(&id, "completed"))), "network_paused");
    world.set(json!({ "status": "active" }));
    world.pass(1_000);
    assert_eq!(outcome(&world.emit("agent:b", update(&id, "completed"))), "ok", "there is time to go on");
}

#[test]
fn parts_have_limits_and_end_with_the_whole() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let mut chain = vec![open(&mut world, "agent:a", "agent:b", json!({}))];
    for depth in 1..=usize::from(limits::WORK_DEPTH_MAX) {
        let (from, to) = if depth % 2 == 1 { ("agent:b", "agent:a") } else { ("agent:a", "agent:b") };
        chain.push(open(&mut world, from, to, json!({ "parent": chain[depth - 1] })));
    }
    let too_deep = ask("agent:a", json!({ "parent": chain.last().unwrap() }));
    assert_eq!(outcome(&world.emit("agent:b", too_deep)), "invalid_argument");
    assert_eq!(
        outcome(&world.emit("agent:a", ask("agent:b", json!({ "parent": chain[0] })))),
        "unknown_target",
        "not a's to hand on"
    );
    world.careful = false;
    while unit(&world, &chain[0]).below < limits::WORK_PER_ROOT_MAX {
        open(&mut world, "agent:b", "agent:a", json!({ "parent": chain[0] }));
    }
    assert_eq!(outcome(&world.emit("agent:b", ask("agent:a", json!({ "parent": chain[0] })))), "network_full");
    world.emit("agent:a", json!({ "type": "work.cancel", "target": "core", "payload": { "work": chain[0] } })).unwrap();
    assert!(world.state().book.units.values().all(|u| u.state == WorkState::Canceled), "all the way down");
    for id in &chain {
        assert_eq!(log(&world, id).iter().filter(|(_, s)| s.is_terminal()).count(), 1);
    }
    assert_eq!(outcome(&world.emit("agent:b", ask("agent:a", json!({ "parent": chain[0] })))), "no_pending_request");
}

#[test]
fn members_that_go_leave_their_work_visible() {
    let mut world = three();
    let stays = open(&mut world, "agent:a", "agent:b", json!({}));
    let asked = open(&mut world, "agent:b", "agent:c", json!({}));
    world.act("agent:b", "network.agent.leave", json!({})).unwrap();
    let entry =
        |world: &World, id: &str| json!(world.state().unit_view(&world.engine.live, unit(world, id), world.now));
    assert_eq!(
        (&entry(&world, &stays)["executor_status"], &entry(&world, &stays)["state"]),
        (&json!("left"), &json!("submitted"))
    );
    world.join("agent:b");
    assert_eq!(entry(&world, &stays)["executor_status"], "online");
    world.admin(AdminOp::Remove("agent:b".into())).unwrap();
    assert_eq!(
        (state(&world, &stays), unit(&world, &stays).error.as_deref()),
        (WorkState::Failed, Some("owner_unavailable"))
    );
    assert_eq!(state(&world, &asked), WorkState::Canceled);
    assert_eq!(entry(&world, &stays)["executor_status"], "removed");
}

#[test]
fn a_request_that_dies_fails_its_unit() {
    let mut world = three();
    let event = |ttl: u64| {
        let mut event = ask("agent:b", json!({}));
        event["metadata"]["ttl_ms"] = ttl.into();
        event
    };
    let short =
        world.emit("agent:a", event(60_000)).unwrap().result.unwrap()["work"]["id"].as_str().unwrap().to_owned();
    let taken =
        world.emit("agent:a", event(60_000)).unwrap().result.unwrap()["work"]["id"].as_str().unwrap().to_owned();
    world.emit("agent:b", update(&taken, "working")).unwrap();
    world.tick();
    world.pass(61_000);
    assert_eq!((state(&world, &short), unit(&world, &short).error.as_deref()), (WorkState::Failed, Some("ttl")));
    assert_eq!(state(&world, &taken), WorkState::Working, "what was begun goes on");
}

/// Time-outs, dead requests, ended wholes and removals meet in one decision: each unit still has one end.
#[test]
fn what_ends_for_two_reasons_at_once_ends_once() {
    let ends = |world: &World, id: &str| log(world, id).iter().filter(|(_, state)| state.is_terminal()).count();
    let mut world = three();
    world.tick();
    world.pass(20_000);
    let mut event = ask("agent:b", json!({ "deadline_ms": 30_000 }));
    event["metadata"]["ttl_ms"] = 30_000.into();
    let accepted = world.emit("agent:a", event).unwrap();
    let late_and_dead = accepted.result.unwrap()["work"]["id"].as_str().unwrap().to_owned();
    let whole = open(&mut world, "agent:a", "agent:b", json!({ "deadline_ms": 30_000 }));
    let part = open(&mut world, "agent:b", "agent:c", json!({ "deadline_ms": 30_000, "parent": whole }));
    world.pass(31_000);
    for id in [&late_and_dead, &whole, &part] {
        assert_eq!((state(&world, id).is_terminal(), ends(&world, id)), (true, 1), "{id}");
    }
    let unread = open(&mut world, "agent:a", "agent:b", json!({}));
    world.admin(AdminOp::Remove("agent:b".into())).unwrap();
    assert_eq!((ends(&world, &unread), unit(&world, &unread).error.as_deref()), (1, Some("owner_unavailable")));
}

#[test]
fn artifacts_come_whole_and_in_chunks() {
    let mut world = three();
    let id = open(&mut world, "agent:a", "agent:b", json!({}));
    let artifact = |artifact: Value, more: Value| {
        let mut payload = json!({ "work": id, "artifact": artifact });
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "type": "work.artifact", "target": "core", "payload": payload })
    };
    let part = |id: &str| json!({ "id": id, "name": "log.txt", "parts": [{ "text": "abc" }] });
    assert_eq!(outcome(&world.emit("agent:b", artifact(part("x"), json!({ "append": true })))), "invalid_argument");
    assert_eq!(outcome(&world.emit("agent:b", artifact(json!({ "id": "x" }), json!({})))), "invalid_event");
    assert_eq!(outcome(&world.emit("agent:a", artifact(part("x"), json!({})))), "forbidden");
    assert_eq!(outcome(&world.emit("agent:b", artifact(part("x"), json!({ "last": false })))), "ok");
    assert_eq!(state(&world, &id), WorkState::Working, "making something is working");
    assert_eq!(outcome(&world.emit("agent:b", artifact(part("x"), json!({ "append": true })))), "ok");
    assert_eq!(outcome(&world.emit("agent:b", artifact(part("x"), json!({ "append": true, "last": true })))), "ok");
    assert_eq!(
        outcome(&world.emit("agent:b", artifact(part("x"), json!({ "append": true })))),
        "invalid_argument",
        "finished"
    );
    assert_eq!(outcome(&world.emit("agent:b", artifact(part("whole"), json!({})))), "ok");
    let made = &unit(&world, &id).artifacts;
    assert_eq!((made[0].chunks, made[0].last, made[0].bytes), (3, true, 3 * r#"[{"text":"abc"}]"#.len() as u64));
    assert_eq!((made[1].id.as_ref(), made[1].chunks, made[1].last), ("whole", 1, true));
    world.careful = false;
    for n in 2..limits::ARTIFACTS_MAX {
        world.emit("agent:b", artifact(part(&format!("a{n}")), json!({}))).unwrap();
    }
    assert_eq!(outcome(&world.emit("agent:b", artifact(part("more"), json!({})))), "too_large");
}

#[test]
fn artifact_chunks_max_is_the_limit() {
    let mut world = three();
    world.careful = false;
    let id = open(&mut world, "agent:a", "agent:b", json!({}));
    let chunk = |append: bool| json!({ "type": "work.artifact", "target": "core", "payload": { "work": id, "artifact": { "id": "x", "parts": [] }, "append": append, "last": false } });
    world.emit("agent:b", chunk(false)).unwrap();
    for _ in 1..limits::ARTIFACT_CHUNKS_MAX {
        world.emit("agent:b", chunk(true)).unwrap();
    }
    assert_eq!(outcome(&world.emit("agent:b", chunk(true))), "too_large");
    assert_eq!(outcome(&world.emit("agent:b", update(&id, "completed"))), "ok");
}

#[test]
fn repeated_requests_are_the_same_unit() {
    let mut world = three();
    let mut event = ask("agent:b", json!({ "id": "mine" }));
    event["id"] = "r1".into();
    let first = world.emit("agent:a", event.clone()).unwrap();
    let again = world.emit("agent:a", event.clone()).unwrap();
    assert!(again.duplicate);
    assert_eq!((again.result, again.seq), (first.result, first.seq));
    // The same content in other bytes is the same event; other content is not.
    let spaced = event.to_string().replace("\":", "\": ");
    assert!(world.emit_text(&world.caller("agent:a"), &spaced).unwrap().duplicate);
    event["payload"]["content"] = "other".into();
    assert_eq!(outcome(&world.emit("agent:a", event)), "id_conflict");
    let id = world.state().book.units[&0].id.to_string();
    let mut done = update(&id, "completed");
    done["id"] = "u1".into();
    world.emit("agent:b", done.clone()).unwrap();
    assert!(world.emit("agent:b", done.clone()).unwrap().duplicate, "a retry of the end is no second end");
    let spaced = done.to_string().replace("\":", "\": ");
    assert!(world.emit_text(&world.caller("agent:b"), &spaced).unwrap().duplicate);
}

#[test]
fn events_of_a_unit_are_held_while_it_is_known() {
    for history in [true, false] {
        let mut world = if history { World::plain() } else { World::bare() }.joined(&["agent:a", "agent:b"]);
        if history {
            world.load("persistence", json!({ "max_events": 3, "purge_interval_s": 0 }));
        }
        let id = open(&mut world, "agent:a", "agent:b", json!({}));
        let request = world.head();
        world.emit("agent:b", update(&id, "working")).unwrap();
        for name in ["agent:a", "agent:b"] {
            world.ack_up_to(name, Seq::MAX);
        }
        for _ in 0..10 {
            world.say("agent:a", "agent:b");
            world.ack_up_to("agent:b", Seq::MAX);
            world.pass(1000);
        }
        assert_eq!(log(&world, &id).len(), 2, "history forgets, an open unit does not");
        assert!(world.state().horizon(world.now) < request, "and the log keeps them");
        world.emit("agent:b", update(&id, "completed")).unwrap();
        world.ack_up_to("agent:a", Seq::MAX);
        for _ in 0..9 {
            world.pass(DAY);
        }
        assert!(world.state().unit_named(&id, None).is_none(), "ended units are forgotten");
        assert!(!world.state().book.unstored.contains_key(&request));
        world.pass(DAY);
        if !history {
            assert!(world.state().horizon(world.now) >= request);
        }
    }
}

#[test]
fn bad_wishes_are_refused_by_name() {
    let mut world = three();
    world.admin(AdminOp::SetGroup("g".into(), vec!["agent:b".into()])).unwrap();
    let long = "x".repeat(limits::WORK_TEXT_CHARS_MAX + 1);
    for (target, work, code) in [
        ("agent:b", json!(5), "invalid_event"),
        ("agent:b", json!({ "id": "" }), "invalid_event"),
        ("agent:b", json!({ "id": long }), "invalid_event"),
        ("agent:b", json!({ "deadline_ms": limits::WORK_DEADLINE_MS_MIN - 1 }), "invalid_event"),
        ("agent:b", json!({ "deadline_ms": limits::WORK_DEADLINE_MS_MAX + 1 }), "invalid_event"),
        ("agent:b", json!({ "deadline_ms": limits::WORK_DEADLINE_MS_MAX }), "ok"),
        ("agent:b", json!({ "deadline_ms": "soon" }), "invalid_event"),
        ("agent:b", json!({ "parent": "work_nothing" }), "unknown_target"),
        ("agent:b", json!("work_nothing"), "unknown_target"),
        ("agent:a", json!({}), "invalid_event"),
        ("group/g", json!({}), "invalid_event"),
        ("agent:broadcast", json!({}), "invalid_event"),
        ("agent:nobody", json!({}), "unknown_target"),
        ("agent:b", json!("just-a-name"), "ok"),
    ] {
        assert_eq!(outcome(&world.emit("agent:a", ask(target, work.clone()))), code, "{target} {work}");
    }
    let id = open(&mut world, "agent:a", "agent:b", json!({}));
    for payload in
        [json!({}), json!({ "work": 5 }), json!({ "work": id, "state": "done" }), json!({ "work": id, "state": 1 })]
    {
        let event = json!({ "type": "work.update", "target": "core", "payload": payload });
        assert_eq!(outcome(&world.emit("agent:b", event)), "invalid_event", "{payload}");
    }
    let astray = json!({ "type": "work.update", "target": "agent:c", "payload": { "work": id, "state": "working" } });
    assert_eq!(outcome(&world.emit("agent:b", astray)), "invalid_event");
    let mut fleeting = ask("agent:b", json!({}));
    fleeting["metadata"]["ephemeral"] = true.into();
    assert_eq!(outcome(&world.emit("agent:a", fleeting)), "invalid_event");
}

#[test]
fn lists_show_each_side_its_own() {
    let mut world = three();
    world.act("agent:a", "network.channel.create", json!({ "name": "dev", "participants": ["b"] })).unwrap();
    let direct = open(&mut world, "agent:a", "agent:b", json!({ "context": "c1" }));
    let shared = open(&mut world, "agent:a", "channel/dev", json!({}));
    let other = open(&mut world, "agent:c", "agent:a", json!({}));
    let ids = |world: &World, viewer: Viewer, filter: UnitFilter| -> Vec<String> {
        world.state().units(viewer, &filter, 10).iter().map(|(_, u)| u.id.to_string()).collect()
    };
    let member = |world: &World, name: &str| Viewer::Member(world.id(name));
    let (a, b, c) = (member(&world, "agent:a"), member(&world, "agent:b"), member(&world, "agent:c"));
    let all = UnitFilter::default;
    assert_eq!(ids(&world, a, all()), [other.as_str(), shared.as_str(), direct.as_str()]);
    assert_eq!(ids(&world, a, UnitFilter { to_do: true, ..all() }), [other.as_str()]);
    assert_eq!(ids(&world, b, all()), [shared.as_str(), direct.as_str()]);
    assert_eq!(ids(&world, b, UnitFilter { untaken: true, ..all() }), [shared.as_str()]);
    assert_eq!(ids(&world, c, all()), [other.as_str()]);
    assert_eq!(ids(&world, Viewer::Operator, all()).len(), 3);
    assert_eq!(ids(&world, Viewer::Reader { manages: false }, all()).len(), 0);
    assert_eq!(ids(&world, a, UnitFilter { context: Some("c1".into()), ..all() }), [direct.as_str()]);
    assert_eq!(ids(&world, a, UnitFilter { channel: Some("dev".into()), ..all() }), [shared.as_str()]);
    world.emit("agent:b", update(&direct, "completed")).unwrap();
    assert_eq!(ids(&world, a, UnitFilter { states: vec![WorkState::Completed], ..all() }), [direct.as_str()]);
    assert_eq!(ids(&world, a, UnitFilter { before: Some(1), ..all() }).len(), 1);
}

#[test]
fn open_work_is_bounded() {
    let mut world = three().joined(&["agent:d", "agent:e"]);
    world.careful = false;
    let fill = |world: &mut World, from: &str, to: &str, n: usize| {
        (0..n).for_each(|_| {
            open(world, from, to, json!({}));
        });
    };
    world.set(json!({ "member_share_percent": 50 }));
    let share = limits::WORK_OPEN_MAX / 2;
    fill(&mut world, "agent:a", "agent:b", share);
    let refused = world.emit("agent:a", ask("agent:c", json!({}))).unwrap_err();
    assert_eq!(refused.code.as_str(), "network_full");
    assert_eq!(refused.details.as_deref(), Some(&json!({ "scope": "member", "limit": share })));
    assert_eq!(limits::WORK_PER_EXECUTOR_MAX, share);
    assert_eq!(outcome(&world.emit("agent:c", ask("agent:b", json!({})))), "recipient_queue_full");
    let others = limits::WORK_OPEN_MAX * (100 - limits::OPERATOR_PERCENT) / 100 - share;
    fill(&mut world, "agent:c", "agent:d", others);
    let refused = world.emit("agent:e", ask("agent:c", json!({}))).unwrap_err();
    assert_eq!(refused.details.as_deref(), Some(&json!({ "scope": "network", "limit": share + others })));
    assert_eq!(world.try_say("agent:e", "agent:c"), "ok", "others go on");
    let id = world.state().book.units[&0].id.to_string();
    world.emit("agent:b", update(&id, "completed")).unwrap();
    assert_eq!(outcome(&world.emit("agent:a", ask("agent:c", json!({})))), "ok", "an end makes room");
    // Replaying twenty thousand openings four times proves nothing more here.
    let records = std::mem::take(&mut world.records);
    let mut replayed = rialto_engine::Engine::new(rialto_engine::State::created(&world.created, 1).unwrap());
    records.iter().for_each(|record| replayed.apply(record));
    assert_eq!(replayed.state.hash(), world.state().hash());
    world.engine = rialto_engine::Engine::new(rialto_engine::State::created(&world.created, 1).unwrap());
}

#[test]
fn ended_units_beyond_the_bound_are_forgotten_oldest_first() {
    let mut world = three();
    world.careful = false;
    let ids: Vec<String> = (0..limits::WORK_CLOSED_KEPT_MAX + 5)
        .map(|_| {
            let id = open(&mut world, "agent:a", "agent:b", json!({}));
            world.emit("agent:b", update(&id, "completed")).unwrap();
            id
        })
        .collect();
    world.ack_up_to("agent:a", Seq::MAX);
    world.ack_up_to("agent:b", Seq::MAX);
    world.tick();
    assert_eq!(world.state().book.units.len(), limits::WORK_CLOSED_KEPT_MAX);
    assert!(world.state().unit_named(&ids[4], None).is_none() && world.state().unit_named(&ids[5], None).is_some());
    assert!(world.state().book.next_unit as usize == ids.len(), "numbers are never used again");
    world.records.clear();
    world.engine = rialto_engine::Engine::new(rialto_engine::State::created(&world.created, 1).unwrap());
}
