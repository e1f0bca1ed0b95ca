//! One bit turns in a data directory that was closed in order, ten thousand times: each is found and named, repaired, or harmless; no
//! answer is ever wrong. The store's files are judged in memory, the SQLite files beside them on disk, a few with the real program.
//! `RIALTO_FLIPS` says how many.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the helpers of a test fail as the test does"
)]

mod databases;
mod disk;
mod judge;
mod program;

use disk::{Image, MemDisk};
use judge::{Answers, DATA, Fate, judge, options};
use rialto_model::network::Preset;
use rialto_node::{Caller, CreateNetwork, Network, Node};
use rialto_sim::harness::{Chance, note, seed};
use rialto_store::{LocalOptions, LocalStore};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

const FLIPS: u64 = 8_000;

pub(crate) fn flips(default: u64) -> u64 {
    let scale = std::env::var("RIALTO_FLIPS").map(|text| text.parse::<u64>().expect("RIALTO_FLIPS is a number"));
    scale.map_or(default, |all| all * default / 10_000)
}

async fn send(network: &Network, caller: &Arc<Caller>, event: &Value) -> Value {
    let answers = network.session(caller).emit(event.to_string().into()).await.unwrap();
    let answer = answers.into_iter().next().unwrap();
    *answer.result.unwrap_or_else(|fault| panic!("{event}: {fault}")).result.unwrap_or_default()
}

async fn join(network: &Network, name: &str) -> Arc<Caller> {
    let operator = Arc::new(Caller { operator: true, ..Caller::default() });
    let event = json!({ "type": "network.agent.join", "source": name, "target": "core" });
    let result = send(network, &operator, &event).await;
    let session = rialto_node::identity::sha256(result["session_id"].as_str().unwrap());
    Arc::new(Caller { bearer: Some(session), ..Caller::default() })
}

/// Makes a directory with segments, sidecars, spares, snapshots, control files and blobs, closed in order.
async fn make() -> Image {
    let disk = MemDisk::default();
    for life in 0..3 {
        let options = LocalOptions { manual: false, ..options() };
        let store = Arc::new(LocalStore::open_on(disk.clone(), DATA, options).unwrap());
        let node = Node::over(store.clone(), None, false).await.unwrap();
        if life == 0 {
            for name in ["first", "second"] {
                node.create_network(CreateNetwork::named(name, Preset::Workspace)).await.unwrap();
            }
        }
        for (network, at) in node.networks().iter().zip(0..) {
            let (alice, bob) = (join(network, "agent:alice").await, join(network, "agent:bob").await);
            for n in 0..12 {
                let id = format!("e{life}-{at}-{n}");
                let text = format!("text of {id} {}", "x".repeat(n * 17 % 90));
                send(network, &alice, &note(&id, "agent:broadcast", &text)).await;
                if n % 5 == 0 {
                    network.session(&bob).ack(vec![id], None).await.unwrap();
                }
            }
            // Content that nothing names would be cleaned up by the next life.
            if at == 0 {
                let payload = json!({ "address": format!("resource/file/{life}"), "content": "b".repeat(300 + life) });
                let event = json!({ "type": "network.resource.register", "target": "core", "payload": payload });
                send(network, &alice, &event).await;
            }
        }
        node.stop().await;
    }
    disk.image()
}

/// Where a bit turns: half of them anywhere, half in a file chosen first, so that small files have their share.
pub(crate) fn place<'a>(files: &'a [(PathBuf, u64)], chance: &mut Chance) -> (&'a PathBuf, u64) {
    let total: u64 = files.iter().map(|(_, len)| len).sum();
    if chance.below(2) == 0 {
        let (path, len) = &files[chance.below(files.len() as u64) as usize];
        return (path, chance.below(len * 8));
    }
    let mut at = chance.below(total * 8);
    for (path, len) in files {
        if at < len * 8 {
            return (path, at);
        }
        at -= len * 8;
    }
    unreachable!("within all files")
}

pub(crate) fn turn(bytes: &mut [u8], bit: u64) {
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
}

/// What a file is, for the table.
fn kind(path: &std::path::Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    match name.rsplit_once('.') {
        Some((stem, "seg")) if stem.starts_with("spare") => "spare segment".to_owned(),
        Some((_, "seg")) => "segment".to_owned(),
        Some((_, "idx")) => "sidecar".to_owned(),
        Some((_, "snap")) => "snapshot".to_owned(),
        _ if name.len() == 64 => "blob".to_owned(),
        _ => name.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_turned_bit_in_the_store_is_found_or_harmless() {
    let seed = seed();
    let mut chance = Chance::new(seed);
    let image = make().await;
    let whole = tokio::task::spawn_blocking({
        let image = image.clone();
        move || Answers::of(&image)
    })
    .await
    .unwrap();
    assert!(whole.events.len() > 60 && whole.blobs.len() == 4 && whole.states.len() == 2, "{whole:?}");
    let files: Vec<(PathBuf, u64)> = image
        .iter()
        .filter(|(_, bytes)| !bytes.is_empty())
        .map(|(path, bytes)| (path.clone(), bytes.len() as u64))
        .collect();
    let mut table: BTreeMap<(String, Fate), u64> = BTreeMap::new();
    tokio::task::spawn_blocking(move || {
        for n in 0..flips(FLIPS) {
            let (path, bit) = place(&files, &mut chance);
            let mut damaged = image.clone();
            turn(Arc::make_mut(damaged.get_mut(path).unwrap()).as_mut_slice(), bit);
            let judged = std::panic::catch_unwind(|| judge(&damaged, path, &whole));
            let fate = judged.unwrap_or_else(|_| panic!("seed {seed}, flip {n}: bit {bit} of {}", path.display()));
            *table.entry((kind(path), fate)).or_default() += 1;
        }
        eprintln!("{table:#?}");
        for found in ["segment", "sidecar", "snapshot", "blob", "control", "FORMAT"] {
            let fates = || table.iter().filter(|((kind, _), _)| kind == found);
            assert!(
                fates().any(|((_, fate), _)| *fate != Fate::Harmless),
                "no damage in a {found} was found: {table:?}"
            );
        }
        let harmless = |kind: &str| table.get(&(kind.to_owned(), Fate::Harmless)).copied().unwrap_or(0);
        for never in ["sidecar", "snapshot", "blob", "control"] {
            assert_eq!(harmless(never), 0, "{never}: every bit of it means something");
        }
    })
    .await
    .unwrap();
}
