//! Runs: immutable packed B-trees on a store's nodes.
//!
//! *Scope*: how sorted records become leaves, index nodes and a footer; how a run is searched for a
//! key, a range, or a sum over a range; the extents that a run needs, and the keys that need them.
//!
//! *Must not depend on*: other runs, the lifetime of a run, its other readers. The owner of a run,
//! a cursor or a pointer must keep its extents.
//!
//! ```text
//!  tier   | leaf | leaf | leaf | …   | leaf | index | index | footer |  written in order, 1 MiB at a time
//!         └──────── extents, each needed by its leaves' keys ────────┘  the last one by all keys
//!         | values | values | …                                         in extents of their own
//! ```
//!
//! The root is stored in the footer, and stays in memory while the run is open. A lookup therefore
//! reads one leaf and the index nodes above it, which stay in the cache.
//!
//! # Costs
//!
//! One of two shared virtual processors, the memory device, 2 M records of 24-byte random keys and
//! 100-byte values, pages of 4 KiB (`cargo bench -p alluvium-trees --bench run`; medians): building
//! processes 1.8 to 2.3 GB/s of user data, 1.0 with LZ4, and writes 1.036 bytes to disk for each
//! byte (1.026 with pages of 16 KiB). A streaming cursor reads 42 M records/s forward and 32 M
//! backward, checksums included; eight of them merge at 17 M records/s. A lookup of a cached leaf
//! costs 0.4 µs among 40 MB of leaves and 1.1 µs among 250 MB, due to misses of the processor's
//! caches. A lookup of a leaf that is not cached reads one node.
//!
//! A separate value shares a node with others, and at most an eighth of the node stays empty. If
//! such values are rare, their leaves wait until the node is full. A streaming cursor holds up to
//! three reads of 256 KiB.
//!
//! Invariants:
//!
//! - **R1** A leaf's keys are at or above its separator and below the next one. They include the
//!   next separator only if the next leaf continues that key's records.
//! - **R2** A reader of a range of keys touches only extents whose lowest and highest key overlap
//!   the range.
//! - **R3** Data from a device never makes this module panic, loop for ever, or allocate more than
//!   a node declares. A node that does not match its pointer is an error.
//! - **R4** A run's extents are provisional until its owner installs them. A builder that is
//!   dropped discards them.

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
    /// Number of distinct keys; at most `records`.
    pub keys: u64,
    /// Number of records that are deletes.
    pub tombstones: u64,
    /// Number of records that are merges.
    pub merges: u64,
    /// Number of records with a separate value.
    pub separate: u64,
    /// Number of range deletes, counted by sequence number.
    pub range_deletes: u64,
    /// The lowest sequence number of a record or range delete.
    pub lowest_sequence: SequenceNumber,
    /// The highest sequence number of a record or range delete.
    pub highest_sequence: SequenceNumber,
    /// Encoded bytes written for the run: leaves, index nodes, and its own values, without the
    /// footer and inherited values.
    pub bytes: u64,
    /// Bytes of all values and operands, including separate and inherited ones.
    pub value_bytes: u64,
    pub leaves: u64,
    /// Earliest expiry of a put, in milliseconds; 0 if none expires.
    pub earliest_expiry_ms: u64,
}

/// An extent that a run needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentUse {
    pub extent: Extent,
    /// The lowest key whose readers may need the extent. A long key is rounded down.
    pub low: Box<[u8]>,
    /// The highest key whose readers may need the extent, inclusive. A long key is rounded up.
    pub high: Box<[u8]>,
    /// Whether another run wrote the extent, and this one only points to values or adopted leaves
    /// in it.
    pub inherited: bool,
    /// Number of bytes of the extent that this run needs.
    pub live: u64,
}

/// An open run. Clones share its memory.
#[derive(Clone)]
pub struct IndexedRun {
    inner: Arc<RunInner>,
    /// Lower bound that replaces smaller sequence numbers of records.
    base: SequenceNumber,
}

