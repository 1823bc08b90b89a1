//! The memtables that are not in the tree yet, and the counter that gives every write its place.
//!
//! One word holds the number of the newest memtable and the last sequence number that was given
//! out. A writer takes its numbers and learns the memtable they belong to by one compare-and-swap;
//! a seal changes the memtable's number in the same word. So the cut between two memtables is
//! exact, and neither side waits for the other.
//!
//! ```text
//!   counter   ┌ number of the newest memtable: 8 bits ┬ last sequence given out: 56 bits ┐
//!   slots     newest ── sealed, cut 900 ── sealed, cut 400 ──► tree, cut 200
//!             (900, …]  (400, 900]          (200, 400]
//! ```
//!
//! Space in a memtable is reserved before a number is taken, by an upper bound of what the writes
//! can need, so that a write that is in the log always fits. What needs more than a part of a
//! memtable gets one of its own.

use super::policy::{MOST_SEALED, PARTS};
use alluvium_base::Sequence;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::empty_ranges::EmptyRanges;
use alluvium_dictionary::memtables::{MemtableEntry, MemtableList, Memtables};
use arc_swap::ArcSwap;
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Bits of a sequence number: at ten million writes a second enough for two centuries.
const SEQUENCE_BITS: u32 = 56;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

/// What a record takes in a memtable beside its key and operand, at most: its header, and its share
/// of nodes that split.
pub(crate) const RECORD_OVERHEAD: u64 = 160;

/// Returns the bytes that the writers of a memtable may have taken ahead, beyond what was reserved:
/// little of a small one, which is worth no huge pages: each would take one at least.
fn ahead(room: u64) -> u64 {
    if room < 2 << 20 { 2 << 20 } else { 8 << 20 }
}

/// Not known yet.
const UNKNOWN: Sequence = Sequence::MAX;

/// A memtable and the stretch of the commit order that it holds.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) memtable: Arc<Memtable>,
    number: u8,
    /// It holds commits above this one only; unknown until it is the newest.
    base: AtomicU64,
    /// The last that it holds; unknown until it is sealed.
    cut: AtomicU64,
    /// Bytes that were reserved in it.
    reserved: CachePadded<AtomicU64>,
    /// How many may be.
    room: u64,
    /// How many of its parts were written out.
    written_out: AtomicU64,
    /// How often [`Queue::give_back`] has seen that its memory waits for the next memtable.
    rounds: AtomicU64,
}

/// Makes a memtable in which `room` bytes may be reserved.
fn memtable(room: u64) -> Memtable {
    let limit = (room + room / 4 + ahead(room)).clamp(1 << 20, 16 << 30);
    Memtable::new(limit as usize)
}

impl Slot {
    fn new(number: u8, room: u64, given: Option<Memtable>) -> Slot {
        Slot {
            memtable: Arc::new(given.unwrap_or_else(|| memtable(room))),
            number,
            base: AtomicU64::new(UNKNOWN),
            cut: AtomicU64::new(UNKNOWN),
            reserved: CachePadded::new(AtomicU64::new(0)),
            room,
            written_out: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
        }
    }

    /// It holds commits above this one only.
    pub(crate) fn base(&self) -> Sequence {
        self.base.load(Ordering::Acquire)
    }

    /// Returns the last commit that it holds, once it is sealed.
    pub(crate) fn cut(&self) -> Option<Sequence> {
        Some(self.cut.load(Ordering::Acquire)).filter(|&cut| cut != UNKNOWN)
    }

    /// Notes that this many of its messages were written out.
    pub(crate) fn note_written_out(&self, messages: usize) {
        let parts = messages as u64 * PARTS / self.memtable.len().max(1) as u64;
        self.written_out.store(parts.min(PARTS), Ordering::Relaxed);
    }

    /// Returns the memtable, emptied, if it has no other users.
    fn into_cleared(self: Arc<Slot>) -> Option<Memtable> {
        let memtable = Arc::into_inner(self)?.memtable;
        Arc::into_inner(memtable).map(Memtable::cleared)
    }

