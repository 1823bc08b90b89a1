//! The records that a branch sees: those that it began with, and its own changes of them.
//!
//! *Scope*: reading and writing single records of a branch.
//!
//! *Must not depend on*: when a branch begins and ends, and what operations on files do.
//!
//! Invariants:
//!
//! - **B1** What a branch began with does not change while the branch exists.
//! - **B2** A branch has a record of its own for each record of names, inodes, attributes and
//!   places that it has changed, and for each record and range on which an operation of it
//!   depends. The commit compares all of these with what the branch began with.

pub(crate) mod format;
mod merge;
#[cfg(test)]
mod tests;
mod walk;

use super::in_transaction::bounds;
use super::keyspaces::FileKeyspaces;
use super::{
    ReadDependence, ReadRecords, RecordSpace, RecordValue, RecordVisitor, SnapshotRecords, WalkedValues,
    WriteRecords,
};
use crate::error::{Error, ErrorKind, Result};
use alluvium::{Keyspace, Snapshot, Transaction, Value};
use format::{BranchNumber, BranchRecordKind};
use walk::RecordStream;

/// The keyspaces that a branch reads.
#[derive(Clone, Debug)]
pub(crate) struct BranchKeyspaces {
    /// Those of the file system.
    pub(crate) files: FileKeyspaces,
    /// The keyspace of all branches of the file system.
    pub(crate) branches: Keyspace,
}

/// What a branch began with.
#[derive(Clone)]
pub(crate) struct BranchBase {
    pub(crate) snapshot: Snapshot,
    /// The branch of which it is a branch, and what the parent began with.
    pub(crate) parent: Option<Box<(BranchNumber, BranchBase)>>,
}

/// Where the records of a branch itself are read.
#[derive(Clone, Copy)]
enum OwnRecords<'r> {
    Snapshot(&'r Snapshot),
    Transaction(&'r Transaction),
}

/// The records that a branch sees.
pub(crate) struct BranchRecords<'r> {
    own: OwnRecords<'r>,
    spaces: &'r BranchKeyspaces,
    number: BranchNumber,
    base: &'r BranchBase,
}

pub(crate) fn damaged_branch(key: &[u8], damage: super::format::DamagedRecord) -> Error {
    let message = format!(
        "the record \"{}\" of branches {}: run `alluvium files check`, and abort the branch",
        key.escape_ascii(),
        damage.what
    );
    Error::new(ErrorKind::Damaged, message)
}

impl BranchBase {
    /// Returns a record as of the beginning of the branch.
    pub(crate) fn get(
        &self,
        spaces: &BranchKeyspaces,
        space: RecordSpace,
        key: &[u8],
    ) -> Result<Option<RecordValue>> {
        match &self.parent {
            None => {
                SnapshotRecords::new(&self.snapshot, &spaces.files).get(space, key, ReadDependence::Untracked)
            }
            Some(parent) => self
                .parent_records(spaces, parent)
                .get(space, key, ReadDependence::Untracked),
        }
    }

    fn parent_records<'r>(
        &'r self,
        spaces: &'r BranchKeyspaces,
        parent: &'r (BranchNumber, BranchBase),
    ) -> BranchRecords<'r> {
        BranchRecords::in_snapshot(&self.snapshot, spaces, parent.0, &parent.1)
    }

    fn get_many(
        &self,
        spaces: &BranchKeyspaces,
        space: RecordSpace,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<RecordValue>>> {
        match &self.parent {
            None => SnapshotRecords::new(&self.snapshot, &spaces.files).get_many(space, keys),
            Some(parent) => self.parent_records(spaces, parent).get_many(space, keys),
        }
    }

    fn stream<'r>(
        &'r self,
        spaces: &'r BranchKeyspaces,
        (space, low, high): (RecordSpace, &[u8], Option<&[u8]>),
        values: WalkedValues,
    ) -> RecordStream<'r> {
        match &self.parent {
            None => {
                let keyspace = spaces.files.of(space);
                let mut records = self.snapshot.range::<&[u8]>(keyspace, bounds(low, high));
                if values == WalkedValues::Short {
                    records = records.without_long_values();
                }
                RecordStream::stored(records)
            }
            Some(parent) => self
                .parent_records(spaces, parent)
                .stream((space, low, high), values),
        }
    }
}

/// The records that a branch began with.
pub(crate) struct BaseRecords<'b> {
    pub(crate) base: &'b BranchBase,
    pub(crate) spaces: &'b BranchKeyspaces,
}

impl ReadRecords for BaseRecords<'_> {
    fn get(&self, space: RecordSpace, key: &[u8], _depends: ReadDependence) -> Result<Option<RecordValue>> {
        self.base.get(self.spaces, space, key)
    }

    fn get_many(&self, space: RecordSpace, keys: &[Vec<u8>]) -> Result<Vec<Option<RecordValue>>> {
        self.base.get_many(self.spaces, space, keys)
    }

    fn walk(
        &self,
        space: RecordSpace,
        low: &[u8],
        high: Option<&[u8]>,
        values: WalkedValues,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<()> {
        self.base
            .stream(self.spaces, (space, low, high), values)
            .visit(visit)
    }
}

