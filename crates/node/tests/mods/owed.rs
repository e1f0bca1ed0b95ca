//! What a mod emits and another mod has to see first is owed from the commit of its cause on: a power cut, a stop and a failing log
//! neither lose nor repeat it.

use super::*;
use rialto_node::ProcessCheck;

/// On a disk whose power can be cut.
async fn over(disk: &FaultDisk) -> (Node, Network) {
    let options = LocalOptions { free_floor_bytes: 0, ..LocalOptions::default() };
    let store = LocalStore::open_on(disk.clone(), "/data", options).unwrap();
    let node = Node::over(Arc::new(store), None, false).await.unwrap();
    let network = match node.default_network() {
        Some(network) => network,
        None => node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap().0,
    };
    (node, network)
}

/// Guard `a` emits two events that guard `b` has to see.
async fn first_guard(network: &Network) {
    let config = ModConfig { intercepts: vec!["app.*".into()], ..ModConfig::process("a", Mode::Guard) };
    process(network, config, |_| {
        let emit = [1, 2].map(|n| json!({ "type": "other.follows", "target": "agent:alice", "payload": { "n": n } }));
        json!({ "verdict": "pass", "emit": emit }).to_string()
    })
    .await;
}

fn second_guard() -> ModConfig {
    ModConfig { intercepts: vec!["other.*".into()], ..patient("b") }
}

/// The cause is committed, and `b` is asked about the first of what follows from it; the other waits behind.
async fn owing(network: &Network) -> (Stream, ModPort) {
    let mut alice = Stream::of(network, "agent:alice").await;
    first_guard(network).await;
    let mut b = silent(network, second_guard()).await;
    alice.send(&[note("cause", "core")]).await;
    assert_eq!(alice.next().await, ok("cause"));
    next(&mut b, 1).await;
    (alice, b)
}

/// What the port is asked next, which is the emit of this number.
async fn next(port: &mut ModPort, n: u64) -> ProcessCheck {
    let asked = tokio::time::timeout(PATIENCE, port.next()).await.unwrap().unwrap();
    let question: Value = serde_json::from_str(&asked.line).unwrap();
    let event = &question["event"];
    assert_eq!((&event["source"], &event["payload"]["n"]), (&json!("mod/a"), &json!(n)), "{question}");
    asked
}

async fn is_silent(port: &mut ModPort) -> bool {
    tokio::time::timeout(Duration::from_millis(100), port.next()).await.is_err()
}

/// What history has of what follows, by number.
async fn followed(network: &Network) -> Vec<Value> {
    let query = Query { limit: Some(500), view: Some(View::Log), ..Query::default() };
    let events = network.session(&operator()).query(&query).await.unwrap().events;
    let payload =
        |r: &Arc<rialto_node::EventRecord>| serde_json::from_str::<Value>(r.event.payload()).unwrap()["n"].clone();
    events.iter().filter(|r| r.event.kind() == "other.follows").map(payload).collect()
}

