//! Extents: the space of a store's tiers, who owns it, and when it may be used again.
//!
//! *Knows*: units of 128 KiB, runs of them, references, live bytes, generations, epochs; how the
//! map of all that is kept on disk; how space is taken from the file system and given back.
//!
//! *Does not know*: what is in an extent, who refers to it, when a checkpoint happens, what a
//! superblock is.
//!
//! *Read in this order*: `policy.rs` (every decision), `tier.rs` (one tier in memory; on
//! `state.rs`, a word a unit, and `space.rs`, the free units; `backing.rs`, the space behind them),
//! `create.rs`, `allocate.rs`, `map.rs`, `open.rs` and `format.rs` (the map on disk), `kept.rs`
//! (generations that are copied), `reclaim.rs`, `check.rs`.
//!
//! # The life of a unit
//!
//! 1. **Free**, with space on the file system (*backed*), without (*a hole*), or not known (after
//!    an open, until it is touched).
//! 2. **Provisional**: [`Extents::allocate`] handed it to a step, backed, with one reference.
//!    Nothing persists it: a crash frees it. [`Extents::abandon`] frees it at once, and so does
//!    [`Extents::trim`] with the end of an extent.
//! 3. **Live**: [`Extents::install`] made it part of the generation being built.
//!    [`Extents::retain`] and [`Extents::release`] count its references, [`Extents::add_live`] and
//!    [`Extents::sub_live`] its live bytes.
//! 4. **Dead**: the last reference went, at some epoch. The next [`Extents::freeze`] tags it with
//!    its generation: in that generation's map it is gone, in the durable one before it is not.
//! 5. **Pending**: [`Extents::made_durable`] said that this generation, or a later one, is durable,
//!    and no older one is kept ([`Extents::keep`]).
//! 6. **Free** again, backed: [`Extents::reclaim`] was told that its epoch is safe. What exceeds a
//!    small pool is then punched, or cut off the end of the file.
//!
//! # Granularity
//!
//! An extent lives and dies as a whole. A structure that dies in parts is therefore a list of
//! extents, not one long one: a run whose range dies for its last user releases every extent wholly
//! inside the range. Node writers use 1 MiB (8 units), which is also the size of their writes: of a
//! dying range, at most that much stays behind at each end. Long single things, which die at once,
//! take long extents: up to 4 GiB.
//!
//! # Invariants
//!
//! - **X1** A unit has one owner at most: it is free, held by one operation of the device, or in
//!   one extent.
//! - **X2** A unit that a durable generation names, or that a guard may reach, is never handed out:
//!   from step 4 to step 6 there is no way around `made_durable` and `reclaim`.
//! - **X3** What is handed out has its space on the file system. Exhaustion is
//!   [`Error::Full`](crate::Error::Full), before anything changed; a part of the space is kept for
//!   every class but [`Class::Normal`].
//! - **X4** The map of a generation names exactly the extents that were live at its freeze, with
//!   their references and live bytes.
//! - **X5** The bytes that a durable pointer names are never written again: records are padded to
//!   blocks and appended behind the pointer's prefix; a new file is durable, name and content,
//!   before a pointer to it leaves; an old one goes only when a generation that names another file
//!   is durable.
//! - **X6** Live bytes never exceed an extent's bytes; references are above zero exactly while it
//!   is provisional or live.
//! - **X7** No lock is held during I/O, but the one that lets one writer of the map run at a time.

mod allocate;
mod backing;
mod check;
mod create;
mod format;
mod kept;
mod map;
mod open;
mod policy;
mod reclaim;
mod space;
mod state;
mod tier;

pub use check::Violation;
pub use format::{MapPointer, map_file};
pub use kept::Keeper;
pub use map::Frozen;
pub use open::Reached;
pub(crate) use open::{live_ranges, require_map};
pub use reclaim::{ReclaimLimit, Reclaimed};

use crate::Tiers;
use crate::node::tier_file;
use crate::tiers::{MAX_TIERS, Numbered};
use alluvium_base::{KIB, MIB};
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::Reserve;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tier::Tier;

