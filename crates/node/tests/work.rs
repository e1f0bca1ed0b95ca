//! Following work: whoever watches sees the same events in the same order up to exactly one end, whenever it came.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::Preset;
use rialto_model::{ErrorCode, Fault, Seq};
use rialto_node::identity::sha256;
use rialto_node::{
    Caller, CreateNetwork, Network, Node, WorkOrder, WorkSight, WorkWatch, ends_work, opens_work, work_state,
};
use rialto_store::MemoryStore;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A watch that says nothing for so long will say nothing more.
const PATIENCE: Duration = Duration::from_secs(30);

async fn emit(network: &Network, caller: &Arc<Caller>, event: Value) -> Result<Value, Fault> {
    let answers = network.session(caller).emit(event.to_string().into()).await.unwrap();
    answers.into_iter().next().unwrap().result.map(|accepted| *accepted.result.unwrap_or_default())
}

async fn join(network: &Network, name: &str) -> Arc<Caller> {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let event = json!({ "type": "network.agent.join", "source": name, "target": "core" });
    let joined = emit(network, &operator, event).await.unwrap();
    let session = sha256(joined["session_id"].as_str().unwrap());
    Arc::new(Caller { bearer: Some(session), ..Caller::default() })
}

async fn world() -> (Node, Network) {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    (node, network)
}

async fn open(network: &Network, by: &Arc<Caller>, target: &str) -> String {
    let event = json!({ "type": "workspace.message.posted", "target": target, "payload": { "content": "please" }, "metadata": { "work": {} } });
    emit(network, by, event).await.unwrap()["work"]["id"].as_str().unwrap().to_owned()
}

fn update(id: &str, state: &str) -> Value {
    json!({ "type": "work.update", "target": "core", "payload": { "work": id, "state": state } })
}

/// What a watcher saw: the position of its snapshot, and every event after it.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    snapshot: Option<Seq>,
    events: Vec<(Seq, &'static str)>,
}

async fn watch_all(mut watch: WorkWatch) -> Result<Seen, Fault> {
    let mut seen = Seen::default();
    loop {
        match tokio::time::timeout(PATIENCE, watch.next()).await.unwrap_or_else(|_| panic!("the watch says nothing"))? {
            Some(WorkSight::Snapshot(unit)) => {
                assert!(seen.snapshot.is_none() && seen.events.is_empty(), "the snapshot is first and only one");
                seen.snapshot = Some(unit.last_seq);
            }
            Some(WorkSight::Event(record)) => {
                let state = work_state(&record).unwrap().as_str();
                assert!(!seen.events.last().is_some_and(|_| opens_work(&record)), "it begins once");
                seen.events.push((record.event.seq, state));
                if ends_work(&record) {
                    let after = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap()?;
                    assert!(after.is_none() && watch.is_over(), "nothing follows the end");
                    return Ok(seen);
                }
            }
            None => return Ok(seen),
        }
    }
}

