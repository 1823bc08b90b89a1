//! Gives memcached requests access to a cache's items.

use super::super::items::{ItemChange, ItemHandle, ItemStore};
use crate::cache::{CachedItemHeader, ItemCache};
use crate::error::CommandError;
use crate::store::model::format::{MemcachedItem, decode_item};

const TOO_LARGE: CommandError = CommandError::say(super::super::text::TOO_LARGE);

/// An item read from a cache.
#[derive(Debug)]
pub(crate) struct CachedItemHandle {
    stored: Vec<u8>,
    expires_ms: u64,
}

fn item(stored: &[u8], expires_ms: u64) -> MemcachedItem<'_> {
    let (head, length) = CachedItemHeader::read(stored);
    MemcachedItem {
        flags: head.flags,
        cas: head.cas,
        expires_ms,
        touched: head.touched,
        staleness: head.staleness,
        value: &stored[length..],
    }
}

impl ItemHandle for CachedItemHandle {
    fn item(&self) -> Result<MemcachedItem<'_>, CommandError> {
        Ok(item(&self.stored, self.expires_ms))
    }
}

/// A cache's items as requests see them at one point in time.
pub(crate) struct CachedItems<'c> {
    content: &'c ItemCache,
    now_ms: u64,
    reply_room: usize,
    /// Buffer for encoding items.
    stored: Vec<u8>,
}

impl<'c> CachedItems<'c> {
    /// Creates a view of the cache's items as of `now_ms`. A request that reads items through the
    /// view may produce a reply of at most `reply_room` bytes.
    pub(crate) fn new(content: &'c ItemCache, now_ms: u64, reply_room: usize) -> CachedItems<'c> {
        CachedItems {
            content,
            now_ms,
            reply_room,
            stored: Vec::new(),
        }
    }

    fn read(&self, key: &[u8]) -> Option<CachedItemHandle> {
        let mut stored = Vec::new();
        let found = self.content.read(key, &mut stored)?;
        Some(CachedItemHandle {
            stored,
            expires_ms: found.expires_ms,
        })
    }

    /// Stores an item. The caller must hold its key's lock.
    pub(super) fn write(&mut self, key: &[u8], item: &MemcachedItem<'_>) -> Result<(), CommandError> {
        self.stored.clear();
        let head = CachedItemHeader {
            flags: item.flags,
            cas: item.cas,
            touched: item.touched,
            staleness: item.staleness,
        };
        head.write(&mut self.stored);
        self.stored.extend_from_slice(item.value);
        if self.content.write(key, &self.stored, item.expires_ms).is_err() {
            // As in memcached, delete the old item, because a client that meant to replace it must
            // not read it afterwards.
            self.content.delete(key);
            return Err(TOO_LARGE);
        }
        Ok(())
    }

    /// Stores an item, replacing any previous item with the same key.
    pub(super) fn set(&mut self, key: &[u8], item: &MemcachedItem<'_>) -> Result<(), CommandError> {
        let _locked = self.content.lock(key);
        self.write(key, item)
    }
}

impl ItemStore for CachedItems<'_> {
    type ReadItem = CachedItemHandle;
    type ChangeMemory = ();

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn next_cas(&self) -> u64 {
        self.content.next_cas()
    }

    fn reply_room(&self) -> usize {
        self.reply_room
    }

    fn is_careful(&mut self) -> bool {
        true
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<CachedItemHandle>, CommandError> {
        Ok(self.read(key))
    }

    fn change<T>(
        &mut self,
        key: &[u8],
        decide: impl FnOnce(&Self, Option<MemcachedItem<'_>>) -> Result<(ItemChange, T), CommandError>,
    ) -> Result<T, CommandError> {
        let _locked = self.content.lock(key);
        let read = self.read(key);
        let (change, result) = decide(
            self,
            read.as_ref().map(|read| item(&read.stored, read.expires_ms)),
        )?;
        match change {
            ItemChange::Nothing => {}
            ItemChange::Delete => {
                self.content.delete(key);
            }
            ItemChange::Put(stored) => self.write(key, &decode_item(&stored)?)?,
        }
        Ok(result)
    }

    fn put(&mut self, key: &[u8], stored: Vec<u8>) -> Result<(), CommandError> {
        let item = decode_item(&stored)?;
        self.set(key, &item)
    }

    fn room_to_grow(&self, bytes: usize) -> Result<(), CommandError> {
        if bytes > self.content.most_value_bytes() {
            return Err(TOO_LARGE);
        }
        Ok(())
    }

    fn room_to_touch(&self, _bytes: usize) -> Option<()> {
        None
    }

    fn relieve(&mut self) -> Result<(), CommandError> {
        Ok(())
    }
}
