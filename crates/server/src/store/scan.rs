//! Walks over the store with a transaction's own writes laid over it.

use super::transaction::Transaction;
use super::vacancies::Vacancies;
use super::within::WithinWalk;
use crate::error::Failure;
use crate::model::format::InnerKey;
use crate::waits::{self, MayWait};
use alluvium::{Iter, WriteSetIter};

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A key and its value, where the walk has them.
pub(crate) type LentPair<'w> = (&'w [u8], &'w [u8]);

/// From which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// The longest value that is shown of records in memory where long ones may come as empty ones.
const SHORT: usize = 1 << 10;

/// Which values a walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    All,
    /// Long ones may come as empty ones, which no record is: see [`Iter::without_long_values`].
    Short,
}

impl Values {
    /// Returns what a walk shows of a value in memory.
    pub(super) fn shown(self, value: &[u8]) -> &[u8] {
        match self {
            Values::Short if value.len() > SHORT => &[],
            Values::Short | Values::All => value,
        }
    }
}

/// Keys and values in order. What the transaction has written goes before what the store has.
pub(crate) struct Scan<'t> {
    walk: Walk<'t>,
    direction: Direction,
    /// Where it looks, until it has found its first element, and who wants to know of it.
    looks: Option<(&'t Vacancies, InnerKey, InnerKey)>,
    /// What was lent last, where it had to be copied.
    lent: Option<Pair>,
    _may_wait: MayWait,
}

enum Walk<'t> {
    /// Over the store alone: nothing was written.
    Store(Box<Iter>),
    /// Over the store with own writes.
    Own(Box<WriteSetIter<'t>>),
    /// Over what the transaction of a client sees, with own writes.
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

    /// Returns the next key and its value, without copies where the store alone is walked over.
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

    /// Returns the next key and its value.
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
