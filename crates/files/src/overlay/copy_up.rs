//! Inodes of the lower that are about to change get a place in the upper file system.

use super::Overlay;
use super::format::InodeRecord;
use super::upper::ChangedInode;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{AttributeChange, FileKind, Inode, NewNode, SetMode};

impl Overlay {
    /// Returns what the overlay has of an inode, after copying its attributes up. Contents stay in
    /// the lower.
    pub(super) fn copy_up(&self, inode: Inode) -> Result<ChangedInode> {
        if let Some(changed) = self.existing(inode)? {
            return Ok(changed);
        }
        check_own(inode)?;
        let below = self.lower_attributes(inode)?;
        let target = match below.kind {
            FileKind::Symlink => self.on_lower(inode, |lower| lower.read_link(inode))?,
            _ => Vec::new(),
        };
        let node = NewNode {
            kind: below.kind,
            mode: below.mode,
            user: below.user,
            group: below.group,
            device: below.device,
            target: &target,
        };
        let upper = self.upper.create_inode(inode, &node)?.inode;
        let is_regular = below.kind == FileKind::Regular;
        if is_regular && below.size > 0 {
            let size = AttributeChange {
                size: Some(below.size),
                ..AttributeChange::default()
            };
            self.upper.files.set_attributes(upper, &size)?;
        }
        for name in self.on_lower(inode, |lower| lower.extended_attributes(inode))? {
            let value = self.on_lower(inode, |lower| lower.extended_attribute(inode, &name))?;
            self.upper
                .files
                .set_extended_attribute(upper, &name, &value, SetMode::Any)?;
        }
        self.upper.set_like(upper, &below)?;
        let record = InodeRecord {
            kind: below.kind,
            has_new_contents: false,
            is_removed: false,
            is_unnamed: false,
            links: if below.kind == FileKind::Directory {
                0
            } else {
                i64::from(below.links)
            },
            parent: None,
            lower_bytes: if is_regular { below.size } else { 0 },
            created: below.created,
            generation: below.generation,
        };
        let changed = ChangedInode { upper, record };
        self.upper.put(inode, &changed)?;
        Ok(changed)
    }

    /// Checks that an inode can have an extended attribute. The upper file system may allow more
    /// than Linux does, and an apply could not set it then.
    pub(super) fn check_extended(&self, inode: Inode, name: &[u8]) -> Result<()> {
        let kind = self.kind_of(inode)?;
        if !name.starts_with(b"user.") || matches!(kind, FileKind::Regular | FileKind::Directory) {
            return Ok(());
        }
        let text = format!(
            "inode {} is neither file nor directory: it has no attributes of users",
            inode.0
        );
        Err(Error::new(ErrorKind::NotPermitted, text))
    }

    /// Returns a directory that can get and lose names.
    pub(super) fn copy_up_directory(&self, directory: Inode) -> Result<ChangedInode> {
        let changed = self.copy_up(directory)?;
        if changed.record.is_removed {
            let text = format!("directory {} has been removed", directory.0);
            return Err(Error::new(ErrorKind::NotFound, text));
        }
        Ok(changed)
    }

    /// Creates an inode that no name refers to yet.
    pub(super) fn new_inode(
        &self,
        directory: Inode,
        node: &NewNode<'_>,
        links: i64,
    ) -> Result<(Inode, ChangedInode)> {
        let parent = self.view_attributes(directory)?;
        let mut node = node.clone();
        if node.kind == FileKind::Symlink {
            // As Linux does: their mode has no meaning and cannot be changed.
            node.mode = 0o777;
        }
        if parent.mode & 0o2000 != 0 {
            node.group = parent.group;
            if node.kind == FileKind::Directory {
                node.mode |= 0o2000;
            }
        }
        let inode = self.upper.take_number()?;
        let made = self.upper.create_inode(inode, &node)?;
        let is_directory = node.kind == FileKind::Directory;
        let record = InodeRecord {
            kind: node.kind,
            has_new_contents: true,
            is_removed: false,
            is_unnamed: links == 0,
            links: if is_directory { 2 } else { links },
            parent: is_directory.then_some(directory),
            lower_bytes: 0,
            created: made.created,
            generation: made.generation,
        };
        let changed = ChangedInode {
            upper: made.inode,
            record,
        };
        self.upper.put(inode, &changed)?;
        Ok((inode, changed))
    }
}

/// Checks that an inode lies on the file system of the root. Applies move files within one file
/// system.
pub(super) fn check_own(inode: Inode) -> Result<()> {
    if !crate::ordinary::is_foreign(inode) {
        return Ok(());
    }
    let place = format!(
        "inode {} lies on another file system, mounted within the directory",
        inode.0
    );
    let error = std::io::Error::from_raw_os_error(libc::EXDEV);
    Err(Error::from_system(&error, place))
}
