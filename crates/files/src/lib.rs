//! A file system in an Alluvium store.
//!
//! *Scope*: names, inodes, contents and attributes of files, as records of a store; operations on
//! them, one by one or in a transaction.
//!
//! *Must not depend on*: FUSE, mounts, processes.
//!
//! Invariants:
//!
//! - **F1** Every name refers to an inode that exists, and every inode that no name refers to is
//!   held open or in the list of orphans.

#![warn(missing_docs)]

mod check;
mod contract;
mod decode;
mod error;
mod operations;
mod ordinary;
mod overlay;
mod paths;
mod records;
mod store;
mod tree_copy;
mod types;
mod with_snapshots;

pub use check::FilesReport;
pub use contract::{ChangeListener, FileSystem};
pub use decode::{decode_records, record_examples};
pub use error::{Error, ErrorKind, Result};
pub use operations::COMPRESSION_ATTRIBUTE;
pub use ordinary::{AccessTimes, OrdinaryDirectory, OrdinaryDirectoryLock};
pub use overlay::{
    ApplyOutcome, Overlay, OverlayOptions, OverlayPhase, PathChange, PathChangeKind, apply, discard,
};
pub use paths::{FilePaths, LastLink, PathUsage, WalkEntry};
pub use store::{
    BranchSummary, FileChanges, FileVersion, Files, FilesBranch, FilesOptions, FilesSnapshot,
    FilesTransaction, JoinedFiles, ReceivedSnapshot, SnapshotReceiver, SnapshotSender,
};
pub use tree_copy::{CopyProgress, TreeCopier};
pub use types::{
    AllocateMode, AttributeChange, Attributes, ContentOrder, DirectoryEntry, FileKind, Inode, NewNode,
    RenameMode, SeekTarget, SetMode, SpaceStatistics, TimeChange, Timestamp, WritePosition,
};
pub use with_snapshots::{FilesWithSnapshots, SNAPSHOTS_NAME};

#[cfg(test)]
mod tests;

/// Runs the examples in `docs/files.md` as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/files.md")]
struct FilesPage;
