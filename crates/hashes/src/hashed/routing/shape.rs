//! What a routing filter says, of which bits of a hash.

use crate::hashed::lists::MOST_PREFIX_BITS;
use crate::hashed::run::Group;
use alluvium_storage::{Error, Result};

/// Which bits of a hash are the prefix of a level and its check character.
///
/// ```
/// use alluvium_hashes::hashed::routing::Shape;
/// // λ = 16, of a level that a run of 1000 records opens, in one of four parts.
/// let shape = Shape::plain(2, 4, 1000);
/// assert_eq!(shape.prefix_bits, 10 + 4);
/// assert_eq!(shape.prefix(0x4008_0000_0000_0000), 8);
/// let refined = Shape::refined(2, 4, 1000, 3);
/// assert_eq!(refined.check(0xa00), 0xa, "the third character from the end");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The first bits of a hash, which are the same in all of a part.
    pub skipped_bits: u8,
    /// Bits of a prefix, which follow.
    pub prefix_bits: u8,
    /// Bits of a character: log2 λ.
    pub character_bits: u8,
    /// Which check character sketches have, counted from the last of a hash. With 0 the filter
    /// names latest runs instead.
    pub check_level: u8,
}

impl Shape {
    /// Returns the shape of a filter of latest runs, for a level that a run of `records` records
    /// opens: β = λ prefixes for each of them.
    #[must_use]
    pub fn plain(skipped_bits: u8, character_bits: u8, records: u64) -> Shape {
        let log = (64 - records.max(1).saturating_sub(1).leading_zeros()) as u8;
        let most = MOST_PREFIX_BITS.min(64 - skipped_bits - character_bits);
        Shape {
            skipped_bits,
            prefix_bits: (log + character_bits).clamp(1, most),
            character_bits,
            check_level: 0,
        }
    }

    /// Returns the shape of a filter of sketches for the level with this number, counted from one:
    /// the character is the level's own while a hash has one for each.
    #[must_use]
    pub fn refined(skipped_bits: u8, character_bits: u8, records: u64, level: usize) -> Shape {
        let plain = Shape::plain(skipped_bits, character_bits, records);
        let free = (64 - plain.skipped_bits - plain.prefix_bits) / character_bits;
        Shape {
            check_level: (level.min(usize::from(free)) as u8).max(1),
            ..plain
        }
    }

    /// Fails unless the bits are some of a hash and none is used twice.
    ///
    /// # Errors
    /// [`Error::BadOption`].
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

    /// Returns whether its filter has sketches.
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

    /// Returns the greatest prefix.
    #[must_use]
    pub fn last_prefix(&self) -> u64 {
        (1 << self.prefix_bits) - 1
    }

    /// Returns all hashes of the same part that have the prefix of one.
    #[must_use]
    #[inline]
    pub fn group(&self, hash: u64) -> Group {
        let behind = u64::MAX
            .checked_shr(u32::from(self.skipped_bits + self.prefix_bits))
            .unwrap_or(0);
        Group {
            first: hash & !behind,
            last: hash | behind,
        }
    }

    /// Returns the check character of a hash.
    #[must_use]
    #[inline]
    pub fn check(&self, hash: u64) -> u8 {
        let behind = u32::from(self.check_level.saturating_sub(1)) * u32::from(self.character_bits);
        let character = hash.checked_shr(behind).unwrap_or(0);
        (character & ((1 << self.character_bits) - 1)) as u8
    }

    /// Returns the bits of a sketch: a run and a check character.
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
                        let shape = Shape::refined(skipped, character, records, level);
                        shape.validate().unwrap();
                        assert!(shape.is_refined());
                        let plain = Shape::plain(skipped, character, records);
                        plain.validate().unwrap();
                        assert_eq!(plain.prefix_bits, shape.prefix_bits);
                    }
                }
            }
        }
        let bad = Shape {
            check_level: 7,
            ..Shape::refined(4, 8, 1 << 20, 1)
        };
        assert!(bad.validate().is_err(), "a character of the prefix");
    }

    #[test]
    fn a_group_has_all_hashes_with_a_prefix() {
        let shape = Shape::plain(4, 2, 100);
        let hash = 0x5abc_def0_1234_5678;
        let group = shape.group(hash);
        assert_eq!(shape.prefix(group.first), shape.prefix(hash));
        assert_eq!(shape.prefix(group.last), shape.prefix(hash));
        assert_ne!(shape.prefix(group.last + 1), shape.prefix(hash));
        assert_ne!(shape.prefix(group.first - 1), shape.prefix(hash));
        assert_eq!(group.first >> 60, 5, "of the same part");
    }
}