/// Bytes in a unit: what is allocated, counted and freed.
pub const UNIT: u64 = 128 * KIB;
/// The most units in an extent: 4 GiB.
pub const MAX_EXTENT_UNITS: u32 = 1 << 15;
/// The most units in a tier: 256 TiB.
pub const MAX_TIER_UNITS: u32 = 1 << 31;
/// The most references to an extent.
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
    /// The tier, which names a file.
    pub tier: u8,
    /// The first unit.
    pub start: u32,
    /// How many units: 1 to [`MAX_EXTENT_UNITS`].
    pub units: u32,
}

impl Extent {
    /// Returns the first byte in the tier's file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        u64::from(self.start) * UNIT
    }

    /// Returns how many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.units) * UNIT
    }

    /// Its bytes in the tier's file.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.offset()..self.offset() + self.bytes()
    }

    /// Returns the unit behind its last one.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.start + self.units
    }

    /// Returns whether the two share a unit.
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

/// Who may use the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Ordinary writes, which must leave the reserve alone.
    Normal,
    /// What was acknowledged before, and deletes: they must leave half of it, for what makes them
    /// free space, beside what [`Extents::keep_for_freeing`] keeps.
    Essential,
    /// The same when nothing would free space until it is written: it must leave a quarter, beside
    /// the same.
    Unblocking,
    /// Compactions that free space, and checkpoints.
    Freeing,
}

impl Class {
    /// Returns how many units of a reserve are out of reach.
    fn leaves(self, reserve: Reserve) -> u32 {
        match self {
            Class::Normal => reserve.units(),
            Class::Essential => reserve.freeing + reserve.shared / 2,
            Class::Unblocking => reserve.freeing + reserve.shared / 4,
            Class::Freeing => 0,
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
    /// The most bytes that the tier may occupy on its file system; no limit if absent.
    pub max_bytes: Option<u64>,
    /// The bytes that the tier keeps allocated for every class but [`Class::Normal`], as far as
    /// they are no more than an eighth of what is used, or 2 MiB.
    pub min_reserve: u64,
    /// The most bytes that the tier keeps allocated for them, where a 64th of what is used is more
    /// than `min_reserve`.
    pub max_reserve: u64,
    /// The bytes that are planned to lie on the tier while slower ones take the rest; a part of
    /// what it can hold if absent. What is planned is no limit.
    pub planned_bytes: Option<u64>,
    /// Whether the tier takes little space while little is in it: extents, steps by which its file
    /// grows and the reserve are scaled to what is used, up to a few MiB.
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
    /// Returns the bounds of the reserve of a tier that is not small, in units.
    fn reserve_bounds(&self) -> (u32, u32) {
        let units = |bytes: u64| bytes.div_ceil(UNIT).min(u64::from(MAX_TIER_UNITS)) as u32;
        (units(self.min_reserve), units(self.max_reserve))
    }

    /// Returns how a tier begins.
    fn start(&self) -> policy::Start {
        match self.starts_small {
            true => policy::Start::Small,
            false => policy::Start::Whole,
        }
    }
}

/// How space is managed. What is said of a tier holds for tier 0, and for each tier to which
/// [`ExtentOptions::with_tier`] gave no limits of its own.
///
/// ```
/// use alluvium_storage::extents::ExtentOptions;
/// let options = ExtentOptions { max_bytes: Some(1 << 30), ..ExtentOptions::default() };
/// assert_eq!(options.max_bytes, Some(1 << 30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentOptions {
    /// The most bytes that a tier may occupy on its file system; no limit if absent.
    pub max_bytes: Option<u64>,
    /// The bytes a tier keeps allocated for every class but [`Class::Normal`], as far as they are
    /// no more than an eighth of what is used, or 2 MiB.
    pub min_reserve: u64,
    /// The most bytes a tier keeps allocated for them, where a 64th of what is used is more than
    /// `min_reserve`.
    pub max_reserve: u64,
    /// The bytes that are planned to lie on a tier while slower ones take the rest; a part of what
    /// it can hold if absent.
    pub planned_bytes: Option<u64>,
    /// Whether a tier takes little space while little is in it: extents, steps by which its file
    /// grows and the reserve are scaled to what is used, up to a few MiB.
    pub starts_small: bool,
    /// What the deltas of the map may grow to, in bytes, before the whole map is written, however
    /// small it is.
    pub min_map_deltas: u64,
    /// The limits of tiers 1 to 7, where they are not those of tier 0.
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
    /// Gives a tier limits of its own.
    ///
    /// ```
    /// use alluvium_storage::extents::{ExtentOptions, TierLimits};
    /// let large = TierLimits { max_bytes: Some(1 << 40), ..TierLimits::default() };
    /// let options = ExtentOptions::default().with_tier(1, large);
    /// assert_eq!((options.limits(1), options.limits(2)), (large, TierLimits::default()));
    /// ```
    ///
    /// # Panics
    /// When the tier is not from 1 to 7.
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

/// The space of one tier, by what it is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierUsage {
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// Extents that are live, how many bytes they span, and how many of those are live.
    pub live_extents: u64,
    /// Bytes in live extents.
    pub live_extent_bytes: u64,
    /// Bytes in live extents that something refers to.
    pub live_bytes: u64,
    /// Bytes handed out to steps that are not installed.
    pub provisional_bytes: u64,
    /// Bytes that wait for a durable generation or for an epoch.
    pub dead_bytes: u64,
    /// The part of `dead_bytes` that the next checkpoint lets go: what came to be dead after the
    /// last one had begun.
    pub dying_bytes: u64,
    /// Free bytes that have space on the file system.
    pub backed_bytes: u64,
    /// Free bytes that have none.
    pub hole_bytes: u64,
    /// Free bytes in all: backed, holes, those of unknown backing, and those held by an operation
    /// of the device.
    pub free_bytes: u64,
    /// The part of `backed_bytes` that [`Class::Normal`] may not take, when it is whole.
    pub reserve_bytes: u64,
    /// Bytes that the tier occupies on its file system, as far as it is known.
    pub occupied_bytes: u64,
}

/// The space of a store, tier by tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// One for each tier.
    pub tiers: Vec<TierUsage>,
    /// Bytes that the tiers occupy on the file system, as far as it is known.
    pub occupied_bytes: u64,
    /// Bytes of memory that the maps take.
    pub memory_bytes: u64,
}

