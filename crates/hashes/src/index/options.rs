//! Options of a static data index, which are fixed when it is built.

use super::error::{Error, Result};
use super::format::SUM_BYTES;
use alluvium_device::BLOCK;
use alluvium_filters::trie::{DEFAULT_HMAX, DEFAULT_KEYS_PER_BUCKET, MAX_HMAX};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaticIndexKind {
    /// Tries that locate each record, at about 2.5 bits per key.
    Dense,
    /// Tries that locate the block of each record, at less than 1 bit per key if a block holds 16
    /// or more records.
    Sparse,
    /// A block index, which stores the first bin of every block at about 5 bits per block. A lookup
    /// occasionally has to read a second block.
    Blocks,
}

/// Lengths of records and of their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedRecordLayout {
    /// Length of every key, in bytes.
    pub key_bytes: u32,
    /// Length of every value, in bytes.
    pub value_bytes: u32,
    /// Length of a block, in bytes. A block is the unit of reads. Its length is a multiple of 512.
    pub block_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticIndexOptions {
    /// Lengths of records and blocks.
    pub shape: FixedRecordLayout,
    pub kind: StaticIndexKind,
    /// Hash seed for keys.
    pub seed: u64,
    /// Average number of keys in a trie.
    pub keys_per_bucket: u32,
    /// Maximum number of keys in a Huffman-coded trie.
    pub hmax: u32,
    /// Maximum memory for sorting records, in bytes.
    pub memory_bytes: usize,
}

/// Maximum length of a record, including its key, in bytes.
const LONGEST: u64 = 1 << 19;
/// Maximum length of a block, in bytes.
const LONGEST_BLOCK: u64 = 1 << 20;
/// Default length of a block in bytes. By default, blocks are longer only if a record does not fit.
const DEFAULT_BLOCK: u64 = 4096;

impl FixedRecordLayout {
    /// Returns the length of a record in bytes.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.key_bytes as usize + self.value_bytes as usize
    }

    /// Returns the number of records in a full block.
    #[must_use]
    pub fn block_records(&self) -> u64 {
        (self.block_bytes as usize).saturating_sub(SUM_BYTES) as u64 / self.record_bytes().max(1) as u64
    }

    /// Returns the number of blocks for `records` records.
    #[must_use]
    pub fn blocks(&self, records: u64) -> u64 {
        records.div_ceil(self.block_records().max(1))
    }

    /// Checks that the lengths are within their limits.
    pub(super) fn verify(&self) -> Result<()> {
        let bad = |option, why| Err(Error::BadOption { option, why });
        let record = u64::from(self.key_bytes) + u64::from(self.value_bytes);
        if self.key_bytes == 0 || record > LONGEST {
            let why = format!(
                "keys of {} bytes and values of {}: choose 1 or more for the key, and at most {LONGEST} for both",
                self.key_bytes, self.value_bytes
            );
            return bad("key_bytes", why);
        }
        let block = u64::from(self.block_bytes);
        if !block.is_multiple_of(BLOCK) || block > LONGEST_BLOCK || self.block_records() == 0 {
            let why = format!(
                "a block of {block} bytes for records of {record}: choose a multiple of {BLOCK} up to {LONGEST_BLOCK} that holds one"
            );
            return bad("block_bytes", why);
        }
        Ok(())
    }
}

impl StaticIndexOptions {
    /// Returns the default options for records with these lengths: a dense index, and blocks of 4
    /// KiB, or longer ones if a record does not fit.
    #[must_use]
    pub fn new(key_bytes: u32, value_bytes: u32) -> StaticIndexOptions {
        let needed = u64::from(key_bytes) + u64::from(value_bytes) + SUM_BYTES as u64;
        let block = needed.next_multiple_of(BLOCK).max(DEFAULT_BLOCK);
        StaticIndexOptions {
            shape: FixedRecordLayout {
                key_bytes,
                value_bytes,
                block_bytes: block.try_into().unwrap_or(u32::MAX),
            },
            kind: StaticIndexKind::Dense,
            seed: 0,
            keys_per_bucket: DEFAULT_KEYS_PER_BUCKET,
            hmax: DEFAULT_HMAX,
            memory_bytes: 256 << 20,
        }
    }

    /// Checks that every option is within its limits.
    pub(super) fn verify(&self) -> Result<()> {
        self.shape.verify()?;
        let bad = |option, why| Err(Error::BadOption { option, why });
        if !(1..=MAX_HMAX).contains(&self.hmax) {
            return bad("hmax", format!("{}: choose 1 to {MAX_HMAX}", self.hmax));
        }
        if !(1..=65_536).contains(&self.keys_per_bucket) {
            let why = format!("{}: choose 1 to 65536", self.keys_per_bucket);
            return bad("keys_per_bucket", why);
        }
        Ok(())
    }
}
