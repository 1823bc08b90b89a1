//! RocksDB's transactions through its C API: `TransactionDB`, which locks, and
//! `OptimisticTransactionDB`. Compaction is levelled, I/O uses the page cache, and each keyspace
//! has a column family; the rest is configured as in `rocksdb/mod.rs`.
//!
//! Deadlock detection is enabled; RocksDB disables it by default, and a deadlocked transaction
//! would then wait until its lock timeout.

use super::{CompactionStyle, FileIoMode, RocksDbSettings, ffi};
use crate::c_interop::{c_path, chars, slice};
use crate::library_error::LibraryError;
use crate::transactions::settings;
use alluvium_bench::engine::EngineSetup;
use alluvium_bench::transactions::engine::{
    AckDurability, AttemptError, AttemptResult, EngineTransaction, KEYSPACES, TransactionBody,
    TransactionClient, TransactionalEngine,
};
use anyhow::Result;
use std::ffi::{CStr, c_int};
use std::ptr;

/// Lock timeout, equal to Alluvium's.
const LOCK_TIMEOUT_MS: i64 = 10_000;

/// The column families. RocksDB requires its default column family to be opened, too.
const FAMILIES: [&CStr; KEYSPACES + 1] = [c"tree 0", c"tree 1", c"tree 2", c"tree 3", c"default"];

/// Prefixes of the errors that report a conflict: RocksDB's statuses `Busy` (which includes
/// deadlocks), `TimedOut` and `TryAgain`.
const CONFLICTS: [&str; 3] = [
    "Resource busy",
    "Operation timed out",
    "Operation failed. Try again",
];

pub(crate) fn open_locking(setup: &EngineSetup) -> Result<Box<dyn TransactionalEngine>> {
    Ok(Box::new(RocksDbTransactionEngine::open(
        setup,
        ConcurrencyControl::Locking,
    )?))
}

