//! The tiered tree: a size-tiered Bε-tree whose nodes refer to sorted runs, and to maplets that map
//! key fingerprints to runs. A flush moves only references, not data, and each message is compacted
//! at most once per level.
//!
//! *Scope*: which runs contain which key ranges, and their order by age; when data is flushed to a
//! child, compacted, split and merged; which pivots and compactions use an extent; how a checkpoint
//! stores this state.
//!
//! *Must not depend on*: threads, clocks, transactions; the assignment of sequence numbers; when a
//! memtable is sealed or a checkpoint is due.
//!
//! The design is SplinterDB's STBε-tree (Conway 2020, chapter 3) with maplets (Conway et al.,
//! SIGMOD 2023), on pages that are never overwritten. SplinterDB latches trunk nodes hand over hand
//! and splits them on the way down, before it knows whether a split is needed. Here, the trunk is
//! immutable, and a single pointer store publishes each new version. A reader acquires no latch and
//! sees one version from root to leaf. Only one writer at a time changes the trunk. Compactions are
//! slow, so they run without the writer lock and take it only to install their results. Each change
//! copies one path of the trunk, which takes a few microseconds for every few megabytes written.
//!
//! Invariants:
//!
//! - **T1** A pivot's stack lists its own parts and then its live bundles, from oldest to newest.
//!   Within a stack, every message about a key is older than the messages about that key in later
//!   parts. Messages in a node are newer than those in its children.
//! - **T2** A version is immutable, except that entries are added to its root filter (D1). All data
//!   that a version refers to stays readable as long as any guard exists that was pinned before the
//!   next version was published.
//! - **T3** When no further flush is due, a pivot of an index node has at most 3 F runs. In a leaf
//!   whose compactions have finished, at most 3 F runs overlap at any one key. A lookup therefore
//!   searches at most 3 h F runs, where F is the fan-out and h the height.
//! - **T4** The result of a compaction is installed only where the compaction's inputs are still
//!   the oldest pending part of the same stack.
//! - **T5** An extent of a run is in use exactly as long as a pivot, or a compaction whose result
//!   can still be installed, refers to the run in a key range that needs the extent. Every extent
//!   that a compaction uses is also used by a pivot, so a crash leaves no unreachable extent.
//! - **T6** A group's maplet maps each key of each run in the group to that run's place in the
//!   group.
//! - **T7** Between calls, a scan pins neither a version nor a memtable. The scan keeps only its
//!   position, reference-counted cache frames, and records whose visible value is already resolved
//!   and cannot change.
//! - **T8** Compaction filters are consulted only by compactions, and only by those that began
//!   while filters were not suspended.
//! - **T9** A leaf of a run contains records of a single keyspace, and so does a node of separately
//!   stored values.
//! - **T10** If the trunk assigns a sequence number to a run, all records of the run have this
//!   number, whatever the run itself stores.

mod compact;
mod contract;
mod disk;
mod incorporate;
mod lookup;
pub mod policy;
mod scan;
mod show;
mod tree;
mod trunk;
mod unreadable_parts;

pub use alluvium_dictionary::check_report::{CheckFindings, CheckLevel, CheckProgress, StructureCheckReport};
pub use alluvium_dictionary::contract::StepProgress;
pub use alluvium_dictionary::horizon::GcHorizon;
pub use compact::{CompactionJob, MaintenanceLimits, TreeStep};
pub use disk::{LostRange, TreeSalvage, check_files, format, reached};
pub use incorporate::TreeIncorporation;
pub use lookup::{PolledTreeLookup, RootFilterBuilder, TreeReader, TreeSearch};
pub use policy::{TrunkShape, VictimPolicy};
pub use scan::TreeIter;
pub use show::{Outline, OutlineBundle, OutlineLayer, OutlineNode, OutlinePivot, OutlineRun, RangeHoldings};
pub use tree::TieredTree;
pub use trunk::{
    AdoptionPolicy, CompactionState, JobTransition, ReshapeCounts, TreeDebt, TreeMemory, TreeOptions,
    TreeStats, TreeVersion,
};
