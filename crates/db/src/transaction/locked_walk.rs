//! Iterators of locking transactions, which lock the ranges that they scan.
//!
//! The iterator first reads a batch of keys, called a stretch. It then locks the range up to the
//! last key of the stretch, so that no key can be inserted into it. If another commit happened
//! between the read and the lock, the stretch is read again under the lock. The length of stretches
//! doubles, up to 64 keys, so that an iterator that stops early locks little, and a long scan needs
//! few locks.

use super::Transaction;
use crate::error::Result;
use crate::keyspace::Keyspace;
use crate::locking::fault::{IsolationFault, is_planted};
use crate::locking::lock_manager::RangeLockMode;
use crate::read::iter::Iter;
use crate::read::pin::SnapshotPin;
use crate::read::value::KeyValuePair;
use crate::schema::catalog::KeyspaceDefinition;
use crate::schema::format;
use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::range::KeyRange;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of keys in a stretch.
const MOST: usize = 64;

/// A locking double-ended iterator over a range of a keyspace.
pub(super) struct LockedWalk<'t> {
    transaction: &'t Transaction,
    keyspace: Keyspace,
    /// The range between the two ends, neither read nor locked yet.
    left: KeyRange,
    /// Records read but not returned yet: those of the front in ascending order, those of the back
    /// in descending order.
    front: VecDeque<KeyValuePair>,
    back: VecDeque<KeyValuePair>,
    stretch: usize,
    long_values: LongValues,
    has_failed: bool,
}

/// The end of the iterator that a stretch is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StretchEnd {
    Front,
    Back,
}

impl<'t> LockedWalk<'t> {
    pub(super) fn new(transaction: &'t Transaction, keyspace: &Keyspace, range: KeyRange) -> LockedWalk<'t> {
        LockedWalk {
            transaction,
            keyspace: keyspace.clone(),
            left: range,
            front: VecDeque::new(),
            back: VecDeque::new(),
            stretch: 1,
            long_values: LongValues::Read,
            has_failed: false,
        }
    }

    /// Omits long values from all stretches read from now on.
    pub(super) fn leave_out_long_values(&mut self) {
        self.long_values = LongValues::LeftOut;
    }

    fn step(&mut self, end: StretchEnd) -> Option<Result<KeyValuePair>> {
        loop {
            let (own, other) = match end {
                StretchEnd::Front => (&mut self.front, &mut self.back),
                StretchEnd::Back => (&mut self.back, &mut self.front),
            };
            if let Some(pair) = own.pop_front() {
                return Some(Ok(pair));
            }
            if self.left.is_empty() || self.has_failed {
                return other.pop_back().map(Ok);
            }
            if let Err(error) = self.read_stretch(end) {
                self.has_failed = true;
                return Some(Err(error));
            }
        }
    }

    /// Reads the next stretch of keys and locks its range (T1).
    fn read_stretch(&mut self, end: StretchEnd) -> Result<()> {
        let transaction = self.transaction;
        let pinned = self.pinned()?;
        let seen = pinned.sequence();
        let mut pairs = self.read(end, self.left.clone(), pinned, self.stretch)?;
        let definition = self.keyspace.definition();
        let mut stretch = self.left.clone();
        let is_short = is_planted(IsolationFault::EndOfWalkIsNotLocked);
        if let Some((key, _)) = pairs.back().filter(|_| pairs.len() == self.stretch || is_short) {
            match end {
                StretchEnd::Front => stretch.high = Some(behind(key, definition)),
                StretchEnd::Back => stretch.low = format::tree_key(&definition.prefix, key).to_vec().into(),
            }
        }
        if is_planted(IsolationFault::GapsAreNotLocked) {
            for (key, _) in &pairs {
                let key = Transaction::tree_key(&self.keyspace, key);
                transaction.lock(&crate::engine::single_key_range(&key), RangeLockMode::Shared)?;
            }
        } else {
            transaction.lock(&stretch, RangeLockMode::Shared)?;
        }
        if is_short && pairs.len() < self.stretch {
            stretch = self.left.clone();
        }
        let pinned = self.pinned()?;
        if pinned.sequence() != seen {
            pairs = self.read(end, stretch.clone(), pinned, usize::MAX)?;
        }
        match end {
            StretchEnd::Front => {
                self.left = match stretch.high {
                    Some(high) => KeyRange {
                        low: high,
                        high: self.left.high.take(),
                    },
                    None => KeyRange::new(&[], Some(&[])),
                };
                self.front = pairs;
            }
            StretchEnd::Back => {
                self.left.high = Some(stretch.low);
                self.back = pairs;
            }
        }
        self.stretch = (2 * self.stretch).min(MOST);
        Ok(())
    }

    /// Pins the sequence number of the latest visible commit.
    fn pinned(&self) -> Result<SnapshotPin> {
        let _entered = self.transaction.enter(&self.keyspace)?;
        let now_ms = self.transaction.handle.open.now_ms;
        Ok(SnapshotPin::now(&self.transaction.shared).by_clock(now_ms))
    }

    fn read(
        &self,
        end: StretchEnd,
        range: KeyRange,
        pinned: SnapshotPin,
        most: usize,
    ) -> Result<VecDeque<KeyValuePair>> {
        let mut iter = Iter::new(self.keyspace.handle(), range, Some(Arc::new(pinned)));
        if self.long_values == LongValues::LeftOut {
            iter.leave_out_long_values();
        }
        match end {
            StretchEnd::Front => iter.take(most).collect(),
            StretchEnd::Back => std::iter::from_fn(|| iter.next_back()).take(most).collect(),
        }
    }
}

impl Iterator for LockedWalk<'_> {
    type Item = Result<KeyValuePair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(StretchEnd::Front)
    }
}

impl DoubleEndedIterator for LockedWalk<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(StretchEnd::Back)
    }
}

/// Returns the immediate successor of a user key, as a tree key.
fn behind(key: &[u8], definition: &KeyspaceDefinition) -> Box<[u8]> {
    let mut behind = format::tree_key(&definition.prefix, key);
    behind.push(0);
    behind.to_vec().into()
}
