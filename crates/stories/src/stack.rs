//! The memtables above a structure, as a store manages them.

use alluvium_base::Sequence;
use alluvium_dictionary::contract::{Lookup, Reader as _};
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::lookup;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::{MemtableEntry, MemtableList, Memtables};
use alluvium_storage::Result;
use parking_lot::Mutex;
use std::sync::Arc;

/// The current list of memtables.
#[derive(Debug, Default)]
pub struct Stack(Mutex<MemtableList>);

impl Stack {
    /// Replaces the list. The memtables are listed newest first, each with its base: it contains
    /// only commits above the base.
    pub fn set<'m>(&self, memtables: impl IntoIterator<Item = (&'m Arc<Memtable>, Sequence)>) {
        let entry = |(memtable, base): (&Arc<Memtable>, _)| MemtableEntry {
            memtable: Arc::clone(memtable),
            base,
        };
        *self.0.lock() = Arc::new(memtables.into_iter().map(entry).collect());
    }

    /// Looks up keys in the memtables and the structure.
    ///
    /// # Errors
    /// I/O errors; damage.
    pub fn gather<D: Lookup>(
        &self,
        dictionary: &D,
        keys: &[&[u8]],
        gathers: &mut [Gather<'_>],
    ) -> Result<()> {
        let list = self.newest_first();
        let reader = dictionary.reader();
        let keys: Vec<Key<'_>> = keys.iter().map(|key| Key::new(key)).collect();
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

impl Memtables for Stack {
    fn newest_first(&self) -> MemtableList {
        Arc::clone(&self.0.lock())
    }
}
