//! Sorted runs: immutable B-trees with full nodes, stored on the device.
//!
//! *Scope*: how sorted records are written as leaves, index nodes and a footer; how a run is
//! searched for a key or a key range, and how the size of a key range is estimated; which extents a
//! run needs, and for which keys it needs each of them.
//!
//! *Must not depend on*: other runs, the lifetime of a run, its other readers. The owner of a run,
//! a cursor or a pointer must keep the run's extents.
//!
//! ```text
//!  tier   | leaf | leaf | leaf | …   | leaf | index | index | footer |  written in order, 1 MiB at a time
//!         └──────── extents, each needed by its leaves' keys ────────┘  the last one by all keys
//!         | values | values | …                                         in extents of their own
//! ```
//!
//! The root is stored in the footer and stays in memory while the run is open. A lookup therefore
//! reads one leaf, and the index nodes above the leaf, which are usually cached.
//!
//! # Costs
//!
//! Measured on one of two shared virtual processors with the memory device, 2 M records of 24-byte
//! random keys and 100-byte values, and pages of 4 KiB (`cargo bench -p alluvium-trees --bench
//! run`; medians):
//!
//! - Building a run processes 1.8 to 2.3 GB/s of user data, or 1.0 GB/s with LZ4. It writes 1.036
//!   bytes to disk for each byte of user data (1.026 with pages of 16 KiB).
//! - A streaming cursor reads 42 M records/s forward and 32 M records/s backward, including the
//!   verification of checksums. Eight such cursors are merged at 17 M records/s in total.
//! - A lookup in a cached leaf costs 0.4 µs if the run has 40 MB of leaves, and 1.1 µs if it has
//!   250 MB, because of processor cache misses. A lookup in an uncached leaf reads one node.
//!
//! Several separate values share a node, at most an eighth of which is unused. If such values are
//! rare, the leaves that point to them are kept in memory until the node is full. A streaming
//! cursor has one read buffer of up to 256 KiB for each of its concurrent reads.
//!
//! Invariants:
//!
//! - **R1** The keys of a leaf are at or above its separator and below the separator of the next
//!   leaf. Exception: if the records of one key continue in the next leaf, that leaf's separator
//!   equals this key.
//! - **R2** A reader of a key range accesses only extents whose interval from lowest to highest key
//!   overlaps the range.
//! - **R3** Whatever data the device returns, this module does not panic, loop for ever, or
//!   allocate more memory than the node declares. A node that does not match its pointer is an
//!   error.
//! - **R4** The extents of a run are provisional until its owner installs them. Dropping a builder
//!   discards its extents.

mod adopt;
mod build;
mod check;
mod cursor;
mod device;
mod examine;
mod find;
mod finish;
mod footer;
mod format;
mod index;
mod leaf;
mod load;
mod open;
mod options;
mod path;
mod readahead;
mod scanned;
mod size_estimate;
mod spans;
mod strings;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod units;
mod violation;

pub(crate) use adopt::{LeafDescriptor, LeafDescriptorIter};
pub use build::RunBuilder;
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) use cursor::ENTERED;
pub use cursor::{RunRecordCursor, open_many};
pub(crate) use device::{ReadConcurrency, bytes_per_probe};
pub use examine::{NodeDescription, examine};
pub use finish::BuiltRun;
pub use options::RunOptions;
pub use readahead::CursorAccess;
pub use size_estimate::{RangePiece, RangeWeight};
pub use violation::RunViolation;
pub(crate) use violation::{DamagedNode, NodeContents};

