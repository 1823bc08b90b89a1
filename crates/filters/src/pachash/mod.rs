//! Block indexes of packed hash stores, which map a hash to the blocks that may contain its
//! objects, at 5 bits per block.
//!
//! *Scope*: how sorted hashes are divided into bins; how the first bin of every block is encoded
//! and found; the format of an index.
//!
//! *Must not depend on*: keys; what objects contain, and their offsets in blocks; where blocks are
//! stored.
//!
//! Source: Kurpicz, Lehmann and Sanders, "PaCHash: Packed and Compressed Hash Tables" (ALENEX 2023;
//! arXiv 2205.04745).
//!
//! # How it works
//!
//! Objects of any size are stored in hash order without gaps, so they may extend across block
//! boundaries. Hashes are divided into *bins*, a few times as many as there are blocks. For each
//! block, the index stores its *first bin*, which is the first bin that has bytes in the block. The
//! objects of a bin can be only in the blocks that have it as their first bin, and in the last
//! block with a smaller first bin:
//!
//! ```text
//! bins    0 0 1 1   4 4 5 5   5 5 5 5   5 9 …      bin 5: blocks 1, 2, 3
//! blocks  ──── 0 ── ──── 1 ── ──── 2 ── ──── 3     bin 7: block 3; it is not there
//! index         0         2         5         5
//! ```
//!
//! If an object starts exactly at a block boundary, the block's first bin may be any bin after the
//! last one before the boundary, up to the object's bin. The index uses the smallest of them (2
//! above), so that lookups need not read the preceding block.
//!
//! The ascending sequence of first bins is Elias–Fano coded: the lower bits of each bin are stored
//! verbatim and the upper bits in unary. With 8 bins per block, this takes 3 + 2 bits per block,
//! plus 1 bit per 8 blocks for samples that locate zeros.
//!
//! # Invariants
//!
//! - **B1** The blocks that a lookup returns contain every byte of every object with the hash.
//! - **B2** The first bins of the blocks ascend from 0 and are less than the number of bins.
//! - **B3** The bytes of an index depend only on the hashes, the object sizes and the shape.

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
