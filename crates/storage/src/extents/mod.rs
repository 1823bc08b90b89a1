//! Extents: allocation, ownership and reuse of space on a store's tiers.
//!
//! *Scope*: extents, which are runs of 128 KiB units; their references, live bytes, generations and
//! epochs; the persistence of the extent map; obtaining space from the file system, and returning
//! it.
//!
//! *Must not depend on*: the contents of an extent, the owner of a reference, the scheduling of
//! checkpoints, the superblock.
//!
//! # The life of a unit
//!
//! 1. **Free**. The unit may occupy space on the file system (*backed*) or not (*a hole*). After
//!    the store is opened, it is unknown which until the unit is first accessed.
//! 2. **Provisional**: [`Extents::allocate`] has allocated the unit, backed and with one reference.
//!    This state is not persistent, so a crash frees the unit. [`Extents::abandon`] frees the whole
//!    extent at once, and [`Extents::trim`] frees its end.
//! 3. **Live**: [`Extents::install`] has made the unit part of the generation under construction.
//!    [`Extents::retain`] and [`Extents::release`] change its extent's reference count, and
//!    [`Extents::add_live`] and [`Extents::sub_live`] change the extent's live bytes.
//! 4. **Dead**: the last reference was released, at some epoch. The next [`Extents::freeze`] tags
//!    the extent with its generation. That generation's map no longer contains the extent, but the
//!    map of the durable generation before it still does.
//! 5. **Pending**: [`Extents::made_durable`] has reported that this generation or a later one is
//!    durable, and no older generation is pinned ([`Extents::pin_generation`]).
//! 6. **Free** again, and backed: [`Extents::reclaim`] was called with a safe epoch later than the
//!    one at which the extent died. Of the free space, a small pool is kept. Holes are punched in
//!    the rest, or it is truncated if it is at the end of the file.
//!
//! # Granularity
//!
//! An extent is only ever freed as a whole. A structure that is freed in parts therefore consists
//! of many extents instead of a single long one: when the last user of a key range of a run is
//! gone, every extent that is completely inside the range is released. Node writers use extents of
//! 1 MiB (8 units), which is also the size of their writes, so at most this much space is retained
//! at each end of a released range. Long objects that are freed as a whole use long extents, up to
//! 4 GiB.
//!
//! # Invariants
//!
//! - **X1** A unit has at most one owner: it is free, in use by one device operation, or part of
//!   one extent.
//! - **X2** A unit that a durable generation names or that a guard may reach is never allocated.
//!   The only ways out of states 4 and 5 are `made_durable` and `reclaim`.
//! - **X3** An allocated extent has its space on the file system. If there is none, allocation
//!   fails with [`Error::Full`](crate::Error::Full) before anything changes. Part of the space is
//!   reserved for allocation classes other than [`AllocationClass::Normal`].
//! - **X4** The map of a generation contains exactly the extents that were live when the generation
//!   was frozen, with their reference counts and live bytes.
//! - **X5** The bytes of a map that a durable pointer refers to are never overwritten: records are
//!   padded to whole blocks, and new records are appended after them. The name and content of a new
//!   map file are durable before a pointer to it is returned. An old map file is removed only once
//!   a generation that names another file is durable.
//! - **X6** The live bytes of an extent never exceed its size. Its reference count is above zero if
//!   and only if the extent is provisional or live.
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
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use tier::TierExtents;

/// Size of a unit in bytes, which is the granularity of allocation.
pub const UNIT: u64 = 128 * KIB;
/// Maximum size of an extent in units, which is 4 GiB.
pub const MAX_EXTENT_UNITS: u32 = 1 << 15;
/// Maximum size of a tier in units, which is 256 TiB.
pub const MAX_TIER_UNITS: u32 = 1 << 31;
/// Maximum reference count of an extent.
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

/// A run of consecutive units in a tier's file.
///
/// ```
/// use alluvium_storage::extents::Extent;
/// let extent = Extent { tier: 0, start: 8, units: 2 };
/// assert_eq!(extent.range(), 1_048_576..1_310_720);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// The tier whose file contains the extent.
    pub tier: u8,
    /// Number of the extent's first unit in the tier's file.
    pub start: u32,
    /// Number of units, from 1 to [`MAX_EXTENT_UNITS`].
    pub units: u32,
}

