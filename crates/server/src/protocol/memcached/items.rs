//! How requests read and change items, and the implementation for a store's items.

use crate::error::CommandError;
use crate::store::model::format::{self, MemcachedItem};
use crate::store::{KeyLockRequest, Mode, ServerStore, WorkingMemory};
use alluvium::{Durability, Value, WriteBatch};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

/// Maximum number of seconds that counts as a time from now. Larger expiry times are Unix times.
const RELATIVE_S: i64 = 30 * 24 * 60 * 60;

/// Number of copies of an item in memory while it is extended: the old value, the new value, the
/// encoded record, and the commit's batch.
const COPIES: usize = 4;

/// Number of uncommitted bytes at which a request commits its writes before it continues.
const COMMITTED_AT_ONCE: usize = 1 << 20;

/// Database number for locking items, distinct from those of all Redis databases.
const ITEMS: u8 = 255;

/// Flag of a stale item. A client that reads the item may be asked to renew it.
pub(super) const STALE: u8 = 1;
/// Flag of an item that a client has already been asked to renew.
pub(super) const CLAIMED: u8 = 2;

/// How a request accesses an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemAccess {
    Reads,
    /// The request writes the item without reading it.
    Overwrites,
    /// The request reads the item and writes it depending on what it reads.
    Changes,
}

/// An item that was read from the store or written by the current run.
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

/// The change that a request makes to an item.
pub(super) enum ItemChange {
    Nothing,
    Delete,
    Put(Vec<u8>),
}

/// An item that was read. It remains valid as long as the handle exists.
pub(crate) trait ItemHandle {
    fn item(&self) -> Result<MemcachedItem<'_>, CommandError>;
}

/// How requests read and change items. Implemented for the items of a store and of a cache.
pub(crate) trait ItemStore: Sized {
    /// Handle of an item that was read.
    type ReadItem: ItemHandle;
    /// The memory charge for changing an item, released on drop.
    type ChangeMemory;

    /// Returns the time that all operations use, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Allocates a new CAS value.
    fn next_cas(&self) -> u64;

    /// Returns the maximum reply size in bytes for a reading request.
    fn reply_room(&self) -> usize;

    /// Returns whether a reading request may change a stale item, which requires the item's lock.
    /// Otherwise the request will run again under the lock.
    fn is_careful(&mut self) -> bool;

    fn get(&mut self, key: &[u8]) -> Result<Option<Self::ReadItem>, CommandError>;

    /// Passes the current item to `decide` and applies the returned change, atomically.
    fn change<T>(
        &mut self,
        key: &[u8],
        decide: impl FnOnce(&Self, Option<MemcachedItem<'_>>) -> Result<(ItemChange, T), CommandError>,
    ) -> Result<T, CommandError>;

    /// Stores an encoded item, replacing any previous item with the same key.
    fn put(&mut self, key: &[u8], stored: Vec<u8>) -> Result<(), CommandError>;

    /// Charges as much memory for an item that grows to `bytes` bytes as a `set` of that size
    /// would. Fails if the item or the memory in use would become too large.
    fn room_to_grow(&self, bytes: usize) -> Result<Self::ChangeMemory, CommandError>;

    /// Charges the memory for reading and rewriting an item of `bytes` bytes even beyond the limit,
    /// which makes other commands wait. Returns `None` if no charge is necessary.
    fn room_to_touch(&self, bytes: usize) -> Option<Self::ChangeMemory>;

    /// Commits the preceding writes if they use much memory. A request that changes several items
    /// is therefore atomic for each item, but not as a whole.
    fn relieve(&mut self) -> Result<(), CommandError>;

    /// Converts a client's expiry time in seconds to milliseconds since 1970. Returns 0 if the item
    /// never expires.
    fn expiry(&self, seconds: i64) -> u64 {
        let at_ms = match seconds {
            0 => return 0,
            ..0 => self.now_ms(),
            1..=RELATIVE_S => self.now_ms() + seconds.unsigned_abs() * 1000,
            _ => seconds.unsigned_abs().saturating_mul(1000),
        };
        at_ms.max(1)
    }

    /// Returns the number of seconds until an item expires, or -1 if it never does.
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

/// The key of a memcached item.
pub(super) type ItemKey = SmallVec<[u8; 32]>;

/// Number of prefetched items, from the expected position on, that a lookup compares with its key.
const AHEAD: usize = 16;

/// A store's items as a run of requests sees them, with prefetched items and uncommitted writes.
/// The caller must hold the locks of all items that the run changes.
pub(super) struct StoredItems<'s> {
    pub(super) store: &'s ServerStore,
    pub(super) now_ms: u64,
    /// Whether reading requests may change stale items, because the locks of these items are held.
    pub(super) is_careful: bool,
    /// Whether a reading request could not change a stale item for want of its lock.
    pub(super) wants_care: bool,
    read: Vec<(ItemKey, Option<Value>)>,
    /// Position in `read` at which the next lookup is expected.
    next: usize,
    /// Whether any request reads items, so that `own` must keep uncommitted writes for it.
    is_read: bool,
    own: HashMap<ItemKey, Option<Vec<u8>>>,
    batch: WriteBatch,
    /// Maximum reply size in bytes for a reading request.
    pub(super) reply_room: usize,
    /// Approximate size of the uncommitted writes in bytes.
    pub(super) bytes: usize,
    /// Whether some writes of this run have already been committed.
    has_written: bool,
    /// Number of bytes written with an expiry time, and the latest of these expiry times.
    expiring: u64,
    last_expiry_ms: u64,
}

impl<'s> StoredItems<'s> {
    /// Creates the items' view for a run of requests. If `is_read` is false, no request may read
    /// items, and uncommitted writes are not visible.
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

    /// Adds the lock for a request's access to an item to `wanted`.
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

    /// Returns an item as the run sees it, or `None` if it does not exist or has expired.
    fn lookup(&mut self, key: &[u8]) -> Result<Option<StoreItemHandle>, CommandError> {
        let found = match self.own.get(key) {
            Some(own) => own.clone().map(StoreItemHandle::Own),
            None => self.find(key)?.map(StoreItemHandle::Read),
        };
        self.alive(found)
    }

    /// Returns a prefetched item, or reads the item from the store if it was not prefetched.
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

    /// Commits all uncommitted writes. Returns whether the run has written anything since the last
    /// call.
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
            // The store now contains the writes, and the prefetched items may be out of date.
            self.batch = WriteBatch::new().durability(Durability::Process);
            self.own.clear();
            self.read.clear();
            self.next = 0;
        }
        Ok(())
    }
}

/// Deletes all items under all locks, so that no request can write back an item that it read
/// earlier.
pub(super) fn flush(store: &ServerStore) -> Result<(), CommandError> {
    let mut wanted = KeyLockRequest::default();
    wanted.everything();
    let _held = store.locks.lock(wanted);
    store.items.delete_range(b"", None)?;
    Ok(())
}

/// Returns an item's staleness flags after arithmetic. They are cleared if the value has become
/// longer, because memcached creates a new item in this case.
pub(super) fn staleness_after(old: &MemcachedItem<'_>, value: &[u8]) -> u8 {
    if value.len() > old.value.len() {
        0
    } else {
        old.staleness
    }
}

/// Adds `delta` to the decimal number in an item, or subtracts it. Returns the new number and the
/// new value, or `None` if the item contains no number. As in memcached, blanks pad a shorter
/// number to the old length.
pub(super) fn arithmetic(old: &[u8], delta: u64, adds: bool) -> Option<(u64, Vec<u8>)> {
    // As in memcached, ignore everything after a blank.
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
