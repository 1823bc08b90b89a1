//! The shared state of the epochs, and the rule by which the epoch advances. It is model-checked in
//! `model_check.rs`.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crossbeam_utils::CachePadded;
use std::sync::OnceLock;

/// Number of slots that are allocated together as a chunk.
const SLOTS_PER_CHUNK: usize = if cfg!(alluvium_model_check) { 3 } else { 32 };
/// Maximum number of chunks of slots.
const CHUNKS: usize = if cfg!(alluvium_model_check) { 1 } else { 16 };
/// Maximum number of threads that have a slot. Further threads are represented only by a counter
/// (see `count_in`).
pub(crate) const MAX_SLOTS: usize = SLOTS_PER_CHUNK * CHUNKS;
/// The first epoch. It is chosen such that the first safe epoch is above zero.
const FIRST: u64 = 2;
/// Number of counters for participants without a slot. A participant is counted in the counter with
/// index epoch modulo this number, because such participants are at no more than two different
/// epochs at any time (invariant R2).
const COUNTS: usize = 4;

const _: () = assert!(COUNTS.is_power_of_two() && COUNTS >= 3);

/// The slot of one thread. Its word is zero, or the epoch at which the thread is pinned.
#[derive(Debug)]
pub(crate) struct EpochSlot {
    word: AtomicU64,
    /// Number of guards that the thread has. Only this thread accesses it.
    depth: AtomicU32,
    /// This is 1 while a thread owns the slot.
    taken: AtomicU32,
}

impl EpochSlot {
    fn new() -> EpochSlot {
        EpochSlot {
            word: AtomicU64::new(0),
            depth: AtomicU32::new(0),
            taken: AtomicU32::new(0),
        }
    }

    /// Returns the number of guards that the thread has.
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Removes one guard of the calling thread. If it was the last one, the thread is no longer
    /// pinned.
    #[inline]
    pub(crate) fn leave(&self) {
        debug_assert!(self.depth() > 0, "a guard is left once");
        let depth = self.depth.load(Ordering::Relaxed) - 1;
        self.depth.store(depth, Ordering::Relaxed);
        if depth == 0 {
            // Release ordering: a thread that sees that the slot is not pinned also sees the
            // owner's actions while it was pinned.
            self.word.store(0, Ordering::Release);
        }
    }
}

/// The current epoch, and the participants that prevent it from advancing.
#[derive(Debug)]
pub(crate) struct EpochLedger {
    epoch: CachePadded<AtomicU64>,
    /// Number of participants without a slot, for each epoch modulo [`COUNTS`].
    counts: [CachePadded<AtomicU64>; COUNTS],
    /// Number of slots that were ever in use. `advance` examines only these.
    used: AtomicU64,
    chunks: [OnceLock<Box<[CachePadded<EpochSlot>]>>; CHUNKS],
}

