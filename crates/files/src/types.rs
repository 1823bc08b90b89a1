//! The values that operations on files take and return.

use serde::{Deserialize, Serialize};

/// The number of a file, directory or special file in its file system. It stays the same for the
/// life of the file, also over renames and remounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Inode(pub u64);

impl Inode {
    /// The root directory.
    pub const ROOT: Inode = Inode(1);
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Pipe,
    /// A socket.
    Socket,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
}

/// A point in time with nanoseconds, as POSIX counts it: seconds since 1970, which may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds within the second, less than 1,000,000,000.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// Returns the time one nanosecond later.
    pub(crate) fn next(self) -> Timestamp {
        match self.nanoseconds {
            999_999_999.. => Timestamp {
                seconds: self.seconds.saturating_add(1),
                nanoseconds: 0,
            },
            nanoseconds => Timestamp {
                nanoseconds: nanoseconds + 1,
                ..self
            },
        }
    }
}

/// The attributes of an inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// The inode.
    pub inode: Inode,
    /// Distinguishes this file from earlier files with the same inode number.
    pub generation: u64,
    /// What the inode is.
    pub kind: FileKind,
    /// Permission bits with set-user-ID, set-group-ID and the sticky bit: the lower twelve bits of
    /// `st_mode`.
    pub mode: u32,
    /// The user who owns the file.
    pub user: u32,
    /// The group that owns the file.
    pub group: u32,
    /// Number of names that refer to the inode. A directory counts 2, plus one for each
    /// subdirectory.
    pub links: u32,
    /// Size in bytes.
    pub size: u64,
    /// Space that the contents occupy, in units of 512 bytes.
    pub blocks: u64,
    /// The number of the device, for device files, as `st_rdev` has it.
    pub device: u64,
    /// Time of the last read.
    pub accessed: Timestamp,
    /// Time of the last change of the contents.
    pub modified: Timestamp,
    /// Time of the last change of contents or attributes.
    pub changed: Timestamp,
    /// Time of creation.
    pub created: Timestamp,
}

/// A new value of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeChange {
    /// The time of the operation.
    Now,
    /// A given time.
    At(Timestamp),
}

/// A change of attributes. `None` leaves an attribute as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttributeChange {
    /// New permission bits.
    pub mode: Option<u32>,
    /// New owner.
    pub user: Option<u32>,
    /// New group.
    pub group: Option<u32>,
    /// New size: the file is cut, or extended by a hole.
    pub size: Option<u64>,
    /// New time of the last read.
    pub accessed: Option<TimeChange>,
    /// New time of the last change of the contents.
    pub modified: Option<TimeChange>,
}

/// An inode to be created.
#[derive(Clone, Debug)]
pub struct NewNode<'a> {
    /// What the inode is.
    pub kind: FileKind,
    /// Permission bits, after the umask.
    pub mode: u32,
    /// The user who owns it.
    pub user: u32,
    /// The group that owns it. In a directory with the set-group-ID bit, the directory's group is
    /// used instead.
    pub group: u32,
    /// The number of the device, for device files.
    pub device: u64,
    /// The path to which a symbolic link points.
    pub target: &'a [u8],
}

/// What `rename` does if the new name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenameMode {
    /// The new name's file is replaced.
    Replace,
    /// The operation fails (`RENAME_NOREPLACE`).
    Keep,
    /// Both names exist and are exchanged (`RENAME_EXCHANGE`).
    Exchange,
}

/// Where a write begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WritePosition {
    /// At this offset in bytes.
    At(u64),
    /// At the end of the file, which no other write can move in between.
    End,
}

/// What [`FileSystem::allocate`](crate::FileSystem::allocate) does with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocateMode {
    /// Extends the file to the end of the range, if it is shorter.
    Extend,
    /// Leaves the size as it is.
    KeepSize,
    /// Makes the range a hole and leaves the size as it is.
    PunchHole,
    /// Fills the range with zeros and extends the file.
    Zero,
    /// Fills the range with zeros and leaves the size as it is.
    ZeroKeepSize,
}

/// What [`FileSystem::seek`](crate::FileSystem::seek) looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeekTarget {
    /// Data (`SEEK_DATA`).
    Data,
    /// A hole (`SEEK_HOLE`). The end of the file counts as one.
    Hole,
}

/// Whether an extended attribute may exist when it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetMode {
    /// It may exist or not.
    Any,
    /// It must not exist (`XATTR_CREATE`).
    Create,
    /// It must exist (`XATTR_REPLACE`).
    Replace,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The name, any bytes but `/` and NUL.
    pub name: Vec<u8>,
    /// The inode to which it refers.
    pub inode: Inode,
    /// What that inode is.
    pub kind: FileKind,
}

/// The space of a file system, as `statfs` reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceStatistics {
    /// Size of a block in bytes.
    pub block_bytes: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of free blocks.
    pub free_blocks: u64,
    /// Number of inodes in use.
    pub inodes: u64,
    /// Number of inodes that can still be created.
    pub free_inodes: u64,
    /// Longest name in bytes.
    pub name_bytes: u32,
}

/// The order of the contents of different files in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentOrder {
    /// By the numbers of inodes, which is the order in which the files were created.
    ByInode,
    /// By the paths at which the files were created, so that programs which read whole trees find
    /// neighbors together, in whatever order they were written. Versions of Alluvium before this
    /// order existed cannot open such a file system.
    ByPath,
}
