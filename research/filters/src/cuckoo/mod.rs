//! Partial-key cuckoo hashing: a table in memory from a key's hash to a 32-bit offset, which
//! moves entries without reading their keys; and its tags alone as a filter.
//!
//! *Knows*: which two buckets and tags a hash has; how slots lie in cache lines; how an
//! insertion makes space, and how it takes that back; the bytes of a filter.
//!
//! *Does not know*: keys; what an offset means; whether two entries with one tag have one key.
//! The owner reads the record of a candidate and compares the key.
//!
//! *Read in this order*: `shape`, `group`, `table`, `format`, `filter`, `check`.
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
//! Tag 0 marks an empty slot. No key has it, so that a filter needs no bit for "in use" and
//! answers exactly as its table does.
//!
//! # Cache lines
//!
//! A bucket has 4 slots of 2 + 4 bytes. 24 bytes do not tile a line of 64, so eight buckets
//! share three lines: six lie in one line each, two have their tags in one line and their
//! offsets in another. A lookup reads two lines for the tags, and for a match in one bucket of
//! four a third.
//!
//! # Invariants
//!
//! - **C1** An entry is in one of its hash's two buckets, under that bucket's tag.
//! - **C2** An insertion that fails leaves every slot as it was: no entry is lost, none is
//!   added.
//! - **C3** A filter made of a table says "may be there" for exactly the hashes for which the
//!   table has a candidate, whatever was put in.
//! - **C4** A slot's number is the same in the table and in its filter: 4 · bucket + place.

mod check;
mod filter;
mod format;
mod group;
mod shape;
mod table;

pub use check::Violation;
pub use filter::Filter;
pub use format::encode;
pub use shape::{MAX_BUCKET_BITS, MAX_TAG_BITS, SLOTS, Shape, Variant};
pub use table::{Candidates, MAX_DISPLACEMENTS, Slot, Table};

#[cfg(test)]
mod tests;
