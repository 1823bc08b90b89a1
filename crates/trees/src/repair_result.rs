//! The result of a repair of leaves, index nodes and values.

use crate::run::{DamagedNode, NodeContents};
use crate::tiered::LostRange;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_storage::{Error, Result};

/// The result of a repair of leaves, index nodes and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRepairResult {
    /// Number of leaves and index nodes that were removed.
    pub nodes: u64,
    /// Number of separate values that were removed with their records.
    pub values: u64,
    /// Number of filters that were rebuilt from the keys of their runs.
    pub filters: u64,
    /// The data lost with them.
    pub lost: Vec<LostRange>,
    /// The reason why damage is left, if the undamaged rest of its run could not be rewritten.
    pub left: Option<String>,
}

impl RunRepairResult {
    /// Records nodes that are omitted from a run, for the ranges in which readers need the run.
    pub(crate) fn note(&mut self, nodes: &[DamagedNode], within: &[KeyRange], schema: &dyn KeyspaceSchema) {
        for node in nodes {
            let (keys, of) = match node.holds {
                NodeContents::Records => (within_keyspace(&node.range, schema), "records"),
                NodeContents::Nodes => (node.range.clone(), "records"),
                NodeContents::Values => (node.range.clone(), "values"),
            };
            match node.holds {
                NodeContents::Values => self.values += node.records,
                NodeContents::Records | NodeContents::Nodes => self.nodes += 1,
            }
            let ranges = within.iter().map(|range| range.intersect(&keys));
            self.lost
                .extend(ranges.filter(|range| !range.is_empty()).map(|range| LostRange {
                    range,
                    what: format!(
                        "up to {} {of} of one run cannot be read, so older ones may reappear ({})",
                        node.records, node.why
                    ),
                }));
        }
    }

    /// If the rest of a run could not be rewritten and is left unchanged, records the reason.
    /// Returns whether it was written.
    ///
    /// # Errors
    /// All other errors.
    pub(crate) fn record_outcome(&mut self, written: Result<()>) -> Result<bool> {
        let is_left = |error: &Error| {
            error.is_full() || matches!(error, Error::Corrupt { .. } | Error::TierFails { .. })
        };
        match written {
            Err(error) if is_left(&error) => {
                self.left = Some(error.to_string());
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }
}

/// Returns the part of a leaf's bounds inside its keyspace (T9). Bounds may extend into the next
/// keyspace.
fn within_keyspace(range: &KeyRange, schema: &dyn KeyspaceSchema) -> KeyRange {
    let mut prefix = range.low[..schema.prefix_len(&range.low)].to_vec();
    while let Some(last) = prefix.pop() {
        if let Some(next) = last.checked_add(1) {
            prefix.push(next);
            return range.intersect(&KeyRange::new(&range.low, Some(&prefix)));
        }
    }
    range.clone()
}
