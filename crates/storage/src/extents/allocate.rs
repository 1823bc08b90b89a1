//! Allocates extents from free space or by growing the file, and implements the later transitions
//! of allocated extents.

use super::backing::UnitBacking;
use super::policy::{self, AllocationStep};
use super::tier::TierExtents;
use super::{
    AllocationClass, Extent, ExtentUsage, Extents, ExtentsInner, MAX_EXTENT_UNITS, MAX_TIER_UNITS,
    TierLimits, TierSlot, TierUsage, UNIT,
};
use crate::{Error, Result, TierFiles};
use parking_lot::MutexGuard;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// On a full disk, it is unknown which free units occupy space. A single allocation tries at most
/// this many of them.
const MAX_PROBES: u32 = 64;

/// A tier that has refused a request is tried again once more than this fraction of its used space
/// has been abandoned.
const MOST_ABANDONED: u32 = 16;

/// Whether the file system and the tier's limit granted a request for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpaceGrant {
    Given,
    Refused,
}

impl Extents {
    /// Allocates an extent of `units` units in a tier. The extent is provisional, has one
    /// reference, and has its space allocated on the file system.
    ///
    /// ```
    /// use alluvium_device::memory::MemoryDirectory;
    /// use alluvium_storage::{TierFiles, extents::{AllocationClass, ExtentOptions, Extents}};
    /// use std::sync::Arc;
    /// let tiers = Arc::new(TierFiles::create(&[&MemoryDirectory::new()])?);
    /// let extents = Extents::create(tiers, ExtentOptions::default())?;
    /// let extent = extents.allocate(0, 8, AllocationClass::Normal)?;
    /// extents.install(&[(extent, 1000)]);
    /// assert_eq!((extents.references(extent), extents.live(extent)), (1, 1000));
    /// # Ok::<(), alluvium_storage::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Full`], in which case nothing has changed; I/O errors.
    ///
    /// # Panics
    /// If the store has no such tier, or if `units` is not between 1 and [`MAX_EXTENT_UNITS`].
    pub fn allocate(&self, tier: u8, units: u32, class: AllocationClass) -> Result<Extent> {
        self.allocate_between(tier, units..=units, class, None)
    }

    /// Allocates an extent whose length is in the range `units`, right after `near` if possible.
    /// The extent gets the maximum length, unless the tier is fragmented, the disk is full, or the
    /// tier starts small and has little data.
    ///
    /// # Errors
    /// As [`Extents::allocate`].
    ///
    /// # Panics
    /// As [`Extents::allocate`].
    pub fn allocate_between(
        &self,
        tier: u8,
        units: RangeInclusive<u32>,
        class: AllocationClass,
        near: Option<Extent>,
    ) -> Result<Extent> {
        let (least, mut wanted) = units.into_inner();
        assert!(
            1 <= least && least <= wanted && wanted <= MAX_EXTENT_UNITS,
            "{least} to {wanted} units: an extent has 1 to {MAX_EXTENT_UNITS}"
        );
        let shared = &self.shared;
        let slot = shared.slot(tier);
        let near = near.filter(|near| near.tier == tier).map(|near| near.end());
        let mut tier = slot.tier.lock();
        wanted = policy::longest(tier.used(), least, wanted, slot.limits.start());
        let (mut refused, mut probed) = (false, false);
        loop {
            let mut view = tier.view(wanted, least, class, &slot.limits);
            (view.refused, view.probed) = (refused, probed);
            match policy::choose_allocation_step(&view) {
                AllocationStep::Take(units) => {
                    if class == AllocationClass::Normal {
                        slot.refused.store(false, Ordering::Relaxed);
                    }
                    return Ok(tier.take(units, near));
                }
                AllocationStep::BackRun(units) => {
                    let start = tier.free.first_fit(units).expect("the policy saw the stretch");
                    refused = shared.back(&mut tier, start..start + units)? == SpaceGrant::Refused;
                }
                AllocationStep::BackAny(units) => {
                    refused = shared.back_any(&mut tier, units)? == SpaceGrant::Refused;
                }
                AllocationStep::Grow(units) => {
                    refused = shared.grow(slot, &mut tier, units)? == SpaceGrant::Refused;
                }
                AllocationStep::Probe(units) => {
                    shared.probe(&mut tier, units)?;
                    probed = true;
                }
                AllocationStep::Full(_) if wanted > least => {
                    // Retry with half as many units, because there may still be enough space for
                    // them.
                    wanted = least.max(wanted / 2);
                    refused = false;
                }
                AllocationStep::Full(units) => {
                    slot.refused.store(true, Ordering::Relaxed);
                    slot.abandoned.store(0, Ordering::Relaxed);
                    return Err(Error::Full {
                        wanted: u64::from(least) * UNIT,
                        free: u64::from(units) * UNIT,
                        reserve: tier.backed_longest_beyond(units, least),
                    });
                }
            }
        }
    }

