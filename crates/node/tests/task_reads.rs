//! The network's task reads nothing from the disk for acks, cursors and lists: that is done beside it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use rialto_model::network::Preset;
use rialto_model::{ErrorCode, limits};
use rialto_node::identity::sha256;
use rialto_node::{Caller, CreateNetwork, Network, Node, Out, Query, View, outbox};
use rialto_store::{
    Batch, BlobInfo, BlobReader, BlobWriter, Class, Done, Flush, Freed, Health, Horizon, Lsn, MemoryStore, NetworkInfo,
    Rejected, Rewrite, Seqs, Snapshot, Store, StoreError, VerifyReport, Visit,
};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

/// A store that counts what is read on the thread where the networks' tasks run.
#[derive(Debug)]
struct WorkSight {
    store: MemoryStore,
    tasks: ThreadId,
    reads: AtomicUsize,
}

impl WorkSight {
    fn note(&self) {
        if thread::current().id() == self.tasks {
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
    }
}

type StoredUpload<T> = Result<T, StoreError>;

impl Store for WorkSight {
    fn read(&self, network: u32, seqs: Seqs<'_>, visit: Visit<'_>) -> StoredUpload<()> {
        self.note();
        self.store.read(network, seqs, visit)
    }
    fn find(&self, network: u32, key: u64) -> StoredUpload<Vec<u64>> {
        self.note();
        self.store.find(network, key)
    }
    fn epoch(&self) -> StoredUpload<u64> {
        self.store.epoch()
    }
    fn raise_epoch(&self, to: u64) -> StoredUpload<()> {
        self.store.raise_epoch(to)
    }
    fn append(&self, class: Class, epoch: u64, flush: Flush, batch: Batch, done: Done) -> Result<(), Box<Rejected>> {
        self.store.append(class, epoch, flush, batch, done)
    }
    fn erase(&self, network: u32, seq: u64, body: &[u8]) -> StoredUpload<bool> {
        self.store.erase(network, seq, body)
    }
    fn rewrite(&self, class: Class, network: u32, lsns: RangeInclusive<Lsn>, change: Rewrite<'_>) -> StoredUpload<u64> {
        self.store.rewrite(class, network, lsns, change)
    }
    fn replay(&self, class: Class, network: Option<u32>, after: Lsn, visit: Visit<'_>) -> StoredUpload<Lsn> {
        self.store.replay(class, network, after, visit)
    }
    fn networks(&self) -> StoredUpload<Vec<NetworkInfo>> {
        self.store.networks()
    }
    fn save_snapshot(&self, class: Class, network: u32, lsn: Lsn, bytes: &[u8]) -> StoredUpload<()> {
        self.store.save_snapshot(class, network, lsn, bytes)
    }
    fn load_snapshot(&self, network: u32, through: Lsn) -> StoredUpload<Option<Snapshot>> {
        self.store.load_snapshot(network, through)
    }
    fn reject_snapshot(&self, network: u32, lsn: Lsn, what: &str) -> StoredUpload<()> {
        self.store.reject_snapshot(network, lsn, what)
    }
    fn drop_rejected_snapshots(&self, network: u32) -> StoredUpload<()> {
        self.store.drop_rejected_snapshots(network)
    }
    fn recycle(&self, class: Class, horizons: &[Horizon]) -> StoredUpload<Freed> {
        self.store.recycle(class, horizons)
    }
    fn put_blob(&self) -> StoredUpload<Box<dyn BlobWriter>> {
        self.store.put_blob()
    }
    fn open_blob(&self, hash: &str) -> StoredUpload<Option<Box<dyn BlobReader>>> {
        self.store.open_blob(hash)
    }
    fn has_blob(&self, hash: &str) -> StoredUpload<bool> {
        self.store.has_blob(hash)
    }
    fn remove_blob(&self, hash: &str) -> StoredUpload<bool> {
        self.store.remove_blob(hash)
    }
    fn list_blobs(&self) -> StoredUpload<Vec<BlobInfo>> {
        self.store.list_blobs()
    }
    fn health(&self) -> Health {
        self.store.health()
    }
    fn reopen(&self, network: u32) -> StoredUpload<()> {
        self.store.reopen(network)
    }
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> StoredUpload<VerifyReport> {
        self.store.verify(progress)
    }
    fn close(&self) -> StoredUpload<()> {
        self.store.close()
    }
}

async fn emit(network: &Network, caller: &Arc<Caller>, events: &[Value]) {
    let answers = network.session(caller).emit(events.iter().map(Value::to_string).collect()).await.unwrap();
    answers.into_iter().for_each(|answer| drop(answer.result.unwrap()));
}

async fn join(network: &Network, name: &str) -> Arc<Caller> {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let join =
        json!({ "type": "network.agent.join", "source": name, "target": "core", "payload": { "receive": "queue" } });
    let answers = network.session(&operator).emit(join.to_string().into()).await.unwrap();
    let session = answers[0].session_id.clone().unwrap();
    Arc::new(Caller { bearer: Some(sha256(&session)), ..Caller::default() })
}

fn inbox() -> Query {
    Query { view: Some(View::Inbox), limit: Some(500), ..Query::default() }
}

/// A network whose first mail for bob is long out of memory: with ids of its sender, and of the network.
async fn with_old_mail() -> (Arc<WorkSight>, Node, Network, Arc<Caller>, Vec<String>) {
    let store =
        Arc::new(WorkSight { store: MemoryStore::new(), tasks: thread::current().id(), reads: AtomicUsize::new(0) });
    let node = Node::over(store.clone(), None, false).await.unwrap();
    let (network, _) = node.create_network(CreateNetwork::named("main", Preset::Workspace)).await.unwrap();
    let (alice, bob) = (join(&network, "agent:alice").await, join(&network, "agent:bob").await);
    let named = |n: usize| {
        let mut event = json!({ "type": "app.note", "target": "agent:bob", "payload": { "content": format!("n{n}") } });
        if n.is_multiple_of(2) {
            event["id"] = json!(format!("id-{n}"));
        }
        event
    };
    emit(&network, &alice, &(0..20).map(named).collect::<Vec<_>>()).await;
    let page = network.session(&bob).query(&inbox()).await.unwrap();
    let ids: Vec<String> = page.events.iter().map(|r| r.event.id().to_owned()).filter(|id| !id.is_empty()).collect();
    assert_eq!(ids.len(), 20);
    let chaff = vec![json!({ "type": "app.chaff", "target": "core" }); 1000];
    for _ in 0..10 {
        emit(&network, &alice, &chaff).await;
    }
    store.reads.store(0, Ordering::Relaxed);
    (store, node, network, bob, ids)
}

#[tokio::test]
async fn acks_cursors_and_lists_read_nothing_inside_the_task() {
    let (store, node, network, bob, ids) = with_old_mail().await;
    let reads = || store.reads.load(Ordering::Relaxed);
    // By HTTP: exact counts, unknown ones ignored, own ids and the sender's.
    let some = vec![ids[0].clone(), ids[1].clone(), "unknown".into(), ids[1].clone()];
    assert_eq!(network.session(&bob).ack(some, None).await.unwrap(), 2);
    assert_eq!(network.session(&bob).ack(Vec::new(), Some(ids[4].clone())).await.unwrap(), 3);
    // A cursor, an explanation, a list of conversations.
    let after = Query { after: Some(ids[9].clone()), ..inbox() };
    assert_eq!(network.session(&bob).query(&after).await.unwrap().events.len(), 10);
    let explained = network.session(&bob).explain(&ids[0]).await.unwrap();
    assert_eq!(json!(explained)["event_id"], json!(ids[0]));
    let list = network.session(&bob).conversations().await.unwrap();
    assert_eq!(list.conversations[0].last_message.content, "n19");
    assert_eq!(list.conversations[0].message_count, 20);
    // By a stream: what is not at hand is acked when it was found.
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let (out, mut news) = outbox(1024);
    let connection = network.connection();
    let join = json!({ "type": "network.agent.join", "source": "agent:bob", "target": "core", "id": "join" });
    network.session(&operator).emit_stream(connection, join.to_string().into(), &out).await.unwrap();
    while !news.recv().await.unwrap().iter().any(|out| matches!(out, Out::Answers(_))) {}
    store.reads.store(0, Ordering::Relaxed);
    let ack = json!({ "type": "network.event.ack", "target": "core", "payload": { "ids": [ids[5], ids[6]] } });
    network.session(&operator).emit_stream(connection, ack.to_string().into(), &out).await.unwrap();
    // What is sent behind the ack is answered when that is done, and a commit behind it has it.
    let ping = json!({ "type": "network.ping", "target": "core" });
    network.session(&operator).emit_stream(connection, ping.to_string().into(), &out).await.unwrap();
    while !news.recv().await.unwrap().iter().any(|out| matches!(out, Out::Answers(_))) {}
    let me = Arc::new(Caller { operator: true, claimed: Some("agent:bob".into()), ..Caller::default() });
    assert_eq!(network.session(&me).query(&inbox()).await.unwrap().events.len(), 13);
    assert_eq!(reads(), 0, "reads on the task's thread");
    node.stop().await;
}

#[tokio::test]
async fn ack_ids_max() {
    let (_, node, network, bob, ids) = with_old_mail().await;
    let mut many = vec![ids[0].clone(); limits::ACK_IDS_MAX];
    assert_eq!(network.session(&bob).ack(many.clone(), None).await.unwrap(), 1);
    many.push(ids[0].clone());
    let fault = network.session(&bob).ack(many.clone(), None).await.unwrap_err();
    assert_eq!((fault.code, &fault.details.unwrap()["field"]), (ErrorCode::TooLarge, &json!("ids")));
    let ack = json!({ "type": "network.event.ack", "target": "core", "payload": { "ids": many } });
    let answers = network.session(&bob).emit(ack.to_string().into()).await.unwrap();
    assert_eq!(answers[0].result.as_ref().unwrap_err().code, ErrorCode::TooLarge);
    node.stop().await;
}

#[tokio::test]
async fn acks_looked_up_max() {
    let (_, node, network, bob, _) = with_old_mail().await;
    let mut readers = Vec::new();
    for n in 0..limits::ACKS_LOOKED_UP_MAX + 5 {
        readers.push(join(&network, &format!("agent:reader-{n}")).await);
    }
    emit(&network, &bob, &[json!({ "id": "all", "type": "app.note", "target": "agent:broadcast" })]).await;
    for _ in 0..10 {
        emit(&network, &bob, &vec![json!({ "type": "app.chaff", "target": "core" }); 1000]).await;
    }
    // On one thread none of them is looked up before all of them are decided.
    let ack = json!({ "type": "network.event.ack", "target": "core", "payload": { "ids": ["all"] } }).to_string();
    let acks: Vec<_> = readers
        .iter()
        .map(|reader| {
            let (network, reader, ack) = (network.clone(), reader.clone(), ack.clone());
            tokio::spawn(async move { network.session(&reader).emit(ack.into()).await.unwrap() })
        })
        .collect();
    let mut refused = Vec::new();
    for (n, answers) in acks.into_iter().enumerate() {
        if let Err(fault) = &answers.await.unwrap()[0].result {
            refused.push((n, fault.code));
        }
    }
    assert_eq!(refused.iter().map(|(_, code)| *code).collect::<Vec<_>>(), [ErrorCode::RateLimited; 5]);
    // The rest was acked, and there is room again.
    for (n, reader) in readers.iter().enumerate() {
        let left = network.session(reader).query(&inbox()).await.unwrap().events.iter().any(|r| r.event.id() == "all");
        assert_eq!(left, refused.iter().any(|(m, _)| *m == n), "{n}");
    }
    for (n, _) in refused {
        let answers = network.session(&readers[n]).emit(ack.clone().into()).await.unwrap();
        assert!(answers[0].result.is_ok());
    }
    node.stop().await;
}

#[tokio::test]
async fn the_acks_of_one_reader_are_looked_up_one_after_the_other_and_none_is_refused() {
    let (_, node, network, bob, ids) = with_old_mail().await;
    // More than may be looked up at once for all members together.
    let acks: Vec<_> = (0..2 * limits::ACKS_LOOKED_UP_MAX)
        .map(|n| {
            let payload = if n % 2 == 0 { json!({ "ids": [ids[n % 20]] }) } else { json!({ "up_to": ids[n % 10] }) };
            let ack = json!({ "type": "network.event.ack", "target": "core", "payload": payload }).to_string();
            let (network, bob) = (network.clone(), bob.clone());
            tokio::spawn(async move { network.session(&bob).emit(ack.into()).await.unwrap() })
        })
        .collect();
    for answers in acks {
        assert!(answers.await.unwrap()[0].result.is_ok());
    }
    // All up to the tenth, and of the others those that were named.
    let looked_up = async {
        while network.session(&bob).query(&inbox()).await.unwrap().events.len() > 5 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), looked_up).await.unwrap();
    let left = network.session(&bob).query(&inbox()).await.unwrap().events;
    assert_eq!(
        left.iter().map(|r| r.event.id()).collect::<Vec<_>>(),
        ids[10..].iter().skip(1).step_by(2).collect::<Vec<_>>()
    );
    node.stop().await;
}
