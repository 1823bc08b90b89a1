//! Statistics of value sizes, which limit how much a batch reads at once: little memory in general,
//! and never more than the clients' memory has.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The longest value read recently, and the longest since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct ValueSizeStats {
    longest: AtomicUsize,
    longest_ever: AtomicUsize,
    /// Largest number of bytes a batch may read, whatever was read recently; 0 for no limit.
    share: AtomicUsize,
}

impl ValueSizeStats {
    /// Approximate target for the bytes prefetched by a batch.
    const AT_ONCE: usize = 1 << 20;

    /// Records the size of a value that was read.
    pub(crate) fn note(&self, bytes: usize) {
        if bytes > self.longest.load(Ordering::Relaxed) {
            self.longest.store(bytes, Ordering::Relaxed);
        }
    }

    /// Records the size of a stored value. Unlike sizes of reads, it does not age.
    pub(crate) fn note_kept(&self, bytes: usize) {
        if bytes > SHORT && bytes > self.longest_ever.load(Ordering::Relaxed) {
            self.longest_ever.store(bytes, Ordering::Relaxed);
        }
    }

    /// Sets the largest number of bytes a batch may read.
    pub(crate) fn set_share(&self, bytes: usize) {
        self.share.store(bytes, Ordering::Relaxed);
    }

    /// Returns the largest total size that this number of values may have, or 0 if it is small.
    pub(crate) fn at_worst(&self, values: usize) -> usize {
        match self.longest_ever.load(Ordering::Relaxed).saturating_mul(values) {
            ..LITTLE => 0,
            bytes => bytes,
        }
    }

    /// Returns the number of records to read at once.
    pub(crate) fn most(&self) -> usize {
        let usual = ValueSizeStats::AT_ONCE / self.longest.load(Ordering::Relaxed).max(1);
        let share = self.share.load(Ordering::Relaxed);
        let at_worst = match (share, self.longest_ever.load(Ordering::Relaxed)) {
            (0, _) | (_, 0) => usize::MAX,
            (share, longest) => share / longest,
        };
        usual.min(at_worst).max(1)
    }

    /// Ages the recent maximum. Called once a second.
    pub(crate) fn age(&self) {
        let longest = self.longest.load(Ordering::Relaxed);
        self.longest.store(longest - longest / 16, Ordering::Relaxed);
    }
}

/// Reads of fewer bytes are not charged.
const LITTLE: usize = 256 << 10;

/// Values up to this size are ignored.
const SHORT: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_read_few_at_a_time_until_they_are_forgotten() {
        let sizes = ValueSizeStats::default();
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
        let sizes = ValueSizeStats::default();
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
