//! Ordered iterators over keys and values.

use crate::engine::{EngineCounter, StructureScan};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::read::pin::SnapshotPin;
use crate::read::value::Value;
use crate::schema::catalog::KeyspaceDefinition;
use crate::schema::format;
use crate::shared::OpenKeyspace;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A double-ended iterator over keys and values, which sees the commits that were visible at its
/// creation. Concurrent writes do not affect it. It buffers a few records ahead and no more.
pub struct Iter {
    keyspace: OpenKeyspace,
    pinned: Arc<SnapshotPin>,
    range: KeyRange,
    front: Option<StructureScan>,
    /// Boxed, because most iterators never use it.
    back: Option<Box<StructureScan>>,
    /// The last key that each end has returned; empty before the first. The iterator ends when they
    /// cross.
    front_key: Vec<u8>,
    back_key: Vec<u8>,
    /// Whether the front is positioned before its key: a seek happened and no record was returned
    /// since.
    sought: bool,
    is_over: bool,
    leaves_out_long_values: bool,
    /// Records that the statistics include.
    told: u64,
    /// Records that the statistics do not include yet.
    untold: u64,
}

/// Number of records after which an iterator updates the statistics.
const TOLD_AT_ONCE: u64 = 64;

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter")
            .field("keyspace", &self.keyspace.definition.name())
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// Converts bounds on the keys of a keyspace to a range of tree keys.
pub(crate) fn bounds<K: AsRef<[u8]>>(
    definition: &KeyspaceDefinition,
    range: &impl RangeBounds<K>,
) -> KeyRange {
    // The immediate successor of a key is the key followed by a zero byte.
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

/// Returns the first key after all keys with a prefix; `None` if there is no such key.
pub(crate) fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    // Incremented as a number; a prefix of 0xff bytes only has no successor of its length.
    let kept = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut high = prefix[..=kept].to_vec();
    *high.last_mut().expect("it has a byte that is not all ones") += 1;
    Some(high)
}

/// Returns the range of tree keys for the keys with a prefix.
pub(crate) fn prefixed(definition: &KeyspaceDefinition, prefix: &[u8]) -> KeyRange {
    let high = behind_prefix(prefix);
    let high = high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    bounds::<&[u8]>(definition, &(Bound::Included(prefix), high))
}

impl Iter {
    pub(crate) fn new(keyspace: &OpenKeyspace, range: KeyRange, pinned: Option<Arc<SnapshotPin>>) -> Iter {
        let pinned = pinned.unwrap_or_else(|| Arc::new(SnapshotPin::now(&keyspace.shared)));
        keyspace.shared.engine.counters.add([(EngineCounter::Scans, 1)]);
        Iter {
            keyspace: keyspace.clone(),
            pinned,
            is_over: range.is_empty(),
            range,
            front: None,
            back: None,
            front_key: Vec::new(),
            back_key: Vec::new(),
            sought: false,
            leaves_out_long_values: false,
            told: 0,
            untold: 0,
        }
    }

