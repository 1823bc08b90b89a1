//! A filter that is built once: the fingerprints of its hashes, sorted, as coded differences.
//!
//! *Knows*: how many bits of a hash make a fingerprint; how fingerprints are listed, found and
//! checked; the bytes of a filter, and of one with some of its pages.
//!
//! *Does not know*: keys; where its bytes lie; which of its pages are still asked.
//!
//! *Read in this order*: `shape`, `format`, `build`, `filter`, `check`.
//!
//! # How it works
//!
//! A filter of n hashes that says yes in vain once in 2^b lookups has n · 2^b possible
//! fingerprints, of which a hash has the one at its place between 0 and 2^64. A *bucket* covers
//! 16 · 2^b of them, so that it has 16 on average, and a *page* covers 64 buckets:
//!
//! ```text
//! page      0                                    1 …    its first byte: in a directory
//! buckets   0       1          2   3      …      0 …    their first bits: 16 bits each
//! lists     +3 +9   +40 +1 +7      +5 +80 …      …      differences, Golomb–Rice coded
//! ```
//!
//! A lookup adds up the differences of one bucket until it meets its fingerprint or is above it:
//! eight of them on average. Coded differences take 1.42 bits more than b, and finding the bucket
//! takes 1.08.
//!
//! Where hashes crowd, a page's first bits do not fit 16 bits. They are then counted in steps of
//! two bits, or four, and so on; lists begin at such a step, and zeros fill what is between them.
//! Nothing else changes.
//!
//! Against the quotient filter: 12.5 bits a hash for one wrong answer in 1,024, where that takes
//! up to 18; 60 ns a lookup from the core's cache, where that takes 7; no values, no counts, no
//! changes.
//!
//! # Invariants
//!
//! - **F13** A hash that was put in is found, however hashes lie.
//! - **F14** A list's fingerprints rise, each once, and are those of its bucket.
//! - **F15** The bytes depend on the fingerprints and the shape alone. A part has the same bytes of
//!   its pages as the whole.

mod build;
mod check;
mod filter;
mod format;
mod shape;

pub use crate::packed::Violation;
pub use build::{encode, write};
pub use filter::Filter;
pub use shape::{MOST_BITS, MOST_HASHES, Shape};

#[cfg(test)]
mod tests;
