//! Layers of runs that are written before they become part of a structure.
//!
//! A layer is a list of runs. For each key, a newer layer hides the data of older ones. Range
//! deletes are kept in memory until the layers are attached.
//!
//! Adjacent layers can be merged. The layers form a size-tiered LSM tree: eight layers of one level
//! are merged into a layer of the next level (the SAMT of Spillane 2012, section 3.3). A lookup
//! therefore searches a number of layers that grows with the logarithm of the ingest's size.
//!
//! Invariants:
//!
//! - **Y1** The extents of layers are provisional. They are freed by a crash, and when the last
//!   reference to their run is dropped before the run is attached.
//! - **Y2** Within a layer, each key is in at most one run and has at most one message.
//! - **Y3** A layer contains either runs or range deletes, but not both.
//! - **Y4** The numbers of layers increase from the oldest layer to the newest. A merge gives its
//!   result the numbers of its inputs, and never has inputs on both sides of a protected mark.

use super::layer_merge::{self, LayerGroup, LayerMerge};
use crate::range_tombstones::{RangeTombstoneBuilder, RangeTombstoneIndex, RangeTombstoneList};
use alluvium_base::{Message, SequenceNumber};
use alluvium_storage::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// A writer of the runs that make up layers.
pub trait LayerWriter: fmt::Debug {
    /// A finished run that does not belong to a structure yet. Its space is freed when it is
    /// dropped, unless it was attached to a structure.
    type Run: fmt::Debug + Send + Sync;
    /// A merge of adjacent layers.
    type Merge: LayerMerge<Run = Self::Run>;

    /// Adds a message to the current run. Keys must be added in ascending order. A full run is
    /// finished, either before or after the message is added, and appended to `written`.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    fn push(&mut self, key: &[u8], message: Message<'_>, written: &mut Vec<Self::Run>) -> Result<()>;

    /// Finishes the current run, if there is one, and appends it to `written`.
    ///
    /// # Errors
    /// The same errors as [`LayerWriter::push`].
    fn end_run(&mut self, written: &mut Vec<Self::Run>) -> Result<()>;

    /// Discards the current run, if there is one.
    fn give_up_run(&mut self);

    /// Writes a run that contains the range deletes `deletes`.
    ///
    /// # Errors
    /// The same errors as [`LayerWriter::push`].
    fn write_deleted_ranges(&mut self, deletes: RangeTombstoneIndex) -> Result<Option<Self::Run>>;

    /// Starts to merge the layers in `group` into one or two layers.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    fn begin_merge(&self, group: LayerGroup<Self::Run>) -> Result<Self::Merge>;

    /// Returns the memory used by a run, in bytes.
    fn memory_bytes(run: &Self::Run) -> u64;
}

/// Number of records and bytes added.
#[derive(Clone, Copy, Debug, Default)]
struct LayerTotals {
    records: u64,
    bytes: u64,
}

/// A finished layer, to which no more messages can be added.
#[derive(Debug)]
pub(super) struct IngestLayer<R> {
    pub(super) number: u64,
    /// Number of times that the oldest messages of this layer have been merged.
    pub(super) level: u32,
    pub(super) runs: Vec<Arc<R>>,
    /// Number of range deletes in this layer and all older ones.
    deletes: usize,
    /// Totals of this layer and all older ones.
    taken: LayerTotals,
}

/// The layers of an ingest. If they are dropped before they are attached to a structure, their
/// space is freed.
#[derive(Debug)]
pub struct IngestLayers<W: LayerWriter> {
    writer: W,
    layers: Vec<IngestLayer<W::Run>>,
    /// Layer numbers to which the ingest may be rolled back, ascending. No merge crosses them (Y4).
    marks: Vec<u64>,
    /// All range deletes, in order. Their sequence numbers are the layer numbers that readers see.
    list: RangeTombstoneList,
    /// Lookup structure for the range deletes in finished layers.
    deletes: Arc<RangeTombstoneIndex>,
    /// Finished runs of the newest, unfinished layer.
    runs: Vec<W::Run>,
    /// The last key that was added to the newest layer.
    last: Option<Vec<u8>>,
    taken: LayerTotals,
}

