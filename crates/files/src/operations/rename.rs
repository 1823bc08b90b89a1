//! Renaming.

use super::{FileWriter, check_name, exists, invalid, is_a_directory, not_a_directory, not_found};
use crate::error::Result;
use crate::records::{ReadDependence, format};
use crate::types::{FileKind, Inode, RenameMode};

/// A name with the inode to which it refers.
#[derive(Clone, Copy)]
struct NamePlace<'n> {
    parent: Inode,
    name: &'n [u8],
}

impl FileWriter<'_> {
    pub(crate) fn rename(
        &self,
        parent: Inode,
        name: &[u8],
        new_parent: Inode,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        check_name(name)?;
        check_name(new_name)?;
        let (old, new) = (
            NamePlace { parent, name },
            NamePlace {
                parent: new_parent,
                name: new_name,
            },
        );
        let moved = self.existing_entry(parent, name)?;
        self.load_living_directory(new_parent)?;
        let replaced = self.entry_to_change(new_parent, new_name)?;
        match (mode, replaced) {
            (RenameMode::Keep, Some(_)) => return Err(exists(new_parent, new_name)),
            (RenameMode::Exchange, None) => return Err(not_found(new_parent, new_name)),
            _ => (),
        }
        if replaced.is_some_and(|(inode, _)| inode == moved.0) {
            // Both names refer to one inode: POSIX leaves both.
            return Ok(());
        }
        self.require_no_cycle(moved, old, new)?;
        if let (RenameMode::Exchange, Some(other)) = (mode, replaced) {
            self.require_no_cycle(other, new, old)?;
            self.move_to(other, new, old)?;
            self.move_to(moved, old, new)?;
        } else {
            if let Some(replaced) = replaced {
                self.replace(moved.1, replaced, new)?;
            }
            self.delete_entry(parent, name)?;
            self.move_to(moved, old, new)?;
        }
        self.touch_directory(parent)?;
        if new_parent != parent {
            self.touch_directory(new_parent)?;
        }
        Ok(())
    }

    /// Removes the inode that a name refers to, whose name an inode of kind `by` takes.
    fn replace(&self, by: FileKind, replaced: (Inode, FileKind), place: NamePlace<'_>) -> Result<()> {
        let (inode, kind) = replaced;
        match (by == FileKind::Directory, kind == FileKind::Directory) {
            (true, false) => return Err(not_a_directory(inode)),
            (false, true) => return Err(is_a_directory(inode)),
            (false, false) => return self.drop_name(inode),
            (true, true) => (),
        }
        self.require_empty(inode)?;
        self.drop_directory(inode, place.parent)
    }

    /// Gives an inode a new name, and counts it where it lies.
    fn move_to(&self, moved: (Inode, FileKind), old: NamePlace<'_>, new: NamePlace<'_>) -> Result<()> {
        let (inode, kind) = moved;
        self.put_entry(new.parent, new.name, inode, kind)?;
        if kind != FileKind::Directory {
            let mut record = self.reader().load(inode, ReadDependence::Update)?;
            record.changed = self.context.now();
            record.known_as = (new.parent.0, new.name.to_vec());
            return self.save(inode, &record);
        }
        self.place_directory(inode, new.parent, new.name)?;
        self.note_time(inode, format::CHANGED)?;
        if new.parent != old.parent {
            self.count_subdirectories(old.parent, -1)?;
            self.count_subdirectories(new.parent, 1)?;
        }
        Ok(())
    }

    /// Returns an error if a directory that moves would come to lie within itself. Depends on the
    /// places of all directories above its new place.
    fn require_no_cycle(
        &self,
        moved: (Inode, FileKind),
        old: NamePlace<'_>,
        new: NamePlace<'_>,
    ) -> Result<()> {
        let (inode, kind) = moved;
        if kind != FileKind::Directory || old.parent == new.parent {
            return Ok(());
        }
        let mut above = new.parent;
        while above != Inode::ROOT {
            if above == inode {
                return Err(invalid(format!("directory {} would lie within itself", inode.0)));
            }
            above = self.reader().place(above, ReadDependence::Shared)?.0;
        }
        Ok(())
    }
}
