//! The operations on files, written once for single operations, transactions and snapshots.
//!
//! *Scope*: which records an operation reads and writes, and on which of them it depends.
//!
//! *Must not depend on*: when transactions begin and commit, and who holds inodes.
//!
//! Invariants:
//!
//! - **O1** An operation that changes files reads everything that decides its outcome with
//!   `Shared` or `Update`, so that the invariants of the file system hold at every isolation level.
//! - **O2** No block lies at or beyond the end of its file, and a stored block is not longer than
//!   the part of it before that end.
//! - **O3** Counts and times of directories are only merged or read untracked.

mod allocate;
mod attributes;
mod block_streams;
mod compression;
mod contents;
mod copy;
mod create;
mod extended;
mod read;
mod remove;
mod rename;
mod streams;

pub use compression::COMPRESSION_ATTRIBUTE;
pub(crate) use streams::FileStreams;

use crate::error::{Error, ErrorKind, Result};
use crate::records::format::{self, DamagedRecord, InodeRecord};
use crate::records::{ReadDependence, ReadRecords, RecordSpace, WriteRecords};
use crate::types::{ContentOrder, FileKind, Inode, Timestamp};
use std::cell::RefCell;

/// Largest size of a file, in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// Longest target of a symbolic link, in bytes.
const MAX_TARGET_BYTES: usize = 4095;

/// Most names of an inode.
const MAX_LINKS: u32 = i32::MAX as u32;

/// What a file system was created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileLayout {
    pub(crate) block_bytes: u64,
    pub(crate) inline_bytes: u64,
    pub(crate) order: ContentOrder,
}

/// What an operation needs to know about the file system apart from its records.
pub(crate) trait OperationContext {
    fn layout(&self) -> FileLayout;
    fn now(&self) -> Timestamp;
    fn generation(&self) -> u64;
    /// Returns a number that has never been used, for an inode that is created in a directory.
    fn next_inode(&self, directory: Inode) -> Result<Inode>;
    /// Returns whether an inode whose last name is removed must be kept as an orphan.
    fn must_keep(&self, inode: Inode) -> bool;
    /// Returns whether a change of a directory's names is noted in its times.
    fn notes_change(&self, directory: Inode) -> bool;
}

/// What operations have changed.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog {
    pub(crate) names: Vec<(Inode, Vec<u8>)>,
    pub(crate) inodes: Vec<Inode>,
    pub(crate) created: Vec<Inode>,
    /// Inodes that have become orphans.
    pub(crate) orphaned: Vec<Inode>,
    /// Orphans that have got a name, or were removed.
    pub(crate) adopted: Vec<Inode>,
}

/// Operations that change nothing.
pub(crate) struct FileReader<'o> {
    pub(crate) records: &'o dyn ReadRecords,
    pub(crate) block_bytes: u64,
    /// Where files that are read in order are noted, if the reader reads ahead.
    pub(crate) streams: Option<&'o FileStreams>,
}

/// Operations that change files.
pub(crate) struct FileWriter<'o> {
    pub(crate) records: &'o dyn WriteRecords,
    pub(crate) context: &'o dyn OperationContext,
    pub(crate) changes: RefCell<ChangeLog>,
}

/// Returns an error unless `name` can be a name in a directory.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > format::MAX_NAME {
        let message = format!(
            "the name \"{}\" has {} bytes: at most {} are possible",
            name.escape_ascii(),
            name.len(),
            format::MAX_NAME
        );
        return Err(Error::new(ErrorKind::NameTooLong, message));
    }
    if name.is_empty() || name == b"." || name == b".." || name.iter().any(|byte| [0, b'/'].contains(byte)) {
        let message = format!("\"{}\" cannot be the name of a file", name.escape_ascii());
        return Err(Error::new(ErrorKind::InvalidArgument, message));
    }
    Ok(())
}

/// Returns the error for a damaged record.
pub(crate) fn damaged(space: RecordSpace, key: &[u8], damage: DamagedRecord) -> Error {
    let message = format!(
        "the record \"{}\" of {} {}: run `alluvium files check`, and restore a backup",
        key.escape_ascii(),
        space.suffix(),
        damage.what
    );
    Error::new(ErrorKind::Damaged, message)
}

pub(crate) fn not_found(parent: Inode, name: &[u8]) -> Error {
    let message = format!("directory {} has no \"{}\"", parent.0, name.escape_ascii());
    Error::new(ErrorKind::NotFound, message)
}

fn exists(parent: Inode, name: &[u8]) -> Error {
    let message = format!("directory {} has a \"{}\" already", parent.0, name.escape_ascii());
    Error::new(ErrorKind::Exists, message)
}

fn not_a_directory(inode: Inode) -> Error {
    Error::new(
        ErrorKind::NotADirectory,
        format!("inode {} is no directory", inode.0),
    )
}

