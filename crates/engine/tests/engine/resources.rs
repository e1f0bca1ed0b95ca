//! Resources: rules, versions, content, calls (OpenAgents sheet, section 10).

use crate::world::{World, outcome, signals};
use rialto_engine::{AdminOp, Viewer};
use rialto_model::payload::ResourceFilter;
use rialto_model::payload::RosterFilter;
use rialto_model::{Role, WorkState, limits};
use serde_json::{Value, json};

fn world() -> World {
    let mut world = World::with(
        rialto_model::network::Settings::preset("main", rialto_model::network::Preset::Plain),
        &["access-control", "persistence"],
    )
    .joined(&["agent:owner", "agent:m", "agent:a", "agent:b", "agent:o"]);
    world.admin(AdminOp::Role("agent:owner".into(), Role::Member)).unwrap();
    world.admin(AdminOp::Role("agent:m".into(), Role::Master)).unwrap();
    world.admin(AdminOp::Role("agent:o".into(), Role::Observer)).unwrap();
    world.admin(AdminOp::SetGroup("g".into(), vec!["agent:a".into()])).unwrap();
    world
}

fn register(world: &mut World, by: &str, payload: Value) -> Result<Value, rialto_model::Fault> {
    world.act(by, "network.resource.register", payload)
}

fn event(kind: &str, target: &str, payload: Value) -> Value {
    json!({ "type": format!("network.resource.{kind}"), "target": target, "payload": payload })
}

fn read(world: &mut World, by: &str, target: &str, payload: Value) -> Result<Value, rialto_model::Fault> {
    let accepted = world.emit(by, event("read", target, payload))?;
    Ok(serde_json::from_str(accepted.response.expect("a response").payload()).unwrap())
}

fn discover(world: &mut World, by: &str, payload: Value) -> Vec<Value> {
    let accepted = world.emit(by, event("discover", "core", payload)).unwrap();
    let found: Value = serde_json::from_str(accepted.response.unwrap().payload()).unwrap();
    found["resources"].as_array().unwrap().clone()
}

#[test]
fn the_networks_own_discovery_names_what_the_asker_may_read_until_its_owner_is_removed() {
    let mut world = world();
    let tool =
        |name: &str, read: &str| json!({ "address": format!("resource/tool/{name}"), "permissions": { "read": read } });
    register(&mut world, "agent:owner", tool("open", "network")).unwrap();
    register(&mut world, "agent:owner", tool("closed", "owner")).unwrap();
    let seen = |world: &mut World, by: &str| -> Value {
        let asked =
            json!({ "type": "network.agent.discover", "target": "core", "payload": { "include": ["resources"] } });
        let found: Value = serde_json::from_str(world.emit(by, asked).unwrap().response.unwrap().payload()).unwrap();
        found["resources"].clone()
    };
    let open = json!({ "address": "resource/tool/open", "owner": "agent:owner", "type": "tool" });
    let closed = json!({ "address": "resource/tool/closed", "owner": "agent:owner", "type": "tool" });
    assert_eq!(seen(&mut world, "agent:b"), json!([open]));
    assert_eq!(seen(&mut world, "agent:owner"), json!([closed, open]));
    world.act("agent:owner", "network.agent.leave", json!({})).unwrap();
    assert_eq!(seen(&mut world, "agent:b"), json!([open]), "away is not gone");
    world.admin(AdminOp::Remove("agent:owner".into())).unwrap();
    assert_eq!(seen(&mut world, "agent:b"), json!([]));
}

