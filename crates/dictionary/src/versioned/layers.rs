//! Layers of runs that are written for a structure, and are part of none yet.
//!
//! A layer is a list of runs. A newer layer hides what older ones have of its keys. Deleted ranges
//! are kept in memory until the layers are attached.
//!
//! Invariants:
//!
//! - **Y1** Extents of layers are provisional: a crash frees them, and so does
//!   [`IngestLayers::keep`].
//! - **Y2** A key is in at most one run of a layer, with one message.
//! - **Y3** A layer has either runs or deleted ranges.

use crate::deletes::{List, RangeDeletes};
use alluvium_base::{Message, Sequence};
use alluvium_storage::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Writes the runs of layers, one after another.
pub trait LayerWriter: fmt::Debug {
    /// A run that is written, and part of no structure yet.
    type Run: fmt::Debug;

    /// Adds a message to the run that is being written. Keys ascend. A run that is full is ended
    /// before or after that, and goes to `written`.
    ///
    /// # Errors
    /// A full disk, and as the device says.
    fn push(&mut self, key: &[u8], message: Message<'_>, written: &mut Vec<Self::Run>) -> Result<()>;

    /// Ends the run that is being written, if there is one.
    ///
    /// # Errors
    /// As [`LayerWriter::push`].
    fn end_run(&mut self, written: &mut Vec<Self::Run>) -> Result<()>;

    /// Gives up the run that is being written.
    fn give_up_run(&mut self);

    /// Writes a run of deleted ranges.
    ///
    /// # Errors
    /// As [`LayerWriter::push`].
    fn write_deleted_ranges(&mut self, deletes: RangeDeletes) -> Result<Option<Self::Run>>;

    /// Gives a run up: nothing of it is left.
    fn abandon(&self, run: Self::Run);

    /// Returns the bytes of memory that a run takes.
    fn memory_bytes(run: &Self::Run) -> u64;
}

/// How much was taken.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    records: u64,
    bytes: u64,
}

/// A layer that has ended.
#[derive(Debug)]
struct Layer<R> {
    runs: Vec<R>,
    /// How many deleted ranges there were up to its end.
    deletes: usize,
    /// What all layers up to its end came to.
    taken: Taken,
}

/// The layers of an ingest. Dropped, they leave nothing behind.
#[derive(Debug)]
pub struct IngestLayers<W: LayerWriter> {
    writer: W,
    layers: Vec<Layer<W::Run>>,
    /// All deleted ranges, in their order; their numbers are those that readers see.
    list: List,
    /// Those of ended layers.
    deletes: Arc<RangeDeletes>,
    /// The runs of the newest layer that are written.
    runs: Vec<W::Run>,
    /// The last key of the newest layer.
    last: Option<Vec<u8>>,
    taken: Taken,
}

impl<W: LayerWriter> IngestLayers<W> {
    /// Creates an ingest without layers, whose runs `writer` writes.
    #[must_use]
    pub fn new(writer: W) -> IngestLayers<W> {
        IngestLayers {
            writer,
            layers: Vec::new(),
            list: List::default(),
            deletes: Arc::default(),
            runs: Vec::new(),
            last: None,
            taken: Taken::default(),
        }
    }

    /// Returns what writes its runs.
    pub fn writer(&self) -> &W {
        &self.writer
    }

