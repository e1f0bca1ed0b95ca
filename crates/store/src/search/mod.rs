//! `search.db`: full text of what has text, found by any part of three or more characters (so Chinese is found) and, more slowly, by
//! shorter ones. Who may see what is decided inside the query: an answer never depends on rows the viewer may not see.
//!
//! It follows the log and may be deleted at any time: `indexed_through` then says 0, and the caller feeds it again. A damaged file is
//! deleted here and begun anew; one that was closed in order is compared with its seal before its first use, since the database itself
//! has no checksums.
//! Not here: which events have text, who is in which stream (the engine), scanning the log beyond `indexed_through` (the node).

mod terms;

use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub use self::terms::{TEXT_BYTES_MAX, Words};
use self::terms::{fold, grams, terms};
use crate::database::{beside, failed, is_damage, open, version};
use crate::error::{At as _, StoreError};
use crate::seal::{self, Seal};

const VERSION: u32 = 1;
/// Largest network number and seq that fit into one row id.
const SEQ_BITS: u32 = 40;
const NETWORK_MAX: u32 = (1 << 23) - 1;
const SEQ_MAX: u64 = (1 << SEQ_BITS) - 1;
/// Most answers to one query.
pub const ANSWERS_MAX: usize = 1000;

const PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;
    PRAGMA temp_store = MEMORY; PRAGMA cache_size = -2048; PRAGMA journal_size_limit = 4194304;";

// A row id is network and seq in one number, so that one network's part of a range is a range of ids, newest last.
// `detail = none`: positions are not kept; what the grams suggest is checked against the text.
const SCHEMA: &str = "BEGIN;
    CREATE TABLE doc (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, source INTEGER, body TEXT NOT NULL);
    CREATE TABLE also (id INTEGER NOT NULL, stream INTEGER NOT NULL, PRIMARY KEY (id, stream)) WITHOUT ROWID;
    CREATE TABLE progress (network INTEGER PRIMARY KEY, through INTEGER NOT NULL);
    CREATE VIRTUAL TABLE gram USING fts5 (body, content = 'doc', content_rowid = 'id', tokenize = 'trigram', detail = none, columnsize = 0);
    INSERT INTO gram (gram, rank) VALUES ('secure-delete', 1);
    INSERT INTO gram (gram, rank) VALUES ('automerge', 8);
    INSERT INTO gram (gram, rank) VALUES ('hashsize', 8388608);
    PRAGMA user_version = 1;
    COMMIT;";

const VIEWER: &str = "CREATE TEMP TABLE IF NOT EXISTS seen
    (stream INTEGER NOT NULL, low INTEGER NOT NULL, high INTEGER NOT NULL, PRIMARY KEY (stream, low)) WITHOUT ROWID";

/// Text to be found.
#[derive(Debug, Clone, Copy)]
pub struct Doc<'a> {
    /// Its event's seq.
    pub seq: u64,
    /// The streams that carry it (channel, group, inbox, ...), by the engine's numbers. None: only its source and operators see it.
    pub streams: &'a [u64],
    /// The member it is from.
    pub source: Option<u64>,
    /// The text; what is beyond [`TEXT_BYTES_MAX`] is not indexed.
    pub text: &'a str,
}

/// A stream a viewer may see, for events in a range of seqs (the time of its membership).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamView {
    /// The engine's number of the stream.
    pub stream: u64,
    /// Seqs it may see there.
    pub seqs: RangeInclusive<u64>,
}

/// Who asks.
#[derive(Debug, Clone, Default)]
pub struct SearchViewer {
    /// Sees what is from this member.
    pub member: Option<u64>,
    /// Sees everything in the network.
    pub operator: bool,
    /// Sees what these streams carry.
    pub streams: Vec<StreamView>,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct SearchQuery<'a> {
    /// In which network.
    pub network: u32,
    /// Words that must all occur; `"quoted words"` as they are.
    pub text: &'a str,
    /// Only events above this seq.
    pub after: Option<u64>,
    /// Only events below this seq.
    pub before: Option<u64>,
    /// Most answers, up to [`ANSWERS_MAX`].
    pub limit: usize,
    /// Answers with the oldest first and counts `limit` from there; otherwise from the newest.
    pub oldest_first: bool,
}

/// An answer, and how far it reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchAnswer {
    /// Seqs of events, in the order asked for.
    pub seqs: Vec<u64>,
    /// Every event up to this seq was in the index when it was asked.
    pub indexed_through: u64,
}

/// The full-text index. Indexing and asking do not wait for each other.
#[derive(Debug)]
pub struct SearchIndex {
    path: PathBuf,
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    life: Mutex<Life>,
    feeding: Mutex<()>,
}

/// How far the index is from its first use to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Opened, not looked at yet: its seal, if it has one, still fits or not.
    Fresh,
    Used,
    Closed,
}

