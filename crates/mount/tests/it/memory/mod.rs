//! A file system in memory, which several mounts can share: the changes of each are reported to the
//! others.

mod blocks;
mod state;

use alluvium_files::{
    AllocateMode, AttributeChange, Attributes, ChangeListener, DirectoryEntry, Error, ErrorKind, FileKind,
    FileSystem, Inode, NewNode, RenameMode, Result, SeekTarget, SetMode, SpaceStatistics, WritePosition,
};
use state::MemoryState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Files that all views share.
#[derive(Default)]
struct SharedFiles {
    state: Mutex<MemoryState>,
    listeners: Mutex<Vec<(u64, Arc<dyn ChangeListener>)>>,
    views: AtomicU64,
    syncs: AtomicU64,
    panics: AtomicBool,
}

/// A file system in memory, or another view of the same.
pub(crate) struct MemoryFiles {
    shared: Arc<SharedFiles>,
    view: u64,
}

/// What an operation has changed, for the listeners of other views.
#[derive(Default)]
pub(crate) struct ChangeReport {
    pub(crate) names: Vec<(Inode, Vec<u8>)>,
    pub(crate) inodes: Vec<Inode>,
}

pub(crate) fn refused<T>(kind: ErrorKind) -> Result<T> {
    Err(Error::new(kind, format!("{kind:?}")))
}

impl MemoryFiles {
    pub(crate) fn new() -> MemoryFiles {
        MemoryFiles {
            shared: Arc::default(),
            view: 0,
        }
    }

    /// Returns another view of the same files.
    pub(crate) fn another(&self) -> MemoryFiles {
        let view = self.shared.views.fetch_add(1, Ordering::Relaxed) + 1;
        MemoryFiles {
            shared: self.shared.clone(),
            view,
        }
    }

    /// Returns another handle of the same view. Mounts of the view are not told of its changes.
    pub(crate) fn same_view(&self) -> MemoryFiles {
        MemoryFiles {
            shared: self.shared.clone(),
            view: self.view,
        }
    }

    /// Returns how often a sync was asked for.
    pub(crate) fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::Relaxed)
    }

    /// Returns the number of inodes, with those that are held without a name.
    pub(crate) fn inodes(&self) -> usize {
        self.state().inodes()
    }

    /// Returns the number of holds.
    pub(crate) fn holds(&self) -> u64 {
        self.state().holds()
    }

    /// Makes the next read panic.
    pub(crate) fn panic_once(&self) {
        self.shared.panics.store(true, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.shared.state.lock().unwrap()
    }

    /// ChangeReport the files, and tells the others what was changed.
    fn change<T>(&self, work: impl FnOnce(&mut MemoryState, &mut ChangeReport) -> Result<T>) -> Result<T> {
        let mut changes = ChangeReport::default();
        let result = work(&mut self.state(), &mut changes);
        let listeners = self.shared.listeners.lock().unwrap();
        for (_, listener) in listeners.iter().filter(|(view, _)| *view != self.view) {
            for (parent, name) in &changes.names {
                listener.name_changed(*parent, name);
            }
            for inode in &changes.inodes {
                listener.inode_changed(*inode);
            }
        }
        result
    }
}

