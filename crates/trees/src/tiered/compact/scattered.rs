//! Decides whether a leaf is compacted in quiet hours merely because its values are scattered. The
//! decision depends only on the sizes of its runs.

/// A leaf whose values are gathered is compacted in quiet hours once its other runs have at least
/// one part in this many of the bytes of its largest run.
/// Tuning: `4` since 2026-11-30: each byte that is new is then written at most five times.
const MOST_OF_LARGEST: u64 = 4;

/// Returns whether so much of a leaf is in other runs than its largest one that a scan of it seeks
/// often. The leaf is in `runs` runs on its path, which have `bytes` bytes in total.
pub(super) fn is_scattered(runs: usize, bytes: u64, largest_run: u64) -> bool {
    let others = bytes.saturating_sub(largest_run);
    runs > 2 && others > 0 && others >= largest_run / MOST_OF_LARGEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_values_are_brought_together_once_a_fifth_of_a_leaf_is_new() {
        let leaf = 1 << 20;
        assert!(is_scattered(3, leaf, leaf / 3));
        assert!(
            !is_scattered(2, leaf, leaf / 3),
            "a scan of two runs hardly seeks"
        );
        assert!(is_scattered(3, leaf, leaf / 5 * 4));
        assert!(!is_scattered(3, leaf, leaf / 6 * 5), "little is new");
        assert!(!is_scattered(3, leaf, leaf) && !is_scattered(3, 0, 0));
    }
}
