//! Artifacts that are content of their own: who may name it, what holds it, when it is let go.

use crate::world::{World, outcome};
use rialto_engine::AdminOp;
use rialto_engine::work::Unit;
use rialto_model::limits;
use serde_json::{Value, json};
use sha2::Digest;

const DAY: u64 = 24 * 3_600_000;

fn three() -> World {
    World::plain().joined(&["agent:a", "agent:b", "agent:c"])
}

/// A unit of a's that b does.
fn open(world: &mut World) -> String {
    let event = json!({ "type": "test.ask", "target": "agent:b", "payload": {}, "metadata": { "work": {} } });
    let result = world.emit("agent:a", event).unwrap().result.unwrap();
    result["work"]["id"].as_str().unwrap().to_owned()
}

fn unit<'w>(world: &'w World, id: &str) -> &'w Unit {
    world.state().unit_named(id, None).unwrap_or_else(|| panic!("no unit {id}")).1
}

/// Puts content where the node would keep it; gives what an event names it by.
fn stage(world: &mut World, text: &str) -> Value {
    let hash: [u8; 32] = sha2::Sha256::digest(text.as_bytes()).into();
    world.blobs.insert(hash, text.as_bytes().to_vec());
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "sha256": hex, "size": text.len() })
}

fn made(id: &str, artifact: &str, blob: &Value, more: Value) -> Value {
    let mut payload = json!({ "work": id, "artifact": { "id": artifact, "blob": blob } });
    payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "type": "work.artifact", "target": "core", "payload": payload })
}

/// Sizes of all content the state names, in order.
fn held(world: &World) -> Vec<u64> {
    let mut sizes: Vec<u64> = world.state().blobs().map(|(_, size)| size).collect();
    sizes.sort_unstable();
    sizes
}

#[test]
fn content_is_held_by_its_unit_until_that_is_forgotten() {
    let mut world = three();
    let id = open(&mut world);
    let (one, two, three) = (stage(&mut world, "1"), stage(&mut world, "22"), stage(&mut world, "333"));
    let more = json!({ "last": false });
    world.emit("agent:b", made(&id, "x", &one, more.clone())).unwrap();
    world.emit("agent:b", made(&id, "x", &two, json!({ "append": true, "last": true }))).unwrap();
    let x = &unit(&world, &id).artifacts[0];
    assert_eq!((x.chunks, x.bytes, x.last, x.is_content()), (2, 3, true, true));
    assert_eq!(x.blobs.iter().map(|chunk| chunk.content.size).collect::<Vec<_>>(), [1, 2]);
    assert!(x.blobs[0].seq < x.blobs[1].seq && x.blobs[1].seq == world.head());
    // The same content named twice is held twice; an artifact of the same id goes with what it had.
    world.emit("agent:b", made(&id, "y", &two, json!({}))).unwrap();
    assert_eq!(held(&world), [1, 2, 2]);
    world.emit("agent:b", made(&id, "x", &three, more)).unwrap();
    assert_eq!(held(&world), [2, 3]);
    // Parts among the chunks: there is content, but not all of it is.
    let parts =
        json!({ "work": id, "artifact": { "id": "x", "parts": [{ "text": "4" }] }, "append": true, "last": true });
    world.emit("agent:b", json!({ "type": "work.artifact", "target": "core", "payload": parts })).unwrap();
    let x = &unit(&world, &id).artifacts[0];
    assert!(!x.is_content() && x.chunks == 2 && x.blobs.len() == 1);
    // Shown without where it is kept.
    let entry = json!(world.state().unit_view(&world.engine.live, unit(&world, &id), world.now));
    assert_eq!(
        entry["artifacts"],
        json!([
            { "id": "x", "chunks": 2, "bytes": x.bytes, "last": true },
            { "id": "y", "chunks": 1, "bytes": 2, "last": true, "content": true },
        ])
    );
    assert_eq!(world.state().blobs().count(), 2);
    let done = json!({ "type": "work.update", "target": "core", "payload": { "work": id, "state": "completed" } });
    world.emit("agent:b", done).unwrap();
    world.pass(6 * DAY);
    assert_eq!(held(&world), [2, 3]);
    world.pass(2 * DAY);
    assert!(world.state().unit_named(&id, None).is_none());
    assert!(held(&world).is_empty());
}

