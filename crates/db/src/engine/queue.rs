//! The queue of memtables not yet flushed to the tree, and the counter that assigns sequence
//! numbers.
//!
//! A single 64-bit word stores both the newest memtable's number and the last assigned sequence
//! number. With one compare-and-swap, a writer obtains its sequence numbers and learns to which
//! memtable they belong. Sealing a memtable changes the memtable number in the same word, so the
//! boundary between two memtables is exact, and writers and the sealing thread never wait for each
//! other.
//!
//! ```text
//!   counter   ┌ number of the newest memtable: 8 bits ┬ last sequence given out: 56 bits ┐
//!   slots     newest ── sealed, cut 900 ── sealed, cut 400 ──► tree, cut 200
//!             (900, …]  (400, 900]          (200, 400]
//! ```
//!
//! A writer reserves space in a memtable before it obtains a sequence number. It reserves the
//! maximum that its writes can need, so that a logged write always fits into the memtable. A commit
//! that needs more than half of a memtable is given its own memtable.

use super::policy::{MOST_SEALED, PARTS};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::empty_ranges::EmptyRanges;
use alluvium_dictionary::memtables::{MemtableEntry, MemtableList, MemtableOwner};
use arc_swap::ArcSwap;
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Number of bits of a sequence number, enough for two centuries at ten million writes per second.
const SEQUENCE_BITS: u32 = 56;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

/// Maximum number of memtable bytes that a record needs in addition to its key and operand, for its
/// header and its share of split nodes.
pub(crate) const RECORD_OVERHEAD: u64 = 160;

/// Returns the number of bytes that writers may allocate ahead of use, beyond the reserved bytes. A
/// small memtable gets few, because it is not worth huge pages: each writer would occupy at least
/// one.
fn claim_ahead_bytes(room: u64) -> u64 {
    if room < 2 << 20 { 2 << 20 } else { 8 << 20 }
}

/// Stands for a sequence number that is not known yet.
const UNKNOWN: SequenceNumber = SequenceNumber::MAX;

/// A memtable, and the range of sequence numbers of its commits.
#[derive(Debug)]
pub(crate) struct MemtableSlot {
    pub(crate) memtable: Arc<Memtable>,
    number: u8,
    /// All commits in the memtable are above this sequence number. `UNKNOWN` until the memtable
    /// becomes the newest one.
    base: AtomicU64,
    /// The last sequence number that belongs to the memtable. `UNKNOWN` until the memtable is
    /// sealed.
    cut: AtomicU64,
    /// Number of bytes that writers have reserved in the memtable.
    reserved: CachePadded<AtomicU64>,
    /// Maximum value of `reserved`, in bytes.
    capacity_bytes: u64,
    /// Number of the memtable's [`PARTS`] parts that have been flushed.
    written_out: AtomicU64,
    /// Number of times that [`MemtableQueue::free_retired`] was called since the memtable was
    /// flushed and became available for reuse.
    rounds: AtomicU64,
}

/// Creates a memtable in which `room` bytes can be reserved.
fn memtable(room: u64) -> Memtable {
    let limit = (room + room / 4 + claim_ahead_bytes(room)).clamp(1 << 20, 16 << 30);
    Memtable::new(limit as usize)
}

impl MemtableSlot {
    fn new(number: u8, room: u64, given: Option<Memtable>) -> MemtableSlot {
        MemtableSlot {
            memtable: Arc::new(given.unwrap_or_else(|| memtable(room))),
            number,
            base: AtomicU64::new(UNKNOWN),
            cut: AtomicU64::new(UNKNOWN),
            reserved: CachePadded::new(AtomicU64::new(0)),
            capacity_bytes: room,
            written_out: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
        }
    }

    /// Returns the memtable's base. All commits in the memtable have higher sequence numbers.
    pub(crate) fn base(&self) -> SequenceNumber {
        self.base.load(Ordering::Acquire)
    }

    /// Returns the last sequence number that belongs to the memtable. Returns `None` if the
    /// memtable is not sealed.
    pub(crate) fn cut(&self) -> Option<SequenceNumber> {
        Some(self.cut.load(Ordering::Acquire)).filter(|&cut| cut != UNKNOWN)
    }

