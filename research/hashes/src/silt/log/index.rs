//! The index of a log's records: an in-memory cuckoo table.

use crate::silt::HashedKey;
use research_filters::cuckoo::{CuckooShape, CuckooSlot, CuckooTable, encode};

/// The index of a log store, which maps hashed keys to the units at which their newest records
/// begin.
#[derive(Clone, Debug)]
pub struct LogIndex {
    table: CuckooTable,
}

/// The result of adding an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The key had no record in the log.
    Added,
    /// The key had a record at this unit.
    Replaced(u32),
    /// The table has no free slot for another key: the owner must freeze the log and append the
    /// record to the next log. The index is unchanged.
    Full,
}

impl LogIndex {
    /// Creates an empty index. The seed determines which entries insertions move.
    #[must_use]
    pub fn new(shape: CuckooShape, seed: u64) -> LogIndex {
        LogIndex {
            table: CuckooTable::new(shape, seed),
        }
    }

    /// Returns the number of keys.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.table.len()
    }

    /// Returns whether the index is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns the memory of the table in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    #[must_use]
    pub fn shape(&self) -> CuckooShape {
        self.table.shape()
    }

    /// Finds the unit of a key's newest record. `is_key` reads the record at a unit and returns
    /// whether it belongs to the key.
    ///
    /// # Errors
    /// The errors of `is_key`.
    pub fn find<E>(
        &self,
        key: HashedKey,
        is_key: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<u32>, E> {
        Ok(self.slot(key, is_key)?.map(|(_, unit)| unit))
    }

    /// Sets the unit of a key's newest record, replacing the previous one (S2): otherwise eight
    /// updates of one key would fill both of its buckets.
    ///
    /// # Errors
    /// The errors of `is_key`.
    pub fn put<E>(
        &mut self,
        key: HashedKey,
        unit: u32,
        is_key: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<PutOutcome, E> {
        if let Some((slot, before)) = self.slot(key, is_key)? {
            self.table.set(slot, unit);
            return Ok(PutOutcome::Replaced(before));
        }
        let is_added = self.table.insert(key.tag_hash(), unit).is_ok();
        Ok(if is_added {
            PutOutcome::Added
        } else {
            PutOutcome::Full
        })
    }

    fn slot<E>(
        &self,
        key: HashedKey,
        mut is_key: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<Option<(CuckooSlot, u32)>, E> {
        for (slot, unit) in self.table.candidates(key.tag_hash()) {
            if is_key(unit)? {
                return Ok(Some((slot, unit)));
            }
        }
        Ok(None)
    }

    /// Returns the units of all records in the index, in slot order.
    pub fn entries(&self) -> impl Iterator<Item = (CuckooSlot, u32)> {
        self.table.entries()
    }

    /// Returns the bytes of the hash filter of the store that this log is converted to.
    #[must_use]
    pub fn filter(&self) -> Vec<u8> {
        encode(&self.table)
    }
}
