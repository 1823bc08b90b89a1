//! redb, a copy-on-write B-tree in Rust.
//!
//! It has no log. A commit without a sync survives nothing until a later commit is synced. Here
//! each put is a separate commit, and one commit a second is durable. The death of the process
//! therefore loses up to a second of writes, more than with engines that have a log.

use alluvium_bench::engine::{BenchEngine, EachPair, EngineSession, EngineSetup};
use anyhow::Result;
use redb::{Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("usertable");
const CACHE_PERCENT: u64 = 50;
const MIB: u64 = 1 << 20;
/// Interval between durable commits.
const EVERY: Duration = Duration::from_secs(1);

struct RedbEngine {
    db: Database,
    /// Time of the last durable commit.
    synced: Mutex<Instant>,
    settings: Vec<(String, String)>,
}

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    let cache = setup.memory.unwrap_or(setup.cap) / 100 * CACHE_PERCENT;
    let db = Database::builder()
        .set_cache_size(cache as usize)
        .create(setup.directory.join("store.redb"))?;
    let write = db.begin_write()?;
    write.open_table(TABLE)?;
    write.commit()?;
    let settings = [
        ("version", "redb 4".to_owned()),
        ("cache", format!("{} MiB", cache / MIB)),
        (
            "durability",
            "no log: a commit for each put, a durable one every second".to_owned(),
        ),
        ("compression", "none".to_owned()),
    ];
    Ok(Box::new(RedbEngine {
        db,
        synced: Mutex::new(Instant::now()),
        settings: settings
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }))
}

impl RedbEngine {
    /// Returns whether the next commit must be durable.
    fn is_due(&self) -> bool {
        let Ok(mut synced) = self.synced.lock() else {
            return true;
        };
        if synced.elapsed() < EVERY {
            return false;
        }
        *synced = Instant::now();
        true
    }
}

impl BenchEngine for RedbEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        Ok(Box::new(RedbSession { engine: self }))
    }

    fn flush(&self) -> Result<()> {
        let write = self.db.begin_write()?;
        write.open_table(TABLE)?;
        Ok(write.commit()?)
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.flush()
    }
}

struct RedbSession<'a> {
    engine: &'a RedbEngine,
}

impl RedbSession<'_> {
    /// Begins a write transaction, which is durable if a durable commit is due.
    fn write(&self) -> Result<WriteTransaction> {
        let mut write = self.engine.db.begin_write()?;
        if !self.engine.is_due() {
            write.set_durability(Durability::None)?;
        }
        Ok(write)
    }
}

impl EngineSession for RedbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let write = self.write()?;
        write.open_table(TABLE)?.insert(key, value)?;
        Ok(write.commit()?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let write = self.write()?;
        write.open_table(TABLE)?.remove(key)?;
        Ok(write.commit()?)
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.engine.db.begin_read()?.open_table(TABLE)?;
        let value = redb::ReadableTable::get(&table, key)?;
        if let Some(value) = &value {
            found(value.value());
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        let table = self.engine.db.begin_read()?.open_table(TABLE)?;
        let mut count = 0;
        for pair in redb::ReadableTable::range(&table, from..)?.take(limit) {
            let (key, value) = pair?;
            each(key.value(), value.value());
            count += 1;
        }
        Ok(count)
    }
}
