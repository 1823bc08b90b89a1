//! Footers: what is known of a run without reading its leaves.
//!
//! *Knows*: what a footer says, and where it says it when that is long.
//!
//! *Does not know*: how a run is read.
//!
//! *Read in this order*: this file, `format.rs`.

mod format;

use super::{Summary, Use};
use alluvium_dictionary::deletes::RangeDeletes;
use alluvium_dictionary::values::ValuePointer;
use alluvium_storage::extents::Extent;
use std::sync::Arc;

/// A footer node: its details, or where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Footer {
    Whole {
        /// The footer is in the extent that is listed last, not in one of its own.
        in_last: bool,
        details: Vec<u8>,
    },
    Apart {
        in_last: bool,
        pointer: ValuePointer,
        /// What only the details' nodes are in, with the live bytes.
        extents: Vec<(Extent, u64)>,
    },
}

/// What a footer says of its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Details {
    pub(super) summary: Summary,
    /// The smallest key touched.
    pub(super) low: Box<[u8]>,
    /// The largest key touched; a range delete's end counts.
    pub(super) high: Box<[u8]>,
    /// The largest key of a record; empty without records.
    pub(super) last: Box<[u8]>,
    /// The root's bytes; empty without records.
    pub(super) root: Vec<u8>,
    pub(super) uses: Vec<Use>,
    pub(super) range_deletes: Arc<RangeDeletes>,
}

impl Footer {
    /// The footer's length before it is filled up to whole pages, with details of `len` bytes in
    /// it.
    pub(super) fn bytes_with(len: usize) -> usize {
        format::HEADER + len
    }

    pub(super) fn set_in_last(&mut self, is_in_last: bool) {
        match self {
            Footer::Whole { in_last, .. } | Footer::Apart { in_last, .. } => *in_last = is_in_last,
        }
    }

    pub(super) fn is_in_last(&self) -> bool {
        match self {
            Footer::Whole { in_last, .. } | Footer::Apart { in_last, .. } => *in_last,
        }
    }
}

#[cfg(test)]
mod tests;
