//! Locks of keys, in stripes, and who watches them.
//!
//! A pipeline holds the locks of all its keys until its commit is seen, so there are many more stripes than keys of a batch: two batches of 64 keys
//! meet in one of 65,536 stripes once in sixteen times. Commands that write without having read, as SET does, do not keep each other out at
//! all: whichever is committed later holds.

use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
use twox_hash::XxHash3_64;

/// How many stripes there are.
const STRIPES: usize = 1 << 16;

/// How often a stripe is looked at before its waiter sleeps.
const SPINS: u32 = 64;

/// A stripe's word: free; or who holds it in the upper bits and how many in the others.
const FREE: u32 = 0;
const COUNT: u32 = (1 << 24) - 1;
const READERS: u32 = 1 << 24;
const BLIND: u32 = 2 << 24;
const OWNER: u32 = 3 << 24;
/// A writer wants it alone: those that could share it let the writer go first.
const IS_WANTED: u32 = 1 << 31;

/// How a key is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Others may read, and none may write.
    Shared,
    /// It is written to whatever it has. Others may do the same.
    Blind,
    /// No other command reads what needs more than one lookup, or writes.
    Exclusive,
}

impl Mode {
    /// What holding a stripe in this mode is in its word, without how many do.
    fn holder(self) -> u32 {
        match self {
            Mode::Shared => READERS,
            Mode::Blind => BLIND,
            Mode::Exclusive => OWNER,
        }
    }
}

/// Connections that watch keys: their flags, by database and key.
type Watchers = HashMap<(u8, Box<[u8]>), Vec<Arc<AtomicBool>>>;

/// One lock for each stripe of keys.
pub(crate) struct Locks {
    stripes: Box<[AtomicU32]>,
    /// How many sleep until a stripe is let go.
    sleepers: AtomicUsize,
    sleeping: Mutex<()>,
    released: Condvar,
    watchers: Mutex<Watchers>,
    /// How many watchers there are, so that writers need not look for them when there are none.
    watching: AtomicUsize,
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").finish_non_exhaustive()
    }
}

/// Locks that are held.
pub(crate) struct Held<'l> {
    locks: &'l Locks,
    stripes: Stripes,
}

type Stripes = SmallVec<[(u32, Mode); 16]>;

/// The locks that a command wants. They are taken in the order of the stripes, so that no commands wait in a circle.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    stripes: Stripes,
    all: bool,
}

/// The stripe of a key.
fn stripe(database: u8, key: &[u8]) -> u32 {
    (XxHash3_64::oneshot_with_seed(u64::from(database), key) % STRIPES as u64) as u32
}

impl Wanted {
    pub(crate) fn key(&mut self, database: u8, key: &[u8], mode: Mode) {
        self.stripes.push((stripe(database, key), mode));
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.stripes.is_empty() && !self.all
    }

    /// All keys of all databases, exclusively.
    pub(crate) fn everything(&mut self) {
        self.all = true;
    }

    /// Each stripe once, in order, in a mode that is as strong as all that were asked for.
    fn into_stripes(mut self) -> Stripes {
        if self.all {
            return (0..STRIPES as u32)
                .map(|stripe| (stripe, Mode::Exclusive))
                .collect();
        }
        self.stripes.sort_unstable();
        self.stripes.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same && next.1 != kept.1 {
                // To read and to write is to have it alone.
                kept.1 = Mode::Exclusive;
            }
            is_same
        });
        self.stripes
    }
}

impl Locks {
    pub(crate) fn new() -> Locks {
        Locks {
            stripes: (0..STRIPES).map(|_| AtomicU32::new(FREE)).collect(),
            sleepers: AtomicUsize::new(0),
            sleeping: Mutex::new(()),
            released: Condvar::new(),
            watchers: Mutex::default(),
            watching: AtomicUsize::new(0),
        }
    }

