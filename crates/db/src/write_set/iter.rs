//! Walks over what a store has with the writes of a set laid over it.

use super::write::Write;
use super::{Bounds, WriteSet};
use crate::ranges::Key;
use crate::{Iter, Result, Value};
use std::cmp::Ordering;
use std::collections::btree_map;
use std::fmt;
use std::ops::Bound;

/// A key and its value.
type Pair = (Vec<u8>, Value);

/// An iterator of which the next element from either end can be looked at.
struct Ends<I: DoubleEndedIterator> {
    iter: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
}

impl<I: DoubleEndedIterator> Ends<I> {
    fn new(iter: I) -> Ends<I> {
        Ends {
            iter,
            front: None,
            back: None,
        }
    }

    /// Takes the next element of an end. The last one of all may have been looked at from the other
    /// end.
    fn take(&mut self, end: End) -> Option<I::Item> {
        match end {
            End::Front => {
                let next = self.front.take().or_else(|| self.iter.next());
                next.or_else(|| self.back.take())
            }
            End::Back => {
                let next = self.back.take().or_else(|| self.iter.next_back());
                next.or_else(|| self.front.take())
            }
        }
    }

    /// Looks at the next element of an end.
    fn peek(&mut self, end: End) -> Option<&I::Item> {
        let next = self.take(end);
        let place = match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        *place = next;
        place.as_ref()
    }
}

/// An end of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// An iterator over keys and values, from either end: what the store has, with the writes of a
/// [`WriteSet`] over it.
#[derive(Debug)]
pub struct WriteSetIter<'w>(pub(super) Overlay<'w, Iter>);

/// A walk over what `base` has, with the writes of a set over it.
pub(crate) struct Overlay<'w, B: DoubleEndedIterator> {
    set: Option<&'w WriteSet>,
    base: Ends<B>,
    /// Nothing if there are no bounds for it.
    own: Option<Ends<btree_map::Range<'w, Key, Write>>>,
}

impl<B: DoubleEndedIterator> fmt::Debug for Overlay<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay")
            .field("set", &self.set)
            .finish_non_exhaustive()
    }
}

impl<'w, B: DoubleEndedIterator<Item = Result<Pair>>> Overlay<'w, B> {
    pub(crate) fn new(set: Option<&'w WriteSet>, base: B, bounds: Bounds<'_>) -> Overlay<'w, B> {
        let own = set.filter(|_| has_keys(bounds));
        Overlay {
            set,
            base: Ends::new(base),
            own: own.map(|set| Ends::new(set.writes.by_key().range::<[u8], _>(bounds))),
        }
    }

    /// Looks at the next key of the store that no deleted range hides (A5).
    fn peek_base(&mut self, end: End) -> Result<Option<&[u8]>> {
        while let Some(Ok((key, _))) = self.base.peek(end)
            && self.set.is_some_and(|set| set.hides(key))
        {
            self.base.take(end);
        }
        // An error is handed out once, and the walk goes on behind it.
        if matches!(self.base.peek(end), Some(Err(_)))
            && let Some(Err(error)) = self.base.take(end)
        {
            return Err(error);
        }
        let next = self.base.peek(end);
        Ok(next.and_then(|next| next.as_ref().ok()).map(|(key, _)| &key[..]))
    }

    fn step(&mut self, end: End) -> Result<Option<Pair>> {
        loop {
            let own = self.own.as_mut().and_then(|own| own.peek(end).copied());
            let base = self.peek_base(end)?;
            let order = match (base, own) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(base), Some((key, _))) => match end {
                    End::Front => base.cmp(&key[..]),
                    End::Back => key[..].cmp(base),
                },
            };
            if order.is_lt() {
                return self.base.take(end).transpose();
            }
            // What the store has is hidden (A5), or merged into.
            let below = match order {
                Ordering::Equal => self.base.take(end).transpose()?,
                _ => None,
            };
            let own = self.own.as_mut().and_then(|own| own.take(end));
            if let (Some((key, write)), Some(set)) = (own, self.set)
                && let Some(value) = set.read_over(key, write, below.map(|(_, value)| value))?
            {
                return Ok(Some((key.to_vec(), value)));
            }
        }
    }
}

/// Whether there are keys between bounds: a map panics about bounds in the wrong order.
fn has_keys(bounds: Bounds<'_>) -> bool {
    match bounds {
        (Bound::Included(start), Bound::Included(end)) => start <= end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
        | (Bound::Excluded(start), Bound::Included(end)) => start < end,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
    }
}

impl<B: DoubleEndedIterator<Item = Result<Pair>>> Iterator for Overlay<'_, B> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front).transpose()
    }
}

impl<B: DoubleEndedIterator<Item = Result<Pair>>> DoubleEndedIterator for Overlay<'_, B> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back).transpose()
    }
}

impl Iterator for WriteSetIter<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl DoubleEndedIterator for WriteSetIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}
