//! Items as requests that are executed together see and change them.

use super::run::Access;
use crate::error::Failure;
use crate::model::format::{self, Item};
use crate::store::{Mode, Store, Wanted, Working};
use alluvium::{Durability, Value, WriteBatch};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

/// Expiries up to this number of seconds are counted from now, longer ones from 1970.
const RELATIVE_S: i64 = 30 * 24 * 60 * 60;

/// How many copies of an item are in memory while something is added to it: what was there, what it
/// becomes, its record, and the batch that it is committed with.
const COPIES: usize = 4;

/// What one request writes is committed when it has more bytes than this.
const COMMITTED_AT_ONCE: usize = 1 << 20;

/// Keys of items are locked as if they were of a database of their own.
const ITEMS: u8 = 255;

/// The item is stale: a client that gets it may be told to renew it.
pub(super) const STALE: u8 = 1;
/// A client was told to.
pub(super) const CLAIMED: u8 = 2;

/// An item that was read, or that the same run has written.
#[derive(Debug)]
pub(super) enum Kept {
    Read(Value),
    Own(Vec<u8>),
}

impl Keeps for Kept {
    fn item(&self) -> Result<Item<'_>, Failure> {
        let stored = match self {
            Kept::Read(value) => &value[..],
            Kept::Own(stored) => stored,
        };
        Ok(format::decode_item(stored)?)
    }
}

/// What becomes of an item.
pub(super) enum Change {
    Nothing,
    Delete,
    Put(Vec<u8>),
}

/// An item that was read, and lives longer than the look at it.
pub(crate) trait Keeps {
    /// Returns the item.
    fn item(&self) -> Result<Item<'_>, Failure>;
}

/// Items as commands see and change them, wherever they are kept.
pub(crate) trait Items: Sized {
    /// An item that was read.
    type Kept: Keeps;
    /// Memory that is taken for a change.
    type Memory;

    /// Returns the time of all that is done, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Returns another number that CAS compares.
    fn next_cas(&self) -> u64;

    /// Returns how long a reply may be that only says what is there.
    fn reply_room(&self) -> usize;

    /// Returns whether what only reads may change an item that it finds stale. If not, it is
    /// executed again when it may.
    fn is_careful(&mut self) -> bool;

    /// Returns an item.
    fn get(&mut self, key: &[u8]) -> Result<Option<Self::Kept>, Failure>;

    /// Changes an item as `decide` says, so that no other request changes it meanwhile.
    fn change<T>(
        &mut self,
        key: &[u8],
        decide: impl FnOnce(&Self, Option<Item<'_>>) -> Result<(Change, T), Failure>,
    ) -> Result<T, Failure>;

    /// Stores an item, whatever is there.
    fn put(&mut self, key: &[u8], stored: Vec<u8>) -> Result<(), Failure>;

    /// Takes memory for an item that becomes longer by what is added to it: clients have to have
    /// it, as for one that is set.
    fn room_to_grow(&self, bytes: usize) -> Result<Self::Memory, Failure>;

    /// Takes memory for an item of a length that is read to be written again, as long as that
    /// takes: others wait for it, and caches give it back.
    fn room_to_touch(&self, bytes: usize) -> Option<Self::Memory>;

    /// Commits what was written so far if it takes much memory. A request that changes several
    /// items is atomic for each of them, not for all.
    fn relieve(&mut self) -> Result<(), Failure>;

    /// When an item expires that shall live so long; 0 for never.
    fn expiry(&self, seconds: i64) -> u64 {
        let at_ms = match seconds {
            0 => return 0,
            ..0 => self.now_ms(),
            1..=RELATIVE_S => self.now_ms() + seconds.unsigned_abs() * 1000,
            _ => seconds.unsigned_abs().saturating_mul(1000),
        };
        at_ms.max(1)
    }

    /// In how many seconds an item expires; -1 for never.
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
pub(super) type Key = SmallVec<[u8; 32]>;

/// How far a lookup may be behind what was read for it.
const AHEAD: usize = 16;

/// Items of one store, for requests that are executed together: what was read for them beforehand,
/// and what they write until it is committed. Locks of what they change are held.
pub(super) struct StoredItems<'s> {
    pub(super) store: &'s Store,
    pub(super) now_ms: u64,
    /// Whether what only reads may change an item that it finds stale: its lock is held.
    pub(super) is_careful: bool,
    /// Something would have to be changed that has no lock.
    pub(super) wants_care: bool,
    read: Vec<(Key, Option<Value>)>,
    /// Where the next lookup of something that was read probably is.
    next: usize,
    /// Whether a request asks for what was written.
    is_read: bool,
    own: HashMap<Key, Option<Vec<u8>>>,
    batch: WriteBatch,
    /// How long a reply may be that only says what is there.
    pub(super) reply_room: usize,
    /// About how many bytes wait for the commit.
    pub(super) bytes: usize,
    /// Whether a part of what was written is committed already.
    has_written: bool,
    /// How many of them expire, and when the last ones do.
    expiring: u64,
    last_expiry_ms: u64,
}

impl<'s> StoredItems<'s> {
    /// For requests that ask for items, or for none: then no request sees what they write before it
    /// is committed.
    pub(super) fn new(store: &'s Store, is_read: bool, is_careful: bool) -> StoredItems<'s> {
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

    /// The locks that a request needs for an item.
    pub(super) fn lock(wanted: &mut Wanted, key: &[u8], access: Access) {
        match access {
            Access::Reads => {}
            Access::Overwrites => wanted.key(ITEMS, key, Mode::Blind),
            Access::Changes => wanted.key(ITEMS, key, Mode::Exclusive),
        }
    }

    /// These items were read, in the order in which they will be asked for.
    pub(super) fn has_read(&mut self, keys: Vec<Key>, values: Vec<Option<Value>>) {
        for value in values.iter().flatten() {
            self.store.sizes.note_kept(value.len());
        }
        self.read = keys.into_iter().zip(values).collect();
        self.next = 0;
    }

    fn alive(&self, found: Option<Kept>) -> Result<Option<Kept>, Failure> {
        let Some(kept) = found else {
            return Ok(None);
        };
        let expires_ms = kept.item()?.expires_ms;
        Ok(Some(kept).filter(|_| expires_ms == 0 || expires_ms > self.now_ms))
    }

    /// An item as these requests see it.
    fn lookup(&mut self, key: &[u8]) -> Result<Option<Kept>, Failure> {
        let found = match self.own.get(key) {
            Some(own) => own.clone().map(Kept::Own),
            None => self.find(key)?.map(Kept::Read),
        };
        self.alive(found)
    }

    /// An item as the store has it. One that was not read beforehand is read now.
    fn find(&mut self, key: &[u8]) -> Result<Option<Value>, Failure> {
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
            self.own.insert(Key::from_slice(key), stored);
        }
    }

    /// Deletes an item, whatever it is.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.batch.delete(&self.store.items, key)?;
        self.bytes += key.len();
        self.note(key, None);
        Ok(())
    }

