//! Data at rest that is found by hash: sorted records in one file, an index of 0.3 to 2.6 bits a
//! key in another.
//!
//! *Knows*: how records are hashed, sorted and written; how tries or a block index find them with
//! one read; how a batch updates both; in which order files get their names.
//!
//! *Does not know*: threads, clocks, what keys and values mean.
//!
//! *Read in this order*: `options`, `error`, `format` (the bytes), `data` (the file of records),
//! `indexer` (the index of records that come in order), `install` (names), `build`, `open`,
//! `update`, `check`.
//!
//! ```
//! use alluvium_device::memory::MemoryDirectory;
//! use alluvium_hashes::index::{Builder, Index, Options, Updater};
//! use std::sync::Arc;
//! let directory = Arc::new(MemoryDirectory::new());
//! let mut builder = Builder::new(directory.clone(), "users", Options::new(4, 2))?;
//! builder.push(b"ada ", b"36")?;
//! builder.push(b"alan", b"41")?;
//! builder.finish()?;
//! let mut updater = Updater::new(directory.clone(), "users", 1 << 20)?;
//! updater.put(b"ada ", b"37")?;
//! updater.delete(b"alan")?;
//! updater.finish()?;
//! let index = Index::open(&*directory, "users")?;
//! assert_eq!(index.get(b"ada ")?, Some(b"37".to_vec()));
//! assert_eq!(index.get(b"alan")?, None);
//! # Ok::<(), alluvium_hashes::index::Error>(())
//! ```
//!
//! Lim, "Resource-Efficient Data-Intensive System Designs for High Performance and Capacity",
//! 2015, chapter 3; Kurpicz, Lehmann and Sanders, "PaCHash" (2023) for the block index.
//!
//! Invariants:
//!
//! - **I1** The bytes of both files depend on the records and the options alone, not on whether an
//!   update or a build wrote them.
//! - **I2** The file of an index names the file of its records. Renaming it is the one step by
//!   which an update comes into being, after both are durable.
//! - **I3** Records are in the order of their hashes, and every block but the last is full.
//! - **I4** A lookup reads one block, whether the key is there or not; none if the index says so.

mod build;
mod check;
mod data;
mod error;
pub mod format;
mod indexer;
mod install;
mod open;
mod options;
mod update;

pub use build::Builder;
pub use check::Checked;
pub use error::{Error, Result};
pub use open::{Index, Stat};
pub use options::{Kind, Options, Shape};
pub use update::{Updater, reindex};

#[cfg(test)]
mod tests;
