//! The read set or write set of a transaction: keys and key ranges in any number of keyspaces.
//!
//! *Scope*: the keyspace of each key, which keys ranges already cover, and the size of the set.
//!
//! *Must not depend on*: which transaction made the accesses, and which accesses conflict.

use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::joining::{KeyInterval, neighbour_groups};
use crate::locking::locks::{LockMode, LockSet};
use crate::locking::ranges::{InlineKey, RangeSet};
use crate::schema::catalog::KeyspaceDefinition;
use crate::schema::format::KeyspaceId;
use alluvium_dictionary::range::KeyRange;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of bytes of a key that count as one additional entry. Long keys count more, because the
/// limits on the number of entries also serve to limit memory.
const LONG: usize = 256;

/// A set of keys and key ranges. The keys are tree keys, which include the keyspace prefix.
#[derive(Debug, Default)]
pub(crate) struct AccessSet {
    spaces: BTreeMap<KeyspaceId, KeyspaceAccess>,
    /// Number of keys and ranges in the set. A long key counts more than once.
    len: usize,
}

/// The keys and ranges of one keyspace. None of the keys is inside any of the ranges.
#[derive(Debug)]
pub(crate) struct KeyspaceAccess {
    pub(crate) definition: Arc<KeyspaceDefinition>,
    points: BTreeSet<InlineKey>,
    /// Number of keys, where a long key counts more than once.
    weight: usize,
    ranges: RangeSet,
    /// Keys that others may have merged into, but must not have written otherwise. They are neither
    /// among the points nor inside the ranges.
    merges: BTreeSet<InlineKey>,
}

fn weight(key: &[u8]) -> usize {
    1 + key.len() / LONG
}

/// Returns the smallest key that is larger than `key`.
fn behind(key: &[u8]) -> InlineKey {
    let mut behind = InlineKey::from_slice(key);
    behind.push(0);
    behind
}

impl KeyspaceAccess {
    pub(crate) fn points(&self) -> impl Iterator<Item = &[u8]> {
        self.points.iter().map(|point| &point[..])
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = KeyRange> {
        self.ranges.iter().map(|(low, high)| KeyRange::new(low, high))
    }

    pub(crate) fn merges(&self) -> impl Iterator<Item = &[u8]> {
        self.merges.iter().map(|key| &key[..])
    }

    fn len(&self) -> usize {
        self.weight + self.merges.len() + self.ranges.len().max(self.ranges.memory() / LONG)
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.points.contains(key) || self.ranges.contains(key)
    }

    /// Removes all keys and ranges from the set and appends them to `entries`, in key order.
    fn take_entries(&mut self, space: u32, entries: &mut Vec<AccessEntry>) {
        let start = entries.len();
        let points = std::mem::take(&mut self.points).into_iter();
        entries.extend(points.map(|low| AccessEntry {
            space,
            high: Some(behind(&low)),
            low,
            is_point: true,
        }));
        entries.extend(self.ranges.iter().map(|(low, high)| AccessEntry {
            space,
            low: InlineKey::from_slice(low),
            high: high.map(InlineKey::from_slice),
            is_point: false,
        }));
        entries[start..].sort_by(|one, other| one.low.cmp(&other.low));
        (self.weight, self.ranges) = (0, RangeSet::default());
    }

    /// Adds a group of neighbouring entries. It becomes a range unless it is a single key.
    fn put_back(&mut self, group: &[AccessEntry]) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            return;
        };
        let is_single = group.len() == 1 || is_planted(IsolationFault::GroupsLoseTheirLastKeys);
        if first.is_point && is_single {
            self.weight += weight(&first.low);
            self.points.insert(first.low.clone());
        } else {
            self.ranges.insert(&first.low, last.high.as_deref());
        }
    }
}

/// A key or range of a set while neighbours are being joined.
struct AccessEntry {
    space: u32,
    low: InlineKey,
    high: Option<InlineKey>,
    is_point: bool,
}

