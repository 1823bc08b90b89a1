//! The part of SplinterDB's C API used here. Names, types and their order follow
//! `splinterdb/splinterdb.h`, `data.h` and `public_util.h` as of June 2026 (commit d2173e0e), for
//! 64-bit Linux. Other versions have a different `splinterdb_config`.

use anyhow::{Context, Result, anyhow};
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::path::Path;
use std::ptr;

/// The version of the headers that this module follows.
pub(super) const HEADERS: &str = "those of June 2026 (commit d2173e0e)";

/// `splinterdb`, opaque.
#[repr(C)]
pub(super) struct Kvs {
    _private: [u8; 0],
}

/// `splinterdb_iterator`, opaque.
#[repr(C)]
pub(super) struct KvsIterator {
    _private: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct KvsSlice {
    pub(super) length: u64,
    pub(super) data: *const c_void,
}

/// `data_config`: six functions, which the library fills in.
#[repr(C)]
#[derive(Default)]
pub(super) struct DataConfig {
    functions: [usize; 6],
}

/// `splinterdb_config`. Zero means the default, except where the header requires a value.
#[repr(C)]
pub(super) struct KvsConfig {
    pub(super) filename: *const c_char,
    pub(super) cache_size: u64,
    pub(super) disk_size: u64,
    pub(super) data_cfg: *mut DataConfig,
    pub(super) heap_handle: *mut c_void,
    pub(super) heap_id: *mut c_void,
    pub(super) shmem_size: u64,
    pub(super) use_shmem: bool,
    pub(super) page_size: u64,
    pub(super) extent_size: u64,
    pub(super) io_flags: c_int,
    pub(super) io_perms: u32,
    pub(super) io_async_queue_depth: u64,
    pub(super) cache_use_stats: bool,
    pub(super) cache_logfile: *const c_char,
    pub(super) num_memtable_bg_threads: u64,
    pub(super) num_normal_bg_threads: u64,
    pub(super) btree_rough_count_height: u64,
    pub(super) filter_hash_size: u64,
    pub(super) filter_log_index_size: u64,
    pub(super) use_log: bool,
    pub(super) memtable_capacity: u64,
    pub(super) fanout: u64,
    pub(super) use_stats: u64,
    pub(super) reclaim_threshold: u64,
    pub(super) queue_scale_percent: u64,
    pub(super) prefetch_budget: u64,
}

impl KvsConfig {
    /// All zero: the library's default for each setting that has one.
    pub(super) const DEFAULT: KvsConfig = KvsConfig {
        filename: ptr::null(),
        cache_size: 0,
        disk_size: 0,
        data_cfg: ptr::null_mut(),
        heap_handle: ptr::null_mut(),
        heap_id: ptr::null_mut(),
        shmem_size: 0,
        use_shmem: false,
        page_size: 0,
        extent_size: 0,
        io_flags: 0,
        io_perms: 0,
        io_async_queue_depth: 0,
        cache_use_stats: false,
        cache_logfile: ptr::null(),
        num_memtable_bg_threads: 0,
        num_normal_bg_threads: 0,
        btree_rough_count_height: 0,
        filter_hash_size: 0,
        filter_log_index_size: 0,
        use_log: false,
        memtable_capacity: 0,
        fanout: 0,
        use_stats: 0,
        reclaim_threshold: 0,
        queue_scale_percent: 0,
        prefetch_budget: 0,
    };
}

// The sizes that gcc computes from the headers.
const _: () = assert!(size_of::<KvsConfig>() == 208 && size_of::<DataConfig>() == 48);
const _: () = assert!(offset_of!(KvsConfig, io_flags) == 80);
const _: () = assert!(offset_of!(KvsConfig, num_memtable_bg_threads) == 112);
const _: () = assert!(offset_of!(KvsConfig, use_log) == 152);
const _: () = assert!(offset_of!(KvsConfig, prefetch_budget) == 200);

/// `splinterdb_lookup_result`: twenty pointers, opaque.
#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct LookupResult {
    opaque: [u64; 20],
}

