//! Runs: immutable packed B-trees on a store's nodes.
//!
//! *Knows*: how sorted records become leaves, index nodes and a footer; how a key, a range, a sum
//! over a range is found in them; which extents a run needs, and for which keys.
//!
//! *Does not know*: other runs, when a run dies, who may still read it: the owner of a run, a
//! cursor or a pointer keeps its extents.
//!
//! *Read in this order*: this file, `format.rs`, `strings.rs`, `leaf`, `index`, `footer` (one node
//! each), `options.rs`, `build/` and `finish.rs` (with `spans.rs` and `units.rs`),
//! `adopt.rs` (leaves that a run takes over unread), `open.rs`, `load.rs`,
//! `find.rs`, `weigh.rs`, `path.rs`, `device.rs`, `feed.rs`, `cursor.rs` (with `scanned.rs`),
//! `check/` (with `violation.rs`), `examine.rs`.
//!
//! ```text
//!  tier   | leaf | leaf | leaf | …   | leaf | index | index | footer |  written in order, 1 MiB at a time
//!         └──────── extents, each needed by its leaves' keys ────────┘  the last one by all keys
//!         | values | values | …                                         in extents of their own
//! ```
//!
//! The root is in the footer, and in memory as long as the run is open. So a lookup reads the index
//! nodes between, which stay in the cache, and one leaf.
//!
//! # What it costs
//!
//! One of two shared virtual processors, the memory device, 2 M records of 24-byte random keys and
//! 100-byte values, pages of 4 KiB (`cargo bench -p alluvium-trees --bench run`; medians): building
//! takes in 1.8 to 2.3 GB/s of the user's bytes, 1.0 with LZ4, and leaves 1.036 bytes on disk for
//! each (1.026 with pages of 16 KiB); a streaming cursor walks 42 M records/s forward and 32 M
//! backward, checksums included; eight of them merge at 17 M records/s. A lookup of a cached leaf
//! costs 0.4 µs among 40 MB of leaves and 1.1 µs among 250 MB, which is the misses of the
//! processor's caches; one of a leaf that is not cached reads one node.
//!
//! A value that is not in its leaf lies in a node with others, of which at most an eighth stays
//! empty; where such values are few, their leaves wait until the node is full. A streaming cursor
//! holds up to three reads of 256 KiB.
//!
//! Invariants:
//!
//! - **R1** A leaf's keys lie from its separator up to the next one; the next one itself only where
//!   the next leaf goes on with the same key's records.
//! - **R2** A reader within a range of keys touches only extents whose lowest and highest key say
//!   that the range needs them.
//! - **R3** What is read from a device never makes this module panic, loop for ever, or allocate
//!   more than a node says it holds; a node that is not what its pointer means is an error.
//! - **R4** A run's extents are provisional until its owner installs them; a builder that is
//!   dropped gives them up.

mod adopt;
mod build;
mod check;
mod cursor;
mod device;
mod examine;
mod feed;
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
mod scanned;
mod spans;
mod strings;
#[cfg(all(test, not(alluvium_model_check)))]
mod tests;
mod units;
mod violation;
mod weigh;

pub(crate) use adopt::{Leaf, Leaves};
pub use build::Builder;
#[cfg(all(test, not(alluvium_model_check)))]
pub(crate) use cursor::ENTERED;
pub use cursor::{Cursor, open_many};
pub(crate) use device::{Depth, bytes_per_probe};
pub use examine::{Examined, examine};
pub use feed::Access;
pub use finish::Built;
pub use options::RunOptions;
pub use violation::Violation;
pub(crate) use violation::{DamagedNode, Holds};
pub use weigh::{Piece, Weight};

use alluvium_base::{Kind, Sequence};
use alluvium_dictionary::deletes::RangeDeletes;
use alluvium_dictionary::range::KeyRange;
use alluvium_dictionary::values::ValuePointer;
use alluvium_storage::extents::Extent;
use alluvium_storage::{Error, NodePointer, PageSize};
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// What a run comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records in its leaves.
    pub records: u64,
    /// Distinct keys of them.
    pub keys: u64,
    /// How many of the records are deletes.
    pub tombstones: u64,
    /// How many of the records are merges.
    pub merges: u64,
    /// How many of the records have their values outside the leaves.
    pub separate: u64,
    /// How many range deletes there are, by their sequence numbers.
    pub range_deletes: u64,
    /// The lowest sequence number of a record or range delete.
    pub lowest_sequence: Sequence,
    /// The highest sequence number of a record or range delete.
    pub highest_sequence: Sequence,
    /// Encoded bytes of what was written for it: leaves, index nodes, values of its own; without
    /// the footer and inherited values.
    pub bytes: u64,
    /// Bytes of its values and operands, wherever they are.
    pub value_bytes: u64,
    /// Leaves.
    pub leaves: u64,
    /// When the first of its puts expires, in milliseconds; 0 when none does.
    pub earliest_expiry_ms: u64,
}

