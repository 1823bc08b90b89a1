//! Names and inodes in memory.

use super::blocks::{BLOCK, FileBlocks};
use super::{ChangeReport, refused};
use alluvium_files::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, ErrorKind, FileKind, Inode, NewNode,
    RenameMode, Result, TimeChange, Timestamp,
};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::{SystemTime, UNIX_EPOCH};

const LONGEST_FILE: u64 = i64::MAX as u64;

pub(super) struct MemoryNode {
    pub(super) attributes: Attributes,
    pub(super) parent: Inode,
    pub(super) target: Vec<u8>,
    pub(super) blocks: FileBlocks,
    pub(super) extended: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) holds: u64,
    entries: BTreeMap<Vec<u8>, Inode>,
    /// It was created without a name, and may get one.
    is_unnamed: bool,
}

pub(super) struct MemoryState {
    nodes: HashMap<Inode, MemoryNode>,
    next: u64,
}

fn now() -> Timestamp {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp {
        seconds: time.as_secs() as i64,
        nanoseconds: time.subsec_nanos(),
    }
}

impl Default for MemoryState {
    fn default() -> MemoryState {
        let root = NewNode {
            kind: FileKind::Directory,
            mode: 0o755,
            user: 0,
            group: 0,
            device: 0,
            target: b"",
        };
        let root = MemoryNode::new(Inode::ROOT, Inode::ROOT, &root);
        MemoryState {
            nodes: HashMap::from([(Inode::ROOT, root)]),
            next: 2,
        }
    }
}

impl MemoryNode {
    fn new(inode: Inode, parent: Inode, new: &NewNode<'_>) -> MemoryNode {
        let time = now();
        let attributes = Attributes {
            inode,
            generation: 1,
            kind: new.kind,
            mode: new.mode,
            user: new.user,
            group: new.group,
            links: if new.kind == FileKind::Directory { 2 } else { 1 },
            size: new.target.len() as u64,
            blocks: 0,
            device: new.device,
            accessed: time,
            modified: time,
            changed: time,
            created: time,
        };
        MemoryNode {
            attributes,
            parent,
            target: new.target.to_vec(),
            blocks: FileBlocks::default(),
            extended: BTreeMap::new(),
            holds: 0,
            entries: BTreeMap::new(),
            is_unnamed: false,
        }
    }

    pub(super) fn changed(&mut self) {
        self.attributes.changed = now();
    }

    pub(super) fn modified(&mut self) {
        self.attributes.blocks = self.blocks.count() * BLOCK / 512;
        self.attributes.modified = now();
        self.attributes.changed = self.attributes.modified;
    }

    pub(super) fn grow(&mut self, size: u64) {
        self.attributes.size = self.attributes.size.max(size);
        self.modified();
    }

    pub(super) fn allocate(&mut self, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        let end = offset.checked_add(length).filter(|&end| end <= LONGEST_FILE);
        let Some(end) = end else {
            return refused(ErrorKind::TooLarge);
        };
        if matches!(
            mode,
            AllocateMode::PunchHole | AllocateMode::Zero | AllocateMode::ZeroKeepSize
        ) {
            self.blocks.clear(offset, length);
        }
        match mode {
            AllocateMode::Extend | AllocateMode::Zero => self.grow(end),
            _ => self.modified(),
        }
        Ok(())
    }

    fn resize(&mut self, size: u64) {
        if size < self.attributes.size {
            let last = self.attributes.size.div_ceil(BLOCK) * BLOCK;
            self.blocks.clear(size, last - size);
        }
        self.attributes.size = size;
        self.modified();
    }
}

impl MemoryState {
    pub(super) fn inodes(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn holds(&self) -> u64 {
        self.nodes.values().map(|node| node.holds).sum()
    }

    pub(super) fn node(&self, inode: Inode) -> Result<&MemoryNode> {
        self.nodes
            .get(&inode)
            .map_or_else(|| refused(ErrorKind::Stale), Ok)
    }

    pub(super) fn node_mut(&mut self, inode: Inode) -> Result<&mut MemoryNode> {
        match self.nodes.get_mut(&inode) {
            Some(node) => Ok(node),
            None => refused(ErrorKind::Stale),
        }
    }

    pub(super) fn directory(&self, inode: Inode) -> Result<&MemoryNode> {
        let node = self.node(inode)?;
        match node.attributes.kind {
            FileKind::Directory => Ok(node),
            _ => refused(ErrorKind::NotADirectory),
        }
    }

    pub(super) fn file(&self, inode: Inode) -> Result<&MemoryNode> {
        let node = self.node(inode)?;
        match node.attributes.kind {
            FileKind::Directory => refused(ErrorKind::IsADirectory),
            _ => Ok(node),
        }
    }

    pub(super) fn file_mut(&mut self, inode: Inode) -> Result<&mut MemoryNode> {
        self.file(inode)?;
        self.node_mut(inode)
    }

    fn find(&self, parent: Inode, name: &[u8]) -> Result<Option<Inode>> {
        if name.len() > 255 {
            return refused(ErrorKind::NameTooLong);
        }
        Ok(self.directory(parent)?.entries.get(name).copied())
    }

    pub(super) fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        match self.find(parent, name)? {
            Some(inode) => Ok(self.node(inode)?.attributes.clone()),
            None => refused(ErrorKind::NotFound),
        }
    }

