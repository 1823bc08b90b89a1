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

/// How far a search in a part's trees has come.
#[derive(Debug, Default)]
pub(super) struct InTrees {
    /// How many levels are done.
    level: usize,
    descent: Descent,
    /// What the search of the level's tree has come to, once it is known: a leaf, or its end.
    next: Option<Option<usize>>,
    /// How many leaves of the level, the newest ones, were heard about deleted ranges.
    heard: usize,
    /// How many records of the next leaf were taken.
    records: usize,
}

impl InTrees {
    /// Hands what the leaves of a part say of a key to `gather`. Pending where a node is
    /// missing: it goes on from there then.
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

    /// Hears what leaves say of deleted ranges, down to one: also those that do not have the key.
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
        // What was taken before a node was missing is not taken again.
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
