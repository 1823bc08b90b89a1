//! Reports which storage tiers the runs of a tree or of levels occupy, for inspecting a store.

use crate::maplet::Maplet;
use crate::run::IndexedRun;
use std::fmt;

/// Identifies a run within its tree or its levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RunName {
    /// A run in a tree.
    Tree {
        /// The number of the run's group. Group numbers are unique in the store.
        group: u64,
        /// The index of the run in its group; newer runs have higher indices.
        place: usize,
    },
    Level {
        /// The number of the level. Level 0 contains the newest data.
        level: usize,
        /// The index of the run in its level; newer runs have higher indices.
        place: usize,
    },
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunName::Tree { group, place } => write!(f, "run {group}.{place} of the tree"),
            RunName::Level { level, place } => write!(f, "run {place} of level {level}"),
        }
    }
}

/// The number of bytes that a run and its filter occupy on each storage tier.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunPlace {
    pub name: RunName,
    pub records: u64,
    /// Bytes of nodes and values, as pairs of tier and bytes. Bytes shared by several runs are
    /// counted for each of them.
    pub bytes: Vec<(u8, u64)>,
    /// Bytes of the filter, as pairs of tier and bytes. All runs in a tree's group share one
    /// filter, which is counted only for the first of them.
    pub filter_bytes: Vec<(u8, u64)>,
}

impl RunPlace {
    pub(crate) fn of(name: RunName, run: &IndexedRun, filter: Option<&Maplet>) -> RunPlace {
        let used = run.extents().iter().map(|used| (used.extent.tier, used.live));
        let of_filter = filter.into_iter().flat_map(Maplet::extents);
        let of_filter = of_filter.map(|(extent, live)| (extent.tier, live));
        RunPlace {
            name,
            records: run.summary().records,
            bytes: by_tier(used),
            filter_bytes: by_tier(of_filter),
        }
    }

    /// Returns the bytes that the run occupies on `tier`, as a pair: bytes of nodes and values, and
    /// bytes of the filter.
    #[must_use]
    pub fn on(&self, tier: u8) -> (u64, u64) {
        let of = |parts: &[(u8, u64)]| {
            let found = parts.iter().find(|(other, _)| *other == tier);
            found.map_or(0, |(_, bytes)| *bytes)
        };
        (of(&self.bytes), of(&self.filter_bytes))
    }
}

/// Adds up the bytes on each tier. Returns pairs of tier and total bytes, sorted by tier.
fn by_tier(parts: impl Iterator<Item = (u8, u64)>) -> Vec<(u8, u64)> {
    let mut tiers: Vec<(u8, u64)> = Vec::new();
    for (tier, bytes) in parts {
        match tiers.iter_mut().find(|(other, _)| *other == tier) {
            Some((_, sum)) => *sum += bytes,
            None => tiers.push((tier, bytes)),
        }
    }
    tiers.sort_unstable();
    tiers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_added_up_by_their_tiers() {
        let parts = [(1, 5), (0, 2), (1, 6)];
        let tiers = by_tier(parts.into_iter());
        assert_eq!(tiers, [(0, 2), (1, 11)]);
        let place = RunPlace {
            name: RunName::Level { level: 2, place: 0 },
            records: 1,
            bytes: tiers,
            filter_bytes: vec![(0, 3)],
        };
        assert_eq!((place.on(0), place.on(1), place.on(2)), ((2, 3), (11, 0), (0, 0)));
        assert_eq!(place.name.to_string(), "run 0 of level 2");
    }
}