/// An extent that a run needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The extent.
    pub extent: Extent,
    /// The lowest key whose readers may need it. Rounded down when it is long.
    pub low: Box<[u8]>,
    /// The highest key whose readers may need it, included. Rounded up when it is long.
    pub high: Box<[u8]>,
    /// Whether another run wrote it, and this one only points to values in it.
    pub inherited: bool,
    /// How many of its bytes this run needs.
    pub live: u64,
}

/// An open run; clones share it.
#[derive(Clone)]
pub struct Run {
    inner: Arc<Inner>,
    /// Records with lower sequence numbers have this one.
    base: Sequence,
}

struct Inner {
    pointer: NodePointer,
    summary: Summary,
    low: Box<[u8]>,
    high: Box<[u8]>,
    /// The largest key of a record, or a shorter one above it.
    last: Box<[u8]>,
    /// The root, with its layout; none without records.
    root: Option<(index::Layout, Vec<u8>)>,
    uses: Vec<Use>,
    range_deletes: Arc<RangeDeletes>,
    page_size: PageSize,
    /// How often scans have jumped.
    jumps: AtomicU64,
    /// Nodes that a repair leaves out: cursors pass leaves and index nodes by, merges the records
    /// of values.
    left_out: OnceLock<HashSet<NodePointer>>,
}

impl Run {
    /// The same run, of which every record reads as written at `base` at the earliest: for one that
    /// was written before it was known when its records would be committed.
    #[must_use]
    pub fn based(self, base: Sequence) -> Run {
        Run { base, ..self }
    }

    /// Returns what was set by [`Run::based`]; 0 otherwise.
    #[must_use]
    pub fn base(&self) -> Sequence {
        self.base
    }

    /// Returns the highest sequence number of a record or range delete.
    #[must_use]
    pub fn newest(&self) -> Sequence {
        self.inner.summary.highest_sequence.max(self.base)
    }

    /// Returns the pointer to the footer, which no other run has.
    #[must_use]
    pub fn pointer(&self) -> &NodePointer {
        &self.inner.pointer
    }

    /// Returns what the run comes to.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.inner.summary
    }

    /// Returns the smallest key that a record or a range delete touches; a shorter one below it
    /// where it is long.
    #[must_use]
    pub fn low(&self) -> &[u8] {
        &self.inner.low
    }

    /// Returns the largest key that a record or a range delete touches, where a range delete's end
    /// counts; a shorter one above it where it is long.
    #[must_use]
    pub fn high(&self) -> &[u8] {
        &self.inner.high
    }

    /// Leaves nodes out, for a repair, which writes the rest again: cursors pass leaves and index
    /// nodes by, with all that is below them, and merges the records of values. Only the first call
    /// counts.
    pub(crate) fn leave_out(&self, nodes: HashSet<NodePointer>) {
        debug_assert!(!nodes.is_empty(), "something is left out");
        let _ = self.inner.left_out.set(nodes);
    }

    /// Returns the nodes that are left out, if any are.
    #[inline]
    fn left_out(&self) -> Option<&HashSet<NodePointer>> {
        self.inner.left_out.get()
    }

    /// Returns whether a value is left out.
    #[inline]
    pub(crate) fn leaves_out(&self, value: &ValuePointer) -> bool {
        self.left_out().is_some_and(|nodes| nodes.contains(&value.node))
    }

    /// The extents it needs: its own, then inherited ones.
    #[must_use]
    pub fn extents(&self) -> &[Use] {
        &self.inner.uses
    }

    /// Those of its extents that a range of keys needs, with their places among all of them. The
    /// bounds of extents are rounded where keys are long, and so are those of the run, unless an
    /// earlier version wrote it: a trunk on disk names the runs that touch a pivot's range.
    pub fn extents_for<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = (usize, &'a Use)> {
        let touched = range.overlaps(self.low(), self.high());
        let needs = move |used: &Use| touched && range.overlaps(&used.low, &used.high);
        let extents = self.extents().iter().enumerate();
        extents.filter(move |(_, used)| needs(used))
    }

    /// Its range deletes.
    #[must_use]
    pub fn range_deletes(&self) -> &RangeDeletes {
        &self.inner.range_deletes
    }

    /// Returns how many levels of index nodes stand above the leaves, the root in the footer
    /// counted; 0 without records.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.inner.root.as_ref().map_or(0, |(layout, _)| layout.level)
    }

    /// Returns the bytes of memory that it takes as long as it is open.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let inner = &*self.inner;
        let uses: usize = inner
            .uses
            .iter()
            .map(|used| size_of::<Use>() + used.low.len() + used.high.len())
            .sum();
        let root = inner.root.as_ref().map_or(0, |(_, root)| root.capacity());
        let keys = inner.low.len() + inner.high.len() + inner.last.len();
        size_of::<Inner>() + uses + root + keys + inner.range_deletes.memory_bytes()
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("pointer", &self.inner.pointer)
            .field("summary", &self.inner.summary)
            .finish_non_exhaustive()
    }
}

/// What a node that was read does not have, though its checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bad(&'static str);

impl Bad {
    /// Returns the error, for the node at a place.
    #[cold]
    fn at(self, pointer: &NodePointer) -> Error {
        Error::corrupt(pointer.place(), self.0, "something else")
    }
}

/// Returns how many bytes two keys have in common from their beginnings.
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
