//! Access of commands to strings, in a store or in a cache.

use crate::error::Failure;
use crate::store::model::{Entry, Text};
use crate::store::{Store, Transaction, Working};

/// Largest number of values read at once.
pub(super) const AT_ONCE: usize = 64;

/// Longest string in bytes.
const MAX_TEXT: usize = alluvium::MAX_VALUE - 16;

pub(super) fn fits(bytes: usize) -> Result<(), Failure> {
    if bytes > MAX_TEXT {
        return Err(Failure::say(
            "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        ));
    }
    Ok(())
}

/// Copies of a string in memory while a command extends it: the old value, the new value, the
/// record, and the batch of the commit.
const COPIES: usize = 4;

/// Charges memory for a string that grows to this size, as a SET of the same string would.
///
/// # Errors
/// The string would exceed the longest string or the memory of clients.
pub(super) fn room_to_grow(store: &Store, bytes: usize) -> Result<Working<'_>, Failure> {
    fits(bytes)?;
    let mut working = Working::new(store);
    working.add(bytes.saturating_mul(COPIES))?;
    Ok(working)
}

/// Reads and writes strings. Keys may also hold other types.
pub(crate) trait Texts {
    /// The source of memory for a change.
    type From;
    /// The memory charge of a change.
    type Memory;

    /// Returns the time for all operations, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Returns the largest number of values to read at once.
    fn at_once(&self) -> usize;

    /// Returns the content of a key.
    fn entry(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>, Failure>;

    /// Returns the string of a key.
    fn text(&mut self, key: &[u8]) -> Result<Option<Text<'_>>, Failure>;

    /// Reads the content of several keys in one request, unless it was prefetched.
    fn fetch_records<'a>(&mut self, keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<(), Failure>;

    /// Prefetches the content of keys, replacing everything prefetched before.
    fn fetch_these<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) -> Result<(), Failure>;

    /// Sets a key to a string, whatever it held.
    fn set_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure>;

    /// Sets a key to a string. The key must hold a string or nothing.
    fn overwrite_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure>;

    /// Deletes a key. Returns whether it existed.
    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure>;

    /// Sets the expiry time of a key; 0 for never. Returns whether the key exists.
    fn expire(&mut self, key: &[u8], expires_ms: u64) -> Result<bool, Failure>;

    /// Returns the source of memory.
    fn memory(&self) -> Self::From;

    /// Charges memory for a string that grows to this size.
    fn room_to_grow(from: Self::From, bytes: usize) -> Result<Self::Memory, Failure>;
}

impl<'s> Texts for Transaction<'s> {
    type From = &'s Store;
    type Memory = Working<'s>;

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn at_once(&self) -> usize {
        AT_ONCE.min(self.store.sizes.most())
    }

    fn entry(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>, Failure> {
        self.entry(key)
    }

    fn text(&mut self, key: &[u8]) -> Result<Option<Text<'_>>, Failure> {
        self.text(key)
    }

    fn fetch_records<'a>(&mut self, keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<(), Failure> {
        self.fetch_records(keys)
    }

    fn fetch_these<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) -> Result<(), Failure> {
        self.fetch_these(keys)
    }

    fn set_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure> {
        self.set_text(key, parts, expires_ms)
    }

    fn overwrite_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure> {
        self.overwrite_text(key, parts, expires_ms);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure> {
        self.remove(key)
    }

    fn expire(&mut self, key: &[u8], expires_ms: u64) -> Result<bool, Failure> {
        self.expire(key, expires_ms)
    }

    fn memory(&self) -> &'s Store {
        self.store
    }

    fn room_to_grow(from: &'s Store, bytes: usize) -> Result<Working<'s>, Failure> {
        room_to_grow(from, bytes)
    }
}
