//! Mods that run elsewhere: what each mode may do, what becomes of failures, who serves them (sheet section 9).

use crate::world::{Join, World, outcome, signals};
use rialto_engine::input::Effect;
use rialto_engine::mods::external::verdict::ModVerdict;
use rialto_engine::mods::external::{CheckOutcome, CheckStage};
use rialto_engine::mods::{ModConfig, Mode, OnError, Runs};
use rialto_engine::{Accepted, AdminOp};
use rialto_model::{Fault, limits};
use serde_json::{Value, json};

fn process(name: &str, mode: Mode, priority: i32) -> ModConfig {
    ModConfig { runs: Runs::Process, ..ModConfig::new(name, mode, priority) }
}

fn says(verdict: Value) -> CheckOutcome {
    CheckOutcome::Said(ModVerdict::parse(&verdict.to_string()).unwrap())
}

impl World {
    /// Loads a process mod that says the same of everything.
    fn saying(&mut self, config: ModConfig, name: &'static str, verdict: Value) {
        self.admin(AdminOp::SetMod(config)).unwrap();
        self.elsewhere.insert(name, Box::new(move |_| says(verdict.clone())));
    }
}

fn say(world: &mut World) -> Result<Accepted, Fault> {
    world.emit("agent:a", json!({ "id": "e1", "type": "chat.note", "target": "agent:b", "payload": { "n": 1 } }))
}

fn last(world: &World) -> Value {
    serde_json::from_str(&world.events.values().last().unwrap().event.json()).unwrap()
}

fn world() -> World {
    World::plain().joined(&["agent:a", "agent:b"])
}

/// What each mode may do, by what the mod says: the outcome, and what was committed as payload.
#[test]
fn what_each_mode_may_do() {
    let modified = json!({ "verdict": "modified", "event": { "payload": { "n": 2 }, "id": "x", "source": "agent:b",
        "network": "elsewhere", "timestamp": 1 } });
    let reject = json!({ "verdict": "reject", "message": "no" });
    let pass = json!({ "verdict": "pass" });
    let table = [
        (Mode::Guard, OnError::Skip, Some(&pass), "ok", 1),
        (Mode::Guard, OnError::Skip, Some(&modified), "ok", 1),
        (Mode::Guard, OnError::Skip, Some(&reject), "rejected", 0),
        (Mode::Guard, OnError::Skip, None, "mod_failed", 0),
        (Mode::Guard, OnError::Reject, None, "mod_failed", 0),
        (Mode::Transform, OnError::Skip, Some(&pass), "ok", 1),
        (Mode::Transform, OnError::Skip, Some(&modified), "ok", 2),
        (Mode::Transform, OnError::Skip, Some(&reject), "ok", 1),
        (Mode::Transform, OnError::Skip, None, "ok", 1),
        (Mode::Transform, OnError::Reject, Some(&reject), "mod_failed", 0),
        (Mode::Transform, OnError::Reject, None, "mod_failed", 0),
        (Mode::Observe, OnError::Skip, Some(&pass), "ok", 1),
        (Mode::Observe, OnError::Skip, Some(&modified), "ok", 1),
        (Mode::Observe, OnError::Skip, Some(&reject), "ok", 1),
        (Mode::Observe, OnError::Skip, None, "ok", 1),
    ];
    for (mode, on_error, verdict, code, n) in table {
        let mut world = world();
        let config = ModConfig { on_error, ..process("x", mode, 50) };
        match verdict {
            Some(verdict) => world.saying(config, "x", verdict.clone()),
            None => drop(world.admin(AdminOp::SetMod(config)).unwrap()),
        }
        let before = world.records.len();
        let result = say(&mut world);
        assert_eq!(outcome(&result), code, "{mode:?} {on_error:?} {verdict:?}");
        if code == "ok" {
            let event = last(&world);
            let fixed = [&event["id"], &event["source"], &event["network"]];
            assert_eq!(fixed, [&json!("e1"), &json!("agent:a"), &json!(crate::world::NETWORK)], "{mode:?}");
            assert_eq!(event["payload"]["n"], json!(n), "{mode:?} {verdict:?}");
            assert_eq!(world.pending("agent:b").len(), 1);
        } else {
            assert_eq!(world.records.len(), before);
            assert_eq!(result.unwrap_err().by_mod.as_deref(), Some("mod/x"));
        }
    }
}

