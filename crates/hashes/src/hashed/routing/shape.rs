//! The shape of a routing filter: its kind, and the bits of a hash that it uses.

use crate::hashed::lists::MOST_PREFIX_BITS;
use crate::hashed::run::HashPrefixRange;
use alluvium_storage::{Error, Result};

/// Defines which bits of a hash are the prefix and which are the check digit in one level.
///
/// ```
/// use alluvium_hashes::hashed::routing::RoutingFilterShape;
/// // λ = 16, of a level that a run of 1000 records opens, in one of four parts.
/// let shape = RoutingFilterShape::plain(2, 4, 1000);
/// assert_eq!(shape.prefix_bits, 10 + 4);
/// assert_eq!(shape.prefix(0x4008_0000_0000_0000), 8);
/// let refined = RoutingFilterShape::refined(2, 4, 1000, 3);
/// assert_eq!(refined.check(0xa00), 0xa, "the third character from the end");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutingFilterShape {
    /// Number of leading hash bits that are the same in the whole part, and therefore ignored.
    pub skipped_bits: u8,
    /// Length of the prefix in bits, after the skipped bits.
    pub prefix_bits: u8,
    /// Length of a character in bits, which is log2 λ. A character is either a digit of a hash in
    /// base λ or a run.
    pub character_bits: u8,
    /// Which check digit a sketch contains, counted from the end of the hash, where 1 is the last
    /// digit. 0 for a filter of latest runs, which has no sketches.
    pub check_level: u8,
}

impl RoutingFilterShape {
    /// Returns the shape of a filter of latest runs. `records` is the number of records in the
    /// level's first run. There are at least λ prefixes for each of them (β = λ).
    #[must_use]
    pub fn plain(skipped_bits: u8, character_bits: u8, records: u64) -> RoutingFilterShape {
        let log = (64 - records.max(1).saturating_sub(1).leading_zeros()) as u8;
        let most = MOST_PREFIX_BITS.min(64 - skipped_bits - character_bits);
        RoutingFilterShape {
            skipped_bits,
            prefix_bits: (log + character_bits).clamp(1, most),
            character_bits,
            check_level: 0,
        }
    }

    /// Returns the shape of a filter of sketches for level number `level`, where the newest level
    /// is 1. Each level uses a different check digit, as long as the hash has enough bits.
    #[must_use]
    pub fn refined(skipped_bits: u8, character_bits: u8, records: u64, level: usize) -> RoutingFilterShape {
        let plain = RoutingFilterShape::plain(skipped_bits, character_bits, records);
        let free = (64 - plain.skipped_bits - plain.prefix_bits) / character_bits;
        RoutingFilterShape {
            check_level: (level.min(usize::from(free)) as u8).max(1),
            ..plain
        }
    }

    /// Checks that the prefix and the check digit fit in a hash and do not overlap.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the shape is invalid.
    pub fn validate(&self) -> Result<()> {
        let bits = u32::from(self.skipped_bits)
            + u32::from(self.prefix_bits)
            + u32::from(self.check_level) * u32::from(self.character_bits);
        let is_one = (1..=MOST_PREFIX_BITS).contains(&self.prefix_bits)
            && (1..=8).contains(&self.character_bits)
            && bits <= 64;
        match is_one {
            true => Ok(()),
            false => Err(Error::BadOption {
                option: "routing filter",
                why: format!("{self:?} takes bits of a hash twice, or too many"),
            }),
        }
    }

    /// Returns whether this is a filter of sketches.
    #[must_use]
    #[inline]
    pub fn is_refined(&self) -> bool {
        self.check_level > 0
    }

    /// Returns the prefix of a hash.
    #[must_use]
    #[inline]
    pub fn prefix(&self, hash: u64) -> u64 {
        (hash << self.skipped_bits) >> (64 - self.prefix_bits)
    }

    #[must_use]
    pub fn last_prefix(&self) -> u64 {
        (1 << self.prefix_bits) - 1
    }

    /// Returns the range of hashes with the same prefix as `hash`.
    #[must_use]
    #[inline]
    pub fn group(&self, hash: u64) -> HashPrefixRange {
        let behind = u64::MAX
            .checked_shr(u32::from(self.skipped_bits + self.prefix_bits))
            .unwrap_or(0);
        HashPrefixRange {
            first: hash & !behind,
            last: hash | behind,
        }
    }

    /// Returns the check digit of a hash, which is meaningful only in a filter of sketches.
    #[must_use]
    #[inline]
    pub fn check(&self, hash: u64) -> u8 {
        let behind = u32::from(self.check_level.saturating_sub(1)) * u32::from(self.character_bits);
        let character = hash.checked_shr(behind).unwrap_or(0);
        (character & ((1 << self.character_bits) - 1)) as u8
    }

    /// Returns the length of a sketch in bits. A sketch consists of a run's index and a check
    /// digit.
    #[must_use]
    pub fn sketch_bits(&self) -> u8 {
        2 * self.character_bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_grow_with_their_level_and_leave_bits_for_check_characters() {
        for skipped in [0, 1, 4, 12] {
            for character in 1..=8u8 {
                for records in [0, 1, 2, 1000, 1 << 30, u64::MAX] {
                    for level in [1, 2, 9, 60] {
                        let shape = RoutingFilterShape::refined(skipped, character, records, level);
                        shape.validate().unwrap();
                        assert!(shape.is_refined());
                        let plain = RoutingFilterShape::plain(skipped, character, records);
                        plain.validate().unwrap();
                        assert_eq!(plain.prefix_bits, shape.prefix_bits);
                    }
                }
            }
        }
        let bad = RoutingFilterShape {
            check_level: 7,
            ..RoutingFilterShape::refined(4, 8, 1 << 20, 1)
        };
        assert!(bad.validate().is_err(), "a character of the prefix");
    }

    #[test]
    fn a_group_has_all_hashes_with_a_prefix() {
        let shape = RoutingFilterShape::plain(4, 2, 100);
        let hash = 0x5abc_def0_1234_5678;
        let group = shape.group(hash);
        assert_eq!(shape.prefix(group.first), shape.prefix(hash));
        assert_eq!(shape.prefix(group.last), shape.prefix(hash));
        assert_ne!(shape.prefix(group.last + 1), shape.prefix(hash));
        assert_ne!(shape.prefix(group.first - 1), shape.prefix(hash));
        assert_eq!(group.first >> 60, 5, "of the same part");
    }
}