impl<R> IngestLayer<R> {
    /// Creates a layer without runs.
    #[cfg(all(test, not(alluvium_model_check)))]
    pub(super) fn of_level(number: u64, level: u32) -> IngestLayer<R> {
        IngestLayer {
            number,
            level,
            runs: Vec::new(),
            deletes: 0,
            taken: LayerTotals::default(),
        }
    }
}

impl<W: LayerWriter> IngestLayers<W> {
    /// Creates an ingest without layers, whose runs `writer` writes.
    #[must_use]
    pub fn new(writer: W) -> IngestLayers<W> {
        IngestLayers {
            writer,
            layers: Vec::new(),
            marks: Vec::new(),
            list: RangeTombstoneList::default(),
            deletes: Arc::default(),
            runs: Vec::new(),
            last: None,
            taken: LayerTotals::default(),
        }
    }

    /// Returns the writer of the runs.
    pub fn writer(&self) -> &W {
        &self.writer
    }

    /// Adds a message to the newest layer.
    ///
    /// # Errors
    /// [`Error::BadOption`] if the key is not greater than the previous one, in which case the
    /// message is not added. After [`Error::Full`] or an I/O error, the layers can only be dropped.
    pub fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        if let Some(last) = self.last.as_deref().filter(|last| *last >= key) {
            let (key, last) = (key.escape_ascii(), last.escape_ascii());
            return Err(Error::BadOption {
                option: "order of an ingest's keys",
                why: format!("the key \"{key}\" follows \"{last}\": sort the keys, and remove duplicates"),
            });
        }
        self.writer.push(key, message, &mut self.runs)?;
        let last = self.last.get_or_insert_with(Vec::new);
        last.clear();
        last.extend_from_slice(key);
        self.taken.bytes += (key.len() + message.operand.len()) as u64;
        self.taken.records += 1;
        Ok(())
    }

    /// Adds a range delete to the newest layer.
    ///
    /// # Panics
    /// If the layer has messages (Y3).
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        assert!(
            self.last.is_none(),
            "a layer has either messages or deleted ranges (Y3)"
        );
        self.list.push(start, end, self.mark() + 1);
    }

    /// Finishes the newest layer.
    ///
    /// # Errors
    /// The same errors as [`IngestLayers::push`].
    pub fn end_layer(&mut self) -> Result<()> {
        self.writer.end_run(&mut self.runs)?;
        let has_deletes = self.list.len() > self.ended_deletes();
        assert!(
            self.runs.is_empty() || !has_deletes,
            "a layer has either messages or deleted ranges (Y3)"
        );
        if has_deletes {
            self.deletes = Arc::new(RangeTombstoneIndex::of(&self.list));
        }
        let runs = std::mem::take(&mut self.runs);
        self.layers.push(IngestLayer {
            number: self.mark() + 1,
            level: 0,
            runs: runs.into_iter().map(Arc::new).collect(),
            deletes: self.list.len(),
            taken: self.taken,
        });
        self.last = None;
        Ok(())
    }

    /// Returns whether the newest layer contains any data yet.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.last.is_some() || self.list.len() > self.ended_deletes()
    }

    /// Returns the number of range deletes in finished layers.
    fn ended_deletes(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.deletes)
    }

    /// Returns the number of finished layers.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.layers.len() as u64
    }

    /// Returns the number of the newest finished layer, or 0 if there is none.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.layers.last().map_or(0, |layer| layer.number)
    }

    /// Protects marks: from now on, [`IngestLayers::keep`] is called only with the number of the
    /// newest layer or with one of `marks`, which were returned by [`IngestLayers::mark`].
    pub fn protect(&mut self, marks: &[u64]) {
        self.marks.clear();
        self.marks.extend_from_slice(marks);
        self.marks.sort_unstable();
    }

    /// Drops all layers that are newer than a mark, including the unfinished one.
    pub fn keep(&mut self, mark: u64) {
        self.give_up_newest();
        let kept = self.layers.partition_point(|layer| layer.number <= mark);
        self.layers.truncate(kept);
        self.taken = self
            .layers
            .last()
            .map_or(LayerTotals::default(), |layer| layer.taken);
        let deletes = self.ended_deletes();
        if self.list.len() > deletes {
            let mut list = RangeTombstoneList::default();
            for (start, end, sequence) in self.list.iter().take(deletes) {
                list.push(start, end, sequence);
            }
            self.list = list;
            self.deletes = Arc::new(RangeTombstoneIndex::of(&self.list));
        }
    }

    /// Returns the level of the result that [`IngestLayers::due_group`] would have, or `None` if no
    /// merge is due.
    #[must_use]
    pub fn due_level(&self, running: &[(u64, u64)]) -> Option<u32> {
        let places = layer_merge::due(&self.layers, &self.marks, running)?;
        let levels = self.layers[places].iter().map(|layer| layer.level);
        levels.max().map(|level| level + 1)
    }

    /// Returns the next group of adjacent layers that is due to be merged and has no layer in
    /// common with the groups of `running` merges. Each of these is given by the numbers of its
    /// first and last layer.
    #[must_use]
    pub fn due_group(&self, running: &[(u64, u64)]) -> Option<LayerGroup<W::Run>> {
        let places = layer_merge::due(&self.layers, &self.marks, running)?;
        let deletes_before = places
            .start
            .checked_sub(1)
            .map_or(0, |before| self.layers[before].deletes);
        let group = &self.layers[places];
        let (first, last) = (group.first()?, group.last()?);
        let mut list = RangeTombstoneList::default();
        let in_group = self.list.iter().take(last.deletes).skip(deletes_before);
        in_group.for_each(|(start, end, number)| list.push(start, end, number));
        let newest_first = group.iter().rev().filter(|layer| !layer.runs.is_empty());
        Some(LayerGroup {
            numbers: (first.number, last.number),
            level: group.iter().map(|layer| layer.level).max()? + 1,
            layers: newest_first
                .map(|layer| (layer.number, layer.runs.clone()))
                .collect(),
            deletes: Arc::new(RangeTombstoneIndex::of(&list)),
        })
    }

    /// Replaces the layers of a group by the result of its merge: the range deletes of the group,
    /// above them `messages`, and above these `operands`.
    ///
    /// # Panics
    /// If layers of the group were dropped since the merge began.
    pub fn replace(&mut self, group: (u64, u64), level: u32, messages: Vec<W::Run>, operands: Vec<W::Run>) {
        let (lowest, highest) = group;
        let from = self.layers.partition_point(|layer| layer.number < lowest);
        let to = self.layers.partition_point(|layer| layer.number <= highest);
        let ends = (&self.layers[from], &self.layers[to - 1]);
        assert!(
            (ends.0.number, ends.1.number) == group && to - from > 2,
            "the merged layers are all there (Y4)"
        );
        let taken = ends.1.taken;
        let (before, until) = (
            from.checked_sub(1).map_or(0, |place| self.layers[place].deletes),
            ends.1.deletes,
        );
        // Range deletes are older than the messages that remain beside them.
        let is_alone = messages.is_empty() && operands.is_empty();
        let of_deletes = if is_alone { highest } else { lowest };
        let joined = self.join_deletes(before..until, of_deletes);
        let mut layers = Vec::new();
        let mut add = |number: u64, deletes: usize, runs: Vec<W::Run>| {
            let runs = runs.into_iter().map(Arc::new).collect();
            layers.push(IngestLayer {
                number,
                level,
                runs,
                deletes,
                taken,
            });
        };
        if joined > 0 {
            add(of_deletes, before + joined, Vec::new());
        }
        if !messages.is_empty() {
            add(
                highest - u64::from(!operands.is_empty()),
                before + joined,
                messages,
            );
        }
        if !operands.is_empty() {
            add(highest, before + joined, operands);
        }
        self.layers.splice(from..to, layers);
        let fewer = (until - before) - joined;
        self.layers
            .iter_mut()
            .filter(|layer| layer.number > highest)
            .for_each(|layer| layer.deletes -= fewer);
        debug_assert!(
            self.layers
                .is_sorted_by(|older, newer| older.number < newer.number),
            "layer numbers increase (Y4)"
        );
    }

    /// Joins the range deletes `places` of the list, which then all belong to the layer `number`.
    /// Returns how many remain.
    fn join_deletes(&mut self, places: std::ops::Range<usize>, number: u64) -> usize {
        if places.is_empty() {
            return 0;
        }
        let mut joined = RangeTombstoneList::default();
        let in_group = self.list.iter().take(places.end).skip(places.start);
        in_group.for_each(|(start, end, _)| joined.push(start, end, number));
        let mut joined = RangeTombstoneBuilder::of(&joined);
        joined.fold(&[number]);
        let joined = joined.finish();
        let mut list = RangeTombstoneList::default();
        let mut push = |(start, end, number): (&[u8], &[u8], u64)| list.push(start, end, number);
        self.list.iter().take(places.start).for_each(&mut push);
        joined.each(|start, end, number| push((start, end, number)));
        self.list.iter().skip(places.end).for_each(&mut push);
        self.list = list;
        self.deletes = Arc::new(self.index_of_ended());
        joined.len()
    }

    /// Returns an index of the range deletes that are not in the unfinished layer.
    fn index_of_ended(&self) -> RangeTombstoneIndex {
        let newest = self.mark();
        let mut ended = RangeTombstoneList::default();
        let finished = self.list.iter().filter(|(_, _, number)| *number <= newest);
        finished.for_each(|(start, end, number)| ended.push(start, end, number));
        RangeTombstoneIndex::of(&ended)
    }

    /// Returns the number of messages that were added.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.taken.records
    }

    /// Returns the total size of the keys and values that were added, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.taken.bytes
    }

    /// Returns the memory that finished runs and range deletes use, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let ended = self.layers.iter().flat_map(|layer| &layer.runs);
        let runs = ended
            .map(|run| W::memory_bytes(run))
            .chain(self.runs.iter().map(W::memory_bytes));
        runs.sum::<u64>() + 2 * self.deletes.memory_bytes() as u64
    }

    /// Returns the runs of each finished layer with the layer's number, oldest layer first. Readers
    /// use the number as the sequence number of the layer's messages.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = (SequenceNumber, &[Arc<W::Run>])> {
        self.layers.iter().map(|layer| (layer.number, &*layer.runs))
    }

    /// Returns the lookup structure for the range deletes in finished layers.
    pub fn deletes(&self) -> &Arc<RangeTombstoneIndex> {
        &self.deletes
    }

    /// Prepares the layers to be attached as the commits starting at `first`. Finishes the newest
    /// layer if it has data, and writes range deletes to runs in their layers. Returns the sequence
    /// number of the last commit.
    ///
    /// # Errors
    /// The same errors as [`IngestLayers::push`].
    pub fn finish(&mut self, first: SequenceNumber) -> Result<SequenceNumber> {
        if self.is_open() {
            self.end_layer()?;
        }
        let mut all = self.list.iter().peekable();
        for (layer, sequence) in self.layers.iter_mut().zip(first..) {
            let mut list = RangeTombstoneList::default();
            while let Some((start, end, _)) = all.next_if(|(_, _, number)| *number == layer.number) {
                list.push(start, end, sequence);
            }
            if !list.is_empty() {
                let run = self.writer.write_deleted_ranges(RangeTombstoneIndex::of(&list))?;
                layer.runs.extend(run.map(Arc::new));
            }
        }
        Ok(first + self.count().max(1) - 1)
    }

    /// Drops the unfinished layer, and returns the runs of all others, oldest layer first. Each run
    /// comes with the position of its layer, counted from 0.
    pub fn into_runs(&mut self) -> Vec<(u64, Arc<W::Run>)> {
        self.give_up_newest();
        let layers = (0..).zip(self.layers.drain(..));
        let runs = layers.flat_map(|(place, layer)| layer.runs.into_iter().map(move |run| (place, run)));
        runs.collect()
    }

    /// Discards the unfinished layer and its runs.
    fn give_up_newest(&mut self) {
        self.writer.give_up_run();
        self.last = None;
        self.runs.clear();
    }
}
