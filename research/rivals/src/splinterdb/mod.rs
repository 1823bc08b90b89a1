//! SplinterDB, a size-tiered Bε-tree (Conway et al., USENIX ATC 2020), loaded from a shared library
//! that the user names.
//!
//! Configured as its headers recommend: direct I/O, one background thread for memtables and one
//! compaction thread for each processor, and a cache of most of the memory, which includes the
//! memtables. SplinterDB writes a log but cannot replay it yet; writes since the last clean
//! shutdown are lost when the process dies.

mod ffi;

use crate::c_interop::{c_path, slice};
use alluvium_bench::engine::{BenchEngine, EachPair, EngineSession, EngineSetup, WriteLogging};
use anyhow::{Context, Result, bail};
use ffi::Functions;
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::ptr;

/// Share of the memory used by the cache, in percent. Reference counts and per-thread state are
/// outside the cache.
const CACHE_PERCENT: u64 = 75;
/// Size of a memtable as a fraction of the memory. Up to four memtables may exist at once.
const MEMTABLE_PART: u64 = 24;
/// Maximum size of a memtable; the default of the library.
const MEMTABLE_MOST: u64 = 24 << 20;
const MEMTABLE_LEAST: u64 = 2 << 20;
/// Minimum size of the file, which is fixed at creation. The file is sparse.
const DISK_LEAST: u64 = 8 << 30;
/// Size of the file, in multiples of the records.
const DISK_TIMES: u64 = 8;
const EXTENT: u64 = 128 << 10;
const MOST_THREADS: u64 = 32;
/// Writers perform background work when the queue exceeds this share of the background threads, in
/// percent. This is the header's default; zero means always.
const QUEUE_PERCENT: u64 = 100;
/// `O_RDWR`, `O_CREAT` and `O_DIRECT` of Linux on x86-64.
const IO_FLAGS: c_int = 0o2 | 0o100 | 0o40_000;
const MIB: u64 = 1 << 20;

struct SplinterDbEngine {
    functions: Functions,
    kvs: *mut ffi::Kvs,
    /// The library keeps a reference to it until the store is closed.
    data: *mut ffi::DataConfig,
    settings: Vec<(String, String)>,
}

// SAFETY: SplinterDB lets any number of threads use a store without synchronisation, and registers
// each by itself.
unsafe impl Send for SplinterDbEngine {}
// SAFETY: as above.
unsafe impl Sync for SplinterDbEngine {}

/// Sizes derived from the memory, and the user's options.
#[derive(Clone, Copy)]
struct SplinterDbSettings {
    cache: u64,
    memtable: u64,
    disk: u64,
    memtable_threads: u64,
    threads: u64,
    log: WriteLogging,
}