    /// Waits for all locks that are wanted.
    pub(crate) fn lock(&self, wanted: Wanted) -> Held<'_> {
        let mut held = Held {
            locks: self,
            stripes: Stripes::new(),
        };
        let stripes = wanted.into_stripes();
        for &(stripe, mode) in &stripes {
            self.acquire(&self.stripes[stripe as usize], mode);
        }
        held.stripes = stripes;
        held
    }

    fn acquire(&self, word: &AtomicU32, mode: Mode) {
        if !(0..SPINS).any(|turn| {
            if turn > 0 {
                std::hint::spin_loop();
            }
            try_acquire(word, mode)
        }) {
            self.sleep(word, mode);
        }
    }

    /// Waits until a stripe can be had. The waiter counts itself, then looks at the stripe; the holder lets it go, then looks for sleepers: one of
    /// them sees the other.
    #[cold]
    fn sleep(&self, word: &AtomicU32, mode: Mode) {
        let mut sleeping = self.sleeping.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            if mode == Mode::Exclusive {
                word.fetch_or(IS_WANTED, Ordering::Relaxed);
            }
            fence(Ordering::SeqCst);
            if try_acquire(word, mode) {
                break;
            }
            self.released.wait(&mut sleeping);
        }
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    fn release(&self, word: &AtomicU32) {
        let let_go = |old: u32| match old & COUNT {
            0 | 1 => FREE,
            _ => old - 1,
        };
        // It never fails: the function always has an answer.
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |old| Some(let_go(old)));
    }

    /// Has those that sleep look again.
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            drop(self.sleeping.lock());
            self.released.notify_all();
        }
    }

    /// From now on `is_touched` is set when the key is written to.
    pub(crate) fn watch(&self, database: u8, key: &[u8], is_touched: &Arc<AtomicBool>) {
        let _held = self.lock_for_watchers(database, key);
        self.watching.fetch_add(1, Ordering::Relaxed);
        let mut watchers = self.watchers.lock();
        let flags = watchers.entry((database, key.into())).or_default();
        flags.push(Arc::clone(is_touched));
    }

    /// Takes a watch back.
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

    /// The keys of a database that connections watch. While all locks are held no more come.
    pub(crate) fn watched(&self, database: u8) -> Vec<Box<[u8]>> {
        let watchers = self.watchers.lock();
        let keys = watchers.keys().filter(|(of, _)| *of == database);
        keys.map(|(_, key)| key.clone()).collect()
    }

    /// No writer holds the key while a watcher comes: one who comes later sees that there are watchers.
    fn lock_for_watchers(&self, database: u8, key: &[u8]) -> Held<'_> {
        let mut wanted = Wanted::default();
        wanted.key(database, key, Mode::Shared);
        self.lock(wanted)
    }

    /// Whether a connection may watch a key whose lock the caller holds. A watcher is counted under the same lock.
    pub(crate) fn has_watchers(&self) -> bool {
        self.watching.load(Ordering::Relaxed) > 0
    }
}

/// Takes a stripe if it is free, or held in a mode that is shared, and no writer waits to have it alone.
fn try_acquire(word: &AtomicU32, mode: Mode) -> bool {
    let next = |old: u32| {
        let holder = mode.holder();
        match old & !IS_WANTED {
            // A writer that wants it alone, and was not quick enough, still does.
            FREE => Some(holder | 1 | old & IS_WANTED),
            held if mode != Mode::Exclusive && held & !COUNT == holder && old & IS_WANTED == 0 => {
                Some(old + 1)
            }
            _ => None,
        }
    };
    word.fetch_update(Ordering::Acquire, Ordering::Relaxed, next)
        .is_ok()
}