impl SearchIndex {
    /// Opens the index, or begins one; a file that is damaged or of another version is replaced by an empty one.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_path_buf();
        let usable = connect(&path).and_then(|connection| version(&connection));
        match usable {
            Ok(VERSION) => {}
            Ok(_) => begin_anew(&path)?,
            Err(error) if is_damage(&error) => begin_anew(&path)?,
            Err(error) => return Err(failed(&path, &error)),
        }
        let opened = connect(&path).and_then(|writer| Ok((writer, connect(&path)?)));
        let (writer, reader) = opened.map_err(|error| failed(&path, &error))?;
        Ok(Self {
            path,
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
            life: Mutex::new(Life::Fresh),
            feeding: Mutex::new(()),
        })
    }

    /// Before the first use: a file that is not as it was closed is replaced. Not done when it is opened, because all of it is read.
    fn wake(&self) -> Result<(), StoreError> {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        match *life {
            Life::Used => return Ok(()),
            Life::Closed => return Err(StoreError::Closed),
            Life::Fresh => {}
        }
        if seal::check(&self.path).at("read", &self.path)? == Seal::Broken {
            self.begin_anew()?;
        }
        seal::take_off(&self.path).at("unseal", &self.path)?;
        *life = Life::Used;
        Ok(())
    }

    /// Ends its use and seals the file; later calls are refused.
    pub fn close(&self) -> Result<(), StoreError> {
        let mut life = self.life.lock().unwrap_or_else(PoisonError::into_inner);
        let used = std::mem::replace(&mut *life, Life::Closed) == Life::Used;
        let mut reader = self.lock(&self.reader);
        let mut writer = self.lock(&self.writer);
        let failed = |error: rusqlite::Error| failed(&self.path, &error);
        // The last connection that closes brings the journal in.
        *reader = Connection::open_in_memory().map_err(failed)?;
        *writer = Connection::open_in_memory().map_err(failed)?;
        let journal = beside(&self.path, "-wal");
        if used && !journal.try_exists().at("look for", &journal)? {
            seal::put(&self.path).at("seal", &self.path)?;
        }
        Ok(())
    }

    /// Takes in texts of one network and remembers that everything up to `through` is now in, all in one transaction: thousands at a
    /// time cost half as much as a few at a time.
    /// A text given again, with a seq up to the `through` of before, replaces the older one.
    pub fn index(&self, network: u32, docs: &[Doc<'_>], through: u64) -> Result<(), StoreError> {
        for doc in docs {
            row_id(network, doc.seq)?;
        }
        row_id(network, 0)?;
        self.write(|connection| {
            let transaction = connection.transaction()?;
            let known = progress(&transaction, network)?;
            for doc in docs {
                let id = row_id_of(network, doc.seq);
                if doc.seq <= known {
                    take_out(&transaction, id)?;
                }
                put(&transaction, id, doc)?;
            }
            let sql = "INSERT INTO progress (network, through) VALUES (?1, ?2)
                ON CONFLICT (network) DO UPDATE SET through = max(through, excluded.through)";
            transaction.prepare_cached(sql)?.execute(params![network, signed(through)])?;
            transaction.commit()
        })
    }

    /// Every event of the network up to this seq is in the index.
    pub fn indexed_through(&self, network: u32) -> Result<u64, StoreError> {
        self.read(|connection| progress(connection, network), 0)
    }

    /// Keeps others from feeding the index while the guard lives. To be held from reading the log until what was read is
    /// indexed, and while an event is erased: otherwise a text that was read before is indexed after it was erased.
    pub fn feed(&self) -> MutexGuard<'_, ()> {
        self.feeding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds what the viewer may see.
    pub fn query(&self, query: &SearchQuery<'_>, viewer: &SearchViewer) -> Result<SearchAnswer, StoreError> {
        let low = row_id(query.network, query.after.map_or(0, |after| after.saturating_add(1)).min(SEQ_MAX))?;
        let high = match query.before {
            Some(0) => {
                return Ok(SearchAnswer { seqs: Vec::new(), indexed_through: self.indexed_through(query.network)? });
            }
            Some(before) => row_id(query.network, (before - 1).min(SEQ_MAX))?,
            None => row_id(query.network, SEQ_MAX)?,
        };
        let words = terms(query.text);
        let empty = SearchAnswer { seqs: Vec::new(), indexed_through: 0 };
        self.read(
            |connection| {
                let transaction = connection.transaction()?;
                let indexed_through = progress(&transaction, query.network)?;
                if words.is_empty() {
                    return Ok(SearchAnswer { seqs: Vec::new(), indexed_through });
                }
                show(&transaction, viewer)?;
                let limit = query.limit.min(ANSWERS_MAX);
                let seqs = ask(&transaction, &words, low..=high, viewer, limit, query.oldest_first)?;
                Ok(SearchAnswer { seqs, indexed_through })
            },
            empty,
        )
    }

    /// Takes a text out so that nothing of it is left in the file. Returns whether it was in.
    pub fn remove(&self, network: u32, seq: u64) -> Result<bool, StoreError> {
        let id = row_id(network, seq)?;
        self.write_alone(|connection| {
            let transaction = connection.transaction()?;
            let there = take_out(&transaction, id)?;
            transaction.commit()?;
            if there {
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            }
            Ok(there)
        })
    }

    /// Takes everything of a network out.
    pub fn remove_network(&self, network: u32) -> Result<(), StoreError> {
        let (low, high) = (row_id(network, 0)?, row_id(network, SEQ_MAX)?);
        self.write_alone(|connection| {
            let transaction = connection.transaction()?;
            let sql =
                "INSERT INTO gram (gram, rowid, body) SELECT 'delete', id, body FROM doc WHERE id BETWEEN ?1 AND ?2";
            transaction.execute(sql, [low, high])?;
            transaction.execute("DELETE FROM doc WHERE id BETWEEN ?1 AND ?2", [low, high])?;
            transaction.execute("DELETE FROM also WHERE id BETWEEN ?1 AND ?2", [low, high])?;
            transaction.execute("DELETE FROM progress WHERE network = ?1", [network])?;
            transaction.commit()?;
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        })
    }

    fn lock<'a>(&self, connection: &'a Mutex<Connection>) -> MutexGuard<'a, Connection> {
        connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, call: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.wake()?;
        let result = call(&mut self.lock(&self.writer));
        result.map_err(|error| self.give_up(&error))
    }

    /// Writes while nobody asks: a reader would keep old pages alive.
    fn write_alone<T>(&self, call: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.wake()?;
        let result = {
            let _reader = self.lock(&self.reader);
            call(&mut self.lock(&self.writer))
        };
        result.map_err(|error| self.give_up(&error))
    }

    /// Asks; if the file turns out to be damaged, the answer is that of an empty index.
    fn read<T>(&self, call: impl FnOnce(&mut Connection) -> rusqlite::Result<T>, empty: T) -> Result<T, StoreError> {
        self.wake()?;
        let result = call(&mut self.lock(&self.reader));
        match result {
            Ok(answer) => Ok(answer),
            Err(error) if is_damage(&error) => {
                self.begin_anew()?;
                Ok(empty)
            }
            Err(error) => Err(failed(&self.path, &error)),
        }
    }

    /// Names the error; a damaged file is replaced, so that the caller can feed the index again from `indexed_through`.
    fn give_up(&self, error: &rusqlite::Error) -> StoreError {
        if is_damage(error)
            && let Err(failed) = self.begin_anew()
        {
            return failed;
        }
        failed(&self.path, error)
    }

    fn begin_anew(&self) -> Result<(), StoreError> {
        // Both, the reader's first, as everywhere.
        let mut reader = self.lock(&self.reader);
        let mut writer = self.lock(&self.writer);
        let failed = |error: rusqlite::Error| failed(&self.path, &error);
        *reader = Connection::open_in_memory().map_err(failed)?;
        *writer = Connection::open_in_memory().map_err(failed)?;
        begin_anew(&self.path)?;
        *reader = connect(&self.path).map_err(failed)?;
        *writer = connect(&self.path).map_err(failed)?;
        Ok(())
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, PRAGMAS)?;
    if version(&connection)? == 0 {
        let tables: u32 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if tables == 0 {
            connection.execute_batch(SCHEMA)?;
        }
    }
    connection.execute_batch(VIEWER)?;
    Ok(connection)
}

