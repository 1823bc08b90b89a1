//! Footers, which contain a run's metadata so that the run can be opened without reading any leaf.
//!
//! *Scope*: the contents of a footer, and the location of metadata that do not fit into it.
//!
//! *Must not depend on*: how a run is read.

mod format;

use super::{ExtentUse, RunSummary};
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::extents::Extent;
use std::sync::Arc;

/// A footer node, which contains the encoded metadata or a pointer to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunFooter {
    Whole {
        /// Whether the footer is stored in the last extent of the run's list instead of an extent
        /// of its own.
        in_last: bool,
        details: Vec<u8>,
    },
    Apart {
        in_last: bool,
        pointer: ValuePointer,
        /// The extents that contain only metadata nodes, each with its live bytes.
        extents: Vec<(Extent, u64)>,
    },
}

/// The metadata of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunMetadata {
    pub(super) summary: RunSummary,
    /// The smallest key of all records and range deletes.
    pub(super) low: Box<[u8]>,
    /// The largest key of all records and range deletes, including the ends of the range deletes.
    pub(super) high: Box<[u8]>,
    /// The largest key of all records; empty if the run has no records.
    pub(super) last: Box<[u8]>,
    /// The encoded root node; empty if the run has no records.
    pub(super) root: Vec<u8>,
    pub(super) uses: Vec<ExtentUse>,
    pub(super) range_deletes: Arc<RangeTombstoneIndex>,
}

impl RunFooter {
    /// Returns the length in bytes of a footer with `len` bytes of encoded metadata, before it is
    /// padded to a multiple of the page size.
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
