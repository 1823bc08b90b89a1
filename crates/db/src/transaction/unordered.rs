//! Iterates in unspecified order over a keyspace as a transaction sees it, including its own
//! writes.

use super::Transaction;
use super::own_writes::OwnEffect;
use super::read::ReadIntent;
use super::spilled_writes::{SpilledEffect, SpilledWalk};
use super::tracker::ReadConsequence;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::locking::lock_manager::RangeLockMode;
use crate::read::pin::SnapshotPin;
use crate::read::unordered::UnorderedScan;
use crate::read::value::KeyValuePair;
use crate::transaction::write_set::{IterEnd, KeyState, OverlayLayer, WriteSet, WriteSetLayer};
use alluvium_dictionary::batch::LongValues;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// An iterator that returns each key of a keyspace with its value once, as the transaction sees
/// them. Using it makes the transaction depend on the whole keyspace.
pub struct TransactionUnorderedScan<'t> {
    transaction: &'t Transaction,
    keyspace: Keyspace,
    own: OwnSources,
    /// The store's records. `None` before the first record is requested.
    store: Option<UnorderedScan>,
    long_values: LongValues,
    is_over: bool,
}

/// The transaction's writes to a keyspace when the iterator was created.
struct OwnSources {
    set: Option<WriteSet>,
    /// The keys of `set` that have not been returned yet.
    in_memory: Option<WriteSetLayer>,
    spilled: Option<SpilledWalk>,
    /// Whether the keys of `spilled` have all been returned.
    are_spilled_over: bool,
    error: Option<Error>,
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
    /// to come first. The iterator sees the writes as of this call; see [`Transaction::range`].
    ///
    /// ```
    /// use alluvium::{HashedOptions, KeyspaceOptions, Structure};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let hashed = KeyspaceOptions::new().structure(Structure::Hashed(HashedOptions::default()));
    /// let blobs = db.keyspace_with("blobs", &hashed)?;
    /// blobs.put("one", "1")?;
    /// blobs.put("two", "2")?;
    /// let change = db.begin();
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
            own: self.own_sources(keyspace),
            store: None,
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

    fn own_sources(&self, keyspace: &Keyspace) -> OwnSources {
        let own = self.own.lock();
        let set = own.sets.get(&keyspace.number()).map(WriteSet::view);
        let now_ms = self.handle.open.now_ms;
        let spilled = own.spilled.walk(keyspace, &keyspace.whole(), now_ms);
        drop(own);
        let (spilled, error) = match spilled {
            Ok(spilled) => (spilled, None),
            Err(error) => (None, Some(error)),
        };
        let all = (Bound::Unbounded, Bound::Unbounded);
        OwnSources {
            in_memory: set.as_ref().map(|set| WriteSetLayer::new(set, all)),
            set,
            are_spilled_over: spilled.is_none(),
            spilled,
            error,
        }
    }

    fn store_scan(&self, keyspace: &Keyspace, long_values: LongValues) -> Result<UnorderedScan> {
        self.depend_on_all(keyspace)?;
        let now_ms = self.handle.open.now_ms;
        let _entered = self.enter(keyspace)?;
        let pinned = match self.handle.open.place() {
            Some(place) => SnapshotPin::at(&self.shared, place),
            // The transaction holds the lock, so the latest version cannot change.
            None => SnapshotPin::now(&self.shared),
        };
        let store = UnorderedScan::new(keyspace.handle(), Some(Arc::new(pinned.by_clock(now_ms))));
        Ok(match long_values {
            LongValues::Read => store,
            LongValues::LeftOut => store.without_long_values(),
        })
    }
}

impl OwnSources {
    fn state(&self, key: &[u8]) -> KeyState {
        self.set
            .as_ref()
            .map_or_else(KeyState::default, |set| set.state(key))
    }

    /// Returns the effect of the writes on a key.
    fn effect_on(&self, key: &[u8], long_values: LongValues) -> Result<OwnEffect> {
        let in_memory = self.state(key);
        let spilled = match &self.spilled {
            Some(spilled) if in_memory.asks_store() => spilled.effect_on(key, long_values)?,
            _ => SpilledEffect::Nothing,
        };
        Ok(OwnEffect::new(in_memory, spilled))
    }

    /// Removes and returns the next key that has been written to. Returns `None` at the end.
    fn next_key(&mut self) -> Result<Option<Vec<u8>>> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if let Some(key) = next_key(&mut self.in_memory)? {
            return Ok(Some(key));
        }
        while !self.are_spilled_over {
            match next_key(&mut self.spilled)? {
                Some(key) if !self.state(&key).is_touched() => return Ok(Some(key)),
                Some(_) => {}
                None => self.are_spilled_over = true,
            }
        }
        Ok(None)
    }
}

/// Removes and returns the next key of a source of writes. Returns `None` at the end.
fn next_key(writes: &mut Option<impl OverlayLayer>) -> Result<Option<Vec<u8>>> {
    let Some(writes) = writes else {
        return Ok(None);
    };
    let key = writes.peek(IterEnd::Front)?.map(<[u8]>::to_vec);
    if key.is_some() {
        drop(writes.take(IterEnd::Front, None)?);
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
        self.store = None;
        self
    }

    fn step(&mut self) -> Result<Option<KeyValuePair>> {
        let (transaction, keyspace) = (self.transaction, &self.keyspace);
        let long_values = self.long_values;
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(transaction.store_scan(keyspace, long_values)?),
        };
        drop(transaction.enter(keyspace)?);
        let read = (ReadIntent::Read, keyspace.without_operands(long_values));
        while let Some(key) = self.own.next_key()? {
            let effect = self.own.effect_on(&key, read.1)?;
            if let Some(value) = transaction.read_over(keyspace, &key, effect, read)? {
                return Ok(Some((key, value.shown(long_values))));
            }
        }
        for pair in store {
            let (key, value) = pair?;
            if !self.own.effect_on(&key, LongValues::LeftOut)?.is_touched() {
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
