//! Building a run from sorted records: leaves, values, the index in memory. What comes last is in
//! `finish.rs`.
//!
//! *Knows*: when a leaf is full, where its values and its node are, which keys need these.
//!
//! *Does not know*: where records come from, what becomes of the run.
//!
//! *Read in this order*: `nodes.rs` (where nodes go), `current.rs` (the leaf that is filled),
//! `closed.rs` (leaves that wait to be written), `values.rs` (what is kept apart from leaves), this
//! file (how these work together).

mod closed;
mod current;
mod nodes;
mod values;

use super::index::{Child, Full, IndexBuilder, LeafKeys};
use super::leaf::Entry;
use super::options::RunOptions;
use super::spans::rounded_down;
use super::units::ValueUnits;
use super::{Run, Summary, separator};
use alluvium_base::{Kind, MIB, Sequence};
use alluvium_dictionary::deletes::{List, RangeDeletes};
use alluvium_dictionary::key::Key;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::record::{MAX_KEY, Record, Value};
use alluvium_dictionary::values::{self as stored, MAX_VALUE, Placed, Slot, ValuePointer};
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use alluvium_storage::{Codec, PageSize, Result};
use closed::ClosedLeaves;
use current::CurrentLeaf;
use nodes::NodeOutput;
use std::sync::Arc;
use values::SeparateValues;

/// Leaves that are closed and wait for values' places come to this many bytes at most.
const MAX_WAITING: u64 = MIB;

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
    /// What the device moves while an I/O begins, in bytes.
    half_bandwidth: u64,
    pub(super) nodes: NodeOutput,
    pub(super) current: CurrentLeaf,
    pub(super) closed: ClosedLeaves,
    pub(super) values: SeparateValues,
    pub(super) index: IndexLevel,
    pub(super) adopted: AdoptedLeaves,
    pub(super) deletes: TakenDeletes,
    pub(super) keys: TakenKeys,
    pub(super) summary: Summary,
}

/// The lowest level of the index.
#[derive(Debug)]
pub(super) struct IndexLevel {
    current: IndexBuilder,
    pub(super) full: Vec<Full>,
    /// The bytes that full nodes will have.
    full_bytes: u64,
}

/// Leaves that were taken over.
#[derive(Debug, Default)]
pub(super) struct AdoptedLeaves {
    /// Keys in them, of which there are no hashes.
    pub(super) keys: u64,
    pub(super) bytes: u64,
    /// Where the last one ends, if it is the last leaf so far.
    pub(super) fence: Option<Vec<u8>>,
}

/// Range deletes.
#[derive(Debug, Default)]
pub(super) struct TakenDeletes {
    pub(super) list: List,
    /// Those that came indexed.
    pub(super) indexed: Arc<RangeDeletes>,
}

/// What is known of the keys that were taken.
#[derive(Debug, Default)]
pub(super) struct TakenKeys {
    /// At or below all of them.
    pub(super) first: Vec<u8>,
    pub(super) last: Vec<u8>,
    /// Of the last record.
    last_sequence: Sequence,
    /// One of each key that was not taken over.
    pub(super) hashes: Vec<u64>,
}

impl IndexLevel {
    /// Adds a leaf, with the units that hold its values and what is said of its keys.
    pub(super) fn add(
        &mut self,
        separator: &[u8],
        child: &Child,
        known: (&ValueUnits, Option<&LeafKeys>),
        page_size: PageSize,
    ) {
        let room = page_size.bytes();
        if !self.current.add(separator, child, known, room) {
            self.close(page_size);
            let added = self.current.add(separator, child, known, room);
            assert!(added, "an empty index node takes a child");
        }
    }

