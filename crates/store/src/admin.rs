//! `admin.db`: small things that a node needs whatever its networks are: keys and records of its registrar. Few, seldom changed, and
//! flushed before a change is done.
//!
//! Each entry has a checksum, since the database itself has none. What an entry says is not known here.
//! Not here: networks, which are in the log.

use crate::database::{failed, open, version};
use crate::error::StoreError;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const VERSION: u32 = 1;
const PRAGMAS: &str =
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA cache_size = -512;
    PRAGMA journal_size_limit = 1048576;";
const SCHEMA: &str = "BEGIN;
    CREATE TABLE entry (kind TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (kind, name))
        WITHOUT ROWID;
    PRAGMA user_version = 1;
    COMMIT;";

/// One thing, by its kind and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminEntry {
    /// What it is.
    pub kind: String,
    /// Which.
    pub name: String,
    /// What it says.
    pub value: Vec<u8>,
}

/// A change: what an entry says from now on, or that there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdminChange {
    /// It says this.
    Put(AdminEntry),
    /// It is gone.
    Remove {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
}

/// The entries.
#[derive(Debug)]
pub struct AdminDb(Place);

#[derive(Debug)]
enum Place {
    Memory(Mutex<BTreeMap<(String, String), Vec<u8>>>),
    File(PathBuf, Box<Mutex<Connection>>),
}

fn crc(kind: &str, name: &str, value: &[u8]) -> u32 {
    [&[0], name.as_bytes(), &[0], value]
        .iter()
        .fold(crc32c::crc32c(kind.as_bytes()), |crc, part| crc32c::crc32c_append(crc, part))
}

impl AdminDb {
    /// Entries that go with the process.
    pub fn in_memory() -> AdminDb {
        AdminDb(Place::Memory(Mutex::default()))
    }

    /// Opens the file, or begins one. A damaged one is an error: it is never replaced by an empty one.
    pub fn open(path: impl AsRef<Path>) -> Result<AdminDb, StoreError> {
        let path = path.as_ref().to_path_buf();
        let connected = open(&path, PRAGMAS).and_then(|connection| {
            if version(&connection)? == 0 {
                connection.execute_batch(SCHEMA)?;
            }
            Ok((version(&connection)?, connection))
        });
        let (found, connection) = connected.map_err(|error| failed(&path, &error))?;
        if found > VERSION {
            return Err(StoreError::NewerFormat { path, found, known: VERSION });
        }
        Ok(AdminDb(Place::File(path, Box::new(Mutex::new(connection)))))
    }

    /// Every entry, by kind and name; one whose checksum is wrong is an error.
    pub fn entries(&self) -> Result<Vec<AdminEntry>, StoreError> {
        match &self.0 {
            Place::Memory(entries) => {
                let entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                let entry = |((kind, name), value): (&(String, String), &Vec<u8>)| AdminEntry {
                    kind: kind.clone(),
                    name: name.clone(),
                    value: value.clone(),
                };
                Ok(entries.iter().map(entry).collect())
            }
            Place::File(path, connection) => {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                let mut rows = connection
                    .prepare("SELECT kind, name, value, crc FROM entry ORDER BY kind, name")
                    .map_err(|error| failed(path, &error))?;
                let rows = rows.query_map([], |row| {
                    let entry = AdminEntry { kind: row.get(0)?, name: row.get(1)?, value: row.get(2)? };
                    Ok((entry, row.get::<_, u32>(3)?))
                });
                let rows = rows.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>);
                let rows: Vec<(AdminEntry, u32)> = rows.map_err(|error| failed(path, &error))?;
                let wrong = rows.iter().find(|(entry, sum)| crc(&entry.kind, &entry.name, &entry.value) != *sum);
                if let Some((entry, _)) = wrong {
                    let what = format!("the checksum of its {} {:?} is wrong", entry.kind, entry.name);
                    return Err(StoreError::damaged(path, 0, what));
                }
                Ok(rows.into_iter().map(|(entry, _)| entry).collect())
            }
        }
    }

    /// Makes changes, all of them or none; they are on the disk when it returns.
    pub fn change(&self, changes: &[AdminChange]) -> Result<(), StoreError> {
        match &self.0 {
            Place::Memory(entries) => {
                let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
                for change in changes {
                    match change {
                        AdminChange::Put(AdminEntry { kind, name, value }) => {
                            entries.insert((kind.clone(), name.clone()), value.clone());
                        }
                        AdminChange::Remove { kind, name } => {
                            entries.remove(&(kind.clone(), name.clone()));
                        }
                    }
                }
                Ok(())
            }
            Place::File(path, connection) => {
                let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                change_file(&mut connection, changes).map_err(|error| failed(path, &error))
            }
        }
    }

    /// Reads everything and has the database look at itself.
    pub fn verify(&self) -> Result<usize, StoreError> {
        if let Place::File(path, connection) = &self.0 {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let said: String = connection
                .query_row("PRAGMA integrity_check", [], |row| row.get(0))
                .map_err(|error| failed(path, &error))?;
            if said != "ok" {
                return Err(StoreError::damaged(path, 0, said));
            }
        }
        self.entries().map(|entries| entries.len())
    }
}

