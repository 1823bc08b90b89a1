//! Lookups in the trees of a part: level by level, from the newest leaf to the oldest.

use super::run::{Wanted, find};
use super::state::{Level, Part};
use super::trees::{Descent, Planted};
use alluvium_dictionary::fetch::Fetch;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::record::Record;
use alluvium_dictionary::values;
use alluvium_storage::Result;
use std::ops::ControlFlow;
use std::task::{Poll, ready};

/// Position of a search in a part's trees.
#[derive(Debug, Default)]
pub(super) struct InTrees {
    /// Number of levels completed.
    level: usize,
    descent: Descent,
    /// Result of the search in the level's tree, once known: the next leaf, or the end.
    next: Option<Option<usize>>,
    /// Number of the level's newest leaves whose range deletes were applied.
    heard: usize,
    /// Number of the next leaf's records already processed.
    records: usize,
}

impl InTrees {
    /// Passes the records of a key in the leaves of a part to `gather`. If a node is missing, the
    /// search is pending, and a further call continues at the same position.
    pub(super) fn search<F: Fetch>(
        &mut self,
        part: &Part,
        wanted: Wanted<'_>,
        gather: &mut Gather<'_>,
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
            *self = InTrees {
                level,
                ..InTrees::default()
            };
        }
        Poll::Ready(Ok(()))
    }

    fn level<F: Fetch>(
        &mut self,
        level: &Level,
        tree: &Planted,
        wanted: Wanted<'_>,
        gather: &mut Gather<'_>,
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
            self.hear(level, tree, next.unwrap_or(0), wanted, gather);
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
    fn hear(
        &mut self,
        level: &Level,
        tree: &Planted,
        until: usize,
        wanted: Wanted<'_>,
        gather: &mut Gather<'_>,
    ) {
        let above = level.runs.len().saturating_sub(self.heard);
        let wants = until..above;
        for &leaf in tree.deleting.iter().rev().filter(|leaf| wants.contains(*leaf)) {
            let deletes = level.runs[leaf].run.range_deletes();
            gather.range_deleted(deletes.covering(wanted.bytes, gather.known.at()));
        }
        self.heard = level.runs.len() - until.min(above);
    }

    fn read<F: Fetch>(
        &mut self,
        level: &Level,
        leaf: usize,
        wanted: Wanted<'_>,
        gather: &mut Gather<'_>,
        fetch: &F,
    ) -> Poll<Result<()>> {
        let Gather { operator, known } = gather;
        // Skip records that were processed before a node was missing.
        let (mut taken, records) = (self.records, &mut self.records);
        let mut visit = |record: Record<'_>| {
            if taken > 0 {
                taken -= 1;
                return Poll::Ready(Ok(ControlFlow::Continue(())));
            }
            let flow = ready!(known.record(&record, *operator, |pointer, room| {
                values::fetch_value(fetch, pointer, room)
            }))?;
            *records += 1;
            Poll::Ready(Ok(flow))
        };
        find(&level.runs[leaf].run, wanted, fetch, &mut visit)
    }
}
