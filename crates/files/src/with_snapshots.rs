//! A file system whose root has a directory of its snapshots.
//!
//! *Scope*: which inode numbers the files of snapshots have; when a snapshot appears and vanishes.
//!
//! *Must not depend on*: mounts, how the store keeps files.
//!
//! The directory `.snapshots` is found by its name and not listed, so that programs that walk the
//! tree do not walk all snapshots as well. If the root has an entry of this name, that entry is
//! found instead.
//!
//! Inode numbers of the file system are as they are, below 2⁴⁸. Others are as follows. Numbers from
//! 2⁶² on are left to overlays over a mount of such a view.
//!
//! ```text
//! BITS    MEANING
//! 61      set
//! 48–60   number of the snapshot in this view, from 1 on; 0 for the directory of all snapshots
//!  0–47   number of the inode in the snapshot
//! ```
//!
//! Invariants:
//!
//! - **N1** A number of a snapshot is given once in the life of a view. A snapshot that is removed
//!   and created again is another one.

use crate::contract::{ChangeListener, FileSystem};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Files, FilesSnapshot};
use crate::types::{
    AllocateMode, AttributeChange, Attributes, DirectoryEntry, FileKind, Inode, NewNode, RenameMode,
    SeekTarget, SetMode, SpaceStatistics, WritePosition,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name of the directory of snapshots in the root.
pub const SNAPSHOTS_NAME: &[u8] = b".snapshots";

const NUMBER_BITS: u32 = 48;
const MOST_NUMBER: u64 = (1 << NUMBER_BITS) - 1;
const MARK: u64 = 1 << 61;
const MOST_SNAPSHOTS: u64 = (1 << 13) - 1;
/// Bytes that are copied together.
const BYTES_AT_ONCE: u64 = 1 << 20;

/// The directory of all snapshots, to which listeners are told that snapshots come and go.
pub(crate) const SNAPSHOTS_DIRECTORY: Inode = Inode(MARK);

/// The newest state of a file system, with its snapshots in the directory `.snapshots` of the root.
///
/// ```
/// use alluvium_files::{ErrorKind, FilePaths, Files, FilesWithSnapshots};
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store")).unwrap();
/// let files = Files::open(&db, "home")?;
/// files.write_file(b"/diary", b"Monday", 0o600)?;
/// files.create_snapshot("monday")?;
/// let shown = FilesWithSnapshots::new(&files);
/// shown.write_file(b"/diary", b"Tuesday", 0o600)?;
/// assert_eq!(shown.read_file(b"/.snapshots/monday/diary")?, b"Monday");
/// let error = shown.write_file(b"/.snapshots/monday/diary", b"?", 0o600).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::ReadOnly);
/// # Ok::<(), alluvium_files::Error>(())
/// ```
#[derive(Debug)]
pub struct FilesWithSnapshots {
    files: Files,
    known: Mutex<KnownSnapshots>,
}

/// The snapshots that were looked at, by the numbers that they have in the view.
#[derive(Debug, Default)]
struct KnownSnapshots {
    next: u64,
    /// How often snapshots had changed when removed ones were dropped last.
    changes: u64,
    open: BTreeMap<u64, (String, FilesSnapshot)>,
}

/// What an inode number stands for.
enum ShownInode {
    Newest(Inode),
    Directory,
    Snapshot(u64, FilesSnapshot, Inode),
}

fn changes_nothing() -> Error {
    let text =
        "snapshots cannot be changed: copy the file out of .snapshots, or use `alluvium files snapshot`";
    Error::new(ErrorKind::ReadOnly, text)
}

fn other_place() -> Error {
    let error = std::io::Error::from_raw_os_error(libc::EXDEV);
    Error::from_system(
        &error,
        "a file of a snapshot cannot get a name in the newest state: copy it",
    )
}

fn stale(inode: Inode) -> Error {
    let text = format!("inode {} belongs to a snapshot that was removed", inode.0);
    Error::new(ErrorKind::Stale, text)
}

fn number_in(snapshot: u64, inode: Inode) -> Result<Inode> {
    match inode.0 <= MOST_NUMBER {
        true => Ok(Inode(MARK | snapshot << NUMBER_BITS | inode.0)),
        false => {
            let text = format!("inode {} is too large to be shown in .snapshots", inode.0);
            Err(Error::new(ErrorKind::NotSupported, text))
        }
    }
}

fn no_directory(inode: Inode) -> Error {
    Error::new(
        ErrorKind::IsADirectory,
        format!("inode {} is a directory", inode.0),
    )
}

impl FilesWithSnapshots {
    /// Creates the view. Changes through it are not reported to its own listeners.
    #[must_use]
    pub fn new(files: &Files) -> FilesWithSnapshots {
        FilesWithSnapshots {
            files: files.another_view(),
            known: Mutex::default(),
        }
    }

    fn shown(&self, inode: Inode) -> Result<ShownInode> {
        if inode.0 & MARK == 0 {
            return Ok(ShownInode::Newest(inode));
        }
        let number = (inode.0 & !MARK) >> NUMBER_BITS;
        if number == 0 {
            return Ok(ShownInode::Directory);
        }
        let mut known = self.known.lock();
        self.drop_removed(&mut known);
        let (_, snapshot) = known.open.get(&number).ok_or_else(|| stale(inode))?;
        Ok(ShownInode::Snapshot(
            number,
            snapshot.clone(),
            Inode(inode.0 & MOST_NUMBER),
        ))
    }

    /// Forgets snapshots that were removed, so that their space can be freed.
    fn drop_removed(&self, known: &mut KnownSnapshots) {
        let changes = self.files.snapshot_changes();
        if known.changes != changes {
            known.changes = changes;
            known
                .open
                .retain(|_, (name, snapshot)| self.files.has_snapshot(name, snapshot.sequence()));
        }
    }

    /// Returns the inode of the newest state, to be changed.
    fn changeable(&self, inode: Inode) -> Result<Inode> {
        match inode.0 & MARK {
            0 => Ok(inode),
            _ => Err(changes_nothing()),
        }
    }

    /// Returns the number of a snapshot in this view.
    fn number_of(&self, name: &str) -> Result<(u64, FilesSnapshot)> {
        let snapshot = self.files.open_snapshot(name)?;
        let mut known = self.known.lock();
        self.drop_removed(&mut known);
        let same =
            |(of, open): &(String, FilesSnapshot)| of == name && open.sequence() == snapshot.sequence();
        if let Some((number, _)) = known.open.iter().find(|(_, open)| same(open)) {
            return Ok((*number, snapshot));
        }
        if known.next == MOST_SNAPSHOTS {
            let text = format!("this view has shown {MOST_SNAPSHOTS} snapshots: mount the files again");
            return Err(Error::new(ErrorKind::NotSupported, text));
        }
        known.next += 1;
        let number = known.next;
        known.open.insert(number, (name.to_owned(), snapshot.clone()));
        Ok((number, snapshot))
    }

    fn attributes_of_directory(&self) -> Result<Attributes> {
        let root = self.files.attributes(Inode::ROOT)?;
        Ok(Attributes {
            inode: SNAPSHOTS_DIRECTORY,
            mode: 0o555,
            links: 2,
            ..root
        })
    }

    fn look_up_snapshot(&self, name: &[u8]) -> Result<Attributes> {
        let found = std::str::from_utf8(name).ok();
        let found = found.filter(|name| self.files.snapshots().iter().any(|other| other == name));
        let Some(found) = found else {
            let text = format!("there is no snapshot \"{}\"", name.escape_ascii());
            return Err(Error::new(ErrorKind::NotFound, text));
        };
        let (number, snapshot) = self.number_of(found)?;
        show_number(number, snapshot.attributes(Inode::ROOT)?)
    }

    fn list_snapshots(&self, after: Option<&[u8]>, limit: usize) -> Result<Vec<DirectoryEntry>> {
        let names = self.files.snapshots();
        let rest = names
            .iter()
            .filter(|name| after.is_none_or(|after| name.as_bytes() > after))
            // Longer names cannot be names of files.
            .filter(|name| name.len() <= 255)
            .take(limit);
        rest.map(|name| {
            Ok(DirectoryEntry {
                inode: number_in(self.number_of(name)?.0, Inode::ROOT)?,
                name: name.clone().into_bytes(),
                kind: FileKind::Directory,
            })
        })
        .collect()
    }

    /// Copies between a snapshot and the newest state.
    fn copy_out(&self, from: (Inode, u64), to: (Inode, u64), length: u64) -> Result<u64> {
        let mut copied = 0;
        while copied < length {
            let count = (length - copied).min(BYTES_AT_ONCE) as usize;
            let data = self.read(from.0, from.1.saturating_add(copied), count)?;
            if data.is_empty() {
                break;
            }
            let position = WritePosition::At(to.1.saturating_add(copied));
            self.files.write(to.0, position, &data)?;
            copied += data.len() as u64;
        }
        Ok(copied)
    }
}

fn show_number(snapshot: u64, mut attributes: Attributes) -> Result<Attributes> {
    attributes.inode = number_in(snapshot, attributes.inode)?;
    Ok(attributes)
}

impl FileSystem for FilesWithSnapshots {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        match self.shown(parent)? {
            ShownInode::Directory => self.look_up_snapshot(name),
            ShownInode::Snapshot(number, snapshot, parent) => {
                show_number(number, snapshot.lookup(parent, name)?)
            }
            ShownInode::Newest(parent) => match self.files.lookup(parent, name) {
                Err(error)
                    if error.kind() == ErrorKind::NotFound
                        && parent == Inode::ROOT
                        && name == SNAPSHOTS_NAME =>
                {
                    self.attributes_of_directory()
                }
                found => found,
            },
        }
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        match self.shown(inode)? {
            ShownInode::Newest(inode) => self.files.attributes(inode),
            ShownInode::Directory => self.attributes_of_directory(),
            ShownInode::Snapshot(number, snapshot, inode) => show_number(number, snapshot.attributes(inode)?),
        }
    }

    fn parent(&self, directory: Inode) -> Result<Inode> {
        match self.shown(directory)? {
            ShownInode::Newest(directory) => self.files.parent(directory),
            ShownInode::Directory => Ok(Inode::ROOT),
            ShownInode::Snapshot(_, _, Inode::ROOT) => Ok(SNAPSHOTS_DIRECTORY),
            ShownInode::Snapshot(number, snapshot, directory) => {
                number_in(number, snapshot.parent(directory)?)
            }
        }
    }

    fn set_attributes(&self, inode: Inode, change: &AttributeChange) -> Result<Attributes> {
        self.files.set_attributes(self.changeable(inode)?, change)
    }

    fn create(&self, parent: Inode, name: &[u8], node: &NewNode<'_>) -> Result<Attributes> {
        self.files.create(self.changeable(parent)?, name, node)
    }

    fn create_unnamed(&self, parent: Inode, node: &NewNode<'_>) -> Result<Attributes> {
        self.files.create_unnamed(self.changeable(parent)?, node)
    }

    fn link(&self, inode: Inode, parent: Inode, name: &[u8]) -> Result<Attributes> {
        let parent = self.changeable(parent)?;
        if inode.0 & MARK != 0 {
            return Err(other_place());
        }
        self.files.link(inode, parent, name)
    }

    fn unlink(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.files.unlink(self.changeable(parent)?, name)
    }

    fn remove_directory(&self, parent: Inode, name: &[u8]) -> Result<()> {
        match self.files.remove_directory(self.changeable(parent)?, name) {
            Err(error)
                if error.kind() == ErrorKind::NotFound && parent == Inode::ROOT && name == SNAPSHOTS_NAME =>
            {
                Err(changes_nothing())
            }
            removed => removed,
        }
    }

    fn rename(
        &self,
        parent: Inode,
        name: &[u8],
        new_parent: Inode,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        if parent.0 & MARK != new_parent.0 & MARK {
            return Err(other_place());
        }
        let (parent, new_parent) = (self.changeable(parent)?, self.changeable(new_parent)?);
        match self.files.rename(parent, name, new_parent, new_name, mode) {
            Err(error)
                if error.kind() == ErrorKind::NotFound && parent == Inode::ROOT && name == SNAPSHOTS_NAME =>
            {
                Err(changes_nothing())
            }
            renamed => renamed,
        }
    }

    fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
        match self.shown(inode)? {
            ShownInode::Newest(inode) => self.files.read_link(inode),
            ShownInode::Directory => self.files.read_link(Inode::ROOT),
            ShownInode::Snapshot(_, snapshot, inode) => snapshot.read_link(inode),
        }
    }

    fn hold(&self, inode: Inode) -> Result<()> {
        match self.shown(inode)? {
            ShownInode::Newest(inode) => self.files.hold(inode),
            ShownInode::Directory => Ok(()),
            ShownInode::Snapshot(_, snapshot, inode) => snapshot.hold(inode),
        }
    }

    /// Nothing is held in a snapshot, which may have been removed.
    fn release(&self, inode: Inode) -> Result<()> {
        match inode.0 & MARK {
            0 => self.files.release(inode),
            _ => Ok(()),
        }
    }

    fn read(&self, inode: Inode, offset: u64, length: usize) -> Result<Vec<u8>> {
        match self.shown(inode)? {
            ShownInode::Newest(inode) => self.files.read(inode, offset, length),
            ShownInode::Directory => Err(no_directory(inode)),
            ShownInode::Snapshot(_, snapshot, inode) => snapshot.read(inode, offset, length),
        }
    }

    fn write(&self, inode: Inode, position: WritePosition, data: &[u8]) -> Result<u64> {
        self.files.write(self.changeable(inode)?, position, data)
    }

    fn allocate(&self, inode: Inode, mode: AllocateMode, offset: u64, length: u64) -> Result<()> {
        self.files.allocate(self.changeable(inode)?, mode, offset, length)
    }

    fn seek(&self, inode: Inode, offset: u64, target: SeekTarget) -> Result<u64> {
        match self.shown(inode)? {
            ShownInode::Newest(inode) => self.files.seek(inode, offset, target),
            ShownInode::Directory => Err(no_directory(inode)),
            ShownInode::Snapshot(_, snapshot, inode) => snapshot.seek(inode, offset, target),
        }
    }

    fn copy_range(
        &self,
        from: Inode,
        from_offset: u64,
        to: Inode,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let to = self.changeable(to)?;
        match from.0 & MARK {
            0 => self.files.copy_range(from, from_offset, to, to_offset, length),
            _ => self.copy_out((from, from_offset), (to, to_offset), length),
        }
    }

    fn read_directory(
        &self,
        directory: Inode,
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<DirectoryEntry>> {
        match self.shown(directory)? {
            ShownInode::Newest(directory) => self.files.read_directory(directory, after, limit),
            ShownInode::Directory => self.list_snapshots(after, limit),
            ShownInode::Snapshot(number, snapshot, directory) => {
                let mut entries = snapshot.read_directory(directory, after, limit)?;
                for entry in &mut entries {
                    entry.inode = number_in(number, entry.inode)?;
                }
                Ok(entries)
            }
        }
    }

    fn extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<Vec<u8>> {
        match self.shown(inode)? {
            ShownInode::Newest(inode) => self.files.extended_attribute(inode, name),
            ShownInode::Directory => {
                let text = "the directory of snapshots has no extended attributes";
                Err(Error::new(ErrorKind::NoAttribute, text))
            }
            ShownInode::Snapshot(_, snapshot, inode) => snapshot.extended_attribute(inode, name),
        }
    }

    fn extended_attributes(&self, inode: Inode) -> Result<Vec<Vec<u8>>> {
        match self.shown(inode)? {
            ShownInode::Newest(inode) => self.files.extended_attributes(inode),
            ShownInode::Directory => Ok(Vec::new()),
            ShownInode::Snapshot(_, snapshot, inode) => snapshot.extended_attributes(inode),
        }
    }

    fn set_extended_attribute(&self, inode: Inode, name: &[u8], value: &[u8], mode: SetMode) -> Result<()> {
        let inode = self.changeable(inode)?;
        self.files.set_extended_attribute(inode, name, value, mode)
    }

    fn remove_extended_attribute(&self, inode: Inode, name: &[u8]) -> Result<()> {
        self.files
            .remove_extended_attribute(self.changeable(inode)?, name)
    }

    fn sync(&self) -> Result<()> {
        self.files.sync()
    }

    fn space(&self) -> Result<SpaceStatistics> {
        self.files.space()
    }

    fn require_writable(&self, inode: Inode) -> Result<()> {
        self.changeable(inode).map(drop)
    }

    fn listen(&self, listener: Arc<dyn ChangeListener>) {
        self.files.listen(listener);
    }
}
