//! What all views of an open file system share.

use super::branch::BranchState;
use super::conflict;
use super::holds::HoldTable;
use super::listeners::{ChangeSummary, ListenerList};
use super::numbers::InodeNumbers;
use super::options::FileClock;
use super::stream;
use super::ticks::DirectoryTicks;
use crate::error::{Error, ErrorKind, Result};
use crate::operations::{ChangeLog, FileLayout, FileReader, FileStreams, FileWriter, OperationContext};
use crate::records::{FileKeyspaces, SnapshotRecords, TransactionRecords};
use crate::types::{Inode, SpaceStatistics, Timestamp};
use alluvium::{Db, HeldLocks, LockMode, LockSet, LockTable, Snapshot, Transaction, TransactionOptions};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// Number of stripes of the lock table.
/// Tuning: `4096` since 2026-11-29.
pub(super) const STRIPES: usize = 4096;

/// Most memory of the writes of a single operation, in bytes. A larger one spills to disk.
/// Tuning: `4 << 20` since 2026-11-29.
const OPERATION_MEMORY: usize = 4 << 20;

/// Attempts of a single operation that conflicts, until its error is returned.
/// Not a tuning parameter.
const MOST_TRIES: u32 = 1000;

/// Namespace of inodes in the lock table. Not a tuning parameter.
const INODE_LOCKS: u64 = 0;
/// Namespace of names in the lock table. Not a tuning parameter.
const NAME_LOCKS: u64 = 1;

/// Number of bytes for which `statfs` promises another inode. Not a tuning parameter.
const BYTES_PER_INODE: u64 = 512;

/// An open file system.
pub(crate) struct FileStore {
    pub(super) db: Db,
    pub(super) name: String,
    pub(super) spaces: FileKeyspaces,
    pub(super) layout: FileLayout,
    pub(super) generation: u64,
    pub(super) clock: FileClock,
    pub(super) numbers: InodeNumbers,
    pub(super) holds: HoldTable,
    pub(super) listeners: ListenerList,
    pub(super) locks: LockTable,
    pub(super) ticks: DirectoryTicks,
    pub(super) streams: FileStreams,
    /// Orphans that no view holds and whose removal has failed.
    pub(super) leftover: Mutex<Vec<Inode>>,
    /// How often a snapshot was created or removed.
    pub(super) snapshot_changes: AtomicU64,
    /// Whether only streams change the files.
    pub(super) is_copy: AtomicBool,
    /// Held while a snapshot is taken, so that its stamp is its own.
    pub(super) snapshots: Mutex<()>,
    /// What makes these the files of a branch.
    pub(super) branch: Option<BranchState>,
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What a change needs before it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangePlan<'p> {
    /// Inodes that it changes.
    pub(super) inodes: &'p [Inode],
    /// Names that it changes.
    pub(super) names: &'p [(Inode, &'p [u8])],
    pub(super) space: SpaceEffect,
}

/// Whether a change needs space or frees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpaceEffect {
    Needs,
    Frees,
}

/// The context of a single operation, which commits on its own.
struct SingleContext<'c> {
    store: &'c FileStore,
    now: Timestamp,
    /// Inodes whose last names the operation removes.
    removed: RefCell<Vec<Inode>>,
}

impl OperationContext for SingleContext<'_> {
    fn layout(&self) -> FileLayout {
        self.store.layout
    }

    fn now(&self) -> Timestamp {
        self.now
    }

    fn generation(&self) -> u64 {
        self.store.generation
    }

    fn next_inode(&self, directory: Inode) -> Result<Inode> {
        self.store.next_inode(directory)
    }

    fn must_keep(&self, inode: Inode) -> bool {
        self.removed.borrow_mut().push(inode);
        self.store.holds.is_held(inode) || self.store.is_of_base(inode)
    }

    fn notes_change(&self, directory: Inode) -> bool {
        self.store.ticks.admit(directory, self.now)
    }
}

/// The outcome of one attempt of a change.
enum ChangeAttempt<T> {
    Done(T, ChangeLog),
    /// The attempt must be repeated with these inodes locked.
    NeedsLocks(Vec<Inode>),
}

