//! A file system in plain collections, with which tests compare.

use super::perform::{FileOperation, OperationOutcome};
use crate::{AllocateMode, ErrorKind, FileKind, FileSystem, Inode, RenameMode, SetMode, WritePosition};
use std::collections::{BTreeMap, BTreeSet};

/// The attribute by which contents are compressed.
pub(super) const COMPRESSION: &[u8] = crate::COMPRESSION_ATTRIBUTE;

#[derive(Clone, Debug)]
pub(super) struct ReferenceNode {
    pub(super) kind: FileKind,
    pub(super) mode: u32,
    /// Number of names; of a directory, 1 or 0.
    pub(super) links: u32,
    pub(super) contents: Vec<u8>,
    pub(super) entries: BTreeMap<Vec<u8>, Inode>,
    pub(super) extended: BTreeMap<Vec<u8>, Vec<u8>>,
    parent: Inode,
    was_unnamed: bool,
}

/// Which inodes without names remain.
#[derive(Clone, Debug, Default)]
pub(super) struct ViewState {
    /// In a transaction, what it has created. Everything else remains until it ends.
    pub(super) created: Option<BTreeSet<Inode>>,
    pub(super) holds: BTreeMap<Inode, u32>,
}

/// A file system in plain collections.
#[derive(Clone, Debug)]
pub(super) struct ReferenceFiles {
    pub(super) nodes: BTreeMap<Inode, ReferenceNode>,
    pub(super) view: ViewState,
    /// Holds of other views.
    pub(super) other_holds: BTreeMap<Inode, u32>,
}

type Checked<T> = Result<T, ErrorKind>;

impl ReferenceFiles {
    pub(super) fn new() -> ReferenceFiles {
        let mut root = new_node(FileKind::Directory, Inode::ROOT);
        (root.links, root.mode) = (1, 0o755);
        ReferenceFiles {
            nodes: BTreeMap::from([(Inode::ROOT, root)]),
            view: ViewState::default(),
            other_holds: BTreeMap::new(),
        }
    }

    /// Performs an operation, of which the file system under test has returned `actual`.
    pub(super) fn perform(
        &mut self,
        operation: &FileOperation,
        actual: &OperationOutcome,
    ) -> OperationOutcome {
        self.attempt(operation, actual)
            .unwrap_or_else(OperationOutcome::Fails)
    }

    /// Gives a new inode the compression of its directory.
    fn inherit(&self, parent: Inode, node: &mut ReferenceNode) {
        if let Some(value) = self.nodes[&parent].extended.get(COMPRESSION) {
            node.extended.insert(COMPRESSION.to_vec(), value.clone());
        }
    }

    fn node(&self, inode: Inode) -> Checked<&ReferenceNode> {
        self.nodes.get(&inode).ok_or(ErrorKind::Stale)
    }

    fn node_mut(&mut self, inode: Inode) -> &mut ReferenceNode {
        self.nodes.get_mut(&inode).expect("it was found before")
    }

    fn directory(&self, inode: Inode) -> Checked<&ReferenceNode> {
        let node = self.node(inode)?;
        match node.kind {
            FileKind::Directory => Ok(node),
            _ => Err(ErrorKind::NotADirectory),
        }
    }

    fn living(&self, inode: Inode) -> Checked<()> {
        match self.directory(inode)?.links {
            0 => Err(ErrorKind::NotFound),
            _ => Ok(()),
        }
    }

    fn file(&self, inode: Inode) -> Checked<&ReferenceNode> {
        let node = self.node(inode)?;
        match node.kind {
            FileKind::Regular => Ok(node),
            FileKind::Directory => Err(ErrorKind::IsADirectory),
            _ => Err(ErrorKind::InvalidArgument),
        }
    }

    fn entry(&self, parent: Inode, name: &[u8]) -> Option<Inode> {
        self.nodes.get(&parent)?.entries.get(name).copied()
    }