    /// Records that `messages` messages of the memtable have been flushed.
    pub(crate) fn note_written_out(&self, messages: usize) {
        let parts = messages as u64 * PARTS / self.memtable.len().max(1) as u64;
        self.written_out.store(parts.min(PARTS), Ordering::Relaxed);
    }

    /// Clears the memtable and returns it for reuse of its memory. Returns `None` if it still has
    /// other users.
    fn into_cleared(self: Arc<MemtableSlot>) -> Option<Memtable> {
        let memtable = Arc::into_inner(self)?.memtable;
        Arc::into_inner(memtable).map(Memtable::cleared)
    }

    /// Returns whether the caller holds the only reference to the memtable. If so, no other user
    /// can obtain one.
    fn is_forgotten(self: &Arc<MemtableSlot>) -> bool {
        Arc::strong_count(self) == 1 && Arc::strong_count(&self.memtable) == 1
    }

    fn fits(&self, bytes: u64) -> bool {
        self.reserved.load(Ordering::Relaxed).saturating_add(bytes) <= self.capacity_bytes
    }

    /// Reserves `bytes` bytes in the memtable. Returns false if they do not fit.
    fn reserve(&self, bytes: u64) -> bool {
        let before = self.reserved.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.capacity_bytes;
        if !fits {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }
}

/// How long a memtable added by [`MemtableQueue::append_oldest`] stays in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemtableRetention {
    /// The memtable stays until it is flushed, like any other memtable.
    Ordinary,
    /// The memtable is never flushed, because its dictionary is quarantined and accepts no flush.
    Forever,
}

/// Sequence numbers assigned to a commit, and the memtable to which they belong.
#[derive(Debug)]
pub(crate) struct SequenceAssignment {
    pub(crate) slot: Arc<MemtableSlot>,
    pub(crate) first: SequenceNumber,
}

/// The memtables from the newest to the oldest, and the counter that assigns sequence numbers.
#[derive(Debug)]
pub(crate) struct MemtableQueue {
    slots: ArcSwap<Vec<Arc<MemtableSlot>>>,
    counter: CachePadded<AtomicU64>,
    /// Serialises changes to the list of memtables.
    sealing: Mutex<()>,
    /// Flushed memtables whose memory can be reused once they have no readers. The next memtable
    /// takes its memory from here, because the operating system would have to zero new memory page
    /// by page while writers wait.
    retired: Mutex<Vec<Arc<MemtableSlot>>>,
    /// Flushed memtables that will not be reused. They exist only until their readers release them.
    kept_by_readers: Mutex<Vec<Weak<Memtable>>>,
    /// An empty memtable, used when no flushed memtable can be reused. It is allocated in advance,
    /// because a writer that allocated it while sealing a memtable would have to wait for the
    /// operating system.
    spare: Mutex<Option<Memtable>>,
    /// Number of memtables at the end of the list that are never flushed because their dictionary
    /// is quarantined.
    held: AtomicUsize,
    /// Number of bytes that can be reserved in an ordinary memtable.
    memtable_bytes: u64,
    /// Number of bytes that the last ordinary memtable actually used. It is less than
    /// `memtable_bytes`, because writers reserve the maximum that they can need.
    usual: AtomicU64,
    /// Key ranges in which scans found no keys.
    empty: EmptyRanges,
}

/// The list of empty key ranges may use at most 1/`EMPTY_PART` of a memtable's size.
const EMPTY_PART: u64 = 64;
/// Minimum memory limit for the list of empty key ranges, in bytes.
const LEAST_EMPTY: u64 = 16 << 10;

impl MemtableQueue {
    /// Creates a queue with one empty memtable, for commits above sequence number `cut`.
    pub(crate) fn new(room: u64, cut: SequenceNumber) -> MemtableQueue {
        let slot = MemtableSlot::new(0, room, None);
        slot.base.store(cut, Ordering::Relaxed);
        MemtableQueue {
            slots: ArcSwap::from_pointee(vec![Arc::new(slot)]),
            counter: CachePadded::new(AtomicU64::new(cut)),
            sealing: Mutex::new(()),
            retired: Mutex::default(),
            kept_by_readers: Mutex::default(),
            spare: Mutex::default(),
            held: AtomicUsize::new(0),
            memtable_bytes: room,
            usual: AtomicU64::new(room / 2),
            empty: EmptyRanges::new((room / EMPTY_PART).max(LEAST_EMPTY) as usize),
        }
    }

