//! Repair: what damage has cost each network, and the way on.
//!
//! A damaged network goes back to the last record before the damage. What came behind it was built on what cannot be read any more:
//! members and channels are numbered in order, so leaving out one record would give later ones another meaning. The events behind the
//! damage that can still be read are kept as text, to be sent again. A network that has a whole snapshot behind the damage loses only
//! what the history cannot show. Not here: copies of the bad bytes (the store keeps them).

use crate::task::load::{self, Readable};
use rialto_engine::Record;
use rialto_model::view::{DamagedPlace, KeptState, LostEvents, RepairReport, RepairedNetwork};
use rialto_store::{Class, Loss, Lsn, NetworkInfo, RecordRef, Store, StoreError};
use std::io::Write;
use std::ops::ControlFlow;

/// Seed of look-ups that live as long as a repair.
const HASH_SEED: u64 = 1;

/// What happens to a network that lost something.
#[derive(Debug)]
enum RepairOutcome {
    /// Its state is whole; some of its history cannot be read.
    History,
    /// It goes back to an LSN.
    Cut(Box<Readable>),
    /// Nothing of it can be read.
    Gone(String),
}

/// A network that lost something.
#[derive(Debug)]
struct Hurt {
    info: NetworkInfo,
    fate: RepairOutcome,
}

/// Looks at everything and says what a repair would do. Changes nothing.
pub fn plan(store: &dyn Store) -> Result<RepairReport, StoreError> {
    let losses = store.losses()?;
    let hurt = look(store, &losses)?;
    report(store, &losses, &hurt, &mut std::io::sink())
}

/// Repairs: every damaged network goes back to its last record before the damage, and what cannot be read counts as gone. The events
/// that go with it are written to `kept`, one JSON object per line. May be run again after it was cut short.
///
/// The store must be nobody else's, and the search index has to be built anew.
pub fn apply(store: &dyn Store, kept: &mut dyn Write) -> Result<RepairReport, StoreError> {
    let losses = store.losses()?;
    let hurt = look(store, &losses)?;
    let report = report(store, &losses, &hurt, kept)?;
    let ends: Vec<(Class, Lsn)> = store.health().logs.iter().map(|log| (log.class, log.last_lsn)).collect();
    for Hurt { info, fate } in &hurt {
        match fate {
            RepairOutcome::History => {}
            RepairOutcome::Cut(readable) => {
                store.cut_back(info.class, info.network, readable.lsn)?;
                // As if all that follows had been seen: no start reads it again.
                let end = ends.iter().find(|(class, _)| *class == info.class).map_or(readable.lsn, |(_, end)| *end);
                let bytes = readable.engine.state.to_snapshot();
                for _ in 0..2 {
                    store.save_snapshot(info.class, info.network, end, &bytes)?;
                }
            }
            RepairOutcome::Gone(_) => store.cut_back(info.class, info.network, 0)?,
        }
    }
    store.write_off()?;
    Ok(report)
}

fn look(store: &dyn Store, losses: &[Loss]) -> Result<Vec<Hurt>, StoreError> {
    let mut hurt = Vec::new();
    for info in store.networks()? {
        let concerns = |loss: &Loss| loss.class == info.class && loss.network.is_none_or(|n| n == info.network);
        let fate = match load::load_readable(store, info.class, info.network, HASH_SEED) {
            Ok(readable) if readable.damage.is_some() => RepairOutcome::Cut(Box::new(readable)),
            Ok(_) if losses.iter().any(concerns) => RepairOutcome::History,
            Ok(_) => continue,
            Err(error) if error.is_damage() => RepairOutcome::Gone(error.to_string()),
            // An import that came to nothing: the next start leaves it out.
            Err(load::LoadError::Unfinished { .. }) => continue,
            Err(load::LoadError::Store(error)) => return Err(error),
            Err(error) => RepairOutcome::Gone(error.to_string()),
        };
        hurt.push(Hurt { info, fate });
    }
    Ok(hurt)
}

fn report(store: &dyn Store, losses: &[Loss], hurt: &[Hurt], kept: &mut dyn Write) -> Result<RepairReport, StoreError> {
    let mut networks = Vec::new();
    for Hurt { info, fate } in hurt {
        let mut told =
            RepairedNetwork { number: info.network, fate: String::new(), kept: None, damage: None, lost: None };
        match fate {
            RepairOutcome::History => {
                told.fate = "goes on; events that cannot be read are missing from its history".to_owned();
            }
            RepairOutcome::Cut(readable) => {
                let book = &readable.engine.state.book;
                told.fate = "goes back to its last event before the damage".to_owned();
                let (id, name) = (book.id.clone(), book.settings.name.clone());
                told.kept = Some(KeptState { id, name, events_kept: book.head });
                told.damage = readable.damage.as_ref().map(ToString::to_string);
                told.lost = Some(write_lost(store, info, readable.lsn, &book.id, losses, kept)?);
            }
            RepairOutcome::Gone(what) => {
                told.fate = "is given up: nothing before the damage can be read".to_owned();
                told.damage = Some(what.clone());
                told.lost = Some(write_lost(store, info, 0, "", losses, kept)?);
            }
        }
        networks.push(told);
    }
    let ok = losses.is_empty() && hurt.is_empty();
    Ok(RepairReport { ok, damage: losses.iter().map(place).collect(), networks })
}

fn place(loss: &Loss) -> DamagedPlace {
    DamagedPlace {
        file: loss.damage.file.display().to_string(),
        offset: loss.damage.offset,
        what: loss.damage.what.clone(),
        records: loss.last_lsn - loss.first_lsn + 1,
        network: loss.network,
    }
}

/// Writes the events of a network behind an LSN, as far as they can be read.
fn write_lost(
    store: &dyn Store,
    info: &NetworkInfo,
    lsn: Lsn,
    id: &str,
    losses: &[Loss],
    kept: &mut dyn Write,
) -> Result<LostEvents, StoreError> {
    let mut lost = LostEvents::default();
    let mut failed = None;
    let mut after = lsn;
    let mut visit = |r: RecordRef<'_>| {
        if let Ok(Record::Event(record)) = Record::decode(r.kind, r.version, r.seq, id, r.body) {
            lost.events_lost += 1;
            lost.first_lost = lost.first_lost.or(Some(record.event.timestamp));
            lost.last_lost = Some(record.event.timestamp);
            if let Err(error) = writeln!(kept, "{}", record.event.json_as(None)) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    };
    loop {
        let replayed = store.replay(info.class, Some(info.network), after, &mut |r| {
            after = r.lsn;
            visit(r)
        });
        match replayed {
            Ok(_) => break,
            Err(StoreError::Damaged(damage)) => {
                // Behind the next place that cannot be read.
                let concerns = |loss: &&Loss| loss.class == info.class && loss.last_lsn > after;
                let Some(next) = losses.iter().filter(concerns).map(|loss| loss.last_lsn).min() else {
                    return Err(StoreError::Damaged(damage));
                };
                after = next;
            }
            Err(error) => return Err(error),
        }
    }
    match failed {
        Some(error) => Err(StoreError::Unavailable { cause: format!("the events that go cannot be kept: {error}") }),
        None => Ok(lost),
    }
}