impl AccessSet {
    pub(crate) fn add_point(&mut self, definition: &Arc<KeyspaceDefinition>, key: &[u8]) {
        self.change(definition, |space| {
            if !space.ranges.contains(key) && space.points.insert(InlineKey::from_slice(key)) {
                space.weight += weight(key);
            }
        });
    }

    pub(crate) fn add_range(&mut self, definition: &Arc<KeyspaceDefinition>, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        self.change(definition, |space| {
            space.ranges.insert(&range.low, range.high.as_deref());
            let from = space.points.range(InlineKey::from_slice(&range.low)..);
            let within: Vec<InlineKey> = from.take_while(|key| range.contains(key)).cloned().collect();
            for key in within {
                space.points.remove(&key);
                space.weight -= weight(&key);
            }
        });
    }

    /// Adds a key that others may have merged into, but must not have written otherwise. If the set
    /// has the key already, by itself or in a range, the key is not added, because the existing
    /// entry is stricter.
    pub(crate) fn add_merge(&mut self, definition: &Arc<KeyspaceDefinition>, key: &[u8]) {
        self.change(definition, |space| {
            if !space.contains(key) {
                space.merges.insert(InlineKey::from_slice(key));
            }
        });
    }

    /// Returns whether a key is in the set or in one of its ranges.
    pub(crate) fn contains(&self, definition: &KeyspaceDefinition, key: &[u8]) -> bool {
        self.spaces
            .get(&definition.id)
            .is_some_and(|space| space.contains(key))
    }

    fn change(&mut self, definition: &Arc<KeyspaceDefinition>, change: impl FnOnce(&mut KeyspaceAccess)) {
        let space = self
            .spaces
            .entry(definition.id)
            .or_insert_with(|| KeyspaceAccess {
                definition: Arc::clone(definition),
                points: BTreeSet::new(),
                weight: 0,
                ranges: RangeSet::default(),
                merges: BTreeSet::new(),
            });
        let len = space.len();
        change(space);
        self.len = self.len + space.len() - len;
    }

    /// Joins neighbouring keys and ranges into ranges, until the set has at most `target` entries
    /// or a single range for each keyspace. The set then also includes the gaps between the
    /// neighbours.
    ///
    /// Each turn halves the number of entries, so all turns together take about as long as sorting
    /// the entries. If the caller joins whenever the set reaches twice the target, the cost per
    /// added key is logarithmic.
    pub(crate) fn join_neighbours(&mut self, target: usize) {
        while self.len > target {
            let mut entries = Vec::new();
            for (index, space) in (0..).zip(self.spaces.values_mut()) {
                space.take_entries(index, &mut entries);
            }
            let intervals: Vec<KeyInterval<'_>> = entries
                .iter()
                .map(|entry| KeyInterval {
                    space: entry.space,
                    low: &entry.low,
                    high: entry.high.as_deref(),
                })
                .collect();
            let groups = neighbour_groups(&intervals);
            let mut spaces = (0..).zip(self.spaces.values_mut());
            let mut space = spaces.next();
            for group in &groups {
                let group = &entries[group.clone()];
                while let (Some((index, _)), Some(first)) = (&space, group.first())
                    && *index != first.space
                {
                    space = spaces.next();
                }
                if let Some((_, space)) = &mut space {
                    space.put_back(group);
                }
            }
            self.len = self.spaces.values().map(KeyspaceAccess::len).sum();
            if groups.len() == entries.len() {
                return;
            }
        }
    }

    /// Returns the number of keys and ranges in the set. A long key counts more than once.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the keys and ranges of each keyspace.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = &KeyspaceAccess> {
        self.spaces.values()
    }

    /// Adds the locks that prevent other commits from writing to the keys and ranges of this set.
    pub(crate) fn lock(&self, set: &mut LockSet) {
        for space in self.spaces.values() {
            for point in &space.points {
                set.key(0, point, LockMode::Shared);
            }
            if space.ranges.len() > 0 {
                set.everything(LockMode::Shared);
            }
        }
    }
}

