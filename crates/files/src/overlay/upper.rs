//! The layout of the upper file system, and access to its records.

use super::format::{
    self, InodeRecord, LowerIdentity, NameMarker, OverlayHeader, OverlayPhase, decode_header, decode_marker,
    decode_record, encode_header, encode_marker, encode_record, number_name,
};
use crate::contract::FileSystem;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{AttributeChange, Attributes, FileKind, Inode, NewNode, RenameMode, WritePosition};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Records in memory, beyond which they are dropped and read again.
const MOST_RECORDS: usize = 1 << 16;
/// Inode numbers that are reserved by one write of the state.
const NUMBERS_AT_ONCE: u64 = 1024;
/// Bytes of a record or of the state at most.
const MOST_RECORD_BYTES: usize = 512;
/// Entries that are read together.
pub(super) const ENTRIES_AT_ONCE: usize = 256;

/// An inode that the overlay has created or changed.
#[derive(Clone, Debug)]
pub(super) struct ChangedInode {
    /// Its inode in the upper file system, which has the attributes.
    pub(super) upper: Inode,
    pub(super) record: InodeRecord,
}

/// The directories of an overlay in its upper file system.
pub(super) struct UpperStore {
    pub(super) files: Arc<dyn FileSystem>,
    state: Inode,
    /// Dependencies, one after the other.
    pub(super) reads: Inode,
    /// Changed directories, which contain markers.
    pub(super) directories: Inode,
    /// Changed inodes of other kinds.
    pub(super) contents: Inode,
    /// Records of changed inodes.
    records: Inode,
    /// Which blocks of a file are changed.
    maps: Inode,
    /// Markers that are about to replace others.
    temporary: Inode,
    header: Mutex<UpperHeader>,
    cache: Mutex<HashMap<Inode, Option<ChangedInode>>>,
}

struct UpperHeader {
    header: OverlayHeader,
    /// Next inode number of those that are reserved.
    next: u64,
    next_temporary: u64,
}

fn plain(kind: FileKind) -> NewNode<'static> {
    NewNode {
        kind,
        mode: if kind == FileKind::Directory { 0o700 } else { 0o600 },
        user: 0,
        group: 0,
        device: 0,
        target: b"",
    }
}

impl UpperStore {
    /// Creates the layout in an empty directory. The state comes last: without it there is no
    /// overlay.
    pub(super) fn create(
        files: Arc<dyn FileSystem>,
        top: Inode,
        header: &OverlayHeader,
    ) -> Result<UpperStore> {
        for name in [&b"d"[..], b"c", b"i", b"m", b"t"] {
            files.create(top, name, &plain(FileKind::Directory))?;
        }
        files.create(top, b"reads", &plain(FileKind::Regular))?;
        let state = files.create(top, b"state.new", &plain(FileKind::Regular))?.inode;
        files.write(state, WritePosition::At(0), &encode_header(header))?;
        files.rename(top, b"state.new", top, b"state", RenameMode::Keep)?;
        UpperStore::open(files, top)
    }

    pub(super) fn open(files: Arc<dyn FileSystem>, top: Inode) -> Result<UpperStore> {
        let find = |name: &[u8]| {
            let found = files.lookup(top, name).map(|attributes| attributes.inode);
            found.map_err(|error| match error.kind() {
                ErrorKind::NotFound => Error::new(
                    ErrorKind::NotFound,
                    "there is no overlay in this directory: create one",
                ),
                _ => error,
            })
        };
        let state = find(b"state")?;
        let header = decode_header(&files.read(state, 0, MOST_RECORD_BYTES)?)?;
        let next = header.next;
        Ok(UpperStore {
            state,
            reads: find(b"reads")?,
            directories: find(b"d")?,
            contents: find(b"c")?,
            records: find(b"i")?,
            maps: find(b"m")?,
            temporary: find(b"t")?,
            header: Mutex::new(UpperHeader {
                header,
                next,
                next_temporary: 0,
            }),
            cache: Mutex::new(HashMap::new()),
            files,
        })
    }

    pub(super) fn header(&self) -> OverlayHeader {
        self.header.lock().header.clone()
    }

    /// Writes the state.
    pub(super) fn set_header(&self, change: impl FnOnce(&mut OverlayHeader)) -> Result<()> {
        let mut held = self.header.lock();
        let mut header = held.header.clone();
        change(&mut header);
        self.files
            .write(self.state, WritePosition::At(0), &encode_header(&header))?;
        held.header = header;
        Ok(())
    }

    /// Returns whether the overlay, and not the lower, has handed out an inode number.
    pub(super) fn is_new(&self, inode: Inode) -> bool {
        let first = first_number(self.header.lock().header.nesting);
        (first..first + (1 << 56)).contains(&inode.0)
    }

