//! The tiered tree: a size-tiered Bε-tree of runs and maplets, in which a flush moves no data and a
//! message is compacted at most once on each level.
//!
//! *Scope*: which runs hold which range of keys and their order by age; when data is flushed to a
//! child, compacted, split and merged; the users of each extent; how a checkpoint stores all of
//! this.
//!
//! *Must not depend on*: threads, clocks, transactions; the assignment of sequence numbers; when a
//! memtable is sealed or a checkpoint is due.
//!
//! This is SplinterDB's STBε-tree (Conway 2020, chapter 3) with maplets (Conway et al., SIGMOD
//! 2023) on pages that are never overwritten. SplinterDB latches trunk nodes hand over hand and
//! splits them on the way down, before it knows whether a split is needed. Here the trunk is
//! immutable, and a single pointer store publishes each new version. A reader takes no latch and
//! sees one version from root to leaf. One writer at a time makes a change. Compactions, which are
//! slow, run outside the writer and hand in their results. A change costs the copy of a path, some
//! microseconds, for every few megabytes written.
//!
//! Invariants:
//!
//! - **T1** In a pivot's stack (its own parts, then its live bundles, oldest to newest) every
//!   message about a key is older than those about it in later parts. Messages in a node are newer
//!   than those in its children.
//! - **T2** A version is immutable except for its root filter, to which entries are added (D1). All
//!   data that a version refers to stays readable while a guard is alive that was pinned before its
//!   successor was published.
//! - **T3** A pivot of an index node holds at most 3 F runs after a flush has settled. In a leaf
//!   whose compactions are done, at most 3 F runs overlap at one key. A lookup therefore asks at
//!   most 3 h F runs.
//! - **T4** A compaction's result is installed only where its inputs still are the oldest pending
//!   part of the same stack.
//! - **T5** An extent of a run is in use exactly while a pivot, or a compaction that is still
//!   valid, refers to the run in a range that needs the extent. An extent that a compaction uses is
//!   also used by a pivot, so a crash leaves no unreachable extent.
//! - **T6** Every key of every run of a group is in the group's maplet, under that run's place.
//! - **T7** Between calls, a scan pins neither a version nor a memtable. It keeps a position,
//!   reference-counted cache frames, and records whose outcome is decided and cannot change.
//! - **T8** Only compactions consult filters, and only those that began while filters were not held
//!   back.
//! - **T9** A leaf of a run holds records of one keyspace, and so does a node of separate values.
//! - **T10** If the trunk assigns a sequence number to a run, all records of the run have this
//!   number, regardless of the numbers stored in the run.

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
