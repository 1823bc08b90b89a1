//! The ends of branches.

use super::registry::{self, BranchHeaders, MOST_TRIES};
use super::{BEGINNING, BranchState, find_open, snapshot_name};
use crate::error::{Error, ErrorKind, Result};
use crate::operations::FileReader;
use crate::records::branch::format::{self, BranchNumber, BranchRecordKind};
use crate::records::branch::{BaseRecords, BranchWriter, damaged_branch};
use crate::records::{
    ReadDependence, ReadRecords, RecordSpace, TransactionRecords, WalkedValues, WriteRecords, format as files,
};
use crate::store::conflict;
use crate::store::listeners::ChangeSummary;
use crate::store::shared::{FileStore, is_retried};
use crate::types::Inode;
use alluvium::{Durability, Keyspace, Snapshot, Transaction, TransactionOptions};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Paths that the error of a conflict names.
const MOST_NAMED: usize = 100;

/// What a commit has written.
#[derive(Default)]
struct CommittedChanges {
    summary: ChangeSummary,
    orphans: Vec<Inode>,
}

/// A commit of a branch while it runs.
struct BranchCommit<'c> {
    branch: &'c BranchState,
    /// The branch as of the beginning of the transaction.
    own: &'c Snapshot,
    /// Where its changes are written.
    target: &'c dyn WriteRecords,
    committed: CommittedChanges,
    /// What others have changed: inodes, with names in them or none.
    conflicts: BTreeSet<(Inode, Vec<u8>)>,
}

/// Writes the changes of a branch to the files, or to the branch of which it is one.
pub(crate) fn commit(origin: &Arc<FileStore>, name: &str) -> Result<()> {
    let store = registry::open(origin, name)?;
    let Some(branch) = &store.branch else {
        return Ok(());
    };
    let ending = branch.begin_end()?;
    let mut tries = 0;
    let committed = loop {
        match commit_once(branch) {
            Err(error) if is_retried(&error) && tries < MOST_TRIES => tries += 1,
            result => break result?,
        }
    };
    drop(ending);
    remove_snapshot(origin, branch.number);
    let target = match &branch.base.parent {
        None => Some(Arc::clone(origin)),
        Some(parent) => find_open(origin, parent.0),
    };
    if let Some(target) = target {
        let view = target.listeners.next_view();
        target.complete(view, &committed.summary, &committed.orphans);
    }
    Ok(())
}

/// The branch has ended. A snapshot that stays is removed when the next branch begins.
fn remove_snapshot(origin: &FileStore, number: BranchNumber) {
    let _alone = BEGINNING.lock();
    let _ = origin.db.remove_snapshot(&snapshot_name(&origin.name, number));
}

fn commit_once(branch: &BranchState) -> Result<CommittedChanges> {
    let (origin, spaces) = (&branch.origin, &branch.spaces);
    let mut transaction = origin.db.begin();
    // What is committed between the beginning of the transaction and this snapshot conflicts.
    let own = origin.db.snapshot();
    EndingBranch::of(branch).end_in(&transaction, &own)?;
    if let Some(parent) = &branch.base.parent {
        require_parent(&transaction, branch, parent.0, &own)?;
    }
    let (committed, conflicts) = match &branch.base.parent {
        None => {
            let target = TransactionRecords::new(&mut transaction, &spaces.files);
            BranchCommit::new(branch, &own, &target).run()?
        }
        Some(parent) => {
            let target = BranchWriter::new(&transaction, spaces, parent.0, &parent.1);
            BranchCommit::new(branch, &own, &target).run()?
        }
    };
    if !conflicts.is_empty() {
        return Err(conflicting(&branch.name, conflicts));
    }
    transaction.commit_with(Durability::Disk)?;
    Ok(committed)
}

fn conflicting(name: &str, paths: BTreeSet<Vec<u8>>) -> Error {
    let paths: Vec<Vec<u8>> = paths.into_iter().take(MOST_NAMED).collect();
    let message = format!(
        "others have changed {} since the branch {name:?} began, which has changed the same or depends on it: nothing was committed; copy what you need out of the branch, then abort it",
        crate::error::shown(&paths)
    );
    Error::new(ErrorKind::Conflict, message).naming(paths)
}

