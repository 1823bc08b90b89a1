//! File systems in stores: open ones, transactions and snapshots of them.
//!
//! *Scope*: when transactions of the store begin and commit, who holds inodes, and who is told of
//! changes.
//!
//! *Must not depend on*: which records an operation writes.
//!
//! Invariants:
//!
//! - **S1** While an inode's last name is removed, the inode is locked exclusively, and while a
//!   hold begins, it is locked at least shared. A held inode therefore stays as an orphan.
//! - **S2** An inode number is used only after the commit that reserved it.
//! - **S3** Listeners are told of a change after its commit is visible.

mod branch;
mod conflict;
mod files;
mod history;
mod holds;
mod joined;
mod listeners;
mod numbers;
mod open;
mod options;
mod shared;
mod snapshot;
mod stream;
mod ticks;
mod transaction;
mod view;

pub use branch::{BranchSummary, FilesBranch};
pub use files::Files;
pub use history::FileVersion;
pub use joined::{FileChanges, JoinedFiles};
pub use options::FilesOptions;
pub use snapshot::FilesSnapshot;
pub use stream::{ReceivedSnapshot, SnapshotReceiver, SnapshotSender};
pub(crate) use stream::{body_examples as stream_examples, reread as reread_stream};
pub use transaction::FilesTransaction;
