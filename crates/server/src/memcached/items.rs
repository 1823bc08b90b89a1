//! What can be done to an item, atomically.

use crate::error::Failure;
use crate::model::format::{self, Item};
use crate::store::{Mode, Store, Wanted};
use alluvium::{Durability, Value, WriteBatch};
use std::time::{Duration, UNIX_EPOCH};

/// Expiries up to so many seconds are counted from now, longer ones from 1970.
const RELATIVE_S: i64 = 30 * 24 * 60 * 60;

/// Keys of items are locked as if they were of a database of their own.
const ITEMS: u8 = 255;

/// The item is stale: whoever gets it may be told to renew it.
pub(super) const STALE: u8 = 1;
/// Somebody was told to.
pub(super) const CLAIMED: u8 = 2;

/// An item that was read.
#[derive(Debug)]
pub(super) struct Kept(Value);

impl Kept {
    pub(super) fn item(&self) -> Result<Item<'_>, Failure> {
        Ok(format::decode_item(&self.0)?)
    }
}

/// What becomes of an item.
pub(super) enum Change {
    Nothing,
    Delete,
    Put(Vec<u8>),
}

/// Items of one store, for one request.
pub(super) struct Items<'s> {
    pub(super) store: &'s Store,
    pub(super) now_ms: u64,
    /// Whether anything was written.
    pub(super) has_written: bool,
}

impl<'s> Items<'s> {
    pub(super) fn new(store: &'s Store) -> Items<'s> {
        Items {
            store,
            now_ms: store.now_ms(),
            has_written: false,
        }
    }

    /// When an item expires that shall live so long; 0 for never.
    pub(super) fn expiry(&self, seconds: i64) -> u64 {
        let at_ms = match seconds {
            0 => return 0,
            ..0 => self.now_ms,
            1..=RELATIVE_S => self.now_ms + seconds.unsigned_abs() * 1000,
            _ => seconds.unsigned_abs().saturating_mul(1000),
        };
        at_ms.max(1)
    }

    /// In how many seconds an item expires; -1 for never.
    pub(super) fn seconds_left(&self, expires_ms: u64) -> i64 {
        if expires_ms == 0 {
            -1
        } else {
            expires_ms.saturating_sub(self.now_ms).div_ceil(1000) as i64
        }
    }

    pub(super) fn now_s(&self) -> u32 {
        (self.now_ms / 1000) as u32
    }

    fn alive(&self, found: Option<Value>) -> Result<Option<Kept>, Failure> {
        let Some(kept) = found.map(Kept) else {
            return Ok(None);
        };
        let expires_ms = kept.item()?.expires_ms;
        Ok(Some(kept).filter(|_| expires_ms == 0 || expires_ms > self.now_ms))
    }

    /// Items by their keys, read at once.
    pub(super) fn get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Kept>>, Failure> {
        let found = Store::read_all(&self.store.items, keys)?;
        found.into_iter().map(|value| self.alive(value)).collect()
    }

    /// Changes an item as `decide` says, which nobody else changes meanwhile.
    pub(super) fn change<T>(
        &mut self,
        key: &[u8],
        decide: impl FnOnce(&Items<'_>, Option<Item<'_>>) -> Result<(Change, T), Failure>,
    ) -> Result<T, Failure> {
        let mut wanted = Wanted::default();
        wanted.key(ITEMS, key, Mode::Exclusive);
        let _held = self.store.locks.lock(wanted);
        let kept = self.alive(Store::read(&self.store.items, key)?)?;
        let item = kept.as_ref().map(Kept::item).transpose()?;
        let (change, result) = decide(self, item)?;
        let mut batch = WriteBatch::new().durability(Durability::Process);
        let items = &self.store.items;
        match change {
            Change::Nothing => return Ok(result),
            Change::Delete => batch.delete(items, key)?,
            Change::Put(stored) => {
                let expires_ms = format::decode_item(&stored)?.expires_ms;
                let until = UNIX_EPOCH.checked_add(Duration::from_millis(expires_ms));
                match until.filter(|_| expires_ms != 0) {
                    Some(until) => {
                        let bytes = (key.len() + stored.len()) as u64;
                        self.store.expiring.note(expires_ms, bytes);
                        batch.put_until(items, key, &stored, until)?
                    }
                    None => batch.put(items, key, &stored)?,
                }
            }
        };
        self.store.db.write(&batch)?;
        self.has_written = true;
        Ok(result)
    }

    /// Deletes all items. Nobody who has read one before brings it back: all locks are held.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let mut wanted = Wanted::default();
        wanted.everything();
        let _held = self.store.locks.lock(wanted);
        self.store.items.delete_range(b"", None)?;
        self.has_written = true;
        Ok(())
    }
}

/// How stale an item is whose number has changed: one that has grown is another item to memcached.
pub(super) fn staleness_after(old: &Item<'_>, value: &[u8]) -> u8 {
    if value.len() > old.value.len() {
        0
    } else {
        old.staleness
    }
}

/// What INCR and DECR make of an item's bytes: the number, and how it is stored. Shorter numbers leave blanks behind, as memcached does.
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
