//! The handle of an open file system.

use super::branch::{BranchSummary, FilesBranch};
use super::history::{self, FileVersion};
use super::joined::{FileChanges, JoinedFiles};
use super::options::FilesOptions;
use super::shared::{ChangePlan, FileStore, SpaceEffect};
use super::snapshot::FilesSnapshot;
use super::stream::{self, SnapshotSender};
use super::transaction::FilesTransaction;
use super::view::impl_file_system;
use super::{branch, open, snapshot};
use crate::check::FilesReport;
use crate::contract::ChangeListener;
use crate::error::Result;
use crate::operations::{FileReader, FileWriter};
use crate::overlay::PathChange;
use crate::records::{RecordSpace, format};
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, Inode, NewNode, RenameMode, SeekTarget,
    SetMode, SpaceStatistics, WritePosition,
};
use alluvium::{Db, Transaction, TransactionOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// An open file system in a store. Each operation commits on its own, with the durability of the
/// store.
///
/// A clone is the same view: its changes are not reported to its own listeners.
/// [`Files::another_view`] and opening the file system again return another one.
///
/// ```
/// use alluvium_files::{FileKind, FilePaths, FileSystem, Files, Inode, WritePosition};
/// # let place = tempfile::tempdir().unwrap();
/// let db = alluvium::Db::open(place.path().join("store")).unwrap();
/// let files = Files::open(&db, "home")?;
/// files.create_directories(b"/letters/2026", 0o755)?;
/// files.write_file(b"/letters/2026/november", b"Dear all", 0o644)?;
/// let letter = files.resolve(b"/letters/2026/november")?;
/// files.write(letter, WritePosition::End, b", the river is high.")?;
/// assert_eq!(files.read_file(b"/letters/2026/november")?, b"Dear all, the river is high.");
/// assert_eq!(files.attributes(letter)?.kind, FileKind::Regular);
/// assert_eq!(files.read_directory(Inode::ROOT, None, 10)?.len(), 1);
/// # Ok::<(), alluvium_files::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Files {
    pub(super) store: Arc<FileStore>,
    view: Arc<ViewHandle>,
}

/// A view's registration. Dropping it removes the view's listeners.
#[derive(Debug)]
pub(super) struct ViewHandle {
    store: Arc<FileStore>,
    pub(super) number: u64,
}

impl ViewHandle {
    pub(super) fn new(store: &Arc<FileStore>) -> ViewHandle {
        ViewHandle {
            number: store.listeners.next_view(),
            store: Arc::clone(store),
        }
    }
}

impl Drop for ViewHandle {
    fn drop(&mut self) {
        self.store.listeners.remove(self.number);
    }
}

impl Files {
    /// Opens the file system `name`, or creates it if there is none.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is not 1 to 64 letters, digits, `-` and `_`;
    /// `NewerVersion`; `Damaged`; errors of the store.
    pub fn open(db: &Db, name: &str) -> Result<Files> {
        Files::open_with(db, name, &FilesOptions::new())
    }

    /// Opens the file system `name`, or creates it with these options if there is none. In a store
    /// that is opened for reading only, it must exist.
    ///
    /// # Errors
    /// As [`Files::open`]; `InvalidArgument` for options that are out of bounds.
    pub fn open_with(db: &Db, name: &str, options: &FilesOptions) -> Result<Files> {
        Ok(Files::over(&open::open(db, name, options)?))
    }

    /// Opens the file system `name`.
    ///
    /// # Errors
    /// `NotFound` if there is none; otherwise as [`Files::open`].
    pub fn open_existing(db: &Db, name: &str) -> Result<Files> {
        open::require(db, name)?;
        Files::open(db, name)
    }

    /// Returns the names of the file systems of a store.
    #[must_use]
    pub fn list(db: &Db) -> Vec<String> {
        open::list(db)
    }

    /// Returns the name of the file system to which a keyspace of this name belongs, if it belongs
    /// to one. Programs should write to such a keyspace only through the file system.
    ///
    /// ```
    /// use alluvium_files::Files;
    /// assert_eq!(Files::owner("files.home.names"), Some("home"));
    /// assert_eq!(Files::owner("files.home"), None);
    /// ```
    #[must_use]
    pub fn owner(keyspace: &str) -> Option<&str> {
        open::owner(keyspace)
    }

    /// Removes a file system with everything in it. Handles of it return errors afterwards.
    ///
    /// # Errors
    /// `NotFound` if there is none; errors of the store.
    pub fn remove(db: &Db, name: &str) -> Result<()> {
        open::remove(db, name)
    }

    fn over(store: &Arc<FileStore>) -> Files {
        Files {
            view: Arc::new(ViewHandle::new(store)),
            store: Arc::clone(store),
        }
    }

    /// Returns another view of the same file system, which is told of the changes made through this
    /// one.
    #[must_use]
    pub fn another_view(&self) -> Files {
        Files::over(&self.store)
    }