/// Makes the commit of a branch depend on the existence of its parent.
fn require_parent(
    transaction: &Transaction,
    branch: &BranchState,
    number: BranchNumber,
    own: &Snapshot,
) -> Result<()> {
    let (origin, branches) = (&branch.origin, &branch.spaces.branches);
    let headers = registry::headers_at(own, branches)?;
    let parent = headers.iter().find(|(_, header)| header.number == number);
    let (parent, _) = parent.ok_or_else(|| {
        let message = format!(
            "the branch {} is missing, which {:?} is a branch of",
            number.0, branch.name
        );
        Error::new(ErrorKind::Damaged, message)
    })?;
    match transaction.get_shared(branches, format::header_key(parent))? {
        Some(_) => Ok(()),
        None => Err(registry::missing(&headers, &origin.name, parent)),
    }
}

/// A branch that is committed or aborted.
#[derive(Clone, Copy)]
struct EndingBranch<'e> {
    origin: &'e FileStore,
    branches: &'e Keyspace,
    number: BranchNumber,
    name: &'e str,
}

impl<'e> EndingBranch<'e> {
    fn of(branch: &'e BranchState) -> EndingBranch<'e> {
        EndingBranch {
            origin: &branch.origin,
            branches: &branch.spaces.branches,
            number: branch.number,
            name: &branch.name,
        }
    }

    /// Deletes everything that the store has of the branch, which must exist and have no branches.
    /// `newest` is not older than the transaction.
    fn end_in(self, transaction: &Transaction, newest: &Snapshot) -> Result<()> {
        let EndingBranch { branches, name, .. } = self;
        let headers = registry::headers_at(newest, branches)?;
        let found = registry::header_in(transaction, branches, name)?;
        if found.is_none_or(|found| found.number != self.number) {
            return Err(registry::missing(&headers, &self.origin.name, name));
        }
        // A branch of it that begins later writes its header, and conflicts.
        let mut others = headers.iter();
        if let Some((child, _)) = others.find(|(_, other)| other.parent == Some(self.number)) {
            let message = format!("{child:?} is a branch of the branch {name:?}: commit or abort it first");
            return Err(Error::new(ErrorKind::Busy, message));
        }
        transaction.delete(branches, format::header_key(name))?;
        for (low, high) in [format::all_records(self.number), format::all_ranges(self.number)] {
            // A change that was committed after this transaction began must not be lost.
            transaction.depend_on_range(branches, &low[..]..&high[..])?;
            transaction.delete_range(branches, low, Some(&high))?;
        }
        Ok(())
    }
}

/// Removes a branch with its changes.
pub(crate) fn abort(origin: &Arc<FileStore>, name: &str) -> Result<()> {
    let branches = registry::existing_keyspace(&origin.db, &origin.name)?
        .ok_or_else(|| registry::missing(&BranchHeaders::new(), &origin.name, name))?;
    let headers = registry::headers_at(&origin.db.snapshot(), &branches)?;
    let number = registry::required(&headers, &origin.name, name)?.number;
    let store = find_open(origin, number);
    let branch = store.as_ref().and_then(|store| store.branch.as_ref());
    let ending = branch.map(BranchState::begin_end).transpose()?;
    let options = TransactionOptions::new().frees_space();
    let ending_branch = EndingBranch {
        origin,
        branches: &branches,
        number,
        name,
    };
    let mut tries = 0;
    loop {
        let transaction = origin.db.begin_with(&options);
        let ended = ending_branch.end_in(&transaction, &origin.db.snapshot());
        let ended = ended.and_then(|()| Ok(transaction.commit_with(Durability::Disk)?));
        match ended {
            Err(error) if is_retried(&error) && tries < MOST_TRIES => tries += 1,
            result => break result?,
        }
    }
    drop(ending);
    remove_snapshot(origin, number);
    Ok(())
}

impl<'c> BranchCommit<'c> {
    fn new(branch: &'c BranchState, own: &'c Snapshot, target: &'c dyn WriteRecords) -> BranchCommit<'c> {
        BranchCommit {
            branch,
            own,
            target,
            committed: CommittedChanges::default(),
            conflicts: BTreeSet::new(),
        }
    }

    /// Writes the changes, and returns them with the paths of conflicts.
    fn run(mut self) -> Result<(CommittedChanges, BTreeSet<Vec<u8>>)> {
        self.compare_ranges()?;
        self.take_records()?;
        let mut paths = BTreeSet::new();
        for (inode, name) in &self.conflicts {
            paths.insert(self.path(*inode, name)?);
        }
        Ok((self.committed, paths))
    }

    fn base(&self) -> BaseRecords<'c> {
        BaseRecords {
            base: &self.branch.base,
            spaces: &self.branch.spaces,
        }
    }