#[test]
fn a_guard_has_its_own_words() {
    let mut world = world();
    world.saying(
        process("x", Mode::Guard, 50),
        "x",
        json!({ "verdict": "reject", "code": "acme.no_secrets", "message": "that is a key" }),
    );
    let fault = say(&mut world).unwrap_err();
    assert_eq!((fault.code.as_str(), fault.custom_code.as_deref()), ("rejected", Some("acme.no_secrets")));
    assert_eq!((fault.message.as_str(), fault.by_mod.as_deref()), ("that is a key", Some("mod/x")));
}

#[test]
fn the_first_refusal_ends_the_walk_and_order_is_mode_priority_name() {
    let mut world = world();
    for (name, mode, priority) in
        [("t", Mode::Transform, 1), ("c", Mode::Guard, 70), ("b", Mode::Guard, 60), ("a", Mode::Guard, 60)]
    {
        world.saying(process(name, mode, priority), name, json!({ "verdict": "pass" }));
    }
    say(&mut world).unwrap();
    let names: Vec<&str> = world.asked.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "t"]);
    world.asked.clear();
    world.elsewhere.insert("b", Box::new(|_| says(json!({ "verdict": "reject" }))));
    world.emit("agent:a", json!({ "type": "chat.note", "target": "agent:b" })).unwrap_err();
    let names: Vec<&str> = world.asked.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn builtin_guards_keep_what_they_refuse_from_those_behind_them() {
    let mut world = world();
    world.load("rate-limiter", json!({ "rate": 1, "burst": 3 }));
    world.saying(process("x", Mode::Guard, 50), "x", json!({ "verdict": "pass" }));
    let send = |world: &mut World| outcome(&world.emit("agent:a", json!({ "type": "chat.note", "target": "agent:b" })));
    // However often a mod is asked, an event is charged once.
    assert_eq!([send(&mut world), send(&mut world)], ["ok", "ok"]);
    world.elsewhere.insert("x", Box::new(|_| says(json!({ "verdict": "reject" }))));
    assert_eq!(send(&mut world), "rejected");
    world.asked.clear();
    // What was refused counts as well: the mod is not asked about a flood.
    assert_eq!(send(&mut world), "rate_limited");
    assert!(world.asked.is_empty());
    // A guard before the limiter is asked first.
    world.saying(process("first", Mode::Guard, 1), "first", json!({ "verdict": "pass" }));
    assert_eq!(send(&mut world), "rate_limited");
    assert_eq!(world.asked.len(), 1);
}

#[test]
fn a_changed_type_or_target_is_routed_again_and_guards_are_asked_again_once() {
    let mut world = world();
    world.saying(process("g", Mode::Guard, 50), "g", json!({ "verdict": "pass" }));
    world.saying(
        process("t", Mode::Transform, 60),
        "t",
        json!({ "verdict": "modified", "event": { "type": "chat.moved", "target": "agent:broadcast" } }),
    );
    world.saying(process("u", Mode::Transform, 70), "u", json!({ "verdict": "pass" }));
    say(&mut world).unwrap();
    let asked: Vec<(String, CheckStage, Value)> =
        world.asked.drain(..).map(|(name, step, event)| (name, step, event["type"].clone())).collect();
    let step = |name: &str, step, kind: &str| (name.to_owned(), step, json!(kind));
    assert_eq!(
        asked,
        [
            step("g", CheckStage::Guard, "chat.note"),
            step("t", CheckStage::Transform, "chat.note"),
            step("u", CheckStage::Transform, "chat.moved"),
            step("g", CheckStage::GuardAgain, "chat.moved"),
        ]
    );
    let event = last(&world);
    assert_eq!(
        (&event["type"], &event["target"], &event["visibility"]),
        (&json!("chat.moved"), &json!("agent:broadcast"), &json!("public"))
    );
    assert_eq!(world.events.values().last().unwrap().verdicts, ["mod/t: modified"]);
    // The guard may refuse what it has become.
    world.elsewhere.insert(
        "g",
        Box::new(|check| says(json!({ "verdict": if check.step == CheckStage::Guard { "pass" } else { "reject" } }))),
    );
    let again = world.emit("agent:a", json!({ "type": "chat.note", "target": "agent:b" }));
    assert_eq!(outcome(&again), "rejected");
}

