//! Footers: the metadata of a run, which is available without reading its leaves.
//!
//! *Scope*: the contents of a footer, and the location of the part that does not fit.
//!
//! *Must not depend on*: how a run is read.

mod format;

use super::{ExtentUse, RunSummary};
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::extents::Extent;
use std::sync::Arc;

/// A footer node: its details, or the pointer to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunFooter {
    Whole {
        /// Whether the footer is in the extent that is listed last, not in a separate one.
        in_last: bool,
        details: Vec<u8>,
    },
    Apart {
        in_last: bool,
        pointer: ValuePointer,
        /// Extents that only contain nodes of the details, with their live bytes.
        extents: Vec<(Extent, u64)>,
    },
}

/// The metadata of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunMetadata {
    pub(super) summary: RunSummary,
    /// The smallest key of a record or a range delete.
    pub(super) low: Box<[u8]>,
    /// The largest key touched, including the end of range deletes.
    pub(super) high: Box<[u8]>,
    /// The largest key of a record; empty without records.
    pub(super) last: Box<[u8]>,
    /// The root's bytes; empty without records.
    pub(super) root: Vec<u8>,
    pub(super) uses: Vec<ExtentUse>,
    pub(super) range_deletes: Arc<RangeTombstoneIndex>,
}

impl RunFooter {
    /// Returns the footer's length with inline details of `len` bytes, before padding to whole
    /// pages.
    pub(super) fn bytes_with(len: usize) -> usize {
        format::HEADER + len
    }

    pub(super) fn set_in_last(&mut self, is_in_last: bool) {
        match self {
            RunFooter::Whole { in_last, .. } | RunFooter::Apart { in_last, .. } => *in_last = is_in_last,
        }
    }

    pub(super) fn is_in_last(&self) -> bool {
        match self {
            RunFooter::Whole { in_last, .. } | RunFooter::Apart { in_last, .. } => *in_last,
        }
    }
}

#[cfg(test)]
mod tests;
