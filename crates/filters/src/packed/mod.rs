//! Code shared by trie indexes, block indexes and listed filters.
//!
//! *Scope*: the beginning and end of their formats, and how a check reports violations.
//!
//! *Must not depend on*: the contents between them.

mod format;

pub(crate) use format::{CHECKSUM_BYTES, PackedFrame, put_checksum, seal, wrong_checksum};

use std::fmt;

/// A violated rule of a structure's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedViolation {
    /// Kind and number of the part that the rule concerns, if it concerns one.
    pub part: Option<(&'static str, u64)>,
    /// What the rule requires, and what was found.
    pub what: String,
}

impl PackedViolation {
    /// Returns a violation that concerns the whole structure.
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
