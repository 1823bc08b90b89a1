//! An ingest that writes its layers before they are attached to a structure.

use super::layer_merge::{LayerMerge, MergedLayers};
use super::layers::{IngestLayers, LayerWriter};
use crate::contract::{BulkIngest, Dictionary, IngestKeyScan, IngestMerge, StepProgress};
use crate::key::LookupKey;
use crate::lookup_state::LookupState;
use crate::merge::MergeDirection;
use crate::range::KeyRange;
use alluvium_base::{Message, SequenceNumber};
use alluvium_storage::Result;
use parking_lot::Mutex;
use std::sync::Arc;

/// A structure to which finished runs can be attached.
pub trait LayerTarget: Dictionary + Clone + 'static {
    type Writer: LayerWriter + Send + Sync;

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

    /// Does the same as [`BulkIngest::rehearse_attach`], for the given layers.
    ///
    /// # Errors
    /// I/O errors; damage.
    fn rehearse_attach(&self, layers: &IngestLayers<Self::Writer>) -> Result<()> {
        let _ = layers;
        Ok(())
    }

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
    /// The running merges, in the order in which they were started. Each has a lower level than the
    /// ones before it.
    merges: Vec<Arc<MergeTask<T>>>,
    /// Whether a merge has failed since the last layer was added. The next one then waits.
    has_failed: bool,
}

type RunOf<T> = <<T as LayerTarget>::Writer as LayerWriter>::Run;
type MergeOf<T> = <<T as LayerTarget>::Writer as LayerWriter>::Merge;

/// A running merge of layers.
struct MergeTask<T: LayerTarget> {
    into: T,
    numbers: (u64, u64),
    level: u32,
    /// Estimated memory that the merge uses while it runs, in bytes.
    memory_bytes: u64,
    state: Mutex<MergeTaskState<T>>,
}

enum MergeTaskState<T: LayerTarget> {
    Running(MergeOf<T>),
    Done(MergedLayers<RunOf<T>>),
    /// The merge has failed, or its result was installed.
    Ended,
}

impl<T: LayerTarget> std::fmt::Debug for MergeTask<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergeTask")
            .field("numbers", &self.numbers)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl<T: LayerTarget> IngestMerge for MergeTask<T>
where
    MergeOf<T>: Send,
{
    fn step(&self, records: usize) -> Result<StepProgress> {
        let mut state = self.state.lock();
        let MergeTaskState::Running(merge) = &mut *state else {
            return Ok(StepProgress::Done);
        };
        let stepped = merge.step(records);
        match &stepped {
            Ok(StepProgress::More) => {}
            Ok(StepProgress::Done) => {
                let merged = merge.take_result();
                *state = MergeTaskState::Done(merged);
            }
            Err(_) => *state = MergeTaskState::Ended,
        }
        drop(state);
        self.into.poison_on_error(stepped)
    }
}

impl<T: LayerTarget> MergeTask<T> {
    /// Returns whether the merge has ended, with or without a result.
    fn is_over(&self) -> bool {
        let state = self.state.try_lock();
        state.is_some_and(|state| !matches!(*state, MergeTaskState::Running(_)))
    }
}

impl<T: LayerTarget> LayerIngest<T> {
    /// Creates an ingest into the structure `into`. `writer` writes the runs of its layers.
    pub fn new(into: T, writer: T::Writer) -> LayerIngest<T> {
        LayerIngest {
            into,
            layers: IngestLayers::new(writer),
            last: None,
            merges: Vec::new(),
            has_failed: false,
        }
    }

    /// Returns the numbers of the layers that are being merged.
    fn merging(&self) -> Vec<(u64, u64)> {
        self.merges.iter().map(|merge| merge.numbers).collect()
    }

