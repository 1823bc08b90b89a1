//! Options of a hashed structure.

use alluvium_dictionary::key::{LookupKey, SEED};
use alluvium_storage::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Kind of index that locates the leaves of the sorted store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// A `PaCHash` index, which takes a few bits per leaf.
    #[default]
    PaCHash,
    /// An entropy-coded trie, as in SILT, which takes about three bits per key.
    Trie,
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IndexKind::PaCHash => "pachash",
            IndexKind::Trie => "trie",
        })
    }
}

impl FromStr for IndexKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<IndexKind> {
        match text {
            "pachash" => Ok(IndexKind::PaCHash),
            "trie" => Ok(IndexKind::Trie),
            _ => Err(Error::BadOption {
                option: "index",
                why: format!("\"{text}\" is not an index: use pachash or trie"),
            }),
        }
    }
}

/// How data older than the hash stores is organised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashedForm {
    /// SILT's sorted store: each part is a single run, which every merge rewrites.
    #[default]
    Silt,
    /// A bundle of arrays (Conway 2020, §2.3): each level has fewer than `lambda` runs and one
    /// routing filter.
    Boa {
        /// λ, the number of runs in a level that are merged into one run of the next level. A power
        /// of two from 2 to 256.
        lambda: u16,
        /// Whether filters store check digits of hashes (§2.4). Such a filter returns all runs that
        /// may contain a hash, instead of only the newest.
        refined: bool,
    },
    /// A bundle of trees (Conway 2020, §2.5 and §2.7). Each run is written once. Routing trees
    /// above the runs lead to them, and merges move only hashes from level to level.
    Bot {
        /// λ, the number of children of a tree node. A power of two from 2 to 256.
        lambda: u16,
    },
}

impl HashedForm {
    /// Returns the length of a character in bits, which is log2 λ, or 0 for SILT's form, which has
    /// no λ.
    #[must_use]
    pub fn character_bits(self) -> u8 {
        match self {
            HashedForm::Silt => 0,
            HashedForm::Boa { lambda, .. } | HashedForm::Bot { lambda } => lambda.max(1).ilog2() as u8,
        }
    }

    /// Checks that λ is a power of two from 2 to 256.
    ///
    /// # Errors
    /// [`Error::BadOption`] with the reason if λ is invalid.
    pub fn validate(self) -> Result<()> {
        match self {
            HashedForm::Boa { lambda, .. } | HashedForm::Bot { lambda }
                if !lambda.is_power_of_two() || !(2..=256).contains(&lambda) =>
            {
                Err(Error::BadOption {
                    option: "lambda",
                    why: format!(
                        "{lambda} is invalid: give a power of two from 2 to 256, since a character of a hash identifies a run of a level"
                    ),
                })
            }
            _ => Ok(()),
        }
    }
}

/// Options of a hashed structure. Those marked *Creation* cannot change once the structure has been
/// created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashedOptions {
    /// How data older than the hash stores is organised. *Creation.*
    pub form: HashedForm,
    /// Hash seed for the keys of a bundle, which should be random for each store. SILT's form
    /// ignores it. *Creation.*
    pub seed: u64,
    /// Kind of index that locates the leaves of the sorted store. *Creation.*
    pub index: IndexKind,
    /// Base-2 logarithm of the number of parts. The first bits of a key's hash select its part. A
    /// merge rewrites one part and needs as much free space as the part occupies. *Creation.*
    pub parts_log: u8,
    /// The filter of a hash store has a false positive rate of 2^−`filter_bits`.
    pub filter_bits: u8,
    /// A part of the sorted store merges its pending hash stores once their data reaches 1 /
    /// `ratio` of the part's size.
    pub ratio: u32,
    /// In SILT's form, a part is merged only once at least this many hash stores are pending.
    pub least_young: u32,
    /// Once there are this many hash stores, a third of them are joined into one.
    pub most_young: u32,
}

impl Default for HashedOptions {
    fn default() -> HashedOptions {
        HashedOptions {
            form: HashedForm::default(),
            seed: SEED,
            index: IndexKind::default(),
            parts_log: 4,
            filter_bits: 10,
            ratio: 4,
            least_young: 4,
            most_young: 24,
        }
    }
}

/// Maximum value of `parts_log`.
pub const MOST_PARTS_LOG: u8 = 12;