    /// Returns the name of the file system.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.store.name
    }

    /// Returns the store that contains the file system.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.store.db
    }

    /// Begins a serializable transaction with optimistic concurrency control.
    #[must_use]
    pub fn begin(&self) -> FilesTransaction {
        self.begin_with(&TransactionOptions::new())
    }

    /// Begins a transaction with these options.
    #[must_use]
    pub fn begin_with(&self, options: &TransactionOptions) -> FilesTransaction {
        FilesTransaction::begin(&self.store, options)
    }

    /// Returns the file system as a transaction of the caller sees and changes it. The changes take
    /// effect with the transaction's commit, together with its writes to other keyspaces.
    ///
    /// After the commit, pass [`JoinedFiles::finish`]'s result to [`Files::announce`]: it tells
    /// other views of the changes and removes inodes that have lost their last names.
    ///
    /// ```
    /// use alluvium_files::{FilePaths, Files};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store")).unwrap();
    /// let (files, index) = (Files::open(&db, "mail")?, db.keyspace("index")?);
    /// let mut transaction = db.begin();
    /// let mail = files.within(&mut transaction);
    /// mail.write_file(b"/1", b"Hello", 0o600)?;
    /// let changes = mail.finish();
    /// transaction.put(&index, "hello", "1")?;
    /// transaction.commit()?;
    /// files.announce(changes);
    /// assert_eq!(files.read_file(b"/1")?, b"Hello");
    /// # Ok::<(), alluvium_files::Error>(())
    /// ```
    #[must_use]
    pub fn within<'t>(&self, transaction: &'t mut Transaction) -> JoinedFiles<'t> {
        JoinedFiles::new(&self.store, self.view.number, transaction)
    }

    /// Completes changes that a caller's transaction has committed; see [`Files::within`].
    pub fn announce(&self, changes: FileChanges) {
        changes.complete(&self.store);
    }

    /// Waits until the mounts of other views show what has been committed so far, at most for this
    /// long. A mount learns of a commit at once, but the kernel may still have what it has read
    /// before.
    pub fn settle(&self, most: Duration) {
        self.store.listeners.settle(self.view.number, most);
    }

    /// Names the present state, so that it can be read with [`Files::open_snapshot`] until
    /// [`Files::remove_snapshot`] is called, also after the store is opened again.
    ///
    /// # Errors
    /// `Exists`; errors of the store.
    pub fn create_snapshot(&self, name: &str) -> Result<FilesSnapshot> {
        snapshot::create(&self.store, name)
    }

    /// Returns the names of the snapshots in order.
    #[must_use]
    pub fn snapshots(&self) -> Vec<String> {
        snapshot::list(&self.store)
    }

    /// Returns whether a snapshot of this name was taken at this commit.
    pub(crate) fn has_snapshot(&self, name: &str, sequence: u64) -> bool {
        snapshot::has(&self.store, name, sequence)
    }

    /// Returns how often a snapshot was created or removed since the file system was opened.
    pub(crate) fn snapshot_changes(&self) -> u64 {
        self.store.snapshot_changes.load(Ordering::Acquire)
    }

    /// Returns the versions of a file or directory that the snapshots and the newest state have,
    /// the oldest first. Consecutive states without a difference are one version. A version of a
    /// directory is its attributes and entries, not what lies in these.
    ///
    /// # Errors
    /// `NotFound` if no state has the path; errors of the store.
    pub fn history(&self, path: &[u8]) -> Result<Vec<FileVersion>> {
        history::history(self, path)
    }

    /// Opens a snapshot for reading.
    ///
    /// # Errors
    /// `NotFound`; errors of the store.
    pub fn open_snapshot(&self, name: &str) -> Result<FilesSnapshot> {
        snapshot::open(&self.store, name)
    }

    /// Removes a snapshot. Its space is freed by merges.
    ///
    /// # Errors
    /// `NotFound`; errors of the store.
    pub fn remove_snapshot(&self, name: &str) -> Result<()> {
        snapshot::remove(&self.store, name)
    }

    /// Returns the present state for reading, without a name.
    #[must_use]
    pub fn freeze(&self) -> FilesSnapshot {
        FilesSnapshot::new(&self.store, self.store.db.snapshot())
    }

    /// Begins a branch: changes of the files as they are now, which no other view sees and which
    /// the store keeps until [`Files::commit_branch`] or [`Files::abort_branch`]. `parent` names
    /// the branch that it is a branch of, if it is one. The commit of such a branch changes its
    /// parent only.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is not 1 to 64 letters, digits, `-` and `_`, and for a
    /// branch of a branch of a branch; `Exists` if the store has a branch of this name; `NotFound`
    /// if there is no such parent; errors of the store.
    pub fn begin_branch(&self, name: &str, parent: Option<&str>) -> Result<()> {
        branch::begin(&self.store, name, parent)
    }

    /// Returns a snapshot as a stream of bytes, by which a copy in another store follows these
    /// files: all of it, or what has changed since another snapshot.
    ///
    /// Changes are found in the log, if it has all commits since then
    /// ([`keep_log`](alluvium::Options::keep_log)). Otherwise all names and inodes of both
    /// snapshots are compared, and the contents of files that differ.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` if `since` is newer than `snapshot`; errors of the store.
    pub fn send(&self, snapshot: &str, since: Option<&str>) -> Result<SnapshotSender> {
        stream::send(&self.store, snapshot, since)
    }

    /// Returns whether the file system is a copy that only streams change: see
    /// [`SnapshotReceiver`](crate::SnapshotReceiver).
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.store.is_copy.load(Ordering::Acquire)
    }

    /// Makes a copy a file system that can be changed. It takes no streams any more.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not a copy; errors of the store.
    pub fn promote(&self) -> Result<()> {
        stream::promote(&self.store)
    }

    /// Returns the branches of the file system, in the order of their names.
    ///
    /// # Errors
    /// `NewerVersion`; `Damaged`; errors of the store.
    pub fn branches(&self) -> Result<Vec<BranchSummary>> {
        branch::list_names(self.db(), self.name())
    }

    /// Returns the branches of all file systems of a store, in the order of their names.
    ///
    /// # Errors
    /// As [`Files::branches`].
    pub fn all_branches(db: &Db) -> Result<Vec<BranchSummary>> {
        branch::list_all(db)
    }

    /// Opens the files of a branch.
    ///
    /// # Errors
    /// `NotFound`, with the branches that there are; `Busy` while it is being committed; `Damaged`;
    /// errors of the store.
    pub fn open_branch(&self, name: &str) -> Result<FilesBranch> {
        FilesBranch::new(&branch::open(&self.store, name)?)
    }

    /// Returns the paths that a branch has added, changed and removed, in order. A directory is
    /// changed if its attributes are, and not because of its entries. Of a file with several names
    /// that is changed, one name is given.
    ///
    /// # Errors
    /// `NotFound`; `Damaged`; errors of the store.
    pub fn branch_changes(&self, name: &str) -> Result<Vec<PathChange>> {
        branch::changes(&self.store, name)
    }

    /// Commits a branch: its changes take effect in the files, or in the branch that it is a branch
    /// of, and the branch ends, all at once and on the disk.
    ///
    /// # Errors
    /// `Conflict`, with the paths, if others have changed what the branch has changed, since it
    /// began: nothing is changed then, and the branch stays. `Busy` while there is a view of it, or
    /// a branch of it. `NotFound`; `NoSpace`; errors of the store.
    pub fn commit_branch(&self, name: &str) -> Result<()> {
        branch::commit(&self.store, name)
    }

    /// Removes a branch with its changes. Merges free their space.
    ///
    /// # Errors
    /// `Busy` while there is a view of it, or a branch of it; `NotFound`; errors of the store.
    pub fn abort_branch(&self, name: &str) -> Result<()> {
        branch::abort(&self.store, name)
    }

    /// Reads all records of the file system and of its branches as of now, and returns what
    /// contradicts. Use it after `Db::check`, which verifies the store below.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn check(&self) -> Result<FilesReport> {
        let snapshot = self.store.db.snapshot();
        let mut report = FilesSnapshot::new(&self.store, snapshot.clone()).check()?;
        branch::check_all(&self.store, &snapshot, &mut report)?;
        Ok(report)
    }

    fn reading<T>(&self, body: impl FnOnce(&FileReader<'_>) -> Result<T>) -> Result<T> {
        self.store.read(body)
    }

    fn changing<T>(&self, plan: ChangePlan<'_>, body: impl Fn(&FileWriter<'_>) -> Result<T>) -> Result<T> {
        self.store.change(self.view.number, plan, body)
    }

    fn target(&self, parent: Inode, name: &[u8]) -> Vec<Inode> {
        let names = self.store.spaces.of(RecordSpace::Names);
        let entry = names.get(format::name_key(parent, name));
        let entry = entry.ok().flatten();
        let inode = entry.and_then(|entry| format::decode_entry(&entry).ok());
        inode.map(|(inode, _)| inode).into_iter().collect()
    }

    fn hold_inode(&self, inode: Inode) -> Result<()> {
        self.store
            .hold(inode, || self.store.read(|reader| reader.require(inode)))
    }

    fn hold_orphan(&self, inode: Inode) {
        self.store.holds.hold(inode);
        self.store.holds.note_orphan(inode);
    }

    fn release_inode(&self, inode: Inode) -> Result<()> {
        self.store.release(self.view.number, inode, 1)
    }

    fn sync_store(&self) -> Result<()> {
        Ok(self.store.db.sync()?)
    }

    fn space_of_store(&self) -> Result<SpaceStatistics> {
        self.store.space()
    }

    fn listen_to(&self, listener: Arc<dyn ChangeListener>) {
        self.store.listeners.add(self.view.number, listener);
    }
}

impl_file_system!(Files, []);
