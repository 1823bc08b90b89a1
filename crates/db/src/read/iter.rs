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

/// A double-ended iterator over keys and values. It returns the records as of the latest commit
/// that was visible when it was created, regardless of concurrent writes. It reads and buffers only
/// a few records ahead.
pub struct Iter {
    keyspace: OpenKeyspace,
    pinned: Arc<SnapshotPin>,
    range: KeyRange,
    front: Option<StructureScan>,
    /// The scan from the back. It is boxed because most iterators never use it.
    back: Option<Box<StructureScan>>,
    /// The last key returned from each end, or an empty key if there was none. The iterator ends
    /// when the two keys meet.
    front_key: Vec<u8>,
    back_key: Vec<u8>,
    /// Whether the front is positioned before its key, because no record has been returned since a
    /// seek.
    sought: bool,
    is_over: bool,
    leaves_out_long_values: bool,
    /// Number of bytes that the caller has announced, or 0.
    expected_bytes: usize,
    /// Number of returned records that the statistics already include.
    told: u64,
    /// Number of returned records that the statistics do not include yet.
    untold: u64,
}

/// Number of returned records after which an iterator updates the statistics.
const TOLD_AT_ONCE: u64 = 64;

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter")
            .field("keyspace", &self.keyspace.definition.name())
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// Converts bounds on the user keys of a keyspace to a range of tree keys.
pub(crate) fn bounds<K: AsRef<[u8]>>(
    definition: &KeyspaceDefinition,
    range: &impl RangeBounds<K>,
) -> KeyRange {
    // The immediate successor of a key is the same key with a zero byte appended.
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

/// Returns the first key after all keys that start with a prefix, or `None` if there is no such
/// key.
pub(crate) fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    // Increment the prefix as a number, without its trailing 0xff bytes. A prefix of only 0xff
    // bytes has no successor.
    let kept = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut high = prefix[..=kept].to_vec();
    *high.last_mut().expect("it has a byte that is not all ones") += 1;
    Some(high)
}

/// Returns the range of tree keys for the user keys that start with a prefix.
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
            expected_bytes: 0,
            told: 0,
            untold: 0,
        }
    }

    /// Moves the front of the iterator to the first key that is greater than or equal to `key`. The
    /// back stays where it is and still limits what the front returns.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let key = format::tree_key(&self.keyspace.definition.prefix, key.as_ref());
        if std::mem::replace(&mut self.is_over, self.range.is_empty()) && self.back.is_some() {
            // The front had already reached the back's position, so the back may have read and
            // discarded a key that is needed now.
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
        let place = self.keyspace.definition.dictionary();
        if self.keyspace.definition.require_order().is_err() {
            // The next call that returns a record reports the error.
            return;
        }
        let begin = || {
            let (at, now_ms) = (self.pinned.sequence(), self.pinned.now_ms());
            let mut scan =
                engine.scan_by_clock(place, self.range.clone(), MergeDirection::Forward, at, now_ms);
            if self.leaves_out_long_values {
                scan.leave_out_long_values();
            }
            if self.expected_bytes > 0 {
                scan.expect_bytes(self.expected_bytes);
            }
            scan
        };
        self.front.get_or_insert_with(begin).seek(&key);
    }

    /// Returns the next key and value from the front as slices, without copying them. They are
    /// valid until the next call. For scans that examine many records and keep few.
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
    /// The same errors as [`Keyspace::get`](crate::Keyspace::get). The next call tries the same
    /// record again, except after [`Error::BadBase`], when it continues with the following key.
    pub fn lend(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.step(MergeDirection::Forward)
    }

    /// Like [`Iter::lend`], but from the back.
    ///
    /// # Errors
    /// The same errors as [`Iter::lend`].
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
        let place = definition.dictionary();
        let begin = || {
            let (at, now_ms) = (self.pinned.sequence(), self.pinned.now_ms());
            let mut scan = engine.scan_by_clock(place, self.range.clone(), direction, at, now_ms);
            if self.leaves_out_long_values {
                scan.leave_out_long_values();
            }
            if self.expected_bytes > 0 {
                scan.expect_bytes(self.expected_bytes);
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

    /// Makes the iterator replace values longer than 1 KiB by empty ones, without reading values
    /// stored outside leaves. For scans that need only keys and short values.
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

    /// Announces that the caller will read about `bytes` bytes of keys and values from where the
    /// iterator begins. As much as possible of them is then read from the device together, instead
    /// of with growing read-ahead. Only a hint, which the tiered tree uses.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// rivers.put("Elbe", "a long story ".repeat(1000))?;
    /// let mut iter = rivers.iter().expecting_bytes(1 << 20);
    /// assert!(iter.lend()?.is_some());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn expecting_bytes(mut self, bytes: usize) -> Iter {
        self.expected_bytes = bytes;
        self
    }

    /// Returns a double-ended iterator over the keys only. It does not copy values or read values
    /// stored outside leaves.
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