fn change_file(connection: &mut Connection, changes: &[AdminChange]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for change in changes {
        match change {
            AdminChange::Put(AdminEntry { kind, name, value }) => {
                transaction.execute(
                    "INSERT OR REPLACE INTO entry (kind, name, value, crc) VALUES (?1, ?2, ?3, ?4)",
                    params![kind, name, value, crc(kind, name, value)],
                )?;
            }
            AdminChange::Remove { kind, name } => {
                transaction.execute("DELETE FROM entry WHERE kind = ?1 AND name = ?2", params![kind, name])?;
            }
        }
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn put(kind: &str, name: &str, value: &str) -> AdminChange {
        AdminChange::Put(AdminEntry { kind: kind.to_owned(), name: name.to_owned(), value: value.into() })
    }

    fn remove(kind: &str, name: &str) -> AdminChange {
        AdminChange::Remove { kind: kind.to_owned(), name: name.to_owned() }
    }

    fn said(db: &AdminDb) -> Vec<String> {
        let text = |e: AdminEntry| format!("{}/{}={}", e.kind, e.name, String::from_utf8(e.value).unwrap());
        db.entries().unwrap().into_iter().map(text).collect()
    }

    /// What holds wherever the entries are.
    fn contract(db: &AdminDb) {
        db.change(&[put("name", "b", "1"), put("name", "a", "2"), put("key", "a", "3")]).unwrap();
        assert_eq!(said(db), ["key/a=3", "name/a=2", "name/b=1"]);
        db.change(&[put("name", "b", "4"), remove("name", "a"), remove("name", "never")]).unwrap();
        assert_eq!(said(db), ["key/a=3", "name/b=4"]);
        assert_eq!(db.verify().unwrap(), 2);
    }

    #[test]
    fn memory() {
        contract(&AdminDb::in_memory());
    }

    #[test]
    fn a_file_keeps_them_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.db");
        contract(&AdminDb::open(&path).unwrap());
        assert_eq!(said(&AdminDb::open(&path).unwrap()), ["key/a=3", "name/b=4"]);
        for file in std::fs::read_dir(dir.path()).unwrap() {
            let mode = file.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{mode:o}");
        }
    }

    #[test]
    fn damage_is_named_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.db");
        AdminDb::open(&path).unwrap().change(&[put("name", "a", "something-to-look-for")]).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(9).position(|w| w == b"something").unwrap();
        bytes[at] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let error = AdminDb::open(&path).unwrap().entries().unwrap_err().to_string();
        assert!(error.contains("admin.db") && error.contains("checksum"), "{error}");
        std::fs::write(&path, b"this is no database, whatever its name says, and it is long enough").unwrap();
        assert!(AdminDb::open(&path).is_err());
    }
}
