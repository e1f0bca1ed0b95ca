//! Building an engine from a snapshot and the log behind it.

use rialto_engine::record::Change;
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

/// Replays records after one LSN and up to another into an engine; without one, the first record must create the network.
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
    store.replay(class, Some(number), after, &mut |r| {
        if r.lsn > through {
            return ControlFlow::Break(());
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
    match (engine, broken) {
        (_, Some(what)) => Err(LoadError::Unreadable { network: number, what }),
        (None, None) => Err(LoadError::Unreadable { network: number, what: "nothing of it is in the log".to_owned() }),
        (Some(engine), None) => Ok((engine, last)),
    }
}