use alluvium_base::{MessageKind, SequenceNumber};
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::range_tombstones::RangeTombstoneIndex;
use alluvium_dictionary::value_log::ValuePointer;
use alluvium_storage::extents::Extent;
use alluvium_storage::{Error, NodePointer, PageSize};
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// Number of records in the leaves.
    pub records: u64,
    /// Number of distinct keys. It may be less than `records`, because a key may have several
    /// records.
    pub keys: u64,
    /// Number of records that are deletes.
    pub tombstones: u64,
    /// Number of records that are merge operands.
    pub merges: u64,
    /// Number of records whose value is stored separately.
    pub separate: u64,
    /// Number of range deletes. Those with the same sequence number count as one.
    pub range_deletes: u64,
    /// The lowest sequence number of any record or range delete.
    pub lowest_sequence: SequenceNumber,
    /// The highest sequence number of any record or range delete.
    pub highest_sequence: SequenceNumber,
    /// Encoded size in bytes of the leaves, the index nodes, and the separate values that were
    /// written for this run. Excludes the footer and inherited values.
    pub bytes: u64,
    /// Total length in bytes of all values and operands, including separate and inherited values.
    pub value_bytes: u64,
    pub leaves: u64,
    /// Earliest expiry of any put in the run, in milliseconds, or 0 if no put expires.
    pub earliest_expiry_ms: u64,
}

/// An extent that a run uses, with the keys whose readers may access it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentUse {
    pub extent: Extent,
    /// The lowest key whose readers may access the extent. A long key is replaced by a shorter
    /// lower bound.
    pub low: Box<[u8]>,
    /// The highest key, inclusive, whose readers may access the extent. A long key is replaced by a
    /// shorter upper bound.
    pub high: Box<[u8]>,
    /// Whether another run wrote the extent. This run then uses it only for adopted leaves, or for
    /// values that its records point to.
    pub inherited: bool,
    /// Number of bytes of the extent that this run uses.
    pub live: u64,
}

/// An open run. Cloning it is cheap, because all clones share their memory.
#[derive(Clone)]
pub struct IndexedRun {
    inner: Arc<RunInner>,
    /// Lower bound for the sequence numbers of records. It replaces smaller sequence numbers.
    base: SequenceNumber,
}

struct RunInner {
    pointer: NodePointer,
    summary: RunSummary,
    low: Box<[u8]>,
    high: Box<[u8]>,
    /// The largest key of any record, or a shorter key above it.
    last: Box<[u8]>,
    /// The root node and its decoded layout, or `None` if the run has no records.
    root: Option<(index::IndexLayout, Vec<u8>)>,
    uses: Vec<ExtentUse>,
    range_deletes: Arc<RangeTombstoneIndex>,
    page_size: PageSize,
    /// Number of scan jumps: reads that do not continue where the previous read ended.
    jumps: AtomicU64,
    /// Damaged nodes that a repair excludes. Cursors skip the excluded leaves and index nodes.
    /// Merges drop the records whose values are in excluded nodes.
    left_out: OnceLock<HashSet<NodePointer>>,
}

impl IndexedRun {
    /// Returns this run with a lower bound for sequence numbers: `base` replaces smaller sequence
    /// numbers of records. Used for a run that was written before its commit's sequence number was
    /// known.
    #[must_use]
    pub fn based(self, base: SequenceNumber) -> IndexedRun {
        IndexedRun { base, ..self }
    }

    /// Returns the lower bound set by [`IndexedRun::based`], or 0 if none was set.
    #[must_use]
    pub fn base(&self) -> SequenceNumber {
        self.base
    }

    /// Returns the highest sequence number of any record or range delete.
    #[must_use]
    pub fn newest(&self) -> SequenceNumber {
        self.inner.summary.highest_sequence.max(self.base)
    }

    /// Returns the pointer to the run's footer. No two runs have the same pointer.
    #[must_use]
    pub fn pointer(&self) -> &NodePointer {
        &self.inner.pointer
    }

    /// Returns the total counts and sizes of the run.
    #[must_use]
    pub fn summary(&self) -> &RunSummary {
        &self.inner.summary
    }

    /// Returns a lower bound of all keys in the run's records and range deletes: the smallest such
    /// key, or a shorter key below it if it is long.
    #[must_use]
    pub fn low(&self) -> &[u8] {
        &self.inner.low
    }

