//! Builds a run from sorted records. This module writes leaves and separate values, and collects
//! the lowest index level in memory. The module `finish` writes the rest.
//!
//! *Scope*: when a leaf is full, where its node and its values are stored, and the keys that need
//! them.
//!
//! *Must not depend on*: where the records come from, and what the run is used for.

mod closed;
mod current;
mod nodes;
mod values;

use super::index::{FullIndexNode, IndexBuilder, IndexChild, LeafKeys};
use super::leaf::LeafCell;
use super::options::RunOptions;
use super::spans::rounded_down;
use super::units::ValueUnits;
use super::{IndexedRun, RunSummary, separator};
use alluvium_base::{MIB, MessageKind, SequenceNumber};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::range_tombstones::{RangeTombstoneIndex, RangeTombstoneList};
use alluvium_dictionary::record::{MAX_KEY, RecordValue, StoredRecord};
use alluvium_dictionary::value_log::{self as stored, MAX_VALUE, PointerSlot, ValuePlacement, ValuePointer};
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use alluvium_storage::{NodeCodec, PageSize, Result};
use closed::ClosedLeaves;
use current::CurrentLeaf;
use nodes::NodeOutput;
use std::sync::Arc;
use values::SeparateValues;

/// Maximum total size in bytes of the completed leaves held in memory until the locations of their
/// separate values are known.
const MAX_WAITING: u64 = MIB;

/// Writes a new run. The caller must add records in ascending key order, and the records of each
/// key from newest to oldest.
///
/// Dropping the builder before [`RunBuilder::finish`] discards everything it has written.
///
/// ```
/// use alluvium_base::{Message, Purpose};
/// use alluvium_device::memory::MemoryDirectory;
/// use alluvium_storage::store::{Store, StoreOptions};
/// use alluvium_trees::run::{RunBuilder, IndexedRun, RunOptions};
/// use alluvium_dictionary::record::{RecordValue};
/// use std::ops::ControlFlow;
/// use std::sync::Arc;
/// let store = Store::create(Arc::new(MemoryDirectory::new()), &StoreOptions::default(), b"")?;
/// let mut builder = RunBuilder::new(&store, &RunOptions::new(Purpose::Incorporate))?;
/// builder.push(b"lake", Message::put(3, b"Como").into())?;
/// builder.push(b"river", Message::put(2, b"Oder").into())?;
/// builder.push(b"river", Message::put(1, b"Elbe").into())?;
/// builder.delete_range(b"pond", b"puddle", 4);
/// let built = builder.finish()?.expect("something was pushed");
/// store.extents().install(&built.extents);
///
/// let run = IndexedRun::open(&store, built.run.pointer(), Purpose::Other)?;
/// let guard = store.epochs().pin();
/// let mut found = Vec::new();
/// run.find(b"river", 9, store.cache(), &guard, Purpose::Lookup, |record| {
///     if let RecordValue::Inline(value) = record.value {
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
pub struct RunBuilder {
    pub(super) options: RunOptions,
    /// Number of bytes that the device transfers in the latency of one I/O.
    half_bandwidth: u64,
    pub(super) nodes: NodeOutput,
    pub(super) current: CurrentLeaf,
    pub(super) closed: ClosedLeaves,
    pub(super) values: SeparateValues,
    pub(super) index: IndexLevel,
    pub(super) adopted: AdoptedLeaves,
    pub(super) deletes: TakenDeletes,
    pub(super) keys: TakenKeys,
    pub(super) summary: RunSummary,
}

/// The lowest level of the index, whose nodes point to leaves.
#[derive(Debug)]
pub(super) struct IndexLevel {
    current: IndexBuilder,
    pub(super) full: Vec<FullIndexNode>,
    /// Total size in bytes that the nodes in `full` will have on the device.
    full_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct AdoptedLeaves {
    /// Number of keys in adopted leaves whose hashes have not been added.
    pub(super) keys: u64,
    pub(super) bytes: u64,
    /// The exclusive upper bound of the last leaf if it was adopted, `None` otherwise.
    pub(super) fence: Option<Vec<u8>>,
}

/// The range deletes of the run that is being built.
#[derive(Debug, Default)]
pub(super) struct TakenDeletes {
    pub(super) list: RangeTombstoneList,
    /// Range deletes that the caller has provided as a complete index.
    pub(super) indexed: Arc<RangeTombstoneIndex>,
}

/// The state of the keys added so far.
#[derive(Debug, Default)]
pub(super) struct TakenKeys {
    /// A lower bound of the run's keys, which may be less than the first key.
    pub(super) first: Vec<u8>,
    pub(super) last: Vec<u8>,
    /// Sequence number of the last record added.
    last_sequence: SequenceNumber,
    /// The hashes of all keys that were added individually or hashed with
    /// [`RunBuilder::hash_adopted`].
    pub(super) hashes: Vec<u64>,
}

impl IndexLevel {
    /// Adds a leaf to the index. `known` contains the allocation units of the leaf's separate
    /// values, and the leaf's first and last keys if the index stores them.
    pub(super) fn add(
        &mut self,
        separator: &[u8],
        child: &IndexChild,
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

    /// Completes the current index node.
    pub(super) fn close(&mut self, page_size: PageSize) {
        let full = self.current.take();
        debug_assert!(!full.bytes.is_empty(), "an index node has children");
        self.full_bytes += full.bytes.len().next_multiple_of(page_size.bytes()) as u64;
        self.full.push(full);
    }
}

impl RunBuilder {
    /// Creates a builder for an empty run.
    ///
    /// # Errors
    /// [`Error::BadOption`](alluvium_storage::Error::BadOption) if an option is invalid or the
    /// store does not have the requested tier;
    /// [`Error::Poisoned`](alluvium_storage::Error::Poisoned) if the store no longer accepts
    /// changes.
    pub fn new(store: &Store, options: &RunOptions) -> Result<RunBuilder> {
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
        // The value writer is created only for the first value. Create and drop one now, to report
        // an invalid tier here.
        drop(store.node_writer(value_options)?);
        Ok(RunBuilder {
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
            summary: RunSummary::default(),
        })
    }