    /// Returns the space limits of a tier.
    ///
    /// # Panics
    /// If the store has no such tier.
    #[must_use]
    pub fn limits(&self, tier: u8) -> TierLimits {
        self.shared.slot(tier).limits
    }

    /// Returns whether a tier has refused a request for space since space was last freed there.
    ///
    /// # Panics
    /// If the store has no such tier.
    #[must_use]
    pub fn has_refused(&self, tier: u8) -> bool {
        self.shared.slot(tier).refused.load(Ordering::Relaxed)
    }

    /// Returns whether a request of this class can allocate a unit on a tier, by allocating one and
    /// freeing it again.
    ///
    /// # Panics
    /// If the store has no such tier.
    #[must_use]
    pub fn has_space(&self, tier: u8, class: AllocationClass) -> bool {
        debug_assert!(
            usize::from(tier) < self.shared.slots.len(),
            "the store has no tier {tier} (T1)"
        );
        let extent = self.allocate(tier, 1, class);
        extent.map(|extent| self.abandon(extent)).is_ok()
    }

    /// Reserves space on a tier for compactions that free space, in addition to the shared reserve.
    /// Only [`AllocationClass::Freeing`] may use it. `bytes` is the space that a single such
    /// compaction needs. The reserve is limited to an eighth of the used space.
    pub fn set_freeing_reserve(&self, tier: u8, bytes: u64) {
        let units = bytes.div_ceil(UNIT).min(u64::from(MAX_TIER_UNITS)) as u32;
        self.shared.lock(tier).freeing = units;
    }

    /// Frees a provisional extent. All writes to it must have completed, and no cache may contain
    /// data from it, because its next owner may write to the same space in the same generation.
    ///
    /// # Panics
    /// If the extent is not provisional.
    pub fn abandon(&self, extent: Extent) {
        let slot = self.shared.slot(extent.tier);
        let mut tier = slot.tier.lock();
        tier.abandon(extent);
        // A failed step also returns what it had allocated, which does not make space. A rollback
        // of a large transaction does, and no other event may follow it on this tier.
        let abandoned = slot.abandoned.fetch_add(extent.units, Ordering::Relaxed) + extent.units;
        if abandoned > tier.used() / MOST_ABANDONED {
            slot.refused.store(false, Ordering::Relaxed);
        }
    }

    /// Frees the end of a provisional extent, of which the first `units` are kept. Returns the
    /// shortened extent.
    ///
    /// # Panics
    /// If the extent is not provisional, or if `units` is not between 1 and its length.
    #[must_use]
    pub fn trim(&self, extent: Extent, units: u32) -> Extent {
        self.shared.lock(extent.tier).trim(extent, units)
    }

    /// Makes provisional extents part of the generation under construction. Each extent comes with
    /// its number of live bytes, and keeps its one reference.
    ///
    /// # Panics
    /// If an extent is not provisional, or if its live bytes exceed its size.
    pub fn install(&self, extents: &[(Extent, u64)]) {
        for &(extent, live) in extents {
            self.shared.lock(extent.tier).install(extent, live);
        }
    }

    /// Adds a reference to a live extent.
    ///
    /// # Panics
    /// If the extent is not live, or already has [`MAX_REFERENCES`](super::MAX_REFERENCES)
    /// references.
    pub fn retain(&self, extent: Extent) {
        self.shared.lock(extent.tier).retain(extent);
    }

