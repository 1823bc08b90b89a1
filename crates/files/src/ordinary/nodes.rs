//! The inodes that are known, and how each is found again.
//!
//! A known inode has a place, the directory and name under which it was last seen, and may have
//! descriptors. Descriptors of inodes that are not held are closed when there are too many. Such an
//! inode is opened again through its place, and its number and time of creation tell whether it is
//! still the same file (D2).

use super::errors;
use crate::error::Result;
use crate::types::{DirectoryEntry, FileKind, Inode};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, openat, statx};
use rustix::io::{Errno, Result as SystemResult};
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Numbers of inodes on other file systems that are mounted below the root begin here.
const FOREIGN: u64 = 1 << 63;
/// Listed inodes that are remembered. Beyond this, their names have to be looked up.
const MOST_LISTED: usize = 1 << 20;
/// Places deeper than this are not followed.
const DEEPEST: usize = 1 << 16;

/// Returns whether a number is that of an inode on another file system, mounted below the root.
pub(crate) fn is_foreign(inode: Inode) -> bool {
    inode.0 >= FOREIGN
}

/// What identifies a file of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    device: u64,
    number: u64,
    pub(super) generation: u64,
    pub(super) kind: FileKind,
}

impl FileIdentity {
    pub(super) fn of(status: &Statx) -> FileIdentity {
        FileIdentity {
            device: rustix::fs::makedev(status.stx_dev_major, status.stx_dev_minor),
            number: status.stx_ino,
            generation: generation(status),
            kind: kind(FileType::from_raw_mode(u32::from(status.stx_mode))),
        }
    }
}

/// Distinguishes files that had the same inode number one after the other by their time of
/// creation. It is 0 where the file system keeps none.
fn generation(status: &Statx) -> u64 {
    if status.stx_mask & StatxFlags::BTIME.bits() == 0 {
        return 0;
    }
    let seconds = status.stx_btime.tv_sec.cast_unsigned();
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(u64::from(status.stx_btime.tv_nsec))
}

pub(super) fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Pipe,
        FileType::Socket => FileKind::Socket,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::CharacterDevice => FileKind::CharacterDevice,
        FileType::RegularFile | FileType::Unknown => FileKind::Regular,
    }
}

/// An inode that is known.
pub(super) struct KnownNode {
    pub(super) inode: Inode,
    pub(super) identity: FileIdentity,
    pub(super) state: Mutex<NodeState>,
    /// Held by a thread that appends and asks where its bytes stand.
    pub(super) appending: Mutex<()>,
}

/// How an inode is reached.
#[derive(Default)]
pub(super) struct NodeState {
    /// Directory and name under which the inode was last seen.
    pub(super) place: Option<(Inode, Box<[u8]>)>,
    /// A descriptor that only refers to the inode (`O_PATH`).
    pub(super) path: Option<Arc<OwnedFd>>,
    /// A descriptor for reading contents.
    pub(super) reading: Option<Arc<OwnedFd>>,
    /// A descriptor for reading and writing contents.
    pub(super) writing: Option<Arc<OwnedFd>>,
    /// How often the inode is held.
    pub(super) holds: u64,
    /// The place is not known any more, so that `path` must stay open.
    pub(super) is_pinned: bool,
}

/// All known inodes.
pub(super) struct NodeTable {
    root: FileIdentity,
    /// Number of inodes with descriptors from which on descriptors are closed.
    most_open: usize,
    nodes: Mutex<KnownNodes>,
}

#[derive(Default)]
struct KnownNodes {
    known: HashMap<Inode, Arc<KnownNode>>,
    foreign: HashMap<(u64, u64), Inode>,
    /// Where inodes were listed that are not known yet.
    listed: HashMap<Inode, (Inode, Box<[u8]>)>,
    /// Inodes whose `path` is open, in the order in which they were opened.
    open: VecDeque<Arc<KnownNode>>,
}

impl NodeTable {
    /// Creates a table whose root is the directory to which `root` refers.
    pub(super) fn new(root: OwnedFd, most_open: usize) -> SystemResult<NodeTable> {
        let identity = FileIdentity::of(&status(root.as_fd(), b"")?);
        let state = NodeState {
            path: Some(Arc::new(root)),
            is_pinned: true,
            ..NodeState::default()
        };
        let node = KnownNode {
            inode: Inode::ROOT,
            identity,
            state: Mutex::new(state),
            appending: Mutex::new(()),
        };
        let mut nodes = KnownNodes::default();
        nodes.known.insert(Inode::ROOT, Arc::new(node));
        Ok(NodeTable {
            root: identity,
            most_open,
            nodes: Mutex::new(nodes),
        })
    }

    /// Returns the number of a file. The root's own number and 1 are exchanged.
    fn number(&self, nodes: &mut KnownNodes, device: u64, number: u64) -> Inode {
        if device == self.root.device && number < FOREIGN {
            return match number {
                _ if number == self.root.number => Inode::ROOT,
                1 => Inode(self.root.number),
                _ => Inode(number),
            };
        }
        let next = FOREIGN + nodes.foreign.len() as u64;
        *nodes.foreign.entry((device, number)).or_insert(Inode(next))
    }

    /// Returns the number of an entry that a directory lists.
    pub(super) fn number_of_entry(&self, directory: &KnownNode, number: u64) -> Inode {
        self.number(&mut self.nodes.lock(), directory.identity.device, number)
    }

    /// Returns the inode with this identity, if it is known.
    pub(super) fn known(&self, identity: FileIdentity) -> Option<Arc<KnownNode>> {
        let mut nodes = self.nodes.lock();
        let inode = self.number(&mut nodes, identity.device, identity.number);
        let node = nodes.known.get(&inode)?;
        (node.identity == identity).then(|| node.clone())
    }

