//! Reading history: filters, both directions, positions that never skip (sheet sections 8 and 12.5).

use crate::world::{World, outcome};
use expect_test::expect;
use rialto_engine::{AdminOp, Filter, View, Viewer};
use rialto_model::Seq;
use serde_json::json;

fn told() -> World {
    let mut world = World::workspace().joined(&["agent:a", "agent:b", "openagents:oa", "human:ana"]);
    world.act("agent:a", "network.channel.create", json!({ "name": "dev", "participants": ["b"] })).unwrap();
    for i in 0..40u64 {
        world.advance(700);
        let (who, target) = match i % 8 {
            0 => ("agent:a", "agent:b"),
            1 => ("agent:b", "agent:a"),
            2 => ("agent:a", "channel/dev"),
            3 => ("openagents:oa", "agent:a"),
            4 => ("agent:a", "agent:oa"),
            5 => ("human:ana", "channel/general"),
            6 => ("agent:b", "agent:broadcast"),
            _ => ("agent:b", "channel/dev"),
        };
        let mut metadata = json!({});
        if target == "channel/dev" && i % 3 == 0 {
            metadata["thread"] = json!("thread_abc");
        }
        if i % 5 == 0 {
            metadata["in_reply_to"] = json!("e7");
            metadata["target_agents"] = json!(["b", "c"]);
        }
        let kind = if i % 2 == 0 { "chat.message.posted" } else { "chat.status" };
        world.emit(who, json!({ "type": kind, "target": target, "metadata": metadata })).unwrap();
    }
    world
}

fn filters() -> Vec<(&'static str, Filter)> {
    let text = |t: &str| Some(t.to_owned());
    let none = Filter::default;
    vec![
        ("all", none()),
        ("type exact", Filter { kind: text("chat.status"), ..none() }),
        ("type prefix", Filter { kind: text("chat."), ..none() }),
        ("type glob", Filter { kind: text("*.message.*"), ..none() }),
        ("type unknown", Filter { kind: text("nothing"), ..none() }),
        ("channel", Filter { channel: text("dev"), ..none() }),
        ("channel address", Filter { channel: text("channel/dev"), ..none() }),
        ("channel unknown", Filter { channel: text("nope"), ..none() }),
        ("target channel", Filter { target: text("channel/dev"), ..none() }),
        ("target agent", Filter { target: text("agent:b"), ..none() }),
        ("target bare", Filter { target: text("oa"), ..none() }),
        ("target openagents", Filter { target: text("openagents:oa"), ..none() }),
        ("target broadcast", Filter { target: text("agent:broadcast"), ..none() }),
        ("target core", Filter { target: text("core"), ..none() }),
        ("source", Filter { source: text("agent:b"), ..none() }),
        ("source bare", Filter { source: text("oa"), ..none() }),
        ("source unknown", Filter { source: text("agent:zed"), ..none() }),
        ("source and type", Filter { source: text("agent:a"), kind: text("chat.message.posted"), ..none() }),
        ("target_agents", Filter { target_agents: text("x,c"), ..none() }),
        ("member", Filter { member: text("human:ana"), ..none() }),
        ("conversation", Filter { conversation: Some(("agent:a".into(), "b".into())), ..none() }),
        ("conversation oa", Filter { conversation: Some(("openagents:oa".into(), "agent:a".into())), ..none() }),
        ("in_reply_to", Filter { in_reply_to: text("e7"), ..none() }),
        ("thread", Filter { thread: text("thread_abc"), ..none() }),
        ("thread in channel", Filter { thread: text("thread_abc"), channel: text("dev"), ..none() }),
        ("since", Filter { since: Some(crate::world::START + 7_350), ..none() }),
        ("until", Filter { until: Some(crate::world::START + 7_700), ..none() }),
        (
            "since until",
            Filter { since: Some(crate::world::START + 7_000), until: Some(crate::world::START + 14_000), ..none() },
        ),
        ("after", Filter { after: Some(20), ..none() }),
        ("before", Filter { before: Some(20), ..none() }),
        ("between", Filter { after: Some(10), before: Some(20), ..none() }),
        ("after the end", Filter { after: Some(Seq::MAX), ..none() }),
    ]
}

/// Every filter, every viewer, both directions: pages give exactly what looking at each event gives.
#[test]
fn filters_agree_with_looking_at_every_event() {
    let world = told();
    let viewers =
        [Viewer::Operator, Viewer::Member(0), Viewer::Member(1), Viewer::Member(3), Viewer::Reader { manages: false }];
    for (name, filter) in filters() {
        for viewer in viewers {
            let lens = world.state().lens(viewer);
            let wanted: Vec<Seq> = world
                .events
                .iter()
                .filter(|(seq, r)| {
                    lens.shows(r)
                        && filter.passes(r)
                        && filter.after.is_none_or(|a| **seq > a)
                        && filter.before.is_none_or(|b| **seq < b)
                })
                .map(|(seq, _)| *seq)
                .collect();
            assert_eq!(world.read(viewer, &filter), wanted, "{name} {viewer:?}");
            let mut back = world.read(viewer, &Filter { descending: true, ..filter.clone() });
            back.reverse();
            assert_eq!(back, wanted, "{name} {viewer:?} descending");
        }
    }
}