    /// Releases a reference to a live extent that was unlinked at `epoch`. Returns whether it was
    /// the last reference, so that the extent is now dead.
    ///
    /// # Panics
    /// If the extent is not live.
    #[expect(clippy::must_use_candidate, reason = "most callers need not know")]
    pub fn release(&self, extent: Extent, epoch: u64) -> bool {
        self.shared.lock(extent.tier).release(extent, epoch)
    }

    /// Adds `bytes` to the live bytes of a live extent.
    ///
    /// # Panics
    /// If the extent is not live, or if its live bytes would exceed its size.
    pub fn add_live(&self, extent: Extent, bytes: u64) {
        self.shared.lock(extent.tier).add_live(extent, bytes);
    }

    /// Subtracts `bytes` from the live bytes of a live extent.
    ///
    /// # Panics
    /// If the extent is not live, or if it has fewer than `bytes` live bytes.
    pub fn sub_live(&self, extent: Extent, bytes: u64) {
        self.shared.lock(extent.tier).sub_live(extent, bytes);
    }

    /// Returns the number of live bytes of an extent, or 0 if the extent does not exist.
    #[must_use]
    pub fn live(&self, extent: Extent) -> u64 {
        self.find(extent).map_or(0, |head| head.live)
    }

    /// Returns the reference count of an extent, or 0 if the extent is dead or does not exist.
    #[must_use]
    pub fn references(&self, extent: Extent) -> u32 {
        self.find(extent).map_or(0, |head| head.references)
    }

    /// Returns the live extent that contains a byte offset of a tier's file, if any.
    #[must_use]
    pub fn extent_at(&self, tier: u8, offset: u64) -> Option<Extent> {
        let unit = u32::try_from(offset / UNIT).ok()?;
        let slot = self.shared.slots.get(usize::from(tier))?;
        slot.tier.lock().extent_at(unit)
    }

    fn find(&self, extent: Extent) -> Option<super::state::ExtentState> {
        let slot = self.shared.slots.get(usize::from(extent.tier))?;
        slot.tier.lock().find(extent)
    }

    /// Returns the space of the store and of each tier.
    #[must_use]
    pub fn usage(&self) -> ExtentUsage {
        let mut usage = ExtentUsage::default();
        for slot in self.shared.slots.iter() {
            let tier = slot.tier.lock();
            let of_tier = TierUsage {
                occupied_bytes: slot.occupied.load(Ordering::Relaxed) * UNIT,
                ..tier_usage(&tier, &slot.limits)
            };
            usage.occupied_bytes += of_tier.occupied_bytes;
            usage.tiers.push(of_tier);
            usage.memory_bytes += tier.memory_bytes();
        }
        usage
    }

    /// Returns the memory in bytes that the extent maps use: about eight bytes for each unit in
    /// use, and almost nothing for a completely free chunk of 64 MiB.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let slots = self.shared.slots.iter();
        slots.map(|slot| slot.tier.lock().memory_bytes()).sum()
    }
}

/// Returns the length of a tier's file in whole units.
pub(super) fn file_units(tiers: &TierFiles, number: u8) -> Result<u32> {
    debug_assert!(usize::from(number) < tiers.count(), "tier {number}");
    Ok(super::create::units_of(&**tiers.get(number)?))
}

fn tier_usage(tier: &TierExtents, limits: &TierLimits) -> TierUsage {
    let bytes = |units: u32| u64::from(units) * UNIT;
    let held: u32 = tier.held.iter().map(|range| range.end - range.start).sum();
    let counts = &tier.counts;
    debug_assert!(tier.dying_units <= counts.dead_units, "the dying are dead");
    debug_assert!(counts.live_bytes <= bytes(counts.live_units), "live bytes");
    TierUsage {
        file_bytes: bytes(tier.units),
        live_extents: counts.live_extents,
        live_extent_bytes: bytes(counts.live_units),
        live_bytes: counts.live_bytes,
        provisional_bytes: bytes(counts.provisional_units),
        dead_bytes: bytes(counts.dead_units),
        dying_bytes: bytes(tier.dying_units),
        backed_bytes: bytes(tier.backed.count()),
        hole_bytes: bytes(tier.holes.count()),
        free_bytes: bytes(tier.free.count() + held),
        reserve_bytes: bytes(tier.reserve(limits).units()),
        occupied_bytes: 0,
    }
}

