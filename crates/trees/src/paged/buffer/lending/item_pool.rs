//! A pool of numbered items that are lent to frames and returned later.

use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The item number that stands for "no item".
pub(in crate::paged::buffer) const NOTHING: u32 = u32::MAX;
/// Number of items in the first chunk. Each further chunk has twice as many as the one before.
const FIRST_CHUNK: u32 = 64;
/// Number of chunks, enough for more than 10⁹ items.
const CHUNKS: usize = 24;
const _: () = assert!(FIRST_CHUNK.is_power_of_two(), "a chunk is found by bits");

#[derive(Debug, Default)]
struct FreeNumbers {
    /// Numbers of the existing items that are not lent.
    back: Vec<u32>,
    /// Number of items that have been created.
    made: u32,
}

/// A pool with a limited number of numbered items. Items are created on first use and never move,
/// so a reader may still access an item that has meanwhile been lent to another frame.
#[derive(Debug)]
pub(in crate::paged::buffer) struct ItemPool<T> {
    chunks: [OnceLock<Box<[OnceLock<T>]>>; CHUNKS],
    free: Mutex<FreeNumbers>,
    /// Maximum number of items. [`ItemPool::allow`] raises it.
    most: AtomicU32,
    /// Approximate number of items that can still be lent.
    left: AtomicU32,
}

impl<T> ItemPool<T> {
    /// Creates an empty pool, which may not have any items yet.
    pub(in crate::paged::buffer) fn new() -> ItemPool<T> {
        ItemPool {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::default(),
            most: AtomicU32::new(0),
            left: AtomicU32::new(0),
        }
    }

    /// Raises the maximum number of items to `most`, unless it is already higher.
    pub(in crate::paged::buffer) fn allow(&self, most: u32) {
        let before = self.most.fetch_max(most, Ordering::Relaxed);
        self.left
            .fetch_add(most.saturating_sub(before), Ordering::Relaxed);
        assert!(self.most() >= most, "they are allowed");
    }

    pub(in crate::paged::buffer) fn most(&self) -> u32 {
        self.most.load(Ordering::Relaxed)
    }

    /// Returns the chunk of an item number, the length of that chunk, and the index within the
    /// chunk.
    fn place(number: u32) -> (usize, u64, usize) {
        let shifted = u64::from(number) + u64::from(FIRST_CHUNK);
        let chunk = (shifted / u64::from(FIRST_CHUNK)).ilog2();
        let len = u64::from(FIRST_CHUNK) << chunk;
        (chunk as usize, len, (shifted - len) as usize)
    }

    /// Returns the item whose number is in a slot, or `None` if the slot is empty.
    pub(in crate::paged::buffer) fn get(&self, slot: &AtomicU32) -> Option<&T> {
        let number = slot.load(Ordering::Acquire);
        if number == NOTHING {
            return None;
        }
        let (chunk, _, at) = Self::place(number);
        self.chunks.get(chunk)?.get()?.get(at)?.get()
    }

    /// Returns the item whose number is in a slot. If the slot is empty, lends an item to it, which
    /// `make` creates if it is new. A reused item is in the state in which it was returned. Returns
    /// `None` if no item is left.
    pub(in crate::paged::buffer) fn get_or_lend(
        &self,
        slot: &AtomicU32,
        make: impl FnOnce() -> T,
    ) -> Option<&T> {
        if let Some(there) = self.get(slot) {
            return Some(there);
        }
        let number = self.take()?;
        let (chunk, len, at) = Self::place(number);
        let chunk = self.chunks.get(chunk)?;
        let chunk = chunk.get_or_init(|| (0..len).map(|_| OnceLock::new()).collect());
        let lent = chunk.get(at)?.get_or_init(make);
        let given = slot.compare_exchange(NOTHING, number, Ordering::AcqRel, Ordering::Relaxed);
        if given.is_err() {
            // Another thread filled the slot first.
            self.put(number);
            return self.get(slot);
        }
        Some(lent)
    }

    fn take(&self) -> Option<u32> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut free = self.free.lock();
        let number = match free.back.pop() {
            Some(number) => number,
            None if free.made < self.most() => {
                free.made += 1;
                free.made - 1
            }
            None => return None,
        };
        self.left.fetch_sub(1, Ordering::Relaxed);
        Some(number)
    }

    fn put(&self, number: u32) {
        let mut free = self.free.lock();
        debug_assert!(!free.back.contains(&number), "a thing has one frame");
        free.back.push(number);
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the item in a slot back into the pool, and empties the slot.
    pub(in crate::paged::buffer) fn take_back(&self, slot: &AtomicU32) {
        if slot.load(Ordering::Relaxed) == NOTHING {
            return;
        }
        let number = slot.swap(NOTHING, Ordering::AcqRel);
        if number != NOTHING {
            self.put(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_lent_as_are_allowed_and_each_to_one_slot() {
        let kept: ItemPool<AtomicU32> = ItemPool::new();
        let slots: Vec<AtomicU32> = (0..200).map(|_| AtomicU32::new(NOTHING)).collect();
        assert!(kept.get_or_lend(&slots[0], AtomicU32::default).is_none());
        kept.allow(150);
        for (at, slot) in slots.iter().enumerate() {
            match kept.get_or_lend(slot, AtomicU32::default) {
                Some(lent) => lent.store(at as u32, Ordering::Relaxed),
                None => assert!(at >= 150),
            }
        }
        let value = |slot: &AtomicU32| kept.get(slot).map(|lent| lent.load(Ordering::Relaxed));
        assert!((0..150).all(|at| value(&slots[at]) == Some(at as u32)));
        kept.take_back(&slots[7]);
        kept.take_back(&slots[7]);
        assert_eq!(value(&slots[7]), None);
        let again = kept.get_or_lend(&slots[180], AtomicU32::default).unwrap();
        assert_eq!(again.load(Ordering::Relaxed), 7, "as it was left");
        assert!(kept.get_or_lend(&slots[181], AtomicU32::default).is_none());
    }

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut places = std::collections::BTreeSet::new();
        for number in 0..5000 {
            let (chunk, len, at) = ItemPool::<u8>::place(number);
            assert!(at < len as usize && places.insert((chunk, at)), "{number}");
        }
    }
}
