//! Names: how inodes get them, lose them and change them.

use super::attributes::{OwnerWish, attributes_of};
use super::nodes::{FileIdentity, KnownNode, open_path, status};
use super::{OrdinaryDirectory, errors, through_descriptor};
use crate::error::Result;
use crate::types::{Attributes, FileKind, Inode, NewNode, RenameMode};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Statx, linkat, mkdirat, mknodat, openat,
    renameat_with, symlinkat, unlinkat,
};
use rustix::io::{Errno, Result as SystemResult};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

impl OrdinaryDirectory {
    pub(super) fn look_up(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        errors::check_name(name)?;
        let directory = self.directory(parent)?;
        let found =
            status(directory.as_fd(), name).map_err(|errno| errors::entry(errno, "find", parent, name))?;
        let node = self.nodes.see(FileIdentity::of(&found), Some((parent, name)));
        Ok(attributes_of(node.inode, &found))
    }

    pub(super) fn parent_of(&self, inode: Inode) -> Result<Inode> {
        let directory = self.directory(inode)?;
        if inode == Inode::ROOT {
            return Ok(inode);
        }
        let found = status(directory.as_fd(), b"..")
            .map_err(|errno| errors::inode(errno, "find the parent of", inode))?;
        Ok(self.nodes.see(FileIdentity::of(&found), None).inode)
    }

    /// Returns a descriptor of an inode that must be a directory.
    pub(super) fn directory(&self, inode: Inode) -> Result<Arc<OwnedFd>> {
        if self.nodes.get(inode)?.identity.kind != FileKind::Directory {
            return Err(errors::inode(Errno::NOTDIR, "look into", inode));
        }
        self.nodes.path_of(inode)
    }

