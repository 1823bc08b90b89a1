//! Errors in the manner of LevelDB and RocksDB, and what their libraries make by `malloc`.

use anyhow::{Result, bail};
use std::ffi::{CStr, c_char};
use std::ptr;

/// The error of a call, in the manner of LevelDB and RocksDB: a text that `malloc` has made, or
/// nothing.
#[derive(Debug)]
pub(crate) struct Failure(*mut c_char);

impl Default for Failure {
    fn default() -> Failure {
        Failure(ptr::null_mut())
    }
}

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
