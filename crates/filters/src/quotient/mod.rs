//! The quotient maplet: fingerprints with small values, in pages. Without value bits it is a
//! quotient filter.
//!
//! *Knows*: how a fingerprint is split into page, block, quotient and remainder; how the runs of a
//! page are packed, found, built, changed, merged and checked.
//!
//! *Does not know*: keys; what values mean (the trees: which run of a pivot); where pages are.
//!
//! *Read in this order*: `geometry`, `format`, `lookup`, `place`, `build`, `scan`, `merge`,
//! `maplet`, `check`; then `bits`, `run`, `spill`, `batch`.
//!
//! # How it works
//!
//! A fingerprint's quotient says where it belongs, so only its remainder is stored. A page covers a
//! range of fingerprints and holds its entries sorted and packed without a gap. Blocks of 48
//! quotients say which are occupied, where the block's first slot is, and which slots end a run:
//!
//! ```text
//! quotient    0  1  2  3  4  5 …     looking up quotient 4, remainder d:
//! occupied    1  0  0  1  1  0 …       occupied → rank 2 among the occupied (0, 3, 4)
//! slots       a  b  c  d  e …          the third end is slot 4, the second was slot 2
//! ends        0  1  1  0  1 …          → the run is slots 3 and 4: d, e
//! ```
//!
//! That is Pandey et al.'s rank-and-select quotient filter (SIGMOD 2017) with one change: slots are
//! packed rather than shifted from their quotient's own place. Nothing wanders, so there are no
//! clusters; a lookup costs the same at any load, a page's slots can all be used, a run's place
//! follows from its block alone, and no byte of another page is ever needed. What is given up,
//! insertion in constant time, the trees do not use: their filters are built from sorted arrays and
//! merges.
//!
//! # Measured before it was chosen
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
//! Both kinds of metadata lose to clusters when slots are shifted: where a cluster ends is one
//! mispredicted branch. Packing per line touches one cache line instead of two and buys it with
//! more instructions.
//!
//! # Against Bloom filters
//!
//! `cargo bench -p alluvium-filters`, at equal false-positive rates. From the core's cache a lookup
//! costs 7 ns whether it hits or misses and whatever the load, which is its 85 instructions. The
//! literature's blocked bloom filter takes 9 to 12 ns to miss and 6 to 8 ns to hit. The split-block
//! filter (`benches/filters/split.rs`) takes 5 to 7 ns: it has half the instructions and no chain
//! of them that depend on each other, and no filter that finds fingerprints by rank and select gets
//! below that; AVX2 would bring it to 2.3 ns. From 256 MiB, where cache misses decide, a batch
//! ([`lookup_many`]) costs as much as the split-block filter's, 45 to 60 ns on a busy machine and
//! 35 on a quiet one; one by one, its two misses in a row cost 1.6 times as much. In return it
//! takes a fifth less space at loads from 90 %, gives values, forgets, counts and merges; and one
//! maplet stands for as many bloom filters as it has values.

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
mod place;
mod run;
mod scan;
mod spill;
mod values;

pub use batch::lookup_many;
pub use build::{Builder, Built};
pub use check::Violation;
pub use geometry::{
    BLOCK_QUOTIENTS, BLOCK_SLOTS, DEFAULT_LOAD_PERCENT, Geometry, MAX_QUOTIENTS, MAX_SLOT_BITS, Shape,
};
pub use image::{Image, ImageValues};
pub use lookup::{Found, PageView, Presence};
pub use maplet::Maplet;
pub use merge::{Merge, Merged, Step, merge};
pub use scan::Chunk;
pub use spill::{Counted, SpillView};
pub use values::Values;

#[cfg(test)]
mod tests;
