//! What every file system offers to a mount and to programs.

use crate::error::Result;
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, Inode, NewNode, RenameMode, SeekTarget,
    SetMode, SpaceStatistics, WritePosition,
};
use std::sync::Arc;
use std::time::Duration;

/// A file system, by inodes. Each operation is atomic: others see all of it or nothing.
///
/// Errors have the kinds, and by [`Error::errno`](crate::Error::errno) the numbers, that POSIX
/// gives. Permissions are not checked: a mount lets the kernel do it, and a program has the store.
///
/// A name is 1 to 255 bytes without `/` and NUL, and is neither `.` nor `..`.
pub trait FileSystem: Send + Sync {
    /// Returns the inode to which `name` in `parent` refers.
    ///
    /// # Errors
    /// `NotFound`; `NotADirectory` if `parent` is none; `NameTooLong`.
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes>;

    /// Returns the attributes of an inode.
    ///
    /// # Errors
    /// `Stale` if there is no such inode.
    fn attributes(&self, inode: Inode) -> Result<Attributes>;

    /// Returns the directory that contains `directory`. The root contains itself.
    ///
    /// # Errors
    /// `NotADirectory`; `Stale`.
    fn parent(&self, directory: Inode) -> Result<Inode>;

    /// Changes attributes, and returns all of them as they are then.
    ///
    /// # Errors
    /// `Stale`; `IsADirectory` for a new size of a directory; `TooLarge`; `NoSpace`.
    fn set_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes>;

    /// Creates an inode of any kind under a new name.
    ///
    /// # Errors
    /// `Exists`; `NotADirectory`; `NotFound` if `parent` has been removed; `NameTooLong`;
    /// `NoSpace`.
    fn create(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes>;

    /// Creates a file without a name in the file system of `parent` (`O_TMPFILE`), and holds it.
    ///
    /// # Errors
    /// `NotADirectory`; `NoSpace`.
    fn create_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes>;

    /// Gives an inode that is no directory another name.
    ///
    /// # Errors
    /// `Exists`; `NotPermitted` for a directory; `TooManyLinks`; `NotFound` if the file has no name
    /// any more and was not created without one.
    fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes>;

    /// Removes the name of an inode that is no directory. The inode goes with its last name, once
    /// all holds are released.
    ///
    /// # Errors
    /// `NotFound`; `IsADirectory`.
    fn unlink(&self, parent: Inode, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`; `NotADirectory`; `NotEmpty`.
    fn remove_directory(&self, parent: Inode, name: &[u8]) -> Result<()>;

    /// Renames an inode.
    ///
    /// # Errors
    /// `NotFound`; `Exists`; `NotEmpty`; `IsADirectory` and `NotADirectory` where old and new are
    /// of different kinds; `InvalidArgument` if a directory would come to lie within itself.
    fn rename(
        &self,
        parent: Inode,
        name: &[u8],
        new_parent: Inode,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()>;

    /// Returns the path to which a symbolic link points.
    ///
    /// # Errors
    /// `InvalidArgument` if the inode is no symbolic link.
    fn read_link(&self, inode: Inode) -> Result<Vec<u8>>;

    /// Keeps an inode, also after its last name is removed, until [`FileSystem::release`] is called
    /// as often as this.
    ///
    /// # Errors
    /// `Stale`.
    fn hold(&self, inode: Inode) -> Result<()>;

    /// Takes back one [`FileSystem::hold`].
    ///
    /// # Errors
    /// An error of the store when the contents of an inode without names are removed. They are then
    /// removed later.
    fn release(&self, inode: Inode) -> Result<()>;

    /// Reads up to `length` bytes from `offset`. Holes read as zeros. The answer is shorter only at
    /// the end of the file.
    ///
    /// # Errors
    /// `IsADirectory`; `Stale`; errors of the store.
    fn read(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>>;

    /// Like [`FileSystem::read`], but replaces the contents of `out` by the bytes, so that a caller
    /// who reads much can reuse its memory. After an error, `out` contains any bytes.
    ///
    /// # Errors
    /// As [`FileSystem::read`].
    fn read_into(&self, inode: Inode, offset: u64, length: usize, out: &mut Vec<u8>) -> Result<()> {
        *out = self.read(inode, offset, length)?;
        Ok(())
    }

    /// Writes all of `data`, and returns the offset at which it stands.
    ///
    /// # Errors
    /// `IsADirectory`; `TooLarge`; `NoSpace`; `Stale`.
    fn write(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64>;

    /// Allocates, clears or removes a range of a file.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty range; `TooLarge`; `NoSpace`.
    fn allocate(&self, inode: Inode, mode: AllocateMode, offset: u64, length: u64) -> Result<()>;

    /// Returns the first offset from `offset` on that is data or a hole.
    ///
    /// # Errors
    /// `NoSuchOffset` beyond the end of the file, or where no data follows.
    fn seek(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64>;

    /// Copies a range, sharing stored blocks where it can, and returns the number of bytes copied,
    /// which is smaller only at the end of the source.
    ///
    /// # Errors
    /// As for [`FileSystem::read`] and [`FileSystem::write`]; `InvalidArgument` for overlapping
    /// ranges of one file.
    fn copy_range(
        &self,
        from: Inode,
        from_offset: u64,
        to: Inode,
        to_offset: u64,
        length: u64,
    ) -> Result<u64>;

    /// Returns up to `limit` entries of a directory in the order of their names, beginning after
    /// the name `after`. `.` and `..` are not among them. No entries mean the end.
    ///
    /// # Errors
    /// `NotADirectory`; `Stale`.
    fn read_directory(
        &self,
        directory: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>>;

    /// Returns an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`; `Stale`.
    fn extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>>;

    /// Returns the names of all extended attributes in order.
    ///
    /// # Errors
    /// `Stale`.
    fn extended_attributes(&self, inode: Inode) -> Result<Vec<Vec<u8>>>;

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `Exists` and `NoAttribute` according to `mode`; `AttributeTooLarge`; `NoSpace`.
    fn set_extended_attribute(&self, inode: Inode, name: &[u8], value: &[u8], mode: SetMode) -> Result<()>;

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`; `Stale`.
    fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<()>;

    /// Makes all earlier operations durable. In a transaction it succeeds without effect: only the
    /// commit makes a transaction durable.
    ///
    /// # Errors
    /// Errors of the store.
    fn sync(&self) -> Result<()>;

    /// Returns how much space there is.
    ///
    /// # Errors
    /// Errors of the store.
    fn space(&self) -> Result<SpaceStatistics>;

    /// Returns an error unless the inode is one that can be changed. A mount asks before it opens a
    /// file for writing.
    ///
    /// # Errors
    /// `ReadOnly`.
    fn require_writable(&self, inode: Inode) -> Result<()> {
        let _ = inode;
        Ok(())
    }

    /// Reports the changes of others to `listener` from now on: those that were not made through
    /// this value. A mount drops what the kernel caches of them.
    fn listen(&self, listener: Arc<dyn ChangeListener>) {
        let _ = listener;
    }
}

/// Receives what others have changed in a file system, after their commits.
pub trait ChangeListener: Send + Sync {
    /// The name `name` in `parent` was created, removed, or refers to another inode.
    fn name_changed(&self, parent: Inode, name: &[u8]);

    /// Attributes or contents of the inode have changed.
    fn inode_changed(&self, inode: Inode);

    /// Waits until no reader of the listener sees what was there before the changes
    /// that it has been told of, at most for this long.
    fn settle(&self, most: Duration) {
        let _ = most;
    }
}
