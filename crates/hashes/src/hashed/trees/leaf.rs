//! Writes the list of a run's hashes while a merge writes the run. The list is either a leaf digest
//! or the node above a settled run.

use super::tree::{LevelTree, RoutingNode};
use super::{HashLayout, ListHeader, RoutingListWriter, WrittenRoutingList};
use crate::hashed::state::PartitionLevel;
use alluvium_storage::Result;
use alluvium_storage::node::WriterOptions;
use alluvium_storage::store::Store;
use std::sync::Arc;

/// Writer of a run's hashes, which arrive in ascending order.
#[derive(Debug)]
pub(in crate::hashed) struct LeafWriter {
    writer: RoutingListWriter,
    last: Option<u64>,
}

impl LeafWriter {
    /// Starts the list for a run of about `records` records in a part with the given levels. If
    /// `is_settled` is true, the list is the node above a settled run, and otherwise a leaf digest.
    pub(in crate::hashed) fn new(
        store: &Arc<Store>,
        options: WriterOptions,
        levels: &[PartitionLevel],
        is_settled: bool,
        cut: HashLayout,
        records: u64,
    ) -> Result<LeafWriter> {
        let head = match is_settled {
            true => ListHeader {
                cut,
                height: 1,
                children: 1,
            },
            false => ListHeader {
                cut: growing_cut(levels).unwrap_or(cut),
                height: 0,
                children: 0,
            },
        };
        Ok(LeafWriter {
            writer: RoutingListWriter::new(store, options, head, records)?,
            last: None,
        })
    }

    pub(in crate::hashed) fn is_settled(&self) -> bool {
        self.writer.head().is_node()
    }

    /// Adds the hash of a record, unless it repeats the previous one.
    pub(in crate::hashed) fn push(&mut self, hash: u64) -> Result<()> {
        if self.last == Some(hash) {
            return Ok(());
        }
        assert!(self.last.is_none_or(|last| last < hash), "hashes ascend (V3)");
        self.last = Some(hash);
        let entry = self.writer.head().entry(hash, 0);
        self.writer.push(entry)
    }

    pub(in crate::hashed) fn finish(self) -> Result<WrittenRoutingList> {
        self.writer.finish(0)
    }
}

/// Returns the roots of the trees in a part that accept leaves, starting at height 1. A level
/// without a tree yields `None`.
fn growing(levels: &[PartitionLevel]) -> impl Iterator<Item = Option<&RoutingNode>> {
    let trees = levels.iter().map(|level| level.tree.as_ref());
    let growing = trees.take_while(|tree| tree.is_none_or(|tree| !tree.is_settled));
    growing.map(|tree| tree.map(|tree: &LevelTree| &tree.root))
}

/// Returns the layout of the trees that accept leaves, or `None` if there are none.
fn growing_cut(levels: &[PartitionLevel]) -> Option<HashLayout> {
    growing(levels).flatten().map(|root| root.cut).next()
}

/// Returns whether the trees cannot accept another leaf of about `records` records, either because
/// hashes have too few bits for another level, or because `records` far exceeds the size of the
/// first leaf.
pub(in crate::hashed) fn is_spent(levels: &[PartitionLevel], records: u64) -> bool {
    let Some(cut) = growing_cut(levels) else {
        return false;
    };
    let most = u64::from(cut.lambda()) << cut.base_bits;
    let is_full =
        |root: Option<&RoutingNode>| root.is_some_and(|root| root.children.len() as u32 + 1 >= cut.lambda());
    let full = growing(levels).take_while(|root| is_full(*root)).count();
    records > most || !cut.fits(full as u8 + 1)
}
