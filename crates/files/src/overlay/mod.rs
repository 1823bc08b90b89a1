//! A view of a directory in which changes are kept apart, and committed or forgotten together.
//!
//! *Scope*: what a transaction over an ordinary directory sees; where its changes are kept; what it
//! depends on; how its changes reach the directory.
//!
//! *Must not depend on*: mounts, processes, how the store keeps files.
//!
//! # Over ordinary directories
//!
//! An [`Overlay`] shows a *lower* file system, usually an
//! [`OrdinaryDirectory`](crate::OrdinaryDirectory), with changes that are kept in a directory of an
//! *upper* one, usually a transaction of the store. Nothing is written to the lower before the
//! commit, and an abort only drops the upper. The lower's times of last access do not change
//! either if it was opened with [`AccessTimes::Keep`](crate::AccessTimes::Keep), except those of
//! symbolic links.
//!
//! ## What is kept
//!
//! Everything is kept by inode number, not by path. A rename of a directory with a million files
//! therefore changes three small records, hard links stay hard links, and an inode has one number
//! as long as the view exists: the lower's number if the lower has it, and a number from 2⁶² on
//! otherwise. The directory of the overlay in the upper file system has these entries:
//!
//! ```text
//! state     how far the overlay has come
//! reads     what the transaction depends on, appended as it reads
//! d/N       changed directory N, with its attributes, and a marker for each changed name:
//!           a symbolic link to an inode number, or to "-" where the name is removed
//! c/N       changed inode N of another kind, with its attributes and its changed contents
//! i/N       record of changed inode N: number of names, directory, what is read from the lower
//! m/N       bit map of the changed blocks of file N
//! t         markers that are about to replace others
//! ```
//!
//! A name without a marker is that of the lower. A directory that was created has only markers, so
//! the names of a removed directory never show through. A change of attributes copies attributes
//! and extended attributes, not contents. A write copies a file of up to 128 KiB as a whole, and
//! only the changed blocks of 4 KiB of a larger one.
//!
//! ## Isolation
//!
//! The transaction depends on each name that it looked up in the lower, and on the attributes and
//! contents of the inode to which the name referred (number, kind, mode, owner, size and times; of
//! a directory neither size nor times), or on the absence of the name. It depends on the names of
//! each directory that it listed or removed. [`Overlay::commit`] compares all of them with the
//! lower, and refuses with a [`Conflict`](crate::ErrorKind::Conflict) that names the paths that
//! others have changed. Two transactions that create different files in one directory do not
//! conflict. A transaction that reads while others write may see a part of their changes; it cannot
//! commit then.
//!
//! A change by others is noticed by the time of the last change of attributes. Before Linux 6.13,
//! and on file systems without fine-grained times, this time advances every few milliseconds: a
//! change that others make within the same step as the transaction's first look, and that leaves
//! the size as it was, may go unnoticed.
//!
//! The lower cannot be locked against programs that know nothing of transactions. What they change
//! between the comparison and the moment at which a file is replaced is overwritten. Transactions
//! over the same directory exclude each other with
//! [`OrdinaryDirectory::lock`](crate::OrdinaryDirectory::lock), held from the commit to the end of
//! the apply.
//!
//! ## Commit and apply
//!
//! 1. [`Overlay::commit`] checks for conflicts and marks the overlay as committed.
//! 2. The caller commits the upper transaction durably. From here on the changes will happen.
//! 3. [`apply`] brings them into the lower. After a crash, [`apply`] again finishes it: it is run
//!    for each overlay that is found committed, until it says that nothing is left to do.
//! 4. The caller removes the overlay with [`discard`].
//!
//! While changes are applied, others see the following. New files and directories are built in a
//! directory `.alluvium-apply-0-NAME` of the root, which only the owner of the process can enter.
//! A new tree then appears at once, with one rename. A file whose contents change is replaced as a
//! whole: others see the old or the new contents, and a program that has it open keeps the old. A
//! file that has names which the transaction has not looked up is the exception, because replacing
//! it would separate the names: its changed blocks are written in place, one after the other. A
//! file that is renamed has both names for a moment. A directory that is renamed or removed
//! vanishes as a whole, and one that is renamed appears again under its new name a moment later.
//! Attributes change in place. Different files change one after the other: a reader that needs
//! several at once must wait for the end of the apply, for example with the lock above.
//!
//! File systems that are mounted within the directory are shown and cannot be changed: the errors
//! are those of a rename to another file system.
//!
//! An apply needs space for the new contents of all changed files. If there is none, it fails
//! before others see any change, and can be run again once there is.
//!
//! Invariants:
//!
//! - **V1** The view writes nothing to the lower.
//! - **V2** Before the transaction gets anything that was read from the lower, the dependency on it
//!   stands in the upper file system.
//! - **V3** The name of a new inode is written after the inode, and an inode is removed after its
//!   names. What an interrupted operation leaves behind is not visible.
//! - **V4** An apply changes nothing that others can see before everything new is durable in the
//!   lower, and forgets the overlay's changes after all of them are durable in the lower.
//! - **V5** Each step of an apply can be repeated after any later step.

