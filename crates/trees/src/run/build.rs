//! Building a run from sorted records: leaves, values, the index in memory. What comes last is in
//! `finish.rs`.

use super::format::encode_long;
use super::index::{Child, Full, IndexBuilder, LeafKeys, Sums};
use super::leaf::{Entry, LeafBuilder};
use super::options::RunOptions;
use super::spans::{Spans, rounded_down};
use super::units::ValueUnits;
use super::{Run, Summary, separator};
use alluvium_base::{Kind, MIB, Sequence};
use alluvium_dictionary::deletes::{List, RangeDeletes};
use alluvium_dictionary::key::Key;
use alluvium_dictionary::nodes::Direct;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::{MAX_KEY, Record, Value};
use alluvium_dictionary::values::MAX_VALUE;
use alluvium_dictionary::values::{self, Placed, Slot, ValuePointer, ValueWriter, largest, pages_for};
use alluvium_storage::extents::{Extent, Extents};
use alluvium_storage::node::{NodeWriter, WriterOptions};
use alluvium_storage::store::Store;
use alluvium_storage::{Cache, Codec, NodePointer, PageSize, Result, Tiers};
use std::collections::VecDeque;
use std::sync::Arc;

/// Leaves that are closed and wait for values' places come to this many bytes at most.
const MAX_WAITING: u64 = MIB;
/// The index says the first and the last key of a leaf if these take no more than one in this many
/// of its bytes. Longer ones would make the index as large as the leaves.
const SHARE_OF_KEYS: usize = 8;

/// Writes a run. Records come in the order of their keys, and of one key the newest first.
///
/// A builder that is dropped gives up what it has written.
///
/// ```
/// use alluvium_base::{Message, Purpose};
/// use alluvium_device::memory::MemoryDirectory;
/// use alluvium_storage::store::{Store, StoreOptions};
/// use alluvium_trees::run::{Builder, Run, RunOptions};
/// use alluvium_dictionary::record::{Value};
/// use std::ops::ControlFlow;
/// use std::sync::Arc;
/// let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
/// let mut builder = Builder::new(&store, &RunOptions::new(Purpose::Incorporate))?;
/// builder.push(b"lake", Message::put(3, b"Como").into())?;
/// builder.push(b"river", Message::put(2, b"Oder").into())?;
/// builder.push(b"river", Message::put(1, b"Elbe").into())?;
/// builder.delete_range(b"pond", b"puddle", 4);
/// let built = builder.finish()?.expect("something was pushed");
/// store.extents().install(&built.extents);
///
/// let run = Run::open(&store, built.run.pointer(), Purpose::Other)?;
/// let guard = store.epochs().pin();
/// let mut found = Vec::new();
/// run.find(b"river", 9, store.cache(), &guard, Purpose::Lookup, |record| {
///     if let Value::Inline(value) = record.value {
///         found.push((record.sequence, value.to_vec()));
///     }
///     Ok(ControlFlow::Continue(()))
/// })?;
/// assert_eq!(found, [(2, b"Oder".to_vec()), (1, b"Elbe".to_vec())]);
/// assert_eq!(run.range_deletes().covering(b"port", 9), Some(4));
/// assert!(run.check(&store).is_empty());
/// # Ok::<(), alluvium_storage::Error>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    pub(super) options: RunOptions,
    pub(super) writer_options: WriterOptions,
    pub(super) cache: Cache,
    pub(super) extents: Arc<Extents>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) threshold: usize,
    /// What the device moves while an I/O begins, in bytes.
    pub(super) half_bandwidth: u64,
    pub(super) leaves: NodeWriter,
    pub(super) values: Option<ValueWriter>,
    pub(super) leaf: LeafBuilder,
    /// How long the current leaf may become.
    pub(super) room: usize,
    /// How the current leaf is encoded.
    pub(super) leaf_codec: Codec,
    /// The current leaf takes no more: what comes next is in another keyspace.
    pub(super) is_over: bool,
    /// The current leaf's separator.
    pub(super) separator: Vec<u8>,
    /// Its first key, if the index says keys of leaves.
    pub(super) leaf_first: Vec<u8>,
    /// Bytes of values outside the current leaf.
    pub(super) separate_bytes: u64,
    /// Values of the current leaf whose places are not known.
    pub(super) awaited: usize,
    /// The units that hold its values, as far as they are known.
    pub(super) units: ValueUnits,
    /// Leaves that wait for the places of their values, or for the next separator, in order.
    pub(super) closed: VecDeque<Closed>,
    pub(super) closed_bytes: u64,
    /// The number of the first of them: how many leaves are written.
    pub(super) written: u64,
    pub(super) spare: Option<Closed>,
    pub(super) index: IndexBuilder,
    pub(super) full: Vec<Full>,
    pub(super) full_bytes: u64,
    /// Which keys need the leaves, and the values.
    pub(super) spans: Spans,
    pub(super) value_spans: Spans,
    pub(super) inherited: Vec<Extent>,
    pub(super) last_key: Vec<u8>,
    pub(super) last_sequence: Sequence,
    /// The first and the last key whose values wait for their node.
    pub(super) waiting: (Vec<u8>, Vec<u8>),
    pub(super) first_key: Vec<u8>,
    pub(super) hashes: Vec<u64>,
    /// Keys in leaves that were taken over, of which there are no hashes.
    pub(super) adopted: u64,
    /// Bytes of the leaves that were taken over.
    pub(super) adopted_bytes: u64,
    /// Where the leaf that was taken over last ends, if it is the last so far.
    pub(super) fence: Option<Vec<u8>>,
    pub(super) range_deletes: List,
    /// Those that came indexed.
    pub(super) indexed_deletes: Arc<RangeDeletes>,
    pub(super) summary: Summary,
}

