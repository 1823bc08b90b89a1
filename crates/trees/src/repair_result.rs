//! The result of repairing damaged leaves, index nodes, values and filters.

use crate::run::{DamagedNode, NodeContents};
use crate::tiered::LostRange;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::KeyspaceSchema;
use alluvium_storage::{Error, Result};

/// The result of repairing damaged leaves, index nodes, values and filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRepairResult {
    /// Number of damaged leaves and index nodes that were removed.
    pub nodes: u64,
    /// Number of damaged separate values that were removed, along with the records that point to
    /// them.
    pub values: u64,
    /// Number of filters that were rebuilt from the keys of their runs.
    pub filters: u64,
    /// The key ranges in which the removed nodes and values contained data, which is lost.
    pub lost: Vec<LostRange>,
    /// The error that kept the repair from rewriting the undamaged rest of a run, so that damage
    /// remains. `None` if all damage was repaired.
    pub left: Option<String>,
}

impl RunRepairResult {
    /// Adds the nodes that a repair omits from a run. The lost ranges are limited to `within`, the
    /// key ranges in which readers still use the run.
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

    /// Records the outcome of rewriting the undamaged part of a run. If the store is full, a tier
    /// fails or more of the run is corrupt, the run stays unchanged, and the reason is stored in
    /// this result. Returns whether the run was rewritten.
    ///
    /// # Errors
    /// Errors of any other kind are returned unchanged.
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

/// Restricts a leaf's key range to the leaf's keyspace (T9). The upper bound of a leaf may extend
/// into the next keyspace.
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