mod apply;
mod changes;
mod conflict;
mod contents;
mod copy_up;
mod format;
mod names;
mod reread;
mod resolve;
mod stretches;
#[cfg(test)]
mod tests;
mod upper;

pub use apply::{ApplyOutcome, apply, discard};
pub use changes::{PathChange, PathChangeKind};
pub use format::OverlayPhase;
pub(crate) use reread::{record_examples, reread};

use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, FileKind, Inode, NewNode, RenameMode,
    SeekTarget, SetMode, SpaceStatistics, Timestamp, WritePosition,
};
use format::OverlayHeader;
use parking_lot::{Mutex, RwLock};
use resolve::DependencyIndex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use upper::{UpperStore, first_number};

/// Returns how the names begin that applies of overlays with this nesting use in the root of the
/// lower. They are no part of a view. An overlay over the view uses names of its own in it.
fn stage_prefix(nesting: u8) -> Vec<u8> {
    format!(".alluvium-apply-{nesting}-").into_bytes()
}

/// How an overlay is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayOptions {
    /// A name that no other overlay over the same directory has at the same time, of 1 to 128
    /// letters, digits and hyphens.
    pub name: String,
    /// How many overlays lie below this one: 0 over an ordinary directory or a snapshot.
    pub nesting: u8,
}

/// A view of a directory, with changes that are kept apart from it.
///
/// Operations that change nothing run at the same time, and so do writes to files that are whole in
/// the upper file system. Others wait for each other.
pub struct Overlay {
    lower: Arc<dyn FileSystem>,
    upper: UpperStore,
    /// How the names of stages begin, which are no part of the view.
    stage_prefix: Vec<u8>,
    /// Held for writing by operations that consist of several operations on the upper file system.
    turn: RwLock<()>,
    dependencies: DependencyIndex,
    /// Inodes of the lower that have no name in the view any more.
    removed: Mutex<HashSet<Inode>>,
    /// How often each inode is held.
    held: Mutex<HashMap<Inode, u64>>,
}