    /// Commits what was written so far. Whether there was anything.
    pub(super) fn commit(&mut self) -> Result<bool, Failure> {
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

impl<'s> Items for StoredItems<'s> {
    type Kept = Kept;
    type Memory = Working<'s>;

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

    fn get(&mut self, key: &[u8]) -> Result<Option<Kept>, Failure> {
        self.lookup(key)
    }

    fn change<T>(
        &mut self,
        key: &[u8],
        decide: impl FnOnce(&Self, Option<Item<'_>>) -> Result<(Change, T), Failure>,
    ) -> Result<T, Failure> {
        let kept = self.lookup(key)?;
        let item = kept.as_ref().map(Kept::item).transpose()?;
        let (change, result) = decide(self, item)?;
        match change {
            Change::Nothing => {}
            Change::Delete => self.delete(key)?,
            Change::Put(stored) => self.put(key, stored)?,
        }
        Ok(result)
    }

    fn room_to_grow(&self, bytes: usize) -> Result<Working<'s>, Failure> {
        let mut working = Working::new(self.store);
        working.add(bytes.saturating_mul(COPIES))?;
        Ok(working)
    }

    fn put(&mut self, key: &[u8], stored: Vec<u8>) -> Result<(), Failure> {
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

    fn room_to_touch(&self, bytes: usize) -> Option<Working<'s>> {
        (bytes > COMMITTED_AT_ONCE).then(|| Working::of_buffer(self.store, bytes.saturating_mul(COPIES)))
    }

    fn relieve(&mut self) -> Result<(), Failure> {
        if self.bytes > COMMITTED_AT_ONCE {
            self.has_written |= self.commit()?;
            // The store has it, and what was read before may be older.
            self.batch = WriteBatch::new().durability(Durability::Process);
            self.own.clear();
            self.read.clear();
            self.next = 0;
        }
        Ok(())
    }
}

/// Deletes all items. No request that has read one before brings it back: all locks are held.
pub(super) fn flush(store: &Store) -> Result<(), Failure> {
    let mut wanted = Wanted::default();
    wanted.everything();
    let _held = store.locks.lock(wanted);
    store.items.delete_range(b"", None)?;
    Ok(())
}

/// How stale an item is whose number has changed: one that has grown is another item to memcached.
pub(super) fn staleness_after(old: &Item<'_>, value: &[u8]) -> u8 {
    if value.len() > old.value.len() {
        0
    } else {
        old.staleness
    }
}

/// What INCR and DECR make of an item's bytes: the number, and how it is stored. Shorter numbers
/// leave blanks behind, as memcached does.
pub(super) fn arithmetic(old: &[u8], delta: u64, adds: bool) -> Option<(u64, Vec<u8>)> {
    // What stands behind a blank is nothing to memcached.
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
