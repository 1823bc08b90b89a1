//! Records as a transaction reads and writes them.

use super::keyspaces::FileKeyspaces;
use super::{
    ReadDependence, ReadRecords, RecordSpace, RecordValue, RecordVisitor, WalkedValues, WriteRecords,
};
use crate::error::Result;
use alluvium::Transaction;
use std::cell::RefCell;
use std::ops::Bound;

/// The records that a transaction sees.
pub(crate) struct TransactionRecords<'t> {
    transaction: RefCell<&'t mut Transaction>,
    spaces: &'t FileKeyspaces,
}

impl<'t> TransactionRecords<'t> {
    pub(crate) fn new(transaction: &'t mut Transaction, spaces: &'t FileKeyspaces) -> TransactionRecords<'t> {
        TransactionRecords {
            transaction: RefCell::new(transaction),
            spaces,
        }
    }
}

/// Returns the bounds of a range of keys.
pub(super) fn bounds<'k>(low: &'k [u8], high: Option<&'k [u8]>) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    (
        Bound::Included(low),
        high.map_or(Bound::Unbounded, Bound::Excluded),
    )
}

impl ReadRecords for TransactionRecords<'_> {
    fn get(&self, space: RecordSpace, key: &[u8], depends: ReadDependence) -> Result<Option<RecordValue>> {
        let transaction = self.transaction.borrow();
        let keyspace = self.spaces.of(space);
        let value = match depends {
            ReadDependence::Untracked => transaction.get_untracked(keyspace, key),
            ReadDependence::Isolated => transaction.get(keyspace, key),
            ReadDependence::Shared => transaction.get_shared(keyspace, key),
            ReadDependence::Update => transaction.get_for_update(keyspace, key),
        }?;
        Ok(value.map(|value| RecordValue::after(value, 0)))
    }

    fn get_many(&self, space: RecordSpace, keys: &[Vec<u8>]) -> Result<Vec<Option<RecordValue>>> {
        let each = keys
            .iter()
            .map(|key| self.get(space, key, ReadDependence::Untracked));
        each.collect()
    }

    fn walk(
        &self,
        space: RecordSpace,
        low: &[u8],
        high: Option<&[u8]>,
        values: WalkedValues,
        visit: &mut RecordVisitor<'_>,
    ) -> Result<()> {
        let transaction = self.transaction.borrow();
        let mut records = transaction.range::<&[u8]>(self.spaces.of(space), bounds(low, high));
        if values == WalkedValues::Short {
            records = records.without_long_values();
        }
        for record in records {
            let (key, value) = record?;
            if visit(&key, &value).is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl WriteRecords for TransactionRecords<'_> {
    fn put(&self, space: RecordSpace, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.transaction.borrow_mut();
        Ok(transaction.put(self.spaces.of(space), key, value)?)
    }

    fn merge(&self, space: RecordSpace, key: &[u8], operand: &[u8]) -> Result<()> {
        let transaction = self.transaction.borrow_mut();
        Ok(transaction.merge(self.spaces.of(space), key, operand)?)
    }

    fn delete(&self, space: RecordSpace, key: &[u8]) -> Result<()> {
        let transaction = self.transaction.borrow_mut();
        Ok(transaction.delete(self.spaces.of(space), key)?)
    }

    fn delete_range(&self, space: RecordSpace, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let transaction = self.transaction.borrow_mut();
        Ok(transaction.delete_range(self.spaces.of(space), low, high)?)
    }

    fn depend_on_range(&self, space: RecordSpace, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let transaction = self.transaction.borrow();
        Ok(transaction.depend_on_range::<&[u8]>(self.spaces.of(space), bounds(low, high))?)
    }
}
