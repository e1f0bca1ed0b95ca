//! Verifying: every checksum, and the state rebuilt in two ways compared with the live one.

use crate::blobs::Hash;
use crate::task::load;
use rialto_model::hex;
use rialto_model::view::{Problem, VerificationReport, VerifiedNetwork};
use rialto_store::{Class, Damage, Store, StoreError};
use std::collections::BTreeMap;

/// Seed of look-ups that live as long as a comparison.
const HASH_SEED: u64 = 1;

/// A live network's state to compare with: the LSN it is at and its hash.
pub type LiveStates = BTreeMap<u32, (u64, [u8; 32])>;

/// Reads everything and compares. Problems are in the report, not errors.
pub fn verify(
    store: &dyn Store,
    live: &LiveStates,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<VerificationReport, StoreError> {
    let report = store.verify(progress)?;
    let problem = |damage: &Damage| Problem {
        file: Some(damage.file.display().to_string()),
        offset: Some(damage.offset),
        what: damage.what.clone(),
        ..Problem::default()
    };
    let mut problems: Vec<Problem> = report.damage.iter().map(problem).collect();
    let mut networks = Vec::new();
    if problems.is_empty() {
        for info in store.networks()? {
            networks.push(network(store, info.class, info.network, live.get(&info.network), &mut problems));
        }
    }
    Ok(VerificationReport {
        ok: problems.is_empty(),
        problems,
        records: report.records,
        segments: report.segments,
        snapshots: report.snapshots,
        blobs: report.blobs,
        networks,
        // A repair has said what they cost.
        written_off: report.written_off.iter().map(ToString::to_string).collect(),
    })
}

fn problem_of(network: u32, what: impl Into<String>) -> Problem {
    Problem { network: Some(network), what: what.into(), ..Problem::default() }
}

fn network(
    store: &dyn Store,
    class: Class,
    number: u32,
    live: Option<&(u64, [u8; 32])>,
    problems: &mut Vec<Problem>,
) -> VerifiedNetwork {
    let through = live.map_or(u64::MAX, |(lsn, _)| *lsn);
    let from_snapshot = load::load_through(store, class, number, through, HASH_SEED);
    // A log of which something was freed cannot be replayed from the start.
    let from_start = load::replay_through(store, class, number, (0, through), None, HASH_SEED).ok();
    let fast = match from_snapshot {
        Ok((engine, _)) => engine,
        Err(load::LoadError::Unfinished { .. }) => {
            return VerifiedNetwork::Unfinished { network: number, unfinished_import: true };
        }
        Err(error) => {
            problems.push(problem_of(number, error.to_string()));
            return VerifiedNetwork::Failed { network: number, ok: false };
        }
    };
    let hash = fast.state.hash();
    if let Some((slow, _)) = &from_start
        && slow.state.hash() != hash
    {
        problems.push(problem_of(number, "the state from the snapshot differs from the state from the whole log"));
    }
    if let Some((_, live)) = live
        && *live != hash
    {
        problems.push(problem_of(number, "the live state differs from the state in the log"));
    }
    let blobs = named_blobs(store, number, fast.state.blobs(), problems).unwrap_or_else(|error| {
        problems.push(problem_of(number, error.to_string()));
        0
    });
    VerifiedNetwork::Rebuilt {
        network: number,
        id: fast.state.book.id.clone(),
        events: fast.state.book.head,
        state: hex::text(&hash),
        blobs,
        from_start: from_start.is_some(),
        compared_with_live: live.is_some(),
    }
}

/// Sees that every blob a network's book names is there and has the size the book gives it; adds what is wrong to
/// `problems` and gives how many different ones were looked at. That a blob's content has the hash of its name is the
/// store's own pass (`Store::verify`), which reads all of them once.
///
/// On a running node under a hold ([`crate::blobs::Blobs::hold`]) from before the state was taken.
pub fn named_blobs(
    store: &dyn Store,
    network: u32,
    named: impl IntoIterator<Item = (Hash, u64)>,
    problems: &mut Vec<Problem>,
) -> Result<u64, StoreError> {
    let named: std::collections::BTreeSet<(Hash, u64)> = named.into_iter().collect();
    for (hash, size) in &named {
        let blob = hex::text(hash);
        let what = match store.open_blob(&blob)?.map(|reader| reader.size()) {
            None => "a blob that the state names is missing".to_owned(),
            Some(there) if there != *size => format!("a blob has {there} bytes where the state says {size}"),
            Some(_) => continue,
        };
        problems.push(Problem { blob: Some(blob), ..problem_of(network, what) });
    }
    Ok(named.len() as u64)
}
