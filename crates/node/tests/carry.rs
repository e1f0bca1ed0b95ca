//! A face that carries outside members: they are seen with `via`, receive in order, are sent what they did not ack again after a restart,
//! their mail dies by its time, and they take no name that somebody here has.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "tests"
)]

use rialto_model::limits::{CARRIED_MEMBERS_MAX, CARRIED_UNACKED_MAX, CARRIED_WINDOW};
use rialto_model::network::{Policy, Preset, Token};
use rialto_model::{ErrorCode, FaceName};
use rialto_node::clock::DrivenClock;
use rialto_node::identity::sha256;
use rialto_node::{
    AdminOp, Caller, Carried, CarriedNews, CreateNetwork, DeadLetters, Host, Network, Node, NodeParts, Outsider,
    RosterFilter,
};
use rialto_store::disk::fault::FaultDisk;
use rialto_store::{LocalOptions, LocalStore, MemoryStore};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Many times what anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn agh() -> FaceName {
    FaceName::parse("agh").unwrap()
}

fn outsider(address: &str) -> Outsider {
    Outsider { address: address.to_owned(), ..Outsider::default() }
}

async fn node(disk: &FaultDisk, clock: &Arc<DrivenClock>) -> Node {
    let options = LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() };
    let store = LocalStore::open_on(disk.clone(), "/data", options).unwrap();
    let host = Host::simulated(clock.clone(), 1);
    Node::open_with(NodeParts { host, ..NodeParts::over(Arc::new(store)) }).await.unwrap()
}

async fn create(node: &Node) -> Network {
    let wish = CreateNetwork { policy: Policy::Open, ..CreateNetwork::named("main", Preset::Plain) };
    node.create_network(wish).await.unwrap().0
}

fn operator() -> Arc<Caller> {
    Arc::new(Caller { operator: true, ..Caller::default() })
}

/// Joins a local member; gives what it calls with.
async fn join(network: &Network, address: &str) -> Arc<Caller> {
    let frame = json!({ "type": "network.agent.join", "source": address, "target": "core" });
    let answers = network.session(&operator()).emit(frame.to_string().into()).await.unwrap();
    let joined = answers.into_iter().next().unwrap().result.unwrap().result.unwrap();
    let bearer = Some(sha256(joined["session_id"].as_str().unwrap()));
    Arc::new(Caller { bearer, ..Caller::default() })
}

async fn say(network: &Network, caller: &Arc<Caller>, target: &str, n: usize) -> u64 {
    let event = json!({ "type": "app.note", "target": target, "payload": { "n": n } });
    let answers = network.session(caller).emit(event.to_string().into()).await.unwrap();
    answers.into_iter().next().unwrap().result.unwrap().seq.unwrap()
}

async fn next(carried: &mut Carried) -> CarriedNews {
    tokio::time::timeout(PATIENCE, carried.recv()).await.unwrap().unwrap()
}

/// The next mail: whose, its positions and attempts.
async fn mail(carried: &mut Carried) -> (String, Vec<(u64, u32)>) {
    match next(carried).await {
        CarriedNews::Mail { recipient, deliveries } => {
            let list = deliveries.iter().map(|d| (d.event.seq, d.attempt)).collect();
            (recipient.into(), list)
        }
        other => panic!("{other:?}"),
    }
}

async fn roster(network: &Network) -> Vec<Value> {
    let found = network.session(&operator()).discover(RosterFilter::default()).await.unwrap();
    found.agents.unwrap().into_iter().map(|member| json!(member)).collect()
}

