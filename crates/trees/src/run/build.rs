//! Building a run from sorted records: leaves, values, the index in memory. What comes last is in `finish.rs`.

use super::format::encode_long;
use super::index::{Child, Full, IndexBuilder, Sums};
use super::leaf::{Entry, LeafBuilder};
use super::load::Direct;
use super::spans::Spans;
use super::value::{self, Placed, ValuePointer, ValueWriter, largest, pages_for};
use super::{MAX_KEY, MAX_VALUE, Record, Run, Summary, Value, separator};
use alluvium_base::{KIB, Kind, Purpose, Sequence};
use alluvium_filters::hash;
use alluvium_storage::extents::{Class, Extent, Extents};
use alluvium_storage::node::{MAX_PAGES, NodeWriter, WriterOptions};
use alluvium_storage::store::Store;
use alluvium_storage::{Cache, Codec, Error, NodePointer, PageSize, Result, Tiers};
use std::sync::Arc;

/// How a run is written.
///
/// ```
/// use alluvium_base::Purpose;
/// use alluvium_trees::run::RunOptions;
/// let options = RunOptions { value_threshold: Some(512), ..RunOptions::new(Purpose::Compact) };
/// assert_eq!(options.leaf_pages, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// How nodes are encoded.
    pub codec: Codec,
    /// Values longer than this, in bytes, go to value extents; a quarter of a page if absent. At most four pages.
    pub value_threshold: Option<usize>,
    /// What the writes are for.
    pub purpose: Purpose,
    /// Whether the reserve of space may be used.
    pub class: Class,
    /// Pages of a leaf: 1 to 16; chosen from the records' sizes if absent.
    pub leaf_pages: Option<u8>,
    /// The seed of the store's filters, for the hashes of keys.
    pub seed: u64,
}

impl RunOptions {
    /// The usual options: uncompressed, outside the reserve.
    #[must_use]
    pub fn new(purpose: Purpose) -> RunOptions {
        RunOptions {
            codec: Codec::None,
            value_threshold: None,
            purpose,
            class: Class::Normal,
            leaf_pages: None,
            seed: 0,
        }
    }
}

/// Bytes of a leaf that is compressed, so that there is something to compress.
const COMPRESSED_LEAF: usize = 16 * KIB as usize;

/// Writes a run. Records come in the order of their keys, and of one key the newest first.
///
/// A builder that is dropped gives up what it has written.
#[derive(Debug)]
pub struct Builder {
    pub(super) options: RunOptions,
    pub(super) writer_options: WriterOptions,
    pub(super) cache: Cache,
    pub(super) extents: Arc<Extents>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) threshold: usize,
    pub(super) leaves: NodeWriter,
    pub(super) values: Option<ValueWriter>,
    pub(super) leaf: LeafBuilder,
    /// How long the current leaf may become.
    pub(super) room: usize,
    /// The current leaf's separator.
    pub(super) separator: Vec<u8>,
    /// Bytes of values outside the current leaf.
    pub(super) separate_bytes: u64,
    /// The leaf before, until its keys' end is known: its nodes and separator.
    pub(super) before: Option<(Nodes, Vec<u8>)>,
    pub(super) index: IndexBuilder,
    pub(super) full: Vec<Full>,
    pub(super) full_bytes: u64,
    /// Which keys need the leaves, and the values.
    pub(super) spans: Spans,
    pub(super) value_spans: Spans,
    pub(super) inherited: Vec<Extent>,
    pub(super) node: Vec<u8>,
    pub(super) last_key: Vec<u8>,
    pub(super) last_sequence: Sequence,
    /// The first key whose value waits for its node.
    pub(super) waiting_from: Vec<u8>,
    pub(super) first_key: Vec<u8>,
    pub(super) hashes: Vec<u64>,
    pub(super) range_deletes: Vec<(Vec<u8>, Vec<u8>, Sequence)>,
    pub(super) summary: Summary,
}

/// A leaf or an index node where it was written: its parts if it is long, and the node that pointers mean.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) parts: Vec<NodePointer>,
    pub(super) head: NodePointer,
}

impl Nodes {
    pub(super) fn all(&self) -> impl Iterator<Item = &NodePointer> {
        self.parts.iter().chain([&self.head])
    }

    fn bytes(&self) -> u64 {
        self.all().map(|node| node.read_len() as u64).sum()
    }
}