    /// Ends the node that is being filled.
    pub(super) fn close(&mut self, page_size: PageSize) {
        let full = self.current.take();
        debug_assert!(!full.bytes.is_empty(), "an index node has children");
        self.full_bytes += full.bytes.len().next_multiple_of(page_size.bytes()) as u64;
        self.full.push(full);
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
        let page_size = store.page_size();
        let threshold = options.threshold(page_size)?;
        let writer_options = WriterOptions {
            tier: options.tier,
            codec: options.codec,
            ..store.writer_options(options.purpose, options.class)
        };
        let nodes = NodeOutput::new(store, writer_options)?;
        let value_options = WriterOptions {
            tier: options.value_tier,
            ..writer_options
        };
        // Its writer begins with the first value, which is too late to refuse a tier.
        drop(store.node_writer(value_options)?);
        Ok(Builder {
            options: *options,
            half_bandwidth: store.device().half_bandwidth(),
            nodes,
            current: CurrentLeaf::new(options.codec),
            closed: ClosedLeaves::default(),
            values: SeparateValues::new(threshold, options.value_tier, page_size),
            index: IndexLevel {
                current: IndexBuilder::new(1),
                full: Vec::new(),
                full_bytes: 0,
            },
            adopted: AdoptedLeaves::default(),
            deletes: TakenDeletes::default(),
            keys: TakenKeys::default(),
            summary: Summary::default(),
        })
    }

    pub(super) fn page_size(&self) -> PageSize {
        self.nodes.page_size()
    }

