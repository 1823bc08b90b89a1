//! How long values are that were read lately: a batch reads no more at once than takes little memory.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How long the values were that were read lately.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    longest: AtomicUsize,
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

    /// How many records are to be read at once.
    pub(crate) fn most(&self) -> usize {
        (Sizes::AT_ONCE / self.longest.load(Ordering::Relaxed).max(1)).max(1)
    }

    /// A second has passed: long replies count a little less.
    pub(crate) fn age(&self) {
        let longest = self.longest.load(Ordering::Relaxed);
        self.longest.store(longest - longest / 16, Ordering::Relaxed);
    }
}

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
}
