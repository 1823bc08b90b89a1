//! SQLite, the system's library.
//!
//! Configured as its documentation recommends for a table that is used as a map: `WITHOUT ROWID`, a
//! write-ahead log, `synchronous = NORMAL` (the log survives the death of the process; it is synced
//! only at checkpoints), and a cache of half of the memory, divided among the connections.

use alluvium_bench::engine::{BenchEngine, EachPair, EngineSession, EngineSetup, WriteLogging};
use anyhow::{Result, anyhow, bail};
use rusqlite::{Connection, OptionalExtension};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const CACHE_PERCENT: u64 = 50;
const KIB: u64 = 1 << 10;
/// Busy timeout. A waiting writer gets its turn well within this time.
const PATIENCE_MS: u64 = 60_000;

struct SqliteEngine {
    path: PathBuf,
    cache_kib: u64,
    /// Connection for work outside sessions.
    own: Mutex<Connection>,
    settings: Vec<(String, String)>,
}

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    if setup.log == WriteLogging::Off {
        bail!("sqlite without a journal does not survive a crash of its process: leave out --without-log");
    }
    let cache_kib = setup.memory.unwrap_or(setup.cap) / 100 * CACHE_PERCENT / setup.threads as u64 / KIB;
    let path = setup.directory.join("store.sqlite");
    let own = connect(&path, 2048)?;
    own.execute_batch(
        "CREATE TABLE IF NOT EXISTS usertable (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;",
    )?;
    let settings = [
        ("version", rusqlite::version().to_owned()),
        ("journal", "write-ahead log, synchronous = NORMAL".to_owned()),
        ("cache", format!("{cache_kib} KiB for each thread")),
        ("table", "WITHOUT ROWID, prepared statements".to_owned()),
        ("compression", "none".to_owned()),
    ];
    Ok(Box::new(SqliteEngine {
        path,
        cache_kib,
        own: Mutex::new(own),
        settings: settings
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }))
}

fn connect(path: &Path, cache_kib: u64) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.query_row(&format!("PRAGMA busy_timeout = {PATIENCE_MS}"), [], |_| Ok(()))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // A negative number is in KiB.
    connection.pragma_update(None, "cache_size", -(cache_kib as i64))?;
    Ok(connection)
}

impl BenchEngine for SqliteEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        Ok(Box::new(SqliteSession {
            connection: connect(&self.path, self.cache_kib)?,
        }))
    }

    fn flush(&self) -> Result<()> {
        let own = self.own.lock().map_err(|_| anyhow!("a thread has panicked"))?;
        own.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.flush()
    }
}

struct SqliteSession {
    connection: Connection,
}

impl EngineSession for SqliteSession {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let text =
            "INSERT INTO usertable (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
        self.connection.prepare_cached(text)?.execute((key, value))?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let text = "DELETE FROM usertable WHERE key = ?1";
        self.connection.prepare_cached(text)?.execute((key,))?;
        Ok(())
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT value FROM usertable WHERE key = ?1")?;
        let row = statement.query_row((key,), |row| {
            found(row.get_ref(0)?.as_blob()?);
            Ok(())
        });
        Ok(row.optional()?.is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT key, value FROM usertable WHERE key >= ?1 ORDER BY key LIMIT ?2")?;
        let mut rows = statement.query((from, limit as i64))?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            each(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
            count += 1;
        }
        Ok(count)
    }
}
