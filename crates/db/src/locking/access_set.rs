//! The read set or the write set of a transaction: keys and key ranges in any number of keyspaces.
//!
//! *Scope*: the keyspace to which each key belongs, which keys are already covered by ranges, and
//! the size of the set.
//!
//! *Must not depend on*: which transaction made the accesses, and which accesses conflict.

use crate::locking::locks::{LockMode, LockSet};
use crate::locking::ranges::{InlineKey, RangeSet};
use crate::schema::catalog::KeyspaceDefinition;
use crate::schema::format::KeyspaceId;
use alluvium_dictionary::range::KeyRange;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of neighbouring keys that are combined into one range to save memory.
const JOINED: usize = 16;

/// Number of bytes of a key that count as one additional entry. Long keys count more because the
/// limits on the number of entries also limit memory.
const LONG: usize = 256;

/// A set of keys and key ranges. The keys are tree keys, which include the prefix of the keyspace.
#[derive(Debug, Default)]
pub(crate) struct AccessSet {
    spaces: BTreeMap<KeyspaceId, KeyspaceAccess>,
    /// Number of keys and ranges in the set. A long key counts more than once.
    len: usize,
}

/// The keys and ranges of one keyspace. None of the keys is inside one of the ranges.
#[derive(Debug)]
pub(crate) struct KeyspaceAccess {
    pub(crate) definition: Arc<KeyspaceDefinition>,
    points: BTreeSet<InlineKey>,
    /// Number of keys, where a long key counts more than once.
    weight: usize,
    ranges: RangeSet,
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

    fn len(&self) -> usize {
        self.weight + self.ranges.len().max(self.ranges.memory() / LONG)
    }

    /// Combines groups of neighbouring keys into ranges.
    fn join_points(&mut self) {
        let points: Vec<InlineKey> = std::mem::take(&mut self.points).into_iter().collect();
        self.weight = 0;
        for group in points.chunks(JOINED) {
            if let (Some(first), Some(last)) = (group.first(), group.last()) {
                self.ranges.insert(first, Some(&behind(last)));
            }
        }
    }
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

    fn change(&mut self, definition: &Arc<KeyspaceDefinition>, change: impl FnOnce(&mut KeyspaceAccess)) {
        let space = self
            .spaces
            .entry(definition.id)
            .or_insert_with(|| KeyspaceAccess {
                definition: Arc::clone(definition),
                points: BTreeSet::new(),
                weight: 0,
                ranges: RangeSet::default(),
            });
        let len = space.len();
        change(space);
        self.len = self.len + space.len() - len;
    }

    /// Combines keys into ranges, to reduce the number of entries. The set then also includes the
    /// gaps between the keys of each range.
    pub(crate) fn join_points(&mut self) {
        for space in self.spaces.values_mut() {
            space.join_points();
        }
        self.len = self.spaces.values().map(KeyspaceAccess::len).sum();
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
    fn joined_points_are_all_in_ranges() {
        let (of, mut footprint) = (definition(), AccessSet::default());
        let keys: Vec<[u8; 2]> = (0..100u16).map(|key| (3 * key).to_be_bytes()).collect();
        for key in &keys {
            footprint.add_point(&of, key);
        }
        footprint.join_points();
        assert_eq!(footprint.len(), 100usize.div_ceil(JOINED));
        let space = footprint.spaces().next().unwrap();
        for key in &keys {
            assert!(space.ranges().any(|range| range.contains(key)));
        }
    }
}
