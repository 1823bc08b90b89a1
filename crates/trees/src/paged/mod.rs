//! Trees that update their pages in place: a Bε-tree and a B⁺-tree, with a page buffer of their
//! own.
//!
//! *Scope*: pages in memory and in a file; node layout; how messages move down a tree; the order in
//! which latches are acquired.
//!
//! *Must not depend on*: transactions, threads, clocks; sequence numbers, except in `structure`.
//!
//! The trees are based on Rotte's thesis on write-heavy operations with Bε-trees (TU München,
//! 2022). In contrast to the thesis, sizes are chosen when a tree is created, keys and values have
//! variable lengths up to a limit, pages survive crashes, and every failure is reported as an
//! error.

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
pub use merge::UnderfullPolicy;
pub use store::TreeLocation;
pub use structure::{
    CheckpointHold, KeptPages, LostKeys, PagedDictionary, PagedIter, PagedOptions, PagedOutline, PagedReader,
    PagedStats, TreeKind, check_files,
};
pub use tree::{PagedTree, WritePath};
