//! Locks on keys, and the reports of changed keys to those who listen: clients that WATCH keys, and
//! a listener of the server.
//!
//! Keys are hashed to lock stripes. A pipeline holds the locks of all its keys until its commit is
//! visible, so there are many more stripes than keys in a batch. Blind writes such as SET do not
//! exclude each other; the last one to commit determines the value.

use super::key_events::{AwaitedKey, ChannelMessage, CommitListener, KeyChange};
pub(crate) use alluvium::LockMode as Mode;
use alluvium::{HeldLocks, LockSet, LockTable};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

const STRIPES: usize = 1 << 16;

/// The flags of the connections that watch each key. A write to the key sets them.
type WatcherMap = HashMap<(u8, Box<[u8]>), Vec<Arc<AtomicBool>>>;

/// The locks on keys, and those to whom changes of keys are reported.
pub(crate) struct KeyLocks {
    table: LockTable,
    watchers: Mutex<WatcherMap>,
    /// Number of registered flags. While it is zero, reports need not look for them.
    watching: AtomicUsize,
    /// Number of registered flags, and of wishes for the reports of all changes. While it is zero,
    /// writers need not remember which keys they change.
    listening: AtomicUsize,
    listener: OnceLock<Arc<dyn CommitListener>>,
}

impl fmt::Debug for KeyLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyLocks").finish_non_exhaustive()
    }
}

/// Held locks, released when the guard is dropped.
pub(crate) struct KeyLockGuard<'l> {
    locks: &'l KeyLocks,
    held: Option<HeldLocks<'l>>,
    /// The changed keys for which clients wait. They are served after the locks are released.
    ready: RefCell<Vec<AwaitedKey>>,
}

/// The keys that a thread is going to lock, each with a lock mode.
#[derive(Debug, Default)]
pub(crate) struct KeyLockRequest(LockSet);

impl KeyLockRequest {
    /// Creates an empty set with capacity for `keys` keys.
    pub(crate) fn with_capacity(keys: usize) -> KeyLockRequest {
        KeyLockRequest(LockSet::with_capacity(keys))
    }

    #[inline]
    pub(crate) fn key(&mut self, database: u8, key: &[u8], mode: Mode) {
        self.0.key(u64::from(database), key, mode);
    }

