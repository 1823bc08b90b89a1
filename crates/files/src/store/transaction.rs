//! Transactions over files.

use super::conflict;
use super::files::ViewHandle;
use super::joined::TransactionState;
use super::shared::{ChangePlan, FileStore, SpaceEffect};
use super::view::impl_file_system;
use crate::contract::ChangeListener;
use crate::error::{Error, ErrorKind, Result};
use crate::operations::{FileReader, FileWriter};
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, Inode, NewNode, RenameMode, SeekTarget,
    SetMode, SpaceStatistics, WritePosition,
};
use alluvium::{Durability, JointTransaction, Snapshot, Transaction, TransactionOptions};
use parking_lot::Mutex;
use std::sync::Arc;

/// A transaction over files. No other view sees its changes before [`FilesTransaction::commit`],
/// and a crash before loses all of them. Dropping it rolls it back.
///
/// Several threads may use it. After it has ended, all operations return `Stale`.
///
/// ```
/// use alluvium_files::{ErrorKind, FilePaths, Files};
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store")).unwrap();
/// let files = Files::open(&db, "etc")?;
/// let update = files.begin();
/// update.write_file(b"/hosts", b"127.0.0.1 localhost\n", 0o644)?;
/// update.write_file(b"/hostname", b"elbe\n", 0o644)?;
/// assert_eq!(files.resolve(b"/hosts").unwrap_err().kind(), ErrorKind::NotFound);
/// update.commit()?;
/// assert_eq!(files.read_file(b"/hostname")?, b"elbe\n");
/// # Ok::<(), alluvium_files::Error>(())
/// ```
#[derive(Debug)]
pub struct FilesTransaction {
    store: Arc<FileStore>,
    view: ViewHandle,
    inner: Mutex<Option<OpenParts>>,
}

#[derive(Debug)]
struct OpenParts {
    transaction: JointTransaction,
    state: TransactionState,
    /// What the transaction has found, to name paths in conflicts, unless it reads the newest
    /// state.
    before: Option<Snapshot>,
}

impl FilesTransaction {
    pub(super) fn begin(store: &Arc<FileStore>, options: &TransactionOptions) -> FilesTransaction {
        let transaction = store.db.begin_with(options);
        let parts = OpenParts {
            before: transaction.sequence().map(|_| store.db.snapshot()),
            transaction: JointTransaction::new(transaction),
            state: TransactionState::default(),
        };
        FilesTransaction {
            view: ViewHandle::new(store),
            store: Arc::clone(store),
            inner: Mutex::new(Some(parts)),
        }
    }

    /// Commits the transaction, with the durability of its options.
    ///
    /// # Errors
    /// `Conflict`, with the paths concerned, if another commit has changed what the transaction
    /// depends on: nothing is changed then. `Stale` if it has ended; errors of the store.
    pub fn commit(&self) -> Result<()> {
        self.end(None)
    }

    /// Like [`FilesTransaction::commit`], with this durability.
    ///
    /// # Errors
    /// As [`FilesTransaction::commit`].
    pub fn commit_with(&self, durability: Durability) -> Result<()> {
        self.end(Some(durability))
    }

    fn end(&self, durability: Option<Durability>) -> Result<()> {
        let parts = self.inner.lock().take().ok_or_else(ended)?;
        let mut state = parts.state;
        let committed = parts.transaction.commit(durability);
        state.release_all(&self.store, self.view.number);
        match committed {
            Ok(()) => {
                state.into_changes(self.view.number).complete(&self.store);
                Ok(())
            }
            Err(error) => Err(conflict::describe(
                &self.store,
                error.into(),
                parts.before.as_ref(),
            )),
        }
    }

    /// Rolls the transaction back. Nothing happens if it has ended.
    pub fn rollback(&self) {
        if let Some(mut parts) = self.inner.lock().take() {
            parts.transaction.rollback();
            parts.state.release_all(&self.store, self.view.number);
        }
    }

    /// Returns whether the transaction has neither been committed nor rolled back.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner.lock().is_some()
    }

    /// Returns the number of names and inodes that the transaction has changed.
    #[must_use]
    pub fn changed(&self) -> usize {
        self.inner.lock().as_ref().map_or(0, |parts| parts.state.len())
    }

    /// Runs `body` with the transaction of the store, for example to read and write other
    /// keyspaces.
    ///
    /// # Errors
    /// `Stale` if the transaction has ended.
    pub fn with_transaction<T>(&self, body: impl FnOnce(&mut Transaction) -> T) -> Result<T> {
        self.with(|parts| Ok(parts.transaction.with(body)?))
    }

    /// Returns a name by which other parts of the program can join the transaction, and read and
    /// write other keyspaces in it: see [`alluvium::Db::joint_transaction`].
    ///
    /// # Errors
    /// `Stale` if the transaction has ended.
    pub fn publish(&self) -> Result<String> {
        self.with(|parts| Ok(parts.transaction.publish(&self.store.db)))
    }

    fn with<T>(&self, body: impl FnOnce(&mut OpenParts) -> Result<T>) -> Result<T> {
        body(self.inner.lock().as_mut().ok_or_else(ended)?)
    }

    fn within<T>(
        &self,
        body: impl FnOnce(&mut Transaction, &mut TransactionState) -> Result<T>,
    ) -> Result<T> {
        self.with(|parts| {
            let OpenParts {
                transaction, state, ..
            } = parts;
            transaction.with(|transaction| body(transaction, state))?
        })
    }

    fn reading<T>(&self, body: impl FnOnce(&FileReader<'_>) -> Result<T>) -> Result<T> {
        self.within(|transaction, _| TransactionState::read(&self.store, transaction, body))
    }

    fn changing<T>(
        &self,
        _plan: ChangePlan<'_>,
        body: impl FnOnce(&FileWriter<'_>) -> Result<T>,
    ) -> Result<T> {
        self.within(|transaction, state| state.change(&self.store, transaction, body))
    }

    fn target(&self, _parent: Inode, _name: &[u8]) -> Vec<Inode> {
        Vec::new()
    }

    fn hold_inode(&self, inode: Inode) -> Result<()> {
        self.within(|transaction, state| state.hold(&self.store, transaction, inode))
    }

    fn hold_orphan(&self, inode: Inode) {
        if let Some(parts) = self.inner.lock().as_mut() {
            parts.state.hold_created(&self.store, inode);
        }
    }

    fn release_inode(&self, inode: Inode) -> Result<()> {
        self.within(|transaction, state| state.release(&self.store, transaction, inode))
    }

    fn sync_store(&self) -> Result<()> {
        self.with(|_| Ok(()))
    }

    fn space_of_store(&self) -> Result<SpaceStatistics> {
        self.store.space()
    }

    fn listen_to(&self, _listener: Arc<dyn ChangeListener>) {}
}

impl Drop for FilesTransaction {
    fn drop(&mut self) {
        self.rollback();
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Stale, "the transaction has ended: begin another one")
}

impl_file_system!(FilesTransaction, []);