impl TierExtents {
    /// Returns whether a request for which only `had` units were available would succeed if it
    /// could use the reserve.
    fn backed_longest_beyond(&self, had: u32, least: u32) -> bool {
        had < least && self.backed.longest() >= least
    }
}

impl TierSlot {
    /// Charges up to `units` units to the tier's limit. Returns how many the limit allowed, which
    /// are the ones charged.
    fn charge(&self, units: u32) -> u32 {
        let Some(limit) = self.limits.max_bytes.map(|bytes| bytes / UNIT) else {
            self.occupied.fetch_add(units.into(), Ordering::Relaxed);
            return units;
        };
        let mut granted = 0;
        let grant = |occupied: u64| {
            granted = limit.saturating_sub(occupied).min(units.into());
            Some(occupied + granted)
        };
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let _always_set = self.occupied.fetch_update(set, fetch, grant);
        assert!(
            granted <= units.into(),
            "no more is granted than was asked for (X3)"
        );
        granted as u32
    }

    pub(super) fn discharge(&self, units: u32) {
        let before = self.occupied.fetch_sub(units.into(), Ordering::Relaxed);
        assert!(before >= units.into(), "what goes back was occupied (X3)");
    }
}

impl ExtentsInner {
    /// Makes at least `units` more units backed, by allocating space for free units or, if all of
    /// them have space, by growing the file.
    pub(super) fn provide(
        &self,
        slot: &TierSlot,
        tier: &mut MutexGuard<'_, TierExtents>,
        units: u32,
    ) -> Result<SpaceGrant> {
        if units == 0 {
            return Ok(SpaceGrant::Given);
        }
        let unbacked = tier.free.count() - tier.backed.count();
        if unbacked > 0 {
            return self.back_any(tier, units.min(unbacked));
        }
        self.grow(slot, tier, units)
    }

    /// Allocates space for the unbacked units of a free range. The tier's lock is released during
    /// I/O.
    fn back(&self, tier: &mut MutexGuard<'_, TierExtents>, range: Range<u32>) -> Result<SpaceGrant> {
        let gaps: Vec<Range<u32>> = tier.backed.gaps_in(range).collect();
        for gap in gaps {
            // Another thread may have changed this part of the range while the lock was released.
            // Skip it, and let the caller choose its next step again.
            if !tier.free.contains(gap.clone()) || tier.backed.count_in(gap.clone()) > 0 {
                continue;
            }
            if self.back_gap(tier, &gap)? == SpaceGrant::Refused {
                return Ok(SpaceGrant::Refused);
            }
        }
        Ok(SpaceGrant::Given)
    }

    /// Allocates space for a free range with no units known to be backed.
    fn back_gap(&self, tier: &mut MutexGuard<'_, TierExtents>, gap: &Range<u32>) -> Result<SpaceGrant> {
        let holes = tier.holes.count_in(gap.clone());
        let slot = self.slot(tier.number);
        let granted = slot.charge(holes);
        if granted < holes {
            slot.discharge(granted);
            return Ok(SpaceGrant::Refused);
        }
        let file = Arc::clone(self.tiers.get(tier.number)?);
        debug_assert!(
            tier.is_unbacked(gap.clone()),
            "{gap:?} is free and without space (X1)"
        );
        tier.hold(gap.clone());
        let done = MutexGuard::unlocked(tier, || {
            file.allocate(u64::from(gap.start) * UNIT..u64::from(gap.end) * UNIT)
        });
        match done {
            Ok(()) => {
                tier.unhold(gap, UnitBacking::Backed);
                Ok(SpaceGrant::Given)
            }
            Err(error) => {
                tier.unhold(gap, UnitBacking::Unchanged);
                slot.discharge(holes);
                self.refused_if_full(tier.number, error)
            }
        }
    }

