//! Trees whose pages are written in place: a Bε-tree and a B⁺-tree over a page buffer of their
//! own.
//!
//! *Knows*: pages in memory and in a file, what nodes hold, how messages move down a tree, who
//! latches what.
//!
//! *Does not know*: transactions, threads, clocks; and, but for `structure`, sequence numbers.
//!
//! *Read in this order*: `error.rs`, [`buffer`], [`node`], `core.rs`, `growth.rs`, `merge.rs`,
//! `watch.rs`, [`read`], `tree.rs`, [`beps`], [`bplus`], `store/` (trees in files),
//! `structure/` (as a structure of a store), `decode.rs` (all formats, for fuzzing).
//!
//! The source is Rotte's thesis on write-heavy operations with Bε-trees (TU München, 2022).
//! Here sizes are chosen when a tree is created, keys and values vary in length up to limits,
//! pages survive crashes, and every failure is an error.

pub mod beps;
pub mod bplus;
pub mod buffer;
mod core;
mod decode;
mod error;
mod growth;
mod merge;
pub mod node;
pub mod read;
mod store;
mod structure;
mod tree;
mod watch;

#[cfg(test)]
mod tests;

pub use decode::{decode, examples};
pub use merge::Merging;
pub use store::Place;
pub use structure::{
    Held, Iter, KeptPages, LostKeys, Paged, PagedOptions, PagedOutline, PagedStats, Reader, TreeKind,
    check_files,
};
pub use tree::{PagedTree, WritePath};