impl Builder {
    /// A builder that has taken nothing yet.
    ///
    /// # Errors
    /// [`Error::BadOption`] when the options cannot be followed; [`Error::Poisoned`] when the store refuses changes.
    pub fn new(store: &Store, options: &RunOptions) -> Result<Builder> {
        let page = store.page_size().bytes();
        let threshold = options.value_threshold.unwrap_or(page / 4);
        let bad = |option, why| Err(Error::BadOption { option, why });
        if threshold > 4 * page {
            let why = format!("{threshold} bytes are more than four pages");
            return bad("value threshold", why);
        }
        if let Some(pages) = options
            .leaf_pages
            .filter(|pages| !(1..=MAX_PAGES).contains(pages))
        {
            return bad("leaf pages", format!("{pages} is not from 1 to {MAX_PAGES}"));
        }
        let writer_options = WriterOptions {
            codec: options.codec,
            ..store.writer_options(options.purpose, options.class)
        };
        Ok(Builder {
            options: *options,
            writer_options,
            cache: store.cache().clone(),
            extents: Arc::clone(store.extents()),
            tiers: Arc::clone(store.tiers()),
            threshold,
            leaves: store.node_writer(writer_options)?,
            values: None,
            leaf: LeafBuilder::default(),
            room: 0,
            separator: Vec::new(),
            separate_bytes: 0,
            before: None,
            index: IndexBuilder::new(1),
            full: Vec::new(),
            full_bytes: 0,
            spans: Spans::default(),
            value_spans: Spans::default(),
            inherited: Vec::new(),
            node: Vec::new(),
            last_key: Vec::new(),
            last_sequence: 0,
            waiting_from: Vec::new(),
            first_key: Vec::new(),
            hashes: Vec::new(),
            range_deletes: Vec::new(),
            summary: Summary::default(),
        })
    }

    pub(super) fn page_size(&self) -> PageSize {
        self.writer_options.page_size
    }

    /// Names a run whose separate values may be passed on by pointer. Its extents are needed as long as this run is, then.
    pub fn inherit_from(&mut self, run: &Run) {
        self.inherited
            .extend(run.extents().iter().map(|used| used.extent));
    }

    /// Takes a record. A separate value is passed on by its pointer: [`Builder::inherit_from`] must have named a run that has
    /// it.
    ///
    /// # Errors
    /// [`Error::Full`] when there is no room; as the device says. The builder can only be dropped then.
    ///
    /// # Panics
    /// When the record is not behind the one before (keys ascending, of one key the newest first), or the key or value is too long.
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
            self.hashes.push(hash(self.options.seed, key));
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

    /// A value that goes to a value extent. The pointer to it is filled in when its node is written.
    fn push_separate(&mut self, key: &[u8], new: bool, record: &Record<'_>, value: &[u8]) -> Result<()> {
        assert!(value.len() <= MAX_VALUE, "a value of {} bytes", value.len());
        let page_size = self.page_size();
        if self
            .values
            .as_ref()
            .is_some_and(|values| values.is_full_for(value.len()))
        {
            self.close_values()?;
        }
        self.add(key, new, record, &[0; ValuePointer::BYTES], Some(value.len()))?;
        let slot = self.leaf.last_value_at();
        let values = match &mut self.values {
            Some(values) => values,
            none => {
                let writer = NodeWriter::new(
                    Arc::clone(&self.extents),
                    Arc::clone(&self.tiers),
                    self.writer_options,
                );
                none.insert(ValueWriter::new(writer, page_size))
            }
        };
        let (spans, first_waiting) = (&mut self.value_spans, !values.is_waiting());
        let placed = values.add(value, slot, &mut |node| {
            spans.add(node, key, key, node.read_len() as u64);
        })?;
        match placed {
            Placed::Long(pointer) => {
                let mut bytes = Vec::with_capacity(ValuePointer::BYTES);
                pointer.encode(&mut bytes);
                self.leaf.patch(slot, &bytes);
            }
            Placed::Waits if first_waiting => {
                self.waiting_from.clear();
                self.waiting_from.extend_from_slice(key);
            }
            Placed::Waits => {}
        }
        Ok(())
    }

    /// Writes the node of the values that wait, and fills the pointers in.
    fn close_values(&mut self) -> Result<()> {
        let Some(values) = &mut self.values else {
            return Ok(());
        };
        let page_size = self.writer_options.page_size;
        let (leaf, spans) = (&mut self.leaf, &mut self.value_spans);
        let (low, high) = (&self.waiting_from, leaf.last_key().to_vec());
        values.close(|slot, pointer| {
            let mut bytes = Vec::with_capacity(ValuePointer::BYTES);
            pointer.encode(&mut bytes);
            leaf.patch(slot, &bytes);
            spans.add(&pointer.node, low, &high, pointer.share(page_size));
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
            return Ok(());
        }
        let nodes = Direct {
            tiers: &self.tiers,
            page_size: self.writer_options.page_size,
            purpose: self.options.purpose,
        };
        for node in value::nodes_of(&nodes, pointer)? {
            self.value_spans.add(&node, key, key, node.read_len() as u64);
        }
        Ok(())
    }

    /// Adds a record to the leaf, or to the next one. `separate` is the length of a value elsewhere, whose pointer `value`
    /// is.
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
        let taken = self.leaf.records() > 0 && self.leaf.add(key, new, &entry, self.room);
        if !taken {
            self.begin_leaf(key, new, value.len())?;
            self.leaf.add(key, new, &entry, self.room);
        }
        if let Some(len) = separate {
            self.separate_bytes += len as u64;
            self.summary.separate += 1;
        }
        Ok(())
    }

