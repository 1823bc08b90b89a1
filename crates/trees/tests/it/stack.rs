//! Memtables above a tree, as `db` keeps them.

use alluvium_base::Sequence;
use alluvium_dictionary::contract::Reader as _;
use alluvium_dictionary::gather::Gather;
use alluvium_dictionary::key::Key;
use alluvium_dictionary::lookup;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::{MemtableEntry, MemtableList, Memtables};
use alluvium_trees::tiered::Tree;
use std::sync::{Arc, Mutex};

/// The current list.
#[derive(Debug, Default)]
pub(crate) struct Stack(Mutex<MemtableList>);

impl Stack {
    /// These are the memtables from now on, newest first, each with what it lies above.
    pub(crate) fn set<'m>(&self, memtables: impl IntoIterator<Item = (&'m Arc<Memtable>, Sequence)>) {
        let entry = |(memtable, base): (&Arc<Memtable>, _)| MemtableEntry {
            memtable: Arc::clone(memtable),
            base,
        };
        *self.0.lock().unwrap() = Arc::new(memtables.into_iter().map(entry).collect());
    }

    /// Point lookups through the memtables and the tree.
    pub(crate) fn gather(
        &self,
        tree: &Tree,
        keys: &[&[u8]],
        gathers: &mut [Gather<'_>],
    ) -> alluvium_storage::Result<()> {
        let list = self.newest_first();
        let reader = tree.reader();
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
        Arc::clone(&self.0.lock().unwrap())
    }
}
