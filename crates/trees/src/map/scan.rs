//! Scans of a map, merged with the memtables that have newer data.

use super::{MapVersion, OrderedMap};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::contract;
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::KeyState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::empty_ranges::{DeadRun, EmptyRange, EmptyRanges};
use alluvium_dictionary::memtables::{MemtableOwner, above};
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_storage::Result;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// An iterator over the keys of a range that have a value at a given sequence number. Between calls
/// it keeps its position, and the key and value that it last returned, but neither a version nor a
/// memtable.
pub struct MapIter {
    map: OrderedMap,
    memtables: Arc<dyn MemtableOwner>,
    range: KeyRange,
    direction: MergeDirection,
    at: SequenceNumber,
    now_ms: u64,
    position: MapScanPosition,
    known: KeyState,
    key: Vec<u8>,
    /// The current sequence of consecutive keys without a value.
    dead_run: DeadRun,
    long_values: LongValues,
}

#[derive(Debug)]
enum MapScanPosition {
    /// At the start of the range, in scan direction.
    Start,
    /// At this key or, if it does not exist, at the next one in scan direction.
    At(Vec<u8>),
    /// Just past the key that was last returned or skipped.
    Behind,
}

impl fmt::Debug for MapIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapIter")
            .field("range", &self.range)
            .field("direction", &self.direction)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl MapIter {
    pub(super) fn new(
        map: &OrderedMap,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> MapIter {
        MapIter {
            map: map.clone(),
            memtables,
            range,
            direction,
            at,
            now_ms,
            position: MapScanPosition::Start,
            known: KeyState::default(),
            key: Vec::new(),
            dead_run: DeadRun::new(direction),
            long_values: LongValues::default(),
        }
    }

    /// Returns the bounds of the keys that have not been visited yet.
    fn left(&self) -> [Bound<&[u8]>; 2] {
        let range = &self.range;
        let low = Bound::Included(&*range.low);
        let high = match &range.high {
            Some(high) => Bound::Excluded(&**high),
            None => Bound::Unbounded,
        };
        match (&self.position, self.direction) {
            (MapScanPosition::Start, _) => [low, high],
            (MapScanPosition::At(key), MergeDirection::Forward) if **key <= *range.low => [low, high],
            (MapScanPosition::At(key), MergeDirection::Forward) => [Bound::Included(key), high],
            (MapScanPosition::At(key), MergeDirection::Backward) if range.ends_before(key) => [low, high],
            (MapScanPosition::At(key), MergeDirection::Backward) => [low, Bound::Included(key)],
            (MapScanPosition::Behind, MergeDirection::Forward) => [Bound::Excluded(&self.key), high],
            (MapScanPosition::Behind, MergeDirection::Backward) => [low, Bound::Excluded(&self.key)],
        }
    }

    /// Returns the next key that is in the version or in a memtable, or `None` if there is none.
    fn next_key(&self, version: &MapVersion, memtables: &[&Arc<Memtable>]) -> Option<Vec<u8>> {
        let left = self.left();
        if is_empty(left) {
            return None;
        }
        let mut own = version.keys.range::<[u8], _>((left[0], left[1]));
        let own = match self.direction {
            MergeDirection::Forward => own.next(),
            MergeDirection::Backward => own.next_back(),
        };
        let own = own.map(|(key, _)| key.to_vec());
        let others = memtables
            .iter()
            .filter_map(|memtable| in_memtable(memtable, left, self.direction));
        let all = own.into_iter().chain(others);
        let next = match self.direction {
            MergeDirection::Forward => all.min(),
            MergeDirection::Backward => all.max(),
        };
        debug_assert!(
            next.as_deref().is_none_or(|key| self.range.contains(key)),
            "a scan stays in its range"
        );
        next
    }
}

fn is_empty(left: [Bound<&[u8]>; 2]) -> bool {
    match left {
        [Bound::Included(low), Bound::Included(high)] => low > high,
        [Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high)]
        | [Bound::Excluded(low), Bound::Included(high)] => low >= high,
        _ => false,
    }
}

/// Returns the first key of a memtable within the bounds, in scan direction.
pub(crate) fn in_memtable(
    memtable: &Memtable,
    [low, high]: [Bound<&[u8]>; 2],
    direction: MergeDirection,
) -> Option<Vec<u8>> {
    let mut cursor = memtable.cursor();
    match direction {
        MergeDirection::Forward => match low {
            Bound::Unbounded => cursor.first(),
            Bound::Included(low) => cursor.seek(low),
            Bound::Excluded(low) => {
                cursor.seek(low);
                if cursor.key() == Some(low) {
                    cursor.next();
                }
            }
        },
        MergeDirection::Backward => match high {
            Bound::Unbounded => cursor.last(),
            Bound::Included(high) => cursor.seek_back(high),
            Bound::Excluded(high) => {
                cursor.seek_back(high);
                if cursor.key() == Some(high) {
                    cursor.previous();
                }
            }
        },
    }
    let key = cursor.key()?;
    let is_within = match direction {
        MergeDirection::Forward => match high {
            Bound::Unbounded => true,
            Bound::Included(high) => key <= high,
            Bound::Excluded(high) => key < high,
        },
        MergeDirection::Backward => match low {
            Bound::Unbounded => true,
            Bound::Included(low) => key >= low,
            Bound::Excluded(low) => key > low,
        },
    };
    is_within.then(|| key.to_vec())
}

