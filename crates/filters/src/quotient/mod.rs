//! The quotient maplet, which stores fingerprints with small values in pages. Without value bits, a
//! maplet is a quotient filter.
//!
//! *Scope*: how a fingerprint is split into page, block, quotient and remainder; how the runs of a
//! page are packed, found, built, changed, merged and checked.
//!
//! *Must not depend on*: keys; what values mean (in the trees: which run of a pivot); where pages
//! are stored.
//!
//! # How it works
//!
//! The quotient of a fingerprint determines its location, so only its remainder is stored. A page
//! covers a range of fingerprints and contains their entries in order, packed without gaps. A block
//! has the metadata of 48 quotients: which of them are occupied, which means that they have
//! entries; the position of the block's first slot; and which slots end a run:
//!
//! ```text
//! quotient    0  1  2  3  4  5 …     looking up quotient 4, remainder d:
//! occupied    1  0  0  1  1  0 …       occupied → rank 2 among the occupied (0, 3, 4)
//! slots       a  b  c  d  e …          the third end is slot 4, the second was slot 2
//! ends        0  1  1  0  1 …          → the run is slots 3 and 4: d, e
//! ```
//!
//! This is the rank-and-select quotient filter of Pandey et al. (SIGMOD 2017) with one change:
//! slots are packed, instead of being shifted to the right from the slot of their quotient. As a
//! result, there are no clusters, a lookup costs the same at any load, all slots of a page can be
//! used, the position of a run depends only on its block, and bytes of other pages are never
//! needed. The disadvantage is that insertions do not take constant time. The trees do not mind,
//! because they build their filters from sorted arrays and by merging.
//!
//! # Measurements before the choice
//!
//! Nanoseconds per lookup on the reference machine (2.6 GHz, one thread; slots of 12 + 4 bits, 1
//! MiB). The machine was otherwise idle, and the values are the lowest tenth of batches of 10,000:
//!
//! | | miss, 50 % | 90 % | 95 % | hit, 50 % | 90 % | 95 % |
//! |---|---|---|---|---|---|---|
//! | three bits a slot | 12.3 | 25.9 | 32.1 | 13.4 | 30.4 | 39.2 |
//! | rank and select, shifted slots, branches | 10.1 | 19.2 | 25.4 | 10.8 | 23.8 | 33.2 |
//! | rank and select, shifted slots, without branches | 14.2 | 15.4 | 17.3 | 12.8 | 16.7 | 19.5 |
//! | rank and select in one line, packed per line | 8.9 | 9.2 | 9.4 | 9.0 | 10.3 | 10.8 |
//! | **rank and select, packed per page (this one)** | **7.4** | **7.4** | **7.9** | **7.5** | **7.9** | **8.3** |
//!
//! With shifted slots, clusters slow down lookups with either kind of metadata, because finding the
//! end of a cluster costs a mispredicted branch. Packing slots per cache line accesses one cache
//! line instead of two, but takes more instructions.
//!
//! # Comparison with Bloom filters
//!
//! The numbers are from `cargo bench -p alluvium-filters`, at equal false-positive rates. If the
//! filter is in the core's cache, a lookup costs 7 ns, for hits and misses and at any load, because
//! of its 85 instructions. A conventional blocked Bloom filter takes 9 to 12 ns for a miss and 6 to
//! 8 ns for a hit. The split-block filter (`benches/filters/split.rs`) takes 5 to 7 ns, because it
//! executes half as many instructions and they do not form a dependency chain. No filter that finds
//! fingerprints by rank and select is faster than that, and AVX2 would reduce the split-block
//! filter to 2.3 ns. With filters of 256 MiB, cache misses dominate. A batch ([`lookup_many`]) then
//! costs as much as a batch of the split-block filter: 45 to 60 ns on a busy machine and 35 on an
//! idle one. Single lookups cost 1.6 times as much, because their two misses are sequential. In
//! return, the maplet takes a fifth less space at loads of 90 % and more, and it supports values,
//! deletion, counting and merging. One maplet replaces one Bloom filter per value.

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