#[tokio::test]
async fn outside_members_are_seen_receive_in_order_and_answer() {
    let (disk, clock) = (FaultDisk::new(1), Arc::new(DrivenClock::at(1_767_225_600_000)));
    let node = node(&disk, &clock).await;
    let network = create(&node).await;
    let alice = join(&network, "agent:alice").await;
    let mut carried = network.carry(agh()).await.unwrap();
    let peer = Outsider {
        level: 3,
        description: Some("a peer on NATS".to_owned()),
        capabilities: vec!["search".to_owned()],
        ..outsider("agent:peer")
    };
    carried.bring(&peer).await.unwrap();
    let seen = roster(&network).await.into_iter().find(|m| m["address"] == "agent:peer").unwrap();
    assert_eq!((&seen["via"], &seen["verification"], &seen["status"]), (&json!("agh"), &json!(3), &json!("online")));
    assert_eq!((&seen["description"], &seen["capabilities"]), (&json!("a peer on NATS"), &json!(["search"])));
    assert_eq!(roster(&network).await.iter().filter(|m| m.get("via").is_some()).count(), 1);

    let mut sent = Vec::new();
    for n in 0..CARRIED_WINDOW + 5 {
        sent.push(say(&network, &alice, "agent:peer", n).await);
    }
    // At most a window ahead of the acks, in order; the rest comes when they came.
    let mut got = Vec::new();
    while got.len() < CARRIED_WINDOW {
        let (recipient, list) = mail(&mut carried).await;
        assert_eq!(recipient, "agent:peer");
        got.extend(list);
    }
    assert_eq!(got, sent[..CARRIED_WINDOW].iter().map(|seq| (*seq, 1)).collect::<Vec<_>>());
    assert_eq!(carried.ack("agent:peer", sent[..CARRIED_WINDOW].to_vec()).await.unwrap(), CARRIED_WINDOW as u64);
    let (_, rest) = mail(&mut carried).await;
    assert_eq!(rest, sent[CARRIED_WINDOW..].iter().map(|seq| (*seq, 1)).collect::<Vec<_>>());

    // It speaks as itself and as nobody else.
    let reply = json!({ "type": "app.note", "target": "agent:alice", "payload": {} });
    let answers = carried.send("agent:peer", reply.to_string().into()).await.unwrap();
    let event = answers[0].result.as_ref().unwrap().event.clone().unwrap();
    assert_eq!(event.event.source(), "agent:peer");
    let spoofed = json!({ "type": "app.note", "source": "agent:alice", "target": "agent:alice" });
    let answers = carried.send("agent:peer", spoofed.to_string().into()).await.unwrap();
    assert_eq!(answers[0].result.as_ref().unwrap_err().code, ErrorCode::SourceMismatch);
    let answers = carried.send("agent:alice", reply.to_string().into()).await.unwrap();
    assert_eq!(answers[0].result.as_ref().unwrap_err().code, ErrorCode::SourceMismatch);
    let answers = carried.send("agent:stranger", reply.to_string().into()).await.unwrap();
    assert_eq!(answers[0].result.as_ref().unwrap_err().code, ErrorCode::NotAMember);
    let other = network.carry(FaceName::parse("anycast").unwrap()).await.unwrap();
    let answers = other.send("agent:peer", reply.to_string().into()).await.unwrap();
    assert_eq!(answers[0].result.as_ref().unwrap_err().code, ErrorCode::SourceMismatch);
    assert_eq!(other.ack("agent:peer", sent).await.unwrap_err().code, ErrorCode::SourceMismatch);
}

#[tokio::test]
async fn what_was_not_acked_comes_again_in_time_and_after_a_power_cut() {
    let (disk, clock) = (FaultDisk::new(2), Arc::new(DrivenClock::at(1_767_225_600_000)));
    let first = node(&disk, &clock).await;
    let network = create(&first).await;
    let alice = join(&network, "agent:alice").await;
    let mut carried = network.carry(agh()).await.unwrap();
    carried.bring(&outsider("agent:peer")).await.unwrap();
    let sent = [say(&network, &alice, "agent:peer", 0).await, say(&network, &alice, "agent:peer", 1).await];
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(mail(&mut carried).await.1);
    }
    carried.ack("agent:peer", vec![sent[0]]).await.unwrap();
    // Nobody acks the second one: it comes again after half a minute.
    let again = tokio::time::timeout(PATIENCE, async {
        loop {
            clock.pass(5_000);
            tokio::time::sleep(Duration::from_millis(1100)).await;
            if let Ok(news) = tokio::time::timeout(Duration::from_millis(10), carried.recv()).await {
                return news.unwrap();
            }
        }
    });
    let CarriedNews::Mail { deliveries, .. } = again.await.unwrap() else { panic!("mail is sent again") };
    assert_eq!(deliveries.iter().map(|d| (d.event.seq, d.attempt)).collect::<Vec<_>>(), [(sent[1], 2)]);
    // Whoever carries next for the face takes over; what is not acked is sent to it.
    let mut second = network.carry(agh()).await.unwrap();
    assert!(matches!(next(&mut carried).await, CarriedNews::Ended(ErrorCode::SessionRevoked)));
    assert_eq!(mail(&mut second).await.1, [(sent[1], 1)]);
    first.stop().await;
    assert!(matches!(next(&mut second).await, CarriedNews::Ended(ErrorCode::ShuttingDown)));
    drop((first, network, carried, second));
    disk.crash();

    let again = node(&disk, &clock).await;
    let network = again.network("main").unwrap();
    let mut carried = network.carry(agh()).await.unwrap();
    assert_eq!(mail(&mut carried).await, ("agent:peer".to_owned(), vec![(sent[1], 1)]));
    carried.ack("agent:peer", vec![sent[1]]).await.unwrap();
    assert_eq!(roster(&network).await.iter().filter(|m| m["via"] == "agh").count(), 1);
}

