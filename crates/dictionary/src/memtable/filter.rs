//! Which keys a memtable does not hold, by one word: most lookups find nothing in it, and a descent
//! waits for memory twice.
//!
//! A Bloom filter whose bits for a key are all in one word (Putze, Sanders and Singler, Cache-,
//! Hash- and Space-Efficient Bloom Filters, 2007), so that an insertion changes a single word, at
//! once.

use crate::sync::{AtomicU64, Ordering};
use alluvium_base::prefetch_line;
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

/// Bytes of a memtable to one of its filter: with values of a hundred bytes some 20 bits for each
/// key.
const BYTES_PER_BYTE: usize = 128;
/// Bits that a key sets.
const BITS: u32 = 4;

/// The filter. Several threads add to it while others ask.
#[derive(Debug)]
pub(super) struct Filter {
    words: Box<[AtomicU64]>,
}

/// Where a key's bits are.
#[derive(Clone, Copy)]
pub(super) struct Bits<'f> {
    word: &'f AtomicU64,
    mask: u64,
}

impl Filter {
    /// Allocates the filter of a memtable of `limit` bytes.
    pub(super) fn new(limit: usize) -> Filter {
        let words = (limit / BYTES_PER_BYTE / size_of::<u64>()).max(1);
        Filter {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The same, with nothing in it.
    pub(super) fn cleared(self) -> Filter {
        for word in &self.words {
            word.store(0, Ordering::Relaxed);
        }
        self
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// A key's bits.
    #[inline]
    pub(super) fn of(&self, key: &[u8]) -> Bits<'_> {
        let mut hasher = FixedState::with_seed(0).build_hasher();
        hasher.write(key);
        let hash = hasher.finish();
        let at = ((hash >> 32) * self.words.len() as u64) >> 32;
        let mask = (0..BITS).fold(0, |mask, number| mask | 1 << (hash >> (6 * number) & 63));
        Bits {
            word: &self.words[at as usize],
            mask,
        }
    }
}

impl Bits<'_> {
    /// Asks the processor for them.
    #[inline]
    pub(super) fn prefetch(self) {
        prefetch_line(self.word);
    }

    /// Sets the bits of a key that is about to be inserted. A reader that learns of the key later
    /// sees them (M6).
    #[inline]
    pub(super) fn add(self) {
        if !self.may_be_there() {
            self.word.fetch_or(self.mask, Ordering::Relaxed);
        }
    }

    /// Whether the key may be there.
    #[inline]
    pub(super) fn may_be_there(self) -> bool {
        self.word.load(Ordering::Relaxed) & self.mask == self.mask
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_added_is_denied_and_few_strangers_pass() {
        const KEYS: u32 = 200_000;
        let filter = Filter::new(64 << 20);
        assert_eq!(filter.bytes(), 512 << 10);
        let strangers = |filter: &Filter| {
            let passes = |key: &u32| filter.of(&key.to_le_bytes()).may_be_there();
            (KEYS..2 * KEYS).filter(passes).count()
        };
        for key in 0..KEYS {
            filter.of(&key.to_le_bytes()).add();
        }
        assert!((0..KEYS).all(|key| filter.of(&key.to_le_bytes()).may_be_there()));
        let passed = strangers(&filter);
        assert!((200..2_000).contains(&passed), "{passed} of 200,000 pass");
        assert_eq!(strangers(&filter.cleared()), 0);
    }
}
