//! Selects the records that a deletion removes: a share of the existing ones, in an order that the
//! seed determines.
//!
//! Live records have consecutive *places*, numbered from 0. A deletion permutes all places and
//! keeps the records at the first ones. This needs no state per record, and deletes the same
//! records for every engine and any number of threads.

use crate::workload::keys::scatter;

/// Number of rounds of the Feistel network. Four are needed (Luby and Rackoff 1988).
const ROUNDS: u64 = 4;

/// A deletion that removes a share of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordDeletion {
    /// Number of records before the deletion.
    pub(super) before: u64,
    /// Number of records that remain after the deletion, at least one.
    pub(super) kept: u64,
    /// The key of the permutation, derived from the seed.
    key: u64,
    /// Half the number of bits of a place.
    half: u32,
}

impl RecordDeletion {
    /// Creates a deletion of `percent` percent of `before` records.
    pub(super) fn new(before: u64, percent: u8, key: u64) -> RecordDeletion {
        let before = before.max(1);
        let gone = (u128::from(before) * u128::from(percent) / 100) as u64;
        let bits = u64::BITS - (before - 1).leading_zeros();
        RecordDeletion {
            before,
            kept: (before - gone).max(1),
            key,
            half: bits.div_ceil(2).max(1),
        }
    }

    /// Returns the place before the deletion of the record at the permuted place `place`. The
    /// records at permuted places from `kept` on are deleted.
    pub(super) fn shuffled(&self, place: u64) -> u64 {
        assert!(place < self.before, "{place} of {}", self.before);
        let mask = (1 << self.half) - 1;
        let mut at = place;
        // A Feistel network permutes a range whose size is a power of two, so permute again until
        // the result is a valid place.
        loop {
            let (mut left, mut right) = (at >> self.half, at & mask);
            for round in 0..ROUNDS {
                let mixed = left ^ (scatter(right ^ scatter(self.key ^ round)) & mask);
                (left, right) = (right, mixed);
            }
            at = left << self.half | right;
            if at < self.before {
                return at;
            }
        }
    }

    /// Returns the place before the deletion of the live record at `place`. Records added after the
    /// deletion follow all earlier ones.
    pub(super) fn place_before(&self, place: u64) -> u64 {
        if place < self.kept {
            self.shuffled(place)
        } else {
            place - self.kept + self.before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_shuffled_to_another() {
        for before in [1u64, 2, 3, 10, 1000, 1025] {
            let deletion = RecordDeletion::new(before, 90, 7);
            let mut places: Vec<u64> = (0..before).map(|at| deletion.shuffled(at)).collect();
            places.sort_unstable();
            assert!(places.iter().copied().eq(0..before), "{before}");
        }
    }

    #[test]
    fn nine_of_ten_go_from_everywhere_and_others_by_another_key() {
        let gone = |key: u64| -> Vec<u64> {
            let deletion = RecordDeletion::new(10_000, 90, key);
            assert_eq!(deletion.kept, 1000);
            (deletion.kept..10_000).map(|at| deletion.shuffled(at)).collect()
        };
        let one = gone(1);
        for tenth in 0..10 {
            let of_tenth = one.iter().filter(|&&at| at / 1000 == tenth).count();
            assert!((850..950).contains(&of_tenth), "{of_tenth} of tenth {tenth}");
        }
        assert_ne!(one, gone(2));
    }

    #[test]
    fn a_record_is_always_kept() {
        assert_eq!(RecordDeletion::new(1, 99, 0).kept, 1);
        assert_eq!(RecordDeletion::new(3, 99, 0).kept, 1);
    }
}
