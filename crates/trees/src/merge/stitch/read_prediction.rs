//! Predicts how many consecutive leaves a merge will have to read, so that it can read them
//! together. The prediction uses only the leaves' index entries.

use std::iter::Peekable;

/// A key interval of an input: an inclusive start and an exclusive end, or `None` if it has no end.
pub(super) type KeyInterval<'k> = (&'k [u8], Option<&'k [u8]>);

/// The key intervals in which an input is known to have data, in key order. `has_more` tells
/// whether the input has further data after them.
pub(super) struct KnownIntervals<'k, I: Iterator<Item = KeyInterval<'k>>> {
    pub(super) stretches: Peekable<I>,
    pub(super) has_more: bool,
}

/// Returns the number of leaves that precede the first adoptable sequence in `leaves`. A sequence
/// is adoptable if it has more than `threshold` consecutive leaves that overlap no other input. The
/// flag of each leaf tells whether it may be adopted if it overlaps no other input. Counting stops
/// at the first leaf where the data of another input is not known.
pub(super) fn leaves_to_read<'k, I: Iterator<Item = KeyInterval<'k>>>(
    leaves: impl Iterator<Item = (KeyInterval<'k>, bool)>,
    others: &mut [KnownIntervals<'k, I>],
    threshold: u32,
) -> usize {
    let (mut count, mut row) = (0, 0u64);
    for ((low, end), can_be_taken) in leaves {
        let (mut is_cut, mut overlaps) = (false, false);
        for other in &mut *others {
            let is_behind = |stretch: &KeyInterval<'_>| stretch.1.is_some_and(|end| end <= low);
            while other.stretches.next_if(is_behind).is_some() {
                is_cut = true;
            }
            match other.stretches.peek() {
                Some((next, _)) => overlaps |= end.is_none_or(|end| *next < end),
                None if other.has_more => return count,
                None => {}
            }
        }
        count += 1;
        row = match (overlaps || !can_be_taken, is_cut) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => row + 1,
        };
        if row > u64::from(threshold) {
            return count - row as usize;
        }
    }
    count
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    /// Parses a key interval given as letters: `"ac"` contains the keys from a (inclusive) to c
    /// (exclusive).
    fn stretch(of: &'static str) -> KeyInterval<'static> {
        let (low, end) = of.as_bytes().split_at(1);
        (low, (!end.is_empty()).then_some(end))
    }

    fn read(leaves: &[&'static str], others: &[(&[&'static str], bool)], threshold: u32) -> usize {
        let mut others: Vec<_> = others
            .iter()
            .map(|(stretches, has_more)| KnownIntervals {
                stretches: stretches.iter().map(|of| stretch(of)).peekable(),
                has_more: *has_more,
            })
            .collect();
        let leaves = leaves.iter().map(|of| (stretch(of), !of.contains('k')));
        leaves_to_read(leaves, &mut others, threshold)
    }

    #[test]
    fn leaves_are_read_up_to_those_that_overlap_nothing() {
        let ours = ["ac", "ce", "eg", "gi", "il"];
        assert_eq!(read(&ours, &[(&["bd"], false)], 0), 2);
        assert_eq!(read(&ours, &[(&["bd"], false)], 1), 2, "two in a row");
        assert_eq!(
            read(&ours, &[(&["bd", "hj"], false)], 1),
            5,
            "one, then it overlaps"
        );
        assert_eq!(read(&ours, &[(&["bd"], false), (&["fg"], false)], 0), 3);
        assert_eq!(read(&ours, &[], 0), 0);
        assert_eq!(read(&ours, &[], 4), 0);
        assert_eq!(read(&ours, &[], 5), 5, "there are no more");
    }

    #[test]
    fn keys_of_others_between_leaves_end_a_row() {
        let ours = ["ab", "cd", "ef", "gh"];
        assert_eq!(read(&ours, &[(&["bc", "de", "fg"], false)], 0), 0);
        assert_eq!(read(&ours, &[(&["bc", "de", "fg"], false)], 1), 4);
        assert_eq!(read(&ours, &[(&["bc"], false)], 1), 1, "two behind it");
    }

    #[test]
    fn what_is_not_known_ends_what_is_foreseen_and_leaves_that_must_be_read_end_rows() {
        let ours = ["ac", "ce", "eg"];
        assert_eq!(read(&ours, &[(&["bd"], true)], 1), 2);
        assert_eq!(
            read(&ours, &[(&["b"], true)], 0),
            3,
            "all that follows may overlap"
        );
        assert_eq!(read(&["ac", "ek", "kn", "pq"], &[], 0), 0);
        assert_eq!(read(&["ak", "kn", "pq"], &[], 0), 2);
    }
}
