//! The second copy of the catalog, which is stored in the manifest so that opening a store does not
//! depend on the single leaf that contains the first copy.

use crate::schema::format;
use alluvium_base::SequenceNumber;
use alluvium_base::message::MessageKind;
use alluvium_dictionary::memtable::Memtable;
use alluvium_dictionary::memtables::{MemtableList, above};
use alluvium_dictionary::range::KeyRange;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// The catalog's records. The keys are those of the tree.
pub(in crate::engine) type CatalogRecords = BTreeMap<Vec<u8>, Vec<u8>>;

/// The second copy of the catalog. It is as recent as the dictionaries, because it contains the
/// changes of all published memtables. The caller must hold the lock `publishing` to apply a
/// memtable to it, or to read it for a generation.
#[derive(Debug, Default)]
pub(in crate::engine) struct SecondCatalog {
    /// `None` while a store without a second copy is being opened. The second copy is then created
    /// from the first.
    records: Mutex<Option<CatalogRecords>>,
    /// Whether reads use this copy because the first copy is damaged.
    is_used: AtomicBool,
}

impl SecondCatalog {
    pub(in crate::engine) fn set(&self, records: Option<CatalogRecords>) {
        *self.records.lock() = records;
    }

    pub(in crate::engine) fn get(&self) -> Option<CatalogRecords> {
        self.records.lock().clone()
    }

    /// Makes reads use this copy because the first copy is damaged. Returns false if there is no
    /// second copy.
    pub(in crate::engine) fn replace_first(&self) -> bool {
        let has_records = self.records.lock().is_some();
        self.is_used.store(has_records, Relaxed);
        has_records
    }

    /// Returns whether reads use this copy instead of the first one.
    pub(in crate::engine) fn is_used(&self) -> bool {
        self.is_used.load(Relaxed)
    }

    /// Makes reads use the first copy again. Must be called only after the first copy has been
    /// rewritten.
    pub(in crate::engine) fn use_first_copy(&self) {
        self.is_used.store(false, Relaxed);
    }

    /// Applies the catalog changes of a memtable that the dictionaries have published.
    pub(super) fn take(&self, memtable: &Memtable) {
        if let Some(records) = &mut *self.records.lock() {
            apply(records, memtable, SequenceNumber::MAX);
        }
    }

    /// Returns the records as of commit `at`, which must not be below `cut`, or `None` if there is
    /// no second copy. Changes after `cut` are taken from the memtables in `list`.
    pub(in crate::engine) fn at(
        &self,
        list: &MemtableList,
        cut: SequenceNumber,
        at: SequenceNumber,
    ) -> Option<CatalogRecords> {
        let mut records = self.get()?;
        let newest_first: Vec<_> = above(Some(list), cut, at).collect();
        for memtable in newest_first.into_iter().rev() {
            apply(&mut records, memtable, at);
        }
        Some(records)
    }
}

/// Returns the catalog's key range in the tree.
pub(in crate::engine) fn range() -> KeyRange {
    let (first, behind) = (
        format::prefix(format::CATALOG),
        format::prefix(format::CATALOG + 1),
    );
    KeyRange::new(&first, Some(&behind))
}

/// Applies a memtable's catalog changes up to commit `at` to `records`.
fn apply(records: &mut CatalogRecords, memtable: &Memtable, at: SequenceNumber) {
    let range = range();
    let mut cursor = memtable.cursor();
    cursor.seek(&range.low);
    while let Some(key) = cursor.key().filter(|key| range.contains(key)) {
        let newest = cursor.versions(at).next();
        match newest.map(|message| (message.kind, message.operand)) {
            Some((MessageKind::Put, value)) => {
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
