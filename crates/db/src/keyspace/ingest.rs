//! Bulk loading of sorted records.

use super::Keyspace;
use crate::engine::{IngestAttachment, RunningIngest};
use crate::error::{Error, Result};
use crate::schema::catalog::CommitKeyspaces;
use crate::schema::format::TreeKey;
use crate::write::batch::{checked_key_of, checked_value, expiry_ms};
use alluvium_base::Message;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// A bulk load of records in key order. [`Ingest::finish`] makes all records visible at once. If
/// the ingest is dropped or the process crashes before then, no record is stored.
///
/// ```
/// # let place = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(place.path().join("store"))?;
/// let years = db.keyspace("years")?;
/// let mut ingest = years.begin_ingest()?;
/// for year in 1000..2000u32 {
///     ingest.put(year.to_be_bytes(), year.to_string())?;
/// }
/// assert!(ingest.put(7u32.to_be_bytes(), "too late").is_err());
/// assert_eq!(years.get(1234u32.to_be_bytes())?, None);
/// assert_eq!(ingest.finish()?, 1000);
/// assert_eq!(years.get(1234u32.to_be_bytes())?.unwrap(), b"1234");
/// # Ok::<(), alluvium::Error>(())
/// ```
#[must_use = "an ingest that is not finished writes nothing"]
pub struct Ingest {
    keyspace: Keyspace,
    under_way: Arc<RunningIngest>,
    first: Option<TreeKey>,
    last: TreeKey,
    /// The key being added. It is swapped with `last` to reuse both buffers.
    next: TreeKey,
    records: u64,
}

impl fmt::Debug for Ingest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingest")
            .field("keyspace", &self.keyspace.name())
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

impl Keyspace {
    /// Bulk-loads records, which must be in strictly ascending key order. They bypass the log and
    /// are written directly to their final location, at the speed of the device. They all become
    /// visible at once, as if put at that moment, and replace earlier values of their keys. Returns
    /// the number of records loaded.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let squares = db.keyspace("squares")?;
    /// squares.ingest((0..1000u64).map(|number| (number.to_be_bytes(), (number * number).to_string())))?;
    /// assert_eq!(squares.get(12u64.to_be_bytes())?.unwrap(), b"144");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsorted`], which contains the offending key; the errors of [`Ingest::put`] and
    /// [`Ingest::finish`]. After an error, nothing has changed.
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let mut ingest = self.begin_ingest()?;
        for (key, value) in records {
            ingest.put(key, value)?;
        }
        ingest.finish()
    }

    /// Starts a bulk load to which the caller adds records one by one.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`]; [`Error::Background`]; [`Error::Closed`].
    pub fn begin_ingest(&self) -> Result<Ingest> {
        self.definition().alive()?;
        self.shared().healthy()?;
        Ok(Ingest {
            under_way: self
                .shared()
                .engine
                .begin_ingest(self.definition().dictionary())?,
            keyspace: self.clone(),
            first: None,
            last: TreeKey::new(),
            next: TreeKey::new(),
            records: 0,
        })
    }
}

impl Ingest {
    /// Adds a record. Its key must be greater than all keys added before.
    ///
    /// # Errors
    /// After [`Error::Unsorted`] and [`Error::TooLong`], the ingest is unchanged and can continue.
    /// After [`Error::is_full`] and I/O errors, the ingest has ended, and further calls fail with
    /// [`Error::IngestEnded`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let expires_ms = self.keyspace.put_expiry_ms();
        self.take(key.as_ref(), value.as_ref(), expires_ms)
    }

    /// Adds a record that expires at the time `expires`. Its key must be greater than all keys
    /// added before.
    ///
    /// # Errors
    /// The same errors as [`Ingest::put`].
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) -> Result<()> {
        self.take(key.as_ref(), value.as_ref(), expiry_ms(expires))
    }

    /// Returns the number of records added so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    fn take(&mut self, key: &[u8], value: &[u8], expires_ms: u64) -> Result<()> {
        let prefix = &self.keyspace.definition().prefix;
        self.next.clear();
        self.next.extend_from_slice(prefix);
        self.next
            .extend_from_slice(checked_key_of(self.keyspace.definition(), key)?);
        let value = checked_value(value)?;
        if self.first.is_some() && self.last >= self.next {
            return Err(Error::Unsorted {
                keyspace: self.keyspace.name(),
                key: key.to_vec(),
                after: self.last[prefix.len()..].to_vec(),
            });
        }
        match self.under_way.push(
            &self.next,
            Message {
                expires_ms,
                ..Message::put(0, value)
            },
        ) {
            Some(pushed) => pushed?,
            None => {
                self.keyspace.shared().engine.is_open()?;
                return Err(Error::IngestEnded);
            }
        }
        if self.first.is_none() {
            self.first = Some(self.next.clone());
        }
        std::mem::swap(&mut self.last, &mut self.next);
        self.records += 1;
        Ok(())
    }

    /// Makes all records visible and durable, and returns their number.
    ///
    /// Earlier writes are checkpointed first, for which concurrent writes may wait a few
    /// milliseconds. The records themselves are already on the device by then. Snapshots taken
    /// before this call do not see them.
    ///
    /// # Errors
    /// [`Error::KeyspaceDropped`], [`Error::IngestEnded`], [`Error::is_full`], I/O errors. After an
    /// error, normally none of the records takes effect. After an I/O error late in the call,
    /// however, the outcome is unknown until the store is reopened.
    pub fn finish(self) -> Result<u64> {
        let shared = &self.keyspace.shared();
        shared.healthy()?;
        if let Some(first) = &self.first {
            let attached = shared.engine.attach(&IngestAttachment {
                ingests: &[&self.under_way],
                stretches: &[(first.clone(), self.last.clone())],
                owners: CommitKeyspaces::One(self.keyspace.definition()),
                is_locked: false,
                terms: None,
            });
            attached?.expect("it depends on nothing");
        }
        Ok(self.records)
    }
}
