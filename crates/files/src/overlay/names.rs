//! Operations that give, take and move names.

use super::Overlay;
use super::copy_up::check_own;
use super::format::NameMarker;
use super::upper::ChangedInode;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{AttributeChange, Attributes, FileKind, Inode, NewNode, RenameMode};

/// Most names of a file, which every usual file system allows.
const MOST_NAMES: i64 = 65_000;

fn refuse<T>(kind: ErrorKind, name: &[u8], why: &str) -> Result<T> {
    Err(Error::new(
        kind,
        format!("\"{}\" {why}", String::from_utf8_lossy(name)),
    ))
}

/// A name in a directory, and what it refers to.
type ResolvedName<'a> = ((Inode, &'a [u8]), (Inode, FileKind));

impl Overlay {
    pub(super) fn check_free(&self, parent: Inode, name: &[u8]) -> Result<()> {
        if self.resolve(parent, name)?.is_some() {
            return refuse(ErrorKind::Exists, name, "exists already");
        }
        self.check_reserved(parent, name)
    }

    /// Names that an apply uses for itself are not available.
    fn check_reserved(&self, parent: Inode, name: &[u8]) -> Result<()> {
        if self.is_stage(parent, name) {
            return refuse(
                ErrorKind::InvalidArgument,
                name,
                "is reserved for commits of overlays",
            );
        }
        Ok(())
    }

    pub(super) fn make(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
        let _turn = self.turn.write();
        self.upper.check_open()?;
        self.check_free(parent, name)?;
        let directory = self.copy_up_directory(parent)?;
        let (inode, changed) = self.new_inode(parent, node, 1)?;
        self.upper
            .set_marker(&directory, name, NameMarker::Present(inode, node.kind))?;
        if node.kind == FileKind::Directory {
            self.add_links(parent, 1)?;
        }
        self.attributes_of_changed(inode, &changed)
    }

    pub(super) fn make_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes> {
        let _turn = self.turn.write();
        self.upper.check_open()?;
        self.check_directory(parent)?;
        if node.kind != FileKind::Regular {
            return refuse(
                ErrorKind::InvalidArgument,
                b"",
                "has to be a regular file: it has no name",
            );
        }
        let (inode, changed) = self.new_inode(parent, node, 0)?;
        *self.held.lock().entry(inode).or_insert(0) += 1;
        self.attributes_of_changed(inode, &changed)
    }

    pub(super) fn add_name(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
        let _turn = self.turn.write();
        self.upper.check_open()?;
        if self.kind_of(inode)? == FileKind::Directory {
            return refuse(
                ErrorKind::NotPermitted,
                name,
                "would be a second name of a directory",
            );
        }
        self.check_free(parent, name)?;
        let mut changed = self.copy_up(inode)?;
        if changed.record.links == 0 && !changed.record.is_unnamed {
            return refuse(
                ErrorKind::NotFound,
                name,
                "would be a name of a file that has been removed",
            );
        }
        if changed.record.links >= MOST_NAMES {
            return refuse(ErrorKind::TooManyLinks, name, "would be one name too many");
        }
        let directory = self.copy_up_directory(parent)?;
        changed.record.links += 1;
        self.upper.put(inode, &changed)?;
        self.upper
            .set_marker(&directory, name, NameMarker::Present(inode, changed.record.kind))?;
        self.touch(&changed)?;
        self.attributes_of_changed(inode, &changed)
    }

    /// Sets the time of the last change of attributes.
    fn touch(&self, changed: &ChangedInode) -> Result<()> {
        let now = self.upper.files.attributes(changed.upper)?;
        // A new owner would clear bits of the mode, and symbolic links have no mode.
        let same = match now.kind {
            FileKind::Symlink => AttributeChange {
                user: Some(now.user),
                ..AttributeChange::default()
            },
            _ => AttributeChange {
                mode: Some(now.mode),
                ..AttributeChange::default()
            },
        };
        self.upper.files.set_attributes(changed.upper, &same).map(drop)
    }

    pub(super) fn remove_name(&self, parent: Inode, name: &[u8]) -> Result<()> {
        let _turn = self.turn.write();
        self.upper.check_open()?;
        let (inode, kind) = self.resolve_existing(parent, name)?;
        if kind == FileKind::Directory {
            return refuse(ErrorKind::IsADirectory, name, "is a directory");
        }
        check_own(inode)?;
        self.prepare_drop(inode, kind)?;
        self.clear_name(parent, name)?;
        self.drop_link(inode, kind)
    }