    /// Returns whether the set contains no keys.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the exclusive locks of all keys in all databases.
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
            listening: AtomicUsize::new(0),
            listener: OnceLock::new(),
        }
    }

    /// Waits for all locks in the set, and returns a guard that holds them.
    #[inline]
    pub(crate) fn lock(&self, wanted: KeyLockRequest) -> KeyLockGuard<'_> {
        KeyLockGuard {
            locks: self,
            held: Some(self.table.lock(wanted.0)),
            ready: RefCell::default(),
        }
    }

    /// Registers a flag to be set when the key is written. The caller must hold the key's lock,
    /// which excludes concurrent writers of the key and ensures that later ones see a non-zero
    /// number of watchers.
    pub(crate) fn watch(&self, database: u8, key: &[u8], is_touched: &Arc<AtomicBool>) {
        self.watching.fetch_add(1, Ordering::Relaxed);
        self.listening.fetch_add(1, Ordering::Relaxed);
        let mut watchers = self.watchers.lock();
        let flags = watchers.entry((database, key.into())).or_default();
        flags.push(Arc::clone(is_touched));
    }

    /// Removes all of a key's registrations of this flag.
    pub(crate) fn unwatch(&self, database: u8, key: &[u8], is_touched: &Arc<AtomicBool>) {
        let mut watchers = self.watchers.lock();
        let place = (database, Box::from(key));
        let Some(flags) = watchers.get_mut(&place) else {
            return;
        };
        let before = flags.len();
        flags.retain(|flag| !Arc::ptr_eq(flag, is_touched));
        self.watching.fetch_sub(before - flags.len(), Ordering::Relaxed);
        self.listening.fetch_sub(before - flags.len(), Ordering::Relaxed);
        if flags.is_empty() {
            watchers.remove(&place);
        }
    }

    /// Returns a database's keys that clients watch or wait for. While the caller holds all locks,
    /// none can be added concurrently.
    pub(crate) fn observed(&self, database: u8) -> Vec<Box<[u8]>> {
        let mut keys = self
            .listener
            .get()
            .map_or_else(Vec::new, |listener| listener.awaited(database));
        let watchers = self.watchers.lock();
        let watched = watchers.keys().filter(|(of, _)| *of == database);
        keys.extend(watched.map(|(_, key)| key.clone()));
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the number of subscriptions that would receive a message.
    pub(crate) fn receivers(&self, message: &ChannelMessage) -> usize {
        let listener = self.listener.get();
        listener.map_or(0, |listener| listener.receivers(message))
    }

    /// Sends the messages of a commit.
    pub(crate) fn publish(&self, messages: &[ChannelMessage]) {
        if let Some(listener) = self.listener.get() {
            messages.iter().for_each(|message| listener.publish(message));
        }
    }

    /// Returns whether a client waits for a key that began to wait before the one with this number.
    pub(crate) fn is_awaited_before(&self, place: &AwaitedKey, number: u64) -> bool {
        let listener = self.listener.get();
        listener.is_some_and(|listener| listener.is_awaited_before(place, number))
    }

    /// Returns whether changes of keys are reported. The caller must hold the lock of the key
    /// that it changes, because watchers register under the same lock.
    pub(crate) fn has_listeners(&self) -> bool {
        self.listening.load(Ordering::Relaxed) > 0
    }

    /// Sets the listener that receives the changes of all keys. It receives them only after
    /// [`KeyLocks::begin_to_listen`], or while keys are watched.
    pub(crate) fn set_listener(&self, listener: Arc<dyn CommitListener>) {
        assert!(self.listener.set(listener).is_ok(), "it is set once");
    }

    /// Makes all commits report their changes, until the same number of calls of
    /// [`KeyLocks::end_to_listen`].
    pub(crate) fn begin_to_listen(&self) {
        self.listening.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_to_listen(&self) {
        self.listening.fetch_sub(1, Ordering::Relaxed);
    }
}

impl KeyLockGuard<'_> {
    /// Reports a change to all who listen. The key must be locked for writing.
    pub(crate) fn report(&self, change: &KeyChange) {
        // A watcher registers under the lock of its key, which is held here.
        if self.locks.watching.load(Ordering::Relaxed) > 0 {
            let place = (change.database, change.key.clone());
            if let Some(flags) = self.locks.watchers.lock().get(&place) {
                flags.iter().for_each(|flag| flag.store(true, Ordering::Release));
            }
        }
        self.report_event(change);
    }

    /// Like [`KeyLockGuard::report`], but the key is as before for the clients that watch it.
    pub(crate) fn report_event(&self, change: &KeyChange) {
        if let Some(listener) = self.locks.listener.get()
            && let Some(place) = listener.changed(change)
        {
            self.add_ready(&place);
        }
    }

    /// Serves the clients that wait for a key after the locks are released.
    pub(crate) fn add_ready(&self, place: &AwaitedKey) {
        let mut ready = self.ready.borrow_mut();
        if ready.last() != Some(place) {
            ready.push(place.clone());
        }
    }

    /// Takes the awaited keys, which the caller serves.
    pub(crate) fn take_ready(&self) -> Vec<AwaitedKey> {
        std::mem::take(&mut self.ready.borrow_mut())
    }
}

impl Drop for KeyLockGuard<'_> {
    fn drop(&mut self) {
        self.held = None;
        let ready = std::mem::take(self.ready.get_mut());
        if !ready.is_empty()
            && !std::thread::panicking()
            && let Some(listener) = self.locks.listener.get()
        {
            listener.serve(ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key_events::{KeyEvent, KeyKind};
    use super::*;

    #[test]
    fn a_watcher_hears_of_its_own_key_only() {
        let locks = KeyLocks::new();
        let flag = Arc::new(AtomicBool::new(false));
        locks.watch(1, b"a", &flag);
        let write = |database, key: &[u8]| {
            let mut wanted = KeyLockRequest::default();
            wanted.key(database, key, Mode::Exclusive);
            locks.lock(wanted).report(&KeyChange {
                database,
                key: key.into(),
                kind: KeyKind::Text,
                event: KeyEvent::SET,
            });
            flag.load(Ordering::Acquire)
        };
        assert!(locks.has_listeners());
        assert!(!write(1, b"b"));
        assert!(!write(0, b"a"));
        assert!(write(1, b"a"));
        flag.store(false, Ordering::Release);
        locks.unwatch(1, b"a", &flag);
        assert!(!write(1, b"a") && !locks.has_listeners());
    }
}
