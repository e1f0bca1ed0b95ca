//! Work on a data directory that no node has open.
//!
//! Seams: both functions belong to the store and are wired when the store offers them.

use crate::exit::CliError;
use crate::progress::Step;
use serde_json::Value;
use std::path::Path;

/// Checks every record, snapshot, index and blob under `data`.
/// The report is {ok, problems: [{file, offset?, what}], …}; finding problems is a report, not an error.
pub(crate) fn verify_directory(data: &Path, _progress: &mut dyn FnMut(Step)) -> Result<Value, CliError> {
    // wired in store
    let message = format!("no node is running on {}, and a stopped directory cannot be checked yet", data.display());
    Err(CliError::unavailable(message).next("start the node with `rialto up` and run this again"))
}

/// Makes a data directory from an archive: a new node epoch, every session revoked.
/// `data` is empty or does not exist; the caller has checked that.
pub(crate) fn restore_archive(file: &Path, _data: &Path, _progress: &mut dyn FnMut(Step)) -> Result<Value, CliError> {
    // wired in store
    Err(CliError::unavailable(format!("{} cannot be restored yet", file.display())))
}