    /// Returns the key ranges in which scans found no keys.
    pub(crate) fn empty_ranges(&self) -> &EmptyRanges {
        &self.empty
    }

    /// Returns the memtables from newest to oldest. The caller should release the guard soon.
    pub(crate) fn slots(&self) -> arc_swap::Guard<Arc<Vec<Arc<MemtableSlot>>>> {
        self.slots.load()
    }

    /// Returns the last sequence number that was assigned.
    pub(crate) fn last(&self) -> SequenceNumber {
        self.counter.load(Ordering::Acquire) & SEQUENCE_MASK
    }

    /// Returns whether a writer that needs `bytes` more must wait. It must if it would have to seal
    /// a memtable although the maximum number is already sealed, or if it needs its own memtable
    /// and the sealed memtables leave no memory for one.
    pub(crate) fn is_full(&self, bytes: u64) -> bool {
        let slots = self.slots();
        let sealed = slots.len() - 1 - self.held();
        let reserved = || {
            slots
                .iter()
                .map(|slot| slot.reserved.load(Ordering::Relaxed))
                .sum::<u64>()
        };
        let room = (MOST_SEALED as u64 + 1) * self.memtable_bytes;
        sealed > MOST_SEALED
            || (sealed == MOST_SEALED && !slots[0].fits(bytes))
            || (sealed > 0 && self.is_large(bytes) && reserved() + bytes > room)
    }

    /// Returns whether a commit that needs `bytes` bytes is given its own memtable.
    #[inline]
    pub(crate) fn is_large(&self, bytes: u64) -> bool {
        bytes > self.memtable_bytes / 2
    }

    /// Returns the amount of unflushed data in all memtables, in units of 1/[`PARTS`] of a
    /// memtable.
    pub(crate) fn filled(&self) -> u64 {
        let slots = self.slots();
        let sealed = slots.len() - 1 - self.held();
        let (newest, oldest) = (&slots[0], &slots[sealed]);
        let reserved = newest.reserved.load(Ordering::Relaxed).min(newest.capacity_bytes);
        let filled = sealed as u64 * PARTS + reserved * PARTS / newest.capacity_bytes.max(1);
        filled - oldest.written_out.load(Ordering::Relaxed)
    }

    /// Makes the operating system provide memory that writers will need soon, in the newest
    /// memtable or in the one after it. Returns whether it provided any. At most one thread may
    /// call this at a time.
    pub(crate) fn prefault_memory(&self) -> bool {
        let slots = self.slots();
        let (newest, most) = (&slots[0], self.usual.load(Ordering::Relaxed));
        if newest.memtable.provide(most as usize) {
            return true;
        }
        let is_due = newest.reserved.load(Ordering::Relaxed) > newest.capacity_bytes / 2
            && !self.retired.lock().iter().any(MemtableSlot::is_forgotten)
            && self.spare.lock().is_none();
        if is_due {
            let spare = memtable(self.memtable_bytes);
            *self.spare.lock() = Some(spare);
        }
        is_due
    }

    /// Returns the number of sealed memtables that have not been flushed.
    pub(crate) fn sealed(&self) -> usize {
        self.slots().len() - 1 - self.held()
    }

    fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Adds a memtable that is older than all others and contains the commits above `base`, up to
    /// `cut`. Must be called while the store is being opened, before its first write. With
    /// `MemtableRetention::Forever`, the memtable is never flushed.
    pub(crate) fn append_oldest(
        &self,
        memtable: Memtable,
        base: SequenceNumber,
        cut: SequenceNumber,
        hold: MemtableRetention,
    ) {
        let _sealing = self.sealing.lock();
        let slots = self.slots.load_full();
        let oldest = slots.last().expect("there is always one");
        // Use the memtable's own limit as its capacity. Its memory is then not reused for an
        // ordinary memtable, whose capacity differs.
        let room = memtable.limit() as u64;
        let slot = MemtableSlot::new(oldest.number.wrapping_sub(1), room, Some(memtable));
        slot.base.store(base, Ordering::Relaxed);
        slot.cut.store(cut, Ordering::Release);
        let list = slots.iter().cloned().chain([Arc::new(slot)]).collect();
        self.slots.store(Arc::new(list));
        self.held
            .fetch_add(usize::from(hold == MemtableRetention::Forever), Ordering::AcqRel);
    }

