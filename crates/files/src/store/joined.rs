//! A file system as a transaction of the store sees and changes it.

use super::conflict;
use super::listeners::ChangeSummary;
use super::shared::{ChangePlan, FileStore, SpaceEffect, run};
use super::stream;
use super::view::impl_file_system;
use crate::contract::ChangeListener;
use crate::error::Result;
use crate::operations::{ChangeLog, FileLayout, FileReader, FileWriter, OperationContext};
use crate::records::TransactionRecords;
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, Inode, NewNode, RenameMode, SeekTarget,
    SetMode, SpaceStatistics, Timestamp, WritePosition,
};
use alluvium::Transaction;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What a transaction has changed, and which inodes its view holds.
#[derive(Debug, Default)]
pub(super) struct TransactionState {
    summary: ChangeSummary,
    created: HashSet<Inode>,
    orphans: HashSet<Inode>,
    holds: HashMap<Inode, u64>,
    /// The holds of the view that the other views respect, until the transaction ends.
    shared_holds: HashMap<Inode, u64>,
}

/// The context of an operation in a transaction.
struct JoinedContext<'c> {
    store: &'c FileStore,
    state: &'c TransactionState,
    now: Timestamp,
}

impl OperationContext for JoinedContext<'_> {
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

    /// Others may hold an inode that they see, so it is removed after the commit.
    fn must_keep(&self, inode: Inode) -> bool {
        !self.state.created.contains(&inode) || self.state.holds.contains_key(&inode)
    }

    fn notes_change(&self, _directory: Inode) -> bool {
        true
    }
}

impl TransactionState {
    fn add(&mut self, mut changes: ChangeLog) {
        self.summary.add(&mut changes);
        self.created.extend(changes.created);
        self.orphans.extend(changes.orphaned);
        for inode in changes.adopted {
            self.orphans.remove(&inode);
        }
    }

    pub(super) fn read<T>(
        store: &FileStore,
        transaction: &mut Transaction,
        body: impl FnOnce(&FileReader<'_>) -> Result<T>,
    ) -> Result<T> {
        let records = TransactionRecords::new(transaction, &store.spaces);
        body(&FileReader {
            records: &records,
            block_bytes: store.layout.block_bytes,
            streams: None,
        })
        .map_err(|error| conflict::describe(store, error, None))
    }

    /// Runs a change. If it fails, nothing of it remains in the transaction.
    pub(super) fn change<T>(
        &mut self,
        store: &FileStore,
        transaction: &mut Transaction,
        body: impl FnOnce(&FileWriter<'_>) -> Result<T>,
    ) -> Result<T> {
        stream::require_changeable(store)?;
        let before = transaction.savepoint();
        let context = JoinedContext {
            store,
            state: self,
            now: (store.clock)(),
        };
        let result = run(transaction, &store.spaces, &context, body);
        if result.is_err() {
            transaction.rollback_to(&before)?;
        }
        transaction.release(&before)?;
        let (value, changes) = result.map_err(|error| conflict::describe(store, error, None))?;
        self.add(changes);
        Ok(value)
    }

    pub(super) fn hold(
        &mut self,
        store: &FileStore,
        transaction: &mut Transaction,
        inode: Inode,
    ) -> Result<()> {
        store.hold(inode, || {
            TransactionState::read(store, transaction, |reader| reader.require(inode))
        })?;
        self.count_hold(inode);
        Ok(())
    }

    fn count_hold(&mut self, inode: Inode) {
        *self.holds.entry(inode).or_default() += 1;
        *self.shared_holds.entry(inode).or_default() += 1;
    }

    /// Holds an inode that was just created, which no other view can see.
    pub(super) fn hold_created(&mut self, store: &FileStore, inode: Inode) {
        store.holds.hold(inode);
        self.count_hold(inode);
    }

    /// Takes back a hold. What others have removed meanwhile stays until the transaction ends,
    /// because its removal might wait for the locks of this transaction.
    pub(super) fn release(
        &mut self,
        store: &FileStore,
        transaction: &mut Transaction,
        inode: Inode,
    ) -> Result<()> {
        let Some(count) = self.holds.get_mut(&inode) else {
            return Ok(());
        };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        self.holds.remove(&inode);
        match self.created.contains(&inode) && self.orphans.contains(&inode) {
            true => self.change(store, transaction, |writer| writer.reclaim(inode)),
            false => Ok(()),
        }
    }

    /// Takes back all holds of the view.
    pub(super) fn release_all(&mut self, store: &FileStore, view: u64) {
        self.holds.clear();
        for (inode, count) in self.shared_holds.drain() {
            // What cannot be removed now is in the list of leftovers.
            let _ = store.release(view, inode, count);
        }
    }

    /// Returns what has to be done after the commit.
    pub(super) fn into_changes(self, view: u64) -> FileChanges {
        FileChanges {
            view,
            summary: self.summary,
            orphans: self.orphans.into_iter().collect(),
        }
    }

    /// Returns the number of names and inodes that have changed.
    pub(super) fn len(&self) -> usize {
        self.summary.names.len() + self.summary.inodes.len()
    }
}

/// What a transaction has changed in a file system; see [`Files::within`](crate::Files::within).
#[derive(Debug)]
pub struct FileChanges {
    view: u64,
    summary: ChangeSummary,
    orphans: Vec<Inode>,
}

impl FileChanges {
    /// Returns the names that were created, removed, or refer to another inode, each with its
    /// directory, in order.
    #[must_use]
    pub fn names(&self) -> Vec<(Inode, Vec<u8>)> {
        let mut names: Vec<_> = self.summary.names.iter().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Returns the inodes whose attributes or contents have changed, in order.
    #[must_use]
    pub fn inodes(&self) -> Vec<Inode> {
        let mut inodes: Vec<_> = self.summary.inodes.iter().copied().collect();
        inodes.sort_unstable();
        inodes
    }

    pub(super) fn complete(self, store: &FileStore) {
        store.complete(self.view, &self.summary, &self.orphans);
    }
}

/// A file system as a transaction of the caller sees and changes it; see
/// [`Files::within`](crate::Files::within).
#[derive(Debug)]
pub struct JoinedFiles<'t> {
    store: Arc<FileStore>,
    view: u64,
    inner: Mutex<JoinedParts<'t>>,
}

#[derive(Debug)]
struct JoinedParts<'t> {
    transaction: &'t mut Transaction,
    state: TransactionState,
}

impl<'t> JoinedFiles<'t> {
    pub(super) fn new(
        store: &Arc<FileStore>,
        view: u64,
        transaction: &'t mut Transaction,
    ) -> JoinedFiles<'t> {
        JoinedFiles {
            store: Arc::clone(store),
            view,
            inner: Mutex::new(JoinedParts {
                transaction,
                state: TransactionState::default(),
            }),
        }
    }