    fn existing(&self, parent: Inode, name: &[u8]) -> Checked<Inode> {
        match self.entry(parent, name) {
            Some(inode) => Ok(inode),
            None => self.living(parent).and(Err(ErrorKind::NotFound)),
        }
    }

    fn shown(&self, inode: Inode) -> OperationOutcome {
        let node = &self.nodes[&inode];
        OperationOutcome::Attributes(node.kind, node.contents.len() as u64, node.mode)
    }

    fn attempt(&mut self, operation: &FileOperation, actual: &OperationOutcome) -> Checked<OperationOutcome> {
        use FileOperation as Op;
        match operation {
            Op::Lookup(parent, name) => match self.entry(*parent, name) {
                Some(inode) => Ok(OperationOutcome::Inode(inode)),
                None => self.directory(*parent).and(Err(ErrorKind::NotFound)),
            },
            Op::Attributes(inode) => self.node(*inode).map(|_| self.shown(*inode)),
            Op::Parent(Inode::ROOT) => Ok(OperationOutcome::Inode(Inode::ROOT)),
            Op::Parent(inode) => match self.directory(*inode)? {
                node if node.links == 0 => Err(ErrorKind::Stale),
                node => Ok(OperationOutcome::Inode(node.parent)),
            },
            Op::Resize(inode, size) => {
                self.file(*inode)?;
                self.node_mut(*inode).contents.resize(*size as usize, 0);
                Ok(self.shown(*inode))
            }
            Op::SetMode(inode, mode) => {
                self.node(*inode)?;
                self.node_mut(*inode).mode = *mode;
                Ok(self.shown(*inode))
            }
            Op::Hold(inode) => {
                self.node(*inode)?;
                *self.view.holds.entry(*inode).or_default() += 1;
                Ok(OperationOutcome::Done)
            }
            Op::Release(inode) => {
                self.release(*inode);
                Ok(OperationOutcome::Done)
            }
            Op::Seek(inode, ..) => self.file(*inode).map(|_| OperationOutcome::Done),
            Op::List(inode) => {
                let names = self.directory(*inode)?.entries.keys();
                Ok(OperationOutcome::Names(names.cloned().collect()))
            }
            Op::Create(..)
            | Op::CreateUnnamed(..)
            | Op::Link(..)
            | Op::Unlink(..)
            | Op::RemoveDirectory(..)
            | Op::Rename(..) => self.attempt_names(operation, actual),
            _ => self.attempt_contents(operation),
        }
    }

    /// Performs operations that change names.
    fn attempt_names(
        &mut self,
        operation: &FileOperation,
        actual: &OperationOutcome,
    ) -> Checked<OperationOutcome> {
        use FileOperation as Op;
        match operation {
            Op::Create(parent, name, kind) => {
                self.living(*parent)?;
                if self.entry(*parent, name).is_some() {
                    return Err(ErrorKind::Exists);
                }
                let mut node = new_node(*kind, *parent);
                if matches!(kind, FileKind::Regular | FileKind::Directory) {
                    self.inherit(*parent, &mut node);
                }
                node.links = 1;
                let inode = self.add(node, actual);
                self.node_mut(*parent).entries.insert(name.clone(), inode);
                Ok(OperationOutcome::Inode(inode))
            }
            Op::CreateUnnamed(parent) => {
                self.living(*parent)?;
                let mut node = new_node(FileKind::Regular, *parent);
                self.inherit(*parent, &mut node);
                node.was_unnamed = true;
                let inode = self.add(node, actual);
                *self.view.holds.entry(inode).or_default() += 1;
                Ok(OperationOutcome::Inode(inode))
            }
            Op::Link(inode, parent, name) => self.link(*inode, *parent, name),
            Op::Unlink(parent, name) => {
                let inode = self.existing(*parent, name)?;
                if self.nodes[&inode].kind == FileKind::Directory {
                    return Err(ErrorKind::IsADirectory);
                }
                self.node_mut(*parent).entries.remove(name);
                self.drop_name(inode);
                Ok(OperationOutcome::Done)
            }
            Op::RemoveDirectory(parent, name) => {
                let inode = self.existing(*parent, name)?;
                self.directory(inode)?;
                if !self.nodes[&inode].entries.is_empty() {
                    return Err(ErrorKind::NotEmpty);
                }
                self.node_mut(*parent).entries.remove(name);
                self.drop_name(inode);
                Ok(OperationOutcome::Done)
            }
            Op::Rename(parent, name, to, new, mode) => self.rename((*parent, name), (*to, new), *mode),
            other => unreachable!("{other:?} is not about names"),
        }
    }