    /// Creates a memtable in which `room` bytes can be reserved.
    pub(crate) fn memtable_of(room: u64) -> Memtable {
        memtable(room)
    }

    /// Skips all sequence numbers up to `last`, which were used before the store was opened.
    pub(crate) fn skip_to(&self, last: SequenceNumber) {
        let skip = |old: u64| (old & SEQUENCE_MASK < last).then_some(old & !SEQUENCE_MASK | last);
        // If this fails, these sequence numbers have already been assigned.
        let _ = self
            .counter
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, skip);
    }

    /// Assigns `count` sequence numbers to writes that need at most `bytes` bytes in a memtable. If
    /// the newest memtable is full, seals it and calls `sealed`.
    pub(crate) fn assign(&self, count: u64, bytes: u64, mut sealed: impl FnMut()) -> SequenceAssignment {
        loop {
            let slot = Arc::clone(&self.slots()[0]);
            if slot.reserve(bytes) {
                if let Some(place) = self.assign_reserved(&slot, count, bytes) {
                    return place;
                }
            } else if self.is_large(bytes) {
                let place = self.assign_alone(count, bytes);
                sealed();
                return place;
            } else if self.seal_if_newest(&slot) {
                sealed();
            }
        }
    }

    /// Assigns sequence numbers to writes that have reserved `bytes` bytes in `slot`. If the
    /// memtable has been sealed in the meantime, cancels the reservation and returns `None`.
    fn assign_reserved(
        &self,
        slot: &Arc<MemtableSlot>,
        count: u64,
        bytes: u64,
    ) -> Option<SequenceAssignment> {
        let Some(first) = self.take(slot.number, count) else {
            slot.reserved.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        };
        // Memtable numbers repeat after 256 seals. If that happened since the reservation, the
        // writer's sequence numbers are above the cut of `slot`.
        if slot.cut.load(Ordering::Acquire) >= first {
            let slot = Arc::clone(slot);
            return Some(SequenceAssignment { slot, first });
        }
        Some(self.assign_after_wraparound(slot, first, bytes))
    }

    /// Assigns a writer's sequence numbers to the right memtable after memtable numbers have
    /// wrapped around. The writer reserved space in `sealed`, which has been sealed since. A
    /// multiple of 256 seals later, the newest memtable had the same number again, so the writer
    /// obtained sequence numbers that belong to a newer memtable.
    #[cold]
    fn assign_after_wraparound(
        &self,
        sealed: &MemtableSlot,
        first: SequenceNumber,
        bytes: u64,
    ) -> SequenceAssignment {
        sealed.reserved.fetch_sub(bytes, Ordering::Relaxed);
        // No memtable can be sealed while this lock is held, so the cut of every memtable except
        // the newest is known.
        let _sealing = self.sealing.lock();
        let slots = self.slots();
        let slot = slots
            .iter()
            .rev()
            .find(|slot| slot.cut.load(Ordering::Acquire) >= first);
        let slot = Arc::clone(slot.expect("a memtable stays until every commit that it holds is seen"));
        // This may exceed the limit of reservable bytes. A memtable has additional capacity, enough
        // for a few such writers.
        slot.reserved.fetch_add(bytes, Ordering::Relaxed);
        SequenceAssignment { slot, first }
    }

    /// Obtains `count` sequence numbers and returns the first. Returns `None` if the newest
    /// memtable's number is no longer `number`.
    fn take(&self, number: u8, count: u64) -> Option<SequenceNumber> {
        let mut old = self.counter.load(Ordering::Relaxed);
        loop {
            if (old >> SEQUENCE_BITS) as u8 != number {
                return None;
            }
            assert!(
                (old & SEQUENCE_MASK) + count < SEQUENCE_MASK,
                "all sequence numbers are used up"
            );
            let taken =
                self.counter
                    .compare_exchange_weak(old, old + count, Ordering::AcqRel, Ordering::Relaxed);
            match taken {
                Ok(_) => return Some((old & SEQUENCE_MASK) + 1),
                Err(now) => old = now,
            }
        }
    }

    /// Assigns `count` sequence numbers that belong to a separate memtable, which stays empty.
    pub(crate) fn assign_empty(&self, count: u64) -> SequenceAssignment {
        self.assign_alone(count, 1)
    }

    /// Assigns `count` sequence numbers that belong to a separate memtable of `bytes` bytes, used
    /// by no other writer.
    fn assign_alone(&self, count: u64, bytes: u64) -> SequenceAssignment {
        let sealing = self.sealing.lock();
        let slot = self.open(&sealing, bytes);
        slot.reserved.store(bytes, Ordering::Relaxed);
        let first = self.take(slot.number, count).expect("nobody else seals");
        self.open(&sealing, self.memtable_bytes);
        SequenceAssignment { slot, first }
    }

    fn seal_if_newest(&self, slot: &Arc<MemtableSlot>) -> bool {
        let sealing = self.sealing.lock();
        let is_newest = Arc::ptr_eq(slot, &self.slots()[0]);
        if is_newest {
            self.open(&sealing, self.memtable_bytes);
        }
        is_newest
    }

    /// Seals the newest memtable unless it is empty. Returns the last sequence number that precedes
    /// the newest memtable afterwards.
    pub(crate) fn seal(&self) -> SequenceNumber {
        let sealing = self.sealing.lock();
        let base = self.slots()[0].base();
        if self.last() > base {
            self.open(&sealing, self.memtable_bytes);
        }
        self.slots()[0].base()
    }

    /// Adds a new memtable as the newest, which seals the previously newest memtable.
    fn open(&self, _sealing: &MutexGuard<'_, ()>, room: u64) -> Arc<MemtableSlot> {
        let slots = self.slots.load_full();
        let newest = &slots[0];
        let memory = (room == self.memtable_bytes).then(|| self.take_spare()).flatten();
        let next = Arc::new(MemtableSlot::new(newest.number.wrapping_add(1), room, memory));
        let list = std::iter::once(&next).chain(slots.iter()).cloned().collect();
        // Publish the list before the memtable number, because a writer that obtains a sequence
        // number for the new memtable must find it in the list.
        self.slots.store(Arc::new(list));
        let number = u64::from(next.number) << SEQUENCE_BITS;
        let renumber = |old: u64| Some(number | old & SEQUENCE_MASK);
        let cut = self
            .counter
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, renumber)
            .expect("it always changes")
            & SEQUENCE_MASK;
        newest.cut.store(cut, Ordering::Release);
        next.base.store(cut, Ordering::Release);
        next
    }

    /// Returns the oldest memtable if it is sealed.
    pub(crate) fn oldest_sealed(&self) -> Option<Arc<MemtableSlot>> {
        let slots = self.slots();
        let sealed = slots.len() - 1 - self.held();
        (sealed > 0)
            .then(|| Arc::clone(&slots[sealed]))
            .filter(|slot| slot.cut().is_some())
    }

    /// Returns whether all memtables older than `slot` have been flushed.
    pub(crate) fn is_oldest(&self, slot: &Arc<MemtableSlot>) -> bool {
        let slots = self.slots();
        Arc::ptr_eq(&slots[slots.len() - 1 - self.held()], slot)
    }

    /// Removes the oldest sealed memtable, which the caller must have flushed, from the queue. Its
    /// memory may be reused.
    pub(crate) fn remove(&self, slot: &Arc<MemtableSlot>) {
        let _sealing = self.sealing.lock();
        let slots = self.slots.load_full();
        let sealed = slots.len() - 1 - self.held();
        assert!(
            sealed > 0 && Arc::ptr_eq(slot, &slots[sealed]),
            "the oldest memtable is incorporated first"
        );
        let mut left = slots.to_vec();
        left.remove(sealed);
        self.empty.memtable_leaves(slot.cut().expect("it is sealed"));
        self.slots.store(Arc::new(left));
        if slot.capacity_bytes == self.memtable_bytes {
            self.usual.store(slot.memtable.bytes() as u64, Ordering::Relaxed);
            let mut retired = self.retired.lock();
            retired.push(Arc::clone(slot));
            // Limit how many flushed memtables are kept for reuse, so that they and the sealed ones
            // never exceed the maximum number of memtables in use.
            let most = (MOST_SEALED + 1).saturating_sub(sealed);
            let surplus = retired.len().saturating_sub(most);
            let surplus: Vec<Arc<MemtableSlot>> = retired.drain(..surplus).collect();
            drop(retired);
            self.track_reader_memtables(&surplus);
        } else {
            self.track_reader_memtables(std::slice::from_ref(slot));
        }
    }

    /// Tracks memtables that will not be reused for as long as readers keep them in memory.
    fn track_reader_memtables(&self, surplus: &[Arc<MemtableSlot>]) {
        let mut kept = self.kept_by_readers.lock();
        kept.retain(|memtable| memtable.strong_count() > 0);
        kept.extend(surplus.iter().map(|slot| Arc::downgrade(&slot.memtable)));
    }

    /// Returns the memory of a flushed memtable without readers, or the spare memtable if there is
    /// none.
    fn take_spare(&self) -> Option<Memtable> {
        let mut retired = self.retired.lock();
        let forgotten = retired.iter().position(MemtableSlot::is_forgotten);
        let cleared = forgotten.and_then(|at| retired.swap_remove(at).into_cleared());
        cleared.or_else(|| self.spare.lock().take())
    }

    /// Frees flushed memtables that have been waiting for reuse for more than `most` calls of this
    /// function. If memtables fill slowly, the caches make better use of their memory.
    pub(crate) fn free_retired(&self, most: u64) {
        let waits_too_long = |slot: &MemtableSlot| slot.rounds.fetch_add(1, Ordering::Relaxed) >= most;
        // The operating system takes a while to free memory, so release the lock first.
        let old: Vec<Arc<MemtableSlot>> = self
            .retired
            .lock()
            .extract_if(.., |slot| waits_too_long(slot))
            .collect();
        self.track_reader_memtables(&old);
        drop(old);
    }

    /// Returns the memory of all memtables in bytes, including memtables available for reuse and
    /// memtables that only readers keep alive.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let bytes = |slot: &Arc<MemtableSlot>| slot.memtable.memory_bytes() as u64;
        let retired: u64 = self.retired.lock().iter().map(bytes).sum();
        let spare = self.spare.lock().as_ref().map_or(0, Memtable::memory_bytes) as u64;
        let empty = self.empty.memory_bytes() as u64;
        let of_readers = |kept: &Weak<Memtable>| kept.upgrade().map_or(0, |kept| kept.memory_bytes() as u64);
        let kept: u64 = self.kept_by_readers.lock().iter().map(of_readers).sum();
        self.slots().iter().map(bytes).sum::<u64>() + retired + spare + empty + kept
    }
}

