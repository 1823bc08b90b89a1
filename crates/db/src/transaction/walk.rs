//! Ordered iterators over a keyspace as a transaction sees it, with its own writes overlaid on the
//! store.

use super::Transaction;
use super::locked_walk::LockedWalk;
use super::spilled_writes::SpilledWalk;
use super::tracker::ReadConsequence;
use crate::error::{Error, Result};
use crate::keyspace::Keyspace;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::read::iter::{self, Iter};
use crate::read::pin::SnapshotPin;
use crate::read::value::{KeyValuePair, Value};
use crate::transaction::write_set::{BaseWalk, OverlayIter, WriteSetLayer, slices};
use alluvium_dictionary::range::KeyRange;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// The iterator over the store, which the transaction's own writes are overlaid on.
pub(super) enum StoreWalk<'t> {
    /// Reads the snapshot of the transaction.
    Then(Box<Iter>),
    /// Reads the latest versions, and locks the ranges that it scans.
    Locked(LockedWalk<'t>),
    /// The iterator could not be created.
    Failed(Option<Error>),
}

/// The purpose of an iterator, which determines what it reads and what the transaction depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkIntent {
    /// The transaction depends on what is scanned as far as its isolation level requires.
    Read,
    /// The transaction looks for keys to claim, and depends on none of the others.
    Untracked,
}

impl BaseWalk for StoreWalk<'_> {
    fn leave_out_long_values(&mut self) {
        match self {
            StoreWalk::Then(iter) => iter.leave_out_long_values(),
            StoreWalk::Locked(walk) => walk.leave_out_long_values(),
            StoreWalk::Failed(_) => {}
        }
    }
}

impl Iterator for StoreWalk<'_> {
    type Item = Result<KeyValuePair>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            StoreWalk::Then(iter) => iter.next(),
            StoreWalk::Locked(walk) => walk.next(),
            StoreWalk::Failed(error) => error.take().map(Err),
        }
    }
}

impl DoubleEndedIterator for StoreWalk<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            StoreWalk::Then(iter) => iter.next_back(),
            StoreWalk::Locked(walk) => walk.next_back(),
            StoreWalk::Failed(error) => error.take().map(Err),
        }
    }
}

/// A double-ended iterator over keys and values as a transaction sees them. Using it makes the
/// transaction depend on the part of the range that it has scanned, including keys that are absent
/// there, but not on the rest of the range.
pub struct TransactionIter<'t> {
    transaction: &'t Transaction,
    keyspace: Keyspace,
    overlay: OverlayIter<OverlayIter<StoreWalk<'t>, SpilledWalk>, WriteSetLayer>,
    /// The iterator's range of tree keys.
    range: KeyRange,
    intent: WalkIntent,
    /// Number by which the read tracker identifies the iterator. `None` before the first key is
    /// requested.
    tracked: Option<u64>,
    /// The last key returned from each end.
    front: Option<Vec<u8>>,
    back: Option<Vec<u8>>,
    is_over: bool,
}

impl fmt::Debug for TransactionIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionIter")
            .field("keyspace", &self.keyspace.name())
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

