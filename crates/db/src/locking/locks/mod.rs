//! Short-term key locks for read-modify-write operations.
//!
//! Keys hash to lock stripes, so that a table of fixed size can lock any number of keys. If two
//! keys share a stripe, the only effect is more contention. Every thread locks stripes in ascending
//! order, so threads never deadlock.
//!
//! *Scope*: which locks are held and in which modes, and the threads that wait for them.
//!
//! *Must not depend on*: the meaning of keys, and the work done under the locks.
//!
//! Invariants:
//!
//! - **A3** All holders of a stripe hold it in the same mode. A stripe that is held exclusively has
//!   a single holder.
//! - **A4** A thread that sleeps while it waits for a stripe is woken when the stripe is released.

#[cfg(all(test, alluvium_model_check))]
mod model_check;
mod sync;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;

use alluvium_base::checksum::seeded;
use smallvec::SmallVec;
use std::fmt;
use sync::{AtomicU32, AtomicUsize, Ordering, PAUSES, WakeupGate, fence, pause, spin_loop};

/// Number of attempts to acquire a stripe before the waiting thread starts to pause between
/// attempts.
const SPINS: u32 = if cfg!(alluvium_model_check) { 1 } else { 64 };

/// Values of a stripe's state, which is either `FREE`, or the mode of the holders in the upper bits
/// and the number of holders in the lower bits (`COUNT`).
const FREE: u32 = 0;
const COUNT: u32 = (1 << 24) - 1;
const READERS: u32 = 1 << 24;
const BLIND: u32 = 2 << 24;
const OWNER: u32 = 3 << 24;
/// Set in a stripe's state while a thread waits in a mode that conflicts with the current holders.
/// Other threads that could share the stripe with the holders must then wait until it is released.
const IS_WANTED: u32 = 1 << 31;

/// Mode of a lock on a key. The table shows which modes two threads can hold at the same time.
///
/// | | shared | blind | exclusive |
/// |---|---|---|---|
/// | **shared** | together | waits | waits |
/// | **blind** | waits | together | waits |
/// | **exclusive** | waits | waits | waits |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// The key is only read. Other threads may hold the lock in the same mode, but threads that
    /// write the key must wait.
    Shared,
    /// The key is written without having been read. Other threads may hold the lock in the same
    /// mode, and the write that commits last takes effect.
    Blind,
    /// The key is read and then written. All other threads must wait.
    Exclusive,
}

impl LockMode {
    /// Returns the bits that represent this mode in the state of a stripe.
    fn holder(self) -> u32 {
        match self {
            LockMode::Shared => READERS,
            LockMode::Blind => BLIND,
            LockMode::Exclusive => OWNER,
        }
    }

    /// Returns the weakest mode that permits everything that either of the two modes permits.
    fn with(self, other: LockMode) -> LockMode {
        match self == other {
            true => self,
            // Both reading and writing a key requires an exclusive lock.
            false => LockMode::Exclusive,
        }
    }
}

/// Stripes with their modes. Only a few are stored inline, because lock sets are moved, and moving
/// a large value is expensive.
type StripeList = SmallVec<[(u32, LockMode); FEW]>;
const FEW: usize = 4;

/// A set of keys whose locks are acquired together.
#[derive(Debug, Default)]
pub struct LockSet {
    /// Hashes of the keys. The lock table maps each hash to a stripe.
    keys: SmallVec<[(u64, LockMode); FEW]>,
    everything: Option<LockMode>,
}

impl LockSet {
    /// Creates an empty set with space for `keys` keys.
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

    /// Adds the lock of a key. `space` is the number of a namespace: equal keys in different
    /// namespaces are different keys.
    #[inline]
    pub fn key(&mut self, space: u64, key: &[u8], mode: LockMode) {
        self.keys.push((seeded(space, key), mode));
    }

    /// Adds the locks of all keys in all namespaces, which a write to a range needs.
    pub fn everything(&mut self, mode: LockMode) {
        self.everything = Some(self.everything.map_or(mode, |before| before.with(mode)));
    }

    /// Returns whether the set contains no keys.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.everything.is_none()
    }

    /// Returns the stripes of the keys in ascending order. Each stripe is listed once, with a mode
    /// that covers all requested modes.
    #[inline]
    fn into_stripes(self, count: u32) -> StripeList {
        let stripe_of = |hash: u64| (hash % u64::from(count)) as u32;
        if let Some(all) = self.everything {
            let mut stripes: StripeList = (0..count).map(|stripe| (stripe, all)).collect();
            for &(hash, mode) in &self.keys {
                let held = &mut stripes[stripe_of(hash) as usize].1;
                *held = held.with(mode);
            }
            return stripes;
        }
        let mut stripes = StripeList::new();
        if self.keys.len() > FEW {
            stripes.reserve_exact(self.keys.len());
        }
        for &(hash, mode) in &self.keys {
            stripes.push((stripe_of(hash), mode));
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

/// A table of locks on keys, with a fixed number of stripes of four bytes each.
///
/// The locks synchronise the threads of one process, and are not persistent. A thread must acquire
/// all its locks in a single call. If it makes a second call while it holds locks, it may deadlock
/// with itself.
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
    /// Number of threads that sleep until any stripe is released.
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

/// Locks that were acquired together. Dropping this releases them.
#[derive(Debug)]
#[must_use = "the locks are released when this is dropped"]
pub struct HeldLocks<'t> {
    table: &'t LockTable,
    /// The stripes of the set in ascending order. The first `taken` of them have been acquired.
    stripes: StripeList,
    taken: usize,
}

impl LockTable {
    /// Creates a table with `stripes` stripes. With 65,536 stripes, two sets of 64 keys share a
    /// stripe with a probability of one in sixteen.
    ///
    /// # Panics
    /// If `stripes` is zero or above 16,777,215.
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

    /// Acquires all locks of a set. Waits as long as necessary.
    pub fn lock(&self, set: LockSet) -> HeldLocks<'_> {
        // If a later step panics, dropping this value releases the locks acquired so far.
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
        // Most locks are released soon, and waking a sleeping thread would be expensive for the
        // releasing thread. Poll for a while first.
        for turn in 0..PAUSES {
            pause(turn);
            if try_acquire(word, mode) {
                return;
            }
        }
        self.sleep(word, mode);
    }

    /// Sleeps until the stripe can be acquired. A thread that is about to sleep first increments
    /// the number of sleepers and then tries to acquire the stripe. A releasing thread first
    /// changes the stripe and then reads the number of sleepers. At least one of the two therefore
    /// sees the other's change (A4).
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

    /// Wakes all sleeping threads, each of which tries again to acquire its stripe.
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
    // This cannot fail, because the closure always returns a new value.
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |old| Some(without_one(old)));
}

/// Records that a thread waits for the stripe in a mode that conflicts with its holders. This keeps
/// new threads from joining the holders, so that the waiting thread does not starve.
fn want(word: &AtomicU32, mode: LockMode) {
    let next = |old: u32| {
        let held = old & !IS_WANTED;
        let is_excluded = held != FREE && held & !COUNT != mode.holder();
        (mode == LockMode::Exclusive || is_excluded).then_some(old | IS_WANTED)
    };
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
}

/// Tries to acquire a stripe, and returns whether it succeeded. The stripe must be free, or held in
/// the same mode if that mode can be shared. A held stripe cannot be shared while a thread waits
/// for it in a conflicting mode.
fn try_acquire(word: &AtomicU32, mode: LockMode) -> bool {
    let next = |old: u32| {
        let holder = mode.holder();
        match old & !IS_WANTED {
            // Keep the bit, because another thread may still be waiting for the stripe.
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
