//! Divides a hash into the fields that a tree of a given height uses: the prefix, the check digit,
//! and the next digit, which follows the prefix.

use crate::hashed::lists;
use alluvium_storage::{Error, Result};

/// Maximum length of a prefix, in bits.
pub(super) const MOST_PREFIX_BITS: u32 = lists::MOST_PREFIX_BITS as u32;
/// Minimum value of `base_bits`. It ensures that at most 56 bits of a hash follow a prefix.
const LEAST_BASE_BITS: u32 = 8;

/// Base-2 logarithm of the number of lists that are merged at once. Small in tests, so that hashes
/// are rewritten often.
const SOURCES_LOG: u8 = if cfg!(test) { 2 } else { 8 };

/// How the trees of a part divide a hash into fields. A *character* is a digit of a hash in base λ.
///
/// ```
/// use alluvium_hashes::hashed::trees::HashLayout;
/// // λ = 16, leaves of up to 1024 records, one part of four.
/// let cut = HashLayout::of_leaf(2, 4, 1000);
/// assert_eq!((cut.prefix_bits(1), cut.prefix_bits(2)), (14, 18));
/// let hash = 0x0123_4567_89ab_cdef;
/// assert_eq!(cut.prefix(hash, 2), cut.prefix(hash, 1) << 4 | u64::from(cut.next(hash, 1)));
/// assert_eq!((cut.check(hash, 1), cut.check(hash, 2)), (0xf, 0xe));
/// assert!(cut.fits(6) && !cut.fits(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashLayout {
    /// Number of leading hash bits that are the same in the whole part, and therefore ignored.
    pub skipped_bits: u8,
    /// Length of the prefix at height 0, in bits: the base-2 logarithm of the number of records in
    /// a leaf. The prefix grows by one character per height.
    pub base_bits: u8,
    /// Length of a character, in bits: log2 λ.
    pub character_bits: u8,
}

impl HashLayout {
    /// Returns the layout for new trees whose first leaf has about `records` records.
    #[must_use]
    pub fn of_leaf(skipped_bits: u8, character_bits: u8, records: u64) -> HashLayout {
        let log = 64 - records.max(1).saturating_sub(1).leading_zeros();
        let (skipped, character) = (u32::from(skipped_bits), u32::from(character_bits));
        let most = (MOST_PREFIX_BITS - character).min(64 - skipped - 3 * character);
        HashLayout {
            skipped_bits,
            base_bits: log.clamp(LEAST_BASE_BITS, most) as u8,
            character_bits,
        }
    }

    /// Returns the length of the prefix at a height, in bits.
    #[must_use]
    #[inline]
    pub fn prefix_bits(&self, height: u8) -> u32 {
        u32::from(self.base_bits) + u32::from(height) * u32::from(self.character_bits)
    }

    /// Returns whether a hash has enough bits for the prefix, the next digit and the check digits
    /// of a height without overlap.
    #[must_use]
    pub fn fits(&self, height: u8) -> bool {
        let prefix = self.prefix_bits(height);
        let characters = (u32::from(height) + 1) * u32::from(self.character_bits);
        prefix <= MOST_PREFIX_BITS && u32::from(self.skipped_bits) + prefix + characters <= 64
    }

    /// Checks that the layout is valid for trees of this height.
    ///
    /// # Errors
    /// [`Error::BadOption`] if it is not.
    pub fn validate(&self, height: u8) -> Result<()> {
        let is_one = self.skipped_bits <= 12
            && (1..=8).contains(&self.character_bits)
            && u32::from(self.base_bits) >= LEAST_BASE_BITS
            && (1..=MOST_PREFIX_BITS as u8).contains(&height)
            && self.fits(height);
        match is_one {
            true => Ok(()),
            false => Err(Error::BadOption {
                option: "routing tree",
                why: format!("{self:?} takes bits of a hash twice at height {height}, or too many"),
            }),
        }
    }

    /// Returns the number of hash bits after the skipped bits.
    #[must_use]
    pub fn own_bits(&self) -> u32 {
        64 - u32::from(self.skipped_bits)
    }

    /// Returns the first `bits` bits of a hash after the skipped bits.
    #[must_use]
    #[inline]
    pub fn first(&self, hash: u64, bits: u32) -> u64 {
        (hash << self.skipped_bits) >> (64 - bits)
    }

    /// Returns the prefix of a hash at a height.
    #[must_use]
    #[inline]
    pub fn prefix(&self, hash: u64, height: u8) -> u64 {
        self.first(hash, self.prefix_bits(height))
    }

