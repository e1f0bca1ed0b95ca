//! mod/workspace: who is meant by a message, kinds of messages (sheet section 6).

use crate::world::{World, outcome, signals};
use rialto_engine::{Filter, StreamKey, Viewer};
use rialto_model::limits;
use serde_json::{Value, json};

const HUMAN: &str = "human:ann@example.com";

/// A workspace network with the mod: `agent:m` is master of channel/work, where b and the human sit too; c does not.
fn world() -> World {
    let mut world = World::workspace();
    world.load("workspace", json!({}));
    let mut world = world.joined(&["agent:m", "agent:b", "agent:c", HUMAN]);
    world.act("agent:m", "network.channel.create", json!({ "name": "work", "participants": ["b", HUMAN] })).unwrap();
    world
}

fn post(world: &mut World, from: &str, payload: Value, metadata: Value) -> Value {
    let event = json!({ "type": "workspace.message.posted", "target": "channel/work", "payload": payload, "metadata": metadata });
    let accepted = world.emit(from, event).unwrap();
    let event = &accepted.event.unwrap().event;
    serde_json::from_str(event.metadata()).unwrap()
}

fn say(world: &mut World, from: &str, content: &str) -> Value {
    post(world, from, json!({ "content": content }), json!({}))
}

fn targets(metadata: &Value) -> String {
    let list = metadata["target_agents"].as_array();
    list.map_or("-".into(), |l| l.iter().map(|v| v.as_str().unwrap()).collect::<Vec<_>>().join(","))
}

/// Sender, what it says, whom it replies to, the channel's master; who is meant, and whether it is a delegation.
#[test]
fn who_is_meant() {
    let nobody = "__no_response__";
    let table: &[(&str, &str, &str, bool, &str, bool)] = &[
        // Mentions, in order, whatever the case; the sender and unknown names do not count.
        (HUMAN, "@b please", "", true, "b", false),
        (HUMAN, "@B and @m, @b", "", true, "b,m", false),
        (HUMAN, "@nobody, mail me at ann@b or `@b`", "", true, "m", false),
        (HUMAN, "@nobody", "", false, "b", false),
        ("agent:b", "@m look", "", true, "m", true),
        ("agent:b", "@b @m", "", true, "m", true),
        // An agent that mentions only itself mentions nobody.
        ("agent:b", "@b", "", true, "m", false),
        // Whoever does not sit here is seated by humans and the channel's master, and not by others.
        (HUMAN, "@c", "", true, "c", false),
        ("agent:m", "@c and @b", "", true, "c,b", true),
        ("agent:b", "@c", "", true, nobody, false),
        ("agent:b", "@c @m", "", true, "m", true),
        // A mention goes before a reply.
        (HUMAN, "@m", "agent:b", true, "m", false),
        // A reply goes to whose message it answers, if that is an agent and not oneself.
        (HUMAN, "yes", "agent:b", true, "b", false),
        ("agent:m", "yes", "agent:b", true, "b", false),
        ("agent:b", "and", "agent:b", true, "m", false),
        ("agent:b", "thanks", HUMAN, true, "m", false),
        (HUMAN, "again", "elsewhere", true, "m", false),
        (HUMAN, "again", "unknown", true, "m", false),
        // Humans are answered by the master, else by the first agent; agents by the master alone.
        (HUMAN, "hello", "", true, "m", false),
        (HUMAN, "hello", "", false, "b", false),
        ("agent:b", "done", "", true, "m", false),
        ("agent:m", "done", "", true, nobody, false),
        ("agent:b", "done", "", false, nobody, false),
    ];
    for (from, content, reply, master, want, delegated) in table {
        let mut world = world();
        let mut ids = std::collections::BTreeMap::from([("unknown".to_owned(), "e-none".to_owned())]);
        for who in ["agent:b", HUMAN] {
            let event =
                json!({ "type": "workspace.message.posted", "target": "channel/work", "payload": { "content": "x" } });
            ids.insert(who.into(), world.emit(who, event).unwrap().event_id().to_owned());
        }
        let event =
            json!({ "type": "workspace.message.posted", "target": "channel/general", "payload": { "content": "x" } });
        ids.insert("elsewhere".into(), world.emit("agent:b", event).unwrap().event_id().to_owned());
        if !master {
            world.act("agent:m", "network.channel.leave", json!({ "channel": "work" })).unwrap();
            let id = world.state().channel_id("work").unwrap();
            world.commit(rialto_engine::record::Change::ChannelMaster { channel: id, master: None }.into());
        }
        let metadata = ids.get(*reply).map_or(json!({}), |id| json!({ "in_reply_to": id }));
        let got = post(&mut world, from, json!({ "content": content }), metadata);
        assert_eq!(targets(&got), *want, "{from}: {content:?} to {reply:?}, master {master}");
        let by = got["delegated_by"].as_str();
        assert_eq!(by, delegated.then_some(*from), "{from}: {content:?}");
    }
}

