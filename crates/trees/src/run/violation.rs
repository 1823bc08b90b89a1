//! The findings of a check of a run.

use super::IndexedRun;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::{CheckReadTotals, DataFiles};
use alluvium_storage::{DiskLocation, NodePointer};
use std::fmt;

/// A violation of the invariants of [`run`](super).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunViolation {
    /// A node cannot be read, or does not match its pointer.
    Unreadable {
        /// The error that the read returned, as text.
        why: String,
        /// The damaged node, if a repair can omit it.
        node: Option<Box<DamagedNode>>,
    },
    /// Keys, records or separators are out of order, or a key is outside its leaf's bounds (R1, L1,
    /// I1).
    Order {
        place: DiskLocation,
        /// Which keys, records or separators are out of order.
        what: String,
    },
    /// A child's sums do not match its leaves (I2).
    Sums {
        /// Location of the child whose sums differ.
        place: DiskLocation,
        /// The sums in the parent, and the actual sums.
        what: String,
    },
    /// The summary does not match the leaves.
    Summary {
        /// The summary in the footer, and the actual totals.
        what: String,
    },
    /// An extent is missing from the list, or its keys or live bytes are wrong (R2).
    Extents {
        /// Which extent differs, and how.
        what: String,
    },
}

/// A node that does not match its pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedNode {
    /// For values, the node that their records point to.
    pub(crate) pointer: NodePointer,
    pub(crate) holds: NodeContents,
    /// The keys in the node or below it.
    pub(crate) range: KeyRange,
    /// Readers of this key may reach the node too.
    pub(crate) high: Box<[u8]>,
    /// Number of records in the node or below it.
    pub(crate) records: u64,
    /// The error that the read returned, as text.
    pub(crate) why: String,
}

/// The contents of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeContents {
    /// Records, of one keyspace (T9).
    Records,
    /// Pointers to leaves or index nodes.
    Nodes,
    /// Values of records in leaves, or pointers to parts of a long value.
    Values,
}

impl IndexedRun {
    /// Returns the damaged nodes that readers of these ranges can reach. Reads all reachable nodes.
    pub(crate) fn damaged_within(&self, files: DataFiles<'_>, within: &[KeyRange]) -> Vec<DamagedNode> {
        let said = self.check_within(files, within, &mut |_| (), &mut CheckReadTotals::default());
        let nodes = said.into_iter().filter_map(|violation| match violation {
            RunViolation::Unreadable { node, .. } => node.map(|node| *node),
            _ => None,
        });
        let mut nodes: Vec<DamagedNode> = nodes.collect();
        // A long value has one violation for each of its damaged nodes.
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
