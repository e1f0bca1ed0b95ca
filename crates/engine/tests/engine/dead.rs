//! Dead letters that the operator sends again or puts away (sheet sections 8 and 14).

use crate::world::{World, outcome};
use rialto_engine::{AdminOp, Viewer};
use rialto_model::{ErrorCode, Fault, Seq};
use serde_json::{Value, json};

const DAY: u64 = 24 * 3_600_000;

/// Two members, and a letter from the first to the second that died.
fn with_letter() -> (World, Seq) {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let event = json!({
        "type": "x.y", "target": "agent:b", "id": "m1", "payload": { "n": 1.50 }, "metadata": { "k": "v", "ttl_ms": 2000 },
    });
    let seq = world.emit("agent:a", event).unwrap().seq.unwrap();
    world.pass(3000);
    assert_eq!(world.state().open_dead_letters(None, None).count(), 1);
    (world, seq)
}

fn retry(world: &mut World, seq: Seq, to: &str) -> Result<Value, Fault> {
    let original = world.events.get(&seq).cloned();
    world.admin(AdminOp::RetryDead(seq, to.to_owned(), original))
}

fn put_away(world: &mut World, seq: Option<Seq>, to: Option<&str>, max: usize) -> Result<Value, Fault> {
    world.admin(AdminOp::DropDead(seq, to.map(str::to_owned), max))
}

#[test]
fn a_retry_is_new_mail_for_that_recipient_alone() {
    let (mut world, seq) = with_letter();
    let done = retry(&mut world, seq, "agent:b").unwrap();
    let copy = world.head();
    assert_eq!(world.pending("agent:b"), [copy]);
    let record = world.events[&copy].clone();
    let event = &record.event;
    assert_eq!(done, json!({ "event_id": "m1", "recipient": "agent:b", "retried_as": event.id(), "seq": copy }));
    assert_eq!((event.kind(), event.source(), event.target()), ("x.y", "agent:a", "agent:b"));
    assert_eq!(event.payload(), world.events[&seq].event.payload());
    assert_eq!(event.metadata_text("rialto.retry_of").as_deref(), Some("m1"));
    assert_eq!(event.metadata_text("k").as_deref(), Some("v"));
    assert_eq!(world.state().open_dead_letters(None, None).count(), 0, "it is dealt with");
    assert_eq!(outcome(&retry(&mut world, seq, "agent:b")), "unknown_target", "and is not sent twice");
    let explained = json!(world.state().explain(Viewer::Operator, &world.events[&seq]).unwrap().stored);
    assert_eq!(explained["recipients"][0]["rung"], "dead");
    assert_eq!(explained["recipients"][0]["retried_as"], json!(format!("seq:{copy}")));
    // It has the life of the first one, and is a letter of its own when that ends.
    world.pass(3000);
    assert_eq!(world.pending("agent:b"), [] as [Seq; 0]);
    retry(&mut world, copy, "agent:b").unwrap();
    let again = world.events[&world.head()].clone();
    assert_eq!(again.event.metadata_text("rialto.retry_of").as_deref(), Some("m1"), "the first one is named");
    assert_eq!(world.ack("agent:b", &[again.event.seq]), 1);
    world.check();
}

#[test]
fn a_retry_of_channel_mail_is_seen_by_source_and_recipient_only() {
    let mut world = World::plain().joined(&["agent:a", "agent:b", "agent:c"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "den", "participants": ["b", "c"] })).unwrap();
    world.ack_up_to("agent:b", Seq::MAX);
    let event = json!({ "type": "x.y", "target": "channel/den", "id": "m1", "metadata": { "ttl_ms": 2000 } });
    let seq = world.emit("agent:a", event).unwrap().seq.unwrap();
    world.ack("agent:c", &[seq]);
    world.pass(3000);
    let before = world.pending("agent:c");
    retry(&mut world, seq, "agent:b").unwrap();
    let copy = world.head();
    assert!(world.pending("agent:b").contains(&copy));
    assert_eq!(world.pending("agent:c"), before, "whoever had it does not get it again");
    let sees = |name: &str| world.state().lens(Viewer::Member(world.id(name))).shows(&world.events[&copy]);
    assert_eq!((sees("agent:a"), sees("agent:b"), sees("agent:c")), (true, true, false));
    assert_eq!(world.events[&copy].event.target(), "channel/den", "and says where it was said");
}

