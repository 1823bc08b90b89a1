//! The view of a branch.

use super::BranchState;
use crate::contract::ChangeListener;
use crate::error::Result;
use crate::operations::{FileReader, FileWriter};
use crate::store::files::ViewHandle;
use crate::store::shared::{ChangePlan, FileStore, SpaceEffect};
use crate::store::view::impl_file_system;
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, Inode, NewNode, RenameMode, SeekTarget,
    SetMode, SpaceStatistics, WritePosition,
};
use std::sync::Arc;

/// The files of a branch. Each operation commits on its own into the branch, with the durability of
/// the store, and no view of the file system sees it before [`Files::commit_branch`].
///
/// A branch cannot be committed or aborted while there is such a view of it.
///
/// ```
/// use alluvium_files::{FilePaths, Files};
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store")).unwrap();
/// let files = Files::open(&db, "site")?;
/// files.write_file(b"/index", b"old", 0o644)?;
/// files.begin_branch("draft", None)?;
/// files.open_branch("draft")?.write_file(b"/index", b"new", 0o644)?;
/// assert_eq!(files.read_file(b"/index")?, b"old");
/// assert_eq!(files.branch_changes("draft")?[0].path, b"/index");
/// files.commit_branch("draft")?;
/// assert_eq!(files.read_file(b"/index")?, b"new");
/// # Ok::<(), alluvium_files::Error>(())
/// ```
///
/// [`Files::commit_branch`]: crate::Files::commit_branch
#[derive(Debug)]
pub struct FilesBranch {
    store: Arc<FileStore>,
    view: ViewHandle,
}

impl FilesBranch {
    pub(crate) fn new(store: &Arc<FileStore>) -> Result<FilesBranch> {
        if let Some(branch) = &store.branch {
            branch.enter()?;
        }
        Ok(FilesBranch {
            view: ViewHandle::new(store),
            store: Arc::clone(store),
        })
    }

    /// Returns the name of the branch.
    #[must_use]
    pub fn name(&self) -> &str {
        self.store.branch.as_ref().map_or("", |branch| &branch.name)
    }

    fn reading<T>(&self, body: impl FnOnce(&FileReader<'_>) -> Result<T>) -> Result<T> {
        self.store.read(body)
    }

    fn changing<T>(&self, plan: ChangePlan<'_>, body: impl Fn(&FileWriter<'_>) -> Result<T>) -> Result<T> {
        self.store.change(self.view.number, plan, body)
    }

    fn target(&self, parent: Inode, name: &[u8]) -> Vec<Inode> {
        let found = self.store.read(|reader| {
            let depends = crate::records::ReadDependence::Untracked;
            reader.entry(parent, name, depends)
        });
        found.ok().flatten().map(|(inode, _)| inode).into_iter().collect()
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

impl Drop for FilesBranch {
    fn drop(&mut self) {
        self.store
            .branch
            .as_ref()
            .map(BranchState::leave)
            .unwrap_or_default();
    }
}

impl_file_system!(FilesBranch, []);
