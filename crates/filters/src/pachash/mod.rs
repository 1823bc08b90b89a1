//! The block index of a packed hash store: in which blocks a hash's objects are, in 5 bits a
//! block.
//!
//! *Knows*: how sorted hashes are split into bins; how the first bin of every block is coded
//! and found; the bytes of an index.
//!
//! *Does not know*: keys; what an object is, or where in its block it begins; where blocks are.
//!
//! *Read in this order*: `shape`, `sequence`, `format`, `build`, `index`, `check`.
//!
//! Kurpicz, Lehmann and Sanders, "PaCHash: Packed and Compressed Hash Tables" (ALENEX 2023;
//! arXiv 2205.04745).
//!
//! # How it works
//!
//! Objects of any sizes lie in the order of their hashes, without a gap, across the borders of
//! blocks. A hash is one of a few times as many *bins* as there are blocks. The index has for
//! each block the first bin with bytes in it. A bin's objects are in the last block with a
//! smaller first bin, in all that begin with it, and nowhere else:
//!
//! ```text
//! bins    0 0 1 1   4 4 5 5   5 5 5 5   5 9 …      bin 5: blocks 1, 2, 3
//! blocks  ──── 0 ── ──── 1 ── ──── 2 ── ──── 3     bin 7: block 3; it is not there
//! index         0         2         5         5
//! ```
//!
//! Where an object begins with its block, any bin between the last one before the border and
//! the object's will do. The index has the least (2 above), which spares lookups the block
//! before.
//!
//! The rising sequence is coded after Elias and Fano: the lower bits of each bin as they are,
//! the upper ones in unary. With 8 bins a block that is 3 + 2 bits; 1 in 8 is for finding
//! zeros.
//!
//! # Invariants
//!
//! - **B1** The blocks that a lookup gives contain all bytes of all objects with its hash.
//! - **B2** First bins rise from 0, and are below the number of bins.
//! - **B3** The bytes depend on the hashes, the sizes and the shape alone.

mod build;
mod check;
mod format;
mod index;
mod sequence;
mod shape;

pub use crate::packed::Violation;
pub use build::Builder;
pub use index::Index;
pub use shape::{DEFAULT_BINS_LOG, MAX_BINS_LOG, Shape};

#[cfg(test)]
mod tests;
