//! SQLite's transactions: `BEGIN IMMEDIATE`, with a single writer at a time, and a write-ahead log
//! with `synchronous = FULL`, which syncs each commit.

use super::{CACHE_PERCENT, settings};
use alluvium_bench::engine::EngineSetup;
use alluvium_bench::transactions::engine::{
    AckDurability, AttemptError, AttemptResult, EngineTransaction, KEYSPACES, TransactionBody,
    TransactionClient, TransactionalEngine,
};
use anyhow::Result;
use rusqlite::{Connection, ErrorCode, OptionalExtension};
use std::path::PathBuf;

const KIB: u64 = 1 << 10;

/// Minimum cache of a connection; SQLite's default.
const LEAST_CACHE_KIB: u64 = 2000;

/// Busy timeout. A waiting writer gets its turn well within this time.
const PATIENCE_MS: u64 = 60_000;

struct SqliteTransactionEngine {
    path: PathBuf,
    cache_kib: u64,
}

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn TransactionalEngine>> {
    let cache = setup.memory.unwrap_or(setup.cap) / 100 * CACHE_PERCENT;
    let engine = SqliteTransactionEngine {
        path: setup.directory.join("store.sqlite"),
        cache_kib: (cache / setup.threads.max(1) as u64 / KIB).max(LEAST_CACHE_KIB),
    };
    let own = engine.connect(AckDurability::Disk)?;
    for number in 0..KEYSPACES {
        own.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS tree_{number} (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
        ))?;
    }
    Ok(Box::new(engine))
}

impl SqliteTransactionEngine {
    fn connect(&self, durability: AckDurability) -> Result<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.query_row(&format!("PRAGMA busy_timeout = {PATIENCE_MS}"), [], |_| Ok(()))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match durability {
            AckDurability::Disk => "FULL",
            AckDurability::Later => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        // A negative number is in KiB.
        connection.pragma_update(None, "cache_size", -(self.cache_kib as i64))?;
        Ok(connection)
    }
}

impl TransactionalEngine for SqliteTransactionEngine {
    fn client(&self, durability: AckDurability) -> Result<Box<dyn TransactionClient + '_>> {
        Ok(Box::new(SqliteClient(self.connect(durability)?)))
    }

    fn settings(&self) -> Vec<(String, String)> {
        settings([
            ("version", rusqlite::version().to_owned()),
            ("transactions", "BEGIN IMMEDIATE, one writer at a time".to_owned()),
            ("cache", format!("{} KiB for each client", self.cache_kib)),
            (
                "a commit syncs by",
                "fdatasync of the log (synchronous = FULL)".to_owned(),
            ),
            (
                "without a sync",
                "survives the death of the process (synchronous = NORMAL)".to_owned(),
            ),
        ])
    }

    fn close(self: Box<Self>) -> Result<()> {
        let own = self.connect(AckDurability::Disk)?;
        own.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}

struct SqliteClient(Connection);

impl SqliteClient {
    fn execute(&self, text: &str) -> AttemptResult<()> {
        let done = self
            .0
            .prepare_cached(text)
            .and_then(|mut statement| statement.execute([]));
        done.map(drop).map_err(stop)
    }
}

impl TransactionClient for SqliteClient {
    fn attempt(&mut self, body: TransactionBody<'_>) -> AttemptResult<()> {
        self.execute("BEGIN IMMEDIATE")?;
        let done = body(&mut SqliteTransaction(&self.0)).and_then(|()| self.execute("COMMIT"));
        if done.is_err() && !self.0.is_autocommit() {
            self.execute("ROLLBACK")?;
        }
        done
    }
}

struct SqliteTransaction<'a>(&'a Connection);

/// The statements that read and write each table.
const READS: [&str; KEYSPACES] = [
    "SELECT value FROM tree_0 WHERE key = ?1",
    "SELECT value FROM tree_1 WHERE key = ?1",
    "SELECT value FROM tree_2 WHERE key = ?1",
    "SELECT value FROM tree_3 WHERE key = ?1",
];
const WRITES: [&str; KEYSPACES] = [
    "INSERT INTO tree_0 (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
    "INSERT INTO tree_1 (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
    "INSERT INTO tree_2 (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
    "INSERT INTO tree_3 (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2",
];

impl EngineTransaction for SqliteTransaction<'_> {
    fn get_for_update(
        &mut self,
        keyspace: usize,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> AttemptResult<bool> {
        let mut statement = self.0.prepare_cached(READS[keyspace]).map_err(stop)?;
        let row = statement.query_row((key,), |row| {
            found(row.get_ref(0)?.as_blob()?);
            Ok(())
        });
        Ok(row.optional().map_err(stop)?.is_some())
    }

    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> AttemptResult<()> {
        let mut statement = self.0.prepare_cached(WRITES[keyspace]).map_err(stop)?;
        statement.execute((key, value)).map_err(stop)?;
        Ok(())
    }
}

fn stop(error: rusqlite::Error) -> AttemptError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => AttemptError::Conflict,
        _ => AttemptError::failed(error),
    }
}
