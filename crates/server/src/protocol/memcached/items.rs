//! Access of requests in a run to items.

use crate::error::CommandError;
use crate::store::model::format::{self, MemcachedItem};
use crate::store::{KeyLockRequest, Mode, ServerStore, WorkingMemory};
use alluvium::{Durability, Value, WriteBatch};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

/// Largest expiry in seconds that is relative to the current time. Larger ones are Unix times.
const RELATIVE_S: i64 = 30 * 24 * 60 * 60;

/// Copies of an item in memory while it is extended: the old value, the new value, the record, and
/// the batch of the commit.
const COPIES: usize = 4;

/// Bytes written by one request after which they are committed.
const COMMITTED_AT_ONCE: usize = 1 << 20;

/// Pseudo-database for the locks of items.
const ITEMS: u8 = 255;

/// The item is stale. A client that reads it may be asked to renew it.
pub(super) const STALE: u8 = 1;
/// A client was asked to renew it.
pub(super) const CLAIMED: u8 = 2;

/// The access of a request to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemAccess {
    Reads,
    /// Writes the item without reading it.
    Overwrites,
    /// Writes depending on the current item.
    Changes,
}

/// An item that was read from the store or written by this run.
#[derive(Debug)]
pub(super) enum StoreItemHandle {
    Read(Value),
    Own(Vec<u8>),
}

impl ItemHandle for StoreItemHandle {
    fn item(&self) -> Result<MemcachedItem<'_>, CommandError> {
        let stored = match self {
            StoreItemHandle::Read(value) => &value[..],
            StoreItemHandle::Own(stored) => stored,
        };
        Ok(format::decode_item(stored)?)
    }
}

/// A change of an item.
pub(super) enum ItemChange {
    Nothing,
    Delete,
    Put(Vec<u8>),
}

/// An item that outlives its lookup.
pub(crate) trait ItemHandle {
    fn item(&self) -> Result<MemcachedItem<'_>, CommandError>;
}

/// Access to items, in a store or in a cache.
pub(crate) trait ItemStore: Sized {
    /// An item that was read.
    type ReadItem: ItemHandle;
    /// The memory charge of a change.
    type ChangeMemory;

    /// Returns the time for all operations, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Returns a new CAS value.
    fn next_cas(&self) -> u64;

    /// Returns the largest size of a reply to reads.
    fn reply_room(&self) -> usize;

    /// Returns whether a reading command may change a stale item, for which it needs the lock. If
    /// not, the command is executed again with the lock.
    fn is_careful(&mut self) -> bool;

    fn get(&mut self, key: &[u8]) -> Result<Option<Self::ReadItem>, CommandError>;

    /// Changes an item as `decide` specifies, atomically.
    fn change<T>(
        &mut self,
        key: &[u8],
        decide: impl FnOnce(&Self, Option<MemcachedItem<'_>>) -> Result<(ItemChange, T), CommandError>,
    ) -> Result<T, CommandError>;

    /// Stores an item, whatever the key held.
    fn put(&mut self, key: &[u8], stored: Vec<u8>) -> Result<(), CommandError>;

    /// Charges memory for an item that grows to this size, as for a `set` of that size.
    fn room_to_grow(&self, bytes: usize) -> Result<Self::ChangeMemory, CommandError>;

    /// Obtains memory for reading and rewriting an item of this size. Other commands wait for it,
    /// and caches release memory.
    fn room_to_touch(&self, bytes: usize) -> Option<Self::ChangeMemory>;

    /// Commits the writes so far if they use much memory. A request that changes several items is
    /// atomic for each item, not as a whole.
    fn relieve(&mut self) -> Result<(), CommandError>;

    /// Returns the expiry time of an item for an expiry given in seconds; 0 for never.
    fn expiry(&self, seconds: i64) -> u64 {
        let at_ms = match seconds {
            0 => return 0,
            ..0 => self.now_ms(),
            1..=RELATIVE_S => self.now_ms() + seconds.unsigned_abs() * 1000,
            _ => seconds.unsigned_abs().saturating_mul(1000),
        };
        at_ms.max(1)
    }

    /// Returns the seconds until an item expires; -1 for never.
    fn seconds_left(&self, expires_ms: u64) -> i64 {
        if expires_ms == 0 {
            -1
        } else {
            expires_ms.saturating_sub(self.now_ms()).div_ceil(1000) as i64
        }
    }

    fn now_s(&self) -> u32 {
        (self.now_ms() / 1000) as u32
    }
}

/// A key of an item.
pub(super) type ItemKey = SmallVec<[u8; 32]>;

/// Number of prefetched items after the expected position in which a lookup searches.
const AHEAD: usize = 16;

/// The items of a store, for a run of requests: prefetched items, and writes that are not committed
/// yet. The caller holds the locks of changed items.
pub(super) struct StoredItems<'s> {
    pub(super) store: &'s ServerStore,
    pub(super) now_ms: u64,
    /// Whether reading commands may change stale items, because their locks are held.
    pub(super) is_careful: bool,
    /// Whether a change was skipped because its lock is not held.
    pub(super) wants_care: bool,
    read: Vec<(ItemKey, Option<Value>)>,
    /// Expected position of the next lookup in `read`.
    next: usize,
    /// Whether any request reads, so that writes must be visible before the commit.
    is_read: bool,
    own: HashMap<ItemKey, Option<Vec<u8>>>,
    batch: WriteBatch,
    /// The largest size of a reply to reads.
    pub(super) reply_room: usize,
    /// Approximate size of the uncommitted writes in bytes.
    pub(super) bytes: usize,
    /// Whether a part of what was written is committed already.
    has_written: bool,
    /// Bytes written with an expiry time, and the latest of these times.
    expiring: u64,
    last_expiry_ms: u64,
}

