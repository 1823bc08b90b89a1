//! The list of memtables above a structure, managed as a real store does.

use alluvium_base::SequenceNumber;
use alluvium_dictionary::contract::{LookupReader as _, PointLookup};
use alluvium_dictionary::key::LookupKey;
use alluvium_dictionary::lookup;
use alluvium_dictionary::lookup_state::LookupState;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::{MemtableEntry, MemtableList, MemtableOwner};
use alluvium_storage::Result;
use parking_lot::Mutex;
use std::sync::Arc;

/// The current list of memtables.
#[derive(Debug, Default)]
pub struct MemtableStack(Mutex<MemtableList>);

impl MemtableStack {
    /// Replaces the list with `memtables`, from the newest to the oldest. Each contains only
    /// commits with sequence numbers above its base.
    pub fn set<'m>(&self, memtables: impl IntoIterator<Item = (&'m Arc<Memtable>, SequenceNumber)>) {
        let entry = |(memtable, base): (&Arc<Memtable>, _)| MemtableEntry {
            memtable: Arc::clone(memtable),
            base,
        };
        *self.0.lock() = Arc::new(memtables.into_iter().map(entry).collect());
    }

    /// Looks up keys, first in the memtables and then in the structure.
    ///
    /// # Errors
    /// Returns I/O errors, and an error if data is damaged.
    pub fn gather<D: PointLookup>(
        &self,
        dictionary: &D,
        keys: &[&[u8]],
        gathers: &mut [LookupState<'_>],
    ) -> Result<()> {
        let list = self.newest_first();
        let reader = dictionary.reader();
        let keys: Vec<LookupKey<'_>> = keys.iter().map(|key| LookupKey::new(key)).collect();
        for entry in list.iter().filter(|entry| entry.base >= reader.cut()) {
            for (&key, gather) in keys.iter().zip(&mut *gathers) {
                gather.memtable(&entry.memtable, key);
            }
        }
        match (&keys[..], gathers) {
            (&[key], [gather]) => lookup::gather(&reader, key, gather),
            (keys, gathers) => lookup::batch::gather_many(&reader, keys, gathers),
        }
    }
}

impl MemtableOwner for MemtableStack {
    fn newest_first(&self) -> MemtableList {
        Arc::clone(&self.0.lock())
    }
}
