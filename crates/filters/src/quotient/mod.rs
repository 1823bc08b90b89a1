//! The quotient maplet: fingerprints with small values, in pages. Without value bits it is a
//! quotient filter.
//!
//! *Scope*: how a fingerprint is split into page, block, quotient and remainder; how the runs of a
//! page are packed, found, built, changed, merged and checked.
//!
//! *Must not depend on*: keys; the meaning of values (in the trees: which run of a pivot); the
//! location of pages.
//!
//! # How it works
//!
//! A fingerprint's quotient determines its position, so only its remainder is stored. A page covers
//! a range of fingerprints and holds its entries sorted and packed without gaps. Blocks of 48
//! quotients record which are occupied, where the block's first slot is, and which slots end a run:
//!
//! ```text
//! quotient    0  1  2  3  4  5 …     looking up quotient 4, remainder d:
//! occupied    1  0  0  1  1  0 …       occupied → rank 2 among the occupied (0, 3, 4)
//! slots       a  b  c  d  e …          the third end is slot 4, the second was slot 2
//! ends        0  1  1  0  1 …          → the run is slots 3 and 4: d, e
//! ```
//!
//! This is Pandey et al.'s rank-and-select quotient filter (SIGMOD 2017) with one change: slots are
//! packed instead of shifted from their quotient's own slot. So there are no clusters, a lookup
//! costs the same at any load, all slots of a page can be used, a run's position follows from its
//! block alone, and no bytes of other pages are ever needed. The price is that insertion is not
//! constant-time; the trees do not need that, because they build their filters from sorted arrays
//! and by merges.
//!
//! # Measurements before the choice
//!
//! Nanoseconds per lookup on the reference machine (2.6 GHz, one thread; slots of 12 + 4 bits, 1
//! MiB; quiet runs, the lowest tenth of batches of 10,000):
//!
//! | | miss, 50 % | 90 % | 95 % | hit, 50 % | 90 % | 95 % |
//! |---|---|---|---|---|---|---|
//! | three bits a slot | 12.3 | 25.9 | 32.1 | 13.4 | 30.4 | 39.2 |
//! | rank and select, shifted slots, branches | 10.1 | 19.2 | 25.4 | 10.8 | 23.8 | 33.2 |
//! | rank and select, shifted slots, without branches | 14.2 | 15.4 | 17.3 | 12.8 | 16.7 | 19.5 |
//! | rank and select in one line, packed per line | 8.9 | 9.2 | 9.4 | 9.0 | 10.3 | 10.8 |
//! | **rank and select, packed per page (this one)** | **7.4** | **7.4** | **7.9** | **7.5** | **7.9** | **8.3** |
//!
//! With shifted slots, both kinds of metadata suffer from clusters: finding the end of a cluster
//! costs a mispredicted branch. Packing per line touches one cache line instead of two, at the cost
//! of more instructions.
//!
//! # Comparison with Bloom filters
//!
//! `cargo bench -p alluvium-filters`, at equal false-positive rates. From the core's cache a lookup
//! costs 7 ns for hits and misses at any load, due to its 85 instructions. A conventional blocked
//! Bloom filter needs 9 to 12 ns for a miss and 6 to 8 ns for a hit. The split-block filter
//! (`benches/filters/split.rs`) needs 5 to 7 ns: it executes half the instructions without a chain
//! of dependent ones, and no filter that finds fingerprints by rank and select is faster than that;
//! AVX2 would reduce it to 2.3 ns. With 256 MiB, where cache misses dominate, a batch
//! ([`lookup_many`]) costs as much as the split-block filter's, 45 to 60 ns on a busy machine and
//! 35 on a quiet one; single lookups cost 1.6 times as much, because their two misses are
//! sequential. In return the maplet needs a fifth less space at loads from 90 % and supports
//! values, deletion, counting and merging; one maplet replaces one Bloom filter per value.

mod batch;
mod bits;
mod build;
mod check;
mod format;
mod geometry;
mod image;
mod lookup;
mod maplet;
mod merge;
mod page_layout;
mod run;
mod scan;
mod spill;
mod values;

pub use batch::lookup_many;
pub use build::{BuildStats, FilterBuilder};
pub use check::FilterViolation;
pub use geometry::{
    BLOCK_QUOTIENTS, BLOCK_SLOTS, DEFAULT_LOAD_PERCENT, FilterGeometry, FilterShape, MAX_QUOTIENTS,
    MAX_SLOT_BITS,
};
pub use image::{FilterImage, ImageValues};
pub use lookup::{FingerprintPresence, PageLookup, PageView};
pub use maplet::QuotientMaplet;
pub use merge::{FilterMerge, MergeProgress, MergeStats, merge};
pub use scan::EntryChunk;
pub use spill::{CountedEntry, SpillView};
pub use values::FingerprintValues;

#[cfg(test)]
mod tests;