impl<'s> StoredItems<'s> {
    /// Creates the access. If `is_read` is false, no request reads, and writes are not visible
    /// before they are committed.
    pub(super) fn new(store: &'s ServerStore, is_read: bool, is_careful: bool) -> StoredItems<'s> {
        StoredItems {
            store,
            now_ms: store.now_ms(),
            is_careful,
            wants_care: false,
            read: Vec::new(),
            next: 0,
            is_read,
            own: HashMap::new(),
            batch: WriteBatch::new().durability(Durability::Process),
            reply_room: usize::MAX,
            bytes: 0,
            has_written: false,
            expiring: 0,
            last_expiry_ms: 0,
        }
    }

    /// Adds the lock that a request needs for an item.
    pub(super) fn lock(wanted: &mut KeyLockRequest, key: &[u8], access: ItemAccess) {
        match access {
            ItemAccess::Reads => {}
            ItemAccess::Overwrites => wanted.key(ITEMS, key, Mode::Blind),
            ItemAccess::Changes => wanted.key(ITEMS, key, Mode::Exclusive),
        }
    }

    /// Stores prefetched items, in the order in which they will be looked up.
    pub(super) fn has_read(&mut self, keys: Vec<ItemKey>, values: Vec<Option<Value>>) {
        for value in values.iter().flatten() {
            self.store.sizes.note_kept(value.len());
        }
        self.read = keys.into_iter().zip(values).collect();
        self.next = 0;
    }

    fn alive(&self, found: Option<StoreItemHandle>) -> Result<Option<StoreItemHandle>, CommandError> {
        let Some(kept) = found else {
            return Ok(None);
        };
        let expires_ms = kept.item()?.expires_ms;
        Ok(Some(kept).filter(|_| expires_ms == 0 || expires_ms > self.now_ms))
    }

    /// Returns an item as this run sees it.
    fn lookup(&mut self, key: &[u8]) -> Result<Option<StoreItemHandle>, CommandError> {
        let found = match self.own.get(key) {
            Some(own) => own.clone().map(StoreItemHandle::Own),
            None => self.find(key)?.map(StoreItemHandle::Read),
        };
        self.alive(found)
    }

    /// Returns the stored item. Reads it if it was not prefetched.
    fn find(&mut self, key: &[u8]) -> Result<Option<Value>, CommandError> {
        let ahead = self.read.iter().skip(self.next).take(AHEAD);
        match ahead.into_iter().position(|(name, _)| **name == *key) {
            Some(step) => {
                self.next += step + 1;
                Ok(self.read[self.next - 1].1.take())
            }
            None => Ok(self.store.read(&self.store.items, key)?),
        }
    }

    fn note(&mut self, key: &[u8], stored: Option<Vec<u8>>) {
        if self.is_read {
            self.own.insert(ItemKey::from_slice(key), stored);
        }
    }

    /// Deletes an item without reading it.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), CommandError> {
        self.batch.delete(&self.store.items, key)?;
        self.bytes += key.len();
        self.note(key, None);
        Ok(())
    }

    /// Commits the writes so far. Returns whether there were any.
    pub(super) fn commit(&mut self) -> Result<bool, CommandError> {
        let has_written = std::mem::take(&mut self.has_written);
        if self.batch.is_empty() {
            return Ok(has_written);
        }
        self.store.db.write(&self.batch)?;
        self.batch.clear();
        if self.expiring > 0 {
            self.store.expiring.note(self.last_expiry_ms, self.expiring, 0);
        }
        (self.bytes, self.expiring, self.last_expiry_ms) = (0, 0, 0);
        Ok(true)
    }
}

impl<'s> ItemStore for StoredItems<'s> {
    type ReadItem = StoreItemHandle;
    type ChangeMemory = WorkingMemory<'s>;

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn next_cas(&self) -> u64 {
        self.store.next_cas()
    }

