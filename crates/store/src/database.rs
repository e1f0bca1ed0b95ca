//! What the two SQLite files share: opening, and errors with the file's name.
//! Not here: any table.

use std::ffi::CStr;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::disk::{Disk as _, RealDisk};
use crate::error::StoreError;

/// How the library keeps what its connections share: on the heap, for connections of one process. Otherwise it maps a file into
/// memory, and a disk that refuses writes to it ends the process by a signal.
const IN_THIS_PROCESS: &CStr = c"unix-excl";

/// Opens a database file with settings as a batch of pragmas.
pub(crate) fn open(path: &Path, pragmas: &str) -> rusqlite::Result<Connection> {
    if let Err(error) = make_private(path) {
        tracing::warn!(file = %path.display(), %error, "the mode of a database file is not changed");
    }
    let connection = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), IN_THIS_PROCESS)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.execute_batch(pragmas)?;
    Ok(connection)
}

/// Makes the file for its owner alone before the library makes it for everybody, and closes one that is there. What the
/// library makes beside it later has the mode of the file.
fn make_private(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let files = ["", "-wal", "-shm", ".seal"].map(|suffix| beside(path, suffix));
    files.iter().try_for_each(|file| RealDisk.restrict(file))
}

/// A file that belongs to a database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The schema version a database says it has; one that nobody writes is none that is known.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    let said: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    Ok(u32::try_from(said).unwrap_or(u32::MAX))
}

/// An error with the name of its file.
pub(crate) fn failed(path: &Path, error: &rusqlite::Error) -> StoreError {
    if is_damage(error) {
        return StoreError::damaged(path, 0, error.to_string());
    }
    StoreError::Database { database: path.display().to_string(), message: error.to_string() }
}

/// Whether the file itself is bad.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    // A format number of the header that no release of SQLite has written has no code of its own.
    let alien = || error.to_string().contains("unsupported file format");
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) || alien()
}
