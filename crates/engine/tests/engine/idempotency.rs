//! Ids as idempotency keys (sheet section 4.2).

use crate::world::{World, outcome};
use serde_json::json;

fn world() -> World {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "general", "participants": ["b"] })).unwrap();
    world
}

const FIRST: &str = r#"{"id":"e1","type":"x.y","target":"agent:b","payload":{"n":1,"t":"a"},"metadata":{"k":[1]}}"#;

#[test]
fn the_same_event_again() {
    let mut world = world();
    let caller = world.caller("agent:a");
    let first = world.emit_text(&caller, FIRST).unwrap();
    let head = world.head();
    for again in [
        FIRST,
        r#"{ "type":"x.y", "id":"e1", "payload":{"t":"\u0061","n":1}, "target":"agent:b", "metadata":{"k":[ 1 ]} }"#,
        r#"{"id":"e1","type":"x.y","target":"local::b","source":"a","payload":{"n":1,"t":"a"},"metadata":{"k":[1]},"visibility":"direct"}"#,
        r#"{"id":"e1","type":"x.y","target":"agent:b","payload":{"n":1,"t":"a"},"metadata":{"k":[1]},"visibility":"channel","extra":1}"#,
        r#"{"id":"e1","type":"x.y","target":"agent:b","payload":{"n":1,"t":"a"},"metadata":{"k":[1],"tracestate":"x=1","seq":5},"timestamp":7}"#,
    ] {
        let accepted = world.emit_text(&caller, again).unwrap();
        assert!(accepted.duplicate, "{again}");
        assert_eq!((accepted.seq, accepted.event_id()), (first.seq, first.event_id()));
    }
    assert_eq!(world.head(), head);
    assert_eq!(world.pending("agent:b").last(), Some(&head));
}

#[test]
fn other_content_or_another_source_conflicts() {
    let mut world = world();
    let caller = world.caller("agent:a");
    world.emit_text(&caller, FIRST).unwrap();
    for other in [
        r#"{"id":"e1","type":"x.z","target":"agent:b","payload":{"n":1,"t":"a"},"metadata":{"k":[1]}}"#,
        r#"{"id":"e1","type":"x.y","target":"core","payload":{"n":1,"t":"a"},"metadata":{"k":[1]}}"#,
        r#"{"id":"e1","type":"x.y","target":"agent:b","payload":{"n":1.0,"t":"a"},"metadata":{"k":[1]}}"#,
        r#"{"id":"e1","type":"x.y","target":"agent:b","payload":{"n":1,"t":"a"},"metadata":{"k":[1,2]}}"#,
        r#"{"id":"e1","type":"x.y","target":"agent:b","payload":{"n":1,"t":"a"},"metadata":{"k":[1]},"visibility":"public"}"#,
    ] {
        assert_eq!(outcome(&world.emit_text(&caller, other)), "id_conflict", "{other}");
    }
    let b = world.caller("agent:b");
    assert_eq!(outcome(&world.emit_text(&b, &FIRST.replace("agent:b", "agent:a"))), "id_conflict");
    assert_eq!(outcome(&world.emit_text(&b, FIRST)), "id_conflict");
}

#[test]
fn refused_events_are_not_remembered() {
    let mut world = world();
    let event = json!({ "id": "e2", "type": "x.y", "target": "agent:late" });
    assert_eq!(outcome(&world.emit("agent:a", event.clone())), "unknown_target");
    world.join("agent:late");
    assert!(!world.emit("agent:a", event.clone()).unwrap().duplicate);
    assert!(world.emit("agent:a", event).unwrap().duplicate);
}

#[test]
fn channel_acts_give_their_result_again() {
    let mut world = world();
    let act = |id: &str, kind: &str, more: &str| {
        format!(r#"{{"id":"{id}","type":"network.channel.{kind}","target":"core","payload":{{{more}}}}}"#)
    };
    let (a, b) = (world.caller("agent:a"), world.caller("agent:b"));
    for (caller, text) in [
        (&a, act("c1", "create", r#""name":"dev""#)),
        (&b, act("c2", "join", r#""channel":"dev""#)),
        (&b, act("c3", "leave", r#""channel":"dev""#)),
        (&a, act("c4", "delete", r#""channel":"dev""#)),
    ] {
        let first = world.emit_text(caller, &text).unwrap();
        let again = world.emit_text(caller, &text.replace(':', ": ")).unwrap();
        assert!(again.duplicate);
        assert_eq!((again.seq, again.result), (first.seq, first.result), "{text}");
    }
}

#[test]
fn enrichment_does_not_make_a_repeated_event_another_one() {
    let mut world = world();
    world.load("enrichment", json!({ "static": { "team": "red" } }));
    let caller = world.caller("agent:a");
    let stored = world.emit_text(&caller, FIRST).unwrap().event.unwrap();
    assert!(stored.event.metadata().contains("source_info"));
    assert!(world.emit_text(&caller, &FIRST.replace("\"n\":1", "\"n\": 1")).unwrap().duplicate);
    let own = FIRST.replace("\"k\":[1]", "\"k\":[1],\"team\":\"blue\"");
    assert_eq!(outcome(&world.emit_text(&caller, &own)), "id_conflict");
}

#[test]
fn ids_of_the_servers_own_form_cannot_be_burnt() {
    let mut world = world();
    let next = rialto_model::EventId { at: 1, seq: world.head() + 5, salt: 7 }.to_text();
    assert_eq!(
        outcome(&world.emit("agent:a", json!({ "id": next, "type": "x.y", "target": "core" }))),
        "invalid_event"
    );
    let foreign = rialto_model::EventId { at: 1, seq: world.head() + 5, salt: 8 }.to_text();
    assert_eq!(outcome(&world.emit("agent:a", json!({ "id": foreign, "type": "x.y", "target": "core" }))), "ok");
}

#[test]
fn the_same_inputs_give_the_same_records() {
    let run = || {
        let mut world = World::workspace().joined(&["agent:a", "agent:b", "human:ana"]);
        world.load("enrichment", json!({}));
        world.act("agent:a", "network.channel.create", json!({})).unwrap();
        for i in 0..20 {
            world
                .emit("agent:a", json!({ "type": "x.y", "target": if i % 3 == 0 { "agent:b" } else { "broadcast" } }))
                .unwrap();
            world.pass(700);
        }
        world.ack_up_to("agent:b", 9);
        world.act("agent:b", "network.agent.leave", json!({ "forget": true })).unwrap();
        world.bytes()
    };
    assert_eq!(run(), run());
}
