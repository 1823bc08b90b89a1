//! A segregated-fit allocator for items of any length in a single memory region.
//!
//! Free blocks are kept in lists by size: one list for every multiple of 8 bytes up to the longest
//! item, and one for all larger blocks (Lim 2015, §5.3.4; Wilson et al. 1995). An allocation uses
//! the smallest free block that fits, and frees the remainder. A freed block is joined with its
//! free neighbours, which boundary tags locate. Memory does not belong to a size class, so size
//! classes never have to be rebalanced.
//!
//! ```text
//!   UNITS  a block, in units of 8 bytes
//!   WORDS  MEANING
//!   1      bits 0–29 units of this block · 30 in use · 31 the block before is in use
//!   1      free: the next block of its list, in units from the start; 0 for none
//!   1      free: the block before in its list
//!   any
//!   1      free, the last word: its units, for the block behind it
//! ```

use super::memory::{ItemWords, WORD};
use super::mode::ConcurrencyMode;
use super::sync::{AtomicU32, AtomicU64, Ordering};
use std::marker::PhantomData;

/// Number of words per unit. Blocks consist of whole units.
const UNIT: usize = 2;
/// Minimum number of units per block, because the header, two links and the boundary tag take four
/// words.
const LEAST: usize = 2;
/// Number of words before the contents of a block in use.
pub(super) const LEAD: usize = 1;

const USED: u32 = 1 << 30;
const BEFORE_USED: u32 = 1 << 31;
const UNITS: u32 = USED - 1;

/// The lists of free blocks in a region. Only writers use them, and writers exclude each other.
#[derive(Debug)]
pub(super) struct SegregatedHeap<M> {
    /// First block in each list, as a unit number, or 0 for an empty list. The last list contains
    /// all larger blocks.
    lists: Box<[AtomicU32]>,
    /// Bitmap of the nonempty lists.
    occupied: Box<[AtomicU64]>,
    /// Size of the region, in units.
    units: usize,
    /// Total size of the blocks in use, in units.
    used: AtomicU64,
    mode: PhantomData<M>,
}

impl<M: ConcurrencyMode> SegregatedHeap<M> {
    /// Returns the number of words in a heap with `bytes` bytes of blocks.
    pub(super) fn words(bytes: usize) -> usize {
        // The first unit is reserved, so that a link of zero can mean "none". The last unit is
        // always marked as in use, so that no block is joined with anything past the end.
        (bytes / (UNIT * WORD) + 2) * UNIT
    }

    /// Creates a heap with a single free block, which can allocate items of at most `longest`
    /// words.
    ///
    /// # Panics
    /// If the region has more units than the size field of a block can represent, or fewer than a
    /// single block needs.
    pub(super) fn new(words: &ItemWords<M>, longest: usize) -> SegregatedHeap<M> {
        let units = words.len() / UNIT - 2;
        assert!(
            units >= LEAST && units < UNITS as usize,
            "a heap of {units} units"
        );
        let lists = units_for(longest) + 2;
        let heap = SegregatedHeap {
            lists: (0..lists).map(|_| AtomicU32::new(0)).collect(),
            occupied: (0..lists.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            units,
            used: AtomicU64::new(0),
            mode: PhantomData,
        };
        words.store((1 + units) * UNIT, USED);
        heap.put(words, 1, units, BEFORE_USED);
        heap
    }

    /// Returns the total size of all blocks and the size of those in use, both in bytes.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let used = self.used.load(Ordering::Relaxed) as usize;
        (self.units * UNIT * WORD, used * UNIT * WORD)
    }

    /// Allocates `count` words. Returns the index of the first, or `None` if no free block is large
    /// enough.
    pub(super) fn allocate(&self, words: &ItemWords<M>, count: usize) -> Option<usize> {
        let wanted = units_for(count);
        let block = self.smallest(wanted)?;
        let header = words.load(block * UNIT);
        let has = (header & UNITS) as usize;
        assert!(
            header & USED == 0 && has >= wanted,
            "a block of {has} units for {wanted}"
        );
        self.take(words, block, has);
        let rest = has - wanted;
        let given = if rest < LEAST { has } else { wanted };
        words.store(block * UNIT, given as u32 | USED | header & BEFORE_USED);
        if given < has {
            self.put(words, block + given, rest, BEFORE_USED);
        } else {
            let behind = (block + has) * UNIT;
            words.store(behind, words.load(behind) | BEFORE_USED);
        }
        self.add_used(given as i64);
        Some(block * UNIT + LEAD)
    }

    /// Frees the allocation that starts at word `at`.
    pub(super) fn free(&self, words: &ItemWords<M>, at: usize) {
        let block = (at - LEAD) / UNIT;
        let header = words.load(block * UNIT);
        assert!(
            header & USED != 0 && (at - LEAD).is_multiple_of(UNIT),
            "a block is freed once"
        );
        let (mut start, mut units, mut before) = (block, (header & UNITS) as usize, header & BEFORE_USED);
        self.add_used(-(units as i64));
        let behind = words.load((block + units) * UNIT);
        if behind & USED == 0 {
            let has = (behind & UNITS) as usize;
            self.take(words, block + units, has);
            units += has;
        }
        if before == 0 {
            let has = words.load(block * UNIT - 1) as usize;
            start -= has;
            self.take(words, start, has);
            before = words.load(start * UNIT) & BEFORE_USED;
            units += has;
        }
        self.put(words, start, units, before);
    }

    /// Returns the number of words in the allocation that starts at word `at`.
    pub(super) fn allocated(&self, words: &ItemWords<M>, at: usize) -> usize {
        (words.load(at - LEAD) & UNITS) as usize * UNIT - LEAD
    }