impl Held<'_> {
    /// Tells those who watch a key that is locked for writing.
    pub(crate) fn touch(&self, database: u8, key: &[u8]) {
        if let Some(flags) = self.locks.watchers.lock().get(&(database, Box::from(key))) {
            flags.iter().for_each(|flag| flag.store(true, Ordering::Release));
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for &(stripe, _) in &self.stripes {
            self.locks.release(&self.locks.stripes[stripe as usize]);
        }
        if !self.stripes.is_empty() {
            self.locks.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock<'l>(locks: &'l Locks, keys: &[(&[u8], Mode)]) -> Held<'l> {
        let mut wanted = Wanted::default();
        for (key, mode) in keys {
            wanted.key(0, key, *mode);
        }
        locks.lock(wanted)
    }

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
        assert!(locks.has_watchers());
        assert!(!write(1, b"b"));
        assert!(!write(0, b"a"));
        assert!(write(1, b"a"));
        flag.store(false, Ordering::Release);
        locks.unwatch(1, b"a", &flag);
        assert!(!write(1, b"a") && !locks.has_watchers());
    }

    #[test]
    fn one_stripe_is_locked_once_in_its_strongest_mode() {
        let locks = Locks::new();
        let all = |modes: [Mode; 3]| {
            let held = lock(&locks, &modes.map(|mode| (&b"a"[..], mode)));
            assert_eq!(held.stripes.len(), 1);
            held.stripes[0].1
        };
        assert_eq!(
            all([Mode::Shared, Mode::Exclusive, Mode::Shared]),
            Mode::Exclusive
        );
        assert_eq!(all([Mode::Shared, Mode::Blind, Mode::Shared]), Mode::Exclusive);
        assert_eq!(all([Mode::Blind; 3]), Mode::Blind);
    }

    #[test]
    fn readers_share_a_key_and_blind_writers_do_but_not_with_each_other() {
        let word = AtomicU32::new(FREE);
        let locks = Locks::new();
        for (mine, other) in [(Mode::Shared, Mode::Blind), (Mode::Blind, Mode::Shared)] {
            assert!(try_acquire(&word, mine) && try_acquire(&word, mine));
            assert!(!try_acquire(&word, other) && !try_acquire(&word, Mode::Exclusive));
            locks.release(&word);
            assert!(!try_acquire(&word, other));
            locks.release(&word);
        }
        assert!(try_acquire(&word, Mode::Exclusive));
        for mode in [Mode::Shared, Mode::Blind, Mode::Exclusive] {
            assert!(!try_acquire(&word, mode));
        }
        locks.release(&word);
        assert_eq!(word.load(Ordering::Relaxed), FREE);
    }

    #[test]
    fn who_wants_a_key_alone_is_not_kept_waiting_by_those_who_share_it() {
        let word = AtomicU32::new(FREE);
        assert!(try_acquire(&word, Mode::Shared));
        word.fetch_or(IS_WANTED, Ordering::Relaxed);
        assert!(!try_acquire(&word, Mode::Shared));
    }

    #[test]
    fn what_is_counted_under_the_locks_is_counted_right() {
        let locks = Locks::new();
        let keys: Vec<[u8; 1]> = (0..6).map(|key| [key]).collect();
        let counts: Vec<AtomicUsize> = keys.iter().map(|_| AtomicUsize::new(0)).collect();
        const TURNS: usize = 2_000;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (locks, keys, counts) = (&locks, &keys, &counts);
                scope.spawn(move || {
                    for turn in 0..TURNS {
                        let (a, b) = ((turn + thread) % 6, (turn * 5 + 3 * thread) % 6);
                        let mode = [Mode::Shared, Mode::Blind][turn % 2];
                        let held = lock(locks, &[(&keys[a], Mode::Exclusive), (&keys[b], mode)]);
                        // Not in one step: another would be lost if it came between.
                        let count = counts[a].load(Ordering::Relaxed);
                        std::thread::yield_now();
                        counts[a].store(count + 1, Ordering::Relaxed);
                        drop(held);
                    }
                });
            }
        });
        let sum: usize = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        assert_eq!(sum, 4 * TURNS);
        assert!(
            locks
                .stripes
                .iter()
                .all(|word| word.load(Ordering::Relaxed) == FREE)
        );
        assert_eq!(lock(&locks, &[]).stripes.len(), 0);
    }
}