fn is_a_directory(inode: Inode) -> Error {
    Error::new(
        ErrorKind::IsADirectory,
        format!("inode {} is a directory", inode.0),
    )
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

fn too_large(inode: Inode) -> Error {
    let message = format!("inode {} would exceed {MAX_FILE_BYTES} bytes", inode.0);
    Error::new(ErrorKind::TooLarge, message)
}

impl FileReader<'_> {
    /// Returns the record of an inode.
    pub(crate) fn load(&self, inode: Inode, depends: ReadDependence) -> Result<InodeRecord> {
        let key = format::inode_key(inode);
        let Some(value) = self.records.get(RecordSpace::Inodes, &key, depends)? else {
            let message = format!("inode {} does not exist any more", inode.0);
            return Err(Error::new(ErrorKind::Stale, message));
        };
        InodeRecord::decode(&value).map_err(|damage| damaged(RecordSpace::Inodes, &key, damage))
    }

    pub(crate) fn load_directory(&self, inode: Inode, depends: ReadDependence) -> Result<InodeRecord> {
        let record = self.load(inode, depends)?;
        match record.kind {
            FileKind::Directory => Ok(record),
            _ => Err(not_a_directory(inode)),
        }
    }

    /// Returns the inode to which a name refers, if there is one.
    pub(crate) fn entry(
        &self,
        parent: Inode,
        name: &[u8],
        depends: ReadDependence,
    ) -> Result<Option<(Inode, FileKind)>> {
        let key = format::name_key(parent, name);
        let Some(value) = self.records.get(RecordSpace::Names, &key, depends)? else {
            return Ok(None);
        };
        let entry = format::decode_entry(&value);
        entry
            .map(Some)
            .map_err(|damage| damaged(RecordSpace::Names, &key, damage))
    }
}

impl<'o> FileWriter<'o> {
    pub(crate) fn new(records: &'o dyn WriteRecords, context: &'o dyn OperationContext) -> FileWriter<'o> {
        FileWriter {
            records,
            context,
            changes: RefCell::new(ChangeLog::default()),
        }
    }

    /// Returns the operations that read the same records.
    pub(crate) fn reader(&self) -> FileReader<'o> {
        FileReader {
            records: self.records,
            block_bytes: self.context.layout().block_bytes,
            streams: None,
        }
    }

    /// Writes the record of an inode.
    fn save(&self, inode: Inode, record: &InodeRecord) -> Result<()> {
        let key = format::inode_key(inode);
        self.records.put(RecordSpace::Inodes, &key, &record.encode())?;
        self.changes.borrow_mut().inodes.push(inode);
        Ok(())
    }

    /// Returns the record of a directory that still exists, in which a name is to be created.
    fn load_living_directory(&self, directory: Inode) -> Result<InodeRecord> {
        let record = self.reader().load_directory(directory, ReadDependence::Shared)?;
        if record.links == 0 {
            let message = format!("directory {} has been removed", directory.0);
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Ok(record)
    }

    /// Returns the inode to which a name refers that the operation will change.
    fn entry_to_change(&self, parent: Inode, name: &[u8]) -> Result<Option<(Inode, FileKind)>> {
        self.reader().entry(parent, name, ReadDependence::Update)
    }

    /// Like [`FileWriter::entry_to_change`], for a name that must exist.
    fn existing_entry(&self, parent: Inode, name: &[u8]) -> Result<(Inode, FileKind)> {
        match self.entry_to_change(parent, name)? {
            Some(entry) => Ok(entry),
            None => {
                self.load_living_directory(parent)?;
                Err(not_found(parent, name))
            }
        }
    }

    fn put_entry(&self, parent: Inode, name: &[u8], inode: Inode, kind: FileKind) -> Result<()> {
        let key = format::name_key(parent, name);
        self.records
            .put(RecordSpace::Names, &key, &format::entry(inode, kind))?;
        self.changes.borrow_mut().names.push((parent, name.to_vec()));
        Ok(())
    }

    fn delete_entry(&self, parent: Inode, name: &[u8]) -> Result<()> {
        self.records
            .delete(RecordSpace::Names, &format::name_key(parent, name))?;
        self.changes.borrow_mut().names.push((parent, name.to_vec()));
        Ok(())
    }

    /// Notes that the names of a directory have changed.
    fn touch_directory(&self, directory: Inode) -> Result<()> {
        self.changes.borrow_mut().inodes.push(directory);
        if !self.context.notes_change(directory) {
            return Ok(());
        }
        self.note_time(directory, format::MODIFIED)?;
        self.note_time(directory, format::CHANGED)
    }

    /// Sets a time of a directory to now, unless it is later.
    fn note_time(&self, directory: Inode, which: u8) -> Result<()> {
        let (key, now) = (
            format::time_key(directory, which),
            format::ordered_time(self.context.now()),
        );
        self.records.merge(RecordSpace::Times, &key, &now)?;
        self.changes.borrow_mut().inodes.push(directory);
        Ok(())
    }

    /// Adds to the number of a directory's subdirectories.
    fn count_subdirectories(&self, directory: Inode, difference: i64) -> Result<()> {
        let (key, count) = (format::inode_key(directory), format::count(difference));
        self.records.merge(RecordSpace::Counts, &key, &count)
    }
}
