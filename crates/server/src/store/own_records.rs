//! What a transaction has written to hashed records and not committed yet.
//!
//! It is kept by the places of records, as if they were in order. So a walk knows which of them it
//! has to show beside those of the store, and a commit which keyspace each belongs to.

use super::records::{Home, Records};
use super::transaction::moment;
use crate::model::format::{self, InnerKey};
use alluvium::{Keyspace, WriteBatch};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// What a record takes beside its bytes.
const PER_RECORD: usize = 96;

/// What becomes of a record.
#[derive(Debug)]
struct Own {
    /// Nothing if it is deleted.
    value: Option<Vec<u8>>,
    expires_ms: u64,
}

/// The records that a transaction has written.
#[derive(Debug, Default)]
pub(crate) struct OwnRecords {
    writes: BTreeMap<InnerKey, Own>,
    /// Databases of which everything was deleted before, by the numbers that they are stored under.
    emptied: Vec<u8>,
    bytes: usize,
}

impl OwnRecords {
    /// The record has this value, until `expires_ms` if that is not 0.
    pub(super) fn put(&mut self, place: InnerKey, value: Vec<u8>, expires_ms: u64) {
        let value = Some(value);
        self.insert(place, Own { value, expires_ms });
    }

    /// The record is gone.
    pub(super) fn delete(&mut self, place: InnerKey) {
        let own = Own {
            value: None,
            expires_ms: 0,
        };
        self.insert(place, own);
    }

    fn insert(&mut self, place: InnerKey, own: Own) {
        let taken = |key: usize, own: &Own| key + own.value.as_ref().map_or(0, Vec::len) + PER_RECORD;
        let key = place.len();
        self.bytes += taken(key, &own);
        if let Some(before) = self.writes.insert(place, own) {
            self.bytes -= taken(key, &before);
        }
    }

    /// All records of a database are gone.
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

    /// Returns whether all that the store has of a database is gone.
    pub(super) fn is_emptied(&self, database: u8) -> bool {
        self.emptied.contains(&database)
    }

    /// Returns what it says of a record, or `None` if it says nothing: then the store is asked.
    pub(super) fn own(&self, place: &[u8]) -> Option<Option<&[u8]>> {
        match self.writes.get(place) {
            Some(own) => Some(own.value.as_deref()),
            None => place
                .first()
                .is_some_and(|&database| self.is_emptied(database))
                .then_some(None),
        }
    }

    /// Returns the records of a database that have values: user's keys and those values.
    pub(super) fn of(&self, database: u8) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (start, end) = format::records(database);
        let own = self.writes.range(start..end);
        own.filter_map(|(place, own)| Some((format::user_key(place), own.value.as_deref()?)))
    }

    /// Returns about how many bytes it takes.
    pub(super) fn memory(&self) -> usize {
        self.bytes
    }

    /// Puts all of it into a batch.
    pub(super) fn add_to(&self, batch: &mut WriteBatch, records: &Records) -> alluvium::Result<()> {
        self.each(records, |write| {
            match write {
                Write::Empty(space) => batch.delete_range(space, b"", None)?,
                Write::Delete(space, key) => batch.delete(space, key)?,
                Write::Put(space, key, value, None) => batch.put(space, key, value)?,
                Write::Put(space, key, value, Some(until)) => batch.put_until(space, key, value, until)?,
            };
            Ok(())
        })
    }

    /// Writes all of it within the transaction of a client.
    pub(super) fn write_within(
        &self,
        transaction: &mut alluvium::Transaction,
        records: &Records,
    ) -> alluvium::Result<()> {
        self.each(records, |write| match write {
            Write::Empty(space) => transaction.delete_range(space, b"", None),
            Write::Delete(space, key) => transaction.delete(space, key),
            Write::Put(space, key, value, None) => transaction.put(space, key, value),
            Write::Put(space, key, value, Some(until)) => transaction.put_until(space, key, value, until),
        })
    }

    /// Calls `write` with what is to be done, in an order in which it may be done.
    fn each(
        &self,
        records: &Records,
        mut write: impl FnMut(Write<'_>) -> alluvium::Result<()>,
    ) -> alluvium::Result<()> {
        for &database in &self.emptied {
            if let Some(space) = records.existing(database) {
                write(Write::Empty(space))?;
            }
        }
        for (place, own) in &self.writes {
            let Home::Records(database) = records.home(place) else {
                unreachable!("only hashed records are put here");
            };
            let key = format::user_key(place);
            match &own.value {
                Some(value) => {
                    let space = records.space(database)?;
                    write(Write::Put(space, key, value, moment(own.expires_ms)))?;
                }
                None => {
                    if let Some(space) = records.existing(database) {
                        write(Write::Delete(space, key))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Something to be done.
enum Write<'w> {
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
