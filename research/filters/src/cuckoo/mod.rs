//! Partial-key cuckoo hashing: an in-memory table from a key's hash to a 32-bit offset that moves
//! entries without reading their keys. Its tags alone form a filter.
//!
//! *Scope*: the two buckets and tags of a hash; the layout of slots in cache lines; how an
//! insertion displaces entries and undoes the displacements on failure; the bytes of a filter.
//!
//! *Must not depend on*: keys; the meaning of an offset; whether two entries with the same tag have
//! the same key. The owner reads the record of a candidate and compares the key.
//!
//! Lim, "Resource-Efficient Data-Intensive System Designs for High Performance and Capacity",
//! 2015, chapter 2 (SILT); Fan et al., MemC3 (NSDI 2013) and cuckoo filters (CoNEXT 2014).
//!
//! ```text
//! Alternate   a key's buckets are a and b. In a its tag is b + 1, in b it is a + 1:
//!             the tag names the other bucket, so there are 2^tag_bits - 1 buckets
//! Xor         a key's tag is t in either bucket; the other bucket is b = a xor mix(t):
//!             the number of buckets is any power of two
//! ```
//!
//! Tag 0 marks an empty slot. No key has tag 0, so a filter needs no separate "in use" bit and
//! answers exactly as its table does.
//!
//! # Cache lines
//!
//! A bucket has 4 slots of 2 + 4 bytes. Its 24 bytes do not divide a 64-byte line evenly, so
//! eight buckets share three lines: six buckets lie in one line each, and two have their tags in
//! one line and their offsets in another. A lookup reads two lines for the tags; for one bucket
//! in four, a match reads a third.
//!
//! # Invariants
//!
//! - **C1** An entry is in one of its hash's two buckets, under that bucket's tag.
//! - **C2** An insertion that fails leaves every slot unchanged.
//! - **C3** A filter made from a table answers "may be present" for exactly the hashes for which
//!   the table has a candidate, whatever the table contains.
//! - **C4** A slot has the same number in the table and in its filter: 4 · bucket + position.

mod check;
mod filter;
mod format;
mod group;
mod shape;
mod table;

pub use check::CuckooViolation;
pub use filter::CuckooFilter;
pub use format::encode;
pub use shape::{CuckooShape, CuckooVariant, MAX_BUCKET_BITS, MAX_TAG_BITS, SLOTS};
pub use table::{CuckooCandidates, CuckooSlot, CuckooTable, MAX_DISPLACEMENTS};

#[cfg(test)]
mod tests;
