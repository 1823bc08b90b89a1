//! The open dictionaries of a structure that a store may have several of.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of dictionaries with one structure that a store lists.
pub(super) const MOST_LISTED: usize = 64;

/// Maximum number of dictionaries with one structure while a store is open. This includes those
/// that became empty and that no keyspace uses any more. They stay in memory until the store is
/// closed, because a reader may still refer to them.
const MOST_OPEN: usize = 256;
const _: () = assert!(MOST_LISTED < MOST_OPEN && MOST_OPEN - 1 == u8::MAX as usize);

/// The open dictionaries with one structure, by their numbers. Each has different options.
#[derive(Debug)]
pub(super) struct DictionaryTable<T> {
    slots: Box<[OnceLock<T>]>,
    /// No slot from this one on is in use.
    end: AtomicUsize,
}

impl<T> Default for DictionaryTable<T> {
    fn default() -> DictionaryTable<T> {
        DictionaryTable {
            slots: (0..MOST_OPEN).map(|_| OnceLock::new()).collect(),
            end: AtomicUsize::new(0),
        }
    }
}

impl<T> DictionaryTable<T> {
    #[inline]
    pub(super) fn get(&self, number: u8) -> Option<&T> {
        self.slots[usize::from(number)].get()
    }

    /// Returns all dictionaries with their numbers, in ascending order.
    pub(super) fn all(&self) -> impl Iterator<Item = (u8, &T)> {
        let used = &self.slots[..self.end()];
        let numbered = (0..=u8::MAX).zip(used);
        numbered.filter_map(|(number, slot)| Some((number, slot.get()?)))
    }

    /// Returns the number after the highest one in use.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.end.load(Ordering::Acquire)
    }

    /// Adds a dictionary under a number that is not in use. Only one thread at a time may add one.
    pub(super) fn set(&self, number: u8, dictionary: T) {
        let is_new = self.slots[usize::from(number)].set(dictionary).is_ok();
        assert!(is_new, "dictionary {number} was not open before");
        self.end.fetch_max(usize::from(number) + 1, Ordering::Release);
    }

    /// Returns the least number that is not in use, or `None` if all are.
    pub(super) fn free_number(&self) -> Option<u8> {
        (0..=u8::MAX).find(|&number| self.get(number).is_none())
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_keep_their_numbers_and_gaps_are_filled() {
        let table = DictionaryTable::default();
        assert_eq!((table.all().count(), table.free_number()), (0, Some(0)));
        for number in [0, 3, 1] {
            table.set(number, number);
        }
        let found: Vec<(u8, &u8)> = table.all().collect();
        assert_eq!(found, [(0, &0), (1, &1), (3, &3)]);
        assert_eq!(
            (table.end(), table.get(2), table.free_number()),
            (4, None, Some(2))
        );
        for number in (0..=u8::MAX).filter(|number| ![0, 1, 3].contains(number)) {
            table.set(number, number);
        }
        assert_eq!((table.all().count(), table.free_number()), (MOST_OPEN, None));
    }
}
