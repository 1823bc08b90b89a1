//! Handles to stores, keyspaces and snapshots.

use crate::error::{HandleError, HandleErrorKind, Result};
use crate::registry::{LiveHandleKind, LiveHandles, LiveTicket};
use crate::transaction::TransactionHandle;
use crate::walk::{WalkHandle, WalkRange};
use alluvium::{
    Db, Error, Keyspace, KeyspaceOptions, Options, Snapshot, TransactionOptions, Value, WriteBatch,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What all handles of a store share.
pub(crate) struct StoreState {
    db: Db,
    pub(crate) live: LiveHandles,
    is_closed: AtomicBool,
}

impl StoreState {
    /// Returns the store, unless it was closed.
    pub(crate) fn db(&self) -> Result<&Db> {
        match self.is_closed.load(Ordering::Acquire) {
            false => Ok(&self.db),
            true => Err(Error::Closed.into()),
        }
    }
}

/// Whether a store is closed while handles of it live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosePolicy {
    /// Closing fails while iterators, snapshots, transactions or ingests live.
    WhenUnused,
    /// The store is closed in any case. Open transactions are rolled back, and all handles that
    /// live answer with the error of a closed store.
    Force,
}

/// A handle to an open store. Clones are the same store.
#[derive(Clone)]
pub struct StoreHandle {
    state: Arc<StoreState>,
}

impl StoreHandle {
    /// Opens the store in a directory, or one in memory if there is no path.
    ///
    /// # Errors
    /// The errors of [`Options::open`].
    pub fn open(path: Option<&Path>, options: &Options) -> Result<StoreHandle> {
        let db = match path {
            Some(path) => options.open(path)?,
            None => options.in_memory()?,
        };
        Ok(StoreHandle {
            state: Arc::new(StoreState {
                db,
                live: LiveHandles::default(),
                is_closed: AtomicBool::new(false),
            }),
        })
    }

    /// Returns the store.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn db(&self) -> Result<&Db> {
        self.state.db()
    }

    /// Returns the number of live iterators, snapshots, transactions and ingests.
    #[must_use]
    pub fn live(&self) -> usize {
        self.state.live.count()
    }

    /// Closes the store. Everything acknowledged is on disk afterwards.
    ///
    /// # Errors
    /// [`HandleErrorKind::InUse`] with the names of the live handles, if `policy` does not ignore
    /// them; [`Error::Closed`] if the store was closed before; I/O errors.
    pub fn close(&self, policy: ClosePolicy) -> Result<()> {
        let db = self.db()?;
        if policy == ClosePolicy::WhenUnused
            && let Some(live) = self.state.live.describe()
        {
            let text = format!(
                "the store cannot be closed while these live: {live}; release them first, or force the close"
            );
            return Err(HandleError::new(HandleErrorKind::InUse, text));
        }
        if self.state.is_closed.swap(true, Ordering::AcqRel) {
            return Err(Error::Closed.into());
        }
        Ok(db.clone().close()?)
    }

    /// Returns the keyspace with this name, creating it if it does not exist. With options, an
    /// existing keyspace must have the same.
    ///
    /// # Errors
    /// The errors of [`Db::keyspace_with`].
    pub fn keyspace(&self, name: &str, options: Option<&KeyspaceOptions>) -> Result<KeyspaceHandle> {
        let db = self.db()?;
        let keyspace = match options {
            None => db.keyspace(name)?,
            Some(options) => db.keyspace_with(name, options)?,
        };
        Ok(self.keyspace_of(keyspace))
    }

    /// Returns the existing keyspace with this name.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; [`Error::Closed`].
    pub fn existing_keyspace(&self, name: &str) -> Result<KeyspaceHandle> {
        Ok(self.keyspace_of(self.db()?.existing_keyspace(name)?))
    }

    fn keyspace_of(&self, keyspace: Keyspace) -> KeyspaceHandle {
        KeyspaceHandle {
            keyspace,
            store: Arc::clone(&self.state),
        }
    }

    /// Writes a batch atomically.
    ///
    /// # Errors
    /// The errors of [`Db::write`].
    pub fn write(&self, batch: &WriteBatch) -> Result<()> {
        Ok(self.db()?.write(batch)?)
    }

    /// Returns a snapshot of the newest commits.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn snapshot(&self) -> Result<SnapshotHandle> {
        let db = self.db()?;
        Ok(self.snapshot_of(db.snapshot()))
    }

    /// Creates a named snapshot, which the store keeps until it is removed.
    ///
    /// # Errors
    /// The errors of [`Db::create_snapshot`].
    pub fn create_snapshot(&self, name: &str) -> Result<SnapshotHandle> {
        Ok(self.snapshot_of(self.db()?.create_snapshot(name)?))
    }

    /// Opens a named snapshot.
    ///
    /// # Errors
    /// [`Error::NoSuchSnapshot`]; [`Error::Closed`].
    pub fn open_snapshot(&self, name: &str) -> Result<SnapshotHandle> {
        Ok(self.snapshot_of(self.db()?.open_snapshot(name)?))
    }

    fn snapshot_of(&self, snapshot: Snapshot) -> SnapshotHandle {
        SnapshotHandle {
            snapshot,
            store: Arc::clone(&self.state),
            _live: self.state.live.enter(LiveHandleKind::Snapshot),
        }
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn begin(&self, options: &TransactionOptions) -> Result<TransactionHandle> {
        let transaction = self.db()?.begin_with(options);
        Ok(TransactionHandle::new(&self.state, transaction))
    }
}

