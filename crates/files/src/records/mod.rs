//! The records of a file system: their encoding, the keyspaces that contain them, and access to
//! them in a transaction or a snapshot.
//!
//! *Scope*: reading and writing single records.
//!
//! *Must not depend on*: what operations on files do with the records.

pub(crate) mod branch;
pub(crate) mod format;
mod in_snapshot;
mod in_transaction;
mod keyspaces;
pub(crate) mod locality;

#[cfg(test)]
mod tests;

pub(crate) use in_snapshot::SnapshotRecords;
pub(crate) use in_transaction::TransactionRecords;
pub(crate) use keyspaces::{BRANCHES, FileKeyspaces, KEYSPACE_PREFIX, branches_keyspace_name, keyspace_name};

use crate::error::Result;
use alluvium::Value;
use std::ops::{ControlFlow, Deref};

/// A keyspace of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RecordSpace {
    /// Names in directories.
    Names,
    /// Attributes and small contents of inodes.
    Inodes,
    /// Blocks of contents.
    Blocks,
    /// Numbers of subdirectories, to which transactions add without conflicts.
    Counts,
    /// Times of directories, of which the latest remains.
    Times,
    /// Extended attributes.
    Extended,
    /// The header, the inode numbers handed out, orphans, and the parents of directories.
    System,
    /// Blocks of contents that are compressed.
    Compressed,
}

impl RecordSpace {
    pub(crate) const ALL: [RecordSpace; 8] = [
        RecordSpace::Names,
        RecordSpace::Inodes,
        RecordSpace::Blocks,
        RecordSpace::Counts,
        RecordSpace::Times,
        RecordSpace::Extended,
        RecordSpace::System,
        RecordSpace::Compressed,
    ];

    /// Returns whether it has blocks of contents.
    pub(crate) fn has_blocks(self) -> bool {
        matches!(self, RecordSpace::Blocks | RecordSpace::Compressed)
    }

    /// Returns the last part of the keyspace's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            RecordSpace::Names => "names",
            RecordSpace::Inodes => "inodes",
            RecordSpace::Blocks => "blocks",
            RecordSpace::Counts => "counts",
            RecordSpace::Times => "times",
            RecordSpace::Extended => "attributes",
            RecordSpace::System => "system",
            RecordSpace::Compressed => "compressed",
        }
    }
}

/// How far a transaction depends on a record that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadDependence {
    /// Not at all.
    Untracked,
    /// As its isolation level requires.
    Isolated,
    /// At every isolation level: the commit conflicts if another has changed the record.
    Shared,
    /// Like `Shared`, and the transaction will write the record.
    Update,
}

/// The value of a record.
#[derive(Clone, Debug)]
pub(crate) enum RecordValue {
    /// A value of the store from this offset on.
    Stored(Value, usize),
    /// A value that no record of the store has.
    Computed(Vec<u8>),
}

impl RecordValue {
    /// Returns a value of the store without its first bytes.
    pub(crate) fn after(value: Value, offset: usize) -> RecordValue {
        RecordValue::Stored(value, offset)
    }

    /// Returns the value without its first bytes.
    fn skip(self, bytes: usize) -> RecordValue {
        match self {
            RecordValue::Stored(value, offset) => RecordValue::Stored(value, offset + bytes),
            RecordValue::Computed(value) => {
                RecordValue::Computed(value.get(bytes..).unwrap_or_default().to_vec())
            }
        }
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        match self {
            RecordValue::Stored(value, 0) => value.into_vec(),
            RecordValue::Computed(value) => value,
            RecordValue::Stored(..) => self.to_vec(),
        }
    }
}

impl Deref for RecordValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            RecordValue::Stored(value, offset) => value.get(*offset..).unwrap_or_default(),
            RecordValue::Computed(value) => value,
        }
    }
}

/// Which values a walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkedValues {
    All,
    /// All, of which about this many bytes will be visited.
    About(usize),
    /// Long ones may be left out: they are empty.
    Short,
}

/// Receives records in order, each with its key, until it breaks.
pub(crate) type RecordVisitor<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// Read access to the records of a file system.
pub(crate) trait ReadRecords {
    fn get(&self, space: RecordSpace, key: &[u8], depends: ReadDependence) -> Result<Option<RecordValue>>;

    /// Returns several records, on which a transaction does not depend.
    fn get_many(&self, space: RecordSpace, keys: &[Vec<u8>]) -> Result<Vec<Option<RecordValue>>>;

    /// Visits the records from `low` to before `high` in order, until `visit` breaks.
    fn walk(
        &self,
        space: RecordSpace,
        low: &[u8],
        high: Option<&[u8]>,
        values: WalkedValues,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<()>;
}

/// Write access to the records of a file system.
pub(crate) trait WriteRecords: ReadRecords {
    fn put(&self, space: RecordSpace, key: &[u8], value: &[u8]) -> Result<()>;
    fn merge(&self, space: RecordSpace, key: &[u8], operand: &[u8]) -> Result<()>;
    fn delete(&self, space: RecordSpace, key: &[u8]) -> Result<()>;
    fn delete_range(&self, space: RecordSpace, low: &[u8], high: Option<&[u8]>) -> Result<()>;

    /// Makes the transaction conflict with every other that writes in a range.
    fn depend_on_range(&self, space: RecordSpace, low: &[u8], high: Option<&[u8]>) -> Result<()>;
}