impl HashedOptions {
    /// Checks that every option is within its limits.
    ///
    /// # Errors
    /// [`Error::BadOption`] with the name of the first invalid option.
    pub fn validate(&self) -> Result<()> {
        let bad = |option, why: String| Err(Error::BadOption { option, why });
        if self.parts_log > MOST_PARTS_LOG {
            return bad(
                "parts",
                format!(
                    "2^{} is too many: give at most 2^{MOST_PARTS_LOG}",
                    self.parts_log
                ),
            );
        }
        self.form.validate()?;
        if self.form != HashedForm::Silt && self.index != IndexKind::PaCHash {
            return bad(
                "index",
                "form=boa and form=bot find leaves by prefixes of hashes, which a trie cannot: leave index out, or use index=pachash"
                    .to_owned(),
            );
        }
        if !(4..=24).contains(&self.filter_bits) {
            return bad(
                "filter bits",
                format!("{} is out of range: give 4 to 24", self.filter_bits),
            );
        }
        if self.ratio == 0 || self.least_young == 0 || self.most_young < self.least_young.max(2) {
            let numbers = (self.ratio, self.least_young, self.most_young);
            return bad(
                "merges",
                format!(
                    "{numbers:?} is invalid: give a ratio and a minimum number of hash stores of at least 1, and a maximum number of at least 2 that is not below the minimum"
                ),
            );
        }
        Ok(())
    }

    /// Returns the hash that this structure uses for a key.
    #[must_use]
    #[inline]
    pub fn hash_of(&self, key: LookupKey<'_>) -> u64 {
        match self.own_seed() {
            SEED => key.hash(),
            seed => alluvium_filters::hash(seed, key.bytes()),
        }
    }

    /// Returns this structure's hash seed for keys.
    #[must_use]
    #[inline]
    pub fn own_seed(&self) -> u64 {
        match self.form {
            HashedForm::Silt => SEED,
            HashedForm::Boa { .. } | HashedForm::Bot { .. } => self.seed,
        }
    }

    /// Returns the number of hash stores at which they are normally merged or joined, however small
    /// they are.
    #[must_use]
    pub fn most(&self) -> u32 {
        match self.form {
            HashedForm::Silt => self.most_young,
            HashedForm::Boa { lambda, .. } | HashedForm::Bot { lambda } => self.most_young.min(lambda.into()),
        }
    }

    /// Returns the number of the part to which a hash belongs.
    #[must_use]
    #[inline]
    pub fn part_of(&self, hash: u64) -> usize {
        (hash >> 1 >> (63 - self.parts_log)) as usize
    }

    /// Returns the first and the last hash of a part, both inclusive.
    #[must_use]
    pub fn hashes_of(&self, part: usize) -> (u64, u64) {
        let width = u64::MAX >> self.parts_log;
        let first = (part as u64)
            .checked_shl(64 - u32::from(self.parts_log))
            .unwrap_or(0);
        (first, first + width)
    }

    /// Returns how many hash stores are joined into one at a time.
    #[must_use]
    pub fn joined(&self) -> usize {
        (self.most_young as usize / 3).max(2)
    }

    /// Returns the number of parts.
    #[must_use]
    pub fn parts(&self) -> usize {
        1 << self.parts_log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hash_is_in_one_part() {
        for parts_log in [0, 1, 4, MOST_PARTS_LOG] {
            let options = HashedOptions {
                parts_log,
                ..HashedOptions::default()
            };
            options.validate().unwrap();
            let mut next = 0;
            for part in 0..options.parts() {
                let (first, last) = options.hashes_of(part);
                assert_eq!(
                    (first, options.part_of(first), options.part_of(last)),
                    (next, part, part)
                );
                next = last.wrapping_add(1);
            }
            assert_eq!(next, 0, "the last part ends with the last hash");
        }
        for lambda in [0, 1, 3, 6, 100, 512] {
            let form = HashedForm::Boa {
                lambda,
                refined: false,
            };
            let text = HashedOptions {
                form,
                ..HashedOptions::default()
            };
            let text = text.validate().unwrap_err().to_string();
            assert!(text.contains("a power of two from 2 to 256"), "{text}");
        }
        let trie = HashedOptions {
            form: HashedForm::Boa {
                lambda: 4,
                refined: true,
            },
            index: IndexKind::Trie,
            ..HashedOptions::default()
        };
        assert!(trie.validate().is_err());
        let bad = HashedOptions {
            parts_log: 13,
            ..HashedOptions::default()
        };
        assert!(bad.validate().is_err());
        assert_eq!("trie".parse::<IndexKind>().unwrap().to_string(), "trie");
        assert!("b-tree".parse::<IndexKind>().is_err());
    }
}