/// A leaf that is full and not written.
#[derive(Debug, Default)]
pub(super) struct Closed {
    bytes: Vec<u8>,
    /// Where its values begin in its bytes.
    values_at: usize,
    separator: Vec<u8>,
    /// Without the bytes of its nodes.
    sums: Sums,
    begun: bool,
    /// Values whose places are not known.
    awaited: usize,
    units: ValueUnits,
    /// What the index says of its keys.
    keys: Option<LeafKeys>,
    codec: Codec,
}

/// A leaf or an index node where it was written: its parts if it is long, and the node that
/// pointers mean.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) parts: Vec<NodePointer>,
    pub(super) head: NodePointer,
}

impl Nodes {
    pub(super) fn all(&self) -> impl Iterator<Item = &NodePointer> {
        self.parts.iter().chain([&self.head])
    }
}

impl Builder {
    /// Creates a builder that has taken nothing yet.
    ///
    /// # Errors
    /// [`Error::BadOption`](alluvium_storage::Error::BadOption) when the options cannot be
    /// followed or the store has no such tier;
    /// [`Error::Poisoned`](alluvium_storage::Error::Poisoned) when the store refuses changes.
    pub fn new(store: &Store, options: &RunOptions) -> Result<Builder> {
        let threshold = options.threshold(store.page_size())?;
        let writer_options = WriterOptions {
            tier: options.tier,
            codec: options.codec,
            ..store.writer_options(options.purpose, options.class)
        };
        let leaves = store.node_writer(writer_options)?;
        let value_options = WriterOptions {
            tier: options.value_tier,
            ..writer_options
        };
        // Its writer begins with the first value, which is too late to refuse a tier.
        drop(store.node_writer(value_options)?);
        Ok(Builder {
            options: *options,
            writer_options,
            cache: store.cache().clone(),
            extents: Arc::clone(store.extents()),
            tiers: Arc::clone(store.tiers()),
            threshold,
            half_bandwidth: store.device().half_bandwidth(),
            leaves,
            values: None,
            leaf: LeafBuilder::default(),
            room: 0,
            leaf_codec: options.codec,
            is_over: false,
            separator: Vec::new(),
            leaf_first: Vec::new(),
            separate_bytes: 0,
            awaited: 0,
            units: ValueUnits::default(),
            closed: VecDeque::new(),
            closed_bytes: 0,
            written: 0,
            spare: None,
            index: IndexBuilder::new(1),
            full: Vec::new(),
            full_bytes: 0,
            spans: Spans::default(),
            value_spans: Spans::default(),
            inherited: Vec::new(),
            last_key: Vec::new(),
            last_sequence: 0,
            waiting: (Vec::new(), Vec::new()),
            first_key: Vec::new(),
            hashes: Vec::new(),
            adopted: 0,
            adopted_bytes: 0,
            fence: None,
            range_deletes: List::default(),
            indexed_deletes: Arc::default(),
            summary: Summary::default(),
        })
    }

