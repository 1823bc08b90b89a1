//! The sizes of a store's parts.

use alluvium_storage::extents::{ExtentOptions, UNIT};
use alluvium_storage::log::{Access, LogOptions};
use alluvium_trees::levels::Filters;
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
    /// What filters of levels are made of.
    pub filters: Filters,
}

impl Scale {
    /// Returns a scale at which a few hundred writes fill memtables, segments of the log and levels
    /// of the tree. The log has two lanes, and `log_bytes` in twelve segments.
    #[must_use]
    pub fn small(id: u128, memtable: u64, log_bytes: u64) -> Scale {
        Scale {
            id,
            memtable,
            cache: 1 << 20,
            log: LogOptions {
                limit_bytes: log_bytes,
                segment_bytes: log_bytes / 12,
                reserve_bytes: log_bytes / 6,
                lanes: 2,
                access: Access::Written,
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
            shape: Shape { fanout: 4, memtable },
            filters: Filters::default(),
        }
    }
}
