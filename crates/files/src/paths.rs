//! Operations on paths, for programs and the command line.

use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{AttributeChange, Attributes, FileKind, Inode, NewNode, WritePosition};
use std::collections::HashSet;

/// Most symbolic links that a path may lead through.
const MOST_LINKS: u32 = 40;

/// Longest path in bytes, without the zero byte that ends it in C.
const MOST_PATH: usize = 4095;

/// Number of entries that are read together.
const ENTRIES_AT_ONCE: usize = 1024;

/// Number of bytes that are read or written together.
const BYTES_AT_ONCE: usize = 1 << 20;

/// What a path leads to if its last part is a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastLink {
    /// What the link points to.
    Follow,
    /// The link itself.
    Keep,
}

/// A file or directory that [`FilePaths::walk`] visits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// The path, which begins with the one where the walk began.
    pub path: Vec<u8>,
    /// The attributes.
    pub attributes: Attributes,
}

/// How much space files and directories take; see [`FilePaths::usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathUsage {
    /// Number of directories.
    pub directories: u64,
    /// Number of inodes that are no directories. One with several names counts once.
    pub files: u64,
    /// Sum of the sizes of the files, in bytes.
    pub bytes: u64,
    /// Sum of the space that their contents occupy, in bytes.
    pub occupied_bytes: u64,
}

/// Operations on paths of a [`FileSystem`]. A path is bytes, its parts are separated by `/`, and it
/// begins at the root, with or without a `/`.
///
/// Each step is an operation of its own. In a transaction, all steps see the same state.
pub trait FilePaths: FileSystem {
    /// Returns the inode to which a path leads, through all symbolic links.
    ///
    /// # Errors
    /// `NotFound`; `NotADirectory`; `NameTooLong`; `Loop` for more than 40 symbolic links.
    fn resolve(&self, path: &[u8]) -> Result<Inode> {
        self.resolve_with(path, LastLink::Follow)
    }

    /// Like [`FilePaths::resolve`], with a choice for the last part of the path.
    ///
    /// # Errors
    /// As [`FilePaths::resolve`].
    fn resolve_with(&self, path: &[u8], last: LastLink) -> Result<Inode> {
        let found = PathWalker::new(self).follow(Inode::ROOT, path, last)?;
        found.inode.ok_or_else(|| no_such(path))
    }

    /// Returns the directory in which the last part of a path lies or would lie, and that part.
    ///
    /// # Errors
    /// As [`FilePaths::resolve`]; `InvalidArgument` for the root.
    fn resolve_parent(&self, path: &[u8]) -> Result<(Inode, Vec<u8>)> {
        let found = PathWalker::new(self).follow(Inode::ROOT, path, LastLink::Keep)?;
        found.place.ok_or_else(|| {
            let message = format!("\"{}\" has no name in a directory", path.escape_ascii());
            Error::new(ErrorKind::InvalidArgument, message)
        })
    }

    /// Creates a directory and all that are missing above it. Returns its inode, also if it exists.
    ///
    /// # Errors
    /// `NotADirectory`; `NameTooLong`; `Loop`; `NoSpace`.
    fn create_directories(&self, path: &[u8], mode: u32) -> Result<Inode> {
        let mut walker = PathWalker::new(self);
        let mut at = Inode::ROOT;
        for part in parts(path) {
            let found = walker.follow(at, part, LastLink::Follow)?;
            at = match (found.inode, found.place) {
                (Some(inode), _) => inode,
                (None, Some((parent, name))) => {
                    match self.create(parent, &name, &new_node(FileKind::Directory, mode)) {
                        Ok(created) => created.inode,
                        // Another thread was faster.
                        Err(error) if error.kind() == ErrorKind::Exists => self.lookup(parent, &name)?.inode,
                        Err(error) => return Err(error),
                    }
                }
                (None, None) => return Err(no_such(path)),
            };
        }
        match self.attributes(at)?.kind {
            FileKind::Directory => Ok(at),
            _ => {
                let message = format!("\"{}\" is no directory", path.escape_ascii());
                Err(Error::new(ErrorKind::NotADirectory, message))
            }
        }
    }

    /// Returns the contents of a file.
    ///
    /// # Errors
    /// As [`FilePaths::resolve`] and [`FileSystem::read`].
    fn read_file(&self, path: &[u8]) -> Result<Vec<u8>> {
        let inode = self.resolve(path)?;
        let mut contents = Vec::new();
        loop {
            let part = self.read(inode, contents.len() as u64, BYTES_AT_ONCE)?;
            if part.is_empty() {
                return Ok(contents);
            }
            contents.extend_from_slice(&part);
        }
    }