    pub(super) fn set_attributes(
        &mut self,
        inode: Inode,
        change: &AttributeChange,
        changes: &mut ChangeReport,
    ) -> Result<Attributes> {
        let node = self.node_mut(inode)?;
        changes.inodes.push(inode);
        if let Some(size) = change.size {
            node.resize(size);
        }
        let attributes = &mut node.attributes;
        attributes.mode = change.mode.unwrap_or(attributes.mode);
        attributes.user = change.user.unwrap_or(attributes.user);
        attributes.group = change.group.unwrap_or(attributes.group);
        let time = |change: TimeChange| match change {
            TimeChange::Now => now(),
            TimeChange::At(time) => time,
        };
        attributes.accessed = change.accessed.map_or(attributes.accessed, time);
        attributes.modified = change.modified.map_or(attributes.modified, time);
        attributes.changed = now();
        Ok(attributes.clone())
    }

    fn insert(&mut self, parent: Inode, new: &NewNode<'_>) -> Result<Inode> {
        let inode = Inode(self.next);
        let directory = &self.directory(parent)?.attributes;
        let mut node = MemoryNode::new(inode, parent, new);
        if directory.mode & 0o2000 != 0 {
            node.attributes.group = directory.group;
            if new.kind == FileKind::Directory {
                node.attributes.mode |= 0o2000;
            }
        }
        self.next += 1;
        self.nodes.insert(inode, node);
        Ok(inode)
    }

    fn add_name(
        &mut self,
        parent: Inode,
        name: &[u8],
        inode: Inode,
        changes: &mut ChangeReport,
    ) -> Result<()> {
        let is_directory = self.node(inode)?.attributes.kind == FileKind::Directory;
        let directory = self.node_mut(parent)?;
        directory.entries.insert(name.to_vec(), inode);
        directory.attributes.links += u32::from(is_directory);
        directory.modified();
        if is_directory {
            self.node_mut(inode)?.parent = parent;
        }
        changes.names.push((parent, name.to_vec()));
        changes.inodes.push(parent);
        Ok(())
    }

    fn remove_name(&mut self, parent: Inode, name: &[u8], changes: &mut ChangeReport) -> Result<()> {
        let directory = self.node_mut(parent)?;
        let inode = directory.entries.remove(name).unwrap();
        directory.modified();
        if self.node(inode)?.attributes.kind == FileKind::Directory {
            self.node_mut(parent)?.attributes.links -= 1;
        }
        changes.names.push((parent, name.to_vec()));
        changes.inodes.push(parent);
        Ok(())
    }

    pub(super) fn create(
        &mut self,
        parent: Inode,
        name: &[u8],
        new: &NewNode<'_>,
        changes: &mut ChangeReport,
    ) -> Result<Attributes> {
        if self.find(parent, name)?.is_some() {
            return refused(ErrorKind::Exists);
        }
        let directory = self.directory(parent)?;
        if directory.attributes.links == 0 {
            return refused(ErrorKind::NotFound);
        }
        let inode = self.insert(parent, new)?;
        self.add_name(parent, name, inode, changes)?;
        Ok(self.node(inode)?.attributes.clone())
    }

    pub(super) fn create_unnamed(&mut self, parent: Inode, new: &NewNode<'_>) -> Result<Attributes> {
        let inode = self.insert(parent, new)?;
        let node = self.node_mut(inode)?;
        node.attributes.links = 0;
        node.is_unnamed = true;
        node.holds = 1;
        Ok(node.attributes.clone())
    }

    pub(super) fn link(
        &mut self,
        inode: Inode,
        parent: Inode,
        name: &[u8],
        changes: &mut ChangeReport,
    ) -> Result<Attributes> {
        if self.find(parent, name)?.is_some() {
            return refused(ErrorKind::Exists);
        }
        let node = self.node_mut(inode)?;
        if node.attributes.kind == FileKind::Directory {
            return refused(ErrorKind::NotPermitted);
        }
        if node.attributes.links == 0 && !node.is_unnamed {
            return refused(ErrorKind::NotFound);
        }
        node.is_unnamed = false;
        node.attributes.links += 1;
        node.changed();
        let attributes = node.attributes.clone();
        self.add_name(parent, name, inode, changes)?;
        changes.inodes.push(inode);
        Ok(attributes)
    }

