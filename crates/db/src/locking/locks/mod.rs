//! Key locks for read-modify-write operations.
//!
//! Locks are striped, so that a table of fixed size serves any number of keys; two keys that share
//! a stripe only contend more often. Stripes are locked in ascending order, so that threads never
//! deadlock.
//!
//! *Scope*: the locks that are held, their modes, and the waiting threads.
//!
//! *Must not depend on*: the meaning of keys, and the work done under the locks.
//!
//! Invariants:
//!
//! - **A3** All holders of a stripe have the same mode; an exclusive stripe has one holder.
//! - **A4** A thread that waits for a stripe is woken when the stripe is released.

#[cfg(all(test, alluvium_model_check))]
mod model_check;
mod sync;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

use alluvium_base::checksum::seeded;
use smallvec::SmallVec;
use std::fmt;
use sync::{AtomicU32, AtomicUsize, Ordering, PAUSES, WakeupGate, fence, pause, spin_loop};

/// Number of attempts on a stripe before the waiter sleeps.
const SPINS: u32 = if cfg!(alluvium_model_check) { 1 } else { 64 };

/// State of a stripe: free, or the mode of its holders in the upper bits and their number in the
/// lower bits.
const FREE: u32 = 0;
const COUNT: u32 = (1 << 24) - 1;
const READERS: u32 = 1 << 24;
const BLIND: u32 = 2 << 24;
const OWNER: u32 = 3 << 24;
/// Set while a thread waits in a mode that conflicts with the holders. Threads that could join the
/// holders then wait until the stripe is released.
const IS_WANTED: u32 = 1 << 31;

/// Mode of a key lock, and which modes are compatible.
///
/// | | shared | blind | exclusive |
/// |---|---|---|---|
/// | **shared** | together | waits | waits |
/// | **blind** | waits | together | waits |
/// | **exclusive** | waits | waits | waits |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// The key is read. Other readers may share the lock; writers wait.
    Shared,
    /// The key is written without having been read. Other blind writers may share the lock; the
    /// write that is committed last wins.
    Blind,
    /// The key is read and written. All others wait.
    Exclusive,
}

impl LockMode {
    /// Returns the bits of the mode in the state of a stripe.
    fn holder(self) -> u32 {
        match self {
            LockMode::Shared => READERS,
            LockMode::Blind => BLIND,
            LockMode::Exclusive => OWNER,
        }
    }

    /// Returns the weakest mode that covers both modes.
    fn with(self, other: LockMode) -> LockMode {
        match self == other {
            true => self,
            // Reading and writing a key requires an exclusive lock.
            false => LockMode::Exclusive,
        }
    }
}

/// A few stripes are stored inline, because sets are moved.
type StripeList = SmallVec<[(u32, LockMode); FEW]>;
const FEW: usize = 4;

/// A set of keys to be locked together.
#[derive(Debug, Default)]
pub struct LockSet {
    /// Hashes of the keys, which the table maps to stripes.
    keys: SmallVec<[(u64, LockMode); FEW]>,
    everything: Option<LockMode>,
}

impl LockSet {
    /// Returns an empty set with space for `keys` keys.
    ///
    /// ```
    /// use alluvium::{LockMode, LockSet};
    /// let mut set = LockSet::with_capacity(2);
    /// set.key(0, b"alice", LockMode::Exclusive);
    /// set.key(0, b"bob", LockMode::Exclusive);
    /// assert!(!set.is_empty());
    /// ```
    #[must_use]
    #[inline]
    pub fn with_capacity(keys: usize) -> LockSet {
        let mut set = LockSet::default();
        if keys > FEW {
            set.keys.reserve_exact(keys);
        }
        set
    }

    /// Adds a key of a space. Equal keys of different spaces are distinct.
    #[inline]
    pub fn key(&mut self, space: u64, key: &[u8], mode: LockMode) {
        self.keys.push((seeded(space, key), mode));
    }

    /// Adds all keys of all spaces, as a range write requires.
    pub fn everything(&mut self, mode: LockMode) {
        self.everything = Some(self.everything.map_or(mode, |before| before.with(mode)));
    }

    /// Returns whether the set has no keys.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.everything.is_none()
    }

    /// Returns the stripes in order, each once with the strongest requested mode.
    #[inline]
    fn into_stripes(self, count: u32) -> StripeList {
        let mut stripes = StripeList::new();
        if self.keys.len() > FEW {
            stripes.reserve_exact(self.keys.len());
        }
        for &(hash, mode) in &self.keys {
            stripes.push(((hash % u64::from(count)) as u32, mode));
        }
        if let Some(all) = self.everything {
            stripes.extend((0..count).map(|stripe| (stripe, all)));
        }
        if stripes.len() < 2 {
            return stripes;
        }
        stripes.sort_unstable();
        stripes.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1 = kept.1.with(next.1);
            }
            is_same
        });
        stripes
    }
}

