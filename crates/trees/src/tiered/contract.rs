//! Implements `alluvium_dictionary::contract` for the tiered tree.

use super::compact::{Job, Step};
use super::incorporate::{Incorporation, attach_layers};
use super::lookup::Reader;
use super::scan::Iter;
use super::show;
use super::tree::Tree;
use crate::layers::{self, Layers, Writer};
use alluvium_base::Sequence;
use alluvium_dictionary::contract::{self, Dictionary, DistinctKeys, Load, Lookup, Ordered, Progress};
use alluvium_dictionary::cut::Cut;
use alluvium_dictionary::findings::{Checked, Depth, Examined};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::memtables::Memtables;
use alluvium_dictionary::merge::Direction;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::share::Share;
use alluvium_dictionary::versioned::LayerTarget;
use alluvium_storage::Result;
use alluvium_storage::extents::Class;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Dictionary for Tree {
    fn cut(&self) -> Sequence {
        Tree::cut(self)
    }

    fn advance(&self, cut: Sequence) -> Result<()> {
        Tree::advance(self, cut)
    }

    fn incorporate(&self, share: Share, class: Class) -> Result<Box<dyn contract::Incorporate>> {
        Ok(Box::new(self.incorporate_share(share, class)?))
    }

    fn ingest(&self, class: Class) -> Result<Box<dyn contract::Ingest>> {
        Ok(Box::new(Tree::ingest(self, class)?))
    }

    fn next_step(&self) -> Result<Option<Box<dyn contract::Step>>> {
        Ok(match Tree::next_step(self)? {
            None => None,
            Some(step) => Some(Box::new(step)),
        })
    }

    fn compact_part(&self, key: &[u8]) -> Result<()> {
        self.compact_fully(key)
    }

    fn part_end(&self, key: &[u8]) -> Option<Box<[u8]>> {
        self.leaf_range(key).high
    }

    fn set_space_class(&self, class: Class) {
        self.trunk.compact_from(class);
    }

    fn has_pending_work(&self) -> bool {
        self.may_compact()
    }

    /// Computed by the last change; costs one atomic load.
    fn overdue_steps(&self) -> usize {
        self.trunk.totals.due.load(Ordering::Relaxed) as usize
    }

    /// The number of runs on the longest path from the root to a leaf, in percent of the maximum.
    /// Computed by the last change; costs one atomic load.
    fn read_amplification_percent(&self) -> u64 {
        self.trunk.crowding()
    }

    fn prepare(&self) -> Result<()> {
        Tree::prepare(self)
    }

    fn stand(&self) -> Result<Cut<'_>> {
        Tree::stand(self)
    }

    fn examine(
        &self,
        depth: Depth,
        steps: &[&dyn contract::Step],
        durable: Option<&[u8]>,
        tell: &mut dyn FnMut(Checked) -> Result<()>,
    ) -> Result<Examined> {
        let jobs: Vec<u64> = steps.iter().filter_map(|step| step.number()).collect();
        self.examine_with(depth, &jobs, durable, tell)
    }

    fn load(&self) -> Load {
        let debt = self.debt();
        Load {
            memory_bytes: self.memory().total() + self.scans_hold(),
            steps: debt.pending_jobs + debt.running_jobs,
        }
    }

    fn approximate_len(&self, range: &KeyRange) -> Result<u64> {
        Tree::approximate_len(self, range)
    }

    fn distinct_keys(&self) -> Result<DistinctKeys> {
        show::distinct_keys(&self.trunk)
    }

    fn size_on_disk(&self, range: &KeyRange) -> Result<u64> {
        Tree::size_on_disk(self, range)
    }
}

impl contract::Incorporate for Incorporation {
    fn poll(&mut self, records: usize) -> Result<Progress> {
        self.take(records)
    }

    fn publish(&mut self) -> Result<()> {
        Incorporation::publish(self)
    }

    fn taken(&self) -> usize {
        Incorporation::taken(self)
    }
}

impl contract::Step for Step {
    fn poll(&mut self, records: usize) -> Result<Progress> {
        Step::poll(self, records)
    }

    fn number(&self) -> Option<u64> {
        match self {
            Step::Compact(job) => Some(Job::id(job)),
            Step::Reshaped => None,
        }
    }
}

impl Lookup for Tree {
    type Reader<'d> = Reader<'d>;

    #[inline]
    fn reader(&self) -> Reader<'_> {
        Tree::reader(self)
    }
}

impl Ordered for Tree {
    type Scan = Iter;

    fn scan(
        &self,
        memtables: Arc<dyn Memtables>,
        range: KeyRange,
        direction: Direction,
        at: Sequence,
        now_ms: u64,
    ) -> Iter {
        self.iter_with(memtables, range, direction, at, now_ms)
    }
}

impl contract::Scan for Iter {
    fn seek(&mut self, key: &[u8]) {
        Iter::seek(self, key);
    }

    fn leave_out_long_values(&mut self) {
        Iter::leave_out_long_values(self);
    }

    #[inline]
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        Iter::next(self)
    }
}

impl LayerTarget for Tree {
    type Writer = Writer;

    fn judge<T>(&self, result: Result<T>) -> Result<T> {
        self.trunk.judge(result)
    }

    fn gather(&self, layers: &Layers, key: Key<'_>, gather: &mut Gather<'_>) -> Result<()> {
        layers::gather(layers, key, gather)
    }

    fn walk(&self, layers: &Layers, range: &KeyRange, direction: Direction) -> Box<dyn contract::Walk> {
        Box::new(layers::walk(layers, range, direction))
    }

    fn writing_bytes(&self, layers: &Layers) -> u64 {
        layers::writing_bytes(layers)
    }

    fn attach(&self, layers: &mut Layers, first: Sequence, last: Sequence) -> Result<()> {
        attach_layers(&self.trunk, layers, first, last)
    }
}