pub(super) const LOOKUP_VALUE: u64 = 0;
/// `greater_than_or_equal` of `comparison`.
pub(super) const GREATER_THAN_OR_EQUAL: c_int = 3;

macro_rules! functions {
    ($($name:ident: $kind:ty,)*) => {
        /// The functions of a loaded library, which stays loaded until the process ends.
        pub(super) struct Functions {
            $(pub(super) $name: $kind,)*
        }

        impl Functions {
            /// Loads a library and resolves every function.
            pub(super) fn open(path: &Path) -> Result<Functions> {
                // SAFETY: the user names SplinterDB's library, whose initialisers do no harm.
                let library = unsafe { libloading::Library::new(path) };
                let library = library.map_err(|error| {
                    anyhow!("SplinterDB's library {} cannot be opened: {error}", path.display())
                })?;
                // The library's threads and its thread-exit handlers outlive any engine.
                let library: &'static libloading::Library = Box::leak(Box::new(library));
                // A function that is not used but exists only in the version of these headers.
                find::<unsafe extern "C" fn()>(library, path, MARK)?;
                Ok(Functions {
                    $($name: find::<$kind>(library, path, stringify!($name))?,)*
                })
            }
        }
    };
}

/// Introduced in the version whose configuration is declared here.
const MARK: &str = "splinterdb_notification_init_polling";

fn find<T: Copy>(library: &'static libloading::Library, path: &Path, name: &str) -> Result<T> {
    // SAFETY: the function has the type that the headers give it.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|function| *function).with_context(|| {
        format!(
            "{} has no function {name}: build SplinterDB as of the headers that the adapter follows, {HEADERS}",
            path.display()
        )
    })
}

functions! {
    splinterdb_get_version: unsafe extern "C" fn() -> *const c_char,
    default_data_config_init: unsafe extern "C" fn(*mut DataConfig),
    splinterdb_create: unsafe extern "C" fn(*const KvsConfig, *mut *mut Kvs) -> c_int,
    splinterdb_open: unsafe extern "C" fn(*const KvsConfig, *mut *mut Kvs) -> c_int,
    splinterdb_close: unsafe extern "C" fn(*mut *mut Kvs),
    splinterdb_insert: unsafe extern "C" fn(*mut Kvs, KvsSlice, KvsSlice, *mut LookupResult) -> c_int,
    splinterdb_delete: unsafe extern "C" fn(*mut Kvs, KvsSlice, *mut LookupResult) -> c_int,
    splinterdb_lookup_result_init: unsafe extern "C" fn(*const Kvs, *mut LookupResult, u64, u64, *mut c_char),
    splinterdb_lookup_result_deinit: unsafe extern "C" fn(*mut LookupResult),
    splinterdb_lookup: unsafe extern "C" fn(*mut Kvs, KvsSlice, *mut LookupResult) -> c_int,
    splinterdb_lookup_found: unsafe extern "C" fn(*const LookupResult) -> bool,
    splinterdb_lookup_result_value: unsafe extern "C" fn(*const LookupResult, *mut KvsSlice) -> c_int,
    splinterdb_iterator_init: unsafe extern "C" fn(*mut Kvs, *mut *mut KvsIterator, c_int, KvsSlice) -> c_int,
    splinterdb_iterator_deinit: unsafe extern "C" fn(*mut KvsIterator),
    splinterdb_iterator_valid: unsafe extern "C" fn(*mut KvsIterator) -> bool,
    splinterdb_iterator_next: unsafe extern "C" fn(*mut KvsIterator),
    splinterdb_iterator_get_current: unsafe extern "C" fn(*mut KvsIterator, *mut KvsSlice, *mut KvsSlice),
    splinterdb_iterator_status: unsafe extern "C" fn(*const KvsIterator) -> c_int,
}
