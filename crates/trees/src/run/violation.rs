//! What a check of a run has found.

use alluvium_storage::Place;
use std::fmt;

/// Something that is not as the invariants of [`run`](super) say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A node cannot be read, or is not what its pointer means.
    Unreadable {
        /// What the read said.
        why: String,
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

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Unreadable { why } => f.write_str(why),
            Violation::Order { place, what } | Violation::Sums { place, what } => {
                write!(f, "{place}: {what}")
            }
            Violation::Summary { what } => write!(f, "a run's summary: {what}"),
            Violation::Extents { what } => write!(f, "a run's extents: {what}"),
        }
    }
}
