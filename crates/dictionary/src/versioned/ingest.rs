//! An ingest that writes its layers before they are attached to a structure.

use super::layers::{IngestLayers, LayerWriter};
use crate::contract::{BulkIngest, Dictionary, IngestKeyScan};
use crate::key::LookupKey;
use crate::lookup_state::LookupState;
use crate::merge::MergeDirection;
use crate::range::KeyRange;
use alluvium_base::{Message, SequenceNumber};
use alluvium_storage::Result;

/// A structure to which finished runs can be attached.
pub trait LayerTarget: Dictionary {
    type Writer: LayerWriter<Run: Send + Sync> + Send + Sync;

    /// Returns `result`. If it is the error of a failed write, also reports it to the store.
    ///
    /// # Errors
    /// The error in `result`.
    fn poison_on_error<T>(&self, result: Result<T>) -> Result<T>;

    /// Like [`BulkIngest::gather`], but for the given layers.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn gather(
        &self,
        layers: &IngestLayers<Self::Writer>,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
    ) -> Result<()>;

    /// Like [`BulkIngest::walk`], but for the given layers.
    fn walk(
        &self,
        layers: &IngestLayers<Self::Writer>,
        range: &KeyRange,
        direction: MergeDirection,
    ) -> Box<dyn IngestKeyScan>;

    /// Returns the memory used by the unfinished run, in bytes.
    fn writing_bytes(&self, layers: &IngestLayers<Self::Writer>) -> u64;

    /// Attaches the finished layers to the structure as the commits from `first` to `last`. `first`
    /// must follow the structure's cut.
    ///
    /// # Errors
    /// A full disk; I/O errors. After an error, the structure is unchanged.
    fn attach(
        &self,
        layers: &mut IngestLayers<Self::Writer>,
        first: SequenceNumber,
        last: SequenceNumber,
    ) -> Result<()>;
}

/// An ingest of messages into a structure, in layers. Each push does a bounded amount of work.
/// Between two pushes, the ingest may be kept for any length of time or sent to another thread. If
/// it is dropped before it is attached, or the process crashes, its space is freed.
///
/// The messages receive their sequence numbers when the ingest is attached.
#[derive(Debug)]
pub struct LayerIngest<T: LayerTarget> {
    into: T,
    layers: IngestLayers<T::Writer>,
    /// Sequence number of the ingest's last commit, or `None` until all data has been written.
    last: Option<SequenceNumber>,
}

impl<T: LayerTarget> LayerIngest<T> {
    /// Creates an ingest into the structure `into`. `writer` writes the runs of its layers.
    pub fn new(into: T, writer: T::Writer) -> LayerIngest<T> {
        LayerIngest {
            into,
            layers: IngestLayers::new(writer),
            last: None,
        }
    }

    /// Attaches the ingest like [`BulkIngest::attach`], finishing an unfinished layer first.
    ///
    /// # Errors
    /// The same errors as [`LayerTarget::attach`].
    ///
    /// # Panics
    /// If `first` does not follow the structure's cut.
    pub fn attach(mut self, first: SequenceNumber) -> Result<()> {
        assert_eq!(
            self.into.cut() + 1,
            first,
            "an ingest is attached when all that was written before is in the structure"
        );
        let last = self.finish(first)?;
        let attached = self.into.attach(&mut self.layers, first, last);
        self.into.poison_on_error(attached)
    }

    /// On the first call, writes all pending data of the ingest. Returns the sequence number of its
    /// last commit.
    fn finish(&mut self, first: SequenceNumber) -> Result<SequenceNumber> {
        if let Some(last) = self.last {
            return Ok(last);
        }
        let last = self.layers.finish(first);
        let last = self.into.poison_on_error(last)?;
        self.last = Some(last);
        Ok(last)
    }
}

impl<T: LayerTarget> BulkIngest for LayerIngest<T> {
    fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        let pushed = self.layers.push(key, message);
        self.into.poison_on_error(pushed)
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.layers.delete_range(start, end);
    }

    fn end_layer(&mut self) -> Result<()> {
        let ended = self.layers.end_layer();
        self.into.poison_on_error(ended)
    }

    fn layers(&self) -> u64 {
        self.layers.count()
    }

    fn keep(&mut self, layers: u64) {
        self.layers.keep(layers);
    }

    fn gather(&self, key: LookupKey<'_>, gather: &mut LookupState<'_>) -> Result<()> {
        self.into.gather(&self.layers, key, gather)
    }

    fn walk(&self, range: &KeyRange, direction: MergeDirection) -> Box<dyn IngestKeyScan> {
        self.into.walk(&self.layers, range, direction)
    }

    fn records(&self) -> u64 {
        self.layers.records()
    }

    fn bytes(&self) -> u64 {
        self.layers.bytes()
    }

    fn memory_bytes(&self) -> u64 {
        self.layers.memory_bytes() + self.into.writing_bytes(&self.layers)
    }

    fn prepare(&mut self, first: SequenceNumber) -> Result<()> {
        self.finish(first).map(drop)
    }

    fn attach(self: Box<Self>, first: SequenceNumber) -> Result<()> {
        LayerIngest::attach(*self, first)
    }
}
