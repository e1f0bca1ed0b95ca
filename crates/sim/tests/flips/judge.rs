//! What a directory answers, and what became of one turned bit in it.

use crate::disk::{Image, MemDisk};
use rialto_node::verify::{LiveStates, verify};
use rialto_store::{Class, LocalOptions, LocalStore, Record, Seqs, Store, StoreError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

pub(crate) const DATA: &str = "/data";

pub(crate) fn options() -> LocalOptions {
    LocalOptions {
        first_segment_bytes: 4096,
        max_segment_bytes: 8192,
        free_floor_bytes: 0,
        seed: Some(7),
        manual: true,
        ..LocalOptions::default()
    }
}

/// Everything that can be read.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Answers {
    pub(crate) events: BTreeMap<(u32, u64), Record>,
    /// By network and key.
    pub(crate) keys: BTreeMap<(u32, u64), Vec<u64>>,
    pub(crate) replayed: Vec<Record>,
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    /// State hash of each network.
    pub(crate) states: BTreeMap<u64, String>,
}

/// What became of a turned bit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// The directory does not open; the damage is named.
    Refused,
    /// It opens, and what is damaged was set aside or rebuilt and named.
    Repaired,
    /// It opens; reading the damaged place is an error and `verify` names it.
    Named,
    /// Nobody noticed, and there is nothing to notice: every answer is as before.
    Harmless,
}

fn collect(out: &mut Vec<Record>) -> impl FnMut(rialto_store::RecordRef<'_>) -> ControlFlow<()> {
    |record| {
        out.push(record.to_record());
        ControlFlow::Continue(())
    }
}

impl Answers {
    /// All answers of a directory that is whole.
    pub(crate) fn of(image: &Image) -> Answers {
        let store = LocalStore::open_on(MemDisk::of(image), DATA, options()).unwrap();
        let mut answers = Answers::default();
        store.replay(Class::STD, None, 0, &mut collect(&mut answers.replayed)).unwrap();
        for info in store.networks().unwrap() {
            let mut events = Vec::new();
            store.read(info.network, Seqs::Range(0..u64::MAX), &mut collect(&mut events)).unwrap();
            for event in events {
                if event.key != 0 {
                    let seqs = store.find(info.network, event.key).unwrap();
                    assert!(seqs.contains(&event.seq));
                    answers.keys.insert((info.network, event.key), seqs);
                }
                answers.events.insert((info.network, event.seq), event);
            }
        }
        for blob in store.list_blobs().unwrap() {
            answers.blobs.insert(blob.hash.clone(), read_blob(&store, &blob.hash).unwrap());
        }
        let report = json!(verify(&store, &LiveStates::new(), &mut |_, _| {}).unwrap());
        assert_eq!(report["ok"], true, "{report}");
        answers.states = states(&report);
        answers
    }
}

fn read_blob(store: &dyn Store, hash: &str) -> Result<Vec<u8>, StoreError> {
    let blob = store.open_blob(hash)?.unwrap_or_else(|| panic!("blob {hash} is missing"));
    let mut bytes = vec![0; usize::try_from(blob.size()).unwrap()];
    blob.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn states(report: &Value) -> BTreeMap<u64, String> {
    let networks = report["networks"].as_array().unwrap().iter();
    networks.map(|n| (n["network"].as_u64().unwrap(), n["state"].as_str().unwrap_or("none").to_owned())).collect()
}

/// Whether an answer is right or an error that names damage; anything else fails the test.
fn right<T: PartialEq + std::fmt::Debug>(what: &str, found: Result<T, StoreError>, expected: &T) -> bool {
    match found {
        Ok(found) => {
            assert!(found == *expected, "a wrong answer: {what} is {found:?}, not {expected:?}");
            true
        }
        Err(StoreError::Damaged(_)) => false,
        Err(error) => panic!("{what}: {error}"),
    }
}

/// Opens a directory with one bit turned in `file`, asks everything, and says what became of it.
pub(crate) fn judge(image: &Image, file: &Path, whole: &Answers) -> Fate {
    let store = match LocalStore::open_on(MemDisk::of(image), DATA, options()) {
        Ok(store) => store,
        Err(StoreError::Damaged(damage)) => {
            assert!(names(&damage.file, file), "{} was damaged, not {damage}", file.display());
            return Fate::Refused;
        }
        Err(StoreError::NewerFormat { path, .. }) => {
            assert_eq!(path, file);
            return Fate::Refused;
        }
        Err(error) => panic!("{}: {error}", file.display()),
    };
    let mut all_right = true;
    for ((network, seq), event) in &whole.events {
        let mut found = Vec::new();
        let read = store.read(*network, Seqs::These(&[*seq]), &mut collect(&mut found));
        all_right &= right("an event", read.map(|()| found), &vec![event.clone()]);
    }
    for ((network, key), seqs) in &whole.keys {
        all_right &= right("an id", store.find(*network, *key), seqs);
    }
    let mut replayed = Vec::new();
    let replay = store.replay(Class::STD, None, 0, &mut collect(&mut replayed));
    assert!(whole.replayed.starts_with(&replayed), "a replay that is wrong");
    all_right &= right("the log", replay.map(|_| replayed.len()), &whole.replayed.len());
    let damage = {
        let report = json!(verify(&store, &LiveStates::new(), &mut |_, _| {}).unwrap());
        // A state is either the right one or not given.
        for (network, state) in states(&report) {
            assert!(state == "none" || whole.states.get(&network) == Some(&state), "{network}: {report}");
        }
        let problems = report["problems"].as_array().unwrap().clone();
        let named = problems.iter().filter_map(|p| p["file"].as_str()).any(|found| names(Path::new(found), file));
        assert!(problems.is_empty() || named, "{}: {report}", file.display());
        problems
    };
    let blobs_right = whole.blobs.iter().all(|(hash, bytes)| read_blob(&store, hash).unwrap() == *bytes);
    let notes = store.health().notes;
    assert!(blobs_right || !damage.is_empty(), "a blob changed and nobody noticed");
    match (all_right && blobs_right, damage.is_empty(), notes.iter().any(|note| names(&note.file, file))) {
        (true, true, true) => Fate::Repaired,
        (true, true, false) => Fate::Harmless,
        (_, false, _) => Fate::Named,
        (false, true, _) => panic!("{}: damage was met in reading and not by verify", file.display()),
    }
}

/// Whether damage in `found` is said of `file`; of a log's end its control file may speak, and of a snapshot its log.
fn names(found: &Path, file: &Path) -> bool {
    found == file || (found.parent() == file.parent() && file.ends_with("control"))
}