impl Transaction {
    /// Returns an iterator over all keys of a keyspace and their values, in key order; see
    /// [`Transaction::range`].
    #[must_use]
    pub fn iter(&self, keyspace: &Keyspace) -> TransactionIter<'_> {
        self.range::<&[u8]>(keyspace, ..)
    }

    /// Returns an iterator over the keys of a keyspace within bounds and their values, in key
    /// order. The iterator returns errors as elements.
    ///
    /// The iterator sees the transaction's writes as of this call. Later writes do not affect it,
    /// whether they are made by this thread or by others. Until it is dropped, it retains the
    /// memory and the disk space of those writes, even if they are replaced or rolled back.
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// rivers.put("Elbe", "1094 km")?;
    /// rivers.put("Rhine", "1233 km")?;
    /// let survey = db.begin();
    /// survey.put(&rivers, "Oder", "840 km")?;
    /// survey.delete(&rivers, "Rhine")?;
    /// let names = survey.range(&rivers, "F"..).map(|pair| pair.map(|(name, _)| name));
    /// assert_eq!(names.collect::<Result<Vec<_>, _>>()?, [b"Oder"]);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> TransactionIter<'_> {
        self.walk(keyspace, slices(&range), WalkIntent::Read)
    }

    /// Returns an iterator like that of [`Transaction::range`], but over the newest versions. The
    /// transaction neither locks nor depends on what the iterator scans.
    pub(super) fn untracked_range<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> TransactionIter<'_> {
        self.walk(keyspace, slices(&range), WalkIntent::Untracked)
    }

    /// Returns the first key of a keyspace and its value, or `None` if the keyspace is empty.
    ///
    /// # Errors
    /// As [`Transaction::get`]; [`Error::NotOrdered`].
    pub fn first(&self, keyspace: &Keyspace) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter(keyspace).next().transpose()
    }

    /// Returns the last key of a keyspace and its value, or `None` if the keyspace is empty.
    ///
    /// # Errors
    /// As [`Transaction::first`].
    pub fn last(&self, keyspace: &Keyspace) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter(keyspace).next_back().transpose()
    }

    fn walk(
        &self,
        keyspace: &Keyspace,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        intent: WalkIntent,
    ) -> TransactionIter<'_> {
        let range = iter::bounds::<&[u8]>(keyspace.definition(), &bounds);
        // Under one lock, because a spill moves writes from the memory to disk.
        let own = self.own.lock();
        let set = own.sets.get(&keyspace.number());
        let set = set.filter(|_| !is_planted(IsolationFault::WalksMissOwnWrites));
        let set = set.map(|set| WriteSetLayer::new(set, bounds));
        let spilled = own.spilled.walk(keyspace, &range, self.handle.open.now_ms);
        drop(own);
        let base = match spilled {
            Ok(spilled) => OverlayIter::new(spilled, self.base(keyspace, &range, intent)),
            Err(error) => OverlayIter::new(None, StoreWalk::Failed(Some(error))),
        };
        TransactionIter {
            transaction: self,
            keyspace: keyspace.clone(),
            overlay: OverlayIter::new(set, base),
            range,
            intent,
            tracked: None,
            front: None,
            back: None,
            is_over: false,
        }
    }

    /// Returns an iterator over the keys of a keyspace that start with a prefix and their values,
    /// in key order.
    #[must_use]
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> TransactionIter<'_> {
        let prefix = prefix.as_ref();
        let high = iter::behind_prefix(prefix);
        let high = high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        self.range::<&[u8]>(keyspace, (Bound::Included(prefix), high))
    }

    fn base(&self, keyspace: &Keyspace, range: &KeyRange, intent: WalkIntent) -> StoreWalk<'_> {
        if let Err(error) = keyspace.definition().require_order() {
            return StoreWalk::Failed(Some(error));
        }
        let _entered = match self.enter(keyspace) {
            Ok(entered) => entered,
            Err(error) => return StoreWalk::Failed(Some(error)),
        };
        let pinned = match (intent, self.handle.open.place()) {
            (WalkIntent::Untracked, _) => SnapshotPin::now(&self.shared),
            (WalkIntent::Read, Some(place)) => SnapshotPin::at(&self.shared, place),
            (WalkIntent::Read, None) => {
                return StoreWalk::Locked(LockedWalk::new(self, keyspace, range.clone()));
            }
        };
        let pinned = pinned.by_clock(self.handle.open.now_ms);
        let iter = Iter::new(keyspace.handle(), range.clone(), Some(Arc::new(pinned)));
        StoreWalk::Then(Box::new(iter))
    }
}

/// One of the two ends of an iterator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkEnd {
    Front,
    Back,
}

