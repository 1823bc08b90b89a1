//! Writes collections that are too large for one commit. Several commits write the elements under a
//! new collection number, and the last commit writes the record that refers to this number.
//!
//! Until then, no command can access the elements. The first commit also writes a mark for the
//! number, and the commit that writes the record deletes the mark. Elements under a marked number
//! are therefore garbage. They are deleted when the write is abandoned or, after a crash, when the
//! store is next opened. Short collections are not staged, but written together with the rest of
//! their transaction.

use super::model::format::{self, InnerKey};
use super::transaction::CommandTransaction;
use super::{DATABASES, ServerStore, WorkingMemory};
use crate::error::CommandError;
use alluvium::{Durability, Keyspace, WriteBatch};
use std::borrow::Cow;

/// Maximum memory for elements that wait to be written, in bytes.
const AT_ONCE: usize = 1 << 20;

/// Memory overhead of a buffered element, in bytes, besides its key and value.
const WRITE_BYTES: usize = 64;

/// Writes the elements of a new collection, in several commits if they are large.
pub(crate) struct StagingWriter<'s> {
    store: &'s ServerStore,
    database: u8,
    number: u64,
    pending: Vec<(InnerKey, Vec<u8>)>,
    bytes: usize,
    /// Whether the transaction has emptied the database, so that its commit would delete elements
    /// that are committed in advance.
    is_deleted: bool,
    /// Whether the transaction is nested in a client's transaction, which must write everything in
    /// one commit.
    is_within: bool,
    /// Guards the mark and the elements that are already committed. `None` if there are none.
    written: Option<OrphanGuard<'s>>,
    /// The memory charge for the buffered elements and their batch. Created once they use much
    /// memory.
    working: Option<WorkingMemory<'s>>,
}

/// A marked collection number. Dropping it deletes the elements stored under the number, unless a
/// transaction has adopted them and was committed.
struct OrphanGuard<'s> {
    store: &'s ServerStore,
    database: u8,
    number: u64,
    is_kept: bool,
}

impl Drop for OrphanGuard<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let mut batch = WriteBatch::new().durability(Durability::Process);
        let data = &self.store.data;
        let deleted = forget(&mut batch, data, self.database, self.number);
        if let Err(error) = deleted.and_then(|()| self.store.db.write(&batch)) {
            tracing::warn!(%error, "cannot delete the partial result of a failed command; it occupies space \
                                    until the store is opened again");
        }
    }
}

/// The staged collections that become permanent when the transaction commits.
#[derive(Default)]
pub(super) struct StagedCollections<'s>(Vec<OrphanGuard<'s>>);

impl StagedCollections<'_> {
    /// Makes the staged collections permanent. Called after the transaction was committed.
    pub(super) fn keep(&mut self) {
        self.0.iter_mut().for_each(|garbage| garbage.is_kept = true);
        self.0.clear();
    }
}

fn forget(batch: &mut WriteBatch, data: &Keyspace, database: u8, number: u64) -> alluvium::Result<()> {
    let start = format::elements(database, number);
    batch.delete_range(data, &start, Some(&format::behind(&start)))?;
    batch.delete(data, format::staged_key(database, number))?;
    Ok(())
}

impl ServerStore {
    /// Deletes the elements of collections that an earlier run of the server left unfinished.
    pub(super) fn forget_staged(data: &Keyspace, db: &alluvium::Db) -> alluvium::Result<()> {
        for database in 0..DATABASES {
            let (start, end) = format::all_staged(database);
            for note in data.range(&start[..]..&end[..]) {
                if let Some(number) = format::staged_number(&note?.0) {
                    let mut batch = WriteBatch::new();
                    forget(&mut batch, data, database, number)?;
                    db.write(&batch)?;
                }
            }
        }
        Ok(())
    }
}