/// Every rule of the sheet's table, every operation, every principal: as an event, and in what discovery shows.
#[test]
fn every_rule_for_everybody() {
    let table: [(Value, [bool; 5]); 8] = [
        (json!("network"), [true, true, true, true, true]),
        (json!("role:master"), [true, true, false, false, false]),
        (json!("role:member"), [true, false, true, true, false]),
        (json!("group/g"), [true, false, true, false, false]),
        (json!("agents:[agent:b, human:ana]"), [true, false, false, true, false]),
        (json!(["group/g", "agent:b"]), [true, false, true, true, false]),
        (json!("owner"), [true, false, false, false, false]),
        (json!([]), [true, false, false, false, false]),
    ];
    let people = ["agent:owner", "agent:m", "agent:a", "agent:b", "agent:o"];
    for hide in [true, false] {
        for (rule, allowed) in &table {
            let mut world = world();
            world.load("access-control", json!({ "hide": hide }));
            let all = json!({ "read": rule, "write": rule, "admin": rule });
            register(
                &mut world,
                "agent:owner",
                json!({ "address": "resource/file/x", "content": "hi", "permissions": all }),
            )
            .unwrap();
            let tool = json!({ "read": rule, "invoke": rule, "admin": rule });
            register(&mut world, "agent:owner", json!({ "address": "resource/tool/t", "permissions": tool })).unwrap();
            for (who, may) in people.iter().zip(allowed) {
                let no = if hide { "resource_not_found" } else { "permission_denied" };
                let want = if *may { "ok" } else { no };
                let said = format!("{rule} for {who}");
                assert_eq!(outcome(&read(&mut world, who, "resource/file/x", json!({}))), want, "read, {said}");
                let shown = discover(&mut world, who, json!({ "type": "file" }));
                assert_eq!(shown.len(), usize::from(*may), "discover, {said}");
                if *may {
                    assert_eq!(shown[0]["your_permissions"], json!(["read", "write", "admin"]), "{said}");
                }
                let observer = *who == "agent:o";
                let want = if observer { "observer_read_only" } else { want };
                assert_eq!(
                    outcome(&world.emit(who, event("update", "resource/file/x", json!({ "content": "new" })))),
                    want,
                    "write, {said}"
                );
                assert_eq!(
                    outcome(&world.emit(who, event("update", "resource/file/x", json!({ "description": "d" })))),
                    want,
                    "admin, {said}"
                );
                let called = outcome(&world.emit(who, event("invoke", "resource/tool/t", json!({}))));
                let own = if *who == "agent:owner" { "invalid_argument" } else { want };
                assert_eq!(called, own, "invoke, {said}");
            }
        }
    }
}

#[test]
fn rules_that_are_none_are_refused() {
    let mut world = world();
    for (bad, field) in [
        (json!({ "read": "role:boss" }), "payload.permissions.read"),
        (json!({ "read": "agents:[x" }), "payload.permissions.read"),
        (json!({ "read": "agent:b" }), "payload.permissions.read"),
        (json!({ "read": 5 }), "payload.permissions.read"),
        (json!({ "invoke": "network" }), "payload.permissions.invoke"),
        (json!("network"), "payload.permissions"),
    ] {
        let refused =
            register(&mut world, "agent:a", json!({ "address": "resource/file/x", "content": "", "permissions": bad }))
                .unwrap_err();
        assert_eq!(
            (refused.wire_code(), &refused.details.as_ref().unwrap()["field"]),
            ("invalid_argument", &json!(field)),
            "{bad}"
        );
    }
    let tool = json!({ "address": "resource/tool/t", "permissions": { "write": "network" } });
    assert_eq!(outcome(&register(&mut world, "agent:a", tool)), "invalid_argument");
}

#[test]
fn without_the_mod_all_is_free_but_administering() {
    let mut world = World::plain().joined(&["agent:owner", "agent:b"]);
    let closed = json!({ "read": "owner", "write": "owner" });
    register(
        &mut world,
        "agent:owner",
        json!({ "address": "resource/file/x", "content": "hi", "permissions": closed }),
    )
    .unwrap();
    assert_eq!(read(&mut world, "agent:b", "resource/file/x", json!({})).unwrap()["content"], "hi");
    assert_eq!(outcome(&world.emit("agent:b", event("update", "resource/file/x", json!({ "content": "mine" })))), "ok");
    assert_eq!(
        outcome(&world.act("agent:b", "network.resource.unregister", json!({ "address": "resource/file/x" }))),
        "permission_denied"
    );
}

