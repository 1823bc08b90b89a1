//! Immutable filters, which store sorted fingerprints as encoded differences.
//!
//! *Scope*: how many bits of a hash a fingerprint needs; how fingerprints are stored, found and
//! checked; the format of a complete filter, and of one with only some of its pages.
//!
//! *Must not depend on*: keys; where the bytes are stored; which pages are still queried.
//!
//! # How it works
//!
//! A filter of n hashes with a false-positive rate of 2^-b has n · 2^b possible fingerprints. A
//! hash maps to a fingerprint in proportion to its position between 0 and 2^64. A *bucket* covers
//! 16 · 2^b possible fingerprints, and thus contains 16 on average. A *page* covers 64 buckets:
//!
//! ```text
//! page      0                                    1 …    its first byte: in a directory
//! buckets   0       1          2   3      …      0 …    their first bits: 16 bits each
//! lists     +3 +9   +40 +1 +7      +5 +80 …      …      differences, Golomb–Rice coded
//! ```
//!
//! A lookup adds up the differences in one bucket, eight on average, until the sum is at least the
//! fingerprint that it is looking for. An encoded difference takes 1.42 bits more than b, and the
//! bit offsets of buckets take 1.08 bits per fingerprint.
//!
//! If hashes are clustered, the bit offsets in a page may not fit in 16 bits. They are then given
//! in steps of two, four, or more bits, and lists are padded with zeros so that each starts at a
//! multiple of the step size. Otherwise the format is the same.
//!
//! Compared with the quotient filter at a false-positive rate of 1 in 1,024, a listed filter takes
//! 12.5 bits per hash instead of up to 18. A lookup takes 60 ns instead of 7 if the filter is in
//! the core's cache. A listed filter has no values and no counts, and it cannot be changed.
//!
//! # Invariants
//!
//! - **F13** A hash that was added is always found, however the hashes are distributed.
//! - **F14** The fingerprints of a list are strictly ascending and belong to the list's bucket.
//! - **F15** The bytes depend only on the fingerprints and the shape. A page has the same bytes in
//!   a part of a filter as in the complete filter.

mod build;
mod check;
mod filter;
mod format;
mod shape;

pub use crate::packed::PackedViolation;
pub use build::{encode, write};
pub use filter::ListedFilter;
pub use shape::{ListedShape, MOST_BITS, MOST_HASHES};

#[cfg(test)]
mod tests;
