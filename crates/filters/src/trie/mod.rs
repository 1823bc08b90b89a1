//! Entropy-coded tries: where a key is in a sorted store, in 2.5 bits a key.
//!
//! *Knows*: how sorted hashed keys are split into buckets and their tries are coded; how a
//! lookup decodes one; the bytes of an index; how many bits to expect.
//!
//! *Does not know*: values; where items or blocks are; whether a key that is asked for is
//! there. The owner reads the item, or the block, and compares the key.
//!
//! *Read in this order*: `shape`, `key`, `huffman`, `code`, `encode`, `walk`, `format`,
//! `build`, `index`, `update`, `check`, `expected`.
//!
//! Lim, "Resource-Efficient Data-Intensive System Designs for High Performance and Capacity",
//! 2015, sections 2.3 and 3.3; Lim, Andersen and Kaminsky, "Practical Batch-Updatable External
//! Hashing with Sorting" (ALENEX 2013).
//!
//! # How it works
//!
//! The shortest prefixes that tell keys apart form a binary trie. All that a lookup needs of a
//! node is how many of its keys go left, so a trie is written as that number, then the left
//! subtrie, then the right one. Tries of no key or one take nothing:
//!
//! ```text
//! 000 001 01 100 1010 1011 110 111        8 keys: 3 start with 0
//!                                         3   2 1   3   1 1   1
//! looking up 10010   root: 3 go left, the key goes right: index 3, skip "2 1"
//!                    3 of 5 go left, as the key; 1 of 3 goes left, as the key: index 3
//! ```
//!
//! Keys are hashed, so that of C keys the number that go left follows Binomial(C, ½). Its
//! Huffman codes are computed, not stored. Where all keys go the same way, one code word stands
//! for "all left" and "all right": a lookup passes a bit of its key unseen. Keys that are there
//! are still found.
//!
//! Of a *sparse* index a lookup learns a block of several items: a subtrie whose items lie in
//! one block takes nothing.
//!
//! # Invariants
//!
//! - **T1** A key that was put in leads to its item's index, or its block's, and a lookup reads
//!   one bucket's bits.
//! - **T2** The bytes depend on the keys, the shape and the number of buckets alone, not on
//!   whether they were built at once or by updates.
//! - **T3** A subtrie of `n` keys whose first item is `r` items into its block has bits if and
//!   only if `r + n` is more than a block's items; a dense index is one with blocks of one
//!   item.
//! - **T4** No trie is deeper than a key has bits.
//! - **T5** No bucket's position or first item is more than 65,535 after its group's.

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

pub use crate::packed::Violation;
pub use build::Builder;
pub use code::Codes;
pub use format::key_of;
pub use index::Index;
pub use shape::{DEFAULT_HMAX, DEFAULT_KEYS_PER_BUCKET, MAX_BUCKET_KEYS, MAX_HMAX, MAX_KEY_BYTES, Shape};
pub use update::{Change, Merged, Source, merge};

#[cfg(test)]
mod tests;
