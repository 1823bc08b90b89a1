//! In-memory Bloom filters that keep all bits of a key in one block, so that a lookup reads only
//! one cache line.
//!
//! Blocked Bloom filters: Putze, Sanders and Singler, "Cache-, hash- and space-efficient Bloom
//! filters", 2007. A block is either a word or a cache line. With a word ([`WordBlock`]), an
//! insertion is one atomic instruction. With a cache line ([`LineBlock`]), there are fewer false
//! positives for the same size. Any number of threads may query and add keys concurrently. Keys are
//! never removed (F8).
//!
//! ```text
//!   hash      high half: number of the block · low bits (mixed again for a line): the bits within it
//!   Word       64 bits, 4 of them for a key     about 1 in 200 unknown keys pass at 20 bits for a key
//!   Line      512 bits, 6 of them for a key     about 1 in 100 pass at 10 bits for a key
//! ```

use crate::sync::{AtomicU64, Ordering};
use alluvium_base::prefetch_line;
use std::fmt;

/// The kind of block that makes up a [`BloomFilter`].
pub trait BloomBlock: Default {
    /// Number of bits in a block.
    const BITS: u32;
    /// Number of bits set for each key, some of which may coincide.
    const PROBES: u32;

    /// Returns the part of a hash that selects the bits of a key.
    fn choose(hash: u64) -> u64;

    /// Returns the selected bits: for each, the index of a word in the block and a bit mask for
    /// that word.
    fn parts(chosen: u64) -> impl Iterator<Item = (usize, u64)>;

    /// Returns the words of the block.
    fn words(&self) -> &[AtomicU64];
}

/// A block of one word.
#[derive(Debug, Default)]
pub struct WordBlock([AtomicU64; 1]);

/// A block of one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct LineBlock([AtomicU64; 8]);

#[cfg(not(alluvium_model_check))]
const _: () = assert!(size_of::<WordBlock>() * 8 == WordBlock::BITS as usize);
#[cfg(not(alluvium_model_check))]
const _: () = assert!(size_of::<LineBlock>() * 8 == LineBlock::BITS as usize);
// A hash must have enough bits to select all bits of a key.
const _: () = assert!(
    WordBlock::PROBES * WordBlock::BITS.ilog2() <= 32 && LineBlock::PROBES * LineBlock::BITS.ilog2() <= 64
);

impl BloomBlock for WordBlock {
    const BITS: u32 = 64;
    const PROBES: u32 = 4;

    #[inline]
    fn choose(hash: u64) -> u64 {
        (0..Self::PROBES).fold(0, |mask, number| mask | 1 << (hash >> (6 * number) & 63))
    }

    #[inline]
    fn parts(chosen: u64) -> impl Iterator<Item = (usize, u64)> {
        std::iter::once((0, chosen))
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

impl BloomBlock for LineBlock {
    const BITS: u32 = 512;
    const PROBES: u32 = 6;

    #[inline]
    fn choose(hash: u64) -> u64 {
        (hash ^ hash >> 32).wrapping_mul(0x94d0_49bb_1331_11eb) >> (64 - 9 * Self::PROBES)
    }

    #[inline]
    fn parts(chosen: u64) -> impl Iterator<Item = (usize, u64)> {
        (0..Self::PROBES).map(move |number| {
            let bit = chosen >> (9 * number) & u64::from(Self::BITS - 1);
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// An in-memory Bloom filter made of blocks.
///
/// ```
/// use alluvium_filters::{BloomFilter, LineBlock, hash};
/// let filter: BloomFilter<LineBlock> = BloomFilter::new(100);
/// filter.of(hash(0, b"pear")).add();
/// assert!(filter.of(hash(0, b"pear")).may_contain());
/// assert!(!filter.of(hash(0, b"plum")).may_contain());
/// ```
pub struct BloomFilter<B> {
    blocks: Box<[B]>,
}

/// Location of a key's bits in a filter.
#[derive(Debug)]
pub struct BloomPosition<'f, B> {
    block: &'f B,
    chosen: u64,
}

impl<B> Clone for BloomPosition<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for BloomPosition<'_, B> {}

impl<B: BloomBlock> BloomFilter<B> {
    /// Creates an empty filter with `blocks` blocks, or with one if that is 0.
    ///
    /// # Panics
    /// If there are 2³² blocks or more, because only half of a hash selects the block.
    #[must_use]
    pub fn new(blocks: usize) -> BloomFilter<B> {
        assert!(blocks < 1 << 32, "a filter of {blocks} blocks");
        BloomFilter {
            blocks: (0..blocks.max(1)).map(|_| B::default()).collect(),
        }
    }

    #[must_use]
    pub fn cleared(self) -> BloomFilter<B> {
        for word in self.blocks.iter().flat_map(BloomBlock::words) {
            word.store(0, Ordering::Relaxed);
        }
        self
    }

    /// Returns the size of the filter in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.blocks)
    }

    /// Returns the location of the bits for a hash, both halves of which must be well mixed.
    #[must_use]
    #[inline]
    pub fn of(&self, hash: u64) -> BloomPosition<'_, B> {
        let number = ((hash >> 32) * self.blocks.len() as u64) >> 32;
        BloomPosition {
            block: &self.blocks[number as usize],
            chosen: B::choose(hash),
        }
    }

    /// Returns the expected false-positive rate of a filter with `blocks` blocks and `keys` keys.
    /// It is averaged over the number of keys per block, which has a Poisson distribution.
    #[must_use]
    pub fn false_positive_rate(blocks: usize, keys: u64) -> f64 {
        let mean = keys as f64 / blocks.max(1) as f64;
        if mean > 600.0 {
            return 1.0;
        }
        let unset = 1.0 - 1.0 / f64::from(B::BITS);
        let mut probability = (-mean).exp();
        let mut rate = 0.0;
        for in_block in 1..=(mean + 12.0 * mean.sqrt() + 24.0) as i32 {
            probability *= mean / f64::from(in_block);
            let probes = B::PROBES as i32;
            rate += probability * (1.0 - unset.powi(in_block * probes)).powi(probes);
        }
        rate
    }
}

impl<B> fmt::Debug for BloomFilter<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BloomFilter")
            .field("bytes", &size_of_val(&*self.blocks))
            .finish_non_exhaustive()
    }
}

impl<B: BloomBlock> BloomPosition<'_, B> {
    /// Prefetches the cache line of the key's block.
    #[inline]
    pub fn prefetch(self) {
        prefetch_line(self.block);
    }

