//! Why an event is where it is (design section 8, sheet section 18).

use crate::world::World;
use rialto_engine::{AdminOp, Viewer};
use serde_json::{Value, json};

fn rungs(value: &Value) -> Vec<String> {
    let list = value["recipients"].as_array().unwrap();
    list.iter()
        .map(|r| {
            let reason = r.get("reason").and_then(Value::as_str).map(|t| format!(" ({t})")).unwrap_or_default();
            format!("{} {}{reason}", r["recipient"].as_str().unwrap(), r["rung"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn the_ladder_of_each_recipient() {
    let mut world = World::plain().joined(&["agent:a", "agent:b", "agent:c", "agent:d", "agent:e"]);
    let seq = world.say("agent:a", "agent:broadcast");
    world.ack("agent:b", &[seq]);
    world.give_up("agent:c", &[seq], "max_attempts");
    world.admin(AdminOp::Remove("agent:d".into())).unwrap();
    world.join("agent:d");
    let record = world.events[&seq].clone();
    let ask = |world: &World, viewer| world.state().explain(viewer, &record);
    let full = ["agent:b acked", "agent:c dead (max_attempts)", "agent:e stored", "agent:d dead (recipient_left)"];
    for viewer in [Viewer::Operator, Viewer::Member(0)] {
        let explained = ask(&world, viewer).unwrap();
        assert_eq!(rungs(&json!(explained.stored)), full);
        assert_eq!(explained.pending.iter().map(|(_, member)| *member).collect::<Vec<_>>(), [4]);
        assert!(explained.stored.kept);
    }
    assert_eq!(rungs(&json!(ask(&world, Viewer::Member(1)).unwrap().stored)), ["agent:b acked"], "one's own rung only");
    assert_eq!(ask(&world, Viewer::Member(5)), None, "to others the event is unknown");
    assert_eq!(ask(&world, Viewer::Reader { manages: false }), None);
    world.admin(AdminOp::Redact(seq, None)).unwrap();
    world.admin(AdminOp::Redact(seq, None)).unwrap();
    assert!(ask(&world, Viewer::Operator).unwrap().stored.redacted);
}

#[test]
fn at_most_once_is_stored_not_acked() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let tracked = world.say("agent:a", "agent:b");
    world.ack("agent:b", &[tracked]);
    world.set(json!({ "delivery": "at-most-once" }));
    let seq = world.say("agent:a", "agent:b");
    let rung = |world: &World, seq| {
        rungs(&json!(world.state().explain(Viewer::Operator, &world.events[&seq]).unwrap().stored))
    };
    assert_eq!(rung(&world, seq), ["agent:b stored"]);
    assert_eq!(rung(&world, tracked), ["agent:b acked"]);
}

#[test]
fn refusals_are_explained_to_their_sender() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    world.emit("agent:a", json!({ "id": "r1", "type": "x.y", "target": "agent:nobody" })).unwrap_err();
    let ask = |world: &World, viewer, id| world.state().explain_refusal(&world.engine.live, viewer, id);
    for viewer in [Viewer::Operator, Viewer::Member(0)] {
        let refused = ask(&world, viewer, "r1").unwrap();
        assert_eq!((refused.error.code.as_str(), refused.source.as_deref()), ("unknown_target", Some("agent:a")));
    }
    assert_eq!(ask(&world, Viewer::Member(1), "r1"), None);
    assert_eq!(ask(&world, Viewer::Reader { manages: false }, "r1"), None);
    assert_eq!(ask(&world, Viewer::Operator, "r2"), None);
    // Whoever only pretended to be agent:a is told to nobody but the operator.
    let fake = rialto_engine::Caller { bearer: Some([9; 32]), ..Default::default() };
    world.emit_as(&fake, json!({ "id": "r3", "type": "x.y", "target": "core", "source": "agent:a" })).unwrap_err();
    assert_eq!(ask(&world, Viewer::Member(0), "r3"), None);
    assert!(ask(&world, Viewer::Operator, "r3").is_some());
}
