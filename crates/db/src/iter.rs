//! Walks over keys and values.

use crate::catalog::Definition;
use crate::engine::{Scan, Tally};
use crate::format;
use crate::snapshot::Pinned;
use crate::{Keyspace, Result, Value};
use alluvium_trees::merge::Direction;
use alluvium_trees::range::KeyRange;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A walk over keys and their values as of the moment it began, from either end. Writes go on meanwhile, and it holds no memory
/// but what it hands out next.
pub struct Iter {
    keyspace: Keyspace,
    pinned: Arc<Pinned>,
    range: KeyRange,
    front: Option<Scan>,
    back: Option<Scan>,
    /// The last keys that either end has handed out, empty before the first: the ends have met when they cross.
    front_key: Vec<u8>,
    back_key: Vec<u8>,
    is_over: bool,
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter")
            .field("keyspace", &self.keyspace)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// The tree's range for bounds on a keyspace's keys.
pub(crate) fn bounds<K: AsRef<[u8]>>(definition: &Definition, range: &impl RangeBounds<K>) -> KeyRange {
    // The first key behind another is that one with a zero byte.
    let behind = |key: &K| {
        let mut key = format::tree_key(&definition.prefix, key.as_ref());
        key.push(0);
        key
    };
    let at = |key: &K| format::tree_key(&definition.prefix, key.as_ref());
    let low = match range.start_bound() {
        Bound::Unbounded => definition.prefix.clone(),
        Bound::Included(key) => at(key),
        Bound::Excluded(key) => behind(key),
    };
    let high = match range.end_bound() {
        Bound::Unbounded => definition.end.clone(),
        Bound::Included(key) => behind(key),
        Bound::Excluded(key) => at(key),
    };
    KeyRange::new(&low, Some(&high))
}

/// The tree's range of the keys that begin with some bytes.
pub(crate) fn prefixed(definition: &Definition, prefix: &[u8]) -> KeyRange {
    let low = format::tree_key(&definition.prefix, prefix);
    // Counted up as a number; bytes of all ones have no successor of their length.
    let kept = definition.prefix.len();
    let mut high = low.clone();
    while high.len() > kept && high.last() == Some(&0xff) {
        high.pop();
    }
    if high.len() > kept {
        *high.last_mut().expect("it is longer than the keyspace's") += 1;
    } else {
        high = definition.end.clone();
    }
    KeyRange::new(&low, Some(&high))
}

impl Iter {
    pub(crate) fn new(keyspace: &Keyspace, range: KeyRange, pinned: Option<Arc<Pinned>>) -> Iter {
        let pinned = pinned.unwrap_or_else(|| Arc::new(Pinned::now(keyspace.shared())));
        keyspace.shared().engine.tallies.add([(Tally::Scans, 1)]);
        Iter {
            keyspace: keyspace.clone(),
            pinned,
            range,
            front: None,
            back: None,
            front_key: Vec::new(),
            back_key: Vec::new(),
            is_over: false,
        }
    }

    /// Goes on at the first key at or behind `key`, from the front.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let key = format::tree_key(&self.keyspace.definition().prefix, key.as_ref());
        self.is_over = false;
        self.scan(Direction::Forward).seek(&key);
    }

    fn scan(&mut self, direction: Direction) -> &mut Scan {
        let scan = match direction {
            Direction::Forward => &mut self.front,
            Direction::Backward => &mut self.back,
        };
        let engine = &self.keyspace.shared().engine;
        scan.get_or_insert_with(|| engine.scan(self.range.clone(), direction, self.pinned.sequence()))
    }

    fn step(&mut self, direction: Direction) -> Option<Result<(Vec<u8>, Value)>> {
        if self.is_over || self.range.is_empty() {
            return None;
        }
        let engine = &self.keyspace.shared().engine;
        if let Err(error) = engine.is_open().and_then(|()| self.keyspace.definition().alive()) {
            self.is_over = true;
            return Some(Err(error));
        }
        let skip = self.keyspace.definition().prefix.len();
        self.scan(direction);
        let (scan, own, others) = match direction {
            Direction::Forward => (&mut self.front, &mut self.front_key, &self.back_key),
            Direction::Backward => (&mut self.back, &mut self.back_key, &self.front_key),
        };
        let (key, value) = match scan.as_mut().expect("it was just begun").next() {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.is_over = true;
                return None;
            }
            Err(error) => return Some(Err(error.into())),
        };
        let crossed = !others.is_empty()
            && match direction {
                Direction::Forward => key >= &others[..],
                Direction::Backward => key <= &others[..],
            };
        if crossed {
            self.is_over = true;
            return None;
        }
        own.clear();
        own.extend_from_slice(key);
        self.keyspace.shared().engine.tallies.add([(Tally::Scanned, 1)]);
        Some(Ok((key[skip..].to_vec(), Value::new(value.to_vec().into()))))
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Direction::Forward)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Direction::Backward)
    }
}
