//! Errors in the convention of LevelDB and RocksDB, and memory that their libraries allocate with
//! `malloc`.

use anyhow::{Result, bail};
use std::ffi::{CStr, c_char};
use std::ptr;

/// The error of a call, in the convention of LevelDB and RocksDB: a string allocated with `malloc`,
/// or null.
#[derive(Debug)]
pub(crate) struct LibraryError(*mut c_char);

impl Default for LibraryError {
    fn default() -> LibraryError {
        LibraryError(ptr::null_mut())
    }
}

impl LibraryError {
    /// Returns the location where a call stores its error.
    pub(crate) fn slot(&mut self) -> *mut *mut c_char {
        &raw mut self.0
    }

    /// Takes ownership of an error string that a call has stored elsewhere.
    #[cfg(feature = "rocksdb")]
    pub(crate) fn of(text: *mut c_char) -> LibraryError {
        LibraryError(text)
    }

    /// Returns the error, if there was one.
    pub(crate) fn take(&mut self) -> Result<()> {
        if self.0.is_null() {
            return Ok(());
        }
        // SAFETY: the library has stored a zero-terminated string there that it allocated with
        // `malloc`; it is freed once, because the pointer is then forgotten.
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

/// Frees memory that a library has allocated with `malloc`.
///
/// # Safety
/// The pointer must come from `malloc` and must not be used afterwards.
#[cfg(feature = "leveldb")]
pub(crate) unsafe fn free(pointer: *mut c_char) {
    // SAFETY: guaranteed by the caller.
    unsafe { libc_free(pointer.cast()) };
}