impl FileStore {
    pub(super) fn next_inode(&self, directory: Inode) -> Result<Inode> {
        match &self.branch {
            None => self.numbers.next(&self.db, &self.spaces, directory),
            Some(branch) => branch.origin.next_inode(directory),
        }
    }

    /// Returns whether these are the files of a branch that began with this inode. Such an inode
    /// stays as an orphan until the branch is committed, because others may hold it.
    pub(super) fn is_of_base(&self, inode: Inode) -> bool {
        self.branch
            .as_ref()
            .is_some_and(|branch| branch.began_with(inode))
    }

    /// Runs operations that read the newest commit.
    pub(super) fn read<T>(&self, body: impl FnOnce(&FileReader<'_>) -> Result<T>) -> Result<T> {
        self.read_in(&self.db.snapshot(), body)
    }

    /// Runs operations that read a snapshot.
    pub(super) fn read_in<T>(
        &self,
        snapshot: &Snapshot,
        body: impl FnOnce(&FileReader<'_>) -> Result<T>,
    ) -> Result<T> {
        let block_bytes = self.layout.block_bytes;
        let streams = Some(&self.streams);
        match &self.branch {
            None => body(&FileReader {
                records: &SnapshotRecords::new(snapshot, &self.spaces),
                block_bytes,
                streams,
            }),
            Some(branch) => body(&FileReader {
                records: &branch.records(snapshot)?,
                block_bytes,
                streams,
            }),
        }
    }

    /// Locks what single operations change, so that they do not conflict with each other. The
    /// transactions alone make them correct, except that S1 needs the locks of inodes.
    pub(super) fn lock(
        &self,
        inodes: impl Iterator<Item = Inode>,
        names: &[(Inode, &[u8])],
        mode: LockMode,
    ) -> HeldLocks<'_> {
        let mut set = LockSet::default();
        for inode in inodes {
            set.key(INODE_LOCKS, &crate::records::format::inode_key(inode), mode);
        }
        for (parent, name) in names {
            let key = crate::records::format::name_key(*parent, name);
            set.key(NAME_LOCKS, &key, mode);
        }
        self.locks.lock(set)
    }

    /// Runs a change in a transaction of its own, again after conflicts, and returns what it
    /// changed.
    pub(super) fn change<T>(
        &self,
        view: u64,
        plan: ChangePlan<'_>,
        body: impl Fn(&FileWriter<'_>) -> Result<T>,
    ) -> Result<T> {
        stream::require_changeable(self)?;
        let options = TransactionOptions::new().memory(OPERATION_MEMORY);
        let options = match plan.space {
            SpaceEffect::Needs => options,
            SpaceEffect::Frees => options.frees_space(),
        };
        let mut inodes = plan.inodes.to_vec();
        let mut tries = 0;
        loop {
            let locks = self.lock(inodes.iter().copied(), plan.names, LockMode::Exclusive);
            let attempt = self.attempt(&options, &inodes, &body);
            match attempt {
                Ok(ChangeAttempt::Done(value, changes)) => {
                    self.note_orphans(&changes);
                    drop(locks);
                    self.listeners.announce_log(view, changes);
                    return Ok(value);
                }
                Ok(ChangeAttempt::NeedsLocks(more)) => inodes.extend(more),
                Err(error) if is_retried(&error) && tries < MOST_TRIES => {
                    drop(locks);
                    tries += 1;
                    std::thread::sleep(Duration::from_micros(50) * tries.min(100));
                }
                Err(error) => return Err(conflict::describe(self, error, None)),
            }
        }
    }

    fn attempt<T>(
        &self,
        options: &TransactionOptions,
        locked: &[Inode],
        body: impl Fn(&FileWriter<'_>) -> Result<T>,
    ) -> Result<ChangeAttempt<T>> {
        let context = SingleContext {
            store: self,
            now: (self.clock)(),
            removed: RefCell::default(),
        };
        let mut transaction = self.db.begin_with(options);
        let (value, changes) = match &self.branch {
            None => run(&mut transaction, &self.spaces, &context, body)?,
            Some(branch) => branch.run(&transaction, &context, body)?,
        };
        let removed = context.removed.into_inner();
        let unlocked = removed.into_iter().filter(|inode| !locked.contains(inode));
        let unlocked: Vec<Inode> = unlocked.collect();
        if !unlocked.is_empty() {
            return Ok(ChangeAttempt::NeedsLocks(unlocked));
        }
        transaction.commit()?;
        Ok(ChangeAttempt::Done(value, changes))
    }

    /// Notes which held inodes have become orphans, while they are locked.
    fn note_orphans(&self, changes: &ChangeLog) {
        for &inode in &changes.orphaned {
            self.holds.note_orphan(inode);
        }
        for &inode in &changes.adopted {
            self.holds.note_adoption(inode);
        }
    }

    /// Holds an inode that exists.
    pub(super) fn hold(&self, inode: Inode, exists: impl FnOnce() -> Result<()>) -> Result<()> {
        let _locks = self.lock([inode].into_iter(), &[], LockMode::Shared);
        exists()?;
        self.holds.hold(inode);
        Ok(())
    }

    /// Takes back holds, and removes the inode if it is an orphan that no view holds any more.
    pub(super) fn release(&self, view: u64, inode: Inode, count: u64) -> Result<()> {
        match self.holds.release(inode, count) {
            true => self.reclaim(view, &[inode]),
            false => Ok(()),
        }
    }

    /// Removes orphans that no view holds, and those whose removal has failed before. A removal
    /// that fails now is tried again later.
    pub(super) fn reclaim(&self, view: u64, orphans: &[Inode]) -> Result<()> {
        let mut all = std::mem::take(&mut *self.leftover.lock());
        all.extend_from_slice(orphans);
        let mut result = Ok(());
        for chunk in all.chunks(RECLAIMED_AT_ONCE) {
            let plan = ChangePlan {
                inodes: chunk,
                names: &[],
                space: SpaceEffect::Frees,
            };
            let reclaimed = self.change(view, plan, |writer| {
                for &inode in chunk {
                    if !self.holds.note_orphan(inode) && !self.is_of_base(inode) {
                        writer.reclaim(inode)?;
                    }
                }
                Ok(())
            });
            if let Err(error) = reclaimed {
                self.leftover.lock().extend_from_slice(chunk);
                result = Err(error);
            }
        }
        result
    }

    /// Completes a transaction that has been committed.
    pub(super) fn complete(&self, view: u64, summary: &ChangeSummary, orphans: &[Inode]) {
        self.listeners.announce(view, summary);
        if !orphans.is_empty() {
            // What cannot be removed now is in the list of leftovers, and in the list of orphans.
            let _ = self.reclaim(view, orphans);
        }
    }

    pub(super) fn space(&self) -> Result<SpaceStatistics> {
        let disk = self.db.disk_space()?;
        let block_bytes = self.layout.block_bytes;
        let inodes = self
            .spaces
            .of(crate::records::RecordSpace::Inodes)
            .approximate_len()?;
        Ok(SpaceStatistics {
            block_bytes: block_bytes as u32,
            blocks: disk.total_bytes / block_bytes,
            free_blocks: disk.free_bytes / block_bytes,
            inodes,
            free_inodes: disk.free_bytes / BYTES_PER_INODE,
            name_bytes: crate::records::format::MAX_NAME as u32,
        })
    }
}

/// Number of orphans that a commit removes.
/// Tuning: `64` since 2026-11-29.
const RECLAIMED_AT_ONCE: usize = 64;

/// Returns whether a single operation runs again after an error.
pub(super) fn is_retried(error: &Error) -> bool {
    let kind = error.store_error().map(alluvium::Error::kind);
    matches!(
        kind,
        Some(alluvium::ErrorKind::Conflict | alluvium::ErrorKind::Deadlock)
    )
}

/// Runs a change in a transaction.
pub(super) fn run<T>(
    transaction: &mut Transaction,
    spaces: &FileKeyspaces,
    context: &dyn OperationContext,
    body: impl FnOnce(&FileWriter<'_>) -> Result<T>,
) -> Result<(T, ChangeLog)> {
    let records = TransactionRecords::new(transaction, spaces);
    let writer = FileWriter::new(&records, context);
    let value = body(&writer)?;
    Ok((value, writer.changes.into_inner()))
}

/// Returns the error of a change to something that cannot be changed.
pub(super) fn read_only(what: &str) -> Error {
    Error::new(ErrorKind::ReadOnly, format!("{what} cannot be changed"))
}
