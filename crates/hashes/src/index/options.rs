//! What is chosen of an index before it is built.

use super::error::{Error, Result};
use super::format::SUM_BYTES;
use alluvium_device::BLOCK;
use alluvium_filters::trie::{DEFAULT_HMAX, DEFAULT_KEYS_PER_BUCKET, MAX_HMAX};

/// How records are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Tries that lead to a record: 2.5 bits a key.
    Dense,
    /// Tries that lead to a block of records: below 1 bit a key, if blocks have 16 or more.
    Sparse,
    /// The first bin of every block: 5 bits a block. A lookup reads a second block now and then.
    Blocks,
}

/// The lengths of records, and of the blocks that they lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Bytes of a block, which is read at once: a multiple of 512.
    pub block_bytes: u32,
}

/// What is chosen of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The lengths of records and blocks.
    pub shape: Shape,
    /// How records are found.
    pub kind: Kind,
    /// What keys are hashed with.
    pub seed: u64,
    /// Keys of a trie on average.
    pub keys_per_bucket: u32,
    /// Tries of up to this many keys are Huffman-coded.
    pub hmax: u32,
    /// Memory for sorting, in bytes.
    pub memory_bytes: usize,
}

/// The longest record, in bytes.
const LONGEST: u64 = 1 << 19;
/// The longest block, in bytes.
const LONGEST_BLOCK: u64 = 1 << 20;
/// The block that is chosen, unless records are longer.
const DEFAULT_BLOCK: u64 = 4096;

impl Shape {
    /// Returns the bytes of a record.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        self.key_bytes as usize + self.value_bytes as usize
    }

    /// Returns how many records a block has.
    #[must_use]
    pub fn block_records(&self) -> u64 {
        (self.block_bytes as usize).saturating_sub(SUM_BYTES) as u64 / self.record_bytes().max(1) as u64
    }

    /// Returns how many blocks some records take.
    #[must_use]
    pub fn blocks(&self, records: u64) -> u64 {
        records.div_ceil(self.block_records().max(1))
    }

    /// Checks that the lengths are possible.
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

impl Options {
    /// Returns the default options for records of some lengths: a dense index over blocks of 4 KiB,
    /// or as long as a record needs.
    #[must_use]
    pub fn new(key_bytes: u32, value_bytes: u32) -> Options {
        let needed = u64::from(key_bytes) + u64::from(value_bytes) + SUM_BYTES as u64;
        let block = needed.next_multiple_of(BLOCK).max(DEFAULT_BLOCK);
        Options {
            shape: Shape {
                key_bytes,
                value_bytes,
                block_bytes: block.try_into().unwrap_or(u32::MAX),
            },
            kind: Kind::Dense,
            seed: 0,
            keys_per_bucket: DEFAULT_KEYS_PER_BUCKET,
            hmax: DEFAULT_HMAX,
            memory_bytes: 256 << 20,
        }
    }

    /// Checks that everything is possible.
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