#[test]
fn content_has_versions_and_conflicts_are_seen() {
    let mut world = world();
    let made = register(&mut world, "agent:a", json!({ "address": "resource/context/plan", "content": "one", "content_type": "text/plain", "permissions": { "write": "network" } })).unwrap();
    assert_eq!(made, json!({ "address": "resource/context/plan", "version": 1 }));
    assert_eq!(signals(&world, "rialto.resource.changed").len(), 1);
    let plan = "resource/context/plan";
    let stored: Value = serde_json::from_str(world.events[&world.head()].event.payload()).unwrap();
    assert_eq!(
        (stored.get("content"), &stored["blob"]["size"]),
        (None, &json!(3)),
        "the log names content, it does not repeat it"
    );
    let update = |payload: Value| event("update", plan, payload);
    assert_eq!(
        world.emit("agent:b", update(json!({ "content": "two", "if_version": 1 }))).unwrap().result.unwrap()["version"],
        2
    );
    let late = world.emit("agent:a", update(json!({ "content": "other", "if_version": 1 }))).unwrap_err();
    assert_eq!((late.wire_code(), &late.details.as_ref().unwrap()["version"]), ("version_conflict", &json!(2)));
    world.emit("agent:b", update(json!({ "content": "+three", "append": true }))).unwrap();
    let now = read(&mut world, "agent:b", plan, json!({})).unwrap();
    assert_eq!(
        (&now["content"], &now["version"], &now["size"], &now["encoding"]),
        (&json!("two+three"), &json!(3), &json!(9), &json!("utf8"))
    );
    assert_eq!(read(&mut world, "agent:b", plan, json!({ "version": 1 })).unwrap()["content"], "one");
    assert_eq!(
        read(&mut world, "agent:b", plan, json!({ "offset": 4, "length": 2, "encoding": "base64" })).unwrap()["content"],
        "dGg="
    );
    assert_eq!(outcome(&read(&mut world, "agent:b", plan, json!({ "version": 9 }))), "resource_not_found");
    world.emit("agent:a", update(json!({ "description": "a plan" }))).unwrap();
    world.emit("agent:a", update(json!({ "content": "four" }))).unwrap();
    assert_eq!(
        read(&mut world, "agent:b", plan, json!({ "version": 4 })).unwrap()["content"],
        "two+three",
        "as it was then"
    );
    assert_eq!(read(&mut world, "agent:b", plan, json!({ "version": 1 })).unwrap()["content"], "one");
    for n in 0..9 {
        world.emit("agent:a", update(json!({ "content": format!("v{n}") }))).unwrap();
    }
    assert_eq!(
        outcome(&read(&mut world, "agent:b", plan, json!({ "version": 1 }))),
        "resource_not_found",
        "old ones go"
    );
    assert_eq!(world.state().blobs().count(), 9);
    assert_eq!(outcome(&world.emit("agent:a", update(json!({})))), "invalid_argument");
    assert_eq!(outcome(&register(&mut world, "agent:b", json!({ "address": plan, "content": "" }))), "already_exists");
    assert_eq!(register(&mut world, "agent:a", json!({ "address": plan, "content": "again" })).unwrap()["version"], 15);
    world.act("agent:a", "network.resource.unregister", json!({ "address": plan })).unwrap();
    assert_eq!(outcome(&read(&mut world, "agent:a", plan, json!({}))), "resource_not_found");
    assert_eq!(world.state().blobs().count(), 0);
}

