//! What a check of a run has found.

use super::Run;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::read::{Amounts, Files};
use alluvium_storage::{NodePointer, Place};
use std::fmt;

/// Something that is not as the invariants of [`run`](super) say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A node cannot be read, or is not what its pointer means.
    Unreadable {
        /// What the read said.
        why: String,
        /// The node that is damaged, if a repair can leave it out.
        node: Option<Box<DamagedNode>>,
    },
    /// Keys, records or separators are out of order, or a key is outside its leaf's bounds (R1, L1,
    /// I1).
    Order {
        /// The node.
        place: Place,
        /// What is wrong.
        what: String,
    },
    /// A child's sums are not those of its leaves (I2).
    Sums {
        /// The child.
        place: Place,
        /// What the node above says, and what was found.
        what: String,
    },
    /// The summary is not what the leaves come to.
    Summary {
        /// What the footer says, and what was found.
        what: String,
    },
    /// An extent is not listed, or not for all keys that need it, or not with its live bytes (R2).
    Extents {
        /// What is wrong.
        what: String,
    },
}

/// A node that is not what the pointer to it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedNode {
    /// Of values: what their records point to.
    pub(crate) pointer: NodePointer,
    pub(crate) holds: Holds,
    /// The keys that are there, or below it.
    pub(crate) range: KeyRange,
    /// Readers of this key may come to it as well.
    pub(crate) high: Box<[u8]>,
    /// How many records there are, or below it.
    pub(crate) records: u64,
    /// What the read said.
    pub(crate) why: String,
}

/// What is in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Records, of one keyspace (T9).
    Records,
    /// Pointers to leaves or index nodes.
    Nodes,
    /// Values of records that are in leaves; or it leads to one that is longer than a node.
    Values,
}

impl Run {
    /// Returns the nodes that are damaged, of those that readers of these ranges can reach. Reads
    /// all of them.
    pub(crate) fn damaged_within(&self, files: Files<'_>, within: &[KeyRange]) -> Vec<DamagedNode> {
        let said = self.check_within(files, within, &mut |_| (), &mut Amounts::default());
        let nodes = said.into_iter().filter_map(|violation| match violation {
            Violation::Unreadable { node, .. } => node.map(|node| *node),
            _ => None,
        });
        let mut nodes: Vec<DamagedNode> = nodes.collect();
        // Of a value that is longer than a node each that is damaged is told.
        nodes.dedup_by_key(|node| node.pointer);
        nodes
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Unreadable { why, .. } => f.write_str(why),
            Violation::Order { place, what } | Violation::Sums { place, what } => {
                write!(f, "{place}: {what}")
            }
            Violation::Summary { what } => write!(f, "a run's summary: {what}"),
            Violation::Extents { what } => write!(f, "a run's extents: {what}"),
        }
    }
}
