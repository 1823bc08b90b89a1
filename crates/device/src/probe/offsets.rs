//! Offsets of requests in a file.

use alluvium_base::measurements::OffsetOrder;

/// Length in bytes of the range used by [`OffsetOrder::Near`], small enough for every cache.
pub(super) const NEAR: u64 = 2 << 20;

/// A sequence of offsets for requests of one size.
#[derive(Clone, Debug)]
pub(super) struct OffsetSequence {
    bytes: u64,
    /// Number of possible offsets, which is how many requests fit side by side.
    places: u64,
    state: u64,
    /// Mask for the low bits of the state: the smallest power of two that covers all offsets, minus
    /// one.
    mask: u64,
    order: OffsetOrder,
}

impl OffsetSequence {
    /// Creates the offsets for requests of `bytes` in a file of `span` bytes, from a seed.
    ///
    /// # Panics
    /// If the file is shorter than one request.
    pub(super) fn new(order: OffsetOrder, bytes: u64, span: u64, seed: u64) -> OffsetSequence {
        let part = match order {
            OffsetOrder::Near => span.min(NEAR.max(bytes)),
            OffsetOrder::Random | OffsetOrder::Sequential => span,
        };
        let places = part / bytes;
        assert!(places > 0, "requests of {bytes} bytes in {part}");
        OffsetSequence {
            bytes,
            places,
            state: match order {
                OffsetOrder::Sequential => seed % places,
                OffsetOrder::Random | OffsetOrder::Near => seed,
            },
            mask: places.next_power_of_two() - 1,
            order,
        }
    }

    /// Returns the next offset in bytes. Random offsets do not repeat until each has occurred once.
    pub(super) fn next(&mut self) -> u64 {
        let place = match self.order {
            OffsetOrder::Sequential => {
                self.state = (self.state + 1) % self.places;
                self.state
            }
            OffsetOrder::Random | OffsetOrder::Near => loop {
                // The low bits of this linear congruential generator have a full period (Hull and
                // Dobell), so each number up to the mask occurs exactly once per period.
                self.state = self
                    .state
                    .wrapping_mul(0x5851_F42D_4C95_7F2D)
                    .wrapping_add(0x1405_7B7E_F767_814F);
                let mixed = self.mix(self.state & self.mask);
                if mixed < self.places {
                    break mixed;
                }
            },
        };
        place * self.bytes
    }

    /// Permutes the numbers from 0 to the mask. This mixes their bits, because the generator's low
    /// bits have short periods.
    fn mix(&self, number: u64) -> u64 {
        let half = (self.mask.count_ones() / 2).max(1);
        let mut mixed = number ^ (number >> half);
        mixed = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) & self.mask;
        mixed ^ (mixed >> half)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn random_places_come_once_each_and_in_no_order() {
        for places in [1, 2, 3, 4, 100, 1000, 4096, 5000] {
            let mut offsets = OffsetSequence::new(OffsetOrder::Random, 4096, places * 4096, 7);
            let first: Vec<u64> = (0..places).map(|_| offsets.next()).collect();
            let all: BTreeSet<u64> = (0..places).map(|place| place * 4096).collect();
            assert_eq!(first.iter().copied().collect::<BTreeSet<_>>(), all, "{places}");
            let steps: BTreeSet<i64> = first
                .windows(2)
                .map(|pair| pair[1] as i64 - pair[0] as i64)
                .collect();
            assert!(
                places < 100 || steps.len() as u64 > places / 2,
                "{places} in {} different steps",
                steps.len()
            );
        }
    }

    #[test]
    fn sequential_places_follow_each_other_and_near_ones_stay_near() {
        let mut offsets = OffsetSequence::new(OffsetOrder::Sequential, 4096, 3 * 4096, 1);
        let places: Vec<u64> = (0..4).map(|_| offsets.next() / 4096).collect();
        assert_eq!(places, [2, 0, 1, 2]);
        let mut near = OffsetSequence::new(OffsetOrder::Near, 4096, 1 << 40, 1);
        assert!((0..10_000).all(|_| near.next() < NEAR));
    }

    #[test]
    fn other_seeds_begin_elsewhere() {
        let first = |seed| OffsetSequence::new(OffsetOrder::Random, 4096, 1 << 30, seed).next();
        let firsts: BTreeSet<u64> = (0..100).map(first).collect();
        assert!(firsts.len() > 95);
    }
}
