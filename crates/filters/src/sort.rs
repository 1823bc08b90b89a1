//! Sorts the entries for building a filter.

use crate::FilterEntry;

/// Number of entries up to which the standard library's sort is as fast.
const SMALL: usize = 1 << 12;

/// Average number of entries in a bucket, which is small enough to be sorted in the L1 cache.
const BUCKET: usize = 1 << 9;

/// Sorts entries into the order that a [`crate::FilterBuilder`] expects.
///
/// Fingerprints are uniformly distributed, so a single pass that distributes the entries to buckets
/// by their highest bits almost sorts them. Each bucket is then sorted separately. Allocates as
/// much memory as the entries take up.
///
/// ```
/// use alluvium_filters::{FilterEntry, Fingerprint, sort};
/// let mut entries: Vec<_> = [9, 3, 5].map(|n| FilterEntry::new(Fingerprint::of_number(n, 20), 0)).into();
/// sort(&mut entries);
/// assert!(entries.is_sorted());
/// ```
pub fn sort(entries: &mut Vec<FilterEntry>) {
    if entries.len() <= SMALL {
        entries.sort_unstable();
        return;
    }
    let bits = (entries.len() / BUCKET).ilog2().min(16);
    let bucket = |entry: &FilterEntry| (entry.0 >> (64 - bits)) as usize;
    // `next` holds the start of each bucket, and later the position of the bucket's next entry.
    let mut next = vec![0usize; (1 << bits) + 1];
    for entry in entries.iter() {
        next[bucket(entry) + 1] += 1;
    }
    for index in 1..next.len() {
        next[index] += next[index - 1];
    }
    let mut dealt = vec![FilterEntry(0); entries.len()];
    for entry in entries.iter() {
        let place = &mut next[bucket(entry)];
        dealt[*place] = *entry;
        *place += 1;
    }
    let mut begin = 0;
    for &end in &next[..1 << bits] {
        dealt[begin..end].sort_unstable();
        begin = end;
    }
    *entries = dealt;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_equals_the_standard_sort_for_even_and_for_lopsided_entries() {
        let mut random = fastrand::Rng::with_seed(1);
        for len in [0, 1, 2, SMALL, SMALL + 1, 50_000] {
            for mask in [u64::MAX, 0xff, u64::MAX << 56, 0] {
                let mut entries: Vec<_> = (0..len).map(|_| FilterEntry(random.u64(..) & mask)).collect();
                let mut expected = entries.clone();
                expected.sort_unstable();
                sort(&mut entries);
                assert_eq!(entries, expected);
            }
        }
    }
}