impl Usage {
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
    shared: Arc<Shared>,
}

impl fmt::Debug for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

struct Shared {
    tiers: Arc<Tiers>,
    options: ExtentOptions,
    slots: Numbered<Slot>,
    /// The map on disk. Taken before any tier's lock.
    map: Mutex<map::MapState>,
    /// Which durable generations are kept. Taken before any tier's lock.
    kept: Mutex<kept::Kept>,
}

impl fmt::Debug for Shared {
    /// Short: the maps themselves are long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<_> = self.slots.iter().map(|slot| slot.tier.lock().counts).collect();
        f.debug_struct("Extents")
            .field("tiers", &counts)
            .finish_non_exhaustive()
    }
}

struct Slot {
    tier: Mutex<Tier>,
    limits: TierLimits,
    /// Units that may occupy the file system, against the tier's limit.
    occupied: AtomicU64,
    /// An ordinary write found no space, and nothing has come free since.
    refused: AtomicBool,
    /// Woken when a resize of the file is over.
    resized: Condvar,
}

impl Slot {
    fn new(tier: Tier, limits: TierLimits) -> Slot {
        Slot {
            limits,
            occupied: AtomicU64::new(tier.units.into()),
            tier: Mutex::new(tier),
            refused: AtomicBool::new(false),
            resized: Condvar::new(),
        }
    }
}

impl Shared {
    fn new(tiers: Arc<Tiers>, options: ExtentOptions, maps: Vec<Tier>, map: map::MapState) -> Shared {
        assert!(
            maps.iter()
                .enumerate()
                .all(|(index, tier)| usize::from(tier.number) == index),
            "tiers are in the order of their numbers"
        );
        assert_eq!(maps.len(), tiers.count(), "a map for each tier (X1)");
        let slots = maps.into_iter().map(|tier| {
            let limits = options.limits(tier.number);
            Slot::new(tier, limits)
        });
        Shared {
            slots: slots.collect(),
            tiers,
            options,
            map: Mutex::new(map),
            kept: Mutex::default(),
        }
    }

    fn slot(&self, tier: u8) -> &Slot {
        self.slots
            .get(usize::from(tier))
            .unwrap_or_else(|| panic!("tier {tier} of a store with {}", self.slots.len()))
    }

    fn lock(&self, tier: u8) -> MutexGuard<'_, Tier> {
        self.slot(tier).tier.lock()
    }
}

#[cfg(test)]
mod tests;
