//! `admin.db`: what a node needs before any engine runs (settings, hash of the admin secret, registrar keys, off-network queues of
//! faces), as texts by area and key. Every change is flushed before the call returns. The file is readable by its owner only.
//! The database has no checksums of its own: one over all entries changes with each of them and is compared when it is opened.
//! Not here: anything a network owns (the log), and what the texts mean.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension as _};
use sha2::{Digest as _, Sha256};

use crate::database::{failed, open, version};
use crate::error::{At as _, StoreError};

const VERSION: u32 = 1;
const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON;
    PRAGMA cache_size = -256;";
const SCHEMA: &str = "BEGIN;
    CREATE TABLE entry (area TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (area, key)) WITHOUT ROWID;
    CREATE TABLE digest (number INTEGER PRIMARY KEY, sum INTEGER NOT NULL);
    INSERT INTO digest (number, sum) VALUES (1, 0);
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
        let whole = is_whole(&connection).map_err(|error| failed(&path, &error))?;
        whole.map_err(|what| StoreError::damaged(&path, 0, what))?;
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
        self.change(area, key, |connection| connection.prepare_cached(sql)?.execute([area, key, value])).map(|_| ())
    }

    /// Sets the text of a key that has none. Returns whether it did.
    pub fn set_new(&self, area: &str, key: &str, value: &str) -> Result<bool, StoreError> {
        let sql = "INSERT INTO entry (area, key, value) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        let changed = self.change(area, key, |connection| connection.prepare_cached(sql)?.execute([area, key, value]));
        changed.map(|changed| changed == 1)
    }

    /// Removes a key. Returns whether it was there.
    pub fn remove(&self, area: &str, key: &str) -> Result<bool, StoreError> {
        let sql = "DELETE FROM entry WHERE area = ?1 AND key = ?2";
        let changed = self.change(area, key, |connection| connection.prepare_cached(sql)?.execute([area, key]));
        changed.map(|changed| changed == 1)
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

    /// Changes one entry, and the checksum with it.
    fn change(
        &self,
        area: &str,
        key: &str,
        call: impl FnOnce(&Connection) -> rusqlite::Result<usize>,
    ) -> Result<usize, StoreError> {
        self.run(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let before = sum_of(&transaction, area, key)?;
            let changed = call(&transaction)?;
            let change = before ^ sum_of(&transaction, area, key)?;
            let sum: i64 = transaction.query_row("SELECT sum FROM digest WHERE number = 1", [], |row| row.get(0))?;
            transaction.execute("UPDATE digest SET sum = ?1 WHERE number = 1", [sum ^ change])?;
            transaction.commit()?;
            Ok(changed)
        })
    }

    fn run<T>(&self, call: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        call(&self.lock()).map_err(|error| failed(&self.path, &error))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an entry adds to the checksum, by exclusive or; 0 if there is none.
fn sum_of(connection: &Connection, area: &str, key: &str) -> rusqlite::Result<i64> {
    let sql = "SELECT value FROM entry WHERE area = ?1 AND key = ?2";
    let value: Option<String> = connection.prepare_cached(sql)?.query_row([area, key], |row| row.get(0)).optional()?;
    Ok(value.map_or(0, |value| sum(area, key, &value)))
}

fn sum(area: &str, key: &str, value: &str) -> i64 {
    let mut digest = Sha256::new();
    for part in [area, key, value] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    }
    digest.finalize().iter().take(8).fold(0, |sum, byte| sum << 8 | i64::from(*byte))
}

/// Reads everything: the structure of the file, and the entries against their checksum.
fn is_whole(connection: &Connection) -> rusqlite::Result<Result<(), String>> {
    let structure: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if structure != "ok" {
        return Ok(Err(structure));
    }
    let mut statement = connection.prepare("SELECT area, key, value FROM entry")?;
    let mut rows = statement.query([])?;
    let mut found = 0;
    while let Some(row) = rows.next()? {
        found ^= sum(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?, &row.get::<_, String>(2)?);
    }
    let right: i64 = connection.query_row("SELECT sum FROM digest WHERE number = 1", [], |row| row.get(0))?;
    Ok(if found == right { Ok(()) } else { Err("entries do not have the checksum written with them".to_owned()) })
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
    fn an_entry_changed_behind_its_back_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.db");
        let db = AdminDb::open(&path).unwrap();
        for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
            db.set(area::SETTINGS, key, value).unwrap();
        }
        db.set(area::SETTINGS, "a", "4").unwrap();
        db.remove(area::SETTINGS, "b").unwrap();
        drop(db);
        drop(AdminDb::open(&path).unwrap());
        for sql in ["UPDATE entry SET value = '5' WHERE key = 'a'", "DELETE FROM entry WHERE key = 'c'"] {
            let copy = dir.path().join("copy.db");
            std::fs::copy(&path, &copy).unwrap();
            Connection::open(&copy).unwrap().execute_batch(sql).unwrap();
            let error = AdminDb::open(&copy).unwrap_err();
            assert!(matches!(&error, StoreError::Damaged(damage) if damage.file == copy), "{sql}: {error}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error_with_its_name() {
        let error = AdminDb::open("/no/such/dir/admin.db").unwrap_err();
        assert!(error.to_string().contains("/no/such/dir"), "{error}");
    }
}
