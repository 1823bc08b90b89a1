//! Which records a deletion takes: a share of those that there are, in an order that the seed
//! shuffles.
//!
//! The live records are numbered from 0 on, by *places*. A deletion keeps the first places of a
//! permutation of all of them. So nothing has to be remembered for a record, however many there
//! are, and every engine and number of threads deletes the same.

use crate::workload::keys::scatter;

/// How often the halves of a place are mixed: Luby and Rackoff, 1988, need four.
const ROUNDS: u64 = 4;

/// A deletion of some of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deletion {
    /// How many records there are before it.
    pub(super) before: u64,
    /// How many it keeps, at least one.
    pub(super) kept: u64,
    /// What the permutation follows from.
    key: u64,
    /// Half of the bits of a place.
    half: u32,
}

impl Deletion {
    /// Deletes `percent` of a hundred records.
    pub(super) fn new(before: u64, percent: u8, key: u64) -> Deletion {
        let before = before.max(1);
        let gone = (u128::from(before) * u128::from(percent) / 100) as u64;
        let bits = u64::BITS - (before - 1).leading_zeros();
        Deletion {
            before,
            kept: (before - gone).max(1),
            key,
            half: bits.div_ceil(2).max(1),
        }
    }

    /// Returns the place that `place` had before the deletion. Places from `kept` on are those of
    /// the deleted records while the deletion goes on.
    pub(super) fn shuffled(&self, place: u64) -> u64 {
        assert!(place < self.before, "{place} of {}", self.before);
        let mask = (1 << self.half) - 1;
        let mut at = place;
        // A Feistel network permutes a power of two; what falls outside is mixed again.
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

    /// Returns the place that a live record had before the deletion. Records that were put since
    /// come behind all that there were.
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
            let deletion = Deletion::new(before, 90, 7);
            let mut places: Vec<u64> = (0..before).map(|at| deletion.shuffled(at)).collect();
            places.sort_unstable();
            assert!(places.iter().copied().eq(0..before), "{before}");
        }
    }

    #[test]
    fn nine_of_ten_go_from_everywhere_and_others_by_another_key() {
        let gone = |key: u64| -> Vec<u64> {
            let deletion = Deletion::new(10_000, 90, key);
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
        assert_eq!(Deletion::new(1, 99, 0).kept, 1);
        assert_eq!(Deletion::new(3, 99, 0).kept, 1);
    }
}
