//! What a mod emits with its verdict is in the same commit as the event it judged: a power cut leaves both or neither.

use super::*;

async fn over(disk: &FaultDisk) -> Node {
    let store = LocalStore::open_on(disk.clone(), "/data", LocalOptions::default()).unwrap();
    Node::over(Arc::new(store), None, false).await.unwrap()
}

/// Types of what history has of the cause and of what follows from it.
async fn left(network: &Network) -> (usize, usize) {
    let query = Query { limit: Some(500), view: Some(View::Log), ..Query::default() };
    let events = network.session(&operator()).query(&query).await.unwrap().events;
    let count = |kind: &str| events.iter().filter(|r| r.event.kind() == kind).count();
    (count("app.note"), count("other.follows"))
}

#[tokio::test]
async fn a_power_cut_leaves_an_event_and_what_was_emitted_with_it_or_neither() {
    let (mut both, mut neither) = (0, 0);
    for steps in 0..10 {
        for seed in 0..3 {
            let disk = FaultDisk::new(seed);
            let node = over(&disk).await;
            let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
            let mut server = Stream::of(&network, "agent:server").await;
            let mut alice = Stream::of(&network, "agent:alice").await;
            server.serve(guard()).await;
            alice.send(&[note("cause", "agent:server")]).await;
            let ticket = server.check().await["ticket"].clone();
            disk.cut_after(steps);
            let follows = |n: u32| json!({ "type": "other.follows", "target": "agent:alice", "payload": { "n": n } });
            let verdict = json!({ "verdict": "pass", "emit": [follows(1), follows(2)] });
            server.verdict(&ticket, verdict).await;
            let answered = loop {
                match alice.next().await {
                    Heard::Answer(id, code) if id == "cause" => break code.is_none(),
                    Heard::Closed => break false,
                    Heard::Answer(..) | Heard::Delivered(_) | Heard::Check(_) => {}
                }
            };
            tokio::time::timeout(PATIENCE, node.stop()).await.unwrap();
            disk.crash();
            let node = over(&disk).await;
            match left(&node.default_network().unwrap()).await {
                (1, 2) => both += 1,
                (0, 0) if !answered => neither += 1,
                other => panic!("cut after {steps} steps, seed {seed}: {other:?} are left, answered: {answered}"),
            }
            node.stop().await;
        }
    }
    assert!(both > 0 && neither > 0, "{both} times both, {neither} times neither");
}