    /// Returns an upper bound of all keys in the run's records and range deletes, including the
    /// ends of the range deletes: the largest such key, or a shorter key above it if it is long.
    #[must_use]
    pub fn high(&self) -> &[u8] {
        &self.inner.high
    }

    /// Excludes damaged nodes from all reads, so that a repair can rewrite the rest of the run.
    /// Cursors skip an excluded leaf, and the whole subtree of an excluded index node. Merges drop
    /// records whose values are in excluded nodes. Only the first call has an effect.
    pub(crate) fn leave_out(&self, nodes: HashSet<NodePointer>) {
        debug_assert!(!nodes.is_empty(), "something is left out");
        let _ = self.inner.left_out.set(nodes);
    }

    /// Returns the nodes that a repair excludes, or `None` if there are none.
    #[inline]
    fn left_out(&self) -> Option<&HashSet<NodePointer>> {
        self.inner.left_out.get()
    }

    /// Returns whether a repair excludes the node that contains this separate value.
    #[inline]
    pub(crate) fn omits_value(&self, value: &ValuePointer) -> bool {
        self.left_out().is_some_and(|nodes| nodes.contains(&value.node))
    }

    /// Returns the extents that the run uses: first those written for this run, then inherited
    /// ones.
    #[must_use]
    pub fn extents(&self) -> &[ExtentUse] {
        &self.inner.uses
    }

    /// Returns the extents that readers of a key range may access, each with its index in
    /// [`IndexedRun::extents`].
    ///
    /// The range is compared both with the bounds of each extent and with the bounds of the whole
    /// run. The latter matters for runs written by an earlier version, which rounded the bounds of
    /// extents but not those of the run. A trunk on disk lists only runs whose own bounds touch the
    /// range of a pivot.
    pub fn extents_for<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = (usize, &'a ExtentUse)> {
        let touched = range.overlaps(self.low(), self.high());
        let needs = move |used: &ExtentUse| touched && range.overlaps(&used.low, &used.high);
        let extents = self.extents().iter().enumerate();
        extents.filter(move |(_, used)| needs(used))
    }

    #[must_use]
    pub fn range_deletes(&self) -> &RangeTombstoneIndex {
        &self.inner.range_deletes
    }

    /// Returns the number of index levels above the leaves, including the root in the footer, or 0
    /// for a run without records.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.inner.root.as_ref().map_or(0, |(layout, _)| layout.level)
    }

    /// Returns the memory in bytes that the open run occupies.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let inner = &*self.inner;
        let uses: usize = inner
            .uses
            .iter()
            .map(|used| size_of::<ExtentUse>() + used.low.len() + used.high.len())
            .sum();
        let root = inner.root.as_ref().map_or(0, |(_, root)| root.capacity());
        let keys = inner.low.len() + inner.high.len() + inner.last.len();
        size_of::<RunInner>() + uses + root + keys + inner.range_deletes.memory_bytes()
    }
}

impl fmt::Debug for IndexedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexedRun")
            .field("pointer", &self.inner.pointer)
            .field("summary", &self.inner.summary)
            .finish_non_exhaustive()
    }
}

/// What is wrong with a node whose checksum is correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MalformedNode(&'static str);

impl MalformedNode {
    /// Returns an error that reports the malformed node at `pointer`.
    #[cold]
    fn at(self, pointer: &NodePointer) -> Error {
        Error::corrupt(pointer.place(), self.0, "something else")
    }
}

/// Returns the length of the common prefix of two keys.
#[inline]
fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// Returns the shortest key that is above `before` and at or below `next`.
fn separator<'a>(before: &[u8], next: &'a [u8]) -> &'a [u8] {
    debug_assert!(before < next, "keys ascend (R1)");
    let separator = &next[..(common_prefix(before, next) + 1).min(next.len())];
    debug_assert!(
        before < separator && separator <= next,
        "it tells the two apart (R1)"
    );
    separator
}
