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

/// A network as far as it can be read.
#[derive(Debug)]
pub(crate) struct Readable {
    /// Its state, up to the last record before the damage.
    pub(crate) engine: Engine,
    /// LSN of that record.
    pub(crate) lsn: u64,
    /// What keeps the rest from being read.
    pub(crate) damage: Option<LoadError>,
}

/// Loads a network as far as it can be read. An error if nothing of it can, or if the disk fails.
pub(crate) fn load_readable(store: &dyn Store, class: Class, number: u32, seed: u64) -> Result<Readable, LoadError> {
    let (engine, after) = from_snapshot(store, number, u64::MAX, seed)?;
    let (engine, lsn, stopped) = replay_as_far(store, class, number, (after, u64::MAX), engine, seed);
    match (engine, stopped) {
        (Some(engine), None) => Ok(Readable { engine, lsn, damage: None }),
        (Some(engine), Some(damage)) if damage.is_damage() => Ok(Readable { engine, lsn, damage: Some(damage) }),
        (_, Some(error)) => Err(error),
        (None, None) => Err(nothing(number)),
    }
}

impl LoadError {
    /// Whether stored bytes are what is wrong, so that trying again does not help.
    pub fn is_damage(&self) -> bool {
        matches!(self, LoadError::Unreadable { .. } | LoadError::Store(StoreError::Damaged(_)))
    }
}

fn nothing(network: u32) -> LoadError {
    LoadError::Unreadable { network, what: "nothing of it is in the log".to_owned() }
}

/// Loads a network as it was at an LSN.
pub(crate) fn load_through(
    store: &dyn Store,
    class: Class,
    number: u32,
    through: u64,
    seed: u64,
) -> Result<(Engine, u64), LoadError> {
    let (engine, after) = from_snapshot(store, number, through, seed)?;
    replay_through(store, class, number, (after, through), engine, seed)
}

/// The newest state at or below an LSN that can be decoded, and its LSN; no state and 0 if there is none.
fn from_snapshot(store: &dyn Store, number: u32, through: u64, seed: u64) -> Result<(Option<Engine>, u64), LoadError> {
    while let Some(snapshot) = store.load_snapshot(number, through)? {
        if snapshot.bytes == SET_ASIDE {
            return Err(LoadError::Unfinished { network: number, last: None });
        }
        match State::from_snapshot(&snapshot.bytes, seed) {
            Ok(state) => return Ok((Some(Engine::new(state)), snapshot.lsn)),
            // Its checksum is right and it still cannot be read: an older one, or the log from its start, must do.
            Err(error) => store.reject_snapshot(number, snapshot.lsn, &format!("cannot be decoded: {error}"))?,
        }
    }
    Ok((None, 0))
}

/// Replays records after one LSN and up to another into an engine; without one, the first record must create the network or
/// begin its import.
pub(crate) fn replay_through(
    store: &dyn Store,
    class: Class,
    number: u32,
    range: (u64, u64),
    engine: Option<Engine>,
    seed: u64,
) -> Result<(Engine, u64), LoadError> {
    match replay_as_far(store, class, number, range, engine, seed) {
        (_, _, Some(error)) => Err(error),
        (Some(engine), last, None) => Ok((engine, last)),
        (None, _, None) => Err(nothing(number)),
    }
}

/// Replays as far as it goes: the state, the last LSN in it, and what stopped it.
fn replay_as_far(
    store: &dyn Store,
    class: Class,
    number: u32,
    (after, through): (u64, u64),
    mut engine: Option<Engine>,
    seed: u64,
) -> (Option<Engine>, u64, Option<LoadError>) {
    let mut broken = None;
    let mut last = after;
    // What has come of the state of an import that has begun.
    let mut import: Option<Vec<u8>> = None;
    let replayed = store.replay(class, Some(number), after, &mut |r| {
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
    });
    let stopped = match (replayed, broken) {
        (Err(error), _) => Some(LoadError::Store(error)),
        (Ok(_), Some(what)) => Some(LoadError::Unreadable { network: number, what }),
        (Ok(_), None) if import.is_some() => Some(LoadError::Unfinished { network: number, last: Some(last) }),
        (Ok(_), None) => None,
    };
    (engine, last, stopped)
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