impl Extent {
    /// Returns the byte offset at which the extent begins in the tier's file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        u64::from(self.start) * UNIT
    }

    /// Returns the size of the extent in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.units) * UNIT
    }

    /// Returns the extent's byte range in the tier's file.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.offset()..self.offset() + self.bytes()
    }

    /// Returns the number of the unit that follows the extent.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.start + self.units
    }

    /// Returns whether the two extents have a unit in common.
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

/// The purpose of an allocation, which determines how much of the reserve it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocationClass {
    /// Ordinary writes. They must not use any of the reserve.
    Normal,
    /// Deletes, and writes that were already acknowledged. They may use half of the shared reserve;
    /// the other half is left for the compactions and checkpoints that turn deleted data into free
    /// space. They must not use the amount set by [`Extents::set_freeing_reserve`].
    Essential,
    /// Essential writes without which no space can be freed. They may use three quarters of the
    /// shared reserve, but not the amount set by [`Extents::set_freeing_reserve`].
    Unblocking,
    /// Compactions that free space, and checkpoints. They may use the whole reserve.
    Freeing,
}

impl AllocationClass {
    /// Returns how many units of a reserve this class must leave alone.
    fn leaves(self, reserve: SpaceReserve) -> u32 {
        match self {
            AllocationClass::Normal => reserve.units(),
            AllocationClass::Essential => reserve.freeing + reserve.shared / 2,
            AllocationClass::Unblocking => reserve.freeing + reserve.shared / 4,
            AllocationClass::Freeing => 0,
        }
    }
}

/// Limits on the space of a tier.
///
/// ```
/// use alluvium_storage::extents::TierLimits;
/// let limits = TierLimits { max_bytes: Some(1 << 40), ..TierLimits::default() };
/// assert_eq!(limits.min_reserve, 2 << 20);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierLimits {
    /// Maximum number of bytes that the tier may use on its file system, or `None` for no limit.
    pub max_bytes: Option<u64>,
    /// Minimum size in bytes of the tier's reserve, which all classes but
    /// [`AllocationClass::Normal`] may use. It is limited to an eighth of the used space, or to 2
    /// MiB if that is more.
    pub min_reserve: u64,
    /// Maximum size in bytes of the tier's reserve, which is a 64th of the used space if that is
    /// more than `min_reserve`.
    pub max_reserve: u64,
    /// How many bytes to place on the tier before data goes to slower tiers. This is a target, not
    /// a limit. If `None`, it is a fraction of the tier's capacity.
    pub planned_bytes: Option<u64>,
    /// Whether the tier uses little space while it has little data. If so, extent sizes, file
    /// growth and the reserve are proportional to the used space until they reach their usual sizes
    /// of a few MiB.
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
    /// Returns the reserve's configured minimum and maximum, in units.
    fn reserve_bounds(&self) -> (u32, u32) {
        let units = |bytes: u64| bytes.div_ceil(UNIT).min(u64::from(MAX_TIER_UNITS)) as u32;
        (units(self.min_reserve), units(self.max_reserve))
    }

    /// Returns whether the sizes of the tier start small.
    fn start(&self) -> policy::InitialSizing {
        match self.starts_small {
            true => policy::InitialSizing::Small,
            false => policy::InitialSizing::Whole,
        }
    }
}