pub(crate) fn open_optimistic(setup: &EngineSetup) -> Result<Box<dyn TransactionalEngine>> {
    Ok(Box::new(RocksDbTransactionEngine::open(
        setup,
        ConcurrencyControl::Optimistic,
    )?))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConcurrencyControl {
    Locking,
    Optimistic,
}

#[derive(Clone, Copy)]
enum DatabaseHandle {
    Locking(*mut ffi::TransactionDb, *mut ffi::TransactionOptions),
    Optimistic(
        *mut ffi::OptimisticTransactionDb,
        *mut ffi::OptimisticTransactionOptions,
    ),
}

struct RocksDbTransactionEngine {
    handle: DatabaseHandle,
    families: [*mut ffi::Family; KEYSPACES + 1],
    read: *mut ffi::ReadOptions,
    synced: *mut ffi::WriteOptions,
    buffered: *mut ffi::WriteOptions,
    settings: Vec<(String, String)>,
}

// SAFETY: RocksDB's documentation lets any number of threads use a database and its column families
// without synchronisation; the options are only read.
unsafe impl Send for RocksDbTransactionEngine {}
// SAFETY: as above.
unsafe impl Sync for RocksDbTransactionEngine {}

impl RocksDbTransactionEngine {
    fn open(setup: &EngineSetup, mechanism: ConcurrencyControl) -> Result<RocksDbTransactionEngine> {
        let tuning = RocksDbSettings::new(setup, CompactionStyle::Levelled, FileIoMode::Buffered)?;
        let path = c_path(&setup.directory.join("store"))?;
        let mut families = [ptr::null_mut(); KEYSPACES + 1];
        let names = FAMILIES.map(CStr::as_ptr);
        let mut failure = LibraryError::default();
        // SAFETY: every pointer is one that the library has just returned, or points to an array of
        // the length that is passed with it. The library copies the options, which are destroyed
        // here, except those that transactions begin with.
        let (handle, read, synced, buffered) = unsafe {
            let options = tuning.options();
            ffi::rocksdb_options_set_create_missing_column_families(options, 1);
            let each = [options.cast_const(); KEYSPACES + 1];
            let (count, at) = ((KEYSPACES + 1) as c_int, families.as_mut_ptr());
            let (names, each) = (names.as_ptr(), each.as_ptr());
            let handle = match mechanism {
                ConcurrencyControl::Locking => {
                    let own = ffi::rocksdb_transactiondb_options_create();
                    let (path, error) = (path.as_ptr(), failure.slot());
                    let db = ffi::rocksdb_transactiondb_open_column_families(
                        options, own, path, count, names, each, at, error,
                    );
                    ffi::rocksdb_transactiondb_options_destroy(own);
                    let of_each = ffi::rocksdb_transaction_options_create();
                    ffi::rocksdb_transaction_options_set_deadlock_detect(of_each, 1);
                    ffi::rocksdb_transaction_options_set_lock_timeout(of_each, LOCK_TIMEOUT_MS);
                    DatabaseHandle::Locking(db, of_each)
                }
                ConcurrencyControl::Optimistic => {
                    let (path, error) = (path.as_ptr(), failure.slot());
                    let db = ffi::rocksdb_optimistictransactiondb_open_column_families(
                        options, path, count, names, each, at, error,
                    );
                    DatabaseHandle::Optimistic(db, ffi::rocksdb_optimistictransaction_options_create())
                }
            };
            ffi::rocksdb_options_destroy(options);
            failure.take()?;
            let synced = ffi::rocksdb_writeoptions_create();
            ffi::rocksdb_writeoptions_set_sync(synced, 1);
            let buffered = ffi::rocksdb_writeoptions_create();
            (handle, ffi::rocksdb_readoptions_create(), synced, buffered)
        };
        Ok(RocksDbTransactionEngine {
            handle,
            families,
            read,
            synced,
            buffered,
            settings: own_settings(mechanism)
                .into_iter()
                .chain(tuning.settings())
                .collect(),
        })
    }
}

fn own_settings(mechanism: ConcurrencyControl) -> Vec<(String, String)> {
    let transactions = match mechanism {
        ConcurrencyControl::Locking => "TransactionDB, deadlock_detect, lock_timeout 10 s",
        ConcurrencyControl::Optimistic => "OptimisticTransactionDB",
    };
    settings([
        ("transactions", transactions.to_owned()),
        (
            "a commit syncs by",
            "fdatasync of the log (WriteOptions::sync)".to_owned(),
        ),
        ("without a sync", "survives the death of the process".to_owned()),
    ])
}

impl Drop for RocksDbTransactionEngine {
    fn drop(&mut self) {
        // SAFETY: clients borrow this and are gone; each is destroyed once, the database last.
        unsafe {
            ffi::rocksdb_readoptions_destroy(self.read);
            ffi::rocksdb_writeoptions_destroy(self.synced);
            ffi::rocksdb_writeoptions_destroy(self.buffered);
            for family in self.families {
                ffi::rocksdb_column_family_handle_destroy(family);
            }
            match self.handle {
                DatabaseHandle::Locking(db, options) => {
                    ffi::rocksdb_transaction_options_destroy(options);
                    ffi::rocksdb_transactiondb_close(db);
                }
                DatabaseHandle::Optimistic(db, options) => {
                    ffi::rocksdb_optimistictransaction_options_destroy(options);
                    ffi::rocksdb_optimistictransactiondb_close(db);
                }
            }
        }
    }
}

impl TransactionalEngine for RocksDbTransactionEngine {
    fn client(&self, durability: AckDurability) -> Result<Box<dyn TransactionClient + '_>> {
        Ok(Box::new(RocksDbClient {
            engine: self,
            write: match durability {
                AckDurability::Disk => self.synced,
                AckDurability::Later => self.buffered,
            },
            transaction: ptr::null_mut(),
        }))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct RocksDbClient<'a> {
    engine: &'a RocksDbTransactionEngine,
    write: *const ffi::WriteOptions,
    /// The previous transaction object, which the next transaction reuses; null before the first.
    transaction: *mut ffi::Transaction,
}

// SAFETY: a transaction may move between threads as long as one at a time uses it; the options are
// only read.
unsafe impl Send for RocksDbClient<'_> {}

impl RocksDbClient<'_> {
    fn begin(&mut self) {
        let old = self.transaction;
        // SAFETY: the database and the options are open; the old transaction has ended, or is null.
        self.transaction = unsafe {
            match self.engine.handle {
                DatabaseHandle::Locking(db, options) => {
                    ffi::rocksdb_transaction_begin(db, self.write, options, old)
                }
                DatabaseHandle::Optimistic(db, options) => {
                    ffi::rocksdb_optimistictransaction_begin(db, self.write, options, old)
                }
            }
        };
    }
}

