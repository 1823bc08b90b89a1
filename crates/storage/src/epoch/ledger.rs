//! The shared words of the epochs, and the rule by which they advance. Model-checked in
//! `model_check.rs`.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crossbeam_utils::CachePadded;
use std::sync::OnceLock;

/// Number of slots allocated at a time.
const SLOTS_PER_CHUNK: usize = if cfg!(alluvium_model_check) { 3 } else { 32 };
/// Maximum number of such chunks.
const CHUNKS: usize = if cfg!(alluvium_model_check) { 1 } else { 16 };
/// Maximum number of threads with a slot. Further threads are counted (see `count_in`).
pub(crate) const MAX_SLOTS: usize = SLOTS_PER_CHUNK * CHUNKS;
/// The first epoch, chosen so that `safe` starts above zero.
const FIRST: u64 = 2;
/// Participants without a slot are counted by epoch modulo this: at most two epochs have any at a
/// time (invariant R2).
const COUNTS: usize = 4;

const _: () = assert!(COUNTS.is_power_of_two() && COUNTS >= 3);

/// The word of one thread: zero, or the epoch it is pinned at.
#[derive(Debug)]
pub(crate) struct EpochSlot {
    word: AtomicU64,
    /// Number of guards of the thread. Only that thread uses it.
    depth: AtomicU32,
    /// One while a thread owns the slot.
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

    /// Returns the number of guards of the thread.
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Drops one guard of the calling thread. The last one unpins the slot.
    #[inline]
    pub(crate) fn leave(&self) {
        debug_assert!(self.depth() > 0, "a guard is left once");
        let depth = self.depth.load(Ordering::Relaxed) - 1;
        self.depth.store(depth, Ordering::Relaxed);
        if depth == 0 {
            // Release: a thread that sees the slot unpinned also sees the owner's actions while it
            // was pinned.
            self.word.store(0, Ordering::Release);
        }
    }
}

/// The current epoch and its participants.
#[derive(Debug)]
pub(crate) struct EpochLedger {
    epoch: CachePadded<AtomicU64>,
    /// Numbers of participants without a slot, by epoch modulo [`COUNTS`].
    counts: [CachePadded<AtomicU64>; COUNTS],
    /// Number of slots ever taken. `advance` examines only these.
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

    /// Returns the current epoch, read after all earlier actions of the caller: the stamp for an
    /// object that it has just unlinked.
    pub(crate) fn current(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the safe epoch: objects unlinked at an earlier epoch are unreachable.
    pub(crate) fn safe(&self) -> u64 {
        let now = self.epoch.load(Ordering::Acquire);
        debug_assert!(now >= FIRST, "epochs begin at {FIRST}");
        now - 1
    }

    /// Claims a free slot, if there is one.
    pub(crate) fn claim(&self) -> Option<usize> {
        for index in 0..MAX_SLOTS {
            let slot = self.make(index);
            if slot.taken.load(Ordering::Relaxed) == 0
                && slot
                    .taken
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                // Sequenced before the fence of the first pin, so that `advance` examines the slot
                // whenever it must.
                self.used.fetch_max(index as u64 + 1, Ordering::Release);
                return Some(index);
            }
        }
        None
    }

    /// Releases a slot.
    ///
    /// # Panics
    /// If it is still pinned.
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

    /// Adds a guard of the calling thread, which must own the slot. Returns the epoch that the slot
    /// is pinned at.
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
            // Release: an `advance` that sees this word also sees the thread's actions under its
            // earlier guards. The fence is most of the cost of a pin: 6 of its 7 ns. A `membarrier`
            // in `advance` would save it, but at the price of a system call that interrupts every
            // processor, so it is not used.
            slot.word.store(now, Ordering::Release);
            fence(Ordering::SeqCst);
            if self.epoch.load(Ordering::Acquire) == now {
                return now;
            }
        }
    }

    /// Adds a participant without a slot. Returns the epoch that it holds.
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

    /// Adds a participant without a slot at an epoch that another participant of the caller holds
    /// during the call.
    pub(crate) fn count_in_at(&self, epoch: u64) {
        debug_assert!(epoch >= FIRST, "epoch {epoch} was never");
        self.counts[epoch as usize % COUNTS].fetch_add(1, Ordering::AcqRel);
    }

    /// Removes a participant without a slot.
    pub(crate) fn count_out(&self, epoch: u64) {
        let before = self.counts[epoch as usize % COUNTS].fetch_sub(1, Ordering::Release);
        assert!(before > 0, "a participant leaves once");
    }

    /// Advances the epoch if every participant has seen the current one. Returns the current epoch.
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
        // Checked after the slots: a guard that became a counted participant was counted before its
        // slot was unpinned.
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

    /// Returns the number of slots ever taken, and the number of counted participants.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(crate) fn census(&self) -> (usize, u64) {
        let counted = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        (self.used.load(Ordering::Relaxed) as usize, counted.sum())
    }
}
