//! Determines which leaves of a run a merge's range deletes delete, completely or partly. Only the
//! leaves' bounds and the run's sequence numbers are examined.

use crate::run::{IndexedRun, LeafDescriptor};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use std::sync::Arc;

/// How a merge's range deletes affect a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeafCoverage {
    /// The only range deletes that touch the leaf, if any, are older than all its records.
    Clear,
    /// A range delete touches the leaf and may delete some of its records for some readers.
    Partial,
    /// Every record of the leaf within the key range of its source is deleted for every reader.
    Complete,
}

/// The range deletes of a merge, and the sequence numbers of one of its inputs.
#[derive(Debug)]
pub(super) struct InputDeletes {
    /// The range deletes of all inputs.
    deletes: Arc<RangeTombstoneIndex>,
    /// The key range in which the run's data is live.
    range: KeyRange,
    /// A lower bound (`lowest`) and an upper bound (`highest`) of the sequence numbers of the run's
    /// records. The lower bound is 0 if the run may have records without a sequence number, which
    /// are older than every range delete.
    lowest: SequenceNumber,
    highest: SequenceNumber,
    /// Every reader sees the range deletes up to this sequence number.
    horizon: SequenceNumber,
}

impl InputDeletes {
    /// Creates the view of `deletes` for the leaves of a run that is live in `range`.
    pub(super) fn new(
        deletes: &Arc<RangeTombstoneIndex>,
        run: &IndexedRun,
        range: &KeyRange,
        horizon: SequenceNumber,
    ) -> InputDeletes {
        // The bounds in the summary include the run's own range deletes. A leaf that any of these
        // touches may have older and newer records, so it is neither adopted nor dropped.
        let lowest = run.summary().lowest_sequence.max(run.base());
        debug_assert!(
            lowest <= run.newest(),
            "a run's lowest number is at most its highest"
        );
        InputDeletes {
            deletes: Arc::clone(deletes),
            range: range.clone(),
            lowest,
            highest: run.newest(),
            horizon,
        }
    }