#[test]
fn listed_mentions_count_and_a_clients_own_list_does_not() {
    let mut world = world();
    let said = json!({ "content": "@m", "mentions": ["agent:b", "nobody", 7, "@C"] });
    let got = post(&mut world, HUMAN, said, json!({ "target_agents": ["z"], "delegated_by": "agent:z" }));
    assert_eq!((targets(&got).as_str(), got.get("delegated_by")), ("b,c,m", None));
    let got = post(&mut world, "agent:b", json!({ "content": "", "mentions": [HUMAN] }), json!({}));
    assert_eq!((targets(&got).as_str(), got.get("delegated_by")), (HUMAN, None), "a human has a full address");
    world.load("workspace", json!({ "mention_routing": false }));
    let got = post(&mut world, HUMAN, json!({ "content": "@b" }), json!({ "target_agents": ["z"] }));
    assert_eq!(targets(&got), "z", "without routing the metadata passes");
    world.load("workspace", json!({ "agent_default": "none" }));
    assert_eq!(targets(&say(&mut world, "agent:b", "done")), "__no_response__");
    assert_eq!(targets(&say(&mut world, HUMAN, "hello")), "m");
    assert_eq!(targets(&say(&mut world, "agent:b", "@m")), "m");
}

#[test]
fn whoever_is_mentioned_is_seated_and_receives_it() {
    let mut world = world();
    let before = world.pending("agent:c").len();
    say(&mut world, "agent:b", "@c");
    assert_eq!(world.pending("agent:c").len(), before, "an agent seats nobody");
    say(&mut world, HUMAN, "@c");
    assert_eq!(world.pending("agent:c").len(), before + 1);
    let (channel, c) = (world.state().channel_id("work").unwrap(), world.id("agent:c"));
    assert!(world.state().channel(channel).unwrap().seated.contains(&c));
    let mentions = world.state().lists.stream(StreamKey::Mention(c)).unwrap();
    assert_eq!(mentions.iter().collect::<Vec<_>>(), [world.head()], "the list of mentions holds what c can see");
    let receives = |who: &&str| world.pending(who).contains(&world.head());
    assert_eq!(["agent:m", "agent:b", "agent:c"].iter().filter(|who| receives(who)).count(), 3, "and so do all others");
}

#[test]
fn agents_among_themselves_are_told_to_stop() {
    let mut world = world();
    world.load("workspace", json!({ "loop_limit": 3 }));
    for turn in 0..3 {
        assert_eq!(targets(&say(&mut world, "agent:b", "@m your turn")), "m", "{turn}");
    }
    let over = say(&mut world, "agent:b", "@m your turn");
    assert_eq!(targets(&over), "__no_response__");
    let kind = json!({ "content": "busy", "message_type": "status" });
    post(&mut world, HUMAN, kind, json!({}));
    assert_eq!(targets(&say(&mut world, "agent:m", "@b yours")), "__no_response__", "a status is no word");
    assert_eq!(targets(&say(&mut world, HUMAN, "go on")), "m");
    assert_eq!(targets(&say(&mut world, "agent:m", "@b yours")), "b");
}

#[test]
fn kinds_of_messages() {
    for (kind, want, dies) in [
        (Some("chat"), "m", false),
        (Some("error"), "m", false),
        (Some("x-custom"), "m", false),
        (None, "m", false),
        (Some("todos"), "-", false),
        (Some("status"), "-", true),
        (Some("thinking"), "-", true),
    ] {
        let mut world = world();
        let attachments = json!([{ "file_id": "f1", "filename": "a.txt", "content_type": "text/plain", "size": 3 }]);
        let payload =
            json!({ "content": "@m hi", "message_type": kind, "attachments": attachments, "mentions": ["b"] });
        let payload = if kind == Some("chat") || kind.is_none() {
            json!({ "content": "hi", "attachments": attachments, "message_type": kind })
        } else {
            payload
        };
        let got = post(&mut world, "agent:b", payload.clone(), json!({}));
        assert_eq!(targets(&got), want, "{kind:?}");
        let record = world.events[&world.head()].clone();
        assert_eq!(serde_json::from_str::<Value>(record.event.payload()).unwrap(), payload, "kept as sent");
        assert_eq!(record.dies_at.is_some(), dies, "{kind:?}");
        let all = Filter { kind: Some("workspace.message.posted".into()), ..Filter::default() };
        let m = Viewer::Member(world.id("agent:m"));
        assert_eq!(world.read(m, &all), [world.head()]);
        let letters = world.state().book.dead_letters.len();
        world.pass(86_400_000 + 1000);
        assert_eq!(world.read(m, &all).is_empty(), dies, "{kind:?}: a day later");
        let waits = |who: &str| world.pending(who).contains(&record.event.seq);
        assert_eq!((waits("agent:m"), waits(HUMAN)), (!dies, !dies), "{kind:?}");
        assert_eq!(world.state().book.dead_letters.len(), letters, "nobody is told of an old status");
        assert!(world.notices().is_empty());
    }
}