/// Removes the database and begins an empty one.
fn begin_anew(path: &Path) -> Result<(), StoreError> {
    tracing::warn!(file = %path.display(), "search index damaged or of another version, rebuilding it");
    seal::take_off(path).at("unseal", path)?;
    for ending in ["", "-wal", "-shm", "-journal"] {
        let name = beside(path, ending);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).at("remove", &name),
            _ => {}
        }
    }
    connect(path).map(|_| ()).map_err(|error| failed(path, &error))
}

fn put(connection: &Connection, id: i64, doc: &Doc<'_>) -> rusqlite::Result<()> {
    let body = fold(doc.text, TEXT_BYTES_MAX);
    let mut streams = doc.streams.iter().map(|stream| signed(*stream));
    // 0 is no stream's number.
    let first = streams.next().unwrap_or(0);
    let sql = "INSERT INTO doc (id, stream, source, body) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![id, first, doc.source.map(signed), body])?;
    connection.prepare_cached("INSERT INTO gram (rowid, body) VALUES (?1, ?2)")?.execute(params![id, body])?;
    for stream in streams {
        let sql = "INSERT OR IGNORE INTO also (id, stream) VALUES (?1, ?2)";
        connection.prepare_cached(sql)?.execute([id, stream])?;
    }
    Ok(())
}