    pub(super) fn remove_empty(&self, parent: Inode, name: &[u8]) -> Result<()> {
        let _turn = self.turn.write();
        self.upper.check_open()?;
        let (inode, kind) = self.resolve_existing(parent, name)?;
        if kind != FileKind::Directory {
            return refuse(ErrorKind::NotADirectory, name, "is no directory");
        }
        check_own(inode)?;
        self.check_empty(inode, name)?;
        self.prepare_drop(inode, kind)?;
        self.clear_name(parent, name)?;
        self.add_links(parent, -1)?;
        self.drop_link(inode, kind)
    }

    fn check_empty(&self, directory: Inode, name: &[u8]) -> Result<()> {
        if self.view_listing(directory, None, 1)?.is_empty() {
            return Ok(());
        }
        refuse(ErrorKind::NotEmpty, name, "is a directory with entries")
    }

    /// Makes a name refer to nothing.
    fn clear_name(&self, parent: Inode, name: &[u8]) -> Result<()> {
        let directory = self.copy_up_directory(parent)?;
        let is_below = !self.upper.is_new(parent) && self.look_below(parent, name)?.is_some();
        if is_below {
            return self.upper.set_marker(&directory, name, NameMarker::Absent);
        }
        self.upper.remove_marker(&directory, name)
    }

    /// Changes the number of subdirectories of a directory.
    fn add_links(&self, directory: Inode, count: i64) -> Result<()> {
        let mut changed = self.copy_up(directory)?;
        changed.record.links += count;
        self.upper.put(directory, &changed)
    }

    /// Returns what the overlay has of an inode that is about to lose a name, or `None` if it will
    /// not exist any more. This takes the space that is needed, before a name changes.
    fn prepare_drop(&self, inode: Inode, kind: FileKind) -> Result<Option<ChangedInode>> {
        if let Some(changed) = self.existing(inode)? {
            return Ok(Some(changed));
        }
        let has_others = kind != FileKind::Directory && self.lower_attributes(inode)?.links > 1;
        if has_others || self.held.lock().contains_key(&inode) {
            return self.copy_up(inode).map(Some);
        }
        Ok(None)
    }

    /// Takes one name from an inode, and removes the inode with its last name unless it is held.
    fn drop_link(&self, inode: Inode, kind: FileKind) -> Result<()> {
        let is_held = self.held.lock().contains_key(&inode);
        let Some(mut changed) = self.prepare_drop(inode, kind)? else {
            self.removed.lock().insert(inode);
            return Ok(());
        };
        if kind == FileKind::Directory {
            changed.record.is_removed = true;
        } else {
            changed.record.links -= 1;
            if changed.record.links > 0 {
                self.touch(&changed)?;
            }
        }
        self.upper.put(inode, &changed)?;
        if is_held {
            Ok(())
        } else {
            self.remove_if_unnamed(inode, &changed)
        }
    }

    /// Removes an inode that no name refers to. What the overlay knows of a directory of the lower
    /// stays.
    pub(super) fn remove_if_unnamed(&self, inode: Inode, changed: &ChangedInode) -> Result<()> {
        let record = &changed.record;
        let is_new = self.upper.is_new(inode);
        if record.kind == FileKind::Directory {
            if record.is_removed && is_new {
                self.upper.remove(inode, record.kind)?;
            }
            return Ok(());
        }
        if record.links == 0 {
            if !is_new {
                self.removed.lock().insert(inode);
            }
            self.upper.remove(inode, record.kind)?;
        }
        Ok(())
    }

    pub(super) fn move_name(&self, from: (Inode, &[u8]), to: (Inode, &[u8]), mode: RenameMode) -> Result<()> {
        let _turn = self.turn.write();
        self.upper.check_open()?;
        self.check_directory(to.0)?;
        let old = self.resolve_existing(from.0, from.1)?;
        let new = self.resolve(to.0, to.1)?;
        for (inode, _) in [Some(old), new].into_iter().flatten() {
            check_own(inode)?;
        }
        self.check_reserved(to.0, to.1)?;
        match (mode, new) {
            (RenameMode::Keep, Some(_)) => return refuse(ErrorKind::Exists, to.1, "exists already"),
            (RenameMode::Exchange, None) => return refuse(ErrorKind::NotFound, to.1, "does not exist"),
            _ => self.check_cycle(old, to.0)?,
        }
        match (mode, new) {
            (RenameMode::Exchange, Some(new)) => {
                self.check_cycle(new, from.0)?;
                self.exchange((from, old), (to, new))
            }
            (_, Some(new)) if new.0 == old.0 => Ok(()),
            (_, Some(new)) if new.1 == FileKind::Directory && self.lies_within(from.0, new.0)? => refuse(
                ErrorKind::NotEmpty,
                to.1,
                "is a directory that contains the other name",
            ),
            (_, new) => self.replace((from, old), to, new),
        }
    }

