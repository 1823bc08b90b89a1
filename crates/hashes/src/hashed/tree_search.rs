//! Lookups in the routing trees of a part. Levels, and the leaves of each level, are searched from
//! newest to oldest.

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

/// Position of a lookup in the trees of a part, at which it continues after waiting for a node.
#[derive(Debug, Default)]
pub(super) struct TreeSearchPosition {
    /// Number of levels that have been searched completely.
    level: usize,
    descent: TreeDescent,
    /// Result of the descent in the current level's tree: the next leaf to read, or `Some(None)` if
    /// there are no more. `None` if it is not known yet.
    next: Option<Option<usize>>,
    /// Number of the level's newest leaves whose range deletes have been applied.
    applied_leaves: usize,
    /// Number of the next leaf's records that have already been passed on.
    records: usize,
}

impl TreeSearchPosition {
    /// Passes the records of a key in the leaves of a part to `gather`, newest first. If a node
    /// must be read from the device first, the search is pending, and the next call continues at
    /// the same position.
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

    /// Applies the range deletes of all leaves down to index `until`, from newest to oldest, unless
    /// they have already been applied. This includes leaves without the key.
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
        // Skip the records that an earlier call had passed on when it began to wait for a node.
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
