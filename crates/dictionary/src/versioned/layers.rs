//! Layers of runs that are written for a structure before they become part of it.
//!
//! A layer is a list of runs. A newer layer hides older data of its keys. Deleted ranges are kept
//! in memory until the layers are attached.
//!
//! Invariants:
//!
//! - **Y1** Extents of layers are provisional: a crash frees them, and so does
//!   [`IngestLayers::keep`].
//! - **Y2** A key is in at most one run of a layer, with one message.
//! - **Y3** A layer has either runs or deleted ranges.

use crate::range_tombstones::{RangeTombstoneIndex, RangeTombstoneList};
use alluvium_base::{Message, SequenceNumber};
use alluvium_storage::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Writer of the runs of layers.
pub trait LayerWriter: fmt::Debug {
    /// A finished run that is not part of a structure yet.
    type Run: fmt::Debug;

    /// Adds a message to the current run. Keys must be ascending. If the run becomes full, it is
    /// finished before or after that and added to `written`.
    ///
    /// # Errors
    /// A full disk; I/O errors.
    fn push(&mut self, key: &[u8], message: Message<'_>, written: &mut Vec<Self::Run>) -> Result<()>;

    /// Finishes the current run, if there is one.
    ///
    /// # Errors
    /// The same as [`LayerWriter::push`].
    fn end_run(&mut self, written: &mut Vec<Self::Run>) -> Result<()>;

    /// Discards the current run, if there is one.
    fn give_up_run(&mut self);

    /// Writes a run of deleted ranges.
    ///
    /// # Errors
    /// The same as [`LayerWriter::push`].
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

/// A layer to which no more records are added.
#[derive(Debug)]
struct IngestLayer<R> {
    runs: Vec<R>,
    /// Number of deleted ranges in this and all older layers.
    deletes: usize,
    /// Totals of this and all older layers.
    taken: LayerTotals,
}

/// The layers of an ingest. If they are dropped before they are attached, their space is freed.
#[derive(Debug)]
pub struct IngestLayers<W: LayerWriter> {
    writer: W,
    layers: Vec<IngestLayer<W::Run>>,
    /// All deleted ranges in order; their sequence numbers are the layer numbers that readers see.
    list: RangeTombstoneList,
    /// Index of the deleted ranges in finished layers.
    deletes: Arc<RangeTombstoneIndex>,
    /// Finished runs of the newest layer.
    runs: Vec<W::Run>,
    /// Last key of the newest layer.
    last: Option<Vec<u8>>,
    taken: LayerTotals,
}

impl<W: LayerWriter> IngestLayers<W> {
    /// Creates an ingest without layers, whose runs are written by `writer`.
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
    /// [`Error::BadOption`] if the key is not greater than the previous one; the message is not
    /// added then. After [`Error::Full`] and I/O errors the layers can only be dropped.
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

    /// Adds a deleted range to the newest layer.
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
    /// The same as [`IngestLayers::push`].
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

    /// Returns whether the newest layer has data and is not finished.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.last.is_some() || self.list.len() > self.ended_deletes()
    }

    /// Returns the number of deleted ranges in finished layers.
    fn ended_deletes(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.deletes)
    }

    /// Returns the number of finished layers.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.layers.len() as u64
    }

    /// Drops all but the `layers` oldest layers, including the unfinished one.
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

    /// Returns the number of messages added.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.taken.records
    }

    /// Returns the bytes of keys and values added.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.taken.bytes
    }

    /// Returns the memory used by finished runs and deleted ranges, in bytes.
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

    /// Returns the deleted ranges of finished layers.
    pub fn deletes(&self) -> &Arc<RangeTombstoneIndex> {
        &self.deletes
    }

    /// Finishes the layers before they are attached as the commits from `first` on, including the
    /// newest one if it has data. Deleted ranges are written to runs of their layers. Returns the
    /// last commit.
    ///
    /// # Errors
    /// The same as [`IngestLayers::push`].
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

    /// Passes ownership of the runs of finished layers and of their extents to the caller, oldest
    /// layer first, each with its layer number, counted from 0.
    pub fn hand_over(&mut self) -> Vec<(u64, W::Run)> {
        self.give_up_newest();
        let layers = (0..).zip(self.layers.drain(..));
        let runs = layers.flat_map(|(number, layer)| layer.runs.into_iter().map(move |run| (number, run)));
        runs.collect()
    }

    /// Discards the unfinished layer and the runs written for it.
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
