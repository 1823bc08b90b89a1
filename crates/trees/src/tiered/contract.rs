//! Implements `alluvium_dictionary::contract` for the tiered tree.

use super::compact::{CompactionJob, TreeStep};
use super::incorporate::{TreeIncorporation, attach_layers, rehearse_attach};
use super::lookup::TreeReader;
use super::scan::TreeIter;
use super::show;
use super::tree::TieredTree;
use crate::ingest_layers::{self, IngestRunLayers, LayerRunWriter};
use alluvium_base::SequenceNumber;
use alluvium_dictionary::check_report::{CheckLevel, CheckProgress, StructureCheckReport};
use alluvium_dictionary::checkpoint_root::CheckpointRoot;
use alluvium_dictionary::contract::{
    self, Dictionary, DistinctKeys, OrderedDictionary, PendingWork, PointLookup, StepProgress,
};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtable_slice::MemtableSlice;
use alluvium_dictionary::memtables::MemtableOwner;
use alluvium_dictionary::merge::MergeDirection;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::versioned::LayerTarget;
use alluvium_storage::Result;
use alluvium_storage::extents::AllocationClass;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Dictionary for TieredTree {
    fn cut(&self) -> SequenceNumber {
        TieredTree::cut(self)
    }

    fn advance(&self, cut: SequenceNumber) -> Result<()> {
        TieredTree::advance(self, cut)
    }

    fn incorporate(
        &self,
        share: MemtableSlice,
        class: AllocationClass,
    ) -> Result<Box<dyn contract::MemtableIncorporation>> {
        Ok(Box::new(self.incorporate_share(share, class)?))
    }

    fn ingest(&self, class: AllocationClass) -> Result<Box<dyn contract::BulkIngest>> {
        Ok(Box::new(TieredTree::ingest(self, class)?))
    }

    fn next_step(&self) -> Result<Option<Box<dyn contract::MaintenanceStep>>> {
        Ok(match TieredTree::next_step(self)? {
            None => None,
            Some(step) => Some(Box::new(step)),
        })
    }

    fn compact_part(&self, key: &[u8]) -> Result<()> {
        self.compact_fully(key)
    }

    fn next_boundary(&self, key: &[u8]) -> Option<Box<[u8]>> {
        self.leaf_range(key).high
    }

    fn set_space_class(&self, class: AllocationClass) {
        self.trunk.compact_from(class);
    }

    fn has_pending_work(&self) -> bool {
        self.may_compact()
    }

    /// The number of due and running compactions. Each change to the trunk recomputes it, so
    /// reading it costs one atomic load.
    fn overdue_steps(&self) -> usize {
        self.trunk.totals.due.load(Ordering::Relaxed) as usize
    }

    /// The number of runs on the longest path from the root to a leaf, in percent of the maximum.
    /// Each change to the trunk recomputes it, so reading it costs one atomic load.
    fn read_amplification_percent(&self) -> u64 {
        self.trunk.crowding()
    }

    fn prepare(&self) -> Result<()> {
        TieredTree::prepare(self)
    }

    fn checkpoint_root(&self) -> Result<CheckpointRoot<'_>> {
        TieredTree::checkpoint_root(self)
    }

    fn check(
        &self,
        depth: CheckLevel,
        steps: &[&dyn contract::MaintenanceStep],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(CheckProgress) -> Result<()>,
    ) -> Result<StructureCheckReport> {
        let jobs: Vec<u64> = steps.iter().filter_map(|step| step.number()).collect();
        self.examine_with(depth, &jobs, durable, tell)
    }

    fn pending_work(&self) -> PendingWork {
        let debt = self.debt();
        PendingWork {
            memory_bytes: self.memory().total() + self.scans_hold(),
            steps: debt.pending_jobs + debt.running_jobs,
        }
    }

    fn approximate_len(&self, range: &KeyRange) -> Result<u64> {
        TieredTree::approximate_len(self, range)
    }

    fn distinct_keys(&self) -> Result<DistinctKeys> {
        show::distinct_keys(&self.trunk)
    }

    fn size_on_disk(&self, range: &KeyRange) -> Result<u64> {
        TieredTree::size_on_disk(self, range)
    }
}

impl contract::MemtableIncorporation for TreeIncorporation {
    fn poll(&mut self, records: usize) -> Result<StepProgress> {
        self.take(records)
    }

    fn publish(&mut self) -> Result<()> {
        TreeIncorporation::publish(self)
    }

    fn taken(&self) -> usize {
        TreeIncorporation::taken(self)
    }
}

impl contract::MaintenanceStep for TreeStep {
    fn poll(&mut self, records: usize) -> Result<StepProgress> {
        TreeStep::poll(self, records)
    }

    fn number(&self) -> Option<u64> {
        match self {
            TreeStep::Compact(job) => Some(CompactionJob::id(job)),
            TreeStep::Reshaped => None,
        }
    }
}

impl PointLookup for TieredTree {
    type Reader<'d> = TreeReader<'d>;

    #[inline]
    fn reader(&self) -> TreeReader<'_> {
        TieredTree::reader(self)
    }
}

impl OrderedDictionary for TieredTree {
    type Scan = TreeIter;

    fn scan(
        &self,
        memtables: Arc<dyn MemtableOwner>,
        range: KeyRange,
        direction: MergeDirection,
        at: SequenceNumber,
        now_ms: u64,
    ) -> TreeIter {
        self.iter_with(memtables, range, direction, at, now_ms)
    }
}

impl contract::DictionaryScan for TreeIter {
    fn seek(&mut self, key: &[u8]) {
        TreeIter::seek(self, key);
    }

    fn leave_out_long_values(&mut self) {
        TreeIter::leave_out_long_values(self);
    }

    fn expect_bytes(&mut self, bytes: usize) {
        TreeIter::expect_bytes(self, bytes);
    }

    #[inline]
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        TreeIter::next(self)
    }
}

impl LayerTarget for TieredTree {
    type Writer = LayerRunWriter;

    fn poison_on_error<T>(&self, result: Result<T>) -> Result<T> {
        self.trunk.poison_on_error(result)
    }

    fn gather(
        &self,
        layers: &IngestRunLayers,
        key: LookupKey<'_>,
        gather: &mut LookupState<'_>,
    ) -> Result<()> {
        ingest_layers::gather(layers, key, gather)
    }

    fn walk(
        &self,
        layers: &IngestRunLayers,
        range: &KeyRange,
        direction: MergeDirection,
    ) -> Box<dyn contract::IngestKeyScan> {
        Box::new(ingest_layers::walk(layers, range, direction))
    }

    fn writing_bytes(&self, layers: &IngestRunLayers) -> u64 {
        ingest_layers::writing_bytes(layers)
    }

    fn rehearse_attach(&self, layers: &IngestRunLayers) -> Result<()> {
        rehearse_attach(&self.trunk, layers)
    }

    fn attach(
        &self,
        layers: &mut IngestRunLayers,
        first: SequenceNumber,
        last: SequenceNumber,
    ) -> Result<()> {
        attach_layers(&self.trunk, layers, first, last)
    }
}