#[test]
fn what_a_transform_makes_must_be_an_event() {
    for (change, reason) in [
        (json!({ "type": "Not A Type" }), "type"),
        (json!({ "type": "network.agent.remove", "target": "core" }), "cannot become"),
        (json!({ "target": "agent:nobody" }), "nobody"),
        (json!({ "target": "channel/none" }), "none"),
        (json!({ "payload": [1] }), "object"),
        (json!({ "metadata": 5 }), "object"),
        (json!({ "visibility": "secret" }), "visibility"),
        (json!({ "visibility": "mod_only" }), "mod_only"),
        (json!({ "payload": { "text": "x".repeat(limits::EVENT_BYTES_MAX) } }), "bytes"),
    ] {
        let mut world = world();
        world.careful = false;
        let verdict = json!({ "verdict": "modified", "event": change });
        world.saying(process("t", Mode::Transform, 60), "t", verdict.clone());
        say(&mut world).unwrap();
        let record = world.events.values().last().unwrap();
        assert_eq!(record.event.kind(), "chat.note", "{reason}");
        let note = record.verdicts.first().map(String::as_str).unwrap_or_default();
        assert!(note.starts_with("mod/t: ") && note.contains(reason) && note.ends_with("skipped"), "{note}");
        let strict = ModConfig { on_error: OnError::Reject, ..process("t", Mode::Transform, 60) };
        world.saying(strict, "t", verdict);
        let refused = world.emit("agent:a", json!({ "type": "chat.note", "target": "agent:b" }));
        assert_eq!(outcome(&refused), "mod_failed", "{reason}");
    }
}

#[test]
fn a_changed_event_is_known_again_by_what_was_sent() {
    let mut world = world();
    let change = json!({ "verdict": "modified", "event": { "payload": { "n": 9 }, "target": "agent:broadcast" } });
    world.saying(process("t", Mode::Transform, 60), "t", change);
    let first = say(&mut world).unwrap();
    world.asked.clear();
    let again = say(&mut world).unwrap();
    assert!(again.duplicate && again.seq == first.seq);
    assert!(world.asked.is_empty(), "nobody is asked about a duplicate");
    // The same words in another order are the same event; other words are not.
    let same = json!({ "payload": { "n": 1 }, "target": "agent:b", "type": "chat.note", "id": "e1" });
    assert!(world.emit_text(&world.caller("agent:a"), &format!(" {same}")).unwrap().duplicate);
    let other = json!({ "id": "e1", "type": "chat.note", "target": "agent:b", "payload": { "n": 9 } });
    assert_eq!(outcome(&world.emit("agent:a", other)), "id_conflict");
}

