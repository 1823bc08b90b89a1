//! A B-tree of Berkeley DB in a directory, with its page counters.

use super::ffi;
use crate::c_interop::c_path;
use anyhow::{Result, bail, ensure};
use std::ffi::{CStr, c_int};
use std::path::Path;
use std::ptr;

/// Minimum page size of the library.
const LEAST_PAGE: u32 = 512;
const MOST_PAGE: u32 = 64 << 10;
/// The library enlarges caches below this size by a quarter.
const EXACT_CACHE: u64 = 500 << 20;
/// Maximum bytes of a pair's key or value. A buffer grows up to this size.
const MOST_BYTES: u32 = 64 << 20;

/// The sizes with which a B-tree is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BerkeleySizes {
    /// Bytes of a page, a power of two from 512 to 64 KiB. An existing tree keeps its page size.
    pub(crate) page_bytes: u32,
    pub(crate) cache_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoggingMode {
    /// Each change is a transaction, whose log record is written but not synced.
    Written,
    /// No log. Pages are written when the cache evicts them and when the store is closed.
    None,
}

/// Number of pages that the cache has read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageTransfers {
    /// Pages read from the file.
    pub(crate) reads: u64,
    /// Pages written to the file.
    pub(crate) writes: u64,
}

impl PageTransfers {
    /// Returns the difference to an earlier count.
    pub(crate) fn since(self, before: PageTransfers) -> PageTransfers {
        PageTransfers {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
        }
    }

    /// Returns the sum of reads and writes.
    pub(crate) fn moved(self) -> u64 {
        self.reads + self.writes
    }
}

pub(crate) struct BerkeleyStore {
    store: *mut ffi::Store,
}

// SAFETY: environment and database are opened with `DB_THREAD`: any thread may use them.
unsafe impl Send for BerkeleyStore {}
// SAFETY: as above.
unsafe impl Sync for BerkeleyStore {}

pub(super) fn check(code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: for every code there is a text, which lives until the thread asks for another.
    let text = unsafe { CStr::from_ptr(ffi::alluvium_berkeley_error(code)) };
    bail!("{}", text.to_string_lossy())
}

/// Returns the version of the library.
pub(super) fn version() -> String {
    // SAFETY: it is a text that is never freed.
    let text = unsafe { CStr::from_ptr(ffi::alluvium_berkeley_version()) };
    text.to_string_lossy().into_owned()
}

/// Returns the length of a slice as the library's integer type.
fn len(bytes: &[u8]) -> Result<u32> {
    Ok(u32::try_from(bytes.len())?)
}

impl BerkeleyStore {
    /// Opens the B-tree in a directory, or creates it.
    pub(crate) fn open(
        directory: &Path,
        sizes: BerkeleySizes,
        logging: LoggingMode,
    ) -> Result<BerkeleyStore> {
        let BerkeleySizes {
            page_bytes,
            cache_bytes,
        } = sizes;
        ensure!(
            page_bytes.is_power_of_two() && (LEAST_PAGE..=MOST_PAGE).contains(&page_bytes),
            "pages of {page_bytes} bytes: Berkeley DB has powers of two from {LEAST_PAGE} to {MOST_PAGE}"
        );
        let asked = match cache_bytes {
            EXACT_CACHE.. => cache_bytes,
            _ => cache_bytes / 5 * 4,
        };
        let path = c_path(directory)?;
        let mut store = ptr::null_mut();
        // SAFETY: the path ends with zero and lives through the call, which puts a store or null.
        check(unsafe {
            ffi::alluvium_berkeley_open(
                &raw mut store,
                path.as_ptr(),
                page_bytes,
                asked,
                c_int::from(logging == LoggingMode::Written),
            )
        })?;
        Ok(BerkeleyStore { store })
    }