#[tokio::test]
async fn mail_dies_by_its_time_with_a_dead_letter() {
    let (disk, clock) = (FaultDisk::new(3), Arc::new(DrivenClock::at(1_767_225_600_000)));
    let node = node(&disk, &clock).await;
    let network = create(&node).await;
    let alice = join(&network, "agent:alice").await;
    let carried = network.carry(agh()).await.unwrap();
    carried.bring(&outsider("agent:peer")).await.unwrap();
    drop(carried);
    let event = json!({ "type": "app.note", "target": "agent:peer", "payload": {}, "metadata": { "ttl_ms": 1000 } });
    let answers = network.session(&alice).emit(event.to_string().into()).await.unwrap();
    let seq = answers[0].result.as_ref().unwrap().seq.unwrap();
    let letters = tokio::time::timeout(PATIENCE, async {
        loop {
            clock.pass(1_000);
            tokio::time::sleep(Duration::from_millis(200)).await;
            let list = network.session(&operator()).dead_letters(&DeadLetters::default()).await.unwrap().dead_letters;
            if !list.is_empty() {
                return list;
            }
        }
    });
    let letters = letters.await.unwrap();
    assert_eq!((letters[0].letter.seq, letters[0].letter.recipient.as_ref()), (seq, "agent:peer"));
    let mut carried = network.carry(agh()).await.unwrap();
    let live = say(&network, &alice, "agent:peer", 1).await;
    assert_eq!(mail(&mut carried).await.1, [(live, 1)]);
}

