//! Walking a run's records in order, either way.

use super::feed::{Access, Feed};
use super::leaf::{Layout, Parts, Placement};
use super::load::load;
use super::path::Target;
use super::scanned::Way;
use super::{Bad, Run};
use alluvium_base::message::LAST;
use alluvium_base::{Kind, Sequence};
use alluvium_dictionary::merge::{Direction, Source};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::{Record, Value};
use alluvium_dictionary::values::ValuePointer;
use alluvium_storage::store::Store;
use alluvium_storage::{Error, NodePointer, Residence, Result};
use std::ops::Range;

/// A position among the records of a run within a range: keys in the cursor's direction, and of one
/// key the newest record first, either way.
///
/// It begins at no record: [`Cursor::start`] or [`Cursor::seek`] first. No guard is held between
/// calls; the cursor's owner keeps the extents that the range needs. After an error it stands at no
/// record.
///
/// ```
/// # use alluvium_base::{Message, Purpose};
/// # use alluvium_device::memory::MemoryDirectory;
/// # use alluvium_storage::store::{Store, StoreOptions};
/// # use alluvium_trees::run::{Builder, RunOptions};
/// # use std::sync::Arc;
/// use alluvium_dictionary::merge::Direction;
/// use alluvium_dictionary::range::KeyRange;
/// use alluvium_trees::run::Access;
/// # let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
/// # let mut builder = Builder::new(&store, &RunOptions::new(Purpose::Other))?;
/// # for (sequence, key) in (1..).zip([b"a", b"b", b"c", b"d"]) {
/// #     builder.push(key, Message::put(sequence, b"").into())?;
/// # }
/// # let run = builder.finish()?.expect("something was pushed").run;
/// let range = KeyRange::new(b"b", None); // of a run with the keys a, b, c and d
/// let mut cursor = run.cursor(&store, range, Direction::Backward, Access::Cached);
/// cursor.seek(b"cc")?;
/// let mut keys = Vec::new();
/// while let Some(key) = cursor.key() {
///     keys.push(key.to_vec());
///     cursor.advance()?;
/// }
/// assert_eq!(keys, [b"c", b"b"]);
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
pub struct Cursor {
    feed: Feed,
    /// The lowest sequence number that records have.
    base: Sequence,
    /// Records above this are passed by.
    at: Sequence,
    /// The leaf of the current key, and which of its keys are in the range.
    leaf: Option<Leaf>,
    /// A leaf with older records of the current key, while those are walked through backward.
    older: Option<Older>,
    /// Leaves with older records of the current key, the oldest first, to be walked through.
    trail: Vec<NodePointer>,
    key: Vec<u8>,
    key_number: usize,
    record: usize,
    /// Behind the current key's last record in its leaf.
    record_end: usize,
    parts: Parts,
    separate: Option<ValuePointer>,
    is_at_record: bool,
    /// Where it has read last, where that is counted.
    way: Option<Way>,
}

struct Leaf {
    pointer: NodePointer,
    layout: Layout,
    /// Keys within the range.
    keys: Range<usize>,
}

struct Older {
    pointer: NodePointer,
    layout: Layout,
    bytes: Vec<u8>,
}

/// What a cursor's record is before there is one.
const NOTHING: Parts = Parts {
    sequence: 0,
    kind: Kind::Put,
    expires_ms: 0,
    placement: Placement::Inline,
    value: 0..0,
};

impl Run {
    /// Returns a cursor over the records whose keys are in a range.
    #[must_use]
    pub fn cursor(&self, store: &Store, range: KeyRange, direction: Direction, access: Access) -> Cursor {
        Cursor {
            feed: Feed::new(self, store, range, direction, access),
            base: self.base,
            at: LAST,
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
            way: (access == Access::Cached).then(Way::default),
        }
    }
}

/// Where a seek leads.
#[derive(Clone, Copy)]
enum Seek<'k> {
    /// To the first key of the range, in the cursor's direction.
    Start,
    /// To the first key at this one or behind it, in the cursor's direction.
    Key(&'k [u8]),
}