#[test]
fn repeated_registrations_are_one() {
    let mut world = world();
    let mut event = event("register", "core", json!({ "address": "resource/file/x", "content": "hi" }));
    event["id"] = "r1".into();
    world.emit("agent:a", event.clone()).unwrap();
    assert!(world.emit("agent:a", event.clone()).unwrap().duplicate);
    let spaced = event.to_string().replace("\":", "\": ");
    assert!(world.emit_text(&world.caller("agent:a"), &spaced).unwrap().duplicate);
    event["payload"]["content"] = "other".into();
    assert_eq!(outcome(&world.emit("agent:a", event)), "id_conflict");
}

#[test]
fn a_tool_is_called_and_answers_once() {
    let mut world = world();
    register(&mut world, "agent:owner", json!({ "address": "resource/tool/add", "schema": { "input": { "a": "number" }, "output": { "sum": "number" } } })).unwrap();
    let call =
        json!({ "id": "c1", "type": "network.resource.invoke", "target": "resource/tool/add", "payload": { "a": 1 } });
    let accepted = world.emit("agent:a", call).unwrap();
    let id = accepted.result.unwrap()["work"]["id"].as_str().unwrap().to_owned();
    assert_eq!(world.pending("agent:owner").last(), Some(&world.head()), "it is the owner's mail");
    let request = world.events[&world.head()].clone();
    assert_eq!((request.event.target(), request.event.visibility.as_str()), ("resource/tool/add", "direct"));
    let result = |target: &str, metadata: Value| json!({ "type": "network.resource.invoke.result", "target": target, "payload": { "sum": 2 }, "metadata": metadata });
    assert_eq!(
        outcome(&world.emit("agent:b", result("agent:a", json!({ "in_reply_to": "c1" })))),
        "reserved_type",
        "not b's tool"
    );
    assert_eq!(outcome(&world.emit("agent:owner", result("agent:b", json!({ "in_reply_to": "c1" })))), "invalid_event");
    assert_eq!(outcome(&world.emit("agent:owner", result("agent:a", json!({})))), "invalid_event");
    world.fits = false;
    assert_eq!(outcome(&world.emit("agent:owner", result("agent:a", json!({ "in_reply_to": "c1" })))), "ok");
    let answer = &world.events[&world.head()].event;
    assert!(answer.metadata().contains("\"rialto.schema_warning\":true"), "{}", answer.metadata());
    assert_eq!(world.pending("agent:a").last(), Some(&world.head()));
    assert_eq!(
        outcome(&world.emit("agent:owner", result("agent:a", json!({ "in_reply_to": "c1" })))),
        "no_pending_request"
    );
    let unit = world.state().unit_named(&id, None).unwrap().1;
    assert_eq!(unit.state, WorkState::Completed);
    let failing =
        json!({ "id": "c2", "type": "network.resource.invoke", "target": "resource/tool/add", "payload": { "a": 1 } });
    world.emit("agent:a", failing).unwrap();
    world.emit("agent:owner", json!({ "type": "network.resource.invoke.result", "target": "agent:a", "payload": { "error": { "code": "app.bad" } }, "metadata": { "in_reply_to": "c2", "is_error": true } })).unwrap();
    let failed = world.state().book.units.values().last().unwrap();
    assert_eq!((failed.state, failed.error.as_deref()), (WorkState::Failed, Some("app.bad")));
}

