//! Sorting more records than memory holds: sorted runs in temporary files, merged into a stream.
//!
//! *Knows*: how records are gathered, sorted and written as runs; how runs are merged, in several
//! passes if they must be; how the bytes of a run prove that they are what was written.
//!
//! *Does not know*: what records mean; threads and clocks. A caller's threads may sort and write
//! chunks side by side.
//!
//! *Read in this order*: `options`, `error`, `format` (the bytes), `chunk` (records in memory),
//! `writer` and `reader` (runs), `tree` (who is next), `merge`, `spool` (the files), `passes`,
//! `sorter` (all of it for one thread).
//!
//! ```
//! use alluvium_device::memory::MemoryDirectory;
//! use alluvium_storage::sort::{Layout, Options, Sorter};
//! use std::sync::Arc;
//! let directory = Arc::new(MemoryDirectory::new());
//! let mut sorter = Sorter::new(directory, "words", Options::new(Layout::Variable))?;
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
//! Records are gathered in a *chunk* of bounded size. A full chunk is sorted and written as a
//! *run*. Of each record the eight bytes behind what all keys begin with are compared first, as a
//! number. A loser tree over the runs finds the next record with one comparison a level (Knuth,
//! "The Art of Computer Programming" 3, section 5.4.1). Each run is read ahead by a frame. Where
//! more runs than memory has frames for are to be merged, some that follow each other are merged
//! into one first.
//!
//! Invariants:
//!
//! - **Q1** Records with equal keys come in the order in which they were pushed, chunks and runs
//!   included: runs that are merged follow each other, and equal keys go by their number.
//! - **Q2** A run's file has no name once it exists: what a crash leaves is in no directory, or has
//!   a name that the next opening of the same spool removes.
//! - **Q3** A frame is used only if its checksum, its run and its number are right.
//! - **Q4** Space for a run is taken before its first byte is written.
//! - **Q5** Frames in memory take no more than the options' memory, unless two runs with a large
//!   record are merged.

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

pub use chunk::{Chunk, Pushed, SortedChunk};
pub use error::{Error, Result};
pub use merge::{Merge, Record};
pub use options::{Equal, Layout, Options};
pub use passes::{Group, Passes};
pub use reader::Run;
pub use sorter::Sorter;
pub use spool::{Spool, Spooled};

#[cfg(test)]
mod tests;
