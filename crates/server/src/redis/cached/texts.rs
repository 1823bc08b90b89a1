//! Access of commands to the strings of a cache.

use super::super::texts::Texts;
use crate::cache::{Content, Head};
use crate::error::Failure;
use crate::store::model::{Entry, Text};

/// The strings of a cache at one time. Before a change, the caller locks the keys.
pub(super) struct CachedTexts<'c> {
    content: &'c Content,
    now_ms: u64,
    /// The last item that was read.
    read: Vec<u8>,
    /// Buffer for encoding an item.
    stored: Vec<u8>,
}

impl<'c> CachedTexts<'c> {
    pub(super) fn new(content: &'c Content, now_ms: u64) -> CachedTexts<'c> {
        CachedTexts {
            content,
            now_ms,
            read: Vec::new(),
            stored: Vec::new(),
        }
    }
}

impl<'c> Texts for CachedTexts<'c> {
    type From = &'c Content;
    type Memory = ();

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn at_once(&self) -> usize {
        crate::redis::texts::AT_ONCE
    }

    fn entry(&mut self, key: &[u8]) -> Result<Option<Entry<'_>>, Failure> {
        Ok(self.text(key)?.map(Entry::Text))
    }

    fn text(&mut self, key: &[u8]) -> Result<Option<Text<'_>>, Failure> {
        let Some(found) = self.content.read(key, &mut self.read) else {
            return Ok(None);
        };
        let value = &self.read[Head::length(&self.read)..];
        Ok(Some(Text::of(value, found.expires_ms)))
    }

    fn fetch_records<'a>(&mut self, keys: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<(), Failure> {
        self.content.prefetch(keys);
        Ok(())
    }

    fn fetch_these<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) -> Result<(), Failure> {
        self.content.prefetch(keys);
        Ok(())
    }

    fn set_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure> {
        self.stored.clear();
        let head = Head {
            cas: self.content.next_cas(),
            ..Head::default()
        };
        head.write(&mut self.stored);
        parts.iter().for_each(|part| self.stored.extend_from_slice(part));
        Ok(self.content.write(key, &self.stored, expires_ms)?)
    }

    fn overwrite_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) -> Result<(), Failure> {
        self.set_text(key, parts, expires_ms)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.content.delete(key))
    }

    fn expire(&mut self, key: &[u8], expires_ms: u64) -> Result<bool, Failure> {
        if self.content.read(key, &mut self.read).is_none() {
            return Ok(false);
        }
        // Keep the flags and the CAS value, as memcached's touch does.
        self.content.write(key, &self.read, expires_ms)?;
        Ok(true)
    }

    fn memory(&self) -> &'c Content {
        self.content
    }

    fn room_to_grow(from: &'c Content, bytes: usize) -> Result<(), Failure> {
        fits(from, bytes)
    }
}

/// Refuses a string that is too long for the cache.
pub(super) fn fits(content: &Content, bytes: usize) -> Result<(), Failure> {
    let most = content.most_value_bytes();
    if bytes > most {
        return Err(Failure::Refused(
            format!("ERR string exceeds maximum allowed size: in cache mode {most} bytes are possible")
                .into(),
        ));
    }
    Ok(())
}
