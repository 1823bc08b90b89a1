//! Walks over the store with a transaction's own writes laid over it.

use super::transaction::{Transaction, Write};
use crate::error::Failure;
use crate::model::format::InnerKey;
use crate::waits::{self, MayWait};
use alluvium::{Iter, Value};
use std::collections::btree_map;
use std::iter::Peekable;

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// From which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

/// Keys and values in order. What the transaction has written goes before what the store has.
pub(crate) struct Scan<'t> {
    transaction: &'t Transaction<'t>,
    direction: Direction,
    base: Iter,
    /// The next of the store, if it was fetched.
    ahead: Option<Option<(Vec<u8>, Value)>>,
    own: Own<'t>,
    _may_wait: MayWait,
}

enum Own<'t> {
    Forward(Peekable<btree_map::Range<'t, InnerKey, Write>>),
    Backward(Peekable<std::iter::Rev<btree_map::Range<'t, InnerKey, Write>>>),
}

impl<'t> Own<'t> {
    fn peek(&mut self) -> Option<(&'t InnerKey, &'t Write)> {
        match self {
            Own::Forward(range) => range.peek().copied(),
            Own::Backward(range) => range.peek().copied(),
        }
    }

    fn skip(&mut self) {
        match self {
            Own::Forward(range) => range.next(),
            Own::Backward(range) => range.next(),
        };
    }
}

impl<'t> Scan<'t> {
    pub(super) fn new(
        transaction: &'t Transaction<'_>,
        start: InnerKey,
        end: InnerKey,
        direction: Direction,
    ) -> Scan<'t> {
        // An empty range may have its ends in either order; the map panics about that.
        let end = end.max(start.clone());
        let base = transaction.store.data.range(&start[..]..&end[..]);
        let range = transaction.writes.range(start..end);
        let own = match direction {
            Direction::Forward => Own::Forward(range.peekable()),
            Direction::Backward => Own::Backward(range.rev().peekable()),
        };
        Scan {
            transaction,
            direction,
            base,
            ahead: None,
            own,
            _may_wait: waits::may_wait(),
        }
    }

    fn fetch(&mut self) -> Result<(), Failure> {
        if self.ahead.is_some() {
            return Ok(());
        }
        loop {
            let next = match self.direction {
                Direction::Forward => self.base.next(),
                Direction::Backward => self.base.next_back(),
            };
            let found = next.transpose()?;
            let hidden = found
                .as_ref()
                .is_some_and(|(key, _)| self.transaction.is_deleted(key));
            if !hidden {
                self.ahead = Some(found);
                return Ok(());
            }
        }
    }

    /// Returns the next key and its value.
    pub(crate) fn next(&mut self) -> Result<Option<Pair>, Failure> {
        loop {
            self.fetch()?;
            let base = self.ahead.as_ref().and_then(|ahead| ahead.as_ref());
            let Some((key, write)) = self.own.peek() else {
                let found = self.ahead.take().flatten();
                return Ok(found.map(|(key, value)| (key, value.into_vec())));
            };
            let order = base.map(|(found, _)| match self.direction {
                Direction::Forward => found[..].cmp(&key[..]),
                Direction::Backward => key[..].cmp(&found[..]),
            });
            match order {
                Some(std::cmp::Ordering::Less) => {
                    let found = self.ahead.take().flatten();
                    return Ok(found.map(|(key, value)| (key, value.into_vec())));
                }
                Some(std::cmp::Ordering::Equal) => self.ahead = None,
                Some(std::cmp::Ordering::Greater) | None => {}
            }
            self.own.skip();
            if let Write::Put { value, .. } = write {
                return Ok(Some((key.to_vec(), value.clone())));
            }
        }
    }
}