#[tokio::test]
async fn names_of_members_here_are_not_taken_and_give_way() {
    let (disk, clock) = (FaultDisk::new(4), Arc::new(DrivenClock::at(1_767_225_600_000)));
    let node = node(&disk, &clock).await;
    let network = create(&node).await;
    let alice = join(&network, "agent:alice").await;
    let mut carried = network.carry(agh()).await.unwrap();
    for taken in ["agent:alice", "openagents:alice"] {
        let fault = carried.bring(&outsider(taken)).await.unwrap_err();
        assert!(matches!(fault.code, ErrorCode::AddressTaken | ErrorCode::VerificationRequired), "{fault}");
    }
    for illegal in ["human:bob", "core", "channel/x", "agent:core", "other::agent:x"] {
        let fault = carried.bring(&outsider(illegal)).await.unwrap_err();
        assert_eq!(fault.code, ErrorCode::InvalidAddress, "{illegal}: {fault}");
    }
    let other = network.carry(FaceName::parse("anycast").unwrap()).await.unwrap();
    other.bring(&outsider("agent:far")).await.unwrap();
    assert_eq!(carried.bring(&outsider("agent:far")).await.unwrap_err().code, ErrorCode::AddressTaken);
    assert_eq!(roster(&network).await.len(), 2);

    // Whoever joins here under the name of a carried member has it; its mail was for the other one.
    carried.bring(&outsider("agent:bob")).await.unwrap();
    let sent = say(&network, &alice, "agent:bob", 0).await;
    assert_eq!(mail(&mut carried).await.1, [(sent, 1)]);
    let bob = join(&network, "agent:bob").await;
    assert!(matches!(next(&mut carried).await, CarriedNews::Gone { recipient } if *recipient == *"agent:bob"));
    let seen = roster(&network).await.into_iter().find(|m| m["address"] == "agent:bob").unwrap();
    assert_eq!(seen.get("via"), None);
    assert_eq!(carried.bring(&outsider("agent:bob")).await.unwrap_err().code, ErrorCode::AddressTaken);
    let answers = carried.send("agent:bob", json!({ "type": "app.note", "target": "core" }).to_string().into()).await;
    assert_eq!(answers.unwrap()[0].result.as_ref().unwrap_err().code, ErrorCode::SourceMismatch);
    let own = rialto_node::Query { view: Some(rialto_node::View::Inbox), ..Default::default() };
    assert!(
        network.session(&bob).query(&own).await.unwrap().events.is_empty(),
        "mail of the carried member is not bob's"
    );

    // A token for the name of a carried member does not speak as who lives elsewhere: its holder joins, and has the name then.
    carried.bring(&outsider("agent:eve")).await.unwrap();
    let bearer = sha256("a token for eve");
    let token = Token { agent: Some("eve".to_owned()), ..Token::whole("eve", bearer, 0) };
    network.admin(AdminOp::AddToken(token)).await.unwrap();
    let eve = Arc::new(Caller { bearer: Some(bearer), ..Caller::default() });
    let event = json!({ "type": "app.note", "source": "agent:eve", "target": "agent:alice" }).to_string();
    let answers = network.session(&eve).emit(event.clone().into()).await.unwrap();
    assert_eq!(answers[0].result.as_ref().unwrap_err().code, ErrorCode::Unauthenticated);
    let frame = json!({ "type": "network.agent.join", "source": "agent:eve", "target": "core" }).to_string();
    network.session(&eve).emit(frame.into()).await.unwrap()[0].result.as_ref().unwrap();
    assert!(matches!(next(&mut carried).await, CarriedNews::Gone { recipient } if *recipient == *"agent:eve"));
    network.session(&eve).emit(event.into()).await.unwrap()[0].result.as_ref().unwrap();

    // The operator removes a carried member: the face hears of it.
    carried.bring(&outsider("agent:carl")).await.unwrap();
    network.admin(AdminOp::Remove("agent:carl".to_owned())).await.unwrap();
    assert!(matches!(next(&mut carried).await, CarriedNews::Gone { recipient } if *recipient == *"agent:carl"));
    // One that leaves is offline and is sent nothing; one that comes back is who it was.
    carried.bring(&outsider("agent:dora")).await.unwrap();
    carried.leave("agent:dora", false).await.unwrap();
    let event = json!({ "type": "app.note", "target": "agent:dora" }).to_string();
    let refused = network.session(&alice).emit(event.into()).await.unwrap()[0].result.is_err();
    carried.bring(&outsider("agent:dora")).await.unwrap();
    let live = say(&network, &alice, "agent:dora", 2).await;
    assert_eq!(mail(&mut carried).await, ("agent:dora".to_owned(), vec![(live, 1)]), "sent to whom is away: {refused}");
}

