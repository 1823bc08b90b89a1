//! Cursors, which iterate over the records of a run in either direction.

use super::leaf::{LeafLayout, LeafRecordParts, ValueStorage};
use super::load::load;
use super::path::PathTarget;
use super::readahead::{CursorAccess, LeafReadahead};
use super::scanned::ReadPositions;
use super::{IndexedRun, MalformedNode};
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_base::{MessageKind, SequenceNumber};
use alluvium_dictionary::merge::{MergeDirection, SortedSource};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::{RecordValue, StoredRecord};
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::store::Store;
use alluvium_storage::{CacheRetention, Error, NodePointer, Result};
use std::ops::Range;

/// A cursor over a run's records in a key range. It visits keys in its direction, but the records
/// of each key always from newest to oldest.
///
/// A new cursor has no current record until [`RunRecordCursor::start`] or [`RunRecordCursor::seek`]
/// is called, and neither has a cursor that has returned an error. The cursor keeps no epoch pinned
/// between calls, so the caller must keep the extents that store the range.
///
/// ```
/// # use alluvium_base::{Message, Purpose};
/// # use alluvium_device::memory::MemoryDirectory;
/// # use alluvium_storage::store::{Store, StoreOptions};
/// # use alluvium_trees::run::{RunBuilder, RunOptions};
/// # use std::sync::Arc;
/// use alluvium_dictionary::merge::MergeDirection;
/// use alluvium_dictionary::range::KeyRange;
/// use alluvium_trees::run::CursorAccess;
/// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
/// # let mut builder = RunBuilder::new(&store, &RunOptions::new(Purpose::Other))?;
/// # for (sequence, key) in (1..).zip([b"a", b"b", b"c", b"d"]) {
/// #     builder.push(key, Message::put(sequence, b"").into())?;
/// # }
/// # let run = builder.finish()?.expect("something was pushed").run;
/// let range = KeyRange::new(b"b", None); // of a run with the keys a, b, c and d
/// let mut cursor = run.cursor(&store, range, MergeDirection::Backward, CursorAccess::Cached);
/// cursor.seek(b"cc")?;
/// let mut keys = Vec::new();
/// while let Some(key) = cursor.key() {
///     keys.push(key.to_vec());
///     cursor.advance()?;
/// }
/// assert_eq!(keys, [b"c", b"b"]);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
pub struct RunRecordCursor {
    feed: LeafReadahead,
    /// Lower bound for the sequence numbers of records. It replaces smaller sequence numbers.
    base: SequenceNumber,
    /// The sequence number of the reader. Records with higher sequence numbers are skipped.
    at: SequenceNumber,
    /// The leaf that contains the current key.
    leaf: Option<CursorLeaf>,
    /// The leaf being visited for older records of the current key. Used only in backward
    /// direction.
    older: Option<OlderLeaf>,
    /// Further leaves with older records of the current key. They are visited from the end of the
    /// list, which has the newest of these records.
    trail: Vec<NodePointer>,
    key: Vec<u8>,
    key_number: usize,
    record: usize,
    /// One past the index of the current key's last record in its leaf.
    record_end: usize,
    parts: LeafRecordParts,
    separate: Option<ValuePointer>,
    is_at_record: bool,
    /// The last read positions, or `None` if this cursor's jumps are not counted.
    way: Option<ReadPositions>,
}

struct CursorLeaf {
    pointer: NodePointer,
    layout: LeafLayout,
    /// Indices of the leaf's keys within the cursor's range.
    keys: Range<usize>,
}

struct OlderLeaf {
    pointer: NodePointer,
    layout: LeafLayout,
    bytes: Vec<u8>,
}

/// Stands in for the parts of the current record while there is none.
const NOTHING: LeafRecordParts = LeafRecordParts {
    sequence: 0,
    kind: MessageKind::Put,
    expires_ms: 0,
    placement: ValueStorage::Inline,
    value: 0..0,
};

