//! A directory of any file system of Linux, as a [`FileSystem`].
//!
//! *Scope*: the translation of operations on inodes into system calls on descriptors; which
//! descriptors are open; listings in the order of names.
//!
//! *Must not depend on*: the store, transactions, FUSE.
//!
//! A directory shows the same files as the path does, and other programs may change them at the
//! same time. Two things differ from the calls of the operating system. An inode that is not held
//! is found again through the directory and name under which it was last seen: if another program
//! renames it meanwhile, its number is stale until its new name is looked up. And a change of
//! several attributes consists of several calls, between which others see a part of it.
//!
//! Owners are set as a [`NewNode`] says if the process is root. The inodes belong to the process's
//! user otherwise.
//!
//! Invariants:
//!
//! - **D1** Every call starts from a descriptor below the root and takes one name, and no symbolic
//!   link is followed. A program that moves directories or puts links in their place cannot lead a
//!   call elsewhere.
//! - **D2** An inode number refers to one file until it is stale. It is the number that the file
//!   system gives, with the root's number exchanged for 1. A later file with the same number has
//!   another generation.
//! - **D3** An inode that is held keeps a descriptor, so that it is reached also without names.
//! - **D4** No descriptor of a file that is not held stays open for writing, because no program
//!   could execute the file. The exception are files that a user
//!   creates without permission to write.

mod attributes;
mod contents;
mod errors;
mod extended;
mod listing;
mod names;
mod nodes;
#[cfg(test)]
mod tests;

pub(crate) use errors::check_name;
pub(crate) use nodes::is_foreign;

use crate::contract::FileSystem;
use crate::error::Result;
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, FileKind, Inode, NewNode, RenameMode,
    SeekTarget, SetMode, SpaceStatistics, WritePosition,
};
use listing::ListingCache;
use nodes::NodeTable;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstatvfs, openat, readlinkat, syncfs};
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// Whether reads change the times of last access of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTimes {
    /// As the file system is mounted.
    Update,
    /// Reading files and listing directories leaves them as they are, where the process may ask
    /// for it: root, or the owner of a file. Reading symbolic links may still change theirs.
    Keep,
}

/// A directory of any file system of Linux.
pub struct OrdinaryDirectory {
    nodes: NodeTable,
    listings: ListingCache,
    keeps_access_times: bool,
    is_root: bool,
    user: u32,
}

/// A lock of a directory against other holders of such a lock, in all processes. Dropping it
/// releases it.
pub struct OrdinaryDirectoryLock {
    _file: OwnedFd,
}

impl OrdinaryDirectory {
    /// Opens a directory, whose descriptor is kept: the directory may be renamed.
    ///
    /// # Errors
    /// `NotFound`; `NotADirectory`; other errors of the operating system.
    pub fn open(path: &Path, access_times: AccessTimes) -> Result<OrdinaryDirectory> {
        let failed = |errno| errors::system(errno, format!("cannot open directory {}", path.display()));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
        // The rest is left to the store, to mounts and to files that are held.
        let most_open = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4;
        let most_open = most_open.clamp(16, 1 << 16) as usize;
        Ok(OrdinaryDirectory {
            nodes: NodeTable::new(root, most_open).map_err(failed)?,
            listings: ListingCache::default(),
            keeps_access_times: access_times == AccessTimes::Keep,
            is_root: geteuid().is_root(),
            user: geteuid().as_raw(),
        })
    }

    /// Waits until no other process holds this lock of the directory, and takes it. The lock
    /// excludes only those who take it: other programs still change the directory.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn lock(&self) -> Result<OrdinaryDirectoryLock> {
        let failed = |errno| errors::system(errno, "cannot lock the directory");
        let root = self.nodes.path_of(Inode::ROOT)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let file = openat(&root, ".", flags, Mode::empty()).map_err(failed)?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(OrdinaryDirectoryLock { _file: file }),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }
}

/// Returns a path that the kernel resolves to the inode of a descriptor, whatever its kind.
fn through_descriptor(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}

impl FileSystem for OrdinaryDirectory {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        self.look_up(parent, name)
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        self.attributes_of_inode(inode)
    }

    fn parent(&self, directory: Inode) -> Result<Inode> {
        self.parent_of(directory)
    }

    fn set_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
        self.change(inode, change)
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
        let failed = |errno| errors::inode(errno, "read the target of", inode);
        if self.nodes.get(inode)?.identity.kind != FileKind::Symlink {
            return Err(failed(Errno::INVAL));
        }
        let path = self.nodes.path_of(inode)?;
        let target = readlinkat(&path, "", Vec::new()).map_err(failed)?;
        Ok(target.into_bytes())
    }

    fn hold(&self, inode: Inode) -> Result<()> {
        let node = self.nodes.get(inode)?;
        node.state.lock().holds += 1;
        self.nodes.path_of(inode).map(drop).inspect_err(|_| {
            node.state.lock().holds -= 1;
        })
    }

    fn release(&self, inode: Inode) -> Result<()> {
        self.release_hold(inode)
    }

    fn read(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.read_at(inode, offset, length)
    }

    fn write(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
        self.write_at(inode, position, data)
    }

    fn allocate(&self, inode: Inode, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.allocate_range(inode, mode, offset, length)
    }

    fn seek(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64> {
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
        self.list(directory, after, limit)
    }

    fn extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>> {
        self.extended(inode, name)
    }

    fn extended_attributes(&self, inode: Inode) -> Result<Vec<Vec<u8>>> {
        self.extended_names(inode)
    }

    fn set_extended_attribute(&self, inode: Inode, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        self.set_extended(inode, name, value, mode)
    }

    fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<()> {
        self.remove_extended(inode, name)
    }

    fn sync(&self) -> Result<()> {
        let root = self.nodes.path_of(Inode::ROOT)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |errno| errors::system(errno, "cannot sync the file system");
        let opened = openat(&root, ".", flags, Mode::empty()).map_err(failed)?;
        syncfs(opened).map_err(failed)
    }

    fn space(&self) -> Result<SpaceStatistics> {
        let root = self.nodes.path_of(Inode::ROOT)?;
        let found = fstatvfs(&root).map_err(|errno| errors::system(errno, "cannot ask for free space"))?;
        Ok(SpaceStatistics {
            block_bytes: u32::try_from(found.f_frsize).unwrap_or(u32::MAX),
            blocks: found.f_blocks,
            free_blocks: found.f_bavail,
            inodes: found.f_files.saturating_sub(found.f_ffree),
            free_inodes: found.f_favail,
            name_bytes: u32::try_from(found.f_namemax).unwrap_or(u32::MAX),
        })
    }
}
