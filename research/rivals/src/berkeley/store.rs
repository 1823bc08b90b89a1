//! A B-tree of Berkeley DB in a directory, and what it counts.

use super::ffi;
use crate::c::c_path;
use anyhow::{Result, bail, ensure};
use std::ffi::{CStr, c_int};
use std::path::Path;
use std::ptr;

/// What the library takes for a page.
const LEAST_PAGE: u32 = 512;
const MOST_PAGE: u32 = 64 << 10;
/// A cache that is smaller than this is made larger by a quarter of itself.
const EXACT_CACHE: u64 = 500 << 20;
/// Values that are longer than any before have as much space made for them, at most.
const MOST_BYTES: u32 = 64 << 20;

/// How a B-tree is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Bytes of a page, a power of two from 512 to 64 KiB. A tree that is there keeps its own.
    pub(crate) page_bytes: u32,
    /// Bytes of the cache.
    pub(crate) cache_bytes: u64,
}

/// What happens to changes before their pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logging {
    /// Each is a transaction, whose log record is written and not synced.
    Written,
    /// There is no log: pages are written as the cache wants space, and when it is closed.
    None,
}

/// Pages that the cache has read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// From the file.
    pub(crate) reads: u64,
    /// To the file.
    pub(crate) writes: u64,
}

impl Pages {
    /// Returns what was counted since.
    pub(crate) fn since(self, before: Pages) -> Pages {
        Pages {
            reads: self.reads - before.reads,
            writes: self.writes - before.writes,
        }
    }

    /// Returns all of them.
    pub(crate) fn moved(self) -> u64 {
        self.reads + self.writes
    }
}

/// An open B-tree.
pub(crate) struct Store {
    store: *mut ffi::Store,
}

// SAFETY: environment and database are opened with `DB_THREAD`: any thread may use them.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

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

/// Returns how many bytes a slice has, as the library counts them.
fn len(bytes: &[u8]) -> Result<u32> {
    Ok(u32::try_from(bytes.len())?)
}

impl Store {
    /// Opens the B-tree of a directory, or makes one.
    pub(crate) fn open(directory: &Path, sizes: Sizes, logging: Logging) -> Result<Store> {
        let Sizes {
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
                c_int::from(logging == Logging::Written),
            )
        })?;
        Ok(Store { store })
    }

    /// Writes a pair.
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

    /// Deletes a key, if it is there.
    pub(crate) fn delete(&self, key: &[u8]) -> Result<()> {
        // SAFETY: the store is open; the key lives through the call.
        match unsafe { ffi::alluvium_berkeley_delete(self.store, key.as_ptr().cast(), len(key)?) } {
            ffi::NOT_FOUND => Ok(()),
            code => check(code),
        }
    }

    /// Reads the value of a key into a buffer, which grows if it must; returns whether it is there.
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

    /// Returns a cursor that is nowhere yet.
    pub(super) fn cursor(&self) -> Result<Cursor<'_>> {
        let mut cursor = ptr::null_mut();
        // SAFETY: the store is open, and outlives the cursor, which borrows it.
        check(unsafe { ffi::alluvium_berkeley_cursor(self.store, &raw mut cursor) })?;
        Ok(Cursor {
            cursor,
            store: std::marker::PhantomData,
        })
    }

    /// Writes dirty pages; with a log, if it has grown by as much since.
    pub(crate) fn checkpoint(&self, log_kib: u32) -> Result<()> {
        // SAFETY: the store is open.
        check(unsafe { ffi::alluvium_berkeley_checkpoint(self.store, log_kib) })
    }

    /// Returns the pages that were read and written since it was opened.
    pub(crate) fn pages(&self) -> Result<Pages> {
        let mut counts = ffi::Counts::default();
        // SAFETY: the store is open, and the counts are written once.
        check(unsafe { ffi::alluvium_berkeley_count(self.store, &raw mut counts) })?;
        Ok(Pages {
            reads: counts.reads,
            writes: counts.writes,
        })
    }

    /// Closes it, and says what could not be written.
    pub(crate) fn close(mut self) -> Result<()> {
        let store = std::mem::replace(&mut self.store, ptr::null_mut());
        // SAFETY: it is open, and forgotten.
        check(unsafe { ffi::alluvium_berkeley_close(store) })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.store.is_null() {
            // SAFETY: it is open; cursors borrow this and are gone.
            let _ = unsafe { ffi::alluvium_berkeley_close(self.store) };
        }
    }
}

/// Makes a buffer of as many bytes, if a pair of ours can have them.
fn grow(buffer: &mut Vec<u8>, bytes: u32) -> Result<()> {
    ensure!(
        bytes <= MOST_BYTES && bytes as usize > buffer.len(),
        "Berkeley DB says that {bytes} bytes do not fit into {}",
        buffer.len()
    );
    buffer.resize(bytes as usize, 0);
    Ok(())
}

/// A place among the pairs.
pub(super) struct Cursor<'s> {
    cursor: *mut ffi::Cursor,
    store: std::marker::PhantomData<&'s Store>,
}

/// Where a cursor moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move<'k> {
    /// To the first pair from a key on.
    To(&'k [u8]),
    /// To the next pair.
    Next,
}

/// What a move came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// There is a pair: the bytes of its key, and of its value.
    Pair(usize, usize),
    /// There is none.
    End,
    /// Another thread waited for this one: the cursor must be closed.
    Deadlock,
}

impl Cursor<'_> {
    /// Moves, and reads the pair there.
    pub(super) fn step(&mut self, by: Move<'_>, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Moved> {
        loop {
            let mut key_bytes = 0;
            if let Move::To(from) = by {
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
                    c_int::from(by != Move::Next),
                    key.as_mut_ptr().cast(),
                    len(key)?,
                    &raw mut key_bytes,
                    value.as_mut_ptr().cast(),
                    len(value)?,
                    &raw mut value_bytes,
                )
            };
            match code {
                ffi::NOT_FOUND => return Ok(Moved::End),
                ffi::DEADLOCK => return Ok(Moved::Deadlock),
                ffi::TOO_SMALL if key_bytes as usize > key.len() => grow(key, key_bytes)?,
                ffi::TOO_SMALL => grow(value, value_bytes)?,
                code => {
                    check(code)?;
                    return Ok(Moved::Pair(key_bytes as usize, value_bytes as usize));
                }
            }
        }
    }
}

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        // SAFETY: it is open, and closed once.
        let _ = unsafe { ffi::alluvium_berkeley_cursor_close(self.cursor) };
    }
}