impl MemtableOwner for MemtableQueue {
    fn newest_first(&self) -> MemtableList {
        let slots = self.slots();
        let older = slots.iter().skip(1).map(|slot| slot.base()).chain([UNKNOWN]);
        let entry = |(slot, older): (&Arc<MemtableSlot>, SequenceNumber)| MemtableEntry {
            memtable: Arc::clone(&slot.memtable),
            // While a memtable is being opened, its base is not known. Use the base of the next
            // older memtable instead, which is a lower bound. That memtable is not in the tree
            // either, because its cut is not known yet.
            base: Some(slot.base()).filter(|&base| base != UNKNOWN).unwrap_or(older),
        };
        Arc::new(slots.iter().zip(older).map(entry).collect())
    }

    fn empty_ranges(&self) -> Option<&EmptyRanges> {
        Some(&self.empty)
    }
}

/// The memtables of the queue without the list of empty ranges, for readers above the visible
/// sequence number. A commit that such a reader must see may have written to a range that a scan
/// found empty.
#[derive(Debug)]
pub(crate) struct UnfilteredMemtables(pub(crate) Arc<MemtableQueue>);

impl MemtableOwner for UnfilteredMemtables {
    fn newest_first(&self) -> MemtableList {
        self.0.newest_first()
    }
}

#[cfg(test)]
mod tests;
