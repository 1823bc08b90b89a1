//! The shared state of the epochs, and the rule by which the epoch advances. `model_check.rs`
//! model-checks it.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crossbeam_utils::CachePadded;
use std::sync::OnceLock;

/// Number of slots per chunk. A chunk is allocated as a whole.
const SLOTS_PER_CHUNK: usize = if cfg!(alluvium_model_check) { 3 } else { 32 };
/// Maximum number of chunks of slots.
const CHUNKS: usize = if cfg!(alluvium_model_check) { 1 } else { 16 };
/// Maximum number of threads with a slot. Any more are represented only by a counter (see
/// `count_in`).
pub(crate) const MAX_SLOTS: usize = SLOTS_PER_CHUNK * CHUNKS;
/// The first epoch, chosen so that the first safe epoch is above zero.
const FIRST: u64 = 2;
/// Number of counters for participants without a slot. The epoch modulo this number selects a
/// participant's counter. A few counters suffice, because such participants are at no more than two
/// different epochs at any time (invariant R2).
const COUNTS: usize = 4;

const _: () = assert!(COUNTS.is_power_of_two() && COUNTS >= 3);

/// A thread's slot. Its word is zero, or the epoch at which the thread is pinned.
#[derive(Debug)]
pub(crate) struct EpochSlot {
    word: AtomicU64,
    /// Number of guards that the thread holds. Only this thread accesses it.
    depth: AtomicU32,
    /// 1 while a thread owns the slot, else 0.
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

    /// Returns the number of guards that the thread holds.
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Removes one of the calling thread's guards. If it was the last, the thread is no longer
    /// pinned.
    #[inline]
    pub(crate) fn leave(&self) {
        debug_assert!(self.depth() > 0, "a guard is left once");
        let depth = self.depth.load(Ordering::Relaxed) - 1;
        self.depth.store(depth, Ordering::Relaxed);
        if depth == 0 {
            // Release ordering: a thread that sees the slot unpinned also sees what the owner did
            // while it was pinned.
            self.word.store(0, Ordering::Release);
        }
    }
}

/// The current epoch, and the participants that hold it back.
#[derive(Debug)]
pub(crate) struct EpochLedger {
    epoch: CachePadded<AtomicU64>,
    /// Number of participants without a slot, for each epoch modulo [`COUNTS`].
    counts: [CachePadded<AtomicU64>; COUNTS],
    /// Number of slots ever in use. `advance` examines only these.
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

    /// Returns the current epoch, read after all earlier actions of the caller. The caller must
    /// stamp an object that it has just unlinked with this epoch.
    pub(crate) fn current(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the safe epoch. An object unlinked at an earlier epoch is unreachable.
    pub(crate) fn safe(&self) -> u64 {
        let now = self.epoch.load(Ordering::Acquire);
        debug_assert!(now >= FIRST, "epochs begin at {FIRST}");
        now - 1
    }

    /// Allocates a slot to the calling thread and returns its index, or `None` if no slot is free.
    pub(crate) fn claim(&self) -> Option<usize> {
        for index in 0..MAX_SLOTS {
            let slot = self.make(index);
            if slot.taken.load(Ordering::Relaxed) == 0
                && slot
                    .taken
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                // This precedes the fence of the thread's first pin, so `advance` examines the slot
                // whenever it has to.
                self.used.fetch_max(index as u64 + 1, Ordering::Release);
                return Some(index);
            }
        }
        None
    }

    /// Frees a slot for use by another thread.
    ///
    /// # Panics
    /// If the slot is still pinned.
    pub(crate) fn give_back(&self, index: usize) {
        let slot = self.slot(index);
        assert_eq!(slot.depth(), 0, "a slot is given back without guards");
        slot.taken.store(0, Ordering::Release);
    }

    /// Returns the slot with an index returned by [`EpochLedger::claim`].
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
            // Release ordering: an `advance` that sees this word also sees what the thread did
            // under its earlier guards. The fence accounts for most of the cost of a pin, 6 of 7
            // ns. A `membarrier` in `advance` would make it unnecessary, but that system call
            // interrupts every processor.
            slot.word.store(now, Ordering::Release);
            fence(Ordering::SeqCst);
            if self.epoch.load(Ordering::Acquire) == now {
                return now;
            }
        }
    }

    /// Adds a participant without a slot. Returns the epoch at which it is counted.
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

    /// Adds a participant without a slot at a given epoch. The caller must have another participant
    /// at that epoch during the call.
    pub(crate) fn count_in_at(&self, epoch: u64) {
        debug_assert!(epoch >= FIRST, "epoch {epoch} was never");
        self.counts[epoch as usize % COUNTS].fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a participant without a slot.
    pub(crate) fn count_out(&self, epoch: u64) {
        let before = self.counts[epoch as usize % COUNTS].fetch_sub(1, Ordering::Release);
        assert!(before > 0, "a participant leaves once");
    }

    /// Advances the epoch if every participant has seen the current one. Returns the epoch that is
    /// current afterwards.
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
        // Check the counters after the slots. When a counted participant replaces a guard, it is
        // counted before the guard's slot is unpinned, so it is not missed.
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

    /// Returns the number of slots ever in use, and the number of counted participants.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(crate) fn census(&self) -> (usize, u64) {
        let counted = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        (self.used.load(Ordering::Relaxed) as usize, counted.sum())
    }
}