    /// Returns how the range deletes affect a leaf of the run.
    pub(super) fn coverage(&self, leaf: &LeafDescriptor) -> LeafCoverage {
        if self.deletes.is_empty() {
            return LeafCoverage::Clear;
        }
        let low = leaf.low().max(&self.range.low);
        let high = self.range.high.as_deref();
        let end = match (leaf.end(), high) {
            (Some(end), Some(high)) => Some(end.min(high)),
            (end, high) => end.or(high),
        };
        // A record with the same number as a range delete belongs to the same commit. The leaf is
        // copied, so the order of the two need not be known.
        let newest = self.deletes.newest_touching(low, end);
        if newest.is_none_or(|newest| newest < self.lowest) {
            return LeafCoverage::Clear;
        }
        let is_covered =
            end.is_some_and(|end| self.deletes.cover_between(low, end, self.highest, self.horizon));
        match is_covered {
            true => LeafCoverage::Complete,
            false => LeafCoverage::Partial,
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::run::{LeafDescriptorIter, RunBuilder, RunOptions};
    use alluvium_base::{Message, Purpose};
    use alluvium_device::memory::MemoryDirectory;
    use alluvium_storage::store::{Store, StoreOptions};

    /// A leaf, after the numbers of its first and last key.
    type Numbered = (u32, u32, LeafDescriptor);

    fn key(number: u32) -> Vec<u8> {
        format!("{number:06}").into_bytes()
    }

    /// Returns a run whose records have the sequence numbers from 50 to 60, and its leaves.
    fn run(leaf_keys: bool) -> (Store, IndexedRun, Vec<Numbered>) {
        let directory = Arc::new(MemoryDirectory::new());
        let store = Store::create(directory, &StoreOptions::default(), b"").unwrap();
        let options = RunOptions {
            leaf_pages: Some(1),
            leaf_keys,
            ..RunOptions::new(Purpose::Compact)
        };
        let mut builder = RunBuilder::new(&store, &options).unwrap();
        for number in 0..400 {
            let sequence = 50 + u64::from(number % 11);
            let message = Message::put(sequence, &[7; 100]);
            builder.push(&key(number), message.into()).unwrap();
        }
        let built = builder.finish().unwrap().unwrap();
        store.extents().install(&built.extents);
        let mut iter = LeafDescriptorIter::new(&built.run, &store, b"", Purpose::Other).unwrap();
        let (mut leaves, mut first) = (Vec::new(), 0);
        while let Some(leaf) = iter.next().unwrap() {
            let behind = first + leaf.records() as u32;
            leaves.push((first, behind - 1, leaf));
            first = behind;
        }
        assert!(leaves.len() > 8, "{} leaves", leaves.len());
        (store, built.run, leaves)
    }

    /// Returns how range deletes of numbers affect the leaves, with the horizon 100.
    fn coverage(
        run: &IndexedRun,
        leaf: &LeafDescriptor,
        deletes: &[(u32, u32, SequenceNumber)],
        range: &KeyRange,
    ) -> LeafCoverage {
        let deletes = deletes.iter().map(|&(start, end, at)| (key(start), key(end), at));
        let index = Arc::new(RangeTombstoneIndex::new(&deletes.collect::<Vec<_>>()));
        InputDeletes::new(&index, run, range, 100).coverage(leaf)
    }

    #[test]
    fn a_range_delete_touches_a_leaf_from_its_first_key_to_its_last() {
        let (_store, run, leaves) = run(true);
        let (first, last, leaf) = &leaves[4];
        let of = |start, end| coverage(&run, leaf, &[(start, end, 70)], &KeyRange::everything());
        assert_eq!(of(0, *first), LeafCoverage::Clear, "it ends before the first key");
        assert_eq!(of(0, first + 1), LeafCoverage::Partial);
        assert_eq!(
            of(last + 1, 400),
            LeafCoverage::Clear,
            "it begins behind the last key"
        );
        assert_eq!(of(*last, 400), LeafCoverage::Partial);
        assert_eq!(of(*first, last + 1), LeafCoverage::Complete);
        assert_eq!(of(first + 1, last + 1), LeafCoverage::Partial);
        assert_eq!(of(*first, *last), LeafCoverage::Partial);
        assert_eq!(of(first + 1, first + 2), LeafCoverage::Partial);
    }

    #[test]
    fn bounds_between_leaves_stand_for_keys_that_are_not_known() {
        let (_store, run, leaves) = run(false);
        let (first, last, leaf) = &leaves[4];
        let of = |start, end| coverage(&run, leaf, &[(start, end, 70)], &KeyRange::everything());
        assert_eq!(of(0, first - 1), LeafCoverage::Clear);
        assert_eq!(of(*last, 400), LeafCoverage::Partial);
        assert_eq!(of(first + 1, last + 1), LeafCoverage::Partial);
        assert_eq!(of(first - 1, last + 2), LeafCoverage::Complete);
        let end = &leaves[leaves.len() - 1];
        let all = coverage(&run, &end.2, &[(0, 999_999, 70)], &KeyRange::everything());
        assert_eq!(
            all,
            LeafCoverage::Partial,
            "the end of the last leaf is not known"
        );
    }

    #[test]
    fn sequence_numbers_tell_what_is_deleted_for_whom() {
        let (_store, run, leaves) = run(true);
        let (first, last, leaf) = &leaves[4];
        let of = |sequence| {
            coverage(
                &run,
                leaf,
                &[(*first, last + 1, sequence)],
                &KeyRange::everything(),
            )
        };
        assert_eq!(of(49), LeafCoverage::Clear, "all records are newer");
        assert_eq!(of(50), LeafCoverage::Partial, "it may be of the same commit");
        assert_eq!(of(55), LeafCoverage::Partial);
        assert_eq!(of(60), LeafCoverage::Partial);
        assert_eq!(of(61), LeafCoverage::Complete);
        assert_eq!(of(100), LeafCoverage::Complete);
        assert_eq!(of(101), LeafCoverage::Partial, "a snapshot does not see it");
    }

    #[test]
    fn several_range_deletes_cover_a_leaf_together_and_one_that_is_too_old_does_not_help() {
        let (_store, run, leaves) = run(true);
        let (first, last, leaf) = &leaves[4];
        let (middle, end, all) = (first + 9, last + 1, KeyRange::everything());
        let of = |deletes: &[_]| coverage(&run, leaf, deletes, &all);
        assert_eq!(
            of(&[(*first, middle, 70), (middle, end, 80)]),
            LeafCoverage::Complete
        );
        assert_eq!(
            of(&[(*first, middle, 70), (middle, end, 40)]),
            LeafCoverage::Partial
        );
        assert_eq!(
            of(&[(*first, middle, 70), (middle + 1, end, 80)]),
            LeafCoverage::Partial
        );
        assert_eq!(
            of(&[(*first, middle, 40), (middle, end, 40)]),
            LeafCoverage::Clear
        );
        assert_eq!(of(&[]), LeafCoverage::Clear);
    }

    #[test]
    fn only_the_keys_in_the_range_of_the_source_count() {
        let (_store, run, leaves) = run(true);
        let (first, last, leaf) = &leaves[4];
        let range = KeyRange::new(&key(first + 5), Some(&key(last - 5)));
        let of = |start, end| coverage(&run, leaf, &[(start, end, 70)], &range);
        assert_eq!(of(first + 5, last - 5), LeafCoverage::Complete);
        assert_eq!(of(first + 6, last - 5), LeafCoverage::Partial);
        assert_eq!(of(0, first + 5), LeafCoverage::Clear);
        assert_eq!(of(last - 5, 400), LeafCoverage::Clear);
    }
}
