//! The uncommitted writes of a transaction to hashed records.
//!
//! The writes are sorted by record key, like ordered records. An iterator merges them with the
//! stored records, and the commit derives each record's keyspace from its key.

use super::model::format::{self, InnerKey};
use super::records::{KeyPlacement, RecordKeyspaces};
use super::transaction::moment;
use alluvium::{Keyspace, WriteBatch};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Memory overhead of a written record, in bytes, besides its key and value.
const PER_RECORD: usize = 96;

/// The state of a record after the transaction.
#[derive(Debug)]
struct RecordWrite {
    /// The new value, or `None` if the record was deleted.
    value: Option<Vec<u8>>,
    expires_ms: u64,
}

/// The hashed records that a transaction has written or deleted.
#[derive(Debug, Default)]
pub(crate) struct OwnRecords {
    writes: BTreeMap<InnerKey, RecordWrite>,
    /// Stored numbers of the databases that the transaction has emptied. The writes apply after
    /// that.
    emptied: Vec<u8>,
    bytes: usize,
}

impl OwnRecords {
    /// Writes a record that expires at `expires_ms` (milliseconds since 1970), or never if it is 0.
    pub(super) fn put(&mut self, place: InnerKey, value: Vec<u8>, expires_ms: u64) {
        let value = Some(value);
        self.insert(place, RecordWrite { value, expires_ms });
    }

    pub(super) fn delete(&mut self, place: InnerKey) {
        let own = RecordWrite {
            value: None,
            expires_ms: 0,
        };
        self.insert(place, own);
    }

    fn insert(&mut self, place: InnerKey, own: RecordWrite) {
        let taken = |key: usize, own: &RecordWrite| key + own.value.as_ref().map_or(0, Vec::len) + PER_RECORD;
        let key = place.len();
        self.bytes += taken(key, &own);
        if let Some(before) = self.writes.insert(place, own) {
            self.bytes -= taken(key, &before);
        }
    }

    /// Deletes all records of a database, both the stored ones and those written by this
    /// transaction.
    pub(super) fn empty(&mut self, database: u8) {
        self.writes.retain(|place, _| place.first() != Some(&database));
        let sizes = self
            .writes
            .iter()
            .map(|(place, own)| place.len() + own.value.as_ref().map_or(0, Vec::len) + PER_RECORD);
        self.bytes = sizes.sum();
        if !self.is_emptied(database) {
            self.emptied.push(database);
        }
    }

    /// Returns whether the transaction has deleted all stored records of a database.
    pub(super) fn is_emptied(&self, database: u8) -> bool {
        self.emptied.contains(&database)
    }

    /// Returns the value that the transaction has written to a record, or `Some(None)` if it has
    /// deleted the record. Returns `None` if it has done neither and the caller must read the
    /// store.
    pub(super) fn own(&self, place: &[u8]) -> Option<Option<&[u8]>> {
        match self.writes.get(place) {
            Some(own) => Some(own.value.as_deref()),
            None => place
                .first()
                .is_some_and(|&database| self.is_emptied(database))
                .then_some(None),
        }
    }

    /// Returns the user key and value of each record that the transaction has written to a
    /// database.
    pub(super) fn of(&self, database: u8) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (start, end) = format::records(database);
        let own = self.writes.range(start..end);
        own.filter_map(|(place, own)| Some((format::user_key(place), own.value.as_deref()?)))
    }

    /// Returns the approximate memory of the writes in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes
    }

    /// Adds all writes to a batch, for the commit.
    pub(super) fn add_to(&self, batch: &mut WriteBatch, records: &RecordKeyspaces) -> alluvium::Result<()> {
        self.each(records, |write| {
            match write {
                WriteOperation::Empty(space) => batch.delete_range(space, b"", None)?,
                WriteOperation::Delete(space, key) => batch.delete(space, key)?,
                WriteOperation::Put(space, key, value, None) => batch.put(space, key, value)?,
                WriteOperation::Put(space, key, value, Some(until)) => {
                    batch.put_until(space, key, value, until)?
                }
            };
            Ok(())
        })
    }

    /// Adds all writes to a client's transaction.
    pub(super) fn write_within(
        &self,
        transaction: &mut alluvium::Transaction,
        records: &RecordKeyspaces,
    ) -> alluvium::Result<()> {
        self.each(records, |write| match write {
            WriteOperation::Empty(space) => transaction.delete_range(space, b"", None),
            WriteOperation::Delete(space, key) => transaction.delete(space, key),
            WriteOperation::Put(space, key, value, None) => transaction.put(space, key, value),
            WriteOperation::Put(space, key, value, Some(until)) => {
                transaction.put_until(space, key, value, until)
            }
        })
    }

    /// Calls `write` for each operation: first for the emptied databases, then for the individual
    /// records.
    fn each(
        &self,
        records: &RecordKeyspaces,
        mut write: impl FnMut(WriteOperation<'_>) -> alluvium::Result<()>,
    ) -> alluvium::Result<()> {
        for &database in &self.emptied {
            if let Some(space) = records.existing(database) {
                write(WriteOperation::Empty(space))?;
            }
        }
        for (place, own) in &self.writes {
            let KeyPlacement::Records(database) = records.home(place) else {
                unreachable!("only hashed records are put here");
            };
            let key = format::user_key(place);
            match &own.value {
                Some(value) => {
                    let space = records.space(database)?;
                    write(WriteOperation::Put(space, key, value, moment(own.expires_ms)))?;
                }
                None => {
                    if let Some(space) = records.existing(database) {
                        write(WriteOperation::Delete(space, key))?;
                    }
                }
            }
        }
        Ok(())
    }
}

enum WriteOperation<'w> {
    Empty(&'w Keyspace),
    Delete(&'w Keyspace, &'w [u8]),
    Put(&'w Keyspace, &'w [u8], &'w [u8], Option<SystemTime>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(database: u8, key: &str) -> InnerKey {
        format::record_key(database, key.as_bytes())
    }

    #[test]
    fn a_database_that_is_emptied_has_only_what_was_written_since() {
        let mut own = OwnRecords::default();
        own.put(place(0, "a"), b"1".to_vec(), 0);
        own.put(place(1, "a"), b"2".to_vec(), 0);
        own.delete(place(1, "b"));
        assert_eq!(own.own(&place(0, "a")), Some(Some(&b"1"[..])));
        assert_eq!(own.own(&place(0, "b")), None);
        assert_eq!(own.own(&place(1, "b")), Some(None));
        let before = own.memory();
        own.put(place(0, "a"), b"123".to_vec(), 5);
        assert_eq!(own.memory(), before + 2);
        own.empty(0);
        assert_eq!(own.own(&place(0, "a")), Some(None));
        assert_eq!(own.own(&place(0, "b")), Some(None));
        assert_eq!(own.own(&place(1, "a")), Some(Some(&b"2"[..])));
        own.put(place(0, "c"), b"3".to_vec(), 0);
        let of = |database| own.of(database).map(|(key, _)| key.to_vec()).collect::<Vec<_>>();
        assert_eq!(of(0), [b"c".to_vec()]);
        assert_eq!(of(1), [b"a".to_vec()]);
        assert!(own.is_emptied(0) && !own.is_emptied(1));
    }
}
