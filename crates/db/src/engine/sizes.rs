//! Estimates the number of keys and bytes in a key range without reading the data.

use super::Engine;
use crate::error::Result;
use crate::options::kind::DictionaryPlace;
use alluvium_base::MessageKind;
use alluvium_base::message::MAX_SEQUENCE;
use alluvium_dictionary::range::KeyRange;

impl Engine {
    /// Returns the approximate number of live keys in a key range. The dictionary estimates its
    /// number of keys from index nodes. Keys in memtables are counted individually.
    pub(crate) fn approximate_len(&self, place: DictionaryPlace, range: &KeyRange) -> Result<u64> {
        self.is_open()?;
        // Load the list of memtables before the dictionary's version. A memtable that is flushed in
        // between is then counted twice rather than not at all.
        let slots = self.queue.slots();
        let dictionary = self.dictionaries.of(place);
        let cut = dictionary.cut();
        let mut len = dictionary.approximate_len(range)?;
        for slot in slots.iter().filter(|slot| slot.base() >= cut) {
            let mut cursor = slot.memtable.cursor();
            cursor.seek(&range.low);
            while cursor.key().is_some_and(|key| range.contains(key)) {
                let newest = cursor.versions(MAX_SEQUENCE).next();
                if newest.is_some_and(|newest| newest.kind != MessageKind::Delete) {
                    len += 1;
                }
                cursor.next();
            }
        }
        Ok(len)
    }

    /// Returns the approximate number of bytes that a key range occupies in the data files.
    pub(crate) fn size_on_disk(&self, place: DictionaryPlace, range: &KeyRange) -> Result<u64> {
        self.is_open()?;
        Ok(self.dictionaries.of(place).size_on_disk(range)?)
    }
}