    /// Notes that a file was seen at a place, and returns its inode.
    pub(super) fn see(&self, identity: FileIdentity, place: Option<(Inode, &[u8])>) -> Arc<KnownNode> {
        let mut nodes = self.nodes.lock();
        let inode = self.number(&mut nodes, identity.device, identity.number);
        let place = place.map(|(parent, name)| (parent, Box::from(name)));
        if let Some(node) = nodes.known.get(&inode)
            && node.identity == identity
        {
            let mut state = node.state.lock();
            if place.is_some() && inode != Inode::ROOT {
                state.place = place;
                state.is_pinned = false;
            }
            drop(state);
            return node.clone();
        }
        // Another file had the number before, and has gone.
        let state = NodeState {
            place,
            ..NodeState::default()
        };
        let node = Arc::new(KnownNode {
            inode,
            identity,
            state: Mutex::new(state),
            appending: Mutex::new(()),
        });
        nodes.known.insert(inode, node.clone());
        node
    }

    /// Returns a known inode, or one that was listed.
    pub(super) fn get(&self, inode: Inode) -> Result<Arc<KnownNode>> {
        let place = {
            let mut nodes = self.nodes.lock();
            if let Some(node) = nodes.known.get(&inode) {
                return Ok(node.clone());
            }
            nodes.listed.remove(&inode)
        };
        let (parent, name) = place.ok_or_else(|| errors::stale(inode))?;
        let directory = self.path_of(parent)?;
        let found = status(directory.as_fd(), &name).map_err(|errno| gone(errno, inode))?;
        let node = self.see(FileIdentity::of(&found), Some((parent, &name)));
        if node.inode == inode {
            Ok(node)
        } else {
            Err(errors::stale(inode))
        }
    }

    /// Notes where inodes were listed that are not known yet, so that they can be used without
    /// looking up their names first.
    pub(super) fn note_listed(&self, directory: Inode, entries: &[DirectoryEntry]) {
        let mut nodes = self.nodes.lock();
        if nodes.listed.len() > MOST_LISTED {
            nodes.listed.clear();
        }
        for entry in entries {
            if !nodes.known.contains_key(&entry.inode) {
                let place = (directory, Box::from(entry.name.as_slice()));
                nodes.listed.insert(entry.inode, place);
            }
        }
    }

    /// Forgets an inode that has gone.
    pub(super) fn forget(&self, node: &Arc<KnownNode>) {
        let mut nodes = self.nodes.lock();
        let is_same = nodes
            .known
            .get(&node.inode)
            .is_some_and(|known| Arc::ptr_eq(known, node));
        if is_same && node.inode != Inode::ROOT {
            nodes.known.remove(&node.inode);
        }
        drop(nodes);
        let mut state = node.state.lock();
        (state.path, state.reading, state.writing) = (None, None, None);
    }

    /// Gives an inode a descriptor that was just opened.
    pub(super) fn attach(&self, node: &Arc<KnownNode>, path: Arc<OwnedFd>) {
        let is_new = node.state.lock().path.replace(path).is_none();
        if !is_new {
            return;
        }
        let mut nodes = self.nodes.lock();
        nodes.open.push_back(node.clone());
        let surplus = nodes.open.len().saturating_sub(self.most_open);
        for _ in 0..surplus {
            let Some(oldest) = nodes.open.pop_front() else {
                break;
            };
            // A thread that has the lock is using the inode.
            let Some(mut state) = oldest.state.try_lock() else {
                nodes.open.push_back(oldest);
                continue;
            };
            if state.holds > 0 || state.is_pinned || state.place.is_none() {
                drop(state);
                nodes.open.push_back(oldest);
                continue;
            }
            (state.path, state.reading, state.writing) = (None, None, None);
        }
    }

    /// Returns a descriptor that refers to an inode.
    pub(super) fn path_of(&self, inode: Inode) -> Result<Arc<OwnedFd>> {
        let mut chain = Vec::new();
        let mut at = inode;
        let mut reached = loop {
            let node = self.get(at)?;
            let state = node.state.lock();
            if let Some(path) = &state.path {
                break path.clone();
            }
            let Some((parent, name)) = state.place.clone() else {
                return Err(errors::stale(inode));
            };
            drop(state);
            if chain.len() == DEEPEST {
                return Err(errors::stale(inode));
            }
            chain.push((node, name));
            at = parent;
        };
        while let Some((node, name)) = chain.pop() {
            let opened = open_path(&reached, &name).map_err(|errno| gone(errno, inode))?;
            let status = status(opened.as_fd(), b"").map_err(|errno| gone(errno, inode))?;
            if FileIdentity::of(&status) != node.identity {
                return Err(errors::stale(inode));
            }
            reached = Arc::new(opened);
            self.attach(&node, reached.clone());
        }
        Ok(reached)
    }
}

/// Opens an entry of a directory without following it.
pub(super) fn open_path(directory: &OwnedFd, name: &[u8]) -> SystemResult<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

/// Returns the status of an entry, or of the inode itself if the name is empty.
pub(super) fn status(directory: impl AsFd, name: &[u8]) -> SystemResult<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    statx(
        directory,
        name,
        flags,
        StatxFlags::BASIC_STATS | StatxFlags::BTIME,
    )
}

/// A place at which a file is no more makes its inode stale.
fn gone(errno: Errno, inode: Inode) -> crate::error::Error {
    match errno {
        Errno::NOENT | Errno::NOTDIR => errors::stale(inode),
        _ => errors::inode(errno, "reach", inode),
    }
}
