//! The typed door: a session is opened with credentials, and everything is done through it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::Preset;
use rialto_model::{ErrorCode, Fault, Role};
use rialto_node::identity::Secret;
use rialto_node::{
    Arrival, CreateNetwork, Credentials, Draft, Filter, Hello, InboxOptions, Mailbox, Network, NetworkRef, Node, Query,
    Session, View, Woken,
};
use rialto_store::MemoryStore;
use std::sync::Arc;
use std::time::Duration;

/// Mail that has not come after so long will not come.
const PATIENCE: Duration = Duration::from_secs(30);

async fn node() -> (Node, Network, Secret) {
    let node = Node::over(Arc::new(MemoryStore::new()), None, false).await.unwrap();
    node.refuse_strangers();
    let (network, token) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    (node, network, token.unwrap())
}

fn with(bearer: &Secret) -> Credentials {
    Credentials { bearer: Some(bearer.clone()), ..Credentials::default() }
}

async fn open(node: &Node, token: &Secret, name: &str) -> Session {
    node.open_session(&NetworkRef::ByCredential, &with(token), &Hello::agent(name), None).await.unwrap()
}

fn code<T: std::fmt::Debug>(result: Result<T, Fault>) -> ErrorCode {
    result.unwrap_err().code
}

/// Position, text and attempt of the next message; other mail and signals pass by.
async fn message(mailbox: &mut Mailbox) -> (u64, String, Option<u32>) {
    loop {
        let arrival = tokio::time::timeout(PATIENCE, mailbox.next()).await.expect("mail comes").unwrap();
        if let Arrival::Mail(event, attempt) = arrival
            && event.kind() == "workspace.message.posted"
        {
            let payload: serde_json::Value = serde_json::from_str(event.payload()).unwrap();
            return (event.seq, payload["content"].as_str().unwrap().to_owned(), attempt);
        }
    }
}

#[tokio::test]
async fn a_session_is_opened_with_a_credential_and_with_nothing_less() {
    let (node, network, token) = node().await;
    let ana = open(&node, &token, "ana").await;
    assert_eq!(ana.address(), Some("agent:ana"));
    let (wrong, named) = (Secret::presented("not-a-token-of-this-network"), NetworkRef::Named("main".into()));
    let ben = Hello::agent("ben");
    assert_eq!(code(node.open_session(&named, &with(&wrong), &ben, None).await), ErrorCode::InvalidToken);
    let nothing = Credentials::default();
    assert_eq!(code(node.open_session(&named, &nothing, &ben, None).await), ErrorCode::TokenRequired);
    let nowhere = NetworkRef::Named("nowhere".into());
    assert_eq!(code(node.open_session(&nowhere, &with(&token), &ben, None).await), ErrorCode::NetworkNotFound);
    let bad = Hello::agent("not a name");
    assert_eq!(code(node.open_session(&named, &with(&token), &bad, None).await), ErrorCode::InvalidAddress);
    // Its own secret goes on with the same session.
    let again = node.open_session(&named, &with(ana.secret().unwrap()), &Hello::agent("ana"), None).await.unwrap();
    assert!(again.secret().unwrap().matches(&ana.secret().unwrap().sha256()));
    ana.send(&Draft::message("channel/general", "both work").unwrap()).await.unwrap();
    again.send(&Draft::message("channel/general", "both work").unwrap()).await.unwrap();
    // Who asks for less has less.
    let eve = Hello { role: Some(Role::Observer), ..Hello::agent("eve") };
    let eve = node.open_session(&named, &with(&token), &eve, None).await.unwrap();
    let said = eve.send(&Draft::message("channel/general", "me too").unwrap()).await;
    assert_eq!(code(said), ErrorCode::ObserverReadOnly);
    // A token is no session, and a network that is not listed is not there for strangers.
    assert!(network.session(ana.caller()).address().is_none());
    node.stop().await;
}

#[tokio::test]
async fn a_key_or_an_id_again_is_the_same_event() {
    let (node, _, token) = node().await;
    let ana = open(&node, &token, "ana").await;
    for draft in [
        Draft { key: Some("k1".to_owned()), ..Draft::message("channel/general", "once").unwrap() },
        Draft { id: Some("chosen".to_owned()), ..Draft::message("channel/general", "once").unwrap() },
    ] {
        let (first, second) = (ana.send(&draft).await.unwrap(), ana.send(&draft).await.unwrap());
        assert_eq!((first.duplicate, second.duplicate), (false, true));
        assert_eq!((&first.id, first.seq), (&second.id, second.seq));
    }
    node.stop().await;
}