    /// Performs operations on contents and extended attributes.
    fn attempt_contents(&mut self, operation: &FileOperation) -> Checked<OperationOutcome> {
        use FileOperation as Op;
        match operation {
            Op::Read(inode, offset, length) => {
                let contents = &self.file(*inode)?.contents;
                let from = contents.len().min(*offset as usize);
                let to = contents.len().min(from + length);
                Ok(OperationOutcome::Bytes(contents[from..to].to_vec()))
            }
            Op::Write(inode, position, data) => {
                let size = self.file(*inode)?.contents.len();
                let offset = match position {
                    WritePosition::At(offset) => *offset as usize,
                    WritePosition::End => size,
                };
                if !data.is_empty() {
                    overwrite(&mut self.node_mut(*inode).contents, offset, data);
                }
                Ok(OperationOutcome::Number(offset as u64))
            }
            Op::Allocate(inode, mode, offset, length) => {
                self.file(*inode)?;
                let (from, to) = (*offset as usize, (*offset + *length) as usize);
                if *length == 0 {
                    return Err(ErrorKind::InvalidArgument);
                }
                let contents = &mut self.node_mut(*inode).contents;
                let size = contents.len();
                if matches!(mode, AllocateMode::Extend | AllocateMode::Zero) {
                    contents.resize(size.max(to), 0);
                }
                let is_cleared = !matches!(mode, AllocateMode::Extend | AllocateMode::KeepSize);
                if is_cleared && from < size {
                    contents[from..to.min(size)].fill(0);
                }
                Ok(OperationOutcome::Done)
            }
            Op::Copy(from, from_offset, to, to_offset, length) => {
                let source = self.file(*from)?.contents.clone();
                self.file(*to)?;
                let start = source.len().min(*from_offset as usize);
                let end = source.len().min(start + *length as usize);
                let length = (end - start) as u64;
                if from == to && *from_offset < to_offset + length && *to_offset < from_offset + length {
                    return Err(ErrorKind::InvalidArgument);
                }
                if length > 0 {
                    overwrite(
                        &mut self.node_mut(*to).contents,
                        *to_offset as usize,
                        &source[start..end],
                    );
                }
                Ok(OperationOutcome::Number(length))
            }
            _ => self.attempt_extended(operation),
        }
    }

