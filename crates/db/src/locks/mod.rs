//! Locks of keys, for work that depends on what it has read.
//!
//! A lock belongs to a stripe of keys, so that a table of fixed size serves any number of keys; two
//! keys that share a stripe only wait for each other more often. Locks are taken in the order of
//! the stripes, so that threads never wait in a circle.
//!
//! *Knows*: which locks are held, in which mode, and which threads wait.
//!
//! *Does not know*: what keys mean, and what is done under the locks.
//!
//! *Read in this order*: [`LockMode`], [`LockSet`], [`LockTable`], `sync.rs`, `model_check.rs`.
//!
//! Invariants:
//!
//! - **A3** The holders of a stripe have one mode, and one holder at most if it is exclusive.
//! - **A4** A thread that waits for a stripe is woken when the stripe is released.

#[cfg(all(test, alluvium_model_check))]
mod model_check;
mod sync;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

use alluvium_base::checksum::seeded;
use smallvec::SmallVec;
use std::fmt;
use sync::{AtomicU32, AtomicUsize, Gate, Ordering, PAUSES, fence, pause, spin_loop};

/// How often a stripe is looked at before its waiter sleeps.
const SPINS: u32 = if cfg!(alluvium_model_check) { 1 } else { 64 };

/// The word of a stripe: free; or the mode of its holders in the upper bits and how many there are
/// in the others.
const FREE: u32 = 0;
const COUNT: u32 = (1 << 24) - 1;
const READERS: u32 = 1 << 24;
const BLIND: u32 = 2 << 24;
const OWNER: u32 = 3 << 24;
/// A thread waits for the stripe in a mode that its holders exclude: threads that could join the
/// holders wait until they have released it.
const IS_WANTED: u32 = 1 << 31;

/// How a key is locked.
///
/// | | shared | blind | exclusive |
/// |---|---|---|---|
/// | **shared** | together | waits | waits |
/// | **blind** | waits | together | waits |
/// | **exclusive** | waits | waits | waits |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// The key is read. Others may read it; none may write to it.
    Shared,
    /// The key is written to without having been read. Others may do the same: the write that is
    /// committed later holds.
    Blind,
    /// The key is read and written to. Others do neither.
    Exclusive,
}

impl LockMode {
    /// The mode of a stripe's holders in its word, without their number.
    fn holder(self) -> u32 {
        match self {
            LockMode::Shared => READERS,
            LockMode::Blind => BLIND,
            LockMode::Exclusive => OWNER,
        }
    }

    /// The mode that allows what both allow.
    fn with(self, other: LockMode) -> LockMode {
        match self == other {
            true => self,
            // To read and to write is to have the key alone.
            false => LockMode::Exclusive,
        }
    }
}

/// Few stand in the value itself: sets are moved.
type Stripes = SmallVec<[(u32, LockMode); FEW]>;
const FEW: usize = 4;

/// The keys that a thread wants to lock, all at once.
#[derive(Debug, Default)]
pub struct LockSet {
    /// Hashes of keys. The table makes stripes of them.
    keys: SmallVec<[(u64, LockMode); FEW]>,
    everything: Option<LockMode>,
}

impl LockSet {
    /// Returns an empty set with space for a number of keys.
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

    /// Adds a key of a space. Equal keys of different spaces are different keys.
    #[inline]
    pub fn key(&mut self, space: u64, key: &[u8], mode: LockMode) {
        self.keys.push((seeded(space, key), mode));
    }

    /// Adds all keys of all spaces: what a write to a range needs.
    pub fn everything(&mut self, mode: LockMode) {
        self.everything = Some(self.everything.map_or(mode, |before| before.with(mode)));
    }

    /// Returns whether the set has no keys.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.everything.is_none()
    }

    /// Each stripe once, in order, in a mode that is as strong as all that were asked for.
    #[inline]
    fn into_stripes(self, count: u32) -> Stripes {
        let mut stripes = Stripes::new();
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

/// Locks of keys in a fixed number of stripes, four bytes each.
///
/// Locks order threads of one process; they are not stored. A thread takes all locks that it needs
/// in one call: a second call while it holds locks may wait for itself.
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
    /// How many threads sleep until a stripe is released.
    sleepers: AtomicUsize,
    gate: Gate,
}

impl fmt::Debug for LockTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockTable")
            .field("stripes", &self.stripes.len())
            .finish_non_exhaustive()
    }
}

/// Locks that a thread holds until it drops them.
#[derive(Debug)]
#[must_use = "the locks are released when this is dropped"]
pub struct HeldLocks<'t> {
    table: &'t LockTable,
    /// The stripes of its set, in order, and how many of them it has taken.
    stripes: Stripes,
    taken: usize,
}

impl LockTable {
    /// Returns a table with a number of stripes. Two sets of 64 keys meet in one of 65,536 stripes
    /// once in sixteen times.
    ///
    /// # Panics
    /// When `stripes` is zero or above 16 million.
    #[must_use]
    pub fn new(stripes: usize) -> LockTable {
        assert!(
            stripes > 0 && stripes <= COUNT as usize,
            "{stripes} stripes: there are 1 to {COUNT}"
        );
        LockTable {
            stripes: (0..stripes).map(|_| AtomicU32::new(FREE)).collect(),
            sleepers: AtomicUsize::new(0),
            gate: Gate::default(),
        }
    }

    /// Waits for all locks of a set, and takes them.
    pub fn lock(&self, set: LockSet) -> HeldLocks<'_> {
        // The locks taken so far are released if a later step panics.
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
        // A writer that wakes a sleeper pays for it, each time: locks that are taken in quick succession
        // are waited for without.
        for turn in 0..PAUSES {
            pause(turn);
            if try_acquire(word, mode) {
                return;
            }
        }
        self.sleep(word, mode);
    }

    /// Waits until a stripe can be had. The thread counts itself, then looks at the stripe; a
    /// thread that releases the stripe changes it, then looks for sleepers: one of the two sees the
    /// other (A4).
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

    /// Wakes the sleepers, which look again.
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
    // It never fails: the function always has an answer.
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |old| Some(without_one(old)));
}

/// Marks a stripe as wanted by a thread that its holders exclude, so that holders who come and go
/// do not keep the stripe for ever.
fn want(word: &AtomicU32, mode: LockMode) {
    let next = |old: u32| {
        let held = old & !IS_WANTED;
        let is_excluded = held != FREE && held & !COUNT != mode.holder();
        (mode == LockMode::Exclusive || is_excluded).then_some(old | IS_WANTED)
    };
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
}

/// Takes a stripe if it is free, or held in a mode that is shared while no thread waits for it in
/// another. Returns whether it was taken.
fn try_acquire(word: &AtomicU32, mode: LockMode) -> bool {
    let next = |old: u32| {
        let holder = mode.holder();
        match old & !IS_WANTED {
            // A thread that wants it, and was not quick enough, still does.
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
