//! Locks of keys, in stripes, and who watches them.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use twox_hash::XxHash3_64;

/// How many stripes there are.
const STRIPES: usize = 2048;

/// How a key is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Others may read.
    Shared,
    /// Nobody else reads what needs more than one lookup, or writes.
    Exclusive,
}

/// Somebody who wants to know whether a key is written to.
#[derive(Debug)]
struct Watcher {
    database: u8,
    key: Box<[u8]>,
    is_touched: Arc<AtomicBool>,
}

/// The watchers of one stripe's keys.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Vec<Watcher>);

/// One lock for each stripe of keys.
#[derive(Debug)]
pub(crate) struct Locks {
    stripes: Box<[RwLock<Watchers>]>,
    /// How many watchers there are, so that writers need not look for them when there are none.
    watchers: AtomicUsize,
}

enum Guard<'l> {
    Shared(#[expect(dead_code, reason = "held, not used")] RwLockReadGuard<'l, Watchers>),
    Exclusive(RwLockWriteGuard<'l, Watchers>),
}

/// Locks that are held.
#[derive(Default)]
pub(crate) struct Held<'l> {
    guards: SmallVec<[(usize, Guard<'l>); 4]>,
}

/// The locks that somebody wants. They are taken in the order of the stripes, so that nobody waits in a circle.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    stripes: SmallVec<[(usize, Mode); 8]>,
    all: bool,
}

/// The stripe of a key.
fn stripe(database: u8, key: &[u8]) -> usize {
    XxHash3_64::oneshot_with_seed(u64::from(database), key) as usize % STRIPES
}

impl Wanted {
    pub(crate) fn key(&mut self, database: u8, key: &[u8], mode: Mode) {
        self.stripes.push((stripe(database, key), mode));
    }

    /// All keys of all databases, exclusively.
    pub(crate) fn everything(&mut self) {
        self.all = true;
    }
}

impl Locks {
    pub(crate) fn new() -> Locks {
        Locks {
            stripes: (0..STRIPES).map(|_| RwLock::default()).collect(),
            watchers: AtomicUsize::new(0),
        }
    }

    /// Waits for all locks that are wanted.
    pub(crate) fn lock(&self, mut wanted: Wanted) -> Held<'_> {
        if wanted.all {
            wanted.stripes = (0..STRIPES).map(|stripe| (stripe, Mode::Exclusive)).collect();
        }
        // Of one stripe's modes the strongest comes last.
        wanted.stripes.sort_unstable();
        let mut guards = SmallVec::new();
        for (index, &(stripe, mode)) in wanted.stripes.iter().enumerate() {
            if wanted.stripes.get(index + 1).is_some_and(|next| next.0 == stripe) {
                continue;
            }
            let lock = &self.stripes[stripe];
            guards.push((
                stripe,
                match mode {
                    Mode::Shared => Guard::Shared(lock.read()),
                    Mode::Exclusive => Guard::Exclusive(lock.write()),
                },
            ));
        }
        Held { guards }
    }

    /// From now on `is_touched` is set when the key is written to.
    pub(crate) fn watch(&self, database: u8, key: &[u8], is_touched: &Arc<AtomicBool>) {
        let mut watchers = self.stripes[stripe(database, key)].write();
        self.watchers.fetch_add(1, Ordering::Relaxed);
        watchers.0.push(Watcher {
            database,
            key: key.into(),
            is_touched: Arc::clone(is_touched),
        });
    }

    /// Takes a watch back.
    pub(crate) fn unwatch(&self, database: u8, key: &[u8], is_touched: &Arc<AtomicBool>) {
        let mut watchers = self.stripes[stripe(database, key)].write();
        let before = watchers.0.len();
        watchers.0.retain(|watcher| {
            let is_it = watcher.database == database && *watcher.key == *key;
            !(is_it && Arc::ptr_eq(&watcher.is_touched, is_touched))
        });
        self.watchers
            .fetch_sub(before - watchers.0.len(), Ordering::Relaxed);
    }

    /// Whether anybody may watch a key whose lock the caller holds. Who watches it has counted himself under the same lock.
    pub(crate) fn has_watchers(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }
}

impl Held<'_> {
    /// Tells those who watch a key that is locked exclusively.
    pub(crate) fn touch(&self, database: u8, key: &[u8]) {
        let wanted = stripe(database, key);
        let Ok(index) = self.guards.binary_search_by_key(&wanted, |(stripe, _)| *stripe) else {
            return;
        };
        if let Guard::Exclusive(watchers) = &self.guards[index].1 {
            let touched = |watcher: &&Watcher| watcher.database == database && *watcher.key == *key;
            for watcher in watchers.0.iter().filter(touched) {
                watcher.is_touched.store(true, Ordering::Release);
            }
        }
    }

    /// Tells those who watch any key of a database.
    pub(crate) fn touch_all(&self, database: u8) {
        for (_, guard) in &self.guards {
            if let Guard::Exclusive(watchers) = guard {
                for watcher in watchers.0.iter().filter(|watcher| watcher.database == database) {
                    watcher.is_touched.store(true, Ordering::Release);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_hears_of_its_own_key_only() {
        let locks = Locks::new();
        let flag = Arc::new(AtomicBool::new(false));
        locks.watch(1, b"a", &flag);
        let write = |database, key: &[u8]| {
            let mut wanted = Wanted::default();
            wanted.key(database, key, Mode::Exclusive);
            locks.lock(wanted).touch(database, key);
            flag.load(Ordering::Acquire)
        };
        assert!(!write(1, b"b"));
        assert!(!write(0, b"a"));
        assert!(write(1, b"a"));
        flag.store(false, Ordering::Release);
        locks.unwatch(1, b"a", &flag);
        assert!(!write(1, b"a"));
    }

    #[test]
    fn one_stripe_is_locked_once_in_its_strongest_mode() {
        let locks = Locks::new();
        let mut wanted = Wanted::default();
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Exclusive] {
            wanted.key(0, b"a", mode);
        }
        let held = locks.lock(wanted);
        assert_eq!(held.guards.len(), 1);
        assert!(matches!(held.guards[0].1, Guard::Exclusive(_)));
    }
}
