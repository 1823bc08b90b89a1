//! Snapshots, which read all keyspaces consistently at one commit.

use crate::engine::ReadPosition;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::read::futures::{GetFuture, MultiGetFuture};
use crate::read::iter::{self, Iter, Keys, Values};
use crate::read::pin::SnapshotPin;
use crate::read::unordered::UnorderedScan;
use crate::read::value::Value;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::SystemTime;

/// A consistent view of all keyspaces as of one commit. Creating a snapshot costs almost nothing.
/// The versions that are visible in it stay on disk as long as it exists.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// let rivers = db.keyspace("rivers")?;
/// rivers.put("Elbe", "1094 km")?;
/// let before = db.snapshot();
/// rivers.put("Elbe", "1094.26 km")?;
/// assert_eq!(before.get(&rivers, "Elbe")?.unwrap(), b"1094 km");
/// rivers.put("Aare", "288 km")?;
/// assert_eq!(before.first(&rivers)?.unwrap().0, b"Elbe");
/// assert!(!before.contains(&rivers, "Aare")?);
/// assert_eq!(before.prefix(&rivers, "E").count(), 1);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    pinned: Arc<SnapshotPin>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("sequence", &self.sequence())
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    pub(crate) fn new(pinned: SnapshotPin) -> Snapshot {
        Snapshot {
            pinned: Arc::new(pinned),
        }
    }

    /// Returns the sequence number of the last commit that is visible in the snapshot.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.pinned.sequence()
    }

    fn at(&self, keyspace: &Keyspace) -> Result<ReadPosition> {
        if keyspace.store_number() != self.pinned.shared().number() {
            return Err(Error::OtherStore);
        }
        Ok(ReadPosition::Pinned(self.sequence()))
    }

    /// Returns the value of a key in the snapshot.
    ///
    /// # Errors
    /// The errors of [`Keyspace::get`]; [`Error::OtherStore`].
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        keyspace.get_at(key.as_ref(), self.at(keyspace)?)
    }

    /// Returns whether a key has a value in the snapshot.
    ///
    /// # Errors
    /// The same errors as [`Snapshot::get`].
    pub fn contains(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        keyspace.contains_at(key.as_ref(), self.at(keyspace)?)
    }

    /// Returns the value of a key in the snapshot, and the time at which the key loses it: see
    /// [`Keyspace::get_with_expiry`].
    ///
    /// # Errors
    /// The same errors as [`Snapshot::get`].
    pub fn get_with_expiry(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(Value, Option<SystemTime>)>> {
        keyspace.get_with_expiry_at(key.as_ref(), self.at(keyspace)?)
    }

    /// Returns the values of many keys in the snapshot, in the order of the keys.
    ///
    /// # Errors
    /// The same errors as [`Snapshot::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        keyspace.multi_get_at(keys, self.at(keyspace)?)
    }

    /// Checks that the keyspace belongs to the snapshot's store, and returns the pinned sequence
    /// number at which the snapshot reads.
    pub(crate) fn pinned_for(&self, keyspace: &Keyspace) -> Result<Arc<SnapshotPin>> {
        self.at(keyspace).map(|_| Arc::clone(&self.pinned))
    }

    /// Returns a future for the value of a key in the snapshot: see [`Keyspace::get_async`]. The
    /// future keeps the snapshot alive.
    ///
    /// # Errors
    /// The same errors as [`Snapshot::get`].
    pub fn get_async(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> GetFuture {
        GetFuture::new(
            keyspace.handle(),
            key.as_ref(),
            self.pinned_for(keyspace).map(Some),
        )
    }

    /// Returns a future for the values of many keys in the snapshot: see
    /// [`Keyspace::multi_get_async`]. The future keeps the snapshot alive.
    ///
    /// # Errors
    /// The same errors as [`Snapshot::get`].
    pub fn multi_get_async<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: impl IntoIterator<Item = K>,
    ) -> MultiGetFuture {
        MultiGetFuture::new(keyspace.handle(), keys, self.pinned_for(keyspace).map(Some))
    }

    /// Returns an iterator over the keys within bounds and their values in the snapshot.
    ///
    /// # Panics
    /// If the keyspace belongs to another store.
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, range: impl RangeBounds<K>) -> Iter {
        assert!(self.at(keyspace).is_ok(), "the keyspace belongs to another store");
        Iter::new(
            keyspace.handle(),
            iter::bounds(keyspace.definition(), &range),
            Some(Arc::clone(&self.pinned)),
        )
    }

    /// Returns an iterator over all keys and values in the snapshot, in unspecified order: see
    /// [`Keyspace::unordered`].
    ///
    /// # Panics
    /// If the keyspace belongs to another store.
    #[must_use]
    pub fn unordered(&self, keyspace: &Keyspace) -> UnorderedScan {
        assert!(self.at(keyspace).is_ok(), "the keyspace belongs to another store");
        UnorderedScan::new(keyspace.handle(), Some(Arc::clone(&self.pinned)))
    }

    /// Returns an iterator over all keys and values in the snapshot.
    ///
    /// # Panics
    /// If the keyspace belongs to another store.
    #[must_use]
    pub fn iter(&self, keyspace: &Keyspace) -> Iter {
        self.range::<&[u8]>(keyspace, ..)
    }

    /// Returns an iterator over the keys with a prefix and their values in the snapshot.
    ///
    /// # Panics
    /// If the keyspace belongs to another store.
    #[must_use]
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Iter {
        let prefix = prefix.as_ref();
        let high = iter::behind_prefix(prefix);
        let high = high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range::<&[u8]>(keyspace, (Bound::Included(prefix), high))
    }

    /// Returns the first key and its value in the snapshot, or `None` if the keyspace was empty.
    ///
    /// # Errors
    /// The same errors as [`Snapshot::get`].
    pub fn first(&self, keyspace: &Keyspace) -> Result<Option<(Vec<u8>, Value)>> {
        self.at(keyspace)?;
        self.iter(keyspace).next().transpose()
    }

    /// Returns the last key and its value in the snapshot, or `None` if the keyspace was empty.
    ///
    /// # Errors
    /// The same errors as [`Snapshot::get`].
    pub fn last(&self, keyspace: &Keyspace) -> Result<Option<(Vec<u8>, Value)>> {
        self.at(keyspace)?;
        self.iter(keyspace).next_back().transpose()
    }

    /// Returns an iterator over all keys in the snapshot, in order.
    ///
    /// # Panics
    /// If the keyspace belongs to another store.
    #[must_use]
    pub fn keys(&self, keyspace: &Keyspace) -> Keys {
        self.iter(keyspace).keys()
    }

    /// Returns an iterator over all values in the snapshot, in the order of their keys.
    ///
    /// # Panics
    /// If the keyspace belongs to another store.
    #[must_use]
    pub fn values(&self, keyspace: &Keyspace) -> Values {
        self.iter(keyspace).values()
    }
}
