//! Approximate number of keys and bytes in a range, without reading the data.

use super::Engine;
use crate::error::Result;
use crate::options::kind::Structure;
use alluvium_base::Kind;
use alluvium_base::message::LAST;
use alluvium_dictionary::range::KeyRange;

impl Engine {
    /// Returns the approximate number of live keys in a range: the tree estimates from its index
    /// nodes; keys in memtables are counted one by one.
    pub(crate) fn approximate_len(&self, structure: Structure, range: &KeyRange) -> Result<u64> {
        self.is_open()?;
        // Load the list before the tree's version: a memtable flushed in between is counted twice
        // rather than not at all.
        let slots = self.queue.slots();
        let dictionary = self.dictionaries.of(structure);
        let cut = dictionary.cut();
        let mut len = dictionary.approximate_len(range)?;
        for slot in slots.iter().filter(|slot| slot.base() >= cut) {
            let mut cursor = slot.memtable.cursor();
            cursor.seek(&range.low);
            while cursor.key().is_some_and(|key| range.contains(key)) {
                let newest = cursor.versions(LAST).next();
                if newest.is_some_and(|newest| newest.kind != Kind::Delete) {
                    len += 1;
                }
                cursor.next();
            }
        }
        Ok(len)
    }

    /// Returns the approximate number of bytes that a range occupies in the data files.
    pub(crate) fn size_on_disk(&self, structure: Structure, range: &KeyRange) -> Result<u64> {
        self.is_open()?;
        Ok(self.dictionaries.of(structure).size_on_disk(range)?)
    }
}
