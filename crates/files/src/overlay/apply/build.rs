//! New contents and attributes of inodes in the lower.

use super::run::ApplyRun;
use super::stage::bare_node;
use crate::contract::FileSystem;
use crate::error::{ErrorKind, Result};
use crate::overlay::contents::FileStretch;
use crate::overlay::format::number_name;
use crate::overlay::stretches;
use crate::overlay::upper::{ChangedInode, absent_as_none};
use crate::types::{
    AttributeChange, Attributes, FileKind, Inode, NewNode, SeekTarget, SetMode, TimeChange, WritePosition,
};

/// Bytes that are copied together.
const BYTES_AT_ONCE: u64 = 1 << 20;

/// Returns the name in the stage of an inode that is built.
pub(super) fn built_name(inode: Inode) -> Vec<u8> {
    [&b"b"[..], &number_name(inode)].concat()
}

impl ApplyRun<'_> {
    /// Builds an inode in the stage.
    pub(super) fn build(&mut self, inode: Inode) -> Result<()> {
        let changed = self.changed(inode)?;
        let view = self.upper.files.attributes(changed.upper)?;
        let kind = changed.record.kind;
        let target = match kind {
            FileKind::Symlink => self.upper.files.read_link(changed.upper)?,
            _ => Vec::new(),
        };
        let node = NewNode {
            device: view.device,
            target: &target,
            ..bare_node(kind)
        };
        let made = self.lower.create(self.stage, &built_name(inode), &node)?.inode;
        if kind == FileKind::Directory {
            self.located.insert(inode, made);
            return Ok(());
        }
        if kind == FileKind::Regular {
            self.build_contents(inode, &changed, &view, made)?;
        }
        self.dress_like(made, &changed)
    }

    fn build_contents(
        &mut self,
        inode: Inode,
        changed: &ChangedInode,
        view: &Attributes,
        made: Inode,
    ) -> Result<()> {
        let size = AttributeChange {
            size: Some(view.size),
            ..AttributeChange::default()
        };
        self.lower.set_attributes(made, &size)?;
        let source = match changed.record.lower_bytes {
            0 => None,
            _ => Some(self.locate_file(inode)?),
        };
        let mut at = 0;
        while at < view.size {
            let stretch = stretches::first(self.upper, inode, changed, at, view.size)?;
            match source.filter(|_| stretch.is_lower) {
                Some(source) => self.copy_below(source, made, stretch)?,
                None => self.copy_down(changed.upper, made, stretch, HoleCopy::Skip)?,
            }
            at = stretch.end;
        }
        Ok(())
    }

    /// Copies within the lower, which shares blocks where the file system can.
    fn copy_below(&self, from: Inode, to: Inode, stretch: FileStretch) -> Result<()> {
        each_extent(self.lower, from, stretch, |start, end| {
            self.lower
                .copy_range(from, start, to, start, end - start)
                .map(drop)
        })
    }

    /// Copies from the upper to the lower file system.
    fn copy_down(&self, from: Inode, to: Inode, stretch: FileStretch, holes: HoleCopy) -> Result<()> {
        let mut done = stretch.start;
        each_extent(&*self.upper.files, from, stretch, |start, end| {
            if holes == HoleCopy::Fill {
                self.write_zeros(to, done, start)?;
            }
            let mut at = start;
            while at < end {
                let data = self
                    .upper
                    .files
                    .read(from, at, (end - at).min(BYTES_AT_ONCE) as usize)?;
                if data.is_empty() {
                    break;
                }
                self.lower.write(to, WritePosition::At(at), &data)?;
                at += data.len() as u64;
            }
            done = end;
            Ok(())
        })?;
        if holes == HoleCopy::Fill {
            self.write_zeros(to, done, stretch.end)
        } else {
            Ok(())
        }
    }

    fn write_zeros(&self, to: Inode, from: u64, end: u64) -> Result<()> {
        let mut at = from;
        while at < end {
            let count = (end - at).min(BYTES_AT_ONCE);
            self.lower
                .write(to, WritePosition::At(at), &vec![0; count as usize])?;
            at += count;
        }
        Ok(())
    }

    /// Changes the contents of a file of the lower in place. Everything beyond what comes from the
    /// lower is cut off first, so that it can be repeated.
    pub(super) fn rewrite(&mut self, inode: Inode) -> Result<()> {
        let changed = self.changed(inode)?;
        let size = self.upper.files.attributes(changed.upper)?.size;
        let file = self.locate_file(inode)?;
        for size in [changed.record.lower_bytes, size] {
            let change = AttributeChange {
                size: Some(size),
                ..AttributeChange::default()
            };
            self.lower.set_attributes(file, &change)?;
        }
        let mut at = 0;
        while at < size {
            let stretch = stretches::first(self.upper, inode, &changed, at, size)?;
            if !stretch.is_lower {
                let is_cut = stretch.start >= changed.record.lower_bytes;
                let holes = if is_cut { HoleCopy::Skip } else { HoleCopy::Fill };
                self.copy_down(changed.upper, file, stretch, holes)?;
            }
            at = stretch.end;
        }
        Ok(())
    }

    /// Gives an inode of the lower the attributes that it has in the view.
    pub(super) fn dress(&mut self, inode: Inode) -> Result<()> {
        let changed = self.changed(inode)?;
        let target = match changed.record.kind {
            FileKind::Directory => self.locate_directory(inode)?,
            _ => self.locate_file(inode)?,
        };
        self.dress_like(target, &changed)
    }

    /// Sets owner, extended attributes, mode and times, in this order: a new owner clears bits of
    /// the mode and file capabilities, and an access control list sets the mode.
    fn dress_like(&self, target: Inode, changed: &ChangedInode) -> Result<()> {
        let view = self.upper.files.attributes(changed.upper)?;
        let now = self.lower.attributes(target)?;
        let user = (now.user != view.user).then_some(view.user);
        let group = (now.group != view.group).then_some(view.group);
        if user.is_some() || group.is_some() {
            let owner = AttributeChange {
                user,
                group,
                ..AttributeChange::default()
            };
            self.lower.set_attributes(target, &owner)?;
        }
        self.dress_extended(target, changed.upper)?;
        let now = self.lower.attributes(target)?;
        let has_mode = changed.record.kind != FileKind::Symlink;
        let mode = (has_mode && now.mode != view.mode).then_some(view.mode);
        let is_directory = changed.record.kind == FileKind::Directory;
        let times = (now.modified, now.accessed) != (view.modified, view.accessed) && !is_directory;
        if mode.is_some() || times {
            let rest = AttributeChange {
                mode,
                accessed: times.then_some(TimeChange::At(view.accessed)),
                modified: times.then_some(TimeChange::At(view.modified)),
                ..AttributeChange::default()
            };
            self.lower.set_attributes(target, &rest)?;
        }
        Ok(())
    }

    fn dress_extended(&self, target: Inode, upper: Inode) -> Result<()> {
        let wanted = self.upper.files.extended_attributes(upper)?;
        for name in self.lower.extended_attributes(target)? {
            if !wanted.contains(&name) {
                self.lower.remove_extended_attribute(target, &name)?;
            }
        }
        for name in wanted {
            let value = self.upper.files.extended_attribute(upper, &name)?;
            let is_there = match self.lower.extended_attribute(target, &name) {
                Ok(found) => found == value,
                Err(error) if error.kind() == ErrorKind::NoAttribute => false,
                Err(error) => return Err(error),
            };
            if !is_there {
                self.lower
                    .set_extended_attribute(target, &name, &value, SetMode::Any)?;
            }
        }
        Ok(())
    }

    /// Sets the times of a directory, which changes of its entries have changed.
    pub(super) fn set_times(&mut self, inode: Inode) -> Result<()> {
        let view = self.upper.files.attributes(self.changed(inode)?.upper)?;
        let target = self.locate_directory(inode)?;
        set_times_of(self.lower, target, (view.modified, view.accessed))
    }

    /// Returns an inode of the lower that is no directory, under whatever name it has now.
    pub(super) fn locate_file(&mut self, inode: Inode) -> Result<Inode> {
        let pinned = absent_as_none(self.lower.lookup(self.stage, &super::run::pinned_name(inode)))?;
        if let Some(found) = pinned.filter(|found| found.inode == inode) {
            return Ok(found.inode);
        }
        let names = self.tree.names_of(inode);
        let lower_names = self.tree.lower_names.get(&inode).cloned().unwrap_or_default();
        for (directory, name) in names.into_iter().chain(lower_names) {
            let Ok(directory) = self.locate_directory(directory) else {
                continue;
            };
            if let Some(found) = absent_as_none(self.lower.lookup(directory, &name))?
                && found.inode == inode
            {
                return Ok(inode);
            }
        }
        Err(super::run::lost(inode))
    }
}

