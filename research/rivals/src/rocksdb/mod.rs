//! RocksDB through its C API: levelled compaction with the page cache or with direct I/O, and
//! universal compaction with direct I/O.
//!
//! Configured as its wiki recommends ("Setup Options and Basic Tuning", "RocksDB Tuning Guide",
//! "Direct IO"): Bloom filters of 10 bits, filters and indexes in the block cache, dynamic level
//! sizes, two background jobs for each processor. The block cache uses half of the memory with
//! direct I/O, and a third otherwise; the page cache then uses the rest. Multiple keys are read
//! with the batched `MultiGet`.
//!
//! RocksDB's asynchronous reads for `MultiGet` and scans are not available: the C API of 7.8 has no
//! option for them, and Debian builds the library without io_uring.

mod ffi;
pub(crate) mod transactions;

use crate::c_interop::{c_path, chars, slice};
use crate::library_error::LibraryError;
use alluvium_bench::engine::{BenchEngine, EachPair, EngineSession, EngineSetup, WriteLogging};
use anyhow::{Context, Result, bail};
use std::ffi::{CStr, c_int, c_uchar};
use std::ptr;

/// Shares of the memory, in percent.
const DIRECT_CACHE_PERCENT: u64 = 50;
const BUFFERED_CACHE_PERCENT: u64 = 33;
const MEMTABLE_PERCENT: u64 = 12;
const MEMTABLES: c_int = 3;
const BLOCK: usize = 4096;
const BLOOM_BITS: f64 = 10.0;
/// Read-ahead that the tuning guide recommends for compactions with direct I/O.
const READ_AHEAD: usize = 2 << 20;
const MIB: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum CompactionStyle {
    Levelled,
    Universal,
}

/// The I/O mode for files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileIoMode {
    /// Through the page cache.
    Buffered,
    Direct,
}

/// The method that reads multiple keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MultiGetMode {
    Batched,
    /// One `Get` for each key.
    Single,
}

/// The options of all three configurations.
pub(crate) const OPTIONS: &[&str] = &["background-jobs", "cache-percent", "multi-get"];

pub(crate) fn open_buffered(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    Ok(Box::new(RocksDbEngine::open(
        setup,
        CompactionStyle::Levelled,
        FileIoMode::Buffered,
    )?))
}

pub(crate) fn open_direct(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    Ok(Box::new(RocksDbEngine::open(
        setup,
        CompactionStyle::Levelled,
        FileIoMode::Direct,
    )?))
}

pub(crate) fn open_universal(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    Ok(Box::new(RocksDbEngine::open(
        setup,
        CompactionStyle::Universal,
        FileIoMode::Direct,
    )?))
}

/// Sizes derived from the memory, and the user's options.
#[derive(Clone, Copy)]
struct RocksDbSettings {
    style: CompactionStyle,
    access: FileIoMode,
    multi_get: MultiGetMode,
    cache: u64,
    memtable: u64,
    cores: c_int,
    background_jobs: c_int,
}

impl RocksDbSettings {
    fn new(setup: &EngineSetup, style: CompactionStyle, access: FileIoMode) -> Result<RocksDbSettings> {
        let memory = setup.memory.unwrap_or(setup.cap);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as c_int;
        let cache_percent = setup.number("cache-percent", 1..=90)?;
        let cache_percent = cache_percent.unwrap_or(match access {
            FileIoMode::Buffered => BUFFERED_CACHE_PERCENT,
            FileIoMode::Direct => DIRECT_CACHE_PERCENT,
        });
        let jobs = setup.number("background-jobs", 1..=64)?;
        Ok(RocksDbSettings {
            style,
            access,
            multi_get: match setup.option("multi-get") {
                None | Some("batched") => MultiGetMode::Batched,
                Some("single") => MultiGetMode::Single,
                Some(other) => bail!("the option multi-get={other}: write batched or single"),
            },
            cache: memory / 100 * cache_percent,
            memtable: (memory / 100 * MEMTABLE_PERCENT).clamp(MIB, 64 * MIB),
            cores,
            background_jobs: jobs.map_or(2 * cores, |jobs| jobs as c_int),
        })
    }