    /// Returns the number of keys that were added individually.
    pub(crate) fn copied_keys(&self) -> usize {
        self.keys.hashes.len()
    }

    pub(super) fn page_size(&self) -> PageSize {
        self.nodes.page_size()
    }

    /// Permits records that point to separate values of `run`, if their keys are in `range`. The
    /// extents of `run` must then stay allocated as long as the new run exists. Its extents outside
    /// of `range` are not used, because they may already have been freed and reused.
    pub fn inherit_from(&mut self, run: &IndexedRun, range: &KeyRange) {
        let extents = run.extents_for(range).map(|(_, used)| used.extent);
        self.values.inherited.extend(extents);
    }

    /// Starts a new keyspace with its own codec and value threshold. No leaf or value node contains
    /// records of two keyspaces. Index nodes use the codec of the last keyspace.
    ///
    /// # Errors
    /// [`Error::BadOption`](alluvium_storage::Error::BadOption), and the errors of
    /// [`RunBuilder::push`].
    pub fn begin_keyspace(&mut self, codec: NodeCodec, value_threshold: Option<usize>) -> Result<()> {
        self.close_values()?;
        self.options.codec = codec;
        self.options.value_threshold = value_threshold;
        let threshold = self.options.threshold(self.page_size())?;
        self.nodes.options.codec = codec;
        self.values.set_keyspace(codec, threshold);
        self.current.end_keyspace();
        Ok(())
    }

    /// Adds a record to the run. If the record points to a separate value, only the pointer is
    /// copied, and the run that owns the value must have been passed to
    /// [`RunBuilder::inherit_from`].
    ///
    /// # Errors
    /// [`Error::Full`](alluvium_storage::Error::Full) if the store is full; I/O errors. After an
    /// error the builder can only be dropped.
    ///
    /// # Panics
    /// If the record is out of order (keys must ascend, and the records of each key must be added
    /// from newest to oldest), or if the key or the value is too long.
    pub fn push(&mut self, key: &[u8], record: StoredRecord<'_>) -> Result<()> {
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
            self.keys.hashes.push(LookupKey::new(key).hash());
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
            RecordValue::Inline(value) if value.len() > self.values.threshold => {
                self.write_out_of_line(key, new, &record, value)?;
            }
            RecordValue::Inline(value) => self.add(key, new, &record, value, None)?,
            RecordValue::Separate(pointer) => self.push_inherited(key, new, &record, &pointer)?,
        }
        self.note(&record);
        self.keys.last_sequence = record.sequence;
        if new {
            self.keys.last.clear();
            self.keys.last.extend_from_slice(key);
        }
        Ok(())
    }

    /// Adds a record to the counts of the summary.
    #[inline]
    fn note(&mut self, record: &StoredRecord<'_>) {
        let summary = &mut self.summary;
        note_sequence(summary, record.sequence, record.sequence);
        summary.records += 1;
        summary.tombstones += u64::from(record.kind == MessageKind::Delete);
        summary.merges += u64::from(record.kind.needs_older());
        summary.value_bytes += record.value.len() as u64;
        if record.expires_ms != 0 {
            summary.earliest_expiry_ms = match summary.earliest_expiry_ms {
                0 => record.expires_ms,
                earliest => earliest.min(record.expires_ms),
            };
        }
    }

    /// Adds a record and stores its value in a value extent. The record's pointer to the value is
    /// set later, when the node that contains the value is written.
    fn write_out_of_line(
        &mut self,
        key: &[u8],
        new: bool,
        record: &StoredRecord<'_>,
        value: &[u8],
    ) -> Result<()> {
        assert!(value.len() <= MAX_VALUE, "a value of {} bytes", value.len());
        if self.values.is_full_for(value.len()) {
            self.close_values()?;
            self.write_closed(None)?;
        }
        self.add(key, new, record, &[0; ValuePointer::BYTES], Some(value.len()))?;
        let slot = PointerSlot {
            leaf: self.closed.next_number(),
            at: self.current.last_value_at(),
        };
        let units = &mut self.current.units;
        match self.values.add((key, value), slot, &self.nodes, units)? {
            ValuePlacement::Long(pointer) => self.current.fill_in(slot.at, &pointer),
            ValuePlacement::Waits => self.current.await_value(),
        }
        Ok(())
    }