impl IndexedRun {
    /// Creates a cursor over the records of the run in `range`.
    #[must_use]
    pub fn cursor(
        &self,
        store: &Store,
        range: KeyRange,
        direction: MergeDirection,
        access: CursorAccess,
    ) -> RunRecordCursor {
        RunRecordCursor {
            feed: LeafReadahead::new(self, store, range, direction, access),
            base: self.base,
            at: MAX_SEQUENCE,
            leaf: None,
            older: None,
            trail: Vec::new(),
            key: Vec::new(),
            key_number: 0,
            record: 0,
            record_end: 0,
            parts: NOTHING,
            separate: None,
            is_at_record: false,
            way: (access == CursorAccess::Cached).then(ReadPositions::default),
        }
    }
}

/// Where a seek moves a cursor.
#[derive(Clone, Copy)]
enum SeekTarget<'k> {
    /// The first key of the range in the cursor's direction.
    Start,
    /// The first key at or after this key in the cursor's direction.
    Key(&'k [u8]),
}

/// Moves each cursor to the first key at or after `key` in the cursor's direction, or to the start
/// of its range if `key` is `None`. The first leaves of all cursors are read in one batch, which
/// saves waiting. Cursors that expect to read many leaves read their own leaves instead.
///
/// # Errors
/// [`Error::Corrupt`] if a node does not match its pointer; I/O errors.
pub fn open_many(cursors: &mut [RunRecordCursor], key: Option<&[u8]>) -> Result<()> {
    let seek = key.map_or(SeekTarget::Start, SeekTarget::Key);
    let mut wanted = Vec::new();
    let mut from = None;
    for cursor in &mut *cursors {
        let first = cursor.begin(seek)?;
        if !first.is_empty() {
            wanted.extend(first);
            from = Some((cursor.feed.cache().clone(), cursor.feed.access().purpose()));
        }
    }
    if let Some((cache, purpose)) = from {
        cache.read_through(&wanted, &cache.epochs().pin(), purpose, CacheRetention::Keep)?;
    }
    cursors.iter_mut().try_for_each(|cursor| cursor.arrive(seek))
}

/// When a cursor skips older records of a key, the maximum number of further leaves that it walks
/// through. If that is not enough, it searches for the next key from the root.
const MOST_WALKED: usize = 2;

