//! Branches: changes of files that others do not see, in the store until they are committed.
//!
//! A branch begins with the files as they are, and a named snapshot of the store keeps that state.
//! What an operation in a branch writes are records of the branch, in one keyspace for all branches
//! of the file system. A commit compares what the branch began with and the newest state, and
//! writes its records over those of the file system, or of the branch of which it is a branch. All
//! of that, and the end of the branch, is one transaction.
//!
//! Records are compared by their values. A change of contents is noticed because each one sets the
//! time of the inode's last change.
//!
//! *Scope*: when branches begin and end, and the views of them.
//!
//! *Must not depend on*: which records an operation writes.
//!
//! Invariants:
//!
//! - **C1** A branch exists as long as its header. The transaction that commits or removes a branch
//!   deletes the header with all records of the branch.
//! - **C2** Every change of a branch depends on its header, so it takes effect before the end of
//!   the branch or fails.
//! - **C3** A branch with branches of its own does not end.

mod changes;
mod check;
mod commit;
mod handle;
mod registry;

pub use handle::FilesBranch;
pub use registry::BranchSummary;

pub(super) use changes::changes;
pub(super) use check::check_all;
pub(super) use commit::{abort, commit};
pub(super) use registry::{begin, list_all, list_names, open};

use super::shared::FileStore;
use crate::error::{Error, ErrorKind, Result};
use crate::operations::{ChangeLog, FileWriter, OperationContext};
use crate::records::branch::format::{self, BranchNumber};
use crate::records::branch::{BranchBase, BranchKeyspaces, BranchRecords, BranchWriter};
use crate::records::{KEYSPACE_PREFIX, RecordSpace};
use crate::types::Inode;
use alluvium::{Db, Snapshot, Transaction};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// The open branches of this process. All handles of one share its holds, locks and listeners.
static OPEN: Mutex<Vec<Weak<FileStore>>> = Mutex::new(Vec::new());

/// Held while branches begin, and while snapshots are removed that no branch needs.
static BEGINNING: Mutex<()> = Mutex::new(());

/// What makes a [`FileStore`] the files of a branch.
pub(super) struct BranchState {
    /// The file system.
    pub(super) origin: Arc<FileStore>,
    pub(super) name: String,
    number: BranchNumber,
    base: BranchBase,
    spaces: BranchKeyspaces,
    handles: Mutex<HandleState>,
}

/// How many handles of a branch exist, and whether it ends.
#[derive(Debug, Default)]
struct HandleState {
    open: u32,
    is_ending: bool,
}

/// Returns how the names begin that the snapshots of the branches of a file system have in the
/// store.
pub(super) fn snapshot_prefix(files: &str) -> String {
    format!("{KEYSPACE_PREFIX}{files}:")
}

fn snapshot_name(files: &str, number: BranchNumber) -> String {
    format!("{}{}", snapshot_prefix(files), number.0)
}

/// Forgets the open branches of a file system that is being removed.
pub(super) fn forget(db: &Db, files: &str) {
    OPEN.lock().retain(|store| {
        let store = store.upgrade();
        store.is_some_and(|store| store.name != files || !store.db.is_same_store(db))
    });
}

/// Returns an open branch.
fn find_open(origin: &FileStore, number: BranchNumber) -> Option<Arc<FileStore>> {
    let mut open = OPEN.lock();
    open.retain(|store| store.strong_count() > 0);
    open.iter().filter_map(Weak::upgrade).find(|store| {
        let is_it = |branch: &BranchState| branch.number == number;
        store.name == origin.name
            && store.db.is_same_store(&origin.db)
            && store.branch.as_ref().is_some_and(is_it)
    })
}

impl BranchState {
    /// Returns the records of the branch as of a commit.
    pub(super) fn records<'r>(&'r self, snapshot: &'r Snapshot) -> Result<BranchRecords<'r>> {
        let header = snapshot.get(&self.spaces.branches, format::header_key(&self.name))?;
        self.require(header.as_deref())?;
        Ok(BranchRecords::in_snapshot(
            snapshot,
            &self.spaces,
            self.number,
            &self.base,
        ))
    }

    /// Runs a change of the branch in a transaction.
    pub(super) fn run<T>(
        &self,
        transaction: &Transaction,
        context: &dyn OperationContext,
        body: impl FnOnce(&FileWriter<'_>) -> Result<T>,
    ) -> Result<(T, ChangeLog)> {
        let header = transaction.get_shared(&self.spaces.branches, format::header_key(&self.name))?;
        self.require(header.as_deref())?;
        let records = BranchWriter::new(transaction, &self.spaces, self.number, &self.base);
        let writer = FileWriter::new(&records, context);
        let value = body(&writer)?;
        Ok((value, writer.changes.into_inner()))
    }

    /// Returns an error unless this is the header of the branch.
    fn require(&self, header: Option<&[u8]>) -> Result<()> {
        let found = header.and_then(|header| format::BranchHeader::decode(header).ok());
        match found {
            Some(found) if found.number == self.number => Ok(()),
            _ => {
                let message = format!("the branch {:?} was committed or aborted", self.name);
                Err(Error::new(ErrorKind::Stale, message))
            }
        }
    }

    /// Returns whether an inode existed when the branch began. What cannot be read is kept.
    pub(super) fn began_with(&self, inode: Inode) -> bool {
        let key = crate::records::format::inode_key(inode);
        let found = self.base.get(&self.spaces, RecordSpace::Inodes, &key);
        !found.is_ok_and(|found| found.is_none())
    }

    fn busy(&self, why: &str) -> Error {
        Error::new(ErrorKind::Busy, format!("the branch {:?} {why}", self.name))
    }

    /// Counts a handle of the branch.
    fn enter(&self) -> Result<()> {
        let mut handles = self.handles.lock();
        if handles.is_ending {
            return Err(self.busy("is being committed or aborted: see `alluvium tx list`"));
        }
        handles.open += 1;
        Ok(())
    }

    fn leave(&self) {
        self.handles.lock().open -= 1;
    }

    /// Begins to end the branch, which must have no handles.
    fn begin_end(&self) -> Result<BranchEnd<'_>> {
        let mut handles = self.handles.lock();
        if handles.is_ending {
            return Err(self.busy("is being committed or aborted already"));
        }
        if handles.open > 0 {
            return Err(self.busy("is in use by a command: wait for its end"));
        }
        handles.is_ending = true;
        Ok(BranchEnd { branch: self })
    }
}

/// Keeps others from opening a branch that is about to end.
struct BranchEnd<'b> {
    branch: &'b BranchState,
}

impl Drop for BranchEnd<'_> {
    fn drop(&mut self) {
        self.branch.handles.lock().is_ending = false;
    }
}