fn take_out(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let old: Option<String> = connection
        .prepare_cached("SELECT body FROM doc WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
        .optional()?;
    let Some(old) = old else { return Ok(false) };
    let sql = "INSERT INTO gram (gram, rowid, body) VALUES ('delete', ?1, ?2)";
    connection.prepare_cached(sql)?.execute(params![id, old])?;
    connection.prepare_cached("DELETE FROM doc WHERE id = ?1")?.execute([id])?;
    connection.prepare_cached("DELETE FROM also WHERE id = ?1")?.execute([id])?;
    Ok(true)
}

fn progress(connection: &Connection, network: u32) -> rusqlite::Result<u64> {
    let sql = "SELECT through FROM progress WHERE network = ?1";
    let found: Option<i64> = connection.prepare_cached(sql)?.query_row([network], |row| row.get(0)).optional()?;
    Ok(found.map_or(0, i64::cast_unsigned))
}

/// Puts what the viewer may see where the query looks.
fn show(connection: &Connection, viewer: &SearchViewer) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM temp.seen")?.execute([])?;
    if viewer.operator {
        return Ok(());
    }
    let sql = "INSERT INTO temp.seen (stream, low, high) VALUES (?1, ?2, ?3)
        ON CONFLICT DO UPDATE SET high = max(high, excluded.high)";
    let mut insert = connection.prepare_cached(sql)?;
    for view in viewer.streams.iter().filter(|view| view.stream != 0) {
        let (low, high) = (*view.seqs.start().min(&SEQ_MAX), *view.seqs.end().min(&SEQ_MAX));
        insert.execute(params![signed(view.stream), signed(low), signed(high)])?;
    }
    Ok(())
}

fn ask(
    connection: &Connection,
    words: &[String],
    ids: RangeInclusive<i64>,
    viewer: &SearchViewer,
    limit: usize,
    oldest_first: bool,
) -> rusqlite::Result<Vec<u64>> {
    let grams = grams(words);
    let from = match &grams {
        Some(_) => "gram JOIN doc ON doc.id = gram.rowid WHERE gram MATCH :grams AND gram.rowid BETWEEN :low AND :high",
        None => "doc WHERE :grams IS NULL AND doc.id BETWEEN :low AND :high",
    };
    let order = if grams.is_some() { "gram.rowid" } else { "doc.id" };
    let direction = if oldest_first { "ASC" } else { "DESC" };
    let checks: String = (0..words.len()).map(|n| format!(" AND instr(doc.body, :word{n}) > 0")).collect();
    let seq = format!("(doc.id & {SEQ_MAX})");
    let sql = format!(
        "SELECT {seq} FROM {from}{checks}
         AND (:operator OR doc.source = :member
            OR EXISTS (SELECT 1 FROM temp.seen s WHERE s.stream = doc.stream AND {seq} BETWEEN s.low AND s.high)
            OR EXISTS (SELECT 1 FROM also a JOIN temp.seen s ON s.stream = a.stream
                WHERE a.id = doc.id AND {seq} BETWEEN s.low AND s.high))
         ORDER BY {order} {direction} LIMIT :limit"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let names: Vec<String> = (0..words.len()).map(|n| format!(":word{n}")).collect();
    let (member, limit) = (viewer.member.map(signed), i64::try_from(limit).unwrap_or(i64::MAX));
    let mut values: Vec<(&str, &dyn rusqlite::ToSql)> = vec![
        (":grams", &grams),
        (":low", ids.start()),
        (":high", ids.end()),
        (":operator", &viewer.operator),
        (":member", &member),
        (":limit", &limit),
    ];
    values.extend(names.iter().map(String::as_str).zip(words.iter().map(|word| word as &dyn rusqlite::ToSql)));
    let seq_of = |row: &Row<'_>| row.get::<_, i64>(0).map(i64::cast_unsigned);
    statement.query_map(values.as_slice(), seq_of)?.collect()
}

fn row_id(network: u32, seq: u64) -> Result<i64, StoreError> {
    if network > NETWORK_MAX {
        return Err(StoreError::TooLarge { what: "network number", size: network.into(), limit: NETWORK_MAX.into() });
    }
    if seq > SEQ_MAX {
        return Err(StoreError::TooLarge { what: "seq", size: seq, limit: SEQ_MAX });
    }
    Ok(row_id_of(network, seq))
}

fn row_id_of(network: u32, seq: u64) -> i64 {
    (u64::from(network) << SEQ_BITS | seq).cast_signed()
}

/// SQLite has signed numbers only; equality is all that is asked of these.
fn signed(number: u64) -> i64 {
    number.cast_signed()
}