    pub(super) fn make(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
        errors::check_name(name)?;
        let directory = self.directory(parent)?;
        let failed = |errno| errors::entry(errno, "create", parent, name);
        let mode = Mode::from_raw_mode(node.mode & 0o7777);
        let file = match node.kind {
            FileKind::Regular => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDWR;
                openat(&directory, name, flags, mode).map_err(failed)?
            }
            _ => {
                make_special(&directory, name, node).map_err(failed)?;
                let own = |file: OwnedFd| self.is_own(&file, node.kind).map(|()| file);
                open_path(&directory, name).and_then(own).map_err(failed)?
            }
        };
        let found = self.adjust(&file, &directory, &wish(node)).map_err(|errno| {
            let is_directory = node.kind == FileKind::Directory;
            let flags = if is_directory {
                AtFlags::REMOVEDIR
            } else {
                AtFlags::empty()
            };
            let _ = unlinkat(&directory, name, flags);
            failed(errno)
        })?;
        self.listings.forget(parent);
        let known = self.nodes.see(FileIdentity::of(&found), Some((parent, name)));
        if node.kind == FileKind::Regular && !self.is_root && node.mode & 0o200 == 0 {
            // A mode without the permission to write holds for later opens only.
            let file = Arc::new(file);
            known.state.lock().writing = Some(file.clone());
            self.nodes.attach(&known, file);
        }
        Ok(attributes_of(known.inode, &found))
    }

    /// Checks that a file that was just created is what was opened. Another program may have put a
    /// link to another user's file in its place, which must not be given away.
    fn is_own(&self, file: &OwnedFd, kind: FileKind) -> SystemResult<()> {
        let found = status(file.as_fd(), b"")?;
        let is_single = kind == FileKind::Directory || found.stx_nlink == 1;
        let is_ours = FileIdentity::of(&found).kind == kind && is_single && found.stx_uid == self.user;
        if is_ours { Ok(()) } else { Err(Errno::STALE) }
    }

    pub(super) fn make_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes> {
        let directory = self.directory(parent)?;
        let failed = |errno| errors::inode(errno, "create a file without a name in directory", parent);
        if node.kind != FileKind::Regular {
            return Err(failed(Errno::INVAL));
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(node.mode & 0o7777);
        let file = openat(&directory, ".", flags, mode).map_err(failed)?;
        let found = self.adjust(&file, &directory, &wish(node)).map_err(failed)?;
        let known = self.nodes.see(FileIdentity::of(&found), None);
        let file = Arc::new(file);
        let mut state = known.state.lock();
        state.holds += 1;
        state.is_pinned = true;
        state.writing = Some(file.clone());
        drop(state);
        self.nodes.attach(&known, file);
        Ok(attributes_of(known.inode, &found))
    }

    pub(super) fn add_name(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
        errors::check_name(name)?;
        let failed = |errno| errors::entry(errno, "link", parent, name);
        if self.nodes.get(inode)?.identity.kind == FileKind::Directory {
            return Err(failed(Errno::PERM));
        }
        let file = self.nodes.path_of(inode)?;
        let directory = self.directory(parent)?;
        linkat(
            CWD,
            through_descriptor(&file),
            &directory,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )
        .map_err(failed)?;
        self.listings.forget(parent);
        let found = status(file.as_fd(), b"").map_err(failed)?;
        let known = self.nodes.see(FileIdentity::of(&found), Some((parent, name)));
        Ok(attributes_of(known.inode, &found))
    }

    pub(super) fn remove_name(&self, parent: Inode, name: &[u8]) -> Result<()> {
        errors::check_name(name)?;
        let directory = self.directory(parent)?;
        let known = self.keep_reachable(&directory, parent, name)?;
        unlinkat(&directory, name, AtFlags::empty())
            .map_err(|errno| errors::entry(errno, "remove", parent, name))?;
        self.listings.remove(parent, name);
        self.forget_if_gone(known);
        Ok(())
    }

    pub(super) fn remove_empty(&self, parent: Inode, name: &[u8]) -> Result<()> {
        errors::check_name(name)?;
        let directory = self.directory(parent)?;
        let known = self.keep_reachable(&directory, parent, name)?;
        unlinkat(&directory, name, AtFlags::REMOVEDIR)
            .map_err(|errno| errors::entry(errno, "remove the directory", parent, name))?;
        self.listings.remove(parent, name);
        self.forget_if_gone(known);
        Ok(())
    }

    /// Returns the known inode that is about to lose a name, after making sure that it can be
    /// reached without it if it is held or has other names.
    fn keep_reachable(
        &self,
        directory: &OwnedFd,
        parent: Inode,
        name: &[u8],
    ) -> Result<Option<(Arc<KnownNode>, Statx)>> {
        let Ok(found) = status(directory.as_fd(), name) else {
            return Ok(None);
        };
        let Some(node) = self.nodes.known(FileIdentity::of(&found)) else {
            return Ok(None);
        };
        let has_others = found.stx_nlink > 1 && node.identity.kind != FileKind::Directory;
        let place = (parent, Box::from(name));
        let is_needed = {
            let state = node.state.lock();
            state.holds > 0 || has_others && state.place.as_ref() == Some(&place)
        };
        if is_needed {
            node.state.lock().is_pinned = true;
            if self.nodes.path_of(node.inode).is_err() {
                node.state.lock().is_pinned = false;
            }
        }
        Ok(Some((node, found)))
    }

    fn forget_if_gone(&self, lost: Option<(Arc<KnownNode>, Statx)>) {
        let Some((node, before)) = lost else { return };
        let is_last = before.stx_nlink == 1 || node.identity.kind == FileKind::Directory;
        if is_last && node.state.lock().holds == 0 {
            self.nodes.forget(&node);
        }
    }

    pub(super) fn move_name(&self, from: (Inode, &[u8]), to: (Inode, &[u8]), mode: RenameMode) -> Result<()> {
        errors::check_name(from.1)?;
        errors::check_name(to.1)?;
        let old = self.directory(from.0)?;
        let new = self.directory(to.0)?;
        let flags = match mode {
            RenameMode::Replace => RenameFlags::empty(),
            RenameMode::Keep => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
        };
        let moved = self.status_of_known(&old, from.1);
        let replaced = match mode {
            RenameMode::Replace => self.keep_reachable(&new, to.0, to.1)?,
            RenameMode::Keep | RenameMode::Exchange => None,
        };
        renameat_with(&old, from.1, &new, to.1, flags)
            .map_err(|errno| errors::entry(errno, "rename to", to.0, to.1))?;
        self.listings.forget(from.0);
        self.listings.forget(to.0);
        let is_same = |lost: &(Arc<KnownNode>, Statx)| moved == Some(FileIdentity::of(&lost.1));
        self.forget_if_gone(replaced.filter(|lost| !is_same(lost)));
        // Another thread may have renamed again: what stands there now has its place there.
        for (directory, (parent, name)) in [(&new, to), (&old, from)] {
            if let Some(identity) = self.status_of_known(directory, name) {
                self.nodes.see(identity, Some((parent, name)));
            }
            if mode != RenameMode::Exchange {
                break;
            }
        }
        Ok(())
    }

    /// Returns the identity of an entry if its inode is known.
    fn status_of_known(&self, directory: &OwnedFd, name: &[u8]) -> Option<FileIdentity> {
        let identity = FileIdentity::of(&status(directory.as_fd(), name).ok()?);
        self.nodes.known(identity).map(|_| identity)
    }
}

fn wish(node: &NewNode<'_>) -> OwnerWish {
    OwnerWish {
        kind: node.kind,
        mode: node.mode,
        user: node.user,
        group: node.group,
    }
}

/// Creates an inode that is no regular file.
fn make_special(directory: &OwnedFd, name: &[u8], node: &NewNode<'_>) -> SystemResult<()> {
    let mode = Mode::from_raw_mode(node.mode & 0o7777);
    let file_type = match node.kind {
        FileKind::Directory => return mkdirat(directory, name, mode),
        FileKind::Symlink => return symlinkat(node.target, directory, name),
        FileKind::Regular => FileType::RegularFile,
        FileKind::Pipe => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::CharacterDevice => FileType::CharacterDevice,
    };
    mknodat(directory, name, file_type, mode, node.device)
}
