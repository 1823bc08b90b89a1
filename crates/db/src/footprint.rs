//! Keys and ranges of keys, over all keyspaces: what a transaction has read, or writes to.
//!
//! *Knows*: which keyspace a key is of, which points lie in a range already, how many there are.
//!
//! *Does not know*: who has read them, and what a conflict is.

use crate::catalog::Definition;
use crate::format::KeyspaceId;
use crate::locks::{LockMode, LockSet};
use crate::ranges::{Key, Ranges};
use alluvium_dictionary::range::KeyRange;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many neighbouring points become one range when there are too many points.
const JOINED: usize = 16;

/// How many bytes of a key count as one more point: limits are limits of memory, too.
const LONG: usize = 256;

/// Keys and ranges of keys. Keys are those of dictionaries, with the number of their keyspace.
#[derive(Debug, Default)]
pub(crate) struct Footprint {
    spaces: BTreeMap<KeyspaceId, Space>,
    /// How many points and ranges there are. Long keys count more than once.
    len: usize,
}

/// What lies in one keyspace. No point lies in a range.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) definition: Arc<Definition>,
    points: BTreeSet<Key>,
    /// What the points count.
    weight: usize,
    ranges: Ranges,
}

fn weight(key: &[u8]) -> usize {
    1 + key.len() / LONG
}

/// Returns the first key behind another.
fn behind(key: &[u8]) -> Key {
    let mut behind = Key::from_slice(key);
    behind.push(0);
    behind
}

impl Space {
    pub(crate) fn points(&self) -> impl Iterator<Item = &[u8]> {
        self.points.iter().map(|point| &point[..])
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = KeyRange> {
        self.ranges.iter().map(|(low, high)| KeyRange::new(low, high))
    }

    fn len(&self) -> usize {
        self.weight + self.ranges.len().max(self.ranges.memory() / LONG)
    }

    /// Makes a range of each few neighbouring points.
    fn join_points(&mut self) {
        let points: Vec<Key> = std::mem::take(&mut self.points).into_iter().collect();
        self.weight = 0;
        for group in points.chunks(JOINED) {
            if let (Some(first), Some(last)) = (group.first(), group.last()) {
                self.ranges.insert(first, Some(&behind(last)));
            }
        }
    }
}

impl Footprint {
    /// Adds a key.
    pub(crate) fn add_point(&mut self, definition: &Arc<Definition>, key: &[u8]) {
        self.change(definition, |space| {
            if !space.ranges.contains(key) && space.points.insert(Key::from_slice(key)) {
                space.weight += weight(key);
            }
        });
    }

    /// Adds a range.
    pub(crate) fn add_range(&mut self, definition: &Arc<Definition>, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        self.change(definition, |space| {
            space.ranges.insert(&range.low, range.high.as_deref());
            let from = space.points.range(Key::from_slice(&range.low)..);
            let within: Vec<Key> = from.take_while(|key| range.contains(key)).cloned().collect();
            for key in within {
                space.points.remove(&key);
                space.weight -= weight(&key);
            }
        });
    }

    fn change(&mut self, definition: &Arc<Definition>, change: impl FnOnce(&mut Space)) {
        let space = self.spaces.entry(definition.id).or_insert_with(|| Space {
            definition: Arc::clone(definition),
            points: BTreeSet::new(),
            weight: 0,
            ranges: Ranges::default(),
        });
        let len = space.len();
        change(space);
        self.len = self.len + space.len() - len;
    }

    /// Makes ranges of points, so that there are fewer. What lies between the points of a range is
    /// in the footprint from now on.
    pub(crate) fn join_points(&mut self) {
        for space in self.spaces.values_mut() {
            space.join_points();
        }
        self.len = self.spaces.values().map(Space::len).sum();
    }

    /// Returns how many points and ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns what lies in each keyspace.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = &Space> {
        self.spaces.values()
    }

    /// Adds locks under which no other write to the footprint is committed.
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
    use crate::Options;

    fn definition() -> Arc<Definition> {
        let db = Options::new().memory(16 << 20).workers(0).in_memory().unwrap();
        Arc::clone(db.keyspace("seas").unwrap().definition())
    }

    #[test]
    fn a_point_in_a_range_is_not_counted_and_a_range_takes_its_points() {
        let (of, mut footprint) = (definition(), Footprint::default());
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
        let (of, mut footprint) = (definition(), Footprint::default());
        footprint.add_point(&of, &[7; 10 * LONG]);
        footprint.add_point(&of, &[7; 10 * LONG]);
        assert_eq!(footprint.len(), 11);
        footprint.add_range(&of, &KeyRange::new(&[7], Some(&[8])));
        assert_eq!(footprint.len(), 1);
    }

    #[test]
    fn joined_points_are_all_in_ranges() {
        let (of, mut footprint) = (definition(), Footprint::default());
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
