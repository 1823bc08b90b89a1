//! Operations of a transaction on keys with typed values (strings and collections).

use super::key_events::{KeyEvent, KeyKind};
use super::lookups::LookupCounts;
use super::model::{CollectionHeader, CollectionKind, StringValue, TypedValue, format};
use super::transaction::CommandTransaction;
use crate::error::CommandError;

impl CommandTransaction<'_> {
    /// Returns the value of a key: a string or the header of a collection. Returns `None` if the
    /// key does not exist or has expired.
    pub(crate) fn entry(&mut self, key: &[u8]) -> Result<Option<TypedValue<'_>>, CommandError> {
        if self.keeping.has_any() {
            self.write_kept();
        }
        let now_ms = self.now_ms;
        let inner = format::record_key(self.database, key);
        let Some(record) = self.get(&inner)? else {
            LookupCounts::missed();
            return Ok(None);
        };
        let entry = TypedValue::read(record, now_ms)?;
        match entry {
            Some(_) => LookupCounts::found(),
            None => LookupCounts::missed(),
        }
        Ok(entry)
    }

    /// Reads the records of several keys in a single request to the store. Does nothing if records
    /// have already been prefetched.
    pub(crate) fn fetch_records<'a>(
        &mut self,
        keys: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<(), CommandError> {
        if keys.len() > 1 && !self.is_prefetched() {
            let database = self.database;
            self.prefetch(keys.map(|key| format::record_key(database, key)).collect())?;
        }
        Ok(())
    }

    /// Prefetches the records of keys, and discards all earlier prefetched records.
    pub(crate) fn fetch_these<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), CommandError> {
        let database = self.database;
        self.prefetch(keys.map(|key| format::record_key(database, key)).collect())
    }

    /// Returns the string stored under a key, or `None` if the key does not exist.
    pub(crate) fn text(&mut self, key: &[u8]) -> Result<Option<StringValue<'_>>, CommandError> {
        match self.entry(key)? {
            None => Ok(None),
            Some(TypedValue::Text(text)) => Ok(Some(text)),
            Some(TypedValue::Collection(_)) => Err(CommandError::WRONG_TYPE),
        }
    }

    /// Returns the collection stored under a key, or `None` if the key does not exist. Fails if the
    /// value has another type.
    pub(crate) fn collection(
        &mut self,
        key: &[u8],
        kind: CollectionKind,
    ) -> Result<Option<CollectionHeader>, CommandError> {
        let collection = match self.kept(key) {
            Some(collection) => {
                LookupCounts::found();
                collection
            }
            None => match self.entry(key)? {
                None => return Ok(None),
                Some(TypedValue::Collection(collection)) => collection,
                Some(TypedValue::Text(_)) => return Err(CommandError::WRONG_TYPE),
            },
        };
        if collection.kind != kind {
            return Err(CommandError::WRONG_TYPE);
        }
        self.keep_read(key, &collection);
        Ok(Some(collection))
    }

    /// Returns the collection stored under a key. If the key does not exist, returns a new, empty
    /// collection that is not stored yet.
    pub(crate) fn collection_or_new(
        &mut self,
        key: &[u8],
        kind: CollectionKind,
    ) -> Result<CollectionHeader, CommandError> {
        match self.collection(key, kind)? {
            Some(collection) => Ok(collection),
            None => self.new_collection(kind),
        }
    }

    /// Returns a new, empty collection with its own number, which is not stored yet.
    pub(crate) fn new_collection(&mut self, kind: CollectionKind) -> Result<CollectionHeader, CommandError> {
        Ok(CollectionHeader {
            kind,
            expires_ms: 0,
            number: self.store.new_number()?,
            count: 0,
            head: 0,
            is_counted: false,
            is_new: true,
        })
    }

    /// Stores a collection's record after its elements have changed. If the collection has become
    /// empty, deletes the key instead.
    pub(crate) fn save(&mut self, key: &[u8], collection: &CollectionHeader) {
        if collection.count == 0 {
            self.forget_kept(key);
            self.drop_collection(key, collection);
            self.delete(format::record_key(self.database, key));
            if self.event() != KeyEvent::INTERNAL {
                self.touch(key, KeyKind::Collection(collection.kind));
            }
            self.touch_as(key, KeyKind::Absent, KeyEvent::DEL);
            return;
        }
        if collection.is_new {
            self.mark(key, collection.number);
        }
        if !self.keeps_changed(key, collection) {
            let record = format::encode_collection(collection);
            self.put(
                format::record_key(self.database, key),
                record,
                collection.expires_ms,
            );
        }
        self.touch(key, KeyKind::Collection(collection.kind));
    }

    /// Replaces a key's collection with another of the same kind, which inherits the expiry time.
    pub(crate) fn replace(&mut self, key: &[u8], old: &CollectionHeader, mut new: CollectionHeader) {
        self.drop_collection(key, old);
        self.set_expiry(key, &mut new, old.expires_ms);
        self.save(key, &new);
    }

    /// Deletes a collection's elements and index entries, but not its record.
    fn drop_collection(&mut self, key: &[u8], collection: &CollectionHeader) {
        if !collection.is_new {
            self.unmark(key, collection.number);
        }
        if collection.is_counted {
            self.forget_order(collection.number);
        }
        let start = format::elements(self.database, collection.number);
        let end = format::behind(&start);
        self.delete_range(start, end);
        if collection.expires_ms != 0 {
            let expiry = format::expiry_key(self.database, collection.expires_ms, collection.number);
            self.delete(expiry);
        }
    }

    /// Sets a key to a string, whatever its previous value. Reads the previous value only if it may
    /// be a collection, because a collection's elements must be deleted (S8).
    pub(crate) fn set_text(
        &mut self,
        key: &[u8],
        parts: &[&[u8]],
        expires_ms: u64,
    ) -> Result<(), CommandError> {
        // In a client's transaction, always read the key. Otherwise the commit would not detect
        // that another client has stored a collection under the key in the meantime.
        let may_hold = self.within.is_some() || self.store.marks.may_hold(self.database, key);
        if may_hold || self.has_own_collection(key) {
            self.clear(key)?;
        }
        self.put_text(key, parts, expires_ms)?;
        self.touch(key, KeyKind::Text);
        if expires_ms != 0 {
            self.touch_as(key, KeyKind::Text, KeyEvent::EXPIRE);
        }
        Ok(())
    }

    /// Sets a key to a string. The key must hold a string or not exist.
    pub(crate) fn overwrite_text(&mut self, key: &[u8], parts: &[&[u8]], expires_ms: u64) {
        let record = format::encode_text(parts, expires_ms);
        self.put(format::record_key(self.database, key), record, expires_ms);
        self.touch(key, KeyKind::Text);
    }

    /// Deletes the elements of the collection stored under a key, if any. The caller must then
    /// overwrite its record.
    fn clear(&mut self, key: &[u8]) -> Result<(), CommandError> {
        // `entry` does not return an expired collection, although it still has elements. They need
        // not be deleted here: the collection's entry stays in the expiry index, where the reaper
        // finds it.
        if let Some(TypedValue::Collection(collection)) = self.entry(key)? {
            self.drop_collection(key, &collection);
        }
        Ok(())
    }

    /// Deletes a key and its value. Returns whether the key existed.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<bool, CommandError> {
        self.remove_as(key, KeyEvent::DEL)
    }

    /// Like [`CommandTransaction::remove`], with an event other than that of DEL.
    pub(crate) fn remove_as(&mut self, key: &[u8], event: KeyEvent) -> Result<bool, CommandError> {
        let collection = match self.entry(key)? {
            None => return Ok(false),
            Some(TypedValue::Text(_)) => None,
            Some(TypedValue::Collection(collection)) => Some(collection),
        };
        if let Some(collection) = collection {
            self.drop_collection(key, &collection);
        }
        self.delete(format::record_key(self.database, key));
        self.touch_as(key, KeyKind::Absent, event);
        Ok(true)
    }

    /// Sets a key's expiry time in milliseconds since 1970, or 0 for never. Returns whether the key
    /// exists.
    pub(crate) fn expire(&mut self, key: &[u8], expires_ms: u64) -> Result<bool, CommandError> {
        self.set_event(match expires_ms {
            0 => KeyEvent::PERSIST,
            _ => KeyEvent::EXPIRE,
        });
        match self.entry(key)? {
            None => return Ok(false),
            Some(TypedValue::Text(text)) => {
                let value = text.to_vec();
                self.overwrite_text(key, &[&value], expires_ms);
            }
            Some(TypedValue::Collection(mut collection)) => {
                self.set_expiry(key, &mut collection, expires_ms);
                self.save(key, &collection);
            }
        }
        Ok(true)
    }

    /// Sets a collection's expiry time and updates the expiry index for the reaper.
    pub(crate) fn set_expiry(&mut self, key: &[u8], collection: &mut CollectionHeader, expires_ms: u64) {
        if collection.expires_ms != 0 {
            let old = format::expiry_key(self.database, collection.expires_ms, collection.number);
            self.delete(old);
        }
        collection.expires_ms = expires_ms;
        if expires_ms != 0 {
            let new = format::expiry_key(self.database, expires_ms, collection.number);
            self.put(new, key.to_vec(), 0);
        }
    }
}
