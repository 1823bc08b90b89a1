//! What a transaction has changed, by paths of the view.

use super::Overlay;
use super::apply::FinalTree;
use super::format::NameMarker;
use crate::error::Result;
use crate::types::{FileKind, Inode};
use serde::{Deserialize, Serialize};

/// How a path was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PathChangeKind {
    /// The path exists only in the view.
    Added,
    /// The path refers to another inode, or to one whose attributes or contents were changed.
    Changed,
    /// The path exists only in the lower.
    Removed,
}

/// A path that a transaction has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PathChange {
    /// The path from the root of the view.
    pub path: Vec<u8>,
    /// How it was changed.
    pub change: PathChangeKind,
    /// Whether it is a directory, which may have been renamed with all of its entries.
    pub is_directory: bool,
}

impl Overlay {
    /// Returns the paths that the transaction has added, changed and removed, in order. A directory
    /// is changed if its attributes are, and not because of its entries.
    ///
    /// # Errors
    /// Errors of the upper file system.
    pub fn changes(&self) -> Result<Vec<PathChange>> {
        let _turn = self.turn.read();
        let tree = FinalTree::read(&self.upper)?;
        let mut changes = Vec::new();
        for ((directory, name), marker) in &tree.markers {
            let base = tree.base.get(&(*directory, name.clone())).copied().flatten();
            let (change, kind) = match (*marker, base) {
                (NameMarker::Absent, Some(base)) => (PathChangeKind::Removed, base.kind),
                (NameMarker::Absent, None) => continue,
                (NameMarker::Present(_, kind), None) => (PathChangeKind::Added, kind),
                (NameMarker::Present(inode, _), Some(base)) if inode == base.inode => continue,
                (NameMarker::Present(_, kind), Some(_)) => (PathChangeKind::Changed, kind),
            };
            changes.push(self.path_change(&tree, *directory, name, change, kind));
        }
        for (inode, record) in &tree.records {
            let is_directory = record.kind == FileKind::Directory;
            if self.upper.is_new(*inode)
                || record.is_removed
                || is_directory && !self.has_new_attributes(*inode)?
            {
                continue;
            }
            for (directory, name) in tree.names_of(*inode) {
                changes.push(self.path_change(&tree, directory, &name, PathChangeKind::Changed, record.kind));
            }
        }
        changes.sort();
        changes.dedup_by(|second, first| second.path == first.path);
        Ok(changes)
    }

    fn path_change(
        &self,
        tree: &FinalTree,
        directory: Inode,
        name: &[u8],
        change: PathChangeKind,
        kind: FileKind,
    ) -> PathChange {
        PathChange {
            path: tree.path(directory, name),
            change,
            is_directory: kind == FileKind::Directory,
        }
    }

    /// Returns whether mode or owner of a directory of the lower differ.
    fn has_new_attributes(&self, directory: Inode) -> Result<bool> {
        let Some(changed) = self.upper.changed(directory)? else {
            return Ok(false);
        };
        let now = self.upper.files.attributes(changed.upper)?;
        let before = self.on_lower(directory, |lower| lower.attributes(directory))?;
        Ok((now.mode, now.user, now.group) != (before.mode, before.user, before.group))
    }
}
