//! Static data located by hash: sorted records in one file, and an index of 0.3 to 2.6 bits per key
//! in another.
//!
//! *Scope*: how records are hashed, sorted and written; how tries or a block index locate them with
//! one read; how a batch updates both files; in which order files are renamed.
//!
//! *Must not depend on*: threads, clocks, the meaning of keys and values.
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
//! Lim, "Resource-Efficient Data-Intensive System Designs for High Performance and Capacity",
//! 2015, chapter 3; Kurpicz, Lehmann and Sanders, "PaCHash" (2023) for the block index.
//!
//! Invariants:
//!
//! - **I1** The bytes of both files depend only on the records and the options, not on whether an
//!   update or a build wrote them.
//! - **I2** The file of an index names the file of its records. After both files are durable,
//!   renaming the index file commits an update.
//! - **I3** Records are in hash order, and every block except the last is full.
//! - **I4** A lookup reads one block, whether or not the key is present; none if the index excludes
//!   the key.

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