    /// Returns whether only the caller has it, so that it gets no other users any more.
    fn is_forgotten(self: &Arc<Slot>) -> bool {
        Arc::strong_count(self) == 1 && Arc::strong_count(&self.memtable) == 1
    }

    fn fits(&self, bytes: u64) -> bool {
        self.reserved.load(Ordering::Relaxed).saturating_add(bytes) <= self.room
    }

    /// Reserves this many bytes, if they fit. Returns whether they did.
    fn reserve(&self, bytes: u64) -> bool {
        let before = self.reserved.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.room;
        if !fits {
            self.reserved.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }
}

/// Whether a memtable stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Until it is in the dictionaries.
    Ordinary,
    /// A dictionary that takes no more has not taken it.
    Forever,
}

/// Numbers for some writes, and the memtable they go to.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) slot: Arc<Slot>,
    pub(crate) first: Sequence,
}

/// The memtables, newest first.
#[derive(Debug)]
pub(crate) struct Queue {
    slots: ArcSwap<Vec<Arc<Slot>>>,
    counter: CachePadded<AtomicU64>,
    /// Held while the list changes.
    sealing: Mutex<()>,
    /// Memtables that are in the tree now. The next one takes the memory of one that has no readers
    /// any more. Otherwise the system would clear every page of a new one first, and writers would
    /// wait for that.
    retired: Mutex<Vec<Arc<Slot>>>,
    /// Others, which readers have for a while.
    kept_by_readers: Mutex<Vec<Weak<Memtable>>>,
    /// An empty memtable for when there is none of those: a writer that made one at a seal would
    /// wait for the system.
    spare: Mutex<Option<Memtable>>,
    /// How many of the oldest memtables stay: a dictionary that takes no more has not taken them.
    held: AtomicUsize,
    /// Bytes that may be reserved in an ordinary memtable.
    room: u64,
    /// Bytes that the last ordinary memtable took of its own: fewer than may be reserved, for
    /// reservations are upper bounds.
    usual: AtomicU64,
    /// Where walks have found no key with a value.
    empty: EmptyRanges,
}

/// The part of a memtable's bytes that what is known of empty ranges may take.
const EMPTY_PART: u64 = 64;
/// And what it may take at least.
const LEAST_EMPTY: u64 = 16 << 10;

impl Queue {
    /// Creates a queue with one empty memtable that holds what comes after `cut`.
    pub(crate) fn new(room: u64, cut: Sequence) -> Queue {
        let slot = Slot::new(0, room, None);
        slot.base.store(cut, Ordering::Relaxed);
        Queue {
            slots: ArcSwap::from_pointee(vec![Arc::new(slot)]),
            counter: CachePadded::new(AtomicU64::new(cut)),
            sealing: Mutex::new(()),
            retired: Mutex::default(),
            kept_by_readers: Mutex::default(),
            spare: Mutex::default(),
            held: AtomicUsize::new(0),
            room,
            usual: AtomicU64::new(room / 2),
            empty: EmptyRanges::new((room / EMPTY_PART).max(LEAST_EMPTY) as usize),
        }
    }

    /// Where walks have found no key with a value.
    pub(crate) fn empty_ranges(&self) -> &EmptyRanges {
        &self.empty
    }

    /// Returns the memtables, newest first, for the length of a call.
    pub(crate) fn slots(&self) -> arc_swap::Guard<Arc<Vec<Arc<Slot>>>> {
        self.slots.load()
    }

    /// Returns the last sequence number that was given out.
    pub(crate) fn last(&self) -> Sequence {
        self.counter.load(Ordering::Acquire) & SEQUENCE_MASK
    }