/// A handle to a keyspace. It does not keep a store from being closed, because it holds no view of
/// it.
#[derive(Clone)]
pub struct KeyspaceHandle {
    keyspace: Keyspace,
    store: Arc<StoreState>,
}

impl KeyspaceHandle {
    /// Returns the keyspace.
    ///
    /// # Errors
    /// [`Error::Closed`].
    #[inline]
    pub fn inner(&self) -> Result<&Keyspace> {
        self.store.db()?;
        Ok(&self.keyspace)
    }

    /// Returns the store of the keyspace.
    #[must_use]
    pub fn store(&self) -> StoreHandle {
        StoreHandle {
            state: Arc::clone(&self.store),
        }
    }

    /// Returns an iterator over a range, as of a snapshot or of now.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::OtherStore`] if the snapshot is one of another store.
    pub fn walk(&self, snapshot: Option<&SnapshotHandle>, range: &WalkRange<'_>) -> Result<WalkHandle> {
        let keyspace = self.inner()?;
        if snapshot.is_some_and(|snapshot| !Arc::ptr_eq(&snapshot.store, &self.store)) {
            return Err(Error::OtherStore.into());
        }
        let live = self.store.live.enter(LiveHandleKind::Walk(keyspace.clone()));
        let snapshot = snapshot.map(|snapshot| &snapshot.snapshot);
        Ok(WalkHandle::new(&self.store, live, keyspace, snapshot, range))
    }

    /// Begins to load sorted records, without the log.
    ///
    /// # Errors
    /// The errors of [`Keyspace::begin_ingest`].
    pub fn ingest(&self) -> Result<IngestHandle> {
        let keyspace = self.inner()?;
        let ingest = keyspace.begin_ingest()?;
        Ok(IngestHandle {
            ingest: parking_lot::Mutex::new(Some(ingest)),
            store: Arc::clone(&self.store),
            _live: self.store.live.enter(LiveHandleKind::Ingest(keyspace.clone())),
        })
    }
}

/// A handle to an ingest.
pub struct IngestHandle {
    ingest: parking_lot::Mutex<Option<alluvium::Ingest>>,
    store: Arc<StoreState>,
    _live: LiveTicket,
}

impl IngestHandle {
    /// Adds a record. Its key must be greater than those before it.
    ///
    /// # Errors
    /// The errors of [`alluvium::Ingest::put`]; [`Error::IngestEnded`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.db()?;
        let mut ingest = self.ingest.lock();
        Ok(ingest.as_mut().ok_or(Error::IngestEnded)?.put(key, value)?)
    }

    /// Makes all records visible. Returns their number.
    ///
    /// # Errors
    /// The errors of [`alluvium::Ingest::finish`]; [`Error::IngestEnded`].
    pub fn finish(&self) -> Result<u64> {
        self.store.db()?;
        let ingest = self.ingest.lock().take();
        Ok(ingest.ok_or(Error::IngestEnded)?.finish()?)
    }
}

/// A handle to a snapshot.
pub struct SnapshotHandle {
    snapshot: Snapshot,
    store: Arc<StoreState>,
    _live: LiveTicket,
}

impl SnapshotHandle {
    /// Returns the sequence number of the snapshot.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.snapshot.sequence()
    }

    /// Returns the value of a key as of the snapshot.
    ///
    /// # Errors
    /// The errors of [`Snapshot::get`].
    pub fn get(&self, keyspace: &KeyspaceHandle, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.snapshot.get(keyspace.inner()?, key)?)
    }
}