    /// Creates a file, or replaces the contents of the file to which the path leads. Not atomic
    /// outside of a transaction. Returns its inode.
    ///
    /// # Errors
    /// As [`FilePaths::resolve`], [`FileSystem::create`] and [`FileSystem::write`].
    fn write_file(&self, path: &[u8], contents: &[u8], mode: u32) -> Result<Inode> {
        let found = PathWalker::new(self).follow(Inode::ROOT, path, LastLink::Follow)?;
        let inode = match (found.inode, found.place) {
            (Some(inode), _) => {
                let change = AttributeChange {
                    size: Some(0),
                    ..AttributeChange::default()
                };
                self.set_attributes(inode, &change)?;
                inode
            }
            (None, Some((parent, name))) => {
                self.create(parent, &name, &new_node(FileKind::Regular, mode))?
                    .inode
            }
            (None, None) => return Err(no_such(path)),
        };
        let mut at = 0;
        for part in contents.chunks(BYTES_AT_ONCE) {
            self.write(inode, WritePosition::At(at), part)?;
            at += part.len() as u64;
        }
        Ok(inode)
    }

    /// Removes a file, or a directory with everything in it.
    ///
    /// # Errors
    /// As [`FilePaths::resolve_parent`]; errors of the operations.
    fn remove_all(&self, path: &[u8]) -> Result<()> {
        let (parent, name) = self.resolve_parent(path)?;
        let attributes = self.lookup(parent, &name)?;
        if attributes.kind != FileKind::Directory {
            return self.unlink(parent, &name);
        }
        let mut open = vec![EmptiedDirectory::new(attributes.inode, parent, name)];
        while let Some(last) = open.last_mut() {
            let directory = last.inode;
            if let Some(name) = last.subdirectories.pop() {
                let inode = self.lookup(directory, &name)?.inode;
                open.push(EmptiedDirectory::new(inode, directory, name));
                continue;
            }
            let entries = self.read_directory(directory, None, ENTRIES_AT_ONCE)?;
            if entries.is_empty() {
                self.remove_directory(last.parent, &last.name)?;
                open.pop();
            }
            for entry in entries {
                match (entry.kind, open.last_mut()) {
                    (FileKind::Directory, Some(last)) => last.subdirectories.push(entry.name),
                    _ => self.unlink(directory, &entry.name)?,
                }
            }
        }
        Ok(())
    }

    /// Visits a file, or a directory and everything in it, parents before what they contain, in the
    /// order of names. Symbolic links are not followed. Ends early if `visit` returns an error.
    ///
    /// # Errors
    /// As [`FilePaths::resolve`]; the error of `visit`.
    fn walk(&self, path: &[u8], visit: &mut dyn FnMut(&WalkEntry) -> Result<()>) -> Result<()> {
        let start = self.resolve_with(path, LastLink::Keep)?;
        let entry = WalkEntry {
            path: path.to_vec(),
            attributes: self.attributes(start)?,
        };
        visit(&entry)?;
        if entry.attributes.kind != FileKind::Directory {
            return Ok(());
        }
        // Directories on the way, each with the last name that was visited.
        let mut open: Vec<(Inode, Vec<u8>, Option<Vec<u8>>)> = vec![(start, entry.path, None)];
        while let Some((directory, path, after)) = open.pop() {
            let entries = self.read_directory(directory, after.as_deref(), ENTRIES_AT_ONCE)?;
            let mut descends = false;
            for found in &entries {
                let attributes = match self.attributes(found.inode) {
                    // It was removed since it was listed.
                    Err(error) if error.kind() == ErrorKind::Stale => continue,
                    attributes => attributes?,
                };
                let entry = WalkEntry {
                    path: joined(&path, &found.name),
                    attributes,
                };
                visit(&entry)?;
                if entry.attributes.kind == FileKind::Directory {
                    open.push((directory, path.clone(), Some(found.name.clone())));
                    open.push((found.inode, entry.path, None));
                    descends = true;
                    break;
                }
            }
            if let (false, Some(last)) = (descends || entries.len() < ENTRIES_AT_ONCE, entries.last()) {
                open.push((directory, path, Some(last.name.clone())));
            }
        }
        Ok(())
    }

    /// Returns how much space a file, or a directory with everything in it, takes.
    ///
    /// # Errors
    /// As [`FilePaths::walk`].
    fn usage(&self, path: &[u8]) -> Result<PathUsage> {
        let (mut usage, mut seen) = (PathUsage::default(), HashSet::new());
        self.walk(path, &mut |entry| {
            let attributes = &entry.attributes;
            if attributes.kind == FileKind::Directory {
                usage.directories += 1;
            } else if attributes.links < 2 || seen.insert(attributes.inode) {
                usage.files += 1;
                usage.bytes += attributes.size;
                usage.occupied_bytes += attributes.blocks * 512;
            }
            Ok(())
        })?;
        Ok(usage)
    }
}

