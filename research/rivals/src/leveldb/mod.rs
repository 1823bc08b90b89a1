//! LevelDB through its C API.
//!
//! Configured as its documentation recommends (`doc/index.md`): a Bloom filter of 10 bits, a larger
//! write buffer, a block cache; no compression, because values are incompressible. LevelDB maps its
//! tables into memory, so that a large read-ahead of the device would load megabytes for each read.
//! Once a session looks up keys, all mappings of tables are advised that access is random. They are
//! not advised while a load compacts, because compactions benefit from read-ahead.

mod advice;
mod ffi;
pub mod writes;

use crate::c_interop::{c_path, chars, slice};
use crate::library_error::{LibraryError, free};
use advice::AdviceThread;
use alluvium_bench::engine::{BenchEngine, EachPair, EngineSession, EngineSetup, WriteLogging};
use anyhow::{Result, bail};
use std::ffi::CStr;
use std::path::Path;

const CACHE_PERCENT: u64 = 25;
const MEMTABLE_PERCENT: u64 = 12;
const BLOOM_BITS: i32 = 10;
const FILE: usize = 8 << 20;
/// Maximum number of open tables, which covers all tables of stores of this size.
const OPEN_FILES: i32 = 10_000;
/// Scans of at least this many records benefit from read-ahead.
const LONG: usize = 1000;
const MIB: u64 = 1 << 20;

struct LevelDbEngine {
    db: *mut ffi::Db,
    read: *mut ffi::ReadOptions,
    write: *mut ffi::WriteOptions,
    cache: *mut ffi::Cache,
    bloom: *mut ffi::FilterPolicy,
    options: *mut ffi::Options,
    advice: AdviceThread,
    settings: Vec<(String, String)>,
}

// SAFETY: LevelDB's documentation lets any number of threads use a database without
// synchronisation; the options are only read.
unsafe impl Send for LevelDbEngine {}
// SAFETY: as above.
unsafe impl Sync for LevelDbEngine {}

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    if setup.log == WriteLogging::Off {
        bail!("leveldb always has its log: leave out --without-log, or measure it apart");
    }
    let memory = setup.memory.unwrap_or(setup.cap);
    let sizes = LevelDbSizes {
        cached: memory / 100 * CACHE_PERCENT,
        memtable: (memory / 100 * MEMTABLE_PERCENT).clamp(MIB, 64 * MIB),
        file: FILE,
    };
    Ok(Box::new(opened(&setup.directory.join("store"), sizes)?))
}

/// Sizes of the cache, the memtable and a table file, in bytes.
#[derive(Clone, Copy, Debug)]
struct LevelDbSizes {
    cached: u64,
    memtable: u64,
    file: usize,
}

