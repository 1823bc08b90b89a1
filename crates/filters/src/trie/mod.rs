//! Entropy-coded tries, which map a key to its position in a sorted store at 2.5 bits per key.
//!
//! *Scope*: how sorted, hashed keys are divided into buckets, and how the trie of a bucket is
//! encoded; how a lookup decodes a trie; the format of an index; the expected number of bits.
//!
//! *Must not depend on*: values; where items or blocks are stored; whether a requested key is
//! present. The owner reads the item or block and compares the key.
//!
//! Sources: Lim, "Resource-Efficient Data-Intensive System Designs for High Performance and
//! Capacity", 2015, sections 2.3 and 3.3; Lim, Andersen and Kaminsky, "Practical Batch-Updatable
//! External Hashing with Sorting" (ALENEX 2013).
//!
//! # How it works
//!
//! The shortest prefixes that tell the keys apart form a binary trie. All that a lookup needs to
//! know at each node is the number of keys that go left. A trie is therefore written as this
//! number, followed by the left and the right subtrie. A trie of no key or one key is empty:
//!
//! ```text
//! 000 001 01 100 1010 1011 110 111        8 keys: 3 start with 0
//!                                         3   2 1   3   1 1   1
//! looking up 10010   root: 3 go left, the key goes right: index 3, skip "2 1"
//!                    3 of 5 go left, as the key; 1 of 3 goes left, as the key: index 3
//! ```
//!
//! Keys are hashed, so the number of keys that go left, out of C keys, has the distribution
//! Binomial(C, ½). The Huffman codes for this distribution are computed rather than stored. A
//! single code word stands for both cases in which all keys go to the same side. At such a node, a
//! lookup skips a bit of its key without checking it, and still finds keys that are present.
//!
//! In a *sparse* index, a lookup finds a block of several items rather than a single item, so a
//! subtrie is empty if all of its items are in one block.
//!
//! # Invariants
//!
//! - **T1** A lookup of a key that is present returns the index of its item, or its block. It reads
//!   the bits of only one bucket.
//! - **T2** The bytes depend only on the keys, the shape and the number of buckets, and not on
//!   whether the index was built at once or by updates.
//! - **T3** A subtrie of `n` keys whose first item has offset `r` in its block has bits if and only
//!   if `r + n` is greater than the number of items per block. A dense index has one item per
//!   block.
//! - **T4** The depth of a trie does not exceed the number of bits in a key.
//! - **T5** The bit offset and the first item of a bucket exceed those of its group by at most
//!   65,535.

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
