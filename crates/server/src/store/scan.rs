//! Walks over the store merged with a transaction's own writes.

use super::model::format::InnerKey;
use super::transaction::Transaction;
use super::vacancies::Vacancies;
use super::within::WithinWalk;
use crate::error::Failure;
use crate::net::waits::{self, MayWait};
use alluvium::{Iter, WriteSetIter};

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A key and its value, borrowed from the walk.
pub(crate) type LentPair<'w> = (&'w [u8], &'w [u8]);

/// The direction of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// Longest value of an own write that is returned in full when long values may be replaced by empty
/// ones.
const SHORT: usize = 1 << 10;

/// The values that a walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    All,
    /// Long values may be replaced by empty ones, which no record has: see
    /// [`Iter::without_long_values`].
    Short,
}

impl Values {
    /// Returns the value as a walk presents it.
    pub(super) fn shown(self, value: &[u8]) -> &[u8] {
        match self {
            Values::Short if value.len() > SHORT => &[],
            Values::Short | Values::All => value,
        }
    }
}

/// An ordered walk. The transaction's own writes override the store.
pub(crate) struct Scan<'t> {
    walk: Walk<'t>,
    direction: Direction,
    /// Until the first element is found: the range searched, and where to record it as empty.
    looks: Option<(&'t Vacancies, InnerKey, InnerKey)>,
    /// The last returned pair, if it had to be copied.
    lent: Option<Pair>,
    _may_wait: MayWait,
}

enum Walk<'t> {
    /// Walks over the store; the transaction has no writes.
    Store(Box<Iter>),
    /// Walks over the store merged with own writes.
    Own(Box<WriteSetIter<'t>>),
    /// Walks over a client's transaction merged with the writes of one command.
    Within(Box<WithinWalk<'t>>),
}

impl<'t> Scan<'t> {
    pub(super) fn new(
        transaction: &'t Transaction<'_>,
        start: &[u8],
        end: &[u8],
        direction: Direction,
        values: Values,
    ) -> Scan<'t> {
        let range = start..end;
        let mut looks = None;
        let store = || match values {
            Values::All => transaction.store.data.range(range.clone()),
            Values::Short => transaction.store.data.range(range.clone()).without_long_values(),
        };
        let walk = match (&transaction.within, &transaction.writes) {
            (Some(within), writes) => {
                let way = (direction, values);
                let walk = within.walk(transaction.store, writes.as_deref(), range.clone(), way);
                Walk::Within(Box::new(walk))
            }
            (None, None) => Walk::Store(Box::new(store())),
            (None, Some(writes)) => {
                let (start, end) = transaction.vacancies.narrow(start, end);
                let walk = writes.range(&start[..]..&end[..]);
                let walk = match values {
                    Values::All => walk,
                    Values::Short => walk.without_long_values(),
                };
                looks = Some((&transaction.vacancies, start, end));
                Walk::Own(Box::new(walk))
            }
        };
        Scan {
            walk,
            direction,
            looks,
            lent: None,
            _may_wait: waits::may_wait(),
        }
    }

    /// Returns the next pair. It is not copied if the walk is over the store alone.
    pub(crate) fn lend(&mut self) -> Result<Option<LentPair<'_>>, Failure> {
        if matches!(self.walk, Walk::Store(_)) {
            let Walk::Store(walk) = &mut self.walk else {
                return Ok(None);
            };
            return Ok(match self.direction {
                Direction::Forward => walk.lend()?,
                Direction::Backward => walk.lend_back()?,
            });
        }
        self.lent = self.next()?;
        Ok(self.lent.as_ref().map(|(key, value)| (&key[..], &value[..])))
    }

    /// Returns the next pair.
    pub(crate) fn next(&mut self) -> Result<Option<Pair>, Failure> {
        let next = match (&mut self.walk, self.direction) {
            (Walk::Store(walk), Direction::Forward) => walk.next(),
            (Walk::Store(walk), Direction::Backward) => walk.next_back(),
            (Walk::Own(walk), Direction::Forward) => walk.next(),
            (Walk::Own(walk), Direction::Backward) => walk.next_back(),
            (Walk::Within(walk), _) => return walk.next(),
        };
        let next = next.transpose()?;
        if let Some((vacancies, start, end)) = self.looks.take() {
            match (&next, self.direction) {
                (None, _) => vacancies.note(&start, &end),
                (Some((key, _)), Direction::Forward) => vacancies.note(&start, key),
                (Some((key, _)), Direction::Backward) => vacancies.note(&[key, &[0][..]].concat(), &end),
            }
        }
        Ok(next.map(|(key, value)| (key, value.into_vec())))
    }
}