    /// Writes the values collected so far to a node, and sets the pointers in the records that
    /// refer to them.
    pub(super) fn close_values(&mut self) -> Result<()> {
        let (current, closed) = (&mut self.current, &mut self.closed);
        self.values
            .close(|slot, pointer, share| match closed.get_mut(slot.leaf) {
                Some(leaf) => leaf.place_value(slot.at, pointer, share),
                None => current.place_value(slot.at, pointer, share),
            })
    }

    /// Adds a record that points to a separate value of another run.
    fn push_inherited(
        &mut self,
        key: &[u8],
        new: bool,
        record: &StoredRecord<'_>,
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

    /// Adds a record to the current leaf, or to a new one if the current one is full. If the value
    /// is separate, `value` is the encoded pointer to it and `separate` is its length in bytes.
    #[inline]
    fn add(
        &mut self,
        key: &[u8],
        new: bool,
        record: &StoredRecord<'_>,
        value: &[u8],
        separate: Option<usize>,
    ) -> Result<()> {
        let entry = LeafCell {
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

    /// Completes the current leaf, if there is one, and starts a new leaf whose first record has
    /// the key `key`.
    // Not inlined, because otherwise every record would bear the cost of work done once per leaf.
    #[inline(never)]
    fn begin_leaf(&mut self, key: &[u8], new: bool, value_len: usize) -> Result<()> {
        if self.current.has_records() {
            self.close_leaf(!new);
        }
        let is_first = self.summary.records == 0;
        let fence = self.adopted.fence.take();
        let separator: &[u8] = if is_first {
            // The first leaf of a run has no predecessor, so its separator need not be short.
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

    /// Completes the current leaf. `goes_on` tells whether the next record has the same key as this
    /// leaf's last record.
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

    /// Writes completed leaves in order, up to the first one that is still waiting for the location
    /// of a value. `last` is an upper bound of the last leaf's keys: the last key of the run, or
    /// the separator of the next leaf. It is needed if no other leaf has been started.
    pub(super) fn write_closed(&mut self, last: Option<&[u8]>) -> Result<()> {
        while let Some(mut leaf) = self.closed.pop() {
            self.nodes.writer.set_codec(leaf.codec);
            let written = self.nodes.write(&mut leaf.bytes)?;
            if written.parts.is_empty() {
                // Newly written leaves are often read soon afterwards.
                self.nodes.cache.offer(&written.head, &leaf.bytes);
            }
            let high = self.closed.separator().or(last);
            let high = high.unwrap_or(self.current.separator());
            for node in written.all() {
                let len = node.read_len() as u64;
                leaf.sums.bytes += len;
                self.nodes.spans.add(node, &leaf.separator, high, len);
            }
            let child = IndexChild {
                pointer: written.head,
                sums: leaf.sums,
                begun: leaf.is_begun,
            };
            if written.parts.is_empty() {
                leaf.units.settle();
            } else {
                // An index entry does not list the units of a long leaf's parts, so forget those of
                // its values too. This keeps the leaf from being adopted.
                leaf.units.forget();
            }
            let known = (&leaf.units, leaf.keys.as_ref());
            self.index
                .add(&leaf.separator, &child, known, self.nodes.page_size());
            self.closed.reuse(leaf);
        }
        Ok(())
    }

    /// Adds a delete of all keys in `start..end` as of `sequence`. Range deletes may be added at
    /// any time and in any order. The caller must have folded them, because each one becomes part
    /// of the run.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8], sequence: SequenceNumber) {
        self.deletes.list.push(start, end, sequence);
    }

    /// Adds a complete index of range deletes. If no others are added, the run shares this index's
    /// memory with the caller. May be called at most once.
    pub(crate) fn delete_ranges(&mut self, deletes: Arc<RangeTombstoneIndex>) {
        assert!(
            self.deletes.indexed.is_empty(),
            "range deletes are handed over once"
        );
        self.deletes.indexed = deletes;
    }

    /// Returns the size of the run so far in bytes: what has been written, and the leaves and index
    /// nodes that are still in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let waiting = self.index.full_bytes + self.closed.bytes() + self.current.bytes();
        self.nodes.writer.bytes() + self.values.bytes() + waiting
    }

    /// Returns the number of records that have been added so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.summary.records
    }
}

pub(super) fn note_sequence(summary: &mut RunSummary, lowest: SequenceNumber, highest: SequenceNumber) {
    let first = summary.records == 0 && summary.highest_sequence == 0 && summary.lowest_sequence == 0;
    summary.lowest_sequence = if first {
        lowest
    } else {
        summary.lowest_sequence.min(lowest)
    };
    summary.highest_sequence = summary.highest_sequence.max(highest);
    debug_assert!(summary.lowest_sequence <= summary.highest_sequence);
}