    /// Inserts or replaces a pair.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (key_bytes, value_bytes) = (len(key)?, len(value)?);
        // SAFETY: the store is open; key and value live through the call.
        check(unsafe {
            ffi::alluvium_berkeley_put(
                self.store,
                key.as_ptr().cast(),
                key_bytes,
                value.as_ptr().cast(),
                value_bytes,
            )
        })
    }

    /// Deletes a key. A missing key is not an error.
    pub(crate) fn delete(&self, key: &[u8]) -> Result<()> {
        // SAFETY: the store is open; the key lives through the call.
        match unsafe { ffi::alluvium_berkeley_delete(self.store, key.as_ptr().cast(), len(key)?) } {
            ffi::NOT_FOUND => Ok(()),
            code => check(code),
        }
    }

    /// Reads the value of a key into a buffer, which grows if necessary. Returns `None` for a
    /// missing key.
    pub(crate) fn get<'b>(&self, key: &[u8], buffer: &'b mut Vec<u8>) -> Result<Option<&'b [u8]>> {
        let key_bytes = len(key)?;
        loop {
            let mut value_bytes = 0;
            // SAFETY: the store is open; the key lives through the call, and no more is written
            // than the buffer has.
            let code = unsafe {
                ffi::alluvium_berkeley_get(
                    self.store,
                    key.as_ptr().cast(),
                    key_bytes,
                    buffer.as_mut_ptr().cast(),
                    len(buffer)?,
                    &raw mut value_bytes,
                )
            };
            match code {
                ffi::NOT_FOUND => return Ok(None),
                ffi::TOO_SMALL => grow(buffer, value_bytes)?,
                code => {
                    check(code)?;
                    return Ok(buffer.get(..value_bytes as usize));
                }
            }
        }
    }

    /// Returns a cursor without a position.
    pub(super) fn cursor(&self) -> Result<BerkeleyCursor<'_>> {
        let mut cursor = ptr::null_mut();
        // SAFETY: the store is open, and outlives the cursor, which borrows it.
        check(unsafe { ffi::alluvium_berkeley_cursor(self.store, &raw mut cursor) })?;
        Ok(BerkeleyCursor {
            cursor,
            store: std::marker::PhantomData,
        })
    }

    /// Writes dirty pages. With a log, only if it has grown by `log_kib` since the last checkpoint.
    pub(crate) fn checkpoint(&self, log_kib: u32) -> Result<()> {
        // SAFETY: the store is open.
        check(unsafe { ffi::alluvium_berkeley_checkpoint(self.store, log_kib) })
    }

    /// Returns the pages read and written since the store was opened.
    pub(crate) fn pages(&self) -> Result<PageTransfers> {
        let mut counts = ffi::CachePageCounts::default();
        // SAFETY: the store is open, and the counts are written once.
        check(unsafe { ffi::alluvium_berkeley_count(self.store, &raw mut counts) })?;
        Ok(PageTransfers {
            reads: counts.reads,
            writes: counts.writes,
        })
    }

    /// Closes the store and reports failed writes.
    pub(crate) fn close(mut self) -> Result<()> {
        let store = std::mem::replace(&mut self.store, ptr::null_mut());
        // SAFETY: the store is open, and its pointer has been replaced by null.
        check(unsafe { ffi::alluvium_berkeley_close(store) })
    }
}

impl Drop for BerkeleyStore {
    fn drop(&mut self) {
        if !self.store.is_null() {
            // SAFETY: it is open; cursors borrow this and are gone.
            let _ = unsafe { ffi::alluvium_berkeley_close(self.store) };
        }
    }
}

/// Resizes a buffer to `bytes`, or fails if no pair of ours can be as long.
fn grow(buffer: &mut Vec<u8>, bytes: u32) -> Result<()> {
    ensure!(
        bytes <= MOST_BYTES && bytes as usize > buffer.len(),
        "Berkeley DB says that {bytes} bytes do not fit into {}",
        buffer.len()
    );
    buffer.resize(bytes as usize, 0);
    Ok(())
}

/// A position among the pairs.
pub(super) struct BerkeleyCursor<'s> {
    cursor: *mut ffi::Cursor,
    store: std::marker::PhantomData<&'s BerkeleyStore>,
}

/// The target of a cursor's move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorMove<'k> {
    /// The first pair whose key is not less than this key.
    To(&'k [u8]),
    Next,
}

/// The result of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorOutcome {
    /// A pair: bytes of its key and of its value.
    Pair(usize, usize),
    /// There is no further pair.
    End,
    /// A deadlock with another thread: the cursor must be closed.
    Deadlock,
}

impl BerkeleyCursor<'_> {
    /// Moves the cursor and reads the pair at its new position.
    pub(super) fn step(
        &mut self,
        by: CursorMove<'_>,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<CursorOutcome> {
        loop {
            let mut key_bytes = 0;
            if let CursorMove::To(from) = by {
                if key.len() < from.len() {
                    key.resize(from.len(), 0);
                }
                key[..from.len()].copy_from_slice(from);
                key_bytes = len(from)?;
            }
            let mut value_bytes = 0;
            // SAFETY: the cursor is open, and no more is written than the buffers have.
            let code = unsafe {
                ffi::alluvium_berkeley_cursor_get(
                    self.cursor,
                    c_int::from(by != CursorMove::Next),
                    key.as_mut_ptr().cast(),
                    len(key)?,
                    &raw mut key_bytes,
                    value.as_mut_ptr().cast(),
                    len(value)?,
                    &raw mut value_bytes,
                )
            };
            match code {
                ffi::NOT_FOUND => return Ok(CursorOutcome::End),
                ffi::DEADLOCK => return Ok(CursorOutcome::Deadlock),
                ffi::TOO_SMALL if key_bytes as usize > key.len() => grow(key, key_bytes)?,
                ffi::TOO_SMALL => grow(value, value_bytes)?,
                code => {
                    check(code)?;
                    return Ok(CursorOutcome::Pair(key_bytes as usize, value_bytes as usize));
                }
            }
        }
    }
}

impl Drop for BerkeleyCursor<'_> {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        let _ = unsafe { ffi::alluvium_berkeley_cursor_close(self.cursor) };
    }
}
