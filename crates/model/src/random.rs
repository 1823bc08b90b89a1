//! Seeded pseudorandom numbers (SplitMix64). The same seed yields the same numbers on every
//! machine.

/// A pseudorandom number generator.
///
/// ```
/// use alluvium_model::SplitMix64;
/// let (mut one, mut other) = (SplitMix64::from_seed(7), SplitMix64::from_seed(7));
/// assert_eq!(one.below(1000), other.below(1000));
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// Returns the next 64 uniformly distributed bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random integer from 0 to `below` − 1, or 0 if `below` is 0.
    pub fn below(&mut self, below: usize) -> usize {
        ((u128::from(self.bits()) * below as u128) >> 64) as usize
    }

    /// Returns a random number that is at least 0 and less than 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_and_shares_are_even() {
        let mut random = SplitMix64::from_seed(1);
        let mut drawn = [0_u32; 7];
        let mut sum = 0.0;
        for _ in 0..70_000 {
            drawn[random.below(7)] += 1;
            let unit = random.unit();
            assert!((0.0..1.0).contains(&unit));
            sum += unit;
        }
        assert!(
            drawn.iter().all(|count| count.abs_diff(10_000) < 400),
            "{drawn:?}"
        );
        assert!((sum / 70_000.0 - 0.5).abs() < 0.005, "{sum}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_leaves_few_in_place() {
        let mut items: Vec<usize> = (0..1000).collect();
        SplitMix64::from_seed(2).shuffle(&mut items);
        let moved = items.iter().enumerate().filter(|&(at, item)| at != *item).count();
        assert!(moved > 980, "{moved}");
        items.sort_unstable();
        assert!(items.into_iter().eq(0..1000));
    }
}