    /// Takes names away from an inode.
    fn unlink_inode(&mut self, inode: Inode, changes: &mut ChangeReport) -> Result<()> {
        let node = self.node_mut(inode)?;
        node.attributes.links = match node.attributes.kind {
            FileKind::Directory => 0,
            _ => node.attributes.links - 1,
        };
        node.changed();
        changes.inodes.push(inode);
        self.remove_if_unused(inode);
        Ok(())
    }

    fn remove_if_unused(&mut self, inode: Inode) {
        let node = self.nodes.get(&inode);
        if node.is_some_and(|node| node.attributes.links == 0 && node.holds == 0) {
            self.nodes.remove(&inode);
        }
    }

    pub(super) fn release(&mut self, inode: Inode) -> Result<()> {
        let node = self.node_mut(inode)?;
        node.holds = node.holds.checked_sub(1).expect("a hold for each release");
        self.remove_if_unused(inode);
        Ok(())
    }

    pub(super) fn unlink(&mut self, parent: Inode, name: &[u8], changes: &mut ChangeReport) -> Result<()> {
        let Some(inode) = self.find(parent, name)? else {
            return refused(ErrorKind::NotFound);
        };
        self.file(inode)?;
        self.remove_name(parent, name, changes)?;
        self.unlink_inode(inode, changes)
    }

    pub(super) fn remove_directory(
        &mut self,
        parent: Inode,
        name: &[u8],
        changes: &mut ChangeReport,
    ) -> Result<()> {
        let Some(inode) = self.find(parent, name)? else {
            return refused(ErrorKind::NotFound);
        };
        if !self.directory(inode)?.entries.is_empty() {
            return refused(ErrorKind::NotEmpty);
        }
        self.remove_name(parent, name, changes)?;
        self.unlink_inode(inode, changes)
    }

    /// Returns whether `inode` is `directory` or lies below it.
    fn is_within(&self, inode: Inode, directory: Inode) -> Result<bool> {
        let mut at = inode;
        loop {
            if at == directory {
                return Ok(true);
            }
            if at == Inode::ROOT {
                return Ok(false);
            }
            at = self.node(at)?.parent;
        }
    }

    pub(super) fn rename(
        &mut self,
        from: (Inode, &[u8]),
        to: (Inode, &[u8]),
        mode: RenameMode,
        changes: &mut ChangeReport,
    ) -> Result<()> {
        let (Some(inode), replaced) = (self.find(from.0, from.1)?, self.find(to.0, to.1)?) else {
            return refused(ErrorKind::NotFound);
        };
        let is_directory = self.node(inode)?.attributes.kind == FileKind::Directory;
        if is_directory && self.is_within(to.0, inode)? {
            return refused(ErrorKind::InvalidArgument);
        }
        match (mode, replaced) {
            (RenameMode::Keep, Some(_)) => return refused(ErrorKind::Exists),
            (RenameMode::Exchange, None) => return refused(ErrorKind::NotFound),
            (RenameMode::Exchange, Some(other)) => {
                self.remove_name(from.0, from.1, changes)?;
                self.remove_name(to.0, to.1, changes)?;
                self.add_name(from.0, from.1, other, changes)?;
                self.add_name(to.0, to.1, inode, changes)?;
                return Ok(());
            }
            _ => {}
        }
        if replaced == Some(inode) {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            match (is_directory, self.directory(replaced).is_ok()) {
                (true, false) => return refused(ErrorKind::NotADirectory),
                (false, true) => return refused(ErrorKind::IsADirectory),
                _ => {}
            }
            if !self.node(replaced)?.entries.is_empty() {
                return refused(ErrorKind::NotEmpty);
            }
            self.remove_name(to.0, to.1, changes)?;
            self.unlink_inode(replaced, changes)?;
        }
        self.remove_name(from.0, from.1, changes)?;
        self.add_name(to.0, to.1, inode, changes)?;
        self.node_mut(inode)?.changed();
        changes.inodes.push(inode);
        Ok(())
    }

    pub(super) fn read_directory(
        &self,
        directory: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        let entries = &self.directory(directory)?.entries;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = entries.range::<[u8], _>((start, Bound::Unbounded)).take(limit);
        let listed = entries.map(|(name, &inode)| {
            Ok(DirectoryEntry {
                name: name.clone(),
                inode,
                kind: self.node(inode)?.attributes.kind,
            })
        });
        listed.collect()
    }
}