struct RunInner {
    pointer: NodePointer,
    summary: RunSummary,
    low: Box<[u8]>,
    high: Box<[u8]>,
    /// The largest key of a record, or a shorter key above it.
    last: Box<[u8]>,
    /// The root with its layout, or `None` without records.
    root: Option<(index::IndexLayout, Vec<u8>)>,
    uses: Vec<ExtentUse>,
    range_deletes: Arc<RangeTombstoneIndex>,
    page_size: PageSize,
    /// Number of jumps by scans.
    jumps: AtomicU64,
    /// Nodes that a repair omits: cursors skip leaves and index nodes, merges skip the records of
    /// values.
    left_out: OnceLock<HashSet<NodePointer>>,
}

impl IndexedRun {
    /// Returns the same run, in which every record has at least sequence number `base`. For a run
    /// that was written before the commit sequence numbers of its records were known.
    #[must_use]
    pub fn based(self, base: SequenceNumber) -> IndexedRun {
        IndexedRun { base, ..self }
    }

    /// Returns the number set by [`IndexedRun::based`]; 0 otherwise.
    #[must_use]
    pub fn base(&self) -> SequenceNumber {
        self.base
    }

    /// Returns the highest sequence number of a record or range delete.
    #[must_use]
    pub fn newest(&self) -> SequenceNumber {
        self.inner.summary.highest_sequence.max(self.base)
    }

    /// Returns the pointer to the footer, which is unique to the run.
    #[must_use]
    pub fn pointer(&self) -> &NodePointer {
        &self.inner.pointer
    }

    /// Returns the totals of the run.
    #[must_use]
    pub fn summary(&self) -> &RunSummary {
        &self.inner.summary
    }

    /// Returns the smallest key that a record or a range delete touches, or a shorter key below it
    /// if it is long.
    #[must_use]
    pub fn low(&self) -> &[u8] {
        &self.inner.low
    }

    /// Returns the largest key that a record or the end of a range delete touches, or a shorter key
    /// above it if it is long.
    #[must_use]
    pub fn high(&self) -> &[u8] {
        &self.inner.high
    }

    /// Omits nodes, for a repair that rewrites the rest: cursors skip leaves and index nodes with
    /// their subtrees, merges skip the records of values. Only the first call has an effect.
    pub(crate) fn leave_out(&self, nodes: HashSet<NodePointer>) {
        debug_assert!(!nodes.is_empty(), "something is left out");
        let _ = self.inner.left_out.set(nodes);
    }

    /// Returns the omitted nodes, if there are any.
    #[inline]
    fn left_out(&self) -> Option<&HashSet<NodePointer>> {
        self.inner.left_out.get()
    }

    /// Returns whether a value is omitted.
    #[inline]
    pub(crate) fn omits_value(&self, value: &ValuePointer) -> bool {
        self.left_out().is_some_and(|nodes| nodes.contains(&value.node))
    }

    /// Returns the extents that the run needs: its own, then inherited ones.
    #[must_use]
    pub fn extents(&self) -> &[ExtentUse] {
        &self.inner.uses
    }

    /// Returns the extents that a range of keys needs, with their indices in
    /// [`IndexedRun::extents`]. The bounds of extents and of the run are rounded for long keys,
    /// except for runs written by an earlier version. A trunk on disk lists the runs that touch a
    /// pivot's range, so the run's bounds are checked too.
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

    /// Returns the number of index levels above the leaves, including the root in the footer; 0
    /// without records.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.inner.root.as_ref().map_or(0, |(layout, _)| layout.level)
    }

    /// Returns the memory of the open run in bytes.
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
        f.debug_struct("Run")
            .field("pointer", &self.inner.pointer)
            .field("summary", &self.inner.summary)
            .finish_non_exhaustive()
    }
}

/// A description of the missing property of a node whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MalformedNode(&'static str);

impl MalformedNode {
    /// Returns the error for the node at `pointer`.
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

/// Returns the shortest key above `before` and at or below `next`.
fn separator<'a>(before: &[u8], next: &'a [u8]) -> &'a [u8] {
    debug_assert!(before < next, "keys ascend (R1)");
    let separator = &next[..(common_prefix(before, next) + 1).min(next.len())];
    debug_assert!(
        before < separator && separator <= next,
        "it tells the two apart (R1)"
    );
    separator
}