    /// Ends this view of the transaction, which stays open, and returns what it has changed. All
    /// holds are released.
    #[must_use]
    pub fn finish(self) -> FileChanges {
        let state = std::mem::take(&mut self.inner.lock().state);
        let mut state = state;
        state.release_all(&self.store, self.view);
        state.into_changes(self.view)
    }

    /// Runs `body` with the transaction, for example to read and write other keyspaces.
    pub fn with_transaction<T>(&self, body: impl FnOnce(&mut Transaction) -> T) -> T {
        body(self.inner.lock().transaction)
    }

    fn reading<T>(&self, body: impl FnOnce(&FileReader<'_>) -> Result<T>) -> Result<T> {
        TransactionState::read(&self.store, self.inner.lock().transaction, body)
    }

    fn changing<T>(
        &self,
        _plan: ChangePlan<'_>,
        body: impl FnOnce(&FileWriter<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut inner = self.inner.lock();
        let JoinedParts { transaction, state } = &mut *inner;
        state.change(&self.store, transaction, body)
    }

    fn target(&self, _parent: Inode, _name: &[u8]) -> Vec<Inode> {
        Vec::new()
    }

    fn hold_inode(&self, inode: Inode) -> Result<()> {
        let mut inner = self.inner.lock();
        let JoinedParts { transaction, state } = &mut *inner;
        state.hold(&self.store, transaction, inode)
    }

    fn hold_orphan(&self, inode: Inode) {
        self.inner.lock().state.hold_created(&self.store, inode);
    }

    fn release_inode(&self, inode: Inode) -> Result<()> {
        let mut inner = self.inner.lock();
        let JoinedParts { transaction, state } = &mut *inner;
        state.release(&self.store, transaction, inode)
    }

    fn sync_store(&self) -> Result<()> {
        Ok(())
    }

    fn space_of_store(&self) -> Result<SpaceStatistics> {
        self.store.space()
    }

    fn listen_to(&self, _listener: Arc<dyn ChangeListener>) {}
}

impl Drop for JoinedFiles<'_> {
    fn drop(&mut self) {
        self.inner.get_mut().state.release_all(&self.store, self.view);
    }
}

impl_file_system!(JoinedFiles<'_>, []);
