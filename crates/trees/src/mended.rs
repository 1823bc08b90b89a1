//! What a repair of leaves, index nodes and values has come to.

use crate::run::{DamagedNode, Holds};
use crate::tiered::Lost;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::rules::Schema;
use alluvium_storage::{Error, Result};

/// What a repair of leaves, index nodes and values has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Leaves and index nodes that the structure does not have any more.
    pub nodes: u64,
    /// Values, kept apart from their leaves, that it does not have any more, with their records.
    pub values: u64,
    /// Filters that were written again, from the keys of their runs.
    pub filters: u64,
    /// What is gone with them.
    pub lost: Vec<Lost>,
    /// Why damage is left, if what is sound of its run could not be written again.
    pub left: Option<String>,
}

impl Mended {
    /// Notes nodes that are left out of a run that readers of some ranges need.
    pub(crate) fn note(&mut self, nodes: &[DamagedNode], within: &[KeyRange], schema: &dyn Schema) {
        for node in nodes {
            let (keys, of) = match node.holds {
                Holds::Records => (within_keyspace(&node.range, schema), "records"),
                Holds::Nodes => (node.range.clone(), "records"),
                Holds::Values => (node.range.clone(), "values"),
            };
            match node.holds {
                Holds::Values => self.values += node.records,
                Holds::Records | Holds::Nodes => self.nodes += 1,
            }
            let ranges = within.iter().map(|range| range.intersect(&keys));
            self.lost
                .extend(ranges.filter(|range| !range.is_empty()).map(|range| Lost {
                    range,
                    what: format!(
                        "up to {} {of} of one run that cannot be read, so that older ones may show ({})",
                        node.records, node.why
                    ),
                }));
        }
    }

    /// Notes why the rest of a run could not be written again, where that is left as it is. Returns
    /// whether it was written.
    ///
    /// # Errors
    /// What else went wrong.
    pub(crate) fn judge(&mut self, written: Result<()>) -> Result<bool> {
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

/// Returns what of a leaf's bounds is of its keyspace (T9): bounds may lie in the next one.
fn within_keyspace(range: &KeyRange, schema: &dyn Schema) -> KeyRange {
    let mut prefix = range.low[..schema.prefix_len(&range.low)].to_vec();
    while let Some(last) = prefix.pop() {
        if let Some(next) = last.checked_add(1) {
            prefix.push(next);
            return range.intersect(&KeyRange::new(&range.low, Some(&prefix)));
        }
    }
    range.clone()
}
