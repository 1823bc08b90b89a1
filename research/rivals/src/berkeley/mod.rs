//! Berkeley DB 5.3, Debian's library: a B-tree with pages of 512 bytes to 64 KiB.
//!
//! Configured as its reference guide recommends for writers that must not lose data when the
//! process dies: transactions with `DB_TXN_WRITE_NOSYNC`, so that the log record of each put is in
//! the page cache; checkpoints as the log grows; and a cache of half of the memory, because Debian
//! builds the library without direct I/O and the page cache uses the rest. Without a log, the store
//! uses Berkeley DB's Concurrent Data Store.

mod ffi;
mod store;

pub(crate) use store::{BerkeleySizes, BerkeleyStore, LoggingMode, PageTransfers};

use alluvium_bench::engine::{BenchEngine, EachPair, EngineSession, EngineSetup, WriteLogging};
use anyhow::Result;
use std::sync::atomic::{AtomicU64, Ordering};
use store::{CursorMove, CursorOutcome};

const CACHE_PERCENT: u64 = 50;
/// The library's default: the file system's block size, which is 4 KiB on Linux.
const PAGE: u32 = 4 << 10;
/// Log growth that triggers a checkpoint, and the number of puts between checks.
const CHECKPOINT_KIB: u32 = 64 << 10;
const PUTS: u64 = 4096;

/// The options of the engine.
pub(crate) const OPTIONS: &[&str] = &["page-bytes", "cache-percent"];

struct BerkeleyEngine {
    store: BerkeleyStore,
    puts: AtomicU64,
    sizes: BerkeleySizes,
    logging: LoggingMode,
}

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    let page_bytes = setup.number("page-bytes", 512..=64 << 10)?;
    let percent = setup.number("cache-percent", 1..=90)?.unwrap_or(CACHE_PERCENT);
    let sizes = BerkeleySizes {
        page_bytes: page_bytes.map_or(Ok(PAGE), u32::try_from)?,
        cache_bytes: setup.memory.unwrap_or(setup.cap) / 100 * percent,
    };
    let logging = match setup.log {
        WriteLogging::On => LoggingMode::Written,
        WriteLogging::Off => LoggingMode::None,
    };
    let directory = setup.directory.join("store");
    std::fs::create_dir_all(&directory)?;
    Ok(Box::new(BerkeleyEngine {
        store: BerkeleyStore::open(&directory, sizes, logging)?,
        puts: AtomicU64::new(0),
        sizes,
        logging,
    }))
}

impl BenchEngine for BerkeleyEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        Ok(Box::new(BerkeleySession {
            engine: self,
            key: vec![0; 64],
            value: vec![0; 4096],
        }))
    }

    fn flush(&self) -> Result<()> {
        self.store.checkpoint(0)
    }

    fn settings(&self) -> Vec<(String, String)> {
        [
            ("version", store::version()),
            ("pages", format!("{} bytes", self.sizes.page_bytes)),
            ("cache", format!("{} MiB", self.sizes.cache_bytes >> 20)),
            (
                "log",
                match self.logging {
                    LoggingMode::Written => "a transaction for each put, DB_TXN_WRITE_NOSYNC",
                    LoggingMode::None => "none: a concurrent data store",
                }
                .to_owned(),
            ),
            ("compression", "none".to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    fn remarks(&self) -> String {
        self.store.pages().map_or_else(
            |error| format!("{error:#}"),
            |pages| format!("{} pages read, {} written", pages.reads, pages.writes),
        )
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.flush()?;
        self.store.close()
    }
}

struct BerkeleySession<'a> {
    engine: &'a BerkeleyEngine,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl BerkeleySession<'_> {
    /// Counts a change, and starts a checkpoint if the log has grown enough.
    fn count(&self) -> Result<()> {
        let before = self.engine.puts.fetch_add(1, Ordering::Relaxed);
        if self.engine.logging == LoggingMode::Written && before % PUTS == PUTS - 1 {
            self.engine.store.checkpoint(CHECKPOINT_KIB)?;
        }
        Ok(())
    }
}

impl EngineSession for BerkeleySession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine.store.put(key, value)?;
        self.count()
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.engine.store.delete(key)?;
        self.count()
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.engine.store.get(key, &mut self.value)?;
        if let Some(value) = value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        let engine = self.engine;
        let (mut count, mut after) = (0, from.to_vec());
        while count < limit {
            let mut cursor = engine.store.cursor()?;
            let mut is_first = true;
            loop {
                let step = if is_first {
                    CursorMove::To(&after)
                } else {
                    CursorMove::Next
                };
                match cursor.step(step, &mut self.key, &mut self.value)? {
                    CursorOutcome::Pair(key, value) => {
                        each(&self.key[..key], &self.value[..value]);
                        count += 1;
                        if count == limit {
                            return Ok(count);
                        }
                        // After a deadlock, the scan continues with the next key.
                        after.clear();
                        after.extend_from_slice(&self.key[..key]);
                        after.push(0);
                        is_first = false;
                    }
                    CursorOutcome::End => return Ok(count),
                    CursorOutcome::Deadlock => break,
                }
            }
        }
        Ok(count)
    }
}
