//! The scale of a store: the sizes of its memtables, cache, log and extents, and the shape of its
//! tree.

use alluvium_storage::extents::{ExtentOptions, UNIT};
use alluvium_storage::log::{LogOptions, SegmentAccess};
use alluvium_trees::levels::FilterSource;
use alluvium_trees::tiered::TrunkShape;

/// The sizes of a simulated store. They and the simulation's seed determine all of its behaviour.
#[derive(Clone, Copy, Debug)]
pub struct StoreScale {
    /// Identity of the store. It is random except in simulations.
    pub id: u128,
    /// Size of a memtable in bytes.
    pub memtable: u64,
    /// Size of the page cache in bytes.
    pub cache: u64,
    /// Size limit, segments and lanes of the log.
    pub log: LogOptions,
    /// Sizes of the extents and of the free-space reserve.
    pub extents: ExtentOptions,
    /// Shape of the tiered tree.
    pub shape: TrunkShape,
    /// What the filters of levels are built from.
    pub filters: FilterSource,
}

impl StoreScale {
    /// Returns a scale so small that a few hundred writes fill memtables, log segments and levels
    /// of the tree. The log has two lanes and twelve segments, which total `log_bytes` bytes.
    #[must_use]
    pub fn small(id: u128, memtable: u64, log_bytes: u64) -> StoreScale {
        StoreScale {
            id,
            memtable,
            cache: 1 << 20,
            log: LogOptions {
                limit_bytes: log_bytes,
                segment_bytes: log_bytes / 12,
                reserve_bytes: log_bytes / 6,
                lanes: 2,
                access: SegmentAccess::Written,
                identity: 7,
                starts_small: false,
                stored_bytes: 0,
            },
            extents: ExtentOptions {
                max_bytes: None,
                min_reserve: UNIT,
                max_reserve: 2 * UNIT,
                min_map_deltas: 2 << 10,
                ..ExtentOptions::default()
            },
            shape: TrunkShape { fanout: 4, memtable },
            filters: FilterSource::default(),
        }
    }
}
