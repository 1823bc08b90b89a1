//! Commands' access to strings, implemented for the strings of a store and of a cache.

use crate::error::CommandError;
use crate::store::model::{StringValue, TypedValue};
use crate::store::{CommandTransaction, ServerStore, WorkingMemory};

/// Maximum number of values to read at a time.
pub(super) const AT_ONCE: usize = 64;

/// Maximum string length in bytes. It is below the store's limit because the string's record also
/// has a header.
const MAX_TEXT: usize = alluvium::MAX_VALUE - 16;

pub(super) fn fits(bytes: usize) -> Result<(), CommandError> {
    if bytes > MAX_TEXT {
        return Err(CommandError::say(
            "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        ));
    }
    Ok(())
}

/// Number of copies of a string in memory while a command extends it: the old value, the new value,
/// the encoded record, and the commit's batch.
const COPIES: usize = 4;

/// Charges as much memory for a string that grows to `bytes` bytes as a SET of such a string would.
///
/// # Errors
/// The string would exceed the maximum string length or the clients' memory budget.
pub(super) fn room_to_grow(store: &ServerStore, bytes: usize) -> Result<WorkingMemory<'_>, CommandError> {
    fits(bytes)?;
    let mut working = WorkingMemory::new(store);
    working.add(bytes.saturating_mul(COPIES))?;
    Ok(working)
}

/// Reads and writes strings under keys that may also have values of other types.
pub(crate) trait StringStore {
    /// Where a change's memory charge comes from.
    type MemorySource;
    /// The memory charge for a change, released on drop.
    type ChangeMemory;

    /// Returns the time that all operations use, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Returns the maximum number of values to read at a time.
    fn at_once(&self) -> usize;

    /// Returns the value of a key, or `None` if the key does not exist.
    fn entry(&mut self, key: &[u8]) -> Result<Option<TypedValue<'_>>, CommandError>;

    /// Returns the string stored under a key, or `None` if the key does not exist. Fails if the
    /// value has another type.
    fn text(&mut self, key: &[u8]) -> Result<Option<StringValue<'_>>, CommandError>;

    /// Reads the values of several keys in a single request. Does nothing if values have already
    /// been prefetched.
    fn fetch_records<'a>(
        &mut self,
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), CommandError>;

    /// Prefetches the values of keys, and discards all earlier prefetched values.
    fn fetch_these<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) -> Result<(), CommandError>;

    /// Sets a key to the concatenation of `parts`, whatever its previous value.
    fn set_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), CommandError>;

    /// Sets a key to a string. The key must hold a string or not exist.
    fn overwrite_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), CommandError>;

    /// Deletes a key and its value. Returns whether the key existed.
    fn remove(&mut self, key: &[u8]) -> Result<bool, CommandError>;

    /// Sets a key's expiry time in milliseconds since 1970, or 0 for never. Returns whether the key
    /// exists.
    fn expire(&mut self, key: &[u8], expires_ms: u64) -> Result<bool, CommandError>;

    /// Returns the source for changes' memory charges.
    fn memory(&self) -> Self::MemorySource;

    /// Charges the memory for a string that grows to `bytes` bytes.
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
