//! Extents: allocation, ownership and reuse of the space of a store's tiers.
//!
//! *Scope*: units of 128 KiB, runs of them, references, live bytes, generations, epochs; the
//! persistence of the extent map; allocation from and return to the file system.
//!
//! *Must not depend on*: the contents of an extent, the owner of a reference, the scheduling of
//! checkpoints, the superblock.
//!
//! # The life of a unit
//!
//! 1. **Free**, with space on the file system (*backed*), without (*a hole*), or unknown (after an
//!    open, until it is touched).
//! 2. **Provisional**: [`Extents::allocate`] handed it to a step, backed, with one reference. It is
//!    not persisted: a crash frees it. [`Extents::abandon`] frees it at once, and [`Extents::trim`]
//!    frees the end of an extent.
//! 3. **Live**: [`Extents::install`] made it part of the generation under construction.
//!    [`Extents::retain`] and [`Extents::release`] count its references, [`Extents::add_live`] and
//!    [`Extents::sub_live`] its live bytes.
//! 4. **Dead**: the last reference was dropped, at some epoch. The next [`Extents::freeze`] tags it
//!    with its generation: the map of that generation no longer contains it, the durable one before
//!    still does.
//! 5. **Pending**: [`Extents::made_durable`] reported that this generation, or a later one, is
//!    durable, and no older one is pinned ([`Extents::pin_generation`]).
//! 6. **Free** again, backed: [`Extents::reclaim`] was called with a later safe epoch. Space beyond
//!    a small pool is then punched, or cut off the end of the file.
//!
//! # Granularity
//!
//! An extent is freed as a whole. A structure that is freed in parts is therefore a list of
//! extents, not a single long one: when the last user of a range of a run drops it, every extent
//! wholly inside the range is released. Node writers use 1 MiB (8 units), which is also the size of
//! their writes: at each end of a dropped range, at most this much is retained. Long objects that
//! are freed as a whole use long extents, up to 4 GiB.
//!
//! # Invariants
//!
//! - **X1** A unit has at most one owner: it is free, held by one device operation, or in one
//!   extent.
//! - **X2** A unit that a durable generation names, or that a guard may reach, is never allocated:
//!   between steps 4 and 6 there is no way around `made_durable` and `reclaim`.
//! - **X3** An allocated extent has its space on the file system. Exhaustion is
//!   [`Error::Full`](crate::Error::Full), before anything has changed. A part of the space is
//!   reserved for every class except [`AllocationClass::Normal`].
//! - **X4** The map of a generation names exactly the extents that were live at its freeze, with
//!   their references and live bytes.
//! - **X5** The bytes that a durable pointer names are never rewritten: records are padded to
//!   blocks and appended after the pointer's prefix. The name and content of a new file are durable
//!   before a pointer to it is returned. An old file is removed only once a generation that names
//!   another file is durable.
//! - **X6** Live bytes never exceed an extent's size. Its reference count is above zero exactly
//!   while it is provisional or live.
//! - **X7** No lock is held during I/O, except the one that serialises writers of the map.

mod allocate;
mod backing;
mod check;
mod create;
mod format;
mod map;
mod open;
mod pinned_generations;
mod policy;
mod reclaim;
mod state;
mod tier;
mod unit_set;

pub use check::ExtentViolation;
pub use format::{MapPointer, map_file};
pub use map::FrozenMap;
pub use open::ReachableExtent;
pub(crate) use open::{live_ranges, require_map};
pub use pinned_generations::GenerationPin;
pub use reclaim::{ReclaimLimit, ReclaimProgress};

use crate::TierFiles;
use crate::node::tier_file;
use crate::tiers::{MAX_TIERS, TierArray};
use alluvium_base::{KIB, MIB};
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::SpaceReserve;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tier::TierExtents;

/// Size of a unit in bytes: the granularity of allocation.
pub const UNIT: u64 = 128 * KIB;
/// Maximum number of units in an extent: 4 GiB.
pub const MAX_EXTENT_UNITS: u32 = 1 << 15;
/// Maximum number of units in a tier: 256 TiB.
pub const MAX_TIER_UNITS: u32 = 1 << 31;
/// Maximum number of references to an extent.
pub const MAX_REFERENCES: u32 = (1 << 24) - 1;
const _: () = assert!(
    MAX_TIER_UNITS as u64 * UNIT <= i64::MAX as u64,
    "places have 63 bits"
);

