//! An ingest whose layers are written before its structure takes them.

use super::layers::{IngestLayers, LayerWriter};
use crate::contract::{Dictionary, Ingest, Walk};
use crate::gather::Gather;
use crate::key::Key;
use crate::merge::Direction;
use crate::range::KeyRange;
use alluvium_base::{Message, Sequence};
use alluvium_storage::Result;

/// A structure that takes runs that were written before.
pub trait LayerTarget: Dictionary {
    /// Writes the runs.
    type Writer: LayerWriter<Run: Send + Sync> + Send + Sync;

    /// Passes the result of a write on, and shows a failed one to the store.
    ///
    /// # Errors
    /// That of `result`.
    fn judge<T>(&self, result: Result<T>) -> Result<T>;

    /// As [`Ingest::gather`].
    ///
    /// # Errors
    /// As the device says; damage.
    fn gather(
        &self,
        layers: &IngestLayers<Self::Writer>,
        key: Key<'_>,
        gather: &mut Gather<'_>,
    ) -> Result<()>;

    /// As [`Ingest::walk`].
    fn walk(
        &self,
        layers: &IngestLayers<Self::Writer>,
        range: &KeyRange,
        direction: Direction,
    ) -> Box<dyn Walk>;

    /// Returns how many bytes of memory the run that is being written takes.
    fn writing_bytes(&self, layers: &IngestLayers<Self::Writer>) -> u64;

    /// Makes layers that are written part of the structure, as the commits from `first` to `last`.
    /// `first` follows its cut.
    ///
    /// # Errors
    /// A full disk, and as the device says: nothing has changed then.
    fn attach(&self, layers: &mut IngestLayers<Self::Writer>, first: Sequence, last: Sequence) -> Result<()>;
}

/// Messages that come in layers, on their way into a structure. Each push is a slice of the work;
/// between two of them, and from one thread to another, it can be kept as long as one likes.
/// Dropped, it leaves nothing behind, and nor does a crash before it is attached.
///
/// The sequence numbers of its messages are known only when it is attached.
#[derive(Debug)]
pub struct LayerIngest<T: LayerTarget> {
    into: T,
    layers: IngestLayers<T::Writer>,
    /// The last commit, once all is written.
    last: Option<Sequence>,
}

impl<T: LayerTarget> LayerIngest<T> {
    /// Begins an ingest into a structure, for which `writer` writes the runs.
    pub fn new(into: T, writer: T::Writer) -> LayerIngest<T> {
        LayerIngest {
            into,
            layers: IngestLayers::new(writer),
            last: None,
        }
    }

    /// As [`Ingest::attach`]. What was added since a layer has ended is one more.
    ///
    /// # Errors
    /// As [`LayerTarget::attach`].
    ///
    /// # Panics
    /// When `first` does not follow the structure's cut.
    pub fn attach(mut self, first: Sequence) -> Result<()> {
        assert_eq!(
            self.into.cut() + 1,
            first,
            "an ingest is attached when all that was written before is in the structure"
        );
        let last = self.finish(first)?;
        let attached = self.into.attach(&mut self.layers, first, last);
        self.into.judge(attached)
    }

    /// Writes what is not written yet.
    fn finish(&mut self, first: Sequence) -> Result<Sequence> {
        if let Some(last) = self.last {
            return Ok(last);
        }
        let last = self.layers.finish(first);
        let last = self.into.judge(last)?;
        self.last = Some(last);
        Ok(last)
    }
}

impl<T: LayerTarget> Ingest for LayerIngest<T> {
    fn push(&mut self, key: &[u8], message: Message<'_>) -> Result<()> {
        let pushed = self.layers.push(key, message);
        self.into.judge(pushed)
    }

    fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.layers.delete_range(start, end);
    }

    fn end_layer(&mut self) -> Result<()> {
        let ended = self.layers.end_layer();
        self.into.judge(ended)
    }

    fn layers(&self) -> u64 {
        self.layers.count()
    }

    fn keep(&mut self, layers: u64) {
        self.layers.keep(layers);
    }

    fn gather(&self, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
        self.into.gather(&self.layers, key, gather)
    }

    fn walk(&self, range: &KeyRange, direction: Direction) -> Box<dyn Walk> {
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

    fn prepare(&mut self, first: Sequence) -> Result<()> {
        self.finish(first).map(drop)
    }

    fn attach(self: Box<Self>, first: Sequence) -> Result<()> {
        LayerIngest::attach(*self, first)
    }
}