    fn reply_room(&self) -> usize {
        self.reply_room
    }

    fn is_careful(&mut self) -> bool {
        self.wants_care |= !self.is_careful;
        self.is_careful
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<StoreItemHandle>, CommandError> {
        self.lookup(key)
    }

    fn change<T>(
        &mut self,
        key: &[u8],
        decide: impl FnOnce(&Self, Option<MemcachedItem<'_>>) -> Result<(ItemChange, T), CommandError>,
    ) -> Result<T, CommandError> {
        let kept = self.lookup(key)?;
        let item = kept.as_ref().map(StoreItemHandle::item).transpose()?;
        let (change, result) = decide(self, item)?;
        match change {
            ItemChange::Nothing => {}
            ItemChange::Delete => self.delete(key)?,
            ItemChange::Put(stored) => self.put(key, stored)?,
        }
        Ok(result)
    }

    fn room_to_grow(&self, bytes: usize) -> Result<WorkingMemory<'s>, CommandError> {
        let mut working = WorkingMemory::new(self.store);
        working.add(bytes.saturating_mul(COPIES))?;
        Ok(working)
    }

    fn put(&mut self, key: &[u8], stored: Vec<u8>) -> Result<(), CommandError> {
        let expires_ms = format::decode_item(&stored)?.expires_ms;
        self.store.sizes.note_kept(stored.len());
        let until = UNIX_EPOCH.checked_add(Duration::from_millis(expires_ms));
        let items = &self.store.items;
        match until.filter(|_| expires_ms != 0) {
            Some(until) => {
                self.batch.put_until(items, key, &stored, until)?;
                self.expiring += (key.len() + stored.len()) as u64;
                self.last_expiry_ms = self.last_expiry_ms.max(expires_ms);
            }
            None => {
                self.batch.put(items, key, &stored)?;
            }
        }
        self.bytes += key.len() + stored.len();
        self.note(key, Some(stored));
        Ok(())
    }

    fn room_to_touch(&self, bytes: usize) -> Option<WorkingMemory<'s>> {
        (bytes > COMMITTED_AT_ONCE)
            .then(|| WorkingMemory::of_buffer(self.store, bytes.saturating_mul(COPIES)))
    }

    fn relieve(&mut self) -> Result<(), CommandError> {
        if self.bytes > COMMITTED_AT_ONCE {
            self.has_written |= self.commit()?;
            // The writes are in the store now, and prefetched items may be out of date.
            self.batch = WriteBatch::new().durability(Durability::Process);
            self.own.clear();
            self.read.clear();
            self.next = 0;
        }
        Ok(())
    }
}

/// Deletes all items while holding all locks. No request that read an item earlier can write it
/// back.
pub(super) fn flush(store: &ServerStore) -> Result<(), CommandError> {
    let mut wanted = KeyLockRequest::default();
    wanted.everything();
    let _held = store.locks.lock(wanted);
    store.items.delete_range(b"", None)?;
    Ok(())
}

/// Returns the staleness of an item after arithmetic: if the value has grown, memcached creates a
/// new item.
pub(super) fn staleness_after(old: &MemcachedItem<'_>, value: &[u8]) -> u8 {
    if value.len() > old.value.len() {
        0
    } else {
        old.staleness
    }
}

/// Computes INCR and DECR on an item's bytes. Returns the number and its stored form. As in
/// memcached, a shorter number is padded with blanks.
pub(super) fn arithmetic(old: &[u8], delta: u64, adds: bool) -> Option<(u64, Vec<u8>)> {
    // memcached ignores everything after a blank.
    let old_text = old.trim_ascii_start();
    let end = old_text.iter().position(u8::is_ascii_whitespace);
    let digits = &old_text[..end.unwrap_or(old_text.len())];
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let new = if adds {
        number.wrapping_add(delta)
    } else {
        number.saturating_sub(delta)
    };
    let mut stored = new.to_string().into_bytes();
    if stored.len() < old.len() {
        stored.resize(old.len(), b' ');
    }
    Some((new, stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_wraps_up_and_stops_at_zero() {
        assert_eq!(arithmetic(b"10", 1, false), Some((9, b"9 ".to_vec())));
        assert_eq!(arithmetic(b"9 ", 2, true), Some((11, b"11".to_vec())));
        assert_eq!(arithmetic(b"5", 9, false), Some((0, b"0".to_vec())));
        assert_eq!(arithmetic(b"18446744073709551615", 1, true).unwrap().0, 0);
        assert_eq!(arithmetic(b"7 x", 1, true), Some((8, b"8  ".to_vec())));
        assert_eq!(arithmetic(b"x", 1, true), None);
        assert_eq!(arithmetic(b"7x", 1, true), None);
        assert_eq!(arithmetic(b"", 1, true), None);
    }
}