#[test]
fn transforms_see_what_those_before_them_added() {
    let mut world = World::workspace().joined(&["agent:a", "agent:b"]);
    world.load("enrichment", json!({ "static": { "team": "red" } }));
    world.load("workspace", json!({}));
    for (name, priority) in [("early", 1), ("middle", 40), ("late", 60)] {
        world.saying(process(name, Mode::Transform, priority), name, json!({ "verdict": "pass" }));
    }
    let message = |text: &str| json!({ "type": "workspace.message.posted", "target": "channel/general", "payload": { "content": text } });
    world.emit("agent:a", message("@b please")).unwrap();
    let seen: Vec<(bool, bool)> = world
        .asked
        .iter()
        .map(|(_, _, e)| (!e["metadata"]["team"].is_null(), !e["metadata"]["target_agents"].is_null()))
        .collect();
    assert_eq!(seen, [(false, false), (true, false), (true, true)]);
    // One behind mod/workspace has the last word; one before it does not.
    let meant = |who: &str| json!({ "verdict": "modified", "event": { "metadata": { "target_agents": [who] } } });
    world.saying(process("early", Mode::Transform, 1), "early", meant("early"));
    world.emit("agent:a", message("@b please")).unwrap();
    assert_eq!(last(&world)["metadata"]["target_agents"], json!(["b"]));
    world.saying(process("late", Mode::Transform, 60), "late", meant("late"));
    world.emit("agent:a", message("@b please")).unwrap();
    assert_eq!(last(&world)["metadata"]["target_agents"], json!(["late"]));
}

#[test]
fn the_list_is_the_one_of_the_first_question() {
    let mut world = world();
    world.saying(process("a", Mode::Guard, 50), "a", json!({ "verdict": "pass" }));
    world.saying(process("b", Mode::Guard, 60), "b", json!({ "verdict": "pass" }));
    // While the first is asked, the operator unloads the second: the event finishes on the old list.
    let caller = world.caller("agent:a");
    let text = json!({ "type": "chat.note", "target": "agent:b" }).to_string();
    let mut asked = Vec::new();
    let result = world.interrupted(&caller, &text, |world, check| {
        asked.push(check.name.to_string());
        if check.name.as_ref() == "a" {
            world.admin(AdminOp::RemoveMod("b".into())).unwrap();
        }
        says(json!({ "verdict": "pass" }))
    });
    assert_eq!(outcome(&result), "ok");
    assert_eq!(asked, ["a", "b"]);
    world.asked.clear();
    say(&mut world).unwrap();
    assert_eq!(world.asked.len(), 1);
}

/// Once the last of them was unloaded, what it had been asked about went on without its word.
#[test]
fn the_only_mod_has_its_say_although_it_is_unloaded_meanwhile() {
    let modified = json!({ "verdict": "modified", "event": { "payload": { "n": 2 } } });
    let table = [
        (Mode::Guard, says(json!({ "verdict": "reject" })), "rejected"),
        (Mode::Guard, CheckOutcome::Failed("it did not answer in time"), "mod_failed"),
        (Mode::Guard, says(json!({ "verdict": "pass" })), "ok"),
        (Mode::Transform, says(modified), "ok"),
    ];
    for (mode, said, expected) in table {
        let mut world = world();
        world.saying(process("x", mode, 50), "x", json!({ "verdict": "pass" }));
        let caller = world.caller("agent:a");
        let text = json!({ "type": "chat.note", "target": "agent:b", "payload": { "n": 1 } }).to_string();
        let result = world.interrupted(&caller, &text, |world, _| {
            world.admin(AdminOp::RemoveMod("x".into())).unwrap();
            said.clone()
        });
        assert_eq!(outcome(&result), expected, "{mode:?} {said:?}");
        if mode == Mode::Transform {
            assert_eq!(last(&world)["payload"]["n"], 2);
        }
    }
}