const _: () = {
    let page = crate::PageSize::MAX.bytes() as u64;
    assert!(
        UNIT.is_power_of_two() && UNIT.is_multiple_of(page),
        "pages do not straddle units"
    );
    assert!(crate::node::MAX_PAGES as u64 * page <= MAX_EXTENT_UNITS as u64 * UNIT);
};

/// A run of units in one tier.
///
/// ```
/// use alluvium_storage::extents::Extent;
/// let extent = Extent { tier: 0, start: 8, units: 2 };
/// assert_eq!(extent.range(), 1_048_576..1_310_720);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// The tier, which determines the file.
    pub tier: u8,
    /// Number of the first unit in the tier's file.
    pub start: u32,
    /// Number of units: 1 to [`MAX_EXTENT_UNITS`].
    pub units: u32,
}

impl Extent {
    /// Returns the offset of the extent in the tier's file, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        u64::from(self.start) * UNIT
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.units) * UNIT
    }

    /// Returns the byte range in the tier's file.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.offset()..self.offset() + self.bytes()
    }

    /// Returns the unit after the last one.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.start + self.units
    }

    /// Returns whether the extents share a unit.
    #[must_use]
    pub fn overlaps(&self, other: &Extent) -> bool {
        self.tier == other.tier && self.start < other.end() && other.start < self.end()
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Extent { tier, start, units } = self;
        write!(f, "{units} units at {start} of {}", tier_file(*tier))
    }
}

/// Allocation class, which determines how much of the reserve may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocationClass {
    /// Ordinary writes, which must leave the whole reserve.
    Normal,
    /// Writes that were acknowledged before, and deletes. They must leave half of the shared
    /// reserve, for the writes that turn them into free space, and all of the amount set by
    /// [`Extents::set_freeing_reserve`].
    Essential,
    /// Essential writes without which no space would be freed. They must leave a quarter of the
    /// shared reserve, and all of the amount set by [`Extents::set_freeing_reserve`].
    Unblocking,
    /// Compactions that free space, and checkpoints.
    Freeing,
}

impl AllocationClass {
    /// Returns the number of units of a reserve that this class must leave.
    fn leaves(self, reserve: SpaceReserve) -> u32 {
        match self {
            AllocationClass::Normal => reserve.units(),
            AllocationClass::Essential => reserve.freeing + reserve.shared / 2,
            AllocationClass::Unblocking => reserve.freeing + reserve.shared / 4,
            AllocationClass::Freeing => 0,
        }
    }
}

/// The limits of one tier.
///
/// ```
/// use alluvium_storage::extents::TierLimits;
/// let limits = TierLimits { max_bytes: Some(1 << 40), ..TierLimits::default() };
/// assert_eq!(limits.min_reserve, 2 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierLimits {
    /// Maximum bytes that the tier may use on its file system; no limit if `None`.
    pub max_bytes: Option<u64>,
    /// Minimum reserve of the tier in bytes, for every class except [`AllocationClass::Normal`]. It
    /// is capped at an eighth of the used space, or at 2 MiB if that is more.
    pub min_reserve: u64,
    /// Maximum reserve of the tier in bytes, if a 64th of the used space is more than
    /// `min_reserve`.
    pub max_reserve: u64,
    /// Bytes planned for the tier while slower ones hold the rest; a fraction of its capacity if
    /// `None`. This is not a limit.
    pub planned_bytes: Option<u64>,
    /// Whether the tier uses little space while it contains little data: the size of extents, the
    /// growth of its file and the reserve are scaled to the used space, up to a few MiB.
    pub starts_small: bool,
}

impl Default for TierLimits {
    fn default() -> Self {
        TierLimits {
            max_bytes: None,
            min_reserve: 2 * MIB,
            max_reserve: 64 * MIB,
            planned_bytes: None,
            starts_small: false,
        }
    }
}

impl TierLimits {
    /// Returns the bounds of the reserve of a tier that does not start small, in units.
    fn reserve_bounds(&self) -> (u32, u32) {
        let units = |bytes: u64| bytes.div_ceil(UNIT).min(u64::from(MAX_TIER_UNITS)) as u32;
        (units(self.min_reserve), units(self.max_reserve))
    }