/// What ends a call that nobody answers, and what the caller hears.
#[test]
fn calls_end_by_time_and_by_their_owners_going() {
    let call = |world: &mut World, id: &str, metadata: Value| {
        let event = json!({ "id": id, "type": "network.resource.invoke", "target": "resource/tool/t", "payload": {}, "metadata": metadata });
        world.emit("agent:a", event)
    };
    let heard = |world: &World| {
        let event = &world.events[&world.head()].event;
        let payload: Value = serde_json::from_str(event.payload()).unwrap();
        (
            event.kind().to_owned(),
            event.target().to_owned(),
            payload["code"].as_str().unwrap_or_default().to_owned(),
            payload["event_id"].clone(),
        )
    };
    let fresh = || {
        let mut world = world();
        register(&mut world, "agent:owner", json!({ "address": "resource/tool/t" })).unwrap();
        world.tick();
        world.pass(20_000);
        world.say("agent:owner", "agent:b");
        world
    };
    let error =
        |code: &str, id: &str| ("network.event.error".to_owned(), "agent:a".to_owned(), code.to_owned(), json!(id));
    let mut world = fresh();
    call(&mut world, "c1", json!({ "timeout_ms": 5000 })).unwrap();
    world.pass(4000);
    assert_eq!(world.events[&world.head()].event.kind(), "network.resource.invoke");
    world.pass(2000);
    assert_eq!(heard(&world), error("timeout", "c1"));
    assert_eq!(world.pending("agent:a").last(), Some(&world.head()), "an error of a committed call is tracked");
    call(&mut world, "c2", json!({})).unwrap();
    world.act("agent:owner", "network.agent.leave", json!({})).unwrap();
    assert_eq!(heard(&world), error("owner_unavailable", "c2"));
    assert_eq!(outcome(&call(&mut world, "c3", json!({}))), "owner_unavailable", "who left is not there");
    let mut world = fresh();
    world.pass(120_000);
    assert_eq!(outcome(&call(&mut world, "c4", json!({}))), "owner_unavailable", "offline");
    assert_eq!(
        outcome(&call(&mut world, "c5", json!({ "wait_for_owner": true, "timeout_ms": 600_000 }))),
        "ok",
        "but may be waited for"
    );
    world.act("agent:owner", "network.resource.unregister", json!({ "address": "resource/tool/t" })).unwrap();
    assert_eq!(heard(&world), error("resource_not_found", "c5"));
    let mut world = fresh();
    call(&mut world, "c6", json!({})).unwrap();
    world.admin(AdminOp::Remove("agent:owner".into())).unwrap();
    let ended = world.events.values().find(|r| r.event.kind() == "network.event.error").unwrap();
    assert!(ended.event.payload().contains("owner_unavailable"));
    assert!(world.state().resource_named("resource/tool/t").is_none(), "what it owned goes with it");
    for bad in [
        json!({ "timeout_ms": 0 }),
        json!({ "timeout_ms": 600_001 }),
        json!({ "timeout_ms": "1" }),
        json!({ "wait_for_owner": 1 }),
    ] {
        let mut world = fresh();
        assert_eq!(outcome(&call(&mut world, "c", bad.clone())), "invalid_event", "{bad}");
    }
}