#[tokio::test]
async fn mail_comes_in_order_and_again_until_it_is_acked() {
    let (node, _, token) = node().await;
    let (ana, ben) = (open(&node, &token, "ana").await, open(&node, &token, "ben").await);
    let mut sent = Vec::new();
    // More than the window holds, so that a part of it is read from the store.
    for n in 0..40 {
        sent.push(ana.send(&Draft::message("agent:ben", &n.to_string()).unwrap()).await.unwrap().seq.unwrap());
    }
    let options = InboxOptions { window: Some(8), ..InboxOptions::default() };
    let mut mailbox = ben.inbox(&options).await.unwrap();
    let mut sent = sent.into_iter().zip(0..);
    for (wanted, n) in sent.by_ref().take(20) {
        let (seq, text, attempt) = message(&mut mailbox).await;
        assert_eq!((seq, text, attempt), (wanted, n.to_string(), Some(1)));
        assert_eq!(mailbox.ack(vec![seq]).await.unwrap(), 1);
        assert_eq!(mailbox.ack(vec![seq]).await.unwrap(), 0, "it is acked once");
    }
    // Received and not acked: it comes again on the next connection, and what was acked does not.
    assert_eq!(message(&mut mailbox).await.1, "20");
    drop(mailbox);
    let mut mailbox = ben.inbox(&InboxOptions::default()).await.unwrap();
    for (wanted, n) in sent {
        let (seq, text, _) = message(&mut mailbox).await;
        assert_eq!((seq, text), (wanted, n.to_string()));
    }
    node.stop().await;
    let over = loop {
        if let Err(fault) = tokio::time::timeout(PATIENCE, mailbox.next()).await.expect("it ends") {
            break fault;
        }
    };
    assert_eq!(over.code, ErrorCode::ShuttingDown);
}

#[tokio::test]
async fn mail_is_for_members_and_ends_with_their_session() {
    let (node, network, token) = node().await;
    let ana = open(&node, &token, "ana").await;
    let mut mailbox = ana.inbox(&InboxOptions::default()).await.unwrap();
    assert_eq!(code(network.session(ana.caller()).inbox(&InboxOptions::default()).await), ErrorCode::NotAMember);
    let wide = InboxOptions { window: Some(1 << 20), ..InboxOptions::default() };
    assert_eq!(code(ana.inbox(&wide).await), ErrorCode::InvalidArgument);
    // Somebody takes the name over, as the network's token alone allows.
    let other = open(&node, &token, "ana").await;
    let ended = loop {
        if let Err(fault) = tokio::time::timeout(PATIENCE, mailbox.next()).await.expect("it ends") {
            break fault;
        }
    };
    assert_eq!(ended.code, ErrorCode::SessionRevoked);
    assert_eq!(
        code(ana.send(&Draft::message("channel/general", "still me").unwrap()).await),
        ErrorCode::SessionRevoked
    );
    other.send(&Draft::message("channel/general", "me now").unwrap()).await.unwrap();
    node.stop().await;
}

#[tokio::test]
async fn following_misses_nothing_and_repeats_nothing() {
    let (node, _, token) = node().await;
    let (ana, ben) = (open(&node, &token, "ana").await, open(&node, &token, "ben").await);
    let said = |n: usize| Draft::message("channel/general", &n.to_string()).unwrap();
    for n in 0..10 {
        ana.send(&said(n)).await.unwrap();
    }
    let filter = Filter { kind: Some("workspace.message.posted".to_owned()), ..Filter::default() };
    let query = Query { view: Some(View::Log), limit: Some(3), filter, ..Query::default() };
    let mut follow = ben.follow(query);
    let talks = tokio::spawn(async move {
        for n in 10..60 {
            ana.send(&said(n)).await.unwrap();
        }
    });
    let mut heard = Vec::new();
    while heard.len() < 60 {
        let page = tokio::time::timeout(PATIENCE, follow.next()).await.expect("it comes").unwrap();
        heard.extend(page.events.iter().map(|record| record.event.payload().to_owned()));
    }
    talks.await.unwrap();
    let expected: Vec<String> = (0..60).map(|n| format!(r#"{{"content":"{n}"}}"#)).collect();
    assert_eq!(heard, expected);
    // Nothing more comes: a reader whose time is over hears so.
    let mut follow = follow.within(Duration::from_millis(20));
    assert!(!follow.next().await.unwrap().has_something());
    assert_eq!(follow.wait().await.unwrap(), Woken::TimeIsOver);
    node.stop().await;
    assert_eq!(code(ben.follow(Query::default()).next().await), ErrorCode::ShuttingDown);
}