impl SplinterDbSettings {
    fn new(setup: &EngineSetup) -> Result<SplinterDbSettings> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let memory = setup.memory.unwrap_or(setup.cap);
        let record = 24 + setup.value_bytes as u64;
        let disk = (setup.records * record * DISK_TIMES).max(DISK_LEAST);
        Ok(SplinterDbSettings {
            cache: (memory / 100 * CACHE_PERCENT).next_multiple_of(EXTENT),
            memtable: (memory / MEMTABLE_PART).clamp(MEMTABLE_LEAST, MEMTABLE_MOST),
            disk: disk.next_multiple_of(EXTENT),
            memtable_threads: setup.number("memtable-threads", 0..=MOST_THREADS)?.unwrap_or(1),
            threads: setup
                .number("background-threads", 0..=MOST_THREADS)?
                .unwrap_or(cores),
            log: setup.log,
        })
    }

    /// Returns the configuration. The caller sets `filename` and `data_cfg`.
    fn config(self, there: StorePresence) -> ffi::KvsConfig {
        ffi::KvsConfig {
            cache_size: self.cache,
            // The library reads the size of an existing store from the file.
            disk_size: match there {
                StorePresence::No => self.disk,
                StorePresence::Yes => 0,
            },
            io_flags: IO_FLAGS,
            io_perms: 0o644,
            num_memtable_bg_threads: self.memtable_threads,
            num_normal_bg_threads: self.threads,
            use_log: self.log == WriteLogging::On,
            memtable_capacity: self.memtable,
            queue_scale_percent: QUEUE_PERCENT,
            ..ffi::KvsConfig::DEFAULT
        }
    }

    fn settings(self, version: &str) -> Vec<(String, String)> {
        [
            ("version", format!("{version}; headers {}", ffi::HEADERS)),
            ("cache", format!("{} MiB, memtables included", self.cache / MIB)),
            ("memtables", format!("4 x {} MiB at most", self.memtable / MIB)),
            (
                "background threads",
                format!(
                    "{} for memtables, {} for compactions",
                    self.memtable_threads, self.threads
                ),
            ),
            ("I/O", "direct, libaio".to_owned()),
            ("durability", durability(self.log).to_owned()),
            ("compression", "none".to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// Whether a store already exists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StorePresence {
    No,
    Yes,
}

pub(crate) fn open(setup: &EngineSetup) -> Result<Box<dyn BenchEngine>> {
    let Some(library) = setup.option("library") else {
        bail!(
            "SplinterDB's library is not named: say --splinterdb-library PATH or set ALLUVIUM_SPLINTERDB; \
             `make libs` in its sources builds libsplinterdb.so"
        );
    };
    let tuning = SplinterDbSettings::new(setup)?;
    let functions = Functions::open(Path::new(library))?;
    let file = setup.directory.join("store.splinterdb");
    let path = c_path(&file)?;
    let there = if file.exists() {
        StorePresence::Yes
    } else {
        StorePresence::No
    };
    let data = Box::into_raw(Box::<ffi::DataConfig>::default());
    let config = ffi::KvsConfig {
        filename: path.as_ptr(),
        data_cfg: data,
        ..tuning.config(there)
    };
    let mut kvs = ptr::null_mut();
    // SAFETY: configuration and path live through the call, which copies all but `data`; that lives
    // until the store is closed. The library fills `data` in.
    let (code, version) = unsafe {
        (functions.default_data_config_init)(data);
        let code = match there {
            StorePresence::Yes => (functions.splinterdb_open)(&raw const config, &raw mut kvs),
            StorePresence::No => (functions.splinterdb_create)(&raw const config, &raw mut kvs),
        };
        let version = CStr::from_ptr((functions.splinterdb_get_version)());
        (code, version.to_string_lossy().into_owned())
    };
    if code != 0 || kvs.is_null() {
        // SAFETY: it came from a box above, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(data) });
        bail!("opening {}: {}", file.display(), errno(code));
    }
    Ok(Box::new(SplinterDbEngine {
        functions,
        kvs,
        data,
        settings: tuning.settings(&version),
    }))
}

fn durability(log: WriteLogging) -> &'static str {
    match log {
        WriteLogging::On => "a log is written, which the library cannot replay yet",
        WriteLogging::Off => "no log",
    }
}

fn errno(code: c_int) -> std::io::Error {
    std::io::Error::from_raw_os_error(code.abs())
}

fn check(code: c_int, doing: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(errno(code)).with_context(|| format!("SplinterDB, {doing}")),
    }
}

fn given(bytes: &[u8]) -> ffi::KvsSlice {
    ffi::KvsSlice {
        length: bytes.len() as u64,
        data: bytes.as_ptr().cast(),
    }
}

const EMPTY: ffi::KvsSlice = ffi::KvsSlice {
    length: 0,
    data: ptr::null(),
};

/// Returns the bytes of a library slice.
///
/// # Safety
/// The bytes must not change while the slice is used.
unsafe fn taken<'a>(bytes: ffi::KvsSlice) -> &'a [u8] {
    // SAFETY: as the caller promises.
    unsafe { slice(bytes.data.cast::<c_char>(), bytes.length as usize) }
}