impl<'r> BranchRecords<'r> {
    /// Returns the records of a branch as of a commit.
    pub(crate) fn in_snapshot(
        snapshot: &'r Snapshot,
        spaces: &'r BranchKeyspaces,
        number: BranchNumber,
        base: &'r BranchBase,
    ) -> BranchRecords<'r> {
        BranchRecords {
            own: OwnRecords::Snapshot(snapshot),
            spaces,
            number,
            base,
        }
    }

    fn read_own(&self, key: &[u8], depends: ReadDependence) -> Result<Option<Value>> {
        let branches = &self.spaces.branches;
        Ok(match (self.own, depends) {
            (OwnRecords::Snapshot(snapshot), _) => snapshot.get(branches, key),
            (OwnRecords::Transaction(own), ReadDependence::Untracked) => own.get_untracked(branches, key),
            (OwnRecords::Transaction(own), ReadDependence::Isolated) => own.get(branches, key),
            (OwnRecords::Transaction(own), ReadDependence::Shared) => own.get_shared(branches, key),
            (OwnRecords::Transaction(own), ReadDependence::Update) => own.get_for_update(branches, key),
        }?)
    }

    /// Returns what the branch has of a record.
    fn own(
        &self,
        space: RecordSpace,
        key: &[u8],
        depends: ReadDependence,
    ) -> Result<Option<(BranchRecordKind, RecordValue)>> {
        let own_key = format::record_key(self.number, space, key);
        let Some(value) = self.read_own(&own_key, depends)? else {
            return Ok(None);
        };
        let kind = format::decode_kind(&value).map_err(|damage| damaged_branch(&own_key, damage))?;
        Ok(Some((kind, RecordValue::after(value, format::MARK_BYTES))))
    }

    fn base(&self, space: RecordSpace, key: &[u8]) -> Result<Option<RecordValue>> {
        self.base.get(self.spaces, space, key)
    }

    fn stream(
        &self,
        (space, low, high): (RecordSpace, &[u8], Option<&[u8]>),
        values: WalkedValues,
    ) -> RecordStream<'r> {
        let first = format::record_key(self.number, space, low);
        let end = match high {
            Some(high) => format::record_key(self.number, space, high),
            None => format::records_end(self.number, space),
        };
        let (range, branches) = (bounds(&first, Some(&end)), &self.spaces.branches);
        let own = match self.own {
            OwnRecords::Snapshot(snapshot) => {
                let records = snapshot.range::<&[u8]>(branches, range);
                match values {
                    WalkedValues::Short => RecordStream::stored(records.without_long_values()),
                    WalkedValues::All | WalkedValues::About(_) => RecordStream::stored(records),
                }
            }
            OwnRecords::Transaction(transaction) => {
                let records = transaction.range::<&[u8]>(branches, range);
                match values {
                    WalkedValues::Short => RecordStream::stored(records.without_long_values()),
                    WalkedValues::All | WalkedValues::About(_) => RecordStream::stored(records),
                }
            }
        };
        RecordStream::layered(
            space,
            own,
            self.base.stream(self.spaces, (space, low, high), values),
        )
    }
}

impl ReadRecords for BranchRecords<'_> {
    fn get(&self, space: RecordSpace, key: &[u8], depends: ReadDependence) -> Result<Option<RecordValue>> {
        let own = self.own(space, key, depends)?;
        merge::resolve(space, own, || self.base(space, key))
    }

    fn get_many(&self, space: RecordSpace, keys: &[Vec<u8>]) -> Result<Vec<Option<RecordValue>>> {
        let mut found = Vec::with_capacity(keys.len());
        let (mut missing, mut places) = (Vec::new(), Vec::new());
        for key in keys {
            match self.own(space, key, ReadDependence::Untracked)? {
                None => {
                    places.push(found.len());
                    missing.push(key.clone());
                    found.push(None);
                }
                own => found.push(merge::resolve(space, own, || self.base(space, key))?),
            }
        }
        let below = self.base.get_many(self.spaces, space, &missing)?;
        for (place, value) in places.into_iter().zip(below) {
            found[place] = value;
        }
        Ok(found)
    }

    fn walk(
        &self,
        space: RecordSpace,
        low: &[u8],
        high: Option<&[u8]>,
        values: WalkedValues,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<()> {
        self.stream((space, low, high), values).visit(visit)
    }
}

/// The records that a transaction in a branch sees and changes.
pub(crate) struct BranchWriter<'t> {
    transaction: &'t Transaction,
    records: BranchRecords<'t>,
}

