//! Provides the unsorted fingerprints of a new run as a source of a merge. First, all fingerprints
//! are distributed to buckets. A bucket is sorted only when the merge reaches it, so that no single
//! step takes long.

use alluvium_filters::{EntryChunk, FilterEntry, Fingerprint};

/// Average number of entries in a bucket, small enough to sort a bucket within the processor's
/// first-level cache.
const BUCKET: usize = 1 << 10;
/// Maximum number of buckets, as a power of two. Distributing entries to more buckets would be
/// slow.
const MAX_BUCKET_BITS: u32 = 14;
const _: () = assert!(BUCKET > 1 && MAX_BUCKET_BITS < u64::BITS, "a hash has a bucket");

/// The fingerprints of a run, which all have the same value.
#[derive(Debug)]
pub(super) enum RunFingerprints {
    Hashes(Vec<u64>, u32, u16),
    Dealt(BucketedEntries),
}

#[derive(Debug)]
pub(super) struct BucketedEntries {
    entries: Vec<FilterEntry>,
    /// The index in `entries` at which each bucket ends.
    ends: Vec<usize>,
    next: usize,
}

impl RunFingerprints {
    pub(super) fn new(hashes: Vec<u64>, fingerprint_bits: u32, value: u16) -> RunFingerprints {
        RunFingerprints::Hashes(hashes, fingerprint_bits, value)
    }

    /// Sorts the next bucket and appends its distinct entries to `chunk`. Returns whether there was
    /// another bucket.
    pub(super) fn fill(&mut self, chunk: &mut EntryChunk) -> bool {
        if let RunFingerprints::Hashes(hashes, bits, value) = self {
            *self = RunFingerprints::Dealt(deal(std::mem::take(hashes), *bits, *value));
        }
        let RunFingerprints::Dealt(dealt) = self else {
            unreachable!("they were dealt above");
        };
        let Some(&end) = dealt.ends.get(dealt.next) else {
            return false;
        };
        let begin = dealt.next.checked_sub(1).map_or(0, |before| dealt.ends[before]);
        dealt.next += 1;
        debug_assert!(begin <= end, "buckets follow each other");
        let bucket = &mut dealt.entries[begin..end];
        bucket.sort_unstable();
        let mut last = None;
        for &entry in bucket.iter() {
            if last != Some(entry) {
                chunk.push(entry, 1);
            }
            last = Some(entry);
        }
        true
    }
}

/// Distributes entries to buckets by the highest bits of their fingerprints, which are uniformly
/// distributed.
fn deal(hashes: Vec<u64>, fingerprint_bits: u32, value: u16) -> BucketedEntries {
    let bits = (hashes.len() / BUCKET).max(2).ilog2().min(MAX_BUCKET_BITS);
    debug_assert!((1..=MAX_BUCKET_BITS).contains(&bits), "2^{bits} buckets");
    let bucket = |hash: u64| (hash >> (64 - bits)) as usize;
    let mut ends = vec![0usize; 1 << bits];
    for &hash in &hashes {
        ends[bucket(hash)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        // At first, each element is the start of its bucket. Distributing the entries advances it
        // to the end.
        sum += std::mem::replace(end, sum);
    }
    assert_eq!(sum, hashes.len(), "each hash has a bucket");
    let empty = FilterEntry::new(Fingerprint::of(0, fingerprint_bits), value);
    let mut entries = vec![empty; hashes.len()];
    for hash in hashes {
        let place = &mut ends[bucket(hash)];
        entries[*place] = FilterEntry::new(Fingerprint::of(hash, fingerprint_bits), value);
        *place += 1;
    }
    debug_assert!(ends.is_sorted(), "buckets follow each other");
    debug_assert_eq!(
        ends.last(),
        Some(&entries.len()),
        "the last bucket ends the entries"
    );
    BucketedEntries {
        entries,
        ends,
        next: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_hashes_are_they_come_sorted_and_once_each() {
        let mut random = fastrand::Rng::with_seed(1);
        for len in [0, 1, 2, 1000, 30_000] {
            for mask in [u64::MAX, 0xfff << 28, u64::MAX << 56, 0] {
                let hashes: Vec<u64> = (0..len).map(|_| random.u64(..) & mask).collect();
                let mut expected: Vec<FilterEntry> = hashes
                    .iter()
                    .map(|&hash| FilterEntry::new(Fingerprint::of(hash, 36), 5))
                    .collect();
                expected.sort();
                expected.dedup();
                let (mut fresh, mut chunk) = (RunFingerprints::new(hashes, 36, 5), EntryChunk::new());
                while fresh.fill(&mut chunk) {}
                assert_eq!(chunk.entries(), expected);
                assert!(chunk.repeats().is_empty());
            }
        }
    }
}
