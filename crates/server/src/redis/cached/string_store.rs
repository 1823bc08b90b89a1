//! Gives commands access to the strings of a cache.

use super::super::string_store::StringStore;
use crate::cache::{CachedItemHeader, ItemCache};
use crate::error::CommandError;
use crate::store::model::{StringValue, TypedValue};

/// A cache's strings as commands see them at one point in time. Before a command changes a key, its
/// caller must lock the key.
pub(super) struct CachedTexts<'c> {
    content: &'c ItemCache,
    now_ms: u64,
    /// The item read last.
    read: Vec<u8>,
    /// Buffer for encoding items.
    stored: Vec<u8>,
}

impl<'c> CachedTexts<'c> {
    pub(super) fn new(content: &'c ItemCache, now_ms: u64) -> CachedTexts<'c> {
        CachedTexts {
            content,
            now_ms,
            read: Vec::new(),
            stored: Vec::new(),
        }
    }
}

impl<'c> StringStore for CachedTexts<'c> {
    type MemorySource = &'c ItemCache;
    type ChangeMemory = ();

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn at_once(&self) -> usize {
        crate::redis::string_store::AT_ONCE
    }

    fn entry(&mut self, key: &[u8]) -> Result<Option<TypedValue<'_>>, CommandError> {
        Ok(self.text(key)?.map(TypedValue::Text))
    }

    fn text(&mut self, key: &[u8]) -> Result<Option<StringValue<'_>>, CommandError> {
        let Some(found) = self.content.read(key, &mut self.read) else {
            return Ok(None);
        };
        let value = &self.read[CachedItemHeader::length(&self.read)..];
        Ok(Some(StringValue::of(value, found.expires_ms)))
    }

    fn fetch_records<'a>(
        &mut self,
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), CommandError> {
        self.content.prefetch(keys);
        Ok(())
    }

    fn fetch_these<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) -> Result<(), CommandError> {
        self.content.prefetch(keys);
        Ok(())
    }

    fn set_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), CommandError> {
        self.stored.clear();
        let head = CachedItemHeader {
            cas: self.content.next_cas(),
            ..CachedItemHeader::default()
        };
        head.write(&mut self.stored);
        parts.iter().for_each(|part| self.stored.extend_from_slice(part));
        Ok(self.content.write(key, &self.stored, expires_ms)?)
    }

    fn overwrite_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), CommandError> {
        self.set_text(key, parts, expires_ms)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        Ok(self.content.delete(key))
    }

    fn expire(&mut self, key: &[u8], expires_ms: u64) -> Result<bool, CommandError> {
        if self.content.read(key, &mut self.read).is_none() {
            return Ok(false);
        }
        // Write the item back with its previous flags and CAS value, as memcached's touch does.
        self.content.write(key, &self.read, expires_ms)?;
        Ok(true)
    }

    fn memory(&self) -> &'c ItemCache {
        self.content
    }

    fn room_to_grow(from: &'c ItemCache, bytes: usize) -> Result<(), CommandError> {
        fits(from, bytes)
    }
}

/// Returns an error if a string of this length is too long for the cache.
pub(super) fn fits(content: &ItemCache, bytes: usize) -> Result<(), CommandError> {
    let most = content.most_value_bytes();
    if bytes > most {
        return Err(CommandError::Refused(
            format!("ERR string exceeds maximum allowed size: the maximum in cache mode is {most} bytes")
                .into(),
        ));
    }
    Ok(())
}