    /// Performs operations on extended attributes.
    fn attempt_extended(&mut self, operation: &FileOperation) -> Checked<OperationOutcome> {
        use FileOperation as Op;
        match operation {
            Op::GetExtended(inode, name) => {
                let value = self.node(*inode)?.extended.get(name);
                value
                    .cloned()
                    .map(OperationOutcome::Bytes)
                    .ok_or(ErrorKind::NoAttribute)
            }
            Op::SetExtended(_, name, value, _) if name == COMPRESSION && value == b"lz9" => {
                Err(ErrorKind::InvalidArgument)
            }
            Op::SetExtended(inode, name, value, mode) => {
                let kind = self.node(*inode)?.kind;
                if name == COMPRESSION && !matches!(kind, FileKind::Regular | FileKind::Directory) {
                    return Err(ErrorKind::NotSupported);
                }
                match (mode, self.node(*inode)?.extended.contains_key(name)) {
                    (SetMode::Create, true) => return Err(ErrorKind::Exists),
                    (SetMode::Replace, false) => return Err(ErrorKind::NoAttribute),
                    _ => (),
                }
                let extended = &mut self.node_mut(*inode).extended;
                match name == COMPRESSION && value == b"none" {
                    true => drop(extended.remove(name)),
                    false => drop(extended.insert(name.clone(), value.clone())),
                }
                Ok(OperationOutcome::Done)
            }
            Op::RemoveExtended(inode, name) => {
                self.node(*inode)?;
                let removed = self.node_mut(*inode).extended.remove(name);
                removed
                    .map(|_| OperationOutcome::Done)
                    .ok_or(ErrorKind::NoAttribute)
            }
            Op::ListExtended(inode) => {
                let names = self.node(*inode)?.extended.keys();
                Ok(OperationOutcome::Names(names.cloned().collect()))
            }
            other => unreachable!("{other:?} is not about extended attributes"),
        }
    }

    fn add(&mut self, node: ReferenceNode, actual: &OperationOutcome) -> Inode {
        let OperationOutcome::Inode(inode) = *actual else {
            panic!("a creation must succeed, and returned {actual:?}");
        };
        assert!(
            self.nodes.insert(inode, node).is_none(),
            "{inode:?} is used twice"
        );
        if let Some(created) = &mut self.view.created {
            created.insert(inode);
        }
        inode
    }

    fn link(&mut self, inode: Inode, parent: Inode, name: &[u8]) -> Checked<OperationOutcome> {
        self.living(parent)?;
        let node = self.node(inode)?;
        if node.kind == FileKind::Directory {
            return Err(ErrorKind::NotPermitted);
        }
        if self.entry(parent, name).is_some() {
            return Err(ErrorKind::Exists);
        }
        if node.links == 0 && !node.was_unnamed {
            return Err(ErrorKind::NotFound);
        }
        let node = self.node_mut(inode);
        node.links += 1;
        node.was_unnamed = false;
        self.node_mut(parent).entries.insert(name.to_vec(), inode);
        Ok(self.shown(inode))
    }

    fn rename(
        &mut self,
        old: (Inode, &[u8]),
        new: (Inode, &[u8]),
        mode: RenameMode,
    ) -> Checked<OperationOutcome> {
        let moved = self.existing(old.0, old.1)?;
        self.living(new.0)?;
        let replaced = self.entry(new.0, new.1);
        match (mode, replaced) {
            (RenameMode::Keep, Some(_)) => return Err(ErrorKind::Exists),
            (RenameMode::Exchange, None) => return Err(ErrorKind::NotFound),
            _ => (),
        }
        if replaced == Some(moved) {
            return Ok(OperationOutcome::Done);
        }
        self.no_cycle(moved, new.0)?;
        if let (RenameMode::Exchange, Some(other)) = (mode, replaced) {
            self.no_cycle(other, old.0)?;
            self.place(other, old);
        } else {
            if let Some(other) = replaced {
                let kinds = [moved, other].map(|inode| self.nodes[&inode].kind == FileKind::Directory);
                match kinds {
                    [true, false] => return Err(ErrorKind::NotADirectory),
                    [false, true] => return Err(ErrorKind::IsADirectory),
                    [true, true] if !self.nodes[&other].entries.is_empty() => {
                        return Err(ErrorKind::NotEmpty);
                    }
                    _ => self.drop_name(other),
                }
            }
            self.node_mut(old.0).entries.remove(old.1);
        }
        self.place(moved, new);
        Ok(OperationOutcome::Done)
    }

    fn place(&mut self, inode: Inode, (parent, name): (Inode, &[u8])) {
        self.node_mut(parent).entries.insert(name.to_vec(), inode);
        self.node_mut(inode).parent = parent;
    }

