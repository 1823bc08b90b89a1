//! Reclamation. Dead extents become free once no reader can reach them, and free space beyond a
//! small pool is returned to the file system.

use super::allocate::SpaceGrant;
use super::backing::UnitBacking;
use super::policy::{self, ReclaimInput, ReclaimStep};
use super::tier::TierExtents;
use super::{AllocationClass, Extents, ExtentsInner, TierSlot, UNIT};
use crate::{Error, Result};
use parking_lot::MutexGuard;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of units in which one device operation punches a hole, which is 1 GiB.
const MAX_PUNCH: u32 = 8192;

/// Limits on the work of one reclamation step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimLimit {
    /// Maximum number of extents to free.
    pub extents: usize,
    /// Maximum number of device operations that punch holes, truncate files or allocate space for
    /// the reserve.
    pub operations: u32,
}

impl Default for ReclaimLimit {
    fn default() -> Self {
        ReclaimLimit {
            extents: 4096,
            operations: 4,
        }
    }
}

/// Result of one reclamation step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReclaimProgress {
    /// Total size in bytes of the extents that became free.
    pub freed_bytes: u64,
    /// Number of bytes by which files were truncated, including holes.
    pub truncated_bytes: u64,
    pub punched_bytes: u64,
    /// Whether another step could do more work right away.
    pub more: bool,
}

