//! How long values are: a batch reads no more at once than takes little memory, and none so much
//! that the memory of clients would not have it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How long the values were that were read lately, and the longest since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    longest: AtomicUsize,
    longest_ever: AtomicUsize,
    /// How many bytes one batch may read, whatever was read lately; 0 for any number.
    share: AtomicUsize,
}

impl Sizes {
    /// What a batch reads beforehand, about.
    const AT_ONCE: usize = 1 << 20;

    /// A value was so long.
    pub(crate) fn note(&self, bytes: usize) {
        if bytes > self.longest.load(Ordering::Relaxed) {
            self.longest.store(bytes, Ordering::Relaxed);
        }
    }

    /// A value of a length is in the store. Unlike one that was read, it is not forgotten.
    pub(crate) fn note_kept(&self, bytes: usize) {
        if bytes > SHORT && bytes > self.longest_ever.load(Ordering::Relaxed) {
            self.longest_ever.store(bytes, Ordering::Relaxed);
        }
    }

    /// From now on one batch may read no more bytes.
    pub(crate) fn set_share(&self, bytes: usize) {
        self.share.store(bytes, Ordering::Relaxed);
    }

    /// How many bytes a number of values may have; 0 where that is little.
    pub(crate) fn at_worst(&self, values: usize) -> usize {
        match self.longest_ever.load(Ordering::Relaxed).saturating_mul(values) {
            ..LITTLE => 0,
            bytes => bytes,
        }
    }

    /// How many records are to be read at once.
    pub(crate) fn most(&self) -> usize {
        let usual = Sizes::AT_ONCE / self.longest.load(Ordering::Relaxed).max(1);
        let share = self.share.load(Ordering::Relaxed);
        let at_worst = match (share, self.longest_ever.load(Ordering::Relaxed)) {
            (0, _) | (_, 0) => usize::MAX,
            (share, longest) => share / longest,
        };
        usual.min(at_worst).max(1)
    }

    /// A second has passed: long replies count a little less.
    pub(crate) fn age(&self) {
        let longest = self.longest.load(Ordering::Relaxed);
        self.longest.store(longest - longest / 16, Ordering::Relaxed);
    }
}

/// Reads of fewer bytes are not charged.
const LITTLE: usize = 256 << 10;

/// Values up to this size matter to no batch.
const SHORT: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_read_few_at_a_time_until_they_are_forgotten() {
        let sizes = Sizes::default();
        sizes.note(100);
        assert_eq!(sizes.most(), (1 << 20) / 100);
        sizes.note(5 << 20);
        assert_eq!(sizes.most(), 1);
        for _ in 0..300 {
            sizes.age();
        }
        assert!(sizes.most() > 1000);
    }

    #[test]
    fn what_is_in_the_store_is_not_forgotten() {
        let sizes = Sizes::default();
        sizes.note_kept(1 << 20);
        assert!(sizes.most() > 1000);
        sizes.set_share(8 << 20);
        assert_eq!(sizes.most(), 8);
        sizes.note_kept(20 << 20);
        sizes.note_kept(5);
        for _ in 0..300 {
            sizes.age();
        }
        assert_eq!(sizes.most(), 1);
    }
}