#[test]
fn joins_are_asked_about_without_their_secrets_and_some_types_never() {
    let mut world = world();
    world.saying(process("x", Mode::Guard, 50), "x", json!({ "verdict": "reject", "code": "acme.closed" }));
    let fault = world.try_join("agent:c", Join::token()).unwrap_err();
    assert_eq!(fault.custom_code.as_deref(), Some("acme.closed"));
    let (_, _, shown) = world.asked.pop().unwrap();
    assert_eq!((&shown["type"], &shown["source"]), (&json!("network.agent.join"), &json!("agent:c")));
    let text = shown.to_string();
    assert!(!text.contains("credentials") && !text.contains(crate::world::TOKEN), "{text}");
    world.asked.clear();
    assert_eq!(outcome(&world.act("agent:a", "network.ping", json!({}))), "ok");
    assert_eq!(outcome(&world.act("agent:b", "network.agent.discover", json!({}))), "acme.closed");
    assert_eq!(outcome(&world.act("agent:b", "network.channel.create", json!({ "name": "x" }))), "acme.closed");
    assert_eq!(world.asked.len(), 2);
    assert_eq!(outcome(&world.act("agent:b", "network.agent.leave", json!({}))), "ok");
}

#[test]
fn the_context_says_who_sends() {
    let mut world = World::workspace().joined(&["agent:a", "agent:b"]);
    world.admin(AdminOp::SetMod(process("x", Mode::Guard, 50))).unwrap();
    let (tx, rx) = std::sync::mpsc::channel();
    world.elsewhere.insert(
        "x",
        Box::new(move |check| {
            tx.send((check.context.clone(), check.deadline_ms)).unwrap();
            says(json!({ "verdict": "pass" }))
        }),
    );
    say(&mut world).unwrap();
    let (context, deadline) = rx.recv().unwrap();
    let context: Value = serde_json::from_str(&context).unwrap();
    let want = json!({ "network": crate::world::NETWORK, "address": "agent:a", "role": "member", "verification": 0 });
    assert_eq!((context, deadline), (want, 1000));
}

#[test]
fn observers_are_shown_what_was_committed_and_nothing_else() {
    let mut world = world();
    world.saying(process("o", Mode::Observe, 110), "o", json!({ "verdict": "reject" }));
    let shown = |world: &World| -> Vec<Value> {
        let shows = |effect: &Effect| match effect {
            Effect::Observe(check) => Some(serde_json::from_str(&check.event).unwrap()),
            Effect::CredentialEnded
            | Effect::Signal { .. }
            | Effect::Revoked { .. }
            | Effect::CarriedGone { .. }
            | Effect::CloseAll { .. } => None,
        };
        world.after.iter().filter_map(shows).collect()
    };
    say(&mut world).unwrap();
    let seen = shown(&world);
    assert_eq!(seen.len(), 1);
    assert_eq!((&seen[0]["id"], seen[0]["timestamp"].is_u64()), (&json!("e1"), true));
    say(&mut world).unwrap();
    assert!(shown(&world).is_empty(), "not again for a duplicate");
    world.emit("agent:a", json!({ "type": "chat.note", "target": "agent:nobody" })).unwrap_err();
    assert!(shown(&world).is_empty(), "not what was refused");
    world
        .emit("agent:a", json!({ "type": "chat.blink", "target": "agent:b", "metadata": { "ephemeral": true } }))
        .unwrap();
    assert_eq!(shown(&world).len(), 1, "signals too");
    world.act("agent:a", "network.ping", json!({})).unwrap();
    assert!(shown(&world).is_empty());
}