    /// Checks that a directory does not come to lie within itself.
    fn check_cycle(&self, moved: (Inode, FileKind), target: Inode) -> Result<()> {
        if moved.1 == FileKind::Directory && self.lies_within(target, moved.0)? {
            let text = format!("directory {} would come to lie within itself", moved.0.0);
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        Ok(())
    }

    /// Returns whether a directory is another one or lies below it.
    fn lies_within(&self, directory: Inode, other: Inode) -> Result<bool> {
        let mut at = directory;
        while at != other {
            if at == Inode::ROOT {
                return Ok(false);
            }
            at = self.view_parent(at)?;
        }
        Ok(true)
    }

    fn replace(
        &self,
        old: ResolvedName<'_>,
        to: (Inode, &[u8]),
        new: Option<(Inode, FileKind)>,
    ) -> Result<()> {
        let (from, moved) = old;
        let is_directory = moved.1 == FileKind::Directory;
        if let Some(new) = new {
            match (is_directory, new.1 == FileKind::Directory) {
                (true, false) => return refuse(ErrorKind::NotADirectory, to.1, "is no directory"),
                (false, true) => return refuse(ErrorKind::IsADirectory, to.1, "is a directory"),
                (true, true) => self.check_empty(new.0, to.1)?,
                (false, false) => {}
            }
        }
        // What needs space comes before the names.
        self.copy_up_directory(from.0)?;
        if is_directory && from.0 != to.0 {
            self.copy_up(moved.0)?;
        }
        if let Some(new) = new {
            self.prepare_drop(new.0, new.1)?;
        }
        let target = self.copy_up_directory(to.0)?;
        let before = self.upper.marker(&target, to.1)?;
        self.upper
            .set_marker(&target, to.1, NameMarker::Present(moved.0, moved.1))?;
        if let Err(error) = self.clear_name(from.0, from.1) {
            // A directory must not have two names.
            self.restore_marker(&target, to.1, before)?;
            return Err(error);
        }
        self.set_parent(moved, from.0, to.0)?;
        if let Some(new) = new {
            if is_directory {
                self.add_links(to.0, -1)?;
            }
            self.drop_link(new.0, new.1)?;
        }
        Ok(())
    }

    fn restore_marker(
        &self,
        directory: &ChangedInode,
        name: &[u8],
        before: Option<NameMarker>,
    ) -> Result<()> {
        match before {
            Some(before) => self.upper.set_marker(directory, name, before),
            None => self.upper.remove_marker(directory, name),
        }
    }

    fn exchange(&self, old: ResolvedName<'_>, new: ResolvedName<'_>) -> Result<()> {
        let ((from, moved), (to, other)) = (old, new);
        if moved.0 == other.0 {
            return Ok(());
        }
        let target = self.copy_up_directory(to.0)?;
        let source = self.copy_up_directory(from.0)?;
        for (inode, kind) in [moved, other] {
            if kind == FileKind::Directory && from.0 != to.0 {
                self.copy_up(inode)?;
            }
        }
        let before = self.upper.marker(&target, to.1)?;
        self.upper
            .set_marker(&target, to.1, NameMarker::Present(moved.0, moved.1))?;
        let present = NameMarker::Present(other.0, other.1);
        if let Err(error) = self.upper.set_marker(&source, from.1, present) {
            self.restore_marker(&target, to.1, before)?;
            return Err(error);
        }
        self.set_parent(moved, from.0, to.0)?;
        self.set_parent(other, to.0, from.0)
    }

    /// Notes that a directory lies in another directory now.
    fn set_parent(&self, moved: (Inode, FileKind), from: Inode, to: Inode) -> Result<()> {
        if moved.1 != FileKind::Directory || from == to {
            return Ok(());
        }
        let mut changed = self.copy_up(moved.0)?;
        changed.record.parent = Some(to);
        self.upper.put(moved.0, &changed)?;
        self.add_links(from, -1)?;
        self.add_links(to, 1)
    }
}
