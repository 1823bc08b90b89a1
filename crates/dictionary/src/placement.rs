//! Chooses the tier for data to be written: the fastest tier that, with the faster ones, can hold
//! this data and all newer data, and that has enough free space.
//!
//! Levels, trunk nodes and parts of hashed structures are treated alike: all data has a position in
//! the order of ages. The newest data is the smallest part and is read and written most often, so
//! the tiers are filled starting with the fastest (Spillane 2012, section 5.1). Tiers that are full
//! or accept no new data are skipped. If no tier qualifies, the tier with the most free space is
//! chosen.

use alluvium_storage::extents::{Extent, UNIT};
use alluvium_storage::store::{Store, TierSpace};

/// Number of bytes that a running maintenance step allocates besides its output: one extent each
/// for leaves, for values and for the maplet.
const SLACK: u64 = 3 * 8 * UNIT;

/// Compactions leave one part in this many of a tier's capacity free for new data.
const LEFT_FREE: u64 = 16;

/// A request for a tier, with the size and age of the data to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacementRequest {
    /// Total size in bytes of this data and all data that is at least as new.
    pub through_bytes: u64,
    /// Approximate size of the data in bytes.
    pub bytes: u64,
    /// Whether the data is new to the structure, as opposed to existing data that is being
    /// rewritten.
    pub is_new: bool,
}

impl PlacementRequest {
    /// Creates the request for `bytes` bytes of incoming data, which is newer than all existing
    /// data.
    #[must_use]
    pub fn newest(bytes: u64) -> PlacementRequest {
        PlacementRequest {
            through_bytes: 0,
            bytes,
            is_new: true,
        }
    }

    /// Creates the request for rewriting `bytes` bytes of data. `through_bytes` is the size of all
    /// data that is at least as new.
    #[must_use]
    pub fn older(through_bytes: u64, bytes: u64) -> PlacementRequest {
        PlacementRequest {
            through_bytes,
            bytes,
            is_new: false,
        }
    }

    /// Creates the request for `bytes` bytes that belong to the newest `newer` bytes of a
    /// structure. The structure contains `all` bytes and the store contains `all_bytes`. All
    /// structures share the tiers, so the position in the order of ages is scaled from the
    /// structure to the store.
    ///
    /// ```
    /// use alluvium_dictionary::placement::PlacementRequest;
    /// // The newest tenth of a structure, in a store that holds ten times as much.
    /// assert_eq!(PlacementRequest::of_share(10, 100, 1000, 7), PlacementRequest::older(100, 7));
    /// ```
    #[must_use]
    pub fn of_share(newer: u64, all: u64, all_bytes: u64, bytes: u64) -> PlacementRequest {
        let through = u128::from(all_bytes) * u128::from(newer.max(bytes)) / u128::from(all.max(1));
        PlacementRequest::older(u64::try_from(through).unwrap_or(u64::MAX), bytes)
    }

    /// Creates the request for a compaction of `bytes` bytes in a trunk node at `height`. Each
    /// height of a tree contains `fanout` times as much data as the one above it, so the data from
    /// the root down to `height` is a fixed fraction of all data.
    #[must_use]
    pub fn of_height(height: u8, fanout: u64, all_bytes: u64, bytes: u64) -> PlacementRequest {
        let below = fanout.max(2).saturating_pow(height.into());
        debug_assert!(below > 0, "a height holds a part of the whole");
        PlacementRequest::older(all_bytes / below, bytes)
    }
}

/// Returns the tier for the requested data.
///
/// ```
/// use alluvium_dictionary::placement::{PlacementRequest, choose};
/// use alluvium_storage::store::TierSpace;
/// let tier = |gib: u64| TierSpace {
///     capacity_bytes: gib << 30,
///     planned_bytes: gib * 3 << 28,
///     free_bytes: gib << 30,
///     is_open: true,
/// };
/// let tiers = [tier(16), tier(1024)];
/// assert_eq!(choose(&tiers, &PlacementRequest::newest(64 << 20)), 0);
/// assert_eq!(choose(&tiers, &PlacementRequest::older(100 << 30, 1 << 30)), 1);
/// ```
///
/// # Panics
/// If there are no tiers.
#[must_use]
pub fn choose(tiers: &[TierSpace], demand: &PlacementRequest) -> u8 {
    assert!(!tiers.is_empty(), "a store has a tier (T1)");
    choose_from(tiers, preferred(tiers, demand.through_bytes), demand)
}

/// Returns the tier for the requested data, trying the tier `preferred` first.
///
/// # Panics
/// If there are no tiers.
#[must_use]
pub fn choose_from(tiers: &[TierSpace], preferred: usize, demand: &PlacementRequest) -> u8 {
    let last = tiers.len() - 1;
    let preferred = preferred.min(last);
    let fits = |&tier: &usize| {
        let space = &tiers[tier];
        let left = if demand.is_new {
            0
        } else {
            space.capacity_bytes / LEFT_FREE
        };
        space.is_open && space.free_bytes >= demand.bytes.saturating_add(SLACK).saturating_add(left)
    };
    let mut near_first = (preferred..=last).chain((0..preferred).rev());
    let open = (0..=last).filter(|&tier| tiers[tier].is_open);
    // On a tie, the first tier wins. Without `rev`, `max_by_key` would return the last.
    let roomiest = || open.rev().max_by_key(|&tier| tiers[tier].free_bytes);
    let found = near_first.find(fits).or_else(roomiest).unwrap_or(0);
    debug_assert!(found < tiers.len(), "tiers are numbered (T1)");
    found as u8
}

