//! Avoids encoding a collection's record after every command while consecutive commands of a
//! pipeline use the same collection.
//!
//! Each of these commands reads and updates the collection's record, but only the next command
//! needs the result. The transaction therefore keeps the record in decoded form and defers encoding
//! it. Only commands that access the key as a collection understand a deferred record. Before any
//! other command runs, the record is encoded and written to the transaction
//! ([`CommandTransaction::settle`]).

use super::model::CollectionHeader;
use super::model::format::{self, InnerKey};
use super::transaction::CommandTransaction;

/// The deferred record of a transaction, if any.
#[derive(Debug, Default)]
pub(super) struct RecordDeferral {
    is_on: bool,
    record: Option<DeferredRecord>,
}

/// A collection's decoded record. The collection exists, has elements and has not expired.
#[derive(Debug)]
struct DeferredRecord {
    place: InnerKey,
    collection: CollectionHeader,
    /// Whether the record has changed since it was last written to the transaction.
    is_changed: bool,
}

impl RecordDeferral {
    /// Returns whether a record is deferred.
    pub(super) fn has_any(&self) -> bool {
        self.record.is_some()
    }
}

impl CommandTransaction<'_> {
    /// Starts deferring records. The caller guarantees that the following commands access the key
    /// only as a collection and do not change its expiry time. Within a client's transaction,
    /// records are never deferred, because each command must see the previous command's writes in
    /// encoded form.
    pub(crate) fn keep_record(&mut self) {
        self.keeping.is_on = !self.is_within();
    }

    /// Writes the deferred record to the transaction and stops deferring.
    pub(crate) fn settle(&mut self) {
        self.keeping.is_on = false;
        self.write_kept();
    }

    /// Stops holding the deferred record. If it was changed, first writes it to the transaction.
    pub(super) fn write_kept(&mut self) {
        if let Some(kept) = self.keeping.record.take()
            && kept.is_changed
        {
            let record = format::encode_collection(&kept.collection);
            self.put(kept.place, record, kept.collection.expires_ms);
        }
    }

    /// Returns the collection header in the deferred record if that record belongs to `key`,
    /// otherwise `None`.
    pub(super) fn kept(&self, key: &[u8]) -> Option<CollectionHeader> {
        let kept = self.keeping.record.as_ref()?;
        let is_same = kept.place[0] == self.database && format::user_key(&kept.place) == key;
        is_same.then_some(kept.collection)
    }

    /// Defers the record of a collection that was just read, if deferral is on.
    pub(super) fn keep_read(&mut self, key: &[u8], collection: &CollectionHeader) {
        if self.keeping.is_on {
            self.keep(key, collection, false);
        }
    }

    /// Defers a changed collection's record. Returns false if deferral is off; the caller must then
    /// write the record itself.
    pub(super) fn keeps_changed(&mut self, key: &[u8], collection: &CollectionHeader) -> bool {
        if self.keeping.is_on {
            self.keep(key, collection, true);
        }
        self.keeping.is_on
    }

    /// Discards the deferred record of a key whose collection was deleted.
    pub(super) fn forget_kept(&mut self, key: &[u8]) {
        if self.kept(key).is_some() {
            self.keeping.record = None;
        }
    }

    fn keep(&mut self, key: &[u8], collection: &CollectionHeader, is_changed: bool) {
        let collection = CollectionHeader {
            is_new: false,
            ..*collection
        };
        if self.kept(key).is_some()
            && let Some(kept) = &mut self.keeping.record
        {
            kept.collection = collection;
            kept.is_changed |= is_changed;
            return;
        }
        self.write_kept();
        self.keeping.record = Some(DeferredRecord {
            place: format::record_key(self.database, key),
            collection,
            is_changed,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KeyLayout;
    use crate::store::model::CollectionKind;
    use crate::store::{KeyLockRequest, Mode, ServerStore};
    use alluvium::Options;

    fn stored(store: &ServerStore, database: u8, key: &[u8]) -> Option<CollectionHeader> {
        let mut transaction = CommandTransaction::new(store, database);
        transaction.collection(key, CollectionKind::Hash).unwrap()
    }

    #[test]
    fn what_is_kept_is_seen_by_collections_and_written_before_anything_else_looks() {
        for layout in [KeyLayout::AsStored, KeyLayout::Hashed] {
            let place = tempfile::tempdir().unwrap();
            let db = Options::new()
                .memory(64 << 20)
                .open(place.path().join("store"))
                .unwrap();
            let store = ServerStore::open(&db, layout).unwrap();
            let mut wanted = KeyLockRequest::default();
            for database in [0, 1] {
                for key in [b"a", b"b"] {
                    wanted.key(database, key, Mode::Exclusive);
                }
            }
            let held = store.locks.lock(wanted);
            let mut transaction = CommandTransaction::new(&store, 0);
            transaction.keep_record();
            let add = |transaction: &mut CommandTransaction<'_>, key: &[u8], count| {
                let mut hash = transaction.collection_or_new(key, CollectionKind::Hash).unwrap();
                hash.count += count;
                transaction.save(key, &hash);
                hash.number
            };
            let number = add(&mut transaction, b"a", 1);
            assert_eq!(add(&mut transaction, b"a", 2), number);
            let written = |transaction: &CommandTransaction<'_>, key: &[u8]| {
                let place = format::record_key(transaction.database, key);
                transaction.own_value(&place).is_some()
            };
            assert!(!written(&transaction, b"a"));
            // Use another key, and the same key in another database.
            let other = add(&mut transaction, b"b", 5);
            assert!(written(&transaction, b"a") && other != number);
            transaction.database = 1;
            assert_ne!(add(&mut transaction, b"b", 7), other);
            transaction.database = 0;
            assert_eq!(add(&mut transaction, b"a", 4), number);
            transaction.settle();
            assert!(transaction.entry(b"a").unwrap().is_some());
            add(&mut transaction, b"b", 1);
            transaction.keep_record();
            // Removing the last element deletes the collection; adding an element afterwards
            // creates a new one.
            let mut hash = transaction
                .collection(b"b", CollectionKind::Hash)
                .unwrap()
                .unwrap();
            hash.count = 0;
            transaction.save(b"b", &hash);
            assert!(
                transaction
                    .collection(b"b", CollectionKind::Hash)
                    .unwrap()
                    .is_none()
            );
            assert_ne!(add(&mut transaction, b"b", 9), other);
            transaction.commit(&held).unwrap();
            drop(held);
            let count = |database, key: &[u8]| stored(&store, database, key).map(|hash| hash.count);
            assert_eq!((count(0, b"a"), count(0, b"b")), (Some(7), Some(9)));
            assert_eq!((count(1, b"a"), count(1, b"b")), (None, Some(7)));
        }
    }
}