    /// Returns whether the key may have been added. Always true if the current thread has learnt
    /// that another thread has added the key (F8).
    #[must_use]
    #[inline]
    pub fn may_contain(self) -> bool {
        let words = self.block.words();
        B::parts(self.chosen).all(|(at, mask)| words[at].load(Ordering::Relaxed) & mask == mask)
    }

    /// Adds the key. Other threads may add keys concurrently.
    #[inline]
    pub fn add(self) {
        if !self.may_contain() {
            let words = self.block.words();
            for (at, mask) in B::parts(self.chosen) {
                words[at].fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    /// Adds the key without atomic read-modify-write instructions. No other thread may be adding a
    /// key, because one of the two keys might be lost.
    #[inline]
    pub fn add_alone(self) {
        let words = self.block.words();
        for (at, mask) in B::parts(self.chosen) {
            words[at].store(words[at].load(Ordering::Relaxed) | mask, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::hash;

    fn of(number: u64) -> u64 {
        hash(0, &number.to_le_bytes())
    }

    /// Adds some keys and compares the measured false-positive rate with the theoretical one.
    fn answers_as_computed<B: BloomBlock>(blocks: usize, keys: u64) {
        let filter: BloomFilter<B> = BloomFilter::new(blocks);
        for number in 0..keys {
            if number % 2 == 0 {
                filter.of(of(number)).add();
            } else {
                filter.of(of(number)).add_alone();
            }
        }
        assert!((0..keys).all(|number| filter.of(of(number)).may_contain()), "F8");
        let passes = |filter: &BloomFilter<B>| {
            let unknown = keys..keys + 400_000;
            unknown
                .filter(|&number| filter.of(of(number)).may_contain())
                .count()
        };
        let (passed, theory) = (
            passes(&filter) as f64 / 400_000.0,
            BloomFilter::<B>::false_positive_rate(blocks, keys),
        );
        assert!(
            passed < theory * 1.15 + 3e-5 && passed > theory * 0.85 - 3e-5,
            "{passed:e} pass, not {theory:e}"
        );
        assert_eq!(passes(&filter.cleared()), 0);
    }

    #[test]
    fn what_was_added_is_found_and_unknown_keys_pass_as_often_as_computed() {
        answers_as_computed::<WordBlock>(20_000, 64_000);
        answers_as_computed::<WordBlock>(20_000, 10_000);
        answers_as_computed::<LineBlock>(1_000, 51_200);
        answers_as_computed::<LineBlock>(1_000, 20_000);
    }

    #[test]
    fn threads_that_add_at_once_lose_no_key() {
        let filter: BloomFilter<WordBlock> = BloomFilter::new(4);
        std::thread::scope(|scope| {
            for part in 0..4u64 {
                let filter = &filter;
                scope.spawn(move || (0..50).for_each(|number| filter.of(of(part * 50 + number)).add()));
            }
        });
        assert!((0..200).all(|number| filter.of(of(number)).may_contain()));
    }
}