    /// Returns whether `bytes` bytes more would seal a memtable while as many as may be are sealed
    /// already, or need one of their own while those that are sealed leave no memory for it.
    pub(crate) fn is_full(&self, bytes: u64) -> bool {
        let slots = self.slots();
        let sealed = slots.len() - 1 - self.held();
        let reserved = || {
            slots
                .iter()
                .map(|slot| slot.reserved.load(Ordering::Relaxed))
                .sum::<u64>()
        };
        let room = (MOST_SEALED as u64 + 1) * self.room;
        sealed > MOST_SEALED
            || (sealed == MOST_SEALED && !slots[0].fits(bytes))
            || (sealed > 0 && self.is_large(bytes) && reserved() + bytes > room)
    }

    /// Returns whether this many bytes get a memtable of their own.
    #[inline]
    pub(crate) fn is_large(&self, bytes: u64) -> bool {
        bytes > self.room / 2
    }

    /// Returns how much is in memtables and not written out, in thirty-seconds of one.
    pub(crate) fn filled(&self) -> u64 {
        let slots = self.slots();
        let sealed = slots.len() - 1 - self.held();
        let (newest, oldest) = (&slots[0], &slots[sealed]);
        let reserved = newest.reserved.load(Ordering::Relaxed).min(newest.room);
        let filled = sealed as u64 * PARTS + reserved * PARTS / newest.room.max(1);
        filled - oldest.written_out.load(Ordering::Relaxed)
    }

    /// Has the system provide memory that writers will need next, in the newest memtable or for the
    /// one after it. Returns whether any was wanted. One thread at a time.
    pub(crate) fn provide(&self) -> bool {
        let slots = self.slots();
        let (newest, most) = (&slots[0], self.usual.load(Ordering::Relaxed));
        if newest.memtable.provide(most as usize) {
            return true;
        }
        let is_due = newest.reserved.load(Ordering::Relaxed) > newest.room / 2
            && !self.retired.lock().iter().any(Slot::is_forgotten)
            && self.spare.lock().is_none();
        if is_due {
            let spare = memtable(self.room);
            *self.spare.lock() = Some(spare);
        }
        is_due
    }

    /// Returns how many memtables are sealed and not in the tree.
    pub(crate) fn sealed(&self) -> usize {
        self.slots().len() - 1 - self.held()
    }

    fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// Adds a memtable below all others, with commits above `base` and up to `cut`, before anything
    /// is written. With `Hold::Forever` it stays.
    pub(crate) fn put_below(&self, memtable: Memtable, base: Sequence, cut: Sequence, hold: Hold) {
        let _sealing = self.sealing.lock();
        let slots = self.slots.load_full();
        let oldest = slots.last().expect("there is always one");
        // Its memory is not for the next one.
        let room = memtable.limit() as u64;
        let slot = Slot::new(oldest.number.wrapping_sub(1), room, Some(memtable));
        slot.base.store(base, Ordering::Relaxed);
        slot.cut.store(cut, Ordering::Release);
        let list = slots.iter().cloned().chain([Arc::new(slot)]).collect();
        self.slots.store(Arc::new(list));
        self.held
            .fetch_add(usize::from(hold == Hold::Forever), Ordering::AcqRel);
    }

    /// Returns a memtable in which `room` bytes may be reserved.
    pub(crate) fn memtable_of(room: u64) -> Memtable {
        memtable(room)
    }