    fn add_used(&self, units: i64) {
        let used = self.used.load(Ordering::Relaxed).wrapping_add_signed(units);
        self.used.store(used, Ordering::Relaxed);
    }

    /// Returns the number of the list for free blocks of `units` units.
    fn list(&self, units: usize) -> usize {
        units.min(self.lists.len() - 1)
    }

    /// Returns a block from the first nonempty list that has only blocks of at least `wanted`
    /// units. This includes the last list, whose blocks are larger than the longest item.
    fn smallest(&self, wanted: usize) -> Option<usize> {
        assert!(
            wanted < self.lists.len() - 1,
            "{wanted} units, longer than any item"
        );
        let mut at = wanted / 64;
        let mut bits = self.occupied[at].load(Ordering::Relaxed) & (u64::MAX << (wanted % 64));
        while bits == 0 {
            at += 1;
            bits = self.occupied.get(at)?.load(Ordering::Relaxed);
        }
        let list = at * 64 + bits.trailing_zeros() as usize;
        Some(self.lists[list].load(Ordering::Relaxed) as usize)
    }

    /// Removes a free block from its list.
    fn take(&self, words: &ItemWords<M>, block: usize, units: usize) {
        let list = self.list(units);
        let (next, before) = (words.load(block * UNIT + 1), words.load(block * UNIT + 2));
        if next != 0 {
            words.store(next as usize * UNIT + 2, before);
        }
        if before != 0 {
            words.store(before as usize * UNIT + 1, next);
        } else {
            debug_assert_eq!(self.lists[list].load(Ordering::Relaxed), block as u32);
            self.lists[list].store(next, Ordering::Relaxed);
            if next == 0 {
                let bits = self.occupied[list / 64].load(Ordering::Relaxed);
                self.occupied[list / 64].store(bits & !(1 << (list % 64)), Ordering::Relaxed);
            }
        }
    }

    /// Adds a free block to its list, and marks in the next block that the one before it is free.
    fn put(&self, words: &ItemWords<M>, block: usize, units: usize, before: u32) {
        let list = self.list(units);
        let next = self.lists[list].load(Ordering::Relaxed);
        words.store(block * UNIT, units as u32 | before);
        words.store(block * UNIT + 1, next);
        words.store(block * UNIT + 2, 0);
        words.store((block + units) * UNIT - 1, units as u32);
        if next != 0 {
            words.store(next as usize * UNIT + 2, block as u32);
        }
        self.lists[list].store(block as u32, Ordering::Relaxed);
        let bits = self.occupied[list / 64].load(Ordering::Relaxed);
        self.occupied[list / 64].store(bits | 1 << (list % 64), Ordering::Relaxed);
        let behind = (block + units) * UNIT;
        words.store(behind, words.load(behind) & !BEFORE_USED);
    }
}

/// Returns the number of units in a block that holds `words` words.
fn units_for(words: usize) -> usize {
    (words + LEAD).div_ceil(UNIT).max(LEAST)
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::super::mode::Erew;
    use super::*;

    /// Checks the headers of all blocks, and returns the sizes of the free ones.
    fn walk(heap: &SegregatedHeap<Erew>, words: &ItemWords<Erew>) -> Vec<usize> {
        let (mut at, mut before_used, mut free) = (1, true, Vec::new());
        let mut used = 0;
        while at < 1 + heap.units {
            let header = words.load(at * UNIT);
            let units = (header & UNITS) as usize;
            assert!(
                units >= LEAST && (header & BEFORE_USED != 0) == before_used,
                "block {at}"
            );
            before_used = header & USED != 0;
            if before_used {
                used += units;
            } else {
                assert_eq!(words.load((at + units) * UNIT - 1), units as u32, "its tag");
                free.push(units);
            }
            at += units;
        }
        assert_eq!(at, 1 + heap.units, "blocks end where the heap does");
        assert_eq!(heap.bytes().1, used * UNIT * WORD);
        free
    }

    #[test]
    fn blocks_do_not_overlap_and_all_of_them_become_one_again() {
        for seed in 0..8 {
            let words = ItemWords::<Erew>::reserve(SegregatedHeap::<Erew>::words(40_000)).unwrap();
            let heap = SegregatedHeap::new(&words, 150);
            let mut random = fastrand::Rng::with_seed(seed);
            let mut held: Vec<(usize, usize, u32)> = Vec::new();
            let mut refused = 0;
            for step in 0..20_000_u32 {
                if random.usize(..100) < 60 - (step as usize / 4000) * 6 {
                    let count = if random.bool() {
                        random.usize(1..10)
                    } else {
                        random.usize(1..=150)
                    };
                    if let Some(at) = heap.allocate(&words, count) {
                        assert!(heap.allocated(&words, at) >= count);
                        (at..at + heap.allocated(&words, at)).for_each(|at| words.store(at, step));
                        held.push((at, count, step));
                    } else {
                        refused += 1;
                        assert!(walk(&heap, &words).iter().all(|&units| units < units_for(count)));
                    }
                } else if !held.is_empty() {
                    let (at, count, mark) = held.swap_remove(random.usize(..held.len()));
                    assert!(
                        (at..at + count).all(|at| words.load(at) == mark),
                        "another wrote there"
                    );
                    heap.free(&words, at);
                }
                if step % 500 == 0 {
                    let free = walk(&heap, &words);
                    assert!(free.len() <= held.len() + 1, "free neighbours are joined");
                }
            }
            assert!(refused > 0, "it was full once");
            held.iter().for_each(|(at, ..)| heap.free(&words, *at));
            assert_eq!(walk(&heap, &words), [heap.units], "one block");
        }
    }
}