#[test]
fn mail_to_a_mod_is_for_it_alone_and_taken_or_refused() {
    let mut world = world();
    world.saying(process("desk", Mode::Observe, 110), "desk", json!({ "verdict": "pass" }));
    world.saying(process("t", Mode::Transform, 60), "t", json!({ "verdict": "modified", "event": { "payload": {} } }));
    world.saying(process("g", Mode::Guard, 60), "g", json!({ "verdict": "pass" }));
    let mail = json!({ "type": "chat.note", "target": "mod/desk", "payload": { "q": 1 } });
    world.emit("agent:a", mail.clone()).unwrap();
    let asked: Vec<(&str, CheckStage)> = world.asked.iter().map(|(name, step, _)| (name.as_str(), *step)).collect();
    assert_eq!(asked, [("g", CheckStage::Guard), ("desk", CheckStage::Mail)]);
    let event = last(&world);
    assert_eq!((&event["visibility"], &event["payload"]["q"]), (&json!("mod_only"), &json!(1)));
    assert!(world.after.iter().all(|effect| !matches!(effect, Effect::Observe(_))));
    assert!(world.pending("agent:b").is_empty());
    world.elsewhere.insert("desk", Box::new(|_| says(json!({ "verdict": "reject", "message": "closed" }))));
    assert_eq!(outcome(&world.emit("agent:a", mail.clone())), "rejected");
    world.elsewhere.remove("desk");
    assert_eq!(outcome(&world.emit("agent:a", mail)), "mod_failed");
    assert_eq!(outcome(&world.emit("agent:a", json!({ "type": "a.b", "target": "mod/none" }))), "mod_not_found");
    // Mail to a mod of the node's own is nobody else's either.
    world.asked.clear();
    world.emit("agent:a", json!({ "type": "a.b", "target": "mod/persistence" })).unwrap();
    let asked: Vec<&str> = world.asked.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(asked, ["g"]);
}

#[test]
fn what_mods_send_passes_the_others_and_says_where_it_is_from() {
    let mut world = world();
    for name in ["x", "y"] {
        world.saying(process(name, Mode::Guard, 50), name, json!({ "verdict": "pass" }));
    }
    let note =
        json!({ "id": "mine", "source": "agent:a", "type": "acme.note", "target": "agent:b", "payload": { "n": 1 } });
    let accepted = world.emit_of_mod("x", &note).unwrap();
    let event = last(&world);
    assert_eq!(event["source"], json!("mod/x"));
    assert_ne!(event["id"], json!("mine"), "ids of mods are the network's");
    assert_eq!(world.pending("agent:b"), [accepted.seq.unwrap()]);
    let asked: Vec<&str> = world.asked.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(asked, ["y"], "its own emitter is not asked");
    world.elsewhere.insert("y", Box::new(|_| says(json!({ "verdict": "reject" }))));
    assert_eq!(outcome(&world.emit_of_mod("x", &note)), "rejected");
    for (event, code) in [
        (json!({ "type": "network.agent.remove", "target": "core" }), "reserved_type"),
        (json!({ "type": "rialto.member.status", "target": "agent:b" }), "reserved_type"),
        (json!({ "type": "work.update", "target": "agent:b" }), "reserved_type"),
        (json!({ "type": "chat.note", "target": "agent:b", "metadata": { "work": { "id": "w" } } }), "reserved_type"),
        (json!({ "type": "chat.note", "target": "agent:nobody" }), "unknown_target"),
        (json!({ "type": "chat.note", "target": "mod/x" }), "invalid_event"),
        (json!({ "type": "chat.note" }), "invalid_event"),
    ] {
        assert_eq!(outcome(&world.emit_of_mod("x", &event)), code, "{event}");
    }
    world.elsewhere.insert("y", Box::new(|_| says(json!({ "verdict": "pass" }))));
    world.emit_of_mod("x", &json!({ "type": "a.b", "target": "agent:b", "metadata": { "ephemeral": true } })).unwrap();
    assert_eq!(signals(&world, "a.b").len(), 1);
    world.admin(AdminOp::RemoveMod("x".into())).unwrap();
    assert_eq!(outcome(&world.emit_of_mod("x", &note)), "mod_not_found");
}

fn serve(world: &mut World, who: &str, payload: Value) -> Result<Value, Fault> {
    world.act(who, "network.mod.serve", payload)
}