/// Returns the first open tier whose planned capacity, added to that of the open tiers before it,
/// is at least `through_bytes`.
fn preferred(tiers: &[TierSpace], through_bytes: u64) -> usize {
    let mut planned = 0u64;
    let holds = |space: &TierSpace| {
        if space.is_open {
            planned = planned.saturating_add(space.planned_bytes);
        }
        space.is_open && planned >= through_bytes
    };
    tiers.iter().position(holds).unwrap_or(tiers.len() - 1)
}

/// Returns the tier of `store` for the requested data.
#[must_use]
pub fn tier(store: &Store, demand: &PlacementRequest) -> u8 {
    tier_among(store, |_| *demand)
}

/// Like [`tier`], but the request depends on the total number of bytes in the store, which `demand`
/// receives.
#[must_use]
pub fn tier_among(store: &Store, demand: impl FnOnce(u64) -> PlacementRequest) -> u8 {
    if store.tiers().count() == 1 {
        return 0;
    }
    let (spaces, all_bytes) = store.tier_space();
    choose(&spaces, &demand(all_bytes))
}

/// Returns whether a compaction that writes to `tier` also rewrites the values in `extent`. Values
/// move to slower tiers with their keys. They also leave a tier that no longer accepts new data.
#[must_use]
pub fn is_left(store: &Store, extent: &Extent, tier: u8) -> bool {
    extent.tier < tier || (extent.tier != tier && !store.takes_extents(extent.tier))
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    /// Parses tiers, each given as "capacity/free" in units of `SLACK`. Three quarters of the
    /// capacity are planned. A `!` marks a tier that accepts no new data.
    fn tiers(text: &str) -> Vec<TierSpace> {
        let tier = |word: &str| {
            let (sizes, is_open) = match word.strip_suffix('!') {
                Some(sizes) => (sizes, false),
                None => (word, true),
            };
            let (capacity, free) = sizes.split_once('/').unwrap();
            let bytes = |slacks: &str| slacks.parse::<u64>().unwrap() * SLACK;
            TierSpace {
                capacity_bytes: bytes(capacity),
                planned_bytes: bytes(capacity) / 4 * 3,
                free_bytes: bytes(free),
                is_open,
            }
        };
        text.split_whitespace().map(tier).collect()
    }

    fn older(through: u64, own: u64) -> PlacementRequest {
        PlacementRequest::older(through.saturating_mul(SLACK), own * SLACK)
    }

    #[test]
    fn what_is_old_lies_where_all_that_is_newer_fits_before_it() {
        let spaces = tiers("1600/1600 16000/16000 160000/160000");
        let place = |through| choose(&spaces, &older(through, 10));
        // Three quarters of 1600, and three quarters of 17600.
        assert_eq!(
            [0, 1200, 1201, 13_200, 13_201, u64::MAX].map(place),
            [0, 0, 1, 1, 2, 2]
        );
        assert_eq!(choose(&spaces, &PlacementRequest::newest(10)), 0);
    }

    #[test]
    fn a_height_holds_the_fanouth_part_of_the_one_below_it() {
        let through = |height| PlacementRequest::of_height(height, 8, 6400, 1).through_bytes;
        assert_eq!([0, 1, 2, 3, 63].map(through), [6400, 800, 100, 12, 0]);
    }

    #[test]
    fn a_full_tier_is_passed_over_to_the_next_with_space_slower_ones_first() {
        let place = |text, demand: &PlacementRequest| choose(&tiers(text), demand);
        let (new, old) = (PlacementRequest::newest(49 * SLACK), older(0, 49));
        assert_eq!(place("1600/49 1600/50 1600/1600", &new), 1);
        assert_eq!(place("1600/50 1600/1600", &new), 0);
        // A compaction leaves a sixteenth of the capacity for new data.
        assert_eq!(place("1600/149 1600/150", &old), 1);
        assert_eq!(place("1600/150 1600/1600", &old), 0);
        let last = older(u64::MAX, 49);
        assert_eq!(
            place("1600/1600 1600/400 1600/10", &last),
            1,
            "then the nearest above it"
        );
    }

    #[test]
    fn where_nothing_fits_the_most_space_is_the_last_resort() {
        let place = |text| choose(&tiers(text), &older(0, 50));
        assert_eq!(place("1600/10 1600/20 1600/15"), 1);
        assert_eq!(place("1600/20 1600/20"), 0);
        assert_eq!(place("1600/0 1600/0!"), 0);
    }

    #[test]
    fn a_tier_that_takes_nothing_is_neither_counted_nor_chosen() {
        let place = |text, through| choose(&tiers(text), &older(through, 1));
        assert_eq!(place("1600/1600 1600/1600! 1600/1600", 1201), 2);
        assert_eq!(place("1600/0 1600/1600!", 1201), 0, "not even as the last resort");
        assert_eq!(place("1600/1600 1600/1600!", 5000), 0);
    }
}
