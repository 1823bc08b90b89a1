//! fjall, a log-structured merge-tree in Rust.
//!
//! Configured as its documentation recommends: a cache of a quarter to a half of the memory, and
//! default filters. Built without LZ4, so that nothing is compressed.

use alluvium_bench::engine::{BenchEngine, EachPair, EngineSession, EngineSetup, WriteLogging};
use anyhow::{Result, bail};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

const CACHE_PERCENT: u64 = 40;
const MEMTABLE_PERCENT: u64 = 12;
const MIB: u64 = 1 << 20;

struct FjallEngine {
    db: Database,
    keyspace: Keyspace,
    settings: Vec<(String, String)>,
}

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    if setup.log == WriteLogging::Off {
        bail!("fjall always has its journal: leave out --without-log, or measure it apart");
    }
    let memory = setup.memory.unwrap_or(setup.cap);
    let cache = memory / 100 * CACHE_PERCENT;
    let memtable = (memory / 100 * MEMTABLE_PERCENT).clamp(MIB, 64 * MIB);
    let db = Database::builder(setup.directory.join("store"))
        .cache_size(cache)
        .open()?;
    let keyspace = db.keyspace("usertable", || {
        KeyspaceCreateOptions::default().max_memtable_size(memtable)
    })?;
    let settings = [
        ("version", "fjall 3".to_owned()),
        ("cache", format!("{} MiB", cache / MIB)),
        ("memtable", format!("{} MiB", memtable / MIB)),
        ("I/O", "through the page cache".to_owned()),
        ("compression", "none".to_owned()),
    ];
    Ok(Box::new(FjallEngine {
        db,
        keyspace,
        settings: settings
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }))
}

impl BenchEngine for FjallEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        Ok(Box::new(FjallSession {
            keyspace: self.keyspace.clone(),
        }))
    }

    fn flush(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }
}

struct FjallSession {
    keyspace: Keyspace,
}

impl EngineSession for FjallSession {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.keyspace.insert(key, value)?)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.keyspace.remove(key)?)
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.keyspace.get(key)?;
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        let mut count = 0;
        for guard in self.keyspace.range(from..).take(limit) {
            let (key, value) = guard.into_inner()?;
            each(&key, &value);
            count += 1;
        }
        Ok(count)
    }
}