#[test]
fn what_cannot_be_sent_again_is_refused_by_name() {
    let (mut world, seq) = with_letter();
    assert_eq!(outcome(&retry(&mut world, seq, "agent:a")), "unknown_target");
    assert_eq!(outcome(&retry(&mut world, seq + 1, "agent:b")), "unknown_target");
    assert_eq!(outcome(&world.admin(AdminOp::RetryDead(seq, "agent:b".into(), None))), "cursor_unknown");
    world.set(json!({ "status": "paused" }));
    assert_eq!(outcome(&retry(&mut world, seq, "agent:b")), "network_paused");
    world.set(json!({ "status": "active" }));
    world.ack_up_to("agent:b", Seq::MAX);
    world.say("agent:a", "agent:b");
    world.set(json!({ "max_pending": 1 }));
    assert_eq!(outcome(&retry(&mut world, seq, "agent:b")), "recipient_queue_full");
    world.ack_up_to("agent:b", Seq::MAX);

    world.act("agent:b", "network.agent.leave", json!({})).unwrap();
    let left = retry(&mut world, seq, "agent:b").unwrap_err();
    assert_eq!(left.code, ErrorCode::UnknownTarget);
    assert!(left.message.contains("agent:b has left"), "{left:?}");
    // Whoever takes the name afterwards is not who the letter was for.
    world.admin(AdminOp::Remove("agent:b".into())).unwrap();
    world.advance(1);
    world.join("agent:b");
    assert_eq!(outcome(&retry(&mut world, seq, "agent:b")), "unknown_target");

    // What was sent again is redacted with what it was made from.
    let (mut world, seq) = with_letter();
    retry(&mut world, seq, "agent:b").unwrap();
    let copy = world.head();
    world.pass(3000);
    retry(&mut world, copy, "agent:b").unwrap();
    let second = world.head();
    let redacted = world.admin(AdminOp::Redact(seq, None)).unwrap();
    assert_eq!(redacted["copies"], json!([copy, second]));
    assert_eq!(world.state().book.redacted.iter().copied().collect::<Vec<_>>(), [seq, copy, second]);

    let (mut world, seq) = with_letter();
    world.admin(AdminOp::Redact(seq, None)).unwrap();
    assert_eq!(outcome(&retry(&mut world, seq, "agent:b")), "cursor_unknown", "what was redacted stays so");
    let (mut world, seq) = with_letter();
    world.load("persistence", json!({ "retention_days": 1, "purge_interval_s": 1 }));
    world.pass(2 * DAY);
    assert_eq!(outcome(&retry(&mut world, seq, "agent:b")), "cursor_unknown", "what was purged is gone");
}

#[test]
fn a_request_for_work_is_asked_again_by_its_requester() {
    let mut world = World::plain().joined(&["agent:a", "agent:b"]);
    let event = json!({ "type": "workspace.message.posted", "target": "agent:b", "payload": { "content": "do it" }, "metadata": { "work": {}, "ttl_ms": 2000 } });
    let seq = world.emit("agent:a", event).unwrap().seq.unwrap();
    world.pass(3000);
    assert_eq!(outcome(&retry(&mut world, seq, "agent:b")), "no_pending_request");
}

#[test]
fn letters_are_put_away_by_event_by_recipient_and_all_at_once() {
    let mut world = World::plain().joined(&["agent:a", "agent:b", "agent:c"]);
    let mut seqs = Vec::new();
    for target in ["agent:b", "agent:broadcast", "agent:c", "agent:c"] {
        let event = json!({ "type": "x.y", "target": target, "metadata": { "ttl_ms": 2000 } });
        seqs.push(world.emit("agent:a", event).unwrap().seq.unwrap());
    }
    world.pass(3000);
    let open = |world: &World| world.state().open_dead_letters(None, None).count();
    assert_eq!(open(&world), 5);
    assert_eq!(
        put_away(&mut world, Some(seqs[1]), Some("agent:b"), 9).unwrap(),
        json!({ "dropped": 1, "has_more": false })
    );
    assert_eq!(outcome(&put_away(&mut world, Some(seqs[1]), Some("agent:b"), 9)), "unknown_target");
    assert_eq!(put_away(&mut world, None, Some("agent:c"), 2).unwrap(), json!({ "dropped": 2, "has_more": true }));
    assert_eq!(open(&world), 2);
    assert_eq!(put_away(&mut world, None, None, 9).unwrap(), json!({ "dropped": 2, "has_more": false }));
    assert_eq!(put_away(&mut world, None, None, 9).unwrap(), json!({ "dropped": 0, "has_more": false }));
    assert_eq!(outcome(&retry(&mut world, seqs[0], "agent:b")), "unknown_target", "what was put away stays so");
    let explained = json!(world.state().explain(Viewer::Operator, &world.events[&seqs[0]]).unwrap().stored);
    assert_eq!(explained["recipients"][0]["rung"], "dead", "and is still explained");
    world.check();
}
