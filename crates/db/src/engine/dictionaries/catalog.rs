//! The second copy of the catalog, which the manifest keeps: an opening does not depend on the one
//! leaf that holds the first.

use crate::format;
use alluvium_base::Sequence;
use alluvium_base::message::Kind;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::{MemtableList, above};
use alluvium_dictionary::range::KeyRange;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// The catalog's records: their keys, as the tree has them, and their values.
pub(in crate::engine) type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// The catalog's records as of the cut of the dictionaries. Who takes a memtable or cuts a
/// generation holds the lock of publishing.
#[derive(Debug, Default)]
pub(in crate::engine) struct SecondCatalog {
    /// None while a store without a second copy is opened: the first one becomes it.
    records: Mutex<Option<Records>>,
    /// Whether it is read in the place of the first copy, which has lost something.
    is_used: AtomicBool,
}

impl SecondCatalog {
    pub(in crate::engine) fn set(&self, records: Option<Records>) {
        *self.records.lock() = records;
    }

    pub(in crate::engine) fn get(&self) -> Option<Records> {
        self.records.lock().clone()
    }

    /// Has it read in the place of the first copy, which has lost something, if there is a second
    /// one. Returns whether there is.
    pub(in crate::engine) fn replace_first(&self) -> bool {
        let has_records = self.records.lock().is_some();
        self.is_used.store(has_records, Relaxed);
        has_records
    }

    /// Returns whether it is read in the place of the first copy.
    pub(in crate::engine) fn is_used(&self) -> bool {
        self.is_used.load(Relaxed)
    }

    /// Notes that the first copy was written again, and is read from now on.
    pub(in crate::engine) fn first_is_back(&self) {
        self.is_used.store(false, Relaxed);
    }

    /// A memtable is part of the dictionaries.
    pub(super) fn take(&self, memtable: &Memtable) {
        if let Some(records) = &mut *self.records.lock() {
            apply(records, memtable, Sequence::MAX);
        }
    }

    /// Returns the records as of a commit that is not below the cut; none where there is no second
    /// copy.
    pub(in crate::engine) fn at(&self, list: &MemtableList, cut: Sequence, at: Sequence) -> Option<Records> {
        let mut records = self.get()?;
        let newest_first: Vec<_> = above(Some(list), cut, at).collect();
        for memtable in newest_first.into_iter().rev() {
            apply(&mut records, memtable, at);
        }
        Some(records)
    }
}

/// The catalog's keys in the tree.
pub(in crate::engine) fn range() -> KeyRange {
    let (first, behind) = (
        format::prefix(format::CATALOG),
        format::prefix(format::CATALOG + 1),
    );
    KeyRange::new(&first, Some(&behind))
}

/// What a memtable says of the catalog up to a commit.
fn apply(records: &mut Records, memtable: &Memtable, at: Sequence) {
    let range = range();
    let mut cursor = memtable.cursor();
    cursor.seek(&range.low);
    while let Some(key) = cursor.key().filter(|key| range.contains(key)) {
        let newest = cursor.versions(at).next();
        match newest.map(|message| (message.kind, message.operand)) {
            Some((Kind::Put, value)) => {
                records.insert(key.to_vec(), value.to_vec());
            }
            Some(_) => {
                records.remove(key);
            }
            None => {}
        }
        cursor.next();
    }
}