    /// Closes the leaf, if there is one, and begins another with a record's key.
    fn begin_leaf(&mut self, key: &[u8], new: bool, value_len: usize) -> Result<()> {
        if self.leaf.records() > 0 {
            self.close_leaf(!new)?;
        }
        self.separator.clear();
        if self.summary.records == 0 {
            self.first_key = key.to_vec();
            self.separator.extend_from_slice(key);
        } else if new {
            self.separator.extend_from_slice(separator(&self.last_key, key));
        } else {
            self.separator.extend_from_slice(key);
        }
        self.note_before(None);
        let of_next = key.len() + value_len + 8;
        let pages = match self.options.leaf_pages {
            Some(pages) => usize::from(pages),
            None => leaf_pages(
                self.mean_record().unwrap_or(of_next),
                self.options.codec,
                self.page_size(),
            ),
        };
        self.room = pages * self.page_size().bytes();
        self.leaf.restart(!new);
        self.separate_bytes = 0;
        Ok(())
    }

    /// Bytes of a record in its leaf, on average.
    fn mean_record(&self) -> Option<usize> {
        let leaf = self.leaf.records();
        (leaf > 0).then(|| self.leaf.bytes() / leaf)
    }

    /// Notes which keys need the leaf before: up to the current separator, or to `last` when there is no further leaf.
    pub(super) fn note_before(&mut self, last: Option<&[u8]>) {
        if let Some((nodes, low)) = self.before.take() {
            let high = last.unwrap_or(&self.separator);
            for node in nodes.all() {
                self.spans.add(node, &low, high, node.read_len() as u64);
            }
        }
    }

    /// Writes the leaf. `goes_on` when the next record has the same key as its last one.
    pub(super) fn close_leaf(&mut self, goes_on: bool) -> Result<()> {
        self.close_values()?;
        let mut node = std::mem::take(&mut self.node);
        node.clear();
        self.leaf.encode(goes_on, &mut node);
        let written = self.write_node(&mut node);
        self.node = node;
        let nodes = written?;
        let sums = Sums {
            bytes: nodes.bytes() + self.separate_bytes,
            records: self.leaf.records() as u64,
            tombstones: self.leaf.tombstones(),
        };
        let child = Child {
            pointer: nodes.head,
            sums,
            begun: self.leaf.is_begun(),
        };
        self.summary.leaves += 1;
        let room = self.page_size().bytes();
        if !self.index.add(&self.separator, &child, room) {
            self.close_index();
            self.index.add(&self.separator, &child, room);
        }
        self.before = Some((nodes, self.separator.clone()));
        Ok(())
    }

    pub(super) fn close_index(&mut self) {
        let full = self.index.take();
        self.full_bytes += full.bytes.len().next_multiple_of(self.page_size().bytes()) as u64;
        self.full.push(full);
    }

    /// Writes a leaf or an index node, filled up to whole pages; in parts when it is too long for one node.
    pub(super) fn write_node(&mut self, node: &mut Vec<u8>) -> Result<Nodes> {
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
        let mut head = Vec::new();
        encode_long(node.len(), &parts, &mut head);
        fill(&mut head);
        let head = self.leaves.add(&head)?;
        Ok(Nodes { parts, head })
    }

    /// Deletes every key from `start` up to but without `end` as of `sequence`. In any order, at any time.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8], sequence: Sequence) {
        if start < end {
            self.range_deletes.push((start.to_vec(), end.to_vec(), sequence));
        }
    }

    /// Bytes written so far, and those of the index nodes that wait.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let leaf = if self.leaf.records() > 0 {
            self.leaf.bytes() as u64
        } else {
            0
        };
        self.leaves.bytes() + self.values.as_ref().map_or(0, ValueWriter::bytes) + self.full_bytes + leaf
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
}

/// Pages of a leaf for records of `record` bytes: as few as waste a thirty-second of it at most, given that half a record
/// stays empty on average.
fn leaf_pages(record: usize, codec: Codec, page_size: PageSize) -> usize {
    let page = page_size.bytes();
    let least = match codec {
        Codec::None => 1,
        Codec::Lz4 | Codec::Zstd => COMPRESSED_LEAF.div_ceil(page),
    };
    (16 * record).div_ceil(page).clamp(least, usize::from(MAX_PAGES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_as_small_as_their_records_let_them() {
        let pages = |record| leaf_pages(record, Codec::None, PageSize::MIN);
        assert_eq!([1, 128, 256, 300, 1024, 5000].map(pages), [1, 1, 1, 2, 4, 16]);
        assert_eq!(leaf_pages(100, Codec::Lz4, PageSize::MIN), 4);
        assert_eq!(leaf_pages(100, Codec::Zstd, PageSize::MAX), 1);
    }
}