impl Drop for SplinterDbEngine {
    fn drop(&mut self) {
        // SAFETY: sessions borrow this and are gone; the store is closed once, and refers to `data`
        // no longer.
        unsafe {
            (self.functions.splinterdb_close)(&raw mut self.kvs);
            drop(Box::from_raw(self.data));
        }
    }
}

impl BenchEngine for SplinterDbEngine {
    fn session(&self) -> Result<Box<dyn EngineSession + '_>> {
        let mut result = Box::<ffi::LookupResult>::default();
        // SAFETY: the store is open; the result is boxed, so that its address is stable, and one
        // thread at a time uses it. Without a buffer from the caller, the library allocates one.
        unsafe {
            (self.functions.splinterdb_lookup_result_init)(
                self.kvs,
                &raw mut *result,
                ffi::LOOKUP_VALUE,
                0,
                ptr::null_mut(),
            );
        }
        Ok(Box::new(SplinterDbSession { engine: self, result }))
    }

    fn flush(&self) -> Result<()> {
        // SplinterDB has no call to flush; closing writes everything to the file.
        Ok(())
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct SplinterDbSession<'a> {
    engine: &'a SplinterDbEngine,
    result: Box<ffi::LookupResult>,
}

// SAFETY: a result is not bound to a thread, and is used by one at a time.
unsafe impl Send for SplinterDbSession<'_> {}

impl Drop for SplinterDbSession<'_> {
    fn drop(&mut self) {
        // SAFETY: it was initialised, and the store is still open.
        unsafe { (self.engine.functions.splinterdb_lookup_result_deinit)(&raw mut *self.result) };
    }
}

impl EngineSession for SplinterDbSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let SplinterDbEngine { functions, kvs, .. } = self.engine;
        // SAFETY: the slices live through the call, which copies them.
        let code = unsafe { (functions.splinterdb_insert)(*kvs, given(key), given(value), ptr::null_mut()) };
        check(code, "inserting")
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let SplinterDbEngine { functions, kvs, .. } = self.engine;
        // SAFETY: the key lives through the call.
        let code = unsafe { (functions.splinterdb_delete)(*kvs, given(key), ptr::null_mut()) };
        check(code, "deleting")
    }

    fn get(&mut self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let SplinterDbEngine { functions, kvs, .. } = self.engine;
        let result = &raw mut *self.result;
        // SAFETY: the key lives through the call; a value is valid until the next lookup with the
        // same result.
        unsafe {
            check(
                (functions.splinterdb_lookup)(*kvs, given(key), result),
                "looking up",
            )?;
            if !(functions.splinterdb_lookup_found)(result) {
                return Ok(false);
            }
            let mut value = EMPTY;
            let code = (functions.splinterdb_lookup_result_value)(result, &raw mut value);
            check(code, "reading a value")?;
            found(taken(value));
        }
        Ok(true)
    }

    fn scan(&mut self, from: &[u8], limit: usize, each: EachPair<'_>) -> Result<usize> {
        let SplinterDbEngine { functions, kvs, .. } = self.engine;
        let mut iterator = ptr::null_mut();
        let mut count = 0;
        // SAFETY: the iterator lives from its creation to its end here; keys and values are valid
        // until it moves.
        unsafe {
            let code = (functions.splinterdb_iterator_init)(
                *kvs,
                &raw mut iterator,
                ffi::GREATER_THAN_OR_EQUAL,
                given(from),
            );
            check(code, "beginning a scan")?;
            while count < limit && (functions.splinterdb_iterator_valid)(iterator) {
                let (mut key, mut value) = (EMPTY, EMPTY);
                (functions.splinterdb_iterator_get_current)(iterator, &raw mut key, &raw mut value);
                each(taken(key), taken(value));
                count += 1;
                if count < limit {
                    (functions.splinterdb_iterator_next)(iterator);
                }
            }
            let code = (functions.splinterdb_iterator_status)(iterator);
            (functions.splinterdb_iterator_deinit)(iterator);
            check(code, "scanning")?;
        }
        Ok(count)
    }
}