    /// Hands out an inode number.
    pub(super) fn take_number(&self) -> Result<Inode> {
        let mut held = self.header.lock();
        if held.next == held.header.next {
            let mut header = held.header.clone();
            header.next += NUMBERS_AT_ONCE;
            self.files
                .write(self.state, WritePosition::At(0), &encode_header(&header))?;
            held.header = header;
        }
        let number = held.next;
        held.next += 1;
        Ok(Inode(number))
    }

    /// Checks that the overlay can still be changed.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.header.lock().header.phase == OverlayPhase::Open {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ReadOnly,
            "the overlay has been committed: it cannot be changed",
        ))
    }

    /// Returns the directory in which inodes of a kind are kept.
    pub(super) fn folder(&self, kind: FileKind) -> Inode {
        if kind == FileKind::Directory {
            self.directories
        } else {
            self.contents
        }
    }

    /// Returns what the overlay has of an inode, if it has created or changed it.
    pub(super) fn changed(&self, inode: Inode) -> Result<Option<ChangedInode>> {
        if let Some(known) = self.cache.lock().get(&inode) {
            return Ok(known.clone());
        }
        let found = self.read_changed(inode)?;
        self.remember(inode, found.clone());
        Ok(found)
    }

    fn read_changed(&self, inode: Inode) -> Result<Option<ChangedInode>> {
        let name = number_name(inode);
        let Some(attributes) = absent_as_none(self.files.lookup(self.records, &name))? else {
            return Ok(None);
        };
        let record = decode_record(&self.files.read(attributes.inode, 0, MOST_RECORD_BYTES)?)?;
        let upper = self.files.lookup(self.folder(record.kind), &name)?.inode;
        Ok(Some(ChangedInode { upper, record }))
    }

    fn remember(&self, inode: Inode, found: Option<ChangedInode>) {
        let mut cache = self.cache.lock();
        if cache.len() >= MOST_RECORDS {
            cache.clear();
        }
        cache.insert(inode, found);
    }

    /// Writes the record of an inode.
    pub(super) fn put(&self, inode: Inode, changed: &ChangedInode) -> Result<()> {
        let name = number_name(inode);
        let record = match absent_as_none(self.files.lookup(self.records, &name))? {
            Some(attributes) => attributes.inode,
            None => {
                self.files
                    .create(self.records, &name, &plain(FileKind::Regular))?
                    .inode
            }
        };
        self.files
            .write(record, WritePosition::At(0), &encode_record(&changed.record))?;
        self.remember(inode, Some(changed.clone()));
        Ok(())
    }

    /// Creates the inode that keeps attributes and contents. What an interrupted operation has left
    /// under its number is removed.
    pub(super) fn create_inode(&self, inode: Inode, node: &NewNode<'_>) -> Result<Attributes> {
        let (folder, name) = (self.folder(node.kind), number_name(inode));
        match self.files.create(folder, &name, node) {
            Err(error) if error.kind() == ErrorKind::Exists => {
                if node.kind == FileKind::Directory {
                    self.files.remove_directory(folder, &name)?;
                } else {
                    self.files.unlink(folder, &name)?;
                }
                self.files.create(folder, &name, node)
            }
            other => other,
        }
    }

    /// Removes everything that the overlay has of an inode. A directory must be empty.
    pub(super) fn remove(&self, inode: Inode, kind: FileKind) -> Result<()> {
        let name = number_name(inode);
        absent_as_none(self.files.unlink(self.records, &name))?;
        self.remember(inode, None);
        if kind == FileKind::Directory {
            return self.files.remove_directory(self.directories, &name);
        }
        absent_as_none(self.files.unlink(self.maps, &name))?;
        self.files.unlink(self.contents, &name)
    }

    /// Returns the marker of a name in a changed directory.
    pub(super) fn marker(&self, directory: &ChangedInode, name: &[u8]) -> Result<Option<NameMarker>> {
        match absent_as_none(self.files.lookup(directory.upper, name))? {
            None => Ok(None),
            Some(link) => Ok(Some(decode_marker(&self.files.read_link(link.inode)?)?)),
        }
    }

    /// Sets the marker of a name, in one step also if there is one.
    pub(super) fn set_marker(&self, directory: &ChangedInode, name: &[u8], marker: NameMarker) -> Result<()> {
        let target = encode_marker(marker);
        let link = NewNode {
            target: &target,
            ..plain(FileKind::Symlink)
        };
        match self.files.create(directory.upper, name, &link) {
            Err(error) if error.kind() == ErrorKind::Exists => {}
            other => return other.map(drop),
        }
        let number = {
            let mut held = self.header.lock();
            held.next_temporary += 1;
            held.next_temporary
        };
        let temporary = number_name(Inode(number));
        absent_as_none(self.files.unlink(self.temporary, &temporary))?;
        self.files.create(self.temporary, &temporary, &link)?;
        self.files.rename(
            self.temporary,
            &temporary,
            directory.upper,
            name,
            RenameMode::Replace,
        )
    }

    /// Removes the marker of a name, if there is one.
    pub(super) fn remove_marker(&self, directory: &ChangedInode, name: &[u8]) -> Result<()> {
        absent_as_none(self.files.unlink(directory.upper, name)).map(drop)
    }

    /// Returns which of `count` blocks, beginning with the block `first`, are changed.
    pub(super) fn map(&self, inode: Inode, first: u64, count: u64) -> Result<Vec<bool>> {
        let mut blocks = vec![false; usize::try_from(count).unwrap_or(usize::MAX)];
        let Some(map) = absent_as_none(self.files.lookup(self.maps, &number_name(inode)))? else {
            return Ok(blocks);
        };
        let (from, to) = (first / 8, (first + count).div_ceil(8));
        let bytes = self.files.read(map.inode, from, (to - from) as usize)?;
        for (at, block) in blocks.iter_mut().enumerate() {
            let bit = first + at as u64 - from * 8;
            let byte = bytes.get((bit / 8) as usize).copied().unwrap_or(0);
            *block = byte >> (bit % 8) & 1 == 1;
        }
        Ok(blocks)
    }

    /// Notes that blocks are changed.
    pub(super) fn set_map(&self, inode: Inode, first: u64, count: u64) -> Result<()> {
        let name = number_name(inode);
        let map = match absent_as_none(self.files.lookup(self.maps, &name))? {
            Some(attributes) => attributes.inode,
            None => {
                self.files
                    .create(self.maps, &name, &plain(FileKind::Regular))?
                    .inode
            }
        };
        let (from, to) = (first / 8, (first + count).div_ceil(8));
        let mut bytes = self.files.read(map, from, (to - from) as usize)?;
        bytes.resize((to - from) as usize, 0);
        for bit in first - from * 8..first - from * 8 + count {
            bytes[(bit / 8) as usize] |= 1 << (bit % 8);
        }
        self.files.write(map, WritePosition::At(from), &bytes).map(drop)
    }

    /// Copies attributes, and leaves the size.
    pub(super) fn set_like(&self, upper: Inode, like: &Attributes) -> Result<()> {
        let change = AttributeChange {
            mode: (like.kind != FileKind::Symlink).then_some(like.mode),
            accessed: Some(crate::types::TimeChange::At(like.accessed)),
            modified: Some(crate::types::TimeChange::At(like.modified)),
            ..AttributeChange::default()
        };
        self.files.set_attributes(upper, &change).map(drop)
    }

    /// Calls `each` with all dependencies in the order in which they arose.
    pub(super) fn each_dependency(
        &self,
        mut each: impl FnMut(format::Dependency) -> Result<()>,
    ) -> Result<()> {
        let mut rest = Vec::new();
        let mut offset = 0;
        loop {
            let more = self.files.read(self.reads, offset, 1 << 20)?;
            offset += more.len() as u64;
            let is_end = more.is_empty();
            rest.extend_from_slice(&more);
            let mut at = 0;
            // The last one may continue in the next part.
            while at < rest.len() && (is_end || rest.len() - at > MOST_RECORD_BYTES) {
                let (dependency, length) = format::decode_dependency(rest.get(at..).unwrap_or_default())?;
                each(dependency)?;
                at += length;
            }
            rest.drain(..at);
            if is_end {
                return Ok(());
            }
        }
    }

    /// Appends a dependency.
    pub(super) fn add_dependency(&self, dependency: &format::Dependency) -> Result<()> {
        let bytes = format::encode_dependency(dependency);
        self.files.write(self.reads, WritePosition::End, &bytes).map(drop)
    }
}

/// Returns the first number that an overlay on top of `nesting` others hands out.
pub(super) fn first_number(nesting: u8) -> u64 {
    (1 << 62) | u64::from(nesting) << 56
}

/// Turns the error that there is no such name into `None`.
pub(super) fn absent_as_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the inode of the lower that a dependency names, and its place: directory and name. The
/// root has none.
pub(super) fn place_of(dependency: &format::Dependency) -> Option<(LowerIdentity, (Inode, &[u8]))> {
    match dependency {
        format::Dependency::Name {
            directory,
            name,
            found: Some(found),
        } if found.inode != Inode::ROOT => Some((*found, (*directory, name))),
        _ => None,
    }
}
