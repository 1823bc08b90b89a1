//! Bookkeeping of a space: bytes that are free, in use, or waiting for a commit.

use super::SpaceExtent;
use std::collections::{BTreeMap, BTreeSet};

/// The extents of a space. They start at multiples of `align`. Allocation uses the smallest free
/// extent that fits.
#[derive(Clone, Debug)]
pub(super) struct ExtentAllocator {
    align: u64,
    capacity: u64,
    free_at: BTreeMap<u64, u64>,
    free_bytes: BTreeSet<(u64, u64)>,
    used: BTreeMap<u64, AllocatedExtent>,
    dead: Vec<SpaceExtent>,
}

#[derive(Clone, Copy, Debug)]
struct AllocatedExtent {
    bytes: u64,
    is_durable: bool,
}

impl ExtentAllocator {
    /// Returns the book of a space of `capacity` bytes, of which all from `from` on are free.
    pub(super) fn new(align: u64, from: u64, capacity: u64) -> ExtentAllocator {
        assert!(align > 0 && from.is_multiple_of(align), "extents are aligned");
        let mut book = ExtentAllocator {
            align,
            capacity: from,
            free_at: BTreeMap::new(),
            free_bytes: BTreeSet::new(),
            used: BTreeMap::new(),
            dead: Vec::new(),
        };
        book.extend(capacity);
        book
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Adds free bytes at the end.
    pub(super) fn extend(&mut self, capacity: u64) {
        let whole = capacity / self.align * self.align;
        if whole > self.capacity {
            let from = self.capacity;
            self.capacity = whole;
            self.add_free_range(from, whole - from);
        }
    }

    /// Returns the number of bytes that are not free.
    pub(super) fn used_bytes(&self) -> u64 {
        debug_assert_eq!(self.free_at.len(), self.free_bytes.len(), "both lists are alike");
        self.capacity - self.free_bytes.iter().map(|&(bytes, _)| bytes).sum::<u64>()
    }

    /// Allocates contiguous bytes; `None` if no free extent is large enough.
    pub(super) fn allocate_extent(&mut self, bytes: u64) -> Option<SpaceExtent> {
        assert!(bytes > 0, "an extent has bytes");
        let whole = self.whole(bytes);
        let &(length, at) = self.free_bytes.range((whole, 0)..).next()?;
        self.remove(at, length);
        if length > whole {
            self.insert(at + whole, length - whole);
        }
        let is_durable = false;
        let before = self.used.insert(at, AllocatedExtent { bytes, is_durable });
        assert!(before.is_none(), "bytes at {at} were free");
        Some(SpaceExtent { at, bytes })
    }

    /// Marks an extent of the last commit as used; returns false if it is not free.
    pub(super) fn reserve_durable(&mut self, extent: SpaceExtent) -> bool {
        let whole = self.whole(extent.bytes);
        let Some(end) = extent.at.checked_add(whole) else {
            return false;
        };
        let Some((&at, &length)) = self.free_at.range(..=extent.at).next_back() else {
            return false;
        };
        if end > at + length || !extent.at.is_multiple_of(self.align) || extent.bytes == 0 {
            return false;
        }
        self.remove(at, length);
        if extent.at > at {
            self.insert(at, extent.at - at);
        }
        if at + length > end {
            self.insert(end, at + length - end);
        }
        let bytes = extent.bytes;
        let is_durable = true;
        self.used.insert(extent.at, AllocatedExtent { bytes, is_durable });
        true
    }

    /// Releases an extent, and returns whether it is free immediately.
    pub(super) fn release(&mut self, extent: SpaceExtent) -> bool {
        let used = self.used.remove(&extent.at);
        let used = used.expect("what is released was allocated");
        assert_eq!(used.bytes, extent.bytes, "an extent is released as a whole");
        if used.is_durable {
            self.dead.push(extent);
        } else {
            self.add_free_range(extent.at, self.whole(extent.bytes));
        }
        !used.is_durable
    }

    /// Returns whether an extent may be written (AS1).
    pub(super) fn is_fresh(&self, extent: SpaceExtent) -> bool {
        let used = self.used.get(&extent.at);
        used.is_some_and(|used| !used.is_durable && used.bytes == extent.bytes)
    }

    /// Marks the extents in use as durable, and returns the extents that this frees.
    pub(super) fn committed(&mut self) -> Vec<SpaceExtent> {
        self.used.values_mut().for_each(|used| used.is_durable = true);
        let dead = std::mem::take(&mut self.dead);
        for extent in &dead {
            self.add_free_range(extent.at, self.whole(extent.bytes));
        }
        dead
    }

    /// Returns the extents in use, in order.
    pub(super) fn extents(&self) -> impl Iterator<Item = SpaceExtent> {
        self.used.iter().map(|(&at, used)| SpaceExtent {
            at,
            bytes: used.bytes,
        })
    }

    fn whole(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.align).saturating_mul(self.align)
    }

    fn add_free_range(&mut self, mut at: u64, mut bytes: u64) {
        if let Some((&before, &length)) = self.free_at.range(..at).next_back() {
            assert!(before + length <= at, "bytes at {at} are free already");
            if before + length == at {
                self.remove(before, length);
                (at, bytes) = (before, length + bytes);
            }
        }
        if let Some((&after, &length)) = self.free_at.range(at..).next() {
            assert!(at + bytes <= after, "bytes at {after} are free already");
            if at + bytes == after {
                self.remove(after, length);
                bytes += length;
            }
        }
        self.insert(at, bytes);
    }

    fn insert(&mut self, at: u64, bytes: u64) {
        debug_assert!(bytes > 0, "a free range has bytes");
        self.free_at.insert(at, bytes);
        self.free_bytes.insert((bytes, at));
    }

    fn remove(&mut self, at: u64, bytes: u64) {
        self.free_at.remove(&at);
        self.free_bytes.remove(&(bytes, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_commit_reaches_is_free_after_the_next_only() {
        let mut book = ExtentAllocator::new(16, 32, 160);
        let first = book.allocate_extent(20).unwrap();
        assert_eq!((first.at, book.used_bytes()), (32, 64));
        assert!(book.is_fresh(first));
        assert!(book.committed().is_empty() && !book.is_fresh(first));
        assert!(!book.release(first), "the last commit reaches it");
        let second = book.allocate_extent(20).unwrap();
        assert_eq!(second.at, 64);
        assert!(book.release(second), "no commit reaches it");
        assert_eq!(book.allocate_extent(20).unwrap(), second);
        assert_eq!(book.committed(), [first]);
        assert_eq!(book.allocate_extent(32).unwrap().at, 32);
        assert!(book.allocate_extent(80).is_none(), "64 bytes are left");
        book.extend(200);
        assert_eq!(book.capacity(), 192);
        assert_eq!(book.allocate_extent(80).unwrap().at, 96, "neighbours are one");
    }

    #[test]
    fn extents_of_a_commit_are_entered_once() {
        let mut book = ExtentAllocator::new(16, 0, 160);
        let at = |at, bytes| SpaceExtent { at, bytes };
        assert!(
            book.reserve_durable(at(32, 10))
                && book.reserve_durable(at(0, 32))
                && book.reserve_durable(at(144, 16))
        );
        for wrong in [
            at(32, 1),
            at(40, 8),
            at(160, 1),
            at(144, 32),
            at(64, 0),
            at(u64::MAX - 15, 20),
        ] {
            assert!(!book.reserve_durable(wrong), "{wrong:?}");
        }
        assert_eq!(book.extents().count(), 3);
        assert_eq!(book.used_bytes(), 64);
    }
}