impl<'t> TransactionIter<'t> {
    /// Makes the iterator return an empty value in place of each value longer than 1 KiB. Values
    /// stored outside leaves are then not read, unless merge operands may depend on them; see
    /// [`Iter::without_long_values`](crate::Iter::without_long_values).
    ///
    /// ```
    /// # let place = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(place.path().join("store"))?;
    /// let rivers = db.keyspace("rivers")?;
    /// rivers.put("Elbe", "a long story ".repeat(1000))?;
    /// let survey = db.begin();
    /// survey.put(&rivers, "Oder", "840 km")?;
    /// let pairs: Result<Vec<_>, _> = survey.iter(&rivers).without_long_values().collect();
    /// let lens = pairs?.iter().map(|(_, value)| value.len()).collect::<Vec<_>>();
    /// assert_eq!(lens, [0, 6]);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    #[must_use]
    pub fn without_long_values(mut self) -> TransactionIter<'t> {
        self.overlay.leave_out_long_values_of(&self.keyspace);
        self
    }

    fn step(&mut self, end: WalkEnd) -> Option<Result<KeyValuePair>> {
        if self.is_over {
            return None;
        }
        let transaction = self.transaction;
        if let Err(error) = transaction.enter_open().map(drop).and_then(|()| self.track()) {
            self.is_over = true;
            return Some(Err(error));
        }
        let next = match end {
            WalkEnd::Front => self.overlay.next(),
            WalkEnd::Back => self.overlay.next_back(),
        };
        match &next {
            None => self.is_over = true,
            Some(Ok((key, _))) => {
                let last = match end {
                    WalkEnd::Front => &mut self.front,
                    WalkEnd::Back => &mut self.back,
                };
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(&self.keyspace.definition().prefix);
                last.extend_from_slice(key);
            }
            // If a key's value cannot be merged, the iterator continues with the following key.
            Some(Err(Error::BadBase { .. })) => {}
            Some(Err(_)) => self.is_over = true,
        }
        next
    }

    /// Tracks the iterator's whole range until the iterator ends (T2). Does nothing if the
    /// transaction tracks no reads.
    fn track(&mut self) -> Result<()> {
        let transaction = self.transaction;
        if self.tracked.is_some() || self.intent == WalkIntent::Untracked {
            return Ok(());
        }
        let Some(consequence) = transaction.scan_consequence(&self.keyspace) else {
            return Ok(());
        };
        if consequence == ReadConsequence::Observation {
            transaction.upgrade_merge_locks(&self.keyspace, &self.range)?;
        }
        let mut tracker = transaction.tracker.lock();
        let most = transaction.options.max_tracked;
        let definition = self.keyspace.definition();
        self.tracked = Some(tracker.begin_walk(definition, &self.range, consequence, most)?);
        transaction.tell_reads(tracker.len());
        Ok(())
    }

    /// Returns the ranges that the iterator has scanned from each end (T2).
    fn covered(&self) -> Vec<KeyRange> {
        let (low, high) = (&self.range.low, self.range.high.as_deref());
        let upto = |key: &Vec<u8>| {
            let behind = [&key[..], &[0]].concat();
            KeyRange::new(low, Some(&behind))
        };
        if self.is_over && !is_planted(IsolationFault::EndOfWalkIsUntracked) {
            return vec![self.range.clone()];
        }
        if is_planted(IsolationFault::PartOfWalkIsUntracked) {
            return Vec::new();
        }
        let front = self.front.as_ref().map(upto);
        let back = self.back.as_ref().map(|key| KeyRange::new(key, high));
        let back = back.filter(|_| !is_planted(IsolationFault::BackwardWalkIsUntracked));
        front.into_iter().chain(back).collect()
    }
}

impl Drop for TransactionIter<'_> {
    fn drop(&mut self) {
        let Some(walk) = self.tracked else { return };
        let covered = self.covered();
        let mut tracker = self.transaction.tracker.lock();
        tracker.end_walk(walk, &covered);
        self.transaction.tell_reads(tracker.len());
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<KeyValuePair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(WalkEnd::Front)
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(WalkEnd::Back)
    }
}
