//! Walks that lock what they pass over.
//!
//! A stretch is read, from where the walk is to the key at which the stretch ends; then it is
//! locked whole, so that no key can appear between its keys. If anything was committed meanwhile it
//! is read again, under the lock. Stretches double, up to some dozen keys: a walk that stops early
//! has locked little, and a long one asks for few locks.

use super::Transaction;
use super::walk::behind;
use crate::fault::{Fault, is_planted};
use crate::format;
use crate::iter::Iter;
use crate::lock_manager::Mode;
use crate::pin::Pinned;
use crate::{Keyspace, Result, Value};
use alluvium_dictionary::batch::LongValues;
use alluvium_dictionary::range::KeyRange;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most keys of a stretch.
const MOST: usize = 64;

type Pair = (Vec<u8>, Value);

/// A walk over a range of a keyspace, from either end.
pub(super) struct LockedWalk<'t> {
    transaction: &'t Transaction,
    keyspace: Keyspace,
    /// What lies between the two stretches: neither read nor locked.
    left: KeyRange,
    /// What was read at the front, ascending, and at the back, descending.
    front: VecDeque<Pair>,
    back: VecDeque<Pair>,
    stretch: usize,
    long_values: LongValues,
    has_failed: bool,
}

/// From which end a stretch is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
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

    /// Leaves long values out of the stretches that are read from now on.
    pub(super) fn leave_out_long_values(&mut self) {
        self.long_values = LongValues::LeftOut;
    }

    fn step(&mut self, end: End) -> Option<Result<Pair>> {
        loop {
            let (own, other) = match end {
                End::Front => (&mut self.front, &mut self.back),
                End::Back => (&mut self.back, &mut self.front),
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

    /// Reads and locks the next stretch (T1).
    fn read_stretch(&mut self, end: End) -> Result<()> {
        let transaction = self.transaction;
        let pinned = self.pinned()?;
        let seen = pinned.sequence();
        let mut pairs = self.read(end, self.left.clone(), pinned, self.stretch)?;
        let definition = self.keyspace.definition();
        let mut stretch = self.left.clone();
        let is_short = is_planted(Fault::EndOfWalkIsNotLocked);
        if let Some((key, _)) = pairs.back().filter(|_| pairs.len() == self.stretch || is_short) {
            match end {
                End::Front => stretch.high = Some(behind(key, definition)),
                End::Back => stretch.low = format::tree_key(&definition.prefix, key).to_vec().into(),
            }
        }
        if is_planted(Fault::GapsAreNotLocked) {
            for (key, _) in &pairs {
                let key = Transaction::tree_key(&self.keyspace, key);
                transaction.lock(definition, &crate::engine::only(&key), Mode::Shared)?;
            }
        } else {
            transaction.lock(definition, &stretch, Mode::Shared)?;
        }
        if is_short && pairs.len() < self.stretch {
            stretch = self.left.clone();
        }
        let pinned = self.pinned()?;
        if pinned.sequence() != seen {
            pairs = self.read(end, stretch.clone(), pinned, usize::MAX)?;
        }
        match end {
            End::Front => {
                self.left = match stretch.high {
                    Some(high) => KeyRange {
                        low: high,
                        high: self.left.high.take(),
                    },
                    None => KeyRange::new(&[], Some(&[])),
                };
                self.front = pairs;
            }
            End::Back => {
                self.left.high = Some(stretch.low);
                self.back = pairs;
            }
        }
        self.stretch = (2 * self.stretch).min(MOST);
        Ok(())
    }

    /// Pins the newest place.
    fn pinned(&self) -> Result<Pinned> {
        let _entered = self.transaction.enter(&self.keyspace)?;
        let now_ms = self.transaction.handle.open.now_ms;
        Ok(Pinned::now(&self.transaction.shared).by_clock(now_ms))
    }

    fn read(&self, end: End, range: KeyRange, pinned: Pinned, most: usize) -> Result<VecDeque<Pair>> {
        let mut iter = Iter::new(self.keyspace.handle(), range, Some(Arc::new(pinned)));
        if self.long_values == LongValues::LeftOut {
            iter.leave_out_long_values();
        }
        match end {
            End::Front => iter.take(most).collect(),
            End::Back => std::iter::from_fn(|| iter.next_back()).take(most).collect(),
        }
    }
}

impl Iterator for LockedWalk<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for LockedWalk<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
    }
}