#[test]
fn what_an_owner_keeps_is_asked_of_the_owner() {
    let mut world = world();
    register(
        &mut world,
        "agent:owner",
        json!({ "address": "resource/file/live", "permissions": { "write": "network" } }),
    )
    .unwrap();
    let mut asked = event("read", "resource/file/live", json!({}));
    asked["id"] = "q1".into();
    let accepted = world.emit("agent:a", asked).unwrap();
    assert!(accepted.response.is_none() && accepted.result.unwrap()["work"]["id"].is_string());
    let answer = json!({ "type": "network.resource.read.response", "target": "agent:a", "payload": { "content": "x" }, "metadata": { "in_reply_to": "q1" } });
    assert_eq!(outcome(&world.emit("agent:owner", answer.clone())), "ok");
    assert_eq!(outcome(&world.emit("agent:owner", answer)), "no_pending_request");
    let mut change = event("update", "resource/file/live", json!({ "content": "new" }));
    change["id"] = "u1".into();
    world.emit("agent:a", change).unwrap();
    let (owner, now) = (world.id("agent:owner"), world.now);
    let mut fx = rialto_engine::Effects::default();
    assert!(!world.engine.answered_by_ack(world.id("agent:b"), "u1", "{}", now, &mut fx));
    assert!(world.engine.answered_by_ack(owner, "u1", r#"{"version":2}"#, now, &mut fx));
    fx.take_records().into_iter().for_each(|record| world.commit(record));
    assert_eq!(world.state().book.units.values().last().unwrap().state, WorkState::Completed);
    assert!(!world.engine.answered_by_ack(owner, "u1", "{}", now, &mut fx), "once");
}

#[test]
fn other_events_to_a_resource_reach_its_owner() {
    let mut world = world();
    register(
        &mut world,
        "agent:owner",
        json!({ "address": "resource/tool/t", "permissions": { "read": "agents:[agent:b]" } }),
    )
    .unwrap();
    assert_eq!(world.try_say("agent:b", "resource/tool/t"), "ok");
    assert_eq!(world.pending("agent:owner").last(), Some(&world.head()));
    let hidden = world
        .emit("agent:a", json!({ "type": "x.y", "target": "resource/tool/t", "visibility": "public" }))
        .unwrap_err();
    let nothing = world
        .emit("agent:a", json!({ "type": "x.y", "target": "resource/tool/u", "visibility": "public" }))
        .unwrap_err();
    assert_eq!(hidden.to_string().replace("tool/t", "tool/u"), nothing.to_string(), "whatever else is wrong with it");
}

#[test]
fn registrations_that_make_no_sense_are_refused_by_name() {
    let mut world = world();
    for (payload, code, field) in [
        (json!({}), "invalid_argument", "payload.address"),
        (json!({ "address": "channel/x" }), "invalid_argument", "payload.address"),
        (json!({ "address": "resource/file/../x" }), "invalid_address", "payload.address"),
        (json!({ "address": "resource/file/a", "type": "tool" }), "invalid_argument", "payload.type"),
        (json!({ "address": "resource/tool/t", "content": "x" }), "invalid_argument", "payload.content"),
        (json!({ "address": "resource/file/a", "schema": {} }), "invalid_argument", "payload.schema"),
        (json!({ "address": "resource/tool/t", "schema": { "in": {} } }), "invalid_argument", "payload.schema"),
        (json!({ "address": "resource/file/a", "content": 5 }), "invalid_argument", "payload.content"),
        (
            json!({ "address": "resource/file/a", "content": "%", "encoding": "base64" }),
            "invalid_argument",
            "payload.content",
        ),
        (
            json!({ "address": "resource/file/a", "content": "x", "encoding": "rot13" }),
            "invalid_argument",
            "payload.encoding",
        ),
        (json!({ "address": "resource/file/a", "blob": {} }), "invalid_argument", "payload.blob.sha256"),
        (json!({ "address": "resource/file/a", "description": 5 }), "invalid_argument", "payload.description"),
        (
            json!({ "address": "resource/file/a", "description": "é".repeat(limits::RESOURCE_DESCRIPTION_CHARS_MAX + 1) }),
            "invalid_argument",
            "payload.description",
        ),
        (
            json!({ "address": "resource/file/a", "content_type": "é".repeat(limits::CONTENT_TYPE_CHARS_MAX + 1) }),
            "invalid_argument",
            "payload.content_type",
        ),
        (
            json!({ "address": "resource/tool/t", "schema": { "input": "x".repeat(limits::SCHEMA_BYTES_MAX) } }),
            "invalid_argument",
            "payload.schema",
        ),
    ] {
        let refused = register(&mut world, "agent:a", payload.clone()).unwrap_err();
        assert_eq!(
            (refused.wire_code(), &refused.details.as_ref().unwrap()["field"]),
            (code, &json!(field)),
            "{payload}"
        );
    }
    let unknown = json!({ "address": "resource/file/a", "blob": { "sha256": "00".repeat(32) } });
    assert_eq!(outcome(&register(&mut world, "agent:a", unknown)), "unknown_target");
}

#[test]
fn lists_are_paged_and_filtered() {
    let mut world = world();
    for n in 0..7 {
        register(&mut world, "agent:a", json!({ "address": format!("resource/file/docs/{n}"), "content": "", "description": if n == 3 { "the third" } else { "" } })).unwrap();
    }
    register(&mut world, "agent:b", json!({ "address": "resource/tool/t" })).unwrap();
    let names = |found: Vec<Value>| found.iter().map(|r| r["address"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(discover(&mut world, "agent:m", json!({ "owner": "agent:b" }))), ["resource/tool/t"]);
    assert_eq!(names(discover(&mut world, "agent:m", json!({ "query": "third" }))), ["resource/file/docs/3"]);
    assert_eq!(discover(&mut world, "agent:m", json!({ "prefix": "file/docs/" })).len(), 7);
    let five = ResourceFilter { limit: Some(5), ..ResourceFilter::default() };
    let page = world.state().resources(&world.engine.live, Some(world.id("agent:m")), &five, world.now).unwrap();
    assert_eq!(page.next.as_deref(), Some("resource/file/docs/4"));
    let rest = discover(&mut world, "agent:m", json!({ "after": "resource/file/docs/4" }));
    assert_eq!(names(rest), ["resource/file/docs/5", "resource/file/docs/6", "resource/tool/t"]);
    assert_eq!(outcome(&world.emit("agent:m", event("discover", "core", json!({ "limit": 501 })))), "invalid_argument");
    let wish = RosterFilter { include: Some(vec!["resources".into()]), ..RosterFilter::default() };
    let member = Viewer::Member(world.id("agent:m"));
    let roster = world.state().discovered(&world.engine.live, member, &wish, world.now).unwrap();
    assert_eq!(roster.resources.unwrap().len(), 8);
}

#[test]
fn a_flood_of_calls_is_bounded() {
    let mut world = world().joined(&["agent:x", "agent:y", "agent:z", "agent:w"]);
    world.careful = false;
    register(&mut world, "agent:owner", json!({ "address": "resource/tool/t" })).unwrap();
    let call = |world: &mut World, who: &str| outcome(&world.emit(who, event("invoke", "resource/tool/t", json!({}))));
    for _ in 0..limits::CALLS_PER_CALLER_MAX {
        assert_eq!(call(&mut world, "agent:a"), "ok");
    }
    assert_eq!(call(&mut world, "agent:a"), "rate_limited");
    for who in ["agent:b", "agent:x", "agent:y"] {
        (0..limits::CALLS_PER_CALLER_MAX).for_each(|_| assert_eq!(call(&mut world, who), "ok"));
    }
    assert_eq!(4 * limits::CALLS_PER_CALLER_MAX, limits::CALLS_PER_OWNER_MAX);
    assert_eq!(call(&mut world, "agent:z"), "recipient_queue_full");
    assert_eq!(world.try_say("agent:w", "agent:z"), "ok", "others go on");
    world.records.clear();
    world.engine = rialto_engine::Engine::new(rialto_engine::State::created(&world.created, 1).unwrap());
}

#[test]
fn resources_max_is_the_limit() {
    let mut world = world();
    world.careful = false;
    world.set(json!({ "member_share_percent": 100 }));
    for n in 0..limits::RESOURCES_MAX * (100 - limits::OPERATOR_PERCENT) / 100 {
        register(&mut world, "agent:a", json!({ "address": format!("resource/tool/t{n}") })).unwrap();
    }
    assert_eq!(outcome(&register(&mut world, "agent:b", json!({ "address": "resource/tool/more" }))), "network_full");
    assert_eq!(
        outcome(&register(&mut world, "agent:a", json!({ "address": "resource/tool/t0" }))),
        "ok",
        "replacing needs no room"
    );
    world.act("agent:a", "network.resource.unregister", json!({ "address": "resource/tool/t1" })).unwrap();
    assert_eq!(outcome(&register(&mut world, "agent:b", json!({ "address": "resource/tool/more" }))), "ok");
    world.records.clear();
    world.engine = rialto_engine::Engine::new(rialto_engine::State::created(&world.created, 1).unwrap());
}
