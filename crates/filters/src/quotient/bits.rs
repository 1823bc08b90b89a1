//! Rank and select operations on a word, with BMI2 instructions or portable code.
//!
//! Both implementations return the same results for every input (checked in `tests`). Creating a
//! geometry chooses one of them.

/// The bit operations that a lookup needs.
pub(super) trait BitOperations {
    /// Returns the lowest `count` bits of `word`, or all of them if `count`, which may be up to
    /// 255, is 64 or more.
    fn low(word: u64, count: u32) -> u64;

    /// Returns the set bit of `word` that has `n` set bits below it, where `mark` is `1 << n`.
    /// Returns 0 if `word` has too few set bits or `mark` is 0. `mark` must not have more than one
    /// bit.
    fn nth_one(word: u64, mark: u64) -> u64;
}

/// The [`BitOperations`] implementation of a geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BitKernel {
    Portable,
    /// Uses the instructions PDEP, BZHI, TZCNT, LZCNT and POPCNT of x86-64.
    #[cfg(target_arch = "x86_64")]
    Bmi2,
}

impl BitKernel {
    /// Returns the fastest implementation that this processor supports.
    pub(super) fn detect() -> BitKernel {
        #[cfg(target_arch = "x86_64")]
        {
            let bits = is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2");
            if bits && is_x86_feature_detected!("lzcnt") && is_x86_feature_detected!("popcnt") {
                return BitKernel::Bmi2;
            }
        }
        BitKernel::Portable
    }
}

pub(super) struct PortableBits;

impl BitOperations for PortableBits {
    #[inline(always)]
    fn low(word: u64, count: u32) -> u64 {
        if count >= 64 {
            word
        } else {
            word & ((1 << count) - 1)
        }
    }

    #[inline(always)]
    fn nth_one(word: u64, mark: u64) -> u64 {
        if mark == 0 {
            return 0;
        }
        let rank = mark.trailing_zeros();
        // Count the ones in each byte, and then compute prefix sums over the bytes (Vigna,
        // "Broadword implementation of rank/select queries").
        let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
        let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
        let bytes = (fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
        let sums = bytes.wrapping_mul(0x0101_0101_0101_0101);
        if (sums >> 56) as u32 <= rank {
            return 0;
        }
        // Count the bytes whose prefix sum is at most the rank. In `full`, the top bit of each such
        // byte is set.
        let full = (u64::from(rank) * 0x0101_0101_0101_0101 + 0x8080_8080_8080_8080) - sums;
        let byte = (full & 0x8080_8080_8080_8080).count_ones();
        let before = (sums << 8 >> (byte * 8)) as u32 & 0xff;
        let mut rest = word >> (byte * 8);
        for _ in before..rank {
            rest &= rest - 1;
        }
        (rest & rest.wrapping_neg()) << (byte * 8)
    }
}

/// Implementation with x86-64 instructions. It may be used only in functions that enable the
/// features that [`BitKernel::detect`] checks.
#[cfg(target_arch = "x86_64")]
pub(super) struct Bmi2Bits;

#[cfg(target_arch = "x86_64")]
impl BitOperations for Bmi2Bits {
    #[inline(always)]
    fn low(word: u64, count: u32) -> u64 {
        // SAFETY: this type is used only in functions with `target_feature(enable = "bmi2")`. These
        // are called only if `BitKernel::detect` has found the feature.
        unsafe { std::arch::x86_64::_bzhi_u64(word, count) }
    }

    #[inline(always)]
    fn nth_one(word: u64, mark: u64) -> u64 {
        // SAFETY: as for `low`, the processor has the feature.
        unsafe { std::arch::x86_64::_pdep_u64(mark, word) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive_nth_one(word: u64, rank: u32) -> u64 {
        (0..64)
            .map(|bit| 1u64 << bit)
            .filter(|bit| word & bit != 0)
            .nth(rank as usize)
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn portable_select_finds_the_nth_one(word: u64, thin: u64, rank in 0u32..64) {
            for word in [word, word & thin, word | thin, 0, u64::MAX, 1 << rank] {
                prop_assert_eq!(PortableBits::nth_one(word, 1 << rank), naive_nth_one(word, rank));
                prop_assert_eq!(PortableBits::nth_one(word, 0), 0);
            }
        }

        #[test]
        fn both_kernels_agree(word: u64, thin: u64, rank in 0u32..64, count in 0u32..=255) {
            #[cfg(target_arch = "x86_64")]
            if BitKernel::detect() == BitKernel::Bmi2 {
                for word in [word, word & thin, word | thin] {
                    prop_assert_eq!(PortableBits::nth_one(word, 1 << rank), Bmi2Bits::nth_one(word, 1 << rank));
                    prop_assert_eq!(PortableBits::low(word, count), Bmi2Bits::low(word, count));
                }
            }
            prop_assert_eq!(PortableBits::low(word & thin, 64), word & thin);
        }
    }
}
