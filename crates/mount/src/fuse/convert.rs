//! Values of `fuser` and of files, turned into each other.

use crate::serve::{FileCreation, ListingSpace};
use alluvium_files::{Attributes, FileKind, Inode, TimeChange, Timestamp};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The size of blocks that programs are advised to read and write.
const PREFERRED_BYTES: u32 = 4096;

pub(super) fn kind_of_mode(mode: u32) -> Option<FileKind> {
    Some(match mode & libc::S_IFMT {
        0 | libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        libc::S_IFLNK => FileKind::Symlink,
        libc::S_IFIFO => FileKind::Pipe,
        libc::S_IFSOCK => FileKind::Socket,
        libc::S_IFBLK => FileKind::BlockDevice,
        libc::S_IFCHR => FileKind::CharacterDevice,
        _ => return None,
    })
}

pub(super) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Pipe => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::CharacterDevice => FileType::CharDevice,
    }
}

/// The kernel's 32 bits of a device number: the minor number around the major one.
pub(super) fn encoded_device(device: u64) -> u32 {
    let (major, minor) = (libc::major(device), libc::minor(device));
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

pub(super) fn decoded_device(device: u32) -> u64 {
    let major = (device >> 8) & 0xfff;
    let minor = device & 0xff | (device >> 12) & 0xfff00;
    libc::makedev(major, minor)
}

pub(super) fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    let exact = second.and_then(|second| second.checked_add(Duration::from_nanos(time.nanoseconds.into())));
    exact.unwrap_or(UNIX_EPOCH)
}

/// Returns the time that the kernel has sent. Before 1970, fuser subtracts the nanoseconds from the
/// second instead of adding them, so they are the fraction of the distance.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    let (distance, is_before) = match time.duration_since(UNIX_EPOCH) {
        Ok(distance) => (distance, false),
        Err(error) => (error.duration(), true),
    };
    let seconds = i64::try_from(distance.as_secs()).unwrap_or(i64::MAX);
    Timestamp {
        seconds: if is_before { -seconds } else { seconds },
        nanoseconds: distance.subsec_nanos(),
    }
}

pub(super) fn time_change(time: TimeOrNow) -> TimeChange {
    match time {
        TimeOrNow::Now => TimeChange::Now,
        TimeOrNow::SpecificTime(time) => TimeChange::At(timestamp(time)),
    }
}

#[allow(clippy::cast_possible_truncation)]
pub(super) fn file_attr(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.inode.0),
        size: attributes.size,
        blocks: attributes.blocks,
        atime: system_time(attributes.accessed),
        mtime: system_time(attributes.modified),
        ctime: system_time(attributes.changed),
        crtime: system_time(attributes.created),
        kind: file_type(attributes.kind),
        perm: (attributes.mode & 0o7777) as u16,
        nlink: attributes.links,
        uid: attributes.user,
        gid: attributes.group,
        rdev: encoded_device(attributes.device),
        blksize: PREFERRED_BYTES,
        flags: 0,
    }
}

pub(super) fn plain(kind: FileKind, mode: u32, umask: u32) -> FileCreation<'static> {
    FileCreation {
        kind,
        mode: mode & 0o7777,
        umask,
        device: 0,
        target: b"",
    }
}

pub(super) fn filled(is_full: bool) -> ListingSpace {
    if is_full {
        ListingSpace::Full
    } else {
        ListingSpace::Added
    }
}

/// The attributes of a name that does not exist: inode 0.
pub(super) fn nobody() -> FileAttr {
    dots(Inode(0))
}

/// The attributes of `.` and `..`, of which the kernel reads number and kind.
pub(super) fn dots(inode: Inode) -> FileAttr {
    FileAttr {
        ino: INodeNo(inode.0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::Directory,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}
