//! The words of a run, and how often each occurs.
//!
//! A word that occurs three times or more takes up three slots, followed by the slots of its count,
//! so that a filter in which one entry occurs very often stays small. Three consecutive equal words
//! always mean that a count follows.

use super::format::slot;
use super::geometry::{BLOCK_SLOTS, COUNT_BITS, FilterGeometry};

/// The slots of a block's runs during construction.
#[derive(Clone, Debug)]
pub(super) struct BlockSlots {
    words: [u64; BLOCK_SLOTS as usize],
    len: u32,
}

impl BlockSlots {
    pub(super) fn new() -> BlockSlots {
        BlockSlots {
            words: [0; BLOCK_SLOTS as usize],
            len: 0,
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn truncate(&mut self, len: u32) {
        self.len = self.len.min(len);
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words[..self.len as usize]
    }

    /// Appends a word that occurs `count` times. If there would be more than `limit` slots, returns
    /// false and appends nothing.
    #[inline(always)]
    pub(super) fn push(&mut self, geometry: &FilterGeometry, word: u64, count: u32, limit: u32) -> bool {
        debug_assert!(limit <= BLOCK_SLOTS && count > 0);
        if count == 1 && self.len < limit {
            self.words[self.len as usize & 63] = word;
            self.len += 1;
            return true;
        }
        self.push_repeated(geometry, word, count, limit)
    }

    #[cold]
    fn push_repeated(&mut self, geometry: &FilterGeometry, word: u64, count: u32, limit: u32) -> bool {
        let slots = slots_for(geometry, count);
        if self.len + slots > limit {
            return false;
        }
        let target = &mut self.words[self.len as usize..(self.len + slots) as usize];
        target[..count.min(3) as usize].fill(word);
        let mut rest = u64::from(count.saturating_sub(3));
        for digit in target.iter_mut().skip(3) {
            *digit = rest & ((1 << geometry.slot_bits) - 1);
            rest = rest.checked_shr(geometry.slot_bits).unwrap_or(0);
        }
        self.len += slots;
        true
    }
}

/// Returns the number of slots for a word that occurs `count` times.
pub(super) fn slots_for(geometry: &FilterGeometry, count: u32) -> u32 {
    if count < 3 {
        count
    } else {
        3 + geometry.count_slots()
    }
}

/// Source of the words of a run: a page, or slots in memory.
pub(super) trait SlotWords {
    /// Returns the word at a position. If there is no such position, returns an arbitrary value and
    /// does not panic.
    fn word(&self, position: u32) -> u64;
}

/// The slots of a page as a source of words.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageWords<'a> {
    pub(super) geometry: &'a FilterGeometry,
    pub(super) page: &'a [u8],
}

impl SlotWords for PageWords<'_> {
    #[inline(always)]
    fn word(&self, position: u32) -> u64 {
        slot(self.geometry, self.page, position)
    }
}

impl SlotWords for &[u64] {
    fn word(&self, position: u32) -> u64 {
        self.get(position as usize).copied().unwrap_or(0)
    }
}

/// Iterator over the distinct words in a range of positions, with their counts. It ends for any
/// bytes, because every step advances.
#[derive(Clone, Debug)]
pub(super) struct SlotRun<W> {
    words: W,
    slot_bits: u32,
    at: u32,
    end: u32,
}

impl<W: SlotWords> SlotRun<W> {
    #[inline(always)]
    pub(super) fn new(geometry: &FilterGeometry, words: W, at: u32, end: u32) -> SlotRun<W> {
        SlotRun {
            words,
            slot_bits: geometry.slot_bits,
            at,
            end,
        }
    }

    /// Returns the position of the next word.
    pub(super) fn position(&self) -> u32 {
        self.at
    }

    #[inline(always)]
    fn repeats(&self, word: u64) -> bool {
        self.at < self.end && self.words.word(self.at) == word
    }

    #[cold]
    fn count(&mut self, word: u64) -> u32 {
        self.at += 1;
        if !self.repeats(word) {
            return 2;
        }
        self.at += 1;
        let mut more = 0u64;
        for shift in (0..COUNT_BITS).step_by(self.slot_bits as usize) {
            more |= self.words.word(self.at) << shift;
            self.at += 1;
        }
        u32::try_from(more.saturating_add(3)).unwrap_or(u32::MAX)
    }
}

impl<W: SlotWords> Iterator for SlotRun<W> {
    type Item = (u64, u32);

    #[inline(always)]
    fn next(&mut self) -> Option<(u64, u32)> {
        if self.at >= self.end {
            return None;
        }
        let word = self.words.word(self.at);
        self.at += 1;
        Some((word, if self.repeats(word) { self.count(word) } else { 1 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FilterShape;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_and_counts_come_back(
            value_bits in 0u32..=16,
            pages in 1u32..2000,
            counts in proptest::collection::btree_map(0u64..200, prop_oneof![1u32..5, Just(u32::MAX), 1u32..100_000], 0..8),
        ) {
            let geometry = FilterGeometry::with_pages(pages, FilterShape::new(30, value_bits)).unwrap();
            let words: Vec<_> = counts.into_iter().map(|(word, count)| (word % (1 << geometry.slot_bits.min(7)), count)).collect();
            let words: std::collections::BTreeMap<_, _> = words.into_iter().collect();
            let mut slots = BlockSlots::new();
            let mut kept = Vec::new();
            for (word, count) in words {
                let before = slots.len();
                if slots.push(&geometry, word, count, BLOCK_SLOTS) {
                    prop_assert_eq!(slots.len() - before, slots_for(&geometry, count));
                    kept.push((word, count));
                } else {
                    prop_assert!(before + slots_for(&geometry, count) > BLOCK_SLOTS);
                }
            }
            let mut run = SlotRun::new(&geometry, slots.words(), 0, slots.len());
            prop_assert_eq!(run.by_ref().collect::<Vec<_>>(), kept);
            prop_assert_eq!(run.position(), slots.len());
        }
    }
}
