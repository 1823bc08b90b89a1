//! Locks of keys, and WATCH.
//!
//! A pipeline holds the locks of all its keys until its commit is visible, so there are many more
//! stripes than keys in a batch. Blind writes, such as SET, do not exclude each other: the one that
//! commits last wins.

pub(crate) use alluvium::LockMode as Mode;
use alluvium::{HeldLocks, LockSet, LockTable};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const STRIPES: usize = 1 << 16;

/// The watching connections of each watched key. Each connection has a flag that is set when the
/// key is written to.
type WatcherMap = HashMap<(u8, Box<[u8]>), Vec<Arc<AtomicBool>>>;

/// The locks of all keys, and the watchers of keys.
pub(crate) struct KeyLocks {
    table: LockTable,
    watchers: Mutex<WatcherMap>,
    /// Number of watchers, so that writers can skip the lookup when there are none.
    watching: AtomicUsize,
}

impl fmt::Debug for KeyLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}

/// A set of held locks.
pub(crate) struct KeyLockGuard<'l> {
    locks: &'l KeyLocks,
    _held: HeldLocks<'l>,
}

/// The keys that a thread is going to lock.
#[derive(Debug, Default)]
pub(crate) struct KeyLockRequest(LockSet);

impl KeyLockRequest {
    /// Returns an empty set with capacity for `keys` keys.
    pub(crate) fn with_capacity(keys: usize) -> KeyLockRequest {
        KeyLockRequest(LockSet::with_capacity(keys))
    }

    #[inline]
    pub(crate) fn key(&mut self, database: u8, key: &[u8], mode: Mode) {
        self.0.key(u64::from(database), key, mode);
    }

    /// Returns whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all keys of all databases, exclusively.
    pub(crate) fn everything(&mut self) {
        self.0.everything(Mode::Exclusive);
    }
}

impl KeyLocks {
    pub(crate) fn new() -> KeyLocks {
        KeyLocks {
            table: LockTable::new(STRIPES),
            watchers: Mutex::default(),
            watching: AtomicUsize::new(0),
        }
    }

    /// Waits for all locks of the set.
    #[inline]
    pub(crate) fn lock(&self, wanted: KeyLockRequest) -> KeyLockGuard<'_> {
        KeyLockGuard {
            locks: self,
            _held: self.table.lock(wanted.0),
        }
    }

    /// Registers a flag that is set when the key is written to. The caller holds the key's lock, so
    /// no writer holds it at the same time, and later writers see that there are watchers.
    pub(crate) fn watch(&self, database: u8, key: &[u8], is_touched: &Arc<AtomicBool>) {
        self.watching.fetch_add(1, Ordering::Relaxed);
        let mut watchers = self.watchers.lock();
        let flags = watchers.entry((database, key.into())).or_default();
        flags.push(Arc::clone(is_touched));
    }

    /// Removes the watches of a key that set this flag.
    pub(crate) fn unwatch(&self, database: u8, key: &[u8], is_touched: &Arc<AtomicBool>) {
        let mut watchers = self.watchers.lock();
        let place = (database, Box::from(key));
        let Some(flags) = watchers.get_mut(&place) else {
            return;
        };
        let before = flags.len();
        flags.retain(|flag| !Arc::ptr_eq(flag, is_touched));
        self.watching.fetch_sub(before - flags.len(), Ordering::Relaxed);
        if flags.is_empty() {
            watchers.remove(&place);
        }
    }

    /// Returns the watched keys of a database. While the caller holds all locks, none are added.
    pub(crate) fn watched(&self, database: u8) -> Vec<Box<[u8]>> {
        let watchers = self.watchers.lock();
        let keys = watchers.keys().filter(|(of, _)| *of == database);
        keys.map(|(_, key)| key.clone()).collect()
    }

    /// Returns whether any key is watched. The caller holds the lock of the key it asks for;
    /// watchers of the key are counted under the same lock.
    pub(crate) fn has_watchers(&self) -> bool {
        self.watching.load(Ordering::Relaxed) > 0
    }
}

impl KeyLockGuard<'_> {
    /// Sets the flags of the watchers of a key that is locked for writing.
    pub(crate) fn touch(&self, database: u8, key: &[u8]) {
        if let Some(flags) = self.locks.watchers.lock().get(&(database, Box::from(key))) {
            flags.iter().for_each(|flag| flag.store(true, Ordering::Release));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_hears_of_its_own_key_only() {
        let locks = KeyLocks::new();
        let flag = Arc::new(AtomicBool::new(false));
        locks.watch(1, b"a", &flag);
        let write = |database, key: &[u8]| {
            let mut wanted = KeyLockRequest::default();
            wanted.key(database, key, Mode::Exclusive);
            locks.lock(wanted).touch(database, key);
            flag.load(Ordering::Acquire)
        };
        assert!(locks.has_watchers());
        assert!(!write(1, b"b"));
        assert!(!write(0, b"a"));
        assert!(write(1, b"a"));
        flag.store(false, Ordering::Release);
        locks.unwatch(1, b"a", &flag);
        assert!(!write(1, b"a") && !locks.has_watchers());
    }
}
