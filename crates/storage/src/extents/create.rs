//! The extents of a new store, and of a tier that is added to one.

use super::allocate::file_units;
use super::map::MapState;
use super::policy;
use super::tier::Tier;
use super::{ExtentOptions, Extents, MAX_TIER_UNITS, Shared, Slot, TierLimits, UNIT};
use crate::{Error, Result, Tiers};
use alluvium_device::Device;
use std::sync::Arc;

impl Extents {
    /// Returns the extents of a new store: all is free. The reserve of each tier comes from the
    /// file system with the first extent, so that a new store is small; that the disk has space for
    /// it is proven now.
    ///
    /// # Errors
    /// [`Error::Full`] when the disk has no space for the reserve; as the device says.
    pub fn create(tiers: Arc<Tiers>, options: ExtentOptions) -> Result<Extents> {
        let maps = (0..tiers.count()).map(|number| empty_tier(&tiers, number as u8));
        let maps = maps.collect::<Result<Vec<_>>>()?;
        for tier in &maps {
            prove_reserve(tier, &**tiers.get(tier.number)?, options.limits(tier.number))?;
        }
        let shared = Arc::new(Shared::new(tiers, options, maps, MapState::default()));
        Ok(Extents { shared })
    }

    /// Adds a tier, whose file is among those of the tiers, or about to be. Nothing is in it.
    ///
    /// # Errors
    /// [`Error::Full`] when the disk has no space for the tier's reserve; as the device says.
    pub(crate) fn add_tier(&self, file: &dyn Device, limits: TierLimits) -> Result<()> {
        let mut tier = Tier::new(self.shared.slots.len() as u8);
        tier.opened(units_of(file));
        prove_reserve(&tier, file, limits)?;
        self.shared.slots.push(Slot::new(tier, limits));
        Ok(())
    }
}

/// Proves that the disk has space for the reserve of an empty tier.
fn prove_reserve(tier: &Tier, file: &dyn Device, limits: TierLimits) -> Result<()> {
    let reserve = policy::reserve(tier.used(), limits.reserve_bounds(), policy::Start::Whole);
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

/// Returns a tier whose file may have been grown by a store that was never finished: all is free.
fn empty_tier(tiers: &Tiers, number: u8) -> Result<Tier> {
    let mut tier = Tier::new(number);
    tier.opened(file_units(tiers, number)?);
    Ok(tier)
}

/// Returns how many whole units a file has.
pub(super) fn units_of(file: &dyn Device) -> u32 {
    (file.len() / UNIT).min(u64::from(MAX_TIER_UNITS)) as u32
}
