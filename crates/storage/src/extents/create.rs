//! Creates the extents of a new store, and those of a tier added to a store.

use super::allocate::file_units;
use super::map::MapState;
use super::policy;
use super::tier::TierExtents;
use super::{ExtentOptions, Extents, ExtentsInner, MAX_TIER_UNITS, TierLimits, TierSlot, UNIT};
use crate::{Error, Result, TierFiles};
use alluvium_device::Device;
use std::sync::Arc;

impl Extents {
    /// Creates the extents of a new store, with every unit free. To keep a new store small, a
    /// tier's reserve is not allocated until its first extent is. This function only verifies that
    /// the disk has space for it.
    ///
    /// # Errors
    /// [`Error::Full`] if the disk has no space for the reserve; I/O errors.
    pub fn create(tiers: Arc<TierFiles>, options: ExtentOptions) -> Result<Extents> {
        let maps = (0..tiers.count()).map(|number| empty_tier(&tiers, number as u8));
        let maps = maps.collect::<Result<Vec<_>>>()?;
        for tier in &maps {
            prove_reserve(tier, &**tiers.get(tier.number)?, options.limits(tier.number))?;
        }
        let shared = Arc::new(ExtentsInner::new(tiers, options, maps, MapState::default()));
        Ok(Extents { shared })
    }

    /// Adds a tier with the data file `file`, in which all units are free.
    ///
    /// # Errors
    /// [`Error::Full`] if the disk has no space for the tier's reserve; I/O errors.
    pub(crate) fn add_tier(&self, file: &dyn Device, limits: TierLimits) -> Result<()> {
        let mut tier = TierExtents::new(self.shared.slots.len() as u8);
        tier.opened(units_of(file));
        prove_reserve(&tier, file, limits)?;
        self.shared.slots.push(TierSlot::new(tier, limits));
        Ok(())
    }
}

/// Verifies that the disk has space for an empty tier's reserve, by growing the file temporarily.
fn prove_reserve(tier: &TierExtents, file: &dyn Device, limits: TierLimits) -> Result<()> {
    let reserve = policy::reserve(tier.used(), limits.reserve_bounds(), policy::InitialSizing::Whole);
    let reserve = u64::from(reserve) * UNIT;
    let limited = limits.max_bytes.is_some_and(|most| most < reserve);
    let before = file.len();
    let full = || Error::Full {
        wanted: reserve,
        free: 0,
        reserve: false,
    };
    match file.grow(reserve) {
        Ok(()) if limited => Err(full()),
        Ok(()) => Ok(file.truncate(before)?),
        Err(error) if error.is_disk_full() => Err(full()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the state of an empty tier. An interrupted creation of the store may have left its data
/// file longer.
fn empty_tier(tiers: &TierFiles, number: u8) -> Result<TierExtents> {
    let mut tier = TierExtents::new(number);
    tier.opened(file_units(tiers, number)?);
    Ok(tier)
}

/// Returns the length of a file in whole units.
pub(super) fn units_of(file: &dyn Device) -> u32 {
    (file.len() / UNIT).min(u64::from(MAX_TIER_UNITS)) as u32
}