#[test]
fn only_approved_members_serve_mods_whatever_their_role() {
    let mut world = World::workspace().joined(&["agent:a", "agent:b", "agent:c"]);
    world.admin(AdminOp::Role("agent:c".into(), rialto_model::Role::Master)).unwrap();
    let wish = json!({ "name": "check", "mode": "guard", "intercepts": ["chat.*"], "priority": 5, "deadline_ms": 250 });
    assert_eq!(outcome(&serve(&mut world, "agent:b", wish.clone())), "forbidden");
    assert_eq!(outcome(&serve(&mut world, "agent:c", wish.clone())), "forbidden", "a master sees no more than others");
    for name in ["check", "n", "auth", "analytics", "a"] {
        world.admin(AdminOp::ApproveMod(name.into(), "agent:a".into(), true)).unwrap();
    }
    let shown = serve(&mut world, "agent:a", wish.clone()).unwrap();
    assert_eq!(
        (&shown["mod"], &shown["kind"], &shown["served_by"], &shown["deadline_ms"], &shown["priority"]),
        (&json!("mod/check"), &json!("served"), &json!("agent:a"), &json!(250), &json!(5))
    );
    assert_eq!(signals(&world, "rialto.mod.changed").len(), 1);
    // The operator approves a member, by mod.
    assert_eq!(outcome(&world.admin(AdminOp::ApproveMod("other".into(), "nobody".into(), true))), "unknown_target");
    world.admin(AdminOp::ApproveMod("other".into(), "agent:b".into(), true)).unwrap();
    assert_eq!(outcome(&serve(&mut world, "agent:b", json!({ "name": "check", "mode": "guard" }))), "already_exists");
    assert_eq!(outcome(&serve(&mut world, "agent:b", json!({ "name": "third", "mode": "guard" }))), "forbidden");
    serve(&mut world, "agent:b", json!({ "name": "other", "mode": "observe" })).unwrap();
    world.admin(AdminOp::ApproveMod("other".into(), "agent:b".into(), false)).unwrap();
    assert_eq!(outcome(&serve(&mut world, "agent:b", json!({ "name": "other", "priority": 3 }))), "forbidden");
    for (payload, code) in [
        (json!({ "name": "auth", "mode": "guard" }), "already_exists"),
        (json!({ "name": "analytics", "mode": "observe" }), "already_exists"),
        (json!({ "name": "a b", "mode": "guard" }), "invalid_payload"),
        (json!({ "mode": "guard" }), "invalid_payload"),
        (json!({ "name": "n" }), "invalid_payload"),
        (json!({ "name": "n", "mode": "judge" }), "invalid_payload"),
        (json!({ "name": "n", "mode": "guard", "on_error": "panic" }), "invalid_payload"),
        (json!({ "name": "n", "mode": "guard", "deadline_ms": 0 }), "invalid_payload"),
        (json!({ "name": "n", "mode": "guard", "deadline_ms": limits::MOD_DEADLINE_MS_MAX + 1 }), "invalid_payload"),
        (json!({ "name": "n", "mode": "guard", "intercepts": [""] }), "invalid_payload"),
        (json!({ "name": "n", "unload": true }), "mod_not_found"),
    ] {
        assert_eq!(outcome(&serve(&mut world, "agent:a", payload.clone())), code, "{payload}");
    }
    // Serving again changes what is said and keeps the rest.
    let shown = serve(&mut world, "agent:a", json!({ "name": "check", "priority": 7 })).unwrap();
    assert_eq!((&shown["priority"], &shown["intercepts"]), (&json!(7), &json!(["chat.*"])));
    // Not asked about what its own server sends, asked about others.
    world.elsewhere.insert("check", Box::new(|_| says(json!({ "verdict": "reject" }))));
    assert_eq!(world.try_say("agent:a", "agent:b"), "ok");
    assert_eq!(world.try_say("agent:b", "agent:a"), "rejected");
    serve(&mut world, "agent:a", json!({ "name": "check", "unload": true })).unwrap();
    assert_eq!(world.try_say("agent:b", "agent:a"), "ok");
}