    fn character(&self, bits: u64) -> u16 {
        (bits & ((1 << self.character_bits) - 1)) as u16
    }

    /// Returns the check digit of a hash at a height. Height 1 uses the last digit of the hash, and
    /// each further height uses the digit before it.
    #[must_use]
    #[inline]
    pub fn check(&self, hash: u64, height: u8) -> u16 {
        let behind = u32::from(height.saturating_sub(1)) * u32::from(self.character_bits);
        self.character(hash.checked_shr(behind).unwrap_or(0))
    }

    /// Returns the next digit of a hash at a height, which is the digit after the prefix.
    #[must_use]
    #[inline]
    pub fn next(&self, hash: u64, height: u8) -> u16 {
        self.character(self.first(hash, self.prefix_bits(height) + u32::from(self.character_bits)))
    }

    /// Returns the sketch of a hash at a height: the check digit in the lower bits, and the next
    /// digit above it.
    #[must_use]
    #[inline]
    pub fn sketch(&self, hash: u64, height: u8) -> u64 {
        u64::from(self.check(hash, height)) | u64::from(self.next(hash, height)) << self.character_bits
    }

    #[must_use]
    pub fn lambda(&self) -> u32 {
        1 << self.character_bits
    }

    /// Returns β. At every β-th height, hashes are rewritten in the order of a longer prefix
    /// (Conway §2.7). β is chosen in such a way that at most 256 lists, or λ lists if λ is greater,
    /// are merged at once.
    #[must_use]
    pub fn beta(&self) -> u8 {
        (SOURCES_LOG / self.character_bits).max(1)
    }

    /// Returns the height of the digests that supply the hashes when a full tree of the given
    /// height becomes the child of a new root. Height 0 stands for the digests of the leaves.
    #[must_use]
    pub fn source_height(&self, height: u8) -> u8 {
        let beta = self.beta();
        match height % beta {
            0 => height.saturating_sub(beta),
            behind => height - behind,
        }
    }

    /// Returns whether the hashes of a full tree of this height are rewritten to a single digest.
    #[must_use]
    pub fn is_queued(&self, height: u8) -> bool {
        height > 0 && height.is_multiple_of(self.beta())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_forest_has_a_height_and_no_height_uses_a_bit_twice() {
        for skipped in [0, 1, 4, 12] {
            for character in 1..=8u8 {
                for records in [0, 1, 2, 1000, 1 << 20, u64::MAX] {
                    let cut = HashLayout::of_leaf(skipped, character, records);
                    cut.validate(1).unwrap();
                    for height in (1..40).take_while(|&height| cut.fits(height)) {
                        cut.validate(height).unwrap();
                        // The prefix and the next digit are at the beginning of the hash, and the
                        // check digits come after them.
                        let first = cut.prefix_bits(height) + u32::from(character);
                        let behind = u32::from(height) * u32::from(character);
                        assert!(u32::from(skipped) + first + behind <= 64);
                        let ones = u64::MAX >> skipped >> first;
                        assert_eq!((cut.prefix(ones, height), cut.next(ones, height)), (0, 0));
                        assert_eq!(u32::from(cut.check(ones, height)), cut.lambda() - 1);
                    }
                }
            }
        }
        assert!(HashLayout::of_leaf(0, 4, 1 << 16).validate(9).is_err());
    }

    #[test]
    fn lists_of_hashes_come_from_the_nearest_height_that_has_them() {
        let beta = |lambda_log: u8| HashLayout::of_leaf(0, lambda_log, 100).beta();
        assert_eq!([1, 2, 3, 4, 5, 8].map(beta), [2, 1, 1, 1, 1, 1]);
        let cut = HashLayout::of_leaf(0, 1, 100);
        let sources: Vec<u8> = (1..=6).map(|height| cut.source_height(height)).collect();
        assert_eq!(sources, [0, 0, 2, 2, 4, 4]);
        let queued: Vec<u8> = (0..=6).filter(|&height| cut.is_queued(height)).collect();
        assert_eq!(queued, [2, 4, 6]);
        for bits in 1..=8 {
            let cut = HashLayout::of_leaf(0, bits, 100);
            for height in 1..=40 {
                let above = height - cut.source_height(height);
                assert!(above * bits <= SOURCES_LOG.max(bits), "few lists at once");
                let source = cut.source_height(height);
                assert!(source == 0 || cut.is_queued(source));
            }
        }
    }
}
