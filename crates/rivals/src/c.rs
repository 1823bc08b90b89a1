//! What the adapters to C libraries have in common: texts, errors, slices.

use anyhow::{Context, Result, bail};
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr;

#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
/// The error of a call, in the manner of LevelDB and RocksDB: a text that `malloc` has made, or
/// nothing.
#[derive(Debug)]
pub(crate) struct Failure(*mut c_char);

#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
impl Default for Failure {
    fn default() -> Failure {
        Failure(ptr::null_mut())
    }
}

#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
impl Failure {
    /// Returns where a call puts its error.
    pub(crate) fn slot(&mut self) -> *mut *mut c_char {
        &raw mut self.0
    }

    /// One that a call has put elsewhere; it belongs to this from now on.
    #[cfg(feature = "rocksdb")]
    pub(crate) fn of(text: *mut c_char) -> Failure {
        Failure(text)
    }

    /// The error, if there was one.
    pub(crate) fn take(&mut self) -> Result<()> {
        if self.0.is_null() {
            return Ok(());
        }
        // SAFETY: the library has put a text there that ends with zero and was made by `malloc`; it
        // is freed once, for the pointer is forgotten.
        let text = unsafe {
            let text = CStr::from_ptr(self.0).to_string_lossy().into_owned();
            libc_free(self.0.cast());
            text
        };
        self.0 = ptr::null_mut();
        bail!("{text}")
    }
}

#[cfg(any(feature = "rocksdb", feature = "leveldb"))]
unsafe extern "C" {
    #[link_name = "free"]
    fn libc_free(pointer: *mut std::ffi::c_void);
}

/// Frees what a library has made by `malloc`.
///
/// # Safety
/// It was, and is not used any more.
#[cfg(feature = "leveldb")]
pub(crate) unsafe fn free(pointer: *mut c_char) {
    // SAFETY: as the caller promises.
    unsafe { libc_free(pointer.cast()) };
}

/// Returns a path as C wants it.
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).context("a path with a zero byte in it")
}

/// Returns the bytes as C wants them.
pub(crate) fn chars(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// Returns what a library points to.
///
/// # Safety
/// At least `bytes` bytes are there, and they do not change as long as the slice is used.
pub(crate) unsafe fn slice<'a>(pointer: *const c_char, bytes: usize) -> &'a [u8] {
    if bytes == 0 {
        return &[];
    }
    // SAFETY: as the caller promises; it is not null if there is anything.
    unsafe { std::slice::from_raw_parts(pointer.cast(), bytes) }
}
