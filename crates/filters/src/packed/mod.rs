//! Code that trie indexes, block indexes and listed filters have in common.
//!
//! *Scope*: the beginning and the end of their formats; how a check reports violations.
//!
//! *Must not depend on*: the contents between them.

mod format;

pub(crate) use format::{CHECKSUM_BYTES, PackedFrame, put_checksum, seal, wrong_checksum};

use std::fmt;

/// A rule of a structure's format that the bytes violate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedViolation {
    /// Kind and number of the part to which the violation belongs; `None` if it concerns the whole
    /// structure.
    pub part: Option<(&'static str, u64)>,
    /// What the rule requires, and what was found instead.
    pub what: String,
}

impl PackedViolation {
    /// Creates a violation that concerns the whole structure.
    pub(crate) fn of_all(what: impl Into<String>) -> PackedViolation {
        let what = what.into();
        PackedViolation { part: None, what }
    }
}

impl fmt::Display for PackedViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((kind, number)) = self.part {
            write!(f, "{kind} {number}: ")?;
        }
        write!(f, "{}", self.what)
    }
}