#[cfg(all(test, not(alluvium_model_check)))]
std::thread_local! {
    /// Number of records that this thread's cursors have visited.
    pub(crate) static ENTERED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl RunRecordCursor {
    /// Returns this cursor with all records above the sequence number `at` hidden. Skipping the
    /// hidden records of a key costs about as much as one search in a leaf, regardless of their
    /// number.
    #[must_use]
    pub fn for_reader(self, at: SequenceNumber) -> RunRecordCursor {
        RunRecordCursor { at, ..self }
    }

    /// Returns the approximate memory in bytes that the cursor keeps between calls: nodes, and
    /// copies of their contents. Excludes the cursor itself and cache frames.
    pub fn memory_bytes(&self) -> usize {
        let older = self.older.as_ref().map_or(0, |older| older.bytes.capacity());
        self.feed.memory_bytes() + self.key.capacity() + older
    }

    /// Sets the number of leaves that each seek is expected to read. They are then requested
    /// together, up to the read-ahead limit. A streaming cursor ignores this number.
    pub fn expect(&mut self, leaves: usize) {
        self.feed.expect(leaves);
    }

    /// Moves to the first record of the range in the cursor's direction.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a node does not match its pointer; I/O errors.
    pub fn start(&mut self) -> Result<()> {
        self.begin(SeekTarget::Start)?;
        self.arrive(SeekTarget::Start)
    }

    /// Moves to the first record in the range whose key is at or after `key` in the cursor's
    /// direction.
    ///
    /// # Errors
    /// See [`RunRecordCursor::start`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.begin(SeekTarget::Key(key))?;
        self.arrive(SeekTarget::Key(key))
    }

    /// Returns the current key, or `None` if there is no current record.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.is_at_record.then_some(&self.key)
    }

    /// Returns the current record.
    ///
    /// # Panics
    /// If there is no current record.
    #[must_use]
    #[inline]
    pub fn record(&self) -> StoredRecord<'_> {
        assert!(self.is_at_record, "a cursor at no record");
        let LeafRecordParts {
            sequence,
            kind,
            expires_ms,
            ..
        } = self.parts;
        let value = match self.separate {
            Some(pointer) => RecordValue::Separate(pointer),
            None => RecordValue::Inline(&self.bytes()[self.parts.value.clone()]),
        };
        StoredRecord {
            sequence,
            kind,
            expires_ms,
            value,
        }
    }

    /// Returns whether a repair excludes the node that contains this separate value.
    #[inline]
    pub(crate) fn omits_value(&self, value: &ValuePointer) -> bool {
        self.feed.run().omits_value(value)
    }

    /// Moves to the next record. Does nothing if the cursor has no current record.
    ///
    /// # Errors
    /// See [`RunRecordCursor::start`].
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        if !self.is_at_record {
            return Ok(());
        }
        self.step()?;
        self.pass_unseen()
    }

    /// Moves to the first record of the next key. Does nothing if the cursor has no current record.
    ///
    /// # Errors
    /// See [`RunRecordCursor::start`].
    #[inline]
    pub fn pass_key(&mut self) -> Result<()> {
        if !self.is_at_record {
            return Ok(());
        }
        if self.feed.direction() == MergeDirection::Forward
            && let Some(leaf) = &self.leaf
            && self.key_number + 1 < leaf.keys.end
        {
            self.enter_key(self.key_number + 1)?;
        } else {
            self.pass_key_far()?;
        }
        self.pass_unseen()
    }

    /// Moves to the next key if it does not follow the current key in the same leaf.
    #[cold]
    fn pass_key_far(&mut self) -> Result<()> {
        if self.feed.direction() == MergeDirection::Backward {
            self.trail.clear();
            return self.advance_far();
        }
        let goes_on = |leaf: &CursorLeaf, key: usize| leaf.layout.goes_on && key + 1 == leaf.layout.keys;
        if !self
            .leaf
            .as_ref()
            .is_some_and(|leaf| goes_on(leaf, self.key_number))
        {
            return self.enter_next_leaf();
        }
        // The next leaves begin with older records of the current key.
        let mut behind = self.key.clone();
        behind.push(0);
        for _ in 0..MOST_WALKED {
            if !self.load_next_leaf()? {
                return Ok(());
            }
            let Some(leaf) = &self.leaf else { return Ok(()) };
            let keys = leaf.keys.start.max(usize::from(leaf.layout.begun))..leaf.keys.end;
            if !keys.is_empty() {
                return self.enter_from(keys);
            }
            if !goes_on(leaf, 0) {
                return self.enter_next_leaf();
            }
        }
        self.begin(SeekTarget::Key(&behind))?;
        self.arrive(SeekTarget::Key(&behind))
    }

    /// Moves forward to the first record that the reader can see, which may be the current one.
    #[inline]
    fn pass_unseen(&mut self) -> Result<()> {
        if self.parts.sequence > self.at {
            return self.find_seen();
        }
        Ok(())
    }

    #[cold]
    fn find_seen(&mut self) -> Result<()> {
        while self.is_at_record && self.parts.sequence > self.at {
            debug_assert!(self.record < self.record_end, "a record of its key");
            if self.base > self.at {
                self.is_at_record = false;
                break;
            }
            let (layout, pointer) = match (&self.older, &self.leaf) {
                (Some(older), _) => (&older.layout, &older.pointer),
                (None, Some(leaf)) => (&leaf.layout, &leaf.pointer),
                (None, None) => break,
            };
            let records = self.record..self.record_end;
            let first = layout.first_seen(self.bytes(), &records, self.at);
            let first = first.map_err(|bad| bad.at(pointer))?;
            if first < self.record_end {
                return self.enter_record(first);
            }
            self.record = self.record_end - 1;
            self.step()?;
        }
        Ok(())
    }

    #[inline]
    fn step(&mut self) -> Result<()> {
        if self.record + 1 < self.record_end {
            return self.enter_record(self.record + 1);
        }
        if self.feed.direction() == MergeDirection::Forward
            && let Some(leaf) = &self.leaf
            && self.key_number + 1 < leaf.keys.end
        {
            return self.enter_key(self.key_number + 1);
        }
        self.advance_far()
    }

    /// Passes consecutive records to `take`, beginning with the current one, and then moves to the
    /// first record not passed. Returns the number of records passed. If it is zero, the cursor has
    /// not moved.
    ///
    /// The sequence ends when `take` returns `false`, at the end of the leaf, at `bound`, and at
    /// the first key that is not simple. A key is simple if the run has exactly one record of it,
    /// and that record is a put that is visible at `at`, does not expire, and has its value in the
    /// leaf.
    ///
    /// Each key is passed in two pieces: the prefix that all keys of the leaf share, and the rest
    /// of the key.
    ///
    /// # Errors
    /// See [`RunRecordCursor::start`]. Records passed before the error are valid.
    pub fn sweep(
        &mut self,
        at: SequenceNumber,
        bound: Option<&[u8]>,
        mut take: impl FnMut([&[u8]; 2], &[u8]) -> bool,
    ) -> Result<usize> {
        let Some(leaf) = &self.leaf else { return Ok(0) };
        let (layout, bytes) = (&leaf.layout, self.feed.bytes());
        let bad = |bad: MalformedNode| bad.at(&leaf.pointer);
        let is_whole = self.is_at_record && self.older.is_none() && self.trail.is_empty();
        if !is_whole || !layout.is_plain() {
            return Ok(0);
        }
        let mut keys = leaf.keys.clone();
        // The first and last keys of the leaf may have more records in other leaves.
        keys.start = keys.start.max(usize::from(layout.begun));
        keys.end = keys.end.min(layout.keys - usize::from(layout.goes_on));
        if let Some(bound) = bound {
            let (found, equal) = layout.lower_bound(bytes, bound).map_err(bad)?;
            match self.feed.direction() {
                MergeDirection::Forward => keys.end = keys.end.min(found),
                MergeDirection::Backward => keys.start = keys.start.max(found + usize::from(equal)),
            }
        }
        if !keys.contains(&self.key_number) {
            return Ok(0);
        }
        let prefix = layout.prefix(bytes).map_err(bad)?;
        let mut last = None;
        let mut hand_out = |number: usize| {
            if layout.sequence(bytes, number).map_err(bad)?.max(self.base) > at {
                return Ok(false);
            }
            let suffix = layout.suffix(bytes, number).map_err(bad)?;
            let value = layout.plain_value(bytes, number).map_err(bad)?;
            last = Some(number);
            Ok::<_, Error>(take([prefix, suffix], value))
        };
        match self.feed.direction() {
            MergeDirection::Forward => {
                for number in self.key_number..keys.end {
                    if !hand_out(number)? {
                        break;
                    }
                }
            }
            MergeDirection::Backward => {
                for number in (keys.start..=self.key_number).rev() {
                    if !hand_out(number)? {
                        break;
                    }
                }
            }
        }
        let Some(last) = last else { return Ok(0) };
        debug_assert!(keys.contains(&last), "what is handed out is inside the bound");
        let count = last.abs_diff(self.key_number) + 1;
        // In a plain leaf, each key has exactly one record, which has the same index.
        (self.key_number, self.record, self.record_end) = (last, last, last + 1);
        self.advance()?;
        Ok(count)
    }

    /// Moves to the next record if it does not follow the current record in the same leaf.
    #[cold]
    fn advance_far(&mut self) -> Result<()> {
        if self.feed.direction() == MergeDirection::Forward {
            return self.enter_next_leaf();
        }
        if let Some(pointer) = self.trail.pop() {
            return self.enter_older(pointer);
        }
        self.older = None;
        match &self.leaf {
            Some(leaf) if self.key_number > leaf.keys.start => self.enter_key(self.key_number - 1),
            _ => self.enter_next_leaf(),
        }
    }

    /// Starts a seek: finds the path to the target, and returns the leaves to read first.
    fn begin(&mut self, seek: SeekTarget<'_>) -> Result<Vec<NodePointer>> {
        self.is_at_record = false;
        self.leaf = None;
        self.older = None;
        self.trail.clear();
        // A seek does not count as a jump of a scan.
        self.way = self.way.map(|_| ReadPositions::default());
        let KeyRange { low, high } = self.feed.range().clone();
        let target = match (self.feed.direction(), seek) {
            (MergeDirection::Forward, SeekTarget::Key(key)) if *key > *low => PathTarget::First(key),
            (MergeDirection::Forward, _) => PathTarget::First(&low),
            (MergeDirection::Backward, SeekTarget::Key(key)) if !self.feed.range().ends_before(key) => {
                PathTarget::Last(key)
            }
            (MergeDirection::Backward, _) => high.as_deref().map_or(PathTarget::End, PathTarget::Below),
        };
        debug_assert!(
            self.key().is_none() && self.trail.is_empty(),
            "a seek forgets where the cursor was"
        );
        self.feed.start(target)
    }

    /// Completes a seek once the leaves have been requested: moves to the first visible record at
    /// the target.
    fn arrive(&mut self, seek: SeekTarget<'_>) -> Result<()> {
        self.arrive_at_any(seek)?;
        self.pass_unseen()
    }

    fn arrive_at_any(&mut self, seek: SeekTarget<'_>) -> Result<()> {
        while self.load_next_leaf()? {
            let Some(leaf) = &self.leaf else { break };
            let (layout, bytes) = (&leaf.layout, self.feed.bytes());
            let bound = |key: &[u8]| {
                layout
                    .lower_bound(bytes, key)
                    .map_err(|bad| bad.at(&leaf.pointer))
            };
            let mut keys = leaf.keys.clone();
            if let SeekTarget::Key(key) = seek {
                let (found, equal) = bound(key)?;
                match self.feed.direction() {
                    MergeDirection::Forward => keys.start = keys.start.max(found),
                    MergeDirection::Backward => keys.end = keys.end.min(found + usize::from(equal)),
                }
            }
            if !keys.is_empty() {
                return self.enter_from(keys);
            }
        }
        Ok(())
    }

    /// Moves to the first key within the range in one of the next leaves.
    fn enter_next_leaf(&mut self) -> Result<()> {
        while self.load_next_leaf()? {
            let keys = self.leaf.as_ref().map_or(0..0, |leaf| leaf.keys.clone());
            if !keys.is_empty() {
                return self.enter_from(keys);
            }
        }
        Ok(())
    }

    /// Moves to the first of the keys with the indices `keys` in the cursor's direction.
    fn enter_from(&mut self, keys: Range<usize>) -> Result<()> {
        debug_assert!(!keys.is_empty(), "a leaf is entered at a key");
        match self.feed.direction() {
            MergeDirection::Forward => self.enter_key(keys.start),
            MergeDirection::Backward => self.enter_key(keys.end - 1),
        }
    }

    /// Loads the next leaf and determines which of its keys are within the range. Returns `false`
    /// if no leaf is left.
    fn load_next_leaf(&mut self) -> Result<bool> {
        self.is_at_record = false;
        self.leaf = None;
        let Some(pointer) = self.feed.next()? else {
            return Ok(false);
        };
        if let Some(way) = &mut self.way
            && way.pass_leaf(&pointer, self.feed.direction())
        {
            self.feed.run().note_jump();
        }
        let bytes = self.feed.bytes();
        let bad = |bad: MalformedNode| bad.at(&pointer);
        let layout = LeafLayout::of(bytes).map_err(bad)?;
        let range = self.feed.range();
        let start = match &*range.low {
            [] => 0,
            low => layout.lower_bound(bytes, low).map_err(bad)?.0,
        };
        let end = match &range.high {
            None => layout.keys,
            Some(high) => layout.lower_bound(bytes, high).map_err(bad)?.0,
        };
        let prefix = layout.prefix(bytes).map_err(bad)?;
        self.key.clear();
        self.key.extend_from_slice(prefix);
        self.leaf = Some(CursorLeaf {
            pointer,
            layout,
            keys: start..end,
        });
        Ok(true)
    }

    /// Moves to the newest record of the key at index `number` in the current leaf.
    #[inline]
    fn enter_key(&mut self, number: usize) -> Result<()> {
        self.is_at_record = false;
        let Some(leaf) = &self.leaf else { return Ok(()) };
        let (layout, bytes) = (&leaf.layout, self.feed.bytes());
        let bad = |bad: MalformedNode| bad.at(&leaf.pointer);
        self.key.truncate(layout.prefix.len());
        self.key
            .extend_from_slice(layout.suffix(bytes, number).map_err(bad)?);
        let records = layout.records_of(bytes, number).map_err(bad)?;
        if number == 0 && layout.begun && self.feed.direction() == MergeDirection::Backward {
            return self.enter_begun();
        }
        self.key_number = number;
        self.record_end = records.end;
        self.enter_record(records.start)
    }

    /// Handles, in backward direction, a key whose newer records are in earlier leaves. Moves to
    /// the newest record of the key, and appends the leaves with older records to `trail`.
    #[cold]
    fn enter_begun(&mut self) -> Result<()> {
        let key = self.key.clone();
        while let Some(leaf) = &self.leaf {
            let here = leaf.pointer;
            self.trail.push(here);
            if !self.load_next_leaf()? {
                break;
            }
            let Some(leaf) = &self.leaf else { break };
            let (layout, bytes) = (&leaf.layout, self.feed.bytes());
            let bad = |bad: MalformedNode| bad.at(&leaf.pointer);
            let last = layout.keys - 1;
            if !layout.goes_on || layout.key(bytes, last).map_err(bad)? != key {
                return Err(bad(MalformedNode(
                    "a last key with older records in the leaf behind",
                )));
            }
            if last > 0 || !layout.begun {
                return self.enter_key(last);
            }
        }
        Err(MalformedNode("a leaf before one whose first key is begun").at(self.feed.run().pointer()))
    }

    /// Handles, in backward direction, the end of a key's records in one leaf. Continues with the
    /// older records in the next leaf, which is at `pointer`.
    fn enter_older(&mut self, pointer: NodePointer) -> Result<()> {
        self.is_at_record = false;
        let cache = self.feed.cache();
        let guard = cache.epochs().pin();
        let bytes = load(cache, &guard, &pointer, self.feed.access().purpose())?.to_vec();
        drop(guard);
        let bad = |bad: MalformedNode| bad.at(&pointer);
        let layout = LeafLayout::of(&bytes).map_err(bad)?;
        let records = layout.records_of(&bytes, 0).map_err(bad)?;
        self.record_end = records.end;
        self.older = Some(OlderLeaf {
            pointer,
            layout,
            bytes,
        });
        self.enter_record(records.start)
    }

    /// Returns the bytes of the leaf that contains the current record.
    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.older {
            None => self.feed.bytes(),
            Some(older) => &older.bytes,
        }
    }

    /// Moves to the record at index `number`, which must belong to the current key.
    #[inline]
    fn enter_record(&mut self, number: usize) -> Result<()> {
        self.is_at_record = false;
        let (layout, pointer) = match (&self.older, &self.leaf) {
            (Some(older), _) => (&older.layout, &older.pointer),
            (None, Some(leaf)) => (&leaf.layout, &leaf.pointer),
            (None, None) => return Ok(()),
        };
        let mut parts = layout
            .parts(self.bytes(), number)
            .map_err(|bad| bad.at(pointer))?;
        parts.sequence = parts.sequence.max(self.base);
        self.separate = match parts.placement {
            ValueStorage::Inline => None,
            ValueStorage::Separate => {
                let value = &self.bytes()[parts.value.clone()];
                let page_size = self.feed.cache().page_size();
                Some(ValuePointer::decode(value, &pointer.place(), page_size)?)
            }
        };
        if let (Some(way), Some(value)) = (&mut self.way, &self.separate)
            && way.pass_value(&value.node, self.feed.direction())
        {
            self.feed.run().note_jump();
        }
        #[cfg(all(test, not(alluvium_model_check)))]
        ENTERED.with(|entered| entered.set(entered.get() + 1));
        self.parts = parts;
        self.record = number;
        self.is_at_record = true;
        Ok(())
    }
}

impl SortedSource for RunRecordCursor {
    type Error = Error;

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        RunRecordCursor::key(self)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        RunRecordCursor::advance(self)
    }
}

impl std::fmt::Debug for RunRecordCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunRecordCursor")
            .field("run", self.feed.run())
            .field("range", self.feed.range())
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}