    /// Returns all options. The caller must destroy them.
    fn options(self) -> *mut ffi::Options {
        let RocksDbSettings {
            cache,
            memtable,
            cores,
            background_jobs,
            ..
        } = self;
        // SAFETY: every pointer is what the library has just returned. The options keep the cache
        // and the table's factory by counts of their own, so that the handles to them are destroyed
        // here; the policy passes to the table.
        unsafe {
            let table = ffi::rocksdb_block_based_options_create();
            let blocks = ffi::rocksdb_cache_create_lru(cache as usize);
            ffi::rocksdb_block_based_options_set_block_cache(table, blocks);
            ffi::rocksdb_block_based_options_set_block_size(table, BLOCK);
            ffi::rocksdb_block_based_options_set_format_version(table, 5);
            let bloom = ffi::rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS);
            ffi::rocksdb_block_based_options_set_filter_policy(table, bloom);
            ffi::rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
            ffi::rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
            let options = ffi::rocksdb_options_create();
            ffi::rocksdb_options_set_create_if_missing(options, 1);
            ffi::rocksdb_options_increase_parallelism(options, cores);
            ffi::rocksdb_options_set_max_background_jobs(options, background_jobs);
            ffi::rocksdb_options_set_compression(options, ffi::NO_COMPRESSION);
            if self.style == CompactionStyle::Universal {
                ffi::rocksdb_options_set_compaction_style(options, ffi::UNIVERSAL_COMPACTION);
            } else {
                ffi::rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
            }
            ffi::rocksdb_options_set_write_buffer_size(options, memtable as usize);
            ffi::rocksdb_options_set_max_write_buffer_number(options, MEMTABLES);
            ffi::rocksdb_options_set_target_file_size_base(options, memtable);
            ffi::rocksdb_options_set_max_bytes_for_level_base(options, 4 * memtable);
            ffi::rocksdb_options_set_bytes_per_sync(options, MIB);
            let is_direct = c_uchar::from(self.access == FileIoMode::Direct);
            ffi::rocksdb_options_set_use_direct_reads(options, is_direct);
            ffi::rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, is_direct);
            ffi::rocksdb_options_compaction_readahead_size(options, READ_AHEAD);
            ffi::rocksdb_options_set_max_open_files(options, -1);
            ffi::rocksdb_options_set_block_based_table_factory(options, table);
            ffi::rocksdb_block_based_options_destroy(table);
            ffi::rocksdb_cache_destroy(blocks);
            options
        }
    }

    fn settings(self) -> Vec<(String, String)> {
        let style = match self.style {
            CompactionStyle::Levelled => "levelled, dynamic level sizes",
            CompactionStyle::Universal => "universal",
        };
        let access = match self.access {
            FileIoMode::Buffered => "through the page cache; compactions read ahead 2 MiB",
            FileIoMode::Direct => "direct; compactions read ahead 2 MiB",
        };
        let multi_get = match self.multi_get {
            MultiGetMode::Batched => "batched MultiGet",
            MultiGetMode::Single => "one by one",
        };
        [
            ("version", "librocksdb 7.8, C API".to_owned()),
            ("compaction", style.to_owned()),
            (
                "block cache",
                format!("{} MiB, with filters and indexes", self.cache / MIB),
            ),
            ("memtables", format!("{MEMTABLES} x {} MiB", self.memtable / MIB)),
            ("blocks", format!("{BLOCK} bytes")),
            ("filter", format!("bloom, {BLOOM_BITS} bits")),
            ("I/O", access.to_owned()),
            ("background jobs", self.background_jobs.to_string()),
            ("reads of many keys", multi_get.to_owned()),
            (
                "asynchronous reads",
                "none: the C API of 7.8 has no switch, and the library no io_uring".to_owned(),
            ),
            ("compression", "none".to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

struct RocksDbEngine {
    db: *mut ffi::Db,
    family: *mut ffi::Family,
    read: *mut ffi::ReadOptions,
    write: *mut ffi::WriteOptions,
    multi_get: MultiGetMode,
    settings: Vec<(String, String)>,
}

// SAFETY: RocksDB's documentation lets any number of threads use a database without
// synchronisation; the options are only read.
unsafe impl Send for RocksDbEngine {}
// SAFETY: as above.
unsafe impl Sync for RocksDbEngine {}

impl RocksDbEngine {
    fn open(setup: &EngineSetup, style: CompactionStyle, access: FileIoMode) -> Result<RocksDbEngine> {
        let tuning = RocksDbSettings::new(setup, style, access)?;
        let path = c_path(&setup.directory.join("store"))?;
        let (mut family, mut failure) = (ptr::null_mut(), LibraryError::default());
        // SAFETY: every pointer is what the library has just returned. The library copies the
        // options, which are destroyed here.
        let (db, read, write) = unsafe {
            let options = tuning.options();
            let name = c"default".as_ptr();
            let family_options = options.cast_const();
            let db = ffi::rocksdb_open_column_families(
                options,
                path.as_ptr(),
                1,
                &raw const name,
                &raw const family_options,
                &raw mut family,
                failure.slot(),
            );
            ffi::rocksdb_options_destroy(options);
            failure.take()?;
            let write = ffi::rocksdb_writeoptions_create();
            ffi::rocksdb_writeoptions_disable_WAL(write, c_int::from(setup.log == WriteLogging::Off));
            (db, ffi::rocksdb_readoptions_create(), write)
        };
        Ok(RocksDbEngine {
            db,
            family,
            read,
            write,
            multi_get: tuning.multi_get,
            settings: tuning.settings(),
        })
    }

    fn property(&self, name: &CStr) -> String {
        // SAFETY: the database is open, the name ends with zero; what is returned is null or a text
        // that is ours to free.
        unsafe {
            let text = ffi::rocksdb_property_value(self.db, name.as_ptr());
            if text.is_null() {
                return String::new();
            }
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            ffi::rocksdb_free(text.cast());
            copy
        }
    }
}

impl Drop for RocksDbEngine {
    fn drop(&mut self) {
        // SAFETY: sessions borrow this and are gone; each is destroyed once, the database last.
        unsafe {
            ffi::rocksdb_readoptions_destroy(self.read);
            ffi::rocksdb_writeoptions_destroy(self.write);
            ffi::rocksdb_column_family_handle_destroy(self.family);
            ffi::rocksdb_close(self.db);
        }
    }
}

impl BenchEngine for RocksDbEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        Ok(Box::new(RocksDbSession { engine: self }))
    }

    fn flush(&self) -> Result<()> {
        let mut failure = LibraryError::default();
        // SAFETY: the database is open, the options are ours and live until they are destroyed.
        unsafe {
            let options = ffi::rocksdb_flushoptions_create();
            ffi::rocksdb_flushoptions_set_wait(options, 1);
            ffi::rocksdb_flush(self.db, options, failure.slot());
            ffi::rocksdb_flushoptions_destroy(options);
        }
        failure.take()
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn remarks(&self) -> String {
        self.property(c"rocksdb.levelstats")
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct RocksDbSession<'a> {
    engine: &'a RocksDbEngine,
}

impl EngineSession for RocksDbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut failure = LibraryError::default();
        let (key_at, value_at) = (chars(key), chars(value));
        let engine = self.engine;
        // SAFETY: the slices live through the call, which copies them.
        unsafe {
            ffi::rocksdb_put(
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
            ffi::rocksdb_delete(engine.db, engine.write, chars(key), key.len(), failure.slot());
        }
        failure.take()
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut failure = LibraryError::default();
        let engine = self.engine;
        // SAFETY: the key lives through the call; what is returned is null or pins a value until it
        // is destroyed, here.
        unsafe {
            let pinned =
                ffi::rocksdb_get_pinned(engine.db, engine.read, chars(key), key.len(), failure.slot());
            failure.take()?;
            if pinned.is_null() {
                return Ok(false);
            }
            let mut bytes = 0;
            let value = ffi::rocksdb_pinnableslice_value(pinned, &raw mut bytes);
            found(slice(value, bytes));
            ffi::rocksdb_pinnableslice_destroy(pinned);
        }
        Ok(true)
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        let mut failure = LibraryError::default();
        let mut count = 0;
        // SAFETY: the iterator lives from its creation to its destruction here; keys and values are
        // valid until it moves.
        unsafe {
            let iterator = ffi::rocksdb_create_iterator(self.engine.db, self.engine.read);
            ffi::rocksdb_iter_seek(iterator, chars(from), from.len());
            while count < limit && ffi::rocksdb_iter_valid(iterator) != 0 {
                let (mut key_bytes, mut value_bytes) = (0, 0);
                let key = ffi::rocksdb_iter_key(iterator, &raw mut key_bytes);
                let value = ffi::rocksdb_iter_value(iterator, &raw mut value_bytes);
                each(slice(key, key_bytes), slice(value, value_bytes));
                count += 1;
                if count < limit {
                    ffi::rocksdb_iter_next(iterator);
                }
            }
            ffi::rocksdb_iter_get_error(iterator, failure.slot());
            ffi::rocksdb_iter_destroy(iterator);
        }
        failure.take()?;
        Ok(count)
    }

    fn multi_get(&mut self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<usize> {
        if self.engine.multi_get == MultiGetMode::Single {
            let mut count = 0;
            for (place, key) in keys.iter().enumerate() {
                count += usize::from(self.get(key, &mut |value| found(place, value))?);
            }
            return Ok(count);
        }
        let places: Vec<_> = keys.iter().map(|key| chars(key)).collect();
        let bytes: Vec<usize> = keys.iter().map(|key| key.len()).collect();
        let mut values = vec![ptr::null_mut(); keys.len()];
        let mut errors = vec![ptr::null_mut(); keys.len()];
        let engine = self.engine;
        // SAFETY: all four arrays have the length that is passed and live through the call; each
        // value is destroyed once, and each error is freed once.
        unsafe {
            ffi::rocksdb_batched_multi_get_cf(
                engine.db,
                engine.read,
                engine.family,
                keys.len(),
                places.as_ptr(),
                bytes.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
            let mut count = 0;
            let mut failed = Ok(());
            for (place, (&value, &error)) in values.iter().zip(&errors).enumerate() {
                failed = failed.and(LibraryError::of(error).take());
                if value.is_null() {
                    continue;
                }
                let mut bytes = 0;
                let text = ffi::rocksdb_pinnableslice_value(value, &raw mut bytes);
                found(place, slice(text, bytes));
                ffi::rocksdb_pinnableslice_destroy(value);
                count += 1;
            }
            failed.context("reading many keys")?;
            Ok(count)
        }
    }
}