#[test]
fn a_mod_goes_with_its_server() {
    for how in ["leave", "forget", "remove"] {
        let mut world = World::workspace().joined(&["agent:a", "agent:b"]);
        world.admin(AdminOp::ApproveMod("g".into(), "agent:b".into(), true)).unwrap();
        serve(&mut world, "agent:b", json!({ "name": "g", "mode": "guard" })).unwrap();
        assert_eq!(world.try_say("agent:a", "core"), "mod_failed", "its server says nothing");
        match how {
            "leave" => drop(world.act("agent:b", "network.agent.leave", json!({})).unwrap()),
            "forget" => drop(world.act("agent:b", "network.agent.leave", json!({ "forget": true })).unwrap()),
            _ => drop(world.admin(AdminOp::Remove("agent:b".into())).unwrap()),
        }
        assert_eq!(world.try_say("agent:a", "core"), "ok", "{how}");
        assert_eq!(world.state().book.approved.is_empty(), how != "leave");
    }
}

#[test]
fn a_network_has_so_many_mods_from_elsewhere() {
    let mut world = World::workspace().joined(&["agent:a"]);
    world.careful = false;
    world.admin(AdminOp::ApproveMod("more".into(), "agent:a".into(), true)).unwrap();
    for n in 0..limits::MODS_OUTSIDE_MAX {
        world.admin(AdminOp::ApproveMod(format!("m{n}"), "agent:a".into(), true)).unwrap();
        serve(&mut world, "agent:a", json!({ "name": format!("m{n}"), "mode": "observe" })).unwrap();
    }
    assert_eq!(outcome(&serve(&mut world, "agent:a", json!({ "name": "more", "mode": "observe" }))), "network_full");
    assert_eq!(outcome(&world.admin(AdminOp::SetMod(process("more", Mode::Guard, 1)))), "network_full");
    serve(&mut world, "agent:a", json!({ "name": "m0", "priority": 1 })).unwrap();
    let patterns = |n: usize| json!({ "name": "m0", "intercepts": vec!["a.*"; n] });
    serve(&mut world, "agent:a", patterns(limits::MOD_PATTERNS_MAX)).unwrap();
    assert_eq!(outcome(&serve(&mut world, "agent:a", patterns(limits::MOD_PATTERNS_MAX + 1))), "invalid_payload");
    for n in 0..limits::MOD_APPROVALS_MAX - limits::MODS_OUTSIDE_MAX - 1 {
        world.admin(AdminOp::ApproveMod(format!("n{n}"), "agent:a".into(), true)).unwrap();
    }
    let more = AdminOp::ApproveMod("another".into(), "agent:a".into(), true);
    assert_eq!(outcome(&world.admin(more)), "network_full");
}

#[test]
fn an_operator_changes_mods_from_elsewhere_but_for_their_settings() {
    use rialto_engine::mods::manage::ModPatch;
    let mut world = World::workspace().joined(&["agent:a"]);
    world.admin(AdminOp::ApproveMod("t".into(), "agent:a".into(), true)).unwrap();
    serve(&mut world, "agent:a", json!({ "name": "t", "mode": "transform" })).unwrap();
    let change = |patch: ModPatch| AdminOp::ChangeMod("t".into(), patch);
    let patch =
        ModPatch { priority: Some(3), on_error: Some(OnError::Reject), deadline_ms: Some(2000), ..ModPatch::default() };
    let shown = world.admin(change(patch)).unwrap();
    assert_eq!(
        (&shown["priority"], &shown["on_error"], &shown["deadline_ms"], &shown["kind"]),
        (&json!(3), &json!("reject"), &json!(2000), &json!("served"))
    );
    let config = json!({ "k": 1 }).as_object().cloned().unwrap();
    assert_eq!(outcome(&world.admin(change(ModPatch { config, ..ModPatch::default() }))), "invalid_payload");
    let off = ModPatch { enabled: Some(false), ..ModPatch::default() };
    world.admin(change(off)).unwrap();
    world.admin(AdminOp::RemoveMod("t".into())).unwrap();
    assert_eq!(outcome(&world.admin(AdminOp::SetMod(process("auth", Mode::Guard, 1)))), "already_exists");
}
