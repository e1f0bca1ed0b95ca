//! Visibility: defaults, allowed pairs, and who sees what (sheet section 4.3).

use crate::world::{World, outcome};
use expect_test::expect;
use rialto_engine::{AdminOp, Viewer};
use serde_json::json;

fn world() -> World {
    let mut world = World::plain().joined(&["agent:a", "agent:b", "agent:c", "human:ana"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "dev", "participants": ["b"] })).unwrap();
    world
        .act("agent:a", "network.channel.create", json!({ "name": "secret", "private": true, "participants": ["b"] }))
        .unwrap();
    world.admin(AdminOp::SetGroup("team".into(), vec!["a".into(), "b".into()])).unwrap();
    world
}

#[test]
fn defaults_and_allowed_pairs() {
    let mut world = world();
    let mut out = String::new();
    for target in ["agent:b", "human:ana", "agent:broadcast", "channel/dev", "group/team", "core", "mod/persistence"] {
        let said = |world: &mut World, visibility: serde_json::Value| {
            let event = json!({ "type": "x.y", "target": target, "visibility": visibility });
            match world.emit("agent:a", event) {
                Ok(accepted) => accepted.event.unwrap().event.visibility.as_str().to_owned(),
                Err(fault) => fault.wire_code().replace("invalid_visibility", "-"),
            }
        };
        let row: Vec<String> = [json!(null), json!("public"), json!("channel"), json!("direct"), json!("mod_only")]
            .into_iter()
            .map(|v| format!("{:8}", said(&mut world, v)))
            .collect();
        out += &format!("{target:16} {}\n", row.join(" ").trim_end());
    }
    expect![[r#"
        agent:b          direct   public   direct   direct   -
        human:ana        direct   public   direct   direct   -
        agent:broadcast  public   public   -        -        -
        channel/dev      channel  public   channel  -        -
        group/team       channel  public   channel  -        -
        core             direct   -        -        direct   mod_only
        mod/persistence  mod_only -        -        -        mod_only
    "#]]
    .assert_eq(&out);
}

#[test]
fn control_events_are_public_by_default() {
    let mut world = world();
    for (target, visibility) in [("agent:b", "public"), ("channel/dev", "public"), ("mod/persistence", "mod_only")] {
        let sent = world.emit("agent:a", json!({ "type": "workspace.agent.control", "target": target })).unwrap();
        assert_eq!(sent.event.unwrap().event.visibility.as_str(), visibility, "{target}");
    }
    let direct = json!({ "type": "workspace.agent.control", "target": "agent:b", "visibility": "direct" });
    assert_eq!(world.emit("agent:a", direct).unwrap().event.unwrap().event.visibility.as_str(), "direct");
}

#[test]
fn who_sees_what() {
    let mut world = world();
    let viewers = [
        ("source", Viewer::Member(world.id("agent:a"))),
        ("b", Viewer::Member(world.id("agent:b"))),
        ("c", Viewer::Member(world.id("agent:c"))),
        ("reader", Viewer::Reader { manages: false }),
        ("operator", Viewer::Operator),
    ];
    let mut out = String::new();
    for (target, visibility) in [
        ("agent:b", "direct"),
        ("agent:b", "public"),
        ("agent:a", "direct"),
        ("agent:broadcast", "public"),
        ("channel/dev", "channel"),
        ("channel/dev", "public"),
        ("channel/secret", "channel"),
        ("group/team", "channel"),
        ("core", "direct"),
        ("core", "mod_only"),
        ("mod/persistence", "mod_only"),
    ] {
        let sent = world.emit("agent:a", json!({ "type": "x.y", "target": target, "visibility": visibility })).unwrap();
        let record = sent.event.unwrap();
        let sees: Vec<&str> =
            viewers.iter().filter(|(_, v)| world.state().lens(*v).shows(&record)).map(|(n, _)| *n).collect();
        let got = world.state().is_pending(world.id("agent:b"), sent.seq.unwrap());
        out +=
            &format!("{target:16} {visibility:9} {} {}\n", if got { "b gets it" } else { "         " }, sees.join(" "));
    }
    expect![[r#"
        agent:b          direct    b gets it source b operator
        agent:b          public    b gets it source b c reader operator
        agent:a          direct              source operator
        agent:broadcast  public    b gets it source b c reader operator
        channel/dev      channel   b gets it source b reader operator
        channel/dev      public    b gets it source b c reader operator
        channel/secret   channel   b gets it source b operator
        group/team       channel   b gets it source b operator
        core             direct              source operator
        core             mod_only            source operator
        mod/persistence  mod_only            source operator
    "#]]
    .assert_eq(&out);
    world.set(json!({ "bare_reads": false }));
    let lens = world.state().lens(Viewer::Reader { manages: false });
    assert!(!world.events.values().any(|record| lens.shows(record)));
    // Who leaves the channel loses sight of it; a removed member sees nothing.
    let b = world.id("agent:b");
    world.act("agent:b", "network.channel.leave", json!({ "channel": "dev" })).unwrap();
    let of_dev = |w: &World, seq: u64| w.state().lens(Viewer::Member(b)).shows(&w.events[&seq]);
    let dev =
        *world.events.iter().find(|(_, r)| r.event.target() == "channel/dev" && r.event.kind() == "x.y").unwrap().0;
    assert!(!of_dev(&world, dev));
    world.admin(AdminOp::Remove("agent:b".into())).unwrap();
    assert!(!world.events.keys().any(|seq| of_dev(&world, *seq)));
}

#[test]
fn server_only_metadata_is_stripped_and_client_time_is_kept() {
    let mut world = world();
    let metadata = json!({ "seq": 9, "attempt": 2, "source_info": {}, "received_at": 1, "delegated_by": "x", "rialto.x": 1,
        "client_timestamp": 1, "traceparent": "junk", "mine": true });
    let event = json!({ "type": "x.y", "target": "core", "timestamp": 123, "metadata": metadata });
    let sent = world.emit("agent:a", event).unwrap().event.unwrap();
    assert_eq!(sent.event.metadata(), r#"{"mine":true,"client_timestamp":123}"#);
    assert_eq!(sent.event.timestamp, crate::world::START);
}

#[test]
fn ephemeral_events_are_signals_only() {
    let mut world = world();
    let (head, records) = (world.head(), world.records.len());
    let event = json!({ "type": "x.typing", "target": "agent:b", "metadata": { "ephemeral": true } });
    let sent = world.emit("agent:a", event).unwrap();
    assert_eq!((sent.seq, world.head(), world.records.len()), (None, head, records));
    assert_eq!(crate::world::signals(&world, "x.typing").len(), 1);
    let announce =
        json!({ "type": "network.agent.announce", "target": "agent:broadcast", "metadata": { "ephemeral": true } });
    assert!(world.emit("agent:a", announce).unwrap().seq.is_some(), "extension types only");
    assert_eq!(
        outcome(
            &world
                .emit("agent:a", json!({ "type": "x.typing", "target": "agent:z", "metadata": { "ephemeral": true } }))
        ),
        "unknown_target"
    );
}
