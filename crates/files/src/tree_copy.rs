//! Copies of directory trees between file systems.

use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{
    AttributeChange, Attributes, FileKind, Inode, NewNode, SeekTarget, SetMode, TimeChange, WritePosition,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Most bytes that are read and written at a time.
const PIECE: u64 = 1 << 20;

/// Number of entries that are read from a directory at a time.
const PAGE: usize = 512;

/// What a copy has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Number of directories.
    pub directories: u64,
    /// Number of files of all other kinds. A file with several names counts once.
    pub files: u64,
    /// Bytes of contents, without holes.
    pub bytes: u64,
}

/// Copies trees from one file system to another, or within one.
///
/// A copy has the contents, holes, permissions, owners, times and extended attributes of the
/// original. Names of one file are names of one file in the copy, also over several calls of
/// [`TreeCopier::copy`]. Owners and attributes of the system that the target does not permit are
/// left out.
pub struct TreeCopier<'c> {
    from: &'c dyn FileSystem,
    to: &'c dyn FileSystem,
    /// The copies of files with several names.
    linked: HashMap<Inode, Inode>,
    /// The names from the original of the copy down to what is copied now.
    path: Vec<Vec<u8>>,
    progress: CopyProgress,
    tell: &'c mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
}

/// An original that is copied, and where its copy goes.
struct CopyTask {
    original: Attributes,
    parent: Inode,
    name: Vec<u8>,
}

/// Most nested directories. A path in a file system of Linux has at most 4,096 bytes; deeper trees
/// can be made by renames, and would exhaust the stack.
const MOST_DEPTH: usize = 1024;