impl Drop for RocksDbClient<'_> {
    fn drop(&mut self) {
        if !self.transaction.is_null() {
            // SAFETY: it has ended, and is destroyed once.
            unsafe { ffi::rocksdb_transaction_destroy(self.transaction) };
        }
    }
}

impl TransactionClient for RocksDbClient<'_> {
    fn attempt(&mut self, body: TransactionBody<'_>) -> AttemptResult<()> {
        self.begin();
        let mut failure = LibraryError::default();
        let mut open = RocksDbTransaction {
            engine: self.engine,
            transaction: self.transaction,
        };
        let done = body(&mut open).and_then(|()| {
            // SAFETY: it was begun, and has not ended.
            unsafe { ffi::rocksdb_transaction_commit(self.transaction, failure.slot()) };
            stop(&mut failure)
        });
        if done.is_err() {
            // SAFETY: as above: a commit that fails does not end it.
            unsafe { ffi::rocksdb_transaction_rollback(self.transaction, failure.slot()) };
            failure.take().map_err(AttemptError::Failed)?;
        }
        done
    }
}

struct RocksDbTransaction<'a> {
    engine: &'a RocksDbTransactionEngine,
    transaction: *mut ffi::Transaction,
}

impl EngineTransaction for RocksDbTransaction<'_> {
    fn get_for_update(
        &mut self,
        keyspace: usize,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> AttemptResult<bool> {
        let mut failure = LibraryError::default();
        let family = self.engine.families[keyspace];
        // SAFETY: the key lives through the call; what is returned is null or pins a value until it
        // is destroyed, here.
        unsafe {
            let pinned = ffi::rocksdb_transaction_get_pinned_for_update_cf(
                self.transaction,
                self.engine.read,
                family,
                chars(key),
                key.len(),
                1,
                failure.slot(),
            );
            stop(&mut failure)?;
            if pinned.is_null() {
                return Ok(false);
            }
            let mut bytes = 0;
            let value = ffi::rocksdb_pinnableslice_value(pinned, &raw mut bytes);
            found(slice(value, bytes));
            ffi::rocksdb_pinnableslice_destroy(pinned);
        }
        Ok(true)
    }

    fn put(&mut self, keyspace: usize, key: &[u8], value: &[u8]) -> AttemptResult<()> {
        let mut failure = LibraryError::default();
        let family = self.engine.families[keyspace];
        let (key_at, value_at) = (chars(key), chars(value));
        // SAFETY: the slices live through the call, which copies them.
        unsafe {
            ffi::rocksdb_transaction_put_cf(
                self.transaction,
                family,
                key_at,
                key.len(),
                value_at,
                value.len(),
                failure.slot(),
            );
        }
        stop(&mut failure)
    }
}

/// Classifies an error as a conflict or a failure of the run.
fn stop(failure: &mut LibraryError) -> AttemptResult<()> {
    failure.take().map_err(|error| {
        let text = error.to_string();
        match CONFLICTS.iter().any(|start| text.starts_with(start)) {
            true => AttemptError::Conflict,
            false => AttemptError::Failed(error),
        }
    })
}
