//! Static data indexes. The records are in a data file, in hash order. An index file, which is
//! loaded into memory, takes 0.3 to 2.6 bits per key.
//!
//! *Scope*: how records are hashed, sorted and written; how tries or a block index locate a record
//! with one read; how a batch updates both files; in which order files are renamed.
//!
//! *Must not depend on*: threads, clocks, what keys and values mean.
//!
//! ```
//! use alluvium_device::memory::MemoryDirectory;
//! use alluvium_hashes::index::{StaticIndexBuilder, StaticIndex, StaticIndexOptions, IndexUpdater};
//! use std::sync::Arc;
//! let directory = Arc::new(MemoryDirectory::new());
//! let mut builder = StaticIndexBuilder::new(directory.clone(), "users", StaticIndexOptions::new(4, 2))?;
//! builder.push(b"ada ", b"36")?;
//! builder.push(b"alan", b"41")?;
//! builder.finish()?;
//! let mut updater = IndexUpdater::new(directory.clone(), "users", 1 << 20)?;
//! updater.put(b"ada ", b"37")?;
//! updater.delete(b"alan")?;
//! updater.finish()?;
//! let index = StaticIndex::open(&*directory, "users")?;
//! assert_eq!(index.get(b"ada ")?, Some(b"37".to_vec()));
//! assert_eq!(index.get(b"alan")?, None);
//! # Ok::<(), alluvium_hashes::index::Error>(())
//! ```
//!
//! Sources: Lim, "Resource-Efficient Data-Intensive System Designs for High Performance and
//! Capacity", 2015, chapter 3; for the block index, Kurpicz, Lehmann and Sanders, "PaCHash" (2023).
//!
//! Invariants:
//!
//! - **I1** The contents of both files depend only on the records and the options. A build and an
//!   update that result in the same records write the same bytes.
//! - **I2** The index file names its data file. Renaming the new index file commits an update,
//!   after both new files are durable.
//! - **I3** Records are in hash order. Every block except the last is full.
//! - **I4** A lookup reads one block, whether or not the key is present, or none if the index shows
//!   that the key is absent.

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

pub use build::StaticIndexBuilder;
pub use check::IndexCheckTotals;
pub use error::{Error, Result};
pub use open::{StaticIndex, StaticIndexStats};
pub use options::{FixedRecordLayout, StaticIndexKind, StaticIndexOptions};
pub use update::{IndexUpdater, reindex};

#[cfg(test)]
mod tests;
