//! Code that trie indexes, block indexes and listed filters share.
//!
//! *Scope*: the beginning and the end of their formats; how a check reports violations.
//!
//! *Must not depend on*: what comes in between.

mod format;

pub(crate) use format::{CHECKSUM_BYTES, PackedFrame, put_checksum, seal, wrong_checksum};

use std::fmt;

/// A format rule that the bytes violate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedViolation {
    /// Kind and number of the part with the violation, or `None` if it concerns the whole
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