    /// Allocates space for free units anywhere in the file, preferring low offsets, so that the end
    /// of the file can be truncated later.
    pub(super) fn back_any(&self, tier: &mut MutexGuard<'_, TierExtents>, units: u32) -> Result<SpaceGrant> {
        let mut wanted = units;
        let mut at = 0;
        while wanted > 0 {
            let Some(gap) = tier.first_unbacked(at) else { break };
            let gap = gap.start
                ..gap.end.min(gap.start.saturating_add(policy::step(
                    tier.units,
                    wanted,
                    policy::InitialSizing::Whole,
                )));
            if self.back_gap(tier, &gap)? == SpaceGrant::Refused {
                // The disk has no space for a whole step, but may have enough for the units needed.
                let need = gap.start..gap.end.min(gap.start + wanted);
                if need == gap
                    || !tier.is_unbacked(need.clone())
                    || self.back_gap(tier, &need)? == SpaceGrant::Refused
                {
                    return Ok(SpaceGrant::Refused);
                }
                break;
            }
            wanted = wanted.saturating_sub(gap.end - gap.start);
            debug_assert!(gap.end > at, "the search goes on");
            at = gap.end;
        }
        Ok(SpaceGrant::Given)
    }

    /// On a full disk, searches for free units that do occupy space. After the store is opened, it
    /// is unknown which ones do.
    fn probe(&self, tier: &mut MutexGuard<'_, TierExtents>, units: u32) -> Result<()> {
        let (mut found, mut at) = (0, 0);
        for _ in 0..MAX_PROBES {
            let Some(unit) = tier.first_unknown(at) else { break };
            if self.back_gap(tier, &(unit..unit + 1))? == SpaceGrant::Given {
                found += 1;
            }
            at = unit + 1;
            if found == units {
                break;
            }
        }
        Ok(())
    }

    /// Extends the file by a growth step, or by just `units` if the disk has no space for a whole
    /// step. The tier's lock is released during I/O. If another thread is already changing the
    /// file's length, waits for it and then lets the caller retry.
    pub(super) fn grow(
        &self,
        slot: &TierSlot,
        tier: &mut MutexGuard<'_, TierExtents>,
        units: u32,
    ) -> Result<SpaceGrant> {
        if tier.resizing {
            slot.resized.wait(tier);
            return Ok(SpaceGrant::Given);
        }
        let room = MAX_TIER_UNITS - tier.units;
        // A tier's first extent also allocates the space of the reserve.
        let reserve = match tier.used() {
            0 => tier.reserve(&slot.limits).units(),
            _ => 0,
        };
        let step = policy::step(tier.units, units, slot.limits.start()).max(units + reserve);
        let step = slot.charge(step.min(room));
        if step < units {
            slot.discharge(step);
            return Ok(SpaceGrant::Refused);
        }
        let file = Arc::clone(self.tiers.get(tier.number)?);
        let before = tier.units;
        let length = |added: u32| u64::from(before + added) * UNIT;
        tier.resizing = true;
        let (added, done) = MutexGuard::unlocked(tier, || {
            // After a crash, the file may end within a unit. Complete that unit first.
            let part = length(0)..file.len();
            let begun = if part.is_empty() {
                Ok(())
            } else {
                file.allocate(part)
            };
            match begun.and_then(|()| file.grow(length(step))) {
                Err(error) if error.is_disk_full() && units < step => (units, file.grow(length(units))),
                done => (step, done),
            }
        });
        tier.resizing = false;
        slot.resized.notify_all();
        match done {
            Ok(()) => {
                slot.discharge(step - added);
                tier.extend(before + added);
                Ok(SpaceGrant::Given)
            }
            Err(error) => {
                slot.discharge(step);
                self.refused_if_full(tier.number, error)
            }
        }
    }

    fn refused_if_full(&self, tier: u8, error: alluvium_device::Error) -> Result<SpaceGrant> {
        if error.is_disk_full() {
            Ok(SpaceGrant::Refused)
        } else {
            self.tiers.record_failure(tier, Err(error))
        }
    }
}
