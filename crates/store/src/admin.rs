//! `admin.db`: what a node needs before any engine runs (settings, hash of the admin secret, registrar keys, off-network queues of
//! faces), as texts by area and key. Every change is flushed before the call returns. The file is readable by its owner only.
//! Not here: anything a network owns (the log), and what the texts mean.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension as _};

use crate::database::{failed, open, version};
use crate::error::{At as _, StoreError};

const VERSION: u32 = 1;
const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;
    PRAGMA cache_size = -256;";
const SCHEMA: &str = "BEGIN;
    CREATE TABLE entry (area TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (area, key)) WITHOUT ROWID;
    PRAGMA user_version = 1;
    COMMIT;";

/// What an entry is for. Faces have areas of their own.
pub mod area {
    /// Node settings.
    pub const SETTINGS: &str = "settings";
    /// Hashes of admin secrets.
    pub const ADMIN: &str = "admin";
    /// Keys of the registrar.
    pub const REGISTRAR: &str = "registrar";
}

/// The node's own small database.
#[derive(Debug)]
pub struct AdminDb {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl AdminDb {
    /// Opens it, or begins one. A damaged file is refused by name: it cannot be rebuilt.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_path_buf();
        own(&path)?;
        let opened = open(&path, PRAGMAS).and_then(|connection| {
            let found = version(&connection)?;
            if found == 0 {
                connection.execute_batch(SCHEMA)?;
            }
            Ok((connection, found))
        });
        let (connection, found) = opened.map_err(|error| failed(&path, &error))?;
        if found > VERSION {
            return Err(StoreError::NewerFormat { path, found, known: VERSION });
        }
        Ok(Self { path, connection: Mutex::new(connection) })
    }

    /// The text of a key.
    pub fn get(&self, area: &str, key: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT value FROM entry WHERE area = ?1 AND key = ?2";
        self.run(|connection| connection.prepare_cached(sql)?.query_row([area, key], |row| row.get(0)).optional())
    }

    /// Sets the text of a key.
    pub fn set(&self, area: &str, key: &str, value: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO entry (area, key, value) VALUES (?1, ?2, ?3)
            ON CONFLICT (area, key) DO UPDATE SET value = excluded.value";
        self.run(|connection| connection.prepare_cached(sql)?.execute([area, key, value])).map(|_| ())
    }

    /// Sets the text of a key that has none. Returns whether it did.
    pub fn set_new(&self, area: &str, key: &str, value: &str) -> Result<bool, StoreError> {
        let sql = "INSERT INTO entry (area, key, value) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        self.run(|connection| connection.prepare_cached(sql)?.execute([area, key, value])).map(|changed| changed == 1)
    }

    /// Removes a key. Returns whether it was there.
    pub fn remove(&self, area: &str, key: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM entry WHERE area = ?1 AND key = ?2";
        self.run(|connection| connection.prepare_cached(sql)?.execute([area, key])).map(|changed| changed == 1)
    }

    /// Keys and texts of an area, by key.
    pub fn list(&self, area: &str) -> Result<Vec<(String, String)>, StoreError> {
        let sql = "SELECT key, value FROM entry WHERE area = ?1 ORDER BY key";
        self.run(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([area], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
    }

    fn run<T>(&self, call: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        call(&self.lock()).map_err(|error| failed(&self.path, &error))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the file for its owner only, before anything is in it.
fn own(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600).open(path).at("open", path).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.db");
        let db = AdminDb::open(&path).unwrap();
        assert_eq!(db.get(area::SETTINGS, "name").unwrap(), None);
        db.set(area::SETTINGS, "name", "first").unwrap();
        db.set(area::SETTINGS, "name", "second ☂").unwrap();
        assert!(!db.set_new(area::SETTINGS, "name", "third").unwrap());
        assert!(db.set_new(area::REGISTRAR, "name", "a key").unwrap());
        drop(db);
        let db = AdminDb::open(&path).unwrap();
        assert_eq!(db.get(area::SETTINGS, "name").unwrap().as_deref(), Some("second ☂"));
        assert_eq!(db.list(area::REGISTRAR).unwrap(), vec![("name".to_owned(), "a key".to_owned())]);
        assert!(db.remove(area::REGISTRAR, "name").unwrap());
        assert!(!db.remove(area::REGISTRAR, "name").unwrap());
        assert_eq!(db.list(area::REGISTRAR).unwrap(), vec![]);
    }

    #[test]
    fn only_the_owner_may_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.db");
        let db = AdminDb::open(&path).unwrap();
        db.set(area::ADMIN, "hash", "x").unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.path());
        }
    }

    #[test]
    fn a_damaged_or_newer_file_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.db");
        std::fs::write(&path, vec![7; 5000]).unwrap();
        let error = AdminDb::open(&path).unwrap_err();
        assert!(matches!(&error, StoreError::Damaged(damage) if damage.file == path), "{error}");
        std::fs::remove_file(&path).unwrap();
        AdminDb::open(&path).unwrap().run(|c| c.execute_batch("PRAGMA user_version = 9")).unwrap();
        assert!(matches!(AdminDb::open(&path), Err(StoreError::NewerFormat { found: 9, .. })));
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error_with_its_name() {
        let error = AdminDb::open("/no/such/dir/admin.db").unwrap_err();
        assert!(error.to_string().contains("/no/such/dir"), "{error}");
    }
}
