//! Attributes: how they are read, and how they are set.

use super::nodes::{FileIdentity, status};
use super::{OrdinaryDirectory, errors, through_descriptor};
use crate::error::Result;
use crate::types::{AttributeChange, Attributes, FileKind, Inode, TimeChange, Timestamp};
use rustix::fs::{
    AtFlags, Gid, Mode, Statx, StatxTimestamp, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, chmod,
    chownat, ftruncate, utimensat,
};
use rustix::io::{Errno, Result as SystemResult};
use std::os::fd::{AsFd, OwnedFd};

/// Converts the status of a file.
pub(super) fn attributes_of(inode: Inode, status: &Statx) -> Attributes {
    let identity = FileIdentity::of(status);
    Attributes {
        inode,
        generation: identity.generation,
        kind: identity.kind,
        mode: u32::from(status.stx_mode) & 0o7777,
        user: status.stx_uid,
        group: status.stx_gid,
        links: status.stx_nlink,
        size: status.stx_size,
        blocks: status.stx_blocks,
        device: rustix::fs::makedev(status.stx_rdev_major, status.stx_rdev_minor),
        accessed: timestamp(&status.stx_atime),
        modified: timestamp(&status.stx_mtime),
        changed: timestamp(&status.stx_ctime),
        created: timestamp(&status.stx_btime),
    }
}

fn timestamp(time: &StatxTimestamp) -> Timestamp {
    Timestamp {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec,
    }
}

impl OrdinaryDirectory {
    pub(super) fn attributes_of_inode(&self, inode: Inode) -> Result<Attributes> {
        let path = self.nodes.path_of(inode)?;
        let found = status(path.as_fd(), b"").map_err(|errno| errors::inode(errno, "examine", inode))?;
        if found.stx_nlink == 0 {
            let node = self.nodes.get(inode)?;
            if node.state.lock().holds == 0 {
                self.nodes.forget(&node);
                return Err(errors::stale(inode));
            }
        }
        Ok(attributes_of(inode, &found))
    }

    /// Sets attributes in an order in which no step undoes another: a new size and a new owner
    /// clear the set-user-ID bit, and a new size sets times.
    pub(super) fn change(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
        let path = self.nodes.path_of(inode)?;
        let failed = |errno| errors::inode(errno, "change the attributes of", inode);
        if let Some(size) = change.size {
            let writing = self.open_for_writing(inode)?;
            ftruncate(&writing, size).map_err(failed)?;
        }
        if change.user.is_some() || change.group.is_some() {
            own(&path, change.user, change.group).map_err(failed)?;
        }
        if let Some(mode) = change.mode {
            set_mode(&path, mode).map_err(failed)?;
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(change.accessed),
                last_modification: timespec(change.modified),
            };
            utimensat(&path, "", &times, AtFlags::EMPTY_PATH).map_err(failed)?;
        }
        self.attributes_of_inode(inode)
    }

    /// Gives a new inode the owner and the mode that were asked for.
    pub(super) fn adjust(&self, file: &OwnedFd, parent: &OwnedFd, wish: &OwnerWish) -> SystemResult<Statx> {
        let mut found = status(file.as_fd(), b"")?;
        let user = (self.is_root && found.stx_uid != wish.user).then_some(wish.user);
        let differs = self.is_root && found.stx_gid != wish.group;
        let inherits = (differs || wish.kind == FileKind::Directory)
            && status(parent.as_fd(), b"")?.stx_mode & 0o2000 != 0;
        let group = (differs && !inherits).then_some(wish.group);
        if user.is_some() || group.is_some() {
            own(file, user, group)?;
            found = status(file.as_fd(), b"")?;
        }
        let inherited = if inherits && wish.kind == FileKind::Directory {
            0o2000
        } else {
            0
        };
        let mode = wish.mode & 0o7777 | inherited;
        let is_right = u32::from(found.stx_mode) & 0o7777 == mode;
        if is_right || wish.kind == FileKind::Symlink || has_default_list(parent)? {
            return Ok(found);
        }
        set_mode(file, mode)?;
        status(file.as_fd(), b"")
    }
}

/// Owner and mode that a new inode gets.
pub(super) struct OwnerWish {
    pub(super) kind: FileKind,
    pub(super) mode: u32,
    pub(super) user: u32,
    pub(super) group: u32,
}

/// Returns whether new inodes in a directory get an access control list, which then has
/// determined their mode.
fn has_default_list(directory: &OwnedFd) -> SystemResult<bool> {
    let mut none = [0_u8; 0];
    match rustix::fs::getxattr(
        through_descriptor(directory),
        "system.posix_acl_default",
        &mut none[..],
    ) {
        Ok(length) => Ok(length > 0),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn own(file: &OwnedFd, user: Option<u32>, group: Option<u32>) -> SystemResult<()> {
    let (user, group) = (
        user.filter(is_number).map(Uid::from_raw),
        group.filter(is_number).map(Gid::from_raw),
    );
    chownat(
        file,
        "",
        user,
        group,
        AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW,
    )
}

fn set_mode(file: &OwnedFd, mode: u32) -> SystemResult<()> {
    chmod(through_descriptor(file), Mode::from_raw_mode(mode & 0o7777))
}

fn timespec(change: Option<TimeChange>) -> Timespec {
    let (tv_sec, tv_nsec) = match change {
        None => (0, UTIME_OMIT),
        Some(TimeChange::Now) => (0, UTIME_NOW),
        Some(TimeChange::At(time)) => (time.seconds, i64::from(time.nanoseconds)),
    };
    Timespec { tv_sec, tv_nsec }
}

/// The system calls take the largest number for "as it is".
fn is_number(number: &u32) -> bool {
    *number != u32::MAX
}