fn opened(path: &Path, sizes: LevelDbSizes) -> Result<LevelDbEngine> {
    let LevelDbSizes {
        cached,
        memtable,
        file,
    } = sizes;
    let path = c_path(path)?;
    let mut failure = LibraryError::default();
    // SAFETY: every pointer is what the library has just returned; all live until the database is
    // closed, for the library does not copy them.
    let mut engine = unsafe {
        let options = ffi::leveldb_options_create();
        let cache = ffi::leveldb_cache_create_lru(cached as usize);
        let bloom = ffi::leveldb_filterpolicy_create_bloom(BLOOM_BITS);
        ffi::leveldb_options_set_create_if_missing(options, 1);
        ffi::leveldb_options_set_cache(options, cache);
        ffi::leveldb_options_set_filter_policy(options, bloom);
        ffi::leveldb_options_set_write_buffer_size(options, memtable as usize);
        ffi::leveldb_options_set_max_file_size(options, file);
        ffi::leveldb_options_set_max_open_files(options, OPEN_FILES);
        ffi::leveldb_options_set_compression(options, ffi::NO_COMPRESSION);
        LevelDbEngine {
            db: ffi::leveldb_open(options, path.as_ptr(), failure.slot()),
            read: ffi::leveldb_readoptions_create(),
            write: ffi::leveldb_writeoptions_create(),
            cache,
            bloom,
            options,
            advice: AdviceThread::start()?,
            settings: Vec::new(),
        }
    };
    failure.take()?;
    engine.settings = [
        ("version", "libleveldb 1.23".to_owned()),
        ("block cache", format!("{} MiB", cached / MIB)),
        ("memtable", format!("{} MiB", memtable / MIB)),
        ("files", format!("{} MiB", file >> 20)),
        ("filter", format!("bloom, {BLOOM_BITS} bits")),
        (
            "I/O",
            "mapped, access advised as random once keys are looked up".to_owned(),
        ),
        ("compression", "none".to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    Ok(engine)
}

impl Drop for LevelDbEngine {
    fn drop(&mut self) {
        self.advice.stop();
        // SAFETY: sessions borrow this and are gone; each is destroyed once, the database before
        // what it uses. It is null where opening has failed.
        unsafe {
            if !self.db.is_null() {
                ffi::leveldb_close(self.db);
            }
            ffi::leveldb_readoptions_destroy(self.read);
            ffi::leveldb_writeoptions_destroy(self.write);
            ffi::leveldb_options_destroy(self.options);
            ffi::leveldb_cache_destroy(self.cache);
            ffi::leveldb_filterpolicy_destroy(self.bloom);
        }
    }
}

impl BenchEngine for LevelDbEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        Ok(Box::new(LevelDbSession { engine: self }))
    }

    fn flush(&self) -> Result<()> {
        // LevelDB has no call to flush. The memtable is flushed when it is full, and its contents
        // are in the log.
        Ok(())
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn remarks(&self) -> String {
        // SAFETY: the database is open, the name ends with zero; what is returned is null or a text
        // that is ours to free.
        unsafe {
            let text = ffi::leveldb_property_value(self.db, c"leveldb.stats".as_ptr());
            if text.is_null() {
                return String::new();
            }
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            free(text);
            copy
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct LevelDbSession<'a> {
    engine: &'a LevelDbEngine,
}

impl EngineSession for LevelDbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut failure = LibraryError::default();
        let (key_at, value_at) = (chars(key), chars(value));
        let engine = self.engine;
        // SAFETY: the slices live through the call, which copies them.
        unsafe {
            ffi::leveldb_put(
                engine.db,
                engine.write,
                key_at,
                key.len(),
                value_at,
                value.len(),
                failure.slot(),
            );
        }
        failure.take()
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let mut failure = LibraryError::default();
        let engine = self.engine;
        // SAFETY: the key lives through the call, which copies it.
        unsafe {
            ffi::leveldb_delete(engine.db, engine.write, chars(key), key.len(), failure.slot());
        }
        failure.take()
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.engine.advice.enable_advice();
        let mut failure = LibraryError::default();
        let mut bytes = 0;
        let engine = self.engine;
        // SAFETY: the key lives through the call; what is returned is null or bytes that are ours
        // to free.
        unsafe {
            let value = ffi::leveldb_get(
                engine.db,
                engine.read,
                chars(key),
                key.len(),
                &raw mut bytes,
                failure.slot(),
            );
            failure.take()?;
            if value.is_null() {
                return Ok(false);
            }
            found(slice(value, bytes));
            free(value);
        }
        Ok(true)
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        if limit < LONG {
            self.engine.advice.enable_advice();
        }
        let mut failure = LibraryError::default();
        let mut count = 0;
        // SAFETY: the iterator lives from its creation to its destruction here; keys and values are
        // valid until it moves.
        unsafe {
            let iterator = ffi::leveldb_create_iterator(self.engine.db, self.engine.read);
            ffi::leveldb_iter_seek(iterator, chars(from), from.len());
            while count < limit && ffi::leveldb_iter_valid(iterator) != 0 {
                let (mut key_bytes, mut value_bytes) = (0, 0);
                let key = ffi::leveldb_iter_key(iterator, &raw mut key_bytes);
                let value = ffi::leveldb_iter_value(iterator, &raw mut value_bytes);
                each(slice(key, key_bytes), slice(value, value_bytes));
                count += 1;
                if count < limit {
                    ffi::leveldb_iter_next(iterator);
                }
            }
            ffi::leveldb_iter_get_error(iterator, failure.slot());
            ffi::leveldb_iter_destroy(iterator);
        }
        failure.take()?;
        Ok(count)
    }
}