impl<S: FileSystem + ?Sized> FilePaths for S {}

fn new_node(kind: FileKind, mode: u32) -> NewNode<'static> {
    NewNode {
        kind,
        mode,
        user: 0,
        group: 0,
        device: 0,
        target: b"",
    }
}

/// A directory that is being emptied.
struct EmptiedDirectory {
    inode: Inode,
    parent: Inode,
    name: Vec<u8>,
    /// Names of subdirectories that are still to be emptied.
    subdirectories: Vec<Vec<u8>>,
}

impl EmptiedDirectory {
    fn new(inode: Inode, parent: Inode, name: Vec<u8>) -> EmptiedDirectory {
        EmptiedDirectory {
            inode,
            parent,
            name,
            subdirectories: Vec::new(),
        }
    }
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = path.to_vec();
    if !joined.ends_with(b"/") {
        joined.push(b'/');
    }
    joined.extend_from_slice(name);
    joined
}

fn no_such(path: &[u8]) -> Error {
    let message = format!("there is no \"{}\"", path.escape_ascii());
    Error::new(ErrorKind::NotFound, message)
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
}

/// Where a path leads.
struct FoundPath {
    inode: Option<Inode>,
    /// The directory of the last part, and the last part, unless that is `..` or nothing.
    place: Option<(Inode, Vec<u8>)>,
}

/// Follows paths and counts symbolic links.
struct PathWalker<'f, S: ?Sized> {
    files: &'f S,
    links: u32,
}

impl<'f, S: FileSystem + ?Sized> PathWalker<'f, S> {
    fn new(files: &'f S) -> PathWalker<'f, S> {
        PathWalker { files, links: 0 }
    }

    fn follow(&mut self, start: Inode, path: &[u8], last: LastLink) -> Result<FoundPath> {
        check_length(path)?;
        // A path that ends with a slash means a directory.
        let needs_directory = path.ends_with(b"/");
        let mut rest: Vec<Vec<u8>> = parts(path).map(<[u8]>::to_vec).collect();
        rest.reverse();
        let mut found = FoundPath {
            inode: Some(if path.starts_with(b"/") {
                Inode::ROOT
            } else {
                start
            }),
            place: None,
        };
        while let Some(part) = rest.pop() {
            let Some(at) = found.inode else {
                return Err(no_such(path));
            };
            if part == b".." {
                found = FoundPath {
                    inode: Some(self.files.parent(at)?),
                    place: None,
                };
                continue;
            }
            let attributes = match self.files.lookup(at, &part) {
                Ok(attributes) => attributes,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    found = FoundPath {
                        inode: None,
                        place: Some((at, part)),
                    };
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_followed = !rest.is_empty() || last == LastLink::Follow || needs_directory;
            if attributes.kind == FileKind::Symlink && is_followed {
                self.links += 1;
                if self.links > MOST_LINKS {
                    let message = format!(
                        "\"{}\" leads through more than {MOST_LINKS} symbolic links",
                        path.escape_ascii()
                    );
                    return Err(Error::new(ErrorKind::Loop, message));
                }
                let target = self.files.read_link(attributes.inode)?;
                rest.extend(
                    parts(&target)
                        .map(<[u8]>::to_vec)
                        .collect::<Vec<_>>()
                        .into_iter()
                        .rev(),
                );
                found = FoundPath {
                    inode: Some(if target.starts_with(b"/") { Inode::ROOT } else { at }),
                    place: None,
                };
                continue;
            }
            found = FoundPath {
                inode: Some(attributes.inode),
                place: Some((at, part)),
            };
        }
        self.require_directory(path, &found, needs_directory)?;
        Ok(found)
    }

    fn require_directory(&self, path: &[u8], found: &FoundPath, is_needed: bool) -> Result<()> {
        let Some(inode) = found.inode.filter(|_| is_needed) else {
            return Ok(());
        };
        match self.files.attributes(inode)?.kind {
            FileKind::Directory => Ok(()),
            _ => {
                let message = format!("\"{}\" is no directory", path.escape_ascii());
                Err(Error::new(ErrorKind::NotADirectory, message))
            }
        }
    }
}

fn check_length(path: &[u8]) -> Result<()> {
    if path.len() > MOST_PATH {
        let message = format!(
            "a path of {} bytes is too long: at most {MOST_PATH} are possible",
            path.len()
        );
        return Err(Error::new(ErrorKind::NameTooLong, message));
    }
    Ok(())
}