    /// Installs the results of completed merges, and forgets the merges that have failed.
    fn install_merged(&mut self) {
        let (over, running) = self.merges.drain(..).partition(|merge| merge.is_over());
        self.merges = running;
        let over: Vec<Arc<MergeTask<T>>> = over;
        for merge in over {
            let state = std::mem::replace(&mut *merge.state.lock(), MergeTaskState::Ended);
            match state {
                MergeTaskState::Done(MergedLayers { messages, operands }) => {
                    self.layers
                        .replace(merge.numbers, merge.level, messages, operands);
                }
                MergeTaskState::Running(_) | MergeTaskState::Ended => self.has_failed = true,
            }
        }
    }

    /// Ends all merges of layers that are newer than the layer `mark`, without a result. Waits for
    /// slices in progress.
    fn stop_merges(&mut self, mark: u64) {
        for merge in self.merges.extract_if(.., |merge| merge.numbers.1 > mark) {
            *merge.state.lock() = MergeTaskState::Ended;
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
        // Once the layers belong to the structure, it may free their extents, so no merge may still
        // read them.
        self.stop_merges(0);
        if let Some(last) = self.last {
            return Ok(last);
        }
        let last = self.layers.finish(first);
        let last = self.into.poison_on_error(last)?;
        self.last = Some(last);
        Ok(last)
    }
}

impl<T: LayerTarget> Drop for LayerIngest<T> {
    fn drop(&mut self) {
        // Another thread may be running a slice of a merge, which refers to the layers. Their space
        // must be free when the ingest is gone.
        self.stop_merges(0);
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
        self.has_failed = false;
        let ended = self.layers.end_layer();
        self.into.poison_on_error(ended)
    }

    fn layers(&self) -> u64 {
        self.layers.count()
    }

    fn mark(&self) -> u64 {
        self.layers.mark()
    }

    fn protect(&mut self, marks: &[u64]) {
        self.layers.protect(marks);
    }

    fn keep(&mut self, mark: u64) {
        self.stop_merges(mark);
        self.layers.keep(mark);
    }

    fn is_merge_due(&self) -> bool {
        if self.merges.iter().any(|merge| merge.is_over()) {
            return true;
        }
        let lowest = self.merges.last().map_or(u32::MAX, |merge| merge.level);
        let due = self.layers.due_level(&self.merging());
        !self.has_failed && due.is_some_and(|level| level < lowest)
    }

    fn arrange_merges(&mut self) -> Result<()> {
        self.install_merged();
        let lowest = self.merges.last().map_or(u32::MAX, |merge| merge.level);
        let due = self
            .layers
            .due_level(&self.merging())
            .filter(|level| *level < lowest);
        if self.has_failed || due.is_none() {
            return Ok(());
        }
        let Some(group) = self.layers.due_group(&self.merging()) else {
            return Ok(());
        };
        let (numbers, level) = (group.numbers, group.level);
        let begun = self.layers.writer().begin_merge(group);
        let merge = self.into.poison_on_error(begun)?;
        self.merges.push(Arc::new(MergeTask {
            into: self.into.clone(),
            numbers,
            level,
            memory_bytes: merge.memory_bytes(),
            state: Mutex::new(MergeTaskState::Running(merge)),
        }));
        Ok(())
    }

    fn end_merges(&mut self) {
        self.install_merged();
        self.stop_merges(0);
    }

    fn running_merge(&self) -> Option<Arc<dyn IngestMerge>> {
        let running = self.merges.iter().rev().find(|merge| !merge.is_over())?;
        Some(Arc::clone(running) as Arc<dyn IngestMerge>)
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

    fn merging_bytes(&self) -> u64 {
        self.merges.iter().map(|merge| merge.memory_bytes).sum()
    }

    fn rehearse_attach(&self) -> Result<()> {
        self.into.rehearse_attach(&self.layers)
    }

    fn prepare(&mut self, first: SequenceNumber) -> Result<()> {
        self.finish(first).map(drop)
    }

    fn attach(self: Box<Self>, first: SequenceNumber) -> Result<()> {
        LayerIngest::attach(*self, first)
    }
}