/// Sets times: of the last change, and of the last read.
pub(super) fn set_times_of(
    lower: &dyn FileSystem,
    target: Inode,
    (modified, accessed): (crate::types::Timestamp, crate::types::Timestamp),
) -> Result<()> {
    let now = lower.attributes(target)?;
    if (now.modified, now.accessed) == (modified, accessed) {
        return Ok(());
    }
    let times = AttributeChange {
        accessed: Some(TimeChange::At(accessed)),
        modified: Some(TimeChange::At(modified)),
        ..AttributeChange::default()
    };
    lower.set_attributes(target, &times).map(drop)
}

/// What becomes of holes in a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HoleCopy {
    /// The target has none of the data there.
    Skip,
    /// The target may have old data there.
    Fill,
}

/// Calls `each` with the data within a stretch of a file.
fn each_extent(
    files: &dyn FileSystem,
    inode: Inode,
    stretch: FileStretch,
    mut each: impl FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    let mut at = stretch.start;
    while at < stretch.end {
        let start = match files.seek(inode, at, SeekTarget::Data) {
            Ok(start) => start,
            Err(error) if error.kind() == ErrorKind::NoSuchOffset => return Ok(()),
            Err(error) => return Err(error),
        };
        if start >= stretch.end {
            return Ok(());
        }
        let end = files.seek(inode, start, SeekTarget::Hole)?.min(stretch.end);
        each(start, end)?;
        at = end;
    }
    Ok(())
}