#[test]
fn counts_by_filter() {
    let world = told();
    let mut out = String::new();
    for (name, filter) in filters() {
        out += &format!("{name:18} {}\n", world.read(Viewer::Operator, &filter).len());
    }
    expect![[r#"
        all                45
        type exact         20
        type prefix        40
        type glob          20
        type unknown       0
        channel            11
        channel address    11
        channel unknown    0
        target channel     11
        target agent       5
        target bare        5
        target openagents  5
        target broadcast   5
        target core        4
        source             16
        source bare        6
        source unknown     0
        source and type    15
        target_agents      8
        member             6
        conversation       10
        conversation oa    10
        in_reply_to        8
        thread             3
        thread in channel  3
        since              30
        until              16
        since until        11
        after              25
        before             19
        between            9
        after the end      0
    "#]]
    .assert_eq(&out);
}

#[test]
fn members_that_came_back_keep_their_history() {
    let mut world = told();
    let before = world.read(Viewer::Operator, &Filter { source: Some("agent:b".into()), ..Filter::default() });
    world.admin(AdminOp::Remove("agent:b".into())).unwrap();
    world.join("agent:b");
    let seq = world.say("agent:b", "agent:a");
    let after = world.read(Viewer::Operator, &Filter { source: Some("agent:b".into()), ..Filter::default() });
    assert_eq!(after[..before.len()], before);
    assert_eq!(after.last(), Some(&seq));
    let talk = Filter { conversation: Some(("agent:a".into(), "agent:b".into())), ..Filter::default() };
    assert_eq!(world.read(Viewer::Operator, &talk).len(), 11);
    // A channel name used again: both its histories.
    world.act("agent:a", "network.channel.delete", json!({ "channel": "dev" })).unwrap();
    world.act("agent:a", "network.channel.create", json!({ "name": "dev" })).unwrap();
    let dev = Filter { channel: Some("dev".into()), ..Filter::default() };
    assert_eq!(world.read(Viewer::Operator, &dev).len(), 13);
}

#[test]
fn the_inbox_is_what_is_pending() {
    let world = told();
    let pending = world.pending("agent:a");
    let inbox = |filter: &Filter, position, max| {
        world.state().page(Viewer::Member(0), View::Inbox, filter, position, Seq::MAX, max).unwrap()
    };
    assert_eq!(inbox(&Filter::default(), None, 1000).seqs, pending);
    let first = inbox(&Filter::default(), None, 3);
    assert!(!first.exhausted);
    assert_eq!(inbox(&Filter::default(), first.seqs.last().copied(), 1000).seqs, pending[3..]);
    let down = Filter { descending: true, ..Filter::default() };
    let last = inbox(&down, None, 2);
    assert_eq!(last.seqs, [pending[pending.len() - 1], pending[pending.len() - 2]]);
    assert_eq!(inbox(&down, last.seqs.last().copied(), 1).seqs, [pending[pending.len() - 3]]);
    assert_eq!(
        inbox(&Filter { after: Some(pending[0]), before: Some(pending[2]), ..Filter::default() }, None, 9).seqs,
        [pending[1]]
    );
    for viewer in [Viewer::Reader { manages: false }, Viewer::Operator] {
        let page = world.state().page(viewer, View::Inbox, &Filter::default(), None, Seq::MAX, 5);
        assert_eq!(outcome(&page), "unauthenticated");
    }
}

#[test]
fn nothing_above_the_given_position_is_shown() {
    let world = told();
    let page = world.state().page(Viewer::Operator, View::Log, &Filter::default(), None, 12, 1000).unwrap();
    assert_eq!(page.seqs.last(), Some(&12));
    assert!(page.exhausted);
    let page =
        world.state().page(Viewer::Operator, View::Log, &Filter::default(), Some(Seq::MAX), Seq::MAX, 10).unwrap();
    assert!(page.seqs.is_empty() && page.exhausted);
}

#[test]
fn purged_events_are_gone_from_every_list() {
    let mut world = told();
    world.load("persistence", json!({ "max_events": 10, "purge_interval_s": 0 }));
    for name in ["agent:a", "agent:b", "openagents:oa", "human:ana"] {
        world.ack_up_to(name, world.head());
    }
    world.pass(1000);
    let all = world.read(Viewer::Operator, &Filter::default());
    assert_eq!(all, ((world.head() - 9)..=world.head()).collect::<Vec<Seq>>());
    for (name, filter) in filters() {
        assert!(world.read(Viewer::Operator, &filter).iter().all(|seq| all.contains(seq)), "{name}");
    }
}