#[test]
fn a_shorter_life_of_status_and_what_was_purged_before() {
    let mut world = world();
    world.load("workspace", json!({ "status_ttl_s": 10 }));
    let kind = json!({ "content": "busy", "message_type": "status" });
    post(&mut world, "agent:b", kind.clone(), json!({ "receipt": true, "to": ["agent:m"] }));
    let seq = world.head();
    assert_eq!(world.state().book.fleeting.len(), 1);
    world.pass(9000);
    assert!(world.state().lists.kept().contains(seq));
    world.pass(2000);
    assert!(!world.state().lists.kept().contains(seq));
    assert!(!world.state().lists.contains(StreamKey::Source(world.id("agent:b")), seq), "nothing of it is left");
    let book = &world.state().book;
    assert!(book.fleeting.is_empty() && book.receipts.is_empty() && book.narrowed.is_empty());
    world.load("persistence", json!({ "max_events": 1, "purge_interval_s": 0 }));
    post(&mut world, "agent:b", kind, json!({}));
    say(&mut world, "agent:b", "x");
    world.pass(1000);
    assert!(world.state().book.fleeting.is_empty(), "purged before its time");
    assert!(!world.pending("agent:m").is_empty(), "but still undelivered");
    world.pass(20_000);
    assert!(world.state().book.unstored.values().all(|u| u.waiting > 0));
}

#[test]
fn what_somebody_is_doing_is_not_kept_unless_it_says_so() {
    let mut world = world();
    let status = |metadata: Value| {
        json!({ "type": "workspace.message.status", "target": "channel/work",
            "payload": { "status": "working", "progress": 0.5 }, "metadata": metadata })
    };
    let head = world.head();
    assert_eq!(world.emit("agent:b", status(json!({}))).unwrap().seq, None);
    let told = signals(&world, "workspace.message.status");
    assert_eq!((told.len(), told[0].metadata()), (1, "{\"ephemeral\":true}"));
    assert_eq!(world.head(), head);
    assert_eq!(world.emit("agent:b", status(json!({ "ephemeral": false }))).unwrap().seq, Some(head + 1));
    world.admin(rialto_engine::AdminOp::RemoveMod("workspace".into())).unwrap();
    assert_eq!(world.emit("agent:b", status(json!({}))).unwrap().seq, Some(head + 2), "without the mod it is an event");
    let got = say(&mut world, HUMAN, "@b");
    assert_eq!(got, json!({}), "and nobody is meant");
}

#[test]
fn a_message_sent_again_is_known_again() {
    let mut world = world();
    let event = |content: &str, metadata: Value| {
        json!({ "id": "m-1", "type": "workspace.message.posted", "target": "channel/work",
            "payload": { "content": content }, "metadata": metadata })
    };
    let first = world.emit(HUMAN, event("@b", json!({ "target_agents": ["z"], "k": 1 }))).unwrap();
    let caller = world.caller(HUMAN);
    let mut spaced = event("@b", json!({ "k": 1, "target_agents": ["z"] }));
    spaced["visibility"] = json!("channel");
    let again = world.emit_text(&caller, &format!(" {spaced}")).unwrap();
    assert_eq!((again.duplicate, again.seq), (true, first.seq));
    assert_eq!(outcome(&world.emit(HUMAN, event("@b", json!({ "k": 1 })))), "id_conflict");
    assert_eq!(outcome(&world.emit(HUMAN, event("@m", json!({ "target_agents": ["z"], "k": 1 })))), "id_conflict");
}

#[test]
fn message_bytes_max_is_the_limit() {
    let mut world = world();
    let event = |bytes: usize| json!({ "type": "workspace.message.posted", "target": "channel/work", "payload": { "content": "x".repeat(bytes) } });
    assert_eq!(outcome(&world.emit(HUMAN, event(limits::MESSAGE_BYTES_MAX))), "ok");
    assert_eq!(outcome(&world.emit(HUMAN, event(limits::MESSAGE_BYTES_MAX + 1))), "too_large");
}

#[test]
fn no_more_members_than_the_limit_are_meant() {
    let mut world = World::workspace();
    world.load("workspace", json!({}));
    world.careful = false;
    let mut world = world.joined(&[HUMAN]);
    let names: Vec<String> = (0..limits::MENTIONS_MAX + 5).map(|n| format!("a{n}")).collect();
    names.iter().for_each(|name| {
        world.join(&format!("agent:{name}"));
    });
    let event =
        json!({ "type": "workspace.message.posted", "target": "channel/general", "payload": { "mentions": names } });
    let accepted = world.emit(HUMAN, event).unwrap();
    let metadata: Value = serde_json::from_str(accepted.event.unwrap().event.metadata()).unwrap();
    assert_eq!(metadata["target_agents"].as_array().unwrap().len(), limits::MENTIONS_MAX);
}
