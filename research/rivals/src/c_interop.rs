//! Conversions shared by the adapters to C libraries: paths and slices.

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

/// Returns a path as a C string.
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).context("a path with a zero byte in it")
}

/// Returns a pointer to the bytes as C characters.
#[cfg(any(feature = "rocksdb", feature = "leveldb", feature = "lmdb"))]
pub(crate) fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// Returns a slice of memory that belongs to a library.
///
/// # Safety
/// At least `bytes` bytes must be readable at `pointer`, and must not change while the slice is
/// used.
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
    // SAFETY: guaranteed by the caller; the pointer is not null unless the length is zero.
    unsafe { std::slice::from_raw_parts(pointer.cast(), bytes) }
}