impl<'t> BranchWriter<'t> {
    pub(crate) fn new(
        transaction: &'t Transaction,
        spaces: &'t BranchKeyspaces,
        number: BranchNumber,
        base: &'t BranchBase,
    ) -> BranchWriter<'t> {
        BranchWriter {
            transaction,
            records: BranchRecords {
                own: OwnRecords::Transaction(transaction),
                spaces,
                number,
                base,
            },
        }
    }

    fn put_own(&self, own_key: &[u8], kind: BranchRecordKind, value: &[u8]) -> Result<()> {
        let branches = &self.records.spaces.branches;
        let encoded = format::encode_record(kind, value);
        Ok(self.transaction.put(branches, own_key, encoded)?)
    }

    fn own_key(&self, space: RecordSpace, key: &[u8]) -> Vec<u8> {
        format::record_key(self.records.number, space, key)
    }
}

impl ReadRecords for BranchWriter<'_> {
    fn get(&self, space: RecordSpace, key: &[u8], depends: ReadDependence) -> Result<Option<RecordValue>> {
        let own = self.records.own(space, key, depends)?;
        let is_lasting = matches!(depends, ReadDependence::Shared | ReadDependence::Update);
        if own.is_none() && is_lasting {
            self.put_own(&self.own_key(space, key), BranchRecordKind::Depended, b"")?;
        }
        merge::resolve(space, own, || self.records.base(space, key))
    }

    fn get_many(&self, space: RecordSpace, keys: &[Vec<u8>]) -> Result<Vec<Option<RecordValue>>> {
        self.records.get_many(space, keys)
    }

    fn walk(
        &self,
        space: RecordSpace,
        low: &[u8],
        high: Option<&[u8]>,
        values: WalkedValues,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<()> {
        self.records.walk(space, low, high, values, visit)
    }
}

impl WriteRecords for BranchWriter<'_> {
    fn put(&self, space: RecordSpace, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_own(&self.own_key(space, key), BranchRecordKind::Written, value)
    }

    fn merge(&self, space: RecordSpace, key: &[u8], operand: &[u8]) -> Result<()> {
        let own_key = self.own_key(space, key);
        let own = self.records.own(space, key, ReadDependence::Update)?;
        let is_appended = space.has_blocks();
        let (kind, value) = match own {
            Some((BranchRecordKind::Written, _)) if is_appended => {
                let branches = &self.records.spaces.branches;
                return Ok(self.transaction.merge(branches, own_key, operand)?);
            }
            Some((BranchRecordKind::Deleted, _)) => (BranchRecordKind::Written, operand.to_vec()),
            Some((kind @ (BranchRecordKind::Written | BranchRecordKind::Merged), value)) => {
                (kind, merge::combined(space, &value, operand)?)
            }
            _ if is_appended => {
                let below = self.records.base(space, key)?;
                let below = below.map(RecordValue::into_vec).unwrap_or_default();
                (BranchRecordKind::Written, [&below, operand].concat())
            }
            _ => (BranchRecordKind::Merged, operand.to_vec()),
        };
        self.put_own(&own_key, kind, &value)
    }

    /// A name that the branch did not begin with leaves the dependence on its absence, with which
    /// it was created. Other records without a base belong to inodes that only the branch has.
    fn delete(&self, space: RecordSpace, key: &[u8]) -> Result<()> {
        let own_key = self.own_key(space, key);
        if self.records.base(space, key)?.is_some() {
            return self.put_own(&own_key, BranchRecordKind::Deleted, b"");
        }
        if space == RecordSpace::Names {
            return self.put_own(&own_key, BranchRecordKind::Depended, b"");
        }
        Ok(self.transaction.delete(&self.records.spaces.branches, own_key)?)
    }

    fn delete_range(&self, space: RecordSpace, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let number = self.records.number;
        let end = match high {
            Some(high) => format::record_key(number, space, high),
            None => format::records_end(number, space),
        };
        let branches = &self.records.spaces.branches;
        self.transaction
            .delete_range(branches, self.own_key(space, low), Some(&end))?;
        let base = BaseRecords {
            base: self.records.base,
            spaces: self.records.spaces,
        };
        let mut result = Ok(());
        base.walk(space, low, high, WalkedValues::Short, &mut |key, _| {
            result = self.put_own(&self.own_key(space, key), BranchRecordKind::Deleted, b"");
            match result {
                Ok(()) => std::ops::ControlFlow::Continue(()),
                Err(_) => std::ops::ControlFlow::Break(()),
            }
        })?;
        result
    }

    fn depend_on_range(&self, space: RecordSpace, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let number = self.records.number;
        let first = self.own_key(space, low);
        let end = match high {
            Some(high) => format::record_key(number, space, high),
            None => format::records_end(number, space),
        };
        let branches = &self.records.spaces.branches;
        self.transaction
            .depend_on_range::<&[u8]>(branches, bounds(&first, Some(&end)))?;
        let key = format::range_key(number, space, low, high);
        Ok(self.transaction.put(branches, key, b"")?)
    }
}
