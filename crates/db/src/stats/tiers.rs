//! What each tier of a store holds, and what its device was asked for.

use crate::engine::Engine;
use crate::{DeviceStats, SpaceUsage};

/// A tier: a directory of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// Its directory.
    pub directory: String,
    /// Bytes that it could hold in all, within its limit.
    pub capacity_bytes: u64,
    /// Bytes that are free for ordinary writes.
    pub available_bytes: u64,
    /// Whether it takes data: not once it is drained, and not while it fails.
    pub takes_data: bool,
    /// What its device said when it failed, if it has since the store was opened. It takes nothing
    /// new until [`Db::use_tier`](crate::Db::use_tier); what lies on it is read as far as it can
    /// be.
    pub failure: Option<String>,
    /// Its data file.
    pub space: SpaceUsage,
    /// What was asked for of its directory, by purpose; of the first one, the log included.
    pub device: DeviceStats,
}

impl Engine {
    /// Returns what the devices of all tiers were asked for.
    pub(crate) fn device_stats(&self) -> DeviceStats {
        let tiers = 0..self.store.directories().count() as u8;
        tiers.fold(DeviceStats::default(), |sum, tier| {
            sum.plus(&self.device_stats_of(tier))
        })
    }

    /// Returns what the device of a tier was asked for, in each directory that it had.
    fn device_stats_of(&self, tier: u8) -> DeviceStats {
        let directories = self.store.directories_of(tier).into_iter();
        let snapshots = directories.map(|directory| directory.counters().snapshot());
        snapshots.fold(DeviceStats::default(), |sum, more| sum.plus(&more))
    }

    /// Returns what is known of each tier.
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
