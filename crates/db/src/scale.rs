//! The sizes of a store's parts.

use alluvium_storage::extents::ExtentOptions;
use alluvium_storage::log::LogOptions;
use alluvium_trees::tiered::Shape;

/// The sizes of a simulated store. Everything else follows from them and from a seed.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// The identity of the store, which is drawn at random otherwise.
    pub id: u128,
    /// Bytes of a memtable.
    pub memtable: u64,
    /// Bytes of the page cache.
    pub cache: u64,
    /// The sizes of the log.
    pub log: LogOptions,
    /// The sizes of extents and of the reserve.
    pub extents: ExtentOptions,
    /// The shape of the tiered tree.
    pub shape: Shape,
}