    /// Compares the ranges on which the branch depends, before any of its changes is written.
    fn compare_ranges(&mut self) -> Result<()> {
        let (low, high) = format::all_ranges(self.branch.number);
        let branches = &self.branch.spaces.branches;
        for record in self.own.range(branches, low..high) {
            let (key, _) = record?;
            let range = format::split_range_key(&key).map_err(|damage| damaged_branch(&key, damage))?;
            let (space, low, high) = range;
            self.target.depend_on_range(space, low, high)?;
            let base = contents(&self.base(), range)?;
            if contents(self.target, range)? != base
                && let Some(place) = conflict::concerned_by(space, low)
            {
                self.conflicts.insert(place);
            }
        }
        Ok(())
    }

    fn take_records(&mut self) -> Result<()> {
        let (low, high) = format::all_records(self.branch.number);
        let branches = &self.branch.spaces.branches;
        for record in self.own.range(branches, low..high) {
            let (key, value) = record?;
            let damage = |damage| damaged_branch(&key, damage);
            let (space, own) = format::split_record_key(&key).map_err(damage)?;
            let kind = format::decode_kind(&value).map_err(damage)?;
            let value = value.get(format::MARK_BYTES..).unwrap_or_default();
            self.compare(space, own, kind)?;
            if self.conflicts.is_empty() {
                self.write(space, own, kind, value)?;
            } else if self.conflicts.len() > MOST_NAMED {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Compares a record with what the branch began with. Blocks are compared with their inodes,
    /// and changes of counts and times do not conflict.
    fn compare(&mut self, space: RecordSpace, key: &[u8], kind: BranchRecordKind) -> Result<()> {
        let is_free = matches!(
            space,
            RecordSpace::Blocks | RecordSpace::Compressed | RecordSpace::Counts | RecordSpace::Times
        );
        let depends = match kind {
            BranchRecordKind::Depended => ReadDependence::Shared,
            _ if is_free => return Ok(()),
            _ => ReadDependence::Update,
        };
        let before = self.base().get(space, key, depends)?;
        let now = self.target.get(space, key, depends)?;
        if before.as_deref() != now.as_deref() {
            let place = conflict::concerned_by(space, key).ok_or_else(|| {
                let message = format!(
                    "a branch has a record \"{}\" of {} that no file has: run `alluvium files check`",
                    key.escape_ascii(),
                    space.suffix()
                );
                Error::new(ErrorKind::Damaged, message)
            })?;
            self.conflicts.insert(place);
        }
        Ok(())
    }

    fn write(&mut self, space: RecordSpace, key: &[u8], kind: BranchRecordKind, value: &[u8]) -> Result<()> {
        match kind {
            BranchRecordKind::Depended => return Ok(()),
            BranchRecordKind::Deleted => self.target.delete(space, key)?,
            BranchRecordKind::Written => self.target.put(space, key, value)?,
            BranchRecordKind::Merged => self.target.merge(space, key, value)?,
        }
        let Some((inode, name)) = conflict::concerned_by(space, key) else {
            return Ok(());
        };
        let summary = &mut self.committed.summary;
        summary.inodes.insert(inode);
        match space {
            RecordSpace::Names => drop(summary.names.insert((inode, name))),
            RecordSpace::System if key.starts_with(files::ORPHANS) && kind == BranchRecordKind::Written => {
                self.committed.orphans.push(inode);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the path of a conflict: as it is now, or as it was when the branch began.
    fn path(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>> {
        let origin = &self.branch.origin;
        let in_records = |records: &dyn ReadRecords| {
            let block_bytes = origin.layout.block_bytes;
            conflict::path_of(
                &FileReader {
                    records,
                    block_bytes,
                    streams: None,
                },
                inode,
            )
        };
        // What the transaction sees of the files includes changes of the branch.
        let now = origin.db.snapshot();
        let path = match &self.branch.base.parent {
            None => origin.read_in(&now, |reader| Ok(conflict::path_of(reader, inode)))?,
            Some(_) => in_records(self.target),
        };
        let path = path.or_else(|| in_records(&self.base()));
        let own = || in_records(&self.branch.records(self.own).ok()?);
        let path = path.or_else(own);
        Ok(match path {
            Some(path) => conflict::joined(path, name),
            None => format!("inode {}", inode.0).into_bytes(),
        })
    }
}

/// Returns the keys and values of a range.
fn contents(
    records: &(impl ReadRecords + ?Sized),
    (space, low, high): format::DependedRange<'_>,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    records.walk(space, low, high, WalkedValues::All, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