impl Extents {
    /// Performs one reclamation step: frees extents that are dead in a durable generation and were
    /// unlinked before `safe_epoch`, returns free space beyond the pool to the file system, and
    /// refills the reserve.
    ///
    /// # Errors
    /// I/O errors. A full disk is not an error; the reserve is then not refilled.
    pub fn reclaim(&self, safe_epoch: u64, limit: ReclaimLimit) -> Result<ReclaimProgress> {
        let mut done = ReclaimProgress::default();
        let (mut extents, mut operations) = (limit.extents, limit.operations);
        for slot in self.shared.slots.iter() {
            let mut tier = slot.tier.lock();
            let (freed_extents, units) = tier.settle(safe_epoch, extents);
            assert!(freed_extents <= extents, "{extents} were to be freed");
            extents -= freed_extents;
            done.freed_bytes += u64::from(units) * UNIT;
            if units > 0 {
                slot.refused.store(false, Ordering::Relaxed);
            }
            done.more |= tier.can_settle(safe_epoch);
            loop {
                let choice = policy::choose_reclaim_step(&slot.excess(&tier));
                if choice == ReclaimStep::Nothing {
                    break;
                }
                if operations == 0 {
                    done.more = true;
                    break;
                }
                operations -= 1;
                match self.shared.give_back(slot, &mut tier, choice, &mut done) {
                    Ok(true) => {}
                    Ok(false) | Err(Error::TierFails { .. }) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(done)
    }

    /// Returns free space of tier 0 to its full file system, so that another file on it, a map or a
    /// log file, can grow. Only space that requests of this `class` may use is returned. Returns
    /// the number of bytes returned, which exceeds `bytes` by less than one unit.
    ///
    /// # Errors
    /// I/O errors.
    pub fn release_free_space(&self, bytes: u64, class: AllocationClass) -> Result<u64> {
        self.shared.release_free_space(bytes, class)
    }
}

impl TierSlot {
    fn excess(&self, tier: &TierExtents) -> ReclaimInput {
        // An empty tier has no data to delete and so needs no reserve, and a new store should be
        // small.
        let reserve = match tier.used() {
            0 => 0,
            _ => tier.reserve(&self.limits).units(),
        };
        debug_assert!(
            tier.backed.count() <= tier.occupying(),
            "what is known to have space may have it"
        );
        ReclaimInput {
            occupying: tier.occupying(),
            backed: tier.backed.count(),
            tail: tier.free.run_below(tier.units),
            file: tier.units,
            used: tier.used(),
            reserve,
            start: self.limits.start(),
        }
    }
}

impl ExtentsInner {
    /// Performs one step. Returns whether the policy should choose another.
    fn give_back(
        &self,
        slot: &TierSlot,
        tier: &mut MutexGuard<'_, TierExtents>,
        choice: ReclaimStep,
        done: &mut ReclaimProgress,
    ) -> Result<bool> {
        match choice {
            // The file of a failed tier cannot be changed, so its free space is not returned.
            _ if self.tiers.fails(tier.number) => Ok(false),
            ReclaimStep::Truncate(_) if tier.resizing => Ok(false),
            ReclaimStep::Truncate(units) => {
                let cut = tier.tail_with(units);
                done.truncated_bytes += self.truncate(slot, tier, &cut)?;
                Ok(true)
            }
            ReclaimStep::Punch(units) => {
                let most = units.min(MAX_PUNCH);
                let Some(range) = tier.free.last_without(&tier.holes, tier.units, most) else {
                    return Ok(false);
                };
                done.punched_bytes += self.punch(tier, &range)?;
                Ok(true)
            }
            ReclaimStep::Refill(units) => Ok(self.provide(slot, tier, units)? == SpaceGrant::Given),
            ReclaimStep::Nothing => Ok(false),
        }
    }

    /// Truncates the file at the start of a free range at its end. Returns by how many bytes the
    /// file became shorter. The tier's lock is released during I/O.
    fn truncate(
        &self,
        slot: &TierSlot,
        tier: &mut MutexGuard<'_, TierExtents>,
        cut: &Range<u32>,
    ) -> Result<u64> {
        if cut.is_empty() {
            return Ok(0);
        }
        let file = Arc::clone(self.tiers.get(tier.number)?);
        let occupying = cut.end - cut.start - tier.holes.count_in(cut.clone());
        debug_assert_eq!(cut.end, tier.units, "only a file's end is cut off");
        tier.hold(cut.clone());
        tier.resizing = true;
        let result = MutexGuard::unlocked(tier, || file.truncate(u64::from(cut.start) * UNIT));
        tier.resizing = false;
        slot.resized.notify_all();
        if let Err(error) = result {
            tier.unhold(cut, UnitBacking::Unchanged);
            return self.tiers.record_failure(tier.number, Err(error));
        }
        tier.shorten(cut);
        slot.discharge(occupying);
        Ok(u64::from(cut.end - cut.start) * UNIT)
    }

    /// Punches a hole in a free range. Returns the number of bytes returned to the file system. The
    /// tier's lock is released during I/O.
    fn punch(&self, tier: &mut MutexGuard<'_, TierExtents>, range: &Range<u32>) -> Result<u64> {
        let file = Arc::clone(self.tiers.get(tier.number)?);
        debug_assert!(tier.free.contains(range.clone()), "only free units are punched");
        tier.hold(range.clone());
        let bytes = u64::from(range.start) * UNIT..u64::from(range.end) * UNIT;
        let result = MutexGuard::unlocked(tier, || file.punch_hole(bytes.clone()));
        if let Err(error) = result {
            tier.unhold(range, UnitBacking::Unchanged);
            return self.tiers.record_failure(tier.number, Err(error));
        }
        tier.unhold(range, UnitBacking::Hole);
        self.slot(tier.number).discharge(range.end - range.start);
        Ok(bytes.end - bytes.start)
    }

    /// Punches holes in free units until at least `bytes` bytes have been returned to the file
    /// system, including the part of the reserve that `class` may use. Returns the number of bytes
    /// returned.
    pub(super) fn release_free_space(&self, bytes: u64, class: AllocationClass) -> Result<u64> {
        // Only tier 0 shares its file system with the map and the log.
        let slot = self.slot(0);
        let mut given = 0;
        let mut tier = slot.tier.lock();
        while given < bytes {
            let leaves = class.leaves(tier.reserve(&slot.limits));
            let spare = tier.occupying().saturating_sub(leaves);
            let most = (bytes - given).div_ceil(UNIT).min(MAX_PUNCH.into()) as u32;
            let most = most.min(spare);
            if most == 0 {
                break;
            }
            let Some(range) = tier.free.last_without(&tier.holes, tier.units, most) else {
                break;
            };
            given += self.punch(&mut tier, &range)?;
        }
        Ok(given)
    }
}