impl FileSystem for MemoryFiles {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        self.state().lookup(parent, name)
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        Ok(self.state().node(inode)?.attributes.clone())
    }

    fn parent(&self, directory: Inode) -> Result<Inode> {
        Ok(self.state().directory(directory)?.parent)
    }

    fn set_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
        self.change(|state, changes| state.set_attributes(inode, change, changes))
    }

    fn create(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
        self.change(|state, changes| state.create(parent, name, node, changes))
    }

    fn create_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes> {
        self.change(|state, _| state.create_unnamed(parent, node))
    }

    fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
        self.change(|state, changes| state.link(inode, parent, name, changes))
    }

    fn unlink(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.change(|state, changes| state.unlink(parent, name, changes))
    }

    fn remove_directory(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.change(|state, changes| state.remove_directory(parent, name, changes))
    }

    fn rename(
        &self,
        parent: Inode,
        name: &[u8],
        new_parent: Inode,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.change(|state, changes| state.rename((parent, name), (new_parent, new_name), mode, changes))
    }

    fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
        let state = self.state();
        let node = state.node(inode)?;
        if node.attributes.kind != FileKind::Symlink {
            return refused(ErrorKind::InvalidArgument);
        }
        Ok(node.target.clone())
    }

    fn hold(&self, inode: Inode) -> Result<()> {
        self.state().node_mut(inode)?.holds += 1;
        Ok(())
    }

    fn release(&self, inode: Inode) -> Result<()> {
        self.state().release(inode)
    }

    fn read(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>> {
        assert!(
            !self.shared.panics.swap(false, Ordering::Relaxed),
            "a planted panic"
        );
        let state = self.state();
        let node = state.file(inode)?;
        let length = (length as u64).min(node.attributes.size.saturating_sub(offset));
        Ok(node.blocks.read(offset, usize::try_from(length).unwrap()))
    }

    fn write(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
        self.change(|state, changes| {
            let node = state.file_mut(inode)?;
            let offset = match position {
                WritePosition::At(offset) => offset,
                WritePosition::End => node.attributes.size,
            };
            node.blocks.write(offset, data);
            node.grow(offset + data.len() as u64);
            changes.inodes.push(inode);
            Ok(offset)
        })
    }

    fn allocate(&self, inode: Inode, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.change(|state, changes| {
            let node = state.file_mut(inode)?;
            changes.inodes.push(inode);
            node.allocate(mode, offset, length)
        })
    }

    fn seek(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64> {
        let state = self.state();
        let node = state.file(inode)?;
        node.blocks.seek(node.attributes.size, offset, target)
    }

    fn copy_range(
        &self,
        from: Inode,
        from_offset: u64,
        to: Inode,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        if from == to && from_offset.abs_diff(to_offset) < length {
            return refused(ErrorKind::InvalidArgument);
        }
        let data = self.read(from, from_offset, usize::try_from(length).unwrap())?;
        self.write(to, WritePosition::At(to_offset), &data)?;
        Ok(data.len() as u64)
    }

    fn read_directory(
        &self,
        directory: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        self.state().read_directory(directory, after, limit)
    }

    fn extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>> {
        let state = self.state();
        let value = state.node(inode)?.extended.get(name).cloned();
        value.map_or_else(|| refused(ErrorKind::NoAttribute), Ok)
    }

    fn extended_attributes(&self, inode: Inode) -> Result<Vec<Vec<u8>>> {
        Ok(self.state().node(inode)?.extended.keys().cloned().collect())
    }

    fn set_extended_attribute(&self, inode: Inode, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        self.change(|state, changes| {
            let node = state.node_mut(inode)?;
            match (mode, node.extended.contains_key(name)) {
                (SetMode::Create, true) => return refused(ErrorKind::Exists),
                (SetMode::Replace, false) => return refused(ErrorKind::NoAttribute),
                _ => {}
            }
            node.extended.insert(name.to_vec(), value.to_vec());
            node.changed();
            changes.inodes.push(inode);
            Ok(())
        })
    }

    fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<()> {
        self.change(|state, changes| {
            let node = state.node_mut(inode)?;
            if node.extended.remove(name).is_none() {
                return refused(ErrorKind::NoAttribute);
            }
            node.changed();
            changes.inodes.push(inode);
            Ok(())
        })
    }

    fn sync(&self) -> Result<()> {
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn space(&self) -> Result<SpaceStatistics> {
        Ok(SpaceStatistics {
            block_bytes: 4096,
            blocks: 1 << 20,
            free_blocks: 1 << 19,
            inodes: self.inodes() as u64,
            free_inodes: 1 << 30,
            name_bytes: 255,
        })
    }

    fn listen(&self, listener: Arc<dyn ChangeListener>) {
        self.shared.listeners.lock().unwrap().push((self.view, listener));
    }
}
