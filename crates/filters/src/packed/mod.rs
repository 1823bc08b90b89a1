//! What an index of tries, a block index and a filter of listed fingerprints have in common.
//!
//! *Knows*: how their bytes begin and end, and how a check reports what is wrong with them.
//!
//! *Does not know*: what is in between.
//!
//! *Read in this order*: `format.rs`, this file.

mod format;

pub(crate) use format::{CHECKSUM_BYTES, Frame, put_checksum, seal, wrong_checksum};

use std::fmt;

/// A rule that the bytes of a structure break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The part of the structure that the rule is about, by kind and number, if it is about one.
    pub part: Option<(&'static str, u64)>,
    /// What should be, and what is.
    pub what: String,
}

impl Violation {
    /// Returns one that is about the whole structure.
    pub(crate) fn of_all(what: impl Into<String>) -> Violation {
        let what = what.into();
        Violation { part: None, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((kind, number)) = self.part {
            write!(f, "{kind} {number}: ")?;
        }
        write!(f, "{}", self.what)
    }
}