/// Options for space management. The limits in this struct apply to tier 0, and to all other tiers
/// for which [`ExtentOptions::with_tier`] was not called.
///
/// ```
/// use alluvium_storage::extents::ExtentOptions;
/// let options = ExtentOptions { max_bytes: Some(1 << 30), ..ExtentOptions::default() };
/// assert_eq!(options.max_bytes, Some(1 << 30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentOptions {
    /// Maximum number of bytes that a tier may use on its file system, or `None` for no limit.
    pub max_bytes: Option<u64>,
    /// Minimum size in bytes of a tier's reserve, which all classes but [`AllocationClass::Normal`]
    /// may use. It is limited to an eighth of the used space, or to 2 MiB if that is more.
    pub min_reserve: u64,
    /// Maximum size in bytes of a tier's reserve, which is a 64th of the used space if that is more
    /// than `min_reserve`.
    pub max_reserve: u64,
    /// How many bytes to place on a tier before data goes to slower tiers. This is a target, not a
    /// limit. If `None`, it is a fraction of the tier's capacity.
    pub planned_bytes: Option<u64>,
    /// Whether a tier uses little space while it has little data. If so, extent sizes, file growth
    /// and the reserve are proportional to the used space until they reach their usual sizes of a
    /// few MiB.
    pub starts_small: bool,
    /// Total size in bytes up to which deltas may be appended to an extent map before a new
    /// snapshot is written, even if the last snapshot is smaller.
    pub min_map_deltas: u64,
    /// Separate limits for tiers 1 to 7. A tier with `None` has the limits of tier 0.
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
    /// Returns the options with separate limits for one tier.
    ///
    /// ```
    /// use alluvium_storage::extents::{ExtentOptions, TierLimits};
    /// let large = TierLimits { max_bytes: Some(1 << 40), ..TierLimits::default() };
    /// let options = ExtentOptions::default().with_tier(1, large);
    /// assert_eq!((options.limits(1), options.limits(2)), (large, TierLimits::default()));
    /// ```
    ///
    /// # Panics
    /// If `tier` is not between 1 and 7.
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

    /// Returns the limits that apply to a tier.
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

/// The space of one tier, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierUsage {
    /// Length of the tier's file in bytes.
    pub file_bytes: u64,
    pub live_extents: u64,
    /// Total size in bytes of the live extents.
    pub live_extent_bytes: u64,
    /// Number of live bytes in live extents, as counted by their owners.
    pub live_bytes: u64,
    pub provisional_bytes: u64,
    /// Total size in bytes of the dead extents. They cannot be reused until a later generation is
    /// durable and their epoch is safe.
    pub dead_bytes: u64,
    /// Part of `dead_bytes`: extents that died after the last checkpoint began. The next checkpoint
    /// makes them pending.
    pub dying_bytes: u64,
    /// Free bytes that are known to occupy space on the file system.
    pub backed_bytes: u64,
    /// Free bytes that are known to occupy no space on the file system.
    pub hole_bytes: u64,
    /// All free bytes: backed, holes, in an unknown state, or in use by a device operation.
    pub free_bytes: u64,
    /// Size in bytes of the reserve, which [`AllocationClass::Normal`] must leave backed.
    pub reserve_bytes: u64,
    /// Bytes that the tier may occupy on its file system, as far as is known.
    pub occupied_bytes: u64,
}

/// The space of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtentUsage {
    /// The space of each tier, ordered by tier number.
    pub tiers: Vec<TierUsage>,
    /// Total space that the store may occupy on the file systems of all its tiers, in bytes, as far
    /// as is known.
    pub occupied_bytes: u64,
    /// Memory in bytes that the extent maps use.
    pub memory_bytes: u64,
}

impl ExtentUsage {
    /// Returns the sum of the usage of all tiers.
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
    /// The state of the map on disk. Lock order: before every tier.
    map: Mutex<map::MapState>,
    /// The pinned durable generations. Lock order: before every tier.
    kept: Mutex<pinned_generations::PinnedGenerations>,
}

impl fmt::Debug for ExtentsInner {
    /// Formats only the counts, because the maps are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<_> = self.slots.iter().map(|slot| slot.tier.lock().counts).collect();
        f.debug_struct("ExtentsInner")
            .field("tiers", &counts)
            .finish_non_exhaustive()
    }
}

struct TierSlot {
    tier: Mutex<TierExtents>,
    limits: TierLimits,
    /// Number of units that may occupy space on the file system, to which the tier's limit applies.
    occupied: AtomicU64,
    /// Whether an ordinary write has run out of space and no space has been freed since.
    refused: AtomicBool,
    /// Number of units that were abandoned since the tier last refused a request.
    abandoned: AtomicU32,
    /// Notified when the file's length has been changed.
    resized: Condvar,
}

impl TierSlot {
    fn new(tier: TierExtents, limits: TierLimits) -> TierSlot {
        TierSlot {
            limits,
            occupied: AtomicU64::new(tier.units.into()),
            tier: Mutex::new(tier),
            refused: AtomicBool::new(false),
            abandoned: AtomicU32::new(0),
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