#[tokio::test]
async fn channels_and_broadcasts_reach_carried_members() {
    let (disk, clock) = (FaultDisk::new(5), Arc::new(DrivenClock::at(1_767_225_600_000)));
    let node = node(&disk, &clock).await;
    let network = create(&node).await;
    let alice = join(&network, "agent:alice").await;
    let make = json!({ "type": "network.channel.create", "target": "core", "payload": { "name": "plans" } });
    network.session(&alice).emit(make.to_string().into()).await.unwrap()[0].result.as_ref().unwrap();
    let mut carried = network.carry(agh()).await.unwrap();
    for (name, channels) in [("agent:one", vec!["plans".to_owned()]), ("agent:two", Vec::new())] {
        carried.bring(&Outsider { channels, ..outsider(name) }).await.unwrap();
    }
    let seq = say(&network, &alice, "channel/plans", 0).await;
    assert_eq!(mail(&mut carried).await, ("agent:one".to_owned(), vec![(seq, 1)]));
    let seq = say(&network, &alice, "agent:broadcast", 1).await;
    let mut got = [mail(&mut carried).await, mail(&mut carried).await];
    got.sort();
    assert_eq!(got, [("agent:one".to_owned(), vec![(seq, 1)]), ("agent:two".to_owned(), vec![(seq, 1)])]);
    // What is never stored comes to whom it is for alone.
    let typing = json!({ "type": "app.typing", "target": "agent:two", "metadata": { "ephemeral": true } });
    network.session(&alice).emit(typing.to_string().into()).await.unwrap()[0].result.as_ref().unwrap();
    match next(&mut carried).await {
        CarriedNews::Signal { recipient, event } => {
            assert_eq!((&*recipient, event.kind()), ("agent:two", "app.typing"))
        }
        other => panic!("{other:?}"),
    }
}

/// Fills `CARRIED_UNACKED_MAX`: a face that acks nothing is sent so many events and no more, and members that were not served yet are
/// when it acks. Twice as many members as that are carried, which is also more than a network has of its own (`MEMBERS_MAX`).
#[tokio::test]
async fn a_face_that_acks_nothing_is_sent_a_bounded_number() {
    let members = 2 * CARRIED_UNACKED_MAX + CARRIED_UNACKED_MAX / 2;
    assert!(members > rialto_model::limits::MEMBERS_MAX && members < CARRIED_MEMBERS_MAX);
    let node = Node::over(Arc::new(MemoryStore::default()), None, false).await.unwrap();
    let network = create(&node).await;
    let alice = join(&network, "agent:alice").await;
    let mut carried = network.carry(agh()).await.unwrap();
    for n in 0..members {
        carried.bring(&outsider(&format!("agent:p{n}"))).await.unwrap();
    }
    // They do not count as the network's own: there is room for somebody here.
    join(&network, "agent:bob").await;
    let seq = say(&network, &alice, "agent:broadcast", 0).await;
    let mut served = std::collections::BTreeSet::new();
    for _ in 0..CARRIED_UNACKED_MAX {
        let (recipient, list) = mail(&mut carried).await;
        assert_eq!(list, [(seq, 1)]);
        assert!(served.insert(recipient));
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(200), carried.recv()).await.is_err(),
        "more was sent than may be"
    );
    for recipient in served.clone() {
        carried.ack(&recipient, vec![seq]).await.unwrap();
    }
    while served.len() < members {
        let (recipient, list) = mail(&mut carried).await;
        assert_eq!(list, [(seq, 1)]);
        assert!(served.insert(recipient.clone()), "{recipient} was served twice");
        carried.ack(&recipient, vec![seq]).await.unwrap();
    }
}

/// What is sent at most once comes to whoever listens then, and is not asked for again.
#[tokio::test]
async fn at_most_once_is_sent_when_it_comes() {
    let node = Node::over(Arc::new(MemoryStore::default()), None, false).await.unwrap();
    let wish = CreateNetwork {
        policy: Policy::Open,
        delivery: rialto_model::network::Delivery::AtMostOnce,
        ..CreateNetwork::named("main", Preset::Plain)
    };
    let network = node.create_network(wish).await.unwrap().0;
    let alice = join(&network, "agent:alice").await;
    let mut carried = network.carry(agh()).await.unwrap();
    carried.bring(&outsider("agent:peer")).await.unwrap();
    let seq = say(&network, &alice, "agent:peer", 0).await;
    match next(&mut carried).await {
        CarriedNews::Signal { recipient, event } => assert_eq!((&*recipient, event.seq), ("agent:peer", seq)),
        other => panic!("{other:?}"),
    }
    drop(carried);
    say(&network, &alice, "agent:peer", 1).await;
    let mut carried = network.carry(agh()).await.unwrap();
    let last = say(&network, &alice, "agent:peer", 2).await;
    match next(&mut carried).await {
        CarriedNews::Signal { event, .. } => assert_eq!(event.seq, last),
        other => panic!("{other:?}"),
    }
}
