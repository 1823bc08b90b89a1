//! Statistics of value sizes. They limit how many values a batch reads at a time, so that the
//! values normally need little memory and never exceed the clients' memory budget.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The longest value read recently, and the longest value seen since the store was opened, in
/// bytes.
#[derive(Debug, Default)]
pub(crate) struct ValueSizeStats {
    longest: AtomicUsize,
    longest_ever: AtomicUsize,
    /// Maximum number of bytes that a batch may read even in the worst case; 0 means no limit.
    share: AtomicUsize,
}

impl ValueSizeStats {
    /// Approximate number of bytes that a batch should prefetch.
    const AT_ONCE: usize = 1 << 20;

    /// Updates the recent maximum with the size of a value that was read.
    pub(crate) fn note(&self, bytes: usize) {
        if bytes > self.longest.load(Ordering::Relaxed) {
            self.longest.store(bytes, Ordering::Relaxed);
        }
    }

    /// Updates the overall maximum with the size of a stored value. Unlike the recent maximum, it
    /// does not decrease.
    pub(crate) fn note_kept(&self, bytes: usize) {
        if bytes > SHORT && bytes > self.longest_ever.load(Ordering::Relaxed) {
            self.longest_ever.store(bytes, Ordering::Relaxed);
        }
    }

    /// Sets the maximum number of bytes that a batch may read even in the worst case.
    pub(crate) fn set_share(&self, bytes: usize) {
        self.share.store(bytes, Ordering::Relaxed);
    }

    /// Returns an upper bound on the total size of `values` values in bytes, or 0 if the bound is
    /// too small to be worth charging.
    pub(crate) fn at_worst(&self, values: usize) -> usize {
        match self.longest_ever.load(Ordering::Relaxed).saturating_mul(values) {
            ..LITTLE => 0,
            bytes => bytes,
        }
    }

    /// Returns the number of records that may be read at the same time.
    pub(crate) fn most(&self) -> usize {
        let usual = ValueSizeStats::AT_ONCE / self.longest.load(Ordering::Relaxed).max(1);
        let share = self.share.load(Ordering::Relaxed);
        let at_worst = match (share, self.longest_ever.load(Ordering::Relaxed)) {
            (0, _) | (_, 0) => usize::MAX,
            (share, longest) => share / longest,
        };
        usual.min(at_worst).max(1)
    }

    /// Reduces the recent maximum by a sixteenth. Called once a second.
    pub(crate) fn age(&self) {
        let longest = self.longest.load(Ordering::Relaxed);
        self.longest.store(longest - longest / 16, Ordering::Relaxed);
    }
}

/// Size in bytes below which a read is not charged.
const LITTLE: usize = 256 << 10;

/// Values up to this size, in bytes, are not tracked in the overall maximum.
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
