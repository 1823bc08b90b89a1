//! The inodes to which the kernel refers: how often, and which of them the file system holds.

use alluvium_files::{FileKind, FileSystem, Inode, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Number of independently locked parts. A power of two.
const SHARDS: usize = 64;

/// What the mount remembers of an inode.
#[derive(Default)]
struct Node {
    /// References of the kernel: one for each answer with the inode, until it forgets them.
    lookups: u64,
    /// Open files.
    opens: u64,
    /// Whether the file system holds the inode because of `lookups`.
    is_held: bool,
    /// Whether a directory has a default access control list, if that is known.
    has_default_list: Option<bool>,
}

/// The inodes to which the kernel refers.
pub(crate) struct KernelReferences {
    shards: Box<[Mutex<HashMap<Inode, Node>>]>,
}

/// Returns whether references of the kernel hold an inode, and not only open files. The working
/// directory of a process and an open pipe have no file that the mount knows of.
fn is_held_by_lookups(kind: FileKind) -> bool {
    !matches!(kind, FileKind::Regular | FileKind::Symlink)
}

fn report<T>(inode: Inode, result: Result<T>) {
    if let Err(error) = result {
        tracing::warn!("releasing inode {} failed: {error}", inode.0);
    }
}

impl KernelReferences {
    pub(crate) fn new() -> KernelReferences {
        KernelReferences {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn shard(&self, inode: Inode) -> &Mutex<HashMap<Inode, Node>> {
        let hash = inode.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shards[hash as usize % SHARDS]
    }

    /// Counts one reference of the kernel.
    pub(crate) fn remember(&self, files: &dyn FileSystem, inode: Inode, kind: FileKind) -> Result<()> {
        let mut shard = self.shard(inode).lock();
        let node = shard.entry(inode).or_default();
        if !node.is_held && is_held_by_lookups(kind) && inode != Inode::ROOT {
            if let Err(error) = files.hold(inode) {
                if node.lookups == 0 && node.opens == 0 {
                    shard.remove(&inode);
                }
                return Err(error);
            }
            node.is_held = true;
        }
        node.lookups += 1;
        Ok(())
    }

    /// Holds an inode until the kernel forgets it, if the kernel refers to it.
    pub(crate) fn hold_known(&self, files: &dyn FileSystem, inode: Inode) {
        let mut shard = self.shard(inode).lock();
        if let Some(node) = shard.get_mut(&inode)
            && node.lookups > 0
            && !node.is_held
        {
            node.is_held = files.hold(inode).is_ok();
        }
    }

    /// Takes back references of the kernel.
    pub(crate) fn forget(&self, files: &dyn FileSystem, inode: Inode, count: u64) {
        let mut shard = self.shard(inode).lock();
        let Entry::Occupied(mut entry) = shard.entry(inode) else {
            return;
        };
        let node = entry.get_mut();
        node.lookups = node.lookups.saturating_sub(count);
        if node.lookups > 0 {
            return;
        }
        let was_held = std::mem::take(&mut node.is_held);
        if node.opens == 0 {
            entry.remove();
        }
        drop(shard);
        if was_held {
            report(inode, files.release(inode));
        }
    }

    /// Holds an inode for an open file.
    pub(crate) fn open(&self, files: &dyn FileSystem, inode: Inode) -> Result<()> {
        files.hold(inode)?;
        self.opened(inode);
        Ok(())
    }

    /// Counts an open file whose inode the file system holds already.
    pub(crate) fn opened(&self, inode: Inode) {
        self.shard(inode).lock().entry(inode).or_default().opens += 1;
    }

    /// Releases the inode of an open file.
    pub(crate) fn close(&self, files: &dyn FileSystem, inode: Inode) {
        let mut shard = self.shard(inode).lock();
        let Entry::Occupied(mut entry) = shard.entry(inode) else {
            return;
        };
        let node = entry.get_mut();
        if node.opens == 0 {
            return;
        }
        node.opens -= 1;
        if node.opens == 0 && node.lookups == 0 {
            entry.remove();
        }
        drop(shard);
        report(inode, files.release(inode));
    }

    /// Takes back all holds, at the end of the mount.
    pub(crate) fn release_all(&self, files: &dyn FileSystem) {
        for shard in &self.shards {
            let nodes = std::mem::take(&mut *shard.lock());
            for (inode, node) in nodes {
                for _ in 0..node.opens + u64::from(node.is_held) {
                    report(inode, files.release(inode));
                }
            }
        }
    }

    /// Returns whether the kernel refers to an inode. It never forgets the root.
    pub(crate) fn knows(&self, inode: Inode) -> bool {
        inode == Inode::ROOT || self.shard(inode).lock().contains_key(&inode)
    }

    /// Returns whether a directory has a default access control list, if that is known.
    pub(crate) fn default_list(&self, directory: Inode) -> Option<bool> {
        self.shard(directory).lock().get(&directory)?.has_default_list
    }

    /// Remembers whether a directory has a default access control list. `None`: it is not known.
    pub(crate) fn set_default_list(&self, directory: Inode, has_list: Option<bool>) {
        let mut shard = self.shard(directory).lock();
        if directory == Inode::ROOT {
            shard.entry(directory).or_default().has_default_list = has_list;
        } else if let Some(node) = shard.get_mut(&directory) {
            node.has_default_list = has_list;
        }
    }
}