async fn followed_by(network: &Network, numbers: &[u64]) {
    let wanted: Vec<Value> = numbers.iter().map(|n| json!(n)).collect();
    tokio::time::timeout(PATIENCE, async {
        while followed(network).await != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("not {numbers:?} have followed"));
}

/// Passes both emits, which come in order and once.
async fn both_come(network: &Network, b: &mut ModPort) {
    assert_eq!(followed(network).await, [] as [Value; 0]);
    for n in [1, 2] {
        let asked = next(b, n).await;
        b.said(&asked, r#"{"verdict":"pass"}"#).await;
    }
    followed_by(network, &[1, 2]).await;
    assert!(is_silent(b).await, "nothing else is asked");
}

/// Another start brings nothing again.
async fn nothing_is_left(disk: &FaultDisk) {
    let (node, network) = over(disk).await;
    let mut b = network.mod_port("b").await;
    assert!(is_silent(&mut b).await);
    assert_eq!(followed(&network).await, [json!(1), json!(2)]);
    node.stop().await;
}

#[tokio::test]
async fn a_power_cut_loses_no_emit_that_waits() {
    let disk = FaultDisk::new(5);
    let (node, network) = over(&disk).await;
    let (alice, b) = owing(&network).await;
    disk.cut_after(0);
    tokio::time::timeout(PATIENCE, node.stop()).await.unwrap();
    drop((alice, b, network, node));
    disk.crash();
    let (node, network) = over(&disk).await;
    let mut b = network.mod_port("b").await;
    both_come(&network, &mut b).await;
    // Cut once more: what is decided stays decided.
    disk.cut_after(0);
    tokio::time::timeout(PATIENCE, node.stop()).await.unwrap();
    drop((b, network, node));
    disk.crash();
    nothing_is_left(&disk).await;
}

#[tokio::test]
async fn a_stop_leaves_what_waits_owed() {
    let disk = FaultDisk::new(6);
    let (node, network) = over(&disk).await;
    let (alice, b) = owing(&network).await;
    node.stop().await;
    drop((alice, b, network, node));
    // Nobody connects in this life: what is owed stays so.
    let (node, network) = over(&disk).await;
    assert_eq!(followed(&network).await, [] as [Value; 0]);
    node.stop().await;
    drop((network, node));
    let (node, network) = over(&disk).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut b = network.mod_port("b").await;
    both_come(&network, &mut b).await;
    node.stop().await;
    drop((b, network, node));
    nothing_is_left(&disk).await;
}

#[tokio::test]
async fn a_failing_log_leaves_what_waits_owed() {
    let disk = FaultDisk::new(7);
    let (node, network) = over(&disk).await;
    let (alice, mut b) = owing(&network).await;
    disk.fail(Call::Sync, 0, std::io::ErrorKind::Other, false);
    let bob = Stream::of_refused(&network, "agent:bob").await;
    both_come(&network, &mut b).await;
    node.stop().await;
    drop((alice, bob, b, network, node));
    nothing_is_left(&disk).await;
}

#[tokio::test]
async fn a_server_that_joins_again_is_asked() {
    let disk = FaultDisk::new(8);
    let (node, network) = over(&disk).await;
    let mut server = Stream::of(&network, "agent:server").await;
    let mut alice = Stream::of(&network, "agent:alice").await;
    first_guard(&network).await;
    let wish =
        json!({ "name": "b", "mode": "guard", "intercepts": ["other.*"], "deadline_ms": limits::MOD_DEADLINE_MS_MAX });
    server.serve(wish).await;
    alice.send(&[note("cause", "core")]).await;
    assert_eq!(alice.next().await, ok("cause"));
    server.check().await;
    node.stop().await;
    drop((server, alice, network, node));
    let (node, network) = over(&disk).await;
    let mut server = Stream::of(&network, "agent:server").await;
    for n in [1, 2] {
        let check = server.check().await;
        assert_eq!((&check["step"], &check["event"]["payload"]["n"]), (&json!("guard"), &json!(n)));
        assert_eq!(server.say(&check["ticket"], json!({ "verdict": "pass" })).await, None);
    }
    followed_by(&network, &[1, 2]).await;
    node.stop().await;
}

#[tokio::test]
async fn a_guard_that_does_not_come_back_refuses_after_a_while_and_one_that_is_unloaded_has_no_say() {
    let disk = FaultDisk::new(9);
    let (node, network) = over(&disk).await;
    let (alice, b) = owing(&network).await;
    node.stop().await;
    drop((alice, b, network, node));
    let (node, network) = over(&disk).await;
    let dropped = || {
        let counted = network.mod_counters().read();
        let of_a = counted.iter().find(|(name, _)| name.as_ref() == "a").map(|(_, c)| c.outcomes.values().sum());
        of_a.unwrap_or(0u64)
    };
    assert_eq!(dropped(), 0, "it waits for the guard");
    tokio::time::timeout(PATIENCE, async {
        while dropped() < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .unwrap();
    let mut b = network.mod_port("b").await;
    assert!(is_silent(&mut b).await, "both are refused for good");
    assert_eq!(followed(&network).await, [] as [Value; 0]);
    // The same with a guard that is unloaded while they wait: nobody is left to ask.
    first_guard(&network).await;
    let alice = Stream::of(&network, "agent:alice").await;
    alice.send(&[note("again", "core")]).await;
    next(&mut b, 1).await;
    node.stop().await;
    drop((alice, b, network, node));
    let (node, network) = over(&disk).await;
    network.admin(AdminOp::RemoveMod("b".to_owned())).await.unwrap();
    followed_by(&network, &[1, 2]).await;
    node.stop().await;
}