/// Moves every cursor to the first key at or behind `key` in its direction, or without a key to its
/// start. The first leaves of all are read together, and waited for, but those of cursors that
/// expect many.
///
/// # Errors
/// [`Error::Corrupt`] when a node is not what its pointer means; as the device says.
pub fn open_many(cursors: &mut [Cursor], key: Option<&[u8]>) -> Result<()> {
    let seek = key.map_or(Seek::Start, Seek::Key);
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
        cache.bring(&wanted, &cache.epochs().pin(), purpose, Residence::Keep)?;
    }
    cursors.iter_mut().try_for_each(|cursor| cursor.arrive(seek))
}

/// How many more leaves may hold older records of a key before the cursor passes over them by a
/// search from the root.
const MOST_WALKED: usize = 2;

#[cfg(all(test, not(alluvium_model_check)))]
std::thread_local! {
    /// How many records cursors of this thread have stood at.
    pub(crate) static ENTERED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Cursor {
    /// From now on it stands at no record above `at`, which a reader there does not see. What it
    /// does not see costs about as much as a search in a leaf, however many records it is.
    #[must_use]
    pub fn for_reader(self, at: Sequence) -> Cursor {
        Cursor { at, ..self }
    }

    /// Returns about how many bytes of memory it keeps between calls, itself not counted: nodes,
    /// and what it has copied of them. What a cache has lent it is not counted.
    pub fn memory_bytes(&self) -> usize {
        let older = self.older.as_ref().map_or(0, |older| older.bytes.capacity());
        self.feed.memory_bytes() + self.key.capacity() + older
    }

    /// Announces how many leaves will probably be walked through after each seek: they are asked
    /// for at once, as far as read-ahead goes. A streaming cursor takes no notice.
    pub fn expect(&mut self, leaves: usize) {
        self.feed.expect(leaves);
    }

    /// Goes to the first record of the range, in the cursor's direction.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when a node is not what its pointer means; as the device says.
    pub fn start(&mut self) -> Result<()> {
        self.begin(Seek::Start)?;
        self.arrive(Seek::Start)
    }

    /// Goes to the first record of the range whose key is at `key` or behind it in the cursor's
    /// direction.
    ///
    /// # Errors
    /// As [`Cursor::start`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.begin(Seek::Key(key))?;
        self.arrive(Seek::Key(key))
    }

    /// Returns the current key; none at no record.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.is_at_record.then_some(&self.key)
    }

    /// Returns the current record.
    ///
    /// # Panics
    /// At no record.
    #[must_use]
    #[inline]
    pub fn record(&self) -> Record<'_> {
        assert!(self.is_at_record, "a cursor at no record");
        let Parts {
            sequence,
            kind,
            expires_ms,
            ..
        } = self.parts;
        let value = match self.separate {
            Some(pointer) => Value::Separate(pointer),
            None => Value::Inline(&self.bytes()[self.parts.value.clone()]),
        };
        Record {
            sequence,
            kind,
            expires_ms,
            value,
        }
    }

    /// Returns whether a repair leaves a value of the run out.
    #[inline]
    pub(crate) fn leaves_out(&self, value: &ValuePointer) -> bool {
        self.feed.run().leaves_out(value)
    }

    /// Goes to the next record. A cursor at no record stays there.
    ///
    /// # Errors
    /// As [`Cursor::start`].
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        if !self.is_at_record {
            return Ok(());
        }
        self.step()?;
        self.pass_unseen()
    }

    /// Goes to the first record of the next key. A cursor at no record stays there.
    ///
    /// # Errors
    /// As [`Cursor::start`].
    #[inline]
    pub fn pass_key(&mut self) -> Result<()> {
        if !self.is_at_record {
            return Ok(());
        }
        if self.feed.direction() == Direction::Forward
            && let Some(leaf) = &self.leaf
            && self.key_number + 1 < leaf.keys.end
        {
            self.enter_key(self.key_number + 1)?;
        } else {
            self.pass_key_far()?;
        }
        self.pass_unseen()
    }

    /// Beyond the current key where the next is not behind it in its leaf.
    #[cold]
    fn pass_key_far(&mut self) -> Result<()> {
        if self.feed.direction() == Direction::Backward {
            self.trail.clear();
            return self.advance_far();
        }
        let goes_on = |leaf: &Leaf, key: usize| leaf.layout.goes_on && key + 1 == leaf.layout.keys;
        if !self
            .leaf
            .as_ref()
            .is_some_and(|leaf| goes_on(leaf, self.key_number))
        {
            return self.enter_next_leaf();
        }
        // Leaves behind begin with older records of the key.
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
        self.begin(Seek::Key(&behind))?;
        self.arrive(Seek::Key(&behind))
    }

    /// Goes on to a record that the reader sees, unless it stands at one.
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
        if self.feed.direction() == Direction::Forward
            && let Some(leaf) = &self.leaf
            && self.key_number + 1 < leaf.keys.end
        {
            return self.enter_key(self.key_number + 1);
        }
        self.advance_far()
    }

    /// Hands out the current record and those behind it, and goes on to the first that it has not
    /// handed out: as long as `take` says that it takes more, they lie in one leaf, before `bound`
    /// in the cursor's direction, and each is all that the run knows of its key, a put that a
    /// reader at `at` sees, that does not expire and has its value in the leaf. How many there
    /// were; without any it has not moved.
    ///
    /// Keys come in two parts, of which the first is the same for all.
    ///
    /// # Errors
    /// As [`Cursor::start`]; what was handed out is right.
    pub fn sweep(
        &mut self,
        at: Sequence,
        bound: Option<&[u8]>,
        mut take: impl FnMut([&[u8]; 2], &[u8]) -> bool,
    ) -> Result<usize> {
        let Some(leaf) = &self.leaf else { return Ok(0) };
        let (layout, bytes) = (&leaf.layout, self.feed.bytes());
        let bad = |bad: Bad| bad.at(&leaf.pointer);
        let is_whole = self.is_at_record && self.older.is_none() && self.trail.is_empty();
        if !is_whole || !layout.is_plain() {
            return Ok(0);
        }
        let mut keys = leaf.keys.clone();
        // Other leaves know more of these.
        keys.start = keys.start.max(usize::from(layout.begun));
        keys.end = keys.end.min(layout.keys - usize::from(layout.goes_on));
        if let Some(bound) = bound {
            let (found, equal) = layout.lower_bound(bytes, bound).map_err(bad)?;
            match self.feed.direction() {
                Direction::Forward => keys.end = keys.end.min(found),
                Direction::Backward => keys.start = keys.start.max(found + usize::from(equal)),
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
            Direction::Forward => {
                for number in self.key_number..keys.end {
                    if !hand_out(number)? {
                        break;
                    }
                }
            }
            Direction::Backward => {
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
        // In a plain leaf a key's only record has its number.
        (self.key_number, self.record, self.record_end) = (last, last, last + 1);
        self.advance()?;
        Ok(count)
    }

    /// Beyond the current key where that is not the next in its leaf.
    #[cold]
    fn advance_far(&mut self) -> Result<()> {
        if self.feed.direction() == Direction::Forward {
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

    /// Finds the way, and names the first leaves.
    fn begin(&mut self, seek: Seek<'_>) -> Result<Vec<NodePointer>> {
        self.is_at_record = false;
        self.leaf = None;
        self.older = None;
        self.trail.clear();
        // A seek goes elsewhere whatever lies where.
        self.way = self.way.map(|_| Way::default());
        let KeyRange { low, high } = self.feed.range().clone();
        let target = match (self.feed.direction(), seek) {
            (Direction::Forward, Seek::Key(key)) if *key > *low => Target::First(key),
            (Direction::Forward, _) => Target::First(&low),
            (Direction::Backward, Seek::Key(key)) if !self.feed.range().ends_before(key) => Target::Last(key),
            (Direction::Backward, _) => high.as_deref().map_or(Target::End, Target::Below),
        };
        debug_assert!(
            self.key().is_none() && self.trail.is_empty(),
            "a seek forgets where the cursor was"
        );
        self.feed.start(target)
    }

    /// Goes to the first record that is sought and that the reader sees, in leaves that were asked
    /// for.
    fn arrive(&mut self, seek: Seek<'_>) -> Result<()> {
        self.arrive_at_any(seek)?;
        self.pass_unseen()
    }

    fn arrive_at_any(&mut self, seek: Seek<'_>) -> Result<()> {
        while self.load_next_leaf()? {
            let Some(leaf) = &self.leaf else { break };
            let (layout, bytes) = (&leaf.layout, self.feed.bytes());
            let bound = |key: &[u8]| {
                layout
                    .lower_bound(bytes, key)
                    .map_err(|bad| bad.at(&leaf.pointer))
            };
            let mut keys = leaf.keys.clone();
            if let Seek::Key(key) = seek {
                let (found, equal) = bound(key)?;
                match self.feed.direction() {
                    Direction::Forward => keys.start = keys.start.max(found),
                    Direction::Backward => keys.end = keys.end.min(found + usize::from(equal)),
                }
            }
            if !keys.is_empty() {
                return self.enter_from(keys);
            }
        }
        Ok(())
    }

    /// Goes to the first key of the next leaf that has one in the range.
    fn enter_next_leaf(&mut self) -> Result<()> {
        while self.load_next_leaf()? {
            let keys = self.leaf.as_ref().map_or(0..0, |leaf| leaf.keys.clone());
            if !keys.is_empty() {
                return self.enter_from(keys);
            }
        }
        Ok(())
    }

    /// Goes to the first of a leaf's keys in the cursor's direction.
    fn enter_from(&mut self, keys: Range<usize>) -> Result<()> {
        debug_assert!(!keys.is_empty(), "a leaf is entered at a key");
        match self.feed.direction() {
            Direction::Forward => self.enter_key(keys.start),
            Direction::Backward => self.enter_key(keys.end - 1),
        }
    }

    /// Loads the next leaf and finds which of its keys are in the range; false at the end.
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
        let bad = |bad: Bad| bad.at(&pointer);
        let layout = Layout::of(bytes).map_err(bad)?;
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
        self.leaf = Some(Leaf {
            pointer,
            layout,
            keys: start..end,
        });
        Ok(true)
    }

    /// Goes to the newest record of a key of the leaf.
    #[inline]
    fn enter_key(&mut self, number: usize) -> Result<()> {
        self.is_at_record = false;
        let Some(leaf) = &self.leaf else { return Ok(()) };
        let (layout, bytes) = (&leaf.layout, self.feed.bytes());
        let bad = |bad: Bad| bad.at(&leaf.pointer);
        self.key.truncate(layout.prefix.len());
        self.key
            .extend_from_slice(layout.suffix(bytes, number).map_err(bad)?);
        let records = layout.records_of(bytes, number).map_err(bad)?;
        if number == 0 && layout.begun && self.feed.direction() == Direction::Backward {
            return self.enter_begun();
        }
        self.key_number = number;
        self.record_end = records.end;
        self.enter_record(records.start)
    }

    /// Backward, at a key that has newer records in the leaf before: goes to the newest, and leaves
    /// a trail back.
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
            let bad = |bad: Bad| bad.at(&leaf.pointer);
            let last = layout.keys - 1;
            if !layout.goes_on || layout.key(bytes, last).map_err(bad)? != key {
                return Err(bad(Bad("a last key with older records in the leaf behind")));
            }
            if last > 0 || !layout.begun {
                return self.enter_key(last);
            }
        }
        Err(Bad("a leaf before one whose first key is begun").at(self.feed.run().pointer()))
    }

    /// Backward, at the end of a key's records in a leaf: on to older ones in the leaf behind.
    fn enter_older(&mut self, pointer: NodePointer) -> Result<()> {
        self.is_at_record = false;
        let cache = self.feed.cache();
        let guard = cache.epochs().pin();
        let bytes = load(cache, &guard, &pointer, self.feed.access().purpose())?.to_vec();
        drop(guard);
        let bad = |bad: Bad| bad.at(&pointer);
        let layout = Layout::of(&bytes).map_err(bad)?;
        let records = layout.records_of(&bytes, 0).map_err(bad)?;
        self.record_end = records.end;
        self.older = Some(Older {
            pointer,
            layout,
            bytes,
        });
        self.enter_record(records.start)
    }

    /// Returns the bytes that the current record is in.
    #[inline]
    fn bytes(&self) -> &[u8] {
        match &self.older {
            None => self.feed.bytes(),
            Some(older) => &older.bytes,
        }
    }

    /// Goes to a record of the current key.
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
            Placement::Inline => None,
            Placement::Separate => {
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

impl Source for Cursor {
    type Error = Error;

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        Cursor::key(self)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        Cursor::advance(self)
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor")
            .field("run", self.feed.run())
            .field("range", self.feed.range())
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}