impl<'s> StagingWriter<'s> {
    /// Creates a writer for the elements of a collection number in a database.
    pub(crate) fn new(transaction: &CommandTransaction<'s>, database: u8, number: u64) -> StagingWriter<'s> {
        StagingWriter {
            store: transaction.store,
            database,
            number,
            pending: Vec::new(),
            bytes: 0,
            is_deleted: transaction.is_deleted(&format::elements(database, number)),
            is_within: transaction.is_within(),
            written: None,
            working: None,
        }
    }

    /// Adds an element. Commits the buffered elements once they exceed [`AT_ONCE`] bytes.
    pub(crate) fn put(&mut self, key: InnerKey, value: Vec<u8>) -> Result<(), CommandError> {
        self.bytes += key.len() + value.len() + WRITE_BYTES;
        self.pending.push((key, value));
        if self.bytes > AT_ONCE / 4 && self.working.is_none() {
            self.working = Some(WorkingMemory::of_buffer(self.store, 2 * AT_ONCE));
        }
        if self.bytes <= AT_ONCE {
            return Ok(());
        }
        if self.is_within {
            return Err(CommandError::Refused(Cow::Owned(format!(
                "ERR a command between BEGIN and COMMIT cannot copy more than {AT_ONCE} bytes; use MULTI \
                 instead"
            ))));
        }
        if self.is_deleted {
            return Err(CommandError::Refused(Cow::Owned(format!(
                "ERR a transaction that has emptied the database cannot copy more than {AT_ONCE} bytes; use \
                 two transactions"
            ))));
        }
        self.write()
    }

    fn write(&mut self) -> Result<(), CommandError> {
        let data = &self.store.data;
        let mut batch = WriteBatch::new().durability(Durability::Process);
        if self.written.is_none() {
            batch.put(data, format::staged_key(self.database, self.number), [])?;
        }
        for (key, value) in self.pending.drain(..) {
            batch.put(data, &key, value)?;
        }
        self.bytes = 0;
        self.store.db.write(&batch)?;
        let (store, database, number) = (self.store, self.database, self.number);
        self.written.get_or_insert_with(|| OrphanGuard {
            store,
            database,
            number,
            is_kept: false,
        });
        Ok(())
    }

    /// Finishes the collection and hands its elements over to the transaction, which must then
    /// write a record with the number.
    pub(crate) fn finish(mut self, transaction: &mut CommandTransaction<'s>) -> Result<(), CommandError> {
        if self.written.is_some() {
            self.write()?;
            transaction.vacancies.clear();
            transaction.delete(format::staged_key(self.database, self.number));
            transaction.staged.0.extend(self.written.take());
        } else {
            for (key, value) in self.pending {
                transaction.put(key, value, 0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::KeyLayout;
    use crate::store::KeyLockRequest;
    use alluvium::simulation::SimulationOperations as _;
    use alluvium::{Db, Options};

    fn count(store: &ServerStore) -> usize {
        let own = |(key, _): &(Vec<u8>, alluvium::Value)| key[0] < DATABASES;
        store.data.iter().map(Result::unwrap).filter(own).count()
    }

    fn fill(transaction: &CommandTransaction<'_>, number: u64) -> (usize, Vec<InnerKey>) {
        let keys: Vec<InnerKey> = (0..40)
            .map(|index| format::position_key(0, number, index))
            .collect();
        let bytes = AT_ONCE / 10;
        assert!(!transaction.is_deleted(&keys[0]));
        (bytes, keys)
    }

    /// Stages a collection that is four times as large as the memory limit.
    fn stage<'s>(transaction: &CommandTransaction<'s>, number: u64) -> StagingWriter<'s> {
        let mut staging = StagingWriter::new(transaction, 0, number);
        let (bytes, keys) = fill(transaction, number);
        for key in keys {
            staging.put(key, vec![7; bytes]).unwrap();
            assert!(staging.bytes <= AT_ONCE);
        }
        staging
    }

    #[test]
    fn what_no_transaction_takes_over_is_deleted_at_once_or_when_the_store_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let open = || -> (Db, ServerStore) {
            let db = Options::new()
                .memory(64 << 20)
                .open(place.path().join("store"))
                .unwrap();
            let store = ServerStore::open(&db, KeyLayout::AsStored).unwrap();
            (db, store)
        };
        let (db, store) = open();
        let held = store.locks.lock(KeyLockRequest::default());
        let transaction = CommandTransaction::new(&store, 0);
        let staging = stage(&transaction, 1);
        assert!(count(&store) > 20);
        drop((staging, transaction));
        assert_eq!(count(&store), 0);
        let mut transaction = CommandTransaction::new(&store, 0);
        stage(&transaction, 2).finish(&mut transaction).unwrap();
        assert_eq!(count(&store), 41);
        drop(transaction);
        assert_eq!(count(&store), 0);
        let mut transaction = CommandTransaction::new(&store, 0);
        stage(&transaction, 3).finish(&mut transaction).unwrap();
        transaction.commit(&held).unwrap();
        assert_eq!(count(&store), 40);
        // Simulate a crash while a collection is staged.
        std::mem::forget(stage(&CommandTransaction::new(&store, 0), 4));
        drop((transaction, held));
        db.abandon();
        drop((store, db));
        let (_db, store) = open();
        assert_eq!(count(&store), 40);
        let found = store.data.get(format::position_key(0, 3, 39)).unwrap();
        assert_eq!(found.unwrap().len(), AT_ONCE / 10);
    }

    #[test]
    fn what_is_short_goes_with_its_transaction() {
        let place = tempfile::tempdir().unwrap();
        let db = Options::new()
            .memory(64 << 20)
            .open(place.path().join("store"))
            .unwrap();
        let store = ServerStore::open(&db, KeyLayout::AsStored).unwrap();
        let mut transaction = CommandTransaction::new(&store, 0);
        let mut staging = StagingWriter::new(&transaction, 0, 1);
        staging.put(format::position_key(0, 1, 0), vec![7; 10]).unwrap();
        staging.finish(&mut transaction).unwrap();
        assert_eq!(count(&store), 0);
        let held = store.locks.lock(KeyLockRequest::default());
        transaction.commit(&held).unwrap();
        assert_eq!(count(&store), 1);
    }
}
