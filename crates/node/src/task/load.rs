//! Building an engine from a snapshot and the log behind it.

use rialto_engine::record::{Change, KIND_EVENT, KIND_STATE, StatePiece};
use rialto_engine::{Engine, Record, State};
use rialto_store::{Class, Store, StoreError};
use std::ops::ControlFlow;

/// Why a network cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record or snapshot is not readable by this version.
    #[error("network {network}: {what}")]
    Unreadable {
        /// Its number.
        network: u32,
        /// What is wrong.
        what: String,
    },
    /// It was being imported, and the import did not come to its end: nothing of it counts.
    #[error("network {network}: its import was cut short")]
    Unfinished {
        /// Its number.
        network: u32,
        /// The last record of it; none if it was [set aside](set_aside) before.
        last: Option<u64>,
    },
}

/// The snapshot of an import that was set aside.
const SET_ASIDE: &[u8] = b"RIALIMP0";

/// Notes that an import did not come to its end, so that its records are freed with those around them.
pub(crate) fn set_aside(store: &dyn Store, class: Class, number: u32, last: u64) -> Result<(), StoreError> {
    // Twice: both kept snapshots must cover what is freed.
    (0..2).try_for_each(|_| store.save_snapshot(class, number, last, SET_ASIDE))
}

/// Loads a network: newest snapshot, then every record behind it. Gives the LSN it is at.
pub(crate) fn load(store: &dyn Store, class: Class, number: u32, seed: u64) -> Result<(Engine, u64), LoadError> {
    load_through(store, class, number, u64::MAX, seed)
}

/// Loads a network as it was at an LSN.
pub(crate) fn load_through(
    store: &dyn Store,
    class: Class,
    number: u32,
    through: u64,
    seed: u64,
) -> Result<(Engine, u64), LoadError> {
    let mut after = 0;
    let mut engine = None;
    while let Some(snapshot) = store.load_snapshot(number, through)? {
        if snapshot.bytes == SET_ASIDE {
            return Err(LoadError::Unfinished { network: number, last: None });
        }
        match State::from_snapshot(&snapshot.bytes, seed) {
            Ok(state) => {
                after = snapshot.lsn;
                engine = Some(Engine::new(state));
                break;
            }
            // Its checksum is right and it still cannot be read: an older one, or the log from its start, must do.
            Err(error) => store.reject_snapshot(number, snapshot.lsn, &format!("cannot be decoded: {error}"))?,
        }
    }
    replay_through(store, class, number, (after, through), engine, seed)
}

/// Replays records after one LSN and up to another into an engine; without one, the first record must create the network or
/// begin its import.
pub(crate) fn replay_through(
    store: &dyn Store,
    class: Class,
    number: u32,
    (after, through): (u64, u64),
    engine: Option<Engine>,
    seed: u64,
) -> Result<(Engine, u64), LoadError> {
    let mut engine = engine;
    let mut broken = None;
    let mut last = after;
    // What has come of the state of an import that has begun.
    let mut import: Option<Vec<u8>> = None;
    store.replay(class, Some(number), after, &mut |r| {
        if r.lsn > through {
            return ControlFlow::Break(());
        }
        if r.kind == KIND_STATE || import.is_some() && r.kind == KIND_EVENT {
            last = r.lsn;
            let piece =
                if r.kind == KIND_STATE { StatePiece::decode(r.body) } else { Some((StatePiece::Middle, &[][..])) };
            return match piece
                .ok_or_else(|| "a piece of its state has no kind".to_owned())
                .and_then(|piece| take_piece(&mut import, piece, seed))
            {
                Ok(state) => {
                    engine = state.map(Engine::new).or(engine.take());
                    ControlFlow::Continue(())
                }
                Err(what) => {
                    broken = Some(what);
                    ControlFlow::Break(())
                }
            };
        }
        let id = engine.as_ref().map_or("", |e| e.state.book.id.as_ref()).to_owned();
        match Record::decode(r.kind, r.version, r.seq, &id, r.body) {
            Ok(record) => match &mut engine {
                Some(engine) => engine.apply(&record),
                None => {
                    let Some(change @ Change::Created { .. }) = record.change() else {
                        broken =
                            Some(format!("the log begins with record {} instead of the network's creation", r.lsn));
                        return ControlFlow::Break(());
                    };
                    match State::created(change, seed) {
                        Some(state) => engine = Some(Engine::new(state)),
                        None => {
                            broken = Some("its creation record is not valid".to_owned());
                            return ControlFlow::Break(());
                        }
                    }
                }
            },
            Err(error) => {
                broken = Some(error.to_string());
                return ControlFlow::Break(());
            }
        }
        last = r.lsn;
        ControlFlow::Continue(())
    })?;
    if import.is_some() && broken.is_none() {
        return Err(LoadError::Unfinished { network: number, last: Some(last) });
    }
    match (engine, broken) {
        (_, Some(what)) => Err(LoadError::Unreadable { network: number, what }),
        (None, None) => Err(LoadError::Unreadable { network: number, what: "nothing of it is in the log".to_owned() }),
        (Some(engine), None) => Ok((engine, last)),
    }
}

/// Takes a piece of an imported state; returns the state with the last one.
fn take_piece(
    import: &mut Option<Vec<u8>>,
    (kind, piece): (StatePiece, &[u8]),
    seed: u64,
) -> Result<Option<State>, String> {
    if kind == StatePiece::Begin {
        *import = Some(Vec::new());
        return Ok(None);
    }
    let bytes = import.as_mut().ok_or("a piece of its state comes before the beginning")?;
    bytes.extend_from_slice(piece);
    if kind == StatePiece::Middle {
        return Ok(None);
    }
    let bytes = import.take().unwrap_or_default();
    State::from_snapshot(&bytes, seed).map(Some).map_err(|error| error.to_string())
}