/// Numbers that look random and are the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_come_at_any_time_see_the_same_to_one_end() {
    let mut chance = Chance(7);
    for round in 0..20 {
        let (node, network) = world().await;
        let (a, b) = (join(&network, "agent:a").await, join(&network, "agent:b").await);
        let id = open(&network, &a, "agent:b").await;
        let mut watchers = Vec::new();
        let mut come = async |watchers: &mut Vec<_>| {
            let caller = if chance.below(2) == 0 { &a } else { &b };
            let watch = network.session(caller).watch_work(&id).await.unwrap();
            watchers.push(tokio::spawn(watch_all(watch)));
        };
        come(&mut watchers).await;
        let mut steps = Chance(round);
        for _ in 0..2 + steps.below(20) {
            let (who, event) = match steps.below(5) {
                0 => (&b, update(&id, "input_required")),
                1 => {
                    (&a, json!({ "type": "work.answer", "target": "core", "payload": { "work": id, "message": "x" } }))
                }
                2 => (
                    &b,
                    json!({ "type": "work.artifact", "target": "core", "payload": { "work": id, "artifact": { "id": "x", "parts": [] } } }),
                ),
                3 => (&a, json!({ "type": "other.noise", "target": "agent:b" })),
                _ => (&b, update(&id, "working")),
            };
            let _refused_if_nothing_was_asked = emit(&network, who, event).await;
            if steps.below(2) == 0 {
                come(&mut watchers).await;
            }
        }
        // Both sides end it at once; more come while they do.
        let cancel = json!({ "type": "work.cancel", "target": "core", "payload": { "work": id } });
        let (done, canceled, ()) =
            tokio::join!(emit(&network, &b, update(&id, "completed")), emit(&network, &a, cancel), come(&mut watchers));
        let refused = [done.err(), canceled.err()].into_iter().flatten().collect::<Vec<_>>();
        assert_eq!(refused.iter().map(|f| f.code).collect::<Vec<_>>(), [ErrorCode::NoPendingRequest], "one end wins");
        come(&mut watchers).await;

        let log = network.session(&a).work_page(&id, 0, 500).await.unwrap();
        assert!(log.ended && !log.has_more);
        let log: Vec<(Seq, &str)> = log.events.iter().map(|r| (r.event.seq, work_state(r).unwrap().as_str())).collect();
        let ends = log.iter().filter(|(_, s)| ["completed", "canceled"].contains(s)).count();
        assert_eq!((ends, log[0].1), (1, "submitted"), "{log:?}");
        let after = |seq: Seq| log.iter().copied().filter(|(s, _)| *s > seq).collect::<Vec<_>>();
        for watcher in watchers {
            let seen = watcher.await.unwrap().unwrap();
            assert_eq!(seen.events, after(seen.snapshot.unwrap()), "from the snapshot on nothing is missed or twice");
        }
        for (seq, _) in &log {
            let resumed = network.session(&b).resume_work(&id, *seq).await.unwrap();
            assert_eq!(resumed.is_over(), after(*seq).is_empty());
            assert_eq!(watch_all(resumed).await.unwrap(), Seen { snapshot: None, events: after(*seq) });
        }
        // Pages of any size give the same.
        let (mut paged, mut cursor) = (Vec::new(), 0);
        loop {
            let page = network.session(&a).work_page(&id, cursor, 3).await.unwrap();
            paged.extend(page.events.iter().map(|r| r.event.seq));
            cursor = paged.last().copied().unwrap();
            if !page.has_more {
                assert!(page.ended);
                break;
            }
        }
        assert_eq!(paged, log.iter().map(|(seq, _)| *seq).collect::<Vec<_>>());
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_racing_takers_one_wins_and_the_others_see_no_more() {
    let (node, network) = world().await;
    let a = join(&network, "agent:a").await;
    let mut takers = Vec::new();
    for n in 0..8 {
        takers.push(join(&network, &format!("agent:taker-{n}")).await);
    }
    let participants: Vec<String> = (0..8).map(|n| format!("taker-{n}")).collect();
    let create = json!({ "type": "network.channel.create", "target": "core", "payload": { "name": "desk", "participants": participants } });
    emit(&network, &a, create).await.unwrap();
    let id = open(&network, &a, "channel/desk").await;
    let mut watchers = Vec::new();
    for taker in &takers {
        watchers.push(tokio::spawn(watch_all(network.session(taker).watch_work(&id).await.unwrap())));
    }
    let mut races = Vec::new();
    for taker in &takers {
        let (network, taker, id) = (network.clone(), taker.clone(), id.clone());
        races.push(tokio::spawn(async move { emit(&network, &taker, update(&id, "working")).await }));
    }
    let mut winners = Vec::new();
    for (n, race) in races.into_iter().enumerate() {
        match race.await.unwrap() {
            Ok(_) => winners.push(n),
            Err(fault) => assert_eq!(fault.code, ErrorCode::AlreadyExists),
        }
    }
    let [winner] = winners[..] else { panic!("{winners:?} all won") };
    let unit = network.session(&a).work(&id).await.unwrap();
    assert_eq!(unit.executor.as_deref(), Some(format!("agent:taker-{winner}").as_str()));
    emit(&network, &takers[winner], update(&id, "completed")).await.unwrap();
    for (n, watcher) in watchers.into_iter().enumerate() {
        let seen = watcher.await.unwrap();
        if n == winner {
            assert_eq!(seen.unwrap().events.last().unwrap().1, "completed");
        } else {
            // Once it is taken it is between two; how much of it came before depends on the race.
            assert_eq!(seen.unwrap_err().code, ErrorCode::UnknownTarget);
            assert_eq!(network.session(&takers[n]).work(&id).await.unwrap_err().code, ErrorCode::UnknownTarget);
        }
    }
    node.stop().await;
}

/// However many ask for it by the same name at once, it is one unit; others' names are their own.
#[tokio::test]
async fn an_order_is_carried_out_once() {
    let (node, network) = world().await;
    let alice = join(&network, "agent:alice").await;
    let bob = join(&network, "agent:bob").await;
    let order = WorkOrder {
        target: "agent:bob".into(),
        name: Some("report".into()),
        content: "please".into(),
        deadline_ms: Some(60_000),
        ..WorkOrder::default()
    };
    let mut tries = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (network, alice, order) = (network.clone(), alice.clone(), order.clone());
        tries.spawn(async move { network.session(&alice).open_work(&order).await.unwrap() });
    }
    let opened = tries.join_all().await;
    assert_eq!(opened.iter().filter(|unit| !unit.duplicate).count(), 1);
    assert!(opened.iter().all(|unit| (&unit.id, unit.seq) == (&opened[0].id, opened[0].seq)));
    let unit = network.session(&alice).work("report").await.unwrap();
    assert_eq!((unit.id.as_ref(), unit.executor.as_deref()), (opened[0].id.as_str(), Some("agent:bob")));
    // To a member's own name it is nobody else's: bob's order by that name is a unit of bob's.
    let back =
        network.session(&bob).open_work(&WorkOrder { target: "agent:alice".into(), ..order.clone() }).await.unwrap();
    assert!(!back.duplicate && back.id != opened[0].id);
    for (wrong, code) in [
        (WorkOrder { target: "agent:nobody".into(), name: None, ..order.clone() }, ErrorCode::UnknownTarget),
        (WorkOrder { name: Some(opened[0].id.clone()), ..order.clone() }, ErrorCode::InvalidEvent),
        (WorkOrder { name: None, deadline_ms: Some(1), ..order.clone() }, ErrorCode::InvalidEvent),
        (WorkOrder { target: "agent:alice".into(), name: None, ..order.clone() }, ErrorCode::InvalidEvent),
        (WorkOrder { content: "something else".into(), ..order.clone() }, ErrorCode::AlreadyExists),
        (WorkOrder { deadline_ms: Some(90_000), ..order }, ErrorCode::AlreadyExists),
    ] {
        assert_eq!(network.session(&alice).open_work(&wrong).await.unwrap_err().code, code, "{wrong:?}");
    }
    node.stop().await;
}
