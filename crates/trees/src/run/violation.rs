//! The violations that a run check can find.

use super::IndexedRun;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::{CheckReadTotals, DataFiles};
use alluvium_storage::{DiskLocation, NodePointer};
use std::fmt;

/// A violation of an invariant of a [`run`](super).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunViolation {
    /// A node cannot be read, or does not match the pointer to it.
    Unreadable {
        /// The text of the error that reading the node returned.
        why: String,
        /// The damaged node, or `None` if a repair cannot exclude it.
        node: Option<Box<DamagedNode>>,
    },
    /// Keys, records or separators are out of order, or a key is outside of its leaf's bounds (R1,
    /// L1, I1).
    Order {
        place: DiskLocation,
        /// A description of the keys, records or separators that are out of order.
        what: String,
    },
    /// The sums that an index node states for a child do not match the leaves below that child
    /// (I2).
    Sums {
        /// The location of the child.
        place: DiskLocation,
        /// The sums that the parent states, and the actual sums.
        what: String,
    },
    /// The summary in the footer does not match the contents of the leaves.
    Summary {
        /// The summary in the footer, and the actual totals.
        what: String,
    },
    /// An extent is missing from the run's list of extents, or its key interval or its live bytes
    /// are wrong (R2).
    Extents {
        /// Which extent is wrong, and how it differs.
        what: String,
    },
}

/// A node that cannot be read or does not match the pointer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedNode {
    /// The pointer to the node. For separate values, this is the node that the records point to.
    pub(crate) pointer: NodePointer,
    pub(crate) holds: NodeContents,
    /// The range of the keys in the node or in its subtree.
    pub(crate) range: KeyRange,
    /// The upper bound of the node's keys. Readers of this key may reach the node even if the key
    /// is not in `range`.
    pub(crate) high: Box<[u8]>,
    /// Number of records in the node or in its subtree.
    pub(crate) records: u64,
    /// The text of the error that reading the node returned.
    pub(crate) why: String,
}

/// The kind of data that a node contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeContents {
    /// Records. All records of a node belong to the same keyspace (T9).
    Records,
    /// Pointers to leaves or index nodes.
    Nodes,
    /// Separate values of records, or pointers to the parts of a long value.
    Values,
}

impl IndexedRun {
    /// Returns the damaged nodes that readers of the ranges in `within` can reach. Reads all
    /// reachable nodes.
    pub(crate) fn damaged_within(&self, files: DataFiles<'_>, within: &[KeyRange]) -> Vec<DamagedNode> {
        let said = self.check_within(files, within, &mut |_| (), &mut CheckReadTotals::default());
        let nodes = said.into_iter().filter_map(|violation| match violation {
            RunViolation::Unreadable { node, .. } => node.map(|node| *node),
            _ => None,
        });
        let mut nodes: Vec<DamagedNode> = nodes.collect();
        // Each damaged node of a long value has a violation of its own. Keep only the first.
        nodes.dedup_by_key(|node| node.pointer);
        nodes
    }
}

impl fmt::Display for RunViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunViolation::Unreadable { why, .. } => f.write_str(why),
            RunViolation::Order { place, what } | RunViolation::Sums { place, what } => {
                write!(f, "{place}: {what}")
            }
            RunViolation::Summary { what } => write!(f, "a run's summary: {what}"),
            RunViolation::Extents { what } => write!(f, "a run's extents: {what}"),
        }
    }
}