    fn no_cycle(&self, inode: Inode, new_parent: Inode) -> Checked<()> {
        let mut at = new_parent;
        while at != Inode::ROOT {
            if at == inode && self.nodes[&inode].kind == FileKind::Directory {
                return Err(ErrorKind::InvalidArgument);
            }
            at = self.nodes[&at].parent;
        }
        Ok(())
    }

    fn drop_name(&mut self, inode: Inode) {
        self.node_mut(inode).links -= 1;
        self.remove_unneeded(inode);
    }

    /// Removes an inode without names unless something keeps it.
    fn remove_unneeded(&mut self, inode: Inode) {
        let Some(node) = self.nodes.get(&inode).filter(|node| node.links == 0) else {
            return;
        };
        let _ = node;
        let is_kept_by_transaction = match &self.view.created {
            Some(created) => !created.contains(&inode),
            None => false,
        };
        let is_held = self.view.holds.contains_key(&inode) || self.other_holds.contains_key(&inode);
        if !is_kept_by_transaction && !is_held {
            self.nodes.remove(&inode);
        }
    }

    pub(super) fn release(&mut self, inode: Inode) {
        let Some(count) = self.view.holds.get_mut(&inode) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.view.holds.remove(&inode);
            self.remove_unneeded(inode);
        }
    }

    /// Removes all inodes without names that no hold keeps.
    pub(super) fn remove_all_unneeded(&mut self) {
        for inode in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.remove_unneeded(inode);
        }
    }

    /// Compares everything with a file system.
    pub(super) fn compare(&self, files: &dyn FileSystem) {
        for (&inode, node) in &self.nodes {
            let attributes = files
                .attributes(inode)
                .unwrap_or_else(|error| panic!("{inode:?} {node:?}: {error}"));
            assert_eq!(
                (attributes.kind, attributes.mode),
                (node.kind, node.mode),
                "{inode:?}"
            );
            let below = node.entries.values().map(|inode| self.nodes[inode].kind);
            let links = match node.kind {
                FileKind::Directory if node.links > 0 => {
                    2 + below.filter(|kind| *kind == FileKind::Directory).count() as u32
                }
                _ => node.links,
            };
            assert_eq!(attributes.links, links, "{inode:?}");
            assert_eq!(attributes.size, node.contents.len() as u64, "{inode:?}");
            let listed = files.extended_attributes(inode).unwrap();
            assert_eq!(listed, node.extended.keys().cloned().collect::<Vec<_>>());
            for (name, value) in &node.extended {
                assert_eq!(&files.extended_attribute(inode, name).unwrap(), value);
            }
            match node.kind {
                FileKind::Regular => {
                    let read = files.read(inode, 0, node.contents.len() + 10).unwrap();
                    assert!(read == node.contents, "the contents of {inode:?} differ");
                }
                FileKind::Directory => {
                    let entries = files.read_directory(inode, None, 1000).unwrap();
                    let entries = entries.into_iter().map(|entry| (entry.name, entry.inode));
                    assert_eq!(entries.collect::<BTreeMap<_, _>>(), node.entries, "{inode:?}");
                    if node.links > 0 {
                        assert_eq!(files.parent(inode).unwrap(), node.parent);
                    }
                }
                _ => (),
            }
        }
    }
}

fn new_node(kind: FileKind, parent: Inode) -> ReferenceNode {
    ReferenceNode {
        kind,
        mode: 0o644,
        links: 0,
        contents: match kind {
            FileKind::Symlink => b"elsewhere".to_vec(),
            _ => Vec::new(),
        },
        entries: BTreeMap::new(),
        extended: BTreeMap::new(),
        parent,
        was_unnamed: false,
    }
}

fn overwrite(contents: &mut Vec<u8>, offset: usize, data: &[u8]) {
    contents.resize(contents.len().max(offset + data.len()), 0);
    contents[offset..offset + data.len()].copy_from_slice(data);
}