    /// Skips numbers up to `last`, which were used before this opening.
    pub(crate) fn skip_to(&self, last: Sequence) {
        let skip = |old: u64| (old & SEQUENCE_MASK < last).then_some(old & !SEQUENCE_MASK | last);
        // An error means that they were given out.
        let _ = self
            .counter
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, skip);
    }

    /// Takes numbers for `count` writes of at most `bytes` in memory. When the newest memtable is
    /// full it is sealed, and then `sealed` is called.
    pub(crate) fn assign(&self, count: u64, bytes: u64, mut sealed: impl FnMut()) -> Place {
        loop {
            let slot = Arc::clone(&self.slots()[0]);
            if slot.reserve(bytes) {
                if let Some(place) = self.settle(&slot, count, bytes) {
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

    /// Takes numbers for writes whose bytes are reserved in a memtable; none, and nothing is
    /// reserved, when it was sealed meanwhile.
    fn settle(&self, slot: &Arc<Slot>, count: u64, bytes: u64) -> Option<Place> {
        let Some(first) = self.take(slot.number, count) else {
            slot.reserved.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        };
        // A memtable's number comes round after 256 seals. A writer that has taken a number after
        // the last of them sees the cut of the first.
        if slot.cut.load(Ordering::Acquire) >= first {
            let slot = Arc::clone(slot);
            return Some(Place { slot, first });
        }
        Some(self.settle_late(slot, first, bytes))
    }

    /// Finds the memtable that numbers belong to which were taken with the number of one that was
    /// sealed long ago.
    #[cold]
    fn settle_late(&self, sealed: &Slot, first: Sequence, bytes: u64) -> Place {
        sealed.reserved.fetch_sub(bytes, Ordering::Relaxed);
        // No seal is under way: every cut but the newest memtable's is known.
        let _sealing = self.sealing.lock();
        let slots = self.slots();
        let slot = slots
            .iter()
            .rev()
            .find(|slot| slot.cut.load(Ordering::Acquire) >= first);
        let slot = Arc::clone(slot.expect("a memtable stays until every commit that it holds is seen"));
        // There may be less room than that: what a memtable takes beyond what may be reserved is
        // enough for a few who come late.
        slot.reserved.fetch_add(bytes, Ordering::Relaxed);
        Place { slot, first }
    }

    /// Takes numbers as long as the newest memtable is this one.
    fn take(&self, number: u8, count: u64) -> Option<Sequence> {
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

    /// One number, in a memtable of its own that stays empty.
    pub(crate) fn assign_empty(&self, count: u64) -> Place {
        self.assign_alone(count, 1)
    }

    /// Takes numbers in a memtable without other users.
    fn assign_alone(&self, count: u64, bytes: u64) -> Place {
        let sealing = self.sealing.lock();
        let slot = self.open(&sealing, bytes);
        slot.reserved.store(bytes, Ordering::Relaxed);
        let first = self.take(slot.number, count).expect("nobody else seals");
        self.open(&sealing, self.room);
        Place { slot, first }
    }

    fn seal_if_newest(&self, slot: &Arc<Slot>) -> bool {
        let sealing = self.sealing.lock();
        let is_newest = Arc::ptr_eq(slot, &self.slots()[0]);
        if is_newest {
            self.open(&sealing, self.room);
        }
        is_newest
    }

    /// Seals the newest memtable, unless nothing was ever written to it. Returns the last sequence
    /// number before the next memtable.
    pub(crate) fn seal(&self) -> Sequence {
        let sealing = self.sealing.lock();
        let base = self.slots()[0].base();
        if self.last() > base {
            self.open(&sealing, self.room);
        }
        self.slots()[0].base()
    }

    /// Puts a memtable before the newest, which takes no more from then on.
    fn open(&self, _sealing: &MutexGuard<'_, ()>, room: u64) -> Arc<Slot> {
        let slots = self.slots.load_full();
        let newest = &slots[0];
        let memory = (room == self.room).then(|| self.take_spare()).flatten();
        let next = Arc::new(Slot::new(newest.number.wrapping_add(1), room, memory));
        let list = std::iter::once(&next).chain(slots.iter()).cloned().collect();
        // A writer that gets a number of the next memtable must find it in the list.
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

    /// Returns the oldest memtable, if it is sealed.
    pub(crate) fn oldest_sealed(&self) -> Option<Arc<Slot>> {
        let slots = self.slots();
        let sealed = slots.len() - 1 - self.held();
        (sealed > 0)
            .then(|| Arc::clone(&slots[sealed]))
            .filter(|slot| slot.cut().is_some())
    }

    /// Returns whether all memtables before this one are in the tree.
    pub(crate) fn is_oldest(&self, slot: &Arc<Slot>) -> bool {
        let slots = self.slots();
        Arc::ptr_eq(&slots[slots.len() - 1 - self.held()], slot)
    }

    /// Takes a memtable away that is in the tree now.
    pub(crate) fn remove(&self, slot: &Arc<Slot>) {
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
        if slot.room == self.room {
            self.usual.store(slot.memtable.bytes() as u64, Ordering::Relaxed);
            let mut retired = self.retired.lock();
            retired.push(Arc::clone(slot));
            // All of them together are never more than there may be at work.
            let most = (MOST_SEALED + 1).saturating_sub(sealed);
            let surplus = retired.len().saturating_sub(most);
            let surplus: Vec<Arc<Slot>> = retired.drain(..surplus).collect();
            drop(retired);
            self.let_go(&surplus);
        } else {
            self.let_go(std::slice::from_ref(slot));
        }
    }

    /// Notes memtables that are not used again, as long as readers have them.
    fn let_go(&self, surplus: &[Arc<Slot>]) {
        let mut kept = self.kept_by_readers.lock();
        kept.retain(|memtable| memtable.strong_count() > 0);
        kept.extend(surplus.iter().map(|slot| Arc::downgrade(&slot.memtable)));
    }

    /// Returns the memory of a memtable that has no readers any more, or what was made to spare, if
    /// there is either.
    fn take_spare(&self) -> Option<Memtable> {
        let mut retired = self.retired.lock();
        let forgotten = retired.iter().position(Slot::is_forgotten);
        let cleared = forgotten.and_then(|at| retired.swap_remove(at).into_cleared());
        cleared.or_else(|| self.spare.lock().take())
    }

    /// Gives back the memory of memtables that has waited for the next one for `most` calls: where
    /// they fill slowly, it is of more use elsewhere.
    pub(crate) fn give_back(&self, most: u64) {
        let waits_too_long = |slot: &Slot| slot.rounds.fetch_add(1, Ordering::Relaxed) >= most;
        // The system takes a while to take it back: meanwhile others may have the list.
        let old: Vec<Arc<Slot>> = self
            .retired
            .lock()
            .extract_if(.., |slot| waits_too_long(slot))
            .collect();
        self.let_go(&old);
        drop(old);
    }

    /// Returns the bytes of all memtables, those included whose memory waits for the next one, and
    /// those that only readers have.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let bytes = |slot: &Arc<Slot>| slot.memtable.memory_bytes() as u64;
        let retired: u64 = self.retired.lock().iter().map(bytes).sum();
        let spare = self.spare.lock().as_ref().map_or(0, Memtable::memory_bytes) as u64;
        let empty = self.empty.memory_bytes() as u64;
        let of_readers = |kept: &Weak<Memtable>| kept.upgrade().map_or(0, |kept| kept.memory_bytes() as u64);
        let kept: u64 = self.kept_by_readers.lock().iter().map(of_readers).sum();
        self.slots().iter().map(bytes).sum::<u64>() + retired + spare + empty + kept
    }
}

impl Memtables for Queue {
    fn newest_first(&self) -> MemtableList {
        let slots = self.slots();
        let older = slots.iter().skip(1).map(|slot| slot.base()).chain([UNKNOWN]);
        let entry = |(slot, older): (&Arc<Slot>, Sequence)| MemtableEntry {
            memtable: Arc::clone(&slot.memtable),
            // While it is being opened its base is not known. It is not below that of the one
            // before, which is not in the tree, for its cut is not known either.
            base: Some(slot.base()).filter(|&base| base != UNKNOWN).unwrap_or(older),
        };
        Arc::new(slots.iter().zip(older).map(entry).collect())
    }

    fn empty_ranges(&self) -> Option<&EmptyRanges> {
        Some(&self.empty)
    }
}

/// The same memtables for a reader that may be ahead of what is visible: what it finds empty may be
/// written to by a commit that it should see.
#[derive(Debug)]
pub(crate) struct Unsettled(pub(crate) Arc<Queue>);

impl Memtables for Unsettled {
    fn newest_first(&self) -> MemtableList {
        self.0.newest_first()
    }
}

#[cfg(test)]
mod tests;
