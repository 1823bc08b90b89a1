//! Lookups in the trees of a part: level by level, from the newest leaf to the oldest.

use super::run::{RunLookupKey, find};
use super::state::{HashPartition, PartitionLevel};
use super::trees::{LevelTree, TreeDescent};
use alluvium_dictionary::fetch::NodeFetch;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::record::StoredRecord;
use alluvium_dictionary::value_log;
use alluvium_storage::Result;
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// Position of a search in a part's trees.
#[derive(Debug, Default)]
pub(super) struct TreeSearchPosition {
    /// Number of levels that were searched completely.
    level: usize,
    descent: TreeDescent,
    /// Result of the search in the level's tree, once known: the next leaf, or the end.
    next: Option<Option<usize>>,
    /// Number of the level's newest leaves whose range deletes were applied.
    applied_leaves: usize,
    /// Number of the next leaf's records already processed.
    records: usize,
}

impl TreeSearchPosition {
    /// Passes the records of a key in the leaves of a part to `gather`. If a node is missing, the
    /// search is pending, and a further call continues at the same position.
    pub(super) fn search<F: NodeFetch>(
        &mut self,
        part: &HashPartition,
        wanted: RunLookupKey<'_>,
        gather: &mut LookupState<'_>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        while let Some(level) = part.levels.get(self.level) {
            if gather.is_decided() {
                return Poll::Ready(Ok(()));
            }
            if let Some(tree) = &level.tree {
                ready!(self.level(level, tree, wanted, gather, fetch))?;
            }
            let level = self.level + 1;
            *self = TreeSearchPosition {
                level,
                ..TreeSearchPosition::default()
            };
        }
        Poll::Ready(Ok(()))
    }

    fn level<F: NodeFetch>(
        &mut self,
        level: &PartitionLevel,
        tree: &LevelTree,
        wanted: RunLookupKey<'_>,
        gather: &mut LookupState<'_>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        loop {
            if gather.is_decided() {
                return Poll::Ready(Ok(()));
            }
            let next = match self.next {
                Some(next) => next,
                None => ready!(self.descent.next(&tree.root, wanted.hash, fetch))?,
            };
            self.next = Some(next);
            self.apply_range_deletes(level, tree, next.unwrap_or(0), wanted, gather);
            let Some(leaf) = next else {
                return Poll::Ready(Ok(()));
            };
            if !gather.is_decided() {
                ready!(self.read(level, leaf, wanted, gather, fetch))?;
            }
            self.next = None;
            self.records = 0;
        }
    }

    /// Applies the range deletes of leaves down to `until`, including leaves that do not contain
    /// the key.
    fn apply_range_deletes(
        &mut self,
        level: &PartitionLevel,
        tree: &LevelTree,
        until: usize,
        wanted: RunLookupKey<'_>,
        gather: &mut LookupState<'_>,
    ) {
        let above = level.runs.len().saturating_sub(self.applied_leaves);
        let wants = until..above;
        for &leaf in tree.deleting.iter().rev().filter(|leaf| wants.contains(*leaf)) {
            let deletes = level.runs[leaf].run.range_deletes();
            gather.range_deleted(deletes.covering(wanted.bytes, gather.known.at()));
        }
        self.applied_leaves = level.runs.len() - until.min(above);
    }

    fn read<F: NodeFetch>(
        &mut self,
        level: &PartitionLevel,
        leaf: usize,
        wanted: RunLookupKey<'_>,
        gather: &mut LookupState<'_>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let LookupState { operator, known } = gather;
        // Skip records that were processed before a node was missing.
        let (mut taken, records) = (self.records, &mut self.records);
        let mut visit = |record: StoredRecord<'_>| {
            if taken > 0 {
                taken -= 1;
                return Poll::Ready(Ok(ControlFlow::Continue(())));
            }
            let flow = ready!(known.record(&record, *operator, |pointer, room| {
                value_log::fetch_value(fetch, pointer, room)
            }))?;
            *records += 1;
            Poll::Ready(Ok(flow))
        };
        find(&level.runs[leaf].run, wanted, fetch, &mut visit)
    }
}
