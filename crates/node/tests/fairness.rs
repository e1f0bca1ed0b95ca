//! Fairness across senders: whoever floods a network gets its turns, and so does everybody else. Counted in events, not in time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::Preset;
use rialto_node::identity::sha256;
use rialto_node::{Caller, CreateNetwork, Inbox, Network, Node, Out, Outbox, Query, View};
use rialto_store::MemoryStore;
use serde_json::json;
use std::sync::Arc;

/// Events of one connection that may come before another has its turn.
const TURN: usize = 256;
const FLOOD: usize = 32 * 64;
const POLITE: usize = 4;

async fn join(network: &Network, name: &str) -> Arc<Caller> {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let event = json!({ "type": "network.agent.join", "source": format!("agent:{name}"), "target": "core" });
    let answers = network.session(&operator).emit(event.to_string().into()).await.unwrap();
    let joined = answers.into_iter().next().unwrap().result.unwrap().result.unwrap();
    let bearer = Some(sha256(joined["session_id"].as_str().unwrap()));
    Arc::new(Caller { bearer, ..Caller::default() })
}

/// A stream that has joined: its connection, and where its answers come.
async fn stream(network: &Network, name: &str) -> (u64, Outbox, Inbox) {
    let (outbox, mut inbox) = rialto_node::outbox(1 << 16);
    let connection = network.connection();
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let event = json!({ "type": "network.agent.join", "source": format!("agent:{name}"), "target": "core" });
    network.session(&operator).emit_stream(connection, event.to_string().into(), &outbox).await.unwrap();
    answers(&mut inbox, 1).await;
    (connection, outbox, inbox)
}

/// Waits for so many answers.
async fn answers(inbox: &mut Inbox, wanted: usize) {
    let mut answered = 0;
    while answered < wanted {
        for out in inbox.recv().await.unwrap() {
            if let Out::Answers(list) = out {
                list.iter().for_each(|a| assert!(a.result.is_ok(), "{:?}", a.result));
                answered += list.len();
            }
        }
    }
}

/// Sources of all notes, in the order of their commit.
async fn committed(network: &Network) -> Vec<String> {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let query = Query { after, view: Some(View::Log), limit: Some(500), ..Query::default() };
        let page = network.session(&operator).query(&query).await.unwrap();
        let notes = page.events.iter().filter(|r| r.event.kind() == "app.note");
        all.extend(notes.map(|r| r.event.source().to_owned()));
        if !page.has_more {
            return all;
        }
        after = Some(format!("seq:{}", page.next));
    }
}

/// One thread: everything is in the queue before the network's task looks into it, and the order is the task's own doing.
#[tokio::test(flavor = "current_thread")]
async fn a_flood_on_one_connection_does_not_hold_up_the_others() {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Plain)).await.unwrap();
    let requester = join(&network, "requester").await;
    let mut flood = stream(&network, "flood").await;
    let mut polite = Vec::new();
    for n in 0..POLITE {
        polite.push(stream(&network, &format!("polite-{n}")).await);
    }
    let note = json!({ "type": "app.note", "target": "core", "payload": {} }).to_string();
    let nobody = Arc::new(Caller::default());
    for _ in 0..FLOOD / 64 {
        let texts = std::iter::repeat_n(note.clone(), 64).collect();
        network.session(&nobody).emit_stream(flood.0, texts, &flood.1).await.unwrap();
    }
    for (connection, outbox, _) in &polite {
        let texts = std::iter::repeat_n(note.clone(), 10).collect();
        network.session(&nobody).emit_stream(*connection, texts, outbox).await.unwrap();
    }
    // A request that comes last of all.
    let asked = network.session(&requester).emit(note.clone().into()).await.unwrap();
    assert!(asked[0].result.is_ok());
    let total = FLOOD + POLITE * 10 + 1;
    answers(&mut flood.2, FLOOD).await;
    for (_, _, inbox) in &mut polite {
        answers(inbox, 10).await;
    }
    let order = committed(&network).await;
    assert_eq!(order.len(), total);
    let last = |name: &str| order.iter().rposition(|source| source == name).unwrap();
    for n in 0..POLITE {
        // One turn of the flood and those of the others may come before; all of the flood may not.
        let bound = TURN + POLITE * 10 + 1;
        assert!(
            last(&format!("agent:polite-{n}")) < bound,
            "polite-{n} waited for {} events",
            last(&format!("agent:polite-{n}"))
        );
    }
    assert_eq!(last("agent:flood"), total - 1, "the flood is served to its end");
    // Nobody's own events change their order, and the flood goes on in turns.
    let first_turn = order.iter().position(|source| source.starts_with("agent:polite-1")).unwrap();
    assert!(first_turn <= TURN + 10 + 1, "the first turn took {first_turn} events");
    node.stop().await;
}