    /// Moves the front to the first key at or above `key`. The back stays in place, and still ends
    /// the iteration there.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let key = format::tree_key(&self.keyspace.definition.prefix, key.as_ref());
        if std::mem::replace(&mut self.is_over, self.range.is_empty()) && self.back.is_some() {
            // The back may have read and dropped a key because the front had already returned it.
            self.back = None;
            if !self.back_key.is_empty() {
                self.range = KeyRange::new(&self.range.low, Some(&self.back_key));
                self.front = None;
            }
        }
        self.front_key.clear();
        self.front_key.extend_from_slice(&key);
        self.sought = true;
        let engine = &self.keyspace.shared.engine;
        let structure = self.keyspace.definition.structure;
        if self.keyspace.definition.require_order().is_err() {
            // The next step reports the error.
            return;
        }
        let begin = || {
            let (at, now_ms) = (self.pinned.sequence(), self.pinned.now_ms());
            let mut scan =
                engine.scan_by_clock(structure, self.range.clone(), MergeDirection::Forward, at, now_ms);
            if self.leaves_out_long_values {
                scan.leave_out_long_values();
            }
            scan
        };
        self.front.get_or_insert_with(begin).seek(&key);
    }

    /// Returns the next key and value without copying them, borrowed until the next call. For scans
    /// that examine many records and keep few.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// rivers.put("Elbe", "1094 km")?;
    /// rivers.put("Oder", "840 km")?;
    /// let mut iter = rivers.iter();
    /// let mut letters = 0;
    /// while let Some((river, length)) = iter.lend()? {
    ///     letters += river.len() + length.len();
    /// }
    /// assert_eq!(letters, 21);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`](crate::Keyspace::get). The next call retries; after [`Error::BadBase`]
    /// it continues after that key.
    pub fn lend(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(MergeDirection::Forward)
    }

    /// Like [`Iter::lend`], from the back.
    ///
    /// # Errors
    /// As [`Iter::lend`].
    pub fn lend_back(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(MergeDirection::Backward)
    }

    #[inline]
    fn step(&mut self, direction: MergeDirection) -> Result<Option<(&[u8], &[u8])>> {
        if self.is_over {
            return Ok(None);
        }
        let engine = &self.keyspace.shared.engine;
        let definition = &self.keyspace.definition;
        if let Err(error) = engine
            .is_open()
            .and_then(|()| definition.alive())
            .and_then(|()| definition.require_order())
        {
            self.is_over = true;
            return Err(error);
        }
        let structure = definition.structure;
        let begin = || {
            let (at, now_ms) = (self.pinned.sequence(), self.pinned.now_ms());
            let mut scan = engine.scan_by_clock(structure, self.range.clone(), direction, at, now_ms);
            if self.leaves_out_long_values {
                scan.leave_out_long_values();
            }
            scan
        };
        let (scan, own, others) = match direction {
            MergeDirection::Forward => (
                self.front.get_or_insert_with(begin),
                &mut self.front_key,
                &self.back_key,
            ),
            MergeDirection::Backward => (
                &mut **self.back.get_or_insert_with(|| Box::new(begin())),
                &mut self.back_key,
                &self.front_key,
            ),
        };
        let Some((key, value)) = scan.next().map_err(|error| engine.catalog.named(error))? else {
            self.is_over = true;
            return Ok(None);
        };
        let crossed = !others.is_empty()
            && match direction {
                MergeDirection::Forward => key >= &others[..],
                MergeDirection::Backward if self.sought => key < &others[..],
                MergeDirection::Backward => key <= &others[..],
            };
        if crossed {
            self.is_over = true;
            return Ok(None);
        }
        own.clear();
        own.extend_from_slice(key);
        self.sought &= direction == MergeDirection::Backward;
        self.untold += 1;
        if self.untold == TOLD_AT_ONCE {
            self.told += TOLD_AT_ONCE;
            self.untold = 0;
            engine.counters.add([(EngineCounter::Scanned, TOLD_AT_ONCE)]);
        }
        Ok(Some((&key[definition.prefix.len()..], value)))
    }

    /// Returns values longer than 1 KiB as empty values, and does not read values outside leaves.
    /// For scans that need keys and short values only.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// rivers.put("Elbe", "1094 km")?;
    /// rivers.put("Oder", "a long story ".repeat(1000))?;
    /// let mut iter = rivers.iter().without_long_values();
    /// assert_eq!(iter.lend()?, Some((&b"Elbe"[..], &b"1094 km"[..])));
    /// assert_eq!(iter.lend()?, Some((&b"Oder"[..], &b""[..])));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn without_long_values(mut self) -> Iter {
        self.leave_out_long_values();
        self
    }

    pub(crate) fn leave_out_long_values(&mut self) {
        self.leaves_out_long_values = true;
        if let Some(front) = &mut self.front {
            front.leave_out_long_values();
        }
        if let Some(back) = &mut self.back {
            back.leave_out_long_values();
        }
    }

    /// Returns a double-ended iterator over the keys only. It does not copy values or read values
    /// outside leaves.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// for river in ["Oder", "Elbe", "Rhine"] {
    ///     rivers.put(river, "")?;
    /// }
    /// let backwards: Result<Vec<_>, _> = rivers.range("F"..).keys().rev().collect();
    /// assert_eq!(backwards?, [b"Rhine".to_vec(), b"Oder".to_vec()]);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn keys(self) -> Keys {
        Keys(self.without_long_values())
    }

    /// Returns a double-ended iterator over the values only, in key order.
    #[must_use]
    pub fn values(self) -> Values {
        Values(self)
    }

    fn own(&mut self, direction: MergeDirection) -> Option<Result<(Vec<u8>, Value)>> {
        let lent = self.step(direction).transpose()?;
        Some(lent.map(|(key, value)| (key.to_vec(), Value::new(value.to_vec().into()))))
    }
}

/// An iterator over keys: see [`Iter::keys`].
#[derive(Debug)]
pub struct Keys(Iter);

impl Keys {
    fn own(&mut self, direction: MergeDirection) -> Option<Result<Vec<u8>>> {
        let lent = self.0.step(direction).transpose()?;
        Some(lent.map(|(key, _)| key.to_vec()))
    }
}

impl Iterator for Keys {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.own(MergeDirection::Forward)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.own(MergeDirection::Backward)
    }
}

/// An iterator over values: see [`Iter::values`].
#[derive(Debug)]
pub struct Values(Iter);

impl Values {
    fn own(&mut self, direction: MergeDirection) -> Option<Result<Value>> {
        let lent = self.0.step(direction).transpose()?;
        Some(lent.map(|(_, value)| Value::new(value.to_vec().into())))
    }
}

impl Iterator for Values {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        self.own(MergeDirection::Forward)
    }
}

impl DoubleEndedIterator for Values {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.own(MergeDirection::Backward)
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        let engine = &self.keyspace.shared.engine;
        engine.counters.add([(EngineCounter::Scanned, self.untold)]);
        let prefix = &self.keyspace.definition.prefix;
        let now_ms = self.pinned.now_ms();
        engine
            .workload_monitor
            .scanned(prefix, self.told + self.untold, now_ms);
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.own(MergeDirection::Forward)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.own(MergeDirection::Backward)
    }
}
