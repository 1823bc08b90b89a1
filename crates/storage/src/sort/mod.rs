//! External merge sort, which writes sorted runs to temporary files and then merges them into a
//! stream.
//!
//! *Scope*: how records are collected, sorted and written as runs; how runs are merged, in several
//! passes if necessary; and how the bytes of a run are verified.
//!
//! *Must not depend on*: the meaning of records; threads and clocks. The caller's threads may sort
//! and write chunks in parallel.
//!
//! ```
//! use alluvium_device::memory::MemoryDirectory;
//! use alluvium_storage::sort::{SortRecordLayout, SortOptions, ExternalSorter};
//! use std::sync::Arc;
//! let directory = Arc::new(MemoryDirectory::new());
//! let mut sorter = ExternalSorter::new(directory, "words", SortOptions::new(SortRecordLayout::Variable))?;
//! for word in ["pear", "apple", "plum"] {
//!     sorter.push(word.as_bytes(), b"")?;
//! }
//! let mut sorted = sorter.finish()?;
//! assert_eq!(sorted.next()?.map(|record| record.key().to_vec()), Some(b"apple".to_vec()));
//! # Ok::<(), alluvium_storage::sort::Error>(())
//! ```
//!
//! # How it works
//!
//! Records are collected in a *chunk* of bounded size. A full chunk is sorted and written as a
//! *run*. To compare two keys, the eight bytes after the common prefix of all keys are compared
//! first, as a number. A loser tree over the runs finds the next record with one comparison per
//! level (Knuth, "The Art of Computer Programming" 3, section 5.4.1). One frame of each run is read
//! ahead. If there are more runs than frames fit into memory, groups of consecutive runs are first
//! merged into single runs.
//!
//! Invariants:
//!
//! - **Q1** Records with equal keys are returned in the order in which they were pushed, even
//!   across chunks and runs, because only consecutive runs are merged, and records with equal keys
//!   are ordered by run number.
//! - **Q2** The file of a run is unlinked right after its creation. After a crash, it is therefore
//!   in no directory, or it has a name that is removed when a spool with the same name is next
//!   created.
//! - **Q3** A frame is used only if its checksum, its run number and its frame number are correct.
//! - **Q4** The space of a run is allocated before its first byte is written.
//! - **Q5** Frames in memory use at most the memory given in the options, except in a merge of two
//!   runs with a very long record.

mod chunk;
mod error;
pub mod format;
mod merge;
mod options;
mod passes;
mod reader;
mod sorter;
mod spool;
mod tree;
mod writer;

pub use chunk::{PushOutcome, SortChunk, SortedChunk};
pub use error::{Error, Result};
pub use merge::{SortMerge, SortRecord};
pub use options::{EqualKeyPolicy, SortOptions, SortRecordLayout};
pub use passes::{MergeGroup, MergePasses};
pub use reader::SortedRun;
pub use sorter::ExternalSorter;
pub use spool::{SortSpool, SortedInput};

#[cfg(test)]
mod tests;