/// A table of key locks with a fixed number of stripes, four bytes each.
///
/// The locks order threads of one process and are not persistent. A thread must acquire all its
/// locks in one call: a second call while it holds locks may deadlock with itself.
///
/// ```
/// use alluvium::{LockMode, LockSet, LockTable};
/// let table = LockTable::new(1 << 10);
/// let mut set = LockSet::default();
/// set.key(0, b"alice", LockMode::Exclusive);
/// set.key(0, b"bob", LockMode::Shared);
/// let held = table.lock(set);
/// // No other thread has either key exclusively until the locks are dropped.
/// drop(held);
/// ```
pub struct LockTable {
    stripes: Box<[AtomicU32]>,
    /// Number of threads that sleep until a stripe is released.
    sleepers: AtomicUsize,
    gate: WakeupGate,
}

impl fmt::Debug for LockTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockTable")
            .field("stripes", &self.stripes.len())
            .finish_non_exhaustive()
    }
}

/// Locks that are held until this is dropped.
#[derive(Debug)]
#[must_use = "the locks are released when this is dropped"]
pub struct HeldLocks<'t> {
    table: &'t LockTable,
    /// The stripes of the set, in order, and the number of those acquired.
    stripes: StripeList,
    taken: usize,
}

impl LockTable {
    /// Returns a table with `stripes` stripes. With 65,536 stripes two sets of 64 keys collide with
    /// a probability of one in sixteen.
    ///
    /// # Panics
    /// If `stripes` is zero or above 16 million.
    #[must_use]
    pub fn new(stripes: usize) -> LockTable {
        assert!(
            stripes > 0 && stripes <= COUNT as usize,
            "{stripes} stripes: there are 1 to {COUNT}"
        );
        LockTable {
            stripes: (0..stripes).map(|_| AtomicU32::new(FREE)).collect(),
            sleepers: AtomicUsize::new(0),
            gate: WakeupGate::default(),
        }
    }

    /// Acquires all locks of a set, waiting as long as necessary.
    pub fn lock(&self, set: LockSet) -> HeldLocks<'_> {
        // If a later step panics, dropping this releases the locks acquired so far.
        let mut held = HeldLocks {
            table: self,
            stripes: set.into_stripes(self.stripes.len() as u32),
            taken: 0,
        };
        for &(stripe, mode) in &held.stripes {
            self.acquire(&self.stripes[stripe as usize], mode);
            held.taken += 1;
        }
        held
    }

    fn acquire(&self, word: &AtomicU32, mode: LockMode) {
        for turn in 0..SPINS {
            if turn > 0 {
                spin_loop();
            }
            if try_acquire(word, mode) {
                return;
            }
        }
        // Waking a sleeper costs the releasing thread, so locks that are released quickly are
        // polled instead.
        for turn in 0..PAUSES {
            pause(turn);
            if try_acquire(word, mode) {
                return;
            }
        }
        self.sleep(word, mode);
    }

    /// Sleeps until the stripe can be acquired. The sleeper increments the counter and then tries
    /// the stripe; a releasing thread changes the stripe and then reads the counter. One of the two
    /// sees the other (A4).
    #[cold]
    fn sleep(&self, word: &AtomicU32, mode: LockMode) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.gate.wait_until(|| {
            want(word, mode);
            fence(Ordering::SeqCst);
            try_acquire(word, mode)
        });
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes the sleepers, which try again.
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.gate.open();
        }
    }
}

fn release(word: &AtomicU32) {
    let without_one = |old: u32| match old & COUNT {
        0 | 1 => FREE,
        _ => old - 1,
    };
    // The update cannot fail, because the function always returns a value.
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |old| Some(without_one(old)));
}

/// Marks a stripe as wanted by a thread that conflicts with its holders, so that a sequence of
/// overlapping holders cannot starve it.
fn want(word: &AtomicU32, mode: LockMode) {
    let next = |old: u32| {
        let held = old & !IS_WANTED;
        let is_excluded = held != FREE && held & !COUNT != mode.holder();
        (mode == LockMode::Exclusive || is_excluded).then_some(old | IS_WANTED)
    };
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
}

/// Tries to acquire a stripe: it must be free, or held in the same shareable mode while no thread
/// waits in a conflicting one.
fn try_acquire(word: &AtomicU32, mode: LockMode) -> bool {
    let next = |old: u32| {
        let holder = mode.holder();
        match old & !IS_WANTED {
            // A waiter that lost the race still wants the stripe.
            FREE => Some(holder | 1 | old & IS_WANTED),
            held if mode != LockMode::Exclusive && held & !COUNT == holder && old & IS_WANTED == 0 => {
                Some(old + 1)
            }
            _ => None,
        }
    };
    word.fetch_update(Ordering::Acquire, Ordering::Relaxed, next)
        .is_ok()
}

impl Drop for HeldLocks<'_> {
    fn drop(&mut self) {
        for &(stripe, _) in &self.stripes[..self.taken] {
            release(&self.table.stripes[stripe as usize]);
        }
        if self.taken > 0 {
            self.table.wake();
        }
    }
}