impl MapIter {
    /// Returns the range without live keys that contains the position, if `empty` has such a range.
    fn empty_range(&self, empty: &EmptyRanges) -> Option<EmptyRange> {
        let moment = (self.at, self.now_ms);
        let [low, high] = self.left();
        match (self.direction, low, high) {
            (MergeDirection::Forward, Bound::Included(low), _) => empty.around(low, moment),
            (MergeDirection::Forward, Bound::Excluded(low), _) => empty.around(&[low, &[0]].concat(), moment),
            (MergeDirection::Backward, _, Bound::Included(high)) => empty.around(high, moment),
            (MergeDirection::Backward, _, Bound::Excluded(high)) => empty.below(high, moment),
            (_, Bound::Unbounded, _) | (_, _, Bound::Unbounded) => None,
        }
    }

    /// Moves the position past `range`, in scan direction.
    fn go_behind(&mut self, range: EmptyRange) {
        match self.direction {
            MergeDirection::Forward => self.position = MapScanPosition::At(range.end.into_vec()),
            MergeDirection::Backward => {
                self.key = range.start.into_vec();
                self.position = MapScanPosition::Behind;
            }
        }
    }

    /// If the position is in a range known to be empty, skips that range.
    fn leap(&mut self) {
        let memtables = Arc::clone(&self.memtables);
        if let Some(empty) = memtables.empty_ranges()
            && !empty.is_empty()
            && let Some(range) = self.empty_range(empty)
        {
            self.dead_run.leapt(&range);
            self.go_behind(range);
        }
    }

    /// Records that the current key has no value. After many such keys in a row, the scan looks for
    /// a known empty range that it can skip.
    fn pass_dead(&mut self) {
        let memtables = Arc::clone(&self.memtables);
        self.dead_run.pass(&self.key, self.known.expires(), &self.range);
        if let Some(empty) = memtables.empty_ranges()
            && self.dead_run.may_leap()
            && let Some(range) = self.dead_run.leap(empty, (self.at, self.now_ms))
        {
            self.go_behind(range);
        }
    }

    fn end_dead_run(&mut self) {
        self.dead_run.end(Some(&*self.memtables), (self.at, self.now_ms));
    }
}

impl contract::DictionaryScan for MapIter {
    fn seek(&mut self, key: &[u8]) {
        self.position = MapScanPosition::At(key.to_vec());
        self.dead_run.leave();
    }

    fn leave_out_long_values(&mut self) {
        self.long_values = LongValues::LeftOut;
    }

    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.leap();
        loop {
            // Read the list of memtables before the version. A memtable that leaves the list
            // afterwards has been flushed to the version.
            let list = self.memtables.newest_first();
            let version = self.map.shared.versions.peek();
            let memtables: Vec<&Arc<Memtable>> = above(Some(&list), version.stamp.cut, self.at).collect();
            let Some(key) = self.next_key(&version, &memtables) else {
                self.end_dead_run();
                return Ok(None);
            };
            let rules = self.map.shared.home.schema.rules(&key);
            let operator = rules.operator.as_deref();
            self.known.reset(self.at, self.now_ms);
            let hashed = LookupKey::new(&key);
            for memtable in memtables {
                self.known.memtable(memtable, hashed, operator);
            }
            for entry in version
                .keys
                .get(&key[..])
                .iter()
                .flat_map(|entries| entries.iter())
            {
                if self.known.message(&entry.message(), operator).is_break() {
                    break;
                }
            }
            debug_assert!(
                !matches!(self.position, MapScanPosition::Behind)
                    || match self.direction {
                        MergeDirection::Forward => self.key < key,
                        MergeDirection::Backward => self.key > key,
                    },
                "a scan goes on in its direction"
            );
            self.key = key;
            self.position = MapScanPosition::Behind;
            match self.known.settle(operator) {
                Ok(None) => self.pass_dead(),
                Ok(Some(_)) => break,
                Err(bad) => {
                    self.dead_run.leave();
                    return Err(bad.under_operands_of(&self.key));
                }
            }
        }
        self.end_dead_run();
        Ok(Some((&self.key, self.long_values.shown(self.known.value_mut()))))
    }
}
