//! Layers of runs that are written before they become part of a structure.
//!
//! A layer is a list of runs. For each key, a newer layer hides the data of older ones. Range
//! deletes are kept in memory until the layers are attached.
//!
//! Invariants:
//!
//! - **Y1** The extents of layers are provisional. A crash frees them, and so does
//!   [`IngestLayers::keep`] if it drops their layers.
//! - **Y2** Within a layer, each key is in at most one run and has at most one message.
//! - **Y3** A layer contains either runs or range deletes, but not both.

use crate::range_tombstones::{RangeTombstoneIndex, RangeTombstoneList};
use alluvium_base::{Message, SequenceNumber};
use alluvium_storage::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// A writer of the runs that make up layers.
pub trait LayerWriter: fmt::Debug {
    /// A finished run that does not belong to a structure yet.
    type Run: fmt::Debug;

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

    /// Discards a finished run and frees its space.
    fn abandon(&self, run: Self::Run);

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
struct IngestLayer<R> {
    runs: Vec<R>,
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

impl<W: LayerWriter> IngestLayers<W> {
    /// Creates an ingest without layers, whose runs `writer` writes.
    #[must_use]
    pub fn new(writer: W) -> IngestLayers<W> {
        IngestLayers {
            writer,
            layers: Vec::new(),
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
        self.list.push(start, end, self.count() + 1);
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
        self.layers.push(IngestLayer {
            runs: std::mem::take(&mut self.runs),
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

    /// Drops the newest layers, including the unfinished one, and keeps the `layers` oldest ones.
    pub fn keep(&mut self, layers: u64) {
        self.give_up_newest();
        let layers = usize::try_from(layers).unwrap_or(usize::MAX);
        while self.layers.len() > layers {
            let dropped = self.layers.pop().expect("there are more");
            self.abandon(dropped.runs);
        }
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
        let runs = ended.chain(&self.runs).map(W::memory_bytes);
        runs.sum::<u64>() + 2 * self.deletes.memory_bytes() as u64
    }

    /// Returns the runs of each finished layer, oldest layer first, with the layer number that
    /// readers see, counted from 1.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = (SequenceNumber, &[W::Run])> {
        let layers = self.layers.iter().enumerate();
        layers.map(|(place, layer)| (place as u64 + 1, &*layer.runs))
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
        for (layer, (seen, sequence)) in self.layers.iter_mut().zip((1..).zip(first..)) {
            let mut list = RangeTombstoneList::default();
            while let Some((start, end, _)) = all.next_if(|(_, _, layer)| *layer == seen) {
                list.push(start, end, sequence);
            }
            if !list.is_empty() {
                let run = self.writer.write_deleted_ranges(RangeTombstoneIndex::of(&list))?;
                layer.runs.extend(run);
            }
        }
        Ok(first + self.count().max(1) - 1)
    }

    /// Hands the runs of finished layers and their extents over to the caller, oldest layer first.
    /// Each run comes with the number of its layer, counted from 0.
    pub fn hand_over(&mut self) -> Vec<(u64, W::Run)> {
        self.give_up_newest();
        let layers = (0..).zip(self.layers.drain(..));
        let runs = layers.flat_map(|(number, layer)| layer.runs.into_iter().map(move |run| (number, run)));
        runs.collect()
    }

    /// Discards the unfinished layer and its runs.
    fn give_up_newest(&mut self) {
        self.writer.give_up_run();
        self.last = None;
        let runs = std::mem::take(&mut self.runs);
        self.abandon(runs);
    }

    fn abandon(&self, runs: Vec<W::Run>) {
        runs.into_iter().for_each(|run| self.writer.abandon(run));
    }
}

impl<W: LayerWriter> Drop for IngestLayers<W> {
    fn drop(&mut self) {
        self.keep(0);
        assert!(self.runs.is_empty(), "what is dropped keeps no extents (Y1)");
    }
}