    /// Returns how a tier starts.
    fn start(&self) -> policy::InitialSizing {
        match self.starts_small {
            true => policy::InitialSizing::Small,
            false => policy::InitialSizing::Whole,
        }
    }
}

/// Options of space management. The limits apply to tier 0, and to each tier without limits set by
/// [`ExtentOptions::with_tier`].
///
/// ```
/// use alluvium_storage::extents::ExtentOptions;
/// let options = ExtentOptions { max_bytes: Some(1 << 30), ..ExtentOptions::default() };
/// assert_eq!(options.max_bytes, Some(1 << 30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentOptions {
    /// Maximum bytes that a tier may use on its file system; no limit if `None`.
    pub max_bytes: Option<u64>,
    /// Minimum reserve of a tier in bytes, for every class except [`AllocationClass::Normal`]. It
    /// is capped at an eighth of the used space, or at 2 MiB if that is more.
    pub min_reserve: u64,
    /// Maximum reserve of a tier in bytes, if a 64th of the used space is more than `min_reserve`.
    pub max_reserve: u64,
    /// Bytes planned for a tier while slower ones hold the rest; a fraction of its capacity if
    /// `None`.
    pub planned_bytes: Option<u64>,
    /// Whether a tier uses little space while it contains little data: the size of extents, the
    /// growth of its file and the reserve are scaled to the used space, up to a few MiB.
    pub starts_small: bool,
    /// Bytes of deltas that the map may always accumulate before a snapshot is written, however
    /// small the last snapshot is.
    pub min_map_deltas: u64,
    /// The limits of tiers 1 to 7, where they differ from those of tier 0.
    pub further: [Option<TierLimits>; MAX_TIERS - 1],
}

impl Default for ExtentOptions {
    fn default() -> Self {
        let limits = TierLimits::default();
        ExtentOptions {
            max_bytes: limits.max_bytes,
            min_reserve: limits.min_reserve,
            max_reserve: limits.max_reserve,
            planned_bytes: limits.planned_bytes,
            starts_small: limits.starts_small,
            min_map_deltas: 64 * KIB,
            further: [None; MAX_TIERS - 1],
        }
    }
}

impl ExtentOptions {
    /// Sets the limits of a tier.
    ///
    /// ```
    /// use alluvium_storage::extents::{ExtentOptions, TierLimits};
    /// let large = TierLimits { max_bytes: Some(1 << 40), ..TierLimits::default() };
    /// let options = ExtentOptions::default().with_tier(1, large);
    /// assert_eq!((options.limits(1), options.limits(2)), (large, TierLimits::default()));
    /// ```
    ///
    /// # Panics
    /// If the tier is not between 1 and 7.
    #[must_use]
    pub fn with_tier(mut self, tier: u8, limits: TierLimits) -> ExtentOptions {
        let tiers = 1..MAX_TIERS;
        assert!(
            tiers.contains(&usize::from(tier)),
            "tier {tier}: 1 to 7 have further limits"
        );
        self.further[usize::from(tier) - 1] = Some(limits);
        self
    }

    /// Returns the limits of a tier.
    #[must_use]
    pub fn limits(&self, tier: u8) -> TierLimits {
        let own = usize::from(tier)
            .checked_sub(1)
            .and_then(|at| self.further.get(at));
        own.copied().flatten().unwrap_or(TierLimits {
            max_bytes: self.max_bytes,
            min_reserve: self.min_reserve,
            max_reserve: self.max_reserve,
            planned_bytes: self.planned_bytes,
            starts_small: self.starts_small,
        })
    }
}

/// The space of one tier by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierUsage {
    /// Length of the file in bytes.
    pub file_bytes: u64,
    pub live_extents: u64,
    /// Total size of the live extents in bytes.
    pub live_extent_bytes: u64,
    /// Referenced bytes in live extents.
    pub live_bytes: u64,
    pub provisional_bytes: u64,
    /// Bytes in dead extents, which wait for a durable generation or for an epoch.
    pub dead_bytes: u64,
    /// The part of `dead_bytes` that died after the last checkpoint began. The next checkpoint
    /// releases it.
    pub dying_bytes: u64,
    /// Free bytes with space on the file system.
    pub backed_bytes: u64,
    /// Free bytes without space on the file system.
    pub hole_bytes: u64,
    /// All free bytes: backed, holes, of unknown backing, and held by a device operation.
    pub free_bytes: u64,
    /// The part of `backed_bytes` that [`AllocationClass::Normal`] must leave once the reserve is
    /// complete.
    pub reserve_bytes: u64,
    /// Bytes used on the tier's file system, as far as known.
    pub occupied_bytes: u64,
}