impl Overlay {
    /// Creates an overlay whose changes are kept in `directory`, which must be empty.
    ///
    /// # Errors
    /// `InvalidArgument` for a name or nesting out of bounds; `Exists` if the directory has an
    /// overlay; errors of both file systems.
    pub fn create(
        lower: Arc<dyn FileSystem>,
        upper: Arc<dyn FileSystem>,
        directory: Inode,
        options: &OverlayOptions,
    ) -> Result<Overlay> {
        let name = options.name.as_bytes();
        let is_plain = name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
        if !(1..=128).contains(&name.len()) || !is_plain {
            let text = format!(
                "\"{}\" is no name of an overlay: use letters, digits and hyphens",
                options.name
            );
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        if options.nesting > 63 {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "at most 63 overlays lie below another",
            ));
        }
        let header = OverlayHeader {
            phase: OverlayPhase::Open,
            nesting: options.nesting,
            next: first_number(options.nesting),
            root_generation: lower.attributes(Inode::ROOT)?.generation,
            root_modified: Timestamp::default(),
            root_accessed: Timestamp::default(),
            name: name.to_vec(),
        };
        let upper = UpperStore::create(upper, directory, &header)?;
        let overlay = Overlay::new(lower, upper);
        overlay.depend_on_root()?;
        Ok(overlay)
    }

    /// Opens the overlay that was created in `directory`.
    ///
    /// # Errors
    /// `NotFound` if there is none; `InvalidArgument` if it was created over another directory;
    /// `NewerVersion`; `Damaged`; errors of both file systems.
    pub fn open(lower: Arc<dyn FileSystem>, upper: Arc<dyn FileSystem>, directory: Inode) -> Result<Overlay> {
        let upper = UpperStore::open(upper, directory)?;
        if upper.header().root_generation != lower.attributes(Inode::ROOT)?.generation {
            let text = "the overlay was created over another directory: open it over that one";
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        let overlay = Overlay::new(lower, upper);
        overlay.load_dependencies()?;
        Ok(overlay)
    }

    fn new(lower: Arc<dyn FileSystem>, upper: UpperStore) -> Overlay {
        Overlay {
            lower,
            stage_prefix: stage_prefix(upper.header().nesting),
            upper,
            turn: RwLock::new(()),
            dependencies: DependencyIndex::default(),
            removed: Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// Returns how far the overlay has come.
    #[must_use]
    pub fn phase(&self) -> OverlayPhase {
        self.upper.header().phase
    }

    fn hold_inode(&self, inode: Inode) -> Result<()> {
        self.view_attributes(inode)?;
        let mut held = self.held.lock();
        if !held.contains_key(&inode) && !self.upper.is_new(inode) {
            self.on_lower(inode, |lower| lower.hold(inode))?;
        }
        *held.entry(inode).or_insert(0) += 1;
        Ok(())
    }

    fn release_inode(&self, inode: Inode) -> Result<()> {
        let _turn = self.turn.write();
        let mut held = self.held.lock();
        let Some(count) = held.get_mut(&inode) else {
            let text = format!("inode {} is not held", inode.0);
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        };
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        held.remove(&inode);
        drop(held);
        let changed = self.upper.changed(inode)?;
        if !self.upper.is_new(inode) {
            self.lower.release(inode)?;
        }
        match changed {
            Some(changed) if self.phase() == OverlayPhase::Open => self.remove_if_unnamed(inode, &changed),
            _ => Ok(()),
        }
    }
}

impl FileSystem for Overlay {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        let _turn = self.turn.read();
        let (inode, _) = self.resolve_existing(parent, name)?;
        self.view_attributes(inode)
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        let _turn = self.turn.read();
        self.view_attributes(inode)
    }

    fn parent(&self, directory: Inode) -> Result<Inode> {
        let _turn = self.turn.read();
        self.view_parent(directory)
    }

    fn set_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
        self.change_attributes(inode, change)
    }

    fn create(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
        self.make(parent, name, node)
    }

    fn create_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes> {
        self.make_unnamed(parent, node)
    }

    fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
        self.add_name(inode, parent, name)
    }

    fn unlink(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.remove_name(parent, name)
    }

    fn remove_directory(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.remove_empty(parent, name)
    }

    fn rename(
        &self,
        parent: Inode,
        name: &[u8],
        new_parent: Inode,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.move_name((parent, name), (new_parent, new_name), mode)
    }

    fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
        let _turn = self.turn.read();
        if self.kind_of(inode)? != FileKind::Symlink {
            let text = format!("inode {} is no symbolic link", inode.0);
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        match self.existing(inode)? {
            Some(changed) => self.upper.files.read_link(changed.upper),
            None => self.on_lower(inode, |lower| lower.read_link(inode)),
        }
    }

    fn hold(&self, inode: Inode) -> Result<()> {
        let _turn = self.turn.read();
        self.hold_inode(inode)
    }

    fn release(&self, inode: Inode) -> Result<()> {
        self.release_inode(inode)
    }

    fn read(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>> {
        let _turn = self.turn.read();
        self.read_at(inode, offset, length)
    }

    fn write(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
        self.write_at(inode, position, data)
    }

    fn allocate(&self, inode: Inode, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.allocate_range(inode, mode, offset, length)
    }

    fn seek(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64> {
        let _turn = self.turn.read();
        self.seek_from(inode, offset, target)
    }

    fn copy_range(
        &self,
        from: Inode,
        from_offset: u64,
        to: Inode,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        self.copy((from, from_offset), (to, to_offset), length)
    }

    fn read_directory(
        &self,
        directory: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let _turn = self.turn.read();
        self.view_listing(directory, after, limit)
    }

    fn extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>> {
        let _turn = self.turn.read();
        match self.existing(inode)? {
            Some(changed) => self.upper.files.extended_attribute(changed.upper, name),
            None => {
                self.lower_attributes(inode)?;
                self.on_lower(inode, |lower| lower.extended_attribute(inode, name))
            }
        }
    }

    fn extended_attributes(&self, inode: Inode) -> Result<Vec<Vec<u8>>> {
        let _turn = self.turn.read();
        match self.existing(inode)? {
            Some(changed) => self.upper.files.extended_attributes(changed.upper),
            None => {
                self.lower_attributes(inode)?;
                self.on_lower(inode, |lower| lower.extended_attributes(inode))
            }
        }
    }

    fn set_extended_attribute(&self, inode: Inode, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        let _turn = self.turn.write();
        self.upper.check_open()?;
        self.check_extended(inode, name)?;
        let changed = self.copy_up(inode)?;
        self.upper
            .files
            .set_extended_attribute(changed.upper, name, value, mode)
    }

    fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<()> {
        let _turn = self.turn.write();
        self.upper.check_open()?;
        self.check_extended(inode, name)?;
        let changed = self.copy_up(inode)?;
        self.upper.files.remove_extended_attribute(changed.upper, name)
    }

    /// Succeeds without effect: only a commit makes the changes durable.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn space(&self) -> Result<SpaceStatistics> {
        self.lower.space()
    }
}