#[cfg(all(test, not(alluvium_model_check)))]
mod tests {
    use super::*;
    use crate::options::Options;

    fn definition() -> Arc<KeyspaceDefinition> {
        let db = Options::new().memory(16 << 20).workers(0).in_memory().unwrap();
        Arc::clone(db.keyspace("seas").unwrap().definition())
    }

    #[test]
    fn a_point_in_a_range_is_not_counted_and_a_range_takes_its_points() {
        let (of, mut footprint) = (definition(), AccessSet::default());
        for key in [b"a", b"c", b"e", b"c"] {
            footprint.add_point(&of, key);
        }
        assert_eq!(footprint.len(), 3);
        footprint.add_range(&of, &KeyRange::new(b"b", Some(b"e")));
        footprint.add_point(&of, b"d");
        let space = footprint.spaces().next().unwrap();
        let points: Vec<&[u8]> = space.points().collect();
        assert_eq!((points, footprint.len()), (vec![&b"a"[..], b"e"], 3));
        footprint.add_range(&of, &KeyRange::new(b"x", Some(b"x")));
        assert_eq!(footprint.len(), 3, "an empty range is none");
    }

    #[test]
    fn long_keys_count_more_than_once() {
        let (of, mut footprint) = (definition(), AccessSet::default());
        footprint.add_point(&of, &[7; 10 * LONG]);
        footprint.add_point(&of, &[7; 10 * LONG]);
        assert_eq!(footprint.len(), 11);
        footprint.add_range(&of, &KeyRange::new(&[7], Some(&[8])));
        assert_eq!(footprint.len(), 1);
    }

    #[test]
    fn joined_entries_are_all_in_the_set_and_bounded() {
        let (of, mut footprint) = (definition(), AccessSet::default());
        let keys: Vec<[u8; 2]> = (0..100u16).map(|key| (3 * key).to_be_bytes()).collect();
        for key in &keys {
            footprint.add_point(&of, key);
        }
        footprint.add_range(&of, &KeyRange::new(b"x", Some(b"y")));
        let contains = |footprint: &AccessSet, key: &[u8]| {
            let space = footprint.spaces().next().unwrap();
            space.points().any(|point| point == key) || space.ranges().any(|range| range.contains(key))
        };
        for target in [50, 7, 1] {
            footprint.join_neighbours(target);
            assert!(footprint.len() <= target, "{} of {target}", footprint.len());
            assert!(2 * footprint.len() >= target, "{} of {target}", footprint.len());
            assert!(keys.iter().all(|key| contains(&footprint, key)));
            assert!(contains(&footprint, b"xx") && !contains(&footprint, b"y"));
        }
        footprint.join_neighbours(0);
        assert_eq!(footprint.len(), 1, "a keyspace has at least one range");
    }

    #[test]
    fn joined_keys_of_a_directory_stay_in_it() {
        let (of, mut footprint) = (definition(), AccessSet::default());
        for directory in ["a/", "b/", "b0/"] {
            for file in (0..4000).step_by(7) {
                footprint.add_point(&of, format!("{directory}{file:05}").as_bytes());
            }
        }
        footprint.join_neighbours(10);
        assert!(footprint.len() <= 10);
        let space = footprint.spaces().next().unwrap();
        for outside in ["a", "a0", "aa/00001", "b", "b.", "b/1", "b00", "b0/1", "c"] {
            let is_in = space.ranges().any(|range| range.contains(outside.as_bytes()));
            assert!(!is_in, "{outside}");
        }
    }

    #[test]
    fn long_keys_are_joined_until_their_bytes_are_bounded() {
        let (of, mut footprint) = (definition(), AccessSet::default());
        for file in 0..100 {
            let key = [&[b'a'; 40 * LONG][..], format!("{file:03}").as_bytes()].concat();
            footprint.add_point(&of, &key);
        }
        footprint.join_neighbours(200);
        assert!(footprint.len() <= 200, "{}", footprint.len());
    }
}