    pub(super) fn page_size(&self) -> PageSize {
        self.writer_options.page_size
    }

    /// Names a run whose separate values may be passed on by pointer, those of keys within a range.
    /// Its extents are needed as long as this run is, then; those that the range does not need may
    /// have been given up, and hold something else by now.
    pub fn inherit_from(&mut self, run: &Run, range: &KeyRange) {
        self.inherited
            .extend(run.extents_for(range).map(|(_, used)| used.extent));
    }

    /// What comes from now on is in another keyspace, whose nodes are encoded and whose values are
    /// kept apart like this. No leaf and no node of values holds records from before and after.
    /// Index nodes are encoded like the last keyspace's leaves.
    ///
    /// # Errors
    /// [`Error::BadOption`](alluvium_storage::Error::BadOption), and as [`Builder::push`].
    pub fn begin_keyspace(&mut self, codec: Codec, value_threshold: Option<usize>) -> Result<()> {
        self.close_values()?;
        self.options.codec = codec;
        self.options.value_threshold = value_threshold;
        self.threshold = self.options.threshold(self.page_size())?;
        self.writer_options.codec = codec;
        if let Some(values) = &mut self.values {
            values.nodes().set_codec(codec);
        }
        self.is_over = true;
        Ok(())
    }

    /// Takes a record. A separate value is passed on by its pointer: [`Builder::inherit_from`] must
    /// have named a run that has it.
    ///
    /// # Errors
    /// [`Error::Full`](alluvium_storage::Error::Full) when the store is full; as the device says.
    /// The builder can only be dropped then.
    ///
    /// # Panics
    /// When the record is not behind the one before (keys ascending, of one key the newest first),
    /// or the key or value is too long.
    pub fn push(&mut self, key: &[u8], record: Record<'_>) -> Result<()> {
        let first = self.summary.records == 0;
        let new = first || self.last_key != key;
        if new {
            assert!(
                first || *self.last_key < *key,
                "a run's keys ascend: \"{}\" comes after \"{}\"",
                key.escape_ascii(),
                self.last_key.escape_ascii()
            );
            assert!(key.len() <= MAX_KEY, "a key of {} bytes", key.len());
            self.hashes.push(Key::new(key).hash());
            self.summary.keys += 1;
        } else {
            assert!(
                record.sequence < self.last_sequence,
                "a key's records come newest first: {} comes after {}",
                record.sequence,
                self.last_sequence
            );
        }
        match record.value {
            Value::Inline(value) if value.len() > self.threshold => {
                self.push_separate(key, new, &record, value)?;
            }
            Value::Inline(value) => self.add(key, new, &record, value, None)?,
            Value::Separate(pointer) => self.push_inherited(key, new, &record, &pointer)?,
        }
        self.note(&record);
        self.last_sequence = record.sequence;
        if new {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        Ok(())
    }

    /// Counts a record.
    #[inline]
    fn note(&mut self, record: &Record<'_>) {
        let summary = &mut self.summary;
        note_sequence(summary, record.sequence, record.sequence);
        summary.records += 1;
        summary.tombstones += u64::from(record.kind == Kind::Delete);
        summary.merges += u64::from(record.kind == Kind::Merge);
        summary.value_bytes += record.value.len() as u64;
        if record.expires_ms != 0 {
            summary.earliest_expiry_ms = match summary.earliest_expiry_ms {
                0 => record.expires_ms,
                earliest => earliest.min(record.expires_ms),
            };
        }
    }

    /// A value that goes to a value extent. The pointer to it is filled in when its node is
    /// written.
    fn push_separate(&mut self, key: &[u8], new: bool, record: &Record<'_>, value: &[u8]) -> Result<()> {
        assert!(value.len() <= MAX_VALUE, "a value of {} bytes", value.len());
        let page_size = self.page_size();
        if self
            .values
            .as_ref()
            .is_some_and(|values| values.is_full_for(value.len()))
        {
            self.close_values()?;
            self.write_closed(None)?;
        }
        self.add(key, new, record, &[0; ValuePointer::BYTES], Some(value.len()))?;
        debug_assert!(self.leaf.records() > 0, "the record waits in its leaf");
        let slot = Slot {
            leaf: self.written + self.closed.len() as u64,
            at: self.leaf.last_value_at(),
        };
        let values = match &mut self.values {
            Some(values) => values,
            none => {
                let writer = NodeWriter::new(
                    Arc::clone(&self.extents),
                    Arc::clone(&self.tiers),
                    WriterOptions {
                        tier: self.options.value_tier,
                        ..self.writer_options
                    },
                );
                none.insert(ValueWriter::new(writer, page_size))
            }
        };
        let (spans, first_waiting) = (&mut self.value_spans, !values.is_waiting());
        let units = &mut self.units;
        let placed = values.add(value, slot, &mut |node| {
            spans.add(node, key, key, node.read_len() as u64);
            units.add(node, node.read_len() as u64);
        })?;
        match placed {
            Placed::Long(pointer) => {
                let mut bytes = Vec::with_capacity(ValuePointer::BYTES);
                pointer.encode(&mut bytes);
                self.leaf.patch(slot.at, &bytes);
            }
            Placed::Waits => {
                self.awaited += 1;
                let (first, last) = &mut self.waiting;
                if first_waiting {
                    key.clone_into(first);
                }
                key.clone_into(last);
            }
        }
        Ok(())
    }

    /// Writes the node of the values that wait, and fills the pointers in.
    pub(super) fn close_values(&mut self) -> Result<()> {
        let Some(values) = &mut self.values else {
            return Ok(());
        };
        let page_size = self.writer_options.page_size;
        let (leaf, closed, spans) = (&mut self.leaf, &mut self.closed, &mut self.value_spans);
        let ((low, high), written, awaited) = (&self.waiting, self.written, &mut self.awaited);
        let units = &mut self.units;
        values.close(|slot, pointer| {
            let mut bytes = Vec::with_capacity(ValuePointer::BYTES);
            pointer.encode(&mut bytes);
            let share = pointer.share(page_size);
            if let Some(closed) = closed.get_mut((slot.leaf - written) as usize) {
                let at = closed.values_at + slot.at;
                closed.bytes[at..at + bytes.len()].copy_from_slice(&bytes);
                assert!(closed.awaited > 0, "a value is placed once");
                closed.awaited -= 1;
                closed.units.add(&pointer.node, share);
            } else {
                leaf.patch(slot.at, &bytes);
                assert!(*awaited > 0, "a value is placed once");
                *awaited -= 1;
                units.add(&pointer.node, share);
            }
            spans.add(&pointer.node, low, high, share);
        })
    }

    /// A value that another run has written.
    fn push_inherited(
        &mut self,
        key: &[u8],
        new: bool,
        record: &Record<'_>,
        pointer: &ValuePointer,
    ) -> Result<()> {
        let mut bytes = Vec::with_capacity(ValuePointer::BYTES);
        pointer.encode(&mut bytes);
        self.add(key, new, record, &bytes, Some(pointer.len as usize))?;
        if !pointer.is_long(self.page_size()) {
            let share = pointer.share(self.page_size());
            self.value_spans.add(&pointer.node, key, key, share);
            self.units.add(&pointer.node, share);
            return Ok(());
        }
        let nodes = Direct {
            tiers: &self.tiers,
            page_size: self.writer_options.page_size,
            purpose: self.options.purpose,
        };
        for node in values::nodes_of(&nodes, pointer)? {
            self.value_spans.add(&node, key, key, node.read_len() as u64);
            self.units.add(&node, node.read_len() as u64);
        }
        Ok(())
    }

    /// Adds a record to the leaf, or to the next one. `separate` is the length of a value
    /// elsewhere, whose pointer `value` is.
    #[inline]
    fn add(
        &mut self,
        key: &[u8],
        new: bool,
        record: &Record<'_>,
        value: &[u8],
        separate: Option<usize>,
    ) -> Result<()> {
        let entry = Entry {
            sequence: record.sequence,
            kind: record.kind,
            expires_ms: record.expires_ms,
            value,
            separate: separate.is_some(),
        };
        let taken = self.leaf.records() > 0 && !self.is_over && self.leaf.add(key, new, &entry, self.room);
        if !taken {
            self.begin_leaf(key, new, value.len())?;
            self.leaf.add(key, new, &entry, self.room);
            debug_assert_eq!(self.leaf.records(), 1, "a new leaf takes its record");
        }
        if let Some(len) = separate {
            self.separate_bytes += len as u64;
            self.units.records += 1;
            self.summary.separate += 1;
        }
        Ok(())
    }

    /// Closes the leaf, if there is one, and begins another with a record's key.
    // Inlined, it has every record pay for what is done once a leaf.
    #[inline(never)]
    fn begin_leaf(&mut self, key: &[u8], new: bool, value_len: usize) -> Result<()> {
        if self.leaf.records() > 0 {
            self.close_leaf(!new);
        }
        self.separator.clear();
        if self.summary.records == 0 {
            // No leaf is before it to be told from.
            self.first_key = rounded_down(key).to_vec();
            self.separator.extend_from_slice(&self.first_key);
        } else if let Some(fence) = self.fence.take() {
            self.separator = fence;
        } else if new {
            self.separator.extend_from_slice(separator(&self.last_key, key));
        } else {
            self.separator.extend_from_slice(key);
        }
        debug_assert!(
            *self.separator <= *key,
            "a leaf's keys lie from its separator up (R1)"
        );
        debug_assert!(
            self.summary.records == 0 || !new || *self.separator > *self.last_key,
            "no key before the leaf is at its separator (R1)"
        );
        if self.options.leaf_keys {
            key.clone_into(&mut self.leaf_first);
        }
        let mean = self.mean_record().filter(|_| !self.is_over);
        let record = mean.unwrap_or(key.len() + value_len + 8);
        self.leaf_codec = self.options.codec;
        self.is_over = false;
        self.room = self
            .options
            .leaf_room(record, self.page_size(), self.half_bandwidth);
        debug_assert!(self.room >= self.page_size().bytes(), "{}", self.room);
        self.leaf.restart(!new);
        self.separate_bytes = 0;
        self.awaited = 0;
        self.units.clear();
        if self.closed_bytes > MAX_WAITING {
            self.close_values()?;
        }
        self.write_closed(None)
    }

    /// Returns the bytes of a record in its leaf, on average.
    fn mean_record(&self) -> Option<usize> {
        let leaf = self.leaf.records();
        (leaf > 0).then(|| self.leaf.bytes() / leaf)
    }

    /// Closes the leaf. `goes_on` when the next record has the same key as its last one.
    #[inline(never)]
    pub(super) fn close_leaf(&mut self, goes_on: bool) {
        assert!(self.leaf.records() > 0, "a leaf has records");
        let mut closed = self.spare.take().unwrap_or_default();
        closed.bytes.clear();
        self.leaf.encode(goes_on, &mut closed.bytes);
        assert!(closed.bytes.len() >= self.leaf.value_bytes(), "values are last");
        closed.values_at = closed.bytes.len() - self.leaf.value_bytes();
        self.separator.clone_into(&mut closed.separator);
        closed.sums = Sums {
            bytes: self.separate_bytes,
            records: self.leaf.records() as u64,
            tombstones: self.leaf.tombstones(),
        };
        closed.begun = self.leaf.is_begun();
        closed.awaited = self.awaited;
        closed.units.clone_from(&self.units);
        let key_bytes = self.leaf_first.len() + self.last_key.len();
        let says_keys = self.options.leaf_keys && SHARE_OF_KEYS * key_bytes <= self.room;
        closed.keys = says_keys.then(|| LeafKeys {
            first: self.leaf_first.clone(),
            last: self.last_key.clone(),
        });
        closed.codec = self.leaf_codec;
        self.closed_bytes += closed.bytes.len() as u64;
        self.closed.push_back(closed);
        self.summary.leaves += 1;
        debug_assert!(
            self.summary.leaves <= self.summary.records + 1,
            "each leaf has a record (L1)"
        );
    }

    /// Writes the leaves that wait for nothing any more, in order. `last` is the last key, when no
    /// leaf follows, or the separator of a leaf that does.
    pub(super) fn write_closed(&mut self, last: Option<&[u8]>) -> Result<()> {
        while self.closed.front().is_some_and(|closed| closed.awaited == 0)
            && let Some(mut closed) = self.closed.pop_front()
        {
            assert!(self.closed_bytes >= closed.bytes.len() as u64, "counted");
            self.closed_bytes -= closed.bytes.len() as u64;
            self.written += 1;
            self.leaves.set_codec(closed.codec);
            let nodes = self.write_node(&mut closed.bytes)?;
            if nodes.parts.is_empty() {
                // What was just written is read soon, as often as not.
                self.cache.offer(&nodes.head, &closed.bytes);
            }
            let next = self.closed.front().map(|next| &*next.separator);
            let high = next.or(last).unwrap_or(&self.separator);
            for node in nodes.all() {
                let len = node.read_len() as u64;
                closed.sums.bytes += len;
                self.spans.add(node, &closed.separator, high, len);
            }
            let child = Child {
                pointer: nodes.head,
                sums: closed.sums,
                begun: closed.begun,
            };
            if nodes.parts.is_empty() {
                closed.units.settle();
            } else {
                // Its own parts would have to be listed as well.
                closed.units.forget();
            }
            self.add_child(&closed.separator, &child, (&closed.units, closed.keys.as_ref()));
            self.spare = Some(closed);
        }
        Ok(())
    }

    /// Adds a leaf to the index, with the units that hold its values and what is said of its keys.
    pub(super) fn add_child(
        &mut self,
        separator: &[u8],
        child: &Child,
        known: (&ValueUnits, Option<&LeafKeys>),
    ) {
        let room = self.page_size().bytes();
        if !self.index.add(separator, child, known, room) {
            self.close_index();
            let added = self.index.add(separator, child, known, room);
            assert!(added, "an empty index node takes a child");
        }
    }

    pub(super) fn close_index(&mut self) {
        let full = self.index.take();
        debug_assert!(!full.bytes.is_empty(), "an index node has children");
        self.full_bytes += full.bytes.len().next_multiple_of(self.page_size().bytes()) as u64;
        self.full.push(full);
    }

    /// Writes a leaf or an index node, filled up to whole pages; in parts when it is too long for
    /// one node.
    pub(super) fn write_node(&mut self, node: &mut Vec<u8>) -> Result<Nodes> {
        assert!(!node.is_empty(), "a node has bytes");
        let page_size = self.page_size();
        let largest = largest(page_size);
        let fill = |node: &mut Vec<u8>| node.resize(pages_for(node.len(), page_size) * page_size.bytes(), 0);
        if node.len() <= largest {
            fill(node);
            let head = self.leaves.add(node)?;
            let parts = Vec::new();
            return Ok(Nodes { parts, head });
        }
        let mut parts = Vec::new();
        for part in node.chunks(largest) {
            let mut part = part.to_vec();
            fill(&mut part);
            parts.push(self.leaves.add(&part)?);
        }
        assert!(parts.len() > 1, "a node of one part is not long");
        let mut head = Vec::new();
        encode_long(node.len(), &parts, &mut head);
        fill(&mut head);
        let head = self.leaves.add(&head)?;
        Ok(Nodes { parts, head })
    }

    /// Deletes every key from `start` up to but without `end` as of `sequence`. In any order, at
    /// any time. The caller folds them before, for every one of them becomes part of the run.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8], sequence: Sequence) {
        self.range_deletes.push(start, end, sequence);
    }

    /// Deletes what these deletes do, and shares their memory with the caller if no others are
    /// added. To be called once at most.
    pub(crate) fn delete_ranges(&mut self, deletes: Arc<RangeDeletes>) {
        assert!(
            self.indexed_deletes.is_empty(),
            "range deletes are handed over once"
        );
        self.indexed_deletes = deletes;
    }

    /// Returns the bytes written so far, and those of the index nodes that wait.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let leaf = if self.leaf.records() > 0 {
            self.leaf.bytes() as u64
        } else {
            0
        };
        let waiting = self.full_bytes + self.closed_bytes + leaf;
        self.leaves.bytes() + self.values.as_ref().map_or(0, ValueWriter::bytes) + waiting
    }

    /// Records taken so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.summary.records
    }
}

pub(super) fn note_sequence(summary: &mut Summary, lowest: Sequence, highest: Sequence) {
    let first = summary.records == 0 && summary.highest_sequence == 0 && summary.lowest_sequence == 0;
    summary.lowest_sequence = if first {
        lowest
    } else {
        summary.lowest_sequence.min(lowest)
    };
    summary.highest_sequence = summary.highest_sequence.max(highest);
    debug_assert!(summary.lowest_sequence <= summary.highest_sequence);
}