impl<'c> TreeCopier<'c> {
    /// Creates a copier. `tell` is called after each file and each piece of a large one; if it
    /// breaks, the copy ends with an error.
    pub fn new(
        from: &'c dyn FileSystem,
        to: &'c dyn FileSystem,
        tell: &'c mut dyn FnMut(&CopyProgress) -> ControlFlow<()>,
    ) -> TreeCopier<'c> {
        TreeCopier {
            from,
            to,
            linked: HashMap::new(),
            path: Vec::new(),
            progress: CopyProgress::default(),
            tell,
        }
    }

    /// Returns what has been copied so far.
    #[must_use]
    pub fn progress(&self) -> CopyProgress {
        self.progress
    }

    /// Copies the tree at `original` to the name `name` in `parent`. If that is a directory and the
    /// original is one, its contents are added.
    ///
    /// # Errors
    /// `Exists` if the target has a name that the copy needs, except for directories;
    /// `InvalidArgument` if a tree would be copied into itself; errors of both file systems.
    pub fn copy(&mut self, original: Inode, parent: Inode, name: &[u8]) -> Result<Inode> {
        let original = self.from.attributes(original)?;
        self.path = vec![name.to_vec()];
        let copied = self.copy_node(&CopyTask {
            original,
            parent,
            name: name.to_vec(),
        });
        copied.map_err(|error| self.with_path(error))
    }

    /// Copies the entries of a directory into another directory, and its attributes to it.
    ///
    /// # Errors
    /// As [`TreeCopier::copy`].
    pub fn copy_contents(&mut self, original: Inode, target: Inode) -> Result<()> {
        self.path.clear();
        let copied = self.copy_entries(original, target);
        copied.map_err(|error| self.with_path(error))?;
        let original = self.from.attributes(original)?;
        self.copy_attributes(&original, target)
    }

    fn copy_node(&mut self, task: &CopyTask) -> Result<Inode> {
        if self.path.len() > MOST_DEPTH {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("directories are nested more than {MOST_DEPTH} deep"),
            ));
        }
        if let Some(&copy) = self.linked.get(&task.original.inode) {
            self.to.link(copy, task.parent, &task.name)?;
            return Ok(copy);
        }
        let copy = match task.original.kind {
            FileKind::Directory => self.copy_directory(task)?,
            FileKind::Regular => {
                let copy = self.create(task, &[])?;
                self.copy_data(&task.original, copy)?;
                copy
            }
            FileKind::Symlink => {
                let target = self.from.read_link(task.original.inode)?;
                self.create(task, &target)?
            }
            _ => self.create(task, &[])?,
        };
        if task.original.kind == FileKind::Directory {
            self.progress.directories += 1;
        } else {
            self.progress.files += 1;
            if task.original.links > 1 {
                self.linked.insert(task.original.inode, copy);
            }
        }
        self.copy_attributes(&task.original, copy)?;
        self.tell()?;
        Ok(copy)
    }

    fn create(&self, task: &CopyTask, target: &[u8]) -> Result<Inode> {
        let original = &task.original;
        let node = NewNode {
            kind: original.kind,
            // Others must not open the copy before it is complete.
            mode: original.mode & 0o700,
            user: original.user,
            group: original.group,
            device: original.device,
            target,
        };
        Ok(self.to.create(task.parent, &task.name, &node)?.inode)
    }

    fn copy_directory(&mut self, task: &CopyTask) -> Result<Inode> {
        let copy = match self.to.lookup(task.parent, &task.name) {
            Ok(existing) if existing.kind == FileKind::Directory => existing.inode,
            Ok(_) => {
                return Err(Error::new(
                    ErrorKind::Exists,
                    format!(
                        "{:?} exists and is no directory",
                        String::from_utf8_lossy(&task.name)
                    ),
                ));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let node = NewNode {
                    kind: FileKind::Directory,
                    mode: 0o700,
                    user: task.original.user,
                    group: task.original.group,
                    device: 0,
                    target: &[],
                };
                self.to.create(task.parent, &task.name, &node)?.inode
            }
            Err(error) => return Err(error),
        };
        self.copy_entries(task.original.inode, copy)?;
        Ok(copy)
    }

    fn copy_entries(&mut self, original: Inode, copy: Inode) -> Result<()> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.from.read_directory(original, after.as_deref(), PAGE)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.name.clone());
            for entry in page {
                let original = match self.from.lookup(original, &entry.name) {
                    Ok(original) => original,
                    // It was removed since the directory was read.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                };
                // After an error, the path tells where it happened.
                self.path.push(entry.name.clone());
                self.copy_node(&CopyTask {
                    original,
                    parent: copy,
                    name: entry.name,
                })?;
                self.path.pop();
            }
        }
    }

    /// Copies the contents of a regular file, without its holes.
    fn copy_data(&mut self, original: &Attributes, copy: Inode) -> Result<()> {
        let mut offset = 0;
        while offset < original.size {
            offset = match self.from.seek(original.inode, offset, SeekTarget::Data) {
                Ok(data) => data,
                Err(error) if error.kind() == ErrorKind::NoSuchOffset => break,
                Err(error) if error.kind() == ErrorKind::NotSupported => offset,
                Err(error) => return Err(error),
            };
            let end = match self.from.seek(original.inode, offset, SeekTarget::Hole) {
                Ok(hole) => hole.min(original.size),
                Err(error) if error.kind() == ErrorKind::NotSupported => original.size,
                Err(error) => return Err(error),
            };
            while offset < end {
                let length = (end - offset).min(PIECE) as usize;
                let data = self.from.read(original.inode, offset, length)?;
                if data.is_empty() {
                    break;
                }
                self.to.write(copy, WritePosition::At(offset), &data)?;
                offset += data.len() as u64;
                self.progress.bytes += data.len() as u64;
                self.tell()?;
            }
            if offset < end {
                // The file has become shorter since its attributes were read.
                return Ok(());
            }
        }
        let size = self.to.attributes(copy)?.size;
        if size < original.size {
            let change = AttributeChange {
                size: Some(original.size),
                ..AttributeChange::default()
            };
            self.to.set_attributes(copy, &change)?;
        }
        Ok(())
    }

    fn copy_attributes(&self, original: &Attributes, copy: Inode) -> Result<()> {
        for name in self.from.extended_attributes(original.inode)? {
            let value = self.from.extended_attribute(original.inode, &name)?;
            let set = self.to.set_extended_attribute(copy, &name, &value, SetMode::Any);
            set.or_else(|error| self.allow(&name, error))?;
        }
        let owner = AttributeChange {
            user: Some(original.user),
            group: Some(original.group),
            ..AttributeChange::default()
        };
        match self.to.set_attributes(copy, &owner) {
            Ok(_) => {}
            Err(error) if is_denied(&error) => {}
            Err(error) => return Err(error),
        }
        // The owner comes first, because changing it clears the set-user-ID bit.
        let change = AttributeChange {
            mode: (original.kind != FileKind::Symlink).then_some(original.mode),
            accessed: Some(TimeChange::At(original.accessed)),
            modified: Some(TimeChange::At(original.modified)),
            ..AttributeChange::default()
        };
        self.to.set_attributes(copy, &change)?;
        Ok(())
    }

    /// Leaves out attributes that only the target's system may set.
    fn allow(&self, name: &[u8], error: Error) -> Result<()> {
        let is_users = name.starts_with(b"user.");
        let is_refused = is_denied(&error) || error.kind() == ErrorKind::NotSupported;
        if is_refused && !is_users {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Adds the path of what was copied when the error happened.
    fn with_path(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Interrupted => error,
            _ => error.at(&self.path.join(&b'/')),
        }
    }

    fn tell(&mut self) -> Result<()> {
        match (self.tell)(&self.progress) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::new(ErrorKind::Interrupted, "the copy was stopped")),
        }
    }
}

fn is_denied(error: &Error) -> bool {
    error.kind() == ErrorKind::NotPermitted || [libc::EPERM, libc::EACCES].contains(&error.errno())
}
