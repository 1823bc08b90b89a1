//! External merge sort: sorted runs in temporary files, merged into a stream.
//!
//! *Scope*: how records are collected, sorted and written as runs; how runs are merged, in several
//! passes if needed; how the bytes of a run are verified.
//!
//! *Must not depend on*: the meaning of records; threads and clocks. A caller's threads may sort
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
//! *run*. Keys are compared by the eight bytes after the common prefix of all keys first, as a
//! number. A loser tree over the runs finds the next record with one comparison for each level
//! (Knuth, "The Art of Computer Programming" 3, section 5.4.1). Each run is read ahead by one
//! frame. If there are more runs than memory has frames for, some consecutive ones are merged into
//! one first.
//!
//! Invariants:
//!
//! - **Q1** Records with equal keys are returned in the order in which they were pushed, across
//!   chunks and runs: merged runs are consecutive, and equal keys are ordered by the number of
//!   their run.
//! - **Q2** A run's file is unlinked right after its creation: after a crash it is in no directory,
//!   or has a name that the next opening of the same spool removes.
//! - **Q3** A frame is used only if its checksum, its run and its number are right.
//! - **Q4** Space for a run is allocated before its first byte is written.
//! - **Q5** Frames in memory use no more than the memory in the options, unless two runs with a
//!   large record are merged.

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