    /// Names a run whose separate values may be passed on by pointer, those of keys within a range.
    /// Its extents are needed as long as this run is, then; those that the range does not need may
    /// have been given up, and hold something else by now.
    pub fn inherit_from(&mut self, run: &Run, range: &KeyRange) {
        let extents = run.extents_for(range).map(|(_, used)| used.extent);
        self.values.inherited.extend(extents);
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
        let threshold = self.options.threshold(self.page_size())?;
        self.nodes.options.codec = codec;
        self.values.set_keyspace(codec, threshold);
        self.current.end_keyspace();
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
        let new = first || self.keys.last != key;
        if new {
            assert!(
                first || *self.keys.last < *key,
                "a run's keys ascend: \"{}\" comes after \"{}\"",
                key.escape_ascii(),
                self.keys.last.escape_ascii()
            );
            assert!(key.len() <= MAX_KEY, "a key of {} bytes", key.len());
            self.keys.hashes.push(Key::new(key).hash());
            self.summary.keys += 1;
        } else {
            assert!(
                record.sequence < self.keys.last_sequence,
                "a key's records come newest first: {} comes after {}",
                record.sequence,
                self.keys.last_sequence
            );
        }
        match record.value {
            Value::Inline(value) if value.len() > self.values.threshold => {
                self.push_separate(key, new, &record, value)?;
            }
            Value::Inline(value) => self.add(key, new, &record, value, None)?,
            Value::Separate(pointer) => self.push_inherited(key, new, &record, &pointer)?,
        }
        self.note(&record);
        self.keys.last_sequence = record.sequence;
        if new {
            self.keys.last.clear();
            self.keys.last.extend_from_slice(key);
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
        if self.values.is_full_for(value.len()) {
            self.close_values()?;
            self.write_closed(None)?;
        }
        self.add(key, new, record, &[0; ValuePointer::BYTES], Some(value.len()))?;
        let slot = Slot {
            leaf: self.closed.next_number(),
            at: self.current.last_value_at(),
        };
        let units = &mut self.current.units;
        match self.values.add((key, value), slot, &self.nodes, units)? {
            Placed::Long(pointer) => self.current.fill_in(slot.at, &pointer),
            Placed::Waits => self.current.await_value(),
        }
        Ok(())
    }

    /// Writes the node of the values that wait, and fills the pointers in.
    pub(super) fn close_values(&mut self) -> Result<()> {
        let (current, closed) = (&mut self.current, &mut self.closed);
        self.values
            .close(|slot, pointer, share| match closed.get_mut(slot.leaf) {
                Some(leaf) => leaf.place_value(slot.at, pointer, share),
                None => current.place_value(slot.at, pointer, share),
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
        let page_size = self.page_size();
        if !pointer.is_long(page_size) {
            let share = pointer.share(page_size);
            self.values.spans.add(&pointer.node, key, key, share);
            self.current.units.add(&pointer.node, share);
            return Ok(());
        }
        for node in stored::nodes_of(&self.nodes.direct(), pointer)? {
            let live = node.read_len() as u64;
            self.values.spans.add(&node, key, key, live);
            self.current.units.add(&node, live);
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
        if !self.current.add(key, new, &entry) {
            self.begin_leaf(key, new, value.len())?;
            self.current.add_first(key, new, &entry);
        }
        if let Some(len) = separate {
            self.current.count_separate(len);
            self.summary.separate += 1;
        }
        Ok(())
    }

    /// Closes the leaf, if there is one, and begins another with a record's key.
    // Inlined, it has every record pay for what is done once a leaf.
    #[inline(never)]
    fn begin_leaf(&mut self, key: &[u8], new: bool, value_len: usize) -> Result<()> {
        if self.current.has_records() {
            self.close_leaf(!new);
        }
        let is_first = self.summary.records == 0;
        let fence = self.adopted.fence.take();
        let separator: &[u8] = if is_first {
            // No leaf is before it to be told from.
            rounded_down(key).clone_into(&mut self.keys.first);
            &self.keys.first
        } else if let Some(fence) = &fence {
            fence
        } else if new {
            separator(&self.keys.last, key)
        } else {
            key
        };
        debug_assert!(*separator <= *key, "a leaf's keys lie from its separator up (R1)");
        debug_assert!(
            is_first || !new || *separator > *self.keys.last,
            "no key before the leaf is at its separator (R1)"
        );
        let first_key = self.options.leaf_keys.then_some(key);
        let record = self.current.mean_record().unwrap_or(key.len() + value_len + 8);
        let page_size = self.nodes.page_size();
        let room = self.options.leaf_room(record, page_size, self.half_bandwidth);
        debug_assert!(room >= page_size.bytes(), "{room}");
        let codec = self.options.codec;
        self.current.begin(separator, first_key, !new, (codec, room));
        if self.closed.bytes() > MAX_WAITING {
            self.close_values()?;
        }
        self.write_closed(None)
    }

    /// Closes the leaf. `goes_on` when the next record has the same key as its last one.
    #[inline(never)]
    pub(super) fn close_leaf(&mut self, goes_on: bool) {
        let last_key = self.options.leaf_keys.then_some(&self.keys.last[..]);
        self.closed
            .push(|closed| self.current.close_to(closed, goes_on, last_key));
        self.summary.leaves += 1;
        debug_assert!(
            self.summary.leaves <= self.summary.records + 1,
            "each leaf has a record (L1)"
        );
    }

    /// Writes the leaves that wait for nothing any more, in order. `last` is the last key, when no
    /// leaf follows, or the separator of a leaf that does.
    pub(super) fn write_closed(&mut self, last: Option<&[u8]>) -> Result<()> {
        while let Some(mut leaf) = self.closed.pop() {
            self.nodes.writer.set_codec(leaf.codec);
            let written = self.nodes.write(&mut leaf.bytes)?;
            if written.parts.is_empty() {
                // What was just written is read soon, as often as not.
                self.nodes.cache.offer(&written.head, &leaf.bytes);
            }
            let high = self.closed.separator().or(last);
            let high = high.unwrap_or(self.current.separator());
            for node in written.all() {
                let len = node.read_len() as u64;
                leaf.sums.bytes += len;
                self.nodes.spans.add(node, &leaf.separator, high, len);
            }
            let child = Child {
                pointer: written.head,
                sums: leaf.sums,
                begun: leaf.is_begun,
            };
            if written.parts.is_empty() {
                leaf.units.settle();
            } else {
                // Its own parts would have to be listed as well.
                leaf.units.forget();
            }
            let known = (&leaf.units, leaf.keys.as_ref());
            self.index
                .add(&leaf.separator, &child, known, self.nodes.page_size());
            self.closed.reuse(leaf);
        }
        Ok(())
    }

    /// Deletes every key from `start` up to but without `end` as of `sequence`. In any order, at
    /// any time. The caller folds them before, for every one of them becomes part of the run.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8], sequence: Sequence) {
        self.deletes.list.push(start, end, sequence);
    }

    /// Deletes what these deletes do, and shares their memory with the caller if no others are
    /// added. To be called once at most.
    pub(crate) fn delete_ranges(&mut self, deletes: Arc<RangeDeletes>) {
        assert!(
            self.deletes.indexed.is_empty(),
            "range deletes are handed over once"
        );
        self.deletes.indexed = deletes;
    }

    /// Returns the bytes written so far, and those of the index nodes that wait.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let waiting = self.index.full_bytes + self.closed.bytes() + self.current.bytes();
        self.nodes.writer.bytes() + self.values.bytes() + waiting
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