impl EpochLedger {
    pub(crate) fn new() -> EpochLedger {
        EpochLedger {
            epoch: CachePadded::new(AtomicU64::new(FIRST)),
            counts: std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0))),
            used: AtomicU64::new(0),
            chunks: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    /// Returns the current epoch, which is read after all earlier actions of the caller. It is the
    /// epoch with which the caller must stamp an object that it has just unlinked.
    pub(crate) fn current(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the safe epoch. An object that was unlinked at an earlier epoch is unreachable.
    pub(crate) fn safe(&self) -> u64 {
        let now = self.epoch.load(Ordering::Acquire);
        debug_assert!(now >= FIRST, "epochs begin at {FIRST}");
        now - 1
    }

    /// Allocates a slot to the calling thread, and returns its index. Returns `None` if no slot is
    /// free.
    pub(crate) fn claim(&self) -> Option<usize> {
        for index in 0..MAX_SLOTS {
            let slot = self.make(index);
            if slot.taken.load(Ordering::Relaxed) == 0
                && slot
                    .taken
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                // This precedes the fence of the thread's first pin, so that `advance` examines the
                // slot whenever that is necessary.
                self.used.fetch_max(index as u64 + 1, Ordering::Release);
                return Some(index);
            }
        }
        None
    }

    /// Frees a slot, so that another thread can use it.
    ///
    /// # Panics
    /// If the slot is still pinned.
    pub(crate) fn give_back(&self, index: usize) {
        let slot = self.slot(index);
        assert_eq!(slot.depth(), 0, "a slot is given back without guards");
        slot.taken.store(0, Ordering::Release);
    }

    /// Returns the slot with an index that [`EpochLedger::claim`] has returned.
    pub(crate) fn slot(&self, index: usize) -> &EpochSlot {
        debug_assert!(index < MAX_SLOTS, "slot {index} of {MAX_SLOTS}");
        &self.chunks[index / SLOTS_PER_CHUNK]
            .get()
            .expect("a claimed slot is made")[index % SLOTS_PER_CHUNK]
    }

    fn make(&self, index: usize) -> &EpochSlot {
        let make = || {
            (0..SLOTS_PER_CHUNK)
                .map(|_| CachePadded::new(EpochSlot::new()))
                .collect()
        };
        &self.chunks[index / SLOTS_PER_CHUNK].get_or_init(make)[index % SLOTS_PER_CHUNK]
    }

    /// Adds a guard of the calling thread, which must own the slot. Returns the epoch at which the
    /// thread is pinned.
    #[inline]
    pub(crate) fn enter(&self, slot: &EpochSlot) -> u64 {
        debug_assert_eq!(
            slot.taken.load(Ordering::Relaxed),
            1,
            "a guard is in a slot of its thread's own"
        );
        let depth = slot.depth.load(Ordering::Relaxed);
        slot.depth.store(depth + 1, Ordering::Relaxed);
        if depth != 0 {
            return slot.word.load(Ordering::Relaxed);
        }
        loop {
            let now = self.epoch.load(Ordering::Acquire);
            // Release ordering: an `advance` that sees this word also sees the actions of the
            // thread under its earlier guards. The fence accounts for most of the cost of a pin, 6
            // of 7 ns. A `membarrier` in `advance` would make it unnecessary, but that system call
            // interrupts every processor, so it is not used.
            slot.word.store(now, Ordering::Release);
            fence(Ordering::SeqCst);
            if self.epoch.load(Ordering::Acquire) == now {
                return now;
            }
        }
    }

    /// Adds a participant that has no slot. Returns the epoch at which it is counted.
    pub(crate) fn count_in(&self) -> u64 {
        loop {
            let now = self.epoch.load(Ordering::Acquire);
            self.count_in_at(now);
            fence(Ordering::SeqCst);
            if self.epoch.load(Ordering::Acquire) == now {
                return now;
            }
            self.count_out(now);
        }
    }

    /// Adds a participant that has no slot at a given epoch. During the call, the caller must have
    /// another participant at that epoch.
    pub(crate) fn count_in_at(&self, epoch: u64) {
        debug_assert!(epoch >= FIRST, "epoch {epoch} was never");
        self.counts[epoch as usize % COUNTS].fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a participant that has no slot.
    pub(crate) fn count_out(&self, epoch: u64) {
        let before = self.counts[epoch as usize % COUNTS].fetch_sub(1, Ordering::Release);
        assert!(before > 0, "a participant leaves once");
    }

    /// Advances the epoch if every participant has seen the current epoch. Returns the epoch that
    /// is current afterwards.
    pub(crate) fn advance(&self) -> u64 {
        let now = self.epoch.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let used = self.used.load(Ordering::Acquire) as usize;
        debug_assert!(used <= MAX_SLOTS, "{used} of {MAX_SLOTS} slots are in use");
        for index in 0..used {
            let word = self.slot(index).word.load(Ordering::Acquire);
            if word != 0 && word != now {
                return now;
            }
        }
        // The counters are checked after the slots. If a guard is replaced by a counted
        // participant, the participant is counted before the slot of the guard is unpinned, so it
        // is not missed.
        if self.counts[(now - 1) as usize % COUNTS].load(Ordering::Acquire) != 0 {
            return now;
        }
        match self
            .epoch
            .compare_exchange(now, now + 1, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => now + 1,
            Err(newer) => newer,
        }
    }

    /// Returns the number of slots that were ever in use, and the number of counted participants.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(crate) fn census(&self) -> (usize, u64) {
        let counted = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        (self.used.load(Ordering::Relaxed) as usize, counted.sum())
    }
}
