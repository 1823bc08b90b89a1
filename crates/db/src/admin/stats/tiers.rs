//! Statistics of each tier: space, state and I/O.

use crate::engine::Engine;
use alluvium_device::DeviceStats;
use alluvium_storage::extents::TierUsage as SpaceUsage;

/// Statistics of a tier, which is one directory of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// Path of the tier's directory, or a description if it has no path.
    pub directory: String,
    /// Capacity in bytes; at most the configured size limit of the tier.
    pub capacity_bytes: u64,
    /// Bytes available to ordinary writes.
    pub available_bytes: u64,
    /// Whether the tier accepts new data. It does not once it has been drained, nor while it fails.
    pub takes_data: bool,
    /// Error of the device, if the tier has failed since the store was opened. A failed tier
    /// accepts no new data until [`Db::use_tier`](crate::Db::use_tier) is called. Its existing data
    /// is read as far as possible.
    pub failure: Option<String>,
    /// Space usage of the tier's data file.
    pub space: SpaceUsage,
    /// I/O in the tier's directory, by purpose. For the first tier this includes the log.
    pub device: DeviceStats,
}

impl Engine {
    /// Returns the I/O counters summed over all tiers.
    pub(crate) fn device_stats(&self) -> DeviceStats {
        let tiers = 0..self.store.directories().count() as u8;
        tiers.fold(DeviceStats::default(), |sum, tier| {
            sum.plus(&self.device_stats_of(tier))
        })
    }

    /// Returns the I/O counters of a tier. If the tier was reopened, the sum includes the counters
    /// of its earlier directory handles.
    fn device_stats_of(&self, tier: u8) -> DeviceStats {
        let directories = self.store.directories_of(tier).into_iter();
        let snapshots = directories.map(|directory| directory.counters().snapshot());
        snapshots.fold(DeviceStats::default(), |sum, more| sum.plus(&more))
    }

    /// Returns the statistics of each tier.
    pub(super) fn tier_stats(&self) -> Vec<TierStats> {
        let (spaces, _) = self.store.tier_space();
        let usage = self.store.usage().0.tiers;
        let directories = self.store.directories().iter();
        let tiers = directories.zip(spaces).zip(usage).zip(0u8..);
        let tier = tiers.map(|(((directory, space), usage), number)| TierStats {
            directory: directory.describe(),
            capacity_bytes: space.capacity_bytes,
            available_bytes: space.free_bytes,
            takes_data: space.is_open,
            failure: self.store.tier_failure(number).map(|failure| failure.to_string()),
            space: usage,
            device: self.device_stats_of(number),
        });
        tier.collect()
    }
}
