//! Iterates in unspecified order over a keyspace as a transaction sees it, including its own
//! writes.

use super::Transaction;
use super::read::ReadIntent;
use super::spilled_writes::{SpilledEffect, SpilledWalk};
use super::tracker::ReadConsequence;
use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::locking::lock_manager::RangeLockMode;
use crate::read::pin::SnapshotPin;
use crate::read::unordered::UnorderedScan;
use crate::read::value::{KeyValuePair, Value};
use crate::transaction::write_set::{IterEnd, OverlayLayer, WriteSetLayer};
use alluvium_dictionary::batch::LongValues;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// An iterator that returns each key of a keyspace with its value once, as the transaction sees
/// them. Using it makes the transaction depend on the whole keyspace.
pub struct TransactionUnorderedScan<'t> {
    transaction: &'t Transaction,
    keyspace: Keyspace,
    /// The sources of records, in the order in which they are read. `None` before the first record
    /// is requested.
    sources: Option<UnorderedSources<'t>>,
    long_values: LongValues,
    is_over: bool,
}

/// The sources that make up the transaction's view of a keyspace.
struct UnorderedSources<'t> {
    own: Option<WriteSetLayer<'t>>,
    spilled: Option<SpilledWalk>,
    store: UnorderedScan,
}

impl fmt::Debug for TransactionUnorderedScan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionUnorderedScan")
            .field("keyspace", &self.keyspace.name())
            .finish_non_exhaustive()
    }
}

impl Transaction {
    /// Returns an iterator over all keys of a keyspace and their values, in unspecified order. It
    /// works for every structure, including the hashed one. Keys that the transaction has written
    /// to come first.
    ///
    /// ```
    /// use alluvium::{HashedOptions, KeyspaceOptions, Structure};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let hashed = KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::default()));
    /// let blobs = db.keyspace_with("blobs", &hashed)?;
    /// blobs.put("one", "1")?;
    /// blobs.put("two", "2")?;
    /// let mut change = db.begin();
    /// change.delete(&blobs, "one")?;
    /// change.put(&blobs, "three", "3")?;
    /// let names = change.unordered(&blobs).map(|pair| pair.map(|(name, _)| name));
    /// assert_eq!(names.collect::<Result<Vec<_>, _>>()?, [b"three".to_vec(), b"two".to_vec()]);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn unordered(&self, keyspace: &Keyspace) -> TransactionUnorderedScan<'_> {
        TransactionUnorderedScan {
            transaction: self,
            keyspace: keyspace.clone(),
            sources: None,
            long_values: LongValues::Read,
            is_over: false,
        }
    }

    /// Locks or tracks all keys of a keyspace, so that the transaction depends on them (T1, T2).
    fn depend_on_all(&self, keyspace: &Keyspace) -> Result<()> {
        drop(self.enter(keyspace)?);
        let (definition, whole) = (keyspace.definition(), keyspace.whole());
        if self.is_serializable() && self.is_locking() {
            return self.lock(&whole, RangeLockMode::Shared);
        }
        let Some(consequence) = self.scan_consequence(keyspace) else {
            return Ok(());
        };
        if consequence == ReadConsequence::Observation {
            self.upgrade_merge_locks(keyspace, &whole)?;
        }
        let mut tracker = self.tracker.lock();
        let walk = tracker.begin_walk(definition, &whole, consequence, self.options.max_tracked)?;
        tracker.end_walk(walk, &[whole]);
        self.tell_reads(tracker.len());
        Ok(())
    }

    fn sources(&self, keyspace: &Keyspace, long_values: LongValues) -> Result<UnorderedSources<'_>> {
        self.depend_on_all(keyspace)?;
        let now_ms = self.handle.open.now_ms;
        let _entered = self.enter(keyspace)?;
        let pinned = match self.handle.open.place() {
            Some(place) => SnapshotPin::at(&self.shared, place),
            // The transaction holds the lock, so the latest version cannot change.
            None => SnapshotPin::now(&self.shared),
        };
        let all = (Bound::Unbounded, Bound::Unbounded);
        let own = self.writes.get(&keyspace.number());
        let store = UnorderedScan::new(keyspace.handle(), Some(Arc::new(pinned.by_clock(now_ms))));
        Ok(UnorderedSources {
            own: own.map(|own| WriteSetLayer::new(own, all)),
            spilled: self.spilled.walk(keyspace, &keyspace.whole(), now_ms)?,
            store: match long_values {
                LongValues::Read => store,
                LongValues::LeftOut => store.without_long_values(),
            },
        })
    }

    /// Returns whether one of the transaction's unspilled writes affects a key.
    fn has_own(&self, keyspace: &Keyspace, key: &[u8]) -> bool {
        let own = self.writes.get(&keyspace.number());
        own.is_some_and(|own| own.own(key).is_some())
    }

    /// Returns whether the transaction has written to a key, or deleted a range that contains it,
    /// counting both unspilled and spilled writes.
    fn has_written(&self, keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
        if self.has_own(keyspace, key) {
            return Ok(true);
        }
        let said = self
            .spilled
            .effect_on((keyspace, LongValues::LeftOut), key, self.handle.open.now_ms)?;
        Ok(!matches!(said, SpilledEffect::Nothing))
    }
}

/// Removes and returns the next key of a source of writes. Returns `None` at the end.
fn next_key(writes: &mut Option<impl OverlayLayer>) -> Result<Option<Vec<u8>>> {
    let Some(upper) = writes else {
        return Ok(None);
    };
    let key = upper.peek(IterEnd::Front)?.map(<[u8]>::to_vec);
    match key {
        Some(_) => drop(upper.take(IterEnd::Front, None)?),
        None => *writes = None,
    }
    Ok(key)
}

impl<'t> TransactionUnorderedScan<'t> {
    /// Makes the iterator return an empty value in place of each value longer than 1 KiB. Values
    /// stored outside leaves are then not read, unless merge operands may depend on them; see
    /// [`UnorderedScan::without_long_values`].
    #[must_use]
    pub fn without_long_values(mut self) -> TransactionUnorderedScan<'t> {
        self.long_values = LongValues::LeftOut;
        self.sources = None;
        self
    }

    fn step(&mut self) -> Result<Option<KeyValuePair>> {
        let (transaction, keyspace) = (self.transaction, &self.keyspace);
        let long_values = self.long_values;
        let read = |key: &[u8]| transaction.get_for(keyspace, key, ReadIntent::Read, long_values);
        let shown = |value: Value| value.shown(long_values);
        let sources = match &mut self.sources {
            Some(sources) => sources,
            none => none.insert(transaction.sources(keyspace, self.long_values)?),
        };
        drop(transaction.enter(keyspace)?);
        while let Some(key) = next_key(&mut sources.own)? {
            if let Some(value) = read(&key)? {
                return Ok(Some((key, shown(value))));
            }
        }
        while let Some(key) = next_key(&mut sources.spilled)? {
            if !transaction.has_own(keyspace, &key)
                && let Some(value) = read(&key)?
            {
                return Ok(Some((key, shown(value))));
            }
        }
        for pair in sources.store.by_ref() {
            let (key, value) = pair?;
            if !transaction.has_written(keyspace, &key)? {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }
}

impl Iterator for TransactionUnorderedScan<'_> {
    type Item = Result<KeyValuePair>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.step().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}
