//! Access of commands to strings, in a store or in a cache.

use crate::error::CommandError;
use crate::store::model::{StringValue, TypedValue};
use crate::store::{CommandTransaction, ServerStore, WorkingMemory};

/// Largest number of values read at once.
pub(super) const AT_ONCE: usize = 64;

/// Longest string in bytes. The rest of the store's limit is for the header of its record.
const MAX_TEXT: usize = alluvium::MAX_VALUE - 16;

pub(super) fn fits(bytes: usize) -> Result<(), CommandError> {
    if bytes > MAX_TEXT {
        return Err(CommandError::say(
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
pub(super) fn room_to_grow(store: &ServerStore, bytes: usize) -> Result<WorkingMemory<'_>, CommandError> {
    fits(bytes)?;
    let mut working = WorkingMemory::new(store);
    working.add(bytes.saturating_mul(COPIES))?;
    Ok(working)
}

/// Reads and writes strings. Keys may also hold other types.
pub(crate) trait StringStore {
    /// The source of memory for a change.
    type MemorySource;
    /// The memory charge of a change.
    type ChangeMemory;

    /// Returns the time for all operations, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Returns the largest number of values to read at once.
    fn at_once(&self) -> usize;

    /// Returns the content of a key.
    fn entry(&mut self, key: &[u8]) -> Result<Option<TypedValue<'_>>, CommandError>;

    /// Returns the string of a key.
    fn text(&mut self, key: &[u8]) -> Result<Option<StringValue<'_>>, CommandError>;

    /// Reads the content of several keys in one request, unless it was prefetched.
    fn fetch_records<'a>(
        &mut self,
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), CommandError>;

    /// Prefetches the content of keys, replacing everything prefetched before.
    fn fetch_these<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) -> Result<(), CommandError>;

    /// Sets a key to a string, whatever it held.
    fn set_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), CommandError>;

    /// Sets a key to a string. The key must hold a string or nothing.
    fn overwrite_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), CommandError>;

    /// Deletes a key. Returns whether it existed.
    fn remove(&mut self, key: &[u8]) -> Result<bool, CommandError>;

    /// Sets the expiry time of a key; 0 for never. Returns whether the key exists.
    fn expire(&mut self, key: &[u8], expires_ms: u64) -> Result<bool, CommandError>;

    /// Returns the source of memory.
    fn memory(&self) -> Self::MemorySource;

    /// Charges memory for a string that grows to this size.
    fn room_to_grow(from: Self::MemorySource, bytes: usize) -> Result<Self::ChangeMemory, CommandError>;
}

impl<'s> StringStore for CommandTransaction<'s> {
    type MemorySource = &'s ServerStore;
    type ChangeMemory = WorkingMemory<'s>;

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn at_once(&self) -> usize {
        AT_ONCE.min(self.store.sizes.most())
    }

    fn entry(&mut self, key: &[u8]) -> Result<Option<TypedValue<'_>>, CommandError> {
        self.entry(key)
    }

    fn text(&mut self, key: &[u8]) -> Result<Option<StringValue<'_>>, CommandError> {
        self.text(key)
    }

    fn fetch_records<'a>(
        &mut self,
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), CommandError> {
        self.fetch_records(keys)
    }

    fn fetch_these<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) -> Result<(), CommandError> {
        self.fetch_these(keys)
    }

    fn set_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), CommandError> {
        self.set_text(key, parts, expires_ms)
    }

    fn overwrite_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), CommandError> {
        self.overwrite_text(key, parts, expires_ms);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        self.remove(key)
    }

    fn expire(&mut self, key: &[u8], expires_ms: u64) -> Result<bool, CommandError> {
        self.expire(key, expires_ms)
    }

    fn memory(&self) -> &'s ServerStore {
        self.store
    }

    fn room_to_grow(from: &'s ServerStore, bytes: usize) -> Result<WorkingMemory<'s>, CommandError> {
        room_to_grow(from, bytes)
    }
}
