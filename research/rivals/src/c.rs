//! What the adapters to C libraries have in common: paths, slices.

use anyhow::{Context, Result};
use std::ffi::CString;
#[cfg(any(
    feature = "rocksdb",
    feature = "leveldb",
    feature = "lmdb",
    feature = "splinterdb"
))]
use std::ffi::c_char;
use std::path::Path;

/// Returns a path as C wants it.
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).context("a path with a zero byte in it")
}

/// Returns the bytes as C wants them.
#[cfg(any(feature = "rocksdb", feature = "leveldb", feature = "lmdb"))]
pub(crate) fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// Returns what a library points to.
///
/// # Safety
/// At least `bytes` bytes are there, and they do not change as long as the slice is used.
#[cfg(any(
    feature = "rocksdb",
    feature = "leveldb",
    feature = "lmdb",
    feature = "splinterdb"
))]
pub(crate) unsafe fn slice<'a>(pointer: *const c_char, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: as the caller promises; it is not null if there is anything.
    unsafe { std::slice::from_raw_parts(pointer.cast(), bytes) }
}
