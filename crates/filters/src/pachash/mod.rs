//! The block index of a packed hash store: maps a hash to the blocks of its objects, with 5 bits
//! per block.
//!
//! *Scope*: how sorted hashes are split into bins; how the first bin of every block is coded and
//! found; the format of an index.
//!
//! *Must not depend on*: keys; the contents of objects and their offsets in blocks; the location of
//! blocks.
//!
//! Kurpicz, Lehmann and Sanders, "PaCHash: Packed and Compressed Hash Tables" (ALENEX 2023;
//! arXiv 2205.04745).
//!
//! # How it works
//!
//! Objects of any size are stored in hash order, without gaps, across block boundaries. Hashes are
//! split into *bins*, a few times as many as there are blocks. For each block the index stores the
//! first bin that has bytes in it. A bin's objects are in the last block with a smaller first bin
//! and in all blocks whose first bin it is, and nowhere else:
//!
//! ```text
//! bins    0 0 1 1   4 4 5 5   5 5 5 5   5 9 …      bin 5: blocks 1, 2, 3
//! blocks  ──── 0 ── ──── 1 ── ──── 2 ── ──── 3     bin 7: block 3; it is not there
//! index         0         2         5         5
//! ```
//!
//! If an object starts at a block boundary, the block's first bin may be any bin from the last one
//! before the boundary to the object's. The index uses the smallest (2 above), which saves lookups
//! from reading the preceding block.
//!
//! The ascending sequence is Elias–Fano coded: the lower bits of each bin verbatim, the upper ones
//! in unary. With 8 bins per block this needs 3 + 2 bits; 1 bit in 8 is for samples that locate
//! zeros.
//!
//! # Invariants
//!
//! - **B1** The blocks that a lookup returns contain all bytes of all objects with its hash.
//! - **B2** First bins ascend from 0 and are less than the number of bins.
//! - **B3** The bytes depend only on the hashes, the sizes and the shape.

mod build;
mod check;
mod format;
mod index;
mod sequence;
mod shape;

pub use crate::packed::PackedViolation;
pub use build::BlockIndexBuilder;
pub use index::BlockIndex;
pub use shape::{BlockIndexShape, DEFAULT_BINS_LOG, MAX_BINS_LOG};

#[cfg(test)]
mod tests;