    /// Adds a message to the newest layer.
    ///
    /// # Errors
    /// [`Error::BadOption`] when the key is not above the one before; nothing was taken then.
    /// [`Error::Full`], and as the device says: the layers can only be dropped then.
    pub fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        if let Some(last) = self.last.as_deref().filter(|last| *last >= key) {
            let (key, last) = (key.escape_ascii(), last.escape_ascii());
            return Err(Error::BadOption {
                option: "order of an ingest's keys",
                why: format!(
                    "\"{key}\" comes after \"{last}\": sort them, and leave out all but one of equal ones"
                ),
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
    /// When the layer has messages (Y3).
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        assert!(
            self.last.is_none(),
            "a layer has either messages or deleted ranges (Y3)"
        );
        self.list.push(start, end, self.count() + 1);
    }

    /// Ends the newest layer.
    ///
    /// # Errors
    /// As [`IngestLayers::push`].
    pub fn end_layer(&mut self) -> Result<()> {
        self.writer.end_run(&mut self.runs)?;
        let has_deletes = self.list.len() > self.ended_deletes();
        assert!(
            self.runs.is_empty() || !has_deletes,
            "a layer has either messages or deleted ranges (Y3)"
        );
        if has_deletes {
            self.deletes = Arc::new(RangeDeletes::of(&self.list));
        }
        self.layers.push(Layer {
            runs: std::mem::take(&mut self.runs),
            deletes: self.list.len(),
            taken: self.taken,
        });
        self.last = None;
        Ok(())
    }

    /// Returns whether anything was added since the last layer has ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.last.is_some() || self.list.len() > self.ended_deletes()
    }

    /// Returns how many deleted ranges ended layers have.
    fn ended_deletes(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.deletes)
    }

    /// Returns how many layers have ended.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.layers.len() as u64
    }

    /// Drops all but the `layers` oldest layers, and what was added since the last has ended.
    pub fn keep(&mut self, layers: u64) {
        self.give_up_newest();
        let layers = usize::try_from(layers).unwrap_or(usize::MAX);
        while self.layers.len() > layers {
            let dropped = self.layers.pop().expect("there are more");
            self.abandon(dropped.runs);
        }
        self.taken = self.layers.last().map_or(Taken::default(), |layer| layer.taken);
        let deletes = self.ended_deletes();
        if self.list.len() > deletes {
            let mut list = List::default();
            for (start, end, sequence) in self.list.iter().take(deletes) {
                list.push(start, end, sequence);
            }
            self.list = list;
            self.deletes = Arc::new(RangeDeletes::of(&self.list));
        }
    }

    /// Returns how many messages were taken.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.taken.records
    }

    /// Returns how many bytes of keys and values were taken.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.taken.bytes
    }

    /// Returns the bytes of memory that written runs and deleted ranges take.
    pub fn memory_bytes(&self) -> u64 {
        let ended = self.layers.iter().flat_map(|layer| &layer.runs);
        let runs = ended.chain(&self.runs).map(W::memory_bytes);
        runs.sum::<u64>() + 2 * self.deletes.memory_bytes() as u64
    }

    /// Returns the runs of each ended layer, the oldest layer first, with the number under which
    /// readers see it: from 1 on.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = (Sequence, &[W::Run])> {
        let layers = self.layers.iter().enumerate();
        layers.map(|(place, layer)| (place as u64 + 1, &*layer.runs))
    }

    /// Returns the deleted ranges of ended layers.
    pub fn deletes(&self) -> &Arc<RangeDeletes> {
        &self.deletes
    }

    /// Ends the layers before they are attached as the commits from `first` on: what was added
    /// since the last has ended is one more. Deleted ranges are written to runs of their layers.
    /// Returns the last commit.
    ///
    /// # Errors
    /// As [`IngestLayers::push`].
    pub fn finish(&mut self, first: Sequence) -> Result<Sequence> {
        if self.is_open() {
            self.end_layer()?;
        }
        let mut all = self.list.iter().peekable();
        for (layer, (seen, sequence)) in self.layers.iter_mut().zip((1..).zip(first..)) {
            let mut list = List::default();
            while let Some((start, end, _)) = all.next_if(|(_, _, layer)| *layer == seen) {
                list.push(start, end, sequence);
            }
            if !list.is_empty() {
                let run = self.writer.write_deleted_ranges(RangeDeletes::of(&list))?;
                layer.runs.extend(run);
            }
        }
        Ok(first + self.count().max(1) - 1)
    }

    /// Hands the runs of ended layers over, the oldest layer first, each with the number of its
    /// layer: from 0 on. Their extents are the caller's.
    pub fn hand_over(&mut self) -> Vec<(u64, W::Run)> {
        self.give_up_newest();
        let layers = (0..).zip(self.layers.drain(..));
        let runs = layers.flat_map(|(number, layer)| layer.runs.into_iter().map(move |run| (number, run)));
        runs.collect()
    }

    /// Gives up what was added since the last layer has ended.
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
