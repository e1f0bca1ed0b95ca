//! Work on a data directory that no node has open.

use crate::exit::CliError;
use crate::progress::ProgressStep;
use rialto_node::archive::{self, ArchiveError};
use rialto_node::{repair, verify};
use rialto_store::{LocalOptions, LocalStore, Store, StoreError};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;

/// Checks every record, snapshot, index and blob under `data`.
/// The report is {ok, problems: [{file, offset?, what}], …}; finding problems is a report, not an error.
pub(crate) fn verify_directory(data: &Path, progress: &mut dyn FnMut(ProgressStep)) -> Result<Value, CliError> {
    let store = match LocalStore::open(data, LocalOptions::default()) {
        Ok(store) => store,
        // Damage that keeps a node from starting is what verify is for.
        Err(StoreError::Damaged(damage)) => {
            let found =
                json!({ "file": damage.file, "offset": damage.offset, "what": damage.what, "kept": damage.kept });
            return Ok(json!({ "ok": false, "problems": [found] }));
        }
        Err(error) => return Err(store_error(data, &error)),
    };
    let mut show = |done, total| progress(ProgressStep { done, total: Some(total), what: String::new() });
    let report = verify::verify(&store, &verify::LiveStates::new(), &mut show).map_err(|e| store_error(data, &e))?;
    store.close().map_err(|e| store_error(data, &e))?;
    Ok(json!(report))
}

/// Says what damage under `data` has cost; with `kept` it is repaired, and the events that go are written there.
pub(crate) fn repair_directory(data: &Path, kept: Option<&Path>) -> Result<Value, CliError> {
    let store = LocalStore::open(data, LocalOptions::default()).map_err(|e| store_error(data, &e))?;
    let told = match kept {
        None => repair::plan(&store).map_err(|e| store_error(data, &e))?,
        Some(path) => {
            let plan = repair::plan(&store).map_err(|e| store_error(data, &e))?;
            if plan.ok {
                plan
            } else {
                // Before anything goes back: an index that is ahead would hide what comes next.
                remove_search_index(data)?;
                let mut file = private_file(path)?;
                let report = repair::apply(&store, &mut file).map_err(|e| store_error(data, &e))?;
                file.flush().and_then(|()| file.get_ref().sync_all()).map_err(|e| CliError::file("write", path, &e))?;
                report
            }
        }
    };
    store.close().map_err(|e| store_error(data, &e))?;
    Ok(json!(told))
}

fn remove_search_index(data: &Path) -> Result<(), CliError> {
    for name in ["search.db", "search.db-wal", "search.db-shm"] {
        let path = data.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(CliError::file("remove", &path, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A new file that only its owner reads.
fn private_file(path: &Path) -> Result<BufWriter<File>, CliError> {
    use std::os::unix::fs::OpenOptionsExt;
    if let Some(dir) = path.parent() {
        crate::place::private_dir(dir)?;
    }
    let file = File::options().write(true).create_new(true).mode(0o600).open(path);
    Ok(BufWriter::new(file.map_err(|e| CliError::file("create", path, &e))?))
}

/// Makes a data directory from an archive: every session is revoked.
/// `data` is empty or does not exist; the caller has checked that. Half a node is never left behind.
pub(crate) fn restore_archive(
    file: &Path,
    data: &Path,
    progress: &mut dyn FnMut(ProgressStep),
) -> Result<Value, CliError> {
    let restored = fill(file, data, progress);
    if restored.is_err() {
        empty(data);
    }
    restored
}

/// Removes what a failed restore has made. What cannot be removed is named by the next attempt.
fn empty(data: &Path) {
    for entry in std::fs::read_dir(data).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).ok()
        } else {
            std::fs::remove_file(path).ok()
        };
    }
}

fn fill(file: &Path, data: &Path, progress: &mut dyn FnMut(ProgressStep)) -> Result<Value, CliError> {
    crate::place::private_dir(data)?;
    let total = std::fs::metadata(file).map(|m| m.len()).ok();
    let input = File::open(file).map_err(|e| CliError::file("read", file, &e))?;
    let store = LocalStore::open(data, LocalOptions::default()).map_err(|e| store_error(data, &e))?;
    let mut show = |done| progress(ProgressStep { done, total, what: String::new() });
    let counts = archive::restore(&store, &mut BufReader::new(input), &mut show).map_err(|error| match error {
        ArchiveError::Store(error) => store_error(data, &error),
        ArchiveError::Io(error) => CliError::file("read", file, &error),
        error @ (ArchiveError::Damaged(_) | ArchiveError::Newer { .. } | ArchiveError::OtherKind(_)) => {
            let message = format!("{}: {error}", file.display());
            CliError::internal(message).next("nothing was restored; use another backup")
        }
    })?;
    store.close().map_err(|e| store_error(data, &e))?;
    Ok(json!({
        "data": data, "records": counts.records, "snapshots": counts.snapshots, "blobs": counts.blobs, "bytes": counts.bytes,
    }))
}

fn store_error(data: &Path, error: &StoreError) -> CliError {
    if let StoreError::Locked { holder, .. } = error {
        return CliError::conflict(format!("{} is in use by {holder}", data.display())).next("stop that node first");
    }
    CliError::unavailable(format!("{}: {error}", data.display()))
}
