//! The part of a sealed memtable that belongs to one dictionary.

use crate::memtable::{Memtable, MemtableCursor};
use crate::range::KeyRange;
use crate::range_tombstones::RangeTombstoneBuilder;
use alluvium_base::SequenceNumber;
use std::sync::Arc;

/// The part of a sealed memtable that belongs to one dictionary, which consists of the messages in
/// that dictionary's keyspaces.
///
/// ```
/// use alluvium_base::Message;
/// use alluvium_dictionary::memtable::Memtable;
/// use alluvium_dictionary::range::KeyRange;
/// use alluvium_dictionary::memtable_slice::MemtableSlice;
/// use std::sync::Arc;
///
/// let memtable = Arc::new(Memtable::new(1 << 20));
/// for (sequence, key) in (1..).zip([b"a1", b"b1", b"b2", b"c1", b"d1"]) {
///     memtable.insert(key, Message::put(sequence, b"")).unwrap();
/// }
/// let keys = [KeyRange::new(b"b", Some(b"c")), KeyRange::new(b"d", None)];
/// let share = MemtableSlice::new(memtable, 5, keys.into());
/// let mut cursor = share.first();
/// let mut found = Vec::new();
/// while let Some(key) = cursor.key() {
///     found.push(key.to_vec());
///     cursor = share.behind(key);
/// }
/// assert_eq!(found, [b"b1", b"b2", b"d1"]);
/// ```
#[derive(Clone, Debug)]
pub struct MemtableSlice {
    pub memtable: Arc<Memtable>,
    /// Sequence number of the last commit in the memtable. The memtable contains every commit after
    /// the cut of the preceding memtable, up to and including this one.
    pub cut: SequenceNumber,
    /// The key ranges of the slice, ascending and disjoint.
    keys: Arc<[KeyRange]>,
    /// Whether the slice is the whole memtable, so that keys need not be filtered.
    is_whole: bool,
}

impl MemtableSlice {
    /// Creates a slice of the messages whose keys are in the ranges `keys`, which must be ascending
    /// and disjoint. `cut` is the last commit in the memtable.
    #[must_use]
    pub fn new(memtable: Arc<Memtable>, cut: SequenceNumber, keys: Arc<[KeyRange]>) -> MemtableSlice {
        let ascend = |pair: &[KeyRange]| pair[0].high.as_ref().is_some_and(|high| *high <= pair[1].low);
        debug_assert!(keys.windows(2).all(ascend), "{keys:?} are out of order");
        let is_whole = matches!(&*keys, [all] if all.low.is_empty() && all.high.is_none());
        MemtableSlice {
            memtable,
            cut,
            keys,
            is_whole,
        }
    }

    /// Creates a slice that covers the whole memtable.
    #[must_use]
    pub fn whole(memtable: Arc<Memtable>, cut: SequenceNumber) -> MemtableSlice {
        MemtableSlice::new(memtable, cut, [KeyRange::everything()].into())
    }

    /// Returns whether the slice contains a key.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.keys.iter().any(|range| range.contains(key))
    }

    /// Returns whether the slice has no messages.
    ///
    /// ```
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_dictionary::range::KeyRange;
    /// use alluvium_dictionary::memtable_slice::MemtableSlice;
    /// use std::sync::Arc;
    ///
    /// let memtable = Arc::new(Memtable::new(1 << 20));
    /// memtable.delete_range(b"a", b"d", 1).unwrap();
    /// let is_empty = |low: &[u8], high: &[u8]| {
    ///     let keys = [KeyRange::new(low, Some(high))];
    ///     MemtableSlice::new(Arc::clone(&memtable), 1, keys.into()).is_empty()
    /// };
    /// assert!(!is_empty(b"c", b"e"));
    /// assert!(is_empty(b"d", b"e"));
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let deletes = self.memtable.deletes();
        let has_deletes = deletes.is_some_and(|deletes| {
            let mut ranges = self.keys.iter();
            ranges.any(|range| deletes.touch_above(range, 0))
        });
        !has_deletes && self.first().key().is_none()
    }

    /// Returns the memtable's range deletes, clipped to the key ranges of the slice, because a
    /// range delete may extend into the slices of several dictionaries.
    ///
    /// ```
    /// use alluvium_dictionary::memtable::Memtable;
    /// use alluvium_dictionary::range::KeyRange;
    /// use alluvium_dictionary::memtable_slice::MemtableSlice;
    /// use std::sync::Arc;
    ///
    /// let memtable = Arc::new(Memtable::new(1 << 20));
    /// memtable.delete_range(b"a", b"d", 1).unwrap();
    /// memtable.delete_range(b"a", b"b", 2).unwrap();
    /// let share = MemtableSlice::new(memtable, 2, [KeyRange::new(b"b", Some(b"c"))].into());
    /// let deletes = share.range_deletes().finish();
    /// assert_eq!(deletes.len(), 1);
    /// assert_eq!(deletes.bounds().unwrap(), (b"b".to_vec(), b"c".to_vec()));
    /// ```
    #[must_use]
    pub fn range_deletes(&self) -> RangeTombstoneBuilder {
        let mut deletes = self.memtable.range_deletes();
        if !self.is_whole {
            deletes.cut_to(&self.keys);
        }
        deletes
    }

    /// Returns a cursor at the first key of the slice, or at the end if the slice has no keys.
    #[must_use]
    pub fn first(&self) -> MemtableCursor<'_> {
        let mut cursor = self.memtable.cursor();
        cursor.first();
        self.settle(&mut cursor);
        debug_assert!(cursor.key().is_none_or(|key| self.contains(key)));
        cursor
    }

    /// Returns a cursor at the first key of the slice after `key`.
    #[must_use]
    pub fn behind(&self, key: &[u8]) -> MemtableCursor<'_> {
        let mut cursor = self.memtable.cursor();
        cursor.seek(key);
        if cursor.key() == Some(key) {
            cursor.next();
        }
        self.settle(&mut cursor);
        debug_assert!(
            cursor
                .key()
                .is_none_or(|found| found > key && self.contains(found))
        );
        cursor
    }

    /// Advances to the next key of the slice.
    #[inline]
    pub fn next(&self, cursor: &mut MemtableCursor<'_>) {
        cursor.next();
        self.settle(cursor);
        debug_assert!(cursor.key().is_none_or(|key| self.contains(key)));
    }

    /// Moves the cursor forward to the nearest key in the slice. A cursor that is already at such a
    /// key does not move.
    #[inline]
    pub fn settle(&self, cursor: &mut MemtableCursor<'_>) {
        if !self.is_whole {
            self.pass_others(cursor);
        }
    }

    fn pass_others(&self, cursor: &mut MemtableCursor<'_>) {
        while let Some(key) = cursor.key() {
            // Find the first range that ends after the key.
            let next = self.keys.partition_point(|range| range.ends_before(key));
            match self.keys.get(next) {
                Some(range) if *range.low <= *key => return,
                Some(range) => cursor.seek(&range.low),
                // No further key of the memtable is in the slice, so move past the last key.
                None => {
                    cursor.last();
                    cursor.next();
                }
            }
        }
    }
}
