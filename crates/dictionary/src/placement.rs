//! Which tier of a store new data goes to: the fastest on which all that is as new fits, as far as
//! it has space.
//!
//! Levels, trunk nodes and parts of hashed structures are alike here: what is written has its
//! place in the order of ages. The newest data is the smallest part and is read and written most,
//! so tiers fill from the first one on (Spillane 2012, section 5.1). A tier that is full is passed
//! over, and so is one that takes nothing; whichever has most space is the last resort.

use alluvium_storage::extents::{Extent, UNIT};
use alluvium_storage::store::{Store, TierSpace};

/// Bytes that a step takes beside what it writes until it is over: an extent of its leaves, of its
/// values and of its maplet.
const SLACK: u64 = 3 * 8 * UNIT;

/// Of the capacity of a tier, compactions leave one part in 16 to what is new.
const LEFT_FREE: u64 = 16;

/// What is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The bytes of all that is newer, itself included.
    pub through_bytes: u64,
    /// Its own bytes, about.
    pub bytes: u64,
    /// Whether it comes into the structure, and is not written a second time.
    pub is_new: bool,
}

impl Demand {
    /// Returns the demand of what comes in, newer than all else.
    #[must_use]
    pub fn newest(bytes: u64) -> Demand {
        Demand {
            through_bytes: 0,
            bytes,
            is_new: true,
        }
    }

    /// Returns the demand of what was written before, and is now one of `through_bytes` that are at
    /// least as new.
    #[must_use]
    pub fn older(through_bytes: u64, bytes: u64) -> Demand {
        Demand {
            through_bytes,
            bytes,
            is_new: false,
        }
    }

    /// Returns the demand of what is one of `newer` of the `all` bytes of a structure, in a store
    /// that holds `all_bytes`: other structures have their share of all tiers.
    ///
    /// ```
    /// use alluvium_dictionary::placement::Demand;
    /// // The newest tenth of a structure, in a store that holds ten times as much.
    /// assert_eq!(Demand::of_share(10, 100, 1000, 7), Demand::older(100, 7));
    /// ```
    #[must_use]
    pub fn of_share(newer: u64, all: u64, all_bytes: u64, bytes: u64) -> Demand {
        let through = u128::from(all_bytes) * u128::from(newer.max(bytes)) / u128::from(all.max(1));
        Demand::older(u64::try_from(through).unwrap_or(u64::MAX), bytes)
    }

    /// Returns the demand of what a compaction in a trunk node writes. Each height of a tree holds
    /// `fanout` times what the next one holds, so all down to it have that part of the whole.
    #[must_use]
    pub fn of_height(height: u8, fanout: u64, all_bytes: u64, bytes: u64) -> Demand {
        let below = fanout.max(2).saturating_pow(height.into());
        debug_assert!(below > 0, "a height holds a part of the whole");
        Demand::older(all_bytes / below, bytes)
    }
}

/// Returns the tier that a demand is met on.
///
/// ```
/// use alluvium_dictionary::placement::{Demand, choose};
/// use alluvium_storage::store::TierSpace;
/// let tier = |gib: u64| TierSpace {
///     capacity_bytes: gib << 30,
///     planned_bytes: gib * 3 << 28,
///     free_bytes: gib << 30,
///     is_open: true,
/// };
/// let tiers = [tier(16), tier(1024)];
/// assert_eq!(choose(&tiers, &Demand::newest(64 << 20)), 0);
/// assert_eq!(choose(&tiers, &Demand::older(100 << 30, 1 << 30)), 1);
/// ```
///
/// # Panics
/// When there are no tiers.
#[must_use]
pub fn choose(tiers: &[TierSpace], demand: &Demand) -> u8 {
    assert!(!tiers.is_empty(), "a store has a tier (T1)");
    choose_from(tiers, preferred(tiers, demand.through_bytes), demand)
}

/// Returns the tier that a demand is met on, by a rule of its own that prefers one.
///
/// # Panics
/// When there are no tiers.
#[must_use]
pub fn choose_from(tiers: &[TierSpace], preferred: usize, demand: &Demand) -> u8 {
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
    // Of those with as much the first: `max_by_key` would take the last.
    let roomiest = || open.rev().max_by_key(|&tier| tiers[tier].free_bytes);
    let found = near_first.find(fits).or_else(roomiest).unwrap_or(0);
    debug_assert!(found < tiers.len(), "tiers are numbered (T1)");
    found as u8
}

/// Returns the first tier that has all of this, with those before it, as it is planned.
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

/// Returns the tier that a demand is met on in a store.
#[must_use]
pub fn tier(store: &Store, demand: &Demand) -> u8 {
    tier_among(store, |_| *demand)
}

/// As [`tier`], with a demand that depends on the bytes of all that the store holds.
#[must_use]
pub fn tier_among(store: &Store, demand: impl FnOnce(u64) -> Demand) -> u8 {
    if store.tiers().count() == 1 {
        return 0;
    }
    let (spaces, all_bytes) = store.tier_space();
    choose(&spaces, &demand(all_bytes))
}

/// Returns whether values in an extent are written again by a compaction to this tier: what sinks
/// takes them along, and a tier that takes nothing new gives up what it has.
#[must_use]
pub fn is_left(store: &Store, extent: &Extent, tier: u8) -> bool {
    extent.tier < tier || (extent.tier != tier && !store.takes_extents(extent.tier))
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;

    /// Tiers as "capacity/free" in slacks, of which three quarters are planned for, with a `!` for
    /// one that takes nothing.
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

    fn older(through: u64, own: u64) -> Demand {
        Demand::older(through.saturating_mul(SLACK), own * SLACK)
    }

    #[test]
    fn what_is_old_lies_where_all_that_is_newer_fits_before_it() {
        let spaces = tiers("1600/1600 16000/16000 160000/160000");
        let place = |through| choose(&spaces, &older(through, 10));
        // Three quarters of 1600, then of 17600.
        assert_eq!(
            [0, 1200, 1201, 13_200, 13_201, u64::MAX].map(place),
            [0, 0, 1, 1, 2, 2]
        );
        assert_eq!(choose(&spaces, &Demand::newest(10)), 0);
    }

    #[test]
    fn a_height_holds_the_fanouth_part_of_the_one_below_it() {
        let through = |height| Demand::of_height(height, 8, 6400, 1).through_bytes;
        assert_eq!([0, 1, 2, 3, 63].map(through), [6400, 800, 100, 12, 0]);
    }

    #[test]
    fn a_full_tier_is_passed_over_to_the_next_with_space_slower_ones_first() {
        let place = |text, demand: &Demand| choose(&tiers(text), demand);
        let (new, old) = (Demand::newest(49 * SLACK), older(0, 49));
        assert_eq!(place("1600/49 1600/50 1600/1600", &new), 1);
        assert_eq!(place("1600/50 1600/1600", &new), 0);
        // A compaction leaves a sixteenth of it to what is new.
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