/// The space of a store by tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtentUsage {
    /// The space of each tier.
    pub tiers: Vec<TierUsage>,
    /// Bytes used on the file systems of all tiers, as far as known.
    pub occupied_bytes: u64,
    /// Memory used by the maps in bytes.
    pub memory_bytes: u64,
}

impl ExtentUsage {
    /// Returns the sum over all tiers.
    #[must_use]
    pub fn total(&self) -> TierUsage {
        self.tiers
            .iter()
            .fold(TierUsage::default(), |sum, tier| TierUsage {
                file_bytes: sum.file_bytes + tier.file_bytes,
                live_extents: sum.live_extents + tier.live_extents,
                live_extent_bytes: sum.live_extent_bytes + tier.live_extent_bytes,
                live_bytes: sum.live_bytes + tier.live_bytes,
                provisional_bytes: sum.provisional_bytes + tier.provisional_bytes,
                dead_bytes: sum.dead_bytes + tier.dead_bytes,
                dying_bytes: sum.dying_bytes + tier.dying_bytes,
                backed_bytes: sum.backed_bytes + tier.backed_bytes,
                hole_bytes: sum.hole_bytes + tier.hole_bytes,
                free_bytes: sum.free_bytes + tier.free_bytes,
                reserve_bytes: sum.reserve_bytes + tier.reserve_bytes,
                occupied_bytes: sum.occupied_bytes + tier.occupied_bytes,
            })
    }
}

/// The extents of a store. All methods may be called from any thread.
pub struct Extents {
    shared: Arc<ExtentsInner>,
}

impl fmt::Debug for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

struct ExtentsInner {
    tiers: Arc<TierFiles>,
    options: ExtentOptions,
    slots: TierArray<TierSlot>,
    /// The map on disk. Locked before any tier.
    map: Mutex<map::MapState>,
    /// The pinned durable generations. Locked before any tier.
    kept: Mutex<pinned_generations::PinnedGenerations>,
}

impl fmt::Debug for ExtentsInner {
    /// Prints counts only, because the maps are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<_> = self.slots.iter().map(|slot| slot.tier.lock().counts).collect();
        f.debug_struct("Extents")
            .field("tiers", &counts)
            .finish_non_exhaustive()
    }
}

struct TierSlot {
    tier: Mutex<TierExtents>,
    limits: TierLimits,
    /// Units that may use space on the file system, counted against the tier's limit.
    occupied: AtomicU64,
    /// Whether an ordinary write found no space, and no space was freed since.
    refused: AtomicBool,
    /// Notified when a resize of the file is finished.
    resized: Condvar,
}

impl TierSlot {
    fn new(tier: TierExtents, limits: TierLimits) -> TierSlot {
        TierSlot {
            limits,
            occupied: AtomicU64::new(tier.units.into()),
            tier: Mutex::new(tier),
            refused: AtomicBool::new(false),
            resized: Condvar::new(),
        }
    }
}

impl ExtentsInner {
    fn new(
        tiers: Arc<TierFiles>,
        options: ExtentOptions,
        maps: Vec<TierExtents>,
        map: map::MapState,
    ) -> ExtentsInner {
        assert!(
            maps.iter()
                .enumerate()
                .all(|(index, tier)| usize::from(tier.number) == index),
            "tiers are in the order of their numbers"
        );
        assert_eq!(maps.len(), tiers.count(), "a map for each tier (X1)");
        let slots = maps.into_iter().map(|tier| {
            let limits = options.limits(tier.number);
            TierSlot::new(tier, limits)
        });
        ExtentsInner {
            slots: slots.collect(),
            tiers,
            options,
            map: Mutex::new(map),
            kept: Mutex::default(),
        }
    }

    fn slot(&self, tier: u8) -> &TierSlot {
        self.slots
            .get(usize::from(tier))
            .unwrap_or_else(|| panic!("tier {tier} of a store with {}", self.slots.len()))
    }

    fn lock(&self, tier: u8) -> MutexGuard<'_, TierExtents> {
        self.slot(tier).tier.lock()
    }
}

#[cfg(test)]
mod tests;