#[test]
fn only_who_uploaded_it_names_it_and_says_its_size() {
    let mut world = three();
    let id = open(&mut world);
    let blob = stage(&mut world, "hello");
    let unknown = json!({ "sha256": "0".repeat(64), "size": 5 });
    assert_eq!(outcome(&world.emit("agent:b", made(&id, "x", &unknown, json!({})))), "unknown_target");
    let mut wrong = blob.clone();
    wrong["size"] = json!(6);
    assert_eq!(outcome(&world.emit("agent:b", made(&id, "x", &wrong, json!({})))), "invalid_argument");
    for bad in [
        json!({}),
        json!({ "sha256": "abc" }),
        json!({ "sha256": 5 }),
        json!("x"),
        json!({ "sha256": blob["sha256"], "size": -1 }),
    ] {
        assert_eq!(outcome(&world.emit("agent:b", made(&id, "x", &bad, json!({})))), "invalid_event", "{bad}");
    }
    let both = json!({ "work": id, "artifact": { "id": "x", "blob": blob, "parts": [] } });
    let both = json!({ "type": "work.artifact", "target": "core", "payload": both });
    assert_eq!(outcome(&world.emit("agent:b", both)), "invalid_event");
    // Who takes no part is told of no unit, and who asked makes nothing.
    assert_eq!(outcome(&world.emit("agent:c", made(&id, "x", &blob, json!({})))), "unknown_target");
    assert_eq!(outcome(&world.emit("agent:a", made(&id, "x", &blob, json!({})))), "forbidden");
    assert!(held(&world).is_empty());
    let mut sized = blob.clone();
    sized.as_object_mut().unwrap().remove("size");
    sized["content_type"] = json!("text/plain");
    assert_eq!(outcome(&world.emit("agent:b", made(&id, "x", &sized, json!({})))), "ok");
    let x = &unit(&world, &id).artifacts[0];
    assert_eq!((x.content_type.as_deref(), x.bytes), (Some("text/plain"), 5));
    let again = made(&id, "x", &blob, json!({ "append": true }));
    assert_eq!(outcome(&world.emit("agent:b", again)), "invalid_argument", "it was finished");
}

#[test]
fn a_redacted_event_lets_its_content_go() {
    let mut world = three();
    let id = open(&mut world);
    let (one, two) = (stage(&mut world, "1"), stage(&mut world, "22"));
    world.emit("agent:b", made(&id, "x", &one, json!({ "last": false }))).unwrap();
    let first = world.head();
    world.emit("agent:b", made(&id, "x", &two, json!({ "append": true }))).unwrap();
    world.admin(AdminOp::Redact(first, None)).unwrap();
    assert_eq!(held(&world), [2]);
    assert!(!unit(&world, &id).artifacts[0].is_content());
    // It counts as gone: as many more may come.
    world.emit("agent:b", made(&id, "x", &one, json!({ "append": true }))).unwrap();
    assert_eq!(held(&world), [1, 2]);
}

#[test]
fn work_blobs_per_unit_max_is_the_limit() {
    let mut world = three();
    world.careful = false;
    let id = open(&mut world);
    let blob = stage(&mut world, "x");
    world.emit("agent:b", made(&id, "x", &blob, json!({ "last": false }))).unwrap();
    for _ in 1..limits::WORK_BLOBS_PER_UNIT_MAX {
        world.emit("agent:b", made(&id, "x", &blob, json!({ "append": true, "last": false }))).unwrap();
    }
    assert_eq!(held(&world).len(), limits::WORK_BLOBS_PER_UNIT_MAX);
    assert_eq!(outcome(&world.emit("agent:b", made(&id, "x", &blob, json!({ "append": true })))), "too_large");
    assert_eq!(outcome(&world.emit("agent:b", made(&id, "y", &blob, json!({})))), "too_large");
    // In its place there is room.
    assert_eq!(outcome(&world.emit("agent:b", made(&id, "x", &blob, json!({})))), "ok");
    assert_eq!(held(&world), [1]);
}

#[test]
fn work_blobs_max_is_the_limit() {
    let mut world = three();
    world.careful = false;
    let blob = stage(&mut world, "x");
    let mut left = limits::WORK_BLOBS_MAX;
    let mut id = String::new();
    while left > 0 {
        id = open(&mut world);
        let here = left.min(limits::WORK_BLOBS_PER_UNIT_MAX - 1);
        world.emit("agent:b", made(&id, "x", &blob, json!({ "last": false }))).unwrap();
        for _ in 1..here {
            world.emit("agent:b", made(&id, "x", &blob, json!({ "append": true, "last": false }))).unwrap();
        }
        left -= here;
    }
    assert_eq!(world.state().blobs().count(), limits::WORK_BLOBS_MAX);
    assert_eq!(outcome(&world.emit("agent:b", made(&id, "x", &blob, json!({ "append": true })))), "network_full");
    assert_eq!(outcome(&world.emit("agent:b", made(&id, "x", &blob, json!({})))), "ok", "one for many");
    let other = open(&mut world);
    assert_eq!(outcome(&world.emit("agent:b", made(&other, "x", &blob, json!({})))), "ok");
}
