//! Iterators over key ranges of the store, merged with a transaction's own writes.

use super::model::format::InnerKey;
use super::nested_transaction::NestedTransactionWalk;
use super::transaction::CommandTransaction;
use super::vacant_ranges::VacantRanges;
use crate::error::CommandError;
use crate::net::wait_hooks::{self, MayWait};
use alluvium::{Iter, WriteSetIter};

/// A key and its value, both owned.
pub(crate) type OwnedPair = (Vec<u8>, Vec<u8>);

/// A key and its value, both borrowed from the iterator.
pub(crate) type LentPair<'w> = (&'w [u8], &'w [u8]);

/// The direction of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkDirection {
    Forward,
    Backward,
}

/// Maximum length in bytes of the transaction's own values that an iterator with
/// [`ValueSelection::Short`] still returns in full.
const SHORT: usize = 1 << 10;

/// Which values an iterator returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueSelection {
    All,
    /// Empty values, which no record has, may replace long ones: see [`Iter::without_long_values`].
    Short,
}

impl ValueSelection {
    /// Returns what an iterator shows for a value that the transaction has written.
    pub(super) fn shown(self, value: &[u8]) -> &[u8] {
        match self {
            ValueSelection::Short if value.len() > SHORT => &[],
            ValueSelection::Short | ValueSelection::All => value,
        }
    }
}

/// An ordered iterator over a key range, in which the transaction's own writes override the store.
pub(crate) struct TransactionScan<'t> {
    walk: TransactionScanKind<'t>,
    direction: WalkDirection,
    /// If the iteration finds no element, it records this key range in these vacant ranges. Cleared
    /// once the first element is found.
    looks: Option<(&'t VacantRanges, InnerKey, InnerKey)>,
    /// The last returned pair, if the iterator had to copy it to lend it to the caller.
    lent: Option<OwnedPair>,
    _may_wait: MayWait,
}

enum TransactionScanKind<'t> {
    /// Iterates over the store, because the transaction has no writes.
    Store(Box<Iter>),
    /// Iterates over the store, merged with the transaction's own writes.
    Own(Box<WriteSetIter<'t>>),
    /// Iterates over a client's transaction, merged with the writes of one command.
    Within(Box<NestedTransactionWalk<'t>>),
}

impl<'t> TransactionScan<'t> {
    pub(super) fn new(
        transaction: &'t CommandTransaction<'_>,
        start: &[u8],
        end: &[u8],
        direction: WalkDirection,
        values: ValueSelection,
    ) -> TransactionScan<'t> {
        let range = start..end;
        let mut looks = None;
        let store = || match values {
            ValueSelection::All => transaction.store.data.range(range.clone()),
            ValueSelection::Short => transaction.store.data.range(range.clone()).without_long_values(),
        };
        let walk = match (&transaction.within, &transaction.writes) {
            (Some(within), writes) => {
                let way = (direction, values);
                let walk = within.walk(transaction.store, writes.as_deref(), range.clone(), way);
                TransactionScanKind::Within(Box::new(walk))
            }
            (None, None) => TransactionScanKind::Store(Box::new(store())),
            (None, Some(writes)) => {
                let (start, end) = transaction.vacancies.narrow(start, end);
                let walk = writes.range(&start[..]..&end[..]);
                let walk = match values {
                    ValueSelection::All => walk,
                    ValueSelection::Short => walk.without_long_values(),
                };
                looks = Some((&transaction.vacancies, start, end));
                TransactionScanKind::Own(Box::new(walk))
            }
        };
        TransactionScan {
            walk,
            direction,
            looks,
            lent: None,
            _may_wait: wait_hooks::may_wait(),
        }
    }

    /// Returns the next pair. Copies it only if the iterator merges writes with the stored data.
    pub(crate) fn lend(&mut self) -> Result<Option<LentPair<'_>>, CommandError> {
        if matches!(self.walk, TransactionScanKind::Store(_)) {
            let TransactionScanKind::Store(walk) = &mut self.walk else {
                return Ok(None);
            };
            return Ok(match self.direction {
                WalkDirection::Forward => walk.lend()?,
                WalkDirection::Backward => walk.lend_back()?,
            });
        }
        self.lent = self.next()?;
        Ok(self.lent.as_ref().map(|(key, value)| (&key[..], &value[..])))
    }

    pub(crate) fn next(&mut self) -> Result<Option<OwnedPair>, CommandError> {
        let next = match (&mut self.walk, self.direction) {
            (TransactionScanKind::Store(walk), WalkDirection::Forward) => walk.next(),
            (TransactionScanKind::Store(walk), WalkDirection::Backward) => walk.next_back(),
            (TransactionScanKind::Own(walk), WalkDirection::Forward) => walk.next(),
            (TransactionScanKind::Own(walk), WalkDirection::Backward) => walk.next_back(),
            (TransactionScanKind::Within(walk), _) => return walk.next(),
        };
        let next = next.transpose()?;
        if let Some((vacancies, start, end)) = self.looks.take() {
            match (&next, self.direction) {
                (None, _) => vacancies.note(&start, &end),
                (Some((key, _)), WalkDirection::Forward) => vacancies.note(&start, key),
                (Some((key, _)), WalkDirection::Backward) => vacancies.note(&[key, &[0][..]].concat(), &end),
            }
        }
        Ok(next.map(|(key, value)| (key, value.into_vec())))
    }
}
