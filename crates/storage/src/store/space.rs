//! Free space of each tier, and closing tiers to new data.

use super::Store;
use crate::extents::TierUsage;
use crate::tiers::MAX_TIERS;
use std::sync::atomic::Ordering;

/// Fraction of a tier's capacity, in quarters, that may be planned for data. The rest is left for
/// compactions, whose outputs need space while their inputs occupy theirs until the next
/// checkpoint.
const PLANNED: u64 = 3;
const QUARTERS: u64 = 4;

const _: () = assert!(PLANNED < QUARTERS);

/// The space that a tier has for new extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierSpace {
    /// Bytes that are in use or can still be allocated within the tier's configured size limit.
    pub capacity_bytes: u64,
    /// Number of bytes to place on this tier. Data beyond that goes to slower tiers.
    pub planned_bytes: u64,
    /// Bytes that ordinary writes can use, excluding the reserve.
    pub free_bytes: u64,
    /// Whether the tier accepts new extents, that is, neither was closed nor has failed.
    pub is_open: bool,
}

impl TierSpace {
    /// Computes the space of a tier from its usage. `grows_bytes` is how much the tier's file can
    /// still grow.
    fn of(usage: &TierUsage, grows_bytes: u64, planned_bytes: Option<u64>, is_open: bool) -> TierSpace {
        let used = usage.live_extent_bytes + usage.provisional_bytes + usage.dead_bytes;
        let allocated = usage.free_bytes.saturating_sub(usage.hole_bytes);
        let free = allocated.saturating_add(grows_bytes);
        let capacity = used.saturating_add(free);
        TierSpace {
            capacity_bytes: capacity,
            planned_bytes: planned_bytes
                .unwrap_or(capacity / QUARTERS * PLANNED)
                .min(capacity),
            free_bytes: free.saturating_sub(usage.reserve_bytes),
            is_open,
        }
    }
}

impl Store {
    /// Returns the space of each tier, and the total size in bytes of the live extents of all
    /// tiers.
    #[must_use]
    pub fn tier_space(&self) -> (Vec<TierSpace>, u64) {
        let usage = self.extents.usage();
        let spaces = usage.tiers.iter().zip(0u8..).map(|(usage, tier)| {
            let limits = self.extents.limits(tier);
            let most = limits.max_bytes.unwrap_or(u64::MAX);
            let allowed = most.saturating_sub(usage.occupied_bytes);
            let directory = self.directories().get(tier);
            // If the free space of the file system is unknown, only the configured limit applies.
            let free = directory.map_or(0, |directory| {
                directory.space().map_or(u64::MAX, |space| space.free)
            });
            let is_open = self.takes_extents(tier);
            let mut space = TierSpace::of(usage, allowed.min(free), limits.planned_bytes, is_open);
            if self.extents.has_refused(tier) {
                // The file system has refused an allocation even though it reports free space.
                space.free_bytes = 0;
            }
            space
        });
        let spaces: Vec<TierSpace> = spaces.collect();
        debug_assert!(spaces.len() >= self.tiers.count(), "one for each tier (T1)");
        (spaces, usage.total().live_extent_bytes)
    }

    /// Returns whether any tier that accepts new extents has `bytes` free.
    #[must_use]
    pub fn has_space_for(&self, bytes: u64) -> bool {
        let (spaces, _) = self.tier_space();
        let mut open = spaces.iter().filter(|space| space.is_open);
        open.any(|space| space.free_bytes >= bytes)
    }

    /// Closes a tier to new data. A caller that chooses a tier for its data must check
    /// [`Store::takes_extents`], because allocations on a closed tier are not rejected.
    ///
    /// # Panics
    /// If `tier` is the first tier, which also receives the data of callers that choose no tier, or
    /// if it exceeds the maximum tier number.
    pub fn close_tier(&self, tier: u8) {
        assert!(
            tier > 0 && usize::from(tier) < MAX_TIERS,
            "tier {tier} cannot be closed (T1)"
        );
        self.closed_tiers.fetch_or(1 << tier, Ordering::AcqRel);
    }

    /// Reopens a tier to new extents after [`Store::close_tier`].
    pub fn open_tier(&self, tier: u8) {
        debug_assert!(usize::from(tier) < MAX_TIERS, "tier {tier} (T1)");
        self.closed_tiers.fetch_and(!(1 << tier), Ordering::AcqRel);
    }

    /// Returns whether a tier accepts new extents, that is, neither was closed nor has failed.
    #[must_use]
    pub fn takes_extents(&self, tier: u8) -> bool {
        !self.is_closed(tier) && !self.tiers.fails(tier)
    }

    /// Returns whether a tier was closed to new data with [`Store::close_tier`].
    #[must_use]
    pub fn is_closed(&self, tier: u8) -> bool {
        debug_assert!(usize::from(tier) < MAX_TIERS, "tier {tier} (T1)");
        self.closed_tiers.load(Ordering::Acquire) & (1 << tier) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_and_holes_are_not_free_for_writes_but_count_as_capacity() {
        let usage = TierUsage {
            live_extent_bytes: 100,
            dead_bytes: 10,
            free_bytes: 50,
            hole_bytes: 20,
            reserve_bytes: 5,
            ..TierUsage::default()
        };
        let space = TierSpace::of(&usage, 40, None, true);
        assert_eq!((space.capacity_bytes, space.free_bytes), (180, 65));
        assert_eq!(space.planned_bytes, 135);
        let full = TierSpace::of(&usage, 0, Some(1000), true);
        assert_eq!((full.capacity_bytes, full.free_bytes), (140, 25));
        assert_eq!(full.planned_bytes, 140, "no more than it can hold");
        let endless = TierSpace::of(&usage, u64::MAX, Some(7), true);
        assert_eq!((endless.capacity_bytes, endless.planned_bytes), (u64::MAX, 7));
    }
}
