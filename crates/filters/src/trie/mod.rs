//! Entropy-coded tries: map a key to its position in a sorted store, with 2.5 bits per key.
//!
//! *Scope*: how sorted hashed keys are split into buckets and their tries coded; how a lookup
//! decodes a trie; the format of an index; the expected number of bits.
//!
//! *Must not depend on*: values; the location of items or blocks; whether a requested key is
//! present. The owner reads the item or block and compares the key.
//!
//! Lim, "Resource-Efficient Data-Intensive System Designs for High Performance and Capacity",
//! 2015, sections 2.3 and 3.3; Lim, Andersen and Kaminsky, "Practical Batch-Updatable External
//! Hashing with Sorting" (ALENEX 2013).
//!
//! # How it works
//!
//! The shortest distinguishing prefixes of the keys form a binary trie. A lookup needs only the
//! number of a node's keys that go left, so a trie is written as that number, then the left
//! subtrie, then the right one. Tries of zero or one keys are empty:
//!
//! ```text
//! 000 001 01 100 1010 1011 110 111        8 keys: 3 start with 0
//!                                         3   2 1   3   1 1   1
//! looking up 10010   root: 3 go left, the key goes right: index 3, skip "2 1"
//!                    3 of 5 go left, as the key; 1 of 3 goes left, as the key: index 3
//! ```
//!
//! Keys are hashed, so the number of C keys that go left follows Binomial(C, ½). Its Huffman codes
//! are computed, not stored. If all keys go the same way, one code word represents both "all left"
//! and "all right": a lookup skips a bit of its key without checking it, and present keys are still
//! found.
//!
//! In a *sparse* index a lookup finds a block of several items: a subtrie whose items are in one
//! block is empty.
//!
//! # Invariants
//!
//! - **T1** A lookup of a present key returns its item's index or its block, and reads one bucket's
//!   bits.
//! - **T2** The bytes depend only on the keys, the shape and the number of buckets, not on whether
//!   the index was built at once or by updates.
//! - **T3** A subtrie of `n` keys whose first item has offset `r` in its block has bits if and only
//!   if `r + n` exceeds the number of items per block; a dense index has one item per block.
//! - **T4** No trie is deeper than the number of bits in a key.
//! - **T5** The position and the first item of a bucket exceed its group's by at most 65,535.

mod build;
mod check;
mod code;
mod encode;
mod expected;
mod format;
mod huffman;
mod index;
mod key;
mod shape;
mod update;
mod walk;

pub use crate::packed::PackedViolation;
pub use build::TrieIndexBuilder;
pub use code::TrieCodes;
pub use format::key_of;
pub use index::TrieIndex;
pub use shape::{DEFAULT_HMAX, DEFAULT_KEYS_PER_BUCKET, MAX_BUCKET_KEYS, MAX_HMAX, MAX_KEY_BYTES, TrieShape};
pub use update::{BatchChange, BatchMerge, ItemSource, merge};

#[cfg(test)]
mod tests;
