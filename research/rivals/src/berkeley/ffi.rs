//! The functions of `calls.c`, a shim for Berkeley DB. Names and types follow that file.

use std::ffi::{c_char, c_int, c_void};

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! { Store Cursor }

/// Counters of the cache's pages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CachePageCounts {
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
}

pub(super) const NOT_FOUND: c_int = 1_000_001;
pub(super) const TOO_SMALL: c_int = 1_000_002;
pub(super) const DEADLOCK: c_int = 1_000_003;

unsafe extern "C" {
    pub(super) fn alluvium_berkeley_error(code: c_int) -> *const c_char;
    pub(super) fn alluvium_berkeley_version() -> *const c_char;
    pub(super) fn alluvium_berkeley_open(
        out: *mut *mut Store,
        directory: *const c_char,
        page_bytes: u32,
        cache_bytes: u64,
        is_logged: c_int,
    ) -> c_int;
    pub(super) fn alluvium_berkeley_close(store: *mut Store) -> c_int;
    pub(super) fn alluvium_berkeley_put(
        store: *mut Store,
        key: *const c_void,
        key_bytes: u32,
        value: *const c_void,
        value_bytes: u32,
    ) -> c_int;
    pub(super) fn alluvium_berkeley_delete(store: *mut Store, key: *const c_void, key_bytes: u32) -> c_int;
    pub(super) fn alluvium_berkeley_get(
        store: *mut Store,
        key: *const c_void,
        key_bytes: u32,
        value: *mut c_void,
        space: u32,
        value_bytes: *mut u32,
    ) -> c_int;
    pub(super) fn alluvium_berkeley_cursor(store: *mut Store, out: *mut *mut Cursor) -> c_int;
    pub(super) fn alluvium_berkeley_cursor_close(cursor: *mut Cursor) -> c_int;
    pub(super) fn alluvium_berkeley_cursor_get(
        cursor: *mut Cursor,
        is_first: c_int,
        key: *mut c_void,
        key_space: u32,
        key_bytes: *mut u32,
        value: *mut c_void,
        value_space: u32,
        value_bytes: *mut u32,
    ) -> c_int;
    pub(super) fn alluvium_berkeley_checkpoint(store: *mut Store, log_kib: u32) -> c_int;
    pub(super) fn alluvium_berkeley_count(store: *mut Store, out: *mut CachePageCounts) -> c_int;
}
